"""The answer, before anything else: may I restart, what is lost, what must I do.

In: the rows of `restart_rows`, the verdict's row and findings as rows. Out: an `Answer`, which the
terminal and the page tell alike. Nodes of whom the same is to be said are told together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kraftlog.audit.loss_words import NAMES_SHOWN, lost_words
from kraftlog.report.actions import grouped
from kraftlog.report.once import head_of, nodes_text, told_once
from kraftlog.report.verdict import listed

Row = dict[str, Any]

YES, LOSES, WAIT, UNKNOWN, NO = "yes", "yes, with loss", "not yet", "not known", "no"
_WORDS = {"safe": YES, "loses": LOSES, "unknown": UNKNOWN, "unsafe": NO}
_ORDER = (NO, UNKNOWN, WAIT, LOSES, YES)
COLOURS = {NO: "critical", UNKNOWN: "warning", WAIT: "warning", LOSES: "warning", YES: "ok"}
HEADS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Nodes:
    """What holds for some nodes: whether they may be restarted, and why."""

    may: str
    nodes: str
    why: str

    @property
    def colour(self) -> str:
        """How bad it is, by the name of a severity."""
        return COLOURS[self.may]


@dataclass(frozen=True, slots=True)
class Lost:
    """What some nodes lose, by name; `how` are the first words."""

    nodes: str
    text: str


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do, and the findings that ask for it; `key` is the action's."""

    key: str
    title: str
    text: str
    severity: str


@dataclass(frozen=True, slots=True)
class Answer:
    """All three answers; `note` stands above them where something outweighs them, `order` says how
    to restart several.
    """

    note: str | None
    restart: tuple[Nodes, ...]
    order: str | None
    lost: tuple[Lost, ...]
    todo: tuple[Todo, ...]


def answer_of(restart: Sequence[Row], verdict: Row | None, findings: Iterable[Row]) -> Answer:
    """The answer; without rows of a restart, as of a run that was only decoded, only what to do."""
    found = list(findings)
    criticals = sum(one["severity"] == "critical" for one in found)
    todo = tuple(
        Todo(action.key, action.title, _heads(rows), rows[0]["severity"])
        for action, rows in grouped(found)
        if rows[0]["severity"] != "info"
    )
    return Answer(
        _note(criticals, verdict),
        tuple(_restart(restart, criticals > 0)),
        _order(restart) if not criticals else None,
        tuple(_lost(restart)),
        todo,
    )


def _note(criticals: int, verdict: Row | None) -> str | None:
    if criticals:
        what = "the critical finding" if criticals == 1 else f"the {criticals:,} critical findings"
        return f"Restart nothing before {what} below {'is' if criticals == 1 else 'are'} settled."
    missing = verdict["missing_voters"] if verdict else []
    if missing:
        noun = "voter" if len(missing) == 1 else "voters"
        copy = "was" if len(missing) == 1 else "were"
        names = listed([str(one) for one in missing])
        return f"This is what the copies show; {noun} {names} {copy} not copied."
    return None


def _restart(rows: Sequence[Row], wait: bool) -> list[Nodes]:
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        may = _WORDS[row["verdict"]]
        if wait and may in (YES, LOSES):
            may = WAIT
        groups.setdefault((may, _why(row)), []).append(row["who"])
    found = [Nodes(may, nodes_text(names), why) for (may, why), names in groups.items()]
    return sorted(found, key=lambda one: _ORDER.index(one.may))


def _why(row: Row) -> str:
    needs = row["needs"]
    if not needs:
        return str(row["reason"])
    noun = "copy of voter" if len(needs) == 1 else "copies of voters"
    return f"{row['reason']} (the {noun} {listed([str(one) for one in needs])} would tell)"


def _order(rows: Sequence[Row]) -> str | None:
    able = sorted((row for row in rows if row["order"] is not None), key=lambda row: row["order"])
    if len(able) < 2:
        return None
    steps: list[list[str]] = []
    roles: list[str] = []
    for row in able:
        if not roles or roles[-1] != row["role"]:
            steps.append([])
            roles.append(row["role"])
        steps[-1].append(row["who"])
    told = ", then ".join(nodes_text(names, ordered=True) for names in steps)
    return f"Restart one at a time, in this order: {told}."


def _lost(rows: Sequence[Row]) -> list[Lost]:
    groups: dict[str, list[str]] = {}
    for row in rows:
        if row["verdict"] not in ("loses", "unknown", "unsafe") or row["lost"] == []:
            continue
        if row["lost"] is None and row["verdict"] != "loses":
            continue
        start = row["lost_from"]
        text = f"from offset {start:,} on. {lost_words(row['lost'], NAMES_SHOWN)}"
        groups.setdefault(text, []).append(row["who"])
    return [Lost(nodes_text(names), text) for text, names in groups.items()]


def _heads(rows: list[Row]) -> str:
    """The first words of the findings of a group, those of one check once."""
    heads: dict[str, None] = {}
    for row in told_once(rows):
        heads[head_of(row)] = None
    told = list(heads)
    more = f"; and {len(told) - HEADS_SHOWN:,} more" if len(told) > HEADS_SHOWN else ""
    return "; ".join(told[:HEADS_SHOWN]) + more
