"""What is committed: bounds of the high watermark, as far as Raft allows and no further.

In: the logs of the voters, the snapshots, and how far each pair of logs agrees. Out: a lower and
an upper bound, each with its reason in words. The high watermark itself is not on disk. Source:
R35, R107–R110, #21, KIP-595.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kraftlog.quorum.logview import LogView

Agreement = Callable[[LogView, LogView], int]
"""How far two logs agree: the end of their largest common prefix, from what both still hold."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Every offset below `lower` is committed; none at or above `upper` can be (None: nothing is
    known).
    """

    lower: int
    lower_reason: str
    upper: int | None
    upper_reason: str
    majority: int
    missing_voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """A voter at hand: its logs (more than one where two directories claim it) and the end of its
    newest snapshot.
    """

    voter: int
    logs: tuple[LogView, ...]
    snapshot_end: int


def held_by_majority(
    holders: list[Holder], majority: int, agree: Agreement
) -> tuple[int, LogView | None]:
    """The largest offset below which a majority of voters hold the same batches, and one of their
    logs.
    """
    best: tuple[int, LogView | None] = (0, None)
    for holder in holders:
        for log in holder.logs:
            ends = sorted((_holds(log, other, agree, min) for other in holders), reverse=True)
            if len(ends) >= majority and ends[majority - 1] > best[0]:
                best = (ends[majority - 1], log)
    return best


def _holds(
    log: LogView, other: Holder, agree: Agreement, choose: Callable[[list[int]], int]
) -> int:
    """How far a voter holds what `log` holds; of two directories of one voter only one can be the
    real one.
    """
    return choose([agree(log, one) for one in other.logs] or [0])


def upper_bound(
    holders: list[Holder], missing: int, majority: int, agree: Agreement, best: LogView | None
) -> int | None:
    """The end below which a majority could still hold the newest log: voters that are not at hand
    could hold anything.
    """
    if best is None or missing >= majority:
        return None
    ends = sorted(
        (max(_holds(best, one, agree, max), one.snapshot_end) for one in holders), reverse=True
    )
    place = majority - missing - 1
    return ends[place] if place < len(ends) else None


def contradicted_at(log: LogView, end: int, others: list[LogView]) -> tuple[int, LogView] | None:
    """Where another copy holds a higher epoch than the last batch below `end`, at or below that
    batch; the lowest such offset.
    """
    index = log.index_at(end - 1)
    if index < 0:
        return None
    epoch, first = int(log.epochs[index]), int(log.base[index])
    found: list[tuple[int, LogView]] = []
    for other in others:
        for start in other.epoch_starts:
            # Where a log begins does not tell where its first epoch began.
            if start.epoch > epoch and start.start_offset <= first:
                found.append((start.start_offset, other))
                break
    return min(found, key=lambda pair: pair[0], default=None)
