"""Which SCRAM users Kafka's own loader loses when a node starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftlog.audit.runner import audit_of
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.scram import lost_by_loading, lost_users
from kraftlog.report.answer import answer_of
from kraftlog.simulate.restart import restarts
from kraftlog.simulate.restart_rows import restart_rows
from kraftlog.simulate.troubles import Safety
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    Batch,
    Node,
    healthy_state,
    quorum,
    remove_scram,
    scram,
    snapshot,
)
from tests.unit.faults.table import LATER


def delta(text: str) -> dict[str, bool]:
    return {one[1:]: one[0] == "+" for one in text.split()}


@pytest.mark.parametrize(
    ("base", "deltas", "lost"),
    [
        ("", ["+u1 +u2 -u1"], "u2"),
        ("", ["+u2 -u1"], "u2"),
        ("", ["+u1 -u2"], ""),  # u1 is there before u2 goes
        ("u1", ["+u2 -u1"], "u2"),
        ("u1 u0", ["+u2 -u1"], ""),
        ("", ["+u1 +u2", "-u1"], ""),
        ("", ["+u1", "+u2 -u1", "+u3"], "u2"),
        ("", ["+u1", "+u2 -u1", "+u2"], ""),
        ("", ["+u1", "-u1", "+u2"], ""),
        # Of equal hashes the first that was put in comes first.
        ("", ["-Aa +BB"], "BB"),
        ("", ["+BB -Aa"], ""),
        # A table of 16 has room for 12 keys: with 13 it is larger, and its order is another one.
        ("", ["+0 -@ +A +B +C +D +E +F +G +H +I +J"], ""),
        ("", ["+0 -@ +A +B +C +D +E +F +G +H +I +J +K"], "0 A B C D E F G H I J K"),
        # UTF-16, as Java's String has it.
        ("", ["-D +\U0001f600"], "\U0001f600"),
    ],
)
def test_a_delta_after_a_removal_that_leaves_none(base: str, deltas: list[str], lost: str) -> None:
    assert lost_users(base.split(), map(delta, deltas)) == set(lost.split())


INSTEAD = (
    Batch(12, 2, (scram("ann"),), None, LATER),
    Batch(13, 2, (scram("bob"), remove_scram("ann")), None, LATER),
)
"""One user comes in the place of the only one."""
BOB = ((1, "bob"),)


def with_users(root: Path, *batches: Batch) -> list[Node]:
    nodes = quorum(root)
    for node in nodes:
        node.append(*batches)
    return nodes


def of(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None)))


def test_each_node_begins_with_its_newest_snapshot(tmp_path: Path) -> None:
    """Behind the one, ann is there as well; the other holds bob."""
    nodes = with_users(tmp_path, *INSTEAD)
    for node, end, user in ((nodes[1], 13, "ann"), (nodes[2], 15, "bob")):
        held = snapshot([*healthy_state(), Batch(0, 2, (scram(user),), None, LATER)], 2, LATER)
        node.checkpoint(end, 2).write_bytes(held)
    found = of(tmp_path)
    assert lost_by_loading(found) == {"1": BOB, "2": BOB}
    safe = {one.replica: one.safety for one in restarts(found)}
    assert safe == {"1": Safety.LOSES, "2": Safety.LOSES, "3": Safety.SAFE}
    told = answer_of(restart_rows(found, audit_of(found, ())), None, [])
    assert told.sentence.endswith("Controllers 1 and 2 lose SCRAM users by it.")
    assert not told.lost
    for node, end in ((nodes[1], 13), (nodes[2], 15)):
        path = node.checkpoint(end, 2)
        path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    assert lost_by_loading(of(tmp_path)) == {"1": BOB}, "the others do not start"


@pytest.mark.parametrize(
    ("behind", "lost"),
    [
        (scram("cat"), ("bob", "cat")),  # the same read
        (scram("bob"), ("bob",)),
        (remove_scram("bob"), ()),
        (scram("bob", 2), ("bob",)),
    ],
)
def test_what_comes_behind_it(behind: bytes, lost: tuple[str, ...], tmp_path: Path) -> None:
    with_users(tmp_path, *INSTEAD, Batch(15, 2, (behind,), None, LATER))
    assert lost_by_loading(of(tmp_path)).get("1", ()) == tuple((1, one) for one in lost)


def test_a_node_reads_segment_by_segment(tmp_path: Path) -> None:
    """Between two reads the image has what the first has given."""
    first, second = (
        Batch(12, 2, (scram("ann"), scram("bob")), None, LATER),
        Batch(14, 2, (remove_scram("ann"),), None, LATER),
    )
    nodes = with_users(tmp_path, first)
    nodes[0].append(second)
    for node in nodes[1:]:
        node.segment(14).write_bytes(second.raw())
    assert lost_by_loading(of(tmp_path)) == {"1": BOB}


def test_nothing_is_lost_of_what_the_node_fetches_anew(tmp_path: Path) -> None:
    """A node that is behind gets the record that sets the user again."""
    nodes = with_users(tmp_path, *INSTEAD)
    for node in nodes[:2]:
        node.append(Batch(15, 2, (NO_OP,), None, LATER), Batch(16, 2, (scram("bob"),), None, LATER))
    assert lost_by_loading(of(tmp_path)) == {"1": BOB, "2": BOB}
