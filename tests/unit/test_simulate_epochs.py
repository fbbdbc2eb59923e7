"""Leader-epoch vectors: the worked examples of KAFKA-1211, gaps, pruning, and the truth table of
OffsetForLeaderEpoch.
"""

import pytest

from kraftlog.quorum.epochs import (
    EpochEnd,
    EpochVector,
    claimed_by,
    diverging_epoch,
    offset_for_leader_epoch,
    truncated_to,
    truncation_offset,
)
from kraftlog.simulate.out_of_range import (
    Consumer,
    Decision,
    Policy,
    Step,
    consumer_epoch_end,
    out_of_range,
)

GAPPED = EpochVector(((1, 0), (4, 10), (6, 25)), 40)
"""Epochs 2, 3 and 5 wrote nothing."""


def vector(*entries: tuple[int, int], end: int) -> EpochVector:
    return EpochVector(entries, end)


def test_the_first_example_cuts_m2_at_offset_1() -> None:
    """A holds m1 and m2 of epoch 1; B took over with m1 and wrote m3, m4 in epoch 2."""
    a, b = vector((1, 0), end=2), vector((1, 0), (2, 1), end=3)
    assert offset_for_leader_epoch(b, 1) == EpochEnd(1, 1)
    assert truncation_offset(a, b) == 1


def test_the_second_example_keeps_both_records() -> None:
    """m1 and m2 were both committed: B's epoch 2 starts at 2."""
    a, b = vector((1, 0), end=2), vector((1, 0), (2, 2), end=4)
    assert offset_for_leader_epoch(b, 1) == EpochEnd(1, 2)
    assert truncation_offset(a, b) == 2


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (1, EpochEnd(1, 10)),
        (2, EpochEnd(1, 10)),
        (3, EpochEnd(1, 10)),
        (4, EpochEnd(4, 25)),
        (5, EpochEnd(4, 25)),
        (6, EpochEnd(6, 40)),
        (7, None),
        (0, EpochEnd(0, 0)),
    ],
)
def test_the_end_of_an_epoch_in_a_vector_with_gaps(epoch: int, end: EpochEnd | None) -> None:
    assert offset_for_leader_epoch(GAPPED, epoch) == end


def test_an_epoch_below_a_pruned_vector_ends_where_it_starts() -> None:
    pruned = vector((4, 12), (6, 25), end=40)
    assert offset_for_leader_epoch(pruned, 1) == EpochEnd(1, 12)


def test_an_empty_log_knows_no_epoch() -> None:
    empty = vector(end=7)
    assert offset_for_leader_epoch(empty, 1) is None
    assert diverging_epoch(empty, 9, 3) == EpochEnd(0, 7)
    assert truncated_to(vector((3, 0), end=9), EpochEnd(0, 7)) == 7
    assert truncation_offset(empty, GAPPED) == 7


@pytest.mark.parametrize(
    ("entries", "claimed"),
    [
        # What the batches have above the entries is added; what is below goes by the entries.
        ([], ((1, 0), (2, 8))),
        ([(1, 0)], ((1, 0), (2, 8))),
        ([(1, 0), (2, 7)], ((1, 0), (2, 7))),
        ([(1, 6), (2, 8)], ((1, 6), (2, 8))),
        ([(2, 8)], ((2, 8),)),
        # An entry takes the place of what stands before it and does not fit.
        ([(1, 0), (9, 5), (2, 8)], ((1, 0), (2, 8))),
        ([(2, 8), (1, 0)], ((1, 0), (2, 8))),
        # At the end of the log, or behind it, nothing was written of an epoch.
        ([(1, 0), (2, 8), (3, 12)], ((1, 0), (2, 8))),
        ([(1, 0), (7, 20)], ((1, 0),)),
        ([(7, 20)], ()),
        # Of an epoch's entries the lowest counts.
        ([(1, 0), (2, 10), (2, 9), (2, 11)], ((1, 0), (2, 9))),
        # The rest is believed.
        ([(1, 0), (2, 8), (3, 9), (5, 11)], ((1, 0), (2, 8), (3, 9), (5, 11))),
        ([(1, 0), (2, 8), (3, 7)], ((1, 0), (3, 7))),
        ([(7, 0)], ((7, 0),)),
    ],
)
def test_what_a_node_claims_by_its_file(
    entries: list[tuple[int, int]], claimed: tuple[tuple[int, int], ...]
) -> None:
    assert claimed_by(entries, vector((1, 0), (2, 8), end=12)) == vector(*claimed, end=12)


def test_a_file_beside_an_empty_log_is_believed() -> None:
    assert claimed_by([(3, 0)], vector(end=12)) == vector((3, 0), end=12)
    assert claimed_by([(3, 12)], vector(end=12)) == vector(end=12)


def test_a_file_of_very_many_epochs_is_walked_once() -> None:
    """Each entry took a copy of those before it: this one took hours."""
    entries = [(one, one) for one in range(1, 1_000_000)]
    claimed = claimed_by([*entries, (5, 3)], vector((1, 0), end=2_000_000))
    assert claimed == vector((1, 1), (2, 2), (5, 3), end=2_000_000)


def test_an_epoch_that_wrote_nothing_is_forgotten() -> None:
    """KAFKA-1211: a leader notes its epoch before it writes; the next one at the same offset takes
    its place."""
    led = vector((1, 0), end=5).assigned(2)
    assert led.entries == ((1, 0), (2, 5))
    assert led.assigned(3).entries == ((1, 0), (3, 5))
    assert led.extended(6).assigned(3).entries == ((1, 0), (2, 5), (3, 6))


def test_a_truncated_vector_forgets_what_begins_beyond() -> None:
    assert GAPPED.truncated(25) == vector((1, 0), (4, 10), end=25)
    assert GAPPED.truncated(26).last_epoch == 6
    assert GAPPED.epoch_at(24) == 4
    assert GAPPED.epoch_at(25) == 6


@pytest.mark.parametrize(
    ("follower", "leader", "cut"),
    [
        # The follower's epoch is a gap of the leader: back to the older one, on both sides.
        (((1, 0), (2, 10), (3, 20)), ((1, 0), (4, 12)), 10),
        # Both wrote in epoch 2: the shorter end of it.
        (((1, 0), (2, 10), (5, 18)), ((1, 0), (2, 10), (6, 15)), 15),
        (((1, 0), (2, 10), (5, 13)), ((1, 0), (2, 10), (6, 15)), 13),
        # Epochs that took turns, none in common but the first.
        (((1, 0), (3, 5), (5, 9)), ((1, 0), (2, 4), (4, 8), (6, 12)), 4),
        # The follower is of a newer epoch than all that this leader has seen.
        (((1, 0), (7, 10)), ((1, 0),), 10),
        # Nothing in common at all.
        (((2, 0),), ((3, 0),), 0),
    ],
)
def test_where_a_log_is_cut(
    follower: tuple[tuple[int, int], ...], leader: tuple[tuple[int, int], ...], cut: int
) -> None:
    assert truncation_offset(EpochVector(follower, 30), EpochVector(leader, 40)) == cut


def test_a_follower_that_is_a_prefix_keeps_everything() -> None:
    for end in range(41):
        behind = GAPPED.truncated(end)
        assert truncation_offset(behind, GAPPED) == end


def test_a_leader_that_ends_earlier_in_the_same_epoch_cuts_the_rest() -> None:
    assert truncation_offset(GAPPED, GAPPED.truncated(30)) == 30


@pytest.mark.parametrize(
    ("epoch", "end", "policy", "decision"),
    [
        (4, EpochEnd(4, 25), "latest", (Decision.CONTINUE, 20)),
        (4, EpochEnd(4, 20), "none", (Decision.CONTINUE, 20)),
        (4, EpochEnd(4, 19), "latest", (Decision.RESET_TO_DIVERGENCE, 19)),
        (4, EpochEnd(4, 15), "none", (Decision.RAISE_TRUNCATION, 15)),
        (4, EpochEnd(3, 25), "latest", (Decision.RESET_TO_DIVERGENCE, 25)),
        (4, EpochEnd(2, 10), "earliest", (Decision.RESET_TO_DIVERGENCE, 10)),
        (4, None, "latest", None),
        (None, EpochEnd(4, 25), "latest", None),
    ],
)
def test_the_truth_table(
    epoch: int | None, end: EpochEnd | None, policy: str, decision: Step | None
) -> None:
    """KIP-392: a reader at offset 20, and the epoch of its last record."""
    assert out_of_range(Consumer(20, epoch, Policy(policy)), end) == decision


def test_a_consumer_sees_ends_below_the_high_watermark_only() -> None:
    """KIP-392."""
    assert offset_for_leader_epoch(GAPPED, 6) == EpochEnd(6, 40)
    assert consumer_epoch_end(GAPPED, 6, 31) == EpochEnd(6, 31)
    assert consumer_epoch_end(GAPPED, 4, 31) == EpochEnd(4, 25)
    assert consumer_epoch_end(GAPPED, 7, 31) is None
