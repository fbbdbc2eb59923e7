"""How much older what one replica serves may be than what another one does, and how late a new high
watermark comes to followers.

In: a quorum. Out: plain rows of `plan replicas --staleness` and `--watermark`. A replica serves up
to the high watermark that it knows. A copy does not say which that was: it knew at least the end of
each snapshot that it holds, as nodes take them of committed records only, and no more than it holds
of what is committed. Source: KIP-392 "Follower Fetching" and "High watermark propagation";
KIP-1166.
"""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np

from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row
from kraftlog.simulate.plan_rows import Plans

MAX_WAIT_MS = 500
"""Default of replica.fetch.max.wait.ms, and how long KRaft's leader lets a fetch wait."""
AT_ONCE, WAITS = "at_once", "waits"


class KnownWatermark(NamedTuple):
    """The high watermark that a replica knew lies in between."""

    least: int
    most: int


def known_watermarks(quorum: Quorum) -> dict[str, KnownWatermark]:
    """Of each copy, at the moment when it was taken."""
    plans, upper = Plans(quorum), quorum.bounds.upper
    found = {}
    for log in quorum.peers:
        credible = [s.end_offset for s in quorum.credible_snapshots if s.replica == log.label]
        reach = plans.committed_reach(log)
        most = reach if upper is None else min(reach, upper)
        # Of a copy that goes its own way, what it holds from there on was never committed.
        most = min(most, quorum.tail_starts.get(log.label, most))
        found[log.label] = KnownWatermark(min(max(credible, default=0), most), most)
    return found


def staleness_rows(quorum: Quorum) -> Iterator[Row]:
    """One row per ordered pair: how far a reader that goes from one to the other may fall back."""
    known = known_watermarks(quorum)
    for one, other in permutations(quorum.peers, 2):
        mine, theirs = known[one.label], known[other.label]
        yield {
            "replica": one.label,
            "other_replica": other.label,
            "high_watermark_min": mine.least,
            "high_watermark_max": mine.most,
            "other_high_watermark_min": theirs.least,
            "other_high_watermark_max": theirs.most,
            "behind_offsets_min": max(0, mine.least - theirs.most),
            "behind_offsets_max": max(0, mine.most - theirs.least),
            "behind_ms_min": _between_ms(one, theirs.most, mine.least),
            "behind_ms_max": _between_ms(one, theirs.least, mine.most),
        }


def _between_ms(log: LogView, start: int, end: int) -> int | None:
    """Time between the last records below two offsets; None where the log does not hold both."""
    if end <= start:
        return 0
    # Who knows of nothing yet is as far behind as the log reaches back.
    rows = [log.index_at(max(0, offset - 1)) for offset in (start, end)]
    if min(rows) < 0:
        return None
    columns = log.evidence.log
    first = int((columns.max_timestamps if start else columns.base_timestamps)[log.rows[rows[0]]])
    return max(0, int(columns.max_timestamps[log.rows[rows[1]]]) - first)


def watermark_rows(quorum: Quorum, max_wait_ms: int = MAX_WAIT_MS) -> Iterator[Row]:
    """One row per rule: how long after its commit a batch of this log becomes readable on a
    follower. The leader tells a new high watermark with its next answer: the next batch brings
    one, or the time that a fetch waits. A follower that tells what it knows is answered at once.
    """
    log = quorum.newest_log
    if log is None or len(log.rows) < 2:
        return
    times = np.maximum.accumulate(log.evidence.log.max_timestamps[log.rows])
    gaps = np.diff(times)
    for rule in (WAITS, AT_ONCE):
        delays = np.minimum(gaps, max_wait_ms if rule == WAITS else 0)
        yield {
            "rule": rule,
            "max_wait_ms": max_wait_ms,
            "batch_count": len(delays),
            "mean_ms": round(float(delays.mean()), 1),
            "median_ms": float(np.median(delays)),
            "p99_ms": float(np.percentile(delays, 99)),
            "max_ms": int(delays.max()),
            "waits_whole_share": round(float((gaps >= max_wait_ms).mean()), 4)
            if rule == WAITS
            else 0.0,
        }
