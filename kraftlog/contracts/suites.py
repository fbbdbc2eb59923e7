"""Suites as data: `conf/expectations/*.yaml` for the tables, and the one that the catalogue of
checks gives.

In: YAML files, and the catalogue. Out: `Suite`s of `Contract`s. A table that may be large is not
handed to Great Expectations row by row: its contracts say what to count (`counts`, see `measures`),
and the counts become one row that Great Expectations judges.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from kraftlog.audit.catalogue import CATALOGUE
from kraftlog.audit.check import Check, Scope, Severity
from kraftlog.audit.run import ERRORED, FAILED, PASSED, SKIPPED
from kraftlog.contracts.gx import YAMLHandler, gx
from kraftlog.contracts.measures import Measure, parse_measure
from kraftlog.log.fault import FaultKind
from kraftlog.message.catalogue import packaged
from kraftlog.tables.spec import state_tables

AUDIT = "audit"
ERRORED_CHECKS = "errored_checks"
CONDITION = "row_condition"


class SuiteError(Exception):
    """A suite that contradicts itself: a defect of the files in `conf/expectations`."""


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
        """The columns that the expectation is about."""
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
        """The tables that it is about."""
        return tuple(dict.fromkeys(one.table for one in self.contracts))

    @property
    def is_counted(self) -> bool:
        """Whether the table is counted instead of read."""
        return any(one.counts is not None for one in self.contracts)


def table_suites() -> list[Suite]:
    """The suites of `conf/expectations`, in the order of their names."""
    files = packaged("conf").joinpath("expectations").iterdir()
    return [
        parse_suite(file.name.removesuffix(".yaml"), file.read_text(encoding="utf-8"))
        for file in sorted(files, key=lambda one: one.name)
        if file.name.endswith(".yaml")
    ]


def parse_suite(name: str, text: str) -> Suite:
    """The suite of one file. For several tables, each has all of its contracts, and the columns of
    the counts are told apart by the table's name: `topics.empty_versions`.
    """
    declared = cast(dict[str, Any], YAMLHandler().load(text))
    unknown = declared.keys() - {"table", "tables", "expectations"}
    if unknown or ("table" in declared) == ("tables" in declared):
        raise SuiteError(f"{name}: it must name one table, or tables, and expectations")
    several = _filled(declared.get("tables", []))
    contracts = tuple(
        _contract(name, one, table, f"{table}." if several else "")
        for table in several or [declared["table"]]
        for one in declared["expectations"]
    )
    counted = {one.counts is not None for one in contracts}
    if len(counted) != 1 or (several and counted != {True}):
        raise SuiteError(f"{name}: all of its expectations count, or, for one table, none does")
    return Suite(name, contracts)


def _contract(suite: str, declared: Mapping[str, Any], table: str, prefix: str) -> Contract:
    rest = dict(declared)
    try:
        severity, reason = rest.pop("severity"), rest.pop("reason")
    except KeyError as error:
        raise SuiteError(f"{suite}: an expectation has no {error}") from error
    counts = rest.pop("counts", None)
    if len(rest) != 1 or severity not in get_args(Severity):
        raise SuiteError(f"{suite}: {list(rest)} must be one expectation with a severity")
    ((expectation, arguments),) = rest.items()
    if not hasattr(gx.expectations, class_name(expectation)):
        raise SuiteError(f"{suite}: Great Expectations knows no {expectation!r}")
    filled = {key: _filled(value) for key, value in arguments.items()}
    if counts is not None:
        filled["column"] = prefix + filled["column"]
    measure = None if counts is None else parse_measure(_filled_in(counts))
    return Contract(table, expectation, filled, severity, " ".join(reason.split()), measure)


def class_name(expectation: str) -> str:
    """expect_column_max_to_be_between → ExpectColumnMaxToBeBetween."""
    return "".join(word.capitalize() for word in expectation.split("_"))


def _vocabularies() -> dict[str, list[str]]:
    """Lists that the code owns; a suite names them with an @ instead of copying them."""
    return {
        "@checks": [check.name for check in CATALOGUE],
        "@severities": list(get_args(Severity)),
        "@scopes": list(get_args(Scope)),
        "@outcomes": [PASSED, FAILED, ERRORED, SKIPPED],
        "@fault_kinds": [str(kind) for kind in FaultKind],
        "@history_tables": list(state_tables()),
    }


def _filled(value: Any) -> Any:
    """A vocabulary in place of its name; other values as they are."""
    if isinstance(value, str) and value.startswith("@"):
        return _vocabularies()[value]
    return value


def _filled_in(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled_in(inner) for key, inner in value.items()}
    return _filled(value)


def audit_suite(checks: Iterable[Check] = CATALOGUE) -> Suite:
    """One contract per check: no critical finding; and one over all: no check errored."""
    contracts = [
        _none(check.name, f"no critical finding: {check.holds_when} ({check.source})")
        for check in checks
    ]
    contracts.append(_none(ERRORED_CHECKS, "a check that broke has judged nothing"))
    return Suite(AUDIT, tuple(contracts))


def _none(column: str, reason: str) -> Contract:
    arguments = {"column": column, "max_value": 0}
    return Contract(
        "check_results", "expect_column_max_to_be_between", arguments, "critical", reason
    )
