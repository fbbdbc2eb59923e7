"""Which sequences of batches a quorum's states are told along: one that the replicas share, and one
for each that contradicts it.

In: a quorum. Out: `Lineage`s, and for each the spans in which the state is known. `main` is the
history that the replicas hold together; a replica that carries an uncommitted tail or altered
batches has a lineage of its own, named by its label. Source: R25, R119.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kraftlog.audit.lineage import history
from kraftlog.audit.logview import LogView
from kraftlog.audit.quorum import Quorum
from kraftlog.audit.snapshots import SnapshotView

MAIN = "main"

LINKS = pa.schema(
    [("batch_id", pa.string()), ("base_offset", pa.int64()), ("end_offset", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Lineage:
    """A sequence of batches: `links` has a row of LINKS per batch, in offset order, and may have
    holes.
    """

    name: str
    links: pa.Table
    snapshots: tuple[SnapshotView, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets [start, end) that a lineage tells without a hole, from a base snapshot or from offset
    0.

    `is_last`: what holds at its end holds until now; else the state after `end` is not known.
    """

    base: SnapshotView | None
    start_offset: int
    end_offset: int
    end_timestamp: int | None
    is_last: bool
    links: pa.Table


def lineages(quorum: Quorum) -> list[Lineage]:
    """The shared lineage first, then those of replicas that contradict it."""
    shared = _links((one.log, one.row) for one in history(quorum))
    known = set(shared.column("batch_id").to_pylist())
    snapshots = tuple(quorum.credible_snapshots)
    found = [Lineage(MAIN, shared, snapshots)]
    for log in quorum.logs:
        own = _links((log, row) for row in log.rows)
        if not known.issuperset(own.column("batch_id").to_pylist()):
            held = tuple(one for one in snapshots if one.replica == log.label)
            found.append(Lineage(log.label, own, held))
    return found


def lineage_of(quorum: Quorum, found: list[Lineage]) -> dict[str, str]:
    """Which lineage tells each replica's state."""
    own = {one.name for one in found if one.name != MAIN}
    return {log.label: log.label if log.label in own else MAIN for log in quorum.logs}


def _links(rows: Iterator[tuple[LogView, int]]) -> pa.Table:
    ids, base, end = [], [], []
    for log, row in rows:
        columns = log.evidence.log
        ids.append(columns.id_text(row))
        base.append(int(columns.base_offsets[row]))
        end.append(int(columns.last_offsets[row]) + 1)
    return pa.table([ids, base, end], schema=LINKS)


def stretches(lineage: Lineage) -> list[Stretch]:
    """Where the states of a lineage can be told. A hole ends a stretch; a snapshot after it begins
    the next.
    """
    base = lineage.links.column("base_offset").to_numpy()
    end = lineage.links.column("end_offset").to_numpy()
    breaks = np.flatnonzero(base[1:] != end[:-1]) + 1
    bounds = list(zip([0, *breaks], [*breaks, len(base)], strict=True)) if len(base) else []
    found = [
        one
        for first, after in bounds
        if (one := _stretch(lineage, int(first), int(after))) is not None
    ]
    newest = max(lineage.snapshots, key=lambda one: one.end_offset, default=None)
    if newest is not None and newest.end_offset > (int(end[-1]) if len(end) else 0):
        at = newest.end_offset
        found.append(Stretch(newest, at, at, None, True, lineage.links.slice(0, 0)))
    return [
        Stretch(
            one.base,
            one.start_offset,
            one.end_offset,
            one.end_timestamp,
            index == len(found) - 1,
            one.links,
        )
        for index, one in enumerate(found)
    ]


def _stretch(lineage: Lineage, first: int, after: int) -> Stretch | None:
    links = lineage.links.slice(first, after - first)
    begin = links.column("base_offset")[0].as_py()
    end = links.column("end_offset")[-1].as_py()
    if begin == 0:
        return Stretch(None, 0, end, None, False, links)
    bases = [one for one in lineage.snapshots if begin <= one.end_offset <= end]
    base = min(bases, key=lambda one: one.end_offset, default=None)
    if base is None:
        return None  # what these records change is not known
    return Stretch(base, base.end_offset, end, None, False, links)
