"""In how many pieces a log goes over the wire.

In: sizes in bytes and limits. Out: positions and lengths. Pure. Source: KIP-595, KIP-1219.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kraftlog.quorum.evidence import Longs


class Span(NamedTuple):
    """One response: bytes [position, position + size_bytes)."""

    position: int
    size_bytes: int


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
