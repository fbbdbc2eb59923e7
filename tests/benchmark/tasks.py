"""Tasks by RDD against tasks by rows of a DataFrame, on a classic driver: what SQL adds to a
run. Both ways are `pipeline.tasks`'; only a remote Spark takes the second one.

    python -m tests.benchmark.tasks [INPUT [RUNS]]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.lakes import CUT

QUORUM = "examples/quorum"
WAYS = ("rdd", "rows")


def measured(way: str, root: str, lake: str) -> dict[str, float]:
    """One run in this process: its time, and its processor time with that of all it has started."""
    from pyspark.sql import SparkSession

    from kraftlog.cli import main
    from kraftlog.pipeline import tasks

    if way == "rows":
        by_rows = tasks._by_rows
        tasks._by_rdd = lambda spark, count, work: by_rows(SparkSession(spark), count, work)
    began = time.monotonic()
    main(["run", "--input", root, "--lake", lake, "--fail-on", "never", *CUT])
    return {"wall": time.monotonic() - began, "cpu": _cpu_seconds()}


def _cpu_seconds() -> float:
    """The processor time of this process and of its descendants, living and dead."""
    parents, ticks = {}, {}
    for one in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = one.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        process = int(one.parent.name)
        parents[process] = int(fields[1])
        ticks[process] = sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(ticks[one] for one in family) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print medians and the ratio; the two ways take turns, so that a busy machine hits both."""
    root = sys.argv[1] if len(sys.argv) > 1 else QUORUM
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    told: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(runs):
        for way in WAYS:
            with tempfile.TemporaryDirectory() as lake:
                command = [sys.executable, "-m", "tests.benchmark.tasks", "--one", way, root, lake]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
            told[way].append(json.loads(done.stdout.splitlines()[-1]))
    for what in ("wall", "cpu"):
        rdd, rows = (statistics.median(one[what] for one in told[way]) for way in WAYS)
        print(f"{what}: rdd {rdd:.1f} s, rows {rows:.1f} s, ratio {rows / rdd:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measured(*sys.argv[2:])))
    else:
        main()
