"""What a timeline is about: the words of a person → a `Subject`, which knows its own changes.

In: `topic orders`, `orders-3`, `broker 12`, `config topic/orders`, `User:alice`, `100-140`. Out: a
frozen value that says which state tables it lives in, and whether a change is about it. Topics
created again under one name are one subject, told one after the other.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kraftlog.errors import UsageError
from kraftlog.log.names import LAST_OFFSET
from kraftlog.plain import listed
from kraftlog.state.codes import CONFIG_RESOURCES
from kraftlog.state.declare import Data
from kraftlog.state.shapes import KRAFT_VERSION
from kraftlog.state.state import Change

TOPIC, BROKER = 2, 4
RESOURCES = {name.replace(" ", "-"): number for number, name in CONFIG_RESOURCES.items()}
"""Resource types of configs, each as one `--entity-type` of `kafka-configs`."""
_KINDS = {number: name for name, number in RESOURCES.items()}
QUOTA_ENTITIES = ("client-id", "user", "ip")
"""What a quota can be of. Source: Kafka's ClientQuotaEntity."""
Naming = Callable[[Data], Iterable[str]]
"""A row of a table → what a person calls it by."""


def _users_of(value: Data) -> Iterator[str]:
    """The principal that a quota is of."""
    return (
        f"User:{one['entityName']}"
        for one in value["entity"]
        if one["entityType"] == "user" and one["entityName"] is not None
    )


def _entities(value: Data) -> Iterator[str]:
    """All that a quota is of: `user/ann`, `client-id/` for the default of all."""
    return (f"{one['entityType']}/{one['entityName'] or ''}" for one in value["entity"])


def _configured(value: Data) -> Iterator[str]:
    """Whose config it is, and which: `topic/orders`, `topic/orders/retention.ms`."""
    kind = _KINDS.get(value["resourceType"], str(value["resourceType"]))
    yield f"{kind}/{value['resourceName']}"
    yield f"{kind}/{value['resourceName']}/{value['name']}"


_TABLES: Mapping[str, Mapping[str, Naming | None]] = {
    "topic": {"topics": lambda value: (value["name"],), "partitions": None, "configs": None},
    "partition": {"topics": None, "partitions": None},
    "broker": {"brokers": lambda value: (str(value["brokerId"]),), "configs": None},
    "controller": {
        "controllers": lambda value: (str(value["controllerId"]),),
        "voters": lambda value: (str(value["voterId"]),),
    },
    "config": {"configs": _configured},
    "principal": {
        "acls": lambda value: (value["principal"],),
        "scram_credentials": lambda value: (f"User:{value['name']}",),
        "client_quotas": _users_of,
        "delegation_tokens": lambda value: (value["owner"], value["requester"], *value["renewers"]),
    },
    "quota": {"client_quotas": _entities},
    "feature": {
        "features": lambda value: (value["name"],),
        "kraft_version": lambda value: (KRAFT_VERSION,),
    },
    "offsets": {},
}
"""The tables that a kind of subject lives in, and how their rows are called where that is by a name."""
FORMS = "topic NAME, partition NAME-N, broker ID, controller ID, config topic/NAME, principal User:NAME, quota client-id/NAME, feature NAME, or offsets A-B"
_OFFSETS = re.compile(r"(\d+)(?:\s*(?:-|\.\.|to)\s*(\d+))?")
_DEFAULTS = ("<default>", "(default)")
"""How Kafka's tools, and we, call what is of none by name."""
_PARTITION = re.compile(r"(.+)-(\d+)")


@dataclass(slots=True)
class Subject:
    """One thing to explain: its kind and name, and the tables that its changes lie in.

    `ids` gathers the ids of the topics that have had its name, as they come; `first` and `end` are
    those of a range of offsets, `end` exclusive.
    """

    kind: str
    name: str
    tables: frozenset[str]
    number: int = -1
    key: str | None = None
    first: int = 0
    end: int = 0
    ids: set[str] = field(default_factory=set)

    @property
    def title(self) -> str:
        """How it is called in a heading."""
        if self.kind == "config":
            key = f" {self.key}" if self.key else ""
            whose = CONFIG_RESOURCES[self.number]
            return f"config{key} of {whose} {self.name or '(default of all)'}"
        if self.kind == "quota":
            entity, _, name = self.name.partition("/")
            return f"quotas of {entity} {name or '(default)'}"
        return f"{self.kind} {self.name}"

    @property
    def topic(self) -> str | None:
        """The name or id of the only topic whose partitions it asks for."""
        return {"topic": self.name, "partition": self.key}.get(self.kind)

    @property
    def bearer(self) -> tuple[str, str]:
        """The kind and name of what must be there for anything to be told: a partition's topic."""
        if self.kind == "config":
            whose = f"{_KINDS[self.number]}/{self.name}"
            return self.kind, f"{whose}/{self.key}" if self.key else whose
        return ("topic", self.key or "") if self.kind == "partition" else (self.kind, self.name)

    def of(self, changes: Iterable[Change]) -> tuple[Change, ...]:
        """The changes that are about it; a topic must be shown before its partitions."""
        return tuple(one for one in changes if self._is_about(one))

    def _is_about(self, change: Change) -> bool:
        value: Data = change.after or change.before or {}
        if self.kind == "offsets":
            return True
        if self.kind in ("topic", "partition"):
            return self._of_topic(change, value)
        if self.kind == "config":
            whose = change.table == "configs" and change.key[:2] == (self.number, self.name)
            return whose and self.key in (None, change.key[2])
        if self.kind in ("principal", "quota", "feature"):
            return self.name in names_in(change, self.kind)
        if change.table == "configs":
            return self.kind == "broker" and change.key[:2] == (BROKER, self.name)
        return bool(change.key[0] == self.number)

    def _of_topic(self, change: Change, value: Data) -> bool:
        if change.table == "topics":
            if self.topic in (value["name"], change.key[0]):
                self.ids.add(change.key[0])
                return True
            return False
        if change.table == "partitions":
            mine = self.kind == "topic" or change.key[1] == self.number
            return mine and change.key[0] in self.ids
        return self.kind == "topic" and change.key[:2] == (TOPIC, self.name)


def names_in(change: Change, kind: str) -> set[str]:
    """How a person who asks for a kind of subject calls what a change is about, before and after,
    where that has a name.
    """
    named = _TABLES[kind].get(change.table) or (lambda value: ())
    return {name for one in (change.before, change.after) if one for name in named(one)}


def every(kind: str) -> Subject:
    """All that a kind of subject has a name for; it lives in no table where the kind has none."""
    named = (table for table, naming in _TABLES[kind].items() if naming is not None)
    return Subject("every", kind, frozenset(named))


def subject_of(words: Sequence[str]) -> Subject:
    """What the words mean.

    Raises UsageError where they mean nothing, with the forms that do."""
    text = " ".join(words).strip()
    kind, _, rest = text.partition(" ")
    if not rest and ":" in text and text.split(":")[0] in _TABLES:
        kind, _, rest = text.partition(":")
    if kind in _TABLES and rest:
        return _named(kind, rest.strip())
    if text.startswith("User:"):
        return _named("principal", text)
    if _OFFSETS.fullmatch(text):
        return _named("offsets", text)
    if text in _TABLES:
        raise UsageError(f"{text!r} alone names no object: say {FORMS}")
    if not text or rest:
        raise UsageError(f"{text!r} is nothing that can be explained: say {FORMS}")
    return _named("topic", text)


def subjects_of(words: Sequence[str]) -> list[Subject]:
    """What the words can mean, the likeliest first: `orders-3` is a topic, else a partition, what
    follows the last slash a config's key, else the end of a group's name, and <default> one of that
    name, else the default.
    """
    found = subject_of(words)
    is_bare = len(words) == 1 and found.kind == "topic" and found.name == words[0]
    if is_bare and _PARTITION.fullmatch(found.name):
        return [found, _named("partition", found.name)]
    if found.kind == "config" and found.key and found.number not in (TOPIC, BROKER):
        name = f"{found.name}/{found.key}"
        return [found, Subject("config", name, found.tables, number=found.number)]
    before, slash, name = found.name.rpartition("/")
    if found.kind in ("config", "quota") and name in _DEFAULTS:
        return [found, replace(found, name=before + slash)]
    return [found]


def _named(kind: str, name: str) -> Subject:
    tables = frozenset(_TABLES[kind])
    if kind == "offsets":
        found = _OFFSETS.fullmatch(name)
        if found is None:
            raise UsageError(f"{name!r} is not a range of offsets: write 100-140")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise UsageError(f"{name!r} ends before it begins: write 100-140")
        if last > LAST_OFFSET:
            raise UsageError(f"{name!r} goes beyond the last offset that there can be")
        return Subject(kind, name, tables, first=first, end=last + 1)
    if kind in ("broker", "controller"):
        if not name.isdecimal():
            raise UsageError(f"{name!r} is not a node id: write {kind} 12")
        return Subject(kind, name, tables, number=int(name))
    if kind == "partition":
        found = _PARTITION.fullmatch(name)
        if found is None:
            raise UsageError(f"{name!r} is not a partition: write partition orders-3")
        return Subject(kind, name, tables, number=int(found[2]), key=found[1])
    if kind == "config":
        return _config(name, tables)
    if kind == "quota" and name.partition("/")[0] not in QUOTA_ENTITIES:
        raise UsageError(
            f"{name!r} is no entity of a quota: write quota client-id/NAME, user/NAME or ip/NAME, without a NAME for the default"
        )
    if kind == "principal" and ":" not in name:
        name = f"User:{name}"
    return Subject(kind, name, tables)


def _config(name: str, tables: frozenset[str]) -> Subject:
    kind, _, rest = name.partition("/")
    kind = kind.replace("_", "-")
    resource, _, key = rest.rpartition("/") if "/" in rest else (rest, "", "")
    if kind not in RESOURCES:
        raise UsageError(
            f"{name!r} is not a config: write config topic/orders or broker/12; there are also {listed(list(RESOURCES)[2:])}"
        )
    return Subject("config", resource, tables, number=RESOURCES[kind], key=key or None)
