"""Arrays → arrays, compiled: the fold of many partitions' events, lists of many partitions, and
numbers in order, in a tenth of the time in which NumPy sorts them.

In: arrays of events and of records' fields, and columns of lists as Arrow holds them. Out: numpy
arrays. `folding.c` and `sorting.c` hold the loops; each is called by one function here, which makes
the arrays and holds every index against the array that it is for. Runs in executors, also from an
archive; where there is no compiled part (`kernel.is_here`), NumPy sorts, and the definition takes
all records, with the same answers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog.native.kernel import Marks, Numbers, Places, address, addresses, is_here, library

LISTS = (
    "replicas",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
    "directories",
)
"""A partition's lists, in the order in which the loops know them."""
FIELDS = (*LISTS, "leader", "leader_recovery_state", "leader_epoch", "partition_epoch")
"""A record's fields: of lists their lengths, −1 where there is none; −2 stands for no leader named,
−1 for no recovery state."""


class FoldedVersions(NamedTuple):
    """What holds of an event's partition after it, an entry per event; of each list, which record
    has it: behind the records, the empty list and then one for each size of `folded`.

    Where neither `begins` (a version begins) nor `live` is set, the rest means nothing; `bad`: the
    event is abnormal.
    """

    lists: dict[str, Places]
    leader: Places
    recovery: Places
    leader_epoch: Places
    partition_epoch: Places
    begins: Marks
    live: Marks
    bad: Marks


def folded(
    keys: Numbers,
    kinds: npt.NDArray[np.int8],
    source: Places,
    alive: Marks,
    records: Sequence[Places],
    sizes: Places,
) -> FoldedVersions:
    """Fold events that lie together by key, each key's in order. `alive` is asked for the upper half
    of a key, `records` has a column for each of FIELDS, `source` an event's record or −1. `sizes`
    gives for each length of `replicas` where the list of so many unknown directories stands. Without
    a compiled part every event is abnormal.
    """
    events, count = len(keys), len(records[0])
    lists = np.zeros((len(LISTS), events), np.int32)
    numbers: list[npt.NDArray[Any]] = [np.zeros(events, np.int32) for _ in range(4)]
    marks: list[npt.NDArray[Any]] = [np.zeros(events, np.bool_) for _ in range(3)]
    versions = FoldedVersions(dict(zip(LISTS, lists, strict=True)), *numbers, *marks)
    if not is_here():
        versions.bad[:] = True
        return versions
    # A row per record; an event without a record is given the first one, so there is one.
    table = np.stack(records, axis=1) if count else np.zeros((1, len(FIELDS)), np.int32)
    if events:
        codes = keys[[0, -1]] >> 32
        if codes.min() < 0 or codes.max() >= len(alive) or (keys[1:] < keys[:-1]).any():
            raise ValueError("keys in order, each of which something is known of, are asked for")
        if source.min() < -1 or source.max() >= count:
            raise ValueError("an event's record is not among the records")
    if len(sizes) <= table[:count, 0].max(initial=0):
        raise ValueError("each length of a list of replicas needs its place")
    library().kraftlog_fold(
        events,
        *addresses(keys, kinds, source, alive, table),
        count,
        *addresses(sizes, lists, *numbers, *marks),
    )
    return versions


class Lists(NamedTuple):
    """Lists of 32-bit numbers, or of codes; none is null."""

    offsets: Places
    values: Places

    @classmethod
    def of(cls, lists: pa.ListArray) -> "Lists":
        """Those of a column; null counts as empty where nothing lies behind it, as Arrow's own."""
        values = lists.values
        codes = values.indices if isinstance(values, pa.DictionaryArray) else values
        full = codes.fill_null(0) if codes.null_count else codes
        return cls(lists.offsets.to_numpy(), full.to_numpy())

    def held(self, places: Places) -> "HeldLists":
        """Those at some places; behind the last one all are empty."""
        if len(places) and places.min() < 0:
            raise ValueError("a list's place is not negative")
        return HeldLists(places, *self)


class HeldLists(NamedTuple):
    """Lists at some places, an entry per row."""

    places: Places
    offsets: Places
    values: Places

    def _arguments(self) -> list[int]:
        return [*addresses(self.places, self.offsets, self.values), len(self.offsets) - 1]

    def repeats(self) -> Marks:
        """Which of them hold a number twice, or are so long that nobody looked."""
        out = np.empty(len(self.places), np.bool_)
        library().kraftlog_repeats(len(out), *self._arguments(), address(out))
        return out

    def outside(self, within: "HeldLists") -> Marks:
        """Which of them hold a number that the list beside it does not, or are so long that nobody
        looked.
        """
        if not len(self.values):
            return np.zeros(len(self.places), np.bool_)
        out = np.empty(len(self.places), np.bool_)
        library().kraftlog_outside(len(out), *self._arguments(), *within._arguments(), address(out))
        return out

    def holds(self, wanted: Places) -> Marks:
        """Which of them hold the number beside them."""
        out = np.empty(len(self.places), np.bool_)
        library().kraftlog_holds(len(out), *self._arguments(), *addresses(wanted, out))
        return out

    def meets(self, other: "HeldLists") -> Marks:
        """Which of them hold a number that the list beside it holds too."""
        out = np.zeros(len(self.places), np.bool_)
        both = np.flatnonzero((self.lengths() > 0) & (other.lengths() > 0))
        mine, theirs = (one._keyed(both) for one in (self, other))
        out[mine[np.isin(mine, theirs)] + (1 << 31) >> 32] = True
        return out

    def _keyed(self, rows: Numbers) -> Numbers:
        """The numbers of some of them, each behind its row."""
        ends, values = self._replace(places=self.places.take(rows)).taken()
        return (np.repeat(rows, np.diff(ends)) << 32) + values

    def lengths(self) -> Places:
        """How many numbers each of them holds."""
        return np.diff(self._ends())

    def _ends(self) -> Places:
        ends = np.empty(len(self.places) + 1, np.int32)
        count = len(self.offsets) - 1
        total = library().kraftlog_ends(
            len(self.places), *addresses(self.places, self.offsets), count, address(ends)
        )
        if total > np.iinfo(np.int32).max:
            raise ValueError("more numbers than one column of lists can hold")
        return ends

    def taken(self) -> Lists:
        """The lists themselves, one after the other."""
        ends = self._ends()
        values = np.empty(ends[-1], np.int32)
        library().kraftlog_taken(len(self.places), *self._arguments(), address(values))
        return Lists(ends, values)


def ascending(numbers: Numbers, first_bit: int = 0) -> Numbers:
    """Numbers in the order of their bits from one on; those that have the same there stay in their
    order. The array that is given may be written to.
    """
    if numbers.min(initial=0) < 0:
        raise ValueError("numbers from 0 on are sorted")
    if not is_here():
        return numbers.take(np.argsort(numbers >> first_bit, kind="stable"))
    room = np.empty_like(numbers)
    end = int(numbers.max(initial=0)).bit_length()
    turned = library().kraftlog_sort(*addresses(numbers, room), len(numbers), first_bit, end)
    return room if turned else numbers


def order_of(numbers: Numbers) -> Numbers:
    """The places of any numbers, in their stable order. Each is sorted with its place in its low
    bits, wherever 63 bits hold both.
    """
    bits = len(numbers).bit_length()
    lowest, highest = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    if lowest < 0 or highest.bit_length() + bits > 63:
        return np.argsort(numbers, kind="stable")
    packed = ascending(numbers << bits | np.arange(len(numbers)), bits)
    packed &= (1 << bits) - 1
    return packed
