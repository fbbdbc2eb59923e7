"""A message spec at one version → a reader of many such messages at once.

In: where the bodies of records of one type and version lie. Out: one Arrow struct array, and which
of the records it holds; the others are abnormal and are left to the interpreter. The compiled part
reads every field of every normal record; the arrays that it fills become columns as they are.
"""

import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog import relations
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.tabular import column_of, marks, sharable, texts_of
from kraftlog.message.message_spec import FieldSpec, MessageSpec, VersionSpec, struct_at
from kraftlog.native import kernel
from kraftlog.native.kernel import (
    ID_SIZE,
    ID_TEXT_SIZE,
    Bytes,
    Marks,
    Numbers,
    Places,
    Program,
    Values,
)
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
    """One field at one version. `width` is that of a number or an array's element; 1 for text; of
    structs, which have `inner` fields, that of the smallest.
    """

    field: FieldSpec
    width: int
    nullable: bool
    inner: tuple["Column", ...] = ()

    @property
    def program(self) -> list[kernel.Field]:
        """How the compiled part reads it, and then its inner fields."""
        return [self.how, *_program(self.inner)]

    @property
    def how(self) -> kernel.Field:
        """How the compiled part reads it. Kafka bounds the length of a string."""
        field, absent = self.field, -1 if self.field.default is None else 0
        if field.type in _NUMPY_KINDS:
            bits = np.array([field.default], f">{_NUMPY_KINDS[field.type]}").tobytes()
            absent = int.from_bytes(bits.ljust(8, b"\0"), sys.byteorder, signed=True)
        tag = -1 if field.tag is None else field.tag
        inner = len(_program(self.inner))
        return kernel.Field(self.kind, self.width, self.nullable, tag, absent, inner)

    @property
    def kind(self) -> int:
        """What the compiled part calls it."""
        if self.field.element is not None:
            lists = {"uuid": kernel.IDS, "struct": kernel.STRUCTS}
            return lists.get(self.field.element, kernel.NUMBERS)
        others = {"uuid": kernel.ID, "string": kernel.TEXT, "bytes": kernel.BYTES}
        return others.get(self.field.type, kernel.NUMBER)

    def default(self, count: int) -> pa.Array:
        """The column of a field that no record has."""
        return _defaults(self, sharable(count)).slice(0, count)

    def column(self, found: Values, rest: Iterator[Values | None]) -> pa.Array:
        """The field's column, in the type that `relations` declares; its inner fields are the next
        ones of `rest`.
        """
        field, kind = self.field, relations.arrow_type(self.field)
        if field.type == "string":
            return _texts(found)
        if field.type == "bytes":
            return _base64(found)
        if self.inner:
            count = int(found.ends[-1])
            values = _structs(field.fields, _columns(self.inner, count, rest))
        elif "uuid" in (field.type, field.element):
            values = texts_of(found.values, ID_TEXT_SIZE)
        else:
            held = found.values.view(_NUMPY_KINDS[field.element or field.type])
            values = _numbers(held, kind if field.element is None else kind.value_type)
        if field.element is None:
            return values
        buffers = [_validity(found), pa.py_buffer(found.ends)]
        return pa.Array.from_buffers(kind, len(found.held), buffers, children=[values])


@cache
def _defaults(column: Column, count: int) -> pa.Array:
    field = column.field
    return pa.repeat(pa.scalar(field.default, relations.arrow_type(field)), count)


def _program(columns: tuple[Column, ...]) -> list[kernel.Field]:
    return [one for column in columns for one in column.program]


def _columns(
    columns: tuple[Column, ...], count: int, found: Iterator[Values | None]
) -> dict[str, pa.Array]:
    """Columns by name, of so many rows."""
    return {
        column.field.name: column.default(count)
        if (values := next(found)) is None
        else column.column(values, found)
        for column in columns
    }


def _structs(fields: tuple[FieldSpec, ...], columns: dict[str, pa.Array]) -> pa.StructArray:
    """Columns as one of structs; a field that the version lacks is null."""
    count = len(next(iter(columns.values())))
    kinds = list(relations.struct_type(fields))
    arrays = [
        columns[kind.name] if kind.name in columns else pa.nulls(count, kind.type) for kind in kinds
    ]
    return pa.StructArray.from_arrays(arrays, fields=kinds)


def _validity(found: Values) -> pa.Buffer | None:
    """Which values there are; None where all are."""
    return None if found.held.all() else marks(found.held)


def _numbers(values: npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    # A type of Kafka's that Arrow has not is held by the next larger one; numpy names numbers alike.
    return column_of(values if kind == pa.bool_() else values.astype(str(kind), copy=False), kind)


def _texts(found: Values) -> pa.Array:
    letters, ends = pa.py_buffer(found.values), pa.py_buffer(found.ends)
    texts = pa.StringArray.from_buffers(len(found.held), ends, letters, _validity(found))
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        # Not UTF-8 somewhere: the interpreter's own way of reading it, value by value.
        whole = [None if one is None else utf8_text(one) for one in _pieces(found)]
        return pa.array(whole, pa.string())
    return texts


def _base64(found: Values) -> pa.Array:
    texts = [None if one is None else b64encode(one).decode() for one in _pieces(found)]
    return pa.array(texts, pa.string())


def _pieces(found: Values) -> list[bytes | None]:
    return [
        found.values[start:end].tobytes() if held else None
        for (start, end), held in zip(pairwise(found.ends.tolist()), found.held, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads all records of one message type and version: the plain fields, then the tagged ones, of
    which there are so many.
    """

    spec: MessageSpec
    columns: tuple[Column, ...]
    tagged: int

    @cached_property
    def program(self) -> Program:
        """How the compiled part reads all fields."""
        return kernel.program(_program(self.columns))

    def read(
        self,
        raw: Bytes,
        rows: Numbers,
        body: Places,
        end: Places,
        redactor: Redactor,
        *,
        is_given: bool = True,
    ) -> tuple[Marks, pa.StructArray | None]:
        """Which of these rows' messages, in [body, end), are normal, and a row for each of those;
        None where there are no fields, or no normal messages, or the fields are not to be given.
        """
        plain = len(self.program) - self.tagged
        found = kernel.messages(raw, rows, body, end, self.program, plain, is_given=is_given)
        count = int(np.count_nonzero(found.normal))
        if not is_given or not self.spec.fields or not count:
            return found.normal, None
        columns = _columns(self.columns, count, iter(found.fields))
        redactor.columns(self.spec, columns)
        return found.normal, _structs(self.spec.fields, columns)


@lru_cache(maxsize=1024)
def reader_of(spec: MessageSpec, version: int) -> Reader | None:
    """The reader of a message at a version; None where only the interpreter reads it."""
    at = spec.at(version)
    plain, tagged = _columns_of(at.plain, at), _columns_of(tuple(at.tagged.values()), at)
    if not at.flexible or plain is None or tagged is None:
        return None
    return Reader(spec, plain + tagged, len(tagged))


def _columns_of(fields: tuple[FieldSpec, ...], at: VersionSpec) -> tuple[Column, ...] | None:
    """How fields are read; None where any of them is for the interpreter alone."""
    columns = [_column(field, at) for field in fields]
    return None if None in columns else tuple(column for column in columns if column)


def _column(field: FieldSpec, at: VersionSpec) -> Column | None:
    """How a field is read; None for arrays of texts, and for what no schema has yet."""
    kind, is_nullable = field.element or field.type, at.version in field.nullable
    if kind in _TEXTS and field.element is None:
        return Column(field, 1, is_nullable) if not field.default else None
    if field.element == "struct" and field.tag is None:
        struct = struct_at(field, at)
        inner = _columns_of(struct.plain, struct)
        if not inner or struct.tagged:
            return None
        # Lengths take a byte at least, and so does the number of tagged fields.
        least = 1 + sum(1 if one.kind in kernel.LISTS else one.width for one in inner)
        return Column(field, least, is_nullable, inner)
    if kind not in _WIDTHS or (field.element and field.default):
        return None
    if field.type == "uuid" and field.tag is not None:
        return None
    return Column(field, _WIDTHS[kind], is_nullable)
