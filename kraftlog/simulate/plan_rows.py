"""A quorum → the rows of its plans: what each node does when it starts from these files, and what
each ordered pair of them does to one another.

In: a `Quorum`. Out: plain rows with the names of the command line's contract. Columnar over
batches; `truncation_rows` also reads the batches that are lost. Every plan but `boot` is told of
nodes as they are after they have started. Source: KIP-630 "Loading State and Frequency of
Compaction", "Overview", "Design", "Changes to Leader Election", "Fetch", KAFKA-1211.
"""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from kraftlog.quorum.committed import is_contradicted
from kraftlog.quorum.copy_times import described_key
from kraftlog.quorum.divergence import Comparison
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView, by_replica
from kraftlog.relations import Row
from kraftlog.simulate.boot import Boot, start
from kraftlog.simulate.disk import disk_of, replayed_records, unread_before_start
from kraftlog.simulate.election import Candidacy, Voter, outcomes, vote_end
from kraftlog.simulate.extent import Extent, SnapshotId
from kraftlog.simulate.fetch import Cut, Dialect, Peer, fetch_pairs, truncate
from kraftlog.simulate.join import BELOW_START, HELD_ALREADY, NOT_NEWER
from kraftlog.simulate.lost import TypeCounts, lost_types


@dataclass(frozen=True)
class Plans:
    """What several plans of one quorum share by one text, each thing once."""

    quorum: Quorum
    dialect: Dialect = Dialect.SHIPPED

    @cached_property
    def boots(self) -> dict[str, Boot]:
        """How each replica starts, by label."""
        return {
            log.label: start(disk_of(self.quorum, log), self.dialect) for log in self.quorum.logs
        }

    def extent(self, log: LogView) -> Extent:
        """What a replica holds once it has started."""
        return self.boots[log.label].extent

    @cached_property
    def _witness(self) -> LogView | None:
        """A log that holds what is committed: that of the majority, where no leader replaced what it
        holds, or else the newest, sooner one that most copies contradict nowhere, and that begins first.
        """
        quorum = self.quorum
        held = quorum.voting.committed_held()
        if held is not None and held.end >= quorum.bounds.lower:
            return quorum.by_label[held.label]
        usual = (log for log in quorum.peers if not is_contradicted(quorum, log.label))
        found = max(usual, key=lambda one: (one.newness, -(one.start_offset or 0)), default=None)
        return found or quorum.newest_log

    def committed_reach(self, log: LogView) -> int:
        """How far a replica holds what is committed: by a credible snapshot that it loads, and by
        its log from there on, up to the first offset that it lacks or holds differently.

        This is about what a started node lacks: a hole or an early end lowers it, where
        `quorum.committed.committed_in` asks which of the records on a disk are committed.
        """
        extent = self.extent(log)
        credible = [one.end_offset for one in self._credible.get(log.label, ())]
        loaded = extent.latest_snapshot
        start = loaded.end_offset if loaded and loaded.end_offset in credible else 0
        stops = [(hole.start, hole.end) for hole in log.holes]
        if self._witness is not None and self._witness is not log:
            runs = self.quorum.comparisons[log.label, self._witness.label].runs
            stops += [(run.start, run.end) for run in runs]
        first = min((max(begin, start) for begin, end in stops if end > start), default=None)
        reached = min(extent.end_offset, log.end_offset or 0)
        return max(start, reached if first is None else min(first, reached))

    @cached_property
    def _credible(self) -> dict[str, list[SnapshotView]]:
        return by_replica(self.quorum.credible_snapshots)

    @cached_property
    def voters(self) -> tuple[Voter, ...]:
        """Each copy at hand whose node votes for another one, as it does once it has started. Nobody
        knows with what a node votes whose log's end could not be read: its voter is not at hand.
        """
        return tuple(
            Voter(
                log.label,
                log.evidence.node_id or 0,
                vote_end(self.extent(log)),
                self.committed_reach(log),
                () if self.quorum.asks_nobody(log) else self.quorum.electorates[log.label],
                log.evidence.directory_id,
                None if unread_before_start(self.quorum, log) else self.boots[log.label].boots,
                described_key(self.quorum, log),
            )
            for log in self.quorum.electors
            if not log.unreadable_end
        )

    def elections(
        self, dead: Collection[int | None] = (), *, all_start: bool = False
    ) -> Iterator[Candidacy]:
        """What becomes of each copy of a voter at hand that stands for election; none of the dead does,
        nor one that would not start, unless `all_start`: it may run still, or be mended.
        """
        voters = [replace(one, boots=all_start or one.boots) for one in self.voters]
        return outcomes(voters, self.quorum.bounds.lower, dead)

    def departs(self, log: LogView, leader: LogView, cut: Cut) -> int:
        """Where a follower's history is not its leader's any more; where it is cut by epochs if
        nothing at hand shows a difference before. A leader whose log begins behind the difference
        is spoken for by the copies that tell the same history. Kafka compares epochs: what differs
        within one epoch stays, unless a snapshot replaces it.
        """
        told = [leader, *(one for one in self.quorum.peers if self._same_history(one, leader))]
        starts = [
            run.start
            for other in told
            if other is not log
            for run in self.quorum.comparisons[log.label, other.label].runs
            if cut.by_snapshot is not None or run.same_epoch_at != run.start
        ]
        return min([cut.truncation_offset, *starts])

    def _same_history(self, one: LogView, leader: LogView) -> bool:
        """Whether a copy holds some of the leader's batches, and none that differs."""
        if one is leader:
            return False
        found = self.quorum.comparisons[one.label, leader.label]
        return not found.runs and self.quorum.surely_agree(one, leader) > 0


def boot_rows(quorum: Quorum) -> Iterator[Row]:
    """One row per replica: whether it starts, with what, and what it throws away."""
    plans = Plans(quorum)
    for log in quorum.logs:
        one = plans.boots[log.label]
        yield {
            "replica": log.label,
            "boots": one.boots,
            "reason": one.reason,
            "snapshot_end_offset": one.snapshot.end_offset if one.snapshot else None,
            "snapshot_epoch": one.snapshot.epoch if one.snapshot else None,
            "replay_records": replayed_records(log, one.replay_from_offset, one.extent.end_offset),
            "discarded_from_offset": one.discarded_from_offset,
        }


def fetch_rows(quorum: Quorum, dialect: Dialect = Dialect.SHIPPED) -> Iterator[Row]:
    """One row per ordered pair whose ends could be read: the follower's next fetch, and that
    leader's answer.
    """
    plans = Plans(quorum, dialect)
    apart = quorum.otherwise_named
    peers = [
        Peer(log.label, plans.extent(log), log.label in apart)
        for log in quorum.logs
        if not log.unreadable_end
    ]
    return fetch_pairs(peers, dialect)


def truncation_rows(
    quorum: Quorum, counted: TypeCounts, leaders: frozenset[str] | None = None
) -> Iterator[Row]:
    """One row per ordered pair of one cluster whose logs differ, or those with certain leaders.
    Nobody knows what a log has whose end could not be read: it is in no pair. Nor what a snapshot takes
    from a log whose end no newer log shows: that is None.
    """
    plans = Plans(quorum)
    lower = quorum.bounds.lower
    types: dict[tuple[str, int], dict[str, int]] = {}
    for (follower, leader), comparison in quorum.comparisons.items():
        log = comparison.one
        mine, theirs = plans.extent(log), plans.extent(comparison.other)
        if leaders is not None and leader not in leaders:
            continue
        if log.unreadable_end or comparison.other.unreadable_end:
            continue
        if mine.end_offset == theirs.end_offset and not comparison.runs:
            continue
        cut = truncate(mine, theirs)
        offset = plans.departs(log, comparison.other, cut)
        rows = log.rows[(log.last >= offset) & (log.base < mine.end_offset)]
        is_kept = cuts_nothing(mine, offset, cut) is not None
        if is_kept:
            rows = rows[:0]
        columns = log.evidence.log
        if (follower, offset) not in types:
            types[follower, offset] = lost_types(log, rows, counted)
        committed = columns.last_offsets[rows] < min(lower, plans.committed_reach(log))
        yield {
            "follower": follower,
            "leader": leader,
            "truncation_offset": offset,
            "by_snapshot": cut.by_snapshot,
            "records_lost": int(columns.record_counts[rows].sum()),
            "size_bytes_lost": int(columns.sizes[rows].sum()),
            "types_lost": types[follower, offset],
            "committed_lost": int(columns.record_counts[rows[committed]].sum()),
        } | (
            _NOT_SHOWN if not is_kept and _is_out_of_sight(quorum, comparison, cut, offset) else {}
        )


_NOT_SHOWN: Row = dict.fromkeys(
    ("truncation_offset", "records_lost", "size_bytes_lost", "types_lost", "committed_lost")
)
"""What follows from where a follower's history is not its leader's any more."""


def _is_out_of_sight(quorum: Quorum, comparison: Comparison, cut: Cut, offset: int) -> bool:
    """Whether a leader of a newer epoch replaces a follower's log by a snapshot, and nothing shows
    whether the follower's end is in it.
    """
    log, leader = comparison.one, comparison.other
    is_newer = quorum.ends_in_epoch(leader) > quorum.ends_in_epoch(log)
    is_whole = cut.by_snapshot is not None and offset >= (log.end_offset or 0)
    return is_whole and is_newer and not quorum.is_seen_to(log)


def cuts_nothing(follower: Extent, offset: int, cut: Cut) -> str | None:
    """Why Kafka leaves a log as it is, and its node cannot follow, so that nothing is lost: it would have
    to be cut below its start, or the leader's snapshot is not newer; None where it is cut.
    """
    if cut.by_snapshot is None:
        start = follower.start_offset
        return BELOW_START.format(offset, start) if offset < start else None
    end, epoch = cut.by_snapshot
    if cut.extent.start_offset == end:
        return None
    return HELD_ALREADY if SnapshotId(epoch, end) in follower.snapshots else NOT_NEWER


def likely_leaders(quorum: Quorum, dialect: Dialect = Dialect.SHIPPED) -> frozenset[str]:
    """The voter's copy that is furthest among those that can be elected, else among all voters at
    hand; of equals the leader of the newest epoch. Every copy where nobody says who votes.
    """
    if not quorum.holders:
        return frozenset(log.label for log in quorum.logs)
    plans = Plans(quorum, dialect)
    able = {one.candidate for one in plans.elections() if one.can_win}
    standing = [log for log in quorum.voter_logs if log.label in able] or quorum.voter_logs
    ends = {log.label: vote_end(plans.extent(log)) for log in standing}
    furthest = [log for log in standing if ends[log.label] == max(ends.values())]
    leader = quorum.leaders.get(quorum.newest_epoch)
    likely = next((log for log in furthest if log.evidence.node_id == leader), furthest[0])
    return frozenset({likely.label})


def election_rows(quorum: Quorum, dialect: Dialect = Dialect.SHIPPED) -> Iterator[Row]:
    """One row per copy at hand whose node votes for another one; none if no voters are known."""
    if quorum.voter_set is None:
        return
    for one in Plans(quorum, dialect).elections():
        row = asdict(one)
        yield row | {name: list(row[name]) for name in ("granted_by", "refused_by")}
