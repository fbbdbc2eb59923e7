"""The outline of a log: what the fold of its partitions must know of all other records.

In: every record but those of partitions, in offset order. Out: the history of the small tables, and
an `Outline`: which topics lived when, which transactions hide what until when, and where ELRs were
cleared. An outline is small and pickles: it goes to every task.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kraftlog.state.arrow_events import Event
from kraftlog.state.history import HeldVersions, History
from kraftlog.state.replay import FaultyRecord, Origin, Replay, Visible
from kraftlog.state.state import Change, State
from kraftlog.state.tables import END, TRANSACTION_TYPES

PARTITION_TYPES = frozenset({"PARTITION_RECORD", "PARTITION_CHANGE_RECORD"})
"""What is left to `fold`; everything else goes into the outline."""

OUTLINE_TYPES = TRANSACTION_TYPES | {"TOPIC_RECORD", "REMOVE_TOPIC_RECORD", "CLEAR_ELR_RECORD"}
"""What an outline alone is made of: fed with only these, an `Outliner` finds the same one."""

BASE_PARTITION = -1
"""Stands for the offset of a base snapshot's records: before every record of the log."""


class TopicEvent(NamedTuple):
    """A topic came (again), or went; `offset` is its record's."""

    offset: int
    timestamp: int
    topic_id: str
    is_alive: bool
    name: str


class ClearedElr(NamedTuple):
    """A ClearElrRecord; `topic_id` None: of all topics."""

    offset: int
    timestamp: int
    batch_leader_epoch: int
    topic_id: str | None


class Hidden(NamedTuple):
    """Records with offsets in [begin, end) belong to a transaction; they count from `shown_offset`
    on (None: never).
    """

    begin_offset: int
    end_offset: int
    shown_offset: int | None
    shown_timestamp: int


@dataclass(slots=True)
class Outline:
    """One span: offsets [start, end) after a base at `start_offset`.

    `alive`: the names, by id, of topics that the base holds. `close_offset` ends what still holds
    at the span's end, where the log breaks off; None: it holds until now.
    """

    start_offset: int
    start_timestamp: int
    end_offset: int
    close_offset: int | None = None
    close_timestamp: int | None = None
    alive: dict[str, str] = field(default_factory=dict)
    topics: list[TopicEvent] = field(default_factory=list)
    clears: list[ClearedElr] = field(default_factory=list)
    hidden: list[Hidden] = field(default_factory=list)

    def take(self, change: Change, origin: Origin) -> None:
        """Take in a change by a record of the log: of a topic that it came, or went."""
        value = change.after or change.before
        if change.table == "topics" and value is not None and origin.offset is not None:
            topic_id, is_alive = change.key[0], change.after is not None
            came = TopicEvent(origin.offset, origin.timestamp, topic_id, is_alive, value["name"])
            self.topics.append(came)


def outline_from(outline: Outline, offset: int) -> Outline | None:
    """The outline of what follows an offset, with the topics that lived there as its base; None
    where a transaction lies across the offset, whose records show only later.
    """
    if any(one.begin_offset < offset <= one.end_offset for one in outline.hidden):
        return None
    alive = outline.alive.copy()
    for one in outline.topics:
        if one.offset < offset:
            _take(alive, one.topic_id, one.name if one.is_alive else None)
    return replace(
        outline,
        start_offset=offset,
        alive=alive,
        topics=[one for one in outline.topics if one.offset >= offset],
        clears=[one for one in outline.clears if one.offset >= offset],
        hidden=[one for one in outline.hidden if one.begin_offset >= offset],
    )


def _take(alive: dict[str, str], topic_id: str, name: str | None) -> None:
    """A topic that lives under a name, or (None) does not live."""
    if name is None:
        alive.pop(topic_id, None)
    else:
        alive[topic_id] = name


class Effect(NamedTuple):
    """What a record of a small table did: what it changed, visible or not; what became visible by
    it; what is wrong with it.
    """

    changes: tuple[Change, ...]
    seen: list[Visible]
    faults: list[FaultyRecord]


class SmallWatcher:
    """Who looks on while records of small tables are applied; overrides what it looks at."""

    __slots__ = ()

    def meets(self, event: Event, state: State) -> None:
        """A record of a small table, and the state that it meets."""

    def changed(self, event: Event, state: State, effect: Effect) -> None:
        """The same record, the state behind it, and what it did."""


def taken_in(
    replay: Replay, event: Event, outline: Outline, watcher: SmallWatcher | None
) -> Effect:
    """Take in a record of a small table, and what ELRs it clears."""
    origin, data = event.origin, event.data
    if origin.type == "CLEAR_ELR_RECORD" and data is not None and origin.offset is not None:
        outline.clears += cleared(replay.current, origin, origin.offset, data["topicName"])
    if watcher is not None:
        watcher.meets(event, replay.current)
    before = len(replay.faults)
    changes, seen = replay.take(origin, data, event.is_control)
    effect = Effect(changes, seen, replay.faults[before:])
    if watcher is not None:
        watcher.changed(event, replay.current, effect)
    return effect


class Outliner:
    """Replays a span's small tables: feed it the base snapshot's records, or what held at its start,
    then the log's, and `finish`. A watcher looks on at those of the log. With `is_outline` nothing
    is found but the outline: there is no history.
    """

    def __init__(
        self,
        start_offset: int,
        start_timestamp: int,
        end_offset: int,
        watcher: SmallWatcher | None = None,
        *,
        is_outline: bool = False,
    ) -> None:
        self.outline = Outline(start_offset, start_timestamp, end_offset)
        self.history = History()
        self.is_outline = is_outline
        self.replay = Replay()
        self.watcher = watcher

    def base(self, event: Event) -> None:
        """Take in one record of the base snapshot."""
        origin = event.origin._replace(offset=None)
        seen = taken_in(self.replay, event._replace(origin=origin), self.outline, None).seen
        since, at_ms = self.outline.start_offset, self.outline.start_timestamp
        self._shows([one._replace(since_offset=since, since_timestamp=at_ms) for one in seen])
        for one in seen:
            self._lives(one.change)

    def goes_on(self, held: Mapping[str, HeldVersions]) -> None:
        """Take in what some tables held at the start."""
        for one in (one for versions in held.values() for one in versions.objects):
            change = self.replay.state.set(one.table, one.key, one.value)
            if change is not None:
                self._lives(change)
        if not self.is_outline:
            self.history.goes_on(held)

    def _shows(self, seen: Sequence[Visible]) -> None:
        if not self.is_outline:
            self.history.take(seen)

    def _lives(self, change: Change) -> None:
        if change.table == "topics":
            name = change.after["name"] if change.after is not None else None
            _take(self.outline.alive, change.key[0], name)

    def feed(self, event: Event) -> None:
        """Take in one record of the log."""
        origin, offset = event.origin, event.origin.offset
        if offset is None or not self.outline.start_offset <= offset < self.outline.end_offset:
            return
        begun = self.replay.open_since
        seen = taken_in(self.replay, event, self.outline, self.watcher).seen
        self._shows(seen)
        for one in seen:
            self.outline.take(one.change, one.origin)
        if begun is not None and self.replay.open_since is None:
            shown = offset + 1 if origin.type == END else None
            self.outline.hidden.append(Hidden(begun, offset, shown, origin.timestamp))

    def fork(self) -> "Outliner | None":
        """An outliner of its own that goes on from here, without the history up to here; None
        inside a transaction.
        """
        if self.replay.open_since is not None:
            return None
        outline = self.outline
        twin = Outliner(outline.start_offset, outline.start_timestamp, outline.end_offset)
        twin.outline.alive = outline.alive.copy()
        twin.outline.topics = outline.topics.copy()
        twin.outline.clears = outline.clears.copy()
        twin.outline.hidden = outline.hidden.copy()
        twin.history = self.history.fork()
        twin.replay = Replay(self.replay.state.fork())
        return twin

    def finish(
        self, close_offset: int | None = None, close_timestamp: int | None = None
    ) -> Outline:
        """The outline; what holds at the end is closed at an offset where the log breaks
        off there.
        """
        begun = self.replay.open_since
        if begun is not None:
            self.outline.hidden.append(Hidden(begun, self.outline.end_offset, None, -1))
        self.outline.topics.sort(key=lambda one: one.offset)
        self.outline.close_offset = close_offset
        self.outline.close_timestamp = close_timestamp
        self.history.close(close_offset, close_timestamp)
        return self.outline


def cleared(state: State, origin: Origin, offset: int, topic_name: str) -> Iterator[ClearedElr]:
    """What a ClearElrRecord clears; nothing where its topic does not exist, which is the replay's
    fault to note.
    """
    key = state.named("topics", topic_name) if topic_name else None
    if key is not None or not topic_name:
        topic_id = key[0] if key else None
        yield ClearedElr(offset, origin.timestamp, origin.batch_leader_epoch, topic_id)
