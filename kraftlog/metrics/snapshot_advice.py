"""How often to take a snapshot, and how many to keep: what each interval would cost this quorum.

In: a quorum, how fast its log grows, how large its snapshots are, how fast nodes load. Out: rows of
the table `snapshot_advice`. A snapshot is taken once the interval has passed, or so many bytes were
written, whichever comes first; those older than the retention time go, and the oldest while log and
snapshots are over the retention size. Source: KIP-630 "When to Snapshot", version 19 of it for how
many to keep, and KIP-876 (hourly for seven days: 168 of them).
"""

from collections.abc import Iterator
from math import ceil, floor

from kraftlog.config import ValueSource
from kraftlog.quorum.growth import DAY_MS, HOUR_MS, load_ms, write_amplification
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.retention import RetentionLimits, retention_limits
from kraftlog.quorum.settings import BETWEEN, INTERVAL, KEPT_BYTES, KEPT_MS, number_of
from kraftlog.relations import Row

INTERVALS_MS = (HOUR_MS // 4, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS, DAY_MS)
BALANCED = "balanced"


def ms_to_write(size_bytes: float, log_bytes_per_day: float) -> float | None:
    """The time in which the log grows by so much; None where nothing grows. In that of a snapshot's
    size snapshots write no more than the log itself, and a start reads at most twice the state.
    """
    return size_bytes * DAY_MS / log_bytes_per_day if log_bytes_per_day > 0 else None


def period_ms(interval_ms: int, limits: RetentionLimits, log_bytes_per_day: float) -> float | None:
    """Time between two snapshots of a log that grows so; an interval of 0 is none. None where no
    snapshot is ever due.
    """
    due = (ms_to_write(limits.between_bytes, log_bytes_per_day), interval_ms or None)
    return min((one for one in due if one is not None), default=None)


def kept_count(limits: RetentionLimits, period: float, bytes_per_period: float) -> tuple[int, str]:
    """How many snapshots there are at a time once the quorum is old enough, and by which limit. A
    period leaves a snapshot and the log up to it; the newest is never deleted.
    """
    counts = []
    if limits.max_ms >= 0:
        counts.append((floor(limits.max_ms / period), KEPT_MS))
    if limits.max_bytes >= 0 and bytes_per_period > 0:
        counts.append((floor(limits.max_bytes / bytes_per_period), KEPT_BYTES))
    least = min(counts, default=None)
    return (max(1, least[0]), least[1]) if least is not None else (0, "no limit")


def advice_rows(
    log: LogView, snapshot_bytes: float, log_bytes_per_day: float, load_rate: float
) -> Iterator[Row]:
    """A row per interval, the node's own among them, and one that is balanced."""
    limits, names = retention_limits(log.evidence), (INTERVAL, BETWEEN, KEPT_BYTES, KEPT_MS)
    own = {name: number_of(log.evidence, name) for name in names}
    is_set = any(one.source == ValueSource.SERVER_PROPERTIES for one in own.values())
    best = ms_to_write(snapshot_bytes, log_bytes_per_day)
    choices: dict[int, str] = dict.fromkeys(INTERVALS_MS, "example")
    if best is not None:
        choices[min(max(ceil(best), INTERVALS_MS[0]), DAY_MS)] = BALANCED
    choices[own[INTERVAL].value] = "own" if is_set else "default"
    for interval, source in sorted(choices.items()):
        period = period_ms(interval, limits, log_bytes_per_day)
        row = {"replica": log.label, "interval_ms": interval, "chosen_by": source}
        yield row | _costs(limits, period, snapshot_bytes, log_bytes_per_day, load_rate)


def _costs(
    limits: RetentionLimits,
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
    kept, by = kept_count(limits, period, size + debt)
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
