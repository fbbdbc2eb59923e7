"""One record applied to a state, by the declarations and nothing else.

In: a state, a record's type and its data. Out: the rows that changed, in order. A record whose
replay is a fault changes nothing.
"""

from functools import cache
from typing import Any

from kraftlog.decode.interpreter import absent_value
from kraftlog.message.catalogue import spec_of
from kraftlog.state.declare import (
    Cascade,
    Data,
    Delete,
    Key,
    Patch,
    Put,
    Replace,
    ReplayFault,
    StateTable,
)
from kraftlog.state.state import Change, State
from kraftlog.state.tables import NO_EFFECT, OPERATIONS


def apply(state: State, record_type: str, data: Data) -> list[Change]:
    """Change the state as one record says.

    Raises ReplayFault where Kafka's replay throws; the state is then as before."""
    operations = OPERATIONS.get(record_type)
    if operations is None:
        if record_type in NO_EFFECT:
            return []
        raise ReplayFault("unknown_record", f"{record_type} has no known effect on the state")
    changes: list[Change] = []
    for table, operation in operations:
        if isinstance(operation, Patch):
            changes += _patch(state, table, operation, data)
        elif isinstance(operation, Put):
            changes += _put(state, table, operation, data)
        elif isinstance(operation, Delete):
            changes += _delete(state, table, operation, data)
        else:
            changes += _replace(state, table, operation, data)
    return changes


@cache
def _defaults(record_type: str) -> dict[str, Any]:
    """What each field holds where a record's version lacks it."""
    spec = spec_of(record_type)
    return {} if spec is None else {field.json: absent_value(field) for field in spec.fields}


def _put(state: State, table: StateTable, put: Put, data: Data) -> list[Change]:
    if _has(data, put.ignores):
        return []
    value: Data = {**_defaults(put.record), **data}
    for shape in put.shapes:
        value = shape(state, value)
    key = table.key_of(value)
    if _has(value, put.deletes):
        return _set(state, table.name, key, None)
    return _cascade(state, table.on_put, value) + _set(state, table.name, key, value)


def _has(data: Data, wanted: tuple[str, object] | None) -> bool:
    return wanted is not None and data[wanted[0]] == wanted[1]


def _patch(state: State, table: StateTable, patch: Patch, data: Data) -> list[Change]:
    changed = []
    for key in patch.finds(state, data):
        old = state.get(table.name, key)
        if old is None:
            continue
        for given, held in (patch.matches or {}).items():
            if data[given] != old[held]:
                raise ReplayFault(
                    "stale_epoch", f"{held} is {old[held]}, the record says {data[given]}"
                )
        new = dict(old)
        for name, rule in (patch.rules or {}).items():
            if name in data:
                new[name] = rule(old[name], data[name])
        for counter, condition in (patch.steps or {}).items():
            if condition(data):
                new[counter] = _next(old[counter])
        new.update(patch.sets or {})
        changed.append((key, patch.fits(old, new, data) if patch.fits else new))
    return [one for key, value in changed for one in _set(state, table.name, key, value)]


def _next(counter: int) -> int:
    """One up, as a Java int: it wraps."""
    return -(1 << 31) if counter == (1 << 31) - 1 else counter + 1


def _delete(state: State, table: StateTable, delete: Delete, data: Data) -> list[Change]:
    key = table.key_of(delete.shaped(state, data))
    value = state.get(table.name, key)
    if value is None:
        if delete.required:
            name = ", ".join(map(str, key))
            raise ReplayFault(delete.required, f"there is no {table.noun[0]} {name}")
        return []
    return _cascade(state, table.on_delete, value) + _set(state, table.name, key, None)


def _replace(state: State, table: StateTable, replace: Replace, data: Data) -> list[Change]:
    kept = {value[replace.id]: value for value in data[replace.field]}
    rows = {table.key_of(value): value for value in kept.values()}
    gone = [key for key in state.keys(table.name, ()) if key not in rows]
    changes = [one for key in gone for one in _set(state, table.name, key, None)]
    for key, value in rows.items():
        if state.get(table.name, key) != value:
            changes += _set(state, table.name, key, value)
    return changes


def _cascade(state: State, cascades: tuple[Cascade, ...], value: Data) -> list[Change]:
    gone = ((other, key) for other, group in cascades for key in state.keys(other, group(value)))
    return [one for other, key in gone for one in _set(state, other, key, None)]


def _set(state: State, table: str, key: Key, value: Data | None) -> list[Change]:
    change = state.set(table, key, value)
    return [] if change is None else [change]
