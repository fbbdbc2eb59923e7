"""Audit one input without a lake: roots → evidence → findings as rows. Imports no Spark; runs on
the driver or in a task.
"""

from dataclasses import dataclass, field
from typing import Any

from kraftlog.audit.collect import collect
from kraftlog.audit.origins import setting_rows
from kraftlog.audit.run import AuditResult, audit_of
from kraftlog.config import Options
from kraftlog.errors import KraftlogError
from kraftlog.log.directory import find_replicas
from kraftlog.quorum.describe import described_of, of_one_cluster
from kraftlog.quorum.evidence import QuorumEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.thresholds import thresholds_of
from kraftlog.simulate.restart_rows import restart_rows
from kraftlog.source.settings import limits_of, redactor_of

Row = dict[str, Any]


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


def evidence_of(roots: list[str], options: Options, *, replay: bool = True) -> QuorumEvidence:
    """The evidence of the replicas below some roots, read from their files."""
    found = find_replicas(roots)
    redactor, described = redactor_of(options), described_of(options, found)
    limits = limits_of(options, redactor)
    evidence = collect(found, limits, redactor, described, replay, thresholds_of(options))
    return of_one_cluster(evidence, options)


def audit_input(roots: list[str], options: Options) -> Judged:
    """Audit one quorum.

    Raises InputError where its roots cannot be read."""
    quorum = Quorum(evidence_of(roots, options))
    return judged_of(quorum, audit_of(quorum), options)


def judged_of(quorum: Quorum, result: AuditResult, options: Options) -> Judged:
    """What a result says under these options."""
    code = result.exit_code(options.fail_on, options.strict)
    restart = restart_rows(quorum, result.findings)
    settings = list(setting_rows(quorum, options))
    rows, verdict = list(result.rows()), result.verdict.as_row()
    return Judged(rows, verdict, code, restart=restart, settings=settings)


def audit_or_error(root: str, options: Options) -> Judged:
    """The same, where one input among many must not stop the others."""
    try:
        return audit_input([root], options)
    except KraftlogError as error:
        return Judged([], None, 2, str(error))
