"""`PageData` of a lake's newest run: small tables whole, large ones counted in one pass.

In: a lake. Out: `PageData`. Columns are projected and batches are streamed, so that memory does not
grow with the log.
"""

from collections import Counter
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.relations import TIMESTAMP
from kraftlog.report.verdict import counted
from kraftlog.report.view import BrokerLoad, PageData, Row, TypeCount
from kraftlog.tables.lake import Lake

SLICES = 48
"""So many slices of time at most are counted apart."""

_SAMPLED = 1000
_LOG = ds.field("file_kind") == "log"


def page_of_lake(lake: Lake, docs_link: str | None) -> PageData:
    """What the lake's newest run found.

    Raises LakeError where the lake cannot be read."""
    run = lake.read("runs").sort_by("number").to_pylist()[-1]
    names = ("replicas", "epochs", "findings", "check_results", "snapshots", "contract_results")
    tables = {name: tuple(lake.rows_of_run(name, run["run_id"])) for name in names}
    loads, counts = broker_loads(lake), type_counts(lake)
    missing = {}
    if not loads:
        missing["loads"] = "The state holds no partition."
    if not counts:
        missing["types"] = "No log holds a record with a time."
    return PageData(
        version=run["kraftlog_version"],
        created=run["finished"],
        inputs=tuple(run["inputs"]),
        scale=_scale(run),
        replicas=tables["replicas"],
        epochs=tables["epochs"],
        findings=tables["findings"],
        checks=tables["check_results"],
        snapshots=tables["snapshots"],
        loads=loads,
        type_counts=counts,
        missing=missing,
        contracts=Counter(row["result"] for row in tables["contract_results"]),
        docs_link=docs_link,
    )


def _scale(run: Row) -> str:
    return (
        f"run {run['number']} of this lake: {counted(run['replica_count'], 'replica')}, "
        f"{counted(run['file_count'], 'file')}, {run['batch_count']:,} record batches read, "
        f"{run['new_batch_count']:,} of them new contents with {run['record_count']:,} records"
    )


def broker_loads(lake: Lake) -> tuple[BrokerLoad, ...]:
    """How many partitions each broker leads and follows in the newest state of `main`."""
    if not lake.exists("partitions"):
        return ()
    newest = (ds.field("lineage") == "main") & ds.field("is_current")
    scanner = lake.dataset("partitions").scanner(["partition_replicas", "leader"], filter=newest)
    holds: Counter[int] = Counter()
    leads: Counter[int] = Counter()
    for batch in scanner.to_batches():
        holds += _counted(pc.list_flatten(batch.column("partition_replicas")))
        leads += _counted(batch.column("leader"))
    return tuple(
        BrokerLoad(broker, leads[broker], max(0, holds[broker] - leads[broker]))
        for broker in sorted(holds)
    )


def _counted(values: pa.Array) -> Counter[Any]:
    return Counter({one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()})


def type_counts(lake: Lake) -> tuple[TypeCount, ...]:
    """Records of the logs by type and slice of time; records that only checkpoints hold do not
    count, as their times are those of the snapshot.
    """
    extent = _extent(lake)
    if extent is None:
        return ()
    low, high = extent
    width = max(1, -(-(high - low + 1) // SLICES))
    elsewhere = _checkpoint_ids(lake)
    scanner = lake.dataset("records").scanner(["type", "timestamp", "batch_id"])
    total: Counter[tuple[str, int]] = Counter()
    for batch in scanner.to_batches():
        total += _sliced(batch, elsewhere, low, high, width)
    return tuple(
        TypeCount(name, _moment(low + index * width), _moment(low + (index + 1) * width), count)
        for (name, index), count in sorted(total.items())
    )


def _extent(lake: Lake) -> tuple[int, int] | None:
    """First and last time (microseconds) of the batches in logs, without the stray thousandth at
    either end: a damaged clock must not squeeze all others into one slice.
    """
    wanted = _LOG & ds.field("crc_valid")
    scanner = lake.dataset("batches").scanner(["base_timestamp"], filter=wanted)
    known = pa.chunked_array(
        [_sample(batch.column(0).cast(pa.int64())) for batch in scanner.to_batches()], pa.int64()
    ).drop_null()
    if not len(known):
        return None
    low, first, last, high = pc.quantile(
        known, [0.0, 0.001, 0.999, 1.0], interpolation="nearest"
    ).to_pylist()
    inner = max(1, last - first)
    return (low if first - low <= inner else first), (high if high - last <= inner else last)


def _sample(values: pa.Array) -> pa.Array:
    """At most so many values, evenly spread, both ends among them."""
    if len(values) <= _SAMPLED:
        return values
    return values.take(pa.array(np.linspace(0, len(values) - 1, _SAMPLED).astype(np.int64)))


def _checkpoint_ids(lake: Lake) -> pa.Array:
    ids = lake.dataset("batches").to_table(["batch_id"], filter=~_LOG).column(0)
    return pc.unique(ids)


def _sliced(
    batch: pa.RecordBatch, elsewhere: pa.Array, low: int, high: int, width: int
) -> Counter[tuple[str, int]]:
    times = batch.column("timestamp").cast(TIMESTAMP).cast(pa.int64())
    wanted = pc.and_(pc.greater_equal(times, low), pc.less_equal(times, high))
    wanted = pc.and_(wanted, pc.invert(pc.is_in(batch.column("batch_id"), value_set=elsewhere)))
    index = pc.divide(pc.subtract(times, low), width)
    table = pa.table({"type": batch.column("type"), "slice": index}).filter(wanted)
    rows = table.group_by(["type", "slice"]).aggregate([([], "count_all")]).to_pylist()
    return Counter({(row["type"], row["slice"]): row["count_all"] for row in rows})


def _moment(microseconds: int) -> datetime:
    found: datetime = pa.scalar(microseconds, TIMESTAMP).as_py()
    return found
