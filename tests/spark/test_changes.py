"""What a lake says changed between two runs: a voter's disk was replaced, then put right."""

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from kraftlog.cli import main
from kraftlog.config import Options, load_options
from kraftlog.pipeline.decode import decode
from kraftlog.pipeline.materialize import materialize
from kraftlog.pipeline.run import Run, newest_run
from kraftlog.pipeline.steps import run_steps
from kraftlog.pipeline.writing import writing
from kraftlog.tables.lake import Lake
from tests.golden.cases import DATA
from tests.in_process import InProcess
from tests.unit.audit_logs import batch_starts

Row = dict[str, Any]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs over one quorum, whose logs grew in between."""
    root = tmp_path_factory.mktemp("changes")
    for case in ("voter-replaced", "voter-readded"):
        shutil.rmtree(root / "replicas", ignore_errors=True)
        shutil.copytree(DATA / case / "replicas", root / "replicas")
        options = load_options({"input": [str(root / "replicas")], "lake": str(root / "lake")})
        run_steps(InProcess, options, "decode", "materialize", "audit")
    return root / "lake"


def changes(lake: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[Row]:
    capsys.readouterr()
    assert main(["changes", "--lake", str(lake), *words, "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_findings_logs_and_objects(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = changes(lake, capsys)
    gone = {row["name"] for row in rows if row["kind"] == "finding" and row["change"] == "gone"}
    assert "warning voter_directories_agree" in gone
    ends = [row["text"] for row in rows if row["kind"] == "replica"]
    assert "the log of 1 ends at 147, not at 111" in ends
    voters = [row for row in rows if row["name"].startswith("voter 2 ")]
    assert [(row["change"], row["name"]) for row in voters] == [
        ("new", "voter 2 (directory DmhVAByDzAsoIMGOut7ABg)"),
        ("gone", "voter 2 (directory yD7wSNglQZe1f8nw8v9c1Q)"),
    ]
    assert any(row["kind"] == "object" and row["name"].startswith("topic ") for row in rows)


@pytest.fixture
def copies(tmp_path: Path) -> Callable[..., None]:
    """Runs over the only copy of a history, which may be another one each time."""

    def run(
        name: str, node: str, end: int | None = None, start: int = 0, **options: object
    ) -> None:
        copy = tmp_path / "replicas" / "a"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(DATA / name / "replicas" / node, copy)
        if end is not None:
            cut(copy, end)
        if start:
            begin(copy, start)
        given = {"input": [str(copy.parent)], "lake": str(tmp_path / "lake"), **options}
        run_steps(InProcess, load_options(given), "decode", "materialize", "audit")

    return run


def cut(copy: Path, end: int) -> None:
    """Take the batches from an offset on, and the snapshots beyond it, away."""
    for path in copy.rglob("*.checkpoint"):
        if path.name[0].isdigit() and int(path.name[:20]) > end:
            path.unlink()
    for path in copy.rglob("*.log"):
        data = path.read_bytes()
        starts = [at for at in batch_starts(data) if int.from_bytes(data[at : at + 8]) >= end]
        path.chmod(0o600)
        path.write_bytes(data[: min(starts, default=len(data))])


def begin(copy: Path, start: int) -> None:
    """Leave of a log what is in a segment from a snapshot's end on, and the snapshots from there on."""
    for path in copy.rglob("*.checkpoint"):
        if path.name[0].isdigit() and int(path.name[:20]) < start:
            path.unlink()
    (path,) = copy.rglob("*.log")
    data = path.read_bytes()
    at = next(at for at in batch_starts(data) if int.from_bytes(data[at : at + 8]) == start)
    path.with_name(f"{start:020}.log").write_bytes(data[at:])
    for one in path.parent.glob("0" * 20 + ".*"):
        one.unlink()


def killed(options: Options) -> None:
    """A run that ends where it has written a part of its tables."""
    with suppress(KeyboardInterrupt), writing(options, reads_input=True) as lake:
        run = Run(options, lake, InProcess)
        decode(run)
        materialize(run)
        raise KeyboardInterrupt


def readers(lake: Path) -> list[list[str]]:
    """Commands that only read a lake."""
    asked = ["changes", "explain topic real-1", "settings", "plan replicas --partitions"]
    return [[*words.split(), "--lake", str(lake), "--format", "json"] for words in asked]


def test_of_a_run_that_was_killed_nothing_is_seen(
    copies: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, replicas = tmp_path / "lake", tmp_path / "replicas"
    copies("isolated", "1", 243)
    copies("isolated", "2")

    def told() -> list[str]:
        capsys.readouterr()
        return [capsys.readouterr().out for words in readers(lake) if main(words) == 0]

    before = told()
    assert len(before) == 4
    assert "which objects differ" not in before[0]
    shutil.rmtree(replicas / "a")
    shutil.copytree(DATA / "isolated" / "replicas" / "1", replicas / "a")
    killed(load_options({"input": [str(replicas)], "lake": str(lake)}))
    assert newest_run(Lake(str(lake)))["number"] == 3
    assert told() == before
    assert main(["changes", "--lake", str(lake), "--run", "3"]) == 2
    assert "has no run 3: it has 1, 2" in capsys.readouterr().err


def test_a_lake_in_which_no_run_has_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    killed(load_options({"input": [str(DATA / "isolated" / "replicas")], "lake": str(lake)}))
    for words in readers(lake):
        capsys.readouterr()
        assert main(words) == 2
        assert "no run has finished yet" in capsys.readouterr().err


def test_with_one_run_nothing_is_said_to_be_the_same(
    copies: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "nothing is different\n"
    copies("isolated", "1")
    for out, err in (("", "the lake has one run"), (said, "run 2 against run 1")):
        capsys.readouterr()
        assert main(["changes", "--lake", str(tmp_path / "lake")]) == 0
        told = capsys.readouterr()
        assert told.out == out
        assert err in told.err
        copies("isolated", "1", batch_limit_bytes=10_000_000)


def elections(rows: list[Row]) -> list[tuple[str, str]]:
    return [(one["change"], one["text"]) for one in rows if one["kind"] == "election"]


def test_elections_of_another_cluster_are_not_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of another quorum was added, which knows of epochs up to 7."""
    replicas, lake = tmp_path / "replicas", tmp_path / "lake"
    for name, node in (("offline", "1"), ("offline", "2"), ("upgraded-3.9", "1")):
        shutil.copytree(DATA / name / "replicas" / node, replicas / f"{name}-{node}")
        if node == "2" or name != "offline":
            options = load_options({"input": [str(replicas)], "lake": str(lake)})
            run_steps(InProcess, options, "decode", "materialize", "audit")
    rows = changes(lake, capsys)
    assert [one["text"] for one in rows if one["kind"] == "replica"] == ["replica upgraded-3.9-1"]
    assert elections(rows) == []


def test_a_log_that_begins_amid_an_epoch(
    copies: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies("steady-live", "1", 336)
    copies("steady-live", "1")
    assert elections(changes(tmp_path / "lake", capsys))[:2] == [
        ("new", "leader nobody that the copies name in epoch 1, which had begun by offset 336"),
        ("new", "leader 2 in epoch 2, from offset 1103 on"),
    ]


def objects(rows: list[Row]) -> set[tuple[str, str, str]]:
    return {(one["change"], one["name"], one["text"]) for one in rows if one["kind"] == "object"}


def test_a_history_in_place_of_another_one(
    copies: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Node 2 of `isolated` led an epoch to itself from offset 176 on."""
    copies("isolated", "2")
    copies("isolated", "1")
    rows = changes(tmp_path / "lake", capsys)
    (history,) = [one["text"] for one in rows if one["kind"] == "history"]
    assert history == (
        "the shared history is another from offset 176 on: it ends at 362, and ended at 243"
    )
    found = {(change, name.partition(" (")[0]) for change, name, _ in objects(rows)}
    assert {("gone", "topic ghost-topic-a"), ("new", "topic real-1"), ("new", "broker 12")} <= found
    assert len([name for _, name in found if name.startswith("topic ")]) == 10
    copies("isolated", "2")
    back = changes(tmp_path / "lake", capsys)
    turned = {(_TURNED[change], name) for change, name, _ in objects(rows)}
    assert {(change, name) for change, name, _ in objects(back)} == turned
    elections = [(one["change"], one["name"]) for one in back if one["kind"] == "election"]
    assert elections == [("gone", "2")]


def test_a_history_whose_beginning_retention_took_is_the_same(
    copies: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The later copy begins with a snapshot at offset 1515, behind the ends of five epochs."""
    copies("upgraded-3.9", "1", 1700)
    copies("upgraded-3.9", "1", start=1515)
    rows = changes(tmp_path / "lake", capsys)
    assert [(one["kind"], one["change"]) for one in rows if one["kind"] == "replica"]
    assert not [one for one in rows if one["kind"] == "history"]
    assert objects(rows)


def test_what_no_copy_leads_up_to_is_not_told(
    copies: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between two runs retention has dropped what the first one had not seen."""
    copies("upgraded-3.9", "1", 800)
    copies("upgraded-3.9", "1", start=1515)
    (history,) = [one for one in changes(tmp_path / "lake", capsys) if one["kind"] == "history"]
    assert history["text"] == (
        "no copies of run 2 lead from offset 863, where the history of run 1 ended, to 1839: what came and went in between is not told"
    )


def test_a_folder_of_another_name_is_the_same_replica(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replicas = tmp_path / "replicas"
    shutil.copytree(DATA / "isolated" / "replicas", replicas)
    options = load_options({"input": [str(replicas)], "lake": str(tmp_path / "lake")})
    run_steps(InProcess, options, "decode", "materialize", "audit")
    for folder in sorted(replicas.iterdir()):
        folder.rename(replicas / f"c{folder.name}")
    run_steps(InProcess, options, "decode", "materialize", "audit")
    rows = changes(tmp_path / "lake", capsys)
    assert [(one["kind"], one["change"], one["name"]) for one in rows] == [
        ("replica", "changed", f"c{name}") for name in ("1", "11", "12", "2", "3")
    ]
    assert rows[0]["text"] == ("replica 1 is now named c1: its node and directory are the same")


_TURNED = {"new": "gone", "gone": "new", "changed": "changed"}


def test_a_log_that_was_cut_and_copied_again(
    copies: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What goes with the records behind the cut comes back with them, told from versions. No record
    has taken it away: it is told as what these copies lack.
    """
    copies("isolated", "1")
    copies("isolated", "1", 120)
    cut_off = changes(tmp_path / "lake", capsys)
    (history,) = [one for one in cut_off if one["kind"] == "history"]
    assert history["text"] == (
        "the shared history ends at offset 120, before 362: logs were cut, or these copies are older than those of run 1"
    )
    copies("isolated", "1")
    back = changes(tmp_path / "lake", capsys)
    assert not [one for one in back if one["kind"] == "history"]
    assert objects(back)
    turned = {(_TURNED[change], name) for change, name, _ in objects(cut_off)}
    assert {(change, name) for change, name, _ in objects(back)} == turned
    lacking = {text for *_, text in objects(cut_off)}
    assert lacking == {f"not in these copies: {text}" for *_, text in objects(back)}
    again = changes(tmp_path / "lake", capsys, "--since", "1", "--run", "2")
    assert objects(again) == objects(cut_off)


def test_objects_that_no_table_tells_any_more_are_not_told(
    copies: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies("isolated", "2", keep_runs=1)
    copies("isolated", "1", keep_runs=1)
    rows = changes(tmp_path / "lake", capsys)
    assert not objects(rows)
    texts = [one["text"] for one in rows if one["kind"] == "history"]
    assert texts[0].startswith("the shared history is another from offset 176 on")
    assert texts[1].startswith("which objects differ cannot be told")


def test_objects_whose_files_another_client_has_deleted_are_not_told(
    copies: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies("isolated", "2")
    copies("isolated", "1")
    for table in (tmp_path / "lake").iterdir():
        if (table / "_delta_log").is_dir():
            DeltaTable(str(table)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    rows = changes(tmp_path / "lake", capsys)
    assert not objects(rows)
    texts = [one["text"] for one in rows if one["kind"] == "history"]
    assert "or another client has deleted them" in texts[1]


def test_runs_that_are_not_there(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["changes", "--lake", str(lake), "--run", "9"]) == 2
    assert "has no run 9: it has 1, 2" in capsys.readouterr().err
    assert main(["changes", "--lake", str(lake), "--run", "1"]) == 2
    assert "no run before the first" in capsys.readouterr().err
