"""Rows of history tables and of `replay_faults` → Parquet files that wait for their commit.

In: Arrow rows, or faults of a replay. Out: `AddedFile`s. Runs in tasks and on the driver.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.decode.tabular import timestamps
from kraftlog.quorum.lineages import MAIN
from kraftlog.state.history import HeldVersions, history_tables
from kraftlog.state.replay import FaultyRecord
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile, write_file
from kraftlog.tables.spec import REPLAY_FAULTS


def write_history(
    lake: Lake, name: str, lineage: str, rows: pa.Table
) -> list[tuple[str, AddedFile]]:
    """Write rows of one history table and lineage: what still holds, and what has ended."""
    written = []
    for is_current, kept in zip(("false", "true"), _parted(rows), strict=True):
        if kept.num_rows:
            values = {"lineage": lineage, "is_current": is_current}
            written.append((name, write_file(lake.path(name), kept, values)))
    return written


def _parted(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What has ended, and what still holds: two slices where the rows lie in that order."""
    holds = pc.is_null(rows.column("valid_to_offset"))
    count = pc.sum(holds).as_py() or 0
    ended = rows.num_rows - count
    if pc.all(holds.slice(ended), min_count=0).as_py():
        return rows.slice(0, ended), rows.slice(ended)
    return rows.filter(pc.invert(holds)), rows.filter(holds)


def since(rows: pa.Table, offset: int) -> pa.Table:
    """The versions that hold at an offset or later; all of them for 0."""
    if offset == 0:
        return rows
    ends = rows.column("valid_to_offset")
    return rows.filter(pc.or_kleene(pc.is_null(ends), pc.greater(ends, offset)))


def holds_at(offset: int) -> ds.Expression:
    begun, ends = ds.field("valid_from_offset"), ds.field("valid_to_offset")
    return (begun <= offset) & (ends.is_null() | (ends > offset))


def shared_versions(
    lake: Lake, name: str, columns: Sequence[str], *, holding: bool = False
) -> pa.Table:
    """Versions of the shared lineage's objects of one table; `holding`: those that still hold."""
    wanted = ds.field("lineage") == MAIN
    if holding:
        wanted &= ds.field("is_current")
    return lake.rows(name, columns, wanted)


def small_tables_at(lake: Lake, offset: int) -> dict[str, HeldVersions]:
    """What the lake's tables but the partitions hold of the shared lineage at an offset."""
    held = (ds.field("lineage") == MAIN) & holds_at(offset)
    names = [name for name in history_tables() if name != "partitions"]
    return {name: HeldVersions(name, lake.rows(name, chosen=held)) for name in names}


def write_faults(lake: Lake, rows: pa.Table) -> list[tuple[str, AddedFile]]:
    if rows.num_rows == 0:
        return []
    return [(REPLAY_FAULTS.name, write_file(lake.path(REPLAY_FAULTS.name), rows))]


def replay_fault_rows(run_id: str, lineage: str, faults: Iterable[FaultyRecord]) -> pa.Table:
    """Records without effect as rows of `replay_faults`."""
    found = list(faults)
    times = np.array([one.origin.timestamp for one in found], np.int64)
    columns = {
        "run_id": [run_id] * len(found),
        "lineage": [lineage] * len(found),
        "offset": [one.origin.offset for one in found],
        "timestamp": timestamps(times),
        "batch_leader_epoch": [one.origin.batch_leader_epoch for one in found],
        "type": [one.origin.type for one in found],
        "kind": [str(one.kind) for one in found],
        "detail": [one.detail for one in found],
    }
    return pa.table(columns, schema=REPLAY_FAULTS.schema)
