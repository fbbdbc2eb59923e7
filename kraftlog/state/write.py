"""State → the records that Kafka's image writer would write, in canonical form.

In: a state. Out: one record per row, at the version that the metadata.version calls for, with
exactly that version's fields; and what the version cannot carry, which is left out. Source: Kafka's
`*Image.write` and `*Registration.toRecord` (4.3.1). A state without a metadata.version is written
at the newest one, and levels that Kafka 4 does not know at record version 0, which Kafka 4.3.1
itself would refuse to do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kraftlog.message.catalogue import known_spec
from kraftlog.plain import counted
from kraftlog.state.declare import Data, Key
from kraftlog.state.shapes import (
    LAST_METADATA_VERSION,
    METADATA_VERSION,
    SECURITY_PROTOCOLS,
    canonical_text,
)
from kraftlog.state.state import State
from kraftlog.state.tables import TABLE, TABLES

ELR_FEATURE = "eligible.leader.replicas.version"


class ImageRecord(NamedTuple):
    type: str
    version: int
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WriteLevels:
    """What decides how records are written: the metadata.version, and whether ELRs are on."""

    metadata_version: int
    elr_enabled: bool

    @classmethod
    def of(cls, state: State) -> "WriteLevels":
        """From the features of a state."""
        level = state.get("features", (METADATA_VERSION,))
        if level is None:
            return cls(LAST_METADATA_VERSION, True)
        elr = state.get("features", (ELR_FEATURE,))
        return cls(level["featureLevel"], elr is not None and elr["featureLevel"] >= 1)


IMAGE_TABLES = tuple(table.name for table in TABLES if table.writer is not None)


def image_record(table: str, value: Data, versions: WriteLevels) -> ImageRecord | None:
    """One row as Kafka writes it; None where it is not written at all."""
    declared = TABLE[table]
    writer = declared.writer
    assert writer is not None
    level = versions.metadata_version
    if level < writer.since or (table == "producer_ids" and value["nextProducerId"] < 0):
        return None
    version = writer.version(level)
    if table == "partitions":
        value = _partition(value, versions)
    return ImageRecord(declared.record, version, _fields(declared.record, version, value))


def _partition(value: Data, versions: WriteLevels) -> Data:
    """ELRs are written only while the feature is on, and empty ones as null."""
    on = versions.elr_enabled
    elr = (value["eligibleLeaderReplicas"] or None) if on else None
    last = (value["lastKnownElr"] or None) if on else None
    return {**value, "eligibleLeaderReplicas": elr, "lastKnownElr": last}


def _fields(record_type: str, version: int, value: Data) -> dict[str, Any]:
    fields = known_spec(record_type).fields
    return {field.json: value[field.json] for field in fields if version in field.versions}


def image_records(state: State) -> Iterator[ImageRecord]:
    """Every record of the state: tables in Kafka's order, metadata.version first, each topic before
    its partitions, sorted by key.
    """
    versions = WriteLevels.of(state)
    written = (image_record(table, value, versions) for table, value in _in_order(state))
    return (one for one in written if one is not None)


def _in_order(state: State) -> Iterator[tuple[str, Data]]:
    for table in IMAGE_TABLES:
        for key in sorted(state.rows(table), key=_order) if table != "partitions" else ():
            yield table, state.rows(table)[key]
            if table == "topics":
                for inner in sorted(state.keys("partitions", key)):
                    yield "partitions", state.rows("partitions")[inner]


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


def losses_text(lost: Sequence[Loss]) -> str:
    """Losses in words; there must be some."""
    count = counted(len(lost), "value")
    return f"{count} cannot be written at this metadata.version, the first: {lost[0].what}"


def losses(state: State, at_level: int | None = None) -> Iterator[Loss]:
    """What is lost when the state is written at its metadata.version, or at another one; with Kafka's
    default options writing then throws, but for ELRs while they are off.
    """
    versions = WriteLevels.of(state)
    level = versions.metadata_version if at_level is None else at_level
    for table in IMAGE_TABLES:
        writer = TABLE[table].writer
        assert writer is not None
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
