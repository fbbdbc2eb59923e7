"""Where the records of a window lie, and what stands around their values: envelopes, many at once.

In: a window of record batches. Out: its records sections, unpacked where they are compressed, and
the `Frames` in them, with the batches that are for the interpreter as a whole. A record's boundary
is known only from the one before it: so many batches are walked in step, a few long ones in a plain
loop; from there on every step is one array operation over all records. Source: Kafka's
DefaultRecord (KIP-98).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import numpy.typing as npt

from kraftlog.decode.vector import Bytes, Cursors, Marks, Numbers, gather
from kraftlog.errors import DecodeError
from kraftlog.log.batch import CODEC_MASK, CONTROL, HEADER_SIZE, MIN_RECORD_SIZE, PREFIX_SIZE
from kraftlog.log.codecs import unpack
from kraftlog.log.segment import Window
from kraftlog.wire import unsigned_varint


@dataclass(frozen=True, slots=True, eq=False)
class Sections:
    """The records sections of some batches of a window, all in one buffer: that of the window's
    batch i lies in [starts[i], ends[i]).

    `origin` is the buffer's place in the file; None where the batches were compressed, so that no
    record has a place of its own. `handed` are batches that are for the interpreter as a whole.
    """

    buffer: bytes
    indexes: Sequence[int]
    starts: Numbers
    ends: Numbers
    origin: int | None
    handed: Sequence[int] = ()

    @property
    def raw(self) -> Bytes:
        """The buffer as numpy sees it."""
        return np.frombuffer(self.buffer, np.uint8)


_GROUP_SIZE = 4 << 20
"""Compressed batches are unpacked together until they are this large: what then is decoded at a
time stays in the processor's cache.
"""


def sections_of(window: Window, indexes: Sequence[int], limit: int) -> Iterator[Sections]:
    """The sections of some batches of a window, none of which unpacks to more than the limit. First
    those that lie in the window as they are, then the unpacked ones, some at a time.
    """
    headers, chosen = window.batches.headers, np.array(indexes, np.int64)
    attributes = headers["attributes"][chosen]
    is_read = window.batches.crc_valid[chosen] & (attributes & CONTROL == 0)
    is_packed = attributes & CODEC_MASK != 0
    starts = window.batches.positions - window.position + HEADER_SIZE
    ends = starts - HEADER_SIZE + PREFIX_SIZE + headers["length"]
    plain, handed = chosen[is_read & ~is_packed].tolist(), chosen[~is_read].tolist()
    yield Sections(window.buffer, plain, starts, ends, window.position, handed)
    packed = chosen[is_read & is_packed].tolist()
    at = 0
    while at < len(packed):
        group, at = _unpacked(window, packed, at, limit, starts, ends)
        yield group


def _unpacked(
    window: Window, packed: list[int], at: int, limit: int, starts: Numbers, ends: Numbers
) -> tuple[Sections, int]:
    """The sections of the next compressed batches, and the place in `packed` after them."""
    codecs = window.batches.headers["attributes"] & CODEC_MASK
    parts: list[bytes] = []
    read, handed = list[int](), list[int]()
    new_starts, new_ends, size = np.zeros_like(starts), np.zeros_like(ends), 0
    while at < len(packed) and size < _GROUP_SIZE:
        index = packed[at]
        at += 1
        try:
            part = unpack(int(codecs[index]), window.buffer[starts[index] : ends[index]], limit)
        except DecodeError:
            handed.append(index)
            continue
        read.append(index)
        parts.append(part)
        new_starts[index], new_ends[index] = size, size + len(part)
        size += len(part)
    # One byte more, so that there is a byte wherever a cursor may stand.
    buffer = b"".join([*parts, b"\0"])
    return Sections(buffer, read, new_starts, new_ends, None, handed), at


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


def find_frames(window: Window, sections: Sections) -> tuple[Frames, list[int]]:
    """The envelopes of all records of some sections, and the batches that are handed over whole."""
    headers, raw = window.batches.headers, sections.raw
    positions, batches, handed = _record_starts(window, sections)
    counts = headers["record_count"][batches].astype(np.int64)
    # A record ends where the next one begins, and a batch's last one where the batch does.
    after_last = np.cumsum(counts)
    record_ends = np.append(positions[1:], 0) if len(positions) else positions
    record_ends[after_last[counts > 0] - 1] = sections.ends[batches][counts > 0]
    batch_index = np.repeat(batches, counts)
    cursors = Cursors(raw, positions, record_ends)
    lengths = cursors.signed_varints()
    astray = cursors.bad | (cursors.at + lengths != record_ends)
    if astray.any():
        # Negative lengths, say, that led to the end all the same. Once more without those batches.
        broken = set(batch_index[astray].tolist())
        kept = [one for one in sections.indexes if one not in broken]
        frames, more = find_frames(window, replace(sections, indexes=kept))
        return frames, sorted([*more, *broken])
    record_index = np.arange(len(positions)) - np.repeat(after_last - counts, counts)
    return _read_envelopes(cursors, positions, batch_index, record_index), handed


def _record_starts(window: Window, sections: Sections) -> tuple[Numbers, Numbers, list[int]]:
    """Where all records begin; the batches in which they lie; the batches that are handed over:
    those in which the records' lengths do not lead through as many as there are to the end. Every
    step goes forward, so that it is enough to look at the end.
    """
    chosen = np.array(sections.indexes, np.int64)
    counts = window.batches.headers["record_count"][chosen].astype(np.int64)
    starts, ends = sections.starts[chosen], sections.ends[chosen]
    is_kept = (counts >= 0) & (counts <= (ends - starts) // MIN_RECORD_SIZE)
    places = np.flatnonzero(is_kept)
    positions, reached = _walked(sections, starts[places], counts[places])
    leads = reached == ends[places]
    if not leads.all():
        positions = positions[np.repeat(leads, counts[places])]
        is_kept[places] = leads
    return positions, chosen[is_kept], sorted([*chosen[~is_kept].tolist(), *sections.handed])


def _walked(sections: Sections, starts: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Where the records of some batches begin, batch after batch, and where each batch's last one
    ends: by their lengths, in all batches at once as long as many go on, then batch by batch.
    """
    longest_first = np.argsort(-counts, kind="stable")
    place = (np.cumsum(counts) - counts)[longest_first]
    at, left = starts[longest_first], -counts[longest_first]
    positions = np.empty(int(counts.sum()), np.int64)
    raw, done = sections.raw, 0
    while (going := int(np.searchsorted(left, -done))) >= _AT_ONCE:
        here = at[:going]
        positions[place[:going] + done] = here
        here += _steps(sections.buffer, raw, here)
        done += 1
    for one in range(going):
        first, after = int(place[one]) + done, int(place[one] - left[one])
        starts_of_one, at[one] = _walked_singly(sections.buffer, int(at[one]), after - first)
        positions[first : first + len(starts_of_one)] = starts_of_one
    reached = np.empty_like(at)
    reached[longest_first] = at
    return positions, reached


_AT_ONCE = 128
"""So many batches are walked faster together than one by one."""
_ASTRAY = 1 << 40
"""A step beyond the end of any batch."""


def _step_sizes() -> npt.NDArray[np.uint16]:
    """By the first two bytes of a record, little-endian: how far the next one is; 0 where its
    length has more bytes than two."""
    pair = np.arange(1 << 16)
    first, second = pair & 0xFF, pair >> 8
    one = 1 + (first >> 1)
    two = 2 + ((first & 0x7F | second << 7) >> 1)
    return np.where(first < 0x80, one, np.where(second < 0x80, two, 0)).astype(np.uint16)


_STEP_SIZES = _step_sizes()


def _steps(buffer: bytes, raw: Bytes, here: Numbers) -> Numbers:
    """From each of some records to the one behind it; `raw` is the buffer as numpy sees it."""
    pairs = gather(raw, np.minimum(here, len(raw) - 2), 2).view("<u2")
    steps = _STEP_SIZES.take(pairs).astype(np.int64)
    if not steps.all():
        for lane in np.flatnonzero(steps == 0).tolist():
            at = int(here[lane])
            _, after = _walked_singly(buffer, at, 1)
            steps[lane] = after - at if after >= 0 else _ASTRAY
    return steps


def _walked_singly(buffer: bytes, at: int, count: int) -> tuple[list[int], int]:
    """Where each of so many records begins, and where the last one ends; −1 where a length is none,
    or beyond the buffer."""
    found: list[int] = []
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
                    length, at = unsigned_varint(buffer, at - 2, len(buffer), "record length")
            at += length >> 1
    except (IndexError, DecodeError):
        at = -1
    return found, at


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
