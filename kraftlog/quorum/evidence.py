"""What an audit knows of one quorum: frozen values, columnar where a log may hold millions of
batches. No file access.

Enters: rows that were decoded elsewhere (by `collector` from files, by `recorded` from what a run
has kept). Leaves: one `QuorumEvidence`, which is all that a check sees. Everything here pickles.
Offsets and sizes are int64, times are ms since 1970.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.config import Thresholds, default_thresholds
from kraftlog.decode.tabular import texts_of
from kraftlog.log.batch import ID_SIZE
from kraftlog.log.directory import IS_FOLDER, NO_SEGMENT, UNLISTED, UNSEEN
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.log.sidefiles import PULLED_ID, QuorumState, is_directory_id, refused_meta_properties
from kraftlog.native.kernel import hex_letters
from kraftlog.quorum.health import Health

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.uint64]

UNREMARKABLE = -1
"""Value of `BatchColumns.content` where a batch's records hold nothing that a check asks for."""


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """Record batches in file order, one array element each; of a whole log, or of one checkpoint.

    `file` is the index of the batch's file in `ReplicaEvidence.segments` (0 in a checkpoint).
    `ids` has two 64-bit halves of the hash over all of a batch's bytes. `content` is the index in
    `QuorumEvidence.contents`, or `UNREMARKABLE`.
    """

    file: Ints
    positions: Longs
    sizes: Longs
    base_offsets: Longs
    last_offsets: Longs
    record_counts: Ints
    epochs: Ints
    attributes: Ints
    base_timestamps: Longs
    max_timestamps: Longs
    crc_valid: Flags
    ids: Ids
    content: Ints

    def __len__(self) -> int:
        return len(self.positions)

    def between(self, first: int, end: int) -> "BatchColumns":
        """The batches of rows [first, end)."""
        return BatchColumns(**{name: getattr(self, name)[first:end] for name in self.__slots__})

    def place(self, row: int) -> tuple[int, int]:
        """Where a batch lies: its file, and its position there."""
        return int(self.file[row]), int(self.positions[row])

    def id_text(self, row: int) -> str:
        """A batch's id as `batch_id` of the relations writes it."""
        return str(self.ids[row].astype(">u8").tobytes().hex())


def id_texts(ids: Ids) -> pa.StringArray:
    """Ids as `batch_id` of the relations writes them."""
    return texts_of(hex_letters(ids.astype(">u8").tobytes()), ID_SIZE)


def ids_in(texts: pa.StringArray) -> Ids:
    """What `id_texts` has written."""
    letters = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "")
    return np.frombuffer(bytes.fromhex(letters[0].as_py()), ">u8").reshape(-1, 2).astype(np.uint64)


def no_batches() -> BatchColumns:
    longs, ints = np.empty(0, np.int64), np.empty(0, np.int32)
    flags, ids = np.empty(0, np.bool_), np.empty((0, 2), np.uint64)
    return BatchColumns(
        ints, longs, longs, longs, longs, ints, ints, ints, longs, longs, flags, ids, ints
    )


@dataclass(frozen=True, slots=True)
class RecordIssue:
    """Something about one record that a check asks for. `kind` is a fault kind, or one of
    `content.RULES` or `content.UNKNOWN`. `more` are those like it in the batch that are not kept.
    """

    kind: str
    record_index: int
    text: str
    byte_in_batch: int | None = None
    size_bytes: int | None = None
    more: int = 0


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A control record, or the Begin, End or Abort of a metadata transaction. `data` is None where a
    newer Kafka wrote it in a shape that is unknown: what it says is then not known.
    """

    type: str
    record_index: int
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Content:
    """What is remarkable in one batch's records: known once, however many replicas hold the batch.

    Of `issues` the first of each kind are kept, and the last of these says how many more there are.
    `metadata_version` is the level that it sets it to.
    """

    batch_id: str
    issues: tuple[RecordIssue, ...] = ()
    controls: tuple[ControlRecord, ...] = ()
    transactions: tuple[ControlRecord, ...] = ()
    metadata_version: int | None = None


@dataclass(frozen=True, slots=True)
class SegmentEvidence:
    """One `.log` file: its rows are [first_row, end_row) of the replica's log, `faults` are ranges
    in no sound batch.

    `problem` says why the file could not be read at all. `swap_stop` is the position at which Kafka
    fails in a file that gets its name back, before it cuts anything.
    """

    path: str
    name: str
    base_offset: int
    size_bytes: int
    modified_ms: int
    first_row: int
    end_row: int
    faults: tuple[Fault, ...]
    problem: str | None = None
    swap_stop: int | None = None

    @property
    def called(self) -> str:
        """The file by its name; where no segment of the log is to be seen, the log."""
        return self.name if _is_seen(self.problem or "") else "its log"

    @property
    def reach(self) -> range:
        """The last offsets of batches that Kafka takes in this file: its indexes count offsets from the
        file's name on, in 32 bits. It refuses to start over a batch that is further off.
        """
        return range(self.base_offset, self.base_offset + (1 << 31))


@dataclass(frozen=True, slots=True)
class SnapshotEvidence:
    """One checkpoint file. `type_counts` counts its records by type, `first_of_type` says where
    each type occurs first.

    `kind` tells checkpoint, bootstrap checkpoint, .part and .deleted apart; of the last two only
    the size is known.
    """

    path: str
    name: str
    kind: str
    end_offset: int | None
    epoch: int | None
    name_form: str | None
    size_bytes: int
    modified_ms: int
    batches: BatchColumns
    faults: tuple[Fault, ...]
    type_counts: Mapping[str, int]
    first_of_type: Mapping[str, tuple[int, int]]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that is there by its name and cannot be read."""

    path: str
    kind: str
    text: str
    vanished: bool

    @property
    def name(self) -> str | None:
        """What the file is called; None where no segment is to be seen, whose name nobody knows."""
        return self.path.rsplit("/", 1)[-1] if _is_seen(self.text) else None

    @property
    def words(self) -> str:
        """The same as a sentence without its full stop."""
        return f"{self.name or 'its log'} could not be read ({self.text})"


def _is_seen(problem: str) -> bool:
    """Whether what cannot be read is a file, and not a log of which nobody has seen one."""
    return problem != NO_SEGMENT and not problem.startswith(UNLISTED)


@dataclass(frozen=True, slots=True)
class SideFile:
    """A small file that was parsed: `value` is None and `problem` a sentence where it does not
    follow its format. Of one that is `unread` nothing is known.
    """

    path: str
    modified_ms: int
    value: Any
    problem: str | None = None
    unread: FileProblem | None = None


@dataclass(frozen=True, slots=True)
class IndexEvidence:
    """`.index` (time=False, values are positions) or `.timeindex` (values are timestamps) of the
    segment at `base_offset`. `padding_bytes` were allocated ahead: Kafka gives them back when it
    closes the segment.
    """

    path: str
    base_offset: int
    time: bool
    offsets: Longs
    values: Longs
    surplus_bytes: int
    unread: FileProblem | None = None
    padding_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """A topic partition's folder on a broker. `fate` is delete, future or stray where its name
    says so; `topic_id` is None where its partition.metadata is missing or unreadable.
    """

    path: str
    name: str
    topic: str
    number: int
    fate: str | None
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class ReplicaEvidence:
    """One copy of the metadata log. `log` holds the batches of all segments in the order of their
    names.

    `single_file` is True where a file was named by itself, so that nothing can be said of what
    lies beside it. At `refused_indexes` Kafka throws when it opens the log. `foreign_names` are the paths of files that Kafka takes for its own by their
    endings, and whose names are not as it writes them. `producer_ends` are the offsets in the names
    of producer snapshots: Kafka writes one where the log ends when it rolls a segment or closes the
    log. `set_aside` are the paths of files that begin with a segment's name, and that Kafka does not
    open as one. `bootstrap` is what Kafka reads of bootstrap.checkpoint: the level of metadata.version.
    """

    label: str
    folder: str
    single_file: bool
    log: BatchColumns
    segments: tuple[SegmentEvidence, ...]
    snapshots: tuple[SnapshotEvidence, ...]
    indexes: tuple[IndexEvidence, ...] = ()
    meta_properties: SideFile | None = None
    quorum_state: SideFile | None = None
    epoch_checkpoint: SideFile | None = None
    partition_metadata: SideFile | None = None
    server_properties: SideFile | None = None
    disk_free: SideFile | None = None
    problems: tuple[FileProblem, ...] = ()
    refused_indexes: tuple[FileProblem, ...] = ()
    foreign_names: tuple[str, ...] = ()
    producer_ends: tuple[int, ...] = ()
    set_aside: tuple[str, ...] = ()
    partition_folders: tuple[PartitionFolder, ...] = ()
    bootstrap: SideFile | None = None

    @property
    def unlisted(self) -> str | None:
        """Why the log's folder could not be listed: nothing is known of what lies in it. None where it
        could.
        """
        problems = (one.problem or "" for one in self.segments)
        return next((one for one in problems if one.startswith(UNLISTED)), None)

    @property
    def passed_over(self) -> tuple[SegmentEvidence, ...]:
        """The segments in whose place a folder lies, beside others: Kafka looks at files alone, and goes
        on with those (LogLoader.loadSegmentFiles; seen of 4.1.1). Where there are none, it cannot begin.
        """
        if all(segment.problem for segment in self.segments):
            return ()
        return tuple(segment for segment in self.segments if segment.problem == IS_FOLDER)

    @property
    def is_seen(self) -> bool:
        """False where the folder above could not be listed: nothing beside the log is known either."""
        return not any((one.problem or "").startswith(UNSEEN) for one in self.segments)

    @property
    def unread(self) -> tuple[FileProblem, ...]:
        """The side files and indexes that could not be read."""
        side = (
            self.meta_properties,
            self.quorum_state,
            self.epoch_checkpoint,
            self.partition_metadata,
            self.server_properties,
            self.disk_free,
        )
        found = (one.unread for one in (*side, *self.indexes) if one is not None)
        return tuple(one for one in found if one is not None)

    @property
    def node_id(self) -> int | None:
        """node.id of meta.properties (broker.id of old ones); None for a pulled copy, which is no
        node's disk.
        """
        return None if self.is_pulled else _id_in(self.meta)

    @property
    def run_as(self) -> int | None:
        """The node that the server.properties beside the log configures, where it is not that of
        meta.properties: Kafka does not start with such a disk.
        """
        found = _id_in(self.setting)
        return None if self.node_id in (found, None) else found

    @property
    def of_zookeeper(self) -> bool:
        """Whether it was set up as a broker of ZooKeeper's time: its meta.properties stays as it was
        then.
        """
        return self.meta("node.id") is None and self.meta("broker.id") is not None

    @property
    def is_before_migration(self) -> bool:
        """Whether it may never have had a metadata log: set up on ZooKeeper, it has none, and no trace
        of one.
        """
        has_none = all(one.problem == NO_SEGMENT for one in self.segments)
        return self.of_zookeeper and has_none and self.quorum_state is None

    @property
    def is_pulled(self) -> bool:
        """True for what `kraftlog pull` fetched from a running leader, which holds no file that a node
        alone writes.
        """
        return self.meta("node.id") == PULLED_ID and self.quorum_state is None

    @property
    def refused_meta(self) -> str | None:
        """Why Kafka does not start with its meta.properties, though its values can be read. No node
        starts with a pulled one, which lacks the cluster's id where no controller tells it: before
        Kafka 3.7 none does, and later only to who may ALTER the cluster.
        """
        if self.meta_properties is None or self.meta_properties.value is None or self.is_pulled:
            return None
        if self.meta("node.id") == PULLED_ID:
            return "its node.id is below 0"
        return refused_meta_properties(self.meta_properties.value)

    @property
    def directory_id(self) -> str | None:
        """directory.id of meta.properties, where it is one that Kafka can read."""
        found = self.meta("directory.id")
        return found if found is None or is_directory_id(found) else None

    def meta(self, key: str) -> str | None:
        if self.meta_properties is None or self.meta_properties.value is None:
            return None
        value: str | None = self.meta_properties.value.get(key)
        return value

    def setting(self, key: str) -> str | None:
        """A value of the server.properties beside the log."""
        if self.server_properties is None or not self.server_properties.value:
            return None
        value: str | None = self.server_properties.value.get(key)
        return value

    def setting_list(self, key: str) -> list[str]:
        """The entries of a setting that is a list, as Kafka splits it."""
        parts = (one.strip() for one in (self.setting(key) or "").split(","))
        return [one for one in parts if one]

    @property
    def free_bytes(self) -> int | None:
        """What was free on the node's disk by the output of df beside the log."""
        return None if self.disk_free is None else self.disk_free.value

    @property
    def first_base_offset(self) -> int:
        """Where the log begins for Kafka: at the name of its first segment, whatever its first batch
        is; 0 without one.
        """
        return self.segments[0].base_offset if self.segments else 0

    @property
    def state_file(self) -> QuorumState | None:
        return None if self.quorum_state is None else self.quorum_state.value


@dataclass(frozen=True, slots=True)
class LastFetch:
    """How far the log of a node's disk went when it last fetched from the leader, and when it last
    held all that the leader did, by the leader's clock; 0 for never. An old disk is told of for
    minutes after its node has begun with another one, which does not `vote` before it is a voter.
    """

    node_id: int
    end_offset: int
    fetched_ms: int
    caught_up_ms: int = 0
    directory_id: str | None = None
    votes: bool = True


@dataclass(frozen=True, slots=True)
class Described:
    """What `kafka-metadata-quorum describe` said: it makes the high watermark exact at that
    moment. `fetches` are those of each disk; `path` is the file that it was saved in. Of a `run`: what
    that run of a lake has shown of the copies that it read, which says as much.
    """

    high_watermark: int | None
    leader_id: int | None = None
    leader_epoch: int | None = None
    voters: tuple[int, ...] = ()
    cluster_id: str | None = None
    path: str | None = None
    fetches: tuple[LastFetch, ...] = ()
    run: int | None = None

    @property
    def source(self) -> str:
        """Who says so, in words."""
        return "the describe" if self.run is None else f"run {self.run} of this lake"

    @property
    def why(self) -> str:
        """Why what lies below the high watermark is committed, in words."""
        if self.run is None:
            return "kafka-metadata-quorum describe gave this high watermark"
        return f"run {self.run} of this lake showed it"


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """One key that two images hold differently: its `noun` names the object, `text` says all of it.

    `change` is added, removed or changed, as of a `Difference`; `cleared` marks a list that is
    empty in one of both, `stale_config` a config of a topic that does not exist.
    """

    key: str
    noun: str
    change: str
    text: str
    fields: tuple[str, ...] = ()
    cleared: bool = False
    stale_config: bool = False

    @property
    def key_parts(self) -> tuple[Any, ...]:
        """The parts of the key in its table, of which `key` is the text."""
        return tuple(json.loads(self.key.partition(":")[2]))


@dataclass(frozen=True, slots=True)
class ImageComparison:
    """A snapshot's image against another one. `check` is `snapshot_equals_replay` or
    `snapshots_agree`.

    `other` is the label of the replica whose files the other image came from, `basis` says how, in
    words; `has_base` is False where it is the replay of a log from offset 0 on. `logged` are the keys
    of stale configs that the snapshot lacks, and that records of the log have set.
    """

    check: str
    replica: str
    path: str
    end_offset: int
    epoch: int
    other: str
    basis: str
    differences: tuple[KeyDifference, ...]
    difference_count: int
    has_base: bool = True
    logged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StateIssue:
    """A record that breaks a rule of the state. `check` is the check's name, `row` the batch's row
    in the replica's log.
    """

    check: str
    replica: str
    row: int
    record_index: int
    text: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SnapshotRefusal:
    """The first record of a snapshot at which a load throws, by its `place` in the file, and how many
    there are. Where it is `by_controllers`, other nodes load the file.
    """

    place: int
    type: str
    detail: str
    by_controllers: bool
    count: int = 1


@dataclass(frozen=True, slots=True)
class LossCount:
    """Objects of one table that records added, removed or changed: how many, the first names."""

    table: str
    change: str
    count: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Losses:
    """What a replica loses that is cut at `offset`: objects that its last records changed.

    `objects` is None where the state there cannot be rebuilt; `again` counts, by table, what the
    cluster sets anew by itself.
    """

    offset: int
    objects: tuple[LossCount, ...] | None
    again: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateEvidence:
    """What the history of the state showed. `skipped` is (check, replica, why) for what could not
    be judged; `judged` names the checks that judged something, `ranges` the offsets [start, end)
    of the quorum's history whose records were held against the rules; `health` is what the newest
    state says, None where it is not known. `losses` says what goes with the end of a log, by the
    replica's label and the offset from which on, or what only a snapshot still holds, by its path; `apart`, by the labels of two replicas, what the
    first has otherwise than the second at the end of what both hold. `refusals` are the snapshots
    that a node cannot load, by path.
    """

    comparisons: tuple[ImageComparison, ...] = ()
    issues: tuple[StateIssue, ...] = ()
    skipped: tuple[tuple[str, str, str], ...] = ()
    judged: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    health: Health | None = None
    losses: Mapping[tuple[str, int], Losses] = field(default_factory=dict)
    apart: Mapping[tuple[str, str], Losses] = field(default_factory=dict)
    refusals: Mapping[str, SnapshotRefusal] = field(default_factory=dict)


def _id_in(value: Callable[[str], str | None]) -> int | None:
    """The node id among the values of a file, by its new or its old name."""
    text = value("node.id") or value("broker.id")
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class QuorumEvidence:
    """All replicas of one quorum.

    `contents` is what `BatchColumns.content` points into. `words` describes records of batches
    that replicas hold differently, by batch id, one text per record. `remembered` is what an earlier
    run of the lake showed to be committed, where no copy at hand holds it; `on_other_disks` says that no
    run up to that one read a voter's disk that is at hand; `set_back` are the disks of
    which one showed more than their copies hold now: the end of that, and the run. `state` is None
    where nothing was replayed. `limits` are those that the files were read by, and are to be read by again: ids of
    batches are made under their key. `left_out` is what lies below an input and nobody looked into.
    """

    replicas: tuple[ReplicaEvidence, ...]
    contents: tuple[Content, ...]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    described: Described | None = None
    remembered: Described | None = None
    on_other_disks: bool = False
    set_back: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    state: StateEvidence | None = None
    thresholds: Thresholds = field(default_factory=default_thresholds)
    limits: Limits = field(default_factory=Limits)
    left_out: tuple[FileProblem, ...] = ()
