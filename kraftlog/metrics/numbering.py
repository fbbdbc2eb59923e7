"""Columns as numbers, one for each distinct value; keys as numbers, and as lists of texts, as tables
hold them; and the last record of each key.

In: Arrow columns of any type with the numbers of their values so far; columns of keys, and offsets,
batch by batch. Out: arrays of numbers, which are the same in all batches, and places in a batch.
"""

import json
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.native.folding import order_of
from kraftlog.quorum.evidence import Longs

_LOW_BITS = 33
_NULL = 1 << 32
"""The low half of a key is a number of 32 bits as it is, or null."""
_SPARSE = 8
"""Keys that need a table of more places than so many times the records are hashed instead."""


def numbered_values(column: pa.Array | pa.ChunkedArray, known: dict[object, int]) -> Longs:
    """The number of each value; new ones are taken into what is `known`. Nested values are numbered
    by their JSON, null like a value; the order of a list (a quota's entity) says nothing.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_nested(column.type):
        values = (
            sorted(one, key=str) if isinstance(one, list) else one for one in column.to_pylist()
        )
        column = pa.array(map(json.dumps, values), pa.string())
    if pa.types.is_dictionary(column.type) and column.null_count:
        column = column.cast(column.type.value_type)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column, null_encoding="encode")
    values = column.dictionary.to_pylist()
    numbers = np.array([known.setdefault(one, len(known)) for one in values], np.int64)
    found: Longs = numbers[column.indices.to_numpy(zero_copy_only=False)]
    return found


def as_lists(fields: Sequence[pa.Array], count: int) -> pa.ListArray:
    """So many keys, each with its fields, from a column of texts per field."""
    width = len(fields)
    order = np.arange(count * width).reshape(width, count).T.ravel()
    flat = pa.concat_arrays([pa.array([], pa.string()), *fields]).take(pa.array(order))
    return pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32) * width, flat)


def of_lists(keys: pa.ChunkedArray, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """The way back: a column per field, of its kind; nested ones stay the JSON that they are numbered
    by.
    """
    texts = keys.combine_chunks().flatten()
    places = np.arange(len(keys)) * len(kinds)
    plain = [pa.string() if pa.types.is_nested(kind) else kind for kind in kinds]
    return [texts.take(pa.array(places + at)).cast(kind) for at, kind in enumerate(plain)]


class KeyNumbers:
    """A number per key of one table."""

    def __init__(self) -> None:
        self._known: defaultdict[tuple[str, int], dict[object, int]] = defaultdict(dict)

    def of(self, columns: Sequence[pa.Array], count: int) -> Longs:
        """The numbers of so many keys. Of several columns each further one takes the low half. High
        halves stay far below 2**30: there are no more than there are distinct values.
        """
        if not columns:
            return np.zeros(count, np.int64)
        keys = numbered_values(columns[0], self._known["value", 0])
        for at, column in enumerate(columns[1:], 1):
            if at > 1:
                keys = numbered_values(pa.array(keys), self._known["pair", at])
            keys = keys << _LOW_BITS | self._low(column, at)
        return keys

    def fields(self, keys: Longs, count: int) -> list[pa.Array]:
        """The way back: the fields of keys that have so many, as texts; null where it was null."""
        found = []
        for at in range(count - 1, 0, -1):
            low, keys = keys & ((1 << _LOW_BITS) - 1), keys >> _LOW_BITS
            found.append(self._texts(low, at))
            if at > 1:
                keys = np.array(list(self._known["pair", at]), np.int64)[keys]
        return [self._texts(keys, 0), *reversed(found)] if count else []

    def _texts(self, numbers: Longs, at: int) -> pa.Array:
        """One field: numbers of its values, or 32-bit numbers as they are."""
        if ("value", at) in self._known:
            texts = pa.array(list(self._known["value", at])).cast(pa.string())
            return texts.take(pa.array(numbers))
        low = np.where(numbers >= _NULL >> 1, numbers - _NULL, numbers)
        return pa.array(low, mask=numbers == _NULL).cast(pa.string())

    def _low(self, column: pa.Array, at: int) -> Longs:
        if not pa.types.is_int32(column.type):
            return numbered_values(column, self._known["value", at])
        low: Longs = pc.fill_null(column.cast(pa.int64()), _NULL).to_numpy()
        return low if low.min(initial=0) >= 0 else np.where(low < 0, low + _NULL, low)


def last_of_each(keys: Longs, offsets: Longs) -> Longs:
    """The place of the record with the highest offset of each key; of one record at least."""
    codes, count = _codes(keys)
    last = _last_places(codes, np.arange(len(keys)), count)
    if np.any(offsets[1:] < offsets[:-1]) and np.any(offsets[last[codes]] < offsets):
        order = order_of(offsets)
        last = _last_places(codes[order], order, count)
    return last[last >= 0]


def _last_places(codes: Longs, places: Longs, count: int) -> Longs:
    """The last of the places of each code, −1 for none."""
    last = np.full(count, -1, np.int64)
    last[codes] = places  # of several values for one index, the last one stays
    return last


def _codes(keys: Longs) -> tuple[Longs, int]:
    """A small number per key, and how many there may be: its place in a table of both halves, where
    that is not much larger than the keys are many.
    """
    high, low = keys >> _LOW_BITS, keys & ((1 << _LOW_BITS) - 1)
    high -= high.min()
    low -= low.min()
    width = int(low.max()) + 1
    count = (int(high.max()) + 1) * width
    if count <= _SPARSE * len(keys):
        return high * width + low, count
    encoded = pa.array(keys).dictionary_encode()
    return encoded.indices.to_numpy(), len(encoded.dictionary)
