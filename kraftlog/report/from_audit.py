"""`PageData` of one audit without a lake.

In: a quorum and what its checks said. Out: `PageData`; what needs every record decoded is left out,
with a sentence.
"""

from collections.abc import Sequence
from datetime import datetime

from kraftlog import __version__
from kraftlog.audit.run import AuditResult
from kraftlog.metrics.snapshots import snapshot_rows
from kraftlog.plain import counted
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.rows import epoch_rows, replica_rows
from kraftlog.report.view import PageData, Row


def page_of_audit(
    quorum: Quorum,
    result: AuditResult,
    restart: Sequence[Row],
    settings: Sequence[Row],
    inputs: tuple[str, ...],
    created: datetime,
) -> PageData:
    """What an audit of these roots found at a time; `restart` are the rows of `restart_rows`,
    `settings` those of `setting_rows`.
    """
    batches = sum(len(one.log) for one in quorum.replicas)
    scale = f"{counted(len(quorum.replicas), 'replica')}, {batches:,} record batches in their logs"
    checks = [
        {"check": one.check, "severity": one.severity, "scope": one.scope, "result": one.result,
         "finding_count": one.finding_count, "reason": one.reason}
        for one in result.results
    ]  # fmt: skip
    return PageData(
        version=__version__,
        created=created,
        inputs=inputs,
        scale=scale,
        verdict=result.verdict.as_row(),
        replicas=tuple(replica_rows(quorum)),
        epochs=tuple(epoch_rows(quorum)),
        findings=tuple(one.as_row() for one in result.findings),
        checks=tuple(checks),
        snapshots=tuple(snapshot_rows(quorum)),
        restart=tuple(restart),
        settings=tuple(settings),
        has_lake=False,
    )
