"""May each node be restarted: the rows that the terminal, the page and the lake tell alike.

In: a `Quorum` with its state, and the findings of an audit. Out: one row per replica, those that
may start first. A critical finding on a copy outweighs what its log alone says.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kraftlog.audit.loss_words import loss_rows
from kraftlog.audit.run import Finding
from kraftlog.audit.triage import called, head
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.restart import Restart, Safety, restarts

Row = dict[str, Any]


def restart_rows(quorum: Quorum, findings: Iterable[Finding] = ()) -> list[Row]:
    """`lost` are the objects that go, null where they are not known; empty where none goes."""
    return [_row(quorum, one) for one in judged_restarts(quorum, findings)]


def judged_restarts(quorum: Quorum, findings: Iterable[Finding]) -> list[Restart]:
    """The answers, where a critical finding on a copy makes its restart unsafe."""
    bad: dict[str, str] = {}
    for one in findings:
        if one.severity == "critical" and one.row.replica is not None:
            bad.setdefault(one.row.replica, f"{head(one.row.message)} ({one.check})")
    found = restarts(quorum)
    told = [_with_finding(one, bad.get(one.replica)) for one in found]
    able = [one for one in told if one.order is not None]
    return [
        *(replace(one, order=place) for place, one in enumerate(able, 1)),
        *(one for one in told if one.order is None),
    ]


def _with_finding(one: Restart, why: str | None) -> Restart:
    if why is None or one.safety == Safety.UNSAFE:
        return one
    return replace(one, safety=Safety.UNSAFE, reason=why, order=None)


def _row(quorum: Quorum, one: Restart) -> Row:
    return {
        "replica": one.replica,
        "node_id": one.node_id,
        "who": called(quorum, quorum.by_label[one.replica]),
        "role": quorum.role(quorum.by_label[one.replica].evidence),
        "verdict": str(one.safety),
        "reason": one.reason,
        "lost_from": one.lost_from,
        "lost": _lost(quorum, one),
        "needs": list(one.needs),
        "order": one.order,
    }


def _lost(quorum: Quorum, one: Restart) -> list[Row] | None:
    """Only a tail takes objects with it: what else a node throws away it fetches again."""
    state = quorum.evidence.state
    known = state.losses.get(one.replica) if state else None
    if one.lost_from is None or known is None or known.offset != one.lost_from:
        return [] if one.safety != Safety.LOSES or known is None else None
    return loss_rows(known)
