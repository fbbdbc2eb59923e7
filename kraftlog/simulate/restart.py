"""Whether a node may be started again with its disk as it is: safe, loses, unsafe or unknown.

In: a `Quorum`. Out: one `Restart` per replica. Raft keeps what is committed as long as no voter
forgets: a restart is unsafe where a voter has lost the end of its log, its vote, or records that it
would then be elected without; it loses what a leader at hand contradicts; it is unknown where
copies are missing that could show one of these. Whether the quorum goes on meanwhile is told by the
voters that kept up with the leader, where a describe names them. Source: KIP-630 "Changes to Leader
Election", KAFKA-1211; KIP-595, KIP-836, KIP-853.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import takewhile

from kraftlog.audit.grouping import users_text
from kraftlog.audit.losses import Cut, cuts_of
from kraftlog.audit.triage import (
    called,
    forgot_its_vote,
    instead_of_waiting,
    intact_elsewhere,
    may_be_emptied,
    replicas_text,
    then_few,
    votes_left_out,
)
from kraftlog.log import names
from kraftlog.plain import listed, numbers, offsets_text, voters_text
from kraftlog.quorum.bounds import NOBODY_KNOWN
from kraftlog.quorum.committed import committed_cut, returning
from kraftlog.quorum.copy_times import copied_before, described_alone_from
from kraftlog.quorum.ends import is_closed_at_end
from kraftlog.quorum.epochs import claimed_of
from kraftlog.quorum.joining import knows_leader_alone, stuck
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.pairs import is_undecided, undecided_beside
from kraftlog.quorum.scram import User, lost_by_loading
from kraftlog.quorum.shortfalls import (
    WrittenAlone,
    after_a_leader,
    alone_from,
    apart_from,
    beyond_voters,
    electing_excused,
    excused_winners,
    forgotten_vote,
    going_on,
    has_lost_its_end,
    is_excused,
    is_only_voter,
    keeping_up_now,
    leads_alone,
    led_beyond,
    lost_end,
    too_few_hold,
    unheld_from,
    whole_voters,
    written_alone,
)
from kraftlog.quorum.voters import stranger_text
from kraftlog.simulate.disk import unread_before_start
from kraftlog.simulate.election import Candidacy
from kraftlog.simulate.join import NO_VOTERS
from kraftlog.simulate.plan_rows import Plans

IF_DOWN = "; if it is down,"
"""What the reason of a node holds that waits for another one where both are down."""
IF_DOWN_FIRST = "start it first if it is down already"
"""What the reason of a node holds which comes first in another order than that of a restart."""
_ONE_HISTORY = "do not start it while a node of the other history runs"
"""What takes its place where there are two: whoever is elected cuts the logs of the other side."""
_IF_APART = "if all of them are down already, copy their folders first: whoever leads cuts what the others hold there"
NEVER_COMMITTED = "none of them was committed"
"""How the reason of a loss ends that nobody needs to mind."""
NO_LEADER = "no leader can be elected without"
"""What the reason of a node holds, with the disks that are missing, which loses nothing and starts in vain."""


class Safety(StrEnum):
    """What a restart does. SAFE: nothing is lost by it. LOSES: records that were not committed go, or
    SCRAM users that can be set again.
    UNSAFE: committed records may be lost. UNKNOWN: what is at hand does not tell.
    """

    SAFE = "safe"
    LOSES = "loses"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Restart:
    """The answer for one replica. `lost_from` is where the records begin that it loses (to its
    log's end; None where its log is only to be fetched anew), or that its snapshot alone holds, `needs`
    are the voters whose copies would settle what is unknown, `order` is its place in a rolling restart
    (None: do not restart it, or not yet). The end of `cut` is what is lost for good: of its own log, of that of a copy which holds
    what the node would be elected without, or of the history of its snapshot. Where it is None, what
    it loses comes back from the copies that hold it, unless `is_alone`: no other one does.
    """

    replica: str
    node_id: int | None
    safety: Safety
    reason: str
    lost_from: int | None = None
    needs: tuple[int, ...] = ()
    order: int | None = None
    cut: Cut | None = None
    is_alone: bool = False


def restarts(quorum: Quorum, plans: Plans | None = None) -> list[Restart]:
    """One answer per disk: first those that may start, in the order in which they should. What was
    pulled from a leader is no disk.
    """
    judge = _Judge(quorum, plans or Plans(quorum))
    found = [judge.of(log) for log in quorum.logs if not log.evidence.is_pulled]
    harmless = [one for one in found if one.safety in (Safety.SAFE, Safety.LOSES)]
    first = {one.replica: judge.first_do(quorum.by_label[one.replica]) for one in harmless}
    able = sorted((one for one in harmless if first[one.replica] is None), key=judge.place)
    waiting = (
        replace(one, reason=f"{todo}; then {one.reason}")
        for one in harmless
        if (todo := first[one.replica]) is not None
    )
    return [*with_places(able), *waiting, *(one for one in found if one not in harmless)]


def with_places(able: Sequence[Restart]) -> list[Restart]:
    """The same with their places in the order in which they stand. Who has to wait until another voter
    holds more has none, and comes last, where no voter has one before it: nothing brings that about.
    """
    waits = list(takewhile(lambda one: IF_DOWN_FIRST in one.reason, able))
    numbered = [replace(one, order=place) for place, one in enumerate(able[len(waits) :], 1)]
    return [*numbered, *(replace(one, order=None) for one in waits)]


_STILL = ", but the quorum stands still while the node is down: "
_OF_THE_END = (names.INDEX, names.TIME_INDEX)
"""Files that tell whether a log once held more than it does."""


@dataclass(frozen=True)
class _Judge:
    quorum: Quorum
    plans: Plans

    # What is asked of the quorum once for all of its nodes.
    _too_few = cached_property[frozenset[str]](lambda self: too_few_hold(self.quorum))
    _written_alone = cached_property[WrittenAlone | None](lambda self: written_alone(self.quorum))
    _excused = cached_property[dict[str, int]](lambda self: excused_winners(self.quorum))
    _electing = cached_property[frozenset[int]](lambda self: electing_excused(self.quorum))
    _late = cached_property[frozenset[str]](lambda self: after_a_leader(self.quorum))
    _whole = cached_property[list[LogView]](lambda self: whole_voters(self.quorum))
    _unheld = cached_property[int | None](lambda self: unheld_from(self.quorum))
    _stuck = cached_property[frozenset[str]](
        lambda self: frozenset(one.log.label for one in stuck(self.quorum))
    )
    _ends = cached_property[frozenset[Cut]](lambda self: frozenset(cuts_of(self.quorum)))
    _unlearned = cached_property[dict[str, tuple[User, ...]]](
        lambda self: lost_by_loading(self.quorum)
    )

    def of(self, log: LogView) -> Restart:
        node = log.evidence.node_id
        if log.unread_segments:
            why = f"its log cannot be read ({log.unread_segments[0].problem})"
            if log.evidence.is_before_migration:
                why = "it was set up as a broker on ZooKeeper, which has no metadata log before it migrates: if it has migrated, copy its *.log files"
            return Restart(log.label, node, Safety.UNKNOWN, why)
        role = self.quorum.role(log.evidence)
        if log.label in self.quorum.strays:
            why = "its log is of another quorum, and Kafka does not notice"
            return Restart(log.label, node, Safety.UNSAFE, why)
        if role == "unknown":
            return Restart(log.label, node, Safety.UNKNOWN, self._why_unknown(log))
        if not log.evidence.segments:
            return self._of_empty(log)
        votes = role == "voter"
        troubles: Iterable[tuple[Safety, str, int | None]] = self._troubles(log, votes)
        is_short = described_alone_from(self.quorum) is not None
        if votes and (is_short or forgotten_vote(self.quorum, log) is not None):
            # What it loses is no whole answer then.
            troubles = sorted(troubles, key=lambda one: one[0] == Safety.LOSES)
        for safety, reason, start in troubles:
            needs = self._needs if safety == Safety.UNKNOWN else ()
            told = Restart(log.label, node, safety, reason, start, needs)
            return told if start is None else self._with_loss(told, log, start)
        if log.label in self._unlearned:
            what = users_text(self._unlearned[log.label])
            why = f"Kafka's own loader loses {what} at its start: wait until it has a newer snapshot, or set them again with kafka-configs when it runs"
            return Restart(log.label, node, Safety.LOSES, why)
        return Restart(log.label, node, Safety.SAFE, self._why_safe(log, votes))

    def first_do(self, log: LogView) -> str | None:
        """What keeps a node from going on that would lose nothing by a restart, and what is to be done
        about it first; None where nothing does.
        """
        if log.evidence.free_bytes == 0:
            return "its disk is full, and Kafka does not start on it: give it room first"
        if knows_leader_alone(self.quorum, log):
            return NO_VOTERS
        if log.label in self._stuck:
            return "it tries to join and does not arrive: do first what controllers_catch_up says"
        has_forgotten = log.evidence.quorum_state is None and self._no_leader is None
        has_forgotten = has_forgotten and not is_only_voter(self.quorum, log)
        if has_forgotten and log.evidence.node_id in self.quorum.followed:
            return "other nodes still follow it as their leader, which it has forgotten, so that it would end with an exception, and they may too: start it when another one leads"
        return None

    def _with_loss(self, one: Restart, log: LogView, start: int) -> Restart:
        """An answer with whose records are lost, from `start` on."""
        kept = self.quorum.cut_off_of(log.label)
        if kept is not None and kept.start == start:
            return replace(one, cut=(kept.snapshot.path, start))
        if start == self._elected_without(log.label):
            cut = committed_cut(self.quorum, start)
            return replace(one, cut=cut, is_alone=cut is None)
        if (log.label, start) in self._ends:
            return replace(one, cut=(log.label, start))
        end = log.end_offset or 0
        is_alone = self._all_throw(intact_elsewhere(self.quorum, log.label, start, end), end)
        at_start = intact_elsewhere(self.quorum, log.label, start, None)
        goes = start < end and self._all_throw(at_start, start + 1)
        return replace(one, cut=(log.label, start) if goes else None, is_alone=is_alone)

    def _all_throw(self, labels: Iterable[str], below: int) -> bool:
        """Whether the starts of all of some nodes throw away what is held below an offset."""
        cuts = (self.plans.boots[label].discarded_from_offset for label in labels)
        return all(cut is not None and cut < below for cut in cuts)

    def _of_empty(self, log: LogView) -> Restart:
        """A node of whose log nothing is at hand, nor any file that Kafka writes beside one."""
        node, boot = log.evidence.node_id, self.plans.boots[log.label]
        if not boot.boots:
            return Restart(log.label, node, Safety.UNSAFE, f"it would not start: {boot.reason}")
        if self.quorum.begins_empty(log):
            its = "and it was formatted, and has not started yet"
            if self.quorum.has_begun:
                its = self._no_leader or "and all of it comes from the leader"
            why = f"nothing is lost: its log is empty, {its}"
            return Restart(log.label, node, Safety.SAFE, why)
        if may_be_emptied(self.quorum, log):
            why = "nothing is lost if its folder is as empty as the copy: it fetches all from the leader, and the other voters that are whole are a majority"
            return Restart(log.label, node, Safety.SAFE, why)
        why = "no segment of its log was copied, and too few other voters at hand are whole for it to begin anew"
        return Restart(log.label, node, Safety.UNKNOWN, why, None, self._needs)

    def _why_unknown(self, log: LogView) -> str:
        """Why nobody can say whether the node votes (`Quorum.is_voter`)."""
        if log.label in self.quorum.otherwise_named:
            return "it is of another cluster than most copies"
        if self.quorum.voter_set is None:
            return NOBODY_KNOWN
        return "nothing tells whose copy it is"

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
            lacks, told = self._elected_without(one.candidate), "what is committed"
            if lacks is None and alone is not None and (candidate.end_offset or 0) <= alone.start:
                lacks, told = alone.start, f"what {called(self.quorum, alone.log)} holds"
            if lacks is not None:
                who = "it" if candidate is log else called(self.quorum, candidate)
                why = f"its log tells of no removal, so it votes, and {who} could be elected without {told} from offset {lacks} on: start it beside a leader that holds that"
                yield Safety.UNSAFE, why, None
                return

    def _unread(self, log: LogView, votes: bool) -> str | None:
        """Which file could not be read on which the answer depends, and why."""
        found = unread_before_start(self.quorum, log)
        if found is not None or not votes:
            return found
        return next((one.words for one in log.evidence.unread if one.kind in _OF_THE_END), None)

    def _troubles(self, log: LogView, votes: bool) -> Iterator[tuple[Safety, str, int | None]]:
        """What speaks against a restart, the worst first."""
        if votes:
            yield from self._forgotten(log)
        else:
            yield from ((Safety.UNSAFE, why, None) for why in self._claimed(log))
            yield from ((Safety.UNSAFE, why, None) for why in self._left_behind(log))
            yield from self._votes_still(log)
        if (unread := self._unread(log, votes)) is not None:
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
        if self._are_few and not self._is_beside_the_leader(log, votes):
            told = "what this one lacks" if votes else "whether the leader holds what this one does"
            yield Safety.UNKNOWN, f"{self._how_few}: nothing shows {told}", None
        if votes and self.quorum.held_before:
            who = replicas_text(self.quorum.held_before)
            why = f"{who} may hold what the voters held before they began anew: if they lost it by mistake, start nothing, and give that copy to kraftlog recover by itself"
            yield Safety.UNKNOWN, why, None
        yield from self._short(log, votes)
        alone = self._alone_beside_lost(log) if votes else None
        if alone is not None:
            why = f"what it holds from offset {alone} on may have been committed, and others seem to have lost it; if it is down already, start it first{self._few(log)}"
            yield Safety.UNKNOWN, why, None

    def _short(self, log: LogView, votes: bool) -> Iterator[tuple[Safety, str, int | None]]:
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

    @property
    def _are_few(self) -> bool:
        """Whether less than a majority of the voters was copied, or could be read."""
        return (
            len(self.quorum.holders) - len(self.quorum.unread_voters) < self.quorum.bounds.majority
        )

    @property
    def _how_few(self) -> str:
        if len(self.quorum.holders) < self.quorum.bounds.majority:
            return "less than a majority of the voters was copied"
        them, one = numbers(self.quorum.unread_voters), len(self.quorum.unread_voters) == 1
        return f"the {'copy of voter' if one else 'copies of voters'} {them} could not be read"

    @cached_property
    def _needs(self) -> tuple[int, ...]:
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
    def _no_leader(self) -> str | None:
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

    def _forgotten(self, log: LogView) -> Iterator[tuple[Safety, str, int | None]]:
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
        if forgot is not None and (is_there or self._unread(log, votes=True) is None):
            yield f"{forgot}, so it could vote twice", None
        directory = self.quorum.unnamed_disk(log.evidence)
        if directory is not None:
            why = f"its meta.properties has no directory.id, and with a new one it would be no voter; write back directory.id={directory}"
            yield why, None
        yield from ((why, None) for why in self._claimed(log))
        lacks = self._elected_without(log.label)
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

    def _elected_without(self, label: str) -> int | None:
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
            lacks = self._elected_without(one.candidate)
            if lacks is not None and log.label in one.refused_by:
                other = called(self.quorum, self.quorum.by_label[one.candidate])
                todo = f"if it is down already, start it first{self._few(log)}"
                if self.quorum.fork_starts:
                    todo = _ONE_HISTORY
                elif (beside := undecided_beside(self.quorum, log)) is not None:
                    todo = f"it differs from replica {beside}, and no majority decides which one is right"
                yield f"while it is down, {other} could be elected without what is committed from offset {lacks} on; {todo}"
                return

    @cached_property
    def _outcomes(self) -> dict[str, Candidacy]:
        return {one.candidate: one for one in self.plans.elections(all_start=True)}

    def _contradicted(self, log: LogView) -> Iterator[tuple[Safety, str, int | None]]:
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

    def _discarded(
        self, log: LogView, votes: bool, cut: int, reason: str
    ) -> Iterator[tuple[Safety, str, int | None]]:
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

    def _why_safe(self, log: LogView, votes: bool) -> str:
        lower, end = self.quorum.bounds.lower, log.end_offset or 0
        cut = self.plans.boots[log.label].discarded_from_offset
        if cut is not None and cut < end:
            return f"nothing is lost: its own snapshot holds what its start throws away from offset {cut} on"
        if self._no_leader is not None:
            return f"nothing is lost; {self._no_leader}"
        lost, unseen = "nothing is lost", ""
        if not self.quorum.is_seen_to(log):
            lost = "nothing that is known to be committed is lost"
            unseen = "; whether it holds a tail of its own cannot be seen, as no log of a newer epoch at hand reaches down to it"
        if not votes:
            when = f"{IF_DOWN} start it when another one leads"
            if_down = when if log.evidence.node_id in self._electing else ""
            has_moved = log.evidence.node_id in self.quorum.moved_now
            vote = "; but with this directory it does not vote" if has_moved else ""
            return f"{lost}; what is missing comes from the leader{vote}{unseen}{if_down}"
        if log.label in self._excused and self._whole:
            lacks, first = self._excused[log.label], called(self.quorum, self._whole[0])
            copied = f"it was copied, or last written, before offset {lacks}"
            late = ("this one",) if log.label in self._late else ()
            todo = instead_of_waiting(self.quorum, log) or f"start {first} first{then_few(late)}"
            if_down = f"{IF_DOWN} {todo}"
            if leads_alone(self.quorum, log):
                if_down = f"{IF_DOWN} do not start it with this log, which names no other voter, so that it leads at once"
            return f"{lost} if it runs: {copied}, and has fetched that since{unseen}{if_down}{self._meanwhile(log)}"
        if end < lower:
            todo = instead_of_waiting(self.quorum, log) or "start it when another one leads"
            if_down = f"{IF_DOWN} {todo}" if log.label in self._late else ""
            return f"{lost}: what is missing from offset {end} on comes from the leader{unseen}{if_down}{self._meanwhile(log)}"
        alone, meanwhile = alone_from(self.quorum, log), self._meanwhile(log)
        if alone is None:
            return (
                f"nothing is lost{meanwhile or '; the other voters are a majority while they run'}"
            )
        held = offsets_text(max(alone, lower), end)
        but = f"{meanwhile}; {'and' if meanwhile else 'but'}"
        todo = f"{but} wait until another voter holds {held} as well, or {IF_DOWN_FIRST}{self._few(log)}"
        if self.quorum.fork_starts:
            todo = f"{but} {_ONE_HISTORY}"
        elif apart := apart_from(self.quorum, log):
            todo = f"{but} wait for {voters_text(apart)} to hold {held} as well, in place of other records there; {_IF_APART}"
        elif (down := self._why_down(log)) is not None:
            todo = f"; {down}, and no majority holds {held}: start it first{self._few(log)}"
        if missing := self.quorum.unseen_voters:
            todo += f"; without a copy of {voters_text(missing)} nothing tells whether the next leader cuts that"
        return f"nothing that is known to be committed is lost{todo}"

    def _few(self, log: LogView) -> str:
        """What stands behind "start it first": who goes on from its end comes with it, the others then."""
        more = [called(self.quorum, one) for one in going_on(self.quorum, log)]
        beside = f", beside {listed(more)}, where the log goes on" if more else ""
        return f"{beside}{then_few(are_many=bool(more))}"

    def _without(self, log: LogView) -> str:
        """What keeps the other voters' copies from being a majority that can go on while a voter is
        down; nothing where they are one.
        """
        own, majority = log.evidence.node_id, self.quorum.bounds.majority
        others = {node: held for node, held in self.quorum.holders.items() if node != own}
        if len(others) < majority:
            return f"{_STILL}the other voters at hand are not a majority"
        weak = {node: [self._falls_short(log) for log in held] for node, held in others.items()}
        needed = [f"voter {node}, {told[0]}" for node, told in weak.items() if None not in told]
        short = majority - (len(others) - len(needed))
        if short <= 0:
            return ""
        few = f"{short} of these: " if 1 < short < len(needed) else ""
        them = f", {'or' if short == 1 else 'and'} ".join(needed)
        return f"; but while the node is down the others are a majority only with {few}{them}"

    def _falls_short(self, log: LogView) -> str | None:
        """Why a voter may be none of a majority now, by a copy; None where that is as it should be."""
        quorum, end = self.quorum, log.end_offset or 0
        if self._unread(log, votes=True) or log.unread_segments:
            return "of which a file could not be read"
        if not self.plans.boots[log.label].boots:
            return "which would not start"
        if log.evidence.free_bytes == 0:
            return "whose disk is full"
        if log.label in quorum.departed:
            return "which has to cut its log first"
        is_excused = self._leads(log) and copied_before(quorum, log, end)
        is_behind = end < quorum.bounds.lower and not is_excused
        return "which must have caught up first" if is_behind else None

    def _leads(self, log: LogView) -> bool:
        """Whether a node led the newest epoch at hand: it then lags behind nobody."""
        return self.quorum.leaders.get(self.quorum.newest_epoch) == log.evidence.node_id

    @cached_property
    def _keep_up(self) -> frozenset[int] | None:
        """Those of the voters that kept up when the quorum was described; None where nothing tells."""
        up = keeping_up_now(self.quorum)
        return up if up is None else up.intersection(self.quorum.voters)

    def _meanwhile(self, log: LogView) -> str:
        """Whether the quorum goes on while a voter is down: where the leader was described, by the
        voters that kept up with it, else by the copies.
        """
        if is_only_voter(self.quorum, log):
            return f"{_STILL}no other node votes"
        up, own = self._keep_up, log.evidence.node_id
        if up is None and self.quorum.pulled is not None and self._are_few:
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

    def _why_down(self, log: LogView) -> str | None:
        """What says that a voter was down when it was copied, or of no use to the others."""
        if is_closed_at_end(log):
            return "it was stopped"
        up = self._keep_up
        is_behind = up is not None and log.evidence.node_id not in up
        return "it did not keep up with the leader when that was described" if is_behind else None

    def place(self, one: Restart) -> tuple[int, int, int]:
        """Followers before the likely leader, voters before brokers; who holds all before who does
        not, and before who has to wait until others hold what it alone holds; first of all voters
        those that did not keep up, lack what is committed, or have to cut their log: without them
        the others are no majority while one more is down. Before them who was stopped, and holds
        what no majority does, or what others may have lost: who starts later cannot lead without it.
        """
        log = self.quorum.by_label[one.replica]
        votes = self.quorum.role(log.evidence) == "voter"
        holds_alone = votes and alone_from(self.quorum, log) is not None
        waits = 2 if holds_alone else 1 if one.safety == Safety.LOSES else 0
        rank = 3 if self._leads(log) else waits
        up = self._keep_up
        if votes and (self._falls_short(log) if up is None else one.node_id not in up):
            rank = -1
        if holds_alone and is_closed_at_end(log):
            rank = -2
        if self._excused and log in self._whole and not holds_alone:
            rank = -2
        return (0 if votes else 1, rank, one.node_id or 0)
