"""Checks of the copies as members of one quorum: leaders, voters, identities, elections.

Source: KIP-630 "Changes to Leader Election", KAFKA-1211, KIP-1219, KIP-595, KAFKA-15489, Kafka's
LeaderState, confluentinc/kafka#302, strimzi#6862, KAFKA-16526, KAFKA-17608, strimzi#11613,
KAFKA-14616.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, Severity, at_batch, check
from kraftlog.audit.coverage import Coverage, but_for_unread
from kraftlog.audit.loss_words import known_losses, lost_words
from kraftlog.audit.triage import called, replicas_text, restore_vote
from kraftlog.log import names
from kraftlog.log.names import METADATA_TOPIC_ID
from kraftlog.log.sidefiles import refused_meta_properties
from kraftlog.plain import counted, numbers, offsets_text, sentence
from kraftlog.quorum import voters as voter_sources
from kraftlog.quorum.at_hand import cluster_names
from kraftlog.quorum.committed import candidates, committed_holder
from kraftlog.quorum.copies import untimed_from
from kraftlog.quorum.ends import noted_epoch
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.joining import busiest_hour, longest_gap, unelected
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import FETCH_TIMEOUT, LOWER, UPPER, VOTER_SET, VOTERS
from kraftlog.quorum.shortfalls import (
    WrittenAlone,
    forgotten_vote,
    is_excused,
    led_beyond,
    too_few_hold,
    unheld_from,
    whole_voters,
    written_alone,
)
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.quorum.voter_changes import LEADER_CHANGE
from kraftlog.quorum.voters import Members, VoterSet, disjoint_majorities, voters_text


@dataclass(frozen=True, slots=True)
class _Claim:
    """Somebody's word on who led an epoch."""

    epoch: int
    leader: int
    replica: str | None
    path: str | None
    position: int | None
    offset: int | None
    source: str

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        if self.replica is None:
            return self.source
        at = "" if self.offset is None else f" at offset {self.offset}"
        return f"the {self.source}{at} of replica {self.replica}"


def _claims(quorum: Quorum) -> Iterator[_Claim]:
    for log in quorum.peers:
        # Where the epochs around a batch speak against its own, that one is no claim.
        certain = log.raw_epochs == log.epochs
        for index in log.remarkable[certain[log.remarkable]].tolist():
            row = int(log.rows[index])
            for control in log.controls(row):
                if control.type == LEADER_CHANGE and control.data:
                    yield _Claim(
                        int(log.epochs[index]),
                        int(control.data["leaderId"]),
                        log.label,
                        log.path(row),
                        int(log.evidence.log.positions[row]),
                        int(log.base[index]) + control.record_index,
                        "LeaderChange record",
                    )
        state = log.evidence.state_file
        if state is not None and state.leader_id >= 0 and log.evidence.quorum_state is not None:
            path = log.evidence.quorum_state.path
            yield _Claim(
                state.leader_epoch, state.leader_id, log.label, path, None, None, "quorum-state"
            )
    told = quorum.evidence.described
    if told is not None and told.leader_epoch is not None and told.leader_id is not None:
        source = "kafka-metadata-quorum describe"
        yield _Claim(told.leader_epoch, told.leader_id, None, None, None, None, source)


@check(
    "single_leader_per_epoch", "critical", "replica", "KAFKA-15489",
    "each epoch has one leader over all logs, quorum-state files and a saved describe",
    action="stop", over=coverage.copies,
    meaning="""Two nodes are named as leader of one epoch, by LeaderChange records,
    quorum-state files or a saved describe. Two nodes may have accepted writes at once. Where one
    log holds both records, the epoch of one of their batches may be damaged instead.""",
    advice="""Keep all folders and stop before any restart. Compare the logs of both from that
    epoch on. Check that no node id was used twice and that no quorum-state was restored from a
    backup.""",
)  # fmt: skip
def single_leader(quorum: Quorum) -> Iterator[BadRow]:
    by_epoch: dict[int, list[_Claim]] = defaultdict(list)
    for claim in _claims(quorum):
        by_epoch[claim.epoch].append(claim)
    for epoch, claims in sorted(by_epoch.items()):
        count = Counter(one.leader for one in claims)
        if len(count) < 2:
            continue
        usual = count.most_common(1)[0][0]
        right = next(one for one in claims if one.leader == usual)
        for leader in sorted(set(count) - {usual}):
            # A place in a log says more than a side file.
            against = [one for one in claims if one.leader == leader]
            claim = min(against, key=lambda one: one.offset is None)
            in_one_log = claim.replica == right.replica and None not in (claim.offset, right.offset)
            advice = "Both may have accepted writes. Keep both folders, and compare their logs from there on before any node starts."
            if in_one_log:
                advice = (
                    "Kafka never writes both into one log: two nodes wrote it, or the epoch of a batch is damaged (no CRC covers it). "
                    "Keep all folders, and find out which before any node starts."
                )
            yield BadRow(
                claim.replica,
                f"Epoch {epoch} has two leaders: node {leader} by {claim.place}, and node {usual} by {right.place}. {advice}",
                claim.path,
                claim.position,
                right.offset if claim.offset is None else claim.offset,
                batch_leader_epoch=epoch,
                other_replica=None if in_one_log else right.replica,
                evidence={"leaders": {str(k): v for k, v in count.items()}},
            )


def _committed_voters(quorum: Quorum) -> Coverage:
    """The voters but those whose files were copied, or last written, before the newest committed
    records: what their nodes hold is not known.
    """
    found = coverage.committed_voters(quorum)
    why = "it was copied, or last written, before the newest committed records; copy it again"
    if untimed_from(quorum) is not None:
        why = "it was copied before the describe, or has lost what that tells of; copy it again, and describe with --replication, which tells when"
    return found.but_for(
        (one.log.label, why)
        for one in candidates(quorum)
        if one.lacks_from is not None and one.wins and is_excused(quorum, one.log, one.lacks_from)
    )


@check(
    "voter_holds_committed_data", "critical", "replica",
    "KIP-630 Changes to Leader Election, KAFKA-1211, Kafka's LeaderState",
    "no majority of voters could elect a leader that lacks committed data",
    action="stop", over=_committed_voters,
    goes_by=("copy_skew_ms", FETCH_TIMEOUT, VOTER_SET, LOWER, UPPER),
    meaning="""Enough voters would elect a leader that lacks committed records. Those would then be
    lost. At level info one voter ends before the committed bound and cannot win by itself: it
    lags, and catches up when it runs; or it has lost its log's end, which log_end_lost tells. At
    level warning too many voters end there for all of them to lag: one has lost what was committed,
    or they were copied at different times; or one voter alone holds what a leader without a
    majority would not have written; or a log holds another epoch below the high watermark of a
    describe than its leader has there.""",
    advice="""Where voters are down, start first the one that the finding names, or else one that holds
    the committed offsets, with only as many others as make a majority with it, and wait until it
    leads. Do not start only the voters that the finding lists. At level warning, compare the times of the copies,
    and copy those voters again. At level info nothing needs to be done, unless
    log_end_lost is told of the same voter.""",
)  # fmt: skip
def committed_held(quorum: Quorum) -> Iterator[BadRow]:
    bounds, too_few = quorum.bounds, too_few_hold(quorum)
    for one in candidates(quorum):
        if one.lacks_from is None:
            continue
        explained = one.wins and is_excused(quorum, one.log, one.lacks_from)
        lacks, who = offsets_text(one.lacks_from, bounds.lower), called(quorum, one.log)
        be, them = ("is", "it") if bounds.lower - one.lacks_from == 1 else ("are", "them")
        text = f"{sentence(who)} lacks {lacks}, which {be} committed: {bounds.lower_reason}."
        objects: Any = None
        severity: Severity | None = "info"
        if one.wins and not explained:
            severity = None
            holder = committed_holder(quorum, one.lacks_from)
            objects = known_losses(quorum, holder.label, one.lacks_from) if holder else None
            names = numbers(sorted(one.granting))
            voters = "Voter" if len(one.granting) == 1 else "Voters"
            told = f" {lost_words(objects)}" if objects is not None else ""
            text += f" {voters} {names} would elect it all the same, and {lacks} would be lost.{told} {_start_first(quorum, them)}"
        elif explained and untimed_from(quorum) is not None:
            text += f" No copy at hand holds all of that, and the describe does not tell when: the copies are older, or have lost {them}. Copy the voters again."
        elif explained:
            text += f" {_excused_words(quorum, one.lacks_from, them)}"
        elif quorum.witnesses(one.log):
            text += " The files beside its log tell that it once held more: see log_end_lost before you start it."
        elif led_beyond(quorum, one.log) is not None:
            text += " It led the epoch in which its log ends, and others hold more of that: see log_end_lost before you start it."
        elif one.log.label in too_few:
            severity = "warning"
            text += f" {_too_few_words(quorum, too_few, them)}"
        else:
            text += f" It lags, or has lost {them}. The voters at hand cannot elect it, and it fetches {them} from the leader when it runs."
        yield BadRow(
            one.log.label,
            text,
            offset=one.lacks_from,
            end_offset=bounds.lower,
            severity=severity,
            evidence={
                "committed_lower": bounds.lower,
                "granted_by": sorted(one.granting),
                "objects_lost": objects,
                "majority": bounds.majority,
                "missing_voters": list(bounds.missing_voters),
            },
        )

    yield from _refuted_rows(quorum)
    alone = written_alone(quorum)
    if alone is not None:
        yield _alone_row(quorum, alone)


def _start_first(quorum: Quorum, them: str) -> str:
    """In which order voters that are down start, so that none is elected without what is committed:
    fewer others than a majority elect nobody by themselves.
    """
    sound = (
        log for log in whole_voters(quorum) if not log.holes and log.evidence.log.crc_valid.all()
    )
    first = next(sound, None)
    if first is None:
        return f"First start a voter that holds {them}."
    who = called(quorum, first)
    return f"If the voters are down, start {who} first, then only as many others as make a majority with it, and the rest when it leads."


def _excused_words(quorum: Quorum, lacks_from: int, them: str) -> str:
    """What is to be done about a copy that was taken before what it lacks, or whose node lost it."""
    copied = f"It was copied, or last written, before offset {lacks_from}"
    if unheld_from(quorum) is not None:
        return f"{copied}, or has lost {them}, and no voter at hand holds {them}: copy the voters again before one that is down starts."
    whole = whole_voters(quorum)
    if quorum.pulled is not None or not whole:
        return f"{copied}: what it lacks comes from the leader."
    return f"{copied}: if it runs, it has fetched {them} since; if it is down, start {called(quorum, whole[0])} first."


def _refuted_rows(quorum: Quorum) -> Iterator[BadRow]:
    """Copies that hold something else than a describe tells, and of which nothing else tells."""
    described, told = quorum.evidence.described, {*quorum.tail_starts, *quorum.fork_starts}
    if described is None:
        return
    told |= {one.log.label for one in candidates(quorum) if one.lacks_from is not None}
    for label, at in quorum.refuted.items():
        if label in told:
            continue
        log, mark, epoch = quorum.by_label[label], described.high_watermark, described.leader_epoch
        row = int(log.rows[log.index_at(at)])
        own = int(log.evidence.log.epochs[row])
        yield BadRow(
            label,
            f"{sentence(called(quorum, log))} holds a record of epoch {own} at offset {at}. "
            f"By the describe the leader of epoch {epoch} has committed everything below offset {mark}, and its log cannot have one of epoch {own} there. "
            "The files were copied before that, or have lost it, or the describe is not theirs: it shows no record of this log to be committed. "
            "Copy all voters again, describe again, and start no node before you know.",
            log.path(row),
            int(log.evidence.log.positions[row]),
            at,
            batch_leader_epoch=own,
            severity="warning",
            evidence={"high_watermark": mark, "leader_epoch": epoch},
        )


def _alone_row(quorum: Quorum, alone: WrittenAlone) -> BadRow:
    end, who = alone.log.end_offset, called(quorum, alone.log)
    return BadRow(
        alone.log.label,
        f"Of all voters {who} alone holds {offsets_text(alone.start, end)}, written over {alone.seconds} s in one epoch. "
        "Since Kafka 3.7 a leader stops soon where no majority follows it: other voters have lost that, or were copied too early. "
        "Copy all voters again. If all are down, keep their folders, and start this one first.",
        offset=alone.start,
        end_offset=end,
        severity="warning",
        evidence={"committed_lower": quorum.bounds.lower, "seconds": alone.seconds},
    )


def _too_few_words(quorum: Quorum, lacking: frozenset[str], them: str) -> str:
    nodes = sorted({one for label in lacking if (one := quorum.node_id(label)) is not None})
    was = "was" if them == "it" else "were"
    they = "it" if them == "it" else "they"
    named = f"{'voter' if len(nodes) == 1 else 'voters'} {numbers(nodes)}"
    return (
        f"No majority can have committed {them} without one of {named}: that one has lost {them}, or its files were copied before {they} {was} written. "
        "Compare the times of the copies, copy these nodes again, and start none of them before you know."
    )


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
    is missing on the node, write it with kafka-storage format and the same cluster id. If Kafka
    does not take it, correct what the finding names before the node starts. Delete a
    partition.metadata of another topic while the node is stopped: Kafka writes it anew. Take
    bootstrap.checkpoint from another node of the cluster that has one.""",
)  # fmt: skip
def meta_valid(quorum: Quorum) -> Iterator[BadRow]:
    known = any(one.meta_properties or one.quorum_state for one in quorum.replicas)
    for replica in quorum.replicas:
        file = replica.meta_properties
        if replica.single_file or (file is not None and file.unread):
            continue
        if file is not None and file.value is not None:
            refused = refused_meta_properties(file.value)
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
            "Copy the file as well.",
            file.path if file else None,
            # Logs that were copied without any side file say so all together.
            severity=None if known else "info",
            evidence={"problem": file.problem if file else None},
        )
    yield from _of_another_topic(quorum)
    yield from _bootstraps(quorum)


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
            yield BadRow(
                replica.label,
                f"The {path.rsplit('/', 1)[-1]} of {replica.label} says cluster {name}, but {verdict} {usual}. These are copies of different clusters, or the file was edited. "
                "Audit each cluster by itself.",
                path,
                other_replica=right.label,
                evidence={"cluster_id": name, "cluster_ids": dict(count)},
            )


@check(
    "node_identity_unique", "critical", "replica", "KIP-595, KAFKA-14616",
    "no two directories claim the same node id and directory id",
    action="identity", over=coverage.copies,
    meaning="""Two folders claim the same node, or the same directory id. One is an old copy or a
    clone of a disk. If both start, one voter votes twice. Where the voter set names no directories
    (kraft.version 0), the node id alone is the voter, so a node's old disk is told too. At level
    warning the voter set names a disk of a node that is behind another one of it. Or a folder
    names another node than the voter set does for its directory: its meta.properties was edited, or
    is that of another node.""",
    advice="""Find out which one runs, and put the other away. Correct a node.id before the node
    starts.""",
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
        if twin.node_id != node:
            told = (
                f"Folders {replica.label} and {twin.label} have one directory, {directory}, and name two nodes, {node} and {twin.node_id}: a disk was cloned, or a file edited. "
                "Start only the one that is the disk's own node, and put the other away."
            )
        yield BadRow(
            replica.label,
            told,
            replica.meta_properties.path if replica.meta_properties else None,
            other_replica=twin.label,
            evidence={"node_id": node, "directory_id": directory},
        )
    yield from _disks_left_behind(quorum)
    yield from _borrowed_names(quorum)
    yield from _swapped_folders(quorum)


def _disks_left_behind(quorum: Quorum) -> Iterator[BadRow]:
    """Disks of voters behind another disk of the same node, which has no vote: it runs with that."""
    for log in (one for copies in quorum.holders.values() for one in copies):
        node, directory = log.evidence.node_id, log.evidence.directory_id
        for one in quorum.peers:
            same = one.evidence.node_id == node and quorum.is_voter(one.evidence) is False
            if not same or one.newness <= log.newness:
                continue
            ends = (
                f"which ends at offset {log.end_offset}, but {one.label} ends at {one.end_offset}"
            )
            yield BadRow(
                log.label,
                f"Replicas {log.label} and {one.label} are two disks of node {node}. "
                f"The voter set names that of {log.label}, {ends}: the node runs with a disk that has no vote. "
                f"Start it with one of both only. If the new disk stays, remove voter {node} with directory {directory}, and add it again.",
                log.evidence.meta_properties.path if log.evidence.meta_properties else None,
                other_replica=one.label,
                severity="warning",
                evidence={"node_id": node, "directory_id": directory},
            )


def _borrowed_names(quorum: Quorum) -> Iterator[BadRow]:
    """Folders with the directory of one voter and the name of another node."""
    if quorum.voter_set is None:
        return
    owners = {directory: voter for voter, directory in quorum.voter_set.members if directory}
    held = Counter(one.directory_id for one in quorum.replicas)
    for replica in quorum.replicas:
        node, directory = replica.node_id, replica.directory_id
        voter = owners.get(directory or "", node)
        if node is None or voter == node or held[directory] > 1 or replica.label in quorum.foreign:
            continue
        yield BadRow(
            replica.label,
            f"The meta.properties of {replica.label} says node {node}, but its directory {directory} is that of voter {voter} by {quorum.voter_set.place}. "
            f"The file was edited, or is that of another node. As node {voter} it refuses to start, and as node {node} it has no vote: correct node.id before it starts.",
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
    members = quorum.voter_set.members if quorum.voter_set else ()
    return not (mine and theirs) or (one.node_id, None) in members


def _swapped_folders(quorum: Quorum) -> Iterator[BadRow]:
    """Folders that are called by the number of another node."""
    nodes = {str(one.node_id) for one in quorum.replicas if one.node_id is not None}
    for replica in quorum.replicas:
        name = replica.label.rsplit("/", 1)[-1]
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


@check(
    "voter_sets_agree", "warning", "replica", "KIP-853, strimzi#6862, KAFKA-16526, KAFKA-17608",
    "voters by quorum-state, KRaftVoters records, configuration and a saved describe are the same",
    action="identity", over=coverage.copies,
    goes_by=(VOTER_SET, VOTERS),
    meaning="""Sources disagree on who the voters are: quorum-state, the KRaftVoters records (also
    those of the snapshots at offset 0, with which nodes were formatted),
    controller.quorum.voters, a describe that is not older than the copies. Voters that disagree
    count different majorities. A node without a vote counts none, but may look for the leader at
    the wrong nodes. Often a change of the voters was not finished, or a configuration was not
    rolled out everywhere; or the copies are not those of the quorum that was described. Where there
    are KRaftVoters records, nodes count by nothing else: an old quorum-state is not told, and
    controller.quorum.voters at level info, as nodes still look for a leader there.""",
    advice="""Find the unfinished change and finish it on all nodes before any of them restarts.
    Where the describe names other voters, copy those. At level info, set
    controller.quorum.bootstrap.servers instead.""",
)  # fmt: skip
def voter_sets(quorum: Quorum) -> Iterator[BadRow]:
    yield from _sets_by_file(quorum)
    yield from _sets_by_record(quorum)
    yield from _set_by_describe(quorum)
    for log in quorum.peers:
        for offset, row in voter_sources.records_without_voters(log):
            yield at_batch(
                log,
                row,
                f"The KRaftVoters record at offset {offset} does not name any voter. Kafka never writes such a record: by it nobody votes, and nobody can lead. "
                "The last set of voters that names any is taken here. Find out who wrote it before any node starts.",
                offset,
                evidence={"voters": [], "source": f"the KRaftVoters record at offset {offset}"},
            )


def _sets_by_file(quorum: Quorum) -> Iterator[BadRow]:
    """quorum-state, configuration and records against the set that counts. Where KRaftVoters records
    tell it, a node counts by nothing else (Kafka's QuorumState).
    """
    counts, replicas = quorum.voter_set, [log.evidence for log in quorum.peers]
    if counts is None:
        return
    configured = [*voter_sources.by_configuration(replicas)]
    if quorum.recorded_voters is not None:
        by_ids: dict[tuple[int, ...], list[VoterSet]] = defaultdict(list)
        for one in configured:
            by_ids[one.ids].append(one)
        yield from (_places_row(same, counts) for ids, same in by_ids.items() if ids != counts.ids)
        return
    for one in (*voter_sources.by_quorum_state(replicas), *configured):
        votes = quorum.is_voter(quorum.by_label[one.replica].evidence)
        if one.ids != counts.ids:
            yield _set_row(one, counts, votes is not False)


def _places_row(same: list[VoterSet], counts: VoterSet) -> BadRow:
    """Nodes with a static list of voters that is not the set of their records."""
    one, labels = same[0], [other.replica for other in same]
    look, start = ("It looks", "it starts") if len(labels) == 1 else ("They look", "they start")
    return BadRow(
        one.replica,
        f"The voters are {voters_text(one.ids, one.members, counts.members)} by the {VOTERS} of {replicas_text(labels)}. "
        f"But they are {voters_text(counts.ids, counts.members, one.members)} by {counts.place}, and no majority is counted by that setting any more. "
        f"{look} for a leader there when {start}: name those that vote now in controller.quorum.bootstrap.servers instead.",
        one.path,
        other_replica=counts.replica if counts.replica != one.replica else None,
        severity="info",
        evidence={
            "voters": [list(member) for member in one.members],
            "other_voters": [list(member) for member in counts.members],
            "source": one.source,
            "other_source": counts.source,
            "looking": labels,
        },
    )


def _set_row(one: VoterSet, other: VoterSet, counts_votes: bool = True) -> BadRow:
    """`counts_votes` is whether a node counts majorities by the first set."""
    apart = disjoint_majorities(one.members, other.members) if counts_votes else None
    mine, theirs = (one.members, other.members), (other.members, one.members)
    two = (
        f" A majority of the first is {voters_text(apart[0], *mine)}, and a majority of the second is {voters_text(apart[1], *theirs)}. "
        "They share no voter: each can elect a leader of its own."
        if apart
        else ""
    )
    so = f"Nodes that disagree on the voters count different majorities.{two} Find out which change was not finished before any node starts."
    if not counts_votes:
        so = "This node has no vote: no majority is counted by that."
        if one.source == VOTERS:
            so += " It looks for a leader at those nodes when it starts: name those that vote now."
    return BadRow(
        one.replica,
        f"The voters are {voters_text(one.ids, *mine)} by {one.place}. But they are {voters_text(other.ids, *theirs)} by {other.place}. {so}",
        one.path,
        offset=one.offset,
        other_replica=other.replica if other.replica != one.replica else None,
        evidence={
            "voters": [list(member) for member in one.members],
            "other_voters": [list(member) for member in other.members],
            "source": one.source,
            "other_source": other.source,
            "disjoint_majorities": [list(ids) for ids in apart or ()],
        },
    )


def _sets_by_record(quorum: Quorum) -> Iterator[BadRow]:
    """KRaftVoters records of snapshots between which no log changes the voters must be equal, and
    so must those with which the quorum was formatted. Who joined it since was formatted without.
    """
    formatted = [one for one in quorum.own_snapshots if one.is_live and not one.end_offset]
    yield from _odd_ones([_of_snapshot(one, one.voters) for one in formatted if one.voters])
    changes: dict[int, Counter[Members]] = defaultdict(Counter)
    for log in quorum.peers:
        end = quorum.confirmed_ends.get(log.label, log.end_offset or 0)
        for offset, _, _, members in voter_sources.log_voter_records(log):
            if offset < end:
                changes[offset][members] += 1
    groups: dict[int, list[tuple[int, VoterSet]]] = defaultdict(list)
    for offset, holders in changes.items():
        members = holders.most_common(1)[0][0]
        source = f"the KRaftVoters record at offset {offset}"
        label = next(log.label for log in quorum.peers if log.index_at(offset) >= 0)
        seen = (0, offset + 1)
        groups[offset] = [(offset, VoterSet(members, source, label, None, offset, seen))] * 2
    for one in quorum.own_snapshots:
        if not one.voters or not one.end_offset:
            continue
        offset = max((at for at in changes if at < one.end_offset), default=-1)
        if _unbroken(quorum, one.end_offset, groups[offset]):
            groups[offset].append((one.end_offset, _of_snapshot(one, one.voters)))
    for group in groups.values():
        yield from _odd_ones([found for _, found in group])


def _of_snapshot(one: SnapshotView, members: Members) -> VoterSet:
    source = f"the KRaftVoters record of {one.evidence.name}"
    return VoterSet(members, source, one.replica, one.path, one.end_offset, one.id)


def _unbroken(quorum: Quorum, end: int, group: list[tuple[int, VoterSet]]) -> bool:
    """Whether some log shows that nothing changed between a snapshot's end and the first of its
    group.
    """
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
        f"The voters are {voters_text(told.ids, *mine)} by {told.place}. But they are {voters_text(counts.ids, *theirs)} by {counts.place}. "
        "No record at hand tells of a change. "
        "The voters changed after the files were copied, or these are copies of another quorum: what was committed since may be missing here. "
        "Copy all voters that the describe names before any node starts.",
        other_replica=counts.replica,
        evidence={
            "voters": [list(member) for member in told.members],
            "other_voters": [list(member) for member in counts.members],
            "source": told.source,
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
            yield _set_row(one, right)


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
    part, by the log of another copy. A voter that has forgotten its vote could vote twice in one epoch. Of a node that
    does not vote because the voter set names another disk of it, a missing file is told too, as
    information.""",
    advice="""Copy the file as well, if it was only left out of the copy. Copy the node again, if
    that was done before the election. If it is missing on the
    node, let the node join anew with an empty log folder, while a majority of the other voters is
    whole. Do not write the file by hand.""",
)  # fmt: skip
def quorum_state(quorum: Quorum) -> Iterator[BadRow]:
    if not quorum.has_begun:
        return
    for replica, log in zip(quorum.replicas, quorum.logs, strict=True):
        file = replica.quorum_state
        if file.unread if file is not None else not replica.is_listed:
            continue
        if file is not None and file.value is None:
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
        elif file is None:
            problem = "is missing"
        elif replica.state_file and (log.last_epoch or 0) > replica.state_file.leader_epoch:
            problem = f"knows epoch {replica.state_file.leader_epoch}, but its log is at epoch {log.last_epoch}"
        elif replica.state_file and (noted := noted_epoch(log)) > replica.state_file.leader_epoch:
            problem = f"knows epoch {replica.state_file.leader_epoch}, but its leader-epoch-checkpoint knows epoch {noted}"
        elif replica.state_file and (vote := forgotten_vote(quorum, log)) is not None:
            elected = f"by the log of replica {vote.replica} the node had a part in the election of epoch {vote.epoch}"
            problem = f"knows epoch {replica.state_file.leader_epoch}, but {elected}: it was set back, or copied before"
        else:
            continue
        yield BadRow(
            replica.label,
            f"The quorum-state of node {replica.node_id} {problem}. "
            f"A voter that has forgotten its vote could vote twice in one epoch. {restore_vote(quorum, log)}",
            file.path if file else None,
            evidence={"problem": problem},
        )


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
