"""What all tests share: one Spark session, as its start and first queries cost most of a run."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from kraftlog.garbage import THRESHOLDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a machine is busy with must not decide about a test.
settings.register_profile("kraftlog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kraftlog")

# A worker of pytest-xdist has a bare main module, which PySpark takes for a run of its doctests,
# and ends the process.
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = __file__


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start Spark come first: they take longest, and short ones fill up the workers' end."""
    items.sort(key=lambda one: "spark" not in one.path.parts)


def pytest_collection_finish() -> None:
    """The thousands of tests stay to the end: nobody need look for cycles among them again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Spark with Delta on two threads; imported here, so that tests without Spark start at once."""
    from kraftlog.session import spark_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {
        # The second compiler pays only after minutes; without it tiny jobs cost half.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        # So do code made for each query, and plans made anew between its stages.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(warehouse),
    }
    session = spark_session("kraftlog-tests", conf=settings, master="local[2]")
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """An empty folder for the Delta tables of one test."""
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder
