"""How long a replica takes to catch up: the snapshot in chunks, the log after it, and loading both.

In: sizes, a link, and the most that one request fetches. Out: milliseconds. Source: R4, R5,
KIP-1219 (R150–R152), KIP-630 "FetchSnapshot".
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kraftlog.audit.evidence import Longs
from kraftlog.metrics.sizes import MIB

FETCH_BYTES = MIB
"""Default of controller.quorum.fetch.max.bytes and …fetch.snapshot.max.bytes since KIP-1219."""
OLD_FETCH_BYTES = 8 * MIB
"""What was built in before."""
FETCH_TIMEOUT_MS = 2_000
"""Default of controller.quorum.fetch.timeout.ms: a voter that has fetched nothing for so long
starts an election.
"""
CHUNKS = tuple(FETCH_BYTES // 16 << power for power in range(9))
"""64 KiB to 16 MiB."""


@dataclass(frozen=True, slots=True)
class Link:
    """A way between two controllers: `rtt_ms` there and back, and bytes per second."""

    name: str
    rtt_ms: float
    bytes_per_second: float


LINKS = (
    Link("one rack, 10 Gbit/s, 0.2 ms", 0.2, 1.25e9),
    Link("one region, 1 Gbit/s, 2 ms", 2.0, 1.25e8),
    Link("two continents, 100 Mbit/s, 100 ms", 100.0, 1.25e7),
    Link("slow and far, 4 Mbit/s, 200 ms", 200.0, 5e5),
)
"""Examples from a rack to the slow but reliable connection that KIP-1219 is about."""


def request_ms(size_bytes: float, link: Link) -> float:
    """One request and its answer of so many bytes."""
    return link.rtt_ms + size_bytes / link.bytes_per_second * 1000


def transfer_ms(size_bytes: int, chunk_bytes: int, link: Link) -> float:
    """One request after the other, each of at most `chunk_bytes`; the last one takes the rest."""
    whole, rest = divmod(size_bytes, chunk_bytes)
    return whole * request_ms(chunk_bytes, link) + (request_ms(rest, link) if rest else 0.0)


def slowdown(size_bytes: int, chunk_bytes: int, link: Link, than_bytes: int) -> float | None:
    """How many times as long as with chunks of `than_bytes`."""
    usual = transfer_ms(size_bytes, than_bytes, link)
    return transfer_ms(size_bytes, chunk_bytes, link) / usual if usual else None


def fits_timeout(chunk_bytes: int, link: Link, timeout_ms: int = FETCH_TIMEOUT_MS) -> bool:
    """Whether a chunk arrives before the fetcher gives up and starts an election: where it does
    not, the replica never catches up (KAFKA-19541).
    """
    return request_ms(chunk_bytes, link) < timeout_ms


def recommended_chunk_bytes(
    link: Link, timeout_ms: int = FETCH_TIMEOUT_MS, chunks: Iterable[int] = CHUNKS
) -> int:
    """The largest chunk that needs at most half of the timeout, as links have bad moments; the
    smallest one where none does.
    """
    fitting = [one for one in chunks if fits_timeout(one, link, timeout_ms // 2)]
    return max(fitting, default=min(chunks))


def fetch_sizes(batch_sizes: Longs, max_bytes: int) -> list[int]:
    """The answers to one Fetch after the other: whole batches, and always at least one (R147)."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(batch_sizes)])
    answers, row = [], 0
    while row < len(batch_sizes):
        end = int(np.searchsorted(before, before[row] + max_bytes, "right")) - 1
        end = max(end, row + 1)
        answers.append(int(before[end] - before[row]))
        row = end
    return answers


def fetch_count(batch_sizes: Longs, max_bytes: int) -> int:
    """How many Fetch requests bring these batches."""
    return len(fetch_sizes(batch_sizes, max_bytes))


def load_ms(snapshot_bytes: float, debt_bytes: float, bytes_per_second: float) -> float:
    """Predicted load time of a node that starts: its snapshot, and its replay debt (R4)."""
    return (snapshot_bytes + debt_bytes) / bytes_per_second * 1000
