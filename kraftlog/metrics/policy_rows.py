"""Where each snapshot policy would have cut, what that would have cost, and what was really cut.

In: the simulator, a quorum, the size of a state's object. Out: rows of the table `snapshot_policy`.
Source: KIP-630 "When to Snapshot", KIP-630 v19 "Configurations".
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kraftlog.metrics.policy import ADOPTED, SHIPPED, Interval, PolicyLimits, Simulator
from kraftlog.metrics.snapshot_advice import NEVER_MS, limits_of_node
from kraftlog.quorum.growth import write_amplification
from kraftlog.quorum.model import Quorum
from kraftlog.relations import moment

Row = dict[str, Any]
REAL = "real"
BY_SETTINGS = (ADOPTED, SHIPPED)
"""The rules that look at what a server.properties can set."""


def policy_rows(simulator: Simulator, quorum: Quorum, object_bytes: float | None) -> list[Row]:
    """A row per interval of each rule by the simulator's limits, of the rules that look at settings
    by those of each node that sets any, and of each replica's real snapshots; the last interval of
    each is open.
    """
    rows = list(_of_rules(simulator, None, object_bytes))
    for log in quorum.logs:
        own = limits_of_node(log)
        if own != PolicyLimits():
            rows += _of_rules(replace(simulator, limits=own), log.label, object_bytes)
    for log in quorum.logs:
        ends = {one.end_offset for one in quorum.credible_snapshots if one.replica == log.label}
        for number, one in enumerate(_real(simulator, sorted(ends - {0})), 1):
            rows.append(_row(simulator, REAL, log.label, number, one, object_bytes))
    return rows


def _of_rules(
    simulator: Simulator, replica: str | None, object_bytes: float | None
) -> Iterator[Row]:
    for name, rule in simulator.rules().items():
        if replica is None or name in BY_SETTINGS:
            for number, one in enumerate(simulator.intervals(rule), 1):
                yield _row(simulator, name, replica, number, one, object_bytes)


def _real(simulator: Simulator, ends: list[int]) -> Iterator[Interval]:
    """The intervals between a replica's snapshots, from the first offset that the log still holds:
    what was cut and has been deleted since is not known.
    """
    start, log_end = simulator.changes.known_from, simulator.log.end_offset
    for end in ends:
        if start < end <= log_end:
            yield Interval(start, end, "snapshot")
            start = end
    yield Interval(start, max(start, log_end), None)


def _row(
    simulator: Simulator,
    policy: str,
    replica: str | None,
    number: int,
    one: Interval,
    object_bytes: float | None,
) -> Row:
    log, changes = simulator.log, simulator.changes
    start, end = one.start_offset, one.end_offset
    begun, until = log.time_before(start), log.time_before(end)
    if begun is None and len(log):
        begun = int(log.base_timestamps[0])
    held, alive = changes.alive_at(start), changes.alive_at(end)
    changed, log_bytes = changes.count(start, end), log.bytes_between(start, end)
    size = None if object_bytes is None else int(alive * object_bytes)
    limits = simulator.limits
    is_timed = policy == SHIPPED and limits.max_interval_ms < NEVER_MS
    return {
        "policy": policy,
        "replica": replica,
        "limit_bytes": limits.max_bytes if policy in BY_SETTINGS else None,
        "limit_interval_ms": limits.max_interval_ms if is_timed else None,
        "interval": number,
        "start_offset": start,
        "end_offset": end,
        "start_timestamp": None if begun is None else moment(begun),
        "end_timestamp": None if until is None else moment(until),
        "is_cut": one.trigger is not None,
        "trigger": one.trigger,
        "record_count": log.records_between(start, end),
        "log_bytes": log_bytes,
        "interval_ms": None if begun is None or until is None else until - begun,
        "snapshot_object_count": held,
        "changed_object_count": changed,
        "dirty_ratio": changed / held if held else None,
        "object_count": alive,
        "snapshot_size_bytes": size,
        "write_amplification": write_amplification(size, log_bytes) if size is not None else None,
    }
