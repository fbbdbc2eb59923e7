"""Hold what kraftlog prints against what Kafka's own classes read, field by field.

Enters: Kafka's rows (golden files or the live judge) and the JSON lines of `kraftlog batches` or
`kraftlog records`. Leaves: a list of sentences, one per difference; none means equal. Rows are
compared in order, file by file. Batches or records that Kafka itself cannot read must be faults.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from kraftlog.cli import main

Row = dict[str, Any]
Fields = Mapping[str, str]


def _same(names: str) -> dict[str, str]:
    return {name: name for name in names.split()}


# Our name of a field → the name that the judge uses.
BATCH_FIELDS: Fields = {
    **_same("position base_offset last_offset magic crc crc_valid attributes compression"),
    **_same("is_control is_transactional base_timestamp max_timestamp producer_id producer_epoch"),
    **_same("base_sequence record_count"),
    "size_bytes": "size",
    "batch_leader_epoch": "partition_leader_epoch",
}
RECORD_FIELDS: Fields = {
    **_same("offset timestamp is_control type data unknown_tagged_fields"),
    "batch_leader_epoch": "epoch",
    "position": "batch_position",
    "record_version": "version",
}
FIELDS: Mapping[str, Fields] = {"batches": BATCH_FIELDS, "records": RECORD_FIELDS}


def run_kraftlog(command: str, paths: Sequence[Path], printed: Callable[[], str]) -> list[Row]:
    """Run `kraftlog batches` or `kraftlog records` in this process; `printed` gives its stdout."""
    printed()
    status = main([command, "--format", "json", "--reveal-secrets", *map(str, paths)])
    assert status in (0, 1), f"kraftlog {command} ended with {status}"
    return [json.loads(line) for line in printed().split("\n") if line]


def differences(command: str, kafka: Iterable[Row], ours: Iterable[Row]) -> list[str]:
    """What differs between Kafka's rows and ours, over all files that Kafka's rows cover."""
    expected: dict[str, list[Row]] = {}
    unreadable: dict[str, bool] = {}
    for row in kafka:
        name = row["file"]
        wanted = expected.setdefault(name, [])
        refused = row.get("error") is not None
        unreadable[name] = unreadable.get(name, False) or refused
        if not row.get("summary") and not refused:
            wanted.append(row)
    given: dict[str, list[Row]] = {name: [] for name in expected}
    faults: dict[str, list[Row]] = {name: [] for name in expected}
    for row in ours:
        name = PurePath(row["path"]).name
        (given if row.get("fault") is None else faults)[name].append(row)
    found: list[str] = []
    for name, wanted in expected.items():
        found += [f"{name}: {text}" for text in _rows(wanted, given[name], FIELDS[command])]
        if unreadable[name] and not faults[name]:
            found.append(f"{name}: Kafka cannot read all of it, we give no fault")
        if command == "records" and faults[name] and not unreadable[name]:
            found.append(
                f"{name}: Kafka reads all of it, we give a fault: {_text(faults[name][0])}"
            )
    return found


def file_names(kafka: Iterable[Row]) -> list[str]:
    """The files that Kafka's rows cover, in their order."""
    return list(dict.fromkeys(str(row["file"]) for row in kafka))


def _rows(wanted: Sequence[Row], given: Sequence[Row], fields: Fields) -> list[str]:
    found = []
    if len(wanted) != len(given):
        found.append(f"{len(wanted)} rows expected, {len(given)} given")
    for want, have in zip(wanted, given, strict=False):
        for ours, theirs in fields.items():
            if want.get(theirs) != have.get(ours):
                found.append(
                    f"offset {want.get('offset', want.get('base_offset'))}: {ours} is "
                    f"{_text(have.get(ours))}, expected {_text(want.get(theirs))}"
                )
                break
    return found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)[:200]
