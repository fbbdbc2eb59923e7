"""Slices of the partitions: all records of one partition belong to one slice, so that a fold can
take some of the partitions without looking at the others' records.

In: partitions' ids as columns. Out: a hash for each; its low bits are the slice. (From the bytes of
records the kernel finds the same: `native.kernel.hashes`.) Blocks of a topic's partitions stay
together, which keeps a slice's topics few; a topic with many partitions is in all slices.
"""

from base64 import urlsafe_b64decode
from typing import Any

import numpy as np
import pyarrow as pa

from kraftlog.native.kernel import ID_SIZE, Numbers

SLICED = frozenset({"PARTITION_RECORD", "PARTITION_CHANGE_RECORD"})
"""Record types that are stored by slices. Both messages begin with the partition's id and the
topic's, in every version.
"""
SLICES = 16
"""A power of two, so that halves and quarters of the partitions are whole slices."""

_BLOCK_BITS = 6
_MIX = np.uint64(0x9E3779B97F4A7C15)
_NO_TOPIC = bytes(ID_SIZE)


def hashes_of(topics: pa.Array, partitions: Numbers) -> Numbers:
    """The hash of each partition, by the texts of the topics' ids; null, or a text that is no id,
    counts as the id of zeros.
    """
    encoded = topics if pa.types.is_dictionary(topics.type) else topics.dictionary_encode()
    distinct = [*map(_bytes_of, encoded.dictionary.to_pylist()), _NO_TOPIC]
    cells = np.frombuffer(b"".join(distinct), f"V{ID_SIZE}")
    codes = encoded.indices.fill_null(len(distinct) - 1).to_numpy(zero_copy_only=False)
    halves = cells[codes].view("<u8").reshape(-1, 2)
    mixed = (halves[:, 0] ^ halves[:, 1]) * _MIX >> np.uint64(32)
    found: Numbers = mixed.astype(np.int64) + (partitions >> _BLOCK_BITS)
    return found


def hash_of(row: dict[str, Any] | None) -> int:
    """The hash of one decoded record, under Kafka's own field names."""
    if row is None:
        return 0
    topics = pa.array([row["topicId"]], pa.string())
    return int(hashes_of(topics, np.array([row["partitionId"]], np.int64))[0])


def _bytes_of(text: str | None) -> bytes:
    try:
        found = urlsafe_b64decode(f"{text}==")
    except ValueError:
        return _NO_TOPIC
    return found if len(found) == ID_SIZE else _NO_TOPIC
