"""A state that goes on: from empty, or from any state that is known, through windows of records.

In: `RecordWindow`s in offset order. Out: the state behind each. The small tables are replayed
record by record, by the definition; the partitions, which are nearly all records, by columns, and
only those that a window touches. What a transaction hides is kept aside until it ends: a state is
never copied. Cut anywhere, the state behind is that of the whole. Memory: one window, the small
tables, and `Standing`.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.state.fold import Applied, Led, fold_last
from kraftlog.state.outline import Outline, SmallWatcher, taken_in
from kraftlog.state.partition_events import Flags, Longs, NewVersions, distinct, working_type
from kraftlog.state.replay import Replay
from kraftlog.state.standing import Standing, Topics, by_key
from kraftlog.state.state import State
from kraftlog.state.tables import ABORT, BEGIN, END
from kraftlog.state.versions import CHANGE, PUT, as_base, no_rows
from kraftlog.state.window import RecordWindow


class Watcher(SmallWatcher):
    """Who looks on while records are applied; overrides what it looks at."""

    __slots__ = ()

    def part(self, window: RecordWindow, *, is_hidden: bool, is_shown: bool) -> None:
        """The next records before they are applied. A transaction that is open at their end hides
        them, or one ends here that has hidden others up to here.
        """

    def suspects(self, versions: NewVersions) -> Flags:
        """Which of the versions that partitions' records begin are to be looked at, besides those
        of records that can have no effect: the fold itself looks at these.
        """
        return np.zeros(len(versions.at), np.bool_)

    def led(self, found: Iterable[Led]) -> None:
        """What the records of partitions say of leaders."""

    def applied(self, one: Applied) -> None:
        """A record of a partition with such a version."""


class Known:
    """The state at one offset, which goes on with `advance`.

    `small` holds all tables but the partitions; `partitions` are those that the next record meets,
    `visible` those that everyone may see."""

    def __init__(self, topics: Topics | None = None) -> None:
        self.small = Replay()
        self.partitions = Standing.empty(topics or Topics())
        self._before: Standing | None = None

    @property
    def visible(self) -> Standing:
        """The partitions as everyone may see them: without those of an open transaction."""
        return self.partitions if self._before is None else self._before

    def fork(self) -> "Known":
        """A state of its own that goes on from here."""
        twin = Known(self.partitions.topics)
        twin.small = self.small.goes_on()
        twin.partitions, twin._before = self.partitions, self._before
        return twin

    def rows(self, keys: Longs | None = None) -> State:
        """What everyone may see, as a state in rows; of the partitions those of some keys, in order
        (None: all).
        """
        state, standing = self.small.state.fork(), self.visible
        versions = standing.versions(standing.keys if keys is None else keys)
        for key, value in by_key(versions).items():
            state.set("partitions", key, value)
        return state

    def advance(self, window: RecordWindow, watcher: Watcher | None = None) -> None:
        """Take in the records of a window that begins where the last one ended."""
        for piece, kind in self._pieces(window):
            if kind == BEGIN:
                self._before = self.partitions
            elif kind == ABORT and self._before is not None:
                self.partitions, self._before = self._before, None
            elif kind == END:
                self._before = None
            if watcher is not None:
                is_hidden = self._before is not None
                watcher.part(piece, is_hidden=is_hidden, is_shown=kind == END)
            self._piece(piece, watcher)

    def _pieces(self, window: RecordWindow) -> Iterator[tuple[RecordWindow, str]]:
        """The window, cut where a transaction begins or ends whose records are not visible at the
        end of the window, or were not at its beginning; each part with the type that it begins
        with.
        """
        at, kind = window.start_offset, ""
        is_open = self.small.current is not self.small.state
        for cut, next_kind in _cuts(window.transaction_marks(), is_open):
            if cut > at:
                yield window.between(at, cut), kind
            at, kind = cut, next_kind
        if at < window.end_offset:
            yield window.between(at, window.end_offset), kind

    def _piece(self, window: RecordWindow, watcher: Watcher | None) -> None:
        rows = {name: _decoded(window, name) for name in (PUT, CHANGE) if window.has(name)}
        topics = {name: _topics(one, name) for name, one in rows.items()}
        alive = self._alive(window, topics.values())
        outline = Outline(window.start_offset, 0, window.end_offset, alive=alive)
        self._small_tables(window, outline, watcher)
        keys = self._touched(rows, topics, outline)
        if not len(keys):
            return
        base = self.partitions.versions(keys)
        suspects = None if watcher is None else watcher.suspects
        puts, changes = (rows.get(name, no_rows(name)) for name in (PUT, CHANGE))
        last = fold_last(outline, as_base(base), puts, changes, suspects)
        self.partitions = self.partitions.replaced(keys, last.rows)
        if watcher is not None:
            watcher.led(last.led.get(window.end_offset, ()))
            for one in last.applied:
                watcher.applied(one)

    def _alive(self, window: RecordWindow, topics: Iterable[pa.DictionaryArray]) -> dict[str, str]:
        """The topics that the fold of a window has to know, by id: those that live before it."""
        known = self.small.current.rows("topics")
        if window.has("CLEAR_ELR_RECORD"):
            return {key[0]: value["name"] for key, value in known.items()}
        asked = {one for found in topics for one in found.dictionary.to_pylist()}
        for name in ("TOPIC_RECORD", "REMOVE_TOPIC_RECORD"):
            asked.update(window.field(name, "topic_id"))
        found = ((one, known.get((one,))) for one in asked)
        return {one: value["name"] for one, value in found if value is not None}

    def _small_tables(
        self, window: RecordWindow, outline: Outline, watcher: Watcher | None
    ) -> None:
        for event in window.small_events():
            changes = taken_in(self.small, event, outline, watcher).changes
            for one in changes:
                outline.take(one, event.origin)
            del self.small.faults[:]

    def _touched(
        self,
        rows: Mapping[str, pa.Table],
        topics: Mapping[str, pa.DictionaryArray],
        outline: Outline,
    ) -> Longs:
        """The partitions that a window changes, or can."""
        known = self.partitions
        ids = {name: _field(one, name, "partition_id") for name, one in rows.items()}
        found = [known.topics.keys(topics[name], ids[name]) for name in rows]
        changed = {one.topic_id for one in outline.topics}
        for clear in outline.clears:
            changed |= set(outline.alive) if clear.topic_id is None else {clear.topic_id}
        found.append(known.of_topics(changed))
        return distinct(np.concatenate(found))


def _cuts(marks: list[tuple[int, str]], is_open: bool) -> Iterator[tuple[int, str]]:
    """Where a window is cut, given whether a transaction is open at its beginning. One that begins
    and ends well inside it needs no cut: at its end nobody can tell.
    """
    begun: int | None = None
    for offset, kind in marks:
        if kind == BEGIN and not is_open:
            begun, is_open = offset, True
        elif kind != BEGIN and is_open:
            if begun is not None and kind == ABORT:
                yield begun, BEGIN
            if begun is None or kind == ABORT:
                yield offset, kind
                yield offset + 1, ""  # what follows meets the state that the end has left
            begun, is_open = None, False
    if begun is not None:
        yield begun, BEGIN


def _decoded(window: RecordWindow, name: str) -> pa.Table:
    """A window's records of partitions, of the versions that are known."""
    rows = window.records[name]
    payload = rows.column(name.lower())
    return rows.filter(payload.is_valid()) if payload.null_count else rows


def _topics(rows: pa.Table, name: str) -> pa.DictionaryArray:
    return _field(rows, name, "topic_id").cast(working_type(pa.string()))


def _field(rows: pa.Table, name: str, field: str) -> pa.Array:
    return pc.struct_field(pa.chunked_array(rows.column(name.lower())), field).combine_chunks()
