"""In how many pieces a snapshot or a log goes over the wire, and how one response is divided.

In: sizes in bytes and limits. Out: positions and lengths. Pure. Source: KIP-630 "Request
Handling", KIP-1219.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kraftlog.errors import UsageError
from kraftlog.quorum.evidence import Longs


class Span(NamedTuple):
    """One response: bytes [position, position + size_bytes)."""

    position: int
    size_bytes: int


def snapshot_chunks(size_bytes: int, max_bytes: int, position: int = 0) -> Iterator[Span]:
    """The responses that bring a snapshot from a position on: each of exactly the limit, the last
    of the rest.

    Raises UsageError for a limit below 1 byte.
    """
    if max_bytes < 1:
        raise UsageError(f"a fetch limit must be at least 1 byte, not {max_bytes}")
    for begin in range(position, size_bytes, max_bytes):
        yield Span(begin, min(max_bytes, size_bytes - begin))


def log_chunks(batch_sizes: Longs, max_bytes: int) -> Iterator[Span]:
    """The responses to one Fetch after the other: whole batches, and always one, however large it
    is, so that a fetch never comes back empty. Positions count from the first batch.
    """
    ends = np.cumsum(np.asarray(batch_sizes, np.int64))
    row, begin = 0, 0
    while row < len(ends):
        after = max(int(np.searchsorted(ends, begin + max_bytes, "right")), row + 1)
        end = int(ends[after - 1])
        yield Span(begin, end - begin)
        row, begin = after, end


def shares(limit_bytes: int, remaining: Sequence[int]) -> list[int]:
    """How many bytes of one response each partition gets: at least the average where it has as many
    left, and what others do not need.

    The sum is the limit, or everything that is left; so any limit of a byte or more moves on.
    """
    found = [0] * len(remaining)
    left = max(limit_bytes, 0)
    # From the smallest on, what one leaves raises the average of those after it.
    order = sorted(range(len(remaining)), key=lambda index: remaining[index])
    for place, index in enumerate(order):
        found[index] = min(max(remaining[index], 0), left // (len(order) - place))
        left -= found[index]
    return found
