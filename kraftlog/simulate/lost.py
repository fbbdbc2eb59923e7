"""Which types of records a truncation takes away: only the batches that are lost are read again.

In: a log of a quorum, and rows of its batches. Out: how many records of each type they hold. Of
most records only the head is looked at; control batches and compressed ones go to the definition.
Reads the replica's files, a window at a time, unless somebody else has counted already. Source:
KAFKA-1211.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from kraftlog.decode.envelopes import find_frames, sections_of
from kraftlog.decode.records import Record
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import read_batch
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.storage import open_file
from kraftlog.message.catalogue import metadata_specs
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.logview import LogView

UNREADABLE = "UNREADABLE"
"""Counts records of lost batches that cannot be read, or cannot be read any more."""

TypeCounts = Callable[[LogView, Longs], Mapping[str, int]]
"""Records by type in some batches of a log; those that cannot be read are left out."""


def counted_in_files(limits: Limits) -> TypeCounts:
    """Counts from the replicas' own files."""

    def counts(log: LogView, rows: Longs) -> Counter[str]:
        found: Counter[str] = Counter()
        for window, indexes in _windows(log, rows, limits):
            found.update(_types(window, indexes, limits))
        return found

    return counts


def lost_types(log: LogView, rows: Longs, counted: TypeCounts) -> dict[str, int]:
    """Records by type in some batches of a log, the most frequent first."""
    counts = Counter(counted(log, rows))
    expected = int(log.evidence.log.record_counts[rows].sum())
    missing = expected - counts.total()
    if missing > 0:
        counts[UNREADABLE] += missing
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def _windows(log: LogView, rows: Longs, limits: Limits) -> Iterator[tuple[Window, list[int]]]:
    """The windows in which the batches lie, and their indexes in each."""
    columns = log.evidence.log
    for file in np.unique(columns.file[rows]).tolist():
        mine = rows[columns.file[rows] == file]
        positions = columns.positions[mine]
        end = int(positions[-1] + columns.sizes[mine[-1]])
        try:
            with open_file(log.evidence.segments[file].path) as handle:
                for found in walk(handle, int(positions[0]), end, limits):
                    if isinstance(found, Fault):
                        continue
                    place = np.searchsorted(positions, found.batches.positions)
                    wanted = positions[place % len(positions)] == found.batches.positions
                    wanted &= found.batches.crc_valid
                    yield found, np.flatnonzero(wanted).tolist()
        except OSError:
            continue  # What could not be read is counted as unreadable.


def _types(window: Window, indexes: list[int], limits: Limits) -> Counter[str]:
    counts, limit, specs = Counter[str](), limits.decompressed_size_bytes, metadata_specs()
    for _, some in sections_of(window, indexes, limit):
        for sections in some:
            found, handed = find_frames(window, sections)
            keys, numbers = np.unique(found.key[found.key >= 0], return_counts=True)
            for key, number in zip(keys.tolist(), numbers.tolist(), strict=True):
                counts[specs[key].type if key in specs else f"UNKNOWN_{key}"] += number
            for index in handed:
                read = read_batch(window, index, None, Redactor(None), limit)
                counts.update(one.type for one in read if isinstance(one, Record))
    return counts
