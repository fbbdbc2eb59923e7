"""`plan restart`: which nodes may start, what they lose, and whose copies would tell."""

import json
import shutil
from pathlib import Path

import pytest

from kraftlog.audit.collect import Collector
from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.evidence import QuorumEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.restart import Restart, Safety, restarts
from tests.golden.cases import DATA
from tests.unit.audit_logs import LIMITS, NO_OP, Batch, leader_change, overwrite, quorum
from tests.unit.faults.ends import cut
from tests.unit.faults.table import AT, LATER


def answers(root: Path) -> dict[str, Restart]:
    collector = Collector(LIMITS, Redactor(b"k" * 32))
    replicas = tuple(collector.replica(one) for one in find_replicas([str(root)]))
    found = restarts(Quorum(QuorumEvidence(replicas, tuple(collector.contents))))
    return {one.replica: one for one in found}


def test_a_healthy_quorum_restarts_followers_first(tmp_path: Path) -> None:
    quorum(tmp_path)
    found = answers(tmp_path)
    assert {one.safety for one in found.values()} == {Safety.SAFE}
    assert [(label, one.order) for label, one in found.items()] == [("1", 1), ("3", 2), ("2", 3)]


def test_a_voter_that_lost_the_end_of_its_log_stays_down(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    cut(nodes[2], AT[8])
    found = answers(tmp_path)
    assert found["3"].safety == Safety.UNSAFE
    assert found["3"].order is None
    assert "lost its log from offset 8 on" in found["3"].reason
    assert {found[one].safety for one in "12"} == {Safety.SAFE}


@pytest.mark.parametrize("state", [None, {"leaderId": 2, "leaderEpoch": 1}])
def test_a_voter_that_forgot_its_vote_stays_down(tmp_path: Path, state: dict[str, int]) -> None:
    nodes = quorum(tmp_path)
    (nodes[0].folder / "quorum-state").unlink()
    if state is not None:
        nodes[0].quorum_state(**state)
    found = answers(tmp_path)["1"]
    assert (found.safety, "vote twice" in found.reason) == (Safety.UNSAFE, True)


def test_a_tail_is_lost_where_it_is_proven_uncommitted(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER))
    nodes[0].append(leader_change(12, 3, 1, LATER))
    nodes[1].append(leader_change(12, 3, 1, LATER))
    for node in nodes[:2]:
        node.quorum_state(leaderId=1, leaderEpoch=3)
        node.epochs([(1, 0), (2, 8), (3, 12)])
    found = answers(tmp_path)
    assert (found["3"].safety, found["3"].lost_from) == (Safety.LOSES, 12)
    assert [one for one in found if found[one].order is not None] == ["2", "3", "1"]


def test_too_few_copies_leave_it_unknown(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[1:]:
        shutil.rmtree(node.home)
    found = answers(tmp_path)["1"]
    assert (found.safety, found.needs) == (Safety.UNKNOWN, (2, 3))


def test_a_start_that_cuts_committed_records_is_unsafe_for_a_voter(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    overwrite(nodes[0].segment(6), AT[9] + 70, b"\x55")
    found = answers(tmp_path)["1"]
    assert (found.safety, found.lost_from) == (Safety.UNSAFE, 9)


def test_the_command_names_what_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    replicas = str(DATA / "isolated" / "replicas")
    assert main(["plan", "restart", "--input", replicas, "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    by_node = {row["node_id"]: row for row in rows}
    assert [row["verdict"] for row in rows] == ["safe", "loses", "safe", "safe", "loses"]
    lost = {(one["table"], one["change"], str(one["key"])) for one in by_node[2]["lost"]}
    topics = [one["after"]["name"] for one in by_node[2]["lost"] if one["table"] == "topics"
              and one["change"] == "added"]  # fmt: skip
    assert "ghost-topic-a" in topics
    assert ("features", "removed", "['eligible.leader.replicas.version']") in lost
    assert by_node[1]["lost"] == []
