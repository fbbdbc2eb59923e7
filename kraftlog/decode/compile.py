"""A message spec at one version → a reader of many such messages at once.

In: cursors at the bodies of records of one type and version. Out: one Arrow struct array, and which
of the records it holds; the others are abnormal and are left to the interpreter. A reader first
locates every field of every record, then drops the abnormal ones, then gathers column by column.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog import relations
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.vector import (
    Bytes,
    Cursors,
    Marks,
    Numbers,
    base64_column,
    flat_starts,
    gather,
    text_column,
    uuid_column,
)
from kraftlog.message.spec import FieldSpec, MessageSpec

_NUMPY_KINDS = {
    "int8": "i1",
    "int16": "i2",
    "uint16": "u2",
    "int32": "i4",
    "int64": "i8",
    "float64": "f8",
    "boolean": "u1",
}
_WIDTHS = {kind: np.dtype(name).itemsize for kind, name in _NUMPY_KINDS.items()} | {"uuid": 16}
_TEXTS = ("string", "bytes")
_STRING_LIMIT = 0x7FFF


class Cells(NamedTuple):
    """Where a field lies in each record, and how long it is: elements of an array, bytes of a text.

    A length of −1 is null. A field of fixed width has length 1, or 0 where a tagged one is absent.
    """

    starts: Numbers
    lengths: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field at one version. `width` is that of a number or an array's element; 1 for text."""

    field: FieldSpec
    width: int
    nullable: bool

    def locate(self, cursors: Cursors) -> Cells:
        """Find the field at each cursor and step over it."""
        if self.field.type in _WIDTHS:
            starts = cursors.at
            cursors.move(self.width)
            return Cells(starts, np.ones(len(starts), np.int64))
        lengths = cursors.varints() - 1
        if not self.nullable:
            cursors.bad |= lengths < 0
        if self.field.type == "string":
            cursors.bad |= lengths > _STRING_LIMIT
        starts = cursors.at
        cursors.move(np.maximum(lengths, 0) * self.width)
        return Cells(starts, lengths)

    def absent(self, count: int) -> Cells:
        """The cells of a tagged field before any record is seen to have it."""
        length = -1 if self.field.default is None else 0
        return Cells(np.zeros(count, np.int64), np.full(count, length))

    def gather(self, raw: Bytes, cells: Cells) -> pa.Array:
        """The field's column, in the type that `relations` declares."""
        kind = relations.arrow_type(self.field)
        if self.field.type in _WIDTHS:
            return self._fixed(raw, cells, kind)
        if self.field.type == "string":
            return text_column(raw, *cells)
        if self.field.type == "bytes":
            return base64_column(raw, *cells)
        if (cells.lengths < 0).all():
            return pa.nulls(len(cells.lengths), kind)
        offsets, flat = flat_starts(*cells, self.width)
        nulls = pa.array(cells.lengths < 0)
        values = _scalars(raw, flat, str(self.field.element), kind.value_type)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, kind, mask=nulls)

    def _fixed(self, raw: Bytes, cells: Cells, kind: pa.DataType) -> pa.Array:
        if cells.lengths.all():
            return _scalars(raw, cells.starts, self.field.type, kind)
        column = pa.repeat(pa.scalar(self.field.default, kind), len(cells.starts))
        present = np.flatnonzero(cells.lengths)
        if not len(present):
            return column
        values = _scalars(raw, cells.starts[present], self.field.type, kind)
        return pc.replace_with_mask(column, pa.array(cells.lengths > 0), values)


def _scalars(raw: Bytes, starts: Numbers, kind: str, arrow_kind: pa.DataType) -> pa.Array:
    """The column of fixed-width values at these places."""
    if kind == "uuid":
        return uuid_column(raw, starts)
    values = gather(raw, starts, _NUMPY_KINDS[kind])
    return pa.array(values != 0) if kind == "boolean" else pa.array(values).cast(arrow_kind)


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """Reads all records of one message type and version."""

    spec: MessageSpec
    plain: tuple[Column, ...]
    tagged: Mapping[int, Column]

    def read(self, cursors: Cursors, redactor: Redactor) -> tuple[Marks, pa.StructArray | None]:
        """Which of the records are normal, and a row for each of those; None where there are no
        fields."""
        cells = {column.field.name: column.locate(cursors) for column in self.plain}
        cells |= self._locate_tagged(cursors)
        cursors.bad |= cursors.at != cursors.limit
        normal = ~cursors.bad
        if not self.spec.fields or not normal.any():
            return normal, None
        if cursors.bad.any():
            cells = {name: Cells(at[normal], size[normal]) for name, (at, size) in cells.items()}
        count = int(normal.sum())
        columns = {
            column.field.name: column.gather(cursors.raw, cells[column.field.name])
            for column in (*self.plain, *self.tagged.values())
        }
        redactor.columns(self.spec, columns)
        kinds = relations.struct_type(self.spec.fields)
        arrays = [
            columns[kind.name] if kind.name in columns else pa.nulls(count, kind.type)
            for kind in kinds
        ]
        return normal, pa.StructArray.from_arrays(arrays, fields=list(kinds))

    def _locate_tagged(self, cursors: Cursors) -> dict[str, Cells]:
        """The tagged fields of every record: in each round the next one of those that have more."""
        cells = {tag: column.absent(len(cursors.at)) for tag, column in self.tagged.items()}
        counts = cursors.varints()
        cursors.bad |= counts > len(self.tagged)
        previous = np.full(len(counts), -1)
        for number in range(len(self.tagged)):
            rows = np.flatnonzero((counts > number) & ~cursors.bad)
            if not len(rows):
                break
            self._locate_round(cursors, rows, previous, cells)
        return {self.tagged[tag].field.name: found for tag, found in cells.items()}

    def _locate_round(
        self, cursors: Cursors, rows: Numbers, previous: Numbers, cells: dict[int, Cells]
    ) -> None:
        one = cursors.some(rows)
        tags, sizes = one.varints(), one.varints()
        # Kafka writes ascending tags; a tag that comes twice is for the interpreter.
        one.bad |= tags <= previous[rows]
        previous[rows] = tags
        known = np.zeros(len(rows), np.bool_)
        ends = one.at + sizes
        for tag, column in self.tagged.items():
            here = np.flatnonzero(tags == tag)
            if not len(here):
                continue
            known[here] = True
            inner = one.some(here)
            starts, lengths = column.locate(inner)
            cells[tag].starts[rows[here]] = starts
            cells[tag].lengths[rows[here]] = lengths
            one.bad[here] |= inner.bad | (inner.at != ends[here])
        one.move(sizes)
        cursors.at[rows] = one.at
        cursors.bad[rows] |= one.bad | ~known


@lru_cache(maxsize=1024)
def reader_of(spec: MessageSpec, version: int) -> Reader | None:
    """The reader of a message at a version; None where only the interpreter reads it."""
    at = spec.at(version)
    plain = [_column(field, version) for field in at.plain]
    tagged = {tag: _column(field, version) for tag, field in at.tagged.items()}
    if not at.flexible or None in plain or None in tagged.values():
        return None
    return Reader(
        spec,
        tuple(column for column in plain if column),
        {tag: column for tag, column in tagged.items() if column},
    )


def _column(field: FieldSpec, version: int) -> Column | None:
    """How a field is read; None for arrays of structs or texts, and for what no schema has yet."""
    kind = field.element or field.type
    if kind in _TEXTS and field.element is None:
        return Column(field, 1, version in field.nullable) if not field.default else None
    if kind not in _WIDTHS or (field.element and field.default):
        return None
    return Column(field, _WIDTHS[kind], version in field.nullable)
