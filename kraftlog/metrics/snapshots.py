"""Snapshot metrics (KIP-630 "Metrics"): size, records per type, age and lag of every checkpoint.

In: a quorum. Out: the rows of the table `snapshots`, without their run. Source: KIP-630
SnapshotSizeBytes and SnapshotLag; the age is that of Kafka's LatestSnapshotGeneratedAgeMs, measured
from the newest record at hand instead of a clock.
"""

from typing import Any

import numpy as np

from kraftlog.audit.logview import LogView
from kraftlog.audit.quorum import Quorum
from kraftlog.audit.snapshots import SnapshotView
from kraftlog.relations import moment

Row = dict[str, Any]
_CONTROL_TYPES = frozenset({"SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS"})


def snapshot_rows(quorum: Quorum) -> list[Row]:
    """One row per checkpoint file of each replica."""
    newest_ms = _newest_ms(quorum)
    latest = {log.label: _latest(quorum, log.label) for log in quorum.logs}
    return [
        _row(quorum, one, newest_ms, is_latest=one is latest[one.replica])
        for one in quorum.snapshots
    ]


def _latest(quorum: Quorum, label: str) -> SnapshotView | None:
    """Epoch first, then end offset, among the complete ones: the snapshot that a node loads."""
    complete = [one for one in quorum.snapshots_of(label) if one.is_complete]
    return max(complete, key=lambda one: one.id, default=None)


def _newest_ms(quorum: Quorum) -> int | None:
    """Time of the newest batch of any log."""
    times = [
        int(log.evidence.log.max_timestamps[log.rows].max()) for log in quorum.logs if len(log.rows)
    ]
    return max(times, default=None)


def _row(quorum: Quorum, one: SnapshotView, newest_ms: int | None, *, is_latest: bool) -> Row:
    log, file = quorum.by_label[one.replica], one.evidence
    contained = one.last_contained_timestamp
    counts = {name: count for name, count in file.type_counts.items() if name not in _CONTROL_TYPES}
    end = one.end_offset
    return {
        "replica": one.replica,
        "path": one.path,
        "end_offset": end,
        "epoch": one.epoch,
        "complete": one.is_complete,
        "size_bytes": file.size_bytes,
        "batch_count": len(file.batches),
        "record_count": sum(counts.values()),
        "records_by_type": sorted(counts.items()),
        "last_contained_log_timestamp": None if contained is None else moment(contained),
        "modified": moment(file.modified_ms),
        "age_ms": None if contained is None or newest_ms is None else newest_ms - contained,
        "lag_offsets_min": max(0, quorum.bounds.lower - end),
        "lag_offsets_max": max(0, (log.end_offset or 0) - end),
        "lag_bytes": _bytes_after(log, end),
        "is_latest": is_latest,
    }


def _bytes_after(log: LogView, offset: int) -> int:
    """Bytes of the replica's own log from an offset on: what it replays after loading the
    snapshot.
    """
    rows = log.rows[np.asarray(log.base) >= offset]
    return int(log.evidence.log.sizes[rows].sum())
