"""What a suite can count of a table that may be large: how many rows, or keys, break a promise.

In: a measure as a suite declares it, and `Scans` of a lake. Out: a number. What is said of single
rows is an Arrow expression, so that footers of files can answer it; what compares keys counts them.
Arrow opens every file, and reads a row group only where the statistics in the file's footer do not
answer already: a column that holds no null, and nothing below zero, is not read to count either.
Memory grows with the number of distinct keys (record batches, not records), and not with the rows.
Runs on the driver, without Spark.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import eq, ge, gt, le, lt, ne, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.tables.lake import Lake

ROWS = "rows"
_PILE_ROWS = 1_000_000
_COMPARISONS: dict[str, Callable[[Any, Any], ds.Expression]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "==": eq,
    "!=": ne,
}


class Scans:
    """The tables of a lake; each is opened once, and its keys are counted once."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._opened: dict[tuple[str, bool], ds.Dataset] = {}
        self._counted: dict[tuple[str, tuple[str, ...], str | None], pa.Table] = {}

    def open(self, table: str, *, texts_as_dictionaries: bool = False) -> ds.Dataset:
        """A table for Arrow to scan."""
        key = (table, texts_as_dictionaries)
        if key not in self._opened:
            self._opened[key] = self._lake.bare_dataset(table, texts_as_dictionaries)
        return self._opened[key]

    def keys(self, table: str, columns: Sequence[str], when: str | None = None) -> pa.Table:
        """The keys of a table, each once, and their `rows`; only of rows in which the column `when`
        is true, if one is named.
        """
        wanted = (table, tuple(columns), when)
        if wanted not in self._counted:
            source = self.open(table, texts_as_dictionaries=True)
            chosen = None if when is None else ds.field(when)
            batches = source.to_batches(columns=list(columns), filter=chosen)
            empty = _counts(source.schema.empty_table().select(list(columns)))
            parts = (_counts(pa.Table.from_batches([one])) for one in batches)
            self._counted[wanted] = _gathered(parts, empty)
        return self._counted[wanted]


def _counts(rows: pa.Table) -> pa.Table:
    """The keys of some rows, with how often each is there; texts that were dictionaries are plain:
    each file has another one.
    """
    names = rows.column_names
    grouped = rows.group_by(names).aggregate([([], "count_all")])
    keys = [_plain(grouped.column(name)) for name in names]
    return pa.table([*keys, grouped.column("count_all")], [*names, ROWS])


def _plain(values: Any) -> Any:
    kind = values.type
    return values.cast(kind.value_type) if pa.types.is_dictionary(kind) else values


def _gathered(parts: Iterable[pa.Table], empty: pa.Table) -> pa.Table:
    """Partial counts as one; they are merged before they pile up."""
    pile, merged = [empty], 0
    for part in parts:
        pile.append(part)
        if sum(one.num_rows for one in pile) - merged > _PILE_ROWS:
            pile = [merge_counts(pile)]
            merged = pile[0].num_rows
    return merge_counts(pile)


def merge_counts(parts: Sequence[pa.Table]) -> pa.Table:
    """Keys with their `rows` out of several such tables, each key once."""
    names = [name for name in parts[0].column_names if name != ROWS]
    merged = pa.concat_tables(parts).group_by(names).aggregate([(ROWS, "sum")])
    return merged.rename_columns([*names, ROWS])


def total(numbers: Any) -> int:
    """A sum that is 0 without any value; of truth values, how many are true."""
    return int(pc.sum(numbers).as_py() or 0)


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
    """Rows for which something holds; where it is null, it does not."""
    return int(scans.open(table).count_rows(filter=where))


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
