"""Majorities of two sets of voters: what is told of them is what trying all of them gives."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from kraftlog.quorum.voters import Members, disjoint_majorities

voters = st.lists(
    st.tuples(st.integers(1, 7), st.sampled_from(["a", "b"])), min_size=1, max_size=6, unique=True
).map(lambda found: tuple(sorted({node: (node, where) for node, where in found}.values())))


def majorities(members: Members) -> list[set[tuple[int, str | None]]]:
    return [set(one) for one in combinations(members, len(members) // 2 + 1)]


@given(voters, voters)
def test_two_majorities_that_share_nobody_are_found_where_there_are_any(
    one: Members, other: Members
) -> None:
    apart = [(a, b) for a in majorities(one) for b in majorities(other) if not a & b]
    found = disjoint_majorities(one, other)
    assert (found is None) == (not apart)
    if found is not None:
        told = [({node for node, _ in a}, {node for node, _ in b}) for a, b in apart]
        assert tuple(set(ids) for ids in found) in told


@given(voters, st.integers(8, 9))
def test_a_change_of_one_voter_never_parts_the_majorities(one: Members, node: int) -> None:
    assert disjoint_majorities(one, (*one, (node, "a"))) is None
    if len(one) > 1:
        assert disjoint_majorities(one, one[1:]) is None


def test_where_one_side_knows_no_directories_the_id_tells_a_voter() -> None:
    three = ((1, "a"), (2, "b"), (3, "c"))
    plain = ((1, None), (2, None), (3, None))
    other = ((1, "x"), (2, "y"), (3, "c"))
    assert disjoint_majorities(three, plain) is None
    assert disjoint_majorities(three, other) == ((1, 2), (1, 2))
    assert disjoint_majorities(((1, None),), plain) == ((1,), (2, 3))
