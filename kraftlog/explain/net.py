"""What is different between two offsets of a history: each object once, from what to what.

In: moments, and two offsets; or two states. Out: `Change`s against the first of the two, in the
order of the tables, and rows of them. What came and went in between is no difference.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kraftlog.explain.moments import SNAPSHOT, Moment
from kraftlog.explain.words import TopicNames, object_name, sentences
from kraftlog.quorum.lineages import MAIN
from kraftlog.state.declare import Data, Key
from kraftlog.state.state import Change
from kraftlog.state.tables import TABLE

Held = Mapping[tuple[str, Key], Data]
"""The objects of a state, by table and key."""


@dataclass(frozen=True, slots=True)
class Net:
    """The changes from one offset to another (both exclusive ends of states), how topics are called,
    and where the history at hand begins: later than the first where the beginning is missing.
    """

    changes: tuple[Change, ...]
    names: TopicNames
    begins: int


def object_rows(found: Net) -> Iterator[dict[str, Any]]:
    """One row per object that differs."""
    for one in found.changes:
        change = "changed"
        if one.before is None or one.after is None:
            change = "new" if one.before is None else "gone"
        title = object_name(one, found.names)
        text = "; ".join(sentences(one, found.names))
        yield {"kind": "object", "change": change, "name": title, "text": text}


def net(moments: Iterable[Moment], first: int, end: int) -> Net:
    """What the records that became visible in [first, end) changed together, along `main`."""
    found: dict[tuple[str, Key], Change] = {}
    names, begins = TopicNames(), 0
    for one in moments:
        if one.lineage != MAIN:
            break
        names.take(one.changes)
        if one.record_type == SNAPSHOT:
            begins = one.offset
        elif first <= one.seen_offset < end:
            for change in one.changes:
                at = change.table, change.key
                before = found[at].before if at in found else change.before
                found[at] = change._replace(before=before)
    return Net(_in_order(found.values()), names, begins)


def between(before: Held, after: Held) -> Net:
    """What two states hold differently; topics are called as in the later one."""
    found = [
        Change(*key, before.get(key), after.get(key)) for key in dict.fromkeys([*before, *after])
    ]
    names = TopicNames()
    names.take(found)
    return Net(_in_order(found), names, 0)


def _in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Those that change something, table by table."""
    order = {name: index for index, name in enumerate(TABLE)}
    told = (one for one in changes if one.before != one.after)
    return tuple(sorted(told, key=lambda one: (order[one.table], str(one.key))))
