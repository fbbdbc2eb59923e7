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
import pyarrow as pa

from kraftlog.errors import PlatformError
from kraftlog.plain import tell_once
from kraftlog.wire import Buffer

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Marks = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint16]
Headers = npt.NDArray[np.void]

ID_SIZE, ID_TEXT_SIZE = 16, 22
BUFFER_LIMIT = 1 << 30
"""Places in a buffer, and in the texts of its ids, are numbers of 32 bits."""


class Envelopes(NamedTuple):
    """The envelopes of many records, an entry per record: its batch and its place there, and what
    stands around its value; places are in the buffer.

    Where `bad` is set, only the range [position, end) means anything. `key` is −1 where the head of
    a value (frame version, api key, version) is not normal. `code` is key and version in one number
    (`of_code`), NO_CODE where they are not normal or larger than any that Kafka has.
    """

    batch: Places
    record_index: Places
    position: Places
    end: Places
    timestamp_delta: Places
    offset_delta: Places
    value_start: Places
    value_end: Places
    body: Places
    key: Places
    code: Codes
    bad: Marks


_NUMBER_BITS = 7
NO_CODE = 1 << 2 * _NUMBER_BITS


def of_code(code: int) -> tuple[int, int]:
    """The api key and the version."""
    return code >> _NUMBER_BITS, code & (1 << _NUMBER_BITS) - 1


def frames(
    raw: Bytes, headers: Headers, batches: Numbers, starts: Numbers, ends: Numbers
) -> tuple[Envelopes, Marks]:
    """The records of some batches, and which of the batches their records' lengths lead through to
    the end; of the others there are none. `headers` are those of all batches, as they lie in the
    file; the records of the i-th are in [starts[i], ends[i]) of the buffer.
    """
    counts = np.empty(len(batches), np.int64)
    sections = addresses(batches, starts, ends, counts)
    every = min(len(headers), len(starts), len(ends))
    rows = kept = 0
    if len(batches):
        rows = library().kraftlog_counts(
            address(headers), every, _size_of(raw), len(batches), *sections
        )
    _within(rows)
    kinds = {"code": np.uint16, "bad": np.bool_}
    columns: list[npt.NDArray[Any]] = [
        np.empty(rows, kinds.get(one, np.int32)) for one in Envelopes._fields
    ]
    leads = np.empty(len(batches), np.bool_)
    if len(batches):
        kept = library().kraftlog_frames(
            address(raw), len(batches), *sections, *addresses(leads, *columns)
        )
    return Envelopes(*(one[:kept] for one in columns)), leads


def groups(codes: Codes) -> tuple[Numbers, Numbers]:
    """Rows by their codes, those of each code in order; and for each code where its rows end."""
    order, ends = np.empty(len(codes), np.int64), np.zeros(NO_CODE + 1, np.int64)
    if len(codes):
        if codes.max() > NO_CODE:
            raise ValueError("a code is none")
        library().kraftlog_groups(address(codes), len(codes), *addresses(order, ends))
    return order, ends


class EnvelopeColumns(NamedTuple):
    """What the envelopes of some records and the headers of their batches say, an entry per record;
    `place` is the batch's index << 32 | the record's, `timestamp` is in milliseconds.
    """

    place: Numbers
    batch: Places
    record_index: Places
    offset: Numbers
    timestamp: Numbers
    epoch: Places
    timestamp_delta: Numbers
    offset_delta: Places
    value_size: Places


def envelope_columns(headers: Headers, found: Envelopes, at: Numbers) -> EnvelopeColumns:
    """The records at some places of `found`; `headers` are those of all batches, as they lie in the
    file.
    """
    wide, count = {"place", "offset", "timestamp", "timestamp_delta"}, len(at)
    columns: list[npt.NDArray[Any]] = [
        np.empty(count, np.int64 if one in wide else np.int32) for one in EnvelopeColumns._fields
    ]
    whose = found.batch, found.record_index
    deltas = found.timestamp_delta, found.offset_delta
    values = found.value_start, found.value_end
    told = library().kraftlog_columns(
        address(headers), len(headers), count, *addresses(at, *whose, *deltas, *values, *columns)
    )
    if told < 0:
        raise ValueError("a record's batch is not there")
    return EnvelopeColumns(*columns)


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
    words = None if key is None else address(np.frombuffer(key, np.uint32))
    found = library().kraftlog_batches(
        address(raw), len(raw), start, stop, words, room, *addresses(starts, hashes)
    )
    return starts[: found + 1], hashes[: 16 * found].tobytes()


_BATCHES_AT_A_TIME = 32768


def hex_letters(data: bytes) -> Bytes:
    """Bytes in hex, as letters."""
    if not is_here():
        return np.frombuffer(data.hex().encode(), np.uint8)
    letters = np.empty(2 * len(data), np.uint8)
    library().kraftlog_hex(data, len(data), address(letters))
    return letters


NUMBER, ID, NUMBERS, IDS, BYTES, TEXT, STRUCTS = range(7)
"""Kinds of fields: a value of fixed width; an id; lists of those; bytes, and a string, behind their
length.
"""
_FIELD = np.dtype(
    [
        *((name, np.int32) for name in ("kind", "width", "nullable", "tag")),
        *(
            (name, np.int64)
            for name in ("absent", "inner", "values", "ends", "held", "used", "seen")
        ),
    ]
)
Program = npt.NDArray[np.void]


class Field(NamedTuple):
    """How a field is read: `width` is that of a value, or of an element; `tag` is −1 where it has
    none. `absent` is what a message has that lacks a tagged field, which is no id: of a number the
    bytes as they lie in a message, as a number of this machine; else −1 for null, 0 for nothing.
    The `inner` fields after a list of structs are those of an element, none of them tagged; its
    `width` is the size of the smallest element.
    """

    kind: int
    width: int
    nullable: bool
    tag: int = -1
    absent: int = -1
    inner: int = 0


class Values(NamedTuple):
    """A field of many messages. Of lists and texts, `ends` says where each begins among the values
    of all, and where the last one ends, and `held` whether there is one: else it is null. Structs
    have no values but those of their fields, of which each element of all messages has one.
    """

    values: Bytes
    ends: Places
    held: Marks


class Messages(NamedTuple):
    """Which messages are normal, and each field of those; None for a tagged one that none has."""

    normal: Marks
    fields: list[Values | None]


def program(fields: Sequence[Field]) -> Program:
    """Fields as `messages` takes them."""
    return np.array([(*one, 0, 0, 0, 0, 0) for one in fields], _FIELD)


def messages(
    raw: Bytes,
    rows: Numbers,
    body: Places,
    end: Places,
    program: Program,
    plain: int,
    *,
    is_given: bool = True,
) -> Messages:
    """The messages of one type and version that lie in [body, end) of these rows. `program` has the
    `plain` fields first; where they are not to be given, only what is normal is found.
    """
    fields, normal = program.copy(), np.empty(len(rows), np.bool_)
    fields["seen"][:plain] = 1
    size = int((end.take(rows) - body.take(rows)).sum(dtype=np.int64))
    kinds = list(zip(fields["kind"].tolist(), fields["width"].tolist(), strict=True))
    owners = _owners(fields["inner"].tolist())
    found: list[Values] = []
    for at, (kind, width) in enumerate(kinds if is_given else ()):
        owner = owners[at]
        # As many elements as there are bytes for, and one that breaks off.
        count = len(rows) if owner is None else size // kinds[owner][1] + 1
        found.append(one := _room(kind, width, count, size))
        fields["values"][at], fields["ends"][at], fields["held"][at] = addresses(*one)
    kept = library().kraftlog_messages(
        address(raw),
        _size_of(raw),
        len(rows),
        *addresses(rows, body, end, fields),
        plain,
        len(fields),
        address(normal),
    )
    _within(kept)
    used, seen = fields["used"].tolist(), fields["seen"].tolist()
    given: list[Values | None] = []
    for at, one in enumerate(found):
        owner, (kind, width) = owners[at], kinds[at]
        count = kept if owner is None else used[owner]
        # What is not needed of the room goes back.
        values = used[at] if kind in LISTS else count
        one.values.resize(values * _size(kind, width), refcheck=False)
        given.append(
            Values(one.values, one.ends[: count + 1], one.held[:count]) if seen[at] else None
        )
    return Messages(normal, given)


LISTS = (NUMBERS, IDS, BYTES, TEXT, STRUCTS)


def _owners(inner: list[int]) -> list[int | None]:
    """The list of structs to whose elements each field belongs; None: to the message."""
    owners: list[int | None] = [None] * len(inner)
    for at, count in enumerate(inner):
        owners[at + 1 : at + 1 + count] = [at] * count
    return owners


def _size(kind: int, width: int) -> int:
    """Bytes of a value, or of an element, as it is given."""
    return {ID: ID_TEXT_SIZE, IDS: ID_TEXT_SIZE, STRUCTS: 0}.get(kind, width)


def _room(kind: int, width: int, count: int, size: int) -> Values:
    """Arrays for a field of so many messages, which have so many bytes together."""
    is_list = kind in LISTS
    most = size // width if is_list else count
    ends = np.empty(count + 1 if is_list else 0, np.int32)
    ends[:1] = 0
    values = np.empty(most * _size(kind, width), np.uint8)
    return Values(values, ends, np.empty(count if is_list else 0, np.bool_))


def hashes(raw: Bytes, rows: Numbers, body: Places, end: Places) -> Numbers:
    """The hash of the partition that each message of these rows begins with, as
    `decode.slices` defines it; 0 where a message ends before that.
    """
    out = np.empty(len(rows), np.int64)
    held = address(raw), _size_of(raw), len(rows)
    _within(library().kraftlog_hashes(*held, *addresses(rows, body, end, out)))
    return out


def _size_of(raw: Bytes) -> int:
    """How large a buffer is, of which places are numbers of 32 bits."""
    return min(len(raw), BUFFER_LIMIT)


def _within(told: int) -> None:
    """Raises ValueError where a loop has met a range that is none of the buffer's."""
    if told < 0:
        raise ValueError("a range reaches beyond its buffer")


def address(array: npt.NDArray[Any]) -> int:
    """Where an array's elements lie, which are in a row."""
    if not array.flags.c_contiguous:
        raise ValueError("an array is not in a row")
    # A tenth of the time that numpy takes to say so.
    found: int = pa.py_buffer(array).address
    return found


def addresses(*arrays: npt.NDArray[Any]) -> list[int]:
    """The same of several arrays."""
    return [address(array) for array in arrays]


def is_here() -> bool:
    """Whether there is a compiled part for this machine."""
    return _loaded() is not None


def file_name(machine: str, system: str, vectors: str = "") -> str:
    """The name of the compiled part for a processor and a system, by Python's names of them, and
    for the processor's vectors, by pyarrow's.
    """
    processor = _MACHINES.get(machine.lower(), machine.lower())
    return f"kernel.{processor}{_VECTORS.get(vectors, '')}-{system}"


_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_VECTORS = {"avx2": "+avx2", "avx512": "+avx2"}
_ARGUMENTS = {
    "counts": "pnnnpppp",
    "frames": "pnppppppppppppppppp",
    "groups": "pnpp",
    "columns": "pnnpppppppppppppppp",
    "messages": "pnnppppnnp",
    "hashes": "pnnpppp",
    "batches": "pnnnpnpp",
    "hex": "pnp",
    "fold": "npppppnppppppppp",
    "repeats": "npppnp",
    "outside": "npppnpppnp",
    "holds": "npppnpp",
    "ends": "nppnp",
    "taken": "npppnp",
    "sort": "ppnnn",
}
"""Of each function: p for an array, n for a number."""


def library() -> ctypes.CDLL:
    """The compiled functions. Raises PlatformError where this machine has none."""
    found = _loaded()
    if found is None:
        raise PlatformError(_missing())
    return found


@lru_cache(maxsize=1)
def _loaded() -> ctypes.CDLL | None:
    """The compiled part; from an archive it goes through a temporary file."""
    vectors = pa.runtime_info().simd_level
    file = files(__package__) / file_name(platform.machine(), sys.platform, vectors)
    if not file.is_file():
        tell_once(_missing())
        return None
    with as_file(file) as path:
        return loaded_library(path)


def loaded_library(path: Path) -> ctypes.CDLL:
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
