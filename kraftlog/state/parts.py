"""A replica's files as windows of decoded records: what an image is folded from.

In: a replica and a range of its offsets, or a complete snapshot. Out: `ReadPart`s in offset order, each
offset once. What cannot be read is told beside them. Memory: one part.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.batch import PREFIX_SIZE
from kraftlog.log.directory import LogFile, Replica
from kraftlog.log.fault import Fault
from kraftlog.log.reading import walk_file
from kraftlog.log.segment import Limits, Window
from kraftlog.state.arrow_events import in_offset_order
from kraftlog.state.outline import PARTITION_TYPES
from kraftlog.state.reading import Snapshot, log_files
from kraftlog.state.replay import FaultyRecord, Origin, unknown_record
from kraftlog.state.tables import NO_EFFECT
from kraftlog.state.window import WINDOW_RECORDS, GatheredRows, RecordWindow

Longs = npt.NDArray[np.int64]
_LAST_OFFSET = (1 << 63) - 1
_OF_LAST = ("base_offset", "last_offset_delta", "batch_leader_epoch", "max_timestamp")
PART_BYTES = 128 << 20
"""So many bytes of columns make a part, however few the records are."""


class LastBatch(NamedTuple):
    """Of the last batch of a part: its epoch, its newest time in ms, and its offsets [start,
    end).
    """

    epoch: int
    timestamp: int
    start_offset: int = 0
    end_offset: int = 0

    @classmethod
    def of(cls, header: np.void) -> "LastBatch":
        """By the batch's header."""
        base, delta, epoch, newest = (int(header[one]) for one in _OF_LAST)
        return cls(epoch, newest, base, base + delta + 1)

    def inside(self, offset: int) -> tuple[int, int] | None:
        """The batch's offsets, where an offset lies inside of it."""
        return (self.start_offset, self.end_offset) if offset < self.end_offset else None


class ReadPart(NamedTuple):
    """Records that follow each other, the records among them that cannot be read, and the batch
    that they end with. A checkpoint's records are numbered by their places in the file.
    """

    window: RecordWindow
    faults: list[FaultyRecord]
    last: LastBatch


def log_parts(
    replica: Replica, start: int, end: int, redactor: Redactor, limits: Limits
) -> Iterator[ReadPart]:
    """The records with offsets in [start, end), which must lie in one run; each offset once, by the
    first batch that holds it.

    Raises InputError where the log has changed since it was looked at.
    """
    stop = min(end, _LAST_OFFSET)
    reader = _Reader(start, stop, redactor, limits)
    for file in log_files(replica, start):
        if reader.reached >= stop:
            break
        for found in walk_file(file, limits):
            if isinstance(found, Window):
                yield from reader.read(file, found)
    if reader.reached < stop:
        raise _changed(replica.folder)
    yield from reader.part()


def _changed(path: str) -> InputError:
    return InputError(f"{path}: it changed while it was read; copy it again")


class _Taken:
    """Rows that come together to a part, and what could not be read among them."""

    def __init__(self, redactor: Redactor, limits: Limits) -> None:
        self._redactor, self._limits = redactor, limits
        self.clear()

    def clear(self) -> None:
        """Begin the next part."""
        self.rows, self.faults = GatheredRows(), list[FaultyRecord]()

    def take(
        self, file: LogFile, window: Window, chosen: Longs | None, first: Longs | None
    ) -> Iterator[int]:
        """Take in batches of a window; yields the index of the last one each time that what it has
        gathered may be a part. `first`: how many records of a checkpoint lie before each batch.
        """
        limit = self._limits.decompressed_size_bytes
        indexes = None if chosen is None else chosen.tolist()
        for one in decode_window(window, None, self._redactor, limit, chosen=indexes):
            records = {name: rows for name, rows in one.records.items() if name not in NO_EFFECT}
            self.rows.add(replace(one, records=records), first)
            self.faults += [_faulty(file, window, fault) for fault in one.faults]
            yield int(one.indexes[-1])

    def is_enough(self, record_count: int) -> bool:
        """Whether it is time for a part."""
        return record_count >= WINDOW_RECORDS or self.rows.size_bytes >= PART_BYTES


class _Reader:
    """Takes in a log window by window. Where a batch begins before the end of the one before it, a
    new part begins, and is cut to what is new.
    """

    def __init__(self, start: int, end: int, redactor: Redactor, limits: Limits) -> None:
        self.reached, self._end = start, end
        self._taken = _Taken(redactor, limits)
        self._begin()

    def _begin(self) -> None:
        self._begun = self._first = self.reached
        self._last = LastBatch(-1, -1)
        self._taken.clear()

    def read(self, file: LogFile, window: Window) -> Iterator[ReadPart]:
        """Take in the batches of a window that hold what has not been read yet."""
        headers, valid = window.batches.headers, window.batches.crc_valid
        base = headers["base_offset"].astype(np.int64)
        after = base + headers["last_offset_delta"] + 1
        reached = np.maximum.accumulate(np.append(self.reached, np.where(valid, after, 0)))[:-1]
        is_new = valid & (after > reached)
        chosen = np.flatnonzero(is_new & (np.maximum(base, reached) < self._end))
        if (base[chosen] > reached[chosen]).any():
            raise _changed(file.path)
        for some in np.split(chosen, np.flatnonzero(base[chosen] < reached[chosen])):
            if not len(some):
                continue
            if base[some[0]] < self.reached:
                yield from self.part()
                self._first = int(base[some[0]])
            for last in self._taken.take(file, window, some, None):
                self.reached = int(after[last])
                self._last = LastBatch.of(headers[last])
                if self._taken.is_enough(self.reached - self._begun):
                    yield from self.part()

    def part(self) -> Iterator[ReadPart]:
        """What has been read since the last part, if anything."""
        end = min(self.reached, self._end)
        if self._begun < end:
            window = self._taken.rows.window(self._first, self.reached)
            faults = [one for one in self._taken.faults if _lies_in(one, self._begun, end)]
            yield ReadPart(window.between(self._begun, end), faults, self._last)
        self._begin()


def _lies_in(fault: FaultyRecord, start: int, end: int) -> bool:
    offset = fault.origin.offset
    return offset is None or start <= offset < end


def snapshot_parts(snapshot: Snapshot, redactor: Redactor, limits: Limits) -> Iterator[ReadPart]:
    """The records of a checkpoint. Raises InputError where it has changed since it was looked at."""
    taken, before, begun, end, read = _Taken(redactor, limits), 0, 0, 0, 0
    last = LastBatch(snapshot.epoch, snapshot.last_contained_timestamp)
    for window in walk_file(snapshot.file, limits):
        if isinstance(window, Fault):
            raise _changed(snapshot.file.path)
        counts = window.batches.headers["record_count"].astype(np.int64)
        first = before + np.cumsum(counts) - counts
        for index in taken.take(snapshot.file, window, None, first):
            end = int(first[index] + counts[index])
            if taken.is_enough(end - begun):
                yield ReadPart(taken.rows.window(begun, end), taken.faults, last)
                taken.clear()
                begun = end
        before, read = end, int(window.batches.positions[-1] + _size(window.batches.headers[-1]))
    if read != snapshot.file.size_bytes:
        raise _changed(snapshot.file.path)
    yield ReadPart(taken.rows.window(begun, end), taken.faults, last)


def _size(header: np.void) -> int:
    return int(header["length"]) + PREFIX_SIZE


def _faulty(file: LogFile, window: Window, fault: Fault) -> FaultyRecord:
    at = int(np.searchsorted(window.batches.positions, fault.batch_position or 0))
    header = window.batches.headers[at]
    origin = Origin(
        fault.offset,
        int(header["base_timestamp"]),
        int(header["batch_leader_epoch"]),
        "UNREADABLE",
    )
    return FaultyRecord(origin, str(fault.kind), f"{file.path}: {fault.detail}")


def unknown_partitions(window: RecordWindow) -> Iterator[FaultyRecord]:
    """The records of partitions whose version is not known: a fold by columns leaves them out."""
    rows = []
    for name in PARTITION_TYPES & window.records.keys():
        payload = window.records[name].column(name.lower())
        if payload.null_count:
            rows.append(window.records[name].filter(pc.is_null(payload)))
    for event in in_offset_order(rows):
        yield unknown_record(event.origin)
