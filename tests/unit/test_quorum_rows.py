"""The rows of replicas and of their epochs in full, and what a snapshot shows of its ends."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.evidence import no_batches
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.replica_rows import epoch_rows, replica_rows
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.relations import moment
from kraftlog.report.view import offsets_behind
from tests.collecting import collect
from tests.unit.audit_logs import (
    CLUSTER,
    FOLDER,
    LIMITS,
    NO_PRODUCERS,
    START_MS,
    Node,
    disk_text,
    healthy_log,
    overwrite,
    quorum,
)


def quorum_of(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=False))


def test_a_replica(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes:
        # What a clean stop leaves: it proves where the log ended.
        (node.folder / f"{12:020d}.snapshot").write_bytes(NO_PRODUCERS)
        node.segment(6).with_suffix(".index").write_bytes(b"")
    assert replica_rows(quorum_of(tmp_path))[1] == {
        "replica": "2",
        "folder": str(tmp_path / "2" / FOLDER),
        "node_id": 2,
        "directory_id": disk_text(2),
        "cluster_id": CLUSTER,
        "role": "voter",
        "log_start_offset": 0,
        "log_end_offset": 12,
        "last_epoch": 2,
        "epochs": [[1, 0], [2, 8]],
        "epoch_count": 2,
        "epoch_checkpoint_count": 2,
        "epoch_checkpoint_pruned": True,
        "snapshots": [[6, 1]],
        "newest_timestamp": datetime(2023, 11, 14, 22, 13, 29, tzinfo=UTC),
        "snapshot_timestamp": datetime(2023, 11, 14, 22, 13, 23, tzinfo=UTC),
        "committed_lower": 12,
        "committed_upper": 12,
        "shown_end_offset": 12,
    }


def test_a_replica_without_a_log(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for base in (0, 6):
        nodes[2].segment(base).unlink()
    for name in ("leader-epoch-checkpoint", "quorum-state"):
        (nodes[2].folder / name).unlink()
    (nodes[2].home / "meta.properties").write_text("version=1\nnode.id=3\n")
    row = replica_rows(quorum_of(tmp_path))[2]
    assert (row["log_start_offset"], row["log_end_offset"], row["last_epoch"]) == (6, 6, None)
    assert (row["cluster_id"], row["directory_id"], row["epochs"]) == (None, None, [])
    assert (row["epoch_count"], row["epoch_checkpoint_count"]) == (0, None)
    assert row["epoch_checkpoint_pruned"] is None
    nodes[2].checkpoint(6, 1).unlink()
    row = replica_rows(quorum_of(tmp_path))[2]
    assert (row["log_start_offset"], row["log_end_offset"], row["snapshots"]) == (0, 0, [])


def test_a_log_that_cannot_be_read_ends_nowhere(tmp_path: Path) -> None:
    quorum(tmp_path)
    evidence = collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None), replay=False)
    first, *others = evidence.replicas
    unread = tuple(replace(one, problem="the disk fails") for one in first.segments)
    nothing = replace(first, segments=unread, log=no_batches())
    row, *rest = replica_rows(Quorum(replace(evidence, replicas=(nothing, *others))))
    assert (row["log_start_offset"], row["log_end_offset"], row["role"]) == (None, None, "voter")
    assert [one["log_end_offset"] for one in rest] == [12, 12]
    assert offsets_behind(row, [row, *rest]) is None
    assert [offsets_behind(one, [row, *rest]) for one in rest] == [0, 0]


def test_a_log_whose_last_segment_cannot_be_read_ends_nowhere(tmp_path: Path) -> None:
    node = quorum(tmp_path)[2]
    node.segment(12).mkdir()
    row = replica_rows(quorum_of(tmp_path))[2]
    assert (row["log_start_offset"], row["log_end_offset"], row["last_epoch"]) == (0, None, 2)


def test_an_epoch_file_that_was_not_cut_with_its_log(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    node.segment(0).unlink()
    node.quorum_state(leaderId=2, leaderEpoch=2, clusterId="by quorum-state")
    (node.home / "meta.properties").unlink()
    row = replica_rows(quorum_of(tmp_path))[0]
    assert row["epoch_checkpoint_pruned"] is False
    assert (row["log_start_offset"], row["cluster_id"]) == (6, "by quorum-state")
    node.epochs([(1, 6), (2, 8)])
    assert replica_rows(quorum_of(tmp_path))[0]["epoch_checkpoint_pruned"] is True


def test_whose_leader_change_is_gone_is_led_by_whom_others_and_quorum_states_name(
    tmp_path: Path,
) -> None:
    """Epoch 2 begins at offset 8; of the log that begins there amid it, nothing tells who leads."""
    nodes = [Node(tmp_path, one) for one in (1, 2, 3)]
    for node in nodes:
        node.write([one for one in healthy_log() if one.base > 8], 9)

    def told() -> list[tuple[str, int | None, bool]]:
        rows = epoch_rows(quorum_of(tmp_path))
        return [(one["replica"], one["leader_id"], one["has_leader_change"]) for one in rows]

    for node in nodes:
        node.quorum_state(leaderId=-1, leaderEpoch=2)
    assert told() == [("1", None, False), ("2", None, False), ("3", None, False)]
    nodes[0].quorum_state(leaderId=2, leaderEpoch=2)
    assert told() == [("1", 2, False), ("2", 2, False), ("3", 2, False)]
    nodes[0].quorum_state(leaderId=-1, leaderEpoch=2)
    Node(tmp_path, 4).write(healthy_log())
    assert told() == [
        ("1", 2, False), ("2", 2, False), ("3", 2, False), ("4", 1, True), ("4", 2, True),
    ]  # fmt: skip


def test_epochs(tmp_path: Path) -> None:
    Node(tmp_path, 1).write(healthy_log())
    sizes = [len(one.raw()) for one in healthy_log()]
    assert epoch_rows(quorum_of(tmp_path)) == [
        {
            "replica": "1", "batch_leader_epoch": epoch, "start_offset": start, "end_offset": end,
            "start_timestamp": moment(START_MS + 1000 * first), "batch_count": last - first,
            "size_bytes": sum(sizes[first:last]), "leader_id": epoch,
            "has_leader_change": True,
        }
        for epoch, start, end, first, last in ((1, 0, 8, 0, 6), (2, 8, 12, 6, 10))
    ]  # fmt: skip


def snapshot_of(root: Path) -> SnapshotView:
    (found,) = [one for one in quorum_of(root).every_snapshot if one.replica == "1"]
    return found


@pytest.mark.parametrize(
    ("place", "data", "header", "damaged"),
    [
        (None, b"", True, False),
        (70, b"\x55", False, True),  # the header's records
        (16, b"\x07", False, True),  # the header's magic: no batch begins there
        (83 + 70, b"\x55", True, False),  # the second batch's records
        (83 + 16, b"\x07", True, False),
    ],
)
def test_how_a_snapshot_begins(
    tmp_path: Path, place: int | None, data: bytes, header: bool, damaged: bool
) -> None:
    path = quorum(tmp_path)[0].checkpoint(6, 1)
    if place is not None:
        overwrite(path, place, data)
    found = snapshot_of(tmp_path)
    assert (found.starts_with_header, found.starts_damaged) == (header, damaged)
    assert not found.ends_damaged
    assert found.bytes_after_last_batch == 0


def test_how_a_snapshot_ends(tmp_path: Path) -> None:
    path = quorum(tmp_path)[0].checkpoint(6, 1)
    raw = path.read_bytes()
    path.write_bytes(raw + b"\xee" * 40)
    found = snapshot_of(tmp_path)
    assert (found.bytes_after_last_batch, found.ends_damaged) == (40, False)
    path.write_bytes(raw)
    overwrite(path, len(raw) - 3, b"\x55\x55")
    found = snapshot_of(tmp_path)
    assert (found.bytes_after_last_batch, found.ends_damaged) == (0, True)
    path.write_bytes(b"")
    found = snapshot_of(tmp_path)
    assert (found.starts_with_header, found.starts_damaged, found.ends_damaged) == (False,) * 3
