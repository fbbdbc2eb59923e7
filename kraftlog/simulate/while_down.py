"""Whether a quorum goes on while one of its voters is down.

In: a `Quorum`, and what its nodes do next. Out: words that go on a reason to restart a node or not.
Where a describe names the leader, it is told by the voters that kept up with it, else by the copies:
who has to catch up, to cut its log or does not start is none of a majority yet.
"""

from dataclasses import dataclass
from functools import cached_property

from kraftlog.plain import numbers, voters_text
from kraftlog.quorum.copy_times import copied_before
from kraftlog.quorum.ends import is_closed_at_end
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.shortfalls import is_only_voter, keeping_up_now
from kraftlog.simulate.plan_rows import Plans
from kraftlog.simulate.troubles import are_few, unread_of

_STILL = ", but the quorum stands still while the node is down: "


@dataclass(frozen=True)
class WhileDown:
    """What the other voters of a quorum do while one is down."""

    quorum: Quorum
    plans: Plans

    def words(self, log: LogView) -> str:
        """Whether the quorum goes on while a voter is down: where the leader was described, by the
        voters that kept up with it, else by the copies.
        """
        if is_only_voter(self.quorum, log):
            return f"{_STILL}no other node votes"
        up, own = self.keep_up, log.evidence.node_id
        if up is None and self.quorum.pulled is not None and are_few(self.quorum):
            return "; before it goes down, see in quorum-describe that the voters which keep up are a majority without it"
        if up is None:
            return self._without(log)
        if own not in up:
            return "; it did not keep up with the leader when that was described, so start it first"
        left, away = sorted(up - {own}), sorted({*self.quorum.voters} - up)
        if len(left) >= self.quorum.bounds.majority:
            return f"; voters {numbers(left)} kept up with the leader, and are a majority while the node is down"
        if not away:
            return f"{_STILL}the other voters are not a majority"
        return f"{_STILL}{voters_text(away)} did not keep up with the leader"

    def _without(self, log: LogView) -> str:
        """What keeps the other voters' copies from being a majority that can go on while a voter is
        down; nothing where they are one.
        """
        own, majority = log.evidence.node_id, self.quorum.bounds.majority
        others = {node: held for node, held in self.quorum.holders.items() if node != own}
        if len(others) < majority:
            return f"{_STILL}the other voters at hand are not a majority"
        weak = {node: [self.falls_short(log) for log in held] for node, held in others.items()}
        needed = [f"voter {node}, {told[0]}" for node, told in weak.items() if None not in told]
        short = majority - (len(others) - len(needed))
        if short <= 0:
            return ""
        few = f"{short} of these: " if 1 < short < len(needed) else ""
        them = f", {'or' if short == 1 else 'and'} ".join(needed)
        return f"; but while the node is down the others are a majority only with {few}{them}"

    def falls_short(self, log: LogView) -> str | None:
        """Why a voter may be none of a majority now, by a copy; None where that is as it should be."""
        quorum, end = self.quorum, log.end_offset or 0
        if unread_of(quorum, log, votes=True) or log.unread_segments:
            return "of which a file could not be read"
        if not self.plans.boots[log.label].boots:
            return "which would not start"
        if log.evidence.free_bytes == 0:
            return "whose disk is full"
        if log.label in quorum.departed:
            return "which has to cut its log first"
        is_excused = self.leads(log) and copied_before(quorum, log, end)
        is_behind = end < quorum.bounds.lower and not is_excused
        return "which must have caught up first" if is_behind else None

    def leads(self, log: LogView) -> bool:
        """Whether a node led the newest epoch at hand: it then lags behind nobody."""
        return self.quorum.leaders.get(self.quorum.newest_epoch) == log.evidence.node_id

    @cached_property
    def keep_up(self) -> frozenset[int] | None:
        """Those of the voters that kept up when the quorum was described; None where nothing tells."""
        up = keeping_up_now(self.quorum)
        return up if up is None else up.intersection(self.quorum.voters)

    def why_down(self, log: LogView) -> str | None:
        """What says that a voter was down when it was copied, or of no use to the others."""
        if is_closed_at_end(log):
            return "it was stopped"
        up = self.keep_up
        is_behind = up is not None and log.evidence.node_id not in up
        return "it did not keep up with the leader when that was described" if is_behind else None
