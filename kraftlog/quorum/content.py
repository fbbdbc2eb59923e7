"""What is remarkable in one record batch's bytes: control records, transactions, and records
that break a rule.

In: a batch whose CRC is right. Out: its decoded records and a `Content`, or None for the content of
an ordinary batch. Runs once per distinct batch, in executors or on the driver. Source: KIP-630
"Snapshot Format", KIP-631, KIP-595, KIP-868.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kraftlog.decode.records import Record, Section, records_in, section_of
from kraftlog.decode.redaction import Redactor
from kraftlog.log.batch import (
    CODEC_MASK,
    CODECS,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.frames import long_records
from kraftlog.log.names import LAST_OFFSET
from kraftlog.message.catalogue import CONTROL_MARKERS, known_spec
from kraftlog.native.kernel import Headers
from kraftlog.plain import counted
from kraftlog.quorum.capping import capped
from kraftlog.quorum.evidence import Content, ControlRecord, RecordIssue
from kraftlog.state.shapes import KRAFT_VERSION as KRAFT_LEVEL
from kraftlog.state.shapes import newer_level
from kraftlog.state.tables import TRANSACTION_TYPES

UNKNOWN = "unknown"
"""Kind of the issue of a record that a newer Kafka than is known here wrote: its type, its version,
a tagged field or the level of a feature is unknown.
"""
RULES = (
    "batch_header",
    "end_marker",
    "header",
    "key",
    "timestamp_delta",
    "offset_delta",
    "empty_value",
    "ignored",
    "level",
)
"""Kinds of issues of records that decode, and that no KRaft controller writes."""
BATCH_HEADER, END_MARKER, IGNORED, LEVEL = RULES[0], RULES[1], RULES[-2], RULES[-1]
REFUSED = frozenset(
    {
        FaultKind.COMPRESSION,
        FaultKind.RECORD_COUNT,
        FaultKind.RECORD_FRAME,
        FaultKind.RECORD_VALUE,
        FaultKind.RECORD_TRAILING,
        FaultKind.TOO_MANY_FAULTS,
        "header",
        "key",
        "timestamp_delta",
        LEVEL,
    }
)
"""Kinds of issues at which Kafka's reader of this log throws. It reads on where bytes are left after
a batch's last record, and the limit of what we unpack is only ours.
"""

FEATURE, LEADER_CHANGE = "FEATURE_LEVEL_RECORD", "LEADER_CHANGE"
KRAFT_VERSION, KRAFT_VOTERS = "KRAFT_VERSION", "KRAFT_VOTERS"
_KIND_LIMIT = 100
"""So many kinds are told apart, where each thing that a newer Kafka wrote is one of its own."""
_INDEX = re.compile(r"\[\d+\]")
_EMPTY_VALUE_FAULTS = ("has no value", "frame version: a varint is cut off")


class BatchRecords(NamedTuple):
    """A batch's records in order, and what is remarkable in them."""

    records: tuple[Record, ...]
    content: Content | None


def decode_batch(batch: bytes, batch_id: str, redactor: Redactor, limit: int) -> BatchRecords:
    """Decode a batch whose CRC is right, once for all replicas that hold it."""
    section = section_of(batch, 0, limit)
    found = [section] if isinstance(section, Fault) else list(records_in(section, redactor))
    records = tuple(one for one in found if isinstance(one, Record))
    issues = _first_of_each(
        chain(_batch_issues(batch, section, found[:1]), *map(_issues_of, found))
    )
    controls = tuple(_control(one) for one in records if one.is_control)
    transactions = tuple(_control(one) for one in records if one.type in TRANSACTION_TYPES)
    content = None
    if issues or controls or transactions:
        content = Content(batch_id, issues, controls, transactions)
    return BatchRecords(records, content)


def _first_of_each(issues: Iterable[RecordIssue]) -> tuple[RecordIssue, ...]:
    """The first issues of each kind; the last of a kind counts those that are not kept."""
    kinds: set[tuple[str, str]] = set()

    def kind_of(issue: RecordIssue) -> tuple[str, str]:
        kind = issue.kind, issue.text if issue.kind == UNKNOWN else ""
        if kind not in kinds and len(kinds) >= _KIND_LIMIT:
            kind = issue.kind, ""
        kinds.add(kind)
        return kind

    return tuple(replace(one, more=more) if more else one for one, more in capped(issues, kind_of))


def odd_headers(headers: Headers) -> npt.NDArray[np.bool_]:
    """Which batches have a header as no KRaft controller writes it."""
    odd = headers["attributes"] & ~(CODEC_MASK | CONTROL) != 0
    for name in _PRODUCER:
        odd |= headers[name] != -1
    odd |= headers["base_timestamp"] != headers["max_timestamp"]
    odd |= headers["base_timestamp"] < 0
    deltas = np.maximum(headers["last_offset_delta"], 0).astype(np.int64)
    odd |= headers["base_offset"] > LAST_OFFSET - deltas
    return np.asarray(odd, np.bool_)


def header_oddities(header: Any) -> Iterator[str]:
    """What is odd about the header of such a batch, in words."""
    producer = [int(header[name]) for name in _PRODUCER]
    if any(value != -1 for value in producer):
        yield "its batch names producer {}, of epoch {}, with sequence {}".format(*producer)
    attributes = int(header["attributes"])
    if attributes & TRANSACTIONAL:
        yield "its batch belongs to a transaction of a producer"
    if attributes & LOG_APPEND_TIME:
        yield "its batch is stamped with the time at which a broker appended it"
    unknown = attributes & ~(CODEC_MASK | CONTROL | TRANSACTIONAL | LOG_APPEND_TIME)
    if unknown:
        yield f"the attributes of its batch have bits that no log of this kind has ({unknown:#x})"
    base, largest = int(header["base_timestamp"]), int(header["max_timestamp"])
    if base != largest:
        yield f"its batch begins at time {base} and says that its largest time is {largest}"
    elif base < 0:
        yield f"the time of its batch is {base}, and no clock tells one below 0"
    if int(header["base_offset"]) + int(header["last_offset_delta"]) > LAST_OFFSET:
        yield "the last offset of its batch is more than an offset can be"


_PRODUCER = ("producer_id", "producer_epoch", "base_sequence")


def _control(record: Record) -> ControlRecord:
    return ControlRecord(record.type, record.index, record.data)


def _batch_issues(
    batch: bytes, section: Section | Fault, first: Sequence[Record | Fault]
) -> Iterator[RecordIssue]:
    """What is odd about a batch as a whole, and what Kafka refuses of it although its records can be
    read. `first` is what its first record is, if it says that it has one.
    """
    header = np.frombuffer(batch, HEADER, 1)[0]
    for text in header_oddities(header):
        yield RecordIssue(BATCH_HEADER, 0, text)
    if header["attributes"] & CONTROL and header["producer_id"] >= 0:
        for one in first:
            if isinstance(one, Fault) or one.type not in CONTROL_MARKERS.values():
                text = "its batch names a producer, so that Kafka takes it for the end of a producer's transaction, and it is none"
                yield RecordIssue(END_MARKER, 0, text)
    if isinstance(section, Fault) or section.origin is not None:
        return
    flags = batch[_LZ4_FLAGS:] if section.header.attributes & CODEC_MASK == LZ4 else b""
    if flags and not flags[0] & _INDEPENDENT:
        text = "its LZ4 blocks depend on one another, and Kafka unpacks only independent ones"
        yield RecordIssue(FaultKind.COMPRESSION, 0, text)
    yield from _long_records(section)


def _long_records(section: Section) -> Iterator[RecordIssue]:
    """Kafka's reader takes no record that is longer than its batch is on disk."""
    on_disk, count = section.batch_size_bytes, section.header.record_count
    for index, size in long_records(section.buffer, section.start, section.end, count, on_disk):
        text = f"record {index} has {size:,} bytes, its batch on disk {on_disk:,}, and Kafka reads no record that is longer than its batch"
        yield RecordIssue(FaultKind.COMPRESSION, index, text)


LZ4, _LZ4_FLAGS, _INDEPENDENT = CODECS.index("lz4"), HEADER_SIZE + 4, 0x20
"""The codec, where its frame's flags are in a batch, and the flag of blocks that need no other."""


def _issues_of(found: Record | Fault) -> Iterator[RecordIssue]:
    return _fault_issues(found) if isinstance(found, Fault) else _rule_issues(found)


def _fault_issues(fault: Fault) -> Iterator[RecordIssue]:
    index = fault.record_index or 0
    yield RecordIssue(fault.kind, index, fault.detail, fault.position, fault.size_bytes)
    if fault.kind == FaultKind.RECORD_VALUE and fault.detail.endswith(_EMPTY_VALUE_FAULTS):
        yield RecordIssue("empty_value", index, "its value is empty")


def _rule_issues(record: Record) -> Iterator[RecordIssue]:
    """What Kafka's reader refuses or ignores in a record that can be decoded all the same."""
    for text in dict.fromkeys(newer_parts(record)):
        yield RecordIssue(UNKNOWN, record.index, text)
    if record.is_control and record.type in CONTROL_MARKERS.values():
        text = f"its type is {record.type}, a producer's marker, and Kafka's reader of this log knows none"
        yield RecordIssue(FaultKind.RECORD_VALUE, record.index, text)
    if record.type == KRAFT_VERSION and record.data and record.data["kRaftVersion"] < 0:
        text = f"its kraft.version is {record.data['kRaftVersion']}, and no level is below 0"
        yield RecordIssue(LEVEL, record.index, text)
    if record.type == KRAFT_VOTERS and record.data:
        if (refused := refused_voter(record.data)) is not None:
            yield RecordIssue(LEVEL, record.index, refused)
        if (twice := _named_twice(record.data)) is not None:
            yield RecordIssue(IGNORED, record.index, twice)
    for text in record.ignored:
        yield RecordIssue(IGNORED, record.index, text)
    if record.header_count:
        text = f"it has {counted(record.header_count, 'record header')}"
        yield RecordIssue("header", record.index, text)
    if record.key_size_bytes is not None and not record.is_control:
        yield RecordIssue(
            "key", record.index, f"it has a key of {counted(record.key_size_bytes, 'byte')}"
        )
    if record.timestamp_delta:
        text = f"its timestamp delta is {record.timestamp_delta}"
        yield RecordIssue("timestamp_delta", record.index, text)
    if record.offset_delta != record.index:
        text = f"its offset delta is {record.offset_delta}, its place in the batch {record.index}"
        yield RecordIssue("offset_delta", record.index, text)


def refused_voter(data: Mapping[str, Any]) -> str | None:
    """The first voter of a KRaftVoters record at which Kafka throws, in words: levels that cannot be
    (SupportedVersionRange), a listener without a name (ListenerName).
    """
    for one in data["voters"]:
        levels = one["kRaftVersionFeature"]
        least, most = levels["minSupportedVersion"], levels["maxSupportedVersion"]
        if least < 0 or most < least:
            return f"its voter {one['voterId']} supports levels {least} to {most} of kraft.version, and that is no range of levels"
        if not all(place["name"].strip(_JAVA_BLANKS) for place in one["endpoints"]):
            return f"its voter {one['voterId']} has a listener whose name is blank"
    return None


_JAVA_BLANKS = "".join(map(chr, range(ord(" ") + 1)))
"""What a String of Java's is trimmed of."""


def _named_twice(data: Mapping[str, Any]) -> str | None:
    """The first voter that has several entries in a KRaftVoters record, in words."""
    for voter, count in Counter(one["voterId"] for one in data["voters"]).items():
        if count > 1:
            return f"its voter {voter} has {count:,} entries, of which Kafka keeps the last one"
    return None


def newer_parts(record: Record) -> Iterator[str]:
    """What of a record is newer than the Kafka that is known here: one text for equal cases."""
    if record.is_newer:
        is_version = record.record_version is not None and not record.type.startswith("UNKNOWN")
        subject = f"version {record.record_version} of {record.type}" if is_version else record.type
        read = "" if record.data is None else ", but has the shape of the last known version"
        yield f"{subject} is unknown{read}"
    for path, tag, _ in record.unknown_tagged_fields:
        where = _INDEX.sub("", path)
        yield f"tagged field {where}{tag} of {record.type} is unknown"
    if record.data is None:
        return
    if record.is_control and record.data["version"] not in known_spec(record.type).versions:
        yield f"version {record.data['version']} of {record.type} is unknown, and is read as version 0, as Kafka does"
    feature = record.data if record.type == FEATURE else None
    if record.type == KRAFT_VERSION:
        feature = {"name": KRAFT_LEVEL, "featureLevel": record.data["kRaftVersion"]}
    if feature is not None and (level := newer_level(feature)) is not None:
        yield level


def describe(record: Record, limit: int = 200) -> str:
    """A record in words: its type and the fields that are set, shortened."""
    parts = [
        f"{name}={_brief(value)}"
        for name, value in (record.data or {}).items()
        if value not in (None, [], "", -1) and name != "version"
    ]
    text = f"{record.type}({', '.join(parts)})" if parts else record.type
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _brief(value: Any) -> str:
    """A field's value; of a list of voters only their ids."""
    if isinstance(value, list) and value and isinstance(value[0], dict) and "voterId" in value[0]:
        return str([one["voterId"] for one in value])
    return str(value)
