"""A quorum of many nodes, and one whose nodes have kept many snapshots: do an audit and a run take as
long for each copy, and each snapshot, as for few of them?

    .venv/bin/python -m tests.benchmark.crowd

The copies of brokers are one broker's of the golden case `steady-live` under other ids; the snapshots
are its states at every end of a batch, as `kraftlog checkpoint` writes them.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kraftlog.log.directory import find_replicas
from kraftlog.log.names import LOG_FOLDER
from kraftlog.state.checkpoint import write_checkpoint
from tests.benchmark.pipeline import PROGRAM, timed
from tests.definition import read_log
from tests.golden.cases import DATA
from tests.images import built
from tests.log_coverage import scan

LIVE = DATA / "steady-live" / "replicas"
VOTERS = ("1", "2", "3")
BROKERS = (30, 60, 120)
SNAPSHOTS = (100, 200, 400)


def many_brokers(root: Path, count: int) -> None:
    """So many brokers."""
    for number in range(1000, 1000 + count):
        shutil.copytree(LIVE / "11", root / str(number))
        identity = root / str(number) / "meta.properties"
        lines = identity.read_text().replace("node.id=11", f"node.id={number}").splitlines()
        own = [
            f"directory.id={number:022d}" if one.startswith("directory.id") else one
            for one in lines
        ]
        identity.chmod(0o600)
        identity.write_text("\n".join(own))


def many_snapshots(root: Path, count: int) -> None:
    """So many snapshots more on each voter, of the newest ends of batches."""
    coverage = scan(find_replicas([str(root / "1")])[0])
    first = coverage.restorable()[0][0]
    ends = [one.end_offset for one in read_log(coverage, first, coverage.log_end_offset)]
    for end in ends[-count:]:
        image = built(coverage.replica, end)
        for node in VOTERS:
            folder = root / node / LOG_FOLDER
            folder.chmod(0o700)
            if not list(folder.glob(f"{end:020d}-*.checkpoint")):
                write_checkpoint(image, folder)


def measure(what: str, make: Callable[[Path, int], None], counts: Sequence[int]) -> None:
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            root, lake = Path(folder) / "replicas", Path(folder) / "lake"
            for node in VOTERS:
                shutil.copytree(LIVE / node, root / node)
            make(root, count)
            commands = (["audit"], ["run", "--lake", str(lake)])
            took = [
                timed([PROGRAM, *words, "--input", str(root)], (0, 1), Path(folder) / "log")
                for words in commands
            ]
        cells = (f"{one.wall_seconds:.1f} s ({one.cpu_seconds:.1f} s)" for one in took)
        print(f"| {count} {what} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    print("| | `audit` (CPU) | `run` (CPU) |\n|---|---|---|")
    measure("brokers beside three voters", many_brokers, BROKERS)
    measure("snapshots on each of three voters", many_snapshots, SNAPSHOTS)
