"""Where copies leave the history: what a lost epoch says of a copy that lags, and what was committed
by a snapshot that a leader went on without.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.committed import committed_in
from kraftlog.quorum.copy_times import described_alone_from
from kraftlog.quorum.describe import described_beside
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.pairs import Kinship, ordered_pairs
from kraftlog.recover.ranking import restore_rows
from kraftlog.recover.recovery_plan import unknown
from kraftlog.recover.source import Cause, recovered
from kraftlog.simulate.restart import restarts
from kraftlog.simulate.troubles import Safety
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    START_MS,
    Batch,
    Node,
    audit,
    describe,
    healthy_log,
    healthy_state,
    leader_change,
    quorum,
    snapshot,
)
from tests.unit.test_audit_quorum import found, quorum_of

LATER = START_MS + 20_000
AT = 9
"""An offset inside epoch 2 of the healthy log, which goes to 12."""


def begun(epoch: int, leader: int, granted: Sequence[int], at: int = AT) -> list[Batch]:
    """The healthy log up to an offset, from which a leader of a newer epoch went on."""
    log = [one for one in healthy_log() if one.base < at]
    newer = Batch(at + 1, epoch, (NO_OP,), None, LATER)
    return [*log, leader_change(at, epoch, leader, LATER, granted), newer]


def written(
    root: Path, number: int, log: Sequence[Batch], epoch: int, leader: int, ends: int = 0
) -> Node:
    """A node's folder, without a snapshot, or with one of the healthy log's end."""
    node = Node(root, number)
    node.write(log)
    node.checkpoint(6, 1).unlink()
    if ends:
        raw = snapshot(healthy_state(), 2, START_MS + 9000)
        node.checkpoint(ends, 2).write_bytes(raw)
    begins = {one.epoch: one.base for one in reversed(log)}
    node.epochs(sorted(begins.items()))
    node.quorum_state(leaderId=leader, leaderEpoch=epoch)
    return node


@pytest.mark.parametrize("ends", [0, 12])
def test_a_lost_epoch_says_nothing_against_who_lags(ends: int, tmp_path: Path) -> None:
    """Broker 12 has a tail of epoch 3, which epoch 4 went on without."""
    for number in (1, 2, 3):
        written(tmp_path, number, begun(4, 1, (1, 3), 12), 4, 1)
    written(tmp_path, 11, healthy_log(), 4, 1, ends)
    written(tmp_path, 12, begun(3, 2, (2, 3)), 3, 2)
    seen = quorum_of(tmp_path)
    assert (seen.tail_starts, seen.fork_starts) == ({"12": AT}, {})
    told = {one.replica: one.safety for one in restarts(seen)}
    assert told == dict.fromkeys(("1", "2", "3", "11"), Safety.SAFE) | {"12": Safety.LOSES}
    kinships = {
        (one.comparison.one.label, one.comparison.other.label): one.kinship
        for one in ordered_pairs(seen)
    }
    assert kinships["11", "12"] == kinships["12", "11"] == Kinship.UNCOMMITTED
    assert not [one for one in audit(tmp_path).findings if one.severity == "critical"]


@pytest.mark.parametrize("epoch", [3, 5])
def test_a_leader_that_only_a_describe_tells_of_may_have_had_a_tail(
    epoch: int, tmp_path: Path
) -> None:
    """Of a newer epoch than all logs; and the tail is no copy of what it has committed."""
    for number in (1, 2, 3):
        node = written(tmp_path, number, begun(3, 1, (1, 3)), 3, 1)
    written(tmp_path, 12, healthy_log(), 2, 2)
    describe(node, 1, epoch, 12)
    replicas = find_replicas([str(tmp_path)])
    seen = Quorum(collect(replicas, LIMITS, Redactor(None), described_beside(replicas)))
    assert seen.tail_starts == {"12": AT}
    assert seen.never_committed == (frozenset() if epoch == 5 else {"12"})
    assert described_alone_from(seen) == (11 if epoch == 3 else None)


def test_what_is_told_to_be_committed_and_no_copy_gives_is_lost(tmp_path: Path) -> None:
    """A describe told it, and all copies are older."""
    describe(quorum(tmp_path)[2], 2, 2, 40)
    replicas = find_replicas([str(tmp_path)])
    seen = Quorum(collect(replicas, LIMITS, Redactor(None), described_beside(replicas)))
    (told,) = [one for one in unknown(recovered(seen)) if "is lost, unless" in one]
    assert told == (
        "What offsets 12 to 39 changed: they are committed (kafka-metadata-quorum describe gave this high watermark), and no copy at hand gives them. "
        "It is lost, unless a copy is found that does."
    )


def test_an_epoch_checkpoint_of_a_lost_epoch_says_nothing_against_who_lags(tmp_path: Path) -> None:
    written(tmp_path, 1, begun(4, 1, (1, 3), 12), 4, 1)
    written(tmp_path, 11, healthy_log(), 4, 1)
    lost = written(tmp_path, 12, [one for one in healthy_log() if one.base < AT], 3, 2)
    lost.epochs([(1, 0), (2, 8), (3, AT)])
    assert quorum_of(tmp_path).replaced == {}


@pytest.mark.parametrize("begins", [0, AT, 11, 12])
def test_a_snapshot_tells_that_it_was_committed_before_a_fork(begins: int, tmp_path: Path) -> None:
    """Whose log begins behind the fork holds the fork's first offset in its snapshot. Where it holds a
    batch of the fork, it is of that side, and the log that leads up to its snapshot bears that out.
    """
    written(tmp_path, 1, begun(3, 1, (1, 2)), 3, 1)
    more = [*healthy_log(), Batch(12, 2, (NO_OP,), None, LATER)]
    voter = written(tmp_path, 2, [one for one in more if one.base >= begins], 2, 3, 12)
    written(tmp_path, 3, healthy_log(), 2, 3)
    seen = quorum_of(tmp_path)
    assert seen.never_committed == frozenset()
    assert seen.fork_starts == {"3": AT} | ({"2": max(AT, begins)} if begins < 12 else {})
    told = {one.replica: one for one in restarts(seen)}
    assert told["3"].safety == Safety.UNSAFE
    if begins < 12:
        other = (
            "it holds another history, which parts from that of the other copies below offset 11"
        )
        why = (
            other
            if begins == 11
            else f"from offset {AT} on it holds another history than replica 1"
        )
        assert (told["2"].safety, told["2"].reason) == (Safety.UNSAFE, why)
    row = next(one for one in restore_rows(seen) if one["replica"] == "2")
    refused = f"its snapshot {voter.checkpoint(12, 2).name} does not count: a newer epoch than 2 begins at offset {AT} of 1"
    assert (refused in row["reasons"]) == (begins > 0)
    result = audit(tmp_path)
    assert not found(result, "snapshot_epoch_agrees")
    by = "" if begins == AT else " by voters 1, 2 and 3"
    texts = [one.row.message for one in found(result, "committed_data_consistent")]
    assert begins > AT or f"records there, committed{by} in epoch 2." in "".join(texts)


def fetched_anew(root: Path, number: int, heard: int, epoch: int = 3) -> Node:
    """A node that the leader of an epoch has sent a snapshot, and nothing else yet."""
    node = written(root, number, [], heard, -1)
    node.checkpoint(11, epoch).write_bytes(snapshot(healthy_state(), epoch, LATER))
    node.segment(11).write_bytes(b"")
    return node


@pytest.mark.parametrize("heard, stale", [(3, (12,)), (3, (2, 12)), (2, (12,)), (3, (2, 3))])
def test_a_snapshot_of_a_newer_epoch_outruns_a_log_that_was_left_behind(
    heard: int, stale: tuple[int, ...], tmp_path: Path
) -> None:
    """Its last offset is of an older epoch in a log that ends before that epoch began: a tail, unless
    the snapshot's own node has not heard of the epoch, or a majority of the voters has not.
    """
    fetched_anew(tmp_path, 1, heard)
    for number in stale:
        written(tmp_path, number, healthy_log(), 2, 2)
    seen, is_outrun = quorum_of(tmp_path), heard == 3 and stale != (2, 3)
    told = found(audit(tmp_path), "snapshot_epoch_agrees")
    assert [one.row.replica for one in told] == ([] if is_outrun else ["1"])
    assert seen.confirmed_ends == (dict.fromkeys(map(str, stale), 0) if is_outrun else {})
    plan = recovered(seen)
    assert (plan.image.end_offset, plan.image.epoch) == ((11, 3) if is_outrun else (12, 2))
    if is_outrun:
        assert plan.proven.offset == seen.bounds.lower == 11
        assert sorted(label for label, _ in plan.unseen) == sorted(map(str, stale))
        why = "the others went on in a newer epoch without the end of its log, from where on is out of sight: records below offset 12 are cut, and may have been committed"
        assert {one.reason for one in restarts(seen) if one.replica != "1"} == {why}


@pytest.mark.parametrize(
    "noted, is_outrun", [([(3, 11)], True), ([], True), ([(1, 0), (2, 8)], False)]
)
def test_without_its_quorum_state_the_epoch_checkpoint_tells_what_a_node_has_heard_of(
    noted: list[tuple[int, int]], is_outrun: bool, tmp_path: Path
) -> None:
    """The snapshot may be the only copy at hand of what is committed: it is not to be set aside."""
    node = fetched_anew(tmp_path, 1, 3)
    (node.folder / "quorum-state").unlink()
    node.epochs(noted)
    written(tmp_path, 12, healthy_log(), 2, 2)
    told = found(audit(tmp_path), "snapshot_epoch_agrees")
    assert [one.row.replica for one in told] == ([] if is_outrun else ["1"])
    assert (recovered(quorum_of(tmp_path)).image.epoch == 3) == is_outrun


def test_what_one_log_proves_is_not_proven_of_another_history(tmp_path: Path) -> None:
    """Voters 3, 4 and 5 had lost their disks when they elected voter 2; 5 may have led later."""
    every = (1, 2, 3, 4, 5)
    anew = [leader_change(0, 7, 2, LATER, (2, 3, 4), every)]
    empty = [written(tmp_path, number, [], 8, -1) for number in (3, 4)]
    for node in empty:
        node.segment(0).write_bytes(b"")
    nodes = [written(tmp_path, 1, healthy_log(), 8, -1, 12), *empty]
    nodes += [written(tmp_path, number, anew, 7, 2) for number in (2, 11)]
    for node in nodes:
        state = json.loads((node.folder / "quorum-state").read_text())
        node.quorum_state(**state | {"currentVoters": [{"voterId": one} for one in every]})
    seen = quorum_of(tmp_path)
    assert (seen.bounds.lower, seen.proven_by) == (8, "1")
    assert (committed_in(seen, "1").offset, committed_in(seen, "11").offset) == (8, 0)
    plan = recovered(seen)
    assert (plan.image.epoch, plan.proven.offset) == (7, 0)
    (left,) = plan.left_out
    assert (left.replica, left.start_offset, left.cause, left.committed) == (
        "1",
        0,
        Cause.UNPROVEN,
        8,
    )


@pytest.mark.parametrize("heard, found", [(2, {"1": AT}), (3, {"1": AT}), (4, {})])
def test_a_leader_went_on_without_what_a_snapshot_holds(
    heard: int, found: dict[str, int], tmp_path: Path
) -> None:
    """Unless the snapshot may be of a later leader, who had it, and whose voter is missing."""
    written(tmp_path, 1, healthy_log(), heard, -1, 12)
    written(tmp_path, 3, begun(3, 3, (2, 3)), 3, 3)
    assert quorum_of(tmp_path).fork_starts == found


def test_of_voters_at_hand_none_led_later(tmp_path: Path) -> None:
    written(tmp_path, 1, healthy_log(), 4, -1, 12)
    written(tmp_path, 2, [one for one in healthy_log() if one.base < AT], 3, 3)
    written(tmp_path, 3, begun(3, 3, (2, 3)), 3, 3)
    assert quorum_of(tmp_path).fork_starts == {"1": AT}


@pytest.mark.parametrize("last", [3, 4, 5])
def test_voters_go_on_without_what_they_had_committed_in_newer_epochs_too(
    last: int, tmp_path: Path
) -> None:
    """Voters 2 and 3 were started with older copies of their disks, and elected a leader of epoch 4 at
    an offset that a snapshot holds. Before that the quorum had come as far, or farther: then a leader
    of those would cut the others, and they are the second history.
    """
    voter = written(tmp_path, 1, healthy_log(), 3, 2, 12)
    assert voter.checkpoint(12, 2).exists()
    written(tmp_path, 11, [*healthy_log(), leader_change(12, last, 3, LATER, (2, 3))], last, 3, 12)
    for number in (2, 3):
        written(tmp_path, number, begun(4, 3, (2, 3)), 4, 3)
    second = {"2", "3"} if last == 5 else {"1", "11"}
    assert quorum_of(tmp_path).fork_starts == dict.fromkeys(second, AT)
    told = found(audit(tmp_path), "committed_data_consistent")
    assert sorted(one.row.replica or "" for one in told) == sorted(second)
    assert all("Never start nodes of both sides together" in one.row.message for one in told)


@pytest.mark.parametrize(
    ("sides", "second"),
    [
        ({1: (1, 12), 2: (2, 11)}, (1, 12)),
        ({1: (1, 3), 2: (2,)}, (2,)),
        ({3: (3, 1), 2: (2,)}, (2,)),
    ],
)
def test_a_second_history_is_that_of_all_copies_of_its_side(
    sides: dict[int, tuple[int, ...]], second: tuple[int, ...], tmp_path: Path
) -> None:
    """Two nodes were started alone, under one cluster id, and others follow them: no copy is told apart
    from those that hold the same, whatever they are called.
    """
    for leader, numbers in sides.items():
        ms, alone = START_MS + leader, (leader,)
        log = [leader_change(0, 1, leader, ms, alone, alone), Batch(1, 1, (NO_OP,), None, ms)]
        for number in numbers:
            node = written(tmp_path, number, log, 1, leader)
            node.quorum_state(leaderId=leader, leaderEpoch=1, currentVoters=[{"voterId": leader}])
    assert quorum_of(tmp_path).fork_starts == {str(one): 0 for one in second}
    told = found(audit(tmp_path), "committed_data_consistent")
    assert {one.row.replica for one in told} == {str(one) for one in second}


def test_a_damaged_epoch_in_the_last_header_of_a_copy_begins_no_second_history(
    tmp_path: Path,
) -> None:
    """No leader began the epoch: the others, which hold the same record, have left no history."""
    short = [one for one in healthy_log() if one.base < 7]
    odd = Batch(7, 257, (NO_OP,), None, healthy_log()[5].ms)
    for node in quorum(tmp_path)[2:]:
        node.segment(6).unlink()
        node.segment(0).unlink()
        node.write([*short, odd])
        node.epochs([(1, 0)])
    result = audit(tmp_path)
    told = [(one.check, one.row.replica) for one in result.findings if one.severity == "critical"]
    assert told == [("leader_change_starts_epoch", "3"), ("committed_data_consistent", "3")]
    assert not any("Two histories" in one.row.message for one in result.findings)
