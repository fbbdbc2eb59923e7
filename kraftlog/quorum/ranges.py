"""At which offsets a state can be rebuilt: the one home of that rule.

In: bases and unbroken runs. Out: ranges of offsets. Source: KIP-630 "Motivation", KAFKA-14205.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

Range = tuple[int, int]
"""Offsets with both ends included."""


def rebuildable(bases: Iterable[int], runs: Sequence[tuple[int, int]]) -> list[Range]:
    """The offsets at which a state can be rebuilt: sorted ranges with both ends included.

    `bases` are the ends of snapshots, and 0 for a log that begins there; `runs` are the offsets
    [start, end) that the log holds without a gap, sorted. From a base on, the state is known as far
    as the log goes on from it.
    """
    starts = [start for start, _ in runs]
    ranges: list[Range] = []
    for base in sorted(bases):
        index = bisect_right(starts, base) - 1
        end = max(base, runs[index][1]) if index >= 0 else base
        if ranges and base <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], end))
        else:
            ranges.append((base, end))
    return ranges


def gaps(ranges: Iterable[Range], start: int, end: int) -> Iterator[Range]:
    """What of [start, end] the ranges leave out."""
    for low, high in sorted(ranges):
        if low > start:
            yield start, min(low - 1, end)
        start = max(start, high + 1)
        if start > end:
            return
    if start <= end:
        yield start, end
