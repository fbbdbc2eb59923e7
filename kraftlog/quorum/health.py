"""What the newest state says of the running cluster: partitions without a leader, brokers that are
fenced, features, voters; and since when.

In: a state, and what changed on the way to it. Out: a frozen `Health`, which the health checks
judge. Partitions are looked at by columns; those that nothing is to be said of are only counted.
Source: KIP-631, KIP-853, KIP-966 (ELR); of ACLs StandardAcl, AclCache and AclControlManager.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraftlog.quorum.topic_configs import RefusedConfig, refused_configs
from kraftlog.state.declare import Data, Key
from kraftlog.state.fold import Led
from kraftlog.state.partition_events import Flags, Longs
from kraftlog.state.shapes import LOST, MIGRATING, UNASSIGNED
from kraftlog.state.standing import by_key
from kraftlog.state.state import Change, State
from kraftlog.state.tables import TOPIC_RESOURCE

BROKER_RESOURCE = 4
MIN_ISR = "min.insync.replicas"
KAFKAS_MIN_ISR = 1
NO_LEADER = -1
RECOVERING = 1
_MANY = 1 << 31
"""More replicas than a partition can have."""


class Since(NamedTuple):
    """The record from which on something has been so; its time in ms."""

    offset: int
    timestamp: int


class Unclean(NamedTuple):
    """The newest unclean election of a partition, who won it, and how many there were."""

    since: Since
    leader: int
    times: int


class Placed(NamedTuple):
    """A broker, and the log directory that a partition of it lies in."""

    broker: int
    directory: str


class Partition(NamedTuple):
    """A partition that something is to be said of; `leader` is who the records name, and may be
    gone. `elr` holds those of its replicas alone: Kafka may leave others there, and elects none of
    them. `since` says from when on it has no leader,
    `led_by` who led it before, `unclean` is its newest unclean election, as far as the records at
    hand tell. `offline` are its replicas of running brokers that do not register its log directory.
    """

    topic: str
    topic_id: str
    number: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    is_recovering: bool
    min_isr: int
    since: Since | None
    led_by: int | None = None
    unclean: Unclean | None = None
    offline: tuple["Placed", ...] = ()
    emptied: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """As Kafka's tools call it."""
        return f"{self.topic}-{self.number}"


class Gap(NamedTuple):
    """A topic that lacks partitions: it has so many, and the highest number."""

    topic: str
    topic_id: str
    held: int
    highest: int


class SameAcl(NamedTuple):
    """An ACL that stands under several ids: what it says, and the ids."""

    value: Data
    ids: tuple[str, ...]


class ScramChange(NamedTuple):
    """A record that sets or removes a user of a mechanism, and whether there was one before."""

    mechanism: int
    user: str
    was_set: bool
    is_set: bool


@dataclass(slots=True)
class Past:
    """What the way to a state has shown of it: since when brokers are fenced or gone and partitions
    without a leader, who led them before, which elections were unclean, which topics are gone,
    which voters left and came again, which brokers last came back without any of their log
    directories, which features were turned off, at first, and how SCRAM users changed, by the
    record's offset.
    """

    fenced: dict[int, Since] = field(default_factory=dict)
    unregistered: dict[int, Since] = field(default_factory=dict)
    leaderless: dict[Key, Since] = field(default_factory=dict)
    led_by: dict[Key, int] = field(default_factory=dict)
    unclean: dict[Key, Unclean] = field(default_factory=dict)
    topics: dict[str, tuple[str, Since]] = field(default_factory=dict)
    voters_removed: dict[Key, Since] = field(default_factory=dict)
    voters_back: dict[Key, tuple[Since, Since]] = field(default_factory=dict)
    scram: dict[int, ScramChange] = field(default_factory=dict)
    emptied: dict[int, Since] = field(default_factory=dict)
    turned_off: dict[str, Since] = field(default_factory=dict)

    def take(self, changes: Iterable[Change], offset: int, timestamp: int) -> None:
        """Take in what one record changed, once everyone may see it."""
        now = Since(offset, timestamp)
        for change in changes:
            if change.table == "brokers":
                self._broker(change, now)
            elif change.table == "topics" and change.before and not change.after:
                self.topics[change.key[0]] = change.before["name"], now
            elif change.table == "voters":
                self._voter(change, now)
            elif change.table == "features" and change.after is None:
                self.turned_off.setdefault(change.key[0], now)
            elif change.table == "scram_credentials":
                was, held = change.before is not None, change.after is not None
                self.scram[offset] = ScramChange(change.key[0], change.key[1], was, held)

    def _broker(self, change: Change, now: Since) -> None:
        broker, after = change.key[0], change.after
        if after is None:
            self.unregistered[broker] = now
            self.fenced.pop(broker, None)
            return
        self.unregistered.pop(broker, None)
        had, has = (set((one or {}).get("logDirs") or ()) for one in (change.before, after))
        if had and has and not had & has:
            self.emptied[broker] = now
        if after["fenced"]:
            self.fenced.setdefault(broker, now)
        else:
            self.fenced.pop(broker, None)

    def lead(self, found: Iterable[Led]) -> None:
        """Take in what a fold says of leaders."""
        for one in found:
            key = one.topic_id, one.partition_id
            if one.lost is None:
                self.leaderless.pop(key, None)
                self.led_by.pop(key, None)
            else:
                self.leaderless[key] = Since(*one.lost)
                if one.led_by != NO_LEADER:
                    self.led_by[key] = one.led_by
            if one.unclean is not None:
                offset, timestamp, leader = one.unclean
                times = self.unclean[key].times if key in self.unclean else 0
                self.unclean[key] = Unclean(Since(offset, timestamp), leader, times + one.times)

    def led_as(self, other: "Past") -> None:
        """Know of leaders what another one knows."""
        self.leaderless, self.led_by = other.leaderless, other.led_by
        self.unclean = other.unclean

    def copy(self) -> "Past":
        """What it knows by now."""
        return Past(*(dict(getattr(self, one.name)) for one in fields(self)))

    def _voter(self, change: Change, now: Since) -> None:
        if change.after is None:
            self.voters_removed[change.key] = now
        elif change.before is None and change.key in self.voters_removed:
            self.voters_back[change.key] = self.voters_removed[change.key], now


@dataclass(frozen=True, slots=True)
class Health:
    """The newest state, as far as something is to be said of it.

    `offset` is where it stands (exclusive); `is_committed` whether all of it is known to be.
    `gaps` are topics that lack partitions; `single` and `one_rack` hold names,
    `preferred_elsewhere` counts by the broker that should lead, and is in sync; `on_offline` are
    those with a replica on a disk that is offline; `leaderless` are partitions without a leader, or
    with one that is fenced or not registered, where any broker is; `unclean` are those that got a
    leader by an unclean election; `assigned` is the assignment of the partitions that were asked
    for; `same_acls` stand under several ids, `refused_configs` end a broker at its start.
    `hidden_level` is the offset at which a transaction begins that is open there, and the
    metadata.version that controllers go by in it.
    """

    offset: int
    is_committed: bool
    doubt: str | None
    past: Past
    brokers: Mapping[int, Data]
    controllers: Mapping[int, Data]
    voters: tuple[Data, ...]
    levels: Mapping[str, int]
    topic_names: Mapping[str, str]
    partition_count: int
    leaderless: tuple[Partition, ...]
    under_min_isr: tuple[Partition, ...]
    unclean: tuple[Partition, ...]
    on_unregistered: tuple[Partition, ...]
    on_offline: tuple[Partition, ...]
    gaps: tuple[Gap, ...]
    single: tuple[str, ...]
    one_rack: tuple[str, ...]
    preferred_elsewhere: Mapping[int, int]
    preferred_count: Mapping[int, int]
    assigned: Mapping[Key, tuple[int, ...]]
    scram_users: frozenset[Key]
    acl_count: int
    same_acls: tuple[SameAcl, ...]
    refused_configs: tuple[RefusedConfig, ...]
    hidden_level: tuple[int, int] | None = None

    @property
    def racks(self) -> set[str]:
        """The racks of the registered brokers."""
        return {one["rack"] for one in self.brokers.values() if one["rack"]}

    def alive(self, broker: int) -> bool:
        """Registered, not fenced, and not about to stop: as Kafka's `isActive`."""
        value = self.brokers.get(broker)
        return value is not None and not (value["fenced"] or value["inControlledShutdown"])

    def stopped(self, broker: int) -> bool:
        """Gone or going on purpose: unregistered, or in a controlled shutdown, or after one."""
        value = self.brokers.get(broker)
        return value is None or bool(value["inControlledShutdown"])


ASKED_FIELDS = (
    "replicas", "isr", "leader", "leaderRecoveryState", "eligibleLeaderReplicas", "lastKnownElr",
    "directories",
)  # fmt: skip
"""What of a partition counts here."""


def health_of(
    state: State,
    partitions: pa.Table,
    past: Past,
    offset: int,
    is_committed: bool,
    doubt: str | None,
    asked: Collection[Key],
) -> Health:
    """What a state says; `partitions` are its versions of them, and may lie outside of it, `asked`
    are those whose assignment is wanted.
    """
    brokers = {key[0]: value for key, value in state.rows("brokers").items()}
    names: dict[str, str] = {key[0]: value["name"] for key, value in state.rows("topics").items()}
    racks = {broker: value["rack"] for broker, value in brokers.items()}
    is_spread = len({one for one in racks.values() if one}) > 1
    rows, minimum, is_offline = _Columns(partitions), _MinIsr.of(state), _offline(brokers)
    topics = [names.get(one) or one for one in rows.topic_ids]
    least = minimum.of_rows(rows, topics)
    is_led = rows.leader >= 0
    running = [one for one, value in brokers.items() if not value["fenced"]]
    kinds = {
        "leaderless": ~(np.isin(rows.leader, running) if brokers else is_led),
        "under_min_isr": rows.isr_counts < np.minimum(least, rows.counts),
        "unclean": (rows.recovery == RECOVERING) | rows.among(past.unclean),
        "on_unregistered": rows.any_replica(lambda one: one not in brokers),
        "on_offline": rows.any_placed(lambda one: one.broker in running and is_offline(one)),
    }
    told = np.logical_or.reduce(list(kinds.values()))
    built = [
        _partition(
            topic := names.get(key[0]) or key[0],
            key,
            value,
            minimum(topic, value["leader"]),
            past,
            is_offline,
        )
        for key, value in by_key(rows.versions(told), ASKED_FIELDS).items()
    ]
    at = np.cumsum(told) - 1
    found = {
        name: _sorted(built[one] for one in at[holds].tolist()) for name, holds in kinds.items()
    }
    codes = {rack: code for code, rack in enumerate(dict.fromkeys([None, *racks.values()]))}
    alone = rows.alike(lambda one: codes[racks.get(one)])
    alone &= ~rows.any_replica(lambda one: not racks.get(one))
    single, one_rack = (
        tuple(sorted(f"{topics[topic]}-{number}" for topic, number in rows.numbered(holds)))
        for holds in (rows.counts == 1, alone & (rows.counts > 1) & is_spread)
    )
    is_elsewhere = (is_led & (rows.leader != rows.first) & rows.is_first_in_sync)[rows.is_placed]
    leads, at = np.unique(rows.first[rows.is_placed], return_inverse=True)
    preferred, elsewhere = (
        dict(zip(leads.tolist(), np.bincount(one, minlength=len(leads)).tolist(), strict=True))
        for one in (at, at[is_elsewhere])
    )
    wanted = by_key(rows.versions(rows.among(asked)), ("replicas",))
    return Health(
        offset,
        is_committed,
        doubt,
        replace(past, leaderless={}, led_by={}, unclean={}),  # the partitions say it
        brokers,
        {key[0]: value for key, value in state.rows("controllers").items()},
        tuple(value for _, value in sorted(state.rows("voters").items())),
        {key[0]: value["featureLevel"] for key, value in state.rows("features").items()},
        names,
        partitions.num_rows,
        found["leaderless"],
        found["under_min_isr"],
        found["unclean"],
        found["on_unregistered"],
        found["on_offline"],
        tuple(sorted(Gap(topics[at], rows.topic_ids[at], *told) for at, *told in rows.gaps())),
        single,
        one_rack,
        elsewhere,
        preferred,
        {key: tuple(value["replicas"]) for key, value in wanted.items()},
        frozenset(state.rows("scram_credentials")),
        len(acls := state.rows("acls")),
        tuple(_same_acls(acls)),
        tuple(sorted(refused_configs(state))),
    )


_ACL_FIELDS = (
    "resourceType", "resourceName", "patternType", "principal", "host", "operation",
    "permissionType",
)  # fmt: skip
"""What makes an ACL for Kafka (StandardAcl); its id only names it."""


def _same_acls(acls: Mapping[Key, Data]) -> Iterator[SameAcl]:
    found: dict[tuple[Any, ...], list[str]] = {}
    for key, value in sorted(acls.items()):
        found.setdefault(tuple(value[one] for one in _ACL_FIELDS), []).append(key[0])
    for ids in found.values():
        if len(ids) > 1:
            yield SameAcl(acls[(ids[0],)], tuple(ids))


class _Columns:
    """Versions of partitions as arrays: `topics` are codes of `topic_ids`, `first` is the first
    replica of each, where it has any.
    """

    def __init__(self, partitions: pa.Table) -> None:
        self._rows = partitions
        ids = partitions.column("topic_id").combine_chunks()
        self.topic_ids: list[str] = ids.dictionary.to_pylist()
        self.topics: Longs = ids.indices.to_numpy().astype(np.int64)
        self.numbers = partitions.column("partition_id").to_numpy()
        self.leader = partitions.column("leader").to_numpy()
        self.recovery = partitions.column("leader_recovery_state").to_numpy()
        self.isr_counts = pc.list_value_length(partitions.column("isr")).to_numpy()
        replicas = partitions.column("partition_replicas")
        self.counts = pc.list_value_length(replicas).to_numpy().astype(np.int64)
        placed = pc.list_flatten(replicas).combine_chunks().dictionary_encode()
        self._replicas, self._which = placed.dictionary.to_numpy(), placed.indices.to_numpy()
        self._of = np.repeat(np.arange(len(self.counts)), self.counts)
        self.is_placed = self.counts > 0
        self._starts = (np.cumsum(self.counts) - self.counts)[self.is_placed]
        self.first = np.full(len(self.counts), NO_LEADER, np.int64)
        self.first[self.is_placed] = self._replicas[self._which[self._starts]]

    @property
    def is_first_in_sync(self) -> Flags:
        """Of which the first replica is in sync."""
        isr = pc.list_flatten(self._rows.column("isr")).to_numpy()
        of = np.repeat(np.arange(len(self.counts)), self.isr_counts)
        return np.bincount(of[isr == self.first[of]], minlength=len(self.counts)) > 0

    def any_placed(self, holds: Callable[[Placed], bool]) -> Flags:
        """Which of them have a replica, in its log directory, of which something holds."""
        directories = self._rows.column("directories")
        named = pc.fill_null(pc.list_value_length(directories), 0).to_numpy()
        whole = np.repeat(named == self.counts, self.counts)
        kept = self._rows.filter(pa.array(named == self.counts)).column("directories")
        ids = pc.list_flatten(kept).combine_chunks().dictionary_encode()
        names, at = ids.dictionary.to_pylist(), ids.indices.to_numpy()
        pairs = self._which[whole].astype(np.int64) * max(len(names), 1) + at
        unique, of = np.unique(pairs, return_inverse=True)
        brokers = self._replicas.tolist()
        placed = (Placed(brokers[one // len(names)], names[one % len(names)]) for one in unique)
        flags = np.zeros(len(whole), np.bool_)
        flags[whole] = np.array([holds(one) for one in placed], np.bool_)[of]
        return self._any(flags)

    def versions(self, holds: Flags) -> pa.Table:
        """Some of them."""
        return self._rows.take(pa.array(np.flatnonzero(holds)))

    def numbered(self, holds: Flags) -> Iterator[tuple[int, int]]:
        """Topic and number of some of them."""
        return zip(self.topics[holds].tolist(), self.numbers[holds].tolist(), strict=True)

    def gaps(self) -> Iterator[tuple[int, int, int]]:
        """Each topic whose partitions are not numbered from 0 on, how many it has, and the highest."""
        highest = np.full(len(self.topic_ids), -1, np.int64)
        np.maximum.at(highest, self.topics, self.numbers)
        counts = np.bincount(self.topics, minlength=len(highest))
        at = np.flatnonzero(highest + 1 > counts)
        return zip(at.tolist(), counts[at].tolist(), highest[at].tolist(), strict=True)

    def among(self, keys: Collection[Key]) -> Flags:
        """Which of them have one of some keys."""
        ids = {key[0] for key in keys}
        found = np.array([one in ids for one in self.topic_ids], np.bool_)[self.topics]
        asked = ((self.topic_ids[topic], number) for topic, number in self.numbered(found))
        found[found] = [one in keys for one in asked]
        return found

    def any_replica(self, holds: Callable[[int], bool]) -> Flags:
        """Which of them have a replica of which something holds."""
        known = np.array([holds(one) for one in self._replicas.tolist()], np.bool_)
        return self._any(known[self._which])

    def alike(self, value: Callable[[int], int]) -> Flags:
        """Of which of them all replicas have one value."""
        known = np.array([value(one) for one in self._replicas.tolist()], np.int64)
        values = known[self._which]
        first = np.repeat(values[self._starts], self.counts[self.is_placed])
        return ~self._any(values != first)

    def _any(self, flags: Flags) -> Flags:
        return np.bincount(self._of[flags], minlength=len(self.counts)) > 0


def _sorted(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    return tuple(sorted(partitions, key=lambda one: (one.topic, one.number, one.topic_id)))


_ANYWHERE = frozenset({MIGRATING, UNASSIGNED})


def _offline(brokers: Mapping[int, Data]) -> Callable[[Placed], bool]:
    """Whether a replica is of a broker that does not register its directory. Source: Kafka's
    DirectoryId.isOnline; of a broker that registers none, by an older metadata.version, only what is
    lost is known.
    """
    known = {one: frozenset(value.get("logDirs") or ()) for one, value in brokers.items()}

    def is_offline(one: Placed) -> bool:
        held = known.get(one.broker)
        if held is None or one.directory in _ANYWHERE:
            return False
        return one.directory == LOST or (bool(held) and one.directory not in held)

    return is_offline


def _partition(
    topic: str,
    key: Key,
    value: Data,
    min_isr: int,
    past: Past,
    is_offline: Callable[[Placed], bool],
) -> Partition:
    placed = map(Placed, value["replicas"], value["directories"] or ())
    return Partition(
        topic,
        key[0],
        key[1],
        tuple(value["replicas"]),
        tuple(value["isr"]),
        value["leader"],
        tuple(one for one in value["eligibleLeaderReplicas"] or () if one in value["replicas"]),
        tuple(value["lastKnownElr"] or ()),
        value["leaderRecoveryState"] == RECOVERING,
        min_isr,
        past.leaderless.get(key),
        past.led_by.get(key) if key in past.leaderless else None,
        past.unclean.get(key),
        tuple(filter(is_offline, placed)),
        tuple(one for one in value["replicas"] if _came_back_empty(past, key, one)),
    )


def _came_back_empty(past: Past, key: Key, broker: int) -> bool:
    """Whether a broker has come back without its disks since a partition has no leader."""
    lost, came = past.leaderless.get(key), past.emptied.get(broker)
    return lost is not None and came is not None and came.offset > lost.offset


@dataclass(frozen=True, slots=True)
class _MinIsr:
    """min.insync.replicas: the topic's own config, else that of the broker that leads, else that of
    all brokers, else Kafka's. What a broker's server.properties says is in no record.
    """

    set_for: Mapping[tuple[int, str], int]

    @classmethod
    def of(cls, state: State) -> "_MinIsr":
        return cls(
            {
                key[:2]: int(config["value"])
                for key, config in state.rows("configs").items()
                if key[2] == MIN_ISR
                and isinstance(config["value"], str)
                and config["value"].isdecimal()
            }
        )

    def __call__(self, topic: str, leader: int) -> int:
        return self.set_for.get((TOPIC_RESOURCE, topic), self._of_leader(leader))

    def _of_leader(self, leader: int) -> int:
        of_all = self.set_for.get((BROKER_RESOURCE, "")) or KAFKAS_MIN_ISR
        return self.set_for.get((BROKER_RESOURCE, str(leader)), of_all)

    def of_rows(self, rows: _Columns, topics: Sequence[str]) -> Longs:
        """The same of many partitions, of topics by their codes."""
        leaders, led = np.unique(rows.leader, return_inverse=True)
        of_leader = _capped(map(self._of_leader, leaders.tolist()))[led]
        own = (self.set_for.get((TOPIC_RESOURCE, one), -1) for one in topics)
        of_topic = _capped(own)[rows.topics]
        return np.where(of_topic < 0, of_leader, of_topic)


def _capped(values: Iterable[int]) -> Longs:
    return np.array([min(one, _MANY) for one in values], np.int64)
