"""Where copies leave the history that their quorum goes on with: tails that were never committed, and
second histories.

In: the copies and who votes. Out: the third floor of `model.Quorum`: where each copy leaves, how far
it surely tells that history, and the history that they tell together. Source: KAFKA-1211, KIP-595.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kraftlog.quorum.at_hand import asked_again
from kraftlog.quorum.bounds import Fate, fate
from kraftlog.quorum.chain import Chain, chain
from kraftlog.quorum.divergence import (
    Comparison,
    DifferingRun,
    is_uncommitted_tail,
    replacing_epoch,
)
from kraftlog.quorum.electorate import Electorate
from kraftlog.quorum.ends import begins_newer, known_epoch, noted_vector
from kraftlog.quorum.epochs import truncation_offset, vector_of
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.snapshots import SnapshotView
from kraftlog.quorum.voters import log_voter_records


class Replacement(NamedTuple):
    """A log of `epoch` at `offset`, which the leader of a newer epoch did not hold there: that one
    began at `newer_start`, by the epoch checkpoint of `replica`.
    """

    offset: int
    epoch: int
    newer_epoch: int
    newer_start: int
    replica: str


class Forgotten(NamedTuple):
    """What a voter has lost: the tail of a replica from an offset on, without which it elected the
    leader of a newer epoch.
    """

    replica: str
    offset: int
    newer_epoch: int


@dataclass(frozen=True)
class Departures(Electorate):
    """The copies, who votes, and where copies leave the history."""

    def is_tail(self, comparison: Comparison, run: DifferingRun) -> bool:
        """Whether a run is a tail of the comparison's first log that Kafka's own truncation would
        cut, and that its own voters had not committed.
        """
        if not self._ends_in(comparison, run) or self._is_overruled(comparison, run):
            return False
        return self.fate(comparison, run) != Fate.COMMITTED

    def is_second_history(self, comparison: Comparison, run: DifferingRun) -> bool:
        """Whether a run of the comparison's first log is committed by its own voters, and what the
        other log holds there is committed, too, by others. Where no leader began the other one's epoch,
        a header is damaged.
        """
        if _begins_without_leader(comparison.other, run):
            return False
        if not self._ends_in(comparison, run):
            is_left = self._is_left_behind(comparison, run)
            return is_left or self._is_committed_apart(comparison, run)
        is_overruled = self._is_overruled(comparison, run)
        return not is_overruled and self.fate(comparison, run) == Fate.COMMITTED

    def _ends_in(self, comparison: Comparison, run: DifferingRun) -> bool:
        """Whether the comparison's first log ends in a run that a leader with the other one would cut."""
        one = comparison.one
        # A snapshot that ends behind a log is of what it was fetched from: a start drops the log.
        proven = self.own_snapshot_end(one.label, one.end_offset or 0)
        return is_uncommitted_tail(one, comparison.other, run, proven)

    def _is_overruled(self, comparison: Comparison, run: DifferingRun) -> bool:
        """Whether the other log says nothing against a run: a leader of a newer epoch than all of its
        had the run's first batch. What the other one holds there was lost.
        """
        return self._is_had_after(comparison.one, run.start, comparison.other.last_epoch or 0)

    def _is_had_after(self, log: LogView, offset: int, epoch: int) -> bool:
        """Whether a leader of a newer epoch had the batch of a log at an offset, by the copies."""
        return any((one.last_epoch or 0) > epoch for one in self.holding(log, offset))

    def _is_left_behind(self, comparison: Comparison, run: DifferingRun) -> bool:
        """The same where voters went on without what they had committed, as after older copies of
        their disks were put back: a snapshot of its own tells what the side of the older epoch had
        committed, and a majority tells the same of the other side, whatever followed; or no later
        leader had it, and that was before the other side's leader, or a snapshot tells the same.
        """
        one, other = comparison.one, comparison.other
        is_older = (one.last_epoch or 0) < (other.last_epoch or 0) or _begins_older(one, other, run)
        if run.equal_after or run.same_epoch_at is not None or not is_older:
            return False
        elected = (one.epoch_starts, other.epoch_starts)
        if not any(start.start_offset == run.start for starts in elected for start in starts):
            return False
        if not self._is_in_snapshot(one, run.start) and not _is_written_on(one, run.start):
            return False
        if self._own_majority(other, run.start) is not None and not self._is_cut(other, one, run):
            return True
        if self._is_overruled(comparison, run):
            return False
        return self._is_in_snapshot(other, run.start) or self._is_committed_before(comparison, run)

    def _is_cut(self, log: LogView, other: LogView, run: DifferingRun) -> bool:
        """Whether a log ends in what a leader with the other side's newest log would cut: then it is that
        one that is left behind.
        """
        held = [self.comparisons[log.label, one.label] for one in self.holding(other, run.start)]
        return any(self._ends_in(comparison, one) for comparison in held for one in comparison.runs)

    def _is_in_snapshot(self, log: LogView, offset: int) -> bool:
        """Whether a snapshot of the replica itself, of a state that its log leads up to, contains
        an offset.
        """
        return log.label in self._in_snapshots_of(log, offset)

    def _in_snapshots_of(self, log: LogView, offset: int) -> frozenset[str]:
        """The replicas with such a snapshot of a state that a log leads up to."""
        return frozenset(
            one.replica
            for one in self._voters_snapshots
            if one.is_complete and one.end_offset > offset and log.ends_with(*one.id)
        )

    def _is_committed_before(self, comparison: Comparison, run: DifferingRun) -> bool:
        """Whether a snapshot shows that a run was committed before the leader was elected whose log the
        other one is: its node had heard of no later epoch, or nobody can have led a later one.
        """
        epoch = comparison.other.last_epoch or 0
        held = self.holding(comparison.one, run.start)
        kept = {label for one in held for label in self._in_snapshots_of(one, run.start)}
        heard = [known_epoch(self.by_label[label]) for label in kept]
        is_told = any(one is not None and one <= epoch for one in heard)
        return is_told or (bool(heard) and not self._unseen_leader(comparison, run))

    def _unseen_leader(self, comparison: Comparison, run: DifferingRun) -> bool:
        """Whether voters may have elected a later leader than the one that replaced a run."""
        newer = replacing_epoch(comparison.one, comparison.other, run)
        return self.voting.unseen_leader(newer, comparison.other.label, run.start + 1)

    def _is_committed_apart(self, comparison: Comparison, run: DifferingRun) -> bool:
        """The same where the epochs do not tell which side is older, as when a quorum is formed
        anew and begins with epoch 1 again: two sets of voters, each with a majority that holds its
        side. The side of the older epoch, else of fewer voters or copies, is the second one; else a
        name decides that is the same for all copies of a side.
        """
        one, other = comparison.one, comparison.other
        mine = None if run.equal_after else self._own_majority(one, run.start)
        theirs = None if mine is None else self._own_majority(other, run.start)
        if mine is None or theirs is None or mine.voters == theirs.voters:
            return False
        return mine.rank < theirs.rank

    def _own_majority(self, log: LogView, offset: int) -> "_Majority | None":
        """The voters of the epoch that a log has at an offset, where most of them hold its batch;
        None where they do not, or no LeaderChange record names them.
        """
        epoch, voters = log.epoch_at(offset), self.named_at(log, offset)
        if voters is None:
            return None
        copies = self.holding(log, offset)
        holders = {self.node_ids[one.label] for one in copies} & voters
        if len(holders) <= len(voters) // 2:
            return None
        labels = frozenset(one.label for one in copies)
        return _Majority(epoch, voters, frozenset(holders), labels)

    def named_at(self, log: LogView, offset: int) -> frozenset[int] | None:
        """Who votes on what a log has at an offset: by the newest change of the voters in that epoch up
        to there, which counts as soon as it is written, else by the epoch's LeaderChange record; None
        where there is none.
        """
        epoch = log.epoch_at(offset)
        elected = log.elections.get(epoch)
        changes = (
            voters for at, of, voters in self._changes[log.label] if of == epoch and at <= offset
        )
        return None if elected is None else next(changes, elected.voters)

    @cached_property
    def _changes(self) -> dict[str, list[tuple[int, int, frozenset[int]]]]:
        """Each log's changes of the voters: (offset, epoch, who votes from there on), the newest first."""
        return {
            log.label: [
                (offset, epoch, frozenset(node for node, _ in members))
                for offset, epoch, _, members in log_voter_records(log)
            ][::-1]
            for log in self.logs
        }

    def fate(self, comparison: Comparison, run: DifferingRun) -> Fate:
        """Whether any of a tail of the comparison's first log can have been committed."""
        log, other = comparison.one, comparison.other
        newer = replacing_epoch(log, other, run)
        held = self.holding(log, run.start)
        # Whose epoch checkpoint has a newer epoch there has the log of another node.
        own = (one for one in held if not begins_newer(one, newer, run.start))
        holders = {node for one in own if (node := one.evidence.node_id) is not None}
        is_had = self._is_had_after(log, run.start, newer) or self._is_described_later
        later = is_had or self._unseen_leader(comparison, run)
        found = fate(self._voters_at(log, run.start), holders, self.granted(newer), later)
        if found == Fate.UNCOMMITTED and newer in self._elected_forgetting:
            found = Fate.UNKNOWN  # Where one of them has lost what it had, so may others have.
        is_told = run.start < self.committed_by_describe
        is_proven = any(_is_written_on(one, run.start) for one in held)
        is_proven = is_proven or self._is_committed_before(comparison, run)
        if is_proven or (is_told and log.label in self.vouched_for):
            return Fate.COMMITTED
        replaced = is_told and other.label in self.vouched_for
        return Fate.UNCOMMITTED if replaced and found == Fate.UNKNOWN else found

    @cached_property
    def _is_described_later(self) -> bool:
        """Whether a describe tells of a leader in a newer epoch than all logs: it may have had anything."""
        told = self.evidence.described
        return told is not None and (told.leader_epoch or 0) > self.newest_epoch

    def _who_forgot(self, log: LogView, offset: int, newer: int) -> frozenset[int]:
        """Who led while a log had its batch at an offset, or got the vote of a node that ended with it, so
        that they had it, too, and elected the leader of a newer epoch without it: they lost it.
        """
        epochs = log.epochs[log.index_at(offset) :]
        had = {self.leaders.get(epoch) for epoch in np.unique(epochs[epochs < newer]).tolist()}
        for one in self.holding(log, offset):
            state, next_epoch = one.evidence.state_file, (one.last_epoch or 0) + 1
            # A vote goes to a log that is as new, and no leader can have written between these two.
            if state is not None and state.leader_epoch == next_epoch <= newer:
                had.add(state.voted_id)
        return (self.granted(newer) or frozenset()) & had

    @cached_property
    def _elected_forgetting(self) -> frozenset[int]:
        """The epochs whose leaders somebody elected who had held a tail before."""
        ending = (
            (one.one, run.start, replacing_epoch(one.one, one.other, run))
            for one in self.differing
            for run in one.runs
            if self._ends_in(one, run)
        )
        return frozenset(newer for log, at, newer in ending if self._who_forgot(log, at, newer))

    def _voters_at(self, log: LogView, offset: int) -> frozenset[int] | None:
        """The same; else who votes now, None where nothing tells."""
        named = self.named_at(log, offset)
        return named or (frozenset(self.voters) if self.voter_set else None)

    # --- where copies leave -----------------------------------------------------------------------

    @cached_property
    def tail_starts(self) -> dict[str, int]:
        """For each replica with an uncommitted tail, the lowest offset at which one is seen, or from
        which on it is replaced. It may begin further below, which `confirmed_ends` tells.
        """
        return self._seen_tails | {label: one.offset for label, one in self.replaced.items()}

    @cached_property
    def _seen_tails(self) -> dict[str, int]:
        return self._starts(self.is_tail)

    @cached_property
    def replaced(self) -> dict[str, Replacement]:
        """The replicas whose logs go on in an older epoch where a newer one began, by the epoch
        checkpoint of a replica that has lost its batches from there on; no log at hand shows that.

        Kafka writes such an entry for a leader when it is elected, for a follower as it appends the
        first batch of the epoch. A leader holds all that was committed when it is elected, so that
        nothing of an older epoch behind that was (Raft's leader completeness).
        """
        noted = [(log, vector) for log in self.peers if (vector := noted_vector(log)) is not None]
        found: dict[str, Replacement] = {}
        for other, vector in noted:
            for log in self.peers:
                own = noted_vector(log) or vector_of(log)
                cut = truncation_offset(own, vector)
                end = self._seen_tails.get(log.label, log.end_offset or 0)
                is_older = own.last_epoch < vector.last_epoch
                if is_older and (other.end_offset or 0) <= cut < end:
                    epoch = own.epoch_at(cut)
                    begun = next(one for one in vector.entries if one[0] > epoch)
                    if self._may_be_replaced(log, cut, range(begun[0], vector.last_epoch + 1)):
                        one = Replacement(cut, epoch, *begun, other.label)
                        found[log.label] = min(one, found.get(log.label, one))
        return found

    def _may_be_replaced(self, log: LogView, offset: int, newer: range) -> bool:
        """Whether nothing shows that what a log holds from an offset on was committed before the first
        of some newer epochs, or that a leader of a later one than these had it.
        """
        index = log.index_at(offset)
        if index < 0 or int(log.base[index]) != offset or log.label in self.fork_starts:
            return False
        is_told = offset < self.committed_by_describe and log.label in self.vouched_for
        is_in_snapshot = any(
            one.is_complete and one.end_offset > offset and one.epoch < newer.start
            for one in self._voters_snapshots
        )
        voters = self._voters_at(log, offset) or frozenset()
        holders = {one.evidence.node_id for one in self.holding(log, offset)} & voters
        is_held = bool(voters) and len(holders) > len(voters) // 2
        is_had = self._is_had_after(log, offset, newer[-1])
        return not (is_told or is_in_snapshot or is_held or is_had)

    @cached_property
    def fork_starts(self) -> dict[str, int]:
        """For each replica with a second history, the offset at which it begins, or its log, where that
        holds a batch of one and begins behind where the histories part.
        """
        seen = self._starts(self.is_second_history)
        others = [log for log in self.peers if log.label not in seen]
        later = (one for log in others for one in self._holding_behind(log, seen))
        return seen | {one.one.label: one.common_start for one in later}

    def _holding_behind(self, log: LogView, starts: dict[str, int]) -> list[Comparison]:
        """A log beside each of some that leave the history where it does not reach down to, and of
        whose side it is, as it holds the same batch behind that.
        """
        found = [(self.comparisons[log.label, label], start) for label, start in starts.items()]
        return [one for one, start in found if one.begins_alike and one.common_start > start]

    def _starts(self, is_meant: Callable[[Comparison, DifferingRun], bool]) -> dict[str, int]:
        starts: dict[str, int] = {}
        for comparison in self.differing:
            for run in comparison.runs:
                if is_meant(comparison, run):
                    label = comparison.one.label
                    starts[label] = min(starts.get(label, run.start), run.start)
        return starts

    @cached_property
    def _tail_beginnings(self) -> list[tuple[Comparison, DifferingRun]]:
        """Each uncommitted tail where it begins, beside each log that contradicts it there."""
        return [
            (comparison, run)
            for comparison in self.differing
            for run in comparison.runs
            if run.start == self._seen_tails.get(comparison.one.label)
            and self.is_tail(comparison, run)
        ]

    @cached_property
    def forgetful(self) -> dict[int, Forgotten]:
        """The voters that held the tail of a log, and elected the leader without it."""
        found: dict[int, Forgotten] = {}
        for comparison, run in self._tail_beginnings:
            log, newer = comparison.one, replacing_epoch(comparison.one, comparison.other, run)
            for node in self._who_forgot(log, run.start, newer):
                found.setdefault(node, Forgotten(log.label, run.start, newer))
        return found

    @cached_property
    def confirmed_ends(self) -> dict[str, int]:
        """For each replica with an uncommitted tail, how far its log surely is the quorum's: to where
        the tail begins, or where that is out of sight, to where it is seen to agree with a log that
        goes on in a newer epoch, or with a snapshot. A tail that is nowhere seen counts, too, where
        another log goes on from its end.
        """
        found = dict(self.tail_starts)
        # What a newer log confirms goes no further than it is confirmed itself.
        for log in sorted(self.peers, key=self.ends_in_epoch, reverse=True):
            newer = self.newer_than(log)
            parted = [
                by
                for one in newer
                if (by := one.parts_by) is not None
                and (log.label in self.tail_starts or not one.shares_offsets)
            ]
            parted += [
                one.end_offset - 1 for one in self._voters_snapshots if self.outruns(one, log)
            ]
            if log.label not in self.tail_starts:
                parted += [one.common_start for one in self._holding_behind(log, self.tail_starts)]
            if parted:
                until = min([*parted, found.get(log.label, parted[0])])
                alike = [min(one.alike_until, found.get(one.other.label, until)) for one in newer]
                found[log.label] = min(until, max([*alike, self._in_snapshots(log, until)]))
        return found

    def outruns(self, snapshot: SnapshotView, log: LogView) -> bool:
        """Whether a snapshot can be of what the quorum went on with when a log was left behind, which
        has its last offset in another epoch: whole, of an epoch above all of that log's, of which
        its own node has heard, or beginning a log that goes on in such a one; and too few voters hold
        the log for the others to lack that epoch. Where its quorum-state was left out, its epoch
        checkpoint tells what it has heard of, and nothing speaks against it without both.
        """
        at, own, epoch = snapshot.end_offset - 1, self.by_label[snapshot.replica], snapshot.epoch
        goes_to = max(epoch, own.last_epoch or 0) if own.start_offset == at + 1 else epoch

        def is_left(one: LogView) -> bool:
            return (one.last_epoch or 0) < goes_to and one.epoch_at(at) not in (-1, epoch)

        if log is own or not is_left(log):
            return False
        is_whole = snapshot.is_complete and (snapshot.evidence.batches.epochs == epoch).all()
        lacking = {voter for voter, copies in self.holders.items() if any(map(is_left, copies))}
        is_able = 2 * len(lacking) < len(self.voters)
        heard = known_epoch(own)
        if heard is None:
            heard = max((noted for noted, _ in own.epoch_entries), default=epoch)
        return bool(is_whole) and is_able and heard >= epoch

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

    @cached_property
    def seen_ends(self) -> dict[str, int]:
        """How far each log is shown to be the quorum's: to its end, or where those that go on in newer
        epochs begin behind that, as far as one of them, a snapshot, or a majority of its own voters
        holds the same.
        """
        found: dict[str, int] = {}
        # What a newer log shows goes no further than it is shown itself.
        for log in sorted(self.peers, key=self.ends_in_epoch, reverse=True):
            newer, end = self.newer_than(log), log.end_offset or 0
            shown = [_shown_by(one, found[one.other.label]) for one in newer]
            if newer and not log.is_empty and max(shown) < end:
                held = [one.alike_until for one in self._of_voters(log)]
                voted = [at for at in held if at and self._own_majority(log, at - 1)]
                end = min(end, max([*shown, *voted, self._in_snapshots(log, end)]))
            found[log.label] = end
        return found

    def _of_voters(self, log: LogView) -> list[Comparison]:
        """A log beside each voter's."""
        others = (one for one in self.voter_logs if one is not log)
        return [self.comparisons[log.label, one.label] for one in others]

    def shown_end(self, log: LogView) -> int:
        """Up to where a log is known to be the quorum's history: to where it leaves that, or nothing
        shows any more that it does not.
        """
        end = self.confirmed(log.label, log.end_offset or 0)
        return min(end, self.seen_ends[log.label])

    def is_seen_to(self, log: LogView) -> bool:
        """Whether a log is shown to be the quorum's to its end, so that a tail would be seen."""
        return self.seen_ends[log.label] >= (log.end_offset or 0)

    # --- how far they count -----------------------------------------------------------------------

    @cached_property
    def departed(self) -> frozenset[str]:
        """The copies that are seen to leave the history that the quorum goes on with."""
        return frozenset({*self.tail_starts, *self.fork_starts})

    def leaves(self, label: str, end: int) -> int:
        """Where a copy is seen to leave the history that the quorum goes on with: where its
        uncommitted tail or its second history begins, else its end.
        """
        return min(end, self.tail_starts.get(label, end), self.fork_starts.get(label, end))

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
        voters = [{one.label for one in copies} for copies in self.holders.values()]
        return chain(self.peers, self.confirmed, voters, self.voting.majority)

    @asked_again
    def majority_at(self, offset: int) -> list[LogView] | None:
        """The copies that agree at an offset and decide what is held there; None where none do. Voters
        alone commit (`bounds`): with a majority of them, copies are right however many others there
        are. Else those are that are more than all others, which witness what was fetched; of equals
        those whose own logs do not show that the header there is damaged. One that has left the
        history before has no say, however often its tail was copied.
        """
        held = [
            [one for one in copies if offset < self.confirmed(one.label, one.end_offset or 0)]
            for copies in self.holding_at(offset).values()
        ]
        by_voters = next((one for one in held if self._are_most_voters(one)), None)
        if by_voters is not None:
            return by_voters
        return _more_than_all_others(held) or _more_than_all_others(
            [[one for one in copies if not one.odd_epochs[one.index_at(offset)]] for copies in held]
        )

    def _are_most_voters(self, logs: list[LogView]) -> bool:
        """Whether a majority of the voters is among some copies. Of two copies of one voter only one can
        be its own, so that it counts with both.
        """
        labels = {one.label for one in logs}
        own = ({one.label for one in copies} for copies in self.holders.values())
        return sum(one <= labels for one in own) >= self.voting.majority


def _more_than_all_others(held: list[list[LogView]]) -> list[LogView] | None:
    """Those of some groups of copies that are more than half of all; None where none are."""
    most = max(held, key=len, default=[])
    return most if 2 * len(most) > sum(map(len, held)) else None


class _Majority(NamedTuple):
    """The voters of an epoch, and those of them that hold a batch of it: more than half. `copies` are
    all that do.
    """

    epoch: int
    voters: frozenset[int]
    holders: frozenset[int | None]
    copies: frozenset[str]

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """What two such sides are compared by."""
        return self.epoch, len(self.holders), len(self.copies), min(self.copies)


def _begins_without_leader(log: LogView, run: DifferingRun) -> bool:
    """Whether the epoch that a log has where it differs surely begins there with no LeaderChange."""
    starts, row = log.epoch_starts, int(run.other_rows[0])
    offset = int(log.evidence.log.base_offsets[row])
    at = bisect_left(starts, offset, key=lambda one: one.start_offset)
    return 0 < at < len(starts) and starts[at].row == row and log.lacks_leader_change(starts[at])


def _begins_older(one: LogView, other: LogView, run: DifferingRun) -> bool:
    """Whether the batch with which a run begins is of an older epoch in the first log: it may have led
    on in newer ones before its voters went on without it.
    """
    at, beside = one.index_at(run.start), other.index_at(run.start)
    return at >= 0 and beside >= 0 and bool(one.epochs[at] < other.epochs[beside])


def _is_written_on(log: LogView, offset: int) -> bool:
    """Whether a leader wrote metadata in a log, having begun its epoch behind an offset: it does so
    only when all before its epoch is committed (see `model.Quorum.bounds`).
    """
    if not any(one.start_offset > offset for one in log.epoch_starts):
        return False
    begun = log.written_epoch(log.end_offset or 0)
    return begun is not None and begun.start_offset > offset


def _shown_by(comparison: Comparison, until: int) -> int:
    """How far a log that goes on in a newer epoch, and is the quorum's below an offset, shows that
    the comparison's first one is. Where it goes on in that one's epoch, one leader wrote both.
    """
    log, newer = comparison.one, comparison.other
    end = log.end_offset or 0
    behind = newer.epochs[(newer.base >= end) & (newer.base < until)]
    if (behind == log.last_epoch).any():
        return end
    return min(comparison.alike_until, until)
