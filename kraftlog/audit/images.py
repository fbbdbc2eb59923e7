"""Snapshots as states, loaded when they are asked for, and what two states hold differently, in
words that name the object and the field.

In: snapshots, and where their records are read from. Out: `SnapshotImage`s, and `KeyDifference`s.
The small tables are compared as rows; of the partitions only those become rows that differ by
columns. Configs of topics that do not exist are marked: Kafka itself leaves them behind. What lacks
eligible leader replicas differs only where the feature that writes them is on. Source: KIP-630 "Overview",
"Snapshot Format", KAFKA-13357.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kraftlog.audit.grouping import CONTROL_TABLES, ELR_FIELDS, is_elr_missing, is_scram_user
from kraftlog.audit.watch import SnapshotRules
from kraftlog.log.batch import CONTROL
from kraftlog.quorum.content import UNKNOWN
from kraftlog.quorum.evidence import UNREMARKABLE, KeyDifference, SnapshotRefusal
from kraftlog.quorum.record_windows import Records, loaded
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.difference import Difference, differences
from kraftlog.state.known import Known
from kraftlog.state.standing import Topics, differing
from kraftlog.state.state import State
from kraftlog.state.tables import TABLE, TOPIC_RESOURCE
from kraftlog.state.write import ELR_FEATURE

DIFFERENCE_LIMIT = 20
_KEPT = 4
"""So many images are kept: those of one id, each content once."""


@dataclass(frozen=True, slots=True)
class SnapshotImage:
    """The state of a snapshot; `doubt` says what a newer Kafka wrote into it."""

    known: Known
    doubt: str | None


@dataclass(slots=True)
class Images:
    """Images of snapshots, by content; `refused`: what of each cannot be loaded, kept or not."""

    records: Records
    topics: Topics
    _known: OrderedDict[bytes, SnapshotImage | None] = field(default_factory=OrderedDict)
    refused: dict[bytes, SnapshotRefusal | None] = field(default_factory=dict)

    def of(self, view: SnapshotView) -> SnapshotImage | None:
        """The image of a snapshot; None where its file cannot be read any more."""
        content = view.evidence.batches.ids.tobytes()
        if content not in self._known:
            rules = SnapshotRules()
            known = loaded(self.records, view, self.topics, rules)
            self._known[content] = None if known is None else SnapshotImage(known, doubt_of(view))
            if known is not None:
                self.refused[content] = rules.refusal
        self._known.move_to_end(content)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return self._known[content]

    def load(self, views: Iterable[SnapshotView]) -> None:
        """Load the first of some snapshots, as many contents as are kept."""
        for view in views:
            if len(self._known) >= _KEPT:
                return
            self.of(view)
            pa.default_memory_pool().release_unused()  # tasks need it meanwhile


@dataclass(slots=True)
class Stations:
    """Offsets of the shared history at which its state will be asked for once more, and the states
    there, as far as the way through it comes by and knows them for sure.
    """

    images: Images
    offsets: frozenset[int] = frozenset()
    states: dict[int, Known] = field(default_factory=dict)

    @classmethod
    def none(cls, records: Records) -> "Stations":
        """Where nothing has gone through the history before."""
        return cls(Images(records, Topics()))

    def pass_by(self, offset: int, known: Known) -> None:
        """Keep the state at an offset that is asked for; not within a transaction, where what it
        hides is not all known.
        """
        if offset in self.offsets and known.small.open_since is None:
            self.states[offset] = known.fork()


def doubt_of(view: SnapshotView) -> str | None:
    """What a newer Kafka wrote into a snapshot, so that its state is not known whole."""
    batches = view.evidence.batches
    for row, index in enumerate(batches.content.tolist()):
        if index == UNREMARKABLE or batches.attributes[row] & CONTROL:
            continue
        for issue in view.contents[index].issues:
            if issue.kind == UNKNOWN:
                return f"in the snapshot {issue.text}"
    return None


def images_apart(expected: Known, found: Known) -> tuple[tuple[KeyDifference, ...], int]:
    """(first differences, how many) of a state against the expected one, as all may see them."""
    return images_differ(*states_apart(expected, found))


def states_apart(before: Known, after: Known) -> tuple[State, State]:
    """Two states as everyone may see them; of the partitions only those that differ."""
    one, other = before.small.state.fork(), after.small.state.fork()
    for key, mine, theirs in differing(before.visible, after.visible):
        one.set("partitions", key, mine)
        other.set("partitions", key, theirs)
    return one, other


def are_equal(one: Known, other: Known) -> bool:
    """Whether two states are the same, as everyone may see them."""
    if one is other:
        return True
    same_small = one.small.state == other.small.state
    return same_small and not differing(one.visible, other.visible)


def images_differ(expected: State, found: State) -> tuple[tuple[KeyDifference, ...], int]:
    """(the first differences, how many there are) of an image against the one that is expected."""
    told: list[KeyDifference] = []
    kinds: set[int] = set()
    count = 0
    for one in meant(expected, found):
        count += 1
        difference = _worded(expected, found, one)
        kind = _kind(difference)
        if len(told) < DIFFERENCE_LIMIT or kind not in kinds:
            told.append(difference)
        kinds.add(kind)
    told.sort(key=_kind)
    return tuple(told[:DIFFERENCE_LIMIT]), count


def _kind(one: KeyDifference) -> int:
    """What is not Kafka's own doing decides how bad it is, and is told first."""
    return 3 if one.stale_config else 2 if is_elr_missing(one) else int(is_scram_user(one))


def meant(expected: State, found: State) -> Iterator[Difference]:
    """What differs, but for what a snapshot may hold otherwise, or a history not tell."""
    elr = expected.get("features", (ELR_FEATURE,))
    untold = {table for table in CONTROL_TABLES if not expected.rows(table)}
    for one in differences(expected, found):
        if one.table in untold:
            continue
        is_off = elr is None or elr["featureLevel"] < 1
        if is_off and one.field in ELR_FIELDS and not one.after:
            continue
        yield one


def _worded(expected: State, found: State, one: Difference) -> KeyDifference:
    name = _object(expected, found, one)
    if one.change == "added":
        text = f"{name} is there and should not be{_shown(one.after, one.table)}"
    elif one.change == "removed":
        text = f"{name} is missing{_shown(one.before, one.table)}"
    else:
        text = f"{name}: {one.field} is {_value(one.after)}, not {_value(one.before)}"
    key = f"{one.table}:{json.dumps(one.key, ensure_ascii=False)}"
    fields = (one.field,) if one.field else ()
    cleared = [] in (one.before, one.after)
    stale = _is_stale(expected, found, one)
    return KeyDifference(key, name, one.change, text, fields, cleared, stale)


def _object(expected: State, found: State, one: Difference) -> str:
    if one.table == "partitions":
        return f"partition {one.key[1]} of topic {_topic(expected, found, one.key[0])}"
    if one.table == "topics":
        return f"topic {_topic(expected, found, one.key[0])}"
    if one.table == "configs":
        where = "topic" if one.key[0] == TOPIC_RESOURCE else f"resource type {one.key[0]}"
        return f"config {one.key[2]} of {where} {one.key[1]!r}"
    return f"{TABLE[one.table].noun[0]} {' '.join(_value(part) for part in one.key)}".rstrip()


def _topic(expected: State, found: State, topic_id: str) -> str:
    topic = expected.get("topics", (topic_id,)) or found.get("topics", (topic_id,))
    return f"{topic['name']} (id {topic_id})" if topic else f"(id {topic_id})"


def _shown(value: Any, table: str) -> str:
    return f" (value {_value(value['value'])})" if value and table == "configs" else ""


def _value(value: Any, limit: int = 80) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value(one, limit)}" for name, one in value.items())
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _is_stale(expected: State, found: State, one: Difference) -> bool:
    """A config of a topic that neither image has."""
    if one.table != "configs" or one.key[0] != TOPIC_RESOURCE:
        return False
    return not (expected.named("topics", one.key[1]) or found.named("topics", one.key[1]))
