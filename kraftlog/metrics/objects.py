"""Lives of objects: when each version of each object began and ended, as arrays.

In: rows of a history table (one lineage). Out: `Lives`, in offset order of the beginnings, with a
code per object. What changed between two offsets, and what was alive at one, are questions to
sorted arrays. Offsets are those of visibility: a version holds from `valid_from` (inclusive) to
`valid_to` (exclusive; OPEN where it still holds). Source: R13, R51, R52.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.audit.evidence import Flags, Longs

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
    def _neighbours(self) -> tuple[Flags, Flags]:
        """Versions that follow one of the same object without a gap, and those that one follows."""
        order = _order_of_both(self.codes, self.valid_from)
        codes, before, after = self.codes[order], order[:-1], order[1:]
        meet = (codes[1:] == codes[:-1]) & (self.valid_to[before] == self.valid_from[after])
        follows, followed = np.zeros(len(self), np.bool_), np.zeros(len(self), np.bool_)
        follows[after[meet]], followed[before[meet]] = True, True
        return follows, followed

    def added(self) -> Flags:
        """Versions that no version of the same object went before without a gap."""
        return ~self._neighbours[0]

    def deleted(self) -> Flags:
        """Versions that ended, and that no version of the same object follows without a gap."""
        last: Flags = (self.valid_to != OPEN) & ~self._neighbours[1]
        return last


def lives(table: str, rows: pa.Table) -> Lives:
    """The lives of one history table's objects; `rows` has its KEYS and VALIDITY."""
    if table == "features":
        rows = rows.filter(pc.not_equal(rows.column("name").cast(pa.string()), "kraft.version"))
    return Lives(
        _codes([rows.column(name) for name in KEYS[table]], rows.num_rows),
        _longs(rows.column("valid_from_offset"), 0),
        _longs(rows.column("valid_to_offset"), OPEN),
        _ms(rows.column("valid_from")),
        _ms(rows.column("valid_to")),
        np.asarray(rows.column("record_offset").is_null(), np.bool_),
    )


def _codes(columns: Sequence[pa.ChunkedArray], count: int) -> Longs:
    """A number per distinct key."""
    codes = np.zeros(count, np.int64)
    for column in columns:
        part, distinct = _one_code(column)
        codes = codes * distinct + part
    # Products of a few distinct counts stay far below 2**63: a log has no more keys than records.
    return codes


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


def _one_code(column: pa.ChunkedArray) -> tuple[Longs, int]:
    if pa.types.is_nested(column.type):
        column = pa.chunked_array([[json.dumps(one) for one in column.to_pylist()]], pa.string())
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    encoded = whole
    if not pa.types.is_dictionary(whole.type):
        encoded = pc.dictionary_encode(whole, null_encoding="encode")
    codes: Longs = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, max(len(encoded.dictionary), 1)


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
        offsets, codes, first = [nothing], [nothing], 0
        for one in every:
            ended = np.flatnonzero(one.valid_to != OPEN)
            offsets.append(one.valid_to[ended])
            codes.append(one.codes[ended] + first)
            first += int(one.codes.max()) + 1 if len(one) else 0
        unsorted, owners = np.concatenate(offsets), np.concatenate(codes)
        order = _order_of(unsorted)
        self._to: Longs = unsorted[order]
        known = int(np.searchsorted(self._to, first_offset, "right"))
        self.offsets: Longs = self._to[known:]
        self._before = _previous(owners[order[known:]], self.offsets)

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
        first = int(np.searchsorted(self.offsets, start, "right"))
        counts = np.cumsum(self._before[first:] <= start)
        at = int(np.searchsorted(counts, wanted, "left"))
        return int(self.offsets[first + at]) if at < len(counts) else None


def _previous(codes: Longs, offsets: Longs) -> Longs:
    """The offset of the change of the same object before each one; −1 for the first."""
    before = np.full(len(codes), -1, np.int64)
    order = _order_of(codes)
    same = codes[order][1:] == codes[order][:-1]
    before[order[1:][same]] = offsets[order[:-1][same]]
    return before
