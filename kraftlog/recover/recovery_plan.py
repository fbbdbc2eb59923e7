"""The plan that a person reviews before the new quorum starts: what is kept, what is lost, what is
unknown, and what to do in which order.

In: a recovered image, the new voters, the files. Out: Markdown, and the same as plain values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kraftlog.explain.words import TopicNames, is_move, sentences
from kraftlog.log.names import LOG_FOLDER
from kraftlog.plain import counted, host_port, listed, numbers, offsets_text, some, voters_text
from kraftlog.recover.kit import SKIPPED_PRODUCER_IDS, NewVoter, node_commands
from kraftlog.recover.source import Cause, LeftOut, Recovered
from kraftlog.relations import moment
from kraftlog.state.shapes import METADATA_VERSION
from kraftlog.state.tables import TABLES
from kraftlog.state.write import losses, losses_text

TOLD = 40
"""So many lost objects are named of each copy; `plan.json` has all of them."""
LEAST_LEVEL = 21
"""metadata.version 3.9-IV0: below it the quorum may have run with a Kafka that knows no voters in records."""
LEAST_LEVEL_OF_4 = 7
"""metadata.version 3.3-IV3: Kafka 4 ends with an exception at any lower one."""
_UNTOLD = ("controllers", "producer_ids")
"""A new quorum begins with its own."""


def kept(found: Recovered) -> dict[str, int]:
    """How many objects of each kind the image holds."""
    rows = found.image.state.rows
    told = [one for one in TABLES if one.writer is not None and one.name not in _UNTOLD]
    return {one.noun[1]: len(rows(one.name)) for one in told}


def unknown(found: Recovered) -> Iterator[str]:
    """What the copies cannot tell."""
    image = found.image
    if image.end_offset > found.proven.offset:
        is_one = image.end_offset - found.proven.offset == 1
        were, they, them = ("was", "It is", "it") if is_one else ("were", "They are", "them")
        yield (
            f"Whether {offsets_text(found.proven.offset, image.end_offset)} {were} committed: nothing at hand proves it. "
            f"{they} kept, as a leader that holds {them} would do. With --at {found.proven.offset} only what is proven is taken."
        )
    known = max(image.end_offset, found.bounds.lower)
    reached = max([image.end_offset, *(one.end_offset for one in found.left_out)])
    if reached < found.bounds.lower:
        yield (
            f"What {offsets_text(reached, found.bounds.lower)} changed: they are committed ({found.bounds.lower_reason}), and no copy at hand gives them. "
            "It is lost, unless a copy is found that does."
        )
    if found.bounds.upper is None or found.bounds.upper > known:
        yield (
            f"Whether anything from offset {known} on was committed: nothing at hand proves that these copies end where the quorum ended. "
            "If the quorum went on, what it wrote then is lost."
        )
    elif found.bounds.is_of_a_describe:
        yield f"Whether anything from offset {known} on was committed since the quorum was described: if it went on, what it wrote then is lost."
    if found.bounds.missing_voters:
        yield f"What {voters_text(found.bounds.missing_voters)} held: no copy is at hand."
    if found.bounds.open_voters:
        who = voters_text(found.bounds.open_voters)
        yield f"What {who} held after the end of the copy: nothing proves that the log ended there."
    for other in found.other_states:
        yield (
            f"Whether the snapshot of {found.snapshot_of} is right that this begins with: that of {other.replica}, of the same id, has {counted(other.places, 'place')} otherwise. "
            "kraftlog audit names them: compare both with a backup before the new quorum starts."
        )
    for label, words in found.unread:
        yield (
            f"What {label} holds: {words}. Make it readable or copy it again, then plan anew: it may hold what no other copy does."
        )
    for end in found.lost_ends:
        held = offsets_text(end.start_offset, end.end_offset)
        yield f"What {end.replica} held at {held}: {end.words}. It is lost, unless the rest of that log is found."
    for label, confirmed in found.unseen:
        yield f"What of {label} is lost from offset {confirmed} on and not told above: whether and where it leaves this history is out of sight, as the other copies begin later."
    if found.opposed:
        yield _opposed_words(found)
    for fault in image.faults[:TOLD]:
        at = (
            "in the snapshot" if fault.origin.offset is None else f"at offset {fault.origin.offset}"
        )
        yield f"What the record {at} did, which has no effect here: {fault.detail}."
    for one in found.left_out:
        if one.why_unknown is not None:
            yield (
                f"What {one.replica} holds at {offsets_text(one.start_offset, one.end_offset)}: {one.why_unknown}"
            )
        if one.snapshot is not None:
            yield (
                f"Whether {one.snapshot} is what its name says: a snapshot up to offset {one.end_offset} that holds what the logs have lost. "
                "Keep it: it may be the only copy. What is still wanted of it has to be done again."
            )


def _opposed_words(found: Recovered) -> str:
    """Snapshots and the log tell two states, and nothing says which of them was changed."""
    names = [f"{one.path.rpartition('/')[2]} of replica {one.replica}" for one in found.opposed]
    texts = dict.fromkeys(each.text for one in found.opposed for each in one.differences)
    return (
        f"Whether the records are as they were written: they do not give the state of {some(names, 9)} (kraftlog audit: snapshot_equals_replay). "
        f"This plan follows the records. What differs: {some(list(texts), 9)}. Compare with a backup before anything starts."
    )


@dataclass(frozen=True, slots=True)
class Lacking:
    """What copies that hold the same have changed, and the image lacks, as sentences: objects, and
    partitions that only moved, which the cluster sets anew by itself.
    """

    held: list[LeftOut]
    objects: list[str]
    moved: list[str]


def lost(one: LeftOut, found: Recovered, *, moved: bool) -> list[str]:
    """What a copy's own records change: objects, or the moves of partitions."""
    topics = found.image.state.rows("topics").items()
    names = TopicNames({key[0]: value["name"] for key, value in topics})
    names.take(one.changes)
    return [
        text for each in one.changes if is_move(each) == moved for text in sentences(each, names)
    ]


def lost_together(found: Recovered) -> list[Lacking]:
    """What is lost, once for copies that hold the same."""
    groups: dict[tuple[object, ...], Lacking] = {}
    for one in found.left_out:
        if one.why_unknown is None:
            told = [lost(one, found, moved=moved) for moved in (False, True)]
            same = (one.cause, one.committed, *map(tuple, told))
            groups.setdefault(same, Lacking([], *told)).held.append(one)
    return list(groups.values())


def notes(found: Recovered) -> Iterator[str]:
    """What stands in the way of a start."""
    second = [one.replica for one in found.left_out if one.cause == Cause.SECOND_HISTORY]
    if second:
        yield (
            f"The quorum has two histories, and voters have committed both: this plan goes on with that of {listed(found.logs_of)}, and leaves out that of {' and '.join(second)}. "
            "Find out which one the brokers follow. To build on the other one, give only its copies as --input."
        )
    if found.apart:
        yield (
            f"Of another quorum, and no part of this plan: {some(list(found.apart), 9)}. "
            "If what was lost is there, give only that as --input."
        )
    level = found.image.state.get("features", (METADATA_VERSION,))
    if level is None:
        yield "The state has no metadata.version: Kafka will not start from it as it is."
    elif level["featureLevel"] < LEAST_LEVEL_OF_4:
        yield (
            f"metadata.version is {level['featureLevel']}, from before 3.9. "
            "Start these nodes with Kafka 3.9, as printed: an older one cannot begin with a checkpoint whose records name its voters, and from 4.0 on none takes that level."
        )
    elif level["featureLevel"] < LEAST_LEVEL:
        yield (
            f"metadata.version is {level['featureLevel']}, from before 3.9. "
            "Start these nodes with Kafka 3.9 or later, as printed: an older one cannot begin with a checkpoint whose records name its voters."
        )
    rows = found.image.state.rows("brokers").values()
    migrating = sorted(one["brokerId"] for one in rows if one["isMigratingZkBroker"])
    if migrating:
        is_one = len(migrating) == 1
        who, them = ("Broker", "it") if is_one else ("Brokers", "them")
        yield (
            f"{who} {numbers(migrating)} had not finished {'its' if is_one else 'their'} migration from ZooKeeper, which holds the metadata too, and alone what is not copied yet. "
            "Where ZooKeeper is left, no new quorum is needed: go back to it, as Kafka's documentation says, and migrate anew. "
            f"A new quorum does not migrate. If ZooKeeper is lost, set {them} up for KRaft before step 3: with process.roles=broker and node.id, and without what is of ZooKeeper. "
            f"Start {them} in migration mode no more: a broker deletes its copy of the log there whenever it starts."
        )
    unwritten = [one for one in losses(found.image.state) if one.table not in _UNTOLD]
    if unwritten:
        yield f"The checkpoints lack a part of the state: {losses_text(unwritten)}."


def may_be_older(found: Recovered) -> bool:
    """Whether the old quorum may have gone on after this state: then its brokers have done what the
    state does not tell.
    """
    upper = found.bounds.upper
    return upper is None or upper > found.image.end_offset


def there_again(found: Recovered) -> list[str]:
    """The topics of the image that records which are left out have deleted. What was never committed
    no broker has done.
    """
    gone = {
        each.key
        for one in found.left_out
        for each in one.changes
        if one.cause != Cause.UNCOMMITTED and each.table == "topics" and each.after is None
    }
    topics = found.image.state.rows("topics").items()
    return sorted(value["name"] for key, value in topics if key in gone)


def _combined(found: Recovered, voters: Sequence[NewVoter]) -> Iterator[str]:
    """A node of both roles may have its metadata log in a directory with data, whose id stays."""
    directories = {one.id: one.directories for one in found.brokers}
    for one in voters:
        known = directories.get(one.id, ())
        if known and one.directory_id not in known:
            yield (
                f"Node {one.id} is a broker, too. If its metadata log lies in a directory with partitions, the directory keeps its id, as the partitions are assigned to it. "
                f"Then give {' or '.join(known)} as the directory id of voter {one.id} in --voters. "
                "A directory on an empty disk gets another id, so that Kafka does not take it for the old one."
            )


def plan_values(
    found: Recovered,
    voters: Sequence[NewVoter],
    files: dict[int, list[Path]],
    cluster_id: str,
    able: Sequence[int],
) -> dict[str, Any]:
    image = found.image
    return {
        "cluster_id": cluster_id,
        "end_offset": image.end_offset,
        "epoch": image.epoch,
        "logs_of": list(found.logs_of),
        "snapshot_of": found.snapshot_of,
        "proven_offset": found.proven.offset,
        "upper_offset": found.bounds.upper,
        "missing_voters": list(found.bounds.missing_voters),
        "able_voters": list(able),
        "kept": kept(found),
        "topics": sorted(value["name"] for value in image.state.rows("topics").values()),
        "topics_there_again": there_again(found),
        "lost": [
            {
                "replicas": [one.replica for one in group.held],
                "start_offset": min(one.start_offset for one in group.held),
                "end_offset": max(one.end_offset for one in group.held),
                "objects": group.objects + group.moved,
            }
            for group in lost_together(found)
        ],
        "unknown": list(unknown(found)),
        "notes": [*notes(found), *_combined(found, voters)],
        "voters": [one.id for one in voters],
        "brokers": [one.id for one in found.brokers],
        "commands": {
            str(node): commands
            for node, commands in node_commands(voters, found.brokers, cluster_id).items()
        },
        "files": {str(voter): [str(one) for one in paths] for voter, paths in files.items()},
    }


def plan_text(
    found: Recovered,
    voters: Sequence[NewVoter],
    cluster_id: str,
    listener: str,
    inputs: Sequence[str],
    able: Sequence[int],
) -> str:
    """`able` are the old voters that may start with their own disks, where they are a majority."""
    lines = [*_head(found, inputs, able), *_kept_lines(found), *_lost_lines(found)]
    open_ = [f"- {one}" for one in unknown(found)]
    agree = "" if found.left_out else ", and agree"
    nothing = [f"Nothing: all voters are at hand{agree}."]
    lines += ["", "## Unknown", "", *(open_ or nothing)]
    problems = [*notes(found), *_combined(found, voters)]
    if problems:
        lines += ["", "## Settle this first", "", *(f"- {one}" for one in problems)]
    lines += ["", *_steps(found, voters, cluster_id, listener)]
    return "\n".join(lines) + "\n"


def _head(found: Recovered, inputs: Sequence[str], able: Sequence[int]) -> list[str]:
    image, at = found.image, moment(found.image.timestamp)
    time = f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "an unknown time"
    logs = f"{'the log' if len(found.logs_of) == 1 else 'the logs'} of {listed(found.logs_of)}"
    source, trust = f"{logs}, from offset 0 up to that one", ""
    if image.base is not None:
        source = f"{image.base_name} of {found.snapshot_of}"
        if image.end_offset > found.snapshot_end:
            source += f", and from {logs} up to that offset"
        trust = "That snapshot is taken at its word: the log does not lead up to it from offset 0. "
    is_open = found.open_since is not None
    if len(found.logs_of) > 1:
        trust += "None of these logs gives that state alone: each record is taken from one that can be read, and follows the record before it in one of them. "
    open_ = (
        f"The open transaction from offset {found.open_since} on is left out. " if is_open else ""
    )
    return [
        "# A new quorum from what remains",
        "",
        f"From: {', '.join(inputs)}",
        "",
        *_not_needed(able),
        f"This is the state before offset {image.end_offset} of epoch {image.epoch}; its last record is of {time}. "
        f"It comes from {source}. "
        f"{open_}{trust}Review this plan before anything starts. Nothing in the old copies has been changed.",
    ]


def _not_needed(able: Sequence[int]) -> list[str]:
    """That the old quorum can go on. A new one loses more: each broker registers again, and what the
    copies do not hold is gone.
    """
    if not able:
        return []
    are = "is a majority, and may start again with its own disk"
    if len(able) > 1:
        are = "are a majority, and may start again with their own disks"
    return [
        f"These copies do not ask for a new quorum. {voters_text(able).capitalize()} {are}: `kraftlog audit` says how. Follow this plan only where that fails.",
        "",
    ]


def _kept_lines(found: Recovered) -> list[str]:
    one_of = {one.noun[1]: one.noun[0] for one in TABLES}
    counts = ", ".join(
        f"{count:,} {one_of[name] if count == 1 else name}" for name, count in kept(found).items()
    )
    names = sorted(value["name"] for value in found.image.state.rows("topics").values())
    return [
        "",
        "## Kept",
        "",
        f"{counts}.",
        "",
        f"Proven to be committed: every record below offset {found.proven.offset} ({found.proven.reason}).",
        "",
        f"Topics: {', '.join(names) or 'none'}.",
        "",
        "Controllers register again when they start. Brokers keep their old registrations until they register again. "
        f"Producer ids go on {SKIPPED_PRODUCER_IDS:,} further: the old quorum may have given out some that no copy tells of.",
    ]


def _lost_lines(found: Recovered) -> list[str]:
    lines = ["", "## Lost", ""]
    groups = lost_together(found)
    if not groups:
        lines.append(
            "What is known: nothing. See what is unknown."
            if found.left_out
            else "Nothing that is at hand."
        )
    for group in groups:
        spans = [
            f"{offsets_text(one.start_offset, one.end_offset)} of replica {one.replica}"
            for one in group.held
        ]
        lines.append(
            f"Left out: {' and '.join(spans)}. {group.held[0].cause}{_committed(group)} What only these records change:"
        )
        lines += ["", *(f"- {text}" for text in group.objects[:TOLD])]
        if len(group.objects) > TOLD:
            lines.append(f"- and {len(group.objects) - TOLD:,} more: see plan.json")
        if not group.objects:
            lines.append("- nothing that a person would have to do again")
        if group.moved:
            moved = counted(len(group.moved), "partition")
            again = f"leader and replicas in sync of {moved} (see plan.json)"
            if group.held[0].cause == Cause.UNCOMMITTED:
                moves = f"What the cluster sets again by itself: {again}."
            else:
                moves = f"What brokers have gone by since: {again}. Step 6 goes by that."
            lines += ["", moves]
        lines.append("")
    return [*lines, *_again_lines(found)]


def _again_lines(found: Recovered) -> list[str]:
    """Topics whose deletion is left out, but which brokers have deleted."""
    names = there_again(found)
    if not names:
        return []
    return [
        f"There again: {some(names, TOLD)}. Brokers that ran have deleted {'its' if len(names) == 1 else 'their'} records. "
        "Such a broker may lead a partition all the same, and the others then cut theirs to nothing. "
        "Before any broker starts, copy the folders of these partitions from a broker that was down then, and still has them, to those that have not.",
        "",
    ]


def _committed(group: Lacking) -> str:
    """That a part of what is left out is committed; nothing where that is not known."""
    start = min(one.start_offset for one in group.held)
    until = min(group.held[0].committed, max(one.end_offset for one in group.held))
    return (
        f" Those below offset {until} are committed, and lost with this choice."
        if start < until
        else ""
    )


_STRAY = (
    " When a broker starts, it renames the folders of topics that are not under Kept to -stray, and before Kafka 3.7 it deletes them. "
    "Copy them first, if their records are still wanted."
)


def _broker_step(found: Recovered, bootstrap: str) -> str:
    """How the brokers start. One without its data, or of before what the state tells, can lead: the others
    cut their records to its end (seen of Kafka 4.3.1, also on a disk with a new directory id, and of a
    broker that had lost one of two disks).
    """
    older = may_be_older(found)
    until, or_late, then = "", ",", ""
    if older:
        then = "Of the others, those that have all of their data come before those with an empty disk, in the same way. "
        until = "ran until the old quorum ended, and "
        or_late = ", or one that stopped or fell behind after that,"
    return (
        f"6. Start first only the brokers that {until}have all of their data, with controller.quorum.bootstrap.servers={bootstrap} and without controller.quorum.voters. "
        "A broker that ran until now is let in when its old registration has timed out (broker.session.timeout.ms, 9 s by default). "
        f"Leaders and replicas in sync are those of offset {found.image.end_offset}. "
        f"A broker with an empty disk, be it one of several{or_late} could lead, and the others would cut acknowledged records to its end. "
        "So start the other brokers only when each partition of the first ones is led by one of these. "
        f"{then}Where a partition has no leader, elect one that runs: `kafka-leader-election --bootstrap-server BROKER:PORT --election-type unclean --all-topic-partitions`."
    )


def _only_controllers(both: Sequence[int]) -> str:
    """What is to be said of nodes of both roles before they start as brokers."""
    if not both:
        return ""
    return (
        f"Of {numbers(both)}, those that step 6 starts later begin with process.roles=controller, and with the controllers' listener alone. "
        "They become brokers when the others start. "
    )


def _steps(
    found: Recovered, voters: Sequence[NewVoter], cluster_id: str, listener: str
) -> list[str]:
    addresses = [host_port(one.host, one.port) for one in voters]
    bootstrap = ",".join(addresses)
    lines = [
        "## Steps",
        "",
        "1. Stop every controller of the old quorum for good. A node that starts from an old copy under the same cluster id begins a second history. Keep all old folders.",
        "2. Stop the brokers. Their data stays, and so does the `meta.properties` of a node that is a broker alone. "
        f"Set only the folder `{LOG_FOLDER}` aside: a metadata log that is ahead of the new one would be refused."
        f"{_STRAY if may_be_older(found) else ''}",
        "3. Set up each node, as the user that Kafka runs as. The files of the voters hold credentials in clear text: keep their owner and mode. "
        "Each command runs only if the one before it succeeded. What is old goes to a folder beside the log directory. "
        "Where that user may not make one there, make it as root first, and give it to that user. "
        "If a node has further log directories, `kafka-storage format` formats those, and leaves these files alone.",
        "",
    ]
    hosts = {one.id: f"controller {one.id} on {one.host}" for one in voters}
    for node, commands in node_commands(voters, found.brokers, cluster_id).items():
        lines.append(f"       # {hosts.get(node, f'broker {node}')}")
        lines += [f"       {one} && \\" for one in commands[:-1]] + [f"       {commands[-1]}"]
    level = found.image.state.get("features", (METADATA_VERSION,))
    is_older = level is not None and level["featureLevel"] <= LEAST_LEVEL
    never = [
        "       # nor zookeeper.metadata.migration.enable, with which no leader of a new quorum can begin"
    ]
    both = sorted({one.id for one in voters} & {one.id for one in found.brokers})
    roles = [f"       # of {numbers(both)}: process.roles=broker,controller"] if both else []
    lines += [
        "",
        "4. In each controller's server.properties:",
        "",
        "       process.roles=controller",
        *roles,
        "       node.id=ID",
        f"       controller.listener.names={listener}",
        f"       controller.quorum.bootstrap.servers={bootstrap}",
        "       # and no controller.quorum.voters",
        *(never if is_older else ()),
        "",
        f"5. Start the controllers. {_only_controllers(both)}One of them must become the leader: `kafka-metadata-quorum --bootstrap-controller {addresses[0]} describe --status`.",
        _broker_step(found, bootstrap),
        "7. Create again what is lost and still wanted, and run `kraftlog audit` over new copies.",
    ]
    return lines
