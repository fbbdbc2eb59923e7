"""Where a log really ended: what the files beside it witness beyond the last batch that can be
read.

In: a log, its replica's own snapshots, and who may have sent them. Out: `Witness`es. A log that was
cut at a batch's end, or emptied, is a sound file, so that only witnesses tell. Kafka writes an entry of
`leader-epoch-checkpoint` as it appends the first batch of an epoch, an index entry as it appends a
batch, a producer snapshot where the log ends at a roll or a clean stop, `quorum-state` before a new
leader writes, and a snapshot of what the log holds. Source: Kafka's LeaderEpochFileCache,
OffsetIndex, TimeIndex, ProducerStateManager, UnifiedLog.close, KafkaRaftClient.onBecomeLeader,
RaftLog.validateOffsetAndEpoch; KAFKA-1211, KIP-595, KIP-630.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from kraftlog.log.batch import MIN_RECORD_SIZE
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.quorum.epochs import EpochVector, vector_of
from kraftlog.quorum.evidence import IndexEvidence, SegmentEvidence
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.snapshots import SnapshotView


@dataclass(frozen=True, slots=True)
class Witness:
    """Something that says that a log once reached at least `end_offset` (exclusive); `words` can
    follow "because". `epoch` is that of a record that it tells of, where it is known.
    """

    end_offset: int
    words: str
    path: str | None
    is_of_the_damage: bool = False
    """Whether what is missing is what the damaged end may have held: other checks tell that."""
    epoch: int | None = None


class Sender(NamedTuple):
    """A voter's copy: what another node did not snapshot itself, it had from such a node."""

    log: LogView
    snapshots: Sequence[SnapshotView]

    def can_have_sent(self, one: SnapshotView, end: int) -> bool:
        """Whether the node may have sent a snapshot to one whose log ends at an offset, in the same
        epoch: a leader does so where its own log starts behind that, and that is nowhere behind its
        oldest snapshot. What happened after it was copied is not known.
        """
        segments = self.log.evidence.segments
        if not (segments and self.snapshots):
            return True
        oldest = min(held.end_offset for held in self.snapshots)
        is_older = segments[-1].modified_ms < one.evidence.modified_ms
        return is_older or max(oldest, self.log.start_offset or 0) > end


def witnesses(
    log: LogView,
    snapshots: Iterable[SnapshotView],
    senders: Sequence[Sender] = (),
    led_from: Mapping[int, int] = MappingProxyType({}),
) -> list[Witness]:
    """What a node's own files witness beyond the end of its log, the furthest first. Of a log that
    was not copied, or cannot be read, nothing is known to be lost. `senders` are all who may have
    sent it a snapshot; none where some of them are not at hand. `led_from` tells where the epochs
    begin that the node led, by the copies of others.
    """
    if log.evidence.single_file or not log.evidence.segments or log.unread_segments:
        return []
    own, end = list(snapshots), log.end_offset or 0
    # Of a log whose records are all dropped the snapshot at its end tells the epoch, and no newer one,
    # with which its node goes on (`ends_in_epoch`): that was sent to it, and never stood in this log.
    bases = (one.epoch for one in own if one.is_complete and one.end_offset == end)
    epoch = log.last_epoch or max(bases, default=0)
    found = [
        *_of_epochs(log, end, epoch),
        *_of_segments(log, end),
        *_of_indexes(log, end),
        *_of_quorum_state(log, end, epoch, led_from),
        *_of_snapshots(log, own, end, senders),
    ]
    unfinished = _unfinished(log)
    damaged_bytes = unread_tail_bytes(log) - (unfinished.size_bytes if unfinished else 0)
    # Other checks tell that damage: so many records behind the end need no witness.
    damaged = end + damaged_bytes // MIN_RECORD_SIZE
    explained = damaged + (_records_of_an_append(log, unfinished) if unfinished else 0)
    beyond = [one for one in found if one.end_offset > explained]
    beyond += [
        replace(one, is_of_the_damage=one.end_offset <= explained)
        for one in _of_producer_snapshots(log)
        if one.end_offset > damaged
    ]
    return sorted(beyond, key=lambda one: -one.end_offset)


def is_closed_at_end(log: LogView) -> bool:
    """Whether the log was closed where it ends: a clean stop leaves a producer snapshot there, and
    gives back what was allocated ahead of the last segment's index. Nothing was appended since. A
    roll leaves the same, and a next segment, which may be gone but for its index. An index that
    could not be read says nothing against it.
    """
    if not log.evidence.segments:
        return False
    ends, name = log.evidence.producer_ends, log.evidence.segments[-1].base_offset
    if any(one.base_offset > name for one in log.evidence.indexes):
        return False
    index = [one for one in log.evidence.indexes if one.base_offset == name and not one.time]
    given_back = not any(one.padding_bytes for one in index)
    return bool(ends) and max(ends) == log.end_offset and bool(index) and given_back


def is_whole(log: LogView) -> bool:
    """Every byte of the log can be read, and no offset is missing."""
    evidence = log.evidence
    readable = not any(one.problem or one.faults for one in evidence.segments)
    return readable and not log.holes and len(log.rows) == len(evidence.log)


def end_is_proven(
    log: LogView, snapshots: Iterable[SnapshotView], senders: Sequence[Sender]
) -> bool:
    """Whether nothing can ever have followed the last batch of a log."""
    if log.evidence.unread or not (is_closed_at_end(log) and is_whole(log)):
        return False
    return not witnesses(log, snapshots, senders)


def known_epoch(log: LogView) -> int | None:
    """The highest epoch that a node has heard of; None where its quorum-state does not say."""
    state = log.evidence.state_file
    return None if state is None else max(state.leader_epoch, log.last_epoch or 0)


def unread_tail_bytes(log: LogView) -> int:
    """Bytes behind the last usable batch: torn, garbage, or batches that are damaged."""
    segments = log.evidence.segments
    if not len(log.rows):
        return sum(one.size_bytes for one in segments)
    columns, row = log.evidence.log, int(log.rows[-1])
    file = int(columns.file[row])
    used = int(columns.positions[row] + columns.sizes[row])
    return segments[file].size_bytes - used + sum(one.size_bytes for one in segments[file + 1 :])


def _unfinished(log: LogView) -> Fault | None:
    """What the very end holds where it is the usual trace of one append that was not finished. That
    explains an epoch or an index entry of that append. It explains no producer snapshot: before
    Kafka writes one, all up to its offset stood there whole.
    """
    last = log.evidence.segments[-1]
    for one in last.faults[-1:]:
        if one.kind in _UNFINISHED and one.position + one.size_bytes >= last.size_bytes:
            return one
    return None


_UNFINISHED = (FaultKind.TORN_BATCH, FaultKind.ZEROS, FaultKind.GARBAGE)


def _records_of_an_append(log: LogView, unfinished: Fault) -> int:
    """So many records an append that was not finished can explain: those of the longest batch of
    the log. A torn batch is one of them, and the same fetch may bring the next epoch's first.
    """
    longest = 0 if log.is_empty else int((log.last - log.base).max()) + 1
    return longest + (unfinished.kind == FaultKind.TORN_BATCH)


def _of_epochs(log: LogView, end: int, last_epoch: int) -> Iterator[Witness]:
    """The entry of an epoch that begins at or behind the end: its first batch stood there. Only a
    leader that was stopped before its first write leaves such an entry at the end, and retention
    one of the epoch that stands before it: where the log's start moves to its end, the newest entry
    moves along. Source: LeaderEpochFileCache.assign, truncateFromStartAsyncFlush.
    """
    file = log.evidence.epoch_checkpoint
    for epoch, start in _noted_behind(log, end):
        unwritten = start == end and (epoch == last_epoch or is_closed_at_end(log))
        if not unwritten and file is not None:
            words = f"its leader-epoch-checkpoint says that epoch {epoch} began at offset {start}"
            yield Witness(start + 1, words, file.path, epoch=epoch)


def _noted_behind(log: LogView, end: int) -> Iterator[tuple[int, int]]:
    """The entries of an epoch checkpoint, as far as they are in order, at or behind an end."""
    previous = (-1, -1)
    for epoch, start in log.epoch_entries:
        if epoch > previous[0] and start >= previous[1] and start >= end:
            yield epoch, start
        previous = epoch, start


def noted_epoch(log: LogView) -> int:
    """The newest epoch that a log knows: that of its last batch, or of an entry of its epoch
    checkpoint behind it. Of entries before it without a batch, `claimed_of` tells. The node's
    quorum-state is never older: Kafka stores an epoch there before it leads it or takes its batches.
    """
    noted = (epoch for epoch, _ in _noted_behind(log, log.end_offset or 0))
    return max([log.last_epoch or 0, *noted])


def begins_newer(log: LogView, epoch: int, offset: int) -> bool:
    """Whether the epoch checkpoint of a replica begins an epoch, or a later one, at an offset or
    before it.
    """
    return any(one >= epoch and start <= offset for one, start in log.epoch_entries)


def noted_vector(log: LogView) -> EpochVector | None:
    """The epochs of a log with those that its epoch checkpoint begins behind its end; None where it
    begins none, or where the file need not be that of this log: the batches tell otherwise, or the
    node's quorum-state does not know such an epoch.
    """
    batches, state = vector_of(log), log.evidence.state_file
    noted = [one for one in _noted_behind(log, batches.end_offset) if one[0] > batches.last_epoch]
    is_own = all(
        batches.epoch_at(start) == epoch
        for epoch, start in log.epoch_entries
        if start < batches.end_offset
    )
    if not noted or not is_own or state is None or state.leader_epoch < noted[-1][0]:
        return None
    return EpochVector((*batches.entries, *noted), noted[-1][1] + 1)


def _of_segments(log: LogView, end: int) -> Iterator[Witness]:
    """An empty segment begins where the log ended when it was rolled; in one that is not empty, the
    batches say where they stand.
    """
    last = log.evidence.segments[-1]
    if last.base_offset > end and last.first_row == last.end_row:
        words = f"its segment {last.name} begins at offset {last.base_offset}"
        yield Witness(last.base_offset, words, None)


def _of_indexes(log: LogView, end: int) -> Iterator[Witness]:
    """Entries of batches that stood behind the end of the file, and indexes of segments that are
    gone.
    """
    segments = {one.base_offset: one for one in log.evidence.segments}
    for index in log.evidence.indexes:
        name = index.path.rsplit("/", 1)[-1]
        if index.unread is not None:
            continue
        segment = segments.get(index.base_offset)
        if segment is None:
            if index.base_offset >= end and (reached := reached_by(index)) > end:
                words = f"{name} belongs to a segment that is gone"
                yield Witness(reached, words, index.path)
            continue
        last = _last_entry(index)
        if last is None or last < end:
            continue
        stood = (
            _dates_more(log, segment, index) if index.time else _points_beyond(log, segment, index)
        )
        if stood:
            yield Witness(last + 1, f"{name} lists a batch of offset {last}", index.path)


def _points_beyond(log: LogView, segment: SegmentEvidence, index: IndexEvidence) -> bool:
    """Whether the last position lies behind the segment's bytes, and is of no tail that was cut."""
    is_behind = int(index.values[-1]) >= segment.size_bytes
    return is_behind and not _is_left_by_truncation(log, index)


def _dates_more(log: LogView, segment: SegmentEvidence, index: IndexEvidence) -> bool:
    """Whether the last time, the largest that the segment had, is of no batch that is left in it.

    A roll, a clean stop and a recovery end the file behind an entry of the newest batch, which the
    other index often lacks. A cut allocates space anew before it shortens the log, so that without
    that space every entry is of a batch that stood there. Of an entry whose offset is damaged, the
    batch with its time is still there. Source: LogSegment.onBecomeInactiveSegment, close, recover and
    truncateTo, TimeIndex.maybeAppend.
    """
    stamps = log.evidence.log.max_timestamps[segment.first_row : segment.end_row]
    return not index.padding_bytes and int(index.values[-1]) > int(stamps.max(initial=-1))


def last_cut(log: LogView, index: IndexEvidence) -> int | None:
    """Where Kafka may have cut a segment that it has not closed since: a cut leaves a producer
    snapshot there, and so does a start.
    """
    if not index.padding_bytes:
        return None
    ends = log.evidence.producer_ends
    inside = (one for one in ends if index.base_offset < one <= (log.end_offset or 0))
    return max(inside, default=None)


INDEX_INTERVAL = 4096
"""log.index.interval.bytes: so many bytes are appended before another index entry is due."""


def _is_left_by_truncation(log: LogView, index: IndexEvidence) -> bool:
    """Whether entries behind the end of a log are of a tail that Kafka itself cut. It forgets them,
    but leaves their bytes in the file, where new entries write over them one by one.

    After a cut, as after a start, no entry is due before INDEX_INTERVAL bytes are appended: one that
    is nearer to it was there before. Or the time index dates the entries to before the log's last
    batch, so that they are not what followed it. Source: OffsetIndex.truncateTo,
    LogSegment.truncateTo, UnifiedLog.rebuildProducerState.
    """
    end, cut = log.end_offset or 0, last_cut(log, index)
    if log.is_empty or index.base_offset >= end or not index.padding_bytes:
        return False
    if cut is not None:
        last = int(log.rows[-1])
        since = log.rows[log.base >= cut]
        columns = log.evidence.log
        place = int(
            columns.positions[since[0]]
            if len(since)
            else columns.positions[last] + columns.sizes[last]
        )
        behind = index.values[index.values >= place]
        if len(behind) and int(behind[0]) - place <= INDEX_INTERVAL:
            return True
    newest = int(log.evidence.log.max_timestamps[log.rows[-1]])
    times = [
        one for one in log.evidence.indexes if one.time and one.base_offset == index.base_offset
    ]
    beyond = [int(one.values[at]) for one in times for at in np.flatnonzero(one.offsets >= end)]
    return bool(beyond) and max(beyond) < newest


def reached_by(index: IndexEvidence) -> int:
    """The end of a log that had the segment of an index, with what its entries list."""
    last = _last_entry(index)
    return index.base_offset if last is None else last + 1


def _last_entry(index: IndexEvidence) -> int | None:
    """The offset of an index's last entry; None without entries, or where they are not in order."""
    if not len(index.offsets) or index.surplus_bytes:
        return None
    in_order = (np.diff(index.offsets) > 0).all() and (np.diff(index.values) > 0).all()
    return int(index.offsets[-1]) if in_order else None


def _of_producer_snapshots(log: LogView) -> Iterator[Witness]:
    for end in log.evidence.producer_ends[-1:]:
        words = f"its folder holds a producer snapshot of offset {end}, where its log once ended"
        yield Witness(end, words, f"{log.evidence.folder}/{end:020d}.snapshot")


def _of_quorum_state(
    log: LogView, end: int, last_epoch: int, led_from: Mapping[int, int]
) -> Iterator[Witness]:
    """A leader begins its epoch with a LeaderChange record, which others have from it."""
    state, file = log.evidence.state_file, log.evidence.quorum_state
    if state is None or file is None or is_closed_at_end(log):
        return
    is_own = state.leader_id >= 0 and state.leader_id == log.evidence.node_id
    if is_own and last_epoch < state.leader_epoch:
        words = f"its quorum-state says that it leads epoch {state.leader_epoch}"
        start = led_from.get(state.leader_epoch, end)
        if start > end:
            words = f"{words}, of which other copies hold the first record, at offset {start}"
        else:
            start, words = end, f"{words}, which begins with a record of its own"
        yield Witness(start + 1, words, file.path, epoch=state.leader_epoch)


def _of_snapshots(
    log: LogView, own: list[SnapshotView], end: int, senders: Sequence[Sender]
) -> Iterator[Witness]:
    """One snapshot ahead of its log may be fetched from a leader, and the next start begins there.
    It is the node's own where nobody can have sent it, or the log had gone on in a segment that is
    gone: a takeover drops the log from its beginning on. Of two, the log had passed the first. Who
    led the epoch in which it ends, as a voter that is alone always has, had all of that in its log.
    """
    ahead = [one for one in own if one.is_complete and one.end_offset > end]
    ends = sorted({one.end_offset for one in ahead})
    if len(ends) > 1:
        words = f"its folder holds {len(ends)} snapshots that end after its log"
        yield Witness(ends[-1], words, None)
    if len(ends) != 1:
        return
    made, told = ahead[0], f"its folder holds a snapshot of offset {ends[0]}"
    rolled = [one for one in log.evidence.indexes if one.base_offset == end]
    is_there = any(one.base_offset == end for one in log.evidence.segments)
    if rolled and not is_there:
        name = rolled[0].path.rsplit("/", 1)[-1]
        yield Witness(ends[0], f"{told}, and {name} of a segment that is gone", made.path)
    elif made.epoch == log.last_epoch and not any(one.can_have_sent(made, end) for one in senders):
        if senders:
            why = "which no voter can have sent to it, as their logs begin before that end"
            yield Witness(ends[0], f"{told}, {why}", made.path)
        elif log.leaders.get(made.epoch) == log.evidence.node_id:
            why = f"and as leader of epoch {made.epoch} it had written what that holds"
            yield Witness(ends[0], f"{told}, {why}", made.path)
