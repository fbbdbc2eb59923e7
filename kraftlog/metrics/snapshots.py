"""Snapshot metrics (KIP-630 "Metrics"): size, records per type, age and lag of every checkpoint.

In: the lake's tables. Out: the rows of `snapshots`. Source: KIP-630 SnapshotSizeBytes and SnapshotLag; the age is Kafka's own
LatestSnapshotGeneratedAgeMs, taken from the newest record at hand instead of the clock.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

Tables = Callable[[str], DataFrame]


def snapshot_metrics(table: Tables, run_id: str) -> DataFrame:
    """One row per checkpoint file of the newest run."""
    files = table("files").where("kind = 'checkpoint'")
    measured = (
        files.select("replica", "path", "end_offset", "epoch", "size_bytes", "modified")
        .join(_batches(table), "path", "left")
        .join(_types(table), "path", "left")
        .join(_frame(table), "path", "left")
        .join(_damage(table), "path", "left")
        .join(_log_ends(table, run_id), "replica", "left")
        .join(_bytes_after(table, files), "path", "left")
        .crossJoin(_newest(table))
    )
    complete = F.col("framed") & F.col("damage_count").isNull()
    end, known = F.col("end_offset"), F.coalesce(complete, F.lit(False))
    age = F.unix_millis("newest") - F.unix_millis("last_contained_log_timestamp")
    return measured.select(
        F.lit(run_id).alias("run_id"),
        "replica",
        "path",
        "end_offset",
        "epoch",
        known.alias("complete"),
        "size_bytes",
        _or_zero("batch_count"),
        _or_zero("record_count"),
        "records_by_type",
        "last_contained_log_timestamp",
        "modified",
        age.alias("age_ms"),
        F.greatest(F.lit(0), F.col("committed_lower") - end).alias("lag_offsets_min"),
        F.greatest(F.lit(0), F.col("log_end_offset") - end).alias("lag_offsets_max"),
        _or_zero("lag_bytes"),
        _is_latest(known).alias("is_latest"),
    )


def _or_zero(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit(0)).alias(name)


def _is_latest(complete: Column) -> Column:
    """Epoch first, then end offset, among the complete snapshots of a replica."""
    newest = Window.partitionBy("replica", complete).orderBy(F.desc("epoch"), F.desc("end_offset"))
    return complete & (F.row_number().over(newest) == 1)


def _checkpoint_batches(table: Tables) -> DataFrame:
    return table("batches").where("file_kind = 'checkpoint'")


def _batches(table: Tables) -> DataFrame:
    return _checkpoint_batches(table).groupBy("path").agg(F.count("*").alias("batch_count"))


def _types(table: Tables) -> DataFrame:
    per_type = (
        _checkpoint_batches(table)
        .select("path", "batch_id")
        .join(table("records").select("batch_id", "type"), "batch_id")
        .groupBy("path", "type")
        .agg(F.count("*").alias("count"))
    )
    entries = F.sort_array(F.collect_list(F.struct("type", "count")))
    return per_type.groupBy("path").agg(
        F.sum("count").alias("record_count"),
        F.map_from_entries(entries).alias("records_by_type"),
    )


def _frame(table: Tables) -> DataFrame:
    """Whether a header comes first and a footer last, and what the header says."""
    placed = _checkpoint_batches(table).select("path", "batch_id", "position")
    control = table("control_records").select("batch_id", "record_index", "type", "snapshot_header")
    place = F.struct("position", "record_index")
    last_batch = placed.groupBy("path").agg(F.max("position").alias("last_position"))
    return (
        placed.join(control, "batch_id")
        .groupBy("path")
        .agg(
            F.min_by("type", place).alias("first_type"),
            F.min_by("position", place).alias("first_position"),
            F.max_by("type", place).alias("last_type"),
            F.max("position").alias("footer_position"),
            F.max("snapshot_header.last_contained_log_timestamp").alias("contained_ms"),
        )
        .join(last_batch, "path")
        .select(
            "path",
            (
                F.expr("first_type = 'SNAPSHOT_HEADER' and first_position = 0")
                & F.expr("last_type = 'SNAPSHOT_FOOTER' and footer_position = last_position")
            ).alias("framed"),
            F.timestamp_millis("contained_ms").alias("last_contained_log_timestamp"),
        )
    )


def _damage(table: Tables) -> DataFrame:
    inside = _checkpoint_batches(table).join(table("record_faults"), "batch_id").select("path")
    around = table("faults").where("file_kind = 'checkpoint'").select("path")
    return inside.unionAll(around).groupBy("path").agg(F.count("*").alias("damage_count"))


def _log_ends(table: Tables, run_id: str) -> DataFrame:
    newest = table("replicas").where(F.col("run_id") == run_id)
    return newest.select("replica", "log_end_offset", "committed_lower")


def _bytes_after(table: Tables, files: DataFrame) -> DataFrame:
    """Bytes of the replica's own log after each snapshot's end."""
    log = table("batches").where("file_kind = 'log' and crc_valid")
    log = log.select("replica", "base_offset", F.col("size_bytes").alias("batch_bytes"))
    ends = files.select("replica", "path", "end_offset")
    after = ends.join(log, "replica").where("base_offset >= end_offset")
    return after.groupBy("path").agg(F.sum("batch_bytes").alias("lag_bytes"))


def _newest(table: Tables) -> DataFrame:
    log = table("batches").where("file_kind = 'log' and crc_valid")
    return log.agg(F.max("max_timestamp").alias("newest"))
