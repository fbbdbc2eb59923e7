"""A sentence stands in one literal: who searches for its words finds it."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import kraftlog

PACKAGE = Path(kraftlog.__file__).parent
_LITERAL = re.compile(
    r"""(?P<prefix>[a-zA-Z]*)(?P<quote>\"{3}|'{3}|"|')(?P<body>.*)(?P=quote)""", re.S
)
_END_OF_SENTENCE = re.compile(r"""([.!?]["')]? ?|\\n)$""")
_QUERY = re.compile(r"\b(SELECT|FROM|WHERE|JOIN)\b")
_BETWEEN = (tokenize.NL, tokenize.COMMENT)
_OPENS, _CLOSES = (getattr(tokenize, f"FSTRING_{one}", None) for one in ("START", "END"))


def broken(source: str) -> list[tuple[int, str]]:
    """(line, text) of each literal of `source` that ends amid a sentence which the next goes on with.

    Regular expressions (raw literals) and queries are no sentences.
    """
    found = []
    before: Literal | None = None
    for literal in _literals(source):
        if before is not None and literal is not None and _is_amid(before, literal):
            found.append((before.line, before.text))
        before = literal
    return found


class Literal(NamedTuple):
    """A literal as the source has it, and its first line."""

    line: int
    text: str


def _literals(source: str) -> Iterator[Literal | None]:
    """The literals in order; None for all else that is no comment. Python 3.12 and newer take an
    f-string apart: here it is one literal.
    """
    lines = source.splitlines(keepends=True)
    start, depth = (0, 0), 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == _OPENS:
            start, depth = (start if depth else token.start), depth + 1
        elif token.type == _CLOSES:
            depth -= 1
            if not depth:
                text = "".join(lines[start[0] - 1 : token.end[0]])
                after = len(lines[token.end[0] - 1]) - token.end[1]
                yield Literal(start[0], text[start[1] : len(text) - after])
        elif not depth and token.type not in _BETWEEN:
            is_literal = token.type == tokenize.STRING
            yield Literal(token.start[0], token.string) if is_literal else None


def _is_amid(one: Literal, following: Literal) -> bool:
    read = _LITERAL.fullmatch(one.text)
    assert read is not None
    if "r" in read["prefix"].lower() or _QUERY.search(one.text + following.text):
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
