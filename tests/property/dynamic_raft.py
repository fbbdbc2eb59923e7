"""A quorum in memory whose voters change (KIP-853): a set counts as soon as it is written, committed
or not; a leader changes it by one voter, once its epoch and the change before are committed; one
that has removed itself leads on until that is committed; a lost disk comes back as another one.

A disk's number is its node's id, and a ten more for each disk that the node has lost. The first
leader writes three records at once: its election, kraft.version, and the voters of the bootstrap
checkpoint, which no fetch brings. Source: KIP-853; Kafka's LeaderState, AddVoterHandler,
RemoveVoterHandler, UpdateVoterHandler and KafkaRaftClient.
"""

import random
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.property.raft import Node as Disk
from tests.property.raft import granted_by, shared
from tests.unit.audit_logs import (
    NO_OP,
    NO_PRODUCERS,
    START_MS,
    Batch,
    Node,
    disk_text,
    leader_change,
    topic,
    voters_record,
)

OPENING = 3
"""So many records the first leader writes at once."""
Voters = frozenset[int]


def node_of(disk: int) -> int:
    """The id of a disk's node."""
    return disk % 10


@dataclass
class DynamicQuorum:
    """Disks, those of voters and of observers, and what was committed."""

    random: random.Random
    initial: Voters
    disks: dict[int, Disk]
    losing: bool = False
    stopped: float = 0
    """So many of the nodes were stopped cleanly before they were copied."""
    committed: list[int] = field(default_factory=list)
    ever: set[tuple[int, int]] = field(default_factory=set)
    sets: dict[tuple[int, int], Voters] = field(default_factory=dict)
    """The voters that a record names, by its place and epoch."""
    granted: dict[int, Voters] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)
    electorates: dict[int, Voters] = field(default_factory=dict)

    def changed_at(self, log: list[int]) -> int:
        """Where the newest set of a log stands, −1 without one."""
        return max((at for at, epoch in enumerate(log) if (at, epoch) in self.sets), default=-1)

    def voters(self, number: int, log: list[int] | None = None) -> Voters:
        """Who votes, for all that a disk knows."""
        log = self.disks[number].log if log is None else log
        at = self.changed_at(log)
        if at >= 0:
            return self.sets[at, log[at]]
        return self.initial if number in self.initial else frozenset()

    def step(self) -> None:
        """Something happens."""
        what = self.random.random()
        if what < 0.13:
            self.elect()
        elif what < 0.35:
            self.append()
        elif what < 0.45:
            self.change()
        elif what < 0.92:
            self.replicate()
        elif what < 0.95 and self.losing:
            self.lose()
        else:
            self.random.choice(list(self.disks.values())).leads = False

    def lose(self) -> None:
        """A node comes back with an empty disk."""
        number = self.random.choice(list(self.disks))
        if number < 60:
            del self.disks[number]
            self.disks[number + 10] = Disk()

    def elect(self) -> None:
        """A voter asks some of the others."""
        candidate = self.random.choice(list(self.disks))
        one, voters = self.disks[candidate], self.voters(candidate)
        if candidate not in voters:
            return
        epoch = one.epoch + 1
        asked = [n for n in voters if n == candidate or self.random.random() < 0.6]
        votes = granted_by(self.disks, candidate, epoch, asked)
        if candidate in votes and len(votes) > len(voters) // 2:
            one.leads = True
            self.granted[epoch], self.leaders[epoch] = votes, candidate
            self.electorates[epoch] = voters
            if self.random.random() < 0.97:
                if self.changed_at(one.log) < 0:
                    self.sets[len(one.log) + OPENING - 1, epoch] = voters
                    one.log += [epoch] * (OPENING - 1)
                one.log.append(epoch)
                self.commit(candidate)
            else:
                one.leads = False

    def _leading(self, *, able: bool) -> list[int]:
        found = [number for number, one in self.disks.items() if one.leads]
        if able:
            found = [
                n for n in found if self.disks[n].epoch in self.disks[n].log[: self.disks[n].known]
            ]
        return found

    def append(self) -> None:
        """A leader writes, once the first record of its epoch is committed."""
        leaders = self._leading(able=True)
        if leaders:
            number = self.random.choice(leaders)
            one = self.disks[number]
            one.log += [one.epoch] * self.random.randint(1, 3)
            self.commit(number)

    def change(self) -> None:
        """A leader adds a voter that holds all, removes one, or names them anew."""
        leaders = self._leading(able=True)
        if not leaders:
            return
        leader = self.random.choice(leaders)
        one, voters = self.disks[leader], self.voters(leader)
        if self.changed_at(one.log) >= one.known:
            return
        ids = {node_of(each) for each in voters}
        new = [n for n, each in self.disks.items() if node_of(n) not in ids and each.log == one.log]
        options = [voters, *[voters | {n} for n in new] * 2]
        options += [voters - {n} for n in voters if len(voters) > 1]
        lost = [voters - {n} for n in voters if n not in self.disks and len(voters) > 1]
        chosen = self.random.choice(lost * 3 + options)
        self.sets[len(one.log), one.epoch] = chosen
        one.log.append(one.epoch)
        self.commit(leader)

    def replicate(self) -> None:
        """A node fetches from a leader."""
        leaders = self._leading(able=False)
        followers = [number for number in self.disks if number not in leaders]
        if not leaders or not followers:
            return
        number = self.random.choice(leaders)
        leader, follower = self.disks[number], self.disks[self.random.choice(followers)]
        common = follower.follow(leader)
        if common is None:
            return
        end = max(common + self.random.randint(1, 4), OPENING)
        follower.log += leader.log[common:end]
        self.commit(number)
        follower.known = max(follower.known, min(leader.known, len(follower.log)))

    def commit(self, number: int) -> None:
        """What a majority of the leader's voters holds, once that is of its own epoch."""
        leader, voters = self.disks[number], self.voters(number)
        ends = sorted(
            (shared(self.disks[n].log, leader.log) if n in self.disks else 0 for n in voters),
            reverse=True,
        )
        mark = ends[len(voters) // 2]
        if mark > leader.known and leader.log[mark - 1] == leader.epoch:
            leader.known = mark
            if mark > len(self.committed):
                assert leader.log[: len(self.committed)] == self.committed, "Raft itself is broken"
                self.committed = leader.log[:mark]
                self.ever.update(enumerate(self.committed))
            else:
                assert leader.log[:mark] == self.committed[:mark], "Raft itself is broken"
            if number not in voters and self.changed_at(leader.log) < mark:
                leader.leads = False

    def cannot_be_undone(self, prefix: list[int]) -> bool:
        """Whether every disk that could win an election now holds a prefix."""
        return all(
            one.log[: len(prefix)] == prefix
            for number, one in self.disks.items()
            if self.could_win(number)
        )

    def could_win(self, number: int, down: int | None = None) -> bool:
        voters, key = self.voters(number), self.disks[number].key
        votes = sum(n in self.disks and n != down and self.disks[n].key <= key for n in voters)
        return number in voters and number != down and votes > len(voters) // 2


def dynamic(seed: int, losing: bool = False) -> DynamicQuorum:
    """A quorum that begins with one to four voters, among five to seven nodes."""
    draw = random.Random(seed)
    count = draw.randint(1, 4)
    numbers = range(1, count + draw.randint(2, 4) + 1)
    quorum = DynamicQuorum(
        draw, frozenset(range(1, count + 1)), {one: Disk() for one in numbers}, losing
    )
    for _ in range(draw.randint(10, 120)):
        quorum.step()
    return quorum


# --- on disk --------------------------------------------------------------------------------------


def _voters(voters: Voters) -> tuple[int, bytes]:
    return 6, voters_record([(node_of(one), one) for one in sorted(voters, key=node_of)])


_VERSION = 5, struct.pack(">hh", 0, 1) + b"\0"


def _batches(quorum: DynamicQuorum, log: list[int]) -> list[Batch]:
    """The records of a log: those of an opening in one batch, else each in its own."""
    found: list[Batch] = []
    for offset, epoch in enumerate(log):
        if found and offset < found[-1].end:
            continue
        ms = START_MS + 1000 * (100 * epoch + offset)
        if not found or found[-1].epoch != epoch:
            granted, voters = (
                sorted(map(node_of, ids[epoch])) for ids in (quorum.granted, quorum.electorates)
            )
            one = leader_change(offset, epoch, node_of(quorum.leaders[epoch]), ms, granted, voters)
            if offset == 0:
                one = _with(one, _VERSION, _voters(quorum.sets[OPENING - 1, epoch]))
        elif (offset, epoch) in quorum.sets:
            one = _with(Batch(offset, epoch, (), (), ms), _voters(quorum.sets[offset, epoch]))
        else:
            is_topic = offset % 2 == 0 and offset < 64
            value = topic(f"t{epoch}-{offset}", 64 * (epoch % 4) + offset) if is_topic else NO_OP
            one = Batch(offset, epoch, (value,), None, ms)
        found.append(one)
    return found


def _with(batch: Batch, *records: tuple[int, bytes]) -> Batch:
    """A control batch with some records more, by their types."""
    keys = (*(batch.keys or ()), *(struct.pack(">hh", 0, kind) for kind, _ in records))
    return replace(batch, values=(*batch.values, *(value for _, value in records)), keys=keys)


def write_disk(quorum: DynamicQuorum, number: int, root: Path) -> None:
    """A node's folder, some with a snapshot, some with a log that begins there."""
    draw, disk, node = quorum.random, quorum.disks[number], Node(root, node_of(number))
    log = _batches(quorum, disk.log)
    start, end = 0, draw.randint(0, disk.known)
    end = end if end >= OPENING else 0
    if number in quorum.initial:
        raw = _checkpoint([], quorum.initial, 0, START_MS)
        node.checkpoint(0, 0).write_bytes(raw)
    if end and draw.random() < 0.5:
        kept = [one for one in log if one.end <= end]
        stored = [one for one in kept if one.keys is None and one.values != (NO_OP,)]
        raw = _checkpoint(
            stored, quorum.voters(number, disk.log[:end]), kept[-1].epoch, kept[-1].ms
        )
        node.checkpoint(end, kept[-1].epoch).write_bytes(raw)
        start = end if draw.random() < 0.5 else 0
        if start and (node.checkpoint(0, 0)).exists():
            node.checkpoint(0, 0).unlink()
    node.segment(start).write_bytes(b"".join(one.raw() for one in log if one.base >= start))
    begins = {one.epoch: one.base for one in reversed(log) if one.base >= start}
    if start == len(disk.log) > 0:
        begins = {disk.log[-1]: start}  # Kafka keeps the epoch that has ended there.
    node.epochs(sorted(begins.items()))
    if draw.random() < quorum.stopped and log:
        (node.folder / f"{len(disk.log):020d}.snapshot").write_bytes(NO_PRODUCERS)
        node.segment(start).with_suffix(".index").write_bytes(b"")
    is_led = disk.voted is None or disk.epoch in disk.log
    led_by = quorum.leaders.get(disk.epoch)
    node.quorum_state(
        data_version=1,
        leaderId=-1 if led_by is None or not is_led else node_of(led_by),
        leaderEpoch=disk.epoch,
        votedId=-1 if is_led or disk.voted is None else node_of(disk.voted),
        **({} if is_led or disk.voted is None else {"votedDirectoryId": disk_text(disk.voted)}),
    )
    node.meta(directory=number)


def _checkpoint(stored: list[Batch], voters: Voters, epoch: int, ms: int) -> bytes:
    head = Batch(0, epoch, (), (), ms)
    parts = [_with(head, (3, struct.pack(">hq", 0, ms) + b"\0"), _VERSION, _voters(voters))]
    for one in stored:
        parts.append(Batch(parts[-1].end, epoch, one.values, None, ms))
    parts.append(_with(replace(head, base=parts[-1].end), (4, struct.pack(">h", 0) + b"\0")))
    return b"".join(one.raw() for one in parts)
