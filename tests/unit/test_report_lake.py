"""The page's figures from a lake: what is counted, and what is left out."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.report.from_lake import SLICES, broker_loads, counts_by_type, page_of_lake
from kraftlog.report.html_page import render_page
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
    assert broker_loads(small) == (BrokerLoad(1, 2, 0), BrokerLoad(2, 0, 2, 1))


def log(small: Lake, times: list[datetime], checkpoint: list[datetime] | None = None) -> None:
    """A batch with one record per time, in a log; more in a checkpoint."""
    told = [("log", one) for one in times] + [("checkpoint", one) for one in checkpoint or []]
    batches, contents, records = [], [], []
    for number, (kind, when) in enumerate(told):
        identity = f"{number:032x}"
        batches.append(batch(identity, when, file_kind=kind))
        types = ["NO_OP_RECORD" if number % 2 else "TOPIC_RECORD"]
        contents.append(content(identity, types))
        records += [record(identity, one, when) for one in types]
    publish(small, batches, contents, records)


def publish(small: Lake, batches: list[Row], contents: list[Row], records: list[Row]) -> None:
    for name, rows in {"batches": batches, "contents": contents, "records": records}.items():
        write(small, decoded_tables()[name], rows)


def batch(identity: str, when: datetime, **others: Any) -> Row:
    given = {"path": "p", "file_kind": "log", "batch_id": identity, "crc_valid": True}
    return given | {"attributes": 0, "base_timestamp": when, "max_timestamp": when} | others


def content(identity: str, types: list[str], *, remarkable: bool = False) -> Row:
    told = [{"type": name, "record_count": count} for name, count in Counter(types).items()]
    return {"batch_id": identity, "remarkable": remarkable, "record_types": told}


def record(identity: str, record_type: str, when: datetime | None) -> Row:
    return {"type": record_type, "timestamp": when, "batch_id": identity}


def test_records_are_counted_by_type_and_time(small: Lake) -> None:
    times = [NOON + timedelta(seconds=n) for n in range(480)]
    log(small, times, [NOON + timedelta(seconds=5)] * 1000)
    found = counts_by_type(small)
    assert sum(one.count for one in found) == 480, "what only checkpoints hold does not count"
    assert {one.type for one in found} == {"NO_OP_RECORD", "TOPIC_RECORD"}
    assert {one.count for one in found} == {5}
    starts = sorted({one.start for one in found})
    assert len(starts) == SLICES
    assert starts[0] == NOON


def test_a_stray_clock_does_not_squeeze_the_others(small: Lake) -> None:
    times = [NOON + timedelta(seconds=n) for n in range(2000)]
    log(small, [*times, NOON + timedelta(days=9000)])
    found = counts_by_type(small)
    assert max(one.end for one in found) < NOON + timedelta(hours=1)
    assert sum(one.count for one in found) >= 1990


def seconds(n: int) -> datetime:
    return NOON + timedelta(seconds=n)


def test_records_with_times_of_their_own_are_counted_by_these(small: Lake) -> None:
    """The batch's header tells one moment for all of its records; that is not believed."""
    batches = [batch("a", seconds(0)), batch("b", seconds(480)), batch("c", seconds(480))]
    contents = [content("a", ["TOPIC_RECORD"] * 2, remarkable=True), content("b", ["NO_OP_RECORD"])]
    times = {"a": [seconds(0), seconds(240)], "b": [seconds(480)]}
    records = [
        record(identity, "TOPIC_RECORD" if identity == "a" else "NO_OP_RECORD", when)
        for identity, held in times.items()
        for when in held
    ]
    publish(small, batches, contents, records)
    assert found(small) == Counter({("TOPIC_RECORD", 0): 1, ("TOPIC_RECORD", 23): 1,
                                    ("NO_OP_RECORD", 47): 1})  # fmt: skip


def test_elections_are_counted_too(small: Lake) -> None:
    batches = [batch("a", seconds(0)), batch("b", seconds(480))]
    contents = [content("a", ["LEADER_CHANGE"], remarkable=True), content("b", ["NO_OP_RECORD"])]
    publish(small, batches, contents, [record("b", "NO_OP_RECORD", seconds(480))])
    held = [record("a", "LEADER_CHANGE", seconds(0))]
    write(small, decoded_tables()["control_records"], held)
    assert found(small) == Counter({("LEADER_CHANGE", 0): 1, ("NO_OP_RECORD", 47): 1})


def found(small: Lake) -> Counter[tuple[str, int]]:
    """Counts by type and number of the slice, over 480 seconds from noon on."""
    counts: Counter[tuple[str, int]] = Counter()
    for one in counts_by_type(small):
        counts[one.type, int((one.start - NOON) / (one.end - one.start))] += one.count
    return counts


def test_with_log_append_time_records_have_the_largest_time(small: Lake) -> None:
    stamped = batch("a", seconds(0), attributes=8, max_timestamp=seconds(480))
    publish(
        small,
        [stamped, batch("b", seconds(480))],
        [content("a", ["TOPIC_RECORD"])],
        [record("a", "TOPIC_RECORD", seconds(480))],
    )
    assert found(small) == Counter({("TOPIC_RECORD", 47): 1})


def test_what_no_log_holds_any_more_does_not_count(small: Lake) -> None:
    """It may have been a snapshot's; a segment that waits to be deleted takes away nothing."""
    batches = [
        batch("a", seconds(0)), batch("b", seconds(480)),
        batch("b", seconds(480), file_kind="log_deleted"),
    ]  # fmt: skip
    contents = [content(one, ["TOPIC_RECORD"]) for one in "abc"]
    times = {"a": seconds(0), "b": seconds(480), "c": seconds(240)}
    publish(small, batches, contents, [record(one, "TOPIC_RECORD", times[one]) for one in "abc"])
    assert found(small) == Counter({("TOPIC_RECORD", 0): 1, ("TOPIC_RECORD", 47): 1})


TIMES = st.one_of(st.none(), st.integers(-20, 700).map(seconds))


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([("log",), ("checkpoint",), ("log", "checkpoint"), ()]),
            TIMES,
            st.lists(st.tuples(st.sampled_from(["TOPIC_RECORD", "NO_OP_RECORD"]), st.booleans())),
            TIMES,
        ),
        max_size=8,
    )
)
def test_counts_are_those_of_the_records(
    tmp_path_factory: pytest.TempPathFactory, given_batches: list[Any]
) -> None:
    """Each record with its batch's time, or another one, which makes the batch remarkable."""
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    batches = [batch("first", seconds(0)), batch("last", seconds(480))]
    contents, records = [], []
    expected: list[tuple[str, datetime]] = []
    for number, (kinds, when, held, other) in enumerate(given_batches):
        identity = f"{number:032x}"
        batches += [batch(identity, when, file_kind=kind) for kind in kinds]
        names = [name for name, _ in held]
        contents.append(content(identity, names, remarkable=any(odd for _, odd in held)))
        times = [other if odd else when for _, odd in held]
        records += [record(identity, name, at) for name, at in zip(names, times, strict=True)]
        if "log" in kinds:
            told = zip(names, times, strict=True)
            expected += [(name, at) for name, at in told if at is not None]
    publish(lake, batches, contents, records)
    counts = counts_by_type(lake)
    for one in counts:
        times_of_type = [at for name, at in expected if name == one.type]
        assert one.count == sum(one.start <= at < one.end for at in times_of_type)
    first, last = extent(batches)
    assert sum(one.count for one in counts) == sum(first <= at <= last for _, at in expected)
    assert len({one.start for one in counts}) <= SLICES


def extent(batches: list[Row]) -> tuple[datetime, datetime]:
    """First and last time of few batches of logs."""
    times = [one["base_timestamp"] for one in batches if one["file_kind"] == "log"]
    known = [one for one in times if one is not None]
    return min(known), max(known)


def test_no_time_no_chart(small: Lake) -> None:
    log(small, [])
    assert counts_by_type(small) == ()


def test_one_moment_is_one_slice(small: Lake) -> None:
    log(small, [NOON] * 4)
    assert [(one.start, one.count) for one in counts_by_type(small)] == [(NOON, 2), (NOON, 2)]


def test_a_lake_that_was_only_decoded_has_a_page(small: Lake) -> None:
    log(small, [NOON])
    run = {"run_id": "r", "number": 1, "finished": NOON, "kraftlog_version": "1", "inputs": ["in"],
           "replica_count": 0, "file_count": 0, "batch_count": 1, "new_batch_count": 1,
           "record_count": 1}  # fmt: skip
    write(small, decoded_tables()["runs"], [run])
    reader = read(render_page(page_of_lake(small)))
    links = [one.attributes["href"] for one in reader.named("a")]
    assert links == ["#main"]
