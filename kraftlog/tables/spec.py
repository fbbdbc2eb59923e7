"""Every table of the lake, declared: name, grain, columns with comments, partitioning, and how a
run writes it.

Three ways of writing: `content` tables grow by what is new and never change a row; `current` tables
hold what lies on the disks now, replaced file by file; `per_run` tables get one set of rows per
run.
"""

from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from kraftlog import relations
from kraftlog.quorum.detect import TYPE_COUNTS
from kraftlog.relations import BOOL, INT, LONG, TEXT, TIMESTAMP, Relation, column
from kraftlog.state.history import history_tables

CONTENT, CURRENT, PER_RUN = "content", "current", "per_run"


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One Delta table. `mode` is CONTENT, CURRENT or PER_RUN."""

    name: str
    grain: str
    schema: pa.Schema
    mode: str
    partition_by: tuple[str, ...] = ()


RUN_ID = column("run_id", TEXT, "the run that wrote the row: a hash of its input")

RUNS = TableSpec(
    "runs",
    "one row per run that found something new",
    pa.schema(
        [
            RUN_ID,
            column("number", LONG, "1 for the first run of this lake, and so on"),
            column("started", TIMESTAMP, "when the run began"),
            column("finished", TIMESTAMP, "when its records were committed"),
            column("kraftlog_version", TEXT, "version of kraftlog"),
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
        ]
    ),
    PER_RUN,
)

_JUDGED = pa.struct(
    [
        column("replica", TEXT, "label of the copy; null: the history of all copies together"),
        column("start_offset", LONG, "first offset that was looked at"),
        column("end_offset", LONG, "end of what was looked at (exclusive)"),
    ]
)

CHECK_RESULTS = TableSpec(
    "check_results",
    "one row per check and run",
    pa.schema(
        [
            RUN_ID,
            column("check", TEXT, "name of the check"),
            column("severity", TEXT, "critical, warning or info"),
            column("scope", TEXT, "log, snapshot, replica or state"),
            column("result", TEXT, "passed, failed, errored or skipped"),
            column("finding_count", LONG, "bad rows"),
            column("reason", TEXT, "what it could not judge and why, or what error it met"),
            column("judged", pa.list_(_JUDGED), "over which copies and offsets it judged"),
            column("is_gap", BOOL, "whether it lacked something that a person could supply"),
            column("source", TEXT, "section of a KIP, ticket, or case behind it"),
        ]
    ),
    PER_RUN,
)

VERDICTS = TableSpec(
    "verdicts",
    "one row per run",
    pa.schema(
        [
            RUN_ID,
            column("verdict", TEXT, "sound, incomplete, attention or critical"),
            column("headline", TEXT, "the same in words, as the terminal and the page say it"),
            column("voters", pa.list_(INT), "the newest voter set; null where nothing says it"),
            column("missing_voters", pa.list_(INT), "voters of whom there is no copy"),
            column("not_judged", TEXT, "checks that could not judge everything, and why, as JSON"),
            column("committed_lower", LONG, "every offset below it is committed"),
            column("committed_upper", LONG, "none from it on was ever committed; null: unknown"),
            column("lagging", TEXT, "replicas that are far behind, as JSON"),
        ]
    ),
    PER_RUN,
)

RESTART_PLAN = TableSpec(
    "restart_plan",
    "one row per replica and run",
    pa.schema(
        [
            RUN_ID,
            column("replica", TEXT, "label of the copy"),
            column("node_id", INT, "its node id"),
            column("who", TEXT, "the node as a person calls it: controller 2, broker 12"),
            column("role", TEXT, "voter, observer or unknown"),
            column("verdict", TEXT, "may it be restarted: safe, loses, unsafe or unknown"),
            column("reason", TEXT, "why"),
            column("lost_from", LONG, "first offset of the records that a restart throws away"),
            column("lost", TEXT, "objects lost with them, by name, as JSON; null: not known"),
            column("needs", pa.list_(INT), "voters whose copies would settle what is unknown"),
            column("order", LONG, "place in a rolling restart; null: leave it stopped"),
        ]
    ),
    PER_RUN,
)

FINDINGS = TableSpec(
    "findings",
    "one row per finding and run",
    pa.schema(
        [
            RUN_ID,
            column("check", TEXT, "name of the check"),
            column("severity", TEXT, "critical, warning or info"),
            column("scope", TEXT, "log, snapshot, replica or state"),
            column("result", TEXT, "failed or errored"),
            column("replica", TEXT, "the copy that is meant"),
            column("node_id", INT, "its node id"),
            column("path", TEXT, "the file"),
            column("position", LONG, "byte place in the file"),
            column("offset", LONG, "first log offset that is meant"),
            column("end_offset", LONG, "offset after the last that is meant"),
            relations.EPOCH,
            column("other_replica", TEXT, "the copy that it was compared with"),
            column("message", TEXT, "one sentence: what is wrong, and what to do"),
            column("evidence", TEXT, "details as JSON"),
        ]
    ),
    PER_RUN,
)

CONTRACT_RESULTS = TableSpec(
    "contract_results",
    "one row per contract of a published table, or of a check, and run",
    pa.schema(
        [
            RUN_ID,
            column("suite", TEXT, "suite of expectations: a file of conf/expectations, or audit"),
            column("table_name", TEXT, "the table that it is about"),
            column("expectation", TEXT, "type of the expectation"),
            column("subject", TEXT, "column, count or check that it looks at"),
            column("severity", TEXT, "critical, warning or info"),
            column("result", TEXT, "passed, failed, errored or skipped"),
            column("observed", TEXT, "what was seen, as JSON"),
            column("reason", TEXT, "why the contract is there"),
            column("detail", TEXT, "why it was skipped, or what error it met"),
        ]
    ),
    PER_RUN,
)


def _without_place(relation: Relation) -> pa.Schema:
    place = {field.name for field in relations.PLACE}
    return pa.schema([field for field in relation.schema if field.name not in place])


def per_run(relation: Relation) -> TableSpec:
    schema = pa.schema([RUN_ID, *relation.schema])
    return TableSpec(relation.name, f"{relation.grain} and run", schema, PER_RUN)


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
)


LINEAGES = TableSpec(
    "lineages",
    "one row per unbroken stretch of a lineage, and run",
    pa.schema(
        [
            RUN_ID,
            column("lineage", TEXT, "main, or the label of a replica that contradicts the others"),
            column("fork_offset", LONG, "below it the lineage is main; 0: it shares no beginning"),
            column("stretch", INT, "0 for the first; a hole in the log ends a stretch"),
            column("start_offset", LONG, "first offset at which the state is known"),
            column("end_offset", LONG, "last offset at which the state is known"),
            column("base_end_offset", LONG, "end offset of its base snapshot; null: none"),
            column("base_epoch", LONG, "epoch of its base snapshot"),
            column("batch_count", LONG, "record batches that follow the base"),
            column("digest", TEXT, "hash over the ids of the base's and these batches"),
        ]
    ),
    PER_RUN,
)

REPLAY_FAULTS = TableSpec(
    "replay_faults",
    "one row per record that has no effect on the state, lineage and run",
    pa.schema(
        [
            RUN_ID,
            column("lineage", TEXT, "main, or the label of a replica that contradicts the others"),
            column("offset", LONG, "log offset of the record; null: it is in the base snapshot"),
            column("timestamp", TIMESTAMP, "the record's timestamp"),
            relations.EPOCH,
            column("type", TEXT, "type of the record"),
            column("kind", TEXT, "why it has no effect"),
            column("detail", TEXT, "the same in words"),
        ]
    ),
    PER_RUN,
)

JUDGED = TableSpec(
    "judged",
    "one row per thing that the partitions' records of main have shown, and run: the next run over "
    "grown input judges only what is new",
    pa.schema(
        [
            RUN_ID,
            column("offset", LONG, "log offset of the record, or end offset of the snapshot"),
            column("shown", TEXT, "a check; or judged_until, leaders, snapshot_compared"),
            column("message", TEXT, "what the check says; else a version, or a hash of a snapshot"),
            column("evidence", TEXT, "what goes with it, as JSON"),
            column("more", LONG, "how many more of its kind there are that are not kept"),
        ]
    ),
    PER_RUN,
)


@cache
def decoded_tables() -> dict[str, TableSpec]:
    """The tables that the decode step writes, in the order of their commits; `runs` is the last."""
    records, control = relations.records(), relations.control_records()
    grain = "one row per record of a distinct record batch"
    specs = [
        TableSpec("records", grain, _without_place(records), CONTENT, ("type",)),
        TableSpec("control_records", grain, _without_place(control), CONTENT, ("type",)),
        RECORD_FAULTS,
        CONTENTS,
        # Of these two each Parquet file holds rows of one path, which its statistics tell. A folder
        # of that name would be too long a name.
        TableSpec("faults", relations.FAULTS.grain, relations.FAULTS.schema, CURRENT),
        TableSpec("batches", relations.BATCHES.grain, relations.BATCHES.schema, CURRENT),
        TableSpec("files", relations.FILES.grain, relations.FILES.schema, CURRENT),
        RUNS,
    ]
    return {spec.name: spec for spec in specs}


LINEAGE = column(
    "lineage", TEXT, "main, or the label of a replica whose log contradicts the others"
)


IS_CURRENT = column("is_current", BOOL, "whether it still holds at its lineage's end")


@cache
def state_tables() -> dict[str, TableSpec]:
    """The history tables: replaced by each run, but for the partitions' versions that had ended
    when the shared lineage only grew: nothing can change them any more.
    """
    return {
        name: TableSpec(
            name,
            relation.grain,
            pa.schema([LINEAGE, IS_CURRENT, *relation.schema]),
            CURRENT,
            ("lineage", "is_current"),
        )
        for name, relation in history_tables().items()
    }
