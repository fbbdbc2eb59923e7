"""Scans of a lake's tables, in Arrow: the rows for which something holds, and keys with how many
rows each has.

In: a lake. Out: numbers, and Arrow tables. Arrow opens every file, and reads a row group only where
the statistics in the file's footer do not answer already: a column that holds no null, and nothing
below zero, is not read to count either. Memory grows with the number of distinct keys (record
batches, not records), and not with the rows. Runs on the driver, without Spark.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.tables.lake import Lake

ROWS = "rows"
_PILE_ROWS = 1_000_000


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

    def count(self, table: str, where: ds.Expression) -> int:
        """How many rows there are for which something holds; where it is null, it does not."""
        return int(self.open(table).count_rows(filter=where))

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
            self._counted[wanted] = _gathered(map(_counts, _tables(batches)), empty)
        return self._counted[wanted]


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.Table]:
    return (pa.Table.from_batches([one]) for one in batches)


def _counts(rows: pa.Table) -> pa.Table:
    """The keys of some rows, with how often each is there; texts that were dictionaries are plain:
    each file has another one.
    """
    names = rows.column_names
    if len(names) == 1:
        column = rows.column(0).combine_chunks()
        is_coded = pa.types.is_dictionary(column.type)
        found = (column.indices if is_coded else column).value_counts()
        values, counts = found.flatten()
        return pa.table(
            [column.dictionary.take(values) if is_coded else values, counts], [*names, ROWS]
        )
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
