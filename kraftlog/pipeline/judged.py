"""What the partitions' records of the shared history have shown, kept for the next run: so a run
over grown input judges only what is new.

In: what a run has told and its audit has judged. Out: rows of the table `judged`, and what an
earlier run has written there. Rows of another version of kraftlog count for nothing: its rules may
have been others.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from kraftlog import __version__
from kraftlog.audit.issues import Issues
from kraftlog.audit.state_rules import Issue
from kraftlog.audit.told import Before, Compared, Snapshot, Told
from kraftlog.pipeline.run import Row
from kraftlog.quorum.evidence import Difference
from kraftlog.quorum.health import Past, Since, Unclean
from kraftlog.state.declare import Key
from kraftlog.tables.lake import Lake
from kraftlog.tables.reports import JUDGED

_UNTIL, _LED, _COMPARED = "judged_until", "leaders", "snapshot_compared"


def judged_before(lake: Lake, end_offset: int | None) -> Before | None:
    """What the run has judged that wrote the table `partitions`, up to the offset where that ends;
    None where that is not known.
    """
    number = lake.run_number("partitions")
    if end_offset is None or lake.run_number(JUDGED.name) != number:
        return None
    (run_id,) = (one["run_id"] for one in lake.read("runs").to_pylist() if one["number"] == number)
    issues, past, compared = Issues(), Past(), dict[Snapshot, Compared]()
    is_known = False
    for row in lake.rows_of_run(JUDGED.name, run_id):
        offset, message, evidence = row["offset"], row["message"], json.loads(row["evidence"])
        if row["shown"] == _UNTIL:
            is_known = (offset, message) == (end_offset, __version__)
        elif row["shown"] == _LED:
            _remember(past, evidence)
        elif row["shown"] == _COMPARED:
            differences = map(_difference, evidence["differences"])
            compared[offset, message] = tuple(differences), evidence["count"]
        else:
            found = Issue(row["shown"], message, evidence)
            issues.add(offset, found)
            issues.drop(found, row["more"])
    return Before(end_offset, issues, past, compared) if is_known else None


def judged_rows(told: Told | None) -> Iterator[Row]:
    """The rows of `judged`; none where the audit has judged the history in another way."""
    if told is None:
        return
    end = told.stretch.end_offset
    yield _row(end, _UNTIL, __version__)
    past = told.led[end]
    for key in dict.fromkeys([*past.leaderless, *past.led_by, *past.unclean]):
        yield _row(end, _LED, evidence=_remembered(past, key))
    for (offset, content), (differences, count) in sorted(told.compared.items()):
        found = {"differences": [asdict(one) for one in differences], "count": count}
        yield _row(offset, _COMPARED, content, found)
    for kept, dropped in told.issues.kinds():
        for at, (offset, issue) in enumerate(kept, 1):
            more = dropped if at == len(kept) else 0
            yield _row(offset, issue.check, issue.text, issue.evidence, more)


def _row(
    offset: int,
    shown: str,
    message: str = "",
    evidence: Mapping[str, Any] | None = None,
    more: int = 0,
) -> Row:
    text = json.dumps(evidence or {}, sort_keys=True)
    return {
        "offset": offset, "shown": shown, "message": message, "evidence": text, "more": more,
    }  # fmt: skip


def _difference(row: dict[str, Any]) -> Difference:
    return Difference(**row | {"fields": tuple(row["fields"])})


def _remembered(past: Past, key: Key) -> dict[str, Any]:
    """What is known of a partition's leaders."""
    return {
        "partition": key,
        "leaderless": past.leaderless.get(key),
        "led_by": past.led_by.get(key),
        "unclean": past.unclean.get(key),
    }


def _remember(past: Past, row: dict[str, Any]) -> None:
    topic_id, partition_id = row["partition"]
    key = topic_id, partition_id
    if row["leaderless"] is not None:
        past.leaderless[key] = Since(*row["leaderless"])
    if row["led_by"] is not None:
        past.led_by[key] = row["led_by"]
    if row["unclean"] is not None:
        since, leader, times = row["unclean"]
        past.unclean[key] = Unclean(Since(*since), leader, times)
