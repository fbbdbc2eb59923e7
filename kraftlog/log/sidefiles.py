"""The small files beside the log: identity, quorum state, epochs, producers, indexes.

In: a file's bytes. Out: plain values, or `ValueError` with a sentence where the file does not
follow its format; none of the file's text is in that sentence, as it may be a password. Source:
Kafka's PropertiesUtils, FileQuorumStateStore (KIP-853 for version 1),
LeaderEpochCheckpointFile, ProducerStateManager, OffsetIndex, TimeIndex.
"""

import json
import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt

from kraftlog.log.batch import crc32c
from kraftlog.plain import counted

SIDE_FILE_LIMIT = 1 << 20
"""Text files over this many bytes are not what their names say."""

INDEX_LIMIT = 64 << 20
"""Kafka's index files are 10 MiB at most; beyond this many bytes nothing is looked at."""

_INT, _LONG = (1 << 31) - 1, (1 << 63) - 1


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
    """A Java properties file in any of the ways in which people write them."""
    # Who decodes records reads no properties, and would wait for its parser of XML and of URLs.
    import javaproperties

    if len(_CONTINUED.findall(raw)) > _CONTINUED_LIMIT:
        raise ValueError(f"over {_CONTINUED_LIMIT:,} lines are continued on the next one")
    try:
        found = javaproperties.load(BytesIO(raw))
    except ValueError as error:
        raise ValueError("a \\u escape has no four digits after it") from error
    return {_whole_text(key): _whole_text(value) for key, value in found.items()}


_CONTINUED = re.compile(rb"\\(?:\r\n?|\n)")
_CONTINUED_LIMIT = 1000
"""The library takes time by the square of a line that goes on and on."""


PULLED_ID = "-1"
"""node.id of a pulled copy: that of an observer which no quorum counts."""
_IDENTITY = ("version", "node.id", "broker.id", "cluster.id", "directory.id")


def read_meta_properties(raw: bytes) -> dict[str, str]:
    """`meta.properties`: node.id (of version 0, broker.id), cluster.id, directory.id, version. What else
    stands in it is left out: it may be another file's, with passwords.
    """
    found = read_properties(raw)
    if "node.id" not in found and "broker.id" not in found:
        raise ValueError("neither node.id nor broker.id is set")
    if _version(found) == "0" and "broker.id" in found:
        found.pop("node.id", None)
    text = found.get("node.id", found.get("broker.id", ""))
    if _number(text, "node.id", _INT) < int(PULLED_ID):
        raise ValueError("node.id is below 0")
    return {key: found[key] for key in _IDENTITY if key in found}


def _version(values: Mapping[str, str]) -> str:
    return values.get("version", "0").strip()


def refused_meta_properties(values: Mapping[str, str]) -> str | None:
    """Why Kafka starts with no such `meta.properties`, though its values can be read; None where it
    does. Source: Kafka's MetaProperties and MetaPropertiesVersion, of which 0 is the default, and
    MetaPropertiesEnsemble.verify.
    """
    version = _version(values)
    if version not in ("0", "1"):
        return f"its version is {version!r}, and only 0 and 1 are known"
    name = {"0": "broker.id", "1": "node.id"}[version]
    if name not in values:
        return f"it names no {name}, which its version {version} has"
    if not values.get("cluster.id"):
        return "it names no cluster.id"
    directory = values.get("directory.id")
    if directory is None:
        return None
    if not is_uuid(directory):
        return "its directory.id is not a UUID"
    return None if is_directory_id(directory) else "its directory.id is one that Kafka reserves"


def is_directory_id(text: str) -> bool:
    """Whether a disk can have that directory id: a UUID that Kafka does not reserve. Source: Kafka's
    DirectoryId.reserved.
    """
    if not is_uuid(text):
        return False
    high, low = struct.unpack(">qq", _uuid_bytes(text))
    return not (high == 0 and low < 100)


def _uuid_bytes(text: str) -> bytes:
    return urlsafe_b64decode(text[:22] + "==")


def is_uuid(text: str) -> bool:
    """Whether Kafka reads a UUID in a text: url-safe base64 of 16 bytes, padded or not."""
    return _UUID.fullmatch(text) is not None


_UUID = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?")


def read_quorum_state(raw: bytes) -> QuorumState:
    """`quorum-state`, versions 0 and 1. Kafka reads the first JSON value of the first line, and
    needs every field that the version has.
    """
    line = next(iter(_lines(raw)), "").lstrip(_JSON_BLANKS)
    try:
        value, _ = _JSON.raw_decode(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON that such a file can hold") from error
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    if "data_version" not in value:
        raise ValueError("data_version is missing")
    version = _short(value["data_version"])
    if version not in (0, 1):
        raise ValueError(f"data_version {version} is unknown: Kafka reads 0 and 1")
    is_old = version == 0
    value = (_OF_NEW if is_old else _OF_OLD) | value
    cluster, voters = _text(value, "clusterId"), _voters(value)
    if not is_uuid(directory := _text(value, "votedDirectoryId")):
        raise ValueError("votedDirectoryId is not a UUID")
    if voters and not is_old:
        raise ValueError("currentVoters is not empty, as it is in version 1")
    _whole(value, "appliedOffset", _LONG)
    return QuorumState(
        data_version=version,
        leader_id=_whole(value, "leaderId"),
        leader_epoch=_whole(value, "leaderEpoch"),
        voted_id=_whole(value, "votedId"),
        voted_directory_id=None if is_old else directory,
        cluster_id=cluster or None if is_old else None,
        voters=voters if is_old else None,
    )


_OF_NEW: dict[str, Any] = {"votedDirectoryId": "A" * 22}
_OF_OLD: dict[str, Any] = {"clusterId": "", "appliedOffset": 0, "currentVoters": []}
"""Fields that one version has alone, with their defaults: in a file of the other one they need not be,
and Kafka reads them where they are.
"""


def _lines(raw: bytes) -> list[str]:
    """The lines of a text as Java's BufferedReader gives them: a line's end may be missing."""
    try:
        lines = _LINE_END.split(raw.decode())
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error
    return lines if lines[-1] else lines[:-1]


_LINE_END = re.compile(r"\r\n|\r|\n")
_JSON_BLANKS = " \t"


def _no_number(name: str) -> None:
    """NaN and the infinities are no JSON to Kafka."""
    raise ValueError(name)


_JSON = json.JSONDecoder(parse_constant=_no_number)


def _short(value: Any) -> int:
    """A JSON value as Kafka takes the version: 16 bits of a number, 0 for anything else. Source:
    Jackson's JsonNode.shortValue.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    whole = value if isinstance(value, int) else int(min(max(value, -1 << 31), _INT))
    return (whole + (1 << 15)) % (1 << 16) - (1 << 15)


def _voters(value: dict[str, Any]) -> tuple[int, ...]:
    voters = value.get("currentVoters")
    if not isinstance(voters, list) or not all(isinstance(one, dict) for one in voters):
        raise ValueError("currentVoters is missing, or not a list of JSON objects")
    return tuple(_whole(one, "voterId") for one in voters)


def _whole(value: dict[str, Any], name: str, limit: int = _INT) -> int:
    """A field that holds a number, at most `limit` away from 0."""
    found = value.get(name)
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) > limit:
        raise ValueError(f"{name} is missing, or not a number that Kafka could hold")
    return found


def _text(value: dict[str, Any], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name} is missing, or not text")
    return _whole_text(found)


def _whole_text(text: str) -> str:
    """The text without halves of surrogate pairs, which no table and no terminal can hold."""
    return _SURROGATE.sub("\ufffd", text)


_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)


def _number(text: str, what: str, limit: int) -> int:
    """A whole number of Kafka's, at most `limit` away from 0.

    Raises ValueError, with a sentence that does not hold the text."""
    if _NUMBER.fullmatch(text) is None or abs(int(text)) > limit:
        raise ValueError(f"{what} is not a number that Kafka could hold")
    return int(text)


def read_epoch_checkpoint(raw: bytes) -> list[tuple[int, int]]:
    """`leader-epoch-checkpoint`: (epoch, start offset) a line, after a version and a count. A file
    without a byte has no entries: that is how Kafka makes it, and it stays so until the first one.
    """
    lines = _lines(raw)
    if lines and _number(lines[0], "the version", _INT) != 0:
        raise ValueError(f"version {int(lines[0])} is unknown")
    if len(lines) < 2:
        return []
    entries = []
    for place, line in enumerate(lines[2:], 3):
        words = _BLANKS.split(line.rstrip(_BLANK))
        if len(words) != 2:
            raise ValueError(f"line {place} is not 'epoch offset'")
        epoch = _number(words[0], f"the epoch in line {place}", _INT)
        offset = _number(words[1], f"the offset in line {place}", _LONG)
        if epoch < 0 or offset < 0:
            raise ValueError(f"line {place} has a number below 0")
        entries.append((epoch, offset))
    count = _number(lines[1], "the count", _INT)
    if len(entries) != count:
        raise ValueError(f"it says {count} entries and holds {len(entries)}")
    return entries


_BLANK = " \t\v\f"
_BLANKS = re.compile(f"[{_BLANK}]+")
"""What Java's regular expressions take for blanks within a line."""


def read_producer_state(raw: bytes) -> int:
    """A producer snapshot: how many producers it names, which in this log is none."""
    if len(raw) < _PRODUCERS.size:
        raise ValueError(f"it has {len(raw)} bytes, and its header alone has {_PRODUCERS.size}")
    version, stored, count = _PRODUCERS.unpack_from(raw)
    if version != 1:
        raise ValueError(f"its version is {version}, and Kafka knows version 1")
    if stored != crc32c(raw[_PRODUCERS_START:]):
        raise ValueError("its CRC is wrong")
    if not 0 <= count * _PRODUCER_SIZE <= len(raw) - _PRODUCERS.size:
        raise ValueError(
            f"it says that it names {counted(count, 'producer')}, for which it is too short"
        )
    return int(count)


_PRODUCERS = struct.Struct(">hIi")
_PRODUCERS_START, _PRODUCER_SIZE = 6, 46
"""The CRC is over what follows it; of a producer there are six numbers and two epochs."""


def refused_transaction(raw: bytes, base_offset: int) -> str | None:
    """Why Kafka throws at the transaction index of a segment at an offset; None where it goes through
    it, or empties it at an entry that ends before the segment. Source: Kafka's TransactionIndex.
    """
    for entry in range(len(raw) // _ABORTED.size):
        version, _, _, last_offset, _ = _ABORTED.unpack_from(raw, entry * _ABORTED.size)
        if version > 0:
            return f"its entry {entry} is of version {version}, and Kafka knows none above 0"
        if last_offset < base_offset:
            return None
    return None


_ABORTED = struct.Struct(">bxqqqq")
"""Version (of its two bytes Kafka reads the first), producer, first and last offset, last stable
offset.
"""


def read_partition_metadata(raw: bytes) -> dict[str, str]:
    """`partition.metadata`: version and topic_id, a line each, in this order; a topic_id that is a
    UUID as Kafka writes it, however it is written there.
    """
    result = {}
    for place, (name, line) in enumerate(
        zip(("version", "topic_id"), _lines(raw), strict=False), 1
    ):
        found = re.fullmatch(rf"{name}:[{_BLANK}]+(.*)", line)
        if found is None:
            raise ValueError(f"line {place} is not '{name}: …'")
        result[name] = found[1]
    if "topic_id" not in result:
        raise ValueError("topic_id is missing")
    if _number(result["version"], "the version", _INT) < 0:
        raise ValueError("the version is below 0")
    if is_uuid(told := result["topic_id"]):
        result["topic_id"] = urlsafe_b64encode(_uuid_bytes(told))[:22].decode()
    return result


def read_disk_free(raw: bytes) -> int:
    """What `df -Pk FOLDER` printed: how many bytes are free on the disk of the folder."""
    lines = raw.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or "1024-blocks" not in lines[0]:
        raise ValueError("it is not what df -Pk prints for one folder")
    found = _DF_LINE.search(lines[1])
    if found is None:
        raise ValueError("its second line has not the six columns of df -Pk")
    return 1024 * _number(found["free"], "the number of free blocks", _LONG // 1024)


_DF_LINE = re.compile(r"\s\d+\s+\d+\s+(?P<free>\d+)\s+(?:\d+%|-)\s", re.ASCII)
"""All blocks, used ones, free ones, and the share that is used, between two names."""


INDEX_ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_INDEX_ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
_WORD = np.dtype(np.uint32)
"""Both entries are some of these long; 10 MB of padding are asked for zeros 5 times as fast so."""


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
    used = np.flatnonzero(np.frombuffer(raw[:whole], _WORD))
    count = int(used[-1]) * _WORD.itemsize // entry.itemsize + 1 if len(used) else 0
    entries: npt.NDArray[np.void] = np.frombuffer(raw[: count * entry.itemsize], entry)
    return Index(entries, whole - count * entry.itemsize, len(raw) - whole)
