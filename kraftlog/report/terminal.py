"""One console for everything that is printed for people.

Colours only on a terminal, and not where NO_COLOR is set (rich sees to both), unless `--color` says
otherwise. Tables fit the terminal; where there is none, COLUMNS decides, else they are wide, and
sentences stay on one line each, so that grep finds them whole.
"""

import os
import sys
from typing import Any, TextIO

from rich.console import Console

from kraftlog.plain import silence

WIDTH_WITHOUT_TERMINAL = 200
AUTO, ALWAYS, NEVER = COLORS = ("auto", "always", "never")
_CHOSEN = [AUTO]


def choose_color(choice: str) -> None:
    """What `--color` says, for all consoles of this process."""
    _CHOSEN[:] = [choice]


class _Console(Console):
    """A console that leaves it to the command what a reader of its answer who has gone means
    (`| head`); that nobody reads its progress stops nothing.
    """

    def on_broken_pipe(self) -> None:
        if self.file is not sys.stderr:
            raise BrokenPipeError
        silence(sys.stderr)


def plain_console(stream: TextIO, **more: Any) -> Console:
    """A console whose colours are as they were chosen."""
    if _CHOSEN == [NEVER]:
        more["color_system"] = None
    elif _CHOSEN == [ALWAYS]:
        # The sixteen colours that everything has, as nothing is known of the reader.
        more |= {"color_system": "standard", "no_color": False}
    return _Console(file=stream, highlight=False, **more)


def console_on(out: TextIO | None = None) -> Console:
    """A console on a stream (default: stdout)."""
    stream = out or sys.stdout
    terminal = stream.isatty()
    known = terminal or os.environ.get("COLUMNS", "").isdecimal()
    width = None if known else WIDTH_WITHOUT_TERMINAL
    return plain_console(stream, soft_wrap=not terminal, width=width)
