"""How often Python looks for cycles."""

import gc

import pytest

from kraftlog.failures import FAILED, guarded
from kraftlog.garbage import THRESHOLDS


def test_seldom_while_a_command_works_and_as_before_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tests_own, seen = gc.get_threshold(), []
    gc.set_threshold(701, 11, 12)

    def work() -> int:
        seen.append(gc.get_threshold())
        return 1 // 0

    try:
        assert guarded(work) == FAILED
        assert (seen, gc.get_threshold()) == ([THRESHOLDS], (701, 11, 12))
    finally:
        gc.set_threshold(*tests_own)
    assert capsys.readouterr().err.startswith("kraftlog: ")
