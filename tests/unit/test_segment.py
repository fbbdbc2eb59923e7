"""The walk over a file of record batches: damage of every kind, in bounded time and memory."""

import os
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from kraftlog.log.batch import CRC_POSITION, HEADER_SIZE
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.storage import LocalBytes, open_file
from kraftlog.message.catalogue import metadata_specs
from kraftlog.state.encode import encode_batch, metadata_record
from tests.property.engines import assert_accounted, flipped, sealed

Found = tuple[str, int, int]
BATCHES = [
    encode_batch([metadata_record(metadata_specs()[20], 0, {})] * count, count * 100, 1, 1)
    for count in range(1, 6)
]
LOG = b"".join(BATCHES)
FIRST, SECOND = len(BATCHES[0]), len(BATCHES[0]) + len(BATCHES[1])


def found_in(raw: bytes, folder: Path, limits: Limits | None = None) -> list[Found]:
    """(what, position, size) of valid batches, batches with a wrong CRC, and faults, in order."""
    path = folder / "some.log"
    path.write_bytes(raw)
    result: list[Found] = []
    with open_file(str(path)) as file:
        for one in assert_accounted(file, limits or Limits()):
            if isinstance(one, Fault):
                result.append((str(one.kind), one.position, one.size_bytes))
                continue
            sizes = (one.batches.headers["length"] + 12).tolist()
            places = zip(one.batches.crc_valid, one.batches.positions.tolist(), sizes, strict=True)
            result += [("valid" if ok else "crc", at, size) for ok, at, size in places]
    return result


def kinds(found: list[Found]) -> list[str]:
    return [kind for kind, _, _ in found]


@pytest.mark.parametrize("window_size", [1, 60, 64, 100, 1000, 1 << 20])
def test_a_whole_log(tmp_path: Path, window_size: int) -> None:
    found = found_in(LOG, tmp_path, Limits(window_size_bytes=window_size))
    assert kinds(found) == ["valid"] * 5
    assert [size for _, _, size in found] == [len(one) for one in BATCHES]


def test_an_empty_file(tmp_path: Path) -> None:
    assert found_in(b"", tmp_path) == []


def test_a_wrong_crc_costs_one_batch(tmp_path: Path) -> None:
    found = found_in(flipped(LOG, (SECOND + CRC_POSITION) * 8), tmp_path)
    assert kinds(found) == ["valid", "valid", "crc", "valid", "valid"]


@pytest.mark.parametrize("garbage", [b"\x07", b"\xff" * 70, bytes(range(250)) * 9, LOG[5:FIRST]])
def test_garbage_between_batches(tmp_path: Path, garbage: bytes) -> None:
    found = found_in(LOG[:SECOND] + garbage + LOG[SECOND:], tmp_path)
    assert kinds(found) == ["valid", "valid", "batch_header", "valid", "valid", "valid"]
    assert found[2] == ("batch_header", SECOND, len(garbage))


def test_zeros(tmp_path: Path) -> None:
    between = found_in(LOG[:SECOND] + bytes(5000) + LOG[SECOND:], tmp_path)
    assert between[2] == ("zeros", SECOND, 5000)
    after = found_in(LOG + bytes(300), tmp_path)
    assert after[5:] == [("zeros", len(LOG), 300)]


def test_every_torn_tail(tmp_path: Path) -> None:
    last = len(LOG) - len(BATCHES[-1])
    for end in range(last + 1, len(LOG), 3):
        found = found_in(LOG[:end], tmp_path)
        assert kinds(found[:4]) == ["valid"] * 4
        ((kind, position, size),) = found[4:]
        assert (position, size) == (last, end - last)
        # The first bytes of a base offset are zeros, which say nothing.
        assert kind == "torn_batch" or (kind == "zeros" and not any(LOG[last:end]))


@pytest.mark.parametrize("base, zeros", [(0, 0), (0, 20), (12, 0), (12, 12)])
def test_a_torn_batchs_own_offset_is_no_run_of_zeros(base: int, zeros: int, tmp_path: Path) -> None:
    """It begins with zeros; only those that lie in front of it are told."""
    path = tmp_path / "some.log"
    torn = base.to_bytes(8, "big") + BATCHES[-1][8:-6]
    path.write_bytes(bytes(zeros) + torn)
    with open_file(str(path)) as file:
        (one,) = walk(file)
    assert isinstance(one, Fault)
    assert ("of them zero" in one.detail) == (zeros > 0)


@pytest.mark.parametrize("claim", [17 << 20, 1 << 20])
def test_a_torn_batch_that_would_be_larger_than_any(claim: int, tmp_path: Path) -> None:
    """Random bytes have a batch's magic now and then."""
    path = tmp_path / "some.log"
    last = BATCHES[-1]
    path.write_bytes(last[:8] + claim.to_bytes(4, "big") + last[12:])
    with open_file(str(path)) as file:
        (one,) = walk(file)
    assert isinstance(one, Fault)
    assert one.kind == FaultKind.TORN_BATCH
    assert ("it may be garbage" in one.detail) == (claim > Limits().batch_size_bytes)


def test_garbage_at_the_end(tmp_path: Path) -> None:
    found = found_in(LOG + b"\xee" * 200, tmp_path)
    assert found[5:] == [("garbage", len(LOG), 200)]


@pytest.mark.parametrize("claim", [(1 << 31) - 1, 1 << 20, -1, 0, 48, -(1 << 31)])
def test_a_length_that_lies(tmp_path: Path, claim: int) -> None:
    lie = claim.to_bytes(4, "big", signed=True)
    raw = LOG[: SECOND + 8] + lie + LOG[SECOND + 12 :]
    found = found_in(raw, tmp_path, Limits(window_size_bytes=256))
    assert kinds(found) == ["valid", "valid", "batch_header", "valid", "valid"]
    at_end = LOG[:SECOND] + LOG[SECOND : SECOND + 8] + lie + LOG[SECOND + 12 : SECOND + 80]
    assert len(found_in(at_end, tmp_path)) == 3


def test_a_valid_batch_over_the_limit_is_a_fault_and_the_next_is_read(tmp_path: Path) -> None:
    large = sealed(BATCHES[0] + bytes(3000))
    found = found_in(
        BATCHES[1] + large + BATCHES[2],
        tmp_path,
        Limits(window_size_bytes=500, batch_size_bytes=2000),
    )
    assert kinds(found) == ["valid", "batch_too_large", "valid"]


def test_a_batch_larger_than_the_window_is_read_whole(tmp_path: Path) -> None:
    large = sealed(BATCHES[0] + bytes(3000))
    limits = Limits(window_size_bytes=500)
    assert kinds(found_in(large + LOG, tmp_path, limits)) == ["valid"] * 6


def test_batches_of_another_magic_are_no_batches(tmp_path: Path) -> None:
    old = bytearray(BATCHES[2])
    old[16] = 1
    found = found_in(LOG[:SECOND] + bytes(old) + LOG[SECOND:], tmp_path)
    assert kinds(found) == ["valid", "valid", "batch_header", "valid", "valid", "valid"]


@pytest.mark.parametrize("cut", [1, FIRST, FIRST + 1, SECOND, len(LOG)])
def test_ranges_share_the_batches_without_loss(tmp_path: Path, cut: int) -> None:
    """A batch belongs to the range in which it begins."""
    path = tmp_path / "some.log"
    path.write_bytes(LOG)
    with open_file(str(path)) as file:
        first = [one for one in walk(file, 0, cut) if isinstance(one, Window)]
        reached = sum(int((one.batches.headers["length"] + 12).sum()) for one in first)
        second = [one for one in walk(file, reached) if isinstance(one, Window)]
    assert sum(len(one.batches) for one in first + second) == len(BATCHES)
    assert reached >= cut


@pytest.mark.parametrize("name", ["fault_at_each", "false_lengths"])
def test_the_work_of_a_walk_is_a_line_through_the_size(tmp_path: Path, name: str) -> None:
    """Twice the file, about twice the bytes read, and no more than so many for each of its bytes:
    also where every second batch is bad, or claims a length that leads somewhere into the file.
    """
    read = [_bytes_read(count, name, tmp_path) for count in (1500, 3000, 6000)]
    for (size, taken), (_, more) in pairwise(read):
        assert more < 3 * taken + (1 << 20)
        assert taken < 12 * size + (4 << 20)


def _bytes_read(count: int, name: str, folder: Path) -> tuple[int, int]:
    """(the file's size, bytes read from it and checked in vain) of a walk over a bad file."""
    random, raw = Random(count), bytearray()
    for index in range(count):
        batch = bytearray(encode_batch([], index, 1, 1))
        if index % 2:
            batch[-1] ^= 1
        if index % 2 and name == "false_lengths":
            batch[8:12] = random.randrange(61, 700).to_bytes(4, "big")
        raw += batch
    path = folder / "bad.log"
    path.write_bytes(bytes(raw))
    read = 0

    class Counted(LocalBytes):
        def read(self, position: int, size_bytes: int) -> bytes:
            nonlocal read
            found = super().read(position, size_bytes)
            read += len(found)
            return found

    with Counted(str(path)) as file:
        found = list(walk(file, limits=Limits(window_size_bytes=1 << 16)))
    valid = sum(int(one.batches.crc_valid.sum()) for one in found if isinstance(one, Window))
    assert valid == (count + 1) // 2
    return len(raw), read


def test_ten_gigabytes_of_nothing(tmp_path: Path) -> None:
    """A sparse file: its hole is stepped over, and what lies behind it is found."""
    path, hole = tmp_path / "sparse.log", 10 << 30
    with path.open("wb") as handle:
        handle.write(LOG)
        handle.seek(len(LOG) + hole)
        handle.write(LOG)
    if path.stat().st_blocks * 512 > 1 << 30:
        pytest.fail("this test needs a file system with sparse files")
    tracemalloc.start()
    start = time.process_time()
    with open_file(str(path)) as file:
        found = list(walk(file))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.process_time() - start < 2
    assert peak < 64 << 20
    faults = [one for one in found if isinstance(one, Fault)]
    assert [(one.kind, one.position, one.size_bytes) for one in faults] == [
        (FaultKind.ZEROS, len(LOG), hole)
    ]
    assert sum(len(one.batches) for one in found if isinstance(one, Window)) == 10


def test_a_file_of_false_headers_ends(tmp_path: Path) -> None:
    """Each header claims all the rest of the file; to check every claim in full would never end."""
    count = 16_384
    raw = bytearray()
    for index in range(count):
        size = (count - index) * HEADER_SIZE
        header = bytearray(encode_batch([], index, 1, 1))
        header[8:12] = (size - 12).to_bytes(4, "big")
        raw += header
    path = tmp_path / "false.log"
    path.write_bytes(bytes(raw))
    start = time.process_time()
    with open_file(str(path)) as file:
        found = list(walk(file))
    assert time.process_time() - start < 30
    assert found
    assert all(isinstance(one, Fault) or not one.batches.crc_valid.any() for one in found)


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(LOG)
    with open_file(str(path)) as file:
        os.truncate(path, SECOND)
        found = list(walk(file))
    assert isinstance(found[0], Window)
    assert isinstance(found[-1], Fault)
    assert found[-1].kind is FaultKind.VANISHED
    assert found[-1].position + found[-1].size_bytes == len(LOG)
