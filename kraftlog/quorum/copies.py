"""What the moment of copying explains: files of a live quorum are copied one after the other.

In: a replica's log and the time of data that it lacks. Out: whether the copy alone can be the
reason.
"""

from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum


def copy_explains(quorum: Quorum, log: LogView, data_ms: int) -> bool:
    """Whether data of a time may be missing in a log only because its files were copied a little
    earlier.

    A copy carries the time of copying, or of the last append. Data that are older than that were
    lost; data that are newer may have been written after the copy, but not long after: a backup of
    last week explains nothing.
    """
    if not log.evidence.segments:
        return False
    modified = log.evidence.segments[-1].modified_ms
    return modified < data_ms <= modified + quorum.thresholds.copy_skew_ms
