"""Files → the evidence of a quorum with what the history of its state shows, in one process.

In: replicas as `log.directory` finds them. Out: `QuorumEvidence`. Memory as `quorum.collector` and
`state_history` say.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kraftlog.audit.images import Images, Stations
from kraftlog.audit.losses import Cut, apart_in, cuts_of, losses_of, stations_of
from kraftlog.audit.state_history import judge_history
from kraftlog.audit.told import Told
from kraftlog.config import Thresholds
from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import Replica
from kraftlog.log.segment import Limits
from kraftlog.quorum.collector import Collector, evidence_by
from kraftlog.quorum.evidence import Described, QuorumEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords, Records
from kraftlog.state.standing import Topics


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


def with_state(
    quorum: Quorum, records: Records, told: Told | None = None, cuts: Iterable[Cut] = ()
) -> QuorumEvidence:
    """The evidence of a quorum with what the history of its state shows, and what goes with the ends
    of logs: those that findings tell of, and further `cuts`.
    """
    cuts = list(dict.fromkeys([*cuts_of(quorum), *cuts]))
    images = Images(records, Topics()) if told is None else told.images
    stations = Stations(images, stations_of(quorum, cuts))
    state = judge_history(quorum, records, told, stations)
    losses = losses_of(quorum, records, cuts, stations)
    found = replace(state, losses=losses, apart=apart_in(quorum, records, stations))
    return replace(quorum.evidence, state=found)
