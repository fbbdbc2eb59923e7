"""Print rows: JSON lines for scripts, a table for people.

In: an iterator of dicts. Out: text on stdout, nothing else there. JSON streams; a table needs the
widths of a block of rows.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

FORMATS = ("table", "json")
_BLOCK = 500


def print_rows(rows: Iterable[dict[str, Any]], form: str, out: TextIO | None = None) -> int:
    """Print every row; returns how many there were."""
    out = out or sys.stdout
    return _print_json(rows, out) if form == "json" else _print_table(rows, out)


def _print_json(rows: Iterable[dict[str, Any]], out: TextIO) -> int:
    """ASCII only: a value that holds one of Unicode's line separators must not break the line."""
    count = 0
    for row in rows:
        out.write(json.dumps(row, separators=(",", ":")) + "\n")
        count += 1
    return count


def _print_table(rows: Iterable[dict[str, Any]], out: TextIO) -> int:
    """Blocks of rows with the same columns; each block is one table."""
    console = Console(file=out, highlight=False, width=None if out.isatty() else 200)
    count = 0
    block: list[dict[str, Any]] = []
    for row in rows:
        if block and (block[0].keys() != row.keys() or len(block) == _BLOCK):
            console.print(_table(block))
            block = []
        block.append(row)
        count += 1
    if block:
        console.print(_table(block))
    return count


def _table(block: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in block[0]:
        numbers = all(isinstance(row[name], int) or row[name] is None for row in block)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in block:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value).replace("[", "\\[")
