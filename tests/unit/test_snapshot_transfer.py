"""FetchSnapshot: every answer and boundary, the division of a response, and the assembler (KIP-630
"FetchSnapshot" as adopted and in version 19, KIP-1219).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kraftlog.errors import DecodeError, UsageError
from kraftlog.simulate.assembler import (
    Assembler,
    AssemblyError,
    Recovery,
    recovery,
    transfer,
    why_invalid,
)
from kraftlog.simulate.chunks import Span, log_chunks, shares, snapshot_chunks
from kraftlog.simulate.extent import BOOTSTRAP, SnapshotId
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.snapshot_messages import (
    decode_ask,
    decode_piece,
    encode_ask,
    encode_piece,
)
from kraftlog.simulate.snapshot_server import (
    ERROR_CODES,
    Ask,
    Piece,
    Server,
    fetch_snapshot,
    fetch_snapshots,
)
from tests.golden.cases import Replica

LIVE = Replica("steady-live", "1").file("00000000000000001587-0000000004.checkpoint")
ID = SnapshotId(4, 1587)
V19, ADOPTED, SHIPPED = Dialect.V19, Dialect.ADOPTED, Dialect.SHIPPED


class Memory:
    """A snapshot's bytes."""

    def __init__(self, content: bytes) -> None:
        self._content, self.size_bytes = content, len(content)

    def read(self, position: int, size_bytes: int) -> bytes:
        return self._content[position : position + size_bytes]


class Large:
    """A snapshot of a size that nobody wants to hold."""

    size_bytes = 3 << 30

    def read(self, position: int, size_bytes: int) -> bytes:
        return b"x" * min(size_bytes, 10)


def server(content: bytes = b"0123456789", **changes: object) -> Server:
    known = {"leader_epoch": 5, "cluster_id": "c", **changes}
    return Server({ID: Memory(content)}, **known)  # type: ignore[arg-type]


def ask(position: int = 0, max_bytes: int = 4, epoch: int = 5, cluster: str | None = "c") -> Ask:
    return Ask(ID, position, max_bytes, epoch, cluster)


# --- The server ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", Dialect)
def test_bytes_from_a_position(dialect: Dialect) -> None:
    assert fetch_snapshot(server(), ask(3), dialect) == Piece(None, ID, 10, 3, b"3456", True)
    assert fetch_snapshot(server(), ask(6), dialect) == Piece(None, ID, 10, 6, b"6789", False)
    assert fetch_snapshot(server(), ask(9), dialect) == Piece(None, ID, 10, 9, b"9", False)


@pytest.mark.parametrize(
    ("position", "v19", "adopted", "shipped"),
    [
        (-1, "OFFSET_OUT_OF_RANGE", "POSITION_OUT_OF_RANGE", "POSITION_OUT_OF_RANGE"),
        (9, None, None, None),
        (10, None, None, "POSITION_OUT_OF_RANGE"),
        (11, "OFFSET_OUT_OF_RANGE", "POSITION_OUT_OF_RANGE", "POSITION_OUT_OF_RANGE"),
    ],
)
def test_the_last_position(
    position: int, v19: str | None, adopted: str | None, shipped: str | None
) -> None:
    """Both texts of KIP-630 refuse a position greater than the size, Kafka the size too."""
    found = [fetch_snapshot(server(), ask(position), one).error for one in (V19, ADOPTED, SHIPPED)]
    assert found == [v19, adopted, shipped]


def test_who_may_be_asked() -> None:
    assert fetch_snapshot(server(), ask(epoch=4)).error == "FENCED_LEADER_EPOCH"
    assert fetch_snapshot(server(), ask(epoch=6)).error == "UNKNOWN_LEADER_EPOCH"
    assert fetch_snapshot(server(), ask(cluster="other")).error == "INCONSISTENT_CLUSTER_ID"
    assert fetch_snapshot(server(), ask(cluster=None)).error is None
    for dialect in Dialect:
        follower = server(is_leader=False)
        assert fetch_snapshot(follower, ask(), dialect).error == "NOT_LEADER_OR_FOLLOWER"
    # KIP-630 version 19 sends neither.
    assert fetch_snapshot(server(), ask(epoch=4, cluster="other"), V19).error is None


def test_which_snapshots_there_are() -> None:
    other = ask()._replace(snapshot=SnapshotId(3, 1587))
    for dialect in Dialect:
        assert fetch_snapshot(server(), other, dialect).error == "SNAPSHOT_NOT_FOUND"
    bootstrap = Server({BOOTSTRAP: Memory(b"abc")}, 5)
    request = Ask(BOOTSTRAP, 0, 9, 5)
    assert fetch_snapshot(bootstrap, request, ADOPTED).content == b"abc"
    assert fetch_snapshot(bootstrap, request).error == "SNAPSHOT_NOT_FOUND"


def test_beyond_two_gibibytes() -> None:
    large = Server({ID: Large()}, 5)
    at = (1 << 31) - 1
    assert fetch_snapshot(large, Ask(ID, at, 4, 5)).error is None
    assert fetch_snapshot(large, Ask(ID, at + 1, 4, 5)).error == "UNKNOWN_SERVER_ERROR"
    assert fetch_snapshot(large, Ask(ID, at + 1, 4, 5), ADOPTED).error is None


def test_error_codes() -> None:
    """KIP-630 "FetchSnapshot": the codes of today's Kafka."""
    wanted = {98: "SNAPSHOT_NOT_FOUND", 99: "POSITION_OUT_OF_RANGE", 6: "NOT_LEADER_OR_FOLLOWER"}
    wanted |= {
        104: "INCONSISTENT_CLUSTER_ID",
        74: "FENCED_LEADER_EPOCH",
        75: "UNKNOWN_LEADER_EPOCH",
    }
    assert wanted.items() <= {code: name for name, code in ERROR_CODES.items()}.items()
    assert fetch_snapshot(server(), ask(99)).error_code == 99
    assert fetch_snapshot(server(), ask()).error_code == 0


def test_a_server_has_its_own_limit() -> None:
    """KIP-630 "FetchSnapshot": ResponseMaxBytes is the lesser of the request's and the server's."""
    assert fetch_snapshot(server(limit_bytes=3), ask(), ADOPTED).content == b"012"
    assert fetch_snapshot(server(limit_bytes=9), ask(), ADOPTED).content == b"0123"
    assert fetch_snapshot(server(limit_bytes=3), ask()).content == b"0123"


def test_several_partitions_share_a_response() -> None:
    """KIP-630 "FetchSnapshot": 12 bytes for three: the one with 2 left leaves 2 to the others."""
    small, large = SnapshotId(1, 5), SnapshotId(1, 9)
    found = fetch_snapshots(
        Server({small: Memory(b"ab"), large: Memory(b"x" * 50)}, 5),
        [Ask(large, 0, 0, 5), Ask(small, 0, 0, 5), Ask(large, 10, 0, 5), Ask(small, 9, 0, 5)],
        12,
    )
    assert [len(one.content) for one in found] == [5, 2, 5, 0]
    assert [one.error for one in found] == [None, None, None, "POSITION_OUT_OF_RANGE"]
    assert [one.has_more for one in found] == [True, False, True, False]


@pytest.mark.parametrize(
    ("own", "asked", "sizes"), [(None, 9, [7, 2]), (4, 9, [2, 2]), (9, 4, [2, 2])]
)
def test_a_share_is_what_is_left_within_both_limits(
    own: int | None, asked: int, sizes: list[int]
) -> None:
    """Of one snapshot 2 bytes are left, which gives the other what the first does not need."""
    one, other = SnapshotId(1, 5), SnapshotId(1, 9)
    held = Server({one: Memory(b"x" * 50), other: Memory(b"y" * 50)}, 5, limit_bytes=own)
    found = fetch_snapshots(held, [Ask(one, 0, 0, 5), Ask(other, 48, 0, 5)], asked)
    assert [len(piece.content) for piece in found] == sizes
    assert [piece.position for piece in found] == [0, 48]


def test_shares() -> None:
    assert shares(12, [50, 2, 50]) == [5, 2, 5]
    assert shares(10, [50, 50, 50]) == [3, 3, 4]
    assert shares(1, [50, 50, 50]) == [0, 0, 1]
    assert shares(0, [1]) == [0]
    assert shares(100, [1, 0, 3]) == [1, 0, 3]
    assert shares(7, []) == []


# --- The two planners ---------------------------------------------------------------------------


def test_a_snapshot_is_cut_anywhere() -> None:
    assert list(snapshot_chunks(10, 4)) == [Span(0, 4), Span(4, 4), Span(8, 2)]
    assert list(snapshot_chunks(8, 4)) == [Span(0, 4), Span(4, 4)]
    assert list(snapshot_chunks(10, 4, position=7)) == [Span(7, 3)]
    assert list(snapshot_chunks(0, 4)) == []
    with pytest.raises(UsageError, match="at least 1 byte"):
        list(snapshot_chunks(10, 0))


def test_a_log_is_cut_at_batches_and_never_empty() -> None:
    sizes = np.array([70, 100, 300, 80, 80], np.int64)
    assert list(log_chunks(sizes, 1)) == [
        Span(0, 70),
        Span(70, 100),
        Span(170, 300),
        Span(470, 80),
        Span(550, 80),
    ]
    assert list(log_chunks(sizes, 170)) == [Span(0, 170), Span(170, 300), Span(470, 160)]
    assert list(log_chunks(sizes, 169))[:2] == [Span(0, 70), Span(70, 100)]
    assert list(log_chunks(sizes, 1 << 20)) == [Span(0, 630)]
    assert list(log_chunks(np.array([], np.int64), 1)) == []


# --- The assembler ------------------------------------------------------------------------------


def live() -> Server:
    return Server({ID: Memory(LIVE.read_bytes())}, 5, cluster_id="c")


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("max_bytes", [701, 1 << 20])
def test_a_snapshot_arrives_whole(tmp_path: Path, dialect: Dialect, max_bytes: int) -> None:
    asked: list[Ask] = []

    def answer(request: Ask) -> Piece:
        asked.append(request)
        return fetch_snapshot(live(), request, dialect)

    folder = tmp_path / "new" / "folder"
    found = transfer(Assembler(folder, ID, dialect), answer, max_bytes, 5)
    assert found.name == LIVE.name
    assert found.read_bytes() == LIVE.read_bytes()
    assert [path.name for path in folder.iterdir()] == [LIVE.name]
    assert found.stat().st_mode & 0o077 == 0
    # KIP-1219: the setting is what every request asks for; the planner foretells the rest.
    assert {one.max_bytes for one in asked} == {max_bytes}
    spans = snapshot_chunks(LIVE.stat().st_size, max_bytes)
    assert [one.position for one in asked] == [span.position for span in spans]


@pytest.mark.parametrize("version", [0, 1])
def test_a_snapshot_arrives_over_the_wire(tmp_path: Path, version: int) -> None:
    """KIP-630 "FetchSnapshot": nothing but the bytes of Kafka's messages goes between the two."""

    def answer(request: Ask) -> Piece:
        asked = decode_ask(encode_ask(request, version), version)
        raw = encode_piece(fetch_snapshot(live(), asked), 3, 5, version)
        return decode_piece(raw, version)

    assert transfer(Assembler(tmp_path, ID), answer, 1000, 5).read_bytes() == LIVE.read_bytes()


@pytest.mark.parametrize(
    "piece",
    [
        Piece(None, ID, 10, 4, b"4567", True),
        Piece(None, ID, 10, 8, b"89", False),
        Piece("POSITION_OUT_OF_RANGE", ID),
        Piece("SNAPSHOT_NOT_FOUND", ID),
        Piece("INCONSISTENT_CLUSTER_ID", SnapshotId(-1, -1)),
    ],
)
def test_pieces_as_messages(piece: Piece) -> None:
    assert decode_piece(encode_piece(piece, 3, 5)) == piece


def test_messages_about_something_else_are_refused() -> None:
    request = Ask(ID, 7, 1 << 20, 5, "c")
    assert decode_ask(encode_ask(request)) == request
    with pytest.raises(DecodeError, match="follow the message"):
        decode_ask(encode_ask(request) + b"x")
    with pytest.raises(DecodeError, match="one partition of __cluster_metadata") as told:
        decode_ask(encode_ask(request).replace(b"__cluster_metadata", b"__another_metadata"))
    assert (told.value.kind, told.value.position) == ("topic", 0)


def test_two_limits_and_a_crash_between(tmp_path: Path) -> None:
    """KIP-1219: a node that starts again with another limit goes on where the .part ends."""
    first = Assembler(tmp_path, ID)
    for _ in range(3):
        assert first.take(fetch_snapshot(live(), first.ask(1000, 5))) is None
    second = Assembler(tmp_path, ID)
    assert second.position == 3000
    assert transfer(second, lambda one: fetch_snapshot(live(), one), 77, 5).read_bytes() == (
        LIVE.read_bytes()
    )


def test_what_a_request_asks_for(tmp_path: Path) -> None:
    one = Assembler(tmp_path, ID)
    one.take(Piece(None, ID, 10, 0, b"0123", True))
    assert one.ask(1000, 5, "c") == Ask(ID, 4, 1000, 5, "c")
    assert one.ask(1000, 5).cluster_id is None


def test_a_crash_before_the_renaming(tmp_path: Path) -> None:
    one = Assembler(tmp_path, ID)
    one.part.write_bytes(LIVE.read_bytes())
    # Kafka's leader has no byte at this position; version 19 and the adopted text answer with none.
    assert fetch_snapshot(live(), one.ask(9, 5)).error == "POSITION_OUT_OF_RANGE"
    assert transfer(one, lambda ask: pytest.fail(f"asked {ask}"), 9, 5) == one.target
    assert transfer(one, lambda ask: pytest.fail(f"asked {ask}"), 9, 5) == one.target
    assert not one.part.exists()


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    one = Assembler(tmp_path, ID)
    one.take(Piece(None, ID, 10, 0, b"0123", True))
    for piece, words in (
        (Piece(None, ID, 10, 5, b"5", True), "byte 5, and 4 is next"),
        (Piece(None, ID, 10, 3, b"3", True), "byte 3, and 4 is next"),
        (Piece(None, ID, 10, 4, b"456789x", False), "11 bytes are more than its 10"),
        (Piece(None, SnapshotId(1, 1), 10, 4, b"4", True), "another snapshot"),
        (Piece("SNAPSHOT_NOT_FOUND", ID), "SNAPSHOT_NOT_FOUND; fetch_from_own_log_end"),
    ):
        with pytest.raises(AssemblyError, match=words):
            one.take(piece)
        assert one.part.read_bytes() == b"0123"
    with pytest.raises(AssemblyError, match="no progress"):
        transfer(one, lambda ask: Piece(None, ID, 10, ask.position, b"", True), 4, 5)


def test_a_damaged_whole_is_not_renamed(tmp_path: Path) -> None:
    damaged = bytearray(LIVE.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    source = Server({ID: Memory(bytes(damaged))}, 5)
    one = Assembler(tmp_path, ID)
    with pytest.raises(AssemblyError, match="fetched again"):
        transfer(one, lambda ask: fetch_snapshot(source, ask), 1000, 5)
    assert list(tmp_path.iterdir()) == []
    # Version 19 validates nothing: the damage becomes a snapshot.
    old = Assembler(tmp_path, ID, V19)
    found = transfer(old, lambda ask: fetch_snapshot(source, ask, V19), 1000, 5)
    assert found.read_bytes() == bytes(damaged)


def test_a_footer_is_asked_for(tmp_path: Path) -> None:
    part = tmp_path / f"{LIVE.name}.part"
    part.write_bytes(LIVE.read_bytes())
    assert why_invalid(part) is None
    part.write_bytes(LIVE.read_bytes()[:-1])
    assert why_invalid(part) is not None


def test_the_flag_of_version_19_ends_a_transfer(tmp_path: Path) -> None:
    """KIP-630 v19 "FetchSnapshot": Continue, and no size."""
    one = Assembler(tmp_path, ID, V19)
    assert one.take(Piece(None, ID, 0, 0, b"ab", True)) is None
    found = one.take(Piece(None, ID, 0, 2, b"", False))
    assert found is not None
    assert found.read_bytes() == b"ab"


@pytest.mark.parametrize(
    ("error", "v19", "adopted"),
    [
        ("SNAPSHOT_NOT_FOUND", Recovery.FETCH_FROM_ZERO, Recovery.FETCH_AGAIN),
        ("OFFSET_OUT_OF_RANGE", Recovery.FETCH_FROM_ZERO, Recovery.FETCH_AGAIN),
        ("POSITION_OUT_OF_RANGE", Recovery.FETCH_FROM_ZERO, Recovery.FETCH_AGAIN),
        ("NOT_LEADER_OR_FOLLOWER", Recovery.FETCH_FROM_ZERO, Recovery.FETCH_AGAIN),
        ("FENCED_LEADER_EPOCH", Recovery.FIND_LEADER, Recovery.FIND_LEADER),
        ("INCONSISTENT_CLUSTER_ID", Recovery.STOP, Recovery.STOP),
    ],
)
def test_after_an_error(error: str, v19: Recovery, adopted: Recovery) -> None:
    """KIP-630 "FetchSnapshot", as adopted and in version 19."""
    assert recovery(error, V19) == v19
    assert recovery(error, ADOPTED) == recovery(error, SHIPPED) == adopted
