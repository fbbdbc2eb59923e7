"""What a run has judged of the shared history, kept for the next run over grown input.

In: a `Told` after its audit, or the table `judged`. Out: its rows, or a `Before`. What other tables
hold too is not kept again: the states, and the records themselves.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from kraftlog import __version__
from kraftlog.audit.issues import Issues
from kraftlog.audit.state_rules import Issue
from kraftlog.audit.told import Before, Compared, Snapshot, Told
from kraftlog.audit.watch import MassDeletion
from kraftlog.config import Thresholds
from kraftlog.pipeline.run import run_numbered
from kraftlog.quorum.evidence import KeyDifference, SnapshotRefusal
from kraftlog.quorum.health import Past, ScramChange, Since, Unclean
from kraftlog.relations import Row
from kraftlog.state.history import tells_whole
from kraftlog.tables.lake import Lake
from kraftlog.tables.reports import JUDGED
from kraftlog.tables.spec import REPLAY_FAULTS, state_tables

_UNTIL, _PAST, _DELETIONS, _COMPARED = "judged_until", "past", "deletions", "snapshot_compared"
_REFUSED = "snapshot_refused"

_FORM = 11
"""How rows say what goes on; after those of another form, all is told anew."""


def goes_on_from(
    lake: Lake, end_offset: int | None, limits: Thresholds
) -> tuple[int | None, Before | None]:
    """What a run can go on from whose history has grown since the table `partitions` was written,
    which ends at an offset: up to where the partitions are known, and what was judged up to there;
    None where either is told from the beginning. Where the lake has lost what had no effect up to there, or that run's
    history was told, but not to its end, in this version, or by these limits, all is told anew.
    """
    number = lake.run_number("partitions")
    if lake.run_number(REPLAY_FAULTS.name) != number:
        return None, None
    if end_offset is None or lake.run_number(JUDGED.name) != number:
        return end_offset, None
    writer = run_numbered(lake, number)
    rows = lake.told_rows(JUDGED, writer["run_id"]) if writer else []
    if not rows:
        return end_offset, None
    written = {lake.run_number(one) for one in (*state_tables(), REPLAY_FAULTS.name)}
    until = _until(end_offset, limits)
    if written != {number} or not any(until.items() <= row.items() for row in rows):
        return None, None
    return end_offset, _before(end_offset, rows, limits)


def _before(end_offset: int, rows: list[Row], limits: Thresholds) -> Before:
    issues, past, deletions = Issues(), Past(), MassDeletion(limits)
    compared = dict[Snapshot, Compared]()
    refusals = dict[Snapshot, SnapshotRefusal | None]()
    for row in rows:
        offset, message, evidence = row["offset"], row["message"], row["evidence"]
        if row["shown"] == _PAST:
            setattr(past, message, _remembered(message, evidence["known"]))
        elif row["shown"] == _DELETIONS:
            deletions.go_on(message, evidence)
        elif row["shown"] == _COMPARED:
            differences = map(_difference, evidence["differences"])
            compared[offset, message] = tuple(differences), evidence["count"]
        elif row["shown"] == _REFUSED:
            found = evidence["first"]
            refusals[offset, message] = None if found is None else SnapshotRefusal(**found)
        elif row["shown"] != _UNTIL:
            issue = Issue(row["shown"], message, evidence)
            issues.add(offset, issue)
            issues.drop(issue, row["more"])
    return Before(end_offset, issues, past, deletions, compared, refusals)


def judged_rows(told: Told | None) -> Iterator[Row]:
    """The rows of `judged`; none where the audit has judged the history in another way."""
    if told is None:
        return
    end = told.stretch.end_offset
    until = _until(end, told.rules.deletions.limits)
    yield until if tells_whole(told.small[end].state) else {**until, "message": ""}
    past = told.end
    for part in _PAST_VALUES:
        yield _row(end, _PAST, part, {"known": sorted(getattr(past, part).items(), key=str)})
    for table, gone in told.rules.deletions.going_on():
        yield _row(end, _DELETIONS, table, gone)
    for (offset, content), (differences, count) in sorted(told.compared.items()):
        found = {"differences": [asdict(one) for one in differences], "count": count}
        yield _row(offset, _COMPARED, content, found)
    for (offset, content), refusal in sorted(told.refusals.items()):
        first = None if refusal is None else asdict(refusal)
        yield _row(offset, _REFUSED, content, {"first": first})
    for issues in (told.issues, told.rules.issues):
        for kept, dropped in issues.kinds():
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
    return {
        "offset": offset,
        "shown": shown,
        "message": message,
        "evidence": evidence or {},
        "more": more,
    }


def _until(end_offset: int, limits: Thresholds) -> Row:
    """What the run says that the next one can go on from: the rules' version, and their limits."""
    known = {name: value for name, value in asdict(limits).items() if name.startswith("mass_")}
    return _row(end_offset, _UNTIL, __version__, {"form": _FORM, **known})


def _difference(row: dict[str, Any]) -> KeyDifference:
    return KeyDifference(**row | {"fields": tuple(row["fields"])})


def _since(value: list[Any]) -> Since:
    return Since(*value)


_PAST_VALUES: dict[str, Callable[[Any], Any]] = {
    "fenced": _since,
    "unregistered": _since,
    "leaderless": _since,
    "led_by": int,
    "unclean": lambda value: Unclean(_since(value[0]), *value[1:]),
    "topics": lambda value: (value[0], _since(value[1])),
    "voters_removed": _since,
    "voters_back": lambda value: tuple(map(_since, value)),
    "scram": lambda value: ScramChange(*value),
    "emptied": _since,
    "turned_off": _since,
}
"""What each part of a `Past` knows of a key, from JSON."""


def _remembered(part: str, known: list[list[Any]]) -> dict[Any, Any]:
    """One part of a `Past` again."""
    value_of = _PAST_VALUES[part]
    return {tuple(key) if isinstance(key, list) else key: value_of(value) for key, value in known}
