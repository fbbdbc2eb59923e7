"""The state at a time, from history rows, is the state that `kraftlog state --at-time` gives; and
every row names the record that began it.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.rebuild import offset_at_time
from kraftlog.state.history import HeldVersions, tells_whole
from kraftlog.state.state import State
from kraftlog.state.versions import holding_at
from tests.definition import read_log
from tests.golden.cases import Replica
from tests.golden.history import rows_at_offset, rows_at_time, state_rows
from tests.golden.spans import history_tables_of
from tests.images import built, held_by
from tests.log_coverage import LogCoverage, scan
from tests.reading import LogBatch

CLEAR = Redactor(None)
MONOTONE = [
    Replica("combined", "1"),
    Replica("isolated", "1"),
    Replica("isolated", "2"),
    Replica("lagging", "2"),
    Replica("lagging-caughtup", "11"),
    Replica("legacy", "11"),
    Replica("steady-live", "3"),
    Replica("upgraded-3.9", "1"),
    Replica("synthetic-semantics", "0"),
    Replica("synthetic-snapshots", "0"),
    Replica("synthetic-transactions", "0"),
]
BACKWARDS = Replica("synthetic-client-batches", "0")


@cache
def coverage_of(replica: Replica) -> LogCoverage:
    (found,) = find_replicas([str(replica.folder)])
    return scan(found)


@cache
def held_of(replica: Replica) -> Held:
    return held_by(coverage_of(replica).replica)


@cache
def tables_of(replica: Replica) -> dict[str, pa.Table]:
    return history_tables_of(coverage_of(replica), CLEAR)


def batches_of(coverage: LogCoverage) -> list[LogBatch]:
    """The batches of the first span: everything, but for a log with a gap."""
    start, end = coverage.restorable()[0]
    return list(read_log(coverage, start, end))


@pytest.mark.parametrize("replica", MONOTONE, ids=str)
def test_the_state_at_a_time_is_one_filter(replica: Replica) -> None:
    """At the time of some batches, a millisecond before and after them, and long after the end."""
    coverage = coverage_of(replica)
    batches = batches_of(coverage)
    steps = range(0, len(batches), max(1, len(batches) // 6))
    chosen = {batches[index].base_timestamp for index in (*steps, len(batches) - 1)}
    times = {time + shift for time in chosen for shift in (-1, 0, 1)} | {max(chosen) + 86_400_000}
    first = coverage.snapshots[0].last_contained_timestamp if _has_base(coverage) else 0
    told = [time for time in sorted(times) if time >= first]
    assert len(told) > 12
    held = held_of(replica)
    rows = cache(lambda offset: state_rows(built(held, offset).state))
    for time in told:
        assert rows_at_time(tables_of(replica), time) == rows(offset_at_time(held, time)), time


@pytest.mark.parametrize("replica", [*MONOTONE, BACKWARDS], ids=str)
def test_a_replay_goes_on_from_what_the_history_tells(replica: Replica) -> None:
    """The rows that hold at an offset give back the state there, with fields that no column has."""
    coverage = coverage_of(replica)
    start, end = coverage.restorable()[0]
    for offset in range(start, end + 1, max(1, (end - start) // 6)):
        state, image = State(), built(held_of(replica), offset)
        for name, rows in tables_of(replica).items():
            for one in HeldVersions(name, holding_at(rows, offset)).objects:
                state.set(one.table, one.key, one.value)
        assert tells_whole(image.state)
        assert state == image.state, offset


def _has_base(coverage: LogCoverage) -> bool:
    return coverage.runs[0].start_offset > 0


def test_before_the_base_no_row_holds_and_no_state_is_given() -> None:
    replica = Replica("lagging", "2")
    coverage = coverage_of(replica)
    before = coverage.snapshots[0].last_contained_timestamp - 1
    assert rows_at_time(tables_of(replica), before) == {}
    with pytest.raises(InputError, match="cannot be rebuilt"):
        built(coverage.replica, None, before)


def test_where_clocks_went_back_the_offset_decides() -> None:
    """The state at a time is that before the first batch that is later, whatever follows it: so it
    is always one that the log went through. In rows: that offset first, then the filter by offset.
    """
    coverage, tables = coverage_of(BACKWARDS), tables_of(BACKWARDS)
    batches = batches_of(coverage)
    times = [one.base_timestamp for one in batches]
    assert times != sorted(times)
    for time in times:
        later = [one.base_offset for one in batches if one.base_timestamp > time]
        offset = min(later, default=coverage.log_end_offset)
        assert offset_at_time(held_by(coverage.replica), time) == offset
        image = built(coverage.replica, None, time)
        assert image.end_offset == offset
        assert rows_at_offset(tables, offset) == state_rows(image.state)


@pytest.mark.parametrize("replica", MONOTONE, ids=str)
def test_every_version_names_the_record_that_began_it(replica: Replica) -> None:
    """Offset and type as Kafka's own classes read them; null offsets are of the base snapshot."""
    types = {
        row["offset"]: row["type"]
        for row in replica.records()
        if row.get("file", "").endswith(".log") and "offset" in row
    }
    base = coverage_of(replica).restorable()[0][0]
    seen = 0
    for rows in tables_of(replica).values():
        for row in rows.to_pylist():
            begun, offset = row["valid_from_offset"], row["record_offset"]
            assert row["valid_from"] is not None
            assert row["valid_to_offset"] is None or begun < row["valid_to_offset"]
            assert row["valid_to"] is None or row["valid_from"] <= row["valid_to"]
            if offset is None:
                assert begun == base
                continue
            assert types[offset] == row["record_type"]
            assert begun == offset + 1 or (begun > offset + 1 and "TRANSACTION" in types[begun - 1])
            seen += 1
    assert seen
