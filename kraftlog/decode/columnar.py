"""All records of a window at once: record batches → Arrow columns, type by type. The fast path.

In: a window of record batches. Out: `Decoded`, equal to `rows.decode_window_reference` on every input.
Record boundaries are found batch by batch in a plain loop; from there on every step is one array
operation over all records. What is rare or abnormal (control batches, compression, messages with
nested structs, unknown tags, a check that fails) is handed over to the interpreter, batch by batch
or record by record, so this code must detect the abnormal but never explain it. Runs in executors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import pyarrow as pa

from kraftlog.decode.compile import reader_of
from kraftlog.decode.records import FRAME_VERSION, Header, Section, read_framed
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import (
    RECORD_BITS,
    Decoded,
    Gathering,
    constant_type,
    read_batch,
    row_schema,
)
from kraftlog.decode.tabular import timestamps
from kraftlog.decode.vector import Bytes, Cursors, Marks, Numbers
from kraftlog.errors import DecodeError
from kraftlog.log.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MIN_RECORD_SIZE,
    PREFIX_SIZE,
    Headers,
)
from kraftlog.log.frames import read_frames
from kraftlog.log.segment import Window
from kraftlog.message.catalogue import metadata_specs
from kraftlog.message.spec import MessageSpec
from kraftlog.wire import unsigned_varint


def decode_window(
    window: Window,
    wanted: frozenset[str] | None,
    redactor: Redactor,
    decompressed_limit: int,
    chosen: Sequence[int] | None = None,
) -> Decoded:
    """The records of a window, or of its batches at the `chosen` indexes.

    Of types that are not `wanted` (None: all are) neither records nor faults of their bodies are
    given; a broken envelope is a fault whatever is wanted. A batch whose CRC is wrong is a fault.
    """
    gathering = Gathering(window)
    raw = np.frombuffer(window.buffer, np.uint8)
    indexes = range(len(window.batches)) if chosen is None else sorted(chosen)
    frames, handed = find_frames(window, raw, indexes)
    for index in handed:
        for found in read_batch(window, index, wanted, redactor, decompressed_limit):
            gathering.add(index, found)
    slow = _decode_groups(window, raw, frames, wanted, redactor, gathering)
    _decode_singly(window, frames, slow, wanted, redactor, gathering)
    return gathering.decoded()


@dataclass(frozen=True, slots=True)
class Frames:
    """The envelopes of many records, an entry per record; positions are in the window's buffer.

    Where `bad` is set, only the batch, the index and the range [position, end) mean anything.
    """

    batch_index: Numbers
    record_index: Numbers
    position: Numbers
    end: Numbers
    timestamp_delta: Numbers
    offset_delta: Numbers
    value_start: Numbers
    value_end: Numbers
    bad: Marks


def find_frames(window: Window, raw: Bytes, indexes: Sequence[int]) -> tuple[Frames, list[int]]:
    """The envelopes of all records of some batches, and the batches that are handed over whole."""
    headers = window.batches.headers
    attributes = headers["attributes"].astype(np.int64)
    plain = window.batches.crc_valid & (attributes & (CODEC_MASK | CONTROL) == 0)
    starts = window.batches.positions - window.position + HEADER_SIZE
    ends = starts - HEADER_SIZE + PREFIX_SIZE + headers["length"]
    sections = list(
        zip(
            plain.tolist(),
            starts.tolist(),
            ends.tolist(),
            headers["record_count"].tolist(),
            strict=True,
        )
    )
    found: list[int] = []
    kept: list[int] = []
    handed: list[int] = []
    for index in indexes:
        is_plain, start, end, count = sections[index]
        if is_plain and _add_record_starts(found, window.buffer, start, end, count):
            kept.append(index)
        else:
            handed.append(index)
    batches = np.array(kept, np.int64)
    counts = headers["record_count"][batches].astype(np.int64)
    positions = np.fromiter(found, np.int64, len(found))
    record_ends = np.empty_like(positions)
    record_ends[:-1] = positions[1:]
    last = np.cumsum(counts) - 1
    record_ends[last[counts > 0]] = ends[batches][counts > 0]
    batch_index = np.repeat(batches, counts)
    cursors = Cursors(raw, positions, record_ends)
    lengths = cursors.signed_varints()
    astray = cursors.bad | (cursors.at + lengths != record_ends)
    if astray.any():
        # Negative lengths, say, that led to the end all the same. Once more without those batches.
        broken = set(batch_index[astray].tolist())
        frames, more = find_frames(window, raw, [one for one in indexes if one not in broken])
        return frames, sorted([*more, *broken])
    record_index = np.arange(len(positions)) - np.repeat(last - counts + 1, counts)
    return _read_envelopes(cursors, positions, batch_index, record_index), handed


def _add_record_starts(found: list[int], buffer: bytes, start: int, end: int, count: int) -> bool:
    """Add where each record of a batch begins, by the records' lengths.

    False, with nothing added, where the lengths do not lead through `count` records to the end:
    every step goes forward, so that it is enough to look at the end.
    """
    if not 0 <= count <= (end - start) // MIN_RECORD_SIZE:
        return False
    before, at = len(found), start
    add = found.append
    try:
        for _ in repeat(None, count):
            add(at)
            length = buffer[at]
            at += 1
            if length >= 0x80:
                more = buffer[at]
                at += 1
                length = length & 0x7F | more << 7
                if more >= 0x80:
                    length, at = unsigned_varint(buffer, at - 2, end, "record length")
            at += length >> 1
    except (IndexError, DecodeError):
        at = -1
    if at != end:
        del found[before:]
        return False
    return True


def _read_envelopes(
    cursors: Cursors, position: Numbers, batch_index: Numbers, record_index: Numbers
) -> Frames:
    """What stands before and after a record's value. Keys and headers, which Kafka does not write
    into this log, count as abnormal, and so does a value of null."""
    cursors.move(1)
    timestamp_delta = cursors.signed_varints()
    offset_delta = cursors.signed_varints()
    key_size = cursors.signed_varints()
    value_size = cursors.signed_varints()
    value_start = cursors.at
    cursors.move(np.maximum(value_size, 0))
    value_end = cursors.at
    header_count = cursors.signed_varints()
    odd = (key_size >= 0) | (value_size < 0) | (header_count != 0)
    return Frames(
        batch_index,
        record_index,
        position,
        cursors.limit,
        timestamp_delta,
        offset_delta,
        value_start,
        value_end,
        odd | ~cursors.ended(),
    )


def _decode_groups(
    window: Window,
    raw: Bytes,
    frames: Frames,
    wanted: frozenset[str] | None,
    redactor: Redactor,
    gathering: Gathering,
) -> Numbers:
    """Decode the records of each type and version together; gives the rows that are left over."""
    body, codes = _read_heads(raw, frames)
    left = [np.empty(0, np.int64)]
    # A stable sort of two-byte numbers is a radix sort, and keeps file order within a group.
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=1))
    for code in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
        rows = order[ends[code - 1] if code else 0 : ends[code]]
        spec = metadata_specs().get(code >> _VERSION_BITS)
        version = code & _NUMBER_LIMIT
        if spec is not None and wanted is not None and spec.type not in wanted:
            continue
        reader = reader_of(spec, version) if spec and version in spec.versions else None
        if reader is None:
            left.append(rows)
            continue
        cursors = Cursors(raw, body.take(rows), frames.value_end.take(rows))
        normal, payload = reader.read(cursors, redactor)
        left.append(rows[~normal])
        rows = rows[normal]
        if len(rows):
            place = frames.batch_index.take(rows) << RECORD_BITS | frames.record_index.take(rows)
            piece = _piece(window, frames, rows, reader.spec, version, payload, gathering)
            gathering.add_piece(reader.spec.type, place, piece)
    return np.sort(np.concatenate(left))


_VERSION_BITS = 7
_NUMBER_LIMIT = (1 << _VERSION_BITS) - 1
_NO_CODE = 0xFFFF


def _read_heads(raw: Bytes, frames: Frames) -> tuple[Numbers, Numbers]:
    """Where each record's body begins, and its api key and version in one number; −1 where its head
    is not normal."""
    cursors = Cursors(raw, frames.value_start, frames.value_end)
    frame_version, api_key, version = (cursors.varints() for _ in range(3))
    odd = (frame_version != FRAME_VERSION) | (api_key > _NUMBER_LIMIT) | (version > _NUMBER_LIMIT)
    odd |= frames.bad | cursors.bad | (cursors.at > cursors.limit)
    return cursors.at, np.where(odd, _NO_CODE, api_key << _VERSION_BITS | version)


def _piece(
    window: Window,
    frames: Frames,
    rows: Numbers,
    spec: MessageSpec,
    version: int,
    payload: pa.StructArray | None,
    gathering: Gathering,
) -> pa.RecordBatch:
    """The columns of normal records of one type and version."""
    headers, batch = window.batches.headers, frames.batch_index.take(rows)
    count = len(rows)
    columns = {
        "batch_id": pa.DictionaryArray.from_arrays(
            pa.array(batch.astype(np.int32)), gathering.batch_ids
        ),
        "record_index": frames.record_index.take(rows),
        "offset": headers["base_offset"].astype(np.int64).take(batch)
        + frames.offset_delta.take(rows),
        "timestamp": timestamps(_timestamps_ms(headers, batch, frames.timestamp_delta.take(rows))),
        "batch_leader_epoch": headers["batch_leader_epoch"].astype(np.int32).take(batch),
        "type": constant_type(spec.type, count),
        "record_version": np.full(count, version),
        "timestamp_delta": frames.timestamp_delta.take(rows),
        "offset_delta": frames.offset_delta.take(rows),
        "value_size_bytes": frames.value_end.take(rows) - frames.value_start.take(rows),
        "header_count": np.zeros(count, np.int64),
    }
    schema = row_schema(spec.type)
    arrays = [
        pa.nulls(count, kind.type)
        if kind.name not in columns
        else _typed(columns[kind.name], kind.type)
        for kind in list(schema)[: len(schema) - (payload is not None)]
    ]
    arrays += [payload] if payload is not None else []
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _typed(values: pa.Array | Numbers, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    return pa.array(values.astype(kind.to_pandas_dtype(), copy=False))


def _timestamps_ms(headers: Headers, batch: Numbers, delta: Numbers) -> Numbers:
    """Milliseconds by the batch's base and the record's delta, or the batch's append time."""
    times = headers["base_timestamp"].astype(np.int64).take(batch) + delta
    stamped = headers["attributes"] & LOG_APPEND_TIME != 0
    if stamped.any():
        append_times = headers["max_timestamp"].astype(np.int64)
        times = np.where(stamped.take(batch), append_times.take(batch), times)
    return times


def _decode_singly(
    window: Window,
    frames: Frames,
    rows: Numbers,
    wanted: frozenset[str] | None,
    redactor: Redactor,
    gathering: Gathering,
) -> None:
    """The interpreter's own word on records that the fast path does not read."""
    places = (frames.batch_index, frames.record_index, frames.position, frames.end)
    section: Section | None = None
    current = -1
    for index, record, position, end in zip(*(one[rows].tolist() for one in places), strict=True):
        if section is None or index != current:
            section, current = _section(window, index), index
        frame = next(read_frames(window.buffer, position, end, 1))
        found = read_framed(section, frame._replace(index=record), redactor, wanted)
        if found is not None:
            gathering.add(index, found)


def _section(window: Window, index: int) -> Section:
    header = window.batches.headers[index]
    position = int(window.batches.positions[index])
    size, start = int(header["length"]) + PREFIX_SIZE, position - window.position
    return Section(
        Header.of(header),
        window.buffer,
        start + HEADER_SIZE,
        start + size,
        position,
        size,
        window.position,
    )
