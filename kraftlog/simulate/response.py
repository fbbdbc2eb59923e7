"""A leader's answer as the fields of a FetchResponse (`schemas/FetchResponse.json`).

In: an `Answer` and what the leader knows of itself. Out: plain data with Kafka's own JSON names, of
any version from 12 on. Source: KIP-595, KIP-630 "Fetch" (DivergingEpoch under tag 0, CurrentLeader
under 1, SnapshotId under 2); Kafka's KafkaRaftClient.buildFetchResponse.
"""

from base64 import b64encode
from typing import Any

from kraftlog.simulate.disk import METADATA_TOPIC_ID
from kraftlog.simulate.extent import Extent
from kraftlog.simulate.fetch import DIVERGING, RECORDS, SNAPSHOT, Answer
from kraftlog.simulate.snapshot_server import ERROR_CODES

TOPIC = "__cluster_metadata"
OF_THE_WHOLE_RESPONSE = frozenset({"INCONSISTENT_CLUSTER_ID"})


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
    whole = answer.kind in OF_THE_WHOLE_RESPONSE
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
