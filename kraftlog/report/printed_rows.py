"""Print rows: JSON lines for scripts, a table for people.

In: an iterator of dicts. Out: text on stdout, nothing else there. JSON streams; a table needs the
widths of a block of rows. Rows that are too wide for the terminal stand one below the other, a line
per column.
"""

import json
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import zip_longest
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
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
) -> None:
    """Print every row. `readable` changes rows for a table only."""
    out = out or sys.stdout
    if form == "json":
        _print_json(rows, out)
    else:
        _print_table(map(readable, rows), out)


def _print_json(rows: Iterable[Row], out: TextIO) -> None:
    """ASCII only: a value that holds one of Unicode's line separators must not break the line."""
    for row in rows:
        out.write(json.dumps(row, separators=(",", ":"), default=_plain) + "\n")


def _plain(value: Any) -> str:
    """A time, as ISO 8601; rows hold nothing else that JSON does not know."""
    return value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else str(value)


def _print_table(rows: Iterable[Row], out: TextIO) -> None:
    """Blocks of rows with the same columns; each block is one table."""
    console = console_on(out)
    count = 0
    block: list[Row] = []
    for row in rows:
        if block and (block[0].keys() != row.keys() or len(block) == _BLOCK):
            _print_block(console, block, count)
            block = []
        block.append(row)
        count += 1
    if block:
        _print_block(console, block, count)


def _print_block(console: Console, block: list[Row], end: int) -> None:
    """One table, or the rows one below the other; `end` counts the rows up to its last."""
    cells = [[_cell(value) for value in row.values()] for row in block]
    names = list(block[0])
    wanted = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    needed = sum(min(one, _LEAST_WIDTH) + _GAP for one in wanted) - _GAP
    if needed <= console.width:
        lines = _side_by_side(console, block, cells, wanted)
    else:
        lines = _upright(console, names, cells, end - len(block) + 1)
    for line in lines:
        console.file.write(f"{line}\n")


def _side_by_side(
    console: Console, block: list[Row], cells: list[list[str]], wanted: list[int]
) -> Iterator[str]:
    """A line per row, or more where columns have to give way: the widest ones, down to one width."""
    room = console.width - _GAP * (len(wanted) - 1)
    limits = range(max(wanted) + 1)
    fits = bisect_right(limits, room, key=lambda limit: sum(min(one, limit) for one in wanted))
    widths = [min(one, fits - 1) for one in wanted]
    numbers = [all(isinstance(row[name], int | None) for row in block) for name in block[0]]
    bold, plain = _codes(console, "bold")
    for line in _lines(console, list(block[0]), widths, numbers):
        yield f"{bold}{line}{plain}"
    for row in cells:
        yield from _lines(console, row, widths, numbers)


def _lines(
    console: Console, row: list[str], widths: list[int], numbers: list[bool]
) -> Iterator[str]:
    """The lines of one row of a table; numbers stand to the right."""
    parts = [_folded(console, cell, width) for cell, width in zip(row, widths, strict=True)]
    for line in zip_longest(*parts, fillvalue=""):
        padded = [
            " " * (width - cell_len(part)) + part
            if number
            else part + " " * (width - cell_len(part))
            for part, width, number in zip(line, widths, numbers, strict=True)
        ]
        yield (" " * _GAP).join(padded).rstrip()


def _upright(
    console: Console, names: list[str], cells: list[list[str]], first: int
) -> Iterator[str]:
    """Rows one below the other, a line per column; `first` counts the first of them."""
    (bold, plain), (dim, bright) = _codes(console, "bold"), _codes(console, "dim")
    label = max(map(len, (*names, f"row {first + len(cells)}"))) + _GAP
    width = max(console.width - label, 1)
    for number, row in enumerate(cells, first):
        yield f"{bold}row {number}{plain}"
        for name, cell in zip(names, row, strict=True):
            head, *more = _folded(console, cell, width)
            yield f"{dim}{name:{label}}{bright}{head}"
            yield from (" " * label + one for one in more)


def _folded(console: Console, cell: str, width: int) -> list[str]:
    """The lines of a cell in a column."""
    if cell_len(cell) <= width:
        return [cell]
    return [line.plain.rstrip() for line in Text(cell).wrap(console, width, overflow="fold")]


def _codes(console: Console, style: str) -> tuple[str, str]:
    """What a style begins and ends with on a console: rich lays out and colours line by line, which
    takes milliseconds per row.
    """
    with console.capture() as said:
        console.print(Text("|", style), end="")
    before, _, after = said.get().partition("|")
    return before, after


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return printable(str(value))
