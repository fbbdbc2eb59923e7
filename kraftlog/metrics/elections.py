"""Elections: one tenure per leader epoch of the shared log.

In: the shared log. Out: rows of the table `elections`. A tenure begins with the epoch's first batch
and ends with the next one's; what was skipped in between are elections that nobody won. Source:
KIP-1219 (KAFKA-19541).
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

import numpy as np

from kraftlog.metrics.shared_log import SharedLog, rises
from kraftlog.quorum.growth import HOUR_MS, per_day
from kraftlog.relations import Row, moment


def elections_of(log: SharedLog) -> list[Row]:
    """A row per epoch, in order. The first epoch of a log that does not begin at offset 0 began
    earlier: nobody knows when, and its election counts in no hour.
    """
    if not len(log):
        return []
    at = rises(log.epochs)
    ends = np.append(at[1:], len(log))
    times = log.base_timestamps[at]
    until = np.append(times[1:], log.max_timestamps[-1:])
    tenures = until - times
    leaders = [log.leaders.get(int(log.epochs[row])) for row in at]
    earlier = int(log.base_offsets[0] > 0)
    within = [None] * earlier + within_hours(times[earlier:].tolist())
    # Where the next leader's clock is behind, nobody knows how long one led.
    lasted = [None] * earlier + [one if one >= 0 else None for one in tenures[earlier:].tolist()]
    least = min((one for one in lasted[:-1] if one is not None), default=None)
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
                "tenure_ms": lasted[place],
                "is_current": is_last,
                "is_shortest": not is_last and lasted[place] is not None and lasted[place] == least,
                "skipped_epochs": epoch - previous - 1 if previous is not None else 0,
                "elections_in_hour": within[place],
                "leader_came_back": place > 1
                and leaders[place] is not None
                and leaders[place] == leaders[place - 2] != leaders[place - 1],
                "record_count": int(log.record_counts[row:end].sum()),
                "size_bytes": int(log.sizes[row:end].sum()),
            }
        )
    return rows


def within_hours(times: Iterable[int]) -> list[int]:
    """How many of the times so far are less than an hour from each: clocks of leaders differ, and go
    back.
    """
    found, known = [], list[int]()
    for one in times:
        insort(known, one)
        found.append(bisect_left(known, one + HOUR_MS) - bisect_right(known, one - HOUR_MS))
    return found


def elections_per_day(log: SharedLog) -> float | None:
    """Elections of the log's span; the one that its first batch belongs to is not counted."""
    return per_day(max(len(rises(log.epochs)) - 1, 0), log.span_ms)
