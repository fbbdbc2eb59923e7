"""Tombstones under compaction: how far they lie from what they delete, whom their end deceives, and
KIP-630's horizon marker, which was rejected as "equally, if not more complicated than snapshots".

In: lives of objects, or positions of fetchers. Out: distances, keys that a slow replica keeps for
ever, and what a fetcher must do. Offsets are those of records; a horizon is the offset below which
tombstones may be gone. Source: KIP-630 "Consistent Log and Snapshots", "Rejected Alternatives".
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kraftlog.metrics.objects import Lives
from kraftlog.quorum.evidence import Flags, Longs

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
        found: Flags = self.tombstone_ms <= now_ms - horizon_ms
        return found

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


def deletions(every: Lives) -> Deletions:
    """The deletions that the log holds: of objects whose last value is one of its records."""
    at = np.flatnonzero(every.gone & ~every.last_based)
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
