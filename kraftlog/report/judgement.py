"""What an audit says, as rows: the same of one that was just done, and of one that a lake holds.

In: a quorum with its result, or a lake and the id of a run. Out: `Judged`, from which the exit
code, the terminal, the page, JSON, metrics, JUnit and the lake's tables are taken. It is pickled:
a task may audit one input of many.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kraftlog.audit.origins import setting_rows
from kraftlog.audit.runner import AuditResult, exit_code_of, lines_of
from kraftlog.config import Options
from kraftlog.failures import FAILED
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row
from kraftlog.simulate.restart_rows import restart_rows
from kraftlog.tables.reports import CHECK_RESULTS, FINDINGS, RESTART_PLAN, SETTINGS, VERDICTS
from kraftlog.tables.spec import RUNS

if TYPE_CHECKING:
    from kraftlog.tables.lake import Lake


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What an audit says of one quorum, in the shapes of the tables: `verdict` is
    `Verdict.as_row`, `restart` are `restart_rows`, `settings` `setting_rows`. `changed_in_place`
    counts the files whose bits had changed in silence since a lake's run before. Of a quorum that
    could not be audited there is no verdict, and `error` is the sentence.
    """

    findings: list[Row] = field(default_factory=list)
    checks: list[Row] = field(default_factory=list)
    verdict: Row = field(default_factory=dict)
    restart: list[Row] = field(default_factory=list)
    settings: list[Row] = field(default_factory=list)
    changed_in_place: int = 0
    error: str | None = None

    def lines(self) -> Iterator[Row]:
        """Every finding, then every check that did not fail, as lines of JSON."""
        return lines_of(self.findings, self.checks)

    def exit_code(self, options: Options) -> int:
        """0 nothing at or above `fail_on`, 1 findings at or above it, or files that had changed in
        silence, 2 a check, or all of them, could not be run. `strict` counts critical checks that
        could not judge everything.
        """
        if self.error is not None:
            return FAILED
        rot = int(self.changed_in_place > 0 and options.fail_on != "never")
        return exit_code_of(self.findings, self.checks, options.fail_on, options.strict) or rot


def judged_of(quorum: Quorum, result: AuditResult, options: Options) -> Judged:
    """What a result says of a quorum under these options."""
    return Judged(
        findings=[one.as_row() for one in result.findings],
        checks=[one.as_row() for one in result.results],
        verdict=result.verdict.as_row(),
        restart=restart_rows(quorum, result),
        settings=list(setting_rows(quorum, options)),
    )


def judged_in(lake: "Lake", run_id: str) -> Judged:
    """What the audit of a run said; of a run that was only decoded, that nothing was judged."""
    verdict = [name for name in VERDICTS.schema.names if name not in ("run_id", "headline")]
    (run,) = lake.rows_of_run(RUNS.name, run_id, ["changed_in_place_count"])
    return Judged(
        findings=lake.told_rows(FINDINGS, run_id),
        checks=lake.told_rows(CHECK_RESULTS, run_id),
        verdict=next(iter(lake.told_rows(VERDICTS, run_id, verdict)), _NOT_AUDITED),
        restart=lake.told_rows(RESTART_PLAN, run_id),
        settings=lake.told_rows(SETTINGS, run_id),
        changed_in_place=run["changed_in_place_count"],
    )


_NOT_AUDITED: Row = {
    "verdict": "incomplete",
    "voters": None,
    "missing_voters": [],
    "not_judged": [["every check", "this run has not been audited yet"]],
    "committed_lower": 0,
    "committed_upper": None,
    "lagging": [],
}
