"""The envelopes of the records in a batch: where each key and value lies. No value is interpreted.

In: a batch's records section, unpacked. Out: frames and faults in order. This is the definition;
the columnar path must find the same. Source: Kafka's DefaultRecord (KIP-98): length, attributes,
timestamp delta, offset delta, key, value, headers.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kraftlog.errors import DecodeError
from kraftlog.log.fault import FaultKind
from kraftlog.plain import counted
from kraftlog.wire import Buffer, need, varint, varlong


class Frame(NamedTuple):
    """One record's envelope. Positions are in the buffer; a key or value that is null has
    start −1. `header_count` is −1 where what follows the value is no headers but ends with a 0,
    which is all that Kafka's reader of metadata looks at there.
    """

    index: int  # type: ignore[assignment]  # nobody looks for an element of this tuple
    position: int
    end: int
    attributes: int
    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_end: int
    value_start: int
    value_end: int
    header_count: int


class FrameFault(NamedTuple):
    """A range of the buffer that is no record; `index` is the record that should stand there."""

    kind: FaultKind
    index: int  # type: ignore[assignment]  # nobody looks for an element of this tuple
    position: int
    end: int
    detail: str


def read_frames(buffer: Buffer, start: int, limit: int, count: int) -> Iterator[Frame | FrameFault]:
    """The records of one batch, whose header says that it holds `count`.

    A record whose own length is sane is passed over when its inside is broken; a broken length ends
    the batch.
    """
    position = start
    for index in range(max(count, 0)):
        if position >= limit:
            detail = f"the header says {counted(count, 'record')}, the batch holds {index}"
            yield FrameFault(FaultKind.RECORD_COUNT, index, position, limit, detail)
            return
        try:
            length, body = varint(buffer, position, limit, "record length")
            end = need(body, length, limit, "record")
        except DecodeError as error:
            yield FrameFault(FaultKind.RECORD_FRAME, index, position, limit, error.detail)
            return
        try:
            yield _read_frame(buffer, index, position, body, end)
        except DecodeError as error:
            yield FrameFault(FaultKind.RECORD_FRAME, index, position, end, error.detail)
        position = end
    if position < limit:
        rest = limit - position
        detail = f"{counted(rest, 'byte')} left after the last record"
        yield FrameFault(FaultKind.BATCH_TRAILING, max(count, 0), position, limit, detail)


def long_records(
    buffer: Buffer, start: int, limit: int, count: int, size_bytes: int
) -> Iterator[tuple[int, int]]:
    """(index, size in bytes) of the records of one batch that are longer than `size_bytes`, by their
    lengths alone; nothing behind a broken one.
    """
    position = start
    for index in range(max(count, 0)):
        try:
            length, body = varint(buffer, position, limit, "record length")
            position = need(body, length, limit, "record")
        except DecodeError:
            return
        if length > size_bytes:
            yield index, length


def _read_frame(buffer: Buffer, index: int, position: int, body: int, end: int) -> Frame:
    at = need(body, 1, end, "record attributes")
    timestamp_delta, at = varlong(buffer, at, end, "timestamp delta")
    offset_delta, at = varint(buffer, at, end, "offset delta")
    key, at = _bytes(buffer, at, end, "key")
    value, at = _bytes(buffer, at, end, "value")
    try:
        header_count = _header_count(buffer, at, end)
    except DecodeError:
        if at >= end or buffer[end - 1]:
            raise
        header_count = -1
    deltas = timestamp_delta, offset_delta
    return Frame(index, position, end, buffer[body], *deltas, *key, *value, header_count)


_NULL = (-1, -1)


def _header_count(buffer: Buffer, at: int, end: int) -> int:
    """How many headers there are, which must fill the rest of the record."""
    header_count, at = varint(buffer, at, end, "header count")
    if header_count < 0:
        raise DecodeError(FaultKind.RECORD_FRAME, at, f"header count {header_count} is negative")
    for _ in range(header_count):
        name, at = _bytes(buffer, at, end, "header key")
        if name == _NULL:
            raise DecodeError(FaultKind.RECORD_FRAME, at, "a header has no key")
        _, at = _bytes(buffer, at, end, "header value")
    if at != end:
        raise DecodeError(
            FaultKind.RECORD_FRAME, at, f"{end - at} bytes are left inside the record's length"
        )
    return header_count


def _bytes(buffer: Buffer, at: int, end: int, what: str) -> tuple[tuple[int, int], int]:
    """(start, end) of a length-prefixed run of bytes, or null, and the position after it."""
    length, at = varint(buffer, at, end, f"{what} length")
    if length < 0:
        return _NULL, at
    after = need(at, length, end, what)
    return (at, after), after
