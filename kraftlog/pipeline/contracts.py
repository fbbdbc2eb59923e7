"""Last part of the audit step: judge the contracts of the newest run's tables, once. Driver side.

Great Expectations is imported only where there is something to judge.
"""

import sys
from collections import Counter

from kraftlog.audit.run import ERRORED, FAILED
from kraftlog.failures import in_short
from kraftlog.pipeline.derive import of_run
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.run import Row, Run
from kraftlog.plain import tell
from kraftlog.tables.reports import CONTRACT_RESULTS

AUDIT_SUITE = "audit"


def contracts_step(run: Run) -> int:
    """Judge and record, once per run; 0, or 2 where a contract of our own tables is broken.

    What the suite `audit` says is the quorum's business: the audit's exit code tells it already.
    """
    if run.lacks(CONTRACT_RESULTS.name):
        try:
            _judge(run)
        # The audit's own results are recorded by now; whatever breaks here must not hide them.
        except Exception as error:
            tell(f"the contracts could not be judged ({in_short(error)})")
            return 2
    rows = run.lake.rows_of_run(CONTRACT_RESULTS.name, run.run_id)
    broken = [row for row in rows if _is_broken(row)]
    for row in broken:
        tell(_sentence(row))
    return 2 if broken else 0


def _judge(run: Run) -> None:
    from kraftlog.contracts.judge import run_contracts
    from kraftlog.contracts.suites import audit_suite, table_suites

    suites = [audit_suite(), *table_suites(all_tables().values())]
    results = run_contracts(run.lake, run.run_id, run.number, suites)
    rows = [
        {name: getattr(one, name) for name in CONTRACT_RESULTS.schema.names if name != "run_id"}
        for one in results
    ]
    table = of_run(CONTRACT_RESULTS, rows, run.run_id)
    run.lake.write(CONTRACT_RESULTS, table, run.number)
    counts = Counter(one.result for one in results)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"contracts: {told}", file=sys.stderr)


def _is_broken(row: Row) -> bool:
    """A warning can follow from an input that changed while it was read; an error never does."""
    if row["suite"] == AUDIT_SUITE:
        return False
    return row["result"] == ERRORED or (row["result"], row["severity"]) == (FAILED, "critical")


def _sentence(row: Row) -> str:
    what = "broken" if row["result"] == FAILED else "not judged"
    seen = row["detail"] or row["observed"]
    where = f"{row['table_name']} on {row['subject'] or 'its rows'}"
    return f"the contract of the table {where} is {what} ({row['reason']}; {seen}): that is a defect of kraftlog and not of the quorum, so do not rely on this run, and report it"
