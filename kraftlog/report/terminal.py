"""One console for everything that is printed for people.

Colours only on a terminal, and not where NO_COLOR is set (rich sees to both). Tables fit the
terminal; where there is none, COLUMNS decides, else they are wide, and sentences stay on one line
each, so that grep finds them whole.
"""

import os
import sys
from typing import NoReturn, TextIO

from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 200


class _Console(Console):
    """A console that leaves it to the command what a reader who has gone means (`| head`)."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def console_on(out: TextIO | None = None) -> Console:
    """A console on a stream (default: stdout)."""
    stream = out or sys.stdout
    terminal = stream.isatty()
    known = terminal or os.environ.get("COLUMNS", "").isdecimal()
    width = None if known else WIDTH_WITHOUT_TERMINAL
    return _Console(file=stream, highlight=False, soft_wrap=not terminal, width=width)
