"""Step 4, metrics: one row per snapshot of the newest run. Driver side."""

import pyarrow as pa

from kraftlog.config import Options
from kraftlog.metrics.snapshots import snapshot_rows
from kraftlog.pipeline.evidence import quorum_of
from kraftlog.pipeline.run import lake_of, newest_run
from kraftlog.tables.spec import SNAPSHOTS


def metrics(options: Options) -> None:
    """Measure the snapshots that lie on the disks, once per run."""
    lake = lake_of(options)
    run = newest_run(lake)
    if lake.run_number(SNAPSHOTS.name) >= run["number"]:
        return
    rows = [{"run_id": run["run_id"], **row} for row in snapshot_rows(quorum_of(lake, options))]
    lake.write(SNAPSHOTS, pa.Table.from_pylist(rows, schema=SNAPSHOTS.schema), run["number"])
