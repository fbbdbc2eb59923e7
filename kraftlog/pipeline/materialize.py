"""Step 2, materialize: what follows from the records of the newest run: replicas, leader epochs, states. Driver side."""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import SparkSession

from kraftlog.audit.rows import epoch_rows, replica_rows
from kraftlog.config import Options
from kraftlog.pipeline.evidence import quorum_of
from kraftlog.pipeline.run import lake_of, newest_run
from kraftlog.tables.spec import TableSpec, derived_tables


def materialize(start_spark: Callable[[], SparkSession], options: Options) -> None:
    """Write `replicas`, `epochs` and the state tables, once per run."""
    lake = lake_of(options)
    run = newest_run(lake)
    waiting = [name for name in ("replicas", "epochs") if lake.run_number(name) < run["number"]]
    if not waiting:
        return
    quorum = quorum_of(lake, options)
    rows = {"replicas": replica_rows(quorum), "epochs": epoch_rows(quorum)}
    for name in waiting:
        spec = derived_tables()[name]
        lake.write(spec, _of_run(spec, rows[name], run["run_id"]), run["number"])


def _of_run(spec: TableSpec, rows: list[dict[str, object]], run_id: str) -> pa.Table:
    return pa.Table.from_pylist([{"run_id": run_id, **row} for row in rows], schema=spec.schema)
