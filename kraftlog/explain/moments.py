"""The moments of a history: each record that changed something, with what it changed, in offset
order, from the files of a quorum.

In: a quorum, and the state tables that are asked for. Out: `Moment`s along `main`, the history that
the replicas hold together, then those of each replica that contradicts it, from where it departs.
Only record types that can touch the tables are decoded; memory is that of their state. Source:
KIP-630, KIP-868 (a transaction's records count from its End on).
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self

from kraftlog.decode.records import Record, read_records
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.batch import content_hash
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.log.storage import FileBytes, open_file
from kraftlog.quorum.lineage import Chain, chain, whole
from kraftlog.quorum.lineages import MAIN, lineages
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.reading import Snapshot, load_snapshot
from kraftlog.state.replay import Origin, Replay, Visible
from kraftlog.state.state import Change, State
from kraftlog.state.tables import ABORT, BEGIN, END, OPERATIONS

SNAPSHOT = "SNAPSHOT"
_NEEDS = {"partitions": ("topics",), "configs": ("topics",)}
"""Tables whose changes follow from another table's: by a cascade, or by its names."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One record that changed the state, or what a snapshot holds where the history begins.

    `offset` is the record's own, that of a snapshot the end offset; `seen_offset` the record that
    made it visible (the End of a transaction). `timestamp` is in ms. `record` is what the record
    said, for ranges of offsets also of those that changed nothing.
    """

    lineage: str
    offset: int
    timestamp: int
    batch_leader_epoch: int
    record_type: str
    changes: tuple[Change, ...]
    seen_offset: int
    record: dict[str, Any] | None = None
    replicas: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """Where moments come from, and how they are read. `offsets` are those whose every record is a
    moment, whether it changes anything or not.
    """

    quorum: Quorum
    redactor: Redactor
    limits: Limits
    tables: frozenset[str]
    offsets: range = range(0)

    def moments(self) -> Iterator[Moment]:
        """All moments, lineage by lineage."""
        main = chain(self.quorum)
        forks = {one.name: one.fork_offset for one in lineages(self.quorum) if one.name != MAIN}
        states: dict[int, State] = {}
        yield from self._along(MAIN, main, frozenset(forks.values()), states)
        for name, fork in forks.items():
            own = whole(self.quorum.by_label[name])
            kept = own.base >= fork
            rest = Chain(
                own.logs, own.base[kept], own.end[kept], own.ids[kept], own.log[kept], own.row[kept]
            )
            start = states.get(fork)
            begun = Replay(start.fork()) if fork and start is not None else None
            yield from self._along(name, rest, frozenset(), {}, begun)

    @property
    def wanted(self) -> frozenset[str] | None:
        """The record types that can touch the tables; None: all."""
        if not self.tables:
            return None
        tables = self.tables | {need for one in self.tables for need in _NEEDS.get(one, ())}
        touching = {
            record
            for record, operations in OPERATIONS.items()
            if any(table.name in tables for table, _ in operations)
        }
        return frozenset(touching | {BEGIN, END, ABORT})

    def _along(
        self,
        name: str,
        links: Chain,
        forks: frozenset[int],
        states: dict[int, State],
        begun: Replay | None = None,
    ) -> Iterator[Moment]:
        """One lineage. Where the chain has a hole, or does not begin at 0, a snapshot is the base,
        and what lies between is not known.
        """
        replay, reached = begun, int(links.base[0]) if len(links) else 0
        bases = sorted(self._bases(name), key=lambda one: one.end_offset)
        with _Reader(self.limits.id_key) as reader:
            for at in range(len(links)):
                start, end = int(links.base[at]), int(links.end[at])
                if replay is None or start != reached:
                    replay = Replay() if start == 0 else None
                reached = end
                if start in forks and replay is not None:
                    states[start] = replay.state.fork()
                if replay is None:
                    held = [one for one in bases if start <= one.end_offset <= end]
                    if not held:
                        continue
                    replay, moment = self._begin(name, held[0])
                    yield moment
                    start = held[0].end_offset
                yield from self._batch(name, links, at, replay, start, reader)
        if reached in forks and replay is not None:
            states[reached] = replay.state.fork()

    def _bases(self, name: str) -> Iterable[SnapshotView]:
        every = self.quorum.credible_snapshots
        return every if name == MAIN else [one for one in every if one.replica == name]

    def _begin(self, name: str, view: SnapshotView) -> tuple[Replay, Moment]:
        (replica,) = find_replicas([view.path])
        stamp = view.last_contained_timestamp or 0
        snapshot = Snapshot(view.end_offset, view.epoch, stamp, replica.files[0])
        replay, _ = load_snapshot(snapshot, self.redactor, self.limits)
        changes = tuple(
            Change(table, key, None, value)
            for table, key, value in replay.state
            if not self.tables or table in self.tables
        )
        end = view.end_offset
        where = Moment(
            name, end, stamp, view.epoch, SNAPSHOT, changes, end - 1, None, (view.replica,)
        )
        return replay, where

    def _batch(
        self, name: str, links: Chain, at: int, replay: Replay, start: int, reader: "_Reader"
    ) -> Iterator[Moment]:
        log, row, base = links.logs[int(links.log[at])], int(links.row[at]), int(links.base[at])
        raw = reader.batch(log, row)
        epoch = int(log.evidence.log.epochs[row])
        asked = max(base, self.offsets.start) < min(int(links.end[at]), self.offsets.stop)
        limit = self.limits.decompressed_size_bytes
        for record in read_records(raw, 0, self.redactor, limit, None if asked else self.wanted):
            if not isinstance(record, Record) or base + record.index < start:
                continue
            offset = base + record.index
            origin = Origin(offset, record.timestamp, epoch, record.type)
            apply = replay.apply_control if record.is_control else replay.apply
            seen = apply(origin, record.data)
            if offset in self.offsets and not any(one.origin.offset == offset for one in seen):
                yield Moment(
                    name, offset, record.timestamp, epoch, record.type, (), offset, record.data
                )
            yield from self._told(name, seen, offset)

    def _told(self, name: str, seen: list[Visible], shown: int) -> Iterator[Moment]:
        """What became visible, by the records that caused it."""
        for origin, held in groupby(seen, key=lambda one: one.origin):
            changes = tuple(
                one.change for one in held if not self.tables or one.change.table in self.tables
            )
            if changes:
                yield Moment(
                    name,
                    origin.offset or 0,
                    origin.timestamp,
                    origin.batch_leader_epoch,
                    origin.type,
                    changes,
                    shown,
                )


class _Reader:
    """Reads batches of files one after the other, and keeps the last file open."""

    def __init__(self, id_key: bytes | None) -> None:
        self._id_key = id_key
        self._path = ""
        self._open = ExitStack()
        self._file: FileBytes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def batch(self, log: LogView, row: int) -> bytes:
        """A batch's bytes.

        Raises InputError where the file no longer holds it."""
        columns, path = log.evidence.log, log.path(row)
        try:
            if self._file is None or path != self._path:
                self._open.close()
                self._path, self._file = path, self._open.enter_context(open_file(path))
            raw = self._file.read(int(columns.positions[row]), int(columns.sizes[row]))
        except OSError as error:
            raise InputError(f"{path}: it cannot be read: {error.strerror or error}") from error
        if content_hash(raw, self._id_key) != columns.id_text(row):
            raise InputError(f"{path}: it changed while it was read; copy it again")
        return raw
