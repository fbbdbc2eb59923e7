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
import numpy.typing as npt
import pyarrow as pa

from kraftlog import relations
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.vector import (
    Bytes,
    Cursors,
    Marks,
    Numbers,
    base64_column,
    gather,
    gather_lists,
    numbers,
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

    A length of −1 is null. Fields of fixed width have no lengths; a tagged one that is absent from
    a record has start −1 there.
    """

    starts: Numbers
    lengths: Numbers | None


class Located(NamedTuple):
    """How many normal records there are, and where each of their fields lies, by its name."""

    rows: int
    cells: dict[str, Cells]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field at one version. `width` is that of a number or an array's element; 1 for text."""

    field: FieldSpec
    width: int
    nullable: bool

    @property
    def is_fixed(self) -> bool:
        """True for single values of fixed width."""
        return self.field.type in _WIDTHS

    def locate(self, cursors: Cursors) -> Cells:
        """Find the field at each cursor and step over it."""
        if self.is_fixed:
            starts = cursors.at
            cursors.move(self.width)
            return Cells(starts, None)
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
        starts = np.full(count, -1)
        if self.is_fixed:
            return Cells(starts, None)
        return Cells(starts, np.full(count, -1 if self.field.default is None else 0))

    def default(self, count: int) -> pa.Array:
        """The column of a field that no record has."""
        return pa.repeat(pa.scalar(self.field.default, relations.arrow_type(self.field)), count)

    def gather(self, raw: Bytes, cells: Cells) -> pa.Array:
        """The field's column, in the type that `relations` declares."""
        kind = relations.arrow_type(self.field)
        if cells.lengths is None:
            return _fixed_column(raw, cells.starts, self.field, kind)
        if self.field.type == "string":
            return text_column(raw, cells.starts, cells.lengths)
        if self.field.type == "bytes":
            return base64_column(raw, cells.starts, cells.lengths)
        offsets, elements = gather_lists(raw, cells.starts, cells.lengths, self.width)
        values = _scalars(elements, str(self.field.element), kind.value_type)
        nulls = cells.lengths < 0
        mask = pa.array(nulls) if nulls.any() else None
        return pa.ListArray.from_arrays(pa.array(offsets), values, kind, mask=mask)


def _fixed_column(raw: Bytes, starts: Numbers, field: FieldSpec, kind: pa.DataType) -> pa.Array:
    if field.tag is None or starts.min() >= 0:
        return _scalars(gather(raw, starts, _WIDTHS[field.type]), field.type, kind)
    present = np.flatnonzero(starts >= 0)
    numpy_kind = _NUMPY_KINDS[field.type]
    values = np.full(len(starts), field.default, numpy_kind)
    cells = gather(raw, starts[present], _WIDTHS[field.type])
    values[present] = numbers(cells, numpy_kind)
    return _numbers(values, kind)


def _scalars(cells: npt.NDArray[np.void], kind: str, arrow_kind: pa.DataType) -> pa.Array:
    """The column of values of fixed width."""
    if kind == "uuid":
        return uuid_column(cells)
    return _numbers(numbers(cells, _NUMPY_KINDS[kind]), arrow_kind)


def _numbers(values: npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    array = pa.array(values != 0 if kind == pa.bool_() else values)
    return array if array.type == kind else array.cast(kind)


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """Reads all records of one message type and version."""

    spec: MessageSpec
    plain: tuple[Column, ...]
    tagged: Mapping[int, Column]

    def locate(self, cursors: Cursors) -> tuple[Marks, Located]:
        """Which of the records are normal, and where the fields of those lie."""
        cells = {column.field.name: column.locate(cursors) for column in self.plain}
        cells |= self._locate_tagged(cursors)
        normal = cursors.ended()
        count = int(np.count_nonzero(normal))
        if count < len(normal):
            cells = {name: _kept(found, normal) for name, found in cells.items()}
        return normal, Located(count, cells)

    def gather(self, raw: Bytes, located: Located, redactor: Redactor) -> pa.StructArray | None:
        """A row for each of the normal records.

        None where there are no fields, or no normal records."""
        count, cells = located
        if not self.spec.fields or not count:
            return None
        columns = {
            column.field.name: column.gather(raw, cells[column.field.name])
            if column.field.name in cells
            else column.default(count)
            for column in (*self.plain, *self.tagged.values())
        }
        redactor.columns(self.spec, columns)
        kinds = relations.struct_type(self.spec.fields)
        arrays = [
            columns[kind.name] if kind.name in columns else pa.nulls(count, kind.type)
            for kind in kinds
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(kinds))

    def _locate_tagged(self, cursors: Cursors) -> dict[str, Cells]:
        """The tagged fields that any record has: in each round the next one of every record."""
        counts = cursors.varints()
        cursors.bad |= counts > len(self.tagged)
        cells: dict[int, Cells] = {}
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
        one.bad |= tags <= previous.take(rows)
        previous[rows] = tags
        unknown = np.ones(len(rows), np.bool_)
        ends = one.at + sizes
        for tag, column in self.tagged.items():
            here = np.flatnonzero(tags == tag)
            if not len(here):
                continue
            unknown[here] = False
            inner = one.some(here)
            inner.limit = ends.take(here)
            if tag not in cells:
                cells[tag] = column.absent(len(cursors.at))
            _put(cells[tag], rows.take(here), column.locate(inner))
            one.bad[here] |= ~inner.ended()
        cursors.at[rows] = ends
        cursors.bad[rows] |= one.bad | unknown


def _put(cells: Cells, rows: Numbers, found: Cells) -> None:
    cells.starts[rows] = found.starts
    if cells.lengths is not None and found.lengths is not None:
        cells.lengths[rows] = found.lengths


def _kept(cells: Cells, rows: Marks) -> Cells:
    return Cells(cells.starts[rows], None if cells.lengths is None else cells.lengths[rows])


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
    if field.type == "uuid" and field.tag is not None:
        return None
    return Column(field, _WIDTHS[kind], version in field.nullable)
