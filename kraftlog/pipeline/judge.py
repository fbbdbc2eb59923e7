"""Audit one input without a lake: roots → evidence → findings as rows. Imports no Spark; runs on
the driver or in a task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kraftlog.audit.origins import setting_rows
from kraftlog.audit.run import AuditResult, audit_of
from kraftlog.config import Options
from kraftlog.failures import FAILED, sentence_of
from kraftlog.quorum.history import FileRecords
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row
from kraftlog.simulate.restart_rows import restart_rows, with_history
from kraftlog.source.collected import collected
from kraftlog.source.settings import redactor_of


@dataclass(frozen=True, slots=True)
class Judged:
    """What an audit says of one input: findings and checks, the verdict's row, whether each node
    may be restarted (`restart_rows`), and what it went by (`setting_rows`). Of one that could not
    be done there is no verdict, and `error` is its sentence.
    """

    rows: list[Row]
    verdict: Row | None
    exit_code: int
    error: str | None = None
    restart: list[Row] = field(default_factory=list)
    settings: list[Row] = field(default_factory=list)


def replayed(roots: Sequence[str], options: Options) -> Quorum:
    """The quorum below some roots, with what the history of its state shows."""
    redactor = redactor_of(options)
    quorum = collected(roots, options, redactor)
    return with_history(quorum, FileRecords(redactor, quorum.evidence.limits))


def audit_input(roots: list[str], options: Options) -> Judged:
    """Audit one quorum.

    Raises InputError where its roots cannot be read."""
    quorum = replayed(roots, options)
    return judged_of(quorum, audit_of(quorum), options)


def judged_of(quorum: Quorum, result: AuditResult, options: Options) -> Judged:
    """What a result says under these options."""
    code = result.exit_code(options.fail_on, options.strict)
    restart = restart_rows(quorum, result.findings)
    settings = list(setting_rows(quorum, options))
    rows, verdict = list(result.rows()), result.verdict.as_row()
    return Judged(rows, verdict, code, restart=restart, settings=settings)


def audit_or_error(root: str, options: Options) -> Judged:
    """The same, where one input among many must not stop the others, whatever it meets."""
    try:
        return audit_input([root], options)
    except Exception as error:
        return Judged([], None, FAILED, sentence_of(error, f"audit {root} by itself"))
