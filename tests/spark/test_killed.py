"""A run that is killed between its commits: whichever command comes next takes back what it left,
readers go on to see the run before, and the next run ends like a clean one. Also where others have
deleted, or kraftlog had, what going back would need.
"""

import os
import shutil
import signal
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.keeping import lake_damage
from kraftlog.pipeline.steps import run_steps
from kraftlog.pipeline.writing import expire_all
from kraftlog.tables.lake import Lake
from kraftlog.tables.lease import lease_of
from kraftlog.tables.place import lake_at, state_of
from kraftlog.tables.register import Published
from kraftlog.tables.spec import decoded_tables
from tests.golden.cases import DATA
from tests.in_process import InProcess
from tests.lakes import contents, key_in

STEPS = ("decode", "materialize", "audit")
NEW = ("11", "12")
PATIENCE = {"lease_seconds": 1}


class Killed:
    """A quorum that has grown by two copies, and a lake whose second run was killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.lake = folder, folder / "replicas", folder / "lake"
        shutil.copytree(DATA / "isolated" / "replicas", self.root)
        for name in ("lake", "clean"):
            (folder / name).mkdir()
            key_in(folder / name)
        for node in NEW:
            shutil.move(self.root / node, folder / node)
        self.run(self.lake)
        self.before = seen(self.lake)
        for node in NEW:
            shutil.move(folder / node, self.root / node)
        self.run(folder / "clean")
        self.clean = whole(folder / "clean")
        self.first = folder / "first"
        shutil.copytree(self.lake, self.first)

    def run(self, lake: Path) -> None:
        options = {"input": [str(self.root)], "lake": str(lake), **PATIENCE}
        run_steps(InProcess, load_options(options), *STEPS)

    def kill_before(self, table: str) -> Path:
        """The lake, when a run was killed right before it committed a table."""
        left = self.folder / f"killed-{table}"
        if not left.exists():
            shutil.copytree(self.first, left)
            process = get_context("spawn").Process(
                target=killed_before, args=(table, str(self.root), str(left))
            )
            process.start()
            process.join(300)
            assert process.exitcode == -signal.SIGKILL
        shutil.rmtree(self.lake)
        shutil.copytree(left, self.lake)
        return self.lake


def killed_before(table: str, root: str, lake: str) -> None:
    """In a process of its own."""
    commit = Lake._write

    def committed(self: Lake, spec: Any, *rest: Any, **more: Any) -> int:
        if spec.name == table:
            os.kill(os.getpid(), signal.SIGKILL)
        return commit(self, spec, *rest, **more)

    Lake._write = committed  # type: ignore[method-assign]
    run_steps(InProcess, load_options({"input": [root], "lake": lake}), *STEPS)


def seen(lake: Path) -> dict[str, list[str]]:
    """What readers see of the tables that a run decodes, and of its replicas."""
    found = lake_at(str(lake))
    names = [*decoded_tables(), "replicas", "findings"]
    return {name: sorted(map(repr, found.rows(name).to_pylist())) for name in names}


def whole(lake: Path) -> dict[str, list[str]]:
    """What two lakes over the same input have alike, however they came to it."""
    by_file = {"batches": ["path", "position", "batch_id"], "files": ["path", "size_bytes"]}
    found = {
        name: sorted(map(repr, Lake(str(lake)).rows(name, columns).to_pylist()))
        for name, columns in by_file.items()
    }
    return found | contents(str(lake))


def ahead(lake: Path) -> set[str]:
    numbers = {name: Lake(str(lake)).run_number(name) for name in decoded_tables()}
    return {name for name, number in numbers.items() if number > numbers["runs"]}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(tmp_path_factory.mktemp("killed"))


@pytest.mark.parametrize("command", ["lake compact", "lake expire", "audit"])
@pytest.mark.parametrize("table", ["runs", [*decoded_tables()][1]])
def test_whichever_command_comes_next_takes_a_killed_run_back(
    table: str, command: str, lab: Killed, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = lab.kill_before(table)
    assert ahead(lake)
    assert seen(lake) == lab.before
    assert main([*command.split(), "--lake", str(lake), "--lease-seconds", "1"]) == 0
    assert not ahead(lake)
    assert seen(lake) == lab.before
    (told,) = state_of(str(lake)).published
    assert told.run == 1
    assert dict(told.versions) == {
        one: Lake(str(lake)).open(one).version() for one in told.versions
    }
    assert not lake_damage(load_options({"lake": str(lake), "verify": True})).damaged
    assert "defect" not in capsys.readouterr().err
    lab.run(lake)
    assert whole(lake) == lab.clean


def test_a_run_that_goes_on_has_lost_nothing(lab: Killed) -> None:
    """It was killed after it had decoded: `lake check` does not call lost what is yet to come."""
    lake = lab.kill_before("replicas")
    with lease_of(str(lake), 1, 60, lambda _: None):
        pass  # for whoever looks
    options = load_options({"lake": str(lake)})
    assert not ahead(lake)
    assert "; run 2 is not finished: the next run" in lake_damage(options).summary
    assert "holds no rows" not in lake_damage(options).summary
    lab.run(lake)
    assert lake_damage(options).summary.endswith("all there in full size, each was opened")


def vacuum(*names: str) -> Callable[[Path], None]:
    """Delete at once what no newest version needs, as any client of Delta can."""

    def harm(lake: Path) -> None:
        for name in names:
            table = DeltaTable(str(lake / name))
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    return harm


def forget_history(*names: str) -> Callable[[Path], None]:
    """Let the logs begin at what the killed run has committed."""

    def harm(lake: Path) -> None:
        for name in names:
            DeltaTable(str(lake / name)).create_checkpoint()
            for path in sorted((lake / name / "_delta_log").glob("*.json"))[:-1]:
                path.unlink()

    return harm


def publish_it(lake: Path) -> None:
    """What kraftlog once did: it told readers that these tables are of the run before, and deleted
    what that had needed.
    """
    with lease_of(str(lake), 1, 60, lambda _: None) as lease:
        held = Lake(str(lake), lease.token, lease.opened)
        marks = held.marks(all_tables())
        versions = {name: one.version for name, one in marks.items()}
        files = {name: one.file_count for name, one in marks.items()}
        lease.say(published=(Published(1, versions, files),))
        assert expire_all(held, lease)


HARM: dict[str, Callable[[Path], None]] = {
    "vacuumed": vacuum("batches", "files"),
    "every table vacuumed": vacuum(*decoded_tables()),
    "without history": forget_history("batches", "records", "contents"),
    "published": publish_it,
}


@pytest.mark.parametrize("what", HARM)
def test_what_cannot_be_taken_back_is_read_again(
    what: str, lab: Killed, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = lab.kill_before("runs")
    with lease_of(str(lake), 1, 60, lambda _: None):
        pass  # for whoever looks
    HARM[what](lake)
    damaged = lake_damage(load_options({"lake": str(lake)})).damaged
    assert damaged
    capsys.readouterr()
    assert main(["audit", "--lake", str(lake)]) == 2
    assert "is damaged: " in capsys.readouterr().err
    lab.run(lake)
    said = capsys.readouterr().err
    assert all(f"{one.partition(':')[0]} is damaged" in said for one in damaged)
    assert "are lost" not in said
    assert whole(lake) == lab.clean
    assert not lake_damage(load_options({"lake": str(lake), "verify": True})).damaged
    assert state_of(str(lake)).published[-1].run == 2
