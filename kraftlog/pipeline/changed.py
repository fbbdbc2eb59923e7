"""What changed between two runs of a lake: findings that are new or gone, elections, objects.

In: a lake and two of its runs. Out: rows. Findings of two runs are the same where check, severity,
replica, file (from its replica's folder on: a copy of another day lies elsewhere), offset and the
node that they are about are; the only one of a check, severity, replica and node in both runs is the
same, wherever it has moved. A copy whose folder has another name is the same replica where its node
and directory are. Where the later history only goes on from the earlier one, objects are told from
the versions in between; else two states are compared, as far as the lake still has them.
Source: the tables of the lake, in the versions that its register names; of two logs with the same
epochs at the same offsets, KIP-595 ("Log Matching").
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from posixpath import relpath
from typing import Any

import pyarrow.dataset as ds

from kraftlog.audit.health_checks import DOUBT
from kraftlog.errors import LakeError, UsageError
from kraftlog.explain.elected import Elected, elected_by
from kraftlog.explain.subject import Subject
from kraftlog.explain.timeline import Held, between, net, object_rows
from kraftlog.pipeline.explained import moments_in
from kraftlog.pipeline.histories import holds_at
from kraftlog.pipeline.lost_rows import lost_rows
from kraftlog.pipeline.run import newest_run
from kraftlog.plain import listed, runs_text
from kraftlog.quorum.holdings import Range
from kraftlog.quorum.lineages import MAIN
from kraftlog.relations import Row
from kraftlog.state.history import SHOWN
from kraftlog.state.tables import TABLE
from kraftlog.tables.lake import Lake
from kraftlog.tables.place import state_of
from kraftlog.tables.reports import FINDINGS

_ABOUT = ("broker_id", "controller_id", "voter_id", "kind", "blocks_upgrade", "detail")
"""What of a finding's evidence says what it is about, where it is about no place."""


def two_runs(lake: Lake, number: int | None, since: int | None) -> tuple[Row | None, Row]:
    """(the earlier run, the later one): the newest two unless their numbers are given; None for the
    earlier where there is only one.

    Raises UsageError where there is no run of a given number."""
    runs = {row["number"]: row for row in lake.rows("runs").to_pylist()}
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


def changes_in(lake: Lake, before: Row, after: Row) -> Iterator[Row]:
    """Everything that differs, findings first."""

    def both(name: str) -> Iterator[list[Row]]:
        return (lake.rows_of_run(name, one["run_id"]) for one in (before, after))

    lost = lost_rows(lake, (before, after))
    for number, names in lost.items():
        if gone := _COMPARED.intersection(names):
            raise LakeError(
                f"{lake.root}: the lake holds no {listed(sorted(gone))} of run {number}, so that nothing can be compared with it; name other runs with --since and --run"
            )
    own = [*both("replicas")]
    named = renamed(*own)
    replicas = [_called(row, named) for row in own[0]], own[1]
    if lost:
        text = f"which are new or gone cannot be told: the lake does not hold what {runs_text(lost)} found"
        yield {"kind": "finding", "change": "changed", "name": "findings", "text": text}
    else:
        found = (lake.told_rows(FINDINGS, one["run_id"]) for one in (before, after))
        before_rows, after_rows = map(placed, found, own)
        before_rows = (_called(row, named) for row in before_rows)
        at_hand = {row["replica"] for row in replicas[1]}
        yield from finding_changes(before_rows, after_rows, at_hand)
    for label, name in named.items():
        text = f"replica {label} is now named {name}: its node and directory are the same"
        yield {"kind": "replica", "change": "changed", "name": name, "text": text}
    yield from _replicas(*replicas)
    yield from _elections(*map(elected_by, both("epochs"), own))
    old, new = (_History.of(lake, one) for one in (before, after))
    parts = old.parts_from(new)
    if parts is not None:
        change, text = _other(old, new, parts)
        yield {"kind": "history", "change": change, "name": MAIN, "text": text}
    elif old.end < new.end and not new.tells(old.end, new.end):
        text = f"no copies of run {new.run} lead from offset {old.end}, where the history of run {old.run} ended, to {new.end}: what came and went in between is not told"
        yield {"kind": "history", "change": "changed", "name": MAIN, "text": text}
    yield from _objects(lake, old, new)


_COMPARED = {"replicas", "epochs", "lineages"}
UNSEEN = "(not known to be mended: replica {replica} is not at hand any more) "


@dataclass(frozen=True, slots=True)
class _History:
    """The shared lineage of a run: its stretches, where it ends, and the offsets [start, end) of
    each epoch in it, as its logs hold them.
    """

    run: int
    stretches: tuple[tuple[Any, ...], ...]
    end: int
    epochs: Mapping[int, Range]

    @classmethod
    def of(cls, lake: Lake, run: Row) -> "_History":
        lineages, replicas, epochs = (
            lake.rows_of_run(name, run["run_id"]) for name in ("lineages", "replicas", "epochs")
        )
        forks = {row["lineage"]: row["fork_offset"] for row in lineages}
        shared = {
            row["replica"]: forks.get(row["lineage"], 0)
            for row in replicas
            if row["lineage"] != MAIN
        }
        found: dict[int, Range] = {}
        for row in epochs:
            start, end = row["start_offset"], row["end_offset"]
            end = min(end, shared.get(row["replica"], end))
            low, high = found.get(row["batch_leader_epoch"], (start, end))
            if start < end:
                found[row["batch_leader_epoch"]] = min(start, low), max(end, high)
        told = (row for row in lineages if row["lineage"] == MAIN)
        own = sorted(told, key=lambda row: int(row["stretch"]))
        stretches = tuple(
            (row["start_offset"], row["end_offset"], row["batch_count"], row["digest"])
            for row in own
        )
        end = max((row["end_offset"] for row in own), default=0)
        return cls(run["number"], stretches, end, found)

    def parts_from(self, other: "_History") -> int | None:
        """The first offset that another history does not hold as this one does; None where that one
        goes on from this one, or is the same.
        """
        end = min(self.end, other.end)
        each = self.epochs, other.epochs
        low = max((min(start for start, _ in one.values()) for one in each if one), default=0)
        # Who leads an epoch writes each of its offsets once. What ended before both logs begin, the
        # later one cannot know.
        starts = [
            {key: max(low, start) for key, (start, end) in one.items() if end > low} for one in each
        ]
        differing = starts[0].items() ^ starts[1].items()
        first = min((start for _, start in differing if low <= start < end), default=end)
        if first == end == self.end == other.end and self._is_altered(other):
            return self.stretches[0][0] if self.stretches else 0
        return first if first < self.end else None

    def tells(self, first: int, end: int) -> bool:
        """Whether it tells without a hole what holds from one offset to another."""
        return any(low <= first and end <= high for low, high, *_ in self.stretches)

    def _is_altered(self, other: "_History") -> bool:
        """Whether as many batches at the same places are others."""
        pairs = zip(self.stretches, other.stretches, strict=False)
        return any(one[:-1] == two[:-1] and one[-1] != two[-1] for one, two in pairs)


def _other(old: _History, new: _History, parts: int) -> tuple[str, str]:
    """How a history is no continuation of another one."""
    if parts == new.end < old.end:
        text = f"the shared history ends at offset {new.end}, before {old.end}: logs were cut, or these copies are older than those of run {old.run}"
        return "gone", text
    ends = f"it ends at {new.end}, and ended at {old.end}"
    return "changed", f"the shared history is another from offset {parts} on: {ends}"


def _objects(lake: Lake, old: _History, new: _History) -> Iterator[Row]:
    """The objects that differ between the ends of two histories."""
    newest = _History.of(lake, newest_run(lake))
    are_told = all(one.parts_from(newest) is None for one in (old, new))
    if are_told and old.end <= new.end and newest.tells(old.end, new.end):
        if old.end < new.end:
            span = f"{old.end}-{new.end - 1}"
            subject = Subject("offsets", span, frozenset(), first=old.end, end=new.end)
            yield from object_rows(net(moments_in(lake, subject), old.end, new.end))
        return
    kept = {one.run: one.versions for one in state_of(lake.root).published}
    states = []
    for one in (old, new):
        held = _state_at(lake, kept.get(one.run), one.end)
        if held is None:
            text = f"which objects differ cannot be told: the lake keeps its tables as run {one.run} left them no longer (option keep_runs), or another client has deleted them"
            yield {"kind": "history", "change": "changed", "name": MAIN, "text": text}
            return
        states.append(held)
    if old.parts_from(new) != new.end:
        yield from object_rows(between(*states))
        return
    # The later copies end before: what they lack is what the records behind their end did.
    for row in object_rows(between(*reversed(states))):
        yield {
            **row,
            "change": _LACKING[row["change"]],
            "text": f"not in these copies: {row['text']}",
        }


_LACKING = {"new": "gone", "gone": "new", "changed": "changed"}
"""What an object is where a change of it is lacking."""


def _state_at(lake: Lake, versions: Mapping[str, int] | None, offset: int) -> Held | None:
    """What the shared history held at an offset, in some versions of the tables; None where these
    are not kept, or their files are gone.
    """
    if versions is None:
        return None
    chosen = (ds.field("lineage") == MAIN) & holds_at(offset)
    with suppress(LakeError):
        return {
            (name, TABLE[name].key_of(value)): value
            for name in SHOWN
            if name in versions
            for value in SHOWN[name].values(lake.rows(name, chosen=chosen, version=versions[name]))
        }
    return None


def placed(findings: Iterable[Row], replicas: Iterable[Row]) -> Iterator[Row]:
    """Findings whose files are named from their replica's folder on."""
    folders = {row["replica"]: row["folder"] for row in replicas}
    for row in findings:
        path, folder = row["path"], folders.get(row["replica"])
        yield {**row, "path": relpath(path, folder)} if path and folder else row


def finding_changes(
    before: Iterable[Row], after: Iterable[Row], at_hand: Collection[str]
) -> Iterator[Row]:
    """Findings that are new or gone, then those that have changed: that name other objects or
    say something else, or that have only moved, as the end of a log does that is written to. What was found of a replica that
    is not at hand any more is not known to be mended.
    """
    old, new = ({_key(row): row for row in rows} for rows in (before, after))
    came = [row for key, row in new.items() if key not in old]
    went = [row for key, row in old.items() if key not in new]
    counts = [Counter(map(_subject, rows)) for rows in (came, went)]
    moved = {one for one in counts[0] if counts[0][one] == counts[1][one] == 1}
    yield from (_finding("new", row) for row in came if _subject(row) not in moved)
    for row in went:
        if _subject(row) not in moved:
            is_judged = row["replica"] is None or row["replica"] in at_hand
            yield _finding("gone", row, "" if is_judged else UNSEEN.format(**row))
    yield from (_finding("changed", row) for row in came if _subject(row) in moved)
    for key, row in new.items():
        if key in old and _says(row) != _says(old[key]):
            yield _finding("changed", row)


def renamed(before: list[Row], after: list[Row]) -> dict[str, str]:
    """The replicas that have another label in the later run: the only copy of a node's directory in
    both.
    """
    old, new = (
        {one: rows[0]["replica"] for one, rows in _by_identity(rows).items() if len(rows) == 1}
        for rows in (before, after)
    )
    pairs = ((label, new.get(one, label)) for one, label in old.items())
    return {label: name for label, name in pairs if label != name}


def _by_identity(rows: list[Row]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        identity = (row["cluster_id"], row["node_id"], row["directory_id"])
        if None not in identity:
            found.setdefault(identity, []).append(row)
    return found


def _called(row: Row, named: Mapping[str, str]) -> Row:
    """A row of the earlier run, under the label that its replica has in the later one."""
    return {**row, "replica": named.get(row["replica"], row["replica"])}


def _finding(change: str, row: Row, note: str = "") -> Row:
    name = f"{row['severity']} {row['check']}"
    return {"kind": "finding", "change": change, "name": name, "text": note + row["message"]}


def _subject(row: Row) -> tuple[Any, ...]:
    """Which check says how bad a thing of what."""
    about = (str(row["evidence"].get(name)) for name in _ABOUT)
    return (row["check"], row["severity"], row["replica"], *about)


def _key(row: Row) -> tuple[Any, ...]:
    place = (row["path"], row["offset"]) if row["replica"] is not None else ()
    return (*_subject(row), *place)


def _says(row: Row) -> tuple[Any, str]:
    """Which objects it names, and its words without figures and brackets, in which places and folders
    stand, and without the doubt whether all is committed: these differ from run to run.
    """
    words = re.sub(r" \([^()]*\)|\d+", "", row["message"])
    return row["evidence"].get("names"), words.replace(DOUBT.format(""), "")


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


def _elections(old: Mapping[int, Elected], new: Mapping[int, Elected]) -> Iterator[Row]:
    """Epochs that are new, and those that no log holds any more, though it reaches back so far."""
    yield from (one.as_row("new") for one in new.values() if one.epoch not in old)
    begins = min((one.start_offset for one in new.values()), default=0)
    for one in old.values():
        if one.epoch not in new and one.start_offset >= begins:
            yield one.as_row("gone")
