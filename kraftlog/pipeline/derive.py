"""Tables that follow from a run's quorum and its other tables, declared: a table, and the function
that gives its rows. Driver side.

In: the newest run. Out: one commit per table, once per run.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kraftlog.config import Options
from kraftlog.pipeline.evidence import quorum_of
from kraftlog.quorum.model import Quorum
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import TableSpec

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Newest:
    """What a derived table may look at: the newest run, and the lake that holds it.

    `run` is the run's row of `runs`."""

    lake: Lake
    options: Options
    run: Row

    @property
    def quorum(self) -> Quorum:
        """The quorum of the run, read once per process."""
        return quorum_of(self.lake, self.options)


@dataclass(frozen=True, slots=True)
class Derived:
    """One table and its rows, without `run_id`, as mappings or as Arrow."""

    spec: TableSpec
    rows: Callable[[Newest], Iterable[Row] | pa.Table]


def derive(newest: Newest, tables: Iterable[Derived]) -> None:
    """Write the tables that this run does not hold yet."""
    for one in tables:
        if newest.lake.run_number(one.spec.name) < newest.run["number"]:
            newest.lake.write(one.spec, _of_run(one, newest), newest.run["number"])


def _of_run(one: Derived, newest: Newest) -> pa.Table:
    rows, run_id = one.rows(newest), newest.run["run_id"]
    if isinstance(rows, pa.Table):
        ids = pa.repeat(pa.scalar(run_id), rows.num_rows)
        named = rows.append_column("run_id", ids)
        return named.select(one.spec.schema.names).cast(one.spec.schema)
    return pa.Table.from_pylist([{"run_id": run_id, **row} for row in rows], schema=one.spec.schema)
