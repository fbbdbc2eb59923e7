"""What monitoring is told of one audit, from files or from a lake: one value for all its forms.

In: a quorum and what its audit says, or a run of a lake. Out: a `Watched`.
"""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.dataset as ds

from kraftlog.log.names import CHECKPOINT, LOG, classify
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.rows import replica_rows
from kraftlog.quorum.snapshots import HEADER
from kraftlog.relations import Row

if TYPE_CHECKING:
    from kraftlog.tables.lake import Lake


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
        if (stamp := log.newest_ms) is not None:
            newest[log.label] = stamp
        for one in quorum.snapshots_of(log.label):
            if one.is_complete and (stamp := one.last_contained_timestamp) is not None:
                snapshots[log.label] = max(stamp, snapshots.get(log.label, stamp))
    return Watched(rows, verdict, exit_code, replica_rows(quorum), newest, _told(snapshots))


def watched_in_lake(
    lake: "Lake", run_id: str, rows: list[Row], verdict: Row, exit_code: int
) -> Watched:
    """Of a lake's run: it has the batches, the headers of snapshots, and which of these are whole."""
    replicas = lake.rows_of_run("replicas", run_id)
    valid = lake.dataset("batches").filter(ds.field("crc_valid"))
    logs = valid.to_table(["replica", "max_timestamp"], filter=ds.field("file_kind") == LOG)
    newest = logs.group_by("replica").aggregate([("max_timestamp", "max")]).to_pylist()
    times = {
        one["replica"]: round(at.timestamp() * 1000)
        for one in newest
        if (at := one["max_timestamp_max"])
    }
    headers = _headers(lake)
    whole = {(row["replica"], *one) for row in replicas for one in row["snapshots"] or ()}
    begins = valid.to_table(
        ["replica", "path", "batch_id"],
        filter=(ds.field("file_kind") == CHECKPOINT) & (ds.field("position") == 0),
    )
    snapshots = dict[str, int]()
    for row in begins.to_pylist():
        name, label = classify(row["path"].rpartition("/")[2]), row["replica"]
        if (label, name.end_offset, name.epoch) in whole and row["batch_id"] in headers:
            stamp = headers[row["batch_id"]]
            snapshots[label] = max(stamp, snapshots.get(label, stamp))
    return Watched(rows, verdict, exit_code, replicas, times, _told(snapshots))


def _headers(lake: "Lake") -> dict[str, int]:
    """The time that the header of a snapshot tells, by its batch."""
    found = lake.dataset("control_records").to_table(
        ["batch_id", "snapshot_header"], filter=ds.field("type") == HEADER
    )
    told = {one["batch_id"]: one["snapshot_header"] for one in found.to_pylist()}
    return {batch: one["last_contained_log_timestamp"] for batch, one in told.items() if one}


def _told(stamps: dict[str, int]) -> dict[str, int]:
    """Without those of no time, as some of Kafka's own tools write them."""
    return {label: stamp for label, stamp in stamps.items() if stamp > 0}
