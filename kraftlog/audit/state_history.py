"""Go through the quorum's history once, judge its records, and hold every snapshot against it.

In: a quorum, and where its records are read from. Out: `StateEvidence`. Where the history begins
above 0 a snapshot is its base; until a second replica's agrees with that base, a snapshot that
contradicts it opens a second line, and the next replica, or several at once, decide between them:
what the other line began with is wrong. After a hole, or a record that does not decode, nothing is
judged until the next snapshot. After a record that a newer Kafka wrote the history goes on in doubt: what then fails is not judged, and the next snapshot
counts. Memory: two lines at most, two windows of records, and the snapshots of one id. Source:
KIP-630 "Overview", "Loading Snapshots", KIP-868, KIP-631.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise, product

import numpy as np

from kraftlog.audit import state_checks
from kraftlog.audit.check import checks_in
from kraftlog.audit.coverage import BASE, RECORD_ALLOWED
from kraftlog.audit.grouping import AGREE, EQUALS
from kraftlog.audit.images import Images, SnapshotImage, Stations, are_equal, doubt_of, images_apart
from kraftlog.audit.issues import Issues, placed_in
from kraftlog.audit.losses import Cut, apart_in, cuts_of, losses_of, stations_of
from kraftlog.audit.told import Compared, Snapshot, Told, content_of
from kraftlog.audit.watch import Rules
from kraftlog.errors import InputError
from kraftlog.log.batch import CONTROL
from kraftlog.log.fault import FaultKind
from kraftlog.plain import offsets_are
from kraftlog.quorum.chain import Chain
from kraftlog.quorum.committed import is_committed_together
from kraftlog.quorum.content import UNKNOWN
from kraftlog.quorum.evidence import (
    UNREMARKABLE,
    ImageComparison,
    KeyDifference,
    QuorumEvidence,
    RecordIssue,
    SnapshotRefusal,
    StateEvidence,
)
from kraftlog.quorum.health import Health, health_of
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import Records
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.known import Known
from kraftlog.state.shapes import METADATA_VERSION
from kraftlog.state.standing import Topics
from kraftlog.state.tables import TRANSACTION_TYPES
from kraftlog.state.window import RecordWindow, ahead
from kraftlog.state.write import ELR_FEATURE

RULE_CHECKS = tuple(one.name for one in checks_in(state_checks))

_CHANGED = "a file has changed since it was looked at: audit it again"


class NotTold(Exception):
    """What is told of a history does not suffice: its records are asked."""


@dataclass(slots=True)
class _Line:
    """One candidate for the state: where it started (`base`: at snapshots, and not at offset 0),
    and the replicas whose snapshots agree with it. `doubt` says what of a newer Kafka may have
    changed the state.
    """

    known: Known | None
    basis: str
    origin: str
    base: list[SnapshotView] = field(default_factory=list)
    witnesses: set[str] = field(default_factory=set)
    doubt: str | None = None
    doubted: list[tuple[SnapshotView, tuple[KeyDifference, ...], int]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether one replica alone stands for it: what contradicts it may as well be right."""
        return bool(self.base) and len(self.witnesses) < 2

    @property
    def state(self) -> Known:
        """Its state.

        Raises NotTold where a run has not kept it."""
        if self.known is None:
            raise NotTold
        return self.known


@dataclass(slots=True)
class _Stop:
    """A link in which the state is lost, from which offset on, why, and by whose copy (`label`)."""

    label: str
    offset: int
    why: str


class StateHistory:
    """The fold over one quorum's history. Where a run has `told` it, no record is read again."""

    def __init__(
        self, quorum: Quorum, records: Records, stations: Stations, told: Told | None = None
    ) -> None:
        self.quorum, self.records, self.told = quorum, records, told
        self.stations = stations
        self.chain = quorum.chain
        self.issues = Issues()
        self.compared: dict[Snapshot, Compared] = {}
        self.refusals: dict[Snapshot, SnapshotRefusal | None] = {}
        self.comparisons: list[ImageComparison] = []
        self.skipped: list[tuple[str, str, str]] = []
        self.judged: set[str] = set()
        self.ranges: list[tuple[int, int]] = []
        self._images = stations.images
        self._topics = self._images.topics
        self._rules = Rules.over(self.chain, self.issues, quorum.thresholds)
        self._stops, self._doubts = _remarks(self.chain)
        if told is not None:
            if self._stops or self._doubts:
                raise NotTold
            for one in (told.issues, told.rules.issues):
                self.issues.merge(one)
            self._rules = replace(told.rules, issues=self.issues)
        before = None if told is None else told.before
        self._compared_before: Mapping[Snapshot, Compared] = before.compared if before else {}
        self._refused_before: Mapping[Snapshot, SnapshotRefusal | None] = (
            before.refusals if before else {}
        )
        self._lines: list[_Line] = []
        self._health: Health | None = None
        self._asked = {
            (one.topic_id, one.number)
            for replica in quorum.replicas
            for one in replica.partition_folders
        }

    def run(self) -> StateEvidence:
        """Go through everything."""
        waiting = self._snapshots()
        reached: int | None = None
        upper = self.quorum.bounds.upper
        halts = {*waiting, *self.stations.offsets, *(() if upper is None else (upper,))}
        spans = self.chain.unbroken()
        begins = {first for first, _ in spans}
        for first, after in self._parts(spans, halts):
            base = int(self.chain.base[first])
            if reached is None and base == 0:
                label = self.chain.logs[int(self.chain.log[first])].label
                known = Known(self._topics)
                self._lines = [_Line(known, "the log from offset 0 on", label)]
            elif first in begins:
                self._judge_until(waiting, reached, base)
                self._lose(reached, base)
            self._meet(waiting, base)
            self._follow(first, after)
            reached = int(self.chain.end[after - 1])
            self._pass_by(reached)
            if reached == upper:
                self._take_health(reached)
        self._meet(waiting, reached)
        if reached is not None and (upper is None or reached < upper):
            self._take_health(reached)
        for one in [s for snapshots in waiting.values() for s in snapshots]:
            self._skip(
                EQUALS, one.replica, f"{one.evidence.name} ends where no log at hand reaches"
            )
        self._settle()
        self._rules.finish()
        self._agreement()
        refusals = dict(self._refusals())
        elr_off = self._rules.past.turned_off.get(ELR_FEATURE)
        if elr_off is not None:
            check, kind = state_checks.ISR_WITHIN_REPLICAS.name, state_checks.ELR_UNNAMED
            self.issues.excuse(check, kind, elr_off.offset)
        issues = tuple(placed_in(self.quorum, self.chain, self.issues))
        return StateEvidence(
            tuple(self.comparisons),
            issues,
            tuple(self.skipped),
            tuple(sorted(self.judged)),
            tuple(_joined(self.ranges)),
            self._health,
            refusals=refusals,
        )

    def _pass_by(self, offset: int) -> None:
        """Leave the state to who asks for it here, where nothing can contradict it any more."""
        for line in self._lines if len(self._lines) == 1 else ():
            if line.known is not None and line.doubt is None and not line.is_open:
                self.stations.pass_by(offset, line.known)

    def _take_health(self, offset: int) -> None:
        """What the state at an offset says: the newest that can be committed."""
        past = self._rules.past
        if self.told is not None:
            if offset != self.told.health_offset:
                raise NotTold
            past = self.told.past
        for line in self._lines[:1]:
            standing, small = line.state.visible, line.state.small
            begins = max((one.end_offset for one in line.base), default=0)
            found = health_of(
                small.state,
                standing.versions(standing.keys),
                past.copy(),
                offset,
                is_committed_together(self.quorum, begins, offset),
                line.doubt,
                self._asked,
            )
            level = small.current.get("features", (METADATA_VERSION,))
            if small.open_since is not None and level is not None:
                hidden = small.open_since, level["featureLevel"]
                found = replace(found, hidden_level=hidden)
            self._health = found

    # --- the way through the history -------------------------------------------------------------

    def _parts(self, spans: Iterable[tuple[int, int]], ends: set[int]) -> Iterator[tuple[int, int]]:
        """Unbroken spans of the chain in parts [first, after), each up to where something is to be
        done: a snapshot's end, or a batch that cannot be read.
        """
        met = np.flatnonzero(np.isin(self.chain.end, np.array(sorted(ends), np.int64))) + 1
        cuts = {at for span in spans for at in span}
        yield from pairwise(sorted({*cuts, *met.tolist(), *(one + 1 for one in self._stops)}))

    def _snapshots(self) -> dict[int, list[SnapshotView]]:
        """The snapshots that can be judged, by their end offset."""
        found: dict[int, list[SnapshotView]] = defaultdict(list)
        for check, replica in product((EQUALS, AGREE), self.quorum.replicas):
            if replica.unlisted:
                self._skip(check, replica.label, replica.unlisted)
        for one in self.quorum.own_snapshots:
            contradiction = self.quorum.contradiction(one)
            if not one.end_offset:
                continue
            if not one.is_complete:
                self._skip(EQUALS, one.replica, _not_whole(one))
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
        """Offsets are missing, or what follows is older: the state is not known any more."""
        self._settle()
        self._lines = []
        self._rules.forget()
        if reached is None:
            return
        why = f"{offsets_are(reached, base)} missing"
        if reached == base:
            why = f"what the copies hold from offset {base} on is of an older epoch than what is before"
        for check in RULE_CHECKS:
            self._skip(check, "quorum", why)

    def _follow(self, first: int, after: int) -> None:
        """Take in the records of some links."""
        if not self._lines:
            return
        if self.told is not None:
            self._follow_told(self.told, first, after)
            return
        stop = self._stops.get(after - 1)
        end = int(self.chain.end[after - 1])
        reached = int(self.chain.base[first])
        for window in ahead(self.records.windows(self.chain, first, after)):
            known = window if stop is None else window.between(window.start_offset, stop.offset)
            for index, line in enumerate(self._lines):
                self._advance(line, known, is_first=index == 0)
            reached = window.end_offset
        if reached < end:
            stop = _Stop("quorum", reached, f"offset {reached} cannot be read: {_CHANGED}")
        if stop is not None:
            self._settle()
            self._lines = []
            self._rules.forget()
            for check in (EQUALS, *RULE_CHECKS):
                self._skip(check, stop.label, stop.why)

    def _follow_told(self, told: Told, first: int, after: int) -> None:
        """The same where the history is told."""
        start, end = int(self.chain.base[first]), int(self.chain.end[after - 1])
        if start < told.stretch.start_offset or end > told.stretch.end_offset:
            raise NotTold
        (line,) = self._lines
        line.known = told.state(end, self._topics) if told.knows(end) else None
        self.judged.update(RULE_CHECKS if told.holds_records else ())
        self.ranges.append((start, end))

    def _advance(self, line: _Line, window: RecordWindow, *, is_first: bool) -> None:
        """Take in one window; behind a record of a newer Kafka the state is in doubt."""
        doubt = None if line.doubt else _first_in(window, self._doubts)
        watched = window if doubt is None else window.between(window.start_offset, doubt.offset)
        if is_first and line.doubt is None:
            line.state.advance(watched, self._rules)
            self._note_judged(watched)
        else:
            line.state.advance(watched)
        if doubt is not None:
            line.doubt = (
                f"from offset {doubt.offset} on: {doubt.text}, and may have changed the state"
            )
            self._skip_rules(line.doubt if is_first else None)
            line.state.advance(window.between(doubt.offset, window.end_offset))

    def _note_judged(self, window: RecordWindow) -> None:
        held = {name for name, rows in window.records.items() if rows.num_rows}
        if held - TRANSACTION_TYPES:
            self.judged.update(RULE_CHECKS)
        if window.start_offset < window.end_offset:
            self.ranges.append((window.start_offset, window.end_offset))

    # --- snapshots -------------------------------------------------------------------------------

    def _meet(self, waiting: dict[int, list[SnapshotView]], offset: int | None) -> None:
        """Hold the snapshots that end here against the history, or begin with them."""
        if offset is None:
            return
        snapshots = waiting.pop(offset, [])
        if self.told is not None and snapshots and not self._lines:
            self._begin_told(self.told, snapshots)
            return
        groups = self._groups(snapshots)
        if not groups:
            return
        if not self._lines:
            self._lines = [self._line(group, self._image(group[0])) for group in groups[:2]]
            self._skip_rules(self._lines[0].doubt)
            self._skip_base(groups[0][0])
            return
        for group in groups:
            self._witness(group)

    def _begin_told(self, told: Told, snapshots: list[SnapshotView]) -> None:
        """Begin with the snapshots that the run has begun with."""
        base, groups = told.stretch.base, [snapshots]
        if base is not None and {*map(content_of, snapshots)} != {content_of(base)}:
            groups = self._equal_groups(snapshots, EQUALS)
        begun = [content_of(one) for one in groups[0]] if len(groups) == 1 else []
        if base is None or content_of(base) not in begun or doubt_of(base):
            raise NotTold
        self._lines = [self._line(groups[0], SnapshotImage(Known(self._topics), None))]
        self._skip_base(groups[0][0])

    def _groups(self, snapshots: list[SnapshotView]) -> list[list[SnapshotView]]:
        """Snapshots of one id by equal state, the largest group first; those that were held against
        the history before, by what that has shown.
        """
        known: dict[Compared, list[SnapshotView]] = defaultdict(list)
        rest: list[SnapshotView] = []
        for one in snapshots:
            found = self._compared_before.get(content_of(one))
            (rest if found is None else known[found]).append(one)
        return sorted([*known.values(), *self._equal_groups(rest, EQUALS)], key=len, reverse=True)

    def _skip_base(self, one: SnapshotView) -> None:
        again = " again" if self.ranges else ""
        self._skip(EQUALS, one.replica, f"{one.evidence.name} {BASE}{again}")

    def _equal_groups(self, snapshots: list[SnapshotView], check: str) -> list[list[SnapshotView]]:
        """Snapshots of one id by equal state, the largest group first."""
        groups: list[list[SnapshotView]] = []
        for one in snapshots:
            image = self._images.of(one)
            if image is None:
                self._skip(check, one.replica, f"{one.evidence.name}: {_CHANGED}")
                continue
            for group in groups:
                if are_equal(self._image(group[0]).known, image.known):
                    group.append(one)
                    break
            else:
                groups.append([one])
        return sorted(groups, key=len, reverse=True)

    def _image(self, one: SnapshotView) -> SnapshotImage:
        image = self._images.of(one)
        if image is None:
            raise InputError(f"{one.path}: {_CHANGED}")
        return image

    def _line(self, group: list[SnapshotView], image: SnapshotImage) -> _Line:
        one = group[0]
        basis = f"{one.evidence.name} of {one.replica} and the log from there on"
        return _Line(image.known.fork(), basis, one.replica, group, _labels(group), image.doubt)

    def _witness(self, group: list[SnapshotView]) -> None:
        found = self._compared_before.get(content_of(group[0]))
        if found is not None:
            compared = [(self._lines[0], *found)]
        else:
            image = self._image(group[0])
            doubt = image.doubt or self._lines[0].doubt
            if doubt:
                self._witness_in_doubt(group, image, doubt)
                return
            compared = [(line, *images_apart(line.state, image.known)) for line in self._lines]
        self.judged.add(EQUALS)
        self.compared |= dict.fromkeys(map(content_of, group), compared[0][1:])
        for line, told, count in compared:
            only_stale = count and all(one.stale_config for one in told)
            if not count or only_stale:
                if only_stale:
                    self._report(line, group, told, count)
                self._agree(line, group, [one for one in compared if one[0] is not line])
                return
        line, told, count = compared[0]
        line.doubted += [(one, told, count) for one in group]
        if line.is_open and len(self._lines) == 1:
            if self.told is not None:
                raise NotTold
            second = self._line(group, self._image(group[0]))
            if second.is_open:
                self._lines.append(second)
            else:
                self._refuse(line, group[0])
                self._lines = [second]

    def _agree(
        self,
        line: _Line,
        group: list[SnapshotView],
        others: list[tuple[_Line, tuple[KeyDifference, ...], int]],
    ) -> None:
        """Another replica decides for the line that it agrees with: what contradicted that was
        wrong. One that stands for it already proves nothing; it contradicts the `others`.
        """
        if _labels(group) <= line.witnesses:
            for other, told, count in others:
                other.doubted += [(one, told, count) for one in group]
            return
        line.witnesses |= _labels(group)
        if line is not self._lines[0]:
            self._refuse(self._lines[0], group[0])
        self._lines = [line]
        self._settle()

    def _refuse(self, line: _Line, right: SnapshotView) -> None:
        """The first line is wrong, as several others agree against it: so is what it began with."""
        told, count = images_apart(self._image(right).known, line.state)
        basis = (
            f"{right.evidence.name} of {right.replica}, with the log between them replayed on it,"
        )
        self._compare(line.base, right.replica, basis, told, count)

    def _witness_in_doubt(
        self, group: list[SnapshotView], image: SnapshotImage, doubt: str
    ) -> None:
        """Equal states are judged all the same; a state in doubt goes on from the snapshot's."""
        if not images_apart(self._lines[0].state, image.known)[1]:
            self.judged.add(EQUALS)
        else:
            for one in group:
                self._skip(EQUALS, one.replica, f"{one.evidence.name}: {doubt}")
        if self._lines[0].doubt:
            self._settle()
            self._lines = [self._line(group, image)]
            self._skip_rules(self._lines[0].doubt)

    def _report(
        self, line: _Line, group: list[SnapshotView], told: tuple[KeyDifference, ...], count: int
    ) -> None:
        basis = f"the replay of {line.basis}"
        logged, has_base = self._logged(line, told), bool(line.base)
        self._compare(group, line.origin, basis, told, count, has_base=has_base, logged=logged)

    def _logged(self, line: _Line, told: tuple[KeyDifference, ...]) -> tuple[str, ...]:
        """Which stale configs that a snapshot lacks a line has not begun with."""
        found = [one for one in told if one.stale_config and one.change == "removed"]
        if found and line.base:
            begun = self._image(line.base[0]).known.small.state
            found = [one for one in found if begun.get("configs", one.key_parts) is None]
        return tuple(one.key for one in found)

    def _compare(
        self,
        group: list[SnapshotView],
        other: str,
        basis: str,
        told: tuple[KeyDifference, ...],
        count: int,
        *,
        check: str = EQUALS,
        has_base: bool = True,
        logged: tuple[str, ...] = (),
    ) -> None:
        for one in group:
            self.comparisons.append(
                ImageComparison(
                    check, one.replica, one.path, one.end_offset, one.epoch, other, basis, told,
                    count, has_base, logged,
                )
            )  # fmt: skip

    def _settle(self) -> None:
        """Report what contradicts the line that won; without a winner, the first one counts."""
        for line in self._lines[:1]:
            for one, told, count in line.doubted:
                self._report(line, [one], told, count)
            line.doubted = []

    def _agreement(self) -> None:
        """The same id on several replicas: what history refused, or the smaller group, is odd."""
        by_id: dict[tuple[int, int], list[SnapshotView]] = defaultdict(list)
        for one in self.quorum.own_snapshots:
            if one.end_offset:
                by_id[one.id].append(one)
        wrong = {one.path for one in self.comparisons if one.check == EQUALS}
        for every in by_id.values():
            snapshots = [one for one in every if one.is_complete]
            for one in every if len(every) > 1 else ():
                if not one.is_complete:
                    self._skip(AGREE, one.replica, _not_whole(one))
            if len(snapshots) < 2:
                continue
            self.judged.add(AGREE)
            if len({one.evidence.batches.ids.tobytes() for one in snapshots}) == 1:
                continue
            groups = self._equal_groups(snapshots, AGREE)
            groups.sort(key=lambda group: (group[0].path in wrong, -len(group)))
            for group in groups[1:]:
                self._disagree(groups[0][0], group)

    def _disagree(self, right: SnapshotView, group: list[SnapshotView]) -> None:
        one, other = self._image(right), self._image(group[0])
        told, count = images_apart(one.known, other.known)
        # A level is read whole: two of them at one end are damage, whichever Kafka wrote the files.
        has_levels = any(each.key.startswith("features:") for each in told)
        doubt = None if has_levels else one.doubt or other.doubt
        if count and doubt:
            self._skip(AGREE, group[0].replica, f"{group[0].evidence.name}: {doubt}")
        elif count:
            basis = f"the snapshot of the same id on {right.replica}"
            self._compare(group, right.replica, basis, told, count, check=AGREE)

    def _refusals(self) -> Iterator[tuple[str, SnapshotRefusal]]:
        """The snapshots that cannot be loaded, by path: of any replica, wherever they end."""
        for one in self.quorum.snapshots:
            if not one.is_complete:
                if one.not_read is None:
                    self._skip(RECORD_ALLOWED, one.replica, f"{one.evidence.name} is not complete")
                continue
            doubt, key = doubt_of(one), content_of(one)
            if doubt is None and key not in self.refusals and not self._load(one):
                doubt = _CHANGED
            if doubt is not None:
                self._skip(RECORD_ALLOWED, one.replica, f"{one.evidence.name}: {doubt}")
            elif (found := self.refusals[key]) is not None:
                yield one.path, found

    def _load(self, one: SnapshotView) -> bool:
        """Ask what of a snapshot cannot be loaded, as far as it was not asked before."""
        key, content = content_of(one), one.evidence.batches.ids.tobytes()
        if key in self._refused_before:
            self.refusals[key] = self._refused_before[key]
        elif content in self._images.refused or self._images.of(one) is not None:
            self.refusals[key] = self._images.refused[content]
        return key in self.refusals

    def _skip_rules(self, doubt: str | None) -> None:
        """Records cannot be judged by a state in doubt."""
        for check in RULE_CHECKS if doubt else ():
            self._skip(check, "quorum", doubt or "")

    def _skip(self, check: str, label: str, why: str) -> None:
        self.skipped.append((check, label, why))


@dataclass(frozen=True, slots=True)
class _Doubt:
    """The first record of a batch that a newer Kafka wrote."""

    offset: int
    text: str


def _first_in(window: RecordWindow, doubts: Sequence[_Doubt]) -> _Doubt | None:
    at = bisect_left(doubts, window.start_offset, key=lambda one: one.offset)
    return doubts[at] if at < len(doubts) and doubts[at].offset < window.end_offset else None


def _remarks(links: Chain) -> tuple[dict[int, _Stop], list[_Doubt]]:
    """Links after which the state is not known, and records that put it in doubt, by offset."""
    stops: dict[int, _Stop] = {}
    doubts: list[_Doubt] = []
    for at, issue in _issues(links):
        log, base = links.logs[int(links.log[at])], int(links.base[at])
        offset = base + issue.record_index
        if issue.byte_in_batch is not None and issue.kind != FaultKind.BATCH_TRAILING:
            why = f"offset {offset} cannot be read: {issue.text}"
            stops.setdefault(at, _Stop(log.label, offset, why))
        elif issue.kind == UNKNOWN and not log.evidence.log.attributes[links.row[at]] & CONTROL:
            doubts.append(_Doubt(offset, issue.text))
    return stops, sorted(doubts, key=lambda one: one.offset)


def _issues(links: Chain) -> Iterator[tuple[int, RecordIssue]]:
    for index, log in enumerate(links.logs):
        own = np.flatnonzero(links.log == index)
        content = log.evidence.log.content[links.row[own]]
        for at in own[content != UNREMARKABLE].tolist():
            found = log.content(int(links.row[at]))
            for issue in found.issues if found else ():
                yield at, issue


def _not_whole(one: SnapshotView) -> str:
    """Why a snapshot is not held against anything."""
    why = f"cannot be read ({one.not_read})" if one.not_read else "is not complete"
    return f"{one.evidence.name} {why}"


def _labels(group: list[SnapshotView]) -> set[str]:
    return {one.replica for one in group}


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of offsets, in their order; those that touch become one."""
    found: list[tuple[int, int]] = []
    for start, end in ranges:
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, end))
    return found


def judge_history(
    quorum: Quorum, records: Records, told: Told | None = None, stations: Stations | None = None
) -> StateEvidence:
    """Everything that the state checks need to know, and on the way the states at some `stations`.
    What a run has told of the history is taken as it is, as long as nothing contradicts it.
    """
    stations = stations or Stations.none(records)
    if told is not None:
        with suppress(NotTold):
            history = StateHistory(quorum, records, stations, told)
            found = history.run()
            told.compared, told.refusals = history.compared, history.refusals
            return found
    return StateHistory(quorum, records, stations).run()


def with_state(
    quorum: Quorum, records: Records, told: Told | None = None, cuts: Iterable[Cut] = ()
) -> QuorumEvidence:
    """The evidence of a quorum with what the history of its state shows, and what goes with the ends
    of logs: those that findings tell of, and further `cuts`.
    """
    cuts = list(dict.fromkeys([*cuts_of(quorum), *cuts]))
    images = Images(records, Topics()) if told is None else told.images
    stations = Stations(images, stations_of(quorum, cuts))
    state = judge_history(quorum, records, told, stations)
    losses = losses_of(quorum, records, cuts, stations)
    found = replace(state, losses=losses, apart=apart_in(quorum, records, stations))
    return replace(quorum.evidence, state=found)
