"""Whether a slow but reliable link ever lets a node fetch a snapshot and the log after it, how long
that takes, and whether somebody seems stuck.

In: sizes in bytes, a link, a limit per request, how long an answer may take; or a `Quorum`, the rate at which
nodes load, and links. Out: times in ms, and rows of the table `snapshot_transfer`. Pure. Source:
KIP-1219 (KAFKA-19541), KIP-630 "FetchSnapshot", "Motivation".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from math import ceil
from statistics import median

from kraftlog.errors import UsageError
from kraftlog.log import names
from kraftlog.plain import counted
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.growth import load_ms
from kraftlog.quorum.joining import (
    DEFAULT_FETCH_BYTES,
    FETCH_TIMEOUT_MS,
    FORMER_FETCH_BYTES,
    fetch_settings,
    is_stormy,
    least_number,
)
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import kept_snapshots
from kraftlog.quorum.settings import (
    FETCH_TIMEOUT,
    FETCHED_BYTES,
    FETCHED_SNAPSHOT_BYTES,
    REQUEST_TIMEOUT,
)
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.relations import Row
from kraftlog.simulate.fetch import log_chunks


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
        """Whether an answer arrives in time, by the lesser of a voter's fetch and request timeout.
        Where it does not, the request is cancelled and the node becomes a candidate, again and again.
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
            raise UsageError("a chunk must be above 0, and a timeout 0 or more")

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
        """The first one: no later one is larger. Where there is nothing to fetch there is none."""
        most = min(self.chunk_bytes, self.size_bytes)
        return self.link.response_ms(most) if most else 0.0

    @property
    def finishes(self) -> bool:
        """Whether the timeout lets it finish: links are reliable, what fits once always does."""
        return self.longest_response_ms <= self.timeout_ms

    @property
    def slowdown(self) -> float:
        """How many times as long as with the former 8 MiB per request, timeouts aside."""
        former = Transfer(self.size_bytes, self.link, FORMER_FETCH_BYTES, self.timeout_ms)
        return self.transfer_ms / former.transfer_ms if former.transfer_ms else 1.0


def least_bandwidth(
    chunk_bytes: int, round_trip_ms: int = 0, timeout_ms: int = FETCH_TIMEOUT_MS
) -> float | None:
    """Bytes/s a link needs for a chunk in time; None where the round trip alone takes too long."""
    left_ms = timeout_ms - round_trip_ms
    return chunk_bytes * 1000 / left_ms if left_ms > 0 else None


def recommended_chunk_bytes(link: Link, timeout_ms: int = FETCH_TIMEOUT_MS) -> int | None:
    """What to set controller.quorum.fetch.snapshot.max.bytes to: the largest power of two, up to
    the former 8 MiB, that arrives in half of the timeout, as links have bad moments; None where no
    setting helps but a longer timeout.
    """
    fitting = (1 << power for power in range(FORMER_FETCH_BYTES.bit_length()))
    return max((one for one in fitting if link.fits(one, timeout_ms // 2)), default=None)


CHUNKS = (DEFAULT_FETCH_BYTES, FORMER_FETCH_BYTES)


def snapshot_transfer_rows(
    quorum: Quorum,
    load_rate: float,
    links: Sequence[Link] = EXAMPLE_LINKS,
    chunks: Sequence[int] | None = None,
    timeout_ms: int | None = None,
    request_timeout_ms: int | None = None,
) -> Iterator[Row]:
    """One row per replica that holds anything, link, and limit per request: what a node meets that
    fetches the latest snapshot from that replica, and the log after it. A timeout that is not
    given is the least that a server.properties at hand sets; the limits are Kafka's, those that one
    sets, and the one that suits the link. `load_rate` is in bytes per second.
    """
    if timeout_ms is None:
        timeout_ms = least_number(quorum, FETCH_TIMEOUT)
    if request_timeout_ms is None:
        request_timeout_ms = least_number(quorum, REQUEST_TIMEOUT)
    answer_ms = min(timeout_ms, request_timeout_ms)
    usual = {*CHUNKS, *(fetch_settings(log.evidence).chunk.value for log in quorum.peers)}
    stuck, stormy = sorted(unfinished(quorum)), is_stormy(quorum)
    for log in quorum.peers:
        held = kept_snapshots(quorum, log.label)
        sizes, snapshot = log.evidence.log.sizes[log.rows], held[-1] if held else None
        if snapshot is None and not len(sizes):
            continue
        after = sizes[log.base >= snapshot.end_offset] if snapshot else sizes
        largest = int(sizes.max()) if len(sizes) else 0
        interval_ms = snapshot_interval_ms(quorum, log.label)
        answers = cache(partial(_log_answers, after))
        for link in links:
            best = recommended_chunk_bytes(link, answer_ms)
            for chunk in chunks or sorted(usual | {best or DEFAULT_FETCH_BYTES}):
                size = snapshot.evidence.size_bytes if snapshot else 0
                one = Transfer(size, link, chunk, answer_ms)
                yield {
                    "replica": log.label,
                    "is_leading": log is quorum.leading_log,
                    **_fetched(snapshot, one),
                    "fetch_timeout_ms": timeout_ms,
                    "request_timeout_ms": request_timeout_ms,
                    "recommended_chunk_bytes": best,
                    **_outliving(one.transfer_ms, interval_ms, len(held)),
                    "is_unusually_large": size > quorum.thresholds.snapshot_usual_bytes,
                    "largest_batch_bytes": largest,
                    "largest_batch_fits": link.fits(largest, answer_ms),
                    "unfinished_by": stuck,
                    "likely_stuck": not one.finishes and bool(stuck) and stormy,
                    **_after(one, *answers(chunk), int(after.sum()), load_rate),
                }


def transfers_told(rows: Sequence[Row]) -> str:
    """What the rows of `snapshot_transfer_rows` come to, in a sentence: whether all arrive, or what
    keeps one over the slowest link from it, and which setting helps there.
    """
    if not rows:
        return "no replica holds anything to be fetched"
    late = [row for row in rows if not row["fits_fetch_timeout"]]
    if late:
        return _late_told(late, len(rows))
    what = "no replica holds a complete snapshot to be fetched; each log arrives"
    if any(row["size_bytes"] is not None for row in rows):
        what = "each snapshot and the log after it arrive"
    told = f"{what} within {max(row['total_ms'] for row in rows) / 1000:,.1f} s"
    gone = [row["bandwidth_bytes_per_s"] for row in rows if row["outlives_chance"]]
    if gone:
        told += f", but over {min(gone):,} bytes/s a snapshot may be deleted while it is fetched"
    return told


def _late_told(late: Sequence[Row], count: int) -> str:
    worst = min(late, key=lambda row: (row["bandwidth_bytes_per_s"], row["chunk_bytes"]))
    wait = min(worst["fetch_timeout_ms"], worst["request_timeout_ms"])
    best = worst["recommended_chunk_bytes"]
    todo = f"Raise {FETCH_TIMEOUT} and {REQUEST_TIMEOUT}: no smaller answers help"
    if best is not None and worst["largest_batch_fits"]:
        todo = f"From Kafka 4.3 on {best:,} bytes for {FETCHED_SNAPSHOT_BYTES} and {FETCHED_BYTES} help"
    answer = f"An answer of up to {worst['chunk_bytes']:,} bytes over {worst['bandwidth_bytes_per_s']:,} bytes/s"
    return (
        f"{len(late):,} of {counted(count, 'transfer')} never end. "
        f"{answer} takes longer than the {wait:,} ms after which a node gives up. {todo} there"
    )


def _log_answers(batch_sizes: Longs, chunk: int) -> tuple[int, int]:
    """How many responses bring the log, and the bytes of the longest."""
    found = [one.size_bytes for one in log_chunks(batch_sizes, chunk)]
    return len(found), max(found, default=0)


def _after(one: Transfer, requests: int, longest: int, log_size: int, load_rate: float) -> Row:
    """What the log after a snapshot adds to it, and loading both."""
    link = one.link
    log_ms = requests * link.round_trip_ms + log_size * 1000 / link.bandwidth_bytes_per_s
    loading = load_ms(one.size_bytes, log_size, load_rate)
    return {
        "log_size_bytes": log_size,
        "log_request_count": requests,
        "log_transfer_ms": ceil(log_ms),
        "load_ms": ceil(loading),
        "total_ms": ceil(one.transfer_ms + log_ms + loading),
        "fits_fetch_timeout": one.finishes and link.fits(longest, one.timeout_ms),
    }


def _outliving(transfer_ms: float, interval_ms: float | None, kept: int) -> Row:
    """How many snapshots are written meanwhile, and whether a download outlives what it fetches."""
    return {
        "newer_snapshots": round(transfer_ms / interval_ms, 3) if interval_ms else None,
        "kept_snapshots": kept,
        "outlives_chance": round(outlives_chance(transfer_ms, interval_ms, kept), 4)
        if interval_ms
        else None,
        "snapshots_to_keep": count_to_keep(transfer_ms, interval_ms) if interval_ms else None,
    }


def outlives_chance(transfer_ms: float, interval_ms: float, kept: int) -> float:
    """How likely a download that begins at some moment, of the snapshot that is newest then, lasts
    longer than that snapshot is kept (KIP-630, version 19: why several are).

    It was written u ago, u anywhere within an interval, and goes when `kept` newer ones have been
    written: so it is still there for `kept` intervals less u.
    """
    return min(1.0, max(0.0, transfer_ms / interval_ms - (kept - 1)))


def count_to_keep(transfer_ms: float, interval_ms: float) -> int:
    """The least number of snapshots of which no download outlives the one that it fetches."""
    return ceil(transfer_ms / interval_ms) + 1


def _fetched(snapshot: SnapshotView | None, one: Transfer) -> Row:
    """How the snapshot comes over its link; without one nothing has to."""
    row: Row = {
        "snapshot_end_offset": snapshot and snapshot.end_offset,
        "snapshot_epoch": snapshot and snapshot.epoch,
        "size_bytes": one.size_bytes,
        "bandwidth_bytes_per_s": one.link.bandwidth_bytes_per_s,
        "round_trip_ms": one.link.round_trip_ms,
        "chunk_bytes": one.chunk_bytes,
        "request_count": one.request_count,
        "transfer_ms": ceil(one.transfer_ms),
        "longest_response_ms": ceil(one.longest_response_ms),
        "finishes": one.finishes,
        "slowdown": round(one.slowdown, 3),
    }
    measured = ("size_bytes", "request_count", "transfer_ms", "longest_response_ms", "slowdown")
    return row if snapshot else row | dict.fromkeys(measured)


def snapshot_interval_ms(quorum: Quorum, label: str) -> float | None:
    """The median time between a replica's snapshots, by their headers; None with fewer than two.

    A sender keeps at least two, but only for its retention: one that writes several while the
    oldest of them is fetched may delete it, and answers SNAPSHOT_NOT_FOUND.
    """
    stamps = {one.last_contained_timestamp for one in quorum.snapshots_of(label) if one.is_complete}
    times = sorted(stamp for stamp in stamps if stamp is not None and stamp >= 0)
    return median(after - before for before, after in pairwise(times)) if len(times) > 1 else None


def unfinished(quorum: Quorum) -> set[str]:
    """The replicas that hold a snapshot which was never finished. Beside a storm of elections and a
    link that is too slow, that is what KAFKA-19541 leaves on the disks.
    """
    parts = [one for one in quorum.every_snapshot if one.evidence.kind == names.CHECKPOINT_PART]
    return {one.replica for one in parts if one.replica not in quorum.foreign}
