"""CRC-32C: the checksum that kraftlog computes is crcmod's, an independent implementation; which of
the two computes it, and that `--verify` holds one against the other.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import crcmod.predefined
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.errors import PlatformError
from kraftlog.log import crc
from kraftlog.log.batch import Batches, crc32c, crc_is_valid, read_batches
from kraftlog.log.segment import Limits, Window, walk
from kraftlog.log.storage import open_file
from kraftlog.plain import tell_once
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


def both() -> tuple[crc.Implementation, crc.Implementation]:
    first, second = crc.google(), crc.crcmod()
    assert first is not None
    assert second is not None
    return first, second


def test_both_implementations_agree_in_pieces_too() -> None:
    for one in both():
        assert one.compiled, "the locked environment compiles both"
        assert one.value(b"123456789") == 0xE3069283
        assert one.extend(one.value(b"1234"), b"56789") == 0xE3069283


def test_the_compiled_one_is_chosen() -> None:
    google, other = both()
    slow, slow_other = replace(google, compiled=False), replace(other, compiled=False)
    assert crc.chosen(google, crc.crcmod) is google
    assert crc.chosen(slow, lambda: other) is other
    assert crc.chosen(None, lambda: slow_other) is slow_other
    assert crc.chosen(slow, lambda: slow_other) is slow
    assert crc.chosen(slow, lambda: None) is slow
    with pytest.raises(PlatformError, match="pip install google-crc32c"):
        crc.chosen(None, lambda: None)


def test_a_slow_one_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    tell_once.cache_clear()
    google, other = both()
    slow = replace(google, compiled=False)
    assert crc.told(slow)(b"123456789") == crc.told(google)(b"123456789") == 0xE3069283
    crc.told(slow)
    assert capsys.readouterr().err.count("has no compiled part here") == 1
    for lacking in (None, google, replace(other, compiled=False)):
        assert crc.checked(google, lacking) is google.value
    assert capsys.readouterr().err.count("google-crc32c alone") == 1


def test_verify_holds_one_against_the_other() -> None:
    google, other = both()
    assert crc.checked(google, other)(b"123456789") == 0xE3069283
    broken = replace(other, value=lambda data: other.value(data) ^ 1)
    with pytest.raises(PlatformError, match="find different checksums of the same 9 bytes"):
        crc.checked(google, broken)(b"123456789")


def test_every_batch_is_checked_twice_under_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, other = both()
    seen = list[int]()

    def counting(data: bytes) -> int:
        seen.append(len(data))
        return other.value(data)

    monkeypatch.setattr(crc, "crcmod", lambda: replace(other, value=counting))
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(encode_batch([], offset, 1, 1) for offset in range(3)))
    for verify, times in ((False, 0), (True, 3)):
        with open_file(str(path)) as file:
            windows = walk(file, limits=Limits(verify=verify))
            assert sum(len(one.batches) for one in windows if isinstance(one, Window)) == 3
        assert len(seen) == times


@pytest.mark.parametrize("missing", ["google_crc32c._crc32c", "google_crc32c"])
def test_crcmod_takes_over_where_the_other_has_no_compiled_part(missing: str) -> None:
    """As on a platform for which there is no wheel: its import fails, in a process of its own."""
    script = f"""
import sys, time
sys.modules[{missing!r}] = None
from kraftlog.log import crc
from kraftlog.log.batch import crc32c
assert crc32c(b"123456789") == 0xE3069283
data, began = bytes(1 << 24), time.process_time()
crc32c(data)
assert time.process_time() - began < 0.5, "that is plain Python"
print(crc._OURS.name)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "crcmod\n"
