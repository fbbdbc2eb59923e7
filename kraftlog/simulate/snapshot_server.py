"""What a leader answers to FetchSnapshot: a piece of a snapshot, or an error.

In: a node, its snapshots' bytes, and one request. Out: a `Piece` per partition. Pure but for the
reads of the snapshots. Source: KIP-630 "Fetching Snapshots" in version 19 and as adopted; Kafka
4.3.1's KafkaRaftClient.handleFetchSnapshotRequest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kraftlog.simulate.chunks import shares
from kraftlog.simulate.extent import BOOTSTRAP, SnapshotId
from kraftlog.simulate.fetch import Dialect, validate_leader

ERROR_CODES = {
    "UNKNOWN_SERVER_ERROR": -1,
    "NONE": 0,
    "OFFSET_OUT_OF_RANGE": 1,
    "NOT_LEADER_OR_FOLLOWER": 6,
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

LARGEST_POSITION = (1 << 31) - 1
"""Kafka slices a snapshot by 32-bit positions: what lies beyond 2 GiB cannot be fetched."""


class Bytes(Protocol):
    """A snapshot's file, as `log.storage` opens it."""

    size_bytes: int

    def read(self, position: int, size_bytes: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Server:
    """The node that is asked. `limit_bytes` is its own limit of one response (adopted text:
    replica.fetch.response.max.bytes); Kafka ships none.
    """

    snapshots: Mapping[SnapshotId, Bytes]
    leader_epoch: int
    is_leader: bool = True
    cluster_id: str | None = None
    limit_bytes: int | None = None


class Ask(NamedTuple):
    """One FetchSnapshot request for one partition."""

    snapshot: SnapshotId
    position: int
    max_bytes: int
    current_leader_epoch: int
    cluster_id: str | None = None


class Piece(NamedTuple):
    """The answer for one partition: an error's name (None for none), or bytes at a position of a
    snapshot of `size_bytes`. `has_more` is version 19's Continue, which has no size.
    """

    error: str | None
    snapshot: SnapshotId
    size_bytes: int = 0
    position: int = 0
    content: bytes = b""
    has_more: bool = False

    @property
    def error_code(self) -> int:
        return ERROR_CODES[self.error or "NONE"]


def fetch_snapshot(server: Server, ask: Ask, dialect: Dialect = Dialect.SHIPPED) -> Piece:
    """Answer for one partition, with exactly as many bytes as were asked for while there are as
    many: a snapshot is not cut at its batches.
    """
    refused = refusal(server, ask, dialect)
    if refused is not None:
        return Piece(refused, ask.snapshot)
    limit = ask.max_bytes
    if dialect == Dialect.ADOPTED and server.limit_bytes is not None:
        limit = min(limit, server.limit_bytes)
    return _piece(server, ask, limit)


def fetch_snapshots(server: Server, asks: Sequence[Ask], max_bytes: int) -> list[Piece]:
    """Answer for several partitions in one response, as adopted: what one needs less than the
    average is given to the others. Kafka ships a server of one partition only.
    """
    limit = max_bytes if server.limit_bytes is None else min(max_bytes, server.limit_bytes)
    refused = [refusal(server, ask, Dialect.ADOPTED) for ask in asks]
    left = [
        0 if error else server.snapshots[ask.snapshot].size_bytes - ask.position
        for ask, error in zip(asks, refused, strict=True)
    ]
    return [
        Piece(error, ask.snapshot) if error else _piece(server, ask, share)
        for ask, error, share in zip(asks, refused, shares(limit, left), strict=True)
    ]


def _piece(server: Server, ask: Ask, limit: int) -> Piece:
    source = server.snapshots[ask.snapshot]
    content = source.read(ask.position, max(limit, 0))
    has_more = ask.position + len(content) < source.size_bytes
    return Piece(None, ask.snapshot, source.size_bytes, ask.position, content, has_more)


def refusal(server: Server, ask: Ask, dialect: Dialect) -> str | None:
    """The error of a request; None where bytes follow. Version 19 knows neither the cluster's id
    nor the leader's epoch.
    """
    if dialect == Dialect.V19:
        if not server.is_leader:
            return "NOT_LEADER_OR_FOLLOWER"
    else:
        known = ask.cluster_id is None or ask.cluster_id == server.cluster_id
        error = validate_leader(
            server.is_leader, server.leader_epoch, ask.current_leader_epoch, known
        )
        if error is not None:
            return error
    source = server.snapshots.get(ask.snapshot)
    if source is None or (dialect == Dialect.SHIPPED and ask.snapshot == BOOTSTRAP):
        return "SNAPSHOT_NOT_FOUND"
    return _bad_position(ask.position, source.size_bytes, dialect)


def _bad_position(position: int, size_bytes: int, dialect: Dialect) -> str | None:
    """Both texts refuse only what is greater than the size; Kafka also the size itself."""
    beyond = position >= size_bytes if dialect == Dialect.SHIPPED else position > size_bytes
    if position < 0 or beyond:
        return "OFFSET_OUT_OF_RANGE" if dialect == Dialect.V19 else "POSITION_OUT_OF_RANGE"
    if dialect == Dialect.SHIPPED and position > LARGEST_POSITION:
        return "UNKNOWN_SERVER_ERROR"
    return None
