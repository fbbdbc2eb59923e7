"""A table of a lake for Arrow to scan, without asking Delta which files a filter needs.

In: a lake and a table's name. Out: a dataset whose fragments are the table's files.
"""

from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import filesystem_of


def open_table(lake: Lake, name: str, texts_as_dictionaries: bool = False) -> ds.Dataset:
    """A table without Delta's own statistics of its files: making expressions of them costs a
    second for hundreds of files. For who wants all rows, or knows which files hold them.
    """
    filesystem, folder = filesystem_of(lake.path(name))
    files = pafs.SubTreeFileSystem(folder, filesystem)
    schema = pa.schema(lake.open(name).schema().to_arrow())
    texts = [one.name for one in schema if texts_as_dictionaries and pa.types.is_string(one.type)]
    form = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=texts))
    fragments = [
        form.make_fragment(file["path"], files, partition_expression=_holds(values))
        for file, values in lake.files(name)
    ]
    for text in texts:
        place = schema.get_field_index(text)
        schema = schema.set(place, pa.field(text, pa.dictionary(pa.int32(), pa.string())))
    return ds.FileSystemDataset(fragments, schema, form, files)


def _holds(values: dict[str, Any]) -> ds.Expression | None:
    """What the values of its partition columns say of all rows of a file."""
    each = [
        ds.field(name).is_null() if value is None else ds.field(name) == value
        for name, value in values.items()
    ]
    return reduce(and_, each) if each else None
