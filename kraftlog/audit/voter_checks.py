"""Checks of the voters against the disks and addresses that they are at, and of brokers' folders
against the topics that there are.

In: the voter set, `meta.properties` of the copies, the newest state. Source: KIP-853, KIP-1347,
KAFKA-19850, strimzi/proposals#203, KAFKA-14616.
"""

from collections.abc import Iterator

from kraftlog.audit.check import BadRow, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.health_checks import Reason, at_text, health_check, row, since_text
from kraftlog.message.spec import ZERO_UUID
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.health import Health
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import AUTO_JOIN
from kraftlog.quorum.voters import (
    Members,
    disjoint_majorities,
    log_voter_changes,
    voters_text,
)


def _over_directories(quorum: Quorum) -> Coverage:
    if not _named_directories(quorum):
        return Coverage((), (), "the voter set names no directories (kraft.version 0)")
    labels = [one.label for copies in _copies_of_voters(quorum).values() for one in copies]
    return Coverage(tuple(labels), (), "no voter's meta.properties is at hand")


@check(
    "voter_directories_agree", "warning", "replica", "KIP-853, strimzi/proposals#203",
    "the disk of each voter at hand is the one that the voter set names",
    action="identity", over=_over_directories,
    meaning="""A voter is an id and the id of its directory (KIP-853). The disk of this node has
    another directory id than the voter set names, as after a disk was replaced or formatted anew.
    So the node is an observer, whatever its node id, and the quorum has one vote less. A disk
    without a directory id is given a new one when its node starts, and from then on it is such a
    disk.""",
    advice="""If the old disk is gone for good: kafka-metadata-quorum remove-controller with the
    old directory id, then add-controller on the node. Do it before another voter fails: voters
    change only while there is a leader. If too few are left to elect one, bring the old disk back,
    or begin a new quorum of what remains with kraftlog recover. Where meta.properties lacks the
    directory id, write it back before the node starts.""",
)  # fmt: skip
def directories(quorum: Quorum) -> Iterator[BadRow]:
    """A voter is an id and a directory: a node on a new disk is none, whatever its id."""
    named, known = _named_directories(quorum), _copies_of_voters(quorum)
    away = [
        voter
        for voter, copies in sorted(known.items())
        if copies and all(one.directory_id != named[voter] for one in copies)
    ]
    majority = len(named) // 2 + 1
    left = len(named) - len(away)
    for voter in away:
        copy = known[voter][0]
        new = copy.directory_id
        are, needed = ("is" if count == 1 else "are" for count in (left, majority))
        stands = f"{left} of {len(named)} voters {are} left and {majority} {needed} needed: {_spare(left - majority)}."
        todo = (
            f"If the old disk is gone for good, remove the voter ({voter}, {named[voter]}) and add ({voter}, {new}), both with kafka-metadata-quorum."
            if left >= majority
            else "Voters change only while there is a leader. So bring the old disk back, or begin a new quorum of what remains with kraftlog recover."
        )
        text = (
            f"Node {voter} does not vote: its disk is not the one that the voter set names. "
            f"The voter set names directory {named[voter]}, which is on no disk at hand. "
            f"The directory of its disk is {new}. "
            f"{stands} {todo}"
        )
        if new is None:
            text = (
                f"Node {voter} does not vote any more once it starts with this disk: its meta.properties has no directory.id, and Kafka makes up a new one. "
                f"The voter set names directory {named[voter]}. "
                f"Then {stands} If this is the disk of that voter, write directory.id={named[voter]} into the file before the node starts."
            )
        yield BadRow(
            copy.label,
            text,
            copy.meta_properties.path if copy.meta_properties else None,
            evidence={
                "voter_id": voter,
                "voter_directory_id": named[voter],
                "directory_id": new,
                "voters_left": left,
                "majority": majority,
            },
        )


def _spare(count: int) -> str:
    """How many voters may still fail, in words."""
    if count < 0:
        return "no leader can be elected"
    return "none of them may fail" if count == 0 else f"{count} of them may fail"


def _named_directories(quorum: Quorum) -> dict[int, str]:
    """The directory of each voter by the voter set; none below kraft.version 1."""
    members = () if quorum.voter_set is None else quorum.voter_set.members
    return {voter: one for voter, one in members if one and one != ZERO_UUID}


def _copies_of_voters(quorum: Quorum) -> dict[int, list[ReplicaEvidence]]:
    """The copies of voters, by node id, with a meta.properties that says which disk it is, or that
    none has been named yet.
    """
    named = _named_directories(quorum)
    held: dict[int, list[ReplicaEvidence]] = {}
    for one in quorum.replicas:
        voter, says = one.node_id, one.meta("directory.id") is not None
        if says and one.directory_id is None:
            continue  # Kafka starts with no such file
        if voter in named and one.label not in quorum.foreign:
            held.setdefault(voter or 0, []).append(one)
    return held


def _no_voters(quorum: Quorum, found: Health) -> Reason:
    return None if found.voters else "no KRaftVoters record names the voters"


@health_check(
    "voters_removed_stay_away", "warning", "replica", "KAFKA-19850",
    "a voter that was removed has not joined again, and does not by itself",
    action="identity", nothing=_no_voters,
    goes_by=("rejoin_ms", AUTO_JOIN),
    meaning="""A voter that was removed is a voter again, or will be as soon as its node runs:
    with controller.quorum.auto.join.enable a controller that is no voter asks to be one
    (KAFKA-19850). At level info it came back so late, or its server.properties says so, that a
    person may have added it.""",
    advice="""If it must stay away, stop the node, or switch controller.quorum.auto.join.enable off
    on it, and remove it after that.""",
)  # fmt: skip
def rejoined(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    """Voters that came again after they were removed, and are voters still; and those that will."""
    now = {(one["voterId"], one["voterDirectoryId"]) for one in found.voters}
    for (voter, directory), (left, back) in sorted(found.past.voters_back.items()):
        if (voter, directory) not in now:
            continue
        passed = back.timestamp - left.timestamp
        joins = _joins(quorum, voter, directory)
        by_itself = passed <= quorum.thresholds.rejoin_ms if joins is None else joins
        how = (
            f", {max(0, passed) / 1000:,.1f} s later, as a controller does by itself"
            if by_itself
            else ""
        )
        yield row(
            found,
            f"Voter {voter} was removed ({at_text(left)}) and is a voter again ({since_text(back)}){how}. Its directory is {directory}. {_STAY_AWAY}",
            None if by_itself else "info",
            voter_id=voter,
            directory_id=directory,
            removed_offset=left.offset,
            back_offset=back.offset,
            passed_ms=passed,
        )
    for (voter, directory), left in sorted(found.past.voters_removed.items()):
        if (voter, directory) not in now and _joins(quorum, voter, directory):
            yield row(
                found,
                f"Voter {voter} was removed ({at_text(left)}), but joins again when its node runs: its server.properties says so. Its directory is {directory}. {_STAY_AWAY}",
                voter_id=voter,
                directory_id=directory,
                removed_offset=left.offset,
            )


_STAY_AWAY = f"If it must stay away, stop the node or set {AUTO_JOIN}=false on it, and only then remove it (KAFKA-19850)."


def _joins(quorum: Quorum, voter: int, directory: str) -> bool | None:
    """Whether the settings beside a voter's copy say that it joins by itself; None without any."""
    copies = [
        one
        for one in quorum.replicas
        if one.node_id == voter
        and one.directory_id in (directory, None)
        and one.server_properties is not None
    ]
    if not copies:
        return None
    return any((one.setting(AUTO_JOIN) or "").strip().lower() == "true" for one in copies)


def _over_changes(quorum: Quorum) -> Coverage:
    labels = [log.label for log in quorum.peers if any(log_voter_changes(log))]
    return Coverage(tuple(labels), (), "no log at hand names the voters twice")


@check(
    "voter_changes_overlap", "warning", "replica", "KIP-853, KAFKA-17608, bitnami/charts#29167",
    "any majority of the voters before a change shares a voter with any after it",
    action="identity", over=_over_changes, after="voter_sets_agree",
    meaning="""The voters changed by more than one at a time, so a majority of the old voters and a
    majority of the new ones need not share a voter: for a while two leaders could be elected, and
    both could commit. A static quorum that is scaled out by its configuration does this. With
    kafka-metadata-quorum, controllers are added and removed one at a time, so this cannot
    happen.""",
    advice="""Copy the disks of all old and new voters before any of them starts, and look for two
    histories (committed_data_consistent). If there is only one history, that was luck. Change
    voters one at a time, each when the last one has caught up.""",
)  # fmt: skip
def changes_overlap(quorum: Quorum) -> Iterator[BadRow]:
    """Voters change one at a time, so any two majorities share a voter: a change of more lets
    the old set and the new one decide differently. A change is told once, however many hold it;
    across a hole, sets may lie between that nobody sees.
    """
    told: set[tuple[int | None, Members]] = set()
    for log in quorum.peers:
        end = quorum.tail_starts.get(log.label, log.end_offset or 0)
        for before, after in log_voter_changes(log):
            apart = disjoint_majorities(before.members, after.members)
            key = after.offset, after.members
            if apart is None or key in told or (after.offset or 0) >= end:
                continue
            if not log.covers(before.offset or 0, after.offset or 0):
                continue
            told.add(key)
            one, other = (list(ids) for ids in apart)
            old, new = (before.members, after.members), (after.members, before.members)
            yield BadRow(
                log.label,
                "Too many voters changed at once. "
                f"They were {voters_text(before.ids, *old)} by {before.source}. They became {voters_text(after.ids, *new)} by {after.source}. "
                f"A majority of the old voters is {voters_text(one, *old)}. A majority of the new voters is {voters_text(other, *new)}. "
                "They share no voter, so each could have elected a leader and committed records of its own. "
                "Compare the copies of all of them before any node starts, and change voters one at a time.",
                log.path(int(log.rows[log.index_at(after.offset or 0)])),
                int(log.evidence.log.positions[log.rows[log.index_at(after.offset or 0)]]),
                after.offset,
                batch_leader_epoch=int(log.epochs[log.index_at(after.offset or 0)]),
                evidence={
                    "voters_before": list(before.ids),
                    "voters_after": list(after.ids),
                    "disjoint_majorities": [one, other],
                },
            )
