"""A window of a history: decoded records of consecutive offsets, type by type.

In: rows as the decoders give them. Out: frozen values that a fold goes through one after the other.
Where they come from (files, a lake, a checkpoint) makes no difference from here on. A record's
offset is that of its place in its batch, whatever the record itself says of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog.decode.rows import Decoded
from kraftlog.state.arrow_events import Event, in_offset_order
from kraftlog.state.outline import PARTITION_TYPES
from kraftlog.state.replay import FaultyRecord, of_snapshot
from kraftlog.state.tables import NO_EFFECT, TRANSACTION_TYPES

T = TypeVar("T")
Rows = Mapping[str, pa.Table]

WINDOW_RECORDS = 400_000
"""About so many records make a window; with their columns and those of a fold some 400 MB."""
WINDOW_BYTES = 128 << 20
"""So many bytes of columns make a window, however few the records are."""


@dataclass(frozen=True, slots=True)
class RecordWindow:
    """Offsets [start, end): rows of metadata and of control records by type, in offset order, and
    the records that could not be read; of a checkpoint, those of transactions, which it cannot hold.
    """

    start_offset: int
    end_offset: int
    records: Rows
    control: Rows
    faults: tuple[FaultyRecord, ...] = ()

    def between(self, start: int, end: int) -> "RecordWindow":
        """The part of the window in [start, end)."""
        if start <= self.start_offset and end >= self.end_offset:
            return self
        first, after = max(start, self.start_offset), min(end, self.end_offset)
        records, control = (
            {name: rows_between(rows, first, after) for name, rows in one.items()}
            for one in (self.records, self.control)
        )
        faults = tuple(one for one in self.faults if _lies_in(one, first, after))
        return RecordWindow(first, after, records, control, faults)

    def small_events(self) -> Iterator[Event]:
        """All records but those of partitions, and those that change nothing, in offset order."""
        left_out = PARTITION_TYPES | NO_EFFECT
        records = (rows for name, rows in self.records.items() if name not in left_out)
        return in_offset_order(records, self.control.values())

    def has(self, name: str) -> bool:
        """Whether it holds metadata records of a type."""
        return name in self.records and self.records[name].num_rows > 0

    def field(self, name: str, field: str) -> list[Any]:
        """One field of all metadata records of a type, by its column's name."""
        if not self.has(name):
            return []
        return [
            None if one is None else one[field]
            for one in self.records[name].column(name.lower()).to_pylist()
        ]

    def transaction_marks(self) -> list[tuple[int, str]]:
        """The offsets and types of the records that begin and end transactions."""
        marks = [
            (offset, name)
            for name in TRANSACTION_TYPES
            if name in self.records
            for offset in self.records[name].column("offset").to_pylist()
        ]
        return sorted(marks)


_COLUMNS = ("offset", "timestamp", "batch_leader_epoch", "type", "record_version")


def window_columns(kind: str, names: Iterable[str]) -> list[str]:
    """Those of some columns that a window needs of records of a type."""
    return [one for one in names if one in _COLUMNS or one == kind.lower()]


def _lies_in(fault: FaultyRecord, start: int, end: int) -> bool:
    offset = fault.origin.offset
    return offset is None or start <= offset < end


def rows_between(rows: pa.Table, start: int, end: int) -> pa.Table:
    """Those of rows in offset order that lie in [start, end)."""
    offsets = rows.column("offset").to_numpy()
    first, after = np.searchsorted(offsets, [start, end]).tolist()
    return rows.slice(first, after - first)


def with_offsets(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Decoded rows of a log with the offsets of their places."""
    deltas, index = rows.column("offset_delta"), rows.column("record_index")
    shift = index.to_numpy().astype(np.int64) - deltas.to_numpy().astype(np.int64)
    return _with_offsets(rows, rows.column("offset").to_numpy() + shift) if shift.any() else rows


def numbered(rows: pa.RecordBatch, first_of_batch: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Decoded rows of a checkpoint: their offsets are their places in the file. In: how many
    records lie before each batch of their window.
    """
    batch = rows.column("batch_id").indices.to_numpy()
    index = rows.column("record_index").to_numpy().astype(np.int64)
    return _with_offsets(rows, first_of_batch[batch] + index)


def _with_offsets(rows: pa.RecordBatch, offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
    at = rows.schema.get_field_index("offset")
    return rows.set_column(at, rows.schema.field(at), pa.array(offsets, pa.int64()))


class GatheredRows:
    """Rows that come together to a window, how many bytes they have, and what could not be read."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin the next window."""
        self.rows = defaultdict[tuple[bool, str], list[pa.RecordBatch]](list)
        self.faults = list[FaultyRecord]()
        self.size_bytes = 0

    def add(self, decoded: Decoded, first_of_batch: npt.NDArray[np.int64] | None) -> None:
        """Take in records of a log; of a checkpoint with how many lie before each batch of their
        window.
        """
        for is_control, found in ((False, decoded.records), (True, decoded.control)):
            for name, rows in found.items():
                if not rows.num_rows:
                    continue
                there = (
                    with_offsets(rows) if first_of_batch is None else numbered(rows, first_of_batch)
                )
                if name in TRANSACTION_TYPES and first_of_batch is not None:
                    events = in_offset_order([pa.Table.from_batches([there])])
                    self.faults += (of_snapshot(one.origin) for one in events)
                    continue
                part = there.select(window_columns(name, there.schema.names))
                self.rows[is_control, name].append(part)
                self.size_bytes += part.nbytes

    def window(self, start: int, end: int) -> RecordWindow:
        """Everything that was taken in."""
        tables = {key: pa.Table.from_batches(rows) for key, rows in self.rows.items()}
        records = {name: table for (is_control, name), table in tables.items() if not is_control}
        control = {name: table for (is_control, name), table in tables.items() if is_control}
        faults = tuple(one for one in self.faults if _lies_in(one, start, end))
        return RecordWindow(start, end, records, control, faults)


def ahead(parts: Iterator[T]) -> Iterator[T]:
    """The same parts, the next one read while one is worked on: arrays are worked on outside of
    Python's lock. One part more is held.
    """
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = reader.submit(next, parts, None)
            yield part
