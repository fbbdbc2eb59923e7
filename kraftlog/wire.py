"""Bounded primitives of Kafka's wire format.

Every function takes (buffer, position, limit), checks the limit before it reads, and returns
(value, next position). A length that the buffer cannot hold raises `DecodeError`; nothing is ever
allocated by a length that was only claimed. Source: KIP-482 (compact forms, tagged fields), Kafka's
ByteUtils (varints), Uuid (base64 text).
"""

import codecs
from base64 import urlsafe_b64encode
from struct import Struct

from kraftlog.errors import DecodeError

Buffer = bytes | memoryview

FIXED = {
    "int8": Struct(">b"),
    "int16": Struct(">h"),
    "uint16": Struct(">H"),
    "int32": Struct(">i"),
    "int64": Struct(">q"),
    "float64": Struct(">d"),
}
INT16, INT32, INT64 = FIXED["int16"], FIXED["int32"], FIXED["int64"]


def need(position: int, size_bytes: int, limit: int, what: str) -> int:
    """The position after `size_bytes`, or an error when the buffer ends before it."""
    end = position + size_bytes
    if size_bytes < 0 or end > limit:
        raise DecodeError(
            "truncated", position, f"{what} wants {size_bytes} bytes, {limit - position} are left"
        )
    return end


def fixed(
    form: Struct, buffer: Buffer, position: int, limit: int, what: str
) -> tuple[int | float, int]:
    """A big-endian number of fixed width."""
    end = need(position, form.size, limit, what)
    return form.unpack_from(buffer, position)[0], end


def unsigned_varint(buffer: Buffer, position: int, limit: int, what: str) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits: 5 bytes, of the last of which only 4 bits count, as in
    Kafka's ByteUtils.
    """
    value = shift = 0
    at = position
    while True:
        if at >= limit:
            raise DecodeError("truncated", position, f"{what}: a varint is cut off")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, at
        shift += 7
        if shift > 28:
            raise DecodeError("varint_too_long", position, f"{what}: a varint is over 5 bytes long")


def varint(buffer: Buffer, position: int, limit: int, what: str) -> tuple[int, int]:
    """A signed (zigzag) varint of at most 32 bits."""
    raw, at = unsigned_varint(buffer, position, limit, what)
    return (raw >> 1) ^ -(raw & 1), at


def varlong(buffer: Buffer, position: int, limit: int, what: str) -> tuple[int, int]:
    """A signed (zigzag) varint of at most 64 bits, 10 bytes."""
    value = shift = 0
    at = position
    while True:
        if at >= limit:
            raise DecodeError("truncated", position, f"{what}: a varint is cut off")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFFFFFFFFFF
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise DecodeError(
                "varint_too_long", position, f"{what}: a varint is over 10 bytes long"
            )


def uuid_text(raw: bytes) -> str:
    """Kafka's text of a UUID: url-safe base64 without padding, 22 characters."""
    return urlsafe_b64encode(raw).decode("ascii")[:22]


def utf8_text(raw: bytes) -> str:
    """Text as Java reads it: what is no UTF-8 becomes U+FFFD, an encoded surrogate one of them, not
    three, and one of which the last byte is missing not two.
    """
    return raw.decode("utf-8", "java_replace")


def _java_replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    bad = error.object[error.start : error.start + 3]
    if len(bad) == 1 or bad[0] != 0xED or not 0xA0 <= bad[1] < 0xC0:
        return "\ufffd", error.end
    is_whole = len(bad) == 3 and bad[2] & 0xC0 == 0x80
    return "\ufffd", error.start + (3 if is_whole else 2)


codecs.register_error("java_replace", _java_replace)
