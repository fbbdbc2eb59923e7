"""New versions of partitions as columns, as a rule of the state is asked of them.

In: lists of brokers and numbers as the fold has them, and at which events a version begins. Out:
columns under Kafka's JSON names, an entry per version, with those of the version before. A rule
flags what it may tell of; nothing wrong may be missed, and what is only unusual may be flagged too,
as every flagged partition goes to the definition.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_WIDEST = 16
"""Longer lists are left to the definition."""
NOBODY = 1 << 40
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
        ids = np.full((int(kept.max()), len(lengths)), NOBODY, np.int64)
        flat = lists.flatten().to_numpy(zero_copy_only=False)
        for place, row in enumerate(ids):
            held = np.flatnonzero(kept > place)
            row[held] = flat.take(starts.take(held) + place)
        return cls(ids, odd)

    def at(self, index: Longs) -> Longs:
        """The lists at some places; beyond the last one all lists are empty."""
        found: Longs = self.ids.take(np.minimum(index, len(self.odd) - 1), axis=1)
        return found

    def odd_at(self, index: Longs) -> Flags:
        """Whether the lists at some places are too long."""
        found: Flags = self.odd.take(np.minimum(index, len(self.odd) - 1))
        return found


@dataclass(frozen=True, slots=True)
class NewVersions:
    """The versions that begin at the events `at`. `has_before`: a version of the same partition
    ends there. `lists` has the distinct lists, `places` which of them holds at each event, and
    `numbers` what does.
    """

    at: Longs
    has_before: Flags
    lists: Mapping[str, Brokers]
    places: Mapping[str, Longs]
    numbers: Mapping[str, Longs]

    def ids(self, name: str) -> Longs:
        """A list of brokers of each version: a row per place in it, NOBODY behind its end."""
        return self.lists[name].at(self.places[name].take(self.at))

    def number(self, name: str) -> Longs:
        """A number of each version."""
        return self.numbers[name].take(self.at)

    def number_before(self, name: str) -> Longs:
        """The same of the version before; without a meaning where there is none."""
        return self.numbers[name].take(self.at - 1)

    def odd(self) -> Flags:
        """Whether some list of a version is too long to be among its `ids`."""
        found = np.zeros(len(self.at), np.bool_)
        for name, lists in self.lists.items():
            if lists.odd.any():
                found |= lists.odd_at(self.places[name].take(self.at))
        return found


Suspects = Callable[[NewVersions], Flags]
"""Which versions a rule may have something to say of."""


def every_version(versions: NewVersions) -> Flags:
    """All of them: right for every rule, and as slow as the definition."""
    return np.ones(len(versions.at), np.bool_)
