"""Counts and bytes of records by type, version, hour and snapshot batch: one pass over the lake's
records, from which several tables are rolled up.

In: Arrow batches of `records` and `control_records`, with the columns of READS. Out: small Arrow
tables (RECORD_TOTALS), and of these rows of the tables `record_sizes` and `growth`, and the bytes per
type of each snapshot. Memory is that of one batch and the groups. A record's bytes on the wire are its
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

from kraftlog.decode.tabular import timestamps
from kraftlog.log.batch import HEADER_SIZE
from kraftlog.quorum.evidence import Flags, Longs
from kraftlog.quorum.growth import HOUR_MS
from kraftlog.relations import INT, LONG, TEXT, TIMESTAMP, Row, column, moment
from kraftlog.state.history import milliseconds

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

_KEYS = ["source", "batch_id", "window_start", "type", "record_version"]
_SIZES = ("value_size_bytes", "frame_size_bytes", "header_size_bytes")
_SUMS = ["record_count", *_SIZES]
_BOUNDS = ["min_value_size_bytes", "max_value_size_bytes"]
TYPE = column("type", TEXT, "record type as Kafka's dump tool prints it")
HOUR = column("window_start", TIMESTAMP, "the hour that the row is about, by its beginning")
RECORD_TOTALS = pa.schema(
    [
        column("source", TEXT, "log: the shared log; snapshot: every checkpoint at hand"),
        column("batch_id", TEXT, "the snapshot's batch; null: records of the log"),
        HOUR,
        TYPE,
        column("record_version", INT, "version of the record's message"),
        column("record_count", LONG, "records"),
        column("value_size_bytes", LONG, "bytes of their values"),
        column("frame_size_bytes", LONG, "bytes of the frames around them"),
        column("header_size_bytes", LONG, "bytes of the headers of the batches that they begin"),
        column("min_value_size_bytes", LONG, "smallest value"),
        column("max_value_size_bytes", LONG, "largest value"),
    ]
)


def totals_of(rows: pa.RecordBatch, sizes: Longs, held: Mapping[str, Flags]) -> pa.Table:
    """Totals of one batch of rows; `sizes` are their frame sizes, `held` tells which rows belong to
    each source. Groups whose rows do not all follow each other come more than once: `merged_totals` joins
    them.
    """
    parts = [RECORD_TOTALS.empty_table()]
    for source, mask in held.items():
        if mask.any():
            whole = mask.all()
            mine = rows if whole else rows.filter(pa.array(mask))
            parts.append(_added_up(mine, sizes if whole else sizes[mask], source))
    return pa.concat_tables(parts)


def merged_totals(parts: Iterable[pa.Table]) -> pa.Table:
    """Totals of totals: one row per group."""
    whole = pa.concat_tables([RECORD_TOTALS.empty_table(), *parts])
    return _rolled_up(whole, _KEYS).select(RECORD_TOTALS.names).cast(RECORD_TOTALS)


def _rolled_up(totals: pa.Table, keys: list[str]) -> pa.Table:
    """A row per group of fewer keys."""
    wanted = [(name, "sum") for name in _SUMS] + [*zip(_BOUNDS, ("min", "max"), strict=True)]
    found = totals.group_by(keys, use_threads=False).aggregate(wanted)
    return found.rename_columns([*keys, *_SUMS, *_BOUNDS])


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
    """A row of RECORD_TOTALS for each run of records of one group. They are few: records of a type lie in
    offset order, and so in that of time and of batches.
    """
    kinds = _encoded(rows, "type")
    ids = _encoded(rows, "batch_id") if source == SNAPSHOT else None
    hours = longs_of(rows, "timestamp", 0) // (1000 * HOUR_MS) * HOUR_MS
    versions = rows.column("record_version")
    keys = [hours, kinds.indices.to_numpy(), longs_of(rows, "record_version", 0)]
    keys += [versions.is_null().to_numpy(zero_copy_only=False)] if versions.null_count else []
    keys += [ids.indices.to_numpy()] if ids is not None else []
    breaks = np.bitwise_or.reduce([one[1:] != one[:-1] for one in keys])
    first = np.append(0, np.flatnonzero(breaks) + 1)
    values, places = longs_of(rows, "value_size_bytes", 0), pa.array(first)
    headers = (longs_of(rows, "record_index", 0) == 0).astype(np.int64) * HEADER_SIZE
    columns = {
        "source": pa.repeat(source, len(first)),
        "batch_id": pa.nulls(len(first)) if ids is None else ids.take(places),
        "window_start": timestamps(hours[first]),
        "type": kinds.take(places),
        "record_version": versions.take(places),
        "record_count": np.diff(first, append=rows.num_rows),
        "value_size_bytes": np.add.reduceat(values, first),
        "frame_size_bytes": np.add.reduceat(sizes - values, first),
        "header_size_bytes": np.add.reduceat(headers, first),
        "min_value_size_bytes": np.minimum.reduceat(values, first),
        "max_value_size_bytes": np.maximum.reduceat(values, first),
    }
    return pa.table(columns).cast(RECORD_TOTALS)


def frame_sizes(rows: pa.RecordBatch) -> Longs:
    """Bytes of each record as it lies in its batch before compression, value and length included
    (KIP-98's record format; header-less, as Kafka writes metadata).
    """
    values, keys = longs_of(rows, "value_size_bytes", -1), longs_of(rows, "key_size_bytes", -1)
    # No more than 40 bytes, of lengths and differences.
    small = varint_sizes(longs_of(rows, "timestamp_delta", 0))
    small += varint_sizes(longs_of(rows, "offset_delta", 0))
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


def longs_of(rows: pa.RecordBatch, name: str, default: int) -> Longs:
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
            **{name: one[name] for name in (*keys, "record_count", "value_size_bytes")},
            "size_bytes": sum(one[name] for name in _SIZES),
            "mean_value_size_bytes": one["value_size_bytes"] / one["record_count"],
            **{name: one[name] for name in _BOUNDS},
        }
        for one in _in_order(totals, keys)
    ]


def growth_rows(totals: pa.Table) -> list[Row]:
    """A row per hour and type of the log."""
    of_log = totals.filter(pc.equal(totals.column("source"), LOG))
    hours = milliseconds(of_log.column("window_start"))  # no calendar may hold them
    of_log = of_log.set_column(_KEYS.index("window_start"), "window_start", hours)
    return [
        {
            "window_start": moment(one["window_start"]),
            "type": one["type"],
            "record_count": one["record_count"],
            "size_bytes": sum(one[name] for name in _SIZES),
        }
        for one in _in_order(of_log, ["window_start", "type"])
    ]


def sizes_of_snapshot(totals: pa.Table) -> dict[str, dict[str, int]]:
    """Batch id → type → bytes, over the batches of snapshots."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    of_snapshots = totals.filter(pc.equal(totals.column("source"), SNAPSHOT))
    for one in of_snapshots.select(["batch_id", "type", *_SIZES]).to_pylist():
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
    count = int(np.sum(rows.column("record_count").to_numpy()))
    if not count:
        return None
    return float(sum(np.sum(rows.column(name).to_numpy()) for name in _SIZES) / count)
