"""State → the records that Kafka's image writer would write, in canonical form.

In: a state. Out: one record per row, at the version that the metadata.version calls for, with
exactly that version's fields; and what the version cannot carry. Source: Kafka's `*Image.write` and
`*Registration.toRecord` (4.3.1). A state without a metadata.version is written at the newest one,
and levels that Kafka 4 does not know at record version 0, which Kafka 4.3.1 itself would refuse to
do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kraftlog.message.catalogue import spec_of
from kraftlog.state.declare import Data, Key
from kraftlog.state.shapes import (
    LAST_METADATA_VERSION,
    METADATA_VERSION,
    MIGRATING,
    SECURITY_PROTOCOLS,
    canonical_text,
)
from kraftlog.state.state import State
from kraftlog.state.tables import TABLES

ELR_FEATURE = "eligible.leader.replicas.version"
MV_3_3_IV3, MV_3_4_IV0, MV_3_5_IV2, MV_3_6_IV2, MV_3_7_IV0, MV_3_7_IV2 = 7, 8, 11, 14, 15, 17
MV_4_0_IV1, MV_4_3_IV0 = 23, 30


class ImageRecord(NamedTuple):
    """One record of an image."""

    type: str
    version: int
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Versions:
    """What decides how records are written: the metadata.version, and whether ELRs are on."""

    metadata_version: int
    elr_enabled: bool

    @classmethod
    def of(cls, state: State) -> "Versions":
        """From the features of a state."""
        level = state.get("features", (METADATA_VERSION,))
        if level is None:
            return cls(LAST_METADATA_VERSION, True)
        elr = state.get("features", (ELR_FEATURE,))
        return cls(level["featureLevel"], elr is not None and elr["featureLevel"] >= 1)


@dataclass(frozen=True, slots=True)
class Writer:
    """How one table's rows are written. `steps` are (first metadata.version, record version),
    `since` the first level that can hold the table at all, `limits` the fields that need a level:
    (field, level, whether a value would be lost).
    """

    table: str
    type: str
    steps: tuple[tuple[int, int], ...] = ()
    since: int = 0
    limits: tuple[tuple[str, int, Callable[[Any], bool]], ...] = ()

    def version(self, level: int) -> int:
        """The record version at a metadata.version."""
        return max((version for first, version in self.steps if level >= first), default=0)


def _some_directory(directories: list[str]) -> bool:
    return any(one != MIGRATING for one in directories)


_WRITERS = {
    one.table: one
    for one in (
        Writer("features", "FEATURE_LEVEL_RECORD"),
        Writer(
            "brokers",
            "REGISTER_BROKER_RECORD",
            ((MV_3_3_IV3, 1), (MV_3_4_IV0, 2), (MV_3_7_IV2, 3), (MV_4_3_IV0, 4)),
            limits=(
                ("inControlledShutdown", MV_3_3_IV3, bool),
                ("isMigratingZkBroker", MV_3_4_IV0, bool),
                ("logDirs", MV_3_7_IV2, bool),
                ("cordonedLogDirs", MV_4_3_IV0, bool),
            ),
        ),
        Writer("controllers", "REGISTER_CONTROLLER_RECORD", since=MV_3_7_IV0),
        Writer("topics", "TOPIC_RECORD"),
        Writer(
            "partitions",
            "PARTITION_RECORD",
            ((MV_3_7_IV2, 1), (MV_4_0_IV1, 2)),
            limits=(("directories", MV_3_7_IV2, _some_directory),),
        ),
        Writer("configs", "CONFIG_RECORD"),
        Writer("client_quotas", "CLIENT_QUOTA_RECORD"),
        Writer("producer_ids", "PRODUCER_IDS_RECORD"),
        Writer("acls", "ACCESS_CONTROL_ENTRY_RECORD"),
        Writer("scram_credentials", "USER_SCRAM_CREDENTIAL_RECORD", since=MV_3_5_IV2),
        Writer("delegation_tokens", "DELEGATION_TOKEN_RECORD", since=MV_3_6_IV2),
    )
}

IMAGE_TABLES = tuple(table.name for table in TABLES if table.in_image)


def image_record(table: str, value: Data, versions: Versions) -> ImageRecord | None:
    """One row as Kafka writes it; None where it is not written at all."""
    writer = _WRITERS[table]
    level = versions.metadata_version
    if level < writer.since or (table == "producer_ids" and value["nextProducerId"] < 0):
        return None
    version = writer.version(level)
    if table == "partitions":
        value = _partition(value, versions)
        if version < 2 and (value["eligibleLeaderReplicas"] or value["lastKnownElr"]):
            # Kafka cannot serialise it: ELRs are on while the version has no place for them.
            return None
    return ImageRecord(writer.type, version, _fields(writer.type, version, value))


def _partition(value: Data, versions: Versions) -> Data:
    """ELRs are written only while the feature is on, and empty ones as null."""
    on = versions.elr_enabled
    elr = (value["eligibleLeaderReplicas"] or None) if on else None
    last = (value["lastKnownElr"] or None) if on else None
    return {**value, "eligibleLeaderReplicas": elr, "lastKnownElr": last}


def _fields(record_type: str, version: int, value: Data) -> dict[str, Any]:
    spec = spec_of(record_type)
    assert spec is not None
    return {field.json: value[field.json] for field in spec.fields if version in field.versions}


def image_records(state: State) -> Iterator[ImageRecord]:
    """Every record of the state: tables in Kafka's order, metadata.version first, each topic before
    its partitions, sorted by key.
    """
    versions = Versions.of(state)
    for table in IMAGE_TABLES:
        if table == "partitions":
            continue
        for key in sorted(state.rows(table), key=_order):
            value = state.rows(table)[key]
            record = image_record(table, value, versions)
            if record is not None:
                yield record
            if table == "topics":
                for inner in sorted(state.keys("partitions", key)):
                    partition = image_record(
                        "partitions", state.rows("partitions")[inner], versions
                    )
                    if partition is not None:
                        yield partition


def _order(key: Key) -> tuple[bool, str]:
    return key != (METADATA_VERSION,), canonical_text(key)


def canonical_line(record: ImageRecord) -> str:
    """One line per record: equal lines are equal records; sorted, they are the canonical form of an
    image.
    """
    return canonical_text({"type": record.type, "version": record.version, "data": record.data})


class Loss(NamedTuple):
    """Something that Kafka's snapshot of this state would not hold, or at which writing it
    throws.
    """

    table: str
    key: Key
    what: str


def losses(state: State) -> Iterator[Loss]:
    """What is lost when the state is written at its metadata.version; with Kafka's default options
    writing then throws, but for ELRs.
    """
    versions = Versions.of(state)
    level = versions.metadata_version
    for table, writer in _WRITERS.items():
        for key, value in state.rows(table).items():
            if level < writer.since:
                yield Loss(table, key, f"metadata.version {level} has no {table}")
                continue
            for field, first, is_lost in writer.limits:
                if level < first and is_lost(value[field]):
                    yield Loss(table, key, f"{field} needs metadata.version {first}")
            if table == "partitions" and not versions.elr_enabled:
                for field in ("eligibleLeaderReplicas", "lastKnownElr"):
                    if value[field]:
                        yield Loss(table, key, f"{field} is not written while {ELR_FEATURE} is 0")
            if table == "brokers":
                for one in value["endPoints"]:
                    if one["securityProtocol"] not in SECURITY_PROTOCOLS:
                        yield Loss(table, key, "an endpoint's security protocol is unknown")
