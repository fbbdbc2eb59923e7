"""Who votes, by each source that names it, and which of the sets counts."""

import shutil
import struct
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.evidence import Described
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from kraftlog.quorum.voters import (
    Members,
    VoterSet,
    by_describe,
    current,
    disjoint_majorities,
    members_text,
)
from kraftlog.simulate.restart import restarts
from tests.collecting import collect
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    START_MS,
    Batch,
    Node,
    audit,
    copied_at,
    describe,
    disk_text,
    disk_uuid,
    found,
    healthy_log,
    kraft_voters,
    leader_change,
    quorum,
    snapshot,
    stopped,
    voters_batch,
)
from tests.unit.faults.table import LATER

THREE: Members = ((1, None), (2, None), (3, None))


def voters_of(root: Path) -> VoterSet:
    found = Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=False))
    assert found.voter_set is not None
    return found.voter_set


def bounds_of(root: Path) -> tuple[int, int | None]:
    found = Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=False))
    return found.bounds.lower, found.bounds.upper


def forget(nodes: list[Node]) -> None:
    """No node has a quorum-state."""
    for node in nodes:
        (node.folder / "quorum-state").unlink()


def named(*voters: int) -> Members:
    """Voters with the directories of their numbers."""
    return tuple((one, disk_text(one)) for one in voters)


def test_by_quorum_state(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    path = str(nodes[0].folder / "quorum-state")
    assert voters_of(tmp_path) == VoterSet(THREE, "quorum-state", "1", path, None, (2, 0))
    assert voters_of(tmp_path).ids == (1, 2, 3)
    assert voters_of(tmp_path).place == "the quorum-state of replica 1"


def test_by_configuration(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    forget(nodes)
    path = nodes[1].home / "server.properties"
    name = "controller.quorum.voters"
    path.write_text(f"{name}=4@a:9093, 1@b:9093,4@c:9093\n")
    told = VoterSet(((1, None), (4, None)), name, "2", str(path), None, (0, 0))
    assert voters_of(tmp_path) == told
    for text in ("1@a:9093,x@b:9093", "", "1,2,3"):
        path.write_text(f"{name}={text}\n")
        assert voters_of(tmp_path).source == "the LeaderChange record at offset 8"


def test_by_the_last_election(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    forget(nodes)
    path = str(nodes[0].segment(6))
    told = VoterSet(THREE, "the LeaderChange record at offset 8", "1", path, 8, (2, 12))
    assert voters_of(tmp_path) == told


def test_by_records_of_the_log_and_of_a_snapshot(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    stored = [healthy_log()[1], healthy_log()[3]]
    for node in nodes:
        raw = snapshot(stored, 1, START_MS + 3000, voters=(1, 2))
        node.checkpoint(6, 1).write_bytes(raw)
    path = str(nodes[0].checkpoint(6, 1))
    name = f"the KRaftVoters record of {nodes[0].checkpoint(6, 1).name}"
    # Its log goes on to its end without another one.
    assert voters_of(tmp_path) == VoterSet(named(1, 2), name, "1", path, 6, (2, 12))
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 3, ms=LATER))
    log = str(nodes[0].segment(6))
    at = "the KRaftVoters record at offset 12"
    assert voters_of(tmp_path) == VoterSet(named(1, 3), at, "1", log, 12, (2, 13))
    # A snapshot behind the logs knows more than they do.
    raw = snapshot(stored, 2, START_MS + 9000, voters=(2, 3))
    nodes[0].checkpoint(20, 2).write_bytes(raw)
    ahead = f"the KRaftVoters record of {nodes[0].checkpoint(20, 2).name}"
    found = voters_of(tmp_path)
    assert (found.members, found.source, found.seen) == (named(2, 3), ahead, (2, 20))


def test_a_set_counts_that_only_few_copies_reach(tmp_path: Path) -> None:
    """1 and 2 go on behind the record that makes 4 a voter: two of four are no majority."""
    nodes = [*quorum(tmp_path), Node(tmp_path, 4)]
    nodes[3].write(healthy_log())
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    for node in nodes[:2]:
        node.append(voters_batch(13, 2, 1, 2, 3, 4, ms=LATER), Batch(14, 2, (NO_OP,), None, LATER))
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None), replay=False))
    assert found.voter_set is not None
    assert found.voter_set.ids == (1, 2, 3, 4)
    assert (found.bounds.majority, found.bounds.lower) == (3, 13)


def test_the_voters_before_a_change_may_have_committed_more(tmp_path: Path) -> None:
    """Leader 2 removes 3, and 1 has not heard of it: 1 and 3 may have gone on by themselves."""
    nodes = quorum(tmp_path)
    shutil.rmtree(nodes[2].home)
    for node in nodes[:2]:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    more = [Batch(13, 2, (NO_OP, NO_OP), None, LATER), voters_batch(15, 2, 1, 2, ms=LATER)]
    nodes[1].append(*more)
    stopped(nodes[0], 13)
    stopped(nodes[1], 16)
    assert bounds_of(tmp_path) == (13, None)
    # Once the change is committed, nobody asks voter 3 any more.
    nodes[0].append(*more)
    stopped(nodes[0], 16)
    assert bounds_of(tmp_path) == (16, 16)


def test_of_one_place_the_set_counts_that_most_copies_name(tmp_path: Path) -> None:
    """A snapshot that ends behind the record says something else of it."""
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 3, ms=LATER))
    nodes[0].checkpoint(13, 2).write_bytes(snapshot([], 2, LATER, voters=(1, 2)))
    assert voters_of(tmp_path).members == named(1, 3)


def test_control_records_of_a_history_are_told_apart(tmp_path: Path) -> None:
    """A history takes in both, each in its own way."""
    for node in quorum(tmp_path):
        node.append(voters_batch(12, 2, 1, 2, ms=LATER))
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None), replay=False))
    links = found.chain
    (window,) = FileRecords(Redactor(None), LIMITS).windows(links, 0, len(links))
    assert set(window.control) == {"KRAFT_VOTERS", "LEADER_CHANGE"}
    assert {"TOPIC_RECORD", "PARTITION_RECORD"} < set(window.records)
    assert not set(window.control) & set(window.records)


def test_a_snapshot_that_ends_with_the_record_says_the_same(tmp_path: Path) -> None:
    """Both are of one place; the snapshot's counts, and is as far as its log."""
    nodes = quorum(tmp_path)
    stored = [healthy_log()[1], healthy_log()[3]]
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, ms=LATER))
        node.checkpoint(13, 2).write_bytes(snapshot(stored, 2, LATER, voters=(1, 2)))
    path = nodes[0].checkpoint(13, 2)
    name = f"the KRaftVoters record of {path.name}"
    assert voters_of(tmp_path) == VoterSet(named(1, 2), name, "1", str(path), 13, (2, 13))


@pytest.mark.parametrize(
    ("epoch", "told", "unexplained"),
    [
        (2, (1, 2, 3, 4), None),
        (2, (1, 2, 3), None),
        (2, (1, 2), None),
        (2, (4, 5, 6), (4, 5, 6)),
        (3, (1, 2, 3, 4, 5), (1, 2, 3, 4, 5)),
        (1, (4, 5, 6), None),
    ],
)
def test_a_describe_names_voters_that_a_record_explains(
    epoch: int, told: tuple[int, ...], unexplained: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """The voters before and after a change are known; an older describe says nothing of now."""
    for node in quorum(tmp_path):
        node.append(voters_batch(12, 2, 1, 2, ms=LATER), voters_batch(13, 2, 1, 2, 3, 4, ms=LATER))
        stopped(node, 14)
    evidence = collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None), replay=False)
    found = Quorum(replace(evidence, described=Described(14, None, epoch, told)))
    other = found.unexplained_voters
    assert (other and other.ids) == unexplained
    known = None if unexplained else Quorum(evidence).bounds.upper
    assert found.bounds.upper == known


def test_by_a_describe() -> None:
    told = Described(40, 2, 5, (1, 3))
    members: Members = ((1, None), (3, None))
    only = VoterSet(members, "the describe", "the leader", None, None, (5, 40))
    assert list(by_describe(told)) == [only]
    assert only.place == "kafka-metadata-quorum describe"
    (bare,) = by_describe(Described(None, voters=(1, 3)))
    assert bare.seen == (0, 0)
    assert list(by_describe(Described(40, 2, 5))) == []
    assert list(by_describe(None)) == []


def seen(members: Members, epoch: int, end: int, label: str = "1") -> VoterSet:
    return VoterSet(members, "-", label, None, None, (epoch, end))


@pytest.mark.parametrize(
    ("candidates", "at"),
    [
        ([seen(named(1), 2, 9)], 0),
        ([seen(named(1), 2, 9), seen(named(2), 3, 1)], 1),  # the newest epoch
        ([seen(named(1), 2, 9), seen(named(2), 2, 5), seen(named(2), 2, 4)], 1),  # most see it
        ([seen(named(1), 2, 5), seen(named(2), 2, 9)], 1),  # of equals the furthest
        ([seen(named(1), 3, 5), seen(named(2), 2, 9), seen(named(2), 2, 8)], 0),
    ],
)
def test_the_set_that_counts(candidates: list[VoterSet], at: int) -> None:
    assert current(candidates) == candidates[at]


def test_without_candidates_nobody_votes() -> None:
    assert current([]) is None


SETS = st.lists(st.integers(1, 7), unique=True, max_size=5)


@given(SETS, SETS, st.booleans())
def test_majorities_that_share_nobody(one: list[int], other: list[int], by_id: bool) -> None:
    """Against every majority of one set and every majority of the other."""
    mine, theirs = (
        tuple((voter, None if by_id else disk_text(voter)) for voter in sorted(some))
        for some in (one, other)
    )
    found = disjoint_majorities(mine, theirs)
    possible = [
        (first, second)
        for first in combinations(sorted(one), len(one) // 2 + 1)
        for second in combinations(sorted(other), len(other) // 2 + 1)
        if not set(first) & set(second)
    ]
    if len(one) // 2 + 1 > len(one) or len(other) // 2 + 1 > len(other):
        return  # of nobody there is no majority
    assert (found in possible) if possible else found is None


def test_another_directory_is_another_voter() -> None:
    mine, theirs = ((1, "a"), (2, "b")), ((1, "c"), (2, "d"))
    assert members_text((1, 2), mine, theirs) == "1 in directory a and 2 in directory b"
    assert members_text((1, 2), theirs, ((1, "c"), (2, None), (3, "e"))) == "1 and 2"
    assert disjoint_majorities(mine, theirs) == ((1, 2), (1, 2))
    assert disjoint_majorities(mine, ((1, None), (2, "d"))) is None


@pytest.mark.parametrize(
    ("listed", "members"),
    [
        (
            kraft_voters(1, 2, 2, 3).replace(disk_uuid(2), disk_uuid(9), 1),
            ((1, disk_text(1)), (2, disk_text(2)), (3, disk_text(3))),
        ),
        (
            kraft_voters(1, 2, 3).replace(disk_uuid(2), bytes(16)),
            ((1, disk_text(1)), (2, None), (3, disk_text(3))),
        ),
    ],
    ids=["twice", "zeros"],
)
def test_voters_are_those_of_kafkas_voter_set(
    listed: bytes, members: Members, tmp_path: Path
) -> None:
    """By id, the last entry of each; a directory of zeros is none, so that the id alone votes."""
    for node in quorum(tmp_path):
        node.append(Batch(12, 2, (listed,), (struct.pack(">hh", 0, 6),), LATER))
        node.meta(directory=node.node_id)
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None), replay=False))
    assert found.voter_set is not None
    assert found.voter_set.members == members
    assert [found.is_voter(one) for one in found.replicas] == [True] * 3


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"leaderId": 9, "leaderEpoch": 3}, {"1": 9}),
        ({"leaderId": -1, "votedId": 9, "leaderEpoch": 3}, {"1": 9}),
        ({"leaderId": 3, "leaderEpoch": 3}, {}),
        ({"leaderId": -1, "votedId": -1, "leaderEpoch": 3}, {}),
        ({"leaderId": 9, "leaderEpoch": 2}, {}),
    ],
)
def test_a_quorum_state_names_whom_no_voter_set_does(
    fields: dict[str, int], named: dict[str, int], tmp_path: Path
) -> None:
    """Who votes now is not known then, nor what cannot be committed; who once voted is no stranger,
    and of an epoch that a record tells of, `single_leader_per_epoch` speaks.
    """
    nodes = quorum(tmp_path)
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER), voters_batch(13, 2, 1, 2, ms=LATER))
        stopped(node, 14)
    nodes[0].quorum_state(**fields)
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None), replay=False))
    assert found.strangers == named
    assert (found.bounds.upper is None) is bool(named)
    may = {one.replica: one.reason for one in restarts(found)}
    assert ("names node 9, which votes by nothing at hand" in may["2"]) is bool(named)


@pytest.mark.parametrize("late_ms", [0, 200_000])
def test_where_nobody_led_for_long_a_copy_may_be_from_then(tmp_path: Path, late_ms: int) -> None:
    """Voters that were copied before the next leader wrote, two minutes after the last one; of what
    it wrote long after that, that explains nothing.
    """
    nodes, begin = quorum(tmp_path), START_MS + 120_000
    for node in nodes:
        copied_at(node, START_MS + 9_100)
    nodes[2].append(
        leader_change(12, 3, 3, begin, (1, 3)),
        *[Batch(base, 3, (NO_OP,), None, begin + 500 + late_ms * (base - 13)) for base in (13, 14)],
    )
    nodes[2].quorum_state(leaderId=3, leaderEpoch=3)
    nodes[2].epochs([(1, 0), (2, 8), (3, 12)])
    copied_at(nodes[2], begin + 1_000 + late_ms)
    describe(nodes[2], 3, 3, 15)
    severities = {one.severity for one in found(audit(tmp_path), "voter_holds_committed_data")}
    assert severities == ({"critical"} if late_ms else {"info"})


@pytest.mark.parametrize("voters, upper", [((1, 2), None), ((1, 2, 3), 13)])
def test_half_of_the_voters_may_go_on_without_the_others(
    voters: tuple[int, ...], upper: int | None, tmp_path: Path
) -> None:
    """One of two removes the other one, and commits that alone; one of three needs another one for it."""
    for node in quorum(tmp_path):
        node.append(voters_batch(12, 2, *voters, ms=LATER))
        stopped(node, 13)
        if node.node_id == voters[-1] or node.node_id not in voters:
            shutil.rmtree(node.home)
    assert bounds_of(tmp_path)[1] == upper


def test_a_batch_of_another_cluster_below_a_snapshot_names_no_voters(tmp_path: Path) -> None:
    """Its epoch is newer than the snapshot's, and a node reads nothing below that."""
    foreign = voters_batch(3, 2, 1, 2, 3, disks=50)
    stored = [replace(one, base=0) for one in (healthy_log()[1], healthy_log()[3])]
    for node in quorum(tmp_path):
        if node.node_id == 1:
            first = [replace(one, epoch=2) for one in healthy_log() if one.base < 6]
            first[2] = foreign
            node.write([*first, *(one for one in healthy_log() if one.base >= 6)])
        node.checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000, voters=(1, 2, 3)))
    assert {directory for _, directory in voters_of(tmp_path).members} == {
        disk_text(one) for one in (1, 2, 3)
    }
