"""Files → `QuorumEvidence`, in one process.

In: replicas as `log.directory` finds them. Out: the evidence of all of them. Batches are looked at
by columns, a content that several replicas hold once; only what is remarkable is decoded record by
record. Memory is bounded by the columns of the batches and one window of one file.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kraftlog.config import Thresholds, default_thresholds
from kraftlog.decode.columnar import decode_window
from kraftlog.decode.records import Record, records_in, section_of
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded, read_batch
from kraftlog.log import names
from kraftlog.log.batch import (
    HEADER_SIZE,
    INT32_AT,
    LAST_MAGIC,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    PREFIX_SIZE,
    content_hash,
    crc_is_valid,
)
from kraftlog.log.directory import IS_FOLDER, LogFile, Replica, walk_file
from kraftlog.log.fault import RANGE_KINDS, Fault, FaultKind
from kraftlog.log.names import LAST_OFFSET
from kraftlog.log.segment import Limits, Window
from kraftlog.log.sidefiles import read_producer_state
from kraftlog.log.storage import open_file
from kraftlog.plain import counted
from kraftlog.quorum.columns import ColumnBuilder
from kraftlog.quorum.content import FEATURE, decode_batch, describe
from kraftlog.quorum.detect import JUDGED_BODIES, metadata_versions, remarkable, type_counts
from kraftlog.quorum.divergence import Place, batches_to_describe
from kraftlog.quorum.evidence import (
    UNREMARKABLE,
    Content,
    Described,
    FileProblem,
    QuorumEvidence,
    ReplicaEvidence,
    SegmentEvidence,
    SnapshotEvidence,
)
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.side_evidence import (
    NODE_FILES,
    partition_folders,
    read_index_file,
    read_side_file,
    refused_indexes,
)
from kraftlog.quorum.snapshots import HEADER
from kraftlog.state.shapes import METADATA_VERSION

SNAPSHOT_KINDS = (
    names.CHECKPOINT,
    names.BOOTSTRAP,
    names.CHECKPOINT_PART,
    names.CHECKPOINT_DELETED,
)
LAST_EPOCH = (1 << 31) - 1
TypeCount = dict[str, Any]
"""One element of `detect.TYPE_COUNTS`."""
PlacedTypes = tuple[int, list[TypeCount] | None]
"""The position of a batch, and what types of records it holds."""


@dataclass
class Collector:
    """Reads replicas one after the other; knows every batch that it has seen by its id."""

    limits: Limits
    redactor: Redactor
    contents: list[Content] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)
    _types: dict[str, list[TypeCount]] = field(default_factory=dict)

    def replica(self, replica: Replica) -> ReplicaEvidence:
        alone = len(replica.files) == 1 and replica.folder == replica.files[0].path
        files = [one for one in replica.files if _is_readable_name(one)]
        if alone:
            files = [self._named(one) for one in files]
        problems: list[FileProblem] = []
        builder = ColumnBuilder()
        logs = [one for one in files if one.kind == names.LOG]
        logs.sort(key=lambda one: one.parsed.base_offset or 0)
        segments = tuple(self._segment(one, builder, index) for index, one in enumerate(logs))
        snapshots = [
            self.snapshot(one)
            for one in files
            if one.kind == names.CHECKPOINT
            or (one.kind in SNAPSHOT_KINDS and not _is_folder(one, problems))
        ]
        side = {
            NODE_FILES[one.kind][0]: read_side_file(one) for one in files if one.kind in NODE_FILES
        }
        bootstraps = [
            read_side_file(one, self._bootstrap) for one in files if one.kind == names.BOOTSTRAP
        ]
        indexes = tuple(
            read_index_file(one) for one in files if one.kind in (names.INDEX, names.TIME_INDEX)
        )
        problems += [
            FileProblem(told.path, kind, told.problem, False)
            for kind, (field, _) in NODE_FILES.items()
            if kind in _TOLD_NOWHERE_ELSE and (told := side.get(field)) is not None and told.problem
        ]
        for one in files:
            if one.kind == names.PRODUCER_SNAPSHOT:
                problems += _unread_producers(one)
            if one.kind == names.TRANSACTION_INDEX and (one.problem or one.size_bytes):
                text = (
                    one.problem
                    or f"it holds {counted(one.size_bytes, 'byte')}, and is empty in this log"
                )
                problems.append(FileProblem(one.path, one.kind, text, False))
            if one.kind == names.LOG_DELETED and not _is_folder(one, problems):
                problems += _damage(self.snapshot(one))
        read: list[SegmentEvidence | SnapshotEvidence] = [*segments, *snapshots]
        problems += [problem for one in read for problem in _read_problem(one)]
        return ReplicaEvidence(
            replica.label,
            replica.folder,
            alone,
            builder.columns(),
            segments,
            tuple(sorted(snapshots, key=lambda s: (s.epoch or 0, s.end_offset or 0, s.path))),
            indexes,
            problems=tuple(problems),
            refused_indexes=tuple(refused_indexes(files)),
            foreign_names=tuple(
                one.path for one in replica.files if not alone and _is_foreign(one)
            ),
            producer_ends=tuple(
                sorted(
                    one.parsed.base_offset
                    for one in replica.files
                    if one.kind == names.PRODUCER_SNAPSHOT and one.parsed.base_offset is not None
                )
            ),
            set_aside=tuple(
                one.path
                for one in replica.files
                if not alone and one.kind != names.LOG and names.begins_as_segment(one.name)
            ),
            partition_folders=() if alone else partition_folders(replica.folder),
            bootstrap=next(iter(bootstraps), None),
            **side,
        )

    def _bootstrap(self, raw: bytes) -> int:
        return read_bootstrap(raw, self.redactor, self.limits.decompressed_size_bytes)

    def _named(self, file: LogFile) -> LogFile:
        """A file that was named by itself, whatever it is called: a checkpoint if it begins with a
        snapshot's header, else a segment.
        """
        if file.kind not in (names.UNKNOWN, names.LOG_DELETED):
            return file
        is_snapshot = self._begins_with_header(file)
        kind = names.CHECKPOINT if is_snapshot else names.LOG
        return replace(file, parsed=replace(file.parsed, kind=kind))

    def _begins_with_header(self, file: LogFile) -> bool:
        found = next(walk_file(file, self.limits), None)
        if not isinstance(found, Window):
            return False
        limit = self.limits.decompressed_size_bytes
        first = next(read_batch(found, 0, None, self.redactor, limit), None)
        return isinstance(first, Record) and first.type == HEADER

    def _segment(self, file: LogFile, builder: ColumnBuilder, index: int) -> SegmentEvidence:
        first = len(builder)
        faults: list[Fault] = []
        for found in walk_file(file, self.limits):
            if isinstance(found, Fault):
                faults.append(builder.explained(file.path, index, found))
            else:
                builder.add(index, found.batches, self._content_of(found))
        return segment_of(file, first, len(builder), faults)

    def snapshot(self, file: LogFile) -> SnapshotEvidence:
        builder, faults, types = ColumnBuilder(), list[Fault](), list[PlacedTypes]()
        for found in walk_file(file, self.limits):
            if isinstance(found, Fault):
                faults.append(builder.explained(file.path, 0, found))
            else:
                types += self._types_of(found)
                builder.add(0, found.batches, self._indexes(found))
        return snapshot_of(file, builder, faults, types)

    def _content_of(self, window: Window) -> list[int]:
        """The index of each batch's content."""
        ids = window.batches.batch_ids
        fresh = [row for row in self._chosen(window) if ids[row] not in self._known]
        for _ in self._looked_at(window, fresh):
            pass
        return self._indexes(window)

    def _types_of(self, window: Window) -> Iterator[PlacedTypes]:
        """The types of records of each batch that is looked at."""
        ids, rows = window.batches.batch_ids, self._chosen(window)
        fresh = [row for row in rows if ids[row] not in self._types]
        for decoded in self._looked_at(window, fresh):
            looked_at = decoded.indexes.tolist()
            held = type_counts(window, decoded, looked_at).to_pylist()
            self._types |= zip([ids[row] for row in looked_at], held, strict=True)
        for row in rows:
            yield int(window.batches.positions[row]), self._types[ids[row]]

    def _chosen(self, window: Window) -> list[int]:
        """The sound batches of a window, whose records are looked at."""
        return np.flatnonzero(window.batches.crc_valid).tolist()

    def _indexes(self, window: Window) -> list[int]:
        valid = window.batches.crc_valid.tolist()
        return [
            self._known.get(one, UNREMARKABLE) if sound else UNREMARKABLE
            for one, sound in zip(window.batches.batch_ids, valid, strict=True)
        ]

    def _looked_at(self, window: Window, rows: Sequence[int]) -> Iterator[Decoded]:
        """Look at batches by columns; only the remarkable ones are decoded one by one."""
        if not rows:
            return
        limit, bodies = self.limits.decompressed_size_bytes, JUDGED_BODIES
        for decoded in decode_window(window, None, self.redactor, limit, rows, bodies=bodies):
            odd, levels = remarkable(window, decoded), metadata_versions(decoded)
            for row in decoded.indexes.tolist():
                batch_id = window.batches.batch_ids[row]
                if batch_id in self._known:
                    continue
                content = None
                if batch_id in odd:
                    batch = window.batch(row)
                    content = decode_batch(batch, batch_id, self.redactor, limit).content
                if batch_id in levels:
                    content = replace(
                        content or Content(batch_id), metadata_version=levels[batch_id]
                    )
                if content is None:
                    self._known[batch_id] = UNREMARKABLE
                else:
                    self._known[batch_id] = len(self.contents)
                    self.contents.append(content)
            yield decoded

    def batch_at(self, batch_id: str, place: Place) -> bytes | None:
        """A batch where it lies, unless the file has changed there."""
        path, position, size = place
        try:
            with open_file(path) as file:
                batch = file.read(position, size)
        except OSError:
            return None  # the walk has told, or the next one will tell, what became of the file
        is_there = content_hash(batch, self.limits.id_key) == batch_id and crc_is_valid(batch)
        return batch if is_there else None


LEAST_LENGTH = 14
"""That of a batch without a record, in the oldest format: Kafka throws at less."""


def read_bootstrap(raw: bytes, redactor: Redactor, limit: int) -> int:
    """The level of metadata.version that a bootstrap.checkpoint sets, which Kafka reads at every start; a
    batch is unpacked to `limit` bytes at most. Unlike a snapshot it is read without a look at any CRC,
    and its end is where no whole batch follows.

    Raises ValueError with a sentence where Kafka throws. Source: Kafka's BootstrapDirectory,
    BootstrapMetadata, BatchFileReader and FileLogInputStream, 3.3 to 4.4."""
    level: int | None = None
    position = 0
    while len(raw) - position > MAGIC_POSITION + 1:
        (length,) = INT32_AT.unpack_from(raw, position + LENGTH_POSITION)
        end = position + PREFIX_SIZE + length
        if length >= LEAST_LENGTH and end > len(raw):
            break
        is_batch = MAGIC <= raw[position + MAGIC_POSITION] <= LAST_MAGIC
        if not is_batch or end - position < HEADER_SIZE:
            raise ValueError(f"there is no record batch at byte {position:,}")
        section = section_of(raw[position:end], position, limit)
        held = [section] if isinstance(section, Fault) else [*records_in(section, redactor)]
        if not held:
            raise ValueError(f"the batch at byte {position:,} holds no record")
        for found in held:
            if isinstance(found, Fault):
                raise ValueError(f"in the batch at byte {position:,}: {found.detail}")
            if found.type == FEATURE and found.data and found.data["name"] == METADATA_VERSION:
                level = found.data["featureLevel"]
        position = end
    if level is None:
        raise ValueError(f"it holds no record that sets {METADATA_VERSION}")
    return level


def segment_of(file: LogFile, first: int, end: int, faults: Iterable[Fault]) -> SegmentEvidence:
    """A segment whose batches are rows [first, end) of its replica's log."""
    found = tuple(faults)
    return SegmentEvidence(
        file.path,
        file.name,
        file.parsed.base_offset or 0,
        file.size_bytes,
        file.modified_ns // 1_000_000,
        first,
        end,
        found,
        _problem(found),
        _swap_stop(file, found),
    )


def _swap_stop(file: LogFile, faults: Iterable[Fault]) -> int | None:
    """Where Kafka fails in a file that gets its name back: it goes through it by the lengths of the
    batches, as long as a header may be whole, and none may be below 14. Source: LogLoader.load,
    LogSegment.readNextOffset, FileLogInputStream.
    """
    first = next((one.position for one in faults if one.kind in RANGE_KINDS), None)
    if first is None or not file.name.endswith(".log.swap"):
        return None
    try:
        with open_file(file.path) as handle:
            while handle.size_bytes - first > MAGIC_POSITION + 1:
                size = int.from_bytes(handle.read(first + LENGTH_POSITION, 4), "big", signed=True)
                if size < LEAST_LENGTH:
                    return first
                first += PREFIX_SIZE + size
    except OSError:
        pass  # the walk has told, or the next one will tell
    return None


def snapshot_of(
    file: LogFile, builder: ColumnBuilder, faults: Iterable[Fault], types: Iterable[PlacedTypes]
) -> SnapshotEvidence:
    """A checkpoint file with the batches that a builder holds, and the types of their records."""
    found, counts = tuple(faults), Counter[str]()
    first_of_type: dict[str, tuple[int, int]] = {}
    for position, held in types:
        for one in held or ():
            counts[one["type"]] += one["record_count"]
            first_of_type.setdefault(one["type"], (position, one["first_record_index"]))
    return SnapshotEvidence(
        file.path,
        file.name,
        file.kind,
        file.parsed.end_offset,
        file.parsed.epoch,
        file.parsed.form,
        file.size_bytes,
        file.modified_ns // 1_000_000,
        builder.columns(),
        found,
        counts,
        first_of_type,
        _problem(found),
    )


def _problem(faults: Iterable[Fault]) -> str | None:
    """Why a file could not be read at all; None where it could."""
    unread = (FaultKind.UNREADABLE, FaultKind.VANISHED)
    return next((one.detail for one in faults if one.kind in unread and one.position == 0), None)


def _read_problem(one: SegmentEvidence | SnapshotEvidence) -> Iterator[FileProblem]:
    kind = names.LOG if isinstance(one, SegmentEvidence) else one.kind
    for fault in one.faults:
        if fault.kind in (FaultKind.UNREADABLE, FaultKind.VANISHED):
            vanished = fault.kind == FaultKind.VANISHED
            yield FileProblem(one.path, kind, fault.detail, vanished)


_TOLD_NOWHERE_ELSE = (names.PARTITION_METADATA, names.SERVER_PROPERTIES, names.DISK_FREE)
"""Side files that no check has as its own: what cannot be read in them is a file's problem."""


def _damage(left_over: SnapshotEvidence) -> Iterator[FileProblem]:
    """What is damaged in a segment that waits to be removed; its end may be anywhere."""
    bad = left_over.batches.positions[~left_over.batches.crc_valid].tolist()
    bad += [one.position for one in left_over.faults if one.kind in _NO_END]
    if bad:
        text = f"{counted(len(bad), 'damaged range')}, the first at byte {min(bad):,}"
        yield FileProblem(left_over.path, left_over.kind, text, False)


def _unread_producers(file: LogFile) -> Iterator[FileProblem]:
    """A producer snapshot that Kafka would not take."""
    found = read_side_file(file, read_producer_state)
    if found.problem is not None:
        yield FileProblem(file.path, file.kind, found.problem, False)


_NO_END = RANGE_KINDS - {FaultKind.TORN_BATCH, FaultKind.ZEROS}


def _is_folder(file: LogFile, problems: list[FileProblem]) -> bool:
    """A name under which no regular file lies is a problem, and no file."""
    if file.problem is None:
        return False
    problems.append(FileProblem(file.path, file.kind, file.problem, False))
    return True


def _is_foreign(file: LogFile) -> bool:
    """A name that Kafka takes for one of its own by the ending: it cannot parse it, or reads
    another than is there.
    """
    if file.kind == names.BOOTSTRAP:
        return False  # it lies beside the log's folder
    if file.problem == IS_FOLDER and not file.name.endswith(names.SNAPSHOT_ENDINGS):
        return False
    is_other = file.kind == names.UNKNOWN and file.name.endswith((".log", ".checkpoint"))
    return is_other or names.is_refused(file.name)


def _is_readable_name(file: LogFile) -> bool:
    """Twenty digits can say more than a 64-bit offset, and ten more than a 32-bit epoch."""
    parsed = file.parsed
    offsets = (parsed.base_offset or 0, parsed.end_offset or 0)
    return max(offsets) <= LAST_OFFSET and (parsed.epoch or 0) <= LAST_EPOCH


def evidence_by(
    collector: Collector,
    replicas: Sequence[Replica],
    described: Described | None,
    thresholds: Thresholds | None = None,
) -> QuorumEvidence:
    """The evidence that a collector gathers, and what follows from the replicas side by side."""
    found = tuple(collector.replica(one) for one in replicas)
    evidence = QuorumEvidence(
        found,
        tuple(collector.contents),
        described=described,
        thresholds=thresholds or default_thresholds(),
        limits=collector.limits,
        left_out=tuple(
            FileProblem(file.path, file.kind, file.problem or "", False)
            for one in replicas
            for file in one.files
            if file.kind == names.LEFT_OUT
        ),
    )
    words: dict[str, tuple[str, ...]] = {}
    limit = collector.limits.decompressed_size_bytes
    for batch_id, place in batches_to_describe(Quorum(evidence).differing).items():
        words[batch_id] = ()
        if (batch := collector.batch_at(batch_id, place)) is not None:
            decoded = decode_batch(batch, batch_id, collector.redactor, limit)
            words[batch_id] = tuple(map(describe, decoded.records))
    return replace(evidence, words=words)
