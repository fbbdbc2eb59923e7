"""What the files of one replica, or of all together, hold that a state can be rebuilt from, and how
far two replicas tell one history. The one home of the rule at which offsets a state can be rebuilt.

In: a `Quorum`. Out: runs, snapshots and ranges of a replica; the kinship of two. Work on columns
only. Source: KIP-630 "Motivation", "Consistent Log and Snapshots", KAFKA-14205, KIP-595.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kraftlog.quorum.chain import Chain, chain, runs, whole_log
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView

Range = tuple[int, int]
"""Offsets with both ends included."""


def rebuildable(bases: Iterable[int], runs: Sequence[tuple[int, int]]) -> list[Range]:
    """The offsets at which a state can be rebuilt: sorted ranges with both ends included.

    `bases` are the ends of snapshots, and 0 for a log that begins there; `runs` are the offsets
    [start, end) that the log holds without a gap, sorted. From a base on, the state is known as far
    as the log goes on from it.
    """
    starts = [start for start, _ in runs]
    ranges: list[Range] = []
    for base in sorted(bases):
        index = bisect_right(starts, base) - 1
        end = max(base, runs[index][1]) if index >= 0 else base
        if ranges and base <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], end))
        else:
            ranges.append((base, end))
    return ranges


def gaps(ranges: Iterable[Range], start: int, end: int) -> Iterator[Range]:
    """What of [start, end] the ranges leave out."""
    for low, high in sorted(ranges):
        if low > start:
            yield start, min(low - 1, end)
        start = max(start, high + 1)
        if start > end:
            return
    if start <= end:
        yield start, end


def untold(known: Iterable[Range], furthest: int) -> tuple[Range, ...]:
    """The records (ranges with both ends included) that lead from or to a state that none of the
    known ranges has, up to the furthest state: nobody can tell what they changed.
    """
    spans = ((max(low - 1, 0), min(high, furthest - 1)) for low, high in gaps(known, 0, furthest))
    return tuple((first, last) for first, last in spans if first <= last)


@dataclass(frozen=True)
class Held:
    """What one replica's files hold; or those of all copies, where `log` is that of the last link."""

    quorum: Quorum
    log: LogView
    snapshots: tuple[SnapshotView, ...]
    """Those that a replay can begin with, by end offset."""
    links: Chain

    @classmethod
    def by(cls, quorum: Quorum, log: LogView) -> "Held":
        """What the files of a replica hold."""
        found = [one for one in _own_snapshots(quorum, log) if quorum.why_no_base(one) is None]
        return cls(quorum, log, _by_end(found), whole_log(log))

    @classmethod
    def shared(cls, quorum: Quorum, log: LogView) -> "Held":
        """The log of a replica, with the snapshots of all copies that its history goes through."""
        until = quorum.confirmed(log.label, log.end_offset or 0)
        found = [
            one
            for one in quorum.credible_snapshots
            if one.replica == log.label or one.end_offset <= until
        ]
        return cls(quorum, log, _by_end(_most_first(found)), whole_log(log))

    @classmethod
    def together(cls, quorum: Quorum) -> "Held | None":
        """The history that the copies hold together, each batch taken from one that can be read;
        None where no log tells any.
        """
        links = quorum.chain
        if len(links) == 0:
            return None
        end = int(links.end[-1])
        found = [one for one in quorum.credible_snapshots if one.end_offset <= end]
        snapshots = _by_end(_most_first(found))
        return cls(quorum, links.logs[int(links.log[-1])], snapshots, links)

    @classmethod
    def alone(cls, quorum: Quorum, snapshot: SnapshotView) -> "Held":
        """A snapshot, and no log that leads up to it or on from it."""
        nothing = chain((), quorum.leaves)
        return cls(quorum, quorum.by_label[snapshot.replica], (snapshot,), nothing)

    @property
    def label(self) -> str:
        return self.log.label

    @property
    def is_foreign(self) -> bool:
        return self.label in self.quorum.foreign

    @property
    def rejected(self) -> list[tuple[SnapshotView, str]]:
        """The snapshots that it cannot begin with, and why."""
        own = _own_snapshots(self.quorum, self.log)
        told = ((one, self.quorum.why_no_base(one)) for one in own)
        return [(one, why) for one, why in told if why is not None]

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """Offsets [start, end) without a gap."""
        return runs(self.links)

    @property
    def begins_at_zero(self) -> bool:
        """Whether the log gives the state from nothing."""
        return bool(self.runs) and self.runs[0][0] == 0

    @cached_property
    def ranges(self) -> list[Range]:
        """Where its own files give the state."""
        bases = {one.end_offset for one in self.snapshots}
        if self.begins_at_zero:
            bases.add(0)
        return rebuildable(bases, self.runs)

    @cached_property
    def end_offset(self) -> int:
        """The end of all that it holds; −1 where it holds nothing."""
        ends = [one.end_offset for one in self.snapshots]
        if len(self.links):
            return max([int(self.links.end[-1]), *ends])
        return max([*ends, -1 if self.log.end_offset is None else self.log.end_offset])

    def base_for(self, offset: int) -> SnapshotView | None:
        """The newest snapshot at or below an offset from which the log reaches it: what the node
        itself would begin with.
        """
        return next(reversed(self._bases_for(offset)), None)

    def oldest_base_for(self, offset: int) -> SnapshotView | None:
        """What takes the least on trust: nothing where the log leads up to an offset from 0 on, else
        the oldest snapshot from which it does. A later one can add nothing but its own errors.
        """
        if self.begins_at_zero and offset <= self.reach(0):
            return None
        return next(iter(self._bases_for(offset)), None)

    def _bases_for(self, offset: int) -> list[SnapshotView]:
        below = (one for one in self.snapshots if one.end_offset <= offset)
        return [one for one in below if offset <= self.reach(one.end_offset)]

    def reach(self, base: int) -> int:
        """How far the log goes on from a base without a gap."""
        ((_, reached),) = rebuildable([base], self.runs)
        return reached

    def epoch_before(self, offset: int) -> int:
        """The epoch of the last batch, or of the snapshot, that ends at or before an offset; −1 where
        nothing tells.
        """
        first, after = self.links.between(offset - 1, offset)
        if first < after:
            return self.links.epoch(first)
        return max((one.epoch for one in self.snapshots if one.end_offset == offset), default=-1)

    def segments(self, start: int, end: int) -> list[tuple[str, str]]:
        """The files that hold offsets [start, end) of one run, each with the copy that it is of, in
        the order in which a replay needs them.
        """
        first, after = self.links.between(start, end)
        found: list[tuple[int, str, str]] = []
        for index, log in enumerate(self.links.logs):
            own = np.flatnonzero(self.links.log[first:after] == index)
            rows = self.links.row[first:after][own]
            files, at = np.unique(log.evidence.log.file[rows], return_index=True)
            paths = [log.evidence.segments[one].path for one in files.tolist()]
            found += zip(own[at].tolist(), [log.label] * len(at), paths, strict=True)
        return [(label, path) for _, label, path in sorted(found)]


def _by_end(found: list[SnapshotView]) -> tuple[SnapshotView, ...]:
    return tuple(sorted(found, key=lambda one: one.end_offset))


def _most_first(found: list[SnapshotView]) -> list[SnapshotView]:
    """Snapshots, sooner those of which more copies have the same bytes: of one id all tell one state,
    unless a file was changed.
    """
    held = Counter(content_key(one) for one in found)
    return sorted(found, key=lambda one: -held[content_key(one)])


def content_key(snapshot: SnapshotView) -> tuple[int, int, bytes]:
    """What snapshots of one id have in common that hold the same bytes."""
    return snapshot.end_offset, snapshot.epoch, snapshot.evidence.batches.ids.tobytes()


def _own_snapshots(quorum: Quorum, log: LogView) -> list[SnapshotView]:
    """The snapshots of a replica; a file that was named by itself is one whatever it is called."""
    if log.evidence.single_file:
        return quorum.files_of(log.label)
    return quorum.snapshots_of(log.label)


def kinship(one: Held, other: Held) -> tuple[int, int | None]:
    """(the offset up to which two histories are the same, the one after which they differ, or
    None): the state at an offset holds the records below it.

    They are the same below a batch, or a snapshot's end of one epoch, that both hold, and as far as
    the records are committed and the other replica contradicts nobody.
    """
    comparison = one.quorum.comparisons[one.label, other.label]
    differs = comparison.common_end if comparison.runs else _epochs_cross(one.log, other.log)
    marks = [*_common_ends(one, other), *_common_ends(other, one)]
    same = max([comparison.alike_until, _committed_until(other), *marks])
    return (same, None) if differs is None else (min(same, differs), differs)


def _common_ends(one: Held, other: Held) -> Iterator[int]:
    """The ends of snapshots that the other replica holds too, or whose last batch it holds: by
    offset and epoch.
    """
    ids = {snapshot.id for snapshot in other.snapshots}
    for snapshot in one.snapshots:
        if snapshot.id in ids or other.log.ends_with(*snapshot.id):
            yield snapshot.end_offset


def _committed_until(one: Held) -> int:
    """Up to where what a replica holds is committed, contradicted by no other copy, and not out of
    the sight of them all.
    """
    quorum = one.quorum
    ends = [found.common_end or 0 for found in quorum.differing if found.one.label == one.label]
    if not one.is_foreign and not quorum.is_seen_to(one.log):
        ends.append(quorum.seen_ends[one.label])
    return min([quorum.committed_below(one.label), *ends])


def _epochs_cross(one: LogView, other: LogView) -> int | None:
    """Where two logs without a common offset cannot be one history, as epochs never go back."""
    if one.is_empty or other.is_empty:
        return None
    first, later = sorted((one, other), key=lambda log: int(log.base[0]))
    if int(first.last[-1]) >= int(later.base[0]):
        return None
    newer = np.flatnonzero(first.epochs > later.epochs[0])
    return int(first.base[newer[0]]) if len(newer) else None
