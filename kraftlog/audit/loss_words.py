"""What is lost, in words: the names of the objects, the first of each kind.

In: `Losses` as rows. Out: sentences. Shared by findings, plans and the page.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kraftlog.quorum.evidence import Losses
from kraftlog.state.tables import TABLE

Row = Mapping[str, Any]

NAMES_SHOWN = 4
_NOUNS = {"scram_credentials": ("SCRAM user", "SCRAM users"), "client_quotas": ("quota", "quotas")}
"""Where objects are named as their users are."""
_TITLES = {
    "added": "Lost",
    "changed": "Set back to the older value",
    "removed": "There again, because its deletion is lost",
}
UNKNOWN = "Which objects are lost is not known: the state at that offset cannot be rebuilt."
NOTHING = "No topic, config, ACL, user or quota is lost."


def loss_rows(losses: Losses) -> list[dict[str, Any]] | None:
    """The objects as rows; None where they are not known."""
    if losses.objects is None:
        return None
    return [
        {"table": one.table, "change": one.change, "count": one.count, "names": list(one.names)}
        for one in losses.objects
    ]


def lost_words(rows: Iterable[Row] | None, limit: int = NAMES_SHOWN) -> str:
    """Sentences that name what is lost, what comes back and what is set back."""
    told = lost_lists(rows, limit)
    return " ".join(f"{title}: {'; '.join(names)}." if names else title for title, names in told)


def lost_lists(
    rows: Iterable[Row] | None, limit: int = NAMES_SHOWN
) -> list[tuple[str, tuple[str, ...]]]:
    """The same as titles, each with its objects by kind; a sentence alone where there are none."""
    if rows is None:
        return [(UNKNOWN, ())]
    told: dict[str, list[str]] = {change: [] for change in _TITLES}
    for one in rows:
        told[one["change"]].append(_named(one, limit))
    found = [(_TITLES[change], tuple(parts)) for change, parts in told.items() if parts]
    return found or [(NOTHING, ())]


def _named(one: Row, limit: int) -> str:
    names, count = one["names"][:limit], one["count"]
    table = one["table"]
    nouns = _NOUNS.get(table) or (TABLE[table].noun if table in TABLE else (table, table))
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    head = f"{count:,} {nouns[1]}" if more else nouns[count > 1]
    return f"{head} {', '.join(names)}{more}"
