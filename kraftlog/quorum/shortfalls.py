"""What a copy must have held, or a node at hand must hold, by what the other copies hold: it was
lost, or the files were copied before it was written.

In: a quorum. Out: offsets and labels. Where the moments of copying explain what is missing, there
is nothing to tell. Source: KIP-595 (a follower takes all that it holds from the leader of its
epoch; what is committed is on a majority of the voters), KAFKA-1211.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kraftlog.plain import natural
from kraftlog.quorum.committed import Candidate, candidates
from kraftlog.quorum.copy_times import copied_before, copied_first, copy_explains, described_since
from kraftlog.quorum.describe import keeping_up
from kraftlog.quorum.electorate import Vote
from kraftlog.quorum.ends import Witness, known_epoch, unread_tail_bytes
from kraftlog.quorum.epochs import offset_for_leader_epoch, vector_of
from kraftlog.quorum.evidence import Flags, Longs
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import FETCH_TIMEOUT, number_of
from kraftlog.quorum.voters import votes_needed


class LedEpoch(NamedTuple):
    """An epoch whose leader's copy ends before the others', which hold it up to `end`."""

    epoch: int
    end: int
    holders: list[str]


class WrittenAlone(NamedTuple):
    """The voter's log whose end nobody else holds, from where on, and over how many seconds it was
    written.
    """

    log: LogView
    start: int
    seconds: int


def led_beyond(quorum: Quorum, log: LogView) -> LedEpoch | None:
    """What others hold of the newest epoch that a voter has heard of, beyond the end of its log,
    though it led that epoch; None where there is nothing, or bytes behind the end may be it. A
    leader lags behind nobody. What others hold behind something else than it has is not of it, nor
    is what they have from another node that led that epoch by their own quorum-state.
    """
    epoch, end = log.last_epoch, log.end_offset or 0
    if epoch is None or _heard_of(quorum, log) != epoch or not quorum.is_voter(log.evidence):
        return None
    if log.label in quorum.foreign:
        return None
    if quorum.leaders.get(epoch) != log.evidence.node_id:
        return None
    if log.unreadable_end or unread_tail_bytes(log):
        return None
    vectors = {
        one.label: vector_of(one)
        for one in quorum.peers
        if one is not log
        and not quorum.comparisons[log.label, one.label].runs
        and not _follows_another(one, epoch, log.evidence.node_id)
    }
    beyond = {
        label: found.end_offset
        for label, vector in vectors.items()
        if any(held == epoch for held, _ in vector.entries)
        and (found := offset_for_leader_epoch(vector, epoch)) is not None
        and found.end_offset > end
    }
    if not beyond or copied_before(quorum, log, end):
        return None
    return LedEpoch(epoch, max(beyond.values()), sorted(beyond, key=natural))


def _heard_of(quorum: Quorum, log: LogView) -> int:
    """The newest epoch that a node has heard of; that of all copies where its quorum-state is lost."""
    own = known_epoch(log)
    every = (known_epoch(one) or one.last_epoch or 0 for one in quorum.peers)
    return max(every, default=0) if own is None else own


def _follows_another(log: LogView, epoch: int, leader: int | None) -> bool:
    """Whether another node led an epoch by the quorum-state beside a log."""
    state = log.evidence.state_file
    return state is not None and state.leader_epoch == epoch and state.leader_id not in (-1, leader)


def may_be_unwritten(quorum: Quorum, log: LogView) -> bool:
    """Whether all that a log lacks, by the files beside it, may be the first record of an epoch of
    which no other log has any: Kafka notes an election, and where its epoch begins, before it writes
    there, and a node can end in between. With all voters at hand, such a record is on no majority:
    behind a change of voters, whether it is committed or not, of those that its log names.
    """
    state, found, end = log.evidence.state_file, quorum.witnesses(log), log.end_offset or 0
    if not found or state is None or quorum.voter_set is None:
        return False
    has_newest = quorum.electorates.get(log.label) == quorum.members
    if quorum.voting.missing if has_newest else quorum.bounds.missing_voters:
        return False
    epochs = {epoch for epoch, start in log.epoch_entries if start >= end}
    if state.leader_id == log.evidence.node_id:
        epochs.add(state.leader_epoch)
    held = {
        epoch
        for one in quorum.peers
        if one is not log
        for epoch in (
            *(start.epoch for start in one.epoch_starts),
            *(epoch for epoch, _ in one.epoch_entries),
        )
    }
    return (
        state.leader_epoch >= max(epochs, default=state.leader_epoch + 1)
        and is_only_noted(log, found)
        and not epochs & held
        and not _is_disputed(quorum, state.leader_epoch, state.leader_id)
    )


def _is_disputed(quorum: Quorum, epoch: int, leader: int) -> bool:
    """Whether quorum-state files of voters contradict that a node was elected leader of an epoch."""
    states = (one.evidence.state_file for one in quorum.peers)
    led = {one.leader_id for one in states if one and one.leader_epoch == epoch}
    return not led <= {-1, leader} or bool(voted_down(quorum, epoch, leader))


def voted_down(quorum: Quorum, epoch: int, leader: int) -> list[int]:
    """The voters that voted for others in an epoch, where so many did that no majority can have
    elected a leader, and no record at hand is of that epoch: one that is tells who voted, and among
    whom. Where voters can change, the leader's own disk of that epoch tells among whom it stood.
    """
    newest = max([quorum.newest_epoch, *(one.epoch for one in quorum.own_snapshots)])
    own = (known_epoch(one) for one in quorum.holders.get(leader, ()))
    is_known = not quorum.voting.may_change or max((one or 0 for one in own), default=0) >= epoch
    if leader < 0 or epoch <= newest or not is_known:
        return []
    others = quorum.votes_for_others(epoch, leader)
    return others if len(quorum.voters) - len(others) < quorum.bounds.majority else []


def is_only_noted(log: LogView, found: Iterable[Witness]) -> bool:
    """Whether nothing tells of more than an epoch that begins where a log ends."""
    files = (log.evidence.epoch_checkpoint, log.evidence.quorum_state)
    noted = {file.path for file in files if file is not None}
    end = log.end_offset or 0
    return all(one.end_offset == end + 1 and one.path in noted for one in found)


def has_lost_its_end(quorum: Quorum, log: LogView) -> bool:
    """Whether the files beside a log tell of records that it lacks, and had."""
    return bool(quorum.witnesses(log)) and not may_be_unwritten(quorum, log)


def lost_end(quorum: Quorum, log: LogView) -> Witness | None:
    """What tells of the furthest that a log had and lost; None where nothing does, or the files
    beside it were only copied later.
    """
    if not has_lost_its_end(quorum, log):
        return None
    furthest = quorum.witnesses(log)[0]
    return None if copied_first(quorum, log, furthest.end_offset) else furthest


def forgotten_vote(quorum: Quorum, log: LogView) -> Vote | None:
    """The newest election that a voter has forgotten; None where it came after the files were
    copied.
    """
    vote = quorum.later_vote(log)
    return None if vote is None or copied_before(quorum, log, vote.offset) else vote


def is_excused(quorum: Quorum, log: LogView, lacks_from: int) -> bool:
    """Whether a voter may lack in its copy only what is committed from an offset on: its files were
    copied, or last written, before that, and it was not stopped then. Of one that holds another
    history there, no moment of copying is the reason.
    """
    if quorum.fork_starts.get(log.label, lacks_from + 1) <= lacks_from:
        return False
    if not copied_before(quorum, log, lacks_from):
        return False
    was_stopped = quorum.end_is_proven(log)
    return not was_stopped or described_since(quorum, log, lacks_from)


def excused_winners(quorum: Quorum) -> dict[str, int]:
    """By copy, where what is committed begins that a voter would be elected without as it stands,
    and that the moment of copying excuses: the node holds it since, or has lost it. Empty where a
    log was pulled from the running leader.
    """
    found = candidates(quorum) if quorum.pulled is None else ()
    return {
        one.log.label: one.lacks_from
        for one in found
        if one.lacks_from is not None and wins_excused(quorum, one)
    }


def wins_excused(quorum: Quorum, one: Candidate) -> bool:
    """Whether a voter would be elected without what is committed, and its copy may lack that only as
    it was taken before.
    """
    lacks = one.lacks_from
    return one.wins and lacks is not None and is_excused(quorum, one.log, lacks)


def electing_excused(quorum: Quorum) -> frozenset[int]:
    """The nodes that vote for one of these, by what their logs and its own tell: also those that count
    no more.
    """
    excused = excused_winners(quorum)
    found = (one.granting for one in candidates(quorum) if one.log.label in excused)
    return frozenset().union(*found)


def is_set_back(quorum: Quorum, log: LogView) -> bool:
    """Whether other nodes still follow one as their leader, which its copy knows nothing of: if its
    disk is as old, the first answer of theirs ends it. Source: KafkaRaftClient.hasConsistentLeader.
    """
    state = log.evidence.state_file
    is_older = state is None or state.leader_epoch < max(quorum.leaders, default=0)
    return is_older and log.evidence.node_id in quorum.followed


def leads_alone(quorum: Quorum, log: LogView) -> bool:
    """Whether a copy's own log names no voter but its node, where the quorum has others: each start of
    it makes that the leader, also while another one leads, and who hears of it later follows it.
    Source: KafkaRaftClient.initialize, QuorumState.isOnlyVoter.
    """
    named, has_others = quorum.electorates[log.label], len(quorum.voters) > 1
    return has_others and len(named) == 1 and quorum.is_among(named, log.evidence)


def is_only_voter(quorum: Quorum, log: LogView) -> bool:
    """Whether no other node votes, by what counts and by a voter's own log: it can give no vote to
    anybody else, and begins with the newest epoch of its log. Seen of 3.9.1 (static) and 4.3.1.
    """
    alone = len(quorum.voters) == 1 and quorum.is_voter(log.evidence) is True
    return alone and len(quorum.electorates[log.label]) == 1


def after_a_leader(quorum: Quorum) -> frozenset[str]:
    """The voters' copies whose nodes start when another one leads: who was set back, and is followed;
    and who lacks what is committed, and is elected by its own log's voters with fewer votes than
    who holds it needs, so that a majority that is just one has these, too.
    """
    set_back = frozenset(log.label for log in quorum.voter_logs if is_set_back(quorum, log))
    return set_back.union(
        one.log.label
        for one in candidates(quorum)
        if one.wins and one.lacks_from is not None
        if votes_needed(quorum.electorates[one.log.label]) < quorum.bounds.majority
    )


def knows_its_vote(quorum: Quorum, log: LogView) -> bool:
    """Whether a copy's quorum-state is there, and nothing at hand tells that it is one of before;
    who votes alone has nothing to know.
    """
    state = log.evidence.state_file
    return is_only_voter(quorum, log) or (
        state is not None
        and (log.last_epoch or 0) <= state.leader_epoch
        and forgotten_vote(quorum, log) is None
        and quorum.second_vote(log) is None
    )


def whole_voters(quorum: Quorum) -> list[LogView]:
    """The voters' copies that hold all that is committed, those that know their votes first, of these
    the furthest.
    """
    held = [one for one in candidates(quorum) if one.lacks_from is None]
    logs = [one.log for one in held if one.voter in quorum.holders]
    return sorted(logs, key=lambda log: (knows_its_vote(quorum, log), log.newness), reverse=True)


def unheld_from(quorum: Quorum) -> int | None:
    """Where the part of what is committed begins that no voter at hand holds, though they would
    elect one without it; None where there is none, or a describe tells that they went on.
    """
    lacks = excused_winners(quorum)
    if not lacks or whole_voters(quorum):
        return None
    start = max(lacks.values())
    furthest = (quorum.by_label[label] for label, at in lacks.items() if at == start)
    return None if any(described_since(quorum, log, start) for log in furthest) else start


def too_few_hold(quorum: Quorum) -> frozenset[str]:
    """The voters' copies that lack what is committed, where they are so many that the others cannot
    have committed it without one of them, nor those who voted before a change that may not count yet.
    """

    def lacks(log: LogView) -> bool:
        if log.unread_segments:
            return False  # Nobody knows what it holds.
        end = quorum.reach_of(log)
        start = told[log.label] if log.label in told else quorum.leaves(log.label, end)
        return (
            start is not None and start < quorum.bounds.lower and not is_excused(quorum, log, start)
        )

    told = {one.log.label: one.lacks_from for one in candidates(quorum)}
    lacking = {log.label for log in quorum.electors if lacks(log)}
    for voting in quorum.electing:
        without = [
            copies
            for copies in voting.at_hand.values()
            if all(one.label in lacking for one in copies)
        ]
        if len(without) <= len(voting.voters) - voting.majority:
            return frozenset()
    return frozenset(
        one.label
        for copies in quorum.holders.values()
        for one in copies
        if all(each.label in lacking for each in copies)
    )


def beyond_voters(quorum: Quorum, log: LogView) -> int | None:
    """Where the part of an observer's log begins that no voter's copy holds; None where there is
    none, or another history replaces it. An observer fetches from the leader: a voter has held it.
    """
    voters = [*quorum.voter_logs]
    is_replaced = log.label in quorum.departed
    if not voters or quorum.is_voter(log.evidence) is not False or is_replaced:
        return None
    voters += [] if quorum.pulled is None else [quorum.pulled]
    reached = max(_in_line_until(quorum, one) for one in voters)
    if reached >= (log.end_offset or 0):
        return None
    newest = log.newest_ms or 0
    is_explained = unheld_from(quorum) is None and any(
        copied_before(quorum, one, reached) and copy_explains(quorum, one, newest) for one in voters
    )
    return None if is_explained else reached


def _in_line_until(quorum: Quorum, log: LogView) -> int:
    """Up to where a copy holds what nothing at hand replaces, in its log or in a snapshot behind it."""
    end = log.end_offset or 0
    snapshot = quorum.own_snapshot_end(log.label)
    return snapshot if snapshot > end else quorum.leaves(log.label, end)


def keeping_up_now(quorum: Quorum) -> frozenset[int] | None:
    """The nodes that kept up as voters when the quorum was described; None where that is not told,
    or was told long before the disks were copied.
    """
    described = quorum.evidence.described
    if described is None or quorum.describe_is_outdated:
        return None
    return keeping_up(described)


def alone_from(quorum: Quorum, log: LogView, others: int = 0) -> int | None:
    """Where the part of a voter's log begins that no majority of the copies holds, nor of them and
    so many others; None where they hold it to its end, or are too few to tell.
    """
    end, majority = log.end_offset or 0, quorum.bounds.majority
    held = [
        end if log in copies else min(_holds_until(quorum, log, one) for one in copies)
        for copies in quorum.holders.values()
    ] + [end] * others
    if len(held) < majority or log.label in quorum.tail_starts:
        return None
    start = sorted(held, reverse=True)[majority - 1]
    return start if max(start, quorum.bounds.lower) < end else None


def _holds_until(quorum: Quorum, log: LogView, other: LogView) -> int:
    """How far another copy holds a log: what was changed in the midst of it takes nothing behind away."""
    runs = quorum.comparisons[log.label, other.label].runs
    if not runs or not all(one.equal_after for one in runs) or log.holes or other.holes:
        return quorum.surely_agree(log, other)
    return min(log.end_offset or 0, other.end_offset or 0)


def going_on(quorum: Quorum, log: LogView) -> list[LogView]:
    """The other voters' copies that go on from the end of a voter's log with what no majority holds: a
    leader that lacks it cuts it.
    """
    end = log.end_offset or 0
    return [
        one
        for one in quorum.voter_logs
        if (one.end_offset or 0) > end
        and one.evidence.node_id != log.evidence.node_id
        and quorum.surely_agree(log, one) >= end
        and alone_from(quorum, one) is not None
    ]


def apart_from(quorum: Quorum, log: LogView) -> list[int]:
    """The voters that hold other records than a log."""
    others = (one.other.evidence for one in quorum.differing if one.one is log)
    return sorted({one.node_id or 0 for one in others if quorum.is_voter(one)})


def written_alone(quorum: Quorum) -> WrittenAlone | None:
    """What a voter holds and no majority can hold by the copies, though it was written in one epoch
    over more time than copying takes; None where a running leader shows what it holds. Since Kafka
    3.7 a leader whom no majority follows resigns after one and a half fetch timeouts. A copy that
    was not read whole may hold it, too. Source: LeaderState, KAFKA-15489.
    """
    if quorum.pulled is not None or keeping_up_now(quorum) is not None:
        return None
    whole = [copies for copies in quorum.holders.values() if not any(map(_is_partly_known, copies))]
    others = len(quorum.holders) - len(whole) + len(quorum.bounds.missing_voters)
    for log in (one for copies in whole for one in copies):
        alone = alone_from(quorum, log, others)
        if alone is None:
            continue
        start = max(alone, quorum.bounds.lower)
        ms = _writing_ms(quorum, log, start)
        resigns_ms = number_of(log.evidence, FETCH_TIMEOUT).value * 3 // 2
        if ms > max(quorum.thresholds.copy_skew_ms, resigns_ms):
            return WrittenAlone(log, int(log.base[log.base >= start][0]), ms // 1000)
    return None


def has_rhythm(times: int, usual_ms: float, limit_ms: int) -> bool:
    """Whether what was written so many times came so regularly that a gap above a limit is none of
    its usual ones.
    """
    return times >= _REGULAR and usual_ms * _TIMES <= limit_ms


_REGULAR, _TIMES = 50, 20
"""What was written fewer times has no rhythm; a gap is so many times the usual silence at least."""


def _no_time(quorum: Quorum, log: LogView, gaps: Longs) -> Flags:
    """Which gaps between the batches of a log need not be time that has passed: longer ones of a log
    that has a rhythm. There the clock was set ahead, or the whole quorum was paused.
    """
    limit = quorum.thresholds.idle_gap_ms
    is_regular = len(gaps) > 0 and has_rhythm(len(log.rows), float(np.median(gaps)), limit)
    return (gaps > limit) & is_regular


def _writing_ms(quorum: Quorum, log: LogView, start: int) -> int:
    """For how long the leader of a log's last epoch wrote what the log holds from an offset on. A
    clock that is set back takes nothing from it.
    """
    gaps = np.clip(np.diff(log.evidence.log.max_timestamps[log.rows]), 0, None)
    is_meant = (log.base[:-1] >= start) & (log.epochs[:-1] == log.last_epoch)
    return int(gaps[is_meant & ~_no_time(quorum, log, gaps)].sum())


def stood_still_ms(quorum: Quorum, log: LogView, start: int) -> int:
    """How much of the time from the batch before an offset to a log's last one need not have passed.
    A clock that jumped ahead and was put back adds nothing; what a hole held took its time.
    """
    times = log.evidence.log.max_timestamps[log.rows]
    gaps = np.diff(np.minimum.accumulate(times[::-1])[::-1])
    is_meant = (log.last[:-1] >= start - 1) & (log.base[1:] == log.last[:-1] + 1)
    return int(gaps[is_meant & _no_time(quorum, log, gaps)].sum())


def _is_partly_known(log: LogView) -> bool:
    """Whether a log may hold more than its copy shows."""
    cannot_be_read = log.unread_segments or log.holes or unread_tail_bytes(log)
    return bool(cannot_be_read) or not log.evidence.segments
