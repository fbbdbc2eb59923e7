"""Checks of the voters against the disks and addresses that they are at, and of brokers' folders
against the topics that there are.

In: the voter set, `meta.properties` of the copies, the newest state. Source: KIP-853, #40–42, #50.
"""

from collections.abc import Iterator

from kraftlog.audit.check import BadRow, Check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.health_checks import Reason, health_check, listed, plural, row, since_text
from kraftlog.message.spec import ZERO_UUID
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.folders import PartitionFolder
from kraftlog.quorum.health import Health
from kraftlog.quorum.model import Quorum
from kraftlog.state.declare import Data


def directories(quorum: Quorum) -> Iterator[BadRow]:
    """A voter is an id and a directory: a node on a new disk is none, whatever its id."""
    named, known = _named_directories(quorum), _copies_of_voters(quorum)
    away = [
        voter
        for voter, copies in sorted(known.items())
        if copies and all(one.meta("directory.id") != named[voter] for one in copies)
    ]
    majority = len(named) // 2 + 1
    left = len(named) - len(away)
    for voter in away:
        copy = known[voter][0]
        new = copy.meta("directory.id")
        spare = max(0, left - majority)
        stands = (
            f"so {left} of {len(named)} voters are left, {majority} are needed: "
            f"{spare} more may fail"
            if left >= majority
            else f"so only {left} of {len(named)} voters are left, {majority} are needed: "
            "no leader can be elected"
        )
        yield BadRow(
            copy.label,
            f"node {voter} is a voter by its id only: the voter set names its directory "
            f"{named[voter]}, which is on no disk at hand, and its disk is {new}; it does not "
            f"vote, {stands}. If the old disk is gone for good, remove the voter "
            f"({voter}, {named[voter]}) and add ({voter}, {new}) with kafka-metadata-quorum",
            copy.meta_properties.path if copy.meta_properties else None,
            evidence={
                "voter_id": voter,
                "voter_directory_id": named[voter],
                "directory_id": new,
                "voters_left": left,
                "majority": majority,
            },
        )


def _named_directories(quorum: Quorum) -> dict[int, str]:
    """The directory of each voter by the voter set; none below kraft.version 1."""
    members = () if quorum.voter_set is None else quorum.voter_set.members
    return {voter: one for voter, one in members if one and one != ZERO_UUID}


def _copies_of_voters(quorum: Quorum) -> dict[int, list[ReplicaEvidence]]:
    """The copies of voters, by node id, whose meta.properties name a directory."""
    named = _named_directories(quorum)
    held: dict[int, list[ReplicaEvidence]] = {}
    for one in quorum.replicas:
        voter = one.node_id
        if voter in named and one.meta("directory.id") and one.label not in quorum.foreign:
            held.setdefault(voter or 0, []).append(one)
    return held


def _over_directories(quorum: Quorum) -> Coverage:
    if not _named_directories(quorum):
        return Coverage((), (), "the voter set names no directories (kraft.version 0)")
    labels = [one.label for copies in _copies_of_voters(quorum).values() for one in copies]
    return Coverage(tuple(labels), (), "no voter's meta.properties with a directory.id is at hand")


def endpoints(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    """Where the voter set says that a voter is, against where it registered itself."""
    for voter, controller in _registered_voters(found):
        known = _places(controller["endPoints"])
        for name, place in _places(voter["endpoints"]).items():
            if name in known and known[name] != place:
                yield row(
                    found,
                    f"voter {voter['voterId']} is at {place} by the voter set, but registered "
                    f"itself at {known[name]} (listener {name}): after a restart the others look "
                    "for it at the first, and may find no majority; update the voter's endpoint, "
                    "or give the node its old address back",
                    voter_id=voter["voterId"],
                    listener=name,
                    by_voter_set=place,
                    registered=known[name],
                )


def _registered_voters(found: Health) -> list[tuple[Data, Data]]:
    return [
        (voter, found.controllers[voter["voterId"]])
        for voter in found.voters
        if voter["voterId"] in found.controllers
    ]


def _none_registered(quorum: Quorum, found: Health) -> Reason:
    if _registered_voters(found):
        return None
    return "no voter of a KRaftVoters record has registered as a controller"


def _no_voters(quorum: Quorum, found: Health) -> Reason:
    return None if found.voters else "no KRaftVoters record names the voters"


def _no_folder(quorum: Quorum, found: Health) -> Reason:
    if any(one.partition_folders for one in quorum.replicas):
        return None
    return "no topic folder with a partition.metadata lies beside a log at hand"


def _places(given: list[Data]) -> dict[str, str]:
    return {one["name"]: f"{one['host']}:{one['port']}" for one in given}


def rejoined(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    for (voter, directory), (left, back) in sorted(found.past.voters_back.items()):
        yield row(
            found,
            f"voter {voter} (directory {directory}) was removed ({since_text(left)}) and is a "
            f"voter again ({since_text(back)}): if nobody added it, it joined by itself "
            "(controller.quorum.auto.join.enable), so switch that off before you remove it",
            voter_id=voter,
            directory_id=directory,
            removed_offset=left.offset,
            back_offset=back.offset,
        )


def folders(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    for replica in quorum.replicas:
        if replica.label in quorum.foreign:
            continue
        stray = [one for one in replica.partition_folders if _is_stray(found, one)]
        if stray:
            told = [f"{one.name} ({_why_stray(found, one)})" for one in stray]
            yield BadRow(
                replica.label,
                f"{plural(len(stray), 'folder')} of topics that are gone: {listed(told, 6)}; "
                "Kafka sets them aside as stray when this broker starts, so keep a copy if their "
                "records are still wanted",
                stray[0].path,
                evidence={
                    "folders": [
                        {"folder": one.name, "topic_id": one.topic_id, "path": one.path}
                        for one in stray
                    ]
                },
            )


def _is_stray(found: Health, one: PartitionFolder) -> bool:
    """A folder of a topic id that no topic has; what Kafka is deleting, or has set aside, is
    none.
    """
    return one.fate is None and one.topic_id is not None and one.topic_id not in found.topic_names


def _why_stray(found: Health, one: PartitionFolder) -> str:
    now = next((key for key, name in found.topic_names.items() if name == one.topic), None)
    renewed = f"; {one.topic} is now {now}" if now is not None else ""
    gone = found.past.topics.get(one.topic_id or "")
    if gone is None:
        return f"topic id {one.topic_id} is in no record at hand{renewed}"
    return f"topic id {one.topic_id} was deleted at offset {gone[1].offset}{renewed}"


CHECKS = (
    Check(
        "voter_directories_agree", "warning", "replica", "KIP-853, #42",
        "the disk of each voter at hand is the one that the voter set names", directories,
        _over_directories,
    ),
    health_check(
        "voter_endpoints_agree", "warning", "replica", "KIP-853, #40",
        "a voter registered itself where the voter set says it is", endpoints,
        _none_registered,
    ),
    health_check(
        "voters_removed_stay_away", "info", "replica", "#41",
        "a voter that was removed has not joined again", rejoined, _no_voters,
    ),
    health_check(
        "folders_match_topics", "warning", "state", "#30, #50, KIP-516",
        "every topic folder of a broker at hand is of a topic that exists", folders,
        _no_folder,
    ),
)  # fmt: skip
