"""The history tables of a run: the lineages' records, folded span by span.

In: the lake's records and a quorum. Out: Parquet files of the history tables, waiting for their
commit. The small tables are replayed on the driver, record by record; partitions, which are nearly
everything, are folded by columns: in this process where they are few, else in Spark tasks, one per
share of their keys.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kraftlog.audit.lineages import Lineage, Stretch, stretches
from kraftlog.decode.rows import row_schema
from kraftlog.pipeline.scan import SCAN
from kraftlog.pipeline.shares import Shares, write_history
from kraftlog.state.arrow_events import Event, events_of, in_offset_order
from kraftlog.state.outline import PARTITION_TYPES, Outline, Outliner
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile

StartSpark = Callable[[], SparkSession]

ROWS_PER_SHARE = 3_000_000
"""So many log records are folded at a time, in about 1 GB; a log of fewer needs no Spark job."""
_WITHOUT_EFFECT = frozenset({"NO_OP_RECORD", "ZK_MIGRATION_STATE_RECORD"})


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
            types = sorted({one["type"] for one in self.lake.open(table).partitions()})
            self.sources[table] = self.lake.dataset(table), types
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
        records = pc.sum(stretch.links.column("end_offset")).as_py() or 0
        records -= pc.sum(stretch.links.column("base_offset")).as_py() or 0
        base_ids = _snapshot_ids(stretch) if stretch.base is not None else None
        count = records // ROWS_PER_SHARE + 1
        shares = Shares(self.lake, lineage, outline, _ids(stretch), base_ids, count)
        if count == 1:
            added = shares.fold(0)
            self.written["partitions"] += [added] if added is not None else []
            return
        spark = self.start_spark()
        rows = spark.range(0, count, 1, count).mapInArrow(shares.task(), from_arrow_schema(SCAN))
        self.written["partitions"] += [AddedFile.from_json(row["added"]) for row in rows.collect()]

    def _write(self, name: str, lineage: str, rows: pa.Table) -> None:
        if rows.num_rows:
            self.written[name].append(write_history(self.lake, name, lineage, rows))


def _ids(stretch: Stretch) -> pa.Array:
    return stretch.links.column("batch_id").combine_chunks()


def _snapshot_ids(stretch: Stretch) -> pa.Array:
    if stretch.base is None:
        return pa.array([], pa.string())
    batches = stretch.base.evidence.batches
    return pa.array([batches.id_text(row) for row in range(len(batches))], pa.string())
