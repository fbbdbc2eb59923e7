"""Checks of one replica's log: its offsets, the names of its segments, its epochs.

Each function is a query over a `Quorum`; declared above it. Source: KIP-630 "Design", KAFKA-1211,
copies of running nodes.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, at_batch, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.triage import MOVE_NAMED, and_more, offsets_of, remedy
from kraftlog.log import names
from kraftlog.log.fault import FaultKind
from kraftlog.plain import offsets_are, offsets_text, sentence
from kraftlog.quorum.capping import capped
from kraftlog.quorum.logview import Hole, LogView
from kraftlog.quorum.model import Quorum

_KEPT = "Kafka does not notice: a start keeps the hole, and the node's state lacks these records unless a later snapshot holds them. "


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
            expected, _ = offsets_of(log, *columns.place(row))
            does = (
                "Kafka does not notice it when it starts"
                if int(columns.last_offsets[row]) in segment.reach
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
        yield from _overlaps(quorum, log)
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


def _is_cut_before(log: LogView, hole: Hole) -> bool:
    """Whether damaged bytes stand before a hole, at which Kafka cuts the log."""
    columns = log.evidence.log
    file, position = columns.place(hole.row)
    segments = log.evidence.segments
    if any(one.faults for one in segments[:file]) or not columns.crc_valid[: hole.row].all():
        return True
    return any(fault.position < position for fault in segments[file].faults)


def _hole_words(log: LogView, hole: Hole) -> str:
    if hole.row == log.rows[0]:
        return f"the log begins with segment {log.evidence.segments[0].name}, which is empty, and its first batch is at offset {hole.end}"
    return f"the batch at offset {hole.end} follows one that ends at {hole.start - 1}"


def _unexplained(log: LogView) -> Iterator[Hole]:
    """Holes that no other check tells: nothing damaged or unread stands between the two batches."""
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
        next_over = over[bisect_right(over, columns.place(before)) :][:1]
        is_told |= any(one < columns.place(hole.row) for one in next_over)
        if not is_told and not (unread and unread.intersection(files)):
            yield hole


def _begins_empty(log: LogView) -> bool:
    """Whether no byte stands in the segments before the first usable batch."""
    first = int(log.evidence.log.file[log.rows[0]])
    before = log.evidence.segments[:first]
    return bool(before) and not any(one.size_bytes or one.problem for one in before)


def _overlaps(quorum: Quorum, log: LogView) -> Iterator[BadRow]:
    """Batches that begin at or before the end of one before them; neighbours are told together."""
    columns = log.evidence.log
    usable = np.zeros(len(columns), np.bool_)
    usable[log.rows] = True
    odd = np.flatnonzero(columns.crc_valid & log.header_sane & ~usable & ~log.misplaced)
    runs = np.split(odd, np.flatnonzero(np.diff(odd) != 1) + 1)
    for run, more in capped(one.tolist() for one in runs if len(one)):
        row = run[0]
        base, (expected, _) = int(columns.base_offsets[row]), offsets_of(log, *columns.place(row))
        which = f"The batch at offset {base} stands"
        if len(run) > 1:
            which = f"{len(run):,} batches, the first at offset {base}, stand"
        start, end = min(expected, base), max(expected, base)
        advice, evidence = remedy(quorum, log.label, start, end)
        yield at_batch(
            log,
            row,
            f"{which} where offset {expected} is due: the log goes back. "
            "Files of two copies were mixed, or a header is damaged. "
            f"Copy this replica again, as the node's own files may be right. If they are not: {advice}{and_more(more)}",
            start,
            end,
            evidence=evidence | {"base_offset": base, "expected": expected, "more": more},
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
    segment that ends in .swap its name back, and reads it. Of one with zeros among its batches it does
    not, and refuses to start.""",
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
                advice, found = _why_named_so(quorum, log, row, names.segment_name(base) in files)
                yield at_batch(
                    log,
                    row,
                    f"Segment {segment.name} begins with offset {base}, not with the {segment.base_offset} of its name. {advice}",
                    evidence={"base_offset": base, "name_offset": segment.base_offset} | found,
                )
        yield from _swapped_in(log)
        yield from _foreign_segments(log)


def _why_named_so(
    quorum: Quorum, log: LogView, row: int, is_taken: bool
) -> tuple[str, dict[str, Any]]:
    """What a segment's name says beside its first batch, and evidence; `is_taken`: another file has
    the name that the batch would ask for.
    """
    columns = log.evidence.log
    segment, base = log.evidence.segments[columns.file[row]], int(columns.base_offsets[row])
    if log.misplaced[row]:
        return "The batches after it show that the name is right and the header is damaged.", {}
    if is_taken:
        return (
            f"Kafka finds offsets by this name. Another file is named {names.segment_name(base)}: compare both with another replica's.",
            {},
        )
    reached = int(columns.last_offsets[row - 1]) + 1 if row else None
    if reached is not None and base < reached:
        return (
            "The log before it holds that offset already: see the finding of offsets_contiguous.",
            {},
        )
    if base < segment.base_offset or reached == base:
        return "Kafka finds offsets by this name: rename the file back, its indexes too.", {}
    if reached is not None:
        return (
            "The log before it does not reach this offset: what came first in the file is gone.",
            {},
        )
    advice, found = remedy(quorum, log.label, segment.base_offset, base)
    return f"What came first in the file is gone, or it was renamed. {advice}", found


def _swapped_in(log: LogView) -> Iterator[BadRow]:
    """Segments that Kafka renames when it opens the folder."""
    aside = {one.rsplit("/", 1)[-1] for one in log.evidence.set_aside}
    for segment in log.evidence.segments:
        name = names.segment_name(segment.base_offset)
        if segment.name == name or not segment.name.startswith(name):
            continue
        is_replaced, stop = name in aside, segment.swap_stop
        text = f"the {name} beside it is deleted" if is_replaced else "it was read as that here"
        before = ""
        if stop is not None:
            before = f"But before that Kafka fails over what is no batch in it, at byte {stop:,}, and does not start. "
            before += (
                f"Move it elsewhere while the node is stopped, and the {name} beside it is read. "
                if is_replaced
                else f"Name it {name} while the node is stopped, and Kafka cuts what is no batch. "
            )
        yield BadRow(
            log.label,
            f"The file {segment.name} gets the name {name} at Kafka's next start, and {text}. "
            f"{before}Kafka leaves no such file in this log: find out who renamed it, and keep a copy of the folder.",
            segment.path,
            stop or 0,
            segment.base_offset,
            severity="warning" if stop is None and not is_replaced else None,
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
            text = f"is not an offset. Kafka refuses to start with such a file: {MOVE_NAMED}"
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
            if not log.lacks_leader_change(start):
                continue
            yield at_batch(
                log,
                start.row,
                f"Epoch {start.epoch} begins at offset {start.start_offset} without a LeaderChange record. "
                "Every leader of Kafka writes one first: the record was replaced, or the epoch in the header is damaged. "
                "Compare this offset with the other replicas.",
                epoch=start.epoch,
                evidence={"first_record": log.first_control(start.row)},
            )
