"""Whether a node may be started again with its disk as it is: safe, loses, unsafe or unknown.

In: a `Quorum`. Out: one `Restart` per replica. Raft keeps what is committed as long as no voter
forgets: a restart is unsafe where a voter has lost the end of its log, its vote, or records that it
would then be elected without; it loses what a leader at hand contradicts; it is unknown where
copies are missing that could show one of these: `troubles` finds all of them. Where there are none,
the reason says what the quorum does meanwhile (`while_down`), and what to do if the node is down.
Source: KIP-630 "Changes to Leader Election", KAFKA-1211; KIP-595, KIP-836, KIP-853.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from kraftlog.audit.grouping import users_text
from kraftlog.audit.losses import Cut, cuts_of
from kraftlog.audit.triage import (
    called,
    instead_of_waiting,
    intact_elsewhere,
    may_be_emptied,
    role_of,
    then_few,
)
from kraftlog.plain import offsets_text, voters_text
from kraftlog.quorum.bounds import NOBODY_KNOWN
from kraftlog.quorum.committed import committed_cut
from kraftlog.quorum.copy_times import described_alone_from
from kraftlog.quorum.ends import is_closed_at_end
from kraftlog.quorum.joining import knows_leader_alone, stuck
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.scram import User, lost_by_loading
from kraftlog.quorum.shortfalls import (
    after_a_leader,
    alone_from,
    apart_from,
    electing_excused,
    excused_winners,
    forgotten_vote,
    is_only_voter,
    leads_alone,
    whole_voters,
)
from kraftlog.simulate.join import NO_VOTERS
from kraftlog.simulate.plan_rows import Plans
from kraftlog.simulate.troubles import (
    ONE_HISTORY,
    Against,
    Safety,
    Troubles,
    with_whom,
)
from kraftlog.simulate.while_down import WhileDown

IF_DOWN = "; if it is down,"
"""What the reason of a node holds that waits for another one where both are down."""
IF_DOWN_FIRST = "start it first if it is down already"
"""What the reason of a node holds which comes first in another order than that of a restart."""
_IF_APART = "if all of them are down already, copy their folders first: whoever leads cuts what the others hold there"


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


@dataclass(frozen=True)
class _Judge:
    quorum: Quorum
    plans: Plans

    troubles = cached_property[Troubles](lambda self: Troubles(self.quorum, self.plans))
    down = cached_property[WhileDown](lambda self: WhileDown(self.quorum, self.plans))

    # What is asked of the quorum once for all of its nodes.
    _excused = cached_property[dict[str, int]](lambda self: excused_winners(self.quorum))
    _electing = cached_property[frozenset[int]](lambda self: electing_excused(self.quorum))
    _late = cached_property[frozenset[str]](lambda self: after_a_leader(self.quorum))
    _whole = cached_property[list[LogView]](lambda self: whole_voters(self.quorum))
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
        troubles: Iterable[Against] = self.troubles.of(log, votes)
        is_short = described_alone_from(self.quorum) is not None
        if votes and (is_short or forgotten_vote(self.quorum, log) is not None):
            # What it loses is no whole answer then.
            troubles = sorted(troubles, key=lambda one: one[0] == Safety.LOSES)
        for safety, reason, start in troubles:
            needs = self.troubles.needs if safety == Safety.UNKNOWN else ()
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
        has_forgotten = log.evidence.quorum_state is None and self.troubles.no_leader is None
        has_forgotten = has_forgotten and not is_only_voter(self.quorum, log)
        if has_forgotten and log.evidence.node_id in self.quorum.followed:
            return "other nodes still follow it as their leader, which it has forgotten, so that it would end with an exception, and they may too: start it when another one leads"
        return None

    def _with_loss(self, one: Restart, log: LogView, start: int) -> Restart:
        """An answer with whose records are lost, from `start` on."""
        kept = self.quorum.cut_off_of(log.label)
        if kept is not None and kept.start == start:
            return replace(one, cut=(kept.snapshot.path, start))
        if start == self.troubles.elected_without(log.label):
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
                fetched = f"and all of it comes from the leader{self._waits_for_it(log)}"
                its = self.troubles.no_leader or fetched
            why = f"nothing is lost: its log is empty, {its}"
            return Restart(log.label, node, Safety.SAFE, why)
        if may_be_emptied(self.quorum, log):
            why = "nothing is lost if its folder is as empty as the copy: it fetches all from the leader, and the other voters that are whole are a majority"
            return Restart(log.label, node, Safety.SAFE, why)
        why = "no segment of its log was copied, and too few other voters at hand are whole for it to begin anew"
        return Restart(log.label, node, Safety.UNKNOWN, why, None, self.troubles.needs)

    def _waits_for_it(self, log: LogView) -> str:
        """That a controller without a vote and a log waits for a leader: beside voters that only start, it
        is told one whose endpoints it does not know, and ends (4.0.0, 4.1.1 and 4.3.1).
        """
        has_no_vote = self.quorum.role(log.evidence) == "observer"
        ends = has_no_vote and role_of(self.quorum, log) == "controller"
        return f"{IF_DOWN} start it when another one leads" if ends else ""

    def _why_unknown(self, log: LogView) -> str:
        """Why nobody can say whether the node votes (`Quorum.is_voter`)."""
        if log.label in self.quorum.otherwise_named:
            return "it is of another cluster than most copies"
        if self.quorum.voter_set is None:
            return NOBODY_KNOWN
        return "nothing tells whose copy it is"

    def _why_safe(self, log: LogView, votes: bool) -> str:
        lower, end = self.quorum.bounds.lower, log.end_offset or 0
        cut = self.plans.boots[log.label].discarded_from_offset
        if cut is not None and cut < end:
            return f"nothing is lost: its own snapshot holds what its start throws away from offset {cut} on"
        if self.troubles.no_leader is not None:
            return f"nothing is lost; {self.troubles.no_leader}"
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
            return f"{lost} if it runs: {copied}, and has fetched that since{unseen}{if_down}{self.down.words(log)}"
        if end < lower:
            todo = instead_of_waiting(self.quorum, log) or "start it when another one leads"
            if_down = f"{IF_DOWN} {todo}" if log.label in self._late else ""
            return f"{lost}: what is missing from offset {end} on comes from the leader{unseen}{if_down}{self.down.words(log)}"
        alone, meanwhile = alone_from(self.quorum, log), self.down.words(log)
        if alone is None:
            return (
                f"nothing is lost{meanwhile or '; the other voters are a majority while they run'}"
            )
        held = offsets_text(max(alone, lower), end)
        but = f"{meanwhile}; {'and' if meanwhile else 'but'}"
        todo = f"{but} wait until another voter holds {held} as well, or {IF_DOWN_FIRST}{with_whom(self.quorum, log)}"
        if self.quorum.fork_starts:
            todo = f"{but} {ONE_HISTORY}"
        elif apart := apart_from(self.quorum, log):
            todo = f"{but} wait for {voters_text(apart)} to hold {held} as well, in place of other records there; {_IF_APART}"
        elif (down := self.down.why_down(log)) is not None:
            todo = f"; {down}, and no majority holds {held}: start it first{with_whom(self.quorum, log)}"
        if missing := self.quorum.unseen_voters:
            todo += f"; without a copy of {voters_text(missing)} nothing tells whether the next leader cuts that"
        return f"nothing that is known to be committed is lost{todo}"

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
        rank = 3 if self.down.leads(log) else waits
        up = self.down.keep_up
        if votes and (self.down.falls_short(log) if up is None else one.node_id not in up):
            rank = -1
        if holds_alone and is_closed_at_end(log):
            rank = -2
        if self._excused and log in self._whole and not holds_alone:
            rank = -2
        return (0 if votes else 1, rank, one.node_id or 0)
