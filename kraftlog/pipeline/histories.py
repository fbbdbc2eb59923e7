"""Rows of history tables and of `replay_faults` → Parquet files that wait for their commit.

In: Arrow rows, or faults of a replay. Out: `AddedFile`s. Runs in tasks and on the driver.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.decode.tabular import timestamps
from kraftlog.state.replay import FaultyRecord
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile, write_file
from kraftlog.tables.spec import REPLAY_FAULTS


def write_history(
    lake: Lake, name: str, lineage: str, rows: pa.Table
) -> list[tuple[str, AddedFile]]:
    """Write rows of one history table and lineage: what still holds, and what has ended."""
    current = pc.is_null(rows.column("valid_to_offset"))
    written = []
    for is_current, chosen in ((True, current), (False, pc.invert(current))):
        kept = rows.filter(chosen)
        if kept.num_rows:
            values = {"lineage": lineage, "is_current": "true" if is_current else "false"}
            written.append((name, write_file(lake.path(name), kept, values)))
    return written


def since(rows: pa.Table, offset: int) -> pa.Table:
    """The versions that hold at an offset or later."""
    ends = rows.column("valid_to_offset")
    return rows.filter(pc.or_kleene(pc.is_null(ends), pc.greater(ends, offset)))


def write_faults(lake: Lake, rows: pa.Table) -> list[tuple[str, AddedFile]]:
    """Write rows of `replay_faults`, if there are any."""
    if rows.num_rows == 0:
        return []
    return [(REPLAY_FAULTS.name, write_file(lake.path(REPLAY_FAULTS.name), rows))]


def fault_rows(run_id: str, lineage: str, faults: Iterable[FaultyRecord]) -> pa.Table:
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
