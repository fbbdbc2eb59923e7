"""A check of brokers' topic folders against the topics that there are, and their assignments.

In: the topic folders beside a log with their partition.metadata, the newest state and its history.
Source: KIP-516, KAFKA-14616, KAFKA-21022.
"""

from collections.abc import Iterator, Mapping

from kraftlog.audit.check import BadRow
from kraftlog.audit.health_checks import Reason, at_text, health_check
from kraftlog.plain import counted, some
from kraftlog.quorum.evidence import PartitionFolder, ReplicaEvidence
from kraftlog.quorum.health import Health
from kraftlog.quorum.model import Quorum


def _no_folder(quorum: Quorum, found: Health) -> Reason:
    if any(one.partition_folders for one in quorum.replicas):
        return None
    return "no topic folder with a partition.metadata lies beside a log at hand"


@health_check(
    "folders_match_topics", "warning", "state", "KIP-516, KAFKA-14616, KAFKA-21022",
    "every topic folder of a broker at hand is of a topic that exists and is assigned to it",
    action="watch", nothing=_no_folder, after="brokers_unfenced",
    meaning="""A broker's disk has folders that belong to none of its partitions: by their
    partition.metadata the topic id is that of no topic or of another topic, or the partition is
    assigned to other brokers. While the broker was away, the topic was deleted, perhaps created
    again under its name, or moved. Folders that Kafka is deleting are left out. At level info the
    broker runs: it deletes such folders within moments, and the copy was made in between.""",
    advice="""Nothing needs to be done: the broker renames these folders to -stray when it
    starts. If their records are still wanted, copy the folders first.""",
)  # fmt: skip
def folders(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    ids = {name: topic_id for topic_id, name in found.topic_names.items()}
    for replica in quorum.replicas:
        if replica.label in quorum.foreign:
            continue
        stray = [
            (one, why)
            for one in replica.partition_folders
            if (why := why_stray(found, ids, replica, one)) is not None
        ]
        if stray:
            told = some([f"{one.name} ({why})" for one, why in stray], 6)
            belongs, them = ("belongs", "it") if len(stray) == 1 else ("belong", "them")
            runs = replica.node_id is not None and found.alive(replica.node_id)
            moment = f" The broker runs, so that Kafka may just be deleting {them}." if runs else ""
            yield BadRow(
                replica.label,
                f"{counted(len(stray), 'folder')} {belongs} to no partition of this broker: {told}."
                f"{moment} When this broker starts, Kafka renames {them} to -stray. Keep a copy if you still want the records.",
                stray[0][0].path,
                severity="info" if runs else None,
                evidence={
                    "folders": [
                        {
                            "folder": one.name,
                            "topic_id": one.topic_id,
                            "path": one.path,
                            "why": why,
                        }
                        for one, why in stray
                    ]
                },
            )


def why_stray(
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
        return f"{name}-{one.number} is assigned to brokers {', '.join(map(str, assigned))}"
    return None


def _gone(found: Health, ids: Mapping[str, str], one: PartitionFolder) -> str:
    now = ids.get(one.topic)
    renewed = f"; {one.topic} has the id {now} now" if now is not None else ""
    gone = found.past.topics.get(one.topic_id or "")
    if gone is None:
        return f"topic id {one.topic_id} is in no record at hand{renewed}"
    other = "" if gone[0] == one.topic else f", when it was called {gone[0]}"
    return f"topic id {one.topic_id} was deleted at {at_text(gone[1])}{other}{renewed}"
