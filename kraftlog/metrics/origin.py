"""Whether a replica generated a snapshot itself or fetched it from a peer.

In: a quorum and one checkpoint. Out: `generated`, `fetched` or `unknown`. Each node stamps the
batches of a snapshot when it writes them, so that two nodes' own snapshots of one state differ in
their bytes: equal bytes were fetched by one of the two, the one whose file is younger. Source: R27,
R60.
"""

from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView

GENERATED, FETCHED, UNKNOWN = "generated", "fetched", "unknown"


def origin_of(quorum: Quorum, one: SnapshotView) -> str:
    """Where a snapshot came from; unknown where it is damaged, or copied without its times."""
    if not one.is_complete:
        return UNKNOWN
    twins = [
        two
        for two in quorum.snapshots
        if two.replica != one.replica and two.id == one.id and _same_bytes(one, two)
    ]
    times = [two.evidence.modified_ms for two in twins]
    if not times or one.evidence.modified_ms < min(times):
        return GENERATED
    return FETCHED if one.evidence.modified_ms > min(times) else UNKNOWN


def _same_bytes(one: SnapshotView, two: SnapshotView) -> bool:
    mine, theirs = one.evidence, two.evidence
    if mine.size_bytes != theirs.size_bytes or len(mine.batches) != len(theirs.batches):
        return False
    return bool((mine.batches.ids == theirs.batches.ids).all())
