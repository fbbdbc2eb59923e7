"""Measures of a small quorum that is written byte by byte, against figures worked out by hand.

The log: 12 batches of offsets 0 to 11, one second apart; its snapshot ends at offset 6 and its last
record is of 3,000 ms. KIP-630's four metrics: SnapshotSizeBytes, SnapshotLag, GenSnapshotLatencyMs
and LoadSnapshotLatencyMs.
"""

import os
import shutil
import struct
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.metrics import snapshot_metrics
from kraftlog.metrics.amplification import BURST_GAP_MS, BrokerEvent, Bursts, amplification_rows
from kraftlog.metrics.configuration import configuration_rows
from kraftlog.metrics.retention_advice import START_LAG_MS, retention_rows
from kraftlog.metrics.shared_log import shared_log
from kraftlog.metrics.snapshot_metrics import TICK_MS, load_times, snapshot_rows, snapshots_per_day
from kraftlog.quorum.growth import DAY_MS
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from kraftlog.quorum.retention import RetentionLimits, log_bytes_per_day
from kraftlog.relations import moment
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    START_MS,
    Batch,
    Node,
    healthy_log,
    leader_change,
    quorum,
    snapshot,
)

Row = dict[str, Any]
STORED = [healthy_log()[1], healthy_log()[3]]
SIZE = len(snapshot(STORED, 1, START_MS + 3000))
AFTER = healthy_log()[4:]
"""The batches from offset 6 on: six, of one record each."""
AFTER_SIZE = sum(len(one.raw()) for one in AFTER)
BEFORE_SIZE = sum(len(one.raw()) for one in healthy_log()[:4])


def read(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=False))


def rows_of(root: Path, **given: Any) -> dict[tuple[str, int], Row]:
    found = snapshot_rows(read(root), **given)
    return {(row["replica"], row["end_offset"]): row for row in found}


def picked(row: Row, *names: str) -> list[Any]:
    return [row[name] for name in names]


LAG = ("lag_offsets_min", "lag_offsets_max", "lag_bytes", "lag_records", "lag_batches", "lag_ms")


def test_size_and_lag_of_a_quorum_that_agrees(tmp_path: Path) -> None:
    quorum(tmp_path)
    rows = rows_of(tmp_path)
    assert set(rows) == {("1", 6), ("2", 6), ("3", 6)}
    for row in rows.values():
        assert (row["size_bytes"], row["batch_count"], row["record_count"]) == (SIZE, 4, 4)
        assert picked(row, *LAG) == [6, 6, AFTER_SIZE, 6, 6, 6000]
        assert row["age_ms"] == 6000
        assert row["records_by_type"] == [
            ("PARTITION_RECORD", 1),
            ("PRODUCER_IDS_RECORD", 1),
            ("TOPIC_RECORD", 2),
        ]
        assert row["last_contained_log_timestamp"] == moment(START_MS + 3000)
        assert (row["is_latest"], row["complete"], row["epoch"]) == (True, True, 1)


def test_lag_lies_between_the_bounds_of_the_high_watermark(tmp_path: Path) -> None:
    """Offset 12 is on the leader alone: it may be committed by a voter that is not at hand."""
    nodes = quorum(tmp_path)[:2]
    shutil.rmtree(tmp_path / "3")
    nodes[1].append(Batch(12, 2, (NO_OP,), None, START_MS + 10_000))
    row = rows_of(tmp_path)["2", 6]
    assert picked(row, "lag_offsets_min", "lag_offsets_max") == [6, 7]
    assert picked(row, "lag_records", "lag_batches", "lag_ms", "age_ms") == [7, 7, 7000, 7000]


def test_a_snapshot_at_the_end_lags_behind_nothing(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    stored = [*STORED, healthy_log()[8]]
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(stored, 2, START_MS + 9000))
    rows = rows_of(tmp_path)
    assert picked(rows["1", 12], *LAG) == [0, 0, 0, 0, 0, 0]
    assert rows["1", 12]["age_ms"] == 0
    assert (rows["1", 6]["is_latest"], rows["1", 12]["is_latest"]) == (False, True)


def test_a_snapshot_ahead_of_its_log_lags_behind_the_others(tmp_path: Path) -> None:
    """Its header says how old it is where its log does not."""
    nodes = quorum(tmp_path)
    for segment in nodes[0].folder.glob("*.log"):
        segment.unlink()
    row = rows_of(tmp_path)["1", 6]
    assert picked(row, *LAG) == [6, 6, 0, 0, 0, 0]


def test_cadence_is_the_distance_to_the_snapshot_before(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    stored = [*STORED, healthy_log()[8]]
    raw = snapshot(stored, 2, START_MS + 8000)
    nodes[0].checkpoint(11, 2).write_bytes(raw)
    os.utime(nodes[0].checkpoint(6, 1), (1, 1))  # the first of three equal files was not fetched
    rows = rows_of(tmp_path)
    names = ("previous_end_offset", "interval_offsets", "interval_ms", "interval_log_bytes")
    between = sum(len(one.raw()) for one in AFTER[:-1])
    assert picked(rows["1", 6], *names) == [None, 6, None, BEFORE_SIZE]
    assert picked(rows["1", 11], *names) == [6, 5, 5000, between]
    assert rows["1", 11]["write_amplification"] == len(raw) / between
    assert snapshots_per_day(read(tmp_path), "1") == pytest.approx(DAY_MS / 5000)
    assert snapshots_per_day(read(tmp_path), "2") is None


def test_the_snapshot_before_is_the_newest_of_the_older_ones(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    for end, ms in ((9, 6000), (11, 8000)):
        node.checkpoint(end, 2).write_bytes(snapshot(STORED, 2, START_MS + ms))
    rows = rows_of(tmp_path)
    told = [picked(rows["1", end], "previous_end_offset", "interval_ms") for end in (6, 9, 11)]
    assert told == [[None, None], [6, 3000], [9, 2000]]


def test_bytes_by_type_are_those_of_all_batches_of_the_snapshot(tmp_path: Path) -> None:
    quorum(tmp_path)
    (batches,) = [one.evidence.batches for one in read(tmp_path).snapshots if one.replica == "1"]
    first, second = batches.id_text(1), batches.id_text(2)
    by_batch = {first: {"A": 30, "B": 4}, second: {"A": 5}, "0" * 32: {"A": 100}}
    row = rows_of(tmp_path, sizes_by_type=by_batch)["1", 6]
    assert row["size_bytes_by_type"] == [("A", 35), ("B", 4)]


def test_bytes_between_snapshots_are_told_only_of_a_whole_log(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    row = rows_of(tmp_path)["1", 6]
    assert picked(row, "interval_offsets", "interval_log_bytes", "write_amplification") == [
        0,
        None,
        None,
    ]


def generated(
    node: Node, *, began_ms: int, ended_ms: int, file_ms: int, last_ms: int, end: int = 6
) -> None:
    """A snapshot whose batches, file and header have times of their own."""
    header = struct.pack(">hq", 0, last_ms) + b"\0"
    parts = [
        Batch(0, 1, (header,), (struct.pack(">hh", 0, 3),), began_ms),
        Batch(1, 1, STORED[0].values, None, began_ms + 1),
        Batch(3, 1, STORED[1].values, None, began_ms + 2),
        Batch(5, 1, (struct.pack(">h", 0) + b"\0",), (struct.pack(">hh", 0, 4),), ended_ms),
    ]
    path = node.checkpoint(end, 1)
    path.write_bytes(b"".join(one.raw() for one in parts))
    os.utime(path, ns=(file_ms * 1_000_000, file_ms * 1_000_000))


GENERATION = ("generation_ms_min", "generation_ms_max")


def test_the_bounds_of_the_time_that_generation_took(tmp_path: Path) -> None:
    """From the first batch's stamp to the last one's at least; from the last record that is in it
    to the file's last write at most.
    """
    node = quorum(tmp_path)[0]
    last, began = START_MS + 3000, START_MS + 5000
    generated(node, began_ms=began, ended_ms=began + 250, file_ms=began + 900, last_ms=last)
    row = rows_of(tmp_path)["1", 6]
    assert picked(row, *GENERATION) == [250, 2900]
    assert row["written_from"] == moment(began)
    assert row["written_until"] == moment(began + 250)
    assert row["modified"] == moment(began + 900)


@pytest.mark.parametrize(
    ("file_ms", "last_ms", "most"),
    [
        (START_MS + 9002, START_MS, 9002),
        (START_MS + 9002, START_MS + 9002, 0),
        (START_MS + 9002, START_MS + 9003, None),
        (START_MS + 9002, 1, START_MS + 9001),
        (START_MS + 9002, 0, None),
        (START_MS + 9002, -1, None),
        (START_MS + 9002 - TICK_MS, START_MS, 9002),
        (START_MS + 9001 - TICK_MS, START_MS, None),  # older than its own last batch
    ],
)
def test_a_file_that_is_older_than_its_content_bounds_nothing(
    tmp_path: Path, file_ms: int, last_ms: int, most: int | None
) -> None:
    node = quorum(tmp_path)[0]
    began = START_MS + 9000
    generated(node, began_ms=began, ended_ms=began - 1, file_ms=file_ms, last_ms=last_ms)
    assert picked(rows_of(tmp_path)["1", 6], *GENERATION) == [3, most]


FINISHED = ("finished_by", "finished_witness", "generation_ms_max")
COPIED = START_MS + 10 * DAY_MS
"""When a copy was made that kept no times."""


def test_a_copy_without_times_is_bounded_by_the_next_snapshot(tmp_path: Path) -> None:
    """A node writes one snapshot after the other: the next one's first batch is of 8,000 ms."""
    node = quorum(tmp_path)[0]
    last, began = START_MS + 3000, START_MS + 5000
    generated(node, began_ms=began, ended_ms=began + 250, file_ms=COPIED, last_ms=last)
    row = rows_of(tmp_path)["1", 6]
    assert picked(row, *FINISHED) == [None, None, None]
    began += 3000
    generated(node, began_ms=began, ended_ms=began, file_ms=COPIED, last_ms=last + 3000, end=8)
    row = rows_of(tmp_path)["1", 6]
    assert picked(row, *FINISHED) == [moment(START_MS + 8000), "the next snapshot", 5000]
    assert row["generation_ms_min"] == 250


@pytest.mark.parametrize("late_ms", [60_000, 60_001])
def test_a_file_s_time_is_its_own_as_long_as_a_copy_may_take(tmp_path: Path, late_ms: int) -> None:
    """The newest record of all logs is of 9,000 ms, and a copy takes a minute (copy_skew_ms)."""
    node = quorum(tmp_path)[0]
    last, began, file_ms = START_MS + 3000, START_MS + 5000, START_MS + 9000 + late_ms
    generated(node, began_ms=began, ended_ms=began + 250, file_ms=file_ms, last_ms=last)
    row = rows_of(tmp_path)["1", 6]
    known = [moment(file_ms), "its file", 66_000]
    assert picked(row, *FINISHED) == (known if late_ms == 60_000 else [None] * 3)


def test_a_copy_without_times_is_bounded_by_who_fetched_the_file(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node, ms in ((nodes[0], COPIED), (nodes[1], START_MS + 6000)):
        generated(
            node, began_ms=START_MS + 5000, ended_ms=START_MS + 5100, file_ms=ms,
            last_ms=START_MS + 3000,
        )  # fmt: skip
    row = rows_of(tmp_path)["1", 6]
    assert picked(row, *FINISHED) == [moment(START_MS + 6000), "the copy of 2", 3000]


def test_logs_tell_who_fetched_a_snapshot_where_times_are_lost(tmp_path: Path) -> None:
    """1 begins at the snapshot's end, as a node does that has fetched it; 2 and 3 hold what is
    before it. The times, all lost, say that 1 wrote it first.
    """
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    for at, node in enumerate(nodes):
        os.utime(node.checkpoint(6, 1), (COPIED / 1000 + at, COPIED / 1000 + at))
    rows = rows_of(tmp_path)
    assert rows["1", 6]["origin"] == "fetched"
    (tmp_path / "3").rename(tmp_path.parent / f"{tmp_path.name}-3")
    rows = rows_of(tmp_path)
    assert {label: rows[label, 6]["origin"] for label in ("1", "2")} == {
        "1": "fetched",
        "2": "generated",
    }


def test_load_times_are_those_that_were_measured(tmp_path: Path) -> None:
    path = str(quorum(tmp_path)[0].checkpoint(6, 1))
    rows = rows_of(tmp_path, measured_load={path: 12.5}, bytes_per_second=500.0)
    assert (rows["1", 6]["load_ms"], rows["2", 6]["load_ms"]) == (12.5, None)
    assert rows["1", 6]["predicted_load_ms"] == (SIZE + AFTER_SIZE) / 500 * 1000
    assert rows_of(tmp_path)["1", 6]["predicted_load_ms"] is None


class Clock:
    """Each look at it is half a second later."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += 0.5
        return self.now


def test_whole_snapshots_are_timed_each_content_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that goes on by half a second whenever it is looked at counts the loads too."""
    nodes = quorum(tmp_path)
    first, second, third = (node.checkpoint(6, 1) for node in nodes)
    third.write_bytes(snapshot(STORED, 1, START_MS + 2999))
    views = read(tmp_path).snapshots
    paths = [str(one) for one in (first, second, third)]
    records = FileRecords(Redactor(None), Limits())

    clock = Clock()
    monkeypatch.setattr(snapshot_metrics, "time", clock)
    assert load_times(views, records) == dict.fromkeys(paths, 500)
    assert clock.now == 4 * 0.5, "two contents"

    first.write_bytes(first.read_bytes()[:-1])
    second.unlink()
    assert load_times(views, records) == {paths[2]: 500}, "what changed since is not timed"


# --- lint --------------------------------------------------------------------------------------


def lint(root: Path, node: Node, name: str, value: int | str, **more: str) -> tuple[str, str]:
    """(status, message) of one setting in the properties of a node."""
    given = {name: str(value), **more}
    text = "".join(f"{key}={one}\n" for key, one in given.items())
    (node.home / "server.properties").write_text(text)
    rows = configuration_rows(read(root), {})
    (row,) = [one for one in rows if one["setting"] == name and one["replica"] == str(node.node_id)]
    return row["status"], row["message"] or ""


def limit_of(exceeded: int) -> int:
    """The smallest limit that an amount does not exceed by half."""
    return ceil(exceeded / 1.5)


BETWEEN = "metadata.log.max.record.bytes.between.snapshots"
INTERVAL = "metadata.log.max.snapshot.interval.ms"
KEPT_BYTES, KEPT_MS = "metadata.max.retention.bytes", "metadata.max.retention.ms"
SEGMENT = "metadata.log.segment.bytes"


def gone_on(root: Path, after_ms: int) -> Node:
    """A voter that has written a no-op so long after the healthy log."""
    nodes = quorum(root)
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP,), None, healthy_log()[-1].ms + after_ms))
    return nodes[0]


@pytest.mark.parametrize(
    "name, amount, after_ms, says",
    [
        (BETWEEN, AFTER_SIZE, 10_000, f"{AFTER_SIZE:,} bytes were written since"),
        (INTERVAL, 6000, 0, "0.0 hours older than the log's end"),
    ],
)
def test_a_limit_is_contradicted_where_it_is_exceeded_by_half(
    tmp_path: Path, name: str, amount: int, after_ms: int, says: str
) -> None:
    node = gone_on(tmp_path, after_ms)
    assert lint(tmp_path, node, name, limit_of(amount)) == ("set", "")
    status, message = lint(tmp_path, node, name, limit_of(amount) - 1)
    assert status == "at odds"
    assert says in message


def test_the_log_is_measured_where_there_is_no_snapshot(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    node.checkpoint(6, 1).unlink()
    assert lint(tmp_path, node, INTERVAL, limit_of(9000))[0] == "set"
    assert lint(tmp_path, node, INTERVAL, limit_of(9000) - 1)[0] == "at odds"
    assert lint(tmp_path, node, INTERVAL, 0)[0] == "set"


def test_a_clock_that_was_ahead_makes_no_snapshot_old_and_no_growth_small(tmp_path: Path) -> None:
    """A record of four years later, and one of two seconds later behind it."""
    healthy, ahead_ms = healthy_log(), 4 * 365 * DAY_MS
    nodes = quorum(tmp_path)
    end_ms = healthy[-1].ms + 2000
    for one in nodes:
        one.append(Batch(12, 2, (NO_OP,), None, healthy[-1].ms + ahead_ms))
        one.append(Batch(13, 2, (NO_OP,), None, end_ms))
    assert lint(tmp_path, nodes[0], INTERVAL, 3_600_000) == ("set", "")
    seen, span = read(tmp_path), end_ms - healthy[0].ms
    log = seen.by_label["1"]
    size = int(log.evidence.log.sizes.sum())
    assert log_bytes_per_day(log) == pytest.approx(size * DAY_MS / span)
    assert shared_log(seen).span_ms == span
    assert {row["lag_ms"] for row in rows_of(tmp_path).values()} == {end_ms - STORED[-1].ms}


def test_the_oldest_snapshot_is_the_first_one_whatever_its_clock_said(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    two_snapshots(node)
    node.checkpoint(6, 1).write_bytes(snapshot(STORED, 1, START_MS + 4 * 365 * DAY_MS))
    assert lint(tmp_path, node, KEPT_MS, 600) == ("set", "")


def test_what_a_snapshot_may_still_be_written_of_does_not_count(tmp_path: Path) -> None:
    whole = BEFORE_SIZE + AFTER_SIZE
    for after_ms, status in ((9_999, "set"), (10_000, "at odds")):
        node = gone_on(tmp_path / str(after_ms), after_ms)
        node.checkpoint(6, 1).unlink()
        assert lint(node.home.parent, node, BETWEEN, limit_of(whole))[0] == "set"
        assert lint(node.home.parent, node, BETWEEN, limit_of(whole) - 1)[0] == status


def two_snapshots(node: Node) -> int:
    """A second snapshot, of 8,000 ms; returns the bytes of log and snapshots."""
    raw = snapshot([*STORED, healthy_log()[8]], 2, START_MS + 8000)
    node.checkpoint(11, 2).write_bytes(raw)
    return BEFORE_SIZE + AFTER_SIZE + SIZE + len(raw)


def test_what_is_kept_longer_than_retention_says(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    # A single snapshot is never dropped, whatever the limits are.
    assert lint(tmp_path, node, KEPT_BYTES, 1)[0] == "set"
    assert lint(tmp_path, node, KEPT_MS, 1)[0] == "set"
    total = two_snapshots(node)
    assert lint(tmp_path, node, KEPT_BYTES, limit_of(total))[0] == "set"
    status, message = lint(tmp_path, node, KEPT_BYTES, limit_of(total) - 1)
    assert (status, f"log and 2 snapshots take {total:,} bytes" in message) == ("at odds", True)
    # The oldest is of 3,000 ms, the newest record of 9,000.
    assert lint(tmp_path, node, KEPT_MS, limit_of(6000))[0] == "set"
    status, message = lint(tmp_path, node, KEPT_MS, limit_of(6000) - 1)
    assert (status, "still there" in message) == ("at odds", True)
    for name in (KEPT_BYTES, KEPT_MS):
        assert lint(tmp_path, node, name, -1)[0] == "set"
        assert lint(tmp_path, node, name, 0)[0] == "at odds"


def test_a_segment_larger_than_its_limit(tmp_path: Path) -> None:
    """8 MiB is the least that Kafka takes."""
    node = quorum(tmp_path)[0]
    least, path = 8 << 20, node.segment(6)
    os.truncate(path, least * 3 // 2)
    assert lint(tmp_path, node, SEGMENT, least)[0] == "set"
    os.truncate(path, least * 3 // 2 + 1)
    status, message = lint(tmp_path, node, SEGMENT, least)
    assert (status, "a segment of 12,582,913 bytes" in message) == ("at odds", True)
    assert lint(tmp_path, node, SEGMENT, least - 1)[0] == "invalid"


@pytest.mark.parametrize(
    "name, least",
    [
        (BETWEEN, 1),
        (INTERVAL, 0),
        (SEGMENT, 8 << 20),
        ("controller.quorum.fetch.snapshot.max.bytes", 1),
        ("controller.quorum.fetch.max.bytes", 1),
        ("controller.quorum.fetch.timeout.ms", 0),
        (KEPT_BYTES, -(1 << 63)),
        (KEPT_MS, -(1 << 63)),
    ],
)
def test_the_least_that_kafka_takes(tmp_path: Path, name: str, least: int) -> None:
    """As Kafka 4.3.1 defines them; a retention below 0 is none, whatever the number."""
    node = quorum(tmp_path)[0]
    status, message = lint(tmp_path, node, name, least - 1)
    assert status == "invalid"
    assert message == f"{least - 1} is below {least}: Kafka refuses to start"
    assert lint(tmp_path, node, name, least)[0] != "invalid"


@pytest.mark.parametrize(
    ("name", "value", "is_valid"),
    [
        (SEGMENT, 2**31 - 1, True),
        (SEGMENT, 2**31, False),
        (KEPT_MS, 2**63 - 1, True),
        (KEPT_MS, 2**63, False),
        (KEPT_BYTES, "9" * 5000, False),
        (KEPT_BYTES, "1_000", False),
        (KEPT_BYTES, "+1000000 ", True),
        (KEPT_BYTES, "1e9", False),
    ],
)
def test_numbers_that_java_does_not_hold(
    tmp_path: Path, name: str, value: int | str, is_valid: bool
) -> None:
    status, message = lint(tmp_path, quorum(tmp_path)[0], name, value)
    assert (status != "invalid") == is_valid
    assert is_valid or "Kafka refuses to start" in message


def test_a_selector_by_rack_wants_a_rack(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    aware = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    selector = "replica.selector.class"
    assert lint(tmp_path, node, selector, aware)[0] == "at odds"
    assert lint(tmp_path, node, selector, aware, **{"broker.rack": "a"})[0] == "set"
    assert lint(tmp_path, node, selector, aware.replace("Aware", ""))[0] == "set"


@pytest.mark.parametrize(
    ("own", "other", "registered", "says"),
    [
        ("a", None, {}, "1 of 2 brokers have a rack"),
        ("a", "b", {}, ""),
        ("a", "b", {1: "a"}, ""),
        ("a", "b", {1: "c"}, "registered with rack 'c': it was not restarted"),
        ("a", "b", {1: None}, "registered with rack None: it was not restarted"),
        ("a", "b", {2: "c"}, ""),
        ("", "b", {1: ""}, ""),
        ("", "b", {1: None}, ""),
        ("", "b", {1: "c"}, "registered with rack 'c': it was not restarted"),
    ],
)
def test_a_rack_counts_where_all_brokers_have_one(
    tmp_path: Path, own: str, other: str | None, registered: dict[int, str | None], says: str
) -> None:
    nodes = quorum(tmp_path)
    for node, rack in zip(nodes, (own, other), strict=False):
        text = "log.dirs=/\n" if rack is None else f"broker.rack={rack}\n"
        (node.home / "server.properties").write_text(text)
    found = configuration_rows(read(tmp_path), registered)
    (row,) = [one for one in found if (one["setting"], one["replica"]) == ("broker.rack", "1")]
    assert (row["status"], says in (row["message"] or "")) == ("at odds" if says else "set", True)
    # A controller has no rack, and its file counts for nobody.
    (nodes[1].home / "server.properties").write_text("process.roles=controller\n")
    found = configuration_rows(read(tmp_path), {})
    rows = {one["replica"]: one["status"] for one in found if one["setting"] == "broker.rack"}
    assert rows == {"1": "set", "2": "default"}


# --- retention ---------------------------------------------------------------------------------


def advice(
    root: Path, limits: RetentionLimits, replica: str = "1", lag_ms: int = START_LAG_MS
) -> dict[int, Row]:
    found = retention_rows(read(root), limits, lag_ms)
    return {row["end_offset"]: row for row in found if row["replica"] == replica}


def test_the_cleaner_drops_only_what_is_over_a_limit(tmp_path: Path) -> None:
    total = two_snapshots(quorum(tmp_path)[0])
    by_size = "metadata.max.retention.bytes"

    def reasons(limits: RetentionLimits) -> list[str | None]:
        return [row["shipped_reason"] for row in advice(tmp_path, limits).values()]

    assert reasons(RetentionLimits(max_bytes=total)) == [None, None]
    assert reasons(RetentionLimits(max_bytes=total - 1)) == [by_size, None]
    assert reasons(RetentionLimits(max_ms=6000)) == [None, None]
    assert reasons(RetentionLimits(max_ms=5999)) == ["metadata.max.retention.ms", None]
    assert reasons(RetentionLimits(max_ms=0)) == ["metadata.max.retention.ms", None]
    # Size is asked first, and the newest stays, however large it is.
    assert reasons(RetentionLimits(max_bytes=0, max_ms=0)) == [by_size, None]


def test_the_cleaner_stops_where_enough_has_gone(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    total = two_snapshots(node)
    newest = snapshot(STORED, 2, START_MS + 9000)
    node.checkpoint(12, 2).write_bytes(newest)
    # With the oldest goes the first segment, which ends below the next one.
    rest = total + len(newest) - SIZE - node.segment(0).stat().st_size
    held = advice(tmp_path, RetentionLimits(max_bytes=rest))
    assert [row["shipped_drops"] for row in held.values()] == [True, False, False]
    assert [row["shipped_may_advance"] for row in held.values()] == [False, True, False]
    held = advice(tmp_path, RetentionLimits(max_bytes=rest - 1))
    assert [row["shipped_drops"] for row in held.values()] == [True, True, False]
    assert [row["rank"] for row in held.values()] == [3, 2, 1]
    assert [row["is_served"] for row in held.values()] == [False, False, True]
    older = [0, SIZE, SIZE + total - BEFORE_SIZE - AFTER_SIZE - SIZE]
    assert [row["prunable_snapshot_bytes"] for row in held.values()] == older
    # The first segment ends at 6; the last one is never cut.
    assert [row["prunable_segment_bytes"] for row in held.values()] == [BEFORE_SIZE] * 3


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_cleaner_counts_what_holds_no_state(is_whole: bool, tmp_path: Path) -> None:
    """What `format` writes at offset 0, and what is incomplete: Kafka goes by the names. It does so
    with replica 1 of the golden quorum isolated-healed.
    """
    node = quorum(tmp_path)[0]
    older = node.checkpoint(0, 0) if is_whole else node.checkpoint(3, 1)
    older.write_bytes(snapshot([], 0, START_MS)[: None if is_whole else -1])
    total = (
        sum(one.stat().st_size for one in (older, node.checkpoint(6, 1))) + BEFORE_SIZE + AFTER_SIZE
    )
    for limits in (RetentionLimits(max_bytes=total - 1), RetentionLimits(max_ms=8999)):
        (row,) = advice(tmp_path, limits).values()
        assert (row["end_offset"], row["shipped_may_advance"], row["rank"]) == (6, True, 1)
        assert (row["shipped_drops"], row["shipped_reason"]) == (False, None)
    (row,) = advice(tmp_path, RetentionLimits(max_bytes=total)).values()
    assert not row["shipped_may_advance"]


def test_an_older_snapshot_is_of_use_while_the_log_bridges_it(tmp_path: Path) -> None:
    """Offset 9 is missing on 2: its snapshot at 6 does not lead to the newest one any more."""
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        two_snapshots(node)
    rest = [one.raw() for one in healthy_log() if one.base >= 6 and one.base != 9]
    nodes[1].segment(6).write_bytes(b"".join(rest))
    useful = {
        label: [row["is_useful"] for row in advice(tmp_path, RetentionLimits(), label).values()]
        for label in "123"
    }
    assert useful == {"1": [True, True], "2": [False, True], "3": [True]}


def test_the_kip_asks_whether_all_hold_it_or_the_log_start_is_old(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    assert advice(tmp_path, RetentionLimits())[6]["kip_may_advance"]
    whole = nodes[2].segment(0).read_bytes()
    nodes[2].segment(6).unlink()
    assert advice(tmp_path, RetentionLimits())[6]["kip_may_advance"]
    nodes[2].segment(0).write_bytes(whole[: -len(healthy_log()[3].raw())])
    assert not advice(tmp_path, RetentionLimits())[6]["kip_may_advance"]
    # The log begins at 0 ms, the newest record is of 9,000.
    assert advice(tmp_path, RetentionLimits(), lag_ms=9000)[6]["kip_may_advance"]
    assert not advice(tmp_path, RetentionLimits(), lag_ms=9001)[6]["kip_may_advance"]


def test_a_log_that_begins_at_the_snapshots_end_has_nothing_to_give(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    row = advice(tmp_path, RetentionLimits(), lag_ms=0)[6]
    assert (row["kip_may_advance"], row["log_start_is_snapshot_end"]) == (False, True)
    assert (row["log_start_offset"], row["prunable_segment_bytes"]) == (6, 0)
    nodes[0].checkpoint(6, 1).rename(nodes[0].checkpoint(9, 2))
    row = advice(tmp_path, RetentionLimits())[9]
    assert (row["log_start_offset"], row["log_start_is_snapshot_end"]) == (6, False)


def test_where_a_followers_log_would_begin_by_both_texts(tmp_path: Path) -> None:
    """The leader's log begins at 6 and its own snapshot ends there; two followers begin at 0, and
    their snapshots end before, at and after the leader's log start.
    """
    nodes = quorum(tmp_path)
    nodes[1].segment(0).unlink()
    kept = snapshot(STORED, 1, START_MS + 3000)
    nodes[0].checkpoint(6, 1).unlink()
    nodes[0].checkpoint(3, 1).write_bytes(kept)
    nodes[2].checkpoint(9, 2).write_bytes(kept)
    rows = {row["replica"]: row for row in retention_rows(read(tmp_path))}
    told = ("log_start_offset", "log_start_spread", "adopted_start_offset", "draft_start_offset")
    assert {label: [row[name] for name in told] for label, row in rows.items()} == {
        "1": [0, -6, 3, None],
        "2": [6, 0, 6, 6],
        "3": [0, -6, 6, 6],
    }


def test_the_leader_is_known_by_its_record_or_by_quorum_state(tmp_path: Path) -> None:
    """A broker's longer log is no leader's; a LeaderChange that was pruned stands in quorum-state;
    where the leader has no copy, the newest log stands for it.
    """
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, START_MS + 20_000))
    found = read(tmp_path)
    assert found.newest_log is not None
    assert found.leading_log is not None
    assert (found.newest_log.label, found.leading_log.label) == ("1", "2")
    assert found.leaders == {1: 1, 2: 2}
    for node in nodes:
        node.segment(0).unlink()
        node.segment(6).write_bytes(b"".join(one.raw() for one in healthy_log()[7:]))
        node.segment(6).rename(node.segment(9))
        node.quorum_state(leaderId=3, leaderEpoch=2)
    pruned = read(tmp_path)
    assert pruned.leaders == {2: 3}
    assert pruned.leading_log is not None
    assert pruned.leading_log.label == "3"
    for node in nodes:
        node.quorum_state(leaderId=-1, leaderEpoch=2)
    unknown = read(tmp_path)
    assert unknown.leaders == {}
    assert unknown.leading_log is unknown.newest_log


# --- bursts ------------------------------------------------------------------------------------


def burst(root: Path, times_ms: list[int], epochs: list[int] | None = None) -> tuple[int, int]:
    """The burst around the batch at offset 13, of batches from offset 12 on."""
    for node in quorum(root):
        last = epochs or [2] * len(times_ms)
        for n, (ms, epoch) in enumerate(zip(times_ms, last, strict=True)):
            node.append(Batch(12 + n, epoch, (NO_OP,), None, START_MS + 100_000 + ms))
    found = Bursts(shared_log(read(root)), [BrokerEvent(13, 7, "fenced", "FENCE_BROKER_RECORD")])
    (row,) = amplification_rows(found, 3)
    return row["burst_start_offset"], row["burst_end_offset"]


def test_a_burst_ends_where_the_gap_is_too_long_or_the_epoch_changes(tmp_path: Path) -> None:
    gap = BURST_GAP_MS
    assert burst(tmp_path / "a", [0, gap, 2 * gap]) == (12, 15)
    assert burst(tmp_path / "b", [0, gap + 1, 2 * gap + 1]) == (13, 15)
    assert burst(tmp_path / "c", [0, gap, 2 * gap + 1]) == (12, 14)
    assert burst(tmp_path / "d", [0, 1, 2], [2, 2, 3]) == (12, 14)
    assert burst(tmp_path / "e", [0, 1, 2], [2, 3, 3]) == (13, 15)


def test_the_bytes_of_a_burst(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        node.append(replace(leader_change(12, 3, 1), ms=START_MS + 100_000))
        node.append(Batch(13, 3, (NO_OP, NO_OP), None, START_MS + 100_001))
    found = Bursts(
        shared_log(read(tmp_path)), [BrokerEvent(13, 7, "fenced", "FENCE_BROKER_RECORD")]
    )
    (row,) = amplification_rows(found, 3)
    sizes = [len(leader_change(12, 3, 1).raw()), len(Batch(13, 3, (NO_OP, NO_OP)).raw())]
    assert (row["burst_record_count"], row["burst_size_bytes"]) == (3, sum(sizes))
    assert row["replicated_size_bytes"] == 2 * sum(sizes)
    assert row["event_timestamp"] == moment(START_MS + 100_001)
    # Two partition changes of 40 and 50 bytes fall into it, in any order; one does not.
    found.add(np.array([14, 11, 12]), np.array([50, 99, 40]))
    (row,) = amplification_rows(found, 3)
    assert (row["partition_change_count"], row["partition_change_size_bytes"]) == (2, 90)
    assert (row["event_offset"], row["broker_id"], row["event"]) == (13, 7, "fenced")
    assert (row["kip_event_size_bytes"], row["kip_isr_changes_size_bytes"]) == (2 * 8, 2 * 2 * 40)


def test_events_of_one_burst_have_each_their_own_partition_changes(tmp_path: Path) -> None:
    """Offsets 12 to 31 in one batch: broker 1 is fenced at 15, 2 at 18; 3 is unfenced at 20, 4
    leaves at 25, when both of its marks change, and 5 is unfenced at 30.
    """
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (NO_OP,) * 20, None, START_MS + 100_000))
    kinds = [(15, 1, "fenced"), (18, 2, "fenced"), (20, 3, "unfenced")]
    kinds += [(25, 4, "controlled_shutdown"), (25, 4, "fenced"), (30, 5, "unfenced")]
    bursts = Bursts(shared_log(read(tmp_path)), [BrokerEvent(*one, "X") for one in kinds])
    changes = np.array([12, 13, 14, 16, 17, 21, 22, 23, 24, 26, 27, 31])
    bursts.add(changes, np.full(len(changes), 40))
    rows = [*amplification_rows(bursts, 3)]
    assert [row["partition_change_count"] for row in rows] == [3, 2, 4, 2, 2, 1]
    assert {(row["burst_start_offset"], row["burst_end_offset"]) for row in rows} == {(12, 32)}
