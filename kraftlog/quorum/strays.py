"""Copies and snapshots of another quorum, by what they hold: files of another cluster in a folder of
this one, or what is left of a quorum that was formed anew under its old cluster id.

In: the logs that name one cluster, how each pair of them compares, and their snapshots. Out: labels
of replicas, reasons by the paths of snapshots. A directory id is random: whoever names one of a
quorum's is of it. Nothing tells two quorums apart that name none, but what they hold from their
first offset on, and when that was written. Source: KIP-853, KIP-595, KAFKA-1211.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kraftlog.quorum import voters as voter_sources
from kraftlog.quorum.divergence import Comparison, Comparisons
from kraftlog.quorum.evidence import Longs
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.snapshots import SnapshotView, by_replica
from kraftlog.quorum.voters import Members

Snapshots = Mapping[str, list[SnapshotView]]
"""By replica."""
LONG_MS = 3_600_000
"""By so much no clocks of the leaders of one quorum are taken to differ."""


@dataclass(frozen=True, slots=True)
class _Kin:
    """Copies that are of one quorum for certain: they share batches, or directories of voters.

    `seats` counts the voters of its newest set that are at hand: a voter's disk, wherever its log
    is from, and where the set names no directories a node with one of these logs.
    """

    logs: tuple[LogView, ...]
    directories: frozenset[str]
    voters: Members
    seats: int
    holds_something: bool

    @property
    def decides(self) -> bool:
        """Whether a majority of its voters is at hand."""
        return self.seats > len(self.voters) // 2


def strays(
    logs: Sequence[LogView], comparisons: Comparisons, snapshots: Sequence[SnapshotView]
) -> frozenset[str]:
    """The replicas of another quorum than the one that has most voters at hand. A side with a
    majority of its own voters is none, but a second history, and so is one that was pulled: its
    leader runs. Voters that were formatted anew, and hold nothing yet, outweigh nobody.
    """
    held = by_replica(snapshots)
    groups = _groups(logs, comparisons, held)
    if len(groups) < 2:
        return frozenset()
    kins = [_kin(one, logs, held) for one in groups]
    able = [one for one in kins if one.holds_something]
    ours = max(able, key=lambda one: (one.decides, one.seats), default=None)
    disks = _disks(logs)
    return frozenset(
        log.label
        for one in able
        if ours is not None and _is_stray(one, ours, disks, comparisons)
        for log in one.logs
    )


def _is_stray(one: _Kin, ours: _Kin, disks: frozenset[str], comparisons: Comparisons) -> bool:
    if one.decides or one.seats >= ours.seats or any(log.evidence.is_pulled for log in one.logs):
        return False
    pairs = [comparisons[log.label, other.label] for log in one.logs for other in ours.logs]
    if one.directories:
        differs = any(pair.shares_offsets for pair in pairs)
        # What ends before ours, in no newer epoch, may have been left behind by replaced voters.
        goes_on = any(
            max(log.newness[part] for log in one.logs) > max(log.newness[part] for log in ours.logs)
            for part in range(2)
        )
        is_other = differs or (goes_on and bool(ours.directories & disks))
        return is_other and not one.directories & disks
    begins_otherwise = any(
        pair.shares_offsets
        and pair.common_start == 0
        and any(run.same_epoch_at is not None for run in pair.runs)
        for pair in pairs
    )
    return begins_otherwise or _is_of_before(one, ours)


def _is_of_before(one: _Kin, ours: _Kin) -> bool:
    """Whether all that a side holds was written long before what ours holds at lower offsets: no
    history has both, but a quorum was formed anew after it.
    """
    logs = [log for log in one.logs if not log.is_empty]
    start = min((int(log.base[0]) for log in logs), default=0)
    newest = max((int(_times(log, log.rows).max()) for log in logs), default=0)
    below = [_times(log, log.rows[log.last < start]) for log in ours.logs]
    return any(len(times) and int(times.min()) - newest > LONG_MS for times in below)


def held_before(
    strayed: Iterable[LogView], ours: Iterable[LogView], voters: Collection[int]
) -> frozenset[str]:
    """Of copies of another quorum those that may hold what these voters held before theirs was formed
    anew: nodes of the same ids elected a leader there, and all of it is older than our offset 0.
    """
    begins = [log for log in ours if not log.is_empty and log.start_offset == 0]
    if not begins or not voters:
        return frozenset()
    first = min(int(_times(log, log.rows[:1])[0]) for log in begins)
    return frozenset(
        log.label
        for log in strayed
        if any({*voters} == {*one.voters} for one in log.elections.values())
        and int(_times(log, log.rows).max()) < first
    )


def _times(log: LogView, rows: Longs) -> Longs:
    """When the newest record of each of some batches was written."""
    return log.evidence.log.max_timestamps[rows]


def share(pair: Comparison) -> bool:
    """Whether two logs hold some batch in common."""
    return pair.begins_alike or any(run.equal_after for run in pair.runs)


def _groups(
    logs: Sequence[LogView], comparisons: Comparisons, snapshots: Snapshots
) -> list[list[LogView]]:
    """The logs by kinship."""
    groups: list[tuple[list[LogView], frozenset[str]]] = []
    for log in logs:
        known, held, apart = named_directories(log, snapshots.get(log.label, ())), [log], []
        for group, directories in groups:
            batches = any(share(comparisons[log.label, one.label]) for one in group)
            if batches or known & directories:
                held, known = [*group, *held], known | directories
            else:
                apart.append((group, directories))
        groups = [*apart, (held, known)]
    return [group for group, _ in groups]


def _kin(group: Sequence[LogView], logs: Sequence[LogView], snapshots: Snapshots) -> _Kin:
    own = {one.label: snapshots.get(one.label, []) for one in group}
    every = [one for each in own.values() for one in each]
    # Records of a log itself tell better of which quorum it is than its snapshots' voters.
    silent = [log for log in group if not any(voter_sources.log_voter_records(log))]
    speaking = [one for log in silent for one in own[log.label]]
    newest = voter_sources.current(
        voter_sources.by_records(group, speaking)
    ) or voter_sources.current(voter_sources.by_elections(group))
    voters = newest.members if newest else ()
    nodes, disks = {one.evidence.node_id for one in group}, _disks(logs)
    seats = [node in nodes if disk is None else disk in disks for node, disk in voters]
    told = [*(named_directories(one, own[one.label]) for one in group), _directories(voters)]
    holds = any(not one.is_empty for one in group) or any(one.end_offset for one in every)
    return _Kin(tuple(group), frozenset().union(*told), voters, sum(seats), holds)


def named_directories(log: LogView, snapshots: Iterable[SnapshotView]) -> frozenset[str]:
    """The directories of voters that a log names, or where it names none its replica's snapshots."""
    found = [members for *_, members in voter_sources.log_voter_records(log)]
    if not found:
        found = [one.voters or () for one in snapshots]
    return _directories(member for members in found for member in members)


def _directories(members: Iterable[tuple[int, str | None]]) -> frozenset[str]:
    return frozenset(one for _, one in members if one)


def _disks(logs: Iterable[LogView]) -> frozenset[str]:
    """The directories of the disks at hand."""
    return frozenset(one for log in logs if (one := log.evidence.directory_id))


# --- snapshots -----------------------------------------------------------------------------------


def stray_snapshots(logs: Sequence[LogView], snapshots: Sequence[SnapshotView]) -> dict[str, str]:
    """Why snapshots are not of the log that they lie beside, by their voters and by path. A quorum
    whose logs and snapshots once name voters names them for good, in each snapshot.
    """
    disks, found = _disks(logs), {}
    by_label = {one.label: one for one in logs}
    joined = by_replica(one for one in snapshots if not _is_ahead(one, by_label[one.replica]))
    names = {one.label: named_directories(one, joined.get(one.label, ())) for one in logs}
    known = frozenset().union(*names.values())
    seats = _disks(_static_voters(logs))
    for one in snapshots:
        if not one.end_offset:
            continue
        own = _directories(one.voters or ())
        log = by_label[one.replica]
        is_ahead = _is_ahead(one, log)
        is_alone = (is_ahead and known & disks and not own & known) or seats
        if own and is_alone and not own & disks:
            found[one.path] = (
                "the directories of its voters are on no disk at hand and in no other copy"
            )
        elif is_ahead and names[log.label] and one.names_no_voter:
            found[one.path] = "it names no voter, as each one of a log with voters of its own does"
        elif one.voters and (told := _told_otherwise(one, log)) is not None:
            found[one.path] = f"it names other voters than {told}"
    return found


def _static_voters(logs: Sequence[LogView]) -> list[LogView]:
    """The voters by `quorum-state` files, where no record of a log names any."""
    if any(any(voter_sources.log_voter_records(one)) for one in logs):
        return []
    told = voter_sources.by_quorum_state(one.evidence for one in logs)
    voters = {voter for one in told for voter in one.ids}
    return [one for one in logs if one.evidence.node_id in voters]


def _is_ahead(snapshot: SnapshotView, log: LogView) -> bool:
    """Whether a log leads nowhere near a snapshot beside it: its next start would drop the log."""
    end = log.end_offset or 0
    return not log.is_empty and (snapshot.id > log.newness or snapshot.end_offset > end)


def _told_otherwise(snapshot: SnapshotView, log: LogView) -> str | None:
    """The record of a replica's log by which a snapshot of it has other voters, in words. A log that
    ends in a tail of another epoch has records that the snapshot's log never had.
    """
    if log.epoch_at(snapshot.end_offset - 1) != snapshot.epoch:
        return None
    before = [one for one in voter_sources.log_voter_records(log) if one[0] < snapshot.end_offset]
    if not before:
        return None
    offset, _, _, members = before[-1]
    if members == snapshot.voters or not log.covers(offset, snapshot.end_offset):
        return None
    return f"the KRaftVoters record at offset {offset} of {log.label}"
