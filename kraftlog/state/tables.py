"""The state tables: for each kind of object, which records put, patch and delete it, and by which
rules.

In: nothing but declarations, one for each kind of object. Out: `TABLES`, in the order in which
Kafka writes a snapshot, and `OPERATIONS` by record type. Source: Kafka's MetadataDelta and the
deltas below it (4.3.1, 4.4.0), each rule tried against it. Topics are found by name where two have
one: the newer. `voters` and `kraft_version` come from control records and are no part of Kafka's
metadata image.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kraftlog.message.catalogue import spec_of
from kraftlog.state.declare import (
    KEEP,
    Cascade,
    Data,
    Delete,
    Key,
    Patch,
    Put,
    Replace,
    ReplayFault,
    StateTable,
    StateView,
    Writer,
    by,
    coded,
    unless,
)
from kraftlog.state.shapes import (
    KRAFT_VERSION,
    MIGRATING,
    as_map,
    known_codes,
    known_principals,
    known_protocols,
    named_endpoints,
    of_known_topic,
    only_next_producer_id,
    optional_value,
    possible_level,
    refit_directories,
    sorted_directories,
    sorted_log_dirs,
    whole_partition,
)

TOPIC_RESOURCE = 2
NO_LEADER_CHANGE = -2
MV_3_3_IV3, MV_3_4_IV0, MV_3_5_IV2, MV_3_6_IV2, MV_3_7_IV0, MV_3_7_IV2 = 7, 8, 11, 14, 15, 17
MV_4_0_IV1, MV_4_3_IV0 = 23, 30


def _one_broker(id_field: str) -> Any:
    def finds(state: StateView, data: Data) -> Iterable[Key]:
        key = (data[id_field],)
        if state.get("brokers", key) is None:
            raise ReplayFault("unknown_broker", f"there is no broker {data[id_field]}")
        return (key,)

    return finds


def _fences(record: str, fenced: bool) -> Patch:
    same = {"epoch": "brokerEpoch"}
    return Patch(record, _one_broker("id"), ("id",), matches=same, sets={"fenced": fenced})


def _one_partition(state: StateView, data: Data) -> Iterable[Key]:
    key = (data["topicId"], data["partitionId"])
    if state.get("partitions", key) is None:
        kind = "unknown_partition" if state.get("topics", key[:1]) else "unknown_topic"
        raise ReplayFault(kind, f"there is no partition {key[1]} of topic {key[0]}")
    return (key,)


def _partitions_with_elr(state: StateView, data: Data) -> Iterable[Key]:
    group: Key = ()
    if data["topicName"]:
        topic = state.named("topics", data["topicName"])
        if topic is None:
            raise ReplayFault("unknown_topic", f"there is no topic named {data['topicName']!r}")
        group = topic
    for key in state.keys("partitions", group):
        partition = state.get("partitions", key)
        if partition and (partition["eligibleLeaderReplicas"] or partition["lastKnownElr"]):
            yield key


def _leader_is_set(record: Data) -> bool:
    return bool(record["leader"] != NO_LEADER_CHANGE)


def _always(record: Data) -> bool:
    return True


def _is_told(value: Any) -> bool:
    """Also of a broker that names none: only what nobody has told is null."""
    return value is not None


def _some_directory(directories: list[str]) -> bool:
    return any(one != MIGRATING for one in directories)


FEATURES = StateTable(
    "features",
    ("feature", "features"),
    ("name",),
    (
        Put(
            "FEATURE_LEVEL_RECORD",
            (possible_level,),
            deletes=("featureLevel", 0),
            ignores=("name", KRAFT_VERSION),
        ),
    ),
)

BROKERS = StateTable(
    "brokers",
    ("broker", "broker registrations"),
    ("brokerId",),
    (
        Put(
            "REGISTER_BROKER_RECORD",
            (
                named_endpoints,
                as_map("endPoints", "name"),
                as_map("features", "name"),
                sorted_log_dirs,
            ),
        ),
        Delete("UNREGISTER_BROKER_RECORD"),
        _fences("FENCE_BROKER_RECORD", True),
        _fences("UNFENCE_BROKER_RECORD", False),
        Patch(
            "BROKER_REGISTRATION_CHANGE_RECORD",
            _one_broker("brokerId"),
            ("brokerId",),
            matches={"brokerEpoch": "brokerEpoch"},
            rules={
                "fenced": coded("fenced", {1: True, 0: KEEP, -1: False}),
                "inControlledShutdown": coded("inControlledShutdown", {1: True, 0: KEEP}),
                "logDirs": lambda old, given: sorted_directories(given) if given else old,
                "cordonedLogDirs": unless(None),
            },
        ),
    ),
    writer=Writer(
        ((MV_3_3_IV3, 1), (MV_3_4_IV0, 2), (MV_3_7_IV2, 3), (MV_4_3_IV0, 4)),
        limits=(
            ("inControlledShutdown", MV_3_3_IV3, bool),
            ("isMigratingZkBroker", MV_3_4_IV0, bool),
            ("logDirs", MV_3_7_IV2, bool),
            ("cordonedLogDirs", MV_4_3_IV0, _is_told),
        ),
    ),
)

CONTROLLERS = StateTable(
    "controllers",
    ("controller", "controller registrations"),
    ("controllerId",),
    (
        Put(
            "REGISTER_CONTROLLER_RECORD",
            (known_protocols, as_map("endPoints", "name"), as_map("features", "name")),
        ),
        Delete("UNREGISTER_CONTROLLER_RECORD"),
    ),
    writer=Writer(since=MV_3_7_IV0),
)

TOPICS = StateTable(
    "topics",
    ("topic", "topics"),
    ("topicId",),
    (
        Put("TOPIC_RECORD"),
        Delete("REMOVE_TOPIC_RECORD", required="unknown_topic"),
    ),
    unique_name="name",
    on_put=(Cascade("partitions", by("topicId")),),
    on_delete=(
        Cascade("partitions", by("topicId")),
        Cascade("configs", lambda topic: (TOPIC_RESOURCE, topic["name"])),
    ),
)

PARTITIONS = StateTable(
    "partitions",
    ("partition", "partitions"),
    ("topicId", "partitionId"),
    (
        Put("PARTITION_RECORD", (of_known_topic, whole_partition)),
        Patch(
            "PARTITION_CHANGE_RECORD",
            _one_partition,
            ("topicId", "partitionId"),
            rules={
                "isr": unless(None),
                "leader": unless(NO_LEADER_CHANGE),
                "replicas": unless(None),
                "removingReplicas": unless(None),
                "addingReplicas": unless(None),
                "leaderRecoveryState": coded("leaderRecoveryState", {-1: KEEP, 0: 0, 1: 1}),
                "eligibleLeaderReplicas": unless(None),
                "lastKnownElr": unless(None),
                "directories": unless(None),
            },
            steps={"leaderEpoch": _leader_is_set, "partitionEpoch": _always},
            fits=refit_directories,
        ),
        Patch(
            "CLEAR_ELR_RECORD",
            _partitions_with_elr,
            sets={"eligibleLeaderReplicas": [], "lastKnownElr": []},
            steps={"partitionEpoch": _always},
        ),
    ),
    group_size=1,
    renames={"replicas": "partition_replicas"},
    writer=Writer(
        ((MV_3_7_IV2, 1), (MV_4_0_IV1, 2)),
        limits=(
            ("directories", MV_3_7_IV2, _some_directory),
            ("eligibleLeaderReplicas", MV_4_0_IV1, bool),
            ("lastKnownElr", MV_4_0_IV1, bool),
        ),
    ),
)

CONFIGS = StateTable(
    "configs",
    ("config", "configs"),
    ("resourceType", "resourceName", "name"),
    (
        Put(
            "CONFIG_RECORD",
            (known_codes("resourceType", (0, 2, 4, 8, 16, 32)),),
            deletes=("value", None),
        ),
    ),
    group_size=2,
)

CLIENT_QUOTAS = StateTable(
    "client_quotas",
    ("client quota", "client quotas"),
    ("entity", "key"),
    (
        Put(
            "CLIENT_QUOTA_RECORD",
            (as_map("entity", "entityType"), optional_value),
            deletes=("remove", True),
        ),
    ),
    hides={"remove": False},
)

PRODUCER_IDS = StateTable(
    "producer_ids",
    ("next producer id", "next producer ids"),
    (),
    (Put("PRODUCER_IDS_RECORD", (only_next_producer_id,)),),
    hides={"brokerId": -1, "brokerEpoch": -1},
)

ACLS = StateTable(
    "acls",
    ("ACL", "ACLs"),
    ("id",),
    (
        Put(
            "ACCESS_CONTROL_ENTRY_RECORD",
            (
                known_codes("resourceType", range(8)),
                known_codes("patternType", range(5)),
                known_codes("operation", range(16)),
                known_codes("permissionType", range(4)),
            ),
        ),
        Delete("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", required="unknown_acl"),
    ),
)

_MECHANISM = known_codes("mechanism", range(3))

SCRAM_CREDENTIALS = StateTable(
    "scram_credentials",
    ("SCRAM credential", "SCRAM credentials"),
    ("mechanism", "name"),
    (
        Put("USER_SCRAM_CREDENTIAL_RECORD", (_MECHANISM,)),
        Delete("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", (_MECHANISM,)),
    ),
    writer=Writer(since=MV_3_5_IV2),
)

DELEGATION_TOKENS = StateTable(
    "delegation_tokens",
    ("delegation token", "delegation tokens"),
    ("tokenId",),
    (
        Put("DELEGATION_TOKEN_RECORD", (known_principals,)),
        Delete("REMOVE_DELEGATION_TOKEN_RECORD"),
    ),
    writer=Writer(since=MV_3_6_IV2),
)

KRAFT_VERSIONS = StateTable(
    "kraft_version", ("kraft.version", "kraft.versions"), (), (Put("KRAFT_VERSION"),), writer=None
)

VOTERS = StateTable(
    "voters",
    ("voter", "voters"),
    ("voterId", "voterDirectoryId"),
    (Replace("KRAFT_VOTERS", "voters", "voterId"),),
    writer=None,
)

TABLES = tuple(one for one in list(globals().values()) if isinstance(one, StateTable))
"""Every state table, in the order in which Kafka writes them."""

TABLE = {table.name: table for table in TABLES}

NO_EFFECT = frozenset({"NO_OP_RECORD", "ZK_MIGRATION_STATE_RECORD"})
BEGIN, END, ABORT = (
    "BEGIN_TRANSACTION_RECORD",
    "END_TRANSACTION_RECORD",
    "ABORT_TRANSACTION_RECORD",
)
TRANSACTION_TYPES = frozenset({BEGIN, END, ABORT})


def _operations() -> dict[str, list[tuple[StateTable, Put | Patch | Delete | Replace]]]:
    found = defaultdict(list)
    for table in TABLES:
        for operation in table.operations:
            if spec_of(operation.record) is None:
                raise LookupError(f"{table.name} is declared over {operation.record}: no such type")
            found[operation.record].append((table, operation))
    return dict(found)


OPERATIONS = _operations()
"""What each record type does: the tables that it touches, and how."""
