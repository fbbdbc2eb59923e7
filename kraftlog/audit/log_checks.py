"""Checks of one replica's segments: bytes, headers, offsets, names, epochs.

Each function is a query over a `Quorum`; declared above it. Source: KIP-630 "Design",
"Snapshot Format", KAFKA-1211, copies of running nodes.
"""

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, Severity, at_batch, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.triage import (
    and_more,
    at_same_place,
    capped,
    instead_of,
    may_be_emptied,
    offsets_of,
    remedy,
)
from kraftlog.log import names
from kraftlog.log.directory import NO_SEGMENT
from kraftlog.log.fault import RANGE_KINDS, Fault, FaultKind
from kraftlog.plain import counted, offsets_are, offsets_text, sentence
from kraftlog.quorum.copies import copied_first
from kraftlog.quorum.evidence import BatchColumns, ReplicaEvidence, SegmentEvidence
from kraftlog.quorum.logview import Hole, LogView
from kraftlog.quorum.model import Quorum
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
}


@check(
    "batch_crc_valid", "critical", "log", "KIP-630 Snapshot Format, KAFKA-14104",
    "the CRC-32C over attributes to end equals the header's, in segments and checkpoints",
    action="refetch", over=coverage.batches,
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
            known, following = offsets_of(log, *_at(columns, row))
            if not known <= start < end <= (following or end):
                start, end = known, following or known + 1
            advice, evidence = remedy(quorum, log.label, start, end)
            yield at_batch(
                log,
                row,
                f"The record batch of {offsets_text(start, end)} does not match its CRC-32C. "
                f"Kafka would cut this log there at its next start. {advice}{and_more(more)}",
                start,
                end,
                evidence=evidence | {"size_bytes": int(columns.sizes[row]), "more": more},
            )
    for snapshot in quorum.every_snapshot:
        batches = snapshot.evidence.batches
        for row, more in capped(np.flatnonzero(~batches.crc_valid).tolist()):
            yield BadRow(
                snapshot.replica,
                f"A record batch of {counted(int(batches.sizes[row]), 'byte')} does not match its CRC-32C, in {snapshot.evidence.name}. "
                f"{_use_of(quorum, snapshot)}{and_more(more)}",
                snapshot.path,
                int(batches.positions[row]),
                batch_leader_epoch=int(batches.epochs[row]),
                severity=_severity_in(snapshot),
                evidence={"size_bytes": int(batches.sizes[row]), "more": more},
            )


@check(
    "batch_header_valid", "critical", "log", "KIP-630 Snapshot Format",
    "magic is 2, the length is inside the file, record count and last offset agree",
    action="refetch", over=coverage.batches,
    meaning="""A batch's header contradicts itself or the file: its magic is not 2, its length
    leads outside the file, or its number of records and its last offset do not fit each other.
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
        for row, more in capped(np.flatnonzero(columns.crc_valid & ~log.header_sane).tolist()):
            base = int(columns.base_offsets[row])
            delta = int(columns.last_offsets[row]) - base
            count = int(columns.record_counts[row])
            size = counted(int(columns.sizes[row]), "byte")
            start, _ = offsets_of(log, *_at(columns, row))
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
        wrong = np.flatnonzero(batches.crc_valid & (span != batches.record_counts))
        for row, more in capped(wrong.tolist()):
            count = int(batches.record_counts[row])
            yield BadRow(
                snapshot.replica,
                f"The header of a batch in {snapshot.evidence.name} contradicts itself: it says {counted(count, 'record')} and has offsets for {int(span[row]):,}. "
                f"{_use_of(quorum, snapshot)}{and_more(more)}",
                snapshot.path,
                int(batches.positions[row]),
                severity=_severity_in(snapshot),
                evidence={"record_count": count, "more": more},
            )
        for fault in snapshot.evidence.faults:
            ends = at_end(fault, snapshot.evidence.size_bytes)
            if (ends and _is_damaged_end(snapshot, fault)) or in_middle(
                fault, snapshot.evidence.size_bytes
            ):
                yield BadRow(
                    snapshot.replica,
                    f"A part of {snapshot.evidence.name} cannot be read: {fault.detail}. "
                    f"{_use_of(quorum, snapshot)}",
                    snapshot.path,
                    fault.position,
                    severity=_severity_in(snapshot),
                    evidence=_fault_evidence(fault),
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


def _use_of(quorum: Quorum, snapshot: SnapshotView) -> str:
    """What damage means for whoever wants the file."""
    if snapshot.is_leftover:
        return (
            "No node loads this file, and Kafka removes it at its next start. "
            "But what changed these bytes may have changed others: copy the file again and compare."
        )
    if snapshot.is_bootstrap:
        return (
            "Kafka reads this file at every start, up to its first batch that is cut off, and looks at no CRC in it. "
            "It may give an empty log other records than it should: take the file from another node of this cluster."
        )
    return f"This snapshot cannot be loaded. {instead_of(quorum, snapshot)}"


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
            advice, evidence = remedy(quorum, log.label, start, end)
            yield BadRow(
                log.label,
                f"{sentence(offsets_text(start, end))} cannot be read: {fault.detail}. "
                f"Kafka would cut this log there at its next start. {advice}",
                segment.path,
                fault.position,
                start,
                end,
                evidence=evidence | _fault_evidence(fault),
            )


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
    link in its place. Nothing is known of what it holds. At level critical it is a segment. Or no
    segment lies beside the other files of a log, where Kafka always has one. Of a producer snapshot
    Kafka takes none whose version, CRC or length is wrong; this log needs it for nothing. At level
    info the file vanished while the copy was read, which a live node does to segments and snapshots
    that it deletes.""",
    advice="""Make the copy readable or copy the file again, and audit again. Of a log without a
    segment, copy its *.log files; if the node has none, do as the finding says. If it cannot be read on the node either, check that node's disk and file owners
    first.""",
)  # fmt: skip
def readable(quorum: Quorum) -> Iterator[BadRow]:
    for replica in quorum.replicas:
        # Where no segment lies, one was left out of the copy for all that is known.
        unread = {one.path for one in replica.segments if one.problem not in (None, NO_SEGMENT)}
        for problem in (*replica.problems, *replica.unread):
            if problem.kind == "unknown":
                continue
            # A log that cannot be read is not an empty one: it may hold what nobody else has.
            severity: Severity | None = "critical" if problem.path in unread else None
            action = (
                "A running node deletes files while they are copied: copy it again if it matters."
                if problem.vanished
                else "Make it readable or copy it again, then audit again."
            )
            if problem.kind == names.PRODUCER_SNAPSHOT:
                action = (
                    "Kafka does not take it and builds what it held anew, but look at that disk."
                )
            elif problem.text == NO_SEGMENT:
                action = f"Copy its *.log files, then audit again. {_if_gone(quorum, replica)}"
            yield BadRow(
                replica.label,
                f"The file {problem.words}. Nothing is known of what it holds. {action}",
                problem.path,
                severity="info" if problem.vanished else severity,
                evidence={"kind": problem.kind, "problem": problem.text},
            )


def _if_gone(quorum: Quorum, replica: ReplicaEvidence) -> str:
    """What is to be done where a log lies on the node no more either."""
    if may_be_emptied(quorum, quorum.by_label[replica.label]):
        return "If they are gone on the node, too, move the folder away while it is stopped and let it fetch the log again."
    return "If they are gone on the node, too, do not start it: too few other voters at hand are whole. Without a backup, kraftlog recover builds a quorum from what remains."


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
    tail when it starts and fetches the rest again.""",
    advice="""If the node was running or was killed, nothing needs to be done. If it was stopped
    cleanly, check its disk and its file system.""",
)  # fmt: skip
def tail(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        for segment in log.evidence.segments[-1:]:
            for fault in segment.faults:
                if at_end(fault, segment.size_bytes):
                    yield _tail_row(quorum, log, segment, fault)


def _tail_row(quorum: Quorum, log: LogView, segment: SegmentEvidence, fault: Fault) -> BadRow:
    start, _ = _cut(log, len(log.evidence.segments) - 1, fault)
    found = quorum.witnesses(log)
    usual = (
        "More is lost than a copy of a running node or a crash explains: see log_end_lost."
        if found and not copied_first(quorum, log, found[0].end_offset)
        else "This is usual in a copy of a node that runs or was killed."
    )
    return BadRow(
        log.label,
        f"Segment {segment.name} ends with {_TAIL_WORDS[fault.kind]} ({fault.detail}). "
        f"{usual} The node cuts this end at its next start, and goes on from offset {start}. "
        "If it was stopped cleanly, check its disk.",
        segment.path,
        fault.position,
        start,
        evidence=_fault_evidence(fault),
    )


def _but_for_large_batches(quorum: Quorum) -> Coverage:
    """Logs. Of a batch over the limit the offsets are not read, and so no hole beside it is seen."""
    return coverage.logs(quorum).but_for(
        (log.label, f"batches over batch_limit_bytes ({len(over):,}) were not read: raise it")
        for log in quorum.logs
        if (over := _over_limit(log))
    )


@check(
    "offsets_contiguous", "critical", "log", "KIP-630 Design",
    "each batch begins at the offset after the one before it, across segments too",
    action="refetch", over=_but_for_large_batches,
    meaning="""Offsets are missing, or batches go back behind others: a segment was deleted or
    not copied, files of two copies were mixed, or a base offset in a header is damaged. Or a segment
    without a batch has a name within the log: if it is the last, Kafka ends the log there. What a
    replica's state was after a hole is not known, so state checks are skipped from there
    on.""",
    advice="""Copy the replica again and audit again. If the hole stays, do not restart the node:
    Kafka does not notice holes. Set its log folder aside and let it fetch the log from a quorum that
    holds the offsets. The finding names the replicas that hold them.""",
)  # fmt: skip
def contiguous(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        columns = log.evidence.log
        for row, more in capped(np.flatnonzero(log.misplaced).tolist()):
            base, segment = int(columns.base_offsets[row]), log.evidence.segments[columns.file[row]]
            expected, _ = offsets_of(log, *_at(columns, row))
            does = (
                "Kafka does not notice it when it starts"
                if segment.reaches(int(columns.last_offsets[row]))
                else "Kafka refuses to start over it"
            )
            why = (
                "The batches around it fit each other, so its base offset is damaged (no CRC covers it)."
                if row < len(columns) - 1
                else "Its base offset is damaged (no CRC covers it), or batches before it are gone."
            )
            span = int(columns.last_offsets[row]) - base + 1
            advice, found = remedy(quorum, log.label, expected, expected + span)
            yield at_batch(
                log,
                row,
                f"A batch says that it begins at offset {base}, where {expected} is due. "
                f"{why} {does}. {advice}{and_more(more)}",
                expected,
                evidence=found | {"base_offset": base, "expected": expected, "more": more},
            )
        yield from _gaps(quorum, log)
        yield from _overlaps(log)
        yield from _inside(quorum, log)


def _gaps(quorum: Quorum, log: LogView) -> Iterator[BadRow]:
    for hole, more in capped(_unexplained(log)):
        advice, evidence = remedy(quorum, log.label, hole.start, hole.end)
        yield at_batch(
            log,
            hole.row,
            f"{sentence(offsets_are(hole.start, hole.end))} missing: {_hole_words(log, hole)}. "
            f"{'' if _is_cut_before(log, hole) else _KEPT}{advice}{and_more(more)}",
            hole.start,
            hole.end,
            evidence=evidence | {"expected": hole.start, "base_offset": hole.end, "more": more},
        )


def _over_limit(log: LogView) -> list[tuple[int, int]]:
    """The places of the batches that were not read because of their size, in order."""
    return [
        (index, fault.position)
        for index, segment in enumerate(log.evidence.segments)
        for fault in segment.faults
        if fault.kind == FaultKind.BATCH_TOO_LARGE
    ]


def _at(columns: BatchColumns, row: int) -> tuple[int, int]:
    return int(columns.file[row]), int(columns.positions[row])


_KEPT = "Kafka does not notice: a start keeps the hole, and the node's state lacks these records unless a later snapshot holds them. "


def _is_cut_before(log: LogView, hole: Hole) -> bool:
    """Whether damaged bytes stand before a hole, at which Kafka cuts the log."""
    columns = log.evidence.log
    file, position = _at(columns, hole.row)
    segments = log.evidence.segments
    if any(one.faults for one in segments[:file]) or not columns.crc_valid[: hole.row].all():
        return True
    return any(fault.position < position for fault in segments[file].faults)


def _hole_words(log: LogView, hole: Hole) -> str:
    if hole.row == log.rows[0]:
        return f"the log begins with segment {log.evidence.segments[0].name}, which is empty, and its first batch is at offset {hole.end}"
    return f"the batch at offset {hole.end} follows one that ends at {hole.start - 1}"


def _unexplained(log: LogView) -> Iterator[Hole]:
    """Holes that no other check tells: nothing that is damaged or unread stands between the two
    batches.
    """
    columns = log.evidence.log
    unread = {i for i, one in enumerate(log.evidence.segments) if one.problem is not None}
    over = _over_limit(log)
    if log.missing_start is not None and _begins_empty(log):
        yield log.missing_start
    bad = np.flatnonzero(~columns.crc_valid | ~log.header_sane | log.misplaced)
    for hole in log.holes:
        before = int(log.rows[int(np.searchsorted(log.rows, hole.row)) - 1])
        files = range(int(columns.file[before]), int(columns.file[hole.row]) + 1)
        following = int(np.searchsorted(bad, before, "right"))
        is_told = following < len(bad) and int(bad[following]) < hole.row
        next_over = over[bisect_right(over, _at(columns, before)) :][:1]
        is_told |= any(one < _at(columns, hole.row) for one in next_over)
        if not is_told and not (unread and unread.intersection(files)):
            yield hole


def _begins_empty(log: LogView) -> bool:
    """Whether no byte stands in the segments before the first usable batch."""
    first = int(log.evidence.log.file[log.rows[0]])
    before = log.evidence.segments[:first]
    return bool(before) and not any(one.size_bytes or one.problem for one in before)


def _overlaps(log: LogView) -> Iterator[BadRow]:
    """Batches that begin at or before the end of one before them; those that stand one after the
    other are told together.
    """
    columns = log.evidence.log
    usable = np.zeros(len(columns), np.bool_)
    usable[log.rows] = True
    odd = np.flatnonzero(columns.crc_valid & log.header_sane & ~usable & ~log.misplaced)
    runs = np.split(odd, np.flatnonzero(np.diff(odd) != 1) + 1)
    for run, more in capped(one.tolist() for one in runs if len(one)):
        row = run[0]
        base, (expected, _) = int(columns.base_offsets[row]), offsets_of(log, *_at(columns, row))
        which = f"The batch at offset {base} stands"
        if len(run) > 1:
            which = f"{len(run):,} batches, the first at offset {base}, stand"
        yield at_batch(
            log,
            row,
            f"{which} where offset {expected} is due: the log goes back. "
            "Files of two copies were mixed, or a header is damaged. "
            f"Copy this replica again.{and_more(more)}",
            min(expected, base),
            max(expected, base),
            evidence={"base_offset": base, "expected": expected, "more": more},
        )


def _inside(quorum: Quorum, log: LogView) -> Iterator[BadRow]:
    """Segments without a batch whose names lie within what the segments before them hold: Kafka begins
    a segment where the log ends. It ends a log where its last segment does, and reads offsets in the
    segment whose name is the nearest. Source: LogLoader.recoverLog, LocalLog.read.
    """
    columns, segments = log.evidence.log, log.evidence.segments
    before = np.searchsorted(columns.file[log.rows], np.arange(len(segments)))
    ends = [int(log.last[count - 1]) + 1 if count else 0 for count in before.tolist()]
    bare = (
        (index, one, end)
        for index, (one, end) in enumerate(zip(segments, ends, strict=True))
        if one.base_offset < end and one.first_row == one.end_row and one.problem is None
    )
    for (index, one, end), more in capped(bare):
        base, is_last = one.base_offset, index == len(segments) - 1
        until = end if is_last else segments[index + 1].base_offset
        does = (
            f"this log ends at offset {base} after the next start"
            if is_last
            else f"Kafka finds no record at {offsets_text(base, until)}, and reads on behind them"
        )
        advice, evidence = remedy(quorum, log.label, base, until)
        yield BadRow(
            log.label,
            f"Segment {one.name} holds no batch, and the log goes on to offset {end} before it: {does}. "
            "Kafka begins a segment only where the log ends: something else made the file, or files of two copies were mixed. "
            f"Copy this replica again. If the node has the file too, move it away while the node is stopped. {advice}{and_more(more)}",
            one.path,
            0,
            base,
            until,
            evidence=evidence | {"base_offset": base, "expected": end, "more": more},
        )


@check(
    "segment_name_matches", "critical", "log", "KIP-630 Design",
    "a segment's name is the base offset of its first batch",
    action="identity",
    meaning="""A segment's name is not the offset that it begins with, or a file has the ending of
    a segment's file (.log, .index, .snapshot and others) and no offset for a name. Kafka looks
    offsets up by file name, and refuses to start over a file with such an ending where no number
    goes before the first dot. At level info it does not look at the file. At level warning it gives a
    segment that ends in .swap its name back, and reads it.""",
    advice="""While the node is stopped, give a renamed segment its name back, and its index files
    too. Move foreign files elsewhere. If the finding says that the header is damaged, leave the
    name and see offsets_contiguous.""",
)  # fmt: skip
def named(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        columns = log.evidence.log
        files = {one.name for one in log.evidence.segments}
        for segment in log.evidence.segments:
            row = segment.first_row
            if log.evidence.single_file and not segment.name.endswith(".log"):
                continue
            if row == segment.end_row or columns.positions[row] != 0 or not columns.crc_valid[row]:
                continue
            base = int(columns.base_offsets[row])
            if base != segment.base_offset:
                advice = (
                    "The batches after it show that the name is right and the header is damaged."
                    if log.misplaced[row]
                    else f"Kafka finds offsets by this name. Another file is named {names.segment_name(base)}: compare both with another replica's."
                    if names.segment_name(base) in files
                    else "Kafka finds offsets by this name: rename the file back, its indexes too."
                )
                yield at_batch(
                    log,
                    row,
                    f"Segment {segment.name} begins with offset {base}, not with the {segment.base_offset} of its name. {advice}",
                    evidence={"base_offset": base, "name_offset": segment.base_offset},
                )
        yield from _swapped_in(log)
        yield from _foreign_segments(log)


def _swapped_in(log: LogView) -> Iterator[BadRow]:
    """Segments that Kafka renames when it opens the folder."""
    aside = {one.rsplit("/", 1)[-1] for one in log.evidence.set_aside}
    for segment in log.evidence.segments:
        name = names.segment_name(segment.base_offset)
        if segment.name == name or not segment.name.startswith(name):
            continue
        is_replaced = name in aside
        text = f"the {name} beside it is deleted" if is_replaced else "it was read as that here"
        yield BadRow(
            log.label,
            f"The file {segment.name} gets the name {name} at Kafka's next start, and {text}. "
            "Kafka leaves no such file in this log: find out who renamed it, and keep a copy of the folder.",
            segment.path,
            0,
            segment.base_offset,
            severity=None if is_replaced else "warning",
        )


def _foreign_segments(log: LogView) -> Iterator[BadRow]:
    """Kafka goes by the number before the first dot, and opens the segment that has it for a name."""
    segments = {one.base_offset for one in log.evidence.segments}
    for path in log.evidence.foreign_names:
        name = path.rsplit("/", 1)[-1]
        if not name.endswith(names.SEGMENT_ENDINGS):
            continue
        offset = names.offset_before_dot(name)
        is_unread = offset in segments
        if offset is None:
            text = "is not an offset. Kafka refuses to start with such a file: move it elsewhere."
        elif is_unread:
            text = "is more than an offset. Kafka does not look at it: nothing needs to be done."
        else:
            text = (
                f"is not an offset as Kafka writes it. At its next start Kafka would begin an empty segment at offset {offset}. "
                "Move the file elsewhere before."
            )
        yield BadRow(
            log.label,
            f"The file {name} ends in .{name.rpartition('.')[2]}, but its name {text}",
            path,
            severity="info" if is_unread else None,
        )


@check(
    "epochs_monotonic", "critical", "log", "KAFKA-1211",
    "the leader epoch of batches never decreases",
    action="refetch",
    meaning="""The leader epoch in the batches goes back. A leader only appends with its own, newer
    epoch. So either the epoch in a header is damaged (no CRC covers it) or batches were put
    together from two histories.""",
    advice="""Compare both batches with the other replicas at the same offset. Let the replica
    that stands alone fetch its log again.""",
)  # fmt: skip
def epochs(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        back = np.flatnonzero(log.raw_epochs[1:] < log.raw_epochs[:-1]) + 1
        for index, more in capped(back.tolist()):
            was, now = int(log.raw_epochs[index - 1]), int(log.raw_epochs[index])
            yield at_batch(
                log,
                int(log.rows[index]),
                f"The leader epoch goes back from {was} to {now} at offset {int(log.base[index])}. "
                f"One of the two batches has a damaged header (no CRC covers the epoch), or does not belong here. Compare both with the other replicas.{and_more(more)}",
                evidence={"previous_epoch": was, "more": more},
            )


@check(
    "leader_change_starts_epoch", "critical", "log", "KAFKA-1211",
    "the first batch of each epoch that begins inside the log is a LeaderChange",
    action="origin",
    meaning="""The first batch of an epoch is not a LeaderChange record, although every leader of
    Kafka writes one before anything else. The record was replaced, or the epoch in the header is
    wrong.""",
    advice="""Compare the offset with the other replicas. If they all hold the same, something
    other than Kafka wrote to the log: keep all folders and look into it before any restart.""",
)  # fmt: skip
def leader_change(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        for start in log.epoch_starts[1:]:
            content = log.content(start.row)
            first = content.controls[0].type if content and content.controls else None
            damaged = content is not None and content.issue_count > 0
            if not start.certain or first == "LEADER_CHANGE" or damaged:
                continue
            yield at_batch(
                log,
                start.row,
                f"Epoch {start.epoch} begins at offset {start.start_offset} without a LeaderChange record. "
                "Every leader of Kafka writes one first: the record was replaced, or the epoch in the header is damaged. "
                "Compare this offset with the other replicas.",
                epoch=start.epoch,
                evidence={"first_record": first},
            )
