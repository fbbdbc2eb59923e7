"""Print rows: JSON lines for scripts, a table for people.

In: an iterator of dicts. Out: text on stdout, nothing else there. JSON streams; a table needs the
widths of a block of rows. Rows that are too wide for the terminal stand one below the other, a line
per column.
"""

import json
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kraftlog.plain import printable
from kraftlog.relations import Row
from kraftlog.report.terminal import console_on

_BLOCK = 500
_LEAST_WIDTH, _GAP = 24, 2
"""A column that is folded below this width cannot be read any more."""


def print_rows(
    rows: Iterable[Row],
    form: str,
    out: TextIO | None = None,
    *,
    readable: Callable[[Row], Row] = lambda row: row,
) -> int:
    """Print every row; returns how many there were. `readable` changes rows for a table only."""
    out = out or sys.stdout
    return _print_json(rows, out) if form == "json" else _print_table(map(readable, rows), out)


def _print_json(rows: Iterable[dict[str, Any]], out: TextIO) -> int:
    """ASCII only: a value that holds one of Unicode's line separators must not break the line."""
    count = 0
    for row in rows:
        out.write(json.dumps(row, separators=(",", ":"), default=_plain) + "\n")
        count += 1
    return count


def _plain(value: Any) -> str:
    """A time, as ISO 8601; rows hold nothing else that JSON does not know."""
    return value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else str(value)


def _print_table(rows: Iterable[dict[str, Any]], out: TextIO) -> int:
    """Blocks of rows with the same columns; each block is one table."""
    console = console_on(out)
    count = 0
    block: list[dict[str, Any]] = []
    for row in rows:
        if block and (block[0].keys() != row.keys() or len(block) == _BLOCK):
            _print_block(console, block, count)
            block = []
        block.append(row)
        count += 1
    if block:
        _print_block(console, block, count)
    return count


def _print_block(console: Console, block: list[dict[str, Any]], end: int) -> None:
    """One table, or the rows one below the other; `end` counts the rows up to its last."""
    cells = [[_cell(value) for value in row.values()] for row in block]
    columns = zip(block[0], *cells, strict=True)
    needed = sum(min(max(map(len, column)), _LEAST_WIDTH) + _GAP for column in columns) - _GAP
    if needed <= console.width:
        console.print(_table(block, cells))
        return
    for number, row in enumerate(cells, end - len(block) + 1):
        console.print(_upright(number, list(block[0]), row))


def _table(block: list[dict[str, Any]], cells: list[list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in block[0]:
        numbers = all(isinstance(row[name], int) or row[name] is None for row in block)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


def _upright(number: int, names: list[str], row: list[str]) -> Table:
    """One row, a line per column."""
    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    table.add_column(f"row {number}", style="dim", no_wrap=True)
    table.add_column("", overflow="fold")
    for name, cell in zip(names, row, strict=True):
        table.add_row(name, Text(cell))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return printable(str(value))
