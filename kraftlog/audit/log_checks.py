"""Checks of one replica's segments: whether their bytes can be read, and are whole.

Each function is a query over a `Quorum`; declared above it. Source: KIP-630 "Design",
"Snapshot Format", KAFKA-1211, copies of running nodes.
"""

from collections.abc import Iterator

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import ActionKey, BadRow, Severity, at_batch, check
from kraftlog.audit.triage import (
    and_more,
    at_same_place,
    instead_of,
    may_be_emptied,
    offsets_of,
    remedy,
    without_its_log,
)
from kraftlog.log import names
from kraftlog.log.directory import IS_FOLDER, NO_SEGMENT
from kraftlog.log.fault import RANGE_KINDS, Fault, FaultKind
from kraftlog.plain import counted, offsets_text, sentence
from kraftlog.quorum.capping import capped
from kraftlog.quorum.evidence import ReplicaEvidence, SegmentEvidence
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.shortfalls import lost_end
from kraftlog.quorum.snapshots import SnapshotView


def at_end(fault: Fault, size_bytes: int) -> bool:
    """Damage that reaches to the end of its file, with no valid batch after it."""
    reaches = fault.position + fault.size_bytes >= size_bytes
    return reaches and fault.kind in _TAIL_WORDS


def in_middle(fault: Fault, size_bytes: int) -> bool:
    """Bytes in a file that are no batch, before a valid one; or too many false headers to tell."""
    return fault.kind in RANGE_KINDS and not at_end(fault, size_bytes)


_TAIL_WORDS = {
    FaultKind.TORN_BATCH: "a torn batch",
    FaultKind.ZEROS: "zeros",
    FaultKind.GARBAGE: "garbage",
    FaultKind.BATCH_MAGIC: "a batch that Kafka does not read",
}


@check(
    "batch_crc_valid", "critical", "log", "KIP-630 Snapshot Format, KAFKA-14104",
    "the CRC-32C over attributes to end equals the header's, in segments and checkpoints",
    action="refetch", over=coverage.batches, goes_by=("copy_skew_ms",),
    meaning="""The bytes of a record batch are not those that were written: a disk, a copy or a
    person changed them. Kafka scans the whole log when it opens it, cuts it at this batch, and
    drops all later segments without a warning.""",
    advice="""Do not restart the node. The finding says which replicas hold the same offsets
    intact: if a majority of the voters does, set this node's log folder aside and let it fetch the
    log again. If no copy at hand is intact, the offsets are lost here: keep every folder and look
    for a backup.""",
)  # fmt: skip
def crc(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        columns = log.evidence.log
        for row, more in capped(np.flatnonzero(~columns.crc_valid).tolist()):
            start, end = int(columns.base_offsets[row]), int(columns.last_offsets[row]) + 1
            known, following = offsets_of(log, *columns.place(row))
            if not known <= start < end <= (following or end):
                start, end = known, following or known + 1
            advice, evidence = remedy(quorum, log.label, start, end)
            yield at_batch(
                log,
                row,
                f"The record batch of {offsets_text(start, end)} does not match its CRC-32C. "
                f"{_at_next_start(log)} {advice}{and_more(more)}",
                start,
                end,
                evidence=evidence | {"size_bytes": int(columns.sizes[row]), "more": more},
            )
    for snapshot in quorum.every_snapshot:
        batches = snapshot.evidence.batches
        for row, more in capped(np.flatnonzero(~batches.crc_valid).tolist()):
            use, asks = _use_of(quorum, snapshot)
            yield BadRow(
                snapshot.replica,
                f"A record batch of {counted(int(batches.sizes[row]), 'byte')} does not match its CRC-32C, in {snapshot.evidence.name}. "
                f"{use}{and_more(more)}",
                snapshot.path,
                int(batches.positions[row]),
                batch_leader_epoch=int(batches.epochs[row]),
                severity=_severity_in(snapshot),
                evidence={"size_bytes": int(batches.sizes[row]), "more": more, "asks": asks},
            )


@check(
    "batch_header_valid", "critical", "log", "KIP-630 Snapshot Format",
    "magic is 2, the length is inside the file, record count and last offset agree",
    action="refetch", over=coverage.batches,
    meaning="""A batch's header contradicts itself or the file: its magic is not 2, its length
    leads outside the file, or its number of records and its last offset do not fit each other. Or
    it holds no record, and Kafka takes no such batch: it stops there.
    Length, base offset and epoch are covered by no CRC, so they can be damaged while the records
    are whole. Where the CRC proves the records whole, the finding says so.""",
    advice="""Do the same as for a batch with a wrong CRC: do not restart the node, compare the
    offsets with the replicas that the finding names, and let the node fetch the log again. For a
    checkpoint, take the file of the same name from another replica. In a bootstrap.checkpoint it is
    a warning: Kafka looks at no CRC there.""",
)  # fmt: skip
def header(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        yield from _damaged_headers(quorum, log)
        columns = log.evidence.log
        deltas = (
            columns.last_offsets - columns.base_offsets
        )  # both have 64 bits, so as in the header
        for row, more in capped(np.flatnonzero(columns.crc_valid & ~log.header_sane).tolist()):
            base = int(columns.base_offsets[row])
            delta = int(deltas[row])
            count = int(columns.record_counts[row])
            size = counted(int(columns.sizes[row]), "byte")
            start, _ = offsets_of(log, *columns.place(row))
            others, evidence = at_same_place(quorum, log, row, start)
            says = f"{counted(count, 'record')} and a last offset delta of {delta:,}, in {size}"
            if base != start:
                says = f"offset {base}, {says}"
            yield at_batch(
                log,
                row,
                f"The header of the batch at offset {start} contradicts itself: it says {says}. "
                "Its CRC is right, so it was written wrong or somebody changed it. "
                f"{others}{and_more(more)}",
                start,
                evidence=evidence
                | {"record_count": count, "last_offset_delta": delta, "more": more},
            )
    for snapshot in quorum.every_snapshot:
        batches = snapshot.evidence.batches
        span = batches.last_offsets - batches.base_offsets + 1
        counts = batches.record_counts
        wrong = np.flatnonzero(batches.crc_valid & ((span != counts) | (counts < 1)))
        for row, more in capped(wrong.tolist()):
            count = int(counts[row])
            what = (
                f"The header of a batch in {snapshot.evidence.name} contradicts itself: it says {counted(count, 'record')} and has offsets for {int(span[row]):,}."
                if int(span[row]) != count
                else f"A batch in {snapshot.evidence.name} holds no record, and Kafka takes none without one."
            )
            use, asks = _use_of(quorum, snapshot)
            yield BadRow(
                snapshot.replica,
                f"{what} {use}{and_more(more)}",
                snapshot.path,
                int(batches.positions[row]),
                severity=_severity_in(snapshot),
                evidence={"record_count": count, "more": more, "asks": asks},
            )
        for fault in snapshot.evidence.faults:
            ends = at_end(fault, snapshot.evidence.size_bytes)
            if (ends and _is_damaged_end(snapshot, fault)) or in_middle(
                fault, snapshot.evidence.size_bytes
            ):
                use, asks = _use_of(quorum, snapshot)
                yield BadRow(
                    snapshot.replica,
                    f"A part of {snapshot.evidence.name} cannot be read: {fault.detail}. {use}",
                    snapshot.path,
                    fault.position,
                    severity=_severity_in(snapshot),
                    evidence=_fault_evidence(fault) | {"asks": asks},
                )


def _is_damaged_end(snapshot: SnapshotView, fault: Fault) -> bool:
    """Whether an end that is no batch is damage. That of a snapshot is its footer's matter; a
    bootstrap checkpoint may have none, and one that was never finished may end anywhere.
    """
    if snapshot.evidence.kind != names.CHECKPOINT_PART:
        return snapshot.is_leftover or snapshot.is_bootstrap
    return fault.kind == FaultKind.GARBAGE or fault.offset is not None


def _severity_in(snapshot: SnapshotView) -> Severity | None:
    """Damage is less bad in a file that no node loads, or only for an empty log."""
    return "warning" if snapshot.is_leftover or snapshot.is_bootstrap else None


def _use_of(quorum: Quorum, snapshot: SnapshotView) -> tuple[str, ActionKey]:
    """What damage means for whoever wants the file, and what it asks for."""
    if snapshot.is_leftover:
        return (
            "No node loads this file, and Kafka removes it at its next start. "
            "But what changed these bytes may have changed others: copy the file again and compare.",
            "copy",
        )
    if snapshot.is_bootstrap:
        return (
            "Kafka reads this file at every start, up to its first batch that is cut off, and looks at no CRC in it. "
            "It may give an empty log other records than it should: take the file from another node of this cluster.",
            "snapshot",
        )
    instead, asks = instead_of(quorum, snapshot)
    return f"This snapshot cannot be loaded. {instead}", asks.get("asks", "snapshot")


def _damaged_headers(quorum: Quorum, log: LogView) -> Iterator[BadRow]:
    last = len(log.evidence.segments) - 1
    for index, segment in enumerate(log.evidence.segments):
        for fault in segment.faults:
            # At the end of a file the whole batch is there only where its CRC proves it.
            ends = at_end(fault, segment.size_bytes)
            proven = ends and fault.offset is not None and index < last
            if not proven and not in_middle(fault, segment.size_bytes):
                continue
            start, end = offsets_of(log, index, fault.position)
            start = _after_damaged_batch(log, index, fault.position, start, end)
            what = f"{sentence(offsets_text(start, end))} cannot be read"
            if end is not None and end <= start:  # they hide no offset
                what, end = f"Before offset {end} lies what is no batch", None
            advice, evidence = remedy(quorum, log.label, start, end)
            yield BadRow(
                log.label,
                f"{what}: {fault.detail}. {_at_next_start(log, fault)} {advice}",
                segment.path,
                fault.position,
                start,
                end,
                evidence=evidence | _fault_evidence(fault),
            )


def _at_next_start(log: LogView, fault: Fault | None = None) -> str:
    if log.evidence.is_pulled:
        return "No node starts with this copy."
    if fault is not None and fault.kind == FaultKind.BATCH_MAGIC:
        return "Kafka's recovery looks at no magic and keeps it, and a node that reads it stops."
    return "Kafka would cut this log there at its next start."


def _after_damaged_batch(
    log: LogView, segment: int, position: int, start: int, end: int | None
) -> int:
    """A batch right before the damage, whose CRC alone is wrong, still says what it held."""
    columns = log.evidence.log
    near = (columns.file == segment) & (columns.positions + columns.sizes == position)
    for row in np.flatnonzero(near & ~columns.crc_valid)[:1].tolist():
        after = int(columns.last_offsets[row]) + 1
        if int(columns.base_offsets[row]) == start < after < (end or after + 1):
            return after
    return start


def _fault_evidence(fault: Fault) -> dict[str, object]:
    return {
        "fault": str(fault.kind),
        "size_bytes": fault.size_bytes,
        "detail": fault.detail,
        "content_hash": fault.content_hash,
    }


@check(
    "file_readable", "warning", "log", "copies of running nodes",
    "each file under its name is a readable regular file",
    action="copy", over=coverage.files,
    meaning="""A file could not be read: permission denied, an error of the disk, a folder or a
    link in its place. Nothing is known of what it holds. At level critical it is a segment, or a
    folder in the place of the only one. Or a folder of the input cannot be listed, so that nobody
    knows whether a log lies in it. Or no segment lies beside the other files of a log, where
    Kafka always has one. Of a producer snapshot Kafka takes none whose version, CRC or length is
    wrong; this log needs it for nothing. A transaction index is always empty in this log. Where
    Kafka throws at one, of a version that it does not know, that is critical; so is a folder in the place
    of an index: the node does not start. Nor does it with a folder in the place of its newest snapshot, of
    which nothing is lost when it is moved away. At level info the file vanished while the copy was read,
    which a live node does to segments and snapshots that it deletes. Or an archive, link or
    folder was not looked into, which may hold a copy.""",
    advice="""Make the copy readable or copy the file again, and audit again. Of a log without a
    segment, copy its *.log files; if the node has none, do as the finding says. If it cannot be read on the node either, check that node's disk and file owners
    first.""",
)  # fmt: skip
def readable(quorum: Quorum) -> Iterator[BadRow]:
    for replica in quorum.replicas:
        # Where no segment lies, one was left out of the copy for all that is known.
        segments = replica.segments if replica.is_seen else ()
        unread = {one.path for one in segments if one.problem not in (None, NO_SEGMENT)}
        unread -= {one.path for one in replica.passed_over}
        newest = quorum.loaded_snapshot(replica.label)
        refused = {one.path for one in replica.refused_indexes}
        stops = {newest.path} if newest and newest.evidence.problem == IS_FOLDER else set()
        for problem in (*replica.problems, *replica.unread):
            if problem.kind == "unknown":
                continue
            # A log that cannot be read is not an empty one: it may hold what nobody else has.
            severity: Severity | None = "critical" if problem.path in unread | refused else None
            is_before = problem.text == NO_SEGMENT and replica.is_before_migration
            action = (
                "A running node deletes files while they are copied: copy it again if it matters."
                if problem.vanished
                else "Make it readable or copy it again, then audit again."
            )
            if problem.kind == names.PRODUCER_SNAPSHOT:
                action = (
                    "Kafka does not take it and builds what it held anew, but look at that disk."
                )
            elif problem.path in refused | stops:
                action = "Kafka fails over it, and the node does not start: move it elsewhere while the node is stopped."
            elif problem.kind == names.PARTITION_METADATA and problem not in replica.unread:
                action = "Kafka does not start with it: delete it while the node is stopped, and Kafka writes it anew."
            elif problem.kind == names.TRANSACTION_INDEX and not problem.vanished:
                action = "Kafka empties it, but look at that disk."
            elif is_before:
                action = "It was set up as a broker on ZooKeeper, which has no such log before it migrates. If it has migrated, copy its *.log files, then audit again."
            elif problem.text == NO_SEGMENT:
                action = f"Copy its *.log files, then audit again. {_if_gone(quorum, replica)}"
            what = f"file {problem.name}" if problem.name else "log"
            yield BadRow(
                replica.label,
                f"The {what} could not be read ({problem.text}). Nothing is known of what it holds. {action}",
                problem.path,
                severity="info" if problem.vanished or is_before else severity,
                evidence={"kind": problem.kind, "problem": problem.text},
            )
    for problem in quorum.evidence.left_out:
        yield BadRow(
            None,
            f"Nobody looked into {problem.path.rsplit('/', 1)[-1]}: {problem.text}. "
            "If it holds the copy of a node, lay that below the input as a folder, and audit again.",
            problem.path,
            severity="info",
            evidence={"kind": problem.kind, "problem": problem.text},
        )


def _if_gone(quorum: Quorum, replica: ReplicaEvidence) -> str:
    """What is to be done where a log lies on the node no more either, if there ever was one."""
    has_begun = replica.quorum_state is not None
    none_yet = "A node that has not started since it was formatted has none yet. "
    log = quorum.by_label[replica.label]
    gone = f"If they are gone on the node, too, do not start it: too few other voters at hand are whole. Without a backup, {without_its_log(quorum, log)}."
    if may_be_emptied(quorum, log):
        gone = "If they are gone on the node, too, move the folder away while the node is stopped, and start it when the others have a leader: it fetches the log again."
    return gone if has_begun else none_yet + gone


@check(
    "segment_complete", "critical", "log", "KIP-630 Design",
    "a segment that is not the last ends exactly at a batch's end",
    action="refetch",
    meaning="""A segment that later segments follow does not end at a batch's end. Kafka closes a
    segment only after a whole batch, so bytes are missing or were added. At its next start
    the node would cut the log there and delete the later segments.""",
    advice="""Do not restart the node. If other replicas hold the offsets intact, set this folder
    aside and let the node fetch the log again. Otherwise copy the segment from the node once
    more.""",
)  # fmt: skip
def complete(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        for index, segment in enumerate(log.evidence.segments[:-1]):
            for fault in segment.faults:
                if not at_end(fault, segment.size_bytes) or fault.offset is not None:
                    continue
                start, end = _cut(log, index, fault)
                advice, evidence = remedy(quorum, log.label, start, end)
                yield BadRow(
                    log.label,
                    f"Segment {segment.name} does not end where a batch ends, although later segments follow it: {fault.detail}. "
                    f"Kafka would cut the log at offset {start} and delete the later segments. "
                    f"{advice}",
                    segment.path,
                    fault.position,
                    start,
                    end,
                    evidence=evidence | _fault_evidence(fault),
                )


def _cut(log: LogView, index: int, fault: Fault) -> tuple[int, int | None]:
    """Offsets [start, end) that damage at the end of a segment held. Kafka goes on from the start: one
    without a batch ends where its name says, whatever stands before it.
    """
    segment, (start, end) = log.evidence.segments[index], offsets_of(log, index, fault.position)
    is_bare = segment.first_row == segment.end_row
    return min(start, segment.base_offset) if is_bare else start, end


@check(
    "log_tail_complete", "warning", "log", "KIP-630 Design, copies of running nodes",
    "the last segment ends at a batch's end",
    action="restart", goes_by=("copy_skew_ms",),
    meaning="""The newest segment ends inside a batch, in zeros or in bytes that are no batch. This
    is usual for a copy of a running node, and after a crash or a loss of power: the node cuts the
    tail when it starts and fetches the rest again. At level critical it ends with a whole batch whose
    magic is above 2: Kafka does not cut it, and stops where it reads it.""",
    advice="""If the node was running or was killed, nothing needs to be done. If it was stopped
    cleanly, check its disk and its file system. A full disk stops a node so, and stops it at each start
    until there is room.""",
)  # fmt: skip
def tail(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        for segment in log.evidence.segments[-1:]:
            for fault in segment.faults:
                if at_end(fault, segment.size_bytes):
                    yield _tail_row(quorum, log, segment, fault)


def _tail_row(quorum: Quorum, log: LogView, segment: SegmentEvidence, fault: Fault) -> BadRow:
    start, _ = _cut(log, len(log.evidence.segments) - 1, fault)
    is_kept = fault.kind == FaultKind.BATCH_MAGIC
    if is_kept:
        advice, evidence = remedy(quorum, log.label, start, None)
        told = f"{_at_next_start(log, fault)} {advice}"
    else:
        told, evidence = _cut_words(quorum, log, segment, fault, start), {}
    return BadRow(
        log.label,
        f"Segment {segment.name} ends with {_TAIL_WORDS[fault.kind]} ({fault.detail}). {told}",
        segment.path,
        fault.position,
        start,
        severity="critical" if is_kept else None,
        evidence=evidence | _fault_evidence(fault),
    )


def _cut_words(
    quorum: Quorum, log: LogView, segment: SegmentEvidence, fault: Fault, start: int
) -> str:
    """What is to be thought of an end that a start cuts."""
    usual = "This is usual in a copy of a node that runs or was killed."
    asks = "A full disk does this, too, and the node does not start until there is room. If it was stopped cleanly, check its disk."
    if fault.offset is not None:  # a whole batch, by its CRC
        usual, asks = "No node that runs or was killed leaves that.", "Check its disk."
    if lost_end(quorum, log) is not None:
        usual = "More is lost than a copy of a running node or a crash explains: see log_end_lost."
    cuts = "The node cuts this end at its next start, and goes on"
    if segment.swap_stop is not None:
        cuts = "See segment_name_matches: the node does not start with it; the log goes on"
    return f"{usual} {cuts} from offset {start}. {asks}"
