"""The definition of what a record's value means: one message at a time, by its spec, into plain
Python values.

In: a buffer, a range of it, and a message spec at a version. Out: a dict with Kafka's own JSON
field names and shapes, or a `DecodeError`. Short and obvious on purpose: `columnar` must equal it
on every input. Source: KIP-482, Kafka's generated readers and AbstractApiMessageSerde.
"""

from base64 import b64encode
from typing import Any

from kraftlog.errors import DecodeError
from kraftlog.message.message_spec import FieldSpec, VersionSpec, struct_at
from kraftlog.plain import counted
from kraftlog.wire import (
    FIXED,
    INT16,
    INT32,
    Buffer,
    fixed,
    need,
    unsigned_varint,
    utf8_text,
    uuid_text,
)

UnknownTag = tuple[str, int, str]
"""(path of the struct that holds it, tag, the bytes in hex)."""

_STRING_LIMIT = 0x7FFF
_STRUCT_LIMIT = 1 << 16
"""Structs in one array, and unknown tags in one struct: as objects they take hundreds of times the
bytes that they take on the wire, and no message that Kafka writes comes near.
"""


def read_message(
    spec: VersionSpec, buffer: Buffer, start: int, limit: int
) -> tuple[dict[str, Any], list[UnknownTag], list[str], int]:
    """The message's fields, its unknown tagged fields, in words the first known one whose size is not
    that of its content, which Kafka's readers do not look at, and the position after it.
    """
    unknown: list[UnknownTag] = []
    sizes: list[str] = []
    value, at = _struct(spec, buffer, start, limit, "", unknown, sizes)
    return value, unknown, sizes, at


def _struct(
    spec: VersionSpec,
    buffer: Buffer,
    at: int,
    limit: int,
    path: str,
    unknown: list[UnknownTag],
    sizes: list[str],
) -> tuple[dict[str, Any], int]:
    value: dict[str, Any] = {}
    nested: list[UnknownTag] = []
    for field in spec.plain:
        value[field.json], at = _field(spec, buffer, field, at, limit, path, nested, sizes)
    for field in spec.tagged.values():
        value[field.json] = absent_value(field)
    if spec.flexible:
        count, at = unsigned_varint(buffer, at, limit, f"{path}tag count")
        if count > _STRUCT_LIMIT:
            raise DecodeError("too_many", at, f"{path} claims {count:,} tagged fields")
        for _ in range(count):
            tag, at = unsigned_varint(buffer, at, limit, f"{path}tag")
            size, at = unsigned_varint(buffer, at, limit, f"{path}tag {tag} size")
            if tag not in spec.tagged:
                end = need(at, size, limit, f"{path}tag {tag}")
                unknown.append((path, tag, bytes(buffer[at:end]).hex()))
                at = end
                continue
            field, start = spec.tagged[tag], at
            value[field.json], at = _field(spec, buffer, field, at, limit, path, nested, sizes)
            if at - start != size and not sizes:
                told = f"{path}{field.json} has {counted(at - start, 'byte')}, not the {size:,} that its tag says, and Kafka's reader does not look at that"
                sizes.append(told)
    unknown.extend(nested)
    return value, at


def absent_value(field: FieldSpec) -> Any:
    """The value of a tagged field that is absent (a fresh list each time)."""
    return list(field.default) if isinstance(field.default, list) else field.default


def _field(
    spec: VersionSpec,
    buffer: Buffer,
    field: FieldSpec,
    at: int,
    limit: int,
    path: str,
    unknown: list[UnknownTag],
    sizes: list[str],
) -> tuple[Any, int]:
    where = path + field.json
    if field.element is None:
        if field.type == "struct":
            inner = struct_at(field, spec)
            return _struct(inner, buffer, at, limit, f"{where}.", unknown, sizes)
        value, at = _scalar(field.type, spec.flexible, buffer, at, limit, where)
        if value is None and spec.version not in field.nullable:
            raise _null(at, where)
        return value, at
    length, at = _length(spec.flexible, INT32, buffer, at, limit, where)
    if length is None:
        if spec.version not in field.nullable:
            raise _null(at, where)
        return None, at
    if length > limit - at:
        raise DecodeError("truncated", at, f"{where} claims {length} elements")
    if field.element == "struct" and length > _STRUCT_LIMIT:
        raise DecodeError("too_many", at, f"{where} claims {length:,} elements")
    elements: list[Any] = []
    for index in range(length):
        if field.element == "struct":
            inner = struct_at(field, spec)
            one, at = _struct(inner, buffer, at, limit, f"{where}[{index}].", unknown, sizes)
        else:
            one, at = _scalar(field.element, spec.flexible, buffer, at, limit, where)
            if one is None:
                raise _null(at, where)
        elements.append(one)
    return elements, at


def _null(at: int, where: str) -> DecodeError:
    return DecodeError("null", at, f"{where} must not be null")


def _scalar(
    kind: str, flexible: bool, buffer: Buffer, at: int, limit: int, where: str
) -> tuple[Any, int]:
    if kind in FIXED:
        return fixed(FIXED[kind], buffer, at, limit, where)
    if kind == "boolean":
        end = need(at, 1, limit, where)
        return buffer[at] != 0, end
    if kind == "uuid":
        end = need(at, 16, limit, where)
        return uuid_text(bytes(buffer[at:end])), end
    length, at = _length(flexible, INT16 if kind == "string" else INT32, buffer, at, limit, where)
    if length is None:
        return None, at
    if kind == "string" and length > _STRING_LIMIT:
        raise DecodeError("string_too_long", at, f"{where} claims {length} bytes")
    end = need(at, length, limit, where)
    raw = bytes(buffer[at:end])
    return (utf8_text(raw) if kind == "string" else b64encode(raw).decode()), end


def _length(
    flexible: bool, form: Any, buffer: Buffer, at: int, limit: int, where: str
) -> tuple[int | None, int]:
    """A compact or a plain length; None for null."""
    if flexible:
        length, at = unsigned_varint(buffer, at, limit, f"{where} length")
        return (None if length == 0 else length - 1), at
    signed, at = fixed(form, buffer, at, limit, f"{where} length")
    return (None if signed < 0 else int(signed)), at
