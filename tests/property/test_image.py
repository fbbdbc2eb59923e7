"""An image is the definition's state, whatever is in the files and wherever parts of them end."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.directory import find_replicas
from kraftlog.log.names import LOG_FOLDER, segment_name
from kraftlog.log.segment import Limits
from kraftlog.state.encode import encode_batch, metadata_record
from kraftlog.state.window import WINDOW_RECORDS
from tests.definition import defined_at, read_log
from tests.golden.cases import CASES, DATA
from tests.images import built, held_by
from tests.log_coverage import LogCoverage, scan
from tests.property.engines import sealed
from tests.property.test_state_history import Record, histories, spec
from tests.property.wild import Wild
from tests.reading import DEFAULT_LIMITS

CLEAR = Redactor(None)


@pytest.fixture(params=(3, WINDOW_RECORDS), ids=("small", "large"))
def window_records(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small windows, so that states go on from one to the next; and large ones."""
    monkeypatch.setattr("kraftlog.quorum.rebuild.WINDOW_RECORDS", request.param)


def assert_defined(
    coverage: LogCoverage,
    offsets: set[int],
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """The images at some offsets are the definition's, with their faults and open transactions.
    What a log holds behind a batch that begins before the end of the one before it is not known.
    """
    held = held_by(coverage.replica, limits)
    for offset in offsets:
        if not any(low <= offset <= high for low, high in held.ranges):
            with pytest.raises(InputError, match="offset"):
                built(held, offset)
            continue
        image = built(held, offset)
        replay = defined_at(coverage, offset, CLEAR)
        assert image.state == replay.state
        assert image.open_since == replay.open_since
        assert list(image.faults) == replay.faults
        base = held.base_for(offset)
        batches = list(read_log(coverage, base.end_offset if base else 0, offset))
        if batches:
            last = batches[-1]
            assert (image.epoch, image.timestamp) == (last.batch_leader_epoch, last.max_timestamp)
            inside = (last.base_offset, last.end_offset) if last.end_offset > offset else None
            assert image.inside == inside


def coverage_of(folder: Path, *segments: tuple[int, list[bytes]]) -> LogCoverage:
    """The log of some batches, by the base offsets of their segments."""
    (folder / LOG_FOLDER).mkdir()
    for base, batches in segments:
        (folder / LOG_FOLDER / segment_name(base)).write_bytes(b"".join(batches))
    return scan(find_replicas([str(folder)])[0])


def encoded(log: list[Record], base: int) -> bytes:
    records = [metadata_record(spec(one[0]), *one[1:]) for one in log]
    return encode_batch(records, base, 3, 1_000_000 + base)


@pytest.mark.usefixtures("window_records")
@given(histories, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_of_a_log_with_everything_abnormal(log: list[Record], chance: Random) -> None:
    """Cut into batches and segments anywhere; some batches begin before the end of the last."""
    batches: list[tuple[int, bytes]] = []
    at = 0
    while at < len(log):
        end = at + chance.randint(1, 6)
        begin = max(at - chance.choice([0, 0, 0, 2]), 0)
        batches.append((begin, encoded(log[begin:end], begin)))
        at = end
    cut = chance.randrange(len(batches)) if chance.random() < 0.5 else 0
    files = [(0, [raw for _, raw in batches[: cut or None]])]
    if cut:
        files.append((batches[cut][0] or 1, [raw for _, raw in batches[cut:]]))
    with TemporaryDirectory() as folder:
        coverage = coverage_of(Path(folder), *files)
        offsets = {len(log), chance.randint(0, len(log)), chance.randint(0, len(log))}
        assert_defined(coverage, offsets)


@pytest.mark.usefixtures("window_records")
@pytest.mark.parametrize("seed", range(15))
def test_of_records_that_cannot_be_read(seed: int, window_records: int, tmp_path: Path) -> None:
    """Bytes flipped below a CRC that is right, and values that no broker writes."""
    chance = Random(seed)
    wild, batches, at = Wild(chance, 0.02), list[bytes](), 0
    for _ in range(12):
        values = [wild.value() for _ in range(chance.randint(1, 5))]
        raw = bytearray(encoded([("NO_OP_RECORD", 0, {})] * len(values), at))
        whole = bytearray(wild.batch(len(values)))
        whole[:8] = at.to_bytes(8, "big")
        whole[23:27] = (len(values) - 1).to_bytes(4, "big")
        batches.append(sealed(bytes(whole if chance.random() < 0.7 else raw)))
        at += len(values)
    coverage = coverage_of(tmp_path, (0, batches))
    end = coverage.log_end_offset
    assert_defined(coverage, {end, chance.randint(0, end)})


@pytest.mark.parametrize("case", CASES)
def test_of_golden_logs(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what is known begins and ends, and in between, of one replica of each."""
    chance = Random(case)
    monkeypatch.setattr("kraftlog.quorum.rebuild.WINDOW_RECORDS", chance.choice([20, 300]))
    replica = chance.choice(find_replicas([str(DATA / case / "replicas")]))
    coverage, limits = scan(replica), Limits(window_size_bytes=chance.choice([4096, 1 << 22]))
    low, high = chance.choice(coverage.restorable())
    offsets = {low, chance.randint(low, high), high}
    assert_defined(coverage, offsets, limits)
