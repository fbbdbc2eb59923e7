"""What a leader sends and reads, for tests that stand in for one: kraftlog itself only asks.

In: a replica's files and a request. Out: a piece, or the messages of Kafka's own protocol. Source:
KIP-595, KIP-630 "Fetch" and "FetchSnapshot"; Kafka's KafkaRaftClient.validateLeaderOnlyRequest,
buildFetchResponse and handleFetchSnapshotRequest.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kraftlog.decode.interpreter import read_message
from kraftlog.log.names import METADATA_TOPIC_ID
from kraftlog.message.catalogue import request_specs
from kraftlog.pull.messages import (
    FETCH_SNAPSHOT,
    PARTITION,
    TOPIC,
    piece_of,
    read_answer,
    snapshot_request,
)
from kraftlog.simulate.extent import Extent, SnapshotId
from kraftlog.simulate.fetch import DIVERGING, RECORDS, SNAPSHOT, Answer, Dialect
from kraftlog.simulate.snapshot_server import ERROR_CODES, Ask, Piece, Server, fetch_snapshot
from kraftlog.state.encode import encode_message

_TOP_LEVEL = frozenset({"INCONSISTENT_CLUSTER_ID", "INVALID_REQUEST"})
"""Errors of the whole request, which name no partition."""


class Bytes(Protocol):
    """A snapshot's file, as `log.storage` opens it."""

    @property
    def size_bytes(self) -> int: ...

    def read(self, position: int, size_bytes: int) -> bytes: ...


class Memory:
    """A snapshot's bytes, at hand."""

    def __init__(self, content: bytes) -> None:
        self._content, self.size_bytes = content, len(content)

    def read(self, position: int, size_bytes: int) -> bytes:
        return self._content[position : position + size_bytes]


@dataclass(frozen=True)
class Leader:
    """The files that a node serves by the rules of `kraftlog.simulate`."""

    files: Mapping[SnapshotId, Bytes]
    leader_epoch: int = 5
    cluster_id: str | None = None

    def piece(self, ask: Ask, dialect: Dialect = Dialect.SHIPPED) -> Piece:
        same = ask.cluster_id in (None, self.cluster_id)
        error = validate_leader(self.leader_epoch, ask.current_leader_epoch, same)
        if error is not None:
            return Piece(error, ask.snapshot)
        sizes = {name: file.size_bytes for name, file in self.files.items()}
        error, span, _ = fetch_snapshot(Server(sizes), ask, dialect)
        if error is not None:
            return Piece(error, ask.snapshot)
        content = self.files[ask.snapshot].read(*span)
        return Piece(None, ask.snapshot, sizes[ask.snapshot], span.position, content)


def validate_leader(
    leader_epoch: int, current_leader_epoch: int, same_cluster: bool = True
) -> str | None:
    """The error of a request of another cluster or epoch; None where it is of this one."""
    if not same_cluster:
        return "INCONSISTENT_CLUSTER_ID"
    if current_leader_epoch < leader_epoch:
        return "FENCED_LEADER_EPOCH"
    return "UNKNOWN_LEADER_EPOCH" if current_leader_epoch > leader_epoch else None


def encode_ask(ask: Ask, version: int = 1) -> bytes:
    """What kraftlog sends."""
    return encode_message(request_specs()[FETCH_SNAPSHOT][0].at(version), snapshot_request(ask))


def decode_piece(raw: bytes, version: int = 1) -> Piece:
    """What kraftlog reads."""
    return piece_of(read_answer(FETCH_SNAPSHOT, version, raw))


def decode_ask(raw: bytes, version: int = 1) -> Ask:
    """The request for the metadata partition."""
    message, unknown, sizes, end = read_message(
        request_specs()[FETCH_SNAPSHOT][0].at(version), raw, 0, len(raw)
    )
    (topic,) = message["topics"]
    (one,) = topic["partitions"]
    assert (unknown, sizes, end) == ([], [], len(raw))
    assert (topic["name"], one["partition"]) == (TOPIC, PARTITION)
    snapshot = SnapshotId(one["snapshotId"]["epoch"], one["snapshotId"]["endOffset"])
    of = (message["maxBytes"], one["currentLeaderEpoch"], message["clusterId"])
    return Ask(snapshot, one["position"], *of)


def encode_piece(piece: Piece, leader_id: int, leader_epoch: int, version: int = 1) -> bytes:
    """A response, with who leads."""
    code = piece.error_code
    whole = piece.error in _TOP_LEVEL
    partition = {
        "index": PARTITION,
        "errorCode": code,
        "snapshotId": {
            "endOffset": piece.snapshot.end_offset,
            "epoch": piece.snapshot.epoch,
        },
        "size": piece.size_bytes,
        "position": piece.position,
        "unalignedRecords": b64encode(piece.content).decode(),
        "currentLeader": {"leaderId": leader_id, "leaderEpoch": leader_epoch},
    }
    message = {
        "throttleTimeMs": 0,
        "errorCode": code if whole else 0,
        "topics": [] if whole else [{"name": TOPIC, "partitions": [partition]}],
        "nodeEndpoints": [],
    }
    return encode_message(request_specs()[FETCH_SNAPSHOT][1].at(version), message)


def fetch_response(
    answer: Answer,
    leader: Extent,
    leader_id: int,
    leader_epoch: int,
    high_watermark: int | None,
    records: bytes = b"",
) -> dict[str, Any]:
    """The response that carries an answer; `records` are the batches of one that has any.

    A leader without a high watermark yet says −1, and a field that is not set keeps its default.
    """
    error = ERROR_CODES.get(answer.kind, 0)
    whole = answer.kind in _TOP_LEVEL
    partition: dict[str, Any] = {
        "partitionIndex": 0,
        "errorCode": error,
        "highWatermark": -1 if high_watermark is None or error else high_watermark,
        "lastStableOffset": -1,
        "logStartOffset": -1 if error else leader.start_offset,
        "abortedTransactions": None,
        "preferredReadReplica": -1,
        "records": b64encode(records if answer.kind == RECORDS else b"").decode(),
        "divergingEpoch": {"epoch": -1, "endOffset": -1},
        "currentLeader": {"leaderId": leader_id, "leaderEpoch": leader_epoch},
        "snapshotId": {"endOffset": -1, "epoch": -1},
    }
    if answer.kind == DIVERGING and answer.diverging is not None:
        partition["divergingEpoch"] = {
            "epoch": answer.diverging.epoch,
            "endOffset": answer.diverging.end_offset,
        }
    if answer.kind == SNAPSHOT and answer.snapshot is not None:
        partition["snapshotId"] = {
            "endOffset": answer.snapshot.end_offset,
            "epoch": answer.snapshot.epoch,
        }
    topic = {"topic": TOPIC, "topicId": METADATA_TOPIC_ID, "partitions": [partition]}
    return {
        "throttleTimeMs": 0,
        "errorCode": error if whole else 0,
        "sessionId": 0,
        "responses": [] if whole else [topic],
        "nodeEndpoints": [],
    }
