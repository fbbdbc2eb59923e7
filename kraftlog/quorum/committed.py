"""What single copies hold of what is committed: up to which offset, who holds it furthest, and what
the voters' copies lack of it as they stand in an election.

In: a `Quorum`. Out: an offset and the reason; logs; `Candidate`s. The quorum's lower bound says what
is committed; a copy that contradicts the others below it holds other records there. A voter grants
its vote to whoever is not behind it, by epoch and then by offset; who stands counts the votes of
those that its own log names. Source: KIP-630 "Design", KAFKA-1211, KIP-595, Vote, KIP-853.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kraftlog.plain import voters_text
from kraftlog.quorum.chain import Chain, holds
from kraftlog.quorum.copy_times import described_key
from kraftlog.quorum.divergence import Comparison
from kraftlog.quorum.epochs import claimed_of
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.quorum.voters import votes_needed


class Committed(NamedTuple):
    """Every record of a replica below `offset` is committed; `reason` says how that is known."""

    offset: int
    reason: str


def committed_in(quorum: Quorum, label: str) -> Committed:
    """The committed bound of one replica: the quorum's, or where the replica's own log departs from
    it, or nothing shows any more that it does not.

    This is about which of the records that it holds are committed: holes and an early end do not
    lower it, where `simulate.plan_rows.Plans.committed_reach` asks how far a started node lacks nothing.
    """
    bounds = quorum.bounds
    known = quorum.committed_below(label)
    at = min(known, contradicted_from(quorum, label))
    proving = quorum.comparisons.get((label, quorum.proven_by or label))
    if proving is not None:
        at = min([at, *(one.start for one in proving.runs), *_newer_below(proving, at)])
    confirmed = quorum.confirmed_ends.get(label, at)
    if confirmed < min(at, known, quorum.tail_starts.get(label, at)):
        why = f"it carries a tail, and no other copy confirms what it holds from offset {confirmed} on"
        return Committed(confirmed, why)
    seen = quorum.seen_ends.get(label, at)
    if label not in quorum.confirmed_ends and seen < min(
        at, quorum.by_label[label].end_offset or 0
    ):
        why = f"no log of a newer epoch at hand reaches down to what it holds from offset {seen} on"
        return Committed(seen, why)
    at = min(at, confirmed)
    if at < known:
        return Committed(at, f"the other copies hold other records from offset {at} on")
    if known < bounds.lower:
        why = f"{quorum.told_by} tells that everything below offset {bounds.lower} is committed, and not that this log holds it"
        return Committed(known, why)
    return Committed(bounds.lower, bounds.lower_reason)


def _newer_below(proving: Comparison, end: int) -> list[int]:
    """Where a newer epoch begins in a log below an offset at which the log that proves what is committed
    is in an older one: that is no history of it, also where both share no offset.
    """
    epoch, starts = proving.other.epoch_at(end - 1), proving.one.epoch_starts
    newer = (one.start_offset for one in starts if one.epoch > epoch >= 0)
    return [start for start in newer if start < end]


def committed_together(quorum: Quorum) -> Committed:
    """The same of the history that the copies hold together: each batch of it is committed where one
    of the copies that hold it says so, whatever that copy holds elsewhere.
    """
    links, told = quorum.chain, _told_of_each(quorum)
    reached = _reached(quorum, links, told)
    short = np.flatnonzero(reached < links.end)
    if len(short) == 0:
        return max(told)
    at = max(int(reached[short[0]]), int(links.base[short[0]]))
    why = f"what follows from offset {at} on is held only by copies that are not proven up to there"
    return next((one for one in told if one.offset == at), Committed(at, why))


def is_committed_together(quorum: Quorum, start: int, end: int) -> bool:
    """Whether all of it from one offset to another is committed, whatever lies below."""
    if end > quorum.bounds.lower:
        return False
    stretch = quorum.chain.part(slice(*quorum.chain.between(start, end)))
    return bool((_reached(quorum, stretch, _told_of_each(quorum)) >= stretch.end).all())


def _told_of_each(quorum: Quorum) -> list[Committed]:
    """The committed bound of each of the copies."""
    return [committed_in(quorum, log.label) for log in quorum.peers]


def _reached(quorum: Quorum, links: Chain, told: Sequence[Committed]) -> Longs:
    """Of each batch, up to where a copy that holds it holds what is committed, as `told` of each."""
    reached = np.zeros(len(links), np.int64)
    for log, known in zip(quorum.peers, told, strict=True):
        if not log.is_empty:
            own = holds(log, links, np.arange(len(links)))
            reached[own] = np.maximum(reached[own], known.offset)
    return reached


def contradicted_from(quorum: Quorum, label: str) -> int:
    """The first offset at which a log differs from what most of the copies hold, else the end of
    what is committed; nothing contradicts the log whose own records prove that.
    """
    differs = None if label == quorum.proven_by else differs_from_most(quorum, label)
    return quorum.committed_below(label) if differs is None else differs


def differs_from_most(quorum: Quorum, label: str) -> int | None:
    """The first offset at which a log differs from what most of the copies hold; None where it does
    not, or no majority decides.
    """
    departs = (
        run.start
        for comparison in quorum.differing
        if comparison.one.label == label
        for run in comparison.runs
        if (usual := quorum.majority_at(run.start)) and all(one.label != label for one in usual)
    )
    return min(departs, default=None)


def is_contradicted(quorum: Quorum, label: str) -> bool:
    """Whether most of the copies hold something else than a log in what is committed."""
    return contradicted_from(quorum, label) < quorum.committed_below(label)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One voter's copy: its log, or its further snapshot. `lacks_from` is where what is committed
    goes on without it, None where it holds all of it; `granting` are the voters at hand that would
    vote for it, itself among them.
    """

    voter: int
    log: LogView
    lacks_from: int | None
    granting: frozenset[int]
    wins: bool


def candidates(quorum: Quorum, awaited: Collection[int] = ()) -> list[Candidate]:
    """Every voter's copy that can be read, and who would be elected as the voter that it was. The
    voters `awaited`, of which no copy is at hand, vote for everybody.
    """
    lower, standing = quorum.bounds.lower, []
    since = {log.label: described_key(quorum, log) for log in quorum.electors}
    for log in quorum.electors:
        if log.unread_segments:
            continue  # nothing is known of what it holds: `file_readable` tells
        own = quorum.loadable_snapshots(log.label)
        ids = [one.id for one in own if one.end_offset and quorum.why_no_base(one) is None]
        end = (claimed_of(log).last_epoch, log.end_offset or 0) if not log.is_empty else (0, 0)
        standing.append((log.evidence.node_id or 0, log, max([end, *ids])))
    found = []
    for voter, log, key in standing:
        named = quorum.electorates[log.label]
        votes = {
            other
            for other, copy, theirs in standing
            if max(theirs, since[copy.label]) <= max(key, since[log.label])
            if quorum.is_among(named, copy.evidence)
        }
        votes |= {node for node, _ in named if node in awaited}
        granting = frozenset({voter, *votes})
        stands = quorum.is_among(named, log.evidence) and not quorum.asks_nobody(log)
        wins = stands and len(votes) >= votes_needed(named)
        reached = quorum.leaves(log.label, key[1])
        if lower > quorum.bounds.shown:
            reached = min(reached, quorum.refuted.get(log.label, reached))
        if wins or voter in quorum.holders:
            lacks = reached if reached < lower else None
            found.append(Candidate(voter, log, lacks, granting, wins))
    return found


class Returning(NamedTuple):
    """The voters' copies that would be elected with an uncommitted tail, as they stand; where no
    copy is at hand of the voters `awaited`, with the votes of these.
    """

    logs: list[LogView]
    awaited: tuple[int, ...] = ()

    @property
    def by_whom(self) -> str:
        """Whose votes those are, in words."""
        if self.awaited:
            return f"with {voters_text(self.awaited)}, of which no copy is at hand,"
        return "by the copies at hand"


def returning(quorum: Quorum, label: str) -> Returning:
    """Who could be elected with the uncommitted tail of a replica; nobody where a log was pulled from
    the running leader, which cuts it. A voter without a copy may vote for it, unless it led a newer
    epoch; where what the others hold there is committed, too few can.
    """
    log, start = quorum.by_label[label], quorum.tail_starts[label]
    held = quorum.holding(log, start) if quorum.pulled is None else ()

    def elected(awaited: Collection[int]) -> list[LogView]:
        return [one.log for one in candidates(quorum, awaited) if one.wins and one.log in held]

    if not held:
        return Returning([])
    back = elected(())
    if back or start < quorum.bounds.lower:
        return Returning(back)
    newer = {node for epoch, node in quorum.leaders.items() if epoch > (log.last_epoch or 0)}
    awaited = tuple(one for one in quorum.bounds.missing_voters if one not in newer)
    return Returning(elected(awaited), awaited)


def committed_holder(quorum: Quorum, offset: int) -> LogView | None:
    """The log that holds what is committed from an offset on, and goes on furthest, of some that end
    alike one without a hole: behind that no state could be rebuilt.
    """
    held = (log for log in not_replaced(quorum) if log.covers(offset, quorum.bounds.lower))
    return max(held, key=lambda log: (log.newness, not log.holes), default=None)


def not_replaced(quorum: Quorum) -> list[LogView]:
    """The logs that nothing at hand replaces the end of."""
    return [log for log in quorum.peers if log.label not in quorum.departed]


def committed_cut(quorum: Quorum, offset: int) -> tuple[str, int] | None:
    """The same as what would be cut (`losses.Cut`): of a log, or where none holds that, the newest
    snapshot of all that is committed.
    """
    holder = committed_holder(quorum, offset)
    if holder is not None:
        return holder.label, offset
    best = whole_snapshot(quorum)
    return None if best is None else (best.path, offset)


def whole_snapshot(quorum: Quorum) -> SnapshotView | None:
    """The newest snapshot that holds all that is committed."""
    whole = [one for one in quorum.credible_snapshots if one.end_offset >= quorum.bounds.lower]
    return max(whole, key=lambda one: one.id, default=None)
