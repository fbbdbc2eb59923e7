"""A follower's whole way to its leader's end, with figures by hand: requests, positions, sizes,
times, and what a stop at each step leaves.
"""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from kraftlog.quorum.epochs import EpochVector
from kraftlog.simulate.boot import Disk, SnapshotFile
from kraftlog.simulate.extent import BOOTSTRAP, Extent, SnapshotId
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.join import (
    BELOW_START,
    CAUGHT_UP,
    CUTS_NOTHING,
    NO_FETCH_EPOCH,
    PIECE,
    JoinStep,
    LeaderLog,
    Way,
    after_crash,
    join,
)
from kraftlog.simulate.join_rows import in_words, step_row
from kraftlog.simulate.liveness import Link, recommended_chunk_bytes

NAMED = SnapshotId(2, 100)
LEADER = LeaderLog(
    Extent(100, EpochVector(((2, 100), (3, 110)), 130), (NAMED,)),
    {NAMED: 2_500},
    np.array([110, 120, 130], np.int64),
    np.array([400, 700, 200], np.int64),
    np.zeros(3, np.int64),
)
"""A snapshot of 2,500 bytes, then batches of 400, 700 and 200 bytes; the second begins epoch 3."""
EMPTY = Disk(0, EpochVector((), 0))
WAY = Way(Link(10_000, 50), chunk_bytes=1_000, fetch_bytes=1_000)
"""100 bytes take 10 ms, and each request 50 ms more."""


def names(steps: list[JoinStep]) -> list[str]:
    return [one.name for one in steps]


def test_every_request_has_its_number_position_size_and_time() -> None:
    steps = list(join(EMPTY, LEADER, WAY))
    asked = [(one.name, one.request, one.at_ms) for one in steps if one.request is not None]
    told = [
        (name, request.number, request.fetch_offset, *request.span, at)
        for name, request, at in asked
    ]
    assert told == [
        ("snapshot", 1, 0, 0, 0, 50.0),
        ("piece", 2, 0, 0, 1_000, 200.0),
        ("piece", 3, 0, 1_000, 1_000, 350.0),
        ("piece", 4, 0, 2_000, 500, 450.0),
        ("records", 5, 100, 0, 400, 540.0),
        ("records", 6, 110, 400, 900, 680.0),
        ("caught_up", 7, 130, 0, 0, 730.0),
    ]
    assert [one.request.snapshot for one in steps if one.name == "piece" and one.request] == [
        NAMED
    ] * 3
    assert [one.request.last_fetched_epoch for one in steps if one.request][4:] == [2, 2, 3]
    assert steps[-1].disk == Disk(100, LEADER.extent.vector, (SnapshotFile(NAMED),))


def test_an_answer_ends_where_a_segment_does() -> None:
    """The batches of 700 and 200 bytes would fit together, and lie in two segments."""
    rolled = replace(LEADER, batch_segments=np.array([0, 0, 1], np.int64))
    spans = [one.request.span for one in join(EMPTY, rolled, WAY) if one.request]
    assert [tuple(one) for one in spans[4:]] == [(0, 400), (400, 700), (1_100, 200), (0, 0)]


def test_the_steps_of_a_takeover_stand_between_snapshot_and_log() -> None:
    assert names(list(join(EMPTY, LEADER, WAY))) == [
        "started",
        "snapshot",
        "fetch_paused",
        *["piece"] * 3,
        "validated",
        "renamed",
        "resumed",
        "records",
        "records",
        "caught_up",
    ]


def test_a_stop_before_the_renaming_begins_the_download_anew_and_one_after_it_does_not() -> None:
    steps = list(join(EMPTY, LEADER, WAY))
    answers = {}
    for one in steps:
        booted, answer = after_crash(one, LEADER, WAY)
        assert answer is not None
        answers[one.name] = (booted.extent.end_offset, answer.kind)
    assert answers == {
        "started": (0, "snapshot"),
        "snapshot": (0, "snapshot"),
        "fetch_paused": (0, "snapshot"),
        "piece": (0, "snapshot"),
        "validated": (0, "snapshot"),
        "renamed": (100, "records"),
        "resumed": (100, "records"),
        "records": (130, "records"),
        "caught_up": (130, "records"),
    }
    assert [one.part_bytes for one in steps if one.name == "piece"] == [1_000, 2_000, 2_500]


def test_a_follower_of_another_history_is_cut_first() -> None:
    mine = Disk(100, EpochVector(((2, 100),), 125), (SnapshotFile(NAMED),))
    steps = list(join(mine, LEADER, WAY))
    assert names(steps) == ["started", "diverging_epoch", "truncated", "records", "caught_up"]
    assert steps[2].disk.vector == EpochVector(((2, 100),), 110)
    assert steps[1].note == "in the leader's log epoch 2 ends at offset 110"
    assert steps[-1].disk.vector == LEADER.extent.vector


def test_a_log_that_departs_below_its_start_stops_its_node() -> None:
    """Kafka cuts nothing below its high watermark, which begins with the log; the texts do."""
    mine = Disk(115, EpochVector(((2, 115),), 125), (SnapshotFile(SnapshotId(2, 115)),))
    *_, asked, last = join(mine, LEADER, WAY)
    assert (asked.name, last.name) == ("diverging_epoch", "stopped")
    assert last.note == (
        "it would have to cut its log at offset 110, below its start at 115, where Kafka stops with an exception"
    )
    assert (last.disk.start_offset, last.disk.vector) == (115, mine.vector)
    texts = names(list(join(mine, LEADER, replace(WAY, dialect=Dialect.ADOPTED))))
    assert texts[:3] == ["started", "diverging_epoch", "truncated"]


def test_a_snapshot_of_more_than_two_gibibytes_never_comes_whole() -> None:
    """Kafka reads a snapshot at positions of 32 bits; the text knows no such end."""
    large = replace(LEADER, snapshot_sizes={NAMED: 3 << 30})
    fast = replace(WAY, link=Link(1 << 30, 0), chunk_bytes=1 << 30)
    *_, piece, last = join(EMPTY, large, fast)
    assert (piece.name, piece.part_bytes, last.name) == ("piece", 2 << 30, "refused")
    assert last.note == "after UNKNOWN_SERVER_ERROR: same_request_until_the_fetch_timeout"
    assert names(list(join(EMPTY, large, replace(fast, dialect=Dialect.ADOPTED))))[-1] == CAUGHT_UP


@pytest.mark.parametrize(
    ("dialect", "sizes"),
    [
        (Dialect.SHIPPED, [1_000, 1_000, 500]),
        (Dialect.V19, [1_000, 1_000, 500]),
        (Dialect.ADOPTED, [900, 900, 700]),
    ],
)
def test_the_leader_has_a_limit_of_its_own_in_the_adopted_text(
    dialect: Dialect, sizes: list[int]
) -> None:
    limited = replace(LEADER, response_limit_bytes=900)
    steps = [
        one.request for one in join(EMPTY, limited, replace(WAY, dialect=dialect)) if one.request
    ]
    assert [one.span.size_bytes for one in steps if one.snapshot == NAMED] == sizes


def test_an_empty_file_is_no_snapshot() -> None:
    """Kafka refuses its first byte, which is its end; both texts grant nothing, and all of it."""
    empty = replace(LEADER, snapshot_sizes={NAMED: 0})
    last = list(join(EMPTY, empty, WAY))[-1]
    assert last.name == "refused"
    assert last.note == "after POSITION_OUT_OF_RANGE: same_request_until_the_fetch_timeout"
    for dialect in (Dialect.V19, Dialect.ADOPTED):
        assert names(list(join(EMPTY, empty, replace(WAY, dialect=dialect))))[-1] == CAUGHT_UP


def test_a_node_at_the_leaders_end_asks_once() -> None:
    mine = Disk(100, LEADER.extent.vector, (SnapshotFile(NAMED),))
    assert names(list(join(mine, LEADER, WAY))) == ["started", "caught_up"]


@pytest.mark.parametrize(("is_voter", "who"), [(True, "stands for election"), (False, "asks the")])
def test_a_piece_that_never_arrives_in_time_ends_the_way(is_voter: bool, who: str) -> None:
    """1,000 bytes need 150 ms; 140 are not enough, 150 are."""
    late = replace(WAY, timeout_ms=140, request_timeout_ms=140, is_voter=is_voter)
    last = list(join(EMPTY, LEADER, late))[-1]
    assert last.name == "cancelled"
    assert last.at_ms == 50 + 140
    assert last.note is not None
    assert who in last.note
    # Half of the timeout is 70 ms, of which 50 are the round trip: 200 bytes, so 128.
    assert "controller.quorum.fetch.snapshot.max.bytes to 128 or less" in last.note
    assert list(join(EMPTY, LEADER, replace(WAY, timeout_ms=150)))[-1].name == "caught_up"


@pytest.mark.parametrize(
    ("timeouts", "name"),
    [((140, 60_000), "fetch"), ((60_000, 140), "request"), ((140, 140), "fetch")],
)
def test_the_lesser_timeout_ends_a_request(timeouts: tuple[int, int], name: str) -> None:
    """The connection is closed at the request timeout, however long the node may go without."""
    fetch, request = timeouts
    last = list(join(EMPTY, LEADER, replace(WAY, timeout_ms=fetch, request_timeout_ms=request)))[-1]
    assert (last.name, last.at_ms) == ("cancelled", 50 + 140)
    assert f"controller.quorum.{name}.timeout.ms is 140 ms" in (last.note or "")
    tiny = replace(WAY, link=Link(1, 50), timeout_ms=fetch, request_timeout_ms=request)
    advice = "raise controller.quorum.fetch.timeout.ms and controller.quorum.request.timeout.ms"
    assert advice in (list(join(EMPTY, LEADER, tiny))[-1].note or "")


def test_an_observer_takes_an_answer_that_is_later_than_its_fetch_timeout() -> None:
    watches = replace(WAY, timeout_ms=140, is_voter=False)
    assert list(join(EMPTY, LEADER, watches))[-1].name == "caught_up"
    tiny = replace(watches, link=Link(1, 2_000))
    note = list(join(EMPTY, LEADER, tiny))[-1].note or ""
    assert "raise controller.quorum.request.timeout.ms: no smaller piece" in note


def test_a_batch_that_never_arrives_in_time_ends_the_way_in_the_log() -> None:
    slow = replace(WAY, chunk_bytes=100, fetch_bytes=20, timeout_ms=110)
    steps = list(join(EMPTY, LEADER, slow))
    assert names(steps)[-2:] == ["records", "cancelled"]
    last = steps[-1]
    assert last.request is not None
    # A batch always comes whole: 400 bytes need 90 ms, 700 bytes 120.
    assert (last.request.fetch_offset, last.request.span.size_bytes) == (110, 700)
    assert last.note is not None
    assert "a link of 11,667 bytes per second" in last.note
    assert "controller.quorum.fetch.max.bytes" not in last.note, "it is as small already as helps"


def test_records_that_never_arrive_in_time_name_the_limit_that_helps() -> None:
    slow = replace(WAY, chunk_bytes=100, fetch_bytes=1 << 20, timeout_ms=110)
    last = list(join(EMPTY, LEADER, slow))[-1]
    assert last.name == "cancelled"
    note = last.note or ""
    least = recommended_chunk_bytes(slow.link, slow.answer_ms)
    assert f"set controller.quorum.fetch.max.bytes to {least} or less" in note


def test_kafka_stumbles_over_a_snapshot_that_is_not_newer() -> None:
    """Its own epoch is above the snapshot's, though its log ends below the leader's log start."""
    mine = Disk(0, EpochVector(((7, 0),), 90))
    steps = list(join(mine, LEADER, WAY))
    assert steps[-1].name == "stopped"
    assert "Kafka stops with an error" in (steps[-1].note or "")
    assert names(list(join(mine, LEADER, replace(WAY, dialect=Dialect.ADOPTED))))[-1] != "stopped"


def test_a_node_that_holds_the_leaders_snapshot_above_its_own_log_asks_for_it_without_end() -> None:
    """A snapshot that is there already is not fetched, and the log stays as it is."""
    mine = Disk(0, EpochVector(((7, 0),), 90), (SnapshotFile(NAMED),))
    last = list(join(mine, LEADER, WAY))[-1]
    assert last.name == "stuck"
    assert "holds this snapshot already, and asks again without end" in (last.note or "")


def test_below_a_snapshot_that_the_leader_contradicts_kafka_stops() -> None:
    """An empty log answers for its own epochs with that of its snapshot
    (KafkaRaftLog.endOffsetForEpoch), and not as one that has seen none.
    """
    mine = Disk(200, EpochVector((), 200), (SnapshotFile(SnapshotId(1, 200)),))
    parted = replace(LEADER, extent=Extent(0, EpochVector(((1, 0), (2, 176)), 362)))
    stopped = list(join(mine, parted, WAY))[-1]
    assert (stopped.name, stopped.note) == ("stopped", BELOW_START.format(176, 200))


def test_a_log_that_is_empty_behind_its_snapshot_asks_a_leader_who_lacks_that_without_end() -> None:
    """Kafka 3.9.1 and 4.3.1 "truncate" to where that log ends, and fetch at once again."""
    mine = Disk(200, EpochVector((), 200), (SnapshotFile(SnapshotId(6, 200)),))
    lacks = replace(LEADER, extent=Extent(0, EpochVector(((1, 0), (7, 176)), 177)))
    steps = list(join(mine, lacks, WAY))
    assert names(steps)[-2:] == ["diverging_epoch", "stuck"]
    assert steps[-1].note == CUTS_NOTHING.format(200)


@pytest.mark.parametrize("dialect", [Dialect.ADOPTED, Dialect.V19])
def test_a_leader_that_holds_nothing_takes_no_snapshot_from_its_follower(dialect: Dialect) -> None:
    """It would have the follower cut all, and the snapshot brings it back each time."""
    mine = Disk(0, EpochVector(((1, 0),), 50), (SnapshotFile(SnapshotId(1, 20)),))
    nothing = replace(LEADER, extent=Extent(0, EpochVector((), 0)))
    steps = list(islice(join(mine, nothing, replace(WAY, dialect=dialect)), 20))
    assert names(steps)[-4:] == ["diverging_epoch", "truncated", "diverging_epoch", "stuck"]
    assert steps[-3].disk.vector.end_offset == 0


def test_an_empty_log_below_its_own_snapshot_has_no_epoch_to_fetch_with() -> None:
    """KafkaRaftLog.lastFetchedEpoch throws "Log doesn't have a last fetch epoch and there is a
    snapshot": only a start would begin at the snapshot's end.
    """
    anew = replace(LEADER, extent=Extent(0, EpochVector(((3, 0),), 130)))
    mine = Disk(0, EpochVector(((1, 0), (2, 8)), 12), (SnapshotFile(SnapshotId(1, 6)),))
    steps = list(join(mine, anew, WAY))
    assert names(steps) == ["started", "diverging_epoch", "truncated", "stopped"]
    assert steps[-1].note == NO_FETCH_EPOCH.format(0, "6-1")
    assert steps[-1].disk.vector.end_offset == 0
    # What `format` writes ends where the log does.
    formatted = replace(mine, snapshots=(SnapshotFile(BOOTSTRAP),))
    assert names(list(join(formatted, anew, WAY)))[-1] == CAUGHT_UP


def test_a_log_that_is_cut_below_its_own_snapshot_goes_on_from_the_cut() -> None:
    mine = Disk(0, EpochVector(((1, 0), (2, 40)), 120), (SnapshotFile(SnapshotId(2, 60)),))
    parted = replace(LEADER, extent=Extent(0, EpochVector(((1, 0), (3, 50)), 130)))
    steps = list(join(mine, parted, WAY))
    assert names(steps)[:3] == ["started", "diverging_epoch", "truncated"]
    assert steps[2].disk.vector == EpochVector(((1, 0),), 40)
    asked = next(one.request for one in steps[3:] if one.request)
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (40, 1)


def test_version_19_throws_its_log_away_first() -> None:
    mine = Disk(0, EpochVector(((1, 0),), 50))
    way = replace(WAY, dialect=Dialect.V19)
    steps = list(join(mine, LEADER, way))
    assert names(steps)[:3] == ["started", "snapshot", "snapshot_named"]
    assert steps[2].disk.vector.end_offset == 0
    booted, answer = after_crash(steps[2], LEADER, way)
    assert booted.extent.end_offset == 0
    assert answer is not None
    assert answer.kind == "snapshot"
    assert steps[-1].name == "caught_up"


def test_version_19_begins_anew_where_no_snapshot_reaches_the_log_start() -> None:
    """KIP-630 version 19 "Validation of Snapshot and Log": even a log from 0 on counts as empty."""
    mine = Disk(0, EpochVector(((2, 0),), 50))
    way = replace(WAY, dialect=Dialect.V19)
    whole = replace(LEADER, extent=Extent(0, EpochVector(((2, 0), (3, 110)), 130)))
    steps = list(join(mine, whole, way))
    assert steps[0].note is not None
    assert steps[0].note.startswith("no snapshot reaches the log start")
    assert next(one.request.fetch_offset for one in steps if one.request) == 0
    assert steps[-1].disk.vector.end_offset == 130
    rows = [step_row(number, one, whole, way) for number, one in enumerate(steps)]
    assert rows[-1]["if_node_stops"] == "fetches from offset 0: records"
    kept = next(join(mine, whole, WAY))
    assert (kept.note, kept.disk.vector.end_offset) == (None, 50)


@pytest.mark.parametrize(
    ("dialect", "told"),
    [
        (Dialect.SHIPPED, "SNAPSHOT_NOT_FOUND: deletes the .part and fetches from offset 50 again"),
        (Dialect.ADOPTED, "SNAPSHOT_NOT_FOUND: fetches from offset 50 again"),
        (Dialect.V19, "SNAPSHOT_NOT_FOUND: fetches from offset 0 and epoch 0"),
    ],
)
def test_a_snapshot_that_the_leader_deletes_meanwhile(dialect: Dialect, told: str) -> None:
    """KIP-630 "Response Handling", its errors."""
    mine = Disk(0, EpochVector(((1, 0),), 50), (SnapshotFile(SnapshotId(1, 20)),))
    way = replace(WAY, dialect=dialect)
    rows = [step_row(0, one, LEADER, way) for one in join(mine, LEADER, way)]
    assert {row["if_snapshot_is_gone"] for row in rows if row["what"] == PIECE} == {told}
    assert {row["if_snapshot_is_gone"] for row in rows if row["what"] != PIECE} == {None}


def test_a_node_that_does_not_start_goes_no_way() -> None:
    broken = replace(EMPTY, problems=("quorum-state cannot be read: not JSON",))
    (only,) = join(broken, LEADER, WAY)
    assert only.name == "does_not_start"
    assert only.note == "quorum-state cannot be read: not JSON"


def test_a_leader_without_a_snapshot_refuses_what_lies_below_its_log() -> None:
    bare = replace(LEADER, extent=replace(LEADER.extent, snapshots=()))
    steps = list(join(EMPTY, bare, replace(WAY, dialect=Dialect.ADOPTED)))
    assert names(steps)[-1] == "refused"
    assert steps[-1].note == "after OFFSET_OUT_OF_RANGE: fetch_from_own_log_end"


STEP = {
    "step": 3, "at_ms": 1234.5, "what": "log_and_more", "position": 100, "size_bytes": 50,
    "snapshot_end_offset": None, "snapshot_epoch": None, "note": None, "log_start_offset": 6,
    "log_end_offset": 12, "part_bytes": 150, "if_node_stops": "starts again",
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "log and more"),
        ({"note": "why"}, "log and more: why"),
        ({"snapshot_end_offset": 9, "snapshot_epoch": 2}, "log and more (snapshot 9-2)"),
        ({"what": "records", "snapshot_end_offset": 9}, "50 bytes of records"),
        (
            {"what": PIECE, "snapshot_end_offset": 9, "snapshot_epoch": 2, "note": "late"},
            "bytes 100 to 149 of snapshot 9-2: late",
        ),
    ],
)
def test_a_step_in_words(given: dict[str, object], what: str) -> None:
    assert in_words({**STEP, **given}) == {
        "step": 3, "seconds": 1.23, "what": what, "log": "6 to 12", "part_bytes": 150,
        "if_node_stops": "starts again",
    }  # fmt: skip
