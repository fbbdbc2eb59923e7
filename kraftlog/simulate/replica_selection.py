"""How much consumers of each rack read within it, from the leader and with KIP-392, and what the
rest costs.

In: brokers and partitions of a state, from an image or from the lake's history tables, a selector,
and what is read. Out: counts and bytes per rack and topic, or per partition. One plain loop:
200,000 partitions take seconds. Source: KIP-392 "Motivation", "Preferred Read Replica", "Metrics".
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kraftlog.errors import UsageError
from kraftlog.simulate.selectors import (
    BUILT_IN,
    ClientMetadata,
    Node,
    PartitionView,
    ReplicaSelector,
    ReplicaView,
    SeedRackAwareSelector,
    TopicPartition,
    closest,
)
from kraftlog.simulate.traffic import Traffic, cost_per_month
from kraftlog.state.state import State

Row = dict[str, Any]
FROM_LEADER = -1
"""Of the metric preferred-read-replica: the consumer reads from the leader."""
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
    replicas: Sequence[int]
    isr: Sequence[int]
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
        """Brokers that name none: consumers never count as near to them."""
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


class Read(NamedTuple):
    """Where a consumer reads a partition: from which broker, and how near it and the leader are.
    `closest_id` is the replica that lies in its rack, the leader before others; None for none.
    """

    broker_id: int
    leader_is_local: bool
    is_local: bool
    is_preferred_replica: bool
    closest_id: int | None

    @property
    def preferred_read_replica(self) -> int:
        """As the consumer's metric of that name has it."""
        return self.broker_id if self.is_preferred_replica else FROM_LEADER


@dataclass(slots=True)
class Served:
    """Counts of one rack's consumers over the partitions of one topic."""

    partition_count: int = 0
    offline_count: int = 0
    leader_local_count: int = 0
    local_count: int = 0
    preferred_read_replica_count: int = 0
    volume: float = 0.0
    crossing_before: float = 0.0
    crossing_after: float = 0.0
    by_broker: Counter[int] = field(default_factory=Counter)
    closest: dict[int, int | None] = field(default_factory=dict)
    preferred: dict[int, int | None] = field(default_factory=dict)

    def add(self, other: "Served") -> None:
        self.partition_count += other.partition_count
        self.offline_count += other.offline_count
        self.leader_local_count += other.leader_local_count
        self.local_count += other.local_count
        self.preferred_read_replica_count += other.preferred_read_replica_count
        self.volume += other.volume
        self.crossing_before += other.crossing_before
        self.crossing_after += other.crossing_after
        self.by_broker.update(other.by_broker)

    def count(self, partition: int, read: Read | None, volume: float = 1.0) -> None:
        """One more partition, of which so much is read; None: it is offline."""
        self.partition_count += 1
        self.closest[partition] = read.closest_id if read else None
        self.preferred[partition] = read.preferred_read_replica if read else None
        if read is None:
            self.offline_count += 1
            return
        self.volume += volume
        self.crossing_before += 0.0 if read.leader_is_local else volume
        self.crossing_after += 0.0 if read.is_local else volume
        self.leader_local_count += read.leader_is_local
        self.local_count += read.is_local
        self.preferred_read_replica_count += read.is_preferred_replica
        self.by_broker[read.broker_id] += 1


def select_all(
    cluster: Cluster, selector: ReplicaSelector, traffic: Traffic | None = None
) -> dict[tuple[str, str], Served]:
    """The counts per (client rack, topic); without traffic each partition is read as much as each
    other.

    Raises UsageError where a selector fails, or answers with a replica that it was not shown.
    """
    found: dict[str, list[Served]] = {}
    racks = cluster.racks
    alike = (1.0,) * len(racks)
    for one, reads in reads_of(cluster, selector):
        served = found.get(one.topic)
        if served is None:
            served = found[one.topic] = [Served() for _ in racks]
        volumes = alike if traffic is None else traffic.of(one.topic, one.partition)
        for counts, read, volume in zip(served, reads, volumes, strict=True):
            counts.count(one.partition, read, volume)
    return {
        (rack, topic): counts
        for topic, served in found.items()
        for rack, counts in zip(racks, served, strict=True)
    }


def reads_of(
    cluster: Cluster, selector: ReplicaSelector
) -> Iterator[tuple[Partition, list[Read | None]]]:
    """Each partition, and where consumers of each rack read it. What a broker would see of a
    follower's log is not in the metadata: members of the ISR count as caught up, and only the KIP's
    own selector is shown replicas outside it, as far behind. A built-in selector is asked once for
    all partitions that lie alike: it looks at nothing else.
    """
    clients = [ClientMetadata(rack) for rack in cluster.racks]
    outside = isinstance(selector, SeedRackAwareSelector)
    nodes = [Node(one.id, one.rack) for one in cluster.brokers.values() if not one.fenced]
    inside = {one.id: ReplicaView(one, 0) for one in nodes}
    behind = {one.id: ReplicaView(one, -1) for one in nodes} if outside else {}
    is_built_in = type(selector) in BUILT_IN.values()
    known: dict[tuple[tuple[int, ...], tuple[int, ...], int], list[Read | None]] = {}
    for one in cluster.partitions:
        lying = (tuple(one.replicas), tuple(one.isr), one.leader)
        reads = known.get(lying) if is_built_in else None
        if reads is None:
            at, view = TopicPartition(one.topic, one.partition), _view(one, inside, behind)
            reads = known[lying] = [_read(selector, at, client, view) for client in clients]
        yield one, reads


def _view(
    one: Partition, inside: Mapping[int, ReplicaView], behind: Mapping[int, ReplicaView]
) -> PartitionView:
    """What a selector sees: replicas in the ISR as they are `inside`, others as they are `behind`,
    if there."""
    isr = one.isr
    seen = (inside.get(broker) if broker in isr else behind.get(broker) for broker in one.replicas)
    return PartitionView(tuple(view for view in seen if view is not None), inside.get(one.leader))


def _read(
    selector: ReplicaSelector, at: TopicPartition, client: ClientMetadata, view: PartitionView
) -> Read | None:
    """Without an answer the consumer stays with the leader; without a leader it reads nothing."""
    leader = view.leader
    if leader is None:
        return None
    try:
        chosen = selector.select(at, client, view)
    except Exception as error:  # a selector of the user's may raise anything
        raise UsageError(f"the selector failed at {at.topic}-{at.partition}: {error!r}") from error
    if chosen is None:
        chosen = leader
    elif chosen is not leader and chosen not in view.replicas:
        raise UsageError(f"the selector chose {chosen!r}, which is not a replica of the partition")
    return Read(
        chosen.endpoint.id,
        leader.endpoint.rack == client.rack_id,
        chosen.endpoint.rack == client.rack_id,
        chosen.endpoint.id != leader.endpoint.id,
        near.endpoint.id if (near := closest(client, view)) is not None else None,
    )


def topic_rows(found: Mapping[tuple[str, str], Served]) -> Iterator[Row]:
    """Rows of the table `replica_selection`."""
    for (rack, topic), one in sorted(found.items()):
        yield {"client_rack": rack, "topic": topic, **_counts(one)} | {
            "cross_zone_share_before": _share(one.crossing_before, one.volume),
            "cross_zone_share_after": _share(one.crossing_after, one.volume),
            "partitions_by_broker": sorted(one.by_broker.items()),
            "closest_replicas": sorted(one.closest.items()),
            "preferred_read_replicas": sorted(one.preferred.items()),
        }


def partition_rows(
    cluster: Cluster, selector: ReplicaSelector, traffic: Traffic, price_per_gb: float
) -> Iterator[Row]:
    """One row per rack of consumers and partition."""
    racks = {one.id: one.rack for one in cluster.brokers.values()}
    for one, reads in reads_of(cluster, selector):
        volumes = traffic.of(one.topic, one.partition)
        for rack, read, volume in zip(cluster.racks, reads, volumes, strict=True):
            counted = Served()
            counted.count(one.partition, read, volume)
            yield {
                "client_rack": rack,
                "topic": one.topic,
                "partition": one.partition,
                "leader": one.leader if read else None,
                "leader_rack": racks.get(one.leader) if read else None,
                "closest_replica": read.closest_id if read else None,
                "preferred_read_replica": read.preferred_read_replica if read else None,
                "leader_is_local": read.leader_is_local if read else None,
                "is_local": read.is_local if read else None,
                **_money(counted, traffic, price_per_gb),
            }


def rack_rows(
    found: Mapping[tuple[str, str], Served],
    traffic: Traffic | None = None,
    price_per_gb: float = 0.0,
) -> Iterator[Row]:
    """One row per client rack, and one (`*`) for all of them."""
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
            "leader_local_share": _share(one.leader_local_count, online),
            "local_share": _share(one.local_count, online),
            "cross_zone_share_before": _share(one.crossing_before, one.volume),
            "cross_zone_share_after": _share(one.crossing_after, one.volume),
            **(_money(one, traffic, price_per_gb) if traffic is not None else {}),
            "partitions_by_broker": {str(k): v for k, v in sorted(one.by_broker.items())},
        }


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _money(one: Served, traffic: Traffic, price_per_gb: float) -> Row:
    """Bytes per day, and what those across zones cost; nothing where only weights are known."""
    if not traffic.has_bytes:
        return {}
    before, after = one.crossing_before, one.crossing_after
    costs = [cost_per_month(size, price_per_gb) for size in (before, after, before - after)]
    return {
        "bytes_per_day": round(one.volume),
        "cross_zone_bytes_before": round(before),
        "cross_zone_bytes_after": round(after),
        "cost_per_month_before": round(costs[0], 2),
        "cost_per_month_after": round(costs[1], 2),
        "saved_per_month": round(costs[2], 2),
    }


def _counts(one: Served) -> Row:
    return {
        "partition_count": one.partition_count,
        "offline_count": one.offline_count,
        "leader_local_count": one.leader_local_count,
        "local_count": one.local_count,
        "preferred_read_replica_count": one.preferred_read_replica_count,
    }
