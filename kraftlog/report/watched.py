"""What monitoring is told of one audit, from files or from a lake: one value for all its forms.

In: a quorum and what its audit says, or a run of a lake. Out: a `Watched`.
"""

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from kraftlog.quorum.model import Quorum
from kraftlog.quorum.rows import replica_rows

if TYPE_CHECKING:
    from kraftlog.tables.lake import Lake

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Watched:
    """`rows` are findings and the checks that did not fail; times are milliseconds since 1970, by
    replica, and absent where nothing tells them.
    """

    rows: list[Row]
    verdict: Row
    exit_code: int
    replicas: list[Row]
    newest_record_ms: dict[str, int]
    snapshot_ms: dict[str, int]
    told_at: float = field(default_factory=time.time)


def watched_in_files(quorum: Quorum, rows: list[Row], verdict: Row, exit_code: int) -> Watched:
    """Of an audit without a lake."""
    newest, snapshots = dict[str, int](), dict[str, int]()
    for log in quorum.logs:
        if len(log.rows):
            newest[log.label] = int(log.evidence.log.max_timestamps[log.rows].max())
        for one in quorum.snapshots_of(log.label):
            if one.is_complete and (stamp := one.last_contained_timestamp) is not None:
                snapshots[log.label] = max(stamp, snapshots.get(log.label, stamp))
    return Watched(rows, verdict, exit_code, replica_rows(quorum), newest, _told(snapshots))


def watched_in_lake(
    lake: "Lake", run_id: str, rows: list[Row], verdict: Row, exit_code: int
) -> Watched:
    """Of a lake's run."""
    replicas = lake.rows_of_run("replicas", run_id)
    logs = lake.dataset("batches").to_table(
        columns=["replica", "max_timestamp"], filter=pc.field("file_kind") == "log"
    )
    newest = logs.group_by("replica").aggregate([("max_timestamp", "max")]).to_pylist()
    snapshots = dict[str, int]()
    for row in lake.rows_of_run("snapshots", run_id) if lake.exists("snapshots") else ():
        if row["complete"] and row["last_contained_log_timestamp"] is not None:
            label, stamp = row["replica"], _ms(row["last_contained_log_timestamp"])
            snapshots[label] = max(stamp, snapshots.get(label, stamp))
    times = {one["replica"]: _ms(one["max_timestamp_max"]) for one in newest}
    return Watched(rows, verdict, exit_code, replicas, times, _told(snapshots))


def _told(stamps: dict[str, int]) -> dict[str, int]:
    """Without those of no time, as some of Kafka's own tools write them."""
    return {label: stamp for label, stamp in stamps.items() if stamp > 0}


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
