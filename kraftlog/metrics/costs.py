"""The KIPs' cost arguments as rows: their own example beside the same function of measured values.

In: the measured values of one run. Out: rows of the table `cost_models`. Sizes are reckoned in the
KIP's own terms; what real records weigh is in the table `record_sizes`. One compaction reads the log
three times: to apply it, to map keys to offsets, and to copy what lives. A snapshot is written from
memory: each record is read once, to be applied. KIP-630 assumes that no broker holds two replicas of
one topic. Source: KIP-630 "Loading State and Frequency of Compaction", "Amount of Data Replicated",
"Rejected Alternatives", KAFKA-1211.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.relations import Row
from kraftlog.simulate.failover_rows import TruncationRule, remedy_cost

EXAMPLE, MEASURED = "kip_example", "measured"
AMOUNT = "KIP-630 Amount of Data Replicated"
LOADING = "KIP-630 Loading State and Frequency of Compaction"
MOTIVATION = "KIP-630 Motivation"
REJECTED = "KIP-630 Rejected Alternatives"
ROUND_TRIP_MS = 2.0
"""A round trip inside one region."""
API_KEY_BYTES, API_VERSION_BYTES = 2, 2

ISR_CHANGE_FIELDS = {
    "partition id": 4,
    "topic id": 16,
    "isr of two brokers": 8,
    "leader id": 4,
    "leader epoch": 4,
}
FENCE_BROKER_FIELDS = {"broker id": 4}


def message_size_bytes(fields: Mapping[str, int]) -> int:
    """Bytes of an event by the sizes of its fields, with api key and version."""
    return sum(fields.values()) + API_KEY_BYTES + API_VERSION_BYTES


def replicas_per_broker(topics: int, partitions: int, replication_factor: int, brokers: int) -> int:
    """Replicas that a broker holds where all brokers hold equally many; rounded up."""
    return -(-topics * partitions * replication_factor // brokers)


def fan_out_bytes(size_bytes: float, replicas: int) -> float:
    """What the leader sends so that every other replica of the log holds these bytes."""
    return size_bytes * max(replicas - 1, 0)


def appended_snapshot_bytes(snapshot_bytes: int, replicas: int, fetchers: int) -> int:
    """Bytes on the network that a snapshot appended to the log costs beyond one that is fetched by
    those who need it (the KIP's first rejected alternative).
    """
    return int(fan_out_bytes(snapshot_bytes, replicas)) - snapshot_bytes * fetchers


MIN_DIRTY_RATIO = 0.5
"""Kafka's `min.cleanable.dirty.ratio`: dirty bytes against clean ones in the KIP's example."""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """Bytes per second, to map keys as many as to apply, and how often: a compaction runs once
    `dirty_bytes` have come together.
    """

    apply_rate: float
    copy_rate: float
    dirty_bytes: float
    interval_seconds: float


def compaction_reads(
    state_bytes: float, rate: float, min_dirty_ratio: float = MIN_DIRTY_RATIO
) -> ReadCost:
    """A compaction copies the compacted log and what came since, each time that the share of
    `min_dirty_ratio` of the state's bytes has been written anew.
    """
    dirty = state_bytes * min_dirty_ratio
    if rate <= 0 or dirty <= 0:
        return ReadCost(rate, 0.0, dirty, inf)
    interval = dirty / rate
    return ReadCost(rate, (state_bytes + dirty) / interval, dirty, interval)


@dataclass(frozen=True, slots=True)
class Placement:
    """How replicas of partitions lie on brokers, over all partitions."""

    topics: int
    brokers: int
    replicas: int
    busiest_broker_replicas: int
    unbalanced_topics: int


def placement(rows: pa.Table) -> Placement:
    """`rows` has a row per partition: topic_id, partition_replicas."""
    lists = rows.column("partition_replicas").combine_chunks()
    topics = rows.column("topic_id").combine_chunks().take(pc.list_parent_indices(lists))
    pairs = pa.table({"topic": topics, "broker": pc.list_flatten(lists)})
    held = pairs.group_by(["topic", "broker"]).aggregate([([], "count_all")])
    doubled = held.filter(pc.greater(held.column("count_all"), 1))
    brokers = pairs.group_by("broker").aggregate([([], "count_all")])
    return Placement(
        pc.count_distinct(rows.column("topic_id")).as_py(),
        brokers.num_rows,
        pairs.num_rows,
        pc.max(brokers.column("count_all")).as_py() or 0,
        pc.count_distinct(doubled.column("topic")).as_py(),
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run knows; None where it does not. Rates are per second unless they say otherwise."""

    replicas: int
    voters: int
    placement: Placement
    partition_change_bytes: float | None
    broker_change_bytes: float | None
    state_bytes: float
    tombstone_bytes: float
    log_rate: float | None
    snapshot_bytes: int
    elections_per_day: float | None
    writes_per_day: float | None
    snapshots_per_day: float | None
    compacted_objects: int
    live_objects: int


class Figure(NamedTuple):
    """One figure of one model; `value` is None where a run cannot tell."""

    model: str
    scenario: str
    measure: str
    value: float | None
    unit: str
    source: str


def cost_rows(found: Measured) -> list[Row]:
    """A row per model, scenario and measure."""
    every = [
        *_replication(
            EXAMPLE,
            message_size_bytes(ISR_CHANGE_FIELDS),
            message_size_bytes(FENCE_BROKER_FIELDS),
            replicas_per_broker(100_000, 10, 3, 100),
            100,
        ),
        *_measured_replication(found),
        *_reads(EXAMPLE, 100e6, 1e6),
        *_reads(MEASURED, found.state_bytes, found.log_rate),
        *_writes(found),
        *_rejected(found),
    ]
    return [
        one._asdict()
        | {"value": None if one.value is None or one.value == inf else float(one.value)}
        for one in every
    ]


def _replication(
    scenario: str, change: float | None, event: float | None, held: float, nodes: int
) -> Iterator[Figure]:
    """Events against one change per partition; `nodes` counts the copies of the log."""
    stored = None if change is None else change * held
    sent = None if stored is None else fan_out_bytes(stored, nodes)
    event_sent = None if event is None else fan_out_bytes(event, nodes)
    for measure, value, unit, source in (
        ("partition change record", change, "bytes", AMOUNT),
        ("broker event record", event, "bytes", AMOUNT),
        ("replicas on a broker", held, "replicas", AMOUNT),
        ("changes of one fencing, per node", stored, "bytes", AMOUNT),
        ("changes of one fencing, sent by the leader", sent, "bytes", AMOUNT),
        ("event of one fencing, sent by the leader", event_sent, "bytes", AMOUNT),
    ):
        yield Figure("amount replicated", scenario, measure, value, unit, source)


def _measured_replication(found: Measured) -> Iterator[Figure]:
    yield from _replication(
        MEASURED,
        found.partition_change_bytes,
        found.broker_change_bytes,
        found.placement.busiest_broker_replicas,
        found.replicas,
    )
    lying = found.placement
    mean = lying.replicas / lying.brokers if lying.brokers else None
    for measure, value, unit in (
        ("replicas on a broker, mean", mean, "replicas"),
        ("topics with two replicas on one broker", lying.unbalanced_topics, "topics"),
        ("topics", lying.topics, "topics"),
    ):
        yield Figure("amount replicated", MEASURED, measure, value, unit, AMOUNT)


def _reads(scenario: str, state: float, rate: float | None) -> Iterator[Figure]:
    """Three reads against one; nothing where the rate is not known."""
    if rate is None:
        return
    compaction = compaction_reads(state, rate)
    for measure, value, unit in (
        ("snapshot reads", rate, "bytes/s"),
        ("compaction reads to apply", compaction.apply_rate, "bytes/s"),
        ("compaction reads to map keys", compaction.apply_rate, "bytes/s"),
        ("compaction reads to copy", compaction.copy_rate, "bytes/s"),
        ("bytes until a compaction", compaction.dirty_bytes, "bytes"),
        ("time until a compaction", compaction.interval_seconds, "seconds"),
    ):
        yield Figure("reads", scenario, measure, value, unit, LOADING)


def _writes(found: Measured) -> Iterator[Figure]:
    compacted = found.state_bytes + found.tombstone_bytes
    for measure, value, unit, source in (
        ("snapshot writes", found.snapshot_bytes, "bytes", LOADING),
        ("compaction writes", compacted, "bytes", LOADING),
        ("of these, tombstones", found.tombstone_bytes, "bytes", LOADING),
        ("objects in a compacted log", found.compacted_objects, "objects", MOTIVATION),
        ("objects in the state", found.live_objects, "objects", MOTIVATION),
    ):
        yield Figure("writes", MEASURED, measure, value, unit, source)


def _rejected(found: Measured) -> Iterator[Figure]:
    """Designs that were weighed and not taken."""
    appended = appended_snapshot_bytes(found.snapshot_bytes, found.replicas, 1)
    # A single voter has nobody to hand over to.
    handover = None if found.voters < 2 else found.snapshots_per_day
    yield Figure("snapshot in the log", MEASURED, "more bytes sent", appended, "bytes", REJECTED)
    yield Figure(
        "leader hands over to snapshot", MEASURED, "more elections", handover, "/day", REJECTED
    )
    elections, writes = found.elections_per_day, found.writes_per_day
    if elections is not None and writes is not None:
        cost = remedy_cost(elections, max(found.voters - 1, 0), writes, ROUND_TRIP_MS)
        for measure, value in (
            ("request on becoming follower", cost[TruncationRule.LEADER_EPOCH]),
            ("round trip per write", cost[TruncationRule.HELD_ACKNOWLEDGEMENTS]),
        ):
            yield Figure(
                "high watermark at failover", MEASURED, measure, value, "ms/day", "KAFKA-1211"
            )
