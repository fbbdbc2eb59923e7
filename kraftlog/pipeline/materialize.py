"""Step 2, materialize: what follows from the records of the newest run: replicas, leader epochs,
states. Driver side.
"""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import SparkSession

from kraftlog.audit.lineages import lineage_of, lineages
from kraftlog.audit.rows import epoch_rows, replica_rows
from kraftlog.config import Options
from kraftlog.pipeline.evidence import quorum_of
from kraftlog.pipeline.run import lake_of, newest_run
from kraftlog.pipeline.states import States
from kraftlog.tables.derived import derived_tables
from kraftlog.tables.spec import TableSpec, state_tables


def materialize(start_spark: Callable[[], SparkSession], options: Options) -> None:
    """Write `replicas`, `epochs` and the history tables, once per run."""
    lake = lake_of(options)
    run = newest_run(lake)
    per_run = {name: derived_tables()[name] for name in ("replicas", "epochs")}
    if all(lake.run_number(name) >= run["number"] for name in (*state_tables(), *per_run)):
        return
    quorum = quorum_of(lake, options)
    found = lineages(quorum)
    states = States(lake, start_spark)
    for lineage in found:
        states.fold(lineage)
    for name, spec in state_tables().items():
        lake.commit(spec, states.written[name], run["number"], overwrite=True)
    follows = lineage_of(quorum, found)
    rows = {
        "replicas": [{**row, "lineage": follows[row["replica"]]} for row in replica_rows(quorum)],
        "epochs": epoch_rows(quorum),
    }
    for name, spec in per_run.items():
        lake.write(spec, _of_run(spec, rows[name], run["run_id"]), run["number"])


def _of_run(spec: TableSpec, rows: list[dict[str, object]], run_id: str) -> pa.Table:
    return pa.Table.from_pylist([{"run_id": run_id, **row} for row in rows], schema=spec.schema)
