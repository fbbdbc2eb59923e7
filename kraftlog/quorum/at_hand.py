"""What lies at hand of one quorum: the copies of its nodes' logs and their snapshots, which of them are
of another cluster, how they compare, who led them, and what a `describe` tells of them.

In: `QuorumEvidence`. Out: the ground floor of `model.Quorum`, each thing once. Nothing here is a
judgement; the checks judge. Source: KIP-630 "Design", KAFKA-1211.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from kraftlog.config import Thresholds
from kraftlog.log import names
from kraftlog.log.names import LAST_OFFSET
from kraftlog.plain import natural
from kraftlog.quorum import strays
from kraftlog.quorum.chain import runs, whole_log
from kraftlog.quorum.describe import refuted_at, told_ms, vouches_for
from kraftlog.quorum.divergence import Comparison, Comparisons, compare
from kraftlog.quorum.evidence import (
    Described,
    QuorumEvidence,
    ReplicaEvidence,
    StateEvidence,
)
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.snapshots import SnapshotView, by_replica

_Words = ParamSpec("_Words")
_Answer = TypeVar("_Answer")

KEPT = 4096
"""So many answers of one method, so that a log that differs everywhere takes no more memory."""


def asked_again(
    method: Callable[Concatenate[Any, _Words], _Answer],
) -> cached_property[Callable[_Words, _Answer]]:
    """A method of a frozen object whose last answers are kept: where many copies part from each
    other, each pair of them asks for the same few offsets, and each answer looks at all copies.
    """
    return cached_property(
        lambda one: cast(Callable[_Words, _Answer], lru_cache(KEPT)(partial(method, one)))
    )


@dataclass(frozen=True)
class AtHand:
    """The copies, before it is known who votes."""

    evidence: QuorumEvidence

    @property
    def thresholds(self) -> Thresholds:
        return self.evidence.thresholds

    @property
    def replicas(self) -> tuple[ReplicaEvidence, ...]:
        return self.evidence.replicas

    @cached_property
    def state(self) -> StateEvidence:
        """What the history of the state has shown; nothing where the records were not replayed."""
        return self.evidence.state or StateEvidence()

    @property
    def levels(self) -> Mapping[str, int]:
        """The levels of features in the newest state; none where that is not known."""
        return self.state.health.levels if self.state.health else {}

    @cached_property
    def logs(self) -> tuple[LogView, ...]:
        """One view per replica, in the evidence's order."""
        return tuple(LogView(one, self.evidence.contents, self.replicas) for one in self.replicas)

    @cached_property
    def by_label(self) -> dict[str, LogView]:
        return {one.label: one for one in self.logs}

    @cached_property
    def node_ids(self) -> dict[str | None, int | None]:
        return {one.label: one.node_id for one in self.replicas}

    def node_id(self, label: str | None) -> int | None:
        return self.node_ids.get(label)

    @cached_property
    def copies_of(self) -> Counter[int | None]:
        """How many copies are of each node."""
        return Counter(one.node_id for one in self.replicas)

    @cached_property
    def cluster_ids(self) -> Counter[str]:
        """How many replicas name each cluster; of equals that of the first label comes first,
        however the input was named.
        """
        named = sorted(self.replicas, key=lambda one: natural(one.label))
        return Counter(name for one in named for name in dict(cluster_names(one)))

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
    def foreign(self) -> frozenset[str]:
        """Replicas of another cluster, by its name or by what they hold. They are checked by
        themselves and compared with nobody.
        """
        return self.otherwise_named | self.strays

    @cached_property
    def peers(self) -> tuple[LogView, ...]:
        """The logs of this cluster."""
        return tuple(one for one in self.logs if one.label not in self.foreign)

    # --- snapshots --------------------------------------------------------------------------------

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
        return strays.named_directories(log, self.snapshots_of(log.label))

    @cached_property
    def stray_snapshots(self) -> dict[str, str]:
        """Why some of them are of another quorum, by their voters and by path."""
        return strays.stray_snapshots(self.peers, self.own_snapshots)

    @cached_property
    def _voters_snapshots(self) -> list[SnapshotView]:
        """The snapshots that tell who votes here."""
        return [one for one in self.own_snapshots if one.path not in self.stray_snapshots]

    def snapshots_of(self, label: str) -> list[SnapshotView]:
        """A replica's snapshots, by id."""
        return self._snapshots_of.get(label, [])

    @cached_property
    def _snapshots_of(self) -> dict[str, list[SnapshotView]]:
        return by_replica(sorted(self.snapshots, key=lambda each: each.id))

    def loadable_snapshots(self, label: str) -> list[SnapshotView]:
        """Those of a replica that a start looks at, by id: what ends below the log's start is deleted
        before. Source: Kafka's KafkaRaftLog.recoverSnapshots.
        """
        return list(self._loadable(label))[::-1]

    def loaded_snapshot(self, label: str) -> SnapshotView | None:
        """The newest of them, with which a start begins."""
        return next(self._loadable(label), None)

    def _loadable(self, label: str) -> Iterator[SnapshotView]:
        start = self.by_label[label].evidence.first_base_offset
        return (one for one in reversed(self.snapshots_of(label)) if one.end_offset >= start)

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

    def misnamed(self, label: str) -> dict[str, tuple[int, int]]:
        """The files, by path, that Kafka counts among the snapshots of a replica's log, each with the
        id for which it takes it: no file has the name under which Kafka opens that one. Source:
        Kafka's Snapshots.parse and FileRawSnapshotReader.open.
        """
        evidence, own = self.by_label[label].evidence, self.snapshots_of(label)
        if evidence.single_file:
            return {}
        there = {one.id for one in own if one.is_named_as_shipped}
        files = (*evidence.foreign_names, *(one.path for one in own))
        taken = {
            path: names.id_by_columns(path.rpartition("/")[2])
            for path in sorted(files)
            if path.endswith(names.SNAPSHOT_ENDING)
        }
        return {
            path: known
            for path, known in taken.items()
            if known is not None and min(known) >= 0 and known not in there
        }

    def reach_of(self, log: LogView) -> int:
        """How far a replica goes, by its log or by a whole snapshot."""
        return max(log.end_offset or 0, self.own_snapshot_end(log.label))

    def own_snapshot_end(self, label: str, until: int = LAST_OFFSET) -> int:
        """The end of the furthest snapshot, of those up to an offset, that a replica holds whole."""
        ends = [one.end_offset for one in self.snapshots_of(label) if one.is_complete]
        return max((one for one in ends if one <= until), default=0)

    # --- how the copies compare -------------------------------------------------------------------

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

    def newer_than(self, log: LogView) -> list[Comparison]:
        """A log beside each one that goes on in a newer epoch."""
        epoch = self.ends_in_epoch(log)
        others = (one.label for one in self.peers if self.ends_in_epoch(one) > epoch)
        return [self.comparisons[log.label, other] for other in others]

    def ends_in_epoch(self, log: LogView) -> int:
        """The epoch in which a replica's log ends, as its node goes on with it: where all its records are
        dropped, that of the whole snapshot with which it begins; 0 where there is none.
        """
        loaded = self.loaded_snapshot(log.label) if log.last_epoch is None else None
        if loaded is not None and loaded.is_complete:
            return loaded.epoch
        return log.last_epoch or 0

    def surely_agree(self, one: LogView, other: LogView, *, known: int = 0) -> int:
        """How far two logs were seen to agree, up to what either of them misses; 0 where no batch
        is seen in both, and where they are of two clusters. What they miss below an offset counts
        for nothing where all below that is known to be committed: they held it alike.
        """
        holes = [hole.start for log in (one, other) for hole in log.holes if hole.end > known]
        if one is other:
            return min([one.end_offset or 0, *holes])
        pair = self.comparisons.get((one.label, other.label))
        if pair is None or pair.common_end is None or not pair.begins_alike:
            return 0
        return min([pair.common_end, *holes])

    def _agree(self, one: str, other: str) -> int:
        return self.surely_agree(self.by_label[one], self.by_label[other])

    def holding(self, log: LogView, offset: int) -> list[LogView]:
        """The copies that hold the same batch at an offset as a log does, itself included."""
        ids = log.evidence.log.ids
        key = ids[log.rows[log.index_at(offset)]].tobytes()
        return self.holding_at(offset).get(key, [])

    @asked_again
    def holding_at(self, offset: int) -> dict[bytes, list[LogView]]:
        """The copies that hold an offset, by the bytes of their batch there."""
        groups: dict[bytes, list[LogView]] = {}
        for log in self.peers:
            index = log.index_at(offset)
            if index >= 0:
                key = log.evidence.log.ids[log.rows[index]].tobytes()
                groups.setdefault(key, []).append(log)
        return groups

    def covers(self, start: int, end: int) -> bool:
        """Whether the log of some copy holds every offset of [start, end)."""
        starts, reached = self._stretches
        before = bisect_right(starts, start)
        return before > 0 and reached[before - 1] >= end

    @cached_property
    def _stretches(self) -> tuple[list[int], list[int]]:
        """Where what a log holds without a gap begins, of all logs in order, and how far any of those
        up to there reaches.
        """
        held = sorted(run for log in self.peers for run in runs(whole_log(log)))
        return [start for start, _ in held], list(accumulate((end for _, end in held), max))

    @cached_property
    def epochs_begin(self) -> dict[int, dict[int, list[tuple[int, str]]]]:
        """Where each epoch begins for certain, and the copies that tell it: their places, and labels.
        The start of a log is that of an epoch only at 0, or with a LeaderChange.
        """
        found: dict[int, dict[int, list[tuple[int, str]]]] = {}
        for at, log in enumerate(self.peers):
            for one in log.epoch_starts:
                starts_log = one.start_offset == log.start_offset != 0
                if one.certain and (not starts_log or one.epoch in log.elections):
                    begins = found.setdefault(one.epoch, {})
                    begins.setdefault(one.start_offset, []).append((at, log.label))
        return found

    # --- leaders ----------------------------------------------------------------------------------

    @cached_property
    def newest_log(self) -> LogView | None:
        """The copy with the newest epoch, and the furthest in it; of equals one that reaches back
        furthest.
        """
        logs = [one for one in self.peers if not one.is_empty]
        return max(logs, key=lambda one: (one.newness, -(one.start_offset or 0)), default=None)

    @cached_property
    def newest_epoch(self) -> int:
        """The newest epoch of any log at hand; 0 where none has a batch."""
        return max((one.last_epoch or 0 for one in self.peers), default=0)

    @cached_property
    def has_begun(self) -> bool:
        """Whether any copy holds something of the log, or may do so: of nodes that were formatted, and
        have not started yet or have elected nobody, none does.
        """
        return not all(_is_before_elections(one) for one in self.peers) or any(
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
    def followed(self) -> frozenset[int]:
        """The nodes that some node follows as the leader of the newest epoch, by its quorum-state."""
        states = (log.evidence.state_file for log in self.peers)
        newest = max(self.leaders, default=None)
        return frozenset(one.leader_id for one in states if one and one.leader_epoch == newest)

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

    def granted(self, epoch: int) -> frozenset[int] | None:
        """Who elected the leader of an epoch, by a LeaderChange record at hand."""
        found = (one.elections.get(epoch) for one in self.peers)
        return next((one.granted for one in found if one is not None), None)

    # --- what a describe tells, or an earlier run of the lake --------------------------------------

    @property
    def told_committed(self) -> Described | None:
        """What tells a high watermark besides the copies: an earlier run of the lake, where they lack
        what it showed, else a describe.
        """
        return self.evidence.remembered or self.evidence.described

    @property
    def told_by(self) -> str:
        """Who tells it, in words."""
        return self.told_committed.source if self.told_committed else "the describe"

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
        if epoch is not None and self.newest_epoch > epoch:
            return True
        return told is not None and (newest.newest_ms or 0) > told + self.thresholds.copy_skew_ms

    @property
    def committed_by_describe(self) -> int:
        """The high watermark of a describe; 0 without one."""
        described = self.told_committed
        return (described.high_watermark or 0) if described is not None else 0

    @cached_property
    def vouched_for(self) -> frozenset[str]:
        """The copies that hold what a describe tells to be committed, or a beginning of it."""
        described = self.told_committed
        if described is None:
            return frozenset()
        return frozenset(log.label for log in self.peers if vouches_for(described, log))

    @cached_property
    def refuted(self) -> dict[str, int]:
        """The copies that hold something else below a describe's high watermark, and from where on
        they do for certain.
        """
        described = self.told_committed
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


def _is_before_elections(log: LogView) -> bool:
    """Whether a node has no log yet, or an empty one beside which no file tells of an election. A log
    that was emptied has such files, or lacks the quorum-state that a start leaves.
    """
    state, segments = log.evidence.state_file, log.evidence.segments
    if not log.is_empty or log.epoch_entries:
        return False
    is_new = (
        state is not None and state.leader_id < 0 and state.voted_id in (-1, log.evidence.node_id)
    )
    return not segments or (is_new and not any(one.size_bytes or one.problem for one in segments))
