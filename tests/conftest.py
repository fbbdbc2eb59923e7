"""What all tests share: one Spark session, as its start and first queries cost most of a run."""

import gc
import os
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadfile import LoadFileScheduling

from kraftlog.audit import runner as audit_run
from kraftlog.audit.check import Check
from kraftlog.audit.runner import CheckResult, Finding
from kraftlog.garbage import THRESHOLDS
from kraftlog.quorum.model import Quorum
from tests import drawings, small_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a machine is busy with must not decide about a test.
settings.register_profile("kraftlog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kraftlog")

MEMORY, ROOM = "/dev/shm", 8 << 30
"""Lakes that live for seconds never reach a disk where memory has room for them, and may hold
programs: on a disk they cost the system half as much time again.
"""
if (
    Path(MEMORY).is_dir()
    and shutil.disk_usage(MEMORY).free >= ROOM
    and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

# A worker of pytest-xdist has a bare main module, which PySpark takes for a run of its doctests,
# and ends the process.
if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = __file__

drawings.VEGA.vegalite_to_svg = drawings.once


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start Spark come first: they take longest, and short ones fill up the workers' end.
    What has a command of its own lies in the folder that this looks into.
    """
    for name in ("cluster", "kafka", "s3"):
        astray = [
            one for one in items if one.get_closest_marker(name) and name not in one.path.parts
        ]
        assert not astray, f"make test-{name} looks into tests/{name} only, and misses {astray[0]}"
    items.sort(key=lambda one: "spark" not in one.path.parts)


class OneSpark(LoadFileScheduling):
    """Each file in one process, and those that share a Spark session all in the same: a second
    session costs its start, and its JVM's first queries once more.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "spark" if _asks_for_spark(file) else file


@cache
def _asks_for_spark(file: str) -> bool:
    """Whether a test of a file takes the fixture `spark`."""
    text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
    return bool(re.search(r'[(\s]spark: "?SparkSession', text))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark:
    """What `-n` gives out by, whatever `--dist` says."""
    return OneSpark(config, log)


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
        **small_queries.SETTINGS,
        **small_queries.LAUNCHED,
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


@pytest.fixture(autouse=True)
def no_check_breaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """An audit goes on when a check breaks; a test does not, whatever it asks of the audit. One
    that is about broken checks is marked `breaks_a_check`.
    """
    if request.node.get_closest_marker("breaks_a_check") is not None:
        yield
        return
    run_check = audit_run.run_check

    def seen(check: Check, quorum: Quorum) -> tuple[CheckResult, list[Finding]]:
        result, findings = run_check(check, quorum)
        assert result.result != audit_run.ERRORED, f"{check.name}: {result.reason}"
        return result, findings

    # One of its own, as what a test patches must be undone before its folder is removed.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(audit_run, "run_check", seen)
        yield
