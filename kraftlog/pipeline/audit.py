"""Step 3, audit: run the checks over the newest run, record their results and findings. Driver
side.
"""

import json
from typing import Any

import pyarrow as pa

from kraftlog.audit.catalogue import BY_NAME
from kraftlog.audit.check import RANK
from kraftlog.audit.collect import with_state
from kraftlog.audit.run import ERRORED, AuditResult, audit_quorum
from kraftlog.config import Options
from kraftlog.pipeline.evidence import quorum_of, records_of
from kraftlog.pipeline.run import lake_of, newest_run
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import CHECK_RESULTS, FINDINGS

Row = dict[str, Any]


def audit(options: Options) -> int:
    """Audit the newest run, once; returns the exit code, of an earlier audit of the same
    run too.
    """
    lake = lake_of(options)
    run = newest_run(lake)
    if min(lake.run_number(one.name) for one in (FINDINGS, CHECK_RESULTS)) < run["number"]:
        evidence = with_state(quorum_of(lake, options), records_of(lake, options))
        result = audit_quorum(evidence)
        _write(lake, result, run)
    return recorded_exit_code(lake, run["run_id"], options.fail_on)


def _write(lake: Lake, result: AuditResult, run: Row) -> None:
    findings = [_finding_row(one.as_row(), run["run_id"]) for one in result.findings]
    results = [
        {
            "run_id": run["run_id"],
            "check": one.check,
            "severity": one.severity,
            "scope": one.scope,
            "result": one.result,
            "finding_count": one.finding_count,
            "reason": one.reason,
            "source": BY_NAME[one.check].source,
        }
        for one in result.results
    ]
    for spec, rows in ((FINDINGS, findings), (CHECK_RESULTS, results)):
        lake.write(spec, pa.Table.from_pylist(rows, schema=spec.schema), run["number"])


def _finding_row(row: Row, run_id: str) -> Row:
    evidence = json.dumps(row["evidence"], sort_keys=True, default=str)
    return {**row, "run_id": run_id, "evidence": evidence}


def recorded_exit_code(lake: Lake, run_id: str, fail_on: str) -> int:
    """0 nothing at or above `fail_on`, 1 findings at or above it, 2 a check could not be judged."""
    severities = _column(lake, FINDINGS.name, run_id, "severity")
    if fail_on != "never" and any(RANK[one] <= RANK[fail_on] for one in severities):
        return 1
    return 2 if ERRORED in _column(lake, CHECK_RESULTS.name, run_id, "result") else 0


def _column(lake: Lake, name: str, run_id: str, column: str) -> list[str]:
    rows = lake.rows_of_run(name, run_id, [column])
    return [row[column] for row in rows]
