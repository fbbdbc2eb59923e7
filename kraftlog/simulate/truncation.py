"""What a follower cuts off its log when another replica leads.

In: two extents. Out: where the follower's log ends once both agree. Pure. Source: KAFKA-1211,
KIP-595; for snapshots KIP-630 in the dialect that is asked for.
"""

from typing import NamedTuple

from kraftlog.quorum.epochs import truncated_to
from kraftlog.simulate.extent import Extent
from kraftlog.simulate.fetch import Dialect, leader_fetch


class Cut(NamedTuple):
    """Where the follower's log is cut, and what is left. `by_snapshot` is (end offset, epoch) of
    the snapshot that the leader then sends instead of records; None where it sends none.
    """

    truncation_offset: int
    extent: Extent
    by_snapshot: tuple[int, int] | None


def truncate(follower: Extent, leader: Extent, dialect: Dialect = Dialect.SHIPPED) -> Cut:
    """The follower when it begins to fetch records, or when it has taken the leader's snapshot: it
    fetches and cuts, until nothing diverges.

    A snapshot replaces the whole log. What lies below its end is held in it, so that only the
    offsets from there on count as cut.
    """
    while True:
        end = follower.end_offset
        answer = leader_fetch(leader, end, follower.last_fetched_epoch, dialect)
        if answer.snapshot is not None:
            after = follower.with_snapshot(answer.snapshot).truncated_to_latest_snapshot()
            snapshot = (answer.snapshot.end_offset, answer.snapshot.epoch)
            return Cut(min(end, snapshot[0]), after, snapshot)
        cut = truncated_to(follower.vector, answer.diverging) if answer.diverging else end
        if cut >= end:
            return Cut(end, follower, None)
        follower = follower.truncated(cut)
