"""One quorum under audit: the evidence, and everything that several checks derive from it, each
thing once, floor by floor: what lies at hand (`at_hand`), who votes (`electorate`), where copies
leave (`departures`), and here what can be believed of snapshots and what is committed.

In: `QuorumEvidence`. Out: `Quorum`, which all above this room sees. Nothing here is a judgement; the
checks judge. Source: KIP-630 "Design", "Changes to Leader Election", KAFKA-1211.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kraftlog.log.names import LAST_OFFSET
from kraftlog.quorum import voters as voter_sources
from kraftlog.quorum.bounds import Bounds, Fate, Voting, interval
from kraftlog.quorum.departures import Departures
from kraftlog.quorum.divergence import Comparison, DifferingRun, replacing_epoch
from kraftlog.quorum.ends import Witness, witnesses
from kraftlog.quorum.logview import EpochStart, LogView, Transaction
from kraftlog.quorum.snapshots import BEFORE_EPOCHS, SnapshotView

MOST_IN_A_MS = 10_000
"""Records that a leader is taken to write within one millisecond: what one operation may write
(Kafka's QuorumController.MAX_RECORDS_PER_USER_OP)."""


WAITS_LEVEL = 12
"""metadata.version 3.6-IV0: from Kafka 3.6 on a controller writes only when the first record of its
epoch is committed (KAFKA-15345), before when all before that was. Up to 3.5 none knows that level.
"""


class _Proof(NamedTuple):
    """Why everything below an end is committed in the history of a replica, by its own records."""

    replica: str
    why: str
    end: int


class CutOff(NamedTuple):
    """A snapshot of a history that was cut, as it seems, and a log that goes on without it in a newer
    epoch, from `start` on where that `is_seen`, else from there or below.
    """

    snapshot: SnapshotView
    log: LogView
    start: int
    is_seen: bool


def _goes_by(log: LogView, snapshot: SnapshotView) -> bool:
    """Whether an empty log goes by the epoch of a snapshot, as its epoch checkpoint tells."""
    return log.is_empty and (snapshot.epoch, snapshot.end_offset) in log.epoch_entries


@dataclass(frozen=True)
class Quorum(Departures):
    """What the checks see."""

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
        of a batch, an open transaction, began a newer epoch before, or begins with what cannot
        follow. That log may have left the history there.
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
            if (before := log.epochs_before) is not None:
                is_border, is_below = ends == log.base[0], ends <= log.base[0]
                otherwise |= (is_border & (epochs < before.start)) | (
                    is_below & (epochs >= before.stop)
                )
            in_open = (log.transaction_at(end) is not None for end in ends.tolist())
            otherwise |= np.fromiter(in_open, np.bool_, len(ends))
            if log.label not in self.confirmed_ends and log.label not in self.fork_starts:
                held |= is_at
        paths = np.array([one.path for one in found], object)
        return frozenset(paths[otherwise]), frozenset(paths[held])

    def _contradicts(self, snapshot: SnapshotView) -> str | None:
        otherwise, held = self._beside_logs
        is_alike = snapshot.path in held and snapshot.path not in otherwise
        if is_alike or not snapshot.end_offset:
            return BEFORE_EPOCHS if snapshot.precedes_epochs else None
        end, epoch = snapshot.end_offset, snapshot.epoch
        stamp, is_held = snapshot.last_contained_timestamp, False
        logs = [one for one in self.peers if not one.is_empty]
        for log in logs if end > 0 and snapshot.replica not in self.foreign else ():
            index, goes_to = log.index_at(end - 1), self._speaks_to(log, snapshot)
            if index >= 0 and end <= goes_to:
                is_held = True
                if int(log.epochs[index]) != epoch:
                    return f"offset {end - 1} of {log.label} is of epoch {int(log.epochs[index])}"
                if int(log.last[index]) != end - 1:
                    return f"offset {end} of {log.label} lies inside a batch"
            newer = self._newer_below(log, snapshot)
            if newer is not None:
                return f"a newer epoch than {epoch} begins at offset {newer.start_offset} of {log.label}"
        if (inside := self.open_transaction(snapshot)) is not None:
            return f"offset {end} of {inside[0].label} lies inside {inside[1].words}"
        if (begins := self.start_against(snapshot)) is not None:
            return begins[1]
        if (own := snapshot.epoch_of_batches) is not None:
            return f"its batches are of epoch {own}, not of epoch {epoch}"
        # Clocks go back: where a log holds its last offset, times say nothing against it.
        return None if is_held or stamp is None else self._belied_by_times(logs, end, epoch, stamp)

    def open_transaction(self, snapshot: SnapshotView) -> tuple[LogView, Transaction] | None:
        """The metadata transaction inside which a snapshot ends, and a log that tells it, sooner the
        replica's own. No Kafka takes a snapshot there (MetadataLoader).
        """
        if snapshot.path not in self.told_otherwise:
            return None
        for log in sorted(self.peers, key=lambda one: one.label != snapshot.replica):
            found = log.transaction_at(snapshot.end_offset)
            if found is not None and snapshot.end_offset <= self._speaks_to(log, snapshot):
                return log, found
        return None

    def start_against(self, snapshot: SnapshotView) -> tuple[LogView, str] | None:
        """A log, sooner the replica's own, that begins where a snapshot ends, or behind, with a batch
        before which there cannot be that epoch, and why; None also where a log holds its last offset.
        """
        if snapshot.path not in self.told_otherwise:
            return None
        end, found = snapshot.end_offset, list[tuple[LogView, str]]()
        for log in sorted(self.peers, key=lambda one: one.label != snapshot.replica):
            before, goes_to = log.epochs_before, self._speaks_to(log, snapshot)
            if log.index_at(end - 1) >= 0 and end <= goes_to:
                return None
            if before is None or not end <= (start := int(log.base[0])) < goes_to:
                continue
            if snapshot.epoch >= before.stop or (start == end and snapshot.epoch < before.start):
                found.append((log, _begins(log, snapshot.epoch)))
        return next(iter(found), None)

    def _speaks_to(self, log: LogView, snapshot: SnapshotView) -> int:
        """How far a log speaks against a snapshot."""
        if self.outruns(snapshot, log):
            return 0
        goes_to = self.speaks_until(log, snapshot.replica)
        return min(goes_to, self.fork_starts.get(log.label, goes_to))

    def _newer_below(self, log: LogView, snapshot: SnapshotView) -> EpochStart | None:
        """The first newer epoch than a snapshot's that begins below its end in a log."""
        newer = next((one for one in log.epoch_starts if one.epoch > snapshot.epoch), None)
        until = min(snapshot.end_offset, self._speaks_to(log, snapshot))
        return newer if newer is not None and newer.start_offset < until else None

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

    @cached_property
    def named_snapshots(self) -> list[SnapshotView]:
        """Snapshots of this quorum whose ids nothing contradicts, damaged ones too."""
        return [
            one for one in self.own_snapshots if one.is_named_as_shipped and self._may_be_of_it(one)
        ]

    def why_no_base(self, snapshot: SnapshotView) -> str | None:
        """Why a replay cannot begin with a snapshot; None where it can."""
        why = snapshot.why_incomplete
        if why is not None or snapshot.replica in self.foreign:
            return why
        if (twin := self.named_twin(snapshot)) is not None:
            return f"Kafka loads {twin.evidence.name} beside it"
        return self.stray_snapshots.get(snapshot.path) or self.contradiction(snapshot)

    def witnesses(self, log: LogView) -> list[Witness]:
        """What the files beside a log witness beyond its end, the furthest first. Snapshots that the
        logs refuse are not of it, unless it has no other records.
        """
        return self._witnesses[log.label]

    @cached_property
    def _witnesses(self) -> dict[str, list[Witness]]:
        return {
            log.label: witnesses(
                log,
                [
                    one
                    for one in self.snapshots_of(log.label)
                    if self._may_be_of_it(one) or _goes_by(log, one)
                ],
                self._senders(log),
                self._led_from.get(log.evidence.node_id, {}),
            )
            for log in self.logs
        }

    def _may_be_of_it(self, one: SnapshotView) -> bool:
        return one.path not in self.stray_snapshots and self.contradiction(one) is None

    @cached_property
    def _led_from(self) -> dict[int | None, dict[int, int]]:
        """By leader and epoch, where an epoch begins that a node led, by any log that shows it."""
        found: dict[int | None, dict[int, int]] = {}
        for log in self.peers:
            for one in log.epoch_starts:
                if one.epoch in log.leaders:
                    starts = found.setdefault(log.leaders[one.epoch], {})
                    starts.setdefault(one.epoch, one.start_offset)
        return found

    @cached_property
    def cut_off(self) -> dict[str, CutOff]:
        """The snapshots, by path, that may hold alone what was committed and then cut: whole, all of
        their own epoch, newer than the logs up to where these go on in a newer epoch below their
        end; and no log at hand leads up to them. They prove nothing: a name can be wrong.
        """
        told = (
            self._goes_on_without(one)
            for one in self.own_snapshots
            if self.contradiction(one) is not None
            and one.is_complete
            and one.path not in self.stray_snapshots
            and (one.evidence.batches.epochs == one.epoch).all()
            and not any(log.ends_with(*one.id) for log in self.peers)
        )
        return {one.snapshot.path: one for one in told if one is not None}

    def _goes_on_without(self, snapshot: SnapshotView) -> CutOff | None:
        """The newest log that goes on in a newer epoch below a snapshot's end, sooner one that shows
        where; None where there is none, or it holds all before that up to the snapshot's last time:
        then the file is one of an earlier end under another name. A log that began anew at offset 0
        after that time goes on without all of it. One that ends in an older epoch than the log beside
        the snapshot was left behind by that.
        """
        own = self.by_label[snapshot.replica].last_epoch or 0
        told_by = (one for one in self.peers if (one.last_epoch or 0) >= own)
        newest = sorted(told_by, key=lambda one: one.newness, reverse=True)
        begun = [(log, self._newer_below(log, snapshot)) for log in newest]
        told = [
            CutOff(snapshot, log, new.start_offset, log.index_at(new.start_offset - 1) >= 0)
            for log, new in begun
            if new is not None
        ]
        found = next((one for one in told if one.is_seen), next(iter(told), None))
        if found is None or not found.is_seen:
            return found
        rows = found.log.rows[: found.log.index_at(found.start - 1) + 1]
        times = found.log.evidence.log.max_timestamps[rows]
        stamp = snapshot.last_contained_timestamp or 0
        if 0 < stamp < int(times[0]) and found.log.start_offset == 0:
            return found._replace(start=0)
        return found if stamp > int(times.max()) else None

    def cut_off_of(self, label: str) -> CutOff | None:
        """The newest of them that a replica has."""
        own = (one for one in self.cut_off.values() if one.snapshot.replica == label)
        return max(own, key=lambda one: one.snapshot.id, default=None)

    # --- what is committed ------------------------------------------------------------------------

    @cached_property
    def bounds(self) -> Bounds:
        """The committed interval of the quorum."""
        return self._bounds_by(*self._proofs)

    @cached_property
    def proven_by(self) -> str | None:
        """The replica whose own records prove the lower bound; None where others do."""
        why = self.bounds.lower_reason
        return next((one.replica for one in self._proofs if one.why == why), None)

    @cached_property
    def never_committed(self) -> frozenset[str]:
        """The replicas of whose uncommitted tail it is proven that none of it was committed: from
        where it begins.
        """
        return frozenset(
            comparison.one.label
            for comparison, run in self._tail_beginnings
            if self.fate(comparison, run) == Fate.UNCOMMITTED or self._is_shown(comparison, run)
        )

    def _is_shown(self, comparison: Comparison, run: DifferingRun) -> bool:
        """Whether the other log proves that its own record is committed where a tail begins: whatever
        leader came later had that one. Where somebody elected its leader who had lost the tail, it
        shows nothing.
        """
        newer = replacing_epoch(comparison.one, comparison.other, run)
        own = (one.end for one in self._proofs if one.replica == comparison.other.label)
        is_proven = run.start < max(own, default=0)
        return is_proven and bool(self.granted(newer)) and newer not in self._elected_forgetting

    @cached_property
    def _proofs(self) -> list[_Proof]:
        """Of logs that prove the same, the one first that differs from the fewest others."""
        apart = Counter(one.one.label for one in self.differing)
        found = [*self._proven_changes(), *self._proven_epochs()]
        return sorted(found, key=lambda one: apart[one.replica])

    @cached_property
    def held_below(self) -> int:
        """Below which offset the copies themselves hold what is committed. From there on only what a
        leader wrote speaks for it: the others lost it, or their copies are older.
        """
        return self._bounds_by(*self._proven_changes()).lower

    def _bounds_by(self, *found: _Proof) -> Bounds:
        """The committed interval by what is proven otherwise, and by the logs and snapshots. One that
        the logs contradict shows nothing, neither of what is committed nor of how far its replica
        reaches.
        """
        proofs = {one.why: one.end for one in found}
        ends = dict.fromkeys(self.by_label, 0)
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
        furthest = ends_at if is_told_all and self.evidence.remembered is None else None
        mark = None if self.describe_is_refuted else self.committed_by_describe or None
        told = self.told_committed.why if self.told_committed else ""
        voting = replace(self.voting, standings=standings)
        proofs.update(self._held_behind_holes(voting, max(proofs.values(), default=0)))
        bounds = interval(voting, proofs, mark, furthest, self._earlier(voting), told)
        if self.unexplained_voters is not None:
            why = "kafka-metadata-quorum describe names other voters than the copies do"
        elif self.strangers:
            why = voter_sources.stranger_text(*next(iter(self.strangers.items())))
        elif self.fork_starts:
            why = "another history was committed, too, and goes as far as nothing at hand tells"
        else:
            return bounds
        return replace(bounds, upper=None, upper_reason=why)

    def _held_behind_holes(self, voting: Voting, known: int) -> Iterator[tuple[str, int]]:
        """What a majority holds alike, by why that is committed, where logs have holes in what is known
        to be: whoever holds the same batch behind one held the same before it.
        """

        def agree(one: str, other: str) -> int:
            return self.surely_agree(self.by_label[one], self.by_label[other], known=known)

        if any(hole.end <= known for log in self.peers for hole in log.holes):
            behind = replace(voting, agree=agree)
            held = behind.committed_held()
            if held is not None and held.end > known:
                yield (
                    f"{behind.told(held)} from offset {known} on, and all below is committed",
                    held.end,
                )

    def _proven_changes(self) -> Iterator[_Proof]:
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
                    yield _Proof(log.label, why, offset + 1)

    def _proven_epochs(self) -> Iterator[_Proof]:
        """What was committed before the leader of the newest epoch that a log has metadata of wrote
        that, by why that is known. Source: KafkaRaftClient.ListenerContext.maybeFireLeaderChange, 3.0
        to 4.4; QuorumController alone appends metadata, once it is told that it leads.
        """
        for log in self.peers:
            end = self.leaves(log.label, log.end_offset or 0)
            begun = log.written_epoch(end)
            if begun is None:
                continue
            wrote = (
                f"replica {log.label} holds metadata that the leader of epoch {begun.epoch} wrote,"
            )
            why = f"{wrote} which it does only when all before its epoch is committed"
            proven = begun.start_offset
            if self._metadata_version(log, begun.epoch, end) >= WAITS_LEVEL:
                why = f"{wrote} which it does only when the first record of its epoch is committed"
                proven = int(log.evidence.log.last_offsets[begun.row]) + 1
            yield _Proof(log.label, why, proven)

    def _metadata_version(self, log: LogView, epoch: int, until: int) -> int:
        """The newest level of metadata.version that the leader of an epoch of a log surely knew; 0 where
        none is at hand.
        """
        later = (one.start_offset for one in log.epoch_starts if one.epoch > epoch)
        until = min([until, *later])
        own = [(at, level) for at, level in log.metadata_versions if at < until]
        own += [
            (one.end_offset, level)
            for one in self.credible_snapshots
            if one.replica == log.label
            and one.end_offset <= until
            and (level := one.metadata_version) is not None
        ]
        return max(own, default=(0, 0))[1]

    @property
    def electing(self) -> list[Voting]:
        """The voters, and those before each change of them that is not known to be committed: these
        may have committed what comes before it.
        """
        before = self._earlier(self.voting)
        return [self.voting, *(one for at, one in before if at >= self.bounds.lower)]

    def committed_below(self, label: str) -> int:
        """Below which offset what a copy holds is committed, where no other contradicts it."""
        return self.bounds.lower if label in self.vouched_for else self.bounds.shown

    @cached_property
    def moved_voters(self) -> list[int]:
        """The voters not at hand whose nodes are, with another directory: one that the voter set does
        not name, or that those before a change did not which may not be committed.
        """
        nodes = {log.evidence.node_id for log in self.peers if log.evidence.directory_id}
        return [one for one in self.bounds.missing_voters if one in nodes]

    @property
    def unseen_voters(self) -> list[int]:
        """The other ones not at hand: nothing is known of what they hold."""
        return [one for one in self.bounds.missing_voters if one not in self.moved_voters]

    @property
    def moved_now(self) -> list[int]:
        """Those that have moved by the newest set of voters."""
        return [one for one in self.moved_voters if one in self.voting.missing]

    @property
    def awaited_voters(self) -> list[int]:
        """The voters that have moved, where no leader can be elected without their old disks, and none
        was asked.
        """
        if self.pulled is not None:
            return []
        moved = self.moved_now
        return moved if len(self.voters) - len(moved) < self.bounds.majority else []


def _begins(log: LogView, epoch: int) -> str:
    """How a log begins that nothing of an epoch can lie before, in words."""
    start, first = int(log.base[0]), int(log.raw_epochs[0])
    if epoch > first:
        return f"offset {start} is still of epoch {first} in the log of {log.label}"
    if epoch == first:
        return f"epoch {first} begins only at offset {start} in the log of {log.label}, with a LeaderChange"
    return (
        f"offset {start} is of epoch {first} in the log of {log.label}, and no epoch begins there"
    )
