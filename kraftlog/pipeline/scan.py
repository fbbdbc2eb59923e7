"""First pass, in tasks: walk splits, write `batches` and `faults` as Parquet, and tell which
contents lie where.

In: a task's splits. Out: rows of SCAN: one per valid batch, one per Parquet file that waits for its
commit. Nothing is decoded.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa

from kraftlog.decode.records import bad_crc
from kraftlog.decode.tabular import batch_table, fault_table
from kraftlog.log.fault import Fault
from kraftlog.log.reading import walk_file
from kraftlog.log.segment import Limits
from kraftlog.source.plan import Split
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import write_file

SCAN = pa.schema(
    [
        ("table", pa.string()),  # of a written file; null in the row of a batch
        ("added", pa.string()),  # an AddedFile as JSON
        ("row_count", pa.int64()),
        ("task", pa.int32()),  # which walked the split, and decodes what is chosen of it
        ("split", pa.int32()),
        ("position", pa.int64()),
        ("size_bytes", pa.int64()),
        ("batch_id", pa.string()),
    ]
)
_FLUSH_ROWS = 1_000_000

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def scan_task(splits: list[Split], bins: list[list[int]], limits: Limits, lake: Lake) -> Task:
    """The function that Spark maps over task numbers; each task walks the splits of its bin."""

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbered in numbers:
            for number in numbered.column(0).to_pylist():
                for index in bins[number]:
                    yield from _scan_split(number, index, splits[index], limits, lake)

    return task


def _scan_split(
    task: int, index: int, split: Split, limits: Limits, lake: Lake
) -> Iterator[pa.RecordBatch]:
    tables: list[pa.RecordBatch] = []
    faults: list[Fault] = []
    for found in walk_file(split.file, limits, split.start, split.end):
        if isinstance(found, Fault):
            faults.append(found)
            continue
        table = batch_table(split.file, found)
        tables.append(table)
        faults += [bad_crc(found, int(bad)) for bad in (~found.batches.crc_valid).nonzero()[0]]
        yield _contents(task, index, table)
        if sum(one.num_rows for one in tables) >= _FLUSH_ROWS:
            yield _written("batches", tables, split, lake)
            tables = []
    if tables:
        yield _written("batches", tables, split, lake)
    if faults:
        yield _written("faults", [fault_table(split.file, faults)], split, lake)


def _contents(task: int, index: int, table: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of SCAN for the valid batches of a window."""
    valid = table.filter(table.column("crc_valid"))
    count = valid.num_rows
    given = {name: valid.column(name) for name in ("position", "size_bytes", "batch_id")}
    given["task"] = pa.repeat(pa.scalar(task, pa.int32()), count)
    given["split"] = pa.repeat(pa.scalar(index, pa.int32()), count)
    arrays = [given.get(field.name, pa.nulls(count, field.type)) for field in SCAN]
    return pa.RecordBatch.from_arrays(arrays, schema=SCAN)


def _written(name: str, tables: list[pa.RecordBatch], split: Split, lake: Lake) -> pa.RecordBatch:
    table = pa.Table.from_batches(tables)
    added = write_file(lake.path(name), table, {"path": split.file.path})
    return added_row(name, added.to_json(), table.num_rows)


def added_row(table: str, added: str, row_count: int) -> pa.RecordBatch:
    """The row of SCAN for a written file."""
    row = {"table": table, "added": added, "row_count": row_count}
    return pa.RecordBatch.from_pylist([row], schema=SCAN)
