"""Which controllers are on their way to the log of the others, and what is seen of each."""

import os
from pathlib import Path

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.joining import Joining, joining
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.unit.audit_logs import LIMITS, Node, healthy_log, quorum

NEWEST_MS = healthy_log()[-1].ms


def found_in(root: Path) -> list[Joining]:
    replicas = find_replicas([str(root)])
    return list(joining(Quorum(collect(replicas, LIMITS, Redactor(None), replay=False))))


def emptied(root: Path) -> Node:
    """Node 3 of three, whose log has no segment any more, nor a snapshot."""
    node = quorum(root)[2]
    for one in (*node.folder.glob("*.log"), *node.folder.glob("*.checkpoint")):
        one.unlink()
    return node


def signs(one: Joining) -> tuple[str, bool, int, int, str | None, int | None]:
    part = None if one.part is None else one.part.evidence.name
    return (
        one.wanted.evidence.name, one.knows_newest_epoch, one.elections, one.ahead, part,
        one.stalled_ms,
    )  # fmt: skip


def test_copies_that_hold_what_the_newest_does_are_not_on_their_way(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    assert found_in(tmp_path) == []
    # One that ends in the middle of it goes on without a snapshot.
    nodes[2].segment(6).unlink()
    assert found_in(tmp_path) == []


@pytest.mark.parametrize(
    ("epoch", "knows", "ahead"), [(1, False, 0), (2, True, 0), (3, True, 1), (7, True, 5)]
)
def test_what_its_quorum_state_knows(tmp_path: Path, epoch: int, knows: bool, ahead: int) -> None:
    """Of the two epochs of the others' logs the second began after its end, which is 0."""
    node = emptied(tmp_path)
    node.quorum_state(leaderId=2, leaderEpoch=epoch)
    (one,) = found_in(tmp_path)
    assert one.log.label == "3"
    name = f"{6:020d}-{1:010d}.checkpoint"
    assert signs(one) == (name, knows, 1, ahead, None, None)


def test_without_a_quorum_state_it_knows_no_epoch(tmp_path: Path) -> None:
    node = emptied(tmp_path)
    (node.folder / "quorum-state").unlink()
    (one,) = found_in(tmp_path)
    assert signs(one)[1:] == (False, 1, 0, None, None)


@pytest.mark.parametrize(("before_ms", "stalled_ms"), [(61_000, 61_000), (0, 0), (-5, 0)])
def test_how_long_nothing_has_come_of_its_part(
    tmp_path: Path, before_ms: int, stalled_ms: int
) -> None:
    """By the time of the newest record at hand."""
    node = emptied(tmp_path)
    part = node.folder / f"{6:020d}-{1:010d}-5.checkpoint.part"
    part.write_bytes(b"some")
    written = (NEWEST_MS - before_ms) * 10**6
    os.utime(part, ns=(written, written))
    (one,) = found_in(tmp_path)
    assert signs(one)[4:] == (part.name, stalled_ms)


def test_whether_a_controller_whose_log_cannot_be_read_needs_a_snapshot_is_not_known(
    tmp_path: Path,
) -> None:
    node = emptied(tmp_path)
    node.segment(0).symlink_to(tmp_path / "absent")
    assert found_in(tmp_path) == []


def test_the_newest_part_counts(tmp_path: Path) -> None:
    """As Kafka orders snapshots, by epoch first; one that ends where its log does is none."""
    node = emptied(tmp_path)
    for end, epoch in ((0, 3), (7, 1), (5, 2), (6, 2)):
        (node.folder / f"{end:020d}-{epoch:010d}-5.checkpoint.part").write_bytes(b"some")
    assert signs(found_in(tmp_path)[0])[4] == f"{6:020d}-{2:010d}-5.checkpoint.part"


def test_the_newest_snapshot_of_the_newest_log_is_wanted(tmp_path: Path) -> None:
    node = emptied(tmp_path)
    first = node.home.parent / "1" / node.folder.name
    kept = first / f"{6:020d}-{1:010d}.checkpoint"
    for end, epoch in ((11, 2), (9, 2)):
        (first / f"{end:020d}-{epoch:010d}.checkpoint").write_bytes(kept.read_bytes())
    assert signs(found_in(tmp_path)[0])[0] == f"{11:020d}-{2:010d}.checkpoint"


def test_who_is_no_controller_is_not_told(tmp_path: Path) -> None:
    node = emptied(tmp_path)
    node.meta(node_id=9, directory=9)
    settings = node.home / "server.properties"
    for roles, is_told in (("broker", False), ("broker,controller", True), ("controller", True)):
        settings.write_text(f"process.roles={roles}\nnode.id=9\n")
        assert [one.log.label for one in found_in(tmp_path)] == ["3"] * is_told


@pytest.mark.parametrize(
    ("knows", "elections", "ahead", "stalled_ms", "stuck"),
    [
        (True, 2, 2, 60_000, False),
        (True, 3, 0, None, True),
        (False, 3, 0, None, False),  # it was switched off meanwhile
        (False, 0, 3, None, True),
        (False, 0, 0, 60_001, True),
        (False, 0, 0, 0, False),
    ],
)
def test_signs_that_it_tries_and_fails(
    tmp_path: Path, knows: bool, elections: int, ahead: int, stalled_ms: int | None, stuck: bool
) -> None:
    emptied(tmp_path)
    (one,) = found_in(tmp_path)
    seen = Joining(one.log, one.wanted, knows, elections, ahead, None, stalled_ms)
    assert seen.is_stuck(60_000) is stuck
