"""What Kafka's retention keeps of a metadata log, and what lies there beyond it.

In: a replica's log and snapshots, and the settings of its node. Out: which snapshots should be
gone, and how many bytes with them. Each replica alone drops its oldest snapshot, and the log below
the next one, while it holds two or more and is over `metadata.max.retention.bytes`, or the oldest
is over `metadata.max.retention.ms` old. Source: Kafka's KafkaMetadataLog, MetadataLogConfig;
KIP-630 "Proposed Changes", "When to Increase the LogStartOffset", sentry-charts#1954.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.growth import DAY_MS, per_day
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import (
    BETWEEN,
    KEPT_BYTES,
    KEPT_MS,
    SEGMENT_BYTES,
    SEGMENT_MS,
    default_of,
    number_of,
)
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.declare import Data

CLEANED_EVERY_MS = 60_000
"""So often a node compares what it keeps with its limits (KafkaRaftClient, MetadataLogConfig)."""
_WRITTEN_WITHIN_MS = 10_000
"""A snapshot of what was written before is there by then."""


@dataclass(frozen=True)
class RetentionLimits:
    """What retention compares with; Kafka's defaults. A limit below 0 is none."""

    max_bytes: int = default_of(KEPT_BYTES)
    max_ms: int = default_of(KEPT_MS)
    between_bytes: int = default_of(BETWEEN)
    segment_bytes: int = default_of(SEGMENT_BYTES)
    segment_ms: int = default_of(SEGMENT_MS)


def retention_limits(replica: ReplicaEvidence) -> RetentionLimits:
    """The limits that the server.properties beside a log sets, else Kafka's."""
    names = (KEPT_BYTES, KEPT_MS, BETWEEN, SEGMENT_BYTES, SEGMENT_MS)
    return RetentionLimits(*(number_of(replica, name).value for name in names))


def newest_ms(quorum: Quorum) -> int | None:
    """Time of the newest batch of any log."""
    times = [found for log in quorum.logs if (found := log.newest_ms) is not None]
    return max(times, default=None)


def counted_snapshots(quorum: Quorum, label: str) -> list[SnapshotView]:
    """The snapshots that retention counts, and drops, the oldest first: the one at offset 0 too, and
    those that are not complete, as Kafka goes by the names.
    """
    return [one for one in quorum.snapshots_of(label) if one.is_named_as_shipped]


def kept_snapshots(quorum: Quorum, label: str) -> list[SnapshotView]:
    """The snapshots that hold a state, whole, the oldest first."""
    return [one for one in quorum.snapshots_of(label) if one.is_complete and one.end_offset > 0]


def newest_snapshot(quorum: Quorum, label: str) -> SnapshotView | None:
    """The complete snapshot that a node loads, and serves: epoch first, then end offset. The one at
    offset 0 that `kafka-storage format` writes holds no state and is never served.
    """
    held = kept_snapshots(quorum, label)
    return held[-1] if held else None


def shipped_drops(
    held: Sequence[SnapshotView],
    log: LogView,
    log_size: int,
    limits: RetentionLimits,
    now: int | None,
) -> list[str | None]:
    """Why Kafka's cleaner would drop each of the `counted_snapshots`, oldest first; the newest is
    never dropped. With each one goes the log below the next.
    """
    reasons: list[str | None] = [None] * len(held)
    total = sum(one.evidence.size_bytes for one in held)
    for rank, one in enumerate(held[:-1]):
        stamp = one.last_contained_timestamp
        gone = prunable_bytes(log, one.end_offset) if rank else 0
        if 0 <= limits.max_bytes < log_size - gone + total:
            reasons[rank] = KEPT_BYTES
        elif now is not None and stamp is not None and 0 <= limits.max_ms < now - stamp:
            reasons[rank] = KEPT_MS
        else:
            break
        total -= one.evidence.size_bytes
    return reasons


def prunable_bytes(log: LogView, offset: int) -> int:
    """Bytes of the segments that lie wholly below an offset; the last one is never cut."""
    segments = log.evidence.segments
    return sum(one.size_bytes for one, after in pairwise(segments) if after.base_offset <= offset)


def log_bytes(log: LogView) -> int:
    """Bytes of all segments."""
    return sum(one.size_bytes for one in log.evidence.segments)


def bytes_since_snapshot(quorum: Quorum, log: LogView) -> int:
    """Bytes of the batches from the replica's newest snapshot on that a snapshot could hold by now,
    and that its node has counted: what is not committed waits for other voters, and is in none, and
    what has come while one was written waits for the next.
    """
    if not takes_snapshots(quorum, log) or log.newest_ms is None:
        return 0
    since = log.base >= counted_from(quorum, log)
    meant = log.rows[since & (log.base < _may_be_committed(quorum, log))]
    columns = log.evidence.log
    had_time = columns.max_timestamps[meant] <= log.newest_ms - _WRITTEN_WITHIN_MS
    return int(columns.sizes[meant[had_time]].sum())


def takes_snapshots(quorum: Quorum, log: LogView) -> bool:
    """Whether a node takes snapshots of its log: a broker on ZooKeeper that is to migrate only follows
    it. Source: Kafka's KafkaServer (3.4 to 3.9), which has no SnapshotGenerator; KIP-866.
    """
    own = _registration(quorum, log)
    return own is None or not own["isMigratingZkBroker"]


def _registration(quorum: Quorum, log: LogView) -> Data | None:
    """How a log's node is registered as a broker; None where it is not, or is of another quorum."""
    health, node = quorum.state.health, log.evidence.node_id
    brokers = {} if health is None else health.brokers
    return None if node is None or log.label in quorum.foreign else brokers.get(node)


def counted_from(quorum: Quorum, log: LogView) -> int:
    """Where a node began to count: at its newest snapshot, or later, where it has started since. What
    it finds in its log then does not count; a broker registers when it has read that. Source: Kafka's
    SnapshotGenerator, to which a start is a snapshot.
    """
    end, own = quorum.own_snapshot_end(log.label), _registration(quorum, log)
    registered: int = end if own is None else own["brokerEpoch"]
    return max(end, registered) if registered < (log.end_offset or 0) else end


def _may_be_committed(quorum: Quorum, log: LogView) -> int:
    """How far a log can be committed by the ends of the voters at hand; of a voter that was not
    copied no end is known.
    """
    end = log.end_offset or 0
    reached = sorted(max(one.end_offset or 0 for one in logs) for logs in quorum.holders.values())
    at = len(reached) + len(quorum.voting.missing) - quorum.bounds.majority
    by_most = reached[at] if 0 <= at < len(reached) else end
    return min(end, by_most, quorum.tail_starts.get(log.label, end))


def log_bytes_per_day(log: LogView) -> float | None:
    """Growth of one replica's log, by the times of its first and last batch, and the sizes of all."""
    if log.begun_ms is None or log.newest_ms is None:
        return None
    size = int(log.evidence.log.sizes[log.rows].sum())
    return per_day(size, log.newest_ms - log.begun_ms)


def kept_bytes(log: LogView, limits: RetentionLimits) -> float | None:
    """What log and snapshots come to under these limits: the limit of retention, what is written
    until the next snapshot, and the segment being written, which is never dropped. None where
    nothing limits them, or growth is not known.
    """
    growth = log_bytes_per_day(log)
    if limits.max_bytes < 0 or growth is None:
        return None
    segment = min(float(limits.segment_bytes), growth * limits.segment_ms / DAY_MS)
    return limits.max_bytes + limits.between_bytes + segment
