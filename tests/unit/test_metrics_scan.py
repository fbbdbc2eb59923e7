"""What a pass over records adds up: totals of groups, last records of keys, orders of numbers."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.metrics.amplification import BrokerEvent, Bursts
from kraftlog.metrics.compaction import OffsetMap
from kraftlog.metrics.numbering import KeyNumbers, last_of_each, numbered_values
from kraftlog.metrics.record_totals import (
    LOG,
    SNAPSHOT,
    frame_sizes,
    in_batches,
    merged_totals,
    totals_of,
)
from kraftlog.pipeline import record_scan
from kraftlog.quorum.growth import HOUR_MS
from kraftlog.relations import moment
from tests.unit.test_metrics_objects import log_of

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (pa.array(["a", None, "b", "a"]).dictionary_encode(), [0, 1, 2, 0]),
        (pa.array(["a", None, "b", "a"]), [0, 1, 2, 0]),
        (pa.array([[1, 2], None, [], [2, 1]]), [0, 1, 2, 0]),
        (pa.array([{"x": 1}, {"x": None}, {"x": 1}]), [0, 1, 0]),
    ],
)
def test_values_of_any_type_are_numbered_null_like_a_value(
    values: pa.Array, numbers: list[int]
) -> None:
    known: dict[object, int] = {}
    assert numbered_values(values, known).tolist() == numbers
    assert numbered_values(pa.chunked_array([values[2:], values[:1]]), known).tolist() == [
        *numbers[2:], 0
    ]  # fmt: skip


KEY = st.tuples(
    st.sampled_from(("s", "t", None)), st.integers(0, 2) | INT32 | st.none(), st.sampled_from("xy")
)


@settings(deadline=None)
@given(st.lists(KEY, min_size=1, max_size=30), st.integers(1, 3), st.randoms(), st.integers(1, 3))
def test_the_last_record_of_each_key(
    keys: list[tuple[str | None, int | None, str]], width: int, random: Any, parts: int
) -> None:
    """Keys have the same number in each part, and different keys different ones."""
    offsets = list(range(len(keys)))
    random.shuffle(offsets)
    numbers, known = KeyNumbers(), {}
    kinds = (pa.string(), pa.int32(), pa.string())
    for at in range(parts):
        mine = [one[:width] for one in keys[at::parts]]
        if not mine:
            continue
        columns = zip(zip(*mine, strict=True), kinds, strict=False)
        found = numbers.of([pa.array(column, kind) for column, kind in columns], len(mine))
        for key, number in zip(mine, found.tolist(), strict=True):
            assert known.setdefault(key, number) == number
        places = offsets[at::parts]
        last = {key: max(p for k, p in zip(mine, places, strict=True) if k == key) for key in mine}
        chosen = last_of_each(found, np.array(places))
        assert sorted(places[one] for one in chosen) == sorted(last.values())
    assert len(set(known.values())) == len(known)


RECORD = st.tuples(
    st.sampled_from(("b", "c", "d")),
    st.integers(0, 2),
    st.sampled_from((0, 1, HOUR_MS, 3 * HOUR_MS - 1)),
    st.sampled_from((0, 1, None)),
    st.integers(0, 200),
)
SCHEMA = pa.schema(
    [
        ("batch_id", pa.string()),
        ("record_index", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("type", pa.string()),
        ("record_version", pa.int32()),
        ("timestamp_delta", pa.int64()),
        ("offset_delta", pa.int32()),
        ("key_size_bytes", pa.int32()),
        ("value_size_bytes", pa.int32()),
    ]
)


@settings(deadline=None)
@given(st.lists(RECORD, max_size=20), st.sets(st.sampled_from("bcd")))
def test_totals_are_those_of_the_records_one_by_one(
    records: list[tuple[str, int, int, int | None, int]], of_log: set[str]
) -> None:
    rows = pa.RecordBatch.from_pylist(
        [
            {
                "batch_id": batch,
                "record_index": index,
                "timestamp": ms * 1000,
                "type": "T",
                "record_version": version,
                "timestamp_delta": 0,
                "offset_delta": index,
                "key_size_bytes": None,
                "value_size_bytes": size,
            }
            for batch, index, ms, version, size in records
        ],
        schema=SCHEMA,
    )
    sizes = frame_sizes(rows)
    held = {LOG: in_batches(rows, of_log), SNAPSHOT: in_batches(rows, {"d"})}
    expected: dict[tuple[Any, ...], list[tuple[int, int, int]]] = defaultdict(list)
    for (batch, index, ms, version, size), whole in zip(records, sizes.tolist(), strict=True):
        one = (size, whole - size, 61 if index == 0 else 0)
        if batch in of_log:
            expected[LOG, None, moment(ms // HOUR_MS * HOUR_MS), "T", version].append(one)
        if batch == "d":
            expected[SNAPSHOT, batch, moment(ms // HOUR_MS * HOUR_MS), "T", version].append(one)
    found = merged_totals([totals_of(rows, sizes, held)]).to_pylist()
    assert len(found) == len(expected)
    for row in found:
        keys = ("source", "batch_id", "window_start", "type", "record_version")
        group = tuple(row[one] for one in keys)
        values, frames, headers = map(list, zip(*expected[group], strict=True))
        assert row["record_count"] == len(values)
        assert (row["min_value_size_bytes"], row["max_value_size_bytes"]) == (
            min(values),
            max(values),
        )
        sums = [row[f"{one}_size_bytes"] for one in ("value", "frame", "header")]
        assert sums == [sum(values), sum(frames), sum(headers)]


def test_small_row_groups_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of partitions too, whose ids are dictionaries of their own in each, and whose offsets
    begin anew.
    """
    path = str(tmp_path / "one.parquet")
    kind = "PARTITION_CHANGE_RECORD"
    topics, offsets = ["s", "t", "s", "u", "v", "s"], [1, 4, 7, 2, 5, 6]
    payload = [{"topic_id": topic, "partition_id": 0} for topic in topics]
    columns = {name: pa.nulls(6, SCHEMA.field(name).type) for name in SCHEMA.names}
    columns |= {"batch_id": pa.array(["b"] * 6), "record_index": pa.array(range(6), pa.int32())}
    columns |= {"offset": pa.array(offsets), kind.lower(): pa.array(payload)}
    pq.write_table(pa.table(columns), path, row_group_size=2)
    monkeypatch.setattr(record_scan, "_PORTION_ROWS", 3)
    groups = list(record_scan._groups(path))
    assert groups == [[0, 1], [2]]
    rows = record_scan._read(record_scan._Portion(path, kind, [0, 1, 2]))
    found = OffsetMap()
    found.add(kind, rows, frame_sizes(rows))
    assert sorted(found.survivors().offsets.tolist()) == [2, 4, 5, 7]
    bursts = Bursts(log_of(10), [BrokerEvent(5, 1, "fenced", "FENCE_BROKER_RECORD")])
    bursts.shares[:] = [2, 6]
    bursts.add(rows.column("offset").to_numpy(), np.arange(6))
    assert (bursts.counts.tolist(), bursts.sizes.tolist()) == ([3], [1 + 3 + 4])
