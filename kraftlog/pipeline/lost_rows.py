"""Which rows of earlier runs a lake has lost, as far as the rows that are left tell of them.

In: a lake and some of its runs. Out: for each the tables of which it has no rows though it must have
had some: they lay in files that are gone, and no input tells them again, or that step was not done.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.audit.runner import FAILED
from kraftlog.relations import Row
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import RUN_ID

_COLUMNS = {
    "check_results": ["result", "judged"],
    "findings": [],
    "replicas": ["log_start_offset", "log_end_offset"],
    "epochs": [],
    "lineages": [],
}
_NONE = frozenset[str]()


def lost_rows(lake: Lake, runs: Iterable[Row]) -> dict[int, list[str]]:
    """By the number of a run the tables that have lost its rows; runs that are whole are left out. A
    run's rows of a table lie in one file.
    """
    numbers = {row[RUN_ID.name]: row["number"] for row in runs}
    chosen = ds.field(RUN_ID.name).isin(list(numbers))
    rows = {
        name: lake.rows(name, [RUN_ID.name, *columns], chosen)
        for name, columns in _COLUMNS.items()
        if lake.exists(name)
    }
    had = dict.fromkeys(rows, frozenset(numbers)) | {"findings": _NONE, "lineages": _NONE}
    if (checks := rows.get("check_results")) is not None:
        had["findings"] = _ids(checks.filter(pc.equal(checks.column("result"), FAILED)))
        had["lineages"] = _ids(checks.take(_of_shared(checks)))
    if (logs := rows.get("replicas")) is not None:
        is_empty = pc.equal(logs.column("log_start_offset"), logs.column("log_end_offset"))
        had["epochs"] = _ids(logs.filter(pc.invert(is_empty)))
    lost = {name: had[name] - _ids(held) for name, held in rows.items()}
    found = {
        number: [name for name in lost if one in lost[name]] for one, number in numbers.items()
    }
    return {number: names for number, names in sorted(found.items()) if names}


def _of_shared(checks: pa.Table) -> pa.Array:
    """The rows of checks that have judged the history of all copies together."""
    judged = checks.column("judged").combine_chunks()
    is_shared = pc.is_null(pc.struct_field(pc.list_flatten(judged), "replica"))
    return pc.list_parent_indices(judged).filter(is_shared)


def _ids(rows: pa.Table) -> frozenset[str]:
    return frozenset(rows.column(RUN_ID.name).unique().to_pylist())
