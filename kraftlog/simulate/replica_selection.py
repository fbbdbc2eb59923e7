"""How much consumers of each rack read within it, from the leader and with KIP-392, and what the
rest costs.

In: brokers and partitions of a state, from an image or from the lake's history tables, a selector,
and what is read. Out: counts and bytes per rack and topic, or per partition. Everything goes by
columns, also what the built-in selectors say; one of the user's is asked partition by partition.
Source: KIP-392 "Motivation", "Preferred Read Replica", "Metrics".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraftlog.errors import UsageError
from kraftlog.native.folding import Lists, ascending
from kraftlog.quorum.evidence import Longs
from kraftlog.relations import Row
from kraftlog.simulate.selectors import (
    BUILT_IN,
    ClientMetadata,
    LeaderSelector,
    Node,
    PartitionView,
    RackAwareReplicaSelector,
    ReplicaSelector,
    ReplicaView,
    SeedRackAwareSelector,
    TopicPartition,
    closest,
)
from kraftlog.simulate.traffic import Traffic, cost_per_month
from kraftlog.state.state import State

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


@dataclass(frozen=True, slots=True)
class Partitions:
    """Data partitions as columns, an element for each: `topic` is a place in `topics`."""

    topics: Sequence[str]
    topic: Longs
    partition: Longs
    replicas: Lists
    isr: Lists
    leader: Longs

    @classmethod
    def of(cls, partitions: Iterable[DataPartition]) -> "Partitions":
        """The same one by one."""
        found, topics = list(partitions), dict[str, int]()
        lists = pa.list_(pa.int32())
        topic = [topics.setdefault(one.topic, len(topics)) for one in found]
        return cls(
            [*topics],
            np.array(topic, np.int64),
            np.array([one.partition for one in found], np.int64),
            Lists.of(pa.array([one.replicas for one in found], lists)),
            Lists.of(pa.array([one.isr for one in found], lists)),
            np.array([one.leader for one in found], np.int64),
        )

    def __iter__(self) -> Iterator[DataPartition]:
        columns = (self.topic.tolist(), self.partition.tolist(), self.leader.tolist())
        for topic, partition, leader, replicas, isr in zip(
            *columns, _cells(self.replicas), _cells(self.isr), strict=True
        ):
            yield DataPartition(self.topics[topic], partition, replicas, isr, leader)


def _cells(lists: Lists) -> Iterator[list[int]]:
    values = lists.values.tolist()
    return (values[start:end] for start, end in pairwise(lists.offsets.tolist()))


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


READ = ("broker_id", "leader_is_local", "is_local", "is_preferred_replica", "closest_id")
"""Where a consumer reads a partition, as numbers: from which broker, how near it and the leader are,
and the replica that lies in its rack, the leader before others.
"""
_NOBODY, _NOWHERE = -2, -1
"""In columns of broker ids: none; in those of racks: a broker that is not there, one without."""
_UNREAD = (_NOBODY, 0, 0, _NOBODY, _NOBODY)


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
    reads: Longs
    """By partition, rack and field of `READ`; `_NOBODY` for none, and all of an offline one."""
    volume: Floats

    @property
    def starts(self) -> Longs:
        """The place of the first partition of each topic."""
        return np.flatnonzero(np.diff(self.topic, prepend=-1))

    def field(self, name: str) -> Longs:
        """One field of all reads, by partition and rack."""
        return self.reads[:, :, READ.index(name)]

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
    topics = sorted(held.topics)
    codes = {name: at for at, name in enumerate(topics)}
    topic = np.array([codes[one] for one in held.topics], np.int64)[held.topic]
    order = np.lexsort((held.partition, topic))
    volume = np.ones((len(order), len(racks)))
    if traffic is not None:
        amounts = [traffic.of(one.topic, one.partition) for one in held]
        volume = np.array(amounts, np.float64).reshape(volume.shape)
    reads = reads_of(cluster, selector)[order]
    return Selection(racks, topics, topic[order], held.partition[order], reads, volume[order])


def reads_of(cluster: Cluster, selector: ReplicaSelector) -> Longs:
    """Where consumers of each rack read each partition, by partition, rack and field of `READ`.
    What a broker would see of a follower's log is not in the metadata: members of the ISR count as
    caught up, and only the KIP's own selector is shown replicas outside it, as far behind.
    """
    # No broker of Kafka's has a number below 0: those stand for nobody.
    alive = (one for one in cluster.brokers.values() if not one.fenced and one.id >= 0)
    nodes = [Node(one.id, one.rack) for one in alive]
    if type(selector) in BUILT_IN.values():
        return _by_columns(cluster, nodes, selector)
    clients = [ClientMetadata(rack) for rack in cluster.racks]
    inside = {one.id: ReplicaView(one, 0) for one in nodes}
    outside = isinstance(selector, SeedRackAwareSelector)
    behind = {one.id: ReplicaView(one, -1) for one in nodes} if outside else {}
    asked = []
    for one in cluster.partitions:
        at, view = TopicPartition(one.topic, one.partition), _view(one, inside, behind)
        asked.append([_read(selector, at, client, view) for client in clients])
    return np.array(asked, np.int64).reshape(len(asked), len(clients), len(READ))


def _by_columns(cluster: Cluster, nodes: Sequence[Node], selector: ReplicaSelector) -> Longs:
    """What a built-in selector says, of all partitions at once."""
    held, racks = cluster.partitions, cluster.racks
    count, places = len(held.topic), {rack: at for at, rack in enumerate(racks)}
    racks_of = {one.id: places.get(one.rack or "", _NOWHERE) for one in nodes}
    row, broker = _rows_and_values(held.replicas)
    members = ascending(_packed(*_rows_and_values(held.isr)))
    in_isr = _places(_packed(row, broker), members) >= 0
    rack = _looked_up(racks_of, broker)
    is_seen = rack >= 0
    if not isinstance(selector, SeedRackAwareSelector):
        is_seen &= in_isr
    # Those of the ISR before others, then the highest id.
    rank = in_isr.astype(np.int64) << 32 | broker
    best = np.full(count * len(racks), _NOBODY)
    np.maximum.at(best, (row * len(racks) + rack)[is_seen], rank[is_seen])
    leader_rack = _looked_up(racks_of, held.leader)
    of_leader = in_isr & (broker == held.leader[row])
    can_be_read = np.bincount(row[of_leader], minlength=count) > 0
    leader, leader_is_near = held.leader[:, None], leader_rack[:, None] == np.arange(len(racks))
    caught_up = np.where(best < 0, _NOBODY, best & 0xFFFFFFFF).reshape(count, len(racks))
    nearest = np.where(leader_is_near & can_be_read[:, None], leader, caught_up)
    chosen = {
        LeaderSelector: np.full_like(nearest, _NOBODY),
        RackAwareReplicaSelector: nearest,
        SeedRackAwareSelector: caught_up,
    }[type(selector)]
    is_near = chosen != _NOBODY
    chosen = np.where(is_near, chosen, leader)
    fields = (chosen, leader_is_near, is_near | leader_is_near, chosen != leader, nearest)
    reads = np.stack([*np.broadcast_arrays(*fields)], axis=2).astype(np.int64)
    reads[leader_rack == _NOBODY] = _UNREAD
    return reads


def _looked_up(racks_of: Mapping[int, int], brokers: Longs) -> Longs:
    """The places of some brokers' racks; `_NOBODY` where a broker is not there."""
    known = np.array(sorted(racks_of), np.int64)
    racks = np.array([*(racks_of[one] for one in known.tolist()), _NOBODY], np.int64)
    return racks[_places(brokers, known)]


def _packed(rows: Longs, brokers: Longs) -> Longs:
    return rows << 32 | brokers & 0xFFFFFFFF


def _places(wanted: Longs, known: Longs) -> Longs:
    """Where each number stands among others, which are in order; −1 where it does not."""
    places: Longs = np.searchsorted(known, wanted)
    places[places == len(known)] = -1
    places[np.append(known, -1)[places] != wanted] = -1
    return places


def _rows_and_values(lists: Lists) -> tuple[Longs, Longs]:
    """Every value of some lists, and the place of its list."""
    sizes = np.diff(lists.offsets)
    values = lists.values[lists.offsets[0] : lists.offsets[-1]].astype(np.int64)
    return np.repeat(np.arange(len(sizes)), sizes), values


def _view(
    one: DataPartition, inside: Mapping[int, ReplicaView], behind: Mapping[int, ReplicaView]
) -> PartitionView:
    """What a selector sees: replicas in the ISR as they are `inside`, others as they are `behind`,
    if there."""
    isr = one.isr
    seen = (inside.get(broker) if broker in isr else behind.get(broker) for broker in one.replicas)
    return PartitionView(tuple(view for view in seen if view is not None), inside.get(one.leader))


def _read(
    selector: ReplicaSelector, at: TopicPartition, client: ClientMetadata, view: PartitionView
) -> tuple[int, ...]:
    """Without an answer the consumer stays with the leader; without a leader it reads nothing."""
    leader, near = view.leader, closest(client, view)
    if leader is None:
        return _UNREAD
    try:
        chosen = selector.select(at, client, view)
    except (Exception, SystemExit) as error:  # a selector of the user's may raise anything
        raise UsageError(f"the selector failed at {at.topic}-{at.partition}: {error!r}") from error
    if chosen is None:
        chosen = leader
    elif chosen is not leader and chosen not in view.replicas:
        raise UsageError(f"the selector chose {chosen!r}, which is not a replica of the partition")
    return (
        chosen.endpoint.id,
        leader.endpoint.rack == client.rack_id,
        chosen.endpoint.rack == client.rack_id,
        chosen.endpoint.id != leader.endpoint.id,
        _NOBODY if near is None else near.endpoint.id,
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
    """Maps of numbers: where each ends in each part, the keys, the values; `_NOBODY` is null."""
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
    reads = reads_of(cluster, selector).tolist()
    for one, of_racks in zip(cluster.partitions, reads, strict=True):
        volumes = traffic.of(one.topic, one.partition)
        for rack, numbers, volume in zip(cluster.racks, of_racks, volumes, strict=True):
            broker, leader_is_local, is_local, is_preferred, closest_id = numbers
            is_read = broker != _NOBODY
            amounts = _crossing(volume * is_read, leader_is_local, is_local)
            told = {
                "leader": one.leader,
                "leader_rack": brokers.get(one.leader),
                "closest_replica": None if closest_id == _NOBODY else closest_id,
                "preferred_read_replica": broker if is_preferred else FROM_LEADER,
                "leader_is_local": leader_is_local > 0,
                "is_local": is_local > 0,
            }
            yield {
                "client_rack": rack,
                "topic": one.topic,
                "partition": one.partition,
                **(told if is_read else dict.fromkeys(told)),
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
