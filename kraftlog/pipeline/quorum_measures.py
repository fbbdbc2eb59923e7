"""The tables of measures of the quorum as a whole, each with what fills it: elections, disks,
costs, settings.
"""

import pyarrow as pa

from kraftlog import relations
from kraftlog.metrics.configuration import configuration_rows
from kraftlog.metrics.costs import cost_rows
from kraftlog.metrics.disk_use import disk_rows
from kraftlog.metrics.elections import elections_of
from kraftlog.pipeline.derive import Rows, table
from kraftlog.pipeline.shared_measures import SharedMeasures
from kraftlog.relations import BOOL, DOUBLE, INT, LONG, TEXT, TIMESTAMP, column
from kraftlog.tables.promise import among, at_least, not_below, unique


@table(
    "elections",
    "leader epoch of the shared log",
    relations.EPOCH,
    column(
        "leader_id",
        INT,
        "leader by a LeaderChange record, or a quorum-state; null where neither tells",
    ),
    column("previous_leader_id", INT, "leader of the epoch before"),
    column("start_offset", LONG, "first offset of the epoch at hand"),
    column("end_offset", LONG, "offset after its last"),
    column("start_timestamp", TIMESTAMP, "time of its first batch at hand"),
    column("end_timestamp", TIMESTAMP, "time of the next epoch's first batch, or the log's end"),
    column(
        "tenure_ms",
        LONG,
        "time between the two; null where the next leader's clock was behind, or the log begins amid the epoch",
    ),
    column("is_current", BOOL, "the last epoch: its tenure may go on"),
    column("is_shortest", BOOL, "the shortest tenure that has ended"),
    column("skipped_epochs", LONG, "epochs since the one before: elections that nobody won"),
    column(
        "elections_in_hour",
        LONG,
        "elections of the hour that ends with this one; null where the log begins amid the epoch",
    ),
    column("leader_came_back", BOOL, "the leader before last leads again: leadership flaps"),
    column("record_count", LONG, "records of the epoch, control records too"),
    column("size_bytes", LONG, "bytes of its batches"),
    promises=(
        unique("batch_leader_epoch", why="one row per epoch and run"),
        at_least("skipped_epochs", 0, "epochs only go up"),
        at_least("elections_in_hour", 1, "an election counts itself"),
        not_below("end_offset", "start_offset", "an epoch holds batches"),
    ),
)
def elections(run: SharedMeasures) -> Rows:
    return elections_of(run.log)


@table(
    "disk",
    "replica",
    relations.REPLICA,
    column("size_bytes", LONG, "bytes of all files"),
    column("size_bytes_by_kind", pa.map_(TEXT, LONG), "bytes per kind of file"),
    column("log_size_bytes", LONG, "bytes of segments"),
    column("snapshot_size_bytes", LONG, "bytes of checkpoints"),
    column("left_over_size_bytes", LONG, "bytes of .part and .deleted files"),
    column("log_bytes_per_day", DOUBLE, "growth of the log over the time that it spans"),
    column("capacity_bytes", LONG, "the option disk_capacity_bytes"),
    column("days_to_fill", DOUBLE, "until log growth fills the capacity if nothing is deleted"),
    promises=(
        unique("replica", why="one row per replica and run"),
        not_below("size_bytes", "log_size_bytes", "segments are part of the folder"),
    ),
)
def disk(run: SharedMeasures) -> Rows:
    files = run.run.lake.rows("files", ["replica", "kind", "size_bytes"]).to_pylist()
    return disk_rows(run.quorum, files, run.run.options.disk_capacity_bytes)


@table(
    "cost_models",
    "cost model, scenario and measure",
    column("model", TEXT, "what is weighed"),
    column("scenario", TEXT, "kip_example: the KIP's own figures; measured: this cluster's"),
    column("measure", TEXT, "what the value is"),
    column("value", DOUBLE, "the figure; null where this run cannot tell"),
    column("unit", TEXT, "its unit; bytes per second and the like over the log's whole span"),
    column("source", TEXT, "section of the document that the model is from"),
    promises=(
        unique("model", "scenario", "measure", why="one row per model, scenario, measure and run"),
        among(
            "scenario",
            ("kip_example", "measured"),
            "an example must not be taken for a measurement",
        ),
    ),
)
def cost_models(run: SharedMeasures) -> Rows:
    return cost_rows(run.costs())


@table(
    "configuration_lint",
    "setting, replica with a server.properties",
    relations.REPLICA,
    column("setting", TEXT, "name of the setting"),
    column("value", TEXT, "its value in the file; null where it is not set"),
    column("shipped_default", TEXT, "Kafka's default"),
    column("kip", TEXT, "the KIP that names it"),
    column("kip_default", TEXT, "the KIP's default"),
    column("is_shipped", BOOL, "whether Kafka reads it in this file"),
    column("meaning", TEXT, "what it does in Kafka"),
    column("status", TEXT, "default, set, invalid, no effect, or at odds with what the log shows"),
    column("message", TEXT, "why it is invalid, has no effect, or is at odds"),
    promises=(
        unique("replica", "setting", why="one row per replica, setting and run"),
        among(
            "status",
            ("default", "set", "invalid", "no effect", "at odds"),
            "the lint is filtered by status",
        ),
    ),
)
def configuration_lint(run: SharedMeasures) -> Rows:
    return configuration_rows(run.quorum, run.racks)
