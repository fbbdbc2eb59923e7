"""Files that change between the moment when they are listed and the one when they are read, as
those of a live node do.
"""

from collections.abc import Callable
from pathlib import Path

from kraftlog.audit.collect import collect
from kraftlog.audit.run import Finding, audit_of
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.model import Quorum
from tests.unit.audit_logs import LIMITS, NO_OP, Batch, Node, healthy_log, quorum
from tests.unit.faults.table import AT, END_POSITION, LATER

NEXT = Batch(12, 2, (NO_OP,), None, LATER).raw()


def findings(root: Path, change: Callable[[list[Node]], object]) -> list[Finding]:
    """What an audit finds where files change after they were listed."""
    nodes = quorum(root)
    replicas = find_replicas([str(root)])
    change(nodes)
    return list(audit_of(Quorum(collect(replicas, LIMITS, Redactor(None)))).findings)


def grow(path: Path, more: bytes) -> None:
    path.write_bytes(path.read_bytes() + more)


def test_whole_batches_that_came_meanwhile_are_read(tmp_path: Path) -> None:
    found = findings(tmp_path, lambda nodes: [grow(one.segment(6), NEXT) for one in nodes])
    assert found == []


def test_a_batch_that_is_being_written_is_a_torn_tail(tmp_path: Path) -> None:
    """It is the end of the file as it was read, not the middle of the one that was listed."""
    for cut in (1, 40, 61, len(NEXT) - 1):
        root = tmp_path / str(cut)
        (one,) = findings(root, lambda nodes, cut=cut: grow(nodes[0].segment(6), NEXT[:cut]))
        assert (one.check, one.severity) == ("log_tail_complete", "warning")
        assert (one.row.position, one.row.offset) == (END_POSITION, 12)


def test_a_segment_that_was_cut_meanwhile_ends_there(tmp_path: Path) -> None:
    """Down to a batch's end: the log is shorter, and nothing in it is damaged."""

    def cut(nodes: list[Node]) -> None:
        path = nodes[0].segment(6)
        path.write_bytes(path.read_bytes()[: AT[11]])

    assert [one for one in findings(tmp_path, cut) if one.severity != "info"] == []


def test_a_segment_in_the_middle_that_grew_has_its_damage_at_its_end(tmp_path: Path) -> None:
    (one,) = findings(tmp_path, lambda nodes: grow(nodes[0].segment(0), NEXT[:40]))
    assert (one.check, one.severity) == ("segment_complete", "critical")
    size = sum(len(batch.raw()) for batch in healthy_log()[:4])
    assert (one.row.position, one.row.offset) == (size, 6)


def test_a_segment_that_is_gone_meanwhile_is_told_as_such(tmp_path: Path) -> None:
    found = findings(tmp_path, lambda nodes: nodes[0].segment(6).unlink())
    (one,) = [one for one in found if one.check == "file_readable"]
    assert (one.severity, one.row.replica) == ("info", "1")
    assert not [one for one in found if one.severity == "critical"]


def test_a_segment_in_the_middle_that_is_gone_meanwhile_explains_the_hole(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    middle = b"".join(one.raw() for one in healthy_log() if 6 <= one.base < 9)
    last = node.segment(6).read_bytes().removeprefix(middle)
    node.segment(6).write_bytes(middle)
    node.segment(9).write_bytes(last)
    replicas = find_replicas([str(tmp_path)])
    node.segment(6).unlink()
    result = audit_of(Quorum(collect(replicas, LIMITS, Redactor(None))))
    assert [one.check for one in result.findings if one.row.replica == "1"] == ["file_readable"]
    assert "errored" not in {one.result for one in result.results}
