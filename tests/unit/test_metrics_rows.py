"""Rows of the measures' tables over small logs, against figures worked out by hand, and totals
against plain counting.
"""

from collections import defaultdict
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.decode.redaction import Redactor
from kraftlog.decode.tabular import timestamps
from kraftlog.log.batch import HEADER_SIZE
from kraftlog.log.directory import find_replicas
from kraftlog.metrics.compaction import KEYS, OffsetMap, state_bytes
from kraftlog.metrics.objects import Changes
from kraftlog.metrics.policy import PolicyLimits, Simulator, policy_rows
from kraftlog.metrics.record_totals import (
    LOG,
    RECORD_TOTALS,
    SNAPSHOT,
    frame_sizes,
    growth_rows,
    in_batches,
    mean_size_bytes,
    merged_totals,
    record_size_rows,
    sizes_of_snapshot,
    totals_of,
)
from kraftlog.metrics.shared_log import shared_log
from kraftlog.metrics.tombstones import compaction_rows
from kraftlog.quorum.growth import DAY_MS, HOUR_MS
from kraftlog.quorum.model import Quorum
from kraftlog.relations import moment
from kraftlog.simulate.liveness import (
    EXAMPLE_LINKS,
    Link,
    recommended_chunk_bytes,
    snapshot_transfer_rows,
)
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    START_MS,
    Batch,
    healthy_log,
    quorum,
    snapshot,
    topic,
)
from tests.unit.test_metrics_objects import history, log_of
from tests.unit.test_metrics_quorum import AFTER, AFTER_SIZE, BEFORE_SIZE, SIZE
from tests.unit.test_metrics_records import config_batch

Row = dict[str, Any]


def read(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=False))


# --- totals ------------------------------------------------------------------------------------


def totals(*rows: tuple[Any, ...]) -> pa.Table:
    """source, batch, hour, type, version, count, value, frame and header bytes, least, most."""
    named = [dict(zip(RECORD_TOTALS.names, one, strict=True)) for one in rows]
    hours = timestamps(np.array([one.pop("window_start") for one in named], np.int64))
    table, at = (
        pa.Table.from_pylist(named, RECORD_TOTALS),
        RECORD_TOTALS.names.index("window_start"),
    )
    return table.set_column(at, "window_start", hours)


TOLD = totals(
    (LOG, None, 0, "B", 1, 2, 20, 6, 61, 5, 15),
    (LOG, None, 0, "A", 0, 1, 7, 3, 0, 7, 7),
    (LOG, None, HOUR_MS, "A", 0, 3, 30, 9, 61, 2, 20),
    (SNAPSHOT, "x", 0, "A", 0, 4, 40, 12, 61, 10, 10),
    (SNAPSHOT, "x", 0, "A", 1, 1, 4, 3, 0, 4, 4),
    (SNAPSHOT, "y", 0, "B", 1, 1, 9, 3, 61, 9, 9),
)


def test_sizes_of_records_by_type_and_version() -> None:
    rows = [tuple(one.values()) for one in record_size_rows(TOLD)]
    assert rows == [
        (LOG, "A", 0, 4, 37, 110, 9.25, 2, 20),
        (LOG, "B", 1, 2, 20, 87, 10.0, 5, 15),
        (SNAPSHOT, "A", 0, 4, 40, 113, 10.0, 10, 10),
        (SNAPSHOT, "A", 1, 1, 4, 7, 4.0, 4, 4),
        (SNAPSHOT, "B", 1, 1, 9, 73, 9.0, 9, 9),
    ]
    assert list(record_size_rows(TOLD)[0]) == [
        "source", "type", "record_version", "record_count", "value_size_bytes", "size_bytes",
        "mean_value_size_bytes", "min_value_size_bytes", "max_value_size_bytes",
    ]  # fmt: skip


def test_growth_is_that_of_the_log_alone() -> None:
    assert growth_rows(TOLD) == [
        {"window_start": moment(0), "type": "A", "record_count": 1, "size_bytes": 10},
        {"window_start": moment(0), "type": "B", "record_count": 2, "size_bytes": 87},
        {"window_start": moment(HOUR_MS), "type": "A", "record_count": 3, "size_bytes": 100},
    ]


def test_growth_in_an_hour_that_no_calendar_holds() -> None:
    """A clock 200,000 years ahead: as Kafka's time it is whole, as a date it is none."""
    far = HOUR_MS * 24 * 365 * 200_000
    told = totals((LOG, None, far, "A", 0, 1, 7, 3, 0, 7, 7))
    assert growth_rows(told) == [
        {"window_start": None, "type": "A", "record_count": 1, "size_bytes": 10}
    ]
    assert sizes_of_snapshot(totals((SNAPSHOT, "x", far, "A", 0, 1, 7, 3, 0, 7, 7))) == {
        "x": {"A": 10}
    }


def test_bytes_of_a_snapshots_batches_by_type() -> None:
    assert sizes_of_snapshot(TOLD) == {"x": {"A": 120}, "y": {"B": 73}}


def test_the_mean_size_of_some_types() -> None:
    assert mean_size_bytes(TOLD, ["A"]) == 110 / 4
    assert mean_size_bytes(TOLD, ["A", "B"]) == 197 / 6
    assert mean_size_bytes(TOLD, ["A"], SNAPSHOT) == 120 / 5
    assert mean_size_bytes(TOLD, ["C"]) is None


RECORDS = st.lists(
    st.tuples(
        st.sampled_from("xy"), st.integers(0, 2), st.integers(0, 3 * HOUR_MS),
        st.sampled_from("AB"), st.none() | st.integers(0, 1), st.integers(0, 200), st.booleans(),
    ),
    max_size=12,
)  # fmt: skip


@settings(deadline=None)
@given(RECORDS, st.integers(0, 12), st.booleans())
def test_totals_are_those_of_plain_counting(
    records: list[tuple[Any, ...]], cut: int, encoded: bool
) -> None:
    """In two batches of rows; each record belongs to the log, a snapshot or to both."""
    expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 1 << 60, 0])
    parts = []
    for some in (records[:cut], records[cut:]):
        rows = pa.RecordBatch.from_pylist(
            [
                {"batch_id": batch, "record_index": index, "timestamp": 1000 * ms, "type": kind,
                 "record_version": version, "value_size_bytes": size}
                for batch, index, ms, kind, version, size, _ in some
            ],
            schema=pa.schema([
                ("batch_id", pa.string()), ("record_index", pa.int32()),
                ("timestamp", pa.timestamp("us", "UTC")), ("type", pa.string()),
                ("record_version", pa.int32()), ("value_size_bytes", pa.int32()),
            ]),
        )  # fmt: skip
        if encoded:
            columns = [one.dictionary_encode() if pa.types.is_string(one.type) else one
                       for one in rows.columns]  # fmt: skip
            rows = pa.RecordBatch.from_arrays(columns, rows.schema.names)
        sizes = np.array([one[5] + 4 for one in some], np.int64)
        of_log = np.array([one[6] for one in some], np.bool_)
        held = {LOG: of_log, SNAPSHOT: in_batches(rows, {"x"})}
        parts.append(totals_of(rows, sizes, held))
        for batch, index, ms, kind, version, size, logged in some:
            hour = moment(ms // HOUR_MS * HOUR_MS)
            keys: list[tuple[object, ...]] = [(LOG, None, hour, kind, version)] if logged else []
            keys += [(SNAPSHOT, "x", hour, kind, version)] if batch == "x" else []
            for key in keys:
                had = expected[key]
                added = (1, size, 4, HEADER_SIZE * (index == 0))
                sums = [one + more for one, more in zip(had, added, strict=False)]
                expected[key] = [*sums, min(had[4], size), max(had[5], size)]
    found = {
        tuple(one.values())[:5]: list(one.values())[5:] for one in merged_totals(parts).to_pylist()
    }
    assert found == dict(expected)


# --- compaction --------------------------------------------------------------------------------


def fences(*brokers: int) -> pa.RecordBatch:
    """FenceBroker records from offset 10 on."""
    kinds = [
        ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
        ("fence_broker_record", pa.struct([("id", pa.int32()), ("epoch", pa.int64())])),
    ]  # fmt: skip
    rows = [
        {"offset": at, "timestamp": 1000 * at, "fence_broker_record": {"id": one, "epoch": at}}
        for at, one in enumerate(brokers, 10)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(kinds))


def test_what_compaction_keeps_and_whom_it_deceives() -> None:
    """Config a is set and deleted, b and c stay; brokers 1 (twice) and 2 are fenced."""
    configs = config_batch([(0, "a", "1"), (1, "b", "1"), (2, "a", None), (3, "c", "1")])
    every = OffsetMap()
    sizes = frame_sizes(configs)
    every.add("CONFIG_RECORD", configs, sizes)
    every.add("FENCE_BROKER_RECORD", fences(1, 2, 1), np.array([30, 31, 32]))
    puts = [(0, "a", False), (1, "b", False), (2, "a", True), (3, "c", False)]
    # The tombstone is of 2 ms; a day before the log's end is 1 ms.
    log = log_of(4, [0, 1, 2, DAY_MS + 1])
    rows = compaction_rows(log, every, {"configs": history(puts), "brokers": history(puts)})
    assert [row["type"] for row in rows] == ["FENCE_BROKER_RECORD", "CONFIG_RECORD"] * 3
    told = [
        (row["tombstones_go"], row["kept_record_count"], row["kept_size_bytes"],
         row["tombstone_count"], row["tombstone_size_bytes"], row["worst_position_offset"],
         row["kept_for_ever_count"])
        for row in rows if row["type"] == "CONFIG_RECORD"
    ]  # fmt: skip
    kept, stone = int(sizes[1:].sum()), int(sizes[2])
    assert told == [
        ("never", 3, kept, 1, stone, None, 0),
        ("after one day", 3, kept, 1, stone, None, 0),
        ("at once", 2, kept - stone, 0, 0, 1, 1),
    ]
    for row in rows:
        config = row["type"] == "CONFIG_RECORD"
        assert row["object_kind"] == ("configs" if config else "brokers")
        assert (row["record_count"], row["size_bytes"]) == (
            (4, int(sizes.sum())) if config else (3, 93)
        )
        # A patch is the last of its key, and what it patched is lost.
        assert row["lost_object_count"] == (0 if config else 2)
        assert row["longest_span_offsets"] == (2 if config else None)
        assert row["longest_span_ms"] == (2 if config else None)
        if not config:
            assert (row["kept_record_count"], row["kept_size_bytes"]) == (2, 63)
            assert (row["worst_position_offset"], row["kept_for_ever_count"]) == (None, None)
    assert state_bytes(every) == kept - stone + 63
    late = compaction_rows(log_of(1, [DAY_MS + 2]), every, {"configs": history(puts)})
    by_day = [row for row in late if row["tombstones_go"] == "after one day"]
    assert [row["tombstone_count"] for row in by_day] == [0, 0]


def test_all_records_of_a_type_without_a_key_are_of_one_object() -> None:
    every = OffsetMap()
    every.add("PRODUCER_IDS_RECORD", fences(1, 2, 3), np.array([30, 31, 32]))
    found = every.survivors()
    assert (found.offsets.tolist(), found.sizes.tolist()) == ([12], [32])


def test_the_fields_that_name_an_object_and_tell_of_its_end() -> None:
    assert KEYS["CONFIG_RECORD"].columns == ("resource_type", "resource_name", "name", "value")
    assert KEYS["REMOVE_TOPIC_RECORD"].columns == ("topic_id",)
    assert KEYS["PRODUCER_IDS_RECORD"].columns == ()


# --- policies ----------------------------------------------------------------------------------


def test_what_was_really_cut_beside_what_the_rules_would_have_cut(tmp_path: Path) -> None:
    quorum(tmp_path)
    found = read(tmp_path)
    base = ("a", "b", "c", "d")
    changes = Changes([history([(2, "a", False), (7, "b", False), (8, "e", False)], base)])
    limits = PolicyLimits(min_records=4, max_bytes=1 << 30, max_interval_ms=1 << 40)
    rows = policy_rows(Simulator(shared_log(found), changes, limits), found, 10.0)
    cuts = defaultdict(list)
    for row in rows:
        cuts[row["policy"], row["replica"]].append(
            (row["interval"], row["start_offset"], row["end_offset"], row["trigger"])
        )
    real = [(1, 0, 6, "snapshot"), (2, 6, 12, None)]
    assert cuts == {
        # After more than four records, at a batch's end: offsets 4 and 5 are one batch.
        ("v19_records", None): [(1, 0, 6, "records"), (2, 6, 11, "records"), (3, 11, 12, None)],
        ("adopted_ratio_and_bytes", None): [(1, 0, 12, None)],
        ("shipped_bytes_or_time", None): [(1, 0, 12, None)],
        **{("real", label): real for label in "123"},
    }
    first, second = [row for row in rows if row["replica"] == "2"]
    assert {name: first[name] for name in list(first)[7:]} == {
        "start_timestamp": moment(START_MS), "end_timestamp": moment(START_MS + 3000),
        "is_cut": True, "trigger": "snapshot", "record_count": 6, "log_bytes": BEFORE_SIZE,
        "interval_ms": 3000, "snapshot_object_count": 4, "changed_object_count": 1,
        "dirty_ratio": 0.25, "object_count": 4, "snapshot_size_bytes": 40,
        "write_amplification": 40 / BEFORE_SIZE,
    }  # fmt: skip
    assert {name: second[name] for name in list(second)[7:]} == {
        "start_timestamp": moment(START_MS + 3000), "end_timestamp": moment(START_MS + 9000),
        "is_cut": False, "trigger": None, "record_count": 6, "log_bytes": AFTER_SIZE,
        "interval_ms": 6000, "snapshot_object_count": 4, "changed_object_count": 1,
        "dirty_ratio": 0.25, "object_count": 5, "snapshot_size_bytes": 50,
        "write_amplification": 50 / AFTER_SIZE,
    }  # fmt: skip
    unknown = policy_rows(Simulator(shared_log(found), Changes([]), limits), found, None)[-1]
    assert (unknown["snapshot_size_bytes"], unknown["write_amplification"]) == (None, None)
    assert (unknown["dirty_ratio"], unknown["changed_object_count"]) == (None, 0)


# --- joining -----------------------------------------------------------------------------------


def link_of(row: dict[str, Any]) -> Link:
    return Link(row["bandwidth_bytes_per_s"], row["round_trip_ms"])


def joined(root: Path, **given: Any) -> list[dict[str, Any]]:
    """What a new node meets on its way, by the copy that it fetches from."""
    rows = snapshot_transfer_rows(read(root), 1000.0, **given)
    return [row for row in rows if row["is_leading"]]


def test_whom_a_joiner_fetches_from_and_what_it_costs(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    rows = joined(tmp_path)
    suited = {link: recommended_chunk_bytes(link) or 0 for link in EXAMPLE_LINKS}
    assert [(link_of(row), row["chunk_bytes"]) for row in rows] == [
        (link, chunk)
        for link in EXAMPLE_LINKS
        for chunk in sorted({1 << 20, 8 << 20, suited[link]})
    ]
    for row in rows:
        link = link_of(row)
        wire = (
            SIZE * 1000 / link.bandwidth_bytes_per_s,
            AFTER_SIZE * 1000 / link.bandwidth_bytes_per_s,
        )
        assert (row["snapshot_end_offset"], row["size_bytes"]) == (6, SIZE)
        assert (row["log_size_bytes"], row["replica"]) == (AFTER_SIZE, "2")
        assert (row["request_count"], row["log_request_count"]) == (1, 1)
        assert row["log_transfer_ms"] == ceil(link.round_trip_ms + wire[1])
        assert row["transfer_ms"] == ceil(link.round_trip_ms + wire[0])
        assert row["load_ms"] == SIZE + AFTER_SIZE
        whole = 2 * link.round_trip_ms + sum(wire) + SIZE + AFTER_SIZE
        assert row["total_ms"] == ceil(whole)
        assert row["recommended_chunk_bytes"] == recommended_chunk_bytes(link)
        assert row["fits_fetch_timeout"]
        assert row["slowdown"] is not None
    (by_batch, *_) = joined(tmp_path, chunks=[1])
    assert by_batch["log_request_count"] == len(AFTER)
    for node in nodes:
        node.checkpoint(6, 1).unlink()
    whole_log = joined(tmp_path)[0]
    of_snapshot = ("snapshot_end_offset", "snapshot_epoch", "size_bytes", "request_count")
    for name in (*of_snapshot, "transfer_ms", "longest_response_ms", "slowdown"):
        assert whole_log[name] is None
    assert whole_log["log_size_bytes"] == BEFORE_SIZE + AFTER_SIZE
    assert whole_log["load_ms"] == BEFORE_SIZE + AFTER_SIZE
    parts = whole_log["log_transfer_ms"], whole_log["load_ms"]
    assert sum(parts) - 1 <= whole_log["total_ms"] <= sum(parts)
    assert (whole_log["finishes"], whole_log["fits_fetch_timeout"]) == (True, True)


def test_of_nothing_nothing_is_waited_for(tmp_path: Path) -> None:
    """Without a snapshot only the log has to arrive; over a link that takes 3 s it does not."""
    for node in quorum(tmp_path):
        node.checkpoint(6, 1).unlink()
    (row,) = joined(tmp_path, links=[Link(1 << 30, 3000)], chunks=[1 << 20])
    assert (row["finishes"], row["fits_fetch_timeout"]) == (True, False)


def test_a_joiner_never_comes_where_one_answer_takes_longer_than_the_timeout(
    tmp_path: Path,
) -> None:
    """Over 500,000 bytes a second and 200 ms 900,000 bytes arrive in two seconds: a snapshot of
    1,200,000 comes in pieces, a batch of 1,000,000 does not.
    """
    nodes = quorum(tmp_path)
    chunks = [64 << 10, 512 << 10, 1 << 20, 8 << 20]

    def fitting() -> list[int]:
        rows = joined(tmp_path, links=[Link(500_000, 200)], chunks=chunks)
        return [one["chunk_bytes"] for one in rows if one["fits_fetch_timeout"]]

    long = topic("x" * 20_000, 1)
    stored = snapshot([Batch(0, 1, (long,) * 60)], 1, START_MS + 3000)
    nodes[1].checkpoint(6, 1).write_bytes(stored)
    assert fitting() == [one for one in chunks if one <= 512 << 10]
    nodes[1].append(Batch(12, 2, (long,) * 50, ms=START_MS + 10_000))
    assert fitting() == []


def test_each_chunk_is_a_request_of_its_own(tmp_path: Path) -> None:
    """A snapshot between 100,000 and 128 Ki bytes is two chunks of 64 KiB, and one of any other."""
    large = Batch(6, 1, tuple(topic("x" * 25_000, number) for number in range(5, 9)))
    for node in quorum(tmp_path):
        node.checkpoint(9, 2).write_bytes(snapshot([large], 2, START_MS + 6000))
    chunks = [(64 << 10) << power for power in range(8)]
    rows = joined(tmp_path, chunks=chunks)
    assert {(row["chunk_bytes"], row["request_count"]) for row in rows} == {
        (chunk, 2 if chunk == 64 << 10 else 1) for chunk in chunks
    }


def test_without_a_log_nobody_joins(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    for other in "23":
        for path in (tmp_path / other).glob("*/*.log"):
            path.unlink()
    for path in node.folder.glob("*.log"):
        path.unlink()
    assert joined(tmp_path) == []
    nothing = shared_log(read(tmp_path))
    assert (nothing.sizes.tolist(), nothing.record_counts.tolist()) == ([], [])
    node.checkpoint(6, 1).unlink()
    rows = snapshot_transfer_rows(read(tmp_path), 1000.0)
    assert {row["replica"] for row in rows} == {"2", "3"}  # the copy of 1 holds nothing to fetch


def test_the_shared_log_by_its_offsets(tmp_path: Path) -> None:
    quorum(tmp_path)
    log = shared_log(read(tmp_path))
    whole = healthy_log()
    assert len(log) == len(whole)
    assert log.size_bytes == sum(len(one.raw()) for one in whole)
    assert (log.end_offset, log.span_ms, log.unbroken_from) == (12, 9000, 0)
    assert log.leaders == {1: 1, 2: 2}
    for offset in range(14):
        below = [one for one in whole if one.base < offset]
        assert log.row_at(offset) == len(below)
        assert log.time_before(offset) == (below[-1].ms if below else None)
        ends = np.arange(14)
        inside = [[one for one in whole if offset <= one.base < end] for end in range(14)]
        sizes = log.bytes_between(np.full(14, offset), ends).tolist()
        assert sizes == [sum(len(one.raw()) for one in every) for every in inside]
        records = log.records_between(np.full(14, offset), ends).tolist()
        assert records == [sum(len(one.values) for one in every) for every in inside]
    assert len(set(log.id_texts().to_pylist())) == len(whole)
    assert {len(one) for one in log.id_texts().to_pylist()} == {32}
