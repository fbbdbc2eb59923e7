"""The words in which a state table is declared: put, patch, delete, replace, and what cascades.

No rule of Kafka's stands here: `tables` holds the declarations, `replay` the one fold over them. A
value of a state table is a dict with Kafka's own JSON field names, and is never changed in place.
Pickles.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Data = Mapping[str, Any]
Key = tuple[Any, ...]
Rule = Callable[[Any, Any], Any]
"""(old value of a field, what the record says) → the field's new value."""


class ReplayFault(Exception):
    """Where Kafka's own replay throws: the record has no effect. `kind` is a short name, for
    counting.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, detail


class StateView(Protocol):
    """What a declaration may ask of the state that its record meets."""

    def get(self, table: str, key: Key) -> Data | None:
        """The value under a key."""

    def keys(self, table: str, group: Key) -> list[Key]:
        """The keys that begin with a group's key; all of them for ()."""

    def named(self, table: str, name: Any) -> Key | None:
        """The key that took a name last, where the table has an index."""


Shape = Callable[[StateView, Data], Data]
"""Bring a put record into the form that the state holds.

Raises ReplayFault where Kafka refuses the record."""


@dataclass(frozen=True, slots=True)
class Put:
    """A record that holds a whole object: the row under its key is replaced, or deleted where a
    field has the value that `deletes` names; where one has that of `ignores`, nothing is done.
    """

    record: str
    shapes: tuple[Shape, ...] = ()
    deletes: tuple[str, object] | None = None
    ignores: tuple[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """A record that changes fields of rows that exist.

    `finds` names the rows; where it is one, `key` are the record's fields that do. `matches` are
    fields of the record that must equal fields of the row. A rule is asked where the record's
    version has the field; `sets` are constants, `steps` are counters with the condition under which
    they go up by one. `fits` sees the old row, the new one and the record at the end.
    """

    record: str
    finds: Callable[[StateView, Data], Iterable[Key]]
    key: tuple[str, ...] = ()
    matches: Mapping[str, str] | None = None
    rules: Mapping[str, Rule] | None = None
    sets: Mapping[str, Any] | None = None
    steps: Mapping[str, Callable[[Data], bool]] | None = None
    fits: Callable[[Data, Data, Data], Data] | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """A record that deletes the row under its key, which has the fields of the table's; `required`
    faults where there is none.
    """

    record: str
    shapes: tuple[Shape, ...] = ()
    required: str | None = None

    def shaped(self, state: StateView, data: Data) -> Data:
        """The record with the table's values for its key."""
        for shape in self.shapes:
            data = shape(state, data)
        return data


@dataclass(frozen=True, slots=True)
class Replace:
    """A record that replaces all rows of the table: `field` holds them, of which Kafka keeps the last
    with the same `id`.
    """

    record: str
    field: str
    id: str


class Cascade(NamedTuple):
    """Rows of another table that go with a row: those whose keys begin with `group` of the row's
    value.
    """

    table: str
    group: Callable[[Data], Key]


@dataclass(frozen=True, slots=True)
class Writer:
    """How a table's rows are written into a snapshot. `steps` are (first metadata.version, record
    version), `since` the first level that can hold the table at all, `limits` the fields that need
    a level: (field, level, whether a value would be lost).
    """

    steps: tuple[tuple[int, int], ...] = ()
    since: int = 0
    limits: tuple[tuple[str, int, Callable[[Any], bool]], ...] = ()

    def version(self, level: int) -> int:
        """The record version at a metadata.version."""
        return max((version for first, version in self.steps if level >= first), default=0)


@dataclass(frozen=True, slots=True)
class StateTable:
    """One kind of object in the state; its first operation is the record that holds a whole one.

    `noun` is what one object and what many are called. `key` are the fields that tell objects
    apart. `group_size` leading parts of the key form groups that are looked up together.
    `unique_name` is a field by which the newest row can be found. `on_delete` and `on_put` cascade.
    `hides` are fields that are no columns of the history, with the value that every row has;
    `renames` are fields whose columns have another name. `writer` is None for what Kafka keeps
    outside of its metadata image.
    """

    name: str
    noun: tuple[str, str]
    key: tuple[str, ...]
    operations: tuple[Put | Patch | Delete | Replace, ...]
    group_size: int = 0
    unique_name: str | None = None
    on_put: tuple[Cascade, ...] = ()
    on_delete: tuple[Cascade, ...] = ()
    hides: Mapping[str, Any] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)
    writer: Writer | None = field(default_factory=Writer)

    @property
    def record(self) -> str:
        """The type of record that holds a whole object."""
        return self.operations[0].record

    def key_of(self, data: Data) -> Key:
        """A row's key, from its value."""
        parts = [data[name] for name in self.key]
        return tuple([_as_map(one) if isinstance(one, list) else one for one in parts])


def _as_map(structs: list[Data]) -> tuple[tuple[Any, ...], ...]:
    """A list of structs, which as a map has one order."""
    return tuple([tuple(one.values()) for one in structs])


def by(*fields: str) -> Callable[[Data], Key]:
    """A key of some fields, in their order."""
    return lambda data: tuple(data[name] for name in fields)


def unless(kept: Any) -> Rule:
    """Keep the old value where the record holds `kept`, else take the record's."""
    return lambda old, given: old if given == kept and type(given) is type(kept) else given


def coded(name: str, values: Mapping[int, Any]) -> Rule:
    """Take the value that a code stands for; `KEEP` stands for the old one. Any other code is a
    fault.
    """

    def rule(old: Any, given: Any) -> Any:
        if given not in values:
            raise ReplayFault("bad_value", f"{name} is {given}, which Kafka knows no meaning for")
        value = values[given]
        return old if value is KEEP else value

    return rule


KEEP = object()
