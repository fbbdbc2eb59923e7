"""Checks of the small files that Kafka keeps beside its segments: epochs, indexes, the quorum's
epoch.

Source: KAFKA-1211, KIP-595, KAFKA-18723, confluentinc/kafka#302.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, at_batch, check
from kraftlog.audit.triage import WRITTEN_ANEW, and_more, restore_vote
from kraftlog.log import names
from kraftlog.plain import counted
from kraftlog.quorum.capping import capped
from kraftlog.quorum.ends import last_cut, reached_by
from kraftlog.quorum.epochs import claimed_of, offset_for_leader_epoch, vector_of
from kraftlog.quorum.evidence import IndexEvidence, Longs, SegmentEvidence
from kraftlog.quorum.logview import EpochStart, LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.shortfalls import is_only_voter
from kraftlog.quorum.snapshots import SnapshotView


@check(
    "epoch_checkpoint_agrees", "warning", "log", "KAFKA-1211",
    "leader-epoch-checkpoint agrees with the epochs of the batches",
    action="rebuild", over=coverage.epoch_checkpoints, after="log_end_lost",
    meaning="""The file leader-epoch-checkpoint does not say what the batches say: an entry is
    wrong, missing or extra. A leader answers from it where an epoch ends, so followers could be
    told to cut at a wrong offset. Where it names an epoch above those of its log, and inside of it,
    Kafka takes that for the log's last epoch: the node could be elected without what is committed,
    or would keep what it has to cut. Do not restart it before the file is deleted. Kafka does not
    start with a file that it cannot read. It is normal that it begins at the oldest snapshot's end,
    or inside that snapshot's epoch, and that its last entry names an epoch without a batch, where the
    log ends. None of these is told.""",
    advice="""Stop the node, delete the file, start it: Kafka writes the file anew from the
    batches. Of a node that was running, copy folder and file once more before you decide. A
    missing file needs nothing.""",
)  # fmt: skip
def epoch_checkpoint(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        file = log.evidence.epoch_checkpoint
        if log.is_empty or (file is not None and file.unread):
            continue
        if file is None:
            if log.evidence.quorum_state is not None:
                yield BadRow(
                    log.label,
                    "The file leader-epoch-checkpoint is missing, so the copy is not whole. "
                    "Nothing needs to be done: Kafka writes it anew at its next start.",
                    severity="info",
                )
            continue
        if file.value is None:
            yield BadRow(
                log.label,
                f"The file leader-epoch-checkpoint cannot be read ({file.problem}). Kafka does not start with it. {WRITTEN_ANEW}",
                file.path,
                evidence={"problem": file.problem},
            )
            continue
        missing = _missing_entries(quorum, log, file.value, file.modified_ms)
        told = chain(_entry_problems(quorum, log, file.value), missing)
        for (entry, word, text), more in capped(told):
            yield BadRow(
                log.label,
                f"The file leader-epoch-checkpoint {text}. "
                f"{_CONSEQUENCES.get(word, _CUT)} {WRITTEN_ANEW}{and_more(more)}",
                file.path,
                offset=entry[1],
                batch_leader_epoch=entry[0],
                evidence={
                    "entry": list(entry),
                    "what": word,
                    "entries": len(file.value),
                    "more": more,
                },
            )


Entry = tuple[int, int]
Told = tuple[Entry, str, str]

_CUT = "Followers could be told to cut their logs at the wrong offset."
_CONSEQUENCES = {
    "claimed": "Kafka takes it for the last epoch of the log: the node would keep records that it has to cut, and a voter could be elected without what is committed.",
    "late": "Kafka adds it at the next start. Until then, followers could be told to cut their logs at the wrong offset.",
}
"""What follows of some problems, instead of a cut at once."""


def _known_starts(log: LogView) -> list[EpochStart]:
    """The epochs of a log's batches. Of one that begins without its leader a header is damaged, there
    or before, as `leader_change_starts_epoch` tells: where it and the one before it begin is not certain.
    """
    starts = list(log.epoch_starts)
    for at in range(1, len(starts)):
        if log.lacks_leader_change(log.epoch_starts[at]):
            starts[at - 1 : at + 1] = [
                replace(one, certain=False) for one in starts[at - 1 : at + 1]
            ]
    return starts


def _entry_problems(quorum: Quorum, log: LogView, entries: list[Entry]) -> Iterator[Told]:
    vector, snapshots = (
        {one.epoch: one for one in _known_starts(log)},
        quorum.snapshots_of(log.label),
    )
    last, claims = log.last_epoch or 0, claimed_of(log).entries
    claimed = {epoch for epoch, _ in claims if epoch > last}
    start, end = log.start_offset or 0, log.end_offset or 0
    previous: Entry | None = None
    for index, (epoch, offset) in enumerate(entries):
        entry = (epoch, offset)
        goes_back = previous is not None and (epoch <= previous[0] or offset < previous[1])
        follows = f"entry {epoch} {offset} follows {previous[0]} {previous[1]}" if previous else ""
        is_inside = start <= offset < end and not _in_hole(log, offset)
        if epoch in claimed or (epoch not in vector and is_inside):
            text = f"epoch {epoch} from offset {offset} on has no batch in the log, which ends at {end}"
            back = f", and {follows}" if goes_back else ""
            word = "claimed" if epoch in claimed else "extra"
            yield entry, word, f"has an extra entry: {text}{back}"
            continue  # the next entry follows the one before it
        if goes_back:
            yield entry, "order", f"has entries in the wrong order: {follows}"
        elif epoch in vector and not _fits(log, vector[epoch], offset, index == 0, snapshots):
            begins = vector[epoch].start_offset
            text = f"epoch {epoch} is said to begin at {offset}, its batches begin at {begins}"
            yield entry, "wrong", f"has a wrong entry: {text}"
        elif (begun := _begun(quorum, log, epoch)) and _is_other(offset, begun[0], index == 0):
            begins, label = begun
            text = f"epoch {epoch} is said to begin at {offset}, its batches begin at {begins} in the log of {label}"
            yield entry, "wrong", f"has a wrong entry: {text}"
        previous = entry


def _begun(quorum: Quorum, log: LogView, epoch: int) -> tuple[int, str] | None:
    """Where an epoch begins below this log, by the first replica of its history that tells it."""
    start = log.start_offset or 0
    told = [
        (at, begins, label)
        for begins, held in quorum.epochs_begin.get(epoch, {}).items()
        if begins < start
        for at, label in islice(
            (one for one in held if quorum.surely_agree(log, quorum.by_label[one[1]]) > start), 1
        )
    ]
    return min(told)[1:] if told else None


def _is_other(offset: int, start_offset: int, first: bool) -> bool:
    """Whether an entry is not that of an epoch's start; the first alone may be cut to a later one."""
    return offset < start_offset or (offset > start_offset and not first)


def _fits(
    log: LogView, known: EpochStart, offset: int, first: bool, snapshots: list[SnapshotView]
) -> bool:
    """Kafka cuts the file where the oldest retained snapshot ends, and the log itself may begin
    inside an epoch. Where snapshots were being deleted during the copy, the one that the file was
    cut at may be gone, or have come after the others were copied; so it is where a log that begins
    behind a snapshot has none left, which `log_start_covered` tells. Nor is anybody answered by a first
    entry whose epoch the oldest snapshot is of: who asks for an older one is sent a snapshot. Of a
    first entry behind the log's end `log_end_lost` tells. Source: ReplicatedLog.validateOffsetAndEpoch.
    """
    if offset == known.start_offset or not known.certain:
        return True
    if first and offset > (log.end_offset or 0):
        return True
    if known.start_offset == log.start_offset and offset < known.start_offset:
        return True
    told = offset_for_leader_epoch(vector_of(log), known.epoch)
    if not first or told is None or not told.end_offset >= offset > known.start_offset:
        return False
    kept = (one.epoch for one in snapshots if one.end_offset >= (log.start_offset or 0))
    return min(kept, default=-1) >= known.epoch or _may_be_cut_at(log, offset, snapshots)


def _may_be_cut_at(log: LogView, offset: int, snapshots: list[SnapshotView]) -> bool:
    deleting = any(one.kind == names.CHECKPOINT_DELETED for one in log.evidence.snapshots)
    ends = {one.end_offset for one in snapshots}
    are_gone = bool(log.start_offset) and not any(ends)
    return deleting or are_gone or offset in ends


def _in_hole(log: LogView, offset: int) -> bool:
    first = log.missing_start
    holes = log.holes if first is None else (first, *log.holes)
    return any(hole.start <= offset <= hole.end for hole in holes)


def _missing_entries(
    quorum: Quorum, log: LogView, entries: list[Entry], modified_ms: int
) -> Iterator[Told]:
    """Entries before the first one are only missing where Kafka cannot have cut them. A crash may
    leave the file as it was before its last cut, when an older snapshot was there.
    """
    listed = {epoch for epoch, _ in entries}
    first, snapshots = (entries[0][1] if entries else 0), quorum.snapshots_of(log.label)
    oldest = min((one.end_offset for one in snapshots), default=0)
    is_cut = (
        first <= oldest or first > (log.end_offset or 0) or _may_be_cut_at(log, first, snapshots)
    )
    stamps = log.evidence.log.base_timestamps
    for one in (starts := _known_starts(log)):
        cut = is_cut and one.start_offset < first
        # The file of a live copy may have been copied before the election.
        may_be = not entries or one is starts[-1]
        later = may_be and modified_ms < int(stamps[one.row])
        if one.epoch in listed or cut or later or not one.certain:
            continue
        entry = (one.epoch, one.start_offset)
        text = f"lacks an entry: epoch {one.epoch} begins at {one.start_offset}"
        yield entry, "late" if one.epoch > max(listed, default=0) else "missing", text


@check(
    "index_agrees", "warning", "log", "KIP-595",
    "each entry of an index points at the batch that it names",
    action="rebuild", over=coverage.indexes,
    meaning="""An entry of .index or .timeindex points at no batch's start, or at one of another
    offset or time. Or an index has no segment beside it. Zeros at the end of an index are space
    that Kafka allocates ahead, and are no finding.""",
    advice="""Stop the node, delete the index, start it: Kafka builds it anew. Of an index without
    a segment, whose offsets are missing, log_end_lost and offsets_contiguous tell.""",
)  # fmt: skip
def indexes(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        segments = {one.base_offset: one for one in log.evidence.segments}
        for index in log.evidence.indexes:
            segment = segments.get(index.base_offset)
            if index.unread is not None or (segment is not None and segment.problem):
                continue
            if segment is None:
                # Behind the log's end it witnesses what is lost there: `log_end_lost` tells; and
                # `offsets_contiguous` tells of a hole.
                end = log.end_offset or 0
                is_lost = index.base_offset >= end and bool(quorum.witnesses(log))
                inside = reached_by(index) <= end and not is_lost
                is_told = _in_hole(log, index.base_offset) or not inside
                if not log.evidence.single_file and log.evidence.segments and not is_told:
                    yield _orphan(log, index)
                continue
            problem = _index_problem(log, segment, index)
            if problem is not None:
                entry, count, text = problem
                yield BadRow(
                    log.label,
                    f"The index {index.path.rsplit('/', 1)[-1]} is wrong: {text}. "
                    "Delete the index while the node is stopped: Kafka builds it anew.",
                    index.path,
                    offset=entry.get("offset"),
                    evidence={"bad_entries": count, "entries": len(index.offsets), **entry},
                )


IndexProblem = tuple[dict[str, Any], int, str]


def _index_problem(
    log: LogView, segment: SegmentEvidence, index: IndexEvidence
) -> IndexProblem | None:
    if index.surplus_bytes:
        text = f"it ends with {counted(index.surplus_bytes, 'byte')} of an entry that is not whole"
        return {"surplus_bytes": index.surplus_bytes}, 0, text
    back = np.flatnonzero(np.diff(index.offsets) < 0) + 1
    bad, text = _time_entries(log, segment, index) if index.time else _entries(log, segment, index)
    if _are_of_cut_tail(log, index, {*bad.tolist(), *back.tolist()}):
        return None
    if len(back) and (not len(bad) or back[0] < bad[0]):
        bad, text = back, "goes back to an offset below that of the entry before it"
    if not len(bad):
        return None
    first = int(bad[0])
    value = int(index.values[first])
    name = "timestamp" if index.time else "position"
    entry = {"entry": first, "offset": int(index.offsets[first]), name: value}
    words = f"entry {first} (offset {entry['offset']}, {name} {value}) {text}"
    return entry, len(bad), words


def _are_of_cut_tail(log: LogView, index: IndexEvidence, wrong: set[int]) -> bool:
    """Whether wrong entries may be of a tail that was cut: the last ones, not yet written over; all
    of them where no entry was below the cut.
    """
    first, end, cut = min(wrong, default=0), log.end_offset or 0, last_cut(log, index)
    if cut is None or not wrong:
        return False
    behind = range(first, len(index.offsets))
    left = all(one in wrong or int(index.offsets[one]) >= end for one in behind)
    return left and (first > 0 or int(index.offsets[0]) >= cut)


def _orphan(log: LogView, index: IndexEvidence) -> BadRow:
    todo = "No offset is missing there, and Kafka deletes such an index at its next start."
    if index.base_offset == log.end_offset:
        todo = (
            "The log ends where its segment began, so nothing shows that anything stood there. "
            "If the node was running, copy it again; if not, delete the index: Kafka does so at its next start."
        )
    return BadRow(
        log.label,
        f"The index {index.path.rsplit('/', 1)[-1]} has no segment beside it. {todo}",
        index.path,
        offset=index.base_offset,
        evidence={"entries": len(index.offsets)},
    )


def _entries(log: LogView, segment: SegmentEvidence, index: IndexEvidence) -> tuple[Longs, str]:
    """Entries that point at no batch's start, or at one that begins above the entry's offset."""
    columns = log.evidence.log
    rows = slice(segment.first_row, segment.end_row)
    positions, bases = columns.positions[rows], columns.base_offsets[rows]
    at = np.searchsorted(positions, index.values, "left")
    inside = np.minimum(at, max(0, len(positions) - 1))
    hits = np.zeros(len(index.values), np.bool_)
    if len(positions):
        hits = (positions[inside] == index.values) & (bases[inside] <= index.offsets)
        hits |= (positions[inside] == index.values) & log.misplaced[rows][inside]
    hits |= _damaged(segment, index.values)
    if segment is log.evidence.segments[-1]:
        # The index of a live copy may be newer than its log.
        hits |= (index.values >= segment.size_bytes) & (index.offsets >= (log.end_offset or 0))
        hits |= _after_damage(segment, index.values)
    return np.flatnonzero(
        ~hits
    ), "points at no start of a batch that begins at or below that offset"


def _damaged(segment: SegmentEvidence, positions: Longs) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    hits = np.zeros(len(positions), np.bool_)
    for fault in segment.faults:
        hits |= (positions >= fault.position) & (positions < fault.position + fault.size_bytes)
    return hits


def _after_damage(
    segment: SegmentEvidence, positions: Longs
) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """What lay behind a torn end is gone with it; the tail is another check's matter."""
    torn = [
        one.position
        for one in segment.faults
        if one.position + one.size_bytes >= segment.size_bytes
    ]
    if not torn:
        return np.zeros(len(positions), np.bool_)
    return positions >= min(torn)


def _time_entries(
    log: LogView, segment: SegmentEvidence, index: IndexEvidence
) -> tuple[Longs, str]:
    """Entries whose offset lies in no batch of the segment with that timestamp as its largest."""
    columns = log.evidence.log
    rows = slice(segment.first_row, segment.end_row)
    bases, lasts = columns.base_offsets[rows], columns.last_offsets[rows]
    stamps = columns.max_timestamps[rows]
    usable = columns.crc_valid[rows] & log.header_sane[rows] & ~log.misplaced[rows]
    if not len(bases) or not usable.all():
        return np.empty(0, np.int64), ""
    at = np.maximum(np.searchsorted(bases, index.offsets, "right") - 1, 0)
    hits = (
        (index.offsets <= lasts[at]) & (index.offsets >= bases[at]) & (stamps[at] == index.values)
    )
    if segment.faults:
        hits |= index.offsets > lasts[at]
    if segment is log.evidence.segments[-1]:
        hits |= index.offsets >= (log.end_offset or 0)
    return np.flatnonzero(~hits), "names a time that the batch at that offset does not have"


@check(
    "epoch_within_quorum_state", "warning", "log", "KAFKA-18723, confluentinc/kafka#302",
    "no batch has an epoch above that of quorum-state",
    action="identity", over=coverage.quorum_states,
    meaning="""The log holds batches of a later epoch than quorum-state knows. The node could
    vote again in an epoch in which it has already taken part. In a copy of a running node the
    file may simply have been copied before an election. At level info no other node votes.""",
    advice="""Copy the node again, quorum-state last. If the finding stays, restore the file, or
    let the node join anew with an empty log folder, while a majority of the other voters is
    whole. A node that does not vote forgets no vote: delete the file while it is stopped.""",
)  # fmt: skip
def within_quorum_epoch(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        state = log.evidence.state_file
        if state is None or log.is_empty:
            continue
        above = np.flatnonzero(log.epochs > state.leader_epoch)
        if not len(above):
            continue
        row = int(log.rows[above[0]])
        offset, epoch = int(log.base[above[0]]), int(log.epochs[above[0]])
        yield at_batch(
            log,
            row,
            f"The batches from offset {offset} on are of epoch {epoch}, but quorum-state knows no epoch above {state.leader_epoch}. "
            f"{restore_vote(quorum, log, 'This node could vote twice in an epoch that it has seen.')}",
            end_offset=int(log.last[above[-1]]) + 1,
            epoch=epoch,
            severity="info" if is_only_voter(quorum, log) else None,
            evidence={"quorum_state_epoch": state.leader_epoch, "batches": len(above)},
        )
