"""Up to which offset one replica's log is known to be committed, by the whole quorum.

In: a `Quorum` and a replica's label. Out: an offset and the reason. The quorum's lower bound says
what is committed; a copy that contradicts the others below it holds other records there. Source:
KIP-630 "Design", KAFKA-1211, KIP-595.
"""

from typing import NamedTuple

from kraftlog.quorum.divergence import DifferingRun
from kraftlog.quorum.model import Quorum


class Committed(NamedTuple):
    """Every record of a replica below `offset` is committed; `reason` says how that is known."""

    offset: int
    reason: str


def committed_in(quorum: Quorum, label: str) -> Committed:
    """The committed bound of one replica: the quorum's, or where the replica's own log departs from
    it.

    This is about which of the records that it holds are committed: holes and an early end do not
    lower it, where `simulate.rows.Plans.committed_reach` asks how far a started node lacks nothing.
    """
    bounds = quorum.bounds
    departs = [
        run.start
        for comparison in quorum.differing
        if comparison.one.label == label
        for run in comparison.runs
        if _is_odd(quorum, label, run)
    ]
    own_tail = quorum.tail_starts.get(label)
    if own_tail is not None:
        departs.append(own_tail)
    known = quorum.committed_below(label)
    at = min(departs, default=known)
    if at < known:
        return Committed(at, f"the other copies hold other records from offset {at} on")
    if known < bounds.lower:
        why = f"the describe tells that everything below offset {bounds.lower} is committed, and not that this log holds it"
        return Committed(known, why)
    return Committed(bounds.lower, bounds.lower_reason)


def _is_odd(quorum: Quorum, label: str, run: DifferingRun) -> bool:
    """Whether most of the copies hold something else where a difference begins."""
    usual = quorum.majority_at(run.start)
    return usual is not None and all(one.label != label for one in usual)
