"""Second pass, in tasks: decode each distinct batch once, write `records` and the other content
tables as Parquet.

In: the places that were chosen in a task's splits. Out: the files that wait for their commit. The
logs are read again: a batch that has changed since the first pass is left out, and the next run
sees that its file has changed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.decode.columnar import decode_window
from kraftlog.decode.redaction import Redactor
from kraftlog.decode.rows import Decoded
from kraftlog.decode.slices import SLICES
from kraftlog.log.directory import walk_file
from kraftlog.log.fault import Fault
from kraftlog.log.segment import Limits, Window
from kraftlog.pipeline.content_places import Places
from kraftlog.pipeline.tasks import WrittenFile
from kraftlog.quorum.detect import metadata_versions, remarkable, type_counts
from kraftlog.source.splits import Split
from kraftlog.state.window import with_offsets
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import read_columns, write_file
from kraftlog.tables.spec import decoded_tables

_FLUSH_ROWS = 500_000


def decode_bin(
    splits: Sequence[Split],
    bins: Sequence[Sequence[int]],
    places: Mapping[int, Places],
    limits: Limits,
    redactor: Redactor,
    lake: Lake,
    number: int,
) -> Iterator[WrittenFile]:
    """Decode what was chosen of the splits of one bin."""
    writer = _Writer(lake)
    for index in sorted(bins[number]):
        seen = _Seen(places[index].paths)
        for start, end in places[index].ranges.tolist():
            for found in walk_file(splits[index].file, limits, start, end):
                if isinstance(found, Window):
                    _decode(found, seen.unchanged(found), limits, redactor, writer)
    yield from writer.finish()


class _Seen:
    """What the first pass has seen in a split: which batch lies where."""

    def __init__(self, paths: Sequence[str]) -> None:
        tables = [read_columns(path, ["position", "batch_id"]) for path in paths]
        rows = pa.concat_tables(tables).combine_chunks()
        self._positions: npt.NDArray[np.int64] = rows.column("position").to_numpy()
        self._ids = rows.column("batch_id")

    def unchanged(self, window: Window) -> list[int]:
        """The batches of a window that lay there then. In a range that was chosen, these are
        chosen ones, with the right CRC that they had.
        """
        positions = window.batches.positions
        at = np.searchsorted(self._positions, positions).clip(max=len(self._positions) - 1)
        same_id = pc.equal(self._ids.take(pa.array(at)), pa.array(window.batches.batch_ids))
        same = (self._positions[at] == positions) & same_id.to_numpy()
        return [int(index) for index in np.flatnonzero(same)]


def _decode(
    window: Window, chosen: list[int], limits: Limits, redactor: Redactor, writer: "_Writer"
) -> None:
    size_limit = limits.decompressed_size_bytes
    for decoded in decode_window(window, None, redactor, size_limit, chosen, SLICES):
        for name, table in decoded.records.items():
            writer.add("records", name, with_offsets(table), decoded.ends.get(name))
        for name, table in decoded.control.items():
            writer.add("control_records", name, with_offsets(table))
        writer.add("contents", None, _contents_table(window, decoded))
        if decoded.faults:
            writer.add("record_faults", None, _record_faults(window, decoded.faults))


def _contents_table(window: Window, decoded: Decoded) -> pa.RecordBatch:
    chosen = decoded.indexes.tolist()
    headers = window.batches.headers[chosen]
    ids = [window.batches.batch_ids[index] for index in chosen]
    odd = remarkable(window, decoded) | metadata_versions(decoded).keys()
    columns = {
        "batch_id": pa.array(ids, pa.string()),
        "base_offset": pa.array(headers["base_offset"].astype(np.int64)),
        "batch_leader_epoch": pa.array(headers["batch_leader_epoch"].astype(np.int32)),
        "record_count": pa.array(headers["record_count"].astype(np.int32)),
        "remarkable": pa.array([one in odd for one in ids], pa.bool_()),
        "record_types": type_counts(window, decoded, chosen),
    }
    return pa.RecordBatch.from_pydict(columns, schema=decoded_tables()["contents"].schema)


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
    together. Rows that come in slices are written so.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._waiting: dict[tuple[str, str | None], list[_Rows]] = defaultdict(list)
        self._counts: Counter[tuple[str, str | None]] = Counter()
        self._written: list[WrittenFile] = []

    def add(
        self,
        table: str,
        record_type: str | None,
        rows: pa.RecordBatch,
        ends: Sequence[int] | None = None,
    ) -> None:
        """Take rows of one table, and of one record type where the table is partitioned by it;
        `ends` are those of their slices.
        """
        if rows.num_rows == 0:
            return
        self._waiting[table, record_type].append((rows, ends))
        self._counts[table, record_type] += rows.num_rows
        if self._counts[table, record_type] >= _FLUSH_ROWS:
            self._flush(table, record_type)

    def finish(self) -> list[WrittenFile]:
        """Write what is left; all files that were written."""
        for table, record_type in list(self._waiting):
            self._flush(table, record_type)
        return self._written

    def _flush(self, table: str, record_type: str | None) -> None:
        rows, slices = _by_slice(self._waiting.pop((table, record_type)))
        self._counts[table, record_type] = 0
        values: dict[str, str | None] = {} if record_type is None else {"type": record_type}
        added = write_file(self._lake.path(table), rows, values, slices)
        self._written.append(WrittenFile(table, added, rows.num_rows))


_Rows = tuple[pa.RecordBatch, Sequence[int] | None]


def _by_slice(waiting: Sequence[_Rows]) -> tuple[pa.Table, list[int]]:
    """All rows, slice after slice, and how many each slice has; without slices, as they came."""
    cut = [(rows, [0, *ends]) for rows, ends in waiting if ends is not None]
    if not cut:
        return pa.Table.from_batches([rows for rows, _ in waiting]), []
    parts = [
        [rows.slice(ends[part], ends[part + 1] - ends[part]) for rows, ends in cut]
        for part in range(len(cut[0][1]) - 1)
    ]
    counts = [sum(rows.num_rows for rows in part) for part in parts]
    return pa.Table.from_batches([rows for part in parts for rows in part]), counts
