"""What a new replica would pay to join now: the newest snapshot, the log after it, loading both.

In: a quorum, and the rate at which nodes load. Out: rows of the table `catch_up`, one per link and
chunk size. Source: KIP-630 "Motivation", KIP-1219.
"""

from dataclasses import dataclass

from kraftlog.metrics.snapshots import load_ms
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.joining import DEFAULT_FETCH_BYTES, FORMER_FETCH_BYTES, least_timeout_ms
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import newest_snapshot
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.relations import Row
from kraftlog.simulate.fetch import log_chunks
from kraftlog.simulate.liveness import Link, Transfer, recommended_chunk_bytes

CHUNKS = tuple(FORMER_FETCH_BYTES >> power for power in range(7, -1, -1))
"""64 KiB to what was built in before, 8 MiB."""
LINKS = {
    "one rack, 10 Gbit/s, 0.2 ms": Link(1_250_000_000, 0.2),
    "one region, 1 Gbit/s, 2 ms": Link(125_000_000, 2),
    "two continents, 100 Mbit/s, 100 ms": Link(12_500_000, 100),
    "slow and far, 4 Mbit/s, 200 ms": Link(500_000, 200),
}
"""Examples from a rack to the slow but reliable connection that KIP-1219 is about."""


@dataclass(frozen=True, slots=True)
class JoinSource:
    """Whom a joiner fetches from, and what: a snapshot (None: the whole log), and the batches after
    its end.
    """

    replica: str
    snapshot: SnapshotView | None
    batch_sizes: Longs

    @property
    def snapshot_bytes(self) -> int:
        return self.snapshot.evidence.size_bytes if self.snapshot else 0

    @property
    def log_bytes(self) -> int:
        return int(self.batch_sizes.sum())


def source_of(quorum: Quorum) -> JoinSource | None:
    """The leader's copy, as it would serve it, or else the newest; None where no log is at hand.

    Kafka answers with a snapshot where the log does not begin at offset 0, and, since a joiner
    fetches from offset 0, whenever there is a snapshot."""
    log = quorum.leading_log
    if log is None:
        return None
    snapshot = newest_snapshot(quorum, log.label)
    after = log.rows[log.base >= (snapshot.end_offset if snapshot else 0)]
    return JoinSource(log.label, snapshot, log.evidence.log.sizes[after])


def catch_up_rows(quorum: Quorum, load_rate: float) -> list[Row]:
    """A row per link and chunk size; none without a log. The fetch timeout is the least that a
    server.properties at hand sets, else Kafka's.
    """
    source = source_of(quorum)
    if source is None:
        return []
    loading = load_ms(source.snapshot_bytes, source.log_bytes, load_rate)
    timeout = least_timeout_ms(quorum)
    return [_row(source, name, chunk, loading, timeout) for name in LINKS for chunk in CHUNKS]


def _row(source: JoinSource, name: str, chunk: int, loading: float, timeout_ms: int) -> Row:
    link, log_size = LINKS[name], source.log_bytes
    snapshot = Transfer(source.snapshot_bytes, link, chunk, timeout_ms)
    answers = [one.size_bytes for one in log_chunks(source.batch_sizes, chunk)]
    requests = len(answers)
    log_ms = requests * link.round_trip_ms + log_size * 1000 / link.bandwidth_bytes_per_s
    return {
        "source_replica": source.replica,
        "link": name,
        "rtt_ms": float(link.round_trip_ms),
        "bytes_per_second": float(link.bandwidth_bytes_per_s),
        "chunk_size_bytes": chunk,
        "fetch_timeout_ms": timeout_ms,
        "is_default_chunk": chunk == DEFAULT_FETCH_BYTES,
        "snapshot_end_offset": source.snapshot.end_offset if source.snapshot else None,
        "snapshot_size_bytes": snapshot.size_bytes,
        "log_size_bytes": log_size,
        "snapshot_request_count": snapshot.request_count,
        "log_request_count": requests,
        "snapshot_transfer_ms": snapshot.transfer_ms,
        "log_transfer_ms": log_ms,
        "load_ms": loading,
        "total_ms": snapshot.transfer_ms + log_ms + loading,
        "slowdown": snapshot.slowdown if source.snapshot else None,
        "fits_fetch_timeout": link.fits(
            max([min(chunk, snapshot.size_bytes), *answers]), timeout_ms
        ),
        "is_recommended_chunk": chunk == recommended_chunk_bytes(link, timeout_ms),
    }
