"""What one task of a read gets, batch or stream, and the rows that it makes of it.

In: partitions, which the driver has planned; they pickle. Out: Arrow record batches with the
columns that the reader wants; of files, split by split. Runs in executors.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kraftlog import relations
from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded
from kraftlog.decode.tabular import batch_table, constant, fault_table
from kraftlog.log.directory import Replica, walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits, Window
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.replica_rows import epoch_rows, replica_rows
from kraftlog.source.pushdown import Pushed
from kraftlog.source.splits import Split, cut, pack
from kraftlog.source.task_settings import (
    arrow_schema,
    limits_of,
    relation_of,
    settings_of,
    tasks_of,
)


@dataclass
class Part(InputPartition):
    """The splits that one task reads. All tasks mask under the driver's key, so that equal secrets
    stay equal.
    """

    splits: list[Split]
    redactor: Redactor


@dataclass
class Whole(InputPartition):
    """All replicas: what is said of one depends on the others."""

    replicas: list[Replica]
    redactor: Redactor


@dataclass
class GivenRows(InputPartition):
    """Rows that the driver already has."""

    rows: pa.Table


def parts_of(
    ranges: Iterable[Split], options: Mapping[str, str], redactor: Redactor
) -> list[InputPartition]:
    """Ranges of files, cut to the split size, and dealt out to tasks."""
    size = settings_of(options).split_size_bytes
    splits = [part for one in ranges for part in cut(one, size)]
    sizes = [split.size_bytes for split in splits]
    groups = pack(sizes, tasks_of(options))
    return [Part([splits[index] for index in sorted(group)], redactor) for group in groups]


def rows_of(
    partition: InputPartition, options: Mapping[str, str], columns: Sequence[str], pushed: Pushed
) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema({**options, "columns": ",".join(columns)})
    if isinstance(partition, GivenRows):
        yield from partition.rows.select(schema.names).to_batches()
    elif isinstance(partition, Part | Whole):
        limits = limits_of(settings_of(options), partition.redactor)
        reading = Reading(relation_of(options), schema, limits, partition.redactor, pushed)
        if isinstance(partition, Whole):
            yield from read_quorum(partition.replicas, reading)
            return
        for split in partition.splits:
            yield from read_split(split, reading)


@dataclass(frozen=True, slots=True)
class Reading:
    """How splits are read: the relation and its schema (maybe fewer columns), limits, masking, and
    what is asked for.
    """

    relation: str
    schema: pa.Schema
    limits: Limits
    redactor: Redactor
    pushed: Pushed


def read_split(split: Split, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The rows of one of the relations that are read file by file: batches, records,
    control_records, faults.
    """
    for found in walk_file(split.file, reading.limits, split.start, split.end):
        if isinstance(found, Fault):
            if reading.relation == "faults":
                yield _conform(fault_table(split.file, [found]), reading.schema)
        elif reading.relation == "batches":
            yield _conform(batch_table(split.file, found.batches, reading.limits), reading.schema)
        else:
            yield from _decoded(split, found, reading)


def read_quorum(replicas: Sequence[Replica], reading: Reading) -> Iterator[pa.RecordBatch]:
    """The rows of the relations that need all replicas at once: replicas, epochs."""
    evidence = evidence_by(Collector(reading.limits, reading.redactor), replicas, None)
    rows = {"replicas": replica_rows, "epochs": epoch_rows}[reading.relation](Quorum(evidence))
    schema = relations.all_relations()[reading.relation].schema
    table = pa.Table.from_pylist(rows, schema=schema)
    yield from table.select(reading.schema.names).to_batches()


def _decoded(split: Split, window: Window, reading: Reading) -> Iterator[pa.RecordBatch]:
    chosen = _seen(window, reading.pushed)
    if not chosen:
        return
    places = dict(zip(window.batches.batch_ids, window.batches.positions.tolist(), strict=True))
    for decoded in decode_window(
        window,
        reading.pushed.types,
        reading.redactor,
        reading.limits.decompressed_size_bytes,
        chosen,
    ):
        if reading.relation == "faults":
            if decoded.faults:
                yield _conform(fault_table(split.file, decoded.faults), reading.schema)
            continue
        for table in _tables(decoded, reading.relation):
            yield _conform(_placed(table, split, places), reading.schema)


def _tables(decoded: Decoded, relation: str) -> list[pa.RecordBatch]:
    tables = decoded.records if relation == "records" else decoded.control
    return [table for table in tables.values() if table.num_rows]


def _seen(window: Window, pushed: Pushed) -> list[int]:
    """The batches of a window that hold offsets which the query can see."""
    base = window.batches.headers["base_offset"].astype(np.int64)
    last = base + window.batches.headers["last_offset_delta"]
    seen = np.ones(len(base), bool)
    if pushed.first_offset is not None:
        seen &= last >= pushed.first_offset
    if pushed.last_offset is not None:
        seen &= base <= pushed.last_offset
    return [int(index) for index in np.flatnonzero(seen)]


def _placed(table: pa.RecordBatch, split: Split, places: dict[str, int]) -> pa.RecordBatch:
    """Add where the records were read. Equal batches of one window cannot be told apart by id, nor
    need they be.
    """
    ids = table.column("batch_id").cast(pa.string()).to_pylist()
    count = table.num_rows
    columns = [
        constant(split.file.replica, count),
        constant(split.file.path, count),
        constant(split.file.kind, count),
        pa.array([places[one] for one in ids], pa.int64()),
    ]
    names = [field.name for field in relations.PLACE]
    return pa.RecordBatch.from_arrays(
        [*columns, *table.columns], names=[*names, *table.schema.names]
    )


def _conform(table: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns that the reader wants, in its order; what this batch lacks is null."""
    names = set(table.schema.names)
    arrays = [
        table.column(field.name).cast(field.type)
        if field.name in names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
