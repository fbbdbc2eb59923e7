"""What of the state goes where the end of a log is cut: objects by their names.

In: a quorum, where its records are read from, and the offset from which on a replica loses its log.
Out: `Losses`. The state with those records is held against the state without them, by columns; the
fold begins where the shared history has left its state at the cut, or at the newest snapshot below
it, so that it costs what lies behind that. Source:
KIP-630 "Changes to Leader Election", KAFKA-1211.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kraftlog.audit.difference_checks import Side, committed_sides
from kraftlog.audit.images import Stations, meant, states_apart
from kraftlog.explain.words import MOVES, plain_name
from kraftlog.quorum.chain import tells_as, whole_log
from kraftlog.quorum.committed import candidates, committed_cut, not_replaced, whole_snapshot
from kraftlog.quorum.evidence import LossCount, Losses
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import CutOff, Quorum
from kraftlog.quorum.record_windows import Records, go_on
from kraftlog.quorum.shortfalls import beyond_voters
from kraftlog.state.difference import Difference, differences
from kraftlog.state.known import Known
from kraftlog.state.state import Change, State
from kraftlog.state.tables import TOPIC_RESOURCE

NAMES_KEPT = 100
"""So many names of one kind are kept; all are counted."""
PAIRS_KEPT = 4
"""So many pairs of copies that differ in committed data are told by name."""
STATIONS_KEPT = 8
"""At so many offsets the shared history leaves its state, some tens of MB each in a large cluster."""
_BY_ITSELF = frozenset({"brokers", "controllers", "producer_ids"})
"""Tables that the nodes write again by themselves when they start or register; that one was
unregistered they do not.
"""


Cut = tuple[str, int]
"""A replica, or the path of a snapshot of a history that no log holds any more, and the offset from
which on the end of its log, or of that history, is meant.
"""


def cuts_of(quorum: Quorum) -> list[Cut]:
    """The ends of logs that findings and plans tell of: uncommitted tails, second histories, what
    observers alone hold, what is committed where voters could elect a leader without it, and
    what a snapshot alone may hold of an end that was cut.
    """
    found = list(quorum.tail_starts.items())
    starts = [(log.label, beyond_voters(quorum, log)) for log in quorum.peers]
    found += [(label, start) for label, start in starts if start is not None]
    found += [
        (comparison.one.label, run.start)
        for comparison in quorum.differing
        for run in comparison.runs
        if quorum.is_second_history(comparison, run)
    ]
    for one in candidates(quorum):
        if one.wins and one.lacks_from is not None:
            cut = committed_cut(quorum, one.lacks_from)
            found += [cut] if cut else []
    snapshots = [quorum.cut_off_of(log.label) for log in quorum.peers]
    found += [(one.snapshot.path, one.start) for one in snapshots if one is not None]
    return list(dict.fromkeys(found))


def stations_of(quorum: Quorum, cuts: Iterable[Cut]) -> frozenset[int]:
    """Where the shared history is to leave its state, so that what follows need not begin at a
    snapshot: where copies part from it. Of the first few, as each is a state of its own.
    """
    sides = [one.run.start for one in _sides(quorum).values()][:PAIRS_KEPT]
    return frozenset(list(dict.fromkeys([*sides, *(at for _, at in cuts)]))[:STATIONS_KEPT])


def losses_of(
    quorum: Quorum, records: Records, cuts: Iterable[Cut], stations: Stations | None = None
) -> dict[Cut, Losses]:
    """What goes with the end of each log, or that its state there cannot be rebuilt."""
    replays = _Replays(quorum, records, stations)
    found = {}
    for of, offset in cuts:
        states = replays.of_cut(of, offset)
        found[of, offset] = Losses(offset, None) if states is None else _told(offset, *states)
    return found


def lost_fields(
    quorum: Quorum, records: Records, of: str, offset: int
) -> Iterator[Difference] | None:
    """The same field by field, from the state without the records; None: it cannot be rebuilt."""
    states = _Replays(quorum, records).of_cut(of, offset)
    return None if states is None else differences(*states)


def apart_in(
    quorum: Quorum, records: Records, stations: Stations | None = None
) -> dict[tuple[str, str], Losses]:
    """What copies that differ in committed data have otherwise than those that they are held
    against, at the end of what both hold: of the first few pairs, as each takes two replays.
    """
    replays = _Replays(quorum, records, stations)
    found = {}
    for names, side in list(_sides(quorum).items())[:PAIRS_KEPT]:
        states = replays.of_both(side)
        if states is not None:
            found[names] = _told(_shared_end(side), *states)
    return found


def apart_fields(
    quorum: Quorum, records: Records, names: tuple[str, str]
) -> Iterator[Difference] | None:
    """The same of one pair, field by field; None where it cannot be rebuilt."""
    states = _Replays(quorum, records).of_both(_sides(quorum)[names])
    return None if states is None else differences(*states)


def _sides(quorum: Quorum) -> dict[tuple[str, str], Side]:
    return {
        (one.comparison.one.label, one.comparison.other.label): one
        for one in committed_sides(quorum)
    }


def _shared_end(side: Side) -> int:
    return min(side.comparison.one.end_offset or 0, side.comparison.other.end_offset or 0)


_Two = tuple[State, State] | None
"""Two states, of the partitions only those that differ; None where they cannot be rebuilt."""


class _Replays:
    """Where the states of a quorum's logs come from; a snapshot is loaded once for all of them."""

    def __init__(self, quorum: Quorum, records: Records, stations: Stations | None = None) -> None:
        self.quorum, self.records = quorum, records
        self.stations = stations or Stations.none(records)
        self.images = self.stations.images

    def of_both(self, side: Side) -> _Two:
        """The states of the other copy and of the one that stands against it."""
        logs, ends = (side.comparison.other, side.comparison.one), (_shared_end(side),)
        at = [self._at(one, side.run.start, ends) for one in logs]
        return states_apart(at[0][0], at[1][0]) if all(at) else None

    def of_cut(self, of: str, offset: int) -> _Two:
        """The states at an offset and at the end of a log."""
        cut = self.quorum.cut_off.get(of)
        if cut is not None and cut.start == offset:
            return self._cut_off(cut) if cut.is_seen else None
        if of not in self.quorum.by_label:
            return self._behind_logs(offset)
        log = self.quorum.by_label[of]
        end = max(offset, log.end_offset or 0)
        found = self._at(log, offset, (offset, end))
        if not found:
            return None
        other = self._other_history(log, offset)
        goes_on = self._at(other, other.end_offset or 0, (other.end_offset or 0,)) if other else []
        states = states_apart(*found)
        return _but_for_alike(states, states_apart(goes_on[0], found[1])) if goes_on else states

    def _other_history(self, log: LogView, offset: int) -> LogView | None:
        """The newest log that has another history than one from an offset on, which was committed, too:
        what it has alike is not lost.
        """
        others = [
            one.other
            for one in self.quorum.differing
            for run in one.runs
            if one.one is log and run.start == offset and self.quorum.is_second_history(one, run)
        ]
        return max(others, key=lambda one: one.newness, default=None)

    def _cut_off(self, cut: CutOff) -> _Two:
        """The states where a snapshot's history was cut and at its end, but for what the log that
        goes on without it has alike by now.
        """
        log, ends = cut.log, (cut.start, cut.log.end_offset or 0)
        held = self._at(log, cut.start, ends)
        image = self.images.of(cut.snapshot) if held else None
        if image is None:
            return None
        behind = states_apart(held[1], image.known)
        return _but_for_alike(states_apart(held[0], image.known), behind)

    def _behind_logs(self, offset: int) -> _Two:
        """The states where the logs end and in the snapshot of all that is committed."""
        whole = whole_snapshot(self.quorum)
        log = max(not_replaced(self.quorum), key=lambda one: one.newness, default=None)
        held = self._at(log, offset, (offset,)) if log is not None else []
        image = self.images.of(whole) if whole is not None and held else None
        if image is None:
            return None
        states = states_apart(held[0], image.known)
        return _but_for_alike(states, states)

    def _at(self, log: LogView, offset: int, ends: tuple[int, ...]) -> list[Known]:
        """The states of a log at some offsets in their order, from the nearest one below `offset`
        that is known; none where they cannot be rebuilt.
        """
        held, own = Held.shared(self.quorum, log), whole_log(log)
        begun = self._begun(held, offset)
        if begun is None or held.reach(begun[1]) < ends[-1]:
            return []
        known, reached = begun
        found = list[Known]()
        for end in ends:
            windows = self.records.windows(own, *own.between(reached, end))
            reached = go_on(known.advance, windows, reached, end)
            if reached < end:
                return []
            found.append(known.fork() if end != ends[-1] else known)
        return found

    def _begun(self, held: Held, offset: int) -> tuple[Known, int] | None:
        """The nearest state of a log below an offset, and where: one that the way through the shared
        history has left, where the log holds just that from its newest snapshot on, of whatever
        copy, or else the snapshot's.
        """
        base = held.base_for(offset)
        start = 0 if base is None else base.end_offset
        for at in sorted(self.stations.states, reverse=True):
            if start < at <= offset and tells_as(held.log, self.quorum.chain, start, at):
                return self.stations.states[at].fork(), at
        if base is None:
            return (Known(self.images.topics), 0) if held.begins_at_zero else None
        image = self.images.of(base)
        return None if image is None else (image.known.fork(), start)


def _but_for_alike(states: tuple[State, State], behind: tuple[State, State]) -> _Two:
    """Two states, the second of a snapshot or of a log's end, but for what another log has as it has
    that: `behind` are the other log's and it.
    """
    before, after = states
    missing = {(one.table, one.key) for one in meant(*behind)}
    for one in list(differences(before, after)):
        if (one.table, one.key) not in missing:
            before.set(one.table, one.key, after.get(one.table, one.key))
    return before, after


# --- as objects ----------------------------------------------------------------------------------


def _told(offset: int, before: State, after: State) -> Losses:
    """The objects that differ, by kind. What comes and goes with a topic is told with it; what the
    cluster sets anew by itself is only counted.
    """
    names: dict[tuple[str, str], dict[str, None]] = {}
    again: dict[str, set[Any]] = {}
    topics = _topic_names(before, after)
    changed = {one.key[0] for one in differences(before, after) if one.table == "topics"}
    named = {topics[one] for one in changed}
    for one in differences(before, after):
        if one.table == "partitions" and one.key[0] in changed:
            continue
        if one.table == "configs" and one.key[0] == TOPIC_RESOURCE and one.key[1] in named:
            continue
        is_move = one.table == "partitions" and one.field in MOVES
        if is_move or (one.table in _BY_ITSELF and one.change != "removed"):
            again.setdefault(one.table, set()).add(one.key)
            continue
        names.setdefault((one.table, one.change), {})[_name(one, before, after, topics)] = None
    counts = tuple(
        LossCount(table, kind, len(found), tuple(list(found)[:NAMES_KEPT]))
        for (table, kind), found in names.items()
    )
    return Losses(offset, counts, {table: len(keys) for table, keys in again.items()})


def _topic_names(before: State, after: State) -> dict[str, str]:
    return {
        key[0]: value["name"]
        for state in (before, after)
        for key, value in state.rows("topics").items()
    }


def _name(one: Difference, before: State, after: State, topics: Mapping[str, str]) -> str:
    """As a person calls it, without the kind of object."""
    old, new = before.get(one.table, one.key), after.get(one.table, one.key)
    if one.table == "topics":
        return topics[one.key[0]]
    change = Change(one.table, one.key, old, new)
    return plain_name(change, lambda topic: topics.get(topic, f"(id {topic})"))
