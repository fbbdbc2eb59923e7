"""Which states can still be rebuilt, and from whose files: "is it restorable?"

In: a `Quorum`. Out: `Restorable`s, one per replica, range of offsets and source. Work on columns
only: fractions of a second for millions of batches. Source: KIP-630 "Motivation", KAFKA-14205,
KIP-630 "Consistent Log and Snapshots" and KIP-595 for whether two histories are the same. A batch
whose CRC is right counts as held: of records in it that do not decode Kafka's loader skips one
after the other, and so does the replay.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kraftlog.log.names import LAST_OFFSET
from kraftlog.quorum.chain import holds
from kraftlog.quorum.holdings import Held, Range, gaps, kinship, untold
from kraftlog.quorum.lineages import lineages, stretches
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum

NO_BASE, HOLE, AFTER_END, UNREAD = MISSING = "no_base", "hole", "after_end", "unread"
"""Why a replica's own files do not give a state: the log begins above 0 and no snapshot reaches
back; batches are missing or damaged, up to the next snapshot; it lies after all that is held; a
file of its log that could not be read may give it."""


@dataclass(frozen=True, slots=True)
class Restorable:
    """A range of offsets (both ends included) of a replica's history, and one source of its states:
    the files of `source`, a snapshot (None: from offset 0 on) and the segments after it.

    `source` is the replica itself where it needs nobody, "1 + 3" where the logs of several have to
    be put together, as none gives these states alone, and None where no file at hand does. `same_history`: the source tells the replica's own history there (True),
    another one (False), or nothing at hand says (None). `missing` says why its own files do not.
    """

    replica: str
    start_offset: int
    end_offset: int
    source: str | None
    same_history: bool | None
    missing: str | None
    snapshot_path: str | None
    segment_paths: tuple[str, ...]


def restorable(quorum: Quorum) -> list[Restorable]:
    """Everything that can be rebuilt, and everything that cannot, replica by replica in offset
    order. What lies after a replica's end is asked of the others up to the furthest of them.
    """
    held = [Held.by(quorum, log) for log in quorum.logs]
    together = Held.together(quorum)
    furthest = max((one.end_offset for one in held if not one.is_foreign), default=-1)
    rows: list[Restorable] = []
    for one in held:
        others = [two for two in held if two is not one and not (one.is_foreign or two.is_foreign)]
        end = one.end_offset if one.is_foreign else furthest
        own = [_source(one, one.label, low, high, True, None) for low, high in one.ranges]
        spans = gaps(one.ranges, 0, end)
        lost = [row for span in spans for row in _lost(one, others, together, *span)]
        rows += sorted(own + lost, key=lambda row: row.start_offset)
    return rows


def lost_everywhere(quorum: Quorum) -> list[Range]:
    """Offsets up to the furthest end at hand whose state no replica of the quorum gives, whatever
    its history.
    """
    known, furthest = _known(quorum)
    return list(gaps(known, 0, furthest))


def untold_records(quorum: Quorum) -> tuple[Range, ...]:
    """Records of which no file at hand tells what they changed, by no lineage either."""
    known, furthest = _known(quorum)
    every = (one for lineage in lineages(quorum) for one in stretches(lineage))
    told = ((one.start_offset, one.end_offset) for one in every)
    return untold([*known, *told], furthest)


def _known(quorum: Quorum) -> tuple[list[Range], int]:
    """Where states can be rebuilt, and the furthest state that there was."""
    held = [Held.by(quorum, log) for log in quorum.peers]
    together = Held.together(quorum)
    every = [*held, together] if together is not None else held
    ranges = [span for one in every for span in one.ranges]
    return ranges, max((one.end_offset for one in held), default=-1)


# --- what a replica lacks ------------------------------------------------------------------------


def _lost(
    one: Held, others: list[Held], together: Held | None, low: int, high: int
) -> Iterator[Restorable]:
    """A range that a replica's own files do not give, in two parts where its end lies inside."""
    inside, after = (low, min(high, one.end_offset)), (max(low, one.end_offset + 1), high)
    for first, last in (inside, after):
        if first > last:
            continue
        missing = HOLE if first else NO_BASE
        if first > one.end_offset:
            missing = AFTER_END
        if _may_be_unread(one.log, first, last):
            missing = UNREAD
        found = [row for two in others for row in _offered(one, two, first, last, missing)]
        # A history that another one has replaced ends there: nothing is missing after its end.
        told = [
            (row.start_offset, row.end_offset)
            for row in found
            if row.same_history is not False or first > one.end_offset
        ]
        alone = list(gaps(told, first, last))
        shared = [row for span in alone for row in _shared(one, together, *span, missing)]
        told += [(row.start_offset, row.end_offset) for row in shared]
        found += shared
        for start, end in gaps(told, first, last):
            found.append(Restorable(one.label, start, end, None, None, missing, None, ()))
        yield from sorted(found, key=lambda row: row.start_offset)


def _may_be_unread(log: LogView, low: int, high: int) -> bool:
    """Whether a segment that could not be read may hold what the states of a range lack."""
    segments = log.evidence.segments
    following = [*(one.base_offset for one in segments[1:]), LAST_OFFSET]
    return any(
        segment.problem is not None and segment.base_offset <= high and low <= end
        for segment, end in zip(segments, following, strict=False)
    )


def _offered(one: Held, other: Held, low: int, high: int, missing: str) -> Iterator[Restorable]:
    """What another replica's files give of a range, cut where it is known to be the same history
    and where it is known to be another.
    """
    overlaps = _overlaps(other.ranges, low, high)
    if not overlaps:
        return
    same_until, differs_from = kinship(one, other)
    for start, end in overlaps:
        last = end if differs_from is None else min(end, differs_from)
        parts = (
            (start, min(last, same_until), True),
            (max(start, same_until + 1), last, None),
            (max(start, last + 1), end, False),
        )
        for first, after, same in parts:
            if first <= after:
                yield _source(other, one.label, first, after, same, missing)


def _shared(
    one: Held, together: Held | None, low: int, high: int, missing: str
) -> Iterator[Restorable]:
    """What of a range only the copies together give, where the replica holds a batch of the same run
    and does not leave it before.
    """
    if together is None or one.log.is_empty:
        return
    confirmed = one.quorum.confirmed(one.label, one.end_offset)
    until = high if confirmed == one.end_offset else min(high, confirmed)
    for start, end in _overlaps(together.ranges, low, until):
        span = next(run for run in together.runs if run[0] <= start <= run[1])
        if holds(one.log, together.links, np.arange(*together.links.between(*span))).any():
            yield _source(together, one.label, start, end, True, missing)


def _overlaps(ranges: list[Range], low: int, high: int) -> list[Range]:
    """What of ranges lies in one."""
    found = ((max(low, start), min(high, end)) for start, end in ranges)
    return [(start, end) for start, end in found if start <= end]


def _source(
    held: Held, replica: str, low: int, high: int, same_history: bool | None, missing: str | None
) -> Restorable:
    """The files that are the source of a range which lies in one of their ranges."""
    base = held.base_for(low)
    first = base.end_offset if base is not None else 0
    path = base.path if base is not None else None
    segments = held.segments(first, high)
    source = " + ".join(dict.fromkeys(label for label, _ in segments)) or held.label
    paths = tuple(path for _, path in segments)
    return Restorable(replica, low, high, source, same_history, missing, path, paths)
