"""Tables that follow from a run's quorum and its other tables, declared: a table, and the function
that gives its rows. Driver side.

In: a run, and what its rows are taken from. Out: one commit per table, once per run.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from kraftlog.pipeline.run import Row, Run
from kraftlog.tables.spec import TableSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Derived(Generic[T]):
    """One table and its rows, without `run_id`, as mappings or as Arrow."""

    spec: TableSpec
    rows: Callable[[T], Iterable[Row] | pa.Table]


def derive(run: Run, tables: Iterable[Derived[T]], source: Callable[[], T]) -> None:
    """Write the tables that this run does not hold yet; `source` is asked once, where one is
    missing.
    """
    missing = [one for one in tables if run.lacks(one.spec.name)]
    given = source() if missing else None
    for one in missing:
        assert given is not None
        run.lake.write(one.spec, _of_run(one.spec, one.rows(given), run.run_id), run.number)


def _of_run(spec: TableSpec, rows: Iterable[Row] | pa.Table, run_id: str) -> pa.Table:
    if isinstance(rows, pa.Table):
        ids = pa.repeat(pa.scalar(run_id), rows.num_rows)
        named = rows.append_column("run_id", ids)
        return named.select(spec.schema.names).cast(spec.schema)
    return pa.Table.from_pylist([{"run_id": run_id, **row} for row in rows], schema=spec.schema)
