"""A quorum → how its snapshots would go over slow and fast links, and whether somebody seems stuck.

In: a `Quorum` and links. Out: rows of the table `snapshot_transfer`. Source: KIP-1219, KIP-630
"FetchSnapshot".
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from math import ceil
from statistics import median
from typing import Any

from kraftlog.log import names
from kraftlog.quorum.joining import (
    DEFAULT_FETCH_BYTES,
    FORMER_FETCH_BYTES,
    fetch_settings,
    least_timeout_ms,
)
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import newest_snapshot
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.quorum.storms import is_stormy
from kraftlog.simulate.liveness import EXAMPLE_LINKS, Link, Transfer, recommended_chunk_bytes

Row = dict[str, Any]
CHUNKS = (DEFAULT_FETCH_BYTES, FORMER_FETCH_BYTES)


def snapshot_transfer_rows(
    quorum: Quorum,
    links: Sequence[Link] = EXAMPLE_LINKS,
    chunks: Sequence[int] | None = None,
    timeout_ms: int | None = None,
) -> Iterator[Row]:
    """One row per replica with a complete snapshot, link, and limit per request: what a node meets
    that fetches the latest snapshot from that replica. The timeout that is not given is the least
    that a server.properties at hand sets, the limits are Kafka's and those that one sets.
    """
    if timeout_ms is None:
        timeout_ms = least_timeout_ms(quorum)
    if chunks is None:
        own = [fetch_settings(log.evidence) for log in quorum.peers]
        chunks = sorted({*CHUNKS, *(one.chunk.value for one in own)})
    stuck, stormy = sorted(unfinished(quorum)), is_stormy(quorum)
    for log in quorum.peers:
        snapshot = newest_snapshot(quorum, log.label)
        if snapshot is None:
            continue
        sizes = log.evidence.log.sizes[log.rows]
        largest = int(sizes.max()) if len(sizes) else 0
        interval_ms = snapshot_interval_ms(quorum, log.label)
        kept = sum(one.is_complete and one.end_offset > 0 for one in quorum.snapshots_of(log.label))
        for link, chunk in product(links, chunks):
            one = Transfer(snapshot.evidence.size_bytes, link, chunk, timeout_ms)
            row = _row(log.label, snapshot, one)
            yield row | {
                "newer_snapshots": round(one.transfer_ms / interval_ms, 3) if interval_ms else None,
                **_outliving(one.transfer_ms, interval_ms, kept),
                "is_unusually_large": one.size_bytes > quorum.thresholds.snapshot_usual_bytes,
                "largest_batch_bytes": largest,
                "largest_batch_fits": link.fits(largest, timeout_ms),
                "unfinished_by": stuck,
                "likely_stuck": not one.finishes and bool(stuck) and stormy,
            }


def _outliving(transfer_ms: float, interval_ms: float | None, kept: int) -> Row:
    """Whether a download may last longer than what it fetches is kept."""
    return {
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


def _row(label: str, snapshot: SnapshotView, one: Transfer) -> Row:
    return {
        "replica": label,
        "snapshot_end_offset": snapshot.end_offset,
        "snapshot_epoch": snapshot.epoch,
        "size_bytes": one.size_bytes,
        "bandwidth_bytes_per_s": one.link.bandwidth_bytes_per_s,
        "round_trip_ms": one.link.round_trip_ms,
        "chunk_bytes": one.chunk_bytes,
        "fetch_timeout_ms": one.timeout_ms,
        "request_count": one.request_count,
        "transfer_ms": ceil(one.transfer_ms),
        "longest_response_ms": ceil(one.longest_response_ms),
        "finishes": one.finishes,
        "slowdown": round(one.slowdown, 3),
        "recommended_chunk_bytes": recommended_chunk_bytes(one.link, one.timeout_ms),
    }


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
