"""Leader-epoch vectors: where each epoch of a log begins and ends, and where a log is cut against
another.

In: (epoch, start offset) pairs and an end offset. Out: Kafka's answers. This is the one home of the
rule: the audit's findings and every simulation reason with it. A few entries per log, no bytes.
Source: KAFKA-1211 (leader generation vector), KIP-101, KIP-595, KIP-392. Kafka:
LeaderEpochFileCache, KafkaRaftLog.endOffsetForEpoch, RaftLog.validateOffsetAndEpoch,
RaftLog.truncateToEndOffset.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, Protocol

from kraftlog.quorum.logview import LogView

NO_EPOCH = 0
"""Kafka's primordial epoch: that of a log without a batch."""


class EpochEnd(NamedTuple):
    """An epoch, and the offset after its last record."""

    epoch: int
    end_offset: int


class KnowsEpochs(Protocol):
    """A log's vector, or a log together with its snapshots."""

    @property
    def end_offset(self) -> int:
        """The log end offset."""

    def end_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch not above another one, and where it ends."""


@dataclass(frozen=True, slots=True)
class EpochVector:
    """The epochs of one log: (epoch, start offset), both ascending, and the log end offset.

    Epochs without a record leave a gap. The first entry starts where the log does.
    """

    entries: tuple[tuple[int, int], ...]
    end_offset: int

    @property
    def start_offset(self) -> int:
        """Where the first entry starts; the end of a vector without entries."""
        return self.entries[0][1] if self.entries else self.end_offset

    @property
    def last_epoch(self) -> int:
        return self.entries[-1][0] if self.entries else NO_EPOCH

    def end_for_epoch(self, epoch: int) -> EpochEnd:
        """What a log answers for an epoch, whatever it has seen: its own end where that is newer."""
        return offset_for_leader_epoch(self, epoch) or EpochEnd(self.last_epoch, self.end_offset)

    def assigned(self, epoch: int) -> "EpochVector":
        """What a new leader does before it writes: its epoch begins at the log end.

        An epoch that wrote nothing is forgotten when the next one begins at the same offset: that
        is how gaps come about.
        """
        entries = list(self.entries)
        _assign(entries, epoch, self.end_offset)
        return EpochVector(tuple(entries), self.end_offset)

    def extended(self, end_offset: int) -> "EpochVector":
        """After more records of the last epoch."""
        return EpochVector(self.entries, end_offset)

    def truncated(self, offset: int) -> "EpochVector":
        kept = bisect_left(self.entries, offset, key=itemgetter(1))
        return EpochVector(self.entries[:kept], min(self.end_offset, offset))

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at an offset; NO_EPOCH below the first entry."""
        index = bisect_right(self.entries, offset, key=itemgetter(1))
        return self.entries[index - 1][0] if index else NO_EPOCH


def _assign(entries: list[tuple[int, int]], epoch: int, offset: int) -> None:
    """The same of entries, in their place: those go that are no older, or begin no earlier."""
    while entries and (entries[-1][0] >= epoch or entries[-1][1] >= offset):
        entries.pop()
    entries.append((epoch, offset))


def offset_for_leader_epoch(vector: EpochVector, epoch: int) -> EpochEnd | None:
    """The largest epoch not above `epoch` and its end offset, as a log answers
    OffsetForLeaderEpoch.

    An epoch below all of the vector's ends where the vector starts, under its own number. None
    where the epoch is above all that the log has seen. Source: KIP-392; Kafka's
    LeaderEpochFileCache.endOffsetFor.
    """
    if not vector.entries or epoch > vector.last_epoch:
        return None
    entries = vector.entries
    after = bisect_right(entries, epoch, key=itemgetter(0))
    end = entries[after][1] if after < len(entries) else vector.end_offset
    return EpochEnd(entries[after - 1][0] if after else epoch, end)


def diverging_epoch(leader: KnowsEpochs, fetch_offset: int, epoch: int) -> EpochEnd | None:
    """What a leader answers to a fetch whose last record is not of its log: its end of that epoch
    or of the next older one. None where the fetch agrees with its log.

    Source: KIP-595 (DivergingEpoch); Kafka's RaftLog.validateOffsetAndEpoch.
    """
    end = leader.end_for_epoch(epoch)
    return end if end.epoch != epoch or end.end_offset < fetch_offset else None


def truncated_to(follower: KnowsEpochs, diverging: EpochEnd) -> int:
    """The offset at which a follower cuts its log after one diverging answer.

    Source: Kafka's RaftLog.truncateToEndOffset.
    """
    if diverging.epoch == NO_EPOCH:
        return min(diverging.end_offset, follower.end_offset)
    own = follower.end_for_epoch(diverging.epoch)
    same = own.epoch == diverging.epoch
    return min(own.end_offset, diverging.end_offset) if same else own.end_offset


def truncation_offset(follower: EpochVector, leader: EpochVector) -> int:
    """Where the follower's log ends once it agrees with this leader: it fetches and cuts, until
    nothing diverges. Equal to its end where nothing has to be cut.
    """
    while follower.entries:
        diverging = diverging_epoch(leader, follower.end_offset, follower.last_epoch)
        cut = follower.end_offset if diverging is None else truncated_to(follower, diverging)
        if cut >= follower.end_offset:
            break
        follower = follower.truncated(cut)
    return follower.end_offset


def common_end(one: EpochVector, other: EpochVector) -> int | None:
    """The end of the largest prefix in which two vectors name the same epoch at every offset that
    both cover; None where no offset is in both. Logs cannot agree further than that; whether they
    do, only their bytes say (KAFKA-1211).

    Epochs change only where an entry begins, so that looking there is looking everywhere.
    """
    low = max(one.start_offset, other.start_offset)
    high = min(one.end_offset, other.end_offset)
    if low >= high:
        return None
    begins = {start for _, start in (*one.entries, *other.entries) if low < start < high}
    for offset in sorted({low, *begins}):
        if one.epoch_at(offset) != other.epoch_at(offset):
            return offset
    return high


def vector_of(log: LogView) -> EpochVector:
    """The vector that a log's batches tell."""
    entries = tuple((one.epoch, one.start_offset) for one in log.epoch_starts)
    return EpochVector(entries, log.end_offset or 0)


def claimed_by(entries: Iterable[tuple[int, int]], batches: EpochVector) -> EpochVector:
    """The vector that a node goes by once it has started: the entries of its
    `leader-epoch-checkpoint`, and of its batches only the epochs above all of them.

    A start adds those epochs, forgets entries at or behind the log's end, and believes the others:
    an entry that is lost stays lost. Source: Kafka's LeaderEpochFileCache.assign,
    LogSegment.recover, LogLoader.load; KafkaRaftLog.lastFetchedEpoch.
    """
    read: list[tuple[int, int]] = []
    for epoch, start in entries:
        last, begun = read[-1] if read else (NO_EPOCH, 0)
        if epoch != last or start < begun:
            _assign(read, epoch, start)
    if not read:
        return batches
    for epoch, start in batches.entries:
        if epoch > read[-1][0]:
            _assign(read, epoch, start)
    return EpochVector(tuple(read), batches.end_offset).truncated(batches.end_offset)


def claimed_of(log: LogView) -> EpochVector:
    """The vector that the node of a log goes by once it has started."""
    return claimed_by(log.epoch_entries, vector_of(log))
