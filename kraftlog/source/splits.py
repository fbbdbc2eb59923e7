"""Files → splits: which bytes one task reads. Runs on the driver, without Spark.

A file over the split size is cut at batch starts, found by following the batches' lengths; a cut is
only made where a batch with a right CRC begins. Where the chain of lengths breaks, the rest of the
file stays one split: the walk there needs to look for the next valid batch, which only works from
one end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kraftlog.log.batch import INT32_AT, LENGTH_POSITION, PREFIX_SIZE, crc_is_valid
from kraftlog.log.directory import LogFile
from kraftlog.log.segment import batch_starts
from kraftlog.log.storage import FileBytes, open_file

WINDOW = 8 << 20
"""Bytes that the driver holds at a time."""


@dataclass(frozen=True, slots=True)
class Split:
    """Record batches that begin in [start, end) of one file; `end` None: to the end, however far it
    has grown.
    """

    file: LogFile
    start: int = 0
    end: int | None = None

    @property
    def size_bytes(self) -> int:
        """Size of the range, as far as it is known."""
        return (self.file.size_bytes if self.end is None else self.end) - self.start


def plan_splits(files: Iterable[LogFile], split_size_bytes: int) -> list[Split]:
    """The splits of all files, in file order."""
    return [part for file in files for part in cut(Split(file), split_size_bytes)]


def cut(split: Split, split_size_bytes: int) -> Iterator[Split]:
    """Parts of a split, each of about the split size; the split must begin at a batch's start."""
    if split.file.problem is not None or split.size_bytes <= split_size_bytes:
        yield split
        return
    try:
        with open_file(split.file.path) as handle:
            cuts = list(_cuts(handle, split, split_size_bytes))
    except OSError:
        cuts = []  # the task that reads the file says what is wrong with it
    for start, end in zip([split.start, *cuts], [*cuts, split.end], strict=True):
        yield Split(split.file, start, end)


def _cuts(handle: FileBytes, split: Split, split_size_bytes: int) -> Iterator[int]:
    """Starts of valid batches, about `split_size_bytes` apart."""
    position, target = split.start, split.start + split_size_bytes
    stop = handle.size_bytes if split.end is None else min(split.end, handle.size_bytes)
    while position < stop:
        window = handle.read(position, WINDOW)
        starts, reached = batch_starts(window, min(len(window), stop - position))
        if not starts:
            return
        for start in starts:
            if position + start < target:
                continue
            size = INT32_AT.unpack_from(window, start + LENGTH_POSITION)[0] + PREFIX_SIZE
            if crc_is_valid(window[start : start + size]):
                yield position + start
                target = position + start + split_size_bytes
        position += reached


def pack(sizes: list[int], bins: int) -> list[list[int]]:
    """Indexes of `sizes` in at most `bins` groups of about equal sum; large ones first, no group
    empty.
    """
    groups: list[list[int]] = [[] for _ in range(min(bins, len(sizes)))]
    loads = [0] * len(groups)
    for index in sorted(range(len(sizes)), key=lambda one: -sizes[one]):
        least = loads.index(min(loads))
        groups[least].append(index)
        loads[least] += sizes[index] + 4096  # opening a file costs, too
    return groups
