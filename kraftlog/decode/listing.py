"""Files → rows for people and scripts: one dict per record batch or per record, without Spark.

In: replicas as `log.directory` finds them. Out: rows in file order, with the columns of the command
line's contract; what cannot be read is a row with `fault`. Streams: one window of a file is held at
a time.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kraftlog.decode.records import Record
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import read_batch, unknown_tags
from kraftlog.log.batch import CONTROL, HEADER, PREFIX_SIZE, TRANSACTIONAL, codec_name, content_hash
from kraftlog.log.directory import Replica, record_files, walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits, Window
from kraftlog.relations import Row


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records are wanted; None means any. Offsets and times: from inclusive, to exclusive,
    times in ms.
    """

    types: frozenset[str] | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    key: str | None = None

    def may_want(self, base_offset: int, last_offset: int) -> bool:
        """Whether a batch of these offsets may hold a record that passes."""
        below = self.to_offset is not None and base_offset >= self.to_offset
        return not below and (self.from_offset is None or last_offset >= self.from_offset)

    def wants(self, record: Record) -> bool:
        """Whether a record passes every filter."""
        if self.types is not None and record.type not in self.types:
            return False
        if not _within(record.offset, self.from_offset, self.to_offset):
            return False
        if not _within(record.timestamp, self.since_ms, self.until_ms):
            return False
        return self.key is None or _holds(record.data, self.key)


def _within(value: int, first: int | None, end: int | None) -> bool:
    return (first is None or value >= first) and (end is None or value < end)


def _holds(value: Any, key: str) -> bool:
    """Whether any text or number inside a decoded message is `key`."""
    if isinstance(value, dict):
        return any(_holds(one, key) for one in value.values())
    if isinstance(value, list):
        return any(_holds(one, key) for one in value)
    return value is not None and str(value) == key


def batch_rows(replicas: Iterable[Replica], limits: Limits) -> Iterator[Row]:
    """One row per record batch, and one per damaged range."""
    return _rows(replicas, limits, lambda *batch: [_batch_row(*batch)])


def record_rows(
    replicas: Iterable[Replica], limits: Limits, redactor: Redactor, wanted: RecordFilter
) -> Iterator[Row]:
    """One row per record that passes the filter, and one per fault; what lies in a record of another
    type, or in a batch of other offsets, is not looked at.
    """

    limit = limits.decompressed_size_bytes

    def rows_of(path: str, window: Window, index: int) -> Iterator[Row]:
        header = window.batches.headers[index]
        base, position = int(header["base_offset"]), int(window.batches.positions[index])
        if not wanted.may_want(base, base + int(header["last_offset_delta"])):
            return
        epoch = int(header["batch_leader_epoch"])
        for found in read_batch(window, index, wanted.types, redactor, limit):
            if isinstance(found, Fault):
                yield found.row(path)
            elif wanted.wants(found):
                yield _record_row(path, position, epoch, found)

    return _rows(replicas, limits, rows_of)


def _rows(
    replicas: Iterable[Replica],
    limits: Limits,
    of_batch: Callable[[str, Window, int], Iterable[Row]],
) -> Iterator[Row]:
    for file in record_files(replicas):
        for found in walk_file(file, limits):
            if isinstance(found, Fault):
                yield found.row(file.path)
                continue
            for index in range(len(found.batches)):
                yield from of_batch(file.path, found, index)


def _batch_row(path: str, window: Window, index: int) -> Row:
    header = dict(zip(HEADER.names or (), window.batches.headers[index].item(), strict=True))
    attributes = header["attributes"]
    return {
        "path": path,
        "position": int(window.batches.positions[index]),
        "base_offset": header["base_offset"],
        "last_offset": header["base_offset"] + header["last_offset_delta"],
        "size_bytes": header["length"] + PREFIX_SIZE,
        "batch_leader_epoch": header["batch_leader_epoch"],
        "magic": header["magic"],
        "crc": header["crc"],
        "crc_valid": bool(window.batches.crc_valid[index]),
        "attributes": attributes,
        "compression": codec_name(attributes),
        "is_control": bool(attributes & CONTROL),
        "is_transactional": bool(attributes & TRANSACTIONAL),
        "base_timestamp": header["base_timestamp"],
        "max_timestamp": header["max_timestamp"],
        "producer_id": header["producer_id"],
        "producer_epoch": header["producer_epoch"],
        "base_sequence": header["base_sequence"],
        "record_count": header["record_count"],
        "batch_id": content_hash(window.batch(index)),  # plain, as the CRC is
    }


def _record_row(path: str, position: int, epoch: int, record: Record) -> Row:
    row: Row = {
        "path": path,
        "position": position,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "batch_leader_epoch": epoch,
        "is_control": record.is_control,
        "type": record.type,
        "record_version": record.record_version,
        "data": record.data,
    }
    if tags := unknown_tags(record):
        row["unknown_tagged_fields"] = tags
    if record.raw is not None:
        row.update(fault="record_type_unknown", raw=record.raw)
    return row
