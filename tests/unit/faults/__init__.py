"""Damages to a healthy quorum, each with the finding that it must give.

Whoever imports one of these modules declares the damages of all, in one order: equal names are told
apart by it.
"""

from tests.unit.faults import (  # noqa: F401
    borders,
    cases,
    ends,
    health,
    log,
    replica,
    snapshots,
    state,
)
