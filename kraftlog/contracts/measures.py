"""What a suite can count of a table that may be large: how many rows, or keys, break a promise.

In: a measure as a suite declares it, and `Scans` of a lake. Out: a number. What is said of single
rows is an Arrow expression, so that footers of files can answer it; what compares keys counts them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
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


@dataclass(frozen=True, slots=True)
class Measure:
    """Something to count: the columns of the table that it reads, and what counts the rows, or
    keys, that break the promise. It can be pickled, as another process judges.
    """

    columns: tuple[str, ...]
    count: Callable[[str, Scans], int]


def parse_measure(declared: Mapping[str, Any]) -> Measure:
    """`{kind: argument}` as a suite has it."""
    ((kind, argument),) = declared.items()
    return KINDS[kind](argument)


def _rows_where(text: str) -> Measure:
    """Rows for which a comparison holds: `last_offset < base_offset`, `position < 0`. Nulls are no
    such rows.
    """
    left, comparison, right = text.split()
    is_number = right.lstrip("-").isdecimal()
    other = int(right) if is_number else ds.field(right)
    where = _COMPARISONS[comparison](ds.field(left), other)
    return Measure((left,) if is_number else (left, right), partial(_rows, where))


def _nulls_in(names: Sequence[str]) -> Measure:
    """Rows in which any of some columns is null."""
    where = reduce(or_, (ds.field(one).is_null() for one in names))
    return Measure(tuple(names), partial(_rows, where))


def _outside(given: Mapping[str, Any]) -> Measure:
    """Rows whose value is none of a list; nulls are not counted."""
    value = ds.field(given["column"])
    where = value.is_valid() & ~value.isin(list(given["values"]))
    return Measure((given["column"],), partial(_rows, where))


def _rows(where: ds.Expression, table: str, scans: Scans) -> int:
    return scans.count(table, where)


def _repeated(names: Sequence[str], table: str, scans: Scans) -> int:
    """Rows over and above the first of their key."""
    counts = scans.keys(table, names).column(ROWS)
    return total(counts) - len(counts)


def _orphans(column: str, missing_from: str, when: str | None, table: str, scans: Scans) -> int:
    """Keys that another table does not hold; only of rows where a column is true, if one is named
    by `when`.
    """
    ours = scans.keys(table, [column], when).column(column)
    theirs = scans.keys(missing_from, [column]).column(column)
    return len(ours) - total(pc.is_in(ours, theirs))


def _incomplete(given: Mapping[str, Any], table: str, scans: Scans) -> int:
    """Keys of which other tables, the `parts`, hold more or fewer rows than the column `count` says,
    but for keys that the table `unless_in` names.
    """
    column, rows = given["column"], given["count"]
    declared = scans.open(table).to_table(columns=[column, rows])
    if not declared.num_rows:
        return 0
    found = merge_counts([scans.keys(part, [column]) for part in given["parts"]])
    excepted = scans.keys(given["unless_in"], [column]).column(column)
    judged = declared.filter(pc.invert(pc.is_in(declared.column(column), excepted)))
    joined = judged.join(found, column)
    return total(pc.not_equal(pc.fill_null(joined.column(ROWS), 0), joined.column(rows)))


def _of_orphans(column: str, missing_from: str, when: str | None = None) -> Measure:
    columns = (column,) if when is None else (column, when)
    return Measure(columns, partial(_orphans, column, missing_from, when))


KINDS: dict[str, Callable[[Any], Measure]] = {
    "rows_where": _rows_where,
    "nulls_in": _nulls_in,
    "outside": _outside,
    "repeated": lambda names: Measure(tuple(names), partial(_repeated, names)),
    "orphans": lambda given: _of_orphans(**given),
    "incomplete": lambda given: Measure(
        (given["column"], given["count"]), partial(_incomplete, given)
    ),
}
"""Every kind of measure, by the name that a suite gives it."""
