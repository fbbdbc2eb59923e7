"""What changed between two runs of a lake: findings that are new or gone, elections, objects.

In: a lake and two of its runs. Out: rows. Findings of two runs are the same where check, severity,
replica, file (from its replica's folder on: a copy of another day lies elsewhere), offset and the
node that they are about are; the only one of a check, severity, replica and node in both runs is the
same, wherever it has moved. Source: the tables of the lake.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from posixpath import relpath
from typing import Any

from kraftlog.errors import LakeError, UsageError
from kraftlog.explain.subject import Subject
from kraftlog.explain.timeline import net, object_rows
from kraftlog.pipeline.explained import moments_in
from kraftlog.quorum.lineages import MAIN
from kraftlog.relations import Row
from kraftlog.tables.lake import Lake
from kraftlog.tables.place import lake_at

_ABOUT = ("broker_id", "controller_id", "voter_id", "kind", "blocks_upgrade", "detail")
"""What of a finding's evidence says what it is about, where it is about no place."""


def two_runs(path: str, number: int | None, since: int | None) -> tuple[Row | None, Row]:
    """(the earlier run, the later one): the newest two unless their numbers are given; None for the
    earlier where there is only one.

    Raises UsageError where there is no run of a given number."""
    runs = {row["number"]: row for row in lake_at(path).read("runs").to_pylist()}
    if not runs:
        raise LakeError(
            f"{path}: no run has finished yet; kraftlog run, or the decode job, comes first"
        )
    if number is None and since is None and len(runs) == 1:
        return None, next(iter(runs.values()))
    later = max(runs) if number is None else number
    earlier = max((one for one in runs if one < later), default=0) if since is None else since
    for one in (later, earlier):
        if one not in runs:
            known = ", ".join(map(str, sorted(runs)))
            raise UsageError(f"the lake has no run {one or 'before the first'}: it has {known}")
    if earlier >= later:
        raise UsageError(f"run {earlier} is not before run {later}")
    return runs[earlier], runs[later]


def changes_in(path: str, before: Row, after: Row) -> Iterator[Row]:
    """Everything that differs, findings first."""
    lake = lake_at(path)

    def both(name: str) -> Iterator[list[Row]]:
        return (lake.rows_of_run(name, one["run_id"]) for one in (before, after))

    replicas = [*both("replicas")]
    yield from finding_changes(*map(placed, both("findings"), replicas))
    yield from _replicas(*replicas)
    yield from _elections(*both("epochs"))
    first, end = (_end(lake, one["run_id"]) for one in (before, after))
    if end < first:
        text = f"the shared history ends at offset {end}, before {first}: a log was cut"
        yield {"kind": "history", "change": "gone", "name": MAIN, "text": text}
        first, end = end, first
    subject = Subject("offsets", f"{first}-{end - 1}", frozenset(), first=first, end=end)
    if end > first:
        yield from object_rows(net(moments_in(path, subject), first, end))


def placed(findings: Iterable[Row], replicas: Iterable[Row]) -> Iterator[Row]:
    """Findings whose files are named from their replica's folder on."""
    folders = {row["replica"]: row["folder"] for row in replicas}
    for row in findings:
        path, folder = row["path"], folders.get(row["replica"])
        yield {**row, "path": relpath(path, folder)} if path and folder else row


def finding_changes(before: Iterable[Row], after: Iterable[Row]) -> Iterator[Row]:
    """Findings that are new or gone, then those that have changed: that name other objects, or that
    have only moved, as the end of a log does that is written to.
    """
    old, new = ({_key(row): row for row in rows} for rows in (before, after))
    came = [row for key, row in new.items() if key not in old]
    went = [row for key, row in old.items() if key not in new]
    counts = [Counter(map(_subject, rows)) for rows in (came, went)]
    moved = {one for one in counts[0] if counts[0][one] == counts[1][one] == 1}
    yield from (_finding("new", row) for row in came if _subject(row) not in moved)
    yield from (_finding("gone", row) for row in went if _subject(row) not in moved)
    yield from (_finding("changed", row) for row in came if _subject(row) in moved)
    for key, row in new.items():
        if key in old and _names(row) != _names(old[key]):
            yield _finding("changed", row)


def _finding(change: str, row: Row) -> Row:
    name = f"{row['severity']} {row['check']}"
    return {"kind": "finding", "change": change, "name": name, "text": row["message"]}


def _subject(row: Row) -> tuple[Any, ...]:
    """Which check says how bad a thing of what."""
    evidence = json.loads(row["evidence"])
    about = (str(evidence.get(name)) for name in _ABOUT)
    return (row["check"], row["severity"], row["replica"], *about)


def _key(row: Row) -> tuple[Any, ...]:
    place = (row["path"], row["offset"]) if row["replica"] is not None else ()
    return (*_subject(row), *place)


def _names(row: Row) -> Any:
    return json.loads(row["evidence"]).get("names")


def _replicas(before: list[Row], after: list[Row]) -> Iterator[Row]:
    old, new = ({row["replica"]: row for row in rows} for rows in (before, after))
    for label in sorted({*old, *new}):
        if label not in old or label not in new:
            change = "new" if label in new else "gone"
            yield {"kind": "replica", "change": change, "name": label, "text": f"replica {label}"}
            continue
        ends = old[label]["log_end_offset"], new[label]["log_end_offset"]
        if ends[0] != ends[1]:
            now, then = ("an unknown offset" if one is None else one for one in reversed(ends))
            text = f"the log of {label} ends at {now}, not at {then}"
            yield {"kind": "replica", "change": "changed", "name": label, "text": text}


def _elections(before: list[Row], after: list[Row]) -> Iterator[Row]:
    old, new = ({row["batch_leader_epoch"]: row for row in rows} for rows in (before, after))
    for epoch in sorted(new.keys() - old.keys()):
        row = new[epoch]
        text = f"leader {row['leader_id']} in epoch {epoch}, from offset {row['start_offset']} on"
        yield {"kind": "election", "change": "new", "name": str(epoch), "text": text}


def _end(lake: Lake, run_id: str) -> int:
    rows = lake.rows_of_run("lineages", run_id, ["lineage", "end_offset"])
    return max((row["end_offset"] for row in rows if row["lineage"] == MAIN), default=0)
