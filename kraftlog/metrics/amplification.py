"""What one event of a broker makes the controller write: R10's fan-out, measured.

In: versions of brokers (one lineage), the shared log, and the partition changes as Arrow batches.
Out: rows of the table `event_amplification`. KIP-630 imagined one FenceBroker event of 8 bytes; as
shipped, a PartitionChangeRecord per affected partition goes with it. A burst is the event's batch
and those next to it that were appended within BURST_GAP_MS of each other. Source: R10, R13, R22.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kraftlog.audit.evidence import Longs
from kraftlog.metrics.record_totals import frame_sizes
from kraftlog.metrics.shared_log import SharedLog
from kraftlog.metrics.sizes import (
    FENCE_BROKER_FIELDS,
    ISR_CHANGE_FIELDS,
    fan_out_bytes,
    message_size_bytes,
)
from kraftlog.relations import moment

Row = dict[str, Any]
READS = (
    "offset",
    "timestamp_delta",
    "offset_delta",
    "key_size_bytes",
    "value_size_bytes",
)
"""Columns of partition changes that are needed."""
BURST_GAP_MS = 10
"""Batches of one controller operation are appended within a few ms; NoOps come every 500 ms."""


@dataclass(frozen=True, slots=True)
class Event:
    """A broker's change of state, at the offset of its record."""

    offset: int
    broker_id: int
    kind: str
    record_type: str


def events_of(versions: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Registrations, fencings, unfencings, controlled shutdowns and unregistrations, from the rows
    of `brokers`, in offset order.
    """
    before: dict[int, Mapping[str, Any]] = {}
    found = []
    for row in sorted(versions, key=lambda one: one["valid_from_offset"]):
        broker, offset = row["broker_id"], row["record_offset"]
        if offset is not None:
            found += [
                Event(offset, broker, kind, row["record_type"])
                for kind in _kinds(before.get(broker), row)
            ]
        before[broker] = row
    for broker, row in before.items():
        if row["valid_to_offset"] is not None:
            offset = row["valid_to_offset"] - 1
            found.append(Event(offset, broker, "unregistered", "UNREGISTER_BROKER_RECORD"))
    return sorted(found, key=lambda one: one.offset)


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


def amplification_rows(
    log: SharedLog,
    events: list[Event],
    changes: Callable[[], Iterable[pa.RecordBatch]],
    replicas: int,
) -> list[Row]:
    """A row per event; `changes` streams the log's partition changes, `replicas` counts the copies
    of the log.
    """
    held = [one for one in events if log.row_at(one.offset + 1) > 0]
    spans = np.array([_burst(log, one.offset) for one in held], np.int64).reshape(-1, 2)
    counts, sizes = _within(spans, changes() if held else ())
    return [
        _row(log, one, spans[at], int(counts[at]), int(sizes[at]), replicas)
        for at, one in enumerate(held)
    ]


def _burst(log: SharedLog, offset: int) -> tuple[int, int]:
    """Offsets [start, end) of the burst around an event."""
    first = last = log.row_at(offset + 1) - 1
    times, ends = log.base_timestamps, log.max_timestamps
    while first and times[first] - ends[first - 1] <= BURST_GAP_MS and _follows(log, first):
        first -= 1
    while last + 1 < len(log) and times[last + 1] - ends[last] <= BURST_GAP_MS:
        if not _follows(log, last + 1):
            break
        last += 1
    return int(log.base_offsets[first]), int(log.last_offsets[last]) + 1


def _follows(log: SharedLog, row: int) -> bool:
    """Whether a batch is of the epoch of the one before it."""
    return bool(log.epochs[row] == log.epochs[row - 1])


def _within(spans: Longs, changes: Iterable[pa.RecordBatch]) -> tuple[Longs, Longs]:
    """Count and bytes of the partition changes in each span."""
    counts, sizes = np.zeros(len(spans), np.int64), np.zeros(len(spans), np.int64)
    for rows in changes:
        offsets = rows.column("offset").to_numpy()
        order = np.argsort(offsets, kind="stable")
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(frame_sizes(rows)[order])])
        first, after = (np.searchsorted(offsets[order], spans[:, side]) for side in (0, 1))
        counts += after - first
        sizes += before[after] - before[first]
    return counts, sizes


def _row(log: SharedLog, event: Event, span: Longs, count: int, size: int, replicas: int) -> Row:
    start, end = int(span[0]), int(span[1])
    burst = log.bytes_between(start, end)
    at = log.row_at(event.offset + 1) - 1
    fence, change = message_size_bytes(FENCE_BROKER_FIELDS), message_size_bytes(ISR_CHANGE_FIELDS)
    return {
        "event_offset": event.offset,
        "event_timestamp": moment(int(log.base_timestamps[at])),
        "broker_id": event.broker_id,
        "event": event.kind,
        "record_type": event.record_type,
        "burst_start_offset": start,
        "burst_end_offset": end,
        "partition_change_count": count,
        "partition_change_size_bytes": size,
        "burst_record_count": log.records_between(start, end),
        "burst_size_bytes": burst,
        "replicated_size_bytes": int(fan_out_bytes(burst, replicas)),
        "kip_event_size_bytes": int(fan_out_bytes(fence, replicas)),
        "kip_isr_changes_size_bytes": int(fan_out_bytes(change * count, replicas)),
    }
