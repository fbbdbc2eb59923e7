"""What the rules of a state tell, gathered: in order, a thousand of each kind, and all counted."""

from kraftlog.audit.issues import ISSUE_LIMIT, Issues
from kraftlog.audit.state_rules import Issue


def told(check: str, text: str, kind: str | None = None) -> Issue:
    return Issue(check, text, {} if kind is None else {"kind": kind})


def test_issues_come_in_the_order_of_their_offsets() -> None:
    issues = Issues()
    for offset, check in ((7, "b"), (3, "b"), (5, "a")):
        issues.add(offset, told(check, f"at {offset}"))
    assert [(offset, one.check, one.text) for offset, one in issues.told()] == [
        (3, "b", "at 3"), (5, "a", "at 5"), (7, "b", "at 7"),
    ]  # fmt: skip
    assert all(one.evidence == {} for _, one in issues.told())


def test_the_last_of_each_kind_counts_what_is_not_kept() -> None:
    issues = Issues()
    for offset in reversed(range(2 * ISSUE_LIMIT + 5)):
        issues.add(offset, told("a", "-", "many"))
    issues.add(1, told("a", "-", "few"))
    issues.add(9_999, told("b", "-", "many"))
    found = list(issues.told())
    assert len(found) == ISSUE_LIMIT + 2
    more = {
        (offset, one.check): dict(one.evidence) for offset, one in found if "more" in one.evidence
    }
    assert more == {(ISSUE_LIMIT - 1, "a"): {"kind": "many", "more": ISSUE_LIMIT + 5}}
    assert found[-1][0] == 9_999


def test_parts_of_a_history_are_put_together() -> None:
    first, second = Issues(), Issues()
    for offset in range(ISSUE_LIMIT):
        first.add(2 * offset, told("a", "-"))
        second.add(2 * offset + 1, told("a", "-"))
    second.add(4, told("b", "other"))
    second.drop(told("b", "other"), 7)
    first.drop(told("a", "-"), 30)
    first.merge(second)
    found = list(first.told())
    assert [offset for offset, one in found if one.check == "a"] == list(range(ISSUE_LIMIT))
    last = {one.check: one.evidence.get("more") for _, one in found if "more" in one.evidence}
    assert last == {"a": ISSUE_LIMIT + 30, "b": 7}
    kinds = sorted((len(kept), dropped) for kept, dropped in first.kinds())
    assert kinds == [(1, 7), (ISSUE_LIMIT, ISSUE_LIMIT + 30)]
