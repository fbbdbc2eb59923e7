"""Who asked for a change: lines of a `kafka-authorizer.log` beside the records that they led to.

In: the text of the log that the controllers' authorizer wrote at DEBUG (allowed requests) or INFO
(refused ones). Out: `Access`es, and for a record those that may have caused it: an allowed request
of a kind that writes such records, on the resource that it changed, a little before it. A record
names no principal, so that this is never more than likely. Source: Kafka's StandardAuthorizer
(`logAuditMessage`), its default log pattern.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kraftlog.explain.moments import Moment
from kraftlog.state.state import Change

BEFORE_MS, AFTER_MS = 5_000, 1_000
"""A record is written a moment after its request; clocks and log lines may be a little off."""

_LINE = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] \w+ Principal = (?P<principal>.+?) is "
    r"(?P<result>Allowed|Denied) operation = (?P<operation>\w+) from host = (?P<host>\S+) on "
    r"resource = (?P<type>\w+):(?P<pattern>\w+):(?P<name>.*?) for request = (?P<request>\w+)"
)
_ALTER = ("IncrementalAlterConfigs", "AlterConfigs")
_REQUESTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "topics": (("CreateTopics",), (), ("DeleteTopics",)),
    "partitions": (
        ("CreateTopics", "CreatePartitions"),
        ("AlterPartitionReassignments", "ElectLeaders"),
        ("DeleteTopics",),
    ),
    "configs": ((*_ALTER, "CreateTopics"), _ALTER, (*_ALTER, "DeleteTopics")),
    "acls": (("CreateAcls",), (), ("DeleteAcls",)),
    "client_quotas": (("AlterClientQuotas",),) * 3,
    "scram_credentials": (("AlterUserScramCredentials",),) * 3,
    "delegation_tokens": (
        ("CreateDelegationToken",), ("RenewDelegationToken",), ("ExpireDelegationToken",),
    ),
    "features": (("UpdateFeatures",),) * 3,
    "kraft_version": (("UpdateFeatures",),) * 3,
    "brokers": ((), (), ("UnregisterBroker",)),
    "controllers": ((), (), ("UnregisterController",)),
    "voters": (("AddRaftVoter",), ("UpdateRaftVoter",), ("RemoveRaftVoter",)),
}  # fmt: skip
"""Which requests add, change and remove rows of the state."""
_RESOURCE = {2: "Topic", 32: "Group"}


@dataclass(frozen=True, slots=True)
class Access:
    """One line of the authorizer's log; `timestamp` in ms, taken as UTC."""

    timestamp: int
    principal: str
    host: str
    operation: str
    resource_type: str
    resource_name: str
    request: str
    allowed: bool

    def as_row(self) -> dict[str, Any]:
        """For scripts."""
        shown = ("principal", "host", "operation", "request", "timestamp")
        return {name: getattr(self, name) for name in shown}

    def __str__(self) -> str:
        return f"{self.principal} from {self.host} ({self.request})"


def read_accesses(lines: Iterable[str]) -> Iterator[Access]:
    """The accesses of a log; lines of another form are passed over."""
    for line in lines:
        found = _LINE.search(line)
        time = None if found is None else _time_ms(found["time"])
        if found is None or time is None:
            continue
        yield Access(
            time,
            found["principal"],
            found["host"],
            found["operation"],
            found["type"],
            found["name"],
            found["request"],
            found["result"] == "Allowed",
        )


def _time_ms(text: str) -> int | None:
    """A time of the log as UTC; None where no calendar has it."""
    try:
        time = datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f")
    except ValueError:
        return None
    return int(time.replace(tzinfo=UTC).timestamp() * 1000)


def who_wrote(
    one: Moment, changes: Sequence[Change], topics: Mapping[str, str], accesses: Sequence[Access]
) -> tuple[Access, ...]:
    """The accesses, of a list sorted by time, that may have led to a record: those that name what
    it changed, else those on the cluster as a whole; each principal and request once.
    """
    first = bisect_left(accesses, one.timestamp - BEFORE_MS, key=lambda access: access.timestamp)
    end = bisect_right(accesses, one.timestamp + AFTER_MS, key=lambda access: access.timestamp)
    fitting = [
        access
        for access in accesses[first:end]
        if access.allowed and any(_writes(access, change) for change in changes)
    ]
    named = [one for one in fitting if any(_names(one, change, topics) for change in changes)]
    found = named or [one for one in fitting if one.resource_type == "Cluster"]
    return tuple({(one.principal, one.host, one.request): one for one in found}.values())


def _writes(access: Access, change: Change) -> bool:
    adds, alters, removes = _REQUESTS.get(change.table, ((), (), ()))
    if change.before is None:
        return access.request in adds
    return access.request in (removes if change.after is None else alters)


def _names(access: Access, change: Change, topics: Mapping[str, str]) -> bool:
    """Whether a request's resource is the very object that changed."""
    value: Any = change.after or change.before or {}
    resource = (access.resource_type, access.resource_name)
    if change.table == "topics":
        return resource == ("Topic", value["name"])
    if change.table == "partitions":
        return resource == ("Topic", topics.get(change.key[0]))
    is_config = change.table == "configs"
    return is_config and resource == (_RESOURCE.get(change.key[0]), change.key[1])
