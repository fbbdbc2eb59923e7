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
from dataclasses import dataclass

from kraftlog.log.batch import (
    CRC_POSITION,
    HEADER_SIZE,
    INT32_AT,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    MIN_LENGTH,
    PREFIX_SIZE,
    UINT32_AT,
    Batches,
    content_hash,
    crc_is_valid,
    read_batches,
)
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.resync import Search, is_zero, streamed_crc_is_valid
from kraftlog.log.storage import FileBytes


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is held in memory at a time, in bytes."""

    window_size_bytes: int = 4 << 20
    batch_size_bytes: int = 128 << 20
    decompressed_size_bytes: int = 128 << 20


@dataclass(frozen=True, slots=True)
class Window:
    """Whole batches, and the bytes in which they lie: `buffer` begins at `position` of the file."""

    position: int
    buffer: bytes
    batches: Batches


def walk(
    file: FileBytes, start: int = 0, end: int | None = None, limits: Limits = Limits()
) -> Iterator[Window | Fault]:
    """Every batch that begins in [start, end), and the faults between them. `start` must be a
    batch's start, or 0.
    """
    stop = file.size_bytes if end is None else min(end, file.size_bytes)
    search = Search(file, limits.batch_size_bytes)
    position = start
    while position < stop:
        buffer = file.read(position, limits.window_size_bytes)
        if not buffer:
            yield _vanished(position, file.size_bytes - position)
            return
        starts, reached = chain(buffer, stop - position)
        if starts:
            batches = read_batches(buffer, starts, position)
            good = len(starts) if batches.crc_valid.all() else int(batches.crc_valid.argmin())
            if good:
                kept = _first(batches, good)
                yield Window(position, buffer, kept)
                position += starts[good] if good < len(starts) else reached
                continue
        for found, after in _suspect(file, position, search, limits):
            yield found
            position = after


def chain(buffer: bytes, room: int) -> tuple[list[int], int]:
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


def _first(batches: Batches, count: int) -> Batches:
    if count == len(batches):
        return batches
    return Batches(
        batches.positions[:count],
        batches.headers[:count],
        batches.crc_valid[:count],
        batches.batch_ids[:count],
    )


def _suspect(
    file: FileBytes, position: int, search: Search, limits: Limits
) -> Iterator[tuple[Window | Fault, int]]:
    """What stands at a position where no valid batch fits into the window: yields each finding and
    the position after it.
    """
    left = file.size_bytes - position
    header = file.read(position, HEADER_SIZE)
    size = _claimed_size(header)
    if size is not None and size <= left and limits.window_size_bytes < size:
        if size <= limits.batch_size_bytes:
            batch = file.read(position, size)
            if len(batch) == size and crc_is_valid(batch):
                yield Window(position, batch, read_batches(batch, [0], position)), position + size
                return
        elif streamed_crc_is_valid(file, position, size):
            yield _too_large(position, size, header), position + size
            return
    following = search.next_batch(position + 1)
    if size is not None and position + size <= following and size <= limits.batch_size_bytes:
        batch = file.read(position, size)
        if len(batch) == size:
            damaged = read_batches(batch, [0], position)
            yield Window(position, batch, damaged), position + size
            return
    yield _damage(file, position, following, size, search), following


def _claimed_size(header: bytes) -> int | None:
    """The size that a plausible header claims for its batch; None where this is no header."""
    if len(header) < HEADER_SIZE or header[MAGIC_POSITION] != MAGIC:
        return None
    length: int = INT32_AT.unpack_from(header, LENGTH_POSITION)[0]
    return length + PREFIX_SIZE if length >= MIN_LENGTH else None


def _too_large(position: int, size: int, header: bytes) -> Fault:
    return Fault(
        FaultKind.BATCH_TOO_LARGE,
        position,
        size,
        f"a valid batch of {size:,} bytes is over the limit; raise batch_limit_bytes to decode it",
        batch_position=position,
        offset=int.from_bytes(header[:8], "big", signed=True),
        content_hash=f"crc32c:{UINT32_AT.unpack_from(header, CRC_POSITION)[0]:08x}",
    )


def _vanished(position: int, size: int) -> Fault:
    return Fault(
        FaultKind.VANISHED,
        position,
        size,
        f"the file became {size:,} bytes shorter while it was read",
    )


_SAMPLE = 1 << 20


def _damage(
    file: FileBytes, position: int, following: int, size: int | None, search: Search
) -> Fault:
    """Name the bytes [position, following), which are no batch."""
    range_size = following - position
    at_end = following >= file.size_bytes
    first = file.read(position, min(range_size, _SAMPLE))
    zero_size = is_zero(file, position, following)
    kind = FaultKind.BATCH_HEADER
    if zero_size == range_size:
        kind, detail = FaultKind.ZEROS, f"{range_size:,} zero bytes"
    elif search.abandoned:
        kind = FaultKind.SEARCH_ABANDONED
        detail = f"{range_size:,} bytes full of false batch headers"
    elif at_end and (range_size < HEADER_SIZE if size is None else size > range_size):
        kind = FaultKind.TORN_BATCH
        claimed = f"a batch of {size:,} bytes" if size is not None else "a batch header"
        detail = f"{claimed} is cut off after {range_size:,} bytes"
    elif at_end:
        kind, detail = FaultKind.GARBAGE, f"{range_size:,} bytes that are no record batch"
    else:
        detail = f"{range_size:,} bytes that are no record batch, before a valid one"
    if 0 < zero_size < range_size:
        detail += f", the first {zero_size:,} of them zero"
    return Fault(kind, position, range_size, detail, content_hash=content_hash(first))
