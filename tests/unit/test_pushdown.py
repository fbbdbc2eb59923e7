"""Pushed filters: what they rule out, and what they must not."""

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from kraftlog.source.pushdown import Pushed, push


def test_types_and_replicas_meet() -> None:
    pushed = push([In(("type",), ("A", "B")), EqualTo(("type",), "B"), EqualTo(("replica",), "1")])
    assert pushed == Pushed(replicas=frozenset(["1"]), types=frozenset(["B"]))


def test_offsets_become_inclusive_bounds() -> None:
    pushed = push([GreaterThan(("offset",), 4), LessThan(("offset",), 9)])
    assert (pushed.first_offset, pushed.last_offset) == (5, 8)
    pushed = push([GreaterThanOrEqual(("offset",), 4), LessThanOrEqual(("offset",), 9)])
    assert (pushed.first_offset, pushed.last_offset) == (4, 9)
    pushed = push([EqualTo(("offset",), 7), GreaterThan(("offset",), 1)])
    assert (pushed.first_offset, pushed.last_offset) == (7, 7)


def test_an_upper_bound_on_last_offset_does_not_hide_a_batch_that_begins_below_it() -> None:
    pushed = push([LessThan(("last_offset",), 5)])
    assert pushed.last_offset is None
    assert push([GreaterThan(("last_offset",), 5)]).first_offset == 6


def test_a_lower_bound_on_base_offset_may_see_batches_that_reach_it() -> None:
    pushed = push([GreaterThanOrEqual(("base_offset",), 5)])
    assert (pushed.first_offset, pushed.last_offset) == (5, None)


def test_what_is_not_understood_rules_nothing_out() -> None:
    filters = [Not(EqualTo(("type",), "A")), IsNotNull(("offset",)), EqualTo(("a", "b"), 1)]
    assert push(filters) == Pushed()
