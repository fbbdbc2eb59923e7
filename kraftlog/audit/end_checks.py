"""Checks of what is not there: ends of logs that their own files witness, and voters of whom there
is no copy.

Source: KIP-630 "Design", KAFKA-1211, KIP-595; KIP-853 for the ways to put a voter back.
"""

from collections.abc import Iterator

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import ActionKey, BadRow, Severity, check
from kraftlog.audit.coverage import Coverage, but_for_unread, missing_voters_text
from kraftlog.audit.difference_checks import standing_apart
from kraftlog.audit.triage import covering, fetch_again, holding, replicas_text
from kraftlog.log import names
from kraftlog.plain import numbers, offsets_are, offsets_text, sentence, some
from kraftlog.quorum.bounds import NOBODY_KNOWN
from kraftlog.quorum.ends import Witness
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import VOTER_SET
from kraftlog.quorum.shortfalls import (
    LedEpoch,
    has_lost_its_end,
    is_only_noted,
    keeping_up_now,
    led_beyond,
    lost_end,
    may_be_unwritten,
)


def _own_files(quorum: Quorum) -> Coverage:
    """Logs that lie in a node's folder, with something beside them that can witness their end."""
    own = {log.label: log for log in quorum.logs if not log.evidence.single_file}
    able = {
        label: log
        for label, log in own.items()
        if log.evidence.segments
        and (
            log.evidence.epoch_checkpoint
            or log.evidence.quorum_state
            or log.evidence.indexes
            or log.evidence.producer_ends
            or log.evidence.snapshots
        )
    }
    gaps = [
        (
            label,
            log.evidence.unlisted or "no file beside its log could witness its end"
            if log.evidence.segments
            else "no segment of its log was copied",
        )
        for label, log in own.items()
        if label not in able and not quorum.begins_empty(log)
    ]
    gaps += [
        (label, "its log was copied before the files beside it; copy it again")
        for label, log in able.items()
        if has_lost_its_end(quorum, log) and lost_end(quorum, log) is None
    ]
    found = Coverage(tuple(able), (), "no file lies beside the log").but_for(
        [*gaps, *coverage.unread(able.values())]
    )
    return but_for_unread(quorum, found, *_WITNESSES)


_WITNESSES = (names.EPOCH_CHECKPOINT, names.QUORUM_STATE, names.INDEX, names.TIME_INDEX)


@check(
    "log_end_lost", "critical", "log", "KAFKA-1211, KIP-595",
    "the log reaches as far as the files beside it, and those whom its node led, witness",
    action="stop", over=_own_files,
    goes_by=("copy_skew_ms", VOTER_SET),
    meaning="""Files beside a log say that it was once longer than it is: a cut at the end of a
    record batch, or an emptied file, leaves a log that looks whole. A voter that starts with it
    has forgotten what it had acknowledged, and may vote for, or become, a leader that lacks
    committed records. At level warning, other copies hold more of the epoch that the node led: it
    has lost that, or its files were copied before it was written; or what is missing is the batch
    that log_tail_complete tells of, which had been whole, and nothing shows that it was committed.
    Files that Kafka does not read, and that may hold the rest, are named.""",
    advice="""Do not start a voter with such a log. Keep the folder, and look for the rest of the
    log (a backup, another disk, a copy that was not finished). If it is gone, do as the finding
    says: where enough other voters are whole, the node may fetch its log again, while they run. A
    broker fetches what it lacks from the leader. At level warning on a voter, compare the times of
    the copies and copy it again first.""",
)  # fmt: skip
def lost_ends(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        if quorum.witnesses(log):
            yield _lost_end(quorum, log)
        elif (led := led_beyond(quorum, log)) is not None:
            yield _ends_before_its_followers(quorum, log, led)


def _ends_before_its_followers(quorum: Quorum, log: LogView, led: LedEpoch) -> BadRow:
    end = log.end_offset or 0
    is_one = led.end - end == 1
    it_is, it_was = ("it is", "it was") if is_one else ("they are", "they were")
    return BadRow(
        log.label,
        f"The log ends at offset {end}, but its node led epoch {led.epoch}, of which {holding(led.holders)} {offsets_text(end, led.end)}. "
        f"A leader has all that it sends: {it_is} lost here, or the files were copied before {it_was} written. "
        f"{_committed(quorum, end, led.end)} Compare the times of the copies, and copy this node again. Keep all folders, and do not start this node before you know.",
        log.evidence.folder,
        offset=end,
        end_offset=led.end,
        severity="warning",
        evidence={
            "led_epoch": led.epoch,
            "held_by": led.holders,
            "committed_lower": quorum.bounds.lower,
        },
    )


def _lost_end(quorum: Quorum, log: LogView) -> BadRow:
    end, found = log.end_offset or 0, quorum.witnesses(log)
    furthest, until = found[0], found[0].end_offset
    holders, them = _holders(quorum, log, until), "it" if until - end == 1 else "them"
    held = f"No copy at hand holds {them}."
    if holders:
        held = f"{sentence(holding(holders))} {them} intact."
    elif partly := _holders(quorum, log, end + 1):
        held = f"{sentence(holding(partly))} a part of {them}."
    # A node with a voter's id is told as one, whatever its directory id says.
    role = "voter" if quorum.is_voter_by_id(log.evidence) else quorum.role(log.evidence)
    severity, advice = _what_to_do(quorum, log, role)
    return BadRow(
        log.label,
        f"{_ends_before(log, end, found)} {held}{_beside(log, until)} {_committed(quorum, end, until)} {advice}",
        furthest.path or log.evidence.folder,
        offset=end,
        end_offset=until,
        severity=severity,
        evidence={
            "witnesses": [{"end_offset": one.end_offset, "says": one.words} for one in found[:8]],
            "held_intact_by": holders,
            "committed_lower": quorum.bounds.lower,
            "role": role,
        },
    )


def _ends_before(log: LogView, end: int, found: list[Witness]) -> str:
    """What the log lacks, and what says so."""
    words = found[0].words
    if is_only_noted(log, found):
        return (
            f"The log ends at offset {end}, but {words}. "
            "Kafka notes that before it writes there: the record is lost here, or was never written here."
        )
    return (
        f"The log ends at offset {end}, but it once went on: {words}. "
        f"At least {offsets_are(end, found[0].end_offset)} lost here."
    )


def _committed(quorum: Quorum, start: int, end: int) -> str:
    lower = quorum.bounds.lower
    if start < lower:
        return f"Everything below offset {lower} is committed."
    return f"Whether {'it was' if end - start == 1 else 'they were'} committed is not known."


def _holders(quorum: Quorum, log: LogView, end: int) -> list[str]:
    """Who holds what is lost: those that have its epochs where these are known, and, where that of its
    beginning is not, that have not left the history that the log is of.
    """
    start, found = log.end_offset or 0, quorum.witnesses(log)
    known = [(at, epoch) for epoch, at in log.epoch_entries if start <= at < end]
    if found[0].end_offset == start + 1:
        known += [(start, one.epoch) for one in found if one.epoch is not None]
    lost: dict[int, set[int]] = {}
    for at, epoch in known:
        lost.setdefault(at, set()).add(epoch)
    held = [
        one.label
        for one in covering(quorum, log.label, start, end)
        if all(one.epoch_at(at) in epochs for at, epochs in lost.items())
    ]
    is_known = start in lost or quorum.leaves(log.label, start) < start
    return [one for one in held if is_known or quorum.leaves(one, end) > start]


def _beside(log: LogView, until: int) -> str:
    """The files of the folder that may hold the rest of the log, under names not read by Kafka."""
    last = log.evidence.segments[-1].base_offset
    beside = [one.rsplit("/", 1)[-1] for one in log.evidence.set_aside]
    found = [one for one in beside if last <= int(one[:20]) < until]
    if not found:
        return ""
    deleted = [one for one in found if names.classify(one).kind != names.UNKNOWN]
    but = f" Kafka deletes {some(deleted)} at its next start: copy it first." if deleted else ""
    return f" Look into {some(found)} beside the log: what is missing may be there.{but}"


def _what_to_do(quorum: Quorum, log: LogView, role: str) -> tuple[Severity | None, str]:
    """How bad a lost end is, and what to do."""
    if may_be_unwritten(quorum, log):
        return (
            "info",
            "The node may have stopped between its election and its first record. "
            "No log at hand holds a record of that epoch, so nothing that was committed is lost. "
            "The node may start.",
        )
    furthest = quorum.witnesses(log)[0]
    if lost_end(quorum, log) is None:
        return (
            "info",
            "The node was writing while its files were copied, and its log was copied first. "
            "Copy the node again to be sure.",
        )
    if role == "observer":
        return (
            "warning",
            "This node does not vote, and fetches what it lacks from the leader again. "
            "Keep the folder until a majority of the voters is known to hold what is lost here.",
        )
    is_torn = furthest.is_of_the_damage and (log.end_offset or 0) >= quorum.bounds.lower
    return (
        "warning" if is_torn else None,
        "Do not start this node with it: it would vote, and could be elected, as if these records had never been. "
        f"Look for the rest of its log first. {fetch_again(quorum, log.label)[0]}",
    )


def _expected_voters(quorum: Quorum) -> Coverage:
    if quorum.voter_set is None:
        return coverage.not_judged(NOBODY_KNOWN)
    return Coverage(tuple(log.label for log in quorum.peers))


@check(
    "voters_present", "warning", "replica", "KIP-630 Design, KAFKA-1211",
    "there is a copy of each voter of the newest voter set",
    action="copy", over=_expected_voters, after="single_leader_per_epoch",
    goes_by=(VOTER_SET,),
    meaning="""Not every voter was copied. What is committed, and what a restart loses, depends
    on all of them: a voter that is not at hand may hold newer records, or may have lost some.""",
    advice="""Copy the metadata folders of the missing voters too, with meta.properties and
    quorum-state, and audit again. If a node is gone for good, keep in mind that the verdict holds
    for the others only.""",
)  # fmt: skip
def voters_present(quorum: Quorum) -> Iterator[BadRow]:
    """Findings say how much a verdict lacks, and nothing about the copies at hand."""
    bounds, members = quorum.bounds, quorum.voter_set
    if members is None or not bounds.missing_voters:
        return
    wanted = {*members.ids, *bounds.missing_voters}
    at_hand = len(wanted) - len(bounds.missing_voters)
    copied = f"{at_hand} of {len(wanted)} voters {'was' if at_hand == 1 else 'were'} copied"
    if not at_hand:
        copied = "none of the voters was copied"
    decides = at_hand < bounds.majority
    consequence = (
        "That is less than a majority: nothing here says how far the quorum has committed beyond its snapshots, or whether the copies at hand are up to date."
        if decides
        else "What differs or is lost on a missing voter cannot be seen."
    )
    moved, pulled = quorum.moved_voters, quorum.pulled
    named = [one for one in moved if one in quorum.voting.missing]
    removed = [one for one in moved if one not in named]
    is_all_removed = len(removed) == len(bounds.missing_voters)
    advice = "" if is_all_removed else " Copy the rest too before you decide about a restart."
    if advice and decides:
        advice += " If their disks are gone for good, see kraftlog recover."
    if pulled is not None:
        below = f"all that is committed below offset {bounds.lower}"
        consequence = f"But {pulled.label} was pulled from the running leader, and holds {below}. The copies at hand were compared with it."
        advice = " What lies on the missing disks themselves was not looked at."
    if named:
        advice += f" {_elsewhere(named)}: see the finding of voter_directories_agree."
    if removed:
        advice += f" {_elsewhere(removed)}, and the removal of the old one may not be committed yet: copy all again."
    strays = sorted(one for one in quorum.strays if quorum.is_voter(quorum.by_label[one].evidence))
    if strays:
        holds = "holds" if len(strays) == 1 else "hold"
        advice += f" {sentence(replicas_text(strays))} {holds} the log of another quorum: see the finding of committed_data_consistent."
    told = f"The {'voter is' if len(members.ids) == 1 else 'voters are'} {numbers(members.ids)} by {members.place}."
    before = sorted(wanted.difference(members.ids))
    if before:
        votes = f"voter {before[0]} votes" if len(before) == 1 else f"voters {numbers(before)} vote"
        told += f" While that change may not be committed, {votes} as before it."
    yield BadRow(
        None,
        f"{sentence(missing_voters_text(quorum))}: {copied}. {consequence}{advice} {told}",
        severity="info" if pulled is not None or len(moved) == len(bounds.missing_voters) else None,
        evidence={
            "pulled": None if pulled is None else pulled.label,
            "voters": list(members.ids),
            "missing_voters": list(bounds.missing_voters),
            "keeping_up": sorted({*bounds.missing_voters} & {*(keeping_up_now(quorum) or ())}),
            "on_other_disks": moved,
            "majority": bounds.majority,
            "source": members.source,
        },
    )


def _elsewhere(nodes: list[int]) -> str:
    are = "Node {} is" if len(nodes) == 1 else "Nodes {} are"
    return f"{are.format(numbers(nodes))} here with another disk"


_OF_TWO_HISTORIES: tuple[str, dict[str, ActionKey]] = (
    "Do with its folder what the finding of committed_data_consistent says.", {},
)  # fmt: skip
"""What takes the place of `fetch_again`, whose words are for a copy of the one history."""


@check(
    "log_ends_on_batch", "warning", "log", "UnexpectedAppendOffsetException",
    "each log ends where a batch of the other logs ends",
    action="identity", over=coverage.copied_logs,
    meaning="""A copy's log ends inside a batch of the other logs. A leader sends whole batches
    only. The node cannot append what it is sent, and stops with UnexpectedAppendOffsetException,
    again at each start. Such an end comes from a snapshot that ends inside a batch, or from a log
    that was cut by hand.""",
    advice="""Stop the node. If the finding says so, set its log folder aside (keep
    meta.properties), and let it fetch log and snapshot anew when the others have a leader. Else do
    not: a voter without its log helps to elect a leader that lacks committed records.""",
)  # fmt: skip
def on_batches(quorum: Quorum) -> Iterator[BadRow]:
    """Whether each log ends where a batch of the others does: what follows cannot be fetched
    otherwise. A log that ends in another epoch is of another history there: it is cut at its
    beginning before anything is sent.
    """
    reached = [quorum.reach_of(log) for log in quorum.peers]
    ends = np.array(reached, np.int64)
    are_inside = np.zeros(len(ends), np.bool_)
    for log in quorum.peers:
        if not log.is_empty:
            indexes = log.indexes_at(ends)
            are_inside |= (indexes >= 0) & (log.base[indexes] < ends)
    apart = standing_apart(quorum) if are_inside.any() else ()
    for log, end, is_inside in zip(quorum.peers, reached, are_inside, strict=True):
        if not is_inside:
            continue
        held = [
            (one, index)
            for one in quorum.peers
            if one is not log
            and end < quorum.confirmed_ends.get(one.label, one.end_offset or 0)
            and (index := one.index_at(end)) >= 0
            and int(one.base[index]) < end
            and (log.is_empty or int(one.epochs[index]) == log.last_epoch)
        ]
        told = any(one.end_offset == end for one in quorum.snapshots_of(log.label))
        # A snapshot that ends there is the cause: `snapshot_batch_aligned` tells.
        if not held or told or log.label in quorum.tail_starts:
            continue
        other, index = held[0]
        first, last = int(other.base[index]), int(other.last[index])
        names = replicas_text([one.label for one, _ in held])
        todo, asks = _OF_TWO_HISTORIES if log.label in apart else fetch_again(quorum, log.label)
        yield BadRow(
            log.label,
            f"The log ends at offset {end}, inside the batch of offsets {first} to {last} on {names}. "
            "A leader sends whole batches, so this node stops with UnexpectedAppendOffsetException when it fetches, again at each start. "
            + todo,
            log.evidence.folder,
            offset=end,
            other_replica=other.label,
            evidence={"batch_start_offset": first, "batch_end_offset": last + 1, **asks},
        )
