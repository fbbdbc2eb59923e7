"""When each rule would have cut a snapshot: KIP-630's first rule, the adopted one, the shipped one.

In: the shared log, the changes of its objects, and the rules' limits. Out: intervals, each from one
cut to the next; the last one is open. Cuts fall on batch boundaries, as Kafka's do. Source: KIP-630
"When to Snapshot" and KIP-630 v19 "Configurations"; Kafka's SnapshotGenerator for the shipped rule.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kraftlog.metrics.objects import Changes
from kraftlog.metrics.shared_log import SharedLog
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.settings import BETWEEN, INTERVAL, default_of

ADOPTED, SHIPPED = "adopted_ratio_and_bytes", "shipped_bytes_or_time"
MIN_CHANGED_RATIO = 0.5
MAX_BYTES = default_of(BETWEEN)
"""In the KIP and as shipped."""
MAX_INTERVAL_MS = default_of(INTERVAL)
"""Only the shipped rule has it."""
MIN_RECORDS = 100_000
"""controller.snapshot.minimum.records; the KIP's old version names no default."""


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """What the rules compare with."""

    min_changed_ratio: float = MIN_CHANGED_RATIO
    max_bytes: int = MAX_BYTES
    max_interval_ms: int = MAX_INTERVAL_MS
    min_records: int = MIN_RECORDS


@dataclass(frozen=True, slots=True)
class Interval:
    """Offsets [start, end) between two cuts; `trigger` is None where nothing was cut at the end."""

    start_offset: int
    end_offset: int
    trigger: str | None


Rule = Callable[[int], tuple[int, str] | None]
"""First row of the batches after a cut → (the batch after which to cut, why); None for never."""


@dataclass(frozen=True)
class Simulator:
    """The rules over one log."""

    log: SharedLog
    changes: Changes
    limits: PolicyLimits

    @cached_property
    def _times(self) -> Longs:
        """The latest time up to each batch: a clock that goes back makes nothing older."""
        latest: Longs = np.maximum.accumulate(self.log.max_timestamps)
        return latest

    def rules(self) -> dict[str, Rule]:
        """The rules by name."""
        return {
            "v19_records": self._by_records,
            ADOPTED: self._by_ratio_and_bytes,
            SHIPPED: self._by_bytes_or_time,
        }

    def intervals(self, rule: Rule) -> list[Interval]:
        """From the first offset on at which the state is known, to the log's end."""
        start, found = self.changes.known_from, []
        row = self.log.row_at(start)
        while row < len(self.log):
            cut = rule(row)
            if cut is None:
                break
            end = int(self.log.last_offsets[cut[0]]) + 1
            found.append(Interval(start, end, cut[1]))
            row, start = cut[0] + 1, end
        return [*found, Interval(start, max(start, self.log.end_offset), None)]

    def _by_records(self, row: int) -> tuple[int, str] | None:
        """More records than the minimum since the last snapshot."""
        at = self._first(self.log.records_before, row, self.limits.min_records + 1)
        return None if at is None else (at, "records")

    def _bytes(self, row: int) -> int | None:
        return self._first(self.log.size_before, row, self.limits.max_bytes)

    def _by_ratio_and_bytes(self, row: int) -> tuple[int, str] | None:
        """Enough bytes, and enough of the last snapshot's objects modified or deleted."""
        at = self._bytes(row)
        if at is None:
            return None
        start = int(self.log.base_offsets[row])
        wanted = self.changes.alive_at(start) * self.limits.min_changed_ratio
        changed = self.changes.reached(start, wanted)
        if changed is None:
            return None
        dirty = int(np.searchsorted(self.log.last_offsets + 1, changed, "left"))
        if dirty >= len(self.log):
            return None
        return (at, "bytes") if at >= dirty else (dirty, "ratio")

    def _by_bytes_or_time(self, row: int) -> tuple[int, str] | None:
        """Enough bytes, or an hour since the last snapshot, whichever comes first."""
        at, times = self._bytes(row), self._times
        began = int(self.log.base_timestamps[0] if row == 0 else times[row - 1])
        late = int(np.searchsorted(times, began + self.limits.max_interval_ms, "left"))
        timed = late if late < len(times) else None
        if at is None or (timed is not None and timed < at):
            return None if timed is None else (timed, "time")
        return at, "bytes"

    @staticmethod
    def _first(before: Longs, row: int, wanted: int) -> int | None:
        """The first batch after which the running sum since `row` reaches what is wanted."""
        at = int(np.searchsorted(before, before[row] + wanted, "left")) - 1
        return at if at < len(before) - 1 else None
