"""KIP-392: the four cases of an offset, what a consumer does, the selectors, and what a cluster's
racks read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.errors import UsageError
from kraftlog.pipeline.histories import write_history
from kraftlog.pipeline.plans import replica_selection
from kraftlog.pipeline.run import Run
from kraftlog.quorum.epochs import EpochEnd
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.out_of_range import (
    Case,
    Consumer,
    Decision,
    Offsets,
    Policy,
    case_of,
    fetch_error,
    next_step,
    reset,
)
from kraftlog.simulate.replica_selection import (
    Broker,
    Cluster,
    DataPartition,
    Partitions,
    rack_rows,
    reads_of,
    select_all,
    topic_rows,
)
from kraftlog.simulate.selectors import (
    ClientMetadata,
    LeaderSelector,
    Node,
    PartitionView,
    RackAwareReplicaSelector,
    ReplicaSelector,
    ReplicaView,
    SeedRackAwareSelector,
    TopicPartition,
    load_selector,
)
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import state_tables
from tests.golden.cases import DATA

Row = dict[str, Any]
AT = TopicPartition("t", 0)

IN_SYNC = Offsets(log_start=10, log_end=100, leader_high_watermark=90)
BEHIND = Offsets(log_start=10, log_end=100, leader_high_watermark=130)


# --- The four cases -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replica", "offset", "case"),
    [
        (IN_SYNC, 9, Case.TOO_SMALL),
        (IN_SYNC, 10, Case.COMMITTED),
        (IN_SYNC, 89, Case.COMMITTED),
        (IN_SYNC, 90, Case.UNCOMMITTED),
        (IN_SYNC, 99, Case.UNCOMMITTED),
        (IN_SYNC, 100, Case.AT_END),
        (IN_SYNC, 101, Case.TOO_LARGE),
        (BEHIND, 9, Case.TOO_SMALL),
        (BEHIND, 99, Case.COMMITTED),
        (BEHIND, 100, Case.UNAVAILABLE),
        (BEHIND, 129, Case.UNAVAILABLE),
        (BEHIND, 130, Case.TOO_LARGE),
        (Offsets(0, 0, 0), 0, Case.AT_END),
        (Offsets(0, 0, 5), 0, Case.UNAVAILABLE),
    ],
)
def test_the_cases_and_their_borders(replica: Offsets, offset: int, case: Case) -> None:
    """KIP-392."""
    assert case_of(replica, offset) == case


@pytest.mark.parametrize(
    ("replica", "offset", "kip", "shipped"),
    [
        (IN_SYNC, 50, None, None),
        (IN_SYNC, 95, "OFFSET_NOT_AVAILABLE", None),
        (IN_SYNC, 100, None, None),
        (BEHIND, 100, "OFFSET_NOT_AVAILABLE", None),
        (BEHIND, 101, "OFFSET_NOT_AVAILABLE", "OFFSET_OUT_OF_RANGE"),
        (BEHIND, 9, "OFFSET_OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE"),
        (BEHIND, 130, "OFFSET_OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE"),
    ],
)
def test_errors(replica: Offsets, offset: int, kip: str | None, shipped: str | None) -> None:
    assert fetch_error(replica, offset, Dialect.ADOPTED) == kip
    assert fetch_error(replica, offset) == shipped


def test_reset_policies() -> None:
    """KIP-392: earliest is that replica's log start, latest the leader's end, none is told."""
    assert reset(Policy.EARLIEST, 10, 500) == (Decision.RESET_POLICY, 10)
    assert reset(Policy.LATEST, 10, 500) == (Decision.RESET_POLICY, 500)
    assert reset(Policy.NONE, 10, 500) == (Decision.TELL, None)


def step(
    offset: int, policy: str, epoch: int | None = 3, end: tuple[int, int] | None = None
) -> tuple[Decision, int | None]:
    consumer = Consumer(offset, epoch, Policy(policy))
    return next_step(consumer, BEHIND, 500, EpochEnd(*end) if end else None)


def test_what_a_consumer_does() -> None:
    """KIP-392: too small goes by the policy at once, too large is first checked with the leader."""
    assert step(50, "none") == (Decision.CONTINUE, 50)
    assert step(110, "none") == (Decision.RETRY, 110)
    # Case 3, with an epoch that would tell of a truncation: it is not asked for.
    assert step(9, "earliest", end=(2, 5)) == (Decision.RESET_POLICY, 10)
    assert step(9, "latest") == (Decision.RESET_POLICY, 500)
    assert step(9, "none") == (Decision.TELL, None)
    # Case 4: still valid, truncated (the same epoch ends before it; an older epoch), not known.
    assert step(200, "none", end=(3, 250)) == (Decision.CONTINUE, 200)
    assert step(200, "earliest", end=(3, 150)) == (Decision.RESET_TO_DIVERGENCE, 150)
    assert step(200, "earliest", end=(2, 120)) == (Decision.RESET_TO_DIVERGENCE, 120)
    assert step(200, "none", end=(3, 150)) == (Decision.RAISE_TRUNCATION, 150)
    assert step(200, "earliest") == (Decision.RESET_POLICY, 10)
    assert step(200, "latest", epoch=None, end=(3, 250)) == (Decision.RESET_POLICY, 500)
    assert step(200, "none", epoch=None) == (Decision.TELL, None)


# --- Selectors ----------------------------------------------------------------------------------


def view(broker: int, rack: str | None, end: int = 100, behind_ms: int = 0) -> ReplicaView:
    return ReplicaView(Node(broker, rack), end, behind_ms)


def chosen(selector: Any, rack: str, *replicas: ReplicaView, leader: int = 1) -> int | None:
    found = next((one for one in replicas if one.endpoint.id == leader), None)
    picked = selector.select(AT, ClientMetadata(rack), PartitionView(replicas, found))
    return None if picked is None else picked.endpoint.id


def test_the_leader_selector() -> None:
    """KIP-392."""
    assert chosen(LeaderSelector(), "b", view(1, "a"), view(2, "b")) == 1
    assert chosen(LeaderSelector(), "b", view(2, "b")) is None


@pytest.mark.parametrize("selector", [SeedRackAwareSelector(), RackAwareReplicaSelector()])
def test_rack_aware(selector: Any) -> None:
    """KIP-392: an exact match, the most caught-up, else the leader."""
    assert chosen(selector, "b", view(1, "a"), view(2, "b")) == 2
    assert chosen(selector, "B", view(1, "a"), view(2, "b")) == 1
    assert chosen(selector, "", view(1, "a"), view(2, None)) == 1
    assert chosen(selector, "b", view(1, "a"), view(2, "b", 99), view(3, "b", 100)) == 3
    assert chosen(selector, "b", view(1, "a"), view(3, "b", 100, 9), view(2, "b", 100, 8)) == 2
    assert chosen(selector, "b", view(1, "a"), view(2, "b"), view(3, "b")) == 3
    assert chosen(selector, "c", view(2, "b")) is None


def test_the_shipped_one_prefers_a_near_leader() -> None:
    near = view(1, "b", 100), view(2, "b", 100), view(3, "a", 100)
    assert chosen(RackAwareReplicaSelector(), "b", *near) == 1
    assert chosen(SeedRackAwareSelector(), "b", *near) == 2


def test_selectors_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(load_selector("rack-aware"), RackAwareReplicaSelector)
    module = ModuleType("a_selector_of_mine")
    module.Mine = LeaderSelector  # type: ignore[attr-defined]
    module.Odd = dict  # type: ignore[attr-defined]
    module.Leaves = sys.exit  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert isinstance(load_selector("a_selector_of_mine:Mine"), LeaderSelector)
    for wrong, words in (
        ("nearest", "say leader, rack-aware"),
        ("a_selector_of_mine:Odd", "no method select"),
        ("a_selector_of_mine:No", "cannot be made"),
        ("a_selector_of_mine:Leaves", r"cannot be made: SystemExit\(\)"),
        ("no_such_module:X", "cannot be made"),
    ):
        with pytest.raises(UsageError, match=words):
            load_selector(wrong)


# --- Over a cluster -----------------------------------------------------------------------------

BROKERS = {
    one.id: one
    for one in (
        Broker(1, "a", False),
        Broker(2, "b", False),
        Broker(3, "c", False),
        Broker(4, "b", True),
        Broker(5, None, False),
    )
}


def cluster(*partitions: tuple[str, list[int], list[int], int]) -> Cluster:
    found = [
        DataPartition(name, n, reps, isr, led)
        for n, (name, reps, isr, led) in enumerate(partitions)
    ]
    return Cluster(BROKERS, Partitions.of(found))


RACK_AWARE = RackAwareReplicaSelector()


def of_topic(quorum: Cluster, selector: ReplicaSelector, rack: str) -> Row:
    """What the consumers of a rack read of the only topic."""
    rows = topic_rows(select_all(quorum, selector)).to_pylist()
    (found,) = [one for one in rows if one["client_rack"] == rack]
    return found


def test_counts_per_rack_and_topic() -> None:
    quorum = cluster(
        ("t", [1, 2], [1, 2], 1),
        ("t", [1, 2], [1], 1),  # 2 is not in the ISR
        ("t", [1, 4], [1, 4], 1),  # 4 is fenced
        ("u", [2, 3], [], -1),  # nobody leads
        ("u", [5, 3], [5, 3], 5),
    )
    assert quorum.racks == ["a", "b", "c"]
    assert quorum.without_rack == [5]
    found = {
        (row["client_rack"], row["topic"]): row
        for row in topic_rows(select_all(quorum, RackAwareReplicaSelector())).to_pylist()
    }
    assert len(found) == 6
    far = ("cross_zone_share_before", "cross_zone_share_after")
    near = ("closest_replicas", "preferred_read_replicas")
    told = {key: [row.pop(name) for name in (*far, *near)] for key, row in found.items()}
    assert told["a", "t"] == [0, 0, [(0, 1), (1, 1), (2, 1)], [(0, -1), (1, -1), (2, -1)]]
    assert told["b", "t"] == [1, 0.6667, [(0, 2), (1, None), (2, None)], [(0, 2), (1, -1), (2, -1)]]
    assert told["b", "u"] == [1, 1, [(3, None), (4, None)], [(3, None), (4, -1)]]
    assert found["a", "t"] == {
        "client_rack": "a",
        "topic": "t",
        "partition_count": 3,
        "offline_count": 0,
        "leader_local_count": 3,
        "local_count": 3,
        "preferred_read_replica_count": 0,
        "partitions_by_broker": [(1, 3)],
    }
    assert found["b", "t"]["partitions_by_broker"] == [(1, 2), (2, 1)]
    assert found["b", "t"]["leader_local_count"] == 0
    assert found["b", "t"]["local_count"] == found["b", "t"]["preferred_read_replica_count"] == 1
    assert found["c", "u"]["partitions_by_broker"] == [(3, 1)]
    assert found["c", "u"]["offline_count"] == 1


BROKER_IDS = st.lists(st.integers(-2, 5), max_size=4).map(tuple)
LYING = st.tuples(BROKER_IDS, BROKER_IDS, st.integers(-2, 5))
BROKER = st.builds(Broker, st.integers(-1, 5), st.sampled_from(["a", "b", "", None]), st.booleans())


@given(
    st.lists(BROKER, max_size=6),
    st.lists(st.tuples(st.sampled_from("tuv"), st.integers(0, 9), LYING), max_size=12),
    st.sampled_from([LeaderSelector, RackAwareReplicaSelector, SeedRackAwareSelector]),
)
def test_a_selector_of_ours_says_of_columns_what_it_says_when_it_is_asked(
    brokers: list[Broker],
    found: list[tuple[str, int, tuple[tuple[int, ...], tuple[int, ...], int]]],
    built_in: type[ReplicaSelector],
) -> None:
    partitions = Partitions.of(DataPartition(topic, at, *lying) for topic, at, lying in found)
    quorum = Cluster({one.id: one for one in brokers}, partitions)
    of_ones_own = type("OfOnesOwn", (built_in,), {})
    assert reads_of(quorum, built_in()).tolist() == reads_of(quorum, of_ones_own()).tolist()


def test_as_drafted_a_replica_outside_the_isr_may_be_read() -> None:
    quorum = cluster(("t", [1, 2], [1], 1))
    assert of_topic(quorum, SeedRackAwareSelector(), "b")["local_count"] == 1
    assert of_topic(quorum, RackAwareReplicaSelector(), "b")["local_count"] == 0


def test_totals() -> None:
    found = select_all(cluster(("t", [1, 2], [1, 2], 1)), RackAwareReplicaSelector())
    rows = list(rack_rows(found))
    assert [row["client_rack"] for row in rows] == ["a", "b", "c", "*"]
    assert (rows[-1]["leader_local_share"], rows[-1]["local_share"]) == (0.3333, 0.6667)


@pytest.mark.parametrize("bare", ["partitions", "racks"])
def test_where_nothing_is_to_be_chosen(bare: str) -> None:
    brokers = {1: Broker(1, None, False)} if bare == "racks" else BROKERS
    partitions = [] if bare == "partitions" else [DataPartition("t", 0, [1], [1], 1)]
    found = select_all(Cluster(brokers, Partitions.of(partitions)), RACK_AWARE)
    assert list(rack_rows(found)) == topic_rows(found).to_pylist() == []


def test_topics_and_partitions_are_told_in_order() -> None:
    lying = [("u", 1), ("t", 2), ("u", 0), ("t", 10)]
    partitions = [DataPartition(name, at, [1, 2], [1, 2], 1 + at % 2) for name, at in lying]
    rows = topic_rows(
        select_all(Cluster(BROKERS, Partitions.of(partitions)), RACK_AWARE)
    ).to_pylist()
    told = [(one["client_rack"], one["topic"], one["preferred_read_replicas"]) for one in rows]
    assert told == [
        ("a", "t", [(2, -1), (10, -1)]), ("a", "u", [(0, -1), (1, 1)]),
        ("b", "t", [(2, 2), (10, 2)]), ("b", "u", [(0, 2), (1, -1)]),
        ("c", "t", [(2, -1), (10, -1)]), ("c", "u", [(0, -1), (1, -1)]),
    ]  # fmt: skip


def test_a_selector_of_ones_own_may_fail() -> None:
    class Broken:
        def select(self, *_: object) -> ReplicaView | None:
            raise ValueError("no")

    class Leaves:
        def select(self, *_: object) -> ReplicaView | None:
            raise SystemExit(3)

    class Stranger:
        def select(self, *_: object) -> ReplicaView | None:
            return view(9, "z")

    class Nobody:
        def select(self, *_: object) -> ReplicaView | None:
            return None

    quorum = cluster(("t", [1, 2], [1, 2], 1))
    with pytest.raises(UsageError, match=r"failed at t-0: ValueError"):
        select_all(quorum, Broken())
    with pytest.raises(UsageError, match=r"failed at t-0: SystemExit\(3\)"):
        select_all(quorum, Leaves())
    with pytest.raises(UsageError, match="not a replica of the partition"):
        select_all(quorum, Stranger())
    assert of_topic(quorum, Nobody(), "b")["partitions_by_broker"] == [(1, 1)]


def test_a_selector_of_ones_own_is_asked_for_every_partition() -> None:
    """It may look at more than how a partition lies; a built-in one does not."""

    class ByNumber:
        def select(self, at: TopicPartition, _: object, view: PartitionView) -> ReplicaView:
            return view.replicas[at.partition % 2]

    class Asked(RackAwareReplicaSelector):
        pass

    brokers = {1: Broker(1, "a", False), 2: Broker(2, "b", False)}
    lying = [([1, 2], 1), ([1, 2], 2), ([1, 2], 1), ([1, 2], 9), ([2, 1], 1), ([1, 2], 1)]
    partitions = [
        DataPartition("t", at, held, held, leader) for at, (held, leader) in enumerate(lying)
    ]
    quorum = Cluster(brokers, Partitions.of(partitions))
    assert of_topic(quorum, ByNumber(), "a")["partitions_by_broker"] == [(1, 2), (2, 3)]
    (one, other) = (topic_rows(select_all(quorum, each)) for each in (RACK_AWARE, Asked()))
    assert one.equals(other)
    assert one.num_rows == 2


# --- The command --------------------------------------------------------------------------------


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[Row]:
    assert main(["plan", *map(str, arguments), "--format", "json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_real_cluster_with_three_racks(capsys: pytest.CaptureFixture[str]) -> None:
    given = DATA / "steady-live" / "replicas"
    rows = {row["client_rack"]: row for row in printed(capsys, "replicas", "--input", given)}
    assert list(rows) == ["rack-a", "rack-b", "rack-c", "*"]
    for rack in ("rack-a", "rack-b", "rack-c"):
        row = rows[rack]
        assert row["local_count"] == row["leader_local_count"] + row["preferred_read_replica_count"]
        online = row["partition_count"] - row["offline_count"]
        assert sum(row["partitions_by_broker"].values()) == online
    assert rows["*"]["local_count"] > rows["*"]["leader_local_count"]
    without = printed(capsys, "replicas", "--input", given, "--selector", "leader")
    assert all(row["local_count"] == row["leader_local_count"] for row in without)
    assert printed(capsys, "replicas", "--input", given, "--at", "1") == []


def test_the_metadata_replicas_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    """KIP-392, golden isolated: controller 2 and broker 12 went their own way at 176; of them what
    is committed and beyond their ends is not there.
    """
    given = DATA / "isolated" / "replicas"

    def cases(offset: int) -> dict[str, str]:
        rows = printed(capsys, "replicas", "--input", given, "--serves", str(offset))
        return {row["replica"]: row["case"] for row in rows}

    assert set(cases(175).values()) == {"committed"}
    at_180 = cases(180)
    assert at_180 == {
        **dict.fromkeys(["1", "11", "3"], "committed"),
        **dict.fromkeys(["12", "2"], "case_1_uncommitted"),
    }
    assert set(cases(10_000).values()) == {"case_4_too_large"}
    rows = printed(capsys, "replicas", "--input", given, "--serves", "180")
    told = {(row["case"], row["error"], row["shipped_error"]) for row in rows}
    assert told == {
        ("committed", None, None),
        ("case_1_uncommitted", "OFFSET_NOT_AVAILABLE", None),
    }


# --- From the lake ------------------------------------------------------------------------------


def test_the_lakes_current_objects_are_what_counts(tmp_path: Path) -> None:
    """Versions that no longer hold, and those of another lineage, are left out."""
    lake = Lake(str(tmp_path))
    holds = {
        "lineage": "main",
        "is_current": True,
        "valid_from_offset": 1,
        "valid_to_offset": None,
    }
    ended = holds | {"is_current": False, "valid_to_offset": 9}
    other = holds | {"lineage": "2"}
    partition = {"partition_id": 0, "topic_id": "T", "partition_replicas": [1, 2], "isr": [1, 2]}
    given: dict[str, list[Row]] = {
        "topics": [holds | {"name": "t", "topic_id": "T"}, ended | {"name": "u", "topic_id": "T"}],
        "brokers": [
            holds | {"broker_id": 1, "rack": "a", "fenced": False},
            holds | {"broker_id": 2, "rack": "b", "fenced": False},
            ended | {"broker_id": 2, "rack": "z", "fenced": False},
        ],
        "partitions": [
            holds | partition | {"leader": 1},
            ended | partition | {"leader": 2},
            other | partition | {"leader": 2},
        ],
    }
    for name, rows in given.items():
        spec = state_tables()[name]
        written = [
            write_history(lake, name, row["lineage"], pa.Table.from_pylist([row], spec.schema))
            for row in rows
        ]
        lake.commit(spec, [added for files in written for _, added in files], 1)
    found = replica_selection.rows(Run(load_options(), lake, pytest.fail))
    assert isinstance(found, pa.Table)
    assert [
        (row["client_rack"], row["topic"], row["leader_local_count"], row["local_count"])
        for row in found.to_pylist()
    ] == [("a", "t", 1, 1), ("b", "t", 0, 1)]
    columns = [one for one in replica_selection.spec.schema if one.name != "run_id"]
    assert found.cast(pa.schema(columns)).num_rows == 2
