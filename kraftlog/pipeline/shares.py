"""The partitions' history, share by share: each share reads its records from the lake and folds
them by columns.

In: an outline and the ids of the batches that count. Out: a Parquet file of the table `partitions`.
A share reads the Parquet files itself and keeps only its own keys: reading them several times costs
a small part of what a shuffle of nested rows through the JVM does. Runs in tasks, or in this
process where one share is enough.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.decode.rows import row_schema
from kraftlog.pipeline.scan import SCAN, added_row
from kraftlog.state.fold import fold_partitions
from kraftlog.state.outline import Outline
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile, write_file

PUT, CHANGE = "PARTITION_RECORD", "PARTITION_CHANGE_RECORD"
_COLUMNS = ("batch_id", "offset", "timestamp", "batch_leader_epoch", "record_version")


@dataclass(frozen=True, slots=True)
class Shares:
    """What all shares of one stretch have in common; pickles."""

    lake: Lake
    lineage: str
    outline: Outline
    log_ids: pa.Array
    base_ids: pa.Array | None
    count: int

    def fold(self, share: int) -> AddedFile | None:
        """Fold one share; None where it holds nothing."""
        base = self._rows(PUT, self.base_ids, share) if self.base_ids is not None else None
        puts, changes = (self._rows(kind, self.log_ids, share) for kind in (PUT, CHANGE))
        rows = fold_partitions(self.outline, base, puts, changes).rows
        return write_history(self.lake, "partitions", self.lineage, rows) if rows.num_rows else None

    def task(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """The function that Spark maps over share numbers."""

        def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for numbered in numbers:
                for share in numbered.column(0).to_pylist():
                    added = self.fold(share)
                    if added is not None:
                        yield added_row("partitions", added.to_json(), 0)
                    else:
                        yield from SCAN.empty_table().to_batches()

        return task

    def _rows(self, kind: str, ids: pa.Array, share: int) -> pa.Table:
        """This share's records of one type, in offset order."""
        source = self.lake.dataset("records")
        payload = kind.lower()
        schema = row_schema(kind)
        wanted = [*_COLUMNS, payload]
        parts = []
        for rows in source.to_batches(columns=wanted, filter=ds.field("type") == kind):
            kept = rows.filter(pc.is_in(rows.column("batch_id"), value_set=ids))
            if self.count > 1 and kept.num_rows:
                kept = kept.filter(pa.array(_share_of(kept.column(payload), self.count) == share))
            parts.append(kept)
        fields = [schema.field(name) for name in wanted]
        table = pa.Table.from_batches(parts, parts[0].schema if parts else pa.schema(fields))
        return table.sort_by([("offset", "ascending")])


def _share_of(payload: pa.StructArray, count: int) -> np.ndarray:
    """The share of each record, by its partition: all records of a partition are of one share."""
    topics = payload.field("topic_id").dictionary_encode()
    codes = [google_crc32c.value(str(one).encode()) for one in topics.dictionary]
    of_topic = np.array([*codes, 0], np.int64)
    indexes = topics.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
    partition = payload.field("partition_id").fill_null(0).to_numpy(zero_copy_only=False)
    shares: np.ndarray = (of_topic[indexes] + partition) % count
    return shares


def write_history(lake: Lake, name: str, lineage: str, rows: pa.Table) -> AddedFile:
    """Write rows of one history table and lineage."""
    column = pa.array(np.full(rows.num_rows, lineage))
    return write_file(lake.path(name), rows.add_column(0, "lineage", column))
