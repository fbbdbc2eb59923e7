"""A quorum whose leader dies now → what each rule of truncation keeps, and loses to a second death.

In: a `Quorum`, the label of the leader that dies. Out: one row per rule, new leader and follower of
it. What is acknowledged is the offset below which the copies prove that all is committed, as far as
it was written before they were made. Source: KAFKA-1211, KIP-101, KIP-595.

Under the rule of the high watermark a follower that has just fetched knows the mark of the moment
before, so at most where its last batch begins. A later fetch that brings nothing tells it more, and
no file holds that: the rows say what is at stake in the moment after a batch has come.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from itertools import permutations
from typing import NamedTuple

from kraftlog.errors import InputError
from kraftlog.quorum.copy_times import copied_before
from kraftlog.quorum.growth import DAY_MS
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row
from kraftlog.simulate.election import Candidacy, outcomes, vote_end
from kraftlog.simulate.fetch import truncate
from kraftlog.simulate.join_rows import replica_named
from kraftlog.simulate.plan_rows import Plans, likely_leaders


class TruncationRule(StrEnum):
    """How a follower decides what of its log to keep before it fetches from a new leader.

    Acknowledgements that are held cut to the high watermark as well, and tell a producer that a
    record is committed only when every replica has heard so: a round trip more for each write.
    """

    HIGH_WATERMARK = "high_watermark"
    HELD_ACKNOWLEDGEMENTS = "held_acknowledgements"
    LEADER_EPOCH = "leader_epoch"


class Failover(NamedTuple):
    """The copy whose node dies, and what becomes of each other voter's copy that stands then."""

    plans: Plans
    dead: LogView
    left: tuple[Candidacy, ...]


def failover(quorum: Quorum, dying: str | None) -> Failover:
    """Who can be elected once a leader is dead; by default the voter that would be elected now.

    Raises InputError for a name that is no voter's copy, and where nobody knows who votes.
    """
    if not quorum.holders:
        raise InputError("no voters are known, or no voter's copy is at hand: nobody can take over")
    labels = [log.label for log in quorum.electors]
    dead = dying if dying is not None else min(likely_leaders(quorum))
    log = replica_named(quorum, dead)
    if log is None or log.label not in labels:
        raise InputError(f"{dead} is not a voter's copy: name one of {', '.join(labels)}")
    plans = Plans(quorum)
    return Failover(plans, log, tuple(plans.elections({log.evidence.node_id})))


def failover_rows(found: Failover, round_trip_ms: float) -> Iterator[Row]:
    """One row per rule, surviving voter that leads next, and surviving voter that follows it."""
    plans, dead = found.plans, found.dead
    quorum = plans.quorum
    gone = dead.evidence.node_id
    wins = {one.candidate: one.can_win for one in found.left}
    left = [log for log in quorum.electors if log.label in wins]
    cost = _cost(dead, len(left), round_trip_ms)
    proven = _acknowledged(plans)
    acknowledged = dict.fromkeys(TruncationRule, proven)
    heard = [_mark(plans, log) for log in left]
    acknowledged[TruncationRule.HELD_ACKNOWLEDGEMENTS] = min([proven, *heard])
    for leader, follower in permutations(left, 2):
        if follower.evidence.node_id == leader.evidence.node_id:
            continue
        for rule in TruncationRule:
            row = _row(plans, rule, leader, follower, acknowledged[rule])
            if rule == TruncationRule.LEADER_EPOCH and not _leads_next(plans, row, gone):
                row["lost_if_leader_dies_too"] = 0
            told = None if cost is None else round(cost[rule], 1)
            can_lead = wins[leader.label]
            yield {"dies": dead.label, **row, "can_lead": can_lead, "cost_ms_per_day": told}


def _acknowledged(plans: Plans) -> int:
    """What is proven to be committed. Where the leader was pulled after the disks were copied, that
    is more than any copy can hold: then as far as a majority of the copies reaches.
    """
    quorum, lower = plans.quorum, plans.quorum.bounds.lower
    reached: dict[int | None, int] = {}
    for log in quorum.voter_logs:
        end, node = plans.committed_reach(log), log.evidence.node_id
        if end < lower and not copied_before(quorum, log, end):
            return lower
        reached[node] = max(end, reached.get(node, 0))
    ends = sorted(reached.values(), reverse=True)
    majority = quorum.bounds.majority
    return min(lower, ends[majority - 1]) if len(ends) >= majority else lower


def _leads_next(plans: Plans, row: Row, gone: int | None) -> bool:
    """Whether the follower that has cut its log can be elected when the next leader dies too: by
    epochs it must win votes, and a majority must be alive.
    """
    logs, name = plans.quorum.by_label, row["follower"]
    extent = plans.extent(logs[name]).truncated(row["truncation_offset"])
    voters = [
        replace(one, log_end=vote_end(extent)) if one.label == name else one for one in plans.voters
    ]
    dead = {gone, logs[row["leader"]].evidence.node_id}
    found = outcomes(voters, plans.quorum.bounds.lower, dead)
    return next(one for one in found if one.candidate == name).can_win is not False


def _row(
    plans: Plans, rule: TruncationRule, leader: LogView, follower: LogView, acknowledged: int
) -> Row:
    mine = plans.extent(follower)
    if rule == TruncationRule.LEADER_EPOCH:
        cut = plans.departs(follower, leader, truncate(mine, plans.extent(leader)))
    else:
        cut = min(mine.end_offset, _mark(plans, follower))
    held = plans.committed_reach(leader)
    after = min(cut, plans.committed_reach(follower))
    return {
        "rule": str(rule),
        "leader": leader.label,
        "follower": follower.label,
        "acknowledged_end_offset": acknowledged,
        "truncation_offset": cut,
        "leader_lacks_from_offset": held if held < acknowledged else None,
        "lost_if_leader_dies_too": max(acknowledged - after, 0),
    }


def _mark(plans: Plans, log: LogView) -> int:
    """The most that a follower that has just fetched can know of the high watermark: the base of
    its last batch, and no more than it holds of what is committed.
    """
    base = int(log.base[-1]) if len(log.rows) else log.start_offset or 0
    return min(base, plans.committed_reach(log))


def _cost(
    log: LogView, followers: int, round_trip_ms: float
) -> Mapping[TruncationRule, float] | None:
    """What each rule costs at the rates of this log; None where its batches have no times. Its
    first epoch is no election in that time.
    """
    stamps = log.evidence.log.max_timestamps[log.rows]
    stamps = stamps[stamps >= 0]
    span = int(stamps.max() - stamps.min()) if len(stamps) else 0
    if not span:
        return None
    elections, writes = max(len(log.epoch_starts) - 1, 0), len(log.rows)
    days = span / DAY_MS
    return remedy_cost(elections / days, followers, writes / days, round_trip_ms)


def remedy_cost(
    elections_per_day: float, followers: int, writes_per_day: float, round_trip_ms: float
) -> Mapping[TruncationRule, float]:
    """What the remedies of KAFKA-1211 add per day, in ms of waiting: a question for the leader's
    vector by each follower at each election, and one more round trip for each write.
    """
    return {
        TruncationRule.HIGH_WATERMARK: 0.0,
        TruncationRule.HELD_ACKNOWLEDGEMENTS: writes_per_day * round_trip_ms,
        TruncationRule.LEADER_EPOCH: elections_per_day * followers * round_trip_ms,
    }
