"""What differs between the disks and what a lake knows of them.

In: a lake, and the replicas as they were listed. Out: `DiskChanges`. No file is opened: its place,
size and time tell. Driver side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kraftlog.log.directory import Replica
from kraftlog.tables.lake import Lake

_IDENTITY = ["path", "size_bytes", "modified_ns", "replica"]


@dataclass(frozen=True, slots=True)
class DiskChanges:
    """What differs between the disks and what the lake knows of them."""

    read: frozenset[str]
    """Paths that are new, or have another size, time or label than when they were read."""
    gone: frozenset[str]
    """Paths that the lake knows and the disks no longer hold."""
    known_sizes: Mapping[str, int]
    """How large the lake knows files to be, by path."""
    is_other_count: bool
    """Whether there are more or fewer replicas: one may hold no file."""

    def __bool__(self) -> bool:
        return bool(self.read or self.gone or self.is_other_count)


def disk_changes(lake: Lake, replicas: Sequence[Replica], known_count: int) -> DiskChanges:
    """The changes since the lake's newest run, which found so many replicas."""
    now = {
        tuple(getattr(file, name) for name in _IDENTITY) for one in replicas for file in one.files
    }
    known: set[tuple[Any, ...]] = set()
    if lake.exists("files"):
        known = {tuple(row.values()) for row in lake.read("files", _IDENTITY).to_pylist()}
    paths = {path for path, *_ in now}
    return DiskChanges(
        frozenset(path for path, *_ in now - known),
        frozenset(path for path, *_ in known if path not in paths),
        {path: size or 0 for path, size, *_ in known},
        len(replicas) != known_count,
    )
