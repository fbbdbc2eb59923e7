"""Step 3, audit: run the checks over the newest run, record their results and findings. Driver
side.
"""

import json
from dataclasses import asdict

from kraftlog.audit.catalogue import BY_NAME
from kraftlog.audit.check import RANK
from kraftlog.audit.origins import setting_rows
from kraftlog.audit.run import ERRORED, FAILED, AuditResult, audit_of
from kraftlog.audit.told import Told
from kraftlog.config import THRESHOLDS, Options
from kraftlog.pipeline.derive import of_run
from kraftlog.pipeline.judge import Judged
from kraftlog.pipeline.judged import judged_rows
from kraftlog.pipeline.run import READING_LIMITS, Run
from kraftlog.plain import tell
from kraftlog.relations import Row
from kraftlog.report.from_lake import (
    recorded_restart,
    recorded_rows,
    recorded_settings,
    recorded_verdict,
)
from kraftlog.report.verdict import headline
from kraftlog.simulate.restart_rows import restart_rows, with_history
from kraftlog.tables.lake import Lake
from kraftlog.tables.reports import (
    CHECK_RESULTS,
    FINDINGS,
    JUDGED,
    RESTART_PLAN,
    SETTINGS,
    VERDICTS,
)

_TABLES = (FINDINGS, VERDICTS, SETTINGS, RESTART_PLAN, JUDGED, CHECK_RESULTS)
"""What an audit writes, in this order; what one of them lacks is written again."""


def audit(run: Run, told: Told | None = None) -> int:
    """Audit the newest run, once; returns the exit code, of an earlier audit of the same
    run too. What the run has `told` of the shared history is not folded again.
    """
    if not is_recorded(run):
        quorum = with_history(run.quorum, run.records, told)
        result = audit_of(quorum)
        settings = list(setting_rows(quorum, run.options))
        _write(run, result, restart_rows(quorum, result.findings), settings, told)
    else:
        _tell_otherwise(run)
    return recorded_exit_code(run.lake, run.run_id, run.options)


def is_recorded(run: Run) -> bool:
    """Whether the newest run has been audited."""
    return not run.lacks(*(one.name for one in _TABLES))


def _tell_otherwise(run: Run) -> None:
    """A run is audited once: say so where it went by something else than what is asked for."""
    rows = run.lake.rows_of_run(SETTINGS.name, run.run_id, ["setting", "value"])
    then = {row["setting"]: row["value"] for row in rows}
    now = {name: getattr(run.options, name) for name in (*THRESHOLDS, *_MEASURED_BY)}
    other = [
        f"{name} {then[name] or 'unset'}"
        for name, value in now.items()
        if name in then and then[name] != (None if value is None else str(value))
    ]
    if other:
        tell(
            f"this run was audited before, with {', '.join(other)}: what was found then is told. What is set now counts from the next new input on, or in another lake"
        )
    asked = {name: value for name, value in run.goes_by.items() if value is not None}
    if different := [name for name, value in asked.items() if run.row[name] != value]:
        tell(
            f"what was found is told by another {', '.join(_IN_WORDS[name] for name in different)} than that of now: run over the input, which audits it again"
        )


_MEASURED_BY = ("disk_capacity_bytes", "load_bytes_per_second")
"""Options that measures are reckoned by."""
_IN_WORDS = {"kraftlog_version": "version of kraftlog", "describe_hash": "describe"} | {
    name: name for name in READING_LIMITS
}


def _write(
    run: Run, result: AuditResult, restart: list[Row], settings: list[Row], told: Told | None
) -> None:
    findings = [one.as_row() for one in result.findings]
    results = [
        asdict(one)
        | {
            "source": BY_NAME[one.check].source,
            "judged": [place._asdict() for place in one.judged],
        }
        for one in result.results
    ]
    verdicts = [_verdict_row(result, findings, results)]
    plan = [
        {**one, "lost": None if one["lost"] is None else json.dumps(one["lost"])} for one in restart
    ]
    texts = [
        {**row, "evidence": json.dumps(row["evidence"], sort_keys=True, default=str)}
        for row in findings
    ]
    told_of_all = (texts, verdicts, settings, plan, judged_rows(told), results)
    for spec, rows in zip(_TABLES, told_of_all, strict=True):
        run.lake.write(spec, of_run(spec, rows, run.run_id), run.number)


def _verdict_row(result: AuditResult, findings: list[Row], results: list[Row]) -> Row:
    row = result.verdict.as_row()
    texts = {name: json.dumps(row[name]) for name in ("not_judged", "lagging")}
    return {**row, **texts, "headline": headline(row, findings, results)}


def recorded(lake: Lake, run_id: str, exit_code: int) -> Judged:
    """What the audit of a run says, as `judged_of` gives it."""
    return Judged(
        recorded_rows(lake, run_id),
        recorded_verdict(lake, run_id),
        exit_code,
        restart=list(recorded_restart(lake, run_id)),
        settings=recorded_settings(lake, run_id),
    )


def recorded_exit_code(lake: Lake, run_id: str, options: Options) -> int:
    """0 nothing at or above `fail_on`, 1 findings at or above it, 2 a check could not be run.
    `strict` counts critical checks that could not judge everything. A check that failed counts where
    its findings are lost.
    """
    findings = lake.rows_of_run(FINDINGS.name, run_id, ["check", "severity"])
    columns = ["check", "severity", "is_gap", "result"]
    checks = lake.rows_of_run(CHECK_RESULTS.name, run_id, columns)
    if options.fail_on != "never":
        gaps = [one for one in checks if one["is_gap"] and one["severity"] == "critical"]
        worst = RANK[options.fail_on]
        told = {one["check"] for one in findings}
        lost = [one for one in checks if one["result"] == FAILED and one["check"] not in told]
        failed = any(RANK[one["severity"]] <= worst for one in [*findings, *lost])
        if failed or (options.strict and gaps):
            return 1
    return 2 if any(one["result"] == ERRORED for one in checks) else 0
