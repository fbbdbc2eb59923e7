"""Every batch and every record of every golden replica is what Kafka's own classes read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.decode.listing import RecordFilter, record_rows
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from tests.golden.cases import REPLICAS, Replica
from tests.golden.compare import differences, file_names, run_kraftlog
from tests.unit.audit_logs import LIMITS, quorum, replace_batch


@pytest.mark.parametrize("command", ["batches", "records"])
@pytest.mark.parametrize("replica", REPLICAS, ids=str)
def test_equal_to_kafka(replica: Replica, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    kafka = replica.batches() if command == "batches" else replica.records()
    paths = [replica.file(name) for name in file_names(kafka)]
    ours = run_kraftlog(command, paths, lambda: capsys.readouterr().out)
    found = differences(command, kafka, ours)
    assert not found, "\n".join(found[:5])


@pytest.mark.parametrize(
    ("options", "wants"),
    [
        (("--type", "TOPIC_RECORD"), lambda row: row["type"] == "TOPIC_RECORD"),
        (("--from-offset", "176", "--to-offset", "190"), lambda row: 176 <= row["offset"] < 190),
        (
            ("--since", "2026-11-21T00:57:30Z", "--until", "1795222655000"),
            lambda row: 1795222650000 <= row["timestamp"] < 1795222655000,
        ),
        # Not what only begins so, as ghost-topic-a does.
        (("--key", "ghost"), lambda row: '"ghost"' in json.dumps(row["data"])),
    ],
    ids=["type", "offset", "time", "key"],
)
def test_filters_choose_what_a_plain_filter_chooses(
    options: tuple[str, ...],
    wants: Callable[[dict[str, Any]], bool],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of the dead leader's log: the tail from 176 on, and what was tried with the ghost topic."""
    replica = Replica("isolated", "2")
    path = replica.log_dir / f"{0:020d}.log"
    listed = [row for row in replica.records() if row.get("file") == path.name and "offset" in row]
    wanted = [row["offset"] for row in listed if wants(row)]
    assert main(["records", str(path), *options, "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["offset"] for row in rows] == wanted
    assert 0 < len(wanted) < len(listed)


@pytest.mark.parametrize(
    ("wanted", "is_told"),
    [
        (RecordFilter(), True),
        (RecordFilter(types=frozenset({"PRODUCER_IDS_RECORD"})), True),
        (RecordFilter(types=frozenset({"TOPIC_RECORD"})), False),
        (RecordFilter(from_offset=5, to_offset=6), True),
        (RecordFilter(to_offset=4), False),
        (RecordFilter(from_offset=6), False),
    ],
    ids=["all", "its type", "another type", "its batch", "before", "behind"],
)
def test_what_is_asked_for_is_looked_at(
    wanted: RecordFilter, is_told: bool, tmp_path: Path
) -> None:
    """A record of the batch of offsets 4 and 5 cannot be decoded."""
    node = quorum(tmp_path)[0]
    replace_batch(
        node, 4, lambda one: replace(one, values=(one.values[0][:-1], *one.values[1:])).raw()
    )
    rows = record_rows(find_replicas([str(node.home)]), LIMITS, Redactor(None), wanted)
    assert [row["offset"] for row in rows if "fault" in row] == ([4] if is_told else [])
