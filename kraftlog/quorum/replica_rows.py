"""A quorum → the rows of the `replicas` and `epochs` relations."""

from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row, moment


def replica_rows(quorum: Quorum) -> list[Row]:
    """One row per replica: identity, role, extent, epoch vector, snapshots, committed bounds."""
    return [_replica_row(quorum, log) for log in quorum.logs]


def _replica_row(quorum: Quorum, log: LogView) -> Row:
    replica = log.evidence
    bounds = None if log.label in quorum.foreign else quorum.bounds
    snapshots = [one for one in quorum.snapshots_of(log.label) if one.is_complete]
    ends = [one.end_offset for one in snapshots]
    stamps = [at for one in snapshots if (at := one.last_contained_timestamp or 0) > 0]
    file = replica.epoch_checkpoint
    entries: list[tuple[int, int]] | None = None if file is None else file.value
    start, end = log.start_offset, log.end_offset
    if log.unread:
        start = None
    elif log.is_empty:
        start, end = min(ends, default=0), max(ends, default=0)
    if log.unreadable_end:
        end = None
    return {
        "replica": log.label,
        "folder": replica.folder,
        "node_id": replica.node_id,
        "directory_id": replica.meta("directory.id"),
        "cluster_id": replica.meta("cluster.id") or getattr(replica.state_file, "cluster_id", None),
        "role": quorum.role(replica),
        "log_start_offset": start,
        "log_end_offset": end,
        "last_epoch": log.last_epoch,
        "epochs": [[one.epoch, one.start_offset] for one in log.epoch_starts],
        "epoch_count": len(log.epoch_starts),
        "epoch_checkpoint_count": None if entries is None else len(entries),
        # Whether the file is pruned with the log (KAFKA-1211).
        "epoch_checkpoint_pruned": None
        if entries is None
        else all(begins >= (log.start_offset or 0) for _, begins in entries),
        "snapshots": [[one.end_offset, one.epoch] for one in snapshots],
        "newest_timestamp": None if log.newest_ms is None else moment(log.newest_ms),
        # Some of Kafka's own tools write snapshots of no time.
        "snapshot_timestamp": moment(max(stamps)) if stamps else None,
        "committed_lower": bounds and bounds.lower,
        "committed_upper": bounds and bounds.upper,
        "shown_end_offset": bounds and quorum.shown_end(log),
    }


def epoch_rows(quorum: Quorum) -> list[Row]:
    """One row per leader epoch of each replica's log."""
    return [row for log in quorum.logs for row in _epoch_rows(quorum, log)]


def _epoch_rows(quorum: Quorum, log: LogView) -> list[Row]:
    leaders = ({} if log.label in quorum.foreign else quorum.leaders) | log.leaders
    starts = log.epoch_starts
    ends = [one.start_offset for one in starts[1:]] + [log.end_offset or 0]
    columns = log.evidence.log
    rows = []
    for start, end in zip(starts, ends, strict=False):
        held = log.rows[(log.base >= start.start_offset) & (log.base < end)]
        rows.append(
            {
                "replica": log.label,
                "batch_leader_epoch": start.epoch,
                "start_offset": start.start_offset,
                "end_offset": end,
                "start_timestamp": moment(int(columns.base_timestamps[held[0]]))
                if len(held)
                else None,
                "batch_count": len(held),
                "size_bytes": int(columns.sizes[held].sum()),
                "leader_id": leaders.get(start.epoch),
                "has_leader_change": start.epoch in log.leaders,
            }
        )
    return rows
