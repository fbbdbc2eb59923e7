"""`python -m tests.benchmark.pipeline`: whole audits, and whole runs of `kraftlog run` from cold to
the page, beside Kafka's dump tool over one of the logs.

Cases: three replicas (one with a damaged batch, one with another tail), audited without a lake; the
same by a run, and by the same run again; one replica, one replica and its exact copy, a replica
that has grown by a hundredth, one core. Answers come first: the damage must be among the findings,
and the partitions at the end of the log the same in all lakes. Printed per run: wall and CPU
seconds, and the most memory that all its processes held together (PSS).
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.tables.lake import Lake
from tests import kafka_judge
from tests.benchmark.inputs import DATA, parse_size
from tests.benchmark.quorums import LOG, log_folder, quorum

WANTED = {"batch_crc_valid", "log_matching"}
_SAMPLE_SECONDS = 0.5
_MEMORY_SHARE = 0.01
"""So much of a core looks at memory: a look at 4 GB of pages takes some 25 ms, and holds up who has
them.
"""
PROGRAM = str(Path(sys.executable).with_name("kraftlog"))


@dataclass(frozen=True)
class Took:
    """What one program took, with all that it had started."""

    wall_seconds: float
    cpu_seconds: float
    memory_bytes: int

    def cells(self, name: str, reference: float) -> tuple[str, ...]:
        """One line of the table."""
        return (
            name,
            f"{self.wall_seconds:.1f} s",
            f"{self.cpu_seconds:.1f} s",
            f"{self.memory_bytes / 1e9:.2f} GB",
            f"{self.wall_seconds / reference:.2f}",
        )


def timed(command: Sequence[str], codes: Sequence[int], log: Path) -> Took:
    """Run a program and watch the memory of its processes.

    Raises CalledProcessError where it ends with another code."""
    start = time.perf_counter()
    with (
        log.open("w") as said,
        subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True) as process,
    ):
        try:
            watch = Watch(process.pid)
            watch.start()
            code = process.wait()
        finally:
            _end(process.pid)
    wall = time.perf_counter() - start
    watch.join()
    if code not in codes:
        raise subprocess.CalledProcessError(code, command)
    return Took(wall, sum(watch.cpu_seconds.values()), watch.most)


def _end(group: int) -> None:
    """Nothing that was started stays behind."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


class Watch(threading.Thread):
    """Looks at a process and its descendants until it is gone."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.most = pid, 0
        self.cpu_seconds: dict[int, float] = {}

    def run(self) -> None:
        looked = rests = 0.0
        while Path(f"/proc/{self.pid}/smaps_rollup").exists():
            family = _family(self.pid)
            self.cpu_seconds |= family
            begun = time.perf_counter()
            if begun > looked + rests:
                self.most = max(self.most, sum(map(_pss_bytes, family)))
                looked = time.perf_counter()
                rests = (looked - begun) / _MEMORY_SHARE
            time.sleep(_SAMPLE_SECONDS)


def _family(root: int) -> dict[int, float]:
    """A process and all that come from it, each with the CPU seconds that it has taken."""
    parents, taken = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                said = (entry / "stat").read_text()
            except OSError:  # it has ended
                continue
            told = said.rsplit(")", 1)[1].split()
            parents[int(entry.name)] = int(told[1])
            taken[int(entry.name)] = (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")
    found, more = {root}, {root}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more} - found
        found |= more
    return {pid: taken.get(pid, 0.0) for pid in found}


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


class Bench:
    """The runs over one size of quorum."""

    def __init__(self, size_bytes: int) -> None:
        self.root = quorum(size_bytes)
        self.work = DATA / "work"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)

    def dump(self) -> Took:
        """Kafka's dump tool over the log of one replica."""
        path = log_folder(self.replica(1)) / LOG
        command = kafka_judge.dump_log_segments_command(path)
        return timed(command, (0,), Path(os.devnull))

    def audit(self) -> Took:
        """`kraftlog audit` of three replicas: findings, and no lake."""
        command = [PROGRAM, "audit", "--input", str(self.root / "replicas")]
        took = timed(command, (1,), self.work / "audit.log")
        said = (self.work / "audit.log").read_text()
        assert all(check in said for check in WANTED), "the damage is not found"
        return took

    def run(self, lake: str, roots: Sequence[Path], prefix: Sequence[str] = ()) -> Took:
        """`kraftlog run` over some roots into a lake of that name."""
        inputs = [word for root in roots for word in ("--input", str(root))]
        command = [*prefix, PROGRAM, "run", *inputs, "--lake", str(self.work / lake)]
        return timed(command, (0, 1), self.work / f"{lake}.log")

    def replica(self, number: int) -> Path:
        return self.root / "replicas" / str(number)

    def three(self) -> tuple[Took, Took]:
        """Three replicas from cold, and the same again."""
        cold = self.run("three", [self.root / "replicas"])
        lake = Lake(str(self.work / "three"))
        found = set(lake.rows("findings", ["check"])["check"].to_pylist())
        assert found >= WANTED, f"the damage is not found: {sorted(found)}"
        return cold, self.run("three", [self.root / "replicas"])

    def twin(self) -> tuple[Took, Took]:
        """One replica from cold; and in another lake, it and its copy."""
        one = self.run("one", [self.replica(1)])
        both = self.run("both", [self.replica(1), self.root / "twin/4"])
        self._same_partitions("one", "both")
        return one, both

    def grown(self) -> Took:
        """A replica that has grown by a hundredth since the run before."""
        root = self.work / "grows"
        shutil.copytree(self.root / "cut/1", root)
        self.run("grown", [root])
        for segment in log_folder(self.replica(1)).glob("*.log"):
            shutil.copy2(segment, log_folder(root))
        took = self.run("grown", [root])
        self._same_partitions("one", "grown")
        return took

    def one_core(self) -> Took:
        """One replica from cold, on one core."""
        took = self.run("core", [self.replica(1)], ("taskset", "-c", "0"))
        self._same_partitions("one", "core")
        return took

    def _same_partitions(self, *lakes: str) -> None:
        """The partitions that hold at the end are the same in these lakes."""
        said = [self._partitions(name) for name in lakes]
        assert said.count(said[0]) == len(said), f"the answers differ: {said}"

    def _partitions(self, name: str) -> tuple[int, int, int]:
        holds = (ds.field("lineage") == "main") & ds.field("is_current")
        columns = ["partition_epoch", "leader_epoch"]
        rows = Lake(str(self.work / name)).dataset("partitions").to_table(columns, holds)
        return rows.num_rows, *(pc.sum(rows.column(one)).as_py() for one in columns)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark.pipeline", description=__doc__)
    cases = ("audit", "three", "twin", "grown", "core")
    parser.add_argument("--size", type=parse_size, default="100M", help="of one log (100M)")
    parser.add_argument("--case", choices=cases, action="append", help="default: all")
    chosen = parser.parse_args()
    bench, wanted = Bench(chosen.size), chosen.case or cases
    dump = bench.dump()
    reference = dump.wall_seconds
    lines = [dump.cells("DumpLogSegments, one log", reference)]

    def note(name: str, took: Took) -> None:
        lines.append(took.cells(name, reference))
        print(*lines[-1], sep=" | ", file=sys.stderr, flush=True)

    if "audit" in wanted:
        note("three replicas, audit alone", bench.audit())
    if "three" in wanted:
        cold, again = bench.three()
        note("three replicas", cold)
        note("three replicas, nothing new", again)
    if {"twin", "grown", "core"} & {*wanted}:
        one, both = bench.twin()
        note("one replica", one)
        note("one replica and its copy", both)
    if "grown" in wanted:
        note("one replica, a hundredth longer", bench.grown())
    if "core" in wanted:
        note("one replica, one core", bench.one_core())
    print("| case | wall | CPU | memory | of the dump tool's wall time |\n|---|---|---|---|---|")
    print("\n".join("| " + " | ".join(cells) + " |" for cells in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
