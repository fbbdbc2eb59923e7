"""Tables that follow from a run's quorum and its other tables, declared: each by its columns and
promises above the function that gives its rows. Driver side.

In: a run, and what its rows are taken from. Out: one commit per table, once per run.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from kraftlog.decode.tabular import repeated_text
from kraftlog.log.stores import is_remote
from kraftlog.pipeline.run import Run
from kraftlog.relations import Row
from kraftlog.tables.promise import Promise
from kraftlog.tables.spec import CURRENT, GROWING, PER_RUN, RUN_ID, TableSpec

_AT_ONCE = 8
T = TypeVar("T")
Rows: TypeAlias = Iterable[Row] | pa.Table


@dataclass(frozen=True, slots=True)
class Further:
    """Rows that come to those which a GROWING table holds; others take their place."""

    rows: Rows


@dataclass(frozen=True, slots=True)
class Derived(Generic[T]):
    """One table and its rows, without `run_id`, as mappings or as Arrow."""

    spec: TableSpec
    rows: Callable[[T], Rows | Further]


def table(
    name: str,
    grain: str,
    *columns: pa.Field,
    promises: tuple[Promise, ...] = (),
    mode: str = PER_RUN,
) -> Callable[[Callable[[T], Rows | Further]], Derived[T]]:
    """Declare the table that the function which follows fills. `grain` says what it has one row of,
    per run, or by the newest run alone (CURRENT, GROWING); the columns are those beside `run_id`.
    """
    told = f"one row per {grain} and run" if mode == PER_RUN else f"one row per {grain}"
    spec = TableSpec(name, told, pa.schema([RUN_ID, *columns]), mode, promises=promises)
    return lambda rows: Derived(spec, rows)


def tables_in(*modules: ModuleType) -> list[Derived[Any]]:
    """The tables of some modules, in the order of their declarations."""
    return [one for module in modules for one in vars(module).values() if isinstance(one, Derived)]


def derive(run: Run, tables: Iterable[Derived[T]], source: Callable[[], T]) -> None:
    """Write the tables that this run does not hold yet, each while the rows of the next one are
    found, and several where a store is to answer; `source` is asked once, where one is missing.
    """
    missing = [one for one in tables if run.lacks(one.spec.name)]
    if not missing:
        return
    given, written = source(), deque[Future[int]]()
    at_once = _AT_ONCE if is_remote(run.lake.root) else 1
    with ThreadPoolExecutor(at_once) as writer:
        for one in missing:
            found, is_all = one.rows(given), one.spec.mode in (CURRENT, GROWING)
            if isinstance(found, Further):
                found, is_all = found.rows, False
            rows = of_run(one.spec, found, run.run_id)
            if len(written) == at_once:
                written.popleft().result()
            write = partial(run.lake.write, one.spec, rows, run.number, overwrite=is_all)
            written.append(writer.submit(write))
        for done in written:
            done.result()


def of_run(spec: TableSpec, rows: Rows, run_id: str) -> pa.Table:
    """The rows of a run, with its id, as its table holds them or as `Lake.write` will shape them."""
    if isinstance(rows, pa.Table):
        return rows.append_column("run_id", repeated_text(run_id, rows.num_rows))
    held = [spec.as_text({"run_id": run_id, **row}) for row in rows]
    try:
        return pa.Table.from_pylist(held, schema=spec.schema)
    except (OverflowError, pa.ArrowInvalid):
        fits = [
            {one.name: _fitting(row.get(one.name), one.type) for one in spec.schema} for row in held
        ]
        return pa.Table.from_pylist(fits, schema=spec.schema)


def _fitting(value: Any, kind: pa.DataType) -> Any:
    """A value as its column can hold it; null for a number beyond 64 bits, such as what lies between
    the times of two headers of which one is of no calendar.
    """
    try:
        return pa.scalar(value, kind).as_py()
    except (OverflowError, pa.ArrowInvalid):
        return float(value) if pa.types.is_floating(kind) else None
