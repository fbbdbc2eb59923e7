"""Which code is changed, and which tests should see it: nothing but declarations.

The quick tests stand first, as the first that fails ends a mutant's run.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """Patterns of the files that are changed, the tests in the order in which they run, and which
    of them (an expression of pytest's `-k`).

    `imported` names modules whose functions are called while they are imported: their mutants
    need a process of their own each.
    """

    changed: tuple[str, ...]
    tests: tuple[str, ...]
    chosen: str = "not every_rule_has"
    imported: tuple[str, ...] = ()


SMALL = "(not golden or synthetic) and not fuzz"
"""Of the golden quorums the small ones."""


ROOMS = {
    "state": Room(
        ("kraftlog/state/*",),
        (
            "tests/unit/test_state_replay.py",
            "tests/unit/test_state_image.py",
            "tests/unit/test_state_commands.py",
            "tests/golden/test_state.py",
            "tests/property/test_state.py",
            "tests/property/test_state_history.py",
            "tests/golden/test_history.py",
            "tests/unit/test_restorable.py",
        ),
        f"{SMALL} and not any_base",
        ("kraftlog.state.declare", "kraftlog.state.tables"),
    ),
    "simulate": Room(
        ("kraftlog/simulate/*",),
        (
            "tests/unit/test_simulate_boot.py",
            "tests/unit/test_simulate_epochs.py",
            "tests/unit/test_simulate_failover.py",
            "tests/unit/test_simulate_fetch.py",
            "tests/unit/test_simulate_response.py",
            "tests/unit/test_simulate_rows.py",
            "tests/unit/test_snapshot_transfer.py",
            "tests/unit/test_quorum_messages.py",
            "tests/unit/test_closest_replica.py",
            "tests/unit/test_liveness.py",
            "tests/property/test_simulate.py",
            "tests/property/test_transfer.py",
            "tests/golden/test_plans.py",
        ),
    ),
    "metrics": Room(
        ("kraftlog/metrics/*",),
        (
            "tests/unit/test_metrics_costs.py",
            "tests/unit/test_metrics_quorum.py",
            "tests/unit/test_metrics_objects.py",
            "tests/unit/test_metrics_records.py",
            "tests/unit/test_metrics_scan.py",
            "tests/golden/test_measures.py",
        ),
    ),
    "audit": Room(
        ("kraftlog/audit/*_checks.py", "kraftlog/audit/state_rules.py"),
        (
            "tests/unit/test_audit_checks.py",
            "tests/unit/test_audit_once.py",
            "tests/unit/test_audit_quorum.py",
            "tests/unit/test_audit_replay.py",
            "tests/unit/test_audit_grouping.py",
            "tests/golden/test_audit.py",
        ),
        f"{SMALL} and not every_rule_has",
    ),
    "quorum": Room(
        ("kraftlog/quorum/*",),
        (
            "tests/unit/test_audit_quorum.py",
            "tests/unit/test_lineages.py",
            "tests/unit/test_audit_checks.py",
            "tests/unit/test_live_copy.py",
            "tests/unit/test_restorable.py",
            "tests/golden/test_audit.py",
        ),
        f"{SMALL} and not every_rule_has",
    ),
}
