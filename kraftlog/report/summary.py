"""The summary of a run on the terminal: the answer, the findings by what to do, the replicas, what
was read, a verdict in one sentence, and where to read on.

In: what the audit of a lake's newest run says, and its other tables. Out: text for a person. The page and the tables hold the
details.
"""

from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kraftlog.plain import counted, printable
from kraftlog.relations import Row
from kraftlog.report.findings import print_answer, print_verdict
from kraftlog.report.from_lake import batches_read
from kraftlog.report.headline import outcome_words
from kraftlog.report.judgement import Judged
from kraftlog.report.terminal import console_on
from kraftlog.report.view import names_of, replicas_in_order
from kraftlog.tables.lake import Lake

_FINDINGS_SHOWN = 20
_NARROW = 80
_COLUMNS = ("replica", "node", "role", "log start", "log end", "epoch", "snapshots", "committed")
_NARROW_COLUMNS = ("replica", "role", "log end", "committed")


def print_summary(lake: Lake, judged: Judged, page: str | None, *, is_new: bool) -> None:
    """Print what the audit of the lake's newest run says, and where its page lies; `is_new` is false
    where an earlier command has run it, and this one found nothing to read.
    """
    run = lake.rows("runs").sort_by("number").to_pylist()[-1]
    replicas = lake.rows_of_run("replicas", run["run_id"])
    console = console_on()
    console.print()
    hidden = print_answer(console, judged, _FINDINGS_SHOWN)
    if hidden:
        console.print(f"[dim]… and {hidden} more in {escape(lake.path('findings'))}[/dim]")
    if judged.findings:
        console.print()
    columns = _NARROW_COLUMNS if console.width < _NARROW else _COLUMNS
    console.print(_replica_table(replicas, columns))
    checks = outcome_words(judged.checks, judged.findings) or "none yet"
    console.print(f"\n{_read(run) if is_new else _unread(run)}; checks: {checks}\n")
    print_verdict(console, judged, names_of(replicas, judged.restart))
    if page is not None:
        console.print(f"[dim]Page: {escape(page)}[/dim]")
    console.print(f"[dim]Delta tables: {escape(lake.root)}[/dim]")


def _replica_table(replicas: list[Row], names: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        left = name in ("replica", "role")
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    for row in replicas_in_order(replicas):
        cells = _cells(row)
        shown = (cells[name] for name in names)
        table.add_row(*("-" if one is None else Text(printable(str(one))) for one in shown))
    return table


def _cells(row: Row) -> dict[str, Any]:
    return {
        "replica": row["replica"],
        "node": row["node_id"],
        "role": row["role"],
        "log start": row["log_start_offset"],
        "log end": row["log_end_offset"],
        "epoch": row["last_epoch"],
        "snapshots": len(row["snapshots"] or []),
        "committed": _committed(row["committed_lower"], row["committed_upper"]),
    }


def _committed(lower: int | None, upper: int | None) -> str | None:
    """Below which offset everything is committed; one number where both ends are proven; nothing of
    another cluster's copy.
    """
    if lower is None:
        return None
    if upper is None:
        return f"at least {lower}"
    return str(lower) if upper == lower else f"{lower} … {upper}"


def _read(run: Row) -> str:
    changed = f"{run['read_file_count']:,} of them new or changed"
    return f"{counted(run['file_count'], 'file')}, {changed}: {batches_read(run)}"


def _unread(run: Row) -> str:
    return f"Nothing new: {counted(run['file_count'], 'file')} as run {run['number']} found them at {run['started']:%Y-%m-%d %H:%M:%S} UTC"
