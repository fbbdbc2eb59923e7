"""How fast a disk fills, and how often something happens: rates over what lies on the disk.

In: bytes, counts and times. Out: rates, and days. None where the time at hand is too short to say
anything. Source: KIP-630 "Motivation", "When to Snapshot".
"""

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def per_day(amount: float, span_ms: float) -> float | None:
    """An amount over a span, per day."""
    return amount * DAY_MS / span_ms if span_ms > 0 else None


def days_to_fill(free_bytes: float, bytes_per_day: float | None) -> float | None:
    """Days until so many bytes are used; None where nothing grows."""
    if not bytes_per_day or bytes_per_day <= 0:
        return None
    return max(free_bytes, 0.0) / bytes_per_day


def write_amplification(snapshot_bytes: float, log_bytes: float) -> float | None:
    """Bytes of snapshots that were written per byte of the log."""
    return snapshot_bytes / log_bytes if log_bytes else None


def load_ms(snapshot_bytes: float, debt_bytes: float, bytes_per_second: float) -> float:
    """Predicted load time of a node that starts: its snapshot, and its replay debt."""
    return (snapshot_bytes + debt_bytes) / bytes_per_second * 1000
