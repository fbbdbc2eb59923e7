"""The order of numbers.

In: numbers from 0 on. Out: the places in which they are in order, equal ones as they came.
"""

import numpy as np

from kraftlog.quorum.evidence import Longs


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
