"""Great Expectations judges: suites → results, each over a pandas frame: rows of a small table, counts
over a large one, or the results of the checks.

In: suites, and a run of a lake, whose Delta tables are read through Arrow, without Spark. Out: rows of
`contract_results`, in the order of the suites. A contract that could not be judged is errored, never
passed. Each suite is asked of its batch, with no checkpoint and no validation definition around it:
those store suites and answers, and look whether what is stored has changed, for a quarter of the time
more. Everything stays in memory, without a word to the makers of Great Expectations, and without its
pages: they load scripts of others from the network.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

# Great Expectations reads this once, when it is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.datasource.fluent.pandas_datasource import PandasDatasource
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.row_conditions import Column

from kraftlog.audit.runner import ERRORED, FAILED, PASSED, SKIPPED
from kraftlog.contracts.measures import Scans
from kraftlog.contracts.suites import AUDIT, ERRORED_CHECKS, Contract, Suite
from kraftlog.errors import LakeError
from kraftlog.failures import in_short
from kraftlog.plain import in_line
from kraftlog.relations import Row
from kraftlog.tables.lake import Lake
from kraftlog.tables.promise import CONDITION
from kraftlog.tables.reports import CHECK_RESULTS, FINDINGS
from kraftlog.tables.spec import RUN_ID

_NUMBER = "number"
_WHOLE = "run"
_TOLD = 5
_FORMAT = "BASIC"
"""A summary also names every row that is not as expected, and how to find it, which nobody reads
here and takes a third of judging.
"""


@dataclass(frozen=True, slots=True)
class SuiteRows:
    """A suite with the rows that it is judged on; without any, `skipped` says why there is nothing
    to judge, or `broken` why it cannot be read. By column: why its contracts are skipped, and why
    it could not be counted.
    """

    suite: Suite
    frame: pd.DataFrame | None = None
    skipped: str | None = None
    broken: str | None = None
    skipped_columns: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


class RunOfLake:
    """A run and its lake; opens each table once."""

    def __init__(self, lake: Lake, run_id: str, number: int) -> None:
        # What has been opened under the run's lease is not known here.
        self._lake = Lake(lake.root, lake.token, {})
        self._run_id, self._number = run_id, number
        self._scans = Scans(self._lake)

    def table_subject(self, suite: Suite) -> SuiteRows:
        """The rows, or the counts, of a suite's tables."""
        if suite.is_counted:
            return self._counted(suite)
        (table,) = suite.tables
        unpublished = self._unpublished(table)
        if unpublished is not None:
            return SuiteRows(suite, skipped=unpublished)
        wanted = dict.fromkeys(name for one in suite.contracts for name in one.reads)
        return SuiteRows(suite, self._rows(table, list(wanted)).to_pandas())

    def audit_subject(self, suite: Suite) -> SuiteRows:
        """One row: per check that could be judged, how many critical findings it has.

        A check that errored, or that has no result, has no column: its contract errors."""
        unpublished = self._unpublished(CHECK_RESULTS.name) or self._unpublished(FINDINGS.name)
        if unpublished is not None:
            return SuiteRows(suite, skipped=unpublished)
        results = self._rows(CHECK_RESULTS.name, ["check", "result", "reason"]).to_pylist()
        findings = self._rows(FINDINGS.name, ["check", "severity"]).to_pylist()
        critical = Counter(one["check"] for one in findings if one["severity"] == "critical")
        why = {outcome: _reasons(results, outcome) for outcome in (ERRORED, SKIPPED)}
        row = {one["check"]: critical[one["check"]] for one in results}
        row = {check: count for check, count in row.items() if check not in why[ERRORED]}
        row[ERRORED_CHECKS] = len(why[ERRORED])
        frame = pd.DataFrame([row])
        return SuiteRows(suite, frame, skipped_columns=why[SKIPPED], problems=why[ERRORED])

    def _counted(self, suite: Suite) -> SuiteRows:
        """One row: what each contract counts, over all tables of the suite."""
        counts: dict[str, int] = {}
        skipped: dict[str, str] = {}
        problems: dict[str, str] = {}
        for table in suite.tables:
            contracts = [one for one in suite.contracts if one.table == table]
            unpublished = self._unpublished(table)
            if unpublished is not None:
                skipped |= {_column(one): unpublished for one in contracts}
                continue
            for one in contracts:
                try:
                    counts[_column(one)] = self._count(one)
                # What could not be counted has no column, and its contract errors; others go on.
                except Exception as error:
                    problems[_column(one)] = said(error)
        return SuiteRows(suite, pd.DataFrame([counts or {"": 0}]), None, None, skipped, problems)

    def _count(self, contract: Contract) -> int:
        assert contract.counts is not None
        known = self._scans.open(contract.table).schema.names
        absent = [name for name in contract.counts.columns if name not in known]
        if absent:
            raise LakeError(f"{contract.table} has no column {', '.join(absent)}")
        return contract.counts.count(contract.table, self._scans)

    def _unpublished(self, table: str) -> str | None:
        """Why a table cannot be judged yet."""
        if not self._lake.exists(table):
            return f"the table {table} is not published yet"
        if self._lake.run_number(table) < self._number:
            return f"this run has not published the table {table} yet"
        return None

    def _rows(self, table: str, columns: Sequence[str]) -> pa.Table:
        """The rows of this run, as far as the columns exist: a missing one is for the contract to
        find.
        """
        dataset = self._scans.open(table)
        names = dataset.schema.names
        of_run = ds.field(RUN_ID.name) == self._run_id if RUN_ID.name in names else None
        known = [name for name in columns if name in names]
        # A table without any of the columns still has a number of rows.
        return dataset.to_table(columns=known or names[:1], filter=of_run)


def _column(contract: Contract) -> str:
    return str(contract.arguments["column"])


def _reasons(results: Iterable[Mapping[str, Any]], outcome: str) -> dict[str, str]:
    return {one["check"]: one["reason"] or "" for one in results if one["result"] == outcome}


def said(error: Exception) -> str:
    """Why a table could not be judged."""
    if isinstance(error, pa.ArrowException | OSError):
        # Of a Parquet file of ours, in which nothing is that may not be shown.
        return f"{type(error).__name__}: {in_line(error)}"
    return in_short(error)


def run_contracts(lake: Lake, run_id: str, number: int, suites: Sequence[Suite]) -> list[Row]:
    """Judge the contracts of some suites over one run of a lake: small tables are read, large ones
    are counted (see `measures`).
    """
    run = RunOfLake(lake, run_id, number)
    source = _source([one.name for one in suites])
    results: list[Row] = []
    for subject in [_subject(run, one) for one in suites]:
        if subject.frame is not None:
            results += _judged(source, subject)
            continue
        outcome, why = (SKIPPED, subject.skipped) if subject.skipped else (ERRORED, subject.broken)
        results += [_row(subject, one, outcome, None, why) for one in subject.suite.contracts]
    return results


def _subject(run: RunOfLake, suite: Suite) -> SuiteRows:
    """A table that cannot be read must not hide what the others say: its contracts are errored."""
    try:
        return run.audit_subject(suite) if suite.name == AUDIT else run.table_subject(suite)
    except Exception as error:
        return SuiteRows(suite, broken=said(error))


def _source(names: Iterable[str]) -> Any:
    """An asset per suite, in a context that keeps everything in memory; all are added before it
    knows of any: it writes its whole configuration with every one that is added later.
    """
    config = DataContextConfig(
        # Its own default is a site in a temporary folder.
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        data_docs_sites={},
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )
    context = gx.get_context(project_config=config, mode="ephemeral")
    source: Any = PandasDatasource(name="lake")
    for name in names:
        source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(_WHOLE)
    return context.data_sources.add_pandas(datasource=source)


@contextmanager
def _made_once() -> Iterator[None]:
    """Have each expectation make its configuration once meanwhile: Great Expectations asks for it
    anew with each of its arguments, some 90 times for each contract, which took a third of judging.
    """
    kind: Any = Expectation
    making = kind.configuration
    made: dict[int, tuple[Any, Any]] = {}

    def configuration(self: Any) -> Any:
        # The expectation is kept too, so that its number stays its own.
        if id(self) not in made:
            made[id(self)] = self, making.fget(self)
        return made[id(self)][1]

    kind.configuration = property(configuration)
    try:
        yield
    finally:
        kind.configuration = making


def _judged(source: Any, subject: SuiteRows) -> list[Row]:
    """Ask one suite of its frame."""
    suite = subject.suite
    why_not = [_why_skipped(subject, one) for one in suite.contracts]
    expectations = [
        _expectation(contract, number)
        for number, contract in enumerate(suite.contracts)
        if why_not[number] is None
    ]
    judged: dict[int, Any] = {}
    if expectations:
        data = source.get_asset(suite.name).get_batch_definition(_WHOLE)
        batch = data.get_batch({"dataframe": subject.frame})
        with _made_once():
            asked = gx.ExpectationSuite(suite.name, expectations=expectations)
            validation = batch.validate(asked, result_format=_FORMAT)
        # The results come in an order of their own.
        judged = {one.expectation_config.meta[_NUMBER]: one for one in validation.results}
    return [
        _result(subject, contract, judged.get(number))
        if why_not[number] is None
        else _row(subject, contract, SKIPPED, None, why_not[number])
        for number, contract in enumerate(suite.contracts)
    ]


def _why_skipped(subject: SuiteRows, contract: Contract) -> str | None:
    for name in contract.columns:
        if name in subject.skipped_columns:
            return subject.skipped_columns[name]
    return None


def expectation_class(name: str) -> Any:
    """expect_column_max_to_be_between → ExpectColumnMaxToBeBetween."""
    return getattr(gx.expectations, "".join(word.capitalize() for word in name.split("_")))


def _expectation(contract: Contract, number: int) -> Any:
    arguments = dict(contract.arguments)
    if CONDITION in arguments:
        ((column, values),) = arguments[CONDITION].items()
        arguments[CONDITION] = Column(column).is_in(list(values))
    return expectation_class(contract.expectation)(
        **arguments, severity=contract.severity, notes=contract.reason, meta={_NUMBER: number}
    )


def _result(subject: SuiteRows, contract: Contract, judged: Any) -> Row:
    """What Great Expectations says; where it is silent, or stumbled, the contract is errored."""
    problem = "Great Expectations gave no result" if judged is None else _exception(judged)
    if problem is not None:
        known = [subject.problems[name] for name in contract.columns if name in subject.problems]
        return _row(subject, contract, ERRORED, None, known[0] if known else problem)
    outcome = PASSED if judged.success else FAILED
    return _row(subject, contract, outcome, _observed(judged.result), None)


def _exception(judged: Any) -> str | None:
    """The message of an expectation that raised; it is there under one of two shapes."""
    found = judged.exception_info or {}
    for one in (found, *(inner for inner in found.values() if isinstance(inner, dict))):
        if one.get("raised_exception"):
            return str(one.get("exception_message") or "it raised an exception").strip()
    return None


def _observed(result: Any) -> str:
    """What was seen, in a few words of JSON."""
    if "observed_value" in result:
        seen = {"value": result["observed_value"]}
    else:
        seen = {"rows": result.get("element_count"), "unexpected": result.get("unexpected_count")}
        examples = list(result.get("partial_unexpected_list") or [])[:_TOLD]
        if examples:
            seen["examples"] = examples
    return json.dumps(seen, default=_plain)


def _plain(value: Any) -> Any:
    """A number of numpy as Python's; anything else as text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _row(
    subject: SuiteRows, contract: Contract, result: str, observed: str | None, detail: str | None
) -> Row:
    return {
        "suite": subject.suite.name,
        "table_name": contract.table,
        "expectation": contract.expectation,
        "subject": ", ".join(contract.columns),
        "severity": contract.severity,
        "result": result,
        "observed": observed,
        "reason": contract.reason,
        "detail": detail,
    }
