"""A replica of a quorum → its `Disk`: what Kafka meets when it opens that folder.

In: the decoded evidence of one replica. Out: a frozen value for `boot`. Columnar: a log of many
batches costs milliseconds. Source: Kafka's LogLoader and LogSegment.recover (a scan of every
segment that stops at the first batch that is not valid, and drops all that follows), Snapshots,
PartitionMetadataFile, LeaderEpochCheckpointFile, FileQuorumStateStore, BootstrapMetadata; KIP-630 "Loading State and
Frequency of Compaction", KAFKA-14240, open-im-server#2903, mojaloop#4259.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from kraftlog.log import names
from kraftlog.log.directory import IS_FOLDER, NO_SEGMENT
from kraftlog.log.fault import KEPT_KINDS, FaultKind
from kraftlog.log.names import FILE_LIMIT_BYTES
from kraftlog.plain import listed, offsets_are, voters_text
from kraftlog.quorum.content import END_MARKER, REFUSED, UNKNOWN
from kraftlog.quorum.epochs import EpochVector, claimed_by
from kraftlog.quorum.evidence import (
    BatchColumns,
    Content,
    ReplicaEvidence,
    SegmentEvidence,
    SideFile,
)
from kraftlog.quorum.joining import is_controller
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.quorum.voters import has_other_setting
from kraftlog.simulate.boot import BadRecord, Disk, SnapshotFile
from kraftlog.simulate.extent import SnapshotId
from kraftlog.state.tables import BEGIN


def disk_of(quorum: Quorum, log: LogView) -> Disk:
    """What lies on the disk of one replica."""
    one = log.evidence
    last, end, cut = _recovered(one)
    vector = _vector(log, last, end)
    if cut is None and last is not None and vector.end_offset < (log.end_offset or 0):
        cut = f"its last segment, {last.name}, ends there"
    shipped = [each for each in quorum.snapshots_of(log.label) if each.is_named_as_shipped]
    misnamed = quorum.misnamed(log.label)
    return Disk(
        one.first_base_offset,
        vector,
        (
            *(
                SnapshotFile(
                    SnapshotId(*each.id),
                    _why_unloadable(quorum, each),
                    each.has_footer or each.not_read is not None,
                    next(
                        (one.text for one in _issues(each.evidence.batches, each.contents, _NEWER)),
                        None,
                    ),
                )
                for each in shipped
            ),
            *(
                SnapshotFile(SnapshotId(*known), _not_found(path), is_found=False)
                for path, known in misnamed.items()
            ),
        ),
        cut,
        tuple(
            dict.fromkeys(
                (
                    *_problems(one),
                    *_out_of_reach(one, end),
                    *_unopened(log, end),
                    *_unplaced(quorum, log),
                )
            )
        ),
        (
            *_of_other_magic(one.segments),
            *_bad_records(one.log, log.contents),
            *_begun_nowhere(quorum, log),
        ),
        (
            *_notes(log, end),
            *_without_meta(one),
            *map(_not_found, misnamed),
            *_without_vote(quorum, log),
            *_with_other_voters(quorum, one),
            *_beside(quorum, log),
        ),
        tuple(_issues(one.log, log.contents, _NEWER)),
        bool(log.unread_segments),
    )


_NEWER = frozenset({UNKNOWN})


def replayed_records(log: LogView, from_offset: int, end_offset: int) -> int:
    """Records of a log in [from, end)."""
    rows = (log.last >= from_offset) & (log.base < end_offset)
    begins = np.maximum(log.base[rows], from_offset)
    return int((log.last[rows] + 1 - begins).sum())


def _vector(log: LogView, last: SegmentEvidence | None, end_row: int) -> EpochVector:
    """The epochs of the batches before a row of the log's columns, and what the node claims above
    them. Kafka ends a log where its last segment does, whatever the segments before it hold.
    """
    if last is None:
        return EpochVector((), 0)
    entries = tuple((e.epoch, e.start_offset) for e in log.epoch_starts if e.row < end_row)
    kept = log.evidence.log.last_offsets[last.first_row : end_row]
    inside = (int(one) + 1 for one in kept[::-1] if int(one) in last.reach)
    end = next(inside, last.base_offset)
    if end_row == last.end_row:
        end = max(end, *(one.offset + 1 for one in _of_other_magic([last])), 0)
    return claimed_by(log.epoch_entries, EpochVector(entries, end).truncated(end))


def _recovered(one: ReplicaEvidence) -> tuple[SegmentEvidence | None, int, str | None]:
    """(the last segment that a start leaves, the row at which it ends, what is cut there): recovery
    goes through the segments in their order, up to the first damage by position within one.
    """
    bad = np.flatnonzero(~one.log.crc_valid)
    for segment in one.segments:
        rows = bad[(bad >= segment.first_row) & (bad < segment.end_row)]
        found = [
            (int(one.log.positions[r]), int(r), "a batch whose CRC is wrong") for r in rows[:1]
        ]
        faults = [fault for fault in segment.faults if fault.kind not in KEPT_KINDS]
        for fault in faults[:1]:
            positions = one.log.positions[segment.first_row : segment.end_row]
            row = segment.first_row + int(np.searchsorted(positions, fault.position))
            found.append((fault.position, row, fault.detail))
        if found:
            position, row, what = min(found)
            return segment, row, f"{what} at byte {position:,} of {segment.name}"
    return (one.segments[-1] if one.segments else None), len(one.log), None


def _why_unloadable(quorum: Quorum, one: SnapshotView) -> str | None:
    """A torn end behind the header is not noticed; a file too large, or not to be read, is."""
    if one.evidence.problem:
        return one.evidence.problem
    if one.evidence.size_bytes > FILE_LIMIT_BYTES:
        return f"it is larger than {FILE_LIMIT_BYTES:,} bytes, and Kafka opens no such file"
    if one.noticed_damage is not None:
        return one.noticed_damage
    if (refused := one.refused_control) is not None:
        return refused
    if (record := quorum.state.refusals.get(one.path)) is not None:
        return f"at its record {record.place} ({record.type}): {record.detail}"
    bad = next(_bad_records(one.evidence.batches, one.contents), None)
    return f"Kafka cannot read on in it: {bad.text}" if bad else None


_TO_START = (names.QUORUM_STATE, names.EPOCH_CHECKPOINT, names.PARTITION_METADATA)


def unread_before_start(quorum: Quorum, log: LogView) -> str | None:
    """Which file could not be read that tells whether, and with what, a node starts; and why."""
    newest = quorum.loaded_snapshot(log.label)
    if newest is not None and newest.evidence.problem not in (None, IS_FOLDER):
        return f"{newest.evidence.name} could not be read ({newest.evidence.problem})"
    return next((one.words for one in log.evidence.unread if one.kind in _TO_START), None)


def _problems(one: ReplicaEvidence) -> Iterator[str]:
    """Why a node refuses to start, beside its snapshots."""
    yield from _identity_problems(one)
    for path in one.foreign_names:
        if names.is_refused(name := path.rpartition("/")[2]):
            yield f"{name} is not a name that Kafka can parse"
    found = [fault.kind for segment in one.segments for fault in segment.faults]
    passed_over = {segment.path for segment in one.passed_over}
    for segment in one.segments if FaultKind.UNREADABLE in found else ():
        if segment.problem not in (None, NO_SEGMENT) and segment.path not in passed_over:
            yield f"{segment.called} cannot be read: {segment.problem}"
    for segment in one.segments:
        if segment.swap_stop is not None:
            yield f"Kafka fails at byte {segment.swap_stop:,} of {segment.name} before it gives that file its name back: what stands there is no batch"
    for index in one.refused_indexes:
        yield f"Kafka cannot open the log over {index.path.rpartition('/')[2]}: {index.text}"
    for name, file in (
        ("quorum-state", one.quorum_state),
        ("leader-epoch-checkpoint", one.epoch_checkpoint),
        ("partition.metadata", one.partition_metadata),
        ("bootstrap.checkpoint", one.bootstrap),
    ):
        if file is not None and (why := _why_unread(file)):
            yield f"{name} cannot be read: {why}"
    named = one.partition_metadata.value if one.partition_metadata is not None else None
    if named and named["topic_id"] != names.METADATA_TOPIC_ID:
        yield f"partition.metadata names another topic id, {named['topic_id']}"


def _out_of_reach(one: ReplicaEvidence, end_row: int) -> Iterator[str]:
    """Batches before the first damage that recovery gives up at, the first of each segment."""
    for segment in one.segments:
        found = one.log.last_offsets[segment.first_row : min(segment.end_row, end_row)]
        beyond = np.flatnonzero((found < segment.reach.start) | (found >= segment.reach.stop))
        if len(beyond):
            base = int(one.log.base_offsets[segment.first_row + int(beyond[0])])
            yield f"a batch in {segment.name} says that it begins at offset {base}, which that file cannot hold"


def _unopened(log: LogView, end_row: int) -> Iterator[str]:
    """What recovery throws at: in each batch it looks for the producers' transactions that end."""
    batches = log.evidence.log
    for one in _issues(batches.between(0, end_row), log.contents, frozenset({END_MARKER})):
        yield f"Kafka cannot open the log over the batch at offset {one.offset}: {one.text}"
        break


def _unplaced(quorum: Quorum, log: LogView) -> Iterator[str]:
    """Voters that a node has no endpoint of: without a leader it looks for them, and halts."""
    listener, voters = quorum.unplaced_voters(log)
    if voters:
        at = "" if listener is None else f" for its listener {listener}"
        yield f"it halts when it looks for the other voters: it knows no endpoint{at} of {voters_text(voters)}"


def _identity_problems(one: ReplicaEvidence) -> Iterator[str]:
    """meta.properties is asked for where the file beside it shows that the node's folder was copied
    whole; a log folder by itself says nothing of it."""
    meta = one.meta_properties
    if meta is not None and meta.value is None:
        if why := _why_unread(meta):
            yield f"meta.properties cannot be read: {why}"
    elif (refused := one.refused_meta) is not None:
        yield f"Kafka does not take meta.properties: {refused}"
    elif one.run_as is not None:
        yield f"its disk is of node {one.node_id} by meta.properties, and its server.properties is of node {one.run_as}"
    elif meta is None and any(file.kind == names.BOOTSTRAP for file in one.snapshots):
        yield "there is no meta.properties: the directory counts as not formatted"


def _without_meta(one: ReplicaEvidence) -> Iterator[str]:
    """That file may be on the node all the same: of a log folder by itself nothing is known."""
    if one.meta_properties is None and one.is_seen and not (one.single_file or one.is_pulled):
        yield "no meta.properties was copied with it, and Kafka does not start without that file"


def _why_unread(file: SideFile) -> str | None:
    """Why a node could not read a file either; of one that vanished nobody knows."""
    if file.unread is None:
        return file.problem
    return None if file.unread.vanished else file.unread.text


def _bad_records(batches: BatchColumns, contents: tuple[Content, ...]) -> Iterator[BadRecord]:
    """Kafka decodes every record that it replays, and takes no batch without one."""
    for row in np.flatnonzero(batches.crc_valid & (batches.record_counts < 1)).tolist():
        base, last = int(batches.base_offsets[row]), int(batches.last_offsets[row])
        yield BadRecord(base, "the batch there holds no record", last)
    yield from _issues(batches, contents, REFUSED)


def _of_other_magic(segments: Iterable[SegmentEvidence]) -> Iterator[BadRecord]:
    """Whole batches that recovery keeps, and whose magic stops who reads them. They end where the next
    one begins; a snapshot ends at no other place."""
    for segment in segments:
        for fault in segment.faults:
            if fault.kind == FaultKind.BATCH_MAGIC and fault.offset is not None:
                yield BadRecord(fault.offset, fault.detail, fault.offset)


def _begun_nowhere(quorum: Quorum, log: LogView) -> Iterator[BadRecord]:
    """The end of a metadata transaction whose Begin a controller does not read, as its newest snapshot
    ends behind that. Source: Kafka's OffsetControlManager.
    """
    loaded = [one for one in quorum.loadable_snapshots(log.label) if one.is_named_as_shipped]
    if not loaded or quorum.open_transaction(loaded[-1]) is None:
        return
    marks = (mark for mark in log.transaction_marks if mark[0] >= loaded[-1].end_offset)
    for offset, row, one in islice(marks, 1):
        if one.type != BEGIN and is_controller(quorum, log.evidence):
            last = int(log.evidence.log.last_offsets[row])
            yield BadRecord(offset, "it ends a metadata transaction, and none is open", last)


def _issues(
    batches: BatchColumns, contents: tuple[Content, ...], kinds: frozenset[str]
) -> Iterator[BadRecord]:
    for row in np.flatnonzero((batches.content >= 0) & batches.crc_valid).tolist():
        for issue in contents[int(batches.content[row])].issues:
            if issue.kind in kinds:
                last = int(batches.last_offsets[row])
                offset = min(int(batches.base_offsets[row]) + issue.record_index, last)
                yield BadRecord(offset, issue.text, last)


def _notes(log: LogView, end_row: int) -> Iterator[str]:
    if log.unread == NO_SEGMENT:
        yield f"{NO_SEGMENT}; Kafka begins an empty log there"
    for segment in log.evidence.passed_over:
        yield f"{segment.name} is a folder, and Kafka passes over it without its records"
    for hole in log.holes:
        if hole.row < end_row:
            yield f"{offsets_are(hole.start, hole.end)} missing, and Kafka does not notice"
            break


def _not_found(path: str) -> str:
    name = path.rpartition("/")[2]
    return f"{name} is not named as Kafka names its snapshots, so Kafka does not find it"


def _beside(quorum: Quorum, log: LogView) -> Iterator[str]:
    """Further folders of the same node, of which only one can be the disk that it starts with. Source:
    KafkaRaftServer.initializeLogDirs.
    """
    node = log.evidence.node_id
    disks = [one for one in quorum.peers if not one.evidence.is_pulled]
    others = [one.label for one in disks if one is not log and one.evidence.node_id == node]
    if node is not None and log in disks and others:
        yield f"{listed(others)} {'is' if len(others) == 1 else 'are'} of node {node} as well: start it with one of these folders only"


def _with_other_voters(quorum: Quorum, one: ReplicaEvidence) -> Iterator[str]:
    if quorum.recorded_voters is None and has_other_setting(one):
        yield "its controller.quorum.voters names other voters than its quorum-state, and Kafka before 3.8 does not start so"


def _without_vote(quorum: Quorum, log: LogView) -> Iterator[str]:
    if (one := quorum.voterless_snapshot(log)) is not None:
        yield f"{one.evidence.name} names no voter, so the node stands for no election with it"
