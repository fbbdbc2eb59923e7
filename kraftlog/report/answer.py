"""The answer, before anything else: may I restart, what is lost, what must I do.

In: the rows of `restart_rows`, the verdict's row and findings as rows. Out: `Answers`, which the
terminal and the page tell alike. Nodes of whom the same is to be said are told together.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kraftlog.audit.check import ActionKey
from kraftlog.audit.loss_words import NAMES_SHOWN, list_words, lost_lists
from kraftlog.audit.triage import head, then_few
from kraftlog.plain import numbers, sentence, voters_text
from kraftlog.relations import Row
from kraftlog.report.actions import ACTIONS, Action, grouped, urgency
from kraftlog.report.once import called_in, findings_once, nodes_text, order_text, sharing
from kraftlog.simulate.restart import IF_DOWN_FIRST
from kraftlog.simulate.restart_rows import criticals_are
from kraftlog.simulate.troubles import NEVER_COMMITTED, NO_LEADER

YES, LOSES, WAIT, UNKNOWN, NO = "yes", "yes, with loss", "not yet", "not known", "no"
_WORDS = {"safe": YES, "loses": LOSES, "unknown": UNKNOWN, "unsafe": NO}
COLOURS = {NO: "critical", UNKNOWN: "warning", WAIT: "warning", LOSES: "warning", YES: "ok"}
"""The worst first."""
HEADS_SHOWN = 3
_COPY = next(one for one in ACTIONS if one.key == "copy")


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
    """What some nodes lose from an offset on, by name: titles, each with its objects by kind; or
    would lose, where the answer for them is not known.
    """

    nodes: str
    start: int
    lists: tuple[tuple[str, tuple[str, ...]], ...]
    is_known: bool = True

    @property
    def doubt(self) -> str:
        """What stands behind the offset."""
        return "" if self.is_known else ", if that is cut, which is not known"


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do, and the findings that ask for it; `key` is the action's."""

    key: ActionKey
    title: str
    text: str
    severity: str


@dataclass(frozen=True, slots=True)
class Answers:
    """All three answers; `sentence` is the first in a few words, `may` the first by replica,
    `order` says how to restart several, `unnamed` what is to be said of losses where none is named.
    """

    sentence: str
    restart: tuple[Nodes, ...]
    may: Mapping[str, str]
    order: str | None
    lost: tuple[Lost, ...]
    unnamed: str
    todo: tuple[Todo, ...]

    def beside(self, finding: Row) -> Row:
        """A finding as it stands under this answer: what is lost is not named twice."""
        message = str(finding["message"])
        for one in self.lost:
            message = message.replace(f" {list_words(one.lists)}", "")
        return {**finding, "message": message}


def answer_of(restart: Sequence[Row], verdict: Row | None, findings: Iterable[Row]) -> Answers:
    """The answer; without rows of a restart, as of a run that was only decoded, only what to do."""
    found = list(findings)
    criticals = sum(one["severity"] == "critical" for one in found)
    asked = [(one, rows) for one, rows in grouped(found) if rows[0]["severity"] != "info"]
    names = called_in(restart)
    nodes = tuple(_restart(restart))
    return Answers(
        _sentence(restart, criticals, asked, verdict),
        nodes,
        {row["replica"]: _may(row) for row in restart},
        _order(restart),
        tuple(_lost(restart)),
        _unnamed(restart, criticals),
        tuple(_todo(restart, asked, names)),
    )


def _todo(
    restart: Sequence[Row],
    asked: Sequence[tuple[Action, Sequence[Row]]],
    names: Mapping[str, str],
) -> list[Todo]:
    """What must I do, in the order of the groups: nothing stands before copies of whom nothing is
    known but what is as urgent.
    """
    found = [
        Todo(
            action.key,
            action.title,
            _heads(rows, names) + _not_yet(restart, rows),
            rows[0]["severity"],
        )
        for action, rows in asked
    ]
    return sorted(
        [*found, *_copies(restart, asked)], key=lambda one: urgency(one.key, one.severity)
    )


def _copies(
    restart: Sequence[Row], asked: Sequence[tuple[Action, Sequence[Row]]]
) -> Iterator[Todo]:
    """What is to be copied again: nodes of whom nothing is known, and no finding asks anything of
    their files.
    """
    told = {
        row["replica"]
        for one, rows in asked
        for row in rows
        if one.key != "watch" and row["scope"] != "state"
    }
    unknown = _restart([row for row in restart if row["replica"] not in told])
    text = " ".join(f"{sentence(one.nodes)}: {one.why}." for one in unknown if one.may == UNKNOWN)
    if text and _COPY not in (action for action, _ in asked):
        yield Todo(_COPY.key, _COPY.title, text, "warning")


def _sentence(
    restart: Sequence[Row],
    criticals: int,
    asked: Sequence[tuple[Action, Sequence[Row]]],
    verdict: Row | None,
) -> str:
    """May I restart, in a few words. No node is said to be safe while a finding is critical."""
    if criticals:
        return f"Restart nothing before {criticals_are(criticals)} settled."
    who: dict[str, list[str]] = {}
    for row in restart:
        who.setdefault(_may(row), []).append(row["who"])
    told = []
    if NO in who:
        told.append(f"Do not restart {nodes_text(who[NO])}.")
    if later := [*who.get(UNKNOWN, ()), *who.get(WAIT, ())]:
        told.append(f"Do not restart {nodes_text(later)} yet.")
    if not told:
        told.append("Each node may be restarted, one at a time.")
    elif YES in who or LOSES in who:
        told.append("Each other node may be restarted, one at a time.")
    if LOSES in who:
        verb = "loses" if len(who[LOSES]) == 1 else "lose"
        reasons = [str(row["reason"]) for row in restart if row["who"] in who[LOSES]]
        is_known = all(one.endswith(NEVER_COMMITTED) for one in reasons)
        of_users = all(row["lost_from"] is None for row in restart if row["who"] in who[LOSES])
        which = "that were never committed" if is_known else "by it"
        what = "SCRAM users" if of_users else "records"
        told.append(f"{sentence(nodes_text(who[LOSES]))} {verb} {what} {which}.")
    actions = [action for action, _ in asked]
    missing = verdict["missing_voters"] if verdict and _COPY in actions else []
    but = "But " if {YES, LOSES} & who.keys() else ""
    if missing:
        verb = "was" if len(missing) == 1 else "were"
        told.append(
            sentence(f"{but}{voters_text(missing)} {verb} not copied: copy before you decide.")
        )
    elif in_vain := _in_vain(restart):
        told.append(sentence(f"{but}{in_vain}: first do what is listed under What must I do."))
    elif any(action.first for action in actions) or (but and _waits(restart, asked)):
        told.append(sentence(f"{but}first do what is listed under What must I do."))
    return " ".join(told)


def _waits(restart: Sequence[Row], asked: Sequence[tuple[Action, Sequence[Row]]]) -> bool:
    """Whether a voter waits for what a finding asks: until it runs, others have one less to spare."""
    named = {row["replica"] for _, rows in asked for row in rows}
    return any(
        _may(row) == WAIT and row["role"] == "voter" and row["replica"] in named for row in restart
    )


def _in_vain(rows: Sequence[Row]) -> str | None:
    """Without what nobody would lead, whoever starts; None where somebody would."""
    found = (re.search(f"{NO_LEADER} [^:]*", str(row["reason"])) for row in rows)
    return next((one[0] for one in found if one), None)


def _restart(rows: Sequence[Row]) -> list[Nodes]:
    """The worst first, and in each the brokers last: without voters nobody leads."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in sorted(rows, key=lambda row: row["role"] == "observer"):
        groups.setdefault((_may(row), _why(row)), []).append(row["who"])
    found = [Nodes(may, sharing(names, why), why) for (may, why), names in groups.items()]
    return sorted(found, key=lambda one: [*COLOURS].index(one.may))


def _may(row: Row) -> str:
    """A node that could be restarted has no place in the order where it has to wait."""
    may = _WORDS[row["verdict"]]
    return WAIT if row["order"] is None and may in (YES, LOSES) else may


def _why(row: Row) -> str:
    needs = row["needs"]
    if not needs:
        return str(row["reason"])
    noun = "copy of voter" if len(needs) == 1 else "copies of voters"
    return f"{row['reason']} (the {noun} {numbers(needs)} would tell)"


def _order(rows: Sequence[Row]) -> str | None:
    able = sorted((row for row in rows if row["order"] is not None), key=lambda row: row["order"])
    if len(able) < 2 or _in_vain(rows):
        return None
    told = ", then ".join(
        order_text([row["who"] for row in rows])
        for _, rows in groupby(able, key=lambda row: row["role"])
    )
    first = [row["who"] for row in able if IF_DOWN_FIRST in row["reason"]]
    is_first = [row["who"] for row in able[: len(first)]] == first
    few = then_few(are_many=len(first) > 1)
    down = "" if is_first else f" If all are down already, start {nodes_text(first)} first{few}."
    return f"Restart one at a time, in this order, and wait until each has caught up: {told}.{down}"


def _lost(rows: Sequence[Row]) -> list[Lost]:
    groups: dict[tuple[int, tuple[tuple[str, tuple[str, ...]], ...], bool], list[str]] = {}
    for row in rows:
        is_told = row["lost"] or (row["lost"] is None and row["verdict"] in ("loses", "unsafe"))
        if is_told and row["lost_from"] is not None:
            lists = tuple(lost_lists(row["lost"], NAMES_SHOWN))
            is_known = _WORDS[row["verdict"]] != UNKNOWN
            groups.setdefault((row["lost_from"], lists, is_known), []).append(row["who"])
    return [Lost(nodes_text(names), *group) for group, names in groups.items()]


def _unnamed(rows: Sequence[Row], criticals: int) -> str:
    """What is lost, where no record is named that is: that it is nothing is said of no node that may
    not be restarted, or of which nothing is known.
    """
    if criticals:
        return f"Not known before {criticals_are(criticals)} settled."
    doubtful = [row["who"] for row in rows if _WORDS[row["verdict"]] in (NO, UNKNOWN)]
    users = [row["who"] for row in rows if _WORDS[row["verdict"]] == LOSES]
    told = [f"What {nodes_text(doubtful)} would lose is not known."] if doubtful else []
    if users:
        verb = "loses" if len(users) == 1 else "lose"
        told.append(
            f"{sentence(nodes_text(users))} {verb} the SCRAM users named under May I restart."
        )
    if len(told) == 0 or len(doubtful) + len(users) < len(rows):
        what = "A restart of the others" if told else "A restart"
        told.append(f"{what} loses nothing that the copies show.")
    return " ".join(told)


def _heads(rows: Sequence[Row], names: Mapping[str, str]) -> str:
    """The first sentences of the findings of a group, equal ones once, each with the nodes that it
    is about. What is wrong in the history that all share is about none of them.
    """
    heads: dict[str, list[str]] = {}
    labels = {*names, *(row["replica"] for row in rows if row["replica"])}
    for row in findings_once(rows, names):
        text = head(str(row["message"]), labels)
        nodes = heads.setdefault(text, [])
        who = [names[one["replica"]] for one in (row, *row["same"]) if one["replica"] in names]
        if who and row["scope"] != "state" and not _is_named(who[0], row, text):
            nodes += who
    told = [f"{text} ({nodes_text(nodes)})" if nodes else text for text, nodes in heads.items()]
    more = f" And {len(told) - HEADS_SHOWN:,} more." if len(told) > HEADS_SHOWN else ""
    return " ".join(one if one.endswith("…") else f"{one}." for one in told[:HEADS_SHOWN]) + more


def _not_yet(restart: Sequence[Row], asked: Sequence[Row]) -> str:
    """Which brokers that are down must not start yet, whoever waits for them."""
    down = {row["evidence"]["broker_id"] for row in asked if "broker_id" in row["evidence"]}
    kept = [
        row["who"] for row in restart if row["node_id"] in down and _may(row) not in (YES, LOSES)
    ]
    return f" Do not start {nodes_text(kept)} for that yet." if kept else ""


def _is_named(who: str, row: Row, text: str) -> bool:
    """Whether a text names the node, or all for whom its finding stands."""
    names = map(re.escape, (row["told_of"] or who, f"node {row['node_id']}"))
    replicas = rf"replicas? ([^ ]+(,| and) )*{re.escape(str(row['replica']))}"
    return any(re.search(rf"\b{one}(?!\w)", text, re.IGNORECASE) for one in (*names, replicas))
