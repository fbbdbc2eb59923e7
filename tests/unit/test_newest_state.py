"""What the newest state says of a cluster, partition by partition: rules at their borders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kraftlog.audit.partition_checks import _how_unclean, _stopped
from kraftlog.quorum.health import Health, Partition, Past, Since, Unclean, health_of
from kraftlog.state.declare import Data, Key
from kraftlog.state.fold import value_schema
from kraftlog.state.history import SHOWN
from kraftlog.state.state import Change, State
from tests.unit.audit_logs import NO_OP, TRANSACTION, audit, quorum, remove_topic, topic
from tests.unit.faults.health import RUNNING, change
from tests.unit.faults.table import everywhere

NOW, EARLIER = Since(9, 900), Since(4, 400)
KEY: Key = ("T", 0)


def state(racks: dict[int, str | None], min_isr: dict[str, str] | None = None) -> State:
    """Brokers by their racks; min.insync.replicas by topic or broker, of all brokers under an empty
    name.
    """
    found = State()
    for broker, rack in racks.items():
        value = {"rack": rack, "fenced": False, "inControlledShutdown": False}
        found.set("brokers", (broker,), value)
    found.set("topics", ("T",), {"name": "t", "topicId": "T"})
    for name, least in (min_isr or {}).items():
        kind = 2 if name.isalpha() else 4
        found.set("configs", (kind, name, "min.insync.replicas"), {"value": least})
    return found


def partition(replicas: list[int], **fields: Any) -> Data:
    return {
        "replicas": replicas, "isr": replicas, "leader": replicas[0] if replicas else -1,
        "leaderRecoveryState": 0, "eligibleLeaderReplicas": [], "lastKnownElr": None, **fields,
    }  # fmt: skip


def versions(partitions: Mapping[Key, Data]) -> pa.Table:
    """Partitions as the columns that a fold leaves."""
    shown = SHOWN["partitions"].columns
    rows = [
        {name: one.get(field.json) for field, name in shown}
        | {"topic_id": topic, "partition_id": number}
        for (topic, number), one in partitions.items()
    ]
    return pa.Table.from_pylist(rows, value_schema())


def health(
    found: State, *partitions: Data, past: Past | None = None, asked: tuple[Key, ...] = ()
) -> Health:
    """Of partitions 0, 1, … of topic T."""
    numbered = versions({("T", number): one for number, one in enumerate(partitions)})
    return health_of(found, numbered, past or Past(), 10, True, None, asked)


RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: None}


def test_nothing_is_said_of_a_sound_partition() -> None:
    found = health(state(RACKS), partition([1, 2]), asked=(KEY,))
    assert (found.offset, found.is_committed, found.doubt) == (10, True, None)
    assert found.partition_count == 1
    kinds = (found.leaderless, found.under_min_isr, found.unclean, found.on_unregistered)
    assert kinds == ((), (), (), ())
    assert (found.single, found.one_rack) == ((), ())
    assert (dict(found.preferred_count), found.preferred_elsewhere[1]) == ({1: 1}, 0)
    assert dict(found.assigned) == {KEY: (1, 2)}
    assert found.racks == {"a", "b"}


def test_a_partition_without_a_leader_and_what_was_before() -> None:
    past = Past(leaderless={KEY: EARLIER}, led_by={KEY: 2})
    value = partition([1, 2], isr=[2], leader=-1, eligibleLeaderReplicas=[1], lastKnownElr=[2])
    found = health(state(RACKS), value, past=past)
    told = Partition("t", "T", 0, (1, 2), (2,), -1, (1,), (2,), False, 1, EARLIER, 2, None)
    assert found.leaderless == (told,)
    assert told.name == "t-0"
    # What the partitions say is not said twice.
    assert (found.past.leaderless, found.past.led_by) == ({}, {})
    led = health(state(RACKS), partition([1, 2]), past=Past(led_by={KEY: 2}, unclean={
        KEY: Unclean(NOW, 1, 2)}))  # fmt: skip
    assert [(one.led_by, one.unclean) for one in led.unclean] == [(None, Unclean(NOW, 1, 2))]


def test_the_elr_counts_within_the_assignment() -> None:
    """A reassignment leaves others in it, whom Kafka does not elect."""
    value = partition([1], isr=[], leader=-1, eligibleLeaderReplicas=[3, 1])
    assert [one.elr for one in health(state(RACKS), value).leaderless] == [(1,)]


def test_broker_0_leads_as_any_other() -> None:
    found = health(state({0: None, 1: None}), partition([0, 1]), partition([1, 0], leader=0))
    assert found.leaderless == ()
    assert (dict(found.preferred_count), found.preferred_elsewhere[1]) == ({0: 1, 1: 1}, 1)
    assert found.preferred_elsewhere[0] == 0


def test_who_is_not_in_sync_cannot_lead() -> None:
    found = health(state(RACKS), partition([1, 2], isr=[2], leader=2), partition([1, 2], leader=2))
    assert (found.preferred_elsewhere[1], found.preferred_count[1]) == (1, 2)


@pytest.mark.parametrize(
    ("directories", "offline"),
    [
        (["a", "b"], []),
        (["a", "c"], [(2, "c")]),
        (["x", "c"], [(1, "x"), (2, "c")]),
        (["AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"], []),  # migrating, not assigned
        (["a", "AAAAAAAAAAAAAAAAAAAAAg"], [(2, "AAAAAAAAAAAAAAAAAAAAAg")]),  # lost
        (["a", "b", "AAAAAAAAAAAAAAAAAAAAAg"], [(3, "AAAAAAAAAAAAAAAAAAAAAg")]),  # 3 registers none
        (None, []),
    ],
)
def test_a_directory_that_is_not_registered_is_offline(
    directories: list[str] | None, offline: list[tuple[int, str]]
) -> None:
    brokers = state(RACKS)
    for number, disks in ((1, ["a"]), (2, ["b"]), (3, [])):
        value = {"rack": None, "fenced": False, "inControlledShutdown": False, "logDirs": disks}
        brokers.set("brokers", (number,), value)
    beside = partition([1, 2, 3], directories=["a", "b", "elsewhere"])
    found = health(
        brokers,
        beside,
        partition([1, 2, 3][: len(directories or "ab")], directories=directories),
        partition([]),
    )
    assert [one.offline for one in found.on_offline] == ([tuple(offline)] if offline else [])


@pytest.mark.parametrize(
    ("had", "has", "lost", "emptied"),
    [
        (["a", "b"], ["c"], EARLIER, (1,)),
        (["a", "b"], ["c"], Since(9, 900), ()),  # it led with the new disks
        (["a", "b"], ["b", "c"], EARLIER, ()),
        ([], ["c"], EARLIER, ()),  # before metadata.version 17 no directory is registered
        (["a"], [], EARLIER, ()),
    ],
)
def test_who_came_back_with_other_disks_is_empty(
    had: list[str], has: list[str], lost: Since, emptied: tuple[int, ...]
) -> None:
    past = Past(leaderless={KEY: lost})
    before, after = ({"fenced": False, "logDirs": one} for one in (had, has))
    past.take([Change("brokers", (1,), before, after)], 9, 900)
    (one,) = health(state(RACKS), partition([1, 2], leader=-1), past=past).leaderless
    assert one.emptied == emptied


def test_who_is_not_led_is_not_led_elsewhere() -> None:
    assert health(state(RACKS), partition([1, 2], leader=-1)).preferred_elsewhere[1] == 0


@pytest.mark.parametrize(
    ("configs", "isr", "under"),
    [
        ({}, [1], None),  # Kafka's own least is 1
        ({}, [], 1),
        ({"": "2"}, [1], 2),
        ({"": "2"}, [1, 2], None),
        ({"": "2", "t": "1"}, [1], None),  # the topic's own counts
        ({"": "2", "u": "1"}, [1], 2),
        ({"t": "3"}, [1, 2], None),  # there are but two replicas
        ({"t": "many"}, [1], None),
        ({"": "2", "1": "1"}, [1], None),  # that of the broker that leads, as Kafka 3.9.1 counts
        ({"1": "2"}, [1], 2),
        ({"2": "2"}, [1], None),
        ({"1": "2", "t": "1"}, [1], None),
    ],
)
def test_min_isr(configs: dict[str, str], isr: list[int], under: int | None) -> None:
    found = health(state(RACKS, configs), partition([1, 2], isr=isr))
    assert [one.min_isr for one in found.under_min_isr] == ([] if under is None else [under])


def test_a_topic_of_no_name_is_called_by_its_id() -> None:
    found = health_of(
        state(RACKS), versions({("X", 3): partition([9])}), Past(), 1, False, "why", ()
    )
    assert [one.name for one in found.on_unregistered] == ["X-3"]
    assert (found.single, found.is_committed, found.doubt) == (("X-3",), False, "why")


def test_topics_of_one_name_are_told_in_the_order_of_their_ids() -> None:
    """However the state was come by: from files, or from the tables of a lake that has grown."""
    twice, value = state(RACKS), partition([1, 2], leader=-1)
    twice.set("topics", ("S",), {"name": "t", "topicId": "S"})
    for keys in ([("T", 0), ("S", 0)], [("S", 0), ("T", 0)]):
        told = health_of(twice, versions(dict.fromkeys(keys, value)), Past(), 9, True, None, ())
        assert [one.topic_id for one in told.leaderless] == ["S", "T"]


@pytest.mark.parametrize(
    ("racks", "replicas", "named"),
    [
        ({1: "a", 2: "a", 3: "b"}, [1, 2], True),
        ({1: "a", 2: "a", 3: "b"}, [1, 3], False),
        ({1: "a", 2: "a", 3: None}, [1, 2], False),  # there is but one rack
        ({1: "a", 2: "b", 3: "b"}, [1], False),  # one replica is another matter
        ({1: "a", 2: None, 3: "b"}, [1, 2], False),
        ({1: "a", 2: "b", 3: None, 4: None}, [3, 4], False),  # where they are is not known
        ({1: "a", 2: "b"}, [3, 4], False),
    ],
)
def test_one_rack(racks: dict[int, str | None], replicas: list[int], named: bool) -> None:
    assert health(state(racks), partition(replicas)).one_rack == (("t-0",) if named else ())


def test_who_is_alive_and_who_stopped_on_purpose() -> None:
    found = state(RACKS)
    found.set("brokers", (5,), {"rack": None, "fenced": False, "inControlledShutdown": False})
    for broker, fenced, stopping in ((1, True, True), (2, True, False), (3, False, True)):
        value = {"rack": None, "fenced": fenced, "inControlledShutdown": stopping}
        found.set("brokers", (broker,), value)
    told = health(found)
    assert [told.alive(one) for one in (1, 2, 3, 4, 5)] == [False, False, False, False, True]
    assert [told.stopped(one) for one in (1, 2, 3, 4, 5)] == [True, False, True, True, False]


def changed(table: str, key: Key, before: Data | None, after: Data | None) -> Change:
    return Change(table, key, before, after)


def test_since_when_a_broker_is_fenced_or_gone() -> None:
    past = Past()
    fenced, awake = {"fenced": True}, {"fenced": False}
    past.take([changed("brokers", (1,), awake, fenced)], 4, 400)
    past.take([changed("brokers", (1,), fenced, fenced)], 9, 900)  # it stays so
    assert past.fenced == {1: EARLIER}
    past.take([changed("brokers", (1,), fenced, None)], 9, 900)
    assert (past.fenced, past.unregistered) == ({}, {1: NOW})
    past.take([changed("brokers", (1,), None, fenced)], 11, 1100)
    assert (past.fenced, past.unregistered) == ({1: Since(11, 1100)}, {})
    past.take([changed("brokers", (1,), fenced, awake)], 12, 1200)
    assert past.fenced == {}


def test_which_topics_are_gone() -> None:
    past, topic = Past(), {"name": "t", "topicId": "T"}
    past.take([changed("topics", ("T",), None, topic)], 3, 300)
    assert past.topics == {}
    past.take([changed("topics", ("T",), topic, None)], 4, 400)
    assert past.topics == {"T": ("t", EARLIER)}


@pytest.mark.parametrize("last", ["end", "abort", None])
def test_what_a_transaction_hides_is_no_fact(last: str | None, tmp_path: Path) -> None:
    """Records of one that is aborted, or still open, tell neither of a crowd nor of leaders."""
    topics = [topic(f"t{number}", number) for number in range(11, 16)]
    gone = [remove_topic(number) for number in range(11, 16)]
    unclean = change(isr=[2], leader=2, leaderRecoveryState=1)
    hidden = [TRANSACTION["begin"], *gone, unclean, change(leader=-1)]
    after = [] if last is None else [TRANSACTION[last], NO_OP, change(leader=-1)]
    everywhere(quorum(tmp_path), *RUNNING, *topics, *hidden, *after)
    told = {row.check: row.row for row in audit(tmp_path).findings}
    is_seen, first = last == "end", 12 + len(RUNNING) + len(topics) + 1
    assert ("mass_deletion" in told, "elections_clean" in told) == (is_seen, is_seen)
    assert ("partitions_have_leaders" in told) == (last is not None)
    if is_seen:
        assert f"between offsets {first} and {first + 4}:" in told["mass_deletion"].message
        assert f" offset {first + 6}." in told["partitions_have_leaders"].message
    elif last is not None:
        assert f" offset {first + 9}." in told["partitions_have_leaders"].message


def test_of_an_election_whose_time_no_calendar_holds_no_time_is_told(tmp_path: Path) -> None:
    unclean = change(isr=[2], leader=2, leaderRecoveryState=1)
    everywhere(quorum(tmp_path), *RUNNING, unclean, ms=1 << 60)
    (one,) = [row for row in audit(tmp_path).findings if row.check == "elections_clean"]
    assert "Broker 2 was elected (still marked as recovering): a-0." in one.row.message


def test_what_is_stopped_is_counted() -> None:
    assert _stopped([7]) == "Broker 7 was stopped or unregistered"
    assert _stopped([7, 8]) == "Brokers 7 and 8 were stopped or unregistered"


def test_no_number_is_too_large_for_a_config() -> None:
    text = str(1 << 70)
    (found,) = health(state(RACKS, {"t": text}), partition([1, 2], isr=[1])).under_min_isr
    assert found.min_isr == 1 << 70
    assert health(state(RACKS, {"t": text}), partition([1, 2])).under_min_isr == ()


def test_an_unclean_election_counts_also_where_an_older_one_has_left_its_mark(
    tmp_path: Path,
) -> None:
    """The mark of a partition with one replica in sync stays: who is in the ISR or the ELR is elected
    cleanly all the same, and so is whom a reassignment makes the leader.
    """
    gone, dirty = change(isr=[], leader=-1), change(isr=[2], leader=2)
    first = change(isr=[2], leader=2, leaderRecoveryState=1)
    with_elr: dict[str, Any] = {"version": 2, "lastKnownElr": None, "directories": None}
    clean = [
        change(leader=-1), change(leader=2),
        change(isr=[], leader=-1, eligibleLeaderReplicas=[2], **with_elr),
        change(isr=[2], leader=2, eligibleLeaderReplicas=[], **with_elr),
        change(replicas=[1], isr=[1], leader=1),
        change(replicas=[1, 2], isr=[2], leader=2),
    ]  # fmt: skip
    everywhere(quorum(tmp_path), *RUNNING, gone, first, *clean, gone, dirty, gone, dirty)
    (one,) = [row for row in audit(tmp_path).findings if row.check == "elections_clean"]
    assert "(3 times in the records at hand, still marked as recovering): a-0." in one.row.message
    last = 12 + len(RUNNING) + 2 + len(clean) + 3
    assert [each["offset"] for each in one.row.evidence["elections"]] == [last]


@pytest.mark.parametrize(("leader", "who"), [(1, "broker 1"), (-1, "nobody")])
def test_who_leads_what_was_elected_uncleanly_before_the_records(leader: int, who: str) -> None:
    (one,) = health(state(RACKS), partition([1], leader=leader, leaderRecoveryState=1)).unclean
    assert f"before the records at hand, led by {who} now" in _how_unclean(one)
