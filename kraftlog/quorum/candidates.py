"""The voters' copies as they stand in an election, and what they lack of what is committed.

In: a quorum. Out: `Candidate`s. A voter grants its vote to whoever is not behind it, by epoch and
then by offset; who stands counts the votes of those that its own log names. Source: KIP-595, Vote,
KIP-853.
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
    """Every voter's copy that can be read, and who would be elected as the voter that it was."""
    lower, standing = quorum.bounds.lower, []
    for log in quorum.electors:
        if any(one.problem for one in log.evidence.segments):
            continue  # nothing is known of what it holds: `file_readable` tells
        own = [one for one in quorum.credible_snapshots if one.replica == log.label]
        ids = [one.id for one in own if one.end_offset]
        end = log.newness if not log.is_empty else (0, 0)
        standing.append((log.evidence.node_id or 0, log, max([end, *ids])))
    found = []
    for voter, log, key in standing:
        named = quorum.electorates[log.label]
        votes = {
            other
            for other, copy, theirs in standing
            if theirs <= key and quorum.is_among(named, copy.evidence)
        }
        granting = frozenset({voter, *votes})
        stands = quorum.is_among(named, log.evidence)
        wins = stands and len(votes) >= len({node for node, _ in named}) // 2 + 1
        reached = quorum.leaves(log.label, key[1])
        if lower > quorum.bounds.shown:
            reached = min(reached, quorum.refuted.get(log.label, reached))
        if wins or voter in quorum.holders:
            lacks = reached if reached < lower else None
            found.append(Candidate(voter, log, lacks, granting, wins))
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
