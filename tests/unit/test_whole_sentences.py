"""A sentence stands in one literal: who searches for its words finds it."""

import io
import re
import tokenize
from pathlib import Path

import kraftlog

PACKAGE = Path(kraftlog.__file__).parent
_LITERAL = re.compile(
    r"""(?P<prefix>[a-zA-Z]*)(?P<quote>\"{3}|'{3}|"|')(?P<body>.*)(?P=quote)""", re.S
)
_END_OF_SENTENCE = re.compile(r"""([.!?]["')]? ?|\\n)$""")
_QUERY = re.compile(r"\b(SELECT|FROM|WHERE|JOIN)\b")
_BETWEEN = (tokenize.NL, tokenize.COMMENT)


def broken(source: str) -> list[tuple[int, str]]:
    """(line, text) of each literal of `source` that ends amid a sentence which the next goes on with.

    Regular expressions (raw literals) and queries are no sentences.
    """
    found = []
    before: tokenize.TokenInfo | None = None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _BETWEEN:
            continue
        if before is not None and token.type == tokenize.STRING and _is_amid(before, token):
            found.append((before.start[0], before.string))
        before = token if token.type == tokenize.STRING else None
    return found


def _is_amid(one: tokenize.TokenInfo, following: tokenize.TokenInfo) -> bool:
    read = _LITERAL.fullmatch(one.string)
    assert read is not None
    if "r" in read["prefix"].lower() or _QUERY.search(one.string + following.string):
        return False
    return not _END_OF_SENTENCE.search(read["body"])


def test_no_sentence_is_broken_over_literals() -> None:
    assert {
        str(path.relative_to(PACKAGE)): found
        for path in sorted(PACKAGE.rglob("*.py"))
        if (found := broken(path.read_text(encoding="utf-8")))
    } == {}


def test_a_broken_sentence_is_found() -> None:
    assert broken('said = (\n    "The log "\n    f"ends at {end}."\n)\n') == [(2, '"The log "')]
    assert broken('said = (\n    "The log ends. "\n    "It was cut."\n)\n') == []
    assert broken('said = "The log " "ends."\n') == [(1, '"The log "')]
    assert broken('asked = "SELECT a " "FROM b"\n') == []
