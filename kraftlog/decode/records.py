"""One record after the other: a batch's bytes → decoded records and faults, in order. The reference path.

In: a whole batch. Out: `Record`s and `Fault`s. The columnar path must give the same; the command line prints these.
Source: KIP-631 (frame of metadata records), KIP-595 (control records), Kafka's MetadataRecordSerde and ControlRecordType.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kraftlog.decode.interpreter import UnknownTag, read_message
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import DecodeError
from kraftlog.log.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    content_hash,
)
from kraftlog.log.codecs import decompress
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.frames import Frame, FrameFault, read_frames
from kraftlog.message.catalogue import CONTROL_MARKERS, control_specs, metadata_specs
from kraftlog.message.spec import MessageSpec
from kraftlog.wire import INT16, Buffer, fixed, unsigned_varint

FRAME_VERSION = 1


class Record(NamedTuple):
    """One decoded record. `data` is None and `raw` holds the value's hex where type or version is unknown."""

    index: int
    offset: int
    timestamp: int
    is_control: bool
    type: str
    record_version: int | None
    data: dict[str, Any] | None
    unknown_tagged_fields: list[UnknownTag]
    raw: str | None
    key_size_bytes: int | None
    value_size_bytes: int | None
    header_count: int
    attributes: int
    timestamp_delta: int
    offset_delta: int


class Header(NamedTuple):
    """The parts of a batch's header that its records need."""

    base_offset: int
    batch_leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    record_count: int

    @classmethod
    def of(cls, row: Any) -> "Header":
        """From a row of `log.batch.HEADER`."""
        return cls(*(int(row[name]) for name in cls._fields))


def read_header(batch: bytes) -> Header:
    """The header at the start of a batch's bytes."""
    return Header.of(np.frombuffer(batch, HEADER, 1)[0])


def read_records(
    batch: bytes, position: int, redactor: Redactor, decompressed_limit: int
) -> Iterator[Record | Fault]:
    """Every record of one batch whose CRC is right, and a fault for each one that cannot be read.

    `position` is the batch's place in its file: where the batch is not compressed, faults lie at their exact byte.
    """
    header = read_header(batch)
    codec = header.attributes & CODEC_MASK
    buffer: bytes = batch
    start = HEADER_SIZE
    if codec:
        try:
            buffer, start = decompress(codec, batch[HEADER_SIZE:], decompressed_limit), 0
        except DecodeError as error:
            yield _fault(FaultKind(error.kind), header, position, position, len(batch), 0, error.detail)
            return
    for frame in read_frames(buffer, start, len(buffer), header.record_count):
        if isinstance(frame, FrameFault):
            yield _located(frame.kind, header, frame, buffer, batch, position, frame.detail)
            continue
        try:
            yield read_record(header, frame, buffer, redactor)
        except DecodeError as error:
            kind = FaultKind.RECORD_VALUE
            if error.kind == FaultKind.RECORD_TRAILING:
                kind = FaultKind.RECORD_TRAILING
            yield _located(kind, header, frame, buffer, batch, position, error.detail)


def read_record(header: Header, frame: Frame, buffer: Buffer, redactor: Redactor) -> Record:
    """One record's meaning.

    Raises DecodeError where its key or value does not follow its spec."""
    is_control = bool(header.attributes & CONTROL)
    if is_control:
        body = _control(frame, buffer, redactor)
    else:
        body = _metadata(frame, buffer, redactor)
    append_time = header.attributes & LOG_APPEND_TIME
    return Record(
        frame.index,
        header.base_offset + frame.offset_delta,
        header.max_timestamp if append_time else header.base_timestamp + frame.timestamp_delta,
        is_control,
        *body,
        frame.key_end - frame.key_start if frame.key_start >= 0 else None,
        frame.value_end - frame.value_start if frame.value_start >= 0 else None,
        frame.header_count,
        frame.attributes,
        frame.timestamp_delta,
        frame.offset_delta,
    )


Body = tuple[str, int | None, dict[str, Any] | None, list[UnknownTag], str | None]


def _metadata(frame: Frame, buffer: Buffer, redactor: Redactor) -> Body:
    """Frame version, api key and version as unsigned varints, then the message."""
    at, end = frame.value_start, frame.value_end
    if at < 0:
        raise DecodeError("null", frame.position, "a metadata record has no value")
    frame_version, at = unsigned_varint(buffer, at, end, "frame version")
    if frame_version == 0:
        raise DecodeError("frame_version", at, "frame version 0 was never released")
    if frame_version != FRAME_VERSION:
        raw = bytes(buffer[frame.value_start : end]).hex()
        return f"FRAME_VERSION_{frame_version}", None, None, [], redactor.mask(raw)
    api_key, at = unsigned_varint(buffer, at, end, "api key")
    version, at = unsigned_varint(buffer, at, end, "record version")
    spec = metadata_specs().get(api_key)
    if spec is None or version not in spec.versions:
        raw = redactor.raw(spec, bytes(buffer[at:end]).hex())
        return (spec.type if spec else f"UNKNOWN_{api_key}"), version, None, [], raw
    return _message(spec, version, buffer, at, end, redactor)


def _control(frame: Frame, buffer: Buffer, redactor: Redactor) -> Body:
    """The key holds a version and the type; Kafka reads every value at message version 0, whatever it says."""
    if frame.key_start < 0:
        raise DecodeError("null", frame.position, "a control record has no key")
    _, at = fixed(INT16, buffer, frame.key_start, frame.key_end, "control key version")
    number, at = fixed(INT16, buffer, at, frame.key_end, "control record type")
    start, end = frame.value_start, frame.value_end
    if start < 0:
        start = end = frame.end
    spec = control_specs().get(int(number))
    if spec is None:
        name = CONTROL_MARKERS.get(int(number), f"UNKNOWN_CONTROL_{number}")
        return name, None, None, [], bytes(buffer[start:end]).hex()
    return _message(spec, 0, buffer, start, end, redactor)


def _message(
    spec: MessageSpec, version: int, buffer: Buffer, at: int, end: int, redactor: Redactor
) -> Body:
    data, unknown, at = read_message(spec.at(version), buffer, at, end)
    if at != end:
        detail = f"{end - at} bytes are left after {spec.name} version {version}"
        raise DecodeError(FaultKind.RECORD_TRAILING, at, detail)
    if unknown and spec.holds_secrets:
        unknown = [(path, tag, redactor.mask(raw)) for path, tag, raw in unknown]
    return spec.type, version, redactor.message(spec, data), unknown, None


def _located(
    kind: FaultKind,
    header: Header,
    frame: Frame | FrameFault,
    buffer: Buffer,
    batch: bytes,
    position: int,
    detail: str,
) -> Fault:
    """A fault inside a batch: at its exact byte where the batch is not compressed, else at the batch."""
    raw = bytes(buffer[frame.position : frame.end])
    inside = buffer is batch
    return Fault(
        kind,
        position + frame.position if inside else position,
        frame.end - frame.position if inside else len(batch),
        f"record {frame.index}: {detail}",
        batch_position=position,
        offset=header.base_offset + frame.index,
        batch_leader_epoch=header.batch_leader_epoch,
        record_index=frame.index,
        content_hash=content_hash(raw),
    )


def _fault(
    kind: FaultKind, header: Header, position: int, batch_position: int, size: int, index: int, detail: str
) -> Fault:
    return Fault(
        kind,
        position,
        size,
        detail,
        batch_position=batch_position,
        offset=header.base_offset + index,
        batch_leader_epoch=header.batch_leader_epoch,
    )
