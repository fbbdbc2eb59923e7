"""Who votes in a quorum, which copies are theirs, and how these stand in an election.

In: what lies at hand. Out: the second floor of `model.Quorum`. Source: KIP-595, KIP-853, and KIP-630
"Changes to Leader Election".
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from kraftlog.message.message_spec import ZERO_UUID
from kraftlog.quorum import settings, strays
from kraftlog.quorum import voters as voter_sources
from kraftlog.quorum.at_hand import AtHand
from kraftlog.quorum.bounds import CopyStanding, Voting
from kraftlog.quorum.ends import Sender, end_is_proven, known_epoch
from kraftlog.quorum.epochs import vector_of
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.quorum.voters import Members, VoterSet


@dataclass(frozen=True)
class Electorate(AtHand):
    """The copies, and who votes."""

    @cached_property
    def voter_set(self) -> VoterSet | None:
        """The voters that count now: KRaftVoters records, else quorum-state, else configuration,
        else the last election, else a describe.
        """
        logs = self.peers
        replicas = [log.evidence for log in logs]
        return (
            self.recorded_voters
            or voter_sources.current(voter_sources.by_quorum_state(replicas))
            or voter_sources.current(voter_sources.by_configuration(replicas))
            or voter_sources.current(voter_sources.by_elections(logs))
            or voter_sources.current(voter_sources.by_describe(self.evidence.described))
        )

    @property
    def members(self) -> Members:
        """The same with their directories alone; nobody where nothing says who votes."""
        return () if self.voter_set is None else self.voter_set.members

    @property
    def voters(self) -> tuple[int, ...]:
        """Their ids."""
        return () if self.voter_set is None else self.voter_set.ids

    @cached_property
    def held_before(self) -> frozenset[str]:
        """The strays that may hold what the voters held before their quorum was formed anew."""
        found = (self.by_label[one] for one in self.strays)
        return strays.held_before(found, self.peers, self.voters)

    @cached_property
    def recorded_voters(self) -> VoterSet | None:
        """The voters by KRaftVoters records, which a dynamic quorum has."""
        return voter_sources.current(voter_sources.by_records(self.peers, self._voters_snapshots))

    @cached_property
    def unexplained_voters(self) -> VoterSet | None:
        """The voters that a describe names, where it is of the newest epoch at hand or of a later
        one, and neither the voters that count nor any record at hand tells of them.
        """
        told = next(voter_sources.by_describe(self.evidence.described), None)
        if told is None or self.voter_set is None or told.seen[0] < self.newest_epoch:
            return None
        records = voter_sources.every_recorded(self.peers, self._voters_snapshots)
        known = {self.voters, *(tuple(sorted({one for one, _ in set_})) for set_ in records)}
        return None if told.ids in known else told

    @cached_property
    def strangers(self) -> dict[str, int]:
        """The node that a copy's `quorum-state` names as leader, else as the one that it voted for,
        where no set of voters at hand has ever named it, and no LeaderChange record tells another
        leader of that epoch. Kafka takes the file as it is.
        """
        if self.voter_set is None:
            return {}
        replicas = [log.evidence for log in self.peers]
        told = (
            *voter_sources.by_quorum_state(replicas),
            *voter_sources.by_configuration(replicas),
            *voter_sources.by_describe(self.evidence.described),
        )
        recorded = voter_sources.every_recorded(self.peers, self._voters_snapshots)
        known = {
            node for members in (*recorded, *(one.members for one in told)) for node, _ in members
        }
        led = {epoch for log in self.peers for epoch in log.leaders}
        found = {}
        for one in replicas:
            state = one.state_file
            if state is not None and state.leader_epoch not in led:
                node = state.leader_id if state.leader_id >= 0 else state.voted_id
                if node >= 0 and node not in known:
                    found[one.label] = node
        return found

    @cached_property
    def controller_ids(self) -> frozenset[int]:
        """The nodes that are voters, or once were in any history at hand: controllers, whatever they
        are now.
        """
        recorded = voter_sources.every_recorded(self.peers, self._voters_snapshots)
        return frozenset({node for members in recorded for node, _ in members}.union(self.voters))

    def is_voter(self, replica: ReplicaEvidence) -> bool | None:
        """Of the node, whatever its log; None where the voters or its identity are not known, or it
        names another cluster.
        """
        if replica.label in self.otherwise_named:
            return None
        if replica.is_pulled:
            return False
        if self.voter_set is None or replica.node_id is None:
            return None
        return self.is_among(self.members, replica)

    @staticmethod
    def is_among(members: Members, replica: ReplicaEvidence) -> bool:
        """Whether a set of voters names a copy's node with its disk."""
        return voter_sources.is_named(members, replica.node_id, replica.directory_id)

    def unnamed_disk(self, replica: ReplicaEvidence) -> str | None:
        """The directory that the voter set names for a voter whose meta.properties names none: a
        start makes up another one (Kafka's KafkaRaftServer), with which the node does not vote.
        """
        is_known = replica.meta("directory.id") is not None or not self.is_voter(replica)
        return None if is_known else self.named_directories.get(replica.node_id or 0)

    @property
    def named_directories(self) -> dict[int, str]:
        """The directory of each voter by the voter set; none below kraft.version 1."""
        return {voter: one for voter, one in self.members if one not in (None, ZERO_UUID)}

    def is_voter_by_id(self, replica: ReplicaEvidence) -> bool:
        """Whether the voter set names the node, be it with another disk."""
        return replica.node_id in self.voters

    def role(self, replica: ReplicaEvidence) -> str:
        """`voter`, `observer` or `unknown`."""
        return {True: "voter", False: "observer", None: "unknown"}[self.is_voter(replica)]

    @cached_property
    def holders(self) -> dict[int, tuple[LogView, ...]]:
        """The logs of the voters at hand, by voter; more than one where two folders claim it."""
        found: dict[int, tuple[LogView, ...]] = {}
        for log in self.peers:
            node = log.evidence.node_id
            if node is not None and self.is_voter(log.evidence):
                found[node] = (*found.get(node, ()), log)
        return dict(sorted(found.items()))

    @cached_property
    def voter_logs(self) -> tuple[LogView, ...]:
        """All of these logs, in the order of the voters."""
        return tuple(log for copies in self.holders.values() for log in copies)

    @cached_property
    def unread_voters(self) -> tuple[int, ...]:
        """The voters at hand of whose logs nothing could be read."""
        held = self.holders.items()
        return tuple(one for one, copies in held if all(log.unread_segments for log in copies))

    @cached_property
    def electorates(self) -> dict[str, Members]:
        """The voters among whom each copy's node stands for election: by the newest record of its
        own, committed or not (KIP-853, Kafka's QuorumState), else those that count now.
        """
        named = {label: one.members for label, one in self.recorded_electorates.items()}
        return {log.label: named.get(log.label, self.members) for log in self.peers}

    @cached_property
    def recorded_electorates(self) -> dict[str, VoterSet]:
        """Of them those that the copy's own KRaftVoters records name."""
        own = voter_sources.by_records(self.peers, self.own_snapshots)
        return {one.replica: one for one in own}

    def voterless_snapshot(self, log: LogView) -> SnapshotView | None:
        """A copy's newest snapshot, where it has lost the voters: what names them below its end is not
        read. Such a node asks nobody for a vote, and still grants its own to who asks (4.3.1).
        """
        newest = self.loaded_snapshot(log.label)
        if newest is None or newest.voters or newest.has_unread_voters or newest.is_damaged:
            return None
        named = voter_sources.by_records([log], self.snapshots_of(log.label))
        return newest if any(one.since[1] <= newest.end_offset for one in named) else None

    def asks_nobody(self, log: LogView) -> bool:
        """Whether a node knows no voter, so that it stands for no election: its newest snapshot has lost
        them, or, in a quorum whose records name them, it has no log, no snapshot and no setting.
        """
        if self.voterless_snapshot(log) is not None:
            return True
        one = log.evidence
        is_empty = log.is_empty and not log.unread_segments and not self.snapshots_of(log.label)
        is_told = one.server_properties is not None and one.setting(settings.VOTERS) is None
        return self.recorded_voters is not None and is_empty and is_told

    def unplaced_voters(self, log: LogView) -> tuple[str | None, list[int]]:
        """The listener at which a voter's node looks for the others (None: it is not known), and
        those that the node's own set names no endpoint of for it: where no leader is known it looks for
        all, and halts over any of them (Kafka's VoterSet.voterNodes, since 3.9).
        """
        listener = voter_sources.looking_listener(log.evidence)
        own = self.recorded_electorates.get(log.label)
        if own is None or not self.is_among(own.members, log.evidence):
            return listener, []
        others = sorted(own.listeners.items())
        unplaced = [
            voter
            for voter, known in others
            if voter != log.evidence.node_id
            and (listener.upper() not in known if listener else not known)
        ]
        return listener, unplaced

    @cached_property
    def electors(self) -> tuple[LogView, ...]:
        """The copies whose nodes vote for somebody at hand, the voters that count now first."""
        sets = set(self.electorates.values())
        others = [
            log
            for log in self.peers
            if log not in self.voter_logs
            and not log.evidence.is_pulled
            and any(self.is_among(one, log.evidence) for one in sets)
        ]
        return (*self.voter_logs, *others)

    def _among(self, members: Members, voting: Voting) -> Voting:
        """The copies as they stand among other voters."""
        seats = {
            one.label: one.evidence.node_id
            for one in self.peers
            if self.is_among(members, one.evidence)
        }
        standings = [replace(one, voter=seats.get(one.label)) for one in voting.standings]
        ids = tuple(sorted({voter for voter, _ in members}))
        return replace(voting, voters=ids, standings=standings)

    def _earlier(self, voting: Voting) -> list[tuple[int, Voting]]:
        """The copies among the voters before each change that KRaftVoters records tell."""
        if self.recorded_voters is None:
            return []
        log = self.by_label[self.recorded_voters.replica]
        replaced = voter_sources.replaced_sets(log, self._voters_snapshots)
        return [(offset, self._among(members, voting)) for offset, members in replaced]

    # --- elections --------------------------------------------------------------------------------

    @cached_property
    def voting(self) -> Voting:
        """The copies as they stand in an election, and how far each pair of them agrees."""
        standings = [self._standing(log) for log in self.peers]
        return Voting(self.voters, standings, self._agree, self.recorded_voters is not None)

    def _standing(self, log: LogView) -> CopyStanding:
        voter = log.evidence.node_id if self.is_voter(log.evidence) else None
        proven = self.end_is_proven(log) and not self.later_vote(log)
        known, snapshot_end = known_epoch(log), self.own_snapshot_end(log.label)
        return CopyStanding(log.label, voter, vector_of(log), known, proven, snapshot_end)

    def later_vote(self, log: LogView) -> "Vote | None":
        """The newest election above all that a voter's copy has heard of in which the node had a
        part; None where there is none.
        """
        if log.unread_segments and known_epoch(log) is None:
            return None
        known = known_epoch(log) or log.last_epoch or 0
        return max((one for one in self._votes(log) if one.epoch > known), default=None)

    def second_vote(self, log: LogView) -> "Vote | None":
        """The election in which a voter had a part though it voted for another node in that epoch by
        its own quorum-state; None where there is none. Kafka writes a vote there before it gives it.
        While the epoch lasts it never changes that, but forgets it when it knows who leads: always
        before 4.0, and where the node itself leads. Source: Kafka's QuorumState.
        """
        found = (one for one in self._votes(log) if _voted_otherwise(log, one.epoch, one.leader_id))
        return max(found, default=None)

    def _votes(self, log: LogView) -> "Iterator[Vote]":
        """The elections in which a voter had a part, by the logs at hand."""
        node = log.evidence.node_id
        if not self.is_voter(log.evidence):
            return
        for one in self.peers:
            for start in one.epoch_starts:
                elected = one.elections.get(start.epoch)
                if elected is not None and node in {elected.leader_id, *elected.granted}:
                    yield Vote(start.epoch, start.start_offset, one.label, elected.leader_id)

    def votes_for_others(self, epoch: int, leader: int) -> list[int]:
        """The voters at hand that voted in an epoch for another node than a leader."""
        return [
            voter
            for voter, copies in self.holders.items()
            if any(_voted_otherwise(one, epoch, leader) for one in copies)
        ]

    def end_is_proven(self, log: LogView) -> bool:
        """Whether nothing can ever have followed the last batch of a log."""
        return end_is_proven(log, self.snapshots_of(log.label), self._senders(log))

    def _senders(self, log: LogView) -> list[Sender]:
        """The voters' copies but a node's own; none where a voter was not copied."""
        if not self.holders.keys() >= set(self.voters):
            return []
        own = log.evidence.node_id
        held = (one for one in self.voter_logs if one.evidence.node_id != own)
        return [Sender(one, self.snapshots_of(one.label)) for one in held]

    def begins_empty(self, log: LogView) -> bool:
        """Whether a node has no log yet, and nothing is lost by that: it has no vote, or its quorum has
        not begun, and no voter is missing that may have.
        """
        is_new = not self.has_begun and not self.voting.missing
        return not log.evidence.segments and (self.is_voter(log.evidence) is False or is_new)


def _voted_otherwise(log: LogView, epoch: int, leader: int) -> bool:
    """Whether a node voted in an epoch for another node than a leader, by its quorum-state."""
    state = log.evidence.state_file
    return (
        state is not None
        and state.leader_epoch == epoch
        and state.voted_id >= 0
        and state.voted_id != leader
    )


class Vote(NamedTuple):
    """An election that a node won, or in which it granted its vote: where its epoch begins in the
    log of a copy.
    """

    epoch: int
    offset: int
    replica: str
    leader_id: int
