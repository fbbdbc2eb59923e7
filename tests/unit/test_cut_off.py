"""Snapshots of a history that was cut: what may be the only copy of committed records is told as
that, proves nothing, and no misnamed file is taken for one.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.pipeline.input_audit import audit_input, replayed
from kraftlog.quorum.model import Quorum
from kraftlog.recover.ranking import restore_rows
from tests.unit.audit_logs import (
    NO_OP,
    Batch,
    Node,
    healthy_log,
    healthy_state,
    quorum,
    snapshot,
    topic,
)
from tests.unit.faults.ends import left_by_a_start, went_on_without
from tests.unit.faults.table import LATER

NAME = f"{14:020d}-{3:010d}.checkpoint"
MAY_BE = f"its snapshot {NAME} may be the only copy of committed records that were cut"


def _quorum(root: Path) -> Quorum:
    return replayed([str(root)], load_options({"input": [str(root)]}))


def _rows(root: Path) -> dict[str, Any]:
    """What the audit tells of each restart."""
    options = load_options({"input": [str(root)]})
    return {one["replica"]: one for one in audit_input([str(root)], options).restart}


def _recovered(root: Path) -> tuple[str, dict[str, Any]]:
    out = root.parent / "new"
    shutil.rmtree(out, ignore_errors=True)
    voter = "1@host1:9093:yD7wSNglQZe1f8nw8v9c1Q"
    assert main(["recover", "--input", str(root), "--out", str(out), "--voters", voter]) == 0
    return (out / "plan.md").read_text(), json.loads((out / "plan.json").read_text())


def _heads(texts: list[str]) -> list[str]:
    return [text.partition(":")[0] for text in texts]


def _made(root: Path, damage: Callable[[list[Node]], object]) -> Path:
    folder = root / "replicas"
    damage(quorum(folder))
    return folder


def test_it_is_told_wherever_somebody_asks(tmp_path: Path) -> None:
    root = _made(tmp_path, left_by_a_start)
    told = _rows(root)["3"]
    assert (told["verdict"], told["lost_from"]) == ("unsafe", 12)
    assert told["reason"].startswith(MAY_BE)
    assert [one["names"] for one in told["lost"]] == [["theirs"]]
    plan, values = _recovered(root)
    assert "Nothing that is at hand" not in plan
    assert "Left out: offsets 12 to 13 of replica 3. Only a snapshot holds them" in plan
    assert [(one["start_offset"], one["end_offset"]) for one in values["lost"]] == [(12, 14)]
    assert any("topic theirs" in text for one in values["lost"] for text in one["objects"])
    assert any(str(root / "3") in text and NAME in text for text in values["unknown"])
    reasons = {one["replica"]: one["reasons"] for one in restore_rows(_quorum(root))}
    told_of = [label for label in "123" if MAY_BE in _heads(reasons[label])]
    assert told_of == ["3"]


def test_it_proves_nothing(tmp_path: Path) -> None:
    root = _made(tmp_path, left_by_a_start)
    found = _quorum(root)
    assert [one.snapshot.path for one in found.cut_off.values()] == [*found.cut_off]
    (path,) = found.cut_off
    Path(path).unlink()
    without = _quorum(root)
    assert not without.cut_off
    assert found.bounds == without.bounds


def test_what_was_done_again_is_not_lost(tmp_path: Path) -> None:
    def damage(nodes: list[Node]) -> None:
        left_by_a_start(nodes)
        own = (topic("theirs", 88), topic("mine", 89))
        for node in nodes:
            node.append(Batch(15, 4, own, None, LATER))
        raw = snapshot(
            [*(healthy_log()[one] for one in (1, 3, 8)), Batch(0, 3, own[1:], None, LATER)],
            3,
            LATER,
        )
        nodes[2].checkpoint(14, 3).write_bytes(raw)

    root = _made(tmp_path, damage)
    assert _rows(root)["3"]["lost"] == []
    _, values = _recovered(root)
    assert [one["objects"] for one in values["lost"]] == [[]]


def test_where_the_cut_is_out_of_sight_nothing_is_named(tmp_path: Path) -> None:
    root = _made(tmp_path, lambda nodes: left_by_a_start(nodes, begins=13))
    told = _rows(root)["3"]
    assert (told["verdict"], told["lost_from"], told["lost"]) == ("unsafe", 13, None)
    plan, values = _recovered(root)
    assert values["lost"] == []
    assert "Nothing that is at hand" not in plan
    assert any("where its history was cut is out of sight" in text for text in values["unknown"])


def test_an_empty_log_that_goes_by_it_has_lost_no_end(tmp_path: Path) -> None:
    """Kafka keeps the epoch in which a log ends whose records are all dropped."""

    def damage(nodes: list[Node]) -> None:
        left_by_a_start(nodes)
        for path in nodes[2].folder.glob("*.log"):
            path.unlink()
        nodes[2].segment(14).write_bytes(b"")
        nodes[2].epochs([(3, 14)])

    root = _made(tmp_path, damage)
    told = audit_input([str(root)], load_options({"input": [str(root)]}))
    criticals = {one["check"] for one in told.findings if one["severity"] == "critical"}
    assert criticals == {"snapshot_epoch_agrees"}
    assert not [one for one in told.findings if one["check"] == "log_end_lost"]


def _older(node: Node) -> None:
    """The healthy snapshot under the name of a later one."""
    node.checkpoint(14, 1).write_bytes(node.checkpoint(6, 1).read_bytes())


def _other_epoch(node: Node) -> None:
    raw = snapshot(healthy_state(), 4, LATER)
    node.checkpoint(14, 3).write_bytes(raw)


def _as_old_as_the_cut(node: Node) -> None:
    node.checkpoint(14, 3).write_bytes(snapshot(healthy_state(), 3, healthy_log()[-1].ms))


def _incomplete(node: Node) -> None:
    raw = snapshot(healthy_state(), 3, LATER)
    node.checkpoint(14, 3).write_bytes(raw[:-1])


@pytest.mark.parametrize("misname", [_older, _other_epoch, _as_old_as_the_cut, _incomplete])
def test_a_misnamed_one_is_none(tmp_path: Path, misname: Callable[[Node], None]) -> None:
    def damage(nodes: list[Node]) -> None:
        left_by_a_start(nodes)
        nodes[2].checkpoint(14, 3).unlink()
        misname(nodes[2])

    root = _made(tmp_path, damage)
    assert not _quorum(root).cut_off
    assert "Nothing that is at hand" in _recovered(root)[0]


def test_where_a_log_holds_it_the_log_tells(tmp_path: Path) -> None:
    root = _made(tmp_path, lambda nodes: went_on_without(nodes, snapshotted=True))
    assert not _quorum(root).cut_off


def test_a_tail_that_no_majority_held_speaks_against_none(tmp_path: Path) -> None:
    """A leader of epoch 3 was cut off; what epoch 2 goes on with in epoch 4 is the history."""

    def damage(nodes: list[Node]) -> None:
        nodes[0].append(Batch(12, 3, (NO_OP,), None, LATER))
        for node in nodes[1:]:
            node.append(Batch(12, 2, (NO_OP,), None, LATER), Batch(13, 4, (NO_OP,), None, LATER))
            node.checkpoint(13, 2).write_bytes(snapshot(healthy_state(), 2, LATER))

    assert not _quorum(_made(tmp_path, damage)).cut_off
