"""Checks of what the copies tell of their voters, votes and elections: voter sets, quorum-state.

Source: KIP-595, KIP-853, KIP-630 "Changes to Leader Election", KAFKA-16526, KAFKA-14616.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, at_batch, check
from kraftlog.audit.coverage import Coverage, but_for_unread
from kraftlog.audit.state_rules import CONTROLLERS
from kraftlog.audit.triage import (
    at_same_place,
    fetch_again,
    may_be_emptied,
    replicas_text,
    restore_vote,
)
from kraftlog.log import names
from kraftlog.log.directory import NO_SEGMENT
from kraftlog.plain import counted, natural
from kraftlog.quorum import voters as voter_sources
from kraftlog.quorum.ends import noted_epoch
from kraftlog.quorum.joining import busiest_hour, longest_gap, unelected
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import VOTER_SET, VOTERS
from kraftlog.quorum.shortfalls import forgotten_vote, is_only_voter
from kraftlog.quorum.voters import Members, VoterSet, disjoint_majorities, members_text


@check(
    "voter_sets_agree", "warning", "replica", "KIP-853, strimzi#6862, KAFKA-16526, KAFKA-17608",
    "voters by quorum-state, KRaftVoters records, configuration and a saved describe are the same",
    action="identity", over=coverage.copied_logs,
    goes_by=(VOTER_SET, VOTERS),
    meaning="""Sources disagree on who the voters are: quorum-state, the KRaftVoters records (also
    those of the snapshots at offset 0, with which nodes were formatted),
    controller.quorum.voters, a describe that is not older than the copies. Voters that disagree
    count different majorities. A node without a vote counts none, but may look for the leader at
    the wrong nodes. Often a change of the voters was not finished, or a configuration was not
    rolled out everywhere; or the copies are not those of the quorum that was described. Or a
    quorum-state names a leader or a candidate that votes by nothing at hand. A newest KRaftVoters
    record that names nobody is critical: by it nobody votes. Where there
    are KRaftVoters records, nodes count by nothing else: an old quorum-state is not told, and
    controller.quorum.voters at level info, as nodes still look for a leader there.""",
    advice="""Find the unfinished change and finish it on all nodes before any of them restarts.
    A static list of voters cannot be changed so: Kafka before 3.8 starts no node whose quorum-state
    has other voters. Put the old ones back, and keep that file.
    Where the describe names other voters, copy those. At level info, set
    controller.quorum.bootstrap.servers instead.""",
)  # fmt: skip
def voter_sets(quorum: Quorum) -> Iterator[BadRow]:
    yield from _sets_by_file(quorum)
    yield from _sets_by_record(quorum)
    yield from _set_by_describe(quorum)
    yield from _strangers(quorum)
    for log in quorum.peers:
        yield from _nobody(quorum, log)


def _nobody(quorum: Quorum, log: LogView) -> Iterator[BadRow]:
    """The newest KRaftVoters record that names no voter: a controller that starts with it as its set
    of voters has no vote, and waits for a leader for good (seen of Kafka 4.4).
    """
    named = [offset + 1 for offset, *_ in voter_sources.log_voter_records(log)]
    named += [one.end_offset for one in quorum.snapshots_of(log.label) if one.voters]
    for offset, row in [*voter_sources.records_without_voters(log)][-1:]:
        evidence: dict[str, Any] = {}
        counts, text = offset >= max(named, default=0), "Voters are named again behind it."
        if counts:
            text, evidence = at_same_place(quorum, log, row)
            if evidence["same_bytes_on"] and not evidence["other_bytes_on"]:
                text = f"{text} Begin a new quorum with voters of its own with kraftlog recover."
            elif not evidence["other_bytes_on"]:
                todo, asks = fetch_again(quorum, log.label)
                text, evidence = f"{text} {todo}", evidence | asks
            text = f"A controller that starts with it has no vote, so that nobody can lead. {text}"
            evidence["stops"] = CONTROLLERS
        source = f"KRaftVoters record at offset {offset}"
        yield at_batch(
            log,
            row,
            f"The {source} does not name any voter. Kafka never writes such a record. {text}",
            offset,
            severity="critical" if counts else None,
            evidence={"voters": [], "source": f"the {source}", **evidence},
        )


def _sets_by_file(quorum: Quorum) -> Iterator[BadRow]:
    """quorum-state, configuration and records against the set that counts. Where KRaftVoters records
    tell it, a node counts by nothing else (Kafka's QuorumState).
    """
    counts = quorum.voter_set
    replicas = sorted((log.evidence for log in quorum.peers), key=lambda one: natural(one.label))
    if counts is None:
        return
    configured = [*voter_sources.by_configuration(replicas)]
    if quorum.recorded_voters is not None:
        by_ids: dict[tuple[int, ...], list[VoterSet]] = defaultdict(list)
        for one in configured:
            by_ids[one.ids].append(one)
        yield from (_places_row(same, counts) for ids, same in by_ids.items() if ids != counts.ids)
        return
    groups: dict[tuple[bool, bool, object], list[VoterSet]] = defaultdict(list)
    told = (*voter_sources.by_quorum_state(replicas), *configured)
    goes_by = {one.replica: one.ids for one in told}  # its setting, else its quorum-state
    for one in told:
        if one.ids != counts.ids:
            node, is_setting = quorum.by_label[one.replica].evidence, one.source == VOTERS
            votes = quorum.is_voter(node) is not False or node.node_id in goes_by[one.replica]
            refused = is_setting and voter_sources.has_other_setting(node)
            groups[votes, refused, one.ids if is_setting else one.replica].append(one)
    for (votes, refused, _), same in groups.items():
        yield _set_row(same, counts, votes, refused)


def _places_row(same: list[VoterSet], counts: VoterSet) -> BadRow:
    """Nodes with a static list of voters that is not the set of their records."""
    one, labels = same[0], [other.replica for other in same]
    look, start = _looking(labels)
    return BadRow(
        one.replica,
        f"The voters are {members_text(one.ids, one.members, counts.members)} by the {VOTERS} of {replicas_text(labels)}. "
        f"But they are {members_text(counts.ids, counts.members, one.members)} by {counts.place}, and no majority is counted by that setting any more. "
        f"{look} for a leader there when {start}: name those that vote now in controller.quorum.bootstrap.servers instead.",
        one.path,
        other_replica=counts.replica if counts.replica != one.replica else None,
        severity="info",
        evidence={**_both(one, counts), "looking": labels},
    )


def _looking(labels: Sequence[str]) -> tuple[str, str]:
    """Who looks for a leader, and when, in words."""
    return ("It looks", "it starts") if len(labels) == 1 else ("They look", "they start")


def _set_row(
    same: Sequence[VoterSet], other: VoterSet, counts_votes: bool = True, refused: bool = False
) -> BadRow:
    """One set, of all nodes that are told together, against another one. `counts_votes` is whether they
    count majorities by it, and `refused` whether Kafka before 3.8 starts none of them.
    """
    one, labels = same[0], [each.replica for each in same]
    apart = disjoint_majorities(one.members, other.members) if counts_votes else None
    mine, theirs = (one.members, other.members), (other.members, one.members)
    two = (
        f" A majority of the first is {members_text(apart[0], *mine)}, and a majority of the second is {members_text(apart[1], *theirs)}. "
        "They share no voter: each can elect a leader of its own."
        if apart
        else ""
    )
    so = f"Nodes that disagree on the voters count different majorities.{two} Find out which change was not finished before any node starts."
    if not counts_votes:
        who = "This node has" if len(labels) == 1 else "These nodes have"
        so = f"{who} no vote: no majority is counted by that."
        if one.source == VOTERS:
            look, start = _looking(labels)
            so += f" {look} for a leader at those nodes when {start}: name those that vote now."
    place = f"the {one.source} of {replicas_text(labels)}" if len(labels) > 1 else one.place
    if refused:
        so += f" {_REFUSED}{_KEEP if counts_votes else ''}"
    return BadRow(
        one.replica,
        f"The voters are {members_text(one.ids, *mine)} by {place}. But they are {members_text(other.ids, *theirs)} by {other.place}. {so}",
        one.path,
        offset=one.offset,
        other_replica=other.replica if other.replica != one.replica else None,
        evidence={
            **_both(one, other),
            "disjoint_majorities": [list(ids) for ids in apart or ()],
            **({"replicas": labels} if len(labels) > 1 else {}),
        },
    )


_REFUSED = (
    "Kafka before 3.8 does not start so: put the voters of quorum-state back in that setting."
)
_KEEP = " Do not delete quorum-state, as the error of Kafka proposes: the vote is lost with it."


def _both(one: VoterSet, other: VoterSet) -> dict[str, Any]:
    return {
        "voters": [list(member) for member in one.members],
        "other_voters": [list(member) for member in other.members],
        "source": one.source,
        "other_source": other.source,
    }


def _sets_by_record(quorum: Quorum) -> Iterator[BadRow]:
    """KRaftVoters records of snapshots between which no log changes the voters must be equal, and
    so must those with which the quorum was formatted. Who joined it since was formatted without, or
    has what the others were formatted with in its log.
    """
    yield from _odd_ones(_formatted(quorum))
    changes: dict[int, Counter[Members]] = defaultdict(Counter)
    labels: dict[int, str] = {}
    for log in quorum.peers:
        end = quorum.confirmed_ends.get(log.label, log.end_offset or 0)
        for offset, _, _, members in voter_sources.log_voter_records(log):
            if offset < end:
                changes[offset][members] += 1
                labels.setdefault(offset, log.label)
    groups: dict[int, list[tuple[int, VoterSet]]] = defaultdict(list)
    for offset, holders in changes.items():
        members = holders.most_common(1)[0][0]
        source = f"the KRaftVoters record at offset {offset}"
        seen = (0, offset + 1)
        found = VoterSet(members, source, labels[offset], None, offset, seen)
        groups[offset] = [(offset, found)] * 2
    for one in quorum.own_snapshots:
        if not one.voters or not one.end_offset:
            continue
        offset = max((at for at in changes if at < one.end_offset), default=-1)
        if _unbroken(quorum, one.end_offset, groups[offset]):
            groups[offset].append((one.end_offset, voter_sources.set_of_snapshot(one)))
    for group in groups.values():
        yield from _odd_ones([found for _, found in group])


def _formatted(quorum: Quorum) -> list[VoterSet]:
    """The sets with which the nodes were formatted, but where a node has fetched the others' since:
    it counts by the newest record of its own log.
    """
    formatted = [one for one in quorum.own_snapshots if one.is_live and not one.end_offset]
    found = [voter_sources.set_of_snapshot(one) for one in formatted if one.voters]
    every = {one.members for one in found}

    def has_fetched_others(one: VoterSet) -> bool:
        log = quorum.by_label[one.replica]
        fetched = {members for *_, members in voter_sources.log_voter_records(log)}
        return bool(fetched & every - {one.members})

    return [one for one in found if not has_fetched_others(one)]


def _unbroken(quorum: Quorum, end: int, group: list[tuple[int, VoterSet]]) -> bool:
    """Whether a log shows that nothing changed between a snapshot's end and its group's first."""
    if not group:
        return True
    low, high = sorted((end, group[0][0]))
    return low == high or quorum.covers(low, high)


def _set_by_describe(quorum: Quorum) -> Iterator[BadRow]:
    """The voters of a describe of which nothing at hand tells."""
    told, counts = quorum.unexplained_voters, quorum.voter_set
    if told is None or counts is None:
        return
    mine, theirs = (told.members, counts.members), (counts.members, told.members)
    yield BadRow(
        None,
        f"The voters are {members_text(told.ids, *mine)} by {told.place}. But they are {members_text(counts.ids, *theirs)} by {counts.place}. "
        "No record at hand tells of a change. "
        "The voters changed after the files were copied, or these are copies of another quorum: what was committed since may be missing here. "
        "Copy all voters that the describe names before any node starts.",
        other_replica=counts.replica,
        evidence={**_both(told, counts), "disjoint_majorities": []},
    )


def _strangers(quorum: Quorum) -> Iterator[BadRow]:
    """Nodes that only a quorum-state tells of."""
    for label, node in quorum.strangers.items():
        file, counts = quorum.by_label[label].evidence.quorum_state, quorum.voter_set
        assert file is not None
        assert counts is not None
        did = "the leader" if file.value.leader_id == node else "whom it voted for"
        yield BadRow(
            label,
            f"The quorum-state of replica {label} names node {node} as {did} in epoch {file.value.leader_epoch}. "
            f"But the voters are {members_text(counts.ids, counts.members, ())} by {counts.place}, and no record at hand tells of a change. "
            "The voters changed after the files were copied, or the file was edited or is another quorum's: what was committed since may be missing here. "
            "Copy all voters that vote now before any node starts.",
            file.path,
            batch_leader_epoch=file.value.leader_epoch,
            other_replica=counts.replica if counts.replica != label else None,
            evidence={
                "voters": [[node, None]],
                "other_voters": [list(member) for member in counts.members],
                "source": "quorum-state",
                "other_source": counts.source,
                "disjoint_majorities": [],
            },
        )


def _odd_ones(every: list[VoterSet]) -> Iterator[BadRow]:
    count = Counter(one.members for one in every)
    if len(count) < 2:
        return
    usual = count.most_common(1)[0][0]
    right = next(one for one in every if one.members == usual)
    for one in every:
        if one.members != usual:
            yield _set_row([one], right)


def _voters_states(quorum: Quorum) -> Coverage:
    if not quorum.has_begun:
        return Coverage((), (), "no node at hand has started since it was formatted")
    return but_for_unread(quorum, coverage.voters(quorum), names.QUORUM_STATE)


@check(
    "quorum_state_present", "warning", "replica", "confluentinc/kafka#302",
    "each voter's directory has a readable quorum-state not older than its log",
    action="identity", over=_voters_states,
    goes_by=("copy_skew_ms", VOTER_SET),
    meaning="""A voter's quorum-state is missing, unreadable, of a version that Kafka does not
    know, or older than its log, its leader-epoch-checkpoint, or an election in which its node had a
    part, by the log of another copy; or it holds another vote of that election's epoch, which Kafka
    never changes. A voter that has forgotten its vote could vote twice in one epoch. Of a node that
    does not vote because the voter set names another disk of it, a missing file is told too, as
    information. So is one of a voter beside which nobody else votes, and that of a node without a
    log, where no election at hand had its vote and the others decide without it: mostly it has not
    started since it was formatted.""",
    advice="""Copy the file as well, if it was only left out of the copy. Copy the node again, if
    that was done before the election. If it is missing on the
    node, let the node join anew with an empty log folder, while a majority of the other voters is
    whole. Of a node that does not vote, delete a file that cannot be read while the node is stopped.
    Do not write the file by hand.""",
)  # fmt: skip
def quorum_state(quorum: Quorum) -> Iterator[BadRow]:
    if not quorum.has_begun:
        return
    for replica, log in zip(quorum.replicas, quorum.logs, strict=True):
        file = replica.quorum_state
        if file.unread if file is not None else replica.unlisted:
            continue
        cannot_start = file is not None and file.value is None
        if file is not None and cannot_start:
            problem = f"cannot be read ({file.problem}), and Kafka does not start with it"
        elif not quorum.is_voter(replica):
            is_whole = not (log.is_empty or replica.is_pulled)
            if file is None and is_whole and quorum.is_voter_by_id(replica):
                yield BadRow(
                    replica.label,
                    f"The quorum-state of node {replica.node_id} is missing, which every node writes when it starts: the copy is not whole. "
                    "The voter set names another disk of this node, so that no vote is forgotten. "
                    "Copy the file too before the node becomes a voter again.",
                    severity="info",
                    evidence={"problem": "is missing"},
                )
            continue
        elif file is None and _has_not_started(quorum, log):
            yield BadRow(
                replica.label,
                f"Node {replica.node_id} has neither a log nor a quorum-state, like a node that was formatted and has not started since. "
                "No election at hand had its vote, and the other voters that are whole are a majority. Start it: it fetches all from the leader.",
                severity="info",
                evidence={"problem": "is missing"},
            )
            continue
        elif file is None:
            problem = "is missing"
        elif replica.state_file and (log.last_epoch or 0) > replica.state_file.leader_epoch:
            problem = f"knows epoch {replica.state_file.leader_epoch}, but its log is at epoch {log.last_epoch}"
        elif replica.state_file and (noted := noted_epoch(log)) > replica.state_file.leader_epoch:
            problem = f"knows epoch {replica.state_file.leader_epoch}, but its leader-epoch-checkpoint knows epoch {noted}"
        elif replica.state_file and (vote := forgotten_vote(quorum, log)) is not None:
            elected = f"by the log of replica {vote.replica} the node had a part in the election of epoch {vote.epoch}"
            problem = f"knows epoch {replica.state_file.leader_epoch}, but {elected}: it was set back, or copied before"
        elif replica.state_file and (vote := quorum.second_vote(log)) is not None:
            elected = f"by the log of replica {vote.replica} it had a part in the election of node {vote.leader_id}"
            problem = f"says that it voted for node {replica.state_file.voted_id} in epoch {vote.epoch}, but {elected}: it was set back, or replaced"
        else:
            continue
        yield BadRow(
            replica.label,
            f"The quorum-state of node {replica.node_id} {problem}. "
            f"{restore_vote(quorum, log, 'A voter that has forgotten its vote could vote twice in one epoch.')}",
            file.path if file else None,
            severity="info" if is_only_voter(quorum, log) and not cannot_start else None,
            evidence={"problem": problem},
        )


def _has_not_started(quorum: Quorum, log: LogView) -> bool:
    """Whether no vote can have been forgotten with a voter's log: none of its snapshots is of a node
    that ran, it had no part in an election at hand, and the other voters decide without it.
    """
    has_none = not log.evidence.segments or log.unread == NO_SEGMENT
    is_new = has_none and quorum.later_vote(log) is None
    ran = any(one.end_offset for one in quorum.snapshots_of(log.label))
    return is_new and not ran and may_be_emptied(quorum, log)


def _epochs_ahead(quorum: Quorum) -> Iterator[BadRow]:
    """A voter that stands for election again and again raises its epoch, and is not elected."""
    for log, epoch, newest in unelected(quorum):
        file, ahead = log.evidence.quorum_state, epoch - newest
        yield BadRow(
            log.label,
            f"The quorum-state of voter {log.evidence.node_id} is at epoch {epoch}, {counted(ahead, 'epoch')} above every log at hand. "
            "That many elections began, and no log at hand knows a leader of them. "
            "Look for a controller that cannot reach the others, or cannot fetch in time.",
            file.path if file else None,
            batch_leader_epoch=epoch,
            evidence={"epoch": epoch, "newest_epoch_in_logs": newest},
        )


@check(
    "election_storm", "warning", "replica", "KIP-1219, strimzi#11613",
    "elections per hour and skipped epochs stay under the limits",
    action="watch",
    goes_by=("elections_per_hour", "skipped_epochs", "snapshot_part_ms"),
    meaning="""Leaders changed very often, or many elections in a row were won by nobody. Usual
    causes are a controller that cannot fetch within its timeout (a slow link, a large snapshot,
    KAFKA-19541), an overloaded disk, or pauses of the JVM.""",
    advice="""Look at the node that is missing from grantingVoters of the LeaderChange records,
    its link and its disk. For large snapshots on slow links see
    controller.quorum.fetch.snapshot.max.bytes (KIP-1219).""",
)  # fmt: skip
def storm(quorum: Quorum) -> Iterator[BadRow]:
    yield from _epochs_ahead(quorum)
    yield from _elections(quorum)


def _elections(quorum: Quorum) -> Iterator[BadRow]:
    limits, log = quorum.thresholds, quorum.newest_log
    if log is None:
        return
    most, first = busiest_hour(log)
    if first is None:
        return
    gap, after_gap = longest_gap(log)
    if most <= limits.elections_per_hour and gap <= limits.skipped_epochs:
        return
    at = first if most > limits.elections_per_hour else after_gap
    starts = np.array([one.row for one in log.epoch_starts if one.certain], np.int64)
    tenures = np.diff(np.sort(log.evidence.log.base_timestamps[starts[1:]].astype(np.float64)))
    shortest = int(tenures.min()) if len(tenures) else None
    epochs_words = f", with up to {counted(gap, 'epoch')} without a leader between two of them"
    skipped_words = epochs_words if gap else ""
    allowed = f"{counted(limits.elections_per_hour, 'leader')} an hour and {counted(limits.skipped_epochs, 'epoch')} without one"
    held = ""
    if len(tenures):
        least, median = tenures.min() / 1000, float(np.median(tenures)) / 1000
        held = f" In this log, each leader led for at least {least:,.1f} s, and half of them for at most {median:,.1f} s."
    yield at_batch(
        log,
        at.row,
        f"From offset {first.start_offset} on, {counted(most, 'leader')} came within one hour{skipped_words}. "
        f"The limits are {allowed}.{held} Look for a controller that cannot fetch in time, or for a slow link.",
        epoch=at.epoch,
        evidence={
            "elections_in_an_hour": most,
            "skipped_epochs": gap,
            "shortest_tenure_ms": shortest,
            "median_tenure_ms": int(np.median(tenures)) if len(tenures) else None,
            "epochs": len(log.epoch_starts),
        },
    )
