"""How much consumers of each rack read within it, from the leader and with KIP-392, and what the
rest costs.

In: brokers and partitions of a state, from an image or from the lake's history tables, a selector,
and what is read. Out: counts and bytes per rack and topic, or per partition. Everything goes by columns:
a selector of ours is asked once for all partitions that lie alike. Source: KIP-392 "Motivation",
"Preferred Read Replica", "Metrics".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog.errors import UsageError
from kraftlog.quorum.evidence import Longs
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
Floats = npt.NDArray[np.float64]
FROM_LEADER = -1
"""Of the metric preferred-read-replica: the consumer reads from the leader."""
ALL_RACKS = "*"
Amount = TypeVar("Amount", float, Floats)


class Broker(NamedTuple):
    """A registered broker."""

    id: int
    rack: str | None
    fenced: bool


class DataPartition(NamedTuple):
    """A data partition as the metadata describe it."""

    topic: str
    partition: int
    replicas: Sequence[int]
    isr: Sequence[int]
    leader: int


class Lying(NamedTuple):
    """On which brokers a partition lies."""

    replicas: Sequence[int]
    isr: Sequence[int]
    leader: int


@dataclass(frozen=True, slots=True)
class Partitions:
    """Data partitions as columns, an element for each: `topic` is a place in `topics`, and `lying`
    one in `lyings`.
    """

    topics: Sequence[str]
    topic: Longs
    partition: Longs
    lyings: Sequence[Lying]
    lying: Longs

    @classmethod
    def of(cls, partitions: Iterable[DataPartition]) -> "Partitions":
        """The same one by one."""
        topics, lyings = dict[str, int](), dict[tuple[Any, ...], int]()
        columns = [
            (
                topics.setdefault(topic, len(topics)),
                partition,
                lyings.setdefault((tuple(replicas), tuple(isr), leader), len(lyings)),
            )
            for topic, partition, replicas, isr, leader in partitions
        ]
        topic, partition, lying = np.array(columns, np.int64).reshape(-1, 3).T
        return cls([*topics], topic, partition, [Lying(*one) for one in lyings], lying)

    @classmethod
    def in_columns(
        cls,
        topics: Sequence[str],
        topic: Longs,
        partition: Longs,
        replicas: pa.ListArray,
        isr: pa.ListArray,
        leader: pa.Array,
    ) -> "Partitions":
        """The same from Arrow: lists of 32-bit ids, none of them null."""
        known = dict[tuple[bytes, bytes, int], int]()
        cells = zip(_cells(replicas), _cells(isr), leader.to_pylist(), strict=True)
        lying = np.fromiter((known.setdefault(one, len(known)) for one in cells), np.int64)
        lyings = [Lying(_ids(held), _ids(caught_up), led) for held, caught_up, led in known]
        return cls(topics, topic, partition, lyings, lying)

    def __iter__(self) -> Iterator[DataPartition]:
        columns = (self.topic, self.partition, self.lying)
        for topic, partition, lying in zip(*(one.tolist() for one in columns), strict=True):
            yield DataPartition(self.topics[topic], partition, *self.lyings[lying])


def _cells(lists: pa.ListArray) -> list[bytes]:
    """The bytes of each list."""
    raw = lists.values.to_numpy().astype(np.int32, copy=False).tobytes()
    return [raw[4 * start : 4 * end] for start, end in pairwise(lists.offsets.to_numpy().tolist())]


def _ids(cell: bytes) -> tuple[int, ...]:
    return (*np.frombuffer(cell, np.int32).tolist(),)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The state that a selection is run over."""

    brokers: Mapping[int, Broker]
    partitions: Partitions

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
        DataPartition(
            names.get(one["topicId"]) or str(one["topicId"]),
            one["partitionId"],
            one["replicas"],
            one["isr"],
            one["leader"],
        )
        for one in state.rows("partitions").values()
    )
    return Cluster({one.id: one for one in brokers}, Partitions.of(partitions))


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


_NOBODY = -2
"""In columns of broker ids: none."""


class Counts(NamedTuple):
    """What the consumers of each rack do over groups of partitions: arrays of groups by racks.
    `volume` is what is read of partitions that are online.
    """

    partition_count: Longs
    offline_count: Longs
    leader_local_count: Longs
    local_count: Longs
    preferred_read_replica_count: Longs
    volume: Floats
    crossing_before: Floats
    crossing_after: Floats

    def of(self, group: int, rack: int) -> Row:
        """The counts of one group and rack, by name."""
        return {name: int(getattr(self, name)[group, rack]) for name in _COUNTED}

    def of_all(self) -> "Counts":
        """The first group, with all racks added up."""
        return Counts(*(one[:1].sum(axis=1, keepdims=True) for one in self))


_COUNTED = Counts._fields[:5]


@dataclass(frozen=True, slots=True)
class Selection:
    """Where the consumers of each rack read each partition.

    An element, or a row of one column per rack, for each partition, in the order of topics and
    their numbers; `topic` is a place in `topics`, which are in order.
    """

    racks: Sequence[str]
    topics: Sequence[str]
    topic: Longs
    partition: Longs
    reads: npt.NDArray[np.int64]
    """By partition, rack and field of `Read`; `_NOBODY` for none, and all of an offline one."""
    volume: Floats

    @property
    def starts(self) -> Longs:
        """The place of the first partition of each topic."""
        return np.flatnonzero(np.diff(self.topic, prepend=-1))

    def field(self, name: str) -> Longs:
        """One field of all reads, by partition and rack."""
        found: Longs = self.reads[:, :, Read._fields.index(name)]
        return found

    @property
    def preferred(self) -> Longs:
        """As the consumers' metric preferred-read-replica has it."""
        from_leader = self.field("is_preferred_replica") == 0
        return np.where(from_leader, FROM_LEADER, self.field("broker_id"))

    def counts(self, starts: Longs) -> Counts:
        """The counts of groups that begin at some places."""
        broker, preferred = self.field("broker_id"), self.field("is_preferred_replica")
        near, leader_near = self.field("is_local") > 0, self.field("leader_is_local") > 0
        amounts = _crossing(self.volume * (broker != _NOBODY), leader_near, near)
        whole = np.ones(broker.shape, np.int64)
        columns = (whole, broker == _NOBODY, leader_near, near, preferred > 0)
        counted = (np.add.reduceat(one.astype(np.int64), starts) for one in columns)
        return Counts(*counted, *(np.add.reduceat(one, starts) for one in amounts))


def _crossing(read: Amount, leader_is_local: Any, is_local: Any) -> tuple[Amount, Amount, Amount]:
    """What is read, and what of it leaves its zone without KIP-392 and with it."""
    return read, read * (1 - leader_is_local), read * (1 - is_local)


def select_all(
    cluster: Cluster, selector: ReplicaSelector, traffic: Traffic | None = None
) -> Selection:
    """Where each partition is read; without traffic each is read as much as each other.

    Raises UsageError where a selector fails, or answers with a replica that it was not shown.
    """
    racks, held = cluster.racks, cluster.partitions
    distinct, read = reads_of(cluster, selector)
    topics = sorted(held.topics)
    codes = {name: at for at, name in enumerate(topics)}
    topic = np.array([codes[one] for one in held.topics], np.int64)[held.topic]
    order = np.lexsort((held.partition, topic))
    volume = np.ones((len(order), len(racks)))
    if traffic is not None:
        amounts = [traffic.of(one.topic, one.partition) for one in held]
        volume = np.array(amounts, np.float64).reshape(volume.shape)
    table = np.array([[_numbers(one) for one in reads] for reads in distinct], np.int64)
    table = table.reshape(len(distinct), len(racks), len(Read._fields))
    reads = table[read[order]]
    return Selection(racks, topics, topic[order], held.partition[order], reads, volume[order])


def _numbers(read: Read | None) -> tuple[int, ...]:
    """A read as numbers."""
    if read is None:
        return (_NOBODY, 0, 0, _NOBODY, _NOBODY)
    closest_id = _NOBODY if read.closest_id is None else read.closest_id
    return (*map(int, read[:4]), closest_id)


def reads_of(cluster: Cluster, selector: ReplicaSelector) -> tuple[list[list[Read | None]], Longs]:
    """Where consumers of each rack read, and which of that holds for each partition. What a broker
    would see of a follower's log is not in the metadata: members of the ISR count as caught up, and
    only the KIP's own selector is shown replicas outside it, as far behind. A built-in selector is
    asked once for all partitions that lie alike: it looks at nothing else.
    """
    clients = [ClientMetadata(rack) for rack in cluster.racks]
    outside = isinstance(selector, SeedRackAwareSelector)
    nodes = [Node(one.id, one.rack) for one in cluster.brokers.values() if not one.fenced]
    inside = {one.id: ReplicaView(one, 0) for one in nodes}
    behind = {one.id: ReplicaView(one, -1) for one in nodes} if outside else {}
    held = cluster.partitions

    def reads(at: TopicPartition, lying: Lying) -> list[Read | None]:
        view = _view(lying, inside, behind)
        return [_read(selector, at, client, view) for client in clients]

    if type(selector) in BUILT_IN.values():
        return [reads(TopicPartition("", 0), lying) for lying in held.lyings], held.lying
    asked = [reads(TopicPartition(one.topic, one.partition), Lying(*one[2:])) for one in held]
    return asked, np.arange(len(asked))


def _view(
    one: Lying, inside: Mapping[int, ReplicaView], behind: Mapping[int, ReplicaView]
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


def topic_rows(found: Selection) -> pa.Table:
    """The columns of the table `replica_selection`: a row per rack and topic."""
    starts = found.starts
    counts, ends = found.counts(starts), np.append(starts, len(found.topic))[1:]
    brokers, closest = found.field("broker_id"), found.field("closest_id")
    served = [
        _served(found.topic, brokers[:, rack], len(starts)) for rack in range(len(found.racks))
    ]
    columns = {
        "client_rack": np.repeat(np.array(found.racks, object), len(starts)),
        "topic": [*found.topics] * len(found.racks),
        **{name: getattr(counts, name).T.ravel() for name in _COUNTED},
        "cross_zone_share_before": _shares(counts.crossing_before, counts.volume),
        "cross_zone_share_after": _shares(counts.crossing_after, counts.volume),
        "partitions_by_broker": _maps(served, pa.int64()),
    }
    for name, values in (
        ("closest_replicas", closest),
        ("preferred_read_replicas", found.preferred),
    ):
        by_rack = [(ends, found.partition, values[:, rack]) for rack in range(len(found.racks))]
        columns[name] = _maps(by_rack, pa.int32())
    return pa.table(columns)


def _shares(parts: Floats, wholes: Floats) -> pa.Array:
    """`_share` of each, rack by rack: rounded once where they are equal."""
    nothing = np.full(parts.shape, np.nan)
    quotients = np.divide(parts, wholes, out=nothing, where=wholes != 0)
    distinct, places = np.unique(quotients.T, return_inverse=True)
    shares = [None if np.isnan(one) else round(one, 4) for one in distinct.tolist()]
    return pa.array(shares, pa.float64()).take(pa.array(places.ravel()))


def _served(topic: Longs, brokers: Longs, count: int) -> tuple[Longs, Longs, Longs]:
    """Of each topic the brokers that one rack's consumers read from, and how many partitions:
    where each topic's end, the brokers, the numbers.
    """
    online = brokers != _NOBODY
    pairs, numbers = np.unique(topic[online] << 32 | brokers[online], return_counts=True)
    ends = np.searchsorted(pairs >> 32, np.arange(count), side="right")
    return ends, pairs & 0xFFFFFFFF, numbers


def _maps(parts: Sequence[tuple[Longs, Longs, Longs]], kind: pa.DataType) -> pa.Array:
    """Maps of numbers, of each part where each map ends, and the keys and values; `_NOBODY` is
    null.
    """
    nothing = np.empty(0, np.int64)
    sizes = np.concatenate([nothing, *(np.diff(ends, prepend=0) for ends, _, _ in parts)])
    keys = np.concatenate([nothing, *(keys for _, keys, _ in parts)])
    values = np.concatenate([nothing, *(values for _, _, values in parts)])
    offsets = np.append(np.zeros(1, np.int64), np.cumsum(sizes))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.array(keys, pa.int32()),
        pa.array(values, kind, mask=values == _NOBODY),
    )


def partition_rows(
    cluster: Cluster, selector: ReplicaSelector, traffic: Traffic, price_per_gb: float
) -> Iterator[Row]:
    """One row per rack of consumers and partition."""
    brokers = {one.id: one.rack for one in cluster.brokers.values()}
    distinct, places = reads_of(cluster, selector)
    for one, at in zip(cluster.partitions, places.tolist(), strict=True):
        volumes = traffic.of(one.topic, one.partition)
        for rack, read, volume in zip(cluster.racks, distinct[at], volumes, strict=True):
            amounts = (0.0, 0.0, 0.0)
            if read is not None:
                amounts = _crossing(volume, read.leader_is_local, read.is_local)
            yield {
                "client_rack": rack,
                "topic": one.topic,
                "partition": one.partition,
                "leader": one.leader if read else None,
                "leader_rack": brokers.get(one.leader) if read else None,
                "closest_replica": read.closest_id if read else None,
                "preferred_read_replica": read.preferred_read_replica if read else None,
                "leader_is_local": read.leader_is_local if read else None,
                "is_local": read.is_local if read else None,
                **_money(amounts, traffic, price_per_gb),
            }


def rack_rows(
    found: Selection, traffic: Traffic | None = None, price_per_gb: float = 0.0
) -> Iterator[Row]:
    """One row per client rack, and one (`*`) for all of them."""
    if not len(found.topic) or not found.racks:
        return
    counts, brokers = found.counts(np.zeros(1, np.int64)), found.field("broker_id")
    told = [(name, counts, at, brokers[:, at]) for at, name in enumerate(found.racks)]
    for name, some, at, served in (*told, (ALL_RACKS, counts.of_all(), 0, brokers)):
        one = some.of(0, at)
        online = one["partition_count"] - one["offline_count"]
        read, before, after = (float(part[0, at]) for part in some[len(_COUNTED) :])
        by_broker = zip(*np.unique(served[served != _NOBODY], return_counts=True), strict=True)
        yield {
            "client_rack": name,
            **one,
            "leader_local_share": _share(one["leader_local_count"], online),
            "local_share": _share(one["local_count"], online),
            "cross_zone_share_before": _share(before, read),
            "cross_zone_share_after": _share(after, read),
            **(_money((read, before, after), traffic, price_per_gb) if traffic is not None else {}),
            "partitions_by_broker": {str(broker): int(count) for broker, count in by_broker},
        }


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _money(amounts: tuple[float, float, float], traffic: Traffic, price_per_gb: float) -> Row:
    """Bytes per day, and what those across zones cost; nothing where only weights are known."""
    if not traffic.has_bytes:
        return {}
    read, before, after = amounts
    costs = [cost_per_month(size, price_per_gb) for size in (before, after, before - after)]
    return {
        "bytes_per_day": round(read),
        "cross_zone_bytes_before": round(before),
        "cross_zone_bytes_after": round(after),
        "cost_per_month_before": round(costs[0], 2),
        "cost_per_month_after": round(costs[1], 2),
        "saved_per_month": round(costs[2], 2),
    }
