"""Answers of the simulated leader, as bytes that Kafka's own protocol defines."""

from typing import Any

import pytest

from kraftlog.decode.interpreter import read_message
from kraftlog.message.catalogue import spec_of
from kraftlog.quorum.epochs import EpochEnd, EpochVector
from kraftlog.simulate.extent import Extent, SnapshotId
from kraftlog.simulate.fetch import Answer
from kraftlog.simulate.response import fetch_response
from kraftlog.state.encode import encode_message

LEADER = Extent(100, EpochVector(((3, 100),), 200), (SnapshotId(3, 150),))
ANSWERS = [
    Answer("records"),
    Answer("diverging_epoch", diverging=EpochEnd(3, 120)),
    Answer("snapshot", snapshot=SnapshotId(3, 150)),
    Answer("NOT_LEADER_OR_FOLLOWER"),
    Answer("INCONSISTENT_CLUSTER_ID"),
]


def response(answer: Answer) -> dict[str, Any]:
    return fetch_response(answer, LEADER, 2, 4, 170, b"batches")


@pytest.mark.parametrize("version", [12, 13, 16, 17, 18])
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.kind)
def test_every_field_goes_over_the_wire_and_back(answer: Answer, version: int) -> None:
    spec = spec_of("FETCH_RESPONSE")
    assert spec is not None
    sent = response(answer)
    raw = encode_message(spec.at(version), sent)
    read, unknown, end = read_message(spec.at(version), raw, 0, len(raw))
    assert (unknown, end) == ([], len(raw))
    assert encode_message(spec.at(version), read) == raw
    if answer.kind != "INCONSISTENT_CLUSTER_ID":
        (partition,) = read["responses"][0]["partitions"]
        assert partition == sent["responses"][0]["partitions"][0]


def test_only_the_field_that_answers_is_set() -> None:
    unset = {"epoch": -1, "endOffset": -1}
    fields = [response(answer)["responses"] for answer in ANSWERS[:4]]
    partitions = [topics[0]["partitions"][0] for topics in fields]
    assert [one["divergingEpoch"] for one in partitions] == [
        unset,
        {"epoch": 3, "endOffset": 120},
        unset,
        unset,
    ]
    assert [one["snapshotId"] for one in partitions] == [
        unset,
        unset,
        {"epoch": 3, "endOffset": 150},
        unset,
    ]
    assert [bool(one["records"]) for one in partitions] == [True, False, False, False]
    assert [one["errorCode"] for one in partitions] == [0, 0, 0, 6]
    assert [one["logStartOffset"] for one in partitions] == [100, 100, 100, -1]
    assert all(one["currentLeader"]["leaderEpoch"] == 4 for one in partitions)


def test_a_foreign_cluster_fails_the_whole_response() -> None:
    assert response(ANSWERS[4])["errorCode"] == 104
    assert response(ANSWERS[4])["responses"] == []
