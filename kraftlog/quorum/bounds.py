"""What is committed: an interval that always holds the high watermark, as far as Raft allows and no
further; and whether any of a tail that a newer epoch contradicts can have been.

In: for each voter at hand its `CopyStanding` (how far its copy reaches, what it knows of epochs,
whether its end is proven), and how far each pair of logs agrees; of a tail who elected the leaders
on both sides, and who holds it. Out: `Bounds`, a `Fate`. Pure, a few values per voter. The high
watermark itself is not on disk. Source: KIP-630 "Design", KAFKA-1211, KAFKA-14825; Raft's commit
rule (a record of an older epoch counts only where no unseen leader can have replaced it) and leader
completeness; KIP-595 (a voter that has granted a newer epoch accepts nothing of an older one),
KIP-853 (LeaderChange names the voters and who granted). A clean stop proves an end for the moment
of the copy: where another copy goes on, nothing tells how far the node has gone since.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from kraftlog.plain import voters_text
from kraftlog.quorum.epochs import EpochVector, common_end

Agreement = Callable[[str, str], int]
"""How far two copies, by their labels, were seen to hold the same batches: the end of their largest
common prefix, 0 where they share none. Of a copy with itself: how far it can be read."""

NOTHING_AT_HAND = "no evidence of any committed offset is at hand"
NOBODY_KNOWN = "nothing at hand says who votes"


@dataclass(frozen=True, slots=True)
class CopyStanding:
    """One copy as it stands in its quorum.

    `voter` is the voter's id, None for an observer. `known_epoch` is the highest epoch that its
    node has heard of (None where nothing says), and so the highest that it can have voted or led
    in. `end_proven`: nothing had followed the end of its log when it was copied; False where the
    end was lost, cannot be read, or where nothing on the disk speaks for it.
    """

    label: str
    voter: int | None
    vector: EpochVector
    known_epoch: int | None
    end_proven: bool
    snapshot_end: int = 0

    @property
    def reach(self) -> int:
        """How far it holds the log, by itself or by a snapshot."""
        return max(self.vector.end_offset, self.snapshot_end)

    def continues(self, other: "CopyStanding") -> bool:
        """Whether it holds more than another copy, and contradicts nothing of it."""
        mine, theirs = self.vector, other.vector
        ends = None, min(mine.end_offset, theirs.end_offset)
        return self.reach > other.reach and common_end(mine, theirs) in ends


@dataclass(frozen=True, slots=True)
class Bounds:
    """Every offset below `lower` is committed; none at or above `upper` can ever have been (None:
    nothing at hand proves such an offset).

    `missing_voters` have no copy at hand, those before a change that may not be committed among
    them; `open_voters` have one whose end is not proven, or from where another copy goes on. Copies
    of these, whole and of one moment, would settle an interval that is not exact. Below `shown` the
    copies themselves show what is committed: a describe tells offsets, and not records. An upper end
    that `is_of_a_describe` is that of its moment: a quorum that ran then has gone on since.
    """

    lower: int
    lower_reason: str
    upper: int | None
    upper_reason: str
    majority: int
    missing_voters: tuple[int, ...]
    open_voters: tuple[int, ...] = ()
    shown: int = 0
    is_of_a_describe: bool = False


@dataclass(frozen=True, slots=True)
class HeldAlike:
    """What a majority of the voters holds alike: every batch below `end`, as `label`'s log has it.

    `holders` are the voters' copies that hold it.
    """

    end: int
    label: str
    holders: tuple[str, ...]


@dataclass(frozen=True)
class Voting:
    """The copies of one quorum and its voters; what follows from both. `may_change`: records name the
    voters, so that a leader can add or remove one.
    """

    voters: tuple[int, ...]
    standings: Sequence[CopyStanding]
    agree: Agreement
    may_change: bool = False

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @cached_property
    def at_hand(self) -> dict[int, list[CopyStanding]]:
        """The copies of each voter; more than one where two folders claim to be it."""
        found: dict[int, list[CopyStanding]] = {}
        for one in self.standings:
            if one.voter is not None and one.voter in self.voters:
                found.setdefault(one.voter, []).append(one)
        return dict(sorted(found.items()))

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(one for one in self.voters if one not in self.at_hand)

    @cached_property
    def unproven(self) -> tuple[int, ...]:
        """Voters at hand whose copies do not prove where their logs ended."""
        return tuple(
            voter
            for voter, copies in self.at_hand.items()
            if not all(one.end_proven for one in copies)
        )

    @cached_property
    def continued(self) -> tuple[int, ...]:
        """Voters whose copies prove their ends, but others go on from there: the nodes may have gone
        on as well since they were copied.
        """
        return tuple(
            voter
            for voter, copies in self.at_hand.items()
            if voter not in self.unproven
            and all(any(other.continues(one) for other in self.standings) for one in copies)
        )

    @property
    def open(self) -> tuple[int, ...]:
        """Voters at hand of whom nothing says how far their logs went in the end."""
        return tuple(one for one in self.at_hand if one in (*self.unproven, *self.continued))

    # --- what is committed for certain -----------------------------------------------------------

    def held_by_majority(self) -> HeldAlike | None:
        """The largest prefix that a majority of the voters holds alike; None where none does."""
        best: HeldAlike | None = None
        for copies in self.at_hand.values():
            for one in copies:
                ends = sorted(self._ends(one).values(), reverse=True)
                end = ends[self.majority - 1] if len(ends) >= self.majority else 0
                if end > (best.end if best else 0):
                    best = self._held(one.label, end)
        return best

    def _ends(self, one: CopyStanding) -> dict[int, int]:
        """How far each voter holds what a copy holds; of two copies of one voter only one can be
        the real one, so the shorter counts.
        """
        return {
            voter: min(self.agree(one.label, copy.label) for copy in copies)
            for voter, copies in self.at_hand.items()
        }

    def _held(self, label: str, end: int) -> HeldAlike:
        every = (one.label for copies in self.at_hand.values() for one in copies)
        return HeldAlike(end, label, tuple(one for one in every if self.agree(label, one) >= end))

    def told(self, held: HeldAlike) -> str:
        """Who holds a prefix, in words."""
        ids = sorted({one.voter or 0 for one in self.standings if one.label in held.holders})
        told = ", ".join(str(one) for one in ids)
        return f"a majority of the voters ({told}) holds the same batches"

    def committed_held(self) -> HeldAlike | None:
        """The largest prefix on a majority that no leader, seen or unseen, can have replaced."""
        held = self.held_by_majority()
        while held is not None and held.end > 0:
            against = self._contradicted_at(held)
            if against is None:
                break
            held = self._held(held.label, against)
        if held is None or held.end <= 0:
            return None
        is_replaceable = self.unseen_leader(self._last_epoch(held), held.label, held.end)
        return None if is_replaceable else held

    def _last_epoch(self, held: HeldAlike) -> int:
        vector = next(one.vector for one in self.standings if one.label == held.label)
        return vector.epoch_at(held.end - 1)

    def _contradicted_at(self, held: HeldAlike) -> int | None:
        """The end of what a prefix shares with a copy that holds a newer epoch than its last batch,
        at or below that batch; the lowest such offset, None where nobody does.
        """
        epoch = self._last_epoch(held)
        shared = [
            self.agree(held.label, one.label)
            for one in self.standings
            if any(newer > epoch and start < held.end for newer, start in one.vector.entries)
        ]
        return min((end for end in shared if end < held.end), default=None)

    def unseen_leader(self, epoch: int, label: str, end: int) -> bool:
        """Whether voters may have elected a leader of an epoch above `epoch` whose log does not
        hold what `label`'s log holds below `end`.

        Its voters had heard of its epoch, and its records lie where no proven log shows them. An
        epoch is accounted for where a log at hand tells it and holds the whole prefix: all of its
        logs do then. The lowest epoch that is not accounted for has the most possible voters.
        """
        seen = {
            newer
            for one in self.standings
            for newer, _ in one.vector.entries
            if newer > epoch and self.agree(label, one.label) >= end
        }
        unseen = next(one for one in range(epoch + 1, epoch + len(seen) + 2) if one not in seen)
        able = len(self.missing)
        hiding = able > 0
        for copies in self.at_hand.values():
            if any(one.known_epoch is None or one.known_epoch >= unseen for one in copies):
                able += 1
                hiding |= not all(one.end_proven for one in copies)
        return hiding and able >= self.majority

    # --- what can be committed -------------------------------------------------------------------

    def largest_possible(self) -> int | None:
        """The end below which a majority could ever have held the log; None where voters whose logs
        are missing, or whose ends are not proven, could have made a majority of anything. Half of
        the voters are one as soon as their leader has removed another one, or added one.
        """
        reaches = sorted(
            (
                max(one.reach for one in copies)
                for voter, copies in self.at_hand.items()
                if voter not in self.open
            ),
            reverse=True,
        )
        unknown = len(self.voters) - len(reaches)
        fewest = (len(self.voters) + 1) // 2 if self.may_change else self.majority
        if not self.voters or unknown >= fewest:
            return None
        return reaches[self.majority - unknown - 1]


def interval(
    voting: Voting,
    proofs: Mapping[str, int],
    watermark: int | None = None,
    furthest: int | None = None,
    earlier: Sequence[tuple[int, Voting]] = (),
    told: str = "",
) -> Bounds:
    """The committed interval.

    `proofs` has offsets below which everything is committed by what stands in a copy, by their
    reasons. `watermark` is the high watermark that somebody has `told`, `furthest` the
    end of the longest copy at hand, of which more may have been committed after that moment; None
    where the quorum may have gone on for long, or with voters that are missing. A watermark below
    what the copies prove bounds nothing. `earlier` has the voters before each change of them, and
    its offset: while a change is not known to be committed, those may have gone on by themselves.
    """
    lower, reason = 0, NOTHING_AT_HAND
    furthest_proof = max(proofs, key=lambda why: proofs[why], default=None)
    if furthest_proof is not None and proofs[furthest_proof] > 0:
        lower, reason = proofs[furthest_proof], furthest_proof
    held = voting.committed_held()
    if held is not None and held.end > lower:
        lower, reason = held.end, voting.told(held)
    shown = lower
    if watermark is not None and watermark >= lower:
        lower, reason = watermark, told
    pending = [one for one in earlier if one[0] >= lower]
    upper, upper_reason = _upper(voting, pending)
    is_of_a_describe = watermark == lower and furthest is not None and upper is None
    if is_of_a_describe:
        upper = furthest
        upper_reason = "kafka-metadata-quorum describe gave it, and no copy at hand ends later"
    if upper is not None and upper < lower:
        upper = None
        upper_reason = "what is committed goes on behind the ends of the copies at hand"
    missing = sorted({*voting.missing, *(voter for _, one in pending for voter in one.missing)})
    return Bounds(
        lower,
        reason,
        upper,
        upper_reason,
        voting.majority,
        tuple(missing),
        voting.open,
        shown,
        is_of_a_describe,
    )


def _upper(voting: Voting, earlier: Sequence[tuple[int, Voting]]) -> tuple[int | None, str]:
    """The largest end that any of some sets of voters can have committed. From a change on, a log
    that holds it goes by the new voters; in one that does not, a newer epoch would show.
    """
    ends = []
    for changed_at, one in ((None, voting), *earlier):
        end = one.largest_possible()
        if end is None:
            return None, _why_unknown(one)
        ends.append(end if changed_at is None else min(end, changed_at))
    return max(ends), "no majority of the voters can ever have held more"


def _why_unknown(voting: Voting) -> str:
    if not voting.voters:
        return NOBODY_KNOWN
    causes = []
    if voting.missing:
        causes.append(f"no copy of {voters_text(voting.missing)} is at hand")
    if voting.unproven:
        causes.append(f"nothing proves where the log of {voters_text(voting.unproven)} ended")
    if voting.continued:
        causes.append(
            f"{voters_text(voting.continued)} may have gone on since, as another copy goes on from there"
        )
    return " and ".join(causes)


# --- what became of a tail -----------------------------------------------------------------------


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
