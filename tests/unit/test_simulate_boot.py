"""What a node does when it starts, rule by rule; and who can win an election."""

from dataclasses import replace

import pytest

from kraftlog.quorum.epochs import EpochVector
from kraftlog.quorum.voters import Members
from kraftlog.simulate.boot import BadRecord, Disk, SnapshotFile, boot, start
from kraftlog.simulate.election import Candidacy, Voter, grants, outcomes, vote_end
from kraftlog.simulate.extent import Extent, SnapshotId
from kraftlog.simulate.fetch import Dialect

LOG = EpochVector(((1, 100), (2, 140)), 200)


def snapshot(end: int, epoch: int, unreadable: str | None = None) -> SnapshotFile:
    return SnapshotFile(SnapshotId(epoch, end), unreadable)


def test_a_fresh_node_starts_with_nothing() -> None:
    started = boot(Disk(0, EpochVector((), 0)))
    assert (started.boots, started.reason, started.snapshot) == (True, None, None)
    assert (started.replay_from_offset, started.extent.end_offset) == (0, 0)


def test_the_newest_snapshot_is_loaded_and_the_log_after_it_replayed() -> None:
    started = boot(Disk(100, LOG, (snapshot(120, 1), snapshot(160, 2))))
    assert (started.boots, started.reason) == (True, None)
    assert started.snapshot == SnapshotId(2, 160)
    assert started.replay_from_offset == 160
    assert started.extent.snapshots == (SnapshotId(1, 120), SnapshotId(2, 160))


@pytest.mark.parametrize(
    ("start", "found", "boots", "loaded"),
    [
        (0, (2, 190), True, (1, 120)),
        (0, (1, 110), True, (1, 120)),
        (0, (2, 201), False, (2, 201)),
        (100, (2, 190), False, (2, 190)),
        (100, (1, 110), True, (1, 120)),
    ],
)
def test_a_snapshot_that_kafka_knows_of_and_does_not_find(
    start: int, found: tuple[int, int], boots: bool, loaded: tuple[int, int]
) -> None:
    """Kafka 4.3.1 forgets it, and reads the log from 0 on; where that begins above, it is lost."""
    log = EpochVector(((1, start), (2, 140)), 200)
    unfound = SnapshotFile(SnapshotId(*found), "its name is another", is_found=False)
    started = boot(Disk(start, log, (snapshot(120, 1), unfound)))
    assert (started.boots, started.snapshot) == (boots, SnapshotId(*loaded))
    assert ("cannot be loaded: its name is another" in (started.reason or "")) == (not boots)


def test_any_number_of_snapshots_that_kafka_does_not_find_is_passed_over() -> None:
    log = EpochVector(((1, 0),), 9999)
    unfound = (SnapshotFile(SnapshotId(1, end), "", is_found=False) for end in range(130, 5000))
    started = boot(Disk(0, log, (snapshot(120, 1), *unfound)))
    assert (started.boots, started.snapshot) == (True, SnapshotId(1, 120))


def test_epochs_order_snapshots_before_offsets_do() -> None:
    """KIP-630 "Snapshot Format": the newer epoch wins, though it ends earlier."""
    started = boot(Disk(100, LOG, (snapshot(190, 1), snapshot(160, 2))))
    assert started.snapshot == SnapshotId(2, 160)


@pytest.mark.parametrize(
    ("start", "ends", "boots"),
    [(0, [], True), (1, [], False), (100, [99], False), (100, [100], True), (100, [99, 101], True)],
)
def test_a_log_that_does_not_begin_at_0_needs_a_snapshot(
    start: int, ends: list[int], boots: bool
) -> None:
    """KIP-630 "Validation of Snapshot and Log", at the boundary."""
    files = tuple(snapshot(end, 1) for end in ends)
    started = boot(Disk(start, EpochVector(((1, start),), 200), files))
    assert started.boots == boots
    if not boots:
        assert f"the log start offset is {start}" in (started.reason or "")


@pytest.mark.parametrize(
    ("end", "epoch", "dropped"),
    [(200, 2, False), (201, 2, True), (150, 2, False), (150, 3, True), (900, 1, False)],
)
def test_a_snapshot_that_is_newer_than_the_log_takes_its_place(
    end: int, epoch: int, dropped: bool
) -> None:
    """KIP-630 "Validation of Snapshot and Log", at the boundary: epoch first, then offset."""
    started = boot(Disk(100, LOG, (snapshot(100, 1), snapshot(end, epoch))))
    assert started.boots
    assert started.discarded_from_offset == (100 if dropped else None)
    assert started.extent.end_offset == (end if dropped else 200)
    assert started.extent.is_empty == dropped


def test_a_log_without_an_epoch_is_dropped_for_any_snapshot() -> None:
    """Its leader-epoch-checkpoint names offsets behind its end alone, which Kafka forgets: 4.3.1's
    KafkaRaftLog then opens 6 to 6.
    """
    started = boot(Disk(0, EpochVector((), 12), (snapshot(6, 1),)))
    assert (started.discarded_from_offset, started.extent.end_offset) == (0, 6)
    assert "the whole log is dropped" in (started.reason or "")
    empty = boot(Disk(0, EpochVector((), 0), (snapshot(6, 1),)))
    assert (empty.discarded_from_offset, empty.reason) == (None, None)


def test_a_snapshot_that_cannot_be_loaded_stops_the_node() -> None:
    """Kafka does not fall back to an older one."""
    started = boot(Disk(100, LOG, (snapshot(120, 1), snapshot(160, 2, "a batch's CRC is wrong"))))
    assert not started.boots
    assert started.reason == "snapshot 160-2 cannot be loaded: a batch's CRC is wrong"


def test_a_missing_footer_is_not_noticed() -> None:
    started = boot(Disk(100, LOG, (SnapshotFile(SnapshotId(2, 160), None, is_complete=False),)))
    assert started.boots
    assert started.reason == "snapshot 160-2 is incomplete, and Kafka loads it without noticing"


def test_a_cut_log_says_from_where() -> None:
    started = boot(Disk(100, LOG, (snapshot(160, 2),), cut="a batch with a wrong CRC at byte 9"))
    assert started.boots
    assert started.discarded_from_offset == 200
    assert started.reason is not None
    assert started.reason.startswith("recovery cuts the log at offset 200: a batch")


def test_a_cut_below_the_snapshot_drops_the_whole_log() -> None:
    started = boot(Disk(100, LOG.truncated(150), (snapshot(160, 2),), cut="zeros"))
    assert started.discarded_from_offset == 100
    assert started.extent == Extent(160, EpochVector((), 160), (SnapshotId(2, 160),))


@pytest.mark.parametrize(
    ("offset", "boots"), [(159, True), (160, False), (199, False), (200, True)]
)
def test_a_record_that_cannot_be_read_matters_where_it_is_replayed(
    offset: int, boots: bool
) -> None:
    bad = (BadRecord(offset, "name wants 16 bytes", offset), BadRecord(300, "never reached", 300))
    started = boot(Disk(100, LOG, (snapshot(160, 2),), bad_records=bad))
    assert started.boots == boots
    text = f"Kafka cannot read on at offset {offset}: name wants 16 bytes"
    assert started.reason == (None if boots else text)


@pytest.mark.parametrize(
    ("offset", "is_told"), [(159, False), (160, True), (199, True), (200, False)]
)
def test_a_record_of_a_newer_kafka_is_told_where_it_is_replayed(offset: int, is_told: bool) -> None:
    """The Kafka that wrote it starts with it."""
    newer = (BadRecord(offset, "UNKNOWN_77 is unknown", offset),)
    started = boot(Disk(100, LOG, (snapshot(160, 2),), newer_records=newer))
    assert started.boots
    text = f"a newer Kafka wrote the record at offset {offset}, and an older one may refuse it: UNKNOWN_77 is unknown"
    assert started.reason == (text if is_told else None)


@pytest.mark.parametrize(("last", "boots"), [(159, True), (160, False)])
def test_a_batch_in_which_the_snapshot_ends_is_read_from_its_start(last: int, boots: bool) -> None:
    bad = (BadRecord(157, "name wants 16 bytes", last),)
    assert boot(Disk(100, LOG, (snapshot(160, 2),), bad_records=bad)).boots == boots


def test_what_a_newer_kafka_wrote_in_the_snapshot_that_is_loaded() -> None:
    newer = replace(snapshot(160, 2), newer="UNKNOWN_77 is unknown")
    started = boot(Disk(100, LOG, (newer,)))
    assert started.boots
    assert (
        started.reason
        == f"a newer Kafka wrote a record in snapshot {newer.id.name}, and an older one may refuse it: UNKNOWN_77 is unknown"
    )
    assert boot(Disk(100, LOG, (newer, snapshot(170, 2)))).reason is None


def test_every_reason_to_refuse_is_told() -> None:
    started = boot(Disk(100, LOG, (), problems=("quorum-state cannot be read: no JSON",)))
    assert not started.boots
    assert started.reason is not None
    assert started.reason.split("; ")[0] == "quorum-state cannot be read: no JSON"
    assert "inconsistent snapshot state" in started.reason


# --- Elections ---------------------------------------------------------------------------------


def among(count: int) -> Members:
    """So many voters, whose directories nobody knows."""
    return tuple((one, None) for one in range(1, count + 1))


THREE = among(3)


def voter(
    name: str, epoch: int, end: int, held: int | None = None, boots: bool = True,
    electorate: Members = THREE,
) -> Voter:  # fmt: skip
    reach = end if held is None else held
    return Voter(name, int(name[0]), SnapshotId(epoch, end), reach, electorate, boots=boots)


def test_the_epoch_counts_before_the_length() -> None:
    stale = voter("2", 1, 243, held=176)
    found = list(outcomes([voter("1", 2, 362), stale, voter("3", 2, 362)], 362))
    assert found == [
        Candidacy("1", True, ("1", "2", "3"), (), None),
        Candidacy("2", False, ("2",), ("1", "3"), 176),
        Candidacy("3", True, ("1", "2", "3"), (), None),
    ]


def test_equal_logs_grant_each_other() -> None:
    assert grants(SnapshotId(2, 10), SnapshotId(2, 10))
    assert not grants(SnapshotId(2, 11), SnapshotId(2, 10))
    assert grants(SnapshotId(2, 11), SnapshotId(3, 1))


def test_a_candidate_without_committed_data_may_win() -> None:
    """The critical case of an election: two of three voters lost what was committed."""
    found = list(outcomes([voter("1", 2, 100), voter("2", 2, 100), voter("3", 2, 300)], 300))
    assert [(one.can_win, one.lacks_committed_from_offset) for one in found] == [
        (True, 100),
        (True, 100),
        (True, None),
    ]
    assert found[0].refused_by == ("3",)


def test_voters_that_are_not_at_hand_may_decide() -> None:
    def win(count: int) -> list[bool | None]:
        ends = {"1": 100, "2": 90}
        voters = [voter(name, 2, end, electorate=among(count)) for name, end in ends.items()]
        return [one.can_win for one in outcomes(voters, 90)]

    assert win(5) == [None, None]
    assert win(4) == [None, None]
    assert win(3) == [True, None]
    assert win(2) == [True, False]


def test_each_node_stands_among_the_voters_that_its_own_log_names() -> None:
    """As after a change of voters that not every log holds: the first one has not heard that there
    are three, the second one that it is a voter, and the disk of the third is another one.
    """
    first = voter("1", 2, 100, electorate=among(1))
    second = voter("2", 2, 200, electorate=among(1))
    third = Voter("3", 3, SnapshotId(2, 300), 300, ((1, None), (2, None), (3, "a")), "b")
    found = list(outcomes([first, second, third], 300))
    assert [(one.can_win, one.granted_by) for one in found] == [
        (True, ("1",)), (False, ()), (False, ()),
    ]  # fmt: skip
    own = replace(third, directory_id="a")
    assert [one.can_win for one in outcomes([first, second, own], 300)] == [True, False, True]


def test_a_node_that_does_not_start_neither_stands_nor_votes() -> None:
    dead = voter("2", 2, 200, boots=False)
    found = list(outcomes([voter("1", 2, 100), dead, voter("3", 1, 50)], 100))
    assert found[0] == Candidacy("1", True, ("1", "3"), (), None)
    assert found[1] == Candidacy("2", False, (), (), None)
    assert found[2].refused_by == ("1",)


def test_two_copies_of_a_voter_have_one_vote() -> None:
    copies = [voter("1", 2, 100), voter("1b", 2, 90), voter("2", 3, 1)]
    found = list(outcomes(copies, 0))
    assert found[0].granted_by == ("1",)
    assert found[0].can_win is None
    assert found[2].granted_by == ("1", "1b", "2")
    assert found[2].can_win is True


def test_a_newer_snapshot_votes_in_place_of_the_log() -> None:
    """KIP-630 between steps 4 and 5."""
    renamed = Extent(0, EpochVector(((1, 0),), 60), (SnapshotId(4, 150),))
    assert vote_end(renamed) == SnapshotId(4, 150)
    log = Extent(0, EpochVector(((5, 0),), 60), (SnapshotId(4, 50),))
    assert vote_end(log) == SnapshotId(5, 60)


def test_version_19_votes_as_an_empty_log_without_its_snapshot() -> None:
    """KIP-630 v19 "Changes to Leader Election": whether the log begins at 0 or behind it."""
    for begin in (0, 150):
        bare = Disk(begin, EpochVector(((4, begin),), 180))
        assert vote_end(start(bare, Dialect.V19).extent) == SnapshotId(0, 0)
        assert vote_end(start(bare, Dialect.ADOPTED).extent) == SnapshotId(4, 180)
