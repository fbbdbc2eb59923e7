"""The first rows of each kind, and how many more there are: what is told of a thing that may come by
the million.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

FINDING_LIMIT = 20
"""So many findings of one check are told apart for one replica and kind, and so many issues of one batch
are kept; the last of them counts the rest.
"""
T = TypeVar("T")


def capped(
    rows: Iterable[T],
    kind_of: Callable[[T], Hashable] = lambda row: None,
    more_of: Callable[[T], int] = lambda row: 0,
) -> Iterator[tuple[T, int]]:
    """(row, how many more it stands for) of the first rows of each kind: the last of these stands
    for all of its kind that are not told, others only for those that they stood for before.
    """
    told: list[tuple[T, int]] = []
    counts: Counter[Hashable] = Counter()
    last: dict[Hashable, int] = {}
    for row in rows:
        kind, more = kind_of(row), more_of(row)
        counts[kind] += 1
        if counts[kind] <= FINDING_LIMIT:
            last[kind] = len(told)
            told.append((row, more))
        else:
            _, known = told[last[kind]]
            told[last[kind]] = told[last[kind]][0], known + 1 + more
    yield from told
