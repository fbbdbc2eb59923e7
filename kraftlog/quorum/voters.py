"""Who votes: the sets that the evidence names, each with its source, and the one that counts now; and
where nodes say that controllers are.

In: the views of all logs and snapshots, and the side files. Out: frozen voter sets; places by
listener, and those of the static list of voters. A host that says "all interfaces" is no place:
then only the port counts. Source: KIP-853, KIP-595, KIP-630 "Design", strimzi#6862, KAFKA-16526,
KAFKA-17608, KIP-1347, Kafka's SocketServerConfigs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from itertools import pairwise

from kraftlog.plain import host_port, some
from kraftlog.quorum import settings
from kraftlog.quorum.content import KRAFT_VOTERS, LEADER_CHANGE
from kraftlog.quorum.evidence import Described, ReplicaEvidence
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.snapshots import SnapshotView, by_replica, listeners_of, voters_of
from kraftlog.state.declare import Data

Members = tuple[tuple[int, str | None], ...]
"""(voter id, directory id), sorted; directory ids are None where the source does not know them."""


def is_named(members: Members, node: int | None, directory: str | None) -> bool:
    """Whether a set names a node with its disk; the id alone tells where either knows no
    directory.
    """
    return any(
        node == one and (known is None or directory in (None, known)) for one, known in members
    )


def votes_needed(members: Members) -> int:
    """How many votes elect a leader among them."""
    return len({node for node, _ in members}) // 2 + 1


LEADER = "the leader"
"""In place of a replica, of what a describe says."""
_DIGITS = 10
"""Of the largest node id."""


@dataclass(frozen=True, slots=True)
class VoterSet:
    """A set of voters, where it is written, the (epoch, end offset) up to which it was seen to
    hold, and the (epoch, offset) from which on it does, where that is known. `listeners` are those
    of each voter, in capitals, by a KRaftVoters record.
    """

    members: Members
    source: str
    replica: str
    path: str | None
    offset: int | None
    seen: tuple[int, int]
    since: tuple[int, int] = field(default=(0, 0), compare=False)
    listeners: Mapping[int, frozenset[str]] = field(default_factory=dict, compare=False)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted({one for one, _ in self.members}))

    @property
    def place(self) -> str:
        """Where it is written, in words."""
        if self.replica == LEADER:
            return "kafka-metadata-quorum describe"
        article = "" if self.source.startswith("the ") else "the "
        return f"{article}{self.source} of replica {self.replica}"


def log_voter_records(log: LogView) -> Iterator[tuple[int, int, int, Members]]:
    """(offset, epoch, row, members) of each KRaftVoters record in a log that names a voter; without
    one it is no set of voters.
    """
    for offset, epoch, row, data in _voter_records(log):
        if data["voters"]:
            yield offset, epoch, row, voters_of(data)


def records_without_voters(log: LogView) -> Iterator[tuple[int, int]]:
    """(offset, row) of each KRaftVoters record in a log that names nobody."""
    return ((offset, row) for offset, _, row, data in _voter_records(log) if not data["voters"])


def _voter_records(log: LogView) -> Iterator[tuple[int, int, int, Data]]:
    for offset, epoch, row, control in log.control_records():
        if control.type == KRAFT_VOTERS and control.data is not None:
            yield offset, epoch, row, control.data


def by_records(logs: Iterable[LogView], snapshots: Iterable[SnapshotView]) -> Iterator[VoterSet]:
    """For each replica the newest set that KRaftVoters records give, as seen at the end of its
    log.
    """
    own = by_replica(snapshots)
    for log in logs:
        yield from _recorded(log, own.get(log.label, ()))[-1:]


def every_recorded(logs: Iterable[LogView], snapshots: Iterable[SnapshotView]) -> Iterator[Members]:
    """Each set that a KRaftVoters or a LeaderChange record names."""
    own = by_replica(snapshots)
    for log in logs:
        yield from (one.members for one in _recorded(log, own.get(log.label, ())))
        for one in log.elections.values():
            yield tuple((voter, None) for voter in sorted(one.voters))


def stranger_text(label: str, node: int) -> str:
    """That a copy's quorum-state names a node of which nothing else tells, in words."""
    return f"the quorum-state of replica {label} names node {node}, which votes by nothing at hand"


def replaced_sets(log: LogView, snapshots: Iterable[SnapshotView]) -> Iterator[tuple[int, Members]]:
    """Each set of a replica's KRaftVoters records that another one replaced, and the last offset at
    which that one may stand.
    """
    for before, after in pairwise(_recorded(log, snapshots)):
        yield after.since[1] - 1, before.members


def _recorded(log: LogView, snapshots: Iterable[SnapshotView]) -> list[VoterSet]:
    """The sets that the KRaftVoters records of a replica give, in the order of the log."""
    found = []
    end = log.newness
    for offset, epoch, row, data in _voter_records(log):
        name, since = f"the KRaftVoters record at offset {offset}", (epoch, offset + 1)
        where = log.label, log.path(row), offset
        if data["voters"]:
            members = voters_of(data)
            found.append(VoterSet(members, name, *where, end, since, listeners_of(data)))
    for one in snapshots:
        if one.replica == log.label and one.is_live and one.voters:
            own = set_of_snapshot(one)
            found.append(replace(own, seen=max(one.id, end)) if one.end_offset <= end[1] else own)
    # A batch of another cluster can have a newer epoch than what follows it.
    return sorted(found, key=lambda one: (one.since[1], one.since[0]))


def set_of_snapshot(one: SnapshotView) -> VoterSet:
    """The set that the KRaftVoters record of a snapshot gives, as seen at its end."""
    name = f"the KRaftVoters record of {one.evidence.name}"
    where, voters = (one.replica, one.path, one.end_offset), one.voters or ()
    return VoterSet(voters, name, *where, one.id, one.id, one.voter_listeners)


def by_quorum_state(replicas: Iterable[ReplicaEvidence]) -> Iterator[VoterSet]:
    """The sets of `quorum-state` files of version 0, where they name any voter."""
    for one in replicas:
        state = one.state_file
        if state is not None and state.voters and one.quorum_state is not None:
            members = tuple(sorted((voter, None) for voter in set(state.voters)))
            path = one.quorum_state.path
            seen = (state.leader_epoch, 0)
            yield VoterSet(members, "quorum-state", one.label, path, None, seen)


def by_configuration(replicas: Iterable[ReplicaEvidence]) -> Iterator[VoterSet]:
    """The sets of `controller.quorum.voters` in a server.properties beside a log."""
    for one in replicas:
        file, text = one.server_properties, one.setting(settings.VOTERS)
        if file is None or text is None:
            continue
        ids = {part.split("@")[0].strip() for part in text.split(",") if "@" in part}
        if ids and all(part.isdecimal() and len(part) <= _DIGITS for part in ids):
            members = tuple(sorted((int(part), None) for part in ids))
            yield VoterSet(members, settings.VOTERS, one.label, file.path, None, (0, 0))


def has_other_setting(one: ReplicaEvidence) -> bool:
    """Whether a node's quorum-state of version 0 names other voters than its settings do: Kafka
    before 3.8 ends with "Configured voter set … is different from the voter set read from the state
    file" (seen of Kafka 3.7.2; KAFKA-16526).
    """
    states = [state.ids for state in by_quorum_state([one])]
    return bool(states) and any(setting.ids not in states for setting in by_configuration([one]))


def by_elections(logs: Iterable[LogView]) -> Iterator[VoterSet]:
    """The set that each log's newest LeaderChange record names; Kafka has no other source in an
    old copy without side files.
    """
    for log in logs:
        for row in reversed(log.rows[log.remarkable].tolist()):
            found = [one.data for one in log.controls(row) if one.type == LEADER_CHANGE]
            if found and found[-1] is not None and found[-1]["voters"]:
                members = voters_of(found[-1])
                offset = int(log.evidence.log.base_offsets[row])
                seen = log.newness
                name = f"the LeaderChange record at offset {offset}"
                yield VoterSet(members, name, log.label, log.path(row), offset, seen)
                break


def by_describe(described: Described | None) -> Iterator[VoterSet]:
    """The set that a describe names, as its leader knew it."""
    if described is not None and described.voters:
        members = tuple((voter, None) for voter in described.voters)
        seen = (described.leader_epoch or 0, described.high_watermark or 0)
        yield VoterSet(members, "the describe", LEADER, None, None, seen)


def current(candidates: Iterable[VoterSet]) -> VoterSet | None:
    """The set that came last in the logs of the newest epoch, however few of them reach it: a set
    counts as soon as it is written (KIP-853). Where no offset tells, most copies do, then the
    furthest.
    """
    every = list(candidates)
    if not every:
        return None
    newest = max(one.seen[0] for one in every)
    able = [one for one in every if one.seen[0] == newest]
    count = Counter(one.members for one in able)
    return max(able, key=lambda one: (one.since, count[one.members], one.seen))


def disjoint_majorities(
    one: Members, other: Members
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """A majority of each of two sets that share no voter, by their ids; None where any two share
    one. Sets that differ by a single voter always do: that is why voters change one at a time. The
    id alone tells a voter where one of the sets knows no directories.
    """
    by_id = any(directory is None for _, directory in (*one, *other))
    mine = [(node, None) for node, _ in one] if by_id else list(one)
    theirs = [(node, None) for node, _ in other] if by_id else list(other)
    shared = set(mine) & set(theirs)
    common = [voter for voter in mine if voter in shared]
    first = [voter for voter in mine if voter not in shared]
    second = [voter for voter in theirs if voter not in shared]
    lacks_first = max(0, len(mine) // 2 + 1 - len(first))
    lacks_second = max(0, len(theirs) // 2 + 1 - len(second))
    if lacks_first + lacks_second > len(common):
        return None
    chosen = first[: len(mine) // 2 + 1] + common[:lacks_first]
    against = second[: len(theirs) // 2 + 1] + common[lacks_first : lacks_first + lacks_second]
    return tuple(sorted(node for node, _ in chosen)), tuple(sorted(node for node, _ in against))


def members_text(ids: Iterable[int], members: Members, other: Members) -> str:
    """Voters of a set in words, with their directories where another set has other ones for them."""

    def directories(node: int, held: Members) -> list[str]:
        return [one for voter, one in held if voter == node and one]

    def text(node: int) -> str:
        mine, theirs = directories(node, members), directories(node, other)
        if not mine or not theirs or mine == theirs:
            return str(node)
        return f"{node} in directory {'/'.join(mine)}"

    return some([text(node) for node in ids], 9)


def log_voter_changes(log: LogView) -> Iterator[tuple[VoterSet, VoterSet]]:
    """Each set that a log's records give, and the one after it: those of KRaftVoters records, or,
    in a log without any, of LeaderChange records.
    """
    found = [
        (offset, members, "KRaftVoters record")
        for offset, _, _, members in log_voter_records(log)
    ] or [
        (start.start_offset, tuple((node, None) for node in sorted(election.voters)),
         "LeaderChange record")
        for start in log.epoch_starts
        if (election := log.elections.get(start.epoch)) is not None and election.voters
    ]  # fmt: skip
    sets = [
        VoterSet(members, f"the {source} at offset {offset}", log.label, None, offset, (0, offset))
        for offset, members, source in found
    ]
    yield from pairwise(sets)


# --- where they are ------------------------------------------------------------------------------

_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d{1,5})")
_VOTER = re.compile(r"(?P<id>\d{1,10})@(?P<place>.+:\d{1,5})")
_ANYWHERE = frozenset({"", "0.0.0.0", "::"})


def configured_places(replica: ReplicaEvidence) -> dict[str, str]:
    """host:port of each listener for controllers, as a node tells it to others; ":port" where it
    names no host.
    """
    wanted = replica.setting_list(settings.CONTROLLERS)
    places: dict[str, str] = {}
    for key in settings.LISTENERS:
        # Part by part: a search through all of it would take its time by the square.
        for part in replica.setting_list(key):
            found = _LISTENER.fullmatch(part)
            if found is not None and found["name"] in wanted:
                host = found["host"].strip("[]")
                shown = "" if host in _ANYWHERE else host
                places[found["name"]] = host_port(shown, found["port"])
    return places


def looking_listener(replica: ReplicaEvidence) -> str | None:
    """The listener at which a node looks for the voters: the first that its file names for
    controllers (Kafka's KafkaRaftManager).
    """
    return next(iter(replica.setting_list(settings.CONTROLLERS)), None)


def static_places(replica: ReplicaEvidence) -> dict[int, str]:
    """Where a node looks for each voter by controller.quorum.voters."""
    found = map(_VOTER.fullmatch, replica.setting_list(settings.VOTERS))
    return {int(one["id"]): one["place"] for one in found if one is not None}


def places_of(endpoints: list[Data]) -> dict[str, str]:
    """host:port by listener, of a record's endpoints."""
    return {one["name"]: host_port(one["host"], one["port"]) for one in endpoints}


def contradictions(known: dict[str, str], told: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """(listener, one place, the other) of each listener that both name, at different places."""
    for name, place in known.items():
        other = told.get(name)
        if other is not None and not _is_same_place(place, other):
            yield name, place, other


def _is_same_place(place: str, other: str) -> bool:
    if place.startswith(":") or other.startswith(":"):
        return place.rpartition(":")[2] == other.rpartition(":")[2]
    return _as_meant(place) == _as_meant(other)


def _as_meant(place: str) -> tuple[str, str]:
    """Host and port: names have no case, and Kafka may write ::1 as 0:0:0:0:0:0:0:1."""
    host, _, port = place.rpartition(":")
    host = host.strip("[]").lower()
    with suppress(ValueError):
        host = str(ip_address(host))
    return host, port
