"""The tables of measures of snapshots, each with what fills it: sizes and times, KIP-630's metrics,
cadence, policies, retention.
"""

import pyarrow as pa

from kraftlog import relations
from kraftlog.metrics.policy import policy_rows
from kraftlog.metrics.retention_advice import retention_rows
from kraftlog.metrics.snapshot_advice import advice_rows
from kraftlog.metrics.snapshot_metrics import snapshot_metric_rows
from kraftlog.pipeline.derive import Rows, table
from kraftlog.pipeline.shared_measures import SharedMeasures
from kraftlog.quorum.growth import per_day
from kraftlog.quorum.retention import newest_snapshot
from kraftlog.relations import BOOL, DOUBLE, LONG, TEXT, TIMESTAMP, column
from kraftlog.tables.promise import among, at_least, known, not_below, unique

_END_OFFSET = column("end_offset", LONG, "end offset of the snapshot (exclusive)")
_SNAPSHOT_EPOCH = column("epoch", LONG, "epoch of the snapshot")


@table(
    "snapshots",
    "snapshot, replica",
    relations.REPLICA,
    relations.PATH,
    _END_OFFSET,
    _SNAPSHOT_EPOCH,
    column("complete", BOOL, "header first, footer last, no fault"),
    column("is_latest", BOOL, "newest complete snapshot of its replica"),
    column(
        "size_bytes",
        LONG,
        "size of the file (KIP-630: SnapshotSizeBytes; Kafka: LatestSnapshotGeneratedBytes)",
    ),
    column("batch_count", LONG, "record batches"),
    column("record_count", LONG, "metadata records"),
    column("records_by_type", pa.map_(TEXT, LONG), "metadata records per type"),
    column(
        "size_bytes_by_type",
        pa.map_(TEXT, LONG),
        "bytes per type, control records too, with frames and batch headers; in a snapshot without compression their sum is the size",
    ),
    column("last_contained_log_timestamp", TIMESTAMP, "by the snapshot's header"),
    column("written_from", TIMESTAMP, "time of its first batch: when writing began"),
    column("written_until", TIMESTAMP, "time of its last batch: when writing ended"),
    column("modified", TIMESTAMP, "modification time of the file"),
    column(
        "finished_by", TIMESTAMP, "the earliest time at which it is known to have been finished"
    ),
    column(
        "finished_witness",
        TEXT,
        "by what: the file's own time, that of a peer's copy of it, or the replica's next snapshot",
    ),
    column(
        "generation_ms_min",
        LONG,
        "writing took at least so long, by its batches (KIP-630: GenSnapshotLatencyMs)",
    ),
    column(
        "generation_ms_max",
        LONG,
        "at most so long: from the last contained record to the time by which it was finished; null where nothing bounds it, as where the copy did not keep the files' times",
    ),
    column(
        "age_ms",
        LONG,
        "time from the last contained record to the newest record at hand (Kafka: LatestSnapshotGeneratedAgeMs)",
    ),
    column("lag_offsets_min", LONG, "offsets to the lower committed bound (KIP-630: SnapshotLag)"),
    column(
        "lag_offsets_max", LONG, "offsets to the upper committed bound, or the longest log's end"
    ),
    column("lag_bytes", LONG, "replay debt: bytes of the replica's log after the snapshot's end"),
    column("lag_records", LONG, "replay debt in records, control records too"),
    column("lag_batches", LONG, "replay debt in record batches"),
    column("lag_ms", LONG, "time from the last contained record to the last one of its own log"),
    column("previous_end_offset", LONG, "end offset of the replica's snapshot before it"),
    column(
        "interval_offsets", LONG, "offsets since the snapshot before it, or since the log's start"
    ),
    column("interval_ms", LONG, "time between the two snapshots, by their headers"),
    column("interval_log_bytes", LONG, "bytes of the log between them; null where the log is gone"),
    column("write_amplification", DOUBLE, "bytes of the snapshot per byte of the log between them"),
    column("origin", TEXT, "generated, fetched from a peer, or unknown"),
    column(
        "load_ms",
        DOUBLE,
        "how long kraftlog took to load it (KIP-630: LoadSnapshotLatencyMs; Kafka has no such metric); measured for the newest of each replica",
    ),
    column(
        "predicted_load_ms",
        DOUBLE,
        "how long a node takes to load it and its replay debt, by the option load_bytes_per_second",
    ),
    promises=(
        unique("replica", "path", why="one row per snapshot, replica and run"),
        known("complete", "an incomplete snapshot must not be taken for one that can be loaded"),
        at_least("end_offset", 0, "a snapshot is known by its end offset and epoch"),
        at_least("size_bytes", 0, "sizes are compared and added up"),
        not_below(
            "complete",
            "is_latest",
            "the latest snapshot is the one that a node loads, and it loads only complete ones",
        ),
        among(
            "origin",
            ("generated", "fetched", "unknown"),
            "cadence is reckoned over the generated ones",
        ),
        not_below("lag_offsets_max", "lag_offsets_min", "the bounds of the lag enclose it"),
    ),
)
def snapshots(run: SharedMeasures) -> Rows:
    return run.snapshots


@table(
    "snapshot_metrics",
    "replica",
    relations.REPLICA,
    _END_OFFSET,
    column(
        "gen_snapshot_latency_ms_min",
        LONG,
        "KIP-630 GenSnapshotLatencyMs of the newest snapshot that it wrote itself: at least",
    ),
    column(
        "gen_snapshot_latency_ms_max",
        LONG,
        "at most; null where nothing bounds it, as where the copy did not keep the files' times",
    ),
    column(
        "gen_snapshot_latency_ms_median", DOUBLE, "the middle of the lower bounds of all it wrote"
    ),
    column(
        "load_snapshot_latency_ms",
        DOUBLE,
        "KIP-630 LoadSnapshotLatencyMs, as measured by kraftlog, at any size",
    ),
    column("snapshot_size_bytes", LONG, "KIP-630 SnapshotSizeBytes of the newest; null: none"),
    column("snapshot_lag_min", LONG, "KIP-630 SnapshotLag: at least, by the lower committed bound"),
    column("snapshot_lag_max", LONG, "at most; of a replica without a snapshot its whole log"),
    column("snapshot_age_ms", LONG, "from the newest one's last record to the newest record"),
    column("snapshot_count", LONG, "complete snapshots above offset 0"),
    column("generated_count", LONG, "of these, written by the replica itself"),
    column("fetched_count", LONG, "of these, fetched from a peer"),
    column("snapshots_size_bytes", LONG, "size of all of them"),
    promises=(
        unique("replica", why="one row per replica and run"),
        not_below(
            "snapshot_lag_max", "snapshot_lag_min", "the high watermark lies between its bounds"
        ),
    ),
)
def snapshot_metrics(run: SharedMeasures) -> Rows:
    return snapshot_metric_rows(run.quorum, run.snapshots)


@table(
    "snapshot_advice",
    "replica with a snapshot, interval between two of them",
    relations.REPLICA,
    column("interval_ms", LONG, "metadata.log.max.snapshot.interval.ms; 0: by bytes alone"),
    column(
        "chosen_by",
        TEXT,
        "where the interval comes from. own: its server.properties; default: Kafka's; example: one of some to compare with. "
        "balanced: in that time the log grows by the size of one snapshot, so both write as much (between a quarter of an hour and a day)",
    ),
    column("snapshots_per_day", DOUBLE, "by interval or bytes, whichever comes first"),
    column("size_bytes_per_day", DOUBLE, "bytes that they write a day"),
    column("write_amplification", DOUBLE, "the same per byte of the log"),
    column("longest_debt_bytes", DOUBLE, "log that a start must replay at worst"),
    column("longest_load_ms", DOUBLE, "how long a start then takes (option load_bytes_per_second)"),
    column("kept_count", LONG, "snapshots that are there at a time; null: no limit"),
    column("kept_by", TEXT, "the setting that deletes the oldest first"),
    column("kept_size_bytes", DOUBLE, "bytes of those, and of the log behind them"),
    column("kept_ms", DOUBLE, "how far back they reach"),
    promises=(
        unique("replica", "interval_ms", why="one row per replica and interval"),
        at_least("kept_count", 1, "the newest snapshot is never deleted"),
    ),
)
def snapshot_advice(run: SharedMeasures) -> Rows:
    """By the newest snapshot of each replica, and by how the shared log grows."""
    daily = per_day(run.log.size_bytes, run.log.span_ms)
    newest = [(log, newest_snapshot(run.quorum, log.label)) for log in run.quorum.logs]
    return [
        row
        for log, one in newest
        if one is not None and daily is not None
        for row in advice_rows(log, one.evidence.size_bytes, daily, run.load_rate)
    ]


@table(
    "snapshot_policy",
    "policy and interval between two snapshots that it takes",
    column(
        "policy",
        TEXT,
        "v19_records, adopted_ratio_and_bytes (KIP-630), shipped_bytes_or_time (Kafka), or real",
    ),
    column(
        "replica",
        TEXT,
        "whose snapshots, for the policy real; else the node by whose own server.properties the policy goes; null: the defaults of Kafka and of the KIP",
    ),
    column(
        "limit_bytes", LONG, "bytes of the log after which the policy cuts; null: it asks for none"
    ),
    column("limit_interval_ms", LONG, "time after which it cuts; null: it goes by none"),
    column("interval", LONG, "1 for the first interval, and so on"),
    column("start_offset", LONG, "end offset of the snapshot before"),
    column("end_offset", LONG, "end offset of the snapshot; of the open interval, the log's end"),
    column("start_timestamp", TIMESTAMP, "time of the last record below the start"),
    column("end_timestamp", TIMESTAMP, "time of the last record below the end"),
    column("is_cut", BOOL, "whether a snapshot is taken at the end; false for the open interval"),
    column("trigger", TEXT, "what made the policy cut: records, bytes, ratio, time, or snapshot"),
    column("record_count", LONG, "records of the interval, control records too"),
    column("log_bytes", LONG, "bytes of the interval's batches"),
    column("interval_ms", LONG, "length of the interval"),
    column("snapshot_object_count", LONG, "objects that the snapshot before holds"),
    column(
        "changed_object_count",
        LONG,
        "objects that were modified or deleted in the interval, also if they were added in it",
    ),
    column("dirty_ratio", DOUBLE, "changed objects per object of the snapshot before"),
    column("object_count", LONG, "objects in the state at the interval's end"),
    column("snapshot_size_bytes", LONG, "size of the snapshot, by the bytes per object at hand"),
    column("write_amplification", DOUBLE, "bytes of the snapshot per byte of the interval's log"),
    promises=(
        among(
            "policy",
            ("v19_records", "adopted_ratio_and_bytes", "shipped_bytes_or_time", "real"),
            "policies are compared by name",
        ),
        not_below("end_offset", "start_offset", "an interval goes forwards"),
        at_least("log_bytes", 0, "costs are compared and added up"),
        known("is_cut", "the open interval must not be taken for a snapshot"),
    ),
)
def snapshot_policy(run: SharedMeasures) -> Rows:
    return policy_rows(run.simulator, run.quorum, run.object_bytes)


@table(
    "retention_advice",
    "complete snapshot above offset 0, replica",
    relations.REPLICA,
    relations.PATH,
    _END_OFFSET,
    _SNAPSHOT_EPOCH,
    column("rank", LONG, "1 for the replica's newest snapshot, 2 for the one before, and so on"),
    column("log_start_offset", LONG, "where the replica's log begins"),
    column(
        "log_start_spread",
        LONG,
        "how much later than the log of the newest epoch's leader, or else the newest log",
    ),
    column(
        "adopted_start_offset",
        LONG,
        "where it would begin by KIP-630 as adopted: the smaller of the newest leader's log start and the replica's newest snapshot's end",
    ),
    column(
        "draft_start_offset",
        LONG,
        "where it would begin by the draft, version 19: the leader's log start, once a snapshot of the replica reaches it; null before",
    ),
    column(
        "log_start_is_snapshot_end",
        BOOL,
        "whether the log begins at 0 or where a snapshot ends; after a restart it need not",
    ),
    column("prunable_segment_bytes", LONG, "bytes of segments wholly below the snapshot's end"),
    column("prunable_snapshot_bytes", LONG, "bytes of the older snapshots"),
    column("kip_may_advance", BOOL, "whether KIP-630 lets the log begin at the snapshot's end"),
    column("kip_reason", TEXT, "by which of its two conditions"),
    column("shipped_may_advance", BOOL, "whether Kafka's cleaner moves the log start here"),
    column("shipped_drops", BOOL, "whether Kafka's cleaner deletes the snapshot"),
    column("shipped_reason", TEXT, "by which setting"),
    column("is_served", BOOL, "whether a leader with this folder would serve it"),
    column(
        "is_useful",
        BOOL,
        "newest, or followed by the log up to the newest: whoever is fetching it need not begin anew",
    ),
    promises=(
        unique("replica", "path", why="one row per snapshot, replica and run"),
        at_least("rank", 1, "1 is the newest"),
        at_least("prunable_segment_bytes", 0, "bytes that could go are added up"),
        not_below("is_useful", "is_served", "what is served is useful"),
    ),
)
def retention_advice(run: SharedMeasures) -> Rows:
    return retention_rows(run.quorum)
