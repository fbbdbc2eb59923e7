"""The shared history as a run has folded it: what its judgement needs, and nothing is folded twice.

In: a quorum, and the one stretch that its shared lineage is. Out: a `Told`, which a run fills on
its way: the states at the offsets where something is held against them, and what the rules have
found. Of a history that is anything but plain there is none, and `state_history` goes through the
records itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from kraftlog.audit.images import Images
from kraftlog.audit.issues import Issues
from kraftlog.audit.losses import cuts_of, stations_of
from kraftlog.audit.watch import MassDeletion, Rules, suspects
from kraftlog.log.batch import content_hash
from kraftlog.quorum.evidence import KeyDifference, SnapshotRefusal
from kraftlog.quorum.health import Past
from kraftlog.quorum.lineages import Stretch
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import Records
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.arrow_events import Event
from kraftlog.state.fold import Led, Watch, value_schema
from kraftlog.state.known import Known
from kraftlog.state.replay import Replay
from kraftlog.state.standing import Standing, Topics
from kraftlog.state.tables import TRANSACTION_TYPES

MOST_VERSIONS = 3_000_000
"""Versions of partitions that are kept, of all offsets together: some 500 MB."""

Snapshot = tuple[int, str]
"""Where a snapshot ends, and a hash over the ids of its batches."""

Compared = tuple[tuple[KeyDifference, ...], int]
"""The first differences of a snapshot from the shared history, and how many there are."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an earlier run has found of the records below `end_offset`, which of it still goes on
    there, and what it has found of the snapshots that it has held against the shared history, or
    loaded.
    """

    end_offset: int
    issues: Issues
    past: Past
    deletions: MassDeletion
    compared: Mapping[Snapshot, Compared]
    refusals: Mapping[Snapshot, SnapshotRefusal | None]


@dataclass(slots=True)
class Told:
    """One history: from `stretch`'s base to its end, of which `health_offset` is the newest that
    can be committed. `small` and `partitions` are the states at offsets; `issues` are those of the
    partitions' records, and all of `before`, `rules` has the others. `snapshots` are to be held
    against it, and what that has shown is `compared`; `refusals` is what of each cannot be
    loaded.
    """

    stretch: Stretch
    health_offset: int
    asked: tuple[int, ...]
    rules: Rules
    images: Images
    snapshots: tuple[SnapshotView, ...] = ()
    small: dict[int, Replay] = field(default_factory=dict)
    partitions: dict[int, pa.Table] = field(default_factory=dict)
    issues: Issues = field(default_factory=Issues)
    past: Past = field(default_factory=Past)
    before: Before | None = None
    holds_records: bool = False
    compared: Mapping[Snapshot, Compared] = field(default_factory=dict)
    refusals: Mapping[Snapshot, SnapshotRefusal | None] = field(default_factory=dict)

    def go_on(self, before: Before) -> None:
        """Begin where an earlier run has ended."""
        self.before, self.holds_records = before, True
        self.issues.merge(before.issues)
        self.rules = replace(self.rules, past=before.past.copy(), deletions=before.deletions)

    def load(self) -> None:
        """Load the snapshots that have not been held against the history before."""
        known = {} if self.before is None else self.before.compared
        self.images.load(one for one in self.snapshots if content_of(one) not in known)

    def watch(self) -> Watch:
        """What the fold of the partitions is asked."""
        until = {self.health_offset, self.stretch.end_offset}
        return Watch(tuple(sorted(until)), suspects)

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
        holds_records: bool,
    ) -> None:
        """Take in what the partitions' records have shown, behind those judged before."""
        self.holds_records |= holds_records
        self.partitions = partitions
        self.issues.merge(issues)
        known = Past() if self.before is None else self.before.past
        for past, offset in ((self.past, self.health_offset), (self.end, self.stretch.end_offset)):
            past.led_as(known.copy())
            past.lead(led.get(offset, ()))

    @property
    def end(self) -> Past:
        """What the way to the end has shown."""
        return self.rules.past

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


def content_of(view: SnapshotView) -> Snapshot:
    """What a snapshot is known by."""
    return view.end_offset, content_hash(view.evidence.batches.ids.astype(">u8").tobytes())


def to_be_told(quorum: Quorum, stretch: Stretch, records: Records) -> Told | None:
    """What is to be told of a stretch; None where its snapshots hold more than is kept."""
    start, end, upper = stretch.start_offset, stretch.end_offset, quorum.bounds.upper
    health = end if upper is None or not start <= upper <= end else upper
    ends = {
        one.end_offset: one.evidence.type_counts.get("PARTITION_RECORD", 0)
        for one in quorum.own_snapshots
        if one.end_offset and start <= one.end_offset <= end
    }
    asked = {*ends, health, end}
    most = max(ends.values(), default=0)
    kept = sum(ends.get(one, most) for one in asked)
    if kept > MOST_VERSIONS:
        return None
    parting = {at for at in stations_of(quorum, cuts_of(quorum)) if start <= at <= end} - asked
    if kept + len(parting) * most <= MOST_VERSIONS:
        asked |= parting
    rules = Rules.over(quorum.chain, Issues(), quorum.thresholds)
    snapshots = tuple(one for one in quorum.credible_snapshots if start < one.end_offset <= end)
    return Told(stretch, health, tuple(sorted(asked)), rules, Images(records, Topics()), snapshots)
