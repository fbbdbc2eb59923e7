"""The summary of a run on the terminal: a verdict in one sentence, the replicas, the findings, what was measured.

In: the lake's tables of its newest run. Out: text for a person. The page and the tables hold the details.
"""

import sys
from collections import Counter
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kraftlog.tables.lake import Lake

Row = dict[str, Any]

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim"}
_MARKS = {"critical": "CRITICAL", "warning": "WARNING", "info": "info"}
_FINDINGS_SHOWN = 20


def print_summary(lake: Lake, out: TextIO | None = None) -> None:
    """Print what the lake's newest run found."""
    run = lake.read("runs").sort_by("number").to_pylist()[-1]
    tables = {
        name: _of_run(lake, name, run["run_id"])
        for name in ("replicas", "findings", "check_results", "snapshots")
    }
    console = Console(file=out or sys.stdout, highlight=False)
    console.print()
    console.print(_replica_table(tables["replicas"]))
    console.print(_inventory(run, tables))
    for finding in _shown(tables["findings"]):
        console.print(_finding_text(finding))
    hidden = len(tables["findings"]) - len(_shown(tables["findings"]))
    if hidden > 0:
        console.print(f"[dim]… and {hidden} more in {escape(lake.path('findings'))}[/dim]")
    console.print()
    console.print(f"[bold]{escape(verdict(tables['findings'], tables['check_results']))}[/bold]")
    console.print(f"[dim]Delta tables: {escape(lake.root)}[/dim]")


def _of_run(lake: Lake, name: str, run_id: str) -> list[Row]:
    if not lake.exists(name):
        return []
    table = lake.open(name).to_pyarrow_dataset()
    import pyarrow.dataset as ds

    rows: list[Row] = table.to_table(filter=ds.field("run_id") == run_id).to_pylist()
    return rows


def verdict(findings: list[Row], results: list[Row]) -> str:
    """The whole audit in one sentence."""
    count = Counter(row["severity"] for row in findings if row["result"] == "failed")
    errored = [row["check"] for row in results if row["result"] == "errored"]
    parts = []
    if count["critical"]:
        what = _counted(count["critical"], "critical finding")
        parts.append(f"{what}: act on the first one before you restart any node")
    tails = sorted({row["replica"] for row in findings if row["check"] == TAIL})
    if tails:
        starts = [row["offset"] for row in findings if row["check"] == TAIL and row["offset"]]
        one = len(tails) == 1
        parts.append(
            f"{'replica' if one else 'replicas'} {_listed(tails)} {'carries' if one else 'carry'} an "
            f"uncommitted tail from offset {min(starts, default=0)} that a restart will cut"
        )
    if errored:
        parts.append(f"{_counted(len(errored), 'check')} could not be run: {_listed(errored)}")
    if not parts and count["warning"]:
        parts.append(f"nothing critical; {_counted(count['warning'], 'warning')} to look at")
    if not parts:
        return "No damage, no divergence: every check that could be run has passed."
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


TAIL = "uncommitted_tail_diverged"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _replica_table(replicas: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = ("replica", "node", "role", "log start", "log end", "epoch", "snapshots", "committed")
    for name in columns:
        table.add_column(name, justify="left" if name in ("replica", "role") else "right")
    for row in replicas:
        lower, upper = row["committed_lower"], row["committed_upper"]
        cells = [
            row["replica"],
            row["node_id"],
            row["role"],
            row["log_start_offset"],
            row["log_end_offset"],
            row["last_epoch"],
            len(row["snapshots"] or []),
            f"{lower} … {upper}" if upper is not None else f"from {lower}",
        ]
        table.add_row(*("-" if cell is None else escape(str(cell)) for cell in cells))
    return table


def _inventory(run: Row, tables: dict[str, list[Row]]) -> str:
    results = Counter(row["result"] for row in tables["check_results"])
    checks = ", ".join(f"{results[name]} {name}" for name in _RESULTS if results[name])
    return (
        f"\n{_counted(run['file_count'], 'file')}, {run['batch_count']:,} record batches read, "
        f"{run['new_batch_count']:,} of them new contents with {run['record_count']:,} records; "
        f"checks: {checks or 'none yet'}\n"
    )


_RESULTS = ("passed", "failed", "errored", "skipped")


def _shown(findings: list[Row]) -> list[Row]:
    """The worst first; informative ones only where there is room."""
    order = {"critical": 0, "warning": 1, "info": 2}
    ranked = sorted(findings, key=lambda row: order.get(row["severity"], 3))
    return ranked[:_FINDINGS_SHOWN]


def _finding_text(finding: Row) -> str:
    style = _STYLES.get(finding["severity"], "")
    mark = _MARKS.get(finding["severity"], finding["severity"])
    where = f" {finding['replica']}" if finding["replica"] else ""
    return (
        f"[{style}]{mark:8}[/{style}] {escape(finding['check'])}{escape(where)}: "
        f"{escape(finding['message'])}"
    )
