"""FetchSnapshot on the wire: an ask as Kafka's message, and Kafka's answer as a piece.

In: an `Ask`, or the bytes of a response. Out: the bytes of a request, or a `Piece`. The bytes are
those of the message after its header. Source: KIP-630 "Fetching Snapshots" as adopted, version 1
by KIP-853.
"""

from base64 import b64decode
from typing import Any

from kraftlog.decode.interpreter import read_message
from kraftlog.errors import DecodeError
from kraftlog.message.catalogue import request_specs
from kraftlog.message.spec import ZERO_UUID, VersionSpec
from kraftlog.simulate.extent import SnapshotId
from kraftlog.simulate.snapshot_server import ERROR_NAMES, Ask, Piece
from kraftlog.state.encode import encode_message

FETCH_SNAPSHOT = 59
TOPIC, PARTITION = "__cluster_metadata", 0
OBSERVER = -1
"""ReplicaId of a reader that is no replica: it is answered, and not counted."""

_NO_SNAPSHOT = SnapshotId(-1, -1)


def encode_ask(ask: Ask, version: int = 1, directory_id: str = ZERO_UUID) -> bytes:
    """A request; `directory_id` is the asking replica's, from version 1 on."""
    partition = {
        "partition": PARTITION,
        "currentLeaderEpoch": ask.current_leader_epoch,
        "snapshotId": _id(ask.snapshot),
        "position": ask.position,
        "replicaDirectoryId": directory_id,
    }
    message = {
        "replicaId": OBSERVER,
        "maxBytes": ask.max_bytes,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
        "clusterId": ask.cluster_id,
    }
    return encode_message(request_specs()[FETCH_SNAPSHOT][0].at(version), message)


def decode_piece(raw: bytes, version: int = 1) -> Piece:
    """A response.

    Raises DecodeError where the bytes are none, or answer for anything else."""
    message = _read(request_specs()[FETCH_SNAPSHOT][1].at(version), raw)
    if message["errorCode"]:
        return Piece(_error(message["errorCode"]), _NO_SNAPSHOT)
    one = _partition(message)
    if one["errorCode"]:
        return Piece(_error(one["errorCode"]), _snapshot(one))
    content = b64decode(one["unalignedRecords"] or "")
    return Piece(None, _snapshot(one), one["size"], one["position"], content)


def _read(spec: VersionSpec, raw: bytes) -> dict[str, Any]:
    message, _, end = read_message(spec, raw, 0, len(raw))
    if end != len(raw):
        raise DecodeError("trailing", end, f"{len(raw) - end} bytes follow the message")
    return message


def _partition(message: dict[str, Any]) -> dict[str, Any]:
    found = [(topic["name"], one) for topic in message["topics"] for one in topic["partitions"]]
    if len(found) != 1 or found[0][0] != TOPIC:
        raise DecodeError("topic", 0, f"it is not about one partition of {TOPIC}")
    one: dict[str, Any] = found[0][1]
    return one


def _id(snapshot: SnapshotId) -> dict[str, int]:
    return {"endOffset": snapshot.end_offset, "epoch": snapshot.epoch}


def _snapshot(one: dict[str, Any]) -> SnapshotId:
    return SnapshotId(one["snapshotId"]["epoch"], one["snapshotId"]["endOffset"])


def _error(code: int) -> str:
    return ERROR_NAMES.get(code, "UNKNOWN_SERVER_ERROR")
