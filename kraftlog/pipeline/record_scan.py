"""One pass over the records of a lake, for all measures that are taken from single records.

In: a lake, the ids of the batches that count, the events of the log. Out: totals, the offset map of
a compaction, the partition changes around each event. Driver side: threads read and measure row
groups, the caller's thread puts them together. Memory is that of AHEAD row groups, and what the
results hold.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from kraftlog.audit.evidence import Longs
from kraftlog.metrics.amplification import Bursts
from kraftlog.metrics.compaction import KEYS, OffsetMap
from kraftlog.metrics.record_totals import (
    LOG,
    READS,
    frame_sizes,
    in_batches,
    merged,
    totals_of,
)
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import filesystem_of

THREADS = 2
AHEAD = 3
"""Row groups that are measured, or wait for the caller, at a time."""
_CHANGE = "PARTITION_CHANGE_RECORD"


@dataclass(frozen=True, slots=True)
class Scanned:
    """What the pass finds."""

    totals: pa.Table
    offsets: OffsetMap
    bursts: Bursts


@dataclass(frozen=True, slots=True)
class _Group:
    """One row group of a file that holds records of one type."""

    path: str
    record_type: str
    number: int


@dataclass(frozen=True, slots=True)
class _Part:
    """One row group, measured: totals of all its records, and those of the log with their sizes."""

    record_type: str
    totals: pa.Table
    rows: pa.RecordBatch
    sizes: Longs


def scan_records(lake: Lake, wanted: Mapping[str, Set[str]], bursts: Bursts) -> Scanned:
    """Read every record once. `wanted` has the ids of the batches of the log, and of snapshots."""
    totals, offsets = [], OffsetMap()
    for part in _measured_ahead(_groups(lake), lambda one: _measured(one, wanted)):
        totals.append(part.totals)
        if part.record_type in KEYS:
            offsets.add(part.record_type, part.rows, part.sizes)
        if part.record_type == _CHANGE:
            bursts.add(part.rows.column("offset").to_numpy(), part.sizes)
    return Scanned(merged(totals), offsets, bursts)


def _groups(lake: Lake) -> Iterator[_Group]:
    for table in ("records", "control_records"):
        for file, values in lake.files(table):
            path = f"{lake.path(table)}/{file['path']}"
            filesystem, inner = filesystem_of(path)
            with filesystem.open_input_file(inner) as source:
                count = pq.read_metadata(source).num_row_groups
            for number in range(count):
                yield _Group(path, values["type"], number)


def _measured_ahead(groups: Iterable[_Group], work: Callable[[_Group], _Part]) -> Iterator[_Part]:
    """Work on a few groups at a time; in their order."""
    waiting: deque[Future[_Part]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for one in groups:
            waiting.append(pool.submit(work, one))
            if len(waiting) >= AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _measured(group: _Group, wanted: Mapping[str, Set[str]]) -> _Part:
    rows = _read(group)
    sizes = frame_sizes(rows)
    held = {source: in_batches(rows, ids) for source, ids in wanted.items()}
    totals, kept = totals_of(rows.select(list(READS)), sizes, held), held[LOG]
    if not kept.all():
        rows, sizes = rows.filter(pa.array(kept)), sizes[kept]
    named = {"offset", "timestamp", group.record_type.lower()}
    return _Part(group.record_type, totals, rows.select([*named & {*rows.schema.names}]), sizes)


def _read(group: _Group) -> pa.RecordBatch:
    """One row group: what totals need, and the fields of the key. Ids that many rows share stay
    dictionaries.
    """
    kind = group.record_type
    fields = [f"{kind.lower()}.{name}" for name in KEYS[kind].columns] if kind in KEYS else []
    columns = [*(name for name in READS if name != "type"), "offset", *fields]
    repeated = ["batch_id", *(one for one in fields if one.endswith(".topic_id"))]
    filesystem, inner = filesystem_of(group.path)
    file = pq.ParquetFile(inner, filesystem=filesystem, read_dictionary=repeated)
    with file:
        table = file.read_row_group(group.number, columns=columns, use_threads=False)
    table = table.append_column("type", _constant(kind, table.num_rows))
    (rows,) = table.combine_chunks().to_batches() or [_no_rows(table.schema)]
    return rows


def _constant(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int8()), count), [text])


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in schema], schema=schema)
