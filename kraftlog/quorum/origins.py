"""Which values a run goes by, where each came from, and what it feeds.

In: options, and a quorum with the server.properties beside its logs and a describe. Out: `Number`s,
and rows of the table `settings`. Whoever compares with a number of a node asks `number_of`, so that
there is one order: an argument, the node's own file, Kafka's default. A text that Kafka would not
start with is passed over, and the row says so.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kraftlog.config import SECRETS, Options, Origin, Source, option_names
from kraftlog.quorum.evidence import ReplicaEvidence
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import (
    AUTO_JOIN,
    BETWEEN,
    CONTROLLERS,
    FETCH_TIMEOUT,
    FETCHED_BYTES,
    FETCHED_SNAPSHOT_BYTES,
    INTERVAL,
    KEPT_BYTES,
    KEPT_MS,
    LISTENERS,
    NUMBERS,
    RACK,
    RESPONSE_BYTES,
    ROLES,
    SEGMENT_BYTES,
    SEGMENT_MS,
    SELECTOR,
    VOTERS,
    default_of,
)

Row = dict[str, Any]
VOTER_SET, LOWER, UPPER = "voters", "committed_lower", "committed_upper"
HIDDEN = "(hidden)"

_COPIED = "check log_end_lost; check newest_leader_commits; check voter_holds_committed_data; check snapshot_ahead_of_log; table snapshots; table snapshot_metrics"
_STORM = "check election_storm; check leaders_last; table snapshot_transfer"
_RUN = "command run; command audit"
_LINT = "table configuration_lint"
_TAKEN = f"table snapshot_advice; table snapshot_policy; {_LINT}"
_KEPT = f"check retention_keeps_up; table retention_advice; table snapshot_advice; {_LINT}"
_FETCH = f"check controllers_catch_up; table snapshot_transfer; table catch_up; command plan join; command plan snapshot; {_LINT}"
_PLACES = "check voter_endpoints_agree"
_BOUND = "check voter_holds_committed_data; check committed_data_consistent; table verdicts; table replicas; table restart_plan; table truncation_plan; command plan failover"
FEEDS: dict[str, str] = {
    "input": "table runs",
    "quorum_describe": f"table replicas; table settings; {_RUN}",
    "verify": "table runs; table faults",
    "fail_on": _RUN,
    "strict": _RUN,
    "reveal_secrets": "table records; table configs",
    "redaction_key": "table records; table configs",
    "disk_capacity_bytes": "table disk",
    "load_bytes_per_second": "table snapshots; table snapshot_advice; table catch_up",
    "elections_per_hour": _STORM,
    "skipped_epochs": "check election_storm; table snapshot_transfer",
    "copy_skew_ms": _COPIED,
    "lag_offsets": "table verdicts",
    "idle_gap_ms": "check leader_writes_on; check snapshot_taken",
    "mass_deletion_percent": "check mass_deletion",
    "mass_deletion_minimum": "check mass_deletion",
    "mass_deletion_minor_percent": "check mass_deletion",
    "mass_deletion_minor_minimum": "check mass_deletion",
    "mass_deletion_window_ms": "check mass_deletion",
    "snapshot_usual_bytes": "check snapshot_too_large_to_fetch; table snapshot_transfer",
    "retention_over_percent": "check retention_keeps_up",
    "snapshot_part_ms": "check controllers_catch_up; check election_storm; table snapshot_transfer",
    "disk_days": "check disk_has_room",
    "tenure_ms": "check leaders_last",
    "short_tenures": "check leaders_last",
    "rejoin_ms": "check voters_removed_stay_away",
    "snapshot_stale_ms": "check snapshot_taken",
    "batch_limit_bytes": "table faults",
    "decompress_limit_bytes": "table faults",
    VOTER_SET: f"check voters_present; check voter_sets_agree; table election_plan; {_BOUND}",
    LOWER: _BOUND,
    UPPER: _BOUND,
    BETWEEN: f"check retention_keeps_up; check disk_has_room; check snapshot_not_too_often; {_TAKEN}",
    INTERVAL: f"check snapshot_taken; check snapshot_not_too_often; {_TAKEN}",
    KEPT_BYTES: f"check disk_has_room; {_KEPT}",
    KEPT_MS: _KEPT,
    SEGMENT_BYTES: f"check disk_has_room; {_LINT}",
    SEGMENT_MS: f"check disk_has_room; {_LINT}",
    FETCHED_SNAPSHOT_BYTES: _FETCH,
    FETCHED_BYTES: f"command plan join; {_LINT}",
    FETCH_TIMEOUT: _FETCH,
    RESPONSE_BYTES: f"command plan join; {_LINT}",
    SELECTOR: _LINT,
    RACK: _LINT,
    ROLES: f"check controllers_catch_up; {_LINT}",
    VOTERS: f"{_PLACES}; check voter_sets_agree",
    CONTROLLERS: _PLACES,
    LISTENERS[0]: _PLACES,
    LISTENERS[1]: _PLACES,
    AUTO_JOIN: "check voters_removed_stay_away",
}
"""What each value feeds: checks, tables, commands. An option that is not named here says where and
how a run works, and changes no answer.
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


class Number(NamedTuple):
    """A number that a node goes by, where it came from, and why a nearer one was passed over.
    `path` is its server.properties, also where that does not set it.
    """

    value: int
    source: Source
    path: str | None = None
    message: str | None = None


def number_of(replica: ReplicaEvidence | None, name: str, given: int | None = None) -> Number:
    """A setting of a node, of which there may be no copy, or one whose file is not at hand."""
    if given is not None:
        return Number(given, Source.ARGUMENT)
    file = None if replica is None else replica.server_properties
    path = None if file is None else file.path
    text = None if replica is None else replica.setting(name)
    if text is None:
        return Number(default_of(name), Source.KAFKA_DEFAULT, path)
    refused = NUMBERS[name].refused(text)
    if refused is not None:
        return Number(default_of(name), Source.KAFKA_DEFAULT, path, refused)
    return Number(int(text), Source.SERVER_PROPERTIES, path)


def setting_rows(quorum: Quorum, options: Options) -> Iterator[Row]:
    """Every value that a run over this quorum goes by: options, what is known of the quorum, then
    the settings of each node: all numbers, and those texts that are set.
    """
    for name in option_names():
        value = getattr(options, name) if getattr(options, name) != "" else None
        text = HIDDEN if value is not None and name in SECRETS else _text(value)
        yield _row(name, text, options.origins.get(name, Origin(Source.ARGUMENT)))
    yield from _of_quorum(quorum)
    for log in quorum.logs:
        yield from _of_node(log)


def _of_quorum(quorum: Quorum) -> Iterator[Row]:
    """The voters and the committed interval, which most checks begin with."""
    found, bounds, described = quorum.voter_set, quorum.bounds, quorum.evidence.described
    if found is not None:
        ids = ", ".join(map(str, found.ids))
        source = _VOTERS_BY.get(found.source, Source.RECORDS)
        path = described.path if described and source is Source.DESCRIBE else found.path
        told = f"{found.source}, as replica {found.replica} has it"
        message = None if source is Source.DESCRIBE else told
        yield _row(VOTER_SET, ids, Origin(source, path), message)
    by_records, by_describe = Origin(Source.RECORDS), None
    if described is not None:
        by_describe = Origin(Source.DESCRIBE, described.path)
    for name, value, reason in (
        (LOWER, bounds.lower, bounds.lower_reason),
        (UPPER, bounds.upper, bounds.upper_reason),
    ):
        origin = by_describe if by_describe and "describe" in reason else by_records
        yield _row(name, _text(value), origin, reason)


_VOTERS_BY = {
    "quorum-state": Source.QUORUM_STATE,
    VOTERS: Source.SERVER_PROPERTIES,
    "the describe": Source.DESCRIBE,
}


def _of_node(log: LogView) -> Iterator[Row]:
    replica = log.evidence
    who = {"replica": log.label, "node_id": replica.node_id}
    for name in FEEDS:
        text = replica.setting(name)
        if name in NUMBERS:
            one = number_of(replica, name)
            origin = Origin(one.source, one.path)
            yield _row(name, str(one.value), origin, one.message) | who
        elif text is not None and replica.server_properties is not None:
            origin = Origin(Source.SERVER_PROPERTIES, replica.server_properties.path)
            yield _row(name, text, origin) | who


def _row(name: str, value: str | None, origin: Origin, message: str | None = None) -> Row:
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
        "feeds": FEEDS[name].split("; ") if name in FEEDS else [],
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
