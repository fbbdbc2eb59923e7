"""The replay's own rules: transactions, faults, cascades, forks, and the versions that a state is
written at.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from kraftlog.state.declare import KEEP, ReplayFault, coded
from kraftlog.state.replay import Origin, Replay
from kraftlog.state.shapes import KNOWN_LEVELS, MIGRATING, newer_level, sorted_directories
from kraftlog.state.state import State
from kraftlog.state.versions import with_origins
from kraftlog.state.write import WriteLevels, image_record, image_records, losses
from tests.canonical import canonical_lines

Data = dict[str, Any]
TOPIC, OTHER = "A" * 21 + "E", "A" * 21 + "I"


class Log:
    """Feeds records to a replay, one offset each."""

    def __init__(self) -> None:
        self.replay = Replay()
        self.next = 0

    def __call__(self, record_type: str, **data: Any) -> list[Any]:
        seen = self.replay.apply(Origin(self.next, 1000 + self.next, 1, record_type), data)
        self.next += 1
        return seen

    def rows(self, table: str) -> list[Data]:
        return [dict(value) for value in self.replay.state.rows(table).values()]

    def topic(self, name: str = "orders", topic_id: str = TOPIC) -> None:
        self("TOPIC_RECORD", name=name, topicId=topic_id)
        self.partition(0, topic_id)

    def partition(self, number: int, topic_id: str = TOPIC, **data: Any) -> None:
        self(
            "PARTITION_RECORD",
            topicId=topic_id,
            partitionId=number,
            replicas=[1, 2],
            isr=[1, 2],
            removingReplicas=[],
            addingReplicas=[],
            leader=1,
            leaderEpoch=0,
            partitionEpoch=0,
            leaderRecoveryState=0,
            **data,
        )

    def change(self, **data: Any) -> None:
        empty = {"leader": -2, "leaderRecoveryState": -1}
        self("PARTITION_CHANGE_RECORD", topicId=TOPIC, partitionId=0, **(empty | data))


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_transaction_is_seen_at_its_end(log: Log) -> None:
    log("BEGIN_TRANSACTION_RECORD", name="x")
    log("TOPIC_RECORD", name="orders", topicId=TOPIC)
    assert log.rows("topics") == []
    assert log.replay.open_since == 0
    (seen,) = log("END_TRANSACTION_RECORD")
    assert log.rows("topics") == [{"name": "orders", "topicId": TOPIC}]
    assert (seen.origin.offset, seen.since_offset) == (1, 3)
    assert log.replay.open_since is None


def test_an_aborted_transaction_was_never_there(log: Log) -> None:
    log.topic()
    before = log.replay.state.fork()
    log("BEGIN_TRANSACTION_RECORD", name="x")
    log("REMOVE_TOPIC_RECORD", topicId=TOPIC)
    assert log("ABORT_TRANSACTION_RECORD", reason=None) == []
    assert log.replay.state == before
    log("REMOVE_TOPIC_RECORD", topicId=TOPIC)
    assert len(log.replay.state) == 0


@pytest.mark.parametrize("record_type", ["END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"])
def test_an_end_without_a_begin_is_a_fault(log: Log, record_type: str) -> None:
    log(record_type)
    assert [one.kind for one in log.replay.faults] == ["transaction"]


def test_of_the_entries_of_one_voter_the_last_one_counts(log: Log) -> None:
    voters = [
        {"voterId": one, "voterDirectoryId": disk}
        for one, disk in ((1, TOPIC), (2, OTHER), (1, OTHER))
    ]
    for listed, expected in ((voters, OTHER), (voters[:2], TOPIC)):
        log.replay.apply_control(Origin(0, 1000, 1, "KRAFT_VOTERS"), {"voters": listed})
        assert {*log.replay.state.rows("voters")} == {(1, expected), (2, OTHER)}


@pytest.mark.parametrize("word", ["BEGIN", "END", "ABORT"])
def test_in_a_snapshot_a_transaction_is_a_fault_and_hides_nothing(word: str, log: Log) -> None:
    log.replay.apply(Origin(None, 1000, 1, f"{word}_TRANSACTION_RECORD"), {"name": None})
    assert [one.detail for one in log.replay.faults] == ["no transaction can be in a snapshot"]
    log.topic()
    assert len(log.rows("topics")) == 1
    assert log.replay.open_since is None


def test_a_begin_inside_a_transaction_is_a_fault_and_nothing_else(log: Log) -> None:
    log("BEGIN_TRANSACTION_RECORD", name="x")
    log("TOPIC_RECORD", name="orders", topicId=TOPIC)
    log("BEGIN_TRANSACTION_RECORD", name="y")
    log("END_TRANSACTION_RECORD")
    assert len(log.replay.faults) == 1
    assert len(log.rows("topics")) == 1


def test_a_control_record_inside_a_transaction_counts_at_once(log: Log) -> None:
    log("BEGIN_TRANSACTION_RECORD", name="x")
    version = {"version": 0, "kRaftVersion": 1}
    assert log.replay.apply_control(Origin(1, 0, 1, "KRAFT_VERSION"), version)
    log("ABORT_TRANSACTION_RECORD", reason=None)
    assert log.rows("kraft_version") == [version]


def test_a_control_record_inside_a_transaction_outlives_its_end(log: Log) -> None:
    log("BEGIN_TRANSACTION_RECORD", name="x")
    log("TOPIC_RECORD", name="orders", topicId=TOPIC)
    version = {"version": 0, "kRaftVersion": 1}
    (seen,) = log.replay.apply_control(Origin(2, 7, 1, "KRAFT_VERSION"), version)
    assert (seen.since_offset, seen.since_timestamp, seen.change.after) == (3, 7, version)
    assert [one.change.table for one in log("END_TRANSACTION_RECORD")] == ["topics"]
    assert log.rows("kraft_version") == [version]


def test_a_control_record_without_effect_shows_nothing(log: Log) -> None:
    change = {"version": 0, "leaderId": 1}
    assert log.replay.apply_control(Origin(0, 0, 1, "LEADER_CHANGE"), change) == []
    assert log.replay.apply_control(Origin(0, 0, 1, "KRAFT_VERSION"), None) == []
    assert len(log.replay.state) == 0


def test_the_next_record_meets_what_its_transaction_holds(log: Log) -> None:
    """`current` is that state, `state` what everyone may see."""
    log.topic()
    log("BEGIN_TRANSACTION_RECORD", name="x")
    log("REMOVE_TOPIC_RECORD", topicId=TOPIC)
    log("TOPIC_RECORD", name="orders", topicId=OTHER)
    assert log.replay.current.named("topics", "orders") == (OTHER,)
    assert log.replay.state.named("topics", "orders") == (TOPIC,)
    log.change()
    (fault,) = log.replay.faults
    assert (fault.kind, fault.origin.offset, fault.origin.type) == (
        "unknown_topic",
        5,
        "PARTITION_CHANGE_RECORD",
    )
    seen = log("END_TRANSACTION_RECORD")
    assert {one.since_offset for one in seen} == {7}
    assert {one.since_timestamp for one in seen} == {1006}
    assert log.replay.current is log.replay.state
    assert log("BEGIN_TRANSACTION_RECORD", name="y") == []
    assert log("END_TRANSACTION_RECORD") == []


def test_removing_a_topic_takes_its_partitions_and_its_configs(log: Log) -> None:
    log.topic()
    log.topic("other", OTHER)
    for kind, name in ((2, "orders"), (2, "other"), (4, "orders")):
        log("CONFIG_RECORD", resourceType=kind, resourceName=name, name="k", value="v")
    log("REMOVE_TOPIC_RECORD", topicId=TOPIC)
    assert [one["topicId"] for one in log.rows("partitions")] == [OTHER]
    left = {(one["resourceType"], one["resourceName"]) for one in log.rows("configs")}
    assert left == {(2, "other"), (4, "orders")}


def test_a_topic_that_comes_again_loses_its_partitions(log: Log) -> None:
    log.topic()
    log("TOPIC_RECORD", name="orders", topicId=TOPIC)
    assert log.rows("partitions") == []


def test_epochs_of_a_partition(log: Log) -> None:
    log.topic()
    log.change()
    log.change(leader=1)
    log.change(leader=-1, isr=[])
    (partition,) = log.rows("partitions")
    assert (partition["partitionEpoch"], partition["leaderEpoch"]) == (3, 2)
    assert (partition["leader"], partition["isr"]) == (-1, [])


@pytest.mark.parametrize(
    ("before", "after"), [(0, 1), (2**31 - 1, -(2**31)), (2**31 - 2, 2**31 - 1)]
)
def test_an_epoch_goes_up_as_an_int_of_java(log: Log, before: int, after: int) -> None:
    log("TOPIC_RECORD", name="orders", topicId=TOPIC)
    log(
        "PARTITION_RECORD", topicId=TOPIC, partitionId=0, replicas=[1, 2], isr=[1, 2],
        removingReplicas=[], addingReplicas=[], leader=1, leaderEpoch=before,
        partitionEpoch=before, leaderRecoveryState=0,
    )  # fmt: skip
    log.change(leader=2)
    (row,) = log.rows("partitions")
    assert (row["leaderEpoch"], row["partitionEpoch"]) == (after, after)


def test_a_code_without_a_meaning_is_named() -> None:
    with pytest.raises(ReplayFault) as told:
        coded("leaderRecoveryState", {0: 0, 1: 1, -1: KEEP})(0, 5)
    text = "leaderRecoveryState is 5, which Kafka knows no meaning for"
    assert (told.value.kind, str(told.value)) == ("bad_value", text)


def test_the_name_points_to_the_newer_topic(log: Log) -> None:
    log.topic()
    log.topic(topic_id=OTHER)
    state = log.replay.state
    assert state.named("topics", "orders") == (OTHER,)
    log("REMOVE_TOPIC_RECORD", topicId=TOPIC)
    assert state.named("topics", "orders") == (OTHER,)
    log("REMOVE_TOPIC_RECORD", topicId=OTHER)
    assert state.named("topics", "orders") is None


@pytest.mark.parametrize(
    "record_type, data, kind",
    [
        ("REMOVE_TOPIC_RECORD", {"topicId": OTHER}, "unknown_topic"),
        ("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", {"id": OTHER}, "unknown_acl"),
        ("FENCE_BROKER_RECORD", {"id": 9, "epoch": 1}, "unknown_broker"),
        ("CLEAR_ELR_RECORD", {"topicName": "nobody"}, "unknown_topic"),
        ("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 0}, "bad_value"),
        ("PARTITION_CHANGE_RECORD", {"topicId": TOPIC, "partitionId": 7}, "unknown_partition"),
        ("PARTITION_CHANGE_RECORD", {"topicId": OTHER, "partitionId": 0}, "unknown_topic"),
    ],
)
def test_a_faulty_record_has_no_effect(log: Log, record_type: str, data: Data, kind: str) -> None:
    log.topic()
    before = log.replay.state.fork()
    log(record_type, **data)
    assert [one.kind for one in log.replay.faults] == [kind]
    assert log.replay.state == before


@pytest.mark.parametrize(
    "directories", [[MIGRATING], [MIGRATING] * 3, [OTHER]], ids=["fewer", "more", "a known one"]
)
def test_directories_beside_replicas_are_as_many(log: Log, directories: list[str]) -> None:
    """A record that names both stops Kafka's loader, though no place in it is known."""
    log.topic()
    before = log.replay.state.fork()
    log.partition(1, directories=directories)
    log.change(replicas=[1, 3], directories=directories)
    told = f"the number of replicas is 2, of directories {len(directories)}"
    assert [one.detail for one in log.replay.faults] == [told, told]
    assert log.replay.state == before


def test_directories_of_which_none_is_known_are_as_many_as_the_replicas(log: Log) -> None:
    log.topic()
    given: list[Data] = [
        {"directories": [MIGRATING]},
        {"directories": []},
        {"replicas": [1, 2, 3]},
        {"replicas": [1], "directories": []},
    ]
    held = []
    for data in given:
        log.change(**data)
        held.append(log.rows("partitions")[0]["directories"])
    assert held == [[MIGRATING] * count for count in (2, 2, 3, 1)]
    assert log.replay.faults == []


def test_a_record_of_an_unknown_type_is_a_fault(log: Log) -> None:
    assert log.replay.apply(Origin(0, 0, 1, "UNKNOWN_99"), None) == []
    assert log.replay.faults[0].kind == "unknown_record"


def test_forks_do_not_see_each_other(log: Log) -> None:
    log.topic()
    twin = log.replay.state.fork()
    log("REMOVE_TOPIC_RECORD", topicId=TOPIC)
    assert len(twin) == 2
    assert twin.keys("partitions", (TOPIC,)) == [(TOPIC, 0)]
    twin.set("topics", (OTHER,), {"name": "mine", "topicId": OTHER})
    assert log.replay.state.get("topics", (OTHER,)) is None


def test_what_an_old_metadata_version_cannot_hold(log: Log) -> None:
    log("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=7)
    log.topic()
    log.change(directories=[OTHER, OTHER])
    log(
        "USER_SCRAM_CREDENTIAL_RECORD",
        name="u",
        mechanism=1,
        salt="",
        storedKey="",
        serverKey="",
        iterations=1,
    )
    state = log.replay.state
    assert {one.what for one in losses(state)} == {
        "directories needs metadata.version 17",
        "metadata.version 7 has no scram_credentials",
    }
    written = list(image_records(state))
    assert [one.type for one in written] == [
        "FEATURE_LEVEL_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
    ]
    assert "directories" not in written[-1].data


def test_what_is_not_written_with_elr_off_and_what_kafka_cannot_write(log: Log) -> None:
    log("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=25)
    log.topic()
    state = log.replay.state
    key = (TOPIC, 0)
    held = {**(state.get("partitions", key) or {}), "eligibleLeaderReplicas": [2]}
    state.set("partitions", key, {**held, "lastKnownElr": [3]})
    off = "is not written while eligible.leader.replicas.version is 0"
    assert list(losses(state)) == [
        ("partitions", key, f"eligibleLeaderReplicas {off}"),
        ("partitions", key, f"lastKnownElr {off}"),
    ]
    log("FEATURE_LEVEL_RECORD", name="eligible.leader.replicas.version", featureLevel=1)
    assert list(losses(state)) == []
    log("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=22)
    assert list(losses(state)) == [
        ("partitions", key, "eligibleLeaderReplicas needs metadata.version 23"),
        ("partitions", key, "lastKnownElr needs metadata.version 23"),
    ]
    (written,) = [one for one in image_records(state) if one.type == "PARTITION_RECORD"]
    assert (written.version, written.data["isr"]) == (1, held["isr"])
    assert "eligibleLeaderReplicas" not in written.data
    log("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=25)
    endpoints = [{"securityProtocol": 0}, {"securityProtocol": 3}, {"securityProtocol": 4}]
    broker = {"endPoints": endpoints, "logDirs": [], "cordonedLogDirs": None}
    state.set("brokers", (1,), broker)
    unknown = ("brokers", (1,), "an endpoint's security protocol is unknown")
    assert list(losses(state)) == [unknown]
    state.set("brokers", (1,), {**broker, "cordonedLogDirs": []})
    told = ("brokers", (1,), "cordonedLogDirs needs metadata.version 30")
    assert list(losses(state)) == [told, unknown]


@pytest.mark.parametrize(
    ("name", "above", "told"),
    [
        ("metadata.version", 0, None),
        ("metadata.version", 1, "level {} of feature metadata.version is unknown"),
        ("kraft.version", 0, None),
        ("kraft.version", 1, "level {} of feature kraft.version is unknown"),
        ("no.such.version", 0, "feature no.such.version is unknown"),
    ],
)
def test_a_level_that_is_newer_than_what_is_known(name: str, above: int, told: str | None) -> None:
    level = KNOWN_LEVELS.get(name, 0) + above
    found = newer_level({"name": name, "featureLevel": level})
    assert found == (None if told is None else told.format(level))


@pytest.mark.parametrize(("following", "is_written"), [(-1, False), (0, True), (1000, True)])
def test_producer_ids_are_written_once_any_can_have_been_given(
    following: int, is_written: bool
) -> None:
    """Kafka's ProducerIdsImage: −1 is that of an empty image."""
    value = {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": following}
    found = image_record("producer_ids", value, WriteLevels(20, True))
    assert (found is not None) is is_written


@pytest.mark.parametrize(("level", "is_written"), [(10, False), (11, True)])
def test_scram_credentials_are_written_from_3_5_iv2_on(level: int, is_written: bool) -> None:
    """Level 11 of Kafka's MetadataVersion."""
    value = {"name": "u", "mechanism": 1, "salt": "", "storedKey": "", "serverKey": "",
             "iterations": 1}  # fmt: skip
    found = image_record("scram_credentials", value, WriteLevels(level, True))
    assert (found is not None) is is_written


def test_versions_that_stood_before_a_fold_say_what_had_begun_them() -> None:
    """A fold from offset 10 on: partition 0 of T stood before it and changed at 12, 1 came at 11.
    Of S the fold has a version from its base, and nobody knows what had begun it.
    """
    at = {"valid_from": datetime(2026, 1, 1, tzinfo=UTC), "batch_leader_epoch": 3}
    put, change = ({"record_type": f"PARTITION_{one}RECORD"} for one in ("", "CHANGE_"))

    def table(*rows: tuple[str, int, int, int | None, Data]) -> pa.Table:
        names = ("topic_id", "partition_id", "valid_from_offset", "record_offset")
        schema = pa.schema([(name, pa.string() if name == "topic_id" else pa.int64())
                            for name in names] + [("record_type", pa.string()),
                            ("valid_from", pa.timestamp("us", "UTC")),
                            ("batch_leader_epoch", pa.int32())])  # fmt: skip
        told = [dict(zip(names, one[:4], strict=True)) | one[4] for one in rows]
        return pa.Table.from_pylist(told, schema)

    standing = table(("U", 0, 1, 0, put | at), ("T", 0, 5, 4, put | at))
    base, came = {"record_type": None}, put | at
    rows = table(
        ("S", 0, 10, None, base), ("T", 1, 12, 11, came),
        ("T", 0, 10, None, base), ("T", 0, 13, 12, change | at),
    )  # fmt: skip
    assert with_origins(rows, standing, 10) == table(
        ("S", 0, 10, None, base), ("T", 1, 12, 11, came),
        ("T", 0, 5, 4, put | at), ("T", 0, 13, 12, change | at),
    )  # fmt: skip
    assert with_origins(rows, standing, 9) == rows


def test_an_empty_state_is_written_as_nothing() -> None:
    assert canonical_lines(State()) == []


def test_directories_are_in_the_order_of_java_s_uuids() -> None:
    """Two signed numbers of 64 bits each: what begins with a set bit is the less of two."""
    ascending = [(0x80, 0), (0x80, 0x7F), (0, 0x80), (0, 0xFF), (0, 0), (0, 0x7F), (0x7F, 0x80)]
    texts = [
        urlsafe_b64encode(bytes([most, *bytes(7), least, *bytes(7)])).decode()[:22]
        for most, least in ascending
    ]
    assert sorted_directories([*reversed(texts)]) == texts
