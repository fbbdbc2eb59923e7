"""Whatever a correct quorum did: a truncation plan that is applied and then fetched gives the
leader's log, batch by batch, and no leader that can be elected takes away what is committed.

The quorum is a small model of its own: logs of numbered records, leaders elected by majorities,
followers that compare records instead of epochs. It knows nothing of the rules under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count, permutations

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kraftlog.quorum.epochs import EpochVector, offset_for_leader_epoch, truncation_offset
from kraftlog.simulate.boot import Disk, SnapshotFile, boot, start, takeover
from kraftlog.simulate.election import Voter, outcomes, vote_end
from kraftlog.simulate.extent import Extent, SnapshotId
from kraftlog.simulate.fetch import Dialect, leader_fetch, truncate
from kraftlog.simulate.join import CAUGHT_UP, LeaderLog, Way, after_crash, join
from kraftlog.simulate.liveness import Link

Record = tuple[int, int]
"""(epoch, number): no two writes have the same number."""


@dataclass
class Replica:
    """`records` are those from offset `start` on."""

    start: int = 0
    records: list[Record] = field(default_factory=list)
    snapshots: list[SnapshotId] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    @property
    def last_epoch(self) -> int:
        older = self.snapshots[-1].epoch if self.snapshots else 0
        return self.records[-1][0] if self.records else older

    def at(self, offset: int) -> Record:
        return self.records[offset - self.start]

    def extent(self) -> Extent:
        entries: list[tuple[int, int]] = []
        for offset, (epoch, _) in enumerate(self.records, self.start):
            if not entries or entries[-1][0] != epoch:
                entries.append((epoch, offset))
        return Extent(self.start, EpochVector(tuple(entries), self.end), tuple(self.snapshots))


@dataclass
class Quorum:
    nodes: list[Replica]
    epoch: int = 0
    leader: int | None = None
    history: list[Record] = field(default_factory=list)
    numbers: count[int] = field(default_factory=count)

    @property
    def committed(self) -> int:
        return len(self.history)

    def whole(self, node: Replica) -> list[Record]:
        """Its log, and what its snapshot stands for: that was committed."""
        return self.history[: node.start] + node.records

    def common_end(self, one: Replica, other: Replica) -> int:
        """The first offset at which two replicas differ."""
        mine, theirs = self.whole(one), self.whole(other)
        shorter = min(len(mine), len(theirs))
        return next((o for o in range(shorter) if mine[o] != theirs[o]), shorter)

    def elect(self, name: int, asked: set[int]) -> None:
        """The nodes that are asked grant by the up-to-date rule; a majority is needed."""
        mine = (self.nodes[name].last_epoch, self.nodes[name].end)
        votes = {one for one in asked if (self.nodes[one].last_epoch, self.nodes[one].end) <= mine}
        if len(votes | {name}) > len(self.nodes) // 2:
            self.epoch += 1
            self.leader = name
            self.append(1)

    def append(self, records: int) -> None:
        if self.leader is not None:
            new = [(self.epoch, next(self.numbers)) for _ in range(records)]
            self.nodes[self.leader].records += new
            self.commit()

    def fetch(self, name: int, limit: int) -> None:
        if self.leader is None or self.leader == name:
            return
        leader, node = self.nodes[self.leader], self.nodes[name]
        end = self.common_end(node, leader)
        if end < leader.start:
            node.start, node.records = leader.snapshots[-1].end_offset, []
            node.snapshots = leader.snapshots[-1:]
        else:
            node.records = node.records[: end - node.start]
        taken = leader.records[node.end - leader.start :]
        node.records += taken[:limit]
        self.commit()

    def commit(self) -> None:
        """Raft: what a majority holds, under a record of the leader's own epoch."""
        assert self.leader is not None
        leader = self.nodes[self.leader]
        ends = sorted((self.common_end(one, leader) for one in self.nodes), reverse=True)
        held = ends[len(self.nodes) // 2]
        if held > self.committed and self.whole(leader)[held - 1][0] == self.epoch:
            self.history = self.whole(leader)[:held]

    def prune(self, name: int) -> None:
        """A snapshot of all that is committed and at hand; the log before it goes."""
        node = self.nodes[name]
        held = self.whole(node)[: self.committed]
        if len(held) > node.start and held == self.history[: len(held)]:
            node.snapshots = [SnapshotId(held[-1][0], len(held))]
            node.records = node.records[len(held) - node.start :]
            node.start = len(held)


@st.composite
def quorums(draw: st.DrawFn, prunes: bool = True) -> Quorum:
    size = draw(st.sampled_from([3, 5]))
    quorum = Quorum([Replica() for _ in range(size)])
    names = st.integers(0, size - 1)
    quorum.elect(0, set(range(size)))
    for _ in range(draw(st.integers(1, 40))):
        kind = draw(st.sampled_from(["elect", "append", "fetch", "fetch", "fetch", "prune"]))
        if kind == "elect":
            quorum.elect(draw(names), draw(st.sets(names)))
        elif kind == "append":
            quorum.append(draw(st.integers(1, 3)))
        elif kind == "fetch":
            quorum.fetch(draw(names), draw(st.integers(0, 4)))
        elif prunes:
            quorum.prune(draw(names))
    return quorum


@settings(max_examples=80, deadline=None)
@given(quorums())
def test_a_plan_that_is_applied_and_fetched_gives_the_leaders_log(quorum: Quorum) -> None:
    for follower, leader in permutations(quorum.nodes, 2):
        if quorum.common_end(follower, leader) < follower.start:
            continue  # It would have to give up a snapshot of what is committed: Kafka refuses.
        cut = truncate(follower.extent(), leader.extent())
        event(f"needs a snapshot: {cut.by_snapshot is not None}")
        after = cut.extent
        if cut.by_snapshot is not None:
            assert after.log_end == leader.snapshots[-1]
        else:
            assert cut.truncation_offset == quorum.common_end(follower, leader)
            assert after.end_offset == cut.truncation_offset
        answer = leader_fetch(leader.extent(), after.end_offset, after.last_fetched_epoch)
        assert answer.kind == "records" or (after.end_offset == 0 and answer.snapshot)
        below = max(after.start_offset, leader.start)
        kept = (
            []
            if cut.by_snapshot is not None
            else [follower.at(o) for o in range(below, after.end_offset)]
        )
        fetched = leader.records[after.end_offset - leader.start :]
        assert kept + fetched == leader.records[below - leader.start :]


@settings(max_examples=80, deadline=None)
@given(quorums(prunes=False))
def test_epochs_alone_find_the_common_prefix(quorum: Quorum) -> None:
    for follower, leader in permutations(quorum.nodes, 2):
        cut = truncation_offset(follower.extent().vector, leader.extent().vector)
        assert cut == quorum.common_end(follower, leader)
        event(f"cut: {cut < follower.end}")


@settings(max_examples=80, deadline=None)
@given(quorums())
def test_whoever_can_win_holds_what_is_committed_and_cuts_none_of_it(quorum: Quorum) -> None:
    everyone = tuple((name, None) for name, _ in enumerate(quorum.nodes))
    voters = [
        Voter(str(name), name, vote_end(node.extent()), node.end, everyone)
        for name, node in enumerate(quorum.nodes)
    ]
    found = list(outcomes(voters, quorum.committed))
    assert any(one.can_win for one in found)
    for outcome, leader in zip(found, quorum.nodes, strict=True):
        if not outcome.can_win:
            continue
        assert outcome.lacks_committed_from_offset is None
        assert leader.end >= quorum.committed
        for follower in quorum.nodes:
            offset = truncate(follower.extent(), leader.extent()).truncation_offset
            held = min(quorum.committed, quorum.common_end(follower, leader))
            assert offset >= min(held, follower.end)


@settings(max_examples=80, deadline=None)
@given(quorums(), st.sampled_from([Dialect.ADOPTED, Dialect.SHIPPED]))
def test_a_crash_at_any_step_leaves_a_node_that_catches_up(
    quorum: Quorum, dialect: Dialect
) -> None:
    for follower, leader in permutations(quorum.nodes, 2):
        mine, theirs = follower.extent(), leader.extent()
        named = leader_fetch(theirs, mine.end_offset, mine.last_fetched_epoch, dialect).snapshot
        if named is None or named <= mine.log_end:
            continue
        files = tuple(SnapshotFile(one) for one in mine.snapshots)
        for step in takeover(Disk(mine.start_offset, mine.vector, files), named, dialect):
            started = start(step.disk, dialect)
            assert started.boots
            assert truncate(started.extent, theirs, dialect).extent.log_end >= named
            assert started.extent == boot(step.disk).extent


def leading(node: Replica) -> LeaderLog:
    """A replica that leads: each record is a batch of 10 bytes, each snapshot has 25 bytes, each
    segment seven offsets.
    """
    ends = np.arange(node.start, node.end, dtype=np.int64) + 1
    sizes = dict.fromkeys(node.snapshots, 25)
    return LeaderLog(node.extent(), sizes, ends, np.full(len(ends), 10, np.int64), ends // 7)


@settings(max_examples=60, deadline=None)
@given(quorums(), st.integers(1, 40), st.integers(1, 30))
def test_a_follower_joins_from_any_disk_and_after_a_stop_at_any_step(
    quorum: Quorum, chunk: int, fetch: int
) -> None:
    way = Way(Link(1_000, 1), chunk, fetch)
    for follower, one in permutations(quorum.nodes, 2):
        if quorum.common_end(follower, one) < follower.start:
            continue
        mine, leader = follower.extent(), leading(one)
        named = leader_fetch(leader.extent, mine.end_offset, mine.last_fetched_epoch).snapshot
        if named is not None and named <= mine.log_end:
            continue  # Kafka stops with an error, which a test of its own holds.
        files = tuple(SnapshotFile(each) for each in mine.snapshots)
        steps = list(join(Disk(mine.start_offset, mine.vector, files), leader, way))
        event(f"takes a snapshot: {any(step.name == 'piece' for step in steps)}")
        for step in steps:
            booted, answer = after_crash(step, leader, way)
            assert answer is not None
            again = Disk(
                booted.extent.start_offset,
                booted.extent.vector,
                tuple(SnapshotFile(each) for each in booted.extent.snapshots),
            )
            last = list(join(again, leader, way))[-1]
            assert last.name == CAUGHT_UP
            assert last.disk.vector.end_offset == one.end
            for offset in range(last.disk.start_offset, one.end):
                if offset >= one.start:
                    assert last.disk.vector.epoch_at(offset) == one.at(offset)[0]
        requests = [step.request for step in steps if step.request is not None]
        assert [each.number for each in requests] == list(range(1, len(requests) + 1))
        brought = sum(each.span.size_bytes for each in requests if each.snapshot is None)
        begun = steps[-1].disk.start_offset if any(each.snapshot for each in requests) else None
        start = quorum.common_end(follower, one) if begun is None else begun
        assert brought == 10 * (one.end - start)


@given(quorums(), st.integers(0, 60))
def test_truncation_leaves_the_other_epochs_alone(quorum: Quorum, end: int) -> None:
    vector = quorum.nodes[0].extent().vector
    for epoch, _ in vector.entries:
        whole = offset_for_leader_epoch(vector, epoch)
        if whole is not None and whole.end_offset <= end:
            assert offset_for_leader_epoch(vector.truncated(end), epoch) in (whole, None)
