"""What is lost, in words: the names of the objects, the first of each kind.

In: `Losses` as rows. Out: sentences. Shared by findings, plans and the page.
"""

from collections.abc import Iterable, Mapping

from kraftlog.quorum.evidence import Losses
from kraftlog.quorum.model import Quorum
from kraftlog.relations import Row
from kraftlog.state.tables import TABLE

NAMES_SHOWN = 4
_NOUNS = {"scram_credentials": ("SCRAM user", "SCRAM users"), "client_quotas": ("quota", "quotas")}
"""Where objects are named as their users are."""
_TITLES = {
    "added": "Lost",
    "changed": "Set back to the older value",
    "removed": "There again, because the deletion is lost",
}
UNKNOWN = "Which objects are lost is not known: the state at that offset cannot be rebuilt."
SAME = "At the end of what both hold, they give the same state."
OF_ITSELF = "At the end of what both hold, only values differ that the cluster sets by itself."
NOTHING = "No topic, config, ACL, user or quota is lost."


def loss_rows(losses: Losses) -> list[Row] | None:
    """The objects as rows; None where they are not known."""
    if losses.objects is None:
        return None
    return [
        {"table": one.table, "change": one.change, "count": one.count, "names": list(one.names)}
        for one in losses.objects
    ]


def known_losses(quorum: Quorum, of: str, offset: int) -> list[Row] | None:
    """What goes with the end of a replica's log from an offset on, or has gone and only the snapshot
    of this path holds it (`losses.Cut`); None where it was not asked, or is not known.
    """
    known = quorum.state.losses.get((of, offset))
    return None if known is None else loss_rows(known)


def apart_words(quorum: Quorum, label: str, other: str) -> str:
    """What differs between the states of two replicas, after a blank; nothing where not known."""
    known = quorum.state.apart.get((label, other))
    if known is None or known.objects is None:
        return ""
    if not known.objects:
        return f" {OF_ITSELF if known.again else SAME}"
    return side_words(loss_rows(known), label, other)


def side_words(rows: Iterable[Row] | None, label: str, other: str) -> str:
    """What one replica has otherwise than another, as sentences after a blank."""
    titles = {
        "added": f"Only replica {label} has",
        "changed": "They differ in",
        "removed": f"Only replica {other} has",
    }
    told = lost_lists(rows, titles=titles) if rows else []
    return "".join(f" {title}: {'; '.join(names)}." for title, names in told)


def lost_words(rows: Iterable[Row] | None) -> str:
    """Sentences that name what is lost, what comes back and what is set back."""
    return list_words(lost_lists(rows))


def list_words(lists: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    """Titles with their objects, as sentences."""
    return " ".join(f"{title}: {'; '.join(names)}." if names else title for title, names in lists)


def lost_lists(
    rows: Iterable[Row] | None, limit: int = NAMES_SHOWN, titles: Mapping[str, str] = _TITLES
) -> list[tuple[str, tuple[str, ...]]]:
    """The same as titles, each with its objects by kind; a sentence alone where there are none."""
    if rows is None:
        return [(UNKNOWN, ())]
    told: dict[str, list[str]] = {change: [] for change in titles}
    for one in rows:
        told[one["change"]].append(_named(one, limit))
    found = [(titles[change], tuple(parts)) for change, parts in told.items() if parts]
    return found or [(NOTHING, ())]


def _named(one: Row, limit: int) -> str:
    names, count = one["names"][:limit], one["count"]
    table = one["table"]
    nouns = _NOUNS.get(table) or (TABLE[table].noun if table in TABLE else (table, table))
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    head = f"{count:,} {nouns[1]}" if more else nouns[count > 1]
    return f"{head} {', '.join(names)}{more}"
