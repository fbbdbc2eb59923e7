"""What a lake says changed between two runs: a voter's disk was replaced, then put right."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.pipeline.steps import run_steps
from tests.golden.cases import DATA
from tests.in_process import InProcess

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


def test_runs_that_are_not_there(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["changes", "--lake", str(lake), "--run", "9"]) == 2
    assert "has no run 9: it has 1, 2" in capsys.readouterr().err
    assert main(["changes", "--lake", str(lake), "--run", "1"]) == 2
    assert "no run before the first" in capsys.readouterr().err
