"""Findings stay readable: a message and its evidence have a few KB, whatever a log makes of them.

In: texts and plain values of any size. Out: the same within a limit, with a word on what was left
out. A record of millions of replicas would else be a finding of many megabytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MESSAGE_LIMIT = 2000
EVIDENCE_LIMIT = 6000
REASON_LIMIT = 800
_SHORTEST = 40
_NUMBER_SIZE = 8


def brief_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text; where it has more characters than the limit, its beginning and its end, where
    messages say what to do.
    """
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[-limit // 4 :]
    return f"{head} … ({len(text) - len(head) - len(tail):,} more characters) … {tail}"


def brief(evidence: Mapping[str, Any], limit: int = EVIDENCE_LIMIT) -> dict[str, Any]:
    """The evidence under all of its keys, with values that together have about so many characters
    at most.
    """
    room = _Room(limit)
    return {key: _kept(value, room) for key, value in evidence.items()}


@dataclass
class _Room:
    left: int


def _kept(value: Any, room: _Room) -> Any:
    if isinstance(value, str):
        text = brief_text(value, max(room.left, _SHORTEST))
        room.left -= len(text)
        return text
    if isinstance(value, Mapping):
        return dict(zip(value, _elements(list(value.values()), room), strict=False))
    if isinstance(value, list | tuple | set | frozenset):
        return _elements(list(value), room)
    room.left -= _NUMBER_SIZE
    return value


def _elements(values: list[Any], room: _Room) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if room.left <= 0:
            return [*kept, f"… {len(values) - len(kept):,} more"]
        kept.append(_kept(value, room))
    return kept
