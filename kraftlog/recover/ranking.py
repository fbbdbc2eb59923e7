"""The replicas as places to restore a cluster from, the best one first, each with its reasons.

In: a quorum, with what the history of its state shows. Out: rows of the table `restore_ranking`.
Each replica counts by its own files alone: how new the state is that they give (epoch first, as in
an election), then how far back they reach, how little of them is damaged, and whether it is a
voter's. What a copy holds beyond its own uncommitted tail's start, beyond what can be committed, or
from where it differs from what a majority holds, does not count, and no snapshot whose state the
records or most copies contradict. Source: real cases of clusters rebuilt from disks (strimzi#12583,
redpanda 5312, KAFKA-14205).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kraftlog.audit.grouping import nothing_decides, opposed_snapshots
from kraftlog.plain import counted, offsets_text
from kraftlog.quorum.committed import differs_from_most
from kraftlog.quorum.evidence import ImageComparison
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.pairs import undecided_beside
from kraftlog.relations import Row


@dataclass(frozen=True, slots=True)
class Offer:
    """What one replica's own files give: states from `first` to `last` (both included), the latter
    of `epoch`; none where `first` is None. `limit` is how far its log counts, `against` says what the
    records or other copies hold against its snapshots.
    """

    held: Held
    against: tuple[str, ...]
    first: int | None
    last: int | None
    epoch: int
    limit: int
    damages: int

    @property
    def order(self) -> tuple[Any, ...]:
        """The best is the least."""
        if self.first is None or self.last is None:
            return (1, 0, 0, 0, self.damages, 0, self.held.label)
        voter = self.held.quorum.is_voter(self.held.log.evidence)
        newest = (-self.epoch, -self.last)
        return (0, *newest, self.first, self.damages, 0 if voter else 1, self.held.label)


def restore_rows(quorum: Quorum) -> Iterator[Row]:
    """A row per replica of the quorum, the best one first."""
    opposed = [(one, nothing_decides(quorum, one)) for one in opposed_snapshots(quorum)]
    unfit = _unfit(quorum, [one for one, is_open in opposed if not is_open])
    either = _either([one for one, is_open in opposed if is_open])
    candidates = [_candidate(quorum, log, unfit, either[log.label]) for log in quorum.peers]
    for rank, one in enumerate(sorted(candidates, key=lambda one: one.order), 1):
        yield _row(quorum, rank, one)


def _unfit(quorum: Quorum, wrong: Iterable[ImageComparison]) -> dict[str, str]:
    """The snapshots whose load fails or gives a wrong state, by path, and why."""
    return {
        one.path: f"it differs from {one.basis} in {counted(one.difference_count, 'place')}"
        for one in wrong
    } | {
        path: f"Kafka stops at a record of it: {one.detail}"
        for path, one in quorum.state.refusals.items()
    }


def _either(open_ones: Iterable[ImageComparison]) -> defaultdict[str, list[str]]:
    """What is to be said, by replica, of two snapshots of one id of which nothing tells which is right."""
    told: defaultdict[str, list[str]] = defaultdict(list)
    for one in open_ones:
        name, count = one.path.rpartition("/")[2], counted(one.difference_count, "place")
        for label, other in ((one.replica, one.other), (one.other, one.replica)):
            told[label].append(
                f"nothing tells whether its {name} is right, or that of {other}, which differs in {count}: compare both with a backup"
            )
    return told


def _candidate(
    quorum: Quorum, log: LogView, unfit: Mapping[str, str], either: Iterable[str]
) -> Offer:
    held = Held.by(quorum, log)
    # As far as its own tail surely lies behind, and to what can be committed.
    differs = differs_from_most(quorum, log.label)
    ends = (held.end_offset, quorum.confirmed_ends.get(log.label), quorum.bounds.upper, differs)
    limit = min(one for one in ends if one is not None)
    left_out = (
        f"its snapshot {one.evidence.name} does not count: {unfit[one.path]}"
        for one in held.snapshots
        if one.path in unfit
    )
    beside = undecided_beside(quorum, log)
    undecided = f"it differs from replica {beside}, and nothing tells which one is right: compare both with a backup"
    own = (*left_out, *either, *([] if beside is None else [undecided]))
    held = replace(held, snapshots=tuple(one for one in held.snapshots if one.path not in unfit))
    ranges = [(low, min(high, limit)) for low, high in held.ranges if low <= limit]
    damages = _damages(quorum, log)
    if not ranges:
        return Offer(held, own, None, None, 0, limit, damages)
    first, last = ranges[-1]
    return Offer(held, own, first, last, max(0, held.epoch_before(last)), limit, damages)


def _damages(quorum: Quorum, log: LogView) -> int:
    """Places of a replica's log and snapshots that cannot be read, and files."""
    columns = log.evidence.log
    places = int((~columns.crc_valid).sum()) + len(log.evidence.problems)
    places += sum(len(one.faults) for one in log.evidence.segments)
    return places + sum(one.is_damaged for one in quorum.snapshots_of(log.label))


def _row(quorum: Quorum, rank: int, one: Offer) -> Row:
    held, last, first = one.held, one.last, one.first
    base = held.base_for(last) if last is not None else None
    begins = base.end_offset if base is not None else 0
    segments = [path for _, path in held.segments(begins, last)] if last is not None else []
    sizes = {file.path: file.size_bytes for file in held.log.evidence.segments}
    size = sum(sizes[path] for path in segments) + (base.evidence.size_bytes if base else 0)
    return {
        "rank": rank,
        "replica": held.label,
        "node_id": held.log.evidence.node_id,
        "role": quorum.role(held.log.evidence),
        "restores_from_offset": first,
        "restores_to_offset": last,
        "batch_leader_epoch": one.epoch if last is not None else None,
        "committed_offsets_lacking": _lacking(quorum, one),
        "damage_count": one.damages,
        "snapshot_path": base.path if base is not None else None,
        "segment_paths": segments,
        "size_bytes": size,
        "reasons": list(_reasons(quorum, one)),
    }


def _lacking(quorum: Quorum, one: Offer) -> int | None:
    """How many committed offsets its files give no state of; None where a segment could not be read
    that may hold them.
    """
    lacking = max(0, quorum.bounds.lower - (one.last or 0))
    return None if lacking and one.held.log.unread_segments else lacking


def _reasons(quorum: Quorum, one: Offer) -> Iterator[str]:
    """What speaks for a replica, then what speaks against it."""
    lower, last, held = quorum.bounds.lower, one.last, one.held
    unread = (
        f"{segment.called} cannot be read ({segment.problem})"
        for segment in held.log.unread_segments
    )
    problem = next(unread, None)
    if last is None and problem is not None:
        yield f"nothing is known of what its own files give: {problem}"
    elif last is None:
        yield "its own files give no state: no snapshot of its own that counts, and no log from offset 0 on"
        for snapshot, why in held.rejected:
            yield f"its snapshot {snapshot.evidence.name} does not count: {why}"
        for snapshot in held.snapshots:
            yield f"its snapshot {snapshot.evidence.name} does not count: of this log only what lies below offset {one.limit} does"
    else:
        yield f"its own files give every state from offset {one.first} to {last}"
        if last >= lower:
            yield f"it holds all that is known to be committed, below offset {lower}"
        elif problem is not None:
            yield f"whether it holds committed {offsets_text(last, lower)} is not known: {problem}"
        else:
            yield f"it lacks committed {offsets_text(last, lower)}"
    tail = quorum.confirmed_ends.get(held.label)
    if tail is not None and tail < quorum.leaves(held.label, held.end_offset):
        yield f"no copy confirms it from offset {tail} on, and its own tail begins out of their sight: all that is left out"
    elif tail is not None:
        yield f"its own tail from offset {tail} on is left out"
    elif one.limit == differs_from_most(quorum, held.label):
        yield f"from offset {one.limit} on it differs from what most copies hold: all that is left out"
    elif one.limit < held.end_offset:
        yield f"what it holds from offset {one.limit} on cannot have been committed"
    cut = quorum.cut_off_of(held.label)
    if cut is not None:
        yield f"its snapshot {cut.snapshot.evidence.name} may be the only copy of committed records that were cut: it is left out, and is to be kept"
    yield from one.against
    if one.damages:
        yield f"{counted(one.damages, 'place')} of its files cannot be read"
    role = quorum.role(held.log.evidence)
    if held.log.evidence.is_pulled:
        yield "it was pulled from the running leader"
    elif role != "unknown":
        yield f"it is the copy of {'a voter' if role == 'voter' else 'an observer'}"
