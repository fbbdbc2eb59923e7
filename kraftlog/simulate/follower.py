"""The six steps in which a follower takes over a snapshot, and what a crash after each leaves.

In: the follower's disk and the snapshot that the leader named. Out: the disk after each step; what
the next start makes of it is `boot`. Source: KIP-630 "Fetch", "Changes to Leader
Election" and "Validation of Snapshot and Log", in version 19 and as adopted. Kafka 4.3.1 follows
the adopted steps, but compares sizes only before it renames, not the CRCs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kraftlog.quorum.epochs import EpochVector
from kraftlog.simulate.boot import Boot, Disk, SnapshotFile, boot
from kraftlog.simulate.extent import Extent, SnapshotId
from kraftlog.simulate.fetch import Dialect


@dataclass(frozen=True, slots=True)
class DiskStep:
    """The follower's disk when a step is done. `part_of` is the snapshot of which a `.part` file
    lies there; nobody but the step that writes it looks at it.
    """

    name: str
    disk: Disk
    part_of: SnapshotId | None = None


def fetch_snapshot(disk: Disk, snapshot: SnapshotId, dialect: Dialect) -> Iterator[DiskStep]:
    """Every step from the fetch to the fetch that goes on after the snapshot."""
    yield DiskStep("fetch", disk)
    if dialect == Dialect.V19:
        yield from _v19_steps(snapshot)
        return
    yield DiskStep("snapshot_named", disk)
    yield DiskStep("fetch_paused", disk)
    yield DiskStep("chunks_written", disk, snapshot)
    yield DiskStep("validated", disk, snapshot)
    renamed = replace(disk, snapshots=(*disk.snapshots, SnapshotFile(snapshot)))
    yield DiskStep("renamed", renamed)
    yield DiskStep("resumed", _resumed(snapshot))


def _v19_steps(snapshot: SnapshotId) -> Iterator[DiskStep]:
    """Version 19 deletes log and snapshots first, and fetches both at the same time: until the
    snapshot is there, its log starts above 0 without one.
    """
    yield DiskStep("snapshot_named", Disk(0, EpochVector((), 0)))
    start = snapshot.end_offset
    begun = Disk(start, EpochVector(((snapshot.epoch, start),), start + 1))
    yield DiskStep("log_and_chunks_written", begun, snapshot)
    yield DiskStep("resumed", replace(begun, snapshots=(SnapshotFile(snapshot),)))


def _resumed(snapshot: SnapshotId) -> Disk:
    """Log start, log end and fetch offset are the snapshot's end, the epoch is its epoch."""
    empty = EpochVector((), snapshot.end_offset)
    return Disk(snapshot.end_offset, empty, (SnapshotFile(snapshot),))


def crash_after(step: DiskStep, dialect: Dialect = Dialect.SHIPPED) -> Boot:
    """What the node does when it starts again after a crash at this point."""
    return _boot_v19(step.disk) if dialect == Dialect.V19 else boot(step.disk)


def _boot_v19(disk: Disk) -> Boot:
    """Version 19's invariant: without a snapshot from its log start on, a log counts as empty, and
    the node fetches all of it again. Even a fresh log at offset 0 fails it.
    """
    covered = [one for one in disk.snapshots if one.id.end_offset >= disk.start_offset]
    if covered:
        return boot(disk)
    empty = Extent(0, EpochVector((), 0))
    discarded = disk.start_offset if disk.vector.entries else None
    reason = "no snapshot reaches the log start, so the log counts as empty and is fetched again"
    reasons = (*disk.problems, reason)
    return Boot(not disk.problems, "; ".join(reasons), empty, None, 0, discarded)
