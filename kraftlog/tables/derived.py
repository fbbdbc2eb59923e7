"""All tables that later steps derive from the decoded ones, once per run."""

from dataclasses import replace
from functools import cache

from kraftlog import relations
from kraftlog.tables.copies import COPIES
from kraftlog.tables.measures import MEASURES
from kraftlog.tables.plans import PLANS
from kraftlog.tables.spec import (
    CHECK_RESULTS,
    CONTRACT_RESULTS,
    FINDINGS,
    JUDGED,
    LINEAGE,
    LINEAGES,
    REPLAY_FAULTS,
    RESTART_PLAN,
    VERDICTS,
    TableSpec,
    decoded_tables,
    per_run,
    state_tables,
)


@cache
def derived_tables() -> dict[str, TableSpec]:
    """Every table that is written once per run, by name."""
    replicas = per_run(relations.REPLICAS)
    replicas = replace(replicas, schema=replicas.schema.append(LINEAGE))
    reports = [CHECK_RESULTS, VERDICTS, RESTART_PLAN, FINDINGS, JUDGED, CONTRACT_RESULTS]
    follows = [replicas, per_run(relations.EPOCHS), REPLAY_FAULTS, LINEAGES]
    specs = [*follows, *COPIES, *MEASURES, *PLANS, *reports]
    return {spec.name: spec for spec in specs}


@cache
def all_tables() -> dict[str, TableSpec]:
    """Every table of a lake, by name."""
    return decoded_tables() | state_tables() | derived_tables()
