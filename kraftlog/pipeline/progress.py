"""What a run is doing, on stderr: one line per step, with how long it took.

Quiet where stderr is no terminal and nobody asked: a scheduled job's log holds one line per
finished step.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def step(name: str) -> Iterator[None]:
    """Say what is being done while it lasts, and how long it took when it has ended."""
    console = Console(file=sys.stderr, highlight=False)
    began = time.monotonic()
    if console.is_terminal:
        with console.status(f"{name} …"):
            yield
    else:
        yield
    console.print(f"{name}: {time.monotonic() - began:.1f} s", style="dim")
