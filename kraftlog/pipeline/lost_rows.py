"""Which rows of earlier runs a lake has lost, as far as the rows that are left tell of them.

In: a lake and some of its runs. Out: for each the tables of which it has no rows though it must have
had some: they lay in files that are gone, and no input tells them again, or that step was not done.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import pyarrow.dataset as ds

from kraftlog.audit.run import FAILED
from kraftlog.relations import Row
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import RUN_ID

_ASKED = {
    "check_results": ["check", "result", "judged"],
    "findings": ["check"],
    "replicas": ["log_start_offset", "log_end_offset"],
    "epochs": [],
    "lineages": [],
}


def lost_rows(lake: Lake, runs: Iterable[Row]) -> dict[int, list[str]]:
    """By the number of a run the tables that have lost its rows; runs that are whole are left out. A
    run's rows of a table lie in one file.
    """
    numbers = {row[RUN_ID.name]: row["number"] for row in runs}
    chosen = ds.field(RUN_ID.name).isin(list(numbers))
    held: dict[str, dict[str, list[Row]]] = {}
    for name, columns in _ASKED.items():
        if lake.exists(name):
            held[name] = defaultdict(list)
            for row in lake.rows(name, [RUN_ID.name, *columns], chosen).to_pylist():
                held[name][row[RUN_ID.name]].append(row)
    found = {
        number: [name for name in held if not held[name][one] and _had(name, one, held)]
        for one, number in numbers.items()
    }
    return {number: names for number, names in sorted(found.items()) if names}


def _had(table: str, run_id: str, held: Mapping[str, Mapping[str, list[Row]]]) -> bool:
    """Whether a run must have had rows in a table, by what others hold of it."""
    checks, replicas = (
        held[name][run_id] if name in held else [] for name in ("check_results", "replicas")
    )
    if table == "findings":
        return any(one["result"] == FAILED for one in checks)
    if table == "epochs":
        return any(one["log_start_offset"] != one["log_end_offset"] for one in replicas)
    if table == "lineages":
        return any(place["replica"] is None for one in checks for place in one["judged"] or ())
    return True
