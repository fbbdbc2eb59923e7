"""Arrow → Parquet files of a Delta table, inside an executor; nothing is visible before the driver
commits it.

In: Arrow tables. Out: one `AddedFile` per file: what a Delta commit has to say about it, statistics
included. Source: the Delta protocol, "Add File" and "Per-file Statistics".
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from blake3 import blake3

from kraftlog.errors import LakeError
from kraftlog.log import stores
from kraftlog.log.stores import is_remote

_SLICES = "kraftlog.slices"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_PLAIN = " !$&()+,-.;@_~"
_LONGEST = 200
"""File systems end a name at 255 bytes, and each letter that is not Latin takes nine here."""
_ROW_GROUP_ROWS = 1 << 20
_TEXT_LIMIT = 64
"""Longer texts are left out of the statistics, where a column has several: a cut maximum would have
to be rounded up.
"""


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A Parquet file that waits for its commit: `path` is relative to the table and lies below
    `column=value` folders where the table is partitioned, `stats` is Delta's JSON.
    """

    path: str
    size_bytes: int
    modified_ms: int
    partition_values: dict[str, str | None]
    stats: str


def write_file(
    table_path: str,
    data: pa.Table,
    partition_values: Mapping[str, str | None] | None = None,
    slices: Sequence[int] = (),
) -> AddedFile:
    """Write one Parquet file below a table's folder; columns that the table has and the data lacks
    read as null.

    Where the rows lie by slices, `slices` has the number of rows of each: every slice that has any
    is a row group of its own, and `slices_of` tells which. Raises LakeError where it cannot be
    written.
    """
    values = dict(partition_values or {})
    data = data.drop_columns([name for name in values if name in data.column_names])
    # Chunks with a dictionary each would be written as plain texts.
    data = _without_empty_lists(data).unify_dictionaries()
    name = f"{_folders(values)}part-{uuid.uuid4()}.zstd.parquet"
    filesystem, folder = lake_filesystem(table_path)
    path = f"{folder}/{name}"
    try:
        make_folder_of(filesystem, path)
        with filesystem.open_output_stream(path) as stream:
            _write(stream, data, slices)
            size = int(stream.tell())
    except OSError as error:
        raise unwritable(table_path, error) from error
    return AddedFile(name, size, int(time.time() * 1000), values, json.dumps(statistics(data)))


def unwritable(path: str, error: OSError) -> LakeError:
    """The error of what could not be written below a path."""
    return LakeError(f"{path}: it cannot be written ({stores.why(path, error)})")


def _write(stream: pa.NativeFile, data: pa.Table, slices: Sequence[int]) -> None:
    with pq.ParquetWriter(
        stream,
        data.schema,
        compression="zstd",
        store_schema=False,
        # A flipped bit in the lake is met where it is read, and not as another value.
        write_page_checksum=True,
        **_encodings(data.schema),
    ) as writer:
        counts = slices or [data.num_rows]
        for start, count in zip(accumulate(counts, initial=0), counts, strict=False):
            if count:
                group = _with_own_dictionaries(data.slice(start, count))
                writer.write_table(group, row_group_size=_ROW_GROUP_ROWS)
        if slices:
            writer.add_key_value_metadata({_SLICES: json.dumps(_held(slices))})


def _without_empty_lists(data: pa.Table) -> pa.Table:
    """The table without columns of lists in which no row has one. All their leaves would be written
    row by row: of records, the unknown tagged fields that none has were a tenth of the writing.
    """
    rows = data.num_rows
    return data.drop_columns(
        [
            one.name
            for one, column in zip(data.schema, data.columns, strict=True)
            if rows and pa.types.is_list(one.type) and column.null_count == rows
        ]
    )


def _with_own_dictionaries(group: pa.Table) -> pa.Table:
    """A row group whose dictionaries hold what is in it, and no more: Parquet writes them whole. The
    chunks of a column have one dictionary; one with nulls is left as it is.
    """
    for at, column in enumerate(group.columns):
        if pa.types.is_dictionary(column.type) and not column.null_count:
            codes = np.concatenate([one.indices.to_numpy() for one in column.chunks])
            values = column.chunk(0).dictionary
            is_used = np.zeros(len(values), np.bool_)
            is_used[codes] = True
            if is_used.all():
                continue
            own = pa.array((np.cumsum(is_used) - 1)[codes], column.type.index_type)
            used = values.take(pa.array(np.flatnonzero(is_used)))
            group = group.set_column(at, group.field(at), pa.DictionaryArray.from_arrays(own, used))
    return group


def _folders(values: Mapping[str, str | None]) -> str:
    """`column=value/` of each partition column, as Hive names them: Polars and others that do not
    take the values from Delta's log read them there. A text that no file system takes as a name
    (a copy's label may be a long path) is a hash of it there.
    """
    return "".join(f"{name}={_folder_text(value)}/" for name, value in values.items())


def _folder_text(value: str | None) -> str:
    text = _NO_VALUE if value is None else quote(value, safe=_PLAIN)
    return text if len(text) <= _LONGEST else blake3(text.encode()).hexdigest()


def _held(slices: Sequence[int]) -> list[int]:
    """The number of slices, then the slice of each row group."""
    held = [len(slices)]
    for number, count in enumerate(slices):
        held += [number] * -(-count // _ROW_GROUP_ROWS)
    return held


def slices_of(metadata: pq.FileMetaData) -> tuple[int, list[int]]:
    """Into how many slices a file's rows are divided, and the slice of each row group; one slice
    where nothing is said.
    """
    told = (metadata.metadata or {}).get(_SLICES.encode())
    if told is None:
        return 1, [0] * metadata.num_row_groups
    count, *held = json.loads(told)
    return count, held


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """How columns are encoded: offsets, positions, sizes and times by differences, everything else
    by a dictionary. Dictionaries of numbers that hardly repeat took a tenth of the writing. Values
    inside lists and structs have no statistics in the footer: nobody finds rows by them, and in
    dictionaries they took a third of a list's writing.
    """
    plain = [one.name for one in schema if not pa.types.is_nested(one.type)]
    long = [one.name for one in schema if one.type == pa.int64() or pa.types.is_timestamp(one.type)]
    others = [leaf for one in schema if one.name not in long for leaf in _leaves(one)]
    encoding = dict.fromkeys(long, "DELTA_BINARY_PACKED")
    how: dict[str, Any] = {"write_statistics": plain or False}
    return how | ({"use_dictionary": others, "column_encoding": encoding} if long else {})


def _leaves(field: pa.Field) -> Iterator[str]:
    """The dotted paths of a column's leaves, as Parquet names them."""
    kind = field.type
    if pa.types.is_struct(kind):
        inner = list(kind)
    elif pa.types.is_map(kind):
        inner = [pa.field("key_value", pa.struct([kind.key_field, kind.item_field]))]
    elif pa.types.is_list(kind):
        inner = [pa.field("list", pa.struct([kind.value_field.with_name("element")]))]
    else:
        inner = []
        yield field.name
    yield from (f"{field.name}.{leaf}" for one in inner for leaf in _leaves(one))


def lake_filesystem(path: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a lake's path, and the path inside it."""
    return stores.filesystem_of(path) if is_remote(path) else (pafs.LocalFileSystem(), path)


def open_parquet(path: str, read_dictionary: Sequence[str] | None = None) -> pq.ParquetFile:
    """A Parquet file by its whole path; of some columns the texts stay codes of dictionaries."""
    filesystem, inner = lake_filesystem(path)
    return pq.ParquetFile(inner, filesystem=filesystem, read_dictionary=read_dictionary)


def read_columns(path: str, columns: Sequence[str]) -> pa.Table:
    """Some columns of a Parquet file that a task has written.

    Raises LakeError where it is not there."""
    try:
        with open_parquet(path) as file:
            return file.read(columns=list(columns))
    except FileNotFoundError as error:
        raise LakeError(
            f"{path} is not there, although a task has written it; put the lake where every machine sees it under the same path"
        ) from error


def make_folder_of(filesystem: pafs.FileSystem, path: str) -> None:
    """Make the folder that a file will lie in. Object stores have none: there it would be an object
    of its own, and some requests.
    """
    if isinstance(filesystem, pafs.LocalFileSystem):
        filesystem.create_dir(str(Path(path).parent), recursive=True)


def statistics(data: pa.Table) -> dict[str, Any]:
    """Row count, and minimum, maximum and null count of every plain column."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(data.column_names, data.columns, strict=True):
        if pa.types.is_nested(column.type) or pa.types.is_boolean(column.type):
            continue
        nulls[name] = column.null_count
        if pa.types.is_dictionary(column.type):
            column = pc.unique(column).cast(column.type.value_type)
        bounds = pc.min_max(column).as_py()
        one_value = bounds["min"] == bounds["max"]
        low, high = _plain(bounds["min"], one_value), _plain(bounds["max"], one_value)
        if low is not None and high is not None:
            least[name], most[name] = low, high
    return {"numRecords": data.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _plain(value: Any, one_value: bool) -> Any:
    """A statistic as Delta's JSON holds it; None where it is better left out."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, str):
        return value if one_value or len(value) <= _TEXT_LIMIT else None
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    return value
