"""Record batches and faults → rows of the `batches` and `faults` relations.

In: batches and faults that `log.segment.walk` finds in one file. Out: Arrow record batches with the
relations' schemas.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog import relations
from kraftlog.log.batch import (
    CODEC_MASK,
    CONTROL,
    ID_SIZE,
    PREFIX_SIZE,
    TRANSACTIONAL,
    Batches,
    codec_name,
)
from kraftlog.log.directory import LogFile
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.wire import Buffer

LEAST_MS, LARGEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last millisecond of a calendar (years 1 to 9999): readers fail at others."""


def column_of(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Numbers as a column of a type that holds them as they are, without a copy, or marks as bits;
    none is null. (`pa.array` looks at the values, and imports `numpy.ma` to do so.)
    """
    held = marks(values) if kind == pa.bool_() else pa.py_buffer(values)
    return pa.Array.from_buffers(kind, len(values), [None, held])


def sharable(count: int) -> int:
    """A size, at least this one, that many columns have: those with one value are parts of one that
    is kept.
    """
    return 1 << max(count - 1, 0).bit_length()


def repeated(number: int, count: int) -> pa.Array:
    """So often the same number of 32 bits."""
    return _repeated(number, sharable(count)).slice(0, count)


@cache
def _repeated(number: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int32()), count)


def marks(values: npt.NDArray[Any]) -> pa.Buffer:
    """A bit for each value, as Arrow holds marks: whether it is anything but 0."""
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def texts_of(letters: Buffer | npt.NDArray[np.uint8], size: int) -> pa.StringArray:
    """Texts of one size, by their letters one after the other."""
    count = len(letters) // size
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))


def ids_of(batches: Batches) -> pa.StringArray:
    return texts_of(batches.id_letters, ID_SIZE)


def timestamps(
    milliseconds: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Kafka's milliseconds as timestamps; null where no calendar holds them, and where that is
    asked for.
    """
    if is_null is None and (
        len(milliseconds) == 0
        or (milliseconds.max() <= LARGEST_MS and milliseconds.min() >= LEAST_MS)
    ):
        return column_of(milliseconds * 1000, relations.TIMESTAMP)
    wild = (milliseconds > LARGEST_MS) | (milliseconds < LEAST_MS)
    if is_null is not None:
        wild |= is_null
    micros = np.where(wild, 0, milliseconds) * 1000
    return pa.array(micros, pa.int64(), mask=wild).cast(relations.TIMESTAMP)


def constant(value: str, count: int) -> pa.Array:
    """A text column with one value."""
    return repeated_text(value, count).cast(pa.string())


def repeated_text(value: str, count: int) -> pa.DictionaryArray:
    """The same by a dictionary, a byte a row."""
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), count), [value])


def batch_table(file: LogFile, batches: Batches, limits: Limits) -> pa.RecordBatch:
    """The rows of `batches` for some of a file. Where batches are named under a key, the CRC is
    left out: it would let secrets be guessed.
    """
    headers, count = batches.headers, len(batches)

    def wide(name: str) -> npt.NDArray[np.int64]:
        return headers[name].astype(np.int64)

    base, attributes = wide("base_offset"), wide("attributes")
    codecs = [codec_name(code) for code in range(CODEC_MASK + 1)]
    compression = pa.DictionaryArray.from_arrays(
        pa.array((attributes & CODEC_MASK).astype(np.int32)), pa.array(codecs)
    )
    columns = {
        "replica": constant(file.replica, count),
        "path": constant(file.path, count),
        "file_kind": constant(file.kind, count),
        "position": pa.array(batches.positions),
        "batch_id": ids_of(batches),
        "base_offset": pa.array(base),
        "last_offset": pa.array(base + wide("last_offset_delta")),
        "size_bytes": pa.array(wide("length") + PREFIX_SIZE),
        "crc": pa.array(wide("crc")) if limits.id_key is None else pa.nulls(count, pa.int64()),
        "crc_valid": pa.array(batches.crc_valid),
        "compression": compression.cast(pa.string()),
        "is_control": pa.array((attributes & CONTROL) != 0),
        "is_transactional": pa.array((attributes & TRANSACTIONAL) != 0),
        "base_timestamp": timestamps(wide("base_timestamp")),
        "max_timestamp": timestamps(wide("max_timestamp")),
    }
    schema = relations.BATCHES.schema
    columns |= {name: pa.array(wide(name)) for name in schema.names if name not in columns}
    return pa.RecordBatch.from_pydict(columns, schema=schema)


def fault_table(file: LogFile, faults: Iterable[Fault]) -> pa.RecordBatch:
    rows = [
        {"replica": file.replica, "file_kind": file.kind, **fault.row(file.path)}
        for fault in faults
    ]
    return pa.RecordBatch.from_pylist(rows, schema=relations.FAULTS.schema)
