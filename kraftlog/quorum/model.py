"""One quorum under audit: the evidence, and everything that several checks derive from it, each
thing once.

In: `QuorumEvidence`. Out: logs, snapshots, voters, roles, comparisons, committed bounds,
majorities. Nothing here is a judgement; the checks judge. Source: KIP-630 "Design", "Changes to
Leader Election", KAFKA-1211.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from kraftlog.log.names import LAST_OFFSET
from kraftlog.message.spec import ZERO_UUID
from kraftlog.plain import natural
from kraftlog.quorum import strays
from kraftlog.quorum import voters as voter_sources
from kraftlog.quorum.bounds import Bounds, CopyStanding, Fate, Voting, fate, interval
from kraftlog.quorum.chain import Chain, chain, runs, whole
from kraftlog.quorum.describe import refuted_at, told_ms, vouches_for
from kraftlog.quorum.divergence import (
    Comparison,
    Comparisons,
    DifferingRun,
    compare,
    is_uncommitted_tail,
    replacing_epoch,
)
from kraftlog.quorum.ends import (
    Sender,
    Witness,
    begins_newer,
    end_is_proven,
    known_epoch,
    witnesses,
)
from kraftlog.quorum.epochs import vector_of
from kraftlog.quorum.evidence import Longs, QuorumEvidence, ReplicaEvidence, SnapshotRefusal
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.snapshots import SnapshotView, by_replica
from kraftlog.quorum.thresholds import Thresholds
from kraftlog.quorum.voters import Members, VoterSet

MOST_IN_A_MS = 10_000
"""Records that a leader is taken to write within one millisecond: what one operation may write
(Kafka's QuorumController.MAX_RECORDS_PER_USER_OP)."""


@dataclass(frozen=True)
class Quorum:
    """What the checks see."""

    evidence: QuorumEvidence

    @property
    def thresholds(self) -> Thresholds:
        return self.evidence.thresholds

    @property
    def replicas(self) -> tuple[ReplicaEvidence, ...]:
        return self.evidence.replicas

    @cached_property
    def logs(self) -> tuple[LogView, ...]:
        """One view per replica, in the evidence's order."""
        return tuple(LogView(one, self.evidence.contents, self.replicas) for one in self.replicas)

    @cached_property
    def foreign(self) -> frozenset[str]:
        """Replicas of another cluster, by its name or by what they hold. They are checked by
        themselves and compared with nobody.
        """
        return self.otherwise_named | self.strays

    @cached_property
    def otherwise_named(self) -> frozenset[str]:
        """Replicas that name another cluster, where their logs share no batch with the others' (with
        one, somebody edited the file): Kafka itself keeps them apart.
        """
        if len(self.cluster_ids) < 2:
            return frozenset()
        usual = self.cluster_ids.most_common(1)[0][0]
        other = {
            one.label
            for one in self.replicas
            if (names := {name for name, _ in cluster_names(one)}) and usual not in names
        }
        own = [log for log in self.logs if log.label not in other]
        return frozenset(
            label
            for label in other
            if not any(strays.share(compare(self.by_label[label], one)) for one in own)
        )

    @cached_property
    def strays(self) -> frozenset[str]:
        """Replicas that name this cluster, and hold what is of another quorum: Kafka does not
        notice.
        """
        logs = [one for one in self.logs if one.label not in self.otherwise_named]
        held = [one for one in self.snapshots if one.replica not in self.otherwise_named]
        return strays.strays(logs, self._compared, held)

    @cached_property
    def peers(self) -> tuple[LogView, ...]:
        """The logs of this cluster."""
        return tuple(one for one in self.logs if one.label not in self.foreign)

    @cached_property
    def by_label(self) -> dict[str, LogView]:
        return {one.label: one for one in self.logs}

    @cached_property
    def every_snapshot(self) -> tuple[SnapshotView, ...]:
        """All checkpoint files, leftovers and bootstrap checkpoints included."""
        contents = self.evidence.contents
        return tuple(
            SnapshotView(one.label, file, contents)
            for one in self.replicas
            for file in one.snapshots
        )

    def files_of(self, label: str) -> list[SnapshotView]:
        """A replica's checkpoint files of all kinds."""
        return self._files_of.get(label, [])

    @cached_property
    def _files_of(self) -> dict[str, list[SnapshotView]]:
        return by_replica(self.every_snapshot)

    @cached_property
    def snapshots(self) -> tuple[SnapshotView, ...]:
        """The files that nodes read as snapshots of their logs."""
        return tuple(one for one in self.every_snapshot if one.is_live)

    @cached_property
    def own_snapshots(self) -> list[SnapshotView]:
        """The snapshots of this cluster's replicas."""
        return [one for one in self.snapshots if one.replica not in self.foreign]

    def directories_named(self, log: LogView) -> frozenset[str]:
        """The voters' directories by which a log is told from those of other quorums."""
        return strays.named(log, self.snapshots_of(log.label))

    @cached_property
    def stray_snapshots(self) -> dict[str, str]:
        """Why some of them are of another quorum, by their voters and by path."""
        return strays.stray_snapshots(self.peers, self.own_snapshots)

    @cached_property
    def _voters_snapshots(self) -> list[SnapshotView]:
        """The snapshots that tell who votes here."""
        return [one for one in self.own_snapshots if one.path not in self.stray_snapshots]

    @property
    def refusals(self) -> Mapping[str, SnapshotRefusal]:
        """The snapshots of which the history has shown that a node cannot load them, by path."""
        return {} if self.evidence.state is None else self.evidence.state.refusals

    def snapshots_of(self, label: str) -> list[SnapshotView]:
        """A replica's snapshots, by id."""
        return self._snapshots_of.get(label, [])

    @cached_property
    def _snapshots_of(self) -> dict[str, list[SnapshotView]]:
        return by_replica(sorted(self.snapshots, key=lambda each: each.id))

    @cached_property
    def snapshots_by_id(self) -> dict[tuple[int, int], list[SnapshotView]]:
        """The snapshots that have one id, of all replicas."""
        found: dict[tuple[int, int], list[SnapshotView]] = defaultdict(list)
        for one in self.snapshots:
            found[one.id].append(one)
        return dict(found)

    def named_twin(self, snapshot: SnapshotView) -> SnapshotView | None:
        """The file of the same id that lies beside a snapshot, and is named as Kafka names them; None
        where there is none, or the snapshot is that one.
        """
        if snapshot.is_named_as_shipped:
            return None
        beside = (one for one in self.snapshots_of(snapshot.replica) if one.id == snapshot.id)
        return next((one for one in beside if one.is_named_as_shipped), None)

    def own_snapshot_end(self, label: str, until: int = LAST_OFFSET) -> int:
        """The end of the furthest snapshot, of those up to an offset, that a replica holds whole."""
        ends = [one.end_offset for one in self.snapshots_of(label) if one.is_complete]
        return max((one for one in ends if one <= until), default=0)

    def _proven_by_snapshots(self, log: LogView) -> int:
        """Up to where snapshots of its replica show that a log is committed. One that ends behind
        the log is of what it was fetched from, and a start drops the log.
        """
        return self.own_snapshot_end(log.label, log.end_offset or 0)

    def witnesses(self, log: LogView) -> list[Witness]:
        """What the files beside a log witness beyond its end, the furthest first. Snapshots that the
        logs refuse are not of it.
        """
        return self._witnesses[log.label]

    @cached_property
    def _witnesses(self) -> dict[str, list[Witness]]:
        return {
            log.label: witnesses(
                log,
                [one for one in self.snapshots_of(log.label) if self.contradiction(one) is None],
                self._senders(log),
            )
            for log in self.logs
        }

    def end_is_proven(self, log: LogView) -> bool:
        """Whether nothing can ever have followed the last batch of a log."""
        return end_is_proven(log, self.snapshots_of(log.label), self._senders(log))

    def _senders(self, log: LogView) -> list[Sender]:
        """The voters' copies but a node's own; none where a voter was not copied."""
        if self.voter_set is None or not self.holders.keys() >= set(self.voter_set.ids):
            return []
        own = log.evidence.node_id
        held = (one for voter, copies in self.holders.items() if voter != own for one in copies)
        return [Sender(one, self.snapshots_of(one.label)) for one in held]

    # --- comparisons -----------------------------------------------------------------------------

    @cached_property
    def comparisons(self) -> Comparisons:
        """Every ordered pair of logs."""
        return self._compared.without(self.strays)

    @cached_property
    def _compared(self) -> Comparisons:
        """The same, with those whose content alone tells that they are of another quorum."""
        return Comparisons.of([one for one in self.logs if one.label not in self.otherwise_named])

    @cached_property
    def differing(self) -> list[Comparison]:
        """The ordered pairs that differ somewhere."""
        return self.comparisons.differing()

    def is_tail(self, comparison: Comparison, run: DifferingRun) -> bool:
        """Whether a run is a tail of the comparison's first log that Kafka's own truncation would
        cut, and that its own voters had not committed.
        """
        own_end = self._proven_by_snapshots(comparison.one)
        looks_so = is_uncommitted_tail(comparison.one, comparison.other, run, own_end)
        return looks_so and self.fate(comparison, run) != Fate.COMMITTED

    def is_second_history(self, comparison: Comparison, run: DifferingRun) -> bool:
        """Whether a run of the comparison's first log is committed by its own voters, and what the
        other log holds there is committed, too, by others.
        """
        own_end = self._proven_by_snapshots(comparison.one)
        if is_uncommitted_tail(comparison.one, comparison.other, run, own_end):
            return self.fate(comparison, run) == Fate.COMMITTED
        return self._is_committed_apart(comparison, run) or self._is_left_behind(comparison, run)

    def _is_left_behind(self, comparison: Comparison, run: DifferingRun) -> bool:
        """The same where voters went on without what they had committed, as after older copies of
        their disks were put back: a snapshot of its own tells what the side of the older epoch had
        committed, a majority or a snapshot what the other has.
        """
        one, other = comparison.one, comparison.other
        is_older = (one.last_epoch or 0) < (other.last_epoch or 0)
        if run.equal_after or run.same_epoch_at is not None or not is_older:
            return False
        elected = (one.epoch_starts, other.epoch_starts)
        if not any(start.start_offset == run.start for starts in elected for start in starts):
            return False
        goes_on = self._own_majority(other, run.start) or self._is_in_snapshot(other, run.start)
        return bool(goes_on) and self._is_in_snapshot(one, run.start)

    def _is_in_snapshot(self, log: LogView, offset: int) -> bool:
        """Whether a snapshot of the replica itself, of a state that its log leads up to, contains
        an offset.
        """
        return any(
            one.is_complete and one.end_offset > offset and log.ends_with(one.epoch, one.end_offset)
            for one in self.snapshots_of(log.label)
        )

    def _is_committed_apart(self, comparison: Comparison, run: DifferingRun) -> bool:
        """The same where the epochs do not tell which side is older, as when a quorum is formed
        anew and begins with epoch 1 again: two sets of voters, each with a majority that holds its
        side. The side of the older epoch, else of fewer copies, is the second one.
        """
        one, other = comparison.one, comparison.other
        mine, theirs = self._own_majority(one, run.start), self._own_majority(other, run.start)
        if run.equal_after or mine is None or theirs is None or mine.voters == theirs.voters:
            return False
        return (mine.epoch, len(mine.holders), one.label) < (
            theirs.epoch,
            len(theirs.holders),
            other.label,
        )

    def _own_majority(self, log: LogView, offset: int) -> "_Majority | None":
        """The voters of the epoch that a log has at an offset, where most of them hold its batch;
        None where they do not, or no LeaderChange record names them.
        """
        index = log.index_at(offset)
        elected = log.elections.get(int(log.epochs[index])) if index >= 0 else None
        if elected is None:
            return None
        holders = {one.evidence.node_id for one in self.holding(log, offset)} & elected.voters
        if len(holders) <= len(elected.voters) // 2:
            return None
        return _Majority(int(log.epochs[index]), elected.voters, frozenset(holders))

    def fate(self, comparison: Comparison, run: DifferingRun) -> Fate:
        """Whether any of a tail of the comparison's first log can have been committed."""
        log, other = comparison.one, comparison.other
        elected = log.elections.get(int(log.epochs[log.index_at(run.start)]))
        current = frozenset(self.voter_set.ids) if self.voter_set else None
        voters = elected.voters if elected is not None else current
        newer = replacing_epoch(log, other, run)
        unseen = self.voting.unseen_leader(newer, other.label, run.start + 1)
        held = self.holding(log, run.start)
        # Whose epoch checkpoint has a newer epoch there has the log of another node.
        own = (one for one in held if not begins_newer(one, newer, run.start))
        holders = {node for one in own if (node := one.evidence.node_id) is not None}
        later = unseen or any((one.last_epoch or 0) > newer for one in held)
        found = fate(voters, holders, self.granted(newer), later)
        is_told = run.start < self.committed_by_describe
        if is_told and log.label in self.vouched_for:
            return Fate.COMMITTED
        replaced = is_told and other.label in self.vouched_for
        return Fate.UNCOMMITTED if replaced and found == Fate.UNKNOWN else found

    def granted(self, epoch: int) -> frozenset[int] | None:
        """Who elected the leader of an epoch, by a LeaderChange record at hand."""
        found = (one.elections.get(epoch) for one in self.peers)
        return next((one.granted for one in found if one is not None), None)

    def holding(self, log: LogView, offset: int) -> list[LogView]:
        """The copies that hold the same batch at an offset as a log does, itself included."""
        ids = log.evidence.log.ids
        key = ids[log.rows[log.index_at(offset)]].tobytes()
        return self.holding_at(offset).get(key, [])

    @cached_property
    def tail_starts(self) -> dict[str, int]:
        """For each replica with an uncommitted tail, the lowest offset at which one is seen. It may
        begin further below, which `confirmed_ends` tells.
        """
        return self._starts(self.is_tail)

    @cached_property
    def confirmed_ends(self) -> dict[str, int]:
        """For each replica with an uncommitted tail, how far its log surely is the quorum's: to where
        the tail begins, or where that is out of sight, to where it is seen to agree with a log that
        goes on in a newer epoch, or with a snapshot. A tail that is nowhere seen counts, too, where
        another log goes on from its end.
        """
        found = dict(self.tail_starts)
        # What a newer log confirms goes no further than it is confirmed itself.
        for log in sorted(self.peers, key=lambda one: one.last_epoch or 0, reverse=True):
            newer = self.newer_than(log)
            parted = [
                by
                for one in newer
                if (by := one.parts_by) is not None
                and (log.label in self.tail_starts or not one.shares_offsets)
            ]
            if parted:
                until = min([*parted, found.get(log.label, parted[0])])
                alike = [min(one.alike_until, found.get(one.other.label, until)) for one in newer]
                found[log.label] = min(until, max([*alike, self._in_snapshots(log, until)]))
        return found

    def newer_than(self, log: LogView) -> list[Comparison]:
        """A log beside each one that goes on in a newer epoch."""
        epoch = log.last_epoch or 0
        others = (one.label for one in self.peers if (one.last_epoch or 0) > epoch)
        return [self.comparisons[log.label, other] for other in others]

    def _in_snapshots(self, log: LogView, end: int) -> int:
        """Up to where snapshots hold what a log leads up to, below an offset."""
        epochs, ends = self._whole_ids
        held = log.indexes_at(ends - 1)
        led_to = held >= 0
        led_to[led_to] = (log.epochs[held[led_to]] == epochs[led_to]) & (
            log.last[held[led_to]] == ends[led_to] - 1
        )
        return int(ends[led_to & (ends <= end)].max(initial=0))

    @cached_property
    def _whole_ids(self) -> tuple[Longs, Longs]:
        """The epochs and ends of the snapshots that tell who votes here, and are complete."""
        ids = sorted({one.id for one in self._voters_snapshots if one.is_complete})
        epochs, ends = np.array(ids, np.int64).reshape(-1, 2).T
        return epochs, ends

    def is_seen_to(self, log: LogView) -> bool:
        """Whether what goes on in a newer epoch shows a log's end, so that a tail would be seen."""
        newer, end = self.newer_than(log), log.end_offset or 0
        is_alike = not newer or any(one.alike_until >= end for one in newer)
        return is_alike or self._in_snapshots(log, end) >= end

    @cached_property
    def never_committed(self) -> frozenset[str]:
        """The replicas of whose uncommitted tail it is proven that none of it was committed."""
        return frozenset(
            comparison.one.label
            for comparison in self.differing
            for run in comparison.runs
            if self.is_tail(comparison, run) and self.fate(comparison, run) == Fate.UNCOMMITTED
        )

    @cached_property
    def fork_starts(self) -> dict[str, int]:
        """For each replica with a second history, the offset at which it begins."""
        return self._starts(self.is_second_history)

    def _starts(self, is_meant: Callable[[Comparison, DifferingRun], bool]) -> dict[str, int]:
        starts: dict[str, int] = {}
        for comparison in self.differing:
            for run in comparison.runs:
                if is_meant(comparison, run):
                    label = comparison.one.label
                    starts[label] = min(starts.get(label, run.start), run.start)
        return starts

    def leaves(self, label: str, end: int) -> int:
        """Where a copy is seen to leave the history that the quorum goes on with: where its
        uncommitted tail or its second history begins, else its end.
        """
        return min(end, *(one.get(label, end) for one in (self.tail_starts, self.fork_starts)))

    def confirmed(self, label: str, end: int) -> int:
        """How far a copy surely tells that history: the same, or less where it leaves it out of
        sight.
        """
        return min(self.leaves(label, end), self.confirmed_ends.get(label, end))

    def tail_hides(self, label: str) -> bool:
        """Whether an uncommitted tail begins below where it is seen, or may do so."""
        start = self.tail_starts.get(label, 0)
        return self.confirmed_ends.get(label, start) < start

    def speaks_until(self, log: LogView, replica: str) -> int:
        """How far a log tells what a replica's snapshots have to agree with: to where its tail is
        seen to begin, or where the replica's own log shares nothing with it, as far as it is
        confirmed.
        """
        end = log.end_offset or 0
        if log.label not in self.confirmed_ends:
            return end
        is_shared = self.surely_agree(self.by_label[replica], log) > 0
        known = self.tail_starts if is_shared else self.confirmed_ends
        return known.get(log.label, end)

    @cached_property
    def chain(self) -> Chain:
        """The history that the copies hold together."""
        return chain(self.peers, self.confirmed)

    def surely_agree(self, one: LogView, other: LogView) -> int:
        """How far two logs were seen to agree, up to what either of them misses; 0 where no batch
        is seen in both, and where they are of two clusters.
        """
        holes = [hole.start for log in (one, other) for hole in log.holes[:1]]
        if one is other:
            return min([one.end_offset or 0, *holes])
        pair = self.comparisons.get((one.label, other.label))
        if pair is None or pair.common_end is None or not pair.begins_alike:
            return 0
        return min([pair.common_end, *holes])

    def covers(self, start: int, end: int) -> bool:
        """Whether the log of some copy holds every offset of [start, end)."""
        starts, reached = self._stretches
        before = bisect_right(starts, start)
        return before > 0 and reached[before - 1] >= end

    @cached_property
    def epochs_begin(self) -> dict[int, dict[int, list[tuple[int, str]]]]:
        """Where each epoch begins for certain, and the copies that tell it: their places, and labels."""
        found: dict[int, dict[int, list[tuple[int, str]]]] = {}
        for at, log in enumerate(self.peers):
            for one in log.epoch_starts:
                if one.certain:
                    begins = found.setdefault(one.epoch, {})
                    begins.setdefault(one.start_offset, []).append((at, log.label))
        return found

    @cached_property
    def _stretches(self) -> tuple[list[int], list[int]]:
        """Where what a log holds without a gap begins, of all logs in order, and how far any of those
        up to there reaches.
        """
        held = sorted(run for log in self.peers for run in runs(whole(log)))
        return [start for start, _ in held], list(accumulate((end for _, end in held), max))

    # --- voters and roles ------------------------------------------------------------------------

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
        epochs = [log.last_epoch or 0 for log in self.peers]
        if told is None or self.voter_set is None or told.seen[0] < max(epochs, default=0):
            return None
        records = voter_sources.every_recorded(self.peers, self._voters_snapshots)
        known = {self.voter_set.ids, *(tuple(sorted({one for one, _ in set_})) for set_ in records)}
        return None if told.ids in known else told

    @cached_property
    def controller_ids(self) -> frozenset[int]:
        """The nodes that are voters, or once were: controllers, whatever they are now."""
        logs = (one for log in self.peers for *_, one in voter_sources.log_voter_records(log))
        snapshots = (one.voters for one in self._voters_snapshots if one.voters)
        ids = {node for members in (*logs, *snapshots) for node, _ in members}
        return frozenset(ids.union(self.voter_set.ids if self.voter_set else ()))

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
        return self.is_among(self.voter_set.members, replica)

    @staticmethod
    def is_among(members: Members, replica: ReplicaEvidence) -> bool:
        """Whether a set of voters names a copy's node with its disk."""
        return voter_sources.is_named(members, replica.node_id, replica.directory_id)

    def unnamed_disk(self, replica: ReplicaEvidence) -> str | None:
        """The directory that the voter set names for a voter whose meta.properties names none: a
        start makes up another one (Kafka's KafkaRaftServer), with which the node does not vote.
        """
        says = replica.meta("directory.id") is not None
        if says or self.voter_set is None or not self.is_voter(replica):
            return None
        named = dict(self.voter_set.members)[replica.node_id or 0]
        return None if named == ZERO_UUID else named

    def is_voter_by_id(self, replica: ReplicaEvidence) -> bool:
        """Whether the voter set names the node, be it with another disk."""
        return self.voter_set is not None and replica.node_id in self.voter_set.ids

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
    def electorates(self) -> dict[str, Members]:
        """The voters among whom each copy's node stands for election: by the newest record of its
        own, committed or not (KIP-853, Kafka's QuorumState), else those that count now.
        """
        own = voter_sources.by_records(self.peers, self.own_snapshots)
        named = {one.replica: one.members for one in own}
        usual = self.voter_set.members if self.voter_set else ()
        return {log.label: named.get(log.label, usual) for log in self.peers}

    @cached_property
    def electors(self) -> tuple[LogView, ...]:
        """The copies whose nodes vote for somebody at hand, the voters that count now first."""
        sets = set(self.electorates.values())
        held = [log for logs in self.holders.values() for log in logs]
        labels = {log.label for log in held}
        others = [
            log
            for log in self.peers
            if log.label not in labels
            and not log.evidence.is_pulled
            and any(self.is_among(one, log.evidence) for one in sets)
        ]
        return (*held, *others)

    @cached_property
    def moved_voters(self) -> list[int]:
        """The voters not at hand whose nodes are, with a directory that the voter set does not
        name.
        """
        nodes = {log.evidence.node_id for log in self.peers if log.evidence.directory_id}
        return [one for one in self.voting.missing if one in nodes]

    def begins_empty(self, log: LogView) -> bool:
        """Whether a node has no log yet, and nothing is lost by that: it has no vote, or its quorum has
        not begun, and no voter is missing that may have.
        """
        is_new = not self.has_begun and not self.voting.missing
        return not log.evidence.segments and (self.is_voter(log.evidence) is False or is_new)

    @property
    def lacks_majority(self) -> bool:
        """Whether so many voters have moved that no leader can be elected, and none was asked."""
        if self.pulled is not None or self.voter_set is None:
            return False
        return len(self.voter_set.ids) - len(self.moved_voters) < self.bounds.majority

    # --- committed bounds ------------------------------------------------------------------------

    @cached_property
    def newest_log(self) -> LogView | None:
        """The copy with the newest epoch, and the furthest in it."""
        logs = [one for one in self.peers if not one.is_empty]
        return max(logs, key=lambda one: one.newness, default=None)

    @cached_property
    def has_begun(self) -> bool:
        """Whether any copy holds something of the log, or may do so: of nodes that were formatted, and
        have not started yet, none does.
        """
        return any(not one.is_empty or one.evidence.segments for one in self.peers) or any(
            one.end_offset for one in self.own_snapshots
        )

    @cached_property
    def leaders(self) -> dict[int, int]:
        """Who leads each epoch, by LeaderChange records, and where these were pruned or are not
        written yet by `quorum-state`.
        """
        states = (log.evidence.state_file for log in self.peers)
        told = {one.leader_epoch: one.leader_id for one in states if one and one.leader_id >= 0}
        return told | {epoch: one for log in self.peers for epoch, one in log.leaders.items()}

    @cached_property
    def leading_log(self) -> LogView | None:
        """The copy of who leads the newest epoch that a log holds, the furthest where there are
        several; the newest log where there is none, or nothing at hand says who leads.
        """
        newest = self.newest_log
        if newest is None:
            return None
        leader, epoch = self.leaders.get(newest.last_epoch or 0), newest.last_epoch
        logs = [one for one in self.peers if one.last_epoch == epoch]
        held = [one for one in logs if leader is not None and one.evidence.node_id == leader]
        return max(held, key=lambda one: one.end_offset or 0, default=newest)

    def contradiction(self, snapshot: SnapshotView) -> str | None:
        """Why the logs, or its own batches, refuse a snapshot's id; None where they do not."""
        return self._contradictions[snapshot.path]

    @cached_property
    def _contradictions(self) -> dict[str, str | None]:
        """The same of all snapshots, by path."""
        return {one.path: self._contradicts(one) for one in self.every_snapshot}

    @cached_property
    def told_otherwise(self) -> frozenset[str]:
        """The snapshots whose ids some log tells otherwise, by path: it has another epoch there, no end
        of a batch, or began a newer epoch before. That log may have left the history there.
        """
        return self._beside_logs[0]

    @cached_property
    def _beside_logs(self) -> tuple[frozenset[str], frozenset[str]]:
        """The same, and the snapshots whose last offset a log holds that leaves the history nowhere."""
        found = [
            one
            for one in self.every_snapshot
            if one.end_offset > 0 and one.replica not in self.foreign
        ]
        epochs, ends = np.array([one.id for one in found], np.int64).reshape(-1, 2).T
        otherwise, held = np.zeros(len(found), np.bool_), np.zeros(len(found), np.bool_)
        for log in self.peers:
            if log.is_empty:
                continue
            index = log.indexes_at(ends - 1)
            is_at = index >= 0
            otherwise |= is_at & ((log.epochs[index] != epochs) | (log.last[index] != ends - 1))
            starts = log.epoch_starts
            next_at = np.searchsorted([one.epoch for one in starts], epochs, "right")
            begins = np.array([*(one.start_offset for one in starts), LAST_OFFSET], np.int64)
            otherwise |= begins[next_at] < ends
            if log.label not in self.confirmed_ends and log.label not in self.fork_starts:
                held |= is_at
        paths = np.array([one.path for one in found], object)
        return frozenset(paths[otherwise]), frozenset(paths[held])

    def _contradicts(self, snapshot: SnapshotView) -> str | None:
        otherwise, held = self._beside_logs
        is_alike = snapshot.path in held and snapshot.path not in otherwise
        if is_alike or not snapshot.end_offset:
            return None
        end, epoch = snapshot.end_offset, snapshot.epoch
        stamp, is_held = snapshot.last_contained_timestamp, False
        logs = [one for one in self.peers if not one.is_empty]
        for log in logs if end > 0 and snapshot.replica not in self.foreign else ():
            index = log.index_at(end - 1)
            goes_to = self.speaks_until(log, snapshot.replica)
            goes_to = min(goes_to, self.fork_starts.get(log.label, goes_to))
            if index >= 0 and end <= goes_to:
                is_held = True
                if int(log.epochs[index]) != epoch:
                    return f"offset {end - 1} of {log.label} is of epoch {int(log.epochs[index])}"
                if int(log.last[index]) != end - 1:
                    return f"offset {end} of {log.label} lies inside a batch"
            newer = next((one for one in log.epoch_starts if one.epoch > epoch), None)
            if newer is not None and newer.start_offset < min(end, goes_to):
                return f"a newer epoch than {epoch} begins at offset {newer.start_offset} of {log.label}"
        if (own := snapshot.epoch_of_batches) is not None:
            return f"its batches are of epoch {own}, not of epoch {epoch}"
        # Clocks go back: where a log holds its last offset, times say nothing against it.
        return None if is_held or stamp is None else self._belied_by_times(logs, end, epoch, stamp)

    def _belied_by_times(self, logs: list[LogView], end: int, epoch: int, stamp: int) -> str | None:
        """Why a snapshot with this last time cannot end behind the logs; None where it can."""
        for log in logs:
            reached = log.end_offset or 0
            if end <= reached or log.last_epoch != epoch:
                continue
            times = log.evidence.log.max_timestamps
            oldest, newest = int(times[log.rows[0]]), int(times[log.rows[-1]])
            ends = f"the log of {log.label} ends at {reached}, before {end}, with a batch"
            if newest > stamp:
                return f"{ends} that is {newest - stamp} ms newer than all that it holds"
            # Where a clock stands still, all records are of one millisecond.
            if oldest < newest == stamp and end - reached > MOST_IN_A_MS:
                return f"{ends} of the same millisecond as the last record that it holds, and no leader writes the {end - reached:,} records between in one"
        return None

    @cached_property
    def credible_snapshots(self) -> list[SnapshotView]:
        """Complete snapshots of this quorum whose ids nothing contradicts."""
        return [one for one in self.own_snapshots if self.why_no_base(one) is None]

    def why_no_base(self, snapshot: SnapshotView) -> str | None:
        """Why a replay cannot begin with a snapshot; None where it can."""
        why = snapshot.why_incomplete
        if why is not None or snapshot.replica in self.foreign:
            return why
        if (twin := self.named_twin(snapshot)) is not None:
            return f"Kafka loads {twin.evidence.name} beside it"
        return self.stray_snapshots.get(snapshot.path) or self.contradiction(snapshot)

    @cached_property
    def voting(self) -> Voting:
        """The copies as they stand in an election, and how far each pair of them agrees."""
        members = self.voter_set.ids if self.voter_set else ()
        standings = [self._standing(log) for log in self.peers]
        return Voting(members, standings, self._agree)

    def later_vote(self, log: LogView) -> "LaterVote | None":
        """The newest election above all that a voter's copy has heard of in which the node had a
        part, by the log of another copy; None where there is none.
        """
        is_unread = any(one.problem for one in log.evidence.segments)
        if not self.is_voter(log.evidence) or (is_unread and known_epoch(log) is None):
            return None
        node, known = log.evidence.node_id, known_epoch(log) or log.last_epoch or 0
        found = [
            LaterVote(start.epoch, start.start_offset, one.label)
            for one in self.peers
            for start in one.epoch_starts
            if start.epoch > known
            and (elected := one.elections.get(start.epoch)) is not None
            and node in {elected.leader_id, *elected.granted}
        ]
        return max(found, default=None)

    def _agree(self, one: str, other: str) -> int:
        return self.surely_agree(self.by_label[one], self.by_label[other])

    def _standing(self, log: LogView) -> CopyStanding:
        voter = log.evidence.node_id if self.is_voter(log.evidence) else None
        proven = self.end_is_proven(log) and not self.later_vote(log)
        known, snapshot_end = known_epoch(log), self.own_snapshot_end(log.label)
        return CopyStanding(log.label, voter, vector_of(log), known, proven, snapshot_end)

    @cached_property
    def bounds(self) -> Bounds:
        """The committed interval of the quorum. A snapshot that the logs contradict shows nothing,
        neither of what is committed nor of how far its replica reaches.
        """
        proofs, ends = dict(self._proven_changes()), dict.fromkeys(self.by_label, 0)
        for one in self.credible_snapshots:
            # A snapshot is only ever made of what is committed.
            why = f"the complete snapshot {one.evidence.name} of {one.replica} ends there"
            proofs[why] = one.end_offset
            ends[one.replica] = max(ends[one.replica], one.end_offset)
        standings = [replace(one, snapshot_end=ends[one.label]) for one in self.voting.standings]
        # A pulled copy is of the moment of its describe; a saved describe may be long past.
        is_of_now = not (self.voting.missing or self.describe_is_outdated)
        is_told_all = self.pulled is not None or is_of_now
        ends_at = max((log.end_offset or 0 for log in self.peers), default=0)
        furthest = ends_at if is_told_all else None
        watermark = None if self.describe_is_refuted else self.committed_by_describe or None
        voting = replace(self.voting, standings=standings)
        found = interval(voting, proofs, watermark, furthest, self._earlier(voting))
        if self.unexplained_voters is None:
            return found
        why = "kafka-metadata-quorum describe names other voters than the copies do"
        return replace(found, upper=None, upper_reason=why)

    def _proven_changes(self) -> Iterator[tuple[str, int]]:
        """The changes of voters that were committed before the next one was made, by why that is
        known. Source: Kafka's AddVoterHandler, RemoveVoterHandler and UpdateVoterHandler. Only what
        a new leader itself writes, with its first batch, waits for nothing.
        """
        for log in self.peers:
            openings = {one.row for one in log.epoch_starts}
            goes_to = self.leaves(log.label, log.end_offset or 0)
            for (offset, *_), (later, _, row, _) in pairwise(voter_sources.log_voter_records(log)):
                if row not in openings and later < goes_to:
                    why = f"replica {log.label} holds the next change of voters at offset {later}, which a leader makes only when the one before is committed"
                    yield why, offset + 1

    def _earlier(self, voting: Voting) -> list[tuple[int, Voting]]:
        """The same copies among the voters before each change that KRaftVoters records tell."""
        if self.recorded_voters is None:
            return []
        log = self.by_label[self.recorded_voters.replica]
        replaced = voter_sources.replaced_sets(log, self._voters_snapshots)
        return [(offset, self._among(members, voting)) for offset, members in replaced]

    def _among(self, members: Members, voting: Voting) -> Voting:
        """The same copies among other voters."""
        seats = {
            one.label: one.evidence.node_id
            for one in self.peers
            if self.is_among(members, one.evidence)
        }
        standings = [replace(one, voter=seats.get(one.label)) for one in voting.standings]
        ids = tuple(sorted({voter for voter, _ in members}))
        return replace(voting, voters=ids, standings=standings)

    @cached_property
    def pulled(self) -> LogView | None:
        """A log that was pulled from the running leader, and that holds all that was committed by
        the describe that came with it.
        """
        mark = self.committed_by_describe
        whole = (
            log
            for log in self.peers
            if log.evidence.is_pulled and not log.holes and (log.end_offset or 0) >= mark
        )
        return next((log for log in whole if log.label in self.vouched_for), None)

    @property
    def describe_is_outdated(self) -> bool:
        """Whether copies go on after a describe, in a newer epoch or for longer than copying takes."""
        described, newest = self.evidence.described, self.newest_log
        if described is None or newest is None:
            return False
        epoch, told = described.leader_epoch, told_ms(described)
        if epoch is not None and (newest.last_epoch or 0) > epoch:
            return True
        return told is not None and (newest.newest_ms or 0) > told + self.thresholds.copy_skew_ms

    @property
    def committed_by_describe(self) -> int:
        """The high watermark of a describe; 0 without one."""
        described = self.evidence.described
        return (described.high_watermark or 0) if described is not None else 0

    @cached_property
    def vouched_for(self) -> frozenset[str]:
        """The copies that hold what a describe tells to be committed, or a beginning of it."""
        described = self.evidence.described
        if described is None:
            return frozenset()
        return frozenset(log.label for log in self.peers if vouches_for(described, log))

    @cached_property
    def refuted(self) -> dict[str, int]:
        """The copies that hold something else below a describe's high watermark, and from where on
        they do for certain.
        """
        described = self.evidence.described
        if described is None:
            return {}
        found = {log.label: refuted_at(described, log) for log in self.peers}
        return {label: at for label, at in found.items() if at is not None}

    @property
    def describe_is_refuted(self) -> bool:
        """Whether copies hold something else than a describe tells, and none holds that: it is of a
        moment, or of a history, of which nothing is at hand.
        """
        return bool(self.refuted) and not self.vouched_for

    def committed_below(self, label: str) -> int:
        """Below which offset what a copy holds is committed, where no other contradicts it."""
        return self.bounds.lower if label in self.vouched_for else self.bounds.shown

    # --- majorities ------------------------------------------------------------------------------

    def holding_at(self, offset: int) -> dict[bytes, list[LogView]]:
        """The copies that hold an offset, by the bytes of their batch there."""
        groups: dict[bytes, list[LogView]] = {}
        for log in self.peers:
            index = log.index_at(offset)
            if index >= 0:
                key = log.evidence.log.ids[log.rows[index]].tobytes()
                groups.setdefault(key, []).append(log)
        return groups

    def majority_at(self, offset: int) -> list[LogView] | None:
        """The copies that agree at an offset and are more than all others; None where nobody is. One
        that has left the history before has no say, however often its tail was copied.
        """
        held = [
            [one for one in copies if offset < self.confirmed(one.label, one.end_offset or 0)]
            for copies in self.holding_at(offset).values()
        ]
        most = max(held, key=len, default=[])
        return most if 2 * len(most) > sum(map(len, held)) else None

    @cached_property
    def copies_of(self) -> Counter[int | None]:
        """How many copies are of each node."""
        return Counter(one.node_id for one in self.replicas)

    def node_id(self, label: str | None) -> int | None:
        """node.id of a replica."""
        found = self.by_label.get(label) if label is not None else None
        return None if found is None else found.evidence.node_id

    @cached_property
    def cluster_ids(self) -> Counter[str]:
        """How many replicas name each cluster; of equals that of the first label comes first,
        however the input was named.
        """
        named = sorted(self.replicas, key=lambda one: natural(one.label))
        return Counter(name for one in named for name in dict(cluster_names(one)))


class LaterVote(NamedTuple):
    """An election of which a voter's copy knows nothing, though the node led or granted its vote:
    where its epoch begins in the log of another copy.
    """

    epoch: int
    offset: int
    replica: str


class _Majority(NamedTuple):
    """The voters of an epoch, and those of them that hold a batch of it: more than half."""

    epoch: int
    voters: frozenset[int]
    holders: frozenset[int | None]


def cluster_names(replica: ReplicaEvidence) -> list[tuple[str, str]]:
    """(cluster id, path of the file that names it) of one replica."""
    found = []
    name = replica.meta("cluster.id")
    if name and replica.meta_properties is not None:
        found.append((name, replica.meta_properties.path))
    state = replica.state_file
    if state is not None and state.cluster_id and replica.quorum_state is not None:
        found.append((state.cluster_id, replica.quorum_state.path))
    return found
