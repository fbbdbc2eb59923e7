"""The KIPs' cost arguments as rows: their own example beside the same function of measured values.

In: the measured values of one run. Out: rows of the table `cost_models`. Source: KIP-630 "Loading
State and Frequency of Compaction", "Amount of Data Replicated", "Rejected Alternatives",
KAFKA-1211.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kraftlog.metrics.read_costs import compaction_reads
from kraftlog.metrics.sizes import (
    FENCE_BROKER_FIELDS,
    ISR_CHANGE_FIELDS,
    appended_snapshot_bytes,
    fan_out_bytes,
    message_size_bytes,
    replicas_per_broker,
)
from kraftlog.simulate.failover_rows import TruncationRule, remedy_cost

Row = dict[str, Any]
EXAMPLE, MEASURED = "kip_example", "measured"
AMOUNT = "KIP-630 Amount of Data Replicated"
LOADING = "KIP-630 Loading State and Frequency of Compaction"
MOTIVATION = "KIP-630 Motivation"
REJECTED = "KIP-630 Rejected Alternatives"
ROUND_TRIP_MS = 2.0
"""A round trip inside one region."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run knows; None where it does not. Rates are per second unless they say otherwise."""

    replicas: int
    voters: int
    brokers: int
    topics: int
    partition_replicas: int
    unbalanced_topics: int
    busiest_broker_replicas: int
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


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one model; `value` is None where a run cannot tell."""

    model: str
    scenario: str
    measure: str
    value: float | None
    unit: str
    source: str

    def as_row(self) -> Row:
        """As the table holds it."""
        value = None if self.value is None or self.value == float("inf") else float(self.value)
        return asdict(self) | {"value": value}


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
    return [one.as_row() for one in every]


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
        found.busiest_broker_replicas,
        found.replicas,
    )
    mean = found.partition_replicas / found.brokers if found.brokers else None
    for measure, value, unit in (
        ("replicas on a broker, mean", mean, "replicas"),
        ("topics with two replicas on one broker", found.unbalanced_topics, "topics"),
        ("topics", found.topics, "topics"),
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
