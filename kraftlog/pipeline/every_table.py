"""Every table of a lake, whichever step writes it."""

from functools import cache

from kraftlog.pipeline.metrics import COPIES, MEASURES, PLANS
from kraftlog.tables import reports
from kraftlog.tables.spec import (
    EPOCHS,
    LINEAGES,
    REPLAY_FAULTS,
    REPLICAS,
    TableSpec,
    decoded_tables,
    state_tables,
)


@cache
def derived_tables() -> dict[str, TableSpec]:
    """Every table that later steps derive from the decoded ones, once per run, by name."""
    told = [one for one in vars(reports).values() if isinstance(one, TableSpec)]
    follows = [REPLICAS, EPOCHS, REPLAY_FAULTS, LINEAGES]
    specs = [*follows, *(one.spec for one in (*COPIES, *MEASURES, *PLANS)), *told]
    return {spec.name: spec for spec in specs}


@cache
def all_tables() -> dict[str, TableSpec]:
    """Every table of a lake, by name."""
    return decoded_tables() | state_tables() | derived_tables()
