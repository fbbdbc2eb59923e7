"""Files → the evidence of a quorum with what the history of its state shows, in one process."""

from collections.abc import Sequence

from kraftlog.audit.state_history import with_state
from kraftlog.config import Thresholds
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import Replica
from kraftlog.log.segment import Limits
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.evidence import Described, QuorumEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords


def collect(
    replicas: Sequence[Replica],
    limits: Limits,
    redactor: Redactor,
    described: Described | None = None,
    replay: bool = True,
    thresholds: Thresholds | None = None,
) -> QuorumEvidence:
    """The evidence of one quorum, with words for the records that differ and, where `replay` is
    set, what the history of its state shows.
    """
    evidence = evidence_by(Collector(limits, redactor), replicas, described, thresholds)
    return with_state(Quorum(evidence), FileRecords(redactor, limits)) if replay else evidence
