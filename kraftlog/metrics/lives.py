"""Rows of a history table → lives of its objects.

In: rows of one lineage, part by part, each with its KEYS and VALIDITY, but for `record_offset` where
none is null; and what an earlier run has kept of others. Out: `Lives`. Versions of an object mostly lie next to each other in a part, in offset
order, and follow each other without a gap: such a stretch is looked at as a whole, and only
stretches are brought in order. Rows in any order give the same lives; the one in which histories
are written gives them soonest.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.metrics.numbering import numbered_values
from kraftlog.metrics.objects import OPEN, UNKNOWN_MS, Ends, Lives
from kraftlog.native.folding import ascending
from kraftlog.quorum.evidence import Longs
from kraftlog.state.history import SHOWN
from kraftlog.state.tables import TABLES

KEYS = {table.name: SHOWN[table.name].key for table in TABLES if table.writer is not None}
"""History tables whose objects are records of a snapshot, each with its key. Voters and
kraft.version come from control records.
"""
VALIDITY = ("valid_from_offset", "valid_to_offset", "valid_from", "valid_to", "record_offset")

_Array = npt.NDArray[Any]
_STRETCH = {
    "at": np.int64,
    "began": np.int64,
    "ended": np.int64,
    "first_ended": np.int64,
    "last_began": np.int64,
    "last_from_ms": np.int64,
    "last_to_ms": np.int64,
    "born_based": np.bool_,
    "last_based": np.bool_,
}
"""What is known of a stretch, as of a life in `Lives`; `at` is the place of its first version."""
_NOT_HERE = -1


class Gathered:
    """The versions of one history table's objects, and their stretches, of the parts so far; `keys`
    numbers the values of each key column. `known_ends` are ends of versions that are not read again.
    """

    def __init__(self, table: str) -> None:
        self.table = table
        keys = KEYS[table]
        self.known: list[dict[object, int]] = [{} for _ in keys]
        self.ends: list[Longs] = [np.empty(0, np.int64)]
        self.keys: list[list[Longs]] = [[np.empty(0, np.int64)] for _ in keys]
        self.stretches: dict[str, list[_Array]] = {
            name: [np.empty(0, kind)] for name, kind in _STRETCH.items()
        }
        self.known_ends: list[Ends] = []
        self.last_base = -1

    def know(
        self,
        keys: Sequence[pa.Array],
        stretches: Mapping[str, _Array],
        ends: list[Ends],
        last_base: int,
    ) -> None:
        """Take in what is kept of versions that ended before all others that are told: their
        stretches, and when they ended, in parts.
        """
        for name, values in stretches.items():
            self.stretches[name].append(values)
        self.stretches["at"].append(np.full(len(stretches["began"]), _NOT_HERE))
        for column, known, numbers in zip(keys, self.known, self.keys, strict=True):
            numbers.append(numbered_values(column, known))
        self.known_ends, self.last_base = ends, last_base

    def add(self, rows: pa.Table) -> None:
        """Take in one more part."""
        if self.table == "features":
            named = rows.column("name").cast(pa.string())
            rows = rows.filter(pc.not_equal(named, "kraft.version"))
        if not rows.num_rows:
            return
        keys = [rows.column(name).combine_chunks() for name in KEYS[self.table]]
        begins: Longs = rows.column("valid_from_offset").to_numpy()
        ended = rows.column("valid_to_offset")
        ends: Longs = (ended.fill_null(OPEN) if ended.null_count else ended).to_numpy()
        breaks = begins[1:] != ends[:-1]
        for codes in map(_codes, keys):
            breaks |= codes[1:] != codes[:-1]
        first = np.append(0, np.flatnonzero(breaks) + 1)
        last = np.append(first[1:], len(ends)) - 1
        based = np.zeros(len(ends), np.bool_)
        if "record_offset" in rows.column_names:
            based = np.asarray(rows.column("record_offset").is_null(), np.bool_)
        stretches = {
            "at": first + sum(map(len, self.ends)),
            "began": begins[first],
            "ended": ends[last],
            "first_ended": ends[first],
            "last_began": begins[last],
            "last_from_ms": ms_of(rows.column("valid_from").take(pa.array(last))),
            "last_to_ms": ms_of(rows.column("valid_to").take(pa.array(last))),
            "born_based": based[first],
            "last_based": based[last],
        }
        for name, values in stretches.items():
            self.stretches[name].append(values)
        for column, known, numbers in zip(keys, self.known, self.keys, strict=True):
            numbers.append(numbered_values(column.take(pa.array(first)), known))
        self.ends.append(ends)
        self.last_base = max(self.last_base, int(begins[based].max(initial=-1)))

    def lives(self) -> Lives:
        """The lives, once all parts are taken in; what was gathered is let go. Stretches that follow
        each other without a gap are one life, in whatever parts they lie.
        """
        stretches = {name: _whole(values) for name, values in self.stretches.items()}
        keys = [_whole(numbers) for numbers in self.keys]
        order = np.lexsort((stretches["began"], *keys))
        one = {name: values[order] for name, values in stretches.items()}
        keys = [numbers[order] for numbers in keys]
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for numbers in keys:
            same &= numbers[1:] == numbers[:-1]
        previous = np.full(len(order), -1, np.int64)
        previous[1:][same] = one["ended"][:-1][same]
        ends = _whole(self.ends)
        before = np.empty_like(ends)
        before[1:] = ends[:-1]  # in a stretch each version begins where the one before it ended
        is_here = one["at"] != _NOT_HERE
        before[one["at"][is_here]] = previous[is_here]
        first = np.flatnonzero(previous != one["began"])
        last = np.append(first[1:], len(order))[: len(first)] - 1
        return Lives(
            began=one["began"][first],
            ended=one["ended"][last],
            first_ended=one["first_ended"][first],
            last_began=one["last_began"][last],
            last_from_ms=one["last_from_ms"][last],
            last_to_ms=one["last_to_ms"][last],
            born_based=one["born_based"][first],
            last_based=one["last_based"][last],
            previous=previous[first],
            ends=[*self.known_ends, _in_order(ends, before)],
            keys=[
                pa.array(list(known)).cast(pa.string()).take(pa.array(numbers[first]))
                for known, numbers in zip(self.known, keys, strict=True)
            ],
            last_base=self.last_base,
        )


def _in_order(ends: Longs, before: Longs) -> Ends:
    """The versions that ended, in the order of their ends. Each is sorted as one number, with what
    was before in its low bits. Works on the arrays in place: they are the largest.
    """
    count = int(np.count_nonzero(ends != OPEN))
    highest = max(int(ends.max(initial=0, where=ends != OPEN)), int(before.max(initial=0)))
    bits = (highest + 1).bit_length()
    if 2 * bits > 62:
        order = np.argsort(ends, kind="stable")[:count]
        return Ends(ends[order], before[order])
    np.minimum(ends, highest + 1, out=ends)  # what is open comes last
    ends <<= bits
    before += 1
    ends |= before
    ends = ascending(ends, bits)
    np.bitwise_and(ends, (1 << bits) - 1, out=before)
    before -= 1
    ends >>= bits
    return Ends(ends[:count], before[:count])


def _whole(parts: list[_Array]) -> _Array:
    """One array of many, which are let go: so that all of them are never there twice."""
    found: _Array = np.concatenate(parts)
    parts.clear()
    return found


def _codes(column: pa.Array) -> _Array:
    """A number per value of one part, equal for equal values."""
    found: _Array
    if not column.null_count and pa.types.is_dictionary(column.type):
        found = column.indices.to_numpy()
    elif not column.null_count and pa.types.is_integer(column.type):
        found = column.to_numpy()
    else:
        found = numbered_values(column, {})
    return found


def ms_of(times: pa.ChunkedArray) -> Longs:
    """Times in ms, UNKNOWN_MS for null."""
    micros = times.cast(pa.int64()).fill_null(UNKNOWN_MS * 1000).to_numpy()
    found: Longs = np.floor_divide(micros, 1000)
    return found
