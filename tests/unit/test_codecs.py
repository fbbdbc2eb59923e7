"""Unpacking: all codecs and framings, never more than the limit, and always an answer."""

import gzip
import struct
import time

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.errors import DecodeError
from kraftlog.log.codecs import UNPACKED_SIZE_BYTES, decompress, unpack
from kraftlog.log.fault import FaultKind
from tests.packing import PACKERS, number

PLAIN = b"a record and another record " * 400
LIMIT = 1 << 20


every_packer = pytest.mark.parametrize("packer", PACKERS)


def kind_of(codec: int, packed: bytes, limit: int = LIMIT) -> str | None:
    """The kind of the error; None where the bytes unpack."""
    try:
        assert len(decompress(codec, packed, limit)) <= limit
    except DecodeError as error:
        return error.kind
    return None


@every_packer
@pytest.mark.parametrize("size", [1, 100, len(PLAIN)])
def test_unpacks_what_was_packed(packer: str, size: int) -> None:
    data = PLAIN[:size]
    assert decompress(number(packer), PACKERS[packer](data), LIMIT) == data


@every_packer
def test_the_limit_is_exact(packer: str) -> None:
    packed = PACKERS[packer](PLAIN)
    assert decompress(number(packer), packed, len(PLAIN)) == PLAIN
    assert kind_of(number(packer), packed, len(PLAIN) - 1) == FaultKind.DECOMPRESSION_LIMIT


@every_packer
def test_a_bomb_costs_no_more_than_the_limit(packer: str) -> None:
    bomb = PACKERS[packer](bytes(64 << 20))
    before = pa.total_allocated_bytes()
    start = time.process_time()
    assert kind_of(number(packer), bomb, 1 << 16) == FaultKind.DECOMPRESSION_LIMIT
    assert time.process_time() - start < 1
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_limit_that_was_raised_counts_alone() -> None:
    """Equal long values pack better than any few bytes may by default."""
    data = bytes(1 << 20)
    packed = PACKERS["gzip"](data)
    assert len(data) > 128 * len(packed) + (8 << 10)
    with pytest.raises(DecodeError, match="decompression_limit"):
        unpack(number("gzip"), packed, UNPACKED_SIZE_BYTES)
    assert unpack(number("gzip"), packed, UNPACKED_SIZE_BYTES + 1) == data


def test_a_snappy_block_that_claims_gigabytes() -> None:
    claim = b"\xff\xff\xff\xff\x0f"
    assert kind_of(2, claim + b"\x00") == FaultKind.DECOMPRESSION_LIMIT
    framed = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 6) + claim + b"\x00"
    assert kind_of(2, framed) == FaultKind.DECOMPRESSION_LIMIT


def test_many_empty_gzip_members_take_linear_time() -> None:
    start = time.process_time()
    assert decompress(1, gzip.compress(b"") * 100_000, LIMIT) == b""
    assert time.process_time() - start < 5


@every_packer
def test_every_cut_is_an_error(packer: str) -> None:
    packed = PACKERS[packer](PLAIN[:200])
    for end in range(1, len(packed)):
        at_member = packer.startswith("gzip in") and packed[:end] == gzip.compress(PLAIN[:99])
        at_header = packer == "snappy in blocks" and end == 16  # no block, yet whole
        if not (at_member or at_header):
            assert kind_of(number(packer), packed[:end]) == FaultKind.COMPRESSION, end


@every_packer
def test_every_flip_gives_an_answer(packer: str) -> None:
    packed = PACKERS[packer](PLAIN[:60])
    for bit in range(len(packed) * 8):
        damaged = bytearray(packed)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        assert kind_of(number(packer), bytes(damaged)) in (
            None,
            FaultKind.COMPRESSION,
            FaultKind.DECOMPRESSION_LIMIT,
        )


@given(st.integers(1, 4), st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_garbage_gives_an_answer(codec: int, garbage: bytes) -> None:
    kind_of(codec, garbage, 1 << 16)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec: int) -> None:
    assert kind_of(codec, b"anything") == FaultKind.COMPRESSION
