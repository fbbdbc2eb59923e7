"""What a puller asks a controller, and what it is answered, as plain values.

In: numbers, or the bytes of an answer after its header. Out: the fields of a request, or a frozen
value. Every answer is checked for what was asked for: one partition, of the metadata topic. Source:
KIP-595 (Fetch, DescribeQuorum), KIP-630 (SnapshotId, FetchSnapshot as adopted), KIP-853 (directory
ids, endpoints), KIP-919 (DescribeCluster at controllers).
"""

from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kraftlog.decode.interpreter import read_message
from kraftlog.errors import DecodeError
from kraftlog.log.names import METADATA_TOPIC_ID
from kraftlog.message.catalogue import request_specs
from kraftlog.message.message_spec import ZERO_UUID
from kraftlog.pull.address import Address
from kraftlog.quorum.epochs import EpochEnd
from kraftlog.simulate.extent import SnapshotId
from kraftlog.simulate.snapshot_server import ERROR_NAMES, Ask, Piece

Data = dict[str, Any]
FETCH, DESCRIBE_QUORUM, FETCH_SNAPSHOT, DESCRIBE_CLUSTER = 1, 55, 59, 60
FIRST_VERSION = {FETCH: 13, DESCRIBE_QUORUM: 0, FETCH_SNAPSHOT: 0, DESCRIBE_CLUSTER: 1}
"""Fetch names topics by id from 13 on; DescribeCluster at a controller needs 1."""

TOPIC, PARTITION = "__cluster_metadata", 0
OBSERVER = -1
"""ReplicaId of a reader that is no replica: it is answered, and not counted."""
NONE = -1


class Leader(NamedTuple):
    """Who leads, in which epoch; `node_id` is -1 where nobody does."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """A Fetch answer: an error's code (0 for none), and one of records, a divergence, a snapshot.

    `endpoints` says where nodes listen, by their id; `records` may end inside a batch.
    """

    error_code: int
    leader: Leader
    endpoints: dict[int, Address]
    throttle_ms: int = 0
    high_watermark: int = NONE
    log_start_offset: int = NONE
    records: bytes = b""
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """How far a replica is, as the leader knows it; -1 for what it does not know."""

    node_id: int
    directory_id: str | None
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class Description:
    """A DescribeQuorum answer; `listeners` holds (name, address) of nodes by their id."""

    error_code: int
    leader: Leader
    high_watermark: int = NONE
    voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()
    listeners: dict[int, list[tuple[str, Address]]] | None = None

    @property
    def log_end_offset(self) -> int:
        """The leader's own log end; -1 where it is not among the voters."""
        ends = [one.log_end_offset for one in self.voters if one.node_id == self.leader.node_id]
        return ends[0] if ends else NONE


def usable_version(api_key: int, versions: dict[int, tuple[int, int]]) -> int | None:
    """The newest version of a message that both sides know; None where there is none."""
    if api_key not in versions:
        return None
    low, high = versions[api_key]
    newest = min(high, request_specs()[api_key][0].versions.last)
    return newest if newest >= max(low, FIRST_VERSION[api_key]) else None


def read_answer(api_key: int, version: int, raw: bytes) -> Data:
    """The fields of an answer.

    Raises DecodeError where the bytes are none."""
    spec = request_specs()[api_key][1].at(version)
    message, _, _, end = read_message(spec, raw, 0, len(raw))
    if end != len(raw):
        raise DecodeError("trailing", end, f"{len(raw) - end} bytes follow the message")
    return message


def fetch_request(
    offset: int, last_epoch: int, leader_epoch: int, max_bytes: int, cluster_id: str | None
) -> Data:
    """A Fetch from an offset on, whose record before it is of `last_epoch`."""
    partition = {
        "partition": PARTITION,
        "currentLeaderEpoch": leader_epoch,
        "fetchOffset": offset,
        "lastFetchedEpoch": last_epoch,
        "logStartOffset": NONE,
        "partitionMaxBytes": max_bytes,
        "replicaDirectoryId": ZERO_UUID,
        "highWatermark": (1 << 63) - 1,
    }
    return {
        "replicaId": OBSERVER,
        "maxWaitMs": 0,
        "minBytes": 1,
        "maxBytes": max_bytes,
        "isolationLevel": 0,
        "sessionId": 0,
        "sessionEpoch": NONE,
        "topics": [{"topicId": METADATA_TOPIC_ID, "partitions": [partition]}],
        "forgottenTopicsData": [],
        "rackId": "",
        "clusterId": cluster_id,
        "replicaState": {"replicaId": OBSERVER, "replicaEpoch": NONE},
    }


def fetched(message: Data) -> Fetched:
    """A Fetch answer; raises DecodeError where it answers for anything else."""
    endpoints = _addresses(message.get("nodeEndpoints", ()), "nodeId")
    throttle = message["throttleTimeMs"]
    if message["errorCode"]:
        return Fetched(message["errorCode"], Leader(NONE, NONE), endpoints, throttle)
    one = _only(message["responses"], "topicId", METADATA_TOPIC_ID, "partitionIndex")
    leader = Leader(one["currentLeader"]["leaderId"], one["currentLeader"]["leaderEpoch"])
    diverging, snapshot = one["divergingEpoch"], one["snapshotId"]
    return Fetched(
        one["errorCode"],
        leader,
        endpoints,
        throttle,
        one["highWatermark"],
        one["logStartOffset"],
        b64decode(one["records"] or ""),
        EpochEnd(diverging["epoch"], diverging["endOffset"]) if _is_set(diverging) else None,
        _snapshot(snapshot) if _is_set(snapshot) else None,
    )


def snapshot_request(ask: Ask) -> Data:
    partition = {
        "partition": PARTITION,
        "currentLeaderEpoch": ask.current_leader_epoch,
        "snapshotId": {"endOffset": ask.snapshot.end_offset, "epoch": ask.snapshot.epoch},
        "position": ask.position,
        "replicaDirectoryId": ZERO_UUID,
    }
    return {
        "replicaId": OBSERVER,
        "maxBytes": ask.max_bytes,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
        "clusterId": ask.cluster_id,
    }


def piece_of(message: Data) -> Piece:
    """A FetchSnapshot answer; raises DecodeError where it answers for anything else."""
    if message["errorCode"]:
        return Piece(_error(message["errorCode"]), SnapshotId(NONE, NONE))
    one = _only(message["topics"], "name", TOPIC, "index")
    snapshot = _snapshot(one["snapshotId"])
    if one["errorCode"]:
        return Piece(_error(one["errorCode"]), snapshot)
    content = b64decode(one["unalignedRecords"] or "")
    return Piece(None, snapshot, one["size"], one["position"], content)


DESCRIBE_REQUEST: Data = {
    "topics": [{"topicName": TOPIC, "partitions": [{"partitionIndex": PARTITION}]}]
}
"""A DescribeQuorum of the metadata partition."""


def description(message: Data) -> Description:
    """A DescribeQuorum answer; raises DecodeError where it answers for anything else."""
    if message["errorCode"]:
        return Description(message["errorCode"], Leader(NONE, NONE))
    one = _only(message["topics"], "topicName", TOPIC, "partitionIndex")
    leader = Leader(one["leaderId"], one["leaderEpoch"])
    if one["errorCode"]:
        return Description(one["errorCode"], leader)
    listeners = {
        node["nodeId"]: [
            (each["name"], Address(each["host"], each["port"])) for each in node["listeners"]
        ]
        for node in message.get("nodes", ())
    }
    voters, observers = (
        tuple(map(_replica_state, one[group])) for group in ("currentVoters", "observers")
    )
    return Description(0, leader, one["highWatermark"], voters, observers, listeners)


CLUSTER_REQUEST: Data = {
    "includeClusterAuthorizedOperations": False,
    "endpointType": 2,  # controllers
    "includeFencedBrokers": False,
}
"""A DescribeCluster that a controller takes."""


def described_cluster(message: Data) -> tuple[str | None, dict[int, Address]]:
    """The cluster's id, and where its controllers listen, of a DescribeCluster answer; nothing
    where the server does not tell it to us.
    """
    if message["errorCode"]:
        return None, {}
    return message["clusterId"] or None, _addresses(message["brokers"], "brokerId")


def _addresses(nodes: Iterable[Data], key: str) -> dict[int, Address]:
    return {one[key]: Address(one["host"], one["port"]) for one in nodes}


def _only(topics: list[Data], key: str, topic: str, index: str) -> Data:
    """The one partition that was asked for."""
    found: list[Data] = [part for one in topics for part in one["partitions"]]
    named = [(one[key], part[index]) for one in topics for part in one["partitions"]]
    if named != [(topic, PARTITION)]:
        raise DecodeError("topic", 0, f"it is not about partition {PARTITION} of {TOPIC}")
    return found[0]


def _is_set(end: Data) -> bool:
    return bool(end["epoch"] >= 0 and end["endOffset"] >= 0)


def _snapshot(one: Data) -> SnapshotId:
    return SnapshotId(one["epoch"], one["endOffset"])


def _error(code: int) -> str:
    return ERROR_NAMES.get(code, "UNKNOWN_SERVER_ERROR")


def _replica_state(one: Data) -> ReplicaState:
    return ReplicaState(
        one["replicaId"],
        one.get("replicaDirectoryId"),
        one["logEndOffset"],
        one.get("lastFetchTimestamp", NONE),
        one.get("lastCaughtUpTimestamp", NONE),
    )
