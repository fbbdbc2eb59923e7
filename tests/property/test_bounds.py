"""The committed interval over tens of thousands of histories of a quorum: what is called committed
can never be undone, what was committed lies below the upper bound, no tail of which anything was
committed is called uncommitted, and none of which nothing was is called committed.
"""

import pytest

from kraftlog.quorum.bounds import Bounds, Fate, Voting, fate, interval
from tests.property.raft import Copies, Quorum, copies_of, history, shared

PARTS, EACH = 4, 6_000
Past = list[tuple[int, Quorum, Copies]]


@pytest.fixture(scope="module", params=range(PARTS))
def past(request: pytest.FixtureRequest) -> Past:
    """A part of the histories: seeds, quorums, and copies of their disks. Nobody changes them."""
    seeds = range(request.param * EACH, (request.param + 1) * EACH)
    quorums = [(seed, history(seed)) for seed in seeds]
    return [(seed, quorum, copies_of(quorum)) for seed, quorum in quorums]


def bounds_of(quorum: Quorum, copies: Copies) -> tuple[Bounds, Voting]:
    def agree(one: str, other: str) -> int:
        return shared(copies.logs[int(one)], copies.logs[int(other)])

    voting = Voting(tuple(quorum.nodes), copies.standings, agree)
    return interval(voting, {}), voting


def test_the_interval_holds_the_truth(past: Past) -> None:
    exact = proven = bounded = 0
    for seed, quorum, copies in past:
        bounds, voting = bounds_of(quorum, copies)
        held = voting.committed_held()
        if held is not None:
            prefix = copies.logs[int(held.label)][: held.end]
            assert quorum.cannot_be_undone(prefix), f"seed {seed}"
        if bounds.upper is not None:
            assert bounds.lower <= bounds.upper, f"seed {seed}"
            assert len(quorum.committed) <= bounds.upper, f"seed {seed}"
        exact += bounds.upper == bounds.lower and bounds.lower > 0
        proven += held is not None
        bounded += bounds.upper is not None
    # Bounds that never say anything would hold as well.
    assert proven > EACH // 10
    assert bounded > EACH // 50
    assert exact > EACH // 500


def test_a_tail_is_called_what_it_is(past: Past) -> None:
    told = dict.fromkeys(Fate, 0)
    for seed, quorum, copies in past:
        _, voting = bounds_of(quorum, copies)
        for log in copies.logs.values():
            for label, other in copies.logs.items():
                start = shared(log, other)
                if start >= min(len(log), len(other)) or log[-1] >= other[-1]:
                    continue
                holders = {n for n, one in copies.logs.items() if shared(one, log) > start}
                newer = next(epoch for epoch in other if epoch > log[start])
                later = any(copies.logs[one][-1] > newer for one in holders)
                later |= voting.unseen_leader(newer, str(label), start + 1)
                found = fate(frozenset(quorum.nodes), holders, quorum.granted[newer], later)
                told[found] += 1
                is_committed = quorum.committed[start : start + 1] == [log[start]]
                assert not (found == Fate.UNCOMMITTED and is_committed), f"seed {seed}"
                assert not (found == Fate.COMMITTED and not is_committed), f"seed {seed}"
    assert told[Fate.UNCOMMITTED] > EACH // 20
