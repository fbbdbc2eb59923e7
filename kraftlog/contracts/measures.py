"""Counts over a table that may be large: one pass over the columns that they need, in Arrow.

In: `Measure`s, and a function that streams columns of a table. Out: a number per measure: how many
rows break a promise. Memory grows with the number of distinct keys of the measures that compare
keys (record batches, not records), and not with the rows. Runs on the driver, without Spark.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Stream = Callable[[str, Sequence[str]], Iterator[pa.RecordBatch]]
"""(table, columns) → its rows."""

_COMPARISONS = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "==": pc.equal,
    "!=": pc.not_equal,
}


class Tally(ABC):
    """A count in the making."""

    @abstractmethod
    def take(self, rows: pa.RecordBatch) -> None:
        """Take in some rows of the table."""

    @abstractmethod
    def count(self, stream: Stream) -> int:
        """The count over all rows that were taken in; `stream` reads other tables."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What is counted: a name of `KINDS`, its argument, and the columns that it reads."""

    kind: str
    argument: Any
    columns: tuple[str, ...]

    def tally(self) -> Tally:
        """A new count of this measure."""
        return KINDS[self.kind](self.argument)


def parse_measure(declared: Mapping[str, Any]) -> Measure:
    """`{kind: argument}` as a suite has it."""
    ((kind, argument),) = declared.items()
    return Measure(kind, argument, _columns(kind, argument))


def _columns(kind: str, argument: Any) -> tuple[str, ...]:
    if kind == "rows_where":
        left, _, right = argument.split()
        return (left,) if _is_number(right) else (left, right)
    if kind in ("nulls_in", "repeated"):
        return tuple(argument)
    extra = [argument[name] for name in ("when", "count") if name in argument]
    return (argument["column"], *extra)


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal()


class RowsWhere(Tally):
    """Rows for which a comparison holds: `last_offset < base_offset`, `position < 0`. Nulls are no
    such rows.
    """

    def __init__(self, text: str) -> None:
        self._left, comparison, self._right = text.split()
        self._compare = _COMPARISONS[comparison]
        self._found = 0

    def take(self, rows: pa.RecordBatch) -> None:
        right = int(self._right) if _is_number(self._right) else rows.column(self._right)
        self._found += pc.sum(self._compare(rows.column(self._left), right)).as_py() or 0

    def count(self, stream: Stream) -> int:
        return self._found


class NullsIn(Tally):
    """Rows in which any of some columns is null."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._names = list(columns)
        self._found = 0

    def take(self, rows: pa.RecordBatch) -> None:
        without = [rows.column(name).is_null() for name in self._names]
        missing = without[0]
        for other in without[1:]:
            missing = pc.or_(missing, other)
        self._found += pc.sum(missing).as_py() or 0

    def count(self, stream: Stream) -> int:
        return self._found


class Outside(Tally):
    """Rows whose value is none of a list; nulls are not counted."""

    def __init__(self, argument: Mapping[str, Any]) -> None:
        self._name, self._values = argument["column"], pa.array(argument["values"])
        self._found = 0

    def take(self, rows: pa.RecordBatch) -> None:
        column = rows.column(self._name)
        known = pc.sum(pc.is_in(column, self._values)).as_py() or 0
        self._found += len(column) - column.null_count - known

    def count(self, stream: Stream) -> int:
        return self._found


class Repeated(Tally):
    """Rows over and above the first of their key."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._keys = _KeyCounts(list(columns))

    def take(self, rows: pa.RecordBatch) -> None:
        self._keys.add(rows)

    def count(self, stream: Stream) -> int:
        counts = self._keys.counts().column("rows")
        return int(pc.sum(counts).as_py() or 0) - len(counts)


class Orphans(Tally):
    """Keys that another table does not hold; only of rows where a column is true, if one is named
    by `when`.
    """

    def __init__(self, argument: Mapping[str, Any]) -> None:
        self._name, self._table = argument["column"], argument["missing_from"]
        self._when = argument.get("when")
        self._keys = _KeyCounts([self._name])

    def take(self, rows: pa.RecordBatch) -> None:
        if self._when is not None:
            rows = rows.filter(rows.column(self._when))
        self._keys.add(rows)

    def count(self, stream: Stream) -> int:
        held = _KeyCounts([self._name])
        for rows in stream(self._table, [self._name]):
            held.add(rows)
        theirs = held.counts().column(self._name)
        known = pc.is_in(self._keys.counts().column(self._name), theirs)
        return len(known) - int(pc.sum(known).as_py() or 0)


class Incomplete(Tally):
    """Keys of which other tables hold more or fewer rows than the `count` column says, but for keys
    that the table `unless_in` names.
    """

    def __init__(self, argument: Mapping[str, Any]) -> None:
        self._name, self._count = argument["column"], argument["count"]
        self._parts: Sequence[str] = argument["parts"]
        self._unless: str = argument["unless_in"]
        self._declared: list[pa.RecordBatch] = []

    def take(self, rows: pa.RecordBatch) -> None:
        self._declared.append(rows.select([self._name, self._count]))

    def count(self, stream: Stream) -> int:
        if not self._declared:
            return 0
        found = _KeyCounts([self._name])
        for part in self._parts:
            for rows in stream(part, [self._name]):
                found.add(rows)
        excepted = _KeyCounts([self._name])
        for rows in stream(self._unless, [self._name]):
            excepted.add(rows)
        declared = pa.Table.from_batches(self._declared)
        declared = declared.filter(
            pc.invert(pc.is_in(declared.column(self._name), excepted.counts().column(self._name)))
        )
        joined = declared.join(found.counts(), self._name)
        rows_held = pc.fill_null(joined.column("rows"), 0)
        return int(pc.sum(pc.not_equal(rows_held, joined.column(self._count))).as_py() or 0)


class _KeyCounts:
    """How many rows each key has; partial counts are merged before they pile up."""

    _PILE_ROWS = 1_000_000

    def __init__(self, columns: list[str]) -> None:
        self._columns = columns
        self._pile: list[pa.Table] = []
        self._merged = 0

    def add(self, rows: pa.RecordBatch) -> None:
        table = pa.Table.from_batches([rows]).select(self._columns)
        # A partition column may be a dictionary, and each file has another one.
        plain = [pa.field(one.name, _plain(one.type)) for one in table.schema]
        table = table.cast(pa.schema(plain))
        counted = table.group_by(self._columns).aggregate([([], "count_all")])
        self._pile.append(counted.rename_columns([*self._columns, "rows"]))
        if sum(one.num_rows for one in self._pile) - self._merged > self._PILE_ROWS:
            self._merged = self.counts().num_rows

    def counts(self) -> pa.Table:
        """The keys, each once, and their `rows`."""
        if not self._pile:
            empty = pa.schema(
                [*((name, pa.string()) for name in self._columns), ("rows", pa.int64())]
            )
            return empty.empty_table()
        merged = pa.concat_tables(self._pile).group_by(self._columns).aggregate([("rows", "sum")])
        self._pile = [merged.rename_columns([*self._columns, "rows"])]
        return self._pile[0]


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


KINDS: dict[str, Callable[[Any], Tally]] = {
    "rows_where": RowsWhere,
    "nulls_in": NullsIn,
    "outside": Outside,
    "repeated": Repeated,
    "orphans": Orphans,
    "incomplete": Incomplete,
}
"""Every kind of measure, by the name that a suite gives it."""
