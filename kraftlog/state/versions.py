"""Versions of partitions as columns, and how a fold goes on from those that hold at an offset.

In: rows of the history table `partitions`. Out: those that hold at an offset; the same as records
of a base snapshot; and, after the fold, with the records that had begun them.
"""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.decode.rows import row_schema
from kraftlog.relations import TIMESTAMP
from kraftlog.state.history import SHOWN
from kraftlog.state.partition_events import working_type

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


def as_base(versions: pa.Table) -> pa.Table:
    """Versions as the records of a base snapshot."""
    count = versions.num_rows
    fields = [one.with_type(working_type(one.type)) for one in row_schema(PUT).field(_PAYLOAD).type]
    columns = {one.name: name for one, name in SHOWN["partitions"].columns}
    values = [versions.column(columns[one.name]).combine_chunks() for one in fields]
    arrays = [value.cast(one.type) for value, one in zip(values, fields, strict=True)]
    return pa.table(
        {
            "offset": pa.array(np.arange(count), pa.int64()),
            "timestamp": pa.array(np.zeros(count, np.int64)).cast(TIMESTAMP),
            "batch_leader_epoch": pa.array(np.zeros(count, np.int32)),
            "record_version": pa.array(np.full(count, _NEWEST_VERSION, np.int16)),
            _PAYLOAD: pa.StructArray.from_arrays(arrays, fields=fields),
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


@cache
def no_rows(record_type: str) -> pa.Table:
    """No record of a type, with the columns that a fold needs."""
    schema = row_schema(record_type)
    names = (*RECORD_COLUMNS, record_type.lower())
    return pa.schema([schema.field(name) for name in names]).empty_table()
