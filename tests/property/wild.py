"""Record batches as no broker writes them: random messages by their specs, some of them odd.

In: a `random.Random`, and how often something is odd. Out: bytes. An oddity is anything that the
wire format can say: null where it is not allowed, lengths that lie, text that is not UTF-8, varints
with more bytes than they need, tags that are unknown, unsorted or twice there, bytes left over.
"""

import struct
from random import Random

from kraftlog.log.batch import HEADER_SIZE, LOG_APPEND_TIME
from kraftlog.message.catalogue import metadata_specs
from kraftlog.message.message_spec import FieldSpec, MessageSpec, VersionSpec, struct_at
from kraftlog.state.encode import encode_batch, encoded_unsigned_varint, encoded_varint
from kraftlog.wire import FIXED
from tests.property.engines import sealed

_NAMES = ["", "a", "ssl.keystore.password", "Größe", "token\n", "x" * 300, "PASSWORD", "retention"]


class Wild:
    """A source of batches; the same random state gives the same bytes."""

    def __init__(self, random: Random, oddness: float) -> None:
        self._random, self._oddness = random, oddness

    def batch(self, record_count: int) -> bytes:
        """A whole record batch with the right length and CRC."""
        odd = self._odd
        edge = self._random.choice([(1 << 63) - 1, -(1 << 63), -1])
        base_offset = edge if odd() else self._random.randrange(1 << 40)
        timestamp = edge if odd() else self._random.randrange(1 << 41)
        head = bytearray(encode_batch([], base_offset, self._random.randrange(99), timestamp))
        if odd():
            head[22] |= LOG_APPEND_TIME
        claimed = record_count + (self._random.choice([-1, 1, 1 << 30]) if odd() else 0)
        head[HEADER_SIZE - 4 :] = max(claimed, 0).to_bytes(4, "big")
        return sealed(bytes(head) + b"".join(self.record(one) for one in range(record_count)))

    def record(self, index: int) -> bytes:
        """One record of a batch, with its length before it."""
        odd = self._odd
        inside = bytearray(1)
        inside += self._varint(self._random.randrange(-(1 << 40), 1 << 40) if odd() else 0)
        inside += self._varint(self._random.randrange(-(1 << 31), 1 << 31) if odd() else index)
        inside += encoded_varint(3) + b"key" if odd() else encoded_varint(-1)
        value = self.value()
        inside += encoded_varint(-1) if odd() else encoded_varint(len(value)) + value
        inside += (
            encoded_varint(1) + encoded_varint(1) + b"h" + encoded_varint(-1)
            if odd()
            else encoded_varint(0)
        )
        if odd():
            inside += b"\x00"
        length = len(inside) + (self._random.choice([-1, 1]) if odd() and odd() else 0)
        return self._varint(length) + bytes(inside)

    def value(self) -> bytes:
        """Frame version, api key, version, message."""
        spec = self._random.choice(list(metadata_specs().values()))
        version = self._random.randint(spec.versions.first, spec.versions.last)
        head = [0, 2, 1 << 20][self._random.randrange(3)] if self._odd() else 1
        api_key = self._random.choice([30, 200, 1 << 20]) if self._odd() else spec.id
        claimed = self._random.choice([9, 200, 1 << 20]) if self._odd() else version
        body = self._struct(spec.at(version))
        if self._odd():
            body = body[: self._random.randrange(len(body) + 1)]
        if self._odd():
            body += bytes(self._random.randrange(3))
        return self._unsigned(head) + self._unsigned(api_key) + self._unsigned(claimed) + body

    def message(self, spec: MessageSpec, version: int) -> bytes:
        """Frame version, api key, version, message, all of them normal."""
        head = b"".join(encoded_unsigned_varint(one) for one in (1, int(spec.id or 0), version))
        return head + self._struct(spec.at(version))

    def _struct(self, spec: VersionSpec) -> bytes:
        plain = b"".join(self._field(spec, field) for field in spec.plain)
        tags = [
            (tag, self._field(spec, field))
            for tag, field in sorted(spec.tagged.items())
            if self._random.random() < 0.4
        ]
        if self._odd():
            tags.append((self._random.choice([0, 9, 77, 1 << 20]), self._random.randbytes(3)))
        if self._odd():
            tags += tags[:1]
        if self._odd():
            self._random.shuffle(tags)
        count = len(tags) + (1 if self._odd() else 0)
        parts = [plain, self._unsigned(count)]
        for tag, content in tags:
            size = len(content) + (self._random.choice([-1, 1]) if self._odd() else 0)
            parts += [self._unsigned(tag), self._unsigned(max(size, 0)), content]
        return b"".join(parts)

    def _field(self, spec: VersionSpec, field: FieldSpec) -> bytes:
        nullable = spec.version in field.nullable
        if field.element is None:
            return self._scalar(spec, field, field.type, nullable)
        if self._random.random() < 0.3 if nullable else self._odd():
            return b"\x00"
        size = self._random.choice([0, 1, 3, 200] if field.element != "struct" else [0, 1, 3])
        elements = (self._scalar(spec, field, str(field.element), False) for _ in range(size))
        return self._length(size) + b"".join(elements)

    def _scalar(self, spec: VersionSpec, field: FieldSpec, kind: str, nullable: bool) -> bytes:
        if kind == "struct":
            return self._struct(struct_at(field, spec))
        if kind in FIXED:
            return self._random.randbytes(struct.calcsize(FIXED[kind].format))
        if kind == "boolean":
            return bytes([self._random.choice([0, 1, 2, 255])])
        if kind == "uuid":
            return self._random.choice([bytes(16), self._random.randbytes(16)])
        if self._random.random() < 0.3 if nullable else self._odd():
            return b"\x00"
        text = self._random.choice(_NAMES).encode()
        if self._odd():
            size = self._random.choice([4, 0x7FFF, 0x8000])
            text = self._random.randbytes(size)
        return self._length(len(text)) + text

    def _length(self, size: int) -> bytes:
        lie = self._random.choice([-1, 1, 1 << 20, 1 << 31]) if self._odd() else 0
        return self._unsigned(max(size + 1 + lie, 0) & 0xFFFFFFFF)

    def _varint(self, value: int) -> bytes:
        return self._stretched(encoded_varint(value))

    def _unsigned(self, value: int) -> bytes:
        return self._stretched(encoded_unsigned_varint(value))

    def _stretched(self, raw: bytes) -> bytes:
        """The same number in more bytes than it needs, once in a while."""
        if not self._odd():
            return raw
        surplus = self._random.randrange(1, 5)
        padding = b"\x80" * (surplus - 1) + b"\x00"
        return raw[:-1] + bytes([raw[-1] | 0x80]) + padding

    def _odd(self) -> bool:
        return self._random.random() < self._oddness
