"""Whether a slow but reliable link ever lets a node fetch a snapshot, and how long that takes.

In: sizes in bytes, a link, a limit per request, the fetch timeout. Out: times in ms. Pure. Source:
KIP-1219 (KAFKA-19541).
"""

from dataclasses import dataclass

from kraftlog.errors import UsageError
from kraftlog.quorum.joining import (
    DEFAULT_FETCH_BYTES,
    FETCH_TIMEOUT_MS,
    FORMER_FETCH_BYTES,
)


@dataclass(frozen=True, slots=True)
class Link:
    """A way to the leader: bytes per second, and the time there and back of an empty request."""

    bandwidth_bytes_per_s: int
    round_trip_ms: float

    def __post_init__(self) -> None:
        if self.bandwidth_bytes_per_s < 1 or self.round_trip_ms < 0:
            raise UsageError("a link needs a bandwidth above 0 and a round trip of 0 ms or more")

    def response_ms(self, size_bytes: int) -> float:
        """One request, and its answer of so many bytes."""
        return self.round_trip_ms + size_bytes * 1000 / self.bandwidth_bytes_per_s

    def fits(self, size_bytes: int, timeout_ms: int = FETCH_TIMEOUT_MS) -> bool:
        """Whether an answer arrives within the fetch timeout. Where it does not, the request is
        cancelled and the node becomes a candidate, again and again.
        """
        return self.response_ms(size_bytes) <= timeout_ms


EXAMPLE_LINKS = (
    Link(62_500, 100),
    Link(500_000, 100),
    Link(1_250_000, 50),
    Link(12_500_000, 20),
    Link(125_000_000, 1),
)
"""500 kbit/s, 500 kB/s (the seed's figure in either reading), 10, 100 and 1000 Mbit/s."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A snapshot of `size_bytes` over a link, `chunk_bytes` per request, one after the other."""

    size_bytes: int
    link: Link
    chunk_bytes: int = DEFAULT_FETCH_BYTES
    timeout_ms: int = FETCH_TIMEOUT_MS

    def __post_init__(self) -> None:
        if self.chunk_bytes < 1 or self.timeout_ms < 0:
            raise UsageError("a chunk must be above 0, and a fetch timeout 0 or more")

    @property
    def request_count(self) -> int:
        """The size by the chunk, rounded up."""
        return -(-self.size_bytes // self.chunk_bytes)

    @property
    def transfer_ms(self) -> float:
        """KIP-1219: a round trip per request, and every byte once."""
        return self.request_count * self.link.round_trip_ms + (
            self.size_bytes * 1000 / self.link.bandwidth_bytes_per_s
        )

    @property
    def longest_response_ms(self) -> float:
        """The first one: no later one is larger."""
        return self.link.response_ms(min(self.chunk_bytes, self.size_bytes))

    @property
    def finishes(self) -> bool:
        """Whether the fetch timeout ever lets it finish. The links of this model are reliable: what
        fits once fits every time.
        """
        return self.longest_response_ms <= self.timeout_ms

    @property
    def slowdown(self) -> float:
        """How many times as long as with the former 8 MiB per request, timeouts aside."""
        former = Transfer(self.size_bytes, self.link, FORMER_FETCH_BYTES, self.timeout_ms)
        return self.transfer_ms / former.transfer_ms if former.transfer_ms else 1.0


def least_bandwidth(
    chunk_bytes: int, round_trip_ms: int = 0, timeout_ms: int = FETCH_TIMEOUT_MS
) -> float | None:
    """Bytes per second that a link must have for a chunk to arrive in time; None where the round
    trip alone takes too long.
    """
    left_ms = timeout_ms - round_trip_ms
    return chunk_bytes * 1000 / left_ms if left_ms > 0 else None


def recommended_chunk_bytes(link: Link, timeout_ms: int = FETCH_TIMEOUT_MS) -> int | None:
    """What to set controller.quorum.fetch.snapshot.max.bytes to: the largest power of two, up to
    the former 8 MiB, that arrives in half of the timeout, as links have bad moments; None where no
    setting helps but a longer timeout.
    """
    fitting = (1 << power for power in range(FORMER_FETCH_BYTES.bit_length()))
    return max((one for one in fitting if link.fits(one, timeout_ms // 2)), default=None)
