"""Checks of the replicas' logs against each other: same bytes, same epochs, and what of a
difference Kafka repairs.

Source: KIP-630 "Consistent Log and Snapshots", KAFKA-1211, Raft's Log Matching.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from kraftlog.audit import coverage
from kraftlog.audit.check import BadRow, at_batch, check
from kraftlog.audit.grouping import EQUALS, contradicted
from kraftlog.audit.leaders_rules import LeadersRules
from kraftlog.audit.loss_words import apart_words, known_losses, lost_words, side_words
from kraftlog.audit.triage import (
    NEVER_TOGETHER,
    called,
    fetch_again,
    holding,
    replicas_text,
    role_of,
)
from kraftlog.plain import (
    brokers_text,
    counted,
    listed,
    natural,
    offsets_text,
    sentence,
    voters_text,
)
from kraftlog.quorum.at_hand import cluster_names
from kraftlog.quorum.committed import returning
from kraftlog.quorum.departures import Replacement
from kraftlog.quorum.divergence import Comparison, DifferingRun, end_after_repair, replacing_epoch
from kraftlog.quorum.logview import LogView
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.pairs import is_second_history_of_either, tail_of_either
from kraftlog.quorum.settings import LOWER, ROLES, UPPER, VOTER_SET

_TOLD_RECORDS = 8
"""So many records of each side stand in a finding's evidence."""


@dataclass(frozen=True, slots=True)
class Side:
    """A difference told from the side of the copy that stands against the others."""

    comparison: Comparison
    run: DifferingRun
    agreeing: tuple[str, ...]
    by_majority: bool


Difference = tuple[Comparison, DifferingRun]


def _differences(
    quorum: Quorum, is_meant: Callable[[Comparison, DifferingRun], bool]
) -> list[Difference]:
    pairs = ((comparison, run) for comparison in quorum.differing for run in comparison.runs)
    return [pair for pair in pairs if is_meant(*pair)]


def _outliers(
    quorum: Quorum, is_meant: Callable[[Comparison, DifferingRun], bool]
) -> Iterator[Side]:
    """Each difference of a kind once, but for second histories: from the side of the copy that the
    majority is against, or of the first of two.
    """
    told: set[tuple[frozenset[str], int]] = set()
    for comparison, run in _differences(quorum, is_meant):
        if is_second_history_of_either(quorum, comparison, run):
            continue
        label, other = comparison.one.label, comparison.other.label
        majority = quorum.majority_at(run.start)
        labels = tuple(one.label for one in majority or ())
        if label in labels:
            continue
        outlier = other in labels
        # Where the majority holds a third thing, the two are told against each other.
        key = (frozenset((label,)) if outlier else frozenset((label, other))), run.start
        if key in told:
            continue
        told.add(key)
        agreeing = labels if outlier else (other,)
        yield Side(comparison, run, agreeing, outlier)


def committed_sides(quorum: Quorum) -> Iterator[Side]:
    """The differences in what is committed, each told once. A second history is told as one, also
    where a copy that lags does not show it.
    """
    lower = quorum.bounds.lower
    return _outliers(
        quorum,
        lambda one, run: (
            run.start < lower
            and tail_of_either(quorum, one, run) is None
            and not _is_beside_a_fork(quorum, one, run)
        ),
    )


def standing_apart(quorum: Quorum) -> frozenset[str]:
    """The copies of a second history, and those that differ from the others in what is committed."""
    sides = committed_sides(quorum)
    return frozenset({*quorum.fork_starts, *(one.comparison.one.label for one in sides)})


def _is_beside_a_fork(quorum: Quorum, comparison: Comparison, run: DifferingRun) -> bool:
    """Whether one of two copies is of a second history where they differ, and the other is not."""
    labels = comparison.one.label, comparison.other.label
    forked = [quorum.fork_starts.get(label, run.end) <= run.start for label in labels]
    return forked[0] != forked[1]


@check(
    "committed_data_consistent", "critical", "replica",
    "KIP-630 Consistent Log and Snapshots, KAFKA-1211",
    "below the lower committed bound no two replicas differ, but for an uncommitted tail",
    action="stop", over=coverage.pairs,
    goes_by=(VOTER_SET, LOWER, UPPER, ROLES),
    meaning="""Two replicas hold different records at an offset that is committed. Raft rules
    this out: a disk has lost writes, a folder was edited or mixed, or a voter was started with
    an older copy of its log. The finding names the replica that stands alone, and the first
    record that differs. Or a whole log is of another quorum than those of most voters at hand.""",
    advice="""Restart nothing. If a majority of the voters agrees, or where too few voters are at
    hand most of all copies, stop the replica that stands alone, set its log folder aside and let it
    fetch the log again. If no majority decides, the snapshots of that majority contradict its log,
    or it holds what no leader of Kafka writes, keep all copies and compare with a backup: whatever
    is started first becomes the truth.""",
)  # fmt: skip
def committed(quorum: Quorum) -> Iterator[BadRow]:
    lower, rules = quorum.bounds.lower, LeadersRules(quorum)
    yield from _strays(quorum)
    # What the voters of its own epochs had committed is committed, whatever else runs now.
    for log, found in _by_copy(quorum, quorum.is_second_history):
        yield _history_row(quorum, log, *_newest(found))
    for side in committed_sides(quorum):
        run, log = side.run, side.comparison.one
        verdict = f"replicas {log.label} and {side.agreeing[0]} differ, and no majority decides"
        if side.by_majority:
            others = replicas_text(side.agreeing)
            which = "which agree" if len(side.agreeing) > 1 else "which decides"
            verdict = f"replica {log.label} differs from {others}, {which}"
        where = offsets_text(run.start, min(run.end, lower))
        reason = quorum.bounds.lower_reason
        apart = apart_words(quorum, log.label, side.comparison.other.label)
        todo = f"Restart neither before you know which one is right: compare with a backup.{_told_as(quorum, run.start)}"
        if doubt := _doubted(rules, side, run.start):
            todo = f"{doubt} Restart none of them."
        elif side.by_majority:
            todo = f"Stop {called(quorum, log)}. {fetch_again(quorum, log.label)[0]}"
        yield _row(
            quorum,
            side,
            run.start,
            f"Committed data differs at {where}: {verdict}. {todo}{apart} {_words(quorum, side)}. "
            f"Everything below offset {lower} is committed: {reason}.",
            {"committed_lower": lower, "bound_reason": reason},
        )


def _strays(quorum: Quorum) -> Iterator[BadRow]:
    """Files of another cluster in a folder of this one: Kafka takes them for its own."""
    for label in sorted(quorum.strays, key=natural):
        log = quorum.by_label[label]
        named = quorum.directories_named(log)
        nowhere = ", and no disk at hand is one of the voters that it names" if named else ""
        if label in quorum.held_before:
            todo = (
                "It ended before the others began, and voters of the same ids elected its leader: it may be what they held before. Keep this folder. "
                "If they lost it by mistake, start nothing, and give the copies of it to kraftlog recover by themselves. "
                "Else set it aside, and let the node fetch the log again."
            )
        else:
            todo = f"{fetch_again(quorum, label)[0]} If what was lost is in this folder, keep it, and give it to kraftlog by itself."
        text = (
            f"{sentence(called(quorum, log))} holds the log of another quorum: it shares no batch with the other copies{nowhere}. "
            "The files of another cluster were put there, or the quorum was formed anew without this log. Nothing of it counts here. "
            f"Kafka does not notice, as it compares offsets and epochs alone: {_when_started(quorum, log)}. Do not start this node as it is. {todo}"
        )
        evidence, end = {"voter_directories": sorted(named)}, log.end_offset
        yield (
            BadRow(label, text, log.evidence.folder, evidence=evidence)
            if log.is_empty
            else at_batch(log, int(log.rows[0]), text, end_offset=end, evidence=evidence)
        )


def _when_started(quorum: Quorum, log: LogView) -> str:
    """What becomes of a log of another quorum when its node starts."""
    leader, own = quorum.leading_log, quorum.loaded_snapshot(log.label)
    if own is not None and own.id > log.newness:
        return f"the next start drops the log and begins with {own.evidence.name}"
    held = quorum.holders.values()
    behind = sum(all(one.newness <= log.newness for one in copies) for copies in held)
    if quorum.is_voter(log.evidence) and behind + 1 >= quorum.bounds.majority:
        return "the other voters would elect this node, and cut their logs to its own"
    cut = end_after_repair(log, leader) if leader is not None else log.end_offset or 0
    if cut < (log.start_offset or 0):
        return f"to follow the leader the node would have to cut its log at offset {cut}, below its start, where Kafka stops with an exception"
    return f"the node would go on with what it holds below offset {cut} and in snapshots, and fetch the rest from the leader"


def _by_copy(
    quorum: Quorum, is_meant: Callable[[Comparison, DifferingRun], bool]
) -> Iterator[tuple[LogView, list[Difference]]]:
    """Each copy with its differences of one kind; copies without any are left out."""
    every = _differences(quorum, is_meant)
    for log in sorted(quorum.peers, key=lambda one: natural(one.label)):
        found = [pair for pair in every if pair[0].one is log]
        if found:
            yield log, found


def _history_row(quorum: Quorum, log: LogView, comparison: Comparison, run: DifferingRun) -> BadRow:
    other = comparison.other
    epoch = log.epoch_at(run.start)
    voters = sorted(quorum.named_at(log, run.start) or ())
    who = f" by {voters_text(voters)}" if voters else ""
    lost, objects = _lost(log, run.start), known_losses(quorum, log.label, run.start)
    side = Side(comparison, run, (other.label,), False)
    newer, why = other.epoch_at(run.start), _why_two_histories(comparison)
    both, brokers = "both sides committed theirs", _of_brokers(quorum, comparison, run)
    if run.start >= quorum.bounds.lower:
        both = f"a leader was elected without what the side of replica {log.label} had committed"
    sides = f"{brokers}{NEVER_TOGETHER}{side_words(objects, log.label, other.label)}"
    return _row(
        quorum,
        side,
        run.start,
        f"Two histories: from offset {run.start} on, replicas {log.label} and {other.label} hold different records, and {both}. "
        f"{why} Keep both folders, and find out which one the brokers follow. "
        f"{sides} Replica {log.label} holds {counted(lost['records'], 'record')} there, committed{who} in epoch {epoch}. "
        f"Replica {other.label} is in epoch {newer}. {_words(quorum, side)}.",
        {
            "voters": voters,
            "records": lost["records"],
            "objects_lost": objects,
            "two_histories": True,
        },
    )


def _of_brokers(quorum: Quorum, comparison: Comparison, run: DifferingRun) -> str:
    """Which of two histories the copies of brokers hold: these act by it."""
    told = ""
    for side in (comparison.one, comparison.other):
        held = quorum.holding(side, run.start)
        brokers = {one.evidence.node_id or 0 for one in held if role_of(quorum, one) == "broker"}
        if brokers:
            verb = "holds" if len(brokers) == 1 else "hold"
            told += f"By the copies at hand {brokers_text(sorted(brokers))} {verb} that of replica {side.label}. "
    return told


def _why_two_histories(comparison: Comparison) -> str:
    one, other = comparison.one, comparison.other
    named = [{name for name, _ in cluster_names(log.evidence)} for log in (one, other)]
    if named[0] & named[1] or comparison.begins_alike:
        return "A new quorum was formed beside an old one, or voters were started with older copies of their disks."
    return "These are copies of two clusters, or a new quorum was formed beside an old one, or voters were started with older copies of their disks."


@check(
    "log_matching", "critical", "replica", "KAFKA-1211",
    "the same offset and epoch hold the same bytes on any two replicas",
    action="stop", over=coverage.pairs,
    meaning="""Two replicas hold different bytes at the same offset of the same epoch. An epoch has
    one leader, who writes an offset once. So a copy was changed after it was written, or two nodes
    led at once.""",
    advice="""Keep both folders. Let the replica that stands alone fetch its log again, unless the
    finding says that it may be right. With a finding of single_leader_per_epoch, settle that
    first.""",
)  # fmt: skip
def matching(quorum: Quorum) -> Iterator[BadRow]:
    rules = LeadersRules(quorum)
    for side in _outliers(quorum, lambda _, run: run.same_epoch_at is not None):
        run, log, other = side.run, side.comparison.one, side.comparison.other.label
        at = run.same_epoch_at or run.start
        index = log.index_at(at)
        epoch = int(log.raw_epochs[index])
        yield _row(
            quorum,
            side,
            at,
            f"Replicas {log.label} and {other} hold different bytes at offset {at} of the same epoch {epoch}. "
            "Kafka never does this: one of the copies was changed after it was written, or two leaders shared the epoch. "
            f"Keep both folders. {_matching_advice(rules, side, at)} {_words(quorum, side)}.",
            {"majority": list(side.agreeing) if side.by_majority else []},
        )


def _matching_advice(rules: LeadersRules, side: Side, offset: int) -> str:
    if doubt := _doubted(rules, side, offset):
        return doubt
    quorum = rules.quorum
    if side.by_majority:
        log = side.comparison.one
        alone = [one.label for one in quorum.holding(log, offset)]
        stand = "stands" if len(alone) == 1 else "stand"
        return f"{sentence(replicas_text(alone))} {stand} against the others. {fetch_again(quorum, log.label)[0]}"
    return f"No majority at hand decides: compare both with a backup before either starts.{_told_as(quorum, offset)}"


def _doubted(rules: LeadersRules, side: Side, offset: int) -> str:
    """What to do where those who agree may be those that were changed. Nothing in words where nothing
    says so.
    """
    if not side.by_majority:
        return ""
    doubt = _doubted_by_snapshots(rules.quorum, side, offset) or _doubted_by_rules(rules, side)
    may_be_right = f"it may have been changed, and replica {side.comparison.one.label} may be right. Empty no folder, and compare all of them with a backup."
    return f"But {doubt}: {may_be_right}" if doubt else ""


def _doubted_by_rules(rules: LeadersRules, side: Side) -> str:
    """Where no leader of Kafka writes what all of them hold, and one may have written the other."""

    def told(log: LogView) -> str | None:
        return rules.broken_by(log, side.run.start, side.run.end)

    first, *others = (rules.quorum.by_label[label] for label in side.agreeing)
    check = told(first)
    if check is None or any(told(log) is None for log in others) or told(side.comparison.one):
        return ""
    return f"no leader of Kafka writes what {holding(side.agreeing)} there ({check})"


def _doubted_by_snapshots(quorum: Quorum, side: Side, offset: int) -> str:
    """Where they wrote snapshots that contradict it, and none that bears it out: what they had applied is
    not what their logs hold now.
    """
    apart = {one.path for one in contradicted(quorum, EQUALS)}
    if not apart:
        return ""
    own = [
        one
        for one in quorum.own_snapshots
        if one.is_complete and one.end_offset > offset and one.replica in side.agreeing
    ]
    if not (own and apart.issuperset(one.path for one in own)):
        return ""
    whose = replicas_text({one.replica for one in own})
    return f"the snapshots of {whose} contradict their own log (snapshot_equals_replay)"


def _told_as(quorum: Quorum, offset: int) -> str:
    """Whose records are the history, where no majority of the copies decides (`chain`)."""
    links = quorum.chain
    at = links.link_at(offset)
    if at < 0:
        return ""
    label = links.logs[int(links.log[at])].label
    return f" Until you know, the state is told as replica {label} has it."


@check(
    "uncommitted_tail_diverged", "warning", "replica", "KAFKA-1211",
    "no replica carries an uncommitted tail that another's log contradicts",
    action="restart", over=coverage.pairs,
    meaning="""Other replicas have gone on in a newer epoch without the end of a replica's log. This
    is what a leader that was cut off leaves behind. The node cuts the tail by itself when it finds
    the newer leader. The finding says whether it is proven that none of it was committed. Where
    retention has removed what the other replicas held there, the tail may begin below the offset
    that the finding names, which then says so. Where the others have lost what they went on with,
    the leader-epoch-checkpoint of one of them tells where a newer epoch began.""",
    advice="""Read in the finding what is lost, and whether it is proven that none of it was
    committed. If that is proven, do again what is still wanted, and let a voter with a tail cut it
    and catch up before another voter goes down. If it is not, keep the folder. Before the node
    starts, bring the copies that the finding names.""",
)  # fmt: skip
def tails(quorum: Quorum) -> Iterator[BadRow]:
    told = set(quorum.replaced)
    for label, one in quorum.replaced.items():
        yield _replaced_row(quorum, quorum.by_label[label], one)
    for log, found in _by_copy(quorum, quorum.is_tail):
        if log.label not in told:
            told.add(log.label)
            yield _tail_row(quorum, log, found)
    yield from _other_differences(quorum, told)


def _newest(found: list[Difference]) -> Difference:
    """The difference from the copy that is furthest in the newest epoch; of several the lowest."""
    return max(found, key=lambda pair: (pair[0].other.newness, -pair[1].start))


def _tail_row(quorum: Quorum, log: LogView, found: list[Difference]) -> BadRow:
    start = min(run.start for _, run in found)
    comparison, run = _newest(found)
    leader, end = comparison.other, log.end_offset or 0
    cut = min(start, end_after_repair(log, leader))
    told, goes = _going(quorum, log, cut)
    side = Side(comparison, run, (leader.label,), False)
    index = log.index_at(start)
    epoch, newer = int(log.epochs[index]), replacing_epoch(log, leader, run)
    proven = log.label in quorum.never_committed
    back = returning(quorum, log.label)
    confirmed, below = min(cut, quorum.confirmed_ends[log.label]), ""
    if quorum.tail_hides(log.label):
        below = " or below"
        told = f"Where it begins is out of sight, as the other copies begin later: what it holds from offset {confirmed} on may be lost as well. {told}"
    carries = f"{sentence(called(quorum, log))} carries an uncommitted tail"
    text = (
        f"{carries} from offset {cut}{below} on, which a restart cuts. "
        f"The tail is of epoch {epoch}, and the other copies go on without it in epoch {newer}. "
        f"{_fate_in_words(quorum, newer, proven)} {told}"
    )
    if back.logs:
        who = listed([called(quorum, one) for one in back.logs])
        text = (
            f"{carries} of epoch {epoch} from offset {cut}{below} on, and the other copies go on without it in epoch {newer}. "
            f"{sentence(back.by_whom)} {who} could be elected with it, and the tail would become the quorum's history. "
            f"{_fate_in_words(quorum, newer, proven, back=True)} If the tail is cut, this goes with it. {told}"
        )
    return at_batch(
        log,
        int(log.rows[index]),
        text,
        start,
        end,
        epoch=epoch,
        other_replica=leader.label,
        evidence={
            **(
                {"could_be_elected": [one.label for one in back.logs]}
                if back.logs
                else {"truncation_offset": cut}
            ),
            **({"asks": "copy"} if back.logs or not proven else {}),
            "confirmed_end_offset": confirmed,
            **goes,
            "is_proven_uncommitted": proven,
            "contradicted_by": sorted({pair[0].other.label for pair in found}),
            **_both_sides(quorum, side),
        },
    )


def _replaced_row(quorum: Quorum, log: LogView, one: Replacement) -> BadRow:
    """A tail of which only an epoch checkpoint tells: what replaced it may be lost."""
    told, goes = _going(quorum, log, one.offset)
    other = quorum.by_label[one.replica]
    return at_batch(
        log,
        int(log.rows[log.index_at(one.offset)]),
        f"{sentence(called(quorum, log))} carries an uncommitted tail of epoch {one.epoch} from offset {one.offset} on. "
        f"By the leader-epoch-checkpoint of {called(quorum, other)}, epoch {one.newer_epoch} began at offset {one.newer_start}; no log at hand shows what it wrote there. "
        "A leader holds all that is committed when it is elected, so nothing of the tail was committed before that. "
        f"Where no voter holds epoch {one.newer_epoch} any more, a voter with the tail could be elected, and the tail would become the quorum's history. "
        f"{_fate_in_words(quorum, one.newer_epoch, proven=False)} If the tail is cut, this goes with it. {told}",
        one.offset,
        log.end_offset,
        epoch=one.epoch,
        other_replica=one.replica,
        evidence={
            "asks": "copy",
            "confirmed_end_offset": quorum.confirmed_ends[log.label],
            **goes,
            "is_proven_uncommitted": False,
            "contradicted_by": [one.replica],
        },
    )


def _fate_in_words(quorum: Quorum, newer: int, proven: bool, *, back: bool = False) -> str:
    """Whether any of a tail was committed, why that is known, and what to do."""
    bounds = quorum.bounds
    granted = sorted(quorum.granted(newer) or ())
    if proven:
        reason = f"{voters_text(granted)} elected the leader of epoch {newer} without it"
        if not granted:
            reason = "the running quorum has committed other records there"
        if back:
            return f"None of it was committed ({reason}): start no voter with it before one that holds epoch {newer} leads."
        return f"None of it was committed ({reason}), so do again what is still wanted."
    missing, rest, known = sorted(bounds.missing_voters), sorted(bounds.open_voters), ""
    if missing:
        again = (
            f", and so may those of {voters_text(rest)}, stopped and copied again" if rest else ""
        )
        copies = "a copy" if len(missing) == 1 else "copies"
        known = f" ({copies} of {voters_text(missing)} may tell{again})"
    forgot = sorted(node for node, one in quorum.forgetful.items() if one.newer_epoch == newer)
    lost = (
        f"{sentence(voters_text(forgot))} once held it, and elected the leader of epoch {newer} without it: it is lost there, and may be so elsewhere. "
        if forgot
        else ""
    )
    return f"{lost}Whether any of it was committed is not proven{known}: keep this folder, and do not start the node before you know."


def _going(quorum: Quorum, log: LogView, start: int) -> tuple[str, dict[str, Any]]:
    """(what goes with the end of a log: objects, or records if these are not known; evidence)."""
    lost, objects = _lost(log, start), known_losses(quorum, log.label, start)
    types = _types(quorum, log, start, lost["records"])
    if objects is not None:
        told = lost_words(objects)
    else:
        records, size = counted(lost["records"], "record"), counted(lost["size_bytes"], "byte")
        told = f"Lost: {records} ({size}{_types_in_words(types, lost['records'])})."
    return told, {
        "records_lost": lost["records"],
        "size_bytes_lost": lost["size_bytes"],
        "types_lost": dict(types.most_common()),
        "objects_lost": objects,
        "who": called(quorum, log),
    }


def _lost(log: LogView, start: int) -> dict[str, int]:
    rows = log.rows[log.last >= start]
    columns = log.evidence.log
    return {
        "records": int(columns.record_counts[rows].sum()),
        "size_bytes": int(columns.sizes[rows].sum()),
    }


NOT_READ = "NOT_READ"
"""In place of the type of records that were not put into words."""
_UNTOLD = {"NO_OP_RECORD", NOT_READ}


def _types(quorum: Quorum, log: LogView, start: int, records: int) -> Counter[str]:
    """Records by type from an offset on; all of them, as what was not put into words (behind the
    other log's end, or unreadable) stands as such.
    """
    words = quorum.evidence.words
    ids = [log.evidence.log.id_text(row) for row in log.rows[log.last >= start].tolist()]
    types = Counter(text.split("(")[0] for one in ids for text in words.get(one, ()))
    types[NOT_READ] = records - types.total()
    return +types


def _types_in_words(types: Counter[str], records: int) -> str:
    """The types that matter to people, the most frequent first; nothing of records not read."""
    meant = [(kind, count) for kind, count in types.most_common() if kind not in _UNTOLD]
    kinds = ", ".join(f"{count} {kind}" for kind, count in meant[:5])
    if kinds:
        return f", among them {kinds}"
    return ", all of them no-ops" if types["NO_OP_RECORD"] == records else ""


def _other_differences(quorum: Quorum, told: set[str]) -> Iterator[BadRow]:
    """Differences above the committed bound that are neither a tail nor of one epoch."""
    lower = quorum.bounds.lower
    others = _outliers(
        quorum,
        lambda one, run: (
            run.start >= lower
            and run.same_epoch_at is None
            and tail_of_either(quorum, one, run) is None
        ),
    )
    for side in others:
        log, run, other = side.comparison.one, side.run, side.comparison.other.label
        cut = end_after_repair(log, side.comparison.other)
        yield _row(
            quorum,
            side,
            run.start,
            f"Replicas {log.label} and {other} differ from offset {run.start} on, where nothing is known to be committed. Let the quorum elect a leader, and audit again. "
            f"If replica {other} leads, a restart cuts the log of replica {log.label} at offset {cut}. "
            f"{_words(quorum, side)}.",
            {"truncation_offset": cut, "also_has_tail": log.label in told},
        )


def _row(quorum: Quorum, side: Side, offset: int, message: str, evidence: dict[str, Any]) -> BadRow:
    log, run = side.comparison.one, side.run
    return at_batch(
        log,
        int(log.rows[log.index_at(offset)]),
        message,
        offset,
        run.end,
        other_replica=side.comparison.other.label,
        evidence={
            "agreeing": list(side.agreeing),
            "outlier_by_majority": log.label if side.by_majority else None,
            "batches_that_differ": len(run.rows),
            "equal_again_after": run.equal_after,
            **evidence,
            **_both_sides(quorum, side),
        },
    )


def _first_words(quorum: Quorum, side: Side) -> tuple[int, str, str]:
    """(offset, what the first log holds, what the other holds) of the first record that differs, as
    far as the first batches of both tell; what lies in a further batch has no words.
    """
    one, other, run = side.comparison.one, side.comparison.other, side.run
    row, other_row = int(run.rows[0]), int(run.other_rows[0])
    mine, theirs = _worded(quorum, one, row), _worded(quorum, other, other_row)
    for offset in sorted({*mine, *theirs}):
        left = mine.get(offset) or ("no record" if one.index_at(offset) < 0 else None)
        right = theirs.get(offset) or ("no record" if other.index_at(offset) < 0 else None)
        if left and right and left != right:
            return offset, left, right
    base = int(one.evidence.log.base_offsets[row])
    epochs = int(one.evidence.log.epochs[row]), int(other.evidence.log.epochs[other_row])
    if epochs[0] != epochs[1]:
        return base, f"epoch {epochs[0]}", f"epoch {epochs[1]}"
    if not mine or not theirs:
        return base, "a batch", "another batch"
    return base, "other bytes with the same records", "its own"


def _worded(quorum: Quorum, log: LogView, row: int) -> dict[int, str]:
    """The records of a batch in words, by their offsets."""
    batches = log.evidence.log
    words = quorum.evidence.words.get(batches.id_text(row), ())
    return dict(enumerate(words, int(batches.base_offsets[row])))


def _words(quorum: Quorum, side: Side) -> str:
    offset, mine, theirs = _first_words(quorum, side)
    one, other = side.comparison.one, side.comparison.other
    return f"At offset {offset}, replica {one.label} has {mine}, and replica {other.label} has {theirs}"


def _both_sides(quorum: Quorum, side: Side) -> dict[str, Any]:
    """The first differing record and the records of the first batches of both sides."""
    one, other, run = side.comparison.one, side.comparison.other, side.run
    offset, mine, theirs = _first_words(quorum, side)
    return {
        "first_difference_offset": offset,
        "first_difference": {one.label: mine, other.label: theirs},
        "records": {
            one.label: _told(quorum, one, run.rows),
            other.label: _told(quorum, other, run.other_rows),
        },
    }


def _told(quorum: Quorum, log: LogView, rows: "np.ndarray[Any, np.dtype[np.int64]]") -> list[str]:
    # One batch may stand beside several of the other side.
    first = list(dict.fromkeys(rows.tolist()))[:_TOLD_RECORDS]
    worded = (one for row in first for one in _worded(quorum, log, row).items())
    return [f"{offset}: {text}" for offset, text in islice(worded, _TOLD_RECORDS)]
