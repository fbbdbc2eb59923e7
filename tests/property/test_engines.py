"""Two engines, one meaning: the columnar path equals the interpreter on whole and damaged input."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decode import envelopes
from kraftlog.decode.records import FAULT_LIMIT
from kraftlog.log.batch import HEADER_SIZE
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.segment import Limits, Window
from kraftlog.message.catalogue import metadata_specs
from kraftlog.state.encode import encode_batch, metadata_record
from tests.golden.cases import CASES, Replica, replicas_of
from tests.packing import PACKERS, packed
from tests.property.engines import (
    REVEALED,
    MemoryBytes,
    assert_accounted,
    assert_equal_engines,
    assert_equal_parts,
    batches_of,
    flipped,
    header_bits,
    sealed,
    window_of,
    windows,
)
from tests.property.wild import Wild

LOG = Replica("combined", "1").log_dir
SEGMENT = LOG / "00000000000000000070.log"
CHECKPOINT = LOG / "00000000000000000038-0000000001.checkpoint"
SMALLEST = LOG / "00000000000000000000-0000000000.checkpoint"
BOOTSTRAP = Replica("combined", "1").folder / "bootstrap.checkpoint"

WANTED = frozenset({"PARTITION_CHANGE_RECORD", "CONFIG_RECORD", "REGISTER_BROKER_RECORD"})


# --- Whole files ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_golden_files(case: str) -> None:
    """Every batch of a case once: its replicas hold the same ones."""
    seen: set[str] = set()
    for replica in replicas_of(case):
        folder = replica.folder
        for path in sorted([*folder.rglob("*.log"), *folder.rglob("*.checkpoint")]):
            for window in windows(path):
                ids = window.batches.batch_ids
                fresh = [index for index, one in enumerate(ids) if one not in seen]
                seen.update(ids)
                assert_equal_engines(window, chosen=fresh)
    assert seen


@pytest.mark.parametrize("path", [SEGMENT, CHECKPOINT], ids=lambda path: path.name)
def test_wanted_types_alone(path: Path) -> None:
    for window in windows(path):
        whole = assert_equal_engines(window, redactor=REVEALED)
        some = assert_equal_engines(window, wanted=WANTED, redactor=REVEALED)
        assert some.records.keys() == whole.records.keys() & WANTED
        for name, table in some.records.items():
            assert table.equals(whole.records[name])


def test_masking_changes_secret_values_alone() -> None:
    path = Replica("synthetic-every-type", "0").log_dir / f"{0:020d}.log"
    changed, tagged = set[str](), set[str]()
    for window in windows(path):
        clear = assert_equal_engines(window, redactor=REVEALED).records
        masked = assert_equal_engines(window).records
        assert clear.keys() == masked.keys()
        for name, table in clear.items():
            # What nobody can interpret counts as secret, whatever the type.
            tags = (
                table.column("unknown_tagged_fields"),
                masked[name].column("unknown_tagged_fields"),
            )
            tagged |= {name} if not tags[0].equals(tags[1]) else set()
            known = [one.drop_columns("unknown_tagged_fields") for one in (table, masked[name])]
            changed |= {name} if not known[0].equals(known[1]) else set()
    assert tagged > changed
    assert changed == {
        "CONFIG_RECORD",
        "DELEGATION_TOKEN_RECORD",
        "REMOVE_DELEGATION_TOKEN_RECORD",
        "USER_SCRAM_CREDENTIAL_RECORD",
    }


# --- Every damage of small files --------------------------------------------------------------


def damages(batch: bytes) -> Iterator[bytes]:
    """The batch with each single bit flipped, and cut at each byte, under a CRC that is right."""
    for bit in [*header_bits(), *range(HEADER_SIZE * 8, len(batch) * 8)]:
        yield sealed(flipped(batch, bit))
    for end in range(HEADER_SIZE, len(batch)):
        yield sealed(batch[:end])


@pytest.mark.parametrize(
    ("path", "step"),
    [(SEGMENT, 1), (BOOTSTRAP, 1), (CHECKPOINT, 11)],
    ids=["segment", "bootstrap", "checkpoint-sample"],
)
def test_every_flip_and_every_cut_of_every_batch(path: Path, step: int) -> None:
    """Damaged batches are decoded many at a time: quicker, and the broken ones among whole ones are
    the harder case."""
    for batch in batches_of(path):
        damaged = islice(damages(batch), None, None, step)
        while some := list(islice(damaged, 300)):
            assert_equal_engines(window_of([batch, *some, batch], position=1000))


@pytest.mark.parametrize("path", [SEGMENT, BOOTSTRAP], ids=lambda path: path.name)
def test_damaged_batches_one_by_one(path: Path) -> None:
    """A sample of the same, each batch alone in its window."""
    for batch in batches_of(path):
        for damaged in islice(damages(batch), Random(len(batch)).randrange(99), None, 97):
            assert_equal_engines(window_of([damaged]))


def test_every_flip_and_every_cut_of_a_whole_file() -> None:
    """Without a new CRC: every byte is accounted for, and one flip costs one batch at most."""
    raw = SMALLEST.read_bytes()
    batch_count = len(batches_of(SMALLEST))
    for bit in range(len(raw) * 8):
        found = assert_accounted(MemoryBytes(flipped(raw, bit)))
        # What precedes the CRC, base offset and leader epoch, may flip unnoticed.
        assert valid_batches(found) >= batch_count - 1
    for end in range(len(raw)):
        assert_accounted(MemoryBytes(raw[:end]))


def test_every_flip_of_what_frames_the_batches() -> None:
    """The length and magic of every batch of a segment."""
    raw, position = SEGMENT.read_bytes(), 0
    batches = batches_of(SEGMENT)
    for batch in batches:
        for byte in (8, 9, 10, 11, 16):
            for bit in range(8):
                damaged = flipped(raw, (position + byte) * 8 + bit)
                found = assert_accounted(MemoryBytes(damaged))
                assert valid_batches(found) == len(batches) - 1
        position += len(batch)


def valid_batches(found: list[Window | Fault]) -> int:
    return sum(int(one.batches.crc_valid.sum()) for one in found if isinstance(one, Window))


# --- Any damage -------------------------------------------------------------------------------

Damage = Callable[[bytes, Random], bytes]


def cut(raw: bytes, random: Random) -> bytes:
    return raw[: random.randrange(len(raw) + 1)]


def flip(raw: bytes, random: Random) -> bytes:
    return flipped(raw, random.randrange(len(raw) * 8)) if raw else raw


def zero(raw: bytes, random: Random) -> bytes:
    start, end = some_range(raw, random)
    return raw[:start] + bytes(end - start) + raw[end:]


def repeat(raw: bytes, random: Random) -> bytes:
    start, end = some_range(raw, random)
    return raw[:end] + raw[start:]


def drop(raw: bytes, random: Random) -> bytes:
    start, end = some_range(raw, random)
    return raw[:start] + raw[end:]


def insert(raw: bytes, random: Random) -> bytes:
    at = random.randrange(len(raw) + 1)
    return raw[:at] + random.randbytes(random.randrange(200)) + raw[at:]


def some_range(raw: bytes, random: Random) -> tuple[int, int]:
    start, end = sorted(random.randrange(len(raw) + 1) for _ in range(2))
    return start, end


@given(
    damages=st.lists(st.sampled_from([cut, flip, zero, repeat, drop, insert]), max_size=4),
    random=st.randoms(use_true_random=False),
    window_size=st.sampled_from([1, 128, 700, 5000, 1 << 20]),
    batch_size=st.sampled_from([300, 1 << 20]),
)
@settings(max_examples=150, deadline=None)
def test_every_byte_is_accounted_for(
    damages: list[Damage], random: Random, window_size: int, batch_size: int
) -> None:
    raw = SEGMENT.read_bytes()
    for damage in damages:
        raw = damage(raw, random)
    limits = Limits(window_size_bytes=window_size, batch_size_bytes=batch_size)
    assert_accounted(MemoryBytes(raw), limits)


@given(seed=st.integers(0, 1 << 64), oddness=st.sampled_from([0.0, 0.002, 0.01, 0.05]))
@settings(max_examples=80, deadline=None)
def test_wild_batches(seed: int, oddness: float) -> None:
    """Random messages of all types and versions, from regular ones to nothing but nonsense."""
    wild = Wild(Random(seed), oddness)
    window = window_of([wild.batch(record_count=25) for _ in range(4)], position=77)
    found = assert_equal_engines(window)
    assert_equal_engines(window, redactor=REVEALED)
    assert_equal_engines(window, wanted=WANTED, chosen=[2, 0])
    if not oddness:
        assert not found.faults
        assert sum(table.num_rows for table in found.records.values()) == 100


@pytest.mark.parametrize("packer", PACKERS)
def test_compressed_batches_hold_what_the_plain_ones_do(packer: str) -> None:
    plain = batches_of(CHECKPOINT) + batches_of(SEGMENT)
    expected = assert_equal_engines(window_of(plain), redactor=REVEALED)
    found = assert_equal_engines(window_of(packed(one, packer) for one in plain), redactor=REVEALED)
    assert not found.faults
    for one in ("records", "control"):
        tables, others = getattr(found, one), getattr(expected, one)
        assert tables.keys() == others.keys()
        for name, table in tables.items():
            assert table.drop_columns("batch_id").equals(others[name].drop_columns("batch_id"))


@given(seed=st.integers(0, 1 << 64), oddness=st.sampled_from([0.0, 0.002, 0.01, 0.05]))
@settings(max_examples=60, deadline=None)
def test_wild_batches_compressed_or_not(seed: int, oddness: float) -> None:
    """Batches of all codecs among plain ones; some of them do not unpack."""
    random = Random(seed)
    wild = Wild(random, oddness)
    batches = []
    for _ in range(8):
        batch = wild.batch(record_count=random.randrange(1, 12))
        if random.random() < 0.7:
            batch = packed(batch, random.choice(list(PACKERS)))
        if random.random() < oddness * 5:
            batch = sealed(flipped(batch, random.randrange(HEADER_SIZE * 8, len(batch) * 8)))
        batches.append(batch)
    found = assert_equal_engines(window_of(batches, position=77))
    assert_equal_engines(window_of(batches), wanted=WANTED, chosen=[7, 2, 0])
    if not oddness:
        assert not found.faults


@given(seed=st.integers(0, 1 << 64), size=st.sampled_from([1, 2_000, 1 << 20]))
@settings(max_examples=40, deadline=None)
def test_batches_that_unpack_to_much_come_some_at_a_time(seed: int, size: int) -> None:
    random = Random(seed)
    wild = Wild(random, 0.01)
    batches = [wild.batch(record_count=random.randrange(1, 12)) for _ in range(12)]
    is_packed = [random.random() < 0.5 for _ in batches]
    window = window_of(
        packed(one, random.choice(list(PACKERS))) if chosen else one
        for one, chosen in zip(batches, is_packed, strict=True)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelopes, "_GROUP_SIZE", size)
        parts = assert_equal_parts(window)
    assert [index for one in parts for index in one.indexes.tolist()] == [*range(12)]
    if size == 1:
        assert len(parts) == max(1, sum(is_packed))
    if size == 1 << 20:
        assert len(parts) == 1


@given(
    seed=st.integers(0, 1 << 64),
    share=st.sampled_from([0.3, 0.9, 1.0]),
    packer=st.sampled_from([None, *PACKERS]),
)
@settings(max_examples=10, deadline=None)
def test_a_batch_of_too_many_faults_is_given_up(
    seed: int, share: float, packer: str | None
) -> None:
    """Told of are the first ones, and where it was given up; other batches are read in full."""
    random = Random(seed)
    record = metadata_record(metadata_specs()[20], 0, {})
    broken = record._replace(value=b"\1")
    many = [broken if random.random() < share else record for _ in range(4000)]
    good = encode_batch([record] * 3, 5000, 1, 1)
    bad = encode_batch(many, 9, 1, 1)
    if packer is not None:
        bad = packed(bad, packer)
    found = assert_equal_engines(window_of([good, bad, good], position=31))
    assert len(found.faults) == FAULT_LIMIT + 1
    last = found.faults[-1]
    assert last.kind is FaultKind.TOO_MANY_FAULTS
    given_up_at = last.record_index
    assert given_up_at is not None
    assert sum(one is broken for one in many[:given_up_at]) == FAULT_LIMIT
    assert found.records["NO_OP_RECORD"].num_rows == 6 + given_up_at - FAULT_LIMIT
    assert last.position + last.size_bytes == 31 + len(good) + len(bad)


def test_a_window_without_batches() -> None:
    found = assert_equal_engines(window_of([]))
    assert (found.records, found.control, found.faults) == ({}, {}, [])


def test_a_batch_whose_crc_is_wrong_is_one_fault() -> None:
    good = batches_of(SEGMENT)[0]
    bad = flipped(good, len(good) * 8 - 1)
    found = assert_equal_engines(window_of([good, bad], position=5))
    (fault,) = found.faults
    assert fault.kind is FaultKind.BATCH_CRC
    assert (fault.position, fault.size_bytes) == (5 + len(good), len(bad))


@pytest.mark.parametrize("extreme", [(1 << 63) - 1, -(1 << 63), 1 << 62, 9_223_372_036_854_776])
def test_timestamps_beyond_microseconds_are_null(extreme: int) -> None:
    record = metadata_record(metadata_specs()[20], 0, {})
    window = window_of([encode_batch([record, record], 5, 1, extreme)])
    found = assert_equal_engines(window)
    assert found.records["NO_OP_RECORD"]["timestamp"].null_count == 2
    assert not found.faults
