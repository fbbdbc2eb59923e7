"""`plan failover`: what is kept and what is lost when the leader dies now, by old and new rules.

In: parsed arguments. Out: rows on stdout. No Spark.
"""

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

from kraftlog.audit.loss_words import loss_rows, lost_words
from kraftlog.audit.losses import losses_of
from kraftlog.audit.triage import replicas_text
from kraftlog.commands.command import add_input, command, options_of
from kraftlog.commands.plan_input import fault_rows
from kraftlog.commands.values import at_least
from kraftlog.plain import counted, numbers, offsets_are, sentence, tell
from kraftlog.quorum.candidates import committed_holder
from kraftlog.quorum.copies import untimed_from
from kraftlog.quorum.history import FileRecords, Records
from kraftlog.quorum.model import Quorum
from kraftlog.report.rows import print_rows
from kraftlog.simulate.failover import TruncationRule
from kraftlog.simulate.failover_rows import failover_rows
from kraftlog.source.collected import collected
from kraftlog.source.settings import redactor_of

_ROUND_TRIP_MS = 1


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--leader",
        metavar="REPLICA",
        help="the leader that dies; by default the voter that would be elected",
    )
    parser.add_argument(
        "--round-trip-ms",
        "--latency",
        type=partial(at_least, 0),
        default=_ROUND_TRIP_MS,
        metavar="MS",
        help="round trip between voters, for what each rule costs a day",
    )


@command(
    "plan failover",
    "what is kept and lost when the leader dies now, and then its successor too",
    "What is kept when the leader dies now, and what is lost if the next leader dies before its follower has fetched again. "
    "Three rules of truncation are compared: to the high watermark, the same with acknowledgements that are held for a round trip, and by leader epochs. "
    "KRaft follows the last one.",
    arguments=_arguments,
    examples="kraftlog plan failover --input replicas/",
)
def _run(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    quorum = collected(options.input, options)
    records = FileRecords(redactor_of(options), quorum.evidence.limits)
    rows = list(failover_rows(quorum, chosen.leader, chosen.round_trip_ms))
    tell(_summary(quorum, rows) + _later(quorum, rows) + at_risk_words(quorum, rows, records))
    print_rows((*rows, *fault_rows(quorum)), chosen.format)
    return 0


def _at_risk(rows: list[dict[str, Any]]) -> int:
    """How many offsets KRaft's own rule may lose: the next leader lacks them, or its follower does
    when it dies too.
    """
    own = [row for row in rows if row["rule"] == str(TruncationRule.LEADER_EPOCH)]
    able = [row for row in own if row["can_lead"] is not False]
    lacking = [
        row["acknowledged_end_offset"] - row["leader_lacks_from_offset"]
        for row in able
        if row["leader_lacks_from_offset"] is not None
    ]
    return max([*lacking, *(row["lost_if_leader_dies_too"] for row in able)], default=0)


def at_risk_words(quorum: Quorum, rows: list[dict[str, Any]], records: Records) -> str:
    """A sentence with the objects that are at risk, where any are."""
    start = rows[0]["acknowledged_end_offset"] - _at_risk(rows) if rows else 0
    holder = committed_holder(quorum, start) if _at_risk(rows) else None
    if holder is None:
        return ""
    cut = holder.label, start
    return f". {lost_words(loss_rows(losses_of(quorum, records, [cut])[cut]))}"


def _later(quorum: Quorum, rows: list[dict[str, Any]]) -> str:
    """What the leader has committed since the disks were copied, by a pulled log or a describe."""
    end = max((row["acknowledged_end_offset"] for row in rows), default=quorum.bounds.lower)
    if end >= quorum.bounds.lower:
        return ""
    where = "written after the copies were made"
    if untimed_from(quorum) is not None:
        where = "held by no copy at hand"
    return f". {sentence(offsets_are(end, quorum.bounds.lower))} committed too, but {where}: copy again to know of them"


def _summary(quorum: Quorum, rows: list[dict[str, Any]]) -> str:
    """The answer in one sentence: what KRaft's own rule keeps."""
    own = [row for row in rows if row["rule"] == str(TruncationRule.LEADER_EPOCH)]
    if not own:
        return "without the leader, copies of fewer than two voters are left (a disk that the voter set does not name is none): nothing tells who could take over"
    able = sorted({row["leader"] for row in own if row["can_lead"] is not False})
    if not able:
        return "no voter at hand can take over: the quorum stands still until the leader is back"
    lost, end = _at_risk(rows), own[0]["acknowledged_end_offset"]
    if lost:
        at_risk = f"{counted(lost, 'offset')} {'is' if lost == 1 else 'are'} at risk"
        return f"of what the copies prove committed (below offset {end}), {at_risk}"
    who = _who_can(quorum, {row["leader"]: row["can_lead"] for row in own})
    return f"{who}. All that the copies prove committed (below offset {end}) is kept, even if the next leader dies at once"


def _who_can(quorum: Quorum, can_lead: Mapping[str, bool | None]) -> str:
    """Who takes over for certain, and who needs the votes of voters that nobody has copied."""
    sure, open_ = (
        sorted(one for one in can_lead if can_lead[one] is told) for told in (True, None)
    )
    missing = quorum.bounds.missing_voters
    noun = "voter" if len(missing) == 1 else "voters"
    votes = f"if {noun} {numbers(missing)}, of which no copy is at hand, vote for it"
    words = [f"{replicas_text(sure)} can take over"] if sure else []
    words += [f"{replicas_text(open_)} may take over, {votes}"] if open_ else []
    return "; ".join(words)
