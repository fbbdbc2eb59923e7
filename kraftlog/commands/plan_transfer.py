"""`plan snapshot`: how the snapshots of a quorum go over slow and fast links (KIP-1219).

In: parsed arguments. Out: rows on stdout. No Spark.
"""

import argparse

from kraftlog.commands.command import add_input, command
from kraftlog.commands.link import add_link, links_of
from kraftlog.commands.plan_input import fault_rows, options_of, read_quorum
from kraftlog.plain import tell
from kraftlog.report.rows import print_rows
from kraftlog.simulate.transfer_rows import snapshot_transfer_rows


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_link(parser)


@command(
    "plan snapshot",
    "how long each replica's latest snapshot takes over a link, and whether it ever arrives",
    arguments=_arguments,
    examples="kraftlog plan snapshot --input replicas/ --bandwidth 1000000",
)
def _run(chosen: argparse.Namespace) -> int:
    links = links_of(chosen.bandwidth, chosen.round_trip_ms)
    chunks = None if chosen.chunk is None else (chosen.chunk,)
    quorum = read_quorum(options_of(chosen))
    rows = list(snapshot_transfer_rows(quorum, links, chunks, chosen.fetch_timeout_ms))
    if not rows:
        tell("no replica holds a complete snapshot to be fetched")
    print_rows((*rows, *fault_rows(quorum)), chosen.format)
    return 0
