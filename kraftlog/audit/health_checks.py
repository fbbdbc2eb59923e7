"""Checks of the running cluster's health, by the newest state: partitions, brokers, features.

In: `quorum.evidence.health`, which the replay leaves. Each finding is one for the quorum: it names
what is concerned, since when, and what to do. Source: KAFKA-20395, KIP-1312, KAFKA-20839,
leaderless partitions of 2025-12, KIP-584, KIP-966.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Unpack

from kraftlog.audit.check import BadRow, Check, Scope, Severity, Words, check
from kraftlog.audit.coverage import Coverage, Subject
from kraftlog.audit.grouping import users_text
from kraftlog.audit.triage import replicas_text
from kraftlog.explain.words import scram_user_text
from kraftlog.plain import counted, numbers, sentence, some
from kraftlog.quorum.health import Health, Partition, Since
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.scram import User, lost_by_loading
from kraftlog.relations import moment
from kraftlog.state.shapes import METADATA_VERSION
from kraftlog.state.write import ELR_FEATURE

TOLD = 12
"""So many names stand in a sentence; the evidence has all of them."""
IMBALANCE_SHARE = 0.1
IMBALANCE_LEAST = 20
"""As Kafka's own balancer, a broker is left alone up to 10 %; few partitions say nothing."""

UNKNOWN_STATE = "the newest state is not known: no history at hand leads up to it"
Judge = Callable[[Quorum, Health], Iterator[BadRow]]
Reason = str | None
"""Why a state holds nothing that a check could judge; None where it does."""
Nothing = Callable[[Quorum, Health], Reason]


def health_of(quorum: Quorum) -> Health | None:
    """The newest state; None where it is not known, or a newer Kafka leaves it in doubt."""
    found = quorum.evidence.state.health if quorum.evidence.state else None
    return None if found is None or found.doubt else found


def judged(judge: Judge, nothing: Nothing) -> Callable[[Quorum], Iterator[BadRow]]:
    """The query of a check over the newest state."""

    def query(quorum: Quorum) -> Iterator[BadRow]:
        found = health_of(quorum)
        if found is not None and nothing(quorum, found) is None:
            yield from judge(quorum, found)

    return query


def over(nothing: Nothing) -> Subject:
    """What such a check judges: the state of all copies together."""

    def covered(quorum: Quorum) -> Coverage:
        found = health_of(quorum)
        if found is None:
            state = quorum.evidence.state
            doubt = state.health.doubt if state and state.health else None
            return Coverage((), ((None, doubt or UNKNOWN_STATE),))
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


def row(found: Health, message: str, severity: Severity | None = None, **evidence: Any) -> BadRow:
    """A finding on the newest state."""
    doubt = f" This is the state at offset {found.offset}. Whether all of it is committed is not proven."
    return BadRow(
        None,
        message + ("" if found.is_committed else doubt),
        offset=found.offset,
        severity=severity,
        evidence=evidence,
    )


def by_text(told: Iterable[tuple[str, str]]) -> str:
    """What is to be said of each name, as sentences; names of which the same is said stand
    together.
    """
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


def _evidence(partitions: Sequence[Partition]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "topic_id": one.topic_id,
            "leader": one.leader,
            "replicas": one.replicas,
            "isr": one.isr,
            "elr": one.elr,
            "last_known_elr": one.last_known_elr,
            "led_by": one.led_by,
            "since_offset": None if one.since is None else one.since.offset,
        }
        for one in partitions
    ]


# --- partitions ----------------------------------------------------------------------------------


def _no_partition(quorum: Quorum, found: Health) -> Reason:
    return None if found.partition_count else "the state holds no partition"


@health_check(
    "partitions_have_leaders", "warning", "state", "leaderless partitions of 2025-12, KIP-966",
    "every partition has a leader that is registered and not fenced",
    action="watch", nothing=_no_partition,
    meaning="""Partitions have no leader: nobody can read or write them. Or their leader is fenced
    or not registered, which a controller never leaves so. At level info every
    broker that could lead them was stopped on purpose, or unregistered while no broker runs, as in
    a copy of a cluster that was shut down.""",
    advice="""Start the brokers that the finding names for each partition. Those in its ISR (in
    sync), else in its ELR (eligible leader replicas), lose nothing. A broker that crashed leaves
    the ELR when it comes back. With eligible.leader.replicas.version 1, Kafka elects the broker
    that led last by itself as soon as it runs, without the records that it lost in the crash. Else
    only an unclean election is left (kafka-leader-election --election-type unclean), and the
    broker that led last is the best choice.""",
)  # fmt: skip
def leaderless(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    for on_purpose, partitions in _by_purpose(found, found.leaderless, _awaited):
        told = by_text((one.name, _way_back(found, one)) for one in partitions)
        brokers = sorted({broker for one in partitions for broker in _awaited(one)})
        cause = f" {_stopped(brokers)}." if on_purpose else ""
        one = len(partitions) == 1
        verb, which = ("has", "This") if one else ("have", "The first")
        lacking = [one for one in partitions if one.leader < 0]
        first = min((one.since for one in lacking if one.since), default=None)
        since = f" {which} partition has had no leader {since_text(first)}." if lacking else ""
        clean = f" {_IF_CLEAN}" if any(_to_start(found, one) for one in partitions) else ""
        yield row(
            found,
            f"{counted(len(partitions), 'partition')} of {found.partition_count:,} {verb} no leader: nobody reads or writes there."
            f"{cause} {told}{clean}{since}",
            "info" if on_purpose else None,
            names=[one.name for one in partitions],
            partitions=[
                one | {"way_back": _whole_way_back(found, partition)}
                for one, partition in zip(_evidence(partitions), partitions, strict=True)
            ],
        )


def _by_purpose(
    found: Health, partitions: Sequence[Partition], missing: Callable[[Partition], Sequence[int]]
) -> Iterator[tuple[bool, list[Partition]]]:
    """Partitions that a failure has left so, then those whose missing brokers were all stopped or
    unregistered on purpose: while others run, what was unregistered is missed.
    """
    runs = any(map(found.alive, found.brokers))
    purpose = [
        bool(missing(one))
        and all(found.stopped(broker) for broker in missing(one))
        and not (runs and any(broker not in found.brokers for broker in missing(one)))
        for one in partitions
    ]
    for wanted in (False, True):
        held = [one for one, is_so in zip(partitions, purpose, strict=True) if is_so == wanted]
        if held:
            yield wanted, held


def _awaited(one: Partition) -> Sequence[int]:
    """Who could lead a partition that has no leader; nobody where the records name one."""
    return () if one.leader >= 0 else one.isr or one.elr or one.last_known_elr or one.replicas


def _out_of_sync(one: Partition) -> Sequence[int]:
    return [broker for broker in one.replicas if broker not in one.isr]


_IF_CLEAN = "If such a broker ended cleanly, nothing is lost."


def _to_start(found: Health, one: Partition) -> list[int]:
    """The registered brokers that hold all that was committed, and do not run; first who led last,
    and so also holds what came after. Nobody where the records name a leader.
    """
    if one.leader >= 0:
        return []
    away = [broker for broker in one.isr or one.elr if not found.alive(broker)]
    registered = [broker for broker in away if broker in found.brokers]
    return sorted(registered, key=lambda broker: broker != one.led_by)


def _whole_way_back(found: Health, one: Partition) -> str:
    """The same with its condition, for one partition."""
    clean = " (if it ended cleanly, nothing is lost)" if _to_start(found, one) else ""
    return f"{_way_back(found, one)}{clean}"


def _way_back(found: Health, one: Partition) -> str:
    """Which replica is the safest leader of a partition without one. Source: KIP-966."""
    if one.leader >= 0:
        away = "fenced" if one.leader in found.brokers else "not registered"
        return f"led by broker {one.leader}, which is {away} (a controller moves leaders first); start that broker, or reassign these partitions"
    safe = one.isr or one.elr
    source = "ISR" if one.isr else "ELR"
    if back := _to_start(found, one):
        return f"start broker {_or(back)} of the {source}"
    if running := [broker for broker in safe if found.alive(broker)]:
        return f"broker {_or(running)} of the {source} runs, but its log directory is offline, or it cannot lead (see its server.log)"
    if safe:
        return f"bring back broker {_or(safe)} of the {source}, which is unregistered"
    if one.last_known_elr:
        last = _or(one.last_known_elr)
        if _is_elected_by_itself(found, one):
            return f"start broker {last}, which led last; Kafka elects it by itself, and records that it lost in the crash are lost"
        return f"only an unclean election is left, of broker {last}, which led last"
    if one.led_by is not None and one.led_by in one.replicas:
        return f"only an unclean election is left, of broker {one.led_by}, which led last by the history"
    alive = [broker for broker in one.replicas if found.alive(broker)]
    others = f", of broker {_or(alive)}" if alive else ""
    return f"only an unclean election is left{others}, and records may be lost"


def _is_elected_by_itself(found: Health, one: Partition) -> bool:
    """Whether Kafka elects who led last as soon as it runs: `PartitionChangeBuilder` does so where
    nobody else is eligible, and one broker is named.
    """
    is_on = found.levels.get(ELR_FEATURE, 0) >= 1
    return is_on and len(one.last_known_elr) == 1 and not found.alive(one.last_known_elr[0])


def _brokers(brokers: Sequence[int]) -> str:
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {numbers(brokers, TOLD)}"


def _stopped(brokers: Sequence[int]) -> str:
    be = "was" if len(brokers) == 1 else "were"
    return f"{sentence(_brokers(brokers))} {be} stopped or unregistered"


def _or(brokers: Sequence[int]) -> str:
    return " or ".join(map(str, brokers))


@health_check(
    "partitions_reach_min_isr", "warning", "state", "KIP-966",
    "every partition has min.insync.replicas in sync",
    action="watch", nothing=_no_partition,
    meaning="""Fewer replicas are in sync than min.insync.replicas asks for. Producers with
    acks=all get errors, and with eligible leader replicas (KIP-966) the high watermark stands
    still. What a broker's server.properties says of min.insync.replicas is in no record, so
    only configs of topics and of all brokers count here.""",
    advice="""Start the missing brokers, or reassign the partitions to brokers that run.""",
)  # fmt: skip
def under_min_isr(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    for on_purpose, partitions in _by_purpose(found, found.under_min_isr, _out_of_sync):
        told = by_text((one.name, _in_sync(one)) for one in partitions)
        brokers = sorted({broker for one in partitions for broker in _out_of_sync(one)})
        missing = f"{_stopped(brokers)}: start what is missing."
        if not on_purpose:
            missing = _to_bring_back(found, brokers)
        verb = "has" if len(partitions) == 1 else "have"
        yield row(
            found,
            f"{counted(len(partitions), 'partition')} of {found.partition_count:,} {verb} fewer replicas in sync than min.insync.replicas: producers with acks=all fail there. "
            f"{missing} {told}",
            "info" if on_purpose else None,
            names=[one.name for one in partitions],
            partitions=_evidence(partitions),
        )


def _to_bring_back(found: Health, brokers: Sequence[int]) -> str:
    """What is to be done with brokers that are not in sync: those that are away, then those that
    run.
    """
    away = [one for one in brokers if not found.alive(one)]
    running = [one for one in brokers if found.alive(one)]
    told = [f"Start what is missing: {_brokers(away)}."] if away else []
    if running:
        what = "runs, but is" if len(running) == 1 else "run, but are"
        told.append(f"{sentence(_brokers(running))} {what} not in sync: see server.log for why.")
    return " ".join(told)


def _in_sync(one: Partition) -> str:
    """How many are in sync, who, and how many should be."""
    who = f" ({_brokers(one.isr)})" if one.isr else ""
    return f"{len(one.isr)} in sync{who}, {one.min_isr} wanted"


@health_check(
    "elections_clean", "info", "state", "leaderless partitions of 2025-12, KIP-704",
    "no partition got a leader by an unclean election",
    action="watch", nothing=_no_partition,
    meaning="""A partition was given a leader that was not in sync: by the history at hand, or
    because it is still marked as recovering. What the earlier leaders had and the new one lacked
    is lost. With one replica in sync nothing ever takes the mark away.""",
    advice="""Compare with what producers sent and consumers saw since the moment that the
    finding names. See who led before, and when: kraftlog explain partition NAME-N.""",
)  # fmt: skip
def unclean(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    partitions = found.unclean
    if partitions:
        told = by_text((one.name, _how_unclean(one)) for one in partitions)
        marked = [one.name for one in partitions if one.is_recovering]
        stays = " The mark stays where only one replica is in sync: that is harmless."
        yield row(
            found,
            f"{counted(len(partitions), 'partition')} of {found.partition_count:,} got a leader that was not in sync, by an unclean election. "
            "Records that such a leader lacked are lost. "
            "Compare with what producers and consumers know. "
            f"{told}{stays if marked else ''}",
            names=[one.name for one in partitions],
            marked=marked,
            elections=[
                {
                    "name": one.name,
                    "offset": one.unclean.since.offset if one.unclean else None,
                    "leader": one.unclean.leader if one.unclean else one.leader,
                    "times": one.unclean.times if one.unclean else None,
                }
                for one in partitions
            ],
        )


def _how_unclean(one: Partition) -> str:
    """Who was elected, when, how often; without offsets, so one election of many partitions is
    told once.
    """
    state = "still marked as recovering" if one.is_recovering else "recovered since"
    if one.unclean is None:
        return f"elected before the records at hand, led by broker {one.leader} now ({state})"
    at = moment(one.unclean.since.timestamp)
    when = f" at {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
    times = f"{one.unclean.times} times in all, " if one.unclean.times > 1 else ""
    return f"broker {one.unclean.leader} was elected{when} ({times}{state})"


def _no_broker(quorum: Quorum, found: Health) -> Reason:
    return None if found.brokers else "no broker is registered"


@health_check(
    "replicas_registered", "info", "state", "leaderless partitions of 2025-12",
    "every broker of an assignment is registered",
    action="watch", nothing=_no_broker,
    meaning="""A broker was unregistered while partitions still list it as a replica, and perhaps
    as an eligible leader. Kafka does not take it out by itself.""",
    advice="""If the broker is gone for good, reassign these partitions
    (kafka-reassign-partitions). If not, start it, and it registers again.""",
)  # fmt: skip
def on_unregistered(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    partitions = found.on_unregistered
    gone: dict[int, list[Partition]] = {}
    for one in partitions:
        for broker in one.replicas:
            if broker not in found.brokers:
                gone.setdefault(broker, []).append(one)
    for broker, held in sorted(gone.items()):
        in_elr = [one.name for one in held if broker in one.elr]
        elr = f" The ELR of {some(in_elr, TOLD)} names it too." if in_elr else ""
        since = since_text(found.past.unregistered.get(broker))
        names = [one.name for one in held]
        those = "That is" if len(held) == 1 else "Those are"
        yield row(
            found,
            f"Broker {broker} is not registered ({since}), but is still a replica of {counted(len(held), 'partition')}. {those} {some(names, TOLD)}."
            f"{elr} Start it again, or reassign these partitions to other brokers.",
            broker_id=broker,
            names=names,
            in_elr=in_elr,
        )


@health_check(
    "replication_single", "info", "state", "KIP-631",
    "every partition has more than one replica",
    action="know", nothing=_no_partition,
    meaning="""Partitions have one replica. While its broker is down, such a partition is offline,
    and the only copy is on the disk of that broker. This is normal for tests and for data that may
    be lost.""",
    advice="""Raise the replication factor of what matters with kafka-reassign-partitions.""",
)  # fmt: skip
def single(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    if found.single:
        has, those = ("has", "That is") if len(found.single) == 1 else ("have", "Those are")
        yield row(
            found,
            f"{counted(len(found.single), 'partition')} of {found.partition_count:,} {has} one replica only. {those} {some(list(found.single), TOLD)}. "
            "While the broker of such a partition is down, nobody reads or writes there. The only copy is on the disk of that broker.",
            partitions=list(found.single),
        )


def _no_racks(quorum: Quorum, found: Health) -> Reason:
    return None if len(found.racks) > 1 else "the registered brokers name fewer than two racks"


@health_check(
    "replication_spread", "info", "state", "KIP-36",
    "replicas of a partition lie in more than one rack, where brokers name racks",
    action="know", nothing=_no_racks,
    meaning="""All replicas of a partition lie in one rack, although the brokers name several.""",
    advice="""Reassign these partitions: kafka-reassign-partitions --generate spreads replicas over
    racks.""",
)  # fmt: skip
def one_rack(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    if found.one_rack:
        has, those = ("has", "That is") if len(found.one_rack) == 1 else ("have", "Those are")
        racks = len(found.racks)
        yield row(
            found,
            f"{counted(len(found.one_rack), 'partition')} of {found.partition_count:,} {has} all replicas in one rack, though the brokers name {racks} racks. "
            f"{those} {some(list(found.one_rack), TOLD)}. "
            "If that rack fails, no replica of such a partition is left.",
            partitions=list(found.one_rack),
            racks=sorted(found.racks),
        )


@health_check(
    "leaders_balanced", "info", "state", "KIP-631",
    "no broker that is there leads far fewer partitions than prefer it",
    action="know", nothing=_no_partition,
    meaning="""More than a tenth of the partitions that prefer a broker as their leader are led by
    others, though the broker runs. It has less to do than it should, and the others have more.""",
    advice="""Run kafka-leader-election --election-type preferred, or leave
    auto.leader.rebalance.enable on.""",
)  # fmt: skip
def leader_balance(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    for broker, count in sorted(found.preferred_count.items()):
        away = found.preferred_elsewhere.get(broker, 0)
        if count >= IMBALANCE_LEAST and away > IMBALANCE_SHARE * count and found.alive(broker):
            yield row(
                found,
                f"{away:,} of the {count:,} partitions that broker {broker} should lead are led by other brokers, although it runs. "
                "Move them back with kafka-leader-election --election-type preferred. "
                "Kafka does so by itself where auto.leader.rebalance.enable is on.",
                broker_id=broker,
                led_elsewhere=away,
                preferred=count,
            )


# --- brokers -------------------------------------------------------------------------------------


@health_check(
    "brokers_unfenced", "warning", "state", "KIP-631",
    "no registered broker is fenced",
    action="watch", nothing=_no_broker, after="replicas_registered",
    meaning="""A registered broker is fenced: it leads no partition and serves no client. This is a
    warning where it stopped answering or has never caught up, and an info after a controlled
    shutdown.""",
    advice="""Start it and see why it stopped. A broker that never unfences cannot reach the
    controllers, or does not catch up with the metadata log.""",
)  # fmt: skip
def fenced(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    for broker, value in sorted(found.brokers.items()):
        if not value["fenced"]:
            continue
        stopping = value["inControlledShutdown"]
        since = found.past.fenced.get(broker)
        cause = "after a controlled shutdown" if stopping else "without a controlled shutdown"
        start = (
            "Start it."
            if stopping
            else "It stopped answering, or has not caught up since it started: start it, or look why."
        )
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
    level, able = _level(found), _able(found)
    wanted = min(
        (able[kind, node] for kind, node in able if kind == "broker" or node in ids), default=0
    )
    for controller in sorted(set(found.controllers) - set(ids)):
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


def _able(found: Health) -> dict[tuple[str, int], int]:
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


def _unsupported(found: Health) -> Iterator[tuple[str, list[str]]]:
    """Each finalized feature at a level that registered nodes do not support, and these; to Kafka
    (QuorumFeatures) a feature that a node does not name is one at level 0.
    """
    every = _ranges(found)
    for feature, level in sorted(found.levels.items()):
        nodes = [
            f"{kind} {node} ({f'{levels[0]} to {levels[-1]}' if levels else 'no level'})"
            for (kind, node), known in every.items()
            if known and level not in (levels := known.get(feature, range(0)))
        ]
        if nodes:
            yield feature, sorted(nodes)


def _no_node(quorum: Quorum, found: Health) -> Reason:
    if found.brokers or found.controllers:
        return None
    return "no broker and no controller is registered"


@health_check(
    "features_recorded", "warning", "state", "KAFKA-20839, KIP-584",
    "the state has a metadata.version",
    action="watch", nothing=_no_node,
    meaning="""The log holds records but no metadata.version, which the first leader writes.
    Upgrades of features are refused, and what nodes may write is not settled.""",
    advice="""Look at the first records of the log (kraftlog records --to-offset 20). If the log
    lost its beginning, log_start_covered tells so. Otherwise restore the state from a checkpoint
    that has its features.""",
)  # fmt: skip
def features_recorded(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    if METADATA_VERSION not in found.levels:
        yield row(
            found,
            "The state has no metadata.version: no feature can be upgraded, and nodes may not agree on what to write. "
            "Look for the FeatureLevelRecord among the first records of the log, or restore the state from a checkpoint that has it.",
        )


def _no_range(quorum: Quorum, found: Health) -> Reason:
    return None if _able(found) else "no node says which metadata.version it supports"


@health_check(
    "features_upgradable", "info", "state", "KAFKA-20395, KAFKA-20839, KIP-584",
    "finalized levels are what every registered node supports, and metadata.version the highest",
    action="watch", nothing=_no_range,
    meaning="""The finalized metadata.version is below what every registered node supports (an
    upgrade was not finished), or cannot rise because of the nodes that are named. This is a
    warning where a registered node does not support the level of a feature that holds, as it is
    too high or too low for it: that node would refuse to start.""",
    advice="""When all nodes run the new version and are to stay on it: kafka-features upgrade
    --release-version. Nodes that are gone for good should be unregistered first.""",
)  # fmt: skip
def upgradable(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    able = _able(found)
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
            f"The {feature} is {found.levels[feature]}, but these nodes do not support it: {some(nodes, TOLD)}. Such a node refuses to start. "
            "Install a version there that supports it.",
            "warning",
            feature=feature,
            finalized=found.levels[feature],
            behind=nodes,
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
