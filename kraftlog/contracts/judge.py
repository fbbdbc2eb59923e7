"""Great Expectations judges: subjects → results.

In: suites, and a run of a lake. Out: rows of `contract_results`, in the order of the suites. A
contract that could not be judged is errored, never passed. Each suite is asked of its batch, with
no checkpoint and no validation definition around it: those store suites and answers, and look
whether what is stored has changed, for a quarter of the time more. Everything stays in memory,
without a word to the makers of Great Expectations, and without its pages: they load scripts of
others from the network.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Great Expectations reads this once, when it is imported.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
import numpy as np
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.datasource.fluent.pandas_datasource import PandasDatasource
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.row_conditions import Column

from kraftlog.audit.runner import ERRORED, FAILED, PASSED, SKIPPED
from kraftlog.contracts.subjects import RunOfLake, SuiteRows, said
from kraftlog.contracts.suites import AUDIT, Contract, Suite
from kraftlog.relations import Row
from kraftlog.tables.lake import Lake
from kraftlog.tables.promise import CONDITION

_NUMBER = "number"
_WHOLE = "run"
_TOLD = 5
_FORMAT = "BASIC"
"""A summary also names every row that is not as expected, and how to find it, which nobody reads
here and takes a third of judging.
"""


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
        **arguments,
        severity=contract.severity,
        notes=contract.reason,
        meta={_NUMBER: number},
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
