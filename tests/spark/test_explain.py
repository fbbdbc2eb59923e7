"""A lake tells the same timelines as the files that it was made of."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.pipeline.steps import run_steps
from kraftlog.relations import moment
from tests.golden.cases import DATA
from tests.in_process import InProcess
from tests.unit.audit_logs import (
    START_MS,
    TRANSACTION,
    Batch,
    config,
    healthy_log,
    quorum,
    remove_topic,
    topic,
)

Row = dict[str, Any]
SUBJECTS = {
    "offline": [
        "topic reborn", "partition solo-2", "partition pair-5", "broker 14", "broker 15",
        "controller 3", "feature metadata.version", "config topic/pair", "offsets 80-140",
    ],
    "isolated": ["offsets 3-12", "offsets 5-6", "offsets 150-200", "offsets 176-177", "offsets 120", "controller 2", "feature metadata.version"],
    "ghosts-4.4": [
        "topic audit.v1-4", "topic invoices.v1-4", "offsets 60-70", "offsets 2040-2060",
        "broker 12", "controller 5", "feature kraft.version",
    ],
    "steady-live": ["offsets 0-60", "offsets 942-944", "topic orders.v2-23"],
}  # fmt: skip
NOT_THERE = [
    "topic nobody", "partition nobody-3", "nobody-3", "broker 99", "controller 99",
    "feature nobody", "config topic/nobody", "config broker/99", "principal User:nobody",
    "offsets 90000-90100",
]  # fmt: skip
STRANGERS = {"ghosts-4.4": DATA / "lagging-caughtup" / "replicas" / "3"}
"""Copies of other clusters that lie beside a case's; the log of this one begins behind the others' end."""


def roots(name: str) -> list[str]:
    """A golden case's folder, and those that lie beside it."""
    found = [DATA / name / "replicas", *(one for key, one in STRANGERS.items() if key == name)]
    return [str(one) for one in found]


@pytest.fixture(scope="module", params=SUBJECTS)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A golden case, and a lake of it: what is proven not to be committed, the audit knows."""
    lake = tmp_path_factory.mktemp(request.param) / "lake"
    options = load_options({"input": roots(request.param), "lake": str(lake)})
    run_steps(InProcess, options, "decode", "materialize", "audit")
    return request.param, lake


def told(capsys: pytest.CaptureFixture[str], subject: str, *where: str) -> list[Row]:
    capsys.readouterr()
    assert main(["explain", *subject.split(), *where, "--format", "json"]) == 0
    # A lake masks under a key of its own.
    out = re.sub("redacted:[0-9a-f]+", "redacted", capsys.readouterr().out)
    return [json.loads(line) for line in out.splitlines()]


def test_the_same_from_the_lake_as_from_the_files(
    case: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    name, lake = case
    for subject in SUBJECTS[name]:
        files = told(capsys, subject, "--input", *roots(name))
        rows = told(capsys, subject, "--lake", str(lake))
        assert files, subject
        assert rows == files, subject


def test_both_say_alike_what_nothing_tells(
    case: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a log begins and a snapshot is gone, or a hole is in all copies."""
    name, lake = case
    said = []
    for where in (["--input", *roots(name)], ["--lake", str(lake)]):
        told(capsys, "topic nobody", *where)
        main(["explain", "topic", "nobody", *where])
        said.append([one for one in capsys.readouterr().err.splitlines() if "not known" in one])
    assert said[0] == said[1]


def test_what_a_hole_ends_is_not_told_to_be_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copies, lake = tmp_path / "copies", str(tmp_path / "lake")
    for node in quorum(copies):
        node.write([one for one in healthy_log() if one.base != 3])
    options = load_options({"input": [str(copies)], "lake": lake})
    run_steps(InProcess, options, "decode", "materialize", "audit")
    files, rows = (
        told(capsys, "topic a", *where) for where in (["--input", str(copies)], ["--lake", lake])
    )
    assert rows == files
    assert not [text for row in rows for text in row["text"] if "removed" in text]


def test_what_removed_a_config_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It goes by a record of its own, or with its topic."""
    copies, lake = tmp_path / "copies", str(tmp_path / "lake")
    values = (config(2, "z", "retention.ms", one) for one in ("1", None, "2"))
    records = (topic("z", 9), *values, remove_topic(9))
    for node in quorum(copies):
        for at, one in enumerate(records):
            node.append(Batch(12 + at, 2, (one,), None, START_MS + 9000 + at))
    options = load_options({"input": [str(copies)], "lake": lake})
    run_steps(InProcess, options, "decode", "materialize", "audit")
    for where in (["--input", str(copies)], ["--lake", lake]):
        rows = told(capsys, "config topic/z", *where)
        kinds = ["CONFIG_RECORD", "CONFIG_RECORD", "CONFIG_RECORD", "REMOVE_TOPIC_RECORD"]
        assert [row["record_type"] for row in rows] == kinds
        assert [row["offset"] for row in rows] == [13, 14, 15, 16]


def test_what_a_transaction_brings_has_the_time_at_which_it_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its end, which makes it visible, comes a second later."""
    copies, lake = tmp_path / "copies", str(tmp_path / "lake")
    records = (TRANSACTION["begin"], topic("z", 9), TRANSACTION["end"])
    for node in quorum(copies):
        for at, one in enumerate(records):
            node.append(Batch(12 + at, 2, (one,), None, START_MS + 9000 + 1000 * at))
    options = load_options({"input": [str(copies)], "lake": lake})
    run_steps(InProcess, options, "decode", "materialize", "audit")
    for subject in ("topic z", "offsets 12-14"):
        files, rows = (
            told(capsys, subject, *where) for where in (["--input", str(copies)], ["--lake", lake])
        )
        assert rows == files, subject
        (row,) = (one for one in rows if one["offset"] == 13)
        assert moment(START_MS + 10_000) == datetime.fromisoformat(row["timestamp"])


def test_of_what_is_not_there_both_tell_nothing(
    case: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    name, lake = case
    for subject in NOT_THERE:
        assert told(capsys, subject, "--input", *roots(name)) == [], subject
        assert told(capsys, subject, "--lake", str(lake)) == [], subject


def test_of_another_cluster_nothing_is_known_but_its_own_records(
    case: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    name, lake = case
    if name not in STRANGERS:
        assert "another cluster" not in _printed(capsys, "offsets 0-300", "--lake", str(lake))
        return
    for where in (["--lake", str(lake)], ["--input", *roots(name)]):
        rows = told(capsys, "topic invoices.v1-4", *where)
        assert {row["lineage"] for row in rows} == {"3/3"}
        assert {(row["leader_id"], row["committed"]) for row in rows} == {(None, None)}
        assert "only in the log of 3/3, which is of another cluster:" in _printed(
            capsys, "topic invoices.v1-4", *where
        )


def _printed(capsys: pytest.CaptureFixture[str], subject: str, *where: str) -> str:
    capsys.readouterr()
    assert main(["explain", *subject.split(), *where]) == 0
    return capsys.readouterr().out
