"""Arrays of many records gathered together, and the order of partitions' events: by the shortcut
and by the plain way."""

import numpy as np
import pytest

from kraftlog.decode.vector import flat_starts, gather, gather_lists, numbers
from kraftlog.state.partition_events import _by_key_and_offset, distinct

RAW = np.arange(64, dtype=np.uint8)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([2, -1, 0, 1], [0x00010203, 0x04050607, 0x1E1F2021]),
        ([1, 1, 1, 1], [0x00010203, 0x0A0B0C0D, 0x14151617, 0x1E1F2021]),
        ([0, -1, 0, 0], []),
    ],
)
def test_elements_of_arrays(lengths: list[int], expected: list[int]) -> None:
    starts = np.array([0, 10, 20, 30])
    offsets, cells = gather_lists(RAW, starts, np.array(lengths), 4)
    assert numbers(cells, "i4").tolist() == expected
    assert np.diff(offsets).tolist() == [max(0, length) for length in lengths]


@pytest.mark.parametrize("lengths", [[3, 1], [0, 2], [9, 3], [1, 6]])
def test_gathered_lists_are_those_of_single_elements(lengths: list[int]) -> None:
    """Also at the buffer's end, where a short array cannot be read as long as the longest, and for
    arrays that are longer than the shortcut takes."""
    starts, counts = np.array([0, 40]), np.array(lengths)
    offsets, flat = flat_starts(starts, counts, 4)
    found_offsets, cells = gather_lists(RAW, starts, counts, 4)
    assert found_offsets.tolist() == offsets.tolist()
    assert cells.tolist() == gather(RAW, flat, 4).tolist()


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
