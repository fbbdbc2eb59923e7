"""Checks of the running cluster's partitions, by the newest state.

In: `quorum.evidence.health`, which the replay leaves. Each finding is one for the quorum: it names
the partitions, since when, and what to do. Source: KAFKA-20395, leaderless partitions of 2025-12,
KIP-966.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kraftlog.audit.check import BadRow
from kraftlog.audit.health_checks import (
    NO_BROKER,
    TOLD,
    Reason,
    by_text,
    health_check,
    row,
    since_text,
    unless_held,
)
from kraftlog.plain import brokers_text, counted, sentence, some
from kraftlog.quorum.health import Health, Partition
from kraftlog.quorum.model import Quorum
from kraftlog.relations import moment
from kraftlog.state.shapes import LOST
from kraftlog.state.write import ELR_FEATURE

IMBALANCE_SHARE = 0.1
IMBALANCE_LEAST = 20
"""As Kafka's own balancer, a broker is left alone up to 10 %; few partitions say nothing."""

_IF_CLEAN = "If such a broker ended cleanly, nothing is lost."
_IF_REPAIRED = "What lies on such a disk is lost where its broker starts without it."


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


_NO_PARTITION = unless_held(lambda found: found.partition_count, "the state holds no partition")


@health_check(
    "partitions_have_leaders", "warning", "state", "leaderless partitions of 2025-12, KIP-966",
    "every partition has a leader that is registered and not fenced",
    action="watch", nothing=_NO_PARTITION,
    meaning="""Partitions have no leader: nobody can read or write them. Or their leader is fenced
    or not registered, which a controller never leaves so. At level info every
    broker that could lead them was stopped on purpose, or unregistered while no broker runs, as in
    a copy of a cluster that was shut down.""",
    advice="""Start the brokers that the finding names for each partition, but repair the disks that
    it names first. Those in its ISR (in sync), else in its ELR (eligible leader replicas), lose
    nothing. A broker that crashed leaves the ELR when it comes back. With
    eligible.leader.replicas.version 1, Kafka elects the broker that led last by itself as soon as
    it runs, without the records that it lost in the crash. Else only an unclean election is left
    (kafka-leader-election --election-type unclean), and the broker that led last is the best
    choice, unless it came back with other disks. No such election names a broker: Kafka takes the
    first of the partition's replicas that runs, so those before it must not run.""",
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
        broken = f" {_IF_REPAIRED}" if any(_to_repair(found, one) for one in partitions) else ""
        yield row(
            found,
            f"{counted(len(partitions), 'partition')} of {found.partition_count:,} {verb} no leader: nobody reads or writes there."
            f"{cause} {told}{clean}{broken}{since}",
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
    """Partitions that a failure has left so, a disk's among them, then those whose missing brokers
    were all stopped or unregistered on purpose: while others run, what was unregistered is missed.
    """
    runs = any(map(found.alive, found.brokers))
    purpose = [
        bool(missing(one))
        and all(found.stopped(broker) for broker in missing(one))
        and not (runs and any(broker not in found.brokers for broker in missing(one)))
        and not any(place.broker in missing(one) for place in one.offline)
        and not any(broker in missing(one) for broker in one.emptied)
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


def _to_start(found: Health, one: Partition) -> list[int]:
    """The registered brokers that hold all that was committed, and do not run; first who led last,
    and so also holds what came after. Nobody where the records name a leader, nor whose disk is
    offline or is gone.
    """
    if one.leader >= 0:
        return []
    away = [broker for broker in one.isr or one.elr if not found.alive(broker)]
    broken = {*one.emptied, *(place.broker for place in one.offline)}
    registered = [broker for broker in away if broker in found.brokers and broker not in broken]
    return sorted(registered, key=lambda broker: broker != one.led_by)


def _to_repair(found: Health, one: Partition) -> list[int]:
    """The brokers that have to bring back the disk with what is left of a partition, where nobody
    else who holds as much is at hand. Nobody where the records name a leader.
    """
    held = () if one.leader >= 0 else _holders(one)
    broken = {place.broker for place in one.offline}
    others = (found.alive(each) for each in held if each not in broken)
    if _is_emptied(one) or _to_start(found, one) or any(others):
        return []
    return [broker for broker in held if broker in broken]


def _is_emptied(one: Partition) -> bool:
    """Whether all who held most of a partition have come back without their disks."""
    return one.leader < 0 and bool(one.emptied) and set(_holders(one)) <= set(one.emptied)


def _without_disks(one: Partition, whose: str) -> str:
    """What is left where those who held most have come back empty: Kafka takes them for what they
    were, and others then cut what they have.
    """
    others = [broker for broker in one.replicas if broker not in one.emptied]
    if not others:
        return f"bring back the old disks of {whose}: it came back with others, and holds nothing there"
    first = " (compare their logs before: Kafka elects the first of them that runs)"
    note = first if len(others) > 1 else ""
    return f"stop {whose} before it leads: it came back with other disks, and holds nothing there; then an unclean election keeps what broker {_or(others)} has{note}"


def _holders(one: Partition) -> Sequence[int]:
    """The replicas that hold most of a partition, as far as the records tell."""
    return one.isr or one.elr or _led_last(one) or one.replicas


def _led_last(one: Partition) -> Sequence[int]:
    """Who led last, by the state or by the history."""
    if one.last_known_elr or one.led_by is None or one.led_by not in one.replicas:
        return one.last_known_elr
    return (one.led_by,)


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
    last = ", which led last" if _led_last(one) else ""
    role = f" of the {source}" if safe else last
    if _is_emptied(one):
        return _without_disks(one, f"broker {_or(_holders(one))}{role}")
    if broken := _to_repair(found, one):
        return f"repair the disk of broker {_or(broken)}{role}, and restart it: it does not register the log directory, and Kafka elects nobody from there"
    if running := [broker for broker in safe if found.alive(broker)]:
        return f"broker {_or(running)} of the {source} runs, but its log directory is offline, or it cannot lead (see its server.log)"
    if safe:
        return f"bring back broker {_or(safe)} of the {source}, which is unregistered"
    if one.last_known_elr:
        last = _or(one.last_known_elr)
        if _is_elected_by_itself(found, one):
            return f"start broker {last}, which led last; Kafka elects it by itself, and records that it lost in a crash are lost"
        return f"only an unclean election is left, of broker {last}, which led last{_as_chosen(found, one, one.last_known_elr)}"
    if one.led_by is not None and one.led_by in one.replicas:
        return f"only an unclean election is left, of broker {one.led_by}, which led last by the history{_as_chosen(found, one, (one.led_by,))}"
    alive = [broker for broker in one.replicas if found.alive(broker)]
    others = f", of broker {_or(alive)}" if alive else ""
    return f"only an unclean election is left{others}, and records may be lost"


def _is_first_choice(found: Health, one: Partition) -> bool:
    """Whether Kafka elects who led last where it runs, wherever it stands among the replicas:
    `PartitionChangeBuilder` does so where nobody else is eligible, and one broker is named.
    """
    return found.levels.get(ELR_FEATURE, 0) >= 1 and len(one.last_known_elr) == 1


def _is_elected_by_itself(found: Health, one: Partition) -> bool:
    """Whether Kafka elects who led last as soon as it runs."""
    return _is_first_choice(found, one) and not found.alive(one.last_known_elr[0])


def _as_chosen(found: Health, one: Partition, chosen: Sequence[int]) -> str:
    """What makes an unclean election take a broker: no request names one, and
    `PartitionChangeBuilder` takes the first replica that runs.
    """
    if _is_first_choice(found, one):
        return ""
    first = min(map(one.replicas.index, chosen), default=0)
    before = one.replicas[:first]
    away = not any(map(found.alive, chosen))
    todo = [f"start broker {_or(chosen)}"] if away else []
    todo += [f"stop {_brokers(before)} until it leads"] if before else []
    return (
        f" (first {' and '.join(todo)}: Kafka elects the first replica that runs)" if todo else ""
    )


def _brokers(brokers: Sequence[int]) -> str:
    return brokers_text(brokers, TOLD)


def _stopped(brokers: Sequence[int]) -> str:
    be = "was" if len(brokers) == 1 else "were"
    return f"{sentence(_brokers(brokers))} {be} stopped or unregistered"


def _or(brokers: Sequence[int]) -> str:
    return " or ".join(map(str, brokers))


@health_check(
    "partitions_reach_min_isr", "warning", "state", "KIP-966",
    "every partition has min.insync.replicas in sync",
    action="watch", nothing=_NO_PARTITION,
    meaning="""Fewer replicas are in sync than min.insync.replicas asks for. Producers with
    acks=all get errors, and with eligible leader replicas (KIP-966) the high watermark stands
    still. What a broker's server.properties says of min.insync.replicas is in no record, so
    only what is set while it runs counts here: for a topic, else for its leader, else for all
    brokers.""",
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
    """What is to be done with brokers that are not in sync: those away, then those that run."""
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
    action="watch", nothing=_NO_PARTITION,
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
    """Who was elected, when, how often; without offsets, so that many partitions are told once."""
    state = "still marked as recovering" if one.is_recovering else "recovered since"
    if one.unclean is None:
        leader = f"broker {one.leader}" if one.leader >= 0 else "nobody"
        return f"elected before the records at hand, led by {leader} now ({state})"
    at = moment(one.unclean.since.timestamp)
    when = f" at {at:%Y-%m-%d %H:%M:%S} UTC" if at else ""
    times = f"{one.unclean.times} times in the records at hand, " if one.unclean.times > 1 else ""
    return f"broker {one.unclean.leader} was elected{when} ({times}{state})"


@health_check(
    "replicas_registered", "info", "state", "leaderless partitions of 2025-12",
    "every broker of an assignment is registered",
    action="watch", nothing=NO_BROKER,
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


def _no_directories(quorum: Quorum, found: Health) -> Reason:
    named = any(one.get("logDirs") for one in found.brokers.values())
    return None if named or found.on_offline else "no broker registers its log directories"


@health_check(
    "replica_directories_registered", "warning", "state", "KIP-858",
    "every running broker registers the log directories of its replicas",
    action="watch", nothing=_no_directories,
    meaning="""A broker runs, but does not register the log directory in which partitions of it lie:
    that disk has failed, is full, or is not in its log.dirs. Where other replicas are in sync they serve,
    and nothing else shows it. Where none is, the only copy is on that disk.""",
    advice="""Repair the disk, or make room on it, and restart the broker. If the disk is gone, replace it or
    take it out of log.dirs, but only where the finding names no partition that has its data there alone:
    a broker of which all log.dirs work begins such a partition empty. A restart with the failed disk still
    in log.dirs changes nothing.""",
)  # fmt: skip
def on_offline_directory(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    of_brokers = {place.broker for each in found.on_offline for place in each.offline}
    for broker in sorted(one for one in of_brokers if not found.brokers[one]["fenced"]):
        held = [
            one for one in found.on_offline if any(place.broker == broker for place in one.offline)
        ]
        places = {
            place.directory for one in held for place in one.offline if place.broker == broker
        }
        directories = sorted(places - {LOST})
        alone = [one.name for one in held if tuple(_holders(one)) == (broker,)]
        last = [one.name for one in held if len(one.isr) == 1 and one.isr != (broker,)]
        named = f" ({some(directories, TOLD)})" if directories else ""
        names = [one.name for one in held]
        those = "That is" if len(held) == 1 else "Those are"
        lie = f"{counted(len(held), 'partition')} of which it is a replica{named}"
        state = "runs, but" if found.alive(broker) else "is in a controlled shutdown, and"
        told = ""
        if last:
            told += f" {len(last):,} of these {'has' if len(last) == 1 else 'have'} one replica in sync left: while its broker is down, nobody reads or writes there."
        if alone:
            told += f" No other replica is in sync of {some(alone, TOLD)}: what is there is on that disk alone, and is lost where the broker starts without it."
        yield row(
            found,
            f"Broker {broker} {state} does not register the log directory of {lie}: that disk is offline. It neither leads nor follows there."
            f"{told} A restart alone does not change it: repair the disk, or make room on it, then restart the broker. {those} {some(names, TOLD)}.",
            broker_id=broker,
            directories=directories,
            names=names,
            one_in_sync=last,
            alone_there=alone,
        )


@health_check(
    "partitions_numbered", "warning", "state", "KIP-631",
    "the partitions of each topic are numbered from 0 on, without a gap",
    action="origin", nothing=_NO_PARTITION,
    meaning="""A topic lacks partitions below its highest number. Kafka's controller numbers them one
    after the other and removes none but with its topic, so that records were lost or changed, if the
    topic did not come so from ZooKeeper. When partitions are added, it counts those that are there
    to number the new ones: it would write over one of them.""",
    advice="""Add no partitions to the topic. Find out where the missing records went: compare the
    copies, older snapshots and a backup, and ask `kraftlog explain` about the topic. Move what the
    topic holds to a new one.""",
)  # fmt: skip
def numbered(quorum: Quorum, found: Health) -> Iterator[BadRow]:
    if found.gaps:
        told = some(
            [f"{one.topic} ({one.held} up to number {one.highest})" for one in found.gaps], TOLD
        )
        yield row(
            found,
            f"{counted(len(found.gaps), 'topic')} without all partitions below the highest number: {told}. "
            "Kafka leaves no gap, so that records were lost or changed, and clients do not find the missing ones. "
            "Add no partitions there: Kafka would number the new ones by how many there are, and write over one.",
            topics=[one.topic for one in found.gaps],
        )


@health_check(
    "replication_single", "info", "state", "KIP-631",
    "every partition has more than one replica",
    action="know", nothing=_NO_PARTITION,
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


@health_check(
    "replication_spread", "info", "state", "KIP-36",
    "replicas of a partition lie in more than one rack, where brokers name racks",
    action="know",
    nothing=unless_held(
        lambda found: len(found.racks) > 1, "the registered brokers name fewer than two racks"
    ),
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
    action="know", nothing=_NO_PARTITION,
    meaning="""More than a tenth of the partitions that prefer a broker as their leader are led by
    others, though the broker runs and is in sync. It has less to do than it should, and the others have more.""",
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
