"""Pulling from a real quorum of Kafka 4.4.0 over connections that are cut at every request."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kraftlog.pull.address import Unreachable
from tests import kafka_quorum
from tests.cutting_proxy import Where, cutting
from tests.fake_controller import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    FETCH,
    FETCH_SNAPSHOT,
)
from tests.kafka_judge import NEWEST, PARTITION
from tests.kafka_quorum import Quorum
from tests.pulled import assert_same_bytes, described, ends, log_bytes, pull_once

pytestmark = pytest.mark.kafka

SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": 50_000}


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    folder = tmp_path_factory.mktemp("quorum")
    with (
        kafka_quorum.running(folder, NEWEST, settings=SETTINGS) as found,
        kafka_quorum.writer(found) as writer,
    ):
        writer.write(800)
        yield found


@pytest.fixture(autouse=True)
def _small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a pull takes many requests; the leader's no-ops go on meanwhile."""
    monkeypatch.setattr("kraftlog.pull.leader.REQUEST_BYTES", 12_000)
    monkeypatch.setattr("kraftlog.pull.leader.PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("kraftlog.pull.puller.PAUSE_SECONDS", 0.01)


def assert_all_is_the_leaders(out: Path, leader: Path) -> None:
    """Whole, or a beginning of it: the log, snapshots, what was fetched of one."""
    for one in (out / PARTITION).glob("*.checkpoint*"):
        theirs = (leader / PARTITION / one.name.removesuffix(".part")).read_bytes()
        ours = one.read_bytes()
        assert ours == (theirs[: len(ours)] if one.suffix == ".part" else theirs)
    segments = sorted((out / PARTITION).glob("*.log"))
    if segments:
        assert_same_bytes(out, leader)
        # No half of a batch.
        assert b"".join(one.read_bytes() for one in segments) == log_bytes(out)
    if (out / "quorum-describe").exists():
        assert int(described(out)["HighWatermark"]) <= ends(out)[1]


def assert_whole(out: Path, leader: Path) -> None:
    assert_all_is_the_leaders(out, leader)
    assert ends(out)[0] == ends(leader)[0]
    assert not list(out.rglob("*.part"))
    assert list(out.rglob("*.checkpoint"))
    assert (out / "quorum-describe").exists()


@pytest.mark.parametrize("where", Where, ids=[one.value for one in Where])
def test_a_pull_that_is_cut_off_at_any_request(
    where: Where, quorum: Quorum, tmp_path: Path
) -> None:
    """It says that the leader is out of reach; what it leaves is whole; the next pull ends it."""
    leader, cut = quorum.leader(), []
    for at in itertools.count():
        out = tmp_path / str(at)
        with cutting(at, where) as proxy:
            is_over = False
            with suppress(Unreachable):
                pull_once(leader.address(), out, patience=0.0, connect=proxy.connect)
                is_over = True
        assert is_over == (proxy.cut_key is None)
        if proxy.cut_key is None:
            break
        cut.append(proxy.cut_key)
        assert_all_is_the_leaders(out, leader.data)
        pull_once(leader.address(), out)
        assert_whole(out, leader.data)
    assert len(cut) > 15
    every = {API_VERSIONS, DESCRIBE_CLUSTER, DESCRIBE_QUORUM, FETCH, FETCH_SNAPSHOT}
    assert set(cut) == every
    assert cut.count(FETCH_SNAPSHOT) > 2
    assert quorum.leader() is leader


@pytest.mark.parametrize("where", Where, ids=[one.value for one in Where])
def test_a_pull_outlives_a_cut_at_any_request(where: Where, quorum: Quorum, tmp_path: Path) -> None:
    """One pull, through any of the controllers: it connects again, and goes on."""
    leader = quorum.leader()
    for at in itertools.count():
        out = tmp_path / str(at)
        with cutting(at, where) as proxy:
            pull_once(quorum.bootstrap(), out, connect=proxy.connect)
        assert_whole(out, leader.data)
        if proxy.cut_key is None:
            break
    assert at > 15
