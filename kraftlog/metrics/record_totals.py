"""Counts and bytes of records by type, version, hour and snapshot batch: one pass over the lake's
records, from which several tables are rolled up.

In: Arrow batches of `records` and `control_records`, with the columns of READS. Out: small Arrow
tables (TOTALS). Memory is that of one batch and the groups. A record's bytes on the wire are
its value, its frame (the varints around it) and, for the first of a batch, the batch's header; over
all records of an uncompressed log they add up to the size of its batches. Source: R19, R20, R91.
"""

from collections.abc import Iterable, Mapping, Set

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog.audit.evidence import Flags, Longs
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


def totals_of(rows: pa.RecordBatch, sizes: Longs, held: Mapping[str, Flags]) -> pa.Table:
    """Totals of one batch of rows; `sizes` are their frame sizes, `held` tells which rows belong to
    each source.
    """
    parts = [TOTALS.empty_table()]
    for source, mask in held.items():
        if mask.all():
            parts.append(_grouped(_measured(rows, sizes, source)))
        elif mask.any():
            parts.append(_grouped(_measured(rows.filter(pa.array(mask)), sizes[mask], source)))
    return pa.concat_tables(parts)


def merged(parts: Iterable[pa.Table]) -> pa.Table:
    """Totals of totals."""
    return _grouped(pa.concat_tables([TOTALS.empty_table(), *parts]))


def in_batches(rows: pa.RecordBatch, ids: Set[str]) -> Flags:
    """Which rows are records of some batches: asked once per distinct batch."""
    column = _encoded(rows, "batch_id")
    known = np.array([one in ids for one in column.dictionary.to_pylist()], np.bool_)
    found: Flags = known[column.indices.to_numpy()]
    return found


def _encoded(rows: pa.RecordBatch, name: str) -> pa.DictionaryArray:
    column = rows.column(name)
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _measured(rows: pa.RecordBatch, sizes: Longs, source: str) -> pa.Table:
    """One row per record, in the columns of TOTALS; texts are dictionaries."""
    values = numbers(rows, "value_size_bytes", 0)
    hours = numbers(rows, "timestamp", 0) // (1000 * HOUR_MS) * HOUR_MS
    sources = pa.DictionaryArray.from_arrays(np.zeros(rows.num_rows, np.int8), [source])
    ids = _encoded(rows, "batch_id")
    if source == LOG:
        nothing = pa.nulls(rows.num_rows, pa.int8())
        ids = pa.DictionaryArray.from_arrays(nothing, pa.array([], pa.string()))
    columns = {
        "source": sources,
        "batch_id": ids,
        "hour": hours,
        "type": _encoded(rows, "type"),
        "record_version": rows.column("record_version"),
        "count": np.ones(rows.num_rows, np.int64),
        "value_size_bytes": values,
        "frame_size_bytes": sizes - values,
        "header_size_bytes": np.where(numbers(rows, "record_index", 0) == 0, HEADER_SIZE, 0),
        "least": values,
        "most": values,
    }
    return pa.table(columns)


def _grouped(rows: pa.Table) -> pa.Table:
    """One row per group. Keys that are texts are grouped by their codes, which costs a tenth."""
    texts = {
        name: rows.column(name).chunk(0)
        for name in _KEYS
        if pa.types.is_dictionary(rows.schema.field(name).type)
    }
    for name, column in texts.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column.indices)
    wanted = [(name, "sum") for name in _SUMS] + [("least", "min"), ("most", "max")]
    found = rows.group_by(_KEYS, use_threads=False).aggregate(wanted)
    found = found.rename_columns([*_KEYS, *_SUMS, "least", "most"])
    for name, column in texts.items():
        named = column.dictionary.take(found.column(name).combine_chunks())
        found = found.set_column(found.schema.get_field_index(name), name, named)
    return found.select(TOTALS.names).cast(TOTALS)


def frame_sizes(rows: pa.RecordBatch) -> Longs:
    """Bytes of each record as it lies in its batch before compression, value and length included
    (KIP-98's record format; header-less, as Kafka writes metadata).
    """
    values, keys = numbers(rows, "value_size_bytes", -1), numbers(rows, "key_size_bytes", -1)
    body = (
        2  # attributes and the number of headers
        + varint_sizes(numbers(rows, "timestamp_delta", 0))
        + varint_sizes(numbers(rows, "offset_delta", 0))
        + varint_sizes(keys)
        + np.maximum(keys, 0)
        + varint_sizes(values)
        + np.maximum(values, 0)
    )
    return body + varint_sizes(body)


def varint_sizes(values: npt.NDArray[np.int64]) -> Longs:
    """Bytes of each number as a zigzag varint."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    sizes = np.ones(len(values), np.int64)
    for bits in range(7, int(zigzag.max(initial=0)).bit_length(), 7):
        sizes += zigzag >= np.uint64(1 << bits)
    return sizes


def numbers(rows: pa.RecordBatch, name: str, default: int) -> Longs:
    """A column as 64-bit numbers; times are µs."""
    column = rows.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    found: Longs = column.fill_null(default).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
