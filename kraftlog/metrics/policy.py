"""When each rule would have cut a snapshot, KIP-630's first rule, the adopted one, the shipped one;
what that would have cost, and what was really cut.

In: the shared log, the changes of its objects, the rules' limits, a quorum, the size of a state's
object. Out: intervals, each from one cut to the next; the last one is open; and of these rows of the
table `snapshot_policy`. Cuts fall on batch boundaries, as Kafka's do. Source: KIP-630 "When to
Snapshot" and KIP-630 v19 "Configurations"; Kafka's SnapshotGenerator for the shipped rule.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kraftlog.metrics.objects import Changes
from kraftlog.metrics.shared_log import SharedLog, steady
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.growth import write_amplification
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import BETWEEN, INTERVAL, default_of, number_of
from kraftlog.relations import Row, moment

ADOPTED, SHIPPED, REAL = "adopted_ratio_and_bytes", "shipped_bytes_or_time", "real"
BY_SETTINGS = (ADOPTED, SHIPPED)
"""The rules that look at what a server.properties can set."""
NEVER_MS = 1 << 60
"""Longer than any log: an interval of 0 in Kafka's settings."""


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """What the rules compare with: in the KIP and as shipped; only the shipped rule has an interval,
    and for `controller.snapshot.minimum.records` the KIP's old version names no default.
    """

    min_changed_ratio: float = 0.5
    max_bytes: int = default_of(BETWEEN)
    max_interval_ms: int = default_of(INTERVAL)
    min_records: int = 100_000


def limits_of_node(log: LogView) -> PolicyLimits:
    """When a node takes snapshots, as the policies are told of it; one that does not go by time, or
    whose limit nothing reaches, waits for ever.
    """
    own = log.evidence
    interval, most = number_of(own, INTERVAL).value or NEVER_MS, number_of(own, BETWEEN).value
    return PolicyLimits(max_bytes=min(most, NEVER_MS), max_interval_ms=min(interval, NEVER_MS))


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
        """The time of each batch, whatever a clock said that was wrong for a while."""
        return steady(self.log.max_timestamps)

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
        dirty = int(np.searchsorted(self.log.last_offsets, changed - 1, "left"))
        if dirty >= len(self.log):
            return None
        return (at, "bytes") if at >= dirty else (dirty, "ratio")

    def _by_bytes_or_time(self, row: int) -> tuple[int, str] | None:
        """Enough bytes, or an hour since the last snapshot, whichever comes first."""
        at, times = self._bytes(row), self._times
        began = int(times[row - 1]) if row else min(int(self.log.base_timestamps[0]), int(times[0]))
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


def policy_rows(simulator: Simulator, quorum: Quorum, object_bytes: float | None) -> list[Row]:
    """A row per interval of each rule by the simulator's limits, of the rules that look at settings
    by those of each node that sets any, and of each replica's real snapshots; the last interval of
    each is open.
    """
    rows = list(_of_rules(simulator, None, object_bytes))
    for log in quorum.logs:
        own = limits_of_node(log)
        if own != PolicyLimits():
            rows += _of_rules(replace(simulator, limits=own), log.label, object_bytes)
    for log in quorum.logs:
        ends = {one.end_offset for one in quorum.credible_snapshots if one.replica == log.label}
        real = list(_real(simulator, sorted(ends - {0})))
        rows += _rows(simulator, REAL, log.label, real, object_bytes)
    return rows


def _of_rules(
    simulator: Simulator, replica: str | None, object_bytes: float | None
) -> Iterator[Row]:
    for name, rule in simulator.rules().items():
        if replica is None or name in BY_SETTINGS:
            yield from _rows(simulator, name, replica, simulator.intervals(rule), object_bytes)


def _real(simulator: Simulator, ends: list[int]) -> Iterator[Interval]:
    """The intervals between a replica's snapshots, from the first offset that the log still holds:
    what was cut and has been deleted since is not known.
    """
    start, log_end = simulator.changes.known_from, simulator.log.end_offset
    for end in ends:
        if start < end <= log_end:
            yield Interval(start, end, "snapshot")
            start = end
    yield Interval(start, max(start, log_end), None)


def _rows(
    simulator: Simulator,
    policy: str,
    replica: str | None,
    found: list[Interval],
    object_bytes: float | None,
) -> Iterator[Row]:
    """The rows of a rule's intervals, or of a replica's: what they hold is counted for all at once."""
    log, changes, limits = simulator.log, simulator.changes, simulator.limits
    starts = np.array([one.start_offset for one in found], np.int64)
    ends = np.array([one.end_offset for one in found], np.int64)
    sums = (
        changes.counts(starts, ends),
        log.bytes_between(starts, ends),
        log.records_between(starts, ends),
    )
    is_timed = policy == SHIPPED and limits.max_interval_ms < NEVER_MS
    held_by = zip(found, *(each.tolist() for each in sums), strict=True)
    for number, (one, changed, log_bytes, record_count) in enumerate(held_by, 1):
        start, end = one.start_offset, one.end_offset
        begun, until = log.time_before(start), log.time_before(end)
        if begun is None and len(log):
            begun = int(log.base_timestamps[0])
        held, alive = changes.alive_at(start), changes.alive_at(end)
        size = None if object_bytes is None else int(alive * object_bytes)
        amplified = None if size is None else write_amplification(size, log_bytes)
        yield {
            "policy": policy,
            "replica": replica,
            "limit_bytes": limits.max_bytes if policy in BY_SETTINGS else None,
            "limit_interval_ms": limits.max_interval_ms if is_timed else None,
            "interval": number,
            "start_offset": start,
            "end_offset": end,
            "start_timestamp": moment(begun),
            "end_timestamp": moment(until),
            "is_cut": one.trigger is not None,
            "trigger": one.trigger,
            "record_count": record_count,
            "log_bytes": log_bytes,
            "interval_ms": None if begun is None or until is None else until - begun,
            "snapshot_object_count": held,
            "changed_object_count": changed,
            "dirty_ratio": changed / held if held else None,
            "object_count": alive,
            "snapshot_size_bytes": size,
            "write_amplification": amplified,
        }
