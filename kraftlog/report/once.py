"""Equal findings are told once, with the names of all whom they are about.

In: findings as rows. Out: rows, of which one may stand for several (`same` holds the others).
Findings of several replicas are equal where check, severity and words are, but for a name at their
beginning.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
        parts.append(f"{plural}{' → '.join(_brief(told, ' → … → '))}")
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
        parts.append(f"{role}{plural} {listed(_brief(told, ' to '))}")
    parts += others
    return ", ".join(parts) if any(" and " in one for one in parts) else listed(parts)


_CROWD = 9
"""So many names can be read one by one."""


def _brief(names: Sequence[str], to: str) -> list[str]:
    """Names; of a crowd, ids that follow one on the other as the first and the last of them."""
    runs: list[list[str]] = []
    for name in names:
        before = runs[-1][-1] if runs else ""
        is_next = name.isdecimal() and before.isdecimal() and int(name) == int(before) + 1
        if is_next and len(names) > _CROWD:
            runs[-1].append(name)
        else:
            runs.append([name])
    told = ([f"{run[0]}{to}{run[-1]}"] if len(run) > 2 else run for run in runs)
    return [one for shown in told for one in shown]


def count_of(findings: Iterable[Row]) -> int:
    """How many findings rows stand for: some count those like them, which are not told one by one."""
    return sum(1 + int(row["evidence"].get("more") or 0) for row in findings)


def findings_once(findings: Iterable[Row], names: Mapping[str, str]) -> list[Row]:
    """The findings in their order; equal ones as one row at the place of the first, whose `same`
    are the others, and whose `told_of` names all whom the words name. `names` says what replicas are
    called.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    seen = Counter[tuple[Any, ...]]()
    for row in findings:
        who, message = names.get(row["replica"]), str(row["message"])
        body = message.removeprefix(f"{sentence(who)} ") if who else message
        key = (row["check"], row["severity"], body, body != message)
        times = seen[(*key, row["replica"])]
        seen[(*key, row["replica"])] += 1
        groups.setdefault((times, *key), []).append(row)
    return [
        _one(rows, body if is_named else None, names)
        for (*_, body, is_named), rows in groups.items()
    ]


def called_in(restart: Iterable[Row]) -> dict[str, str]:
    """What the rows of a restart call the replicas."""
    return {row["replica"]: str(row["who"]) for row in restart}


def about_text(row: Row, names: Mapping[str, str]) -> str | None:
    """Whom a finding is about, and those that are equal to it; None: the quorum."""
    labels = [one["replica"] for one in (row, *row["same"]) if one["replica"]]
    return nodes_text([names.get(label, label) for label in labels]) if labels else None


def sharing(names: Sequence[str], words: str) -> str:
    """Nodes of whom the same is said: where it speaks of one node, it is of each of them."""
    of_each = len(names) > 1 and _OF_ONE.search(words)
    return f"each of {nodes_text(names)}" if of_each else nodes_text(names)


_OF_ONE = re.compile(
    r"(?<!has to cut )\b(its|this one)\b|(?<!of )(?<!without )\bit\b", re.IGNORECASE
)
"""Words for the node itself: another one has to cut its log first, and others go on without a tail,
or have nothing of it.
"""


def _one(rows: list[Row], body: str | None, names: Mapping[str, str]) -> Row:
    """Equal findings as one; `body` is what follows the name at their beginning."""
    first = {**rows[0], "same": rows[1:], "told_of": None}
    if len(rows) == 1 or body is None:
        return first
    who = sharing([names[row["replica"]] for row in rows], body)
    verb, _, rest = body.partition(" ")
    told = body if who.startswith("each") else f"{_PLURAL.get(verb, verb)} {rest}"
    return first | {"message": f"{sentence(who)} {told}", "told_of": who}
