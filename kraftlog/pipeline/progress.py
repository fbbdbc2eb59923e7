"""What a run is doing, on stderr: a live line on a terminal, plain lines elsewhere.

On a terminal the line tells the step, how long it has been at it, and how many of Spark's tasks are
done. Elsewhere a scheduled job's log holds one line per finished step, and one every half minute
of a long one.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from kraftlog.report.terminal import plain_console

_LIVE_SECONDS, _PLAIN_SECONDS = 0.5, 30.0


@contextmanager
def step(name: str) -> Iterator[None]:
    """Say what is being done while it lasts, and how long it took when it has ended."""
    console = plain_console(sys.stderr)
    began = time.monotonic()
    with _watched(console, name, plain=True):
        yield
    console.print(f"{name}: {time.monotonic() - began:.1f} s", style="dim")


@contextmanager
def waiting(name: str) -> Iterator[None]:
    """The live line alone: for commands whose only output is their rows."""
    console = plain_console(sys.stderr)
    with _watched(console, name, plain=False):
        yield


@contextmanager
def _watched(console: Console, name: str, *, plain: bool) -> Iterator[None]:
    if console.is_terminal:
        with console.status(f"{name} …") as status, _ticking(_LIVE_SECONDS, status.update, name):
            yield
    elif plain:
        with _ticking(_PLAIN_SECONDS, lambda text: console.print(text, style="dim"), name):
            yield
    else:
        yield


@contextmanager
def _ticking(seconds: float, tell: Callable[[str], None], name: str) -> Iterator[None]:
    """Tell every so many seconds how far the step is, in a thread of its own."""
    ended, began = threading.Event(), time.monotonic()

    def tick() -> None:
        while not ended.wait(seconds):
            tell(f"{name} … {time.monotonic() - began:.0f} s{_tasks()}")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=1)


def _tasks() -> str:
    """How many of the tasks of Spark's running jobs are done; nothing where Spark is not at work.

    Spark is asked only where something else has imported it already."""
    spark = sys.modules.get("pyspark")
    try:
        context = None if spark is None else spark.SparkContext._active_spark_context
        if context is None:
            return ""
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(one) for one in tracker.getActiveJobsIds()]
        stages = [tracker.getStageInfo(one) for job in jobs if job for one in job.stageIds]
    # A context that starts or stops at this moment must not end a run.
    except Exception:
        return ""
    total = sum(one.numTasks for one in stages if one)
    done = sum(one.numCompletedTasks for one in stages if one)
    return f", {done:,} of {total:,} tasks" if total else ""
