"""Checks of the running cluster's health, by the newest state: brokers, controllers, features; and how
any check of that state is declared.

In: `quorum.evidence.health`, which the replay leaves. Each finding is one for the quorum: it names
what is concerned, since when, and what to do. Source: KAFKA-20395, KIP-1312, KAFKA-20839,
KIP-584.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Unpack

from kraftlog.audit.check import BadRow, Check, Scope, Severity, Words, check
from kraftlog.audit.coverage import Coverage, Subject, not_judged
from kraftlog.audit.grouping import users_text
from kraftlog.audit.triage import replicas_text, role_of
from kraftlog.explain.words import acl_text, scram_user_text
from kraftlog.plain import counted, listed, sentence, some
from kraftlog.quorum.health import Health, Since
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.scram import User, lost_by_loading
from kraftlog.relations import moment
from kraftlog.state.shapes import METADATA_VERSION

MV_4_0_IV0, MV_4_1_IV0 = 22, 26
TOLD = 12
"""So many names stand in a sentence; the evidence has all of them."""

UNKNOWN_STATE = "the newest state is not known: no history at hand leads up to it"
Judge = Callable[[Quorum, Health], Iterator[BadRow]]
Reason = str | None
"""Why a state holds nothing that a check could judge; None where it does."""
Nothing = Callable[[Quorum, Health], Reason]


def newest_health(quorum: Quorum) -> Health | None:
    """The newest state; None where it is not known, or a newer Kafka leaves it in doubt."""
    found = quorum.state.health
    return None if found is None or found.doubt else found


def judged(judge: Judge, nothing: Nothing) -> Callable[[Quorum], Iterator[BadRow]]:
    """The query of a check over the newest state."""

    def query(quorum: Quorum) -> Iterator[BadRow]:
        found = newest_health(quorum)
        if found is not None and nothing(quorum, found) is None:
            yield from judge(quorum, found)

    return query


def over(nothing: Nothing) -> Subject:
    """What such a check judges: the state of all copies together."""

    def covered(quorum: Quorum) -> Coverage:
        found = newest_health(quorum)
        if found is None:
            health = quorum.state.health
            return not_judged((health and health.doubt) or UNKNOWN_STATE)
        why = nothing(quorum, found)
        if why is not None:
            return Coverage((), (), why)
        return Coverage(tuple(log.label for log in quorum.peers))

    return covered


def health_check(
    name: str,
    severity: Severity,
    scope: Scope,
    source: str,
    holds_when: str,
    *,
    nothing: Nothing,
    **words: Unpack[Words],
) -> Callable[[Judge], Check]:
    """Declare a check of the newest state: what follows judges it, unless there is `nothing`."""
    one = check(name, severity, scope, source, holds_when, over=over(nothing), **words)
    return lambda judge: one(judged(judge, nothing))


DOUBT = " This is the state at offset {}. Whether all of it is committed is not proven."


def row(found: Health, message: str, severity: Severity | None = None, **evidence: Any) -> BadRow:
    """A finding on the newest state."""
    return BadRow(
        None,
        message + ("" if found.is_committed else DOUBT.format(found.offset)),
        offset=found.offset,
        severity=severity,
        evidence=evidence,
    )


def by_text(told: Iterable[tuple[str, str]]) -> str:
    """What is to be said of each name, as sentences; names with the same stand together."""
    groups: dict[str, list[str]] = {}
    for name, text in told:
        groups.setdefault(text, []).append(name)
    return " ".join(f"{sentence(text)}: {some(names, TOLD)}." for text, names in groups.items())


def since_text(since: Since | None) -> str:
    """Since when, in words."""
    if since is None or moment(since.timestamp) is None:
        return "since before the records at hand"
    return f"since {at_text(since)}"


def at_text(when: Since) -> str:
    """When, in words."""
    at = moment(when.timestamp)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC, offset {when.offset}" if at else f"offset {when.offset}"


def unless_held(held: Callable[[Health], object], why: str) -> Nothing:
    """That a state holds nothing to judge, `why`, unless it holds something."""
    return lambda quorum, found: None if held(found) else why


NO_BROKER = unless_held(lambda found: found.brokers, "no broker is registered")


# --- brokers -------------------------------------------------------------------------------------


RECORDS_SHUTDOWNS = 7
"""metadata.version 3.3-IV3: the first whose records tell a controlled shutdown."""


@health_check(
    "brokers_unfenced", "warning", "state", "KIP-631",
    "no registered broker is fenced",
    action="watch", nothing=NO_BROKER, after="replicas_registered",
    meaning="""A registered broker is fenced: it leads no partition and serves no client. This is a
    warning where it stopped answering or has never caught up, and an info after a controlled
    shutdown. Of one that leads nothing when it is stopped Kafka records the fencing alone, and so of
    every one below metadata.version 7 (3.3-IV3).""",
    advice="""Start it and see why it stopped. A broker that never unfences cannot reach the
    controllers, or does not catch up with the metadata log.""",
)  # fmt: skip
def fenced(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    for broker, value in sorted(found.brokers.items()):
        if not value["fenced"]:
            continue
        stopping = value["inControlledShutdown"]
        since = found.past.fenced.get(broker)
        # A broker that leads nothing is told to end at once: it is fenced, and no more is written.
        if stopping:
            cause, start = "after a controlled shutdown", "Start it."
        elif 0 < _level(found) < RECORDS_SHUTDOWNS:
            cause = f"and metadata.version {_level(found)} records no controlled shutdown"
            start = "It was stopped, stopped answering, or has not caught up since it started: start it, or look why."
        else:
            cause = "and no controlled shutdown is recorded"
            start = "It stopped answering, led nothing when it was stopped, or has not caught up since it started: start it, or look why."
        led = sum(one.leader == broker for one in found.leaderless)
        leads = (
            f"is still named as leader of {counted(led, 'partition')}" if led else "leads nothing"
        )
        yield row(
            found,
            f"Broker {broker} is fenced ({since_text(since)}), {cause}: it {leads} and serves no client. "
            f"{start} If it is gone for good, move its partitions to other brokers and unregister it.",
            "info" if stopping else None,
            broker_id=broker,
            since_offset=None if since is None else since.offset,
            controlled_shutdown=stopping,
        )


# --- features ------------------------------------------------------------------------------------


def _no_controller(quorum: Quorum, found: Health) -> Reason:
    if quorum.voter_set is None:
        return "who the voters are is not known"
    return None if found.controllers else "no controller has registered"


@health_check(
    "controllers_are_voters", "warning", "state", "KAFKA-20395, KIP-1312",
    "every registered controller is a voter",
    action="watch", nothing=_no_controller,
    meaning="""A controller is registered that is no voter: one that was removed or is gone (a
    ghost), or an observer that waits to be added. Kafka keeps its registration, and refuses
    features that it did not support. Such a ghost blocks upgrades of metadata.version.""",
    advice="""If a ghost blocks an upgrade, start that controller once with the new version, so
    that it registers anew. Or, from metadata.version 33 (4.4-IV2) on, unregister it with
    Admin.unregisterController. A ghost that blocks nothing can wait.""",
)  # fmt: skip
def ghosts(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    voters = quorum.voter_set
    ids = voters.ids if voters else ()
    level, able = _level(found), newest_levels(found)
    wanted = min(
        (able[kind, node] for kind, node in able if kind == "broker" or node in ids), default=0
    )
    for controller in sorted(set(found.controllers).difference(ids, quorum.moved_voters)):
        highest = able.get(("controller", controller), 0)
        blocks = 0 < highest < wanted
        unregister = (
            f"{'Or unregister' if blocks else 'Unregister'} it with Admin.unregisterController{'' if blocks else ', if it is gone'}."
            if level >= UNREGISTERS_CONTROLLERS
            else "It can be unregistered only from metadata.version 33 (4.4-IV2) on."
        )
        told = "Which metadata.version it supports is not recorded."
        if blocks:
            told = (
                f"It supports metadata.version up to {highest} only, so Kafka refuses to upgrade beyond {max(level, highest)}. "
                "Start it once more with the new version: it then registers anew."
            )
        elif highest:
            told = "It holds back no upgrade of metadata.version."
        yield row(
            found,
            f"Controller {controller} is registered, but is not a voter (a ghost, if it is gone for good). {told} {unregister}",
            None if blocks else "info",
            controller_id=controller,
            highest_metadata_version=highest,
            blocks_upgrade=blocks,
        )


UNREGISTERS_CONTROLLERS = 33


def _level(found: Health) -> int:
    return found.levels.get(METADATA_VERSION, 0)


def newest_levels(found: Health) -> dict[tuple[str, int], int]:
    """The highest metadata.version of each registered node."""
    named = {node: levels.get(METADATA_VERSION) for node, levels in _ranges(found).items()}
    return {node: levels[-1] for node, levels in named.items() if levels}


def _ranges(found: Health) -> dict[tuple[str, int], dict[str, range]]:
    """The levels of each feature that each registered node supports."""
    nodes = [("broker", found.brokers), ("controller", found.controllers)]
    return {
        (kind, node): {
            one["name"]: range(one["minSupportedVersion"], one["maxSupportedVersion"] + 1)
            for one in value["features"]
        }
        for kind, registered in nodes
        for node, value in registered.items()
    }


def _unsupported(found: Health) -> Iterator[tuple[str, dict[str, int]]]:
    """Each finalized feature at a level that registered nodes do not support, and these in words, with
    their ids; to Kafka (QuorumFeatures) a feature that a node does not name is one at level 0.
    """
    every = _ranges(found)
    for feature, level in sorted(found.levels.items()):
        nodes = {
            f"{kind} {node} ({f'{levels[0]} to {levels[-1]}' if levels else 'no level'})": node
            for (kind, node), known in every.items()
            if known and level not in (levels := known.get(feature, range(0)))
        }
        if nodes:
            yield feature, dict(sorted(nodes.items()))


@health_check(
    "features_recorded", "warning", "state", "KAFKA-20839, KIP-584",
    "the state has a metadata.version",
    action="watch",
    nothing=unless_held(
        lambda found: found.brokers or found.controllers,
        "no broker and no controller is registered",
    ),
    meaning="""The log holds records but no metadata.version, which the first leader writes, unless
    it stops just then. Kafka 3 goes on as with level 1. No node of Kafka 4 does: controllers end, or no
    broker is served (seen of 4.0.0, 4.1.1 and 4.3.1).""",
    advice="""Look at the first records of the log (kraftlog records --to-offset 20). If the log
    lost its beginning, log_start_covered tells so. While all nodes run Kafka 3, set it: kafka-features
    with --bootstrap-server of a broker, as controllers refuse it, and upgrade --feature
    metadata.version=LEVEL. Otherwise begin a new quorum with kraftlog recover: of copies, or with
    --at of an offset, whose state has a metadata.version.""",
)  # fmt: skip
def features_recorded(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    if METADATA_VERSION in found.levels:
        return
    able = newest_levels(found)
    ends = sorted({node for (_, node), level in able.items() if level >= MV_4_0_IV0})
    reach = min(able.values(), default=None)
    which = "LEVEL" if reach is None else f"{reach}. All registered nodes support that level"
    todo = (
        "Kafka 3 goes on as with level 1, and no node of Kafka 4 would go on at all. "
        f"Set it before any node runs that: kafka-features --bootstrap-server BROKER:PORT upgrade --feature metadata.version={which}."
    )
    if ends:
        todo = (
            "no node of Kafka 4 goes on with that, at any start. Begin a quorum with kraftlog recover, of copies whose state has it, or with --at an offset where it was there. "
            "Where it never was, and nothing is in it yet, format all nodes anew."
        )
    yield row(
        found,
        f"The state has no metadata.version: {todo}",
        supported_by_all=reach,
        cannot_start=ends,
    )


@health_check(
    "features_upgradable", "info", "state", "KAFKA-20395, KAFKA-20839, KIP-584",
    "finalized levels are what every registered node supports, and metadata.version the highest",
    action="watch",
    nothing=unless_held(newest_levels, "no node says which metadata.version it supports"),
    meaning="""The finalized metadata.version is below what every registered node supports (an
    upgrade was not finished), or cannot rise because of the nodes that are named. This is a
    warning where a registered node does not support the level of a feature that holds, as it is
    too high or too low for it: that node would refuse to start.""",
    advice="""When all nodes run the new version and are to stay on it: kafka-features upgrade
    --release-version (before Kafka 4.0: --metadata). Nodes that are gone for good should be
    unregistered first.""",
)  # fmt: skip
def upgradable(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    able = newest_levels(found)
    level, reach = _level(found), min(able.values())
    behind = sorted(name for name, value in able.items() if value < max(able.values()))
    unsupported = dict(_unsupported(found))
    if 0 < level < reach and METADATA_VERSION not in unsupported:
        yield row(
            found,
            f"The metadata.version is {level}, but every registered node supports {reach}. "
            "Once all of them run the new version for good, finish with kafka-features upgrade.",
            finalized=level,
            supported_by_all=reach,
        )
    if behind and reach < max(able.values()):
        names = [f"{kind} {node} ({able[kind, node]})" for kind, node in behind]
        yield row(
            found,
            f"The metadata.version cannot go beyond {reach}, though some nodes support {max(able.values())}. "
            f"These must run a newer version, or be unregistered: {some(names, TOLD)}.",
            supported_by_all=reach,
            behind=names,
        )
    for feature, nodes in unsupported.items():
        yield row(
            found,
            f"The {feature} is {found.levels[feature]}, but these nodes do not support it: {some(list(nodes), TOLD)}. Such a node refuses to start. "
            "Install a version there that supports it.",
            "warning",
            feature=feature,
            finalized=found.levels[feature],
            behind=list(nodes),
            cannot_start=sorted({*nodes.values()}),
        )


@health_check(
    "topic_configs_taken", "warning", "state", "KAFKA-19080",
    "brokers take the configs of all topics",
    action="watch", nothing=unless_held(lambda found: found.topic_names, "no topic is there"),
    meaning="""A topic has a config whose value Kafka's brokers do not take. A broker reads the
    configs of all topics when it starts, and ends there (Error starting LogManager), whoever
    holds the topic's partitions. From Kafka 4.1 on segment.bytes of a topic is at least 1 MiB: a
    topic with less, which brokers up to 4.0 take, stops each broker that is upgraded: at level info
    none of those is there yet.""",
    advice="""Set the config anew, or delete it, with kafka-configs before any broker restarts.""",
)  # fmt: skip
def configs_taken(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    if not found.refused_configs:
        return
    told = [f"{one.topic}: {one.name}={one.value}" for one in found.refused_configs]
    is_old, able = all(one.is_old for one in found.refused_configs), newest_levels(found)
    cannot_start = {
        one for one in found.brokers if not is_old or able.get(("broker", one), 0) >= MV_4_1_IV0
    }
    if not is_old:
        # One that is not registered reads them, too.
        here = (one for one in quorum.logs if role_of(quorum, one) == "broker")
        cannot_start.update(one.evidence.node_id or 0 for one in here)
    stops = not is_old or bool(cannot_start)
    yield row(
        found,
        f"{counted(len(told), 'config')} of topics that Kafka does not take: {some(told, TOLD)}. "
        f"No broker{' of Kafka 4.1 or newer' if is_old else ''} starts with that, whoever holds the partitions. "
        f"Set it anew with kafka-configs before any broker {'restarts' if stops else 'is upgraded'}.",
        "warning" if stops else "info",
        configs=[one._asdict() for one in found.refused_configs],
        cannot_start=sorted(cannot_start),
    )


def _no_scram(quorum: Quorum, found: Health) -> Reason:
    removes = any(not one.is_set for one in found.past.scram.values())
    return None if removes else "no record at hand removes a SCRAM user"


@health_check(
    "scram_users_outlive_restart", "warning", "state", "KIP-554, KIP-900",
    "what a node reads when it starts gives all SCRAM users, as Kafka's own loader reads it",
    action="watch", nothing=_no_scram,
    meaning="""Kafka's loader takes what it reads at once as one step. Where a removal in that step
    leaves a mechanism without a user, it can lose the users that are set in the same step, whichever
    came first. A node begins with its newest snapshot, or with offset 0. These nodes begin so that
    they lose the users that are named: nobody logs in as one there, and the node's next snapshot
    lacks them.""",
    advice="""Start such a node once it has written a snapshot that holds the users; by default one
    is written within an hour. If a node was started before, set the users again with kafka-configs
    once it runs. To set them again before the start need not help: they can be lost with it.""",
)  # fmt: skip
def scram_users(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    same: dict[tuple[User, ...], list[str]] = {}
    for label, users in lost_by_loading(quorum).items():
        same.setdefault(users, []).append(label)
    for users, labels in same.items():
        yield row(
            found,
            f"Kafka's own loader loses {users_text(users)} at the next start of {replicas_text(labels)}, as it reads in one step that others of the mechanism were removed. "
            "Start such a node once it has written a newer snapshot that holds what it would lose. What is lost already, set again with kafka-configs.",
            replicas=labels,
            users=[scram_user_text(*one) for one in users],
        )


@health_check(
    "acls_distinct", "warning", "state", "KIP-801",
    "no ACL stands under two ids",
    action="origin", nothing=unless_held(lambda found: found.acl_count, "the state holds no ACL"),
    meaning="""Two ids name the same ACL. Kafka's controllers write an ACL once, so that records were
    changed, or a controller was wrong. Controllers take the records, but the StandardAuthorizer throws
    when it loads them: a node that starts goes by no ACL at all, and refuses all but super users, or
    lets everybody in where allow.everyone.if.no.acl.found is set. A controller that is asked to remove
    that ACL removes each id, and stops with an exception at the second one.""",
    advice="""Restart no node that has an authorizer, and do not remove this ACL: no tool of Kafka's
    removes one id alone. Find out which controller wrote the ACCESS_CONTROL_ENTRY_RECORD of each id.
    Which states before it can be rebuilt, `kraftlog restorable` tells.""",
)  # fmt: skip
def distinct_acls(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    if found.same_acls:
        same = [{"acl": acl_text(one.value), "ids": list(one.ids)} for one in found.same_acls]
        told = some([f"{one['acl']} ({listed(one['ids'])})" for one in same], TOLD)
        yield row(
            found,
            f"{counted(len(same), 'ACL')} under more than one id: {told}. "
            "Kafka's StandardAuthorizer throws when it loads them: a node that starts goes by no ACL at all. "
            "A controller that is asked to remove it stops with an exception. Restart no node that has an authorizer, and find out which controller wrote it.",
            acls=same,
        )
