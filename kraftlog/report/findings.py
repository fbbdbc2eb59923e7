"""Findings for a person: the worst first, one line each, then a verdict in one sentence."""

import json
import sys
from collections import Counter
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape

Row = dict[str, Any]

TAIL = "uncommitted_tail_diverged"
_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim"}
_RANK = {"critical": 0, "warning": 1, "info": 2}


def print_findings(
    rows: list[Row], input_name: str | None = None, out: TextIO | None = None
) -> None:
    """Print the findings among an audit's rows, what was skipped or broke, and the verdict."""
    console = console_on(out)
    if input_name is not None:
        console.print(f"[bold]{escape(input_name)}[/bold]")
    findings = [row for row in rows if row["result"] == "failed"]
    for finding in worst_first(findings):
        console.print(finding_text(finding))
    for row in rows:
        if row["result"] in ("errored", "skipped"):
            text = f"{row['result']}: {row['check']}: {row['message']}"
            console.print(f"[dim]{escape(text)}[/dim]")
    console.print(f"[bold]{escape(verdict(findings, rows))}[/bold]")


def console_on(out: TextIO | None = None) -> Console:
    """A console that wraps at the terminal's width, and not at all where there is none."""
    stream = out or sys.stdout
    return Console(file=stream, highlight=False, soft_wrap=not stream.isatty())


def worst_first(findings: list[Row]) -> list[Row]:
    """Critical before warning before info; otherwise as they came."""
    return sorted(findings, key=lambda row: _RANK.get(row["severity"], 3))


def finding_text(finding: Row) -> str:
    """One finding as a line of markup."""
    style = _STYLES.get(finding["severity"], "")
    where = f" [{finding['replica']}]" if finding["replica"] else ""
    mark = finding["severity"].upper()
    text = escape(f"{finding['check']}{where} {finding['message']}")
    return f"[{style}]{mark:8}[/{style}] {text}"


def verdict(findings: list[Row], results: list[Row]) -> str:
    """The whole audit in one sentence. `results` has a row per check that broke."""
    count = Counter(row["severity"] for row in findings)
    errored = [row["check"] for row in results if row["result"] == "errored"]
    parts = []
    if count["critical"]:
        what = counted(count["critical"], "critical finding")
        parts.append(f"{what}: settle the first one before you restart any node")
    parts += _tails([row for row in findings if row["check"] == TAIL])
    if errored:
        parts.append(f"{counted(len(errored), 'check')} could not be run: {listed(errored)}")
    if not parts and count["warning"]:
        parts.append(f"nothing critical; {counted(count['warning'], 'warning')} to look at")
    if not parts:
        return "No damage and no divergence: every check that could be run has passed."
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def _tails(findings: list[Row]) -> list[str]:
    if not findings:
        return []
    names = sorted({_who(row) for row in findings}, reverse=True)
    start = min(row["offset"] for row in findings)
    verb = "carries" if len(names) == 1 else "carry"
    return [
        f"{listed(names)} {verb} an uncommitted tail from offset {start} that a restart will cut"
    ]


def _who(finding: Row) -> str:
    """The replica as its finding calls it (controller 2); a lake holds the evidence as text."""
    evidence = finding["evidence"]
    known = json.loads(evidence) if isinstance(evidence, str) else evidence
    return str(known.get("who") or f"replica {finding['replica']}")


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 finding, 1,234 findings."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: list[str]) -> str:
    """Names in a sentence: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
