"""Which sequences of batches a quorum's states are told along: one that the replicas share, and one
for each that contradicts it.

In: a quorum. Out: `Lineage`s, and for each the spans in which the state is known. `main` is the
history that the replicas hold together; a replica that carries an uncommitted tail or altered
batches has a lineage of its own, named by its label, which begins where it departs from `main`; one
of another cluster, or of an older history, has its own from its beginning on.
Source: KIP-630 "Overview", KAFKA-1211.
"""

from dataclasses import dataclass, replace

import numpy as np

from kraftlog.log import names
from kraftlog.quorum.chain import Chain, whole_log
from kraftlog.quorum.holdings import Held
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.retention import kept_snapshots
from kraftlog.quorum.snapshots import SnapshotView

MAIN = names.MAIN


@dataclass(frozen=True, slots=True)
class Lineage:
    """A sequence of batches, which may have holes. Below `fork_offset` it is the shared lineage, and
    so is its state there; 0 for the shared one itself, and for a replica that shares no beginning
    with it.
    """

    name: str
    fork_offset: int
    links: Chain
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
    links: Chain


def lineages(quorum: Quorum) -> list[Lineage]:
    """The shared lineage first, then those of replicas that contradict it, that begin where it steps
    back to their older epoch, or are of another cluster: these share nothing with it.
    """
    shared, snapshots = quorum.chain, tuple(quorum.credible_snapshots)
    found = [Lineage(MAIN, 0, shared, snapshots)]
    steps_back = {
        int(shared.base[first])
        for first, _ in shared.unbroken()[1:]
        if shared.epoch(first) < shared.epoch(first - 1)
    }
    for log in quorum.logs:
        own = whole_log(log)
        if not steps_back.isdisjoint(own.base[:1].tolist()):
            found.append(Lineage(log.label, 0, own, tuple(kept_snapshots(quorum, log.label))))
            continue
        if log.label in quorum.foreign:
            found.append(Lineage(log.label, 0, own, Held.by(quorum, log).snapshots))
            continue
        departs = _departs(own, shared)
        if departs < len(own):
            found.append(_forked(quorum, log.label, own, departs))
    return found


def _departs(own: Chain, shared: Chain) -> int:
    """The first batch of a log that the shared ones lack; how many it has, where they lack none."""
    if len(shared) == 0:
        return 0
    at = np.minimum(np.searchsorted(shared.base, own.base), len(shared) - 1)
    differs = (shared.ids[at] != own.ids).any(axis=1)
    return int(np.argmax(differs)) if differs.any() else len(own)


def _forked(quorum: Quorum, label: str, own: Chain, departs: int) -> Lineage:
    """A replica's own lineage: the shared batches to where it departs from them, then its own."""
    shared, fork = quorum.chain, int(own.base[departs])
    before = int(np.searchsorted(shared.end, fork, "right"))
    leads = before > 0 and shared.end[before - 1] == fork
    if not leads or (departs == 0 and shared.epoch(before - 1) > own.epoch(0)):
        # Nothing shared leads up to it, and the shared logs do not tell which snapshots do.
        return Lineage(label, 0, own, tuple(kept_snapshots(quorum, label)))
    snapshots = quorum.credible_snapshots
    held = tuple(one for one in snapshots if one.replica == label)
    links = shared.part(slice(before)).followed_by(own.part(slice(departs, None)))
    shared_bases = tuple(one for one in snapshots if one.end_offset <= fork and one not in held)
    return Lineage(label, fork, links, (*held, *shared_bases))


def lineage_of(quorum: Quorum, found: list[Lineage]) -> dict[str, str]:
    """Which lineage tells each replica's state."""
    own = {one.name for one in found if one.name != MAIN}
    return {log.label: log.label if log.label in own else MAIN for log in quorum.logs}


def stretches(lineage: Lineage) -> list[Stretch]:
    """Where the states of a lineage can be told. A hole ends a stretch, and so does a step back to an
    older epoch; a snapshot after it begins the next.
    """
    links = lineage.links
    found = [one for span in links.unbroken() if (one := _stretch(lineage, *span)) is not None]
    newest = max(lineage.snapshots, key=lambda one: one.end_offset, default=None)
    if newest is not None and newest.end_offset > (int(links.end[-1]) if len(links) else 0):
        at = newest.end_offset
        found.append(Stretch(newest, at, at, False, links.part(slice(0))))
    return [*found[:-1], *(replace(one, is_last=True) for one in found[-1:])]


def _stretch(lineage: Lineage, first: int, after: int) -> Stretch | None:
    links = lineage.links.part(slice(first, after))
    begin, end = int(links.base[0]), int(links.end[-1])
    if begin == 0:
        return Stretch(None, 0, end, False, links)
    bases = [one for one in lineage.snapshots if begin <= one.end_offset <= end]
    base = min(bases, key=lambda one: one.end_offset, default=None)
    if base is None:
        return None  # what these records change is not known
    return Stretch(base, base.end_offset, end, False, links)
