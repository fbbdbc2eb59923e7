"""One pass over the records of a lake, for all measures that are taken from single records.

In: a lake, the batches that count, the events of the log, what is known. Out: totals, the offset
map of a compaction, the partition changes around each event. Driver side: threads read and measure
portions of files, the caller's thread puts them together. Memory is that of AHEAD portions, and
what the results hold.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kraftlog.decode.tabular import repeated_text
from kraftlog.metrics.amplification import Bursts
from kraftlog.metrics.compaction import KEYS, OffsetMap
from kraftlog.metrics.record_totals import (
    LOG,
    READS,
    SNAPSHOT,
    frame_sizes,
    in_batches,
    merged_totals,
    totals_of,
)
from kraftlog.quorum.evidence import Longs
from kraftlog.relations import Row
from kraftlog.tables.lake import Lake, offset_bounds
from kraftlog.tables.parquet import open_parquet

THREADS = 2
AHEAD = 3
"""Portions that are measured, or wait for the caller, at a time."""
_PORTION_ROWS = 1 << 19
"""Row groups of one file are read together up to so many rows: small ones cost more each."""
_TOTALS_ROWS = 1 << 16
"""So many totals of portions are gathered before they are merged."""
CHANGES = "changes"
_CHANGE = "PARTITION_CHANGE_RECORD"


@dataclass(frozen=True, slots=True)
class Scanned:
    """What the pass finds."""

    totals: pa.Table
    offsets: OffsetMap
    bursts: Bursts


@dataclass(frozen=True, slots=True)
class Wanted:
    """Batches whose records are asked for, by what for: LOG and SNAPSHOT, for which they count, and
    CHANGES, of which the partition changes are asked for. Their ids, and between which offsets
    their records lie (both inclusive).
    """

    ids: Mapping[str, Set[str]]
    offsets: Mapping[str, tuple[float, float]]

    def may_be_in(self, file: Row, record_type: str) -> bool:
        """Whether a file of records may hold some of them, by what Delta says of it."""
        least, most = offset_bounds(file)
        return any(
            first <= most and least <= last
            for name, (first, last) in self.offsets.items()
            if self.ids[name] and (name != CHANGES or record_type == _CHANGE)
        )


@dataclass(frozen=True, slots=True)
class _Portion:
    """Row groups of a file that holds records of one type."""

    path: str
    record_type: str
    groups: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Part:
    """One portion, measured: totals of all its records, those of the log with their sizes, and
    partition changes with theirs.
    """

    record_type: str
    totals: pa.Table
    rows: pa.RecordBatch
    sizes: Longs
    changes: tuple[Longs, Longs]


def scan_records(
    lake: Lake, wanted: Wanted, bursts: Bursts, known: pa.Table, offsets: OffsetMap
) -> Scanned:
    """Read every record that is wanted once. `known` are totals of other records, which `offsets`
    and `bursts` have been fed with.
    """
    totals = [known]
    for part in _measured_ahead(_portions(lake, wanted), lambda one: _measured(one, wanted)):
        totals.append(part.totals)
        if sum(one.num_rows for one in totals) > _TOTALS_ROWS:
            totals = [merged_totals(totals)]
        if part.record_type in KEYS:
            offsets.add(part.record_type, part.rows, part.sizes)
        if part.record_type == _CHANGE:
            bursts.add(*part.changes)
    return Scanned(merged_totals(totals), offsets, bursts)


def _portions(lake: Lake, wanted: Wanted) -> Iterator[_Portion]:
    for table in ("records", "control_records"):
        for file, values in lake.files(table):
            if wanted.may_be_in(file, values["type"]):
                path = f"{lake.path(table)}/{file['path']}"
                for groups in _groups(path):
                    yield _Portion(path, values["type"], groups)


def _groups(path: str) -> Iterator[Sequence[int]]:
    """The numbers of a file's row groups, those together that are read together."""
    with open_parquet(path) as file:
        metadata = file.metadata
    together: list[int] = []
    count = 0
    for number in range(metadata.num_row_groups):
        together.append(number)
        count += metadata.row_group(number).num_rows
        if count >= _PORTION_ROWS:
            yield together
            together, count = [], 0
    if together:
        yield together


def _measured_ahead(
    portions: Iterable[_Portion], work: Callable[[_Portion], _Part]
) -> Iterator[_Part]:
    """Work on a few portions at a time; in their order."""
    waiting: deque[Future[_Part]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for one in portions:
            waiting.append(pool.submit(work, one))
            if len(waiting) >= AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _measured(portion: _Portion, wanted: Wanted) -> _Part:
    rows = _read(portion)
    sizes = frame_sizes(rows)
    held = {source: in_batches(rows, wanted.ids[source]) for source in (LOG, SNAPSHOT)}
    totals, kept = totals_of(rows.select(list(READS)), sizes, held), held[LOG]
    changes = np.empty(0, np.int64), np.empty(0, np.int64)
    if portion.record_type == _CHANGE:
        counted = in_batches(rows, wanted.ids[CHANGES])
        changes = rows.column("offset").to_numpy()[counted], sizes[counted]
    if not kept.all():
        rows, sizes = rows.filter(pa.array(kept)), sizes[kept]
    named = {"offset", "timestamp", portion.record_type.lower()}
    rows = rows.select([*named & {*rows.schema.names}])
    return _Part(portion.record_type, totals, rows, sizes, changes)


def _read(portion: _Portion) -> pa.RecordBatch:
    """One portion: what totals need, and the fields of the key. Ids that many rows share stay
    dictionaries.
    """
    kind = portion.record_type
    fields = [f"{kind.lower()}.{name}" for name in KEYS[kind].columns] if kind in KEYS else []
    columns = [*(name for name in READS if name != "type"), "offset", *fields]
    repeated = ["batch_id", *(one for one in fields if one.endswith(".topic_id"))]
    with open_parquet(portion.path, repeated) as file:
        # Arrow cannot read dictionaries inside of structs from several row groups at once.
        groups = [
            file.read_row_group(at, columns=columns, use_threads=False) for at in portion.groups
        ]
    table = pa.concat_tables(groups)
    table = table.append_column("type", repeated_text(kind, table.num_rows))
    nothing = pa.RecordBatch.from_pylist([], schema=table.schema)
    (rows,) = table.combine_chunks().to_batches() or [nothing]
    return rows
