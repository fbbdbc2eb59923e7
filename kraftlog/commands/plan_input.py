"""What plans share on the command line: whose rules they follow, and how a link is.

In: a parser, or what it has parsed. Out: options, links. No Spark.
"""

import argparse
from dataclasses import replace
from functools import partial
from typing import Any

from kraftlog.commands.values import number_from
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.liveness import EXAMPLE_LINKS, Link

_ROUND_TRIP_MS = 100
"""Of a link whose bandwidth alone was given: far away, as slow links are."""


def add_dialect(parser: argparse.ArgumentParser) -> None:
    """Whose rules are followed."""
    parser.add_argument(
        "--dialect",
        choices=[str(one) for one in Dialect],
        default=str(Dialect.SHIPPED),
        help="whose rules: KIP-630 in version 19, KIP-630 as adopted, or those of Kafka itself (default)",
    )


def add_link(parser: argparse.ArgumentParser) -> None:
    """`--latency` and `--timeout` are short for `--round-trip-ms` and `--fetch-timeout-ms`."""
    positive: Any = partial(number_from, 1)
    parser.add_argument(
        "--bandwidth", type=positive, metavar="BYTES_PER_S", help="bandwidth of the link"
    )
    parser.add_argument(
        "--round-trip-ms",
        "--latency",
        type=partial(number_from, 0),
        metavar="MS",
        help="round trip of the link, there and back",
    )
    parser.add_argument(
        "--chunk",
        type=positive,
        metavar="BYTES",
        help="most bytes that one request for a snapshot brings: controller.quorum.fetch.snapshot.max.bytes",
    )
    parser.add_argument(
        "--fetch-timeout-ms",
        "--timeout",
        type=positive,
        metavar="MS",
        help="fetch timeout of the follower: controller.quorum.fetch.timeout.ms",
    )
    parser.add_argument(
        "--request-timeout-ms",
        type=positive,
        metavar="MS",
        help="how long it waits for the answer to one request: controller.quorum.request.timeout.ms",
    )


def links_of(bandwidth: int | None, round_trip_ms: int | None) -> tuple[Link, ...]:
    """The link that was named, or else the example links, with a round trip where one was named."""
    if bandwidth is not None:
        return (Link(bandwidth, _ROUND_TRIP_MS if round_trip_ms is None else round_trip_ms),)
    if round_trip_ms is not None:
        return tuple(replace(link, round_trip_ms=round_trip_ms) for link in EXAMPLE_LINKS)
    return EXAMPLE_LINKS
