"""A message spec at one version → a reader of many such messages at once.

In: where the bodies of records of one type and version lie. Out: one Arrow struct array, and which
of the records it holds; the others are abnormal and are left to the interpreter. A reader first has
the compiled part locate every field of every normal record, then gathers column by column.
"""

from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog import relations
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.tabular import column_of, marks, texts_of
from kraftlog.message.spec import FieldSpec, MessageSpec
from kraftlog.native import kernel
from kraftlog.native.kernel import ID_SIZE, ID_TEXT_SIZE, Bytes, Located, Numbers, Places
from kraftlog.wire import utf8_text

_NUMPY_KINDS = {
    "int8": "i1",
    "int16": "i2",
    "uint16": "u2",
    "int32": "i4",
    "int64": "i8",
    "float64": "f8",
    "boolean": "u1",
}
_WIDTHS = {kind: np.dtype(name).itemsize for kind, name in _NUMPY_KINDS.items()}
_WIDTHS["uuid"] = ID_SIZE
_TEXTS = ("string", "bytes")


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field at one version. `width` is that of a number or an array's element; 1 for text."""

    field: FieldSpec
    width: int
    nullable: bool

    @property
    def how(self) -> kernel.Field:
        """How the compiled part finds it. Kafka bounds the length of a string."""
        kind = kernel.TEXT if self.field.type == "string" else kernel.LIST
        if self.field.type in _WIDTHS:
            kind = kernel.FIXED
        tag = -1 if self.field.tag is None else self.field.tag
        absent = -1 if self.field.default is None else 0
        return kernel.Field(kind, self.width, self.nullable, tag, absent)

    def default(self, count: int) -> pa.Array:
        """The column of a field that no record has."""
        return pa.repeat(pa.scalar(self.field.default, relations.arrow_type(self.field)), count)

    def gather(self, raw: Bytes, starts: Places, lengths: Places) -> pa.Array:
        """The field's column, in the type that `relations` declares."""
        field, kind = self.field, relations.arrow_type(self.field)
        if field.type == "uuid":
            return texts_of(kernel.ids(raw, starts), ID_TEXT_SIZE)
        if field.type in _WIDTHS:
            absent = field.default if field.tag is not None else None
            return _numbers(
                kernel.numbers(raw, starts, _NUMPY_KINDS[field.type], absent or 0), kind
            )
        if field.type == "string":
            return _texts(raw, starts, lengths)
        if field.type == "bytes":
            return _base64(raw, starts, lengths)
        if field.element == "uuid":
            values = texts_of(kernel.ids(raw, starts, lengths), ID_TEXT_SIZE)
        else:
            elements = kernel.lists(raw, starts, lengths, _NUMPY_KINDS[str(field.element)])
            values = _numbers(elements, kind.value_type)
        held = [_validity(lengths), pa.py_buffer(kernel.offsets(lengths))]
        return pa.Array.from_buffers(kind, len(lengths), held, children=[values])


def _validity(lengths: Places) -> pa.Buffer | None:
    """Which values there are: a length of −1 is null."""
    return marks(lengths >= 0) if (lengths < 0).any() else None


def _numbers(values: npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    # A type of Kafka's that Arrow has not is held by the next larger one; numpy names numbers alike.
    return column_of(values if kind == pa.bool_() else values.astype(str(kind), copy=False), kind)


def _texts(raw: Bytes, starts: Places, lengths: Places) -> pa.Array:
    """UTF-8 text; a length of −1 is null."""
    texts = pa.StringArray.from_buffers(
        len(lengths),
        pa.py_buffer(kernel.offsets(lengths)),
        pa.py_buffer(kernel.pieces(raw, starts, lengths)),
        _validity(lengths),
    )
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        # Not UTF-8 somewhere: the interpreter's own way of reading it, value by value.
        pieces = _pieces(raw, starts, lengths)
        whole = [None if one is None else utf8_text(one) for one in pieces]
        return pa.array(whole, pa.string())
    return texts


def _base64(raw: Bytes, starts: Places, lengths: Places) -> pa.Array:
    """Bytes as base64 text; a length of −1 is null."""
    pieces = _pieces(raw, starts, lengths)
    return pa.array(
        [None if one is None else b64encode(one).decode() for one in pieces], pa.string()
    )


def _pieces(raw: Bytes, starts: Places, lengths: Places) -> list[bytes | None]:
    return [
        None if length < 0 else raw[start : start + length].tobytes()
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads all records of one message type and version: the plain fields, then the tagged ones."""

    spec: MessageSpec
    plain: tuple[Column, ...]
    tagged: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        """All of them, in the order of the program."""
        return self.plain + self.tagged

    @cached_property
    def program(self) -> Places:
        """How the compiled part finds all fields."""
        return kernel.program([column.how for column in self.columns])

    def locate(self, raw: Bytes, rows: Numbers, body: Places, end: Places) -> Located:
        """Which of these rows' messages, in [body, end), are normal, and where the fields of those
        lie.
        """
        return kernel.locate(raw, rows, body, end, self.program, len(self.plain))

    def gather(self, raw: Bytes, located: Located, redactor: Redactor) -> pa.StructArray | None:
        """A row for each of the normal records.

        None where there are no fields, or no normal records."""
        count = located.starts.shape[1]
        if not self.spec.fields or not count:
            return None
        columns = {
            column.field.name: column.gather(raw, starts, lengths)
            if seen
            else column.default(count)
            for column, starts, lengths, seen in zip(
                self.columns, located.starts, located.lengths, located.seen, strict=True
            )
        }
        redactor.columns(self.spec, columns)
        kinds = relations.struct_type(self.spec.fields)
        arrays = [
            columns[kind.name] if kind.name in columns else pa.nulls(count, kind.type)
            for kind in kinds
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(kinds))


@lru_cache(maxsize=1024)
def reader_of(spec: MessageSpec, version: int) -> Reader | None:
    """The reader of a message at a version; None where only the interpreter reads it."""
    at = spec.at(version)
    plain = [_column(field, version) for field in at.plain]
    tagged = [_column(field, version) for field in at.tagged.values()]
    if not at.flexible or None in plain or None in tagged:
        return None
    return Reader(
        spec,
        tuple(column for column in plain if column),
        tuple(column for column in tagged if column),
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
