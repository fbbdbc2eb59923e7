"""Step 4, metrics: one row per snapshot of the newest run. Driver side; the aggregates are Spark's."""

from pyspark.sql import SparkSession

from kraftlog.config import Options
from kraftlog.metrics.snapshots import snapshot_metrics
from kraftlog.pipeline.run import lake_of
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import SNAPSHOTS


def metrics(spark: SparkSession, options: Options) -> None:
    """Measure the snapshots that lie on the disks now, once per run."""
    lake = lake_of(options)
    number = lake.run_number("runs")
    if lake.run_number(SNAPSHOTS.name) >= number:
        return

    run_id = newest_run_id(lake)
    measured = snapshot_metrics(lambda name: spark.read.format("delta").load(lake.path(name)), run_id)
    lake.write(SNAPSHOTS, measured.toArrow(), number)


def newest_run_id(lake: Lake) -> str:
    """The id of the lake's newest run."""
    runs = lake.read("runs", ["number", "run_id"]).sort_by("number")
    return str(runs.column("run_id")[-1].as_py())
