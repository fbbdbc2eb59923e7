"""Churn: objects added, modified, deleted and left alone, per hour and kind of object.

In: the lives of each history table, and the shared log. Out: rows of the table `churn`. An hour is
a range of offsets, so that times which jump count nothing twice. Source: KIP-630 "Loading State
and Frequency of Compaction", which assumes that "the set of keys rarely changes but that values
change frequently".
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kraftlog.metrics.objects import OPEN, Lives, ended_in
from kraftlog.metrics.shared_log import SharedLog, rises, steady
from kraftlog.quorum.evidence import Flags, Longs
from kraftlog.quorum.growth import HOUR_MS
from kraftlog.relations import Row, moment


@dataclass(frozen=True, slots=True)
class _Hours:
    """The hours that a log reaches, by their first ms and the offset at which each begins. A record
    at offset o shows from o + 1 on: an hour has the changes after its start and up to the next
    one's. Changes up to offset `first` do not count, nor do those above `end`, where the log ends:
    snapshots that it does not reach tell of these, and no record.
    """

    times: Longs
    starts: Longs
    first: int
    end: int

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def spans(self) -> tuple[Longs, Longs]:
        """The offsets after which and up to which each hour's changes lie."""
        ends = np.append(self.starts[1:], self.end)
        return np.maximum(self.starts, self.first), np.maximum(ends, self.first)

    def known_from(self, lives: Lives) -> Longs:
        """The offsets at which the hours begin, and that of a base snapshot for the hour in which the
        objects begin with it.
        """
        base, (_, until) = lives.last_base, self.spans
        if base > self.end:  # the log goes on from one before
            based = lives.born_based & (lives.began <= self.end)
            base = int(lives.began[based].max(initial=-1))
        holds = (self.starts < base) & (base <= until)
        return np.where(holds, base, self.starts)

    def counts(self, ordered: Longs) -> Longs:
        """How many changes each hour has, of offsets in order."""
        after, until = self.spans
        found: Longs = np.searchsorted(ordered, until, "right")
        return found - np.searchsorted(ordered, after, "right")

    def chosen(self, offsets: Longs, borders: Longs, least: Longs, most: Longs) -> Longs:
        """How many changes each hour has, of those whose hour's border is at least and below two
        offsets of their own.
        """
        counted = (offsets <= self.end) & (offsets > max(self.first, int(self.starts[0])))
        at = np.searchsorted(self.starts, offsets[counted], "left") - 1
        border = borders[at]
        wanted = (least[counted] <= border) & (border < most[counted])
        return np.bincount(at[wanted], minlength=len(self))


def churn_rows(log: SharedLog, every: Mapping[str, Lives]) -> list[Row]:
    """A row per hour and kind of object in which something changed."""
    begun = steady(log.base_timestamps)
    times = begun - begun % HOUR_MS
    first = rises(times)
    hours = _Hours(times[first], log.base_offsets[first], log.unbroken_from, log.end_offset)
    return [
        row
        for name, lives in every.items()
        if len(lives) and len(hours)
        for row in _rows(name, lives, hours)
    ]


def _rows(name: str, lives: Lives, hours: _Hours) -> list[Row]:
    began, ended = np.sort(lives.began), np.sort(lives.ended[lives.gone])
    deleted = hours.counts(ended)
    counts = {
        "added_count": hours.counts(np.sort(lives.began[~lives.born_based])),
        "modification_count": sum(hours.counts(one.offsets) for one in lives.ends) - deleted,
        "modified_count": _modified(lives, hours),
        "deleted_count": deleted,
    }
    starts = hours.known_from(lives)
    alive = np.searchsorted(began, starts, "right") - np.searchsorted(ended, starts, "right")
    touched = _touched(lives, hours)
    rows = []
    for at in np.flatnonzero(sum(counts.values())).tolist():
        row = {key: int(values[at]) for key, values in counts.items()}
        keys = row["added_count"] + row["deleted_count"]
        rows.append(
            {
                "window_start": moment(int(hours.times[at])),
                "object_kind": name,
                **row,
                "start_count": int(alive[at]),
                "untouched_count": int(alive[at] - touched[at]),
                "keys_change_less_than_values": keys < row["modification_count"],
            }
        )
    return rows


def _firsts(lives: Lives, hours: _Hours, since: Longs) -> Longs:
    """Objects that ended a version in each hour, and none after `since` before that."""
    return ended_in(lives.ends, since, *hours.spans)


def _touched(lives: Lives, hours: _Hours) -> Longs:
    """Objects that stood when the hour began, and were modified or deleted in it: without those
    that ended a version for the first time, but came only in that hour.
    """
    starts = hours.known_from(lives)
    came = hours.chosen(lives.first_ended, starts, lives.previous, lives.began)
    return _firsts(lives, hours, starts) - came


def _modified(lives: Lives, hours: _Hours) -> Longs:
    """Objects that were modified in the hour. An object whose first end of a version there was its
    deletion does not count by that, but by the first end of its next life that was none.
    """
    after, _ = hours.spans
    several = lives.last_began > lives.began
    last_before = np.where(several, lives.last_began, lives.previous)
    never = np.full(len(lives), OPEN)
    deleted = hours.chosen(lives.ended, after, last_before, never)
    ends = np.where(several, lives.first_ended, OPEN)
    late = hours.chosen(ends, after, _last_modified(lives, several), lives.previous)
    return _firsts(lives, hours, after) - deleted + late


def _last_modified(lives: Lives, several: Flags) -> Longs:
    """For each life, where the object was last modified in its lives before; −1 for never."""
    known = lives.previous == -1
    known[1:] |= several[:-1]
    found = np.where(lives.previous == -1, -1, np.append(-1, lives.last_began[:-1]))
    return found[np.maximum.accumulate(np.where(known, np.arange(len(found)), 0))]
