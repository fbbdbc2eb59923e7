"""How often to take a snapshot, and how many to keep: what each interval would cost this quorum.

In: a quorum, how fast its log grows, how large its snapshots are, how fast nodes load. Out: rows of
the table `snapshot_advice`. A snapshot is taken once the interval has passed, or so many bytes were
written, whichever comes first; those older than the retention time go, and the oldest while log and
snapshots are over the retention size. Source: KIP-630 "When to Snapshot", version 19 of it for how
many to keep, and KIP-876 (hourly for seven days: 168 of them).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from kraftlog.config import ValueSource
from kraftlog.metrics.policy import MAX_BYTES, MAX_INTERVAL_MS
from kraftlog.metrics.snapshots import load_ms
from kraftlog.quorum.growth import DAY_MS, HOUR_MS, write_amplification
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.retention import RetentionLimits, limits_of
from kraftlog.quorum.settings import BETWEEN, INTERVAL, KEPT_BYTES, KEPT_MS, number_of

Row = dict[str, Any]
INTERVALS_MS = (HOUR_MS // 4, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS, DAY_MS)
BALANCED = "balanced"


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When a node takes a snapshot, and what it keeps. An interval of 0 is none; a retention below
    0 has no limit.
    """

    interval_ms: int = MAX_INTERVAL_MS
    max_bytes: int = MAX_BYTES
    kept_bytes: int = RetentionLimits().max_bytes
    kept_ms: int = RetentionLimits().max_ms

    def period_ms(self, log_bytes_per_day: float) -> float | None:
        """Time between two snapshots of a log that grows so; None where none is ever due."""
        by_bytes = self.max_bytes * DAY_MS / log_bytes_per_day if log_bytes_per_day > 0 else None
        due = [one for one in (by_bytes, self.interval_ms or None) if one is not None]
        return min(due, default=None)


def rule_of(log: LogView) -> tuple[SnapshotPolicy, bool]:
    """A node's own rule by the `server.properties` beside its log, and whether it sets any of it;
    Kafka's defaults where it does not.
    """
    replica = log.evidence
    limits, names = limits_of(replica), (INTERVAL, BETWEEN, KEPT_BYTES, KEPT_MS)
    own = {name: number_of(replica, name) for name in names}
    is_set = any(one.source == ValueSource.SERVER_PROPERTIES for one in own.values())
    return SnapshotPolicy(
        own[INTERVAL].value, limits.between_bytes, limits.max_bytes, limits.max_ms
    ), is_set


def kept_count(rule: SnapshotPolicy, period_ms: float, bytes_per_period: float) -> tuple[int, str]:
    """How many snapshots there are at a time once the quorum is old enough, and by which limit. A
    period leaves a snapshot and the log up to it; the newest is never deleted.
    """
    counts = []
    if rule.kept_ms >= 0:
        counts.append((floor(rule.kept_ms / period_ms), KEPT_MS))
    if rule.kept_bytes >= 0 and bytes_per_period > 0:
        counts.append((floor(rule.kept_bytes / bytes_per_period), KEPT_BYTES))
    least = min(counts, default=None)
    return (max(1, least[0]), least[1]) if least is not None else (0, "no limit")


def balanced_interval_ms(snapshot_bytes: float, log_bytes_per_day: float) -> float | None:
    """The interval in which the log grows by as much as a snapshot holds: snapshots then write no
    more than the log itself, and a start reads at most twice the state. None where nothing grows.
    """
    return snapshot_bytes * DAY_MS / log_bytes_per_day if log_bytes_per_day > 0 else None


def advice_rows(
    log: LogView, snapshot_bytes: float, log_bytes_per_day: float, load_rate: float
) -> Iterator[Row]:
    """A row per interval, the node's own among them, and one that is balanced."""
    own, is_set = rule_of(log)
    best = balanced_interval_ms(snapshot_bytes, log_bytes_per_day)
    choices: dict[int, str] = dict.fromkeys(INTERVALS_MS, "example")
    if best is not None:
        choices[min(max(ceil(best), INTERVALS_MS[0]), DAY_MS)] = BALANCED
    choices[own.interval_ms] = "own" if is_set else "default"
    for interval, source in sorted(choices.items()):
        rule = SnapshotPolicy(interval, own.max_bytes, own.kept_bytes, own.kept_ms)
        period = rule.period_ms(log_bytes_per_day)
        row = {"replica": log.label, "interval_ms": interval, "chosen_by": source}
        yield row | _costs(rule, period, snapshot_bytes, log_bytes_per_day, load_rate)


def _costs(
    rule: SnapshotPolicy,
    period: float | None,
    size: float,
    log_bytes_per_day: float,
    load_rate: float,
) -> Row:
    """What one rule costs a day, and at worst when a node starts."""
    if period is None:
        names = (
            "snapshots_per_day", "size_bytes_per_day", "write_amplification",
            "longest_debt_bytes", "longest_load_ms", "kept_count", "kept_by", "kept_size_bytes",
            "kept_ms",
        )  # fmt: skip
        return dict.fromkeys(names)
    daily, debt = DAY_MS / period, log_bytes_per_day * period / DAY_MS
    kept, by = kept_count(rule, period, size + debt)
    return {
        "snapshots_per_day": daily,
        "size_bytes_per_day": daily * size,
        "write_amplification": write_amplification(daily * size, log_bytes_per_day),
        "longest_debt_bytes": debt,
        "longest_load_ms": load_ms(size, debt, load_rate),
        "kept_count": kept or None,
        "kept_by": by,
        "kept_size_bytes": kept * (size + debt) or None,
        "kept_ms": float(kept * period) or None,
    }
