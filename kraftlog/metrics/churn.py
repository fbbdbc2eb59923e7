"""Churn: objects added, modified, deleted and left alone, per hour and kind of object.

In: the lives of each history table, and the shared log. Out: rows of the table `churn`. An hour is
a range of offsets, so that times which jump count nothing twice. Source: R13: KIP-630
assumes that "the set of keys rarely changes but that values change frequently".
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kraftlog.audit.evidence import Flags, Longs
from kraftlog.metrics.objects import OPEN, Lives
from kraftlog.metrics.record_totals import HOUR_MS
from kraftlog.metrics.shared_log import SharedLog
from kraftlog.relations import moment

Row = dict[str, Any]


def churn_rows(log: SharedLog, every: Mapping[str, Lives]) -> list[Row]:
    """A row per hour and kind of object in which something changed."""
    hours, starts = _windows(log)
    return [
        row
        for name, lives in every.items()
        if len(lives)
        for row in _rows(name, lives, hours, starts, log.unbroken_from)
    ]


def _windows(log: SharedLog) -> tuple[Longs, Longs]:
    """The first ms of each hour that the log reaches, and the offset at which it begins."""
    times = np.maximum.accumulate(log.base_timestamps)
    hours = times - times % HOUR_MS
    first = np.flatnonzero(
        np.concatenate([np.ones(min(len(log), 1), np.bool_), np.diff(hours) > 0])
    )
    return hours[first], log.base_offsets[first]


def _rows(name: str, lives: Lives, hours: Longs, starts: Longs, first: int) -> list[Row]:
    began = (lives.valid_from > first) & ~lives.based
    added = lives.added() & began
    deleted = lives.deleted() & (lives.valid_to > first)
    ended = (lives.valid_to != OPEN) & (lives.valid_to > first)
    modified = ended & ~deleted
    from_window, to_window = _window(starts, lives.valid_from), _window(starts, lives.valid_to)
    # What stood before the hour and was touched in it; counted once per object.
    stood = ended & (from_window < to_window)
    touched = _distinct(to_window[stood], lives.codes[stood], len(hours))
    changed = _distinct(to_window[modified], lives.codes[modified], len(hours))
    counts = {
        "added_count": _counts(from_window, added, len(hours)),
        "modification_count": _counts(to_window, modified, len(hours)),
        "modified_count": changed,
        "deleted_count": _counts(to_window, deleted, len(hours)),
    }
    alive = _up_to(from_window, len(hours)) - _up_to(to_window, len(hours))
    rows = []
    for at in np.flatnonzero(sum(counts.values())).tolist():
        row = {key: int(values[at]) for key, values in counts.items()}
        keys = row["added_count"] + row["deleted_count"]
        rows.append(
            {
                "window_start": moment(int(hours[at])),
                "object_kind": name,
                **row,
                "start_count": int(alive[at]),
                "untouched_count": int(alive[at] - touched[at]),
                "keys_change_less_than_values": keys < row["modification_count"],
            }
        )
    return rows


def _window(starts: Longs, offsets: Longs) -> Longs:
    """The hour in which a state first shows a change: a record at offset o counts from o + 1 on."""
    found: Longs = np.searchsorted(starts, offsets, "left") - 1
    return found


def _counts(windows: Longs, wanted: Flags, count: int) -> Longs:
    kept = windows[wanted]
    return np.bincount(kept[kept >= 0], minlength=count)


def _distinct(windows: Longs, codes: Longs, count: int) -> Longs:
    """Distinct objects per hour."""
    kept = windows >= 0
    if not kept.any():
        return np.zeros(count, np.int64)
    span = int(codes.max()) + 1
    # Sorted, and not by np.unique, which hashes: ten times as slow with this many.
    pairs = np.sort(windows[kept] * span + codes[kept])
    first = np.append(True, pairs[1:] != pairs[:-1])
    return np.bincount(pairs[first] // span, minlength=count)


def _up_to(windows: Longs, count: int) -> Longs:
    """How many lie at or before the beginning of each hour, which is in the window before."""
    found: Longs = np.cumsum(np.bincount(windows + 1, minlength=count))[:count]
    return found
