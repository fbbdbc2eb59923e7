"""Disks that are full, and folders that are not ours to write: one sentence, exit code 2, and no
half of a file.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraftlog.cli import main
from tests.deprived import full_disk
from tests.fake_controller import FakeController, serving
from tests.golden.cases import DATA
from tests.golden.cases import Replica as Golden
from tests.pulled import pull

QUORUM = str(DATA / "isolated" / "replicas")
VOTER = "1@one:9093:yD7wSNglQZe1f8nw8v9c1Q"
LIMIT = "600"
"""Bytes: less than a page, a checkpoint, a recovered quorum's files, a commit of the register."""

Words = Callable[[Path], list[str]]
COMMANDS: dict[str, Words] = {
    "page": lambda out: ["audit", "--input", QUORUM, "--report", str(out / "page.html")],
    "checkpoint": lambda out: ["checkpoint", f"{QUORUM}/1", "--at", "176", "--out", str(out)],
    "recover": lambda out: [
        *("recover", "--input", QUORUM, "--out", str(out / "new"), "--voters", VOTER),
    ],
    "run": lambda out: ["run", "--input", QUORUM, "--lake", str(out / "lake")],
}


def deprived(what: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.deprived", what, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def assert_told(done: subprocess.CompletedProcess[str], out: Path) -> None:
    """The work was not done, and one sentence says where it stopped."""
    assert done.returncode == 2, done.stderr
    told = done.stderr.splitlines()[-1]
    assert told.startswith("kraftlog: ")
    assert str(out) in told
    assert "defect" not in told
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_sentence(name: str, tmp_path: Path) -> None:
    done = deprived(LIMIT, COMMANDS[name](tmp_path))
    assert_told(done, tmp_path)
    assert "File too large" in done.stderr
    left = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert not [one for one in left if one.suffix in (".part", ".html", ".checkpoint")]


def test_a_table_that_a_disk_has_no_room_for_is_named(tmp_path: Path) -> None:
    """A file of rows is larger than what a register or a commit says."""
    done = deprived("9000", COMMANDS["run"](tmp_path))
    assert_told(done, tmp_path / "lake" / "batches")
    assert done.stderr.endswith(": it cannot be written (File too large)\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_is_read_only_is_one_sentence(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o555)
    done = deprived("read-only", COMMANDS[name](out))
    assert_told(done, out)
    assert "ermission denied" in done.stderr
    assert not list(out.iterdir())


def test_a_lake_that_is_read_only_tells_what_its_last_audit_has_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    named = ["--lake", str(lake)]
    main(["run", "--input", f"{DATA}/combined/replicas", *named])
    capsys.readouterr()
    code = main(["audit", *named])
    told = capsys.readouterr().out
    page = lake / "report.html"
    page.unlink()
    with read_only(lake):
        done = deprived("read-only", ["audit", *named])
        again = deprived("read-only", ["audit", "--input", f"{DATA}/combined/replicas", *named])
        assert (done.returncode, done.stdout) == (code, told)
        assert "the lake cannot be written (Permission denied): what the last" in done.stderr
        assert not page.exists()
        assert_told(again, lake)
    shutil.rmtree(lake / "verdicts")
    with read_only(lake):
        assert_told(deprived("read-only", ["audit", *named]), lake)


@contextmanager
def read_only(lake: Path) -> Iterator[None]:
    folders = [lake, *(one for one in lake.rglob("*") if one.is_dir())]
    for one in folders:
        one.chmod(0o555)
    try:
        yield
    finally:
        for one in folders:
            one.chmod(0o755)


def test_a_pull_onto_a_full_disk_goes_on_when_there_is_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(FakeController(Golden("combined", "1").folder)) as address:
        with full_disk(2000):
            assert pull(address, tmp_path) == 2
        told = capsys.readouterr().err
        assert "File too large" in told
        assert "Traceback" not in told
        assert pull(address, tmp_path) == 0
