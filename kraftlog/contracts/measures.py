"""What a suite can count of a table that may be large: how many rows, or keys, break a promise.

In: a measure as a suite declares it, and `Scans` of a lake. Out: a number. What is said of single
rows is an Arrow expression, so that footers of files can answer it; what compares keys counts them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import eq, ge, gt, le, lt, ne, or_
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.contracts.scans import ROWS, Scans, merge_counts, total

_COMPARISONS: dict[str, Callable[[Any, Any], ds.Expression]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "==": eq,
    "!=": ne,
}


class Measure(ABC):
    """Something to count."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that it reads."""

    @abstractmethod
    def count(self, table: str, scans: Scans) -> int:
        """The number of rows, or keys, of a table that break the promise."""


def parse_measure(declared: Mapping[str, Any]) -> Measure:
    """`{kind: argument}` as a suite has it."""
    ((kind, argument),) = declared.items()
    return KINDS[kind](argument)


@dataclass(frozen=True, slots=True)
class RowsWhere(Measure):
    """Rows for which a comparison holds: `last_offset < base_offset`, `position < 0`. Nulls are no
    such rows.
    """

    text: str

    @property
    def columns(self) -> tuple[str, ...]:
        left, _, right = self.text.split()
        return (left,) if _is_number(right) else (left, right)

    def count(self, table: str, scans: Scans) -> int:
        left, comparison, right = self.text.split()
        other = int(right) if _is_number(right) else ds.field(right)
        return scans.count(table, _COMPARISONS[comparison](ds.field(left), other))


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdecimal()


@dataclass(frozen=True, slots=True)
class NullsIn(Measure):
    """Rows in which any of some columns is null."""

    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def count(self, table: str, scans: Scans) -> int:
        return scans.count(table, reduce(or_, (ds.field(one).is_null() for one in self.names)))


@dataclass(frozen=True, slots=True)
class Outside(Measure):
    """Rows whose value is none of a list; nulls are not counted."""

    column: str
    values: tuple[Any, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def count(self, table: str, scans: Scans) -> int:
        value = ds.field(self.column)
        return scans.count(table, value.is_valid() & ~value.isin(list(self.values)))


@dataclass(frozen=True, slots=True)
class Repeated(Measure):
    """Rows over and above the first of their key."""

    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def count(self, table: str, scans: Scans) -> int:
        counts = scans.keys(table, self.names).column(ROWS)
        return total(counts) - len(counts)


@dataclass(frozen=True, slots=True)
class Orphans(Measure):
    """Keys that another table does not hold; only of rows where a column is true, if one is named
    by `when`.
    """

    column: str
    missing_from: str
    when: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,) if self.when is None else (self.column, self.when)

    def count(self, table: str, scans: Scans) -> int:
        ours = scans.keys(table, [self.column], self.when).column(self.column)
        theirs = scans.keys(self.missing_from, [self.column]).column(self.column)
        return len(ours) - total(pc.is_in(ours, theirs))


@dataclass(frozen=True, slots=True)
class Incomplete(Measure):
    """Keys of which other tables, the `parts`, hold more or fewer rows than a column says, but for
    keys that the table `unless_in` names.
    """

    column: str
    rows_column: str
    parts: tuple[str, ...]
    unless_in: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, self.rows_column)

    def count(self, table: str, scans: Scans) -> int:
        declared = scans.open(table).to_table(columns=list(self.columns))
        if not declared.num_rows:
            return 0
        found = merge_counts([scans.keys(part, [self.column]) for part in self.parts])
        excepted = scans.keys(self.unless_in, [self.column]).column(self.column)
        judged = declared.filter(pc.invert(pc.is_in(declared.column(self.column), excepted)))
        joined = judged.join(found, self.column)
        held = pc.fill_null(joined.column(ROWS), 0)
        return total(pc.not_equal(held, joined.column(self.rows_column)))


KINDS: dict[str, Callable[[Any], Measure]] = {
    "rows_where": RowsWhere,
    "nulls_in": lambda names: NullsIn(tuple(names)),
    "outside": lambda given: Outside(given["column"], tuple(given["values"])),
    "repeated": lambda names: Repeated(tuple(names)),
    "orphans": lambda given: Orphans(**given),
    "incomplete": lambda given: Incomplete(
        given["column"], given["count"], tuple(given["parts"]), given["unless_in"]
    ),
}
"""Every kind of measure, by the name that a suite gives it."""
