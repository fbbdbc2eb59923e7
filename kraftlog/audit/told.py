"""The shared history as a run has folded it: what its judgement needs, and nothing is folded twice.

In: a quorum, and the one stretch that its shared lineage is. Out: a `Told`, which a run fills on
its way: the states at the offsets where something is held against them, and what the rules have
found. Of a history that is anything but plain there is none, and `state_history` goes through the
records itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from kraftlog.audit.issues import Issues
from kraftlog.audit.watch import MassDeletion, Rules, suspects
from kraftlog.quorum.content import TRANSACTION_TYPES
from kraftlog.quorum.evidence import Difference, Longs
from kraftlog.quorum.health import NO_LEADER, Past, Since, Unclean
from kraftlog.quorum.lineages import Stretch
from kraftlog.quorum.model import Quorum
from kraftlog.state.arrow_events import Event
from kraftlog.state.fold import Led, Watch, value_schema
from kraftlog.state.known import Known
from kraftlog.state.replay import Replay
from kraftlog.state.standing import Standing, Topics

MOST_VERSIONS = 3_000_000
"""Versions of partitions that are kept, of all offsets together: some 500 MB."""

Snapshot = tuple[int, str]
"""Where a snapshot ends, and a hash over the ids of its batches."""

Compared = tuple[tuple[Difference, ...], int]
"""The first differences of a snapshot from the shared history, and how many there are."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an earlier run has found of the partitions' records below `end_offset`, and of the
    snapshots that it has held against the shared history.
    """

    end_offset: int
    issues: Issues
    past: Past
    compared: Mapping[Snapshot, Compared]


@dataclass(slots=True)
class Told:
    """One history: from `stretch`'s base to its end, of which `health_offset` is the newest that
    can be committed. `small` and `partitions` are the states at offsets; `issues` are those of the
    partitions' records, `rules` has the others. `compared`: what the audit has held against it.
    """

    stretch: Stretch
    health_offset: int
    asked: tuple[int, ...]
    rules: Rules
    small: dict[int, Replay] = field(default_factory=dict)
    partitions: dict[int, pa.Table] = field(default_factory=dict)
    issues: Issues = field(default_factory=Issues)
    led: dict[int, Past] = field(default_factory=dict)
    past: Past = field(default_factory=Past)
    before: Before | None = None
    holds_records: bool = False
    compared: Mapping[Snapshot, Compared] = field(default_factory=dict)

    def watch(self, goes_on: bool) -> Watch:
        """What the fold of the partitions is asked."""
        return Watch(
            tuple(sorted({self.health_offset, self.stretch.end_offset})), goes_on, suspects
        )

    def reach(self, offset: int, replay: Replay) -> None:
        """Take in the small tables at an offset."""
        self.small[offset] = replay.goes_on()
        if offset == self.health_offset:
            self.past = self.rules.past.copy()

    def note(self, event: Event) -> None:
        """Take in that there is a record of a small table."""
        if not event.is_control and event.origin.type not in TRANSACTION_TYPES:
            self.holds_records = True

    def take(
        self,
        issues: Issues,
        partitions: dict[int, pa.Table],
        led: dict[int, list[Led]],
        before: Before | None,
        holds_records: bool,
    ) -> None:
        """Take in what the partitions' records have shown: all of them, or those behind what an
        earlier run has judged.
        """
        self.before = before
        self.holds_records |= holds_records or before is not None
        self.partitions = partitions
        self.issues.merge(issues)
        known = Past() if before is None else before.past
        if before is not None:
            self.issues.merge(before.issues)
        for offset in self.watch(goes_on=False).until:
            self.led[offset] = led_past(led.get(offset, ()), known)
        found = self.led[self.health_offset]
        self.past = replace(
            self.past, leaderless=found.leaderless, led_by=found.led_by, unclean=found.unclean
        )

    def knows(self, offset: int) -> bool:
        """Whether it has the state at an offset."""
        return offset in self.small and offset in self.partitions

    def state(self, offset: int, topics: Topics) -> Known:
        """The state at an offset, as everyone may see it."""
        known = Known(topics)
        known.small = self.small[offset]
        nothing = np.empty(0, np.int64)
        rows = self.partitions[offset].select(value_schema().names).cast(value_schema())
        known.partitions = Standing.empty(topics).replaced(nothing, rows)
        return known


def led_past(found: Iterable[Led], known: Past) -> Past:
    """What is said of leaders, on top of what was known before."""
    past = Past(unclean=dict(known.unclean))
    for one in found:
        key = one.topic_id, one.partition_id
        if one.lost is not None:
            is_new = one.lost[0] >= 0
            since = Since(*one.lost) if is_new else known.leaderless.get(key)
            leader = one.led_by if is_new else known.led_by.get(key, NO_LEADER)
            if since is not None:
                past.leaderless[key] = since
            if leader != NO_LEADER:
                past.led_by[key] = leader
        if one.unclean is not None:
            offset, timestamp, leader = one.unclean
            times = known.unclean[key].times if key in known.unclean else 0
            past.unclean[key] = Unclean(Since(offset, timestamp), leader, times + one.times)
    return past


def to_be_told(quorum: Quorum, stretch: Stretch, base_offsets: Longs) -> Told | None:
    """What is to be told of a stretch; None where its snapshots hold more than is kept."""
    start, end, upper = stretch.start_offset, stretch.end_offset, quorum.bounds.upper
    health = end if upper is None or not start <= upper <= end else upper
    ends = {
        one.end_offset: one.evidence.type_counts.get("PARTITION_RECORD", 0)
        for one in quorum.own_snapshots
        if one.end_offset and start <= one.end_offset <= end
    }
    asked = {*ends, health, end}
    if sum(ends.get(one, max(ends.values(), default=0)) for one in asked) > MOST_VERSIONS:
        return None
    rules = Rules(base_offsets.tolist(), Issues(), MassDeletion(quorum.thresholds))
    return Told(stretch, health, tuple(sorted(asked)), rules)
