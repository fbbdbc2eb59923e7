"""Versions of partitions that a rule of the state could tell: found by arrays, explained elsewhere.

In: lists of brokers as columns, and which of them hold at each event. Out: flags, true wherever a
version may be wrong. Nothing wrong is missed; what is only unusual (a list of very many brokers)
may be flagged too, as every flagged partition goes to the definition. Source: KIP-631, KIP-966.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_WIDEST = 16
"""Longer lists are left to the definition."""
_NOBODY = 1 << 40
"""Stands for no broker: no id is so large."""


@dataclass(frozen=True, slots=True)
class Brokers:
    """Lists of broker ids as a table of numbers, a column per list and a last one for the empty
    list: places are rows, as short rows are slow to go along. `odd`: lists too long for it.
    """

    ids: Longs
    odd: Flags

    @classmethod
    def of(cls, lists: pa.Array) -> "Brokers":
        """The lists of one column; null counts as empty."""
        lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        lengths = np.append(lengths, 0).astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        odd = lengths > _WIDEST
        kept = np.where(odd, 0, lengths)
        ids = np.full((int(kept.max()), len(lengths)), _NOBODY, np.int64)
        flat = lists.flatten().to_numpy(zero_copy_only=False)
        for place, row in enumerate(ids):
            held = np.flatnonzero(kept > place)
            row[held] = flat[starts[held] + place]
        return cls(ids, odd)

    def at(self, index: Longs) -> Longs:
        """The lists at some places; beyond the last one all lists are empty."""
        found: Longs = self.ids.take(np.minimum(index, len(self.odd) - 1), axis=1)
        return found

    def odd_at(self, index: Longs) -> Flags:
        """Whether the lists at some places are too long."""
        found: Flags = self.odd.take(np.minimum(index, len(self.odd) - 1))
        return found


def bad_assignment(assigned: Brokers) -> Flags:
    """Of each list of replicas: whether it is empty or names a broker twice."""
    found: Flags = assigned.odd | (assigned.ids == _NOBODY).all(axis=0)
    for place, one in enumerate(assigned.ids):
        for other in assigned.ids[:place]:
            found |= (one == other) & (one != _NOBODY)
    return found


def outside(members: Longs, assigned: Longs) -> Flags:
    """Of each list of members: whether it holds a broker that the assigned ones do not."""
    found = np.zeros(members.shape[1], np.bool_)
    for member in members:
        inside = member == _NOBODY
        for one in assigned:
            inside |= member == one
        found |= ~inside
    return found
