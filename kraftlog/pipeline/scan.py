"""First pass, in tasks: walk splits, write `batches` and `faults` as Parquet.

In: the splits of a task's bin. Out: the files that wait for their commit, each with the split that
it tells of. Nothing is decoded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kraftlog.decode.records import bad_crc
from kraftlog.decode.tabular import batch_table, fault_table
from kraftlog.log.batch import Batches
from kraftlog.log.directory import walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits
from kraftlog.pipeline.tasks import WrittenFile
from kraftlog.source.splits import Split
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import write_file

_FLUSH_ROWS = 1_000_000
_TABLE_ROWS = 1 << 16
"""A window has some hundred batches, and a table its price."""


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file of `batches` or `faults`, and the index of the split that it tells of."""

    split: int
    file: WrittenFile


def scan_bin(
    splits: Sequence[Split], bins: Sequence[Sequence[int]], limits: Limits, lake: Lake, number: int
) -> Iterator[ScannedFile]:
    """Walk the splits of one bin. The files of a split come in the order of its batches."""
    for index in bins[number]:
        for file in _scan_split(splits[index], limits, lake):
            yield ScannedFile(index, file)


def _scan_split(split: Split, limits: Limits, lake: Lake) -> Iterator[WrittenFile]:
    tables: list[pa.RecordBatch] = []
    windows: list[Batches] = []
    faults: list[Fault] = []
    for found in walk_file(split.file, limits, split.start, split.end):
        if isinstance(found, Fault):
            faults.append(found)
            continue
        windows.append(found.batches)
        faults += [bad_crc(found, int(bad)) for bad in (~found.batches.crc_valid).nonzero()[0]]
        if sum(map(len, windows)) >= _TABLE_ROWS:
            tables.append(batch_table(split.file, Batches.together(windows), limits))
            windows = []
        if sum(one.num_rows for one in tables) >= _FLUSH_ROWS:
            yield _written("batches", tables, split, lake)
            tables = []
    if windows:
        tables.append(batch_table(split.file, Batches.together(windows), limits))
    if tables:
        yield _written("batches", tables, split, lake)
    if faults:
        yield _written("faults", [fault_table(split.file, faults)], split, lake)


def _written(name: str, tables: list[pa.RecordBatch], split: Split, lake: Lake) -> WrittenFile:
    table = pa.Table.from_batches(tables)
    added = write_file(lake.path(name), table)
    return WrittenFile(name, added, table.num_rows)
