"""Who can win an election: for each voter, who grants it a vote, and what it would lack.

In: the log end of each voter that starts, and the size of the voter set. Out: one outcome per
candidate. Pure. Source: KIP-630 "Changes to Leader Election", KAFKA-1211, KIP-630 v19; Raft's rule
of the up-to-date log; Kafka's KafkaRaftClient.handleVoteRequest and QuorumState.canGrantVote: a
candidate's (last epoch, log end offset) must not be below the voter's own, where a snapshot that is
newer than the log counts as it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from kraftlog.quorum.voters import Members, is_named, votes_needed
from kraftlog.simulate.extent import Extent, SnapshotId


@dataclass(frozen=True, slots=True)
class Voter:
    """One copy of a voter's log. `boots` is False where the node does not start with it, None where
    a file that could not be read would tell.

    `held_end_offset` is how far it holds what is committed, `electorate` are the voters that its
    own log names: it stands where it is among them, and counts their votes. `described_end` is how
    far its node went after it was copied, by a describe: it stands with that, and grants nobody less.
    """

    label: str
    voter_id: int
    log_end: SnapshotId
    held_end_offset: int
    electorate: Members
    directory_id: str | None = None
    boots: bool | None = True
    described_end: tuple[int, int] = (0, 0)

    @property
    def reach(self) -> tuple[int, int]:
        """The (epoch, offset) that its node votes with."""
        return max(self.log_end, self.described_end)

    def counts(self, other: "Voter") -> bool:
        """Whether the vote of another one, or its own, is one among its voters."""
        return is_named(self.electorate, other.voter_id, other.directory_id)


@dataclass(frozen=True, slots=True)
class Candidacy:
    """What happens if this voter stands now. `can_win` is None where voters that are not at hand
    decide, or files that could not be read; `granted_by` has the candidate itself in it.
    """

    candidate: str
    can_win: bool | None
    granted_by: tuple[str, ...]
    refused_by: tuple[str, ...]
    lacks_committed_from_offset: int | None


def vote_end(extent: Extent) -> SnapshotId:
    """The (epoch, offset) that a replica votes with: the later of its latest snapshot and its log."""
    return extent.truncated_to_latest_snapshot().log_end


def grants(voter_end: tuple[int, int], candidate_end: tuple[int, int]) -> bool:
    """Whether a voter that has not voted in this epoch grants its vote."""
    return candidate_end >= voter_end


def outcomes(
    voters: Sequence[Voter], committed_end_offset: int, dead: Collection[int | None] = ()
) -> Iterator[Candidacy]:
    """One outcome per candidate; of two copies of one voter each stands, and either may vote. The
    `dead` are counted as voters, and neither stand nor grant a vote.
    """
    alive = [one for one in voters if one.voter_id not in dead]
    for candidate in alive:
        present = {one.voter_id for one in alive if candidate.counts(one)}
        named = {node for node, _ in candidate.electorate}
        missing = len(named - present - set(dead))
        majority = votes_needed(candidate.electorate)
        stands = candidate.boots is not False and candidate.counts(candidate)
        others = [
            one
            for one in alive
            if one.boots is not False
            and candidate.counts(one)
            and (one is candidate or one.voter_id != candidate.voter_id)
        ]
        granted = [one for one in others if grants(one.reach, candidate.reach)]
        refused = tuple(one.label for one in others if one not in granted)
        votes = len({one.voter_id for one in granted})
        sure = len({one.voter_id for one in granted if one.boots})
        can_win: bool | None = stands and bool(candidate.boots) and sure >= majority
        if stands and not can_win and majority <= votes + missing:
            can_win = None
        lacks = (
            candidate.held_end_offset if candidate.held_end_offset < committed_end_offset else None
        )
        labels = tuple(one.label for one in granted) if stands else ()
        yield Candidacy(candidate.label, can_win, labels, refused if stands else (), lacks)
