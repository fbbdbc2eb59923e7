"""Index files of any bytes: entries, padding and surplus cover them, and padding is what is zero."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.log.sidefiles import INDEX_ENTRY, TIME_INDEX_ENTRY, read_index

SPARSE = st.lists(st.one_of(st.just(b""), st.binary(max_size=9)).map(lambda one: one + bytes(7)))


@pytest.mark.parametrize("entry", [INDEX_ENTRY, TIME_INDEX_ENTRY], ids=["index", "timeindex"])
@given(parts=SPARSE, padding=st.integers(0, 40))
def test_entries_end_where_only_zeros_follow(
    entry: np.dtype[np.void], parts: list[bytes], padding: int
) -> None:
    raw, size = b"".join(parts) + bytes(padding), entry.itemsize
    whole = [raw[at : at + size] for at in range(0, len(raw) - size + 1, size)]
    used = max((at + 1 for at, one in enumerate(whole) if any(one)), default=0)
    found = read_index(raw, entry)
    assert found.entries.tobytes() == raw[: used * size]
    assert found.padding_size_bytes == (len(whole) - used) * size
    assert found.surplus_size_bytes == len(raw) % size
