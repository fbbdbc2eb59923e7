"""A new quorum that `kraftlog recover` lays out is one of Kafka's: with the commands of its plan
three controllers elect a leader, a broker on an empty disk joins, and the topics are there.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from kraftlog.cli import main
from kraftlog.log.directory import find_replicas
from kraftlog.state.difference import differences
from tests import kafka_quorum
from tests.golden.cases import DATA
from tests.images import built
from tests.kafka_judge import JUDGE, NEWEST

pytestmark = pytest.mark.kafka

CHANGES = {"controllers", "brokers", "partitions", "configs", "producer_ids"}
"""Controllers register anew and fence brokers that do not answer, a broker registers and leads; the
writer sets configs.
"""
BROKER = 11


def set_up(quorum: kafka_quorum.Quorum, new: Path, commands: dict[str, list[str]]) -> None:
    """Run the plan's commands for each node, as they are written but for the folders' names."""
    for node in quorum.nodes.values():
        node.data.mkdir(parents=True, exist_ok=True)
        quorum.configure(node)
        places = {
            f"METADATA_LOG_DIR_OF_{node.id}": node.data,
            f"LOG_DIR_OF_{node.id}": node.data,
            f"SERVER_PROPERTIES_OF_{node.id}": node.folder / "server.properties",
        }
        for command in commands[str(node.id)]:
            for name, path in places.items():
                command = command.replace(name, str(path))
            words = shlex.split(command)
            if words[0] == "kafka-storage":
                quorum.storage(node, *words[1:])
            else:
                subprocess.run(["sh", "-ec", command], cwd=new, check=True)


def metadata(folder: Path) -> Any:
    (replica,) = find_replicas([str(folder)])
    return built(replica, None)


@pytest.mark.parametrize(
    "release, case, gone",
    [(JUDGE, "isolated", ("2", "12")), (NEWEST, "unregistered-4.4", ("1", "3"))],
    ids=["4.3.1: the dead leader is lost", "4.4.0: one voter of three is left"],
)
def test_three_controllers_and_a_broker_start_from_it_and_go_on(
    release: str, case: str, gone: tuple[str, ...], tmp_path: Path
) -> None:
    copies = tmp_path / "copies"
    shutil.copytree(DATA / case / "replicas", copies)
    for label in gone:
        shutil.rmtree(copies / label)
    settings = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500}
    quorum = kafka_quorum.made(tmp_path / "nodes", release, brokers=1, settings=settings)
    voters = [
        f"{one.id}@{one.address('CONTROLLER')}:{one.directory_id}" for one in quorum.controllers
    ]
    new = tmp_path / "new"
    assert main(["recover", "--input", str(copies), "--out", str(new), "--voters", *voters]) == 0
    plan = json.loads((new / "plan.json").read_text(encoding="utf-8"))
    set_up(quorum, new, plan["commands"])
    for one in quorum.controllers:
        made, given = (
            {path.name: path.read_bytes() for path in (folder / kafka_quorum.PARTITION).iterdir()}
            for folder in (one.data, new / str(one.id))
        )
        assert made == given  # formatting has left them alone
    try:
        quorum.start()
        with kafka_quorum.writer(quorum) as writer:
            assert writer.write(5) == 5  # a majority commits
        with kafka_quorum.operator(quorum) as operator:
            assert operator.do("topics").split() == plan["topics"]
            assert operator.do("describe", plan["topics"][0]).startswith("0:")
        leader = quorum.leader()
    finally:
        quorum.stop()
    start, after = metadata(new / str(leader.id)), metadata(leader.data)
    assert after.end_offset > start.end_offset == plan["end_offset"]
    assert {one.table for one in differences(start.state, after.state)} <= CHANGES
    names = sorted(value["name"] for value in after.state.rows("topics").values())
    assert names == plan["topics"]
    assert names
    assert {key[0] for key in after.state.rows("voters")} == {1, 2, 3}
    assert {key[0] for key in after.state.rows("controllers")} == {1, 2, 3}
    before, now = (one.state.get("brokers", (BROKER,)) for one in (start, after))
    assert now["incarnationId"] != before["incarnationId"]
    assert now["logDirs"] == before["logDirs"]  # so that its partitions are still on its disk


def written(quorum: kafka_quorum.Quorum, count: int) -> list[int]:
    """The offsets at which a new idempotent producer's records are acknowledged, one by one."""
    at = quorum.nodes[BROKER].address("BROKER")
    producer = KafkaProducer(bootstrap_servers=[at], acks="all", enable_idempotence=True)
    try:
        return [producer.send("kept", b"%d" % one).get(60).offset for one in range(count)]
    finally:
        producer.close()


def test_a_producer_of_the_new_quorum_is_not_taken_for_one_of_the_old(tmp_path: Path) -> None:
    """The copy is from before the first producer. With its id given out again, the broker took the
    first new record for the old one: it acknowledged offset 0, and wrote nothing.
    """
    quorum = kafka_quorum.made(tmp_path / "nodes", controllers=1, brokers=1)
    with kafka_quorum.started(quorum):
        with kafka_quorum.operator(quorum) as operator:
            operator.do("create", "kept", "11")
            quorum.wait(lambda: (quorum.nodes[BROKER].data / "kept-0").exists(), "a folder")
        copy = quorum.capture(tmp_path / "copy", 1, is_live=True)
        assert written(quorum, 1) == [0]
    controller, new = quorum.nodes[1], tmp_path / "new"
    voter = f"1@{controller.address('CONTROLLER')}:{controller.directory_id}"
    assert main(["recover", "--input", str(copy), "--out", str(new), "--voters", voter]) == 0
    plan = json.loads((new / "plan.json").read_text(encoding="utf-8"))
    (quorum.nodes[BROKER].folder / "node.log").unlink()
    set_up(quorum, new, plan["commands"])
    try:
        quorum.start()
        assert written(quorum, 3) == [1, 2, 3]
    finally:
        quorum.stop()
