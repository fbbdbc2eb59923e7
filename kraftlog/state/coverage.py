"""What can be rebuilt from a replica's files: unbroken runs of its log, its complete snapshots, and
the offsets that both miss.

In: a replica. Out: `Coverage`; and for several replicas, which files of which others hold what one
of them lacks. Only batch headers and CRCs are read here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kraftlog.log.directory import Replica
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.segment import Limits
from kraftlog.state.reading import (
    DEFAULT_LIMITS,
    LogBatch,
    RejectedSnapshot,
    Snapshot,
    find_snapshots,
    log_files,
    read_batches,
)


@dataclass(slots=True)
class Run:
    """Offsets [start, end) whose batches follow each other without a gap, and the segments that
    hold them.
    """

    start_offset: int
    end_offset: int
    last_epoch: int
    last_timestamp: int
    paths: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [start, end) between two runs that no readable batch holds; `cause` says what stands
    in their place.
    """

    start_offset: int
    end_offset: int
    cause: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """Everything of a replica that a state can be rebuilt from."""

    replica: Replica
    runs: tuple[Run, ...]
    gaps: tuple[Gap, ...]
    snapshots: tuple[Snapshot, ...]
    rejected: tuple[RejectedSnapshot, ...]
    tail_damage: str | None

    @property
    def log_start_offset(self) -> int:
        """The first offset that the log or a snapshot's end gives; 0 where there is nothing."""
        starts = [run.start_offset for run in self.runs]
        return min(starts or [one.end_offset for one in self.snapshots], default=0)

    @property
    def log_end_offset(self) -> int:
        """The offset after the last readable batch, or the newest snapshot's end where that lies
        beyond.
        """
        ends = [run.end_offset for run in self.runs] + [one.end_offset for one in self.snapshots]
        return max(ends, default=0)

    def reach(self, offset: int) -> int:
        """How far the log goes on without a gap from an offset; the offset itself where it does not
        hold it.
        """
        return next(
            (run.end_offset for run in self.runs if run.start_offset <= offset <= run.end_offset),
            offset,
        )

    def base_for(self, offset: int) -> Snapshot | None:
        """The newest complete snapshot at or below an offset from which the log reaches it."""
        for one in reversed(self.snapshots):
            if one.end_offset <= offset <= self.reach(one.end_offset):
                return one
        return None

    def can_rebuild(self, offset: int) -> bool:
        """Whether the state at an offset can be rebuilt."""
        from_zero = self._begins_at_zero() and offset <= self.reach(0)
        return from_zero or self.base_for(offset) is not None

    def _begins_at_zero(self) -> bool:
        return bool(self.runs) and self.runs[0].start_offset == 0

    def restorable(self) -> list[tuple[int, int]]:
        """The offsets at which the state can be rebuilt: sorted ranges with both ends included."""
        bases = {one.end_offset for one in self.snapshots} | (
            {0} if self._begins_at_zero() else set()
        )
        ranges: list[tuple[int, int]] = []
        for start in sorted(bases):
            end = self.reach(start)
            if ranges and start <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(ranges[-1][1], end))
            else:
                ranges.append((start, end))
        return ranges

    def lost(self) -> list[tuple[int, int]]:
        """The offsets up to the log's end at which it cannot, in the same form."""
        lost, next_offset = [], 0
        for start, end in self.restorable():
            if start > next_offset:
                lost.append((next_offset, start - 1))
            next_offset = end + 1
        if next_offset <= self.log_end_offset:
            lost.append((next_offset, self.log_end_offset))
        return lost


def scan(replica: Replica, limits: Limits = DEFAULT_LIMITS) -> Coverage:
    """Read every header of a replica's log, and the two ends of its checkpoints."""
    runs: list[Run] = []
    gaps: list[Gap] = []
    damage: list[str] = []
    for path, found in _log(replica, limits):
        if isinstance(found, Fault):
            if found.kind != FaultKind.ZEROS:
                damage.append(f"{found.kind} in {path} at byte {found.position}")
            continue
        run = runs[-1] if runs else None
        if run is not None and found.end_offset <= run.end_offset:
            continue  # an offset that was read before: the first batch that holds it counts
        if run is None or found.base_offset > run.end_offset:
            if run is not None:
                cause = "; ".join(damage) or "no file holds them"
                gaps.append(Gap(run.end_offset, found.base_offset, cause))
            run = Run(found.base_offset, found.base_offset, -1, -1)
            runs.append(run)
        damage = []
        run.end_offset, run.last_timestamp = found.end_offset, found.max_timestamp
        run.last_epoch = found.batch_leader_epoch
        if not run.paths or run.paths[-1] != path:
            run.paths.append(path)
    snapshots, rejected = find_snapshots(replica, limits)
    tail = "; ".join(damage) or None
    return Coverage(replica, tuple(runs), tuple(gaps), tuple(snapshots), tuple(rejected), tail)


def _log(replica: Replica, limits: Limits) -> Iterator[tuple[str, LogBatch | Fault]]:
    for file in log_files(replica):
        for found in read_batches(file, limits):
            yield file.path, found


@dataclass(frozen=True, slots=True)
class Restore:
    """A range of offsets (both ends included) at which a replica's state cannot be rebuilt from its
    own files, and one source that holds a part of it; `source` is None where nobody does.
    """

    replica: str
    start_offset: int
    end_offset: int
    source: str | None
    source_start_offset: int | None
    source_end_offset: int | None
    paths: tuple[str, ...]


def restore_plan(coverages: Iterable[Coverage]) -> Iterator[Restore]:
    """For each replica and each range that it lost: from which other replica's files it could be
    rebuilt.

    Whether the other one's log is the same history is not judged here: compare their epochs first.
    """
    every = list(coverages)
    for one in every:
        for start, end in one.lost():
            sources = list(_sources(one, every, start, end))
            label = one.replica.label
            yield from sources or [Restore(label, start, end, None, None, None, ())]


def _sources(one: Coverage, every: list[Coverage], start: int, end: int) -> Iterator[Restore]:
    for other in every:
        if other is one:
            continue
        for first, last in other.restorable():
            low, high = max(start, first), min(end, last)
            if low <= high:
                paths = _paths(other, low, high)
                label = other.replica.label
                yield Restore(one.replica.label, start, end, label, low, high, paths)


def _paths(other: Coverage, low: int, high: int) -> tuple[str, ...]:
    """The checkpoint to begin with, and the segments after it."""
    base = other.base_for(low)
    first = base.end_offset if base else 0
    paths = [base.file.path] if base else []
    if high > first:
        reached = log_files(other.replica, first)
        paths += [file.path for file in reached if (file.parsed.base_offset or 0) < high]
    return tuple(paths)
