"""The tables of measures, declared: what the metrics step writes, one set of rows per run.

Measures of the log as a whole are taken over the history that the replicas share: each batch once,
uncommitted tails left out.
"""

import pyarrow as pa

from kraftlog import relations
from kraftlog.relations import BOOL, DOUBLE, INT, LONG, TEXT, TIMESTAMP, column
from kraftlog.tables.spec import PER_RUN, RUN_ID, TableSpec


def _table(name: str, grain: str, *columns: pa.Field) -> TableSpec:
    return TableSpec(name, f"one row per {grain} and run", pa.schema([RUN_ID, *columns]), PER_RUN)


_END_OFFSET = column("end_offset", LONG, "end offset of the snapshot (exclusive)")
_SNAPSHOT_EPOCH = column("epoch", LONG, "epoch of the snapshot")
_TYPE = column("type", TEXT, "record type as Kafka's dump tool prints it")
_HOUR = column("window_start", TIMESTAMP, "the hour that the row is about, by its beginning")

SNAPSHOTS = _table(
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
        "bytes per type, control records too, with frames and batch headers; in a snapshot without "
        "compression their sum is the size",
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
        "at most so long: from the last contained record to the time by which it was finished; "
        "null where nothing at hand bounds it",
    ),
    column(
        "age_ms",
        LONG,
        "time from the last contained record to the newest record at hand "
        "(Kafka: LatestSnapshotGeneratedAgeMs)",
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
        "how long kraftlog took to load it (KIP-630: LoadSnapshotLatencyMs; Kafka has no such "
        "metric); measured for the newest of each replica",
    ),
    column(
        "predicted_load_ms",
        DOUBLE,
        "how long a node takes to load it and its replay debt, by the option load_bytes_per_second",
    ),
)

SNAPSHOT_METRICS = _table(
    "snapshot_metrics",
    "replica",
    relations.REPLICA,
    _END_OFFSET,
    column(
        "gen_snapshot_latency_ms_min",
        LONG,
        "KIP-630 GenSnapshotLatencyMs of the newest snapshot that it wrote itself: at least",
    ),
    column("gen_snapshot_latency_ms_max", LONG, "at most; null where nothing bounds it"),
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
)

SNAPSHOT_ADVICE = _table(
    "snapshot_advice",
    "replica with a snapshot, interval between two of them",
    relations.REPLICA,
    column("interval_ms", LONG, "metadata.log.max.snapshot.interval.ms; 0: by bytes alone"),
    column(
        "chosen_by",
        TEXT,
        "own: its server.properties; default: Kafka's; balanced: the log then grows by one "
        "snapshot's size, so that both write as much (between a quarter of an hour and a day); "
        "example",
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
)

TOMBSTONE_HORIZONS = _table(
    "tombstone_horizons",
    "tombstone horizon, replica, and one that joins (null)",
    column("tombstones_go", TEXT, "when tombstones are deleted: after one day, at once"),
    relations.REPLICA,
    column(
        "fetch_offset", LONG, "its log end, from which it fetches; of one that joins, the start"
    ),
    column("leader_horizon_offset", LONG, "below it the leader's tombstones may be gone"),
    column(
        "follower_horizon_offset", LONG, "the same of this replica, by its own log and the leader's"
    ),
    column("consumer_outcome", TEXT, "what a reader of the state there must do"),
    column("replica_outcome", TEXT, "what a replica of the log there must do"),
    column(
        "unsafe_offsets",
        LONG,
        "offsets that it must then read before its state can be trusted (unsafe bootstrap)",
    ),
    column(
        "kept_for_ever_count",
        LONG,
        "deleted objects that it would keep for ever if it fetched on without such a horizon",
    ),
    column(
        "unsafe_when_moved",
        TEXT,
        "what it must do when the horizon moves before it has read them",
    ),
)

SNAPSHOT_POLICY = _table(
    "snapshot_policy",
    "policy and interval between two snapshots that it takes",
    column(
        "policy",
        TEXT,
        "v19_records, adopted_ratio_and_bytes (KIP-630), shipped_bytes_or_time (Kafka), or real",
    ),
    column("replica", TEXT, "whose snapshots, for the policy real; null for the others"),
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
)

RETENTION_ADVICE = _table(
    "retention_advice",
    "complete snapshot above offset 0, replica",
    relations.REPLICA,
    relations.PATH,
    _END_OFFSET,
    _SNAPSHOT_EPOCH,
    column("rank", LONG, "1 for the replica's newest snapshot, 2 for the one before, and so on"),
    column("log_start_offset", LONG, "where the replica's log begins"),
    column("log_start_spread", LONG, "how much later than the log with the newest epoch"),
    column(
        "adopted_start_offset",
        LONG,
        "where it would begin by KIP-630 as adopted: the smaller of the newest leader's log start "
        "and the replica's newest snapshot's end",
    ),
    column(
        "draft_start_offset",
        LONG,
        "where it would begin by the draft, version 19: the leader's log start, once a snapshot of "
        "the replica reaches it; null before",
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
        "newest, or followed by the log up to the newest: whoever is fetching it need not begin "
        "anew",
    ),
)

RECORD_SIZES = _table(
    "record_sizes",
    "source, record type, version",
    column("source", TEXT, "log: the shared log; snapshot: every checkpoint at hand"),
    _TYPE,
    column("record_version", INT, "version of the record's message"),
    column("record_count", LONG, "records"),
    column("value_size_bytes", LONG, "bytes of their values"),
    column(
        "size_bytes",
        LONG,
        "bytes with record frames and batch headers, before compression; the header counts for "
        "the batch's first record",
    ),
    column("mean_value_size_bytes", DOUBLE, "mean size of a value"),
    column("min_value_size_bytes", LONG, "smallest value"),
    column("max_value_size_bytes", LONG, "largest value"),
)

GROWTH = _table(
    "growth",
    "hour and record type of the shared log",
    _HOUR,
    _TYPE,
    column("record_count", LONG, "records"),
    column("size_bytes", LONG, "bytes with record frames and batch headers, before compression"),
)

CHURN = _table(
    "churn",
    "hour and kind of object in which something changed",
    _HOUR,
    column("object_kind", TEXT, "the history table that holds the objects"),
    column("start_count", LONG, "objects when the hour began"),
    column("added_count", LONG, "times that an object was added"),
    column("modified_count", LONG, "objects that were modified"),
    column("modification_count", LONG, "times that an object was modified"),
    column("deleted_count", LONG, "times that an object was deleted"),
    column("untouched_count", LONG, "objects that stood when it began and were left alone"),
    column(
        "keys_change_less_than_values",
        BOOL,
        "KIP-630's assumption: fewer objects come and go than are modified",
    ),
)

EVENT_AMPLIFICATION = _table(
    "event_amplification",
    "change of a broker's state",
    column("event_offset", LONG, "offset of the record"),
    column("event_timestamp", TIMESTAMP, "its time"),
    column("broker_id", INT, "the broker"),
    column("event", TEXT, "registered, unfenced, fenced, controlled_shutdown or unregistered"),
    column("record_type", TEXT, "type of the record"),
    column("burst_start_offset", LONG, "first offset of what was appended together with it"),
    column("burst_end_offset", LONG, "offset after the last"),
    column("partition_change_count", LONG, "partition changes in the burst"),
    column("partition_change_size_bytes", LONG, "their bytes, with record frames"),
    column("burst_record_count", LONG, "records of the burst, control records too"),
    column("burst_size_bytes", LONG, "bytes of the burst's batches"),
    column("replicated_size_bytes", LONG, "what the leader sends: times all copies but its own"),
    column("kip_event_size_bytes", LONG, "the same, had one event of 8 bytes been enough"),
    column(
        "kip_isr_changes_size_bytes", LONG, "the same, at the KIP's 40 bytes per partition change"
    ),
)

ELECTIONS = _table(
    "elections",
    "leader epoch of the shared log",
    relations.EPOCH,
    column("leader_id", INT, "leader by the LeaderChange record; null where it is not at hand"),
    column("previous_leader_id", INT, "leader of the epoch before"),
    column("start_offset", LONG, "first offset of the epoch at hand"),
    column("end_offset", LONG, "offset after its last"),
    column("start_timestamp", TIMESTAMP, "time of its first batch"),
    column("end_timestamp", TIMESTAMP, "time of the next epoch's first batch, or the log's end"),
    column("tenure_ms", LONG, "time between the two"),
    column("is_current", BOOL, "the last epoch: its tenure may go on"),
    column("is_shortest", BOOL, "the shortest tenure that has ended"),
    column("skipped_epochs", LONG, "epochs since the one before: elections that nobody won"),
    column("elections_in_hour", LONG, "elections of the hour that ends with this one"),
    column("leader_came_back", BOOL, "the leader before last leads again: leadership flaps"),
    column("record_count", LONG, "records of the epoch, control records too"),
    column("size_bytes", LONG, "bytes of its batches"),
)

DISK = _table(
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
)

CATCH_UP = _table(
    "catch_up",
    "link and chunk size by which a new replica joins",
    column("source_replica", TEXT, "whom it fetches from: the log with the newest epoch"),
    column("link", TEXT, "an example of a link"),
    column("rtt_ms", DOUBLE, "its round trip"),
    column("bytes_per_second", DOUBLE, "its speed"),
    column(
        "chunk_size_bytes",
        LONG,
        "controller.quorum.fetch.snapshot.max.bytes and controller.quorum.fetch.max.bytes",
    ),
    column("is_default_chunk", BOOL, "the default of both since KIP-1219, 1 MiB"),
    column("snapshot_end_offset", LONG, "the snapshot that is fetched; null for none"),
    column("snapshot_size_bytes", LONG, "its size"),
    column("log_size_bytes", LONG, "bytes of the log after it"),
    column("snapshot_request_count", LONG, "FetchSnapshot requests"),
    column("log_request_count", LONG, "Fetch requests: whole batches, one at least"),
    column("snapshot_transfer_ms", DOUBLE, "time for the snapshot"),
    column("log_transfer_ms", DOUBLE, "time for the log"),
    column("load_ms", DOUBLE, "time to load both, by the option load_bytes_per_second"),
    column("total_ms", DOUBLE, "all three"),
    column("slowdown", DOUBLE, "snapshot transfer against chunks of 8 MiB, as before KIP-1219"),
    column(
        "fits_fetch_timeout",
        BOOL,
        "a chunk arrives within controller.quorum.fetch.timeout.ms (2 s); else the replica never "
        "catches up",
    ),
    column("is_recommended_chunk", BOOL, "the largest, up to 8 MiB, in half of the timeout"),
)

COMPACTION = _table(
    "compaction",
    "tombstone horizon and record type",
    column("tombstones_go", TEXT, "when tombstones are deleted: never, after one day, at once"),
    column("object_kind", TEXT, "what the records' keys name"),
    _TYPE,
    column("record_count", LONG, "records of the shared log"),
    column("size_bytes", LONG, "their bytes, with record frames"),
    column("kept_record_count", LONG, "records that compaction keeps: the last of each key"),
    column("kept_size_bytes", LONG, "their bytes"),
    column("tombstone_count", LONG, "of the kept ones, tombstones"),
    column("tombstone_size_bytes", LONG, "their bytes"),
    column(
        "lost_object_count",
        LONG,
        "objects of which only a change is left: what it changed has been compacted away",
    ),
    column(
        "worst_position_offset",
        LONG,
        "a replica that stood here while tombstones went keeps most deleted objects for ever",
    ),
    column("kept_for_ever_count", LONG, "how many it keeps: two replicas end up different"),
    column("longest_span_offsets", LONG, "longest distance from a value to its tombstone"),
    column("longest_span_ms", LONG, "longest time from a value to its tombstone"),
)

COST_MODELS = _table(
    "cost_models",
    "cost model, scenario and measure",
    column("model", TEXT, "what is weighed"),
    column("scenario", TEXT, "kip_example: the KIP's own figures; measured: this cluster's"),
    column("measure", TEXT, "what the value is"),
    column("value", DOUBLE, "the figure; null where this run cannot tell"),
    column("unit", TEXT, "its unit; bytes per second and the like over the log's whole span"),
    column("source", TEXT, "section of the document that the model is from"),
)

CONFIGURATION_LINT = _table(
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
)

MEASURES: tuple[TableSpec, ...] = (
    SNAPSHOTS,
    SNAPSHOT_METRICS,
    SNAPSHOT_ADVICE,
    SNAPSHOT_POLICY,
    RETENTION_ADVICE,
    RECORD_SIZES,
    GROWTH,
    CHURN,
    EVENT_AMPLIFICATION,
    ELECTIONS,
    DISK,
    CATCH_UP,
    COMPACTION,
    TOMBSTONE_HORIZONS,
    COST_MODELS,
    CONFIGURATION_LINT,
)
