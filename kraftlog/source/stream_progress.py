"""How far a stream has read each file, and whether what it read is still there.

In: the listing of the replicas, and the offset that a micro-batch ended with. Out: the offset that
the next one ends with, as JSON for Spark's checkpoint, and the ranges of files between two offsets.
Runs on the driver, without Spark; files are read in bounded windows.

A file that changed is hashed from its start, and compared with the marks of the last offset. Below
the last equal mark nothing has changed, byte for byte, whatever was done to the file: it grew, was
cut and written on, or only copied again. What lies above is read. Marks are batch boundaries, each
with the hash of all before it: dense near the end, where a follower truncates, and ever sparser
before it, so that they stay few.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from kraftlog.log import names
from kraftlog.log.batch import PREFIX_SIZE
from kraftlog.log.directory import LogFile, Replica, record_files
from kraftlog.log.names import classify
from kraftlog.log.segment import Limits, Window, batch_starts, walk
from kraftlog.log.storage import FileBytes, open_file
from kraftlog.plain import reason_of
from kraftlog.source.splits import WINDOW, Split

Mark = tuple[int, str]
"""A position, and the hash of all bytes before it."""

_NEAREST_BYTES, _FACTOR = 128, 2
"""Distance of the nearest mark from a log's end, and how much further away each next one lies."""


class Prefix:
    """The hash of a file's beginning, up to ever larger positions."""

    def __init__(self, handle: FileBytes) -> None:
        self._handle, self._hasher, self._position = handle, blake3(), 0

    def hash_to(self, position: int) -> str:
        """Hash of the bytes before a position, which is none before the last one asked for."""
        while self._position < position:
            chunk = self._handle.read(self._position, min(WINDOW, position - self._position))
            if not chunk:
                break  # it became shorter meanwhile; the next look finds that the hash is another
            self._hasher.update(chunk)
            self._position += len(chunk)
        return self._hasher.hexdigest(length=16)

    def copy(self) -> "Prefix":
        """The same state, to go on from later."""
        twin = Prefix(self._handle)
        twin._hasher, twin._position = self._hasher.copy(), self._position
        return twin


def verified(handle: FileBytes, marks: Iterable[Mark]) -> tuple[list[Mark], Prefix]:
    """The marks that still hold, and the hash as it stood at the last of them."""
    kept: list[Mark] = []
    prefix = Prefix(handle)
    at_last = prefix.copy()
    for position, digest in marks:
        if position > handle.size_bytes or prefix.hash_to(position) != digest:
            break
        kept.append((position, digest))
        at_last = prefix.copy()
    return kept, at_last


def batch_ends(handle: FileBytes, start: int, limits: Limits) -> npt.NDArray[np.int64]:
    """Where the whole batches after `start`, a batch's start, end. Lengths are followed alone, as
    long as that leads anywhere; tasks check CRCs.
    """
    found = [np.empty(0, np.int64)]
    position = start
    while position < handle.size_bytes:
        window = handle.read(position, WINDOW)
        starts, reached = batch_starts(window, len(window))
        if not starts:
            break
        found.append(np.array([*starts[1:], reached], np.int64) + position)
        position += reached
    for one in walk(handle, position, None, limits):
        if isinstance(one, Window):
            sizes = one.batches.headers["length"].astype(np.int64) + PREFIX_SIZE
            found.append(one.batches.positions + sizes)
    return np.concatenate(found)


def spaced(ends: npt.NDArray[np.int64]) -> set[int]:
    """Of ascending positions, the last one, and ever fewer towards the first."""
    if not len(ends):
        return set()
    last = int(ends[-1])
    targets, distance = [last], _NEAREST_BYTES
    while distance < last:
        targets.append(last - distance)
        distance *= _FACTOR
    return {int(ends[at]) for at in np.searchsorted(ends, targets)}


_GROWING = frozenset({names.LOG, names.CHECKPOINT_PART, names.UNKNOWN})
"""Kinds that Kafka still writes to. (An unknown name counts where the user named the file.)"""


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as a micro-batch left it. `marks`: [position, hash of all bytes before it], ascending;
    everything below the last one has been emitted. `tail`: hash of the whole file, once the fault
    after the last batch has been emitted. `problem`: why the file could not be read.
    """

    size_bytes: int
    modified_ns: int
    marks: tuple[Mark, ...] = ()
    tail: str | None = None
    problem: str | None = None

    @property
    def position(self) -> int:
        """End of the last whole batch."""
        return self.marks[-1][0] if self.marks else 0

    def is_of(self, file: LogFile) -> bool:
        """Whether the file still looks as it did then."""
        return (self.size_bytes, self.modified_ns) == (file.size_bytes, file.modified_ns)


Progress = dict[str, dict[str, Seen]]
"""Replica → path → how far that file was read."""


def to_json(progress: Progress) -> dict[str, Any]:
    """The same as JSON, in a fixed order: Spark compares offsets by their text."""
    return {
        label: {path: _written(files[path]) for path in sorted(files)}
        for label, files in sorted(progress.items())
    }


def _written(seen: Seen) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(seen).items() if value is not None}
    return {**fields, "marks": [list(mark) for mark in seen.marks]}


def from_json(offset: dict[str, Any]) -> Progress:
    """What `to_json` wrote."""
    return {
        label: {path: _read(fields) for path, fields in files.items()}
        for label, files in offset.items()
    }


def _read(fields: dict[str, Any]) -> Seen:
    marks = tuple((int(position), str(digest)) for position, digest in fields["marks"])
    return Seen(**{**fields, "marks": marks})


def listed_files(replicas: Iterable[Replica]) -> Progress:
    """Progress for the relation `files`: what the listing itself says of every file."""
    return {
        one.label: {
            file.path: Seen(file.size_bytes, file.modified_ns, problem=file.problem)
            for file in one.files
        }
        for one in replicas
    }


def advanced(
    before: Progress, replicas: Iterable[Replica], tells_tails: bool, limits: Limits
) -> Progress:
    """Progress after everything that the listing holds; files that are gone are left out.

    `tells_tails`: whether the stream is one of faults, to which the bytes after the last batch
    matter. In the last segment they are most likely a batch that is being written or copied, so
    they wait until the file is found unchanged. Files that look as before are not opened, but for
    those that could not be read, or whose tail waits.
    """
    after: Progress = {}
    for replica in replicas:
        old = before.get(replica.label, {})
        segments = (file.parsed for file in replica.files if file.kind == names.LOG)
        last = max((one.base_offset or 0 for one in segments), default=0)
        files = after[replica.label] = {}
        listed = {file.path for file in replica.files}
        for file in record_files([replica]):
            known = _seen_before(old, file.path, listed)
            if known is not None and _is_done(known, file, tells_tails):
                files[file.path] = known
                continue
            waits = _may_grow(file, last) and not (known is not None and known.is_of(file))
            found = _looked_at(file, known or Seen(0, 0), tells_tails and not waits, limits)
            if found is not None:
                files[file.path] = found
    return after


def _seen_before(old: Mapping[str, Seen], path: str, now: Container[str]) -> Seen | None:
    """How a file was seen last, also under the name that it had before Kafka deleted it: a minute
    passes between the two steps of that.
    """
    former = path.removesuffix(_DELETED)
    return old.get(path) or (None if former in now else old.get(former))


_DELETED = ".deleted"


def _is_done(known: Seen, file: LogFile, tells_tails: bool) -> bool:
    waits = tells_tails and known.tail is None and known.position < known.size_bytes
    return known.is_of(file) and known.problem is None and not waits


def _may_grow(file: LogFile, last_base_offset: int) -> bool:
    sealed = file.kind == names.LOG and (file.parsed.base_offset or 0) < last_base_offset
    return file.kind in _GROWING and not sealed


def _looked_at(file: LogFile, known: Seen, tells_tail: bool, limits: Limits) -> Seen | None:
    """The file as it is now; None where it is gone."""
    problem = file.problem
    if problem is None:
        try:
            with open_file(file.path) as handle:
                # What was written after the listing belongs to the next micro-batch.
                handle.size_bytes = min(handle.size_bytes, file.size_bytes)
                return _scanned(handle, file, known, tells_tail, limits)
        except FileNotFoundError:
            return None
        except OSError as error:
            problem = reason_of(error)
    return Seen(file.size_bytes, file.modified_ns, known.marks, known.tail, problem)


def _scanned(
    handle: FileBytes, file: LogFile, known: Seen, tells_tail: bool, limits: Limits
) -> Seen:
    kept, prefix = verified(handle, known.marks)
    start = kept[-1][0] if kept else 0
    ends = batch_ends(handle, start, limits)
    wanted = {start, int(ends[-1]) if len(ends) else start} - {0}
    if file.kind == names.LOG:
        wanted |= spaced(np.concatenate([np.array([at for at, _ in kept], np.int64), ends]))
    marks = [mark for mark in kept if mark[0] in wanted]
    marks += [(at, prefix.hash_to(at)) for at in sorted(wanted) if at > start]
    seen = Seen(file.size_bytes, file.modified_ns, tuple(marks))
    if seen.position < seen.size_bytes and (tells_tail or known.tail is not None):
        whole = prefix.hash_to(seen.size_bytes)
        return replace(seen, tail=whole if tells_tail or whole == known.tail else None)
    return seen


def changed_files(start: Progress, end: Progress) -> Iterator[tuple[LogFile, Seen, Seen]]:
    """Files that are not the same in two offsets, with how they were seen in the first, if at all,
    and in the second.
    """
    for label, files in end.items():
        before = start.get(label, {})
        for path, seen in files.items():
            if before.get(path) != seen:
                name = path.rsplit("/", 1)[-1]
                sizes = (seen.size_bytes, seen.modified_ns)
                file = LogFile(label, path, name, classify(name), *sizes, seen.problem)
                yield file, _seen_before(before, path, files) or Seen(0, 0), seen


def new_ranges(start: Progress, end: Progress, tells_tails: bool) -> Iterator[Split]:
    """What a micro-batch between two offsets reads."""
    for file, old, new in changed_files(start, end):
        if new.problem is not None:
            if tells_tails:
                yield Split(file)
            continue
        first = max((at for at, _ in set(old.marks) & set(new.marks)), default=0)
        last = new.position
        if new.tail is not None:
            first, last = (0, 0) if new.tail == old.tail else (first, new.size_bytes)
        if first < last:
            yield Split(file, first, last)
