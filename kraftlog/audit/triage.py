"""What a damaged range of a file means for the log: which offsets it held, and who holds them
intact.

In: a quorum, and a place in one replica's files. Out: offsets, labels, and the sentence that says
what to do. Source: the triage of corrupt ranges.
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from kraftlog.audit.check import ActionKey, BadRow
from kraftlog.audit.grouping import unfit_snapshots
from kraftlog.plain import listed, natural, offsets_text, sentence, some
from kraftlog.quorum.divergence import DifferingRun
from kraftlog.quorum.ends import known_epoch, noted_epoch, unread_tail_bytes
from kraftlog.quorum.joining import is_controller
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.shortfalls import (
    after_a_leader,
    has_lost_its_end,
    is_only_voter,
    keeping_up_now,
    knows_its_vote,
    led_beyond,
)
from kraftlog.quorum.snapshots import SnapshotView


def then_few(late: Sequence[str] = (), *, are_many: bool = False) -> str:
    """What stands behind "start this one first": the others, where they are a majority without it,
    would elect one of themselves if they all started beside it. The `late` are named among the rest.
    """
    them, who = ("them", "one of them") if are_many else ("it", "it")
    rest = f"the rest, {listed(late)} among them," if late else "the rest"
    return f", then only as many others as make a majority with {them}, and {rest} when {who} leads"


def offsets_of(log: LogView, segment: int, position: int) -> tuple[int, int | None]:
    """Offsets [start, end) that a range of a segment's bytes held; end None at the log's end."""
    columns = log.evidence.log
    before = (columns.file[log.rows] < segment) | (
        (columns.file[log.rows] == segment) & (columns.positions[log.rows] < position)
    )
    count = int(np.count_nonzero(before))
    start = int(log.last[count - 1]) + 1 if count else log.evidence.segments[segment].base_offset
    end = int(log.base[count]) if count < len(log.rows) else None
    return start, end


def intact_elsewhere(quorum: Quorum, label: str, start: int, end: int | None) -> list[str]:
    """The other replicas whose logs hold offsets [start, end) without damage, and the same there: one
    that has left the history by then holds others, unless this one has left it, too.
    """
    end = start + 1 if end is None or end <= start else end
    has_left = quorum.leaves(label, end) < end
    held = (one.label for one in covering(quorum, label, start, end))
    return [one for one in held if has_left or quorum.leaves(one, end) == end]


def covering(quorum: Quorum, label: str, start: int, end: int) -> list[LogView]:
    """The other replicas' logs that hold any records at all offsets [start, end), by their labels."""
    held = (one for one in quorum.peers if one.label != label and one.covers(start, end))
    return sorted(held, key=lambda one: natural(one.label))


def remedy(quorum: Quorum, label: str, start: int, end: int | None) -> tuple[str, dict[str, Any]]:
    """(what to do, evidence) for a replica that lost offsets [start, end)."""
    holders = intact_elsewhere(quorum, label, start, end)
    if quorum.by_label[label].evidence.is_pulled:
        todo, asks = fetch_again(quorum, label)
        return todo, {"held_intact_by": holders, **asks}
    if holders:
        todo, asks = fetch_again(quorum, label, is_damage=True)
        return (
            f"{sentence(holding(holders))} the same offsets intact. {todo}",
            {"held_intact_by": holders, **asks},
        )
    snapshot = max(
        (s for s in quorum.credible_snapshots if s.end_offset >= (end or start + 1)),
        key=lambda s: s.end_offset,
        default=None,
    )
    if snapshot is not None:
        where, folders = f"replica {snapshot.replica}", "both folders"
        if snapshot.replica == label:
            where, folders = "this replica", "this folder"
        kept, asks = _keep(quorum, label, start, folders, "this node", is_covered=True)
        return (
            f"No other log at hand holds the same offsets intact, but a snapshot holds the state after them: {snapshot.evidence.name} of {where}. {kept}",
            {"held_intact_by": [], "covered_by_snapshot": snapshot.path, **asks},
        )
    kept, asks = _keep(quorum, label, start, "this folder", "the node")
    return (
        f"No other replica at hand holds the same offsets intact. {kept}",
        {"held_intact_by": [], **asks},
    )


def _keep(
    quorum: Quorum, label: str, start: int, folders: str, node: str, *, is_covered: bool = False
) -> tuple[str, dict[str, ActionKey]]:
    """What is to be kept of a log that no other one stands for, and what else is to be done: a voter
    that starts without what is committed votes for who lacks it, too. One whose damage a snapshot
    covers may begin anew behind it.
    """
    log = quorum.by_label[label]
    reached = max(start, quorum.own_snapshot_end(label))
    if not _would_forget(quorum, log, reached, log.end_offset or 0):
        begun = _begun_behind(quorum, log) if is_covered else None
        if begun is not None and not may_be_emptied(quorum, log):
            return f"Keep a copy of {folders}. Before {node} starts, {begun}.", {}
        return f"Keep a copy of {folders} before {node} starts.", {}
    todo, asks = fetch_again(quorum, label, is_damage=True)
    return f"Keep a copy of {folders}. {todo}", asks


def _would_forget(quorum: Quorum, log: LogView, reached: int, held: int) -> bool:
    """Whether a voter that held all below `held` lacks what is committed when it begins with what it
    has below `reached` alone.
    """
    return bool(quorum.is_voter(log.evidence)) and reached < min(held, _told_committed(quorum))


def _told_committed(quorum: Quorum) -> int:
    """Below which offset all is committed, also by the names of snapshots that cannot be read: Kafka
    makes one only of what is committed, whatever becomes of its bytes.
    """
    return max([quorum.bounds.lower, *(one.end_offset for one in quorum.named_snapshots)])


def may_be_emptied(quorum: Quorum, log: LogView) -> bool:
    """Whether a node may begin anew with an empty folder, by which it would vote for any node: it
    has no vote, or the other voters that are whole, and begin soundly, are a majority without it. Of
    one that kept up with the leader when that was described, a copy may be older, or may be missing.
    """
    end, up, unfit = _may_be_committed_with(quorum, log), kept_up(quorum), unfit_snapshots(quorum)
    whole = [
        voter
        for voter, copies in quorum.holders.items()
        if log not in copies
        and any(_stands_in(quorum, one, 0 if voter in up else end, unfit) for one in copies)
    ]
    whole += [voter for voter in quorum.bounds.missing_voters if voter in up]
    return quorum.is_voter(log.evidence) is False or len(whole) >= quorum.bounds.majority


def kept_up(quorum: Quorum) -> Collection[int]:
    """The voters that had all that the leader had when it was described, as far as that tells."""
    return () if quorum.describe_is_refuted else keeping_up_now(quorum) or ()


def _may_be_committed_with(quorum: Quorum, log: LogView) -> int:
    """How far a majority may have held the log that a replica was one of: its damage lowers the
    bounds of what is committed. What a damaged or lost end held, a log of which nothing is left, and
    a voter that was not copied, may be all.
    """
    reaches = {
        voter: [_once_in_common(quorum, one) for one in copies]
        for voter, copies in quorum.holders.items()
    }
    furthest = max((least for each in reaches.values() for least, _ in each), default=0)
    ends = {
        voter: max(max(least, min(furthest, most)) for least, most in each)
        for voter, each in reaches.items()
    }
    unknown = quorum.bounds.missing_voters
    if (log.is_empty or unread_tail_bytes(log)) and log.evidence.node_id in ends:
        unknown = (*unknown, log.evidence.node_id)
    reached = sorted((ends | dict.fromkeys(unknown, furthest)).values(), reverse=True)
    majority = reached[quorum.bounds.majority - 1 : quorum.bounds.majority]
    return max([_told_committed(quorum), *majority])


def _once_in_common(quorum: Quorum, log: LogView) -> tuple[int, int]:
    """How far a log went as one of the common history, at the least and at the most. Where it has lost
    its end, or what it has sent to others, it may have gone as far as they, but for epochs that its
    node has not heard of.
    """
    end, known = log.end_offset or 0, known_epoch(log)
    if log.label in quorum.tail_starts:
        end = min(end, quorum.tail_starts[log.label])
        return end, end
    lost = [one.end_offset for one in quorum.witnesses(log)] * has_lost_its_end(quorum, log)
    led = led_beyond(quorum, log)
    lost += [] if led is None else [led.end]
    if not lost:
        return end, end
    newer = (
        start.start_offset
        for one in quorum.peers
        for start in one.epoch_starts
        if known is not None and start.epoch > known and start.start_offset >= end
    )
    most = min(newer, default=sys.maxsize)
    return max(end, min(max(lost), most)), most


def _stands_in(quorum: Quorum, log: LogView, end: int, unfit: Collection[str]) -> bool:
    """Whether a copy is whole up to an offset, and its node begins soundly."""
    return _is_whole(quorum, log, end) and _begins_soundly(quorum, log, unfit)


def _is_whole(quorum: Quorum, log: LogView, end: int) -> bool:
    """Whether a copy knows its vote, and holds the log up to an offset undamaged, as others do, from
    its beginning or a snapshot on.
    """
    is_damaged = log.holes or any(one.faults for one in log.evidence.segments)
    return (
        knows_its_vote(quorum, log)
        and (log.end_offset or 0) >= end
        and not is_damaged
        and start_is_covered(quorum, log)
        and bool(log.evidence.log.crc_valid.all())
        and next(_not_borne_out(quorum, log), None) is None
    )


def _not_borne_out(quorum: Quorum, log: LogView) -> Iterator[DifferingRun]:
    """Where a log differs from another one, and no majority holds what it holds."""
    runs = (run for one in quorum.differing if one.one is log for run in one.runs)
    return (run for run in runs if log not in (quorum.majority_at(run.start) or ()))


def _begins_soundly(quorum: Quorum, log: LogView, unfit: Collection[str]) -> bool:
    """Whether the snapshot that a node begins with is one that a replay can begin with, and none of
    those that are unfit.
    """
    loaded = quorum.loaded_snapshot(log.label)
    return loaded is None or (loaded.path not in unfit and quorum.why_no_base(loaded) is None)


def start_is_covered(quorum: Quorum, log: LogView) -> bool:
    """Whether a log begins at 0, or a complete snapshot of its own reaches its start."""
    start = log.start_offset or 0
    own = quorum.snapshots_of(log.label)
    return not start or any(one.is_complete and one.end_offset >= start for one in own)


def fetch_again(
    quorum: Quorum, label: str, *, is_damage: bool = False
) -> tuple[str, dict[str, ActionKey]]:
    """How a damaged log is replaced; where too few voters are whole, without emptying any. An empty one
    votes for any node, and Kafka 4.4 can fail with it before there is a leader. And what a finding
    asks for by that: that nothing is restarted, where no copy can take its place. A log of which
    the `is_damage` alone speaks can begin anew behind that.
    """
    log = quorum.by_label[label]
    if log.evidence.is_pulled:
        return (
            "It is a pulled copy, and no node's disk: pull again, into a new folder.",
            {"asks": "copy"},
        )
    if may_be_emptied(quorum, log):
        return (
            "Set its log folder aside, and start the node when the others have a leader: it fetches the log again.",
            {},
        )
    best = replacement(quorum, log)
    begun = _begun_behind(quorum, log) if is_damage and best is None else None
    asks: dict[str, ActionKey] = {}
    if best is not None:
        todo = f"{_kept_beyond(log, best)}Before this node starts, {put_in_place(log, best)}"
    elif begun is not None:
        todo = f"Before this node starts, {begun}"
    else:
        todo = "Keep all folders, and compare with a backup; kraftlog recover puts together what can be read in any of them"
        asks = {"asks": "stop"}
    told = f"Do not empty its log folder: too few other voters at hand are whole and hold all that may be committed, and it would elect a leader that lacks that. {todo}."
    return told, asks


def _begun_behind(quorum: Quorum, log: LogView) -> str | None:
    """How a damaged log begins anew behind its damage, in words: at a segment from which on it is sound,
    where a sound snapshot of its own reaches. Kafka sends who ends before that the snapshot; from a
    log with a hole it sends what is behind that, and the state of who takes it lacks the rest (4.3.1).
    """
    loaded, end = quorum.loaded_snapshot(log.label), log.end_offset or 0
    if loaded is None or loaded.end_offset > end or loaded not in sound_snapshots(quorum):
        return None
    if has_lost_its_end(quorum, log):
        return None
    columns, found = log.evidence.log, None
    damage = [hole.end for hole in log.holes]
    damage += [run.end for run in _not_borne_out(quorum, log)]
    damaged_until = max(damage, default=0)
    for segment in reversed(log.evidence.segments):
        rows, base = slice(segment.first_row, segment.end_row), segment.base_offset
        is_sound = not (segment.faults or segment.problem) and columns.crc_valid[rows].all()
        if not is_sound or damaged_until > base:
            break
        if segment.first_row < segment.end_row and columns.base_offsets[rows][0] == base:
            found = segment
    if found is None or found is log.evidence.segments[0]:
        return None
    if found.base_offset > loaded.end_offset:
        return None
    return f"move the files of its segments before {found.name} out of its log folder: its log then begins there, and its {loaded.evidence.name} holds the state"


def _kept_beyond(log: LogView, best: LogView) -> str:
    """What is to be kept of a damaged log beyond the end of the one that takes its place, and a blank."""
    start, end = best.end_offset or 0, log.end_offset or 0
    held = offsets_text(start, end)
    return f"Keep a copy of its folder, which may alone hold {held}. " if end > start else ""


def replacement(quorum: Quorum, log: LogView) -> LogView | None:
    """The copy whose log can take the place of one that lacks what is committed, or is damaged: whole,
    and of all that may be committed; sooner a voter's.
    """
    end, unfit = _may_be_committed_with(quorum, log), unfit_snapshots(quorum)
    whole = [one for one in quorum.peers if one is not log and _stands_in(quorum, one, end, unfit)]
    return max(
        whole, key=lambda one: (bool(quorum.is_voter(one.evidence)), one.newness), default=None
    )


def without_its_log(quorum: Quorum, log: LogView) -> str:
    """What to do, in words, where nothing is left of a node's log, and too few others are whole for it to
    begin anew. Another log takes its place while those of a majority are left: one of them holds what
    is committed.
    """
    gone = {
        voter
        for voter, copies in quorum.holders.items()
        if all(
            one.unread_segments or (one.is_empty and not quorum.own_snapshot_end(one.label))
            for one in copies
        )
    }
    is_held = len(gone | {*quorum.bounds.missing_voters}) < quorum.bounds.majority
    best = replacement(quorum, log) if is_held else None
    return _BUILD_ANEW if best is None else put_in_place(log, best)


def instead_of_waiting(quorum: Quorum, log: LogView) -> str | None:
    """What is done with a voter that waits for another one to lead, in words, where those that wait for
    nobody, and those that were not copied, are no majority: it would wait for good. None where they
    are, or no copy can take its log's place. Seen of 4.1.1 and 4.3.1 with two voters: the old disk ends at each start.
    """
    late = after_a_leader(quorum)
    if log.label not in late:
        return None
    able = [
        copies
        for copies in quorum.holders.values()
        if any(
            one.label not in late and not (one.is_empty or one.unread_segments) for one in copies
        )
    ]
    enough = len(able) + len(quorum.unseen_voters) >= quorum.bounds.majority
    best = None if enough else replacement(quorum, log)
    return None if best is None else f"{put_in_place(log, best)}, as nobody can lead without it"


def put_in_place(log: LogView, other: LogView) -> str:
    """What to do with such a copy, in words: whose vote a node casts is its own, but of an epoch that
    its own quorum-state does not know it has only what the other copy says.
    """
    own, theirs = log.evidence.state_file, other.evidence.state_file
    is_older = own is None or (theirs is not None and own.leader_epoch < theirs.leader_epoch)
    kept = "the quorum-state that is" if is_older else "its own quorum-state"
    return f"put the log folder of replica {other.label} in the place of its own, with {kept} in it"


def instead_of(
    quorum: Quorum, snapshot: SnapshotView, unfit: Collection[tuple[int, int]] = ()
) -> tuple[str, dict[str, ActionKey]]:
    """What a node begins with in the place of a snapshot that it must not load: one that reaches the
    start of its log, of none of the ids that are `unfit`. And what a finding asks for by that: where
    the file is not to be set aside, what `fetch_again` does.
    """
    log = quorum.by_label[snapshot.replica]
    if log.evidence.single_file:
        return "Take the file of the same name from another replica.", {}
    start = snapshot.end_offset if log.is_empty else log.start_offset or 0
    fit = [
        one
        for one in sound_snapshots(quorum)
        if one.end_offset >= start and one.path != snapshot.path and one.id not in unfit
    ]
    same = [one.replica for one in fit if one.id == snapshot.id]
    if same:
        return (
            f"Take the file of the same name from {replicas_text(same)}.",
            {},
        )
    own = [one for one in fit if one.replica == snapshot.replica]
    newest = max(own, key=lambda one: one.id, default=None)
    best, holders = (newest, []) if newest or not start else best_cover(log, fit)
    if start and best is None:
        why = f"No replica at hand has a sound one that reaches the log's start, at offset {start}."
        return _log_instead(quorum, log, why)
    reached = max(log.end_offset or 0, best.end_offset if best else 0)
    if _would_forget(quorum, log, reached, snapshot.end_offset):
        told = "is committed" if reached < quorum.bounds.lower else "its name tells to be committed"
        why = f"Without this file the voter would vote for who lacks offset {reached}, too, which {told}."
        return _log_instead(quorum, log, why)
    if best is None:
        return "Set it aside: the log begins at offset 0, and needs no snapshot.", {}
    if best is newest:
        return f"Set it aside: the node then begins with its {best.evidence.name}.", {}
    return f"Set it aside, and take {best.evidence.name} from {replicas_text(holders)}.", {}


def _log_instead(quorum: Quorum, log: LogView, why: str) -> tuple[str, dict[str, ActionKey]]:
    """Of a snapshot that no other file takes the place of, `why` so, and how its log is replaced."""
    todo, asks = fetch_again(quorum, log.label)
    return f"{why} {todo}", {"asks": "refetch", **asks}


def sound_snapshots(quorum: Quorum) -> list[SnapshotView]:
    """The credible snapshots that a node can begin with, as far as is known of what they hold."""
    unfit = unfit_snapshots(quorum)
    return [
        one
        for one in quorum.credible_snapshots
        if one.path not in unfit and one.refused_control is None
    ]


def best_cover(
    log: LogView, found: Iterable[SnapshotView]
) -> tuple[SnapshotView | None, list[str]]:
    """(the newest of some snapshots that does not make a node drop its log, else the oldest that
    does; the replicas that have it).
    """
    held, end = list(found), log.end_offset or 0
    inside = [one for one in held if one.end_offset <= end]
    oldest = min(held, key=lambda one: one.id, default=None)
    best = max(inside, key=lambda one: one.id, default=oldest)
    return best, sorted({one.replica for one in held if best and one.id == best.id}, key=natural)


def restore_vote(quorum: Quorum, log: LogView, risk: str) -> str:
    """What it comes to that a `quorum-state` is lost or of before, a `risk` for a node that may vote,
    and what is to be done.
    """
    if quorum.is_voter(log.evidence) is False:
        return f"This node does not vote, so that no vote is forgotten. {_VOTE_ANEW}"
    if is_only_voter(quorum, log):
        cannot_start = log.evidence.quorum_state is not None and log.evidence.state_file is None
        todo = _VOTE_ANEW if cannot_start else "Kafka writes quorum-state anew at its next start."
        return f"No other node votes, so that no vote is forgotten. {todo}"
    if votes_left_out(quorum):
        gone = _BUILD_ANEW
        if _end_alike(quorum):
            gone = "stop every node before one starts: the voters' logs end alike, so whoever is elected then has all"
        return f"{risk} No copy at hand has quorum-state: likely it was left out. Copy it from each node. If all of them have lost it, {gone}."
    if may_be_emptied(quorum, log):
        return f"{risk} Restore quorum-state, or let the node join anew with an empty log folder when the others have a leader."
    kept = "Do not let the node join anew with an empty log folder: too few other voters at hand are whole."
    if not log.is_empty and _others_lead_with_all(quorum, log):
        return f"{risk} Restore quorum-state, or start the node with its log when the others have a leader. {kept}"
    return (
        f"{risk} Restore quorum-state. {kept} Without a backup, {_without_its_vote(quorum, log)}."
    )


def _without_its_vote(quorum: Quorum, log: LogView) -> str:
    """What is done with a voter whose vote is lost for good, in words. One with an empty log would elect
    whoever asks, so that it is given another's log as well.
    """
    if log.is_empty:
        return without_its_log(quorum, log)
    known = _knows_the_newest_epoch(quorum, log)
    if known is None:
        return _BUILD_ANEW
    return f"stop all voters, then put the quorum-state of replica {known.label} in its log folder: no copy knows a newer epoch"


def _others_lead_with_all(quorum: Quorum, log: LogView) -> bool:
    """Whether the other voters at hand are a majority, and each majority of them has one that holds all
    that may be committed: whoever else asks for its vote is refused.
    """
    end, unfit = _may_be_committed_with(quorum, log), unfit_snapshots(quorum)
    others = [copies for copies in quorum.holders.values() if log not in copies]
    whole = [
        copies for copies in others if all(_stands_in(quorum, one, end, unfit) for one in copies)
    ]
    able = [
        copies
        for copies in others
        if any(not one.is_empty and knows_its_vote(quorum, one) for one in copies)
    ]
    left, needed = len(others) - len(whole), quorum.bounds.majority
    return len(able) >= needed > left + len(quorum.bounds.missing_voters)


def _knows_the_newest_epoch(quorum: Quorum, log: LogView) -> LogView | None:
    """The voter's copy with the quorum-state of the newest epoch, sooner with its leader. None where a
    voter was not copied, or a log knows a newer epoch: what is written in that again would be another
    history of the same epoch.
    """
    known = [
        (one.evidence.state_file.leader_epoch, one.evidence.state_file.leader_id, one)
        for copies in quorum.holders.values()
        for one in copies
        if log not in copies and one.evidence.state_file is not None and knows_its_vote(quorum, one)
    ]
    own = log.evidence.state_file
    noted = [noted_epoch(one) for one in quorum.peers]
    least = max([*noted, own.leader_epoch if own else 0])
    epoch, _, best = max(known, key=lambda one: one[:2], default=(-1, -1, None))
    return best if epoch >= least and not quorum.bounds.missing_voters else None


_BUILD_ANEW = "kraftlog recover builds a quorum from what remains"
NEVER_TOGETHER = "Never start nodes of both sides together: what only the other side holds is lost."
MOVE_NAMED = (
    "move it elsewhere. If the node does not have it, it came with the copying: delete it here."
)
_VOTE_ANEW = "Delete quorum-state while the node is stopped: Kafka writes it anew."
WRITTEN_ANEW = "Delete the file while the node is stopped: Kafka writes it anew."


def forgot_its_vote(quorum: Quorum, log: LogView) -> str | None:
    """What tells that a voter has forgotten a vote that it may have given to another one; None where
    nothing does, or its quorum-state is there and cannot be read.
    """
    state = log.evidence.state_file
    if is_only_voter(quorum, log):
        return None
    if state is None:
        is_missing = log.evidence.quorum_state is None and not votes_left_out(quorum)
        return "its quorum-state is missing" if is_missing else None
    if noted_epoch(log) > state.leader_epoch:
        is_by_log = (log.last_epoch or 0) > state.leader_epoch
        return f"its quorum-state is older than its {'log' if is_by_log else 'leader-epoch-checkpoint'}"
    vote = quorum.second_vote(log)
    if vote is None:
        return None
    return f"its quorum-state says that it voted for node {state.voted_id} in epoch {vote.epoch}, though it elected node {vote.leader_id}"


def votes_left_out(quorum: Quorum) -> bool:
    """Whether none of several copies has a `quorum-state`, which each node writes when it starts: as
    where only logs were copied.
    """
    nodes = [one for one in quorum.replicas if not one.is_pulled]
    return len(nodes) > 1 and all(one.quorum_state is None for one in nodes)


def _end_alike(quorum: Quorum) -> bool:
    """Whether all voters are at hand, with logs of one end: none holds what another one could be
    elected without. Source: KafkaRaftClient; a node without a vote begins in the last epoch of its log.
    """
    ends = {(one.end_offset, one.last_epoch) for one in quorum.voter_logs}
    return len(ends) == 1 and not quorum.bounds.missing_voters and not quorum.differing


def at_same_place(
    quorum: Quorum, log: LogView, row: int, offset: int | None = None
) -> tuple[str, dict[str, Any]]:
    """(what the other copies hold where a batch of a log begins, and what to do; evidence). The
    offset is given where the batch does not say it.
    """
    columns = log.evidence.log
    start = int(columns.base_offsets[row]) if offset is None else offset
    same: list[str] = []
    other: list[str] = []
    for one in quorum.peers:
        theirs = one.evidence.log
        for at in np.flatnonzero(theirs.base_offsets == start).tolist():
            if one is not log:
                equal = bool((theirs.ids[at] == columns.ids[row]).all())
                (same if equal else other).append(one.label)
    same.sort(key=natural)
    other.sort(key=natural)
    evidence = {"same_bytes_on": same, "other_bytes_on": other}
    if other and not same:
        todo, asks = fetch_again(quorum, log.label)
        return (f"{sentence(holding(other))} another batch there. {todo}", evidence | asks)
    if same and (rivals := rivals_at(quorum, log, row)):
        return one_was_changed(same, rivals), evidence
    if same:
        return (
            f"{sentence(holding(same))} the same bytes, so its leader wrote it that way.",
            evidence,
        )
    return "No other copy at hand holds that offset.", evidence


def rivals_at(quorum: Quorum, log: LogView, row: int) -> list[str]:
    """The other replicas that hold another batch of the same epoch where one of a log begins."""
    columns = log.evidence.log
    start, epoch, own = int(columns.base_offsets[row]), columns.epochs[row], columns.ids[row]
    rivals = [
        one.label
        for key, held in quorum.holding_at(start).items()
        if key != own.tobytes()
        for one in held
        if one is not log and one.raw_epochs[one.index_at(start)] == epoch
    ]
    return sorted(rivals, key=natural)


def one_was_changed(same: list[str], rivals: list[str]) -> str:
    """What it comes to that others hold a batch which no leader writes, and some another one there."""
    return (
        f"{sentence(holding(same))} the same bytes, and {holding(rivals)} another batch of that epoch: one of them was changed after it was written. "
        "Keep all of these folders, and compare them with a backup."
    )


def replicas_text(labels: Collection[str]) -> str:
    """Replicas in a sentence: replica 1, or replicas 1, 3 and 11."""
    return f"{'replica' if len(labels) == 1 else 'replicas'} {some(sorted(labels, key=natural))}"


def holding(labels: Collection[str]) -> str:
    """Replicas and their verb: replica 1 holds, or replicas 1 and 3 hold."""
    return f"{replicas_text(labels)} {'holds' if len(labels) == 1 else 'hold'}"


def told_once(rows: Iterable[BadRow]) -> Iterator[BadRow]:
    """Rows of one check in which equal ones, of a batch that several replicas hold, are one row
    with all their names in `evidence["replicas"]`.
    """
    groups: dict[tuple[Any, ...], list[BadRow]] = {}
    for row in rows:
        key = (row.message, row.severity, row.offset, row.evidence.get("batch_id"))
        groups.setdefault(key, []).append(row)
    for held in groups.values():
        labels = list(dict.fromkeys(one.replica for one in held if one.replica is not None))
        evidence = {**held[0].evidence, "replicas": labels}
        yield replace(held[0], message=held[0].message + and_held_by(labels), evidence=evidence)


def and_held_by(labels: Collection[str]) -> str:
    """The sentence at the end of a message that is told once of several replicas."""
    return f" {sentence(holding(labels))} it." if len(labels) > 1 else ""


def and_more(more: int) -> str:
    """The sentence at the end of a message that stands for others as well."""
    verb = "is" if more == 1 else "are"
    return f" {more:,} more like it {verb} on this replica." if more else ""


def role_of(quorum: Quorum, log: LogView) -> Literal["controller", "broker"] | None:
    """What a node is, voter or not; None where it is not known."""
    node = log.evidence.node_id
    if node is None or quorum.is_voter(log.evidence) is None:
        return None
    votes = node in quorum.controller_ids or is_controller(quorum, log.evidence)
    return "controller" if votes else "broker"


def called(quorum: Quorum, log: LogView) -> str:
    """A replica as a person calls it: controller 2; by its folder where its role is not known."""
    node, role = log.evidence.node_id, role_of(quorum, log)
    if node is None or role is None:
        return f"replica {log.label}"
    # A folder that is named by its node need not be named again, but where two are.
    alone = quorum.copies_of[node] == 1
    is_named = log.label.rsplit("/", 1)[-1] == str(node) and alone
    return f"{role} {node}" if is_named else f"{role} {node} ({log.label})"


_HEAD_END = r"(?P<end>[:;](?= )|\.(?= |$)|, so that )|(?P<pause>, )"
_ASIDE = r"(?P<aside> \([^()]*\))"
_HEAD_LIMIT = 140


def head(message: str, names: Iterable[str] = ()) -> str:
    """What is wrong in a few words: the beginning of a message, up to its reasons and without what
    stands in brackets; of a long one, whole clauses. Names of folders can hold anything: none ends it, and they are not counted.
    """
    whole = map(re.escape, sorted(names, key=len, reverse=True))
    parts = [rf" \({one}\)|(?<!\w){one}(?!\w)" for one in whole]
    text, start, limit, clause = "", 0, _HEAD_LIMIT, 0
    for found in re.finditer("|".join([*parts, _ASIDE, _HEAD_END]), message):
        if found["pause"]:
            here = len(text) + found.start() - start
            clause = here if here < limit else clause
        elif found["aside"] is None and found["end"] is None:
            limit += len(found[0])
        else:
            text, start = text + message[start : found.start()], found.end()
            if found["end"]:
                break
    else:
        text += message[start:]
    return text if len(text) <= limit else f"{text[: clause or limit - 1]}…"
