"""The voters' copies as they stand in an election, and what they lack of what is committed.

In: a quorum. Out: `Candidate`s. A voter grants its vote to whoever is not behind it, by epoch and
then by offset. Source: KIP-595, Vote.
"""

from dataclasses import dataclass

from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum


@dataclass(frozen=True, slots=True)
class Candidate:
    """One voter's copy: its log, or its further snapshot. `lacks_from` is where what is committed
    goes on without it, None where it holds all of it; `granting` are the voters at hand that would
    vote for it, itself among them.
    """

    voter: int
    log: LogView
    lacks_from: int | None
    granting: frozenset[int]
    wins: bool


def candidates(quorum: Quorum) -> list[Candidate]:
    """Every voter's copy that can be read."""
    lower, standing = quorum.bounds.lower, []
    for voter, logs in quorum.holders.items():
        for log in logs:
            if any(one.problem for one in log.evidence.segments):
                continue  # nothing is known of what it holds: `file_readable` tells
            own = [one for one in quorum.credible_snapshots if one.replica == log.label]
            ids = [one.id for one in own if one.end_offset]
            end = log.newness if not log.is_empty else (0, 0)
            standing.append((voter, log, max([end, *ids])))
    found = []
    for voter, log, key in standing:
        granting = frozenset({voter, *(other for other, _, theirs in standing if theirs <= key)})
        reached = quorum.leaves(log.label, key[1])
        lacks = reached if reached < lower else None
        found.append(
            Candidate(voter, log, lacks, granting, len(granting) >= quorum.bounds.majority)
        )
    return found


def committed_holder(quorum: Quorum, offset: int) -> LogView | None:
    """The log that holds what is committed from an offset on, and goes on furthest."""
    logs = [
        log
        for log in quorum.peers
        if log.label not in quorum.tail_starts
        and log.label not in quorum.fork_starts
        and log.covers(offset, quorum.bounds.lower)
    ]
    return max(logs, key=lambda log: log.newness, default=None)
