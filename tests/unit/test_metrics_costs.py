"""Cost models: every figure that the KIPs print, and what must hold of the formulas always."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.metrics.costs import (
    EXAMPLE,
    FENCE_BROKER_FIELDS,
    ISR_CHANGE_FIELDS,
    MEASURED,
    Measured,
    Placement,
    appended_snapshot_bytes,
    compaction_reads,
    cost_rows,
    fan_out_bytes,
    message_size_bytes,
    replicas_per_broker,
)
from kraftlog.quorum.growth import DAY_MS, days_to_fill, load_ms, per_day, write_amplification
from kraftlog.simulate.fetch import log_chunks
from kraftlog.simulate.liveness import EXAMPLE_LINKS, Link, Transfer, recommended_chunk_bytes

SLOW = Link(500_000, 200)

MIB, KIB = 1 << 20, 1 << 10
"""The KIP writes MB and KB, and reckons with these."""


def test_message_sizes_are_those_of_the_kip() -> None:
    assert message_size_bytes(ISR_CHANGE_FIELDS) == 40
    assert message_size_bytes(FENCE_BROKER_FIELDS) == 8


def test_each_broker_of_the_example_holds_30_000_replicas() -> None:
    assert replicas_per_broker(100_000, 10, 3, 100) == 30_000
    assert replicas_per_broker(1, 1, 3, 2) == 2


def test_replication_costs_of_the_example() -> None:
    stored = 30_000 * message_size_bytes(ISR_CHANGE_FIELDS)
    assert round(stored / MIB, 4) == 1.1444
    assert round(fan_out_bytes(stored, 100) / MIB, 4) == 113.2965
    assert round(fan_out_bytes(8, 100) / KIB, 4) == 0.7734
    # As the text of the KIP prints them, cut after two digits.
    assert [math.floor(one * 100) / 100 for one in (stored / MIB, stored * 99 / MIB)] == [
        1.14,
        113.29,
    ]


def test_compaction_reads_three_times_as_the_kip_reckons() -> None:
    cost = compaction_reads(100e6, 1e6)
    assert (cost.apply_rate, cost.copy_rate) == (1e6, 3e6)
    assert (cost.dirty_bytes, cost.interval_seconds) == (50e6, 50)
    assert cost.copy_rate == (100e6 + 50e6) / 50


def test_a_log_that_does_not_change_is_never_compacted() -> None:
    assert compaction_reads(100e6, 0).interval_seconds == math.inf
    assert compaction_reads(0, 5).copy_rate == 0


@settings(deadline=None)
@given(st.floats(1, 1e12), st.floats(1e-3, 1e9), st.floats(0.01, 1))
def test_compaction_copies_more_often_the_smaller_the_ratio(
    state: float, rate: float, ratio: float
) -> None:
    copy = compaction_reads(state, rate, ratio).copy_rate
    assert copy == pytest.approx(rate * (1 + 1 / ratio))


def test_a_snapshot_in_the_log_goes_to_every_replica() -> None:
    assert appended_snapshot_bytes(1000, 5, 1) == 3000
    assert appended_snapshot_bytes(1000, 5, 4) == 0


def test_days_to_fill() -> None:
    assert per_day(100, DAY_MS // 2) == 200
    assert per_day(100, 0) is None
    assert days_to_fill(1000, 100) == 10
    assert days_to_fill(-5, 100) == 0
    assert days_to_fill(1000, 0) is None
    assert write_amplification(10, 40) == 0.25
    assert write_amplification(10, 0) is None


def test_transfer_is_chunks_times_round_trip_and_bytes() -> None:
    link = Link(1_000_000, 100)
    assert Transfer(2_500_000, link, 1_000_000).transfer_ms == 3 * 100 + 2500
    assert Transfer(2_000_000, link, 1_000_000).transfer_ms == 2 * 100 + 2000
    assert Transfer(0, link, 1_000_000).transfer_ms == 0


@settings(deadline=None)
@given(st.integers(1, 1 << 32), st.sampled_from(EXAMPLE_LINKS))
def test_eight_times_smaller_chunks_are_never_eight_times_slower(size: int, link: Link) -> None:
    assert 1 <= Transfer(size, link, 1 << 20).slowdown < 8


def test_a_chunk_of_8_mib_never_arrives_over_a_slow_link() -> None:
    assert not SLOW.fits(8 << 20)
    assert recommended_chunk_bytes(SLOW) == 256 << 10
    assert recommended_chunk_bytes(Link(1_250_000_000, 0.2)) == 8 << 20
    assert recommended_chunk_bytes(Link(10**9, 5000)) is None


@settings(deadline=None)
@given(st.lists(st.integers(61, 5000), max_size=60), st.integers(1, 6000))
def test_fetches_take_whole_batches_and_always_one(sizes: list[int], most: int) -> None:
    answers = [one.size_bytes for one in log_chunks(np.array(sizes, np.int64), most)]
    assert sum(answers) == sum(sizes)
    left = list(sizes)
    for answer in answers:
        taken = [left.pop(0)]
        while left and sum(taken) + left[0] <= most:
            taken.append(left.pop(0))
        assert sum(taken) == answer
    assert not left


def test_a_limit_of_one_byte_brings_batch_by_batch() -> None:
    assert len(list(log_chunks(np.array([70, 80, 90]), 1))) == 3


def test_load_time_is_snapshot_and_debt() -> None:
    assert load_ms(30e6, 20e6, 10e6) == 5000


FOUND = Measured(
    replicas=5, voters=3, placement=Placement(3, 2, 12, 7, 1),
    partition_change_bytes=50.0, broker_change_bytes=26.0,
    state_bytes=1000, tombstone_bytes=100, log_rate=None, snapshot_bytes=900,
    elections_per_day=None, writes_per_day=None, snapshots_per_day=24.0, compacted_objects=10,
    live_objects=9,
)  # fmt: skip


def test_cost_rows_hold_the_example_and_the_measured_values() -> None:
    values = {
        (row["model"], row["scenario"], row["measure"]): row["value"] for row in cost_rows(FOUND)
    }
    replicated = "amount replicated"
    sent = "changes of one fencing, sent by the leader"
    assert round(values[replicated, EXAMPLE, sent] / MIB, 4) == 113.2965
    assert values[replicated, MEASURED, sent] == 50 * 7 * 4
    reads = ("snapshot reads", "compaction reads to apply", "compaction reads to map keys")
    assert [values["reads", EXAMPLE, one] for one in reads] == [1e6, 1e6, 1e6]
    assert values["reads", EXAMPLE, "compaction reads to copy"] == 3e6
    assert ("reads", MEASURED, "compaction reads to copy") not in values
    assert values["writes", MEASURED, "compaction writes"] == 1100
    assert values["snapshot in the log", MEASURED, "more bytes sent"] == 900 * 3
    assert values["leader hands over to snapshot", MEASURED, "more elections"] == 24
    assert len(values) == len(cost_rows(FOUND))


def test_tombstones_are_written_on_top() -> None:
    values = {row["measure"]: row["value"] for row in cost_rows(FOUND) if row["model"] == "writes"}
    assert (values["snapshot writes"], values["compaction writes"]) == (900, 1000 + 100)


def test_designs_that_were_not_taken() -> None:
    """Where a leader is to hand over, somebody must be there to take over."""
    for voters, elections in ((1, None), (3, 24)):
        rows = cost_rows(replace(FOUND, voters=voters))
        (handover,) = (one["value"] for one in rows if one["measure"] == "more elections")
        assert handover == elections


def test_each_measured_figure_has_its_unit_and_its_requirement() -> None:
    """By hand: 50 bytes a change, 7 replicas on the busiest broker, 5 copies of the log, of which
    four are sent; 40 records of 10 bytes a second until half of 1,000 bytes are dirty.
    """
    found = Measured(
        replicas=5, voters=3, placement=Placement(3, 4, 14, 7, 1),
        partition_change_bytes=50.0, broker_change_bytes=26.0,
        state_bytes=1000, tombstone_bytes=100, log_rate=400.0, snapshot_bytes=900,
        elections_per_day=5.0, writes_per_day=1000.0, snapshots_per_day=24.0, compacted_objects=10,
        live_objects=9,
    )  # fmt: skip
    rows = [tuple(one.values()) for one in cost_rows(found) if one["scenario"] == MEASURED]
    told = [
        (model, measure, value, unit, source) for model, _, measure, value, unit, source in rows
    ]
    sent, reads, writes = "amount replicated", "reads", "writes"
    amount = "KIP-630 Amount of Data Replicated"
    loading = "KIP-630 Loading State and Frequency of Compaction"
    motivation, rejected = "KIP-630 Motivation", "KIP-630 Rejected Alternatives"
    failover = "high watermark at failover"
    assert told == [
        (sent, "partition change record", 50.0, "bytes", amount),
        (sent, "broker event record", 26.0, "bytes", amount),
        (sent, "replicas on a broker", 7.0, "replicas", amount),
        (sent, "changes of one fencing, per node", 350.0, "bytes", amount),
        (sent, "changes of one fencing, sent by the leader", 1400.0, "bytes", amount),
        (sent, "event of one fencing, sent by the leader", 104.0, "bytes", amount),
        (sent, "replicas on a broker, mean", 3.5, "replicas", amount),
        (sent, "topics with two replicas on one broker", 1.0, "topics", amount),
        (sent, "topics", 3.0, "topics", amount),
        (reads, "snapshot reads", 400.0, "bytes/s", loading),
        (reads, "compaction reads to apply", 400.0, "bytes/s", loading),
        (reads, "compaction reads to map keys", 400.0, "bytes/s", loading),
        (reads, "compaction reads to copy", 1200.0, "bytes/s", loading),
        (reads, "bytes until a compaction", 500.0, "bytes", loading),
        (reads, "time until a compaction", 1.25, "seconds", loading),
        (writes, "snapshot writes", 900.0, "bytes", loading),
        (writes, "compaction writes", 1100.0, "bytes", loading),
        (writes, "of these, tombstones", 100.0, "bytes", loading),
        (writes, "objects in a compacted log", 10.0, "objects", motivation),
        (writes, "objects in the state", 9.0, "objects", motivation),
        ("snapshot in the log", "more bytes sent", 2700.0, "bytes", rejected),
        ("leader hands over to snapshot", "more elections", 24.0, "/day", rejected),
        (failover, "request on becoming follower", 20.0, "ms/day", "KAFKA-1211"),
        (failover, "round trip per write", 2000.0, "ms/day", "KAFKA-1211"),
    ]
    nobody = cost_rows(
        replace(found, placement=Placement(3, 0, 14, 7, 1), partition_change_bytes=None, voters=0)
    )
    values = {one["measure"]: one["value"] for one in nobody if one["scenario"] == MEASURED}
    assert values["replicas on a broker, mean"] is None
    assert values["changes of one fencing, sent by the leader"] is None
    assert values["request on becoming follower"] == 0
