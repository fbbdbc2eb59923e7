"""What is told of crowds: removals that come close together, as they were defined first and in
time that grows with the log alone; and names of so many voters that nobody would read them; files in crowds.
"""

import json
from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.audit.watch import NAMES_KEPT, Crowd, MassDeletion
from kraftlog.config import default_thresholds
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.quorum.voter_changes import _without_named
from kraftlog.report.headline import headline
from kraftlog.state.replay import Origin, Visible
from kraftlog.state.state import Change, State
from tests.unit.audit_logs import Node, audit, healthy_log

LIMITS = default_thresholds()
Event = tuple[int, int, bool, int, int]
"""When a topic went, how many of the first ones were left then, whether another came right before,
and how many events before the topic itself had come (-1: it was there from the beginning); and how
many events before the one went that comes back right behind (-1: none does).
"""


def named(number: int) -> Change:
    value = {"name": str(number), "topicId": str(number)}
    return Change("topics", (str(number),), value, None)


def holding(left: int) -> State:
    state = State()
    for number in range(left):
        state.set("topics", (f"left {number}",), {"name": "left"})
    return state


STATES = [holding(left) for left in range(140)]


def came_at(events: list[Event]) -> dict[int, set[int]]:
    """Which topics come right before each removal; those below 0 stay."""
    found = {at: {-1 - at} if event[2] else set[int]() for at, event in enumerate(events)}
    for at, event in enumerate(events):
        if 0 <= event[3] <= at:
            found[at - event[3]].add(at)
    return found


def back_at(events: list[Event]) -> dict[int, int]:
    """Which topic comes back right behind a removal; none does twice."""
    found: dict[int, int] = {}
    for at, event in enumerate(events):
        if 0 <= event[4] <= at and at - event[4] not in found.values():
            found[at] = at - event[4]
    return found


def held(events: list[Event]) -> list[int]:
    """How many there are behind each removal, with those that have come."""
    found, young, back = [], 0, back_at(events)
    for at, came in came_at(events).items():
        young += len(came) - (0 <= events[at][3] <= at)
        found.append(events[at][1] + young)
        young += at in back
    return found


def seen(
    watcher: MassDeletion, offset: int, now: int, came: set[int], left: int, back: int | None
) -> list[Crowd]:
    changes = [came_again(one) for one in sorted(came)]
    found = [*watcher.see(visible(changes, now, offset), STATES[left + 1])]
    found += watcher.see(visible([named(offset)], now, offset), STATES[left])
    if back is not None:
        found += watcher.see(visible([came_again(back)], now, offset), STATES[left + 1])
    return found


def came_again(number: int) -> Change:
    return named(number)._replace(before=None, after=named(number).before)


def visible(changes: list[Change], now: int, offset: int) -> list[Visible]:
    origin = Origin(offset, now, 1, "")
    return [Visible(one, origin, offset + 1, now) for one in changes]


def told(events: list[Event]) -> list[Crowd]:
    watcher, found, left = MassDeletion(LIMITS), list[Crowd](), held(events)
    back = back_at(events)
    for offset, came in came_at(events).items():
        now = events[offset][0]
        found += seen(watcher, offset, now, came, left[offset], back.get(offset))
    return [*found, *watcher.rest()]


def told_of(events: Iterable[tuple[int, int, bool, int]]) -> list[Crowd]:
    """The same where nothing comes back."""
    return told([(*one, -1) for one in events])


def told_in_two(events: list[Event], at: int) -> list[Crowd]:
    """What has gone by then is kept as JSON, and gone on with."""
    first, second, found = MassDeletion(LIMITS), MassDeletion(LIMITS), []
    left, back = held(events), back_at(events)
    for offset, came in came_at(events).items():
        if offset == at:
            for table, gone in json.loads(json.dumps(list(first.going_on()), sort_keys=True)):
                second.go_on(table, gone)
        watcher = first if offset < at else second
        now = events[offset][0]
        found += seen(watcher, offset, now, came, left[offset], back.get(offset))
    return [*found, *(first if at >= len(events) else second).rest()]


def is_many(removed: int, left: int) -> bool:
    enough = 100 * removed > LIMITS.mass_deletion_percent * (left + removed)
    return removed >= LIMITS.mass_deletion_minimum and enough


Removal = tuple[int, int, int]
"""When it went, its offset, and the offset at which it had come itself, where that was a moment
ago; `BACK` where it has come back.
"""
BACK = 10**9


def counted(burst: list[Removal]) -> list[Removal]:
    """What was there before the first one went."""
    return [one for one in burst if one[2] <= burst[0][1]]


def begins(burst: list[Removal], index: int) -> bool:
    """What had come right before went as well; or nothing went for half a second, and four times as
    long as between those that follow.
    """
    if any(burst[index - 1][1] < one[2] <= burst[index][1] for one in burst):
        return True
    pause = burst[index][0] - burst[index - 1][0]
    following = pairwise(burst[index:])
    return pause > 500 and all(pause > 4 * (other[0] - one[0]) for one, other in following)


def larger(
    worst: Crowd | None, burst: list[Removal], held_now: int, young: dict[int, int]
) -> tuple[Crowd | None, list[Crowd]]:
    """The largest crowd with the last of some removals, and those that are over by that."""
    left = [held_now - sum(at > one[1] for at in young.values()) for one in burst]
    starts = [
        index
        for index in range(len(burst))
        if index == 0 or begins(burst, index)
        if is_many(len(counted(burst[index:])), left[index])
    ]
    if not starts or burst[-1][2] > burst[max(starts)][1]:
        return worst, []
    total, offset, over = left[max(starts)], burst[-1][1], list[Crowd]()
    first, burst = burst[max(starts)][1], counted(burst[max(starts) :])
    if worst is not None and worst.last_offset < first:
        over.append(worst)
        worst = None
    many_from = worst.many_from if worst is not None else offset
    # What was not too many before the burst began is the burst's own crowd.
    is_own = worst is not None and worst.first_offset < first <= many_from
    if worst is None or len(burst) >= worst.removed or is_own:
        names = tuple(named(at) for _, at, _ in burst[:NAMES_KEPT])
        total += len(burst)
        worst = Crowd("topics", first, offset, len(burst), total, many_from, names)
    return worst, over


def without(worst: Crowd, back: Removal, gone: list[Removal]) -> Crowd | None:
    """A crowd without one of it that has come back; None where the rest is none."""
    first, last = worst.first_offset, worst.last_offset
    if back[2] > first or not first <= back[1] <= last:
        return worst
    removed = worst.removed - 1
    if not is_many(removed, worst.total - removed):
        return None
    names = [one for one in worst.changes if one != named(back[1])]
    rest = [named(at) for _, at, since in gone if first <= at <= last and since <= first]
    return worst._replace(removed=removed, changes=tuple(names or rest[:NAMES_KEPT]))


def by_definition(events: list[Event]) -> list[Crowd]:
    """Every removal looks at all that went within the window; of a burst, what came after the first
    of it went is not counted, neither as gone nor as left, and what is back by then is left. The
    time is what has passed, and a clock that goes back has let none pass.
    """
    gone: deque[Removal] = deque()
    worst, found, young = None, list[Crowd](), dict[int, int]()
    now, back = 0, back_at(events)
    for (offset, came), (at, *_), held_now, before in zip(
        came_at(events).items(), events, held(events), [*events[:1], *events], strict=False
    ):
        now += max(0, at - before[0])
        if worst is not None and now - gone[-1][0] > LIMITS.mass_deletion_window_ms:
            found.append(worst)
            worst = None
            gone.clear()
            young.clear()
        if gone and now - gone[-1][0] <= LIMITS.mass_deletion_window_ms:
            young |= dict.fromkeys(came, offset)
        while gone and (now - gone[0][0] > LIMITS.mass_deletion_window_ms or gone[0][2] == BACK):
            gone.popleft()
        gone.append((now, offset, young.pop(offset, -1)))
        worst, over = larger(worst, list(gone), held_now, young)
        found += over
        if offset not in back:
            continue
        went = next((one for one in gone if one[1] == back[offset]), None)
        if went is None or now - went[0] > LIMITS.mass_deletion_window_ms:
            young[back[offset]] = offset
            continue
        gone[gone.index(went)] = (*went[:2], BACK)
        if went[2] >= 0:
            young[went[1]] = went[2]
        worst = worst and without(worst, went, list(gone))
    return found if worst is None else [*found, worst]


steps = st.sampled_from(
    [0, 1, 125, 400, 500, 501, 2000, 2004, 8016, 30_000, 60_000, 60_001, -5000, -70_000]
)


removals = st.tuples(
    steps, st.integers(0, 12), st.booleans(), st.integers(-1, 6), st.integers(-3, 6)
)


@given(st.lists(removals, max_size=60), st.floats(0, 1))
def test_crowds_are_told_as_they_are_defined(given: list[Event], share: float) -> None:
    events, now = list[Event](), 0
    for step, left, another_came, age, back in given:
        now += step
        events.append((now, left, another_came, age, back))
    assert told(events) == by_definition(events)
    assert told_in_two(events, round(share * len(events))) == told(events)


@pytest.mark.parametrize("at", range(29))
def test_a_crowd_goes_on_wherever_it_is_cut(at: int) -> None:
    """Also where it is many already, and one of it comes back behind the cut."""
    few = [(9000 * one, 30 - one, False, -1, -1) for one in range(8)]
    crowd = [(80_000 + one, 22 - one, one == 3, -1, -1) for one in range(12)]
    back = [(90_000 + one, 11, False, -1, 5) for one in range(4)]
    later = [(200_000 + one, 11 - one, False, -1, -1) for one in range(4)]
    events = [*few, *crowd, *back, *later]
    (found,) = by_definition(events)
    assert (found.first_offset, found.last_offset, found.removed) == (4, 23, 16)
    assert told_in_two(events, at) == [found]


def test_what_went_before_a_crowd_is_no_part_of_it() -> None:
    """Eight of twenty are not too many; eight of the twelve that were left then are by themselves,
    though with the others there were more.
    """
    before = [(0, 12, False, -1)] * 8
    crowd = [(30_000, 11 - at, False, -1) for at in range(8)]
    (found,) = told_of([*before, *crowd])
    assert (found.first_offset, found.last_offset, found.removed, found.total) == (8, 15, 8, 12)
    soon = [(1, left, at == 0, -1) for at, (_, left, _, _) in enumerate(crowd)]
    (found,) = told_of([*before, *soon])  # the state before the first one held all that went
    assert (found.first_offset, found.removed, found.total) == (0, 16, 20)
    (found,) = told_of([*before, *soon, (2, 4, False, 8)])  # and did not: one of them came then
    assert (found.first_offset, found.removed, found.total) == (8, 9, 14)


def test_a_script_that_is_slow_is_one_crowd() -> None:
    """Each removal comes two or three seconds after the one before: all of them went together, and
    the one of half a minute before did not.
    """
    slow = [(2000 * at + 700 * (at % 3), 19 - at, False, -1) for at in range(20)]
    (found,) = told_of(slow)
    assert (found.first_offset, found.removed, found.total) == (0, 20, 20)
    before = (-30_000, 20, False, -1)
    (found,) = told_of([before, *slow])
    assert (found.first_offset, found.removed, found.total) == (1, 20, 20)


def test_one_wild_clock_makes_no_crowd_of_what_goes_day_by_day() -> None:
    day = 86_400_000
    slow = [(day * at, 12, False, -1) for at in range(1, 30)]
    assert told_of([(366 * day, 12, False, -1), *slow]) == []
    assert told_of([(-366 * day, 12, False, -1), *slow]) == []
    crowd = [(30 * day + at, 10 - at, False, -1) for at in range(8)]
    (found,) = told_of([(366 * day, 12, False, -1), *slow, *crowd])
    assert (found.first_offset, found.removed) == (30, 8)


def test_a_crowd_is_not_hidden_by_a_smaller_one_behind_it() -> None:
    first = [(0, 12 - at, False, -1) for at in range(8)]
    second = [(5000, 4 - at, False, -1) for at in range(4)]
    (found,) = told_of([*first, *second])
    assert (found.first_offset, found.removed) == (0, 11)


def test_a_crowd_is_not_hidden_by_a_larger_one_before_it() -> None:
    """Topics go, never a minute apart: more than half of them within seconds, then one, then nearly
    all at once.
    """
    churn = [(1000 * at, 32 - at, False, -1) for at in range(20)]
    wipe = [(110_000, 11 - at, False, -1) for at in range(10)]
    crowds = told_of([*churn, (75_000, 12, True, -1), *wipe])
    assert [one[1:4] for one in crowds] == [(0, 19, 20), (21, 30, 10)]


def test_what_comes_and_goes_is_no_crowd() -> None:
    """One topic is created and removed again and again, and there were never more than two. What is
    created anew when a crowd has gone, and goes again, went once.
    """
    assert told_of([(1000 * at, 1, False, 0) for at in range(200)]) == []
    crowd = [(at, 4, False, -1) for at in range(5)]
    again = [(1000 + at, 4, False, 2) for at in range(5)]
    (found,) = told_of([*crowd, *again])
    assert (found.first_offset, found.last_offset, found.removed) == (0, 4, 5)


def test_what_comes_in_place_of_a_crowd_is_none_of_what_was_there() -> None:
    """Each topic that goes is created anew at once, as by a script that moves them all."""
    (found,) = told_of([(300 * at, 19 - at, at > 0, -1) for at in range(20)])
    assert (found.first_offset, found.last_offset) == (0, 19)
    assert (found.removed, found.total) == (20, 20)
    (found,) = told_of([(300 * at, 19 - at, at > 0, -1) for at in range(15)])
    assert (found.removed, found.total) == (15, 20)
    assert told_of([(300 * at, 19 - at, at > 0, -1) for at in range(10)]) == []


def test_a_transaction_is_a_crowd_by_what_there_was_before_each() -> None:
    """All of it is seen at once, with what came in it."""
    gone = visible([named(at) for at in range(6)], 0, 5)
    came = visible([named(at)._replace(before=None, after={"name": "n"}) for at in (20, 21)], 0, 6)
    watcher = MassDeletion(LIMITS)
    assert not [*watcher.see([*gone, *came], STATES[6 + 2])]
    assert not [*watcher.rest()], "6 of 12 are not more than half"
    watcher = MassDeletion(LIMITS)
    assert not [*watcher.see([*gone, *came], STATES[5 + 2])]
    (found,) = watcher.rest()
    assert (found.first_offset, found.removed, found.total) == (5, 6, 11)


def test_what_went_before_a_crowd_came_hides_nothing() -> None:
    """One topic goes, ten come, and all ten go."""
    crowd = [(30_000 + at, 1, False, at) for at in range(10)]
    (found,) = told_of([(0, 1, False, -1), *crowd])
    assert (found.first_offset, found.last_offset, found.removed) == (1, 10, 10)


def test_what_is_written_anew_has_not_gone() -> None:
    """All come back: at once, in the end, and each right behind the next one."""
    anew = [(at, 0, False, -1, 0) for at in range(20)]
    assert told(anew) == []
    gone = [(at, 19 - at, False, -1, -1) for at in range(20)]
    last = (20, 0, False, -1, -1)
    assert [one.removed for one in told([*gone, last])] == [21]
    back = [(1000, at, True, 0, 21 - at) for at in range(20)]  # others come and go beside
    assert told([*gone, last, *((*one[:4], 21) for one in back)]) == []


def test_what_does_not_come_back_with_the_others_has_gone() -> None:
    gone = [(at, 9 - at, False, -1, -1) for at in range(10)]
    some_back = [(1000 + at, at, True, 0, 10) for at in range(3)]
    (found,) = told([*gone, *some_back])
    assert (found.first_offset, found.last_offset, found.removed, found.total) == (0, 9, 7, 10)
    assert found.changes == tuple(named(at) for at in range(3, 10))
    late = [(120_000 + at, at, True, 0, 10) for at in range(3)]
    (found,) = told([*gone, *late])
    assert (found.removed, found.total) == (10, 10)


def test_a_clock_that_goes_back_parts_no_crowd() -> None:
    """A minute and more, in the midst of it."""
    clock = [*range(3), *range(-70_000, -69_997)]
    (found,) = told_of([(at, 5 - number, False, -1) for number, at in enumerate(clock)])
    assert (found.first_offset, found.last_offset, found.removed) == (0, 5, 6)


def acl_rows(first: int, count: int) -> list[Change]:
    """New ids, of the same ones."""
    return [
        Change("acls", (f"id {first + at}",), None, {"id": f"id {first + at}", "name": f"{at}"})
        for at in range(count)
    ]


def test_acls_are_the_same_under_another_id() -> None:
    """A tool removes all in one batch, and writes them again, or only some of them."""
    before = [one._replace(before=one.after, after=None) for one in acl_rows(0, 40)]
    for written, removed in ((40, 0), (20, 20), (4, 36)):
        state, watcher = State(), MassDeletion(LIMITS)
        for one in acl_rows(40, written):
            state.set("acls", one.key, one.after)
        seen_now = visible([*before, *acl_rows(40, written)], 0, 7)
        assert not [*watcher.see(seen_now, state)]
        found = [(one.removed, one.total) for one in watcher.rest()]
        assert found == ([(removed, 40)] if removed > 32 else [])


def test_what_comes_and_goes_by_thousands_takes_no_longer_for_each() -> None:
    """Behind a crowd, where its names would be looked for among all that has come back."""
    state, watcher = State(), MassDeletion(LIMITS)
    state.set("acls", ("left",), {"name": "left"})
    gone = [one._replace(before=one.after, after=None) for one in acl_rows(0, 60)]
    assert not [*watcher.see(visible(gone, 0, 1), state)]
    (back,) = acl_rows(60, 1)
    again = [back._replace(before=back.after, after=None), back] * 40_000
    began = process_time()
    assert not [*watcher.see(visible(again, 0, 2), state)]
    assert process_time() - began < 20, "each was looked for among all others"
    (crowd,) = watcher.rest()
    assert (crowd.removed, len(crowd.changes)) == (60, 60)


def test_a_crowd_of_thousands_takes_no_longer_for_each() -> None:
    began = process_time()
    (window,) = told_of([(at // 10, 1, False, -1) for at in range(40_000)])
    assert window.removed == 40_000
    assert len(window.changes) == NAMES_KEPT
    told_of([(at, 1, False, 1) for at in range(5_000)])  # each came right before the last one
    assert process_time() - began < 10, "each looked at all before it"


def test_voters_without_number() -> None:
    began = process_time()
    before = frozenset((voter, None) for voter in range(20_000))
    after = frozenset((voter, f"disk {voter}") for voter in range(10_000, 30_000))
    assert _without_named(after, before) == {one for one in after if one[0] >= 20_000}
    moved = frozenset((voter, "other") for voter in range(10_000, 20_000))
    assert _without_named(moved, after) == moved
    assert process_time() - began < 5, "each was compared with all others"


def test_a_headline_names_a_few_of_many() -> None:
    many = list(range(1, 5001))
    lag = [{"who": f"broker {one}", "behind": 9, "needs_snapshot": False, "is_voter": True}
           for one in many]  # fmt: skip
    row = {
        "verdict": "incomplete", "voters": many, "missing_voters": many[:4000], "not_judged": [],
        "committed_lower": 0, "committed_upper": None, "lagging": lag,
    }  # fmt: skip
    said = headline(row, [], [])
    assert len(said) < 1000
    assert "No copies of voters 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3,991 more (of 5000)" in said


def test_empty_snapshots_by_the_thousand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path, 1)
    node.write(healthy_log())
    for number in range(2000):
        node.checkpoint(1_000_000 + number, 1).write_bytes(b"")
    calls = 0

    def counted(view: SnapshotView) -> int:
        nonlocal calls
        calls += 1
        return view.evidence.end_offset or 0

    monkeypatch.setattr(SnapshotView, "end_offset", property(counted))
    result = audit(tmp_path)
    (found,) = (one for one in result.results if one.check == "snapshot_footer_last")
    assert found.finding_count == 2000
    assert 0 < calls < 200_000, "each was compared with all others"
