"""What all plans share on the command line: whose rules they follow, and the rows of what could not
be read.

In: a parser, or a quorum. Out: rows with `fault`. No Spark.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from kraftlog.decode.listing import fault_row
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.quorum.evidence import BatchColumns, ReplicaEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.fetch import Dialect

Row = dict[str, Any]


def add_dialect(parser: argparse.ArgumentParser) -> None:
    """Whose rules are followed."""
    parser.add_argument(
        "--dialect",
        choices=[str(one) for one in Dialect],
        default=str(Dialect.SHIPPED),
        help="whose rules: KIP-630 in version 19, KIP-630 as adopted, or those of Kafka itself (default)",
    )


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
        found = [*faults, *(_bad_crc(columns, row) for row in _bad_rows(columns, rows))]
        yield from ((path, fault) for fault in sorted(found, key=lambda one: one.position))


def _bad_rows(columns: BatchColumns, rows: range) -> list[int]:
    bad = np.flatnonzero(~columns.crc_valid[rows.start : rows.stop])
    return [rows.start + row for row in bad.tolist()]


def _bad_crc(columns: BatchColumns, row: int) -> Fault:
    return Fault(
        FaultKind.BATCH_CRC,
        int(columns.positions[row]),
        int(columns.sizes[row]),
        "the CRC-32C is not that of the bytes",
        offset=int(columns.base_offsets[row]),
        batch_leader_epoch=int(columns.epochs[row]),
    )
