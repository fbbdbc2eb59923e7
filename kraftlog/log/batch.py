"""Record batch headers (magic 2), many at once.

In: the bytes of a file from some position on. Out: a numpy row per batch. Source: Kafka's
DefaultRecordBatch; KIP-98.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from struct import Struct

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from kraftlog.log import crc
from kraftlog.native import kernel

HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("batch_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
HEADER_SIZE = HEADER.itemsize
LENGTH_POSITION, MAGIC_POSITION, CRC_POSITION, CRC_START = 8, 16, 17, 21
PREFIX_SIZE = 12
"""Bytes before what `length` counts: base offset and length itself."""
MIN_LENGTH = HEADER_SIZE - PREFIX_SIZE
MAGIC, LAST_MAGIC = 2, 127
"""Ours, and the last one that Kafka's files take for it: they ask whether a signed byte is below ours.
"""
MIN_RECORD_SIZE = 7
"""The smallest record: seven one-byte varints and attributes."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON

_HASH_SIZE = 16
"""Bytes of a content's hash."""
ID_SIZE = 2 * _HASH_SIZE
"""Letters of a batch's id."""

INT32_AT = Struct(">i")
UINT32_AT = Struct(">I")


@dataclass(frozen=True)
class Batches:
    """Consecutive batches of one file: a header row each, where it begins, whether its CRC-32C
    is right, and a hash over all of its bytes: 16 bytes in a row for each.

    The hash is the batch's id: equal ids are equal batches, wherever they lie.
    """

    positions: npt.NDArray[np.int64]
    headers: kernel.Headers
    crc_valid: npt.NDArray[np.bool_]
    hashes: bytes

    @cached_property
    def id_letters(self) -> kernel.Bytes:
        """The ids one after the other, in hex."""
        return kernel.hex_letters(self.hashes)

    @cached_property
    def batch_ids(self) -> list[str]:
        """The id of each, in hex."""
        letters = self.id_letters.tobytes().decode()
        return [letters[at : at + ID_SIZE] for at in range(0, len(letters), ID_SIZE)]

    def __len__(self) -> int:
        return len(self.positions)

    @classmethod
    def together(cls, parts: Sequence["Batches"]) -> "Batches":
        """Those of several windows of one file, one after the other; there must be some."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([one.positions for one in parts]),
            np.concatenate([one.headers for one in parts]),
            np.concatenate([one.crc_valid for one in parts]),
            b"".join(one.hashes for one in parts),
        )


def codec_name(attributes: int) -> str:
    """The compression codec of a batch's attributes; its number where Kafka knows none."""
    codec = attributes & CODEC_MASK
    return CODECS[codec] if codec < len(CODECS) else f"unknown({codec})"


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of some bytes."""
    return int(crc.value(data))


def content_hash(data: bytes, key: bytes | None = None) -> str:
    """A hash that names bytes by what they are: 128 bits of BLAKE3, in hex. Under a key of 32 bytes
    nobody without the key can test a guess of the bytes.
    """
    return _hasher(key).update(data).hexdigest(length=_HASH_SIZE)


def _hasher(key: bytes | None) -> blake3:
    return blake3() if key is None else blake3(key=key)


def crc_is_valid(batch: bytes) -> bool:
    """True where the stored CRC-32C is that of the bytes from the attributes to the batch's end."""
    stored: int = UINT32_AT.unpack_from(batch, CRC_POSITION)[0]
    return stored == crc32c(batch[CRC_START:])


def read_batches(
    buffer: bytes,
    start: int,
    stop: int,
    file_position: int,
    size_limit: int,
    is_damaged: Callable[[int, int], bool],
    key: bytes | None = None,
    value: Callable[[bytes], int] = crc.value,
) -> tuple[Batches, int]:
    """The whole batches that stand one after the other from `start` of a buffer on, as far as they
    begin before `stop`, and where they end. The buffer's first byte lies at `file_position`.

    A batch whose CRC is wrong is one of them where `is_damaged` says so of its start and size; else
    they end before it. `key` is that of the batches' ids, `value` computes a CRC.
    """
    hasher = _hasher(key)
    reset, update, digest = hasher.reset, hasher.update, hasher.digest
    unpack, last_header = _FRAMING.unpack_from, len(buffer) - HEADER_SIZE
    starts, bad, hashes = array("q"), list[int](), bytearray()
    at, stop = start, min(stop, last_header + 1)
    is_compiled = value is crc.value and size_limit >= kernel.SMALL_BATCH_SIZE and kernel.is_here()
    while at < stop:
        length, _, magic, stored = unpack(buffer, at + LENGTH_POSITION)
        end = at + PREFIX_SIZE + length
        if is_compiled and end - at <= kernel.SMALL_BATCH_SIZE:
            # Single-record batches come by the million.
            found, held = kernel.small_batches(buffer, at, stop, key)
            if len(held):
                starts.frombytes(found[:-1].tobytes())
                hashes += held
                at = int(found[-1])
                continue
        if magic != MAGIC or length < MIN_LENGTH or end - at > size_limit or end > len(buffer):
            break
        batch = buffer[at:end]
        if value(batch[CRC_START:]) != stored:
            if not is_damaged(at, end - at):
                break
            bad.append(len(starts))
        reset()
        update(batch)
        hashes += digest(_HASH_SIZE)
        starts.append(at)
        at = end
    return _batches(buffer, starts, bad, bytes(hashes), file_position), at


_OPAQUE = np.dtype((np.void, HEADER_SIZE))
_FRAMING = Struct(">iibI")
"""Length, leader epoch, magic and CRC, from the length on."""


def _batches(
    buffer: bytes, starts: "array[int]", bad: list[int], hashes: bytes, file_position: int
) -> Batches:
    at = np.array(starts, np.int64)
    # numpy copies opaque elements of an unaligned view many times as fast as their bytes.
    every = np.ndarray((max(0, len(buffer) - HEADER_SIZE + 1),), _OPAQUE, buffer, strides=(1,))
    headers: kernel.Headers = every[at].view(HEADER)
    valid = np.ones(len(at), np.bool_)
    valid[bad] = False
    return Batches(at + file_position, headers, valid, hashes)
