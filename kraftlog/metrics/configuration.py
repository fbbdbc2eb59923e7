"""Lint of `server.properties` files: what is set, what has no effect, what the log contradicts.

In: a quorum, and the racks of the brokers in its state. Out: rows of the table
`configuration_lint`, one per declared setting of each replica that has such a file beside it.
Source: KIP-630 "Proposed Changes", "Topic Configuration", KIP-392, KIP-1219.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kraftlog.quorum.growth import DAY_MS
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import bytes_since_snapshot, log_bytes, newest_ms, takes_snapshots
from kraftlog.quorum.settings import (
    BETWEEN,
    INTERVAL,
    KEPT_BYTES,
    KEPT_MS,
    RACK,
    ROLES,
    SEGMENT_BYTES,
    SELECTOR,
    SETTINGS,
    Setting,
    default_of,
)
from kraftlog.relations import Row

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

DEFAULT, SET, INVALID, NO_EFFECT, AT_ODDS = "default", "set", "invalid", "no effect", "at odds"
SLACK = 1.5
"""A limit is contradicted where it is exceeded by half: Kafka looks at it only now and then."""


@dataclass(frozen=True)
class Beside:
    """A replica with its properties, and what the other brokers of the quorum have set."""

    quorum: Quorum
    log: LogView
    properties: Mapping[str, str]
    racks: Mapping[int, str | None]
    properties_with_rack: int
    brokers_with_properties: int


Contradiction = Callable[[Beside, Any], str | None]
"""What the files say against a number, or a text; None for nothing."""


def configuration_rows(quorum: Quorum, racks: Mapping[int, str | None]) -> list[Row]:
    """A row per replica with readable properties and declared setting. `racks` is by broker id."""
    with_file = {
        log.label: dict(log.evidence.server_properties.value)
        for log in quorum.logs
        if log.evidence.server_properties is not None
        and log.evidence.server_properties.value is not None
    }
    brokers = [one for one in with_file.values() if "broker" in one.get(ROLES, "broker")]
    in_rack = sum(RACK in one for one in brokers)
    return [
        _row(one, Beside(quorum, quorum.by_label[label], found, racks, in_rack, len(brokers)))
        for label, found in with_file.items()
        for one in SETTINGS
    ]


def _row(setting: Setting, beside: Beside) -> Row:
    value = beside.properties.get(setting.name)
    status, message = _judged(setting, value, beside)
    return {
        "replica": beside.log.label,
        "setting": setting.name,
        "value": value,
        "shipped_default": setting.default,
        "kip": setting.kip,
        "kip_default": setting.kip_default,
        "is_shipped": setting.is_shipped,
        "meaning": setting.meaning,
        "status": status,
        "message": message,
    }


def _judged(setting: Setting, value: str | None, beside: Beside) -> tuple[str, str | None]:
    if not setting.is_shipped:
        if value is None:
            return DEFAULT, None
        return NO_EFFECT, f"no Kafka reads it; what does its work: {setting.instead}"
    given: Any = value
    if setting.minimum is not None:
        text = str(default_of(setting.name)) if value is None else value
        refused = setting.refused(text)
        if refused is not None:
            return INVALID, refused
        given = int(text)
    against = _CONTRADICTIONS.get(setting.name)
    found = against(beside, given) if against else None
    return (AT_ODDS, found) if found else (DEFAULT if value is None else SET, None)


def _bytes_since(beside: Beside, limit: int) -> str | None:
    log = beside.log
    size = bytes_since_snapshot(beside.quorum, log)
    if size <= limit * SLACK:
        return None
    return f"{size:,} bytes were written since the newest snapshot: none is being taken"


def _time_since(beside: Beside, limit: int) -> str | None:
    log = beside.log
    now, begun = log.newest_ms, log.begun_ms
    if limit == 0 or now is None or begun is None or not takes_snapshots(beside.quorum, log):
        return None
    passed = now - [begun, *_contained_until(beside)][-1]
    if passed <= limit * SLACK:
        return None
    return f"the newest snapshot is {passed / 3_600_000:.1f} hours older than the log's end"


def _kept_bytes(beside: Beside, limit: int) -> str | None:
    held = [one for one in beside.quorum.snapshots_of(beside.log.label) if one.is_complete]
    size = log_bytes(beside.log) + sum(one.evidence.size_bytes for one in held)
    if limit < 0 or len(held) < 2 or size <= limit * SLACK:
        return None
    return f"log and {len(held)} snapshots take {size:,} bytes: old ones are not being dropped"


def _kept_time(beside: Beside, limit: int) -> str | None:
    known, now = _contained_until(beside), newest_ms(beside.quorum)
    if limit < 0 or len(known) < 2 or now is None or now - known[0] <= limit * SLACK:
        return None
    return f"the oldest snapshot is {(now - known[0]) / DAY_MS:.1f} days old and still there"


def _contained_until(beside: Beside) -> list[int]:
    """The time of the last record in each complete snapshot of a replica, the oldest snapshot first:
    that of an older one is later where a clock was ahead.
    """
    held = [one for one in beside.quorum.snapshots_of(beside.log.label) if one.is_complete]
    stamps = (one.last_contained_timestamp for one in held)
    return [one for one in stamps if one is not None]


def _segment(beside: Beside, limit: int) -> str | None:
    largest = max((one.size_bytes for one in beside.log.evidence.segments), default=0)
    if largest <= limit * SLACK:
        return None
    return f"there is a segment of {largest:,} bytes: it was written under another value"


def _rack(beside: Beside, value: str | None) -> str | None:
    node = beside.log.evidence.node_id
    if "broker" not in beside.properties.get(ROLES, "broker"):
        return None
    if node is not None and node in beside.racks:
        registered = beside.racks[node]
        if (registered or "") != (value or ""):
            return f"the broker is registered with rack {registered!r}: it was not restarted"
    if 0 < beside.properties_with_rack < beside.brokers_with_properties:
        return f"{beside.properties_with_rack} of {beside.brokers_with_properties} brokers have a rack: Kafka places replicas by rack only where all have one"
    return None


def _selector(beside: Beside, value: str | None) -> str | None:
    if value == RACK_AWARE and not beside.properties.get(RACK):
        return "it chooses by rack, and this broker has none"
    return None


_CONTRADICTIONS: dict[str, Contradiction] = {
    BETWEEN: _bytes_since,
    INTERVAL: _time_since,
    KEPT_BYTES: _kept_bytes,
    KEPT_MS: _kept_time,
    SEGMENT_BYTES: _segment,
    RACK: _rack,
    SELECTOR: _selector,
}
