"""The last record of each key, of one table's records.

In: columns of keys, and offsets, batch by batch. Out: a number per key that is the same in all
batches, and the places of the last records of a batch.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.metrics.numbering import numbered
from kraftlog.native.sorting import order_of
from kraftlog.quorum.evidence import Longs

_LOW_BITS = 33
_NULL = 1 << 32
"""The low half of a key is a number of 32 bits as it is, or null."""
_SPARSE = 8
"""Keys that need a table of more places than so many times the records are hashed instead."""


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
        keys = numbered(columns[0], self._known["value", 0])
        for at, column in enumerate(columns[1:], 1):
            if at > 1:
                keys = numbered(pa.array(keys), self._known["pair", at])
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
            return numbered(column, self._known["value", at])
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
