"""Last part of the audit step: have the contracts of the newest run's tables judged, once. Driver
side.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from functools import cached_property

from kraftlog.audit.runner import ERRORED, FAILED
from kraftlog.contracts.beside import JUDGE
from kraftlog.contracts.suites import AUDIT, Suite, audit_suite, table_suites
from kraftlog.failures import in_short
from kraftlog.pipeline.derive import of_run
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.run import Run
from kraftlog.plain import tell, tell_as
from kraftlog.relations import Row
from kraftlog.tables.reports import CONTRACT_RESULTS


class Contracts:
    """The contracts of the tables of a run, judged while others are still written."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._begun: dict[str, Future[list[Row]]] = {}

    @cached_property
    def _suites(self) -> list[Suite]:
        return [audit_suite(), *table_suites(all_tables().values())]

    def begin(self, beside: Executor) -> None:
        """Have those judged that the run has written by now."""
        if self._run.lacks(CONTRACT_RESULTS.name):
            ready = [one for one in self._others() if not self._run.lacks(*one.tables)]
            asked = beside.submit(self._judged, ready)
            self._begun |= {one.name: asked for one in ready}

    def results(self) -> list[Row]:
        """All, when all tables are written, in the order of the suites."""
        results = self._judged(self._others())
        for one in dict.fromkeys(self._begun.values()):
            results += one.result()
        order = [one.name for one in self._suites]
        return sorted(results, key=lambda one: order.index(one["suite"]))

    def _others(self) -> list[Suite]:
        return [one for one in self._suites if one.name not in self._begun]

    def _judged(self, suites: Sequence[Suite]) -> list[Row]:
        return JUDGE.judge(self._run.lake, self._run.run_id, self._run.number, suites)


def contracts_step(run: Run, contracts: Contracts | None = None) -> int:
    """Judge and record, once per run; 0, or 2 where a contract of our own tables is broken.

    What the suite `audit` says is the quorum's business: the audit's exit code tells it already.
    """
    if run.lacks(CONTRACT_RESULTS.name):
        try:
            _record(run, (contracts or Contracts(run)).results())
        # The audit's own results are recorded by now; whatever breaks here must not hide them.
        except Exception as error:
            tell(f"the contracts could not be judged ({in_short(error)})")
            return 2
    rows = run.lake.rows_of_run(CONTRACT_RESULTS.name, run.run_id)
    broken = [row for row in rows if _is_broken(row)]
    for row in broken:
        tell(_sentence(row))
    return 2 if broken else 0


def _record(run: Run, results: list[Row]) -> None:
    table = of_run(CONTRACT_RESULTS, results, run.run_id)
    run.lake.write(CONTRACT_RESULTS, table, run.number)
    counts = Counter(one["result"] for one in results)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    tell_as("contracts", told)


def _is_broken(row: Row) -> bool:
    """A warning can follow from an input that changed while it was read; an error never does."""
    if row["suite"] == AUDIT:
        return False
    return row["result"] == ERRORED or (row["result"], row["severity"]) == (FAILED, "critical")


def _sentence(row: Row) -> str:
    what = "broken" if row["result"] == FAILED else "not judged"
    seen = row["detail"] or row["observed"]
    where = f"{row['table_name']} on {row['subject'] or 'its rows'}"
    return f"the contract of the table {where} is {what} ({row['reason']}; {seen}): that is a defect of kraftlog and not of the quorum, so do not rely on this run, and report it"
