"""What compaction reads (KIP-630 "Loading State").

In: the size of the state, its rate of change, and the least dirty ratio. Out: rates per second. One
compaction reads the log three times: to apply it, to map keys to offsets, and to copy what lives. A
snapshot is written from memory: each record is read once, to be applied.
Source: KIP-630 "Loading State and Frequency of Compaction".
"""

from dataclasses import dataclass

MIN_DIRTY_RATIO = 0.5
"""Kafka's `min.cleanable.dirty.ratio`: dirty bytes against clean ones in the KIP's example."""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """Bytes per second, to map keys as many as to apply, and how often: a compaction runs once
    `dirty_bytes` have come together.
    """

    apply_rate: float
    copy_rate: float
    dirty_bytes: float
    interval_seconds: float


def compaction_reads(
    state_bytes: float, rate: float, min_dirty_ratio: float = MIN_DIRTY_RATIO
) -> ReadCost:
    """A compaction copies the compacted log and what came since, each time that the share of
    `min_dirty_ratio` of the state's bytes has been written anew.
    """
    dirty = state_bytes * min_dirty_ratio
    if rate <= 0 or dirty <= 0:
        return ReadCost(rate, 0.0, dirty, float("inf"))
    interval = dirty / rate
    return ReadCost(rate, (state_bytes + dirty) / interval, dirty, interval)
