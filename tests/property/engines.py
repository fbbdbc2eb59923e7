"""What the tests of both decoding engines share: how equal they must be, and damaged batches.

`assert_equal_engines` holds `columnar.decode_window` against the interpreter on one window: the
same tables with the same rows in the same order, and the same faults in the same order.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded, Gathering, read_batch
from kraftlog.log.batch import (
    CRC_POSITION,
    CRC_START,
    HEADER_SIZE,
    LENGTH_POSITION,
    PREFIX_SIZE,
    crc32c,
    read_batches,
)
from kraftlog.log.fault import RANGE_KINDS, Fault, FaultKind
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.storage import FileBytes, open_file

MASKED = Redactor(bytes(range(32)))
REVEALED = Redactor(None)
DECOMPRESSED_LIMIT = 1 << 20
LIMITS = Limits()


def decode_window_reference(
    window: Window,
    wanted: frozenset[str] | None,
    redactor: Redactor,
    chosen: Sequence[int] | None = None,
    slices: int = 0,
) -> Decoded:
    """Every record of a window by the interpreter; arguments as for `decode_window`."""
    indexes = np.arange(len(window.batches)) if chosen is None else np.sort(chosen)
    gathering = Gathering(window, indexes, slices)
    for index in indexes.tolist():
        for found in read_batch(window, index, wanted, redactor, DECOMPRESSED_LIMIT):
            gathering.add(index, found)
    return gathering.decoded()


def assert_equal_engines(
    window: Window,
    wanted: frozenset[str] | None = None,
    redactor: Redactor = MASKED,
    chosen: list[int] | None = None,
) -> Decoded:
    """Both engines on one window; gives what they found."""
    (fast,) = decode_window(window, wanted, redactor, DECOMPRESSED_LIMIT, chosen)
    slow = decode_window_reference(window, wanted, redactor, chosen)
    _assert_equal(fast, slow)
    return slow


def assert_equal_parts(window: Window) -> list[Decoded]:
    """Both engines on one window, as many batches at a time as the fast one takes."""
    parts = list(decode_window(window, None, MASKED, DECOMPRESSED_LIMIT))
    for fast in parts:
        slow = decode_window_reference(window, None, MASKED, fast.indexes.tolist())
        _assert_equal(fast, slow)
    return parts


def assert_equal_slices(window: Window, slices: int) -> Decoded:
    """Both engines on one window, by slices; gives what they found."""
    (fast,) = decode_window(window, None, MASKED, DECOMPRESSED_LIMIT, None, slices)
    slow = decode_window_reference(window, None, MASKED, None, slices)
    assert fast.ends == slow.ends
    _assert_equal_tables(fast.records, slow.records)
    return slow


def _assert_equal(fast: Decoded, slow: Decoded) -> None:
    assert fast.indexes.tolist() == slow.indexes.tolist()
    assert fast.faults == slow.faults
    assert fast.odd == slow.odd
    _assert_equal_tables(fast.records, slow.records)
    _assert_equal_tables(fast.control, slow.control)


def _assert_equal_tables(fast: dict[str, pa.RecordBatch], slow: dict[str, pa.RecordBatch]) -> None:
    assert fast.keys() == slow.keys()
    for name, table in fast.items():
        table.validate(full=True)
        assert table.schema.equals(slow[name].schema, check_metadata=True), name
        # NaN equals nothing, itself included: where tables differ their rows as text decide.
        if not table.equals(slow[name]):
            assert repr(table.to_pylist()) == repr(slow[name].to_pylist()), name


def windows(path: Path) -> list[Window]:
    """The windows of a file."""
    with open_file(str(path)) as file:
        return [found for found in walk(file) if isinstance(found, Window)]


def batches_of(path: Path) -> list[bytes]:
    """The record batches of a file."""
    result = []
    for window in windows(path):
        starts = (window.batches.positions - window.position).tolist()
        sizes = (window.batches.headers["length"] + PREFIX_SIZE).tolist()
        result += [
            window.buffer[start : start + size] for start, size in zip(starts, sizes, strict=True)
        ]
    return result


def window_of(batches: Iterable[bytes], position: int = 0) -> Window:
    """A window that holds these batches, one after the other."""
    whole = b"".join(batches)
    found, end = read_batches(whole, 0, len(whole), position, len(whole), lambda *_: True)
    assert end == len(whole)
    return Window(position, whole, found)


def sealed(batch: bytes) -> bytes:
    """The batch with the length and the CRC that its bytes ask for."""
    whole = bytearray(batch)
    length = len(whole) - PREFIX_SIZE
    whole[LENGTH_POSITION : LENGTH_POSITION + 4] = length.to_bytes(4, "big")
    whole[CRC_POSITION:CRC_START] = crc32c(bytes(whole[CRC_START:])).to_bytes(4, "big")
    return bytes(whole)


def flipped(raw: bytes, bit: int) -> bytes:
    """The bytes with one bit the other way round."""
    whole = bytearray(raw)
    whole[bit >> 3] ^= 1 << (bit & 7)
    return bytes(whole)


def header_bits() -> list[int]:
    """Bits of a batch's header other than its length, magic and CRC: those frame the batch."""
    framing = {*range(LENGTH_POSITION, PREFIX_SIZE), *range(PREFIX_SIZE + 4, CRC_START)}
    return [bit for bit in range(HEADER_SIZE * 8) if bit >> 3 not in framing]


class MemoryBytes:
    """A file that lies in memory."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self.size_bytes = raw, len(raw)

    def read(self, position: int, size_bytes: int) -> bytes:
        return self._raw[position : position + size_bytes]

    def next_data(self, position: int) -> int:
        return position

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def assert_accounted(file: FileBytes, limits: Limits = LIMITS) -> list[Window | Fault]:
    """Batches and fault ranges cover every byte of a file once and in order; gives what was found.

    Both engines agree on every window on the way."""
    found = list(walk(file, limits=limits))
    reached = 0
    for one in found:
        if isinstance(one, Fault):
            assert one.kind in RANGE_KINDS | {FaultKind.BATCH_TOO_LARGE}
            assert one.position == reached
            assert one.size_bytes > 0
            reached += one.size_bytes
            continue
        assert len(one.batches)
        sizes = (one.batches.headers["length"] + PREFIX_SIZE).tolist()
        for position, batch_size in zip(one.batches.positions.tolist(), sizes, strict=True):
            assert position == reached
            reached += batch_size
        assert one.position + len(one.buffer) >= reached
        assert_equal_engines(one)
    assert reached == file.size_bytes
    return found
