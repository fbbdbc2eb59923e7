"""Bytes → arrays, compiled: where records and their fields lie, and the fields' values, many at once.

In: a buffer, and arrays of places in it. Out: numpy arrays. `kernel.c` holds the loops; each is
called by one function here, which makes the arrays and answers for their sizes. Nothing is given a
meaning. Runs in executors, also from an archive.

`build` compiles the loops for all platforms below when a wheel or the development set-up is made,
so that nobody who runs kraftlog needs a compiler. Where there is no compiled part (`is_here`), the
interpreter reads all records, with the same answers.
"""

import ctypes
import platform
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kraftlog.errors import PlatformError
from kraftlog.plain import tell_once
from kraftlog.wire import Buffer

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Marks = npt.NDArray[np.bool_]

ID_SIZE, ID_TEXT_SIZE = 16, 22
BUFFER_LIMIT = 1 << 30
"""Places in a buffer, and in the texts of its ids, are numbers of 32 bits."""


class Envelopes(NamedTuple):
    """The envelopes of many records, an entry per record; places are in the buffer.

    Where `bad` is set, only the range [position, end) means anything. `key` is −1 where the head of
    a value (frame version, api key, version) is not normal.
    """

    position: Places
    end: Places
    timestamp_delta: Places
    offset_delta: Places
    value_start: Places
    value_end: Places
    body: Places
    key: Places
    version: Places
    bad: Marks


def frames(raw: Bytes, starts: Numbers, ends: Numbers, counts: Numbers) -> tuple[Envelopes, Marks]:
    """The records of some batches, whose records sections are [start, end) of the buffer, and which
    of the batches their records' lengths lead through to the end; of the others there are none.
    """
    starts, ends, counts = (np.ascontiguousarray(one, np.int64) for one in (starts, ends, counts))
    if (counts < 0).any():
        raise ValueError("a batch cannot hold less than no records")
    rows = int(counts.sum())
    columns: list[npt.NDArray[Any]] = [np.empty(rows, np.int32) for _ in range(9)]
    columns.append(np.empty(rows, np.bool_))
    leads = np.empty(len(counts), np.bool_)
    kept = 0
    if len(counts):
        _within(raw, starts, ends)
        kept = _library().kraftlog_frames(
            _at(raw), len(counts), *_each(starts, ends, counts, leads, *columns)
        )
    return Envelopes(*(one[:kept] for one in columns)), leads


SMALL_BATCH_SIZE = 1024
"""Batches up to this size are one chunk of BLAKE3's."""


def small_batches(
    buffer: Buffer, start: int, stop: int, key: bytes | None
) -> tuple[Numbers, bytes]:
    """Where the small batches begin that stand one after the other from `start` on and before
    `stop`, with right CRCs, and where they end; and 16 bytes of the BLAKE3 hash of each,
    under a key of 32 bytes where there is one. There are none where the first one is anything else;
    at most some thousands are given at a time.
    """
    raw = np.frombuffer(buffer, np.uint8)
    room = _BATCHES_AT_A_TIME
    starts, hashes = np.empty(room + 1, np.int64), np.empty(room * 16, np.uint8)
    words = None if key is None else _at(np.frombuffer(key, np.uint32))
    found = _library().kraftlog_batches(
        _at(raw), len(raw), start, stop, _at(_CRC_TABLES), words, room, *_each(starts, hashes)
    )
    return starts[: found + 1], hashes[: 16 * found].tobytes()


_BATCHES_AT_A_TIME = 4096


def _crc_tables() -> npt.NDArray[np.uint32]:
    """CRC-32C of a byte, and of a byte before one to seven zeros: [8][256]."""
    tables = np.zeros((8, 256), np.uint32)
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = np.where(value & 1, value >> 1 ^ np.uint32(0x82F63B78), value >> 1)
    tables[0] = value
    for one in range(1, 8):
        tables[one] = tables[one - 1] >> 8 ^ value[tables[one - 1] & 0xFF]
    return tables


_CRC_TABLES = _crc_tables()

FIXED, LIST, TEXT = range(3)
"""Kinds of fields: a value of fixed width; elements of fixed width behind their number; a string."""


class Field(NamedTuple):
    """How a field is found: `width` is that of a value, or of an element; `tag` is −1 where it has
    none; `absent` is the length where a record does not have it.
    """

    kind: int
    width: int
    nullable: bool
    tag: int = -1
    absent: int = -1


class Located(NamedTuple):
    """Where fields lie: [field, record], for the normal records alone. A length of −1 is null; a
    tagged field that a record lacks starts at −1 there. `seen` has the fields that any has.
    """

    normal: Marks
    starts: Places
    lengths: Places
    seen: Marks


def locate(
    raw: Bytes, rows: Numbers, body: Places, end: Places, program: Places, plain: int
) -> Located:
    """The fields of messages of one type and version, which lie in [body, end) of these rows, and
    which of the messages are normal. `program` has a `Field` for each, the `plain` ones first.
    """
    _within(raw, body, end)
    fields = len(program)
    normal, seen = np.empty(len(rows), np.bool_), np.arange(fields) < plain
    starts, lengths = (np.empty((fields, len(rows)), np.int32) for _ in range(2))
    kept = _library().kraftlog_locate(
        _at(raw),
        len(rows),
        *_each(rows, body, end, program),
        plain,
        fields,
        *_each(normal, starts, lengths, seen),
    )
    return Located(normal, starts[:, :kept], lengths[:, :kept], seen)


def program(fields: Sequence[Field]) -> Places:
    """Fields as `locate` takes them."""
    return np.array(fields, np.int32).reshape(len(fields), len(Field._fields))


def numbers(raw: Bytes, starts: Places, kind: str, absent: int = 0) -> npt.NDArray[np.generic]:
    """Big-endian values; `kind` is numpy's name without the order. `absent` where start is −1."""
    out = np.empty(len(starts), kind)
    other = np.array([absent], f">{kind}")
    _library().kraftlog_numbers(
        _at(raw), len(starts), _at(starts), out.itemsize, _at(other), _at(out)
    )
    return out


def offsets(lengths: Places) -> Places:
    """Where the elements of each list begin among those of all, and where the last one ends; a
    length of −1 has none.
    """
    found = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.maximum(lengths, 0), out=found[1:])
    return found


def lists(raw: Bytes, starts: Places, lengths: Places, kind: str) -> npt.NDArray[np.generic]:
    """The elements of all lists in a row, which are big-endian values."""
    out = np.empty(_total(lengths), kind)
    _library().kraftlog_lists(
        _at(raw), len(starts), _at(starts), _at(lengths), out.itemsize, _at(out)
    )
    return out


def ids(raw: Bytes, starts: Places, lengths: Places | None = None) -> Bytes:
    """Kafka's texts of UUIDs, 22 letters each: of one at each place, or of those of all lists."""
    out = np.empty((len(starts) if lengths is None else _total(lengths)) * ID_TEXT_SIZE, np.uint8)
    where = None if lengths is None else _at(lengths)
    _library().kraftlog_ids(_at(raw), len(starts), _at(starts), where, _at(out))
    return out


def pieces(raw: Bytes, starts: Places, lengths: Places) -> Bytes:
    """The bytes of many places, one after the other."""
    out = np.empty(_total(lengths), np.uint8)
    _library().kraftlog_bytes(_at(raw), len(starts), _at(starts), _at(lengths), _at(out))
    return out


def hashes(raw: Bytes, rows: Numbers, body: Places, end: Places) -> Numbers:
    """The hash of the partition that each message of these rows begins with, as
    `decode.slices` defines it; 0 where a message ends before that.
    """
    _within(raw, body, end)
    out = np.empty(len(rows), np.int64)
    _library().kraftlog_hashes(_at(raw), len(rows), *_each(rows, body, end, out))
    return out


def _total(lengths: Places) -> int:
    return int(np.maximum(lengths, 0).sum(dtype=np.int64))


def _within(raw: Bytes, starts: npt.NDArray[np.integer], ends: npt.NDArray[np.integer]) -> None:
    """Raises ValueError where a range is none of the buffer's."""
    if len(raw) > BUFFER_LIMIT or (
        len(starts) and (starts.min() < 0 or ends.max() > len(raw) or (starts > ends).any())
    ):
        raise ValueError("a range reaches beyond its buffer")


def _at(array: npt.NDArray[Any]) -> int:
    """Where an array's elements lie, which are in a row."""
    if not array.flags.c_contiguous:
        raise ValueError("an array is not in a row")
    address: int = array.__array_interface__["data"][0]
    return address


def _each(*arrays: npt.NDArray[Any]) -> list[int]:
    return [_at(array) for array in arrays]


def is_here() -> bool:
    """Whether there is a compiled part for this machine."""
    return _loaded() is not None


def file_name(machine: str, system: str) -> str:
    """The name of the compiled part for a processor and a system, by Python's names of them."""
    return f"kernel.{_MACHINES.get(machine.lower(), machine.lower())}-{system}"


_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_ARGUMENTS = {
    "frames": "pnpppppppppppppp",
    "locate": "pnppppnnpppp",
    "numbers": "pnpnpp",
    "lists": "pnppnp",
    "ids": "pnppp",
    "bytes": "pnppp",
    "hashes": "pnpppp",
    "batches": "pnnnppnpp",
}
"""Of each function: p for an array, n for a number."""


def _library() -> ctypes.CDLL:
    found = _loaded()
    if found is None:
        raise PlatformError(_missing())
    return found


@lru_cache(maxsize=1)
def _loaded() -> ctypes.CDLL | None:
    """The compiled part; from an archive it goes through a temporary file."""
    file = files(__package__) / file_name(platform.machine(), sys.platform)
    if not file.is_file():
        tell_once(_missing())
        return None
    with as_file(file) as path:
        return loaded(path)


def loaded(path: Path) -> ctypes.CDLL:
    """A compiled part, its functions declared."""
    found = ctypes.CDLL(str(path))
    for name, arguments in _ARGUMENTS.items():
        function = getattr(found, f"kraftlog_{name}")
        function.argtypes = [_TYPES[one] for one in arguments]
        function.restype = ctypes.c_int64
    return found


_TYPES = {"p": ctypes.c_void_p, "n": ctypes.c_int64}


def _missing() -> str:
    here = f"{sys.platform} on {platform.machine()}"
    cure = (
        "in a checkout, make it: python -m pip install ziglang && python -m kraftlog.native.build"
    )
    return f"there is no compiled part of kraftlog for {here}, so records are read one by one, which takes a hundred times as long; {cure}"
