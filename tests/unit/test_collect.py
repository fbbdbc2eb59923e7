"""`collect`: a script that copies in the right order, run here against this machine, and what it
says of copies that have come, or have not.

Only `ssh` and `kubectl` are stand-ins, which run on this machine what they would run on another.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.errors import UsageError
from kraftlog.log.sidefiles import read_disk_free
from kraftlog.log.storage import open_file
from kraftlog.pull.copying import copy_script, kubectl_source, ssh_source
from tests.golden.cases import PARTITION, Replica
from tests.unit.test_directory import as_nobody

SSH = '#!/bin/sh\n# ssh HOST COMMAND\nshift\nexec sh -c "$*"\n'
KUBECTL = """#!/bin/sh
# kubectl exec … -- COMMAND
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Nodes' disks, one of them with a blank in its name."""
    for node in ("1", "2"):
        shutil.copytree(Replica("isolated", node).folder, tmp_path / "disks" / f"of {node}")
    return tmp_path / "disks"


def run_script(lines: list[str], tmp_path: Path, kraftlog: str = "") -> int:
    """Run what was printed, but for the last word: `kraftlog` itself, or this shell script; its exit
    code.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("ssh", SSH), ("kubectl", KUBECTL), ("kraftlog", f"#!/bin/sh\n{kraftlog}")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    script = "\n".join(lines)
    return subprocess.run(["sh", "-eu"], input=script, text=True, env={"PATH": path}).returncode


def files(folder: Path) -> dict[str, bytes]:
    """What was copied: all but what df said of the disk."""
    found = (one for one in folder.rglob("*") if one.is_file() and one.name != "df.txt")
    return {str(one.relative_to(folder)): one.read_bytes() for one in found}


def test_a_copy_is_called_after_its_machine() -> None:
    hosts = ("c1.example.org", "me@c2", "10.0.0.5", "me@10.0.0.6")
    names = [ssh_source(f"{host}:/data").name for host in hosts]
    assert names == ["c1", "c2", "10.0.0.5", "10.0.0.6"]


def test_the_script_copies_whole_folders_in_order(
    nodes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "copies"
    given = ["--ssh", f"admin@c1:{nodes}/of 1", "--kubectl", f"kafka/controller-0:{nodes}/of 2"]
    assert main(["collect", "--out", str(out), *given, "--bootstrap-controller", "c1:9093"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not out.exists()
    assert run_script(lines, tmp_path) == 0
    assert files(out / "c1") == files(nodes / "of 1")
    assert files(out / "controller-0") == files(nodes / "of 2")
    for copy in ("c1", "controller-0"):
        assert read_disk_free((out / copy / "df.txt").read_bytes()) > 0
    commands = [line for line in lines if line.startswith(("ssh", "kubectl", "kraftlog"))]
    steps = ["--exclude=quorum-state", "-name", "/quorum-state meta.properties"]
    places = [next(i for i, line in enumerate(commands) if step in line) for step in steps]
    assert places == [0, 1, 2]
    assert commands[-2].startswith("kraftlog pull --bootstrap-controller c1:9093")
    assert commands[-1] == f'kraftlog collect --out {out} --check && (exit "${{pulled:-0}}")'


@pytest.mark.parametrize("failing", ["pull", "collect"])
def test_the_script_fails_where_a_step_of_it_fails_and_looks_at_the_copies_all_the_same(
    nodes: Path, tmp_path: Path, failing: str
) -> None:
    source, told = ssh_source(f"c1:{nodes}/of 1"), tmp_path / "told"
    kraftlog = f'echo "$1" >> {told}\n[ "$1" != {failing} ] || exit 2\n'
    lines = list(copy_script([source], str(tmp_path / "copies"), "c1:9093"))
    assert run_script(lines, tmp_path, kraftlog) == 2
    assert told.read_text().split() == ["pull", "collect"]


def test_nodes_without_a_snapshot_yet(tmp_path: Path) -> None:
    node = tmp_path / "node"
    shutil.copytree(Replica("isolated", "1").folder, node)
    for one in (node / PARTITION).glob("*.checkpoint"):
        one.unlink()
    source = ssh_source(f"c1:{node}")
    assert run_script(list(copy_script([source], str(tmp_path / "copies"))), tmp_path) == 0
    assert files(tmp_path / "copies" / "c1") == files(node)


@pytest.mark.parametrize(
    "read, text",
    [
        (ssh_source, "c1"),
        (ssh_source, "c1:relative"),
        (ssh_source, "-oProxyCommand=x:/data"),
        (ssh_source, "c1;rm:/data"),
        (ssh_source, "../x=c1:/data"),
        (kubectl_source, "Pod:/data"),
        (kubectl_source, "a/b/c:/data"),
        (kubectl_source, "--as=root:/data"),
        (kubectl_source, "pod"),
    ],
)
def test_what_is_no_node_is_refused(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(UsageError):
        read(text)


def test_whatever_a_folder_is_called_it_stays_one_word(tmp_path: Path) -> None:
    folder = tmp_path / "a $(touch pwned) 'b'"
    shutil.copytree(Replica("isolated", "1").folder, folder)
    lines = list(copy_script([ssh_source(f"2=c1:{folder}")], str(tmp_path / "o; u")))
    assert run_script(lines, tmp_path) == 0
    assert files(tmp_path / "o; u" / "2") == files(folder)
    assert not list(tmp_path.rglob("pwned"))


def test_ssh_takes_an_ipv6_address_without_brackets() -> None:
    assert ssh_source("2=me@[fd00::2]:/data").shell == ("ssh", "me@fd00::2")
    with pytest.raises(UsageError, match=r"say NAME=me@\[fd00::2\]:/data"):
        ssh_source("me@[fd00::2]:/data")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (ssh_source, "-oProxyCommand=x:/data"),
        (ssh_source, "a:b=me@c1:/data"),
        (ssh_source, "me@[fd00::2]:/data"),
        (kubectl_source, "-x=kafka/c-0:/data"),
    ],
)
def test_what_is_advised_instead_of_a_name_is_taken(
    read: Callable[[str], object], text: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read(text)
    assert read(str(refused.value).partition("; say ")[2])


def test_sudo_reads_as_root() -> None:
    lines = list(copy_script([ssh_source("c1:/data")], "copies", sudo=True))
    assert any(line.startswith("ssh c1 'sudo sh -c ") for line in lines)


def test_two_copies_of_one_name_are_refused() -> None:
    sources = [ssh_source("c1.a:/data"), ssh_source("c1.b:/data")]
    with pytest.raises(UsageError, match="two copies would be called c1"):
        list(copy_script(sources, "copies"))
    live = [ssh_source("live=c1:/data")]
    assert list(copy_script(live, "copies"))
    with pytest.raises(UsageError, match="two copies would be called live"):
        list(copy_script(live, "copies", "c1:9093"))


# --- What has come ----------------------------------------------------------------------------


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    for node in ("1", "2", "3", "11"):
        shutil.copytree(Replica("isolated", node).folder, tmp_path / "copies" / node)
    return tmp_path / "copies"


def check(out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str | None]]:
    code = main(["collect", "--out", str(out), "--check", "--format", "json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, {row["copy"]: row["problem"] for row in rows}


def test_whole_copies_are_fine(copies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(copies, capsys) == (0, dict.fromkeys(["1", "11", "2", "3"]))


def _without_log(copies: Path) -> None:
    shutil.rmtree(copies / "2" / PARTITION)


def _without_identity(copies: Path) -> None:
    (copies / "2" / "meta.properties").unlink()


def _without_segments(copies: Path) -> None:
    for one in (copies / "2" / PARTITION).glob("*.log"):
        one.unlink()


def _without_vote(copies: Path) -> None:
    (copies / "2" / PARTITION / "quorum-state").unlink()


def _without_beginning(copies: Path) -> None:
    log = copies / "2" / PARTITION / f"{0:020d}.log"
    log.rename(log.with_name(f"{500:020d}.log"))


def _emptied(copies: Path) -> None:
    for one in (copies / "2" / PARTITION).glob("*.log"):
        one.write_bytes(b"")
    for one in (copies / "2" / PARTITION).glob("*.checkpoint"):
        one.unlink()


def _of_another_cluster(copies: Path) -> None:
    meta = copies / "2" / "meta.properties"
    lines = [one for one in meta.read_text().splitlines() if not one.startswith("cluster.id")]
    meta.write_text("\n".join([*lines, "cluster.id=other"]) + "\n")


def _with_a_second_log(copies: Path) -> None:
    shutil.copytree(copies / "2" / PARTITION, copies / "2" / "a" / PARTITION)


def _twice(copies: Path) -> None:
    shutil.copytree(copies / "2", copies / "2-again")


@pytest.mark.parametrize(
    "damage, problem",
    [
        (_without_log, "__cluster_metadata-0 has not come"),
        (_without_identity, "meta.properties has not come"),
        (_without_segments, "no segment has come"),
        (_without_vote, "quorum-state has not come"),
        (_without_beginning, "its log begins at 500, and no snapshot that reaches it"),
        (_emptied, "its log is empty, and leader-epoch-checkpoint tells of what it held"),
        (_of_another_cluster, "it is of cluster other, more copies are of "),
        (_with_a_second_log, f"2/a/{PARTITION} is a second log below it"),
        (_twice, "2-again is of the same node 2"),
    ],
)
def test_what_is_missing_is_said(
    damage: Callable[[Path], None],
    problem: str,
    copies: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(copies)
    code, problems = check(copies, capsys)
    assert code == 1
    assert problem in str(problems["2"])
    assert [problems[one] for one in ("1", "3", "11")] == [None, None, None]


def test_a_log_that_has_held_nothing_yet_is_whole(
    copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a node that has just been formatted; and where no file says what it held."""
    _emptied(copies)
    epochs = copies / "2" / PARTITION / "leader-epoch-checkpoint"
    for content in (b"0\n0\n", b"", b"of another kind"):
        epochs.write_bytes(content)
        assert check(copies, capsys)[0] == 0


@pytest.mark.parametrize("name", [f"{0:020d}.log", "quorum-state"])
def test_a_file_that_cannot_be_opened_is_named(
    name: str, copies: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of copies that another user has made."""
    shut = copies / "2" / PARTITION / name

    def opened(path: str) -> Any:
        if path == str(shut):
            raise PermissionError(13, "Permission denied", path)
        return open_file(path)

    monkeypatch.setattr("kraftlog.pull.arrived.open_file", opened)
    told = f"{name} cannot be read: Permission denied"
    assert check(copies, capsys) == (1, {"1": None, "11": None, "2": told, "3": None})


def test_a_folder_that_cannot_be_listed_is_named(
    copies: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = copies / "2" / PARTITION
    as_nobody(monkeypatch, [shut])
    shut.chmod(0)
    told = f"{PARTITION} cannot be read: its folder cannot be listed: Permission denied"
    found = check(copies, capsys)
    shut.chmod(0o755)
    assert found == (1, {"1": None, "11": None, "2": told, "3": None})


@pytest.mark.parametrize("where", ["", "2", f"2/{PARTITION}", "4"])
def test_what_nobody_looks_into_is_named(
    where: str, copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An archive may hold a copy as well: beside the others, in one, or in place of one."""
    packed = copies / where / "more.tar.gz"
    packed.parent.mkdir(exist_ok=True)
    packed.write_bytes(b"")
    main(["collect", "--out", str(copies), "--check"])
    assert f"{packed}: it is packed, and is left out" in capsys.readouterr().err


def test_an_archive_alone_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "2.tgz").write_bytes(b"")
    assert main(["collect", "--out", str(tmp_path), "--check"]) == 2
    told = capsys.readouterr().err
    assert f"{tmp_path}/2.tgz: it is packed, and is left out" in told
    assert f"{tmp_path}: nothing has come" in told


def test_a_node_that_is_called_0_is_one_as_any_other(
    copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meta = copies / "2" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=2", "node.id=0"))
    _twice(copies)
    code, problems = check(copies, capsys)
    assert (code, problems["2"]) == (1, "2-again is of the same node 0")


def test_of_two_clusters_with_as_many_copies_none_is_the_right_one(
    copies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _of_another_cluster(copies)
    for one in ("1", "11"):
        shutil.rmtree(copies / one)
    code, problems = check(copies, capsys)
    assert code == 1
    assert str(problems["3"]).endswith(", as many copies are of other")
    assert str(problems["2"]).startswith("it is of cluster other, as many copies are of ")


def test_arguments_that_make_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["collect", "--out", str(tmp_path / "nothing")]
    for words, problem in (
        ([], "no node is named"),
        (["--check"], "there is no such folder"),
        (["--check", "--ssh", "c1:/data"], "takes no node"),
        (["--ssh", "c1:/data", "--bootstrap-controller", "c1"], "HOST:PORT"),
    ):
        assert main([*out, *words]) == 2
        assert problem in capsys.readouterr().err
