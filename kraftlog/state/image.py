"""The image of a replica at an offset: snapshot + records, with where it came from.

In: a replica, and the offset, the time, or the end of the log that is meant. Out: an `Image`, or an
InputError that names the offsets which cannot be rebuilt. State at offset N is the state of all
records with offsets below N.
"""

from dataclasses import dataclass

import numpy as np

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.segment import Limits
from kraftlog.plain import offsets_are
from kraftlog.state.arrow_events import Event
from kraftlog.state.fold import Applied
from kraftlog.state.known import Known
from kraftlog.state.log_coverage import LogCoverage
from kraftlog.state.parts import LastBatch, ReadPart, log_parts, snapshot_parts, unknown_partitions
from kraftlog.state.reading import DEFAULT_LIMITS, LogBatch, Snapshot, log_files, read_batches
from kraftlog.state.replay import FaultyRecord
from kraftlog.state.state import Change, State
from kraftlog.state.suspects import Flags, NewVersions
from kraftlog.state.window import ahead


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
    known, faults, start, last = Known(), _Faults(), 0, LastBatch(-1, -1)
    if base is not None:
        start, last = base.end_offset, LastBatch(base.epoch, base.last_contained_timestamp)
        for part in ahead(snapshot_parts(base, redactor, limits)):
            faults.take(known, part, of_log=False)
    for part in ahead(log_parts(coverage.replica, start, end, redactor, limits)):
        faults.take(known, part, of_log=True)
        last = part.last
    if committed_offset is None:
        committed_offset = max((one.end_offset for one in coverage.snapshots), default=0)
    return Image(
        known.rows(),
        coverage.replica.label,
        end,
        last.epoch,
        last.timestamp,
        base,
        tuple(faults.found),
        known.small.open_since,
        committed_offset,
        last.inside(end),
    )


class _Faults:
    """The records that have no effect, in order; a `known.Watcher`."""

    def __init__(self) -> None:
        self.found: list[FaultyRecord] = []
        self._new: list[FaultyRecord] = []

    def take(self, known: Known, part: ReadPart, *, of_log: bool) -> None:
        """Apply the records of a part; a checkpoint's have no offset of their own."""
        self._new = [*part.faults, *unknown_partitions(part.window)]
        known.advance(part.window, self)
        self._new.sort(key=lambda one: one.origin.offset or 0)
        self.found += self._new if of_log else map(_without_offset, self._new)

    def meets(self, event: Event, state: State) -> None:
        """See `known.Watcher`."""

    def changed(
        self, event: Event, state: State, changes: tuple[Change, ...], faults: list[FaultyRecord]
    ) -> None:
        """See `known.Watcher`."""
        self._new += faults

    def suspects(self, versions: NewVersions) -> Flags:
        """See `known.Watcher`: the fold itself looks at all that can have no effect."""
        return np.zeros(len(versions.at), np.bool_)

    def applied(self, one: Applied) -> None:
        """See `known.Watcher`."""
        if one.fault is not None:
            self._new.append(one.fault)


def _without_offset(one: FaultyRecord) -> FaultyRecord:
    return one._replace(origin=one.origin._replace(offset=None))


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
