"""Columns as numbers, one for each distinct value, and the order of numbers.

In: Arrow columns of any type with the numbers of their values so far, or numbers from 0 on. Out:
arrays of numbers, or the places in which they are in order.
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


def order_of(values: Longs) -> Longs:
    """The stable order of numbers. Each is sorted with its place in its low bits: NumPy sorts plain
    numbers ten times as fast as places.
    """
    bits = len(values).bit_length()
    lowest, highest = int(values.min(initial=0)), int(values.max(initial=0))
    if lowest < 0 or highest.bit_length() + bits > 63:
        return np.argsort(values, kind="stable")
    packed = values << bits
    packed |= np.arange(len(values))
    packed.sort()
    packed &= (1 << bits) - 1
    return packed
