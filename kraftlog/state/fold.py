"""The history of partitions, all at once: the same rows as one record after the other gives, by
compiled loops and array operations.

In: an outline, and decoded rows of some partitions (all rows of each). Out: rows of the history
table `partitions`, and faults. Each partition's events lie together in offset order; a value holds
until the next event that sets it (forward fill), a counter is its put's value and the number of
steps since. Partitions with anything abnormal are handed over to the definition, record by record.
Memory: the rows, and some 200 bytes for each; runs in tasks, one per part of the partitions' keys.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kraftlog.decode.tabular import timestamps
from kraftlog.message.catalogue import known_spec
from kraftlog.native.folding import FIELDS, LISTS, Lists, folded
from kraftlog.native.kernel import Places
from kraftlog.state.apply import apply
from kraftlog.state.arrow_events import data_of
from kraftlog.state.declare import Data, ReplayFault
from kraftlog.state.history import SHOWN, History, history_tables
from kraftlog.state.outline import Outline, TopicEvent
from kraftlog.state.partition_events import (
    CHANGE,
    CLEAR,
    PUT,
    TOPIC_CAME,
    TOPIC_WENT,
    TYPES,
    Events,
    Flags,
    Longs,
    NewVersions,
    Suspects,
    gather,
    working_type,
)
from kraftlog.state.replay import FaultyRecord, Origin, Visible
from kraftlog.state.shapes import MIGRATING
from kraftlog.state.state import Change, State

_ABSENT = {"leader": -2, "leader_epoch": 0, "partition_epoch": 0}
"""What stands for a field that a record does not have; −1 for all others."""
_ISR, _ELR = "isr", "eligible_leader_replicas"


@dataclass(frozen=True, slots=True)
class Folded:
    """Rows of the history table `partitions`, every record of a partition that a rule of the state
    may have something to say of, and who leads partitions at each offset that is asked for.

    Texts of the rows are codes of dictionaries (`working_type`): few values that are in many rows."""

    rows: pa.Table
    applied: list["Applied"]
    led: dict[int, list["Led"]]

    @property
    def faults(self) -> list[FaultyRecord]:
        """The partitions' records that have no effect."""
        return [one.fault for one in self.applied if one.fault is not None]


def fold_partitions(
    outline: Outline,
    base: pa.Table | None,
    puts: pa.Table,
    changes: pa.Table,
    watch: "Watch | None" = None,
) -> Folded:
    """Fold some partitions' records; the tables hold columns of `relations.records()`, each in
    offset order.

    `base`: the PARTITION_RECORDs of the span's base snapshot, in file order. With a `watch` every
    record comes back that a rule of the state may have something to say of.
    """
    events = gather(outline, base, puts, changes)
    if len(events) == 0:
        return Folded(_schema().empty_table(), [], {})
    fold = _Fold(outline, events, None if watch is None else watch.suspects)
    slow_rows, applied = fold.one_by_one()
    rows = pa.concat_tables([fold.rows(), slow_rows.cast(_schema())])
    if watch is None:
        return Folded(rows, applied, {})
    return Folded(rows, applied, {end: list(fold.led(end)) for end in watch.until})


@dataclass(frozen=True, slots=True)
class Watch:
    """Asks for every record of a partition of which a version is among the `suspects`, and for who
    has no leader at the offsets `until`.
    """

    until: tuple[int, ...]
    suspects: Suspects


class Led(NamedTuple):
    """What the records that count at an offset say of who leads a partition: since when it has no
    leader (offset and time; None where it has one again, or is gone) and who led it before; its
    newest unclean election (offset, time, leader), and how many there were.
    """

    topic_id: str
    partition_id: int
    lost: tuple[int, int] | None
    led_by: int
    unclean: tuple[int, int, int] | None
    times: int


class Applied(NamedTuple):
    """A partition's record of the log that was applied by the definition: what it changed, or why
    it could not. `topic_name`: how its topic was called then, where it was alive.
    """

    origin: Origin
    data: Data
    changes: tuple[Change, ...]
    fault: FaultyRecord | None
    topic_name: str | None


def fold_last(
    outline: Outline,
    base: pa.Table | None,
    puts: pa.Table,
    changes: pa.Table,
    suspects: Suspects | None,
) -> Folded:
    """Fold some partitions' records, all visible at once, to what holds at the end: the last versions,
    in rows without validity.

    Arguments as for `fold_partitions` and its `Watch`; an outline without hidden records."""
    events = gather(outline, base, puts, changes)
    if len(events) == 0:
        return Folded(no_versions(), [], {})
    fold = _Fold(outline, events, suspects)
    applied = [one for one in fold.applied() if one.origin.offset is not None]
    rows = pa.concat_tables([fold.last(), fold.last_one_by_one()])
    end = outline.end_offset
    return Folded(rows, applied, {end: list(fold.led(end))} if suspects is not None else {})


@cache
def _schema() -> pa.Schema:
    plain = history_tables()["partitions"].schema
    return pa.schema([field.with_type(working_type(field.type)) for field in plain])


@cache
def plain_schema() -> pa.Schema:
    """The columns of a version without its validity."""
    plain = history_tables()["partitions"].schema
    return pa.schema([plain.field(name) for _, name in SHOWN["partitions"].columns])


@cache
def value_schema() -> pa.Schema:
    """The same as they are worked on: texts are codes of dictionaries."""
    return pa.schema([field.with_type(working_type(field.type)) for field in plain_schema()])


@cache
def no_versions() -> pa.Table:
    """No version, in columns without validity."""
    return value_schema().empty_table()


class _Fold:
    """The arrays of one fold; every array has an entry per event.

    Every partition is slow that has a version among the `suspects`.
    """

    def __init__(self, outline: Outline, events: Events, suspects: Suspects | None) -> None:
        self.outline, self.events = outline, events
        self._came: dict[str, int] = {}
        self._names: dict[str, list[TopicEvent]] = defaultdict(list)
        for one in outline.topics:
            self._names[one.topic_id].append(one)
        self.state = State()
        keys = events.keys
        self.first = np.ones(len(events), np.bool_)
        self.first[1:] = keys[1:] != keys[:-1]
        self.sizes, sizes = self._sizes()
        fields = [self._field(name) for name in FIELDS]
        self.held = folded(keys, events.kinds, events.source, events.alive, fields, sizes)
        self.slow = self.held.bad
        if suspects is not None:
            self._suspect(suspects)
        key_index = np.cumsum(self.first) - 1
        slow_keys = np.zeros(key_index[-1] + 1, np.bool_)
        slow_keys[key_index[self.slow]] = True
        self.slow = slow_keys[key_index]
        self.faulty = np.zeros(len(events), np.bool_)

    def _sizes(self) -> tuple[list[int], Places]:
        """How long the lists of replicas are, in order, from 0 on; and for each length where it is
        among these.
        """
        is_size = np.bincount(self._field("replicas").clip(0), minlength=1) > 0
        is_size[0] = True
        return np.flatnonzero(is_size).tolist(), (np.cumsum(is_size) - 1).astype(np.int32)

    def _field(self, name: str) -> Places:
        """A field of the records, as the fold takes it."""
        column = self.events.payload[name]
        if name in LISTS:
            column = column.value_lengths()
        if column.null_count:
            column = column.fill_null(_ABSENT.get(name, -1))
        found: Places = column.to_numpy().astype(np.int32, copy=False)
        return found

    def _last(self, flags: Flags) -> Longs:
        """The last event, up to each, at which a flag is set."""
        return np.append(0, np.flatnonzero(flags)).take(np.cumsum(flags))

    def _before(self, values: Longs) -> Longs:
        """The values one event earlier."""
        return np.concatenate([values[:1], values[:-1]])

    def _of_records(self, name: str) -> Longs:
        """A numeric field of each event's record."""
        values = np.append(self._field(name), _ABSENT.get(name, -1))
        return values.take(self.events.source)

    def _suspect(self, suspects: Suspects) -> None:
        """Leave the partitions to the definition that have suspect versions in the log."""
        held = self.held
        at = np.flatnonzero(held.begins & (self.events.offsets >= 0))
        if not len(at):
            return
        json = {one.name: one.json for one in SHOWN["partitions"].fields}
        lists = {
            json[name]: Lists.of(self.events.payload[name]).held(held.lists[name].take(at))
            for name in LISTS
            if name != "directories"
        }
        numbers = {
            "leader": held.leader,
            "leaderRecoveryState": held.recovery,
            "leaderEpoch": held.leader_epoch,
            "partitionEpoch": held.partition_epoch,
            "partitionId": self.events.keys.astype(np.int32),
        }
        has_before = ~self.first.take(at) & held.live.take(at - 1)
        self.slow[at] |= suspects(NewVersions(at, has_before, lists, numbers))

    def last(self) -> pa.Table:
        """What holds at the end of each partition that is not left to the definition."""
        is_last = np.append(self.first[1:], True)
        chosen = np.flatnonzero(is_last & self.held.live & ~self.slow)
        return pa.Table.from_pydict(self._values(chosen), schema=value_schema())

    def last_one_by_one(self) -> pa.Table:
        """What holds at the end of the partitions that were left to the definition."""
        shown, held = SHOWN["partitions"], self.state.rows("partitions")
        if not held:
            return no_versions()
        rows = [
            {name: value[field.json] for field, name in shown.columns} for value in held.values()
        ]
        return pa.Table.from_pylist(rows, plain_schema()).cast(value_schema())

    def rows(self) -> pa.Table:
        """The rows of all partitions that are not left to the definition."""
        events = self.events
        begins = self.held.begins & ~self.slow
        ends = np.flatnonzero(begins | (events.kinds <= TOPIC_WENT))
        place = np.flatnonzero(begins.take(ends))
        chosen = ends.take(place)
        after = ends.take(np.minimum(place + 1, len(ends) - 1))
        is_open = (place + 1 == len(ends)) | (events.keys.take(after) != events.keys.take(chosen))
        seen = is_open | (events.since.take(after) > events.since.take(chosen))
        # What has ended first, what still holds last: so they can be parted without a copy.
        order = np.append(np.flatnonzero(seen & ~is_open), np.flatnonzero(seen & is_open))
        chosen, after, is_open = chosen.take(order), after.take(order), is_open.take(order)
        columns = self._envelope(chosen, after, is_open) | self._values(chosen)
        return pa.Table.from_pydict(columns, schema=_schema())

    def _envelope(self, chosen: Longs, after: Longs, is_open: Flags) -> dict[str, pa.Array]:
        events, outline = self.events, self.outline
        goes_on = outline.close_offset is None
        to_offset = np.where(is_open, outline.close_offset or 0, events.since.take(after))
        to_ms = np.where(is_open, outline.close_timestamp or 0, events.since_ms.take(after))
        still = is_open & goes_on
        names = pa.array(TYPES.values())  # a text that is there twice would not stay a dictionary
        of_base = events.offsets.take(chosen) < 0
        return {
            "valid_from_offset": pa.array(events.since.take(chosen)),
            "valid_to_offset": pa.array(to_offset, mask=still),
            "valid_from": timestamps(events.since_ms.take(chosen)),
            "valid_to": timestamps(to_ms, still),
            "record_offset": pa.array(events.offsets.take(chosen), mask=of_base),
            "record_type": pa.DictionaryArray.from_arrays(
                pa.array(events.kinds.take(chosen).astype(np.int32) - PUT), names
            ),
            "batch_leader_epoch": pa.array(events.epochs.take(chosen)),
        }

    def _values(self, chosen: Longs) -> dict[str, pa.Array]:
        events, shown = self.events, SHOWN["partitions"]
        keys = events.keys.take(chosen)
        columns = {
            "partition_id": pa.array(keys.astype(np.int32)),
            "topic_id": pa.DictionaryArray.from_arrays(
                pa.array(_code(keys).astype(np.int32)), events.topics
            ),
            "leader": pa.array(self.held.leader.take(chosen)),
            "leader_epoch": pa.array(self.held.leader_epoch.take(chosen)),
            "partition_epoch": pa.array(self.held.partition_epoch.take(chosen)),
            "leader_recovery_state": pa.array(self.held.recovery.take(chosen)),
        }
        columns |= {name: self._taken(name, chosen) for name in LISTS}
        return {shown.column_name(field): columns[field.name] for field in shown.fields}

    def _taken(self, name: str, chosen: Longs) -> pa.ListArray:
        lists = self.events.payload[name]
        if name == "directories":
            unknown = pa.array([[MIGRATING] * size for size in self.sizes], lists.type)
            lists = pa.concat_arrays([lists, unknown])
        if not len(chosen):
            return lists.slice(0, 0)
        ends, values = Lists.of(lists).held(self.held.lists[name].take(chosen)).taken()
        held = pa.array(values)
        if isinstance(lists.values, pa.DictionaryArray):
            held = pa.DictionaryArray.from_arrays(held, lists.values.dictionary)
        return pa.ListArray.from_arrays(pa.array(ends), held, type=lists.type)

    def led(self, end: int) -> Iterator[Led]:
        """What the records that count at an offset say of leaders, of the partitions that lose their
        leader or get one again, or had an unclean election. Faulty records say nothing; who was
        applied by the definition was so before.
        """
        events, leader = self.events, self._of_records("leader")
        shown = (events.since <= end) & ~self.faulty
        told = ((events.kinds == PUT) | (events.kinds == CHANGE)) & shown
        in_log = events.offsets >= 0
        unclean = self._unclean(told, told & in_log & (leader >= 0), leader)
        gives = told & (leader != -1) & (leader != -2)
        loses = told & (leader == -1)
        settled = gives | (shown & (events.kinds == TOPIC_WENT))
        before = self._before(self._last(self.first | loses | settled))
        was_lost = loses[before] & ~self.first
        begins, ends = loses & ~was_lost & in_log, settled & was_lost
        if not (begins | ends | unclean).any():
            return
        last = np.append(self.first[1:], True)
        turn = self._last(self.first | begins | ends)[last]
        newest = self._last(self.first | unclean)[last]
        total = np.cumsum(unclean)
        times = total[last] - (total - unclean)[self.first]
        was_led = gives[before] & ~self.first
        for key in np.flatnonzero((begins | ends)[turn] | unclean[newest]).tolist():
            at, election = int(turn[key]), int(newest[key])
            is_lost = bool(begins[at])
            yield Led(
                events.topics[int(_code(events.keys[at]))].as_py(),
                int(events.keys[at : at + 1].astype(np.int32)[0]),
                (int(events.offsets[at]), int(events.timestamps[at])) if is_lost else None,
                int(leader[before[at]]) if is_lost and was_led[at] else -1,
                (
                    int(events.offsets[election]),
                    int(events.timestamps[election]),
                    int(leader[election]),
                )
                if unclean[election]
                else None,
                int(times[key]),
            )

    def _unclean(self, told: Flags, elects: Flags, leader: Longs) -> Flags:
        """The unclean elections among the records that name a leader: those that mark the partition as
        recovering. An older mark is not set again: there it is one of whom neither the ISR nor the
        ELR had, but for a reassignment. Source: PartitionChangeBuilder.tryElection.
        """
        recovery = self._of_records("leader_recovery_state")
        is_marked = recovery[self._last(self.first | (told & (recovery != -1)))] == 1
        found: Flags = elects & (recovery == 1)
        again = elects & is_marked & ~found & (self._of_records("replicas") < 0)
        at = np.flatnonzero(again)
        if len(at):
            known = [self._named_before(at, name, told) for name in (_ISR, _ELR)]
            each = zip(leader[at].tolist(), *known, strict=True)
            found[at] = [one not in isr and one not in elr for one, isr, elr in each]
        return found

    def _named_before(self, at: Longs, name: str, told: Flags) -> list[frozenset[int]]:
        """What a list was before each of some events, by the records."""
        kinds, payload = self.events.kinds, self.events.payload[name]
        is_named = np.append(payload.is_valid().to_numpy(zero_copy_only=False), False)
        named = told & (is_named[self.events.source] | (kinds == PUT))
        empty = (kinds <= TOPIC_WENT) | ((kinds == CLEAR) & (name == _ELR))
        last = self._before(self._last(self.first | named | empty))[at]
        source = np.where(named[last] & ~self.first[at], self.events.source[last], -1)
        lists = {one: frozenset(payload[one].as_py() or ()) for one in {*source.tolist()} - {-1}}
        return [lists.get(one, frozenset()) for one in source.tolist()]

    def one_by_one(self) -> tuple[pa.Table, list[Applied]]:
        """The partitions left over, by the definition, and their records. Their transactions are
        resolved already.
        """
        history = History()
        applied: list[Applied] = []
        for at, one in self._applied():
            if self.events.kinds[at] >= PUT or one.fault is not None:
                applied.append(one)
            since, since_ms = int(self.events.since[at]), int(self.events.since_ms[at])
            history.take(
                Visible(change, one.origin, since, since_ms)
                for change in one.changes
                if change.table == "partitions"
            )
        history.close(self.outline.close_offset, self.outline.close_timestamp)
        rows = [history_tables()["partitions"].schema.empty_table()]
        rows += [part for name, part in history.rows() if name == "partitions"]
        return pa.concat_tables(rows), applied

    def applied(self) -> Iterator[Applied]:
        """The records of the partitions left over, as the definition applies them to `state`."""
        for at, one in self._applied():
            if self.events.kinds[at] >= PUT:
                yield one

    def _applied(self) -> Iterator[tuple[int, Applied]]:
        left = np.flatnonzero(self.slow)
        for code in np.unique(_code(self.events.keys[left])).tolist():
            if self.events.alive[code]:
                apply(self.state, *self._record(TOPIC_CAME, self.events.topics[code].as_py(), -1))
        for at in left[np.argsort(self.events.offsets[left], kind="stable")].tolist():
            found = self._apply(at)
            if found is not None:
                yield at, found

    def _apply(self, at: int) -> Applied | None:
        """One event, by the definition; what happens to a topic counts once, at its first
        partition.
        """
        events, state = self.events, self.state
        kind, topic_id = int(events.kinds[at]), events.topics[int(_code(events.keys[at]))].as_py()
        record_type, data = self._record(kind, topic_id, int(events.source[at]))
        is_known = state.get("topics", (topic_id,)) is not None
        if kind in (TOPIC_WENT, CLEAR) and not is_known:
            return None
        offset = int(events.offsets[at])
        if kind == TOPIC_CAME:
            if is_known and self._came.get(topic_id) == offset:
                return None
            self._came[topic_id] = offset
        origin = Origin(
            offset if offset >= 0 else None,
            int(events.timestamps[at]),
            int(events.epochs[at]),
            record_type,
        )
        changes: list[Change] = []
        fault = None
        try:
            changes = apply(state, record_type, data)
        except ReplayFault as found:
            fault = FaultyRecord(origin, found.kind, found.detail)
            self.faulty[at] = True
        name = self._name_at(topic_id, offset) if kind >= PUT else None
        return Applied(origin, data, tuple(changes), fault, name)

    def _name_at(self, topic_id: str, offset: int) -> str | None:
        """How a topic is called at an offset; None where it is not alive there."""
        found = self.outline.alive.get(topic_id)
        for one in self._names.get(topic_id, []):
            if one.offset < offset:
                found = one.name if one.is_alive else None
        return found

    def _record(self, kind: int, topic_id: str, source: int) -> tuple[str, dict[str, Any]]:
        """An event as a record; a topic's id stands for its name."""
        if kind == TOPIC_CAME:
            return "TOPIC_RECORD", {"topicId": topic_id, "name": topic_id}
        if kind == TOPIC_WENT:
            return "REMOVE_TOPIC_RECORD", {"topicId": topic_id}
        if kind == CLEAR:
            return TYPES[CLEAR], {"topicName": topic_id}
        payload = self.events.payload
        row = {name: payload[name][source].as_py() for name in payload} | {"topic_id": topic_id}
        data = data_of(known_spec(TYPES[kind]), int(self.events.versions[source]), row)
        assert data is not None
        return TYPES[kind], data


def _code(keys: Any) -> Any:
    """The topic's code in a partition's key."""
    return keys >> 32
