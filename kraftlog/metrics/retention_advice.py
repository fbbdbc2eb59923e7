"""Could the log begin later? KIP-630's rule and the shipped one, for each snapshot of each replica.

In: a quorum. Out: rows of the table `retention_advice`. The KIP: the leader's log start may move to
a snapshot's end x once all live replicas have replicated x, or the log start is 7 days old; a
follower's is the smaller of the leader's and its newest snapshot's end (version 19: the leader's,
once its snapshot reaches it). Shipped: see `quorum.retention`. Times are measured against the newest
record at hand. Source: KIP-630 "Proposed Changes", "When to Increase the LogStartOffset".
"""

from kraftlog.quorum.growth import DAY_MS
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import (
    RetentionLimits,
    counted_snapshots,
    kept_snapshots,
    log_bytes,
    newest_ms,
    prunable_bytes,
    retention_limits,
    shipped_drops,
)
from kraftlog.relations import Row

START_LAG_MS = 7 * DAY_MS
"""The KIP's default of metadata.start.offset.lag.time.max.ms, which Kafka does not have."""


def retention_rows(
    quorum: Quorum, limits: RetentionLimits | None = None, start_lag_ms: int = START_LAG_MS
) -> list[Row]:
    """A row per complete snapshot of each replica that ends above offset 0. Without limits each
    replica goes by those of the server.properties beside it, else by Kafka's.
    """
    return [
        row
        for log in quorum.logs
        for row in _of_replica(quorum, log, limits or retention_limits(log.evidence), start_lag_ms)
    ]


def _of_replica(
    quorum: Quorum, log: LogView, limits: RetentionLimits, start_lag_ms: int
) -> list[Row]:
    now, leader = newest_ms(quorum), quorum.leading_log
    replicated = min((one.end_offset or 0 for one in quorum.peers), default=0)
    held = kept_snapshots(quorum, log.label)
    start = log.start_offset or 0
    counted = counted_snapshots(quorum, log.label)
    reasons = shipped_drops(counted, log, log_bytes(log), limits, now)
    drops = {one.path: reason for one, reason in zip(counted, reasons, strict=True) if reason}
    moves_to = counted[len(drops)].path if drops else None
    begun = now if log.is_empty else int(log.evidence.log.base_timestamps[log.rows[0]])
    age = None if now is None or begun is None else now - begun
    led = start if leader is None else leader.start_offset or 0
    newest = max((one.end_offset for one in held), default=0)
    begins_there = start == 0 or any(start == one.end_offset for one in held)
    older, rows = 0, []
    for rank, one in enumerate(held):
        end = one.end_offset
        kip = _kip_reason(end, start, replicated, age, start_lag_ms)
        below = prunable_bytes(log, end)
        rows.append(
            {
                "replica": log.label,
                "path": one.path,
                "end_offset": end,
                "epoch": one.epoch,
                "rank": len(held) - rank,
                "log_start_offset": start,
                "log_start_spread": start - led if leader else None,
                "adopted_start_offset": min(led, newest),
                "draft_start_offset": led if newest >= led else None,
                "log_start_is_snapshot_end": begins_there,
                "prunable_segment_bytes": below,
                "prunable_snapshot_bytes": older,
                "kip_may_advance": kip is not None,
                "kip_reason": kip,
                "shipped_may_advance": one.path == moves_to,
                "shipped_drops": one.path in drops,
                "shipped_reason": drops.get(one.path),
                "is_served": rank == len(held) - 1,
                # Where the log goes on from an older one, who is fetching that need not begin again.
                "is_useful": rank == len(held) - 1 or log.covers(end, newest),
            }
        )
        older += one.evidence.size_bytes
    return rows


def _kip_reason(
    end: int, start: int, replicated: int, age_ms: int | None, start_lag_ms: int
) -> str | None:
    """Why the log start may move to a snapshot's end; None where it may not."""
    if end <= start:
        return None
    if replicated >= end:
        return "all replicas at hand hold the log up to it"
    if age_ms is not None and age_ms >= start_lag_ms:
        return "the log start is older than metadata.start.offset.lag.time.max.ms"
    return None
