"""Columns as numbers, one for each distinct value; and keys as lists of texts, as tables hold them.

In: Arrow columns of any type with the numbers of their values so far. Out: arrays of numbers.
"""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.quorum.evidence import Longs


def numbered(column: pa.Array | pa.ChunkedArray, known: dict[object, int]) -> Longs:
    """The number of each value; new ones are taken into what is `known`. Nested values are numbered
    by their JSON, null like a value.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_nested(column.type):
        column = pa.array([json.dumps(one) for one in column.to_pylist()], pa.string())
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
