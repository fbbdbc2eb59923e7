"""Checks of the copies as members of one quorum: who led it, and who holds what is committed.

Source: KIP-630 "Changes to Leader Election", KAFKA-1211, KIP-595, KAFKA-15489, Kafka's LeaderState,
confluentinc/kafka#302, KAFKA-17608.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, Severity, check
from kraftlog.audit.coverage import Coverage
from kraftlog.audit.loss_words import known_losses, lost_words
from kraftlog.audit.triage import (
    called,
    fetch_again,
    instead_of_waiting,
    put_in_place,
    replacement,
    then_few,
    votes_left_out,
)
from kraftlog.plain import listed, numbers, offsets_text, sentence, voters_text
from kraftlog.quorum.committed import Candidate, candidates, committed_cut, whole_snapshot
from kraftlog.quorum.content import LEADER_CHANGE
from kraftlog.quorum.copy_times import described_alone_from
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.pairs import undecided_beside
from kraftlog.quorum.settings import FETCH_TIMEOUT, LOWER, UPPER, VOTER_SET
from kraftlog.quorum.shortfalls import (
    WrittenAlone,
    after_a_leader,
    beyond_voters,
    knows_its_vote,
    leads_alone,
    led_beyond,
    lost_end,
    too_few_hold,
    unheld_from,
    voted_down,
    whole_voters,
    wins_excused,
    written_alone,
)


@dataclass(frozen=True, slots=True)
class _Claim:
    """Somebody's word on who led an epoch."""

    epoch: int
    leader: int
    replica: str | None
    path: str | None
    position: int | None
    offset: int | None
    source: str

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        if self.replica is None:
            return self.source
        at = "" if self.offset is None else f" at offset {self.offset}"
        return f"the {self.source}{at} of replica {self.replica}"


def _claims(quorum: Quorum) -> Iterator[_Claim]:
    for log in quorum.peers:
        # Where the epochs around a batch speak against its own, that one is no claim.
        certain = log.raw_epochs == log.epochs
        for index in log.remarkable[certain[log.remarkable]].tolist():
            row = int(log.rows[index])
            for control in log.controls(row):
                if control.type == LEADER_CHANGE and control.data:
                    yield _Claim(
                        int(log.epochs[index]),
                        int(control.data["leaderId"]),
                        log.label,
                        log.path(row),
                        int(log.evidence.log.positions[row]),
                        int(log.base[index]) + control.record_index,
                        "LeaderChange record",
                    )
        state = log.evidence.state_file
        if state is not None and state.leader_id >= 0 and log.evidence.quorum_state is not None:
            path = log.evidence.quorum_state.path
            yield _Claim(
                state.leader_epoch, state.leader_id, log.label, path, None, None, "quorum-state"
            )
    told = quorum.evidence.described
    if told is not None and told.leader_epoch is not None and told.leader_id is not None:
        source = "kafka-metadata-quorum describe"
        yield _Claim(told.leader_epoch, told.leader_id, None, None, None, None, source)


@check(
    "single_leader_per_epoch", "critical", "replica", "KAFKA-15489",
    "each epoch has one leader over all logs, quorum-state files and a saved describe",
    action="stop", over=coverage.copied_logs,
    meaning="""Two nodes are named as leader of one epoch, by LeaderChange records,
    quorum-state files or a saved describe; or one is whom no majority can have elected, as so many
    voted for others by their quorum-state. Two nodes may have accepted writes at once. Where one
    log holds both records, the epoch of one of their batches may be damaged instead.""",
    advice="""Keep all folders and stop before any restart. Compare the logs of both from that
    epoch on. Check that no node id was used twice and that no quorum-state was restored from a
    backup.""",
)  # fmt: skip
def single_leader(quorum: Quorum) -> Iterator[BadRow]:
    by_epoch: dict[int, list[_Claim]] = defaultdict(list)
    for claim in _claims(quorum):
        by_epoch[claim.epoch].append(claim)
    for epoch, claims in sorted(by_epoch.items()):
        count = Counter(one.leader for one in claims)
        if len(count) < 2:
            yield from _not_elected(quorum, claims)
            continue
        usual = count.most_common(1)[0][0]
        right = next(one for one in claims if one.leader == usual)
        for leader in sorted(set(count) - {usual}):
            # A place in a log says more than a side file.
            against = [one for one in claims if one.leader == leader]
            claim = min(against, key=lambda one: one.offset is None)
            in_one_log = claim.replica == right.replica and None not in (claim.offset, right.offset)
            advice = "Both may have accepted writes. Keep both folders, and compare their logs from there on before any node starts."
            if in_one_log:
                advice = (
                    "Kafka never writes both into one log: two nodes wrote it, or the epoch of a batch is damaged (no CRC covers it). "
                    "Keep all folders, and find out which before any node starts."
                )
            yield BadRow(
                claim.replica,
                f"Epoch {epoch} has two leaders: node {leader} by {claim.place}, and node {usual} by {right.place}. {advice}",
                claim.path,
                claim.position,
                right.offset if claim.offset is None else claim.offset,
                batch_leader_epoch=epoch,
                other_replica=None if in_one_log else right.replica,
                evidence={"leaders": {str(k): v for k, v in count.items()}},
            )


def _not_elected(quorum: Quorum, claims: list[_Claim]) -> Iterator[BadRow]:
    """A leader whom no majority can have elected, by the votes that others gave in its epoch."""
    claim = claims[0]
    others = voted_down(quorum, claim.epoch, claim.leader)
    if others:
        file = "its quorum-state" if len(others) == 1 else "their quorum-state"
        yield BadRow(
            claim.replica,
            f"Node {claim.leader} leads epoch {claim.epoch} by {claim.place}, but no majority can have elected it: {voters_text(others)} voted for others, by {file}. "
            "A voter votes once in an epoch, so that a quorum-state was set back or replaced, and another node may lead that epoch too. "
            "Keep all folders, and find out which before any node starts.",
            claim.path,
            batch_leader_epoch=claim.epoch,
            evidence={"leaders": {str(claim.leader): len(claims)}, "voted_for_others": others},
        )


def _committed_voters(quorum: Quorum) -> Coverage:
    """The voters but those whose files were copied, or last written, before the newest committed
    records, or all where an observer holds more than they do: what their nodes hold is not known.
    """
    found = coverage.committed_voters(quorum)
    why = "it was copied, or last written, before the newest committed records; copy it again"
    if described_alone_from(quorum) is not None:
        why = (
            f"it was copied before {quorum.told_by}, or has lost what that tells of; copy it again"
        )
    gaps = [(one.log.label, why) for one in candidates(quorum) if wins_excused(quorum, one)]
    beyond = [one.label for one in quorum.peers if beyond_voters(quorum, one) is not None]
    if beyond:
        why = f"replica {beyond[0]} holds what no voter at hand does; copy it again"
        lacking = {one.log.label for one in candidates(quorum) if one.lacks_from is not None}
        gaps += [(label, why) for label in found.judged if label not in lacking]
    return found.but_for(gaps)


@check(
    "voter_holds_committed_data", "critical", "replica",
    "KIP-630 Changes to Leader Election, KAFKA-1211, Kafka's LeaderState",
    "no majority of voters could elect a leader that lacks committed data",
    action="stop", over=_committed_voters,
    goes_by=("copy_skew_ms", "idle_gap_ms", FETCH_TIMEOUT, VOTER_SET, LOWER, UPPER),
    meaning="""Enough voters would elect a leader that lacks committed records. Those would then be
    lost. At level info one voter ends before the committed bound and cannot win by itself: it
    lags, and catches up when it runs; or it has lost its log's end, which log_end_lost tells. At
    level warning too many voters end there for all of them to lag: one has lost what was committed,
    or they were copied at different times; or only what a leader wrote, and no majority at hand, tells that it
    was committed; or the one that lags would be elected by a voter whose log could not be read;
    or one voter alone holds what a leader without a majority would not have written; or a log holds another epoch below the high watermark of a
    describe, or below what an earlier run of the lake showed to be committed, than its leader has
    there; or no copy holds all of that any more.""",
    advice="""Where voters are down, start first the one that the finding names, or else one that holds
    the committed offsets, with only as many others as make a majority with it, and wait until it
    leads. Do not start only the voters that the finding lists, and none whose own log names no other voter:
    it leads by itself at each start, and others follow it. Where no voter holds them any more, the
    finding names a copy or a snapshot to start from, or kraftlog recover. At level warning, compare the times of the copies,
    and copy those voters again. At level info nothing needs to be done, unless
    log_end_lost is told of the same voter.""",
)  # fmt: skip
def committed_held(quorum: Quorum) -> Iterator[BadRow]:
    bounds, too_few, unread = quorum.bounds, too_few_hold(quorum), quorum.unread_voters
    beside_empty = {
        one.log.label for one in (candidates(quorum, unread) if unread else ()) if one.wins
    }
    for one in candidates(quorum):
        if one.lacks_from is None:
            continue
        explained = wins_excused(quorum, one)
        is_apart = one.log.label in quorum.fork_starts
        lacks, who = offsets_text(one.lacks_from, bounds.lower), called(quorum, one.log)
        be, them = ("is", "it") if bounds.lower - one.lacks_from == 1 else ("are", "them")
        text = f"{sentence(who)} lacks {lacks}, which {be} committed: {bounds.lower_reason}."
        objects: Any = None
        severity: Severity | None = "info"
        if one.wins and not explained:
            is_seen = one.lacks_from < quorum.held_below
            severity = None if is_seen else "warning"
            cut = committed_cut(quorum, one.lacks_from)
            objects = known_losses(quorum, *cut) if cut else None
            names = numbers(sorted(one.granting))
            voters = "Voter" if len(one.granting) == 1 else "Voters"
            told = f" {lost_words(objects)}" if objects is not None else ""
            todo = _OF_ANOTHER_HISTORY if is_apart else _start_first(quorum, one.log, them)
            by = "" if one.voter in quorum.holders else ", by the voter set of its own disk"
            text += f" {voters} {names} would elect it all the same{by}, and {lacks} would be lost.{told} {todo}"
            if not is_seen:
                text += f" If all of these run, their copies may only be older than {them}: copy all voters again."
        elif explained and described_alone_from(quorum) is not None:
            if quorum.evidence.on_other_disks:
                text += (
                    f" No voter's disk at hand is one that {quorum.told_by} read. {_ON_OTHER_DISKS}"
                )
            else:
                text += f" No copy at hand holds all of that: the copies are older than {quorum.told_by}, or have lost {them}. Copy the voters again: what they lack then is lost."
            if (before := quorum.evidence.remembered) is not None:
                severity = "warning"
                text += f" The lake still has it: kraftlog changes --since {before.run} tells what it was."
        elif (most := quorum.evidence.set_back.get(one.log.label)) is not None:
            severity = "warning"
            text += f" Run {most[1]} of this lake read its log up to offset {most[0]}: the disk was set back, or this copy is older than that run. {_SET_BACK}"
        elif explained:
            text += f" {_excused_words(quorum, one.log, one.lacks_from, them)}"
        elif is_apart:
            text += f" {_OF_ANOTHER_HISTORY}"
        elif quorum.witnesses(one.log):
            text += " The files beside its log tell that it once held more: see log_end_lost before you start it."
        elif led_beyond(quorum, one.log) is not None:
            text += " It led the epoch in which its log ends, and others hold more of that: see log_end_lost before you start it."
        elif one.log.label in too_few:
            severity = "warning"
            text += f" {_too_few_words(quorum, one.log, too_few, them)}"
        elif one.log.label in beside_empty:
            severity = "warning"
            its = "its log" if len(unread) == 1 else "their logs"
            text += f" It lags, or has lost {them}. {sentence(voters_text(unread))} would elect it if nothing is left of {its}. {_start_first(quorum, one.log, them)}"
        elif damaged := _once_cut(quorum, one):
            text += f" It lags, or has lost {them}. {_ONCE_CUT.format(voters_text(damaged))}"
        else:
            text += f" It lags, or has lost {them}. The voters at hand cannot elect it, and it fetches {them} from the leader when it runs."
        yield BadRow(
            one.log.label,
            text,
            offset=one.lacks_from,
            end_offset=bounds.lower,
            severity=severity,
            evidence={
                "committed_lower": bounds.lower,
                "granted_by": sorted(one.granting),
                "objects_lost": objects,
                "majority": bounds.majority,
                "missing_voters": list(bounds.missing_voters),
            },
        )

    yield from _refuted_rows(quorum)
    alone = written_alone(quorum)
    if alone is not None:
        yield _alone_row(quorum, alone)


def _once_cut(quorum: Quorum, lacking: Candidate) -> list[int]:
    """The voters that hold more than one that lags, and would elect it once their own start has cut
    their logs at a damaged batch.
    """
    lacks = lacking.lacks_from or 0
    first = ((log, log.missing_start or next(iter(log.holes), None)) for log in quorum.electors)
    holed = {
        log.evidence.node_id or 0
        for log, hole in first
        if hole is not None and max(hole.start, quorum.own_snapshot_end(log.label)) <= lacks
    } - lacking.granting
    again = candidates(quorum, holed) if holed else ()
    return sorted(holed) if any(one.wins and one.log is lacking.log for one in again) else []


_ONCE_CUT = "As they stand, the voters at hand cannot elect it, but {} would, once a start has cut the log at a damaged batch: settle that first."
_SET_BACK = "Copy it again. If it still ends there, start it only while a majority of the others runs, so that it fetches what it lost before its vote counts."
_ON_OTHER_DISKS = (
    "The quorum was formatted anew under its old cluster id, all of its disks were replaced, or these are older ones. "
    "Where that was not meant, start nothing, and copy the disks of then. Where it was, go on in a new lake."
)
_OF_ANOTHER_HISTORY = "It holds another history there: see the finding of committed_data_consistent, and start no node of either before you know which one counts."


def _start_first(quorum: Quorum, lacking: LogView, them: str) -> str:
    """In which order voters that are down start, so that none is elected without what is committed:
    fewer others than a majority elect nobody by themselves. Of two folders of one node nobody knows
    which is the one that runs. One that has lost more behind what is committed waits for that, and
    one that would lead by itself never starts with its log.
    """
    if leads_alone(quorum, lacking):
        return _never_with_its_log(quorum, lacking)
    sound = _undamaged_voters(quorum)
    if not sound:
        return _if_none_holds(quorum, lacking, them)
    first = next((log for log in sound if _speaks_against(quorum, log) is None), None)
    if first is None:
        why = _speaks_against(quorum, sound[0])
        return f"{sentence(called(quorum, sound[0]))} holds {them}, but {why}."
    after = after_a_leader(quorum)
    waiting = [one for one in quorum.electors if one.label in after]
    never = [called(quorum, one) for one in waiting if leads_alone(quorum, one)]
    late = [called(quorum, one) for one in waiting if not leads_alone(quorum, one)]
    todo = f"start {called(quorum, first)} first{then_few(late)}"
    out = f" Leave {listed(never)} out of it, by its own finding." if never else ""
    return f"If the voters are down, {todo}.{out}{_held_beyond(quorum, first)}"


def _never_with_its_log(quorum: Quorum, log: LogView) -> str:
    """What is to be done about a disk that makes its node a quorum of its own."""
    todo, _ = fetch_again(quorum, log.label)
    return f"Its own log names no other voter: each start makes it the leader at once, also while another one leads. Do not start it with this log. {todo}"


def _held_beyond(quorum: Quorum, first: LogView) -> str:
    """What an observer holds behind the end of the voter's log that leads first, as a sentence after a
    blank: that one would have it cut.
    """
    other, end = replacement(quorum, first), first.end_offset or 0
    if other is None or quorum.is_voter(other.evidence) or (other.end_offset or 0) <= end:
        return ""
    lacks = offsets_text(end, other.end_offset or 0)
    return f" {sentence(called(quorum, first))} lacks {lacks}, which {called(quorum, other)} holds: before it starts, {put_in_place(first, other)}."


def _undamaged_voters(quorum: Quorum) -> list[LogView]:
    """The voters' copies that hold all that is committed, without damage, the furthest first."""
    return [
        log
        for log in whole_voters(quorum)
        if not log.holes
        and log.evidence.log.crc_valid.all()
        and quorum.copies_of[log.evidence.node_id] == 1
    ]


def _speaks_against(quorum: Quorum, log: LogView) -> str | None:
    """What is to be settled before such a copy's node starts first; None where nothing is."""
    if lost_end(quorum, log) is not None:
        return "has lost the end of its log: settle its finding of log_end_lost first"
    if not votes_left_out(quorum) and not knows_its_vote(quorum, log):
        return "has forgotten its vote: settle its finding of quorum_state_present first"
    if (other := undecided_beside(quorum, log)) is not None:
        return f"differs from replica {other}, and no majority decides: start neither before you know which one is right"
    return None


def _if_none_holds(quorum: Quorum, lacking: LogView, them: str) -> str:
    """What can take the place of a voter that holds what is committed, where no other was copied."""
    missing = quorum.bounds.missing_voters
    if missing and quorum.moved_voters == list(missing):
        return f"Bring back an old disk of {voters_text(missing)} that holds {them}: else kraftlog recover builds a quorum from what remains."
    if missing:
        return f"First start a voter that holds {them}."
    other, best = replacement(quorum, lacking), whole_snapshot(quorum)
    if other is not None and not quorum.is_voter(other.evidence):
        return f"No voter at hand is whole and holds {them}: before this one starts, {put_in_place(lacking, other)}."
    if best is None:
        return f"No voter at hand is whole and holds {them}: kraftlog recover builds a quorum from what remains."
    return f"No voter at hand is whole and holds {them}: before this one starts, put {best.evidence.name} of replica {best.replica} into its log folder."


def _excused_words(quorum: Quorum, log: LogView, lacks_from: int, them: str) -> str:
    """What is to be done about a copy that was taken before what it lacks, or whose node lost it."""
    copied = f"It was copied, or last written, before offset {lacks_from}"
    if unheld_from(quorum) is not None:
        return f"{copied}, or has lost {them}, and no voter at hand holds {them}: copy the voters again before one that is down starts."
    held = whole_voters(quorum)
    whole = [one for one in _undamaged_voters(quorum) if _speaks_against(quorum, one) is None]
    if quorum.pulled is not None or not held:
        return f"{copied}: what it lacks comes from the leader."
    if leads_alone(quorum, log):
        return (
            f"{copied}: if it runs, it has fetched {them} since. {_never_with_its_log(quorum, log)}"
        )
    if (todo := instead_of_waiting(quorum, log)) is not None:
        return f"{copied}: if it runs, it has fetched {them} since. If it is down, {todo}."
    late = ("this one",) if log.label in after_a_leader(quorum) else ()
    who = called(quorum, (whole or held)[0])
    settled = "" if whole else f"do what is told of {who}, which holds {them}, and "
    first = f"{settled}start {who if whole else 'that one'} first{then_few(late)}"
    return f"{copied}: if it runs, it has fetched {them} since. If it is down, {first}."


def _refuted_rows(quorum: Quorum) -> Iterator[BadRow]:
    """Copies that hold something else than a describe tells, or an earlier run of the lake, and of
    which nothing else tells.
    """
    described = quorum.told_committed
    if described is None:
        return
    lacking = (one.log.label for one in candidates(quorum) if one.lacks_from is not None)
    told = quorum.departed.union(lacking)
    for label, at in quorum.refuted.items():
        if label in told:
            continue
        log, mark, epoch = quorum.by_label[label], described.high_watermark, described.leader_epoch
        row = int(log.rows[log.index_at(at)])
        own = int(log.evidence.log.epochs[row])
        words = _NOT_THEIRS
        if described.run is not None:
            lost = (
                f"{_WENT_ON_WITHOUT} kraftlog changes --since {described.run} tells what differs."
            )
            words = lost if own > (epoch or 0) else _NOT_ANY_MORE
        yield BadRow(
            label,
            f"{sentence(called(quorum, log))} holds a record of epoch {own} at offset {at}. "
            f"By {described.source} the leader of epoch {epoch} has committed everything below offset {mark}, and its log cannot have one of epoch {own} there. {words}",
            log.path(row),
            int(log.evidence.log.positions[row]),
            at,
            batch_leader_epoch=own,
            severity="warning",
            evidence={"high_watermark": mark, "leader_epoch": epoch},
        )


_NOT_THEIRS = (
    "The files were copied before that, or have lost it, or the describe is not theirs: it shows no record of this log to be committed. "
    "Copy all voters again, describe again, and start no node before you know."
)
_NOT_ANY_MORE = "The files are older copies, or have lost it. Copy all voters again, and start no node before you know."
_WENT_ON_WITHOUT = (
    "What was committed there is lost, and the quorum went on without it: its disks were set back, or it was begun anew from less. "
    "Keep all folders and backups. Where that was meant, as after kraftlog recover, go on in a new lake."
)


def _alone_row(quorum: Quorum, alone: WrittenAlone) -> BadRow:
    end, who = alone.log.end_offset, called(quorum, alone.log)
    return BadRow(
        alone.log.label,
        f"Of all voters {who} alone holds {offsets_text(alone.start, end)}, written over {alone.seconds} s in one epoch. "
        "Since Kafka 3.7 a leader stops soon where no majority follows it: other voters have lost that, or were copied too early. "
        f"Copy all voters again. If all are down, keep their folders, and start this one first{then_few()}.",
        offset=alone.start,
        end_offset=end,
        severity="warning",
        evidence={"committed_lower": quorum.bounds.lower, "seconds": alone.seconds},
    )


def _too_few_words(quorum: Quorum, log: LogView, lacking: frozenset[str], them: str) -> str:
    nodes = sorted({one for label in lacking if (one := quorum.node_id(label)) is not None})
    was = "was" if them == "it" else "were"
    they = "it" if them == "it" else "they"
    named = f"{'' if len(nodes) == 1 else 'one of '}{voters_text(nodes)}"
    best = replacement(quorum, log)
    lost = (
        f" If this one has lost {them}: before it starts, {put_in_place(log, best)}. If anything was committed from offset {best.end_offset} on, that is lost then."
        if best
        else ""
    )
    return (
        f"No majority can have committed {them} without {named}: that one has lost {them}, or its files were copied before {they} {was} written. "
        f"Compare the times of the copies, copy these nodes again, and start none of them before you know.{lost}"
    )
