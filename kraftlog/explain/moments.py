"""The moments of a history: each record that changed something, with what it changed, in offset
order, from the files of a quorum.

In: a quorum, and what is asked for. Out: `Moment`s along `main`, the history that the replicas hold
together, then those of each replica that contradicts it, from where it departs. What is read comes
from `quorum.record_windows`, by columns: only record types that can touch the tables are decoded, and of
the partitions' records only those of the topic that is asked for become rows. What lies before a
range of offsets is folded by `state.known`. Memory is that of a window and of the state. Source:
KIP-630, KIP-868 (a transaction's records count from its End on).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.quorum.lineages import Lineage, lineages
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords, go_on, loaded
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.arrow_events import Event, in_offset_order
from kraftlog.state.known import Known
from kraftlog.state.outline import PARTITION_TYPES
from kraftlog.state.replay import Origin, Replay, Visible
from kraftlog.state.state import Change, State
from kraftlog.state.tables import OPERATIONS, TRANSACTION_TYPES
from kraftlog.state.window import RecordWindow

SNAPSHOT = "SNAPSHOT"
_NEEDS = {"partitions": ("topics",), "configs": ("topics",)}
"""Tables whose changes follow from another table's: by a cascade, or by its names."""
_EVERY = 1 << 62


@dataclass(frozen=True, slots=True)
class Moment:
    """One record that changed the state, or what a snapshot holds where the history begins.

    `offset` is the record's own, that of a snapshot the end offset; `seen_offset` the record that
    made it visible (the End of a transaction). `timestamp` is in ms. `record` is what the record
    said, for ranges of offsets also of those that changed nothing.
    """

    lineage: str
    offset: int
    timestamp: int
    batch_leader_epoch: int
    record_type: str
    changes: tuple[Change, ...]
    seen_offset: int
    record: dict[str, Any] | None = None
    replicas: tuple[str, ...] = ()


@dataclass(frozen=True)
class MomentSource:
    """Where moments come from, and how they are read. `offsets` are those whose every record is a
    moment, whether it changes anything or not; where they are given nothing else is told, but for
    the topics that are there before, for their names. `topic` is the name or id of the only topic
    whose partitions are asked for.
    """

    quorum: Quorum
    redactor: Redactor
    tables: frozenset[str]
    offsets: range = range(0)
    topic: str | None = None

    def moments(self) -> Iterator[Moment]:
        """All moments, lineage by lineage."""
        for one in lineages(self.quorum):
            yield from _Lineage(self, one).moments()

    @property
    def wanted(self) -> frozenset[str] | None:
        """The record types that can touch the tables; None: all."""
        if not self.tables:
            return None
        tables = self.tables | {need for one in self.tables for need in _NEEDS.get(one, ())}
        touching = {
            record
            for record, operations in OPERATIONS.items()
            if any(table.name in tables for table, _ in operations)
        }
        return TRANSACTION_TYPES | touching


def in_order(moments: Iterable[Moment]) -> list[Moment]:
    """Moments by where they are seen, then by their records."""
    return sorted(moments, key=lambda one: (one.seen_offset, one.offset))


_Begun = tuple[Replay, int, Moment | None]
"""A state, the offset where it stands, and what is to be told of it."""


@dataclass
class _Lineage:
    """One lineage, told from its fork on; below it is the shared one. Where the chain has a hole, or
    does not begin at 0, a snapshot is the base, and what lies between is not known.
    """

    source: MomentSource
    lineage: Lineage

    def __post_init__(self) -> None:
        source, limits = self.source, self.source.quorum.evidence.limits
        self.name, self.links = self.lineage.name, self.lineage.links
        self.told = FileRecords(source.redactor, limits, types=source.wanted)
        self.folded = FileRecords(source.redactor, limits)
        bases = (one for one in self.lineage.snapshots if one.end_offset > 0)
        self.bases = sorted(bases, key=lambda one: one.end_offset)
        self.ids: set[str] = set()

    def moments(self) -> Iterator[Moment]:
        first = max(self.lineage.fork_offset, self.source.offsets.start)
        for begin, after in self.links.unbroken():
            if int(self.links.end[after - 1]) > first:
                yield from self._stretch(begin, after, first)

    def _stretch(self, begin: int, after: int, first: int) -> Iterator[Moment]:
        """The moments from an offset on."""
        begun = self._before(begin, after, first)
        if begun is None:
            return
        replay, start, moment = begun
        if moment is not None:
            yield moment
        links = self.links
        stop = self.source.offsets.stop if self.source.offsets else _EVERY
        at = begin + int(np.searchsorted(links.end[begin:after], start, "right"))
        last = begin + int(np.searchsorted(links.base[begin:after], stop, "left"))
        yield from self._records(replay, start, range(at, last), after)

    # --- what lies before ------------------------------------------------------------------------

    def _before(self, begin: int, after: int, first: int) -> _Begun | None:
        """The state that the first record meets that is told; None where it is not known."""
        low, end = int(self.links.base[begin]), int(self.links.end[after - 1])
        if first <= 0 and low == 0:
            return Replay(), 0, None
        found = self._known_at(begin, after, first) if first > low else None
        if found is not None:
            return found
        held = [one for one in self.bases if max(low, first) <= one.end_offset <= end]
        return self._begin(held[0]) if held else None

    def _known_at(self, begin: int, after: int, offset: int) -> _Begun | None:
        """The state before an offset, or before the transaction that is open there, folded by
        columns; where it stands; and its topics, where they are not told otherwise.
        """
        links, low = self.links, int(self.links.base[begin])
        base = max(
            (one for one in self.bases if low <= one.end_offset <= offset),
            key=lambda one: one.end_offset,
            default=None,
        )
        if base is None and low > 0:
            return None
        known = Known() if base is None else self._loaded(base)
        begins = 0 if base is None else base.end_offset
        windows = self.folded.windows(links, *links.between(begins, offset))
        reached = go_on(known.advance, windows, begins, offset)
        if known.small.open_since is not None and begins < known.small.open_since:
            return self._known_at(begin, after, known.small.open_since)
        state = known.rows()
        topics = state.rows("topics").items()
        changes = tuple(Change("topics", key, None, value) for key, value in topics)
        moment = Moment(self.name, begins, 0, 0, SNAPSHOT, changes, reached - 1)
        return Replay(state), reached, moment if self.source.offsets else None

    def _loaded(self, view: SnapshotView) -> Known:
        known = loaded(self.folded, view)
        if known is None:
            raise InputError(f"{view.path}: cannot be read to its end; copy it again")
        return known

    def _begun_with(self, known: Known) -> State:
        """A state with its partitions as rows; with those of the topic alone that is asked for."""
        if self.source.topic is None:
            return known.rows()
        self._take_ids(known.small.state)
        return known.rows(np.sort(known.visible.of_topics(self.ids)))

    def _take_ids(self, state: State) -> None:
        topic = self.source.topic
        for key, value in state.rows("topics").items():
            if topic in (key[0], value["name"]):
                self.ids.add(key[0])

    def _begin(self, view: SnapshotView) -> _Begun:
        """A snapshot as the base, and what it holds."""
        state, tables = self._begun_with(self._loaded(view)), self.source.tables
        changes = tuple(
            Change(table, key, None, value)
            for table, key, value in state
            if not tables or table in tables
        )
        stamp, end = view.last_contained_timestamp or 0, view.end_offset
        replicas = (view.replica,)
        where = Moment(
            self.name, end, stamp, view.epoch, SNAPSHOT, changes, end - 1, None, replicas
        )
        return Replay(state), end, where

    # --- records ---------------------------------------------------------------------------------

    def _records(self, replay: Replay, start: int, at: range, after: int) -> Iterator[Moment]:
        """What the records of some links changed, from an offset on. Which record of a transaction
        changed nothing is known at its end.
        """
        if not at:
            return
        self._take_ids(replay.state)
        offsets, reached = self.source.offsets, int(self.links.base[at.start])
        idle: list[Moment] = []
        for window in self._windows(replay, at, after):
            reached = window.end_offset
            for event in self._events(window):
                offset = event.origin.offset or 0
                is_past = offsets and offset >= offsets.stop and replay.open_since is None
                if offset < start or is_past:
                    continue
                apply = replay.apply_control if event.is_control else replay.apply
                told = [*self._told(apply(event.origin, event.data), offset)]
                if offset in offsets:
                    idle.append(self._moment(event.origin, (), offset, event.data))
                if changing := {one.offset for one in told}:
                    idle = [one for one in idle if one.offset not in changing]
                if replay.open_since is None:
                    told, idle = in_order([*idle, *told]), []
                yield from told
        yield from idle
        if reached < int(self.links.end[at.stop - 1]):
            log = self.links.logs[int(self.links.log[at.start])]
            path = log.path(int(self.links.row[at.start]))
            raise InputError(f"{path}: offset {reached} cannot be read; copy it again")

    def _windows(self, replay: Replay, at: range, after: int) -> Iterator[RecordWindow]:
        """The records of some links; and of those behind them while a transaction is open."""
        yield from self.told.windows(self.links, at.start, at.stop)
        behind = self.told.windows(self.links, at.stop, after)
        while replay.open_since is not None and (window := next(behind, None)) is not None:
            yield window

    def _events(self, window: RecordWindow) -> Iterator[Event]:
        """The records of a window as events; of the partitions' those that are asked for."""
        if self.source.topic is not None:
            window = replace(window, records=self._of_topic(window))
        return in_offset_order(window.records.values(), window.control.values())

    def _of_topic(self, window: RecordWindow) -> dict[str, pa.Table]:
        named = zip(
            window.field("TOPIC_RECORD", "topic_id"),
            window.field("TOPIC_RECORD", "name"),
            strict=True,
        )
        self.ids.update(one for one, name in named if self.source.topic in (one, name))
        ids = pa.array(sorted(self.ids), pa.string())
        found = dict(window.records)
        for name in PARTITION_TYPES & set(found):
            rows = found[name]
            topics = pc.struct_field(rows.column(name.lower()), "topic_id").cast(pa.string())
            found[name] = rows.filter(pc.is_in(topics, value_set=ids))
        return found

    def _told(self, seen: list[Visible], shown: int) -> Iterator[Moment]:
        """What became visible, by the records that caused it."""
        tables = self.source.tables
        for origin, held in groupby(seen, key=lambda one: one.origin):
            changes = tuple(one.change for one in held if not tables or one.change.table in tables)
            if changes:
                yield self._moment(origin, changes, shown)

    def _moment(
        self,
        at: Origin,
        changes: tuple[Change, ...],
        shown: int,
        record: dict[str, Any] | None = None,
    ) -> Moment:
        """What the record at a place changed."""
        return Moment(
            self.name, at.offset or 0, at.timestamp, at.batch_leader_epoch, at.type,
            changes, shown, record,
        )  # fmt: skip
