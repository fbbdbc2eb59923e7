"""What a check judged, and what it should have judged and could not: a check that looked at nothing
has not passed.

In: a quorum. Out: a `Coverage`; each function here is the `over` of checks, which name what they
look at. A gap is something that a person could close (a copy, a readable file); that there is no
object of a kind is none.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kraftlog.log import names
from kraftlog.plain import numbers
from kraftlog.quorum.bounds import NOBODY_KNOWN
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView

Gap = tuple[str | None, str]
"""A replica (None for the quorum), and why it could not be judged."""

ONE_COPY = "only one copy is at hand"


@dataclass(frozen=True, slots=True)
class Coverage:
    """`judged` are the replicas that a check looked at, `gaps` what it could not; `nothing` says
    why there was nothing of its kind, where there are neither.
    """

    judged: tuple[str, ...]
    gaps: tuple[Gap, ...] = ()
    nothing: str = "there is nothing of that kind"

    @property
    def reason(self) -> str | None:
        """Why not everything was judged; None where it was."""
        if self.gaps:
            told = [f"{label}: {why}" if label else why for label, why in self.gaps]
            return "; ".join(dict.fromkeys(told))
        return None if self.judged else self.nothing

    def but_for(self, gaps: Iterable[Gap]) -> "Coverage":
        """The same with more that could not be judged."""
        told = tuple(gaps)
        apart = {label for label, _ in told}
        judged = tuple(label for label in self.judged if label not in apart)
        return replace(self, judged=judged, gaps=(*self.gaps, *told))


def not_judged(why: str) -> Coverage:
    """Of a check that could judge nothing of the quorum."""
    return Coverage((), ((None, why),))


Subject = Callable[[Quorum], Coverage]


class JudgedRange(NamedTuple):
    """Offsets [start, end) that a check looked at; `replica` None: in the history of all copies."""

    replica: str | None
    start_offset: int | None
    end_offset: int | None


def judged_ranges(quorum: Quorum, covered: Coverage, of_state: bool) -> tuple[JudgedRange, ...]:
    """Where a check looked: the logs of the replicas that it judged, or for a check `of_state` the
    stretches of their history whose state is known.
    """
    if of_state and quorum.evidence.state is not None and covered.judged:
        return tuple(JudgedRange(None, start, end) for start, end in quorum.state.ranges)
    logs = [quorum.by_label[label] for label in covered.judged]
    return tuple(JudgedRange(log.label, log.start_offset, log.end_offset) for log in logs)


def logs(quorum: Quorum) -> Coverage:
    """Every log that has a segment."""
    found = [one for one in quorum.logs if one.evidence.segments]
    labels = tuple(one.label for one in found)
    return Coverage(labels, (), "no log segment is at hand").but_for(unread(found))


def unread(found: Iterable[LogView]) -> list[Gap]:
    """The segments that could not be read, of logs in part as of whole ones."""
    return [
        (
            log.label,
            log.evidence.unlisted
            or f"its {'log' if log.unread else one.name} cannot be read ({one.problem})",
        )
        for log in found
        for one in log.unread_segments[: 1 if log.unread else None]
    ]


def files(quorum: Quorum) -> Coverage:
    """Every replica that holds any file."""
    found = Coverage(tuple(one.label for one in quorum.replicas), (), "no file is at hand")
    return found.but_for(unlisted(quorum))


def unlisted(quorum: Quorum) -> list[Gap]:
    """The replicas of which nobody can see what lies in their log's folder."""
    return [(one.label, one.unlisted) for one in quorum.replicas if one.unlisted]


def snapshots(quorum: Quorum) -> Coverage:
    """The snapshots of nodes' logs."""
    return _snapshots(quorum, quorum.snapshots)


RECORD_ALLOWED = "snapshot_record_allowed"


def loaded_snapshots(quorum: Quorum) -> Coverage:
    """The same where they were loaded too."""
    found, state = snapshots(quorum), quorum.evidence.state
    if state is None:
        return found.but_for([(None, "the records were not replayed")])
    return found.but_for(
        (label, why) for name, label, why in state.skipped if name == RECORD_ALLOWED
    )


def every_snapshot(quorum: Quorum) -> Coverage:
    """All checkpoint files, leftovers and bootstrap checkpoints included."""
    return _snapshots(quorum, quorum.every_snapshot)


def _snapshots(quorum: Quorum, found: Sequence[SnapshotView]) -> Coverage:
    unread = [one for one in found if one.not_read]
    gaps = [(one.replica, f"a checkpoint cannot be read ({one.not_read})") for one in unread]
    return Coverage(
        tuple(dict.fromkeys(one.replica for one in found if not one.not_read)),
        (*gaps, *unlisted(quorum)),
        "no checkpoint is at hand",
    )


def batches(quorum: Quorum) -> Coverage:
    """Logs and checkpoints: whatever holds record batches."""
    both = (logs(quorum), every_snapshot(quorum))
    judged = dict.fromkeys(label for one in both for label in one.judged)
    gaps = tuple(gap for one in both for gap in one.gaps)
    return Coverage(tuple(judged), gaps, "no log segment and no checkpoint is at hand")


def copies(quorum: Quorum) -> Coverage:
    """The copies of one quorum, of which there must be more than one to compare."""
    labels = tuple(one.label for one in quorum.replicas)
    return Coverage(labels) if len(labels) > 1 else _alone(quorum, ONE_COPY)


def copied_logs(quorum: Quorum) -> Coverage:
    """The same for what asks for the records of their logs."""
    return copies(quorum).but_for(unread(quorum.peers))


def _alone(quorum: Quorum, why: str) -> Coverage:
    """There is nothing to compare: a gap where copies of voters are missing."""
    if quorum.bounds.missing_voters:
        return not_judged(f"{why}; {missing_voters_text(quorum)}")
    return Coverage((), (), why)


def epoch_checkpoints(quorum: Quorum) -> Coverage:
    """`leader-epoch-checkpoint` files beside a log."""
    held = [log for log in quorum.logs if log.evidence.epoch_checkpoint is not None]
    return _side_files(quorum, held, "leader-epoch-checkpoint", names.EPOCH_CHECKPOINT)


def quorum_states(quorum: Quorum) -> Coverage:
    held = [log for log in quorum.logs if log.evidence.quorum_state is not None]
    return _side_files(quorum, held, "quorum-state", names.QUORUM_STATE)


def indexes(quorum: Quorum) -> Coverage:
    """`.index` and `.timeindex` files."""
    held = [log for log in quorum.logs if log.evidence.indexes]
    return _side_files(quorum, held, "index", names.INDEX, names.TIME_INDEX)


def _side_files(quorum: Quorum, held: list[LogView], name: str, *kinds: str) -> Coverage:
    """They are held against the logs beside them."""
    found = Coverage(tuple(one.label for one in held), (), f"no {name} is at hand")
    gaps = (*unread(held), *unlisted(quorum))
    return but_for_unread(quorum, found.but_for(gaps), *kinds)


def but_for_unread(quorum: Quorum, found: Coverage, *kinds: str) -> Coverage:
    """What was covered but for the replicas of which a file of some kinds could not be read."""
    return found.but_for(
        (one.label, file.words)
        for one in quorum.replicas
        for file in one.unread
        if file.kind in kinds
    )


def pairs(quorum: Quorum) -> Coverage:
    """Logs that share offsets with another copy's: they can be compared."""
    judged = tuple(
        log.label
        for log in quorum.peers
        if any(
            quorum.comparisons[log.label, one.label].shares_offsets
            for one in quorum.peers
            if one is not log
        )
    )
    apart = unread(quorum.peers)
    if judged:
        return Coverage(judged).but_for(apart)
    with_batches = [one for one in quorum.peers if not one.is_empty]
    if len(with_batches) > 1:
        return _alone(quorum, "no two copies hold the same offsets").but_for(apart)
    why = ONE_COPY if with_batches else "no copy holds a record batch"
    return _alone(quorum, why).but_for(apart)


def missing_voters_text(quorum: Quorum) -> str:
    """Which voters have no copy at hand, in words."""
    ids = quorum.bounds.missing_voters
    if len(ids) == 1:
        return f"no copy of voter {ids[0]} is at hand"
    return f"no copies of voters {numbers(ids)} are at hand"


def voters(quorum: Quorum) -> Coverage:
    """The copies of voters; all of them are wanted."""
    if quorum.voter_set is None:
        return not_judged(NOBODY_KNOWN)
    missing = [(None, missing_voters_text(quorum))] if quorum.bounds.missing_voters else []
    labels = tuple(log.label for log in quorum.voter_logs)
    return Coverage(labels, (*missing, *unread(quorum.voter_logs)))


def committed_voters(quorum: Quorum) -> Coverage:
    """The voters at hand, where something is known to be committed."""
    found = voters(quorum)
    if found.judged and quorum.bounds.lower == 0:
        return not_judged(quorum.bounds.lower_reason)
    return found


def state(check: str, nothing: str = "no record that it looks at is at hand") -> Subject:
    """What the replay judged for a check of the state; `nothing` says why that can be nothing."""

    def covered(quorum: Quorum) -> Coverage:
        found = quorum.evidence.state
        if found is None:
            return not_judged("the records were not replayed")
        labels = tuple(log.label for log in quorum.peers)
        judged = labels if check in found.judged else ()
        skipped = [(label, why) for name, label, why in found.skipped if name == check]
        gaps = tuple(one for one in skipped if not (judged and one[1].endswith(BASE)))
        return Coverage(judged, gaps, nothing)

    return covered


BASE = "is where the replay begins"
"""Why the oldest snapshot at hand is held against nothing: no copy that a person could add reaches
back behind it.
"""
