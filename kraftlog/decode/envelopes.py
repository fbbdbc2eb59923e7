"""Where the records of a window lie, and what stands around their values: envelopes, many at once.

In: a window of record batches. Out: its records sections, unpacked where they are compressed, and
the envelopes in them, with the batches that are for the interpreter as a whole. A record's boundary
is known only from the one before it, which is a loop for the compiled part. Source: Kafka's
DefaultRecord (KIP-98).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kraftlog.errors import DecodeError
from kraftlog.log.batch import CODEC_MASK, CONTROL, HEADER_SIZE, PREFIX_SIZE
from kraftlog.log.codecs import unpack
from kraftlog.log.segment import Window
from kraftlog.native import kernel
from kraftlog.native.kernel import Bytes, Envelopes, Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Sections:
    """The records sections of some batches of a window, all in one buffer: that of the window's
    batch i lies in [starts[i], ends[i]).

    `origin` is the buffer's place in the file; None where the batches were compressed, so that no
    record has a place of its own. `handed` are batches that are for the interpreter as a whole.
    """

    buffer: bytes
    indexes: Numbers
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


def sections_of(
    window: Window, indexes: Sequence[int] | Numbers, limit: int
) -> Iterator[tuple[Numbers, list[Sections]]]:
    """Some batches of a window, none of which unpacks to more than the limit, as many at a time as
    unpack to some megabytes: their indexes, and the sections of those that lie in the window as they
    are and of those that were unpacked.
    """
    headers, chosen = window.batches.headers, np.asarray(indexes, np.int64)
    attributes = headers["attributes"].astype(np.int16)
    is_read = (window.batches.crc_valid & (attributes & CONTROL == 0))[chosen]
    is_packed = is_read & (attributes & CODEC_MASK != 0)[chosen]
    starts = window.batches.positions + (HEADER_SIZE - window.position)
    ends = starts + (headers["length"].astype(np.int64) + (PREFIX_SIZE - HEADER_SIZE))
    places, first, done = np.flatnonzero(is_packed), 0, 0
    packed = chosen[places].tolist()
    while True:
        unpacked, done = _unpacked(window, packed, done, limit, starts, ends)
        after = int(places[done]) if done < len(packed) else len(chosen)
        here = slice(first, after)
        plain = chosen[here][(is_read & ~is_packed)[here]]
        handed = chosen[here][~is_read[here]].tolist()
        held = Sections(window.buffer, plain, starts, ends, window.position, handed)
        yield chosen[here], [one for one in (held, unpacked) if len(one.indexes) or one.handed]
        if after == len(chosen):
            return
        first = after


def _unpacked(
    window: Window, packed: list[int], at: int, limit: int, starts: Numbers, ends: Numbers
) -> tuple[Sections, int]:
    """The sections of the next compressed batches, and the place in `packed` after them."""
    if at == len(packed):
        return Sections(b"", np.empty(0, np.int64), starts, ends, None), at
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
    indexes = np.array(read, np.int64)
    sections = Sections(b"".join(parts), indexes, new_starts, new_ends, None, handed)
    return sections, at


def find_frames(window: Window, sections: Sections) -> tuple[Envelopes, list[int]]:
    """The envelopes of all records of some sections, and the batches that are handed over whole:
    those in which the records' lengths do not lead through as many as there are to the end.
    """
    is_read = len(sections.buffer) <= kernel.BUFFER_LIMIT and kernel.is_here()
    read, left = np.split(sections.indexes, [len(sections.indexes) * is_read])
    found, leads = kernel.frames(
        sections.raw, window.batches.headers, read, sections.starts, sections.ends
    )
    return found, sorted([*read[~leads].tolist(), *left.tolist(), *sections.handed])
