"""May each node be restarted: the rows that the terminal, the page and the lake tell alike.

In: a `Quorum` with its state, and its audit. Out: one row per replica, those that may start first. A
critical finding on a copy outweighs what its log alone says, and so does a record at which nodes or
controllers stop, on each of these that holds it. While any finding is critical, or a check that could
find such broke, the other nodes wait: they have no place in an order. So does a broker that may delete
folders when it starts.
"""

from dataclasses import replace

from kraftlog.audit.health_checks import TOLD
from kraftlog.audit.loss_words import known_losses, loss_rows
from kraftlog.audit.runner import ERRORED, AuditResult, Finding
from kraftlog.audit.state_history import with_state
from kraftlog.audit.state_rules import CONTROLLERS
from kraftlog.audit.told import Told
from kraftlog.audit.triage import called, head, role_of
from kraftlog.plain import listed, some
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.record_windows import Records
from kraftlog.quorum.shortfalls import whole_voters
from kraftlog.relations import Row
from kraftlog.simulate.plan_rows import Plans
from kraftlog.simulate.restart import IF_DOWN, Restart, restarts, with_places
from kraftlog.simulate.troubles import Safety


def with_history(quorum: Quorum, records: Records, told: Told | None = None) -> Quorum:
    """A quorum with what the history of its state shows, and what restarts would lose."""
    cuts = [one.cut for one in restarts(quorum) if one.cut is not None]
    return Quorum(with_state(quorum, records, told, cuts))


def restart_rows(quorum: Quorum, audit: AuditResult) -> list[Row]:
    """`lost` are the objects that go, null where they are not known; empty where none goes."""
    return [restart_row(quorum, one) for one in judged_restarts(quorum, audit)]


def judged_restarts(quorum: Quorum, audit: AuditResult) -> list[Restart]:
    """The answers, where a critical finding on a copy, or a record at which the node would stop,
    makes its restart unsafe, and any critical finding lets the others wait until it is settled, a
    check that broke until it can be run.
    """
    bad: dict[str, str] = {}
    deletes: dict[str | None, str] = {}
    plans = Plans(quorum)
    for one in audit.findings:
        # What new records set right, no disk has to wait for.
        is_bad = one.severity == "critical" and one.row.evidence.get("asks") != "watch"
        if is_bad or {"stops", "cannot_start"} & one.row.evidence.keys():
            reason = f"{head(one.row.message, quorum.by_label)} ({one.check})"
            for label in _about(plans, one):
                bad.setdefault(label, reason)
        if folders := one.row.evidence.get("deletes"):
            deletes[one.row.replica] = _copy_first(folders)
    told = [
        replace(one, safety=Safety.UNSAFE, reason=bad[one.replica], order=None)
        if one.replica in bad and one.safety != Safety.UNSAFE
        else one
        for one in restarts(quorum, plans)
    ]
    told = [
        replace(one, reason=f"{deletes[one.replica]}; then {one.reason}", order=None)
        if one.replica in deletes and one.order is not None
        else one
        for one in told
    ]
    able = [one for one in told if one.order is not None]
    until = _until(audit)
    return [
        *([_waiting(one, until) for one in able] if until else with_places(able)),
        *(one for one in told if one.order is None),
    ]


def able_voters(quorum: Quorum, audit: AuditResult) -> list[int]:
    """The voters that may start with their own disks, where these are a majority, and one of them holds
    all that is committed: no new quorum is needed then. None of them otherwise.
    """
    whole = {one.evidence.node_id for one in whole_voters(quorum)}
    able = {
        one.node_id
        for one in judged_restarts(quorum, audit)
        if one.safety in (Safety.SAFE, Safety.LOSES)
        and quorum.role(quorum.by_label[one.replica].evidence) == "voter"
    }
    known = sorted(one for one in able if one is not None)
    return known if len(known) >= quorum.bounds.majority and whole & able else []


def _copy_first(folders: list[str]) -> str:
    """What a broker waits for whose start may delete folders that belong to no partition of it."""
    what, them = ("folder", "it") if len(folders) == 1 else ("folders", "them")
    return f"copy {what} {some(folders, TOLD)} first: Kafka before 3.7 deletes {them} when it starts (folders_match_topics)"


def _until(audit: AuditResult) -> str | None:
    """What every node waits for: what is critical, or could not be looked for; None: for nothing."""
    if criticals := sum(one.severity == "critical" for one in audit.findings):
        return f"{criticals_are(criticals)} settled"
    broken = [one for one in audit.results if (one.result, one.severity) == (ERRORED, "critical")]
    what = "the check that broke" if len(broken) == 1 else "the checks that broke"
    return f"{what} can be run ({listed([one.check for one in broken])})" if broken else None


def _waiting(one: Restart, until: str) -> Restart:
    """A node that could be restarted by itself, while something else is not settled."""
    but = "" if one.safety == Safety.SAFE else f", but {one.reason}"
    if IF_DOWN in one.reason:
        but = f"; {one.reason}"
    reason = f"safe, once {until}{but}"
    return replace(one, reason=reason, order=None)


def criticals_are(count: int) -> str:
    """So many critical findings, and their verb."""
    return "the critical finding is" if count == 1 else "the critical findings are"


def _about(plans: Plans, finding: Finding) -> tuple[str, ...]:
    """The replicas that must not start for a finding: of a record at which nodes stop, all such nodes
    that hold it and do not begin with a snapshot behind it; of a level of a feature, or a config,
    the nodes that do not take it. Another one of the history that all share is about none of them;
    one of two folders that nothing tells apart is about either.
    """
    quorum, label, offset = plans.quorum, finding.row.replica, finding.row.offset
    cannot_start = finding.row.evidence.get("cannot_start", ())
    if cannot_start:
        return tuple(one.label for one in quorum.logs if one.evidence.node_id in cannot_start)
    if label is None or label not in quorum.by_label:
        return ()
    stops = finding.row.evidence.get("stops")
    if stops is None or offset is None:
        either = [finding.row.other_replica] if finding.row.evidence.get("either") else []
        return () if finding.scope == "state" else (label, *filter(None, either))
    holders = quorum.holding(quorum.by_label[label], offset)
    who = {None, "controller"} if stops == CONTROLLERS else {None, "controller", "broker"}
    return tuple(
        one.label
        for one in holders
        if role_of(quorum, one) in who and plans.boots[one.label].replay_from_offset <= offset
    )


def apart_of(quorum: Quorum, one: Restart) -> tuple[str, str] | None:
    """The replica, and the one that it is held against, where it differs in committed data and no
    end of its log goes: it loses what it alone has when it fetches its log anew.
    """
    pairs = quorum.state.apart if one.lost_from is None else ()
    return next((pair for pair in pairs if pair[0] == one.replica), None)


def restart_row(quorum: Quorum, one: Restart) -> Row:
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
    """What a node throws away and others hold it fetches again."""
    apart = apart_of(quorum, one)
    if apart is not None:
        return loss_rows(quorum.state.apart[apart])
    if one.cut is not None:
        return known_losses(quorum, *one.cut)
    return None if one.is_alone else []
