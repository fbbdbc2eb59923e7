"""Which replica a broker tells a consumer to read from: Kafka's plugin interface, its two built-in
selectors, and a way to try one's own without a cluster.

In: what a selector may know of client and partition. Out: a replica, or None. Pure. Source: KIP-392
"Broker API"; Kafka's LeaderSelector, RackAwareReplicaSelector and
ReplicaManager.findPreferredReadReplica.
"""

import importlib
from typing import NamedTuple, Protocol

from kraftlog.errors import UsageError


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class ClientMetadata(NamedTuple):
    """What the broker knows of a consumer; `rack_id` is its client.rack, "" for none."""

    rack_id: str
    client_id: str = ""
    client_address: str = ""
    principal: str = "User:ANONYMOUS"
    listener_name: str = ""


class Node(NamedTuple):
    """A broker; `rack` is its broker.rack."""

    id: int
    rack: str | None = None
    host: str = ""
    port: int = -1


class ReplicaView(NamedTuple):
    """One replica of a partition, as its leader sees it."""

    endpoint: Node
    log_end_offset: int = 0
    time_since_last_caught_up_ms: int = 0


class PartitionView(NamedTuple):
    """The replicas that may be read from, the leader among them where there is one."""

    replicas: tuple[ReplicaView, ...]
    leader: ReplicaView | None


class ReplicaSelector(Protocol):
    """A selector: one method. None means that no replica is available."""

    def select(
        self, topic_partition: TopicPartition, client: ClientMetadata, partition: PartitionView
    ) -> ReplicaView | None: ...


class LeaderSelector:
    """Always the leader, which is what Kafka does without any selector."""

    def select(
        self, topic_partition: TopicPartition, client: ClientMetadata, partition: PartitionView
    ) -> ReplicaView | None:
        return partition.leader


class SeedRackAwareSelector:
    """As KIP-392 was drafted: the most caught-up replica in the client's rack, else the leader."""

    def select(
        self, topic_partition: TopicPartition, client: ClientMetadata, partition: PartitionView
    ) -> ReplicaView | None:
        return _most_caught_up(_in_rack(client, partition)) or partition.leader


class RackAwareReplicaSelector:
    """As shipped: the leader itself where it is in the client's rack, then as drafted."""

    def select(
        self, topic_partition: TopicPartition, client: ClientMetadata, partition: PartitionView
    ) -> ReplicaView | None:
        return closest(client, partition) or partition.leader


def closest(client: ClientMetadata, partition: PartitionView) -> ReplicaView | None:
    """The replica in a client's own rack, the leader before others; None where none is there."""
    near = _in_rack(client, partition)
    return partition.leader if partition.leader in near else _most_caught_up(near)


def _in_rack(client: ClientMetadata, partition: PartitionView) -> list[ReplicaView]:
    if not client.rack_id:
        return []
    return [one for one in partition.replicas if one.endpoint.rack == client.rack_id]


def _most_caught_up(replicas: list[ReplicaView]) -> ReplicaView | None:
    """The largest log end, then the shortest time behind, then the highest id."""
    return max(
        replicas,
        key=lambda one: (one.log_end_offset, -one.time_since_last_caught_up_ms, one.endpoint.id),
        default=None,
    )


BUILT_IN: dict[str, type[ReplicaSelector]] = {
    "leader": LeaderSelector,
    "rack-aware": RackAwareReplicaSelector,
    "rack-aware-kip": SeedRackAwareSelector,
}


def load_selector(name: str) -> ReplicaSelector:
    """A built-in selector, or a class of one's own as `module:Class`, made without arguments.

    Raises UsageError where there is none of that name."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    module, colon, attribute = name.partition(":")
    if not colon:
        known = ", ".join(BUILT_IN)
        raise UsageError(f"there is no selector {name!r}: say {known}, or module:Class")
    try:
        found = getattr(importlib.import_module(module), attribute)()
    except (Exception, SystemExit) as error:  # a module of the user's may raise anything
        raise UsageError(f"the selector {name!r} cannot be made: {error!r}") from error
    if not callable(getattr(found, "select", None)):
        raise UsageError(f"the selector {name!r} has no method select")
    selector: ReplicaSelector = found
    return selector
