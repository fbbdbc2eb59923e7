"""What plans share on the command line: whose rules they follow, how a link is, and the rows of
what could not be read.

In: a parser, what it has parsed, or a quorum. Out: options, links, rows with `fault`. No Spark.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kraftlog.commands.values import at_least
from kraftlog.decode.listing import fault_row
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.quorum.evidence import BatchColumns, ReplicaEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row
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
    """How the link is: `--latency` and `--timeout` are short for `--round-trip-ms` and
    `--fetch-timeout-ms`.
    """
    positive: Any = partial(at_least, 1)
    parser.add_argument(
        "--bandwidth", type=positive, metavar="BYTES_PER_S", help="bandwidth of the link"
    )
    parser.add_argument(
        "--round-trip-ms",
        "--latency",
        type=partial(at_least, 0),
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


def links_of(bandwidth: int | None, round_trip_ms: int | None) -> tuple[Link, ...]:
    """The link that was named, or else the example links, with a round trip where one was named."""
    if bandwidth is not None:
        return (Link(bandwidth, _ROUND_TRIP_MS if round_trip_ms is None else round_trip_ms),)
    if round_trip_ms is not None:
        return tuple(replace(link, round_trip_ms=round_trip_ms) for link in EXAMPLE_LINKS)
    return EXAMPLE_LINKS


def fault_rows(quorum: Quorum) -> Iterator[Row]:
    """One row per file, or range of a file, that could not be read."""
    for replica in quorum.replicas:
        told = set()
        for path, fault in _faults(replica):
            told.add(path)
            yield fault_row(path, fault)
        for one in replica.problems:
            if one.path not in told:
                kind = FaultKind.VANISHED if one.vanished else FaultKind.UNREADABLE
                yield fault_row(one.path, Fault(kind, 0, 0, one.text))


def _faults(replica: ReplicaEvidence) -> Iterator[tuple[str, Fault]]:
    files = [
        (one.path, one.faults, replica.log, range(one.first_row, one.end_row))
        for one in replica.segments
    ]
    files += [
        (one.path, one.faults, one.batches, range(len(one.batches))) for one in replica.snapshots
    ]
    for path, faults, columns, rows in files:
        bad = (np.flatnonzero(~columns.crc_valid[rows.start : rows.stop]) + rows.start).tolist()
        found = [*faults, *(_bad_crc(columns, row) for row in bad)]
        yield from ((path, fault) for fault in sorted(found, key=lambda one: one.position))


def _bad_crc(columns: BatchColumns, row: int) -> Fault:
    return Fault(
        FaultKind.BATCH_CRC,
        int(columns.positions[row]),
        int(columns.sizes[row]),
        "the CRC-32C is not that of the bytes",
        offset=int(columns.base_offsets[row]),
        batch_leader_epoch=int(columns.epochs[row]),
    )
