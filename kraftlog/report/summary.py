"""The summary of a run on the terminal: a verdict in one sentence, the replicas, the findings, what
was measured.

In: the lake's tables of its newest run. Out: text for a person. The page and the tables hold the
details.
"""

from collections import Counter
from typing import Any, TextIO

from rich.markup import escape
from rich.table import Table

from kraftlog.report.findings import console_on, counted, finding_text, verdict, worst_first
from kraftlog.tables.lake import Lake

Row = dict[str, Any]

_FINDINGS_SHOWN = 20


def print_summary(lake: Lake, out: TextIO | None = None) -> None:
    """Print what the lake's newest run found."""
    run = lake.read("runs").sort_by("number").to_pylist()[-1]
    tables = {
        name: lake.rows_of_run(name, run["run_id"])
        for name in ("replicas", "findings", "check_results", "snapshots")
    }
    console = console_on(out)
    console.print()
    console.print(_replica_table(tables["replicas"]))
    console.print(_inventory(run, tables))
    findings = worst_first(tables["findings"])
    for finding in findings[:_FINDINGS_SHOWN]:
        console.print(finding_text(finding))
    hidden = len(findings) - _FINDINGS_SHOWN
    if hidden > 0:
        console.print(f"[dim]… and {hidden} more in {escape(lake.path('findings'))}[/dim]")
    console.print()
    console.print(f"[bold]{escape(verdict(tables['findings'], tables['check_results']))}[/bold]")
    console.print(f"[dim]Delta tables: {escape(lake.root)}[/dim]")


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
        f"\n{counted(run['file_count'], 'file')}, {run['batch_count']:,} record batches read, "
        f"{run['new_batch_count']:,} of them new contents with {run['record_count']:,} records; "
        f"checks: {checks or 'none yet'}\n"
    )


_RESULTS = ("passed", "failed", "errored", "skipped")
