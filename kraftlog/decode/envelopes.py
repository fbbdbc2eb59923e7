"""Where the records of a window lie, and what stands around their values: envelopes, many at once.

In: a window of record batches. Out: `Frames`, and the batches that are for the interpreter as a
whole. Record boundaries are found in a plain loop, as each is known only from the one before (but
for a batch's first); from there on every step is one array operation over all records. Source:
Kafka's DefaultRecord (KIP-98).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from kraftlog.decode.vector import Bytes, Cursors, Marks, Numbers
from kraftlog.errors import DecodeError
from kraftlog.log.batch import CODEC_MASK, CONTROL, HEADER_SIZE, MIN_RECORD_SIZE, PREFIX_SIZE
from kraftlog.log.segment import Window
from kraftlog.wire import unsigned_varint


@dataclass(frozen=True, slots=True)
class Frames:
    """The envelopes of many records, an entry per record; positions are in the window's buffer.

    Where `bad` is set, only the batch, the index and the range [position, end) mean anything.
    """

    batch_index: Numbers
    record_index: Numbers
    position: Numbers
    end: Numbers
    timestamp_delta: Numbers
    offset_delta: Numbers
    value_start: Numbers
    value_end: Numbers
    bad: Marks


def find_frames(window: Window, raw: Bytes, indexes: Sequence[int]) -> tuple[Frames, list[int]]:
    """The envelopes of all records of some batches, and the batches that are handed over whole."""
    headers = window.batches.headers
    starts = window.batches.positions - window.position + HEADER_SIZE
    ends = starts - HEADER_SIZE + PREFIX_SIZE + headers["length"]
    positions, batches, handed = _record_starts(window, indexes, starts, ends)
    counts = headers["record_count"][batches].astype(np.int64)
    # A record ends where the next one begins, and a batch's last one where the batch does.
    after_last = np.cumsum(counts)
    record_ends = np.append(positions[1:], 0) if len(positions) else positions
    record_ends[after_last[counts > 0] - 1] = ends[batches][counts > 0]
    batch_index = np.repeat(batches, counts)
    cursors = Cursors(raw, positions, record_ends)
    lengths = cursors.signed_varints()
    astray = cursors.bad | (cursors.at + lengths != record_ends)
    if astray.any():
        # Negative lengths, say, that led to the end all the same. Once more without those batches.
        broken = set(batch_index[astray].tolist())
        frames, more = find_frames(window, raw, [one for one in indexes if one not in broken])
        return frames, sorted([*more, *broken])
    record_index = np.arange(len(positions)) - np.repeat(after_last - counts, counts)
    return _read_envelopes(cursors, positions, batch_index, record_index), handed


def _record_starts(
    window: Window, indexes: Sequence[int], starts: Numbers, ends: Numbers
) -> tuple[Numbers, Numbers, list[int]]:
    """Where all records begin; the batches in which they lie; the batches that are handed over."""
    headers, chosen = window.batches.headers, np.array(indexes, np.int64)
    odd = headers["attributes"] & (CODEC_MASK | CONTROL) != 0
    is_kept = window.batches.crc_valid & ~odd
    # A batch's only record begins where the records do; an idle log is made of such batches.
    single = chosen[(is_kept & (headers["record_count"] == 1))[chosen]]
    many = chosen[(is_kept & (headers["record_count"] != 1))[chosen]]
    found: list[int] = []
    places = many, starts[many], ends[many], headers["record_count"][many]
    for index, start, end, count in zip(*(values.tolist() for values in places), strict=True):
        is_kept[index] = _add_record_starts(found, window.buffer, start, end, count)
    positions = np.fromiter(found, np.int64, len(found))
    if len(single):
        positions = np.sort(np.concatenate([positions, starts[single]]))
    return positions, chosen[is_kept[chosen]], chosen[~is_kept[chosen]].tolist()


def _add_record_starts(found: list[int], buffer: bytes, start: int, end: int, count: int) -> bool:
    """Add where each record of a batch begins, by the records' lengths.

    False, with nothing added, where the lengths do not lead through `count` records to the end:
    every step goes forward, so that it is enough to look at the end.
    """
    if not 0 <= count <= (end - start) // MIN_RECORD_SIZE:
        return False
    before, at = len(found), start
    add = found.append
    try:
        for _ in repeat(None, count):
            add(at)
            length = buffer[at]
            at += 1
            if length >= 0x80:
                more = buffer[at]
                at += 1
                length = length & 0x7F | more << 7
                if more >= 0x80:
                    length, at = unsigned_varint(buffer, at - 2, end, "record length")
            at += length >> 1
    except (IndexError, DecodeError):
        at = -1
    if at != end:
        del found[before:]
        return False
    return True


def _read_envelopes(
    cursors: Cursors, position: Numbers, batch_index: Numbers, record_index: Numbers
) -> Frames:
    """What stands before and after a record's value. Keys and headers, which Kafka does not write
    into this log, count as abnormal, and so does a value of null."""
    cursors.move(1)
    timestamp_delta = cursors.signed_varints()
    offset_delta = cursors.signed_varints()
    key_size = cursors.signed_varints()
    value_size = cursors.signed_varints()
    value_start = cursors.at
    cursors.move(np.maximum(value_size, 0))
    value_end = cursors.at
    header_count = cursors.signed_varints()
    odd = (key_size >= 0) | (value_size < 0) | (header_count != 0)
    return Frames(
        batch_index,
        record_index,
        position,
        cursors.limit,
        timestamp_delta,
        offset_delta,
        value_start,
        value_end,
        odd | ~cursors.ended(),
    )
