"""Rolled-up totals: real sizes per record type and version, and the log's growth per hour.

In: totals of `record_totals`. Out: rows of the tables `record_sizes` and `growth`, and the bytes
per type of each snapshot. Source: KIP-630 "Type of State Machines and Operations", "Loading State
and Frequency of Compaction", "Amount of Data Replicated", "Metrics".
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.metrics.record_totals import LOG, SNAPSHOT
from kraftlog.relations import moment

Row = dict[str, Any]
_SIZES = ("value_size_bytes", "frame_size_bytes", "header_size_bytes")


def record_size_rows(totals: pa.Table) -> list[Row]:
    """A row per source, type and version."""
    keys = ["source", "type", "record_version"]
    sums = [(name, "sum") for name in ("count", *_SIZES)]
    found = totals.group_by(keys).aggregate([*sums, ("least", "min"), ("most", "max")])
    return [
        {
            "source": one["source"],
            "type": one["type"],
            "record_version": one["record_version"],
            "record_count": one["count_sum"],
            "value_size_bytes": one["value_size_bytes_sum"],
            "size_bytes": sum(one[f"{name}_sum"] for name in _SIZES),
            "mean_value_size_bytes": one["value_size_bytes_sum"] / one["count_sum"],
            "min_value_size_bytes": one["least_min"],
            "max_value_size_bytes": one["most_max"],
        }
        for one in found.sort_by([(key, "ascending") for key in keys]).to_pylist()
    ]


def growth_rows(totals: pa.Table) -> list[Row]:
    """A row per hour and type of the log."""
    of_log = totals.filter(pc.equal(totals.column("source"), LOG))
    sums = [(name, "sum") for name in ("count", *_SIZES)]
    found = of_log.group_by(["hour", "type"]).aggregate(sums)
    return [
        {
            "window_start": moment(one["hour"]),
            "type": one["type"],
            "record_count": one["count_sum"],
            "size_bytes": sum(one[f"{name}_sum"] for name in _SIZES),
        }
        for one in found.sort_by([("hour", "ascending"), ("type", "ascending")]).to_pylist()
    ]


def sizes_of_snapshot(totals: pa.Table) -> dict[str, dict[str, int]]:
    """Batch id → type → bytes, over the batches of snapshots."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    of_snapshots = totals.filter(pc.equal(totals.column("source"), SNAPSHOT))
    for one in of_snapshots.to_pylist():
        found[one["batch_id"]][one["type"]] += sum(one[name] for name in _SIZES)
    return found


def mean_size_bytes(totals: pa.Table, types: Iterable[str], source: str = LOG) -> float | None:
    """Mean bytes of a record of some types, with its frame and its share of batch headers; None
    where there is none.
    """
    mask = pc.and_(
        pc.equal(totals.column("source"), source),
        pc.is_in(totals.column("type"), value_set=pa.array(list(types), pa.string())),
    )
    rows = totals.filter(mask)
    count = int(np.sum(rows.column("count").to_numpy()))
    if not count:
        return None
    return float(sum(np.sum(rows.column(name).to_numpy()) for name in _SIZES) / count)
