"""The history tables of a run: the lineages' records, folded span by span.

In: the lake's records and a quorum. Out: Parquet files of the history tables, waiting for their
commit. The small tables are replayed on the driver, record by record; partitions, which are nearly
everything, are folded by columns: in this process where they are few, else in Spark tasks, one per
share of their keys.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kraftlog.audit.lineages import Lineage, Stretch, stretches
from kraftlog.decode.rows import row_schema
from kraftlog.pipeline.scan import SCAN, added_row
from kraftlog.state.arrow_events import Event, events_of, in_offset_order
from kraftlog.state.fold import fold_partitions
from kraftlog.state.outline import PARTITION_TYPES, Outline, Outliner
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile, write_file

StartSpark = Callable[[], SparkSession]

IN_PROCESS_ROWS = 1_000_000
"""Up to so many partition records are folded in this process: a Spark job costs more than
they do.
"""
_ROWS_PER_TASK = 500_000
_WITHOUT_EFFECT = frozenset({"NO_OP_RECORD", "ZK_MIGRATION_STATE_RECORD"})
_PUT, _CHANGE = "PARTITION_RECORD", "PARTITION_CHANGE_RECORD"


@dataclass(frozen=True, slots=True)
class States:
    """Folds lineages of one lake; `written` gathers the files of each history table.

    Rows that were read once are kept in `known`: lineages share most of theirs."""

    lake: Lake
    start_spark: StartSpark
    written: dict[str, list[AddedFile]] = field(default_factory=lambda: defaultdict(list))
    known: dict[tuple[str, str], pa.Table] = field(default_factory=dict)
    sources: dict[str, tuple[ds.Dataset, list[str]]] = field(default_factory=dict)

    def fold(self, lineage: Lineage) -> None:
        """Fold every stretch of a lineage."""
        for stretch in stretches(lineage):
            outline = self._small_tables(lineage.name, stretch)
            self._partitions(lineage.name, stretch, outline)

    def _small_tables(self, lineage: str, stretch: Stretch) -> Outline:
        base = stretch.base
        timestamp = (base.last_contained_timestamp if base else None) or 0
        outliner = Outliner(stretch.start_offset, timestamp, stretch.end_offset)
        if base is not None:
            for event in self._events(_snapshot_ids(stretch)):
                outliner.base(event)
        last_ms = timestamp
        for event in self._events(_ids(stretch)):
            outliner.feed(event)
            last_ms = event.origin.timestamp
        closes = () if stretch.is_last else (stretch.end_offset + 1, last_ms)
        outline = outliner.finish(*closes)
        for name, rows in outliner.history.rows():
            if name != "partitions":
                self._write(name, lineage, pa.Table.from_batches([rows]))
        return outline

    def _events(self, ids: pa.Array) -> Iterator[Event]:
        """All records of some batches but those of partitions, in offset order."""
        streams = []
        for table, is_control in (("records", False), ("control_records", True)):
            for kind in self._types(table):
                if kind not in PARTITION_TYPES | _WITHOUT_EFFECT:
                    streams.append(events_of(self._rows(table, kind, ids), is_control))
        return in_offset_order(streams)

    def _source(self, table: str) -> tuple[ds.Dataset, list[str]]:
        """A table as a dataset, and the record types that it holds."""
        if table not in self.sources:
            opened = self.lake.open(table)
            types = sorted({one["type"] for one in opened.partitions()})
            self.sources[table] = opened.to_pyarrow_dataset(), types
        return self.sources[table]

    def _types(self, table: str) -> list[str]:
        return self._source(table)[1]

    def _rows(self, table: str, kind: str, ids: pa.Array) -> pa.Table:
        """The records of one type that lie in some batches, in offset order."""
        at = table, kind
        if at not in self.known:
            source, _ = self._source(table)
            names = [name for name in row_schema(kind).names if name in source.schema.names]
            rows = source.to_table(columns=names, filter=ds.field("type") == kind)
            self.known[at] = rows.sort_by([("offset", "ascending")])
        rows = self.known[at]
        return rows.filter(pc.is_in(rows.column("batch_id"), value_set=ids))

    def _partitions(self, lineage: str, stretch: Stretch, outline: Outline) -> None:
        count = pc.sum(stretch.links.column("end_offset")).as_py() or 0
        count -= pc.sum(stretch.links.column("base_offset")).as_py() or 0
        if count > IN_PROCESS_ROWS:
            self._partitions_in_spark(lineage, stretch, outline, count)
            return
        ids = _ids(stretch)
        base = None
        if stretch.base is not None:
            base = self._rows("records", _PUT, _snapshot_ids(stretch))
        puts, changes = (self._rows("records", kind, ids) for kind in (_PUT, _CHANGE))
        folded = fold_partitions(outline, base, puts, changes)
        self._write("partitions", lineage, folded.rows)

    def _partitions_in_spark(
        self, lineage: str, stretch: Stretch, outline: Outline, count: int
    ) -> None:
        spark = self.start_spark()
        records = spark.read.format("delta").load(self.lake.path("records"))
        records = records.where(F.col("type").isin(_PUT, _CHANGE))
        chosen = _joined(spark, records, _ids(stretch), is_base=False)
        if stretch.base is not None:
            of_base = _joined(spark, records, _snapshot_ids(stretch), is_base=True)
            chosen = chosen.unionAll(of_base.where(F.col("type") == _PUT))
        tasks = max(4, count // _ROWS_PER_TASK)
        key = [
            F.coalesce(f"{_PUT.lower()}.{name}", f"{_CHANGE.lower()}.{name}")
            for name in ("topic_id", "partition_id")
        ]
        shares = chosen.withColumn("share", F.pmod(F.hash(*key), F.lit(tasks)))
        task = fold_task(outline, lineage, self.lake)
        with_share = spark.conf.get("spark.sql.shuffle.partitions")
        spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
        try:
            rows = shares.groupBy("share").applyInArrow(task, from_arrow_schema(SCAN)).collect()
        finally:
            spark.conf.set("spark.sql.shuffle.partitions", with_share or "4")
        self.written["partitions"] += [AddedFile.from_json(row["added"]) for row in rows]

    def _write(self, name: str, lineage: str, rows: pa.Table) -> None:
        if rows.num_rows:
            self.written[name].append(write_history(self.lake, name, lineage, rows))


def write_history(lake: Lake, name: str, lineage: str, rows: pa.Table) -> AddedFile:
    """Write rows of one history table and lineage."""
    column = pa.array(np.full(rows.num_rows, lineage))
    return write_file(lake.path(name), rows.add_column(0, "lineage", column))


def fold_task(outline: Outline, lineage: str, lake: Lake) -> Callable[[pa.Table], pa.Table]:
    """The function that Spark applies to all records of a share of the partitions."""

    def task(rows: pa.Table) -> pa.Table:
        rows = rows.sort_by([("offset", "ascending")])
        is_base, is_put = rows.column("is_base"), pc.equal(rows.column("type"), _PUT)
        folded = fold_partitions(
            outline,
            rows.filter(is_base),
            rows.filter(pc.and_(is_put, pc.invert(is_base))),
            rows.filter(pc.invert(is_put)),
        )
        if folded.rows.num_rows == 0:
            return SCAN.empty_table()
        added = write_history(lake, "partitions", lineage, folded.rows)
        return pa.Table.from_batches(
            [added_row("partitions", added.to_json(), folded.rows.num_rows)]
        )

    return task


def _joined(spark: SparkSession, records: DataFrame, ids: pa.Array, *, is_base: bool) -> DataFrame:
    wanted = spark.createDataFrame(pa.table({"batch_id": ids}))
    return records.join(wanted, "batch_id", "left_semi").select(
        "type",
        "offset",
        "timestamp",
        "batch_leader_epoch",
        "record_version",
        _PUT.lower(),
        _CHANGE.lower(),
        F.lit(is_base).alias("is_base"),
    )


def _ids(stretch: Stretch) -> pa.Array:
    return stretch.links.column("batch_id").combine_chunks()


def _snapshot_ids(stretch: Stretch) -> pa.Array:
    if stretch.base is None:
        return pa.array([], pa.string())
    batches = stretch.base.evidence.batches
    return pa.array([batches.id_text(row) for row in range(len(batches))], pa.string())
