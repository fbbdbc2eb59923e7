"""Find the next valid record batch after damage, within a bounded amount of work.

In: an open file and a position. Out: the position of the next batch whose CRC is right, or the
file's end. Holes of sparse files are skipped, candidates are found by whole windows at a time, and
the bytes that are read for candidates that turn out false are limited, so that a file made of false
headers costs no more than a few times its own size.
"""

import google_crc32c
import numpy as np

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
    crc32c,
)
from kraftlog.log.storage import FileBytes

_WINDOW = 8 << 20
_CHUNK = 8 << 20
_FREE_CANDIDATES_SIZE = 1 << 30
_CANDIDATES_PER_BYTE = 8


class Search:
    """The search for valid batches in one file; remembers what it found, so that asking again costs
    nothing.
    """

    def __init__(self, file: FileBytes, batch_size_limit: int) -> None:
        self._file = file
        self._batch_size_limit = batch_size_limit
        self._known: tuple[int, int] | None = None
        self._budget = _FREE_CANDIDATES_SIZE + _CANDIDATES_PER_BYTE * min(
            file.size_bytes, _FREE_CANDIDATES_SIZE
        )
        self.abandoned = False

    def next_batch(self, position: int) -> int:
        """The position of the first valid batch at or after `position`; the file's size where there
        is none.
        """
        if self._known is not None and self._known[0] <= position <= self._known[1]:
            return self._known[1]
        found = self._search(position)
        self._known = (position, found)
        return found

    def _search(self, position: int) -> int:
        size = self._file.size_bytes
        while position + HEADER_SIZE <= size:
            # Any batch has bytes that are not zero from its length on, at most this far behind its
            # start.
            data = self._file.next_data(position)
            position = max(position, data - HEADER_SIZE)
            window = self._file.read(position, _WINDOW)
            for candidate in _candidates(window, size - position, self._batch_size_limit):
                batch_size = candidate[1]
                self._budget -= batch_size
                if self._budget < 0:
                    self.abandoned = True
                    return size
                if streamed_crc_is_valid(self._file, position + candidate[0], batch_size):
                    return position + candidate[0]
            if len(window) < _WINDOW:
                break
            position += _WINDOW - HEADER_SIZE + 1
        return size


def _candidates(window: bytes, left: int, batch_size_limit: int) -> list[tuple[int, int]]:
    """(start, batch size) of all places of a window that could be a batch's header."""
    count = len(window) - HEADER_SIZE + 1
    if count <= 0:
        return []
    raw = np.frombuffer(window, np.uint8)
    starts = np.flatnonzero(raw[MAGIC_POSITION : MAGIC_POSITION + count] == MAGIC)
    starts = starts[raw[starts] < 0x80]  # base offset is not negative
    starts = starts[raw[starts + CRC_START] == 0]  # the high byte of the attributes
    starts = starts[raw[starts + CRC_START + 1] <= KNOWN_ATTRIBUTES]
    length = np.zeros(len(starts), np.int64)
    for byte in range(4):
        length = (length << 8) | raw[starts + LENGTH_POSITION + byte]
    size = length + PREFIX_SIZE
    sane = (length >= MIN_LENGTH) & (size <= left - starts) & (size <= batch_size_limit)
    return list(zip(starts[sane].tolist(), size[sane].tolist(), strict=True))


def streamed_crc_is_valid(file: FileBytes, position: int, size: int) -> bool:
    """Whether the batch [position, position + size) has the CRC that its header says, in bounded
    memory.
    """
    head = file.read(position, min(size, _CHUNK))
    if len(head) < HEADER_SIZE:
        return False
    stored: int = UINT32_AT.unpack_from(head, CRC_POSITION)[0]
    if len(head) == size:
        return stored == crc32c(head[CRC_START:])
    return stored == _extended(file, head, position, size)


def _extended(file: FileBytes, head: bytes, position: int, size: int) -> int | None:
    crc = google_crc32c.value(head[CRC_START:])
    at, end = position + len(head), position + size
    while at < end:
        chunk = file.read(at, min(_CHUNK, end - at))
        if not chunk:
            return None
        crc = google_crc32c.extend(crc, chunk)
        at += len(chunk)
    return int(crc)


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
