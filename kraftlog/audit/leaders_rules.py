"""By which check batches of a log are nothing that a leader of Kafka writes.

In: a quorum with what the history of its state showed, a log and some of its batches. Out: the name
of a check. Where copies differ it tells that those may have been changed which agree.
"""

import numpy as np

from kraftlog.audit.record_checks import CODEC_KINDS, RECORD_KINDS, broken_transactions
from kraftlog.quorum.content import RULES
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum

_BY_KIND = {
    "batch_decompresses": CODEC_KINDS,
    "record_decodes": RECORD_KINDS,
    "record_rules": frozenset(RULES),
}


class LeadersRules:
    """What no leader writes, of the logs of one quorum; a log's transactions are gone through once."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        self._broken: dict[str, list[int]] = {}

    def broken_by(self, log: LogView, start: int, end: int) -> str | None:
        """The check that tells it of the batches of offsets [start, end), the first of several."""
        held = np.flatnonzero((log.last >= start) & (log.base < end))
        if not len(held):
            return None
        first, last = int(held[0]), int(held[-1])
        # An epoch in a header may also be seen to be wrong by that of the batch behind it.
        if (np.diff(log.raw_epochs[max(first - 1, 0) : last + 2]) < 0).any():
            return "epochs_monotonic"
        begun = [one for one in log.epoch_starts[1:] if start <= one.start_offset < end]
        if any(log.lacks_leader_change(one) for one in begun):
            return "leader_change_starts_epoch"
        rows, columns = log.rows[held], log.evidence.log
        contents = (log.content(row) for row in rows[columns.content[rows] >= 0].tolist())
        kinds = {issue.kind for one in contents if one is not None for issue in one.issues}
        for name, meant in _BY_KIND.items():
            if kinds & meant:
                return name
        return self._by_state(log, start, end) or self._by_transactions(log, start, end)

    def _by_state(self, log: LogView, start: int, end: int) -> str | None:
        """A rule of the state that one of the records breaks, as it was told of one of the logs that
        hold the batch.
        """
        for issue in self.quorum.state.issues:
            other = self.quorum.by_label[issue.replica]
            offset = int(other.evidence.log.base_offsets[issue.row]) + issue.record_index
            if start <= offset < end and log in self.quorum.holding(other, offset):
                return issue.check
        return None

    def _by_transactions(self, log: LogView, start: int, end: int) -> str | None:
        if log.label not in self._broken:
            rows = broken_transactions(self.quorum, log)
            self._broken[log.label] = [row.offset or 0 for row in rows if row.severity != "info"]
        is_meant = any(start <= offset < end for offset in self._broken[log.label])
        return "transactions_well_formed" if is_meant else None
