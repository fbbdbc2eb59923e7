"""A quorum in memory that goes through elections, partial replication, crashes and losses by
KRaft's rules, and remembers what was committed: the truth that verdicts on its disks are held
against.

A log is a list of epochs, one per record; records of one epoch and offset are one record, as a
leader writes each place once. Source: KIP-595; Raft's safety argument.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kraftlog.quorum.bounds import CopyStanding
from kraftlog.quorum.epochs import EpochVector


@dataclass
class Node:
    """A node's disk, and what it does."""

    log: list[int] = field(default_factory=list)
    epoch: int = 0
    voted: int | None = None
    leads: bool = False
    known: int = 0
    """So many records of its log it knows to be committed: a snapshot holds no more."""

    @property
    def key(self) -> tuple[int, int]:
        return (self.log[-1] if self.log else 0, len(self.log))

    def follow(self, leader: "Node") -> int | None:
        """Take a leader's epoch and cut what differs: so much of both logs is the same; None where its
        own epoch is newer.
        """
        if self.epoch > leader.epoch:
            return None
        if self.epoch < leader.epoch:
            self.epoch, self.voted = leader.epoch, None
        common = shared(self.log, leader.log)
        del self.log[common:]
        self.known = min(self.known, common)  # Less than it knew: somebody has forgotten.
        return common


@dataclass
class Quorum:
    """Voters 1 … n, the records that some leader has committed, and who elected whom. Observers
    fetch, and nothing else. Where it `waits`, a leader writes on only when the first record of its
    epoch is committed, as Kafka's controllers do.
    """

    random: random.Random
    nodes: dict[int, Node]
    committed: list[int] = field(default_factory=list)
    granted: dict[int, frozenset[int]] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    observers: dict[int, Node] = field(default_factory=dict)
    waits: bool = False
    ever: set[tuple[int, int]] = field(default_factory=set)
    """The records that were committed at some time, by place and epoch."""
    forgets: bool = False

    def forget(self, number: int, disk: Node) -> None:
        """A voter goes on with another disk than its own: Raft promises nothing from here on."""
        self.nodes[number], self.forgets = disk, True

    @property
    def majority(self) -> int:
        return len(self.nodes) // 2 + 1

    def step(self) -> None:
        """Something happens."""
        what = self.random.random()
        if what < 0.15:
            self.elect()
        elif what < 0.45:
            self.append()
        elif what < 0.9:
            self.replicate()
        else:
            self.random.choice(list(self.nodes.values())).leads = False

    def elect(self) -> None:
        """A candidate asks some of the others."""
        candidate = self.random.choice(list(self.nodes))
        one = self.nodes[candidate]
        epoch = one.epoch + 1 + (self.random.random() < 0.1)
        while self.forgets and epoch in self.leaders:
            epoch += 1  # A record is still known by its place and epoch.
        asked = [n for n in self.nodes if n == candidate or self.random.random() < 0.6]
        votes = granted_by(self.nodes, candidate, epoch, asked)
        if len(votes) >= self.majority and candidate in votes:
            one.leads = True
            self.granted[epoch] = votes
            self.leaders[epoch] = candidate
            if self.random.random() < 0.97:  # else it stops before its first write
                one.log.append(epoch)
            else:
                one.leads = False

    def append(self) -> None:
        """A leader, perhaps one that nobody listens to any more, writes."""
        leaders = [one for one in self.nodes.values() if one.leads and self.may_write(one)]
        if leaders:
            one = self.random.choice(leaders)
            one.log += [one.epoch] * self.random.randint(1, 3)

    def may_write(self, leader: Node) -> bool:
        """Whether a leader knows enough to be committed."""
        return not self.waits or leader.epoch in leader.log[: leader.known]

    def replicate(self) -> None:
        """A follower fetches from a leader: it cuts what differs and takes some of the rest."""
        leaders = [number for number, one in self.nodes.items() if one.leads]
        nodes = self.nodes | self.observers
        followers = [number for number in nodes if number not in leaders]
        if not leaders or not followers:
            return
        leader = self.nodes[self.random.choice(leaders)]
        follower = nodes[self.random.choice(followers)]
        common = follower.follow(leader)
        if common is None:
            return
        follower.log += leader.log[common : common + self.random.randint(1, 4)]
        self.commit(leader)
        follower.known = max(follower.known, min(leader.known, len(follower.log)))

    def commit(self, leader: Node) -> None:
        """The leader's high watermark: what a majority holds, once that is of its own epoch."""
        ends = sorted((shared(one.log, leader.log) for one in self.nodes.values()), reverse=True)
        mark = ends[self.majority - 1]
        is_other = leader.log[: len(self.committed)] != self.committed
        is_new = mark > len(self.committed) or (self.forgets and is_other and mark > 0)
        if is_new and leader.log[mark - 1] == leader.epoch:
            assert self.forgets or not is_other, "Raft itself is broken"
            self.committed = leader.log[:mark]
            self.ever.update(enumerate(self.committed))
            leader.known = mark

    def cannot_be_undone(self, prefix: list[int]) -> bool:
        """Whether every voter that could win an election now holds a prefix."""
        for one in self.nodes.values():
            votes = sum(other.key <= one.key for other in self.nodes.values())
            if votes >= self.majority and one.log[: len(prefix)] != prefix:
                return False
        return True


def granted_by(
    disks: Mapping[int, Node], candidate: int, epoch: int, asked: Iterable[int]
) -> frozenset[int]:
    """Who of those that are asked grants a candidate its vote; a disk that is gone grants nothing."""
    votes = set()
    for voter in asked:
        other = disks.get(voter)
        if (
            other is None
            or other.epoch > epoch
            or (other.epoch == epoch and other.voted not in (None, candidate))
        ):
            continue
        if other.epoch < epoch:
            other.epoch, other.voted, other.leads = epoch, None, False
        if voter == candidate or other.key <= disks[candidate].key:
            other.voted = candidate
            votes.add(voter)
    return frozenset(votes)


def shared(one: list[int], other: list[int]) -> int:
    """The length of the largest common prefix."""
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return place
    return min(len(one), len(other))


def vector(log: list[int]) -> EpochVector:
    """The epoch vector of a log."""
    entries = [
        (epoch, place) for place, epoch in enumerate(log) if place == 0 or log[place - 1] != epoch
    ]
    return EpochVector(tuple(entries), len(log))


@dataclass
class Copies:
    """What an auditor gets: the disks of some voters, some of them cut or emptied."""

    logs: dict[int, list[int]]
    standings: list[CopyStanding]


def copies_of(quorum: Quorum) -> Copies:
    """Copies of some disks. A cut leaves no trace here; only a clean stop proves an end."""
    draw = quorum.random
    logs, standings = {}, []
    for number, node in quorum.nodes.items():
        if draw.random() < 0.25:
            continue
        log, stopped = list(node.log), draw.random() < 0.4
        if draw.random() < 0.3:
            log = log[: draw.randint(0, len(log))]
        proven = stopped and len(log) == len(node.log)
        known = None if draw.random() < 0.1 else node.epoch
        logs[number] = log
        standings.append(CopyStanding(str(number), number, vector(log), known, proven))
    return Copies(logs, standings)


def history(seed: int, observers: int = 0, waits: bool = False) -> Quorum:
    """A quorum of three to five voters, and of observers from 11 on, after some time."""
    draw = random.Random(seed)
    count = draw.choice([3, 3, 4, 5])
    quorum = Quorum(draw, {number: Node() for number in range(1, count + 1)}, waits=waits)
    quorum.observers = {number: Node() for number in range(11, 11 + observers)}
    for _ in range(draw.randint(10, 80)):
        quorum.step()
    return quorum
