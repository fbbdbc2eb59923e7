"""The tables of measures of records, each with what fills it: sizes, growth, churn, what events
cost, what compaction would keep; and what the next run goes on from. The one that takes longest to
write comes first: others are found meanwhile.
"""

from kraftlog import relations
from kraftlog.metrics.amplification import amplification_rows
from kraftlog.metrics.churn import churn_rows
from kraftlog.metrics.compaction import LAST_RECORDS
from kraftlog.metrics.known_lives import (
    ENDED_VERSIONS,
    OBJECT_KIND,
    OBJECT_LIVES,
    end_rows,
    life_rows,
)
from kraftlog.metrics.record_totals import HOUR, RECORD_TOTALS, TYPE, growth_rows, record_size_rows
from kraftlog.metrics.tombstones import compaction_rows, horizon_rows
from kraftlog.pipeline.derive import Further, Rows, table
from kraftlog.pipeline.known_records import total_rows
from kraftlog.pipeline.object_lives import ENDS_TABLE, LIVES_TABLE
from kraftlog.pipeline.shared_measures import SharedMeasures
from kraftlog.relations import BOOL, DOUBLE, INT, LONG, TEXT, TIMESTAMP, column
from kraftlog.tables.promise import among, at_least, none, not_below, unique
from kraftlog.tables.spec import CURRENT, GROWING


@table(
    ENDS_TABLE,
    "version of an object of the shared log that has ended",
    *ENDED_VERSIONS,
    promises=(
        none(
            "incomplete_rows",
            "changes are counted by where versions end",
            nulls_in=("object_kind", "ended_offset", "before_ended_offset"),
        ),
    ),
    mode=GROWING,
)
def ended_versions(run: SharedMeasures) -> Rows | Further:
    known = run.objects.known_until
    rows = end_rows(run.lives, -1 if known is None else known)
    return rows if known is None else Further(rows)


@table(
    LIVES_TABLE,
    "life of an object of the shared log, as far as its versions have ended",
    *OBJECT_LIVES,
    promises=(
        none(
            "incomplete_rows",
            "the next run goes on from what is known of each object",
            nulls_in=("object_kind", "key", "began_offset", "ended_offset", "first_ended_offset"),
        ),
        none(
            "empty_lives",
            "a life without an offset was never seen by anybody",
            rows_where="ended_offset <= began_offset",
        ),
    ),
    mode=CURRENT,
)
def object_lives(run: SharedMeasures) -> Rows:
    return life_rows(run.lives)


@table(
    "record_sizes",
    "source, record type, version",
    column("source", TEXT, "log: the shared log; snapshot: every checkpoint at hand"),
    TYPE,
    column("record_version", INT, "version of the record's message"),
    column("record_count", LONG, "records"),
    column("value_size_bytes", LONG, "bytes of their values"),
    column(
        "size_bytes",
        LONG,
        "bytes with record frames and batch headers, before compression; the header counts for the batch's first record",
    ),
    column("mean_value_size_bytes", DOUBLE, "mean size of a value"),
    column("min_value_size_bytes", LONG, "smallest value"),
    column("max_value_size_bytes", LONG, "largest value"),
    promises=(
        unique("source", "type", "record_version", why="one row per source, type, version and run"),
        among(
            "source", ("log", "snapshot"), "the log's bytes and the snapshots' are never added up"
        ),
        at_least("record_count", 1, "a type without records has no row"),
        not_below("size_bytes", "value_size_bytes", "frames and headers come on top of the values"),
    ),
)
def record_sizes(run: SharedMeasures) -> Rows:
    return record_size_rows(run.totals)


@table(
    "growth",
    "hour and record type of the shared log",
    HOUR,
    TYPE,
    column("record_count", LONG, "records"),
    column("size_bytes", LONG, "bytes with record frames and batch headers, before compression"),
    promises=(
        unique("window_start", "type", why="one row per hour, type and run"),
        at_least("size_bytes", 1, "an hour without records of a type has no row"),
    ),
)
def growth(run: SharedMeasures) -> Rows:
    return growth_rows(run.totals)


@table(
    "churn",
    "hour and kind of object in which something changed",
    HOUR,
    OBJECT_KIND,
    column("start_count", LONG, "objects when the hour began, or in the base snapshot within it"),
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
    promises=(
        unique("window_start", "object_kind", why="one row per hour, kind of object and run"),
        at_least("untouched_count", 0, "no more objects can be touched than there are"),
        not_below(
            "modification_count",
            "modified_count",
            "an object that was modified was so at least once",
        ),
    ),
)
def churn(run: SharedMeasures) -> Rows:
    return churn_rows(run.log, run.lives)


@table(
    "event_amplification",
    "change of a broker's state",
    column("event_offset", LONG, "offset of the record"),
    column("event_timestamp", TIMESTAMP, "its time"),
    column("broker_id", INT, "the broker"),
    column("event", TEXT, "registered, unfenced, fenced, controlled_shutdown or unregistered"),
    column("record_type", TEXT, "type of the record"),
    column("burst_start_offset", LONG, "first offset of what was appended together with it"),
    column("burst_end_offset", LONG, "offset after the last"),
    column(
        "partition_change_count",
        LONG,
        "partition changes of the event: all of its burst, or its own where that holds several events",
    ),
    column("partition_change_size_bytes", LONG, "their bytes, with record frames"),
    column("burst_record_count", LONG, "records of the burst, control records too"),
    column(
        "burst_size_bytes", LONG, "bytes of the burst's batches, those of other events in it too"
    ),
    column("replicated_size_bytes", LONG, "what the leader sends: times all copies but its own"),
    column("kip_event_size_bytes", LONG, "the same, had one event of 8 bytes been enough"),
    column(
        "kip_isr_changes_size_bytes", LONG, "the same, at the KIP's 40 bytes per partition change"
    ),
    promises=(
        unique("event_offset", "event", why="one row per event and run"),
        among(
            "event",
            ("registered", "unfenced", "fenced", "controlled_shutdown", "unregistered"),
            "events are grouped by name",
        ),
        not_below(
            "burst_record_count",
            "partition_change_count",
            "the partition changes are part of the burst",
        ),
        not_below("burst_end_offset", "event_offset", "the burst holds its event"),
    ),
)
def event_amplification(run: SharedMeasures) -> Rows:
    return amplification_rows(run.scanned.bursts, len(run.quorum.peers))


@table(
    "compaction",
    "tombstone horizon and record type",
    column("tombstones_go", TEXT, "when tombstones are deleted: never, after one day, at once"),
    column("object_kind", TEXT, "what the records' keys name"),
    TYPE,
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
    promises=(
        unique("tombstones_go", "type", why="one row per horizon, type and run"),
        not_below("record_count", "kept_record_count", "compaction adds nothing"),
        not_below("kept_record_count", "tombstone_count", "tombstones are among what is kept"),
    ),
)
def compaction(run: SharedMeasures) -> Rows:
    return compaction_rows(run.log, run.offsets, run.lives)


@table(
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
        "unsafe_when_moved", TEXT, "what it must do when the horizon moves before it has read them"
    ),
    promises=(
        not_below(
            "leader_horizon_offset",
            "follower_horizon_offset",
            "a follower deletes no tombstone at or beyond its leader's horizon",
        ),
    ),
)
def tombstone_horizons(run: SharedMeasures) -> Rows:
    return horizon_rows(run.quorum, run.log, run.lives.values())


@table(
    "last_records",
    "key of the shared log",
    *LAST_RECORDS,
    promises=(
        none(
            "incomplete_rows",
            "the next run goes on from the last record of each key",
            nulls_in=("object_kind", "key", "type", "offset", "size_bytes", "is_tombstone"),
        ),
    ),
    mode=CURRENT,
)
def last_records(run: SharedMeasures) -> Rows:
    return run.offsets.rows()


@table(
    "record_totals",
    "source, snapshot batch, hour, record type, version",
    *RECORD_TOTALS,
    column("log_batch_count", LONG, "batches of the shared log that were read"),
    column("log_digest", TEXT, "hash over their ids: the next run goes on from there"),
    promises=(
        among(
            "source", ("log", "snapshot"), "the log's bytes and the snapshots' are never added up"
        ),
        at_least("record_count", 1, "what no record adds to has no row"),
    ),
    mode=CURRENT,
)
def record_totals(run: SharedMeasures) -> Rows:
    return total_rows(run.scanned, run.log)
