"""The rules of sentences hold of what is written once and for all, and they can be broken."""

import pytest

from kraftlog.audit.every_check import CATALOGUE
from kraftlog.report.actions import ACTIONS
from tests.unit.sentences import LONGEST_MESSAGE, LONGEST_SENTENCE, slips

WRITTEN = {
    **{f"{one.name}, meaning": one.meaning for one in CATALOGUE},
    **{f"{one.name}, advice": one.advice for one in CATALOGUE},
    **{f"action {one.key}": one.sentence for one in ACTIONS},
    **{f"title {one.key}": f"{one.title}." for one in ACTIONS},
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_said_of_checks_and_actions_is_made_of_sentences(name: str) -> None:
    assert slips(WRITTEN[name]) == [], WRITTEN[name]


@pytest.mark.parametrize(
    "text",
    [
        "Offset 3 is missing: the batch at offset 4 follows one that ends at 2.",
        "8 partitions of 36 have no leader.",
        "Replicas 1 and 3 hold it. 1 more like it is on this replica.",
        "Its log is on voter 1, and 2 of 3 voters are needed.",
    ],
)
def test_sentences_pass(text: str) -> None:
    assert slips(text) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("the log ends.", "begin with a capital"),
        ("The log ends", "full stop"),
        ("The log ends; it was cut", "full stop"),
        ("The log  ends.", "put together"),
        ("The log ends , here.", "put together"),
        ("The log ends. it was cut.", "small letter"),
        ("It has 1 record headers.", "counts one as many"),
        ("It has 1 bytes.", "counts one as many"),
        ("2 of 3 are left: 0 more may fail.", "nobody would say"),
        ("The finding(s) are told.", "nobody would say"),
        ("The leader is None.", "inside of the program"),
        ("The log (of 1 ends.", "bracket"),
        ("The log ends. " * (LONGEST_MESSAGE // 14) + "It was cut here.", "characters"),
        (f"The log{' ends' * (LONGEST_SENTENCE // 5)} here.", "sentence of"),
    ],
)
def test_slips_are_found(text: str, wrong: str) -> None:
    assert any(wrong in one for one in slips(text)), slips(text)
