"""One record after the other: a batch's bytes → decoded records and faults. The reference path.

In: a whole batch. Out: `Record`s and `Fault`s in order. The columnar path must give the same; the
command line prints these. Source: KIP-631 (frame of metadata records), KIP-595 (control records),
Kafka's MetadataRecordSerde and ControlRecordType.
"""

from collections.abc import Iterator
from dataclasses import dataclass
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
from kraftlog.log.codecs import unpack
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.frames import Frame, FrameFault, read_frames
from kraftlog.log.segment import Window
from kraftlog.message.catalogue import CONTROL_MARKERS, control_specs, metadata_specs
from kraftlog.message.message_spec import MessageSpec
from kraftlog.plain import counted
from kraftlog.wire import INT16, Buffer, fixed, unsigned_varint

FRAME_VERSION = 1
SHORT_LIMIT = 0x7FFF
FAULT_LIMIT = 1000
"""So many records of one batch are told of that cannot be read; then the batch is given up."""


class Record(NamedTuple):
    """One decoded record.

    `raw` holds the value's hex where type or version is unknown. `data` is then None, but for a
    version that the newest known one reads to the last byte: what it says there is in `data`.
    `ignored` says in words what Kafka's reader passes over.
    """

    index: int  # type: ignore[assignment]  # nobody looks for an element of this tuple
    offset: int
    timestamp: int
    is_control: bool
    type: str
    record_version: int | None
    data: dict[str, Any] | None
    unknown_tagged_fields: list[UnknownTag]
    raw: str | None
    ignored: tuple[str, ...]
    key_size_bytes: int | None
    value_size_bytes: int | None
    header_count: int
    attributes: int
    timestamp_delta: int
    offset_delta: int

    @property
    def is_newer(self) -> bool:
        """Whether its type or version is of a Kafka that is newer than what is known here."""
        return self.raw is not None and self.type not in CONTROL_MARKERS.values()


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


@dataclass(frozen=True, slots=True)
class Section:
    """The records of one batch, unpacked: they lie in [start, end) of `buffer`.

    `origin` is the buffer's place in the file; None where the batch was compressed, so that no
    record has a place of its own.
    """

    header: Header
    buffer: bytes
    start: int
    end: int
    batch_position: int
    batch_size_bytes: int
    origin: int | None


def read_records(
    batch: bytes,
    position: int,
    redactor: Redactor,
    decompressed_limit: int,
    wanted: frozenset[str] | None = None,
) -> Iterator[Record | Fault]:
    """Every record of one batch whose CRC is right, and a fault for each one that cannot be read.

    `position` is the batch's place in its file: where the batch is not compressed, faults lie at
    their exact byte. Of types that are not `wanted` neither records nor faults of their bodies are
    given.
    """
    section = section_of(batch, position, decompressed_limit)
    if isinstance(section, Fault):
        yield section
        return
    yield from records_in(section, redactor, wanted)


def records_in(
    section: Section, redactor: Redactor, wanted: frozenset[str] | None = None
) -> Iterator[Record | Fault]:
    """The same of what has been unpacked."""
    count, fault_count = section.header.record_count, 0
    for frame in read_frames(section.buffer, section.start, section.end, count):
        found = read_framed(section, frame, redactor, wanted)
        if isinstance(found, Fault):
            fault_count += 1
            if fault_count > FAULT_LIMIT:
                yield given_up(section, found)
                return
        if found is not None:
            yield found


def section_of(batch: bytes, position: int, decompressed_limit: int) -> Section | Fault:
    """The records of one batch, unpacked; a fault where they cannot be."""
    header, size = Header.of(np.frombuffer(batch, HEADER, 1)[0]), len(batch)
    section = Section(header, batch, HEADER_SIZE, size, position, size, position)
    codec = header.attributes & CODEC_MASK
    if not codec:
        return section
    try:
        unpacked = unpack(codec, batch[HEADER_SIZE:], decompressed_limit)
    except DecodeError as error:
        return _batch_fault(FaultKind(error.kind), header, position, size, error.detail)
    return Section(header, unpacked, 0, len(unpacked), position, size, None)


def read_framed(
    section: Section, frame: Frame | FrameFault, redactor: Redactor, wanted: frozenset[str] | None
) -> Record | Fault | None:
    """One record or fault; None where its type is not wanted."""
    if isinstance(frame, FrameFault):
        return _located(frame.kind, section, frame, frame.detail, redactor)
    try:
        return read_record(section.header, frame, section.buffer, redactor, wanted)
    except DecodeError as error:
        kind = FaultKind.RECORD_VALUE
        if error.kind == FaultKind.RECORD_TRAILING:
            kind = FaultKind.RECORD_TRAILING
        return _located(kind, section, frame, error.detail, redactor)


def read_record(
    header: Header, frame: Frame, buffer: Buffer, redactor: Redactor, wanted: frozenset[str] | None
) -> Record | None:
    """One record's meaning; None where its type is not wanted.

    Raises DecodeError where its key or value does not follow its spec."""
    is_control = bool(header.attributes & CONTROL)
    body = (_control if is_control else _metadata)(frame, buffer, redactor, wanted)
    if body is None:
        return None
    header_count, ignored = frame.header_count, body.ignored
    if header_count and not buffer[frame.end - 1]:
        header_count, ignored = 0, (_ignored_headers(frame), *ignored)
    if frame.attributes:
        ignored = (f"its attributes are {frame.attributes}, where Kafka writes 0", *ignored)
    append_time = header.attributes & LOG_APPEND_TIME
    return Record(
        frame.index,
        java_long(header.base_offset + frame.offset_delta),
        header.max_timestamp
        if append_time
        else java_long(header.base_timestamp + frame.timestamp_delta),
        is_control,
        *body._replace(ignored=ignored),
        frame.key_end - frame.key_start if frame.key_start >= 0 else None,
        frame.value_end - frame.value_start if frame.value_start >= 0 else None,
        header_count,
        frame.attributes,
        frame.timestamp_delta,
        frame.offset_delta,
    )


def java_long(value: int) -> int:
    """A sum as 64 bits hold it: Kafka's, numpy's and Arrow's wrap around."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _ignored_headers(frame: Frame) -> str:
    """What stands before a last byte of 0: Kafka's reader takes that one for the number of headers."""
    if frame.header_count > 0:
        return f"it has {counted(frame.header_count, 'record header')} and ends with a 0, so that Kafka's reader takes it for one without any"
    rest = counted(frame.end - 1 - frame.value_end, "byte")
    return f"it has {rest} of no header before its last byte, where Kafka's reader does not look"


class _Body(NamedTuple):
    """What a record's key and value say."""

    type: str
    record_version: int | None
    data: dict[str, Any] | None
    unknown_tagged_fields: list[UnknownTag]
    raw: str | None
    ignored: tuple[str, ...] = ()


def _metadata(
    frame: Frame, buffer: Buffer, redactor: Redactor, wanted: frozenset[str] | None
) -> _Body | None:
    """Frame version, api key and version as unsigned varints, then the message."""
    at, end = frame.value_start, frame.value_end
    if at < 0:
        raise DecodeError("null", frame.position, "a metadata record has no value")
    frame_version, at = _short(buffer, at, end, "frame version")
    if frame_version == 0:
        raise DecodeError("frame_version", at, "frame version 0 was never released")
    if frame_version != FRAME_VERSION:
        name = f"FRAME_VERSION_{frame_version}"
        if wanted is not None and name not in wanted:
            return None
        raw = bytes(buffer[frame.value_start : end]).hex()
        return _Body(name, None, None, [], redactor.mask(raw))
    api_key, at = _short(buffer, at, end, "api key")
    version, at = _short(buffer, at, end, "record version")
    spec = metadata_specs().get(api_key)
    name = spec.type if spec else f"UNKNOWN_{api_key}"
    if wanted is not None and name not in wanted:
        return None
    if spec is None or version not in spec.versions:
        raw = redactor.mask(bytes(buffer[at:end]).hex())
        return _newer(spec, name, version, raw, buffer, at, end, redactor)
    body, at = _message(spec, version, buffer, at, end, redactor)
    if at != end:
        detail = f"{counted(end - at, 'byte')} left after {spec.name} version {version}"
        raise DecodeError(FaultKind.RECORD_TRAILING, at, detail)
    return body


def _newer(
    spec: MessageSpec | None,
    name: str,
    version: int,
    raw: str,
    buffer: Buffer,
    at: int,
    end: int,
    redactor: Redactor,
) -> _Body:
    """An unknown type or version: a version that only adds tagged fields has the shape of the
    newest known one, and is read by it. Anything else is kept raw.
    """
    unread = _Body(name, version, None, [], raw)
    if spec is None:
        return unread
    try:
        read, at = _message(spec, spec.versions.last, buffer, at, end, redactor)
    except DecodeError:
        return unread
    return read._replace(record_version=version, raw=raw) if at == end else unread


def _short(buffer: Buffer, at: int, end: int, what: str) -> tuple[int, int]:
    """An unsigned varint that Kafka holds in a short: larger ones it refuses."""
    value, at = unsigned_varint(buffer, at, end, what)
    if value > SHORT_LIMIT:
        raise DecodeError("too_large", at, f"{what} {value} is too large")
    return value, at


def _control(
    frame: Frame, buffer: Buffer, redactor: Redactor, wanted: frozenset[str] | None
) -> _Body | None:
    """The key holds a version and the type; Kafka reads every value at version 0, and not what
    follows that.
    """
    if frame.key_start < 0:
        raise DecodeError("null", frame.position, "a control record has no key")
    key_version, at = fixed(INT16, buffer, frame.key_start, frame.key_end, "control key version")
    if key_version < 0:
        raise DecodeError(
            "control_key", frame.key_start, f"control key version {key_version} is negative"
        )
    number, after = fixed(INT16, buffer, at, frame.key_end, "control record type")
    start, end = frame.value_start, frame.value_end
    if start < 0:
        start = end = frame.end
    spec = control_specs().get(int(number))
    name = CONTROL_MARKERS.get(int(number), f"UNKNOWN_CONTROL_{number}")
    name = spec.type if spec else name
    if wanted is not None and name not in wanted:
        return None
    raw = redactor.mask(bytes(buffer[start:end]).hex())
    if spec is None:
        return _Body(name, None, None, [], raw)
    try:
        body, at = _message(spec, 0, buffer, start, end, redactor)
    except DecodeError:
        # All of them begin with a version: what a newer one looks like is not known.
        version, _ = fixed(INT16, buffer, start, end, "control record version")
        if version <= spec.versions.last:
            raise
        return _Body(name, int(version), None, [], raw)
    ignored = list(body.ignored)
    if after != frame.key_end and key_version == 0:
        ignored.append(
            f"{counted(frame.key_end - after, 'byte')} left in its key after the type, where Kafka's reader does not look"
        )
    if at != end and body.data and body.data["version"] in spec.versions:
        ignored.append(
            f"{counted(end - at, 'byte')} left after {spec.name} version 0, where Kafka's reader does not look"
        )
    return body._replace(ignored=tuple(ignored))


def _message(
    spec: MessageSpec, version: int, buffer: Buffer, at: int, end: int, redactor: Redactor
) -> tuple[_Body, int]:
    """What a message says, and the position after it."""
    data, unknown, sizes, at = read_message(spec.at(version), buffer, at, end)
    masked = [(path, tag, redactor.mask(raw)) for path, tag, raw in unknown]
    told = redactor.message(spec, data)
    return _Body(spec.type, version, told, masked, None, tuple(sizes) if sizes else ()), at


def _located(
    kind: FaultKind, section: Section, frame: Frame | FrameFault, detail: str, redactor: Redactor
) -> Fault:
    """A fault inside a batch: at its byte where the batch is not compressed, else at the batch.

    What is left after the last record is told of that one.
    """
    raw = bytes(section.buffer[frame.position : frame.end])
    inside = section.origin is not None
    is_after = kind == FaultKind.BATCH_TRAILING
    index = max(frame.index - is_after, 0)
    return Fault(
        kind,
        (section.origin or 0) + frame.position if inside else section.batch_position,
        frame.end - frame.position if inside else section.batch_size_bytes,
        detail if is_after else f"record {frame.index}: {detail}",
        batch_position=section.batch_position,
        offset=java_long(section.header.base_offset + index),
        batch_leader_epoch=section.header.batch_leader_epoch,
        record_index=index,
        content_hash=content_hash(raw, redactor.id_key),
    )


def given_up(section: Section, fault: Fault) -> Fault:
    """What is told instead of the first fault beyond `FAULT_LIMIT`, and of all that follows."""
    inside = section.origin is not None
    end = section.batch_position + section.batch_size_bytes
    return fault._replace(
        kind=FaultKind.TOO_MANY_FAULTS,
        size_bytes=end - fault.position if inside else fault.size_bytes,
        detail=f"over {FAULT_LIMIT:,} records of this batch cannot be read; from record {fault.record_index} on none is decoded",
        content_hash=None,
    )


def _batch_fault(kind: FaultKind, header: Header, position: int, size: int, detail: str) -> Fault:
    """A fault that holds for a whole batch."""
    epoch = header.batch_leader_epoch
    return Fault(kind, position, size, detail, position, header.base_offset, epoch)


def bad_crc(window: Window, index: int) -> Fault:
    """The fault of a batch whose CRC is wrong."""
    batches, size = window.batches, len(window.batch(index))
    header, position = Header.of(batches.headers[index]), int(batches.positions[index])
    detail = f"the CRC-32C of a batch of {size:,} bytes is wrong; its records are not decoded"
    fault = _batch_fault(FaultKind.BATCH_CRC, header, position, size, detail)
    return fault._replace(content_hash=batches.batch_ids[index])
