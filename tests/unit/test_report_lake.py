"""The page's figures from a lake: what is counted, and what is left out."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kraftlog.report.from_lake import SLICES, broker_loads, page_of_lake, type_counts
from kraftlog.report.page import render_page
from kraftlog.report.view import BrokerLoad
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import write_file
from kraftlog.tables.spec import TableSpec, decoded_tables, state_tables
from tests.unit.report_pages import read

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
Row = dict[str, Any]


@pytest.fixture
def small(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def write(lake: Lake, spec: TableSpec, rows: list[Row]) -> None:
    """One commit, as the steps write it: a file per value of the partition columns."""
    parts: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(_text(row[name]) for name in spec.partition_by), []).append(row)
    files = []
    for values, held in parts.items():
        table = pa.Table.from_pylist(held, schema=spec.schema)
        named = dict(zip(spec.partition_by, values, strict=True))
        files.append(write_file(lake.path(spec.name), table, named))
    lake.commit(spec, files, 1)


def _text(value: str | bool) -> str:
    """A partition value as Delta's log writes it."""
    return str(value).lower() if isinstance(value, bool) else value


def partition(replicas: list[int], leader: int, end: int | None = None, **others: Any) -> Row:
    given = {"lineage": "main", "partition_replicas": replicas, "leader": leader}
    return given | {"valid_to_offset": end, "is_current": end is None} | others


def test_partitions_per_broker_are_those_of_the_newest_state(small: Lake) -> None:
    assert broker_loads(small) == ()
    rows = [
        partition([1, 2], 1),
        partition([2, 1], 1),
        partition([2], -1),
        partition([3], 3, end=9),
        partition([3], 3, lineage="replicas/2"),
    ]
    write(small, state_tables()["partitions"], rows)
    assert broker_loads(small) == (BrokerLoad(1, 2, 0), BrokerLoad(2, 0, 3))


def log(small: Lake, times: list[datetime], checkpoint: list[datetime] | None = None) -> None:
    """A batch with one record per time, in a log; more in a checkpoint."""
    told = [("log", one) for one in times] + [("checkpoint", one) for one in checkpoint or []]
    batches = [
        {"path": "p", "file_kind": kind, "batch_id": f"{number:032x}", "crc_valid": True,
         "base_timestamp": when}
        for number, (kind, when) in enumerate(told)
    ]  # fmt: skip
    records = [
        {"type": "NO_OP_RECORD" if number % 2 else "TOPIC_RECORD", "timestamp": when,
         "batch_id": f"{number:032x}"}
        for number, (_, when) in enumerate(told)
    ]  # fmt: skip
    write(small, decoded_tables()["batches"], batches)
    write(small, decoded_tables()["records"], records)


def test_records_are_counted_by_type_and_time(small: Lake) -> None:
    times = [NOON + timedelta(seconds=n) for n in range(480)]
    log(small, times, [NOON + timedelta(seconds=5)] * 1000)
    found = type_counts(small)
    assert sum(one.count for one in found) == 480, "what only checkpoints hold does not count"
    assert {one.type for one in found} == {"NO_OP_RECORD", "TOPIC_RECORD"}
    assert {one.count for one in found} == {5}
    starts = sorted({one.start for one in found})
    assert len(starts) == SLICES
    assert starts[0] == NOON


def test_a_stray_clock_does_not_squeeze_the_others(small: Lake) -> None:
    times = [NOON + timedelta(seconds=n) for n in range(2000)]
    log(small, [*times, NOON + timedelta(days=9000)])
    found = type_counts(small)
    assert max(one.end for one in found) < NOON + timedelta(hours=1)
    assert sum(one.count for one in found) >= 1990


def test_no_time_no_chart(small: Lake) -> None:
    log(small, [])
    assert type_counts(small) == ()


def test_one_moment_is_one_slice(small: Lake) -> None:
    log(small, [NOON] * 4)
    assert [(one.start, one.count) for one in type_counts(small)] == [(NOON, 2), (NOON, 2)]


def test_a_lake_that_was_only_decoded_has_a_page(small: Lake) -> None:
    log(small, [NOON])
    run = {"run_id": "r", "number": 1, "finished": NOON, "kraftlog_version": "1", "inputs": ["in"],
           "replica_count": 0, "file_count": 0, "batch_count": 1, "new_batch_count": 1,
           "record_count": 1}  # fmt: skip
    write(small, decoded_tables()["runs"], [run])
    reader = read(render_page(page_of_lake(small, "_data_docs/index.html")))
    links = [one.attributes["href"] for one in reader.named("a")]
    assert links == ["#main", "_data_docs/index.html"]
