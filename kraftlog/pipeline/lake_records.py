"""The records of a history from the tables of a lake: no log is decoded twice.

In: a chain of batches. Out: the windows that `FileRecords` reads from the files. A file of
`records` is read when the first window needs it, and let go behind the last one. Checkpoints are
read where they lie. Runs on the driver.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.quorum.chain import Chain
from kraftlog.quorum.evidence import id_texts
from kraftlog.quorum.record_windows import FileRecords, wanted_types
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.state.window import RecordWindow, rows_between, window_columns
from kraftlog.tables.lake import Lake, offset_bounds
from kraftlog.tables.parquet import open_parquet

_TABLES = ("records", "control_records")


@dataclass(frozen=True, slots=True)
class _File:
    """A Parquet file of `records` or `control_records`, and the offsets that it may hold."""

    table: str
    type: str
    path: str
    first_offset: float
    last_offset: float


@dataclass(slots=True)
class LakeRecords:
    """Records from a lake; `files` reads what the lake does not tell."""

    lake: Lake
    files: FileRecords
    _listed: list[_File] | None = None
    _contents: pa.Array | None = None
    _open: dict[str, pa.Table] = field(default_factory=dict)

    def windows(self, chain: Chain, first: int, after: int) -> Iterator[RecordWindow]:
        """See `quorum.record_windows.Records`."""
        while first < after:
            limit = chain.base[first] + self.files.window_records
            end = max(first + 1, int(np.searchsorted(chain.end[:after], limit, "right")))
            ids = id_texts(chain.ids[first:end])
            if self._holds(ids):
                yield self._window(chain, first, end, ids)
            else:
                yield from self.files.windows(chain, first, end)
            first = end
        self._open.clear()

    def tells(self, chain: Chain) -> bool:
        """Whether the lake tells all records of a history."""
        return self._holds(id_texts(chain.ids))

    def snapshot(self, view: SnapshotView) -> Iterator[RecordWindow]:
        """See `quorum.record_windows.Records`."""
        return self.files.snapshot(view)

    def _holds(self, ids: pa.Array) -> bool:
        """Whether the lake has decoded all of some batches: what had changed between two looks at
        a file was left out.
        """
        if self._contents is None:
            rows = self.lake.rows("contents", ["batch_id"])
            self._contents = rows.column("batch_id").combine_chunks()
        known = pc.is_in(ids, value_set=self._contents)
        return bool(pc.all(known, min_count=0).as_py())

    def _window(self, chain: Chain, first: int, after: int, ids: pa.Array) -> RecordWindow:
        start, end = int(chain.base[first]), int(chain.end[after - 1])
        found: dict[tuple[str, str], list[pa.Table]] = {}
        held = [one for one in self._files() if one.first_offset < end and one.last_offset >= start]
        for one in held:
            rows = rows_between(self._rows(one), start, end)
            rows = rows.filter(pc.is_in(rows.column("batch_id"), value_set=ids))
            if rows.num_rows:
                kept = rows.drop_columns(["batch_id"])
                found.setdefault((one.table, one.type), []).append(kept)
        self._open = {one.path: self._open[one.path] for one in held if one.last_offset >= end}
        tables = {key: _in_order(parts) for key, parts in found.items()}
        records, control = (
            {kind: rows for (held_in, kind), rows in tables.items() if held_in == table}
            for table in _TABLES
        )
        return RecordWindow(start, end, records, control)

    def _files(self) -> list[_File]:
        if self._listed is None:
            wanted = wanted_types()
            self._listed = [
                _File(table, values["type"], f"{folder}/{row['path']}", *offset_bounds(row))
                for table, folder in zip(_TABLES, map(self.lake.path, _TABLES), strict=True)
                for row, values in self.lake.files(table)
                if values["type"] in wanted
            ]
        return self._listed

    def _rows(self, file: _File) -> pa.Table:
        if file.path not in self._open:
            with open_parquet(file.path) as whole:
                names = ["batch_id", *window_columns(file.type, whole.schema_arrow.names)]
                rows = whole.read(columns=names)
            if "type" not in names:
                rows = rows.append_column("type", pa.repeat(pa.scalar(file.type), rows.num_rows))
            order = np.argsort(rows.column("offset").to_numpy(), kind="stable")
            self._open[file.path] = rows.take(pa.array(order))
        return self._open[file.path]


def _in_order(parts: list[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(parts, promote_options="default")
    offsets = rows.column("offset").to_numpy()
    if (offsets[1:] >= offsets[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(offsets, kind="stable")))
