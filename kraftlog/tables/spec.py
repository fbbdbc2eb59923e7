"""Every table of the lake, declared: name, grain, columns with comments, partitioning, and how a
run writes it.

Four ways of writing: `content` tables grow by what is new and never change a row; `current` tables
hold what lies on the disks now, replaced file by file; `growing` tables hold what follows from the
shared log, and grow while that only grows; `per_run` tables get one set of rows per run.
"""

import json
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from kraftlog import relations
from kraftlog.quorum.detect import TYPE_COUNTS
from kraftlog.relations import BOOL, INT, LONG, TEXT, TIMESTAMP, Relation, Row, column
from kraftlog.state.history import history_tables
from kraftlog.tables.promise import (
    Promise,
    among,
    at_least,
    expected,
    known,
    none,
    not_below,
    unique,
)

CONTENT, CURRENT, GROWING, PER_RUN = "content", "current", "growing", "per_run"


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One Delta table. `mode` is CONTENT, CURRENT, GROWING or PER_RUN; `promises` are what a reader
    may rely on, `suite` names the tables that are judged together, and `json` the columns whose
    text is JSON, of values that rows hold as they are.
    """

    name: str
    grain: str
    schema: pa.Schema
    mode: str
    partition_by: tuple[str, ...] = ()
    promises: tuple[Promise, ...] = ()
    suite: str = ""
    json: tuple[str, ...] = ()

    @property
    def is_by_file(self) -> bool:
        """Whether its files are replaced one by one, or all at once, so that none are gathered."""
        return self.mode == CURRENT and not self.partition_by

    def as_text(self, row: Row) -> Row:
        """A row as the table holds it: of JSON, objects by their keys, and lists as they are told."""
        given = {name: row[name] for name in self.json if row[name] is not None}
        return row | {
            name: json.dumps(value, sort_keys=not isinstance(value, list), default=str)
            for name, value in given.items()
        }

    def as_values(self, row: Row) -> Row:
        """Some columns of a row of the table as they were, without the run's id."""
        texts = {name: row[name] for name in self.json if row.get(name) is not None}
        values = {name: json.loads(text) for name, text in texts.items()}
        return {name: value for name, value in row.items() if name != RUN_ID.name} | values


RUN_ID = column("run_id", TEXT, "the run that wrote the row: a hash of its input")


def per_run(
    name: str,
    grain: str,
    *columns: pa.Field,
    promises: tuple[Promise, ...] = (),
    json: tuple[str, ...] = (),
) -> TableSpec:
    """A table of which each run writes its own rows; the columns are those beside `run_id`."""
    schema = pa.schema([RUN_ID, *columns])
    return TableSpec(name, grain, schema, PER_RUN, promises=promises, json=json)


RUNS = per_run(
    "runs",
    "one row per run that found something new",
    column("number", LONG, "1 for the first run of this lake, and so on"),
    column("started", TIMESTAMP, "when the run began"),
    column("finished", TIMESTAMP, "when its records were committed"),
    column("kraftlog_version", TEXT, "version of kraftlog"),
    column("batch_limit_bytes", LONG, "the largest record batch that it would read"),
    column("decompress_limit_bytes", LONG, "what a record batch might unpack to"),
    column("describe_hash", TEXT, "hash of what the named describe says; null: none was named"),
    column(
        "masks", TEXT, "which key masks secrets, told under the lake's own; none: they are shown"
    ),
    column("inputs", pa.list_(TEXT), "the input roots"),
    column("replica_count", LONG, "replicas found"),
    column("file_count", LONG, "files found"),
    column("read_file_count", LONG, "files read: new ones, and ones that had changed"),
    column(
        "changed_in_place_count",
        LONG,
        "files read again whose content had changed under the same size and time",
    ),
    column("batch_count", LONG, "record batches in the files that were read"),
    column("new_batch_count", LONG, "of these, contents that no run had stored before"),
    column("record_count", LONG, "records decoded and stored by this run"),
    column("fault_count", LONG, "faults in the files that were read"),
    promises=(
        expected(
            "table_row_count_to_be_between",
            "every other table names its run by this id, so that it must belong to one run only",
            min_value=1,
            max_value=1,
        ),
        at_least(
            "number",
            1,
            "runs are counted from 1, and a step is repeated or left out by that number",
        ),
        not_below("finished", "started", "a run ends after it began"),
        not_below(
            "file_count", "read_file_count", "files that were read are among those that were found"
        ),
        not_below(
            "batch_count", "new_batch_count", "new contents are among the batches that were read"
        ),
    ),
)


EPOCHS = per_run("epochs", f"{relations.EPOCHS.grain} and run", *relations.EPOCHS.schema)

CONTENTS = TableSpec(
    "contents",
    "one row per distinct record batch that has been decoded",
    pa.schema(
        [
            relations.BATCH_ID,
            column("base_offset", LONG, "offset of the first record"),
            relations.EPOCH,
            column("record_count", INT, "number of records by the header"),
            column(
                "remarkable",
                BOOL,
                "holds control records, transactions, faults, or records that break a rule",
            ),
            column("record_types", TYPE_COUNTS, "its record types, in the order of their first"),
        ]
    ),
    CONTENT,
    promises=(
        none(
            "incomplete_rows",
            "each content is known by its id, and says how many records it has",
            nulls_in=("batch_id", "base_offset", "batch_leader_epoch", "record_count"),
        ),
        none(
            "repeated_contents",
            "equal batches are decoded once, however many replicas and runs hold them",
            repeated=("batch_id",),
        ),
        none(
            "incomplete_contents",
            "every record of a batch that can be read is stored exactly once, in one of two tables",
            incomplete={
                "column": "batch_id",
                "count": "record_count",
                "parts": ("records", "control_records"),
                "unless_in": "record_faults",
            },
        ),
    ),
)

RECORD_FAULTS = TableSpec(
    "record_faults",
    "one row per record of a distinct, valid batch that cannot be read",
    pa.schema(
        [
            relations.BATCH_ID,
            column("fault", TEXT, "what kind of damage"),
            column(
                "relative_position",
                LONG,
                "first byte of the damage, counted from the batch's start",
            ),
            column("size_bytes", LONG, "how many bytes it covers"),
            column("detail", TEXT, "what was found, in words"),
            column("offset", LONG, "log offset that is meant"),
            relations.EPOCH,
            column("record_index", INT, "place of the record in its batch"),
            column("content_hash", TEXT, "hash of the raw bytes"),
        ]
    ),
    CONTENT,
    promises=(
        none(
            "incomplete_rows",
            "damage inside a batch is placed in it, for every replica that holds the batch",
            nulls_in=("batch_id", "fault", "relative_position", "size_bytes", "detail"),
        ),
        none(
            "unknown_kinds",
            "checks tell damage apart by these words",
            outside={"column": "fault", "values": "@fault_kinds"},
        ),
        none(
            "foreign_faults",
            "a fault of a batch that is not stored points nowhere",
            orphans={"column": "batch_id", "missing_from": "contents"},
        ),
    ),
)


LINEAGES = per_run(
    "lineages",
    "one row per unbroken stretch of a lineage, and run",
    column("lineage", TEXT, "main, or the label of a replica that contradicts the others"),
    column("fork_offset", LONG, "below it the lineage is main; 0: it shares no beginning"),
    column("stretch", INT, "0 for the first; a hole in the log ends a stretch"),
    column("start_offset", LONG, "first offset at which the state is known"),
    column("end_offset", LONG, "last offset at which the state is known"),
    column("base_end_offset", LONG, "end offset of its base snapshot; null: none"),
    column("base_epoch", LONG, "epoch of its base snapshot"),
    column("batch_count", LONG, "record batches that follow the base"),
    column("digest", TEXT, "hash over the ids of the base's and these batches"),
    promises=(
        unique(
            "lineage",
            "stretch",
            why="one row per stretch: no copy's own history has the name of another",
        ),
    ),
)

REPLAY_FAULTS = per_run(
    "replay_faults",
    "one row per record that has no effect on the state, lineage and run",
    column("lineage", TEXT, "main, or the label of a replica that contradicts the others"),
    column("offset", LONG, "log offset of the record; null: it is in the base snapshot"),
    column("timestamp", TIMESTAMP, "the record's timestamp"),
    relations.EPOCH,
    column("type", TEXT, "type of the record"),
    column("kind", TEXT, "why it has no effect"),
    column("detail", TEXT, "the same in words"),
)


_OF_RECORDS = (
    none(
        "incomplete_rows",
        "a record is found by its batch, its place there, its offset and its type",
        nulls_in=("batch_id", "record_index", "offset", "batch_leader_epoch", "type"),
    ),
    none(
        "negative_indexes",
        "records are counted from 0 in their batch",
        rows_where="record_index < 0",
    ),
    none(
        "foreign_records",
        "a record without its content is what a killed run left and nobody took back",
        orphans={"column": "batch_id", "missing_from": "contents"},
    ),
)
_OF_FAULTS = (
    none(
        "incomplete_rows",
        "damage says where it is, how large, and what was found",
        nulls_in=("replica", "path", "file_kind", "fault", "position", "size_bytes", "detail"),
    ),
    none(
        "unknown_kinds",
        "checks tell damage apart by these words",
        outside={"column": "fault", "values": "@fault_kinds"},
    ),
    none(
        "negative_places", "positions count from the start of the file", rows_where="position < 0"
    ),
)
_OF_BATCHES = (
    none(
        "incomplete_rows",
        "a batch without its place, size and verdict cannot be accounted for",
        nulls_in=(
            "replica",
            "path",
            "file_kind",
            "position",
            "size_bytes",
            "base_offset",
            "crc_valid",
        ),
    ),
    none(
        "repeated_places",
        "one batch per place; a file that is read again replaces its rows",
        repeated=("path", "position"),
    ),
    none(
        "negative_positions",
        "positions count from the start of the file",
        rows_where="position < 0",
    ),
    none(
        "empty_batches",
        "a batch is at least its header; bytes of batches and faults add up to the file",
        rows_where="size_bytes <= 0",
    ),
    none(
        "unknown_contents",
        "the records of every valid batch can be found by its id; a copy that was cut or rewritten between the two passes leaves batches that the next run corrects",
        severity="warning",
        orphans={"column": "batch_id", "missing_from": "contents", "when": "crc_valid"},
    ),
)
_OF_FILES = (
    none(
        "incomplete_rows",
        "a file that cannot be read is still named, and its change is seen by its time",
        nulls_in=("replica", "path", "name", "kind", "modified_ns"),
    ),
    none(
        "repeated_paths",
        "one row per file; the next run compares each with the disk",
        repeated=("path",),
    ),
    none("negative_sizes", "sizes are added up", rows_where="size_bytes < 0"),
)


@cache
def decoded_tables() -> dict[str, TableSpec]:
    """The tables that the decode step writes, in the order of their commits; `runs` is the last."""
    specs = [
        _of_contents(relations.records()),
        _of_contents(relations.control_records()),
        RECORD_FAULTS,
        CONTENTS,
        # Of these two each Parquet file holds rows of one path, which its statistics tell. A folder
        # of that name would be too long a name.
        _of_disks(relations.FAULTS, _OF_FAULTS),
        _of_disks(relations.BATCHES, _OF_BATCHES),
        _of_disks(relations.FILES, _OF_FILES),
        RUNS,
    ]
    return {spec.name: spec for spec in specs}


def _of_contents(relation: Relation) -> TableSpec:
    place = {field.name for field in relations.PLACE}
    schema = pa.schema([field for field in relation.schema if field.name not in place])
    grain = "one row per record of a distinct record batch"
    return TableSpec(relation.name, grain, schema, CONTENT, ("type",), promises=_OF_RECORDS)


def _of_disks(relation: Relation, promises: tuple[Promise, ...]) -> TableSpec:
    return TableSpec(relation.name, relation.grain, relation.schema, CURRENT, promises=promises)


LINEAGE = column(
    "lineage", TEXT, "main, or the label of a replica whose log contradicts the others"
)

REPLICAS = per_run(
    "replicas",
    f"{relations.REPLICAS.grain} and run",
    *relations.REPLICAS.schema,
    LINEAGE,
    promises=(
        known("replica", "findings and batches name their copy by it"),
        unique("replica", why="one row per replica and run"),
        among(
            "role",
            ("voter", "observer", "unknown"),
            "who counts towards a majority is decided by it",
        ),
        not_below(
            "committed_upper",
            "committed_lower",
            "what is known to be committed cannot lie above what can be committed",
            where_both=True,
        ),
    ),
)


IS_CURRENT = column("is_current", BOOL, "whether it still holds at its lineage's end")


_OF_HISTORIES = (
    none(
        "incomplete_rows",
        "a version says whose it is, from where on it holds, and what began it",
        nulls_in=("lineage", "valid_from_offset", "record_type", "batch_leader_epoch"),
    ),
    none(
        "empty_versions",
        "a version that holds at no offset was never seen by anybody",
        rows_where="valid_to_offset <= valid_from_offset",
    ),
    none(
        "later_records",
        "a record at offset o counts from o + 1 on",
        rows_where="record_offset >= valid_from_offset",
    ),
)
"""What all history tables have in common: `valid_from_offset <= N and (valid_to_offset is null or
N < valid_to_offset)` gives the state at offset N.
"""


@cache
def state_tables() -> dict[str, TableSpec]:
    """The history tables: replaced by each run, but for the versions that had ended when the shared
    lineage only grew: nothing can change them any more.
    """
    return {
        name: TableSpec(
            name,
            relation.grain,
            pa.schema([LINEAGE, IS_CURRENT, *relation.schema]),
            CURRENT,
            ("lineage", "is_current"),
            promises=_OF_HISTORIES,
            suite="history",
        )
        for name, relation in history_tables().items()
    }
