"""The contracts between the rooms: name, grain and Arrow schema of every DataFrame that passes from
one to another.

Rooms agree on nothing else. Times are UTC with microseconds, offsets and sizes int64; every column
says what it holds.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa

from kraftlog.message.catalogue import control_specs, metadata_specs
from kraftlog.message.message_spec import FieldSpec, MessageSpec

TIMESTAMP = pa.timestamp("us", "UTC")
TEXT, INT, LONG, BOOL = pa.string(), pa.int32(), pa.int64(), pa.bool_()
DOUBLE = pa.float64()
Row = dict[str, Any]
"""A row of any of them, by the names of its columns."""


def moment(milliseconds: float | None) -> datetime | None:
    """Kafka's milliseconds as a time; None where there are none, or no calendar holds it."""
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def moment_text(milliseconds: float) -> str:
    """The same in words; the number itself where no calendar holds it."""
    at = moment(milliseconds)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else str(milliseconds)


@dataclass(frozen=True, slots=True)
class Relation:
    """A name, a grain ("one row per …") and a schema whose fields carry comments."""

    name: str
    grain: str
    schema: pa.Schema


def column(name: str, kind: pa.DataType, comment: str) -> pa.Field:
    return pa.field(name, kind, metadata={"comment": comment})


def relation(name: str, grain: str, *columns: pa.Field) -> Relation:
    return Relation(name, grain, pa.schema(columns))


REPLICA = column("replica", TEXT, "label of the copy: the path from the input root to its folder")
PATH = column("path", TEXT, "the file, as found below the input root")
POSITION = column("position", LONG, "byte place of the batch in its file")
FILE_KIND = column("file_kind", TEXT, "kind of the file: log, checkpoint, bootstrap_checkpoint, …")
BATCH_ID = column(
    "batch_id",
    TEXT,
    "hash over the record batch, in a lake under its key: equal ids, equal batches",
)
EPOCH = column("batch_leader_epoch", INT, "leader epoch in the record batch's header")

FILES = relation(
    "files",
    "one row per file of a replica",
    REPLICA,
    PATH,
    column("name", TEXT, "the file's name"),
    column("kind", TEXT, "what kind of file its name says it is"),
    column("size_bytes", LONG, "size when it was listed"),
    column("modified", TIMESTAMP, "modification time when it was listed"),
    column("modified_ns", LONG, "the same, in nanoseconds since 1970"),
    column("base_offset", LONG, "first offset by the name of a segment's file"),
    column("end_offset", LONG, "end offset (exclusive) by the name of a snapshot"),
    column("epoch", LONG, "epoch by the name of a snapshot"),
    column("name_form", TEXT, "how a snapshot's name is written: shipped, or one of the KIP's"),
    column("problem", TEXT, "why the file could not be read; null where it could"),
    column("content", TEXT, "what a side file says, as JSON; null for other files"),
    column("padding_bytes", LONG, "zero bytes that Kafka allocated ahead in an index"),
    column(
        "content_hash",
        TEXT,
        "hash of the bytes of a side file, or of an index that is not allocated ahead; null for others",
    ),
)

BATCHES = relation(
    "batches",
    "one row per record batch per replica",
    REPLICA,
    PATH,
    FILE_KIND,
    POSITION,
    BATCH_ID,
    column("base_offset", LONG, "offset of the first record (in a checkpoint: place in the file)"),
    column("last_offset", LONG, "offset of the last record, inclusive"),
    column("size_bytes", LONG, "size of the whole batch"),
    EPOCH,
    column("magic", INT, "format of the batch: 2"),
    column(
        "crc", LONG, "the CRC-32C in the header; null in a lake, where it would tell of secrets"
    ),
    column("crc_valid", BOOL, "whether that is the CRC-32C of the bytes"),
    column("attributes", INT, "attribute bits as stored"),
    column("compression", TEXT, "none, gzip, snappy, lz4, zstd or unknown(n)"),
    column("is_control", BOOL, "control batch"),
    column("is_transactional", BOOL, "transactional bit"),
    column("base_timestamp", TIMESTAMP, "timestamp of the first record"),
    column("max_timestamp", TIMESTAMP, "largest timestamp"),
    column("producer_id", LONG, "producer id, −1 for none"),
    column("producer_epoch", INT, "producer epoch, −1 for none"),
    column("base_sequence", INT, "base sequence, −1 for none"),
    column("record_count", INT, "number of records by the header"),
)

FAULTS = relation(
    "faults",
    "one row per range of bytes, or record, that cannot be read",
    REPLICA,
    PATH,
    FILE_KIND,
    column("fault", TEXT, "what kind of damage"),
    column("position", LONG, "first byte of the damage in its file"),
    column("size_bytes", LONG, "how many bytes it covers"),
    column("detail", TEXT, "what was found, in words"),
    column("batch_position", LONG, "byte place of the batch that holds it, where there is one"),
    column("offset", LONG, "log offset that is meant, where it can be known"),
    EPOCH,
    column("record_index", INT, "place of the record in its batch"),
    column("content_hash", TEXT, "hash of the raw bytes, to compare replicas"),
)

EPOCHS = relation(
    "epochs",
    "one row per leader epoch of a replica's log",
    REPLICA,
    EPOCH,
    column("start_offset", LONG, "base offset of the epoch's first batch"),
    column("end_offset", LONG, "offset after the epoch's last batch"),
    column("start_timestamp", TIMESTAMP, "base timestamp of the first batch"),
    column("batch_count", LONG, "number of batches"),
    column("size_bytes", LONG, "size of the batches"),
    column(
        "leader_id",
        INT,
        "leader by the epoch's LeaderChange record, here or in another copy, or by a quorum-state; null where nothing tells",
    ),
    column("has_leader_change", BOOL, "whether its first batch is its LeaderChange record"),
)

REPLICAS = relation(
    "replicas",
    "one row per replica",
    REPLICA,
    column("folder", TEXT, "the log's folder"),
    column("node_id", INT, "node.id of meta.properties"),
    column("directory_id", TEXT, "directory.id of meta.properties"),
    column("cluster_id", TEXT, "cluster.id of meta.properties"),
    column("role", TEXT, "voter, observer, or unknown"),
    column(
        "log_start_offset",
        LONG,
        "base offset of the first batch; of a snapshot where there is none",
    ),
    column(
        "log_end_offset",
        LONG,
        "offset after the last valid batch; null where the last segment could not be read",
    ),
    column("last_epoch", INT, "leader epoch of the last valid batch"),
    column("epochs", pa.list_(pa.list_(LONG)), "[leader epoch, start offset] of each epoch"),
    column("epoch_count", LONG, "size of that vector"),
    column("epoch_checkpoint_count", LONG, "entries of leader-epoch-checkpoint; null without one"),
    column(
        "epoch_checkpoint_pruned",
        BOOL,
        "whether none of them begins below the log start; else Kafka has not pruned it since",
    ),
    column("snapshots", pa.list_(pa.list_(LONG)), "[end offset, epoch] of each snapshot"),
    column("newest_timestamp", TIMESTAMP, "time of the newest batch in the log"),
    column(
        "snapshot_timestamp",
        TIMESTAMP,
        "time of the last record in the newest whole snapshot; null where none tells one",
    ),
    column(
        "committed_lower",
        LONG,
        "every offset below it is known to be committed; null: of another cluster",
    ),
    column("committed_upper", LONG, "none from it on was ever committed; null: nothing proves it"),
    column(
        "shown_end_offset",
        LONG,
        "up to where its log is known to be the quorum's history: below its end where it leaves that, or where newer logs begin behind it; null: of another cluster",
    ),
)

UNKNOWN_TAG = pa.struct([("path", TEXT), ("tag", LONG), ("hex", TEXT)])

PLACE = [REPLICA, PATH, FILE_KIND, POSITION]
"""Where a record was read. In the lake a record is kept once, and `batches` says who holds its
batch where.
"""

ENVELOPE = [
    BATCH_ID,
    column("record_index", INT, "place of the record in its batch"),
    column(
        "offset",
        LONG,
        "log offset (in a checkpoint: place in the file): in a lake by the record's place in its batch, as Kafka takes it, else by its frame",
    ),
    column("timestamp", TIMESTAMP, "the record's timestamp"),
    EPOCH,
    column("type", TEXT, "record type as Kafka's dump tool prints it"),
    column("record_version", INT, "version of the record's message"),
    column("timestamp_delta", LONG, "timestamp delta in the record's frame; Kafka writes 0"),
    column("offset_delta", INT, "offset delta in the record's frame"),
    column("key_size_bytes", INT, "size of the key; null where there is none"),
    column("value_size_bytes", INT, "size of the value; null where there is none"),
    column(
        "header_count",
        INT,
        "number of record headers; Kafka writes none, and sees none where the record ends with a 0",
    ),
    column(
        "unknown_tagged_fields",
        pa.list_(UNKNOWN_TAG),
        "tagged fields that the message spec does not know; hex is a keyed hash of the value",
    ),
    column("raw", TEXT, "keyed hash of a value whose type or version is unknown"),
]


@cache
def arrow_type(field: FieldSpec) -> pa.DataType:
    """The column type of a field: uuid and bytes are Kafka's base64 text, as in its JSON."""
    if field.element is not None:
        return pa.list_(_scalar_type(field.element, field))
    return _scalar_type(field.type, field)


def _scalar_type(kind: str, field: FieldSpec) -> pa.DataType:
    if kind == "struct":
        return struct_type(field.fields)
    return {
        "int8": pa.int8(),
        "int16": pa.int16(),
        "uint16": pa.int32(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "boolean": pa.bool_(),
    }.get(kind, pa.string())


@cache
def struct_type(fields: tuple[FieldSpec, ...]) -> pa.StructType:
    """The columns of a message over all its versions; a field that a version lacks is null
    there.
    """
    return pa.struct([pa.field(one.name, arrow_type(one)) for one in fields])


def payload_name(spec: MessageSpec) -> str:
    """The column that holds a record type's fields: PARTITION_CHANGE_RECORD →
    partition_change_record.
    """
    return spec.type.lower()


def payload_fields(specs: dict[int, MessageSpec]) -> list[pa.Field]:
    """One struct column per record type that has fields at all (Delta refuses empty structs)."""
    return [
        column(
            payload_name(spec),
            struct_type(spec.fields),
            f"fields of {spec.name}; null in other rows",
        )
        for spec in specs.values()
        if spec.fields
    ]


@cache
def records() -> Relation:
    """Metadata records: the envelope, and one struct column per record type, null in rows of other
    types.
    """
    fields = [*PLACE, *ENVELOPE, *payload_fields(metadata_specs())]
    return relation("records", "one row per metadata record", *fields)


@cache
def control_records() -> Relation:
    """Control records (LEADER_CHANGE, SNAPSHOT_HEADER, …), in the same shape."""
    fields = [*PLACE, *ENVELOPE, *payload_fields(control_specs())]
    return relation("control_records", "one row per control record", *fields)


def all_relations() -> dict[str, Relation]:
    """Every relation of the data source, by name."""
    every = [FILES, BATCHES, records(), control_records(), FAULTS, REPLICAS, EPOCHS]
    return {one.name: one for one in every}
