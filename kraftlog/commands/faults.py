"""What could not be read of a quorum's files, which no command is silent about.

In: a quorum. Out: rows with `fault`, or notes on stderr. No Spark.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice

import numpy as np

from kraftlog.log.fault import Fault, FaultKind
from kraftlog.plain import counted, tell
from kraftlog.quorum.evidence import BatchColumns, ReplicaEvidence
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row
from kraftlog.report.printed_rows import print_rows

_TOLD_FILES = 8
"""So many files are told on stderr; the rest is counted."""
_WHOLE = (FaultKind.UNREADABLE, FaultKind.VANISHED)


def fault_rows(quorum: Quorum) -> Iterator[Row]:
    """One row per file, or range of a file, that could not be read."""
    for replica in quorum.replicas:
        told = set()
        for path, fault in _faults(replica):
            told.add(path)
            yield fault.row(path)
        for one in (*replica.problems, *replica.unread):
            if one.path not in told:
                kind = FaultKind.VANISHED if one.vanished else FaultKind.UNREADABLE
                yield Fault(kind, 0, 0, one.text).row(one.path)
    for one in quorum.evidence.left_out:
        yield Fault(FaultKind.UNREADABLE, 0, 0, one.text).row(one.path)


def print_with_faults(rows: Iterable[Row], quorum: Quorum, form: str) -> int:
    """Print the rows of an answer, and behind them what could not be read; the exit code."""
    print_rows((*rows, *fault_rows(quorum)), form)
    return 0


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


def tell_faults(rows: Iterable[Row]) -> bool:
    """Tell the faults file by file, where rows have no place for them; whether there are any."""
    files = [list(found) for _, found in groupby(rows, key=lambda row: row["path"])]
    for found in islice(files, _TOLD_FILES):
        tell(_words(found[0], len(found) - 1))
    if len(files) > _TOLD_FILES:
        tell(f"so it is with {counted(len(files) - _TOLD_FILES, 'more file')}")
    return bool(files)


def _words(first: Row, more: int) -> str:
    also = f", and in {counted(more, 'more place')}" if more else ""
    if first["fault"] in _WHOLE and first["position"] == 0:
        return f"{first['path']} could not be read ({first['detail']}): nothing is known of what it holds"
    return f"{first['path']} cannot be read at byte {first['position']:,} ({first['detail']}){also}"
