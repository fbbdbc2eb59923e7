"""What is committed, of copies that are told as lists of epochs, one per record: bounds worked out
by hand.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kraftlog.quorum.bounds import (
    NOTHING_AT_HAND,
    Bounds,
    CopyStanding,
    Fate,
    HeldAlike,
    Voting,
    fate,
    interval,
)
from kraftlog.quorum.epochs import EpochVector
from tests.property.raft import shared, vector


class Copies:
    """Copies of voters 1, 2, …, which prove their ends unless they are named as open."""

    def __init__(self, voters: int | Sequence[int] = 3) -> None:
        self.voters = tuple(range(1, voters + 1)) if isinstance(voters, int) else tuple(voters)
        self.logs: dict[str, list[int]] = {}
        self.standings: list[CopyStanding] = []

    def add(
        self,
        voter: int | None,
        log: list[int],
        *,
        label: str | None = None,
        known: int | None = -1,
        proven: bool = True,
        snapshot_end: int = 0,
    ) -> "Copies":
        """A copy; it knows of no epoch above those of its log unless it says so."""
        name = label or str(voter)
        self.logs[name] = log
        heard = (log[-1] if log else 0) if known == -1 else known
        self.standings.append(CopyStanding(name, voter, vector(log), heard, proven, snapshot_end))
        return self

    @property
    def voting(self) -> Voting:
        def agree(one: str, other: str) -> int:
            return shared(self.logs[one], self.logs[other])

        return Voting(self.voters, self.standings, agree)

    def bounds(self, watermark: int | None = None, furthest: int = 0, **snapshots: int) -> Bounds:
        proofs = {f"the complete snapshot {one} ends there": end for one, end in snapshots.items()}
        return interval(self.voting, proofs, watermark, furthest, told="somebody gave it")


@pytest.mark.parametrize(
    ("voters", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)]
)
def test_a_majority_is_more_than_the_half(voters: int, majority: int) -> None:
    assert Copies(voters).voting.majority == majority


def test_who_is_at_hand_missing_and_open() -> None:
    copies = Copies(4).add(2, [1]).add(1, [1], proven=False).add(9, [1]).add(None, [1], label="o")
    voting = copies.add(2, [1], label="2-old", proven=False).voting
    assert {voter: len(found) for voter, found in voting.at_hand.items()} == {2: 2, 1: 1}
    assert voting.missing == (3, 4)
    # Voter 2 is open as one of its two copies is: nobody knows which of them is the real one.
    assert voting.open == (1, 2)


def test_what_a_majority_holds_is_the_second_longest_of_three() -> None:
    copies = Copies().add(1, [1, 1, 1]).add(2, [1, 1]).add(3, [1])
    assert copies.voting.held_by_majority() == HeldAlike(2, "1", ("1", "2"))
    assert Copies().add(1, [1, 1]).voting.held_by_majority() is None
    assert Copies().add(1, [1]).add(2, [2]).add(3, []).voting.held_by_majority() is None


def test_the_longest_prefix_counts_not_the_first_one() -> None:
    copies = Copies(5).add(1, [1, 1]).add(2, [1, 2, 2, 2]).add(3, [1, 2, 2]).add(4, [1, 2, 2])
    assert copies.voting.held_by_majority() == HeldAlike(3, "2", ("2", "3", "4"))


def test_of_two_copies_of_a_voter_the_shorter_counts() -> None:
    copies = Copies().add(1, [1, 1, 1]).add(2, [1, 1, 1]).add(2, [1], label="2-old")
    assert copies.voting.held_by_majority() == HeldAlike(1, "1", ("1", "2", "2-old"))


def test_what_a_newer_epoch_contradicts_ends_the_committed_part() -> None:
    # Two of three hold epoch 1 to offset 3; the third went on from offset 1 in epoch 2.
    copies = Copies().add(1, [1, 1, 1]).add(2, [1, 1, 1]).add(3, [1, 2])
    assert copies.voting.committed_held() == HeldAlike(1, "1", ("1", "2", "3"))
    # It goes on behind the whole prefix, and says nothing against it.
    copies = Copies().add(1, [1, 1, 1]).add(2, [1, 1, 1]).add(3, [1, 1, 1, 2])
    assert copies.voting.committed_held() == HeldAlike(3, "1", ("1", "2", "3"))
    # Nothing is shared at all.
    for log in ([1, 1], [1]):
        copies = Copies().add(1, log).add(2, log).add(3, [2])
        assert copies.voting.committed_held() is None
    # What the log holds behind the prefix has no say in its epoch.
    copies = Copies().add(1, [1, 1, 5]).add(2, [1, 1]).add(3, [1, 2])
    assert copies.voting.committed_held() == HeldAlike(1, "1", ("1", "2", "3"))


def test_a_newer_epoch_whose_log_begins_at_its_end_does_not_contradict_a_prefix() -> None:
    """The log of voter 3 begins behind a snapshot that is not at hand: no batch of it is shared."""
    copies = Copies().add(1, [1, 1, 1]).add(2, [1, 1, 1]).add(3, [])
    *others, last = copies.standings
    copies.standings = [*others, replace(last, vector=EpochVector(((2, 3),), 5), known_epoch=2)]
    assert copies.voting.committed_held() == HeldAlike(3, "1", ("1", "2"))


def test_a_newer_epoch_that_holds_the_prefix_does_not_contradict_it() -> None:
    copies = Copies(5).add(1, [1, 1, 2]).add(2, [1, 1, 2]).add(3, [1, 1]).add(4, [1, 1])
    assert copies.add(5, [1, 1]).voting.committed_held() == HeldAlike(
        2, "1", ("1", "2", "3", "4", "5")
    )


def test_an_older_epoch_contradicts_nothing() -> None:
    """Epoch 2 went another way from offset 1 on, before epoch 3 was elected without it."""
    copies = Copies(5).add(1, [1]).add(2, [1, 3, 3]).add(3, [1, 3, 3]).add(4, [1, 3, 3])
    assert copies.add(5, [1, 2, 2]).voting.committed_held() == HeldAlike(3, "2", ("2", "3", "4"))
    copies = Copies().add(1, [1, 3]).add(2, [1, 3]).add(3, [1, 2, 2])
    assert copies.voting.committed_held() == HeldAlike(2, "1", ("1", "2"))


def test_the_lowest_contradiction_counts() -> None:
    copies = Copies(5).add(1, [1, 1, 1, 1]).add(2, [1, 1, 1, 1]).add(3, [1, 1, 1, 1])
    copies.add(4, [1, 1, 1, 2]).add(5, [1, 3])
    found = copies.voting.committed_held()
    assert found is not None
    assert found.end == 1


def test_an_unseen_leader_needs_a_majority_that_could_hide_it() -> None:
    # Voters 1 and 2 are at hand, 3 is not. As long as neither has heard of an epoch above 1, voter
    # 3 has no majority.
    sure = Copies().add(1, [1, 1]).add(2, [1, 1])
    assert not sure.voting.unseen_leader(1, "1", 2)
    heard = Copies().add(1, [1, 1]).add(2, [1, 1], known=2)
    assert heard.voting.unseen_leader(1, "1", 2)
    assert heard.voting.committed_held() is None
    nobody_knows = Copies().add(1, [1, 1]).add(2, [1, 1], known=None)
    assert nobody_knows.voting.unseen_leader(1, "1", 2)


def test_the_epoch_of_a_prefix_is_that_of_its_last_record() -> None:
    """Voter 3 is missing. Of epoch 2 both others have heard, and both hold what came of it."""
    assert Copies().add(1, [1, 3]).add(2, [1, 3]).voting.committed_held() == HeldAlike(
        2, "1", ("1", "2")
    )
    # Behind the prefix stands epoch 5: who voted in epoch 2 may have been 1 and 3.
    assert Copies().add(1, [1, 1, 5]).add(2, [1, 1]).voting.committed_held() is None


@pytest.mark.parametrize(("heard", "unseen"), [(0, False), (1, False), (2, True), (3, True)])
def test_each_voter_that_heard_counts_once(heard: int, unseen: bool) -> None:
    """Of five voters one is missing: two more make a majority with it."""
    copies = Copies(5)
    for voter in range(1, 5):
        copies.add(voter, [1, 1], known=2 if voter <= heard else 1)
    assert copies.voting.unseen_leader(1, "1", 2) is unseen


def test_proven_ends_hide_nobody() -> None:
    """All voters have heard of epoch 2, but each log is whole: its leader wrote nothing."""
    copies = Copies()
    for voter in (1, 2, 3):
        copies.add(voter, [1, 1], known=2)
    assert not copies.voting.unseen_leader(1, "1", 2)
    copies.standings[2] = CopyStanding("3", 3, vector([1, 1]), 2, end_proven=False)
    assert copies.voting.unseen_leader(1, "1", 2)


@pytest.mark.parametrize(
    ("leader", "heard", "unseen"),
    [
        ([1, 1, 2], 2, False),  # the log of 1 tells of epoch 2, and holds the prefix
        ([1, 1, 2], 3, True),  # voters 2 and 3 may have elected a leader of epoch 3
        ([1, 2], 2, True),  # it departs before the prefix's end: it is no evidence for it
        ([1, 1, 2, 3], 3, False),
        ([1, 1, 2, 3], 4, True),
        ([1, 1, 3], 2, True),  # of epoch 2 nobody tells, and voter 1 may have voted in it
    ],
)
def test_an_epoch_that_holds_the_prefix_is_accounted_for(
    leader: list[int], heard: int, unseen: bool
) -> None:
    copies = Copies().add(1, leader).add(2, [1, 1], known=heard)
    assert copies.voting.unseen_leader(1, "2", 2) is unseen


@pytest.mark.parametrize(
    ("ends", "voters", "possible"),
    [
        ((5, 4, 3), 3, 4),
        ((3, 5, 4), 3, 4),
        ((5, 3), 3, 5),  # the missing one may have held as much as the longest
        ((5,), 3, None),
        ((7, 6, 5, 4, 3), 5, 5),
        ((7, 6, 5, 4), 5, 6),
        ((7, 6, 5), 5, 7),
        ((7, 6), 5, None),
        ((4, 2), 2, 2),
        ((4,), 1, 4),
    ],
)
def test_the_largest_possible_end(ends: tuple[int, ...], voters: int, possible: int | None) -> None:
    """Each log ends in an epoch of its own, from where no other goes on."""
    copies = Copies(voters)
    for voter, end in enumerate(ends, 1):
        copies.add(voter, [1] * (end - 1) + [1 + voter])
    assert copies.voting.largest_possible() == possible
    assert Copies(0).voting.largest_possible() is None


def test_a_snapshot_reaches_beyond_its_log_and_an_open_end_bounds_nothing() -> None:
    copies = Copies().add(1, [1] * 5, snapshot_end=9).add(2, [2] * 4, snapshot_end=2).add(3, [3])
    assert copies.voting.largest_possible() == 4
    copies = Copies().add(1, [1] * 5, proven=False).add(2, [2] * 4).add(3, [3])
    assert copies.voting.largest_possible() == 4
    # Of two copies of a voter the longer bounds it.
    copies = Copies().add(1, [1] * 5).add(1, [1] * 8, label="1-new").add(2, [2] * 6)
    assert copies.add(3, [3]).voting.largest_possible() == 6


@pytest.mark.parametrize(
    ("others", "continued"),
    [
        ([1, 1, 1], (1, 2)),  # both were copied at a stop, and may run again
        ([1, 1, 2], (1, 2)),
        ([1, 1], ()),
        ([1], (3,)),
        ([1, 2, 2], ()),  # another history: a tail that is cut
    ],
)
def test_where_another_copy_goes_on_nothing_tells_how_far_a_log_went(
    others: list[int], continued: tuple[int, ...]
) -> None:
    copies = Copies().add(1, [1, 1]).add(2, [1, 1]).add(3, others)
    assert (copies.voting.continued, copies.voting.open) == (continued, continued)
    # An older copy of a voter says nothing of its newer one, and an observer goes on as well.
    assert copies.add(1, [1], label="1-old").voting.continued == continued
    assert copies.add(None, [1, 1, 1], label="o").voting.continued[:2] == (1, 2)
    found = Copies().add(1, [1, 1]).add(2, [1, 1]).add(3, [1, 1, 1]).bounds()
    assert (found.lower, found.upper) == (2, None)
    assert found.upper_reason == (
        "voters 1 and 2 may have gone on since, as another copy goes on from there"
    )


def test_a_snapshot_goes_on_from_logs_that_it_shares_nothing_with() -> None:
    copies = Copies().add(1, [1, 1]).add(2, [1, 1]).add(3, [], snapshot_end=7)
    assert copies.voting.continued == (1, 2)


def test_nothing_at_hand_says_nothing() -> None:
    assert Copies(0).bounds() == Bounds(
        0, NOTHING_AT_HAND, None, "nothing at hand says who votes", 1, ()
    )
    found = Copies(0).bounds()
    assert found.upper != found.lower


def test_the_lower_end_is_the_furthest_of_what_is_proven() -> None:
    copies = Copies().add(1, [1, 1, 1]).add(2, [1, 1])
    majority = "a majority of the voters (1, 2) holds the same batches"
    assert copies.bounds().lower == 2
    assert copies.bounds().lower_reason == majority
    found = copies.bounds(old=1, new=3, middle=2)
    assert (found.lower, found.lower_reason) == (3, "the complete snapshot new ends there")
    assert copies.bounds(old=2).lower_reason == "the complete snapshot old ends there"
    assert copies.bounds(old=1).lower_reason == majority
    assert Copies().bounds(first=1).lower == 1
    assert Copies().bounds(empty=0).lower_reason == NOTHING_AT_HAND


def test_voters_are_named_by_their_ids_whatever_their_folders_are_called() -> None:
    copies = Copies().add(3, [1, 1], label="1").add(1, [1, 1], label="old").add(2, [1], label="3")
    assert copies.bounds().lower_reason.startswith("a majority of the voters (1, 3) holds")


def test_both_ends_meet_where_all_ends_are_proven() -> None:
    copies = Copies().add(1, [1, 1]).add(2, [1, 1]).add(3, [1])
    found = copies.bounds()
    assert (found.lower, found.upper) == (2, 2)
    assert found.upper_reason == "no majority of the voters can ever have held more"
    # Voter 3 may have gone on, but without the others it commits nothing.
    assert (found.majority, found.missing_voters, found.open_voters) == (2, (), (3,))


def test_ends_before_what_is_committed_bound_nothing() -> None:
    """A snapshot that ends behind all logs was taken of what was committed, whatever they hold: the
    nodes have gone on.
    """
    copies = Copies().add(1, [1]).add(2, [1]).add(3, [1])
    found = copies.bounds(ahead=9)
    assert (found.lower, found.upper) == (9, None)
    assert found.upper_reason == "what is committed goes on behind the ends of the copies at hand"
    found = copies.add(4, [1], proven=False).bounds(watermark=9, furthest=1)
    assert (found.lower, found.upper) == (9, None)
    assert copies.bounds(even=1).upper_reason == "no majority of the voters can ever have held more"


def test_a_describe_raises_the_lower_end_and_bounds_the_upper_one() -> None:
    given = "somebody gave it"
    copies = Copies().add(1, [1] * 5, proven=False)
    found = copies.bounds(watermark=3, furthest=5, old=3)
    assert (found.lower, found.lower_reason, found.upper) == (3, given, 5)
    assert found.upper_reason == (
        "kafka-metadata-quorum describe gave it, and no copy at hand ends later"
    )
    # One that is older than a snapshot tells nothing new.
    found = copies.bounds(watermark=2, furthest=3, old=3)
    assert (found.lower, found.upper) == (3, None)
    assert found.lower_reason == "the complete snapshot old ends there"
    # What the copies prove is not replaced.
    closed = Copies().add(1, [1, 1]).add(2, [1, 1]).add(3, [1, 3, 3])
    assert closed.bounds(watermark=2, furthest=3).upper == 2


@pytest.mark.parametrize(
    ("voters", "proven", "reason"),
    [
        ((1, 2), True, "no copy of voters 3, 4 and 5 is at hand"),
        ((1, 2, 3), False, "no copy of voters 4 and 5 is at hand and nothing proves where the log "
         "of voters 1, 2 and 3 ended"),
        ((1, 2, 3, 4), False, "no copy of voter 5 is at hand and nothing proves where the log of "
         "voters 1, 2, 3 and 4 ended"),
    ],
)  # fmt: skip
def test_whose_copies_would_tell_more(voters: tuple[int, ...], proven: bool, reason: str) -> None:
    copies = Copies(5)
    for voter in voters:
        copies.add(voter, [1], proven=proven)
    assert copies.bounds().upper is None
    assert copies.bounds().upper_reason == reason
    assert copies.bounds().missing_voters == tuple(set(copies.voters) - set(voters))
    assert copies.bounds().open_voters == (() if proven else voters)


@pytest.mark.parametrize(
    ("before", "changed_at", "upper"),
    [
        ((1, 2, 3), 3, 3),  # 2 and 3 can have held what is before the change
        ((1, 2, 3), 1, 2),  # the change is committed
        ((1, 2, 3, 4, 5), 3, None),  # 3, 4 and 5 can have gone on without hearing of it
    ],
)
def test_the_voters_before_a_change(
    before: tuple[int, ...], changed_at: int, upper: int | None
) -> None:
    copies = Copies(2).add(1, [1, 2]).add(2, [1, 1, 1, 1])
    earlier = [(changed_at, replace(copies.voting, voters=before))]
    assert interval(copies.voting, {}, earlier=earlier).upper == upper


V = frozenset({1, 2, 3})


@pytest.mark.parametrize(
    ("voters", "holders", "granted", "later", "expected"),
    [
        (None, {1}, {2, 3}, False, Fate.UNKNOWN),
        (V, {1}, None, False, Fate.UNKNOWN),
        (V, {1}, {2, 3}, False, Fate.UNCOMMITTED),
        (V, {1}, {2, 3}, True, Fate.UNKNOWN),
        (V, {1}, {3}, False, Fate.UNKNOWN),  # 1 and 2 could be a majority
        (V, {1, 2}, {2, 3}, False, Fate.COMMITTED),
        (V, {1, 2}, {2, 3}, True, Fate.UNKNOWN),  # the later leader may have spread it
        (V, {1, 9}, {2, 3}, False, Fate.UNCOMMITTED),  # who does not vote makes no majority
        (frozenset({1, 2, 3, 4}), {1, 2}, {3, 4}, False, Fate.UNCOMMITTED),
        (frozenset({1, 2, 3, 4}), {1, 2}, {4}, False, Fate.UNKNOWN),
        (frozenset({1}), {1}, {2}, False, Fate.COMMITTED),
        (V, {1, 2}, {4, 5}, True, Fate.COMMITTED),  # the later leader was one of others
    ],
)
def test_the_fate_of_a_tail(
    voters: frozenset[int] | None,
    holders: set[int],
    granted: set[int] | None,
    later: bool,
    expected: Fate,
) -> None:
    assert fate(voters, holders, granted, later) == expected
