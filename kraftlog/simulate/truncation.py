"""What a follower cuts off its log when another replica leads.

In: two extents. Out: where the follower's log ends once both agree. Pure. Source: R105, R111, R112;
KAFKA-1211, KIP-595; for snapshots KIP-630 in the dialect that is asked for.
"""

from typing import NamedTuple

from kraftlog.quorum.epochs import truncated_to
from kraftlog.simulate.extent import Extent
from kraftlog.simulate.fetch import Dialect, leader_fetch


class Cut(NamedTuple):
    """Where the follower's log is cut, and what is left. `needs_snapshot` is True where the leader
    then sends a snapshot instead of records.
    """

    truncation_offset: int
    extent: Extent
    needs_snapshot: bool


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
            return Cut(min(end, answer.snapshot.end_offset), after, True)
        cut = truncated_to(follower.vector, answer.diverging) if answer.diverging else end
        if cut >= end:
            return Cut(end, follower, False)
        follower = follower.truncated(cut)
