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

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from kraftlog.message.catalogue import spec_of
from kraftlog.message.spec import FieldSpec
from kraftlog.relations import EPOCH, LONG, TEXT, TIMESTAMP, Relation, arrow_type, column
from kraftlog.state.declare import Data, Key, Replace, StateTable
from kraftlog.state.replay import Visible
from kraftlog.state.shapes import KRAFT_VERSION
from kraftlog.state.tables import TABLES

VALIDITY = [
    column("valid_from_offset", LONG, "first offset at which the state holds this version"),
    column("valid_to_offset", LONG, "first offset at which it no longer does; null: it still does"),
    column("valid_from", TIMESTAMP, "time of the record that made it visible"),
    column("valid_to", TIMESTAMP, "time of the record that ended it; null: it still holds"),
    column("record_offset", LONG, "the record that began it; null: it stands in the base snapshot"),
    column("record_type", TEXT, "type of the record that began it"),
    EPOCH,
]
"""The columns that every history table begins with."""

LARGEST_MS = (1 << 63) // 1000 - 1
"""The largest time that fits a column of microseconds."""


@dataclass(frozen=True)
class Shown:
    """How a state table is shown: the fields that are the columns of its history."""

    table: StateTable

    @property
    def history(self) -> str:
        """The name of the history table."""
        return self.table.name

    @cached_property
    def fields(self) -> tuple[FieldSpec, ...]:
        """The fields that become columns."""
        whole = self.table.operations[0]
        spec = spec_of(whole.record)
        assert spec is not None
        fields = spec.fields
        if isinstance(whole, Replace):
            (fields,) = (one.fields for one in fields if one.json == whole.field)
        return tuple(one for one in fields if one.json not in self.table.hides)

    def column_name(self, field: FieldSpec) -> str:
        """The column of a field."""
        return self.table.renames.get(field.json, field.name)

    @cached_property
    def columns(self) -> tuple[tuple[FieldSpec, str], ...]:
        """The fields, and their columns."""
        return tuple((one, self.column_name(one)) for one in self.fields)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns that tell objects apart."""
        names = {one.json: name for one, name in self.columns}
        return tuple(names[field] for field in self.table.key)


_AS_FEATURE: dict[str, Callable[[Data], Data]] = {
    "kraft_version": lambda value: {"name": KRAFT_VERSION, "featureLevel": value["kRaftVersion"]}
}
"""kraft.version comes from control records and is shown among the features."""

SHOWN = {table.name: Shown(table) for table in TABLES if table.name not in _AS_FEATURE}
"""State tables by name, each with the history table that shows it."""


@cache
def history_tables() -> dict[str, Relation]:
    """The history tables, by name."""
    return {shown.history: _relation(shown) for shown in SHOWN.values()}


def _relation(shown: Shown) -> Relation:
    spec = spec_of(shown.table.record)
    assert spec is not None
    fields = [
        column(name, arrow_type(one), f"{one.json} of {spec.name}") for one, name in shown.columns
    ]
    grain = f"one row per version of {shown.history.replace('_', ' ')}, by the records that made it"
    return Relation(shown.history, grain, pa.schema([*VALIDITY, *fields]))


class _Open(NamedTuple):
    since_offset: int
    since_timestamp: int
    record_offset: int | None
    record_type: str
    batch_leader_epoch: int
    value: Data


class History:
    """Gathers the versions of every object; finished rows are handed out as they come, open ones at
    the end.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, Key], _Open] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in history_tables()}

    def take(self, seen: Iterable[Visible]) -> None:
        """Take in changes in the order in which they became visible."""
        for change, origin, since_offset, since_timestamp in seen:
            at = change.table, change.key
            ended = self._open.pop(at, None)
            if ended is not None:
                self._finish(change.table, ended, since_offset, since_timestamp)
            if change.after is not None:
                self._open[at] = _Open(
                    since_offset,
                    since_timestamp,
                    origin.offset,
                    origin.type,
                    origin.batch_leader_epoch,
                    change.after,
                )

    def fork(self) -> "History":
        """A history of its own that goes on from the versions that are open."""
        twin = History()
        twin._open = self._open.copy()
        return twin

    def close(self, offset: int | None = None, timestamp: int | None = None) -> None:
        """End every open version at an offset, where the log breaks off; None: they hold
        until now.
        """
        for (table, _), version in self._open.items():
            self._finish(table, version, offset, timestamp)
        self._open = {}

    def rows(self, least: int = 0) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Hand out the finished rows of every table that has at least so many; each row once."""
        for name, relation in history_tables().items():
            rows = self._rows[name]
            if rows and len(rows) >= least:
                self._rows[name] = []
                yield name, pa.RecordBatch.from_pylist(rows, schema=relation.schema)

    def _finish(self, table: str, row: _Open, offset: int | None, timestamp: int | None) -> None:
        if offset is not None and offset <= row.since_offset:
            return  # inside one transaction: nobody ever saw this version
        shown = SHOWN["features" if table in _AS_FEATURE else table]
        value = _AS_FEATURE[table](row.value) if table in _AS_FEATURE else row.value
        self._rows[shown.history].append(
            {
                "valid_from_offset": row.since_offset,
                "valid_to_offset": offset,
                "valid_from": microseconds(row.since_timestamp),
                "valid_to": microseconds(timestamp),
                "record_offset": row.record_offset,
                "record_type": row.record_type,
                "batch_leader_epoch": row.batch_leader_epoch,
                **{name: _cell(one, value[one.json]) for one, name in shown.columns},
            }
        )


def microseconds(milliseconds: int | None) -> int | None:
    """A time as Arrow holds it; None where it is beyond what fits."""
    if milliseconds is None or not -LARGEST_MS <= milliseconds <= LARGEST_MS:
        return None
    return milliseconds * 1000


def _cell(field: FieldSpec, value: Any) -> Any:
    """A value with column names inside structs."""
    if value is None or not field.fields:
        return value
    if field.element is None:
        return {one.name: _cell(one, value[one.json]) for one in field.fields}
    return [{one.name: _cell(one, item[one.json]) for one in field.fields} for item in value]
