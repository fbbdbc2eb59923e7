"""Unpack the records of a compressed batch, never beyond a limit.

In: a codec number and the packed bytes. Out: the unpacked bytes, or a `DecodeError` whose kind is a
fault kind. Source: Kafka's CompressionType; the snappy framing is that of xerial's snappy-java.
"""

import pyarrow as pa

from kraftlog.errors import DecodeError
from kraftlog.log.batch import CODECS
from kraftlog.log.fault import FaultKind

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_STEP = 1 << 20


UNPACKED_SIZE_BYTES = 16 << 20
"""What a batch may unpack to, unless another limit is given."""
RATIO_LIMIT = 128
"""A batch may unpack to this many times its packed size: records of a metadata log differ in their
offsets, and mostly in their values. So the time that a file takes is bounded by its size. Equal long
values pack better: a limit that was raised counts alone.
"""
_FREE_SIZE = 8 << 10
"""What a small batch may unpack to beyond that."""


def unpack(codec: int, packed: bytes, limit: int) -> bytes:
    """The records of a batch, within what so few bytes may unpack to, and never over `limit` bytes.

    Raises DecodeError as `decompress` does."""
    likely = _FREE_SIZE + RATIO_LIMIT * len(packed)
    return decompress(codec, packed, limit if limit > UNPACKED_SIZE_BYTES else min(limit, likely))


def decompress(codec: int, packed: bytes, limit: int) -> bytes:
    """The unpacked bytes.

    Raises DecodeError: `compression` for an unknown codec or broken bytes, `decompression_limit`
    beyond `limit` bytes.
    """
    name = CODECS[codec] if codec < len(CODECS) else None
    if name is None:
        raise _broken(f"codec {codec} is unknown")
    try:
        if name == "snappy":
            return _snappy(packed, limit)
        return _stream(name, packed, limit)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise _broken(f"{name}: {error}") from error


def _broken(detail: str) -> DecodeError:
    return DecodeError(FaultKind.COMPRESSION, 0, detail)


def _too_much(limit: int) -> DecodeError:
    return DecodeError(
        FaultKind.DECOMPRESSION_LIMIT, 0, f"the batch unpacks to more than {limit:,} bytes"
    )


def _snappy(packed: bytes, limit: int) -> bytes:
    """xerial's framing (blocks, each with its length before it), or one raw block."""
    if not packed.startswith(_XERIAL_MAGIC):
        return _snappy_block(packed, limit)
    if len(packed) < _XERIAL_HEADER_SIZE:
        raise _broken("snappy: the header is cut off")
    parts: list[bytes] = []
    size, at = 0, _XERIAL_HEADER_SIZE
    while at < len(packed):
        length = int.from_bytes(packed[at : at + 4], "big")
        block = packed[at + 4 : at + 4 + length]
        if len(block) < length or length == 0:
            raise _broken("snappy: a block is cut off")
        parts.append(_snappy_block(block, limit - size))
        size += len(parts[-1])
        at += 4 + length
    return b"".join(parts)


def _snappy_block(block: bytes, limit: int) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        raise _too_much(limit)
    return bytes(pa.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True))


def _stream(name: str, packed: bytes, limit: int) -> bytes:
    """gzip, lz4 or zstd: one or more members, one after the other."""
    parts: list[bytes] = []
    size = 0
    with pa.CompressedInputStream(pa.BufferReader(packed), name) as stream:
        while part := stream.read(min(_STEP, limit - size + 1)):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise _too_much(limit)
    return b"".join(parts)
