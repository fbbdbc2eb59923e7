"""One replica's log as offsets: which batches stand where they say, what is missing, which epochs
there are.

In: a replica's evidence. Out: arrays over the usable batches. A batch is usable where its CRC is
right, its last offset is credible and its base offset fits its neighbours; so that one flipped bit
in a header neither hides nor invents a log. Source: KIP-630 "Design", KAFKA-1211.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kraftlog.log.batch import CODEC_MASK, CONTROL, HEADER_SIZE, MIN_RECORD_SIZE, content_hash
from kraftlog.log.fault import FaultKind
from kraftlog.log.names import LAST_OFFSET
from kraftlog.quorum.content import LEADER_CHANGE
from kraftlog.quorum.evidence import (
    UNREMARKABLE,
    Content,
    ControlRecord,
    Flags,
    Longs,
    ReplicaEvidence,
    SegmentEvidence,
)
from kraftlog.state.tables import BEGIN


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A leader epoch of a log. `certain` is False where batches before its first one are
    missing.
    """

    epoch: int
    start_offset: int
    row: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Election:
    """What a LeaderChange record says: who leads, who votes, and who granted their votes."""

    leader_id: int
    voters: frozenset[int]
    granted: frozenset[int]


@dataclass(frozen=True, slots=True)
class Hole:
    """Offsets [start, end) that the log should hold between two usable batches; `row` is the batch
    after them.
    """

    start: int
    end: int
    row: int


class Transaction(NamedTuple):
    """A metadata transaction of a log by the offset of its Begin: it is open from behind that up to
    `until`, where the record is that ends it, or where nobody knows how the log goes on.
    """

    begin: int
    until: int
    is_ended: bool

    @property
    def words(self) -> str:
        """The transaction in a sentence, by its offsets."""
        if self.is_ended:
            return f"the metadata transaction of offsets {self.begin} to {self.until}"
        return f"the metadata transaction that is open from offset {self.begin} on"


@dataclass(frozen=True)
class LogView:
    """The derived view of one replica's log; `rows` are the usable batches as rows of
    `evidence.log`. `copies` are all replicas of the quorum, this one too.
    """

    evidence: ReplicaEvidence
    contents: tuple[Content, ...]
    copies: tuple[ReplicaEvidence, ...]

    @property
    def label(self) -> str:
        return self.evidence.label

    @cached_property
    def header_sane(self) -> Flags:
        """Record count and last offset delta agree, and the batch's size can hold that many
        records.
        """
        log = self.evidence.log
        span = log.last_offsets - log.base_offsets + 1
        sane: Flags = (span == log.record_counts) & self._credible
        return sane

    @cached_property
    def _credible(self) -> Flags:
        log = self.evidence.log
        span = log.last_offsets - log.base_offsets + 1
        room = (log.sizes - HEADER_SIZE) // MIN_RECORD_SIZE
        packed = (log.attributes & CODEC_MASK) != 0
        miscounted = [
            index
            for index, content in enumerate(self.contents)
            if any(issue.kind == FaultKind.RECORD_COUNT for issue in content.issues)
        ]
        short = np.isin(log.content, miscounted)
        # A count that the records belie says nothing about the last offset, and nor does its twin,
        # unless the log goes on where they say.
        goes_on = np.zeros(len(log), np.bool_)
        goes_on[:-1] = log.crc_valid[1:] & (log.base_offsets[1:] == log.last_offsets[:-1] + 1)
        belied = short & (span == log.record_counts) & ~goes_on
        credible: Flags = (span > 0) & ((span <= room) | packed) & ~belied
        # An offset so large that the last one, or the log's end, would overflow is damaged as well.
        in_order = (log.base_offsets >= 0) & (log.last_offsets >= log.base_offsets)
        return credible & in_order & (log.last_offsets < LAST_OFFSET)

    @cached_property
    def misplaced(self) -> Flags:
        """Batches whose base offset alone is damaged: what follows goes on where they should have
        ended.
        """
        log = self.evidence.log
        result = np.zeros(len(log), np.bool_)
        rows = np.flatnonzero(log.crc_valid & self._credible)
        if not len(rows):
            return result
        base, last = log.base_offsets[rows], log.last_offsets[rows]
        starts = np.array([one.base_offset for one in self.evidence.segments], np.int64)
        before = np.concatenate([starts[log.file[rows[:1]]], last[:-1] + 1])
        joined = base == before
        span = last - base + 1
        next_base = np.concatenate([base[1:], before[-1:] + span[-1:]])
        next_joined = np.concatenate([joined[1:], np.zeros(1, np.bool_)])
        result[rows] = ~joined & ~next_joined & (next_base == before + span)
        if len(rows) == 1 or log.positions[rows[0]] != 0:
            result[rows[0]] = False
        # The last batch has no neighbour after it: the one before it must be in its place.
        if not (joined[:-1][-1:].any() and self._follows(int(rows[-1]), int(rows[-2]))):
            result[rows[-1]] = False
        # Nor has it one that shows that the batches between them are not gone.
        if result[rows[-1]] and self._is_placed(int(rows[-1])):
            result[rows[-1]] = False
        return result

    def _is_placed(self, row: int) -> bool:
        """Whether something says that a base offset is right: the same batch in another copy, or once
        more in this log, as a batch's id covers its offset; or a producer snapshot where it ends.
        """
        log = self.evidence.log
        times = sum(int((one.log.ids == log.ids[row]).all(1).sum()) for one in self.copies)
        return times > 1 or int(log.last_offsets[row]) + 1 in self.evidence.producer_ends

    def _follows(self, row: int, before: int) -> bool:
        """Whether a batch directly follows another one of its file, so that no bytes are missing
        between them.
        """
        log = self.evidence.log
        if log.file[row] != log.file[before]:
            return False
        return bool(log.positions[row] == log.positions[before] + log.sizes[before])

    @cached_property
    def rows(self) -> Longs:
        """Usable batches, in the order of their offsets, none of which lies in another."""
        log = self.evidence.log
        rows = np.flatnonzero(log.crc_valid & self._credible & ~self.misplaced)
        if not len(rows):
            return rows
        reached = np.maximum.accumulate(log.last_offsets[rows])
        fresh = np.concatenate([np.ones(1, np.bool_), log.base_offsets[rows][1:] > reached[:-1]])
        kept: Longs = rows[fresh]
        return kept

    @cached_property
    def batches(self) -> str:
        """Names the usable batches and their rows: equal logs have one name."""
        return content_hash(self.evidence.log.ids[self.rows].tobytes() + self.rows.tobytes())

    @cached_property
    def base(self) -> Longs:
        return self.evidence.log.base_offsets[self.rows]

    @cached_property
    def last(self) -> Longs:
        return self.evidence.log.last_offsets[self.rows]

    @cached_property
    def epochs(self) -> Longs:
        """Leader epochs without what damage explains: odd ones, and those that go back."""
        epochs = self.raw_epochs.copy()
        for index in np.flatnonzero(self.odd_epochs).tolist():
            epochs[index] = epochs[index - 1] if index else epochs[1]
        return np.maximum.accumulate(epochs)

    @cached_property
    def odd_epochs(self) -> Flags:
        """Which batches stand alone between two of one other epoch, so that their headers are damaged;
        none that tells who leads. Where two are odd side by side, one of them makes the other so. Nor can
        the first batch be of a newer epoch than the two behind it, which agree.
        """
        epochs = self.raw_epochs.copy()
        odd: Flags = np.zeros(len(epochs), bool)
        alone = (epochs[:-2] == epochs[2:]) & (epochs[1:-1] != epochs[:-2])
        for index in (np.flatnonzero(alone) + 1).tolist():
            before, after = epochs[index - 1], epochs[index + 1]
            if before == after and not self.is_leader_change(index):
                odd[index], epochs[index] = True, before
        odd[:1] = len(epochs) > 2 and epochs[0] > epochs[1] == epochs[2]
        return odd

    @cached_property
    def raw_epochs(self) -> Longs:
        return self.evidence.log.epochs[self.rows].astype(np.int64)

    @property
    def is_empty(self) -> bool:
        """No usable batch at all."""
        return len(self.rows) == 0

    @property
    def epoch_entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of its `leader-epoch-checkpoint`; none where that cannot be read."""
        file = self.evidence.epoch_checkpoint
        return file.value if file is not None and file.value else []

    @property
    def unread(self) -> str | None:
        """Why the log could not be read at all; None where some of it could, or there is none."""
        problems = [one.problem for one in self.evidence.segments]
        return problems[0] if problems and all(problems) else None

    @property
    def unread_segments(self) -> list[SegmentEvidence]:
        """The segments that could not be read at all."""
        return [one for one in self.evidence.segments if one.problem]

    @property
    def unreadable_start(self) -> bool:
        """The first segment could not be read: where the log really starts is known by its name
        only.
        """
        return any(one.problem for one in self.evidence.segments[:1])

    @property
    def unreadable_end(self) -> bool:
        """The last segment could not be read: where the log ends is not known."""
        return any(one.problem for one in self.evidence.segments[-1:])

    @cached_property
    def start_offset(self) -> int | None:
        """Log start offset; None without a segment."""
        segments = self.evidence.segments
        if not segments:
            return None
        first = segments[0]
        whole = len(self.rows) and self.evidence.log.file[self.rows[0]] == 0
        if whole and self.evidence.log.positions[self.rows[0]] == 0:
            return int(self.base[0])
        return first.base_offset

    @cached_property
    def end_offset(self) -> int | None:
        """Offset after the last usable batch; of an empty log, its only segment's name; None
        without a segment.
        """
        if len(self.rows):
            return int(self.last[-1]) + 1
        return self.start_offset

    @property
    def newness(self) -> tuple[int, int]:
        """(newest epoch, end offset): the order in which voters compare logs."""
        return self.last_epoch or 0, self.end_offset or 0

    @property
    def begun_ms(self) -> int | None:
        """Time of the first batch."""
        return None if self.is_empty else int(self.evidence.log.base_timestamps[self.rows[0]])

    @cached_property
    def newest_ms(self) -> int | None:
        """Time of the newest batch; an older one has a later time where a clock was ahead."""
        return None if self.is_empty else int(self.evidence.log.max_timestamps[self.rows[-1]])

    @cached_property
    def last_epoch(self) -> int | None:
        return int(self.epochs[-1]) if len(self.rows) else None

    @cached_property
    def holes(self) -> tuple[Hole, ...]:
        """Offsets missing between usable batches."""
        if len(self.rows) < 2:
            return ()
        at = np.flatnonzero(self.base[1:] != self.last[:-1] + 1)
        return tuple(
            Hole(int(self.last[i]) + 1, int(self.base[i + 1]), int(self.rows[i + 1])) for i in at
        )

    @cached_property
    def missing_start(self) -> Hole | None:
        """Offsets missing between the name of the first segment and the first usable batch."""
        start = self.start_offset or 0
        if self.is_empty or start >= int(self.base[0]):
            return None
        return Hole(start, int(self.base[0]), int(self.rows[0]))

    @cached_property
    def epoch_starts(self) -> tuple[EpochStart, ...]:
        """The epoch vector as the batches tell it."""
        if self.is_empty:
            return ()
        at = np.flatnonzero(np.diff(self.epochs)) + 1
        joined = self.base[at] == self.last[at - 1] + 1
        certain = self.missing_start is None
        result = [EpochStart(int(self.epochs[0]), int(self.base[0]), int(self.rows[0]), certain)]
        for i, certain in zip(at.tolist(), joined.tolist(), strict=True):
            row = int(self.rows[i])
            result.append(EpochStart(int(self.epochs[i]), int(self.base[i]), row, certain))
        return tuple(result)

    @cached_property
    def epochs_before(self) -> range | None:
        """The epochs that the offset before its first batch can be of: that of the batch, or any older
        one where it is a LeaderChange, with which each epoch begins. None where nothing tells: there
        is no batch, it cannot be read, or its epoch, which no CRC covers, does not fit the next one's, or
        the epoch checkpoint has another one there.
        """
        told = self.raw_epochs[:2].tolist()
        noted = [epoch for epoch, at in self.epoch_entries if told and at <= self.base[0]]
        if told and noted and noted[-1] != told[0]:
            return None
        if not told or (self._is_control(0) and not self.controls(int(self.rows[0]))):
            return None
        if told[-1] < told[0] or (told[-1] > told[0] and not self.is_leader_change(1)):
            return None
        return range(told[0]) if self.is_leader_change(0) else range(told[0], told[0] + 1)

    def _is_control(self, index: int) -> bool:
        return bool(self.evidence.log.attributes[self.rows[index]] & CONTROL)

    def is_leader_change(self, index: int) -> bool:
        """Whether a batch, by its place in the arrays of this log, tells who leads."""
        return self.first_control(int(self.rows[index])) == LEADER_CHANGE

    def first_control(self, row: int) -> str | None:
        """The type of the first control record of a batch; None where it has none."""
        return next((one.type for one in self.controls(row)), None)

    def lacks_leader_change(self, start: EpochStart) -> bool:
        """Whether an epoch surely begins with another record than that of its leader."""
        content = self.content(start.row)
        is_control = bool(self.evidence.log.attributes[start.row] & CONTROL)
        damaged = is_control and content is not None and bool(content.issues)
        return start.certain and self.first_control(start.row) != LEADER_CHANGE and not damaged

    @cached_property
    def elections(self) -> dict[int, Election]:
        """The LeaderChange record of each epoch that begins with one in this log. In the first epoch of
        all, records may come before it: a controller of Kafka 3.3 to 3.5 does not wait for it on an
        empty log (KAFKA-15345).
        """
        found = {}
        for start in self.epoch_starts:
            told = self.controls(start.row)[:1]
            if not told and start.start_offset == 0:
                of_it = (one for _, epoch, _, one in self.control_records() if epoch == start.epoch)
                told = tuple(one for one in of_it if one.type == LEADER_CHANGE)[:1]
            for control in told:
                if control.type == LEADER_CHANGE and control.data is not None:
                    found[start.epoch] = Election(
                        int(control.data["leaderId"]),
                        voter_ids(control.data.get("voters")),
                        voter_ids(control.data.get("grantingVoters")),
                    )
        return found

    @cached_property
    def leaders(self) -> dict[int, int]:
        """The leader of each epoch that begins with a LeaderChange record in this log."""
        return {epoch: one.leader_id for epoch, one in self.elections.items()}

    def written_epoch(self, until: int) -> EpochStart | None:
        """The newest epoch that surely begins with a LeaderChange below an offset, and of which metadata
        follows there; None where there is none.
        """
        meant = (self.evidence.log.attributes[self.rows] & CONTROL == 0) & (self.last < until)
        written = set(np.unique(self.raw_epochs[meant]).tolist())
        told = (
            one
            for one in reversed(self.epoch_starts)
            if one.certain and one.epoch in written and one.epoch in self.elections
        )
        return next(told, None)

    @cached_property
    def metadata_versions(self) -> list[tuple[int, int]]:
        """(offset, level) of each batch that sets metadata.version."""
        return [
            (int(self.base[index]), content.metadata_version)
            for index in self.remarkable.tolist()
            if (content := self.content(int(self.rows[index]))) is not None
            and content.metadata_version is not None
        ]

    def covers(self, start: int, end: int) -> bool:
        """Whether the log holds every offset of [start, end)."""
        if self.is_empty or start < int(self.base[0]) or end > int(self.last[-1]) + 1:
            return False
        return not any(hole.start < end and hole.end > start for hole in self.holes)

    def index_at(self, offset: int) -> int:
        """Index in `rows` of the batch that holds an offset; −1 where none does."""
        if not 0 <= offset <= LAST_OFFSET:
            return -1
        index = int(np.searchsorted(self.base, offset, "right")) - 1
        return index if index >= 0 and offset <= int(self.last[index]) else -1

    def indexes_at(self, offsets: Longs) -> Longs:
        """The same of many offsets."""
        index = np.searchsorted(self.base, offsets, "right") - 1
        held = (offsets >= 0) & (index >= 0)
        held[held] = offsets[held] <= self.last[index[held]]
        return np.where(held, index, -1)

    def epoch_at(self, offset: int) -> int:
        """The epoch of the batch that holds an offset; −1 where none does."""
        index = self.index_at(offset)
        return int(self.epochs[index]) if index >= 0 else -1

    def ends_with(self, epoch: int, end: int) -> bool:
        """Whether a batch of an epoch ends before an offset: the log leads up to that state."""
        index = self.index_at(end - 1)
        return index >= 0 and (int(self.epochs[index]), int(self.last[index])) == (epoch, end - 1)

    def content(self, row: int) -> Content | None:
        """What is remarkable in the records of a batch of `evidence.log`."""
        index = int(self.evidence.log.content[row])
        return None if index == UNREMARKABLE else self.contents[index]

    def controls(self, row: int) -> tuple[ControlRecord, ...]:
        """The control records of a batch of `evidence.log`."""
        content = self.content(row)
        return () if content is None else content.controls

    def control_records(self) -> Iterator[tuple[int, int, int, ControlRecord]]:
        """(offset, epoch, row of its batch, record) of each control record."""
        for index in self.remarkable.tolist():
            row = int(self.rows[index])
            for one in self.controls(row):
                yield int(self.base[index]) + one.record_index, int(self.epochs[index]), row, one

    @cached_property
    def remarkable(self) -> Longs:
        """Indexes in `rows` of the batches whose records a check may ask for."""
        return np.flatnonzero(self.evidence.log.content[self.rows] != UNREMARKABLE)

    @cached_property
    def transaction_marks(self) -> list[tuple[int, int, ControlRecord]]:
        """The Begin, End and Abort records of metadata transactions, with their offsets and the rows
        of their batches.
        """
        return [
            (int(self.evidence.log.base_offsets[row]) + one.record_index, row, one)
            for row in self.rows[self.remarkable].tolist()
            if (content := self.content(row)) is not None
            for one in content.transactions
        ]

    @cached_property
    def _transactions(self) -> tuple[list[int], list[Transaction]]:
        """The offsets of all Begin records, and their transactions."""
        base = self.evidence.log.base_offsets
        rows = self.rows[self.remarkable].tolist()
        # What cannot be decoded may be the record that ends one.
        odd = {row for row in rows if (content := self.content(row)) is not None and content.issues}
        unknown = [
            *(one.start for one in self.holes),
            *(int(base[row]) for row in odd),
            self.end_offset or 0,
        ]
        marks, ends, found = self.transaction_marks, sorted(unknown), []
        for place, (offset, row, one) in enumerate(marks):
            if one.type == BEGIN and row not in odd:
                known_until = ends[bisect_right(ends, offset)]
                closed = next((at for at, *_ in marks[place + 1 : place + 2]), known_until + 1)
                until = min(closed, known_until)
                found.append(Transaction(offset, until, until == closed))
        return [one.begin for one in found], found

    def transaction_at(self, offset: int) -> Transaction | None:
        """The metadata transaction that is open right before an offset, where the log tells of one."""
        begins, found = self._transactions
        place = bisect_left(begins, offset) - 1
        return found[place] if place >= 0 and offset <= found[place].until else None

    def allows_snapshot(self, end_offset: int) -> bool:
        """Whether a snapshot may end at an offset: a batch ends there, and no transaction is open."""
        index = self.index_at(end_offset - 1)
        is_end = index >= 0 and int(self.last[index]) == end_offset - 1
        return is_end and self.transaction_at(end_offset) is None

    def path(self, row: int) -> str:
        """The file of a batch of `evidence.log`."""
        return self.evidence.segments[int(self.evidence.log.file[row])].path


def voter_ids(voters: Any) -> frozenset[int]:
    """The ids of a record's list of voters."""
    return frozenset(int(one["voterId"]) for one in voters or ())
