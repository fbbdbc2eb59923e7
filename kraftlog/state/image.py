"""The image of a replica at an offset: snapshot + records, with where it came from.

In: a replica, and the offset, the time, or the end of the log that is meant. Out: an `Image`, or an
InputError that names the offsets which cannot be rebuilt. State at offset N is the state of all
records with offsets below N.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.plain import offsets_are
from kraftlog.state.log_coverage import LogCoverage, scan
from kraftlog.state.reading import (
    DEFAULT_LIMITS,
    LogBatch,
    Snapshot,
    feed,
    load_snapshot,
    log_files,
    read_batches,
)
from kraftlog.state.replay import FaultyRecord, Replay, Visible
from kraftlog.state.state import State


@dataclass(frozen=True, slots=True)
class Image:
    """A state and its provenance: of which replica, at which offset, from which snapshot, how new.

    `epoch` and `timestamp` (ms) are of the last batch below the offset, or the snapshot's.
    `committed_offset` bounds what is known to be committed: an image beyond it may hold records
    that the quorum takes back. `open_since` is the offset of a transaction's Begin without an End,
    whose records are not in the state. `inside`: the batch, offsets [start, end), in which the
    offset lies.
    """

    state: State
    replica: str
    end_offset: int
    epoch: int
    timestamp: int
    base: Snapshot | None
    faults: tuple[FaultyRecord, ...]
    open_since: int | None
    committed_offset: int
    inside: tuple[int, int] | None

    @property
    def is_committed(self) -> bool:
        """Whether every record in it is known to be committed."""
        return self.end_offset <= self.committed_offset


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
            if batch.base_offset >= end:
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
    for batch in read_log(coverage, start, end, limits):
        seen = feed(replay, batch, start, end, redactor, limits)
        yield Step(batch, min(batch.end_offset, end), seen)


def image_at(
    coverage: LogCoverage,
    offset: int | None,
    redactor: Redactor,
    committed_offset: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Image:
    """The image at an offset (None: the end of the log).

    `committed_offset` is what the caller knows of the quorum; without it, what the newest snapshot
    vouches for. Raises InputError where the state cannot be rebuilt.
    """
    end = coverage.log_end_offset if offset is None else offset
    _check(coverage, end)
    base = coverage.base_for(end)
    replay, start, epoch, timestamp = Replay(), 0, -1, -1
    inside: tuple[int, int] | None = None
    if base is not None:
        replay, _ = load_snapshot(base, redactor, limits)
        start, epoch, timestamp = base.end_offset, base.epoch, base.last_contained_timestamp
    for step in steps(coverage, replay, start, end, redactor, limits):
        batch = step.batch
        epoch, timestamp = batch.batch_leader_epoch, batch.max_timestamp
        inside = (batch.base_offset, batch.end_offset) if batch.end_offset > end else None
    if committed_offset is None:
        committed_offset = max((one.end_offset for one in coverage.snapshots), default=0)
    return Image(
        replay.state,
        coverage.replica.label,
        end,
        epoch,
        timestamp,
        base,
        tuple(replay.faults),
        replay.open_since,
        committed_offset,
        inside,
    )


def _check(coverage: LogCoverage, offset: int) -> None:
    label, end = coverage.replica.label, coverage.log_end_offset
    if not coverage.runs and not coverage.snapshots:
        reasons = "; ".join(f"{one.file.name}: {one.reason}" for one in coverage.rejected)
        raise InputError(
            f"{label}: there is no readable batch or snapshot in it ({reasons or 'no files'})"
        )
    if offset < 0 or offset > end:
        raise InputError(f"{label}: offset {offset} is not in its log, which ends at {end}")
    if not coverage.can_rebuild(offset):
        ranges = ", ".join(f"{first} to {last}" for first, last in coverage.restorable()) or "none"
        causes = "".join(
            f"; {offsets_are(gap.start_offset, gap.end_offset)} missing: {gap.cause}"
            for gap in coverage.gaps
        )
        rejected = "".join(
            f"; {one.file.name} cannot be loaded: {one.reason}" for one in coverage.rejected
        )
        raise InputError(
            f"{label}: the state at {offset} cannot be rebuilt; offsets at which it can: {ranges}{causes}{rejected}"
        )


def offset_at_time(coverage: LogCoverage, time_ms: int, limits: Limits = DEFAULT_LIMITS) -> int:
    """The offset at which the state stood at a time: that of the first record batch whose timestamp
    is later.

    Where times go back, what comes after that batch counts as later too, whatever it says: so the
    state is always one that the log went through. Raises InputError for a time before everything
    that the replica holds.
    """
    for file in log_files(coverage.replica):
        for batch in read_batches(file, limits):
            if isinstance(batch, LogBatch) and batch.base_timestamp > time_ms:
                return _known_then(coverage, batch.base_offset, time_ms)
    return _known_then(coverage, coverage.log_end_offset, time_ms)


def _known_then(coverage: LogCoverage, offset: int, time_ms: int) -> int:
    """An offset, unless all that is left of the log's beginning is a snapshot that is newer than
    the time.
    """
    base = coverage.base_for(offset)
    too_new = base is not None and base.last_contained_timestamp > time_ms
    if too_new and not (coverage.runs and coverage.runs[0].start_offset < offset):
        raise InputError(f"{coverage.replica.label}: its log begins after that time")
    return offset


def image_of(
    coverage: LogCoverage,
    offset: int | None,
    time_ms: int | None,
    redactor: Redactor,
    committed_offset: int | None = None,
) -> Image:
    """The image at an offset or at a time; at the end of the log where neither is given.

    `committed_offset` as `image_at` has it."""
    if time_ms is not None:
        offset = offset_at_time(coverage, time_ms)
    return image_at(coverage, offset, redactor, committed_offset)


__all__ = ["Image", "Step", "image_at", "image_of", "offset_at_time", "read_log", "scan", "steps"]
