"""All contracts of one run: its published tables, and that its checks found nothing critical.

In: a lake and a run. Out: `ContractResult`s. Runs on the driver, without
Spark: small tables are read, large ones are counted (see `measures`).
"""

from collections.abc import Sequence

from kraftlog.contracts.judge import ContractResult, judge
from kraftlog.contracts.subjects import RunOfLake, Subject, said
from kraftlog.contracts.suites import AUDIT, Suite
from kraftlog.tables.lake import Lake


def run_contracts(
    lake: Lake,
    run_id: str,
    number: int,
    suites: Sequence[Suite],
) -> list[ContractResult]:
    """Judge the contracts of some suites over one run."""
    run = RunOfLake(lake, run_id, number)
    subjects = [_subject(run, one) for one in suites]
    return judge(subjects, run_id)


def _subject(run: RunOfLake, suite: Suite) -> Subject:
    """A table that cannot be read must not hide what the others say: its contracts are errored."""
    try:
        return run.audit_subject(suite) if suite.name == AUDIT else run.table_subject(suite)
    except Exception as error:
        return Subject(suite, broken=said(error))
