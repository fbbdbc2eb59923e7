"""Which sequences of batches a quorum's states are told along: one that the replicas share, and one
for each that contradicts it.

In: a quorum. Out: `Lineage`s, and for each the spans in which the state is known. `main` is the
history that the replicas hold together; a replica that carries an uncommitted tail or altered
batches has a lineage of its own, named by its label, which begins where it departs from `main`; one
of another cluster has its own from its beginning on.
Source: KIP-630 "Overview", KAFKA-1211.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from kraftlog.log import names
from kraftlog.quorum.chain import Chain, whole_log
from kraftlog.quorum.evidence import id_texts
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView

MAIN = names.MAIN

LINKS = pa.schema(
    [("batch_id", pa.string()), ("base_offset", pa.int64()), ("end_offset", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Lineage:
    """A sequence of batches: `links` has a row of LINKS per batch, in offset order, and may have
    holes.

    Below `fork_offset` it is the shared lineage, and so is its state there; 0 for the shared one
    itself, and for a replica that shares no beginning with it.
    """

    name: str
    fork_offset: int
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
    is_last: bool
    links: pa.Table


def lineages(quorum: Quorum) -> list[Lineage]:
    """The shared lineage first, then those of replicas that contradict it, or are of another
    cluster: these share nothing with it.
    """
    shared = _links(quorum.chain)
    snapshots = tuple(quorum.credible_snapshots)
    found = [Lineage(MAIN, 0, shared, snapshots)]
    for log in quorum.logs:
        own = whole_log(log)
        if log.label in quorum.foreign:
            found.append(Lineage(log.label, 0, _links(own), Held.by(quorum, log).snapshots))
            continue
        departs = _departs(own, quorum.chain)
        if departs < len(own):
            found.append(_forked(log.label, shared, _links(own), departs, snapshots))
    return found


def _departs(own: Chain, shared: Chain) -> int:
    """The first batch of a log that the shared ones lack; how many it has, where they lack none."""
    if len(shared) == 0:
        return 0
    at = np.minimum(np.searchsorted(shared.base, own.base), len(shared) - 1)
    differs = (shared.ids[at] != own.ids).any(axis=1)
    return int(np.argmax(differs)) if differs.any() else len(own)


def _forked(
    label: str,
    shared: pa.Table,
    own: pa.Table,
    departs: int,
    snapshots: tuple[SnapshotView, ...],
) -> Lineage:
    """A replica's own lineage: the shared batches to where it departs from them, then its own."""
    fork = own.column("base_offset")[departs].as_py()
    held = tuple(one for one in snapshots if one.replica == label)
    ends = shared.column("end_offset").to_numpy()
    before = int(np.searchsorted(ends, fork, "right"))
    if before == 0 or ends[before - 1] != fork:
        return Lineage(label, 0, own, held)  # nothing shared leads up to it
    links = pa.concat_tables([shared.slice(0, before), own.slice(departs)])
    shared_bases = tuple(one for one in snapshots if one.end_offset <= fork and one not in held)
    return Lineage(label, fork, links, (*held, *shared_bases))


def lineage_of(quorum: Quorum, found: list[Lineage]) -> dict[str, str]:
    """Which lineage tells each replica's state."""
    own = {one.name for one in found if one.name != MAIN}
    return {log.label: log.label if log.label in own else MAIN for log in quorum.logs}


def _links(batches: Chain) -> pa.Table:
    return pa.table([id_texts(batches.ids), batches.base, batches.end], schema=LINKS)


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
        found.append(Stretch(newest, at, at, False, lineage.links.slice(0, 0)))
    return [*found[:-1], *(replace(one, is_last=True) for one in found[-1:])]


def _stretch(lineage: Lineage, first: int, after: int) -> Stretch | None:
    links = lineage.links.slice(first, after - first)
    begin = links.column("base_offset")[0].as_py()
    end = links.column("end_offset")[-1].as_py()
    if begin == 0:
        return Stretch(None, 0, end, False, links)
    bases = [one for one in lineage.snapshots if begin <= one.end_offset <= end]
    base = min(bases, key=lambda one: one.end_offset, default=None)
    if base is None:
        return None  # what these records change is not known
    return Stretch(base, base.end_offset, end, False, links)
