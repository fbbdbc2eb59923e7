"""What one event of a broker makes the controller write: the fan-out of KIP-630, measured.

In: versions of brokers (one lineage), the shared log, offsets and sizes of the partition changes.
Out: rows of the table `event_amplification`. KIP-630 imagined one FenceBroker event of 8 bytes; as
shipped, a PartitionChangeRecord per affected partition goes with it. A burst is the event's batch
and those next to it that were appended within BURST_GAP_MS of each other; several events in one
burst share its partition changes, each its own. Source: KIP-630 "Type of State Machines and
Operations", "Loading State and Frequency of Compaction", "Amount of Data Replicated".
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kraftlog.metrics.costs import (
    FENCE_BROKER_FIELDS,
    ISR_CHANGE_FIELDS,
    fan_out_bytes,
    message_size_bytes,
)
from kraftlog.metrics.shared_log import SharedLog
from kraftlog.native.folding import order_of
from kraftlog.quorum.evidence import Longs
from kraftlog.relations import Row, moment

BURST_GAP_MS = 10
"""Batches of one controller operation are appended within a few ms; NoOps come every 500 ms."""


_NOTHING: Row = {"partition_change_count": 0, "partition_change_size_bytes": 0}
_CHANGES_PRECEDE = ("fenced", "unregistered")


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """A broker's change of state, at the offset of its record."""

    offset: int
    broker_id: int
    kind: str
    record_type: str


def events_of(versions: Iterable[Mapping[str, Any]]) -> list[BrokerEvent]:
    """Registrations, fencings, unfencings, controlled shutdowns and unregistrations, from the rows
    of `brokers`, in offset order.
    """
    before: dict[int, Mapping[str, Any]] = {}
    found: list[BrokerEvent] = []
    for row in sorted(versions, key=lambda one: one["valid_from_offset"]):
        broker, offset = row["broker_id"], row["record_offset"]
        if broker in before:
            found += _unregistered(before[broker], row["valid_from_offset"])
        if offset is not None:
            found += [
                BrokerEvent(offset, broker, kind, row["record_type"])
                for kind in _kinds(before.get(broker), row)
            ]
        before[broker] = row
    for row in before.values():
        found += _unregistered(row, None)
    return sorted(found, key=lambda one: one.offset)


def _unregistered(row: Mapping[str, Any], next_from: int | None) -> Iterator[BrokerEvent]:
    """Where a version ends, and the broker's next one does not begin there."""
    end = row["valid_to_offset"]
    if end is not None and end != next_from:
        yield BrokerEvent(end - 1, row["broker_id"], "unregistered", "UNREGISTER_BROKER_RECORD")


def _kinds(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Iterator[str]:
    if new["record_type"] == "REGISTER_BROKER_RECORD":
        yield "registered"
        return
    if old is None:
        return
    if new["in_controlled_shutdown"] and not old["in_controlled_shutdown"]:
        yield "controlled_shutdown"
    if new["fenced"] != old["fenced"]:
        yield "fenced" if new["fenced"] else "unfenced"


class Bursts:
    """The events of a log, the burst around each, and the partition changes that fall into it. Feed
    it the changes in any order.
    """

    def __init__(self, log: SharedLog, events: Iterable[BrokerEvent]) -> None:
        self.log = log
        every = list(events)
        offsets = np.array([one.offset for one in every], np.int64)
        is_told = log.holds(offsets)
        self.events = [every[at] for at in np.flatnonzero(is_told)]
        offsets = offsets[is_told]
        rows = np.searchsorted(log.base_offsets, offsets + 1, "left") - 1
        self.every = _bursts(log) if self.events else np.empty((0, 2), np.int64)
        """The burst of each batch."""
        self.spans = self.every[rows]
        self.shares = _shares(self.events, self.spans)
        self.counts = np.zeros(len(self.events), np.int64)
        self.sizes = np.zeros(len(self.events), np.int64)

    def know(self, before: Iterable[Row], end_offset: int) -> int | None:
        """Take over what `amplification_rows` has told of the same log as far as it reached then;
        from which offset on changes are still to be added, None where an event was not told. The
        last burst may have gone on, so that its events are counted again.
        """
        if not self.events:
            return end_offset
        start = int(self.every[self.log.row_at(end_offset) - 1, 0])
        told = {(one["event_offset"], one["broker_id"], one["event"]): one for one in before}
        known = [
            told.get((one.offset, one.broker_id, one.kind)) if span < start else _NOTHING
            for one, span in zip(self.events, self.spans[:, 0].tolist(), strict=True)
        ]
        rows = [one for one in known if one is not None]
        if len(rows) < len(known):
            return None
        self.counts = np.array([one["partition_change_count"] for one in rows], np.int64)
        self.sizes = np.array([one["partition_change_size_bytes"] for one in rows], np.int64)
        return start if np.any(self.spans[:, 0] == start) else end_offset

    def add(self, offsets: Longs, sizes: Longs) -> None:
        """Take in partition changes: the offset and the bytes of each."""
        if np.any(offsets[1:] < offsets[:-1]):
            order = order_of(offsets)
            offsets, sizes = offsets[order], sizes[order]
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        first, after = (np.searchsorted(offsets, self.shares[:, side]) for side in (0, 1))
        self.counts += after - first
        self.sizes += before[after] - before[first]


def _bursts(log: SharedLog) -> Longs:
    """Per batch, the offsets [start, end) of its burst: batches of one epoch, with small gaps."""
    breaks = log.base_timestamps[1:] - log.max_timestamps[:-1] > BURST_GAP_MS
    breaks |= log.epochs[1:] != log.epochs[:-1]
    firsts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(breaks) + 1])
    lengths = np.diff(np.append(firsts, len(log)))
    spans = [log.base_offsets[firsts], log.last_offsets[firsts + lengths - 1] + 1]
    return np.repeat(np.stack(spans, axis=1), lengths, axis=0)


def _shares(events: list[BrokerEvent], spans: Longs) -> Longs:
    """Per event, the offsets [start, end) of its own partition changes. Alone in its burst it has
    all; of several, Kafka writes those of a fencing or an unregistration before the record that
    tells of it, and those of another event behind it.
    """
    shares, first = spans.copy(), 0
    for at in range(1, len(events)):
        before, one = events[at - 1], events[at]
        if spans[at, 0] == spans[at - 1, 0] and before.offset == one.offset:
            shares[at, 0] = shares[at - 1, 0]
            continue
        if spans[at, 0] == spans[at - 1, 0]:
            both_precede = before.kind in _CHANGES_PRECEDE and one.kind in _CHANGES_PRECEDE
            cut = before.offset + 1 if both_precede else one.offset
            shares[first:at, 1] = shares[at, 0] = cut
        first = at
    return shares


def amplification_rows(found: Bursts, replicas: int) -> Iterator[Row]:
    """A row per event; `replicas` counts the copies of the log."""
    log, (starts, ends) = found.log, found.spans.T
    sizes, records = log.bytes_between(starts, ends), log.records_between(starts, ends)
    fence, change = message_size_bytes(FENCE_BROKER_FIELDS), message_size_bytes(ISR_CHANGE_FIELDS)
    for at, event in enumerate(found.events):
        count, size = int(found.counts[at]), int(sizes[at])
        row = log.row_at(event.offset + 1) - 1
        yield {
            "event_offset": event.offset,
            "event_timestamp": moment(int(log.base_timestamps[row])),
            "broker_id": event.broker_id,
            "event": event.kind,
            "record_type": event.record_type,
            "burst_start_offset": int(starts[at]),
            "burst_end_offset": int(ends[at]),
            "partition_change_count": count,
            "partition_change_size_bytes": int(found.sizes[at]),
            "burst_record_count": int(records[at]),
            "burst_size_bytes": size,
            "replicated_size_bytes": int(fan_out_bytes(size, replicas)),
            "kip_event_size_bytes": int(fan_out_bytes(fence, replicas)),
            "kip_isr_changes_size_bytes": int(fan_out_bytes(change * count, replicas)),
        }
