"""KIP-630's rejected alternative of a tombstone horizon, asked of this quorum: what each of its
replicas would have to do if its log were compacted and the horizon were told with each fetch.

In: the deletions of the shared log, and the replicas' ends. Out: rows of the table
`tombstone_horizons`. The leader is the copy of who leads the newest epoch. Source: KIP-630
"Rejected Alternatives: Just fix the tombstone GC issue with log compaction".
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kraftlog.metrics.objects import Lives
from kraftlog.metrics.tombstones import Deletions, Position, deletions, follower_horizon
from kraftlog.quorum.growth import DAY_MS
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import newest_ms

Row = dict[str, Any]
AGES: dict[str, int] = {"after one day": DAY_MS, "at once": 0}


def horizon_rows(quorum: Quorum, every: Iterable[Lives]) -> Iterator[Row]:
    """A row per age and replica, and one of a replica that joins; none without a log."""
    leader, now = quorum.leading_log, newest_ms(quorum)
    if leader is None or now is None:
        return
    gone = [deletions(one) for one in every]
    for words, age in AGES.items():
        horizon = horizon_of(gone, now, age, leader.end_offset or 0)
        for log in quorum.peers:
            own = horizon_of(gone, _newest(log, now), age, log.end_offset or 0)
            end = log.end_offset or 0
            kept = sum(one.kept_for_ever(one.gone(now, age), end) for one in gone)
            yield _row(words, log.label, end, horizon, own) | {"kept_for_ever_count": kept}
        yield _row(words, None, 0, horizon, 0) | {"kept_for_ever_count": 0}


def horizon_of(every: Iterable[Deletions], now_ms: int, age_ms: int, end: int) -> int:
    """Below this offset the tombstones of a log that ends so may be gone; 0: none is."""
    held = [
        one.tombstone_offsets[one.gone(now_ms, age_ms) & (one.tombstone_offsets < end)]
        for one in every
    ]
    return max((int(one.max()) + 1 for one in held if len(one)), default=0)


def _newest(log: LogView, now: int) -> int:
    return int(log.evidence.log.max_timestamps[log.rows].max()) if len(log.rows) else now


def _row(words: str, label: str | None, end: int, leader: int, own: int) -> Row:
    outcome, begun = Position("replica", end).meets(leader)
    moved, _ = begun.meets(leader + 1)
    return {
        "tombstones_go": words,
        "replica": label,
        "fetch_offset": end,
        "leader_horizon_offset": leader,
        "follower_horizon_offset": follower_horizon(own, leader),
        "consumer_outcome": Position("consumer", end).meets(leader)[0],
        "replica_outcome": outcome,
        "unsafe_offsets": max(0, (begun.remembered_horizon or 0) - begun.offset),
        "unsafe_when_moved": moved if begun.remembered_horizon is not None else None,
    }
