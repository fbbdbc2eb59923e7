"""A lake tells the same timelines as the files that it was made of."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.pipeline.steps import decode_job, materialize_job
from tests.golden.cases import DATA
from tests.in_process import InProcess

Row = dict[str, Any]
SUBJECTS = {
    "offline": [
        "topic reborn", "partition solo-2", "partition pair-5", "broker 14", "broker 15",
        "controller 3", "feature metadata.version", "config topic/pair", "offsets 80-140",
    ],
    "isolated": ["offsets 150-200", "controller 2", "feature metadata.version"],
}  # fmt: skip


@pytest.fixture(scope="module", params=SUBJECTS)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A golden case, and a lake of it."""
    lake = tmp_path_factory.mktemp(request.param) / "lake"
    replicas = str(DATA / request.param / "replicas")
    options = load_options({"input": [replicas], "lake": str(lake)})
    for step in (decode_job, materialize_job):
        step(InProcess, options)
    return request.param, lake


def told(capsys: pytest.CaptureFixture[str], subject: str, *where: str) -> list[Row]:
    capsys.readouterr()
    assert main(["explain", *subject.split(), *where, "--format", "json"]) == 0
    # A lake masks under a key of its own.
    out = re.sub("redacted:[0-9a-f]+", "redacted", capsys.readouterr().out)
    rows = [json.loads(line) for line in out.splitlines()]
    return [row for row in rows if row["changes"]]


def test_the_same_from_the_lake_as_from_the_files(
    case: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    name, lake = case
    for subject in SUBJECTS[name]:
        files = told(capsys, subject, "--input", str(DATA / name / "replicas"))
        rows = told(capsys, subject, "--lake", str(lake))
        assert files, subject
        assert [_shown(row) for row in rows] == [_shown(row) for row in files], subject


def _shown(row: Row) -> Row:
    """What both know; several changes of one record stand in no order."""
    changes = sorted(row["changes"], key=lambda one: json.dumps(one, sort_keys=True))
    kept = {name: row[name] for name in ("lineage", "offset", "timestamp", "leader_id")}
    texts = sorted(row["text"])
    return kept | {"changes": changes, "committed": row["committed"], "text": texts}
