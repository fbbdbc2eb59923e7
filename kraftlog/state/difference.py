"""What differs between two states: by key, and by field where both have the key."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kraftlog.state.declare import Data, Key
from kraftlog.state.shapes import canonical_text
from kraftlog.state.state import State
from kraftlog.state.tables import TABLES


class Difference(NamedTuple):
    """One field of one object, or (`field` None) a whole object that only one side has; `change` is
    added, removed or changed.
    """

    table: str
    key: Key
    change: str
    field: str | None
    before: Any
    after: Any


def differences(before: State, after: State) -> Iterator[Difference]:
    """Everything in which `after` differs, table by table, in the order of their keys."""
    for table in TABLES:
        old, new = before.rows(table.name), after.rows(table.name)
        keys = [key for key in old if new.get(key) != old[key]] + [
            key for key in new if key not in old
        ]
        for key in sorted(keys, key=canonical_text):
            yield from of_key(table.name, key, old.get(key), new.get(key))


def of_key(table: str, key: Key, old: Data | None, new: Data | None) -> Iterator[Difference]:
    """What of one object differs."""
    if old is None or new is None:
        change = "added" if old is None else "removed"
        yield Difference(table, key, change, None, old, new)
        return
    for field in dict.fromkeys([*old, *new]):
        if [old.get(field)] != [new.get(field)]:  # so NaN is itself, as it is in whole rows
            yield Difference(table, key, "changed", field, old.get(field), new.get(field))
