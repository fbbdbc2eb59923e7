"""Whether a replica generated a snapshot itself or fetched it from a peer.

In: a quorum and one checkpoint. Out: `generated`, `fetched` or `unknown`. Each node stamps the
batches of a snapshot when it writes them, so that two nodes' own snapshots of one state differ in
their bytes: equal bytes were fetched by one of the two, the one whose file is younger. Source:
KIP-630 "Overview" and "Interaction between Kafka Raft and the state machine".
"""

from kraftlog.quorum.model import Quorum
from kraftlog.quorum.snapshots import SnapshotView

GENERATED, FETCHED, UNKNOWN = "generated", "fetched", "unknown"


def twins_of(quorum: Quorum, one: SnapshotView) -> list[SnapshotView]:
    """The other replicas' snapshots with the same bytes: of one file, who fetched it from whom."""
    return [
        two
        for two in quorum.snapshots_by_id.get(one.id, ())
        if two.replica != one.replica and _same_bytes(one, two)
    ]


def origin_of(quorum: Quorum, one: SnapshotView) -> str:
    """Where a snapshot came from; unknown where it is damaged.

    A node that fetches a snapshot throws its log away and goes on at the snapshot's end, and one
    that holds the records before it needed none: so the logs tell, whatever times a copy has kept.
    Where they do not, the oldest of equal files was generated.
    """
    if not one.is_complete:
        return UNKNOWN
    twins = twins_of(quorum, one)
    if not twins:
        return GENERATED
    begin_there = {_begins_there(quorum, two) for two in twins}
    if len({_begins_there(quorum, one), *begin_there}) > 1:
        if _begins_there(quorum, one):
            return FETCHED
        if begin_there == {True}:
            return GENERATED
    times = [two.evidence.modified_ms for two in twins]
    if one.evidence.modified_ms < min(times):
        return GENERATED
    return FETCHED if one.evidence.modified_ms > min(times) else UNKNOWN


def _begins_there(quorum: Quorum, one: SnapshotView) -> bool:
    """Whether the replica's log begins at the snapshot's end."""
    return one.end_offset > 0 and quorum.by_label[one.replica].start_offset == one.end_offset


def _same_bytes(one: SnapshotView, two: SnapshotView) -> bool:
    mine, theirs = one.evidence, two.evidence
    if mine.size_bytes != theirs.size_bytes or len(mine.batches) != len(theirs.batches):
        return False
    return bool((mine.batches.ids == theirs.batches.ids).all())
