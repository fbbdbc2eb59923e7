"""Suites: what the tables promise, and what the catalogue of checks gives.

In: tables with their promises, and the catalogue. Out: `Suite`s of `Contract`s. A table that may be
large is not handed to Great Expectations row by row: its promises say what to count (`counts`, see
`measures`), and the counts become one row that Great Expectations judges.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from kraftlog.audit.check import Scope, Severity
from kraftlog.audit.every_check import CATALOGUE
from kraftlog.audit.runner import ERRORED, FAILED, PASSED, SKIPPED
from kraftlog.contracts.measures import Measure, parse_measure
from kraftlog.log.fault import FaultKind
from kraftlog.tables.promise import CONDITION, Promise
from kraftlog.tables.spec import TableSpec

AUDIT = "audit"
ERRORED_CHECKS = "errored_checks"


class SuiteError(Exception):
    """A suite that contradicts itself: a defect of what the tables promise."""


@dataclass(frozen=True, slots=True)
class Contract:
    """One expectation about a table: its type and arguments, how bad it is where it does not hold,
    and why it is there. `counts` says what its column counts, where the table is counted, not read.
    """

    table: str
    expectation: str
    arguments: Mapping[str, Any]
    severity: Severity
    reason: str
    counts: Measure | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        named = [self.arguments.get(name) for name in ("column", "column_A", "column_B")]
        return (*(name for name in named if name), *self.arguments.get("column_list", ()))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that have to be there, those of its condition (`{column: values}`) too."""
        return (*self.columns, *self.arguments.get(CONDITION, ()))


@dataclass(frozen=True, slots=True)
class Suite:
    """The contracts of one table, of tables that have them in common, or of the audit's results."""

    name: str
    contracts: tuple[Contract, ...]

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.table for one in self.contracts))

    @property
    def is_counted(self) -> bool:
        """Whether the table is counted instead of read."""
        return any(one.counts is not None for one in self.contracts)


def table_suites(tables: Iterable[TableSpec]) -> list[Suite]:
    """The suites of all tables that promise something, in the order of their names. Tables that are
    judged together tell the columns of their counts apart by their names: `topics.empty_versions`.
    """
    suites: dict[str, list[Contract]] = {}
    for spec in tables:
        name, prefix = (spec.suite, f"{spec.name}.") if spec.suite else (spec.name, "")
        found = [_contract(spec.name, one, prefix) for one in spec.promises]
        if found:
            suites.setdefault(name, []).extend(found)
    return [_suite(name, suites[name]) for name in sorted(suites)]


def _suite(name: str, contracts: list[Contract]) -> Suite:
    suite = Suite(name, tuple(contracts))
    counted = {one.counts is not None for one in contracts}
    if len(counted) != 1 or (len(suite.tables) > 1 and counted != {True}):
        raise SuiteError(f"{name}: all of its promises count, or, for one table, none does")
    return suite


def _contract(table: str, promise: Promise, prefix: str) -> Contract:
    arguments = _filled(promise.arguments)
    measure = None
    if promise.counts is not None:
        arguments["column"] = prefix + arguments["column"]
        measure = parse_measure(_filled(promise.counts))
    return Contract(table, promise.expectation, arguments, promise.severity, promise.why, measure)


def _vocabularies() -> dict[str, list[str]]:
    """Lists that the code owns; a promise names them with an @ instead of copying them."""
    return {
        "@checks": [check.name for check in CATALOGUE],
        "@severities": list(get_args(Severity)),
        "@scopes": list(get_args(Scope)),
        "@outcomes": [PASSED, FAILED, ERRORED, SKIPPED],
        "@fault_kinds": [str(kind) for kind in FaultKind],
    }


def _filled(value: Any) -> Any:
    """A vocabulary in place of its name, lists for tuples; other values as they are."""
    if isinstance(value, Mapping):
        return {key: _filled(inner) for key, inner in value.items()}
    if isinstance(value, str) and value.startswith("@"):
        return _vocabularies()[value]
    return list(value) if isinstance(value, tuple) else value


def audit_suite() -> Suite:
    """One contract per check: no critical finding; and one over all: no check errored."""
    contracts = [
        _none(check.name, f"no critical finding: {check.holds_when} ({check.source})")
        for check in CATALOGUE
    ]
    contracts.append(_none(ERRORED_CHECKS, "a check that broke has judged nothing"))
    return Suite(AUDIT, tuple(contracts))


def _none(column: str, reason: str) -> Contract:
    arguments = {"column": column, "max_value": 0}
    return Contract(
        "check_results", "expect_column_max_to_be_between", arguments, "critical", reason
    )
