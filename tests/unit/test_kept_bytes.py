"""How many bytes a node may keep where nothing is set: all of them in Kafka 3.3, of which a node may be
below metadata.version 8, and 100 MiB from 3.4 on. Source: KIP-876; the defaults were asked of the jars.
"""

import os
from pathlib import Path

import pytest

from tests.unit.audit_logs import audit, found, quorum
from tests.unit.faults.cases import LOOKED, free, two_snapshots
from tests.unit.faults.health import level
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
