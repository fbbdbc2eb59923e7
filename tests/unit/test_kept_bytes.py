"""How many bytes a node may keep where nothing is set: all of them in Kafka 3.3, of which a node may be
below metadata.version 8, and 100 MiB from 3.4 on. Source: KIP-876; the defaults were asked of the jars.
And which nodes take no snapshots.
"""

import os
from pathlib import Path

import pytest

from tests.unit.audit_logs import NO_OP, START_MS, Batch, audit, found, quorum
from tests.unit.faults.cases import LOOKED, free, settings, two_snapshots
from tests.unit.faults.health import broker, level
from tests.unit.faults.table import everywhere


@pytest.mark.parametrize("number, is_limited", [(7, False), (8, True)])
def test_the_level_tells_whether_a_node_may_be_of_kafka_3_3(
    number: int, is_limited: bool, tmp_path: Path
) -> None:
    nodes = quorum(tmp_path)
    two_snapshots(nodes[0])
    os.truncate(nodes[0].checkpoint(6, 1), 180 << 20)
    everywhere(nodes, level(number), ms=LOOKED)
    free(0)(nodes)
    result = audit(tmp_path)
    assert bool(found(result, "retention_keeps_up")) == is_limited
    (full,) = found(result, "disk_has_room")
    assert ("before Kafka 3.4 no retention by size" not in full.row.message) == is_limited


@pytest.mark.parametrize("migrating", [True, False])
def test_a_broker_on_zookeeper_that_is_to_migrate_takes_no_snapshots(
    migrating: bool, tmp_path: Path
) -> None:
    """Kafka's KafkaServer has no loader of metadata (a real migration from 3.4.1): however long it
    waits, and however much is written meanwhile, none is missing.
    """
    nodes = quorum(tmp_path)
    records = [broker(1, 12, migrating=migrating), *[NO_OP] * 1500]
    for node in nodes:
        times = range(START_MS + 60_000, START_MS + 60_000 * 1502, 60_000)
        batches = zip(records, times, strict=True)
        node.append(*(Batch(12 + n, 2, (one,), None, ms) for n, (one, ms) in enumerate(batches)))
    settings(nodes[0], metadata_log_max_record_bytes_between_snapshots=1000)
    result = audit(tmp_path)
    told = {one.row.replica for one in found(result, "retention_keeps_up")}
    late = {one.row.replica for one in found(result, "snapshot_taken")}
    assert told == (set() if migrating else {"1"})
    assert late == ({"2", "3"} if migrating else {"1", "2", "3"})
