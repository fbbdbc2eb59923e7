"""Audit one input without a lake: roots → evidence → what it says, as rows. Imports no Spark; runs
on the driver or in a task.
"""

from collections.abc import Sequence

from kraftlog.audit.runner import audit_of
from kraftlog.config import Options
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords
from kraftlog.report.judgement import Judged, judged_of
from kraftlog.simulate.restart_rows import with_history
from kraftlog.source.collected import collected
from kraftlog.source.task_settings import redactor_of


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
