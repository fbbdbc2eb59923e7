"""Columns as numbers, one for each distinct value.

In: Arrow columns of any type with the numbers of their values so far. Out: arrays of numbers.
"""

import json

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
