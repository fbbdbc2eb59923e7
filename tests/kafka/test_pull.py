"""Pulling from real quorums of Kafka 4.3.1 and 4.4.0, three controllers and a broker, while they
write, elect, make snapshots, lose what was never committed, and drop the beginning of their log.

The tests share one quorum of each version and go through its life in order.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kraftlog.cli import main
from kraftlog.message.message_spec import MessageSpec
from kraftlog.plain import offsets_text
from kraftlog.pull.address import Address
from kraftlog.pull.connection import Connection
from kraftlog.pull.messages import FETCH_SNAPSHOT
from kraftlog.quorum.describe import keeping_up, read_described
from tests import kafka_judge, kafka_quorum
from tests.kafka_judge import JUDGE, NEWEST, PARTITION
from tests.kafka_quorum import Quorum, Writer
from tests.leader_messages import decode_piece
from tests.pulled import (
    assert_same_bytes,
    described,
    ends,
    eventually,
    log_bytes,
    plaintext,
    pull,
    pull_once,
    status,
)

pytestmark = pytest.mark.kafka

SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": 100_000,
    "internal.metadata.log.segment.bytes": 100_000,
    "metadata.max.retention.bytes": 1_000_000,
    # A leader from whom nobody fetches any more goes on for a little longer than this.
    "controller.quorum.fetch.timeout.ms": 6000,
}


@pytest.fixture(scope="module", params=[JUDGE, NEWEST])
def quorum(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Quorum]:
    folder = tmp_path_factory.mktemp("quorum")
    with kafka_quorum.running(folder, request.param, brokers=1, settings=SETTINGS) as found:
        yield found


@pytest.fixture(scope="module")
def writer(quorum: Quorum) -> Iterator[Writer]:
    with kafka_quorum.writer(quorum) as found:
        found.write(800)
        yield found


def kafkas_own_describe(quorum: Quorum, what: str) -> str:
    """What kafka-metadata-quorum prints; the tools come with one version only."""
    called = kafka_quorum.command(
        JUDGE,
        "org.apache.kafka.tools.MetadataQuorumCommand",
        *("--bootstrap-controller", quorum.bootstrap(), "describe", what),
    )
    done = subprocess.run(called, capture_output=True, encoding="utf-8", check=True)
    return done.stdout


class HeldPull:
    """A pull that stands still after the first piece of a snapshot, until it may go on."""

    def __init__(self, addresses: str, out: Path) -> None:
        """Returns when the first piece has come."""
        self.out = out
        self.errors: list[str | None] = []
        self._may_go_on = threading.Event()
        self._done = ThreadPoolExecutor(1).submit(
            pull_once, addresses, out, patience=30.0, connect=self._connect
        )
        assert eventually(lambda: self.errors or self._done.done(), 60)

    def end(self) -> None:
        """Returns when all has come."""
        self._may_go_on.set()
        self._done.result(120)

    def snapshots(self) -> list[str]:
        """What lies there of snapshots, whole or not."""
        return [one.name for one in (self.out / PARTITION).glob("*.checkpoint*")]

    def _connect(self, address: Address) -> Connection:
        connection = plaintext(address)
        ask = connection.ask

        def held(spec: MessageSpec, version: int, body: bytes, seconds: float) -> bytes:
            if spec.id != FETCH_SNAPSHOT:
                return ask(spec, version, body, seconds)
            if self.errors:
                self._may_go_on.wait()
            raw = ask(spec, version, body, seconds)
            self.errors.append(decode_piece(raw, version).error)
            return raw

        connection.ask = held  # type: ignore[method-assign]
        return connection


def is_settled(quorum: Quorum, out: Path) -> bool:
    """Pull, and whether all that came was committed."""
    assert pull(quorum.bootstrap(), out) == 0
    return int(described(out)["HighWatermark"]) == ends(out)[1]


@pytest.mark.parametrize("node", [1, 2, 3, 11], ids=["1", "2", "3", "a broker"])
def test_any_address_leads_to_the_leader(
    quorum: Quorum, writer: Writer, node: int, tmp_path: Path
) -> None:
    assert pull(quorum.nodes[node].address(), tmp_path) == 0
    assert_same_bytes(tmp_path, quorum.leader().data)
    assert ends(tmp_path)[0] == 0
    assert described(tmp_path)["ClusterId"] == quorum.cluster_id
    assert int(described(tmp_path)["LeaderId"]) == quorum.leader().id


def test_pulled_bytes_are_the_leaders_while_it_writes(
    quorum: Quorum, writer: Writer, tmp_path: Path
) -> None:
    writer.begin(3000)
    for _ in range(4):
        assert pull(quorum.bootstrap(), tmp_path) == 0
        assert_same_bytes(tmp_path, quorum.leader().data)
    writer.wait()
    before = ends(tmp_path)[1]
    assert pull(quorum.bootstrap(), tmp_path) == 0
    assert ends(tmp_path)[1] > before
    assert_same_bytes(tmp_path, quorum.leader().data)


def test_kafkas_own_classes_agree(quorum: Quorum, writer: Writer, tmp_path: Path) -> None:
    """The snapshot is the leader's file and one that Kafka loads; offsets are those that Kafka's
    own tool gives; the puller is none of the replicas.
    """
    first = status(kafkas_own_describe(quorum, "--status"))
    assert pull(quorum.bootstrap(), tmp_path) == 0
    last = status(kafkas_own_describe(quorum, "--status"))
    ours = described(tmp_path)
    for name in ("ClusterId", "LeaderId", "LeaderEpoch", "CurrentVoters", "CurrentObservers"):
        assert ours[name] == first[name] == last[name]
    marks = [int(one["HighWatermark"]) for one in (first, ours, last)]
    assert marks == sorted(marks)
    assert "-1\t" not in kafkas_own_describe(quorum, "--replication")

    snapshots = sorted((tmp_path / PARTITION).glob("*.checkpoint"))
    theirs = quorum.leader().log_folder / snapshots[-1].name
    assert snapshots[-1].read_bytes() == theirs.read_bytes()
    ours_loaded, theirs_loaded = (
        kafka_judge.image(one.parent, snapshot=one, release=quorum.version)
        for one in (snapshots[-1], theirs)
    )
    assert ours_loaded.facts["fault_count"] == 0
    assert ours_loaded.lines == theirs_loaded.lines


def test_a_leader_that_dies_while_it_is_pulled(
    quorum: Quorum, writer: Writer, tmp_path: Path
) -> None:
    """The pull goes on with the next leader, and a second one after the election as well."""
    old = quorum.leader()
    done: list[int] = []
    slowly = ("--max-bytes-per-second", 100_000)
    thread = threading.Thread(
        target=lambda: done.append(pull(quorum.bootstrap(), tmp_path, *slowly))
    )
    thread.start()
    assert eventually(lambda: list((tmp_path / PARTITION).glob("*.log")), 60)
    quorum.kill(old.id)
    thread.join(120)
    assert done == [0]
    assert int(described(tmp_path)["LeaderId"]) == quorum.leader().id != old.id
    assert_same_bytes(tmp_path, quorum.leader().data)
    quorum.start(old.id)
    writer.write(20)
    assert pull(old.address(), tmp_path) == 0
    assert_same_bytes(tmp_path, quorum.leader().data)


def test_a_snapshot_that_is_made_meanwhile(quorum: Quorum, writer: Writer, tmp_path: Path) -> None:
    """A newer snapshot comes with the next pull; the log goes on without a gap, and the older one
    stays.
    """
    assert pull(quorum.bootstrap(), tmp_path, "--newest-only") == 0
    (first,) = (tmp_path / PARTITION).glob("*.checkpoint")
    assert ends(tmp_path)[0] == int(first.name.split("-")[0])
    writer.write(600)
    assert pull(quorum.bootstrap(), tmp_path) == 0
    older, newer = sorted((tmp_path / PARTITION).glob("*.checkpoint"))
    assert older == first
    assert newer.read_bytes() == (quorum.leader().log_folder / newer.name).read_bytes()
    assert_same_bytes(tmp_path, quorum.leader().data)


def test_what_was_never_committed_is_marked_then_taken_back(
    quorum: Quorum, writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A leader alone: what it writes lies above the high watermark, and the next leader diverges.
    The audit of the pulled log and that leader's disk says so, with an exact bound.
    """
    pulled, copy = tmp_path / "live", tmp_path / "suspect"
    lone = quorum.leader()
    others = [one.id for one in quorum.controllers if one is not lone]
    for one in others:
        quorum.kill(one)
    # Where the next leader's log ends. It may hold more than the lone leader knows to be committed:
    # of what the others fetched last, they died before they could tell.
    held = max(ends(quorum.nodes[one].data)[1] for one in others)
    # No-ops go on until the leader notices that nobody fetches.
    end = held
    while end <= held:
        assert pull(lone.address(), pulled) == 0
        end = ends(pulled)[1]
    assert int(described(pulled)["HighWatermark"]) <= held
    assert re.search(r"the last (1 offset is|\d+ offsets are) not yet", capsys.readouterr().err)
    tail = log_bytes(pulled, held)
    quorum.kill(lone.id)
    quorum.start(*others)
    writer.write(10)
    assert pull(quorum.bootstrap(), pulled) == 0
    assert f"taken back {offsets_text(held, end)}:" in capsys.readouterr().err
    assert_same_bytes(pulled, quorum.leader().data)
    (kept,) = (pulled / PARTITION).glob("*.log.deleted")
    assert kept.read_bytes() == tail

    shutil.copytree(lone.data, copy)
    # A no-op may be on its way whenever one looks.
    assert eventually(lambda: is_settled(quorum, pulled), 60)
    capsys.readouterr()
    main(["replicas", "--input", str(pulled), str(copy), "--format", "json"])
    bound = int(described(pulled)["HighWatermark"])
    assert f'"committed_lower":{bound},"committed_upper":{bound}' in capsys.readouterr().out
    assert main(["audit", "--input", str(pulled), str(copy)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"uncommitted_tail_diverged \[[^]]*suspect\]", told)
    assert f"tail from offset {held} on" in told
    assert "None of it was committed" in told
    quorum.start(lone.id)


def test_an_audit_of_the_pulled_log_alone_finds_nothing_wrong(
    quorum: Quorum, writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says that no voter's disk was looked at, and what is committed all the same."""
    assert pull(quorum.bootstrap(), tmp_path / "live") == 0
    capsys.readouterr()
    assert main(["audit", "--input", str(tmp_path), "--fail-on", "warning"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    mark = int(described(tmp_path / "live")["HighWatermark"])
    # Batches above the high watermark may have come, too.
    assert re.search(
        rf"pulled instead, and then everything below offset {mark} was committed\b", told
    )
    segments = sorted((tmp_path / "live" / PARTITION).glob("*.log"))
    judged = [
        row for row in kafka_judge.batches(segments, quorum.version) if not row.get("summary")
    ]
    assert len(judged) > 10
    assert all(row["crc_valid"] for row in judged)


def test_disks_that_were_copied_before_the_pull_speak_against_no_restart(
    quorum: Quorum, writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All disks end below what the leader has committed when it is pulled, and so does one alone;
    nothing is wrong with any of them.
    """
    every = [one.id for one in quorum.controllers]
    for chosen in (every, every[:1]):
        folder = quorum.capture(tmp_path / str(len(chosen)), *chosen)
        writer.write(50)
        assert pull(quorum.bootstrap(), folder / "live") == 0
        capsys.readouterr()
        assert main(["audit", "--input", str(folder), "--fail-on", "critical"]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert "Each node may be restarted, one at a time." in told
        assert re.search(r"what is missing from offset \d+ on comes from the leader", told)


def test_the_voters_that_keep_up_are_those_that_run(
    quorum: Quorum, writer: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By Kafka's own tables and by ours: with a voter down, no other one is to be restarted first."""

    def up() -> frozenset[int] | None:
        tables = [kafkas_own_describe(quorum, what) for what in ("--status", "--replication")]
        return keeping_up(read_described("\n".join(tables)))

    writer.write(5)
    assert eventually(lambda: up() == {1, 2, 3}, 60)
    leader = quorum.leader().id
    down, other = (one.id for one in quorum.controllers if one.id != leader)
    quorum.kill(down)
    assert eventually(lambda: up() == {leader, other}, 60)
    folder = quorum.capture(tmp_path / "disks")
    assert pull(quorum.bootstrap(), folder / "live") == 0
    quorum.start(down)
    capsys.readouterr()
    assert main(["plan", "restart", "--input", str(folder), "--format", "json"]) == 0
    rows = {row["node_id"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert "did not keep up with the leader when that was described" in rows[down]["reason"]
    assert rows[down]["order"] == 1
    for node in (leader, other):
        assert f"voter {down} did not keep up with the leader" in rows[node]["reason"]


def test_a_log_start_that_moves_beyond_the_pulled_log(
    quorum: Quorum,
    writer: Writer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Kafka drops the beginning of its log once a minute; what was pulled of it is kept aside. A
    snapshot that is half fetched then is gone: the newest one comes instead of it.
    """
    folder = quorum.leader().log_folder
    assert pull(quorum.bootstrap(), tmp_path) == 0
    start, end = ends(tmp_path)
    kept = log_bytes(tmp_path)
    monkeypatch.setattr("kraftlog.pull.leader.REQUEST_BYTES", 12_000)
    held = HeldPull(quorum.bootstrap(), tmp_path / "held")
    (part,) = held.snapshots()
    assert part.endswith(".part")
    writer.write(6000)
    oldest = lambda: min(int(one.stem) for one in folder.glob("*.log"))  # noqa: E731
    assert eventually(lambda: oldest() > end, 180)
    assert not (folder / part.removesuffix(".part")).exists()
    held.end()
    # It means SNAPSHOT_NOT_FOUND, and cannot write it.
    assert held.errors[:2] == [None, "UNKNOWN_SERVER_ERROR"]
    assert set(held.errors[2:]) == {None}
    (newest,) = held.snapshots()
    assert newest > part
    assert (held.out / PARTITION / newest).read_bytes() == (folder / newest).read_bytes()
    assert_same_bytes(held.out, quorum.leader().data)
    capsys.readouterr()
    assert pull(quorum.bootstrap(), tmp_path) == 0
    assert f"the folder's ends at {end}" in capsys.readouterr().err
    assert_same_bytes(tmp_path, quorum.leader().data)
    assert ends(tmp_path)[0] > end > start
    aside = sorted((tmp_path / PARTITION).glob("*.log.deleted"))
    assert b"".join(one.read_bytes() for one in aside) == kept
    # From nothing, the whole of what is left comes.
    anew = tmp_path / "anew"
    assert pull(quorum.bootstrap(), anew) == 0
    assert ends(anew)[0] <= ends(tmp_path)[0]
    assert_same_bytes(anew, quorum.leader().data)
