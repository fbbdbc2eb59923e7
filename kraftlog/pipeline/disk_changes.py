"""What differs between the disks and what a lake knows of them.

In: a lake, and the replicas as they were listed. Out: `DiskChanges`; its place, size and time tell
of a file, and none is opened but those that could not be read before. Of files that are read
although these are the same, as small ones always are: where the content differs all the same, as
bits do that a disk has turned in silence. Driver side.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.log.directory import Replica
from kraftlog.log.fault import FaultKind
from kraftlog.log.storage import entry_of, open_file
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile, read_columns

_IDENTITY = ["path", "size_bytes", "modified_ns", "replica"]
_CONTENT = "content_hash"
_CHUNK_BYTES = 4 << 20
_BATCH = ["path", "position", "size_bytes", "batch_id", "crc_valid"]


@dataclass(frozen=True, slots=True)
class DiskChanges:
    """What differs between the disks and what the lake knows of them."""

    read: frozenset[str]
    """Paths that are new, have another size, time or label than when they were read, or could not be
    read then and can be now.
    """
    gone: frozenset[str]
    """Paths that the lake knows and the disks no longer hold."""
    known_sizes: Mapping[str, int]
    """How large the lake knows files to be, by path."""
    known_contents: Mapping[str, str]
    """The hashes of the contents that the lake knows, by path."""
    is_other_count: bool
    """Whether there are more or fewer replicas: one may hold no file."""

    def __bool__(self) -> bool:
        return bool(self.read or self.gone or self.is_other_count)


def disk_changes(lake: Lake, replicas: Sequence[Replica], known_count: int) -> DiskChanges:
    """The changes since the lake's newest run, which found so many replicas."""
    now = {
        tuple(getattr(file, name) for name in _IDENTITY) for one in replicas for file in one.files
    }
    rows: list[dict[str, Any]] = []
    if lake.exists("files"):
        rows = lake.rows("files", [*_IDENTITY, _CONTENT]).to_pylist()
    known = {tuple(row[name] for name in _IDENTITY) for row in rows}
    paths = {path for path, *_ in now}
    return DiskChanges(
        frozenset(path for path, *_ in now - known) | _readable_again(lake, replicas),
        frozenset(path for path, *_ in known if path not in paths),
        {path: size or 0 for path, size, *_ in known},
        {row["path"]: row[_CONTENT] for row in rows if row[_CONTENT]},
        len(replicas) != known_count,
    )


def _readable_again(lake: Lake, replicas: Sequence[Replica]) -> frozenset[str]:
    """Files that were made readable: that changes neither their size nor their time."""
    if not lake.exists("faults"):
        return frozenset()
    faults = lake.rows("faults", ["path"], ds.field("fault") == FaultKind.UNREADABLE)
    unread = set(faults.column("path").to_pylist())
    listed = (file for one in replicas for file in one.files if file.problem is None)
    return frozenset(
        file.path for file in listed if file.path in unread and _can_be_read(file.path)
    )


def _can_be_read(path: str) -> bool:
    """Whether every byte of a file can: of a dying disk a file opens, and a place in it fails."""
    try:
        with open_file(path) as file:
            for at in range(0, file.size_bytes, _CHUNK_BYTES):
                file.read(at, min(_CHUNK_BYTES, file.size_bytes - at))
    except OSError:
        return False
    return True


def changed_side_files(changes: DiskChanges, files: pa.Table) -> tuple[int, dict[str, int | None]]:
    """How many of the files that hold no record batches the lake knows the content of, and those
    among them whose content is another now, at no known place; all but those that are to be read
    anyway.
    """
    known, now = changes.known_contents, {row["path"]: row for row in files.to_pylist()}
    both = {one for one in known.keys() & now.keys() if now[one][_CONTENT]} - changes.read
    other = (one for one in both if known[one] != now[one][_CONTENT])
    return len(both), {path: None for path in other if _is_as_listed(now[path])}


def _is_as_listed(row: Mapping[str, Any]) -> bool:
    """Whether a file has the size and time of its listing: what is written just now has changed, and
    not in silence.
    """
    found = entry_of(row["path"])
    return found is not None and (found.size_bytes, found.modified_ns) == (
        row["size_bytes"],
        row["modified_ns"],
    )


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
    now = [read_columns(f"{folder}/{one.path}", _BATCH) for one in written]
    known = lake.rows("batches", _BATCH)
    both = pa.concat_tables([_of_paths(one, wanted) for one in [known, *now]])
    counted = both.group_by(_BATCH).aggregate([([], "count_all")])
    # What both know is there twice.
    single = counted.filter(pc.not_equal(counted.column("count_all"), 2))
    first = single.group_by("path").aggregate([("position", "min")]).to_pylist()
    return {row["path"]: row["position_min"] for row in first}


def _of_paths(rows: pa.Table, paths: pa.Array) -> pa.Table:
    rows = rows.select(_BATCH)
    return rows.filter(pc.is_in(rows.column("path"), value_set=paths))
