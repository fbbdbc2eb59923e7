"""What speaks against a restart of a node with its disk as it is, the worst first.

In: a `Quorum`, and what its nodes do next. Out: reasons, each with how safe it leaves a restart and,
where records are lost, from where on. Source: KIP-630 "Changes to Leader Election", KAFKA-1211;
KIP-595, KIP-836, KIP-853.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from kraftlog.audit.triage import called, forgot_its_vote, replicas_text, then_few, votes_left_out
from kraftlog.log import names
from kraftlog.plain import listed, numbers, offsets_text, voters_text
from kraftlog.quorum.committed import returning
from kraftlog.quorum.copy_times import copied_before, described_alone_from
from kraftlog.quorum.epochs import claimed_of
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.pairs import is_undecided, undecided_beside
from kraftlog.quorum.shortfalls import (
    WrittenAlone,
    alone_from,
    beyond_voters,
    forgotten_vote,
    going_on,
    has_lost_its_end,
    is_excused,
    led_beyond,
    lost_end,
    too_few_hold,
    unheld_from,
    written_alone,
)
from kraftlog.quorum.voters import stranger_text
from kraftlog.simulate.disk import unread_before_start
from kraftlog.simulate.election import Candidacy
from kraftlog.simulate.plan_rows import Plans

NEVER_COMMITTED = "none of them was committed"
"""How the reason of a loss ends that nobody needs to mind."""
NO_LEADER = "no leader can be elected without"
"""What the reason of a node holds, with the disks that are missing, which loses nothing and starts in vain."""
ONE_HISTORY = "do not start it while a node of the other history runs"
"""What the reason of a node holds where there are two: whoever is elected cuts the logs of the other side."""
_OF_THE_END = (names.INDEX, names.TIME_INDEX)
"""Files that tell whether a log once held more than it does."""


class Safety(StrEnum):
    """What a restart does. SAFE: nothing is lost by it. LOSES: records that were not committed go, or
    SCRAM users that can be set again.
    UNSAFE: committed records may be lost. UNKNOWN: what is at hand does not tell.
    """

    SAFE = "safe"
    LOSES = "loses"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


Against = tuple[Safety, str, int | None]
"""How safe a restart is, why, and where the records begin that it loses."""


def are_few(quorum: Quorum) -> bool:
    """Whether less than a majority of the voters was copied, or could be read."""
    return len(quorum.holders) - len(quorum.unread_voters) < quorum.bounds.majority


def _how_few(quorum: Quorum) -> str:
    if len(quorum.holders) < quorum.bounds.majority:
        return "less than a majority of the voters was copied"
    them, one = numbers(quorum.unread_voters), len(quorum.unread_voters) == 1
    return f"the {'copy of voter' if one else 'copies of voters'} {them} could not be read"


def unread_of(quorum: Quorum, log: LogView, votes: bool) -> str | None:
    """Which file could not be read on which the answer depends, and why."""
    found = unread_before_start(quorum, log)
    if found is not None or not votes:
        return found
    return next((one.words for one in log.evidence.unread if one.kind in _OF_THE_END), None)


def with_whom(quorum: Quorum, log: LogView) -> str:
    """What stands behind "start it first": who goes on from its end comes with it, the others then."""
    more = [called(quorum, one) for one in going_on(quorum, log)]
    beside = f", beside {listed(more)}, where the log goes on" if more else ""
    return f"{beside}{then_few(are_many=bool(more))}"


@dataclass(frozen=True)
class Troubles:
    """What speaks against the restart of each node of a quorum."""

    quorum: Quorum
    plans: Plans

    # What is asked of the quorum once for all of its nodes.
    _too_few = cached_property[frozenset[str]](lambda self: too_few_hold(self.quorum))
    _written_alone = cached_property[WrittenAlone | None](lambda self: written_alone(self.quorum))
    _unheld = cached_property[int | None](lambda self: unheld_from(self.quorum))

    def of(self, log: LogView, votes: bool) -> Iterator[Against]:
        """What speaks against a restart, the worst first."""
        if votes:
            yield from self._forgotten(log)
        else:
            yield from ((Safety.UNSAFE, why, None) for why in self._claimed(log))
            yield from ((Safety.UNSAFE, why, None) for why in self._left_behind(log))
            yield from self._votes_still(log)
        if (unread := unread_of(self.quorum, log, votes)) is not None:
            yield Safety.UNKNOWN, f"{unread}: make it readable or copy it again", None
        boot = self.plans.boots[log.label]
        if not boot.boots:
            yield Safety.UNSAFE, f"it would not start: {boot.reason}", None
        kept = self.quorum.cut_off_of(log.label)
        if kept is not None:
            name = kept.snapshot.evidence.name
            why = f"its snapshot {name} may be the only copy of committed records that were cut, and a running node removes snapshots: keep a copy of it first"
            yield Safety.UNSAFE, why, kept.start
        yield from self._contradicted(log)
        cut = boot.discarded_from_offset
        if cut is not None:
            yield from self._discarded(log, votes, cut, boot.reason or "")
        if self.quorum.describe_is_refuted and (votes or log.label in self.quorum.refuted):
            mark = self.quorum.committed_by_describe
            again = "" if self.quorum.evidence.remembered else ", and describe again"
            why = f"no copy at hand holds what {self.quorum.told_by} tells to be committed below offset {mark}, but other records: copy the voters again{again}"
            yield Safety.UNKNOWN, why, None
        if self.quorum.unexplained_voters is not None:
            why = "the describe names other voters than the copies do, and no record at hand tells of a change: copy all that it names"
            yield Safety.UNKNOWN, why, None
        for label, node in self.quorum.strangers.items():
            why = f"{stranger_text(label, node)}: copy the voters that count now"
            yield Safety.UNKNOWN, why, None
        if are_few(self.quorum) and not self._is_beside_the_leader(log, votes):
            told = "what this one lacks" if votes else "whether the leader holds what this one does"
            yield Safety.UNKNOWN, f"{_how_few(self.quorum)}: nothing shows {told}", None
        if votes and self.quorum.held_before:
            who = replicas_text(self.quorum.held_before)
            why = f"{who} may hold what the voters held before they began anew: if they lost it by mistake, start nothing, and give that copy to kraftlog recover by itself"
            yield Safety.UNKNOWN, why, None
        yield from self._short(log, votes)
        alone = self._alone_beside_lost(log) if votes else None
        if alone is not None:
            who = with_whom(self.quorum, log)
            why = f"what it holds from offset {alone} on may have been committed, and others seem to have lost it; if it is down already, start it first{who}"
            yield Safety.UNKNOWN, why, None

    def _left_behind(self, log: LogView) -> Iterator[str]:
        """That a disk is an old one of a voter, whose own is at hand, and is as new."""
        node = log.evidence.node_id
        for one in self.quorum.holders.get(-1 if node is None else node, ()):
            if one.newness >= log.newness:
                yield f"it is an old disk of node {node}, which votes with that of replica {one.label}: only one of both can run"

    def _votes_still(self, log: LogView) -> Iterator[tuple[Safety, str, None]]:
        """That a node which was removed could elect another leader with a voter that was set back, by what
        both of their logs tell: Kafka asks no newer one.
        """
        alone = self._written_alone
        for one in self._outcomes.values():
            if not one.can_win or log.label not in one.granted_by:
                continue
            candidate = self.quorum.by_label[one.candidate]
            lacks, told = self.elected_without(one.candidate), "what is committed"
            if lacks is None and alone is not None and (candidate.end_offset or 0) <= alone.start:
                lacks, told = alone.start, f"what {called(self.quorum, alone.log)} holds"
            if lacks is not None:
                who = "it" if candidate is log else called(self.quorum, candidate)
                why = f"its log tells of no removal, so it votes, and {who} could be elected without {told} from offset {lacks} on: start it beside a leader that holds that"
                yield Safety.UNSAFE, why, None
                return

    def _short(self, log: LogView, votes: bool) -> Iterator[Against]:
        """What voters must have held, and do not hold: it is lost, or they were copied too early."""
        again = "lost, or the voters were copied too early: copy them again"
        alone = described_alone_from(self.quorum)
        if votes and alone is not None:
            told = offsets_text(alone, self.quorum.bounds.lower)
            others = "not on these disks, which are others than those of that run: see voter_holds_committed_data"
            gone = others if self.quorum.evidence.on_other_disks else again
            why = f"no copy at hand holds {told}, which {self.quorum.told_by} tells to be committed: that is {gone}"
            yield Safety.UNKNOWN, why, None
        if votes and self._unheld is not None:
            told = offsets_text(self._unheld, self.quorum.bounds.lower)
            why = f"of what is committed, no voter at hand holds {told}: that is {again}"
            yield Safety.UNKNOWN, why, None
        lost = self.quorum.forgetful.get(log.evidence.node_id or 0) if votes else None
        if lost is not None and log.label not in self.quorum.tail_starts:
            who = called(self.quorum, self.quorum.by_label[lost.replica])
            why = f"it once held what {who} holds from offset {lost.offset} on, and voted in epoch {lost.newer_epoch} without it: that is lost here, and may have been committed"
            yield Safety.UNKNOWN, why, None
        led, end = led_beyond(self.quorum, log), log.end_offset or 0
        if led is not None:
            held = offsets_text(end, led.end)
            why = f"it led epoch {led.epoch}, and lacks {held} of it, which others hold: that is {again}"
            yield Safety.UNKNOWN, why, None
        if log.label in self._too_few:
            why = f"too few voters hold what is committed below offset {self.quorum.bounds.lower}: that is {again}"
            yield Safety.UNKNOWN, why, None
        start = self._beyond.get(log.label)
        if start is not None:
            held = offsets_text(start, end)
            why = f"no voter at hand holds {held} any more: that is {again}, and keep what is held here, which the next leader would cut"
            yield Safety.UNKNOWN, why, start
        elif votes and self._beyond:
            furthest = max(self._beyond, key=lambda one: self.quorum.by_label[one].end_offset or 0)
            held = offsets_text(self._beyond[furthest], self.quorum.by_label[furthest].end_offset)
            who = called(self.quorum, self.quorum.by_label[furthest])
            why = f"{who} holds {held}, which no voter at hand does: that is {again}"
            yield Safety.UNKNOWN, why, None
        elif votes and self._written_alone is not None:
            holder, start, seconds = self._written_alone
            held = offsets_text(start, holder.end_offset)
            who = "it" if holder is log else called(self.quorum, holder)
            down = f"; if it is down already, start it first{then_few()}" if holder is log else ""
            why = f"of all voters {who} alone holds {held}, written over {seconds} s, and a leader stops soon where no majority follows: that is {again}{down}"
            yield Safety.UNKNOWN, why, None
        vote = forgotten_vote(self.quorum, log)
        if vote is not None:
            why = f"it had a part in the election of epoch {vote.epoch}, of which its copy knows nothing: that is {again}"
            yield Safety.UNKNOWN, why, None

    @cached_property
    def _beyond(self) -> dict[str, int]:
        """Where observers hold more than any voter at hand does."""
        starts = ((log.label, beyond_voters(self.quorum, log)) for log in self.quorum.peers)
        return {label: start for label, start in starts if start is not None}

    @cached_property
    def needs(self) -> tuple[int, ...]:
        """The voters whose copies are missing or unread, and those that only a describe names. A copy
        that may hold what the voters held before is at hand, and another one would say no more.
        """
        told, nodes = self.quorum.unexplained_voters, {one.node_id for one in self.quorum.replicas}
        named = () if told is None else (one for one in told.ids if one not in nodes)
        before = {self.quorum.by_label[one].evidence.node_id for one in self.quorum.held_before}
        missing = {*self.quorum.bounds.missing_voters} - before
        return tuple(sorted({*missing, *self.quorum.unread_voters, *named}))

    def _is_beside_the_leader(self, log: LogView, votes: bool) -> bool:
        """Whether nobody leads who could cut this log, or the leader's was pulled, and shows that a
        voter's copy lacks nothing but what was written after it.
        """
        if not votes and self._awaited:
            return True
        end = log.end_offset or 0
        is_whole = end >= self.quorum.bounds.lower or copied_before(self.quorum, log, end)
        return self.quorum.pulled is not None and (is_whole or not votes)

    @cached_property
    def _awaited(self) -> list[int]:
        """The voters without whose old disks there is no leader: none where nodes would elect one by
        another voter set, that of their own disks.
        """
        led = any(one.can_win for one in self.plans.elections())
        return [] if led else self.quorum.awaited_voters

    @property
    def no_leader(self) -> str | None:
        """What starts in vain, in words."""
        awaited = self._awaited
        disks = f"the old {'disk' if len(awaited) == 1 else 'disks'} of {voters_text(awaited)}"
        return f"but {NO_LEADER} {disks}: what starts waits for one" if awaited else None

    def _lost(self, copies: tuple[LogView, ...]) -> bool:
        """Whether a voter has lost the end of its log, or may have."""
        return any(
            has_lost_its_end(self.quorum, one)
            or led_beyond(self.quorum, one) is not None
            or forgotten_vote(self.quorum, one) is not None
            or one.label in self._too_few
            for one in copies
        )

    def _alone_beside_lost(self, log: LogView) -> int | None:
        """Where the part of a voter's log begins that may be on no majority without it, as others seem
        to have lost theirs: what no majority is known to hold, or what is committed, and was by one of
        them perhaps, where with those that are missing they are a majority; None where there is none.
        """
        lost = [one for one in self.quorum.holders.values() if self._lost(one)]
        alone = alone_from(self.quorum, log) if lost else None
        if alone is not None or self.quorum.pulled is not None:
            return alone
        end = min(log.end_offset or 0, self.quorum.bounds.lower)
        shared = [
            max(self.quorum.surely_agree(log, copy) for copy in one)
            for one in lost
            if log not in one
        ]
        lacking, missing = [one for one in shared if one < end], self.quorum.bounds.missing_voters
        is_enough = bool(missing) and len(lacking) + len(missing) >= self.quorum.bounds.majority
        return min(lacking, default=None) if is_enough else None

    def _forgotten(self, log: LogView) -> Iterator[Against]:
        """What a voter must not have forgotten."""
        end, lost = log.end_offset or 0, lost_end(self.quorum, log)
        if lost is not None:
            yield Safety.UNSAFE, f"it has lost its log from offset {end} on: {lost.words}", end
        elif has_lost_its_end(self.quorum, log):
            why = "its log was copied before the files beside it, while the node was writing"
            yield Safety.UNKNOWN, why, None
        yield from ((Safety.UNSAFE, why, start) for why, start in self._misremembered(log))
        if votes_left_out(self.quorum):
            why = "no copy at hand has a quorum-state, so it was likely left out: copy it, too"
            yield Safety.UNKNOWN, why, None

    def _misremembered(self, log: LogView) -> Iterator[tuple[str, int | None]]:
        forgot = forgot_its_vote(self.quorum, log)
        is_there = log.evidence.quorum_state is not None
        if forgot is not None and (is_there or unread_of(self.quorum, log, votes=True) is None):
            yield f"{forgot}, so it could vote twice", None
        directory = self.quorum.unnamed_disk(log.evidence)
        if directory is not None:
            why = f"its meta.properties has no directory.id, and with a new one it would be no voter; write back directory.id={directory}"
            yield why, None
        yield from ((why, None) for why in self._claimed(log))
        lacks = self.elected_without(log.label)
        if lacks is not None:
            yield f"it could be elected without what is committed from offset {lacks} on", lacks
        yield from ((why, None) for why in self._guarded(log))

    @staticmethod
    def _claimed(log: LogView) -> Iterator[str]:
        """What a node would go by that its log does not have."""
        if log.is_empty:
            return  # Its snapshot says more than a file of the log that it took the place of.
        claimed = claimed_of(log)
        if claimed.last_epoch > (log.last_epoch or 0):
            yield f"its leader-epoch-checkpoint claims epoch {claimed.last_epoch}, of which its log has nothing, and Kafka goes by that: delete the file while the node is stopped"

    def elected_without(self, label: str) -> int | None:
        """Where what is committed begins that a voter lacks, and could be elected without; None
        where its copy may lack it only because it was taken before.
        """
        one = self._outcomes.get(label)
        lacks = one.lacks_committed_from_offset if one is not None and one.can_win else None
        if lacks is None or is_excused(self.quorum, self.quorum.by_label[label], lacks):
            return None
        return lacks

    def _guarded(self, log: LogView) -> Iterator[str]:
        """What only this voter's own vote keeps from being lost, whatever it holds itself."""
        for one in self._outcomes.values():
            lacks = self.elected_without(one.candidate)
            if lacks is not None and log.label in one.refused_by:
                other = called(self.quorum, self.quorum.by_label[one.candidate])
                todo = f"if it is down already, start it first{with_whom(self.quorum, log)}"
                if self.quorum.fork_starts:
                    todo = ONE_HISTORY
                elif (beside := undecided_beside(self.quorum, log)) is not None:
                    todo = f"it differs from replica {beside}, and no majority decides which one is right"
                yield f"while it is down, {other} could be elected without what is committed from offset {lacks} on; {todo}"
                return

    @cached_property
    def _outcomes(self) -> dict[str, Candidacy]:
        return {one.candidate: one for one in self.plans.elections(all_start=True)}

    def _contradicted(self, log: LogView) -> Iterator[Against]:
        """Differences from the other copies."""
        quorum, lower, end = self.quorum, self.quorum.bounds.lower, log.end_offset or 0
        tails: list[int] = []
        seconds: list[tuple[int, str]] = []
        for comparison in quorum.differing:
            for run in comparison.runs if comparison.one is log else ():
                other = comparison.other.label
                if quorum.is_second_history(comparison, run):
                    seconds.append((run.start, other))
                elif quorum.is_tail(comparison, run):
                    tails.append(run.start)
                elif is_undecided(quorum, comparison, run):
                    at = f"offset {run.start}, which is committed"
                    if run.start >= lower:
                        at = f"offset {run.same_epoch_at} in the same epoch, which no start mends"
                    yield Safety.UNSAFE, f"it differs from replica {other} at {at}", None
        for start, other in sorted(seconds):
            why = f"from offset {start} on it holds another history than replica {other}"
            yield Safety.UNSAFE, why, start
        begun = quorum.fork_starts.get(log.label)
        if begun and begun == log.start_offset:
            why = f"it holds another history, which parts from that of the other copies below offset {begun}"
            yield Safety.UNSAFE, why, begun
        if (one := quorum.replaced.get(log.label)) is not None:
            other = called(quorum, quorum.by_label[one.replica])
            began = f"epoch {one.newer_epoch} began at offset {one.newer_start} by the leader-epoch-checkpoint of {other}"
            why = f"{began}, without its records of epoch {one.epoch} from offset {one.offset} on: a restart may cut them, or bring them back as the quorum's history"
            yield Safety.UNKNOWN, why, one.offset
        elif tails:
            start = min(tails)
            below = " or below" if quorum.tail_hides(log.label) else ""
            cut = f"records from offset {start}{below} on are cut"
            back = returning(quorum, log.label)
            if back.logs:
                who = listed([called(quorum, one) for one in back.logs])
                why = f"{cut}, or become the quorum's history: {back.by_whom} {who} could be elected with them"
                yield Safety.UNKNOWN, why, start
            elif log.label in quorum.never_committed:
                yield Safety.LOSES, f"{cut}; {NEVER_COMMITTED}", start
            else:
                yield Safety.UNKNOWN, f"{cut}, and may have been committed", start
        elif log.label in quorum.confirmed_ends and quorum.own_snapshot_end(log.label) < end:
            why = f"the others went on in a newer epoch without the end of its log, from where on is out of sight: records below offset {end} are cut, and may have been committed"
            yield Safety.UNKNOWN, why, None

    def _discarded(self, log: LogView, votes: bool, cut: int, reason: str) -> Iterator[Against]:
        """What the node's own start throws away."""
        if cut >= (log.end_offset or 0):
            return  # bytes that are no record batch
        own_snapshot = self.quorum.own_snapshot_end(log.label)
        if own_snapshot >= (log.end_offset or 0):
            return  # of what is thrown away, nothing is missing in the state
        committed = min(self.quorum.bounds.lower, log.end_offset or 0)
        start = max(cut, own_snapshot)  # The state below is that of the snapshot.
        if votes and cut < committed and own_snapshot < committed:
            yield Safety.UNSAFE, f"its start throws committed records away: {reason}", start
        else:
            why = f"its start throws records away from offset {cut} on: {reason}"
            yield Safety.LOSES, why, start
