"""Marks of a file: batch boundaries with the hash of everything before them, and what they are for:
to find, later, up to where a file is still the one that was read.

In: an open file, and the marks of last time. Out: those that still hold, the boundaries after them,
and new marks: dense near the end, where a follower truncates, and ever sparser before it, so that
they stay few. Runs on the driver, without Spark; files are read in bounded windows.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from kraftlog.log.batch import PREFIX_SIZE
from kraftlog.log.segment import Limits, Window, batch_starts, walk
from kraftlog.log.storage import FileBytes
from kraftlog.source.splits import WINDOW

Mark = tuple[int, str]
"""A position, and the hash of all bytes before it."""

_NEAREST_BYTES, _FACTOR = 128, 2
"""Distance of the nearest mark from a log's end, and how much further away each next one lies."""


class Prefix:
    """The hash of a file's beginning, up to ever larger positions."""

    def __init__(self, handle: FileBytes) -> None:
        self._handle, self._hasher, self._position = handle, blake3(), 0

    def hash_to(self, position: int) -> str:
        """Hash of the bytes before a position, which is none before the last one asked for."""
        while self._position < position:
            chunk = self._handle.read(self._position, min(WINDOW, position - self._position))
            if not chunk:
                break  # it became shorter meanwhile; the next look finds that the hash is another
            self._hasher.update(chunk)
            self._position += len(chunk)
        return self._hasher.hexdigest(length=16)

    def copy(self) -> "Prefix":
        """The same state, to go on from later."""
        twin = Prefix(self._handle)
        twin._hasher, twin._position = self._hasher.copy(), self._position
        return twin


def verified(handle: FileBytes, marks: Iterable[Mark]) -> tuple[list[Mark], Prefix]:
    """The marks that still hold, and the hash as it stood at the last of them."""
    kept: list[Mark] = []
    prefix = Prefix(handle)
    at_last = prefix.copy()
    for position, digest in marks:
        if position > handle.size_bytes or prefix.hash_to(position) != digest:
            break
        kept.append((position, digest))
        at_last = prefix.copy()
    return kept, at_last


def batch_ends(handle: FileBytes, start: int, limits: Limits) -> npt.NDArray[np.int64]:
    """Where the whole batches after `start`, a batch's start, end. Lengths are followed alone, as
    long as that leads anywhere; tasks check CRCs.
    """
    found = [np.empty(0, np.int64)]
    position = start
    while position < handle.size_bytes:
        window = handle.read(position, WINDOW)
        starts, reached = batch_starts(window, len(window))
        if not starts:
            break
        found.append(np.array([*starts[1:], reached], np.int64) + position)
        position += reached
    for one in walk(handle, position, None, limits):
        if isinstance(one, Window):
            sizes = one.batches.headers["length"].astype(np.int64) + PREFIX_SIZE
            found.append(one.batches.positions + sizes)
    return np.concatenate(found)


def spaced(ends: npt.NDArray[np.int64]) -> set[int]:
    """Of ascending positions, the last one, and ever fewer towards the first."""
    if not len(ends):
        return set()
    last = int(ends[-1])
    targets, distance = [last], _NEAREST_BYTES
    while distance < last:
        targets.append(last - distance)
        distance *= _FACTOR
    return {int(ends[at]) for at in np.searchsorted(ends, targets)}
