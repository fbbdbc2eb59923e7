"""What stood at an offset: the versions of partitions that hold there, taken from history that was
written before, so that a fold can go on from them.

In: Parquet files of the table `partitions`, and an offset. Out: the versions as PARTITION_RECORDs
of a base, and, after the fold, the same versions with the records that had begun them. Runs in
tasks and on the driver.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.decode.rows import row_schema
from kraftlog.state.history import SHOWN, history_tables
from kraftlog.state.outline import BASE_TOPIC, Outline, TopicEvent
from kraftlog.tables.parquet import filesystem_of

PUT, CHANGE = "PARTITION_RECORD", "PARTITION_CHANGE_RECORD"
RECORD_COLUMNS = ("offset", "timestamp", "batch_leader_epoch", "record_version")
"""What a fold needs of each record beside its fields."""
_PAYLOAD = PUT.lower()
_BEGUN = ("valid_from_offset", "valid_from", "record_offset", "record_type", "batch_leader_epoch")
_KEY = ("topic_id", "partition_id")
_NEWEST_VERSION = 2
"""A PARTITION_RECORD of this version holds every column of the history."""


def holding_at(rows: pa.Table, offset: int) -> pa.Table:
    """The versions that hold at an offset."""
    ends = rows.column("valid_to_offset")
    begun = pc.less_equal(rows.column("valid_from_offset"), offset)
    return rows.filter(pc.and_(begun, pc.or_kleene(pc.is_null(ends), pc.greater(ends, offset))))


@dataclass(frozen=True, slots=True)
class Standing:
    """The versions that hold at `offset`: `known`, or in files of `partitions`."""

    offset: int
    paths: tuple[str, ...]
    known: pa.Table | None = None

    def rows(self) -> pa.Table:
        """The versions that hold at the offset."""
        schema = history_tables()["partitions"].schema
        if self.known is not None:
            return self.known.cast(schema)
        if not self.paths:
            return schema.empty_table()
        filesystem, _ = filesystem_of(self.paths[0])
        files = [filesystem_of(path)[1] for path in self.paths]
        source = ds.dataset(files, schema=schema, filesystem=filesystem, format="parquet")
        holds = (ds.field("valid_from_offset") <= self.offset) & (
            ds.field("valid_to_offset").is_null() | (ds.field("valid_to_offset") > self.offset)
        )
        return source.to_table(filter=holds)


def as_base(standing: pa.Table) -> pa.Table:
    """Versions as the records of a base snapshot."""
    schema, shown = row_schema(PUT), SHOWN["partitions"]
    count = standing.num_rows
    kind = schema.field(_PAYLOAD).type
    columns = {one.name: shown.column_name(one) for one in shown.fields}
    payload = pa.StructArray.from_arrays(
        [standing.column(columns[one.name]).combine_chunks().cast(one.type) for one in kind],
        fields=list(kind),
    )
    offsets = pa.array(np.arange(count), pa.int64())
    return pa.table(
        {
            "offset": offsets,
            "timestamp": standing.column("valid_from"),
            "batch_leader_epoch": standing.column("batch_leader_epoch"),
            "record_version": pa.array(np.full(count, _NEWEST_VERSION), pa.int16()),
            _PAYLOAD: payload,
        }
    )


def with_origins(rows: pa.Table, standing: pa.Table, offset: int) -> pa.Table:
    """The folded rows; those that stood before the fold began say again what had begun them."""
    is_base = pc.and_(
        pc.equal(rows.column("valid_from_offset"), offset), pc.is_null(rows.column("record_offset"))
    )
    place = np.flatnonzero(is_base.to_numpy())
    if len(place) == 0:
        return rows
    keys = standing.select(_KEY).append_column("at", pa.array(np.arange(standing.num_rows)))
    asked = rows.select(_KEY).take(place).append_column("row", pa.array(place))
    found = asked.join(keys, list(_KEY), join_type="inner")
    source = np.full(rows.num_rows, -1, np.int64)
    source[found.column("row").to_numpy()] = found.column("at").to_numpy()
    index = pa.array(np.where(source >= 0, source, np.arange(rows.num_rows) + standing.num_rows))
    for name in _BEGUN:
        at = rows.schema.get_field_index(name)
        kind = rows.schema.field(at).type
        chunks = [*standing.column(name).cast(kind).chunks, *rows.column(name).chunks]
        both = pa.chunked_array(chunks, kind)
        rows = rows.set_column(at, rows.schema.field(at), both.take(index))
    return rows


def outline_from(outline: Outline, offset: int) -> Outline | None:
    """The outline of what follows an offset, with the topics that lived there as its base; None
    where a transaction lies across the offset, whose records show only later.
    """
    if any(one.begin_offset < offset <= one.end_offset for one in outline.hidden):
        return None
    lives: dict[str, TopicEvent] = {}
    for one in outline.topics:
        if one.offset < offset:
            lives[one.topic_id] = one
    base = [one._replace(offset=BASE_TOPIC) for one in lives.values() if one.is_alive]
    return replace(
        outline,
        start_offset=offset,
        topics=base + [one for one in outline.topics if one.offset >= offset],
        clears=[one for one in outline.clears if one.offset >= offset],
        hidden=[one for one in outline.hidden if one.begin_offset >= offset],
    )


def no_rows(record_type: str) -> pa.Table:
    """No record of a type, with the columns that a fold needs."""
    schema = row_schema(record_type)
    names = (*RECORD_COLUMNS, record_type.lower())
    return pa.schema([schema.field(name) for name in names]).empty_table()
