"""Bounded primitives over many records at once: one cursor per record, all over the same bytes.

In: bytes as numpy sees them, a cursor and a limit per record. Out: numpy and Arrow columns. Cursors
only ever move forward, so that one that stands exactly at its limit in the end never read beyond
it; the others are abnormal, and `records` says what they mean. Reads are clipped to the buffer,
whatever a cursor's place. Runs in executors, on windows of a few MB.
"""

from base64 import b64encode

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog.wire import utf8_text

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

UUID_SIZE = 16
_UUID_TEXT_SIZE = 22


class Cursors:
    """Where each of many records is being read, where it ends, and `bad` where it went wrong."""

    __slots__ = ("at", "bad", "limit", "raw")

    def __init__(self, raw: Bytes, at: Numbers, limit: Numbers) -> None:
        self.raw, self.at, self.limit = raw, at, limit
        self.bad: Marks = np.zeros(len(at), np.bool_)

    def some(self, rows: Numbers) -> "Cursors":
        """Cursors of their own for some of the records."""
        return Cursors(self.raw, self.at.take(rows), self.limit.take(rows))

    def move(self, sizes: Numbers | int) -> None:
        """Step over so many bytes, which may lead beyond the limit; sizes are never negative."""
        self.at = self.at + sizes

    def varints(self) -> Numbers:
        """Unsigned varints of up to four bytes, 28 bits; longer ones count as abnormal."""
        first = self.raw.take(self.at, mode="clip")
        values = first.astype(np.int64)
        after = self.at + 1
        more = np.flatnonzero(first >= 0x80)
        if len(more):
            self._read_on(values, after, more)
        self.at = after
        return values

    def signed_varints(self) -> Numbers:
        """Zigzag varints, likewise; the same for 32 and 64 bits as they have at most 28."""
        values = self.varints()
        return (values >> 1) ^ -(values & 1)

    def ended(self) -> Marks:
        """Which records have been read in full, and as far as is known normally."""
        ended: Marks = (self.at == self.limit) & ~self.bad
        return ended

    def _read_on(self, values: Numbers, after: Numbers, rows: Numbers) -> None:
        value, at = values.take(rows) & 0x7F, after.take(rows)
        for shift in (7, 14, 21):
            byte = self.raw.take(at, mode="clip")
            value |= (byte & np.uint8(0x7F)).astype(np.int64) << shift
            at += 1
            more = byte >= 0x80
            if not more.any():
                break
            values[rows], after[rows] = value, at
            rows, value, at = rows[more], value[more], at[more]
        else:
            self.bad[rows] = True
        values[rows], after[rows] = value, at


def gather(raw: Bytes, starts: Numbers, width: int) -> npt.NDArray[np.void]:
    """The `width` bytes at each of these places, all of which must lie inside the buffer.

    numpy copies opaque elements of an unaligned view three times as fast as numbers.
    """
    return _windows(raw, width)[starts]


def _windows(raw: Bytes, width: int) -> npt.NDArray[np.void]:
    """The bytes [i, i + width) for every i."""
    return np.ndarray((max(0, len(raw) - width + 1),), f"V{width}", raw, strides=(1,))


def numbers(cells: npt.NDArray[np.void], kind: str) -> npt.NDArray[np.generic]:
    """Big-endian values as numbers: `kind` is numpy's name without the order."""
    return cells.view(f">{kind}").astype(kind, copy=False)


def gather_lists(
    raw: Bytes, starts: Numbers, lengths: Numbers, width: int
) -> tuple[Numbers, npt.NDArray[np.void]]:
    """(offsets, elements of `width` bytes) of arrays in a row; an array of length −1 has none."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    filled = np.flatnonzero(lengths > 0)
    starts, lengths = starts.take(filled), lengths.take(filled)
    longest = int(lengths.max()) if len(lengths) else 0
    if longest > _LONG_LIST or (len(starts) and starts.max() > len(raw) - longest * width):
        _, flat = flat_starts(starts, lengths, width)
        return offsets, gather(raw, flat, width)
    # Of every array as many elements as the longest has, in one go; then those that are its own.
    table = gather(raw, starts, max(1, longest) * width).view(f"V{width}")
    if offsets[-1] == len(table):
        return offsets, table
    own = np.empty((len(lengths), longest), np.bool_)
    for index in range(longest):
        np.greater(lengths, index, out=own[:, index])
    return offsets, table[np.flatnonzero(own)]


_LONG_LIST = 8
"""Arrays with more elements than this are gathered element by element."""


def flat_starts(starts: Numbers, lengths: Numbers, width: int) -> tuple[Numbers, Numbers]:
    """(offsets, starts) of all elements of arrays in a row; an array of length −1 has none."""
    counts = np.maximum(lengths, 0)
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    flat = np.repeat(starts - offsets[:-1] * width, counts)
    flat += np.arange(offsets[-1]) * width
    return offsets, flat


def uuid_column(cells: npt.NDArray[np.void]) -> pa.Array:
    """Kafka's text of UUIDs: the text is made once per distinct value."""
    values = pa.Array.from_buffers(
        pa.binary(UUID_SIZE), len(cells), [None, pa.py_buffer(cells)]
    ).dictionary_encode()
    distinct = np.frombuffer(values.dictionary.buffers()[1], np.uint8)
    return _uuid_texts(distinct, len(values.dictionary)).take(values.indices)


def _uuid_texts(raw: Bytes, count: int) -> pa.Array:
    """Base64 without padding: 16 bytes are eleven times 12 bits, two characters each."""
    words = np.zeros((count, 18), np.uint8)
    words[:, :UUID_SIZE] = raw[: count * UUID_SIZE].reshape(count, UUID_SIZE)
    first, second, third = (words[:, at::3].astype(np.uint16) for at in range(3))
    pairs = np.empty((count, 12), np.uint16)
    pairs[:, 0::2] = _BASE64_PAIRS[first << 4 | second >> 4]
    pairs[:, 1::2] = _BASE64_PAIRS[(second & 15) << 8 | third]
    texts = np.ascontiguousarray(pairs[:, : _UUID_TEXT_SIZE // 2])
    offsets = np.arange(count + 1, dtype=np.int32) * _UUID_TEXT_SIZE
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))


def _base64_pairs() -> npt.NDArray[np.uint16]:
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return np.array([[one, two] for one in letters for two in letters], np.uint8).view("u2").ravel()


_BASE64_PAIRS = _base64_pairs()


def text_column(raw: Bytes, starts: Numbers, lengths: Numbers) -> pa.Array:
    """UTF-8 text; a length of −1 is null."""
    offsets, flat = flat_starts(starts, lengths, 1)
    validity = pa.array(lengths >= 0).buffers()[1] if (lengths < 0).any() else None
    texts = pa.StringArray.from_buffers(
        len(lengths),
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(raw.take(flat)),
        validity,
    )
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        # Not UTF-8 somewhere: the interpreter's own way of reading it, value by value.
        whole = [None if one is None else utf8_text(one) for one in _pieces(raw, starts, lengths)]
        return pa.array(whole, pa.string())
    return texts


def base64_column(raw: Bytes, starts: Numbers, lengths: Numbers) -> pa.Array:
    """Bytes as base64 text; a length of −1 is null."""
    pieces = _pieces(raw, starts, lengths)
    return pa.array(
        [None if one is None else b64encode(one).decode() for one in pieces], pa.string()
    )


def _pieces(raw: Bytes, starts: Numbers, lengths: Numbers) -> list[bytes | None]:
    return [
        None if length < 0 else raw[start : start + length].tobytes()
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
