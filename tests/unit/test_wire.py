"""Primitives of the wire format: what they read, and that no limit is ever passed."""

import struct
from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog import wire
from kraftlog.errors import DecodeError
from kraftlog.state import encode


def error_of(call: object, *arguments: object) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value


# Values and bytes of Kafka's ByteUtilsTest.
@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (8191, "ff3f"),
        (1048576, "808040"),
        (2147483647, "ffffffff07"),
        (4294967295, "ffffffff0f"),
    ],
)
def test_unsigned_varint(value: int, raw: str) -> None:
    buffer = bytes.fromhex(raw)
    assert wire.unsigned_varint(buffer, 0, len(buffer), "it") == (value, len(buffer))
    assert encode.encoded_unsigned_varint(value) == buffer
    for limit in range(len(buffer)):
        assert error_of(wire.unsigned_varint, buffer, 0, limit, "it").kind == "truncated"


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-64, "7f"),
        (64, "8001"),
        (2147483647, "feffffff0f"),
        (-2147483648, "ffffffff0f"),
    ],
)
def test_varint(value: int, raw: str) -> None:
    buffer = bytes.fromhex(raw)
    assert wire.varint(buffer, 0, len(buffer), "it") == (value, len(buffer))
    assert wire.varlong(buffer, 0, len(buffer), "it") == (value, len(buffer))


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 3))
def test_varlong_undoes_its_encoding(value: int, before: int) -> None:
    buffer = bytes(before) + encode.encoded_varint(value) + b"\xff"
    end = len(buffer) - 1
    assert wire.varlong(buffer, before, end, "it") == (value, end)
    assert error_of(wire.varlong, buffer, before, end - 1, "it").kind == "truncated"


def test_varints_that_never_end() -> None:
    endless = b"\x80" * 11
    assert error_of(wire.unsigned_varint, endless, 0, 11, "it").kind == "varint_too_long"
    assert error_of(wire.varlong, endless, 0, 11, "it").kind == "varint_too_long"
    assert error_of(wire.unsigned_varint, endless, 0, 4, "it").kind == "truncated"


@pytest.mark.parametrize("read, most", [(wire.unsigned_varint, 5), (wire.varlong, 10)])
def test_the_longest_varint(read: object, most: int) -> None:
    """One byte more is too long, and is so before it is looked at."""
    longest = b"\x80" * (most - 1) + b"\x01"
    value, end = read(b"\x55" + longest, 1, most + 1, "it")  # type: ignore[operator]
    assert (value != 0, end) == (True, most + 1)
    error = error_of(read, b"\x55" + b"\x80" * most, 1, most + 1, "it")
    assert (error.kind, error.position) == ("varint_too_long", 1)
    error = error_of(read, b"\x55" + b"\x80" * most, 1, most, "it")
    assert (error.kind, error.position) == ("truncated", 1)


def test_bits_beyond_the_width_are_dropped_as_kafka_does() -> None:
    assert wire.unsigned_varint(b"\xff\xff\xff\xff\x7f", 0, 5, "it") == (0xFFFFFFFF, 5)
    assert wire.varlong(b"\xff" * 9 + b"\x7f", 0, 10, "it") == (-(1 << 63), 10)


@pytest.mark.parametrize("form", wire.FIXED.values(), ids=wire.FIXED.keys())
def test_fixed(form: struct.Struct) -> None:
    buffer = b"\x55" + form.pack(1) + b"\x55"
    end = 1 + form.size
    assert wire.fixed(form, buffer, 1, end, "it") == (1, end)
    assert wire.fixed(form, memoryview(buffer), 1, end, "it") == (1, end)
    error = error_of(wire.fixed, form, buffer, 1, end - 1, "it")
    assert (error.kind, error.position) == ("truncated", 1)


@pytest.mark.parametrize("size", [-1, 4, 1 << 31, 1 << 80])
def test_need_refuses_what_does_not_fit(size: int) -> None:
    assert wire.need(2, 3, 5, "it") == 5
    assert error_of(wire.need, 2, size, 5, "it").kind == "truncated"


@given(st.binary(min_size=16, max_size=16))
def test_uuid_text(raw: bytes) -> None:
    text = wire.uuid_text(raw)
    assert len(text) == 22
    assert urlsafe_b64decode(text + "==") == raw


# What Java's String says of these bytes, with ? for U+FFFD.
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("ed", "?"),
        ("eda0", "?"),
        ("eda041", "?A"),
        ("41eda0", "A?"),
        ("eda080", "?"),
        ("eda08041", "?A"),
        ("eda0eda0", "??"),
        ("edbfeda080", "??"),
        ("edc0", "??"),
        ("ed9f41", "?A"),
    ],
)
def test_an_encoded_surrogate_is_one_character_also_where_it_is_cut(raw: str, text: str) -> None:
    assert wire.utf8_text(bytes.fromhex(raw)) == text.replace("?", "\ufffd")
