"""Replicas that fail and take over, record by record: what `plan failover` and `plan truncation`
must say of the same logs on disk.

A small model of KAFKA-1211: a log is a tuple of records, an offset its place. Rules of truncation:
to the high watermark, as Kafka once did, and by leader epochs. It is written from the ticket, and
finds where two logs part by comparing them record by record, with no vector of epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from kraftlog.simulate.failover_rows import TruncationRule


class Message(NamedTuple):
    """A record, and the epoch of the leader that wrote it."""

    epoch: int
    name: str


@dataclass(frozen=True, slots=True)
class Node:
    """One replica: its log, and the high watermark that it knows of."""

    log: tuple[Message, ...] = ()
    high_watermark: int = 0
    is_alive: bool = True

    def cut(self, offset: int) -> Node:
        """The log below an offset."""
        return replace(self, log=self.log[:offset], high_watermark=min(self.high_watermark, offset))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Replicas by name. `acknowledged` is what producers were told is committed."""

    rule: TruncationRule
    nodes: dict[str, Node]
    leader: str | None = None
    epoch: int = 0
    acknowledged: tuple[Message, ...] = ()

    def elect(self, name: str) -> Cluster:
        """A replica leads from now on."""
        return replace(self, leader=name, epoch=self.epoch + 1)

    def produce(self, *names: str) -> Cluster:
        """Records for the leader, which are on no other replica yet."""
        leader = self._leading()
        log = (*leader.log, *(Message(self.epoch, name) for name in names))
        return self._with(self._leader_name(), replace(leader, log=log))

    def follow(self, name: str) -> Cluster:
        """A replica becomes a follower of this leader: it cuts its log, then fetches."""
        node = self.nodes[name]
        if self.rule != TruncationRule.LEADER_EPOCH:
            return self._with(name, node.cut(node.high_watermark))
        pairs = zip(node.log, self._leading().log, strict=False)
        apart = next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
        shared = min(len(node.log), len(self._leading().log)) if apart is None else apart
        return self._with(name, node.cut(shared))

    def fetch(self, name: str) -> Cluster:
        """One fetch to the end of the leader's log. The follower learns the high watermark of the
        moment before; its own fetch may raise the leader's, and acknowledge records.
        """
        leader, node = self._leading(), self.nodes[name]
        fetched = replace(node, log=leader.log, high_watermark=leader.high_watermark)
        return self._with(name, fetched)._advance()

    def fail(self, name: str) -> Cluster:
        """A replica stops; its disk stays."""
        leader = None if self.leader == name else self.leader
        failed = replace(self.nodes[name], is_alive=False)
        return replace(self, leader=leader)._with(name, failed)

    def restart(self, name: str) -> Cluster:
        """A replica comes back with what lies on its disk, and follows the leader."""
        back = self._with(name, replace(self.nodes[name], is_alive=True))
        return back.follow(name) if back.leader else back

    @property
    def lost(self) -> tuple[Message, ...]:
        """Acknowledged records that the leader does not hold."""
        return tuple(one for one in self.acknowledged if one not in self._leading().log)

    def _advance(self) -> Cluster:
        """The leader's high watermark is what every living replica holds; what lies below it is
        acknowledged, or, where acknowledgements are held, what lies below every replica's own.
        """
        leader = self._leading()
        alive = [one for one in self.nodes.values() if one.is_alive]
        mark = max(leader.high_watermark, min(len(one.log) for one in alive))
        after = self._with(self._leader_name(), replace(leader, high_watermark=mark))
        told = mark
        if self.rule == TruncationRule.HELD_ACKNOWLEDGEMENTS:
            told = min(one.high_watermark for one in after.nodes.values() if one.is_alive)
        new = tuple(one for one in leader.log[:told] if one not in self.acknowledged)
        return replace(after, acknowledged=(*self.acknowledged, *new))

    def _leader_name(self) -> str:
        if self.leader is None:
            raise ValueError("nobody leads")
        return self.leader

    def _leading(self) -> Node:
        return self.nodes[self._leader_name()]

    def _with(self, name: str, node: Node) -> Cluster:
        return replace(self, nodes={**self.nodes, name: node})
