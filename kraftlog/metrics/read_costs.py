"""What snapshots and compaction read and write (KIP-630 "Loading State").

In: the size of the state, its rate of change, and the least dirty ratio. Out: rates per second. One
compaction reads the log three times: to apply it, to map keys to offsets, and to copy what lives.
Source: KIP-630 "Loading State and Frequency of Compaction".
"""

from dataclasses import dataclass

MIN_DIRTY_RATIO = 0.5
"""Kafka's `min.cleanable.dirty.ratio`: dirty bytes against clean ones in the KIP's example."""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """Bytes per second, and how often: a compaction runs once `dirty_bytes` have come together."""

    apply_rate: float
    map_rate: float
    copy_rate: float
    dirty_bytes: float
    interval_seconds: float

    @property
    def total_rate(self) -> float:
        """Bytes that are read per second."""
        return self.apply_rate + self.map_rate + self.copy_rate


def snapshot_reads(rate: float) -> ReadCost:
    """A snapshot is written from memory: each record is read once, to be applied."""
    return ReadCost(rate, 0.0, 0.0, 0.0, float("inf"))


def compaction_reads(
    state_bytes: float, rate: float, min_dirty_ratio: float = MIN_DIRTY_RATIO
) -> ReadCost:
    """A compaction copies the compacted log and what came since, each time that the share of
    `min_dirty_ratio` of the state's bytes has been written anew.
    """
    dirty = state_bytes * min_dirty_ratio
    if rate <= 0 or dirty <= 0:
        return ReadCost(rate, rate, 0.0, dirty, float("inf"))
    interval = dirty / rate
    return ReadCost(rate, rate, (state_bytes + dirty) / interval, dirty, interval)


def written_bytes(state_bytes: float, tombstone_bytes: float = 0.0) -> float:
    """What one pass writes: the state; a compaction its tombstones too."""
    return state_bytes + tombstone_bytes
