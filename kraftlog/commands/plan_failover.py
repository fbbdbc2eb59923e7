"""`plan failover`: what is kept and what is lost when the leader dies now, by old and new rules.

In: parsed arguments. Out: rows on stdout. No Spark.
"""

import argparse
from functools import partial
from typing import Any

from kraftlog.commands.command import add_input, command
from kraftlog.commands.link import at_least
from kraftlog.commands.plan_input import fault_rows, options_of, read_quorum
from kraftlog.plain import tell
from kraftlog.report.rows import print_rows
from kraftlog.simulate.failover import Rule
from kraftlog.simulate.failover_rows import failover_rows

_ROUND_TRIP_MS = 1


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--leader", metavar="REPLICA", help="who dies; by default the voter that would be elected"
    )
    parser.add_argument(
        "--round-trip-ms",
        "--latency",
        type=partial(at_least, 0),
        default=_ROUND_TRIP_MS,
        metavar="MS",
        help="between voters: what each rule costs a day",
    )


@command(
    "plan failover",
    "what is kept and lost when the leader dies now, and its successor after it",
    "What each rule of truncation keeps when the leader dies now, and what is lost if the next "
    "leader dies before its follower has fetched again: to the high watermark, with "
    "acknowledgements that are held for a round trip, and by leader epochs, as KRaft does.",
    arguments=_arguments,
    examples="kraftlog plan failover --input replicas/",
)
def _run(chosen: argparse.Namespace) -> int:
    quorum = read_quorum(options_of(chosen), decodes=True)
    rows = list(failover_rows(quorum, chosen.leader, chosen.round_trip_ms))
    tell(_summary(rows))
    print_rows((*rows, *fault_rows(quorum)), chosen.format)
    return 0


def _summary(rows: list[dict[str, Any]]) -> str:
    """The answer in one sentence: what KRaft's own rule keeps."""
    own = [row for row in rows if row["rule"] == str(Rule.LEADER_EPOCH)]
    if not own:
        return "fewer than two voters' copies are left: nothing can be said of who takes over"
    able = sorted({row["leader"] for row in own if row["can_lead"] is not False})
    if not able:
        return "no voter at hand can take over: the quorum stands still until the leader is back"
    lost = max(row["lost_if_leader_dies_too"] for row in own if row["leader"] in able)
    end = own[0]["acknowledged_end_offset"]
    if lost:
        return (
            f"of what the copies prove committed (below offset {end}), {lost} offsets are at risk"
        )
    return (
        f"{', '.join(able)} can take over, and all that the copies prove committed (below offset "
        f"{end}) is kept, even if the next leader dies at once"
    )
