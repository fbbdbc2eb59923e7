"""What a lake remembers: its earlier runs showed to be committed what no copy holds any more."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kraftlog.config import load_options
from kraftlog.pipeline.run import newest_run
from kraftlog.pipeline.steps import run_steps
from kraftlog.report.judgement import Judged, judged_in
from kraftlog.tables.lake import Lake
from tests.golden.cases import DATA
from tests.in_process import InProcess
from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    Node,
    describe,
    healthy_log,
    leader_change,
    quorum,
    snapshot,
)

LATER_MS = START_MS + 60_000
HOLDS = "voter_holds_committed_data"


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Iterable[Node] | Path], Judged]:
    """Another run of one lake, over some nodes of the quorum, or a root of copies."""

    def one(nodes: Iterable[Node] | Path) -> Judged:
        lake = Lake(str(tmp_path / "lake"))
        homes = [nodes] if isinstance(nodes, Path) else [node.home for node in nodes]
        given = {"input": [str(home) for home in homes], "lake": lake.root}
        run_steps(InProcess, load_options(given), "decode", "materialize", "audit")
        return judged_in(lake, newest_run(lake)["run_id"])

    return one


def set_back(node: Node, *batches: Batch) -> None:
    """A disk as it was in epoch 1, and what it went on with from offset 7."""
    node.write([*healthy_log()[:5], *batches])
    last = max((one.epoch for one in batches), default=1)
    node.quorum_state(leaderId=1, leaderEpoch=last)
    node.epochs([(1, 0), *[(last, 7)] * (last > 1)])


def told(judged: Judged) -> list[tuple[str, str]]:
    return [(one["severity"], one["message"]) for one in judged.findings if one["check"] == HOLDS]


def answers(judged: Judged) -> dict[str, str]:
    return {one["replica"]: one["verdict"] for one in judged.restart}


def test_a_quorum_that_was_set_back(tmp_path: Path, run: Callable[..., Judged]) -> None:
    nodes = quorum(tmp_path / "in")
    assert not told(run(nodes))
    kept = {one: one.read_bytes() for one in (tmp_path / "in").rglob("*") if one.is_file()}
    for node in nodes:
        set_back(node)
    for again in (b"", b"a file more"):  # the newest run is not forgotten for the one before it
        (nodes[0].folder / "note.txt").write_bytes(again)
        judged = run(nodes)
        assert {severity for severity, _ in told(judged)} == {"warning"}
        assert all(
            "which are committed: run 1 of this lake showed it." in why for _, why in told(judged)
        )
        assert set(answers(judged).values()) == {"unknown"}
        assert judged.verdict["committed_lower"] == 12
        assert judged.verdict["committed_upper"] is None
    for path, raw in kept.items():
        path.write_bytes(raw)
    judged = run(nodes)
    assert not told(judged)
    assert set(answers(judged).values()) == {"safe"}


def test_a_quorum_that_was_formatted_anew_under_its_old_cluster_id(
    tmp_path: Path, run: Callable[..., Judged]
) -> None:
    """To copy it again shows nothing else: the disks are others, and a later run knows that, too."""
    nodes = quorum(tmp_path / "in")
    run(nodes)
    for node in nodes:
        set_back(node)
        node.meta(directory=node.node_id + 10)
    for again in (b"", b"a file more"):
        (nodes[0].folder / "note.txt").write_bytes(again)
        judged = run(nodes)
        assert {severity for severity, _ in told(judged)} == {"warning"}
        for _, why in told(judged):
            assert "No voter's disk at hand is one that run 1 of this lake read." in why
            assert "Where it was, go on in a new lake." in why
            assert "Copy the voters again" not in why
        assert all("copy them again" not in one["reason"] for one in judged.restart)
    nodes[2].meta()
    assert all("Copy the voters again" in why for _, why in told(run(nodes)))


def test_a_describe_as_old_as_the_copies_says_nothing_of_what_the_lake_remembers(
    tmp_path: Path, run: Callable[..., Judged]
) -> None:
    """It was made before they were copied, as one that came with a pull: nobody is told to build a new
    quorum of older copies.
    """
    nodes = quorum(tmp_path / "in")
    run(nodes)
    for node in nodes:
        set_back(node)
    describe(nodes[0], 1, 1, 7, keeping_up=(1, 2, 3))
    judged = run(nodes)
    assert {severity for severity, _ in told(judged)} == {"warning"}
    assert all("Copy the voters again" in why for _, why in told(judged))
    assert set(answers(judged).values()) == {"unknown"}


def test_a_quorum_that_went_on_without_what_it_had_committed(
    tmp_path: Path, run: Callable[..., Judged]
) -> None:
    nodes = quorum(tmp_path / "in")
    run(nodes)
    for node in nodes:
        set_back(
            node, leader_change(7, 3, 1, LATER_MS), Batch(8, 3, (NO_OP,), None, LATER_MS + 500)
        )
    judged = run(nodes)
    assert [severity for severity, _ in told(judged)] == ["warning"] * 3
    assert all("the quorum went on without it" in why for _, why in told(judged))


def test_fewer_copies_of_the_same_quorum_are_told_as_ever(
    tmp_path: Path, run: Callable[..., Judged]
) -> None:
    nodes = quorum(tmp_path / "in")
    whole = run(nodes)
    nodes[0].append(Batch(12, 2, (NO_OP,)))
    alone = run(nodes[:1])
    assert not told(whole)
    assert not told(alone)
    assert alone.verdict["committed_lower"] < 12


def test_a_disk_that_was_set_back(tmp_path: Path, run: Callable[..., Judged]) -> None:
    nodes = quorum(tmp_path / "in")
    run(nodes)
    set_back(nodes[2])
    ((severity, message),) = told(run(nodes))
    assert severity == "warning"
    assert "Run 1 of this lake read its log up to offset 12: the disk was set back" in message


def test_what_is_out_of_sight_holds_nothing_that_a_later_leader_lacks(
    tmp_path: Path, run: Callable[..., Judged]
) -> None:
    nodes = quorum(tmp_path / "in")
    run(nodes)
    later = [Batch(base, 3, (NO_OP,), None, LATER_MS + 500 * base) for base in range(8, 14)]
    for node in nodes:
        set_back(node, leader_change(7, 3, 1, LATER_MS), *later)
    pruned = nodes[0]
    for path in (pruned.segment(0), pruned.segment(6), pruned.checkpoint(6, 1)):
        path.unlink()
    pruned.segment(13).write_bytes(later[-1].raw())
    pruned.checkpoint(13, 3).write_bytes(snapshot(healthy_log()[1:2], 3, LATER_MS + 6_000))
    pruned.epochs([(3, 13)])
    found = told(run(nodes))
    assert all("the quorum went on without it" in why for _, why in found)
    assert len(found) == 2
    assert not told(run([pruned])), "nothing tells what it holds there"


def test_a_tail_is_no_whole_answer_where_voters_have_lost_more(run: Callable[..., Judged]) -> None:
    """Each voter waits until it is known whether the copies are old; a broker only loses its tail."""
    run(DATA / "isolated-healed" / "replicas")
    found = answers(run(DATA / "isolated" / "replicas"))
    assert found == {"1": "unknown", "2": "unknown", "3": "unknown", "11": "safe", "12": "loses"}
