"""Replay the quorum's history once, and hold every snapshot against it.

In: a quorum, and the decoded records of each batch by its id. Out: `StateEvidence`. Where the
history begins above 0 a snapshot is its base; until a second witness agrees with that base, a
snapshot that contradicts it opens a second line, and the next witness decides between them. After
a hole, or a record that does not decode, nothing is judged until the next snapshot. After a record
that a newer Kafka wrote the replay goes on in doubt: what then fails is not judged, and the next
snapshot counts. Source: R25, R63, R160, R161.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kraftlog.audit.image_words import images_differ
from kraftlog.audit.state_rules import (
    KINDS,
    MassDeletion,
    Step,
    Told,
    Window,
    rules_after,
    rules_before,
)
from kraftlog.decode.records import Record
from kraftlog.quorum.content import TRANSACTION_TYPES, newer_parts
from kraftlog.quorum.evidence import (
    Difference,
    ImageComparison,
    StateEvidence,
    StateIssue,
)
from kraftlog.quorum.lineage import Link, history
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.replay import Origin, Replay
from kraftlog.state.state import Change, State

RecordsOf = Callable[[str], Sequence[Record]]
"""Decoded records of a batch, by its id."""

EQUALS, AGREE = "snapshot_equals_replay", "snapshots_agree"
RULE_CHECKS = (
    "references_exist", "isr_within_replicas", "leader_in_isr", "partition_epochs_step",
    "topic_identity_unique", "broker_epoch_is_offset", "producer_ids_increase", "mass_deletion",
    "record_replays",
)  # fmt: skip
STATE_CHECKS = (EQUALS, AGREE, *RULE_CHECKS)
"""All checks that a replay judges."""
ISSUE_LIMIT = 1000


class _Watched(Replay):
    """A replay that shows what a record changes as it comes, inside a metadata transaction too."""

    @property
    def working(self) -> State:
        """The state that the next record meets."""
        return self.state if self._hidden is None else self._hidden

    def take(self, origin: Origin, data: dict[str, Any] | None) -> tuple[Change, ...]:
        """Apply a record; its changes, visible or not."""
        hidden = len(self._waiting)
        seen = self.apply(origin, data)
        return tuple([one.change for one in seen] or [c for c, _ in self._waiting[hidden:]])


@dataclass(slots=True)
class _Line:
    """One candidate for the state: a replay, where it started, and how many independent witnesses
    agree with it. `doubt` says what of a newer Kafka may have changed the state.
    """

    replay: _Watched
    basis: str
    origin: str
    witnesses: int
    doubt: str | None = None
    doubted: list[tuple[SnapshotView, tuple[Difference, ...], int]] = field(default_factory=list)


@dataclass(slots=True)
class Replays:
    """The fold over one quorum's history, and what it finds on its way."""

    quorum: Quorum
    records_of: RecordsOf
    comparisons: list[ImageComparison] = field(default_factory=list)
    issues: list[StateIssue] = field(default_factory=list)
    skipped: list[tuple[str, str, str]] = field(default_factory=list)
    judged: set[str] = field(default_factory=set)
    _lines: list[_Line] = field(default_factory=list)
    _images: dict[str, State] = field(default_factory=dict)
    _image_doubts: dict[str, str | None] = field(default_factory=dict)

    def run(self) -> StateEvidence:
        """Replay everything."""
        waiting = self._snapshots()
        deletions = MassDeletion(self.quorum.thresholds)
        reached: int | None = None
        for link in history(self.quorum):
            if reached is None and link.base_offset == 0:
                self._lines = [_Line(_Watched(), "the log from offset 0 on", link.log.label, 2)]
            elif reached is None or link.base_offset != reached:
                self._judge_until(waiting, reached, link.base_offset)
                self._lose(reached, link.base_offset)
            reached = link.base_offset
            self._meet(waiting, reached)
            self._follow(link, deletions)
            reached = link.end_offset
        self._meet(waiting, reached)
        for one in [s for snapshots in waiting.values() for s in snapshots]:
            self._skip(
                EQUALS, one.replica, f"{one.evidence.name} ends where no log at hand reaches"
            )
        self._settle()
        for window in deletions.rest():
            self._mass_deletion(window)
        self._agreement()
        return StateEvidence(
            tuple(self.comparisons), tuple(self.issues), tuple(self.skipped), tuple(self.judged)
        )

    # --- the way through the history -------------------------------------------------------------

    def _snapshots(self) -> dict[int, list[SnapshotView]]:
        """The snapshots that can be judged, by their end offset."""
        found: dict[int, list[SnapshotView]] = defaultdict(list)
        for one in self.quorum.own_snapshots:
            contradiction = self.quorum.contradiction(one)
            if not one.end_offset:
                continue
            if not one.is_complete:
                self._skip(EQUALS, one.replica, f"{one.evidence.name} is not complete")
            elif contradiction is not None:
                self._skip(EQUALS, one.replica, f"{one.evidence.name}: {contradiction}")
            else:
                found[one.end_offset].append(one)
        return dict(sorted(found.items()))

    def _judge_until(
        self, waiting: dict[int, list[SnapshotView]], reached: int | None, base: int
    ) -> None:
        """What ends before the next link is met only where the history is known up to there."""
        if reached is not None:
            self._meet(waiting, reached)
        for end in [end for end in waiting if end < base]:
            for one in waiting.pop(end):
                self._skip(
                    EQUALS, one.replica, f"no log at hand reaches the end of {one.evidence.name}"
                )

    def _lose(self, reached: int | None, base: int) -> None:
        """Offsets are missing: the state is not known any more."""
        self._settle()
        self._lines = []
        if reached is not None:
            for check in RULE_CHECKS:
                self._skip(check, "quorum", f"offsets {reached} to {base - 1} are missing")

    def _meet(self, waiting: dict[int, list[SnapshotView]], offset: int | None) -> None:
        """Hold the snapshots that end here against the replay, or begin with them."""
        if offset is None:
            return
        groups = self._equal_groups(waiting.pop(offset, []))
        if not groups:
            return
        if not self._lines:
            first = groups[0]
            self._lines = [self._line(group) for group in groups[:2]]
            self._skip_rules(self._lines[0].doubt)
            for one in first[:1]:
                self._skip(EQUALS, one.replica, f"{one.evidence.name} is where the replay begins")
            return
        for group in groups:
            self._witness(group)

    def _equal_groups(self, snapshots: list[SnapshotView]) -> list[list[SnapshotView]]:
        """Snapshots of one id by equal state, the largest group first."""
        groups: list[list[SnapshotView]] = []
        for one in snapshots:
            for group in groups:
                if self._image(group[0]) == self._image(one):
                    group.append(one)
                    break
            else:
                groups.append([one])
        return sorted(groups, key=len, reverse=True)

    def _line(self, group: list[SnapshotView]) -> _Line:
        one = group[0]
        basis = f"{one.evidence.name} of {one.replica} and the log from there on"
        replay = _Watched(self._image(one).fork())
        return _Line(replay, basis, one.replica, len(group), self._image_doubt(one))

    def _witness(self, group: list[SnapshotView]) -> None:
        image, doubt = self._image(group[0]), self._image_doubt(group[0])
        if doubt or self._lines[0].doubt:
            self._witness_in_doubt(group, doubt or self._lines[0].doubt or "")
            return
        compared = [(line, *images_differ(line.replay.state, image)) for line in self._lines]
        self.judged.add(EQUALS)
        for line, told, count in compared:
            only_stale = count and all(one.stale_config for one in told)
            if not count or only_stale:
                if only_stale:
                    self._report(line, group, told, count)
                line.witnesses += len(group)
                # A second witness decides: what contradicted this line was wrong.
                self._lines = [line]
                self._settle()
                return
        line, told, count = compared[0]
        line.doubted += [(one, told, count) for one in group]
        if line.witnesses < 2 and len(self._lines) == 1:
            self._lines.append(self._line(group))

    def _witness_in_doubt(self, group: list[SnapshotView], doubt: str) -> None:
        """Equal states are judged all the same; others are no fault of the snapshot. A state in
        doubt goes on from the snapshot's.
        """
        if not images_differ(self._lines[0].replay.state, self._image(group[0]))[1]:
            self.judged.add(EQUALS)
        else:
            for one in group:
                self._skip(EQUALS, one.replica, f"{one.evidence.name}: {doubt}")
        if self._lines[0].doubt:
            self._settle()
            self._lines = [self._line(group)]
            self._skip_rules(self._lines[0].doubt)

    def _report(
        self, line: _Line, group: list[SnapshotView], told: tuple[Difference, ...], count: int
    ) -> None:
        for one in group:
            self.comparisons.append(
                ImageComparison(
                    EQUALS, one.replica, one.path, one.end_offset, one.epoch, line.origin,
                    f"the replay of {line.basis}", told, count,
                )
            )  # fmt: skip

    def _settle(self) -> None:
        """Report what contradicts the line that won; without a winner, the first one counts."""
        for line in self._lines[:1]:
            for one, told, count in line.doubted:
                self._report(line, [one], told, count)
            line.doubted = []

    # --- records ---------------------------------------------------------------------------------

    def _follow(self, link: Link, deletions: MassDeletion) -> None:
        if not self._lines:
            return
        problem = self._unreadable(link)
        for index, line in enumerate(self._lines):
            for record in self.records_of(link.batch_id):
                self._apply(link, line, record, deletions if index == 0 else None)
        if problem is not None:
            self._settle()
            self._lines = []
            for check in (EQUALS, *RULE_CHECKS):
                self._skip(check, link.log.label, problem)

    def _unreadable(self, link: Link) -> str | None:
        """Why the state is not known after a batch."""
        content = link.log.content(link.row)
        for issue in content.issues if content else ():
            if issue.byte_in_batch is not None:
                return (
                    f"offset {link.base_offset + issue.record_index} cannot be read: {issue.text}"
                )
        return None

    def _apply(
        self, link: Link, line: _Line, record: Record, deletions: MassDeletion | None
    ) -> None:
        replay, offset = line.replay, link.base_offset + record.index
        epoch = int(link.log.evidence.log.epochs[link.row])
        origin = Origin(offset, record.timestamp, epoch, record.type)
        if record.is_control:
            replay.apply_control(origin, record.data)
            return
        self._doubt(line, record, offset)
        if deletions is None or record.data is None or record.type in _QUIET or line.doubt:
            replay.apply(origin, record.data)
            return
        step = Step(record.type, record.data, offset, link.base_offset, replay.working)
        self.judged.update(RULE_CHECKS)
        faults = len(replay.faults)
        told = list(rules_before(step))
        changes = replay.take(origin, record.data)
        told += rules_after(step, changes, replay.faults[faults:])
        for one in told:
            self._issue(link, record.index, one)
        place = (link, record.index)
        seen = deletions.see(changes, replay.working, record.timestamp, place, offset)
        for window in seen:
            self._mass_deletion(window)

    def _doubt(self, line: _Line, record: Record, offset: int) -> None:
        """From a record of a newer Kafka on, what the state should be is not known."""
        newer = None if line.doubt else next(newer_parts(record), None)
        if newer is not None:
            line.doubt = f"from offset {offset} on: {newer}, and may have changed the state"
            self._skip_rules(line.doubt if line is self._lines[0] else None)

    def _issue(self, link: Link, index: int, told: Told, severity: str | None = None) -> None:
        if len(self.issues) < ISSUE_LIMIT:
            evidence = {**told.evidence, "replicas": list(link.labels)}
            label = link.log.label
            self.issues.append(
                StateIssue(told.check, label, link.row, index, told.text, evidence, severity)
            )

    def _mass_deletion(self, window: Window) -> None:
        link, index = window.first
        kind = KINDS[window.table]
        first = link.base_offset + index
        told = Told(
            "mass_deletion",
            f"{window.removed} of {window.total} {kind} are removed between offsets {first} and "
            f"{window.last_offset}: if nobody meant it, stop the controllers now; the state "
            "before offset "
            f"{first} can be written as a checkpoint",
            {"kind": window.table, "removed": window.removed, "total": window.total,
             "last_offset": window.last_offset},
        )  # fmt: skip
        self._issue(link, index, told)

    # --- images ----------------------------------------------------------------------------------

    def _image(self, one: SnapshotView) -> State:
        if one.path not in self._images:
            replay, doubt = Replay(), None
            batches = one.evidence.batches
            for row in range(len(batches)):
                for record in self.records_of(batches.id_text(row)):
                    newer = None if record.is_control else next(newer_parts(record), None)
                    doubt = doubt or newer
                    origin = Origin(None, record.timestamp, one.epoch, record.type)
                    apply = replay.apply_control if record.is_control else replay.apply
                    apply(origin, record.data)
            self._images[one.path] = replay.state
            self._image_doubts[one.path] = None if doubt is None else f"in the snapshot {doubt}"
        return self._images[one.path]

    def _image_doubt(self, one: SnapshotView) -> str | None:
        """What a newer Kafka wrote into a snapshot, so that its state is not known whole."""
        self._image(one)
        return self._image_doubts[one.path]

    def _agreement(self) -> None:
        """The same id on several replicas: the state that the replay refused, or the smaller
        group, is the odd one.
        """
        by_id: dict[tuple[int, int], list[SnapshotView]] = defaultdict(list)
        for one in self.quorum.own_snapshots:
            if one.is_complete and one.end_offset:
                by_id[one.id].append(one)
        wrong = {one.path for one in self.comparisons if one.check == EQUALS}
        for snapshots in by_id.values():
            if len(snapshots) < 2:
                continue
            self.judged.add(AGREE)
            groups = self._equal_groups(snapshots)
            groups.sort(key=lambda group: (group[0].path in wrong, -len(group)))
            for group in groups[1:]:
                self._disagree(groups[0][0], group)

    def _disagree(self, right: SnapshotView, group: list[SnapshotView]) -> None:
        told, count = images_differ(self._image(right), self._image(group[0]))
        doubt = self._image_doubt(right) or self._image_doubt(group[0])
        if count and doubt:
            self._skip(AGREE, group[0].replica, f"{group[0].evidence.name}: {doubt}")
            return
        for one in group if count else ():
            self.comparisons.append(
                ImageComparison(
                    AGREE, one.replica, one.path, one.end_offset, one.epoch, right.replica,
                    f"the snapshot of the same id on {right.replica}", told, count,
                )
            )  # fmt: skip

    def _skip_rules(self, doubt: str | None) -> None:
        """Records cannot be judged by a state in doubt."""
        for check in RULE_CHECKS if doubt else ():
            self._skip(check, "quorum", doubt or "")

    def _skip(self, check: str, label: str, why: str) -> None:
        self.skipped.append((check, label, why))


_QUIET = TRANSACTION_TYPES | {"NO_OP_RECORD"}


def replay_quorum(quorum: Quorum, records_of: RecordsOf) -> StateEvidence:
    """Everything that the state checks need to know."""
    return Replays(quorum, records_of).run()
