"""What a node does with its disk when it starts: which snapshot it loads, what it replays, what it
throws away, or why it refuses; and the six steps in which a follower takes over a snapshot, after
each of which it may have to start again.

In: a `Disk`, the few facts of a replica's files that Kafka looks at before it takes part. Out: a
`Boot`. Pure; `disk` reads the facts from a quorum. Source: KIP-630 "Loading State and Frequency of
Compaction", "Loading Snapshots", "Changes to Leader Election", "Validation of Snapshot and Log",
KAFKA-14240; Kafka 4.3.1's KafkaRaftLog.createLog, UnifiedLog recovery, FileQuorumStateStore and
RecordsSnapshotReader, each rule tried on damaged copies. Takeovers: KIP-630 "Fetch", in version 19
and as adopted; Kafka 4.3.1 follows the adopted steps, but compares sizes only before it renames,
not the CRCs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kraftlog.quorum.epochs import EpochVector
from kraftlog.simulate.extent import Extent, SnapshotId
from kraftlog.simulate.fetch import Dialect


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot by its name. `unreadable` says why it cannot be loaded, None where it can;
    `is_complete` is False where the footer is missing, which Kafka does not look for; `newer` says
    what a newer Kafka wrote in it. `is_found` is False where no file has its name, though Kafka takes
    one of another name for it.
    """

    id: SnapshotId
    unreadable: str | None = None
    is_complete: bool = True
    newer: str | None = None
    is_found: bool = True


class BadRecord(NamedTuple):
    """What is wrong with the records of a valid batch, where, and where that batch ends: Kafka reads
    all of one in whose middle a snapshot ends.
    """

    offset: int
    text: str
    last_offset: int


@dataclass(frozen=True, slots=True)
class Disk:
    """What lies on one node's disk.

    `vector` is the log up to the first batch that is no valid one, where recovery cuts it: `cut`
    says what it meets there, None for a sound log. Where a segment `is_unread`, nobody knows what a
    start would cut or drop. `problems` are reasons to refuse to start;
    `bad_records` are one where they are replayed, and `newer_records` where an older Kafka does.
    """

    start_offset: int
    vector: EpochVector
    snapshots: tuple[SnapshotFile, ...] = ()
    cut: str | None = None
    problems: tuple[str, ...] = ()
    bad_records: tuple[BadRecord, ...] = ()
    notes: tuple[str, ...] = ()
    newer_records: tuple[BadRecord, ...] = ()
    is_unread: bool = False


@dataclass(frozen=True, slots=True)
class Boot:
    """The outcome. `extent` is what the node goes on with, `snapshot` what it loads, and it replays
    the log from `replay_from_offset` on.

    `discarded_from_offset` is where the part of its log begins that it throws away, None also where
    nobody knows; `reason` says
    why it refuses, or what it does besides starting, in words.
    """

    boots: bool
    reason: str | None
    extent: Extent
    snapshot: SnapshotId | None
    replay_from_offset: int
    discarded_from_offset: int | None


def boot(disk: Disk) -> Boot:
    """Start a node on this disk."""
    # Snapshots below the log start are deleted before anything looks at them.
    usable = [one for one in disk.snapshots if one.id.end_offset >= disk.start_offset]
    usable.sort(key=lambda one: one.id)
    found = Extent(disk.start_offset, disk.vector, tuple(one.id for one in usable))
    if not (found.is_behind_snapshot or found.start_offset):
        # Kafka forgets a snapshot that it does not find; without one, it needs a log from 0 on.
        while usable and not usable[-1].is_found:
            usable.pop()
        found = replace(found, snapshots=tuple(one.id for one in usable))
    extent = found.truncated_to_latest_snapshot()
    refusals = [*disk.problems, *_missing_cover(disk, found.snapshots)]
    latest = usable[-1] if usable else None
    if latest is not None and latest.unreadable:
        refusals.append(f"snapshot {latest.id.name} cannot be loaded: {latest.unreadable}")
    replay_from = max(extent.start_offset, latest.id.end_offset if latest else 0)
    for one in _first(disk.bad_records, replay_from, extent):
        refusals.append(f"Kafka cannot read on at offset {one.offset}: {one.text}")
    discarded = None if disk.cut is None else disk.vector.end_offset
    if _is_dropped(found):
        discarded = disk.start_offset
    if disk.is_unread:
        discarded = None
    words = _words(disk, found, latest)
    for one in _first(disk.newer_records, replay_from, extent):
        words.append(
            f"a newer Kafka wrote the record at offset {one.offset}, and an older one may refuse it: {one.text}"
        )
    reason = "; ".join(refusals) or "; ".join(words) or None
    return Boot(not refusals, reason, extent, latest.id if latest else None, replay_from, discarded)


def _is_dropped(found: Extent) -> bool:
    """Whether there is a log that a snapshot takes the place of; a log that has lost its epochs with
    its leader-epoch-checkpoint is one too.
    """
    return found.is_behind_snapshot and found.start_offset < found.end_offset


def _first(records: tuple[BadRecord, ...], start: int, extent: Extent) -> list[BadRecord]:
    """The first of some records that is replayed, if any is."""
    return [one for one in records if start <= one.last_offset and one.offset < extent.end_offset][
        :1
    ]


def _missing_cover(disk: Disk, ids: tuple[SnapshotId, ...]) -> list[str]:
    """A log that does not begin at 0 needs a snapshot that reaches its start."""
    if disk.start_offset == 0 or ids:
        return []
    older = max((one.id for one in disk.snapshots), default=None)
    held = f"the latest, snapshot {older.name}, ends below it" if older else "there is none"
    return [
        f"inconsistent snapshot state: the log start offset is {disk.start_offset}, so a snapshot must reach it, but {held}"
    ]


def _words(disk: Disk, found: Extent, latest: SnapshotFile | None) -> list[str]:
    """What a person should know of a node that does start."""
    words = []
    if disk.cut is not None:
        words.append(f"recovery cuts the log at offset {disk.vector.end_offset}: {disk.cut}")
    if latest is not None and _is_dropped(found):
        words.append(
            f"snapshot {latest.id.name} is newer than the log's end, so the whole log is dropped"
        )
    if latest is not None and not latest.is_complete:
        words.append(
            f"snapshot {latest.id.name} is incomplete, and Kafka loads it without noticing"
        )
    if latest is not None and latest.newer:
        words.append(
            f"a newer Kafka wrote a record in snapshot {latest.id.name}, and an older one may refuse it: {latest.newer}"
        )
    return [*words, *disk.notes]


@dataclass(frozen=True, slots=True)
class DiskStep:
    """The follower's disk when a step is done. `part_of` is the snapshot of which a `.part` file
    lies there; nobody but the step that writes it looks at it.
    """

    name: str
    disk: Disk
    part_of: SnapshotId | None = None


def takeover(disk: Disk, snapshot: SnapshotId, dialect: Dialect) -> Iterator[DiskStep]:
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
    # Log start, log end and fetch offset are the snapshot's end, the epoch is its epoch.
    empty = EpochVector((), snapshot.end_offset)
    yield DiskStep("resumed", Disk(snapshot.end_offset, empty, (SnapshotFile(snapshot),)))


def _v19_steps(snapshot: SnapshotId) -> Iterator[DiskStep]:
    """Version 19 deletes log and snapshots first, and fetches both at the same time: until the
    snapshot is there, its log starts above 0 without one.
    """
    yield DiskStep("snapshot_named", Disk(0, EpochVector((), 0)))
    start = snapshot.end_offset
    begun = Disk(start, EpochVector(((snapshot.epoch, start),), start + 1))
    yield DiskStep("log_and_chunks_written", begun, snapshot)
    yield DiskStep("resumed", replace(begun, snapshots=(SnapshotFile(snapshot),)))


def start(disk: Disk, dialect: Dialect = Dialect.SHIPPED) -> Boot:
    """What the node does when it starts with this disk, as after a crash at any step."""
    return _boot_v19(disk) if dialect == Dialect.V19 else boot(disk)


def _boot_v19(disk: Disk) -> Boot:
    """Version 19's invariant: without a snapshot from its log start on, a log counts as empty: the
    node votes as such, and fetches all of it again. Even a fresh log at offset 0 fails it.
    """
    covered = [one for one in disk.snapshots if one.id.end_offset >= disk.start_offset]
    if covered:
        return boot(disk)
    empty = Extent(0, EpochVector((), 0))
    discarded = disk.start_offset if disk.vector.entries else None
    reason = "no snapshot reaches the log start, so the log counts as empty and is fetched again"
    reasons = (*disk.problems, reason)
    return Boot(not disk.problems, "; ".join(reasons), empty, None, 0, discarded)
