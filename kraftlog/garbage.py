"""How often Python looks for cycles of objects that hold each other.

What a run holds are rows, hundreds of thousands of lists and dicts of which none is part of a cycle.
Each look goes through all of them, again and again as they become more: a fifth of the driver's
time for a quorum of 200,000 partitions. Objects that nothing holds go at once, without any look.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = 200_000, 20, 100
"""New objects until a look at those, such looks until one at what they left, and such until all are
looked at (Python's own: 700, 10, 10)."""


@contextmanager
def not_looked_for_in_what_is_there() -> Iterator[None]:
    """The same in a process that does one piece of work after the other, and is asked to look at all
    it has in between, as PySpark's workers are after each task: what is there before the work, which
    is modules and what they keep, is no longer looked at.
    """
    gc.freeze()
    with seldom_looked_for():
        yield


@contextmanager
def seldom_looked_for() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
