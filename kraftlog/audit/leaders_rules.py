"""By which check batches of a log are nothing that a leader of Kafka writes.

In: a quorum with what the history of its state showed, a log and some of its batches. Out: the name
of a check. Where copies differ it tells that those may have been changed which agree.
"""

import numpy as np
import numpy.typing as npt

from kraftlog.audit.offset_checks import lacks_leader_change
from kraftlog.audit.record_checks import CODEC_KINDS, RECORD_KINDS, broken_transactions
from kraftlog.quorum.content import RULES
from kraftlog.quorum.evidence import StateEvidence
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum

_BY_KIND = {
    "batch_decompresses": CODEC_KINDS,
    "record_decodes": RECORD_KINDS,
    "record_rules": frozenset(RULES),
}


def written_by_no_leader(quorum: Quorum, log: LogView, rows: npt.NDArray[np.int64]) -> str | None:
    """The check that tells it of batches which follow one another, the first of several."""
    first, end = np.searchsorted(log.rows, (rows[0], rows[-1] + 1)).tolist()
    # An epoch in a header may also be seen to be wrong by that of the batch behind it.
    if (np.diff(log.raw_epochs[max(first - 1, 0) : end + 1]) < 0).any():
        return "epochs_monotonic"
    begun = [one for one in log.epoch_starts[1:] if rows[0] <= one.row <= rows[-1]]
    if any(lacks_leader_change(log, one) for one in begun):
        return "leader_change_starts_epoch"
    columns = log.evidence.log
    contents = (log.content(row) for row in rows[columns.content[rows] >= 0].tolist())
    kinds = {issue.kind for one in contents if one is not None for issue in one.issues}
    for name, meant in _BY_KIND.items():
        if kinds & meant:
            return name
    return _by_state(quorum, log, rows) or _by_transactions(quorum, log, rows)


def _by_state(quorum: Quorum, log: LogView, rows: npt.NDArray[np.int64]) -> str | None:
    """A rule of the state that one of the records breaks, as it was told of one of the logs that hold
    the batch.
    """
    state, columns = quorum.evidence.state or StateEvidence(), log.evidence.log
    for issue in state.issues:
        theirs = quorum.by_label[issue.replica].evidence.log
        index = log.index_at(int(theirs.base_offsets[issue.row]))
        row = int(log.rows[index]) if index >= 0 else -1
        is_meant = int(rows[0]) <= row <= int(rows[-1])
        if is_meant and bool((columns.ids[row] == theirs.ids[issue.row]).all()):
            return issue.check
    return None


def _by_transactions(quorum: Quorum, log: LogView, rows: npt.NDArray[np.int64]) -> str | None:
    columns = log.evidence.log
    start, end = int(columns.base_offsets[rows[0]]), int(columns.last_offsets[rows[-1]])
    found = (row for row in broken_transactions(quorum, log) if row.severity != "info")
    is_meant = any(start <= (row.offset or 0) <= end for row in found)
    return "transactions_well_formed" if is_meant else None
