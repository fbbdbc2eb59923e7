"""The small files beside the log: identity, quorum state, epochs, indexes.

In: a file's bytes. Out: plain values, or `ValueError` with a sentence where the file does not
follow its format. Source: Kafka's PropertiesUtils, FileQuorumStateStore (KIP-853 for version 1),
LeaderEpochCheckpointFile, OffsetIndex, TimeIndex.
"""

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SIDE_FILE_LIMIT = 8 << 20
"""Text files over this many bytes are not what their names say."""

INDEX_LIMIT = 64 << 20
"""Kafka's index files are 10 MiB at most; beyond this many bytes nothing is looked at."""


@dataclass(frozen=True, slots=True)
class QuorumState:
    """`quorum-state`: version 0 names the voters and the cluster, version 1 the voted directory."""

    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str | None
    cluster_id: str | None
    voters: tuple[int, ...] | None


def read_properties(raw: bytes) -> dict[str, str]:
    """A Java properties file, as Kafka writes them: one key=value a line."""
    result = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ValueError(f"a line has no '=': {line[:40]!r}")
        result[key.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return result


def read_meta_properties(raw: bytes) -> dict[str, str]:
    """`meta.properties`: node.id (or broker.id), cluster.id, directory.id, version."""
    result = read_properties(raw)
    if "node.id" not in result and "broker.id" not in result:
        raise ValueError("neither node.id nor broker.id is set")
    node = result.get("node.id", result.get("broker.id", ""))
    if not node.lstrip("-").isdigit():
        raise ValueError(f"node.id is {node!r}, not a number")
    return result


def read_quorum_state(raw: bytes) -> QuorumState:
    """`quorum-state`, versions 0 and 1 (and any later one that keeps their fields)."""
    try:
        value = json.loads(raw)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    voters = value.get("currentVoters")
    try:
        return QuorumState(
            data_version=int(value.get("data_version", 0)),
            leader_id=int(value.get("leaderId", -1)),
            leader_epoch=int(value["leaderEpoch"]),
            voted_id=int(value.get("votedId", -1)),
            voted_directory_id=value.get("votedDirectoryId"),
            cluster_id=value.get("clusterId") or None,
            voters=tuple(int(one["voterId"]) for one in voters) if voters is not None else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"a field is missing or of the wrong type: {error}") from error


def read_epoch_checkpoint(raw: bytes) -> list[tuple[int, int]]:
    """`leader-epoch-checkpoint`: (epoch, start offset) a line, after a version and a count."""
    lines = raw.decode("utf-8", "replace").split("\n")
    try:
        version, count = int(lines[0]), int(lines[1])
    except (IndexError, ValueError) as error:
        raise ValueError("it does not begin with a version and a count") from error
    if version != 0:
        raise ValueError(f"version {version} is unknown")
    entries = []
    for line in lines[2:]:
        if not line.strip():
            continue
        words = line.split()
        if len(words) != 2 or not all(word.lstrip("-").isdigit() for word in words):
            raise ValueError(f"a line is not 'epoch offset': {line[:40]!r}")
        entries.append((int(words[0]), int(words[1])))
    if len(entries) != count:
        raise ValueError(f"it says {count} entries and holds {len(entries)}")
    return entries


def read_partition_metadata(raw: bytes) -> dict[str, str]:
    """`partition.metadata`: version and topic_id."""
    result = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        key, separator, value = line.partition(":")
        if line.strip() and not separator:
            raise ValueError(f"a line has no ':': {line[:40]!r}")
        if separator:
            result[key.strip()] = value.strip()
    if "topic_id" not in result:
        raise ValueError("topic_id is missing")
    return result


INDEX_ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_INDEX_ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])


@dataclass(frozen=True, slots=True)
class Index:
    """An index file: its entries, the zero bytes after them (preallocation), and bytes that are no
    whole entry.
    """

    entries: npt.NDArray[np.void]
    padding_size_bytes: int
    surplus_size_bytes: int


def read_index(raw: bytes, entry: np.dtype[np.void]) -> Index:
    """`.index` or `.timeindex`. Trailing all-zero entries are Kafka's preallocation in a live or
    killed copy.

    The very first entry of an `.index` may be all zero in value (offset 0 at position 0); it counts
    as padding as well.
    """
    whole = len(raw) // entry.itemsize * entry.itemsize
    rows = np.frombuffer(raw[:whole], np.uint8).reshape(-1, entry.itemsize)
    used = np.flatnonzero(rows.any(axis=1))
    count = int(used[-1]) + 1 if len(used) else 0
    entries: npt.NDArray[np.void] = np.frombuffer(raw[: count * entry.itemsize], entry)
    return Index(entries, whole - count * entry.itemsize, len(raw) - whole)
