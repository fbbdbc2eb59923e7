"""The examples of KAFKA-1211 on disk: what `plan truncation` and `plan failover` say of them, by
hand and as a model plays them record by record. KRaft's LeaderChange stands in front of each epoch,
so that every offset of the ticket is one further for each epoch.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import reduce
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.log.segment import Limits
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.failover_rows import TruncationRule, failover, failover_rows, remedy_cost
from kraftlog.simulate.lost import counted_in_files
from kraftlog.simulate.plan_rows import Plans, fetch_rows, truncation_rows
from kraftlog.source.collected import collected
from tests.failover_model import Cluster
from tests.failover_model import Node as Model
from tests.unit.audit_logs import (
    START_MS,
    Batch,
    Node,
    copied_at,
    copied_live,
    leader_change,
    producer_ids,
)
from tests.unit.audit_logs import quorum as healthy


def led_by(one: Cluster, name: str) -> Cluster:
    """Elected, with its LeaderChange on every replica that lives."""
    return fetched(one.elect(name).produce(f"leader {name}"))


def fetched(one: Cluster) -> Cluster:
    """After one fetch of each living follower."""
    alive = [name for name, node in one.nodes.items() if node.is_alive and name != one.leader]
    return reduce(lambda led, name: led.follow(name).fetch(name), alive, one)


def three() -> Cluster:
    return led_by(Cluster(TruncationRule.LEADER_EPOCH, {name: Model() for name in "123"}), "1")


def written(root: Path, one: Cluster) -> Quorum:
    """The model's logs as three voters' folders, and as kraftlog reads them."""
    for name, model in one.nodes.items():
        node, leader = Node(root, int(name)), 0
        batches: list[Batch] = []
        entries: list[tuple[int, int]] = []
        for offset, (epoch, told) in enumerate(model.log):
            ms = START_MS + offset
            if told.startswith("leader"):
                leader = int(told.removeprefix("leader"))
                batches.append(leader_change(offset, epoch, leader, ms))
                entries.append((epoch, offset))
            else:
                value = producer_ids(int(told.removeprefix("m")) * 1000)
                batches.append(Batch(offset, epoch, (value,), ms=ms))
        node.segment(0).write_bytes(b"".join(batch.raw() for batch in batches))
        node.epochs(entries)
        node.quorum_state(leaderId=leader, leaderEpoch=entries[-1][0])
        node.meta()
    return collected([str(root)], load_options())


def vectors(quorum: Quorum) -> dict[str, list[tuple[int, int]]]:
    """Of each replica its epochs and where they begin."""
    extents = {log.label: Plans(quorum).extent(log) for log in quorum.logs}
    return {label: list(one.vector.entries) for label, one in extents.items()}


def first_example() -> Cluster:
    """1 has m1 and m2, of which m2 is not committed, and dies; 2 leads and writes m3 and m4."""
    begun = fetched(fetched(three().produce("m1"))).produce("m2")
    return fetched(led_by(begun.fail("1"), "2").produce("m3", "m4"))


def test_the_first_example_cuts_what_was_not_committed(tmp_path: Path) -> None:
    quorum = written(tmp_path, first_example())
    assert vectors(quorum) == {"1": [(1, 0)], "2": [(1, 0), (2, 2)], "3": [(1, 0), (2, 2)]}
    rows = {
        (row["follower"], row["leader"]): row
        for row in truncation_rows(quorum, counted_in_files(Limits()))
    }
    cut = rows["1", "2"]
    assert (cut["truncation_offset"], cut["records_lost"], cut["committed_lost"]) == (2, 1, 0)
    assert cut["types_lost"] == {"PRODUCER_IDS_RECORD": 1}
    assert len(first_example().restart("1").nodes["1"].log) == 2


def second_example() -> Cluster:
    """m1 and m2 are on both when 1 dies, though 2 has not heard that m2 is committed."""
    begun = fetched(fetched(three().produce("m1")).produce("m2"))
    return fetched(led_by(begun.fail("1"), "2").produce("m3", "m4"))


def test_the_second_example_keeps_what_was_committed(tmp_path: Path) -> None:
    quorum = written(tmp_path, second_example())
    assert vectors(quorum) == {"1": [(1, 0)], "2": [(1, 0), (2, 3)], "3": [(1, 0), (2, 3)]}
    rows = {
        (row["follower"], row["leader"]): row
        for row in truncation_rows(quorum, counted_in_files(Limits()))
    }
    cut = rows["1", "2"]
    assert (cut["truncation_offset"], cut["records_lost"], cut["committed_lost"]) == (3, 0, 0)
    (fetch,) = [row for row in fetch_rows(quorum) if (row["follower"], row["leader"]) == ("1", "2")]
    assert (fetch["fetch_offset"], fetch["answer"]) == (3, "records")


def double_failure(tmp_path: Path) -> dict[str, tuple[int, int, int]]:
    """m1 and m2 are on all three, and 2 and 3 have not heard that m2 is committed; 1 dies, 2 leads
    and 3 follows it, and 2 dies before 3 has fetched. Of each rule: what was acknowledged, where 3
    cuts its log, and how much is lost.
    """
    quorum = written(tmp_path, fetched(fetched(three().produce("m1")).produce("m2")))
    return {
        row["rule"]: (
            row["acknowledged_end_offset"],
            row["truncation_offset"],
            row["lost_if_leader_dies_too"],
        )
        for row in failover_rows(failover(quorum, "1"), 1)
        if (row["leader"], row["follower"]) == ("2", "3")
    }


def test_two_failures_lose_an_acknowledged_record_under_the_old_rule(tmp_path: Path) -> None:
    assert double_failure(tmp_path)["high_watermark"] == (3, 2, 1)


def test_two_failures_lose_nothing_by_epochs(tmp_path: Path) -> None:
    assert double_failure(tmp_path)["leader_epoch"] == (3, 3, 0)


def test_held_acknowledgements_lose_nothing_under_the_old_rule_either(tmp_path: Path) -> None:
    """The description's own remedy: m2 is cut, but nobody has been told that it is committed."""
    assert double_failure(tmp_path)["held_acknowledgements"] == (2, 2, 0)


@st.composite
def histories(draw: st.DrawFn) -> Cluster:
    """Leaders in turn; each writes records that all fetch one by one, and perhaps one more."""
    one, number = three(), 0
    for turn in range(draw(st.integers(1, 3))):
        if turn:
            names = [name for name in one.nodes if name != one.leader]
            one = led_by(one, draw(st.sampled_from(names)))
        for _ in range(draw(st.integers(2, 4))):
            number += 1
            one = fetched(one.produce(f"m{number}"))
        if draw(st.booleans()):
            number += 1
            one = one.produce(f"m{number}")
    return one


@settings(max_examples=25, deadline=None)
@given(histories())
def test_a_plan_loses_what_the_model_loses(one: Cluster) -> None:
    dies = one.leader
    assert dies is not None
    with tempfile.TemporaryDirectory() as folder:
        rows = list(failover_rows(failover(written(Path(folder), one), dies), 1))
    told = {(row["rule"], row["leader"], row["follower"]): row for row in rows}
    assert len(told) == len(rows) == 2 * len(TruncationRule)
    heard = one.nodes[dies].log[: min(node.high_watermark for node in one.nodes.values())]
    for rule in TruncationRule:
        known = heard if rule == TruncationRule.HELD_ACKNOWLEDGEMENTS else one.acknowledged
        for leader, follower in permutations(sorted({"1", "2", "3"} - {dies})):
            row = told[rule, leader, follower]
            led = replace(one, rule=rule, acknowledged=known).fail(dies).elect(leader)
            cut = led.follow(follower)
            assert row["acknowledged_end_offset"] == len(known)
            assert row["truncation_offset"] == len(cut.nodes[follower].log)
            assert row["lost_if_leader_dies_too"] == len(cut.fail(leader).elect(follower).lost)


def test_what_either_remedy_costs_a_day() -> None:
    """KAFKA-1211: 3 elections with 4 followers, against a million writes, at 2 ms a round trip."""
    cost = remedy_cost(3, 4, 1_000_000, 2.0)
    assert list(cost.values()) == [0.0, 2_000_000.0, 24.0]


def test_what_a_rule_costs_at_the_rates_of_the_log(tmp_path: Path) -> None:
    """An election after that of the first epoch, and ten batches, in nine seconds, 9,600 of which
    make a day; two followers.
    """
    healthy(tmp_path)
    found = collected([str(tmp_path)], load_options())
    costs = {
        row["rule"]: row["cost_ms_per_day"] for row in failover_rows(failover(found, "1"), 0.0003)
    }
    vector, held = 1 * 9600 * 2 * 0.0003, 10 * 9600 * 0.0003
    assert (vector, held) == (pytest.approx(5.76), pytest.approx(28.8))
    assert costs == {"high_watermark": 0.0, "leader_epoch": 5.8, "held_acknowledgements": 28.8}


@pytest.mark.parametrize("is_late", [False, True])
def test_what_the_pulled_leader_wrote_after_the_copies_is_not_at_risk(
    is_late: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copies to 12, 13 and 14, and a leader that has committed 14 since. Where their files were
    written to later than that, it counts.
    """
    for node in copied_live(tmp_path):
        if is_late:
            copied_at(node, START_MS + 60_000)
    assert main(["plan", "failover", "--input", str(tmp_path)]) == 0
    told = capsys.readouterr().err
    if is_late:
        assert "(below offset 15), 2 offsets are at risk" in told
        assert "written after" not in told
        return
    assert "All that the copies prove committed (below offset 13) is kept" in told
    assert "Offsets 13 to 14 are committed too, but written after the copies were made" in told
