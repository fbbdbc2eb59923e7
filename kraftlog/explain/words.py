"""Changes of the state as sentences that an operator reads: what it was, what it is.

In: a change of a row, and how topics are called. Out: one or more clauses, Kafka's names where a
person knows them from its tools.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kraftlog.plain import host_port
from kraftlog.relations import moment_text
from kraftlog.state.codes import (
    ACL_OPERATIONS,
    CONFIG_RESOURCES,
    MECHANISMS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
)
from kraftlog.state.declare import Data
from kraftlog.state.shapes import KRAFT_VERSION, LOST, MIGRATING, UNASSIGNED
from kraftlog.state.state import Change
from kraftlog.state.tables import TABLE

SILENT = frozenset({"partitionEpoch", "topicId", "partitionId", "directories"})
"""Fields whose change by itself tells a person nothing; JSON has them all."""


@dataclass(slots=True)
class TopicNames:
    """A topic's id → its name, as it was then: as the changes tell them."""

    known: dict[str, str] = field(default_factory=dict)

    def take(self, changes: Iterable[Change]) -> None:
        for one in changes:
            if one.table == "topics":
                self.known[one.key[0]] = (one.after or one.before or {})["name"]

    def __call__(self, topic_id: str) -> str:
        return self.known.get(topic_id, f"(id {topic_id})")


Names = Callable[[str], str]


def sentences(change: Change, names: Names, *, stands: bool = False) -> Iterator[str]:
    """What one change says: the object first, then from what to what. `stands`: nobody knows when
    it came, but that it is there.
    """
    title = object_name(change, names)
    before, after = change.before, change.after
    if after is None:
        yield f"{title} is {_GONE.get(change.table, 'removed')}"
    elif before is None:
        told = _CAME[change.table](after) if change.table in _CAME else "is set"
        came, stood = _STANDS.get(change.table, ("", ""))
        yield f"{title} {told.replace(came, stood, 1) if stands else told}"
    else:
        clauses = list(_changed(change.table, before, after)) or [_as_before(before, after)]
        colon = "" if clauses[0].startswith(("is ", "registers ", "begins ")) else ":"
        yield f"{title}{colon} {', '.join(clauses)}"


def object_name(change: Change, names: Names) -> str:
    """What a change is about."""
    value: Data = change.after or change.before or {}
    key = change.key
    match change.table:
        case "topics":
            return f"topic {value['name']} (id {key[0]})"
        case "partitions":
            return f"partition {names(key[0])}-{key[1]}"
        case "configs":
            whose = CONFIG_RESOURCES.get(key[0], "unknown resource")
            return f"config {key[2]} of {whose} {key[1] or '(default of all)'}"
        case "acls":
            return acl_text(value)
        case "scram_credentials":
            return f"{_named(MECHANISMS, value['mechanism'])} credential of user {value['name']}"
        case "client_quotas":
            whom = (
                f"{one['entityType']} {one['entityName'] or '(default)'}" for one in value["entity"]
            )
            return f"quota {value['key']} of {', '.join(whom)}"
        case "delegation_tokens":
            return f"delegation token {value['tokenId']} of {value['owner']}"
        case "voters":
            return f"voter {key[0]} (directory {key[1]})"
        case "kraft_version":
            return f"feature {KRAFT_VERSION}"
    return f"{TABLE[change.table].noun[0]} {' '.join(map(str, key))}".rstrip()


MOVES = frozenset(
    {
        "leader",
        "isr",
        "leaderEpoch",
        "partitionEpoch",
        "eligibleLeaderReplicas",
        "lastKnownElr",
        "leaderRecoveryState",
    }
)
"""Fields of a partition that the controller sets anew whenever brokers come and go."""


def is_move(change: Change) -> bool:
    """Whether a partition has only moved among its replicas."""
    before, after = change.before, change.after
    if change.table != "partitions" or before is None or after is None:
        return False
    return all(before[name] == after[name] for name in before if name not in MOVES)


_KIND = re.compile(
    "^(topic|partition|config|ACL|quota|delegation token|feature|broker|controller|voter) "
)


def plain_name(change: Change, names: Names) -> str:
    """The same without the kind of object, and without the id of a topic."""
    value: Data = change.after or change.before or {}
    if change.table == "topics":
        return str(value["name"])
    if change.table == "scram_credentials":
        return scram_user_text(value["mechanism"], value["name"])
    if change.table == "kraft_version":
        return str(value["kRaftVersion"])
    return _KIND.sub("", object_name(change, names))


def scram_user_text(mechanism: int, name: str) -> str:
    """A user, and the mechanism by which it logs in."""
    return f"{name} ({_named(MECHANISMS, mechanism)})"


def acl_text(value: Data) -> str:
    """An ACL as `kafka-acls` describes it."""
    resource = _named(RESOURCE_TYPES, value["resourceType"])
    pattern = _named(PATTERN_TYPES, value["patternType"])
    operation = _named(ACL_OPERATIONS, value["operation"])
    who = f"{_named(PERMISSIONS, value['permissionType'])} {value['principal']}"
    where = f"{resource} {pattern} {value['resourceName']}"
    return f"ACL {who} {operation} on {where} from {value['host']}"


def _named(names: tuple[str, ...], code: int) -> str:
    return names[code] if 0 <= code < len(names) else f"({code})"


def leader_text(leader: int) -> str:
    """A partition's leader, or that it has none."""
    return "none" if leader < 0 else str(leader)


def _changed(table: str, before: Data, after: Data) -> Iterator[str]:
    if table == "brokers":
        yield from _broker_changed(before, after)
        return
    if table == "controllers" and before["incarnationId"] != after["incarnationId"]:
        yield f"registers again (a new start of its process), {_ranges(after)}"
        yield from _fields_changed(before, after, ("endPoints",))
        return
    for name in after:
        was, now = before.get(name), after[name]
        if was != now and name not in SILENT:
            yield f"{_FIELDS.get(name, name)} {_value(name, was)} → {_value(name, now)}".strip()
    if table == "partitions":
        yield from _moved(before, after)
        if before["leader"] < 0 <= after["leader"] or _is_unclean(before, after):
            yield _election(before, after)


def _as_before(before: Data, after: Data) -> str:
    """What is to be said where nothing is; each record of a partition counts its epoch up by one."""
    count = after.get("partitionEpoch", 0) - before.get("partitionEpoch", 0)
    return f"is as it was, after {count:,} changes" if count > 1 else "is written again as it was"


def _moved(before: Data, after: Data) -> Iterator[str]:
    """The log directories of replicas that stay on their brokers, and lie in another one."""
    was, now = (
        dict(zip(one["replicas"], one["directories"], strict=False)) for one in (before, after)
    )
    for broker in sorted(was.keys() & now.keys()):
        if was[broker] != now[broker]:
            places = [str(_DIRECTORIES.get(one[broker], one[broker])) for one in (was, now)]
            yield f"log directory on broker {broker} {' → '.join(places)}"


def _is_unclean(before: Data, after: Data) -> bool:
    """Whether a partition that had a leader got one that was not in sync, and not by a reassignment."""
    leader, known = after["leader"], (*before["isr"], *before["eligibleLeaderReplicas"])
    is_moved = leader not in (-1, before["leader"]) and before["replicas"] == after["replicas"]
    return is_moved and bool(after["leaderRecoveryState"]) and leader not in known


def _election(before: Data, after: Data) -> str:
    """How a partition that had no leader got one; one that was elected uncleanly before may still be
    marked as recovering. Source: KIP-966, PartitionChangeBuilder.isValidNewLeader.
    """
    leader = after["leader"]
    if leader in before["isr"]:
        return "elected from the ISR"
    if leader in before["eligibleLeaderReplicas"]:
        return "elected from the ELR"
    return "an unclean election: records may be lost" if after["leaderRecoveryState"] else "elected"


def _broker_changed(before: Data, after: Data) -> Iterator[str]:
    if before["incarnationId"] != after["incarnationId"]:
        yield f"registers again with epoch {after['brokerEpoch']} (a new start of its process)"
    elif before["brokerEpoch"] != after["brokerEpoch"]:
        yield f"registers again with epoch {after['brokerEpoch']}"
    if before["fenced"] != after["fenced"]:
        yield "is fenced (it does not answer, or is stopping)" if after["fenced"] else "is unfenced"
    if after["inControlledShutdown"] and not before["inControlledShutdown"]:
        yield "begins its controlled shutdown"
    yield from _fields_changed(before, after, ("rack", "logDirs", "cordonedLogDirs", "endPoints"))


def _fields_changed(before: Data, after: Data, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        was, now = before.get(name), after.get(name)
        if was != now and (was or now):
            yield f"{_FIELDS.get(name, name)} {_value(name, was)} → {_value(name, now)}"


_FIELDS: Mapping[str, str] = {
    "isr": "ISR",
    "leaderEpoch": "leader epoch",
    "replicas": "replicas",
    "addingReplicas": "adding replicas",
    "removingReplicas": "removing replicas",
    "eligibleLeaderReplicas": "ELR",
    "lastKnownElr": "last known ELR",
    "leaderRecoveryState": "recovery",
    "featureLevel": "level",
    "nextProducerId": "",
    "kRaftVersion": "level",
    "endPoints": "listeners",
    "endpoints": "listeners",
    "kRaftVersionFeature": "supported kraft.version",
    "logDirs": "log directories",
    "cordonedLogDirs": "cordoned log directories",
    "expirationTimestamp": "expires",
}
_DIRECTORIES = {MIGRATING: "unknown", UNASSIGNED: "unassigned", LOST: "lost"}


def _value(name: str, value: Any) -> str:
    if name == "leader":
        return leader_text(value)
    if name == "leaderRecoveryState":
        return "recovering (elected uncleanly)" if value else "recovered"
    if name in ("endPoints", "endpoints"):
        return _listeners(value)
    if name == "kRaftVersionFeature":
        return f"{value['minSupportedVersion']} to {value['maxSupportedVersion']}"
    if name.endswith("Timestamp"):
        return moment_text(value)
    if value is None:
        return "nothing"
    return repr(value) if isinstance(value, str) else str(value)


def _listeners(endpoints: Any) -> str:
    return (
        ", ".join(f"{one['name']}://{host_port(one['host'], one['port'])}" for one in endpoints)
        or "none"
    )


def _ranges(value: Data) -> str:
    found = {one["name"]: one for one in value["features"]}
    own = found.get("metadata.version")
    if own is None:
        return "with no range of metadata.version"
    low, high = own["minSupportedVersion"], own["maxSupportedVersion"]
    return f"supports metadata.version {low} to {high}"


def _partition(value: Data) -> str:
    told = f"is created: replicas {value['replicas']}, leader {leader_text(value['leader'])}, ISR {value['isr']}"
    if value["eligibleLeaderReplicas"]:
        told += f", ELR {value['eligibleLeaderReplicas']}"
    return told


def _token(value: Data) -> str:
    asked = value["requester"]
    by = f" by {asked}" if asked and asked != value["owner"] else ""
    return f"is made{by}, renewers {value['renewers']}, expires {moment_text(value['expirationTimestamp'])}"


_CAME: Mapping[str, Callable[[Data], str]] = {
    "topics": lambda value: "is created",
    "partitions": _partition,
    "configs": lambda value: f"is set to {value['value']!r}",
    "acls": lambda value: "is added",
    "scram_credentials": lambda value: f"is added, {value['iterations']} iterations",
    "client_quotas": lambda value: f"is set to {value['value']}",
    "delegation_tokens": _token,
    "brokers": lambda value: (
        f"registers with epoch {value['brokerEpoch']}, rack {value['rack'] or 'none'}, {_listeners(value['endPoints'])}, {'fenced' if value['fenced'] else 'unfenced'}"
    ),
    "controllers": lambda value: f"registers, {_ranges(value)}",
    "features": lambda value: f"is set to level {value['featureLevel']}",
    "voters": lambda value: f"becomes a voter, {_listeners(value['endpoints'])}",
    "producer_ids": lambda value: f"is {value['nextProducerId']}",
    "kraft_version": lambda value: f"is set to level {value['kRaftVersion']}",
}
_STANDS = {
    "topics": ("is created", "exists"),
    "partitions": ("is created", "exists"),
    "acls": ("is added", "exists"),
    "scram_credentials": ("is added", "exists"),
    "delegation_tokens": ("is made", "exists"),
    "brokers": ("registers", "is registered"),
    "controllers": ("registers", "is registered"),
    "voters": ("becomes a voter", "is a voter"),
}
"""How it is said that an object came, and how that it is there."""
_GONE = {
    "brokers": "unregistered",
    "controllers": "unregistered",
    "voters": "no voter any more",
    "features": "set to level 0",
}
