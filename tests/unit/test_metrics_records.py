"""Sizes of records, the offset map of a compaction, and the lint of server.properties."""

import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.metrics.amplification import events_of
from kraftlog.metrics.compaction import OffsetMap
from kraftlog.metrics.configuration import configuration_rows
from kraftlog.metrics.costs import placement
from kraftlog.metrics.disk_use import disk_rows
from kraftlog.metrics.record_totals import READS, frame_sizes, varint_sizes
from kraftlog.metrics.retention_advice import retention_rows
from kraftlog.metrics.snapshot_metrics import origin_of
from kraftlog.quorum.growth import DAY_MS
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import RetentionLimits
from kraftlog.quorum.settings import SETTINGS
from tests.collecting import collect
from tests.golden.cases import DATA
from tests.unit.audit_logs import frame, varint

Row = dict[str, Any]


@settings(deadline=None)
@given(st.lists(st.integers(-(1 << 62), (1 << 62) - 1), min_size=1))
def test_varint_sizes_are_those_of_the_bytes(values: list[int]) -> None:
    found = varint_sizes(np.array(values, np.int64)).tolist()
    assert found == [len(varint(value)) for value in values]


RECORDS = st.tuples(
    st.integers(0, 1 << 20),
    st.integers(-(1 << 40), 1 << 40),
    st.none() | st.integers(0, 300),
    st.integers(0, 70_000),
)


@settings(deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=5))
def test_frame_sizes_are_those_of_the_bytes(rows: list[tuple[int, int, int | None, int]]) -> None:
    schema = pa.schema([(name, pa.int64()) for name in READS[-4:]])
    columns = [
        {
            "offset_delta": index,
            "timestamp_delta": time,
            "key_size_bytes": key,
            "value_size_bytes": value,
        }
        for index, time, key, value in rows
    ]
    found = frame_sizes(pa.RecordBatch.from_pylist(columns, schema=schema)).tolist()
    written = [
        len(frame(index, None if key is None else bytes(key), bytes(value), time))
        for index, time, key, value in rows
    ]
    assert found == written


def config_batch(rows: list[tuple[int, str, str | None]]) -> pa.RecordBatch:
    """CONFIG_RECORD rows: offset, name, value (null deletes)."""
    sizes = {"timestamp_delta": 0, "offset_delta": 0, "key_size_bytes": None}
    payload = {"resource_type": 2, "resource_name": "t"}
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": offset,
                "timestamp": offset * 1000,
                **sizes,
                "value_size_bytes": 10 + offset,
                "config_record": {**payload, "name": name, "value": value},
            }
            for offset, name, value in rows
        ],
        schema=pa.schema(
            [
                ("offset", pa.int64()),
                ("timestamp", pa.timestamp("us", "UTC")),
                ("timestamp_delta", pa.int64()),
                ("offset_delta", pa.int32()),
                ("key_size_bytes", pa.int32()),
                ("value_size_bytes", pa.int32()),
                (
                    "config_record",
                    pa.struct(
                        [
                            ("resource_type", pa.int8()),
                            ("resource_name", pa.string()),
                            ("name", pa.string()),
                            ("value", pa.string()),
                        ]
                    ),
                ),
            ]
        ),
    )


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2", None])), max_size=30)


@settings(deadline=None)
@given(STEPS, st.lists(st.integers(0, 30), max_size=4), st.randoms())
def test_the_offset_map_holds_the_last_record_of_each_key_in_any_order(
    steps: list[tuple[str, str | None]], cuts: list[int], random: Any
) -> None:
    rows = [(offset, name, value) for offset, (name, value) in enumerate(steps)]
    bounds = sorted({0, len(rows), *(one for one in cuts if one < len(rows))})
    parts = [rows[a:b] for a, b in pairwise(bounds)]
    random.shuffle(parts)
    found = OffsetMap()
    for part in parts:
        rows_of_part = config_batch(random.sample(part, len(part)))
        found.add("CONFIG_RECORD", rows_of_part, frame_sizes(rows_of_part))
    survivors = found.survivors()
    last = {name: (offset, value) for offset, name, value in rows}
    expected = sorted((offset, value is None) for offset, value in last.values())
    kept = zip(survivors.offsets.tolist(), survivors.tombstones.tolist(), strict=True)
    assert sorted(kept) == expected
    assert found.counts["CONFIG_RECORD"] == len(rows)
    after = survivors.kept(now_ms=100, horizon_ms=90)
    gone = {offset for offset, tombstone in expected if tombstone and offset <= 10}
    assert set(survivors.offsets[after].tolist()) == {one for one, _ in expected} - gone
    assert survivors.kept(100, None).all()


def test_events_of_a_broker() -> None:
    def version(start: int, end: int | None, kind: str, fenced: bool, leaving: bool) -> Row:
        return {
            "valid_from_offset": start + 1,
            "valid_to_offset": None if end is None else end + 1,
            "record_offset": start,
            "record_type": kind,
            "broker_id": 7,
            "fenced": fenced,
            "in_controlled_shutdown": leaving,
        }

    change = "BROKER_REGISTRATION_CHANGE_RECORD"
    found = events_of(
        [
            version(9, 20, change, True, True),
            version(1, 3, "REGISTER_BROKER_RECORD", True, False),
            version(3, 6, change, False, False),
            version(6, 9, change, False, True),
            version(30, None, "REGISTER_BROKER_RECORD", True, False),
        ]
    )
    assert [(one.offset, one.kind) for one in found] == [
        (1, "registered"),
        (3, "unfenced"),
        (6, "controlled_shutdown"),
        (9, "fenced"),
        (20, "unregistered"),
        (30, "registered"),
    ]


def test_placement_counts_topics_that_lie_twice_on_a_broker() -> None:
    rows = [("a", [1, 2]), ("a", [3, 1]), ("b", [1, 2]), ("b", [3, 4]), ("c", [])]
    table = pa.Table.from_pylist(
        [{"topic_id": topic, "partition_replicas": held} for topic, held in rows],
        schema=pa.schema([("topic_id", pa.string()), ("partition_replicas", pa.list_(pa.int32()))]),
    )
    found = placement(table)
    assert (found.topics, found.brokers, found.replicas) == (3, 4, 8)
    assert (found.busiest_broker_replicas, found.unbalanced_topics) == (3, 1)
    assert placement(table.slice(0, 0)).busiest_broker_replicas == 0


class Copy:
    """A quorum on disk that a test may change; read anew at each call."""

    def __init__(self, case: str, folder: Path) -> None:
        self.root = folder / "replicas"
        shutil.copytree(DATA / case / "replicas", self.root)

    def quorum(self) -> Quorum:
        replicas = find_replicas([str(self.root)])
        return Quorum(collect(replicas, Limits(), Redactor(None), replay=False))

    def configure(self, node: str, **settings: str) -> None:
        lines = [f"{name.replace('__', '.')}={value}" for name, value in settings.items()]
        (self.root / node / "server.properties").write_text("\n".join(lines))


@pytest.fixture
def lagging(tmp_path: Path) -> Copy:
    return Copy("lagging", tmp_path)


def lint(quorum: Quorum, racks: dict[int, str | None] | None = None) -> dict[tuple[str, str], Row]:
    rows = configuration_rows(quorum, racks or {})
    return {(row["replica"], row["setting"]): row for row in rows}


def test_without_a_file_there_is_nothing_to_lint(lagging: Copy) -> None:
    assert lint(lagging.quorum()) == {}


def test_settings_of_the_kip_have_no_effect(lagging: Copy) -> None:
    never_shipped = {
        "cleanup.policy": "snapshot",
        "metadata.snapshot.min.changed_records.ratio": "0.5",
        "metadata.start.offset.lag.time.max.ms": "604800000",
        "controller.snapshot.minimum.records": "5",
        "max.replication.lag.ms": "1000",
        "client.rack": "a",
    }
    lagging.configure("2", **{key.replace(".", "__"): one for key, one in never_shipped.items()})
    found = lint(lagging.quorum())
    assert len(found) == len(SETTINGS)
    for name in never_shipped:
        assert found["2", name]["status"] == "no effect"
        assert found["2", name]["message"]
    between = found["2", "metadata.log.max.record.bytes.between.snapshots"]
    assert (between["status"], between["shipped_default"]) == ("default", "20971520")
    fetch = found["2", "controller.quorum.fetch.snapshot.max.bytes"]
    assert (fetch["shipped_default"], fetch["kip"], fetch["value"]) == ("1048576", "KIP-1219", None)


def test_values_that_kafka_refuses_or_the_log_contradicts(lagging: Copy) -> None:
    lagging.configure(
        "2",
        controller__quorum__fetch__max__bytes="0",
        metadata__log__max__record__bytes__between__snapshots="1000",
        metadata__max__retention__bytes="many",
        metadata__log__max__snapshot__interval__ms="0",
    )
    found = {name: row["status"] for (_, name), row in lint(lagging.quorum()).items()}
    assert found["controller.quorum.fetch.max.bytes"] == "invalid"
    assert found["metadata.log.max.record.bytes.between.snapshots"] == "at odds"
    assert found["metadata.max.retention.bytes"] == "invalid"
    assert found["metadata.log.max.snapshot.interval.ms"] == "set"


def test_racks_on_some_brokers_and_other_than_registered(lagging: Copy) -> None:
    lagging.configure("11", process__roles="broker", broker__rack="a")
    lagging.configure("12", process__roles="broker")
    lagging.configure("1", process__roles="controller")
    found = lint(lagging.quorum(), {11: "a", 12: None})
    assert found["11", "broker.rack"]["message"].startswith("1 of 2 brokers have a rack")
    assert found["1", "broker.rack"]["status"] == "default"
    lagging.configure("11", process__roles="broker")
    assert lint(lagging.quorum())["11", "broker.rack"]["status"] == "default", "none has a rack"
    lagging.configure("11", process__roles="broker", broker__rack="a")
    moved = lint(lagging.quorum(), {11: "b"})["11", "broker.rack"]
    assert (moved["status"], "'b'" in moved["message"]) == ("at odds", True)
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    lagging.configure("12", process__roles="broker", replica__selector__class=selector)
    assert lint(lagging.quorum())["12", "replica.selector.class"]["status"] == "at odds"


def test_equal_bytes_were_fetched_by_the_younger_file(lagging: Copy) -> None:
    [source, *_] = sorted(self for self in lagging.root.glob("2/*/*978-*.checkpoint"))
    target = lagging.root / "3" / source.parent.name / source.name
    target.unlink()
    shutil.copy(source, target)
    for age_s, path in ((100, source), (50, target)):
        os.utime(path, (1_790_000_000 - age_s, 1_790_000_000 - age_s))
    quorum = lagging.quorum()
    origins = {
        one.replica: origin_of(quorum, one) for one in quorum.snapshots if one.end_offset == 978
    }
    assert origins == {"2": "generated", "3": "fetched"}
    os.utime(target, (1_790_000_000 - 100, 1_790_000_000 - 100))
    quorum = lagging.quorum()
    assert {origin_of(quorum, one) for one in quorum.snapshots if one.end_offset == 978} == {
        "unknown"
    }


def test_kafkas_cleaner_drops_the_oldest_while_it_is_over_its_limits(lagging: Copy) -> None:
    quorum = lagging.quorum()

    def advice(limits: RetentionLimits) -> list[tuple[int, bool, bool, str | None]]:
        return [
            (
                row["end_offset"],
                row["shipped_drops"],
                row["shipped_may_advance"],
                row["shipped_reason"],
            )
            for row in retention_rows(quorum, limits)
            if row["replica"] == "11"
        ]

    assert advice(RetentionLimits(max_bytes=1)) == [
        (834, True, False, "metadata.max.retention.bytes"),
        (1261, False, True, None),
    ]
    assert advice(RetentionLimits(max_ms=1))[0][3] == "metadata.max.retention.ms"
    assert not any(dropped for _, dropped, _, _ in advice(RetentionLimits()))


def test_the_kip_moves_the_log_start_when_all_hold_it_or_when_it_is_old(lagging: Copy) -> None:
    quorum = lagging.quorum()
    # Node 1 lags behind every snapshot, so that only age counts.
    assert not any(row["kip_may_advance"] for row in retention_rows(quorum))
    old = retention_rows(quorum, start_lag_ms=1)
    assert all(row["kip_may_advance"] and "older" in row["kip_reason"] for row in old)
    shutil.rmtree(lagging.root / "1")
    shutil.rmtree(lagging.root / "12")
    held = {row["end_offset"]: row["kip_may_advance"] for row in retention_rows(lagging.quorum())}
    ends = min(one.end_offset or 0 for one in lagging.quorum().logs)
    assert held == {end: end <= ends for end in held}
    assert any(held.values())


def test_days_to_fill_a_disk(lagging: Copy) -> None:
    files = [{"replica": "1", "kind": "log", "size_bytes": 400}]
    files += [{"replica": "1", "kind": "checkpoint_part", "size_bytes": 90}]
    files += [{"replica": "1", "kind": "time_index_deleted", "size_bytes": 10}]
    quorum = lagging.quorum()
    row = next(row for row in disk_rows(quorum, files, 10_000_000) if row["replica"] == "1")
    assert (row["size_bytes"], row["left_over_size_bytes"]) == (500, 100)
    log = quorum.by_label["1"].evidence.log
    span = int(log.max_timestamps.max() - log.base_timestamps.min())
    growth = int(log.sizes.sum()) * DAY_MS / span
    assert row["log_bytes_per_day"] == pytest.approx(growth)
    assert row["days_to_fill"] == pytest.approx((10_000_000 - 500) / growth)
