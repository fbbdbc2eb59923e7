"""What is read many at a time, or ahead, says the same as what is read one by one."""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.envelopes import Sections, find_frames, sections_of
from kraftlog.errors import InputError
from kraftlog.log.frames import FrameFault, read_frames
from kraftlog.log.segment import Window
from kraftlog.message.catalogue import metadata_specs
from kraftlog.quorum.detect import JUDGED_BODIES, metadata_versions, remarkable
from kraftlog.state.encode import encode_batch, metadata_record
from kraftlog.state.window import RecordWindow, ahead
from tests.golden.cases import Replica
from tests.property.engines import DECOMPRESSED_LIMIT, MASKED, flipped, sealed, window_of, windows

CONFIG = next(one for one in metadata_specs().values() if one.type == "CONFIG_RECORD")
SIZES = (0, 1, 60, 61, 200, 8_170, 8_200, 40_000)
"""Bytes of a config's value: record lengths of one, two and three bytes, and their borders."""
LENGTH_OF_FIRST_RECORD = (61 * 8, 62 * 8, 63 * 8)
"""Bits in the varint before the first record."""


def batch(base: int, sizes: list[int]) -> bytes:
    records = [
        metadata_record(
            CONFIG,
            0,
            {"resourceType": 2, "resourceName": "t", "name": "n", "value": "v" * size},
        )
        for size in sizes
    ]
    return encode_batch(records, base, 1, 1_700_000_000_000)


def many(count: int, seed: int) -> Window:
    """Batches of 1 to 7 records, of which every fifth has a flipped bit in a record's length."""
    random, base, made = Random(seed), 0, list[bytes]()
    for number in range(count):
        sizes = [random.choice(SIZES) for _ in range(random.randrange(1, 8))]
        one = batch(base, sizes)
        base += len(sizes)
        if number % 5 == 4:
            one = sealed(flipped(one, random.choice(LENGTH_OF_FIRST_RECORD) + random.randrange(8)))
        made.append(one)
    return window_of(made)


def whole(window: Window) -> Sections:
    ((_, (sections,)),) = sections_of(window, range(len(window.batches)), DECOMPRESSED_LIMIT)
    return sections


@pytest.mark.parametrize("seed", range(4))
def test_frames_are_those_of_the_definition(seed: int) -> None:
    """Batch by batch: a batch that the definition finds broken anywhere is handed over. A record with
    attributes, which Kafka never writes, is bad too: only the definition reads it.
    """
    window = many(200, seed)
    sections = whole(window)
    found, handed = find_frames(window, sections)
    assert 0 < len(handed) <= 40
    for index in sections.indexes:
        start, end = int(sections.starts[index]), int(sections.ends[index])
        count = int(window.batches.headers["record_count"][index])
        expected = list(read_frames(window.buffer, start, end, count))
        rows = np.flatnonzero(found.batch == index)
        if index in handed:
            assert not len(rows)
            continue
        assert found.position[rows].tolist() == [one.position for one in expected]
        assert found.end[rows].tolist() == [one.end for one in expected]
        assert found.bad[rows].tolist() == [
            isinstance(one, FrameFault) or one.attributes != 0 for one in expected
        ]


def test_records_begin_where_they_were_written() -> None:
    window = window_of([batch(0, [0, 61, 8_200])] * 150)
    found, handed = find_frames(window, whole(window))
    assert not handed
    values = [
        window.buffer[start:end].count(b"v")
        for start, end in zip(found.value_start.tolist(), found.value_end.tolist(), strict=True)
    ]
    assert values == [0, 61, 8_200] * 150


@pytest.mark.parametrize(
    "case", ["synthetic-every-type", "synthetic-semantics", "synthetic-every-control"]
)
def test_what_is_remarkable_needs_few_bodies(case: str) -> None:
    """A batch is as remarkable whether or not its values are read."""
    found = 0
    for path in sorted(Replica(case, "0").log_dir.glob("*.log")):
        for window in windows(path):
            (every,) = decode_window(window, None, MASKED, DECOMPRESSED_LIMIT)
            (few,) = decode_window(window, None, MASKED, DECOMPRESSED_LIMIT, bodies=JUDGED_BODIES)
            assert remarkable(window, few) == remarkable(window, every)
            assert metadata_versions(few) == metadata_versions(every)
            assert {name: rows.num_rows for name, rows in few.records.items()} == {
                name: rows.num_rows for name, rows in every.records.items()
            }
            found += 1
    assert found


def test_windows_that_are_read_ahead_are_the_same() -> None:
    def read(count: int, *, breaks: bool) -> Iterator[RecordWindow]:
        yield from (RecordWindow(at, at + 1, {}, {}) for at in range(count))
        if breaks:
            raise InputError("the disk is gone")

    assert [one.start_offset for one in ahead(read(5, breaks=False))] == [0, 1, 2, 3, 4]
    assert not list(ahead(read(0, breaks=False)))
    windows_read = ahead(read(2, breaks=True))
    assert [next(windows_read).start_offset, next(windows_read).start_offset] == [0, 1]
    with pytest.raises(InputError, match="the disk is gone"):
        next(windows_read)
