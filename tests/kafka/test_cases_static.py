"""Real cases of quorums whose voters stand in their configuration, staged with Kafka 4.3.1: storms,
a cold boot without commit, a scale-out that begins a second history.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kraftlog.config import default_thresholds
from tests import kafka_quorum
from tests.kafka_quorum import Node, Quorum
from tests.real_cases import assert_told, warnings
from tests.unit.audit_logs import audit

pytestmark = pytest.mark.kafka

HASTE = {
    "controller.quorum.election.timeout.ms": 150,
    "controller.quorum.fetch.timeout.ms": 300,
    "controller.quorum.election.backoff.max.ms": 50,
}


def epoch(node: Node) -> int:
    path = node.log_folder / "quorum-state"
    found: int = json.loads(path.read_text(encoding="utf-8"))["leaderEpoch"]
    return found


def log_size(node: Node) -> int:
    return sum(one.stat().st_size for one in node.log_folder.glob("*.log"))


def led(node: Node) -> int:
    """How many leaders a node's log knows."""
    path = node.log_folder / "leader-epoch-checkpoint"
    return len(path.read_text(encoding="utf-8").splitlines()) - 2 if path.exists() else 0


def unseat(quorum: Quorum) -> None:
    """Stop the leader's process until the others have a new one, then let it go on."""
    leader = quorum.leader()
    before = epoch(leader)
    assert leader.process is not None
    os.kill(leader.process.pid, signal.SIGSTOP)
    try:
        others = [one for one in quorum.controllers if one is not leader]
        quorum.wait(lambda: all(epoch(one) > before for one in others), "another leader")
    finally:
        os.kill(leader.process.pid, signal.SIGCONT)
    quorum.wait(lambda: epoch(leader) > before, "the old leader's return")


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    folder = tmp_path_factory.mktemp("hasty")
    with kafka_quorum.running(folder, is_static=True, settings=HASTE) as quorum:
        yield quorum


def elections(quorum: Quorum, count: int, target: Path) -> Path:
    """Unseat leaders until so many have written, and copy the disks."""
    while led(quorum.leader()) < count:
        unseat(quorum)
    time.sleep(1)  # so that the last one writes
    return quorum.capture(target)


def test_leaders_that_do_not_last(hasty: Quorum, tmp_path: Path) -> None:
    assert_told("leaders that do not last", audit(elections(hasty, 12, tmp_path)))


def test_an_election_storm(hasty: Quorum, tmp_path: Path) -> None:
    result = audit(elections(hasty, 24, tmp_path))
    assert_told("election storm", result)
    assert "leaders_last" not in warnings(result)


def cold_boot(folder: Path) -> Quorum:
    """Three controllers start for the first time, each advertises an address at which nobody
    listens, and all end as soon as one of them has led.
    """
    quorum = kafka_quorum.made(folder, is_static=True, settings=HASTE)
    quorum.format()
    for node in quorum.controllers:
        nowhere = f"CONTROLLER://127.0.0.1:{kafka_quorum.free_port()}"
        quorum.configure(node, advertised_listeners=nowhere)
    try:
        for node in quorum.controllers:
            node.process = quorum.run(node, "kafka.Kafka", node.folder / "server.properties")
        quorum.wait(
            lambda: (
                all((one.log_folder / "quorum-state").exists() for one in quorum.controllers)
                and any(log_size(one) for one in quorum.controllers)
            ),
            "a leader",
        )
    finally:
        quorum.stop()
    return quorum


def test_a_cold_boot_without_commit(tmp_path: Path) -> None:
    """Who is elected has nobody who fetches from it: but for a follower that knows the leader from
    its own settings, so that every other attempt or so fails. One that has noted the epoch, and
    not yet appended its first batch, has fetched too: its disk is that of one which has lost it.
    """
    for attempt in range(20):
        quorum = cold_boot(tmp_path / f"nodes-{attempt}")
        if sum(log_size(one) > 0 or led(one) > 0 for one in quorum.controllers) == 1:
            break
    else:
        raise AssertionError("a follower has fetched in every attempt")
    # All nodes had ended before their disks were copied.
    at_once = replace(default_thresholds(), copy_skew_ms=1)
    result = audit(quorum.capture(tmp_path / "copies"), thresholds=at_once)
    assert_told("cold boot without commit", result)


def test_two_histories_after_a_scale_out(tmp_path: Path) -> None:
    """One controller becomes one of three, and the two new ones elect a leader without it."""
    alone = kafka_quorum.made(tmp_path / "nodes", controllers=1, is_static=True)
    alone.format()
    try:
        alone.start()
        with kafka_quorum.writer(alone) as writer:
            writer.write(20)
    finally:
        alone.stop()
    grown = kafka_quorum.made(tmp_path / "nodes", is_static=True)
    grown.cluster_id = alone.cluster_id
    grown.nodes[1] = alone.nodes[1]
    for node in grown.controllers:
        node.folder.mkdir(exist_ok=True)
        grown.configure(node)
        if node.id != 1:
            grown.format_one(node)
    try:
        grown.start(2, 3)
        with kafka_quorum.writer(grown) as writer:
            writer.write(10)
    finally:
        grown.stop()
    assert_told("two histories after a scale-out", audit(grown.capture(tmp_path / "copies")))
