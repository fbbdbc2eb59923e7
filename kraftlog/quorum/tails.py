"""What became of a tail that a newer epoch contradicts: whether any of it can have been committed.

In: who elected the leaders on both sides, and who holds the tail. Out: a `Fate`. Pure, a few sets.
Source: Raft's leader completeness, KIP-595 (a voter that has granted a newer epoch accepts nothing
of an older one), KIP-853 (LeaderChange names the voters and who granted).
"""

from collections.abc import Set as AbstractSet
from enum import StrEnum


class Fate(StrEnum):
    """What is proven of a tail.

    UNCOMMITTED: the leader that contradicts it was elected by voters without whom no majority can
    have held it. COMMITTED: a majority of the voters of its own epoch holds it, and has it from no
    later leader, so that both sides count as committed: two histories. UNKNOWN: nothing at hand
    decides.
    """

    UNCOMMITTED = "uncommitted"
    COMMITTED = "committed"
    UNKNOWN = "unknown"


def fate(
    voters: AbstractSet[int] | None,
    holders: AbstractSet[int],
    granted: AbstractSet[int] | None,
    later_leader: bool,
) -> Fate:
    """The fate of a tail.

    `voters` is the voter set of the tail's own epoch, `holders` are the voters at hand that hold
    the tail's first batch, `granted` are those that elected the leader whose log contradicts it;
    None where no LeaderChange record at hand says so. A voter in both had granted the newer
    epoch while its own log was no further than one without the tail, and took none of it from its
    old leader afterwards. `later_leader`: a leader of a still newer epoch had the tail, or may have
    had it out of sight: who holds it now may have it from that one, committed or not.
    """
    if voters is None or granted is None:
        return Fate.UNKNOWN
    majority = len(voters) // 2 + 1
    outvoted = len(voters - granted) < majority
    if outvoted and later_leader:
        return Fate.UNKNOWN
    if len(voters & holders) >= majority:
        return Fate.COMMITTED
    return Fate.UNCOMMITTED if outvoted else Fate.UNKNOWN
