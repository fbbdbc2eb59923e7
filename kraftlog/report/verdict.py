"""The whole audit in one sentence, and the words that go with it.

In: findings and results as rows. Out: text for a person. The terminal and the page say the same.
"""

import json
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

Row = dict[str, Any]

TAIL = "uncommitted_tail_diverged"
_NAMED = 4
_RANK = {"critical": 0, "warning": 1, "info": 2}


def worst_first(findings: list[Row]) -> list[Row]:
    """Critical before warning before info; otherwise as they came."""
    return sorted(findings, key=lambda row: _RANK.get(row["severity"], 3))


def verdict(
    findings: list[Row], results: list[Row], names: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The whole audit in one sentence. `results` has a row per check that broke, `names` says what
    replicas are called, where that is known.
    """
    count = Counter(row["severity"] for row in findings)
    errored = [row["check"] for row in results if row["result"] == "errored"]
    parts = []
    if count["critical"]:
        critical = [row for row in findings if row["severity"] == "critical"]
        parts.append(_critical(critical, names))
    parts += _tails([row for row in findings if row["check"] == TAIL], names)
    if errored:
        parts.append(f"{counted(len(errored), 'check')} could not be run: {listed(errored)}")
    if not parts and count["warning"]:
        parts.append(_warnings([row for row in findings if row["severity"] == "warning"]))
    if not parts and count["info"]:
        return f"No damage and no divergence: nothing is to be done ({_notes(count['info'])})."
    if not parts:
        return "No damage and no divergence: every check that could be run has passed."
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


def _warnings(findings: list[Row]) -> str:
    checks = list(dict.fromkeys(row["check"] for row in findings))
    names = f" ({listed(checks)})" if len(checks) <= _NAMED else ""
    return f"nothing critical; {counted(len(findings), 'warning')} to look at{names}"


def _notes(count: int) -> str:
    return f"{counted(count, 'finding')} that {'is' if count == 1 else 'are'} good to know"


def _critical(findings: list[Row], known: Mapping[str, str]) -> str:
    """How many, on whom, from where on."""
    names = sorted({_who(row, known) for row in findings if row["replica"]})
    offsets = [row["offset"] for row in findings if row["offset"] is not None]
    where = f" on {listed(names)}" if 0 < len(names) <= _NAMED else ""
    start = f", from offset {min(offsets)} on" if offsets and len(names) == 1 else ""
    count = counted(len(findings), "critical finding")
    what = "it" if len(findings) == 1 else "the first one"
    return f"{count}{where}{start}: settle {what} before you restart any node"


def _tails(findings: list[Row], known: Mapping[str, str]) -> list[str]:
    if not findings:
        return []
    names = sorted({_who(row, known) for row in findings}, reverse=True)
    start = min(row["offset"] for row in findings)
    verb = "carries" if len(names) == 1 else "carry"
    return [
        f"{listed(names)} {verb} an uncommitted tail from offset {start} that a restart will cut"
    ]


def _who(finding: Row, names: Mapping[str, str]) -> str:
    """The replica as a person calls it (controller 2), by its finding or by its name."""
    evidence = finding["evidence"]
    # A lake holds the evidence as text.
    known = json.loads(evidence) if isinstance(evidence, str) else evidence
    label = finding["replica"]
    return str(known.get("who") or names.get(label) or f"replica {label}")


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 finding, 1,234 findings."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: list[str]) -> str:
    """Names in a sentence: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
