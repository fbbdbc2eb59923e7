"""A new quorum that `kraftlog recover` lays out is one of Kafka's: three controllers elect a
leader, and what the brokers had is there.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.state.coverage import scan
from kraftlog.state.difference import differences
from kraftlog.state.image import image_at
from tests import kafka_quorum
from tests.golden.cases import DATA
from tests.kafka_judge import JUDGE, NEWEST

pytestmark = pytest.mark.kafka

CHANGES = {"controllers", "brokers", "partitions", "configs", "producer_ids"}
"""Controllers register anew and fence brokers that do not answer; the writer sets configs."""


def quorum_of(folder: Path, release: str) -> kafka_quorum.Quorum:
    """Three controllers that nobody has formatted."""
    nodes = {
        number: kafka_quorum.Node(
            number,
            folder / str(number),
            False,
            kafka_quorum._random_id(),
            {"CONTROLLER": kafka_quorum.free_port()},
        )
        for number in (1, 2, 3)
    }
    return kafka_quorum.Quorum(release, folder, nodes, "", {"CONTROLLER": "PLAINTEXT"})


@pytest.mark.parametrize(
    "release, case, gone",
    [(JUDGE, "isolated", ("2", "12")), (NEWEST, "unregistered-4.4", ("1", "3"))],
    ids=["4.3.1: the dead leader is lost", "4.4.0: one voter of three is left"],
)
def test_three_controllers_start_from_it_and_go_on(
    release: str, case: str, gone: tuple[str, ...], tmp_path: Path
) -> None:
    copies = tmp_path / "copies"
    shutil.copytree(DATA / case / "replicas", copies)
    for label in gone:
        shutil.rmtree(copies / label)
    quorum = quorum_of(tmp_path / "nodes", release)
    voters = [
        f"{one.id}@{one.address('CONTROLLER')}:{one.directory_id}" for one in quorum.controllers
    ]
    new = tmp_path / "new"
    assert main(["recover", "--input", str(copies), "--out", str(new), "--voters", *voters]) == 0
    plan = json.loads((new / "plan.json").read_text(encoding="utf-8"))
    for node in quorum.controllers:
        node.folder.mkdir(parents=True)
        quorum._configure(node)
        shutil.copytree(new / str(node.id), node.data)
    try:
        quorum.start()
        with kafka_quorum.writer(quorum) as writer:
            assert writer.write(5) == 5  # a majority commits
        leader = quorum.leader()
    finally:
        quorum.stop()
    (replica,) = find_replicas([str(leader.data)])
    after = image_at(scan(replica), None, Redactor(None))
    (start,) = find_replicas([str(new / str(leader.id))])
    before = image_at(scan(start), None, Redactor(None))
    assert after.end_offset > before.end_offset == plan["end_offset"]
    assert {one.table for one in differences(before.state, after.state)} <= CHANGES
    names = sorted(value["name"] for value in after.state.rows("topics").values())
    assert names == plan["topics"]
    assert names
    assert {key[0] for key in after.state.rows("voters")} == {1, 2, 3}
    assert {key[0] for key in after.state.rows("controllers")} == {1, 2, 3}
