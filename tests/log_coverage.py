"""What can be rebuilt from a replica's files: unbroken runs of its log, its complete snapshots, and
the offsets that both miss.

In: a replica. Out: `LogCoverage`. Only batch headers and CRCs are read here, and nothing is asked
but whether one batch follows the other: what `quorum.holdings` says of sound files is held against
it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kraftlog.log.directory import Replica
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.segment import Limits
from kraftlog.quorum.holdings import rebuildable
from tests.reading import (
    DEFAULT_LIMITS,
    LogBatch,
    RejectedSnapshot,
    Snapshot,
    find_snapshots,
    log_files,
    read_batches,
)


@dataclass(slots=True)
class UnbrokenRun:
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
class LogCoverage:
    """Everything of a replica that a state can be rebuilt from."""

    replica: Replica
    runs: tuple[UnbrokenRun, ...]
    gaps: tuple[Gap, ...]
    snapshots: tuple[Snapshot, ...]
    rejected: tuple[RejectedSnapshot, ...]

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
        bases = {one.end_offset for one in self.snapshots}
        if self._begins_at_zero():
            bases.add(0)
        return rebuildable(bases, [(run.start_offset, run.end_offset) for run in self.runs])


def scan(replica: Replica, limits: Limits = DEFAULT_LIMITS) -> LogCoverage:
    """Read every header of a replica's log, and the two ends of its checkpoints."""
    log = ((file.path, one) for file in log_files(replica) for one in read_batches(file, limits))
    return covered(replica, log, limits)


def covered(
    replica: Replica, log: Iterable[tuple[str, LogBatch | Fault]], limits: Limits = DEFAULT_LIMITS
) -> LogCoverage:
    """The same, where somebody else reads the log: its batches and faults, each with its file."""
    runs: list[UnbrokenRun] = []
    gaps: list[Gap] = []
    damage: list[str] = []
    for path, found in log:
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
            run = UnbrokenRun(found.base_offset, found.base_offset, -1, -1)
            runs.append(run)
        damage = []
        run.end_offset, run.last_timestamp = found.end_offset, found.max_timestamp
        run.last_epoch = found.batch_leader_epoch
        if not run.paths or run.paths[-1] != path:
            run.paths.append(path)
    snapshots, rejected = find_snapshots(replica, limits)
    return LogCoverage(replica, tuple(runs), tuple(gaps), tuple(snapshots), tuple(rejected))
