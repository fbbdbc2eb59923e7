"""The history of partitions, all at once: the same rows as one record after the other gives, by
array operations.

In: an outline, and decoded rows of some partitions (all rows of each). Out: rows of the history
table `partitions`, and faults. Each partition's events lie together in offset order; a value holds
until the next event that sets it (forward fill), a counter is its put's value and the number of
steps since. Partitions with anything abnormal are handed over to the definition, record by record.
Memory: the rows, and some 200 bytes for each; runs in tasks, one per part of the partitions' keys.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kraftlog.message.catalogue import spec_of
from kraftlog.state.apply import apply
from kraftlog.state.arrow_events import data_of
from kraftlog.state.declare import ReplayFault
from kraftlog.state.history import LARGEST_MS, SHOWN, History, history_tables
from kraftlog.state.outline import Outline
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
    coded,
    gather,
)
from kraftlog.state.replay import FaultyRecord, Origin, Visible
from kraftlog.state.shapes import MIGRATING
from kraftlog.state.state import State

_ELR = ("eligible_leader_replicas", "last_known_elr")
_LISTS = ("replicas", "isr", "removing_replicas", "adding_replicas", "directories", *_ELR)
_LAST_INT = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Folded:
    """Rows of the history table `partitions`, and the partitions' records that have no effect.

    Texts of the rows are codes of dictionaries (`coded`): few values that are in many rows."""

    rows: pa.Table
    faults: list[FaultyRecord]


def fold_partitions(
    outline: Outline, base: pa.Table | None, puts: pa.Table, changes: pa.Table
) -> Folded:
    """Fold some partitions' records; the tables hold columns of `relations.records()`, each in
    offset order.

    `base`: the PARTITION_RECORDs of the span's base snapshot, in file order.
    """
    events = gather(outline, base, puts, changes)
    if len(events) == 0:
        return Folded(_schema().empty_table(), [])
    fold = _Fold(outline, events)
    slow_rows, faults = fold.one_by_one()
    return Folded(pa.concat_tables([fold.rows(), slow_rows.cast(_schema())]), faults)


def _schema() -> pa.Schema:
    plain = history_tables()["partitions"].schema
    return pa.schema([field.with_type(coded(field.type)) for field in plain])


class _Fold:
    """The arrays of one fold; every array has an entry per event."""

    def __init__(self, outline: Outline, events: Events) -> None:
        self.outline, self.events = outline, events
        self._came: dict[str, int] = {}
        self.at = np.arange(len(events))
        kinds, keys = events.kinds, events.keys
        self.first = np.ones(len(events), np.bool_)
        self.first[1:] = keys[1:] != keys[:-1]
        self.put, self.change, self.clear = kinds == PUT, kinds == CHANGE, kinds == CLEAR
        self.start = self._last(self.first | (kinds <= PUT))
        self.live = self.put[self.start]
        self.slow = self.put & (kinds[self._last(self.first | (kinds <= TOPIC_WENT))] != TOPIC_CAME)
        self.slow |= self.change & ~self.live
        self._lists()
        self._numbers()
        key_index = np.cumsum(self.first) - 1
        slow_keys = np.zeros(key_index[-1] + 1, np.bool_)
        slow_keys[key_index[self.slow]] = True
        self.slow = slow_keys[key_index]

    def _last(self, flags: Flags) -> Longs:
        """The last event, up to each, at which a flag is set."""
        return np.maximum.accumulate(np.where(flags, self.at, 0))

    def _before(self, values: Longs) -> Longs:
        """The values one event earlier."""
        return np.concatenate([values[:1], values[:-1]])

    def _of_rows(self, name: str, otherwise: int) -> Longs:
        """A numeric field of each event's record."""
        column = self.events.payload[name]
        return self._of_sources(column, otherwise)

    def _of_sources(self, column: pa.Array, otherwise: int) -> Longs:
        """A number of each event's record; of one without a record, whose source is −1, the one
        that stands at the end.
        """
        values = column.fill_null(otherwise).to_numpy(zero_copy_only=False)
        return np.append(values, otherwise).astype(np.int64)[self.events.source]

    def _lists(self) -> None:
        """Where each list's value stands, as an index into the lists with constants after them."""
        rows = len(self.events.payload["replicas"])
        self.value: dict[str, Longs] = {}
        lengths = {name: self._lengths(name) for name in _LISTS}
        count = lengths["replicas"][self._last(self.put | (lengths["replicas"] >= 0))]
        for name in _LISTS:
            length, index = lengths[name], self.events.source.copy()
            if name == "directories":
                migrating = (length == 0) | (self.put & (length < 0))
                self.sizes = np.unique(np.append(count[migrating], 0))
                index[migrating] = rows + np.searchsorted(self.sizes, count[migrating])
                self.slow |= (length > 0) & (length != count)
                resized = self.change & (lengths["replicas"] >= 0) & (length < 0)
                self.slow |= resized & (count != self._before(count))
            elif name in _ELR:
                empty = self.clear | (self.put & (length <= 0))
                index[empty], length = rows, np.where(empty, 0, length)
            set_by = self._last(self.put | (length >= 0))
            self.value[name] = index[set_by]
            lengths[name] = length[set_by]
        held = self._before(lengths[_ELR[0]]) + self._before(lengths[_ELR[1]])
        self.cleared = self.clear & self.live & (held > 0)

    def _lengths(self, name: str) -> Longs:
        return self._of_sources(self.events.payload[name].value_lengths(), -1)

    def _numbers(self) -> None:
        leader = self._of_rows("leader", -2)
        leads = self.change & (leader != -2)
        self.leader = leader[self._last(self.put | leads)]
        state = self._of_rows("leader_recovery_state", -1)
        self.slow |= (self.put & (state < 0)) | (state < -1) | (state > 1)
        self.recovery = state[self._last(self.put | (state >= 0))]
        self.leader_epoch = self._counted("leader_epoch", leads)
        self.partition_epoch = self._counted("partition_epoch", self.change | self.cleared)

    def _counted(self, name: str, steps: Flags) -> Longs:
        """A counter: its put's value and the steps since."""
        total = np.cumsum(steps)
        counter = self._of_rows(name, 0)[self.start] + total - total[self.start]
        self.slow |= self.live & (counter > _LAST_INT)
        return counter

    def rows(self) -> pa.Table:
        """The rows of all partitions that are not left to the definition."""
        events = self.events
        begins = (self.put | (self.change & self.live) | self.cleared) & ~self.slow
        ends = np.flatnonzero(begins | (events.kinds <= TOPIC_WENT))
        place = np.searchsorted(ends, np.flatnonzero(begins))
        chosen = ends[place]
        after = ends[np.minimum(place + 1, len(ends) - 1)]
        is_open = (place + 1 == len(ends)) | (events.keys[after] != events.keys[chosen])
        seen = is_open | (events.since[after] > events.since[chosen])
        # What has ended first, what still holds last: so they can be parted without a copy.
        order = np.flatnonzero(seen)[np.argsort(is_open[seen], kind="stable")]
        chosen, after, is_open = chosen[order], after[order], is_open[order]
        columns = self._envelope(chosen, after, is_open) | self._values(chosen)
        schema = _schema()
        arrays = [columns[name].cast(schema.field(name).type) for name in schema.names]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _envelope(self, chosen: Longs, after: Longs, is_open: Flags) -> dict[str, pa.Array]:
        events, outline = self.events, self.outline
        goes_on = outline.close_offset is None
        to_offset = np.where(is_open, outline.close_offset or 0, events.since[after])
        to_ms = np.where(is_open, outline.close_timestamp or 0, events.since_ms[after])
        still = is_open & goes_on
        names = pa.array([TYPES.get(kind, "") for kind in range(CLEAR + 1)])
        of_base = events.offsets[chosen] < 0
        return {
            "valid_from_offset": pa.array(events.since[chosen]),
            "valid_to_offset": pa.array(to_offset, mask=still),
            "valid_from": _times(events.since_ms[chosen], np.zeros(len(chosen), np.bool_)),
            "valid_to": _times(to_ms, still),
            "record_offset": pa.array(events.offsets[chosen], mask=of_base),
            "record_type": pa.DictionaryArray.from_arrays(
                pa.array(events.kinds[chosen].astype(np.int32)), names
            ),
            "batch_leader_epoch": pa.array(events.epochs[chosen]),
        }

    def _values(self, chosen: Longs) -> dict[str, pa.Array]:
        events, shown = self.events, SHOWN["partitions"]
        keys = events.keys[chosen]
        columns = {
            "partition_id": pa.array(keys.astype(np.int32)),
            "topic_id": pa.DictionaryArray.from_arrays(
                pa.array(_code(keys).astype(np.int32)), events.topics
            ),
            "leader": pa.array(self.leader[chosen]),
            "leader_epoch": pa.array(self.leader_epoch[chosen]),
            "partition_epoch": pa.array(self.partition_epoch[chosen]),
            "leader_recovery_state": pa.array(self.recovery[chosen]),
        }
        for name in _LISTS:
            lists = events.payload[name]
            constants = [[MIGRATING] * size if name == "directories" else [] for size in self.sizes]
            lists = pa.concat_arrays([lists, pa.array(constants, lists.type)])
            columns[name] = lists.take(pa.array(self.value[name][chosen]))
        return {shown.column_name(field): columns[field.name] for field in shown.fields}

    def one_by_one(self) -> tuple[pa.Table, list[FaultyRecord]]:
        """The partitions left over, by the definition. Their transactions are resolved already."""
        state, history = State(), History()
        faults: list[FaultyRecord] = []
        left = np.flatnonzero(self.slow)
        for at in left[np.argsort(self.events.offsets[left], kind="stable")].tolist():
            self._apply(at, state, history, faults)
        history.close(self.outline.close_offset, self.outline.close_timestamp)
        rows = [part for name, part in history.rows() if name == "partitions"]
        return pa.Table.from_batches(rows, history_tables()["partitions"].schema), faults

    def _apply(self, at: int, state: State, history: History, faults: list[FaultyRecord]) -> None:
        """One event, by the definition; what happens to a topic counts once, at its first
        partition.
        """
        events = self.events
        kind, topic_id = int(events.kinds[at]), events.topics[int(_code(events.keys[at]))].as_py()
        record_type, data = self._record(kind, topic_id, int(events.source[at]))
        is_known = state.get("topics", (topic_id,)) is not None
        if kind in (TOPIC_WENT, CLEAR) and not is_known:
            return
        offset = int(events.offsets[at])
        if kind == TOPIC_CAME and is_known and self._came.get(topic_id) == offset:
            return
        self._came[topic_id] = offset if kind == TOPIC_CAME else self._came.get(topic_id, offset)
        origin = Origin(
            offset if offset >= 0 else None,
            int(events.timestamps[at]),
            int(events.epochs[at]),
            record_type,
        )
        try:
            changes = apply(state, record_type, data)
        except ReplayFault as fault:
            faults.append(FaultyRecord(origin, fault.kind, fault.detail))
            return
        since, since_ms = int(events.since[at]), int(events.since_ms[at])
        history.take(
            Visible(one, origin, since, since_ms) for one in changes if one.table == "partitions"
        )

    def _record(self, kind: int, topic_id: str, source: int) -> tuple[str, dict[str, Any]]:
        """An event as a record; a topic's id stands for its name."""
        if kind == TOPIC_CAME:
            return "TOPIC_RECORD", {"topicId": topic_id, "name": topic_id}
        if kind == TOPIC_WENT:
            return "REMOVE_TOPIC_RECORD", {"topicId": topic_id}
        if kind == CLEAR:
            return TYPES[CLEAR], {"topicName": topic_id}
        spec = spec_of(TYPES[kind])
        assert spec is not None
        payload = self.events.payload
        row = {name: payload[name][source].as_py() for name in payload} | {"topic_id": topic_id}
        data = data_of(spec, int(self.events.versions[source]), row)
        assert data is not None
        return TYPES[kind], data


def _code(keys: Any) -> Any:
    """The topic's code in a partition's key."""
    return keys >> 32


def _times(milliseconds: Longs, is_null: Flags) -> pa.Array:
    """Kafka's times as Arrow holds them; null where they do not fit."""
    wild = is_null | (milliseconds > LARGEST_MS) | (milliseconds < -LARGEST_MS)
    return pa.array(np.where(wild, 0, milliseconds) * 1000, mask=wild)
