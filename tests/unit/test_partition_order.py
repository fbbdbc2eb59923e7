"""The order of partitions' events: by the shortcut and by the plain way."""

import numpy as np
import pytest

from kraftlog.state.partition_events import _by_key_and_offset, distinct


@pytest.mark.parametrize("largest_id", [9, (1 << 32) - 1])
def test_events_are_in_the_order_of_key_and_offset(largest_id: int) -> None:
    """Ids of 32 bits do not fit into one number with the row, and are sorted the plain way."""
    random = np.random.default_rng(7)
    codes, ids = random.integers(0, 1 << 20, 500) % 5, random.integers(0, largest_id, 500)
    codes[0] = 1 << 28
    keys, offsets = codes << 32 | ids, random.integers(-2, 40, 500)
    expected = np.lexsort((offsets, keys))
    assert _by_key_and_offset(keys, offsets).tolist() == expected.tolist()
    assert distinct(keys).tolist() == sorted(set(keys.tolist()))


def test_no_events() -> None:
    nothing = np.empty(0, np.int64)
    assert _by_key_and_offset(nothing, nothing).tolist() == []
    assert distinct(nothing).tolist() == []
