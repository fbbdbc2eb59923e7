"""How the set of voters changed: every KRaftVoters record, and every LeaderChange record that names
other voters, against the set before it.

In: a quorum. Out: rows of the table `voter_changes`, in the order of the log. With kraft.version 0
the voters stand in the configuration, and only elections tell of them; from 1 on records do. A new
set counts as soon as it is in the log, committed or not, and Kafka changes one voter at a time so
that each majority of the old set meets each of the new one. Source: KIP-853 "Voter changes",
KAFKA-16526, KAFKA-16538, KAFKA-17608, KAFKA-17973.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kraftlog.quorum.committed import committed_in
from kraftlog.quorum.content import KRAFT_VERSION, KRAFT_VOTERS, LEADER_CHANGE
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import voters_of
from kraftlog.quorum.voters import Members, disjoint_majorities
from kraftlog.relations import Row, moment

Member = tuple[int, str | None]


@dataclass(slots=True)
class Named:
    """One place of the history that names the voters. `listeners` is what else a KRaftVoters record
    says of each; `version` is the kraft.version that holds there. `offset` is the end of a
    snapshot.
    """

    offset: int
    epoch: int
    source: str
    members: Members
    listeners: str
    timestamp: int | None
    version: int
    replicas: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[Any, ...]:
        return self.epoch, self.offset, self.source, self.members, self.listeners


def voter_change_rows(quorum: Quorum) -> Iterator[Row]:
    """A row per change; the first says what is known from the beginning."""
    before: Named | None = None
    formatted = _formatted_version(quorum)
    for one in _named(quorum):
        one.version = max(one.version, formatted if before is None else before.version)
        if before is not None and _is_same(before, one):
            continue
        standing = _standing(quorum, one)
        yield _row(before, one, standing)
        if standing != "uncommitted":
            before = one


def _formatted_version(quorum: Quorum) -> int:
    """The kraft.version that nodes were formatted with: Kafka has it from the checkpoint 0-0, before
    the log's first record says it again.
    """
    told = [
        int(control.data["kRaftVersion"])
        for log in quorum.peers
        for one in quorum.snapshots_of(log.label)
        for _, control in one.controls
        if one.end_offset == 0 and control.type == KRAFT_VERSION and control.data is not None
    ]
    return max(told, default=0)


def _named(quorum: Quorum) -> list[Named]:
    """Every place that names the voters, once, with the copies that hold it, in log order."""
    found: dict[tuple[Any, ...], Named] = {}
    for log in quorum.peers:
        for one in (*_of_snapshots(quorum, log), *_of_log(log)):
            found.setdefault(one.key, one).replicas.append(log.label)
    return sorted(found.values(), key=lambda one: (one.offset, one.epoch, one.source))


def _of_log(log: LogView) -> Iterator[Named]:
    """The records of one log. A KRaftVersion record stands before the KRaftVoters that it allows,
    in the same batch.
    """
    version = 0
    for offset, epoch, row, control in log.control_records():
        if control.data is None:
            continue
        if control.type == KRAFT_VERSION:
            version = int(control.data["kRaftVersion"])
        if control.type not in (KRAFT_VOTERS, LEADER_CHANGE) or not control.data["voters"]:
            continue
        listeners = "" if control.type == LEADER_CHANGE else repr(control.data["voters"])
        stamp = int(log.evidence.log.base_timestamps[row])
        members = voters_of(control.data)
        if control.type == KRAFT_VOTERS:
            version = max(version, 1)
        yield Named(offset, epoch, control.type, members, listeners, stamp, version)


def _of_snapshots(quorum: Quorum, log: LogView) -> Iterator[Named]:
    """What snapshots name whose own records the log no longer holds."""
    for one in quorum.snapshots_of(log.label):
        told = [control.data for _, control in one.controls if control.type == KRAFT_VOTERS]
        if not told or told[-1] is None or log.covers(0, one.end_offset):
            continue
        listeners = repr(told[-1]["voters"])
        members, stamp = voters_of(told[-1]), one.last_contained_timestamp
        yield Named(one.end_offset, one.epoch, "SNAPSHOT", members, listeners, stamp, 1)


def _is_same(before: Named, one: Named) -> bool:
    """Whether nothing changed; an election names voters by their ids, and no listeners."""
    if one.source == LEADER_CHANGE:
        return {voter for voter, _ in before.members} == {voter for voter, _ in one.members}
    return before.listeners == one.listeners and before.version == one.version


def _standing(quorum: Quorum, one: Named) -> str:
    """Whether a change is known to be committed: by one of the copies that hold it."""
    if one.source == "SNAPSHOT":
        return "committed"
    if any(one.offset < committed_in(quorum, label).offset for label in one.replicas):
        return "committed"
    tails = quorum.tail_starts
    if all(tails.get(label, one.offset + 1) <= one.offset for label in one.replicas):
        return "uncommitted"
    return "pending"


def _row(before: Named | None, one: Named, standing: str) -> Row:
    old = frozenset(before.members if before else ())
    new = frozenset(one.members)
    added, removed = _without_named(new, old), _without_named(old, new)
    # A voter whose directory one of two records does not name is the same voter in both.
    apart = disjoint_majorities(tuple(old), tuple((old - removed) | added))
    return {
        "offset": one.offset,
        "batch_leader_epoch": one.epoch,
        "timestamp": None if one.timestamp is None else moment(one.timestamp),
        "source": one.source,
        "replicas": one.replicas,
        "kraft_version": one.version,
        "voters": _texts(new),
        "added": _texts(added) if before else [],
        "removed": _texts(removed),
        "majority": len(new) // 2 + 1,
        "majorities_meet": apart is None if before else None,
        "standing": standing,
    }


def _without_named(some: frozenset[Member], others: frozenset[Member]) -> frozenset[Member]:
    """The members of one set that are not in the other."""
    known: dict[int, set[str | None]] = defaultdict(set)
    for voter, directory in others:
        known[voter].add(directory)
    return frozenset(
        (voter, directory)
        for voter, directory in some
        if voter not in known or (directory is not None and not known[voter] & {directory, None})
    )


def _texts(members: frozenset[Member]) -> list[str]:
    """`id`, or `id-directory` as `kafka-metadata-quorum` writes it."""
    ordered = sorted(members, key=lambda one: (one[0], one[1] or ""))
    return [f"{voter}-{directory}" if directory else str(voter) for voter, directory in ordered]
