"""Everything that happens to partitions, as one set of arrays sorted by (partition, offset).

In: an outline, and decoded rows of the base snapshot, of PartitionRecords and of
PartitionChangeRecords, of any part of all partitions. Out: `Events`. Topics that come and go, and
ClearElrs, become events of each of their partitions. And `NewVersions`: what a rule of the state is
asked of, to flag versions that it may tell of; nothing wrong may be missed, and what is only unusual
may be flagged too, as every flagged partition goes to the definition.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.message.catalogue import known_spec
from kraftlog.native.folding import HeldLists, ascending
from kraftlog.native.kernel import Places
from kraftlog.relations import arrow_type
from kraftlog.state.history import milliseconds
from kraftlog.state.outline import BASE_PARTITION, Outline

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

TOPIC_CAME, TOPIC_WENT, PUT, CHANGE, CLEAR = range(5)
TYPES = {PUT: "PARTITION_RECORD", CHANGE: "PARTITION_CHANGE_RECORD", CLEAR: "CLEAR_ELR_RECORD"}


@dataclass(frozen=True, slots=True)
class Events:
    """One entry per event. `source` is its row in `payload`, −1 where it has none; `since` the
    first offset at which it shows.

    `topics` are the topic ids by code, `alive` whether the base holds them; `keys` hold
    (code << 32) | partition id.
    """

    keys: Longs
    offsets: Longs
    kinds: npt.NDArray[np.int8]
    source: npt.NDArray[np.int32]
    timestamps: Longs
    epochs: Longs
    since: Longs
    since_ms: Longs
    topics: pa.Array
    alive: Flags
    payload: dict[str, pa.Array]
    versions: Longs

    def __len__(self) -> int:
        return len(self.keys)


def gather(outline: Outline, base: pa.Table | None, puts: pa.Table, changes: pa.Table) -> Events:
    """All events, sorted; those that an aborted transaction took back are left out."""
    in_log = [
        _shown(outline, puts, "partition_record"),
        _shown(outline, changes, "partition_change_record"),
    ]
    parts = [*([_of_base(base)] if base is not None else []), *in_log]
    kinds = [PUT] * (len(parts) - 1) + [CHANGE]
    payload = _payload(parts)
    count = [part.num_rows for part in parts]
    codes = payload.pop("topic_id")
    ids = payload["partition_id"].to_numpy(zero_copy_only=False).astype(np.int64)
    row_keys = (codes.indices.to_numpy().astype(np.int64) << 32) | (ids & 0xFFFFFFFF)
    columns = {
        "keys": row_keys,
        "offsets": _numbers(parts, "offset"),
        "kinds": np.repeat(np.array(kinds, np.int8), count),
        "timestamps": _numbers(parts, "timestamp"),
        "epochs": _numbers(parts, "batch_leader_epoch"),
    }
    extra = _of_outline(outline, distinct(row_keys), codes.dictionary)
    merged = {name: np.concatenate([columns[name], extra[name]]) for name in columns}
    order = _by_key_and_offset(merged["keys"], merged["offsets"])
    sorted_columns = {name: values.take(order) for name, values in merged.items()}
    since, since_ms = _since(outline, sorted_columns["offsets"], sorted_columns["timestamps"])
    return Events(
        keys=sorted_columns["keys"],
        offsets=sorted_columns["offsets"],
        kinds=sorted_columns["kinds"],
        source=np.where(order < len(row_keys), order, -1).astype(np.int32),
        timestamps=sorted_columns["timestamps"],
        epochs=sorted_columns["epochs"],
        since=since,
        since_ms=since_ms,
        topics=codes.dictionary,
        alive=np.array([one in outline.alive for one in codes.dictionary.to_pylist()], np.bool_),
        payload=payload,
        versions=_numbers(parts, "record_version"),
    )


def distinct(keys: Longs) -> Longs:
    """The keys that occur, in order."""
    found = ascending(keys.copy())
    return found[np.append(True, found[1:] != found[:-1])] if len(keys) else keys


def _by_key_and_offset(keys: Longs, offsets: Longs) -> Longs:
    """The order of (key, offset), rows that are equal in both as they are.

    Each row becomes one number, its key before its place by offset, wherever 63 bits hold both.
    """
    by_offset = np.argsort(offsets, kind="stable")  # merges parts that are sorted already
    taken = keys.take(by_offset)
    codes, ids = taken >> 32, taken & 0xFFFFFFFF
    id_bits, row_bits = (int(one).bit_length() for one in (ids.max(initial=0), len(keys)))
    if int(codes.max(initial=0)).bit_length() + id_bits + row_bits > 63:
        return np.lexsort((offsets, keys))
    packed = ascending((codes << id_bits | ids) << row_bits | np.arange(len(keys)), row_bits)
    return by_offset.take(packed & ((1 << row_bits) - 1))


def _of_base(base: pa.Table) -> pa.Table:
    """A checkpoint's offsets say nothing about the log."""
    base = base.filter(pc.is_valid(base.column("partition_record")))
    offsets = pa.array(np.full(base.num_rows, BASE_PARTITION), pa.int64())
    return base.set_column(base.schema.get_field_index("offset"), "offset", offsets)


def _shown(outline: Outline, rows: pa.Table, payload: str) -> pa.Table:
    """The rows of a span that could be decoded, without those that nobody ever saw."""
    offsets = rows.column("offset").to_numpy()
    keep = (offsets >= outline.start_offset) & (offsets < outline.end_offset)
    keep &= rows.column(payload).is_valid().to_numpy()
    for one in outline.hidden:
        if one.shown_offset is None:
            keep &= (offsets < one.begin_offset) | (offsets >= one.end_offset)
    return rows if keep.all() else rows.filter(pa.array(keep))


def _payload(parts: list[pa.Table]) -> dict[str, pa.Array]:
    """The fields of all rows, put after put and change after change, under the puts' names."""
    fields = known_spec(TYPES[PUT]).fields
    kinds = {field.name: working_type(arrow_type(field)) for field in fields}
    columns: dict[str, list[pa.Array]] = {name: [pa.nulls(0, kinds[name])] for name in kinds}
    for index, part in enumerate(parts):
        is_change = index == len(parts) - 1
        of_type = "partition_change_record" if is_change else "partition_record"
        for payload in pa.chunked_array(part.column(of_type)).chunks:
            held = dict(zip(payload.type.names, payload.flatten(), strict=True))
            for name, kind in kinds.items():
                if name in ("leader_epoch", "partition_epoch") and is_change:
                    column = pa.nulls(len(payload), kind)
                else:
                    column = held[name]
                columns[name].append(column if column.type == kind else column.cast(kind))
    return {name: pa.concat_arrays(values) for name, values in columns.items()}


def working_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a column is worked on: texts, which are ids that many rows share, are
    codes of a dictionary.
    """
    if pa.types.is_string(kind):
        return pa.dictionary(pa.int32(), kind)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(working_type(kind.value_type)))
    return kind


def _numbers(parts: list[pa.Table], name: str) -> Longs:
    columns: list[Any] = [part.column(name) for part in parts]
    if name == "timestamp":
        columns = [milliseconds(one) for one in columns]
    return np.concatenate([one.to_numpy().astype(np.int64, copy=False) for one in columns])


def _of_outline(outline: Outline, keys: Longs, topics: pa.Array) -> dict[str, Longs]:
    """Events of the partitions' topics, for every partition that occurs at all."""
    code_of = {topic: code for code, topic in enumerate(topics.to_pylist())}
    found: list[tuple[int, int, int, int, int]] = []  # code or -1, offset, kind, timestamp, epoch
    for one in outline.topics:
        code = code_of.get(one.topic_id)
        if code is not None:
            kind = TOPIC_CAME if one.is_alive else TOPIC_WENT
            found.append((code, one.offset, kind, one.timestamp, -1))
    for clear in outline.clears:
        if _is_dropped(outline, clear.offset):
            continue
        code = -1 if clear.topic_id is None else code_of.get(clear.topic_id)
        if code is not None:
            found.append((code, clear.offset, CLEAR, clear.timestamp, clear.batch_leader_epoch))
    table = np.array(found, np.int64).reshape(-1, 5)
    first = np.where(table[:, 0] < 0, 0, np.searchsorted(keys, table[:, 0] << 32))
    after = np.where(table[:, 0] < 0, len(keys), np.searchsorted(keys, (table[:, 0] + 1) << 32))
    count = after - first
    row = np.repeat(np.arange(len(table)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return {
        "keys": keys[first[row] + within],
        "offsets": table[row, 1],
        "kinds": table[row, 2].astype(np.int8),
        "timestamps": table[row, 3],
        "epochs": table[row, 4],
    }


def _is_dropped(outline: Outline, offset: int) -> bool:
    return any(
        one.shown_offset is None and one.begin_offset <= offset < one.end_offset
        for one in outline.hidden
    )


def _since(outline: Outline, offsets: Longs, timestamps: Longs) -> tuple[Longs, Longs]:
    """From which offset on, and since when, an event shows."""
    since, since_ms = offsets + 1, timestamps.copy()
    of_base = offsets < 0
    since[of_base], since_ms[of_base] = outline.start_offset, outline.start_timestamp
    for one in outline.hidden:
        if one.shown_offset is not None:
            inside = (offsets >= one.begin_offset) & (offsets < one.end_offset)
            since[inside], since_ms[inside] = one.shown_offset, one.shown_timestamp
    return since, since_ms


@dataclass(frozen=True, slots=True)
class NewVersions:
    """The versions that begin at the events `at`. `has_before`: a version of the same partition
    ends there. `lists` has their lists of brokers, and `numbers` what holds at every event.
    """

    at: Longs
    has_before: Flags
    lists: Mapping[str, HeldLists]
    numbers: Mapping[str, Places]

    def number(self, name: str) -> Places:
        return self.numbers[name].take(self.at)

    def number_before(self, name: str) -> Places:
        """The same of the version before; without a meaning where there is none."""
        return self.numbers[name].take(self.at - 1)


Suspects = Callable[[NewVersions], Flags]
"""Which versions a rule may have something to say of."""


def every_version(versions: NewVersions) -> Flags:
    """All of them: right for every rule, and as slow as the definition."""
    return np.ones(len(versions.at), np.bool_)
