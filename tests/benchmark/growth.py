"""A small quorum that grows a little before each of many runs: does its lake stay as small and as
fast as in the beginning?

    .venv/bin/python -m tests.benchmark.growth --runs 200

Three voters hold the same log; before each run four batches are appended to each of them. All runs
are of one process, so that Spark starts once. The tables at the end must be those of one run over
the same quorum, or nothing is printed.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import astuple, dataclass
from io import StringIO
from pathlib import Path
from statistics import mean

from kraftlog.config import load_options
from kraftlog.pipeline.job import starter
from kraftlog.pipeline.steps import run_pipeline
from kraftlog.source.task_settings import KEY_SIZE
from kraftlog.tables.lake import Lake
from kraftlog.tables.lake_names import KEY_FILE
from kraftlog.tables.spec import decoded_tables, state_tables
from tests.unit.audit_logs import NO_OP, START_MS, Batch, Node, change_isr, quorum

_TEN = 10
_FIRST_OFFSET = 12
_SAME = ("records", "control_records", "contents", *state_tables())


@dataclass(frozen=True)
class Measured:
    """What one run left, and how long it took: on the clock, and of the driver's CPU, which other
    work on the machine does not lengthen.
    """

    seconds: float
    cpu_seconds: float
    files: int
    commits: int
    size_bytes: int


def grow(nodes: Sequence[Node], number: int) -> None:
    """Four more batches: an ISR that shrinks and grows again, and two without effect."""
    base, ms = _FIRST_OFFSET + 4 * number, START_MS + 60_000 * (number + 1)
    values = (NO_OP, change_isr(1, [1]), change_isr(1, [1, 2]), NO_OP)
    batches = [Batch(base + at, 2, (one,), ms=ms + at) for at, one in enumerate(values)]
    for node in nodes:
        node.append(*batches)


def run(root: Path, lake: Path, keep: dict[str, int]) -> tuple[float, float]:
    options = load_options(
        {
            "input": [str(root)],
            "lake": str(lake),
            "fail_on": "never",
            **keep,
        }
    )
    began, cpu = time.monotonic(), time.process_time()
    with redirect_stderr(StringIO()):
        outcome = run_pipeline(starter("growth", options), options)
    assert outcome.is_new
    assert outcome.exit_code == 0
    return time.monotonic() - began, time.process_time() - cpu


def measured(lake: Path, seconds: float, cpu_seconds: float) -> Measured:
    files = [one for one in lake.rglob("*") if one.is_file()]
    commits = sum(one.suffix == ".json" and one.parent.name == "_delta_log" for one in files)
    return Measured(
        seconds, cpu_seconds, len(files), commits, sum(one.stat().st_size for one in files)
    )


def rows(lake: Path, name: str) -> list[str]:
    return sorted(map(repr, Lake(str(lake)).rows(name).to_pylist()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--keep-runs", type=int, default=load_options().keep_runs)
    parser.add_argument("--keep-rows", type=int, default=load_options().keep_rows)
    chosen = parser.parse_args()
    assert set(_SAME) <= {*decoded_tables(), *state_tables()}
    keep = {"keep_runs": chosen.keep_runs, "keep_rows": chosen.keep_rows}
    folder = Path(tempfile.mkdtemp(prefix="growth-"))
    try:
        nodes = quorum(folder / "replicas")
        for lake in ("lake", "anew"):
            # Under one key the ids of contents compare.
            (folder / lake).mkdir()
            (folder / lake / KEY_FILE).write_bytes(b"k" * KEY_SIZE)
        found = []
        for number in range(chosen.runs):
            grow(nodes, number)
            times = run(folder / "replicas", folder / "lake", keep)
            found.append(measured(folder / "lake", *times))
            print(number + 1, found[-1], file=sys.stderr, flush=True)
        run(folder / "replicas", folder / "anew", keep)
        for name in _SAME:
            assert rows(folder / "lake", name) == rows(folder / "anew", name), name
    finally:
        shutil.rmtree(folder)
    print("| runs | seconds | CPU | files | commits in logs | MB |\n|---|---|---|---|---|---|")
    last = max(chosen.runs - _TEN, 0)
    for start in sorted({min(one, last) for one in (0, _TEN, chosen.runs // 2, last)}):
        some = [astuple(one) for one in found[start : start + _TEN]]
        seconds, cpu, files, commits, size = (mean(one) for one in zip(*some, strict=True))
        numbers = f"{seconds:.2f} | {cpu:.2f} | {files:.0f} | {commits:.0f} | {size / 1e6:.2f}"
        print(f"| {start + 1} to {start + _TEN} | {numbers} |")


if __name__ == "__main__":
    main()
