"""Checks of what the records say, each with its rules: the state at each offset.

The rules are asked while the history is gone through (`audit.watch`); here what they have told
becomes findings. After a hole in a log its state is not known: what could not be judged is skipped
with the reason. Source: KIP-631, KIP-966 (ELR), KAFKA-14616, KAFKA-15552, strimzi#11262.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Any, Unpack

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, Check, Query, Severity, Words, at_batch, check
from kraftlog.audit.grouping import record_note
from kraftlog.audit.state_rules import (
    CONTROLLERS,
    NODES,
    Incoming,
    Refused,
    Said,
    Version,
    on_fault,
    on_record,
    on_row,
)
from kraftlog.audit.triage import at_same_place
from kraftlog.explain.words import acl_text, object_name
from kraftlog.quorum.evidence import StateIssue
from kraftlog.quorum.health import BROKER_RESOURCE
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.topic_configs import LARGEST_INT
from kraftlog.state.declare import Data, Delete
from kraftlog.state.partition_events import Flags, NewVersions
from kraftlog.state.shapes import METADATA_VERSION, SECURITY_PROTOCOLS
from kraftlog.state.state import Change, State
from kraftlog.state.tables import OPERATIONS
from kraftlog.state.write import losses

MV_3_6_IV0 = 12
CONTROLLERS_STOP = {
    "UNREGISTER_BROKER_RECORD": "unknown_broker",
    "UNREGISTER_CONTROLLER_RECORD": "unknown_controller",
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": "unknown_credential",
}
"""Removals of what need not exist for a metadata image, and must for a controller's own replay
(ClusterControlManager, ScramControlManager); and the kind of fault where it does not.
"""
MISSING = frozenset(
    {"unknown_topic", "unknown_partition", "unknown_acl", "stale_epoch", *CONTROLLERS_STOP.values()}
)


def _query(name: str) -> Query:
    """The query of a check whose findings the rules have told already."""

    def query(quorum: Quorum) -> Iterator[BadRow]:
        for issue in quorum.state.issues:
            if issue.check == name:
                yield _issue_row(quorum, issue)

    return query


def _issue_row(quorum: Quorum, issue: StateIssue) -> BadRow:
    log = quorum.by_label[issue.replica]
    columns = log.evidence.log
    text, evidence = issue.text, dict(issue.evidence)
    if "stops" in evidence and len(quorum.peers) > 1:  # who else holds the record says who stops
        held, places = at_same_place(quorum, log, issue.row)
        text, evidence = f"{text} {held}", {**evidence, **places}
    return at_batch(
        log,
        issue.row,
        text,
        int(columns.base_offsets[issue.row]) + issue.record_index,
        evidence={"batch_id": columns.id_text(issue.row), **evidence},
    )


def state_check(
    name: str, severity: Severity, source: str, holds_when: str, **words: Unpack[Words]
) -> Check:
    """Declare a check of the state; its rules follow."""
    judged = coverage.state(name)
    return check(name, severity, "state", source, holds_when, over=judged, **words)(_query(name))


REFERENCES_EXIST = state_check(
    "references_exist", "critical", "KAFKA-15552",
    "a change or removal names an object that exists at that offset",
    action="origin",
    meaning="""A record changes or removes a topic, partition, broker, controller, ACL or SCRAM
    credential that does not exist at that offset, or a broker of another epoch. Kafka's loader
    fails there, or drops the record: replicas may then hold different states of the same log. Or
    brokers take it, and controllers stop.""",
    advice="""Find the controller and the version that wrote it, by the leader of that epoch.
    Restart no node before you know what its loader does with the record. If every node stops at it,
    kraftlog recover begins a quorum with all but this record.""",
)  # fmt: skip


@on_fault(REFERENCES_EXIST)
def _dangling(refused: Refused) -> Iterator[Said]:
    (origin, data, *_), fault = refused
    if fault.kind in MISSING:
        yield Said(
            f"The {origin.type} at offset {origin.offset} names something that does not exist there: {fault.detail}. Kafka's loader fails on it, or drops it. "
            "Find out which controller wrote it before any node restarts. "
            "If every node stops at it, kraftlog recover builds a quorum without it."
            f"{record_note(origin.type, fault.kind)}",
            {"kind": fault.kind, "stops": NODES, "data": dict(data)},
        )


@on_record(REFERENCES_EXIST, *CONTROLLERS_STOP)
def _removed(step: Incoming) -> Iterator[Said]:
    ((table, delete),) = OPERATIONS[step.type]
    assert isinstance(delete, Delete)
    key = table.key_of(delete.shaped(step.state, step.data))
    known = step.state.get(table.name, key)
    if known is not None and known.get("brokerEpoch") == step.data.get("brokerEpoch"):
        return
    what = object_name(Change(table.name, key, step.data, None), str)
    why, kind = "which does not exist there", CONTROLLERS_STOP[step.type]
    named = {"broker_id": step.data["brokerId"]} if table.name == "brokers" else {}
    if known is not None:
        why = f"whose epoch is {known['brokerEpoch']} there and not {step.data['brokerEpoch']}"
        kind = "stale_epoch"
    yield Said(
        f"The {step.type} at offset {step.offset} removes {what}, {why}. "
        "Brokers take it, and a controller that replays it stops with an exception. Find out who wrote it before any controller restarts.",
        {"kind": kind, "stops": CONTROLLERS, "data": dict(step.data), **named},
        f"it removes {what}, {why}",
    )


ISR_WITHIN_REPLICAS = state_check(
    "isr_within_replicas", "critical", "KIP-631, KIP-966",
    "ISR, ELR, adding and removing replicas lie in the assignment, and no broker is named twice",
    action="origin",
    meaning="""A partition's ISR, ELR, adding or removing replicas name a broker outside its
    assignment, or one of these lists names a broker twice, or the ISR and the ELR name the same
    one; or the assignment is empty, or has not as many directories as replicas; or the
    partition's number is below 0. Brokers that a reassignment has left in the ELR are no finding:
    Kafka itself leaves them there, and elects nobody outside of the assignment. Nor is one that
    is being added and removed, as where a reassignment takes the place of another one, or an ELR
    that a controller had forgotten while its feature was off. Where the ISR names a broker twice,
    a controller stops at the record that takes it out.""",
    advice="""Correct the partition with a reassignment, but where the finding says that controllers
    stop. Find out which controller wrote the record.""",
)  # fmt: skip
_ELR = "eligibleLeaderReplicas"
_MEMBERS = ("isr", _ELR, "addingReplicas", "removingReplicas")
"""Lists of brokers that must lie in the assignment."""
ELR_UNNAMED = "elr_unnamed"
"""The kind of an ISR that takes in who is in the ELR, by a record that does not name the ELR: so a
controller writes it that has begun with a snapshot without one (PartitionChangeBuilder).
"""


def _assignment_problems(partition: Data, left: Set[int] = frozenset()) -> Iterator[str]:
    """What is wrong with a partition, given who may be `left` in its ELR."""
    replicas = partition["replicas"]
    if not replicas:
        yield "its assignment is empty"
    if len(set(replicas)) != len(replicas):
        yield f"its assignment {replicas} names a broker twice"
    if partition["partitionId"] < 0:
        yield "no partition has a number below 0"
    for name in _MEMBERS:
        members = partition.get(name) or ()
        if len(set(members)) != len(members):
            yield _named_twice(name, members)
        outside = set(members) - set(replicas)
        if name == _ELR:
            outside -= left
        if outside:
            yield f"{name} {members} holds {sorted(outside)}, not in the assignment {replicas}"


def _both_hold(partition: Data | None) -> str | None:
    held = partition or {}
    isr, elr = held.get("isr") or (), held.get(_ELR) or ()
    both = sorted({*isr} & {*elr})
    return f"its ISR {isr} and its ELR {elr} both hold {both}" if both else None


def _left_in_elr(before: Data | None) -> Set[int]:
    """Who leaves the ISR goes into the ELR while fewer than min.insync.replicas are in sync, also
    where a reassignment takes it away (Kafka's PartitionChangeBuilder).
    """
    held = before or {}
    return {*held.get("isr", ()), *(held.get(_ELR) or ())}


def _may_be_misplaced(rows: NewVersions) -> Flags:
    assigned = rows.lists["replicas"]
    found: Flags = (assigned.lengths() == 0) | assigned.repeats()
    found |= rows.number("partitionId") < 0
    for name in _MEMBERS:
        found |= rows.lists[name].outside(assigned) | rows.lists[name].repeats()
    found |= rows.lists[_ELR].meets(rows.lists["isr"])
    return found


@on_row(ISR_WITHIN_REPLICAS, "partitions", _may_be_misplaced)
def _assignment(row: Version) -> Iterator[Said]:
    known = set(_assignment_problems(row.before)) if row.before else set()
    for problem in _assignment_problems(row.after, _left_in_elr(row.before)):
        if problem not in known:
            yield _wrong_partition(row, problem, _todo_about(problem, row.after["isr"]))
    both = _both_hold(row.after)
    if both is not None and both != _both_hold(row.before):
        said = _wrong_partition(row, both)
        is_named = row.by.data.get(_ELR) is not None
        yield said if is_named else said._replace(evidence={**said.evidence, "kind": ELR_UNNAMED})


_CORRECT = (
    "Brokers would act on it: correct it with a reassignment or an election. "
    "Find out which controller wrote it."
)
_STOPS_LATER = (
    "A controller stops with an exception at the record that takes that broker out of the ISR, also where another one has named it once since. "
    "Reassign and elect nothing: keep the broker running, and delete the topic if it can be spared. Find out which controller wrote it."
)


def _todo_about(problem: str, isr: Sequence[int]) -> str:
    """Controllers keep in which ISRs a broker is, each as often as it is named (BrokersToIsrs)."""
    return _STOPS_LATER if problem == _named_twice("isr", isr) else _CORRECT


def _named_twice(name: str, members: Sequence[int]) -> str:
    return f"{name} {members} names a broker twice"


def _wrong_partition(row: Version, text: str, todo: str = _CORRECT) -> Said:
    topic_id, number = row.key
    topic, offset = row.by.topic_name, row.by.origin.offset
    name = f"id {topic_id}" if topic is None else f"{topic} (id {topic_id})"
    return Said(
        f"Partition {number} of topic {name} is wrong from offset {offset} on: {text}. {todo}",
        {"topic_id": topic_id, "partition": number, "after": dict(row.after)},
    )


@on_fault(ISR_WITHIN_REPLICAS)
def _misplaced(refused: Refused) -> Iterator[Said]:
    if _names_directories(refused):
        yield _stops_loaders(refused)


def _names_directories(refused: Refused) -> bool:
    return refused.fault.kind not in MISSING and "directories" in refused.fault.detail


def _stops_loaders(refused: Refused) -> Said:
    (origin, data, *_), fault = refused
    return Said(
        f"The {origin.type} at offset {origin.offset} cannot be applied: {fault.detail}. "
        "Kafka's loader stops there with an exception. "
        "Look for the version that wrote it before a node of another version starts.",
        {"kind": fault.kind, "stops": NODES, "data": dict(data)},
    )


LEADER_IN_ISR = state_check(
    "leader_in_isr", "critical", "KIP-631",
    "a partition's leader is none or in its ISR",
    action="origin",
    meaning="""A partition is led by a replica that is not in its ISR and is not recovering from
    an unclean election. Acknowledged messages may be missing there.""",
    advice="""Elect another leader for the partition, and find out which controller wrote the
    record.""",
)  # fmt: skip


_NOBODY = (-1, -2)
"""How a partition's leader is told where it has none; what comes from ZooKeeper may say −2."""


def _may_be_led_from_outside(rows: NewVersions) -> Flags:
    leader = rows.number("leader")
    is_led = ~np.isin(leader, _NOBODY) & (rows.number("leaderRecoveryState") != 1)
    found: Flags = is_led & ~rows.lists["isr"].holds(leader)
    return found


@on_row(LEADER_IN_ISR, "partitions", _may_be_led_from_outside)
def _leader(row: Version) -> Iterator[Said]:
    if _led_from_outside(row.after) and not _led_from_outside(row.before):
        text = f"its leader {row.after['leader']} is not in its ISR {row.after['isr']}"
        yield _wrong_partition(row, text)


def _led_from_outside(partition: Data | None) -> bool:
    if partition is None or partition["leaderRecoveryState"] == 1:
        return False
    return partition["leader"] not in (*_NOBODY, *partition["isr"])


PARTITION_EPOCHS_STEP = state_check(
    "partition_epochs_step", "critical", "KIP-631",
    "partition epoch and leader epoch of a partition never go back",
    action="origin",
    meaning="""The partition epoch or leader epoch of a partition goes back, or begins below 0.
    Brokers refuse requests of an older epoch, and may ignore the newer state.""",
    advice="""Compare the records of the partition on all replicas from the last good offset on
    (`kraftlog records PATH --key TOPIC_ID`). A reassignment raises both epochs again.""",
)  # fmt: skip
_EPOCHS = ("partitionEpoch", "leaderEpoch")


def _may_go_back(rows: NewVersions) -> Flags:
    back = [
        rows.number(name) < np.where(rows.has_before, rows.number_before(name), 0)
        for name in _EPOCHS
    ]
    return np.logical_or(*back)


@on_row(PARTITION_EPOCHS_STEP, "partitions", _may_go_back)
def _epochs(row: Version) -> Iterator[Said]:
    for name in _EPOCHS:
        was, now = 0 if row.before is None else row.before[name], row.after[name]
        if now < was:
            did = "begins below 0, at" if row.before is None else f"goes back from {was} to"
            yield _wrong_partition(row, f"its {name} {did} {now}")


TOPIC_IDENTITY_UNIQUE = state_check(
    "topic_identity_unique", "critical", "KAFKA-14616",
    "one live topic per name, and one name per id",
    action="origin",
    meaning="""Two living topics share a name, or two names share an id. Clients and brokers
    would mix their data up.""",
    advice="""Stop producers of these topics, find out which controller wrote the record, and
    delete one of the two.""",
)  # fmt: skip


@on_record(TOPIC_IDENTITY_UNIQUE, "TOPIC_RECORD")
def _topic_identity(step: Incoming) -> Iterator[Said]:
    name, topic_id = step.data["name"], step.data["topicId"]
    same_name = step.state.named("topics", name)
    same_id = step.state.get("topics", (topic_id,))
    advice = (
        "Find out which controller wrote it, and delete one of the two before clients mix them up."
    )
    kind, stops = {}, ""
    if same_name is not None:
        advice = (
            f"From Kafka 3.6 on, a controller that replays it stops with an exception. {advice}"
        )
        kind = {"kind": "topic_exists", "stops": CONTROLLERS}
        stops = f"there is a topic {name} already"
    if same_name is not None and same_name != (topic_id,):
        yield Said(
            f"A topic named {name} (id {topic_id}) is created at offset {step.offset}, while another topic of that name (id {same_name[0]}) exists. {advice}",
            {**kind, "name": name, "topic_id": topic_id, "other_topic_id": same_name[0]},
            stops,
        )
    if same_id is not None:
        yield Said(
            f"The topic id {topic_id} is used again at offset {step.offset} for topic {name}, while it is that of topic {same_id['name']}. "
            f"The partitions of topic {same_id['name']} are forgotten. {advice}",
            {**kind, "name": name, "topic_id": topic_id, "other_name": same_id["name"]},
            stops,
        )
    elif topic_id in step.gone:
        before, since = step.gone[topic_id]
        yield Said(
            f"The topic id {topic_id} is used again at offset {step.offset} for topic {name}: it was that of topic {before}, which was deleted at offset {since.offset}. "
            "A broker that still has a folder of the deleted topic takes the old records for those of the new topic. "
            "Find out which controller wrote it, then delete the topic and create it again.",
            {"name": name, "topic_id": topic_id, "other_name": before, "deleted": since.offset},
        )


BROKER_EPOCH_IS_OFFSET = state_check(
    "broker_epoch_is_offset", "warning", "KIP-631",
    "a broker's epoch is the offset of its registration",
    action="origin",
    meaning="""A broker's epoch is not the offset at which it was registered. (Controllers before
    Kafka 3.6 gave smaller ones, which is no finding below metadata.version 3.6.) Requests of the
    broker could be fenced, or those of its predecessor accepted.""",
    advice="""Restart the broker, so it registers again.""",
)  # fmt: skip


@on_record(BROKER_EPOCH_IS_OFFSET, "REGISTER_BROKER_RECORD")
def _broker_epoch(step: Incoming) -> Iterator[Said]:
    broker, epoch = step.data["brokerId"], step.data["brokerEpoch"]
    if step.expected_base_offset <= epoch <= step.offset:
        return
    known = step.state.get("brokers", (broker,))
    since = -1 if known is None else known["brokerEpoch"]
    if known is not None and since == epoch:
        if known["incarnationId"] == step.data["incarnationId"]:
            return
    elif _may_be_from_before_3_6(step.state) and since < epoch <= step.offset:
        return
    place = "the offset of that record"
    if step.batch_base_offset < step.offset:
        place = f"an offset of that batch ({step.batch_base_offset} to {step.offset})"
    yield Said(
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


BROKER_DIRECTORIES_UNIQUE = state_check(
    "broker_directories_unique", "critical", "KIP-858",
    "a log directory is that of one registered broker, which names it once",
    action="origin",
    meaning="""A broker is registered with a log directory that is another registered broker's too,
    or names one twice. Brokers take such a record. A controller stops: at the record that gives a
    directory to a second broker, or at the next one of a broker that names a directory twice.""",
    advice="""Restart no controller. Find out which controller wrote the record; and if the disk of
    one broker was copied to another one, remove the copy's meta.properties.""",
)  # fmt: skip
_REGISTRATION = {
    "REGISTER_BROKER_RECORD": ("brokerId", "brokerEpoch"),
    "UNREGISTER_BROKER_RECORD": ("brokerId", "brokerEpoch"),
    "FENCE_BROKER_RECORD": ("id", "epoch"),
    "UNFENCE_BROKER_RECORD": ("id", "epoch"),
    "BROKER_REGISTRATION_CHANGE_RECORD": ("brokerId", "brokerEpoch"),
}
"""The records of a broker's registration, with the names of its id and epoch."""


@on_record(BROKER_DIRECTORIES_UNIQUE, *_REGISTRATION)
def _directories(step: Incoming) -> Iterator[Said]:
    """Controllers take away all directories of a broker, and give it those that it has from then
    on (ClusterControlManager.updateDirectories).
    """
    broker, epoch = (step.data[name] for name in _REGISTRATION[step.type])
    known = step.state.get("brokers", (broker,))
    is_first = step.type == "REGISTER_BROKER_RECORD"
    if not is_first and (known is None or known["brokerEpoch"] != epoch):
        return  # that is no record of it: see references_exist
    held = () if known is None else known["logDirs"]
    given = step.data.get("logDirs") or ()
    for one in _twice(held):
        yield _broker_directory(
            step,
            f"is of broker {broker}, whose registration names directory {one} twice",
            "Brokers take it, and a controller that replays it stops with an exception.",
            {"broker_id": broker, "directory": one},
        )
    again = _twice(given)
    if not again and {*given} <= {*held}:
        return
    for one in again:
        yield _broker_directory(
            step,
            f"names directory {one} of broker {broker} twice",
            "Brokers take it, and a controller stops with an exception at the next record of that broker.",
            {"broker_id": broker, "directory": one},
        )
    for (other,), value in step.state.rows("brokers").items():
        for one in sorted({*given}.intersection(value["logDirs"]) if other != broker else ()):
            yield _broker_directory(
                step,
                f"gives broker {broker} the directory {one}, which is that of broker {other}",
                "Brokers take it, and a controller that replays it stops with an exception.",
                {"broker_id": broker, "directory": one, "other_broker_id": other},
                f"directory {one} is that of broker {other} and that of broker {broker}",
            )


def _twice(directories: Sequence[str]) -> list[str]:
    if len({*directories}) == len(directories):
        return []
    return sorted(one for one, times in Counter(directories).items() if times > 1)


def _broker_directory(
    step: Incoming, what: str, does: str, evidence: dict[str, Any], stops: str = ""
) -> Said:
    return Said(
        f"The {step.type} at offset {step.offset} {what}. {does} Find out who wrote it before any controller restarts.",
        {**evidence, "stops": CONTROLLERS},
        stops,
    )


PRODUCER_IDS_INCREASE = state_check(
    "producer_ids_increase", "critical", "KAFKA-15552",
    "the next producer id always goes up",
    action="origin",
    meaning="""The next producer id goes back, or stays. Producers are given ids that others use,
    and brokers may drop their records as duplicates. A controller stops at that record.""",
    advice="""Stop new producers, and find out which controller wrote the record. Kafka has no tool
    that raises the next id: a new quorum of kraftlog recover passes over a billion of them.""",
)  # fmt: skip


@on_record(PRODUCER_IDS_INCREASE, "PRODUCER_IDS_RECORD")
def _producer_ids(step: Incoming) -> Iterator[Said]:
    known = step.state.get("producer_ids", ())
    now = step.data["nextProducerId"]
    if known is not None and now <= known["nextProducerId"]:
        was = known["nextProducerId"]
        goes = f"goes back from {was} to {now}" if now < was else f"is {now} once more"
        yield Said(
            f"The next producer id {goes} at offset {step.offset}, and a controller that replays that record stops with an exception. "
            f"Producers will get ids that others use, and brokers may drop their records as duplicates. A new quorum of kraftlog recover gives out ids far above {was}.",
            {"previous": was, "next": now, "stops": CONTROLLERS},
            f"the next producer id {goes}",
        )


MASS_DELETION = state_check(
    "mass_deletion", "warning", "strimzi#11262",
    "no window removes more than the configured share of a kind of object",
    action="deleted",
    goes_by=(
        "mass_deletion_percent", "mass_deletion_minimum", "mass_deletion_minor_percent",
        "mass_deletion_minor_minimum", "mass_deletion_window_ms",
    ),
    meaning="""A large share of all topics, brokers, ACLs, credentials or quotas was removed
    within a minute. A script that ran on the wrong cluster looks like this, and so does the end
    of a test. What is there again within that minute counts as left: an ACL under another id, but
    no topic of the same name, as its records are lost.""",
    advice="""Ask whoever was at work at that time. The state right before it is still there:
    `kraftlog state PATH --at OFFSET` shows it, `kraftlog diff` what went. Create again what is still
    wanted; or, where nothing that came later is, `kraftlog recover` with `--at` that offset writes a quorum of that
    state, with a plan of what it leaves out. That gives back topics, not their records: those are only on brokers
    that were down meanwhile, as long as these do not start. The plan says how to save them.""",
)  # fmt: skip

RECORD_REPLAYS = state_check(
    "record_replays", "warning", "image facts of Kafka 4.3.1",
    "Kafka's replay takes every record that decodes",
    action="origin",
    meaning="""A record decodes, but Kafka's own replay would stop there with an exception, for a
    value or a feature level that its version does not take. Or it takes the record, and then can
    write no snapshot, or its authorizer does not take it.""",
    advice="""Look for the version that wrote it before a node of another version starts.""",
)  # fmt: skip


@on_fault(RECORD_REPLAYS)
def _refused(refused: Refused) -> Iterator[Said]:
    if refused.fault.kind not in MISSING and not _names_directories(refused):
        yield _stops_loaders(refused)


@on_record(RECORD_REPLAYS, "FEATURE_LEVEL_RECORD")
def _negative_level(step: Incoming) -> Iterator[Said]:
    """Images take any level, but the controller itself (FeatureControlManager) stops at one that it
    does not support, and supports none below 0.
    """
    name, level = step.data["name"], step.data["featureLevel"]
    if level < 0 and name != METADATA_VERSION:
        yield Said(
            f"The {step.type} at offset {step.offset} sets {name} to level {level}, and no level is below 0. A controller stops there with an exception. "
            "Find out which controller wrote it before any of them starts.",
            {"kind": "bad_value", "stops": CONTROLLERS, "data": dict(step.data)},
            f"it sets {name} to level {level}, and no level is below 0",
        )


@on_record(RECORD_REPLAYS, "FEATURE_LEVEL_RECORD")
def _level_too_low(step: Incoming) -> Iterator[Said]:
    """A node that starts writes its state out once (MetadataLoader.initializeNewPublishers)."""
    name, level = step.data["name"], step.data["featureLevel"]
    held = step.state.get("features", (METADATA_VERSION,))
    if name != METADATA_VERSION or held is None or not 0 < level < held["featureLevel"]:
        return
    lost = next((one for one in losses(step.state, level) if one.table != "partitions"), None)
    if lost is not None:
        yield Said(
            f"The {step.type} at offset {step.offset} sets {name} from {held['featureLevel']} to {level}, at which Kafka cannot write what the state holds: {lost.what}. "
            "A controller that starts with it stops with an exception, and a broker gets no metadata. Find out who wrote it before any node restarts.",
            {"kind": "unwritable", "stops": NODES, "data": dict(step.data)},
        )


@on_record(RECORD_REPLAYS, "CONFIG_RECORD")
def _config_of_no_broker(step: Incoming) -> Iterator[Said]:
    """From Kafka 4.0 on a controller keeps which brokers have configs of their own, by number
    (ConfigurationControlManager.replay; 4.4 passes over a config that it does not know). The name of
    all brokers is empty.
    """
    name = step.data["resourceName"]
    if step.data["resourceType"] == BROKER_RESOURCE and name and not _is_java_int(name):
        yield Said(
            f"The {step.type} at offset {step.offset} is of broker {name!r}, and that is no number of a broker. From Kafka 4.0 on, a controller that replays it stops. "
            "Find out which controller wrote it before any of them starts.",
            {"kind": "bad_value", "stops": CONTROLLERS, "data": dict(step.data)},
            f"{name!r} is no number of a broker",
        )


_JAVA_INT = re.compile(r"[+-]?\d+")


def _is_java_int(text: str) -> bool:
    """Whether Java's Integer.parseInt takes a text: an int, in digits of any script."""
    return bool(_JAVA_INT.fullmatch(text)) and -LARGEST_INT - 1 <= float(text) <= LARGEST_INT


@on_record(RECORD_REPLAYS, "ACCESS_CONTROL_ENTRY_RECORD")
def _acl_id_twice(step: Incoming) -> Iterator[Said]:
    """AclControlManager and the images take it; the authorizer (AclCache) does not."""
    known = step.state.get("acls", (step.data["id"],))
    if known is not None:
        yield Said(
            f"The {step.type} at offset {step.offset} uses an id again that is in use there: {acl_text(known)}. "
            "Kafka's StandardAuthorizer throws at it: nodes that run may go on by other ACLs than nodes that start anew. "
            "Find out which controller wrote it.",
            {"kind": "acl_exists", "data": dict(step.data)},
        )


@on_record(RECORD_REPLAYS, "ACCESS_CONTROL_ENTRY_RECORD")
def _acl_of_no_principal(step: Incoming) -> Iterator[Said]:
    """Controllers before Kafka 3.9 let anybody write such an ACL (AclControlManager.validateNewAcl)."""
    principal = step.data["principal"]
    if ":" not in principal:
        yield Said(
            f"The {step.type} at offset {step.offset} is of principal {principal!r}, which is not of the form Type:name: {acl_text(step.data)}. "
            "Kafka takes the record, but its StandardAuthorizer then throws at each request for that resource of anybody but a super user. "
            "Remove that ACL, and write it anew with User: before the name.",
            {"kind": "acl_of_nobody", "data": dict(step.data)},
        )


@on_record(RECORD_REPLAYS, "REGISTER_BROKER_RECORD")
def _unknown_protocol(step: Incoming) -> Iterator[Said]:
    """Controllers' registrations are refused for it."""
    protocols = {one["securityProtocol"] for one in step.data["endPoints"]}
    for unknown in sorted(protocols - {*SECURITY_PROTOCOLS}):
        yield Said(
            f"The {step.type} at offset {step.offset} gives broker {step.data['brokerId']} a listener with security protocol {unknown}, which is unknown. "
            "A controller that replays it stops with an exception. Brokers take it, and then can write no snapshot (NullPointerException). "
            "Find out which controller wrote it before any controller restarts.",
            {"kind": "bad_value", "stops": CONTROLLERS, "data": dict(step.data)},
            f"security protocol {unknown} is unknown",
        )
