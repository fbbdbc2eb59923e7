"""The records of a history, window by window: what everything that asks for a state goes through.

In: a chain of batches, and where its records are read from. Out: `RecordWindow`s in offset order,
of bounded size. `FileRecords` reads them where the copies lie: consecutive batches of a file at
once, each content once. What has changed since the copies were looked at ends the stream early.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Protocol

import numpy as np

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.names import LAST_OFFSET
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.storage import open_file
from kraftlog.message.catalogue import control_specs, metadata_specs
from kraftlog.quorum.chain import Chain
from kraftlog.quorum.evidence import BatchColumns, Ids
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.known import Known, Watcher
from kraftlog.state.replay import FaultyRecord, Origin
from kraftlog.state.standing import Topics
from kraftlog.state.tables import NO_EFFECT
from kraftlog.state.window import WINDOW_BYTES, WINDOW_RECORDS, GatheredRows, RecordWindow


class Records(Protocol):
    """Where decoded records come from."""

    def windows(self, chain: Chain, first: int, after: int) -> Iterator[RecordWindow]:
        """The records of the links [first, after) of a chain, which follow each other without a
        hole. Ends early where the records cannot be read any more.
        """

    def snapshot(self, view: SnapshotView) -> Iterator[RecordWindow]:
        """The records of a checkpoint, numbered by their places in the file."""


def go_on(
    take: Callable[[RecordWindow], None], windows: Iterable[RecordWindow], start: int, end: int
) -> int:
    """Hand on the records with offsets in [start, end) of windows that follow each other without a
    hole; how far they went: what is not there to read any more ends them early.
    """
    for window in windows:
        take(window.between(start, end))
        start = min(window.end_offset, end)
    return start


def loaded(
    records: Records,
    view: SnapshotView,
    topics: Topics | None = None,
    watcher: Watcher | None = None,
) -> Known | None:
    """The state that a checkpoint holds; None where it cannot be read to its end any more."""
    state, end = Known(topics), view.record_count
    take = partial(state.advance, watcher=watcher)
    return state if go_on(take, records.snapshot(view), 0, end) == end else None


def wanted_types() -> frozenset[str]:
    """All types of records that change the state."""
    specs = [*metadata_specs().values(), *control_specs().values()]
    return frozenset(one.type for one in specs) - NO_EFFECT


@dataclass(frozen=True, slots=True)
class FileRecords:
    """Records from the files that the copies lie in; of some `types` (None: all)."""

    redactor: Redactor
    limits: Limits
    window_records: int = WINDOW_RECORDS
    types: frozenset[str] | None = field(default_factory=wanted_types)

    def windows(self, chain: Chain, first: int, after: int) -> Iterator[RecordWindow]:
        """See `Records`."""
        while first < after:
            limit = min(int(chain.base[first]) + self.window_records, LAST_OFFSET)
            end = max(first + 1, int(np.searchsorted(chain.end[:after], limit, "right")))
            gathered, reached = GatheredRows(), first
            for reached in self._gather(chain, first, end, gathered):
                if gathered.size_bytes >= WINDOW_BYTES:
                    yield gathered.window(int(chain.base[first]), int(chain.end[reached - 1]))
                    gathered.clear()
                    first = reached
            if reached > first:
                yield gathered.window(int(chain.base[first]), int(chain.end[reached - 1]))
            if reached < end:
                return
            first = end

    def _gather(
        self, chain: Chain, first: int, after: int, gathered: GatheredRows
    ) -> Iterator[int]:
        """Read links piece by piece; yields the link up to which all are read."""
        for start, stop in _stretches(chain, first, after):
            reached = start
            for reached in self._read(chain, start, stop, gathered):
                yield reached
            if reached < stop:
                return

    def _read(self, chain: Chain, first: int, after: int, gathered: GatheredRows) -> Iterator[int]:
        """The same of links that lie together in one file."""
        log = chain.logs[int(chain.log[first])].evidence
        path = log.segments[int(log.log.file[chain.row[first]])].path
        rows = chain.row[first:after]
        for window in self._walk(path, log.log, int(rows[0]), int(rows[-1])):
            count = len(window.batches)
            if not _same_ids(window, chain.ids[first : first + count]):
                return
            for one in self._decoded(window):
                gathered.add(one, None)
                gathered.faults += (
                    _faulty(path, window, fault)
                    for fault in one.faults
                    if fault.kind != FaultKind.BATCH_TRAILING  # all its records have been read
                )
                yield first + int(one.indexes[-1]) + 1
            first += count
            yield first

    def snapshot(self, view: SnapshotView) -> Iterator[RecordWindow]:
        """See `Records`."""
        batches = view.evidence.batches
        gathered, row, number, begun = GatheredRows(), 0, 0, 0
        for window in self._walk(view.path, batches, 0, len(batches) - 1):
            after = row + len(window.batches)
            if not _same_ids(window, batches.ids[row:after]):
                return
            counts = window.batches.headers["record_count"].astype(np.int64)
            ends = number + np.cumsum(counts)
            for one in self._decoded(window):
                gathered.add(one, ends - counts)
                number = int(ends[one.indexes[-1]])
                if number - begun >= self.window_records or gathered.size_bytes >= WINDOW_BYTES:
                    yield gathered.window(begun, number)
                    gathered.clear()
                    begun = number
            row, number = after, int(ends[-1])
        yield gathered.window(begun, number)

    def _walk(self, path: str, columns: BatchColumns, first: int, last: int) -> Iterator[Window]:
        """The windows of a file from one batch to another, as long as it holds sound batches."""
        start = int(columns.positions[first])
        end = int(columns.positions[last] + columns.sizes[last])
        try:
            with open_file(path) as file:
                for found in walk(file, start, end, self.limits):
                    if not isinstance(found, Window):
                        return
                    yield found
        except OSError:
            return  # the caller sees that batches are missing

    def _decoded(self, window: Window) -> Iterator[Decoded]:
        limit = self.limits.decompressed_size_bytes
        return decode_window(window, self.types, self.redactor, limit)


def _faulty(path: str, window: Window, fault: Fault) -> FaultyRecord:
    """A record that cannot be read lies in its batch, however many the header says there are."""
    at = int(np.searchsorted(window.batches.positions, fault.batch_position or 0))
    header = window.batches.headers[at]
    time, epoch = int(header["base_timestamp"]), int(header["batch_leader_epoch"])
    last = int(header["base_offset"]) + int(header["last_offset_delta"])
    origin = Origin(min(fault.offset or 0, last), time, epoch, "UNREADABLE")
    return FaultyRecord(origin, str(fault.kind), f"{path}: {fault.detail}")


def _stretches(chain: Chain, first: int, after: int) -> Iterator[tuple[int, int]]:
    """Links that lie one behind the other in one file."""
    log, row = chain.log[first:after], chain.row[first:after]
    breaks = np.flatnonzero((log[1:] != log[:-1]) | (row[1:] != row[:-1] + 1)) + 1
    for start, end in pairwise([0, *breaks.tolist(), after - first]):
        yield from _by_file(chain, first + start, first + end)


def _by_file(chain: Chain, first: int, after: int) -> Iterator[tuple[int, int]]:
    """Consecutive rows of a log, cut where a file ends or bytes lie between two of them."""
    columns = chain.logs[int(chain.log[first])].evidence.log
    rows = chain.row[first:after]
    follows = columns.positions[rows[1:]] == (columns.positions + columns.sizes)[rows[:-1]]
    breaks = np.flatnonzero((columns.file[rows[1:]] != columns.file[rows[:-1]]) | ~follows) + 1
    bounds = [0, *breaks.tolist(), after - first]
    yield from ((first + a, first + b) for a, b in pairwise(bounds))


def _same_ids(window: Window, ids: Ids) -> bool:
    held = ids.astype(">u8").tobytes()
    return bool(window.batches.crc_valid.all()) and window.batches.hashes == held
