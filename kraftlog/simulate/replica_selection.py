"""How much consumers of each rack read within their rack, from the leader and with KIP-392.

In: brokers and partitions of a state, from an image or from the lake's history tables, and a
selector. Out: counts per rack and topic. One plain loop: 200,000 partitions take seconds. Source:
KIP-392 "Motivation", R120, R131, R136, R140.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kraftlog.errors import UsageError
from kraftlog.simulate.selectors import (
    ClientMetadata,
    Node,
    PartitionView,
    ReplicaSelector,
    ReplicaView,
    SeedRackAwareSelector,
    TopicPartition,
)
from kraftlog.state.state import State

Row = dict[str, Any]
NO_LEADER = -1
ALL_RACKS = "*"


class Broker(NamedTuple):
    """A registered broker."""

    id: int
    rack: str | None
    fenced: bool


class Partition(NamedTuple):
    """A data partition as the metadata describe it."""

    topic: str
    partition: int
    replicas: list[int]
    isr: list[int]
    leader: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The state that a selection is run over."""

    brokers: Mapping[int, Broker]
    partitions: Iterable[Partition]

    @property
    def racks(self) -> list[str]:
        """The racks that brokers name: those of consumers that KIP-392 can help."""
        return sorted({one.rack for one in self.brokers.values() if one.rack})

    @property
    def without_rack(self) -> list[int]:
        """Brokers that name none (R133): consumers never count as near to them."""
        return sorted(one.id for one in self.brokers.values() if not one.rack)


def cluster_of(state: State) -> Cluster:
    """The cluster of an image."""
    brokers = (
        Broker(one["brokerId"], one["rack"], one["fenced"])
        for one in state.rows("brokers").values()
    )
    names: dict[str, str] = {one["topicId"]: one["name"] for one in state.rows("topics").values()}
    partitions = (
        Partition(
            names.get(one["topicId"]) or str(one["topicId"]),
            one["partitionId"],
            one["replicas"],
            one["isr"],
            one["leader"],
        )
        for one in state.rows("partitions").values()
    )
    return Cluster({one.id: one for one in brokers}, partitions)


@dataclass(slots=True)
class Served:
    """Counts of one rack's consumers over the partitions of one topic."""

    partition_count: int = 0
    offline_count: int = 0
    leader_local_count: int = 0
    local_count: int = 0
    preferred_read_replica_count: int = 0
    by_broker: Counter[int] = field(default_factory=Counter)

    def add(self, other: "Served") -> None:
        self.partition_count += other.partition_count
        self.offline_count += other.offline_count
        self.leader_local_count += other.leader_local_count
        self.local_count += other.local_count
        self.preferred_read_replica_count += other.preferred_read_replica_count
        self.by_broker.update(other.by_broker)


def select_all(cluster: Cluster, selector: ReplicaSelector) -> dict[tuple[str, str], Served]:
    """The counts per (client rack, topic). What a broker would see of a follower's log is not in
    the metadata: members of the ISR count as caught up, and only the KIP's own selector is shown
    replicas outside it, as far behind.

    Raises UsageError where a selector fails, or answers with a replica that it was not shown.
    """
    clients = [ClientMetadata(rack) for rack in cluster.racks]
    outside = isinstance(selector, SeedRackAwareSelector)
    nodes = [Node(one.id, one.rack) for one in cluster.brokers.values() if not one.fenced]
    inside = {one.id: ReplicaView(one, 0) for one in nodes}
    behind = {one.id: ReplicaView(one, -1) for one in nodes} if outside else {}
    found: dict[tuple[str, str], Served] = {}
    for one in cluster.partitions:
        view = _view(one, inside, behind)
        at = TopicPartition(one.topic, one.partition)
        for client in clients:
            served = found.get((client.rack_id, one.topic))
            if served is None:
                served = found[client.rack_id, one.topic] = Served()
            served.partition_count += 1
            if view.leader is None:
                served.offline_count += 1
            else:
                _serve(served, client, view, view.leader, _select(selector, at, client, view))
    return found


def _select(
    selector: ReplicaSelector, at: TopicPartition, client: ClientMetadata, view: PartitionView
) -> ReplicaView | None:
    try:
        return selector.select(at, client, view)
    except Exception as error:  # a selector of the user's may raise anything
        raise UsageError(f"the selector failed at {at.topic}-{at.partition}: {error!r}") from error


def _view(
    one: Partition, inside: Mapping[int, ReplicaView], behind: Mapping[int, ReplicaView]
) -> PartitionView:
    """What a selector sees: replicas in the ISR as they are `inside`, others as they are `behind`,
    if there."""
    isr = one.isr
    seen = (inside.get(broker) if broker in isr else behind.get(broker) for broker in one.replicas)
    return PartitionView(tuple(view for view in seen if view is not None), inside.get(one.leader))


def _serve(
    served: Served,
    client: ClientMetadata,
    view: PartitionView,
    leader: ReplicaView,
    chosen: ReplicaView | None,
) -> None:
    """Without an answer the consumer stays with the leader."""
    if chosen is None:
        chosen = leader
    elif chosen is not leader and chosen not in view.replicas:
        raise UsageError(f"the selector chose {chosen!r}, which is no replica of the partition")
    served.leader_local_count += leader.endpoint.rack == client.rack_id
    served.local_count += chosen.endpoint.rack == client.rack_id
    served.preferred_read_replica_count += chosen.endpoint.id != leader.endpoint.id
    served.by_broker[chosen.endpoint.id] += 1


def topic_rows(found: Mapping[tuple[str, str], Served]) -> Iterator[Row]:
    """Rows of the table `replica_selection`."""
    for (rack, topic), one in sorted(found.items()):
        yield {"client_rack": rack, "topic": topic, **_counts(one)} | {
            "partitions_by_broker": sorted(one.by_broker.items())
        }


def rack_rows(found: Mapping[tuple[str, str], Served]) -> Iterator[Row]:
    """One row per client rack, and one (`*`) for as many consumers in each rack."""
    racks: dict[str, Served] = {}
    every = Served()
    for (rack, _), one in sorted(found.items()):
        racks.setdefault(rack, Served()).add(one)
        every.add(one)
    for rack, one in (*racks.items(), (ALL_RACKS, every)) if racks else ():
        online = one.partition_count - one.offline_count
        yield {
            "client_rack": rack,
            **_counts(one),
            "leader_local_share": round(one.leader_local_count / online, 4) if online else None,
            "local_share": round(one.local_count / online, 4) if online else None,
            "partitions_by_broker": {str(k): v for k, v in sorted(one.by_broker.items())},
        }


def _counts(one: Served) -> Row:
    return {
        "partition_count": one.partition_count,
        "offline_count": one.offline_count,
        "leader_local_count": one.leader_local_count,
        "local_count": one.local_count,
        "preferred_read_replica_count": one.preferred_read_replica_count,
    }
