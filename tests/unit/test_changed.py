"""What of two runs' findings is new, gone, or the same at another place; who led which epoch."""

from typing import Any

import pytest

from kraftlog.audit.health_checks import DOUBT
from kraftlog.explain.elected import elected_by
from kraftlog.pipeline.changed import UNSEEN, finding_changes, placed, renamed

Row = dict[str, Any]


def finding(
    replica: str | None, offset: int | None = None, check: str = "a", **evidence: Any
) -> Row:
    return {
        "check": check, "severity": "warning", "replica": replica, "path": "f", "offset": offset,
        "message": f"{check} of {replica} at {offset}", "evidence": evidence,
    }  # fmt: skip


def changes(before: list[Row], after: list[Row]) -> list[tuple[str, str]]:
    at_hand = {"1", "2", "9"}
    return [(one["change"], one["text"]) for one in finding_changes(before, after, at_hand)]


def test_what_is_equal_is_not_told() -> None:
    assert changes([finding("1", 3)], [finding("1", 3)]) == []


def test_a_copy_in_another_folder_is_the_same() -> None:
    def copied(day: str) -> list[Row]:
        names = ("log/00.log", "meta.properties")
        rows = [finding("1", 3) | {"path": f"{day}/1/{name}"} for name in names]
        return [*placed([*rows, finding("9", 3)], [{"replica": "1", "folder": f"{day}/1/log"}])]

    assert [one["path"] for one in copied("/day1")] == ["00.log", "../meta.properties", "f"]
    assert changes(copied("/day1"), copied("/day2")) == []
    assert copied("s3://a/day1") == copied("s3://a/day2")


@pytest.mark.parametrize("replica", ["1", None])
def test_new_and_gone(replica: str | None) -> None:
    one, other = finding(replica, 3), finding("2", 3, "b")
    assert changes([one], [other]) == [("new", "b of 2 at 3"), ("gone", f"a of {replica} at 3")]


def test_what_nobody_looked_at_again_is_not_called_mended() -> None:
    note = UNSEEN.format(replica="3")
    assert changes([finding("3", 3)], []) == [("gone", f"{note}a of 3 at 3")]


def test_what_has_only_moved_is_told_once() -> None:
    assert changes([finding("1", 3)], [finding("1", 4)]) == [("changed", "a of 1 at 4")]


def test_of_several_nobody_knows_which_has_moved() -> None:
    found = changes([finding("1", 3)], [finding("1", 4), finding("1", 5)])
    assert [change for change, _ in found] == ["new", "new", "gone"]


def test_another_broker_is_another_finding() -> None:
    found = changes([finding(None, broker_id=11)], [finding(None, broker_id=12)])
    assert [change for change, _ in found] == ["new", "gone"]
    found = changes([finding("1", 3, kind="topics")], [finding("1", 4, kind="acls")])
    assert [change for change, _ in found] == ["new", "gone"]


def test_worse_is_new() -> None:
    worse = finding("1", 3) | {"severity": "critical"}
    assert [change for change, _ in changes([finding("1", 3)], [worse])] == ["new", "gone"]


def test_other_names_are_a_change() -> None:
    one, other = finding(None, 3, names=["x"]), finding(None, 3, names=["y"])
    assert changes([one], [other]) == [("changed", "a of None at 3")]
    assert changes([one], [one]) == []


def test_other_words_are_a_change_and_other_figures_are_none() -> None:
    one, other, moved = (
        finding(None, 3) | {"message": text}
        for text in (
            "Since offset 3, start 12.",
            "Since offset 3, all is lost.",
            f"Since offset 4, start 12 (c12).{DOUBT.format(9)}",
        )
    )
    assert changes([one], [other]) == [("changed", "Since offset 3, all is lost.")]
    assert changes([one], [moved]) == []


def test_another_label_is_the_same_where_node_and_directory_are() -> None:
    def copy(label: str, node: int | None, directory: str | None = "d") -> Row:
        return {"replica": label, "cluster_id": "c", "node_id": node, "directory_id": directory}

    before = [copy("1", 1), copy("2", 2), copy("3", 3), copy("4", 4, None), copy("live", None)]
    after = [copy("2", 1), copy("1", 2), copy("c3", 3), copy("d3", 3), copy("c4", 4, None)]
    assert renamed(before, after) == {"1": "2", "2": "1"}


@pytest.mark.parametrize("order", [1, -1])
def test_an_epoch_is_told_once_by_the_copy_that_knows_most(order: int) -> None:
    """`b` begins amid epoch 1, and has lost where epochs 3 and 4 begin; `c` is of another cluster."""
    told = [
        ("a", 1, 0, None, False), ("a", 2, 40, 5, True), ("b", 1, 20, None, False),
        ("b", 2, 40, 5, True), ("b", 3, 90, None, False), ("d", 3, 70, None, False),
        ("b", 4, 95, 6, False), ("c", 1, 0, 7, True), ("c", 2, 9, 8, True), ("c", 5, 10, 7, True),
    ]  # fmt: skip
    names = ("replica", "batch_leader_epoch", "start_offset", "leader_id", "has_leader_change")
    epochs = [dict(zip(names, one, strict=True)) for one in told][::order]
    replicas = [{"replica": name, "committed_lower": None if name == "c" else 0} for name in "abcd"]
    assert [one.as_row("new")["text"] for one in elected_by(epochs, replicas).values()] == [
        "leader nobody that the copies name in epoch 1, from offset 0 on",
        "leader 5 in epoch 2, from offset 40 on",
        "leader nobody that the copies name in epoch 3, which had begun by offset 70",
        "leader 6 in epoch 4, which had begun by offset 95",
    ]
