"""How a log's batches become a state: which records count, and what cannot be read."""

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kraftlog.audit.watch import suspects
from kraftlog.decode.tabular import timestamps
from kraftlog.log.directory import find_replicas
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.native.folding import Lists
from kraftlog.state.history import microseconds
from kraftlog.state.partition_events import NewVersions
from kraftlog.state.replay import FaultyRecord, Origin, Replay
from tests.definition import feed, load_snapshot
from tests.reading import (
    DEFAULT_LIMITS,
    UNMASKED,
    LogBatch,
    find_snapshots,
    log_files,
    read_batches,
)
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    Node,
    frame,
    healthy_log,
    leader_change,
    overwrite,
    snapshot,
    topic,
    uuid_text,
)
from tests.unit.faults.table import AT


def batches_of(*batches: Batch, root: Path) -> list[LogBatch]:
    Node(root, 1).write(batches)
    (replica,) = find_replicas([str(root)])
    found = [one for file in log_files(replica) for one in read_batches(file)]
    assert not any(isinstance(one, Fault) for one in found)
    return [one for one in found if isinstance(one, LogBatch)]


def topics(replay: Replay) -> list[str]:
    return [row["name"] for row in replay.state.rows("topics").values()]


def test_records_count_by_their_place_in_the_batch(tmp_path: Path) -> None:
    (batch,) = batches_of(Batch(3, 7, (topic("a", 1), topic("b", 2), topic("c", 3))), root=tmp_path)
    assert (batch.base_offset, batch.end_offset, batch.batch_leader_epoch) == (3, 6, 7)
    for start, end, names in (
        (0, None, ["a", "b", "c"]),
        (4, None, ["b", "c"]),
        (0, 5, ["a", "b"]),
        (4, 5, ["b"]),
        (5, 5, []),
        (6, None, []),
    ):
        replay = Replay()
        feed(replay, batch, start, end, UNMASKED)
        assert topics(replay) == names, (start, end)


def test_what_is_seen_has_its_record_s_origin(tmp_path: Path) -> None:
    first, second = batches_of(
        leader_change(0, 1, 1, START_MS + 5), Batch(1, 1, (NO_OP, topic("a", 1)), ms=START_MS + 9),
        root=tmp_path,
    )  # fmt: skip
    replay = Replay()
    assert feed(replay, first, 0, None, UNMASKED) == []
    (seen,) = feed(replay, second, 0, None, UNMASKED)
    assert seen.origin == Origin(2, START_MS + 9, 1, "TOPIC_RECORD")
    assert (seen.since_offset, seen.since_timestamp) == (3, START_MS + 9)
    assert (first.is_control, second.is_control) == (True, False)


def test_a_record_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    (batch,) = batches_of(Batch(3, 7, (topic("a", 1) + b"\0", topic("b", 2))), root=tmp_path)
    replay = Replay()
    feed(replay, batch, 0, None, UNMASKED)
    (fault,) = replay.faults
    detail = f"{batch.path}: record 0: 1 byte left after TopicRecord version 0"
    origin = Origin(3, START_MS, 7, "UNREADABLE")
    assert fault == FaultyRecord(origin, "record_trailing", detail)
    assert topics(replay) == ["b"]
    bare = Replay()
    feed(bare, batch, None, None, UNMASKED)
    assert [one.origin.offset for one in bare.faults] == [None]


def test_what_unpacks_to_more_than_the_limit_is_a_fault(tmp_path: Path) -> None:
    values = (topic("a", 1), topic("b", 2))
    packed = gzip.compress(b"".join(frame(at, None, one) for at, one in enumerate(values)))
    (batch,) = batches_of(Batch(3, 7, values, attributes=1, payload=packed), root=tmp_path)
    size = sum(len(frame(at, None, one)) for at, one in enumerate(values))
    for limit, names in ((size, ["a", "b"]), (size - 1, [])):
        replay = Replay()
        feed(replay, batch, 0, None, UNMASKED, Limits(decompressed_size_bytes=limit))
        assert (topics(replay), bool(replay.faults)) == (names, not names)


def test_times_that_arrow_holds() -> None:
    """From the first to the last millisecond that a calendar has: no reader knows what is beyond."""
    for one in (datetime.min, datetime.max.replace(microsecond=999_000)):
        whole = (one - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
        assert microseconds(whole) == whole * 1000
        assert timestamps(np.array([whole])).to_pylist() == [one.replace(tzinfo=UTC)]
        beyond = whole + (1 if whole > 0 else -1)
        assert (microseconds(beyond), timestamps(np.array([beyond])).to_pylist()) == (None, [None])
    assert microseconds(None) is None


def test_a_batch_with_a_wrong_crc_is_a_fault(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.write(healthy_log())
    overwrite(node.segment(0), AT[3] + 70, b"\x55")
    (replica,) = find_replicas([str(tmp_path)])
    found = list(read_batches(log_files(replica)[0]))
    assert [isinstance(one, Fault) for one in found] == [False, False, True, False]
    bad = found[2]
    assert isinstance(bad, Fault)
    assert (bad.kind, bad.position, bad.size_bytes) == ("batch_crc", AT[3], AT[4] - AT[3])
    assert bad.detail == "the CRC-32C of the batch at offset 3 is wrong"


def test_lists_of_brokers_that_a_rule_may_tell_of() -> None:
    """An empty list, one that names a broker twice, and one too long to be looked at here; behind
    the last one all lists are empty.
    """
    at = np.arange(6)
    lists, nothing = (
        Lists.of(pa.array(one, pa.list_(pa.int32()))).held(at.astype(np.int32))
        for one in ([[1, 2], [], [3, 3], None, [*range(65)]], [])
    )
    assert lists.repeats().tolist() == [False, False, True, False, True, False]
    assert lists.lengths().tolist() == [2, 0, 2, 0, 65, 0]
    assert lists.outside(nothing).tolist() == [True, False, True, False, True, False]
    assert lists.meets(nothing).tolist() == [False] * 6
    assert lists.meets(lists).tolist() == [True, False, True, False, True, False]
    assert lists.holds(np.full(6, 3, np.int32)).tolist() == [False, False, True, False, True, False]
    names = ("replicas", "isr", "eligibleLeaderReplicas", "addingReplicas", "removingReplicas")
    held = dict.fromkeys(names, nothing) | {"replicas": lists}
    numbers = ("leaderRecoveryState", "leaderEpoch", "partitionEpoch", "partitionId")
    nobody_leads = dict.fromkeys(numbers, np.zeros(6, np.int32)) | {
        "leader": np.full(6, -1, np.int32)
    }
    rows = NewVersions(at, at < 0, held, nobody_leads)
    assert suspects(rows).tolist() == [False, True, True, True, True, True]


@pytest.mark.parametrize(("offset", "bases"), [(0, [0, 6]), (5, [0, 6]), (6, [6]), (99, [6])])
def test_segments_that_may_hold_an_offset(tmp_path: Path, offset: int, bases: list[int]) -> None:
    Node(tmp_path, 1).write(healthy_log())
    (replica,) = find_replicas([str(tmp_path)])
    assert [one.parsed.base_offset for one in log_files(replica, offset)] == bases


def test_a_log_that_begins_behind_an_offset(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.write(healthy_log())
    node.segment(0).unlink()
    (replica,) = find_replicas([str(tmp_path)])
    assert [one.parsed.base_offset for one in log_files(replica, 3)] == [6]


def test_which_snapshots_can_be_loaded(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.write(healthy_log())
    stored = [healthy_log()[1], healthy_log()[3]]
    node.checkpoint(9, 2).write_bytes(snapshot(stored, 2, START_MS + 77))
    whole = snapshot(stored, 1, START_MS)
    node.checkpoint(3, 1).write_bytes(b"")
    node.checkpoint(4, 1).write_bytes(snapshot(stored, 1, START_MS, footer=False))
    header = 12 + int.from_bytes(whole[8:12], "big")
    node.checkpoint(5, 1).write_bytes(whole[header:])
    node.checkpoint(7, 1).write_bytes(whole)
    overwrite(node.checkpoint(7, 1), header + 70, b"\x55")
    (replica,) = find_replicas([str(tmp_path)])
    found, rejected = find_snapshots(replica)
    told = [(one.end_offset, one.epoch, one.last_contained_timestamp) for one in found]
    assert told == [(6, 1, START_MS + 3000), (9, 2, START_MS + 77)]
    assert found[0].name == node.checkpoint(6, 1).name
    assert {one.file.parsed.end_offset: one.reason for one in rejected} == {
        3: "it is empty",
        4: "it does not end with a snapshot footer",
        5: "it does not begin with a snapshot header",
        7: f"batch_crc at byte {header}: the CRC-32C of the batch at offset 1 is wrong",
    }
    replay, seen = load_snapshot(found[1], UNMASKED, DEFAULT_LIMITS)
    assert topics(replay) == ["a", "b"]
    assert {one.change.table for one in seen} == {"topics", "partitions", "producer_ids"}
    assert {(one.since_offset, one.since_timestamp) for one in seen} == {(9, START_MS + 77)}
    assert replay.state.get("topics", (uuid_text(1),)) == {"name": "a", "topicId": uuid_text(1)}
