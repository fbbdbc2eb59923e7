"""What to do about findings, as the groups of the page, the most urgent group first.

In: findings. Out: groups of findings. A finding of severity info asks for nothing, whatever its
check. Which check asks for what is said where it is declared (`Check.action`); a finding that asks
for something else says so (`asks` of its evidence).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kraftlog.audit.check import ActionKey
from kraftlog.audit.every_check import BY_NAME
from kraftlog.relations import Row
from kraftlog.report.headline import worst_first


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do: a title and one sentence; `first`: before any node is restarted."""

    key: ActionKey
    title: str
    sentence: str
    first: bool = False


ACTIONS = (
    Action(
        "stop",
        "Restart nothing, keep every folder",
        "Committed data is in question here: whatever starts first may become the truth. Before any node runs again, find out which copy is right.",
        first=True,
    ),
    Action(
        "refetch",
        "Replace the damaged log before its node restarts",
        "Kafka gives no warning: it cuts a log at damaged bytes, and does not notice missing ones. "
        "The finding says whether this folder may be set aside, so that the node fetches the log again: only where enough other voters are whole.",
        first=True,
    ),
    Action(
        "snapshot",
        "Set the snapshot aside before its node restarts",
        "A node that loads it would start from a wrong or incomplete state. Take another replica's file, or an older one that the log still reaches.",
        first=True,
    ),
    Action(
        "identity",
        "Correct identities and voters before a restart",
        "The files at hand disagree on who the nodes are, where they are, or who votes.",
        first=True,
    ),
    Action(
        "origin",
        "Find out who wrote these records",
        "No controller of Kafka that works as it should writes them, and loaders may stop here. "
        "Look at the leader of that epoch and its version before you restart nodes.",
        first=True,
    ),
    Action(
        "deleted",
        "Ask who removed these objects",
        "If nobody meant it, stop the controllers. The state before the removal is still in these copies. "
        "But each snapshot that a running node drops takes some of it away.",
    ),
    Action(
        "copy",
        "Copy again, then audit again",
        "Nothing is known of what could not be read or was not copied, or of what was copied too early.",
        first=True,
    ),
    Action(
        "rebuild",
        "Delete the side file while the node is stopped",
        "Kafka builds it anew from the log when the node starts.",
    ),
    Action(
        "watch",
        "Look into the running cluster",
        "This is about the cluster, and not about its files.",
    ),
    Action(
        "restart",
        "Note what a restart cuts, then restart",
        "This is usual after a crash, after a network was cut, or in a copy of a running node. A start cuts these records. Do again what is still wanted.",
    ),
    Action(
        "keep",
        "Keep a copy of the folder, then restart",
        "No vote depends on what the node lacks: it takes it from its own snapshot, or fetches it from the leader.",
    ),
    Action("know", "Good to know", "Worth knowing, and not urgent."),
)
_PLACES = {action.key: place for place, action in enumerate(ACTIONS)}


def action_of(finding: Row) -> ActionKey:
    """What a finding asks for; that of a check which is not known here is to be looked into.

    A warning of a check that stops everything is about a node without a vote, for which nothing
    waits, or of a voter that may only have been copied too early.
    """
    if finding["severity"] == "info":
        return "know"
    check = BY_NAME.get(finding["check"])
    if check is not None and check.action == "stop" and finding["severity"] == "warning":
        return "keep" if finding["evidence"].get("role") == "observer" else "copy"
    return finding["evidence"].get("asks") or (check.action if check else "watch")


def grouped(findings: Iterable[Row]) -> list[tuple[Action, list[Row]]]:
    """The groups that have findings, the most urgent first, the worst findings of each first.

    A group that holds something critical comes before one that does not."""
    found: dict[ActionKey, list[Row]] = {action.key: [] for action in ACTIONS}
    for finding in worst_first(list(findings)):
        found[action_of(finding)].append(finding)
    groups = [(action, found[action.key]) for action in ACTIONS if found[action.key]]
    return sorted(groups, key=lambda group: urgency(group[0].key, group[1][0]["severity"]))


def urgency(key: ActionKey, severity: str) -> tuple[bool, int]:
    """Where a group stands whose worst finding is of a severity."""
    return severity != "critical", _PLACES[key]
