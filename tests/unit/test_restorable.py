"""Which states can be rebuilt, and from whose files: small quorums with figures, and the golden
ones, where it must be what each replica's own files really give.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.restorable import Restorable, lost_everywhere, restorable
from kraftlog.recover.recovery_plan import unknown
from kraftlog.recover.source import recovered
from kraftlog.simulate.plan_rows import Plans
from tests.collecting import collect
from tests.golden.cases import CASES, DATA, Replica
from tests.images import built
from tests.log_coverage import scan
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    Node,
    begun_apart,
    healthy_log,
    leader_change,
    quorum,
    snapshot,
)
from tests.unit.test_directory import as_nobody

CLEAR = Redactor(None)
LATER = START_MS + 60_000
Told = list[tuple[int, int, str | None, bool | None, str | None]]


def quorum_of(root: Path) -> Quorum:
    replicas = find_replicas([str(root)])
    return Quorum(collect(replicas, Limits(), Redactor(b"k" * 32), replay=False))


def told(found: Quorum, label: str) -> Told:
    """(start, end, source, same history, missing) of one replica."""
    return [
        (one.start_offset, one.end_offset, one.source, one.same_history, one.missing)
        for one in restorable(found)
        if one.replica == label
    ]


def names(one: Restorable) -> tuple[str | None, list[str]]:
    """The files of a source, without their folders."""
    path = Path(one.snapshot_path).name if one.snapshot_path else None
    return path, [Path(segment).name for segment in one.segment_paths]


def segment(base: int) -> str:
    return f"{base:020d}.log"


def test_whole_replicas_need_nobody(tmp_path: Path) -> None:
    quorum(tmp_path)
    found = quorum_of(tmp_path)
    assert [(one.replica, names(one)) for one in restorable(found)] == [
        (label, (None, [segment(0), segment(6)])) for label in "123"
    ]
    assert told(found, "2") == [(0, 12, "2", True, None)]
    assert lost_everywhere(found) == []


def test_a_pruned_log_and_whose_files_hold_its_beginning(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    found = quorum_of(tmp_path)
    assert told(found, "1") == [
        (0, 5, "2", True, "no_base"),
        (0, 5, "3", True, "no_base"),
        (6, 12, "1", True, None),
    ]
    lost, _, own = [one for one in restorable(found) if one.replica == "1"]
    assert names(lost) == (None, [segment(0)])
    assert names(own) == (f"{6:020d}-{1:010d}.checkpoint", [segment(6)])
    assert Path(lost.segment_paths[0]).is_relative_to(nodes[1].home)


def test_what_nobody_holds_is_named(tmp_path: Path) -> None:
    for node in quorum(tmp_path):
        node.segment(0).unlink()
    found = quorum_of(tmp_path)
    assert lost_everywhere(found) == [(0, 5)]
    assert told(found, "3") == [(0, 5, None, None, "no_base"), (6, 12, "3", True, None)]


def test_what_only_several_logs_give_together(tmp_path: Path) -> None:
    """Each log is damaged in another place: every record can be read somewhere."""
    nodes = quorum(tmp_path)
    for node, base in zip(nodes, (3, 7, 10), strict=True):
        node.write([one for one in healthy_log() if one.base != base])
        node.checkpoint(6, 1).unlink()
    found = quorum_of(tmp_path)
    assert lost_everywhere(found) == []
    assert told(found, "3") == [(0, 10, "3", True, None), (11, 12, "1 + 2", True, "hole")]
    assert told(found, "1")[-1] == (11, 12, "1 + 2", True, "hole")
    last = restorable(found)[-1]
    paths = [Path(one).relative_to(tmp_path).parts for one in last.segment_paths]
    assert [(node, name) for node, _, name in paths] == [
        ("1", segment(0)), ("2", segment(0)), ("1", segment(6)),
    ]  # fmt: skip


def test_logs_that_share_no_record_where_they_meet_are_not_put_together(tmp_path: Path) -> None:
    """Nothing says that what the second one begins with follows what the first one ends with."""
    nodes = quorum(tmp_path)
    nodes[0].write([one for one in healthy_log() if one.base < 7])
    for base in (0, 6):
        nodes[1].segment(base).unlink()
    nodes[1].write([one for one in healthy_log() if one.base >= 7])
    for node in nodes:
        node.checkpoint(6, 1).unlink()
    shutil.rmtree(nodes[2].home)
    found = quorum_of(tmp_path)
    assert lost_everywhere(found) == [(8, 12)]
    assert [one for one in told(found, "2") if one[0] > 7] == [(8, 12, None, None, "no_base")]


def test_a_log_that_no_snapshot_reaches(tmp_path: Path) -> None:
    """KAFKA-14238: segments deleted by retention, and no snapshot to begin with."""
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    nodes[0].checkpoint(6, 1).unlink()
    assert told(quorum_of(tmp_path), "1") == [
        (0, 12, "2", True, "no_base"),
        (0, 12, "3", True, "no_base"),
    ]


def test_a_hole_lasts_until_the_next_snapshot(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    log = [one for one in healthy_log() if one.base != 3]
    nodes[1].write(log)
    found = quorum_of(tmp_path)
    assert told(found, "2") == [
        (0, 3, "2", True, None),
        (4, 5, "1", True, "hole"),
        (4, 5, "3", True, "hole"),
        (6, 12, "2", True, None),
    ]


def test_a_replica_that_is_behind_goes_on_with_the_others(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[2].write([one for one in healthy_log() if one.base < 8])
    for node in nodes[:2]:
        node.append(Batch(12, 2, (NO_OP,), None, LATER))
    assert told(quorum_of(tmp_path), "3") == [
        (0, 8, "3", True, None),
        (9, 13, "1", True, "after_end"),
        (9, 13, "2", True, "after_end"),
    ]


def test_what_is_not_committed_may_not_be_its_history(tmp_path: Path) -> None:
    """Offset 12 lies on one voter only: nobody knows whether the others will ever hold it."""
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    assert told(quorum_of(tmp_path), "2") == [
        (0, 12, "2", True, None),
        (13, 13, "1", None, "after_end"),
    ]


def test_another_history_is_no_source_of_this_one(tmp_path: Path) -> None:
    """Voter 3 lost offset 6; from offset 8 on it holds other records than the others."""
    nodes = quorum(tmp_path)
    nodes[2].segment(6).unlink()
    nodes[2].checkpoint(6, 1).unlink()
    kept = [one for one in healthy_log() if one.base < 8 and one.base != 6]
    nodes[2].write([*kept, Batch(8, 1, (NO_OP,)), Batch(9, 1, (NO_OP,))])
    nodes[2].checkpoint(6, 1).unlink()
    found = quorum_of(tmp_path)
    assert told(found, "3") == [
        (0, 6, "3", True, None),
        (7, 8, "1", True, "hole"),
        (7, 8, "2", True, "hole"),
        (9, 10, "1", False, "hole"),
        (9, 10, "2", False, "hole"),
        (9, 10, None, None, "hole"),
        (11, 12, "1", False, "after_end"),
        (11, 12, "2", False, "after_end"),
    ]


def test_epochs_that_cross_are_another_history(tmp_path: Path) -> None:
    """The logs share no offset, but epoch 1 cannot follow epoch 2."""
    Node(tmp_path, 1).write([leader_change(0, 2, 1), Batch(1, 2, (NO_OP, NO_OP))], 0)
    Node(tmp_path, 2).write([leader_change(6, 1, 2), Batch(7, 1, (NO_OP,))])
    rows = told(quorum_of(tmp_path), "2")
    # The state before offset 0 is empty in every history.
    assert [row for row in rows if row[2] == "1"] == [
        (0, 0, "1", True, "no_base"),
        (1, 3, "1", False, "no_base"),
    ]


def test_a_snapshot_alone_is_known_by_its_id(tmp_path: Path) -> None:
    """Its end and epoch are those of a batch of the other log: one history up to there."""
    Node(tmp_path, 1).write(healthy_log())
    alone = Node(tmp_path, 2)
    alone.checkpoint(6, 1).write_bytes(snapshot([healthy_log()[1]], 1, START_MS + 3000))
    alone.meta()
    assert told(quorum_of(tmp_path), "2") == [
        (0, 5, "1", True, "no_base"),
        (6, 6, "2", True, None),
        (7, 8, "1", True, "after_end"),  # the leader of epoch 2 wrote metadata: that is committed
        (9, 12, "1", None, "after_end"),
    ]


def test_a_torn_snapshot_is_no_base(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].segment(0).unlink()
    torn = nodes[0].checkpoint(6, 1)
    torn.write_bytes(torn.read_bytes()[:-10])
    rows = told(quorum_of(tmp_path), "1")
    assert [row[:3] for row in rows] == [(0, 12, "2"), (0, 12, "3")]


def test_of_two_snapshots_of_one_id_the_one_that_kafka_loads_is_the_base(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    right = node.checkpoint(6, 1)
    right.with_name(f"{6:020d}-1.checkpoint").write_bytes(snapshot([], 1, START_MS))
    found = quorum_of(tmp_path)
    held = Held.by(found, found.by_label["1"])
    assert [one.path for one in held.snapshots] == [str(right)]
    assert [why for _, why in held.rejected] == [f"Kafka loads {right.name} beside it"]


def test_another_cluster_is_asked_for_nothing(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[2].meta("another-cluster-000000")
    nodes[2].quorum_state(clusterId="another-cluster-000000")
    moved = [replace(one, ms=one.ms + 7, epoch=one.epoch + 5) for one in healthy_log()]
    nodes[2].write(moved)
    nodes[2].meta("another-cluster-000000")
    nodes[0].segment(0).unlink()
    found = quorum_of(tmp_path)
    assert found.foreign == {"3"}
    assert told(found, "1")[0] == (0, 5, "2", True, "no_base")
    assert {row[2] for row in told(found, "3")} == {"3"}


@cache
def golden(case: str) -> Quorum:
    return quorum_of(DATA / case / "replicas")


@pytest.mark.parametrize("case", CASES)
def test_it_is_what_each_replicas_files_give(case: str) -> None:
    """Two readings of the same files: by columns of a quorum, and by one replica's headers."""
    own = {
        (one.replica, one.start_offset, one.end_offset)
        for one in restorable(golden(case))
        if one.source == one.replica
    }
    replicas = find_replicas([str(DATA / case / "replicas")])
    wanted = {(one.label, *span) for one in replicas for span in scan(one).restorable()}
    assert own == wanted


def test_every_named_source_really_gives_the_states(tmp_path: Path) -> None:
    """Only the files that a row names, in a folder of their own: the same states come out."""
    rows = [one for one in restorable(golden("lagging")) if one.missing == "no_base"]
    assert {one.replica for one in rows} == {"2", "3"}
    for number, one in enumerate(rows):
        folder = tmp_path / str(number) / "__cluster_metadata-0"
        folder.mkdir(parents=True)
        for path in filter(None, (one.snapshot_path, *one.segment_paths)):
            shutil.copy(path, folder)
        (copied,) = find_replicas([str(folder.parent)])
        assert one.source is not None
        (whole,) = find_replicas([str(Replica("lagging", one.source).folder)])
        for offset in (one.start_offset, one.end_offset):
            image = built(copied, offset)
            assert image.state == built(whole, offset).state


def test_a_dead_leaders_tail_is_its_own_history() -> None:
    """`isolated`: 2 and 12 hold an uncommitted tail, which the others do not go on with."""
    rows = told(golden("isolated"), "2")
    assert rows[0] == (0, 243, "2", True, None)
    assert {row[2:] for row in rows[1:]} == {(one, False, "after_end") for one in ("1", "3", "11")}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = quorum(tmp_path)
    for node in nodes:
        node.segment(0).unlink()
    assert main(["restorable", "--input", str(tmp_path), "--format", "json"]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert rows[0] == {
        "replica": "1",
        "start_offset": 0,
        "end_offset": 5,
        "source": None,
        "same_history": None,
        "missing": "no_base",
        "snapshot_path": None,
        "segment_paths": [],
    }
    assert rows[1]["snapshot_path"] == str(nodes[0].checkpoint(6, 1))
    assert rows[1]["segment_paths"] == [str(nodes[0].segment(6))]
    assert "the states at offsets 0 to 5 can be rebuilt from no file at hand" in printed.err
    nodes[0].segment(6).unlink()
    nodes[0].segment(6).symlink_to(tmp_path / "absent")
    for more in ([], ["--best"]):
        main(["restorable", "--input", str(tmp_path), "--format", "json", *more])
        last = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (last["path"], last["fault"]) == (str(nodes[0].segment(6)), "unreadable")
    with pytest.raises(SystemExit):
        main(["restorable", "--help"])
    assert "kraftlog restorable --input replicas/" in capsys.readouterr().out


def test_nobody_knows_what_a_log_holds_that_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder cannot be listed: its end is not known, and no file of it."""
    node = quorum(tmp_path)[1]
    as_nobody(monkeypatch, [node.folder])
    found = quorum_of(tmp_path)
    assert {row[4] for row in told(found, "2")} == {"unread"}
    (segment,) = found.by_label["2"].evidence.segments
    assert segment.path == str(node.folder)
    why = "its folder cannot be listed: Permission denied"
    assert Plans(found).boots["2"].reason == f"its log cannot be read: {why}"


def test_a_segment_that_could_not_be_read_may_hold_what_a_replica_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one: all behind the snapshot at offset 6 may be in it."""
    node = quorum(tmp_path)[1]
    opened = os.open

    def refuse(path: Any, *rest: Any, **named: Any) -> int:
        if Path(os.fsdecode(path)) == node.segment(6):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)
    rows = told(quorum_of(tmp_path), "2")
    assert [row for row in rows if row[2] == "2"] == [(0, 6, "2", True, None)]
    assert {row[4] for row in rows if row[2] != "2"} == {"unread"}


@pytest.mark.parametrize(("held", "begins_with"), [((1, 2, 3), "2"), ((1, 3), "1")])
def test_a_recovery_begins_with_the_snapshot_that_most_copies_have(
    tmp_path: Path, held: tuple[int, ...], begins_with: str
) -> None:
    """Where no log leads up to it, nothing else tells that one of them was changed."""
    begun_apart(tmp_path, held)
    found = recovered(quorum_of(tmp_path))
    assert found.snapshot_of == begins_with
    others = [one for one in unknown(found) if one.startswith("Whether the snapshot of")]
    told = f"Whether the snapshot of {begins_with} is right that this begins with: that of "
    assert [one.startswith(told) for one in others] == [True]
