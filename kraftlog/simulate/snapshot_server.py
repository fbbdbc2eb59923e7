"""What a leader answers to FetchSnapshot: which bytes of a snapshot, or an error; and what its
follower does after one.

In: the sizes of a leader's snapshots, and one request. Out: a `Reply`. Pure. Source: KIP-630
"Fetching Snapshots" in version 19 and as adopted; of Kafka 4.3.1
KafkaRaftClient.handleFetchSnapshotRequest, handleFetchSnapshotResponse, maybeHandleCommonResponse
and handleTopLevelError.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kraftlog.log.names import FILE_LIMIT_BYTES
from kraftlog.simulate.extent import BOOTSTRAP, SnapshotId
from kraftlog.simulate.fetch import Dialect, Span

ERROR_CODES = {
    "UNKNOWN_SERVER_ERROR": -1,
    "NONE": 0,
    "OFFSET_OUT_OF_RANGE": 1,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "BROKER_NOT_AVAILABLE": 8,
    "CLUSTER_AUTHORIZATION_FAILED": 31,
    "INVALID_REQUEST": 42,
    "FENCED_LEADER_EPOCH": 74,
    "UNKNOWN_LEADER_EPOCH": 75,
    "OFFSET_NOT_AVAILABLE": 78,
    "SNAPSHOT_NOT_FOUND": 98,
    "POSITION_OUT_OF_RANGE": 99,
    "INCONSISTENT_CLUSTER_ID": 104,
}
"""Kafka's codes of the errors that these protocols know. NOT_LEADER_FOR_PARTITION of the KIP is
today's NOT_LEADER_OR_FOLLOWER.
"""

GONE = "SNAPSHOT_NOT_FOUND"
ERROR_NAMES = {code: name for name, code in ERROR_CODES.items()}


@dataclass(frozen=True, slots=True)
class Server:
    """A leader's snapshots and their sizes in bytes. `limit_bytes` is its own limit of one response
    (adopted text: replica.fetch.response.max.bytes); Kafka ships none.
    """

    sizes: Mapping[SnapshotId, int]
    limit_bytes: int | None = None


class Ask(NamedTuple):
    """One FetchSnapshot request for one partition."""

    snapshot: SnapshotId
    position: int
    max_bytes: int
    current_leader_epoch: int
    cluster_id: str | None = None


class Reply(NamedTuple):
    """What a leader grants: an error's name (None for none), or these bytes of the snapshot.
    `has_more` is version 19's Continue; the adopted text sends the snapshot's size instead.
    """

    error: str | None
    span: Span = Span(0, 0)
    has_more: bool = False


class Piece(NamedTuple):
    """An answer as it comes: an error's name (None for none), or bytes at a position of a snapshot
    of `size_bytes`.
    """

    error: str | None
    snapshot: SnapshotId
    size_bytes: int = 0
    position: int = 0
    content: bytes = b""

    @property
    def error_code(self) -> int:
        return ERROR_CODES[self.error or "NONE"]


def fetch_snapshot(server: Server, ask: Ask, dialect: Dialect = Dialect.SHIPPED) -> Reply:
    """Exactly as many bytes as are asked for, while there are as many, whatever batch they cut."""
    size = server.sizes.get(ask.snapshot)
    if size is None or (dialect == Dialect.SHIPPED and ask.snapshot == BOOTSTRAP):
        return Reply(GONE)
    error = _bad_position(ask.position, size, dialect)
    if error is not None:
        return Reply(error)
    limit = max(ask.max_bytes, 0)
    if dialect == Dialect.ADOPTED and server.limit_bytes is not None:
        limit = min(limit, server.limit_bytes)
    span = Span(ask.position, min(limit, size - ask.position))
    return Reply(None, span, span.position + span.size_bytes < size)


def _bad_position(position: int, size_bytes: int, dialect: Dialect) -> str | None:
    """Both texts refuse only what is greater than the size; Kafka also the size itself."""
    beyond = position >= size_bytes if dialect == Dialect.SHIPPED else position > size_bytes
    if position < 0 or beyond:
        return "OFFSET_OUT_OF_RANGE" if dialect == Dialect.V19 else "POSITION_OUT_OF_RANGE"
    if dialect == Dialect.SHIPPED and position > FILE_LIMIT_BYTES:
        return "UNKNOWN_SERVER_ERROR"
    return None


class Recovery(StrEnum):
    """What a follower does after an error of a leader: those of FetchSnapshot that KIP-630 names
    send it back to Fetch.
    """

    FETCH_AGAIN = "fetch_from_own_log_end"
    FETCH_FROM_ZERO = "fetch_from_offset_0_epoch_0"
    FIND_LEADER = "find_leader"
    ASK_AGAIN = "same_request_until_the_fetch_timeout"
    STOP = "stop"


_NAMED_BY_THE_KIP = (GONE, "POSITION_OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE", "NOT_LEADER_OR_FOLLOWER")
_RECOVERIES = {
    GONE: Recovery.FETCH_AGAIN,
    "NOT_LEADER_OR_FOLLOWER": Recovery.FIND_LEADER,
    "FENCED_LEADER_EPOCH": Recovery.FIND_LEADER,
    "CLUSTER_AUTHORIZATION_FAILED": Recovery.STOP,
    "INVALID_REQUEST": Recovery.STOP,
}


def recovery(error: str, dialect: Dialect = Dialect.SHIPPED) -> Recovery:
    """By both texts a follower finds out about a newer snapshot by another Fetch; version 19 has
    thrown its log away and begins at 0. Kafka does so after SNAPSHOT_NOT_FOUND alone; it repeats
    what was answered by an error that it does not know.
    """
    if dialect != Dialect.SHIPPED and error in _NAMED_BY_THE_KIP:
        return Recovery.FETCH_FROM_ZERO if dialect == Dialect.V19 else Recovery.FETCH_AGAIN
    return _RECOVERIES.get(error, Recovery.ASK_AGAIN)
