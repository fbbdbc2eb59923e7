"""What several checks derive: voters, bounds of the high watermark, roles, truncation, and the
runner itself.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kraftlog.audit.check import BadRow, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.runner import audit_of, limited
from kraftlog.config import load_options
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import InputError
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum import divergence
from kraftlog.quorum.committed import committed_in
from kraftlog.quorum.copy_times import copy_explains
from kraftlog.quorum.describe import keeping_up, of_one_cluster, read_described
from kraftlog.quorum.divergence import Comparisons, alike_groups, compare, end_after_repair
from kraftlog.quorum.evidence import Described, LastFetch, QuorumEvidence
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.joining import busiest_hour
from kraftlog.quorum.lineages import lineages
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.replica_rows import replica_rows
from kraftlog.recover.recovery_plan import unknown
from kraftlog.recover.source import recovered
from kraftlog.simulate.plan_rows import fetch_rows
from kraftlog.simulate.restart import restarts
from kraftlog.simulate.troubles import Safety
from tests.collecting import collect
from tests.golden.cases import DATA, PARTITION
from tests.unit.audit_logs import (
    CLUSTER,
    FOLDER,
    HEADER_SIZE,
    NO_OP,
    START_MS,
    TRANSACTION,
    Batch,
    Node,
    audit,
    disk_text,
    feature,
    found,
    frame,
    healthy_log,
    healthy_state,
    leader_change,
    led_next,
    overwrite,
    quorum,
    replace_batch,
    snapshot,
    stopped,
    topic,
    voters_batch,
)
from tests.unit.faults.borders import copied_at, takes_over
from tests.unit.faults.cases import led_by
from tests.unit.faults.ends import (
    cut,
    ends_inside,
    of_another_quorum,
    rhythm,
    went_on_from_backups,
)
from tests.unit.faults.log import cut_inside
from tests.unit.faults.table import AT

LATER = START_MS + 60_000


def evidence_of(root: Path) -> QuorumEvidence:
    return collect(find_replicas([str(root)]), Limits(), Redactor(b"k" * 32))


def quorum_of(root: Path) -> Quorum:
    return Quorum(evidence_of(root))


def test_a_majority_that_agrees_bounds_what_is_committed(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER))
    bounds = quorum_of(tmp_path).bounds
    assert (bounds.lower, bounds.upper, bounds.majority) == (12, None, 2)
    assert "a majority of the voters" in bounds.lower_reason
    assert bounds.upper_reason == "nothing proves where the log of voters 1, 2 and 3 ended"


def test_nodes_that_were_stopped_prove_where_their_logs_ended(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    stopped(nodes[0], 12)
    stopped(nodes[1], 12)
    bounds = quorum_of(tmp_path).bounds
    # Voter 3, killed, may have held more, but made no majority by itself.
    assert (bounds.lower, bounds.upper, bounds.open_voters) == (12, 12, (3,))
    stopped(nodes[2], 12)
    assert quorum_of(tmp_path).bounds.open_voters == ()
    # A file that was allocated ahead is that of a node which was running.
    nodes[2].segment(6).with_suffix(".index").write_bytes(bytes(80))
    assert quorum_of(tmp_path).bounds.open_voters == (3,)


def test_a_stop_proves_an_end_for_the_moment_of_the_copy(tmp_path: Path) -> None:
    """Voters 1 and 2 may run again while voter 3 is stopped: its copy goes on from theirs."""
    nodes = quorum(tmp_path)
    nodes[2].append(Batch(12, 2, (topic("d", 9),), None, LATER))
    for node, end in zip(nodes, (12, 12, 13), strict=True):
        stopped(node, end)
    found = quorum_of(tmp_path)
    assert (found.bounds.lower, found.bounds.upper, found.bounds.open_voters) == (12, None, (1, 2))
    assert recovered(found).image.end_offset == 13
    assert "Whether offset 12 was committed: nothing at hand proves it." in " ".join(
        unknown(recovered(found))
    )


def test_without_quorum_states_an_unseen_leader_is_not_ruled_out(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    shutil.rmtree(nodes[2].home)
    assert quorum_of(tmp_path).bounds.lower == 12
    (nodes[0].folder / "quorum-state").unlink()
    found = quorum_of(tmp_path).bounds
    assert (found.lower, found.missing_voters) == (8, (3,))


def test_one_voter_shows_its_snapshot_and_what_its_newest_leader_went_by(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.write(healthy_log())
    found = quorum_of(tmp_path)
    assert (found.bounds.lower, found.bounds.upper) == (8, None)
    assert found.bounds.missing_voters == (2, 3)
    assert found.role(found.replicas[0]) == "voter"
    node.write(healthy_log()[:7])
    assert quorum_of(tmp_path).bounds.lower == 6


def _at_level(level: int) -> list[Batch]:
    """The healthy log, in which offset 7 sets metadata.version."""
    set_to = Batch(7, 1, (feature("metadata.version", level),))
    return [set_to if one.base == 7 else one for one in healthy_log()]


@pytest.mark.parametrize(("level", "lower"), [(11, 8), (12, 9)])
def test_a_leader_that_writes_has_committed_what_it_waits_for(
    level: int, lower: int, tmp_path: Path
) -> None:
    """Kafka 3.6 is the first that knows level 12, and that waits for the first record of its epoch."""
    node = Node(tmp_path, 1)
    node.write(_at_level(level))
    found = quorum_of(tmp_path).bounds
    assert (found.lower, found.shown) == (lower, lower)
    waits = "the first record of its epoch" if level == 12 else "all before its epoch"
    wrote = "replica 1 holds metadata that the leader of epoch 2 wrote, which it does only when"
    assert found.lower_reason == f"{wrote} {waits} is committed"
    # It may have raised the level itself; what a later epoch did says nothing of it.
    raised = Batch(11, 2, (feature("metadata.version", 12),))
    node.write([*_at_level(level)[:-1], raised])
    assert quorum_of(tmp_path).bounds.lower == 9
    node.write([*_at_level(level)[:-1], leader_change(11, 3, 3), replace(raised, base=12, epoch=3)])
    assert quorum_of(tmp_path).bounds.lower == 12


def test_the_level_that_a_leader_knew_may_stand_in_a_snapshot(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.write(healthy_log())
    node.segment(0).unlink()
    assert quorum_of(tmp_path).bounds.lower == 8
    levels = Batch(0, 1, (feature("metadata.version", 12), feature("transaction.version", 2)))
    node.checkpoint(6, 1).write_bytes(snapshot([levels], 1, START_MS + 3000))
    assert quorum_of(tmp_path).bounds.lower == 9


def test_voters_that_lack_what_a_leader_without_them_went_by(tmp_path: Path) -> None:
    """Two voters were set back to the end of epoch 1; the third one led, and holds what only a leader
    with a majority writes.
    """
    for number, batches in {1: 6, 2: 10, 3: 6}.items():
        node = Node(tmp_path, number)
        node.write(_at_level(12)[:batches])
        node.epochs([(1, 0), (2, 8)] if number == 2 else [(1, 0)])
    rows = rows_of(tmp_path, "voter_holds_committed_data")
    assert [(one.replica, one.severity, one.offset) for one in rows] == [
        ("1", "warning", 8),
        ("3", "warning", 8),
    ]
    assert not rows_of(tmp_path, "newest_leader_commits")
    assert {one.safety for one in restarts(quorum_of(tmp_path))} == {Safety.UNSAFE}
    # Without a record of its own after the first one, the leader may have had no majority.
    segment = tmp_path / "2" / FOLDER / f"{6:020d}.log"
    segment.write_bytes(b"".join(one.raw() for one in _at_level(12)[4:7]))
    assert not rows_of(tmp_path, "voter_holds_committed_data")
    assert rows_of(tmp_path, "newest_leader_commits")


def test_what_a_newer_leader_replaced_is_not_committed(tmp_path: Path) -> None:
    # Voters 1 and 3 share epoch 2, but an observer has seen epoch 3, whose leader is missing: it
    # went on from offset 11, and holds what was before.
    for number in (1, 3):
        Node(tmp_path, number).write(healthy_log())
    observer = Node(tmp_path, 9)
    observer.write([*healthy_log()[:-1], leader_change(11, 3, 2, LATER)])
    assert quorum_of(tmp_path).bounds.lower == 11


def test_what_a_newer_epoch_contradicts_is_not_committed(tmp_path: Path) -> None:
    """Two of three hold offset 11 of epoch 2; the third was elected in epoch 3 without it."""
    nodes = quorum(tmp_path)
    nodes[1].write([*healthy_log()[:-1], leader_change(11, 3, 2, LATER)])
    assert quorum_of(tmp_path).bounds.lower == 11


def written_by_two_leaders(root: Path, logs: dict[int, list[Batch]]) -> None:
    """Nodes that were stopped; each log goes on from offset 12."""
    for number, batches in logs.items():
        node = Node(root, number)
        node.write([*healthy_log(), *batches])
        starts = [(one.epoch, one.base) for one in batches if one.keys]
        node.epochs([(1, 0), (2, 8), *starts])
        node.quorum_state(leaderId=-1, leaderEpoch=batches[-1].epoch)
        stopped(node, batches[-1].end)


ALONE = Batch(12, 2, (topic("x", 9),), None, LATER)
"""What leader 1 of epoch 2 wrote before the others heard of it."""
WROTE_NOTHING = leader_change(12, 3, 3, LATER, granted=(2, 3))
"""All that controller 3 wrote, on its own disk, while it led epoch 3."""


@pytest.mark.parametrize("copies", [(1, 2, 3), (1, 3)])
def test_a_leader_that_wrote_nothing_is_cut(tmp_path: Path, copies: tuple[int, ...]) -> None:
    """Leader 1 came back in epoch 4 and committed what it had written in epoch 2."""
    goes_on = [
        ALONE,
        leader_change(13, 4, 1, LATER, granted=(1, 2)),
        Batch(14, 4, (topic("z", 8),), None, LATER),
    ]
    logs = {1: goes_on, 2: goes_on, 3: [WROTE_NOTHING]}
    written_by_two_leaders(tmp_path, {number: logs[number] for number in copies})
    findings = audit_of(quorum_of(tmp_path)).findings
    assert not [one for one in findings if one.severity == "critical"]
    (row,) = rows_of(tmp_path, "uncommitted_tail_diverged")
    assert (row.replica, row.offset) == ("3", 12)
    assert (
        "The tail is of epoch 3, and the other copies go on without it in epoch 4." in row.message
    )
    assert "None of it was committed (voters 1 and 2 elected the leader of epoch 4" in row.message


def test_a_majority_that_got_a_tail_from_a_later_leader_has_not_committed_it(
    tmp_path: Path,
) -> None:
    """Figure 8 of Raft: leader 1 spread it in epoch 4, and then 3 was elected once more."""
    spread = leader_change(13, 4, 1, LATER, granted=(1, 2))
    again = leader_change(13, 5, 3, LATER, granted=(2, 3))
    logs = {1: [ALONE, spread], 2: [ALONE], 3: [WROTE_NOTHING, again]}
    written_by_two_leaders(tmp_path, logs)
    findings = audit_of(quorum_of(tmp_path)).findings
    assert not [one for one in findings if one.severity == "critical"]
    rows = rows_of(tmp_path, "uncommitted_tail_diverged")
    told = [(row.replica, row.offset, row.evidence["is_proven_uncommitted"]) for row in rows]
    assert told == [("1", 12, False), ("2", 12, False)]


def test_whose_copies_may_tell_of_a_tail(tmp_path: Path) -> None:
    """First of all the one that is missing; those at hand are of another moment."""
    without_a_vote(tmp_path)
    shutil.rmtree(tmp_path / "11")
    log = quorum_of(tmp_path).by_label["1"]
    row = log.rows[log.index_at(176) + 1]  # all that the new leader wrote behind its election
    path = Path(log.path(row))
    path.write_bytes(path.read_bytes()[: int(log.evidence.log.positions[row])])
    rows = rows_of(tmp_path, "uncommitted_tail_diverged")
    told = " is not proven (a copy of voter 3 may tell, and so may those of voters 1 and 2, stopped and copied again): keep this folder"
    assert [told in row.message for row in rows] == [True, True]


def test_what_a_leader_wrote_shows_that_no_tail_was_committed_before(tmp_path: Path) -> None:
    """Whoever voter 2 may have voted for since: a later leader has the first record of epoch 2."""
    without_a_vote(tmp_path)
    rows = rows_of(tmp_path, "uncommitted_tail_diverged")
    assert [one.evidence["is_proven_uncommitted"] for one in rows] == [True, True]
    told = "None of it was committed (voters 1 and 3 elected the leader of epoch 2 without it)"
    assert all(told in one.message for one in rows)
    (broker,) = (one for one in restarts(quorum_of(tmp_path)) if one.replica == "12")
    assert broker.safety == Safety.LOSES
    assert broker.reason == "records from offset 176 on are cut; none of them was committed"


def without_a_vote(root: Path) -> None:
    """Two nodes whose log departed at offset 176, one without its vote, and a follower of the new leader."""
    shutil.copytree(DATA / "isolated" / "replicas", root, dirs_exist_ok=True)
    shutil.rmtree(root / "3")
    (root / "2" / PARTITION / "quorum-state").unlink()


def test_of_many_differences_the_first_ones_and_the_last_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second offset from 12 on."""
    monkeypatch.setattr(divergence, "RUN_LIMIT", 3)
    for node in quorum(tmp_path):
        for number in range(6):
            offset = 12 + 2 * number
            node.append(Batch(offset, 2, (topic(f"{node.node_id}", 10),), None, LATER))
            node.append(Batch(offset + 1, 2, (NO_OP,), None, LATER))
    (pair,) = (
        one
        for one in quorum_of(tmp_path).differing
        if (one.one.label, one.other.label) == ("1", "2")
    )
    assert [one.start for one in pair.runs] == [12, 14, 22]


def rows_of(root: Path, name: str) -> list[BadRow]:
    return [one.row for one in audit_of(quorum_of(root)).findings if one.check == name]


def test_where_no_snapshot_is_left_the_file_may_be_cut_at_one(tmp_path: Path) -> None:
    """A log that begins behind offset 0 had one."""
    nodes = quorum(tmp_path)
    cut_inside(nodes)
    assert len(rows_of(tmp_path, "epoch_checkpoint_agrees")) == 2
    nodes[0].checkpoint(6, 1).unlink()
    assert rows_of(tmp_path, "epoch_checkpoint_agrees") == []


@pytest.mark.parametrize(
    ("bases", "says"),
    [
        ([(5, 1)], "At offset 4, replica 3 has no record, and replica 1 has PRODUCER_IDS_RECORD("),
        ([(4, 0)], "At offset 5, replica 3 has no record, and replica 1 has TOPIC_RECORD(name=b"),
        ([(4, 0), (5, 1)], "At offset 4, replica 3 has other bytes with the same records"),
        ([(4, 1), (5, 0)], "At offset 4, replica 3 has TOPIC_RECORD(name=b, topicId="),
    ],
)
def test_the_first_record_that_differs_wherever_batches_begin(
    tmp_path: Path, bases: list[tuple[int, int]], says: str
) -> None:
    """Offsets 4 and 5 are one batch of two records; 3 has some of them in batches of their own."""

    def own(one: Batch) -> bytes:
        return b"".join(
            replace(one, base=base, values=one.values[at : at + 1]).raw() for base, at in bases
        )

    replace_batch(quorum(tmp_path)[2], 4, own)
    (row,) = rows_of(tmp_path, "committed_data_consistent")
    assert says in row.message


def test_epochs_that_nobody_holds_are_no_leaders_without_a_commit(tmp_path: Path) -> None:
    """Epoch 2 is on all; nobody won 3 and 4; 5 and 6 are on one voter of three."""
    nodes = quorum(tmp_path)
    nodes[0].append(leader_change(12, 5, 1, LATER), leader_change(13, 6, 1, LATER))
    (row,) = rows_of(tmp_path, "newest_leader_commits")
    assert row.evidence["leaders_without_commit"] == 2
    assert " 2 leaders in a row came no further, from epoch 5 on." in row.message


def test_a_leader_that_has_committed_is_none_that_came_no_further(tmp_path: Path) -> None:
    """Epoch 5 is on one voter of three, and a snapshot of it shows that it has committed."""
    nodes = quorum(tmp_path)
    nodes[0].append(leader_change(12, 5, 1, LATER))
    raw = snapshot(healthy_state(), 5, LATER)
    nodes[0].checkpoint(13, 5).write_bytes(raw)
    nodes[0].append(leader_change(13, 6, 1, LATER))
    assert not rows_of(tmp_path, "newest_leader_commits")
    for node in nodes[1:]:
        node.checkpoint(13, 5).write_bytes(raw)
    (row,) = rows_of(tmp_path, "newest_leader_commits")
    assert row.evidence["leaders_without_commit"] == 1
    assert "in a row" not in row.message


def test_a_voter_that_lags_says_nothing_of_the_last_leader_of_a_shutdown(tmp_path: Path) -> None:
    """Nobody was left to follow that leader; the voter that lags had not been copied from a clean
    stop, and lacks what is committed.
    """
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        node.quorum_state(leaderId=1, leaderEpoch=3)
        stopped(node, 12)
    cut(nodes[2], AT[10])
    assert [one.check for one in audit_of(quorum_of(tmp_path)).findings] == [
        "voter_holds_committed_data"
    ]
    # Of a running quorum, it would be told.
    nodes[1].segment(6).with_suffix(".index").unlink()
    assert rows_of(tmp_path, "newest_leader_commits")


def test_a_stop_that_leaves_a_producer_snapshot_alone_is_a_shutdown_too(tmp_path: Path) -> None:
    """Kafka 4.4 leaves the index as it was. A leader that ran had its first record behind that."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.quorum_state(leaderId=1, leaderEpoch=3)
        stopped(node, 12)
        node.segment(6).with_suffix(".index").unlink()
    assert not rows_of(tmp_path, "newest_leader_commits")
    led_next(nodes[0], 3, 1)
    assert rows_of(tmp_path, "newest_leader_commits")


def test_what_voters_have_lost_does_not_show_that_a_leader_committed_nothing(
    tmp_path: Path,
) -> None:
    """A majority held epoch 2, and says so; the third voter was not there."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.checkpoint(6, 1).unlink()
        cut(node, AT[8])
    nodes[2].epochs([(1, 0)])
    nodes[2].quorum_state(leaderId=1, leaderEpoch=1)
    assert {one.replica for one in rows_of(tmp_path, "log_end_lost")} == {"1", "2"}
    assert not rows_of(tmp_path, "newest_leader_commits")
    # The same of voters that never heard of it.
    for node in (nodes[0], nodes[2]):
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=2, leaderEpoch=2)
    assert rows_of(tmp_path, "newest_leader_commits")


def test_logs_that_share_no_batch_agree_nowhere(tmp_path: Path) -> None:
    """2 holds the first of its batches that can be read where 1 has a hole; in front of it both lack
    something, and behind it they differ.
    """
    nodes = quorum(tmp_path)
    for node, epoch in zip(nodes, (6, 1, 1), strict=True):
        for path in node.folder.glob("0000*"):
            path.unlink()
        node.epochs([(epoch, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=epoch)
    mine = [leader_change(0, 6, 1), Batch(1, 6, (NO_OP,)), Batch(2, 6, (NO_OP,))]
    mine += [Batch(4, 6, (NO_OP,)), Batch(5, 6, (NO_OP,))]
    nodes[0].segment(0).write_bytes(b"".join(one.raw() for one in mine))
    theirs = [Batch(base, 1, (NO_OP,), None, LATER) for base in range(3, 8)]
    for node in nodes[1:]:
        node.segment(0).write_bytes(bytes(300) + b"".join(one.raw() for one in theirs))
    shutil.rmtree(nodes[2].home)
    seen = quorum_of(tmp_path)
    for one, other in ("12", "21"):
        pair = seen.comparisons[one, other]
        assert (pair.common_start, pair.common_end, pair.begins_alike) == (3, 3, False)
    assert seen.surely_agree(*seen.logs) == 0
    assert (seen.bounds.lower, seen.bounds.shown) == (0, 0)
    # With nothing behind it, no offset is in both.
    nodes[1].segment(0).write_bytes(bytes(300) + theirs[0].raw())
    seen = quorum_of(tmp_path)
    assert not any(one.shares_offsets for one in seen.comparisons.values())
    assert seen.surely_agree(*seen.logs) == 0


@pytest.mark.parametrize("led", [True, False], ids=["it led the epoch", "nothing tells the epoch"])
def test_who_holds_another_history_holds_nothing_of_what_a_voter_has_lost(
    led: bool, tmp_path: Path
) -> None:
    nodes = quorum(tmp_path)
    nodes[0].append(leader_change(12, 3, 3, LATER))
    nodes[1].append(Batch(12, 2, (NO_OP,), None, LATER))
    if led:
        nodes[2].quorum_state(leaderId=3, leaderEpoch=3)
    else:
        (nodes[2].folder / f"{13:020d}.snapshot").touch()
    (row,) = rows_of(tmp_path, "log_end_lost")
    assert (row.replica, row.evidence["held_intact_by"]) == ("3", ["1"])


def test_a_clock_that_is_put_back_was_no_silence(tmp_path: Path) -> None:
    rhythm(quorum(tmp_path), 90_000, until=35)
    assert not rows_of(tmp_path, "leader_writes_on")
    assert rows_of(tmp_path, "timestamps_monotonic")


def test_where_no_no_ops_are_written_silence_is_none_of_a_leader(tmp_path: Path) -> None:
    """metadata.max.idle.interval.ms=0: a leader writes what is asked for, as fast as that comes."""
    rhythm(quorum(tmp_path), 900_000, value=topic("again", 9))
    assert not rows_of(tmp_path, "leader_writes_on")


def test_what_a_leader_has_committed_is_not_judged_without_a_voter(tmp_path: Path) -> None:
    shutil.rmtree(quorum(tmp_path)[2].home)
    results = {one.check: one for one in audit_of(quorum_of(tmp_path)).results}
    found = results["newest_leader_commits"]
    assert (found.judged, found.reason) == ((), "no copy of voter 3 is at hand")


def test_a_folder_that_holds_another_node_is_known_by_its_last_name(tmp_path: Path) -> None:
    nodes = [Node(tmp_path / host, 1) for host in "ab"]
    for node in nodes:
        node.write(healthy_log())
    nodes[1].meta(node_id=2, directory=2)
    (row,) = rows_of(tmp_path, "node_identity_unique")
    assert (row.replica, row.evidence) == ("b/1", {"node_id": 2, "folder": "1"})


@pytest.mark.parametrize(
    ("names", "swapped"),
    [
        (("c-1", "b-2", "b-3"), []),
        (("c-2", "b-1", "b-3"), ["b-1", "c-2"]),
        (("b-3", "c-2", "c-1"), ["b-3", "c-1"]),
        (("k-2", "k-3", "k-4"), []),  # hosts that count from another number
        (("c-2", "b-2", "b-3"), []),
        (("host", "b-1", "b-2"), []),
    ],
)
def test_folders_whose_numbers_are_those_of_the_nodes(
    names: tuple[str, ...], swapped: list[str], tmp_path: Path
) -> None:
    for node, name in zip(quorum(tmp_path / "q"), names, strict=True):
        node.home.rename(tmp_path / name)
    (tmp_path / "q").rmdir()
    assert sorted(one.replica or "" for one in rows_of(tmp_path, "node_identity_unique")) == swapped


def test_a_log_begins_for_kafka_at_the_name_of_its_first_segment(tmp_path: Path) -> None:
    """Two segments have each other's name: Kafka deletes no snapshot before the first batch."""
    node = quorum(tmp_path)[0]
    node.write(healthy_log(), cut=8)
    node.segment(6).unlink()
    swapped = node.segment(0).read_bytes()
    node.segment(0).write_bytes(node.segment(8).read_bytes())
    node.segment(8).write_bytes(swapped)
    assert not [*rows_of(tmp_path, "snapshot_below_log_start")]
    node.segment(0).unlink()
    (row,) = rows_of(tmp_path, "snapshot_below_log_start")
    assert row.evidence == {"log_start_offset": 8}


def test_voters_of_a_snapshot_behind_what_no_log_shows_contradict_nobody(tmp_path: Path) -> None:
    """The record of offset 12 names 1 and 2. What was between the logs' end, 13, and the snapshot
    at 20, which names 2 and 3, nobody holds.
    """
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, ms=LATER))
    ahead = nodes[0].checkpoint(20, 2)
    ahead.write_bytes(snapshot(healthy_log()[1:2], 2, LATER, voters=(2, 3)))
    assert str(ahead) not in {one.path for one in rows_of(tmp_path, "voter_sets_agree")}
    ahead.rename(nodes[0].checkpoint(13, 2))
    named = {one.path for one in rows_of(tmp_path, "voter_sets_agree")}
    assert str(nodes[0].checkpoint(13, 2)) in named


def test_voters_at_an_offset_that_no_batch_says_it_holds(tmp_path: Path) -> None:
    """The header says one record where there are two: the second one's offset is in no batch."""
    named = voters_batch(12, 2, 1, 2, 3, ms=LATER)
    key = (named.keys or ())[0]
    both = frame(0, key, named.values[0]) + frame(1, key, named.values[0])
    for node in quorum(tmp_path):
        node.append(replace(named, payload=both, count=2), Batch(14, 2, (NO_OP,), ms=LATER))
    said = audit(tmp_path)
    assert [one.check for one in said.results if one.result == "errored"] == []
    assert found(said, "batch_header_valid")
    assert not found(said, "voter_sets_agree")


@pytest.mark.parametrize("fetched", [False, True])
def test_by_records_no_majority_is_counted_by_a_file(fetched: bool, tmp_path: Path) -> None:
    """Its quorum-state counts for nothing; its configuration is told without an alarm."""
    for node in quorum(tmp_path):
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    broker = Node(tmp_path, 9)
    record = [voters_batch(12, 2, 1, 2, 3, ms=LATER)] if fetched else []
    broker.write([*healthy_log(), *record])
    broker.quorum_state(leaderId=2, leaderEpoch=2, currentVoters=[{"voterId": 4}])
    text = "controller.quorum.voters=4@a:9093\n"
    (broker.home / "server.properties").write_text(text)
    rows = rows_of(tmp_path, "voter_sets_agree")
    (row,) = rows
    assert (row.severity, row.evidence["source"]) == ("info", "controller.quorum.voters")
    assert (row.replica, row.evidence["looking"]) == ("9", ["9"])
    assert "no majority is counted by that setting any more. It looks for a leader" in row.message


def test_without_records_a_node_without_a_vote_counts_no_majority(tmp_path: Path) -> None:
    quorum(tmp_path)
    broker = Node(tmp_path, 9)
    broker.write(healthy_log())
    broker.quorum_state(leaderId=2, leaderEpoch=2, currentVoters=[{"voterId": 4}])
    text = "controller.quorum.voters=4@a:9093\n"
    (broker.home / "server.properties").write_text(text)
    rows = rows_of(tmp_path, "voter_sets_agree")
    assert [one.evidence["source"] for one in rows] == ["quorum-state", "controller.quorum.voters"]
    for one in rows:
        assert "This node has no vote: no majority is counted by that." in one.message
        assert one.evidence["disjoint_majorities"] == []
        assert "count different majorities" not in one.message
    assert rows[-1].message.endswith("name those that vote now.")


def test_voters_may_have_changed_one_at_a_time_where_a_log_has_a_hole(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    changes = [
        voters_batch(12 + at, 2, *ids, ms=LATER)
        for at, ids in enumerate([(1, 2, 3), (1, 2), (1, 2, 4)])
    ]
    for node in nodes:
        node.append(*changes, Batch(15, 2, (NO_OP,), None, LATER))
    segment = nodes[0].segment(6)
    overwrite(segment, segment.read_bytes().index(changes[1].raw()) + HEADER_SIZE, b"\xff")
    assert rows_of(tmp_path, "voter_changes_overlap") == []


@pytest.mark.parametrize(("copied_ms", "says"), [(-1, "usual in a copy"), (0, "Find out where")])
def test_a_snapshot_that_is_younger_than_the_copy_of_the_log(
    tmp_path: Path, copied_ms: int, says: str
) -> None:
    node = quorum(tmp_path)[0]
    node.checkpoint(20, 2).write_bytes(snapshot(healthy_log()[1:2], 2, LATER))
    copied = (LATER + copied_ms) * 1_000_000
    os.utime(node.segment(6), ns=(copied, copied))
    (row,) = rows_of(tmp_path, "snapshot_ahead_of_log")
    assert says in row.message


@pytest.mark.parametrize(("broker", "told_as"), [(11, "1"), (0, "0")])
def test_where_two_copies_stand_against_two_it_is_told_whose_state_is_told(
    broker: int, told_as: str, tmp_path: Path
) -> None:
    """A voter and a broker on either side; of the third voter there is no copy."""
    nodes = [*quorum(tmp_path), Node(tmp_path, broker), Node(tmp_path, 12)]
    shutil.rmtree(nodes[1].home)
    for node in nodes[3:]:
        node.write(healthy_log())
    for node in nodes[2:4]:
        replace_batch(node, 3, lambda one: replace(one, values=(topic("other", 78),)).raw())
    links = lineages(quorum_of(tmp_path))[0].links
    (at,) = np.flatnonzero(links.base == 3)
    assert links.logs[int(links.log[at])].label == told_as
    says = f"Until you know, the state is told as replica {told_as} has it."
    for name in ("committed_data_consistent", "log_matching"):
        assert [says in one.message for one in rows_of(tmp_path, name)] == [True] * 4


@pytest.mark.parametrize(
    ("end", "lower"),
    [(None, 9), (9, 9), (10, 14), (12, 14)],
    ids=["none", "before", "at", "behind"],
)
def test_what_is_committed_goes_on_behind_a_hole_that_a_snapshot_covers(
    end: int | None, lower: int, tmp_path: Path
) -> None:
    """Two of three voters lack offset 9. Whoever holds what follows held it, but that is not seen."""
    nodes = quorum(tmp_path)
    for node in nodes[:2]:
        replace_batch(node, 9, lambda one: b"")
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP,), None, LATER), Batch(13, 2, (NO_OP,), None, LATER))
    if end is not None:
        stamp = next(one.ms for one in healthy_log() if one.base == end - 1)
        nodes[0].checkpoint(end, 2).write_bytes(snapshot(healthy_state(), 2, stamp))
    found = quorum_of(tmp_path).bounds
    assert found.lower == lower
    why = f"a majority of the voters (1, 2, 3) holds the same batches from offset {end} on, and all below is committed"
    assert (found.lower_reason == why) == (lower == 14)


def test_a_newer_epoch_that_begins_after_a_batch_says_nothing_of_it(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[1].append(leader_change(12, 3, 2, LATER))
    assert quorum_of(tmp_path).bounds.lower == 12


def test_a_describe_gives_both_bounds(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    for node in nodes:
        (node.folder / "quorum-state").unlink()
    evidence = evidence_of(tmp_path)
    bounds = Quorum(replace(evidence, described=Described(9))).bounds
    # The copies go on after the describe, and more may have been committed meanwhile.
    assert (bounds.lower, bounds.upper) == (9, 12)
    bounds = Quorum(replace(evidence, described=Described(12))).bounds
    assert bounds.lower == bounds.upper == 12
    for older in (
        Described(8, 2, 1),
        Described(12, 2, 2, fetches=(LastFetch(2, 12, START_MS - 60_000),)),
    ):
        bounds = Quorum(replace(evidence, described=older)).bounds
        assert (bounds.lower, bounds.upper) == (older.high_watermark, None)
    for node in nodes[1:]:
        shutil.rmtree(node.home)
    evidence = evidence_of(tmp_path)
    # Voters that were not copied may have gone on since.
    bounds = Quorum(replace(evidence, described=Described(12))).bounds
    assert (bounds.lower, bounds.upper) == (12, None)
    assert (
        bounds.upper_reason
        == "no copy of voters 2 and 3 is at hand and nothing proves where the log of voter 1 ended"
    )


@pytest.mark.parametrize(
    ("described", "refuted"),
    [
        (Described(12, 3, 3), {"1": 11, "2": 11, "3": 11}),
        (Described(10, 1, 1), {"1": 8, "2": 8, "3": 8}),
        (Described(20, 1, 1), {"1": 8, "2": 8, "3": 8}),
    ],
)
def test_a_describe_that_no_log_agrees_with_shows_nothing_to_be_committed(
    described: Described, refuted: dict[str, int], tmp_path: Path
) -> None:
    """The record before a high watermark is of its leader's epoch; epoch 2 begins at offset 8."""
    nodes = quorum(tmp_path)
    for node in nodes:
        (node.folder / "quorum-state").unlink()
    evidence = replace(evidence_of(tmp_path), described=described)
    found = Quorum(evidence)
    assert found.refuted == refuted
    assert found.bounds.lower == 8
    assert recovered(found).proven.offset == 8
    for node in nodes:
        node.quorum_state(leaderId=2, leaderEpoch=2)
    found = Quorum(replace(evidence_of(tmp_path), described=described))
    assert found.bounds.lower == 12
    why = f"no copy at hand holds what the describe tells to be committed below offset {described.high_watermark}"
    told = restarts(found)
    assert {one.safety for one in told} == {Safety.UNKNOWN}
    assert all(one.reason.startswith(why) for one in told)


def test_logs_that_end_before_a_newer_epoch_of_a_describe_may_hold_what_was_cut(
    tmp_path: Path,
) -> None:
    for node in quorum(tmp_path):
        (node.folder / "quorum-state").unlink()
    evidence = evidence_of(tmp_path)
    found = Quorum(replace(evidence, described=Described(20, 3, 3)))
    why = "the describe tells that everything below offset 20 is committed, and not that this log holds it"
    assert (found.bounds.lower, found.bounds.shown) == (20, 8)
    assert committed_in(found, "1") == (8, why)
    assert recovered(found).proven == (8, why)
    found = Quorum(replace(evidence, described=Described(20, 2, 2)))
    assert committed_in(found, "1") == (20, found.bounds.lower_reason)
    assert recovered(found).proven == (12, found.bounds.lower_reason)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_log_that_goes_on_otherwise_than_a_describe_tells(is_cut: bool, tmp_path: Path) -> None:
    """Voters 2 and 3 were set back, and elected another leader."""
    nodes = quorum(tmp_path)
    for node in nodes[1:]:
        node.write([*healthy_log()[:-2], leader_change(10, 3, 2, LATER)])
        node.append(*(Batch(at, 3, (NO_OP,), None, LATER) for at in (11, 12)))
    if is_cut:
        nodes[0].write(healthy_log()[:-2])

    def told(check: str) -> dict[str | None, tuple[str, int | None]]:
        found = audit_of(Quorum(replace(evidence_of(tmp_path), described=Described(12, 2, 2))))
        rows = [one for one in found.findings if one.check == check]
        return {one.row.replica: (one.severity, one.row.offset) for one in rows}

    found = Quorum(replace(evidence_of(tmp_path), described=Described(12, 2, 2)))
    assert (found.vouched_for, found.refuted) == ({"1"}, {"2": 10, "3": 10})
    assert found.never_committed == frozenset()
    if is_cut:
        assert told("voter_holds_committed_data")["2"] == ("warning", 10)
    else:
        assert told("committed_data_consistent") == {"1": ("critical", 10)}
    # Without voter 3 only the describe tells what is committed.
    shutil.rmtree(nodes[2].home)
    found = Quorum(replace(evidence_of(tmp_path), described=Described(12, 2, 2)))
    assert (found.bounds.lower, found.bounds.shown) == (12, 10)
    assert committed_in(found, "2").offset == 10
    assert told("voter_holds_committed_data")["2"] == ("critical", 10)


def test_a_change_of_voters_waits_for_the_one_before(tmp_path: Path) -> None:
    """Only what a leader writes with the first batch of its epoch does not."""
    nodes = quorum(tmp_path)
    one, two, three = (
        voters_batch(12 + at, 2, *ids, ms=LATER)
        for at, ids in enumerate(([1, 2, 3], [1, 2], [1, 2, 3]))
    )
    nodes[1].append(one, two)
    bounds = quorum_of(tmp_path).bounds
    why = "replica 2 holds the next change of voters at offset 13, which a leader makes only when the one before is committed"
    assert (bounds.lower, bounds.lower_reason) == (13, why)
    nodes[1].append(three)
    assert quorum_of(tmp_path).bounds.lower == 14
    nodes[1].write([*healthy_log(), one, replace(two, epoch=3)])
    assert quorum_of(tmp_path).bounds.lower == 12


def test_describe_is_read_in_both_of_its_forms() -> None:
    status = "LeaderId:   2\nLeaderEpoch: 4\nHighWatermark: 1806\nCurrentVoters: [1,2,3]\n"
    assert read_described(status) == Described(1806, 2, 4, (1, 2, 3))
    newer = 'HighWatermark: 5\nCurrentVoters: [{"id": 1, "endpoints": []}]\n'
    assert read_described(newer).voters == (1,)
    assert read_described("ClusterId:\nHighWatermark: 5\n").cluster_id == ""
    # A leader that has just been elected does not know it.
    assert read_described("LeaderId: 2\nHighWatermark: -1\n") == Described(None, 2)
    with pytest.raises(ValueError, match="no line HighWatermark"):
        read_described("nothing of the kind")


def test_the_table_of_a_describe_tells_who_fetched_what() -> None:
    head = "NodeId\tDirectoryId           \tLogEndOffset\tLag \tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  "
    rows = (
        "3     \tAAAAAAAAAAAAAAAAAAAAAA\t9           \t0   \t1795625673487     \t1795625673487        \tLeader  ",
        "1     \tAAAAAAAAAAAAAAAAAAAAAA\t-1          \t10  \t-1                \t-1                   \tFollower",
        "2     \tnSq4qNKnQjGyVpOwm9GPgg\t8           \t1   \t1795625673480     \t1795625673452        \tFollower",
        "11    \tnSq4qNKnQjGyVpOwm9GPgg\t8           \t1   \t5 ms ago          \t5 ms ago             \tObserver",
        "2     \tDmhVAByDzAsoIMGOut7ABg\t8           \t1   \t1795625673480     \t1795625673452        \tObserver",
        "cut",
    )
    fetches = read_described("\n".join(["HighWatermark: 8", "", head, *rows])).fetches
    assert fetches == (
        LastFetch(3, 9, 1795625673487, 1795625673487),
        LastFetch(2, 8, 1795625673480, 1795625673452, "nSq4qNKnQjGyVpOwm9GPgg"),
        LastFetch(2, 8, 1795625673480, 1795625673452, "DmhVAByDzAsoIMGOut7ABg", False),
    )
    # Kafka before 3.9 names no directories.
    older = "NodeId\tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus\n2\t8\t1\t70\t70\tFollower"
    assert read_described(f"HighWatermark: 8\n{older}").fetches == (LastFetch(2, 8, 70, 70),)


@pytest.mark.parametrize(("case", "up"), [("voter-replaced", {1, 3}), ("voter-readded", {1, 2, 3})])
def test_of_two_disks_of_a_node_the_one_keeps_up_that_votes_and_runs(
    case: str, up: set[int]
) -> None:
    """Node 2 runs with a new disk, by the describes of two golden quorums: as an observer at first,
    while the old one had fetched two seconds before, then as the voter.
    """
    is_voter = case == "voter-readded"
    rows = (
        LastFetch(1, 111, 1795301738045, 1795301738045, "ZvndzylOThCts_agrw5GAA"),
        LastFetch(2, 72, 1795301736301, 1795301736233, "yD7wSNglQZe1f8nw8v9c1Q", not is_voter),
        LastFetch(3, 111, 1795301737897, 1795301737897, "dURSr3cnQiWwq5Lvvgu7zQ"),
        LastFetch(11, 111, 1795301737897, 1795301737897, "wAsiFcM_bd_CMs3Xs3wBzg", False),
        LastFetch(2, 111, 1795301737897, 1795301737897, "DmhVAByDzAsoIMGOut7ABg", is_voter),
    )
    assert keeping_up(Described(111, 1, 1, (1, 2, 3), fetches=rows)) == up
    assert keeping_up(Described(111, 1, 1, (1, 2, 3), fetches=rows[::-1])) == up


def test_a_describe_of_another_cluster_is_known(tmp_path: Path) -> None:
    quorum(tmp_path)
    evidence = evidence_of(tmp_path)
    text = "ClusterId: {}\nHighWatermark: 9\n"
    other = replace(evidence, described=read_described(text.format("elsewhere")))
    with pytest.raises(InputError, match="it describes cluster elsewhere, which is not that"):
        of_one_cluster(other, load_options())
    for mine in (replace(other, described=read_described(text.format(CLUSTER))), evidence):
        assert of_one_cluster(mine, load_options()) is mine


def test_truncation_follows_the_epochs(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    nodes[2].append(Batch(12, 2, (NO_OP, NO_OP), None, LATER))
    nodes[0].append(leader_change(12, 3, 1, LATER))
    found = quorum_of(tmp_path)
    logs = found.by_label
    assert end_after_repair(logs["3"], logs["1"]) == 12
    assert end_after_repair(logs["2"], logs["1"]) == 12
    assert end_after_repair(logs["1"], logs["2"]) == 12


@pytest.mark.parametrize(
    ("tail", "lost"),
    [
        ([NO_OP], "1 record (72 bytes, all of them no-ops)"),
        # Where the other logs have ended nobody has looked.
        ([NO_OP, NO_OP], "2 records (144 bytes)"),
        ([topic("d", 4), NO_OP], "2 records (162 bytes, among them 1 TOPIC_RECORD)"),
    ],
)
def test_what_a_tail_loses_without_its_state(tmp_path: Path, tail: list[bytes], lost: str) -> None:
    nodes = quorum(tmp_path)
    nodes[2].append(*(Batch(12 + n, 2, (one,), None, LATER) for n, one in enumerate(tail)))
    for node in nodes[:2]:
        node.append(leader_change(12, 3, 1, LATER))
    evidence = collect(find_replicas([str(tmp_path)]), Limits(), Redactor(None), replay=False)
    (told,) = [
        one.row for one in audit_of(Quorum(evidence)).findings
        if one.check == "uncommitted_tail_diverged"
    ]  # fmt: skip
    assert f"Lost: {lost}." in told.message


def test_the_busiest_hour_begins_where_its_first_leader_does_in_the_log(tmp_path: Path) -> None:
    """The leader of epoch 3 had a clock that went ahead: by time it comes last, and not first."""
    hour = 3_600_000
    for name, times, busiest in (
        ("ahead", (9 * hour, 0, 1, 2), (3, 13)),
        ("together", (2, 0, 9 * hour, 1), (3, 12)),
        ("on the edge", (0, hour - 1, 5 * hour, 9 * hour), (2, 12)),
        ("behind it", (hour, 0, 5 * hour, 9 * hour), (1, 8)),
    ):
        node = Node(tmp_path / name, 1)
        # The election of epoch 2, at offset 8, lies hours before.
        node.write(healthy_log())
        first = START_MS + 100 * hour
        node.append(*(leader_change(12 + n, 3 + n, 1, first + ms) for n, ms in enumerate(times)))
        most, at = busiest_hour(quorum_of(tmp_path / name).by_label["1"])
        assert at is not None
        assert (most, at.start_offset) == busiest, name


def test_equal_logs_are_compared_once(tmp_path: Path) -> None:
    """Logs that end earlier, differ within or lack a batch in their middle are none."""
    quorum(tmp_path)
    nodes = [Node(tmp_path, number) for number in range(4, 9)]
    for node in nodes:
        node.write(healthy_log()[:8])
    for node in nodes[:2]:
        node.append(Batch(10, 9, (NO_OP,)))
    overwrite(nodes[4].segment(6), HEADER_SIZE, b"\xff")
    seen = quorum_of(tmp_path)
    assert len({one.batches for one in seen.logs}) == 4
    for (one, other), pair in seen.comparisons.items():
        direct = compare(seen.by_label[one], seen.by_label[other])
        assert (pair.one, pair.other) == (direct.one, direct.other)
        assert pair.common_end == direct.common_end
        for mine, theirs in zip(pair.runs, direct.runs, strict=True):
            assert repr(mine) == repr(theirs)
    assert len({id(one.runs) for one in seen.differing}) < len(seen.differing)
    assert seen.differing is seen.differing


def test_an_audit_asks_each_copy_and_not_each_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers that were copied at moments of their own: of twice as many the audit asks twice as
    much.
    """
    asked = Counter[str]()
    for kind, name in ((Comparisons, "__getitem__"), (LogView, "index_at"), (LogView, "covers")):
        whole = getattr(kind, name)

        def counted(self: Any, *of: Any, name: str = name, whole: Any = whole) -> Any:
            asked[name] += 1
            return whole(self, *of)

        monkeypatch.setattr(kind, name, counted)
    counts = []
    for brokers in (20, 40):
        home = tmp_path / str(brokers)
        quorum(home)
        for number in range(4, 4 + brokers):
            node = Node(home, number)
            node.write(healthy_log()[: 7 + number % 4])
        asked.clear()
        audit_of(Quorum(evidence_of(home)))
        counts.append(dict(asked))
    few, many = counts
    assert {name: count for name, count in many.items() if count > 2.2 * few[name]} == {}


def test_logs_that_differ_nowhere_are_of_one_group(tmp_path: Path) -> None:
    """However they begin and end, and whatever they lack; one that differs is of another, and with it
    who holds what differs.
    """
    quorum(tmp_path)
    for number, batches in ((4, healthy_log()[:4]), (5, healthy_log()[6:])):
        Node(tmp_path, number).write(batches)
    for number in (6, 7):
        node = Node(tmp_path, number)
        node.write(healthy_log()[:8])
        node.append(Batch(10, 9, (NO_OP,)))
    seen = quorum_of(tmp_path)
    groups = alike_groups(seen.logs)
    assert [groups[one] for one in "1234567"] == [0, 0, 0, 0, 0, 1, 1]
    apart = {(one.one.label, one.other.label) for one in seen.differing}
    every = permutations(seen.logs, 2)
    assert apart == {(one.label, two.label) for one, two in every if compare(one, two).runs}


def test_a_log_of_another_cluster_is_compared_with_nobody(tmp_path: Path) -> None:
    quorum(tmp_path)
    stranger = Node(tmp_path, 4)
    stranger.write([leader_change(0, 1, 3), *(Batch(n, 1, (NO_OP,)) for n in range(1, 9))])
    stranger.meta(cluster="elsewhere")
    result = audit_of(Quorum(evidence_of(tmp_path)))
    critical = {one.check for one in result.findings if one.severity == "critical"}
    assert "cluster_id_agrees" in critical
    assert not critical & {"committed_data_consistent", "log_matching", "single_leader_per_epoch"}


def test_a_log_of_another_cluster_goes_on_with_nothing_of_the_others(tmp_path: Path) -> None:
    """Not even where it begins at an offset at which a batch of theirs ends."""
    quorum(tmp_path)
    stranger = Node(tmp_path, 4)
    stranger.write([Batch(n, 1, (NO_OP,)) for n in range(6, 9)])
    stranger.meta(cluster="elsewhere")
    seen = Quorum(evidence_of(tmp_path))
    assert seen.foreign == {"4"}
    own = lineages(seen)[-1]
    assert (own.name, own.fork_offset) == ("4", 0)
    assert own.links.base.tolist() == [6, 7, 8]
    row = {one["replica"]: one for one in replica_rows(seen)}["4"]
    assert row["role"] == "unknown"
    assert (row["committed_lower"], row["committed_upper"]) == (None, None)
    assert seen.surely_agree(seen.by_label["4"], seen.by_label["1"]) == 0


@pytest.mark.parametrize("copies, verdict", [(3, "the others say"), (2, "that of 1 says")])
def test_of_two_clusters_the_more_frequent_is_the_usual_one(
    tmp_path: Path, copies: int, verdict: str
) -> None:
    nodes = quorum(tmp_path)
    for node in nodes[copies:]:
        shutil.rmtree(node.home)
    nodes[1].meta(cluster="another")
    rows = [
        one.row
        for one in audit_of(Quorum(evidence_of(tmp_path))).findings
        if one.check == "cluster_id_agrees"
    ]
    text = f"The meta.properties of 2 says cluster another, but {verdict} {CLUSTER}. "
    assert [row.message.startswith(text) for row in rows] == [True]


def test_which_cluster_is_the_usual_one_is_the_same_in_any_order(tmp_path: Path) -> None:
    """A file more that names its cluster makes a replica no more than one."""
    for name, cluster in (("a", CLUSTER), ("b", "another")):
        node = Node(tmp_path / name, 1)
        node.write(healthy_log())
        node.meta(cluster=cluster)
        node.quorum_state(clusterId=cluster if name == "b" else "", leaderId=2, leaderEpoch=2)
    for order in ("ab", "ba"):
        replicas = find_replicas([str(tmp_path / name) for name in order])
        seen = Quorum(collect(replicas, Limits(), Redactor(None), replay=False))
        assert list(seen.cluster_ids.items()) == [(CLUSTER, 1), ("another", 1)]


def test_what_a_transaction_was_before_a_hole_nobody_knows(tmp_path: Path) -> None:
    """Its end behind the hole is no mistake, and one more after it is."""
    for node in quorum(tmp_path):
        node.append(
            Batch(12, 2, (NO_OP,), None, LATER),
            Batch(15, 2, (TRANSACTION["end"],), None, LATER),
            Batch(16, 2, (NO_OP, TRANSACTION["end"], NO_OP), None, LATER),
        )
    rows = [
        one.row.offset
        for one in audit_of(Quorum(evidence_of(tmp_path))).findings
        if one.check == "transactions_well_formed"
    ]
    assert rows == [17]


def _breaks(quorum: Quorum) -> Iterator[BadRow]:
    yield BadRow("1", "told before it broke")
    raise RuntimeError("boom")


def _holds(quorum: Quorum) -> Iterator[BadRow]:
    yield from ()


def _nothing(quorum: Quorum) -> Coverage:
    return Coverage((), (), "no files of that kind")


def _half(quorum: Quorum) -> Coverage:
    return Coverage(("1",), (("2", "it cannot be read"),))


def _fails(quorum: Quorum) -> Iterator[BadRow]:
    yield BadRow("2", "bad")


TOLD: Any = {"meaning": "-", "advice": "-", "action": "know"}


@pytest.mark.breaks_a_check
def test_a_broken_check_is_errored_and_hides_no_other(tmp_path: Path) -> None:
    quorum(tmp_path)
    evidence = evidence_of(tmp_path)
    declared = partial(check, scope="log", source="-", holds_when="-", **TOLD)
    checks = [
        declared("breaks", "info")(_breaks),
        declared("skips", "info", over=_nothing)(_holds),
        declared("half", "critical", over=_half)(_holds),
        declared("fails", "warning")(_fails),
    ]
    result = audit_of(Quorum(evidence), checks=checks)
    told = [
        (one.result, tuple(place.replica for place in one.judged), one.is_gap)
        for one in result.results
    ]
    assert result.results[0].judged[0] == ("1", 0, 12)
    everybody = ("1", "2", "3")
    assert told == [
        ("errored", everybody, False),
        ("skipped", (), False),
        ("skipped", ("1",), True),
        ("failed", everybody, False),
    ]
    assert result.verdict.not_judged == (("half", "2: it cannot be read"),)
    assert result.exit_code("critical") == 2
    assert result.exit_code("critical", strict=True) == 1
    assert result.exit_code("warning") == 1
    rows = list(result.rows())
    assert [row["result"] for row in rows] == ["failed", "failed", "errored", "skipped", "skipped"]
    assert rows[0]["node_id"] == 2
    assert "the check broke: RuntimeError in audit" in rows[2]["message"]
    assert "boom" not in str(rows), "what an error says may be of the input"


def test_a_flood_is_counted_and_not_told() -> None:
    told = list(limited([BadRow("1", "bad", offset=n) for n in range(1000)]))
    assert len(told) == 20
    assert told[-1].evidence["more"] == 980
    assert "980 more" in told[-1].message


@pytest.mark.parametrize("count", [1, 200])
def test_a_batch_that_replicas_share_is_known_once(tmp_path: Path, count: int) -> None:
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(
            *(Batch(12 + n, 2, (b"\x01\xc0\x21\x00\x00",), None, LATER) for n in range(count))
        )
    evidence = evidence_of(tmp_path)
    unknown = [one for one in evidence.contents if one.issues]
    assert len(unknown) == count
    columns = [one.log.content for one in evidence.replicas]
    assert all(np.array_equal(columns[0], one) for one in columns)


@pytest.mark.parametrize(
    ("after_ms", "explained"), [(0, False), (1, True), (60_000, True), (60_001, False)]
)
def test_only_what_came_right_after_the_copy_is_explained_by_it(
    tmp_path: Path, after_ms: int, explained: bool
) -> None:
    node = quorum(tmp_path)[0]
    os.utime(node.segment(6), ns=(0, LATER * 1_000_000))
    found = quorum_of(tmp_path)
    assert copy_explains(found, found.by_label["1"], LATER + after_ms) is explained


def test_a_copy_without_a_segment_explains_nothing(tmp_path: Path) -> None:
    for path in quorum(tmp_path)[0].folder.glob("*.log"):
        path.unlink()
    found = quorum_of(tmp_path)
    assert not copy_explains(found, found.by_label["1"], LATER)


def test_what_is_committed_of_a_copy_ends_where_it_departs(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    replace_batch(nodes[2], 4, lambda one: replace(one, values=(NO_OP, NO_OP)).raw())
    found = quorum_of(tmp_path)
    assert committed_in(found, "1") == (12, found.bounds.lower_reason)
    assert committed_in(found, "3") == (4, "the other copies hold other records from offset 4 on")


def test_a_describe_names_the_voters_where_no_file_does(tmp_path: Path) -> None:
    node = Node(tmp_path, 1)
    node.segment(0).write_bytes(b"".join(one.raw() for one in healthy_log() if one.keys is None))
    evidence = evidence_of(tmp_path)
    assert Quorum(evidence).voter_set is None
    told = read_described("LeaderEpoch: 2\nHighWatermark: 9\nCurrentVoters: [1,2,3]\n")
    found = Quorum(replace(evidence, described=told))
    assert found.voter_set is not None
    assert (found.voter_set.ids, found.bounds.majority) == ((1, 2, 3), 2)


def test_a_finding_as_a_row_names_all_that_it_has(tmp_path: Path) -> None:
    quorum(tmp_path)
    row = BadRow("2", "bad", "/x", 5, 3, 9, 2, "1", "info", {"n": 1})

    def bad(quorum: Quorum) -> Iterator[BadRow]:
        yield row

    declared = partial(check, scope="log", source="-", holds_when="-", **TOLD)
    checks = [declared("fails", "warning")(bad), declared("holds", "critical")(_holds)]
    failed, held = audit_of(quorum_of(tmp_path), checks=checks).rows()
    assert failed == {
        "check": "fails", "severity": "info", "scope": "log", "result": "failed", "replica": "2",
        "node_id": 2, "path": "/x", "position": 5, "offset": 3, "end_offset": 9,
        "batch_leader_epoch": 2, "other_replica": "1", "message": "bad", "evidence": {"n": 1},
    }  # fmt: skip
    judged = [{"replica": one, "start_offset": 0, "end_offset": 12} for one in ("1", "2", "3")]
    assert held == dict.fromkeys(failed) | {
        "check": "holds", "severity": "critical", "scope": "log", "result": "passed",
        "message": "it holds", "evidence": {"judged": judged},
    }  # fmt: skip


def test_garbage_at_the_beginning_of_a_file_does_not_make_it_unreadable(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    path = nodes[0].segment(6)
    path.write_bytes(b"\xee" * 30 + path.read_bytes())
    (nodes[1].segment(6)).write_bytes(b"")
    found = evidence_of(tmp_path)
    problems = [[one.problem for one in replica.segments] for replica in found.replicas]
    assert problems == [[None, None]] * 3
    assert [one.position for one in found.replicas[0].segments[1].faults] == [0]


def test_a_clock_that_went_back_says_nothing_against_a_snapshot(tmp_path: Path) -> None:
    """Voter 1 lags, and its last batch is an hour newer than those that follow on the others."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP,), None, START_MS + 3_600_000))
    for node in nodes[1:]:
        node.append(Batch(13, 2, (NO_OP,), None, START_MS + 20_000))
    stored = healthy_state()
    nodes[1].checkpoint(14, 2).write_bytes(snapshot(stored, 2, START_MS + 20_000))
    result = audit(tmp_path)
    assert [one.row.message for one in found(result, "snapshot_within_committed")] == []
    (held,) = [one for one in result.results if one.check == "snapshot_equals_replay"]
    assert (held.result, held.is_gap) == ("passed", False)


def test_what_a_snapshot_shows_to_be_committed_was_committed_by_its_leader(tmp_path: Path) -> None:
    """Two of three voters lack the newest epoch, and a snapshot in it says that they once had it:
    they have lost it, and nothing is wrong with the leader's way to them.
    """
    nodes = quorum(tmp_path)
    led_by(1)(nodes)
    assert found(audit(tmp_path), "newest_leader_commits")
    stored = [healthy_log()[one] for one in (1, 3, 8)]
    nodes[0].checkpoint(13, 3).write_bytes(snapshot(stored, 3, START_MS + 20_000))
    result = audit(tmp_path)
    assert not found(result, "newest_leader_commits")
    lacking = found(result, "voter_holds_committed_data")
    assert [one.row.replica for one in lacking] == ["2", "3"]


def test_who_has_just_fetched_a_snapshot_shows_what_its_leader_has_committed(
    tmp_path: Path,
) -> None:
    """Voters 1 and 3 hold nothing else; the leader's log begins behind the same snapshot."""
    nodes = quorum(tmp_path)
    for node in nodes:
        for path in node.folder.glob("*.*"):
            path.unlink()
        node.checkpoint(11, 2).write_bytes(snapshot(healthy_state(), 2, START_MS + 8000))
        node.epochs([])
        node.segment(11).touch()
    nodes[1].append(healthy_log()[-1])
    nodes[1].epochs([(2, 11)])
    assert not found(audit(tmp_path), "newest_leader_commits")


def test_two_histories_are_one_finding_of_the_logs(tmp_path: Path) -> None:
    """Each snapshot is held against the log that its own replica has."""
    went_on_from_backups(quorum(tmp_path))
    result = audit(tmp_path)
    critical = {one.check for one in result.findings if one.severity == "critical"}
    assert critical == {"committed_data_consistent", "voter_holds_committed_data"}


def test_a_log_that_ends_in_another_epoch_is_cut_before_anything_is_sent(tmp_path: Path) -> None:
    ends_inside(quorum(tmp_path), 3)
    assert not found(audit(tmp_path), "log_ends_on_batch")


def test_the_log_of_another_quorum_says_nothing_of_this_one(tmp_path: Path) -> None:
    """Whatever cluster its meta.properties names; its node is a voter all the same."""
    of_another_quorum(quorum(tmp_path), 3, 20, 5)
    seen = quorum_of(tmp_path)
    assert seen.strays == seen.foreign == {"3"}
    assert seen.voter_set is not None
    assert dict(seen.voter_set.members) == {one: disk_text(one) for one in (1, 2, 3)}
    assert (seen.bounds.lower, seen.bounds.missing_voters) == (13, (3,))
    assert seen.newest_log is not None
    assert seen.newest_log.label in {"1", "2"}
    assert seen.is_voter(seen.by_label["3"].evidence)
    told = {one.replica: (one.safety, one.reason) for one in restarts(seen)}
    assert told["3"] == (Safety.UNSAFE, "its log is of another quorum, and Kafka does not notice")
    assert told["1"][0] == Safety.SAFE
    answers = {(one["follower"], one["leader"]): one["answer"] for one in fetch_rows(seen)}
    assert answers["1", "3"] != "INCONSISTENT_CLUSTER_ID"


@pytest.mark.parametrize("begins, found", [(0, {"9"}), (6, set())])
def test_without_directories_two_quorums_differ_from_their_first_offset_on(
    tmp_path: Path, begins: int, found: set[str]
) -> None:
    """A log whose beginning is gone may have shared it: voters may have gone on from older copies."""
    quorum(tmp_path)
    theirs = [replace(one, ms=one.ms + 7) for one in healthy_log() if one.base >= begins]
    Node(tmp_path, 9).write(theirs)
    assert quorum_of(tmp_path).strays == found


@pytest.mark.parametrize("is_mixed", [False, True])
def test_whose_epoch_checkpoint_has_a_newer_epoch_there_holds_no_tail_of_its_own(
    is_mixed: bool, tmp_path: Path
) -> None:
    """Segments of one node beside the side files of another: two voters seem to hold the tail."""
    nodes = quorum(tmp_path)
    nodes[0].append(leader_change(12, 3, 1, LATER))
    for node in nodes[1:]:
        node.append(Batch(12, 2, (NO_OP,), None, LATER))
    if is_mixed:
        nodes[2].epochs([(1, 0), (2, 8), (3, 12)])
    seen, starts = quorum_of(tmp_path), {"2": 12, "3": 12}
    found = (seen.tail_starts, seen.fork_starts)
    assert found == ((starts, {}) if is_mixed else ({}, starts))


def test_snapshots_name_voters_of_which_no_record_of_the_log_tells(tmp_path: Path) -> None:
    """The quorum has them from the checkpoint with which it was formatted, and that is gone."""
    stored = [healthy_log()[1], healthy_log()[3]]
    for node in quorum(tmp_path):
        raw = snapshot(stored, 1, START_MS + 3000, voters=(1, 2, 3))
        node.checkpoint(6, 1).write_bytes(raw)
    result = audit(tmp_path)
    assert not [one for one in result.findings if one.severity == "critical"]
    (told,) = [one for one in result.results if one.check == "snapshot_equals_replay"]
    assert told.result == "passed"


def test_a_first_leader_whose_records_were_replaced_is_of_the_same_quorum(tmp_path: Path) -> None:
    quorum(tmp_path)
    cut_off = Node(tmp_path, 9)
    cut_off.write([Batch(0, 0, (NO_OP,), None, START_MS), Batch(1, 0, (NO_OP,), None, START_MS)])
    cut_off.checkpoint(6, 1).unlink()
    seen = quorum_of(tmp_path)
    assert (seen.strays, seen.tail_starts) == (set(), {"9": 0})


@pytest.mark.parametrize("bootstrap", [False, True])
def test_the_last_copy_of_a_quorum_whose_voters_lost_all_is_believed(
    tmp_path: Path, bootstrap: bool
) -> None:
    """New disks of the old voters, be they formatted for a new quorum or not, hold nothing that
    speaks against it.
    """
    for number in (1, 2, 3):
        node = Node(tmp_path, number)
        node.segment(0).touch()
        node.meta(directory=30 + number)
        if bootstrap:
            node.checkpoint(0, 0).write_bytes(snapshot([], 0, LATER, voters=(31, 32, 33)))
    witness = Node(tmp_path, 9)
    witness.meta()
    witness.checkpoint(40, 4).write_bytes(snapshot([healthy_log()[1]], 4, LATER, voters=(1, 2, 3)))
    seen = quorum_of(tmp_path)
    assert (seen.foreign, seen.stray_snapshots, seen.bounds.lower) == (set(), {}, 40)
    assert seen.voter_set is not None
    assert seen.voter_set.ids == (1, 2, 3)


def test_a_quorum_goes_on_with_new_disks_one_after_the_other(tmp_path: Path) -> None:
    """Whose log names one of the old disks and one of the new ones is of both."""
    for node in quorum(tmp_path):
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    newer = Node(tmp_path, 9)
    newer.write([Batch(40, 5, (NO_OP,), None, LATER), voters_batch(41, 5, 3, 21, 22, ms=LATER)], 40)
    newest = Node(tmp_path, 8)
    newest.write([voters_batch(60, 6, 21, 22, 23, ms=LATER)], 60)
    seen = quorum_of(tmp_path)
    assert seen.strays == set()
    assert seen.voter_set is not None
    assert seen.voter_set.ids == (21, 22, 23)


def test_a_snapshot_that_replaces_a_tail_goes_by_other_voters(tmp_path: Path) -> None:
    """The tail had added a voter, and the newer leader's quorum has not."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    nodes[0].append(voters_batch(13, 2, 1, 2, 3, 4, ms=LATER), Batch(14, 2, (NO_OP,), None, LATER))
    for node in nodes[1:]:
        node.append(leader_change(13, 3, 2, LATER), Batch(14, 3, (NO_OP,), None, LATER))
    raw = snapshot([healthy_log()[1]], 3, LATER, voters=(1, 2, 3))
    nodes[0].checkpoint(15, 3).write_bytes(raw)
    assert quorum_of(tmp_path).stray_snapshots == {}


def test_observers_alone_believe_the_snapshots_of_a_quorum_that_has_become_dynamic(
    tmp_path: Path,
) -> None:
    """No election since then has written its `quorum-state` files anew, and no log names the voters."""
    for number in (11, 12):
        node = Node(tmp_path, number)
        node.write(healthy_log())
        node.segment(0).unlink()
        raw = snapshot(healthy_state()[:2], 1, START_MS + 3000, voters=(1, 2, 3))
        node.checkpoint(6, 1).write_bytes(raw)
    seen = quorum_of(tmp_path)
    assert seen.stray_snapshots == {}
    assert seen.voter_set is not None
    assert [disk for _, disk in seen.voter_set.members] == [disk_text(one) for one in (1, 2, 3)]


@pytest.mark.parametrize("end, why", [
    (40, "the directories of its voters are on no disk at hand and in no other copy"),
    (13, "it names other voters than the KRaftVoters record at offset 12 of 1"),
    (12, "the directories of its voters are on no disk at hand and in no other copy"),
])  # fmt: skip
def test_a_snapshot_of_another_quorum_says_nothing_of_this_one(
    tmp_path: Path, end: int, why: str
) -> None:
    """At offset 12 the voters of this one are static."""
    nodes = quorum(tmp_path)
    for node in nodes if end > 12 else ():
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
        stopped(node, 13)
    raw = snapshot([healthy_log()[1]], 2, LATER, voters=(21, 22, 23))
    path = nodes[0].checkpoint(end, 2)
    path.write_bytes(raw)
    seen = quorum_of(tmp_path)
    (told,) = seen.stray_snapshots.values()
    assert told == why
    assert seen.voter_set is not None
    assert seen.voter_set.ids == (1, 2, 3)
    assert (seen.bounds.lower, seen.controller_ids) == (13 if end > 12 else 12, {1, 2, 3})
    assert [one.end_offset for one in Held.by(seen, seen.by_label["1"]).snapshots] == [6]
    assert seen.strays == set()


@pytest.mark.parametrize("case", ["copied before", "not copied", "none held", "another epoch"])
def test_who_may_have_sent_a_snapshot_of_a_later_offset(case: str, tmp_path: Path) -> None:
    """It is a node's own, and its log once reached there, only where nobody can have sent it."""
    nodes = quorum(tmp_path)
    takes_over(nodes[2], 10)
    assert [one.offset for one in rows_of(tmp_path, "log_end_lost")] == [10]
    if case == "copied before":
        copied_at(nodes[0].segment(6), START_MS)
    elif case == "not copied":
        shutil.rmtree(nodes[0].home)
    elif case == "none held":
        nodes[0].checkpoint(6, 1).unlink()
    else:
        nodes[2].checkpoint(12, 2).rename(nodes[2].checkpoint(12, 3))
    assert not rows_of(tmp_path, "log_end_lost")


def test_a_clock_that_was_ahead_once_makes_no_copy_a_loss(tmp_path: Path) -> None:
    """The leader was copied half a second before the others: what it lacks was written after that."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP,), None, LATER + 94_608_000_000))
        node.append(leader_change(13, 3, 1, LATER))
    for node in nodes[1:]:
        node.append(Batch(14, 3, (NO_OP,), None, LATER + 500))
    assert rows_of(tmp_path, "log_end_lost")
    copied_at(nodes[0].segment(6), LATER + 100)
    assert not rows_of(tmp_path, "log_end_lost")


def test_a_node_that_ran_on_while_it_was_copied_made_its_snapshot_later(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    takes_over(nodes[2], 10)
    copied_at(nodes[2].segment(6), healthy_log()[8].ms - 1)
    copied_at(nodes[2].segment(0), healthy_log()[8].ms - 1)
    (row,) = rows_of(tmp_path, "log_end_lost")
    assert row.severity == "info"
    assert "its log was copied first. Copy the node again" in row.message
