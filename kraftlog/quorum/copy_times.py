"""What the moment of copying explains: files of a live quorum are copied one after the other.

In: a replica's log and the time of data that it lacks. Out: whether the copy alone can be the
reason.
"""

import numpy as np

from kraftlog.quorum.describe import told_ms
from kraftlog.quorum.evidence import LastFetch
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum


def copy_explains(quorum: Quorum, log: LogView, data_ms: int, first_ms: int = 0) -> bool:
    """Whether data of a time may be missing in a log only because its files were copied a little
    earlier; `first_ms` is the time of the first that it lacks, where that is known.

    A copy carries the time of copying, or of the last append. Data that are older than that were
    lost; data that are newer may have been written after the copy, but not long after: a backup of
    last week explains nothing. A disk that lost its newest records may carry the same time. Where
    nobody led for a while, the last append tells nothing: it may have been copied until one did.
    """
    if not log.evidence.segments:
        return False
    modified = log.evidence.segments[-1].modified_ms
    copied_until = max(modified, first_ms)
    return modified < data_ms <= copied_until + quorum.thresholds.copy_skew_ms


def copied_before(quorum: Quorum, log: LogView, lacks_from: int) -> bool:
    """Whether all that a copy lacks from an offset on was written after its files were copied, or
    last written, or its node held it then: by what it asked the leader for next. Nothing is held
    against a copy where nothing tells when that was written.
    """
    if described_since(quorum, log, lacks_from):
        return True
    beyond = [one for one in quorum.peers if one is not log and (one.end_offset or 0) > lacks_from]
    held = [_due(one, log, lacks_from) for one in beyond]
    stamps = [_ms(one, index) for one, index in zip(beyond, held, strict=True) if index >= 0]
    stamps += [
        one.last_contained_timestamp or 0
        for one in quorum.credible_snapshots
        if one.end_offset > lacks_from and not stamps
    ]
    # A running leader writes twice a second: what comes first is always a moment away. Brokers are
    # many, and copied long after the voters: what they alone hold is told apart.
    by_voters = quorum.is_voter(log.evidence)
    told = [one for one in beyond if not by_voters or quorum.is_voter(one.evidence)]
    newest = [ms for one in told if (ms := one.newest_ms) is not None]
    first = min(stamps, default=0)
    return bool(stamps) and all(
        copy_explains(quorum, log, one, first) for one in (*stamps, *newest)
    )


def _due(one: LogView, log: LogView, offset: int) -> int:
    """The index of the batch of another log with which what it holds from an offset on comes to a node:
    that one; of an older epoch than the node's own log ends in, the first of a leader after that.
    """
    index, last = one.index_at(offset), log.last_epoch or 0
    if index < 0 or one.epochs[index] >= last:
        return index
    later = np.flatnonzero(one.epochs[index:] > last)
    return index + int(later[0]) if len(later) else index


def described_since(quorum: Quorum, log: LogView, lacks_from: int) -> bool:
    """Whether a describe tells that a node went on from an offset after its files were copied, or
    may have: no copy tells of what lies beyond, and the describe may be newer than all of them.
    """
    alone = described_alone_from(quorum)
    if alone is not None and lacks_from >= alone and not _is_copied_later(quorum, log):
        return True
    asked = _asked_beyond(quorum, log, lacks_from)
    return asked is not None and copy_explains(quorum, log, asked.fetched_ms)


def described_key(quorum: Quorum, log: LogView) -> tuple[int, int]:
    """How far a node's log went after it was copied, by epoch and end, where a describe tells that it
    held the leader's: all that was committed, the last of it of that epoch. (0, 0) elsewhere.
    """
    described, end = quorum.evidence.described, log.end_offset or 0
    asked = _asked_beyond(quorum, log, end)
    if described is None or asked is None or not copy_explains(quorum, log, asked.fetched_ms):
        return 0, 0
    is_led = 0 < (described.high_watermark or 0) <= asked.end_offset
    return (described.leader_epoch or 0, asked.end_offset) if is_led else (0, 0)


def described_alone_from(quorum: Quorum) -> int | None:
    """Where the part of what is committed begins that no copy at hand holds, and of which only a
    describe tells, or an earlier run of the lake; None where there is none.
    """
    if quorum.told_committed is None:
        return None
    ends = [quorum.leaves(log.label, log.end_offset or 0) for log in quorum.peers]
    reached = max([*ends, *(one.end_offset for one in quorum.credible_snapshots)], default=0)
    return reached if reached < quorum.bounds.lower else None


def _is_copied_later(quorum: Quorum, log: LogView) -> bool:
    """Whether the files of a log were copied, or last written, when that was told which they lack.
    Of an earlier run of the lake nothing tells when: a describe beside these copies is another one.
    """
    told_by, segments = quorum.told_committed, log.evidence.segments
    told = told_ms(told_by) if told_by else None
    return told is not None and bool(segments) and segments[-1].modified_ms >= told


def _ms(log: LogView, index: int) -> int:
    """When a batch of a log was written."""
    return int(log.evidence.log.max_timestamps[log.rows[index]])


def _asked_beyond(quorum: Quorum, log: LogView, offset: int) -> LastFetch | None:
    """What the node of a copy last asked the leader for, where that lies beyond an offset, by a
    describe that names the same disk.
    """
    described, node = quorum.evidence.described, log.evidence.node_id
    own = log.evidence.directory_id
    disks = [one for one in (described.fetches if described else ()) if one.node_id == node]
    named = [one for one in disks if own in (None, one.directory_id or own)]
    # Of two disks of a node, nothing says which is that of a copy without a directory id.
    asked = [one for one in named if len(named) == 1 and one.end_offset > offset]
    return next(iter(asked), None)


def copied_first(quorum: Quorum, log: LogView, until: int) -> bool:
    """Whether all that stood behind the end of a log, up to an offset that files beside it tell of,
    was written after the log was copied: then those files were copied later.
    """
    first, newest = (_time_at(quorum, log, at) for at in (log.end_offset or 0, until - 1))
    if first is None or not copy_explains(quorum, log, first):
        return False
    return newest is None or copy_explains(quorum, log, newest)


def _time_at(quorum: Quorum, lost: LogView, offset: int) -> int | None:
    """When the record at an offset was written, by another copy or by the node's own time index; else
    until when, by its own snapshots.
    """
    for log in quorum.logs:
        index = log.index_at(offset)
        if index >= 0 and log is not lost:
            return _ms(log, index)
    times = [
        int(index.values[at])
        for index in lost.evidence.indexes
        if index.time
        for at in (index.offsets >= offset).nonzero()[0][:1]
    ]
    held = [
        one.last_contained_timestamp
        for one in quorum.snapshots_of(lost.label)
        if one.end_offset > offset and one.last_contained_timestamp is not None
    ]
    return min(times or held, default=None)
