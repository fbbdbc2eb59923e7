"""`python -m tests.benchmark.cluster`: one run on Spark clusters of one worker and of two, each
of one core, beside the run of one machine.

Three replicas as in `pipeline`. Each cluster is new: a master and workers, processes of their own,
stopped after its run. Printed per run: wall and CPU seconds of all processes, and what the steps
took. Driver, workers and store share this machine: it needs a core more than there are workers for
the clock to say what two are worth, and nothing beside it. With `--share` the driver has the first core alone, and each
worker such a part of another one (by a cgroup of version 1, as root), so that two cores are enough.
"""

import argparse
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.benchmark.inputs import DATA, parse_size
from tests.benchmark.pipeline import PROGRAM, Took, Watch, timed
from tests.benchmark.quorums import quorum
from tests.cluster.machines import spark_home, stop, wait_for
from tests.s3_server import free_port

_STEP = re.compile(r"^(\w+): ([\d.]+) s$", re.MULTILINE)
_DEPLOY = "org.apache.spark.deploy"
_MEMORY = "3g"
_GROUPS = Path("/sys/fs/cgroup/cpu")
_PERIOD_US = 100_000


@contextmanager
def held(share: float | None, name: str) -> Iterator[list[str]]:
    """How a command begins that is held to a part of a core other than the first one."""
    if share is None:
        yield []
        return
    group = _GROUPS / f"kraftlog-{name}"
    group.mkdir()
    (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text(str(int(share * _PERIOD_US)))
    join = f'echo $$ > {group}/cgroup.procs && exec taskset -c 1-{(os.cpu_count() or 2) - 1} "$@"'
    try:
        yield ["sh", "-c", join, "sh"]
    finally:
        while (group / "cgroup.procs").read_text():
            time.sleep(0.1)  # executors end after their worker
        group.rmdir()


@contextmanager
def cluster(
    workers: int, folder: Path, share: float | None = None
) -> Iterator[tuple[str, list[Watch]]]:
    """The address of a master, and who watches its workers; they are done when it is left."""
    port, home = free_port(), spark_home()
    known = os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}

    def start(name: str, *words: str, prefix: Sequence[str] = ()) -> "subprocess.Popen[bytes]":
        own = folder / name
        own.mkdir(parents=True)
        command = [*prefix, str(home / "bin/spark-class"), *words, "--webui-port", "0"]
        with (own / "log").open("wb") as log:
            return subprocess.Popen(command, cwd=own, env=known, stdout=log, stderr=log)

    host = ["--host", "127.0.0.1", "--port", str(port)]
    started = [start("master", f"{_DEPLOY}.master.Master", *host)]
    wait_for(port)
    size = ["--cores", "1", "--memory", _MEMORY]
    with ExitStack() as groups:
        for number in range(workers):
            name = f"worker-{number}"
            place = ["--work-dir", str(folder / name / "work")]
            words = [f"{_DEPLOY}.worker.Worker", *size, *place, f"spark://127.0.0.1:{port}"]
            started.append(start(name, *words, prefix=groups.enter_context(held(share, name))))
        watches = [Watch(one.pid) for one in started[1:]]
        for watch in watches:
            watch.start()
        try:
            yield f"spark://127.0.0.1:{port}", watches
        finally:
            for process in reversed(started):
                stop(process)
            for watch in watches:
                watch.join()


def run(
    root: Path, work: Path, workers: int | None, share: float | None
) -> tuple[Took, float, dict[str, float]]:
    """What a run took, the CPU seconds of its workers among that, and its steps' seconds."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    log = work / "run.log"
    alone = [] if share is None else ["taskset", "-c", "0"]
    command = [*alone, PROGRAM, "run", "--input", str(root), "--lake", str(work / "lake")]
    if workers is None:
        took, theirs = timed([*command, "--master", "local[1]"], (0, 1), log), 0.0
    else:
        with cluster(workers, work, share) as (master, watches):
            took = timed([*command, "--master", master], (0, 1), log)
        theirs = sum(sum(one.cpu_seconds.values()) for one in watches)
    steps = {name: float(seconds) for name, seconds in _STEP.findall(log.read_text())}
    return took, theirs, steps


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark.cluster", description=__doc__)
    parser.add_argument("--size", type=parse_size, default="100M", help="of one log (100M)")
    parser.add_argument("--runs", type=int, default=3, help="of each, taking turns (3)")
    parser.add_argument(
        "--input", type=Path, help="another quorum's folder, instead of one of a size"
    )
    parser.add_argument("--share", type=float, help="of a core, for each worker (all of one)")
    parser.add_argument("--workers", type=int, nargs="+", help="so many (none, 1 and 2)")
    chosen = parser.parse_args()
    root = chosen.input or quorum(chosen.size) / "replicas"
    print("| workers | wall | CPU | CPU of the workers | load before | steps |")
    print("|---|---|---|---|---|---|")
    for _ in range(chosen.runs):
        for workers in chosen.workers or (None, 1, 2):
            name = "none: local[1]" if workers is None else str(workers)
            load = os.getloadavg()[0]
            took, theirs, steps = run(root, DATA / "work-cluster", workers, chosen.share)
            told = ", ".join(f"{step} {seconds:.0f}" for step, seconds in steps.items())
            cells = [name, f"{took.wall_seconds:.1f} s", f"{took.cpu_seconds + theirs:.1f} s"]
            cells += [f"{theirs:.1f} s", f"{load:.1f}", told]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
