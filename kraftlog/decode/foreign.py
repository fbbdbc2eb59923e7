"""Records of any other partition of Kafka: envelopes and raw bytes, and whatever a decoder of the
caller's makes of them.

In: a partition's folder, or one of its files, and a decoder. Out: records in offset order, and a
fault for each place that cannot be read. The metadata log's own records go another way
(`decode.records`). What is read here is not masked: nothing says which bytes of another topic are
secret. Source: KIP-630 "Overview" (the group coordinator's and the transaction coordinator's topics
later), KIP-98 (record batches).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from kraftlog.decode.interpreter import read_message
from kraftlog.decode.records import Header, section_of
from kraftlog.errors import DecodeError, InputError, UsageError
from kraftlog.log import names
from kraftlog.log.batch import CONTROL, TRANSACTIONAL
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.frames import Frame, FrameFault, read_frames
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.storage import FileBytes, absolute, list_folder, open_file
from kraftlog.message.message_spec import MessageSpec, parse_spec
from kraftlog.plain import reason_of
from kraftlog.wire import INT16, fixed

LIMITS = Limits(decompressed_size_bytes=64 << 20)
"""Producers' batches are packed, and equal messages pack well: this limit alone counts."""

T = TypeVar("T")
Decoder = Callable[[bytes | None, bytes | None], T]
"""Key and value, each None where it is null, → what they mean. May raise anything: then the record
is a fault."""


class ForeignRecord(NamedTuple, Generic[T]):
    """One record; `value` is what the decoder made of it, and None in a control batch."""

    offset: int
    timestamp: int
    batch_leader_epoch: int
    is_control: bool
    is_transactional: bool
    key: bytes | None
    raw: bytes | None
    value: T | None


def read_partition(
    path: str, decoder: Decoder[T], limits: Limits | None = None
) -> Iterator[ForeignRecord[T] | Fault]:
    """The records of a partition's folder, or of one segment.

    Raises InputError where there is no segment, or it cannot be read."""
    limits = limits or LIMITS
    for segment in _segments(absolute(path)):
        with _opened(segment) as file:
            for found in walk(file, 0, None, limits):
                if isinstance(found, Fault):
                    yield found
                else:
                    yield from _of_window(found, decoder, limits)


def _opened(path: str) -> FileBytes:
    try:
        return open_file(path)
    except OSError as error:
        raise InputError(f"{path}: it cannot be read ({reason_of(error)})") from error


def _segments(path: str) -> list[str]:
    if path.endswith(".log"):
        return [path]
    try:
        inside = list_folder(path)
    except OSError as error:
        raise InputError(f"{path}: it cannot be listed ({reason_of(error)})") from error
    found = sorted(one.path for one in inside if names.classify(one.name).kind == names.LOG)
    if not found:
        raise InputError(f"{path}: no segment (.log) lies in it")
    return found


def _of_window(
    window: Window, decoder: Decoder[T], limits: Limits
) -> Iterator[ForeignRecord[T] | Fault]:
    for index, position in enumerate(window.batches.positions.tolist()):
        raw = window.batch(index)
        if window.batches.crc_valid[index]:
            yield from _of_batch(raw, position, decoder, limits.decompressed_size_bytes)
        else:
            detail = "the CRC-32C is not that of the bytes"
            yield Fault(FaultKind.BATCH_CRC, position, len(raw), detail)


def _of_batch(
    raw: bytes, position: int, decoder: Decoder[T], limit: int
) -> Iterator[ForeignRecord[T] | Fault]:
    section = section_of(raw, position, limit)
    if isinstance(section, Fault):
        yield Fault(section.kind, position, len(raw), section.detail)
        return
    header, buffer = section.header, section.buffer
    for frame in read_frames(buffer, section.start, section.end, header.record_count):
        if isinstance(frame, FrameFault):
            yield Fault(frame.kind, position, len(raw), frame.detail)
            continue
        if frame.header_count < 0:
            detail = f"record {frame.index}: what follows its value is no headers"
            yield Fault(FaultKind.RECORD_FRAME, position, len(raw), detail)
            continue
        try:
            yield _record(header, frame, buffer, decoder)
        except Exception as error:  # a decoder of the caller's may raise anything
            detail = f"its decoder failed: {error!r}"
            offset = header.base_offset + frame.offset_delta
            yield Fault(FaultKind.RECORD_VALUE, position, len(raw), detail, offset=offset)


def _record(header: Header, frame: Frame, buffer: bytes, decoder: Decoder[T]) -> ForeignRecord[T]:
    key = None if frame.key_start < 0 else bytes(buffer[frame.key_start : frame.key_end])
    raw = None if frame.value_start < 0 else bytes(buffer[frame.value_start : frame.value_end])
    is_control = bool(header.attributes & CONTROL)
    return ForeignRecord(
        header.base_offset + frame.offset_delta,
        header.base_timestamp + frame.timestamp_delta,
        header.batch_leader_epoch,
        is_control,
        bool(header.attributes & TRANSACTIONAL),
        key,
        raw,
        None if is_control else decoder(key, raw),
    )


def versioned(
    spec: str | Path | Mapping[str, Any],
) -> Callable[[bytes | None], dict[str, Any] | None]:
    """A decoder of one side of a record (its key, or its value) whose bytes are a version and a
    message of it, as in `__consumer_offsets` and `__transaction_state`. `spec` is written as those
    of `schemas/` are: a mapping, or a file of JSON.

    Raises UsageError where it lacks a key, SpecError where it contradicts itself.
    """
    given = json.loads(Path(spec).read_text("utf-8")) if isinstance(spec, str | Path) else spec
    try:
        message = parse_spec({"kind": "other", "type": "OTHER", "id": -1, **given})
    except KeyError as error:
        raise UsageError(f"the message is declared without {error}") from error
    return lambda data: None if data is None else _message(message, data)


def _message(message: MessageSpec, data: bytes) -> dict[str, Any]:
    version, at = fixed(INT16, data, 0, len(data), "version")
    value, _, _, end = read_message(message.at(int(version)), data, at, len(data))
    if end != len(data):
        raise DecodeError(FaultKind.RECORD_TRAILING, end, f"{len(data) - end} bytes are left over")
    return {"version": int(version), **value}
