"""The whole audit as one value: how good it looks, and how much of it could be judged.

In: a quorum, results and findings. Out: a `Verdict`, which the terminal, the page, JSON and the
lake tell alike. A grade never says more than what was looked at: without a voter's copy nothing is
sound.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from kraftlog.audit.triage import called, kept_up
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.shortfalls import keeping_up_now


class Grade(StrEnum):
    """SOUND: everything was at hand, and holds. INCOMPLETE: what was at hand holds. ATTENTION: a
    person must look. CRITICAL: data is lost, wrong, or about to be.
    """

    SOUND = "sound"
    INCOMPLETE = "incomplete"
    ATTENTION = "attention"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Lag:
    """A replica that is far behind, and what a person calls it: `behind` records, as far as the
    newest log at hand tells; `needs_snapshot` where that log begins after its end. `node_id` is
    None where its files name no node. Of a voter that `fell_behind` only the describe tells it: its
    copy ends where the others do.
    """

    replica: str
    who: str
    behind: int
    needs_snapshot: bool
    is_voter: bool
    node_id: int | None
    fell_behind: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """`not_judged` are (check, why) of checks that lacked something which a person could supply.

    `voters` is None where nothing at hand says who votes. `committed_upper` is None where nothing
    proves it.
    """

    grade: Grade
    voters: tuple[int, ...] | None
    missing_voters: tuple[int, ...]
    not_judged: tuple[tuple[str, str], ...]
    committed_lower: int
    committed_upper: int | None
    lagging: tuple[Lag, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """The last JSON line of an audit, without input and exit code."""
        return {
            "verdict": str(self.grade),
            "voters": None if self.voters is None else list(self.voters),
            "missing_voters": list(self.missing_voters),
            "not_judged": [list(one) for one in self.not_judged],
            "committed_lower": self.committed_lower,
            "committed_upper": self.committed_upper,
            "lagging": [asdict(one) for one in self.lagging],
        }


def verdict_of(
    quorum: Quorum,
    severities: Iterable[str],
    not_judged: Sequence[tuple[str, str]],
    *,
    is_complete: bool,
    is_broken: bool,
) -> Verdict:
    """The verdict on findings of these severities; that a voter was not copied makes it incomplete,
    and is no finding here. `is_complete`: every critical check judged all
    that it should; `is_broken`: some check could not be run.
    """
    far = lagging(quorum)
    found = set(severities)
    members = quorum.voter_set.ids if quorum.voter_set else None
    missing = quorum.bounds.missing_voters
    if "critical" in found:
        grade = Grade.CRITICAL
    elif "warning" in found or is_broken or any(one.is_voter for one in far):
        grade = Grade.ATTENTION
    elif members is None or missing or not is_complete:
        grade = Grade.INCOMPLETE
    else:
        grade = Grade.SOUND
    bounds = quorum.bounds
    return Verdict(grade, members, missing, tuple(not_judged), bounds.lower, bounds.upper, far)


def lagging(quorum: Quorum) -> tuple[Lag, ...]:
    """The replicas that are far behind the newest log, and the voters that did not keep up with the
    leader when it was described.
    """
    newest = quorum.newest_log
    if newest is None:
        return ()
    found = [_lag(quorum, log, newest) for log in quorum.peers]
    return tuple(one for one in found if one is not None)


def _fell_behind(quorum: Quorum, log: LogView) -> bool:
    up = None if quorum.describe_is_refuted else keeping_up_now(quorum)
    node = log.evidence.node_id
    return up is not None and node not in up and bool(quorum.is_voter(log.evidence))


def _is_outdated(quorum: Quorum, log: LogView) -> bool:
    """Whether a copy says nothing of where a node is: one that was pulled is no node's, and of an
    earlier one a later one of the same node is at hand.
    """
    node = log.evidence.node_id
    return log.evidence.is_pulled or any(
        node is not None
        and one.evidence.node_id == node
        and (one.end_offset or 0) > (log.end_offset or 0)
        for one in quorum.peers
    )


def _lag(quorum: Quorum, log: LogView, newest: LogView) -> Lag | None:
    if log.unread_segments:
        return None
    node, is_voter = log.evidence.node_id, bool(quorum.is_voter(log.evidence))
    end = quorum.reach_of(log)
    behind = (newest.end_offset or 0) - end
    needs_snapshot = end < (newest.start_offset or 0)
    is_near = behind <= quorum.thresholds.lag_offsets and not needs_snapshot
    fell = is_near and _fell_behind(quorum, log)
    # Of who kept up by a describe the copy is only older than the newest.
    if (is_near and not fell) or _is_outdated(quorum, log) or node in kept_up(quorum):
        return None
    return Lag(log.label, called(quorum, log), behind, needs_snapshot, is_voter, node, fell)
