"""Files whose content has changed although their size and time have not: bits that a disk has
turned in silence, or a copy that somebody has touched.

In: the files of `batches` that the first pass has just written, and the lake. Out: the first place
at which each such file differs. Driver side; memory is that of the ids of these files.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.pipeline.content_places import read_columns
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile

_COLUMNS = ["path", "position", "size_bytes", "batch_id", "crc_valid"]


def changed_in_place(
    lake: Lake, written: Iterable[AddedFile], paths: frozenset[str]
) -> dict[str, int]:
    """Of some paths those whose batches are others than the lake knows, each with the first byte
    place at which one is missing, new or other.
    """
    if not paths or not lake.exists("batches"):
        return {}
    wanted = pa.array(sorted(paths), pa.string())
    folder = lake.path("batches")
    now = [read_columns(f"{folder}/{one.path}", _COLUMNS) for one in written]
    known = lake.read("batches", _COLUMNS)
    both = pa.concat_tables([_of_paths(one, wanted) for one in [known, *now]])
    counted = both.group_by(_COLUMNS).aggregate([([], "count_all")])
    # What both know is there twice.
    single = counted.filter(pc.not_equal(counted.column("count_all"), 2))
    first = single.group_by("path").aggregate([("position", "min")]).to_pylist()
    return {row["path"]: row["position_min"] for row in first}


def _of_paths(rows: pa.Table, paths: pa.Array) -> pa.Table:
    rows = rows.select(_COLUMNS)
    return rows.filter(pc.is_in(rows.column("path"), value_set=paths))
