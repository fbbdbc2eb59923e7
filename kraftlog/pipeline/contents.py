"""Second pass, in tasks: decode each distinct batch once, write `records` and the other content
tables as Parquet.

In: the places (PLACES) of the batches that were chosen of a task's splits. Out: rows of SCAN, one
per Parquet file that waits for its commit. The file is read again: a batch that has changed since
the first pass is left out, and the next run sees that the file has changed.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.audit.detect import remarkable, type_counts
from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded
from kraftlog.log.fault import Fault
from kraftlog.log.reading import walk_file
from kraftlog.log.segment import Limits, Window
from kraftlog.pipeline.scan import SCAN, Task, added_row
from kraftlog.source.plan import Split
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import write_file
from kraftlog.tables.spec import decoded_tables

PLACES = pa.schema([SCAN.field(name) for name in ("batch_id", "split", "position", "size_bytes")])
_FLUSH_ROWS = 500_000


def contents_task(splits: list[Split], limits: Limits, redactor: Redactor, lake: Lake) -> Task:
    """The function that Spark maps over the chosen batches of a task's splits."""

    def task(chosen: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = _Writer(lake)
        rows = pa.Table.from_batches(chosen, PLACES)
        for index in sorted(pc.unique(rows.column("split")).to_pylist()):
            file = splits[index].file
            of_split = rows.filter(pc.equal(rows.column("split"), index))
            for start, end, ids in _ranges(of_split):
                for found in walk_file(file, limits, start, end):
                    if isinstance(found, Window):
                        _decode(found, ids, limits, redactor, writer)
        yield from writer.finish()

    return task


def _ranges(chosen: pa.Table) -> Iterator[tuple[int, int, set[str]]]:
    """Runs of chosen batches that touch: (first position, position after the last, their ids)."""
    chosen = chosen.sort_by("position")
    positions = chosen.column("position").to_numpy()
    ends = positions + chosen.column("size_bytes").to_numpy()
    ids = chosen.column("batch_id").to_pylist()
    breaks = np.flatnonzero(positions[1:] != ends[:-1]) + 1
    for first, after in zip([0, *breaks], [*breaks, len(ids)], strict=True):
        yield int(positions[first]), int(ends[after - 1]), set(ids[first:after])


def _decode(
    window: Window, ids: set[str], limits: Limits, redactor: Redactor, writer: "_Writer"
) -> None:
    batches = window.batches
    chosen = [
        index
        for index, batch_id in enumerate(batches.batch_ids)
        if batch_id in ids and batches.crc_valid[index]
    ]
    decoded = decode_window(window, None, redactor, limits.decompressed_size_bytes, chosen)
    for name, table in decoded.records.items():
        writer.add("records", name, table)
    for name, table in decoded.control.items():
        writer.add("control_records", name, table)
    writer.add("contents", None, _contents_table(window, decoded, chosen))
    if decoded.faults:
        writer.add("record_faults", None, _record_faults(window, decoded.faults))


def _contents_table(window: Window, decoded: Decoded, chosen: list[int]) -> pa.RecordBatch:
    headers = window.batches.headers[chosen]
    ids = [window.batches.batch_ids[index] for index in chosen]
    odd = remarkable(window, decoded)
    columns = {
        "batch_id": pa.array(ids, pa.string()),
        "base_offset": pa.array(headers["base_offset"].astype(np.int64)),
        "batch_leader_epoch": pa.array(headers["batch_leader_epoch"].astype(np.int32)),
        "crc": pa.array(headers["crc"].astype(np.int64)),
        "record_count": pa.array(headers["record_count"].astype(np.int32)),
        "remarkable": pa.array([one in odd for one in ids], pa.bool_()),
        "record_types": type_counts(window, decoded, chosen),
    }
    schema = decoded_tables()["contents"].schema
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _record_faults(window: Window, faults: list[Fault]) -> pa.RecordBatch:
    """Faults inside batches, placed relative to their batch: every replica that holds the batch has
    them.
    """
    ids = dict(zip(window.batches.positions.tolist(), window.batches.batch_ids, strict=True))
    rows = [
        {
            "batch_id": ids[fault.batch_position],
            "fault": str(fault.kind),
            "relative_position": fault.position - (fault.batch_position or 0),
            **fault._asdict(),
        }
        for fault in faults
        if fault.batch_position in ids
    ]
    return pa.RecordBatch.from_pylist(rows, schema=decoded_tables()["record_faults"].schema)


class _Writer:
    """Gathers rows per table and record type, and writes a Parquet file whenever enough have come
    together.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._waiting: dict[tuple[str, str | None], list[pa.RecordBatch]] = defaultdict(list)
        self._written: list[pa.RecordBatch] = []

    def add(self, table: str, record_type: str | None, rows: pa.RecordBatch) -> None:
        """Take rows of one table, and of one record type where the table is partitioned by it."""
        if rows.num_rows == 0:
            return
        waiting = self._waiting[table, record_type]
        waiting.append(rows)
        if sum(one.num_rows for one in waiting) >= _FLUSH_ROWS:
            self._flush(table, record_type)

    def finish(self) -> list[pa.RecordBatch]:
        """Write what is left; the rows of SCAN for all written files."""
        for table, record_type in list(self._waiting):
            self._flush(table, record_type)
        return self._written

    def _flush(self, table: str, record_type: str | None) -> None:
        rows = pa.Table.from_batches(self._waiting.pop((table, record_type)))
        values: dict[str, str | None] = {} if record_type is None else {"type": record_type}
        added = write_file(self._lake.path(table), rows, values)
        self._written.append(added_row(table, added.to_json(), rows.num_rows))
