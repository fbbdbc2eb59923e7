"""Damages that reach what rules say in their rarer forms: the other ways back to a leader, nodes
that were stopped on purpose, settings of a node's own, places where an equal sign decides.
"""

import os
import shutil
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.unit.audit_logs import (
    HEADER_SIZE,
    NO_OP,
    START_MS,
    Batch,
    Node,
    describe,
    feature,
    healthy_log,
    healthy_state,
    led_next,
    overwrite,
    remove_topic,
    replace_batch,
    snapshot,
    topic,
    voters_batch,
)
from tests.unit.faults.cases import elections, free, joiner, settings
from tests.unit.faults.health import (
    FIRST,
    HALF,
    HALF_OFFLINE,
    KEEP,
    MIN_ISR,
    ON_DISKS,
    RUNNING,
    broker,
    change,
    cluster,
    level,
    on_its_disks,
    partition,
    placed,
    sound,
    supports,
    uuid,
    value,
    with_disks,
)
from tests.unit.faults.snapshots import _snapshots as in_seconds
from tests.unit.faults.table import AT, LATER, Damage, everywhere, fault

BETWEEN = "metadata_log_max_record_bytes_between_snapshots"

# --- partitions without a leader -----------------------------------------------------------------


def with_elr(**fields: Any) -> bytes:
    """A change of the partition of topic a that knows eligible leader replicas (version 2)."""
    data = {
        "partitionId": 0, "topicId": uuid(1), **KEEP, "directories": None,
        "eligibleLeaderReplicas": None, "lastKnownElr": None, **fields,
    }  # fmt: skip
    return value("PARTITION_CHANGE_RECORD", 2, **data)


def in_elr(*members: int) -> Damage:
    """Voter 2's snapshot has these in the ELR of the partition of topic a; the feature is off."""

    def damage(nodes: list[Node]) -> None:
        data = {
            "partitionId": 0, "topicId": uuid(1), "replicas": [1, 2], "isr": [1, 2], "leader": 1,
            "removingReplicas": [], "addingReplicas": [], "leaderRecoveryState": 0,
            "leaderEpoch": 0, "partitionEpoch": 0, "directories": [],
            "eligibleLeaderReplicas": [*members], "lastKnownElr": None,
        }  # fmt: skip
        with_it = Batch(0, 1, (topic("a", 1), value("PARTITION_RECORD", 2, **data)))
        raw = snapshot([with_it, healthy_log()[3]], 1, START_MS + 3000)
        nodes[1].checkpoint(6, 1).write_bytes(raw)

    return damage


fault(
    "snapshot_equals_replay", "critical", "2", 6, says="eligibleLeaderReplicas is [2], not []",
    also="snapshots_agree", sound=in_elr(),
)(in_elr(2))  # fmt: skip


def stopped(number: int, offset: int) -> bytes:
    """Broker after a controlled shutdown."""
    return value(
        "REGISTER_BROKER_RECORD", 2, brokerId=number, incarnationId=uuid(number),
        brokerEpoch=offset, endPoints=[], features=[], rack=None, fenced=True,
        inControlledShutdown=True, isMigratingZkBroker=False,
    )  # fmt: skip


LEAVING = (level(20), broker(1, FIRST + 1), stopped(2, FIRST + 2))
"""Broker 2 was stopped on purpose."""
ELR_ON = feature("eligible.leader.replicas.version", 1)
ALL_FENCED = (level(20), *(broker(one, FIRST + one, fenced=True) for one in (1, 2)))


def leaderless(says: str, *records: bytes, severity: str = "warning") -> None:
    fault("partitions_have_leaders", severity, says=says, sound=sound)(cluster(*records))


leaderless(
    "Start broker 2 of the ELR: a-0. If such a broker ended cleanly, nothing is lost.",
    *HALF, with_elr(isr=[], leader=-1, eligibleLeaderReplicas=[2]),
)  # fmt: skip
leaderless(
    "Start broker 2 or 1 of the ISR: a-0. If such a broker ended cleanly, nothing is lost.",
    *ALL_FENCED, change(leader=2), change(leader=-1),
)  # fmt: skip
leaderless(
    "Bring back broker 2 of the ISR, which is unregistered: a-0.",
    *HALF[:2], change(isr=[2], leader=-1),
)  # fmt: skip
leaderless(
    "Broker 2 was stopped or unregistered. Bring back broker 2 of the ISR, which is unregistered",
    level(20), stopped(1, FIRST + 1), change(isr=[2], leader=-1), severity="info",
)  # fmt: skip
leaderless(
    "Broker 2 of the ISR runs, but its log directory is offline, or it cannot lead (see its server",
    *RUNNING, change(isr=[2], leader=-1),
)  # fmt: skip
leaderless(
    "Only an unclean election is left, of broker 2, which led last (first start broker 2 and stop broker 1 until it leads: Kafka elects the first replica that runs)",
    *HALF, with_elr(isr=[], leader=-1, lastKnownElr=[2]),
)  # fmt: skip
leaderless(
    "Start broker 2, which led last; Kafka elects it by itself, and records that it lost in a",
    *HALF, ELR_ON, with_elr(isr=[], leader=-1, lastKnownElr=[2]),
)  # fmt: skip
leaderless(
    "Only an unclean election is left, of broker 2, which led last: a-0.",
    *RUNNING, ELR_ON, with_elr(isr=[], leader=-1, lastKnownElr=[2]),
)  # fmt: skip
leaderless(
    "Only an unclean election is left, of broker 1 or 2, which led last: a-0.",
    *HALF, ELR_ON, with_elr(isr=[], leader=-1, lastKnownElr=[1, 2]),
)  # fmt: skip
leaderless(
    "Only an unclean election is left, of broker 2, and records may be lost: a-0.",
    *RUNNING, change(replicas=[2], isr=[], leader=-1),
)  # fmt: skip
leaderless(
    "Only an unclean election is left, and records may be lost: a-0.",
    *HALF, change(replicas=[2], isr=[], leader=-1),
)  # fmt: skip
leaderless(
    "Broker 2 was stopped or unregistered. Start broker 2 of the ISR",
    *LEAVING, change(isr=[2], leader=-1), severity="info",
)  # fmt: skip
STOPPED_OFFLINE = (
    level(20), stopped(1, FIRST + 1), with_disks(2, uuid(102), fenced=True, stopping=True)
)  # fmt: skip
"""Both were stopped on purpose, and the second disk of broker 2 had failed before."""
ON_SECOND = {"directories": [uuid(101), uuid(103)]}
leaderless(
    "Repair the disk of broker 2 of the ISR, and restart it: it does not register the log directory",
    *STOPPED_OFFLINE, placed(uuid(101), uuid(103), isr=[2], leader=-1),
)  # fmt: skip
leaderless(
    "Repair the disk of broker 2, which led last, and restart it: it does not register the log",
    *HALF_OFFLINE, ELR_ON, with_elr(isr=[], leader=-1, lastKnownElr=[2], **ON_SECOND),
)  # fmt: skip
leaderless(
    "What lies on such a disk is lost where its broker starts without it.",
    *HALF_OFFLINE, placed(uuid(101), uuid(103), isr=[2], leader=2), change(isr=[], leader=-1),
)  # fmt: skip
leaderless(
    "Only an unclean election is left, of broker 1, which led last: a-0.",
    *HALF_OFFLINE, with_elr(isr=[], leader=-1, lastKnownElr=[1], **ON_SECOND),
)  # fmt: skip
SECOND_LOST = (placed(uuid(101), uuid(103), isr=[2], leader=2), change(leader=-1))
leaderless(
    "Stop broker 2 of the ISR before it leads: it came back with other disks, and holds nothing there",
    *ON_DISKS, *SECOND_LOST, with_disks(2, uuid(109)),
)  # fmt: skip
leaderless(
    "keeps what broker 3 or 1 has (compare their logs before: Kafka elects the first of them that runs)",
    *ON_DISKS, with_disks(3, uuid(104)),
    placed(uuid(104), uuid(103), uuid(101), replicas=[3, 2, 1], isr=[2], leader=2), change(leader=-1),
    with_disks(2, uuid(109)),
)  # fmt: skip
leaderless(
    "Bring back the old disks of broker 2 of the ISR: it came back with others, and holds nothing",
    *ON_DISKS, placed(uuid(103), replicas=[2], isr=[2], leader=2), change(leader=-1),
    with_disks(2, uuid(109), fenced=True, stopping=True),
)  # fmt: skip
leaderless(
    "Start broker 2 of the ISR: a-0. If such a broker ended cleanly, nothing is lost.",
    *ON_DISKS, *SECOND_LOST, with_disks(2, uuid(103), uuid(109), fenced=True),
)  # fmt: skip
leaderless(
    "2 partitions of 3 have no leader",
    *HALF, change(isr=[2], leader=-1), partition(0, [2], -1), partition(1, [1], 1),
)  # fmt: skip

fault(
    "partitions_reach_min_isr", "info", sound=sound,
    says="Broker 2 was stopped or unregistered: start what is missing. 1 in sync (broker 1), 2 wanted",
)(cluster(*LEAVING, MIN_ISR, change(isr=[1])))  # fmt: skip
fault("brokers_unfenced", "info", says="), after a controlled shutdown: it leads", sound=sound)(
    cluster(*LEAVING)
)
fault("leaders_balanced", "info", says="3 of the 25 partitions", sound=sound)(
    cluster(*RUNNING, *(partition(one, [1, 2], 2 if one < 3 else 1) for one in range(24)))
)

# --- nodes with settings of their own ------------------------------------------------------------


def fetches(**values: object) -> Damage:
    """A voter that does not arrive, and how it fetches."""

    def damage(nodes: list[Node]) -> None:
        joiner(nodes[2])
        nodes[2].quorum_state(leaderId=-1, leaderEpoch=7)
        settings(nodes[2], **values)

    return damage


def arrived(nodes: list[Node]) -> None:
    nodes[2].quorum_state(leaderId=-1, leaderEpoch=7)


fault(
    "controllers_catch_up", "warning", "3", 0, sound=arrived,
    says="within 500 ms, the lesser of controller.quorum.fetch.timeout.ms and "
    "controller.quorum.request.timeout.ms. That takes a link of 200 bytes/s, or of 864 bytes/s before "
    "Kafka 4.3",
)(
    fetches(
        controller_quorum_fetch_snapshot_max_bytes=100, controller_quorum_fetch_timeout_ms=500
    )
)  # fmt: skip
"""The snapshot has 432 bytes: 100 of them in half a second, or all."""
fault(
    "controllers_catch_up", "warning", "3", 0, sound=arrived, says="must come within 2,000 ms, the lesser"
)(fetches(controller_quorum_fetch_timeout_ms=60_000))  # fmt: skip
"""At the default request timeout the connection is closed."""


# --- disks ---------------------------------------------------------------------------------------


def full_in_days(most: int) -> Damage:
    """61,440,000 bytes are free, which last for 6.8 days; so many bytes of log are kept at most."""

    def damage(nodes: list[Node]) -> None:
        free(60_000)(nodes)
        settings(
            nodes[1], metadata_log_segment_bytes=8 << 20, metadata_max_retention_bytes=most
        )  # fmt: skip

    return damage


FITS = 61_440_000 + 1_378 - (8 << 20) - 20_971_520
"""What is free and taken, without a segment and what is written until the next snapshot."""
fault(
    "disk_has_room", "warning", "2", says="and retention lets them grow to 61,441,379 bytes.",
    sound=full_in_days(FITS),
)(full_in_days(FITS + 1))  # fmt: skip
fault(
    "disk_has_room", "warning", "2", says="and no retention by size limits them.",
    sound=full_in_days(FITS),
)(full_in_days(-1))  # fmt: skip


def many_topics(blocks: int) -> Damage:
    """A snapshot of more than 1,024 bytes, and so much room beside it."""

    def damage(nodes: list[Node]) -> None:
        many = [topic(f"a-topic-with-a-long-name-{n}", 100 + n) for n in range(20)]
        everywhere(nodes, *many)
        state = [*healthy_state(), Batch(12, 2, tuple(many), None, LATER)]
        nodes[1].checkpoint(32, 2).write_bytes(snapshot(state, 2, LATER))
        free(blocks)(nodes)

    return damage


fault(
    "disk_has_room", "warning", "2", says="has no room for one more snapshot: 1,024 bytes free",
    sound=many_topics(10**6),
)(many_topics(1))  # fmt: skip


@fault(
    "disk_has_room", "warning", "2", sound=free(10**6),
    says="0 bytes free, and how fast its log grows is not known. The log and its snapshots take 432 "
    "bytes, and how far retention lets them grow is not known.",
    also="log_end_lost",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """No batch and no room for another snapshot: of how the log grows nothing is to be seen."""
    free(0)(nodes)
    for base in (0, 6):
        nodes[1].segment(base).unlink()
    nodes[1].segment(6).write_bytes(b"")


# --- controllers that do not vote ----------------------------------------------------------------


def ghost(highest: int | None) -> bytes:
    """Controller 9 that supports metadata.version up to a level, or does not say."""
    features = [] if highest is None else supports(highest)
    return value(
        "REGISTER_CONTROLLER_RECORD", controllerId=9, incarnationId=uuid(9),
        zkMigrationReady=False, endPoints=[], features=features,
    )  # fmt: skip


fault(
    "controllers_are_voters", "info", sound=sound,
    says="It holds back no upgrade of metadata.version. It can be unregistered only from",
)(cluster(*RUNNING, ghost(20)))  # fmt: skip
fault(
    "controllers_are_voters", "info", sound=sound,
    says="Which metadata.version it supports is not recorded.",
)(cluster(*RUNNING, ghost(None)))  # fmt: skip

# --- ends of logs --------------------------------------------------------------------------------


def cut(node: Node) -> None:
    """Its log ends at offset 6, two below the epoch that the files beside it know."""
    node.segment(6).unlink()


@fault(
    "log_end_lost", "critical", "3", 6, says="could be elected, as if these records",
    sound=on_its_disks,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A voter by its number alone is told as one: on a disk that the voter set does not name."""
    on_its_disks(nodes)
    nodes[2].meta(directory=99)
    cut(nodes[2])


def with_observer(nodes: list[Node]) -> Node:
    observer = Node(nodes[0].home.parent, 9)
    observer.write(healthy_log())
    return observer


@fault(
    "log_end_lost", "warning", "9", 6, says="This node does not vote, and fetches what it",
    sound=with_observer,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    cut(with_observer(nodes))


@fault(
    "epoch_within_quorum_state", "warning", "9", 8, says="no vote is forgotten. Delete quorum-state while",
    sound=with_observer,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """It need not begin anew, and may hold what no voter holds."""
    with_observer(nodes).quorum_state(leaderId=-1, leaderEpoch=1)


@fault(
    "quorum_state_present", "warning", "9", says="does not vote, so that no vote is forgotten. Delete",
    sound=with_observer,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    with_observer(nodes).quorum_state(leaderId=2, leaderEpoch=2, data_version=5)


@fault(
    "batch_crc_valid", "critical", "3", 10, AT[10], says="Do not empty its log folder", also="log_end_lost",
    sound=lambda nodes: (nodes[2].home / "meta.properties").unlink(),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Whose copy it is nothing tells: it may be the voter without which too few are whole."""
    (nodes[2].home / "meta.properties").unlink()
    overwrite(nodes[2].segment(6), AT[10] + 70, b"\xff")
    cut(nodes[1])


def copied_at(path: Path, ms: int) -> None:
    os.utime(path, ns=(ms * 10**6, ms * 10**6))


def emptied(ms: int) -> Damage:
    """Voter 3 with an empty log that was copied at a time; its first record is of START_MS."""

    def damage(nodes: list[Node]) -> None:
        for path in (nodes[2].segment(6), nodes[2].checkpoint(6, 1)):
            path.unlink()
        nodes[2].segment(0).write_bytes(b"")
        copied_at(nodes[2].segment(0), ms)

    return damage


fault(
    "log_end_lost", "info", "3", 0, says="its log was copied first. Copy the node again",
    sound=lambda nodes: copied_at(nodes[2].segment(0), START_MS - 1),
)(emptied(START_MS - 1))  # fmt: skip
fault(
    "log_end_lost", "critical", "3", 0, says="Do not start this node",
    sound=lambda nodes: copied_at(nodes[2].segment(0), START_MS),
)(emptied(START_MS))  # fmt: skip


def takes_over(node: Node, end: int) -> None:
    """A log that ends at an offset beside a snapshot of a later one, which is older than all
    logs.
    """
    path, segment, log = node.checkpoint(12, 2), node.segment(6), healthy_log()
    path.write_bytes(snapshot(healthy_state(), 2, log[-1].ms))
    copied_at(path, LATER)
    if end > 6:
        segment.write_bytes(segment.read_bytes()[: AT[end]])
    else:
        segment.unlink()
    node.epochs([one for one in ((1, 0), (2, 8)) if one[1] < end])


def pruned(node: Node, end: int) -> None:
    """A node whose oldest snapshot ends there: its log may start there, too."""
    node.checkpoint(6, 1).unlink()
    node.checkpoint(end, 2).write_bytes(snapshot(healthy_state(), 2, healthy_log()[-1].ms))


@fault(
    "log_end_lost", "critical", "3", 6, says="00000000000000000006.index of a segment that is gone",
    sound=lambda nodes: takes_over(nodes[2], 6),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A takeover of a snapshot drops a log from its beginning on."""
    takes_over(nodes[2], 6)
    nodes[2].segment(6).with_suffix(".index").write_bytes(bytes(96))


@fault(
    "log_end_lost", "critical", "3", 10, says="which no voter can have sent to it",
    sound=lambda nodes: (takes_over(nodes[2], 10), pruned(nodes[1], 11)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """All voters hold the snapshot of offset 6, and so all that follows."""
    takes_over(nodes[2], 10)


def copied_alone(nodes: list[Node], number: int) -> None:
    """A node whose log ends before its newest snapshot, without the other voters' copies."""
    takes_over(nodes[number - 1], 10)
    for node in nodes:
        if node.node_id != number:
            shutil.rmtree(node.home)


@fault(
    "log_end_lost", "critical", "2", 10, says="as leader of epoch 2 it had written what that holds",
    sound=lambda nodes: copied_alone(nodes, 3),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What it wrote itself, no other node can have sent to it."""
    copied_alone(nodes, 2)


@fault("log_end_lost", "info", "2", 10, says="holds a snapshot of offset 12, and as leader")
def _(nodes: list[Node]) -> None:
    """The snapshot holds a record that was written after the log was copied."""
    copied_alone(nodes, 2)
    copied_at(nodes[1].segment(6), healthy_log()[-1].ms - 1)


def cut_at(ms: int) -> Damage:
    """Voters 2 and 3 end at offset 6, whose record is 4,000 ms later; 1 has a snapshot of all."""

    def damage(nodes: list[Node]) -> None:
        stored = healthy_state()
        nodes[0].checkpoint(12, 2).write_bytes(snapshot(stored, 2, healthy_log()[-1].ms))
        for node in nodes[1:]:
            cut(node)
            node.epochs([(1, 0)])
            node.quorum_state(leaderId=1, leaderEpoch=1)
            copied_at(node.segment(0), ms)

    return damage


fault(
    "voter_holds_committed_data", "info", "2", 6, sound=on_its_disks,
    says="If it is down, start controller 1 first, then only as many others as make a majority with it, and the rest, this one among them",
)(cut_at(START_MS + 3_999))  # fmt: skip
fault(
    "voter_holds_committed_data", "critical", "3", 6, sound=on_its_disks,
    says="Voters 2 and 3 would elect it all the same",
)(cut_at(START_MS + 4_000))  # fmt: skip


@fault(
    "voter_holds_committed_data", "info", "2", 6, also="batch_crc_valid",
    says="If it is down, do what is told of controller 1, which holds them, and start that one first, then only as many others as make a majority with it",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka 4.1.1 elected one of the others where they were started first, and 73 batches were lost."""
    cut_at(START_MS + 3_999)(nodes)
    overwrite(nodes[0].segment(0), HEADER_SIZE + 1, b"\x55")


@fault(
    "voter_holds_committed_data", "critical", "3", 6, sound=on_its_disks,
    says="Controller 1 holds them, but has forgotten its vote",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Since Kafka 4.1 it ends, at each start, with the first answer of who follows it as its leader."""
    cut_at(START_MS + 4_000)(nodes)
    (nodes[0].folder / "quorum-state").unlink()


def each_without_another_part(damaged: Node, shorter: Node, older: Node) -> None:
    """One log is damaged inside, one has lost its last record, and one its newest epoch."""
    overwrite(damaged.segment(0), AT[3] + HEADER_SIZE + 1, b"\x55")
    path = shorter.segment(6)
    path.write_bytes(path.read_bytes()[: AT[11]])
    cut(older)
    older.epochs([(1, 0)])
    older.quorum_state(leaderId=1, leaderEpoch=1)


@fault(
    "batch_crc_valid", "critical", "1", 3, also="log_end_lost", sound=on_its_disks,
    says="elect a leader that lacks that. Keep all folders, and compare with a backup",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Each lost another part: what voter 2 sent as leader, and lost, is behind the damage of voter 1.
    Kafka 4.1.1 went on without it, with the log of that leader in the place of the damaged one.
    """
    each_without_another_part(nodes[0], nodes[1], nodes[2])
    nodes[0].checkpoint(6, 1).unlink()


@fault(
    "batch_crc_valid", "critical", "1", 3, also="log_end_lost", sound=on_its_disks,
    says="Before this node starts, move the files of its segments before 00000000000000000006.log out",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Behind its damage, and its own snapshot, the log holds what the others lost: Kafka 4.1.1 and 4.3.1
    went on with all of it. As it was, they cut it, or sent what is behind a hole to who lacked that.
    """
    each_without_another_part(nodes[0], nodes[1], nodes[2])


def alone_behind_a_hole(nodes: list[Node]) -> None:
    """The others are copies of before: Kafka 4.3.1 gave them what is behind the hole."""
    replace_batch(nodes[0], 3, lambda one: b"")
    for node in nodes[1:]:
        shutil.rmtree(node.folder)
        node.folder.mkdir()
        node.segment(0).write_bytes(b"".join(one.raw() for one in healthy_log()[:2]))
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)


fault(
    "offsets_contiguous", "critical", "1", 3, AT[3], sound=on_its_disks,
    says="elect a leader that lacks that. Before this node starts, move the files of its segments before",
    also="voter_holds_committed_data",
)(alone_behind_a_hole)  # fmt: skip


@fault(
    "offsets_contiguous", "critical", "1", 3, AT[3], sound=on_its_disks,
    says="of this replica. Keep a copy of this folder. Before this node starts, move the files of its segments before",
    also="voter_holds_committed_data",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """By its own snapshot it lacks nothing."""
    alone_behind_a_hole(nodes)
    stored = snapshot(healthy_state(), 2, healthy_log()[-1].ms)
    nodes[0].checkpoint(12, 2).write_bytes(stored)


@fault(
    "batch_crc_valid", "critical", "2", 3, sound=on_its_disks,
    says="Keep a copy of its folder, which may alone hold offset 11. Before this node starts, put the log folder of replica 1",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What the others lack behind the damage goes with the log that another one takes the place of."""
    each_without_another_part(nodes[1], nodes[0], nodes[2])


def grown(nodes: list[Node]) -> None:
    """The quorum began with voter 1 alone, and the others joined it."""
    stored = [healthy_log()[1], healthy_log()[3]]
    for node in nodes:
        node.append(voters_batch(FIRST, 2, 1, 2, 3, ms=LATER))
        node.checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3_000, voters=[1]))


def _set_back_to_one(nodes: list[Node]) -> None:
    """The disk of voter 1 is one of before that: each start makes it the leader of itself."""
    cut(nodes[0])
    nodes[0].epochs([(1, 0)])
    nodes[0].quorum_state(leaderId=1, leaderEpoch=1)


fault(
    "voter_holds_committed_data", "critical", "1", 6, sound=grown,
    says="Do not start it with this log. Set its log folder aside, and start the node when the others have a leader: it fetches the log again.",
)(lambda nodes: (grown(nodes), _set_back_to_one(nodes)))  # fmt: skip


def _grown_and_on(nodes: list[Node]) -> None:
    """A snapshot of voter 3 tells how far the three have committed."""
    grown(nodes)
    for node in nodes:
        node.append(Batch(13, 2, (NO_OP,), None, LATER))
    stored = snapshot(healthy_state(), 2, LATER, voters=[1, 2, 3])
    nodes[2].checkpoint(14, 2).write_bytes(stored)


@fault(
    "voter_holds_committed_data", "critical", "2", 13, also="voter_holds_committed_data",
    says="and the rest when it leads. Leave controller 1 out of it, by its own finding.",
    sound=_grown_and_on,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Voter 2 lags as well: who is started first must not meet the one that leads itself."""
    _grown_and_on(nodes)
    _set_back_to_one(nodes)
    path = nodes[1].segment(6)
    path.write_bytes(path.read_bytes()[: -len(Batch(13, 2, (NO_OP,)).raw())])


def _grown_to_five(nodes: list[Node]) -> None:
    """Voters 1, 2 and 3 were joined by 4 and 5, of which no copy is at hand."""
    stored = [healthy_log()[1], healthy_log()[3]]
    for node in nodes:
        node.append(voters_batch(FIRST, 2, 1, 2, 3, 4, 5, ms=LATER))
        node.checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3_000, voters=[1, 2, 3]))


@fault(
    "voter_holds_committed_data", "critical", "3", 6, sound=_grown_to_five,
    also="voter_holds_committed_data",
    says="then only as many others as make a majority with it, and the rest, controller 2 and controller 3 among them, when it leads.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Two of them were set back: they are a majority of three, and who holds all needs two of four."""
    _grown_to_five(nodes)
    after = snapshot(healthy_state(), 2, LATER, voters=[1, 2, 3, 4, 5])
    nodes[0].checkpoint(13, 2).write_bytes(after)
    for node in nodes[1:]:
        cut(node)
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)


@fault(
    "voter_holds_committed_data", "info", "3", 6, sound=with_observer,
    says="no voter at hand holds them: copy the voters again before one that is down starts",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Only a broker's snapshot tells what was committed."""
    cut_at(START_MS + 3_999)([with_observer(nodes), *nodes])


@fault(
    "voter_holds_committed_data", "critical", "3", 6, also="voter_holds_committed_data",
    says="before this one starts, put the log folder of replica 9 in the place of its own, with the quorum-state that is in it.",
    sound=with_observer,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The same of voters that were copied later: no other one is left to be started first."""
    cut_at(START_MS + 4_000)([with_observer(nodes), *nodes])


@fault(
    "voter_holds_committed_data", "critical", "3", 6, also="voter_holds_committed_data log_end_lost",
    says=f"before this one starts, put {12:020d}-0000000002.checkpoint of replica 9 into its log folder",
    sound=with_observer,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Of the broker's log no more is left than of theirs, and its snapshot is ahead of it."""
    observer = with_observer(nodes)
    cut_at(healthy_log()[-1].ms)([observer, *nodes])
    cut(observer)


@fault(
    "voter_holds_committed_data", "critical", "3", 6, also="batch_crc_valid", sound=on_its_disks,
    says="holds them: kraftlog recover builds a quorum from what remains",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The log of the only voter that holds more is damaged, and no snapshot is left."""
    cut_at(START_MS + 4_000)(nodes)
    nodes[0].checkpoint(12, 2).unlink()
    describe(nodes[0], 2, 2, 12)
    overwrite(nodes[0].segment(0), AT[3] + HEADER_SIZE + 1, b"\x55")


@fault(
    "voter_holds_committed_data", "critical", "3", 6, sound=with_observer,
    also="committed_data_consistent log_matching",
    says="Controller 1 holds them, but differs from replica 9, and no majority decides: start neither before you know which one is right.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What is started first becomes the truth."""
    cut_at(START_MS + 4_000)(nodes)
    observer = with_observer(nodes)
    replace_batch(observer, 10, lambda one: replace(one, values=(topic("d", 4),)).raw())


@fault(
    "voter_holds_committed_data", "critical", "3", 6, also="log_end_lost", sound=on_its_disks,
    says="Controller 1 holds them, but has lost the end of its log: settle its finding of log_end_lost first.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The only voter that could be started first has held more than it does."""
    cut_at(START_MS + 4_000)(nodes)
    nodes[0].epochs([(1, 0), (2, 8), (3, 13)])


def _of_other_voters(nodes: list[Node]) -> None:
    """A broker's configuration, which nobody counts votes by."""
    text = "controller.quorum.voters=1@a:9093,2@b:9093,4@c:9093\n"
    (with_observer(nodes).home / "server.properties").write_text(text)


fault(
    "voter_sets_agree", "warning", "9", sound=with_observer,
    says="It looks for a leader at those nodes when it starts: name those that vote now",
)(_of_other_voters)  # fmt: skip


def _of_two_observers(nodes: list[Node]) -> None:
    with_observer(nodes)
    more = Node(nodes[0].home.parent, 10)
    more.write(healthy_log())


def _of_two_with_other_voters(nodes: list[Node]) -> None:
    _of_two_observers(nodes)
    for label in ("9", "10"):
        text = "controller.quorum.voters=1@a:9093,2@b:9093,4@c:9093\n"
        (nodes[0].home.parent / label / "server.properties").write_text(text)


fault(
    "voter_sets_agree", "warning", "9", sound=_of_two_observers,
    says="of replicas 9 and 10. But they are 1, 2 and 3 by the quorum-state of replica 1. These nodes have no vote",
)(_of_two_with_other_voters)  # fmt: skip


def _observer_without_a_segment(nodes: list[Node]) -> None:
    with_observer(nodes)
    for segment in (nodes[0].home.parent / "9" / nodes[0].folder.name).glob("*.log"):
        segment.unlink()


fault(
    "file_readable", "warning", "9", sound=with_observer, says="no segment lies in its folder",
)(_observer_without_a_segment)  # fmt: skip

# --- differences ---------------------------------------------------------------------------------


def later_epoch(nodes: list[Node], *granted: int) -> None:
    for node in nodes[:2]:
        led_next(node, 3, 1, granted or (1, 3))


@fault(
    "uncommitted_tail_diverged", "warning", "3", 12, sound=later_epoch,
    says="Voter 2 once held it, and elected the leader of epoch 3 without it: it is lost there",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    nodes[2].append(Batch(12, 2, (topic("d", 4), NO_OP), None, LATER))
    later_epoch(nodes, 1, 2)


def _fourth_epoch(nodes: list[Node]) -> None:
    for node in nodes[:2]:
        led_next(node, 4, 1, (1, 2))


@fault(
    "uncommitted_tail_diverged", "warning", "3", 12, sound=_fourth_epoch,
    says="Voter 2 once held it, and elected the leader of epoch 4 without it: it is lost there",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Who ends with the tail had voted for it since."""
    _fourth_epoch(nodes)
    led_next(nodes[2], 3, 3, (2, 3))
    nodes[2].append(Batch(13, 3, (topic("d", 4),), None, LATER))
    nodes[2].quorum_state(leaderId=-1, leaderEpoch=4, votedId=2)


@fault("uncommitted_tail_diverged", "warning", "3", 12, says="Lost: topic d.", sound=later_epoch)
def _(nodes: list[Node]) -> None:
    """A tail over two batches, of which one ends behind the others' logs."""
    nodes[2].append(
        Batch(12, 2, (topic("d", 4), NO_OP), None, LATER), Batch(14, 2, (NO_OP,), None, LATER)
    )
    later_epoch(nodes)


@fault(
    "uncommitted_tail_diverged", "warning", "3", 12, sound=later_epoch,
    says="Lost: config min.insync.replicas of topic a. There again, because the deletion is lost: "
    "topic b.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What brokers do by themselves is no loss: it is counted."""
    own = (broker(1, 12), broker(2, 13), change(isr=[1]), change(leader=2))
    nodes[2].append(Batch(12, 2, (*own, MIN_ISR, remove_topic(2)), None, LATER))
    later_epoch(nodes)


@fault(
    "uncommitted_tail_diverged", "warning", "3", 12, sound=later_epoch,
    also="snapshot_within_committed snapshot_ahead_of_log",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A snapshot that ends behind the log beside it does not show that its tail was committed."""
    nodes[2].append(Batch(12, 2, (topic("d", 4), NO_OP), None, LATER))
    nodes[2].checkpoint(50, 2).write_bytes(snapshot(healthy_state(), 2, LATER))
    later_epoch(nodes)


@fault(
    "uncommitted_tail_diverged", "warning", "3", 12, sound=later_epoch,
    says="By the copies at hand controller 3 could be elected with it, and the tail would become",
)  # fmt: skip
def tail_that_may_return(nodes: list[Node]) -> None:
    """Voter 2 has not got, or has lost, what leader 1 wrote in epoch 3."""
    nodes[2].append(Batch(12, 2, (topic("d", 4), NO_OP), None, LATER))
    later_epoch(nodes[:1])


@fault(
    "uncommitted_tail_diverged", "warning", "3", 12, sound=later_epoch,
    says="With voter 2, of which no copy is at hand, controller 3 could be elected with it, and the",
)  # fmt: skip
def tail_that_may_return_unseen(nodes: list[Node]) -> None:
    """Whether voter 2 has got what leader 1 wrote in epoch 3 is not known."""
    tail_that_may_return(nodes)
    shutil.rmtree(nodes[1].home)


def _trimmed(nodes: list[Node]) -> None:
    """1 and 2 begin with a snapshot at offset 14, in the midst of epoch 3."""
    for node in nodes[:2]:
        for path in node.folder.glob("0000*"):
            path.unlink()
        node.segment(14).write_bytes(Batch(14, 3, (NO_OP,), None, LATER).raw())
        node.checkpoint(14, 3).write_bytes(snapshot(healthy_state(), 3, LATER))
        node.quorum_state(leaderId=1, leaderEpoch=3)
        node.epochs([(3, 14)])


@fault(
    "uncommitted_tail_diverged", "warning", "3", 14, sound=_trimmed,
    says="from offset 14 or below on, which a restart cuts.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Where a tail begins is out of sight; its own snapshot ends below it."""
    nodes[2].append(
        Batch(12, 2, (topic("d", 4), NO_OP), None, LATER), Batch(14, 2, (NO_OP,), None, LATER)
    )
    _trimmed(nodes)


# --- damaged ranges ------------------------------------------------------------------------------


@fault(
    "batch_header_valid", "critical", "2", 4, AT[4], says="Offsets 4 to 5 cannot be read",
    also="batch_crc_valid offsets_contiguous",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Of two batches with wrong CRCs the one right before the damage says what it held."""
    path = nodes[1].segment(0)
    for base in (0, 3):
        overwrite(path, AT[base] + HEADER_SIZE + 1, b"\x7f")
    overwrite(path, AT[4] + 16, b"\x07")


def torn_first(nodes: list[Node]) -> int:
    """Node 1's first segment without its last 5 bytes; returns where it ends."""
    path = nodes[0].segment(0)
    path.write_bytes(path.read_bytes()[:-5])
    return path.stat().st_size


def first_index(nodes: list[Node], offset: int, position: int) -> None:
    path = nodes[0].segment(0).with_suffix(".index")
    path.write_bytes(struct.pack(">ii", offset, position))


@fault(
    "index_agrees", "warning", "1", 5, says=f"(offset 5, position {AT[4] + 116}) points at no",
    sound=lambda nodes: first_index(nodes, 5, AT[4]), also="segment_complete offsets_contiguous",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Behind a torn end; what lies within it was a batch once."""
    first_index(nodes, 5, torn_first(nodes))


@fault(
    "batch_header_valid", "critical", "2", 7, AT[7], says="Offsets 7 to 8 cannot be read",
    also="batch_crc_valid offsets_contiguous",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Node 1 holds the first of two lost batches alone: only 3 holds both."""
    overwrite(nodes[1].segment(6), AT[7], b"\x07" * (AT[9] - AT[7]))
    overwrite(nodes[0].segment(6), AT[8] + HEADER_SIZE + 1, b"\x7f")


# --- snapshots -----------------------------------------------------------------------------------


@fault(
    "snapshot_headers_in_order", "info", "1", says="begins at 1 in epoch 3, where 1 in epoch 1",
    also="snapshot_epoch_agrees",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The batch after the header's says another epoch, and not all others do."""
    path = nodes[0].checkpoint(6, 1)
    header = 12 + int.from_bytes(path.read_bytes()[8:12], "big")
    overwrite(path, header + 12, struct.pack(">i", 3))


@fault(
    "snapshot_batch_aligned", "critical", "3", 5, says="(log of 1)", also="log_start_covered",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The copy that holds the snapshot does not hold the batch: another's log tells."""
    nodes[2].segment(0).unlink()
    nodes[2].checkpoint(6, 1).rename(nodes[2].checkpoint(5, 1))


def often(**values: object) -> Damage:
    """Four snapshots within seconds, on a node whose settings ask for it or do not."""

    def damage(nodes: list[Node]) -> None:
        in_seconds(nodes[0], {end: START_MS + 1000 * (end - 3) for end in (7, 8, 9)})
        settings(nodes[0], **values)

    return damage


for setting in ("metadata_log_max_snapshot_interval_ms", BETWEEN):
    fault(
        "snapshot_not_too_often", "info", "1", 6, says="Too many snapshots: 3 of 4 follow within 60",
        sound=often(**{setting: 1000}),
    )(often(node_id=1))  # fmt: skip

# --- elections -----------------------------------------------------------------------------------


@fault(
    "election_storm",
    "warning",
    "1",
    30,
    says="From offset 8 on, 20 leaders came within one hour",
)
def _(nodes: list[Node]) -> None:
    """As many leaders as are let pass, and one epoch too many is skipped before the last."""
    elections(nodes, *range(3, 21), 72)
