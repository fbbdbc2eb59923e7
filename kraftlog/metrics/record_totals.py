"""Counts and bytes of records by type, version, hour and snapshot batch: one pass over the lake's
records, from which several tables are rolled up.

In: Arrow batches of `records` and `control_records`, with the columns of READS. Out: small Arrow
tables (TOTALS), and of these rows of the tables `record_sizes` and `growth`, and the bytes per type
of each snapshot. Memory is that of one batch and the groups. A record's bytes on the wire are its
value, its frame (the varints around it) and, for the first of a batch, the batch's header; over all
records of an uncompressed log they add up to the size of its batches. Source: KIP-630 "Type
of State Machines and Operations", "Loading State and Frequency of Compaction", "Amount of Data
Replicated", "Metrics".
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.log.batch import HEADER_SIZE
from kraftlog.quorum.evidence import Flags, Longs
from kraftlog.quorum.growth import HOUR_MS
from kraftlog.relations import Row, moment

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
LOG, SNAPSHOT = "log", "snapshot"

_KEYS = ["source", "batch_id", "hour", "type", "record_version"]
_SIZES = ("value_size_bytes", "frame_size_bytes", "header_size_bytes")
_SUMS = ["count", *_SIZES]
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
    each source. Groups whose rows do not all follow each other come more than once: `merged` joins
    them.
    """
    parts = [TOTALS.empty_table()]
    for source, mask in held.items():
        if mask.any():
            whole = mask.all()
            mine = rows if whole else rows.filter(pa.array(mask))
            parts.append(_added_up(mine, sizes if whole else sizes[mask], source))
    return pa.concat_tables(parts)


def merged(parts: Iterable[pa.Table]) -> pa.Table:
    """Totals of totals: one row per group."""
    whole = pa.concat_tables([TOTALS.empty_table(), *parts])
    return _rolled_up(whole, _KEYS).select(TOTALS.names).cast(TOTALS)


def _rolled_up(totals: pa.Table, keys: list[str]) -> pa.Table:
    """A row per group of fewer keys."""
    wanted = [(name, "sum") for name in _SUMS] + [("least", "min"), ("most", "max")]
    found = totals.group_by(keys, use_threads=False).aggregate(wanted)
    return found.rename_columns([*keys, *_SUMS, "least", "most"])


def _in_order(totals: pa.Table, keys: list[str]) -> list[Row]:
    """The same as rows, in the order of the keys."""
    order = [(key, "ascending") for key in keys]
    rows: list[Row] = _rolled_up(totals, keys).sort_by(order).to_pylist()
    return rows


def in_batches(rows: pa.RecordBatch, ids: Set[str]) -> Flags:
    """Which rows are records of some batches: asked once per distinct batch."""
    column = _encoded(rows, "batch_id")
    known = np.array([one in ids for one in column.dictionary.to_pylist()], np.bool_)
    if known.all() or not known.any():
        return np.full(len(column), bool(known.any()))
    found: Flags = known[column.indices.to_numpy()]
    return found


def _encoded(rows: pa.RecordBatch, name: str) -> pa.DictionaryArray:
    column = rows.column(name)
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _added_up(rows: pa.RecordBatch, sizes: Longs, source: str) -> pa.Table:
    """A row of TOTALS for each run of records of one group. They are few: records of a type lie in
    offset order, and so in that of time and of batches.
    """
    kinds = _encoded(rows, "type")
    ids = _encoded(rows, "batch_id") if source == SNAPSHOT else None
    hours = numbers(rows, "timestamp", 0) // (1000 * HOUR_MS) * HOUR_MS
    versions = rows.column("record_version")
    keys = [hours, kinds.indices.to_numpy(), numbers(rows, "record_version", 0)]
    keys += [versions.is_null().to_numpy(zero_copy_only=False)] if versions.null_count else []
    keys += [ids.indices.to_numpy()] if ids is not None else []
    breaks = np.bitwise_or.reduce([one[1:] != one[:-1] for one in keys])
    first = np.append(0, np.flatnonzero(breaks) + 1)
    values, places = numbers(rows, "value_size_bytes", 0), pa.array(first)
    headers = (numbers(rows, "record_index", 0) == 0).astype(np.int64) * HEADER_SIZE
    columns = {
        "source": pa.repeat(source, len(first)),
        "batch_id": pa.nulls(len(first)) if ids is None else ids.take(places),
        "hour": hours[first],
        "type": kinds.take(places),
        "record_version": versions.take(places),
        "count": np.diff(first, append=rows.num_rows),
        "value_size_bytes": np.add.reduceat(values, first),
        "frame_size_bytes": np.add.reduceat(sizes - values, first),
        "header_size_bytes": np.add.reduceat(headers, first),
        "least": np.minimum.reduceat(values, first),
        "most": np.maximum.reduceat(values, first),
    }
    return pa.table(columns).cast(TOTALS)


def frame_sizes(rows: pa.RecordBatch) -> Longs:
    """Bytes of each record as it lies in its batch before compression, value and length included
    (KIP-98's record format; header-less, as Kafka writes metadata).
    """
    values, keys = numbers(rows, "value_size_bytes", -1), numbers(rows, "key_size_bytes", -1)
    # No more than 40 bytes, of lengths and differences.
    small = varint_sizes(numbers(rows, "timestamp_delta", 0))
    small += varint_sizes(numbers(rows, "offset_delta", 0))
    small += varint_sizes(keys)
    small += varint_sizes(values)
    small += 2  # attributes and the number of headers
    body = np.maximum(values, 0)
    body += small
    if keys.max(initial=-1) > 0:
        body += np.maximum(keys, 0)
    body += varint_sizes(body)
    return body


def varint_sizes(values: Longs) -> npt.NDArray[np.uint8]:
    """Bytes of each number as a zigzag varint."""
    # A negative number takes as much room as the one that is not, and has the same other bits.
    folded = values if values.min(initial=0) >= 0 else values ^ (values >> 63)
    sizes = np.ones(len(values), np.uint8)
    for bits in range(6, int(folded.max(initial=0)).bit_length(), 7):
        sizes += folded >= 1 << bits
    return sizes


def numbers(rows: pa.RecordBatch, name: str, default: int) -> Longs:
    """A column as 64-bit numbers, not to be written to; times are µs."""
    column = rows.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if column.null_count == len(column):
        return np.full(len(column), default, np.int64)
    if column.null_count:
        column = column.fill_null(default)
    found: Longs = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def record_size_rows(totals: pa.Table) -> list[Row]:
    """A row per source, type and version."""
    keys = ["source", "type", "record_version"]
    return [
        {
            "source": one["source"],
            "type": one["type"],
            "record_version": one["record_version"],
            "record_count": one["count"],
            "value_size_bytes": one["value_size_bytes"],
            "size_bytes": sum(one[name] for name in _SIZES),
            "mean_value_size_bytes": one["value_size_bytes"] / one["count"],
            "min_value_size_bytes": one["least"],
            "max_value_size_bytes": one["most"],
        }
        for one in _in_order(totals, keys)
    ]


def growth_rows(totals: pa.Table) -> list[Row]:
    """A row per hour and type of the log."""
    of_log = totals.filter(pc.equal(totals.column("source"), LOG))
    return [
        {
            "window_start": moment(one["hour"]),
            "type": one["type"],
            "record_count": one["count"],
            "size_bytes": sum(one[name] for name in _SIZES),
        }
        for one in _in_order(of_log, ["hour", "type"])
    ]


def sizes_of_snapshot(totals: pa.Table) -> dict[str, dict[str, int]]:
    """Batch id → type → bytes, over the batches of snapshots."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    of_snapshots = totals.filter(pc.equal(totals.column("source"), SNAPSHOT))
    for one in of_snapshots.to_pylist():
        found[one["batch_id"]][one["type"]] += sum(one[name] for name in _SIZES)
    return found


def mean_size_bytes(totals: pa.Table, types: Iterable[str], source: str = LOG) -> float | None:
    """Mean bytes of a record of some types, with its frame and its share of batch headers; None
    where there is none.
    """
    mask = pc.and_(
        pc.equal(totals.column("source"), source),
        pc.is_in(totals.column("type"), value_set=pa.array(list(types), pa.string())),
    )
    rows = totals.filter(mask)
    count = int(np.sum(rows.column("count").to_numpy()))
    if not count:
        return None
    return float(sum(np.sum(rows.column(name).to_numpy()) for name in _SIZES) / count)
