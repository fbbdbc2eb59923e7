"""Which function of `simulate` and of `audit.restorable` fills which table of plans."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pyarrow.dataset as ds

from kraftlog.audit.lineages import MAIN
from kraftlog.audit.restorable import restorable
from kraftlog.pipeline.derive import Derived, Newest
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
from kraftlog.source.settings import limits_of
from kraftlog.tables.plans import (
    BOOT_PLAN,
    ELECTION_PLAN,
    FETCH_PLAN,
    REPLICA_SELECTION,
    RESTORABLE,
    SNAPSHOT_TRANSFER,
    TRUNCATION_PLAN,
)


def _truncations(newest: Newest) -> Iterator[dict[str, Any]]:
    """A map column takes pairs."""
    for row in truncation_rows(newest.quorum, limits_of(newest.options)):
        yield row | {"types_lost": list(row["types_lost"].items())}


def _selections(newest: Newest) -> Iterator[dict[str, Any]]:
    """Over the objects as the quorum's shared history leaves them, read from the lake's own
    tables."""
    names = dict(_current(newest, "topics", "topic_id", "name"))
    brokers = [Broker(*row) for row in _current(newest, "brokers", "broker_id", "rack", "fenced")]
    columns = ("topic_id", "partition_id", "partition_replicas", "isr", "leader")
    partitions = (
        Partition(names.get(topic_id, topic_id), *rest)
        for topic_id, *rest in _current(newest, "partitions", *columns)
    )
    cluster = Cluster({one.id: one for one in brokers}, partitions)
    return topic_rows(select_all(cluster, RackAwareReplicaSelector()))


def _current(newest: Newest, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a history table that still hold on the shared lineage."""
    holds = ds.field("is_current") & (ds.field("lineage") == MAIN)
    batches = newest.lake.dataset(table).to_batches(columns=list(columns), filter=holds)
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


PLANS: tuple[Derived, ...] = (
    Derived(TRUNCATION_PLAN, _truncations),
    Derived(FETCH_PLAN, lambda newest: fetch_rows(newest.quorum)),
    Derived(BOOT_PLAN, lambda newest: boot_rows(newest.quorum)),
    Derived(ELECTION_PLAN, lambda newest: election_rows(newest.quorum)),
    Derived(SNAPSHOT_TRANSFER, lambda newest: snapshot_transfer_rows(newest.quorum)),
    Derived(REPLICA_SELECTION, _selections),
    Derived(RESTORABLE, lambda newest: map(asdict, restorable(newest.quorum))),
)
