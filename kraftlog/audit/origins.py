"""Which values a run goes by, where each came from, and what it feeds.

In: options, and a quorum with the server.properties beside its logs and a describe. Out: rows of
the table `settings`. Of a text that Kafka would not start with the row says so.
"""

import re
from collections.abc import Iterator

from kraftlog.audit.every_check import CATALOGUE
from kraftlog.config import SECRETS, Options, ValueOrigin, ValueSource, option_names
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import (
    BETWEEN,
    FETCH_TIMEOUT,
    FETCHED_BYTES,
    FETCHED_SNAPSHOT_BYTES,
    INTERVAL,
    KEPT_BYTES,
    KEPT_MS,
    LOWER,
    NUMBERS,
    RACK,
    REQUEST_TIMEOUT,
    RESPONSE_BYTES,
    ROLES,
    SELECTOR,
    UPPER,
    VOTER_SET,
    VOTERS,
    number_of,
)
from kraftlog.relations import Row

HIDDEN = "(hidden)"

_COMMITTED = (VOTER_SET, LOWER, UPPER)
_RUN = ("quorum_describe", "fail_on", "strict")
_SECRET = ("reveal_secrets", "redaction_key")
_ABOVE = {
    "table runs": (
        "input", "verify", "quorum_describe", "batch_limit_bytes", "decompress_limit_bytes",
    ),
    "table replicas": ("quorum_describe", *_COMMITTED),
    "table settings": ("quorum_describe",),
    "table faults": ("verify", "batch_limit_bytes", "decompress_limit_bytes"),
    "table records": _SECRET,
    "table configs": _SECRET,
    "table disk": ("disk_capacity_bytes",),
    "table snapshots": ("load_bytes_per_second", "copy_skew_ms"),
    "table snapshot_metrics": ("copy_skew_ms",),
    "table snapshot_advice": ("load_bytes_per_second", BETWEEN, INTERVAL, KEPT_BYTES, KEPT_MS),
    "table snapshot_policy": (BETWEEN, INTERVAL),
    "table retention_advice": (KEPT_BYTES, KEPT_MS),
    "table snapshot_transfer": (
        "elections_per_hour", "skipped_epochs", "snapshot_usual_bytes", "snapshot_part_ms",
        "load_bytes_per_second", FETCHED_SNAPSHOT_BYTES, FETCH_TIMEOUT, REQUEST_TIMEOUT,
    ),
    "table verdicts": ("lag_offsets", *_COMMITTED),
    "table election_plan": (VOTER_SET,),
    "table restart_plan": _COMMITTED,
    "table truncation_plan": _COMMITTED,
    "table configuration_lint": (*NUMBERS, SELECTOR, RACK, ROLES),
    "command run": _RUN,
    "command audit": _RUN,
    "command plan join": (
        FETCHED_SNAPSHOT_BYTES, FETCHED_BYTES, FETCH_TIMEOUT, REQUEST_TIMEOUT, RESPONSE_BYTES,
    ),
    "command plan snapshot": (
        "load_bytes_per_second", FETCHED_SNAPSHOT_BYTES, FETCH_TIMEOUT, REQUEST_TIMEOUT,
    ),
    "command plan failover": _COMMITTED,
}  # fmt: skip
"""What tables and commands go by: they are declared in rooms above, which an audit does not open."""


_PLACES = {f"check {one.name}": one.goes_by for one in CATALOGUE} | _ABOVE
FEEDS = {
    name: tuple(place for place, goes_by in _PLACES.items() if name in goes_by)
    for name in dict.fromkeys(name for goes_by in _PLACES.values() for name in goes_by)
}
"""What each value feeds: checks, as they declare it, tables, commands. An option that is not named
here says where and how a run works, and changes no answer.
"""
_UNITS = {
    "_per_second": "bytes/s",
    "_per_hour": "per hour",
    "_percent": "%",
    "_seconds": "s",
    "_days": "days",
    "_epochs": "epochs",
    "_offsets": "offsets",
    "_bytes": "bytes",
    ".bytes": "bytes",
    "bytes.between.snapshots": "bytes",
    "_ms": "ms",
    ".ms": "ms",
}
"""By the ends of names."""


def setting_rows(quorum: Quorum, options: Options) -> Iterator[Row]:
    """Every value that a run over this quorum goes by: options, what is known of the quorum, then
    the settings of each node: all numbers, and those texts that are set.
    """
    for name in option_names():
        value = getattr(options, name) if getattr(options, name) != "" else None
        text = HIDDEN if value is not None and name in SECRETS else _text(value)
        yield _row(name, text, options.origins.get(name, ValueOrigin(ValueSource.ARGUMENT)))
    yield from _of_quorum(quorum)
    for log in quorum.logs:
        yield from _of_node(log)


def _of_quorum(quorum: Quorum) -> Iterator[Row]:
    """The voters and the committed interval, which most checks begin with."""
    found, bounds, described = quorum.voter_set, quorum.bounds, quorum.evidence.described
    if found is not None:
        ids = ", ".join(map(str, found.ids))
        source = _VOTERS_BY.get(found.source, ValueSource.RECORDS)
        path = described.path if described and source is ValueSource.DESCRIBE else found.path
        told = f"{found.source}, as replica {found.replica} has it"
        message = None if source is ValueSource.DESCRIBE else told
        yield _row(VOTER_SET, ids, ValueOrigin(source, path), message)
    by_records, by_describe = ValueOrigin(ValueSource.RECORDS), None
    if described is not None:
        by_describe = ValueOrigin(ValueSource.DESCRIBE, described.path)
    for name, value, reason in (
        (LOWER, bounds.lower, bounds.lower_reason),
        (UPPER, bounds.upper, bounds.upper_reason),
    ):
        origin = by_describe if by_describe and "describe" in reason else by_records
        yield _row(name, _text(value), origin, reason)


_VOTERS_BY = {
    "quorum-state": ValueSource.QUORUM_STATE,
    VOTERS: ValueSource.SERVER_PROPERTIES,
    "the describe": ValueSource.DESCRIBE,
}


def _of_node(log: LogView) -> Iterator[Row]:
    replica = log.evidence
    who = {"replica": log.label, "node_id": replica.node_id}
    for name in NUMBERS | FEEDS:
        text = replica.setting(name)
        if name in NUMBERS:
            one = number_of(replica, name)
            origin = ValueOrigin(one.source, one.path)
            yield _row(name, str(one.value), origin, one.message) | who
        elif text is not None and replica.server_properties is not None:
            origin = ValueOrigin(ValueSource.SERVER_PROPERTIES, replica.server_properties.path)
            yield _row(name, text, origin) | who


def _row(name: str, value: str | None, origin: ValueOrigin, message: str | None = None) -> Row:
    unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), None)
    return {
        "setting": name,
        "value": value,
        "unit": unit,
        "replica": None,
        "node_id": None,
        "source": str(origin.source),
        "path": origin.path,
        "message": message,
        "feeds": list(FEEDS.get(name, ())),
    }


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return _KEY_IN_URI.sub(f"{HIDDEN}@", text)


_KEY_IN_URI = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]*@")
"""s3://name:key@bucket: the lake's tables may be shared."""
