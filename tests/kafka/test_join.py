"""`plan join` held against real nodes of Kafka 4.3.1 and 4.4.0: a controller that nobody has seen
joins a quorum over a slowed loopback link, and is killed at each step of its download.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kraftlog.cli import main
from kraftlog.pull.messages import FETCH_SNAPSHOT
from kraftlog.simulate.liveness import Link
from tests import kafka_quorum
from tests.kafka_judge import JUDGE, NEWEST
from tests.kafka_quorum import Quorum
from tests.pulled import eventually
from tests.slow_proxy import FETCH, Seen, SlowProxy, slowed

pytestmark = pytest.mark.kafka

JOINER, CHUNK = 2, 4_096
LINK = Link(100_000, 20)
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": 100_000,
    "internal.metadata.log.segment.bytes": 20_000,
    "controller.quorum.fetch.snapshot.max.bytes": CHUNK,
    "controller.quorum.fetch.max.bytes": CHUNK,
    # The log stands still while nobody writes.
    "metadata.max.idle.interval.ms": 0,
}
Row = dict[str, Any]


class Staged(NamedTuple):
    """A leader whose log begins with a snapshot, the way to it, and a joiner on an empty disk."""

    quorum: Quorum
    proxy: SlowProxy

    @property
    def folder(self) -> Path:
        return self.quorum.nodes[JOINER].log_folder

    def parts(self) -> list[int]:
        """Sizes of what lies there of unfinished snapshots."""
        return [one.stat().st_size for one in self.folder.glob("*.part")]

    def snapshots(self) -> list[str]:
        return snapshots(self.folder)


@pytest.fixture(scope="module", params=[JUDGE, NEWEST])
def staged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Staged]:
    folder = tmp_path_factory.mktemp("join")
    with (
        slowed(f"raft-client-{JOINER}", LINK) as proxy,
        kafka_quorum.running(
            folder, request.param, controllers=1, settings=SETTINGS, advertised={1: proxy.port}
        ) as quorum,
    ):
        host, _, port = quorum.nodes[1].address().rpartition(":")
        proxy.target = (host, int(port))
        with kafka_quorum.writer(quorum) as writer:
            writer.write(600)
            assert eventually(lambda: snapshots(quorum.nodes[1].log_folder), 60)
            for _ in range(20):
                writer.write(6)
        node = quorum.observer(JOINER)
        shutil.copytree(node.data, node.folder / "formatted")
        yield Staged(quorum, proxy)


@pytest.fixture
def joiner(staged: Staged) -> Iterator[Staged]:
    """With an empty disk again, and a link as at first."""
    node = staged.quorum.nodes[JOINER]
    shutil.rmtree(node.data)
    shutil.copytree(node.folder / "formatted", node.data)
    staged.proxy.link = LINK
    staged.proxy.forget()
    yield staged
    staged.quorum.kill(JOINER)


def snapshots(folder: Path) -> list[str]:
    """The snapshots in a log folder but that of the formatting."""
    return sorted(one.name for one in folder.glob("*.checkpoint") if int(one.name[:20]))


def planned(
    staged: Staged, capsys: pytest.CaptureFixture[str], follower: str = "new", *more: str
) -> list[Row]:
    """The rows of the plan over what lies on the disks."""
    nodes = staged.quorum.nodes
    read = [nodes[1], *([nodes[JOINER]] if follower != "new" else [])]
    where = ("--input", *(str(one.data) for one in read))
    link = staged.proxy.link
    way = (
        "--bandwidth",
        str(link.bandwidth_bytes_per_s),
        "--latency",
        str(int(link.round_trip_ms)),
    )
    sizes = ("--chunk", str(CHUNK), "--fetch-bytes", str(CHUNK), "--format", "json")
    capsys.readouterr()
    assert main(["plan", "join", follower, "--from", "1", *where, *way, *sizes, *more]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    # What cannot be read stands below: the unfinished end of a .part.
    return [row for row in rows if "fault" not in row]


def may_restart(staged: Staged, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether the joiner has a place in the order of a restart."""
    nodes = staged.quorum.nodes
    where = ("--input", *(str(nodes[one].data) for one in (1, JOINER)))
    capsys.readouterr()
    assert main(["plan", "restart", *where, "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (own,) = [row for row in rows if row.get("node_id") == JOINER]
    return own["order"] is not None


def requests(rows: list[Row]) -> list[Seen]:
    """What the planned node asks for, as the proxy notes it: a question that it repeats, as after
    FENCED_LEADER_EPOCH, once.
    """
    every = [
        Seen(FETCH_SNAPSHOT, row["position"], row["snapshot_epoch"])
        if row["what"] == "piece"
        else Seen(FETCH, row["fetch_offset"], row["last_fetched_epoch"])
        for row in rows
        if row["request"]
    ]
    return [one for one, _ in groupby(every)]


def asked(staged: Staged) -> list[Seen]:
    """What the real node has asked for, a question that it repeats once."""
    found: list[Seen] = []
    for one in staged.proxy.seen:
        if not found or found[-1] != one:
            found.append(one)
    return found


def goes(staged: Staged, rows: list[Row]) -> None:
    """Start the node: it asks for what is planned, in that order, and then for what has come since,
    as the quorum notes that it has joined.
    """
    want = requests(rows)
    staged.quorum.launch(JOINER)
    node = staged.quorum.nodes[JOINER]
    came = eventually(lambda: len(asked(staged)) >= len(want), 60)
    assert came, (asked(staged), node.output[-9000:])
    found = asked(staged)
    *way, end = want
    assert found[: len(way)] == way
    assert all(one.api_key == FETCH and one.at >= end.at for one in found[len(way) :])


def killed(staged: Staged) -> None:
    """Start the node, and kill it when the proxy holds what it was told to."""
    staged.quorum.launch(JOINER)
    assert staged.proxy.held.wait(120)
    staged.quorum.kill(JOINER)
    staged.proxy.forget()


def test_a_node_asks_for_what_is_planned(
    joiner: Staged, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = planned(joiner, capsys)
    assert sum(row["what"] == "piece" for row in rows) > 3
    assert sum(row["what"] == "records" for row in rows) > 3
    began = time.monotonic()
    goes(joiner, rows)
    # The link makes it no faster than the plan says.
    assert time.monotonic() - began > rows[-1]["at_ms"] / 1000
    assert joiner.parts() == []
    (name,) = joiner.snapshots()
    leader = joiner.quorum.nodes[1].log_folder / name
    assert (joiner.folder / name).read_bytes() == leader.read_bytes()


@pytest.mark.parametrize("piece", [1, 3, -1], ids=["first", "third", "last"])
def test_a_node_that_is_killed_in_its_download_begins_it_again(
    joiner: Staged, piece: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The proxy holds a piece, so that the one before it was the last that came."""
    rows = planned(joiner, capsys)
    pieces = [row for row in rows if row["what"] == "piece"]
    held = piece % len(pieces) if piece < 0 else piece
    joiner.proxy.pieces_until_hold = held + 1
    killed(joiner)
    before = pieces[held - 1]
    assert joiner.parts() == [before["part_bytes"]]
    assert joiner.snapshots() == []
    # It knew its leader, and nothing on its disk says who votes.
    assert "quorum-state names a leader" in before["if_node_stops"]
    (only,) = planned(joiner, capsys, str(JOINER))
    assert only["what"] == "stopped"
    assert not may_restart(joiner, capsys)
    node = joiner.quorum.nodes[JOINER]
    joiner.quorum.launch(JOINER)
    assert eventually(lambda: "java.lang.IllegalStateException" in node.output, 120)
    joiner.quorum.kill(JOINER)
    (joiner.folder / "quorum-state").unlink()
    joiner.proxy.forget()
    again = planned(joiner, capsys, str(JOINER))
    assert requests(again) == requests(rows)
    goes(joiner, again)
    assert joiner.parts() == []


def test_a_node_that_is_killed_after_the_renaming_goes_on_in_the_log(
    joiner: Staged, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = planned(joiner, capsys)
    resumed = next(row for row in rows if row["what"] == "resumed")
    joiner.proxy.holds_log_after = resumed["log_start_offset"]
    killed(joiner)
    assert joiner.parts() == []
    assert len(joiner.snapshots()) == 1
    again = planned(joiner, capsys, str(JOINER))
    assert f"fetches from offset {again[0]['log_end_offset']}" in resumed["if_node_stops"]
    assert [row for row in again if row["what"] == "piece"] == []
    assert requests(again) == requests(rows)[-len(requests(again)) :]
    goes(joiner, again)


def test_a_node_that_is_killed_in_the_log_goes_on_where_it_was(
    joiner: Staged, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = planned(joiner, capsys)
    second = [row for row in rows if row["what"] == "records"][1]
    joiner.proxy.holds_log_after = second["log_end_offset"]
    killed(joiner)
    again = planned(joiner, capsys, str(JOINER))
    assert again[0]["log_end_offset"] == second["log_end_offset"]
    assert f"fetches from offset {second['log_end_offset']}" in second["if_node_stops"]
    goes(joiner, again)


@pytest.fixture
def settings(joiner: Staged) -> Iterator[Path]:
    """The joiner's server.properties, as it was afterwards."""
    file = joiner.quorum.nodes[JOINER].folder / "server.properties"
    kept = file.read_text()
    yield file
    file.write_text(kept)


@pytest.mark.parametrize("raised", [(), ("fetch",), ("request",)])
def test_a_piece_that_takes_longer_than_a_timeout_never_comes(
    raised: tuple[str, ...], joiner: Staged, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """4,096 bytes at 1,000 bytes a second, against two seconds. The node has no vote: a longer fetch
    timeout does not help it, a longer request timeout does.
    """
    joiner.proxy.link = Link(1_000, 20)
    more = [word for one in raised for word in (f"--{one}-timeout-ms", "30000")]
    rows = planned(joiner, capsys, "new", *more)
    with settings.open("a") as file:
        file.writelines(f"\ncontroller.quorum.{one}.timeout.ms=30000\n" for one in raised)
    joiner.quorum.launch(JOINER)
    pieces = lambda: [one for one in joiner.proxy.seen if one.api_key == FETCH_SNAPSHOT]  # noqa: E731
    if "request" in raised:
        assert rows[-1]["what"] == "caught_up"
        assert eventually(lambda: CHUNK in {one.at for one in pieces()}, 120)
        return
    assert rows[-1]["what"] == "cancelled"
    assert eventually(lambda: len(pieces()) > 2, 120)
    assert {one.at for one in pieces()} == {0}
    assert joiner.snapshots() == []
    assert set(joiner.parts()) <= {0}
