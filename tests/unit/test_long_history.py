"""A log of more than a million records: whatever is wrong with the state behind the millionth is
found where it is, nothing is skipped, and nothing else is critical.
"""

import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from kraftlog.audit.grouping import AGREE, EQUALS
from kraftlog.audit.runner import AuditResult
from kraftlog.audit.state_history import RULE_CHECKS
from kraftlog.message.catalogue import spec_of
from kraftlog.state.encode import metadata_record
from tests.unit.audit_logs import (
    START_MS,
    Batch,
    Node,
    audit,
    change_isr,
    leader_change,
    producer_ids,
    remove_topic,
    snapshot,
    topic,
)
from tests.unit.audit_logs import partition as first_partition

STATE_CHECKS = (EQUALS, AGREE, *RULE_CHECKS)
"""All checks that a history judges."""
TOPICS = 100
PER_BATCH = 2000
BATCHES = 520
LONGER, SHORTER = [1, 2], [1]
Expected = dict[int, str]
"""The check that must fail, by the offset of the record at fault."""


def record(name: str, version: int, **fields: Any) -> bytes:
    spec = spec_of(name)
    assert spec is not None
    value = metadata_record(spec, version, fields).value
    assert value is not None
    return value


def topic_id(number: int) -> str:
    raw = bytes(15) + bytes([number])
    return urlsafe_b64encode(raw).decode().rstrip("=")


def moved(raw: bytes, base: int) -> bytes:
    """The same batch at another offset: a base offset is not part of what its CRC covers."""
    return struct.pack(">q", base) + raw[8:]


def created() -> tuple[bytes, ...]:
    """The topics of the cluster, one partition each, and the first producer ids."""
    made = [
        (topic(f"topic-{number}", number), first_partition(number, [1, 2], LONGER, 1))
        for number in range(1, TOPICS + 1)
    ]
    return (*(value for pair in made for value in pair), producer_ids(1000))


def ordinary(base: int) -> Iterator[bytes]:
    """Changes of partitions that exist, ISRs that shrink and grow."""
    shapes = [
        Batch(0, 1, tuple(change_isr(number % TOPICS + 1, isr) for number in range(PER_BATCH)))
        for isr in (SHORTER, LONGER)
    ]
    rows = cycle([one.raw() for one in shapes])
    for index in range(BATCHES):
        yield moved(next(rows), base + index * PER_BATCH)


def held(number: int, **fields: Any) -> bytes:
    """The partition of a topic as it stands behind all ordinary records."""
    changes = PER_BATCH // TOPICS * BATCHES
    data = {
        "partitionId": 0, "topicId": topic_id(number), "replicas": [1, 2], "isr": LONGER,
        "removingReplicas": [], "addingReplicas": [], "leader": 1, "leaderEpoch": 0,
        "partitionEpoch": changes, "leaderRecoveryState": 0,
    }  # fmt: skip
    return record("PARTITION_RECORD", 0, **(data | fields))


def stored(isr: list[int]) -> tuple[bytes, ...]:
    """What a snapshot holds behind all ordinary records; `isr` of topic 7 is as given."""
    made = [
        (topic(f"topic-{number}", number), held(number, isr=isr if number == 7 else LONGER))
        for number in range(1, TOPICS + 1)
    ]
    return (*(value for pair in made for value in pair), producer_ids(1000))


def change(number: int, **fields: Any) -> bytes:
    nothing = {
        "isr": None, "leader": -2, "replicas": None, "removingReplicas": None,
        "addingReplicas": None, "leaderRecoveryState": -1,
    }  # fmt: skip
    named = {"partitionId": 0, "topicId": topic_id(number)}
    return record("PARTITION_CHANGE_RECORD", 0, **(named | nothing | fields))


def broker(broker_id: int, epoch: int) -> bytes:
    return record(
        "REGISTER_BROKER_RECORD", 0, brokerId=broker_id, incarnationId=topic_id(9),
        brokerEpoch=epoch, endPoints=[], features=[], rack=None, fenced=True,
    )  # fmt: skip


def directories(broker_id: int, epoch: int, ids: list[str]) -> bytes:
    return record(
        "BROKER_REGISTRATION_CHANGE_RECORD", 2, brokerId=broker_id, brokerEpoch=epoch, fenced=0,
        inControlledShutdown=0, logDirs=ids,
    )  # fmt: skip


def faults() -> list[tuple[bytes, str | None]]:
    """Records, and the checks that they make fail."""
    return [
        (change(250, leader=1), "references_exist"),
        (remove_topic(251), "references_exist"),
        (record("UNREGISTER_BROKER_RECORD", 0, brokerId=77, brokerEpoch=1), "references_exist"),
        (record("UNREGISTER_CONTROLLER_RECORD", 0, controllerId=77), "references_exist"),
        (change(1, isr=[1, 9]), "isr_within_replicas"),
        (change(2, addingReplicas=[8]), "isr_within_replicas"),
        (change(3, removingReplicas=[8]), "isr_within_replicas"),
        (change(4, replicas=[1, 1], isr=[1]), "isr_within_replicas"),
        (change(5, isr=[2]), "leader_in_isr"),
        (change(6, leader=9), "leader_in_isr"),
        (held(8, partitionEpoch=3), "partition_epochs_step"),
        (held(10, leader=2), None),
        (change(10, leader=1), None),
        (held(10, partitionEpoch=99_999, leader=2), "partition_epochs_step"),
        (topic("topic-11", 252), "topic_identity_unique"),
        (topic("another", 12), "topic_identity_unique"),
        (producer_ids(999), "producer_ids_increase"),
        (broker(5, 1 << 40), "broker_epoch_is_offset"),
        (directories(5, 1 << 40, [topic_id(9)] * 2), "broker_directories_unique"),
        (change(13, leaderRecoveryState=7), "record_replays"),
    ]


def write(root: Path) -> tuple[Expected, int]:
    """Three voters with the same long log; the wrong snapshot lies on 3."""
    head = [leader_change(0, 1, 1), Batch(1, 1, created())]
    base = head[-1].end
    end = base + BATCHES * PER_BATCH
    tail, expected = [], Expected()
    for index, (value, check) in enumerate(faults()):
        tail.append(Batch(end + index, 1, (value,), ms=START_MS + 10 * BATCHES))
        if check is not None:
            expected[end + index] = check
    gone = tuple(remove_topic(number) for number in range(40, TOPICS))
    tail.append(Batch(tail[-1].end, 1, gone, ms=START_MS + 10 * BATCHES))
    expected[tail[-1].base] = "mass_deletion"
    parts = [*(one.raw() for one in head), *ordinary(base), *(one.raw() for one in tail)]
    log = b"".join(parts)
    for number in (1, 2, 3):
        node = Node(root, number)
        node.segment(0).write_bytes(log)
        values = stored(SHORTER if number == 3 else LONGER)
        node.checkpoint(end, 1).write_bytes(snapshot([Batch(0, 1, values)], 1, START_MS))
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)
        node.meta()
    expected[end] = "references_exist"
    return expected, end


@pytest.fixture(scope="module")
def long_history(tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditResult, Expected, int]:
    root = tmp_path_factory.mktemp("long")
    expected, end = write(root)
    assert end > 1_000_000
    return audit(root), expected, end


def test_every_fault_behind_the_millionth_record_is_found_where_it_is(
    long_history: tuple[AuditResult, Expected, int],
) -> None:
    result, expected, end = long_history
    found = [
        one
        for one in result.findings
        if one.check in STATE_CHECKS and not one.check.startswith("snapshot")
    ]
    assert {one.row.offset: one.check for one in found} == expected
    assert len(found) == len(expected)
    assert all(one.row.evidence["replicas"] == ["1", "2", "3"] for one in found)
    assert min(expected) == end


def test_a_wrong_snapshot_behind_the_millionth_record_is_found(
    long_history: tuple[AuditResult, Expected, int],
) -> None:
    result, _, end = long_history
    found = [one for one in result.findings if one.check.startswith("snapshot")]
    assert {(one.check, one.row.replica, one.row.offset) for one in found} == {
        ("snapshot_equals_replay", "3", end),
        ("snapshots_agree", "3", end),
    }
    for one in found:
        assert one.row.evidence["difference_count"] == 1
        assert "isr is [1], not [1, 2]" in one.row.message


def test_nothing_is_skipped_and_nothing_else_is_critical(
    long_history: tuple[AuditResult, Expected, int],
) -> None:
    result, expected, _ = long_history
    of_state = [one for one in result.results if one.check in STATE_CHECKS]
    assert len(of_state) == len(STATE_CHECKS)
    assert {(one.result, one.reason) for one in of_state} == {("failed", None)}
    critical = {one.check for one in result.findings if one.severity == "critical"}
    # No broker of this cluster is registered, which its newest state says too.
    others = {"snapshot_equals_replay", "snapshots_agree", "replicas_registered"}
    assert critical <= {*expected.values(), *others}
