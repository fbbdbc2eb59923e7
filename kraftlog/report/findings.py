"""Findings on the terminal: grouped by what to do, the worst first, then the verdict.

On a terminal they are wrapped beside their severity; elsewhere each is one line, for grep.
"""

from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kraftlog.audit.runner import ERRORED
from kraftlog.config import THRESHOLDS, ValueSource
from kraftlog.plain import natural, printable
from kraftlog.relations import Row
from kraftlog.report.actions import grouped
from kraftlog.report.answer import Answers, answer_of
from kraftlog.report.headline import headline
from kraftlog.report.judgement import Judged
from kraftlog.report.once import called_in, findings_once
from kraftlog.report.terminal import console_on

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim", "ok": "green"}


def print_findings(
    judged: Judged, input_name: str | None = None, out: TextIO | None = None
) -> None:
    """Print the answer, the findings, what was not judged or broke, limits that are not the usual
    ones, and the verdict.
    """
    console = console_on(out)
    if input_name is not None:
        console.print(f"[bold]{escape(printable(input_name))}[/bold]")
    print_answer(console, judged)
    _print_gaps(console, judged)
    _print_limits(console, judged.settings)
    if judged.verdict:
        print_verdict(console, judged, called_in(judged.restart))


def print_answer(console: Console, judged: Judged, limit: int | None = None) -> int:
    """Print the answer, and the findings under what they ask for, at most so many; returns how many
    were left out.
    """
    answer = answer_of(judged.restart, judged.verdict, judged.findings)
    _print_answer(console, answer)
    findings = [answer.beside(one) for one in judged.findings]
    return _print_groups(console, findings, limit, called_in(judged.restart))


def _print_answer(console: Console, answer: Answers) -> None:
    """May I restart, what is lost, what must I do."""
    if answer.restart:
        console.print("[bold]May I restart?[/bold]")
        _print_line(console, Text(answer.sentence, style="bold"))
        for one in answer.restart:
            mark = Text(f"{one.may:14}", style=_STYLES[one.colour])
            _print_marked(console, mark, f"{one.nodes}: {one.why}")
        if answer.order:
            _print_line(console, Text(answer.order))
    if answer.lost:
        console.print("[bold]What is lost?[/bold]")
        for lost in answer.lost:
            _print_line(console, Text(f"{lost.nodes}, from offset {lost.start} on{lost.doubt}:"))
            for title, names in lost.lists:
                text = f"{title}{': ' if names else ''}{'; '.join(names)}"
                _print_line(console, Text(text), indent=4)
        _print_line(console, Text(ALL_LOST, style="dim"))
    if answer.todo:
        console.print("[bold]What must I do?[/bold]")
        for number, todo in enumerate(answer.todo, 1):
            _print_marked(console, Text(f"{number}."), f"{todo.title}: {todo.text}")
    if answer.restart:
        console.print()


ALL_LOST = "all of it, field by field: kraftlog plan restart --input … --format json"


def _print_line(console: Console, text: Text, indent: int = 2) -> None:
    text = Text(printable(text.plain), style=text.style)
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, indent)))
    else:
        console.print(Text.assemble(" " * indent, text))


def _print_marked(console: Console, mark: Text, words: str) -> None:
    """A line; on a terminal wrapped beside its mark."""
    text = Text(printable(words))
    if not console.is_terminal:
        console.print(Text.assemble("  ", mark, " ", text))
        return
    beside = Table.grid(padding=(0, 1))
    beside.add_column(no_wrap=True)
    beside.add_column(overflow="fold")
    beside.add_row(Text.assemble("  ", mark), text)
    console.print(beside)


def _print_gaps(console: Console, judged: Judged) -> None:
    """Checks that broke, then for each reason the checks that could not judge everything."""
    told: dict[str, list[str]] = {}
    for check, why in judged.verdict.get("not_judged", ()):
        told.setdefault(why, []).append(check)
    for row in judged.checks:
        if row["result"] == ERRORED:
            _print_dim(console, f"errored: {row['check']}: {row['reason']}")
    for why, checks in told.items():
        _print_dim(console, f"not judged: {', '.join(checks)}: {why}")


def _print_limits(console: Console, settings: Sequence[Row]) -> None:
    """The limits of checks that somebody has set: what was found depends on them."""
    given = [
        f"{row['setting']} {row['value']} ({row['path'] or row['source']})"
        for row in settings
        if row["setting"] in THRESHOLDS and row["source"] != ValueSource.DEFAULT
    ]
    if given:
        _print_dim(console, f"limits that were set: {', '.join(given)}")


def _print_dim(console: Console, text: str) -> None:
    console.print(f"[dim]{escape(printable(text))}[/dim]")


def print_verdict(console: Console, judged: Judged, names: Mapping[str, str]) -> None:
    """The last word; `names` says what replicas are called."""
    text = headline(judged.verdict, judged.findings, judged.checks, names)
    console.print(f"[bold]{escape(printable(text))}[/bold]")


def _print_groups(
    console: Console, findings: list[Row], limit: int | None, names: Mapping[str, str]
) -> int:
    left = len(findings) if limit is None else limit
    for action, held in grouped(findings):
        if left > 0:
            console.print(f"[bold]{action.title}[/bold]")
        for finding in findings_once(held[: max(0, left)], names):
            _print_finding(console, finding)
        left -= len(held)
    return max(0, -left)


def place_of(finding: Row) -> str:
    """The replica of a finding: its node first where the folder is called otherwise; of one that
    stands for several, all of them.
    """
    places = []
    for row in (finding, *finding.get("same", ())):
        label, node = str(row["replica"]), row["node_id"]
        named = node is None or label.rsplit("/", 1)[-1] == str(node)
        places.append(label if named else f"node {node} in {label}")
    return ", ".join(sorted(dict.fromkeys(places), key=natural))


def _print_finding(console: Console, finding: Row) -> None:
    where = f" [{place_of(finding)}]" if finding["replica"] else ""
    mark = Text(f"{finding['severity'].upper():8}", style=_STYLES.get(finding["severity"], ""))
    _print_marked(console, mark, f"{finding['check']}{where} {finding['message']}")
