"""KIP-630's four metrics of each replica, under the KIP's own names, as they stood when the copies
were taken. Kafka ships none of them; a lake keeps those of every run, which is their history.

In: the rows of the table `snapshots`, and the quorum. Out: rows of the table `snapshot_metrics`.
Where the KIP has one number, a copy gives bounds: the high watermark is not on disk, and nor is the
moment at which a file was finished. Source: KIP-630 "Metrics".
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from kraftlog.metrics.origin import FETCHED, GENERATED
from kraftlog.metrics.snapshots import upper_bound
from kraftlog.quorum.model import Quorum

Row = dict[str, Any]


def snapshot_metric_rows(quorum: Quorum, snapshots: Sequence[Row]) -> Iterator[Row]:
    """A row per replica, those without a snapshot too."""
    for log in quorum.logs:
        held = [one for one in snapshots if one["replica"] == log.label and one["complete"]]
        real = [one for one in held if one["end_offset"] > 0]
        newest = max(real, key=lambda one: (one["epoch"], one["end_offset"]), default=None)
        generated = [one for one in real if one["origin"] == GENERATED]
        yield {
            "replica": log.label,
            "end_offset": newest["end_offset"] if newest else None,
            **_generation(generated),
            "load_snapshot_latency_ms": newest["load_ms"] if newest else None,
            "snapshot_size_bytes": newest["size_bytes"] if newest else None,
            **_lag(quorum, newest),
            "snapshot_age_ms": newest["age_ms"] if newest else None,
            "snapshot_count": len(real),
            "generated_count": len(generated),
            "fetched_count": sum(one["origin"] == FETCHED for one in real),
            "snapshots_size_bytes": sum(one["size_bytes"] for one in real),
        }


def _generation(generated: Sequence[Row]) -> Row:
    """Of the snapshots that the replica wrote itself: the newest, and the middle of all."""
    newest = max(generated, key=lambda one: (one["epoch"], one["end_offset"]), default=None)
    least = [one["generation_ms_min"] for one in generated if one["generation_ms_min"] is not None]
    return {
        "gen_snapshot_latency_ms_min": newest["generation_ms_min"] if newest else None,
        "gen_snapshot_latency_ms_max": newest["generation_ms_max"] if newest else None,
        "gen_snapshot_latency_ms_median": median(least) if least else None,
    }


def _lag(quorum: Quorum, newest: Row | None) -> Row:
    """Without a snapshot the whole log lies behind none."""
    if newest is not None:
        return {
            "snapshot_lag_min": newest["lag_offsets_min"],
            "snapshot_lag_max": newest["lag_offsets_max"],
        }
    return {"snapshot_lag_min": quorum.bounds.lower, "snapshot_lag_max": upper_bound(quorum)}
