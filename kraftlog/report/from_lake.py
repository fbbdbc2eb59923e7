"""`PageData` of a lake's newest run: small tables whole, large ones counted.

In: a lake. Out: `PageData`. Columns are projected and batches are streamed, so that memory does not
grow with the records of the log (records by type and time are counted over a row per record batch).

A batch whose records all have its own time is counted by what `contents` says of its types; only what
is remarkable is counted record by record. Why that is
exact: `contents.remarkable` is true for every batch with a timestamp delta other than 0, or with a
record that cannot be read (`quorum.detect`). In any other batch each record has the batch's time: the
base timestamp, or with log-append time the largest, as it is decoded. What a header says of its
largest timestamp is otherwise not believed.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.log.batch import LOG_APPEND_TIME
from kraftlog.plain import counted
from kraftlog.relations import TIMESTAMP, Row
from kraftlog.report.judgement import judged_in
from kraftlog.report.view import BrokerLoad, PageData, TypeCount
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import open_parquet

SLICES = 48
"""So many slices of time at most are counted apart."""

_SAMPLED = 1000
_LOG = ds.field("file_kind") == "log"


def page_of_lake(lake: Lake) -> PageData:
    """What the lake's newest run found.

    Raises LakeError where the lake cannot be read."""
    run = lake.rows("runs").sort_by("number").to_pylist()[-1]
    names = ("replicas", "epochs", "snapshots", "contract_results")
    tables = {name: tuple(lake.rows_of_run(name, run["run_id"])) for name in names}
    held = f"{counted(run['replica_count'], 'replica')}, {counted(run['file_count'], 'file')}"
    return PageData(
        **vars(judged_in(lake, run["run_id"])),
        version=run["kraftlog_version"],
        created=run["finished"],
        inputs=tuple(run["inputs"]),
        scale=f"run {run['number']} of this lake: {held}, {batches_read(run)}{_rot(run)}",
        replicas=tables["replicas"],
        epochs=tables["epochs"],
        snapshots=tables["snapshots"],
        loads=broker_loads(lake),
        type_counts=counts_by_type(lake),
        contracts=tables["contract_results"],
    )


def _rot(run: Row) -> str:
    """How many files had changed in silence, where there are any."""
    count = run["changed_in_place_count"]
    what = "had changed under the same size and time: a disk or a copy is at fault"
    return f"; {counted(count, 'file')} {what}" if count else ""


def batches_read(run: Row) -> str:
    """How many record batches a run has read, and how much of them was new."""
    new = f"{run['new_batch_count']:,} of them new, with {counted(run['record_count'], 'record')}"
    return f"{run['batch_count']:,} record batches read, {new}"


def broker_loads(lake: Lake) -> tuple[BrokerLoad, ...]:
    """How many partitions each broker leads, follows, and holds without a leader, in the newest
    state of `main`.
    """
    if not lake.exists("partitions"):
        return ()
    newest = (ds.field("lineage") == "main") & ds.field("is_current")
    scanner = lake.dataset("partitions").scanner(["partition_replicas", "leader"], filter=newest)
    holds: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    without: Counter[int] = Counter()
    for batch in scanner.to_batches():
        holds += _counted(pc.list_flatten(batch.column("partition_replicas")))
        leads += _counted(batch.column("leader"))
        alone = batch.filter(pc.less(batch.column("leader"), 0))
        without += _counted(pc.list_flatten(alone.column("partition_replicas")))
    return tuple(
        BrokerLoad(
            broker,
            leads[broker],
            max(0, holds[broker] - leads[broker] - without[broker]),
            without[broker],
        )
        for broker in sorted(holds)
    )


def _counted(values: pa.Array) -> Counter[Any]:
    return Counter({one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()})


@dataclass(frozen=True, slots=True)
class _Axis:
    """Times (microseconds), both ends included, cut into slices."""

    low: int
    high: int

    @property
    def width(self) -> int:
        return max(1, -(-(self.high - self.low + 1) // SLICES))

    def counted(self, rows: pa.Table) -> Counter[tuple[str, int]]:
        """`rows` by `type` and slice of their `timestamp`; those beyond the ends are left out."""
        times = rows.column("timestamp").cast(TIMESTAMP).cast(pa.int64())
        inside = pc.and_(pc.greater_equal(times, self.low), pc.less_equal(times, self.high))
        index = pc.divide(pc.subtract(times, self.low), self.width)
        held = rows.append_column("slice", index).filter(inside)
        sums = held.group_by(["type", "slice"]).aggregate([("rows", "sum")]).to_pylist()
        return Counter({(one["type"], one["slice"]): one["rows_sum"] for one in sums})

    def start_of(self, index: int) -> datetime:
        found: datetime = pa.scalar(self.low + index * self.width, TIMESTAMP).as_py()
        return found


def counts_by_type(lake: Lake) -> tuple[TypeCount, ...]:
    """Records of the logs by type and slice of time. What no log at hand holds does not count: it may
    have been a snapshot's that is gone by now, and nothing says so.
    """
    batches = lake.dataset("batches")
    axis = _axis(batches)
    if axis is None:
        return ()
    contents = _contents(lake, batches)
    alike = pc.invert(contents.column("remarkable"))
    total = axis.counted(_by_type(contents.filter(alike)))
    for rows in _records(lake, contents.filter(pc.invert(alike))):
        total += axis.counted(rows)
    return tuple(
        TypeCount(name, axis.start_of(index), axis.start_of(index + 1), count)
        for (name, index), count in sorted(total.items())
    )


def _axis(batches: ds.Dataset) -> _Axis | None:
    """First and last time of the batches in logs, without the stray thousandth at either end: a
    damaged clock must not squeeze all others into one slice.
    """
    wanted = _LOG & ds.field("crc_valid")
    scanner = batches.scanner(["base_timestamp"], filter=wanted)
    known = pa.chunked_array(
        [_sample(batch.column(0).cast(pa.int64())) for batch in scanner.to_batches()], pa.int64()
    ).drop_null()
    if not len(known):
        return None
    low, first, last, high = pc.quantile(
        known, [0.0, 0.001, 0.999, 1.0], interpolation="nearest"
    ).to_pylist()
    inner = max(1, last - first)
    return _Axis(low if first - low <= inner else first, high if high - last <= inner else last)


def _sample(values: pa.Array) -> pa.Array:
    """At most so many values, evenly spread, both ends among them."""
    if len(values) <= _SAMPLED:
        return values
    return values.take(pa.array(np.linspace(0, len(values) - 1, _SAMPLED).astype(np.int64)))


def _contents(lake: Lake, batches: ds.Dataset) -> pa.Table:
    """The contents of batches in logs: their types, and their time."""
    contents = lake.rows("contents", ["batch_id", "remarkable", "record_types"])
    names = ["batch_id", "attributes", "base_timestamp", "max_timestamp"]
    told = batches.to_table(names, filter=_LOG)
    places = pc.index_in(contents.column("batch_id"), told.column("batch_id"))
    contents = contents.filter(pc.is_valid(places))
    stamped = pc.not_equal(pc.bit_wise_and(told.column("attributes"), LOG_APPEND_TIME), 0)
    times = pc.if_else(stamped, told.column("max_timestamp"), told.column("base_timestamp"))
    return contents.append_column("timestamp", times.take(places.drop_null()))


def _by_type(contents: pa.Table) -> pa.Table:
    """A row per content and type: how many `rows` of it there are, and their time."""
    types = contents.column("record_types")
    cells, parents = pc.list_flatten(types), pc.list_parent_indices(types)
    return pa.table(
        {
            "type": pc.struct_field(cells, "type"),
            "rows": pc.struct_field(cells, "record_count").cast(pa.int64()),
            "timestamp": contents.column("timestamp").take(parents),
        }
    )


def _records(lake: Lake, contents: pa.Table) -> Iterator[pa.Table]:
    """The records of some contents, file by file; only files of their types are read."""
    ids = contents.column("batch_id")
    types = {*pc.struct_field(pc.list_flatten(contents.column("record_types")), "type").to_pylist()}
    tables = [one for one in ("records", "control_records") if types and lake.exists(one)]
    for table, (file, values) in ((one, each) for one in tables for each in lake.files(one)):
        if values["type"] not in types:
            continue
        with open_parquet(f"{lake.path(table)}/{file['path']}") as source:
            rows = source.read(columns=["timestamp", "batch_id"])
        rows = rows.filter(pc.is_in(rows.column("batch_id"), ids))
        rows = rows.append_column("type", pa.repeat(values["type"], rows.num_rows))
        yield rows.append_column("rows", pa.repeat(1, rows.num_rows))
