"""Replicas that fail and take over, with two rules of truncation side by side: to the high
watermark, as Kafka once did, and by leader epochs.

In: a frozen `Cluster` and events. Out: the cluster after them, and the acknowledged records that
its leader lacks. A small model for the scenarios of KAFKA-1211: a log is a tuple of records, an
offset its place. Source: KAFKA-1211.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from kraftlog.quorum import epochs
from kraftlog.quorum.epochs import EpochVector


class Rule(StrEnum):
    """How a follower decides what of its log to keep before it fetches from a new leader.

    Acknowledgements that are held cut to the high watermark as well, and tell a producer that a
    record is committed only when every replica has heard so: a round trip more for each write.
    """

    HIGH_WATERMARK = "high_watermark"
    HELD_ACKNOWLEDGEMENTS = "held_acknowledgements"
    LEADER_EPOCH = "leader_epoch"


class Message(NamedTuple):
    """A record, and the epoch of the leader that wrote it."""

    epoch: int
    name: str


@dataclass(frozen=True, slots=True)
class Node:
    """One replica: its log, its vector, and the high watermark that it knows of."""

    log: tuple[Message, ...] = ()
    vector: EpochVector = field(default_factory=lambda: EpochVector((), 0))
    high_watermark: int = 0
    is_alive: bool = True

    def cut(self, offset: int) -> "Node":
        """The log below an offset."""
        mark = min(self.high_watermark, offset)
        kept, vector = self.log[:offset], self.vector.truncated(offset)
        return replace(self, log=kept, vector=vector, high_watermark=mark)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Replicas by name. `acknowledged` is what producers were told is committed."""

    rule: Rule
    nodes: dict[str, Node]
    leader: str | None = None
    epoch: int = 0
    acknowledged: tuple[Message, ...] = ()

    def elect(self, name: str) -> "Cluster":
        """A replica leads from now on: it notes its epoch's start before it takes a record."""
        node = self.nodes[name]
        vector = node.vector.assigned(self.epoch + 1)
        led = replace(self, leader=name, epoch=self.epoch + 1)
        return led._with(name, replace(node, vector=vector))

    def produce(self, *names: str) -> "Cluster":
        """Records for the leader, which are on no other replica yet."""
        leader = self._leading()
        log = (*leader.log, *(Message(self.epoch, name) for name in names))
        wrote = replace(leader, log=log, vector=leader.vector.extended(len(log)))
        return self._with(self._leader_name(), wrote)

    def follow(self, name: str) -> "Cluster":
        """A replica becomes a follower of this leader: it cuts its log, then fetches."""
        node = self.nodes[name]
        if self.rule != Rule.LEADER_EPOCH:
            return self._with(name, node.cut(node.high_watermark))
        offset = epochs.truncation_offset(node.vector, self._leading().vector)
        return self._with(name, node.cut(offset))

    def fetch(self, name: str) -> "Cluster":
        """One fetch to the end of the leader's log. The follower learns the high watermark of the
        moment before; its own fetch may raise the leader's, and acknowledge records.
        """
        leader, node = self._leading(), self.nodes[name]
        vector = EpochVector(leader.vector.entries, len(leader.log))
        fetched = replace(node, log=leader.log, vector=vector, high_watermark=leader.high_watermark)
        return self._with(name, fetched)._advance()

    def fail(self, name: str) -> "Cluster":
        """A replica stops; its disk stays."""
        leader = None if self.leader == name else self.leader
        failed = replace(self.nodes[name], is_alive=False)
        return replace(self, leader=leader)._with(name, failed)

    def restart(self, name: str) -> "Cluster":
        """A replica comes back with what lies on its disk, and follows the leader."""
        back = self._with(name, replace(self.nodes[name], is_alive=True))
        return back.follow(name) if back.leader else back

    @property
    def lost(self) -> tuple[Message, ...]:
        """Acknowledged records that the leader does not hold."""
        return tuple(one for one in self.acknowledged if one not in self._leading().log)

    def _advance(self) -> "Cluster":
        """The leader's high watermark is what every living replica holds; what lies below it is
        acknowledged, or, where acknowledgements are held, what lies below every replica's own.
        """
        leader = self._leading()
        alive = [one for one in self.nodes.values() if one.is_alive]
        mark = max(leader.high_watermark, min(len(one.log) for one in alive))
        after = self._with(self._leader_name(), replace(leader, high_watermark=mark))
        told = mark
        if self.rule == Rule.HELD_ACKNOWLEDGEMENTS:
            told = min(one.high_watermark for one in after.nodes.values() if one.is_alive)
        new = tuple(one for one in leader.log[:told] if one not in self.acknowledged)
        return replace(after, acknowledged=(*self.acknowledged, *new))

    def _leader_name(self) -> str:
        if self.leader is None:
            raise ValueError("nobody leads")
        return self.leader

    def _leading(self) -> Node:
        return self.nodes[self._leader_name()]

    def _with(self, name: str, node: Node) -> "Cluster":
        return replace(self, nodes={**self.nodes, name: node})


class Cost(NamedTuple):
    """What two remedies add per day, in ms of waiting: a question for the leader's vector by each
    follower at each election, and one more round trip for each write.
    """

    vector_ms: float
    held_acknowledgement_ms: float


def remedy_cost(
    elections_per_day: float, followers: int, writes_per_day: float, round_trip_ms: float
) -> Cost:
    """Both costs for one cluster's rates."""
    return Cost(
        elections_per_day * followers * round_trip_ms,
        writes_per_day * round_trip_ms,
    )
