"""All records of a window at once: record batches → Arrow columns, type by type. The fast path.

In: a window of record batches. Out: `Decoded`, on any input that of the interpreter alone.
`envelopes` finds the records, `compile` reads those of one type and version, and this module puts
them together; a compressed batch is unpacked first. What is rare or abnormal (control batches,
lists of texts, unknown tags, a check that fails) is handed over to the interpreter,
batch by batch or record by record, so this code must detect the abnormal but never explain it. Runs
in executors.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog import relations
from kraftlog.decode.compile import reader_of
from kraftlog.decode.envelopes import Sections, find_frames, sections_of
from kraftlog.decode.records import FAULT_LIMIT, Header, Section, given_up, read_framed
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import (
    SLICE_BITS,
    Decoded,
    Gathering,
    constant_type,
    read_batch,
    row_schema,
)
from kraftlog.decode.tabular import column_of, repeated, sharable, timestamps
from kraftlog.log.batch import PREFIX_SIZE
from kraftlog.log.fault import Fault
from kraftlog.log.frames import read_frames
from kraftlog.log.segment import Window
from kraftlog.message.catalogue import metadata_specs
from kraftlog.message.message_spec import MessageSpec
from kraftlog.native import kernel
from kraftlog.native.kernel import Bytes, Envelopes, Numbers


def decode_window(
    window: Window,
    wanted: frozenset[str] | None,
    redactor: Redactor,
    decompressed_limit: int,
    chosen: Sequence[int] | None = None,
    slices: int = 0,
    bodies: frozenset[str] | None = None,
) -> Iterator[Decoded]:
    """The records of a window, or of its batches at the `chosen` indexes, all at once but where
    compressed batches unpack to more than some megabytes; those of SLICED types by so many slices
    (a power of two), where any are asked for.

    With `bodies`, the fields of all other types are found, but their values are left null.

    Of types that are not `wanted` (None: all are) neither records nor faults of their bodies are
    given; a broken envelope is a fault whatever is wanted. A batch whose CRC is wrong is a fault.
    """
    chosen_indexes = np.arange(len(window.batches)) if chosen is None else np.sort(chosen)
    for indexes, some in sections_of(window, chosen_indexes, decompressed_limit):
        gathering = Gathering(window, indexes, slices)
        for sections in some:
            found, handed = find_frames(window, sections)
            for index in handed:
                for one in read_batch(window, index, wanted, redactor, decompressed_limit):
                    gathering.add(index, one)
            slow = _decode_groups(window, sections.raw, found, wanted, redactor, gathering, bodies)
            _decode_singly(window, sections, found, slow, wanted, redactor, gathering)
        yield gathering.decoded()


def _decode_groups(
    window: Window,
    raw: Bytes,
    found: Envelopes,
    wanted: frozenset[str] | None,
    redactor: Redactor,
    gathering: Gathering,
    bodies: frozenset[str] | None,
) -> Numbers:
    """Decode the records of each type and version together; gives the rows that are left over."""
    left = [np.empty(0, np.int64)]
    order, ends = kernel.groups(found.code)
    for code in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
        rows = order[ends[code - 1] if code else 0 : ends[code]]
        key, version = kernel.of_code(code)
        spec = metadata_specs().get(key)
        if spec is not None and wanted is not None and spec.type not in wanted:
            continue
        reader = reader_of(spec, version) if spec and version in spec.versions else None
        if reader is None:
            left.append(rows)
            continue
        part = None
        if gathering.is_sliced(reader.spec.type):
            part = kernel.hashes(raw, rows, found.body, found.value_end) & (gathering.slices - 1)
            by_slice = np.argsort(part.astype(np.uint16), kind="stable")
            rows, part = rows.take(by_slice), part.take(by_slice)
        is_given = bodies is None or reader.spec.type in bodies
        normal, payload = reader.read(
            raw, rows, found.body, found.value_end, redactor, is_given=is_given
        )
        if not normal.all():
            left.append(rows[~normal])
            rows, part = rows[normal], None if part is None else part[normal]
        if len(rows):
            told = kernel.envelope_columns(window.batches.headers, found, rows)
            place = told.place if part is None else told.place | part << SLICE_BITS
            piece = _piece(told, reader.spec, version, payload, gathering)
            gathering.add_piece(reader.spec.type, place, piece)
    return np.sort(np.concatenate(left))


def _piece(
    told: kernel.EnvelopeColumns,
    spec: MessageSpec,
    version: int,
    payload: pa.StructArray | None,
    gathering: Gathering,
) -> pa.RecordBatch:
    """The columns of normal records of one type and version."""
    count = len(told.batch)
    numbers: dict[str, npt.NDArray[Any]] = {
        "record_index": told.record_index,
        "offset": told.offset,
        "batch_leader_epoch": told.epoch,
        "timestamp_delta": told.timestamp_delta,
        "offset_delta": told.offset_delta,
        "value_size_bytes": told.value_size,
    }
    columns = {name: column_of(values, _KINDS[name]) for name, values in numbers.items()}
    columns["batch_id"] = pa.DictionaryArray.from_arrays(
        column_of(told.batch, pa.int32()), gathering.batch_ids
    )
    columns["timestamp"] = timestamps(told.timestamp)
    if payload is None:
        payload = pa.nulls(count, relations.struct_type(spec.fields))
    columns[relations.payload_name(spec)] = payload
    columns |= {
        "type": constant_type(spec.type, count),
        "record_version": repeated(version, count),
        "header_count": repeated(0, count),
        **{name: _nulls(name, sharable(count)).slice(0, count) for name in _NONE},
    }
    schema = row_schema(spec.type)
    return pa.RecordBatch.from_arrays([columns[one] for one in schema.names], schema=schema)


_KINDS = {one.name: one.type for one in relations.ENVELOPE}
_NONE = ("key_size_bytes", "unknown_tagged_fields", "raw")
"""What no normal record has."""


@cache
def _nulls(name: str, count: int) -> pa.Array:
    return pa.nulls(count, _KINDS[name])


def _decode_singly(
    window: Window,
    sections: Sections,
    found: Envelopes,
    rows: Numbers,
    wanted: frozenset[str] | None,
    redactor: Redactor,
    gathering: Gathering,
) -> None:
    """The interpreter's own word on records that the fast path does not read."""
    places = (found.batch, found.record_index, found.position, found.end)
    section: Section | None = None
    current, fault_count = -1, 0
    for index, record, position, end in zip(*(one[rows].tolist() for one in places), strict=True):
        if section is None or index != current:
            section, current, fault_count = _section(window, sections, index), index, 0
        if fault_count > FAULT_LIMIT:
            continue
        frame = next(read_frames(sections.buffer, position, end, 1))
        read = read_framed(section, frame._replace(index=record), redactor, wanted)
        if isinstance(read, Fault):
            fault_count += 1
            if fault_count > FAULT_LIMIT:
                read = given_up(section, read)
                gathering.cut(index, record)
        if read is not None:
            gathering.add(index, read)


def _section(window: Window, sections: Sections, index: int) -> Section:
    header = window.batches.headers[index]
    return Section(
        Header.of(header),
        sections.buffer,
        int(sections.starts[index]),
        int(sections.ends[index]),
        int(window.batches.positions[index]),
        int(header["length"]) + PREFIX_SIZE,
        sections.origin,
    )
