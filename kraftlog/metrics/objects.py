"""Lives of objects: when objects came, changed and went, as arrays.

In: lives as `versions` puts them together from a history table (one lineage). Out: what changed
between two offsets, and what was alive at one, as questions to sorted arrays. Offsets are those of
visibility: a version holds from `valid_from` (inclusive) to `valid_to` (exclusive; OPEN where it
still holds), and versions of one object do not overlap. Source: KIP-630 "Loading State and
Frequency of Compaction", "When to Snapshot".
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kraftlog.native.folding import order_of
from kraftlog.quorum.evidence import Flags, Longs

OPEN = np.iinfo(np.int64).max
UNKNOWN_MS = -1
_NONE = np.empty(0, np.int64)
_STEP = 1 << 18
"""So many changes are looked at at a time: cuts lie close together in a long log."""


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of versions, one element each, in offset order; `before` is where the version before
    of the same object ended, with or without a gap, −1 for an object's first.
    """

    offsets: Longs
    before: Longs

    def firsts(self, since: int, start: int, end: int) -> Longs:
        """Where objects ended a version for the first time since an offset, as far as that lies
        after `start` and up to `end`: each object once.
        """
        first, after = np.searchsorted(self.offsets, [start, end], "right")
        return self.offsets[first:after][self.before[first:after] <= since]

    def counts(self, since: Longs, starts: Longs, ends: Longs) -> Longs:
        """How many objects do, for each of several ranges."""
        firsts, afters = (np.searchsorted(self.offsets, one, "right") for one in (starts, ends))
        found = np.zeros(len(since), np.int64)
        for at in np.flatnonzero(firsts < afters).tolist():
            ended = self.before[firsts[at] : afters[at]]
            found[at] = np.count_nonzero(ended <= since[at])
        return found

    def after(self, offset: int) -> "Ends":
        first = int(np.searchsorted(self.offsets, offset, "right"))
        return Ends(self.offsets[first:], self.before[first:])

    @classmethod
    def in_order(cls, offsets: Longs, before: Longs) -> "Ends":
        """Of such columns in any order; mostly they lie in theirs."""
        if np.any(offsets[1:] < offsets[:-1]):
            order = order_of(offsets)
            offsets, before = offsets[order], before[order]
        return cls(offsets, before)

    def reach(self, start: int) -> int | None:
        """An offset not far above this one, up to which some versions ended; None for the end."""
        at = int(np.searchsorted(self.offsets, start, "right"))
        if at == len(self.offsets):
            return None
        return int(self.offsets[min(at + _STEP, len(self.offsets)) - 1])


@dataclass(frozen=True, slots=True)
class Lives:
    """One element per life: versions of one object that follow each other without a gap. In the
    order of the objects, and of each one's lives.

    `began` and `ended` are the life's, `first_ended` is where its first version ended, `last_began`
    where its last one began; `last_from_ms` and `last_to_ms` are times of the last one, UNKNOWN_MS
    where they are not known. `born_based` and `last_based` say that its first and its last version stand
    in a base snapshot, so that no record of the log began them. `previous` is where the object's
    life before ended, −1 for its first. `ends` lie in parts, each in order. `keys` are the fields of
    the object's key, as texts.
    """

    began: Longs
    ended: Longs
    first_ended: Longs
    last_began: Longs
    last_from_ms: Longs
    last_to_ms: Longs
    born_based: Flags
    last_based: Flags
    previous: Longs
    ends: list[Ends]
    keys: list[pa.Array]
    last_base: int
    """Where the newest version of a base snapshot began; −1 without any."""

    def __len__(self) -> int:
        return len(self.began)

    @property
    def gone(self) -> Flags:
        """Lives that have ended: of objects that were deleted."""
        found: Flags = self.ended != OPEN
        return found


class Changes:
    """All changes (ends of versions) of several tables, to ask for the dirty ratio many times. The
    ratio is one of `counts` over `alive_at`. Before `known_from`, where the last base snapshot ends, the
    state is not known; changes up to `first_offset` do not count.
    """

    def __init__(self, tables: Iterable[Lives], first_offset: int = 0) -> None:
        every = list(tables)
        self._ends = [part for one in every for part in one.ends]
        self._first = first_offset
        self._began = _sorted(one.began for one in every)
        self._ended = _sorted(one.ended[one.gone] for one in every)
        self.known_from = max([first_offset, *(one.last_base for one in every)])

    def alive_at(self, offset: int) -> int:
        """Objects that a snapshot with this end offset holds."""
        began = np.searchsorted(self._began, offset, "right")
        return int(began - np.searchsorted(self._ended, offset, "right"))

    def counts(self, starts: Longs, ends: Longs) -> Longs:
        """Objects that were modified or deleted after each start and up to its end: those of which a
        version ended there. One that was only added does not count; one that was added and then
        modified or deleted does. Each object counts once.
        """
        return ended_in(self._ends, starts, np.maximum(starts, self._first), ends)

    def reached(self, start: int, wanted: float) -> int | None:
        """The lowest offset up to which so many objects have changed since `start`."""
        if wanted <= 0:
            return start
        left, at = math.ceil(wanted), max(start, self._first)
        while (until := min(self._reaches(at), default=None)) is not None:
            found = self._firsts(start, at, until)
            if len(found) >= left:
                return int(np.partition(found, left - 1)[left - 1])
            left, at = left - len(found), until
        return None

    def _firsts(self, since: int, start: int, end: int) -> Longs:
        start = max(start, self._first)
        return np.concatenate([_NONE, *(one.firsts(since, start, end) for one in self._ends)])

    def _reaches(self, start: int) -> Iterator[int]:
        """For each part that changes after an offset, a later one that is not far."""
        for one in self._ends:
            if (reach := one.reach(start)) is not None:
                yield reach


def ended_in(parts: Iterable[Ends], since: Longs, starts: Longs, ends: Longs) -> Longs:
    """The same as `Ends.counts`, of all parts together."""
    found = np.zeros(len(since), np.int64)
    for one in parts:
        found += one.counts(since, starts, ends)
    return found


def _sorted(parts: Iterable[Longs]) -> Longs:
    return np.sort(np.concatenate([_NONE, *parts]))
