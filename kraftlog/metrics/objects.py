"""Lives of objects: when each version of each object began and ended, as arrays.

In: rows of a history table (one lineage). Out: `Lives`, in offset order of the beginnings, with a
code per object. What changed between two offsets, and what was alive at one, are questions to
sorted arrays. Offsets are those of visibility: a version holds from `valid_from` (inclusive) to
`valid_to` (exclusive; OPEN where it still holds). Source: R13, R51, R52.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.audit.evidence import Flags, Longs
from kraftlog.metrics.numbering import numbered

KEYS: dict[str, tuple[str, ...]] = {
    "features": ("name",),
    "brokers": ("broker_id",),
    "controllers": ("controller_id",),
    "topics": ("topic_id",),
    "partitions": ("topic_id", "partition_id"),
    "configs": ("resource_type", "resource_name", "name"),
    "client_quotas": ("entity", "key"),
    "producer_ids": (),
    "acls": ("id",),
    "scram_credentials": ("mechanism", "name"),
    "delegation_tokens": ("token_id",),
}
"""History tables whose objects are records of a snapshot, each with its key. Voters and
kraft.version come from control records.
"""
VALIDITY = ("valid_from_offset", "valid_to_offset", "valid_from", "valid_to", "record_offset")
OPEN = np.iinfo(np.int64).max
_STEP = 1 << 18
"""So many changes are looked at at a time: cuts lie close together in a long log."""


@dataclass(frozen=True)
class Lives:
    """One element per version. `began_ms` and `ended_ms` are −1 where the time is not known;
    `based` says that a version stands in the base snapshot, so that no record of the log began it.
    """

    codes: Longs
    valid_from: Longs
    valid_to: Longs
    began_ms: Longs
    ended_ms: Longs
    based: Flags

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def _neighbours(self) -> tuple[Flags, Flags, Longs]:
        """Versions that follow one of the same object without a gap; those that one follows; and
        where the one before ended, with or without a gap, −1 for an object's first.
        """
        order = _order_of_both(self.codes, self.valid_from)
        codes, before, after = self.codes[order], order[:-1], order[1:]
        same = codes[1:] == codes[:-1]
        before, after = before[same], after[same]
        previous = np.full(len(self), -1, np.int64)
        previous[after] = self.valid_to[before]
        meet = previous[after] == self.valid_from[after]
        follows, followed = np.zeros(len(self), np.bool_), np.zeros(len(self), np.bool_)
        follows[after[meet]], followed[before[meet]] = True, True
        return follows, followed, previous

    @property
    def previous_end(self) -> Longs:
        """Where the version before of the same object ended; −1 for its first."""
        return self._neighbours[2]

    def added(self) -> Flags:
        """Versions that no version of the same object went before without a gap."""
        return ~self._neighbours[0]

    def deleted(self) -> Flags:
        """Versions that ended, and that no version of the same object follows without a gap."""
        last: Flags = (self.valid_to != OPEN) & ~self._neighbours[1]
        return last


def lives(table: str, parts: Iterable[pa.Table]) -> Lives:
    """The lives of one history table's objects; each part has its KEYS and VALIDITY."""
    known: list[dict[object, int]] = [{} for _ in KEYS[table]]
    codes: list[list[npt.NDArray[np.int32]]] = [[] for _ in known]
    values: list[list[npt.NDArray[Any]]] = [[] for _ in VALIDITY]
    for rows in parts:
        if table == "features":
            named = rows.column("name").cast(pa.string())
            rows = rows.filter(pc.not_equal(named, "kraft.version"))
        for name, numbers, found in zip(KEYS[table], known, codes, strict=True):
            number = partial(_number, numbers)
            found.append(numbered(rows.column(name), number).astype(np.int32))
        told = (
            _longs(rows.column("valid_from_offset"), 0),
            _longs(rows.column("valid_to_offset"), OPEN),
            _ms(rows.column("valid_from")),
            _ms(rows.column("valid_to")),
            np.asarray(rows.column("record_offset").is_null(), np.bool_),
        )
        for array, column in zip(told, values, strict=True):
            column.append(array)
    count = sum(map(len, values[0]))
    valid_from, valid_to, began_ms, ended_ms = (_whole(column, np.int64) for column in values[:4])
    return Lives(
        _combined(codes, [len(numbers) for numbers in known], count),
        valid_from,
        valid_to,
        began_ms,
        ended_ms,
        _whole(values[4], np.bool_),
    )


def _whole(parts: list[Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    """One array of many, which are let go: so that all of them are never there twice."""
    found: npt.NDArray[Any] = np.concatenate([np.empty(0, kind), *parts])
    parts.clear()
    return found


def _combined(codes: list[list[npt.NDArray[np.int32]]], distinct: list[int], count: int) -> Longs:
    """A number per distinct key, of the numbers of its columns."""
    combined = np.zeros(count, np.int64)
    for parts, values in zip(codes, distinct, strict=True):
        combined = combined * max(values, 1) + _whole(parts, np.int32)
    # Products of a few distinct counts stay far below 2**63: a log has no more keys than records.
    return combined


def _number(known: dict[object, int], value: object) -> int:
    return known.setdefault(value, len(known))


def _order_of(values: Longs) -> Longs:
    """The stable order of numbers from 0 on. Each is sorted with its place in its low bits: NumPy
    sorts plain numbers five times as fast as places.
    """
    bits = len(values).bit_length()
    if int(values.max(initial=0)) > OPEN >> bits or int(values.min(initial=0)) < 0:
        return np.argsort(values, kind="stable")
    packed = np.sort(values << bits | np.arange(len(values)))
    found: Longs = packed & ((1 << bits) - 1)
    return found


def _order_of_both(first: Longs, then: Longs) -> Longs:
    """The stable order by two arrays."""
    order = _order_of(then)
    return order[_order_of(first[order])]


def _longs(column: pa.ChunkedArray, default: int) -> Longs:
    found: Longs = column.fill_null(default).to_numpy().astype(np.int64)
    return found


def _ms(column: pa.ChunkedArray) -> Longs:
    times = column.cast(pa.int64()).fill_null(-1000).to_numpy()
    found: Longs = np.floor_divide(times, 1000)
    return found


class Changes:
    """All changes (ends of versions) of several tables in offset order, to ask for the dirty ratio
    many times. The ratio is `count` over `alive_at` (R51). Before `known_from`, where the last base
    snapshot ends, the state is not known.
    """

    def __init__(self, tables: Iterable[Lives], first_offset: int = 0) -> None:
        every = list(tables)
        nothing = np.empty(0, np.int64)
        self._from = np.sort(np.concatenate([nothing, *(one.valid_from for one in every)]))
        based = [int(one.valid_from[one.based].max()) for one in every if one.based.any()]
        self.known_from = max([first_offset, *based])
        offsets, before = [nothing], [nothing]
        for one in every:
            ended = np.flatnonzero(one.valid_to != OPEN)
            offsets.append(one.valid_to[ended])
            before.append(one.previous_end[ended])
        unsorted = np.concatenate(offsets)
        order = _order_of(unsorted)
        self._to: Longs = unsorted[order]
        known = int(np.searchsorted(self._to, first_offset, "right"))
        self.offsets: Longs = self._to[known:]
        self._before = np.concatenate(before)[order[known:]]

    def alive_at(self, offset: int) -> int:
        """Objects that a snapshot with this end offset holds."""
        began = np.searchsorted(self._from, offset, "right")
        return int(began - np.searchsorted(self._to, offset, "right"))

    def count(self, start: int, end: int) -> int:
        """Objects that were modified or deleted after `start` and up to `end` (R52): those of which
        a version ended there. One that was only added does not count; one that was added and then
        modified or deleted does. Each object counts once.
        """
        first, after = np.searchsorted(self.offsets, [start, end], "right")
        return int((self._before[first:after] <= start).sum())

    def reached(self, start: int, wanted: float) -> int | None:
        """The lowest offset up to which so many objects have changed since `start`."""
        if wanted <= 0:
            return start
        left, at = wanted, int(np.searchsorted(self.offsets, start, "right"))
        while at < len(self.offsets):
            counts = np.cumsum(self._before[at : at + _STEP] <= start)
            if counts[-1] >= left:
                return int(self.offsets[at + int(np.searchsorted(counts, left, "left"))])
            left, at = left - int(counts[-1]), at + _STEP
        return None
