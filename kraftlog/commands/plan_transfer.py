"""`plan snapshot`: how the snapshots of a quorum go over slow and fast links (KIP-1219).

In: parsed arguments. Out: rows on stdout. No Spark.
"""

import argparse
from dataclasses import replace
from functools import partial
from typing import Any

from kraftlog.commands.plan_input import add_input, fault_rows, options_of, read_quorum
from kraftlog.plain import tell
from kraftlog.report.rows import print_rows
from kraftlog.simulate.liveness import EXAMPLE_LINKS, FETCH_TIMEOUT_MS, Link
from kraftlog.simulate.transfer_rows import CHUNKS, snapshot_transfer_rows

_ROUND_TRIP_MS = 100
"""Of a link whose bandwidth alone was given: far away, as slow links are."""


def add_plan(plans: "argparse._SubParsersAction[Any]") -> None:
    """Add `plan snapshot`."""
    text = "how long each replica's latest snapshot takes over a link, and whether it ever arrives"
    parser = plans.add_parser("snapshot", help=text, description=f"{text.capitalize()}.")
    add_input(parser)
    positive = partial(_at_least, 1)
    parser.add_argument("--bandwidth", type=positive, metavar="BYTES_PER_S", help="of the link")
    parser.add_argument("--round-trip-ms", type=partial(_at_least, 0), metavar="N", help="of it")
    parser.add_argument(
        "--chunk", type=positive, metavar="BYTES", help="most that one request fetches"
    )
    parser.add_argument(
        "--fetch-timeout-ms",
        type=positive,
        default=FETCH_TIMEOUT_MS,
        metavar="N",
        help="controller.quorum.fetch.timeout.ms",
    )
    parser.set_defaults(command=_run)


def _run(chosen: argparse.Namespace) -> int:
    links = links_of(chosen.bandwidth, chosen.round_trip_ms)
    chunks = CHUNKS if chosen.chunk is None else (chosen.chunk,)
    quorum = read_quorum(options_of(chosen))
    rows = list(snapshot_transfer_rows(quorum, links, chunks, chosen.fetch_timeout_ms))
    if not rows:
        tell("no replica holds a complete snapshot to be fetched")
    print_rows((*rows, *fault_rows(quorum)), chosen.format)
    return 0


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of {least} or more")
    return int(text)


def links_of(bandwidth: int | None, round_trip_ms: int | None) -> tuple[Link, ...]:
    """The link that was named, or else the example links, with a round trip where one was named."""
    if bandwidth is not None:
        return (Link(bandwidth, _ROUND_TRIP_MS if round_trip_ms is None else round_trip_ms),)
    if round_trip_ms is not None:
        return tuple(replace(link, round_trip_ms=round_trip_ms) for link in EXAMPLE_LINKS)
    return EXAMPLE_LINKS
