"""Find the next valid record batch after damage, within a bounded amount of work.

In: an open file and a position. Out: the position of the next batch whose CRC is right, or the
file's end. Holes of sparse files are skipped, candidates are found by whole windows at a time, and
the bytes that are read for candidates that turn out false are limited, so that a file made of false
headers costs no more than a fixed multiple of its own size.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kraftlog.log import crc
from kraftlog.log.batch import (
    CRC_POSITION,
    CRC_START,
    HEADER_SIZE,
    KNOWN_ATTRIBUTES,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    MIN_LENGTH,
    PREFIX_SIZE,
    UINT32_AT,
    crc_is_valid,
)
from kraftlog.log.storage import FileBytes

_WINDOW = 1 << 20
_CHUNK = 8 << 20
_FREE_CANDIDATES_SIZE = 4 << 30
_CANDIDATES_PER_BYTE = 256


class Search:
    """The search for valid batches in one file, from its start to its end: it remembers what it has
    found and looked at, so that no place is looked at twice.
    """

    def __init__(self, file: FileBytes, batch_size_limit: int) -> None:
        self._file = file
        self._batch_size_limit = batch_size_limit
        self._known: tuple[int, int] | None = None
        self._seen = _nothing_seen()
        self._budget = _FREE_CANDIDATES_SIZE + _CANDIDATES_PER_BYTE * file.size_bytes

    @property
    def abandoned(self) -> bool:
        """Whether so many bytes were read in vain that no further batch is looked for."""
        return self._budget < 0

    def charge(self, size_bytes: int) -> bool:
        """Count bytes that were read for what may be no batch; False where they were too many."""
        self._budget -= size_bytes
        return self._budget >= 0

    def next_batch(self, position: int) -> int:
        """The position of the first valid batch at or after `position`; the file's size where there
        is none.
        """
        if self.abandoned:
            return self._file.size_bytes
        if self._known is not None and self._known[0] <= position <= self._known[1]:
            return self._known[1]
        found = self._search(position)
        self._known = (position, found)
        return found

    def _search(self, position: int) -> int:
        size = self._file.size_bytes
        while position + HEADER_SIZE <= size and not self.abandoned:
            if not self._seen.start <= position < self._seen.end:
                # Any batch has bytes that are not zero from its length on, at most this far behind
                # its start.
                data = self._file.next_data(position)
                position = max(position, data - HEADER_SIZE)
                self._seen = _look(self._file, position, self._batch_size_limit)
            seen = self._seen
            for index in range(int(np.searchsorted(seen.candidates, position)), len(seen.sizes)):
                candidate, batch_size = int(seen.candidates[index]), int(seen.sizes[index])
                if not self.charge(batch_size):
                    return size
                if self._is_valid(candidate, batch_size):
                    return candidate
            position = seen.end
        return size

    def _is_valid(self, position: int, size: int) -> bool:
        start = position - self._seen.start
        if start + size > len(self._seen.window):
            return streamed_crc_is_valid(self._file, position, size)
        return crc_is_valid(self._seen.window[start : start + size])


@dataclass(frozen=True, slots=True)
class _Seen:
    """A window of the file, and what in it could be a batch's header: positions in the file, and
    the sizes that these headers claim. Headers that begin in [start, end) were looked at.
    """

    start: int
    end: int
    window: bytes
    candidates: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


def _nothing_seen() -> _Seen:
    nothing = np.empty(0, np.int64)
    return _Seen(0, 0, b"", nothing, nothing)


def _look(file: FileBytes, position: int, batch_size_limit: int) -> _Seen:
    window = file.read(position, _WINDOW)
    is_last = len(window) < _WINDOW
    end = file.size_bytes if is_last else position + _WINDOW - HEADER_SIZE + 1
    count = len(window) - HEADER_SIZE + 1
    if count <= 0:
        return replace(_nothing_seen(), start=position, end=end)
    raw = np.frombuffer(window, np.uint8)
    starts = np.flatnonzero(raw[MAGIC_POSITION : MAGIC_POSITION + count] == MAGIC)
    starts = starts[raw[starts] < 0x80]  # base offset is not negative
    starts = starts[raw[starts + CRC_START] == 0]  # the high byte of the attributes
    starts = starts[raw[starts + CRC_START + 1] <= KNOWN_ATTRIBUTES]
    length = np.zeros(len(starts), np.int64)
    for byte in range(4):
        length = (length << 8) | raw[starts + LENGTH_POSITION + byte]
    size = length + PREFIX_SIZE
    left = file.size_bytes - position
    sane = (length >= MIN_LENGTH) & (size <= left - starts) & (size <= batch_size_limit)
    return _Seen(position, end, window, starts[sane] + position, size[sane])


def streamed_crc_is_valid(file: FileBytes, position: int, size: int) -> bool:
    """Whether the batch [position, position + size) has the CRC that its header says, in bounded
    memory.
    """
    head = file.read(position, min(size, _CHUNK))
    if len(head) < HEADER_SIZE:
        return False
    value, at, end = crc.value(head[CRC_START:]), position + len(head), position + size
    while at < end:
        chunk = file.read(at, min(_CHUNK, end - at))
        if not chunk:
            return False
        value = crc.extend(value, chunk)
        at += len(chunk)
    stored: int = UINT32_AT.unpack_from(head, CRC_POSITION)[0]
    return stored == value


def is_zero(file: FileBytes, position: int, end: int) -> int:
    """How many zero bytes stand at a position, at most up to `end`."""
    at = position
    while at < end:
        at = min(max(at, file.next_data(at)), end)
        chunk = file.read(at, min(_CHUNK, end - at))
        if not chunk:
            break
        nonzero = np.flatnonzero(np.frombuffer(chunk, np.uint8))
        if len(nonzero):
            return at + int(nonzero[0]) - position
        at += len(chunk)
    return min(at, end) - position
