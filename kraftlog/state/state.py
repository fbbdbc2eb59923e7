"""The state: rows of every state table, cheap to fork, changed only through `set`.

A fork shares its tables with the state that it came from until one of them is written to. Values
are never changed in place, so images at many offsets hold one copy of what they have in common.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kraftlog.state.declare import Data, Key
from kraftlog.state.tables import TABLE, TABLES


class Change(NamedTuple):
    """One row that came (`before` is None), changed, or went (`after` is None)."""

    table: str
    key: Key
    before: Data | None
    after: Data | None


class Rows:
    """The rows of one table, their groups, and the newest key of each name; `shared_name`: two rows
    have had one name at the same time.
    """

    __slots__ = ("_group_size", "_name", "groups", "named", "shared_name", "values")

    def __init__(self, group_size: int, name: str | None) -> None:
        self._group_size, self._name = group_size, name
        self.values: dict[Key, Data] = {}
        self.groups: dict[Key, dict[Key, None]] = {}
        self.named: dict[str, Key] = {}
        self.shared_name = False

    def copy(self) -> "Rows":
        """A copy that can be written to; the values are shared."""
        twin = Rows(self._group_size, self._name)
        twin.values = self.values.copy()
        twin.groups = {group: keys.copy() for group, keys in self.groups.items()}
        twin.named = self.named.copy()
        twin.shared_name = self.shared_name
        return twin

    def put(self, key: Key, value: Data) -> None:
        """Insert or replace a row."""
        if self._name is not None:
            self._forget_name(key)
            self.shared_name |= value[self._name] in self.named
            self.named[value[self._name]] = key
        if self._group_size and key not in self.values:
            self.groups.setdefault(key[: self._group_size], {})[key] = None
        self.values[key] = value

    def delete(self, key: Key) -> None:
        """Delete a row that is there."""
        if self._name is not None:
            self._forget_name(key)
        if self._group_size:
            group = self.groups[key[: self._group_size]]
            del group[key]
            if not group:
                del self.groups[key[: self._group_size]]
        del self.values[key]

    def _forget_name(self, key: Key) -> None:
        old = self.values.get(key)
        if old is not None and self._name and self.named.get(old[self._name]) == key:
            del self.named[old[self._name]]


class State:
    """All state tables at one point of the log."""

    __slots__ = ("_shared", "_tables")

    def __init__(self) -> None:
        self._tables = {one.name: Rows(one.group_size, one.unique_name) for one in TABLES}
        self._shared: set[str] = set()

    def fork(self) -> "State":
        """A state of its own with the same rows."""
        twin = State.__new__(State)
        twin._tables = self._tables.copy()
        self._shared = set(self._tables)
        twin._shared = set(self._tables)
        return twin

    def get(self, table: str, key: Key) -> Data | None:
        """The value under a key."""
        return self._tables[table].values.get(key)

    def keys(self, table: str, group: Key) -> list[Key]:
        """The keys that begin with a group's key; all of them for ()."""
        rows = self._tables[table]
        return list(rows.groups.get(group, ())) if group else list(rows.values)

    def named(self, table: str, name: str) -> Key | None:
        """The key that took a name last."""
        return self._tables[table].named.get(name)

    def shares_names(self) -> bool:
        """Whether two rows have ever had one name at the same time: which of them has it is then
        decided by what came before, and not by the rows that are left.
        """
        return any(rows.shared_name for rows in self._tables.values())

    def rows(self, table: str) -> dict[Key, Data]:
        """All rows of a table; not to be changed."""
        return self._tables[table].values

    def set(self, table: str, key: Key, value: Data | None) -> Change | None:
        """Put a row, or delete it where the value is None; None where nothing was to be deleted."""
        rows = self._tables[table]
        before = rows.values.get(key)
        if value is None and before is None:
            return None
        if table in self._shared:
            rows = self._tables[table] = rows.copy()
            self._shared.discard(table)
        if value is None:
            rows.delete(key)
        else:
            rows.put(key, value)
        return Change(table, key, before, value)

    def __iter__(self) -> Iterator[tuple[str, Key, Data]]:
        for name, rows in self._tables.items():
            for key, value in rows.values.items():
                yield name, key, value

    def __len__(self) -> int:
        return sum(len(rows.values) for rows in self._tables.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and all(
            self.rows(name) == other.rows(name) for name in TABLE
        )

    __hash__ = None  # type: ignore[assignment]
