"""The evidence of a quorum from what was decoded of it before: no log is read again but for the few
batches that a check asks for.

In: replicas as `log.directory` finds them, and the rows of `batches`, `faults` and `contents`. Out:
the evidence that `collector` would gather from the files.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.log.batch import read_batches
from kraftlog.log.directory import LogFile
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.segment import Window
from kraftlog.quorum.collector import Collector, segment_of, snapshot_of
from kraftlog.quorum.columns import ColumnBuilder
from kraftlog.quorum.evidence import (
    UNREMARKABLE,
    BatchColumns,
    SegmentEvidence,
    SnapshotEvidence,
    ids_in,
    no_batches,
)

BATCH_COLUMNS = (
    "position", "size_bytes", "batch_id", "base_offset", "last_offset", "record_count", "crc_valid",
    "batch_leader_epoch", "attributes", "base_timestamp", "max_timestamp",
)  # fmt: skip
"""What is looked at of `batches`: half of the columns, and a third of what reading all would cost."""
_NEVER_MS = (1 << 63) - 1
"""Stands for a time that no timestamp column can hold."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the lake holds: the rows of `batches` (their BATCH_COLUMNS) and `faults` of a path, and
    of `contents` the ids of remarkable batches and the record types of some ids (as
    `detect.TYPE_COUNTS`).
    """

    batches_of: Callable[[str], pa.Table]
    faults_of: Callable[[str], list[Fault]]
    remarkable: pa.Array
    types_of: Callable[[pa.Array], pa.Array]


@dataclass
class RecordedCollector(Collector):
    """A collector that looks at rows instead of files."""

    recorded: Recorded = field(kw_only=True)

    def _segment(self, file: LogFile, builder: ColumnBuilder, index: int) -> SegmentEvidence:
        first = len(builder)
        rows = self.recorded.batches_of(file.path)
        faults = self._laid_out(file, index, builder, rows)
        return segment_of(file, first, len(builder), faults)

    def snapshot(self, file: LogFile) -> SnapshotEvidence:
        builder = ColumnBuilder()
        rows = self.recorded.batches_of(file.path)
        faults = self._laid_out(file, 0, builder, rows)
        valid = rows.filter(rows.column("crc_valid"))
        types = self.recorded.types_of(valid.column("batch_id").combine_chunks())
        positions = valid.column("position").to_pylist()
        held = zip(positions, types.to_pylist(), strict=True)
        return snapshot_of(file, builder, faults, held)

    def _laid_out(
        self, file: LogFile, index: int, builder: ColumnBuilder, rows: pa.Table
    ) -> list[Fault]:
        """Add a file's batches; its faults, each told with the batch before it in sight."""
        columns = self._columns(file.path, index, rows)
        known_bad = set(columns.positions[~columns.crc_valid].tolist())
        told, done = [], 0
        for fault in self.recorded.faults_of(file.path):
            if fault.kind == FaultKind.BATCH_CRC and fault.position in known_bad:
                continue  # the row of its batch says so
            before = int(np.searchsorted(columns.positions, fault.position))
            builder.extend(columns.between(done, before))
            done = max(done, before)
            told.append(builder.explained(file.path, index, fault))
        builder.extend(columns.between(done, len(columns)))
        return told

    def _columns(self, path: str, index: int, rows: pa.Table) -> BatchColumns:
        if rows.num_rows == 0:
            return no_batches()
        ids = rows.column("batch_id").combine_chunks()
        content = np.full(len(ids), UNREMARKABLE, np.int32)
        odd = pc.and_(pc.is_in(ids, value_set=self.recorded.remarkable), rows.column("crc_valid"))
        positions, sizes = _numbers(rows, "position"), _numbers(rows, "size_bytes")
        chosen = np.flatnonzero(odd.to_numpy())
        names = ids.take(chosen).to_pylist()
        places = zip(names, positions[chosen].tolist(), sizes[chosen].tolist(), strict=True)
        self._look_up(path, [one for one in places if one[0] not in self._known])
        content[chosen] = [self._known.get(one, UNREMARKABLE) for one in names]
        return BatchColumns(
            file=np.full(len(ids), index, np.int32),
            positions=positions,
            sizes=sizes,
            base_offsets=_numbers(rows, "base_offset"),
            last_offsets=_numbers(rows, "last_offset"),
            record_counts=_numbers(rows, "record_count").astype(np.int32),
            epochs=_numbers(rows, "batch_leader_epoch").astype(np.int32),
            attributes=_numbers(rows, "attributes").astype(np.int32),
            base_timestamps=_times_ms(rows, "base_timestamp"),
            max_timestamps=_times_ms(rows, "max_timestamp"),
            crc_valid=rows.column("crc_valid").to_numpy(),
            ids=ids_in(ids),
            content=content,
        )

    def _look_up(self, path: str, places: Sequence[tuple[str, int, int]]) -> None:
        """Look at batches of one file, given by id, position and size, in windows as long as those of
        files.
        """
        windows = np.cumsum([size for *_, size in places]) // self.limits.window_size_bytes
        for number in np.unique(windows).tolist():
            chosen = (places[one] for one in np.flatnonzero(windows == number).tolist())
            found = (self.batch_at(batch_id, (path, at, size)) for batch_id, at, size in chosen)
            raw = b"".join(batch for batch in found if batch is not None)
            held, key = len(raw), self.limits.id_key
            batches, _ = read_batches(raw, 0, held, 0, held, lambda *_: True, key)
            self._content_of(Window(0, raw, batches))


def fault_of(row: dict[str, Any]) -> Fault:
    """A row of `faults` as the fault that it was."""
    given = {name: row[name] for name in Fault._fields if name != "kind"}
    return Fault(kind=FaultKind(row["fault"]), **given)


def _numbers(rows: pa.Table, name: str) -> Any:
    return rows.column(name).to_numpy().astype(np.int64, copy=False)


def _times_ms(rows: pa.Table, name: str) -> Any:
    micros = rows.column(name).cast(pa.int64())
    return pc.fill_null(pc.divide(micros, 1000), _NEVER_MS).to_numpy()
