"""Plain values → bytes: the inverse of the decoder, for messages, record frames and record batches.

In: a message as a dict with Kafka's JSON names, and its spec at a version. Out: bytes that Kafka
reads. Tagged fields that hold their default are left out, as Kafka does. Source: KIP-482, Kafka's
generated writers, DefaultRecord and DefaultRecordBatch.
"""

from base64 import b64decode, urlsafe_b64decode
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kraftlog.decode.interpreter import absent_value
from kraftlog.decode.records import FRAME_VERSION
from kraftlog.errors import KraftlogError
from kraftlog.log.batch import (
    CONTROL,
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    PREFIX_SIZE,
    crc32c,
)
from kraftlog.message.message_spec import FieldSpec, MessageSpec, VersionSpec, struct_at
from kraftlog.wire import FIXED, INT16, INT32

NO_PRODUCER = -1


class EncodeError(KraftlogError):
    """A value that its message spec has no place for."""


def encoded_unsigned_varint(value: int) -> bytes:
    """An unsigned varint of at most 32 bits."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encoded_varint(value: int) -> bytes:
    """A signed (zigzag) varint."""
    return encoded_unsigned_varint(value << 1 if value >= 0 else ~(value << 1))


def encode_message(spec: VersionSpec, data: Any) -> bytes:
    """A message at one version.

    Raises EncodeError where a field is missing, null without leave, or out of range."""
    out = bytearray()
    for field in spec.plain:
        _field(out, spec, field, _value(field, data))
    if spec.flexible:
        tagged = [
            (tag, field)
            for tag, field in sorted(spec.tagged.items())
            if _value(field, data) != absent_value(field)
        ]
        out += encoded_unsigned_varint(len(tagged))
        for tag, field in tagged:
            content = bytearray()
            _field(content, spec, field, _value(field, data))
            out += encoded_unsigned_varint(tag) + encoded_unsigned_varint(len(content)) + content
    return bytes(out)


def _value(field: FieldSpec, data: Any) -> Any:
    if field.json not in data:
        raise EncodeError(f"{field.json} is missing")
    return data[field.json]


def _field(out: bytearray, spec: VersionSpec, field: FieldSpec, value: Any) -> None:
    nullable = spec.version in field.nullable
    if value is None and not nullable:
        raise EncodeError(f"{field.json} must not be null at version {spec.version}")
    if field.element is not None:
        _length(out, spec.flexible, INT32, None if value is None else len(value))
        for one in value or ():
            _scalar(out, spec, field, field.element, one)
    else:
        _scalar(out, spec, field, field.type, value)


def _scalar(out: bytearray, spec: VersionSpec, field: FieldSpec, kind: str, value: Any) -> None:
    if kind == "struct":
        out += encode_message(struct_at(field, spec), value)
    elif kind in FIXED:
        try:
            out += FIXED[kind].pack(value)
        except Exception as error:
            raise EncodeError(f"{field.json}: {value!r} is no {kind}") from error
    elif kind == "boolean":
        out.append(bool(value))
    elif kind == "uuid":
        out += urlsafe_b64decode(value + "==")
    else:
        raw = None if value is None else _bytes(kind, value)
        _length(
            out,
            spec.flexible,
            INT16 if kind == "string" else INT32,
            None if raw is None else len(raw),
        )
        out += raw or b""


def _bytes(kind: str, value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass") if kind == "string" else b64decode(value)


def _length(out: bytearray, flexible: bool, form: Any, length: int | None) -> None:
    if flexible:
        out += encoded_unsigned_varint(0 if length is None else length + 1)
    else:
        out += form.pack(-1 if length is None else length)


class RawRecord(NamedTuple):
    """A record's key and value as bytes; None for null."""

    key: bytes | None
    value: bytes | None


def metadata_record(spec: MessageSpec, version: int, data: Any) -> RawRecord:
    """A metadata record: frame version, api key and version, then the message; it has no key."""
    head = (
        encoded_unsigned_varint(FRAME_VERSION)
        + encoded_unsigned_varint(spec.id)
        + encoded_unsigned_varint(version)
    )
    return RawRecord(None, head + encode_message(spec.at(version), data))


def control_record(spec: MessageSpec, data: Any) -> RawRecord:
    """A control record: the key holds a version (0) and the control record type."""
    return RawRecord(INT16.pack(0) + INT16.pack(spec.id), encode_message(spec.at(0), data))


def _nullable(raw: bytes | None) -> bytes:
    return encoded_varint(-1) if raw is None else encoded_varint(len(raw)) + raw


def encode_batch(
    records: Sequence[RawRecord],
    base_offset: int,
    epoch: int,
    timestamp: int,
    is_control: bool = False,
) -> bytes:
    """One uncompressed record batch whose records all have one timestamp."""
    body = bytearray()
    for delta, record in enumerate(records):
        inside = (
            bytes(1)
            + encoded_varint(0)
            + encoded_varint(delta)
            + _nullable(record.key)
            + _nullable(record.value)
            + encoded_varint(0)
        )
        body += encoded_varint(len(inside)) + inside
    size, last, attributes = len(body), len(records) - 1, CONTROL if is_control else 0
    header = np.array(
        (
            *(base_offset, HEADER_SIZE - PREFIX_SIZE + size, epoch, MAGIC, 0, attributes, last),
            *(timestamp, timestamp, NO_PRODUCER, NO_PRODUCER, NO_PRODUCER, len(records)),
        ),
        HEADER,
    ).tobytes()
    after_crc = header[CRC_START:] + body
    return header[:CRC_POSITION] + crc32c(after_crc).to_bytes(4, "big") + after_crc
