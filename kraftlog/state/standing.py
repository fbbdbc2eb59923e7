"""What stands at one offset: the last version of every partition, as columns.

In: the rows that a fold leaves (`fold.value_schema`). Out: frozen `Standing`s, each made from the
one before it: only partitions that something has happened to are taken out and put back, so that a
fold of a window costs what is in the window. Rows that no longer hold are dropped when they are
more than those that do. Memory: some 150 bytes per partition, twice that before rows are dropped.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.state.declare import Data, Key
from kraftlog.state.fold import no_versions, plain_schema
from kraftlog.state.history import SHOWN
from kraftlog.state.partition_events import Longs

_PARTITIONS = SHOWN["partitions"]
_SPARE_ROWS = 100_000


@dataclass(slots=True)
class Topics:
    """A number for each topic id that was ever met; shared by what is compared with each other."""

    codes: dict[str, int] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)

    def code(self, topic_id: str) -> int:
        found = self.codes.get(topic_id)
        if found is None:
            found = self.codes[topic_id] = len(self.ids)
            self.ids.append(topic_id)
        return found

    def keys(self, topic_ids: pa.Array, partition_ids: pa.Array) -> Longs:
        """(topic, partition) as one number each; the ids are codes of a dictionary."""
        names = topic_ids.dictionary.to_pylist()
        found_codes = [*map(self.codes.get, names)]
        if None in found_codes:
            found_codes = [*map(self.code, names)]
        known = np.array(found_codes, np.int64)
        codes = known[topic_ids.indices.to_numpy()] if len(topic_ids) else np.empty(0, np.int64)
        numbers = partition_ids.to_numpy(zero_copy_only=False).astype(np.int64)
        found: Longs = codes << 32 | numbers & 0xFFFFFFFF
        return found


@dataclass(frozen=True, slots=True)
class Standing:
    """The versions at one offset: `keys` in order, and `place`, where the version of each stands
    in `rows`.
    """

    topics: Topics
    keys: Longs
    place: Longs
    rows: pa.Table

    @classmethod
    def empty(cls, topics: Topics) -> "Standing":
        nothing = np.empty(0, np.int64)
        return cls(topics, nothing, nothing, no_versions())

    def __len__(self) -> int:
        return len(self.keys)

    def of_topics(self, topic_ids: Iterable[str]) -> Longs:
        """The keys of all partitions of some topics."""
        codes = np.array(sorted(self.topics.code(one) for one in topic_ids), np.int64)
        first = np.searchsorted(self.keys, codes << 32)
        after = np.searchsorted(self.keys, (codes + 1) << 32)
        parts = [self.keys[a:b] for a, b in zip(first.tolist(), after.tolist(), strict=True)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    def versions(self, keys: Longs) -> pa.Table:
        """The versions of those of some keys that stand, in the order of the keys."""
        places = self.place[self._at(keys)]
        if not len(places):
            return no_versions()
        return self.rows.take(pa.array(places)).combine_chunks()

    def _at(self, keys: Longs) -> Longs:
        """Where the keys that stand are among all."""
        if not len(self.keys):
            return np.empty(0, np.int64)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found: Longs = at[self.keys[at] == keys]
        return found

    def replaced(self, keys: Longs, rows: pa.Table) -> "Standing":
        """What stands when some keys' versions are those of `rows`, or are gone where it has
        none.
        """
        kept = np.ones(len(self.keys), np.bool_)
        kept[self._at(keys)] = False
        new = Topics.keys(self.topics, *_ids(rows))
        place = np.arange(rows.num_rows) + self.rows.num_rows
        all_keys = np.concatenate([self.keys[kept], new])
        order = np.argsort(all_keys, kind="stable")
        places = np.concatenate([self.place[kept], place])[order]
        found = Standing(self.topics, all_keys[order], places, pa.concat_tables([self.rows, rows]))
        spare = found.rows.num_rows - len(found)
        return found._compacted() if spare > len(found) + _SPARE_ROWS else found

    def _compacted(self) -> "Standing":
        rows = self.rows.take(pa.array(self.place)).combine_chunks()
        return Standing(self.topics, self.keys, np.arange(len(self.keys)), rows)


def _ids(rows: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The key's columns, as arrays."""
    columns = rows.select(["topic_id", "partition_id"]).combine_chunks()
    return tuple(pa.concat_arrays(one.chunks or [pa.array([], one.type)]) for one in columns)


_BLOCK = 1024


def differing(one: Standing, other: Standing) -> list[tuple[Key, Data | None, Data | None]]:
    """The partitions of which two standings hold different versions, each with both versions.

    Equal parts are found by columns; only what differs becomes rows."""
    common = np.intersect1d(one.keys, other.keys, assume_unique=True)
    alone = np.setdiff1d(one.keys, common, assume_unique=True)
    alone_there = np.setdiff1d(other.keys, common, assume_unique=True)
    mine, theirs = (each.versions(common).cast(plain_schema()) for each in (one, other))
    blocks = [
        np.arange(at, min(at + _BLOCK, len(common)))
        for at in range(0, len(common), _BLOCK)
        if not mine.slice(at, _BLOCK).equals(theirs.slice(at, _BLOCK))
    ]
    suspects = common[np.concatenate([np.empty(0, np.int64), *blocks])]
    before = by_key(one.versions(np.sort(np.concatenate([alone, suspects]))))
    after = by_key(other.versions(np.sort(np.concatenate([alone_there, suspects]))))
    keys = dict.fromkeys([*before, *after])
    return [
        (key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)
    ]


def by_key(versions: pa.Table, fields: Collection[str] | None = None) -> dict[Key, Data]:
    """Each partition's value under Kafka's own field names, as states hold it; with `fields` only
    these of it.
    """
    if not versions.num_rows:
        return {}
    shown = [one for one in _PARTITIONS.fields if fields is None or one.json in fields]
    columns = [_listed(versions.column(_PARTITIONS.column_name(one))) for one in shown]
    names = [one.json for one in shown]
    keys = zip(
        *(_listed(versions.column(name)) for name in ("topic_id", "partition_id")), strict=True
    )
    rows = zip(*columns, strict=True)
    return {key: dict(zip(names, row, strict=True)) for key, row in zip(keys, rows, strict=True)}


def _listed(column: pa.ChunkedArray) -> list[Any]:
    """A column's values. Numbers, codes of texts, and lists of both, by way of NumPy in a fraction of
    the time; a text of many rows is one object.
    """
    kind, found = column.type, list[Any]()
    if pa.types.is_integer(kind) and not column.null_count:
        found = column.to_numpy().tolist()
    elif pa.types.is_dictionary(kind):
        for chunk in column.chunks:
            values = [*chunk.dictionary.to_pylist(), None]
            codes = pc.fill_null(chunk.indices.cast(pa.int64()), len(values) - 1)
            found += [values[code] for code in codes.to_numpy().tolist()]
    elif pa.types.is_list(kind):
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        flat = _listed(pc.list_flatten(column))
        ends = np.cumsum(lengths).tolist()
        found = [flat[start:end] for start, end in pairwise([0, *ends])]
        for at in np.flatnonzero(column.is_null().to_numpy()).tolist():
            found[at] = None
    else:
        found = column.to_pylist()
    return found
