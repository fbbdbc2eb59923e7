"""What a leader answers to a fetch, in three dialects of KIP-630; what its follower then cuts off
its own log, and in how many pieces the leader's goes over the wire.

In: the leader's extent, a fetch offset and the epoch of the record before it. Out: an `Answer`.
Pure; `fetch_pairs` asks for every ordered pair of a quorum. Source: KIP-630 "Fetch", "Overview",
KIP-630 v19; KIP-595 "Fetch"; KIP-630 "Handling Fetch Request" in version 19 and as adopted;
KAFKA-1211, KIP-1219; Kafka 4.3.1's KafkaRaftClient.tryCompleteFetchRequest and
RaftLog.validateOffsetAndEpoch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from kraftlog.quorum.epochs import EpochEnd, diverging_epoch, truncated_to
from kraftlog.quorum.evidence import Longs
from kraftlog.simulate.extent import BOOTSTRAP, Extent, SnapshotId

RECORDS, DIVERGING, SNAPSHOT = "records", "diverging_epoch", "snapshot"


class Dialect(StrEnum):
    """Which text is followed: two versions of KIP-630, or what Kafka 4.3.1 does."""

    V19 = "v19"
    ADOPTED = "adopted"
    SHIPPED = "shipped"


@dataclass(frozen=True, slots=True)
class Answer:
    """A leader's answer: `kind` is `records`, `diverging_epoch`, `snapshot`, or an error's name.

    `next_fetch` is v19's NextOffsetAndEpoch, which says where to go on in the log: after a
    divergence, and right after the snapshot. The adopted text has it no more.
    """

    kind: str
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    next_fetch: EpochEnd | None = None


def leader_fetch(
    leader: Extent, fetch_offset: int, last_fetched_epoch: int, dialect: Dialect = Dialect.SHIPPED
) -> Answer:
    """Answer a fetch from `fetch_offset` on, whose record before it is of `last_fetched_epoch`."""
    if fetch_offset < 0 or last_fetched_epoch < 0:
        return Answer("INVALID_REQUEST")
    return _RULES[dialect](leader, fetch_offset, last_fetched_epoch)


def next_answer(leader: Extent, follower: Extent, dialect: Dialect = Dialect.SHIPPED) -> Answer:
    return leader_fetch(leader, follower.end_offset, follower.last_fetched_epoch, dialect)


def _shipped(leader: Extent, offset: int, epoch: int) -> Answer:
    """Kafka 4.3.1. It sends a snapshot in three cases beyond the KIP: for offset 0 as soon as there
    is a real one, for the log start under another epoch, and for an epoch older than all snapshots.
    """
    latest, earliest = leader.latest_snapshot, leader.earliest_snapshot
    if offset == 0 and latest is not None and latest != BOOTSTRAP:
        return Answer(SNAPSHOT, snapshot=latest)
    if offset == 0 and leader.start_offset == 0:
        return Answer(RECORDS)
    if earliest is not None and (
        offset < leader.start_offset
        or (offset == leader.start_offset and epoch != earliest.epoch)
        or epoch < earliest.epoch
    ):
        return Answer(SNAPSHOT, snapshot=latest)
    diverging = diverging_epoch(leader, offset, epoch)
    if diverging is not None:
        return Answer(DIVERGING, diverging=diverging)
    # Nothing diverges, but the log does not hold the offset: the read throws.
    return Answer("UNKNOWN_SERVER_ERROR" if offset < leader.start_offset else RECORDS)


def _adopted(leader: Extent, offset: int, epoch: int) -> Answer:
    """The adopted text: below the log start the latest snapshot, else KIP-595."""
    if offset < leader.start_offset:
        latest = leader.latest_snapshot
        return Answer(SNAPSHOT, snapshot=latest) if latest else Answer("OFFSET_OUT_OF_RANGE")
    if offset == leader.vector.start_offset:
        return Answer(RECORDS)  # Nothing lies before the log's first record that could differ.
    diverging = diverging_epoch(leader.vector, offset, epoch)
    return Answer(DIVERGING, diverging=diverging) if diverging else Answer(RECORDS)


def _v19(leader: Extent, offset: int, epoch: int) -> Answer:
    """Version 19: the snapshot and, beside it, where the log goes on after it."""
    answer = _adopted(leader, offset, epoch)
    if answer.snapshot is not None:
        following = leader.vector.epoch_at(answer.snapshot.end_offset) or leader.last_fetched_epoch
        following_end = EpochEnd(following, answer.snapshot.end_offset)
        return Answer(SNAPSHOT, snapshot=answer.snapshot, next_fetch=following_end)
    return Answer(answer.kind, answer.diverging, None, answer.diverging)


_RULES: dict[Dialect, Callable[[Extent, int, int], Answer]] = {
    Dialect.V19: _v19,
    Dialect.ADOPTED: _adopted,
    Dialect.SHIPPED: _shipped,
}


@dataclass(frozen=True, slots=True)
class Peer:
    """A replica that fetches or is fetched from; `is_foreign`: of another cluster than most."""

    label: str
    extent: Extent
    is_foreign: bool = False


def fetch_pairs(peers: list[Peer], dialect: Dialect = Dialect.SHIPPED) -> Iterator[dict[str, Any]]:
    """One row per ordered pair: the follower's next fetch, and the answer if that leader led. By
    version 19 a row also says where the leader sends the follower on, and names the snapshot by the
    last offset that it includes.
    """
    for follower, leader in permutations(peers, 2):
        answer = next_answer(leader.extent, follower.extent, dialect)
        if follower.is_foreign != leader.is_foreign:
            answer = Answer("INCONSISTENT_CLUSTER_ID")
        epoch, end = answer.diverging or (None, None)
        snapshot_epoch, snapshot_end = answer.snapshot or (None, None)
        row = {
            "follower": follower.label,
            "leader": leader.label,
            "fetch_offset": follower.extent.end_offset,
            "last_fetched_epoch": follower.extent.last_fetched_epoch,
            "answer": answer.kind,
            "diverging_epoch": epoch,
            "diverging_end_offset": end,
            "snapshot_end_offset": snapshot_end,
            "snapshot_epoch": snapshot_epoch,
        }
        if dialect == Dialect.V19:
            next_epoch, next_offset = answer.next_fetch or (None, None)
            row["snapshot_last_offset"] = None if snapshot_end is None else snapshot_end - 1
            row["next_fetch_offset"] = next_offset
            row["next_fetch_epoch"] = next_epoch
        yield row


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
        answer = next_answer(leader, follower, dialect)
        if answer.snapshot is not None:
            after = follower.with_snapshot(answer.snapshot).truncated_to_latest_snapshot()
            snapshot = (answer.snapshot.end_offset, answer.snapshot.epoch)
            return Cut(min(end, snapshot[0]), after, snapshot)
        cut = truncated_to(follower, answer.diverging) if answer.diverging else end
        if cut >= end:
            return Cut(end, follower, None)
        follower = follower.truncated(cut)


class Span(NamedTuple):
    """One response: bytes [position, position + size_bytes)."""

    position: int
    size_bytes: int


def log_chunks(batch_sizes: Longs, max_bytes: int) -> Iterator[Span]:
    """The responses to one Fetch after the other: whole batches, and always one, however large it
    is, so that a fetch never comes back empty. Positions count from the first batch.
    """
    ends = np.cumsum(np.asarray(batch_sizes, np.int64))
    row, begin = 0, 0
    while row < len(ends):
        after = max(int(np.searchsorted(ends, begin + max_bytes, "right")), row + 1)
        end = int(ends[after - 1])
        yield Span(begin, end - begin)
        row, begin = after, end
