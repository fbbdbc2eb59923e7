"""Which function of `simulate` and of `quorum.restorable` fills which table of plans."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kraftlog.pipeline.derive import Derived
from kraftlog.pipeline.evidence import record_types_of
from kraftlog.pipeline.run import Run
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.lineages import MAIN
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.restorable import restorable
from kraftlog.simulate.lost import TypeCounts
from kraftlog.simulate.replica_selection import (
    Broker,
    Cluster,
    Partition,
    select_all,
    topic_rows,
)
from kraftlog.simulate.rows import boot_rows, election_rows, fetch_rows, truncation_rows
from kraftlog.simulate.selectors import RackAwareReplicaSelector
from kraftlog.simulate.transfer_rows import snapshot_transfer_rows
from kraftlog.tables.lake import Lake
from kraftlog.tables.plans import (
    BOOT_PLAN,
    ELECTION_PLAN,
    FETCH_PLAN,
    REPLICA_SELECTION,
    RESTORABLE,
    SNAPSHOT_TRANSFER,
    TRUNCATION_PLAN,
)


def _truncations(run: Run) -> Iterator[dict[str, Any]]:
    """A map column takes pairs."""
    for row in truncation_rows(run.quorum, _counted_in_lake(run)):
        yield row | {"types_lost": list(row["types_lost"].items())}


def _counted_in_lake(run: Run) -> TypeCounts:
    """The lake knows what each batch holds: half a log may be lost, and need not be read for it."""
    contents = run.lake.dataset("contents")

    def counts(log: LogView, rows: Longs) -> dict[str, int]:
        columns = log.evidence.log
        readable = rows[columns.crc_valid[rows]].tolist()
        ids = pa.array([columns.id_text(row) for row in readable], pa.string())
        held = pc.list_flatten(record_types_of(contents, ids))
        counted = pa.Table.from_struct_array(held).group_by("type")
        found = counted.aggregate([("record_count", "sum")])
        return {row["type"]: row["record_count_sum"] for row in found.to_pylist()}

    return counts


def _selections(run: Run) -> Iterator[dict[str, Any]]:
    return topic_rows(select_all(cluster_in(run.lake), RackAwareReplicaSelector()))


def cluster_in(lake: Lake) -> Cluster:
    """The objects as the quorum's shared history leaves them, read from the lake's own tables."""
    names = dict(_current(lake, "topics", "topic_id", "name"))
    brokers = [Broker(*row) for row in _current(lake, "brokers", "broker_id", "rack", "fenced")]
    columns = ("topic_id", "partition_id", "partition_replicas", "isr", "leader")
    partitions = (
        Partition(names.get(topic_id, topic_id), *rest)
        for topic_id, *rest in _current(lake, "partitions", *columns)
    )
    return Cluster({one.id: one for one in brokers}, partitions)


def _current(lake: Lake, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a history table that still hold on the shared lineage."""
    holds = ds.field("is_current") & (ds.field("lineage") == MAIN)
    for batch in lake.dataset(table).to_batches(columns=list(columns), filter=holds):
        yield from zip(*map(_values, batch.columns), strict=True)


def _values(column: pa.Array) -> Sequence[Any]:
    """A column's values; numbers and lists of numbers by way of NumPy, in a tenth of the time, and
    lists as tuples, which Python's garbage collector does not look at again and again.
    """
    if pa.types.is_integer(column.type) and not column.null_count:
        return tuple(column.to_numpy().tolist())
    if pa.types.is_list(column.type) and not column.null_count:
        values, cuts = _values(column.values), column.offsets.to_numpy().tolist()
        return [values[start:end] for start, end in pairwise(cuts)]
    found: list[Any] = column.to_pylist()
    return found


PLANS: tuple[Derived[Run], ...] = (
    Derived(TRUNCATION_PLAN, _truncations),
    Derived(FETCH_PLAN, lambda run: fetch_rows(run.quorum)),
    Derived(BOOT_PLAN, lambda run: boot_rows(run.quorum)),
    Derived(ELECTION_PLAN, lambda run: election_rows(run.quorum)),
    Derived(SNAPSHOT_TRANSFER, lambda run: snapshot_transfer_rows(run.quorum)),
    Derived(REPLICA_SELECTION, _selections),
    Derived(RESTORABLE, lambda run: map(asdict, restorable(run.quorum))),
)
