"""Step 4, metrics: one row per snapshot of the newest run. Driver side; the aggregates are Spark's."""

from pyspark.sql import SparkSession

from kraftlog.config import Options
from kraftlog.metrics.snapshots import snapshot_metrics
from kraftlog.pipeline.run import lake_of, newest_run
from kraftlog.tables.spec import SNAPSHOTS


def metrics(spark: SparkSession, options: Options) -> None:
    """Measure the snapshots that lie on the disks now, once per run."""
    lake = lake_of(options)
    number = lake.run_number("runs")
    if lake.run_number(SNAPSHOTS.name) >= number:
        return
    run_id = newest_run(lake)["run_id"]
    measured = snapshot_metrics(lambda name: spark.read.format("delta").load(lake.path(name)), run_id)
    lake.write(SNAPSHOTS, measured.toArrow(), number)
