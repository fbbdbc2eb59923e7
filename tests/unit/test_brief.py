"""Messages and evidence of findings stay within a few KB."""

import json
from typing import Any

import pytest

from kraftlog.audit.runner import EVIDENCE_LIMIT, MESSAGE_LIMIT, brief, brief_text


def test_what_is_short_stays_as_it_is() -> None:
    evidence = {"offsets": [1, 2, 3], "words": {"a": "b", "more": None}, "path": "x" * 300}
    assert brief(evidence) == evidence
    assert brief_text("let it restart") == "let it restart"


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    text = brief_text("partition 7 lists " + "1, " * 1_000_000 + "so look for who wrote it")
    assert len(text) < MESSAGE_LIMIT + 100
    assert text.startswith("partition 7 lists 1, 1")
    assert text.endswith("so look for who wrote it")
    assert "more characters" in text


@pytest.mark.parametrize(
    "value",
    [
        list(range(3_000_000)),
        "x" * 3_000_000,
        {str(one): one for one in range(300_000)},
        {"a cluster's id " * 200_000: 1},
        [["y" * 1000] * 100] * 100,
        [{"data": {"replicas": [1] * 1_000_000}}] * 3,
    ],
    ids=["numbers", "text", "keys", "a key", "nested", "records"],
)
def test_any_evidence_fits(value: Any) -> None:
    """All keys stay, and what was left out is counted."""
    found = brief({"first": value, "second": value, "count": 3})
    assert list(found) == ["first", "second", "count"]
    assert found["count"] == 3
    told = json.dumps(found)
    assert len(told) < 2 * EVIDENCE_LIMIT
    assert "more" in told
