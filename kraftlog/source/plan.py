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
from kraftlog.log.segment import chain
from kraftlog.log.storage import FileBytes, open_file

_WINDOW = 8 << 20


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
    return [split for file in files for split in _splits(file, split_size_bytes)]


def _splits(file: LogFile, split_size_bytes: int) -> Iterator[Split]:
    if file.problem is not None or file.size_bytes <= split_size_bytes:
        yield Split(file)
        return
    try:
        with open_file(file.path) as handle:
            cuts = list(_cuts(handle, split_size_bytes))
    except OSError:
        cuts = []  # the task that reads the file says what is wrong with it
    starts = [0, *cuts]
    for start, end in zip(starts, [*cuts, None], strict=True):
        yield Split(file, start, end)


def _cuts(handle: FileBytes, split_size_bytes: int) -> Iterator[int]:
    """Starts of valid batches, about `split_size_bytes` apart."""
    position, target = 0, split_size_bytes
    while position < handle.size_bytes:
        window = handle.read(position, _WINDOW)
        starts, reached = chain(window, len(window))
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
