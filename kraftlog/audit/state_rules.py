"""Rules of the state, each a function over one record and the states before and after it.

In: a record and the state that it meets, or what it changed. Out: sentences of what is wrong.
`BEFORE` and `AFTER` say which record types each rule looks at. Nothing is kept between two records
but by `MassDeletion`. What a rule over partitions looks for, `state.suspects` must find. Source:
KIP-631, KIP-966 (ELR), KAFKA-14616, KAFKA-15552, strimzi#11262.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kraftlog.audit.grouping import record_note
from kraftlog.explain.words import plain_name
from kraftlog.quorum.health import Since
from kraftlog.quorum.thresholds import Thresholds
from kraftlog.state.declare import Data
from kraftlog.state.fold import Applied
from kraftlog.state.replay import FaultyRecord
from kraftlog.state.shapes import METADATA_VERSION
from kraftlog.state.state import Change, State

MV_3_6_IV0 = 12


class Step(NamedTuple):
    """One record: what it says, where it stands, and the state that it meets (and then changes in
    place); `gone` are the topics that were deleted before it, by id.
    """

    type: str
    data: Data
    offset: int
    batch_base_offset: int
    state: State
    gone: Mapping[str, tuple[str, Since]] = {}


class Told(NamedTuple):
    """A rule that a record breaks."""

    check: str
    text: str
    evidence: dict[str, Any]


Before = Callable[[Step], Iterator[Told]]
"""Asked before the record is applied."""
After = Callable[[Applied, Change], Iterator[Told]]
"""Asked for each row that it changed."""


MISSING = frozenset(
    {"unknown_topic", "unknown_partition", "unknown_broker", "unknown_acl", "stale_epoch"}
)


def _dangling(one: Applied, fault: FaultyRecord) -> Told:
    return Told(
        "references_exist",
        f"The {one.origin.type} at offset {one.origin.offset} names something that does not exist there: {fault.detail}. Kafka's loader fails on it, or drops it. "
        "Find out which controller wrote it before any node restarts."
        f"{record_note(one.origin.type, fault.kind)}",
        {"kind": fault.kind, "data": dict(one.data)},
    )


def _unregistered(step: Step) -> Iterator[Told]:
    broker = step.data["brokerId"]
    if step.state.get("brokers", (broker,)) is None:
        yield Told(
            "references_exist",
            f"The {step.type} at offset {step.offset} removes broker {broker}, which is not registered there. "
            "This is harmless to Kafka, but no controller writes it: find out who did.",
            {"broker_id": broker},
        )


def _refused(one: Applied, fault: FaultyRecord) -> Told:
    placed = "directories" in fault.detail
    return Told(
        "isr_within_replicas" if placed else "record_replays",
        f"The {one.origin.type} at offset {one.origin.offset} cannot be applied: {fault.detail}. "
        "Kafka's loader stops there with an exception. "
        "Look for the version that wrote it before a node of another version starts.",
        {"kind": fault.kind, "data": dict(one.data)},
    )


def _assignment_problems(partition: Data) -> Iterator[str]:
    replicas = partition["replicas"]
    if not replicas:
        yield "its assignment is empty"
    if len(set(replicas)) != len(replicas):
        yield f"its assignment {replicas} names a broker twice"
    for name in ("isr", "eligibleLeaderReplicas", "addingReplicas", "removingReplicas"):
        outside = sorted(set(partition.get(name) or ()) - set(replicas))
        if outside:
            yield f"{name} {partition[name]} holds {outside}, not in the assignment {replicas}"


def _assignment(one: Applied, change: Change) -> Iterator[Told]:
    if change.after is None:
        return
    known = set(_assignment_problems(change.before)) if change.before else set()
    for problem in _assignment_problems(change.after):
        if problem not in known:
            yield _partition_told("isr_within_replicas", one, change, problem)


def _leader(one: Applied, change: Change) -> Iterator[Told]:
    after = change.after
    if after is not None and _led_from_outside(after) and not _led_from_outside(change.before):
        text = f"its leader {after['leader']} is not in its ISR {after['isr']}"
        yield _partition_told("leader_in_isr", one, change, text)


def _led_from_outside(partition: Data | None) -> bool:
    if partition is None or partition["leader"] < 0 or partition["leaderRecoveryState"] == 1:
        return False
    return partition["leader"] not in partition["isr"]


def _epochs(one: Applied, change: Change) -> Iterator[Told]:
    if change.before is None or change.after is None:
        return
    for name in ("partitionEpoch", "leaderEpoch"):
        was, now = change.before[name], change.after[name]
        if now < was:
            text = f"its {name} goes back from {was} to {now}"
            yield _partition_told("partition_epochs_step", one, change, text)


def _partition_told(check: str, one: Applied, change: Change, text: str) -> Told:
    topic_id, number = change.key
    name = f"id {topic_id}" if one.topic_name is None else f"{one.topic_name} (id {topic_id})"
    return Told(
        check,
        f"Partition {number} of topic {name} is wrong from offset {one.origin.offset} on: {text}. "
        "Brokers would act on it: correct it with a reassignment or an election. "
        "Find out which controller wrote it.",
        {"topic_id": topic_id, "partition": number, "after": dict(change.after or {})},
    )


def _topic_identity(step: Step) -> Iterator[Told]:
    name, topic_id = step.data["name"], step.data["topicId"]
    same_name = step.state.named("topics", name)
    same_id = step.state.get("topics", (topic_id,))
    advice = (
        "Find out which controller wrote it, and delete one of the two before clients mix them up."
    )
    if same_name is not None and same_name != (topic_id,):
        yield Told(
            "topic_identity_unique",
            f"A topic named {name} (id {topic_id}) is created at offset {step.offset}, while another topic of that name (id {same_name[0]}) exists. {advice}",
            {"name": name, "topic_id": topic_id, "other_topic_id": same_name[0]},
        )
    if same_id is not None:
        yield Told(
            "topic_identity_unique",
            f"The topic id {topic_id} is used again at offset {step.offset} for topic {name}, while it is that of topic {same_id['name']}. "
            f"The partitions of topic {same_id['name']} are forgotten. {advice}",
            {"name": name, "topic_id": topic_id, "other_name": same_id["name"]},
        )
    elif topic_id in step.gone:
        before, since = step.gone[topic_id]
        yield Told(
            "topic_identity_unique",
            f"The topic id {topic_id} is used again at offset {step.offset} for topic {name}: it was that of topic {before}, which was deleted at offset {since.offset}. "
            "A broker that still has a folder of the deleted topic takes the old records for those of the new topic. "
            "Find out which controller wrote it, then delete the topic and create it again.",
            {"name": name, "topic_id": topic_id, "other_name": before, "deleted": since.offset},
        )


def _broker_epoch(step: Step) -> Iterator[Told]:
    broker, epoch = step.data["brokerId"], step.data["brokerEpoch"]
    if step.batch_base_offset <= epoch <= step.offset:
        return
    known = step.state.get("brokers", (broker,))
    if known is not None and known["brokerEpoch"] == epoch:
        if known["incarnationId"] == step.data["incarnationId"]:
            return
    elif _may_be_from_before_3_6(step.state) and _since(known) < epoch <= step.offset:
        return
    place = "the offset of that record"
    if step.batch_base_offset < step.offset:
        place = f"an offset of that batch ({step.batch_base_offset} to {step.offset})"
    yield Told(
        "broker_epoch_is_offset",
        f"Broker {broker} is registered at offset {step.offset} with broker epoch {epoch}, which is not {place}. "
        "Requests of that broker could be refused wrongly: restart it, so that it registers again.",
        {"broker_id": broker, "broker_epoch": epoch},
    )


def _may_be_from_before_3_6(state: State) -> bool:
    """Controllers before Kafka 3.6 counted only records that they wrote themselves and had seen
    committed: LeaderChange records, and what was on its way, are missing from their broker epochs.
    """
    level = state.get("features", (METADATA_VERSION,))
    return level is None or level["featureLevel"] < MV_3_6_IV0


def _since(known: Data | None) -> int:
    return -1 if known is None else int(known["brokerEpoch"])


def _producer_ids(step: Step) -> Iterator[Told]:
    known = step.state.get("producer_ids", ())
    now = step.data["nextProducerId"]
    if known is not None and now < known["nextProducerId"]:
        was = known["nextProducerId"]
        yield Told(
            "producer_ids_increase",
            f"The next producer id goes back from {was} to {now} at offset {step.offset}. "
            f"Producers will get ids that others use, and brokers may drop their records as duplicates. Raise the next id above {was} before producers start.",
            {"previous": was, "next": now},
        )


BEFORE: dict[str, Before] = {
    "TOPIC_RECORD": _topic_identity,
    "REGISTER_BROKER_RECORD": _broker_epoch,
    "UNREGISTER_BROKER_RECORD": _unregistered,
    "PRODUCER_IDS_RECORD": _producer_ids,
}
"""Which rule looks at a record type, with the state that it meets."""

AFTER: dict[str, tuple[After, ...]] = {"partitions": (_assignment, _leader, _epochs)}
"""Which rules look at a changed row of a table."""

_TOLD_ELSEWHERE = frozenset({"transaction", "unknown_record"})


def rules_before(step: Step) -> Iterator[Told]:
    """The rules that a record breaks, by the state that it meets."""
    rule = BEFORE.get(step.type)
    if rule is not None:
        yield from rule(step)


def rules_after(one: Applied) -> Iterator[Told]:
    """The rules that a record breaks, by what it changed, or could not change."""
    fault = one.fault
    if fault is not None and fault.kind in MISSING:
        yield _dangling(one, fault)
    elif fault is not None and fault.kind not in _TOLD_ELSEWHERE:
        yield _refused(one, fault)
    for change in one.changes:
        for rule in AFTER.get(change.table, ()):
            yield from rule(one, change)


WATCHED = frozenset({"topics", "brokers", "acls", "scram_credentials", "client_quotas"})
"""Tables whose shrinking is watched; delegation tokens expire in crowds, configs go with their
topics.
"""


_PAUSE_MS = 1000
NAMES_KEPT = 100
"""So many names of one crowd are kept; all are counted."""


class Window(NamedTuple):
    """Removals of one kind close together: the first and the last, how many, of how many."""

    table: str
    first_offset: int
    last_offset: int
    removed: int
    total: int
    changes: tuple[Change, ...]

    @property
    def names(self) -> list[str]:
        """What was removed, the first of it."""
        return [plain_name(one, lambda topic: f"(id {topic})") for one in self.changes]


@dataclass(slots=True)
class _Gone:
    """What went of one kind, and from which on it is close enough to the last one to count; a
    removal takes the same time, however many went before.
    """

    rows: list[tuple[int, int, Change]] = field(default_factory=list)
    start: int = 0
    after_pauses: list[int] = field(default_factory=list)

    def add(self, now: int, offset: int, change: Change, window_ms: int) -> None:
        if self.rows and now - self.rows[-1][0] > _PAUSE_MS:
            self.after_pauses.append(len(self.rows))
        self.rows.append((now, offset, change))
        while now - self.rows[self.start][0] > window_ms:
            self.start += 1
        if 2 * self.start > len(self.rows):
            self.after_pauses = [one - self.start for one in self.after_pauses if one > self.start]
            del self.rows[: self.start]
            self.start = 0

    def crowd(self, is_many: Callable[[int], bool]) -> int | None:
        """Where the crowd begins: what went long before it is no part of it, as long as the crowd
        alone is enough. None where all together are not enough.
        """
        end = len(self.rows)
        if not is_many(end - self.start):
            return None
        few = bisect_left(self.after_pauses, True, key=lambda at: not is_many(end - at))
        return max([self.start, *self.after_pauses[:few][-1:]])


@dataclass(slots=True)
class MassDeletion:
    """Watches how many objects of each kind go within a window of time; tells each window once, at
    its largest.
    """

    limits: Thresholds
    _gone: dict[str, _Gone] = field(default_factory=dict)
    _worst: dict[str, Window] = field(default_factory=dict)

    def see(
        self, changes: Iterable[Change], state: State, now: int, offset: int
    ) -> Iterator[Window]:
        """Take in what one record removed; yields windows that are over."""
        for table, worst in list(self._worst.items()):
            if now - self._gone[table].rows[-1][0] > self.limits.mass_deletion_window_ms:
                del self._worst[table], self._gone[table]
                yield worst
        for change in changes:
            if change.after is None and change.table in WATCHED:
                self._removed(change, state, now, offset)

    def _removed(self, change: Change, state: State, now: int, offset: int) -> None:
        table = change.table
        gone = self._gone.setdefault(table, _Gone())
        gone.add(now, offset, change, self.limits.mass_deletion_window_ms)
        left = len(state.rows(table))
        start = gone.crowd(lambda count: self._many(table, count, left))
        if start is None:
            return
        removed = len(gone.rows) - start
        worst = self._worst.get(table)
        if worst is None or removed >= worst.removed:
            kept = gone.rows[start : start + NAMES_KEPT]
            names = tuple(change for _, _, change in kept)
            self._worst[table] = Window(table, kept[0][1], offset, removed, left + removed, names)

    def _many(self, table: str, removed: int, left: int) -> bool:
        limits = self.limits
        major = table in ("topics", "brokers")
        percent = limits.mass_deletion_percent if major else limits.mass_deletion_minor_percent
        least = limits.mass_deletion_minimum if major else limits.mass_deletion_minor_minimum
        return removed >= least and 100 * removed > percent * (left + removed)

    def rest(self) -> Iterator[Window]:
        """The windows that the log's end leaves open."""
        yield from self._worst.values()
