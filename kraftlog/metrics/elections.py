"""Elections: one tenure per leader epoch of the shared log.

In: the shared log. Out: rows of the table `elections`. A tenure begins with the epoch's first batch
and ends with the next one's; what was skipped in between are elections that nobody won. Source:
KIP-1219 (KAFKA-19541).
"""

import numpy as np

from kraftlog.metrics.shared_log import SharedLog, rises
from kraftlog.quorum.growth import HOUR_MS, per_day
from kraftlog.relations import Row, moment


def elections_of(log: SharedLog) -> list[Row]:
    """A row per epoch, in order. The first epoch of a log that does not begin at offset 0 began
    earlier.
    """
    if not len(log):
        return []
    at = rises(log.epochs)
    ends = np.append(at[1:], len(log))
    times = log.base_timestamps[at]
    until = np.append(times[1:], log.max_timestamps[-1:])
    tenures = until - times
    leaders = [log.leaders.get(int(log.epochs[row])) for row in at]
    before = np.searchsorted(np.sort(times), times - HOUR_MS, "right")
    within = np.arange(1, len(at) + 1) - before
    rows = []
    for place, (row, end) in enumerate(zip(at.tolist(), ends.tolist(), strict=True)):
        epoch = int(log.epochs[row])
        previous = int(log.epochs[at[place - 1]]) if place else None
        is_last = end == len(log)
        last_offset = int(log.last_offsets[end - 1])
        rows.append(
            {
                "batch_leader_epoch": epoch,
                "leader_id": leaders[place],
                "previous_leader_id": leaders[place - 1] if place else None,
                "start_offset": int(log.base_offsets[row]),
                "end_offset": last_offset + 1,
                "start_timestamp": moment(int(times[place])),
                "end_timestamp": moment(int(until[place])),
                "tenure_ms": int(tenures[place]),
                "is_current": is_last,
                "is_shortest": not is_last and int(tenures[place]) == int(tenures[:-1].min()),
                "skipped_epochs": epoch - previous - 1 if previous is not None else 0,
                "elections_in_hour": int(within[place]),
                "leader_came_back": place > 1
                and leaders[place] is not None
                and leaders[place] == leaders[place - 2] != leaders[place - 1],
                "record_count": log.records_between(int(log.base_offsets[row]), last_offset + 1),
                "size_bytes": int(log.sizes[row:end].sum()),
            }
        )
    return rows


def elections_per_day(log: SharedLog) -> float | None:
    """Elections of the log's span; the one that its first batch belongs to is not counted."""
    return per_day(max(len(rises(log.epochs)) - 1, 0), log.span_ms)
