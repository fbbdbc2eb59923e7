"""The image of a replica at an offset: snapshot + records, folded as the audit folds them.

In: what a replica's files hold, and the offset, the time, or the end of the log that is meant. Out:
an `Image`, or an InputError that names the offsets which can be rebuilt. State at offset N is the
state of all records with offsets below N. Memory: two windows, and the state.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc

from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.directory import Replica
from kraftlog.log.fault import FaultKind
from kraftlog.log.segment import Limits
from kraftlog.plain import offsets_are, tell_once
from kraftlog.quorum.at_hand import cluster_names
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.committed import Committed, committed_in
from kraftlog.quorum.content import KRAFT_VERSION, KRAFT_VOTERS
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.logview import Hole, LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords, go_on
from kraftlog.state.arrow_events import Event, in_offset_order
from kraftlog.state.fold import Applied
from kraftlog.state.image import Image
from kraftlog.state.known import Known, Watcher
from kraftlog.state.outline import PARTITION_TYPES, Effect
from kraftlog.state.replay import FaultyRecord, unknown_record
from kraftlog.state.standing import Topics
from kraftlog.state.state import State
from kraftlog.state.window import WINDOW_RECORDS, RecordWindow, ahead

COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Place:
    """An offset (`at`, a number or `COMMITTED`), a time in ms, or the log's end where both are
    None.
    """

    at: int | str | None = None
    at_ms: int | None = None


def image_of(
    replica: Replica,
    label: str,
    quorum: Quorum | None,
    place: Place,
    limits: Limits,
    redactor: Redactor,
) -> tuple[Image, Committed]:
    """The image of a replica, and what the quorum says of it in which it has this label; without
    one it is what the replica says of itself.

    Raises InputError where the state cannot be rebuilt, or nothing is known to be committed.
    """
    is_alone = quorum is None
    quorum = quorum or Quorum(evidence_by(Collector(limits, redactor), [replica], None))
    committed = committed_in(quorum, label)
    if is_alone:
        why = f"{committed.reason}; --quorum ROOT asks all copies"
        committed = committed._replace(reason=why)
    held = Held.by(quorum, quorum.by_label[label])
    offset = _offset_of(held, place, committed, is_alone=is_alone)
    return image_at(held, offset, redactor, committed.offset), committed


def _offset_of(held: Held, place: Place, committed: Committed, *, is_alone: bool) -> int | None:
    """The offset that is meant; None: the log's end."""
    if place.at_ms is not None:
        offset = offset_at_time(held, place.at_ms)
        _tell_earlier(held, place.at_ms, offset)
        return offset
    if isinstance(place.at, int) or place.at is None:
        return place.at
    if committed.offset <= 0:
        raise InputError(f"{held.label}: nothing is known to be committed: {committed.reason}")
    if is_alone and committed.offset < held.end_offset:
        tell_once(f"{held.label}: of what follows nothing is proven ({committed.reason})")
    # A replica that is behind holds committed records up to its end only.
    return min(committed.offset, held.end_offset)


def image_at(
    held: Held,
    offset: int | None,
    redactor: Redactor,
    committed_offset: int | None = None,
    *,
    from_oldest: bool = False,
) -> Image:
    """The image at an offset (None: the end of the log), as the node itself would load it; with
    `from_oldest` as the records tell it, which takes the least of snapshots on trust.

    `committed_offset` is what is known to be committed of it, where the replica's quorum is not to be
    asked. Raises InputError where the state cannot be rebuilt, and where files have changed since
    they were looked at.
    """
    end = max(held.end_offset, 0) if offset is None else offset
    way = _Way(held, end, redactor, from_oldest=from_oldest)
    base, epoch, timestamp, inside = way.base, -1, -1, None
    if base is not None:
        epoch, timestamp = base.epoch, base.last_contained_timestamp or 0
    links = held.links
    first, after = links.between(way.reached, end)
    if first < after:
        way.go_on(end)
        row, stands = links.row[after - 1], links.logs[int(links.log[after - 1])].evidence.log
        epoch, timestamp = int(stands.epochs[row]), int(stands.max_timestamps[row])
        batch = int(links.base[after - 1]), int(links.end[after - 1])
        inside = batch if end < batch[1] else None
    if committed_offset is None:
        committed_offset = committed_in(held.quorum, held.label).offset
    return Image(
        way.known.rows(),
        held.label,
        end,
        epoch,
        timestamp,
        None if base is None else base.path,
        tuple(way.faults.found),
        way.known.small.open_since,
        committed_offset,
        inside,
        _behind(held.log) if end == held.end_offset else (),
        tuple(name for name, _ in cluster_names(held.log.evidence)),
    )


def state_at(
    held: Held, offset: int, redactor: Redactor, topics: Topics, *, from_oldest: bool = False
) -> Known:
    """The state of an image alone, to be compared with others of the same `topics`.

    Raises InputError as `image_at`."""
    way = _Way(held, offset, redactor, topics, from_oldest=from_oldest)
    way.go_on(offset)
    return way.known


def states_between(held: Held, start: int, end: int, redactor: Redactor) -> tuple[Known, Known]:
    """The states at two offsets, as the records tell them: on one way, where one leads there.

    Raises InputError as `image_at`."""
    topics = Topics()
    way = _Way(held, end, redactor, topics, from_oldest=True)
    if way.reached > start:
        before = state_at(held, start, redactor, topics, from_oldest=True)
    else:
        _check(held, start)
        way.go_on(start)
        before = way.known.fork()
    way.go_on(end)
    return before, way.known


class _Way:
    """From a snapshot or from nothing to an offset that can be rebuilt: the state, so far `reached`."""

    def __init__(
        self,
        held: Held,
        end: int,
        redactor: Redactor,
        topics: Topics | None = None,
        *,
        from_oldest: bool,
    ) -> None:
        _check(held, end)
        limits = held.quorum.evidence.limits
        self._records = FileRecords(redactor, limits, WINDOW_RECORDS, types=None)
        self._held, self.reached, self.known = held, 0, Known(topics)
        self.faults = _Faults(self.known)
        self.base = held.oldest_base_for(end) if from_oldest else held.base_for(end)
        if self.base is not None:
            count, records = self.base.record_count, self._records
            if self.base.end_offset == 0 and not held.log.evidence.single_file:
                # Of the checkpoint 0-0 Kafka's loader takes nothing, its Raft layer the voters.
                records = replace(records, types=frozenset((KRAFT_VERSION, KRAFT_VOTERS)))
            if go_on(self.faults.take, ahead(records.snapshot(self.base)), 0, count) < count:
                raise _changed(self.base.path)
            self.faults.begin_log()
            self.reached = self.base.end_offset

    def go_on(self, end: int) -> None:
        """Take in the records up to an offset.

        Raises InputError where the files have changed."""
        links = self._held.links
        first, after = links.between(self.reached, end)
        if first < after:
            windows = ahead(self._records.windows(links, first, after))
            if go_on(self.faults.take, windows, self.reached, end) < end:
                raise _changed(self._held.log.evidence.folder)
            self.reached = end


def _changed(path: str) -> InputError:
    return InputError(f"{path}: it changed while it was read; copy it again")


class _Faults(Watcher):
    """Takes records into a state; those that have no effect, in order."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.found: list[FaultyRecord] = []
        self._new: list[FaultyRecord] = []

    def begin_log(self) -> None:
        """What has been applied were a checkpoint's records, which have no offset of their own."""
        self.found = [one._replace(origin=one.origin._replace(offset=None)) for one in self.found]

    def take(self, window: RecordWindow) -> None:
        self._new = [*_unknown_partitions(window)]
        self._known.advance(window, self)
        self._new += window.faults
        self._new.sort(key=lambda one: one.origin.offset or 0)
        self.found += self._new

    def changed(self, event: Event, state: State, effect: Effect) -> None:
        """See `known.Watcher`."""
        self._new += effect.faults

    def applied(self, one: Applied) -> None:
        """See `known.Watcher`."""
        if one.fault is not None:
            self._new.append(one.fault)


def _unknown_partitions(window: RecordWindow) -> Iterator[FaultyRecord]:
    """The records of partitions whose version is not known: a fold by columns leaves them out."""
    rows = []
    for name in PARTITION_TYPES & window.records.keys():
        payload = window.records[name].column(name.lower())
        if payload.null_count:
            rows.append(window.records[name].filter(pc.is_null(payload)))
    for event in in_offset_order(rows):
        yield unknown_record(event.origin)


def _check(held: Held, offset: int) -> None:
    label, end = held.label, held.end_offset
    if any(low <= offset <= high for low, high in held.ranges):
        return
    rejected = "; ".join(
        f"{one.evidence.name} cannot be loaded: {why}" for one, why in held.rejected
    )
    if held.log.is_empty and not held.snapshots:
        why = rejected or next(iter(_behind(held.log)), "no files")
        raise InputError(f"{label}: there is no readable batch or snapshot in it ({why})")
    if offset < 0 or offset > end:
        raise InputError(f"{label}: offset {offset} is not in its log, which ends at {end}")
    ranges = ", ".join(f"{low} to {high}" for low, high in held.ranges) or "none"
    causes = [
        f"{offsets_are(hole.start, hole.end)} missing: {_cause(held.log, hole)}"
        for hole in held.log.holes
    ]
    why = "; ".join([ranges, *causes, *([rejected] if rejected else [])])
    raise InputError(
        f"{label}: the state at {offset} cannot be rebuilt; offsets at which it can: {why}"
    )


def _behind(log: LogView) -> tuple[str, ...]:
    """What lies behind a log's last batch and cannot be read."""
    last = -1 if log.is_empty else int(log.rows[-1])
    return tuple(_unreadable(log, last, len(log.evidence.log)))


def _cause(log: LogView, hole: Hole) -> str:
    """What stands in the place of a hole's batches."""
    at = int(np.searchsorted(log.rows, hole.row))
    told = _unreadable(log, int(log.rows[at - 1]), hole.row)
    return "; ".join(told) or "no file holds them"


def _unreadable(log: LogView, before: int, after: int) -> list[str]:
    """What cannot be read between two batches, by their rows; before the first one is −1."""
    columns, segments = log.evidence.log, log.evidence.segments
    start = columns.place(before) if before >= 0 else (0, -1)
    end = columns.place(after) if after < len(columns) else (len(segments), 0)
    found = [
        (index, one.position, str(one.kind))
        for index in range(start[0], min(end[0] + 1, len(segments)))
        for one in segments[index].faults
        if one.kind != FaultKind.ZEROS and start < (index, one.position) < end
    ]
    for row in range(before + 1, after):
        kind = "a batch out of place" if columns.crc_valid[row] else FaultKind.BATCH_CRC
        found.append((*columns.place(row), str(kind)))
    return [
        f"{kind} in {segments[index].path} at byte {position}"
        for index, position, kind in sorted(found)
    ]


def offset_at_time(held: Held, time_ms: int) -> int:
    """The offset at which the state stood at a time: that of the first record batch whose timestamp
    is later.

    Where times go back, what comes after that batch counts as later too, whatever it says: so the
    state is always one that the log went through. Raises InputError for a time before everything
    that the replica holds.
    """
    log = held.log
    later = np.flatnonzero(log.evidence.log.base_timestamps[log.rows] > time_ms)
    offset = int(log.base[later[0]]) if len(later) else max(held.end_offset, 0)
    base = held.base_for(offset)
    too_new = base is not None and (base.last_contained_timestamp or 0) > time_ms
    # All that is left of the log's beginning may be a snapshot that is newer than the time.
    if too_new and not (held.runs and held.runs[0][0] < offset):
        raise InputError(f"{held.label}: its log begins after that time")
    return offset


def _tell_earlier(held: Held, time_ms: int, offset: int) -> None:
    """That records behind the first later one are not later by their times: whether its clock or theirs
    was wrong, the log does not tell.
    """
    log = held.log
    behind = (log.evidence.log.base_timestamps[log.rows] <= time_ms) & (log.base >= offset)
    if behind.any():
        found = offsets_are(int(log.base[behind][0]), int(log.last[behind][-1]) + 1)
        tell_once(
            f"{held.label}: this is the state before offset {offset}, the first that is later. "
            f"Behind it {found} of an earlier time again, as a clock was wrong, and not in it: say --at with an offset to have them"
        )
