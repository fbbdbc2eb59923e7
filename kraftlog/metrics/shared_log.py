"""The log that the replicas share, as columns: what measures of the log as a whole are taken over.

In: a quorum. Out: arrays over the batches of the main lineage, in offset order: each batch once,
however many replicas hold it, uncommitted tails left out. Times are ms since 1970. Source:
KAFKA-1211 for what is shared.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from kraftlog.log.batch import content_hash
from kraftlog.quorum.evidence import Flags, Ids, Longs, id_texts
from kraftlog.quorum.model import Quorum


@dataclass(frozen=True)
class SharedLog:
    """One array element per batch; `leaders` maps an epoch to who is known to lead it."""

    base_offsets: Longs
    last_offsets: Longs
    sizes: Longs
    record_counts: Longs
    epochs: Longs
    base_timestamps: Longs
    max_timestamps: Longs
    ids: Ids
    leaders: dict[int, int]

    def __len__(self) -> int:
        return len(self.base_offsets)

    @property
    def end_offset(self) -> int:
        """Offset after the last batch; 0 for none."""
        return self.end_before(len(self))

    @property
    def span_ms(self) -> int:
        """Time from the first batch to the last one, whatever a clock said between them."""
        return int(self.max_timestamps[-1] - self.base_timestamps[0]) if len(self) else 0

    @property
    def size_bytes(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def unbroken_from(self) -> int:
        """The offset from which on no batch is missing."""
        if not len(self):
            return 0
        breaks = np.flatnonzero(self.base_offsets[1:] != self.last_offsets[:-1] + 1)
        return int(self.base_offsets[int(breaks[-1]) + 1 if len(breaks) else 0])

    @cached_property
    def size_before(self) -> Longs:
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.sizes)])

    @cached_property
    def records_before(self) -> Longs:
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self.record_counts)])

    def end_before(self, row: int) -> int:
        """The offset after the last of the first so many batches; 0 for none."""
        return int(self.last_offsets[row - 1]) + 1 if row else 0

    def row_at(self, offset: int) -> int:
        """The first batch that begins at or after an offset; the number of batches for none."""
        return int(np.searchsorted(self.base_offsets, offset, "left"))

    def holds(self, offsets: Longs) -> Flags:
        """Which offsets lie in one of the batches. A version that ends elsewhere ends with what is
        known: no record tells of it.
        """
        rows = np.searchsorted(self.base_offsets, offsets, "right") - 1
        found: Flags = rows >= 0
        found[found] = offsets[found] <= self.last_offsets[rows[found]]
        return found

    def bytes_between(self, starts: Longs, ends: Longs) -> Longs:
        """Bytes of the batches that begin in each [start, end)."""
        return self._between(self.size_before, starts, ends)

    def records_between(self, starts: Longs, ends: Longs) -> Longs:
        """Records of the batches that begin in each [start, end), control records too."""
        return self._between(self.records_before, starts, ends)

    def _between(self, before: Longs, starts: Longs, ends: Longs) -> Longs:
        first, after = (np.searchsorted(self.base_offsets, one, "left") for one in (starts, ends))
        return before[np.maximum(after, first)] - before[first]

    def time_before(self, offset: int) -> int | None:
        """Time of the last batch that begins below an offset."""
        row = self.row_at(offset) - 1
        return int(self.max_timestamps[row]) if row >= 0 else None

    def digest(self, count: int) -> str:
        """A hash over the ids of the first so many batches."""
        return content_hash(self.ids[:count].astype(">u8").tobytes())

    def id_texts(self, first: int = 0) -> pa.Array:
        """The ids of the batches from one on, as `batch_id` of the relations writes them."""
        return id_texts(self.ids[first:])


def rises(values: Longs) -> Longs:
    """The rows at which a running maximum rises, the first row too."""
    return np.flatnonzero(np.diff(np.maximum.accumulate(values), prepend=values[:1] - 1) > 0)


def steady(times: Longs) -> Longs:
    """The times of batches by a clock that never goes back: that of the most batches which follow each
    other by their times. What a clock says that was ahead or behind for a while is none; what was
    written then has the time of the batch before it.
    """
    if len(times) < 2 or bool((np.diff(times) >= 0).all()):
        return times
    ends, rows, before = list[int](), list[int](), list[int]()
    for row, time in enumerate(times.tolist()):
        at = bisect_right(ends, time)
        before.append(rows[at - 1] if at else -1)
        ends[at : at + 1], rows[at : at + 1] = [time], [row]
    kept, row = np.zeros(len(times), np.bool_), rows[-1]
    while row >= 0:
        kept[row] = True
        row = before[row]
    at_hand = np.where(kept, np.arange(len(times)), int(np.argmax(kept)))
    return times[np.maximum.accumulate(at_hand)]


def shared_log(quorum: Quorum) -> SharedLog:
    """The main lineage of a quorum."""
    links = quorum.chain
    names = ("sizes", "record_counts", "epochs", "base_timestamps", "max_timestamps")
    sizes, counts, epochs, begun, until = map(links.column, names)
    base, last = links.base, links.end - 1
    return SharedLog(base, last, sizes, counts, epochs, begun, until, links.ids, quorum.leaders)
