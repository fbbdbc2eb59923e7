"""The definition of a state: one record after the other, by the interpreter and `Replay` alone.

In: a coverage, or a snapshot. Out: replays, batch by batch, and the `Image` that they end with: what
everything that works by windows and columns is held against.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.state.replay import FaultyRecord, Origin, Replay, Visible
from tests.log_coverage import LogCoverage
from tests.reading import (
    DEFAULT_LIMITS,
    LogBatch,
    Snapshot,
    decoded,
    log_files,
    read_batches,
)

LAST_OFFSET = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Step:
    """One log batch that has been folded: the replay stands at `end_offset`, and `seen` is what the
    batch made visible.
    """

    batch: LogBatch
    end_offset: int
    seen: list[Visible]


def read_log(
    coverage: LogCoverage, start: int, end: int, limits: Limits = DEFAULT_LIMITS
) -> Iterator[LogBatch]:
    """The batches that hold offsets in [start, end), each offset once; [start, end) must lie in one
    run.
    """
    next_offset = start
    for file in log_files(coverage.replica, start):
        for batch in read_batches(file, limits):
            if isinstance(batch, Fault) or batch.end_offset <= next_offset:
                continue
            if max(batch.base_offset, next_offset) >= end:
                return
            if batch.base_offset > next_offset:
                raise InputError(f"{file.path}: it changed while it was read; copy it again")
            yield batch
            next_offset = batch.end_offset


def steps(
    coverage: LogCoverage,
    replay: Replay,
    start: int,
    end: int,
    redactor: Redactor,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Step]:
    """Fold the log's records with offsets in [start, end) into a replay, batch by batch."""
    reached = start
    for batch in read_log(coverage, start, end, limits):
        seen = feed(replay, batch, reached, end, redactor, limits)
        reached = min(batch.end_offset, end)
        yield Step(batch, reached, seen)


def load_snapshot(
    snapshot: Snapshot,
    redactor: Redactor,
    limits: Limits = DEFAULT_LIMITS,
    *,
    control_only: bool = False,
) -> tuple[Replay, list[Visible]]:
    """Replay a checkpoint from nothing: what it does not mention is not there. Its records have no
    log offset.
    """
    replay, seen = Replay(), []
    for batch in read_batches(snapshot.file, limits):
        if isinstance(batch, LogBatch) and (batch.is_control or not control_only):
            seen += feed(replay, batch, None, None, redactor, limits)
    since, at_ms = snapshot.end_offset, snapshot.last_contained_timestamp
    return replay, [one._replace(since_offset=since, since_timestamp=at_ms) for one in seen]


def feed(
    replay: Replay,
    batch: LogBatch,
    from_offset: int | None,
    to_offset: int | None,
    redactor: Redactor,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Visible]:
    """Fold a batch's records with offsets in [from, to) into a replay; `from_offset` None: a
    checkpoint, whose records have none.

    As Kafka's raft reader does it, record i of a batch has offset base + i, whatever its offset
    delta says.
    """
    seen: list[Visible] = []
    in_log = from_offset is not None
    first, after = from_offset or 0, LAST_OFFSET if to_offset is None else to_offset
    for record in decoded(batch, redactor, limits):
        if isinstance(record, Fault):
            offset = min(record.offset or 0, batch.end_offset - 1) if in_log else None
            if offset is not None and not first <= offset < after:
                continue
            origin = Origin(offset, batch.base_timestamp, batch.batch_leader_epoch, "UNREADABLE")
            detail = f"{batch.path}: {record.detail}"
            replay.faults.append(FaultyRecord(origin, str(record.kind), detail))
            continue
        offset = batch.base_offset + record.index if in_log else None
        if offset is not None and not first <= offset < after:
            continue
        origin = Origin(offset, record.timestamp, batch.batch_leader_epoch, record.type)
        apply = replay.apply_control if record.is_control else replay.apply
        seen += apply(origin, record.data)
    return seen


def defined_at(
    coverage: LogCoverage, end: int, redactor: Redactor, limits: Limits = DEFAULT_LIMITS
) -> Replay:
    """The replay that stands at an offset, from where `image_at` begins, too: of the checkpoint 0-0
    Kafka's loader takes nothing (`MetadataLoader.handleLoadBootstrap`), its Raft layer the voters.
    """
    base, replay, start = coverage.base_for(end), Replay(), 0
    if base is not None:
        replay, _ = load_snapshot(base, redactor, limits, control_only=base.end_offset == 0)
        start = base.end_offset
    for _ in steps(coverage, replay, start, end, redactor, limits):
        pass
    return replay
