"""Real cases of a quorum whose voters are records, staged with Kafka 4.4.0: a removed voter that
joins again, and a log that ends inside another copy's batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftlog.cli import main
from kraftlog.log.directory import find_replicas
from tests import kafka_judge, kafka_quorum
from tests.kafka_judge import NEWEST
from tests.kafka_quorum import Quorum
from tests.log_coverage import scan
from tests.real_cases import assert_told, warnings
from tests.unit.audit_logs import audit

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    folder = tmp_path_factory.mktemp("voters")
    settings = {"controller.quorum.auto.join.enable": "true"}
    with kafka_quorum.running(folder, NEWEST, settings=settings) as running:
        with kafka_quorum.writer(running) as writer:
            writer.write(60)
        yield running


def follower(quorum: Quorum) -> kafka_quorum.Node:
    leader = quorum.leader()
    return next(one for one in quorum.controllers if one is not leader)


def at_rest(quorum: Quorum, target: Path) -> Path:
    """Copies of all disks of a quorum whose running controllers hold the same: a leader that writes
    its two records a second while one disk is copied after the other proves less by them.
    """
    running = [str(one.id) for one in quorum.controllers if one.process is not None]
    copies = target / "0"

    def holds_the_same() -> bool:
        nonlocal copies
        copies = target / str(int(copies.name) + 1)
        quorum.capture(copies)
        replicas = find_replicas([str(copies / one) for one in running])
        return len({scan(one).log_end_offset for one in replicas}) == 1

    quorum.wait(holds_the_same, "one end of the logs")
    return copies


def test_a_removed_voter_joins_again(quorum: Quorum, tmp_path: Path) -> None:
    away = follower(quorum)
    with kafka_quorum.operator(quorum, to_brokers=False) as operator:
        operator.do("remove-voter", away.id, away.directory_id)
        quorum.wait(lambda: str(away.id) in operator.do("voters").split(), "the voter's return")
    result = audit(quorum.capture(tmp_path))
    assert_told("a removed voter joins again", result)
    assert warnings(result) == {"voters_removed_stay_away"}


def test_a_log_ends_inside_a_batch(quorum: Quorum, tmp_path: Path) -> None:
    """A node is given a snapshot of an offset inside a batch: it stops when it fetches on."""
    away, leader = follower(quorum), quorum.leader()
    quorum.kill(away.id)
    segments = [one for one in leader.log_folder.iterdir() if one.suffix == ".log"]
    wide = [row for row in kafka_judge.batches(segments) if row.get("record_count", 0) > 10]
    at = int(wide[0]["base_offset"]) + 7
    shutil.rmtree(away.log_folder)
    copy = quorum.capture(tmp_path / "leader", leader.id) / str(leader.id)
    assert main(["checkpoint", str(copy), "--at", str(at), "--out", str(tmp_path / "made")]) == 0
    shutil.copytree(tmp_path / "made", away.log_folder)
    copies = at_rest(quorum, tmp_path / "copies")
    (cut,) = find_replicas([str(copies / str(away.id))])
    assert scan(cut).log_end_offset <= at
    assert_told("a log ends inside another copy's batch", audit(copies))
    away.process = quorum.run(away, "kafka.Kafka", away.folder / "server.properties")
    quorum.wait(lambda: "UnexpectedAppendOffset" in away.output, "the end of the node")
    quorum.kill(away.id)
