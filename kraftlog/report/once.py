"""Equal findings are told once, with the names of all whom they are about.

In: findings as rows. Out: rows, of which one may stand for several (`same` holds the others).
Findings are equal where check, severity and words are, but for the name at their beginning.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from kraftlog.plain import listed, natural, sentence
from kraftlog.relations import Row

_PLURAL = {
    "is": "are",
    "has": "have",
    "holds": "hold",
    "carries": "carry",
    "ends": "end",
    "lacks": "lack",
    "names": "name",
    "was": "were",
}
_NAMED = re.compile(r"(controller|broker) (\d.*)$")


def order_text(names: Iterable[str]) -> str:
    """Names of nodes in their order: controllers 2 (kafka-b) → 1 → 3, then broker 12."""
    found = [(one[1], one[2]) if (one := _NAMED.match(name)) else ("", name) for name in names]
    parts = []
    for role, run in groupby(found, key=lambda one: one[0]):
        told = [one for _, one in run]
        plural = f"{role}{'s' if len(told) > 1 else ''} " if role else ""
        parts.append(f"{plural}{' → '.join(told)}")
    return ", then ".join(parts)


def nodes_text(names: Sequence[str]) -> str:
    """Names of nodes in a sentence: controllers 1 and 2 (kafka-b), broker 12."""
    by_role: dict[str, list[str]] = {}
    others = []
    for name in dict.fromkeys(names):
        found = _NAMED.match(name)
        if found:
            by_role.setdefault(found[1], []).append(found[2])
        else:
            others.append(name)
    parts = []
    for role in sorted(by_role, reverse=True):
        told = sorted(by_role[role], key=natural)
        plural = "s" if len(told) > 1 else ""
        parts.append(f"{role}{plural} {listed(told)}")
    parts += others
    return ", ".join(parts) if any(" and " in one for one in parts) else listed(parts)


def findings_once(findings: Iterable[Row]) -> list[Row]:
    """The findings in their order; equal ones as one row at the place of the first, whose `same`
    are the others.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for number, row in enumerate(findings):
        who = who_of(row)
        body = str(row["message"]).removeprefix(f"{sentence(who)} ") if who else None
        is_named = body is not None and body != row["message"]
        key = (row["check"], row["severity"], body) if is_named else (number,)
        groups.setdefault(key, []).append(row)
    return [_one(key, rows) for key, rows in groups.items()]


def who_of(row: Row) -> str | None:
    """What the finding calls the node that it is about."""
    who = row["evidence"].get("who")
    return None if who is None else str(who)


def _one(key: tuple[Any, ...], rows: list[Row]) -> Row:
    first = rows[0]
    if len(rows) == 1:
        return {**first, "same": [], "told_of": None}
    who = nodes_text([str(who_of(row)) for row in rows])
    verb, _, rest = str(key[2]).partition(" ")
    return {
        **first,
        "message": f"{sentence(who)} {_PLURAL.get(verb, verb)} {rest}",
        "same": rows[1:],
        "told_of": who,
    }
