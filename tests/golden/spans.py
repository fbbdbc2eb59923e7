"""A replica's history from its files: span by span, from each base to where the log breaks off.

In: a coverage. Out: rows of the history tables, as they are finished. Memory: the state, and the
rows that wait to be handed out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kraftlog.decode.redaction import Redactor
from kraftlog.log.segment import Limits
from kraftlog.state.history import History, history_tables
from kraftlog.state.replay import FaultyRecord, Replay
from tests.definition import load_snapshot, steps
from tests.log_coverage import LogCoverage
from tests.reading import DEFAULT_LIMITS, Snapshot

_BATCH_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets at which the state is known without a break: from `start_offset`, where `base` (or
    nothing, at 0) gives it, to `end_offset`, the state at which is the last one known. `is_last`:
    what holds there holds until now.
    """

    base: Snapshot | None
    start_offset: int
    end_offset: int
    end_timestamp: int
    is_last: bool

    @property
    def close_at(self) -> tuple[int | None, int | None]:
        """Offset and time from which what held at the end is unknown; None: it still holds."""
        return (None, None) if self.is_last else (self.end_offset + 1, self.end_timestamp)


def spans_of(coverage: LogCoverage) -> list[Span]:
    """The spans of a replica, in offset order.

    Inside a span later snapshots are not needed: they say again what the log says."""
    spans = []
    for start, end in coverage.restorable():
        bases = [one for one in coverage.snapshots if one.end_offset == start]
        base = bases[-1] if bases else None
        timestamp = base.last_contained_timestamp if base is not None else -1
        if end > start:
            (timestamp,) = (run.last_timestamp for run in coverage.runs if run.end_offset == end)
        spans.append(Span(base, start, end, timestamp, end == coverage.log_end_offset))
    return spans


def history_of(
    coverage: LogCoverage, redactor: Redactor, limits: Limits = DEFAULT_LIMITS
) -> Iterator[tuple[str, pa.Table]]:
    """The history of every table of one replica, one record after the other: the definition of
    `fold`.
    """
    history = History()
    for span in spans_of(coverage):
        replay = Replay()
        if span.base is not None:
            replay, seen = load_snapshot(span.base, redactor, limits)
            history.take(seen)
        for step in steps(coverage, replay, span.start_offset, span.end_offset, redactor, limits):
            history.take(step.seen)
            yield from history.rows(_BATCH_ROWS)
        history.close(*span.close_at)
    yield from history.rows()


def history_tables_of(
    coverage: LogCoverage, redactor: Redactor, limits: Limits = DEFAULT_LIMITS
) -> dict[str, pa.Table]:
    """The same, gathered: one Arrow table per history table, also for those without rows."""
    nothing = {name: one.schema.empty_table() for name, one in history_tables().items()}
    parts = {name: [table] for name, table in nothing.items()}
    for name, rows in history_of(coverage, redactor, limits):
        parts[name].append(rows)
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}


def faults_of(
    coverage: LogCoverage, redactor: Redactor, limits: Limits = DEFAULT_LIMITS
) -> list[FaultyRecord]:
    """The records of every span that have no effect, in order."""
    faults = []
    for span in spans_of(coverage):
        replay = Replay()
        if span.base is not None:
            replay, _ = load_snapshot(span.base, redactor, limits)
        for _ in steps(coverage, replay, span.start_offset, span.end_offset, redactor, limits):
            pass
        faults += replay.faults
    return faults
