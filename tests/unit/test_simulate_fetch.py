"""What a leader answers to a fetch, in the three dialects, at every boundary; and the follower that
takes over a snapshot, with a crash after each step.
"""

import pytest

from kraftlog.quorum.epochs import EpochEnd, EpochVector
from kraftlog.simulate.boot import Disk, DiskStep, SnapshotFile, boot, start, takeover
from kraftlog.simulate.extent import BOOTSTRAP, Extent, SnapshotId
from kraftlog.simulate.fetch import (
    Answer,
    Dialect,
    Peer,
    fetch_pairs,
    leader_fetch,
    truncate,
)

V19, ADOPTED, SHIPPED = Dialect.V19, Dialect.ADOPTED, Dialect.SHIPPED
OLDER, LATEST = SnapshotId(3, 100), SnapshotId(4, 150)
LEADER = Extent(100, EpochVector(((3, 100), (4, 120), (6, 160)), 200), (OLDER, LATEST))
"""Its log starts at 100, the end of its older snapshot; epochs 4 and 6 begin at 120 and 160."""

FRESH = Extent(0, EpochVector(((1, 0),), 50))
TO_LATEST = Answer("snapshot", snapshot=LATEST)
RECORDS = Answer("records")


def diverging(epoch: int, end: int) -> Answer:
    return Answer("diverging_epoch", diverging=EpochEnd(epoch, end))


@pytest.mark.parametrize(
    ("offset", "epoch", "adopted", "shipped"),
    [
        (0, 0, TO_LATEST, TO_LATEST),
        (99, 3, TO_LATEST, TO_LATEST),
        (100, 3, RECORDS, RECORDS),
        # At the log start the record before is not in the log: Kafka compares with the snapshot.
        (100, 2, RECORDS, TO_LATEST),
        (100, 4, RECORDS, TO_LATEST),
        (101, 3, RECORDS, RECORDS),
        # An epoch older than the earliest snapshot's.
        (101, 2, diverging(2, 100), TO_LATEST),
        (120, 3, RECORDS, RECORDS),
        (121, 3, diverging(3, 120), diverging(3, 120)),
        (160, 4, RECORDS, RECORDS),
        (161, 4, diverging(4, 160), diverging(4, 160)),
        # Epoch 5 wrote nothing on this leader.
        (161, 5, diverging(4, 160), diverging(4, 160)),
        (200, 6, RECORDS, RECORDS),
        (201, 6, diverging(6, 200), diverging(6, 200)),
        # An epoch that this leader has never seen.
        (200, 7, diverging(6, 200), diverging(6, 200)),
        (-1, 3, Answer("INVALID_REQUEST"), Answer("INVALID_REQUEST")),
        (100, -1, Answer("INVALID_REQUEST"), Answer("INVALID_REQUEST")),
    ],
)
def test_what_the_leader_answers(offset: int, epoch: int, adopted: Answer, shipped: Answer) -> None:
    assert leader_fetch(LEADER, offset, epoch, ADOPTED) == adopted
    assert leader_fetch(LEADER, offset, epoch, SHIPPED) == shipped
    assert leader_fetch(LEADER, offset, epoch) == shipped


def test_v19_also_says_where_the_log_goes_on() -> None:
    """KIP-630 v19: the next offset right after the snapshot, and the epoch of the record there."""
    answer = leader_fetch(LEADER, 99, 3, V19)
    assert answer == Answer("snapshot", None, LATEST, EpochEnd(4, 150))
    cut = leader_fetch(LEADER, 121, 3, V19)
    assert cut == Answer("diverging_epoch", EpochEnd(3, 120), None, EpochEnd(3, 120))
    assert leader_fetch(LEADER, 100, 3, V19) == RECORDS


@pytest.mark.parametrize("dialect", Dialect)
def test_a_fresh_follower_of_a_fresh_leader_gets_records(dialect: Dialect) -> None:
    assert leader_fetch(FRESH, 0, 0, dialect).kind == "records"
    assert leader_fetch(FRESH, 50, 1, dialect).kind == "records"


def test_offset_0_is_sent_a_snapshot_as_soon_as_there_is_one() -> None:
    """Shipped only: the log still holds offset 0, yet the snapshot is sent; never the bootstrap
    checkpoint."""
    held = FRESH.with_snapshot(SnapshotId(1, 40))
    assert leader_fetch(held, 0, 0).snapshot == SnapshotId(1, 40)
    assert leader_fetch(held, 0, 0, ADOPTED) == RECORDS
    assert leader_fetch(held, 1, 1) == RECORDS
    assert leader_fetch(FRESH.with_snapshot(BOOTSTRAP), 0, 0) == RECORDS


def test_a_log_without_its_snapshot_has_nothing_to_send() -> None:
    """KAFKA-14238: the log start was raised and no snapshot covers it."""
    broken = Extent(100, EpochVector(((3, 100),), 200))
    assert leader_fetch(broken, 50, 3) == Answer("UNKNOWN_SERVER_ERROR")
    assert leader_fetch(broken, 50, 3, ADOPTED) == Answer("OFFSET_OUT_OF_RANGE")
    assert leader_fetch(broken, 150, 3) == RECORDS


def test_an_epoch_that_ends_at_the_earliest_snapshot_is_answered_under_its_epoch() -> None:
    """Epoch 3 wrote nothing that is left: the log's first epoch is 4, the snapshot's is 2."""
    pruned = Extent(100, EpochVector(((4, 100),), 200), (SnapshotId(2, 100),))
    assert leader_fetch(pruned, 150, 3) == diverging(2, 100)
    assert leader_fetch(pruned, 150, 3, ADOPTED) == diverging(3, 100)


def test_an_empty_log_answers_with_its_snapshots_epoch() -> None:
    """KIP-630 "Snapshot Format"."""
    empty = Extent(150, EpochVector((), 150), (LATEST,))
    assert empty.last_fetched_epoch == 4
    assert leader_fetch(empty, 150, 4) == RECORDS
    assert leader_fetch(empty, 160, 5) == diverging(4, 150)
    assert leader_fetch(empty, 140, 3).snapshot == LATEST


def test_pairs_of_two_clusters_refuse_each_other() -> None:
    peers = [Peer("a", FRESH), Peer("b", FRESH.truncated(30)), Peer("x", FRESH, is_foreign=True)]
    rows = {(row["follower"], row["leader"]): row for row in fetch_pairs(peers)}
    assert len(rows) == 6
    assert rows["a", "x"]["answer"] == rows["x", "b"]["answer"] == "INCONSISTENT_CLUSTER_ID"
    assert rows["b", "a"]["answer"] == "records"
    assert rows["b", "a"]["fetch_offset"] == 30
    assert rows["a", "b"]["diverging_end_offset"] == 30


def test_rows_of_version_19_say_where_the_leader_sends_the_follower_on() -> None:
    """A new node, and one whose epoch 3 ended at 120 on the leader and at 121 on its own disk."""
    other = Extent(100, EpochVector(((3, 100),), 121), (SnapshotId(3, 100),))
    peers = [Peer("leader", LEADER), Peer("new", Extent(0, EpochVector((), 0))), Peer("cut", other)]
    for dialect, told in (
        (V19, {"new": (150, 4), "cut": (120, 3)}),
        (ADOPTED, {"new": (None, None), "cut": (None, None)}),
    ):
        rows = [row for row in fetch_pairs(peers, dialect) if row["leader"] == "leader"]
        assert {
            row["follower"]: (row.get("next_fetch_offset"), row.get("next_fetch_epoch"))
            for row in rows
        } == told
        named = {row["follower"]: row.get("snapshot_last_offset") for row in rows}
        assert named == {"new": 149 if dialect == V19 else None, "cut": None}


@pytest.mark.parametrize("dialect", [V19, ADOPTED])
def test_both_drawings_of_the_log(dialect: Dialect) -> None:
    """KIP-630 version 19 draws snapshot (y, c) as the one that includes y, the adopted text as the
    one that ends before y; fetches at and below the log start are told apart the same way."""
    x, y = SnapshotId(1, 11), SnapshotId(2, 31)
    drawn = Extent(11, EpochVector(((1, 11), (2, 20), (3, 31)), 50), (x, y))
    assert leader_fetch(drawn, 11, 1, dialect).kind == "records"
    below = leader_fetch(drawn, 10, 1, dialect)
    assert below.snapshot == y
    assert below.next_fetch == (EpochEnd(3, 31) if dialect == V19 else None)


# --- Truncation with snapshots -----------------------------------------------------------------


def test_a_snapshot_takes_the_place_of_a_log_that_is_too_old() -> None:
    behind = Extent(0, EpochVector(((1, 0), (2, 30)), 60))
    cut = truncate(behind, LEADER)
    assert (cut.truncation_offset, cut.by_snapshot is not None) == (60, True)
    assert cut.extent == Extent(150, EpochVector((), 150), (LATEST,))


def test_what_lies_beyond_the_snapshot_is_cut() -> None:
    ahead = Extent(0, EpochVector(((1, 0), (2, 30)), 190))
    cut = truncate(ahead, LEADER)
    assert (cut.truncation_offset, cut.by_snapshot is not None) == (150, True)


def test_a_diverging_tail_is_cut_and_records_follow() -> None:
    tail = Extent(100, EpochVector(((3, 100), (4, 120), (5, 140)), 180), (OLDER,))
    cut = truncate(tail, LEADER)
    assert (cut.truncation_offset, cut.by_snapshot) == (140, None)
    assert cut.extent.last_fetched_epoch == 4


def test_an_empty_log_answers_with_the_epoch_of_its_snapshot() -> None:
    """KafkaRaftLog.endOffsetForEpoch: the follower cuts by it as the leader answers by it."""
    bare = Extent(200, EpochVector((), 200), (SnapshotId(1, 200),))
    assert bare.end_for_epoch(1) == EpochEnd(1, 200)
    cut = truncate(bare, Extent(0, EpochVector(((1, 0), (2, 176)), 362)))
    assert (cut.truncation_offset, cut.by_snapshot) == (176, None)


def test_nothing_is_cut_below_the_earliest_snapshot_of_a_later_epoch() -> None:
    """What ends where it does is answered under its epoch, also by the follower to itself."""
    mine = Extent(200, EpochVector(((3, 200),), 230), (SnapshotId(2, 200),))
    assert mine.end_for_epoch(1) == EpochEnd(2, 200)
    cut = truncate(mine, Extent(0, EpochVector(((1, 0), (4, 150)), 300)))
    assert (cut.truncation_offset, cut.by_snapshot) == (200, None)


# --- The six steps -----------------------------------------------------------------------------

LAGGARD = Disk(0, EpochVector(((1, 0), (2, 30)), 60), (SnapshotFile(SnapshotId(1, 20)),))
AT_REST = boot(LAGGARD).extent
CAUGHT_UP = Extent(150, EpochVector((), 150), (LATEST,))


def steps(dialect: Dialect) -> dict[str, DiskStep]:
    return {one.name: one for one in takeover(LAGGARD, LATEST, dialect)}


@pytest.mark.parametrize("dialect", [ADOPTED, SHIPPED])
@pytest.mark.parametrize(
    "name", ["fetch", "snapshot_named", "fetch_paused", "chunks_written", "validated"]
)
def test_a_crash_before_the_rename_changes_nothing(dialect: Dialect, name: str) -> None:
    after = start(steps(dialect)[name].disk, dialect)
    assert (after.boots, after.extent, after.discarded_from_offset) == (True, AT_REST, None)
    assert after.snapshot == SnapshotId(1, 20)
    assert after.replay_from_offset == 20


@pytest.mark.parametrize("dialect", [ADOPTED, SHIPPED])
def test_a_crash_between_rename_and_truncation_drops_the_old_log(dialect: Dialect) -> None:
    """An older log beside a newer snapshot: the next start goes on from the snapshot."""
    step = steps(dialect)["renamed"]
    assert step.disk.vector.end_offset == 60
    after = start(step.disk, dialect)
    assert (after.boots, after.extent, after.snapshot) == (True, CAUGHT_UP, LATEST)
    assert after.discarded_from_offset == 0
    assert after.reason is not None
    assert "the whole log is dropped" in after.reason


@pytest.mark.parametrize("dialect", [ADOPTED, SHIPPED])
def test_after_the_last_step_nothing_is_left_to_do(dialect: Dialect) -> None:
    """KIP-630 "Changes to Leader Election": log start and log end are the snapshot's end, the epoch
    its epoch."""
    after = start(steps(dialect)["resumed"].disk, dialect)
    assert after == boot(Disk(150, EpochVector((), 150), (SnapshotFile(LATEST),)))
    assert (after.extent, after.extent.log_end) == (CAUGHT_UP, LATEST)
    assert after.discarded_from_offset is None


def test_only_the_steps_that_write_chunks_leave_a_part_file() -> None:
    parts = {name: one.part_of for name, one in steps(SHIPPED).items() if one.part_of}
    assert parts == {"chunks_written": LATEST, "validated": LATEST}
    parts = {name: one.part_of for name, one in steps(V19).items() if one.part_of}
    assert parts == {"log_and_chunks_written": LATEST}


def test_version_19_can_lose_everything_on_the_way() -> None:
    """KIP-630 v19: log and snapshots go first; until the snapshot is complete the node holds
    nothing that counts, and a Kafka of today would not even start with it."""
    found = steps(V19)
    for name in ("snapshot_named", "log_and_chunks_written"):
        after = start(found[name].disk, V19)
        assert after.boots
        assert after.extent == Extent(0, EpochVector((), 0))
    halfway = boot(found["log_and_chunks_written"].disk)
    assert not halfway.boots
    assert halfway.reason is not None
    assert "log start offset is 150" in halfway.reason
    done = start(found["resumed"].disk, V19)
    assert (done.extent.start_offset, done.snapshot) == (150, LATEST)


def test_version_19_holds_a_fresh_log_for_none() -> None:
    """KIP-630 version 19: its invariant wants a snapshot always."""
    fresh = Disk(0, EpochVector(((1, 0),), 50))
    assert start(fresh, V19).discarded_from_offset == 0
    assert start(fresh, SHIPPED).extent.end_offset == 50
