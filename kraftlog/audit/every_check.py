"""All checks, in the order in which a person reads them. A new check is one declaration above its
query, in its scope's module.
"""

from collections.abc import Iterator
from typing import get_args

from kraftlog.audit import (
    clock_checks,
    difference_checks,
    disk_checks,
    election_checks,
    end_checks,
    health_checks,
    identity_checks,
    image_checks,
    log_checks,
    offset_checks,
    partition_checks,
    quorum_state_checks,
    record_checks,
    replica_checks,
    side_file_checks,
    snapshot_checks,
    snapshot_log_checks,
    snapshot_pace_checks,
    state_checks,
    voter_checks,
)
from kraftlog.audit.check import Check, Scope, checks_in

MODULES = (
    log_checks,
    offset_checks,
    record_checks,
    snapshot_checks,
    snapshot_log_checks,
    difference_checks,
    image_checks,
    state_checks,
    replica_checks,
    identity_checks,
    quorum_state_checks,
    end_checks,
    side_file_checks,
    clock_checks,
    election_checks,
    disk_checks,
    snapshot_pace_checks,
    partition_checks,
    health_checks,
    voter_checks,
)


def _in_order() -> Iterator[Check]:
    """Scope by scope, as they are declared; but one with an `after` follows that check, and what is
    declared behind it in its module follows it.
    """
    for scope in get_args(Scope):
        told: list[Check] = []
        for module in MODULES:
            place = len(told)
            for check in checks_in(module):
                if check.scope != scope:
                    continue
                if check.after is not None:
                    place = [one.name for one in told].index(check.after) + 1
                told.insert(place, check)
                place += 1
        yield from told


CATALOGUE: tuple[Check, ...] = tuple(_in_order())
"""Every check that an audit runs."""

BY_NAME: dict[str, Check] = {check.name: check for check in CATALOGUE}
