"""History: one row per version of an object, from when to when the state held it, and which record
began it.

In: what a replay made visible, in order. Out: Arrow rows per history table. The state at offset N
is a filter: `valid_from_offset <= N and (valid_to_offset is null or N < valid_to_offset)`; a record
at offset o counts from o + 1 on, one of a transaction from the end of its End record on. Every
record that touches an object begins a new version. Rows from a base snapshot have no record offset.

The state at a time is the same filter over `valid_from` and `valid_to`, as long as the batches'
times never go back. Where a new leader's clock was behind they do, and then the offset decides: the
state at a time is that before the first batch which is later (`image.offset_at_time`). So N is
`min(base_offset) where base_timestamp > t` of the replica's batches, and the filter the one above.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.decode.rows import cell
from kraftlog.decode.tabular import LARGEST_MS, LEAST_MS
from kraftlog.message.catalogue import known_spec
from kraftlog.message.message_spec import FieldSpec
from kraftlog.relations import EPOCH, LONG, TEXT, TIMESTAMP, Relation, arrow_type, column
from kraftlog.state.codes import VALUES
from kraftlog.state.declare import Data, Key, Replace, StateTable
from kraftlog.state.replay import Visible
from kraftlog.state.shapes import KRAFT_VERSION, same_number
from kraftlog.state.state import State
from kraftlog.state.tables import TABLE, TABLES

VALIDITY = [
    column("valid_from_offset", LONG, "first offset at which the state holds this version"),
    column("valid_to_offset", LONG, "first offset at which it no longer does; null: it still does"),
    column(
        "valid_from",
        TIMESTAMP,
        "time of the record that made it visible, or of the base snapshot's last one",
    ),
    column("valid_to", TIMESTAMP, "time of the record that ended it; null: it still holds"),
    column(
        "record_offset",
        LONG,
        "the record that began it; null: it stands in the base snapshot, and began earlier",
    ),
    column(
        "record_type", TEXT, "type of the record that began it, or that it is in the base snapshot"
    ),
    EPOCH,
]
"""The columns that every history table begins with."""


@dataclass(frozen=True)
class Shown:
    """How a state table is shown: the fields that are the columns of its history."""

    table: StateTable

    @cached_property
    def _all_fields(self) -> tuple[FieldSpec, ...]:
        whole = self.table.operations[0]
        fields = known_spec(whole.record).fields
        if isinstance(whole, Replace):
            (fields,) = (one.fields for one in fields if one.json == whole.field)
        return fields

    @cached_property
    def fields(self) -> tuple[FieldSpec, ...]:
        """The fields that become columns."""
        return tuple(one for one in self._all_fields if one.json not in self.table.hides)

    def column_name(self, field: FieldSpec) -> str:
        return self.table.renames.get(field.json, field.name)

    @cached_property
    def columns(self) -> tuple[tuple[FieldSpec, str], ...]:
        return tuple((one, self.column_name(one)) for one in self.fields)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns that tell objects apart."""
        names = {one.json: name for one, name in self.columns}
        return tuple(names[field] for field in self.table.key)

    def values(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Rows of the history as the state holds them, under Kafka's own field names and in Kafka's
        own order.
        """
        names = [one.json for one, _ in self.columns]
        columns = [_values(one, rows.column(name)) for one, name in self.columns]
        every = {one.json: self.table.hides.get(one.json) for one in self._all_fields}
        found = [
            {**every, **dict(zip(names, row, strict=True))} for row in zip(*columns, strict=True)
        ]
        for one in self._nested:
            for value in found:
                value[one.json] = _held(one, value[one.json])
        return found

    @cached_property
    def _nested(self) -> tuple[FieldSpec, ...]:
        """The fields with fields of their own."""
        return tuple(one for one in self.fields if one.fields)


_AS_FEATURE: dict[str, Callable[[Data], Data]] = {
    "kraft_version": lambda value: {"name": KRAFT_VERSION, "featureLevel": value["kRaftVersion"]}
}
"""kraft.version comes from control records and is shown among the features."""

_FROM_FEATURE: dict[str, tuple[str, Callable[[Data], Data]]] = {
    KRAFT_VERSION: (
        "kraft_version",
        lambda value: {"version": 0, "kRaftVersion": value["featureLevel"]},
    )
}

SHOWN = {table.name: Shown(table) for table in TABLES if table.name not in _AS_FEATURE}
"""State tables by name, which is that of the history table too."""


@cache
def history_tables() -> dict[str, Relation]:
    return {name: _relation(name, shown) for name, shown in SHOWN.items()}


def _relation(name: str, shown: Shown) -> Relation:
    whole = known_spec(shown.table.record).name
    fields = [column(held, arrow_type(one), _told(name, one, whole)) for one, held in shown.columns]
    grain = f"one row per version of {name.replace('_', ' ')}, by the records that made it"
    return Relation(name, grain, pa.schema([*VALIDITY, *fields]))


def _told(table: str, field: FieldSpec, record: str) -> str:
    """A column's comment."""
    values = VALUES.get((table, field.json))
    return f"{field.json} of {record}" + (f" ({values})" if values else "")


class _Open(NamedTuple):
    since_offset: int
    since_timestamp: int
    record_offset: int | None
    record_type: str
    batch_leader_epoch: int
    value: Data


class _Ended(NamedTuple):
    version: _Open
    offset: int | None
    timestamp: int | None


class HeldObject(NamedTuple):
    """An object that holds at an offset, as the state has it."""

    table: str
    key: Key
    value: Data


class HeldVersions:
    """The versions of one history table that hold at an offset: its rows, and what a replay and a
    `History` go on from, made when it is asked for: a fold of partitions waits for the topics alone.
    """

    def __init__(self, name: str, rows: pa.Table) -> None:
        self.name, self.rows = name, rows

    @cached_property
    def objects(self) -> list[HeldObject]:
        return [self._object(value) for value in self._values]

    def version(self, place: int) -> _Open:
        """A row as what has not ended yet."""
        return _Open(*self._begins[place], self._values[place])

    @cached_property
    def _values(self) -> Sequence[Data]:
        return SHOWN[self.name].values(self.rows)

    @cached_property
    def _begins(self) -> list[tuple[int, int, int | None, str, int]]:
        """How versions began, as in `_Open`."""
        rows = self.rows
        return list(
            zip(
                rows.column("valid_from_offset").to_pylist(),
                milliseconds(rows.column("valid_from")).to_pylist(),
                rows.column("record_offset").to_pylist(),
                rows.column("record_type").to_pylist(),
                rows.column("batch_leader_epoch").to_pylist(),
                strict=True,
            )
        )

    def _object(self, value: Data) -> HeldObject:
        table = self.name
        if table == "features" and value["name"] in _FROM_FEATURE:
            table, as_held = _FROM_FEATURE[value["name"]]
            value = as_held(value)
        return HeldObject(table, TABLE[table].key_of(value), value)


class History:
    """Gathers the versions of every object; finished rows are handed out as they come, open ones at
    the end. Of those that were held when it began, and that nothing has changed, it knows the places
    of their rows alone.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, Key], _Open] = {}
        self._ended: dict[str, list[_Ended]] = {name: [] for name in history_tables()}
        self._held: dict[str, HeldVersions] = {}
        self._places: dict[tuple[str, Key], int] = {}
        self._still: dict[str, list[int]] = defaultdict(list)

    def take(self, seen: Iterable[Visible]) -> None:
        """Take in changes in the order in which they became visible."""
        for one in seen:
            table, key = one.change.table, one.change.key
            ended, place = self._open.pop((table, key), None), self._places.pop((table, key), None)
            if place is not None:
                ended = self._held[_shown(table)].version(place)
            if ended is not None:
                self._finish(table, ended, one.since_offset, one.since_timestamp)
            self._begin(one)

    def goes_on(self, held: Mapping[str, HeldVersions]) -> None:
        """Begin with what some tables hold; the rows of what nothing changes are handed out as they
        are.
        """
        for name, versions in held.items():
            self._held[name] = versions
            for place, one in enumerate(versions.objects):
                self._places[one.table, one.key] = place

    def _begin(self, seen: Visible) -> None:
        change, origin, since_offset, since_timestamp = seen
        if change.after is not None:
            shown = _AS_FEATURE.get(change.table)
            self._open[change.table, change.key] = _Open(
                since_offset,
                since_timestamp,
                origin.offset,
                origin.type,
                origin.batch_leader_epoch,
                change.after if shown is None else shown(change.after),
            )

    def fork(self) -> "History":
        """A history of its own that goes on from the versions that are open."""
        twin = History()
        twin._open, twin._places = self._open.copy(), self._places.copy()
        twin._held = self._held
        return twin

    def close(self, offset: int | None = None, timestamp: int | None = None) -> None:
        """End every open version at an offset, where the log breaks off; None: they hold
        until now.
        """
        for (table, _), place in self._places.items():
            name = _shown(table)
            if offset is None:
                self._still[name].append(place)
            else:
                self._finish(table, self._held[name].version(place), offset, timestamp)
        for (table, _), version in self._open.items():
            self._finish(table, version, offset, timestamp)
        self._open, self._places = {}, {}

    def rows(self, least: int = 0) -> Iterator[tuple[str, pa.Table]]:
        """Hand out the finished rows of every table that has at least so many; each row once."""
        for name in history_tables():
            ended, still = self._ended[name], self._still[name]
            if (ended or still) and len(ended) + len(still) >= least:
                self._ended[name], self._still[name] = [], []
                parts = [_as_rows(name, ended)]
                parts += [self._still_held(name, still)] if still else []
                yield name, pa.concat_tables(parts)

    def _still_held(self, name: str, places: list[int]) -> pa.Table:
        """Rows of those that were held, which go on."""
        schema = history_tables()[name].schema
        held = self._held[name].rows
        is_chosen = np.zeros(held.num_rows, np.bool_)
        is_chosen[places] = True
        rows = held.filter(pa.array(is_chosen)).select(schema.names).cast(schema)
        for one in map(schema.field, ("valid_to_offset", "valid_to")):
            at = schema.get_field_index(one.name)
            rows = rows.set_column(at, one, pa.nulls(rows.num_rows, one.type))
        return rows

    def _finish(self, table: str, row: _Open, offset: int | None, timestamp: int | None) -> None:
        if offset is not None and offset <= row.since_offset:
            return  # inside one transaction: nobody ever saw this version
        self._ended[_shown(table)].append(_Ended(row, offset, timestamp))


def _as_rows(name: str, ended: Sequence[_Ended]) -> pa.Table:
    """Versions as the rows of a history table, column by column."""
    began = [one.version for one in ended]
    values = [one.value for one in began]
    columns = {
        "valid_from_offset": [one.since_offset for one in began],
        "valid_to_offset": [one.offset for one in ended],
        "valid_from": [microseconds(one.since_timestamp) for one in began],
        "valid_to": [microseconds(one.timestamp) for one in ended],
        "record_offset": [one.record_offset for one in began],
        "record_type": [one.record_type for one in began],
        "batch_leader_epoch": [one.batch_leader_epoch for one in began],
        **{column: _cells(field, values) for field, column in SHOWN[name].columns},
    }
    return pa.Table.from_pydict(columns, schema=history_tables()[name].schema)


def _shown(table: str) -> str:
    """The history table that shows the objects of a state table."""
    return "features" if table in _AS_FEATURE else table


def microseconds(milliseconds: int | None) -> int | None:
    """A time as Arrow holds it; None where no calendar holds it."""
    if milliseconds is None or not LEAST_MS <= milliseconds <= LARGEST_MS:
        return None
    return milliseconds * 1000


def milliseconds(times: Any) -> Any:
    """A column of times in Kafka's milliseconds; one that the column could not hold is beyond it
    again.
    """
    return pc.fill_null(pc.divide(times.cast(pa.int64()), 1000), LARGEST_MS + 1)


def _cells(field: FieldSpec, values: Iterable[Data]) -> list[Any]:
    """One field of many values."""
    held = [one[field.json] for one in values]
    return [cell(field, one) for one in held] if field.fields else held


def _values(field: FieldSpec, column: pa.ChunkedArray) -> list[Any]:
    """The values of a column, as the state holds them."""
    found: list[Any] = column.to_pylist()
    return list(map(same_number, found)) if field.type == "float64" else found


def _held(field: FieldSpec, value: Any) -> Any:
    """What `cell` gives, with Kafka's own names again."""
    if value is None or not field.fields:
        return value
    if field.element is None:
        return {one.json: _held(one, value[one.name]) for one in field.fields}
    return [{one.json: _held(one, item[one.name]) for one in field.fields} for item in value]


def tells_whole(state: State) -> bool:
    """Whether the history tables tell everything of a state, so that a replay can go on from them:
    not where it matters which of two rows of one name came first.
    """
    kraft_version = state.get("kraft_version", ())
    return not state.shares_names() and (kraft_version is None or not kraft_version["version"])
