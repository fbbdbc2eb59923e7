"""What each replica's folder takes on its disk, how it grows, and when a given capacity is full.

In: the files of a run (rows of `files`), and a quorum. Out: rows of the table `disk`. Source:
KIP-630 "Motivation", "When to Snapshot".
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kraftlog.log import names
from kraftlog.quorum.growth import days_to_fill
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import log_bytes_per_day
from kraftlog.relations import Row


def disk_rows(
    quorum: Quorum, files: Iterable[Mapping[str, Any]], capacity_bytes: int | None
) -> list[Row]:
    """A row per replica. Growth is that of its log over the time that its batches span; snapshots
    come on top, and go again.
    """
    sizes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for file in files:
        sizes[file["replica"]][file["kind"]] += file["size_bytes"]
    return [_row(log, sizes[log.label], capacity_bytes) for log in quorum.logs]


def _row(log: LogView, sizes: Counter[str], capacity_bytes: int | None) -> Row:
    growth, total = log_bytes_per_day(log), sizes.total()
    left_over = sum(size for kind, size in sizes.items() if kind.endswith(("_part", "_deleted")))
    full = None if capacity_bytes is None else days_to_fill(capacity_bytes - total, growth)
    return {
        "replica": log.label,
        "size_bytes": total,
        "size_bytes_by_kind": sorted(sizes.items()),
        "log_size_bytes": sizes[names.LOG],
        "snapshot_size_bytes": sizes[names.CHECKPOINT],
        "left_over_size_bytes": left_over,
        "log_bytes_per_day": growth,
        "capacity_bytes": capacity_bytes,
        "days_to_fill": full,
    }
