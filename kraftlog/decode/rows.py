"""Decoded records as Arrow, one record after the other: the definition of what `columnar` gives.

In: a window of record batches. Out: `Decoded`. The columnar path hands over to the same functions
whatever is rare or abnormal, so that both paths have one meaning.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog import relations
from kraftlog.decode.records import Record, bad_crc, read_records
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.slices import SLICED, hash_of
from kraftlog.decode.tabular import column_of, ids_of, repeated, timestamps
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Window
from kraftlog.message.catalogue import spec_of
from kraftlog.message.message_spec import FieldSpec
from kraftlog.native.kernel import Numbers

DICTIONARY = pa.dictionary(pa.int32(), pa.string())
"""Type of the columns `batch_id` and `type`, which repeat; cast them to text where it is needed."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The records of batches of a window by type, in file order, and their faults, in file order;
    `indexes` says which batches.

    A type's columns are `relations.ENVELOPE` and the struct of its fields, if it has fields and is
    known. `unknown_tagged_fields` is null where there are none. Types of `ends` are in the order of
    their slices, each in file order: `ends` has the row after the last of each slice. `odd` are the
    indexes of batches with a record of which Kafka's reader passes over a part.
    """

    indexes: Numbers
    records: dict[str, pa.RecordBatch]
    control: dict[str, pa.RecordBatch]
    faults: list[Fault]
    ends: dict[str, list[int]] = field(default_factory=dict)
    odd: frozenset[int] = frozenset()


@lru_cache(maxsize=1024)
def row_schema(type_name: str) -> pa.Schema:
    """The columns of one record type."""
    envelope = [
        one.with_type(DICTIONARY) if one.name in ("batch_id", "type") else one
        for one in relations.ENVELOPE
    ]
    spec = spec_of(type_name)
    return pa.schema(envelope + relations.payload_fields({0: spec} if spec else {}))


def read_batch(
    window: Window,
    index: int,
    wanted: frozenset[str] | None,
    redactor: Redactor,
    decompressed_limit: int,
) -> Iterator[Record | Fault]:
    """The records and faults of one batch of a window, whatever its CRC says."""
    if not window.batches.crc_valid[index]:
        yield bad_crc(window, index)
        return
    batch, position = window.batch(index), int(window.batches.positions[index])
    yield from read_records(batch, position, redactor, decompressed_limit, wanted)


RECORD_BITS = 32
"""Batch index << RECORD_BITS | record index is a number by which records are in file order."""
SLICE_BITS = 56
"""Slice << SLICE_BITS before it: by slice, then in file order."""
_INDEX_MASK, _PLACE_MASK = (1 << RECORD_BITS) - 1, (1 << SLICE_BITS) - 1
_Piece = tuple[npt.NDArray[np.int64], pa.RecordBatch]


class Gathering:
    """What has been decoded of some batches of a window so far, in any order; records of SLICED
    types are given in so many slices, if in any.
    """

    def __init__(self, window: Window, indexes: Numbers, slices: int) -> None:
        self._window = window
        self._indexes = indexes
        self.slices = slices
        self.batch_ids = ids_of(window.batches)
        self._rows: dict[tuple[bool, str], list[tuple[int, Record]]] = {}
        self._pieces: dict[str, list[_Piece]] = {}
        self._faults: list[tuple[int, int, Fault]] = []
        self._ends: dict[int, int] = {}
        self._odd = set[int]()

    def add(self, batch_index: int, found: Record | Fault) -> None:
        """Take in what the interpreter found."""
        if isinstance(found, Fault):
            at = -1 if found.record_index is None else found.record_index
            self._faults.append((batch_index, at, found))
        else:
            key = found.is_control, found.type
            self._rows.setdefault(key, []).append((batch_index, found))
            if found.ignored:
                self._odd.add(batch_index)

    def add_piece(
        self, type_name: str, order: npt.NDArray[np.int64], piece: pa.RecordBatch
    ) -> None:
        """Take in rows of a metadata record type that are columns already."""
        self._pieces.setdefault(type_name, []).append((order, piece))

    def cut(self, batch_index: int, record_index: int) -> None:
        """Leave out what a batch holds from this record on: so much of it cannot be read."""
        self._ends[batch_index] = record_index

    def decoded(self) -> Decoded:
        """Everything, in file order."""
        self._faults.sort(key=lambda one: one[:2])
        control = {}
        for (is_control, name), rows in self._rows.items():
            rows.sort(key=lambda one: (one[0], one[1].index))
            piece = self._row_batch(name, rows)
            if is_control:
                control[name] = piece
            else:
                order = [self._place(name, batch, one) for batch, one in rows]
                self.add_piece(name, np.array(order, np.int64), piece)
        if self._ends:
            self._pieces = dict(self._cut_pieces())
        records = {name: _in_order(pieces) for name, pieces in self._pieces.items()}
        ends = {name: self._slice_ends(name) for name in records if self.is_sliced(name)}
        faults = [fault for _, _, fault in self._faults]
        return Decoded(self._indexes, records, control, faults, ends, frozenset(self._odd))

    def is_sliced(self, name: str) -> bool:
        """Whether records of a type are given by slices."""
        return self.slices > 0 and name in SLICED

    def _place(self, name: str, batch: int, record: Record) -> int:
        """Where a record stands among those of its type."""
        part = hash_of(record.data) & (self.slices - 1) if self.is_sliced(name) else 0
        return part << SLICE_BITS | batch << RECORD_BITS | record.index

    def _slice_ends(self, name: str) -> list[int]:
        held = np.concatenate([order >> SLICE_BITS for order, _ in self._pieces[name]])
        ends: list[int] = np.cumsum(np.bincount(held, minlength=self.slices)).tolist()
        return ends

    def _cut_pieces(self) -> Iterator[tuple[str, list[_Piece]]]:
        """The pieces without the records that are left out; types of which none is left, without
        any.
        """
        ends = np.full(len(self._window.batches), 1 << RECORD_BITS)
        ends[list(self._ends)] = list(self._ends.values())
        for name, pieces in self._pieces.items():
            kept = []
            for order, piece in pieces:
                batch, record = (order & _PLACE_MASK) >> RECORD_BITS, order & _INDEX_MASK
                keep = record < ends[batch]
                if keep.any():
                    kept.append((order[keep], piece.filter(pa.array(keep))))
            if kept:
                yield name, kept

    def _row_batch(self, name: str, rows: list[tuple[int, Record]]) -> pa.RecordBatch:
        schema = row_schema(name)
        headers = self._window.batches.headers
        epochs = headers["batch_leader_epoch"][[batch for batch, _ in rows]]
        columns: dict[str, Any] = {
            "batch_id": pa.DictionaryArray.from_arrays(
                pa.array([batch for batch, _ in rows], pa.int32()), self.batch_ids
            ),
            "record_index": [one.index for _, one in rows],
            "timestamp": timestamps(np.array([one.timestamp for _, one in rows], np.int64)),
            "batch_leader_epoch": column_of(epochs.astype(np.int32), pa.int32()),
            "type": constant_type(name, len(rows)),
            "unknown_tagged_fields": [unknown_tags(one) for _, one in rows],
        }
        spec = spec_of(name)
        if spec is not None and spec.fields:
            fields = spec.fields
            columns[relations.payload_name(spec)] = [_payload(fields, one.data) for _, one in rows]
        for kind in schema.names:
            if kind not in columns:
                columns[kind] = [getattr(one, kind) for _, one in rows]
        return pa.RecordBatch.from_pydict(columns, schema=schema)


def constant_type(name: str, count: int) -> pa.DictionaryArray:
    """The column `type` of one record type."""
    return pa.DictionaryArray.from_arrays(repeated(0, count), _one_text(name))


@lru_cache(maxsize=1024)
def _one_text(text: str) -> pa.StringArray:
    return pa.array([text])


def _in_order(pieces: list[_Piece]) -> pa.RecordBatch:
    order = np.concatenate([one for one, _ in pieces])
    if len(pieces) == 1 and np.all(order[1:] > order[:-1]):
        return pieces[0][1]
    whole = pa.concat_batches([piece for _, piece in pieces])
    return whole.take(column_of(np.argsort(order), pa.int64()))


def unknown_tags(record: Record) -> list[dict[str, Any]] | None:
    """The tagged fields that the message spec does not know, as rows hold them; None without any."""
    tags = record.unknown_tagged_fields
    return [{"path": path, "tag": tag, "hex": raw} for path, tag, raw in tags] or None


def _payload(fields: tuple[FieldSpec, ...], data: dict[str, Any] | None) -> dict[str, Any] | None:
    """A message as a row, by column names; a field that its version lacks is null."""
    if data is None:
        return None
    return {field.name: cell(field, data.get(field.json)) for field in fields}


def cell(field: FieldSpec, value: Any) -> Any:
    """A field's value with column names inside structs."""
    if value is None or not field.fields:
        return value
    if field.element is None:
        return _payload(field.fields, value)
    return [_payload(field.fields, one) for one in value]
