"""What one replica holds, as Kafka's protocol sees it: a log start, a vector of epochs, snapshots.

In: numbers, or a replica of a quorum. Out: a frozen value that the rules of `fetch`, `boot` and
`election` take and give. Offsets are exclusive ends, epochs count from 1 (0 is the epoch of no
record). Source: KIP-630 "Design" in its adopted form, and version 19.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from kraftlog.quorum.epochs import EpochEnd, EpochVector, offset_for_leader_epoch


class SnapshotId(NamedTuple):
    """A snapshot's name: snapshots are ordered by epoch, then by end offset. Version 19 of KIP-630
    names it by the offset before, that of its last record.
    """

    epoch: int
    end_offset: int

    @property
    def name(self) -> str:
        """As the file is called, without padding."""
        return f"{self.end_offset}-{self.epoch}"


BOOTSTRAP = SnapshotId(0, 0)
"""The checkpoint that formatting a dynamic quorum writes: never served to anyone."""


@dataclass(frozen=True, slots=True)
class Extent:
    """One replica of the log. `snapshots` are sorted; the vector's end is the log end offset."""

    start_offset: int
    vector: EpochVector
    snapshots: tuple[SnapshotId, ...] = ()

    @property
    def end_offset(self) -> int:
        """Log end offset: the next offset to be written (KIP-630 v19 means the one before)."""
        return self.vector.end_offset

    @property
    def is_empty(self) -> bool:
        return not self.vector.entries

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[0] if self.snapshots else None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    @property
    def last_fetched_epoch(self) -> int:
        """The epoch that a fetch names: the last record's, or the snapshot's where the log is
        empty."""
        latest = self.latest_snapshot
        return latest.epoch if self.is_empty and latest else self.vector.last_epoch

    @property
    def contradicting_snapshot(self) -> SnapshotId | None:
        """The latest snapshot, where it does not begin a log that has no epoch: Kafka then knows none
        to fetch with. Source: Kafka's KafkaRaftLog.lastFetchedEpoch.
        """
        latest = self.latest_snapshot
        if latest is None or not self.is_empty:
            return None
        return None if self.start_offset == latest.end_offset == self.end_offset else latest

    def end_for_epoch(self, epoch: int) -> EpochEnd:
        """As KIP-595 has it, with snapshots: an epoch that ends at the earliest snapshot is answered
        under the snapshot's epoch, and an empty log has that of its snapshot.
        Source: Kafka's KafkaRaftLog.endOffsetForEpoch.
        """
        end = offset_for_leader_epoch(self.vector, epoch)
        end = end or EpochEnd(self.last_fetched_epoch, self.end_offset)
        earliest = self.earliest_snapshot
        if earliest is not None and end == EpochEnd(epoch, earliest.end_offset):
            return EpochEnd(*earliest)
        return end

    @property
    def log_end(self) -> SnapshotId:
        """(last epoch, log end offset): what a vote compares."""
        return SnapshotId(self.last_fetched_epoch, self.end_offset)

    @property
    def is_behind_snapshot(self) -> bool:
        """The latest snapshot is newer than the log."""
        latest = self.latest_snapshot
        return latest is not None and latest > SnapshotId(self.vector.last_epoch, self.end_offset)

    def truncated_to_latest_snapshot(self) -> "Extent":
        """The log is dropped where the latest snapshot is newer, and starts again at its end.
        Source: Kafka's KafkaRaftLog.truncateToLatestSnapshot.
        """
        latest = self.latest_snapshot
        if latest is None or not self.is_behind_snapshot:
            return self
        return Extent(latest.end_offset, EpochVector((), latest.end_offset), (latest,))

    def truncated(self, offset: int) -> "Extent":
        """The log below an offset; below its start it is empty."""
        vector = self.vector.truncated(offset)
        return replace(self, start_offset=min(self.start_offset, offset), vector=vector)

    def with_snapshot(self, snapshot: SnapshotId) -> "Extent":
        return replace(self, snapshots=tuple(sorted({*self.snapshots, snapshot})))
