"""Storms of elections: leaders that come one after the other, elections that nobody wins, voters
that stand again and again.

In: a quorum or a log. Out: how many, how long, and where. Checks say it in words, plans ask whether
it is so. Source: KIP-1219, strimzi#11613.
"""

from collections.abc import Iterator

import numpy as np

from kraftlog.quorum.joining import stuck
from kraftlog.quorum.logview import EpochStart, LogView
from kraftlog.quorum.model import Quorum


def busiest_hour(log: LogView) -> tuple[int, EpochStart | None]:
    """The most elections that a log holds within an hour, and the first of them in the log."""
    starts = [one for one in log.epoch_starts if one.certain][1:]
    rows = np.array([one.row for one in starts], np.int64)
    if not len(rows):
        return 0, None
    # As floats: a wild time does not wrap around.
    times = log.evidence.log.base_timestamps[rows].astype(np.float64)
    order = np.argsort(times)
    times = times[order]
    within = np.searchsorted(times, times + 3_600_000, "left") - np.arange(len(times))
    busiest = int(within.argmax())
    most = int(within[busiest])
    return most, starts[int(order[busiest : busiest + most].min())]


def longest_gap(log: LogView) -> tuple[int, EpochStart]:
    """The most epochs between two of a log's that nobody won, and the epoch after them; the log has
    two epochs at least.
    """
    epochs = np.array([one.epoch for one in log.epoch_starts], np.int64)
    skipped = np.diff(epochs) - 1
    worst = int(skipped.argmax())
    return int(skipped[worst]), log.epoch_starts[worst + 1]


def unelected(quorum: Quorum) -> Iterator[tuple[LogView, int, int]]:
    """Voters whose `quorum-state` is far above every log at hand, with its epoch and the newest of
    the logs; but for those of which `stuck` says why.
    """
    newest = max((log.last_epoch or 0 for log in quorum.peers), default=0)
    known = {one.log.label for one in stuck(quorum)}
    for log in (log for logs in quorum.holders.values() for log in logs):
        state = log.evidence.state_file
        if state is None or log.evidence.quorum_state is None or log.label in known:
            continue
        if state.leader_epoch - newest > quorum.thresholds.skipped_epochs:
            yield log, state.leader_epoch, newest


def is_stormy(quorum: Quorum) -> bool:
    """Whether elections are over the limits."""
    limits, log = quorum.thresholds, quorum.newest_log
    if any(unelected(quorum)):
        return True
    most, first = busiest_hour(log) if log is not None else (0, None)
    if log is None or first is None:
        return False
    return most > limits.elections_per_hour or longest_gap(log)[0] > limits.skipped_epochs
