"""Pulling from a real quorum of Kafka 4.4.0 whose voters stand in its configuration: its log begins
with a batch of one record, which no follower can fetch any more once there is a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kraftlog.cli import main
from tests import kafka_judge, kafka_quorum
from tests.kafka_judge import NEWEST, PARTITION
from tests.kafka_quorum import Node
from tests.pulled import assert_same_bytes, batches, ends, pull

pytestmark = pytest.mark.kafka

SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": 50_000}


class Pulled(NamedTuple):
    """Two pulled folders, and the nodes, which have ended since; the leader is the first."""

    from_the_beginning: Path
    with_a_snapshot: Path
    nodes: list[Node]


@pytest.fixture(scope="module")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pulled]:
    """One is pulled before there is a snapshot, and again after it; one only then."""
    folder = tmp_path_factory.mktemp("static")
    early, late = folder / "early", folder / "late"
    with kafka_quorum.running(
        folder / "quorum", NEWEST, settings=SETTINGS, is_static=True
    ) as quorum:
        assert pull(quorum.bootstrap(), early) == 0
        assert not list(early.rglob("*.checkpoint"))
        with kafka_quorum.writer(quorum) as writer:
            writer.write(400)
        for out in (late, early):
            assert pull(quorum.bootstrap(), out) == 0
        leader = quorum.leader()
        quorum.stop()
        yield Pulled(early, late, sorted(quorum.controllers, key=lambda one: one is not leader))


def test_all_comes_that_a_follower_is_given(pulled: Pulled) -> None:
    """The leader answers offset 0 with its snapshot only: the batch that ends at 1 stays there."""
    leader = pulled.nodes[0]
    first, *_ = batches(leader.log_folder)
    assert first[:2] == (0, 1)
    for out, start in ((pulled.from_the_beginning, 0), (pulled.with_a_snapshot, 1)):
        assert_same_bytes(out, leader.data)
        assert ends(out)[0] == start
        (snapshot,) = (out / PARTITION).glob("*.checkpoint")
        assert snapshot.read_bytes() == (leader.log_folder / snapshot.name).read_bytes()
        epochs = (out / PARTITION / "leader-epoch-checkpoint").read_text().splitlines()
        assert epochs[2].split()[1] == str(start)


def test_kafka_loads_what_was_pulled(pulled: Pulled) -> None:
    for out in (pulled.from_the_beginning, pulled.with_a_snapshot):
        ours = kafka_judge.image(out / PARTITION, release=NEWEST)
        theirs = kafka_judge.image(pulled.nodes[0].log_folder, ends(out)[1], release=NEWEST)
        assert ours.facts["fault_count"] == 0
        assert ours.lines == theirs.lines


@pytest.mark.parametrize("which", ["from_the_beginning", "with_a_snapshot"])
def test_the_audit_finds_nothing_wrong(
    which: str, pulled: Pulled, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone, and beside the disks, whose logs begin one record earlier."""
    out, disks = str(getattr(pulled, which)), [str(one.data) for one in pulled.nodes]
    assert main(["audit", "--input", out, "--fail-on", "warning"]) == 0
    capsys.readouterr()
    assert main(["audit", "--input", out, *disks, "--fail-on", "warning"]) == 0
    assert "Sound: all 3 voters were copied" in capsys.readouterr().out
