"""How often Python looks for cycles."""

import gc

import pytest

from kraftlog.failures import FAILED, guarded
from kraftlog.garbage import THRESHOLDS


def test_seldom_while_a_command_works_and_as_before_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, seen = gc.get_threshold(), []

    def work() -> int:
        seen.append(gc.get_threshold())
        return 1 // 0

    assert guarded(work) == FAILED
    assert (seen, gc.get_threshold()) == ([THRESHOLDS], before)
    assert before != THRESHOLDS
    assert capsys.readouterr().err.startswith("kraftlog: ")
