"""Slices of the partitions: all records of one partition belong to one slice, so that a fold can
take some of the partitions without looking at the others' records.

In: partitions' ids, as bytes of records or as columns. Out: a hash for each; its low bits are the
slice. Blocks of a topic's partitions stay together, which keeps a slice's topics few; a topic with
many partitions is in all slices.
"""

from base64 import urlsafe_b64decode
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog.decode.vector import UUID_SIZE, Bytes, Numbers, gather, numbers

SLICED = frozenset({"PARTITION_RECORD", "PARTITION_CHANGE_RECORD"})
"""Record types that are stored by slices. Both messages begin with the partition's id and the
topic's, in every version.
"""
SLICES = 16
"""A power of two, so that halves and quarters of the partitions are whole slices."""

_BLOCK_BITS = 6
_ID_SIZE = 4
_MIX = np.uint64(0x9E3779B97F4A7C15)
_NO_TOPIC = bytes(UUID_SIZE)


def hashes_at(raw: Bytes, bodies: Numbers) -> Numbers:
    """The hash of each record of SLICED types whose body begins there; any number where the bytes
    end before the ids do.
    """
    size = _ID_SIZE + UUID_SIZE
    if len(raw) < size:
        return np.zeros(len(bodies), np.int64)
    cells = gather(raw, np.clip(bodies, 0, len(raw) - size), size)
    table = cells.view(np.uint8).reshape(len(cells), size)
    ids = np.ascontiguousarray(table[:, :_ID_SIZE]).view(f"V{_ID_SIZE}").ravel()
    topics = np.ascontiguousarray(table[:, _ID_SIZE:]).view(f"V{UUID_SIZE}").ravel()
    return _hashes(topics, numbers(ids, "i4").astype(np.int64))


def hashes_of(topics: pa.Array, partitions: Numbers) -> Numbers:
    """The hash of each partition, by the texts of the topics' ids; null, or a text that is no id,
    counts as the id of zeros.
    """
    encoded = topics if pa.types.is_dictionary(topics.type) else topics.dictionary_encode()
    distinct = [*map(_bytes_of, encoded.dictionary.to_pylist()), _NO_TOPIC]
    cells = np.frombuffer(b"".join(distinct), f"V{UUID_SIZE}")
    codes = encoded.indices.fill_null(len(distinct) - 1).to_numpy(zero_copy_only=False)
    return _hashes(cells[codes], partitions)


def hash_of(row: dict[str, Any] | None) -> int:
    """The hash of one decoded record, under Kafka's own field names."""
    if row is None:
        return 0
    topics = pa.array([row["topicId"]], pa.string())
    return int(hashes_of(topics, np.array([row["partitionId"]], np.int64))[0])


def _hashes(topics: npt.NDArray[np.void], partitions: Numbers) -> Numbers:
    halves = topics.view("<u8").reshape(-1, 2)
    mixed = (halves[:, 0] ^ halves[:, 1]) * _MIX >> np.uint64(32)
    found: Numbers = mixed.astype(np.int64) + (partitions >> _BLOCK_BITS)
    return found


def _bytes_of(text: str | None) -> bytes:
    try:
        found = urlsafe_b64decode(f"{text}==")
    except ValueError:
        return _NO_TOPIC
    return found if len(found) == UUID_SIZE else _NO_TOPIC
