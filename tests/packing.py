"""Compressed batches: every codec and framing that Kafka knows, as its clients write them."""

import gzip
import struct
from collections.abc import Callable

import pyarrow as pa

from kraftlog.log.batch import CODECS, CRC_START, HEADER_SIZE
from tests.property.engines import sealed


def block(data: bytes) -> bytes:
    return bytes(pa.Codec("snappy").compress(data, asbytes=True))


def xerial(data: bytes, block_size: int = 1000) -> bytes:
    """snappy-java's framing, which Kafka writes: a header, then blocks with their lengths."""
    parts = [b"\x82SNAPPY\x00", struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), block_size):
        packed = block(data[start : start + block_size])
        parts += [struct.pack(">i", len(packed)), packed]
    return b"".join(parts)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip in two members": lambda data: gzip.compress(data[:99]) + gzip.compress(data[99:]),
    "snappy in blocks": xerial,
    "snappy as one block": block,
    "lz4": lambda data: pa.Codec("lz4").compress(data, asbytes=True),
    "zstd": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


def number(packer: str) -> int:
    return CODECS.index(packer.split()[0])


def packed(batch: bytes, packer: str) -> bytes:
    """The batch with its records compressed."""
    head = bytearray(batch[:HEADER_SIZE])
    head[CRC_START + 1] |= number(packer)
    return sealed(bytes(head) + PACKERS[packer](batch[HEADER_SIZE:]))
