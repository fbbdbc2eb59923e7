"""Counts and bytes of records by type, version, hour and snapshot batch: one pass over the lake's
records, from which several tables are rolled up.

In: Arrow batches of `records` and `control_records`, with the columns of READS. Out: one small
Arrow table (TOTALS). Memory is that of one batch and the groups. A record's bytes on the wire are
its value, its frame (the varints around it) and, for the first of a batch, the batch's header; over
all records of an uncompressed log they add up to the size of its batches. Source: R19, R20, R91.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.audit.evidence import Longs
from kraftlog.log.batch import HEADER_SIZE

READS = (
    "batch_id",
    "record_index",
    "timestamp",
    "type",
    "record_version",
    "timestamp_delta",
    "offset_delta",
    "key_size_bytes",
    "value_size_bytes",
)
HOUR_MS = 3_600_000
LOG, SNAPSHOT = "log", "snapshot"

_KEYS = ["source", "batch_id", "hour", "type", "record_version"]
_SUMS = ["count", "value_size_bytes", "frame_size_bytes", "header_size_bytes"]
TOTALS = pa.schema(
    [
        ("source", pa.string()),
        ("batch_id", pa.string()),
        ("hour", pa.int64()),
        ("type", pa.string()),
        ("record_version", pa.int32()),
        *((name, pa.int64()) for name in _SUMS),
        ("least", pa.int64()),
        ("most", pa.int64()),
    ]
)
"""`source` is log or snapshot; `batch_id` is null for the log's; `hour` is its first ms; `least`
and `most` are of the values' sizes.
"""


def record_totals(
    batches: Iterable[pa.RecordBatch], log_ids: pa.Array, snapshot_ids: pa.Array
) -> pa.Table:
    """Totals over the records of the log's batches, and of snapshots' ones; others are left out."""
    parts = [TOTALS.empty_table()]
    for rows in batches:
        for source, ids in ((LOG, log_ids), (SNAPSHOT, snapshot_ids)):
            held = rows.filter(pc.is_in(rows.column("batch_id"), value_set=ids))
            if held.num_rows:
                parts.append(_grouped(_measured(held, source)))
    return _grouped(pa.concat_tables(parts))


def _measured(rows: pa.RecordBatch, source: str) -> pa.Table:
    """One row per record, in the shape of TOTALS."""
    values = _numbers(rows, "value_size_bytes", 0)
    frames = frame_sizes(rows) - values
    headers = np.where(_numbers(rows, "record_index", 0) == 0, HEADER_SIZE, 0)
    times = _numbers(rows, "timestamp", 0) // 1000
    ids = rows.column("batch_id")
    columns = [
        pa.repeat(pa.scalar(source), rows.num_rows),
        ids if source == SNAPSHOT else pa.nulls(rows.num_rows, pa.string()),
        times - times % HOUR_MS,
        rows.column("type").cast(pa.string()),
        rows.column("record_version"),
        np.ones(rows.num_rows, np.int64),
        values,
        frames,
        headers,
        values,
        values,
    ]
    return pa.table(columns, schema=TOTALS)


def _grouped(rows: pa.Table) -> pa.Table:
    wanted = [(name, "sum") for name in _SUMS] + [("least", "min"), ("most", "max")]
    found = rows.group_by(_KEYS, use_threads=False).aggregate(wanted)
    found = found.rename_columns(
        [name.removesuffix("_sum").removesuffix("_min") for name in found.column_names]
    )
    named = ["most" if name == "most_max" else name for name in found.column_names]
    return found.rename_columns(named).select(TOTALS.names).cast(TOTALS)


def frame_sizes(rows: pa.RecordBatch) -> Longs:
    """Bytes of each record as it lies in its batch before compression, value and length included
    (KIP-98's record format; header-less, as Kafka writes metadata).
    """
    values, keys = _numbers(rows, "value_size_bytes", -1), _numbers(rows, "key_size_bytes", -1)
    body = (
        2  # attributes and the number of headers
        + varint_sizes(_numbers(rows, "timestamp_delta", 0))
        + varint_sizes(_numbers(rows, "offset_delta", 0))
        + varint_sizes(keys)
        + np.maximum(keys, 0)
        + varint_sizes(values)
        + np.maximum(values, 0)
    )
    return body + varint_sizes(body)


def varint_sizes(values: npt.NDArray[np.int64]) -> Longs:
    """Bytes of each number as a zigzag varint."""
    zigzag = ((values << 1) ^ (values >> 63)).astype(np.uint64)
    sizes = np.ones(len(values), np.int64)
    for bits in range(7, 64, 7):
        sizes += zigzag >= np.uint64(1 << bits)
    return sizes


def _numbers(rows: pa.RecordBatch, name: str, default: int) -> Longs:
    column = rows.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    found: Longs = column.fill_null(default).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
