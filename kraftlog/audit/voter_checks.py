"""Checks of the voters against the disks and addresses that they are at, and of brokers' folders
against the topics that there are.

In: the voter set, `meta.properties` and server.properties of the copies, the topic folders beside a
log with their partition.metadata, the newest state and its history. Source: KIP-853, KIP-1347,
KAFKA-19850, KAFKA-20427, KAFKA-20661, strimzi/proposals#203, KIP-516, KAFKA-14616, KAFKA-21022.
"""

from collections.abc import Iterator, Mapping

from kraftlog.audit.check import BadRow, at_batch, check
from kraftlog.audit.coverage import Coverage, unread
from kraftlog.audit.difference_checks import standing_apart
from kraftlog.audit.health_checks import (
    Reason,
    at_text,
    health_check,
    newest_health,
    newest_levels,
    row,
    since_text,
    unless_held,
)
from kraftlog.audit.triage import replicas_text
from kraftlog.plain import brokers_text, counted, some, voters_text
from kraftlog.quorum.evidence import PartitionFolder, ReplicaEvidence
from kraftlog.quorum.health import Health
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import AUTO_JOIN, CONTROLLERS, LISTENERS, VOTERS
from kraftlog.quorum.voters import (
    Members,
    configured_places,
    contradictions,
    disjoint_majorities,
    log_voter_changes,
    log_voter_records,
    members_text,
    places_of,
    static_places,
)


def _over_directories(quorum: Quorum) -> Coverage:
    if not quorum.named_directories:
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
    directory id, or was written anew for the old disk, write the old id back before the node
    starts: kafka-storage format makes up another one. A log that was moved to another directory of
    its node goes back: Kafka does not start where two of them have one id. A new disk never gets the old id: without its
    log it would help to elect a leader that lacks committed records.""",
)  # fmt: skip
def directories(quorum: Quorum) -> Iterator[BadRow]:
    """A voter is an id and a directory: a node on a new disk is none, whatever its id."""
    named, known = quorum.named_directories, _copies_of_voters(quorum)
    away = [
        voter
        for voter, copies in sorted(known.items())
        if copies and all(one.directory_id != named[voter] for one in copies)
    ]
    majority = len(named) // 2 + 1
    left = len(named) - len(away)
    apart = standing_apart(quorum) if away else ()
    for voter in away:
        copy = known[voter][0]
        new = copy.directory_id
        are, needed = ("is" if count == 1 else "are" for count in (left, majority))
        stands = f"{left} of {len(named)} voters {are} left and {majority} {needed} needed: {_spare(left - majority)}."
        old = f"({voter}, {named[voter]})"
        fresh = "it under its new directory.id" if new is None else f"({voter}, {new})"
        todo = (
            f"If the old disk is gone for good, remove the voter {old} with kafka-metadata-quorum, start the node, and add {fresh} once it has caught up."
            if left >= majority
            else "Voters change only while there is a leader. So bring the old disk back, or begin a new quorum of what remains with kraftlog recover."
        )
        log = quorum.by_label[copy.label]
        if not log.is_empty and not _has_voted_as(quorum, log, (voter, new)):
            moved = "If the log was moved here from another directory of the node, move it back: that one still has the id, and Kafka does not start with two of one id."
            todo = f"{moved} If this is the old disk, and its meta.properties was written anew, stop the node and put directory.id={named[voter]} back. {todo}"
        if copy.label in apart:
            todo = "Do not start it: it holds another history than the voters, see the finding of committed_data_consistent."
        text = (
            f"Node {voter} does not vote: its disk is not the one that the voter set names. "
            f"The voter set names directory {named[voter]}, in which no log at hand lies. "
            f"The directory of its disk is {new}. "
            f"{stands} {todo}"
        )
        if new is None:
            old_id = f"If this is the disk of that voter, write directory.id={named[voter]} into the file before the node starts."
            if quorum.by_label[copy.label].is_empty:
                # It has forgotten what it acknowledged: by its old id it would vote all the same.
                old_id = f"It holds no log, so do not write the old one into the file: the node would elect a leader that lacks committed records. {todo}"
            text = (
                f"Node {voter} does not vote any more once it starts with this disk: its meta.properties has no directory.id, and Kafka makes up a new one. "
                f"The voter set names directory {named[voter]}. "
                f"Then {stands} {old_id}"
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


def _has_voted_as(quorum: Quorum, log: LogView, member: tuple[int, str | None]) -> bool:
    """Whether a copy's own records name its node with a disk: nobody has given that disk a new name."""
    sets = [members for *_, members in log_voter_records(log)]
    sets += [one.voters for one in quorum.snapshots_of(log.label) if one.voters]
    return any(member in members for members in sets)


def _spare(count: int) -> str:
    """How many voters may still fail, in words."""
    if count < 0:
        return "they cannot elect a leader"
    return "none of them may fail" if count == 0 else f"{count} of them may fail"


def _copies_of_voters(quorum: Quorum) -> dict[int, list[ReplicaEvidence]]:
    """The copies of voters, by node id, with a meta.properties that says which disk it is, or that
    none has been named yet.
    """
    named = quorum.named_directories
    held: dict[int, list[ReplicaEvidence]] = {}
    for one in quorum.replicas:
        voter, says = one.node_id, one.meta("directory.id") is not None
        if says and one.directory_id is None:
            continue  # Kafka starts with no such file
        if voter in named and one.label not in quorum.foreign:
            held.setdefault(voter or 0, []).append(one)
    return held


@health_check(
    "voters_removed_stay_away", "warning", "replica", "KAFKA-19850",
    "a voter that was removed has not joined again, and does not by itself",
    action="identity",
    nothing=unless_held(lambda found: found.voters, "no KRaftVoters record names the voters"),
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
        # A node that votes with another disk has that one in use.
        if voter not in {node for node, _ in now} and _joins(quorum, voter, directory):
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
    found = Coverage(tuple(labels), (), "no log at hand names the voters twice")
    return found.but_for(unread(quorum.peers))


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
            index = log.index_at(after.offset or 0)
            yield at_batch(
                log,
                int(log.rows[index]),
                "Too many voters changed at once. "
                f"They were {members_text(before.ids, *old)} by {before.source}. They became {members_text(after.ids, *new)} by {after.source}. "
                f"A majority of the old voters is {members_text(one, *old)}. A majority of the new voters is {members_text(other, *new)}. "
                "They share no voter, so each could have elected a leader and committed records of its own. "
                "Compare the copies of all of them before any node starts, and change voters one at a time.",
                after.offset,
                epoch=int(log.epochs[index]),
                evidence={
                    "voters_before": list(before.ids),
                    "voters_after": list(after.ids),
                    "disjoint_majorities": [one, other],
                },
            )


# --- addresses ------------------------------------------------------------------------------------


def _over_addresses(quorum: Quorum) -> Coverage:
    voters = _by_voter_set(quorum)
    found = newest_health(quorum)
    labels = [one.label for voter in voters for one in _copies(quorum, voter) if _listens(one)]
    if found is not None and set(voters) & set(found.controllers):
        labels += [log.label for log in quorum.peers]
    labels += [one.label for one in _with_static(quorum)]
    labels += [log.label for log in quorum.peers if quorum.unplaced_voters(log)[1]]
    return Coverage(
        tuple(dict.fromkeys(labels)),
        (),
        "no voter of a KRaftVoters record has registered as a controller, and no server.properties at hand says where controllers are",
    )


@check(
    "voter_endpoints_agree", "warning", "replica", "KIP-853, KAFKA-20427, KIP-1347",
    "a voter is where the voter set, or the others' settings, say that it is",
    action="identity", over=_over_addresses, after="voter_directories_agree",
    goes_by=(VOTERS, CONTROLLERS, *LISTENERS),
    meaning="""A voter is at one address by the voter set (or by the others'
    controller.quorum.voters), and at another by its own registration or its own
    server.properties. Voters find each other by the voter set: after a change of names or ports,
    when all of them are stopped, they may find no majority (KAFKA-20427). Where the voter set names
    no endpoint of another voter for the first of a node's controller.listener.names, that node
    halts when it looks for that voter, and this is critical.""",
    advice="""Let the old names and ports lead to the nodes until there is a leader: a controller
    that finds a leader updates its own endpoints (KIP-853). Change one controller at a time; a new
    listener comes behind the old one in controller.listener.names until all of them have it. If
    the old addresses are gone for good, kraftlog recover writes a new quorum with the new ones.""",
)  # fmt: skip
def endpoints(quorum: Quorum) -> Iterator[BadRow]:
    yield from _unplaced(quorum)
    yield from _of_records(quorum)
    yield from _of_settings(quorum)


def _unplaced(quorum: Quorum) -> Iterator[BadRow]:
    """The nodes that know no endpoint of other voters, and so halt, each with these."""
    for log in quorum.peers:
        listener, voters = quorum.unplaced_voters(log)
        if not voters:
            continue
        own, file = quorum.recorded_electorates[log.label], log.evidence.server_properties
        who = f"{voters_text(voters)} {'has' if len(voters) == 1 else 'have'}"
        looks, todo = "", "Begin a quorum at addresses that are known with kraftlog recover."
        if listener is not None:
            looks = f"It looks for them at listener {listener}, the first of its {CONTROLLERS}. "
            todo = "Put a listener first that each voter has there: a new one comes first only when all of them have it."
        yield BadRow(
            log.label,
            f"Node {log.evidence.node_id} halts when it looks for the other voters: by {own.place}, {who} no endpoint that it could use. "
            f"{looks}{todo}",
            file.path if file is not None and listener is not None else None,
            severity="critical",
            evidence={"voter_id": log.evidence.node_id, "listener": listener, "unplaced": voters},
        )


def _of_records(quorum: Quorum) -> Iterator[BadRow]:
    """Where the voter set says that voters are, against what they say of themselves."""
    moved = {
        voter: list(_against(quorum, voter, places))
        for voter, places in sorted(_by_voter_set(quorum).items())
    }
    away = {
        voter
        for voter, found in moved.items()
        if any(source == SETTINGS for _, _, _, source in found)
    }
    left, majority = len(moved) - len(away), len(moved) // 2 + 1
    lost = (
        f" {len(away)} of {len(moved)} voters have moved like this, and {majority} must be found. "
        "Once all voters are stopped, no leader can be elected unless the old addresses still lead to them."
        if left < majority
        else ""
    )
    for voter, found in moved.items():
        for listener in dict.fromkeys(name for name, *_ in found):
            held = [(other, source) for name, _, other, source in found if name == listener]
            place = next(known for name, known, *_ in found if name == listener)
            told = some([f"{other} by its own {source}" for other, source in held])
            yield BadRow(
                None,
                f"Voter {voter} is at {place} by the voter set, but at {told} (listener {listener}). "
                f"After a restart the other voters look for it at {place}."
                f"{lost} Until there is a leader, let the old address lead to this node: the leader then takes the new address from the node itself. "
                "Or begin a quorum at the new addresses with kraftlog recover.",
                evidence={
                    "voter_id": voter,
                    "listener": listener,
                    "by_voter_set": place,
                    "by_itself": {source: other for other, source in held},
                    "voters_moved": sorted(away),
                },
            )


SETTINGS, REGISTRATION = "server.properties", "registration"


def _by_voter_set(quorum: Quorum) -> dict[int, dict[str, str]]:
    """host:port by listener of each voter."""
    found = newest_health(quorum)
    voters = () if found is None else found.voters
    return {one["voterId"]: places_of(one["endpoints"]) for one in voters}


def _against(
    quorum: Quorum, voter: int, places: dict[str, str]
) -> Iterator[tuple[str, str, str, str]]:
    """(listener, place by the voter set, another place, who says so)."""
    found = newest_health(quorum)
    registered = found.controllers.get(voter) if found else None
    if registered is not None:
        told = places_of(registered["endPoints"])
        for name, place, other in contradictions(places, told):
            yield name, place, other, REGISTRATION
    for copy in _copies(quorum, voter):
        for name, place, other in contradictions(places, configured_places(copy)):
            yield name, place, other, SETTINGS


def _copies(quorum: Quorum, voter: int) -> list[ReplicaEvidence]:
    """The copies of a voter, but for one beside which another node's server.properties lies: that one
    says nothing of this voter's addresses, and the node does not start with it.
    """
    copies = [log.evidence for log in quorum.holders.get(voter, ())]
    return [one for one in copies if one.run_as is None]


def _of_settings(quorum: Quorum) -> Iterator[BadRow]:
    """Where the nodes look for a voter by controller.quorum.voters, against where it listens: each
    voter once, with all that look for it elsewhere.
    """
    looking: dict[tuple[int, str], list[ReplicaEvidence]] = {}
    for replica in _with_static(quorum):
        for known in static_places(replica).items():
            looking.setdefault(known, []).append(replica)
    for (voter, place), replicas in sorted(looking.items()):
        own = [found for one in _copies(quorum, voter) for found in _listens(one)]
        if not own or any(_same_port(place, one) for one in own):
            continue
        file = replicas[0].server_properties
        lookers = [one.label for one in replicas]
        who = f"{replicas_text(lookers)} {'has' if len(lookers) == 1 else 'have'}"
        yield BadRow(
            replicas[0].label,
            f"Voter {voter} is not where the others look for it: {who} {place} in controller.quorum.voters, but its own server.properties says {some(own)}. "
            "They cannot reach it, so it can neither elect a leader nor be one. "
            "Correct the addresses before any node starts.",
            file.path if file else None,
            evidence={
                "voter_id": voter,
                "looked_for_at": place,
                "listens_at": own,
                "looking": lookers,
            },
        )


def _listens(replica: ReplicaEvidence) -> list[str]:
    return list(configured_places(replica).values())


def _same_port(place: str, other: str) -> bool:
    """Names of one machine may differ between files; its port may not."""
    return place.rpartition(":")[2] == other.rpartition(":")[2]


def _with_static(quorum: Quorum) -> list[ReplicaEvidence]:
    return [log.evidence for log in quorum.peers if static_places(log.evidence)]


# --- folders --------------------------------------------------------------------------------------


def _no_folder(quorum: Quorum, found: Health) -> Reason:
    if any(one.partition_folders for one in quorum.replicas):
        return None
    return "no topic folder with a partition.metadata lies beside a log at hand"


KEEPS_STRAYS = 19
"""metadata.version 3.7-IV4: a broker that supports it renames such folders, where those of Kafka 3.3 to
3.6 delete them for good, a minute after their start.
"""


@health_check(
    "folders_match_topics", "warning", "state", "KIP-516, KAFKA-14616, KAFKA-21022",
    "every topic folder of a broker at hand is of a topic that exists and is assigned to it",
    action="watch", nothing=_no_folder, after="brokers_unfenced",
    meaning="""A broker's disk has folders that belong to none of its partitions: by their
    partition.metadata the topic id is that of no topic or of another topic, or the partition is
    assigned to other brokers. While the broker was away, the topic was deleted, perhaps created
    again under its name, or moved. Folders that Kafka is deleting are left out. At level info the
    broker runs: it deletes such folders within moments, and the copy was made in between.""",
    advice="""If their records are still wanted, copy the folders before the broker starts: it
    renames them to -stray then, and before Kafka 3.7 it deletes them. Else nothing needs to be
    done, nor where the topics of a broker on ZooKeeper have not come into the log yet.""",
)  # fmt: skip
def folders(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    ids = {name: topic_id for topic_id, name in found.topic_names.items()}
    levels = newest_levels(found)
    for replica in quorum.replicas:
        if replica.label in quorum.foreign:
            continue
        stray = [
            (one, why)
            for one in replica.partition_folders
            if (why := _why_stray(found, ids, replica, one)) is not None
        ]
        if stray:
            told = some([f"{one.name} ({why})" for one, why in stray], 6)
            belongs, them = ("belongs", "it") if len(stray) == 1 else ("belong", "them")
            runs = replica.node_id is not None and found.alive(replica.node_id)
            moment = f" The broker runs, so that Kafka may just be deleting {them}." if runs else ""
            newest = levels.get(("broker", replica.node_id or 0), 0)
            waits = _is_on_zookeeper(found, replica)
            # What a start of an old Kafka deletes has to be copied before (`simulate.restart_rows`).
            deletes = not waits and not runs and newest < KEEPS_STRAYS
            then = (
                "The broker ran on ZooKeeper when it was copied: its topics come into this log when it migrates. "
                "Do not start it with process.roles before: Kafka then renames its folders to -stray."
                if waits
                else f"When this broker starts, Kafka renames {them} to -stray. Keep a copy if you still want the records."
                if newest >= KEEPS_STRAYS
                else f"When this broker starts, Kafka before 3.7 deletes {them}, and a newer one renames {them} to -stray. Copy {them} before if you still want the records."
            )
            yield BadRow(
                replica.label,
                f"{counted(len(stray), 'folder')} {belongs} to no partition of this broker: {told}."
                f"{'' if waits else moment} {then}",
                stray[0][0].path,
                severity="info" if runs or waits else None,
                evidence={
                    "folders": [
                        {
                            "folder": one.name,
                            "topic_id": one.topic_id,
                            "path": one.path,
                            "why": why,
                        }
                        for one, why in stray
                    ],
                    **({"deletes": [one.name for one, _ in stray]} if deletes else {}),
                },
            )


def _is_on_zookeeper(found: Health, replica: ReplicaEvidence) -> bool:
    """Whether a broker's topics have not come into the log yet, for all that is known."""
    value = None if replica.node_id is None else found.brokers.get(replica.node_id)
    is_before = value is None or bool(value["isMigratingZkBroker"])
    return replica.of_zookeeper and is_before and not found.topic_names


def _why_stray(
    found: Health, ids: Mapping[str, str], replica: ReplicaEvidence, one: PartitionFolder
) -> str | None:
    """Why a folder is none of this broker's partitions; None where it is one. What Kafka is
    deleting, or has set aside, is none of them, and no stray.
    """
    if one.fate is not None or one.topic_id is None:
        return None
    name = found.topic_names.get(one.topic_id)
    if name is None:
        return _gone(found, ids, one)
    if name != one.topic:
        return f"topic id {one.topic_id} is that of {name}, not of {one.topic}"
    assigned = found.assigned.get((one.topic_id, one.number))
    if assigned is None:
        return f"{name} has no partition {one.number}"
    if replica.node_id is not None and replica.node_id not in assigned:
        return f"{name}-{one.number} is assigned to {brokers_text(assigned)}"
    return None


def _gone(found: Health, ids: Mapping[str, str], one: PartitionFolder) -> str:
    now = ids.get(one.topic)
    renewed = f"; {one.topic} has the id {now} now" if now is not None else ""
    gone = found.past.topics.get(one.topic_id or "")
    if gone is None:
        return f"topic id {one.topic_id} is that of no topic in the newest state, and no record that leads there deletes it{renewed}"
    other = "" if gone[0] == one.topic else f", when it was called {gone[0]}"
    return f"topic id {one.topic_id} was deleted at {at_text(gone[1])}{other}{renewed}"
