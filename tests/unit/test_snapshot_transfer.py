"""FetchSnapshot: every answer and boundary, the division of a response, and the assembler (KIP-630
"FetchSnapshot" as adopted and in version 19, KIP-1219).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kraftlog.errors import DecodeError
from kraftlog.pull.puller import (
    Assembler,
    AssemblyError,
    transfer,
    why_invalid,
)
from kraftlog.simulate.extent import BOOTSTRAP, SnapshotId
from kraftlog.simulate.fetch import Dialect, Span, log_chunks
from kraftlog.simulate.snapshot_server import (
    ERROR_CODES,
    Ask,
    Piece,
    Recovery,
    Reply,
    Server,
    fetch_snapshot,
    recovery,
)
from tests.golden.cases import Replica
from tests.leader_messages import Leader, Memory, decode_ask, decode_piece, encode_ask, encode_piece

LIVE = Replica("steady-live", "1").file("00000000000000001587-0000000004.checkpoint")
ID = SnapshotId(4, 1587)
V19, ADOPTED, SHIPPED = Dialect.V19, Dialect.ADOPTED, Dialect.SHIPPED
TEN = Server({ID: 10})


def ask(position: int = 0, max_bytes: int = 4) -> Ask:
    return Ask(ID, position, max_bytes, 5)


# --- The server ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", Dialect)
def test_bytes_from_a_position(dialect: Dialect) -> None:
    assert fetch_snapshot(TEN, ask(3), dialect) == Reply(None, Span(3, 4), True)
    assert fetch_snapshot(TEN, ask(6), dialect) == Reply(None, Span(6, 4), False)
    assert fetch_snapshot(TEN, ask(9), dialect) == Reply(None, Span(9, 1), False)


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
    found = [fetch_snapshot(TEN, ask(position), one).error for one in (V19, ADOPTED, SHIPPED)]
    assert found == [v19, adopted, shipped]


def test_which_snapshots_there_are() -> None:
    other = ask()._replace(snapshot=SnapshotId(3, 1587))
    for dialect in Dialect:
        assert fetch_snapshot(TEN, other, dialect).error == "SNAPSHOT_NOT_FOUND"
    bootstrap, request = Server({BOOTSTRAP: 3}), Ask(BOOTSTRAP, 0, 9, 5)
    assert fetch_snapshot(bootstrap, request, ADOPTED).span == Span(0, 3)
    assert fetch_snapshot(bootstrap, request).error == "SNAPSHOT_NOT_FOUND"


def test_beyond_two_gibibytes() -> None:
    large, at = Server({ID: 3 << 30}), (1 << 31) - 1
    assert fetch_snapshot(large, ask(at)).error is None
    assert fetch_snapshot(large, ask(at + 1)).error == "UNKNOWN_SERVER_ERROR"
    assert fetch_snapshot(large, ask(at + 1), ADOPTED).error is None


def test_error_codes() -> None:
    """KIP-630 "FetchSnapshot": the codes of today's Kafka."""
    wanted = {98: "SNAPSHOT_NOT_FOUND", 99: "POSITION_OUT_OF_RANGE", 6: "NOT_LEADER_OR_FOLLOWER"}
    wanted |= {
        104: "INCONSISTENT_CLUSTER_ID",
        74: "FENCED_LEADER_EPOCH",
        75: "UNKNOWN_LEADER_EPOCH",
    }
    assert wanted.items() <= {code: name for name, code in ERROR_CODES.items()}.items()


def test_a_server_has_its_own_limit() -> None:
    """KIP-630 "FetchSnapshot": ResponseMaxBytes is the lesser of the request's and the server's."""
    for limit, adopted in ((3, 3), (9, 4)):
        server = Server({ID: 10}, limit)
        assert fetch_snapshot(server, ask(), ADOPTED).span == Span(0, adopted)
        assert fetch_snapshot(server, ask()).span == Span(0, 4)


# --- The log ------------------------------------------------------------------------------------


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


def live() -> Leader:
    return Leader({ID: Memory(LIVE.read_bytes())}, 5, "c")


def pieces(leader: Leader, max_bytes: int) -> Callable[[int], Piece]:
    return lambda position: leader.piece(ask(position, max_bytes))


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("max_bytes", [701, 1 << 20])
def test_a_snapshot_arrives_whole(tmp_path: Path, dialect: Dialect, max_bytes: int) -> None:
    asked: list[int] = []

    def answer(position: int) -> Piece:
        asked.append(position)
        return live().piece(ask(position, max_bytes), dialect)

    folder = tmp_path / "new" / "folder"
    found = transfer(Assembler(folder, ID), answer)
    assert found.name == LIVE.name
    assert found.read_bytes() == LIVE.read_bytes()
    assert [path.name for path in folder.iterdir()] == [LIVE.name]
    assert found.stat().st_mode & 0o077 == 0
    assert asked == list(range(0, LIVE.stat().st_size, max_bytes))


@pytest.mark.parametrize("version", [0, 1])
def test_a_snapshot_arrives_over_the_wire(tmp_path: Path, version: int) -> None:
    """KIP-630 "FetchSnapshot": nothing but the bytes of Kafka's messages goes between the two."""

    def answer(position: int) -> Piece:
        asked = decode_ask(encode_ask(ask(position, 1000), version), version)
        raw = encode_piece(live().piece(asked), 3, 5, version)
        return decode_piece(raw, version)

    assert transfer(Assembler(tmp_path, ID), answer).read_bytes() == LIVE.read_bytes()


@pytest.mark.parametrize(
    "piece",
    [
        Piece(None, ID, 10, 4, b"4567"),
        Piece(None, ID, 10, 8, b"89"),
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
    raw = encode_piece(Piece(None, ID, 10, 4, b"4567"), 3, 5)
    with pytest.raises(DecodeError, match="follow the message"):
        decode_piece(raw + b"x")
    with pytest.raises(DecodeError, match="partition 0 of __cluster_metadata") as told:
        decode_piece(raw.replace(b"__cluster_metadata", b"__another_metadata"))
    assert (told.value.kind, told.value.position) == ("topic", 0)


def test_two_limits_and_a_crash_between(tmp_path: Path) -> None:
    """KIP-1219: a node that starts again with another limit goes on where the .part ends."""
    first = Assembler(tmp_path, ID)
    for _ in range(3):
        assert first.take(live().piece(ask(first.position, 1000))) is None
    second = Assembler(tmp_path, ID)
    assert second.position == 3000
    assert transfer(second, pieces(live(), 77)).read_bytes() == LIVE.read_bytes()


def test_a_crash_before_the_renaming(tmp_path: Path) -> None:
    one = Assembler(tmp_path, ID)
    one.part.write_bytes(LIVE.read_bytes())
    # Kafka's leader has no byte at this position; version 19 and the adopted text answer with none.
    assert live().piece(ask(one.position, 9)).error == "POSITION_OUT_OF_RANGE"
    assert transfer(one, lambda at: pytest.fail(f"asked at {at}")) == one.target
    assert transfer(one, lambda at: pytest.fail(f"asked at {at}")) == one.target
    assert not one.part.exists()


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    one = Assembler(tmp_path, ID)
    one.take(Piece(None, ID, 10, 0, b"0123"))
    for piece, words in (
        (Piece(None, ID, 10, 5, b"5"), "byte 5, and 4 is next"),
        (Piece(None, ID, 10, 3, b"3"), "byte 3, and 4 is next"),
        (Piece(None, ID, 10, 4, b"456789x"), "11 bytes are more than its 10"),
        (Piece(None, SnapshotId(1, 1), 10, 4, b"4"), "another snapshot"),
        (Piece("SNAPSHOT_NOT_FOUND", ID), "the leader answered SNAPSHOT_NOT_FOUND"),
    ):
        with pytest.raises(AssemblyError, match=words):
            one.take(piece)
        assert one.part.read_bytes() == b"0123"
    with pytest.raises(AssemblyError, match="brings nothing new"):
        transfer(one, lambda at: Piece(None, ID, 10, at, b""))


def test_a_damaged_whole_is_not_renamed(tmp_path: Path) -> None:
    damaged = bytearray(LIVE.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    source = Leader({ID: Memory(bytes(damaged))}, 5)
    one = Assembler(tmp_path, ID)
    with pytest.raises(AssemblyError, match="fetched again"):
        transfer(one, pieces(source, 1000))
    assert list(tmp_path.iterdir()) == []


def test_a_footer_is_asked_for(tmp_path: Path) -> None:
    part = tmp_path / f"{LIVE.name}.part"
    part.write_bytes(LIVE.read_bytes())
    assert why_invalid(part) is None
    part.write_bytes(LIVE.read_bytes()[:-1])
    assert why_invalid(part) is not None


@pytest.mark.parametrize(
    ("error", "v19", "adopted", "shipped"),
    [
        (
            "SNAPSHOT_NOT_FOUND",
            Recovery.FETCH_FROM_ZERO,
            Recovery.FETCH_AGAIN,
            Recovery.FETCH_AGAIN,
        ),
        ("OFFSET_OUT_OF_RANGE", Recovery.FETCH_FROM_ZERO, Recovery.FETCH_AGAIN, Recovery.ASK_AGAIN),
        (
            "POSITION_OUT_OF_RANGE",
            Recovery.FETCH_FROM_ZERO,
            Recovery.FETCH_AGAIN,
            Recovery.ASK_AGAIN,
        ),
        (
            "NOT_LEADER_OR_FOLLOWER",
            Recovery.FETCH_FROM_ZERO,
            Recovery.FETCH_AGAIN,
            Recovery.FIND_LEADER,
        ),
        ("FENCED_LEADER_EPOCH", Recovery.FIND_LEADER, Recovery.FIND_LEADER, Recovery.FIND_LEADER),
        ("UNKNOWN_SERVER_ERROR", Recovery.ASK_AGAIN, Recovery.ASK_AGAIN, Recovery.ASK_AGAIN),
        ("INCONSISTENT_CLUSTER_ID", Recovery.ASK_AGAIN, Recovery.ASK_AGAIN, Recovery.ASK_AGAIN),
        ("INVALID_REQUEST", Recovery.STOP, Recovery.STOP, Recovery.STOP),
        ("CLUSTER_AUTHORIZATION_FAILED", Recovery.STOP, Recovery.STOP, Recovery.STOP),
    ],
)
def test_after_an_error(error: str, v19: Recovery, adopted: Recovery, shipped: Recovery) -> None:
    """KIP-630 "FetchSnapshot", as adopted and in version 19; Kafka's handleFetchSnapshotResponse
    looks for SNAPSHOT_NOT_FOUND alone, and handleTopLevelError repeats what it does not know.
    """
    found = [recovery(error, one) for one in (V19, ADOPTED, SHIPPED)]
    assert found == [v19, adopted, shipped]
