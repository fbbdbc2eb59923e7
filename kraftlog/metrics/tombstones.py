"""Tombstones under compaction: how far they lie from what they delete, whom their end deceives, what
compaction would keep, read and lose under several horizons, and KIP-630's horizon marker, which was
rejected as "equally, if not more complicated than snapshots": what each replica of this quorum would
have to do if its log were compacted and the horizon were told with each fetch.

In: lives of objects, survivors of the offset map, the shared log, the replicas' ends. Out: rows of
the tables `compaction` and `tombstone_horizons`. Offsets are those of records; a horizon is the
offset below which tombstones may be gone. The leader is the copy of who leads the newest epoch.
Source: KIP-630 "Motivation", "Loading State and Frequency of Compaction", "Consistent Log and
Snapshots", "Rejected Alternatives".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kraftlog.metrics.compaction import KEYS, KeyOf, OffsetMap
from kraftlog.metrics.objects import Lives
from kraftlog.metrics.shared_log import SharedLog
from kraftlog.quorum.evidence import Flags, Longs
from kraftlog.quorum.growth import DAY_MS
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import newest_ms
from kraftlog.relations import Row

HORIZONS: dict[str, int | None] = {"never": None, "after one day": DAY_MS, "at once": 0}
"""When tombstones go; a day is Kafka's default delete.retention.ms."""
Fetcher = Literal["consumer", "replica"]
Outcome = Literal["go on", "wipe state", "wipe log"]


@dataclass(frozen=True, slots=True)
class Deletions:
    """One element per deletion: offsets of the last value's record and of the delete record."""

    value_offsets: Longs
    tombstone_offsets: Longs
    tombstone_ms: Longs
    span_ms: Longs

    @property
    def longest_offsets(self) -> int | None:
        """The largest distance between a value and its tombstone; None without any."""
        spans = self.tombstone_offsets - self.value_offsets
        return int(spans.max()) if len(spans) else None

    @property
    def longest_ms(self) -> int | None:
        """The longest time between a value and its tombstone."""
        return int(self.span_ms.max()) if len(self.span_ms) else None

    def gone(self, now_ms: int, horizon_ms: int | None) -> Flags:
        """Which tombstones are no longer in the log; None: all are."""
        if horizon_ms is None:
            return np.zeros(len(self.tombstone_ms), np.bool_)
        return self.tombstone_ms <= now_ms - horizon_ms

    def kept_for_ever(self, gone: Flags, position: int) -> int:
        """Deleted objects that a replica still holds which stood at `position` (its next offset)
        while the tombstones went: it has the value, and never sees the tombstone.
        """
        missed = gone & (self.value_offsets < position) & (position <= self.tombstone_offsets)
        return int(missed.sum())

    def worst_position(self, gone: Flags) -> tuple[int, int] | None:
        """(position, objects kept for ever) of the unluckiest replica; None where nothing is
        missed.
        """
        begins = np.sort(self.value_offsets[gone] + 1)
        if not len(begins):
            return None
        ends = np.sort(self.tombstone_offsets[gone] + 1)
        held = np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins, "right")
        # Of equal beginnings the last one counts them all.
        worst = len(held) - 1 - int(held[::-1].argmax())
        return int(begins[worst]), int(held[worst])


def deletions(log: SharedLog, every: Lives) -> Deletions:
    """The deletions that the log holds: of objects whose last value is one of its records."""
    at = np.flatnonzero(every.gone & ~every.last_based)
    at = at[log.holds(every.ended[at] - 1)]
    return Deletions(
        every.last_began[at] - 1,
        every.ended[at] - 1,
        every.last_to_ms[at],
        every.last_to_ms[at] - every.last_from_ms[at],
    )


def follower_horizon(own: int, leader: int) -> int:
    """A follower deletes no tombstone at or beyond its leader's horizon."""
    return min(own, leader)


@dataclass(frozen=True, slots=True)
class Position:
    """A fetcher: its next offset, and the horizon that it remembers while it is in the KIP's
    "unsafe bootstrapping mode"; None in normal mode.
    """

    kind: Fetcher
    offset: int
    remembered_horizon: int | None = None

    def meets(self, horizon: int, log_start_offset: int = 0) -> tuple[Outcome, "Position"]:
        """What a fetch response with this horizon makes of it.

        Below the horizon it may have missed tombstones: a consumer resets its state (an extended
        InvalidOffsetException), a replica wipes its log; both begin anew and remember the horizon.
        While that mode lasts, the same horizon is no reason to begin again; one that has moved is.
        Beyond the remembered horizon the mode ends.
        """
        known = self.remembered_horizon
        if known is not None and self.offset >= known:
            known = None
        if self.offset >= horizon or known == horizon:
            return "go on", replace(self, remembered_horizon=known)
        outcome: Outcome = "wipe state" if self.kind == "consumer" else "wipe log"
        return outcome, replace(self, offset=log_start_offset, remembered_horizon=horizon)


def compaction_rows(log: SharedLog, offsets: OffsetMap, every: dict[str, Lives]) -> list[Row]:
    """A row per horizon and record type with a key that the log holds."""
    survivors = offsets.survivors()
    now = int(log.max_timestamps[-1]) if len(log) else 0
    deleting = {KEYS[kind].table for kind in KEYS if offsets.counts[kind] and KEYS[kind].deletes}
    gone = {name: deletions(log, every[name]) for name in sorted(deleting & every.keys())}
    rows = []
    for horizon, horizon_ms in HORIZONS.items():
        kept = survivors.kept(now, horizon_ms)
        for kind, how in KEYS.items():
            if not offsets.counts[kind]:
                continue
            mine = kept & survivors.of_type(kind)
            stones = mine & survivors.tombstones
            rows.append(
                {
                    "tombstones_go": horizon,
                    "object_kind": how.table,
                    "type": kind,
                    "record_count": offsets.counts[kind],
                    "size_bytes": offsets.sizes[kind],
                    "kept_record_count": int(mine.sum()),
                    "kept_size_bytes": int(survivors.sizes[mine].sum()),
                    "tombstone_count": int(stones.sum()),
                    "tombstone_size_bytes": int(survivors.sizes[stones].sum()),
                    "lost_object_count": int(mine.sum()) if how.is_patch else 0,
                    **_deceived(how, now, horizon_ms, gone),
                }
            )
    return rows


def _deceived(how: KeyOf, now: int, horizon_ms: int | None, every: dict[str, Deletions]) -> Row:
    """Whom the end of these tombstones deceives; nulls for a type that deletes nothing."""
    names = (
        "worst_position_offset", "kept_for_ever_count", "longest_span_offsets", "longest_span_ms",
    )  # fmt: skip
    if not how.deletes or how.table not in every:
        return dict.fromkeys(names)
    gone = every[how.table]
    worst = gone.worst_position(gone.gone(now, horizon_ms)) or (None, 0)
    return dict(zip(names, (*worst, gone.longest_offsets, gone.longest_ms), strict=True))


def horizon_rows(quorum: Quorum, shared: SharedLog, every: Iterable[Lives]) -> Iterator[Row]:
    """A row per age and replica, and one of a replica that joins; none without a log."""
    leader, now = quorum.leading_log, newest_ms(quorum)
    if leader is None or now is None:
        return
    gone = [deletions(shared, one) for one in every]
    for words, age in HORIZONS.items():
        if age is None:
            continue
        horizon = horizon_of(gone, now, age, leader.end_offset or 0)
        for log in quorum.peers:
            newest, end = log.newest_ms, log.end_offset or 0
            own = horizon_of(gone, now if newest is None else newest, age, end)
            kept = sum(one.kept_for_ever(one.gone(now, age), end) for one in gone)
            yield _horizon_row(words, log.label, end, horizon, own) | {"kept_for_ever_count": kept}
        yield _horizon_row(words, None, 0, horizon, 0) | {"kept_for_ever_count": 0}


def horizon_of(every: Iterable[Deletions], now_ms: int, age_ms: int, end: int) -> int:
    """Below this offset the tombstones of a log that ends so may be gone; 0: none is."""
    held = [
        one.tombstone_offsets[one.gone(now_ms, age_ms) & (one.tombstone_offsets < end)]
        for one in every
    ]
    return max((int(one.max()) + 1 for one in held if len(one)), default=0)


def _horizon_row(words: str, label: str | None, end: int, leader: int, own: int) -> Row:
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
