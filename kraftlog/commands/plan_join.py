"""`plan join`: the whole way of a follower to its leader's end, over a link of the reader's.

In: parsed arguments. Out: one row per step. No Spark.
"""

import argparse
from functools import partial
from typing import Any, NamedTuple

from kraftlog.commands.command import add_input, command, options_of
from kraftlog.commands.link import add_link, links_of
from kraftlog.commands.plan_input import add_dialect, fault_rows
from kraftlog.commands.values import at_least
from kraftlog.errors import InputError
from kraftlog.plain import counted, tell
from kraftlog.quorum.joining import (
    FetchSettings,
    fetch_settings,
)
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.settings import FETCH_TIMEOUT, FETCHED_BYTES, FETCHED_SNAPSHOT_BYTES
from kraftlog.report.rows import print_rows
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.join import CAUGHT_UP, Way
from kraftlog.simulate.join_rows import in_words, join_rows, named
from kraftlog.simulate.liveness import Link
from kraftlog.simulate.rows import likely_leaders
from kraftlog.source.collected import collected

BANDWIDTH = 12_500_000
"""Of a link that was not named: 100 Mbit/s."""


class Joined(NamedTuple):
    """A way, by whose settings it is reckoned, and who leads."""

    leader: str
    settings: FetchSettings
    rows: list[dict[str, Any]]


def _arguments(parser: argparse.ArgumentParser) -> None:
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
        type=partial(at_least, 1),
        metavar="BYTES",
        help="most bytes that one fetch of the log brings: controller.quorum.fetch.max.bytes",
    )
    add_dialect(parser)


@command(
    "plan join",
    "how a follower gets from its disk to the leader's end, step by step",
    "How a follower gets from its disk to the leader's end: each request with position, size and time, its disk after it, and what becomes of it if it stops there.",
    arguments=_arguments,
    examples="""
    kraftlog plan join 2 --input replicas/
    kraftlog plan join new --input replicas/ --bandwidth 1000000 --latency 20
    """,
)
def _run(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    quorum = collected(options.input, options)
    (link,) = links_of(chosen.bandwidth or BANDWIDTH, chosen.round_trip_ms)
    given = (chosen.chunk, chosen.fetch_bytes, chosen.fetch_timeout_ms)
    dialect = Dialect(chosen.dialect)
    leader, settings, rows = joined(quorum, chosen.follower, chosen.leader, link, given, dialect)
    shown = rows if chosen.format == "json" else [in_words(row) for row in rows]
    tell(_summary(chosen.follower, leader, rows))
    tell(_by(settings))
    print_rows((*shown, *fault_rows(quorum)), chosen.format)
    return 0


def joined(
    quorum: Quorum,
    follower: str,
    leader: str | None,
    link: Link,
    given: tuple[int | None, int | None, int | None],
    dialect: Dialect,
) -> Joined:
    """The way of a follower; `given` are bytes of a snapshot, bytes of the log, and the timeout,
    where they are not to be those of the follower's own settings.

    Raises InputError where the two cannot be leader and follower, or nobody leads.
    """
    log = named(quorum, follower)
    settings = fetch_settings(log.evidence if log else None, *given)
    values = (settings.chunk.value, settings.fetch.value, settings.timeout.value)
    likely = likely_leaders(quorum) - {log.label if log else follower}
    if leader is None and not likely:
        raise InputError(f"{follower} is itself the likely leader: name another with --from")
    leads = leader or min(likely)
    rows = join_rows(quorum, follower, leads, Way(link, *values, dialect))
    return Joined(leads, settings, list(rows))


def _summary(follower: str, leader: str, rows: list[dict[str, Any]]) -> str:
    """The answer in one sentence."""
    last = rows[-1]
    if last["what"] != CAUGHT_UP:
        return f"{follower} never gets to the end of the log of {leader}: see the last step"
    size = sum(row["size_bytes"] or 0 for row in rows)
    seconds = last["at_ms"] / 1000
    return f"{follower} is at the end of the log of {leader}, offset {last['log_end_offset']}, after {counted(last['request'], 'request')}, {size:,} bytes and {seconds:,.1f} s"


def _by(settings: FetchSettings) -> str:
    """Which settings the way is reckoned with, and where they stand."""
    chunk, fetch, timeout = settings.chunk, settings.fetch, settings.timeout
    return f"{FETCHED_SNAPSHOT_BYTES} is {chunk.value} ({chunk.source}), {FETCHED_BYTES} {fetch.value} ({fetch.source}), {FETCH_TIMEOUT} {timeout.value} ({timeout.source})"
