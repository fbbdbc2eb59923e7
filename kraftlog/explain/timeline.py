"""A subject's timeline: its moments with the leader of the time, whether they are committed, and
sentences; and what is different between two offsets or states: each object once, from what to what.

In: moments in order, a subject, two offsets or two states, what the quorum knows of leaders and of committed
offsets. Out: `Entry`s, one per record; the `Net` of all changes, of which what came and went in
between is none; and rows for scripts.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from kraftlog.decode.redaction import Redactor
from kraftlog.explain.authorizer import Access, who_wrote
from kraftlog.explain.moments import SNAPSHOT, Moment, MomentSource
from kraftlog.explain.subject import Subject, every, names_in
from kraftlog.explain.words import TopicNames, object_name, sentences
from kraftlog.plain import natural
from kraftlog.quorum.content import LEADER_CHANGE
from kraftlog.quorum.holdings import Range
from kraftlog.quorum.lineages import MAIN
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.restorable import untold_records
from kraftlog.relations import moment as time_of
from kraftlog.state.declare import Data, Key
from kraftlog.state.difference import of_key
from kraftlog.state.state import Change
from kraftlog.state.tables import TABLE

TOLD_CHANGES = 12
"""So many changes of one record are told in sentences; the rest is counted."""
Held = Mapping[tuple[str, Key], Data]
"""The objects of a state, by table and key."""
COMMITTED, NOT_COMMITTED, UNKNOWN = "committed", "not committed", "not known to be committed"


@dataclass(frozen=True, slots=True)
class KnownHistory:
    """What is known of the history as a whole: who led which epoch, and what is committed:
    everything below `lower` in the offsets [start, end) of `shown`, where a copy is known to tell the
    quorum's history, nothing from `upper` on (None: not known), and nothing of what the replicas in
    `never_committed` hold apart. Nothing of it is said of `foreign` replicas, which are of another
    cluster. What the records in `unknown` (both ends included) changed, no file at hand tells. The
    logs end at `end`.
    """

    leaders: Mapping[int, int]
    lower: int
    upper: int | None
    never_committed: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    unknown: tuple[Range, ...] = ()
    end: int = 0
    shown: tuple[Range, ...] = ()

    @classmethod
    def of(cls, quorum: Quorum) -> "KnownHistory":
        """From the logs and the bounds of a quorum."""
        bounds, unknown = quorum.bounds, untold_records(quorum)
        proven = quorum.never_committed
        end = max((log.end_offset or 0 for log in quorum.peers), default=0)
        shown = tuple((log.start_offset or 0, quorum.shown_end(log)) for log in quorum.peers)
        return cls(
            quorum.leaders, bounds.lower, bounds.upper, proven, quorum.foreign, unknown, end, shown
        )

    def untold(self, subject: Subject) -> Iterator[Range]:
        """The offsets (both ends included) that may have changed a subject, and are not known."""
        for first, last in self.unknown:
            if subject.kind != "offsets" or (first < subject.end and last >= subject.first):
                yield first, last

    def leader(self, one: Moment) -> int | None:
        """Who led the epoch of a moment, where that is known."""
        return None if one.lineage in self.foreign else self.leaders.get(one.batch_leader_epoch)

    def is_committed(self, one: Moment) -> bool | None:
        """Whether a moment is committed; None: it may be."""
        if one.lineage in self.foreign:
            return None
        if one.lineage == MAIN and one.seen_offset < self.lower and self._is_shown(one):
            return True
        is_above = self.upper is not None and one.seen_offset >= self.upper
        return False if is_above or one.lineage in self.never_committed else None

    def _is_shown(self, one: Moment) -> bool:
        """Whether a moment is the quorum's: a snapshot holds nothing else."""
        held = any(start <= one.seen_offset < end for start, end in self.shown)
        return held or one.record_type == SNAPSHOT


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the timeline."""

    moment: Moment
    is_foreign: bool
    leader: int | None
    committed: bool | None
    lines: tuple[str, ...]
    changes: tuple[Change, ...]
    names: tuple[str, ...]
    who: tuple[Access, ...] = ()

    @property
    def state(self) -> str:
        """Whether it is committed, in words."""
        if self.committed is None:
            return UNKNOWN
        return COMMITTED if self.committed else NOT_COMMITTED


def timeline(
    moments: Iterable[Moment],
    subject: Subject,
    known: KnownHistory,
    between: tuple[int | None, int | None],
    accesses: Iterable[Access],
) -> Iterator[Entry]:
    """The entries of a subject; only those between two times (ms, both inclusive) if given."""
    names = TopicNames()
    log = sorted(accesses, key=lambda one: one.timestamp)
    for one in moments:
        names.take(one.changes)
        changes = tuple(sorted(subject.of(one.changes), key=_place))
        if subject.kind == "offsets":
            if not subject.first <= one.offset < subject.end or one.record_type == SNAPSHOT:
                continue
        elif not changes:
            continue
        low, high = between
        if (low is not None and one.timestamp < low) or (high is not None and one.timestamp > high):
            continue
        yield Entry(
            one,
            one.lineage in known.foreign,
            known.leader(one),
            known.is_committed(one),
            tuple(_lines(one, changes, names)),
            changes,
            tuple(object_name(each, names) for each in changes),
            tuple(who_wrote(one, changes, names.known, log)),
        )


def _lines(one: Moment, changes: tuple[Change, ...], names: TopicNames) -> Iterator[str]:
    for each in changes[:TOLD_CHANGES]:
        yield from sentences(each, names, stands=one.record_type == SNAPSHOT)
    if len(changes) > TOLD_CHANGES:
        yield f"and {len(changes) - TOLD_CHANGES:,} more of the same record"
    if not changes:
        yield _elected(one) or "changes nothing"


def _elected(one: Moment) -> str | None:
    """Who leads from a LeaderChange record on."""
    if one.record_type != LEADER_CHANGE or not one.record:
        return None
    granted = sorted(voter["voterId"] for voter in one.record.get("grantingVoters") or ())
    by = f", elected by {', '.join(map(str, granted))}" if granted else ""
    return f"controller {one.record['leaderId']} leads from here on{by}"


def entry_rows(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """One JSON object per record."""
    for one in entries:
        at = one.moment
        yield {
            "lineage": at.lineage,
            "offset": at.offset,
            "timestamp": _iso(at.timestamp),
            "batch_leader_epoch": at.batch_leader_epoch,
            "leader_id": one.leader,
            "committed": one.committed,
            "record_type": at.record_type,
            "visible_from_offset": at.seen_offset + 1,
            "text": list(one.lines),
            "changes": [
                {"object": name, **field._asdict(), "key": list(field.key)}
                for each, name in zip(one.changes, one.names, strict=True)
                for field in of_key(each.table, each.key, each.before, each.after)
            ],
            "who": [access.as_row() for access in one.who],
        }


def _iso(milliseconds: int) -> str | None:
    found: datetime | None = time_of(milliseconds)
    return None if found is None else found.isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class Net:
    """The changes from one offset to another (both exclusive ends of states), how topics are called,
    and where the history at hand begins: later than the first where the beginning is missing.
    """

    changes: tuple[Change, ...]
    names: TopicNames
    begins: int


def object_rows(found: Net) -> Iterator[dict[str, Any]]:
    """One row per object that differs."""
    for one in found.changes:
        change = "changed"
        if one.before is None or one.after is None:
            change = "new" if one.before is None else "gone"
        title = object_name(one, found.names)
        text = "; ".join(sentences(one, found.names))
        yield {"kind": "object", "change": change, "name": title, "text": text}


def net(moments: Iterable[Moment], first: int, end: int) -> Net:
    """What the records that became visible in [first, end) changed together, along `main`."""
    found: dict[tuple[str, Key], Change] = {}
    names, begins = TopicNames(), 0
    for one in moments:
        if one.lineage != MAIN:
            break
        names.take(one.changes)
        if one.record_type == SNAPSHOT:
            begins = one.offset
        elif first <= one.seen_offset < end:
            for change in one.changes:
                at = change.table, change.key
                before = found[at].before if at in found else change.before
                found[at] = change._replace(before=before)
    return Net(_in_order(found.values()), names, begins)


def between(before: Held, after: Held) -> Net:
    """What two states hold differently; topics are called as in the later one."""
    found = [
        Change(*key, before.get(key), after.get(key)) for key in dict.fromkeys([*before, *after])
    ]
    names = TopicNames()
    names.take(found)
    return Net(_in_order(found), names, 0)


def _in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Those that change something, table by table."""
    return tuple(sorted((one for one in changes if one.before != one.after), key=_place))


def _place(one: Change) -> tuple[int, Any]:
    """Where a change is told: table by table, topics first, and by its key."""
    return _ORDER[one.table], natural(str(one.key))


_ORDER = {name: index for index, name in enumerate(TABLE)}


History = Callable[[Subject], tuple[KnownHistory, Iterator[Moment]]]
"""A subject → what is known of the whole history, and the moments of what the subject lives in."""


def first_told(
    subjects: Sequence[Subject],
    history: History,
    between: tuple[int | None, int | None],
    accesses: Iterable[Access] = (),
) -> tuple[Subject, Iterator[Entry] | None]:
    """The first subject of which there is anything to tell, and its timeline; else the last, and
    None.
    """
    for subject in subjects:
        known, moments = history(subject)
        told = timeline(moments, subject, known, between, accesses)
        first = next(told, None)
        if first is not None:
            return subject, chain((first,), told)
    return subjects[-1], None


def nearest_names(subject: Subject, history: History) -> list[str] | None:
    """The names most like that of a subject which nothing bears, of nodes all ids; None where
    something does, or where its kind has no names.
    """
    kind, name = subject.bearer
    asked = every(kind)
    if not asked.tables:
        return None
    there = {
        name
        for one in history(asked)[1]
        for change in one.changes
        for name in names_in(change, kind)
    }
    if name in there:
        return None
    known = sorted(there, key=natural)
    return known if kind in ("broker", "controller") else difflib.get_close_matches(name, known)


def file_history(quorum: Quorum, redactor: Redactor) -> History:
    """The history that the files of a quorum hold."""
    known = KnownHistory.of(quorum)

    def history(subject: Subject) -> tuple[KnownHistory, Iterator[Moment]]:
        offsets = range(subject.first, subject.end)
        source = MomentSource(quorum, redactor, subject.tables, offsets, subject.topic)
        return known, source.moments()

    return history
