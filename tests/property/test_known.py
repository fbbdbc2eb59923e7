"""A state that goes on through windows is the one that the definition gives record by record, and
the rules tell the same of it: cut anywhere, forked anywhere, from random and from broken logs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kraftlog.audit.images import are_equal, images_apart, images_differ
from kraftlog.audit.issues import Issues
from kraftlog.audit.state_rules import Incoming, Issue
from kraftlog.audit.watch import Crowd, MassDeletion, Rules, rules_after, rules_before, suspects
from kraftlog.config import default_thresholds
from kraftlog.decode.rows import row_schema
from kraftlog.quorum.health import Past, Since
from kraftlog.state.arrow_events import Event
from kraftlog.state.fold import Applied, Led, Watch, fold_partitions, value_schema
from kraftlog.state.known import Known
from kraftlog.state.outline import PARTITION_TYPES, Outliner
from kraftlog.state.replay import Replay
from kraftlog.state.standing import Standing, Topics, by_key, differing
from kraftlog.state.state import Change, State
from kraftlog.state.versions import CHANGE, PUT, holding_at
from kraftlog.state.window import RecordWindow
from tests.property.test_state_history import Record, all_events, decode, histories, sound_log

ABORT = "ABORT_TRANSACTION_RECORD"
TRANSACTIONS = {"BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", ABORT}
NOTHING: Record = ("NO_OP_RECORD", 0, {})

cuts = st.lists(st.integers(0, 61), max_size=4)


class ByDefinition(Replay):
    """Every record on the state before it, with every rule: what columns must equal."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, Issue]] = []
        self.gone = dict[str, tuple[str, Since]]()
        self.gone_before = self.gone

    def take(self, event: Event) -> None:  # type: ignore[override]
        origin, data = event.origin, event.data
        offset, faults, waiting = origin.offset or 0, len(self.faults), len(self._waiting)
        assert data is not None
        if origin.type in TRANSACTIONS:
            was_open = self.open_since is not None
            self.apply(origin, data)
            if not was_open:
                self.gone_before = self.gone.copy()
            elif self.open_since is None and origin.type == ABORT:
                self.gone = self.gone_before
            return
        gone = self.gone
        told = list(rules_before(Incoming(origin.type, data, offset, 0, 0, self.current, gone)))
        seen = self.apply(origin, data)
        changes = tuple([one.change for one in seen] or [c for c, _ in self._waiting[waiting:]])
        since = Since(offset, origin.timestamp)
        topics = [one for one in changes if one.table == "topics" and one.after is None]
        self.gone |= {one.key[0]: (one.before["name"], since) for one in topics if one.before}
        for change in changes or (None,):
            fault = next(iter(self.faults[faults:]), None)
            name = self._name(change)
            told += rules_after(Applied(origin, data, (change,) if change else (), fault, name))
        self.told += [(offset, one) for one in told]

    def _name(self, change: Change | None) -> str | None:
        if change is None or change.table != "partitions":
            return None
        topic = self.current.get("topics", change.key[:1])
        return None if topic is None else topic["name"]


def window(log: list[Record], start: int, end: int) -> RecordWindow:
    return RecordWindow(start, end, decode(log[start:end], start), {})


def rules(issues: Issues) -> Rules:
    return Rules([0], [0], issues, MassDeletion(default_thresholds()))


def told(issues: Issues) -> list[str]:
    return sorted(map(repr, issues.told()))


def state_of(known: Known) -> State:
    """The whole state, as everyone may see it."""
    state = known.small.state.fork()
    for key, _, value in differing(Standing.empty(known.visible.topics), known.visible):
        state.set("partitions", key, value)
    return state


def advanced(known: Known, log: list[Record], at: list[int], watcher: Rules | None) -> Known:
    """Take in a log, window by window."""
    bounds = sorted({one for one in at if 0 < one < len(log)} | {0, len(log)})
    for start, end in pairwise(bounds):
        known.advance(window(log, start, end), watcher)
    return known


def without_hidden(log: list[Record]) -> list[Record]:
    """The log with nothing in place of each record that nobody ever sees."""
    replay, found = Replay(), list(log)
    for at, event in enumerate(all_events(decode(log, 0))):
        begun = replay.open_since
        replay.apply(event.origin, event.data)
        if begun is not None and replay.open_since is None and event.origin.type == ABORT:
            found[begun : at + 1] = [NOTHING] * (at + 1 - begun)
    if replay.open_since is not None:
        found[replay.open_since :] = [NOTHING] * (len(log) - replay.open_since)
    return found


def facts(log: list[Record], at: list[int]) -> tuple[Past, list[Crowd]]:
    """What a log has shown on its way, with every removal a crowd."""
    limits = replace(default_thresholds(), mass_deletion_minimum=1, mass_deletion_percent=0)
    watcher = Rules([0], [0], Issues(), MassDeletion(limits))
    advanced(Known(), log, at, watcher)
    past = watcher.past
    return past, [*watcher.deletions.rest()]


@given(histories, cuts)
@settings(max_examples=100, deadline=None)
def test_what_nobody_ever_sees_is_no_fact(log: list[Record], at: list[int]) -> None:
    """Neither of leaders and topics nor of crowds, wherever the windows are cut."""
    told, wanted = facts(log, at), facts(without_hidden(log), [])
    assert told == wanted


def assert_as_defined(log: list[Record], at: list[int]) -> None:
    wanted = ByDefinition()
    for event in all_events(decode(log, 0)):
        wanted.take(event)
    issues = Issues()
    known = advanced(Known(), log, at, rules(issues))
    assert state_of(known) == wanted.state
    assert told(issues) == sorted(map(repr, sorted(wanted.told, key=lambda one: one[0])))


@given(histories, cuts)
@settings(max_examples=150, deadline=None)
def test_a_broken_history_is_judged_as_the_definition_judges_it(
    log: list[Record], at: list[int]
) -> None:
    assert_as_defined(log, at)


@given(st.integers(0, 1 << 32), cuts)
@settings(max_examples=100, deadline=None)
def test_a_sound_history_is_judged_as_the_definition_judges_it(seed: int, at: list[int]) -> None:
    chance = Random(seed)
    assert_as_defined(sound_log(chance, chance.randrange(60)), at)


@given(histories, histories, st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_forked_anywhere_is_told_alone(log: list[Record], other: list[Record], at: int) -> None:
    """What one fork takes in, the other does not see."""
    at = min(at, len(log))
    known = Known(Topics())
    known.advance(window(log, 0, at))
    twin = known.fork()
    known.advance(window(log, at, len(log)))
    forked = log[:at] + other
    twin.advance(window(forked, at, len(forked)))
    for mine, alone in ((known, log), (twin, forked)):
        whole = Known(known.partitions.topics)
        whole.advance(window(alone, 0, len(alone)))
        assert are_equal(mine, whole)


@given(histories, histories)
@settings(max_examples=60, deadline=None)
def test_what_two_states_hold_differently_is_what_their_rows_say(
    log: list[Record], other: list[Record]
) -> None:
    topics = Topics()
    one, two = Known(topics), Known(topics)
    one.advance(window(log, 0, len(log)))
    two.advance(window(other, 0, len(other)))
    assert images_apart(one, two) == images_differ(state_of(one), state_of(two))


def share(rows: pa.Table, payload: str, part: int, parts: int) -> pa.Table:
    """Some of the partitions, each with all its rows."""
    keep = [one["partition_id"] % parts == part for one in rows.column(payload).to_pylist()]
    return rows.filter(pa.array(keep, pa.bool_()))


def assert_no_text_is_there_twice(rows: pa.Table) -> None:
    """A dictionary with one would be written as plain texts."""
    for column in rows.columns:
        texts = column.combine_chunks().flatten() if pa.types.is_list(column.type) else column
        if pa.types.is_dictionary(texts.type):
            for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
                assert len(set(chunk.dictionary.to_pylist())) == len(chunk.dictionary)


def assert_told_by_columns(log: list[Record], end: int, parts: int) -> None:
    """The fold that writes versions tells the same of all rules, of leaders, and of each state."""
    tables, end = decode(log, 0), min(end, len(log))
    issues = Issues()
    outliner = Outliner(0, 0, len(log), rules(issues))
    for event in all_events(tables):
        if event.origin.type not in PARTITION_TYPES:
            outliner.feed(event)
    outline = outliner.finish()
    assume(all(one.shown_offset is not None for one in outline.hidden))
    rows, led = [], list[Led]()
    for part in range(parts):
        puts, changes = (
            share(tables.get(name, row_schema(name).empty_table()), name.lower(), part, parts)
            for name in (PUT, CHANGE)
        )
        folded = fold_partitions(outline, None, puts, changes, Watch((end,), suspects=suspects))
        for one in folded.applied:
            for found in rules_after(one):
                issues.add(one.origin.offset or 0, found)
        assert_no_text_is_there_twice(folded.rows)
        rows.append(folded.rows)
        led += folded.led.get(end, [])
    watched = Issues()
    looks_on, known = rules(watched), Known()
    known.advance(window(log, 0, end), looks_on)
    past, led_by_fold = looks_on.past.copy(), Past()
    led_by_fold.lead(led)
    held = holding_at(pa.concat_tables(rows), end).select(value_schema().names)
    assert by_key(held) == by_key(known.visible.versions(known.visible.keys))
    assert led_by_fold == Past(leaderless=past.leaderless, led_by=past.led_by, unclean=past.unclean)
    for key, value in by_key(held).items():
        if value["leader"] >= 0:
            assert key not in past.leaderless
    known.advance(window(log, end, len(log)), looks_on)
    assert told(issues) == told(watched)


@given(histories, st.integers(0, 40), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_the_fold_of_versions_judges_as_the_windows_do(
    log: list[Record], end: int, parts: int
) -> None:
    assert_told_by_columns(log, end, parts)


@given(st.integers(0, 1 << 32), st.integers(0, 60), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_so_it_does_of_a_sound_history(seed: int, end: int, parts: int) -> None:
    chance = Random(seed)
    assert_told_by_columns(sound_log(chance, chance.randrange(60)), end, parts)
