"""Snapshots at the borders of transactions, epochs and logs: what is told of them, and what a start
makes of them.
"""

import struct
from pathlib import Path

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.committed import candidates
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.boot import Boot, boot
from kraftlog.simulate.disk import disk_of
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    TRANSACTION,
    Batch,
    Node,
    audit,
    found,
    healthy_state,
    overwrite,
    quorum,
    snapshot,
)
from tests.unit.faults.snapshots import begins_at, in_transaction
from tests.unit.faults.table import LATER

ALIGNED, AGREES = "snapshot_batch_aligned", "snapshot_epoch_agrees"


def _quorum(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None)))


def _boot(root: Path, label: str) -> Boot:
    one = _quorum(root)
    return boot(disk_of(one, one.by_label[label]))


def _starts_inside(node: Node) -> None:
    """Its log begins at the End, at offset 14, with a snapshot of its own."""
    kept = [Batch(14, 2, (TRANSACTION["end"],), None, LATER), Batch(15, 2, (NO_OP,), None, LATER)]
    for path in (node.segment(0), node.segment(6), node.checkpoint(6, 1)):
        path.unlink()
    node.segment(14).write_bytes(b"".join(one.raw() for one in kept))
    node.checkpoint(14, 2).write_bytes(snapshot(healthy_state(), 2, LATER))
    node.epochs([(2, 14)])


def test_an_end_without_its_begin_is_the_snapshots_fault_where_another_log_has_it(
    tmp_path: Path,
) -> None:
    nodes = quorum(tmp_path)
    in_transaction(15, TRANSACTION["end"], NO_OP)(nodes)
    nodes[2].checkpoint(15, 2).unlink()
    _starts_inside(nodes[2])
    result = audit(tmp_path)
    assert not found(result, "transactions_well_formed")
    assert [one.row.replica for one in found(result, ALIGNED)] == ["3"]
    started = _boot(tmp_path, "3")
    assert not started.boots
    assert "offset 14: it ends a metadata transaction" in str(started.reason)
    assert _boot(tmp_path, "1").boots


@pytest.mark.parametrize("end, boots", [(12, True), (13, False), (14, False), (15, True)])
def test_a_controller_stops_at_the_end_of_a_transaction_that_it_never_saw_begin(
    tmp_path: Path, end: int, boots: bool
) -> None:
    nodes = quorum(tmp_path)
    in_transaction(end, TRANSACTION["abort"])(nodes)
    assert _boot(tmp_path, "3").boots is boots
    nodes[2].meta(node_id=9)  # a broker goes on, without the records
    assert _boot(tmp_path, "3").boots


@pytest.mark.parametrize("is_one_batch", [False, True])
def test_no_snapshot_inside_the_same_is_named_in_its_place(
    tmp_path: Path, *, is_one_batch: bool
) -> None:
    nodes = quorum(tmp_path)
    if is_one_batch:
        for node in nodes:
            node.append(Batch(12, 2, (NO_OP, NO_OP, NO_OP), None, LATER))
    else:
        in_transaction(13, TRANSACTION["end"])(nodes)
    for end in (13, 14):
        nodes[2].checkpoint(end, 2).write_bytes(snapshot(healthy_state(), 2, LATER))
    told = [one.row.message for one in found(audit(tmp_path), ALIGNED)]
    own = nodes[2].checkpoint(6, 1).name
    assert [own in one for one in told] == [True, True]


def test_a_transaction_that_only_a_tail_ends_is_open_where_the_tail_begins(tmp_path: Path) -> None:
    """Its own log tells nothing of a snapshot behind that: the quorum aborted it there."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(Batch(12, 2, (TRANSACTION["begin"],), None, LATER))
    nodes[0].append(Batch(13, 2, (NO_OP,), None, LATER), Batch(14, 2, (NO_OP,), None, LATER))
    for node in nodes[1:]:
        node.append(Batch(13, 3, (TRANSACTION["abort"],), None, LATER))
        node.append(Batch(14, 3, (NO_OP,), None, LATER))
    nodes[1].checkpoint(14, 3).write_bytes(snapshot(healthy_state(), 3, LATER))
    assert not found(audit(tmp_path), ALIGNED)


def test_what_kafka_deletes_first_neither_stands_for_election_nor_drops_a_log(
    tmp_path: Path,
) -> None:
    nodes = quorum(tmp_path)
    begins_at(10, (4, 3), usual=(10, 2))(nodes)
    result = audit(tmp_path)
    assert not [one for one in result.findings if one.severity == "critical"]
    assert not found(result, "snapshot_ahead_of_log")
    assert all(one.lacks_from is None for one in candidates(_quorum(tmp_path)))


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_first_batch_whose_epoch_fits_no_other_tells_nothing_of_a_snapshot(
    tmp_path: Path, epoch: int
) -> None:
    nodes = quorum(tmp_path)
    begins_at(10, usual=(10, 2))(nodes)
    for node in nodes:
        overwrite(node.segment(10), 12, struct.pack(">i", epoch))
    assert not found(audit(tmp_path), AGREES)


@pytest.mark.parametrize(("noted", "count"), [(1, 0), (0, 3)])
def test_a_first_batch_tells_nothing_of_a_snapshot_where_its_epoch_checkpoint_has_another_epoch(
    tmp_path: Path, noted: int, count: int
) -> None:
    """Offset 7 is of epoch 1, and epoch 2 begins behind it: the header of one copy says epoch 0."""
    nodes = quorum(tmp_path)
    begins_at(7, usual=(7, 1))(nodes)
    overwrite(nodes[2].segment(7), 12, struct.pack(">i", 0))
    for node in nodes:
        node.epochs([(noted if node is nodes[2] else 1, 7), (2, 8)])
    assert len(found(audit(tmp_path), AGREES)) == count


def test_copies_without_any_snapshot_are_audited(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        node.checkpoint(6, 1).unlink()
    assert not found(audit(tmp_path), ALIGNED)
