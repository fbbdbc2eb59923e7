"""Where the history of a copy that contradicts the others departs from theirs."""

from dataclasses import replace
from pathlib import Path

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.lineages import MAIN, Lineage, lineage_of, lineages, stretches
from kraftlog.quorum.model import Quorum
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    Batch,
    healthy_log,
    leader_change,
    producer_ids,
    quorum,
    replace_batch,
    topic,
)
from tests.unit.faults.table import LATER

BASES = [one.base for one in healthy_log()]


def read(root: Path) -> Quorum:
    return Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None)))


def told(found: list[Lineage]) -> dict[str, tuple[int, list[int]]]:
    """By name: where it forks, and where its batches begin."""
    return {one.name: (one.fork_offset, one.links.base.tolist()) for one in found}


def test_copies_that_agree_have_one_lineage(tmp_path: Path) -> None:
    quorum(tmp_path)
    found = read(tmp_path)
    assert told(lineages(found)) == {MAIN: (0, BASES)}
    assert set(lineage_of(found, lineages(found)).values()) == {MAIN}


def test_a_copy_departs_at_the_end_of_the_last_batch_that_it_shares(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    other = (producer_ids(2000), topic("b", 2))
    replace_batch(nodes[2], 4, lambda one: replace(one, values=other).raw())
    found = read(tmp_path)
    assert told(lineages(found)) == {MAIN: (0, BASES), "3": (4, BASES)}
    assert lineage_of(found, lineages(found)) == {"1": MAIN, "2": MAIN, "3": "3"}
    shared, own = (one.links.ids.tolist() for one in lineages(found))
    assert [one == two for one, two in zip(shared, own, strict=True)] == [
        base != 4 for base in BASES
    ]


def test_a_copy_in_a_folder_of_that_name_does_not_tell_the_shared_history(tmp_path: Path) -> None:
    nodes = quorum(tmp_path / "copies")
    other = (producer_ids(2000), topic("b", 2))
    replace_batch(nodes[2], 4, lambda one: replace(one, values=other).raw())
    (tmp_path / "copies" / "3").rename(tmp_path / "copies" / MAIN)
    found = read(tmp_path / "copies")
    assert told(lineages(found)) == {MAIN: (0, BASES), "copies/main": (4, BASES)}
    assert lineage_of(found, lineages(found))["copies/main"] == "copies/main"


def test_a_tail_departs_where_it_begins(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER), Batch(13, 2, (NO_OP,), None, LATER))
    for node in nodes[:2]:
        node.append(leader_change(12, 3, 1, LATER))
    assert told(lineages(read(tmp_path))) == {
        MAIN: (0, [*BASES, 12]),
        "3": (12, [*BASES, 12, 13]),
    }


def test_a_copy_that_goes_on_inside_a_batch_of_the_others_shares_nothing(tmp_path: Path) -> None:
    """Offset 4 is missing in it, and what it has at 5 the others have as a part of 4 to 5."""
    nodes = quorum(tmp_path)
    inside = Batch(5, 1, (topic("b", 2),), None, LATER)
    replace_batch(nodes[2], 4, lambda one: inside.raw())
    own = [5 if base == 4 else base for base in BASES]
    assert told(lineages(read(tmp_path)))["3"] == (0, own)


def test_a_snapshot_beyond_every_log_is_a_stretch_of_its_own(tmp_path: Path) -> None:
    """The logs end at 4, and the snapshot of offset 6 says what holds there: nothing leads to it."""
    for node in quorum(tmp_path):
        node.segment(6).unlink()
        held = [one.raw() for one in healthy_log() if one.base < 4]
        node.segment(0).write_bytes(b"".join(held))
    found = stretches(lineages(read(tmp_path))[0])
    assert [(one.start_offset, one.end_offset) for one in found] == [(0, 4), (6, 6)]
    assert found[0].base is None
    assert found[1].base is not None
    assert found[1].base.end_offset == 6
