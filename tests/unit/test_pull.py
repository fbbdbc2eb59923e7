"""Pulling where no real quorum can be staged: connections that break at every request, answers that
are nonsense, folders that are somebody else's. The controller is in this process, the sockets are
real.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.decode.interpreter import read_message
from kraftlog.errors import KraftlogError, UsageError
from kraftlog.log import crc
from kraftlog.message.catalogue import request_specs
from kraftlog.pull import leader, puller
from kraftlog.pull.address import Address, PullError, Unreachable, read_addresses
from kraftlog.pull.folder import pulled_folder
from kraftlog.pull.leader import Pace
from kraftlog.state.encode import encode_message
from tests.fake_controller import (
    CLUSTER_ID,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    FETCH,
    FETCH_SNAPSHOT,
    VERSIONS,
    FakeController,
    serving,
)
from tests.golden.cases import PARTITION
from tests.golden.cases import Replica as Golden
from tests.leader_messages import decode_piece
from tests.pulled import assert_same_bytes, batches, described, ends, log_bytes, pull, pull_once

SOURCE = Golden("combined", "1").folder
ISOLATED = Golden("isolated", "2").folder
"""Two epochs on the others' disks, and the uncommitted end of epoch 1 on this one."""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(puller, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a pull takes many requests."""
    monkeypatch.setattr("kraftlog.pull.leader.REQUEST_BYTES", 3000)


def test_the_whole_retained_log_and_the_newest_snapshot_come(tmp_path: Path) -> None:
    with serving(FakeController(SOURCE)) as address:
        assert pull(address, tmp_path) == 0
    newest = "00000000000000000098-0000000002.checkpoint"
    assert [one.name for one in (tmp_path / PARTITION).glob("*.checkpoint")] == [newest]
    assert (tmp_path / PARTITION / newest).read_bytes() == (
        SOURCE / PARTITION / newest
    ).read_bytes()
    assert_same_bytes(tmp_path, SOURCE)
    assert ends(tmp_path) == ends(SOURCE)
    epochs = (tmp_path / PARTITION / "leader-epoch-checkpoint").read_text()
    assert epochs == (SOURCE / PARTITION / "leader-epoch-checkpoint").read_text()
    assert described(tmp_path)["ClusterId"] == CLUSTER_ID
    assert "node.id=-1" in (tmp_path / "meta.properties").read_text()
    assert not list(tmp_path.rglob("*.part"))


def test_only_the_owner_may_read_what_was_pulled(tmp_path: Path) -> None:
    with serving(FakeController(SOURCE)) as address:
        assert pull(address, tmp_path) == 0
    assert {one.stat().st_mode & 0o077 for one in tmp_path.rglob("*") if one.is_file()} == {0}


def test_requests_ask_as_an_observer_and_for_no_more_than_a_second_may_bring(
    tmp_path: Path,
) -> None:
    controller = FakeController(SOURCE)
    with serving(controller) as address:
        assert pull(address, tmp_path, "--max-bytes-per-second", 100_000) == 0
    fetches = [asked for key, asked in controller.asked if key == FETCH]
    assert {one["replicaState"]["replicaId"] for one in fetches} == {-1}
    partitions = [one["topics"][0]["partitions"][0] for one in fetches]
    assert {one["partitionMaxBytes"] for one in partitions} == {100_000}
    pieces = [asked for key, asked in controller.asked if key == FETCH_SNAPSHOT]
    assert {(one["replicaId"], one["maxBytes"]) for one in pieces} == {(-1, 100_000)}
    assert {key for key, _ in controller.asked} <= {FETCH, FETCH_SNAPSHOT, DESCRIBE_QUORUM, 60}


def test_a_pace_makes_up_for_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("kraftlog.pull.leader.time.sleep", slept.append)
    monkeypatch.setattr("kraftlog.pull.leader.time.monotonic", lambda: 100.0)
    pace = Pace(1000)
    pace.wait()
    pace.took(500)
    pace.took(2500)
    pace.wait()
    assert slept == [0.0, 3.0]
    assert (Pace(1000).request_bytes, Pace(None).request_bytes) == (1000, 1 << 20)


# --- Broken connections -----------------------------------------------------------------------


def cut(at: int, kept: float) -> Callable[[int, int, bytes], bytes]:
    """The answer to one request ends early, and the connection with it."""
    return lambda number, _, frame: frame[: int(len(frame) * kept)] if number == at else frame


def count_of_requests(out: Path) -> int:
    controller = FakeController(SOURCE)
    with serving(controller) as address:
        pull_once(address, out)
    return len(controller.asked)


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize("kept", [0.0, 0.6], ids=["before the answer", "inside the answer"])
def test_a_connection_that_is_cut_at_any_request(kept: float, tmp_path: Path) -> None:
    """Each request of a pull is cut off once; the same pull goes on, and nothing is missing."""
    count = count_of_requests(tmp_path / "whole")
    assert count > 12
    for at in range(count):
        out = tmp_path / str(at)
        with serving(FakeController(SOURCE, garble=cut(at, kept))) as address:
            pull_once(address, out)
        assert_same_bytes(out, SOURCE)
        assert ends(out) == ends(SOURCE)
        assert not list(out.rglob("*.part"))


@dataclass
class Reelected(FakeController):
    """It leads in the next epoch from its n-th fetch on, of log or snapshot, and says so."""

    at: int = 0
    refused: list[int] = field(default_factory=list)

    def answer(self, api_key: int, version: int, body: bytes) -> bytes:
        if api_key in (FETCH, FETCH_SNAPSHOT):
            self.at -= 1
            self.epoch += self.at == 0
        raw = super().answer(api_key, version, body)
        if api_key in (FETCH, FETCH_SNAPSHOT):
            spec = request_specs()[api_key][1].at(version)
            told, *_ = read_message(spec, raw, 0, len(raw))
            (topic,) = told["responses" if api_key == FETCH else "topics"]
            self.refused += [one["errorCode"] for one in topic["partitions"] if one["errorCode"]]
        return raw


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize("at", [2, 8])
def test_a_leader_whose_epoch_has_passed_is_looked_for_again(at: int, tmp_path: Path) -> None:
    """FENCED_LEADER_EPOCH (74) is an answer to one request; the pull goes on in the new epoch."""
    leads = Reelected(SOURCE, at=at)
    with serving(leads) as address:
        pull_once(address, tmp_path)
    assert 74 in leads.refused
    assert leads.asked[-1][1].get("topics", [{}])[0]["partitions"][0]["currentLeaderEpoch"] == 3
    assert_same_bytes(tmp_path, SOURCE)


@dataclass
class Ending(FakeController):
    """Its n-th answer to a Fetch is the one of a leader that shuts down (BROKER_NOT_AVAILABLE)."""

    at: int = 0

    def answer(self, api_key: int, version: int, body: bytes) -> bytes:
        raw = super().answer(api_key, version, body)
        self.at -= api_key == FETCH
        if api_key != FETCH or self.at != 0:
            return raw
        spec = request_specs()[FETCH][1].at(version)
        told, *_ = read_message(spec, raw, 0, len(raw))
        told["responses"][0]["partitions"][0] |= {"errorCode": 8, "records": ""}
        return encode_message(spec, told)


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize("at", [1, 2, 3, 7])
def test_a_leader_that_shuts_down_is_looked_for_again(at: int, tmp_path: Path) -> None:
    with serving(Ending(SOURCE, at=at)) as address:
        pull_once(address, tmp_path)
    assert_same_bytes(tmp_path, SOURCE)


@pytest.mark.usefixtures("small_answers")
def test_a_leader_that_stands_still_is_followed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer may be waited for as long as a quorum may be without a leader: that begins then."""
    monkeypatch.setattr(leader, "ANSWER_SECONDS", 0.5)
    is_over = threading.Event()

    def stand(number: int, _: int, frame: bytes) -> bytes:
        if number >= 8:
            is_over.wait(20)
        return frame

    with (
        serving(FakeController(SOURCE, garble=stand)) as first,
        serving(FakeController(SOURCE, node_id=2, epoch=3)) as second,
    ):
        pull_once(f"{first},{second}", tmp_path, patience=0.5)
        is_over.set()
    assert described(tmp_path)["LeaderId"] == "2"
    assert_same_bytes(tmp_path, SOURCE)


@dataclass
class Forwarding(FakeController):
    """A broker: it forwards DescribeQuorum, at first to a controller that has ceased to lead, then
    to the one that leads, whose address it tells.
    """

    controller: str = ""
    refusals: int = 2

    def _describe(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.refusals -= 1
        if self.refusals >= 0:
            return {"errorCode": 6, "errorMessage": None, "topics": [], "nodes": []}
        host, _, port = self.controller.rpartition(":")
        listener = {"name": "CONTROLLER", "host": host, "port": int(port)}
        return {
            **super()._describe(asked),
            "nodes": [{"nodeId": self.node_id, "listeners": [listener]}],
        }


def test_a_broker_that_forwards_to_who_leads_no_more_is_asked_again(tmp_path: Path) -> None:
    with serving(FakeController(SOURCE)) as leads:
        broker = Forwarding(
            SOURCE, controller=leads, versions={FETCH: (4, 17), DESCRIBE_QUORUM: (0, 2)}
        )
        with serving(broker) as address:
            pull_once(address, tmp_path)
    assert_same_bytes(tmp_path, SOURCE)


@dataclass
class Leaderless(FakeController):
    """A controller that knows of no leader."""

    def _fetch(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.epoch += 1  # whoever asks is behind
        told = super()._fetch(asked)
        told["responses"][0]["partitions"][0]["currentLeader"]["leaderId"] = -1
        return told


def test_who_answers_without_a_leader_is_told_beside_who_does_not_answer(tmp_path: Path) -> None:
    with serving(FakeController(SOURCE)) as gone:
        pass
    with serving(Leaderless(SOURCE)) as address:
        with pytest.raises(Unreachable, match=r"^no controller leads at the moment; try again"):
            pull_once(address, tmp_path, patience=0.0)
        with pytest.raises(Unreachable, match=r"refused.*and who answers knows of no leader"):
            pull_once(f"{address},{gone}", tmp_path, patience=0.0)


@pytest.mark.usefixtures("small_answers")
def test_a_pull_that_ends_at_any_request_is_taken_up_where_it_ended(tmp_path: Path) -> None:
    count = count_of_requests(tmp_path / "whole")
    for at in range(count):
        out = tmp_path / str(at)
        with (
            serving(FakeController(SOURCE, garble=cut(at, 0.0))) as address,
            pytest.raises(Unreachable),
        ):
            pull_once(address, out, patience=0.0)
        if (out / "quorum-describe").exists():
            assert int(described(out)["HighWatermark"]) == ends(out)[1]
        with serving(FakeController(SOURCE)) as address:
            pull_once(address, out)
        assert_same_bytes(out, SOURCE)
        assert ends(out) == ends(SOURCE)


@pytest.mark.usefixtures("small_answers")
def test_what_has_come_is_not_asked_for_again(tmp_path: Path) -> None:
    """Each pull gets a few answers further than the one before."""
    sizes, attempts = [0], 0
    while not (tmp_path / "quorum-describe").exists():
        with serving(FakeController(SOURCE, garble=cut(7, 0.0))) as address:
            try:
                pull_once(address, tmp_path, patience=0.0)
            except Unreachable:
                attempts += 1
        inside = (tmp_path / PARTITION).glob("*")
        sizes.append(sum(one.stat().st_size for one in inside))
    assert attempts > 2
    assert sizes == sorted(set(sizes))
    assert_same_bytes(tmp_path, SOURCE)


def test_a_torn_end_is_cut_and_comes_again(tmp_path: Path) -> None:
    with serving(FakeController(SOURCE)) as address:
        pull_once(address, tmp_path)
        (segment,) = (tmp_path / PARTITION).glob("*.log")
        whole = segment.read_bytes()
        cut = [whole[:size] for size in (len(whole) - 1, len(whole) - 200, 61, 5, 0)]
        for torn in (*cut, whole + bytes(100)):
            # What is known to be committed was written before that end was begun.
            (tmp_path / "quorum-describe").unlink()
            segment.write_bytes(torn)
            pull_once(address, tmp_path)
            assert segment.read_bytes() == whole


def killed_at(step: int, address: str, out: Path) -> bool:
    """Pull in a process of its own, which is killed before its n-th change of a file, in the middle
    of one that writes; False where the pull was over before.
    """
    child = os.fork()
    if child == 0:
        left = itertools.count(step, -1)
        write = os.write

        def torn(handle: int, content: memoryview) -> int:
            if next(left) <= 0:
                write(handle, content[: len(content) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return write(handle, content)

        def changes(event: str, found: tuple[object, ...]) -> None:
            if event in CHANGES and str(found[0]).startswith(str(out)) and next(left) <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

        os.write = torn  # type: ignore[assignment]
        sys.addaudithook(changes)
        try:
            pull_once(address, out)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


CHANGES = ("open", "os.mkdir", "os.rename", "os.remove", "os.truncate")


def begun(before: str, tmp_path: Path) -> tuple[FakeController | None, FakeController]:
    """Who was pulled before, and who leads now."""
    if before == "an end that is taken back":
        other = FakeController(Golden("isolated", "1").folder)
        return FakeController(ISOLATED, epoch=1, high_watermark=176), other
    if before == "a log that is begun anew":
        short, later = short_and_later(tmp_path)
        return FakeController(short), FakeController(later)
    return None, FakeController(SOURCE)


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize(
    "before", ["nothing", "an end that is taken back", "a log that is begun anew"]
)
def test_a_pull_that_is_killed_at_any_change_of_a_file(before: str, tmp_path: Path) -> None:
    """The next pull into its folder ends it, and what was pulled before is still there."""
    earlier, leads = begun(before, tmp_path)
    with serving(leads) as address, serving(earlier or leads) as first:
        for step in itertools.count():
            out = tmp_path / str(step)
            if earlier is not None:
                pull_once(first, out)
            kept = [raw for _, _, raw in batches(out / PARTITION)]
            was_killed = killed_at(step, address, out)
            pull_once(address, out)
            assert_same_bytes(out, leads.folder)
            assert ends(out) == ends(leads.folder)
            assert not list(out.rglob("*.part"))
            held = b"".join(one.read_bytes() for one in out.rglob("*.log*"))
            assert all(raw in held for raw in kept)
            if not was_killed:
                break
    assert step > 20


def test_damage_below_what_was_committed_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    with serving(FakeController(SOURCE)) as address:
        pull_once(address, tmp_path)
        (segment,) = (tmp_path / PARTITION).glob("*.log")
        damaged = bytearray(segment.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        segment.write_bytes(damaged)
        with pytest.raises(PullError, match="was committed; name a new folder"):
            pull_once(address, tmp_path)
        assert segment.read_bytes() == damaged


def test_a_snapshot_that_the_disk_has_damaged_comes_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one that is whole is not asked for."""
    name = "00000000000000000098-0000000002.checkpoint"
    path, controller = tmp_path / PARTITION / name, FakeController(SOURCE)
    with serving(controller) as address:
        pull_once(address, tmp_path)
        whole = path.read_bytes()
        path.write_bytes(whole[:200] + b"\x7f" + whole[201:])
        assert pull(address, tmp_path) == 0
        assert path.read_bytes() == whole
        assert path.with_name(f"{name}.deleted").exists()
        assert f"{name}: it is damaged (" in capsys.readouterr().err
        asked = len(controller.asked)
        pull_once(address, tmp_path)
    assert FETCH_SNAPSHOT not in {key for key, _ in controller.asked[asked:]}


# --- Nonsense ---------------------------------------------------------------------------------


def nonsense(seed: int) -> Callable[[int, int, bytes], bytes]:
    """One answer of a pull is changed: bytes in it, its end, or the length that it claims."""
    chosen = random.Random(seed)
    at, how = chosen.randrange(12), chosen.choice(["flip", "flip", "shorter", "longer", "claim"])

    def garble(number: int, _: int, frame: bytes) -> bytes:
        if number != at:
            return frame
        body = bytearray(frame[4:])
        if how == "flip":
            for _ in range(chosen.randrange(1, 4)):
                body[chosen.randrange(len(body))] ^= 1 << chosen.randrange(8)
        elif how == "shorter":
            del body[chosen.randrange(4, len(body)) :]
            body += bytes(max(0, len(frame) - 4 - len(body))) if chosen.random() < 0.3 else b""
        elif how == "longer":
            body += chosen.randbytes(chosen.randrange(1, 200))
        size = len(body) if how != "claim" else chosen.choice([-1, 1 << 30, (1 << 31) - 1])
        return size.to_bytes(4, "big", signed=True) + bytes(body) + bytes(64)

    return garble


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize("seed", range(60))
def test_nonsense_is_one_sentence_or_does_no_harm(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a server answers: no other error than a sentence, nothing outside the folder, and
    no file that is neither a log of whole batches nor known.
    """
    monkeypatch.setattr(leader, "ANSWER_SECONDS", 1.0)
    out = tmp_path / "out"
    with serving(FakeController(SOURCE, garble=nonsense(seed))) as address:
        said = ""
        try:
            pull_once(address, out, patience=0.5)
        except KraftlogError as error:
            said = str(error)
    assert said == "" or (said.isprintable() and len(said) < 400)
    assert {one.name for one in tmp_path.iterdir()} <= {"out"}
    known = {".log", ".checkpoint", ".part", ".deleted", ""}
    assert {one.suffix for one in out.rglob("*")} <= known | {".properties"}


def changed_batch(position: int, value: bytes) -> Callable[[int, int, bytes], bytes]:
    """The first batch of each answer with records is changed at a position."""
    (start, _, first), *_ = _first_batches()
    assert start == 0

    def garble(_: int, api_key: int, frame: bytes) -> bytes:
        at = frame.find(first[:40])
        if api_key != FETCH or at < 0:
            return frame
        place = at + position
        return frame[:place] + value + frame[place + len(value) :]

    return garble


def _first_batches() -> list[tuple[int, int, bytes]]:
    return list(batches(SOURCE / PARTITION))[:2]


@pytest.mark.parametrize(
    "position, value, problem",
    [
        (70, b"\xff\xff", "CRC is wrong"),
        (0, struct.pack(">q", 7), "other offsets than those that are due"),
        (12, struct.pack(">i", 99), "an epoch that goes back"),
        (16, b"\x01", "no whole record batch"),
        (8, struct.pack(">i", 1 << 30), "no whole record batch"),
    ],
    ids=["records", "base offset", "epoch", "magic", "length"],
)
def test_a_batch_that_cannot_be(position: int, value: bytes, problem: str, tmp_path: Path) -> None:
    """A batch is only written when it can follow on what is there."""
    controller = FakeController(SOURCE, garble=changed_batch(position, value))
    with serving(controller) as address, pytest.raises(PullError, match=problem):
        pull_once(address, tmp_path)
    assert not list(tmp_path.rglob("*.log"))


# --- A snapshot that goes while it is fetched -------------------------------------------------

NEWEST = "00000000000000000098-0000000002.checkpoint"
NEWER = "00000000000000000110-0000000002.checkpoint"
OLDER = "00000000000000000038-0000000001.checkpoint"
PIECE_BYTES = 2500
"""More than the older snapshot has, less than the newest one."""


@dataclass
class Meanwhile(FakeController):
    """Something happens to its files between the first and the second piece of a snapshot.

    Kafka 4.3.1 and 4.4.0 cannot write an error of a snapshot: theirs is UNKNOWN_SERVER_ERROR.
    """

    happens: Callable[[Path], None] = lambda folder: None
    is_like_kafka: bool = False
    pieces: list[bytes] = field(default_factory=list)

    def answer(self, api_key: int, version: int, body: bytes) -> bytes:
        if api_key == FETCH_SNAPSHOT:
            if len(self.pieces) == 1:
                self.happens(self.folder / PARTITION)
            raw = super().answer(api_key, version, body)
            if self.is_like_kafka and decode_piece(raw, version).error is not None:
                raw = encode_message(request_specs()[api_key][1].at(version), _NO_PIECE)
            self.pieces.append(raw)
            return raw
        return super().answer(api_key, version, body)


_NO_PIECE = {"throttleTimeMs": 0, "errorCode": -1, "topics": [], "nodeEndpoints": []}


def gone_for_a_newer_one(folder: Path) -> None:
    (folder / NEWEST).rename(folder / NEWER)


def gone_for_nothing(folder: Path) -> None:
    for one in folder.glob("*.checkpoint"):
        one.unlink()


def replaced_by_less(folder: Path) -> None:
    """The position that is asked for next lies beyond its end."""
    (folder / NEWEST).write_bytes((SOURCE / PARTITION / OLDER).read_bytes())


def replaced_by_more(folder: Path) -> None:
    rest, batches = (SOURCE / PARTITION / NEWEST).read_bytes(), list[bytes]()
    while rest:
        size = 12 + int.from_bytes(rest[8:12], "big")
        batches.append(rest[:size])
        rest = rest[size:]
    header, *stored, footer = batches
    (folder / NEWEST).write_bytes(b"".join([header, *stored * 2, footer]))


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("kraftlog.pull.leader.REQUEST_BYTES", PIECE_BYTES)
    return Path(shutil.copytree(SOURCE, tmp_path / "leader"))


def pulled_snapshots(out: Path) -> dict[str, bytes]:
    """Whole or not: the names and bytes of all that lies there of snapshots."""
    return {one.name: one.read_bytes() for one in (out / PARTITION).glob("*.checkpoint*")}


@pytest.mark.parametrize(
    "happens, error, left",
    [
        (gone_for_a_newer_one, "SNAPSHOT_NOT_FOUND", NEWER),
        (gone_for_nothing, "SNAPSHOT_NOT_FOUND", None),
        (replaced_by_less, "POSITION_OUT_OF_RANGE", NEWEST),
        (replaced_by_more, None, NEWEST),
    ],
)
@pytest.mark.parametrize("is_like_kafka", [False, True], ids=["by its name", "as Kafka does"])
def test_a_snapshot_that_goes_while_it_is_fetched(
    happens: Callable[[Path], None],
    error: str | None,
    left: str | None,
    is_like_kafka: bool,
    copy: Path,
    tmp_path: Path,
) -> None:
    """What had come of it is thrown away, and what the leader has now comes from its beginning."""
    leads, out = Meanwhile(copy, happens=happens, is_like_kafka=is_like_kafka), tmp_path / "out"
    with serving(leads) as address:
        pull_once(address, out)
    told = decode_piece(leads.pieces[1], 1)
    assert told.error == ("UNKNOWN_SERVER_ERROR" if error and is_like_kafka else error)
    found = {} if left is None else {left: (copy / PARTITION / left).read_bytes()}
    assert pulled_snapshots(out) == found
    assert_same_bytes(out, SOURCE)


def test_a_snapshot_of_the_next_leader_is_fetched_from_its_beginning(
    copy: Path, tmp_path: Path
) -> None:
    """Both have one of the same name and size, and not the same bytes."""
    snapshot = copy / PARTITION / NEWEST
    other = bytearray(snapshot.read_bytes())
    other[100] ^= 1
    snapshot.write_bytes(other)
    old, out = Meanwhile(copy), tmp_path / "out"
    old.garble = lambda _, __, frame: frame if len(old.pieces) < 2 else b""
    with (
        serving(old) as first,
        serving(FakeController(SOURCE, node_id=2, epoch=3)) as second,
    ):
        pull_once(f"{first},{second}", out)
    assert len(old.pieces) == 2
    assert pulled_snapshots(out) == {NEWEST: (SOURCE / PARTITION / NEWEST).read_bytes()}


@pytest.mark.parametrize("size", [1000, 3168], ids=["a part", "all of it"])
def test_what_an_earlier_pull_left_of_another_file(size: int, copy: Path, tmp_path: Path) -> None:
    """Bytes that cannot be gone on with are thrown away, and no later pull trips over them."""
    out = tmp_path / "out"
    with serving(FakeController(copy)) as address:
        pull_once(address, out)
        (out / PARTITION / NEWEST).unlink()
        (out / PARTITION / f"{NEWEST}.part").write_bytes(bytes(size))
        pull_once(address, out)
    assert pulled_snapshots(out) == {NEWEST: (SOURCE / PARTITION / NEWEST).read_bytes()}


def test_a_snapshot_that_never_comes_is_one_sentence(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The leader names one that it cannot give."""
    leads = FakeController(copy)
    (copy / PARTITION / NEWEST).write_bytes(b"")
    with serving(leads) as address:
        assert pull(address, tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "no snapshot has come whole in 10 attempts" in said
    assert "POSITION_OUT_OF_RANGE" in said
    assert len([key for key, _ in leads.asked if key == FETCH_SNAPSHOT]) == 10


def test_a_snapshot_that_is_damaged_on_the_leaders_disk_is_asked_for_once(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = copy / PARTITION / NEWEST
    damaged = bytearray(snapshot.read_bytes())
    damaged[200] ^= 1
    snapshot.write_bytes(damaged)
    leads = Meanwhile(copy)
    with serving(leads) as address:
        assert pull(address, tmp_path / "out") == 2
    assert "it must be fetched again" in capsys.readouterr().err
    assert len(leads.pieces) == 2
    assert pulled_snapshots(tmp_path / "out") == {}


# --- A leader that takes back -----------------------------------------------------------------


def test_an_uncommitted_end_is_taken_back_and_kept_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """First the leader that was cut off, whose end was never committed, then the next one."""
    with serving(FakeController(ISOLATED, epoch=1, high_watermark=176)) as address:
        assert pull(address, tmp_path) == 0
    assert "the last 67 offsets are not yet" in capsys.readouterr().err
    tail = log_bytes(tmp_path, 176)
    assert len(tail) == 4177
    other = Golden("isolated", "1").folder
    with serving(FakeController(other, epoch=2)) as address:
        assert pull(address, tmp_path) == 0
    assert "taken back offsets 176 to 242" in capsys.readouterr().err
    assert_same_bytes(tmp_path, other)
    (kept,) = tmp_path.rglob("*.deleted")
    assert (kept.name, kept.read_bytes()) == ("00000000000000000176.log.deleted", tail)


@pytest.mark.parametrize("is_named", [True, False])
def test_an_uncommitted_end_of_one_batch_is_taken_back(is_named: bool, tmp_path: Path) -> None:
    """At its offset the next leader holds another batch, of its own epoch: nothing says that it is of
    another quorum.
    """
    versions = {key: span for key, span in VERSIONS.items() if is_named or key != DESCRIBE_CLUSTER}
    lone, out = tmp_path / "lone", tmp_path / "out"
    shutil.copytree(ISOLATED, lone)
    (segment,) = (lone / PARTITION).glob("*.log")
    kept = [one for one in batches_of(segment) if int.from_bytes(one[:8], "big") <= 176]
    segment.write_bytes(b"".join(kept))
    leads = FakeController(lone, epoch=1, high_watermark=176, versions=versions)
    with serving(leads) as address:
        pull_once(address, out)
    other = Golden("isolated", "1").folder
    with serving(FakeController(other, epoch=2, versions=versions)) as address:
        pull_once(address, out)
    assert_same_bytes(out, other)
    (aside,) = out.rglob("*.deleted")
    assert aside.read_bytes() == kept[-1]


def test_nothing_that_was_committed_is_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same, but the first leader said that its end was committed."""
    with serving(FakeController(ISOLATED, epoch=1)) as address:
        assert pull(address, tmp_path) == 0
    before = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    with serving(FakeController(Golden("isolated", "1").folder, epoch=2)) as address:
        assert pull(address, tmp_path) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "offsets from 176 on to be cut, but all below 243 was committed" in said
    after = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    assert {one.name: text for one, text in after.items() if one.suffix == ".log"} == {
        one.name: text for one, text in before.items() if one.suffix == ".log"
    }


def short_and_later(tmp_path: Path) -> tuple[Path, Path]:
    """The beginning of a log, and what is left when the leader has dropped more than that."""
    short = tmp_path / "short"
    shutil.copytree(SOURCE, short)
    for one in (short / PARTITION).iterdir():
        if one.name.startswith(("00000000000000000070", "00000000000000000098")):
            one.unlink()
    # The leader has lost 70 to 97 as well: what it holds begins at its only snapshot.
    return short, begun_at(98, tmp_path)


def begun_at(start: int, tmp_path: Path) -> Path:
    """A leader that holds its newest snapshot alone, and the log from an offset on."""
    later = tmp_path / "later"
    shutil.copytree(SOURCE, later)
    for one in (later / PARTITION).iterdir():
        if one.name.startswith(("00000000000000000000", "00000000000000000038")):
            one.unlink()
    old = later / PARTITION / "00000000000000000070.log"
    segment = old.rename(old.with_name(f"{start:020d}.log"))
    segment.write_bytes(log_bytes(later, start))
    return later


def test_a_log_start_beyond_our_end_begins_the_log_anew(tmp_path: Path) -> None:
    short, later = short_and_later(tmp_path)
    out = tmp_path / "out"
    with serving(FakeController(short, epoch=2)) as address:
        pull_once(address, out)
    kept = log_bytes(out)
    with serving(FakeController(later, epoch=2)) as address:
        pull_once(address, out)
    assert ends(out) == (98, ends(SOURCE)[1])
    assert_same_bytes(out, SOURCE)
    assert b"".join(one.read_bytes() for one in sorted(out.rglob("*.log.deleted"))) == kept


def test_snapshots_of_a_log_that_is_begun_anew_go_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No log leads up to them any more, so that none of their states could be judged."""
    short, later = short_and_later(tmp_path)
    out = tmp_path / "out"
    for folder in (short, later):
        with serving(FakeController(folder, epoch=2)) as address:
            pull_once(address, out)
    assert [one.name for one in out.rglob("*.checkpoint")] == [NEWEST]
    (kept,) = out.rglob("*.checkpoint.deleted")
    assert kept.read_bytes() == (short / PARTITION / OLDER).read_bytes()
    main(["audit", "--input", str(out), "--format", "json"])
    told = map(json.loads, capsys.readouterr().out.splitlines())
    failed = {one["check"] for one in told if one.get("result") == "failed"}
    assert not failed & {"snapshot_below_log_start", "snapshot_leftover"}


def test_a_log_that_begins_with_an_epoch_of_its_own(tmp_path: Path) -> None:
    """The leader's log begins at its only snapshot, whose epoch has ended there, with one record."""
    later = begun_at(97, tmp_path)
    snapshot = later / PARTITION / "00000000000000000098-0000000002.checkpoint"
    snapshot.rename(snapshot.with_name("00000000000000000097-0000000001.checkpoint"))
    out = tmp_path / "out"
    with serving(FakeController(later, epoch=2)) as address:
        pull_once(address, out)
    assert ends(out) == (97, ends(SOURCE)[1])
    assert_same_bytes(out, later)


# --- What the audit makes of it ---------------------------------------------------------------


def audit_beside_the_live_quorum(
    high_watermark: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    written: int | None = None,
) -> str:
    """One node's disk, which has an uncommitted end, beside the pulled leader, who has `written` up to
    an offset, else all.
    """
    other, roots = tmp_path / "leader", tmp_path / "roots"
    shutil.copytree(Golden("isolated", "1").folder, other)
    if written is not None:
        kept = [raw for _, end, raw in batches(other / PARTITION) if end <= written]
        (other / PARTITION / f"{0:020}.log").write_bytes(b"".join(kept))
    meta = (other / "meta.properties").read_text()
    cluster_id = meta.split("cluster.id=")[1].splitlines()[0]
    controller = FakeController(other, cluster_id, high_watermark=high_watermark)
    with serving(controller) as address:
        assert pull(address, roots / "live") == 0
    shutil.copytree(ISOLATED, roots / "2")
    capsys.readouterr()
    main(["audit", "--input", str(roots)])
    return " ".join(capsys.readouterr().out.split())


def test_a_disk_beside_the_live_quorum_is_judged_for_certain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What no copy of the other voters says, the pulled leader does: what is committed, and that
    nothing of the tail is.
    """
    told = audit_beside_the_live_quorum(362, tmp_path, capsys)
    assert "Controller 2 carries an uncommitted tail from offset 176 on" in told
    assert "None of it was committed" in told
    assert "INFO voters_present" in told
    assert (
        "the running quorum was pulled instead, and then everything below offset 362 was committed"
        in told
    )


def test_a_high_watermark_below_the_divergence_proves_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does a leader that has written no more than its election."""
    told = audit_beside_the_live_quorum(176, tmp_path, capsys, written=177)
    assert "Whether any of it was committed is not proven" in told
    assert "exactly" not in told


def test_what_the_live_leader_wrote_proves_more_than_its_high_watermark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = audit_beside_the_live_quorum(176, tmp_path, capsys)
    assert "None of it was committed (voters 1 and 3 elected the leader of epoch 2" in told
    assert "exactly" not in told


def test_a_pulled_folder_is_nobodys_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(FakeController(SOURCE)) as address:
        assert pull(address, tmp_path) == 0
    capsys.readouterr()
    assert main(["replicas", "--input", str(tmp_path), "--format", "json"]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["node_id"], row["role"]) == (None, "observer")
    assert (row["committed_lower"], row["committed_upper"]) == (120, 120)


def test_what_a_running_quorum_wrote_since_is_told_to_be_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pulled log ends where the quorum's did at that moment: it went on (seen of 4.4.0)."""
    pulled, voter = tmp_path / "live", "1@c1:9093:nxOpeKMeTXCDlz7dwIMJkA"
    with serving(FakeController(SOURCE)) as address:
        assert pull(address, pulled) == 0
    new = tmp_path / "new"
    assert main(["recover", "--input", str(pulled), "--out", str(new), "--voters", voter]) == 0
    told = "Whether anything from offset 120 on was committed since the quorum was described: "
    assert told in capsys.readouterr().out


def test_times_are_told_as_people_and_scripts_read_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {}
    with serving(FakeController(SOURCE, described_ms=1_796_075_092_126)) as address:
        for form in ("table", "json"):
            assert pull(address, tmp_path, "--format", form) == 0
            told[form] = capsys.readouterr().out
    assert "2026-11-30 21:44:52.126" in told["table"]
    assert "_ms" not in told["table"]
    assert json.loads(told["json"])["last_fetch_ms"] == 1_796_075_092_126


def test_a_pulled_copy_that_its_disk_has_damaged_is_pulled_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No node starts with it, and none fetches it."""
    with serving(FakeController(SOURCE)) as address:
        assert pull(address, tmp_path) == 0
    capsys.readouterr()
    segment = min((tmp_path / PARTITION).glob("*.log"))
    raw = bytearray(segment.read_bytes())
    raw[-1] ^= 1
    segment.write_bytes(raw)
    main(["audit", "--input", str(tmp_path)])
    told = capsys.readouterr().out
    assert "Copy again, then audit again\n  CRITICAL batch_crc_valid" in told
    assert "No node starts with this copy." in told
    assert "pull again, into a new folder." in told
    assert "Kafka would cut" not in told


# --- Whose folder, whose quorum ---------------------------------------------------------------


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("is_other", [True, False])
def test_the_last_batch_says_whose_log_it_is(
    is_other: bool, is_named: bool, tmp_path: Path
) -> None:
    """The other quorum has the same epochs, and other records. Many users may not know a cluster's id,
    and a quorum that is formed anew may have the old one.
    """
    versions = {key: span for key, span in VERSIONS.items() if is_named or key != DESCRIBE_CLUSTER}
    short, _ = short_and_later(tmp_path)
    out, leads = tmp_path / "out", tmp_path / "leads"
    shutil.copytree(SOURCE, leads)
    for segment in (leads / PARTITION).glob("*.log") if is_other else ():
        segment.write_bytes(b"".join(map(moved_in_time, batches_of(segment))))
    with serving(FakeController(short, versions=versions)) as address:
        pull_once(address, out)
    before = {one: one.read_bytes() for one in out.rglob("*") if one.is_file()}
    with serving(FakeController(leads, versions=versions)) as address:
        if not is_other:
            pull_once(address, out)
            assert ends(out) == ends(SOURCE)
            return
        with pytest.raises(PullError, match="or the quorum began anew: name a new folder"):
            pull_once(address, out)
    assert {one: one.read_bytes() for one in out.rglob("*") if one.is_file()} == before


def test_a_leader_of_an_older_epoch_is_not_pulled_from(tmp_path: Path) -> None:
    """Kafka's answers INVALID_REQUEST to a follower of a newer one."""
    out = tmp_path / "out"
    with serving(FakeController(SOURCE)) as address:
        pull_once(address, out)
    before = {one: one.read_bytes() for one in out.rglob("*") if one.is_file()}
    why = "node 1 leads in epoch 1, and .*/out holds records of epoch 2. Name the other controllers, or"
    with (
        serving(FakeController(SOURCE, epoch=1)) as address,
        pytest.raises(PullError, match=why),
    ):
        pull_once(address, out)
    assert {one: one.read_bytes() for one in out.rglob("*") if one.is_file()} == before


def batches_of(segment: Path) -> list[bytes]:
    raw, found = segment.read_bytes(), []
    while raw:
        size = 12 + int.from_bytes(raw[8:12], "big")
        found.append(raw[:size])
        raw = raw[size:]
    return found


def moved_in_time(batch: bytes) -> bytes:
    """The same batch, written a second later."""
    first, last = struct.unpack_from(">qq", batch, 27)
    changed = batch[21:27] + struct.pack(">qq", first + 1000, last + 1000) + batch[43:]
    return batch[:17] + struct.pack(">I", crc.value(changed)) + changed


def test_another_cluster_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(FakeController(SOURCE)) as address:
        assert pull(address, tmp_path) == 0
        meta = tmp_path / "meta.properties"
        meta.write_text(meta.read_text().replace(CLUSTER_ID, "another-cluster-id-000"))
        capsys.readouterr()
        assert pull(address, tmp_path) == 2
    assert "it is of another cluster than another-cluster-id-000" in capsys.readouterr().err


def _node_folder(tmp_path: Path) -> Path:
    shutil.copytree(SOURCE, tmp_path / "node")
    return tmp_path / "node"


def _inside_a_node(tmp_path: Path) -> Path:
    return _node_folder(tmp_path) / "live"


def _inside_a_log(tmp_path: Path) -> Path:
    return _node_folder(tmp_path) / PARTITION / "live"


def _unreadable_identity(tmp_path: Path) -> Path:
    (_node_folder(tmp_path) / "meta.properties").write_bytes(b"\xff\x00")
    return tmp_path / "node"


def _other_things(tmp_path: Path) -> Path:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("not to be lost")
    return tmp_path / "full"


def _link(tmp_path: Path) -> Path:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    return tmp_path / "link"


def _file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("x")
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_node_folder, "it is a node's own folder"),
        (_unreadable_identity, "it cannot be read, so nothing tells whose folder this is"),
        (_inside_a_node, "it is a node's own folder"),
        (_inside_a_log, "it lies in a metadata log"),
        (_other_things, "it holds other things"),
        (_link, "symbolic link"),
        (_file, "it is not a folder"),
    ],
)
def test_what_is_not_a_pulled_folder_is_never_written(
    make: Callable[[Path], Path], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = make(tmp_path)
    before = sorted((str(one), one.lstat().st_mtime_ns) for one in tmp_path.rglob("*"))
    controller = FakeController(SOURCE)
    with serving(controller) as address:
        assert pull(address, out) == 2
    said = capsys.readouterr().err
    assert "name a new" in said
    assert why in said
    assert not controller.asked
    assert sorted((str(one), one.lstat().st_mtime_ns) for one in tmp_path.rglob("*")) == before


def test_a_link_in_a_pulled_folder_is_not_followed(tmp_path: Path) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside"
    with serving(FakeController(SOURCE)) as address:
        pull_once(address, out)
        outside.mkdir()
        (out / "quorum-describe").unlink()
        (out / "quorum-describe").symlink_to(outside / "written")
        with pytest.raises(UsageError, match="symbolic link"):
            pull_once(address, out)
    assert not list(outside.iterdir())


def test_one_pull_at_a_time(tmp_path: Path) -> None:
    with (
        pulled_folder(tmp_path / "out"),
        pytest.raises(UsageError, match="another pull"),
        pulled_folder(tmp_path / "out"),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(FakeController(SOURCE)) as address:
        assert pull(address, Path("/proc/no-such-folder")) == 2
    assert "cannot be written" in capsys.readouterr().err


# --- A leader that has just been elected ------------------------------------------------------


@dataclass
class JustElected(FakeController):
    """It does not know what is committed, and learns it with its n-th describe."""

    knows_at: int = 3

    def answer(self, api_key: int, version: int, body: bytes) -> bytes:
        if api_key == DESCRIBE_QUORUM:
            self.knows_at -= 1
            self.high_watermark = -1 if self.knows_at > 0 else None
        return super().answer(api_key, version, body)


def test_a_pull_waits_until_the_leader_knows_what_is_committed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(JustElected(SOURCE)) as address:
        assert pull(address, tmp_path) == 0
    assert "below offset 120 all is committed" in capsys.readouterr().err
    assert described(tmp_path)["HighWatermark"] == "120"


def test_a_leader_that_never_knows_it_is_one_sentence(tmp_path: Path) -> None:
    """What was known of the folder stays."""
    with serving(FakeController(SOURCE)) as address:
        pull_once(address, tmp_path)
    with (
        serving(JustElected(SOURCE, knows_at=1 << 30)) as address,
        pytest.raises(Unreachable, match="does not know yet what is committed"),
    ):
        pull_once(address, tmp_path, patience=0.0)
    assert described(tmp_path)["HighWatermark"] == "120"


# --- Who answers ------------------------------------------------------------------------------


def test_nobody_there_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(FakeController(SOURCE)) as address:
        pass
    assert pull(address, tmp_path / "out") == 2
    assert "nobody listens there" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_broker_that_does_not_say_where_controllers_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker before Kafka 3.9: it forwards DescribeQuorum, and knows no FetchSnapshot."""
    versions = {FETCH: (4, 17), DESCRIBE_QUORUM: (0, 1)}
    with serving(FakeController(SOURCE, versions=versions)) as address:
        assert pull(address, tmp_path / "out") == 2
    assert "brokers do not hand out the metadata log" in capsys.readouterr().err


@pytest.mark.parametrize(
    "says",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x10" + bytes(16), b"\0\0\0\x04\0\0\0\x01"],
    ids=["of the web", "of nothing", "of too little"],
)
def test_a_server_of_another_kind(
    says: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socketserver
    import threading

    class Talker(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(says)
            self.request.recv(1 << 16)
            self.request.recv(1)

    with socketserver.TCPServer(("127.0.0.1", 0), Talker) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert pull(f"127.0.0.1:{server.server_address[1]}", tmp_path / "out") == 2
    assert "is not Kafka's" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["c1", "c1:", ":9093", "c1:0", "c1:70000", "c1:9093,", "c1:x", "c1:9093:1", "http://c1:9093"],
)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        read_addresses(text)


def test_addresses() -> None:
    found = read_addresses("c1:9093, [::1]:9094")
    assert found == (Address("c1", 9093), Address("::1", 9094))
    assert [str(one) for one in found] == ["c1:9093", "[::1]:9094"]


@pytest.mark.parametrize(
    "api_key, right", [(FETCH, "CLUSTER_ACTION"), (DESCRIBE_QUORUM, "DESCRIBE")]
)
def test_a_user_without_the_right_is_told_which(
    api_key: int, right: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = FakeController(SOURCE)
    whole = controller.answer

    def answer(key: int, version: int, body: bytes) -> bytes:
        if key != api_key:
            return whole(key, version, body)
        if key == FETCH:
            return struct.pack(">ihi", 0, 31, 0) + b"\x01\x00"
        return (
            struct.pack(">h", 31)
            + (b"\x00" if version == 2 else b"")
            + b"\x01"
            + (b"\x01" if version == 2 else b"")
            + b"\x00"
        )

    monkeypatch.setattr(controller, "answer", answer)
    with serving(controller) as address, pytest.raises(PullError, match=f"grant it {right} "):
        pull_once(address, tmp_path / "out")


def test_run_takes_a_quorum_only_with_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--bootstrap-controller", "c1:9093", "--lake", "lake"]) == 2
    assert "needs --out" in capsys.readouterr().err
    assert main(["run", "--newest-only", "--lake", "lake"]) == 2
    assert "--newest-only only goes with --bootstrap-controller" in capsys.readouterr().err


def test_a_missing_library_is_one_sentence_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "kafka", None)
    monkeypatch.delitem(sys.modules, "kraftlog.pull.connection")
    assert pull("c1:9093", tmp_path / "out") == 2
    assert "pip install 'kraftlog[pull]'" in capsys.readouterr().err
