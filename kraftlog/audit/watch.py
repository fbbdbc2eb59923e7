"""The rules of the state, asked while records are applied.

In: what `state.known` shows of each record. Out: `Issues`. All rules that `state_checks` declares
are found here, for all ways through the records. Those of small tables are judged one by one; of
the partitions' records those are judged that the fold has handed to the definition, as nothing can
be wrong with the others. Removals in crowds are the one rule that keeps something between records.
"""

from bisect import bisect_left, bisect_right, insort
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge
from itertools import accumulate, islice, takewhile
from typing import Any, NamedTuple

import numpy as np

from kraftlog.audit import state_checks
from kraftlog.audit.issues import Issues
from kraftlog.audit.state_rules import (
    FaultRule,
    Incoming,
    Issue,
    RecordRule,
    Refused,
    RowRule,
    Version,
)
from kraftlog.config import Thresholds
from kraftlog.explain.words import plain_name
from kraftlog.plain import some
from kraftlog.quorum.chain import Chain, expected_bases
from kraftlog.quorum.evidence import SnapshotRefusal
from kraftlog.quorum.health import Past
from kraftlog.state.arrow_events import Event
from kraftlog.state.declare import Data, Key
from kraftlog.state.fold import Applied, Led
from kraftlog.state.known import Watcher
from kraftlog.state.outline import Effect
from kraftlog.state.partition_events import Flags, NewVersions
from kraftlog.state.replay import FaultyRecord, Visible
from kraftlog.state.state import Change, State
from kraftlog.state.tables import TABLE, TRANSACTION_TYPES
from kraftlog.state.window import RecordWindow

_DECLARED = tuple(vars(state_checks).values())
_ON_RECORD = tuple(one for one in _DECLARED if isinstance(one, RecordRule))
_ON_ROW = tuple(one for one in _DECLARED if isinstance(one, RowRule))
_ON_FAULT = tuple(one for one in _DECLARED if isinstance(one, FaultRule))
_TYPES = {type for one in _ON_RECORD for type in one.types}
_TABLES = {one.table for one in _ON_ROW}

_RECORDS_LEFT = "Start no broker that was down meanwhile: it may still have their records. "
_TOLD_ELSEWHERE = frozenset({"transaction", "unknown_record"})


def rules_before(step: Incoming) -> Iterator[Issue]:
    """What the rules say of a record, by the state that it meets."""
    for rule in _ON_RECORD:
        if step.type in rule.types:
            yield from rule.told(step)


def rules_after(one: Applied) -> Iterator[Issue]:
    """What they say of it by what it changed, or could not change."""
    if one.fault is not None and one.fault.kind not in _TOLD_ELSEWHERE:
        for rule in _ON_FAULT:
            yield from rule.told(Refused(one, one.fault))
    for change in one.changes:
        if change.after is not None and change.table in _TABLES:
            row = Version(one, change.key, change.before, change.after)
            for on_row in _ON_ROW:
                if on_row.table == change.table:
                    yield from on_row.told(row)


@dataclass(slots=True)
class SnapshotRules(Watcher):
    """The rules over the records of a snapshot, in which an offset is a place in the file: those are
    told that Kafka does not load, first what stops all nodes.
    """

    refusal: SnapshotRefusal | None = None

    def part(self, window: RecordWindow, *, is_hidden: bool, is_shown: bool) -> None:
        """See `known.Watcher`."""
        for one in window.faults:
            self._stops(one.origin.offset or 0, one.origin.type, one.detail)

    def meets(self, event: Event, state: State) -> None:
        """See `known.Watcher`."""
        place, kind = event.origin.offset or 0, event.origin.type
        if event.data is None or kind not in _TYPES:
            return
        step = Incoming(kind, event.data, place, place, place, state)
        stops = (
            said.stops
            for rule in _ON_RECORD
            if kind in rule.types
            for said in rule.ask(step)
            if said.stops
        )
        for why in islice(stops, 1):
            self._stops(place, kind, why)

    def changed(self, event: Event, state: State, effect: Effect) -> None:
        """See `known.Watcher`."""
        for one in effect.faults:
            self._refused(one)

    def applied(self, one: Applied) -> None:
        """See `known.Watcher`."""
        if one.fault is not None:
            self._refused(one.fault)

    def _stops(self, place: int, kind: str, why: str) -> None:
        self._take(SnapshotRefusal(place, kind, why, by_controllers=True))

    def _refused(self, fault: FaultyRecord) -> None:
        if fault.kind not in _TOLD_ELSEWHERE:
            place, kind = fault.origin.offset or 0, fault.origin.type
            self._take(SnapshotRefusal(place, kind, fault.detail, by_controllers=False))

    def _take(self, found: SnapshotRefusal) -> None:
        known = self.refusal
        if known is None:
            self.refusal = found
            return
        first = min(known, found, key=lambda one: (one.by_controllers, one.place))
        self.refusal = replace(first, count=known.count + 1)


def suspects(versions: NewVersions) -> Flags:
    """Of which new versions of partitions they may have something to say."""
    found: Flags = np.zeros(len(versions.at), np.bool_)
    for rule in _ON_ROW:
        if rule.table == "partitions":
            found |= rule.suspects(versions)
    return found


WATCHED = frozenset({"topics", "brokers", "acls", "scram_credentials", "client_quotas"})
"""Tables whose shrinking is watched; delegation tokens expire in crowds, configs go with their
topics.
"""


_PAUSE_MS = 500
"""A quorum in which nothing is written for longer is idle to its controller, too
(`metadata.max.idle.interval.ms`).
"""
_LONGER = 4
"""A pause is more than so many times as long as each that follows: one that is not is the crowd's
own rhythm, as of a script that removes one after the other.
"""
_STARTS = 64
"""So many removals, the latest ones, are looked at as the beginning of a crowd."""
NAMES_KEPT = 100
"""So many names of one crowd are kept; all are counted."""
_LOOKED = 4 * NAMES_KEPT
"""So many removals, the first ones of a crowd, are looked at for names: many may have come back."""


class Crowd(NamedTuple):
    """Removals of one kind close together: the first and the last, how many, of how many; and with
    which one they had become too many.
    """

    table: str
    first_offset: int
    last_offset: int
    removed: int
    total: int
    many_from: int
    changes: tuple[Change, ...]

    @property
    def names(self) -> list[str]:
        """What was removed, the first of it."""
        return [plain_name(one, lambda topic: f"(id {topic})") for one in self.changes]


class _Pause(NamedTuple):
    """A removal that may begin a crowd, and for how many ms nothing had gone before it."""

    at: int
    ms: int


_BACK = 1 << 62
"""In place of the offset since which something had been there: it has come back."""


class _Removal(NamedTuple):
    """When something went, at which offset, what it was, and since which offset it had been there,
    where that is a moment ago; −1 else.
    """

    now: int
    offset: int
    change: Change
    since: int


@dataclass(slots=True)
class _Gone:
    """What went of one kind, and from which on it is close enough to the last one to count; a
    removal takes the same time, however many went before. A pause is a time without a removal, far
    longer than those that follow it. The state before a crowd is to hold all of it, so only what
    had come before its first one counts, gone or not, and one may begin where something came that
    has gone since. `young` is what has come lately and is still there, `came` are its offsets in
    order, `since` those at which that came which went. What comes back counts as if it had never
    gone: `went` has the newest removal of each thing, counted from the first one ever, of which
    `dropped` are not kept any more, and `back` are the offsets of the removals undone, in order.
    """

    rows: list[_Removal] = field(default_factory=list)
    start: int = 0
    pauses: list[_Pause] = field(default_factory=list)
    young: dict[Key, int] = field(default_factory=dict)
    since: list[int] = field(init=False)
    back: list[int] = field(init=False)
    came: list[int] = field(init=False)
    went: dict[Key, int] = field(init=False)
    dropped: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.came = sorted(self.young.values())
        self.since = sorted(one.since for one in self.rows if 0 <= one.since < _BACK)
        self.back = [one.offset for one in self.rows if one.since == _BACK]
        self.went = {
            _thing(one.change): at for at, one in enumerate(self.rows) if one.since != _BACK
        }

    def come_back(self, now: int, change: Change, window_ms: int) -> _Removal | None:
        """Take in what came, where the same went a moment ago: that removal is undone."""
        at = self.went.pop(_thing(change), -1) - self.dropped
        if at < 0 or now - self.rows[at].now > window_ms:
            return None
        gone = self.rows[at]
        self.rows[at] = gone._replace(since=_BACK)
        insort(self.back, gone.offset)
        if gone.since >= 0:
            _take_out(self.since, gone.since)
            self.young[change.key] = gone.since
            insort(self.came, gone.since)
        return gone

    def add_young(self, now: int, offset: int, key: Key, window_ms: int) -> None:
        if self.rows and now - self.rows[-1].now <= window_ms:
            self._forget(key)
            self.young[key] = offset
            insort(self.came, offset)

    def _forget(self, key: Key) -> int:
        """Since when something has been there that came lately; −1 else."""
        since = self.young.pop(key, -1)
        if since >= 0:
            _take_out(self.came, since)
        return since

    def add(self, now: int, offset: int, change: Change, window_ms: int) -> None:
        """Take in what went."""
        while self.start < len(self.rows) and self._is_over(self.rows[self.start], now, window_ms):
            self.start += 1
        if self.rows:
            self._pause(now - self.rows[-1].now)
        since = self._forget(change.key)
        self.went[_thing(change)] = self.dropped + len(self.rows)
        self.rows.append(_Removal(now, offset, change, since))
        if since >= 0:
            insort(self.since, since)
        if 2 * self.start > len(self.rows):
            first = self.rows[self.start].offset
            self.pauses = _behind(self.pauses, self.start)
            del self.rows[: self.start]
            self.dropped += self.start
            self.start = 0
            self.went = {one: at for one, at in self.went.items() if at >= self.dropped}
            del self.back[: bisect_left(self.back, first)]
            self.young = {key: at for key, at in self.young.items() if at > first}
            del self.came[: bisect_right(self.came, first)]
            del self.since[: bisect_left(self.since, first)]

    @staticmethod
    def _is_over(one: _Removal, now: int, window_ms: int) -> bool:
        """Whether no crowd can begin with a removal any more."""
        return now - one.now > window_ms or one.since == _BACK

    def _pause(self, ms: int) -> None:
        """Those before it that are not far longer are none."""
        while self.pauses and self.pauses[-1].ms <= _LONGER * ms:
            self.pauses.pop()
        if ms > _PAUSE_MS:
            self.pauses.append(_Pause(len(self.rows), ms))

    def crowd(self, left: int, is_many: Callable[[int, int], bool]) -> int | None:
        """Where the crowd begins: what went long before it is no part of it, as long as the crowd
        alone is enough. None where none is enough. `left` are there now.
        """
        if not is_many(len(self.rows) - self.start, self.left(self.start, left)):
            return None
        behind_pauses = (one.at for one in reversed(self.pauses))
        starts = merge(behind_pauses, self._behind_young(), reverse=True)
        latest = (at for at in islice(starts, _STARTS) if at > self.start)
        known = (*latest, self.start)
        return next((at for at in known if is_many(self.count(at), self.left(at, left))), None)

    def _behind_young(self) -> Iterator[int]:
        """The first ones to go behind each that came and went, the latest first."""
        at = len(self.since)
        while at > 0:
            row = bisect_left(self.rows, self.since[at - 1], key=lambda one: one.offset)
            yield row
            at = bisect_right(self.since, self.rows[row - 1].offset) if row else 0

    def count(self, start: int) -> int:
        """How many went, and are gone, of what was there before the first one of a crowd went."""
        first = self.rows[start].offset
        back = len(self.back) - bisect_left(self.back, first)
        return len(self.rows) - start - back - _above(self.since, first)

    def left(self, start: int, left: int) -> int:
        """How many of it are left; `left` are there now."""
        return left - _above(self.came, self.rows[start].offset)

    def names(self, first: int, last: int) -> tuple[Change, ...]:
        """The first ones that are gone of a crowd between two offsets, among those looked at."""
        start = bisect_left(self.rows, first, self.start, key=lambda one: one.offset)
        rows = takewhile(lambda one: one.offset <= last, self.rows[start : start + _LOOKED])
        gone = (one.change for one in rows if one.since <= first)
        return tuple(islice(gone, NAMES_KEPT))


def _take_out(offsets: list[int], one: int) -> None:
    """Take one of some offsets, which are in order, where it is still among them."""
    at = bisect_left(offsets, one)
    if offsets[at : at + 1] == [one]:
        del offsets[at]


def _above(offsets: list[int], first: int) -> int:
    """How many of some offsets, which are in order, are above one."""
    return len(offsets) - bisect_right(offsets, first)


def _behind(pauses: Iterable[_Pause], start: int) -> list[_Pause]:
    """The pauses behind a removal, counted from it."""
    return [_Pause(one.at - start, one.ms) for one in pauses if one.at > start]


@dataclass(slots=True)
class MassDeletion:
    """Watches how many objects of each kind go within a window of time; tells each crowd once, at
    its largest; of two that overlap, the larger one. What came after the first of a crowd went is
    not counted with it, neither as gone nor as left: no state ever held both. What is there again
    within the window, as where ACLs are written anew, has not gone; a topic never is, as its
    records are lost. Time is what has passed by the records, where a clock that goes back counts
    for nothing: `_clock` is when the newest record was written, and how much that is.
    """

    limits: Thresholds
    _clock: tuple[int, int] | None = None
    _gone: dict[str, _Gone] = field(default_factory=dict)
    _worst: dict[str, Crowd] = field(default_factory=dict)

    def see(self, seen: Iterable[Visible], state: State) -> Iterator[Crowd]:
        """Take in what everyone sees from a record on, with which a transaction may have ended, and
        the state behind it; yields windows that are over.
        """
        watched = [one for one in seen if one.change.table in WATCHED]
        left = {one.change.table: len(state.rows(one.change.table)) for one in watched}
        for one in watched:
            left[one.change.table] -= _more(one.change)
        for one in watched:
            change, offset = one.change, one.origin.offset or 0
            now = self._passed(one.origin.timestamp)
            left[change.table] += _more(change)
            yield from self._over(now)
            if change.after is None:
                yield from self._removed(change, left[change.table], now, offset)
            elif change.before is None and change.table in self._gone:
                self._came(change, now, offset)

    def _passed(self, now: int) -> int:
        """The time by the records up to one that was written now."""
        written, passed = self._clock or (now, now)
        passed += max(0, now - written)
        self._clock = now, passed
        return passed

    def _came(self, change: Change, now: int, offset: int) -> None:
        table, gone = change.table, self._gone[change.table]
        undone = gone.come_back(now, change, self.limits.mass_deletion_window_ms)
        if undone is None:
            gone.add_young(now, offset, change.key, self.limits.mass_deletion_window_ms)
            return
        worst = self._worst.get(table)
        if worst is None or undone.since > worst.first_offset:
            return
        if not worst.first_offset <= undone.offset <= worst.last_offset:
            return
        removed = worst.removed - 1
        if not self._many(table, removed, worst.total - removed):
            del self._worst[table]
            return
        names = tuple(one for one in worst.changes if one.key != undone.change.key)
        names = names or gone.names(worst.first_offset, worst.last_offset)
        self._worst[table] = worst._replace(removed=removed, changes=names)

    def _over(self, now: int) -> Iterator[Crowd]:
        for table, worst in list(self._worst.items()):
            if now - self._gone[table].rows[-1].now > self.limits.mass_deletion_window_ms:
                del self._worst[table], self._gone[table]
                yield worst

    def _removed(self, change: Change, left: int, now: int, offset: int) -> Iterator[Crowd]:
        table = change.table
        gone = self._gone.setdefault(table, _Gone())
        gone.add(now, offset, change, self.limits.mass_deletion_window_ms)
        start = gone.crowd(left, partial(self._many, table))
        if start is None:
            return
        removed, first = gone.count(start), gone.rows[start].offset
        if gone.rows[-1].since > first:
            return
        worst = self._worst.get(table)
        if worst is not None and worst.last_offset < first:
            yield self._worst.pop(table)
            worst = None
        many_from = offset if worst is None else worst.many_from
        # Few that went before made it many too soon: they are no part of what is many alone.
        is_the_crowd = worst is not None and worst.first_offset < first <= many_from
        if worst is None or removed >= worst.removed or is_the_crowd:
            names = gone.names(first, offset)
            total = gone.left(start, left) + removed
            self._worst[table] = Crowd(table, first, offset, removed, total, many_from, names)

    def _many(self, table: str, removed: int, left: int) -> bool:
        limits = self.limits
        major = table in ("topics", "brokers")
        percent = limits.mass_deletion_percent if major else limits.mass_deletion_minor_percent
        least = limits.mass_deletion_minimum if major else limits.mass_deletion_minor_minimum
        return removed >= least and 100 * removed > percent * (left + removed)

    def rest(self) -> Iterator[Crowd]:
        """The windows that the log's end leaves open."""
        yield from self._worst.values()

    def going_on(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each kind of which something has gone lately, and what, for JSON."""
        for table, gone in self._gone.items():
            rows = [
                (one.now, one.offset, one.change.before, one.since)
                for one in gone.rows[gone.start :]
            ]
            pauses = _behind(gone.pauses, gone.start)
            worst = self._worst.get(table)
            names = None if worst is None else [one.before for one in worst.changes]
            told = None if worst is None else worst[1:-1]
            young = list(gone.young.items())
            yield (
                table,
                {
                    "clock": self._clock, "rows": rows, "pauses": pauses, "young": young,
                    "told": told, "names": names,
                },
            )  # fmt: skip

    def go_on(self, table: str, gone: Mapping[str, Any]) -> None:
        """Take in again what `going_on` has said of one kind."""
        rows = [
            _Removal(now, offset, _removal(table, value), since)
            for now, offset, value, since in gone["rows"]
        ]
        young = {_as_key(key): offset for key, offset in gone["young"]}
        self._gone[table] = _Gone(rows, 0, [_Pause(*one) for one in gone["pauses"]], young)
        written, passed = gone["clock"]
        self._clock = written, passed
        if gone["told"] is not None:
            first, last, removed, total, many_from = gone["told"]
            names = tuple(_removal(table, value) for value in gone["names"])
            self._worst[table] = Crowd(table, first, last, removed, total, many_from, names)


def _more(change: Change) -> int:
    """How many more rows there are by a change."""
    return (change.after is not None) - (change.before is not None)


def _thing(change: Change) -> Key:
    """What makes two objects the same: of an ACL all but its id, which is a new one each time."""
    value = change.after or change.before
    if change.table != "acls" or value is None:
        return change.key
    return tuple(sorted((name, one) for name, one in value.items() if name != "id"))


def _as_key(part: Any) -> Any:
    """A key as it was before it was JSON."""
    return tuple(map(_as_key, part)) if isinstance(part, list) else part


def _removal(table: str, value: Data) -> Change:
    return Change(table, TABLE[table].key_of(value), value, None)


TOLD, TOLD_LENGTH = 8, 120
"""So many names stand in a sentence, as far as they are no longer in all; the evidence has more."""


def told_of(names: Sequence[str]) -> int:
    """How many of some names stand in a sentence: one at least."""
    lengths = accumulate(map(len, names[:TOLD]))
    return max(1, sum(length <= TOLD_LENGTH for length in lengths))


@dataclass(slots=True)
class Rules(Watcher):
    """All rules over one history; `base_offsets` are those of its batches, `expected_bases` where
    their controllers took them to begin, as lists: one look into an array lets go of Python's lock,
    and waits for it behind other threads. `past` gathers what the newest state does not say of
    itself, and everyone may see. What a transaction hides is kept aside until it ends: `_gone` are
    the topics that its own records miss, `_led` is what they make of leaders.
    """

    base_offsets: list[int]
    expected_bases: list[int]
    issues: Issues
    deletions: MassDeletion
    past: Past = field(default_factory=Past)
    _gone: Past = field(default_factory=Past, init=False)
    _led: Past | None = field(default=None, init=False)

    @staticmethod
    def over(links: Chain, issues: Issues, limits: Thresholds) -> "Rules":
        """Those of the history that some links are."""
        expected = expected_bases(links).tolist()
        return Rules(links.base.tolist(), expected, issues, MassDeletion(limits))

    def forget(self) -> None:
        """The records from here on do not follow those up to here. A crowd ends with them: no state
        at hand held what goes before a hole together with what goes behind it.
        """
        self.finish()
        self.deletions = MassDeletion(self.deletions.limits)
        self.past, self._gone, self._led = Past(), Past(), None

    def part(self, window: RecordWindow, *, is_hidden: bool, is_shown: bool) -> None:
        """See `known.Watcher`."""
        if is_shown and self._led is not None:
            self.past.led_as(self._led)
        if not is_hidden:
            self._led = None
        elif self._led is None:
            self._led = self.past.copy()

    def led(self, found: Iterable[Led]) -> None:
        """See `known.Watcher`."""
        (self.past if self._led is None else self._led).lead(found)

    def meets(self, event: Event, state: State) -> None:
        """See `known.Watcher`."""
        if event.data is None or event.origin.type not in _TYPES:
            return
        offset = event.origin.offset or 0
        at = bisect_right(self.base_offsets, offset) - 1
        bases = self.base_offsets[at], self.expected_bases[at]
        gone = ChainMap(self._gone.topics, self.past.topics)
        step = Incoming(event.origin.type, event.data, offset, *bases, state, gone)
        self._tell(offset, *rules_before(step))

    def changed(self, event: Event, state: State, effect: Effect) -> None:
        """See `known.Watcher`."""
        origin, offset = event.origin, event.origin.offset or 0
        changes, seen, faults = effect
        for one in seen:
            self.past.take((one.change,), one.origin.offset or 0, one.origin.timestamp)
        if origin.type in TRANSACTION_TYPES and not faults:
            self._gone = Past()
        elif not seen:
            self._gone.take(changes, offset, origin.timestamp)
        if event.data is not None and (faults or any(one.table in _TABLES for one in changes)):
            fault = faults[0] if faults else None
            self._tell(offset, *rules_after(Applied(origin, event.data, changes, fault, None)))
        for window in self.deletions.see(seen, state):
            self._mass_deletion(window)

    def suspects(self, versions: NewVersions) -> Flags:
        """See `known.Watcher`."""
        return suspects(versions)

    def applied(self, one: Applied) -> None:
        """See `known.Watcher`."""
        self._tell(one.origin.offset or 0, *rules_after(one))

    def finish(self) -> None:
        """Tell what is still going on at the end."""
        for window in self.deletions.rest():
            self._mass_deletion(window)

    def _mass_deletion(self, window: Crowd) -> None:
        first = window.first_offset
        what = TABLE[window.table].noun[1]
        names = some(window.names, told_of(window.names), window.removed)
        kept = _RECORDS_LEFT if window.table == "topics" else ""
        told = Issue(
            state_checks.MASS_DELETION.name,
            f"{window.removed} of {window.total} {what} were removed between offsets {first} and {window.last_offset}: {names}. "
            "If nobody meant it, stop the controllers now. "
            f"{kept}The state before offset {first} is still there: kraftlog recover --at {first} builds a quorum from it.",
            {
                "kind": window.table,
                "names": window.names,
                "removed": window.removed,
                "total": window.total,
                "last_offset": window.last_offset,
            },
        )
        self._tell(first, told)

    def _tell(self, offset: int, *told: Issue) -> None:
        for one in told:
            self.issues.add(offset, one)
