"""Where the replay of an audit goes on, where it stops, and what it says of the rest."""

from pathlib import Path

import pytest

from kraftlog.audit.grouping import EQUALS
from kraftlog.audit.runner import AuditResult
from kraftlog.cli import main
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    START_MS,
    TRANSACTION,
    Batch,
    Node,
    audit,
    change_isr,
    found,
    healthy_log,
    healthy_state,
    partition,
    producer_ids,
    quorum,
    remove_topic,
    replace_batch,
    snapshot,
    topic,
)
from tests.unit.faults.table import LATER, everywhere

CHECK = "producer_ids_increase"


def holed(root: Path) -> list[Node]:
    """A quorum in which offset 3 is missing everywhere, and the producer ids go back behind it."""
    nodes = quorum(root)
    for node in nodes:
        replace_batch(node, 3, lambda one: b"")
    everywhere(nodes, producer_ids(999))
    return nodes


def reason(result: AuditResult, check: str) -> tuple[str, str]:
    (one,) = [one for one in result.results if one.check == check]
    return one.result, one.reason or ""


def test_after_a_hole_the_next_snapshot_is_the_base(tmp_path: Path) -> None:
    """The ids of offset 4 stand in it, and those at 12 go back behind them."""
    holed(tmp_path)
    result = audit(tmp_path)
    (row,) = found(result, CHECK)
    assert row.row.offset == 12
    assert "from 1000 to 999" in row.row.message
    outcome, why = reason(result, CHECK)
    assert outcome == "failed"
    assert "offset 3 is missing" in why


def test_after_a_hole_without_a_snapshot_nothing_is_judged(tmp_path: Path) -> None:
    for node in holed(tmp_path):
        node.checkpoint(6, 1).unlink()
    result = audit(tmp_path)
    assert found(result, CHECK) == []
    outcome, why = reason(result, CHECK)
    assert outcome == "skipped"
    assert "offset 3 is missing" in why


def test_what_stands_before_a_hole_is_judged(tmp_path: Path) -> None:
    """Its state is known up to there, and no further: of the two changes of topics that do not
    exist, the one before the hole is told.
    """
    nodes = quorum(tmp_path)
    for node in nodes:
        node.checkpoint(6, 1).unlink()
        replace_batch(node, 3, lambda one: b"")
        wrong = Batch(4, 1, (change_isr(9, [1]), NO_OP), None, LATER)
        replace_batch(node, 4, lambda one, wrong=wrong: wrong.raw())
        early = Batch(1, 1, (topic("a", 1), change_isr(7, [1])), None, LATER)
        replace_batch(node, 1, lambda one, early=early: early.raw())
    rows = found(audit(tmp_path), "references_exist")
    assert [row.row.offset for row in rows] == [2]


def test_records_of_an_open_transaction_meet_each_other(tmp_path: Path) -> None:
    """The change is of a topic of the same transaction, which nobody can see yet."""
    nodes = quorum(tmp_path)
    everywhere(nodes, TRANSACTION["begin"], topic("d", 8), topic("d", 9), TRANSACTION["abort"])
    (row,) = found(audit(tmp_path), "topic_identity_unique")
    assert row.row.offset == 14


def test_an_aborted_transaction_leaves_no_state_behind(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    everywhere(nodes, TRANSACTION["begin"], topic("d", 8), TRANSACTION["abort"], topic("d", 9))
    assert found(audit(tmp_path), "topic_identity_unique") == []


def test_a_rule_is_told_once_for_a_record_that_all_hold(tmp_path: Path) -> None:
    everywhere(quorum(tmp_path), producer_ids(999))
    (row,) = found(audit(tmp_path), CHECK)
    assert row.row.evidence["replicas"] == ["1", "2", "3"]
    assert (row.row.evidence["previous"], row.row.evidence["next"]) == (1000, 999)


@pytest.mark.parametrize(
    ("gone", "left"), [(1, {"b-0", "c-0"}), (2, {"a-0", "c-0"}), (3, {"a-0", "b-0"})]
)
def test_partitions_go_with_their_topic(tmp_path: Path, gone: int, left: set[str]) -> None:
    """Of three topics with a partition of one replica each, whichever is removed."""
    for node in quorum(tmp_path):
        node.append(
            Batch(12, 2, tuple(partition(n, [1], [1], 1) for n in (1, 2, 3)), None, LATER),
            Batch(15, 2, (remove_topic(gone),), None, LATER + 1),
        )
    state = collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None)).state
    assert state is not None
    assert state.health is not None
    assert set(state.health.single) == left
    assert state.health.partition_count == 2


def test_a_snapshot_that_ends_where_a_hole_does_is_the_base(tmp_path: Path) -> None:
    """Nothing but a no-op is missing before offset 4, where the snapshot ends and the log goes on.
    The state is known there again, and said to be.
    """
    made = snapshot(healthy_log()[1:2], 1, START_MS + 2000)
    for node in holed(tmp_path):
        node.checkpoint(6, 1).unlink()
        node.checkpoint(4, 1).write_bytes(made)
    result = audit(tmp_path)
    (row,) = found(result, CHECK)
    assert row.row.offset == 12
    begun = f"1: {4:020d}-0000000001.checkpoint is where the replay begins again"
    assert reason(result, EQUALS) == ("skipped", begun)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_crowd_ends_at_a_hole(tmp_path: Path, is_there: bool) -> None:
    """Offset 20 is missing everywhere, or cannot be read, and the snapshot behind it holds six topics that came there.
    Four of seven go before it, and all six behind it: no state held ten, as a count over the hole
    has it, nor can the state before the first of them bring back the six.
    """
    for node in quorum(tmp_path):
        everywhere([node], *(topic(f"t{n}", n) for n in range(10, 14)))
        first = Batch(16, 2, tuple(remove_topic(n) for n in range(10, 14)), None, LATER + 1)
        lost = Batch(20, 2, (b"\xff",), None, LATER + 1)
        node.append(first, *[lost] * is_there, Batch(21, 2, (NO_OP,), None, LATER + 2))
        came = Batch(0, 2, tuple(topic(f"new{n}", n) for n in range(30, 36)))
        node.checkpoint(21, 2).write_bytes(snapshot([*healthy_state(), came], 2, LATER + 1))
        last = Batch(22, 2, tuple(remove_topic(n) for n in range(30, 36)), None, LATER + 3)
        node.append(last)
    told = [row.row.message.partition(":")[0] for row in found(audit(tmp_path), "mass_deletion")]
    assert told == [
        "4 of 7 topics were removed between offsets 16 and 19",
        "6 of 9 topics were removed between offsets 22 and 27",
    ]


STATE = healthy_state()
WRONG = [healthy_log()[1], Batch(0, 1, (producer_ids(1001), topic("b", 2))), healthy_log()[8]]


@pytest.mark.parametrize(
    "right, wrong, blamed",
    [
        ([(2, 12), (3, 12)], [], {(1, 6)}),  # two agree against what one of them began with
        (
            [(2, 12), (3, 12)],
            [12, 13],
            {(1, 6), (1, 12), (1, 13)},
        ),  # that it goes on proves nothing
        ([(2, 12), (3, 13)], [12], {(1, 6)}),  # the second one decides
        ([(2, 12), (2, 13)], [], {(2, 12), (2, 13)}),  # one against one: the history is the first
        ([(1, 12), (2, 13)], [], {(1, 6)}),  # the same node, and another one that agrees
    ],
)
def test_who_is_wrong_where_the_history_begins_with_a_snapshot(
    tmp_path: Path, right: list[tuple[int, int]], wrong: list[int], blamed: set[tuple[int, int]]
) -> None:
    nodes = quorum(tmp_path)
    everywhere(nodes, NO_OP)
    for node in nodes:
        node.segment(0).unlink()
        node.checkpoint(6, 1).unlink()
    last = healthy_log()[-1].ms

    def write(label: int, end: int, state: list[Batch]) -> None:
        epoch, ms = (1, START_MS + 3000) if end == 6 else (2, last if end == 12 else LATER)
        nodes[label - 1].checkpoint(end, epoch).write_bytes(snapshot(state, epoch, ms))

    write(1, 6, WRONG[:2])
    for end in wrong:
        write(1, end, WRONG)
    for label, end in right:
        write(label, end, STATE)
    rows = [one.row for one in found(audit(tmp_path), EQUALS)]
    told = {(int(one.replica or 0), one.offset) for one in rows}
    told |= {
        (int(one.replica or 0), it["offset"])
        for one in rows
        for it in one.evidence.get("later", ())
    }
    assert told == blamed


def begun_older(root: Path) -> None:
    """Voter 3 begins at a snapshot of epoch 1 where the others end in epoch 2. It removes a topic that
    its snapshot has, and theirs has not.
    """
    node = quorum(root)[2]
    node.segment(0).unlink()
    node.segment(6).unlink()
    node.checkpoint(6, 1).unlink()
    stored = [*healthy_state(), Batch(0, 1, (topic("other", 9),))]
    node.checkpoint(12, 1).write_bytes(snapshot(stored, 1, LATER))
    node.segment(12).write_bytes(Batch(12, 1, (remove_topic(9),), None, LATER).raw())
    node.epochs([(1, 12)])


def test_what_is_of_an_older_epoch_does_not_follow(tmp_path: Path) -> None:
    begun_older(tmp_path)
    result = audit(tmp_path)
    assert [one.check for one in result.findings if one.severity == "critical"] == [
        "snapshot_epoch_agrees"
    ]
    outcome, why = reason(result, "references_exist")
    assert outcome == "skipped"
    assert "from offset 12 on is of an older epoch" in why


def test_what_is_of_an_older_epoch_is_told_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun_older(tmp_path)
    assert main(["explain", "12-12", "--input", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "only in the log of 3" in told.out
    assert "topic other (id AAAAAAAAAAAAAAAAAAAACQ) is removed" in told.out
    assert "not known" not in told.err


@pytest.mark.parametrize("at, epoch", [(15, 1), (10, 0)])
def test_a_copy_of_an_older_history_behind_a_hole_or_amid_the_others_is_told_from_its_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], at: int, epoch: int
) -> None:
    """Its log begins behind where the others end, or at an offset that they hold in a newer epoch."""
    node = quorum(tmp_path)[2]
    node.segment(0).unlink()
    node.segment(6).unlink()
    node.checkpoint(6, 1).unlink()
    stored = [*healthy_state(), Batch(0, epoch, (topic("other", 9),))]
    node.checkpoint(at, epoch).write_bytes(snapshot(stored, epoch, LATER))
    node.segment(at).write_bytes(Batch(at, epoch, (remove_topic(9),), None, LATER).raw())
    node.epochs([(epoch, at)])
    assert main(["explain", f"{at}-{at}", "--input", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "only in the log of 3" in told.out
    assert "topic other (id AAAAAAAAAAAAAAAAAAAACQ) is removed" in told.out
    assert "not known" not in told.err
