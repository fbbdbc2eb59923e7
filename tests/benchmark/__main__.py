"""`python -m tests.benchmark`: decode and replay, Kafka's own tools against ours, on the same
files.

Per case: answers must be equal, then the four programs run in turn, `--runs` times, and medians are
printed as `case | reference | ours | ratio`. Times are CPU seconds (of a whole process: user and
system time of the child), with wall seconds behind. A ratio above 1 means that ours is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from kraftlog.__main__ import SETTINGS
from tests import kafka_judge
from tests.benchmark.answers import AnswersDiffer, assert_equal, kafka_answers, our_answers
from tests.benchmark.inputs import CASES, Case, parse_size
from tests.benchmark.ours import sampled
from tests.benchmark.replay import kafkas, ours

HEADINGS = ("case", "reference", "ours", "ratio")
REPLAY = "replay"
_ENVIRONMENT = SETTINGS | os.environ
"""Our processes have the environment that a command gives itself."""

LOOP_SECONDS = 5
LOOP_PASSES = 3


@dataclass(frozen=True)
class Time:
    """What one run took."""

    cpu_seconds: float
    wall_seconds: float

    def __str__(self) -> str:
        return f"{self.cpu_seconds:.3g} s CPU ({self.wall_seconds:.3g} s)"


@dataclass
class Duel:
    """One comparison: two programs that do the same, and the times of their runs."""

    name: str
    reference: Callable[[], Time]
    ours: Callable[[], Time]
    reference_times: list[Time] = field(default_factory=list)
    our_times: list[Time] = field(default_factory=list)

    def run(self) -> None:
        self.reference_times.append(self.reference())
        self.our_times.append(self.ours())

    def cells(self) -> tuple[str, str, str, str]:
        theirs, mine = _median(self.reference_times), _median(self.our_times)
        ratio = theirs.cpu_seconds / mine.cpu_seconds
        return self.name, str(theirs), str(mine), f"{ratio:.3g}"


def duels(case: Case, path: Path, record_count: int) -> list[Duel]:
    """The comparisons of one file."""
    dump = kafka_judge.dump_log_segments_command(path)
    return [
        Duel(
            f"{case.name}: DumpLogSegments, whole process",
            lambda: _whole_process(dump),
            lambda: _whole_process(_our_command(path, 1)),
        ),
        Duel(
            f"{case.name}: Kafka's decoding loop, warm",
            lambda: _kafka_loop(case, path, record_count),
            lambda: _our_loop(path, record_count),
        ),
    ]


def measure(case: Case, size_bytes: int, runs: int) -> tuple[str, list[tuple[str, ...]]]:
    """One line on what is measured, and the cells of the table."""
    path = case.file(size_bytes)
    _note(f"{case.name}: comparing answers")
    kafka = kafka_answers(path)
    assert_equal(kafka, our_answers(sampled, path))
    compared = duels(case, path, kafka.record_count)
    for run in range(runs):
        _note(f"{case.name}: run {run + 1} of {runs}")
        for duel in compared:
            duel.run()
    about = f"{case.name}: {path.stat().st_size:,} bytes, {kafka.record_count:,} records"
    return about, [duel.cells() for duel in compared]


def measure_replay(size_bytes: int, runs: int) -> tuple[str, list[tuple[str, ...]]]:
    """Kafka's image of a whole log against every version of every object of it, and against the
    last versions of its partitions; whole processes.
    """
    folder = CASES[0].file(size_bytes).parent
    _note(f"{REPLAY}: comparing answers")
    # One delta for all is Kafka's fastest way; only one per batch gives the exact answer.
    theirs = kafkas(kafka_judge.image(folder, no_snapshot=True).rows)
    for is_last in (False, True):
        mine = ours(folder, is_last)
        if theirs != mine:
            raise AnswersDiffer(f"{REPLAY}: Kafka has {theirs}, we have {mine}")
    kafka = kafka_judge.java_command("Oracle", "image", folder, "--no-snapshot", "--flush", "end")
    command = [sys.executable, "-m", "tests.benchmark.replay", str(folder)]
    compared = [
        Duel(
            f"{REPLAY}: MetadataImage of the log, whole process, {ours_has}",
            lambda: _whole_process(kafka),
            lambda asked=asked: _whole_process(asked),
        )
        for ours_has, asked in (
            ("ours with every version", command),
            ("ours with the last ones alone", [*command, "--last"]),
        )
    ]
    for run in range(runs):
        _note(f"{REPLAY}: run {run + 1} of {runs}")
        for duel in compared:
            duel.run()
    partitions = theirs["PARTITION_RECORD"]
    return f"{REPLAY}: the same log, {partitions:,} partitions at its end", [
        duel.cells() for duel in compared
    ]


def _whole_process(command: list[str]) -> Time:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        env=_ENVIRONMENT,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Time(user + system, wall)


def _our_command(path: Path, passes: int) -> list[str]:
    return [sys.executable, "-m", "tests.benchmark.ours", str(path), "--passes", str(passes)]


def _our_loop(path: Path, record_count: int) -> Time:
    command = _our_command(path, 1 + LOOP_PASSES)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, encoding="utf-8", check=True, env=_ENVIRONMENT
    )
    said = json.loads(done.stdout)
    _same_count(said["records"], record_count)
    warm_cpu, warm_wall = said["cpu_seconds"][1:], said["wall_seconds"][1:]
    return Time(statistics.median(warm_cpu), statistics.median(warm_wall))


def _kafka_loop(case: Case, path: Path, record_count: int) -> Time:
    # The raft layer's iterator refuses small compressed batches; the general one reads all.
    iterator = "RecordsIterator" if case.codec == "none" else "Record iterator"
    (said,) = kafka_judge.bench([path], only=f"decode(+crc) {iterator}", seconds=LOOP_SECONDS)
    _same_count(said["records"], record_count)
    return Time(said["median_cpu_s"], said["median_s"])


def _same_count(said: int, expected: int) -> None:
    if said != expected:
        raise AnswersDiffer(f"{said} records decoded, {expected} are there")


def _median(times: list[Time]) -> Time:
    return Time(
        statistics.median(one.cpu_seconds for one in times),
        statistics.median(one.wall_seconds for one in times),
    )


def _versions() -> str:
    kafka = max(kafka_judge.LIBS.glob("kafka-clients-*.jar")).stem.removeprefix("kafka-clients-")
    java = subprocess.run(
        [shutil.which("java") or "java", "-version"], capture_output=True, encoding="utf-8"
    ).stderr.split('"')[1]
    return (
        f"Kafka {kafka}, Java {java}, Python {platform.python_version()}, "
        f"pyarrow {version('pyarrow')}, numpy {version('numpy')}, "
        f"{len(os.sched_getaffinity(0))} cores (nproc)"
    )


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _line(cells: tuple[str, ...], markdown: bool) -> str:
    return "| " + " | ".join(cells) + " |" if markdown else " | ".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark", description=__doc__)
    names = [*(case.name for case in CASES), REPLAY]
    parser.add_argument("--case", choices=names, action="append", help="default: all")
    parser.add_argument("--size", type=parse_size, default="100M", help="of the log (100M)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--markdown", action="store_true", help="a table with versions")
    chosen = parser.parse_args()
    try:
        wanted = [case for case in CASES if case.name in (chosen.case or names)]
        measured = [measure(case, chosen.size, chosen.runs) for case in wanted]
        if REPLAY in (chosen.case or names):
            measured.append(measure_replay(chosen.size, chosen.runs))
    except AnswersDiffer as difference:
        _note(f"answers differ, nothing is timed: {difference}")
        return 1
    if chosen.markdown:
        print(f"{_versions()}. Medians of {chosen.runs} interleaved runs.\n")
        print("".join(f"- {about}\n" for about, _ in measured))
    print(_line(HEADINGS, chosen.markdown))
    if chosen.markdown:
        print("|---|---|---|---|")
    for _, lines in measured:
        for cells in lines:
            print(_line(cells, chosen.markdown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
