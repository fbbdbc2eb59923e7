"""Checks of whose copies these are: meta.properties, clusters, nodes and their directories.

Source: KIP-595, KIP-853, KIP-1219, strimzi#6862, strimzi#11613.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from string import digits

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, check
from kraftlog.audit.coverage import Coverage, but_for_unread
from kraftlog.audit.triage import put_in_place, replacement, replicas_text
from kraftlog.log import names
from kraftlog.log.names import METADATA_TOPIC_ID
from kraftlog.plain import sentence, some
from kraftlog.quorum.at_hand import cluster_names
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import LOG_DIRS, METADATA_LOG_DIR


def _identities(quorum: Quorum) -> Coverage:
    return but_for_unread(
        quorum, coverage.files(quorum), names.META_PROPERTIES, names.PARTITION_METADATA
    )


@check(
    "meta_properties_valid", "warning", "replica", "KIP-595",
    "Kafka takes meta.properties and bootstrap.checkpoint, and partition.metadata names this log",
    action="identity", over=_identities,
    meaning="""The file meta.properties is missing or cannot be read. Nothing tells whose copy this
    is: it counts neither as a voter nor as a broker. On a node, Kafka refuses to start without
    it. It refuses a file as well that is of an unknown version, lacks the node's id or that of
    the cluster, or is of another node than the server.properties beside it. So it does where the
    directory.id is no UUID, or one of the first hundred, which Kafka reserves. Or
    partition.metadata names another topic than the metadata log's, and Kafka refuses to start with it; as with a
    bootstrap.checkpoint that it cannot read, or that sets no
    metadata.version: it reads that file at every start.""",
    advice="""Copy the file as well: it lies in the folder that holds __cluster_metadata-0. If it
    is missing on the node, write it with kafka-storage format and the same cluster id; where voters
    have directory ids, with --no-initial-controllers, and then put the old directory.id, which the
    finding has, in the place of the new one: else the node has no vote. But do so only if the disk
    still holds the log: without it, a voter with the old directory.id helps to elect a leader that
    lacks committed records. If Kafka does not take it, correct what the finding names before the node starts. Delete a
    partition.metadata of another topic while the node is stopped: Kafka writes it anew. Take
    bootstrap.checkpoint from another node of the cluster that has one.""",
)  # fmt: skip
def meta_valid(quorum: Quorum) -> Iterator[BadRow]:
    known = any(one.meta_properties or one.quorum_state for one in quorum.replicas)
    for replica in quorum.replicas:
        file = replica.meta_properties
        if replica.single_file or (not replica.is_seen if file is None else file.unread):
            continue
        if file is not None and file.value is not None:
            refused = replica.refused_meta
            if refused is not None:
                yield BadRow(
                    replica.label,
                    f"Kafka does not start with this meta.properties: {refused}. Correct it before the node starts.",
                    file.path,
                    evidence={"problem": refused},
                )
            elif replica.run_as is not None:
                yield BadRow(
                    replica.label,
                    f"This meta.properties is of node {replica.node_id}, and the server.properties beside it of node {replica.run_as}. "
                    "Kafka does not start with both: the disk, or one of the files, is that of another node. "
                    "Give each node its own back before it starts.",
                    file.path,
                    evidence={"problem": f"server.properties is of node {replica.run_as}"},
                )
            continue
        what = "is missing" if file is None else f"cannot be read ({file.problem})"
        yield BadRow(
            replica.label,
            f"The file meta.properties {what}. Kafka refuses to start without it, and nothing tells whose copy this is: it counts neither as a voter nor as a broker. "
            f"Copy the file as well.{_lost_disks(quorum, replica)}",
            file.path if file else None,
            # Logs that were copied without any side file say so all together.
            severity=None if known else "info",
            evidence={"problem": file.problem if file else None},
        )
    yield from _of_another_topic(quorum)
    yield from _bootstraps(quorum)


def _lost_disks(quorum: Quorum, replica: ReplicaEvidence) -> str:
    """By which directories the disks vote that may be without their meta.properties. A disk without
    its log must not vote by an old one: it has forgotten what it acknowledged (KIP-853).
    """
    named, missing = quorum.named_directories, quorum.bounds.missing_voters
    told = [f"{named[one]} of node {one}" for one in missing if one in named]
    if not told:
        return ""
    if quorum.by_label[replica.label].is_empty:
        return (
            " This copy holds no log. A voter's new disk must not get the old directory.id: it would elect a leader that lacks committed records. "
            f"Format it with a new one, then remove the old voter and add the new one: {some(told)}."
        )
    return f" If it is gone on a voter, too, write it anew with the old directory.id, or the node has no vote: {some(told)}."


def _bootstraps(quorum: Quorum) -> Iterator[BadRow]:
    """Files of which Kafka makes nothing, and that it reads at every start."""
    for replica in quorum.replicas:
        file = replica.bootstrap
        if file is not None and file.problem is not None:
            yield BadRow(
                replica.label,
                f"Kafka does not start with this bootstrap.checkpoint, which it reads at every start: {file.problem}. "
                "Take the file from another node of this cluster.",
                file.path,
                evidence={"problem": file.problem},
            )


def _of_another_topic(quorum: Quorum) -> Iterator[BadRow]:
    """Folders whose partition.metadata is that of another topic (Kafka's UnifiedLog)."""
    for replica in quorum.replicas:
        file = replica.partition_metadata
        topic_id = file.value["topic_id"] if file is not None and file.value else None
        if file is None or topic_id in (None, METADATA_TOPIC_ID):
            continue
        yield BadRow(
            replica.label,
            f"The topic id in the partition.metadata of {replica.label} is {topic_id}, but that of the metadata log is {METADATA_TOPIC_ID}: Kafka refuses to start with it. "
            "It is the file of another folder, or was edited. Delete it while the node is stopped: Kafka writes it anew.",
            file.path,
            evidence={"problem": f"it names topic id {topic_id}"},
        )


@check(
    "cluster_id_agrees", "critical", "replica", "KIP-595",
    "all meta.properties and quorum-state files name one cluster",
    action="identity", over=coverage.copies,
    meaning="""The copies name different clusters. Folders of several clusters were put together,
    or a file was edited.""",
    advice="""Audit each cluster by itself (`--each`). If they are one cluster, find the file that
    was edited before its node restarts: the node would refuse to start.""",
)  # fmt: skip
def cluster(quorum: Quorum) -> Iterator[BadRow]:
    count = quorum.cluster_ids
    if len(count) < 2:
        return
    usual, votes = count.most_common(1)[0]
    clear = votes > count.most_common(2)[1][1]
    right = next(r for r in quorum.replicas if any(n == usual for n, _ in cluster_names(r)))
    for replica in quorum.replicas:
        for name, path in cluster_names(replica):
            if name == usual:
                continue
            verdict = "the others say" if clear else f"that of {right.label} says"
            todo = "These are copies of different clusters, or the file was edited. Audit each cluster by itself."
            if clear and _is_of_the_others(quorum, replica):
                todo = f"Its log is that of the others, so that the file was edited: put {usual} back before its node starts."
            yield BadRow(
                replica.label,
                f"The {path.rsplit('/', 1)[-1]} of {replica.label} says cluster {name}, but {verdict} {usual}. {todo}",
                path,
                other_replica=right.label,
                evidence={"cluster_id": name, "cluster_ids": dict(count)},
            )


def _is_of_the_others(quorum: Quorum, replica: ReplicaEvidence) -> bool:
    """Whether a copy holds a log, and one of this quorum, whatever it is called."""
    return not quorum.by_label[replica.label].is_empty and replica.label not in quorum.foreign


@check(
    "node_identity_unique", "critical", "replica", "KIP-595, KAFKA-14616",
    "no two directories claim the same node id and directory id",
    action="identity", over=coverage.copies,
    goes_by=(*LOG_DIRS, METADATA_LOG_DIR, "copy_skew_ms"),
    meaning="""Two folders claim the same node, or the same directory id. One is an old copy or a
    clone of a disk. If both start, one voter votes twice. Where the voter set names no directories
    (kraft.version 0), the node id alone is the voter, so a node's old disk is told too. At level
    warning the voter set names a disk of a node that is behind another one of it, or two of its disks
    hold a metadata log and its server.properties names several directories. Or a folder
    names another node than the voter set does for its directory: its meta.properties was edited, or
    is that of another node.""",
    advice="""Find out which one runs, and put the other away. Correct a node.id before the node
    starts. Where directory ids of voters were exchanged, put each one's own back: a corrected
    node.id is none that Kafka starts with then.""",
)  # fmt: skip
def identity(quorum: Quorum) -> Iterator[BadRow]:
    newest = {log.label: log.newness for log in quorum.peers}
    seen: dict[int | str, list[int]] = defaultdict(list)
    for index, found in enumerate(quorum.replicas):
        if found.node_id is None:
            continue
        directory = found.directory_id
        names = (found.node_id, directory) if directory else (found.node_id,)
        near = [quorum.replicas[at] for at in sorted({at for name in names for at in seen[name]})]
        other_one = next((one for one in near if _are_twins(quorum, one, found)), None)
        for name in names:
            seen[name].append(index)
        if other_one is None:
            continue
        # Of a disk that bears two names, the one that votes is its own. Of two disks of one name, the
        # one that is behind is more likely the old one, whatever its folder is called.
        replica, twin = sorted(
            (found, other_one),
            key=lambda one: (
                found.node_id != other_one.node_id and quorum.is_voter(one) is True,
                newest.get(one.label, (-1, -1)),
            ),
        )
        node, directory, other = replica.node_id, replica.directory_id, twin.directory_id
        claim = f"both claim to be node {node}{f', directory {directory}' if directory else ''}. Only one of them can be the one that runs."
        if directory and other and directory != other:
            claim = f"are disks of node {node}, with directories {directory} and {other}. The voter set names no directories, so the node id alone votes. One is an old disk."
        is_broker = quorum.is_voter(replica) is False and quorum.is_voter(twin) is False
        twice = "one broker runs twice" if is_broker else "one voter votes twice"
        told = f"Two folders, {replica.label} and {twin.label}, {claim} If both start, {twice}: find the old copy and put it away."
        is_as_far = newest.get(replica.label) == newest.get(twin.label)
        is_either = is_as_far and twin.node_id == node
        if is_either:
            told += " Both reach as far, so that nothing here says which one that is."
        own = next((one for one in (replica, twin) if one.run_as is not None), None)
        if own is not None:
            whose = f"The server.properties in {own.label} is of node {own.run_as}, whose own log that may be: put nothing away before you know whose it is."
            told = f"Two folders, {replica.label} and {twin.label}, {claim} {whose}"
        if twin.node_id != node:
            told = (
                f"Folders {replica.label} and {twin.label} have one directory, {directory}, and name two nodes, {node} and {twin.node_id}: a disk was cloned, or a file edited. "
                f"{_todo_of_clone(quorum, replica)}"
            )
        yield BadRow(
            replica.label,
            told,
            replica.meta_properties.path if replica.meta_properties else None,
            other_replica=twin.label,
            evidence={"node_id": node, "directory_id": directory, "either": is_either},
        )
    yield from _disks_left_behind(quorum)
    yield from _disks_together(quorum)
    yield from _borrowed_names(quorum)
    yield from _swapped_folders(quorum)


def _lost_directory(quorum: Quorum, replica: ReplicaEvidence) -> str | None:
    """The directory by which the node of a copy votes, where no copy at hand has it."""
    node = replica.node_id
    if node is None or node in quorum.holders or quorum.by_label[replica.label].is_empty:
        return None
    return quorum.named_directories.get(node)


def _todo_of_clone(quorum: Quorum, replica: ReplicaEvidence) -> str:
    """What becomes of a folder whose directory is that of another node's at hand."""
    lost = _lost_directory(quorum, replica)
    if lost is None:
        return "Start only the one that is the disk's own node, and put the other away."
    return (
        f"If in {replica.label} only directory.id was edited, put directory.id={lost} back: by that one node {replica.node_id} votes. "
        "If it is a clone of that disk, put it away."
    )


def _disks_left_behind(quorum: Quorum) -> Iterator[BadRow]:
    """Disks of voters behind another disk of the same node, which has no vote: it runs with that. Where
    too many were left so, those that vote would elect a leader that lacks what the others hold.
    """
    held = quorum.voter_logs
    newer = {
        log.label: [
            one
            for one in quorum.peers
            if one.evidence.node_id == log.evidence.node_id
            and quorum.is_voter(one.evidence) is False
            and one.newness > log.newness
        ]
        for log in held
    }
    behind = {log.evidence.node_id for log in held if newer[log.label]}
    others = {*quorum.holders, *quorum.bounds.missing_voters} - {*behind, *quorum.moved_voters}
    too_few = len(others) < quorum.bounds.majority
    for log in held:
        node, directory = log.evidence.node_id, log.evidence.directory_id
        best = replacement(quorum, log) if too_few and newer[log.label] else None
        for one in newer[log.label]:
            ends = (
                f"which ends at offset {log.end_offset}, but {one.label} ends at {one.end_offset}"
            )
            todo = f"If the new disk stays, remove voter {node} with directory {directory}, and add it again."
            if too_few:
                todo = "Without the disks that vote no leader can be elected, and those may elect one that lacks what the new ones hold."
            if best is not None:
                todo += f" Before the voting disk starts, {put_in_place(log, best)}."
            yield BadRow(
                log.label,
                f"Replicas {log.label} and {one.label} are two disks of node {node}. "
                f"The voter set names that of {log.label}, {ends}: the node runs with a disk that has no vote. "
                f"Start it with one of both only. {todo}",
                log.evidence.meta_properties.path if log.evidence.meta_properties else None,
                other_replica=one.label,
                severity="warning",
                evidence={"node_id": node, "directory_id": directory},
            )


def _disks_together(quorum: Quorum) -> Iterator[BadRow]:
    """Disks of one node that both hold a metadata log, where its server.properties names several
    directories. Kafka takes such a log in metadata.log.dir alone, else in the first of log.dirs.
    Source: KafkaRaftServer.initializeLogDirs.
    """
    disks: dict[int, list[ReplicaEvidence]] = defaultdict(list)
    for one in (log.evidence for log in quorum.peers if log.evidence.directory_id):
        if one.node_id is not None and len(_log_dirs(one)) > 1:
            disks[one.node_id].append(one)
    for node, found in disks.items():
        if len({one.directory_id for one in found}) < 2:
            continue
        labels = [one.label for one in found]
        yield BadRow(
            labels[1],
            f"{sentence(replicas_text(labels))} are disks of node {node}, each with a metadata log, and its server.properties names {len(_log_dirs(found[0]))} directories. "
            "If these are among them, the node does not start: Kafka takes __cluster_metadata-0 only in metadata.log.dir, or else in the first of log.dirs. "
            "Move that folder away from the others.",
            found[1].meta_properties.path if found[1].meta_properties else None,
            other_replica=labels[0],
            severity="warning",
            evidence={"node_id": node, "directory_id": found[1].directory_id},
        )


def _log_dirs(replica: ReplicaEvidence) -> set[str]:
    """The directories of a node by its server.properties."""
    told = next((name for name in LOG_DIRS if replica.setting(name) is not None), METADATA_LOG_DIR)
    return {*replica.setting_list(told), *replica.setting_list(METADATA_LOG_DIR)}


def _borrowed_names(quorum: Quorum) -> Iterator[BadRow]:
    """Folders with the directory of one voter and the name of another node."""
    if quorum.voter_set is None:
        return
    owners = {directory: voter for voter, directory in quorum.members if directory}
    held = Counter(one.directory_id for one in quorum.replicas)
    for replica in quorum.replicas:
        node, directory = replica.node_id, replica.directory_id
        voter = owners.get(directory or "", node)
        if node is None or voter == node or held[directory] > 1 or replica.label in quorum.foreign:
            continue
        lost = _lost_directory(quorum, replica)
        todo = f"As node {voter} it refuses to start, and as node {node} it has no vote: correct node.id before it starts."
        if lost is not None:
            todo = (
                f"As node {node} it has no vote. If only directory.id was edited, put directory.id={lost} back. "
                f"If this is the disk of node {voter}, give it back to that one, and correct node.id."
            )
        if quorum.by_label[replica.label].is_empty:
            todo = f"It holds no log: as voter {voter} it would elect a leader that lacks committed records. Give it a directory.id of its own before it starts."
        yield BadRow(
            replica.label,
            f"The directory of {replica.label} is that of voter {voter}, but its meta.properties says node {node}. It is {directory}, by {quorum.voter_set.place}. "
            f"The file was edited, or is that of another node. {todo}",
            replica.meta_properties.path if replica.meta_properties else None,
            evidence={"node_id": node, "directory_id": directory, "voter_id": voter},
        )


def _are_twins(quorum: Quorum, one: ReplicaEvidence, other: ReplicaEvidence) -> bool:
    """Whether two folders claim one disk, or one vote. A voter that the set names with its
    directory may have an old disk, which does not vote (KIP-853).
    """
    mine, theirs = one.directory_id, other.directory_id
    if mine and mine == theirs:
        return True
    if one.node_id != other.node_id or not quorum.foreign.isdisjoint((one.label, other.label)):
        return False
    return not (mine and theirs) or (one.node_id, None) in quorum.members


def _swapped_folders(quorum: Quorum) -> Iterator[BadRow]:
    """Folders that are called by the number of another node. Numbers behind words (`broker-12`) say
    whose a folder is where they are those of the nodes at hand, all of them: hosts may count anew.
    """
    nodes = {str(one.node_id) for one in quorum.replicas if one.node_id is not None}
    numbers = {
        one.label: one.label.removeprefix(one.label.rstrip(digits)) for one in quorum.replicas
    }
    are_nodes = sorted(numbers.values()) == sorted(nodes)
    for replica in quorum.replicas:
        name = numbers[replica.label] if are_nodes else replica.label.rsplit("/", 1)[-1]
        if replica.node_id is None or name == str(replica.node_id) or name not in nodes:
            continue
        if replica.run_as is not None:
            continue  # not the copies: `meta_properties_valid` tells
        yield BadRow(
            replica.label,
            f"The folder {replica.label} holds the files of node {replica.node_id} by its meta.properties, and another folder holds those of node {name}. "
            "The copies were exchanged or misnamed. "
            "When you act on a finding, go by the node and not by the folder.",
            replica.meta_properties.path if replica.meta_properties else None,
            severity="warning",
            evidence={"node_id": replica.node_id, "folder": name},
        )
