"""A replica's files as windows of decoded records: what an image is folded from.

In: a replica and a range of its offsets, or a complete snapshot. Out: `ReadPart`s in offset order, each
offset once. What cannot be read is told beside them. Memory: one part.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded
from kraftlog.errors import InputError
from kraftlog.log.directory import LogFile, Replica
from kraftlog.log.fault import Fault
from kraftlog.log.reading import walk_file
from kraftlog.log.segment import Limits, Window
from kraftlog.state.arrow_events import in_offset_order
from kraftlog.state.outline import PARTITION_TYPES
from kraftlog.state.reading import Snapshot, log_files
from kraftlog.state.replay import FaultyRecord, Origin, unknown_record
from kraftlog.state.window import WINDOW_RECORDS, GatheredRows, RecordWindow

Longs = npt.NDArray[np.int64]
_LAST_OFFSET = (1 << 63) - 1


class LastBatch(NamedTuple):
    """Of the last batch of a part: its epoch, its newest time in ms, and its offsets [start,
    end).
    """

    epoch: int
    timestamp: int
    start_offset: int = 0
    end_offset: int = 0

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
    reader = _Reader(start, min(end, _LAST_OFFSET), redactor, limits)
    for file in log_files(replica, start):
        if reader.reached >= end:
            break
        for window in _windows(file, limits):
            yield from reader.read(file, window)
    yield from reader.part()


def _windows(file: LogFile, limits: Limits) -> Iterator[Window]:
    return (one for one in walk_file(file, limits) if isinstance(one, Window))


class _Reader:
    """Takes in a log window by window: parts are about as large as the windows of a history. Where a
    batch begins before the end of the one before it, a new part begins, and is cut to what is new.
    """

    def __init__(self, start: int, end: int, redactor: Redactor, limits: Limits) -> None:
        self.reached, self._end = start, end
        self._redactor, self._limits = redactor, limits
        self._new()

    def _new(self) -> None:
        self._begun = self._first = self.reached
        self._gathered, self._faults = GatheredRows(), list[FaultyRecord]()
        self._last = LastBatch(-1, -1)

    def read(self, file: LogFile, window: Window) -> Iterator[ReadPart]:
        """Take in the batches of a window that hold what has not been read yet."""
        headers, valid = window.batches.headers, window.batches.crc_valid
        base = headers["base_offset"].astype(np.int64)
        after = base + headers["last_offset_delta"] + 1
        reached = np.maximum.accumulate(np.append(self.reached, np.where(valid, after, 0)))[:-1]
        chosen = np.flatnonzero(valid & (after > reached) & (base < self._end))
        chosen = chosen[reached[chosen] < self._end]
        if (base[chosen] > reached[chosen]).any():
            raise InputError(f"{file.path}: it changed while it was read; copy it again")
        overlaps = np.flatnonzero(base[chosen] < reached[chosen])
        for some in np.split(chosen, overlaps):
            if not len(some):
                continue
            if base[some[0]] < self.reached:  # the first batch that holds an offset counts
                yield from self.part()
                self._first = int(base[some[0]])
            self._add(file, window, some)
            last = some[-1]
            self.reached = int(after[last])
            epoch, newest = (
                int(headers[one][last]) for one in ("batch_leader_epoch", "max_timestamp")
            )
            self._last = LastBatch(epoch, newest, int(base[last]), self.reached)
            if self.reached - self._begun >= WINDOW_RECORDS:
                yield from self.part()

    def _add(self, file: LogFile, window: Window, some: Longs) -> None:
        limit = self._limits.decompressed_size_bytes
        for one in decode_window(window, None, self._redactor, limit, chosen=some.tolist()):
            self._gathered.add([one], None)
            self._faults += _unreadable(file, window, one)

    def part(self) -> Iterator[ReadPart]:
        """What has been read since the last part, if anything."""
        end = min(self.reached, self._end)
        if self._begun < end:
            window = self._gathered.window(self._first, self.reached)
            faults = [one for one in self._faults if _lies_in(one, self._begun, end)]
            yield ReadPart(window.between(self._begun, end), faults, self._last)
        self._new()


def _lies_in(fault: FaultyRecord, start: int, end: int) -> bool:
    offset = fault.origin.offset
    return offset is None or start <= offset < end


def snapshot_parts(snapshot: Snapshot, redactor: Redactor, limits: Limits) -> Iterator[ReadPart]:
    """The records of a checkpoint."""
    gathered, faults, number, begun = GatheredRows(), list[FaultyRecord](), 0, 0
    last = LastBatch(snapshot.epoch, snapshot.last_contained_timestamp)
    for window in _windows(snapshot.file, limits):
        counts = window.batches.headers["record_count"].astype(np.int64)
        for one in decode_window(window, None, redactor, limits.decompressed_size_bytes):
            gathered.add([one], number + np.cumsum(counts) - counts)
            faults += _unreadable(snapshot.file, window, one)
        number += int(counts.sum())
        if number - begun >= WINDOW_RECORDS:
            yield ReadPart(gathered.window(begun, number), faults, last)
            gathered, faults, begun = GatheredRows(), [], number
    yield ReadPart(gathered.window(begun, number), faults, last)


def _unreadable(file: LogFile, window: Window, decoded: Decoded) -> Iterator[FaultyRecord]:
    """The records that could not be decoded."""
    for fault in decoded.faults:
        yield _faulty(file, window, fault)


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
