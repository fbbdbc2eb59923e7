"""Record batch headers (magic 2), many at once.

In: the bytes of a file from some position on. Out: a numpy row per batch. Source: Kafka's
DefaultRecordBatch; KIP-98.
"""

from dataclasses import dataclass
from struct import Struct

import google_crc32c
import numpy as np
import numpy.typing as npt
from blake3 import blake3

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
MAGIC = 2
MIN_RECORD_SIZE = 7
"""The smallest record: seven one-byte varints and attributes."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
KNOWN_ATTRIBUTES = 0x7F

_ID_SIZE = 16
"""Bytes of a content's hash."""

INT32_AT = Struct(">i")
UINT32_AT = Struct(">I")

Headers = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Batches:
    """Consecutive batches of one file: a header row each, where it begins, and whether its CRC-32C
    is right.

    `batch_id` is a hash over all of the batch's bytes: equal ids are equal batches, wherever they
    lie.
    """

    positions: npt.NDArray[np.int64]
    headers: Headers
    crc_valid: npt.NDArray[np.bool_]
    batch_ids: list[str]

    def __len__(self) -> int:
        return len(self.positions)


def codec_name(attributes: int) -> str:
    """The compression codec of a batch's attributes; its number where Kafka knows none."""
    codec = attributes & CODEC_MASK
    return CODECS[codec] if codec < len(CODECS) else f"unknown({codec})"


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli) of some bytes."""
    return int(google_crc32c.value(data))


def content_hash(data: bytes) -> str:
    """A hash that names bytes by what they are: 128 bits of BLAKE3, in hex."""
    return blake3(data).hexdigest(length=_ID_SIZE)


def crc_is_valid(batch: bytes) -> bool:
    """True where the stored CRC-32C is that of the bytes from the attributes to the batch's end."""
    stored: int = UINT32_AT.unpack_from(batch, CRC_POSITION)[0]
    return stored == crc32c(batch[CRC_START:])


def read_batches(buffer: bytes, starts: list[int], file_position: int) -> Batches:
    """The batches that begin at `starts` of a buffer, whose first byte lies at `file_position` of
    its file.

    Each of them must lie inside the buffer as a whole, by its own length.
    """
    at = np.array(starts, np.int64)
    raw = np.frombuffer(buffer, np.uint8)
    rows = raw[at[:, None] + np.arange(HEADER_SIZE)] if starts else np.empty((0, HEADER_SIZE), "u1")
    headers: Headers = np.ascontiguousarray(rows).view(HEADER).reshape(len(starts))
    ends = (at + PREFIX_SIZE + headers["length"]).tolist()
    value, hasher = google_crc32c.value, blake3()
    reset, update, digest = hasher.reset, hasher.update, hasher.digest
    crcs, hashes = [], []
    # Single-record batches come by the million, so that this loop does as little as it can.
    for start, end in zip(starts, ends, strict=True):
        batch = buffer[start:end]
        crcs.append(value(batch[CRC_START:]))
        reset()
        update(batch)
        hashes.append(digest(_ID_SIZE))
    text = b"".join(hashes).hex()
    ids = [text[place : place + 2 * _ID_SIZE] for place in range(0, len(text), 2 * _ID_SIZE)]
    valid = headers["crc"] == np.array(crcs, np.uint32)
    return Batches(at + file_position, headers, valid, ids)
