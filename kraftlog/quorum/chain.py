"""The history that the replicas hold together: one sequence of batches, each taken from the copies
that agree on it.

In: the logs of a quorum, and where each leaves its history. Out: links in offset order, with the
holes between them. Uncommitted tails and second histories are left out; where copies differ, the
batch of the voters' majority is taken, else that of most copies. So each content is replayed once,
and one altered copy does not spoil the state of all. Source: KIP-630 "Overview", KAFKA-1211.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kraftlog.log.batch import CONTROL
from kraftlog.quorum.evidence import Flags, Ids, Longs
from kraftlog.quorum.logview import LogView

Leaves = Callable[[str, int], int]
"""Where a copy, by its label and its end, leaves the history."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The batches of a history, one array element each: where they begin and end, their ids, and
    one copy: a log of `logs` and a row of it.
    """

    logs: tuple[LogView, ...]
    base: Longs
    end: Longs
    ids: Ids
    log: Longs
    row: Longs

    def __len__(self) -> int:
        return len(self.base)

    def between(self, start: int, end: int) -> tuple[int, int]:
        """The links [first, after) that hold offsets of [start, end)."""
        first = int(np.searchsorted(self.end, start, "right"))
        after = int(np.searchsorted(self.base, end, "left")) if start < end else first
        return first, max(first, after)

    def link_at(self, offset: int) -> int:
        """The link whose batch holds an offset; −1 where none does."""
        first, after = self.between(offset, offset + 1)
        return first if first < after else -1

    def column(self, name: str) -> Longs:
        """Of each link's batch what a column of `BatchColumns` says."""
        found = np.empty(len(self), np.int64)
        for index in np.flatnonzero(np.bincount(self.log)).tolist():
            own = self.log == index
            found[own] = getattr(self.logs[index].evidence.log, name)[self.row[own]]
        return found

    def unbroken(self) -> list[tuple[int, int]]:
        """Links [first, after) without a hole between them, and without a step back to an older epoch
        that no copy has: what follows one is of another history.
        """
        if not len(self):
            return []
        epochs, breaks = self.column("epochs"), self.base[1:] != self.end[:-1]
        steps_back = epochs[1:] < epochs[:-1]
        if steps_back.any():
            breaks |= steps_back & ~_follows(self)
        return list(pairwise([0, *(np.flatnonzero(breaks) + 1).tolist(), len(self)]))

    def part(self, at: Longs | slice) -> "Chain":
        return Chain(
            self.logs, self.base[at], self.end[at], self.ids[at], self.log[at], self.row[at]
        )

    def above(self, offset: int) -> "Chain":
        """The links that end above an offset."""
        return self.part(slice(int(np.searchsorted(self.end, offset, "right")), None))

    def followed_by(self, other: "Chain") -> "Chain":
        """These links, and then others."""
        return Chain(
            self.logs + other.logs,
            np.concatenate([self.base, other.base]),
            np.concatenate([self.end, other.end]),
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.log, other.log + len(self.logs)]),
            np.concatenate([self.row, other.row]),
        )

    def epoch(self, at: int) -> int:
        """The leader epoch of a link's batch."""
        return int(self.logs[int(self.log[at])].evidence.log.epochs[self.row[at]])


def chain(
    logs: Sequence[LogView],
    leaves: Leaves,
    voters: Sequence[Collection[str]] = (),
    majority: int = 1,
) -> Chain:
    """The batches in offset order. At each offset the batch that a majority of the voters holds
    counts (`voters` has the labels of each one's copies), else that which most of the copies hold;
    of equals that of the newest epoch. A batch below the end of the one before it is left out.
    """
    every, epoch = _copies(logs, leaves)
    seats = [[at for at, one in enumerate(every.logs) if one.label in own] for own in voters]
    # Of two copies of one voter only one can be its own, so that all of them must hold it.
    held = [at for at, own in zip(seats, voters, strict=True) if len(at) == len(own)]
    return _without_overlaps(_chosen(every, epoch, held, majority))


def whole_log(log: LogView) -> Chain:
    """All usable batches of one log."""
    ids = log.evidence.log.ids[log.rows]
    return Chain((log,), log.base, log.last + 1, ids, np.zeros_like(log.rows), log.rows)


def runs(links: Chain) -> list[tuple[int, int]]:
    """Offsets [start, end) that links hold one after the other, without a gap."""
    if len(links) == 0:
        return []
    breaks = np.flatnonzero(~_follows(links))
    starts = links.base[[0, *(breaks + 1)]].tolist()
    return list(zip(starts, links.end[[*breaks, -1]].tolist(), strict=True))


def _follows(links: Chain) -> Flags:
    """Of each link but the first, whether it goes on from the one before: there is no hole, and one
    of the copies holds both, so that somebody has written them in this order.
    """
    found: Flags = links.base[1:] == links.end[:-1]
    at = np.flatnonzero(found & (links.log[1:] != links.log[:-1]))
    seen = np.zeros(len(at), np.bool_)
    for log in links.logs if len(at) else ():
        seen |= holds(log, links, at) & holds(log, links, at + 1)
    found[at] = seen
    return found


def holds(log: LogView, links: Chain, at: Longs) -> Flags:
    """Whether a log holds the batches of some links."""
    place = np.minimum(np.searchsorted(log.base, links.base[at]), len(log.base) - 1)
    found: Flags = (log.evidence.log.ids[log.rows[place]] == links.ids[at]).all(axis=1)
    return found


def tells_as(log: LogView, links: Chain, start: int, end: int) -> bool:
    """Whether a log holds just the batches of some links from one offset to another, and these follow
    each other without a hole.
    """
    first, after = links.between(start, end)
    if first == after or log.is_empty:
        return False
    whole = links.base[first] <= start and links.end[after - 1] == end
    follow = links.base[first + 1 : after] == links.end[first : after - 1]
    return bool(whole and follow.all() and holds(log, links, np.arange(first, after)).all())


def expected_bases(links: Chain) -> Longs:
    """The offset at which its controller took each batch to begin: it counts what it writes itself,
    and not the control batches that KRaft puts in front within the epoch, such as voters' records.
    """
    control, epochs = links.column("attributes") & CONTROL != 0, links.column("epochs")
    control[1:] &= epochs[1:] == epochs[:-1]  # the controller begins behind the LeaderChange
    control[:1] = False
    last = np.maximum.accumulate(np.where(control, -1, np.arange(len(links))))
    first = np.append(0, last[:-1] + 1)[: len(links)]
    found: Longs = links.base[first]
    return found


def _copies(every: Sequence[LogView], leaves: Leaves) -> tuple[Chain, Longs]:
    """The batches of all copies, by offset and content, and the epoch of each."""
    logs = tuple(one for one in every if not one.is_empty)
    parts = [_counted(log, leaves, index) for index, log in enumerate(logs)]
    if not parts:
        nothing = np.empty(0, np.int64)
        return Chain((), nothing, nothing, np.empty((0, 2), np.uint64), nothing, nothing), nothing
    base, end, log, row, epoch = (np.concatenate(column) for column in zip(*parts, strict=True))
    ids = np.concatenate(
        [one.evidence.log.ids[part[3]] for one, part in zip(logs, parts, strict=True)]
    )
    order = np.argsort(base, kind="stable")  # runs that are in order already: the copies
    same = base[order[1:]] == base[order[:-1]]
    if np.any(ids[order[1:]][same] != ids[order[:-1]][same]):
        order = np.lexsort((log, ids[:, 1], ids[:, 0], base))
    return Chain(logs, base[order], end[order], ids[order], log[order], row[order]), epoch[order]


def _counted(log: LogView, leaves: Leaves, index: int) -> tuple[Longs, ...]:
    """A copy's batches but those of its uncommitted tail or second history."""
    count = int((log.base < leaves(log.label, log.end_offset or 0)).sum())
    return (
        log.base[:count],
        log.last[:count] + 1,
        np.full(count, index),
        log.rows[:count],
        log.epochs[:count],
    )


def _chosen(every: Chain, epoch: Longs, voters: list[list[int]], majority: int) -> Chain:
    """One batch per offset: that which most voters hold, or most copies, of the newest epoch, of the
    first log. `voters` has the logs of each one, as numbers.
    """
    if len(every) == 0:
        return every
    is_new = np.ones(len(every), np.bool_)
    is_new[1:] = (every.base[1:] != every.base[:-1]) | (every.ids[1:] != every.ids[:-1]).any(axis=1)
    first = np.flatnonzero(is_new)
    count = np.diff(np.append(first, len(every)))
    by_voters = np.zeros(len(first), np.bool_)
    if (every.base[first[1:]] == every.base[first[:-1]]).any():
        batch, votes = np.cumsum(is_new) - 1, np.zeros(len(first), np.int64)
        for own in voters:
            held = batch[np.isin(every.log, own)]
            votes += np.bincount(held, minlength=len(first)) == len(own)
        by_voters = votes >= majority
    keys = every.log[first], -epoch[first], -count, ~by_voters, every.base[first]
    best = np.lexsort(keys)
    base = every.base[first[best]]
    leads = np.ones(len(base), np.bool_)
    leads[1:] = base[1:] != base[:-1]
    return every.part(first[best[leads]])


def _without_overlaps(found: Chain) -> Chain:
    if len(found) == 0 or (found.base[1:] >= found.end[:-1]).all():
        return found
    kept, reached = [], 0
    for at, (base, end) in enumerate(zip(found.base.tolist(), found.end.tolist(), strict=True)):
        if base >= reached:
            kept.append(at)
            reached = end
    return found.part(np.array(kept, np.int64))
