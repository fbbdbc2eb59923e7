"""`plan join` and `plan failover`: the whole way of a follower to its leader's end, over a link of
the reader's; what is kept and what is lost when the leader dies now, by old and new rules.

In: parsed arguments. Out: rows on stdout, one per step or rule, the answer on stderr. No Spark.
"""

import argparse
from collections.abc import Sequence
from functools import partial

from kraftlog.audit.loss_words import loss_rows, lost_words
from kraftlog.audit.losses import losses_of
from kraftlog.audit.triage import replicas_text
from kraftlog.commands.command import add_input, command, options_of
from kraftlog.commands.faults import print_with_faults
from kraftlog.commands.plan import add_dialect, add_link, links_of
from kraftlog.commands.values import number_from
from kraftlog.plain import counted, offsets_are, sentence, tell, voters_text
from kraftlog.quorum.committed import committed_holder
from kraftlog.quorum.copy_times import described_alone_from
from kraftlog.quorum.joining import FetchSettings
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import FileRecords, Records
from kraftlog.quorum.settings import (
    FETCH_TIMEOUT,
    FETCHED_BYTES,
    FETCHED_SNAPSHOT_BYTES,
    REQUEST_TIMEOUT,
)
from kraftlog.relations import Row
from kraftlog.simulate.failover_rows import Failover, TruncationRule, failover, failover_rows
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.join import CAUGHT_UP
from kraftlog.simulate.join_rows import BANDWIDTH, in_words, joined
from kraftlog.source.collected import collected
from kraftlog.source.task_settings import redactor_of


def _of_join(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "follower", help="a replica, the id of a voter without a copy (an empty disk), or: new"
    )
    add_input(parser)
    parser.add_argument(
        "--from",
        dest="leader",
        metavar="LEADER",
        help="the replica that leads; by default the voter that would be elected",
    )
    add_link(parser)
    parser.add_argument(
        "--fetch-bytes",
        type=partial(number_from, 1),
        metavar="BYTES",
        help="most bytes that one fetch of the log brings: controller.quorum.fetch.max.bytes",
    )
    add_dialect(parser)


@command(
    "plan join",
    "how a follower gets from its disk to the leader's end, step by step",
    "How a follower gets from its disk to the leader's end: each request with position, size and time, its disk after it, and what becomes of it if it stops there.",
    arguments=_of_join,
    examples="""
    kraftlog plan join 2 --input replicas/
    kraftlog plan join new --input replicas/ --bandwidth 1000000 --latency 20
    """,
)
def _join(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    quorum = collected(options.input, options)
    (link,) = links_of(chosen.bandwidth or BANDWIDTH, chosen.round_trip_ms)
    timeouts = (chosen.fetch_timeout_ms, chosen.request_timeout_ms)
    given = (chosen.chunk, chosen.fetch_bytes, *timeouts)
    dialect = Dialect(chosen.dialect)
    leader, settings, rows = joined(quorum, chosen.follower, chosen.leader, link, given, dialect)
    shown = rows if chosen.format == "json" else [in_words(row) for row in rows]
    tell(_arrival(chosen.follower, leader, rows))
    tell(_by(settings))
    return print_with_faults(shown, quorum, chosen.format)


def _arrival(follower: str, leader: str, rows: list[Row]) -> str:
    """The answer in one sentence."""
    last = rows[-1]
    if last["what"] != CAUGHT_UP:
        return f"{follower} never gets to the end of the log of {leader}: see the last step"
    size = sum(row["size_bytes"] or 0 for row in rows)
    seconds = last["at_ms"] / 1000
    return f"{follower} is at the end of the log of {leader}, offset {last['log_end_offset']}, after {counted(last['request'], 'request')}, {size:,} bytes and {seconds:,.1f} s"


def _by(settings: FetchSettings) -> str:
    """Which settings the way is reckoned with, and where they stand."""
    chunk, fetch = settings.chunk, settings.fetch
    timeout, request = settings.timeout, settings.request_timeout
    sizes = f"{FETCHED_SNAPSHOT_BYTES} is {chunk.value} ({chunk.source}), {FETCHED_BYTES} {fetch.value} ({fetch.source})"
    return f"{sizes}, {FETCH_TIMEOUT} {timeout.value} ({timeout.source}), {REQUEST_TIMEOUT} {request.value} ({request.source})"


def _of_failover(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--leader",
        metavar="REPLICA",
        help="the leader that dies; by default the voter that would be elected",
    )
    parser.add_argument(
        "--round-trip-ms",
        "--latency",
        type=partial(number_from, 0),
        default=1,
        metavar="MS",
        help="round trip between voters, for what each rule costs a day",
    )


@command(
    "plan failover",
    "what is kept and lost when the leader dies now, and then its successor too",
    "What is kept when the leader dies now, and what is lost if the next leader dies before its follower has fetched again. "
    "Three rules of truncation are compared: to the high watermark, the same with acknowledgements that are held for a round trip, and by leader epochs. "
    "KRaft follows the last one.",
    arguments=_of_failover,
    examples="kraftlog plan failover --input replicas/",
)
def _failover(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    quorum = collected(options.input, options)
    records = FileRecords(redactor_of(options), quorum.evidence.limits)
    found = failover(quorum, chosen.leader)
    rows = list(failover_rows(found, chosen.round_trip_ms))
    own = [row for row in rows if row["rule"] == str(TruncationRule.LEADER_EPOCH)]
    lost = at_risk(own)
    end = own[0]["acknowledged_end_offset"] if own else quorum.bounds.lower
    summary = _summary(found, own, end, lost)
    tell(summary + _later(quorum, end) + at_risk_words(quorum, end, lost, records))
    return print_with_faults(rows, quorum, chosen.format)


def at_risk(own: Sequence[Row]) -> int:
    """How many offsets may be lost: the next leader, who can be elected or may be, lacks them, or its
    follower does when it dies too.
    """
    able = [row for row in own if row["can_lead"] is not False]
    lacking = [
        row["acknowledged_end_offset"] - row["leader_lacks_from_offset"]
        for row in able
        if row["leader_lacks_from_offset"] is not None
    ]
    return max([*lacking, *(row["lost_if_leader_dies_too"] for row in able)], default=0)


def at_risk_words(quorum: Quorum, end: int, lost: int, records: Records) -> str:
    """A sentence with the objects that are at risk below an offset, where any are."""
    holder = committed_holder(quorum, end - lost) if lost else None
    if holder is None:
        return ""
    cut = holder.label, end - lost
    return f". {lost_words(loss_rows(losses_of(quorum, records, [cut])[cut]))}"


def _later(quorum: Quorum, end: int) -> str:
    """What the leader has committed since the disks were copied, by a pulled log or a describe."""
    if end >= quorum.bounds.lower:
        return ""
    where = "written after the copies were made"
    if described_alone_from(quorum) is not None:
        where = "held by no copy at hand"
    return f". {sentence(offsets_are(end, quorum.bounds.lower))} committed too, but {where}: copy again to know of them"


def _summary(found: Failover, own: list[Row], end: int, lost: int) -> str:
    """The answer in one sentence: what KRaft's own rule keeps."""
    quorum, left = found.plans.quorum, found.left
    if not left and len(quorum.voters) - 1 >= quorum.bounds.majority:
        return "without the leader no copy of a voter is left (a disk that the voter set does not name is none): nothing tells who could take over"
    if all(one.can_win is False for one in left):
        return "no voter at hand can take over: the quorum stands still until the leader is back"
    if not own:
        lacks = [
            f". {sentence(replicas_text([one.candidate]))} lacks what is committed from offset {at} on"
            for one in left
            if (at := one.lacks_committed_from_offset) is not None
        ]
        return f"{_who_can(found)}{''.join(lacks)}. What its followers keep, no other copy tells"
    if lost:
        risk = f"{counted(lost, 'offset')} {'is' if lost == 1 else 'are'} at risk"
        return f"of what the copies prove committed (below offset {end}), {risk}"
    return f"{_who_can(found)}. All that the copies prove committed (below offset {end}) is kept, even if the next leader dies at once{_stands_still(quorum)}"


def _stands_still(quorum: Quorum) -> str:
    """What two deaths do to a quorum in which the others are no majority."""
    if len(quorum.voters) - 2 >= quorum.bounds.majority:
        return ""
    return ". The quorum then stands still until one of the two is back with its disk"


def _who_can(found: Failover) -> str:
    """Who takes over for certain, and who needs the votes of voters that have no readable copy."""
    quorum = found.plans.quorum
    sure, open_ = (
        sorted(one.candidate for one in found.left if one.can_win is told) for told in (True, None)
    )
    logs = [found.dead, *(quorum.by_label[one.candidate] for one in found.left)]
    known = {log.evidence.node_id for log in logs}
    silent = [one for one in quorum.voters if one not in known]
    verb = "votes" if len(silent) == 1 else "vote"
    copy = "copy" if quorum.bounds.missing_voters == tuple(silent) else "readable copy"
    votes = f"if {voters_text(silent)}, of which no {copy} is at hand, {verb} for it"
    words = [f"{replicas_text(sure)} can take over"] if sure else []
    words += [f"{replicas_text(open_)} may take over, {votes}"] if open_ else []
    return "; ".join(words)
