"""Decoded rows in Arrow ↔ the plain records that a replay takes in.

In: rows of one record type, with the columns of `relations.records()` (or `control_records()`).
Out: events with Kafka's JSON names and just the fields of each row's version, as the interpreter
gives them. For what is few; `fold` takes partitions as columns.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.message.catalogue import spec_of
from kraftlog.message.message_spec import FieldSpec, MessageSpec, VersionSpec, struct_at
from kraftlog.relations import payload_name
from kraftlog.state.history import milliseconds
from kraftlog.state.replay import Origin


class Event(NamedTuple):
    """One record for a replay; `data` is None where its type or version is unknown."""

    origin: Origin
    is_control: bool
    data: dict[str, Any] | None


def _events_of(rows: pa.Table, is_control: bool) -> Iterator[Event]:
    """The events of rows of one record type, in their order. A checkpoint's rows should have null
    offsets.
    """
    if rows.num_rows == 0:
        return
    name = str(rows.column("type")[0])
    offsets, epochs, versions = (
        rows.column(one).to_pylist() for one in ("offset", "batch_leader_epoch", "record_version")
    )
    times = milliseconds(rows.column("timestamp")).to_pylist()
    data = _data_of_rows(rows, name, versions)
    for offset, time, epoch, held in zip(offsets, times, epochs, data, strict=True):
        yield Event(Origin(offset, time, epoch, name), is_control, held)


def _data_of_rows(
    rows: pa.Table, name: str, versions: list[int]
) -> Iterator[dict[str, Any] | None]:
    """What each row holds; of a version that is not known, what was read by the newest that is."""
    spec = spec_of(name)
    if spec is None or not spec.fields:
        yield from ({} if spec is not None and one in spec.versions else None for one in versions)
        return
    if payload_name(spec) not in rows.schema.names:
        yield from (None for _ in versions)
        return
    struct = rows.column(payload_name(spec)).combine_chunks()
    values = dict(
        zip(struct.type.names, (one.to_pylist() for one in struct.flatten()), strict=True)
    )
    held = {one: one if one in spec.versions else spec.versions.last for one in set(versions)}
    fields = {one: _columns(spec.at(version), values) for one, version in held.items()}
    for at, (version, is_there) in enumerate(
        zip(versions, struct.is_valid().to_pylist(), strict=True)
    ):
        yield {json: column[at] for json, column in fields[version]} if is_there else None


def _columns(spec: VersionSpec, values: dict[str, list[Any]]) -> list[tuple[str, list[Any]]]:
    """The fields of a version under Kafka's names, with all rows' values."""
    found = []
    for field in (*spec.plain, *spec.tagged.values()):
        column = values[field.name]
        if field.fields:
            column = [_value(spec, field, one) for one in column]
        found.append((field.json, column))
    return found


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


def in_offset_order(
    records: Iterable[pa.Table], control: Iterable[pa.Table] = ()
) -> Iterator[Event]:
    """The events of rows of several types, each in offset order, as one log; rows without offsets
    come first, type after type.
    """
    kinds = [*((rows, False) for rows in records), *((rows, True) for rows in control)]
    streams = [_events_of(rows, is_control) for rows, is_control in kinds]
    offsets = [pc.fill_null(rows.column("offset"), 0).to_numpy() for rows, _ in kinds]
    turns = np.repeat(np.arange(len(kinds)), [len(one) for one in offsets])
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *offsets]), kind="stable")
    for turn in turns[order].tolist():
        yield next(streams[turn])
