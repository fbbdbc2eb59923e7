"""The road not taken: what `cleanup.policy=compact` would keep of this log.

In: the log's records as Arrow batches of one type each, payload included. Out: an `OffsetMap` with
the last record of every key, and which of them remain under a tombstone horizon. One pass, memory
per key and not per record, as Kafka's own cleaner. Keys are those of the objects; a record that
only patches an object is the last of its key like any other, so that compaction loses what it
patched: the reason why KRaft's log is not compacted. Source: KIP-630 "Motivation", "Consistent Log
and Snapshots".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import starmap

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog import relations
from kraftlog.decode.tabular import timestamps
from kraftlog.message.catalogue import known_spec
from kraftlog.metrics.numbering import KeyNumbers, as_lists, last_of_each, of_lists
from kraftlog.metrics.record_totals import longs_of
from kraftlog.quorum.evidence import Flags, Longs
from kraftlog.relations import BOOL, LONG, TEXT, TIMESTAMP, column
from kraftlog.state.declare import Delete, Patch, Put
from kraftlog.state.history import milliseconds
from kraftlog.state.tables import TABLES

_MERGED_ROWS = 1 << 20
"""So many last records of single batches are gathered before they are merged."""


@dataclass(frozen=True, slots=True)
class KeyOf:
    """How a record type names its object. It is a tombstone where `deletes` says so: always (True),
    never (False), or where a field has a value. `is_patch`: it holds a part of its object only.
    """

    table: str
    fields: tuple[str, ...]
    deletes: bool | tuple[str, object] = False
    is_patch: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The payload's fields that must be read."""
        return (*self.fields, *((self.deletes[0],) if isinstance(self.deletes, tuple) else ()))


def _keys() -> Iterator[tuple[str, KeyOf]]:
    for table in TABLES:
        for one in table.operations if table.writer is not None else ():
            columns = {field.json: field.name for field in known_spec(one.record).fields}
            key = one.key if isinstance(one, Patch) else table.key
            deletes: bool | tuple[str, object] = isinstance(one, Delete)
            if isinstance(one, Put) and one.deletes is not None:
                deletes = columns[one.deletes[0]], one.deletes[1]
            if key or not isinstance(one, Patch):
                named = tuple(columns[name] for name in key)
                yield one.record, KeyOf(table.name, named, deletes, isinstance(one, Patch))


KEYS: Mapping[str, KeyOf] = dict(_keys())
"""Types with a key. The others (NoOp, transaction markers, ClearElr over many topics) have none: a
compacted topic could not hold them at all.
"""
_TYPES = {name: index for index, name in enumerate(KEYS)}
LAST_RECORDS = pa.schema(
    [
        column("object_kind", TEXT, "what the record's key names"),
        column("key", pa.list_(TEXT), "the fields of the key"),
        column("type", TEXT, "record type as Kafka's dump tool prints it"),
        column("offset", LONG, "log offset of the record"),
        column("timestamp", TIMESTAMP, "its time"),
        column("size_bytes", LONG, "its bytes, with the record frame"),
        column("is_tombstone", BOOL, "whether it deletes what the key names"),
    ]
)
"""The last record of each key of the shared log."""


@dataclass(frozen=True, slots=True)
class Survivors:
    """The last record of each key, numbered within its table; one element per key. `types` are
    indexes in `KEYS`.
    """

    keys: Longs
    offsets: Longs
    sizes: Longs
    times_ms: Longs
    types: Longs
    tombstones: Flags

    def kept(self, now_ms: int, horizon_ms: int | None) -> Flags:
        """What remains where tombstones are deleted once they are so old; None: never."""
        if horizon_ms is None:
            return np.ones(len(self.keys), np.bool_)
        return ~(self.tombstones & (self.times_ms <= now_ms - horizon_ms))

    def of_type(self, name: str) -> Flags:
        """Which survivors are records of a type."""
        found: Flags = self.types == _TYPES[name]
        return found


class OffsetMap:
    """Key → its last record. Feed it batches in any order."""

    def __init__(self) -> None:
        self._tables = {how.table: _Table() for how in KEYS.values()}
        self.counts: dict[str, int] = dict.fromkeys(KEYS, 0)
        self.sizes: dict[str, int] = dict.fromkeys(KEYS, 0)

    def add(self, kind: str, rows: pa.RecordBatch, sizes: Longs) -> None:
        """Take in records of one type: offset, timestamp and the payload's fields (KeyOf.columns);
        `sizes` are their frame sizes.
        """
        if not rows.num_rows:
            return
        how = KEYS[kind]
        table = self._tables[how.table]
        payload = rows.column(kind.lower()) if how.columns else pa.nulls(rows.num_rows)
        keys = table.numbers.of([payload.field(one) for one in how.fields], rows.num_rows)
        offsets = longs_of(rows, "offset", 0)
        self.counts[kind] += rows.num_rows
        self.sizes[kind] += int(sizes.sum())
        last = last_of_each(keys, offsets)
        times = longs_of(rows, "timestamp", 0)[last] // 1000
        types = np.full(len(last), _TYPES[kind])
        stones = _tombstones(how, payload)[last]
        table.add(Survivors(keys[last], offsets[last], sizes[last], times, types, stones))

    def survivors(self) -> Survivors:
        """The last record of every key so far."""
        return _together([table.survivors() for table in self._tables.values()])

    def rows(self) -> pa.Table:
        """The same as rows (LAST_RECORDS)."""
        return pa.concat_tables([LAST_RECORDS.empty_table(), *starmap(_rows, self._tables.items())])

    def know(self, rows: pa.Table, totals: pa.Table) -> None:
        """Go on from the `rows` of a map, and the RECORD_TOTALS of the log that it was fed."""
        for name, table in self._tables.items():
            table.know(name, rows.filter(pc.equal(rows.column("object_kind"), name)))
        sizes = pc.add(totals.column("value_size_bytes"), totals.column("frame_size_bytes"))
        columns = totals.column("type"), totals.column("record_count"), sizes
        for kind, count, size in zip(*(one.to_pylist() for one in columns), strict=True):
            if kind in KEYS:
                self.counts[kind] += count
                self.sizes[kind] += size


class _Table:
    """The last records of one table's keys: those of all batches but the newest, merged."""

    def __init__(self) -> None:
        self.numbers = KeyNumbers()
        self._last = _together([])
        self._parts: list[Survivors] = []

    def know(self, name: str, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        columns = of_lists(rows.column("key"), _key_kinds(name))
        types = pc.index_in(rows.column("type"), value_set=pa.array(list(KEYS)))
        self.add(
            Survivors(
                self.numbers.of(columns, rows.num_rows),
                rows.column("offset").to_numpy(),
                rows.column("size_bytes").to_numpy(),
                milliseconds(rows.column("timestamp")).to_numpy(),
                types.to_numpy().astype(np.int64),
                np.asarray(rows.column("is_tombstone"), np.bool_),
            )
        )

    def add(self, part: Survivors) -> None:
        self._parts.append(part)
        if sum(len(one.keys) for one in self._parts) > max(_MERGED_ROWS, len(self._last.keys)):
            self._merge()

    def survivors(self) -> Survivors:
        if self._parts:
            self._merge()
        return self._last

    def _merge(self) -> None:
        every = _together([self._last, *self._parts])
        last = last_of_each(every.keys, every.offsets)
        self._last = Survivors(*(getattr(every, one.name)[last] for one in fields(Survivors)))
        self._parts = []


def _rows(name: str, table: _Table) -> pa.Table:
    """What a table holds, as LAST_RECORDS."""
    held = table.survivors()
    count, width = len(held.keys), len(_key_kinds(name))
    texts = table.numbers.fields(held.keys, width) if count else []
    names = pa.array(list(KEYS)).dictionary_encode()
    columns = {
        "object_kind": pa.repeat(name, count),
        "key": as_lists(texts, count),
        "type": names.take(pa.array(held.types)).cast(pa.string()),
        "offset": held.offsets,
        "timestamp": timestamps(held.times_ms),
        "size_bytes": held.sizes,
        "is_tombstone": held.tombstones,
    }
    return pa.table(columns).cast(LAST_RECORDS)


@cache
def _key_kinds(name: str) -> list[pa.DataType]:
    """The kinds of the fields of a table's key."""
    kind, how = next((kind, how) for kind, how in KEYS.items() if how.table == name)
    held = relations.records().schema.field(kind.lower()).type if how.fields else ()
    kinds = {one.name: one.type for one in held}
    return [kinds[one] for one in how.fields]


def _together(parts: Sequence[Survivors]) -> Survivors:
    none = np.empty(0, np.int64)
    empty = Survivors(none, none, none, none, none, np.empty(0, np.bool_))
    columns = [[getattr(one, field.name) for one in (empty, *parts)] for field in fields(Survivors)]
    return Survivors(*map(np.concatenate, columns))


def _tombstones(how: KeyOf, payload: pa.StructArray) -> Flags:
    if not isinstance(how.deletes, tuple):
        return np.full(len(payload), how.deletes, np.bool_)
    field, value = how.deletes
    column = payload.field(field)
    found = column.is_null() if value is None else pc.fill_null(pc.equal(column, value), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def state_bytes(offsets: OffsetMap) -> int:
    """Bytes of the last record of every object that has not been deleted: the state as KIP-630's
    comparison means it, by the records of this log.
    """
    found = offsets.survivors()
    return int(np.sum(found.sizes[~found.tombstones]))
