"""Between the two passes, on the driver: one place for each content that no run has stored.

In: the files of `batches` that the first pass has just written, and the lake's `contents`. Out: per
split, the ranges of its batches that are to be decoded there. A content's place is its first: in
the first split, there at the lowest position.

Ids are compared as the 16 bytes that they are, all of them. A batch costs the driver about 18 bytes
while the ids of all are held against each other, and 1 byte afterwards; a sixteenth of them is
sorted at a time.
"""

from binascii import unhexlify
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.pipeline.scan import ScannedFile
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import read_columns

_HEX = pa.binary(32)
"""How the lake holds an id."""

Ids = npt.NDArray[np.uint64]
Ranges = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Places:
    """The batches of one split that are decoded where they lie; pickles.

    `ranges` holds a row for each unbroken row of chosen batches: the first position, and the one
    after the last. `paths` are the files of `batches` in which the split's ids are found.
    """

    ranges: Ranges
    paths: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        return int((self.ranges[:, 1] - self.ranges[:, 0]).sum())


def choose(lake: Lake, scanned: Sequence[ScannedFile]) -> dict[int, Places]:
    """The places of new contents, by split; splits without any are left out.

    Raises LakeError where the driver does not see what tasks have written.
    """
    files = [one for one in scanned if one.file.table == "batches"]
    files.sort(key=lambda one: one.split)  # those of one split stay in their order
    paths = [f"{lake.path('batches')}/{one.file.added.path}" for one in files]
    counts = [one.file.row_count for one in files]
    stored = _stored(lake)
    is_first = first_of_each(_read_ids([*stored, *zip(paths, counts, strict=True)]))
    at = sum(count for _, count in stored)
    found: dict[int, list[tuple[str, Ranges]]] = defaultdict(list)
    for one, path, count in zip(files, paths, counts, strict=True):
        if is_first[at : at + count].any():
            found[one.split].append((path, _ranges(path, is_first[at : at + count])))
        at += count
    return {
        split: Places(np.concatenate([one for _, one in parts]), tuple(path for path, _ in parts))
        for split, parts in found.items()
    }


def first_of_each(ids: Ids) -> npt.NDArray[np.bool_]:
    """Which rows, of two numbers each, no row before them is equal to."""
    first = np.zeros(len(ids), np.bool_)
    sixteenth = ids[:, 0].astype(np.uint8) & np.uint8(15)
    for number in range(16):
        rows = np.flatnonzero(sixteenth == number)
        some = ids[rows]
        # Sorting keeps the order of equal rows.
        order = np.lexsort((some[:, 1], some[:, 0]))
        some = some[order]
        is_new = np.ones(len(rows), np.bool_)
        is_new[1:] = (some[1:] != some[:-1]).any(axis=1)
        first[rows[order[is_new]]] = True
    return first


def _stored(lake: Lake) -> list[tuple[str, int]]:
    """The files that tell which contents earlier runs have stored, and how many each."""
    if not lake.exists("contents"):
        return []
    folder = lake.path("contents")
    return [(f"{folder}/{file['path']}", file["num_records"]) for file, _ in lake.files("contents")]


def _read_ids(files: Sequence[tuple[str, int]]) -> Ids:
    """The ids of some files with so many rows."""
    ids = np.empty((sum(count for _, count in files), 2), np.uint64)
    at = 0
    for path, count in files:
        column = read_columns(path, ["batch_id"]).column("batch_id").combine_chunks()
        texts = column.cast(pa.binary()).cast(_HEX).buffers()[1]
        ids[at : at + count] = np.frombuffer(unhexlify(texts), np.uint64).reshape(count, 2)
        at += count
    return ids


def _ranges(path: str, chosen: npt.NDArray[np.bool_]) -> Ranges:
    """The unbroken rows of chosen batches of a file. A batch whose CRC is wrong is never decoded;
    its id is no valid batch's.
    """
    rows = read_columns(path, ["position", "size_bytes", "crc_valid"])
    rows = rows.filter(pc.and_(rows.column("crc_valid"), pa.array(chosen)))
    starts = rows.column("position").to_numpy()
    ends = starts + rows.column("size_bytes").to_numpy()
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    first = np.concatenate([[0], breaks])[: len(starts)]
    last = np.concatenate([breaks, [len(starts)]])[: len(starts)] - 1
    return np.stack([starts[first], ends[last]], axis=1)
