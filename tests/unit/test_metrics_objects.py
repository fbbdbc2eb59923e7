"""Lives of objects: the counting rule of the dirty ratio, churn per hour, spans of tombstones."""

from dataclasses import fields, replace
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kraftlog.metrics.amplification import BrokerEvent, Bursts, amplification_rows
from kraftlog.metrics.churn import churn_rows
from kraftlog.metrics.elections import elections_of, elections_per_day
from kraftlog.metrics.known_lives import ENDED_VERSIONS, end_rows, known_lives, life_rows
from kraftlog.metrics.lives import VALIDITY, Gathered
from kraftlog.metrics.objects import OPEN, Changes, Ends, Lives
from kraftlog.metrics.policy import PolicyLimits, Simulator
from kraftlog.metrics.shared_log import SharedLog, steady
from kraftlog.metrics.tombstones import Deletions, Position, deletions, follower_horizon
from kraftlog.quorum.growth import HOUR_MS
from kraftlog.relations import moment

Put = tuple[int, str, bool]
"""(offset of a record, object, whether it deletes it)."""


def history(puts: list[Put], base: tuple[str, ...] = (), start: int = 0) -> Lives:
    return lives([versions(puts, base, start)])


def lives(parts: list[pa.Table]) -> Lives:
    """The lives of features."""
    found = Gathered("features")
    for rows in parts:
        found.add(rows)
    return found.lives()


def versions(puts: list[Put], base: tuple[str, ...] = (), start: int = 0) -> pa.Table:
    """Versions as the history tables hold them: a record at offset o counts from o + 1 on."""
    open_rows: dict[str, dict[str, Any]] = {
        name: {"name": name, "valid_from_offset": start, "record_offset": None} for name in base
    }
    rows = []
    for offset, name, deletes in puts:
        before = open_rows.pop(name, None)
        if before is not None:
            rows.append({**before, "valid_to_offset": offset + 1, "valid_to": offset * 1000})
        if not deletes:
            at = {"valid_from_offset": offset + 1, "valid_from": offset * 1000}
            open_rows[name] = {"name": name, "record_offset": offset, **at}
    rows += open_rows.values()
    kinds = [
        pa.int64(),
        pa.int64(),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us", "UTC"),
        pa.int64(),
    ]
    schema = pa.schema([("name", pa.string()), *zip(VALIDITY, kinds, strict=True)])
    return pa.Table.from_pylist(rows, schema=schema)


def log_of(count: int, times: list[int] | None = None, size: int = 100) -> SharedLog:
    """A log of one record a batch."""
    offsets = np.arange(count)
    stamps = np.array(times if times is not None else [0] * count, np.int64)
    ones = np.ones(count, np.int64)
    ids = np.zeros((count, 2), np.uint64)
    return SharedLog(offsets, offsets, ones * size, ones, ones, stamps, stamps, ids, {})


def test_new_objects_do_not_count_and_changed_ones_count_once() -> None:
    found = history(
        [
            (10, "old", False),  # modified
            (11, "new", False),  # added: does not count
            (12, "brief", False),  # added and deleted: counts
            (13, "brief", True),
            (14, "grown", False),  # added and modified: counts
            (15, "grown", False),
            (16, "old", False),  # again: counts once
            (17, "gone", True),
        ],
        base=("old", "gone", "left"),
        start=10,
    )
    changes = Changes([found])
    # Of the first: old, brief, grown, gone.
    assert changes.counts(np.array([10, 10, 11]), np.array([18, 11, 12])).tolist() == [4, 1, 0]
    assert changes.alive_at(10) == 3
    assert changes.alive_at(18) == 4


PUTS = st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=40)


@settings(deadline=None)
@given(PUTS, st.integers(0, 40), st.integers(0, 40), st.integers(1, 5))
def test_changes_agree_with_the_rule_told_in_sets(
    steps: list[tuple[str, bool]], start: int, length: int, wanted: int
) -> None:
    puts = [(offset, name, deletes) for offset, (name, deletes) in enumerate(steps)]
    changes, end = Changes([history(puts)]), start + length

    def dirty(until: int) -> int:
        held: set[str] = set()
        for _, name, deletes in puts[:start]:
            held = held - {name} if deletes else held | {name}
        alive, touched = set(held), set()
        for _, name, deletes in puts[start:until]:
            if name in alive:
                touched.add(name)
            alive = alive - {name} if deletes else alive | {name}
        return len(touched)

    assert changes.counts(np.array([start]), np.array([end])).tolist() == [dirty(end)]
    reached = changes.reached(start, wanted)
    first = next((at for at in range(start, len(puts) + 1) if dirty(at) >= wanted), None)
    assert reached == first


def test_a_log_without_batches_has_no_measures() -> None:
    log = log_of(0)
    assert elections_of(log) == []
    assert elections_per_day(log) is None
    assert churn_rows(log, {"topics": history([], base=("a",), start=7)}) == []
    assert not [*amplification_rows(Bursts(log, [BrokerEvent(3, 1, "fenced", "X")]), 3)]
    changes = Changes([history([], base=("a",), start=7)])
    simulator = Simulator(log, changes, PolicyLimits())
    for rule in simulator.rules().values():
        (only,) = simulator.intervals(rule)
        assert (only.start_offset, only.end_offset, only.trigger) == (7, 7, None)


def test_a_version_that_ends_with_what_is_known_is_no_event_of_a_broker() -> None:
    """Offsets 3 to 6 are in no log."""
    log = log_of(6)
    offsets = np.array([0, 1, 2, 7, 8, 9])
    log = replace(log, base_offsets=offsets, last_offsets=offsets)
    events = [BrokerEvent(at, 1, "unregistered", "UNREGISTER_BROKER_RECORD") for at in (2, 3, 7)]
    assert [one.offset for one in Bursts(log, events).events] == [2, 7]


def test_a_burst_goes_on_within_its_gap_and_ends_beyond_it_or_with_its_epoch() -> None:
    log = replace(log_of(5, [0, 10, 21, 22, 23]), epochs=np.array([1, 1, 1, 1, 2]))
    bursts = Bursts(log, [BrokerEvent(0, 1, "fenced", "FENCE_BROKER_RECORD")])
    assert bursts.every.tolist() == [[0, 2], [0, 2], [2, 4], [2, 4], [4, 5]]


def test_a_leader_whose_clock_was_hours_ahead() -> None:
    ahead = 2 * HOUR_MS
    log = replace(log_of(4, [0, ahead, 10, 30]), epochs=np.array([1, 2, 3, 4]))
    rows = elections_of(log)
    assert [row["elections_in_hour"] for row in rows] == [1, 1, 2, 3]
    assert [row["tenure_ms"] for row in rows] == [ahead, None, 20, 0]
    assert [row["is_shortest"] for row in rows] == [False, False, True, False]


def test_how_long_a_leader_led_is_not_known_where_the_log_begins_amid_its_epoch() -> None:
    log = log_of(3, [0, 10, 500])
    later = replace(log, base_offsets=log.base_offsets + 7, last_offsets=log.last_offsets + 7)
    rows = elections_of(replace(later, epochs=np.array([3, 4, 5])))
    assert [row["tenure_ms"] for row in rows] == [None, 490, 0]
    assert [row["is_shortest"] for row in rows] == [False, True, False]
    assert [row["elections_in_hour"] for row in rows] == [None, 1, 2]


def test_leadership_that_goes_to_and_fro() -> None:
    hour = HOUR_MS
    whole = log_of(7, [0, 10, 20, 30, hour + 5, hour + 6, 5 * hour])
    epochs = np.array([1, 1, 2, 5, 6, 6, 7])
    log = replace(whole, epochs=epochs, leaders={1: 1, 2: 2, 5: 1, 6: 3, 7: 1})
    rows = elections_of(log)
    assert [row["batch_leader_epoch"] for row in rows] == [1, 2, 5, 6, 7]
    assert [row["skipped_epochs"] for row in rows] == [0, 0, 2, 0, 0]
    assert [row["tenure_ms"] for row in rows] == [20, 10, hour - 25, 4 * hour - 5, 0]
    assert [row["is_shortest"] for row in rows] == [False, True, False, False, False]
    assert [row["leader_id"] for row in rows] == [1, 2, 1, 3, 1]
    assert [row["previous_leader_id"] for row in rows] == [None, 1, 2, 1, 3]
    assert [row["leader_came_back"] for row in rows] == [False, False, True, False, True]
    assert [row["elections_in_hour"] for row in rows] == [1, 2, 3, 3, 1]
    assert elections_per_day(log) == pytest.approx(4 * 24 / 5)
    assert [(row["start_offset"], row["end_offset"]) for row in rows] == [
        (0, 2), (2, 3), (3, 4), (4, 6), (6, 7),
    ]  # fmt: skip
    assert [(row["record_count"], row["size_bytes"]) for row in rows] == [
        (2, 200), (1, 100), (1, 100), (2, 200), (1, 100),
    ]  # fmt: skip
    assert [row["is_current"] for row in rows] == [False] * 4 + [True]
    starts = [0, 20, 30, hour + 5, 5 * hour]
    assert [row["start_timestamp"] for row in rows] == [moment(one) for one in starts]
    assert [row["end_timestamp"] for row in rows] == [
        moment(one) for one in (*starts[1:], 5 * hour)
    ]
    assert elections_of(log_of(0)) == []


def test_a_state_is_known_from_its_base_snapshot_on() -> None:
    changes = Changes([history([(12, "a", False)], base=("a", "b"), start=10)], first_offset=5)
    assert changes.known_from == 10
    simulator = Simulator(log_of(25), changes, PolicyLimits(min_records=9))
    cuts = simulator.intervals(simulator.rules()["v19_records"])
    assert [one.start_offset for one in cuts] == [10, 20]
    assert Changes([], first_offset=5).known_from == 5


def test_tables_are_counted_apart() -> None:
    one, two = (
        history([(0, "a", False), (1, "a", False)]),
        history([(2, "a", False), (3, "a", True)]),
    )
    changes = Changes([one, two])
    assert changes.counts(np.array([0]), np.array([4])).tolist() == [2]
    assert changes.alive_at(4) == 1


def test_the_version_of_kraft_is_no_feature_of_a_snapshot() -> None:
    """It comes from a control record."""
    found = history([(0, "kraft.version", False), (1, "metadata.version", False)])
    assert (found.began.tolist(), found.ended.tolist()) == ([2], [OPEN])


def test_churn_per_hour() -> None:
    hour = HOUR_MS
    puts: list[Put] = [(0, "a", False), (1, "b", False), (2, "a", False), (3, "a", False)]
    puts += [(4, "b", True), (5, "c", False)]
    log = log_of(6, [0, 1, hour, hour + 1, hour + 2, 3 * hour])
    rows = churn_rows(log, {"topics": history(puts)})
    counts = [
        (
            row["window_start"].hour,
            row["start_count"],
            row["added_count"],
            row["modified_count"],
            row["modification_count"],
            row["deleted_count"],
            row["untouched_count"],
        )
        for row in rows
    ]
    assert counts == [(0, 0, 2, 0, 0, 0, 0), (1, 2, 0, 1, 2, 1, 0), (3, 1, 1, 0, 0, 0, 1)]
    assert [row["keys_change_less_than_values"] for row in rows] == [False, True, False]


def test_objects_of_a_snapshot_in_the_first_hour_stood_when_it_began() -> None:
    """The log begins before the snapshot from which the history goes on."""
    log = log_of(9, [0] * 9)
    held = history([(5, "a", True), (6, "b", False), (7, "d", False)], ("a", "b", "c"), start=4)
    (row,) = churn_rows(log, {"topics": held})
    counts = ("start", "added", "modified", "deleted", "untouched")
    assert [row[f"{one}_count"] for one in counts] == [3, 1, 1, 1, 1]


def test_snapshots_beyond_a_log_that_lost_its_end_are_no_churn_of_it() -> None:
    """What they hold, and no longer hold, no record of the log made so."""
    log = log_of(9, [0] * 9)
    puts: list[Put] = [(5, "a", True), (6, "b", False), (7, "d", False)]
    rows = versions(puts, ("a", "b", "c"), start=4).to_pylist()
    for row in rows:
        if row["valid_to_offset"] is None and row["name"] != "c":
            row["valid_to_offset"] = 20
    rows += [{"name": name, "valid_from_offset": 20} for name in ("b", "e")]
    table = pa.Table.from_pylist(rows, schema=versions([]).schema)
    (row,) = churn_rows(log, {"topics": lives([table])})
    counts = ("start", "added", "modified", "deleted", "untouched")
    assert [row[f"{one}_count"] for one in counts] == [3, 1, 1, 1, 1]


LIVES = [("a", False), ("a", True), ("a", False), ("a", False)]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("aab"), st.booleans()), max_size=40),
    st.lists(st.sampled_from((0, 0, 0, 0, 1)), min_size=40, max_size=40),
    st.sampled_from((0, 0, 3, 10)),
    st.sampled_from((("a", "c"), ())),
)
@example([("a", True), *LIVES], [0] * 40, 0, ("a", "c"))
# Of an object whose first life came and went in the hour in which the next one was modified.
@example([("b", True), *LIVES], [0, 1] + [0] * 38, 0, ())
# Of an object that is modified in two of its lives of an hour: it counts once.
@example([("a", True), *LIVES[2:], *LIVES[1:]], [0, 1] + [0] * 38, 0, ("a", "c"))
def test_churn_agrees_with_the_rule_told_in_sets(
    steps: list[tuple[str, bool]], gaps: list[int], first: int, base: tuple[str, ...]
) -> None:
    """`first`: a batch is missing before that offset, so that changes up to it do not count."""
    puts = [(offset, name, deletes) for offset, (name, deletes) in enumerate(steps)]
    hours = np.cumsum(gaps)
    log = log_of(40, (hours * HOUR_MS).tolist())
    log.__dict__["unbroken_from"] = first
    alive, expected = set(base), {}
    for hour in sorted(set(hours.tolist())):
        stood, ended, touched, modified = set(alive), set(), set(), set()
        counts = dict.fromkeys(("added", "modification", "deleted"), 0)
        for offset, name, deletes in puts:
            if hours[offset] != hour:
                continue
            was = {name} & alive
            if offset + 1 > first and (was or not deletes):
                counts["deleted" if deletes else "modification" if was else "added"] += 1
                # Only the end of the version that stood counts.
                touched |= was & stood - ended
                modified |= set() if deletes else was
            ended |= was
            alive = alive - {name} if deletes else alive | {name}
        if any(counts.values()):
            untouched = len(stood - touched)
            expected[hour] = (len(stood), *counts.values(), len(modified), untouched)
    names = ("start", "added", "modification", "deleted", "modified", "untouched")
    found = {
        round(row["window_start"].timestamp() / 3600): tuple(row[f"{one}_count"] for one in names)
        for row in churn_rows(log, {"topics": history(puts, base)})
    }
    assert found == expected


@settings(deadline=None)
@given(PUTS, st.randoms(), st.integers(1, 4))
def test_lives_are_the_same_however_their_rows_lie(
    steps: list[tuple[str, bool]], random: Any, parts: int
) -> None:
    puts = [(offset, name, deletes) for offset, (name, deletes) in enumerate(steps)]
    rows = versions(puts, base=("c",))
    places = list(range(rows.num_rows))
    random.shuffle(places)
    cuts = [pa.array(places[at::parts], pa.int64()) for at in range(parts)]
    shuffled = lives([rows.take(cut) for cut in cuts])
    assert lives_as_told(shuffled) == lives_as_told(lives([rows]))


def lives_as_told(found: Lives) -> tuple[list[Any], list[Any], int]:
    """Lives in an order that does not depend on how objects are numbered."""
    names = [one.name for one in fields(Lives) if one.name not in ("ends", "keys", "last_base")]
    columns = [getattr(found, name).tolist() for name in names]
    keys = [column.to_pylist() for column in found.keys]
    ends = [[*zip(part.offsets.tolist(), part.before.tolist(), strict=True)] for part in found.ends]
    assert all(one == sorted(one, key=itemgetter(0)) for one in ends)
    return sorted(zip(*keys, *columns, strict=True)), sorted(chain(*ends)), found.last_base


@settings(deadline=None)
@given(PUTS, st.lists(st.integers(0, 40), max_size=3), st.booleans(), st.booleans())
@example([("a", False), ("a", False), ("a", True), ("a", False)], [1, 2, 3], False, True)
def test_lives_go_on_from_what_was_kept_of_them(
    steps: list[tuple[str, bool]], cuts: list[int], based: bool, merged: bool
) -> None:
    """`merged`: files of rows have been merged since, in any order."""
    puts = [(offset, name, deletes) for offset, (name, deletes) in enumerate(steps)]
    base = ("c", "d") if based else ()
    since, found = -1, Gathered("features")
    ends: list[Ends] = []
    for cut in [*sorted(cuts), len(puts)]:
        rows = versions([one for one in puts if one[0] < cut], base)
        is_new = pc.fill_null(pc.greater(rows.column("valid_to_offset"), since), True)
        found.add(rows.filter(is_new))
        whole = found.lives()
        assert lives_as_told(whole) == lives_as_told(lives([rows]))
        every = {"features": whole}
        rows = end_rows(every, since)
        added = Ends(*(rows.column(one).to_numpy() for one in ENDED_VERSIONS.names[1:]))
        ends = [one_of([added, *ends])] if merged else [*ends, added]
        found = known_lives("features", life_rows(every), ends)
        since = cut


def one_of(parts: list[Ends]) -> Ends:
    """One after the other, as they lie."""
    columns = ([getattr(one, name) for one in parts] for name in ("offsets", "before"))
    return Ends.in_order(*map(np.concatenate, columns))


@pytest.mark.parametrize("start", [0, 1 << 40])
def test_offsets_may_be_as_large_as_they_like(start: int) -> None:
    puts = [(start + 1, "a", False), (start + 2, "b", False), (start + 4, "a", True)]
    changes = Changes([history(puts, base=("a", "b"), start=start)])
    starts, ends = np.array([start, start + 2]), np.array([start + 4, start + 3])
    assert changes.counts(starts, ends).tolist() == [2, 1]
    assert changes.reached(start, 2) == start + 3
    assert changes.reached(start, 3) is None


def test_an_object_that_comes_back_is_deleted_and_added() -> None:
    found = history([(0, "a", False), (1, "a", True), (2, "b", False), (3, "a", False)])
    assert len(found) == 3
    assert int(found.gone.sum()) == 1


def test_v19_cuts_after_more_records_than_the_minimum() -> None:
    simulator = Simulator(log_of(25), Changes([]), PolicyLimits(min_records=9))
    cuts = simulator.intervals(simulator.rules()["v19_records"])
    assert [(one.start_offset, one.end_offset, one.trigger) for one in cuts] == [
        (0, 10, "records"),
        (10, 20, "records"),
        (20, 25, None),
    ]


def test_the_adopted_rule_waits_for_both_conditions() -> None:
    base = ("a", "b", "c", "d")
    # Half of four objects have changed from offset 21 on; 1,000 bytes are there after 10.
    found = history([(5, "a", False), (20, "b", False)], base)
    simulator = Simulator(log_of(40), Changes([found]), PolicyLimits(max_bytes=1000))
    cuts = simulator.intervals(simulator.rules()["adopted_ratio_and_bytes"])
    assert [(one.end_offset, one.trigger) for one in cuts] == [(21, "ratio"), (40, None)]
    eager = Simulator(log_of(40), Changes([found]), PolicyLimits(max_bytes=3000))
    cuts = eager.intervals(eager.rules()["adopted_ratio_and_bytes"])
    assert [(one.end_offset, one.trigger) for one in cuts] == [(30, "bytes"), (40, None)]


def test_the_shipped_rule_takes_whichever_comes_first() -> None:
    times = [0, 10, 20, 4_000_000, 4_000_010, *range(4_000_020, 4_000_220, 10)]
    simulator = Simulator(log_of(25, times), Changes([]), PolicyLimits(max_bytes=1000))
    cuts = simulator.intervals(simulator.rules()["shipped_bytes_or_time"])
    assert [(one.end_offset, one.trigger) for one in cuts] == [
        (4, "time"),
        (14, "bytes"),
        (24, "bytes"),
        (25, None),
    ]


def test_a_clock_that_was_wrong_for_a_while_moves_no_snapshot_and_no_hour() -> None:
    """Ahead by years, or back in 1970, for some batches or for the first: neither has an hour, nor a cut."""
    hour, year = 3_600_000, 365 * 86_400_000
    right = [50 * year + at * hour // 2 for at in range(20)]

    def told(times: list[int]) -> tuple[list[int], set[Any]]:
        simulator = Simulator(log_of(20, times), Changes([]), PolicyLimits())
        cuts = simulator.intervals(simulator.rules()["shipped_bytes_or_time"])
        lives = {"topics": history([(at, f"t{at}", False) for at in range(20)])}
        hours = {row["window_start"] for row in churn_rows(log_of(20, times), lives)}
        return [one.end_offset for one in cuts], hours

    cuts, hours = told(right)
    assert (len(cuts), len(hours)) == (10, 10)
    for wrong in ({7: 4 * year}, {7: -50 * year}, {7: year, 8: year, 9: year}):
        found, seen = told([one + wrong.get(at, 0) for at, one in enumerate(right)])
        assert seen <= hours
        assert len(seen) >= len(hours) - 1
        assert len(found) >= len(cuts) - 1
    first, _ = told([right[0] + 4 * year, *right[1:]])
    assert len(first) >= len(cuts) - 1
    still = steady(np.array([5, 5, 9, 6, 7, 7], np.int64))
    assert still.tolist() == [5, 5, 5, 6, 7, 7]


def test_a_tombstone_a_week_and_a_billion_offsets_later() -> None:
    week = 7 * 86_400_000
    found = Deletions(*(np.array([one]) for one in (0, 1_000_000_000, week, week)))
    assert (found.longest_offsets, found.longest_ms) == (1_000_000_000, week)
    gone = found.gone(week, 0)
    assert found.worst_position(gone) == (1, 1)
    assert found.kept_for_ever(gone, 1_000_000_000) == 1
    assert found.kept_for_ever(gone, 1_000_000_001) == 0
    assert found.kept_for_ever(gone, 0) == 0


@settings(deadline=None)
@given(PUTS)
def test_the_worst_position_is_the_worst_of_all(steps: list[tuple[str, bool]]) -> None:
    puts = [(offset, name, deletes) for offset, (name, deletes) in enumerate(steps)]
    found = deletions(log_of(len(puts)), history(puts))
    gone = found.gone(len(puts), 0)
    worst = found.worst_position(gone)
    counts = [found.kept_for_ever(gone, at) for at in range(len(puts) + 1)]
    assert (worst[1] if worst else 0) == max(counts)
    assert worst is None or counts[worst[0]] == worst[1]


def test_what_a_hole_in_the_log_ends_is_not_deleted() -> None:
    """Offset 2 is in no log: what is known ends there, and with it b."""
    held = history([(0, "a", False), (1, "a", True), (1, "b", False), (2, "b", True)])
    found = deletions(log_of(2), held)
    assert found.tombstone_offsets.tolist() == [1]


def test_a_follower_keeps_its_horizon_below_its_leaders() -> None:
    assert follower_horizon(500, 300) == 300
    assert follower_horizon(200, 300) == 200


def test_a_fetcher_below_the_horizon_begins_anew_once() -> None:
    start = Position("replica", 50)
    outcome, at = start.meets(100)
    assert (outcome, at) == ("wipe log", Position("replica", 0, 100))
    outcome, at = replace(at, offset=60).meets(100)  # unsafe mode: the same horizon is no reason
    assert (outcome, at) == ("go on", Position("replica", 60, 100))
    outcome, at = at.meets(120)  # it has moved: more tombstones are gone
    assert (outcome, at) == ("wipe log", Position("replica", 0, 120))
    outcome, at = replace(at, offset=130).meets(120)
    assert (outcome, at) == ("go on", Position("replica", 130))
    assert Position("consumer", 10).meets(11)[0] == "wipe state"
    assert Position("consumer", 11).meets(11) == ("go on", Position("consumer", 11))
