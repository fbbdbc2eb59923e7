"""Step 3, audit: run the checks over the newest run, record their results and findings. Driver
side.
"""

from typing import NamedTuple

from kraftlog.audit.runner import audit_of
from kraftlog.audit.told import Told
from kraftlog.config import THRESHOLDS
from kraftlog.pipeline.derive import Derived, derive
from kraftlog.pipeline.judged import judged_rows
from kraftlog.pipeline.run import READING_LIMITS, Run
from kraftlog.plain import counted, tell
from kraftlog.quorum.model import Quorum
from kraftlog.recover.ranking import restore_rows
from kraftlog.relations import Row
from kraftlog.report.headline import headline
from kraftlog.report.judgement import Judged, judged_in, judged_of
from kraftlog.simulate.restart_rows import with_history
from kraftlog.tables.reports import (
    CHECK_RESULTS,
    FINDINGS,
    JUDGED,
    RESTART_PLAN,
    RESTORE_RANKING,
    SETTINGS,
    VERDICTS,
)


class Audited(NamedTuple):
    """What an audit says of a run, with what its history shows, and what the run had told of the
    shared one.
    """

    quorum: Quorum
    judged: Judged
    told: Told | None


def _verdicts(one: Audited) -> list[Row]:
    judged = one.judged
    told = headline(judged.verdict, judged.findings, judged.checks)
    return [judged.verdict | {"headline": told}]


_TABLES: list[Derived[Audited]] = [
    Derived(FINDINGS, lambda one: one.judged.findings),
    Derived(VERDICTS, _verdicts),
    Derived(SETTINGS, lambda one: one.judged.settings),
    Derived(RESTART_PLAN, lambda one: one.judged.restart),
    Derived(RESTORE_RANKING, lambda one: restore_rows(one.quorum)),
    Derived(JUDGED, lambda one: judged_rows(one.told)),
    Derived(CHECK_RESULTS, lambda one: one.judged.checks),
]
"""What an audit writes, in this order."""


def audit(run: Run, told: Told | None = None) -> Judged:
    """Audit the newest run, once; what that says, or an earlier audit of the same run did. What the
    run has `told` of the shared history is not folded again.
    """
    if is_recorded(run):
        _tell_otherwise(run)

    def audited() -> Audited:
        quorum = with_history(run.quorum, run.records, told)
        return Audited(quorum, judged_of(quorum, audit_of(quorum), run.options), told)

    derive(run, _TABLES, audited)
    judged = judged_in(run.lake, run.run_id)
    if judged.changed_in_place:
        tell(
            f"run {run.number} has read {counted(judged.changed_in_place, 'file')} whose content had changed under the same size and time: a disk or a copy is at fault"
        )
    return judged


def is_recorded(run: Run) -> bool:
    """Whether the newest run has been audited."""
    return not run.lacks(*(one.spec.name for one in _TABLES))


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
