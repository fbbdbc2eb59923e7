"""The road not taken: what `cleanup.policy=compact` would keep of this log.

In: the log's records as Arrow batches of one type each, payload included. Out: an `OffsetMap` with
the last record of every key, and which of them remain under a tombstone horizon. One pass, memory
per key and not per record, as Kafka's own cleaner. Keys are those of the objects; a record that
only patches an object is the last of its key like any other, so that compaction loses what it
patched: the reason why KRaft's log is not compacted. Source: R7, R24; KIP-630 "Motivation".
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.audit.evidence import Flags, Longs
from kraftlog.metrics.record_totals import frame_sizes

READS = (
    "batch_id",
    "offset",
    "timestamp",
    "type",
    "timestamp_delta",
    "offset_delta",
    "key_size_bytes",
    "value_size_bytes",
)
"""Columns that are read beside the fields of the key."""


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


_PARTITION, _BROKER = ("topic_id", "partition_id"), ("broker_id",)
_CREDENTIAL = ("mechanism", "name")
KEYS: Mapping[str, KeyOf] = {
    "TOPIC_RECORD": KeyOf("topics", ("topic_id",)),
    "REMOVE_TOPIC_RECORD": KeyOf("topics", ("topic_id",), deletes=True),
    "PARTITION_RECORD": KeyOf("partitions", _PARTITION),
    "PARTITION_CHANGE_RECORD": KeyOf("partitions", _PARTITION, is_patch=True),
    "REGISTER_BROKER_RECORD": KeyOf("brokers", _BROKER),
    "UNREGISTER_BROKER_RECORD": KeyOf("brokers", _BROKER, deletes=True),
    "BROKER_REGISTRATION_CHANGE_RECORD": KeyOf("brokers", _BROKER, is_patch=True),
    "FENCE_BROKER_RECORD": KeyOf("brokers", ("id",), is_patch=True),
    "UNFENCE_BROKER_RECORD": KeyOf("brokers", ("id",), is_patch=True),
    "REGISTER_CONTROLLER_RECORD": KeyOf("controllers", ("controller_id",)),
    "CONFIG_RECORD": KeyOf(
        "configs", ("resource_type", "resource_name", "name"), deletes=("value", None)
    ),
    "CLIENT_QUOTA_RECORD": KeyOf("client_quotas", ("entity", "key"), deletes=("remove", True)),
    "FEATURE_LEVEL_RECORD": KeyOf("features", ("name",), deletes=("feature_level", 0)),
    "PRODUCER_IDS_RECORD": KeyOf("producer_ids", ()),
    "ACCESS_CONTROL_ENTRY_RECORD": KeyOf("acls", ("id",)),
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": KeyOf("acls", ("id",), deletes=True),
    "USER_SCRAM_CREDENTIAL_RECORD": KeyOf("scram_credentials", _CREDENTIAL),
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": KeyOf("scram_credentials", _CREDENTIAL, deletes=True),
    "DELEGATION_TOKEN_RECORD": KeyOf("delegation_tokens", ("token_id",)),
    "REMOVE_DELEGATION_TOKEN_RECORD": KeyOf("delegation_tokens", ("token_id",), deletes=True),
}
"""Types with a key. The others (NoOp, transaction markers, ClearElr over many topics) have none: a
compacted topic could not hold them at all.
"""
_TYPES = {name: index for index, name in enumerate(KEYS)}


@dataclass(frozen=True, slots=True)
class Survivors:
    """The last record of each key; one element per key. `type` is an index in `KEYS`."""

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
        self._ids: dict[tuple[int, object], int] = {}
        self._columns = {
            name: np.full(1024, -1, np.int64) for name in ("offset", "size", "time", "type")
        }
        self._tombstone = np.zeros(1024, np.bool_)
        self.counts: dict[str, int] = dict.fromkeys(KEYS, 0)
        self.sizes: dict[str, int] = dict.fromkeys(KEYS, 0)

    def add(self, kind: str, rows: pa.RecordBatch) -> None:
        """Take in records of one type; `rows` has READS and the type's payload."""
        if not rows.num_rows:
            return
        how, payload = KEYS[kind], rows.column(kind.lower())
        codes = self._codes(how, payload, rows.num_rows)
        offsets = rows.column("offset").to_numpy()
        sizes = frame_sizes(rows)
        self.counts[kind] += rows.num_rows
        self.sizes[kind] += int(sizes.sum())
        last = _last_of_each(codes, offsets)
        codes, offsets = codes[last], offsets[last]
        self._room(int(codes.max()) + 1)
        newer = offsets > self._columns["offset"][codes]
        at, last = codes[newer], last[newer]
        times = rows.column("timestamp").cast(pa.int64()).fill_null(0).to_numpy() // 1000
        self._columns["offset"][at] = offsets[newer]
        self._columns["size"][at] = sizes[last]
        self._columns["time"][at] = times[last]
        self._columns["type"][at] = _TYPES[kind]
        self._tombstone[at] = _tombstones(how, payload)[last]

    def survivors(self) -> Survivors:
        """The last record of every key so far."""
        found = np.flatnonzero(self._columns["offset"] >= 0)
        of = {name: column[found] for name, column in self._columns.items()}
        stones = self._tombstone[found]
        return Survivors(found, of["offset"], of["size"], of["time"], of["type"], stones)

    def _codes(self, how: KeyOf, payload: pa.StructArray, count: int) -> Longs:
        """A number per key: fields are numbered one after the other, each with what went before."""
        codes = np.full(count, self._id((-1, how.table)), np.int64)
        for field in how.fields:
            pairs, back = np.unique(
                codes << 32 | self._values(payload.field(field)), return_inverse=True
            )
            ids = [self._id((pair >> 32, pair & 0xFFFFFFFF)) for pair in pairs.tolist()]
            codes = np.array(ids, np.int64)[back]
        return codes

    def _values(self, column: pa.Array) -> Longs:
        if pa.types.is_nested(column.type):
            column = pa.array([json.dumps(one) for one in column.to_pylist()], pa.string())
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        ids = [self._id((-2, one)) for one in encoded.dictionary.to_pylist()]
        found: Longs = np.array(ids, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)]
        return found

    def _id(self, named: tuple[int, object]) -> int:
        return self._ids.setdefault(named, len(self._ids))

    def _room(self, wanted: int) -> None:
        have = len(self._tombstone)
        if wanted <= have:
            return
        more = max(wanted, 2 * have) - have
        for name, column in self._columns.items():
            self._columns[name] = np.concatenate([column, np.full(more, -1, np.int64)])
        self._tombstone = np.concatenate([self._tombstone, np.zeros(more, np.bool_)])


def _last_of_each(codes: Longs, offsets: Longs) -> Longs:
    """The place of the record with the highest offset of each key."""
    order = np.lexsort((offsets, codes))
    ends = np.append(codes[order][1:] != codes[order][:-1], True)
    found: Longs = order[ends]
    return found


def _tombstones(how: KeyOf, payload: pa.StructArray) -> Flags:
    if not isinstance(how.deletes, tuple):
        return np.full(len(payload), how.deletes, np.bool_)
    field, value = how.deletes
    column = payload.field(field)
    found = column.is_null() if value is None else pc.fill_null(pc.equal(column, value), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
