"""The messages of KRaft's own protocol: their bytes, and what every version holds (KIP-630 "Fetch"
and "FetchSnapshot", KIP-392).
"""

import json
from base64 import b64encode
from typing import Any

import pytest

from kraftlog.decode.interpreter import read_message
from kraftlog.message.catalogue import request_specs, spec_of
from kraftlog.message.message_spec import MessageSpec, SpecError
from kraftlog.state.encode import EncodeError, encode_message

FETCH, API_VERSIONS, OFFSET_FOR_LEADER_EPOCH = 1, 18, 23
VOTE, BEGIN, END, FETCH_SNAPSHOT = 52, 53, 54, 59
BOTH = [spec for pair in request_specs().values() for spec in pair]


def named(name: str) -> MessageSpec:
    spec = spec_of(name)
    assert spec is not None
    return spec


def names(fields: Any) -> list[str]:
    return [field.json for field in fields]


def test_the_catalogue_holds_the_protocol() -> None:
    asked_for = {FETCH, API_VERSIONS, OFFSET_FOR_LEADER_EPOCH, VOTE, BEGIN, END, FETCH_SNAPSHOT}
    assert asked_for <= set(request_specs())
    for asked, answered in request_specs().values():
        assert asked.versions == answered.versions
        assert (asked.kind, answered.kind) == ("request", "response")


def test_headers_are_flexible_where_their_messages_are() -> None:
    ask, answer = request_specs()[FETCH]
    assert [ask.header_version(version) for version in (4, 11, 12, 18)] == [1, 1, 2, 2]
    assert [answer.header_version(version) for version in (4, 11, 12, 18)] == [0, 0, 1, 1]
    assert request_specs()[FETCH_SNAPSHOT][0].header_version(0) == 2
    # Who asks for versions may know none of the answer's: its header stays the oldest.
    ask, answer = request_specs()[API_VERSIONS]
    assert [ask.header_version(version) for version in (2, 3, 5)] == [1, 2, 2]
    assert [answer.header_version(version) for version in (2, 3, 5)] == [0, 0, 0]


def test_fetch_snapshot_request_byte_by_byte() -> None:
    """KIP-630 "Request Schema": cluster id under tag 0, then what the leader is asked for."""
    partition = {
        "partition": 0,
        "currentLeaderEpoch": 5,
        "snapshotId": {"endOffset": 176, "epoch": 4},
        "position": 1 << 20,
        "replicaDirectoryId": "A" * 22,
    }
    request = {
        "replicaId": -1,
        "maxBytes": 1 << 20,
        "topics": [{"name": "ab", "partitions": [partition]}],
        "clusterId": "c",
    }
    body = "ffffffff001000000203616202"
    body += "000000000000000500000000000000b000000004000000000000100000"
    body += "00000100020263"
    for version in (0, 1):
        spec = named("FETCH_SNAPSHOT_REQUEST").at(version)
        assert encode_message(spec, request).hex() == body


def test_fetch_snapshot_v1_adds_the_directory_and_the_endpoints() -> None:
    ask, answer = request_specs()[FETCH_SNAPSHOT]
    partitions = ask.fields[2].fields[1].fields
    assert [field.json for field in partitions if 0 not in field.versions] == ["replicaDirectoryId"]
    assert names(answer.at(0).tagged.values()) == []
    assert names(answer.at(1).tagged.values()) == ["nodeEndpoints"]


def test_fetch_v12_is_what_kip_630_adds() -> None:
    """KIP-630 "Fetch": three tags, which version 19 of the KIP had given twice."""
    partitions = named("FETCH_RESPONSE").fields[3].fields[2].fields
    at_12 = [field for field in partitions if 12 in field.versions]
    tagged = {field.tag: field.json for field in at_12 if field.tag is not None}
    assert tagged == {0: "divergingEpoch", 1: "currentLeader", 2: "snapshotId"}
    assert names(field for field in at_12 if field.tag is None) == [
        "partitionIndex",
        "errorCode",
        "highWatermark",
        "lastStableOffset",
        "logStartOffset",
        "abortedTransactions",
        "preferredReadReplica",
        "records",
    ]


def test_fetch_v11_is_what_kip_392_adds() -> None:
    """KIP-392: the consumer's rack, and the replica that it should read from."""
    ask, answer = request_specs()[FETCH]
    new = set(names(ask.at(11).plain)) - set(names(ask.at(10).plain))
    assert new == {"rackId"}
    partitions = answer.fields[3].fields[2].fields
    assert [f.json for f in partitions if f.versions.first == 11] == ["preferredReadReplica"]
    asked = {f.json: f for f in request_specs()[OFFSET_FOR_LEADER_EPOCH][0].fields}
    assert (asked["replicaId"].versions.first, asked["replicaId"].default) == (3, -2)


def test_later_versions() -> None:
    """KIP-853 names directories (17), KIP-1166 the follower's high watermark (18)."""
    partition = named("FETCH_REQUEST").fields[7].fields[2].fields
    assert {f.json: (f.versions.first, f.tag) for f in partition if f.tag is not None} == {
        "replicaDirectoryId": (17, 0),
        "highWatermark": (18, 1),
    }


def test_records_travel_as_bytes() -> None:
    spec = named("FETCH_RESPONSE").at(12)
    partition: dict[str, Any] = {
        "partitionIndex": 0,
        "errorCode": 0,
        "highWatermark": 7,
        "lastStableOffset": 7,
        "logStartOffset": 0,
        "abortedTransactions": None,
        "preferredReadReplica": -1,
        "records": b64encode(b"\x00batch").decode(),
        "divergingEpoch": {"epoch": -1, "endOffset": -1},
        "currentLeader": {"leaderId": 3, "leaderEpoch": 9},
        "snapshotId": {"endOffset": -1, "epoch": -1},
    }
    response = {
        "throttleTimeMs": 0,
        "errorCode": 0,
        "sessionId": 0,
        "responses": [{"topic": "t", "partitions": [partition]}],
    }
    raw = encode_message(spec, response)
    # A compact length is one more than the size; only the tag that is set is written.
    assert b"\x07\x00batch\x01\x01\x09" in raw
    assert read_message(spec, raw, 0, len(raw)) == (response, [], [], len(raw))
    partition["records"] = None
    assert read_message(spec, (raw := encode_message(spec, response)), 0, len(raw))[0] == response


def test_what_a_version_cannot_hold_is_refused() -> None:
    ask = named("OFFSET_FOR_LEADER_EPOCH_REQUEST")
    with pytest.raises(EncodeError, match="replicaId is missing"):
        encode_message(ask.at(3), {"topics": []})
    assert encode_message(ask.at(2), {"topics": []}).hex() == "00000000"
    with pytest.raises(SpecError, match="has no version 5"):
        ask.at(5)


@pytest.mark.parametrize("spec", BOTH, ids=lambda spec: spec.type)
def test_a_spec_is_plain_json_with_no_text_of_its_own(spec: MessageSpec) -> None:
    from kraftlog.message.catalogue import packaged

    raw = json.loads((packaged("schemas") / f"{spec.name}.json").read_text(encoding="utf-8"))
    assert set(raw) == {"name", "kind", "type", "id", "versions", "flexible", "fields"}
    assert "about" not in json.dumps(raw)
