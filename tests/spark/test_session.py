"""The session that all Spark tests share is the one that users get."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraftlog.errors import PlatformError
from kraftlog.session import spark_session, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_delta_tables_are_written_and_read(spark: "SparkSession", lake: Path) -> None:
    table = str(lake / "numbers")
    spark.range(3).write.format("delta").save(table)
    assert spark.read.format("delta").load(table).count() == 3


def test_the_packaged_settings_hold_and_nothing_is_resolved(spark: "SparkSession") -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.databricks.delta.snapshotPartitions"] == "2"
    assert "delta-storage" in settings["spark.jars"]
    assert "spark.jars.packages" not in settings


def test_workers_run_this_interpreter_and_know_kraftlog(spark: "SparkSession") -> None:
    def where(_: int) -> str:
        import sys

        import kraftlog

        return f"{sys.executable} {kraftlog.__name__}"

    answers = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert answers == [f"{sys.executable} kraftlog"]


def test_asking_again_joins_the_running_session(spark: "SparkSession") -> None:
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    again = spark_session("again", conf={name: "3"}, master="local[1]")
    assert again.conf.get(name) == "3"
    assert again.sparkContext is spark.sparkContext
    spark.conf.set(name, str(before))
    assert spark_session("and again").conf.get(name) == before


def test_a_spark_without_delta_is_refused(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    start._require_delta(spark)
    monkeypatch.setattr(start, "DELTA_CLASS", "io.delta.Absent")
    with pytest.raises(PlatformError, match="this Spark has no Delta"):
        start._require_delta(spark)
