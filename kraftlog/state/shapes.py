"""How Kafka's image holds what a record says: maps instead of lists, sorted directories, unknown
codes, refused values.

Each function takes the state and a put record's data with every field present, and returns the data
as the state holds it. Source: Kafka's BrokerRegistration, ControllerRegistration,
PartitionRegistration, AclBinding and their enums (4.3.1), tried against it.
"""

import json
import math
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from typing import Any

from kraftlog.message.message_spec import ZERO_UUID
from kraftlog.state.declare import Data, ReplayFault, Shape, StateView

MIGRATING = ZERO_UUID
"""The directory of a replica whose place is not known."""
UNASSIGNED, LOST = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
"""That of one for which none is chosen yet, and of one whose directory failed before it was told."""
METADATA_VERSION, KRAFT_VERSION = "metadata.version", "kraft.version"
KNOWN_LEVELS = {
    METADATA_VERSION: 33,
    KRAFT_VERSION: 1,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The features of Kafka 4.4.0, and the highest level of each (of metadata.version 4.4-IV2). Kafka
itself refuses a metadata.version that it does not know, too old or too new: kept here.
"""
LAST_METADATA_VERSION = KNOWN_LEVELS[METADATA_VERSION]
SECURITY_PROTOCOLS = range(4)


def canonical_text(value: Any) -> str:
    """JSON with sorted names and no spaces: equal texts are equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def as_map(field: str, *names: str) -> Shape:
    """A list that Kafka keeps as a map: the last element of a name wins; the order means nothing,
    so it is sorted.
    """

    def shape(state: StateView, data: Data) -> Data:
        if not data[field]:
            return data
        unique = {tuple(one[name] for name in names): one for one in data[field]}
        return {**data, field: sorted(unique.values(), key=canonical_text)}

    return shape


def known_codes(field: str, known: Iterable[int]) -> Shape:
    """An enum's code; one that Kafka does not know becomes 0, UNKNOWN."""
    codes = frozenset(known)

    def shape(state: StateView, data: Data) -> Data:
        return data if data[field] in codes else {**data, field: 0}

    return shape


def known_protocols(state: StateView, data: Data) -> Data:
    """Controllers, unlike brokers, must use a security protocol that Kafka knows."""
    for one in data["endPoints"]:
        if one["securityProtocol"] not in SECURITY_PROTOCOLS:
            raise ReplayFault(
                "bad_value", f"security protocol {one['securityProtocol']} is unknown"
            )
    return data


def named_endpoints(state: StateView, data: Data) -> Data:
    """A listener must have a name."""
    if any(not one["name"] for one in data["endPoints"]):
        raise ReplayFault("bad_value", "an endpoint has no name")
    return data


def uuid_order(text: str) -> tuple[int, int]:
    """Java's order of UUIDs: two signed 64-bit numbers."""
    raw = urlsafe_b64decode(text + "==")
    return int.from_bytes(raw[:8], "big", signed=True), int.from_bytes(raw[8:], "big", signed=True)


def sorted_directories(directories: list[str]) -> list[str]:
    """Log directories as a broker's registration holds them."""
    return sorted(directories, key=uuid_order)


def sorted_log_dirs(state: StateView, data: Data) -> Data:
    """A registration with its log directories sorted; cordoned ones keep their order."""
    if len(data["logDirs"]) < 2:
        return data
    return {**data, "logDirs": sorted_directories(data["logDirs"])}


def possible_level(state: StateView, data: Data) -> Data:
    """A metadata.version is at least 1; other features may have any level."""
    level = data["featureLevel"]
    if data["name"] == METADATA_VERSION and level < 1:
        raise ReplayFault("bad_value", f"metadata.version {level} cannot be")
    return data


def newer_level(data: Data) -> str | None:
    """What of a finalized feature is newer than the Kafka that is known here, in words."""
    name, level = data["name"], data["featureLevel"]
    known = KNOWN_LEVELS.get(name)
    if known is None:
        return f"feature {name} is unknown"
    return f"level {level} of feature {name} is unknown" if level > known else None


def of_known_topic(state: StateView, data: Data) -> Data:
    """A partition needs its topic."""
    if state.get("topics", (data["topicId"],)) is None:
        raise ReplayFault("unknown_topic", f"there is no topic {data['topicId']}")
    return data


def whole_partition(state: StateView, data: Data) -> Data:
    """A directory for every replica, no null lists, a recovery state that exists."""
    if data["leaderRecoveryState"] not in (0, 1):
        raise ReplayFault("bad_value", f"leaderRecoveryState is {data['leaderRecoveryState']}")
    return {
        **data,
        "directories": _one_each(data["directories"], len(data["replicas"])),
        "eligibleLeaderReplicas": data["eligibleLeaderReplicas"] or [],
        "lastKnownElr": data["lastKnownElr"] or [],
    }


def _one_each(directories: list[str], count: int) -> list[str]:
    """As many directories as there are replicas, where any is given."""
    if directories and len(directories) != count:
        raise ReplayFault(
            "bad_value", f"the number of replicas is {count}, of directories {len(directories)}"
        )
    return directories or [MIGRATING] * count


def refit_directories(old: Data, new: Data, record: Data) -> Data:
    """After a change: the record's directories, else the old ones by position; they must fit the
    replicas, unless no place is known at all, and the record does not name both lists.
    """
    if record.get("replicas") is None and record.get("directories") is None:
        return new
    directories = new["directories"]
    names_both = record.get("replicas") is not None and record.get("directories") is not None
    if not names_both and all(one == MIGRATING for one in directories):
        directories = []
    return {**new, "directories": _one_each(directories, len(new["replicas"]))}


def same_number(value: float) -> float:
    """A number as the state holds it: what is none (NaN) is one and the same object, by which equal
    rows are equal.
    """
    return math.nan if math.isnan(value) else value


def optional_value(state: StateView, data: Data) -> Data:
    """A quota's value is a number that may be none."""
    return {**data, "value": same_number(data["value"])}


def known_principals(state: StateView, data: Data) -> Data:
    """Owner, requester and renewers of a token must be written `Type:name`."""
    for principal in (data["owner"], data["requester"], *data["renewers"]):
        if ":" not in principal:
            raise ReplayFault(
                "bad_value", f"{principal!r} is not a principal: it must be Type:name"
            )
    return data


def only_next_producer_id(state: StateView, data: Data) -> Data:
    """The state keeps which id comes next, not who took the block before."""
    return {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": data["nextProducerId"]}
