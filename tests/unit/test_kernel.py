"""The compiled part: what its loops read, that they read nothing else, how it is built and loaded,
and what happens without it."""

import ctypes
import mmap
import platform
import subprocess
import sys
import uuid
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kraftlog
from kraftlog.decode.compile import Column, Reader, reader_of
from kraftlog.decode.records import java_long
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.slices import hashes_of
from kraftlog.log.batch import (
    HEADER,
    LOG_APPEND_TIME,
    content_hash,
    crc32c,
    crc_is_valid,
    read_batches,
)
from kraftlog.log.directory import find_replicas
from kraftlog.log.frames import Frame, read_frames
from kraftlog.message.catalogue import metadata_specs
from kraftlog.native import build, folding, kernel
from kraftlog.plain import tell_once
from tests.golden.cases import DATA
from tests.golden.replica_fold import folded_history
from tests.property.engines import assert_equal_engines, assert_equal_slices, flipped, windows
from tests.unit.test_walked import batch

PACKAGE = Path(kraftlog.__file__).parent
READERS = [
    reader
    for spec in metadata_specs().values()
    for version in range(spec.versions.first, spec.versions.last + 1)
    if (reader := reader_of(spec, version))
]
PAGE = mmap.PAGESIZE
REDACTOR = Redactor(bytes(32))


class Guarded:
    """A page of memory before one that nobody may read: who reads beyond a buffer's end dies."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        assert protect(ctypes.c_void_p(start + PAGE), ctypes.c_size_t(PAGE), 0) == 0
        self._page = np.frombuffer(self._map, np.uint8, PAGE)

    def holds(self, data: bytes) -> kernel.Bytes:
        """The bytes, of which the last one is the page's last."""
        place = self._page[PAGE - len(data) :]
        place[:] = np.frombuffer(data, np.uint8)
        return place


CHECKED = (
    *("-std=c11", "-O1", "-shared", "-fPIC", "-ffreestanding", "-fno-builtin", "-nostdlib"),
    *("-fsanitize=undefined", "-fsanitize-trap=undefined"),
)


PARTS = sorted(
    {
        kernel.file_name(platform.machine(), sys.platform, vectors)
        for vectors in ("", pa.runtime_info().simd_level)
    }
)
"""Those that this machine can run: with its vectors, and for machines that have none."""


@pytest.fixture(scope="module", params=product(PARTS, ("as it is", "checked")), ids=" ".join)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    """Bytes before memory that nobody may read, for a compiled part as it is, and for one that dies
    of whatever C leaves undefined."""
    name, how = request.param
    made = PACKAGE / "native" / name
    if how == "checked":
        folder = tmp_path_factory.mktemp(how)
        made = build.build(folder, name.removeprefix("kernel."), CHECKED)
    library = kernel.loaded_library(made)
    with pytest.MonkeyPatch.context() as patch:
        for module in (kernel, folding):
            patch.setattr(module, "library", lambda: library)
        yield Guarded()


def places(*found: int) -> kernel.Places:
    return np.array(found, np.int32)


def test_nobody_may_read_behind_a_guarded_page() -> None:
    """The guard itself: who reads there dies of it."""
    program = "from tests.unit.test_kernel import Guarded; one = Guarded().holds(b'x'); import ctypes; ctypes.string_at(one.ctypes.data, 2)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert ended.returncode < 0


RECORDS = bytes(batch(0, [0, 3, 61])[61:])


@settings(max_examples=300)
@given(st.data())
def test_frames_of_any_bytes(guarded: Guarded, data: st.DataObject) -> None:
    """Whatever the bytes are: nothing behind them is read; and where the lengths lead through to
    the end, the records are those of the definition, or marked."""
    raw = bytearray(data.draw(st.one_of(st.just(RECORDS), st.binary(max_size=80))))
    for _ in range(data.draw(st.integers(0, 3))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    raw = raw[:cut] if data.draw(st.booleans()) else raw
    count = data.draw(st.integers(0, 5))
    held = guarded.holds(bytes(raw))
    found, leads = framed(held, 0, len(raw), count)
    expected = list(read_frames(bytes(raw), 0, len(raw), count))
    if not leads[0]:
        assert not len(found.position)
        return
    assert len(found.position) == len(expected) == count
    for row, one in enumerate(expected):
        assert (found.batch[row], found.record_index[row]) == (0, row)
        assert (found.position[row], found.end[row]) == (one.position, one.end)
        if found.bad[row]:
            continue
        assert isinstance(one, Frame)
        assert one.key_start == -1
        assert one.header_count == 0
        mine = found.timestamp_delta[row], found.offset_delta[row]
        assert mine == (one.timestamp_delta, one.offset_delta)
        assert (found.value_start[row], found.value_end[row]) == (one.value_start, one.value_end)
        assert one.value_start <= found.body[row] <= one.value_end
        key, version = kernel.of_code(int(found.code[row]))
        assert found.code[row] == kernel.NO_CODE or (found.key[row] == key < 128 > version)


def framed(
    raw: kernel.Bytes, start: int, end: int, count: int
) -> tuple[kernel.Envelopes, kernel.Marks]:
    """The records of one batch."""
    headers = np.zeros(1, HEADER)
    headers["record_count"] = count
    return kernel.frames(raw, headers, np.array([0]), np.array([start]), np.array([end]))


LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(st.tuples(LONGS, LONGS, LONGS, st.booleans()), min_size=1, max_size=3), st.data())
def test_rows_are_those_of_the_definition(
    guarded: Guarded, batches: list[tuple[int, int, int, bool]], data: st.DataObject
) -> None:
    """Offsets and times wrap around, as Java's do; a batch may have one time for all its records."""
    raw = b""
    for base, begun, written, is_stamped in batches:
        one = np.zeros(1, HEADER)
        one["base_offset"], one["base_timestamp"], one["max_timestamp"] = base, begun, written
        one["attributes"] = LOG_APPEND_TIME if is_stamped else 0
        one["batch_leader_epoch"] = 3
        raw += one.tobytes()
    headers = guarded.holds(raw).view(HEADER)
    deltas = st.integers(-(1 << 27), (1 << 27) - 1)
    records = data.draw(st.lists(st.tuples(st.sampled_from(range(len(batches))), deltas, deltas)))
    batch, later, after = np.array(records, np.int32).reshape(-1, 3).T.copy()
    none = np.zeros(len(records), np.int32)
    size = none + np.int32(7)
    found = kernel.Envelopes(
        *(batch, batch, none, none, later, after, none, size, none, none),
        *(none.astype(np.uint16), none.astype(np.bool_)),
    )
    order = np.arange(len(records))[::-1].copy()
    told = kernel.envelope_columns(headers, found, order)
    for row, (index, delta, place) in enumerate(reversed(records)):
        base, begun, written, is_stamped = batches[index]
        time = written if is_stamped else java_long(begun + delta)
        expected = index << 32 | index, index, index, java_long(base + place), time
        assert tuple(int(column[row]) for column in told) == (*expected, 3, delta, place, 7)
    if records:
        with pytest.raises(ValueError, match="not there"):
            kernel.envelope_columns(headers[: batch.max()], found, order)


@settings(max_examples=300)
@given(st.sampled_from(READERS), st.lists(st.binary(max_size=90), max_size=4), st.booleans())
def test_fields_of_any_bytes(
    guarded: Guarded, reader: Reader, messages: list[bytes], is_given: bool
) -> None:
    """Nothing behind a message is read, and each has as many values as there are normal ones."""
    raw = b"".join(messages)
    ends = np.cumsum([len(one) for one in messages], dtype=np.int32)
    starts = np.array([0, *ends[:-1]], np.int32)[: len(messages)]
    rows = np.arange(len(messages))
    found = kernel.messages(
        guarded.holds(raw),
        *(rows, starts, ends, reader.program, len(reader.program) - reader.tagged),
        is_given=is_given,
    )
    assert len(found.fields) == (len(reader.program) if is_given else 0)
    fields = iter(found.fields)
    if is_given:
        check_values(reader.columns, int(found.normal.sum()), fields)
    assert next(fields, None) is None


def check_values(
    columns: tuple[Column, ...], count: int, found: Iterator[kernel.Values | None]
) -> None:
    """Each has as many values as it should; of structs the inner ones, as many as there are."""
    for column in columns:
        values = next(found)
        if values is None:
            assert column.field.tag is not None
            continue
        sizes = {kernel.ID: 22, kernel.IDS: 22, kernel.STRUCTS: 0}
        size = sizes.get(column.kind, column.width)
        if column.kind in (kernel.NUMBER, kernel.ID):
            assert len(values.values) == count * size
            continue
        assert len(values.ends) == count + 1
        assert len(values.held) == count
        assert values.ends[0] == 0
        assert (np.diff(values.ends) >= 0).all()
        assert len(values.values) == values.ends[-1] * size
        check_values(column.inner, int(values.ends[-1]), found)


def varint(value: int) -> bytes:
    """A short unsigned one."""
    assert value < 128
    return bytes([value])


def read(fields: list[kernel.Field], plain: int, *messages: bytes) -> kernel.Messages:
    """Messages that stand one after the other."""
    raw = np.frombuffer(b"".join(messages) + b"\0", np.uint8)
    ends = np.cumsum([len(one) for one in messages], dtype=np.int32)
    starts = ends - np.array([len(one) for one in messages], np.int32)
    rows = np.arange(len(messages))
    return kernel.messages(raw, rows, starts, ends, kernel.program(fields), plain)


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "i8", "f8"])
def test_numbers(kind: str) -> None:
    """Plain and in lists, tagged and lacking; of what stands in an abnormal message nothing is left."""
    width = np.dtype(kind).itemsize
    raw = np.arange(200, 200 + 3 * width, dtype=np.uint8).tobytes()
    expected = np.frombuffer(raw, f">{kind}").astype(kind)
    seven = int.from_bytes(np.array([7], f">{kind}").tobytes().ljust(8, b"\0"), sys.byteorder)
    fields = [
        kernel.Field(kernel.NUMBER, width, False),
        kernel.Field(kernel.NUMBERS, width, True),
        kernel.Field(kernel.NUMBER, width, False, tag=3, absent=seven),
        kernel.Field(kernel.NUMBERS, width, True, tag=5, absent=-1),
        kernel.Field(kernel.NUMBERS, width, True, tag=6, absent=0),
        kernel.Field(kernel.NUMBERS, width, True, tag=9, absent=0),
    ]
    first = raw[:width]
    lacking = first + varint(3) + raw[width:] + b"\0" * width
    nothing = b"\0"
    tags = varint(3) + varint(3) + varint(width) + first
    tags += varint(5) + varint(1 + width) + varint(2) + first + varint(6) + varint(1) + varint(0)
    found = read(
        fields,
        2,
        first + varint(3) + raw[width:] + nothing,
        lacking + b"\7",  # abnormal
        first + varint(0) + tags,
        first + varint(3) + raw[width:] + tags[:-1],  # abnormal
        first + varint(1) + nothing,
    )
    assert found.normal.tolist() == [True, False, True, False, True]
    number, numbers, other, null, empty, unseen = found.fields
    assert unseen is None

    def same(values: kernel.Values | None, wanted: list[object]) -> None:
        assert values
        assert repr(values.values.view(kind).tolist()) == repr(np.array(wanted, kind).tolist())

    def lie(values: kernel.Values | None, ends: list[int], held: list[bool]) -> None:
        assert values
        assert (values.ends.tolist(), values.held.tolist()) == (ends, held)

    one = expected[0]
    same(number, [one] * 3)
    same(numbers, [*expected[1:]])
    lie(numbers, [0, 2, 2, 2], [True, False, True])
    same(other, [7, one, 7])
    same(null, [one])
    lie(null, [0, 0, 1, 1], [False, True, False])
    same(empty, [])
    lie(empty, [0, 0, 0, 0], [True, False, True])


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=5))
def test_ids_are_written_as_kafka_writes_them(ids: list[bytes]) -> None:
    expected = b"".join(urlsafe_b64encode(one)[:22] for one in ids)
    plain = [kernel.Field(kernel.ID, 16, False)]
    (found,) = read(plain, 1, *(one + b"\0" for one in ids)).fields
    assert found
    assert found.values.tobytes() == expected
    listed = [kernel.Field(kernel.IDS, 16, False)]
    (found,) = read(listed, 1, varint(1 + len(ids)) + b"".join(ids) + b"\0").fields
    assert found
    assert found.values.tobytes() == expected
    assert found.ends.tolist() == [0, len(ids)]


def test_texts_and_bytes() -> None:
    for kind in (kernel.TEXT, kernel.BYTES):
        fields = [kernel.Field(kind, 1, True)]
        (found,) = read(fields, 1, b"\3ef\0", b"\0\0", b"\4bcd\0", b"\1\0").fields
        assert found
        assert found.values.tobytes() == b"efbcd"
        assert found.ends.tolist() == [0, 2, 2, 5, 5]
        assert found.held.tolist() == [True, False, True, True]
        assert read([kernel.Field(kind, 1, False)], 1, b"\0\0").normal.tolist() == [False]
    long = b"\x81\x80\x02" + bytes(0x8000) + b"\0"
    for kind, is_normal in ((kernel.TEXT, False), (kernel.BYTES, True)):
        assert read([kernel.Field(kind, 1, True)], 1, long).normal.tolist() == [is_normal]


def test_lists_of_structs() -> None:
    """Of what stands in an abnormal message nothing is left, at any depth."""
    fields = [
        kernel.Field(kernel.STRUCTS, 3, True, inner=3),
        kernel.Field(kernel.TEXT, 1, True),
        kernel.Field(kernel.STRUCTS, 2, False, inner=1),
        kernel.Field(kernel.NUMBER, 1, False),
        kernel.Field(kernel.NUMBER, 1, False),
    ]
    two = b"\3" + b"\2a" + b"\3\7\0\x08\0" + b"\0" + b"\0" + b"\1" + b"\0" + b"\5\0"
    one = b"\2" + b"\3bc" + b"\2\x09\0" + b"\0" + b"\6\0"
    tagged = one.replace(b"\x09\0", b"\x09\1")
    found = read(fields, 5, two, b"\0\1\0", two[:-3], tagged, two[:-1] + b"\1", one)
    assert found.normal.tolist() == [True, True, False, False, False, True]
    outer, text, inner, number, last = (one for one in found.fields if one)
    assert outer.ends.tolist() == [0, 2, 2, 3]
    assert outer.held.tolist() == [True, False, True]
    assert text.ends.tolist() == [0, 1, 1, 3]
    assert text.held.tolist() == [True, False, True]
    assert text.values.tobytes() == b"abc"
    assert inner.ends.tolist() == [0, 2, 2, 3]
    assert number.values.tolist() == [7, 8, 9]
    assert last.values.tolist() == [5, 1, 6]
    for count, is_normal in ((1 << 16, True), ((1 << 16) + 1, False)):
        length = bytes([count + 1 & 0x7F | 0x80, count + 1 >> 7 & 0x7F | 0x80, count + 1 >> 14])
        many = read(fields[2:4], 2, length + bytes(2 * count) + b"\0")
        assert many.normal.tolist() == [is_normal]


def test_hashes() -> None:
    topic = uuid.UUID(int=0x0123456789ABCDEF_FEDCBA9876543210)
    body = np.frombuffer((70_000).to_bytes(4, "big") + topic.bytes, np.uint8)
    text = urlsafe_b64encode(topic.bytes).decode()[:22]
    expected = hashes_of(pa.array([text]), np.array([70_000]))
    rows = np.array([0], np.int64)
    assert kernel.hashes(body, rows, places(0), places(20)).tolist() == expected.tolist()
    assert kernel.hashes(body, rows, places(0), places(19)).tolist() == [0]


SIZES = st.lists(st.integers(0, 1000), min_size=1, max_size=6)


@settings(max_examples=200)
@given(SIZES, st.none() | st.binary(min_size=32, max_size=32), st.data())
def test_small_batches_are_those_of_the_libraries(
    guarded: Guarded, sizes: list[int], key: bytes | None, data: st.DataObject
) -> None:
    """As far as they are small, whole and right, with the hashes that BLAKE3's own package finds;
    nothing behind the buffer is read."""
    made = [batch(0, [size]) for size in sizes]
    whole = b"".join(made)
    if data.draw(st.booleans()):
        whole = flipped(whole, data.draw(st.integers(0, 8 * len(whole) - 1)))
    raw = whole[-PAGE:][: data.draw(st.integers(0, PAGE))]
    stop = data.draw(st.integers(0, len(raw)))
    starts, hashes = kernel.small_batches(guarded.holds(raw).data, 0, stop, key)
    at, expected = 0, []
    while at < stop:
        size = 12 + int.from_bytes(raw[at + 8 : at + 12], "big", signed=True)
        one = raw[at : at + max(0, size)]
        if not 61 <= size == len(one) <= kernel.SMALL_BATCH_SIZE or one[16] != 2:
            break
        if not crc_is_valid(one):
            break
        expected.append(at)
        at += size
    assert starts.tolist() == [*expected, at]
    ids = [content_hash(raw[a:b], key) for a, b in pairwise(starts.tolist())]
    assert hashes.hex() == "".join(ids)


@given(st.binary())
@pytest.mark.usefixtures("guarded")
def test_hex(data: bytes) -> None:
    assert kernel.hex_letters(data).tobytes() == data.hex().encode()


def test_thousands_of_small_batches() -> None:
    one, count = batch(0, [1]), 2 * kernel._BATCHES_AT_A_TIME + 808
    whole = one * count
    found, end = read_batches(whole, 0, len(whole), 0, len(whole), lambda *_: False)
    assert end == len(whole)
    assert found.batch_ids == [content_hash(one)] * count
    assert found.positions.tolist() == list(range(0, len(whole), len(one)))


def test_a_smaller_limit_holds_for_small_batches_too() -> None:
    small, large = batch(0, [1]), batch(1, [300])
    whole = small + large + small
    found, end = read_batches(whole, 0, len(whole), 0, len(small), lambda *_: False)
    assert found.positions.tolist() == [0]
    assert end == len(small)


def test_a_second_implementation_still_checks_every_batch() -> None:
    """With `--verify` no batch is taken on one implementation's word."""
    seen = []
    whole = batch(0, [1]) * 3

    def value(data: bytes) -> int:
        seen.append(data)
        return crc32c(data)

    read_batches(whole, 0, len(whole), 0, len(whole), lambda *_: False, None, value)
    assert len(seen) == 3


def test_commands_leave_pandas_alone() -> None:
    """It would take longer than the answer; Spark Connect asks for it."""
    program = (
        "import sys, pyarrow; from kraftlog import __main__, cli; cli.main = lambda: 0; "
        "__main__.main(); pyarrow.array([1]); print('pandas' in sys.modules); "
        "from kraftlog.extras import let_in; let_in('pandas'); import pandas"
    )
    for words in ("records 1", "--debug run"):
        command = [sys.executable, "-c", program, *words.split()]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ended.stdout == "False\n"


def test_what_lies_outside_is_refused() -> None:
    raw, one = np.zeros(4, np.uint8), np.array([0], np.int64)
    for start, end in ((-1, 2), (0, 5), (3, 2)):
        with pytest.raises(ValueError, match="beyond"):
            framed(raw, start, end, 1)
        with pytest.raises(ValueError, match="beyond"):
            kernel.hashes(raw, one, places(start), places(end))
        with pytest.raises(ValueError, match="beyond"):
            kernel.messages(raw, one, places(start), places(end), kernel.program([]), 0)
    for batch_index in (-1, 1):
        with pytest.raises(ValueError, match="beyond"):
            kernel.frames(raw, np.zeros(1, HEADER), one + batch_index, one, one)
    assert not framed(raw, 0, 4, -1)[1].any()
    with pytest.raises(ValueError, match="a code is none"):
        kernel.groups(np.array([kernel.NO_CODE + 1], np.uint16))
    with pytest.raises(ValueError, match="in a row"):
        kernel.hashes(raw[::2], np.array([0]), places(0), places(1))


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine for which nothing was compiled."""
    kernel._loaded.cache_clear()
    tell_once.cache_clear()
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    yield
    kernel._loaded.cache_clear()
    tell_once.cache_clear()


@pytest.mark.usefixtures("without")
def test_without_it_the_interpreter_reads_all(capsys: pytest.CaptureFixture[str]) -> None:
    (segment,) = (DATA / "synthetic-every-type").rglob("*.log")
    for window in windows(segment):
        assert_equal_engines(window)
        assert_equal_slices(window, 4)
    said = capsys.readouterr().err
    assert said.count("no compiled part of kraftlog") == 1
    assert "python -m kraftlog.native.build" in said


LONGEST = 64
"""Longer lists are not looked through by a rule, but left to the definition."""


@st.composite
def some_lists(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """Lists of brokers, and at which places they are held: behind the last one too."""
    lists = draw(st.lists(st.lists(st.integers(-1, 4), max_size=5), max_size=6))
    lists += draw(st.sampled_from([[], [[*range(LONGEST + 1)]]]))
    return lists, draw(st.lists(st.integers(0, len(lists) + 2), min_size=1, max_size=12))


@settings(max_examples=200)
@given(some_lists(), some_lists(), st.data())
@pytest.mark.usefixtures("guarded")
def test_lists_that_are_held(
    one: tuple[list[list[int]], list[int]],
    other: tuple[list[list[int]], list[int]],
    data: st.DataObject,
) -> None:
    """What is said of lists is what Python says of them; of those that are too long it is that
    somebody should look.
    """
    rows = min(len(one[1]), len(other[1]))
    held, within = (
        [lists[at] if at < len(lists) else [] for at in where[:rows]]
        for lists, where in (one, other)
    )
    left, right = (
        folding.Lists.of(pa.array(lists, pa.list_(pa.int32()))).held(places(*where[:rows]))
        for lists, where in (one, other)
    )
    long = [len(numbers) > LONGEST for numbers in held]
    assert left.lengths().tolist() == [len(numbers) for numbers in held]
    assert left.repeats().tolist() == [
        too_long or len(set(numbers)) < len(numbers)
        for too_long, numbers in zip(long, held, strict=True)
    ]
    assert left.outside(right).tolist() == [
        bool(numbers) and (too_long or len(among) > LONGEST or not set(numbers) <= set(among))
        for too_long, numbers, among in zip(long, held, within, strict=True)
    ]
    wanted = data.draw(st.lists(st.integers(-1, 4), min_size=rows, max_size=rows))
    assert left.holds(places(*wanted)).tolist() == [
        number in numbers for number, numbers in zip(wanted, held, strict=True)
    ]
    taken = left.taken()
    assert pa.ListArray.from_arrays(*taken).to_pylist() == held


CANARY = 0x5A5A5A5A


@pytest.mark.parametrize("elements", range(40))
def test_a_struct_that_breaks_off_has_its_room(
    elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elements of the smallest size there is, and the beginning of one more: nothing is written behind
    the arrays that are made for so many bytes.
    """
    room, made = kernel._room, list[tuple[int, kernel.Places]]()

    def watched(kind: int, width: int, count: int, size: int) -> kernel.Values:
        given = room(kind, width, count, size)
        ends = np.append(given.ends, np.full(9, CANARY, np.int32))
        made.append((len(given.ends), ends))
        return given._replace(ends=ends)

    monkeypatch.setattr(kernel, "_room", watched)
    text = kernel.Field(kernel.TEXT, 1, False), kernel.Field(kernel.TEXT, 1, True)
    program = kernel.program([kernel.Field(kernel.STRUCTS, 3, False, inner=2), *text])
    raw = np.frombuffer(bytes([elements + 3]) + bytes([1, 0, 0]) * elements + b"\1", np.uint8)
    found = kernel.messages(raw, np.zeros(1, np.int64), places(0), places(len(raw)), program, 3)
    assert not found.normal.any()
    assert len(made) == 3
    assert all((ends[own:] == CANARY).all() for own, ends in made)


LARGEST = (1 << 63) - 1
BIT = st.integers(0, 62)


@given(st.lists(st.integers(0, 3) | st.integers(0, LARGEST)), BIT)
@pytest.mark.usefixtures("guarded")
def test_numbers_in_order(numbers: list[int], first_bit: int) -> None:
    found = folding.ascending(np.array(numbers, np.int64), first_bit)
    assert found.tolist() == sorted(numbers, key=lambda one: one >> first_bit)


@given(st.lists(st.integers(0, LARGEST)), BIT)
def test_without_it_numbers_are_sorted_alike(numbers: list[int], first_bit: int) -> None:
    compiled = folding.ascending(np.array(numbers, np.int64), first_bit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "is_here", lambda: False)
        found = folding.ascending(np.array(numbers, np.int64), first_bit)
    assert found.tolist() == compiled.tolist()


def test_only_numbers_from_0_on_are_sorted() -> None:
    with pytest.raises(ValueError, match="from 0 on"):
        folding.ascending(np.array([1, -1]))


@given(st.lists(st.integers(-3, 3) | st.integers(0, LARGEST)))
def test_the_order_of_numbers_is_stable(numbers: list[int]) -> None:
    expected = sorted(range(len(numbers)), key=numbers.__getitem__)
    assert folding.order_of(np.array(numbers, np.int64)).tolist() == expected


@settings(max_examples=200)
@given(st.data())
@pytest.mark.usefixtures("guarded")
def test_events_of_any_kind_in_any_order(data: st.DataObject) -> None:
    """Whatever is folded, each list of a version is one of the records', or of those behind them.
    That what is not abnormal is folded as the definition does, is held by `test_state_history`.
    """
    numbers = st.integers(-(2**31), 2**31 - 1)
    count = data.draw(st.integers(0, 4))
    lengths = st.lists(st.integers(-1, 3), min_size=count, max_size=count)
    others = st.lists(numbers | st.integers(-2, 2), min_size=count, max_size=count)
    fields = [
        places(*data.draw(lengths if name in folding.LISTS else others)) for name in folding.FIELDS
    ]
    one = st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(-1, count - 1))
    events = sorted(data.draw(st.lists(one, max_size=20)), key=lambda event: event[0])
    keys, kinds, source = (np.array([event[at] for event in events], np.int64) for at in range(3))
    folded = folding.folded(
        keys << 32,
        kinds.astype(np.int8),
        source.astype(np.int32),
        np.array(data.draw(st.lists(st.booleans(), min_size=3, max_size=3))),
        fields,
        places(0, 1, 2, 3),
    )
    begins = folded.begins
    for name, held in folded.lists.items():
        behind = 3 if name == "directories" else 0
        assert ((held[begins] >= -1) & (held[begins] <= count + behind)).all()
    assert not begins[kinds < 2].any()
    assert folded.live[begins].all()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"keys": np.array([1 << 32, 0])}, "keys in order"),
        ({"keys": np.array([0, 2 << 32])}, "keys in order"),
        ({"source": places(0, 2)}, "not among the records"),
        ({"source": places(0, -2)}, "not among the records"),
        ({"sizes": places(0)}, "needs its place"),
    ],
)
def test_a_fold_beyond_its_arrays_is_refused(changed: dict[str, kernel.Numbers], why: str) -> None:
    asked = {
        "keys": np.array([0, 1 << 32]),
        "kinds": np.array([2, 2], np.int8),
        "source": places(0, 1),
        "alive": np.array([True, True]),
        "records": [places(1, 1)] * len(folding.FIELDS),
        "sizes": places(0, 1),
    }
    assert folding.folded(**asked).begins.all()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=why):
        folding.folded(**asked | changed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not negative"):
        folding.Lists(places(0), places()).held(places(-1))


def test_without_it_the_definition_folds_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same versions, and the same is judged of them."""
    folder = DATA / "synthetic-fuzz-1"
    replicas = find_replicas([str(folder)])

    def folded() -> list[list[str]]:
        return [
            sorted(
                str(row) for _, rows in folded_history(one, REDACTOR) for row in rows.to_pylist()
            )
            for one in replicas
        ]

    compiled = folded()
    monkeypatch.setattr(folding, "is_here", lambda: False)
    assert folded() == compiled
    assert sum(map(len, compiled)) > 100


@pytest.mark.parametrize("name", PARTS)
def test_it_is_what_its_source_says(tmp_path: Path, name: str) -> None:
    """The compiled part that is tested here is that of its sources, byte for byte; another
    processor's has its own name."""
    assert build.build(tmp_path, name.removeprefix("kernel.")).name == name
    assert (tmp_path / name).read_bytes() == (PACKAGE / "native" / name).read_bytes()
    assert {kernel.file_name(*one.split("-")) for one in build.PLATFORMS} == {
        f"kernel.{one}" for one in build.PLATFORMS
    }


def test_it_is_loaded_from_an_archive(tmp_path: Path) -> None:
    """As executors have it that were given kraftlog as one file."""
    archive = tmp_path / "kraftlog.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for file in (PACKAGE / "native").iterdir():
            if file.is_file():
                out.write(file, f"kraftlog/native/{file.name}")
        for name in ("__init__", "errors", "plain", "wire"):
            out.write(PACKAGE / f"{name}.py", f"kraftlog/{name}.py")
    program = (
        "from kraftlog.native import kernel; import numpy as np; "
        "one = np.zeros(1, np.int32); "
        "found = kernel.messages(np.zeros(17, np.uint8), one.astype(np.int64), one, one + 17, "
        "kernel.program([kernel.Field(kernel.ID, 16, False)]), 1); "
        "print(kernel.__file__, found.fields[0].values.tobytes())"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={"PYTHONPATH": str(archive), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(archive) in ended.stdout
    assert "A" * 22 in ended.stdout
    assert not list(tmp_path.glob("tmp*"))
