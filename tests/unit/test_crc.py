"""CRC-32C: the checksum that kraftlog computes is crcmod's, an independent implementation."""

import crcmod.predefined
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.log.batch import Batches, crc32c, crc_is_valid, read_batches
from kraftlog.state.encode import encode_batch

REFERENCE = crcmod.predefined.mkPredefinedCrcFun("crc-32c")


def test_check_value() -> None:
    """The one that every catalogue of CRCs gives for CRC-32C."""
    assert crc32c(b"123456789") == REFERENCE(b"123456789") == 0xE3069283


@given(st.binary(max_size=4096))
@settings(max_examples=500, deadline=None)
def test_equal_to_the_reference(data: bytes) -> None:
    assert crc32c(data) == REFERENCE(data)


def test_equal_to_the_reference_at_every_length_and_alignment() -> None:
    data = bytes(index * 31 % 251 for index in range(700))
    for start in range(16):
        for end in range(start, 600, 7):
            assert crc32c(data[start:end]) == REFERENCE(data[start:end])


@given(st.integers(0, 1 << 40), st.integers(0, 488))
@settings(max_examples=100, deadline=None)
def test_a_batch_is_valid_until_a_bit_after_its_crc_flips(base_offset: int, bit: int) -> None:
    batch = encode_batch([], base_offset, 1, 1)
    assert crc_is_valid(batch)
    assert found_in(batch).crc_valid.all()
    bit %= (len(batch) - 17) * 8
    damaged = bytearray(batch)
    damaged[17 + bit // 8] ^= 1 << bit % 8
    assert not crc_is_valid(bytes(damaged))
    assert not found_in(bytes(damaged)).crc_valid.any()


def found_in(batch: bytes) -> Batches:
    found, end = read_batches(batch, 0, len(batch), 0, len(batch), lambda *_: True)
    assert (len(found), end) == (1, len(batch))
    return found
