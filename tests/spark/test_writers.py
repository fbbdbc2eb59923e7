"""Many runs at once on one lake, some of them killed: it ends like one clean run."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kraftlog.config import load_options
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.steps import run_pipeline
from kraftlog.source.task_settings import KEY_SIZE
from kraftlog.tables.lake import Lake
from kraftlog.tables.lake_names import KEY_FILE
from kraftlog.tables.register import Register
from tests.golden.cases import DATA
from tests.in_process import InProcess
from tests.lakes import CUT, FOR_SPARK

ISOLATED = str(DATA / "isolated" / "replicas")
TIMES = {"runs": {"started", "finished"}, "snapshots": {"load_ms", "predicted_load_ms"}}
"""Columns that say when something was done, or how long it took."""
OWN = ("lake", *FOR_SPARK)
"""Settings that are not the same for all runs."""

PATIENCE = {"lease_seconds": 4, "wait_seconds": 600}


def start(lake: str, *more: str) -> "subprocess.Popen[str]":
    """One run, as people start it."""
    options = [f"--{name.replace('_', '-')}={seconds}" for name, seconds in PATIENCE.items()]
    command = [sys.executable, "-m", "kraftlog", "run", "--input", ISOLATED, "--lake", lake]
    return subprocess.Popen(
        [*command, *options, "--master", "local[1]", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def with_key(lake: Path) -> str:
    """A folder with nothing but a key: masks and ids of two lakes compare so."""
    lake.mkdir()
    key = lake / KEY_FILE
    key.write_bytes(b"k" * KEY_SIZE)
    key.chmod(0o600)
    return str(lake)


def at_work(lake: str) -> int | None:
    """The process that holds the lake."""
    state = Register(lake).read()
    return state.owner.process if state and state.owner else None


def kill_one(lake: str, runs: "list[subprocess.Popen[str]]", table: str) -> int:
    """Kill the run that holds the lake when this table has been written; its process."""
    while not Lake(lake).run_number(table):
        time.sleep(0.05)
    while (process := held(lake)) is None:
        assert any(one.poll() is None for one in runs), "every run ended before one was killed"
        time.sleep(0.01)
    assert process in {one.pid for one in runs}
    os.killpg(process, signal.SIGKILL)
    return process


def held(lake: str) -> int | None:
    """The process that holds the lake, stopped there; none if no run holds it, or no longer."""
    process = at_work(lake)
    if process is None:
        return None
    os.killpg(process, signal.SIGSTOP)
    if at_work(lake) == process:
        return process
    os.killpg(process, signal.SIGCONT)
    return None


def contents(lake: str) -> dict[str, list[str]]:
    """All rows of all tables but what they say of clocks, and of how the run was called."""
    found = {}
    for name in all_tables():
        table = Lake(lake).rows(name)
        kept = [one for one in table.column_names if one not in TIMES.get(name, ())]
        rows = table.select(kept).to_pylist()
        found[name] = sorted(repr(one) for one in rows if one.get("setting") not in OWN)
    return found


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What one run leaves, alone."""
    lake = with_key(tmp_path_factory.mktemp("clean") / "lake")
    options = {"input": [ISOLATED], "lake": lake, "master": "local[1]", **PATIENCE}
    assert run_pipeline(InProcess, load_options(options)).exit_code == 0
    assert Lake(lake).run_number("contract_results") == 1
    return contents(lake)


@pytest.mark.parametrize(("count", "more"), [(2, CUT), (5, [])], ids=["with Spark", "without"])
def test_runs_at_once_end_like_one(
    count: int, more: list[str], clean: dict[str, list[str]], tmp_path: Path
) -> None:
    lake = with_key(tmp_path / "lake")
    runs = [start(lake, *more) for _ in range(count)]
    killed = kill_one(lake, runs, random.Random(count).choice(list(all_tables())))
    for one in runs:
        said, _ = one.communicate(timeout=600)
        assert one.returncode == (-signal.SIGKILL if one.pid == killed else 0), said
    assert contents(lake) == clean
    state = Register(lake).read()
    assert state is not None
    # The one that is killed may have come last, when the work was done: its lease then stays.
    assert state.owner is None or state.owner.process == killed
    assert [one.run for one in state.published] == [1]
    published = dict(state.published[-1].versions)
    assert published == {name: Lake(lake).open(name).version() for name in all_tables()}
