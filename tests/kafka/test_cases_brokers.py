"""Real cases of a cluster with brokers, staged with Kafka 4.3.1: a disk that is replaced, topics
that lose their broker and are created again, controllers that move to other addresses.

The tests go on with one cluster, in this order.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import kafka_quorum
from tests.kafka_quorum import Node, Quorum
from tests.real_cases import assert_told
from tests.unit.audit_logs import audit, found

pytestmark = pytest.mark.kafka

SETTINGS = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    folder = tmp_path_factory.mktemp("cluster")
    with kafka_quorum.running(folder, brokers=2, settings=SETTINGS) as running:
        yield running


def log_size(node: Node) -> int:
    return sum(one.stat().st_size for one in node.log_folder.glob("*.log"))


def test_topics_without_their_broker(cluster: Quorum, tmp_path: Path) -> None:
    with kafka_quorum.operator(cluster) as operator:
        operator.do("create", "pair", "11,12;12,11")
        operator.do("create", "solo", "11;12;12")
        operator.do("create", "again", "12")
        cluster.wait(
            lambda: (cluster.nodes[12].data / "again-0" / "partition.metadata").exists(), "a folder"
        )
        cluster.kill(12)
        cluster.wait(lambda: operator.do("describe", "solo").count("-1") == 2, "offline partitions")
        operator.do("delete", "again")
        operator.do("create", "again", "11")
    result = audit(cluster.capture(tmp_path))
    assert_told("a topic is created again, stray folders", result)
    (row,) = [one.row for one in found(result, "partitions_have_leaders")]
    assert row.evidence["names"] == ["solo-1", "solo-2"]
    (stray,) = [one.row for one in found(result, "folders_match_topics")]
    assert [one["folder"] for one in stray.evidence["folders"]] == ["again-0"]
    assert stray.replica == "12"


def test_a_disk_is_replaced(cluster: Quorum, tmp_path: Path) -> None:
    leader = cluster.leader()
    node = next(one for one in cluster.controllers if one is not leader)
    old = node.directory_id
    cluster.kill(node.id)
    shutil.rmtree(node.data)
    cluster.format_one(node)
    before = log_size(leader)
    cluster.start(node.id)
    cluster.wait(lambda: log_size(node) >= before, "the log on the new disk")
    result = audit(cluster.capture(tmp_path))
    assert_told("a voter's disk is replaced", result)
    (row,) = [one.row for one in found(result, "voter_directories_agree")]
    assert (row.replica, row.evidence["voter_directory_id"]) == (str(node.id), old)
    assert "none of them may fail" in row.message


def test_endpoints_changed(cluster: Quorum, tmp_path: Path) -> None:
    """All controllers come back at other ports, and find nobody."""
    cluster.stop()
    for node in cluster.controllers:
        node.ports = {"CONTROLLER": kafka_quorum.free_port()}
    for node in cluster.controllers:
        cluster.configure(node)
    controllers = [one.id for one in cluster.controllers]
    result = audit(cluster.capture(tmp_path, *controllers))
    assert_told("endpoints of a dynamic quorum changed", result)
    sizes = [log_size(one) for one in cluster.controllers]
    for node in cluster.controllers:
        node.process = cluster.run(node, "kafka.Kafka", node.folder / "server.properties")
    cluster.wait(lambda: all(one.listens() for one in cluster.controllers), "the controllers")
    time.sleep(5)  # an election takes one
    assert [log_size(one) for one in cluster.controllers] == sizes
