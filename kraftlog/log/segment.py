"""Walk a file of record batches: every byte ends up in a batch or in a fault, in file order.

In: an open file, and the range of positions at which batches may begin. Out: windows of whole
batches, and faults. Memory is bounded by the window, or by one batch where that is larger. Runs in
executors.

A batch's length is believed as long as its CRC is right. Where it is not, the next valid batch
after it decides: a length that reaches no further than that batch is kept, and the batch is one
whose CRC is wrong; a length that contradicts it makes the bytes up to there a fault. Source:
Kafka's FileLogInputStream and UnifiedLog.recover, which stop there instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kraftlog.log import crc
from kraftlog.log.batch import (
    HEADER_SIZE,
    INT32_AT,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    MIN_LENGTH,
    PREFIX_SIZE,
    Batches,
    content_hash,
    read_batches,
)
from kraftlog.log.codecs import UNPACKED_SIZE_BYTES
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.resync import Search, is_zero, streamed_crc_is_valid
from kraftlog.log.storage import FileBytes
from kraftlog.plain import counted


@dataclass(frozen=True, slots=True)
class Limits:
    """How files are read: how many bytes are held in memory at a time, under which key batches and
    damaged bytes are named, and whether a second implementation checks their CRCs. Without a key,
    whoever knows most of a batch can test guesses of the rest by its name.
    """

    window_size_bytes: int = 4 << 20
    batch_size_bytes: int = 16 << 20
    decompressed_size_bytes: int = UNPACKED_SIZE_BYTES
    id_key: bytes | None = field(default=None, repr=False)
    verify: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Whole batches, and the bytes in which they lie: `buffer` begins at `position` of the file."""

    position: int
    buffer: bytes
    batches: Batches

    def batch(self, index: int) -> bytes:
        start = int(self.batches.positions[index]) - self.position
        size = int(self.batches.headers["length"][index]) + PREFIX_SIZE
        return self.buffer[start : start + size]


def walk(
    file: FileBytes, start: int = 0, end: int | None = None, limits: Limits = Limits()
) -> Iterator[Window | Fault]:
    """Every batch that begins in [start, end), and the faults between them. `start` must be a
    batch's start, or 0.

    Windows may share a buffer. Whatever is wrong with a file, no byte of it is looked at more than
    a fixed number of times.
    """
    stop = file.size_bytes if end is None else min(end, file.size_bytes)
    search = Search(file, limits.batch_size_bytes)
    position, window = start, _Buffer(start, b"", 0)
    value = crc.value_function(limits.verify)

    def is_damaged(at: int, size: int) -> bool:
        """A batch with a wrong CRC is one where no valid batch begins before it ends."""
        search.charge(size)
        following = search.next_batch(window.position + at + 1)
        return not search.abandoned and window.position + at + size <= following

    while position < stop:
        base = window.position
        batches, reached = read_batches(
            window.raw,
            position - base,
            stop - base,
            base,
            limits.batch_size_bytes,
            is_damaged,
            limits.id_key,
            value,
        )
        if len(batches):
            yield Window(base, window.raw, batches)
            position = base + reached
            continue
        size = _claimed_size(window.raw[position - base : position - base + HEADER_SIZE])
        wanted = max(limits.window_size_bytes, size or HEADER_SIZE)
        if _shows_more(window, position, size, wanted, limits, file.size_bytes - position):
            search.charge(wanted)
            window = _Buffer(position, file.read(position, wanted), wanted)
            if not window.raw:
                left = file.size_bytes - position
                detail = f"the file became {counted(left, 'byte')} shorter while it was read"
                yield Fault(FaultKind.VANISHED, position, left, detail)
                return
            continue
        fault = _fault_at(file, position, size, search, limits)
        yield fault
        position += fault.size_bytes


class _Buffer(NamedTuple):
    """What was read at a position of the file when so many bytes were wanted."""

    position: int
    raw: bytes
    wanted: int


def _shows_more(
    window: _Buffer, position: int, size: int | None, wanted: int, limits: Limits, left: int
) -> bool:
    """Whether reading from a position shows more of what stands there than the window does."""
    is_believed = size is not None and size <= min(limits.batch_size_bytes, left)
    need = size if size is not None and is_believed else HEADER_SIZE
    have = window.position + len(window.raw) - position
    return have < min(need, left) and (window.position < position or window.wanted < wanted)


def batch_starts(buffer: bytes, room: int) -> tuple[list[int], int]:
    """Starts of the whole batches at the beginning of a buffer, by their lengths alone, and where
    the chain ends.
    """
    starts: list[int] = []
    at, size = 0, len(buffer)
    unpack = INT32_AT.unpack_from
    while at < room and at + HEADER_SIZE <= size:
        length = unpack(buffer, at + LENGTH_POSITION)[0]
        if length < MIN_LENGTH or buffer[at + MAGIC_POSITION] != MAGIC:
            break
        after = at + PREFIX_SIZE + length
        if after > size:
            break
        starts.append(at)
        at = after
    return starts, at


def _fault_at(
    file: FileBytes, position: int, size: int | None, search: Search, limits: Limits
) -> Fault:
    """What stands at a position where no batch is, or one that is too large; `size` is what its
    header claims.
    """
    left = file.size_bytes - position
    if (
        size is not None
        and limits.batch_size_bytes < size <= left
        and search.charge(size)
        and streamed_crc_is_valid(file, position, size)
    ):
        return _too_large(file, position, size, limits)
    following = search.next_batch(position + 1)
    return _damage(file, position, following, size, search, limits)


def _claimed_size(header: bytes) -> int | None:
    """The size that a plausible header claims for its batch; None where this is no header."""
    if len(header) < HEADER_SIZE or header[MAGIC_POSITION] != MAGIC:
        return None
    length: int = INT32_AT.unpack_from(header, LENGTH_POSITION)[0]
    return length + PREFIX_SIZE if length >= MIN_LENGTH else None


def _too_large(file: FileBytes, position: int, size: int, limits: Limits) -> Fault:
    first = file.read(position, _SAMPLE)
    return Fault(
        FaultKind.BATCH_TOO_LARGE,
        position,
        size,
        f"a valid batch of {size:,} bytes is over the limit; raise batch_limit_bytes to decode it",
        batch_position=position,
        offset=int.from_bytes(first[:8], "big", signed=True),
        content_hash=content_hash(first, limits.id_key),
    )


_SAMPLE = 1 << 20
"""Of a damaged range so many bytes are hashed."""


def _damage(
    file: FileBytes, position: int, following: int, size: int | None, search: Search, limits: Limits
) -> Fault:
    """Name the bytes [position, following), which are no batch."""
    range_size = following - position
    at_end = following >= file.size_bytes
    first = file.read(position, min(range_size, _SAMPLE))
    zero_size = is_zero(file, position, following)
    kind = FaultKind.BATCH_HEADER
    if zero_size == range_size:
        kind, detail = FaultKind.ZEROS, counted(range_size, "zero byte")
    elif search.abandoned:
        kind = FaultKind.SEARCH_ABANDONED
        detail = f"{counted(range_size, 'byte')} full of false batch headers"
    elif at_end and (range_size < HEADER_SIZE if size is None else size > range_size):
        kind = FaultKind.TORN_BATCH
        claimed = f"a batch of {size:,} bytes" if size is not None else "a batch header"
        if size is not None and size > limits.batch_size_bytes:
            claimed += " (none is that large: it may be garbage)"
        detail = f"{claimed} is cut off after {counted(range_size, 'byte')}"
    elif at_end:
        kind, detail = FaultKind.GARBAGE, f"{counted(range_size, 'byte')} without a record batch"
    else:
        detail = f"{counted(range_size, 'byte')} without a record batch, before a valid one"
    # A batch itself begins with fewer: the high bytes of its offset, all of offset 0, and of its length.
    if PREFIX_SIZE <= zero_size < range_size:
        detail += f", the first {zero_size:,} of them zero"
    return Fault(
        kind, position, range_size, detail, content_hash=content_hash(first, limits.id_key)
    )
