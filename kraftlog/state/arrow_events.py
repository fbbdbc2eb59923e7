"""Decoded rows in Arrow ↔ the plain records that a replay takes in.

In: rows of one record type, with the columns of `relations.records()` (or `control_records()`).
Out: events with Kafka's JSON names and just the fields of each row's version, as the interpreter
gives them. For what is few; `fold` takes partitions as columns.
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any, NamedTuple

import pyarrow as pa

from kraftlog.message.catalogue import spec_of
from kraftlog.message.spec import FieldSpec, MessageSpec, VersionSpec, struct_at
from kraftlog.relations import payload_name
from kraftlog.state.history import milliseconds
from kraftlog.state.replay import Origin


class Event(NamedTuple):
    """One record for a replay; `data` is None where its type or version is unknown."""

    origin: Origin
    is_control: bool
    data: dict[str, Any] | None


def events_of(rows: pa.Table | pa.RecordBatch, is_control: bool = False) -> Iterator[Event]:
    """The events of rows of one record type, in their order. A checkpoint's rows should have null
    offsets.
    """
    if rows.num_rows == 0:
        return
    name = str(rows.column("type")[0])
    spec = spec_of(name)
    payload = payload_name(spec) if spec is not None else ""
    wanted = ["offset", "timestamp", "batch_leader_epoch", "record_version"]
    table = rows.select([*wanted, *([payload] if payload in rows.schema.names else [])])
    table = table.set_column(1, "timestamp", milliseconds(table.column("timestamp")))
    for row in table.to_pylist():
        origin = Origin(row["offset"], row["timestamp"], row["batch_leader_epoch"], name)
        yield Event(origin, is_control, _data(spec, row["record_version"], row.get(payload)))


def _data(spec: MessageSpec | None, version: int, row: dict[str, Any] | None) -> Any:
    """What a row holds; of a version that is not known, what was read by the newest that is."""
    if spec is None:
        return None
    if version in spec.versions:
        return data_of(spec, version, row)
    return None if row is None else data_of(spec, spec.versions.last, row)


def data_of(spec: MessageSpec, version: int, row: dict[str, Any] | None) -> dict[str, Any] | None:
    """A message as the interpreter gives it; None where the row holds none."""
    if not spec.fields:
        return {}
    return None if row is None else _struct(spec.at(version), row)


def _struct(spec: VersionSpec, row: dict[str, Any]) -> dict[str, Any]:
    fields = [*spec.plain, *spec.tagged.values()]
    return {field.json: _value(spec, field, row[field.name]) for field in fields}


def _value(spec: VersionSpec, field: FieldSpec, value: Any) -> Any:
    if value is None or not field.fields:
        return value
    inner = struct_at(field, spec)
    if field.element is None:
        return _struct(inner, value)
    return [_struct(inner, one) for one in value]


def in_offset_order(streams: Iterable[Iterable[Event]]) -> Iterator[Event]:
    """The events of several types, each in offset order, as one log."""
    return merge(*streams, key=lambda event: event.origin.offset or 0)
