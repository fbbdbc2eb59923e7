"""Damages of the real cases: disks that fill, leaders that do not last or commit, controllers that
never arrive, voters that come again or change together, folders of other topics.
"""

import os
from dataclasses import replace

from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    Batch,
    Node,
    copied_at,
    healthy_log,
    healthy_state,
    leader_change,
    partition,
    register_broker,
    remove_topic,
    replace_batch,
    snapshot,
    topic,
    voters_batch,
)
from tests.unit.faults.health import (
    FIRST,
    RUNNING,
    folder,
    level,
    on_its_disks,
    voters,
)
from tests.unit.faults.replica import _elections as elections
from tests.unit.faults.table import LATER, Damage, appended, everywhere, fault


def settings(node: Node, **values: object) -> None:
    """A server.properties beside the log; an underscore stands for a dot."""
    lines = "".join(f"{name.replace('_', '.')}={value}\n" for name, value in values.items())
    (node.home / "server.properties").write_text(lines)


# --- disks ---------------------------------------------------------------------------------------


def two_snapshots(node: Node) -> None:
    stored = healthy_state()
    raw = snapshot(stored, 2, healthy_log()[-1].ms)
    node.checkpoint(12, 2).write_bytes(raw)


LOOKED = healthy_log()[-1].ms + 60_000
"""The newest record of a node that looked at its limits when it held `healthy_log`."""


def written(node: Node, *records: bytes, goes_on_ms: int = 10_000) -> None:
    """Records at the log's end, and a no-op so much later: a snapshot takes its time."""
    node.append(*(Batch(12 + n, 2, (one,), None, LATER) for n, one in enumerate(records)))
    node.append(Batch(12 + len(records), 2, (NO_OP,), None, LATER + goes_on_ms))


def unsnapshotted(between: int, *writers: int, goes_on_ms: int = 10_000) -> Damage:
    """Sixty no-ops on the logs of some voters."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            if node.node_id in writers or not writers:
                written(node, *[NO_OP] * 60 * bool(writers), goes_on_ms=goes_on_ms)
        settings(nodes[0], metadata_log_max_record_bytes_between_snapshots=between)

    return damage


def retained(ms: int = LOOKED, **values: object) -> Damage:
    def damage(nodes: list[Node]) -> None:
        two_snapshots(nodes[0])
        everywhere(nodes, NO_OP, ms=ms)
        settings(nodes[0], **values)

    return damage


fault(
    "retention_keeps_up", "warning", "1", says="are allowed (metadata.max.retention.bytes)",
    sound=retained(metadata_max_retention_bytes=100_000),
)(retained(metadata_max_retention_bytes=100))  # fmt: skip
fault(
    "retention_keeps_up", "warning", "1", says="are allowed (metadata.max.retention.bytes)",
    sound=retained(LOOKED - 1, metadata_max_retention_bytes=100),
)(retained(metadata_max_retention_bytes=100))  # fmt: skip
"""Kafka looks once a minute: what has come since then may lie there."""
fault(
    "retention_keeps_up", "warning", "1", says="are allowed (metadata.max.retention.ms)",
    sound=retained(metadata_max_retention_ms=4000),
)(retained(metadata_max_retention_ms=3999))  # fmt: skip
"""The older snapshot was 6 s older than the newest record: half as much again is let pass."""


def formatted(**values: object) -> Damage:
    """What `format` wrote at offset 0 was never dropped."""

    def damage(nodes: list[Node]) -> None:
        nodes[0].checkpoint(0, 0).write_bytes(snapshot([], 0, START_MS))
        everywhere(nodes, NO_OP, ms=LOOKED)
        settings(nodes[0], **values)

    return damage


fault(
    "retention_keeps_up", "warning", "1", says="in 1 snapshot and the log below",
    sound=formatted(metadata_max_retention_ms=6000),
)(formatted(metadata_max_retention_ms=5999))  # fmt: skip
fault(
    "retention_keeps_up", "warning", "1", says="has taken no snapshot for",
    sound=retained(metadata_log_max_record_bytes_between_snapshots=100),
)(unsnapshotted(1))  # fmt: skip


def free(blocks: int) -> Damage:
    def damage(nodes: list[Node]) -> None:
        head = "Filesystem     1024-blocks  Used Available Capacity Mounted on\n"
        line = f"/dev/disk one 200000 1000 {blocks} 99% /var/lib/my kafka\n"
        (nodes[1].home / "df.txt").write_text(head + line)

    return damage


fault("disk_has_room", "warning", "2", says="is full now: 0 bytes", sound=free(10**6))(free(0))


@fault(
    "disk_has_room", "warning", "2", sound=free(10**6),
    says="Give it room first: Kafka does not start on a full disk.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Nor does it where no snapshot is to be written."""
    nodes[1].checkpoint(6, 1).unlink()
    free(0)(nodes)


fault("disk_has_room", "warning", "2", says="is full in", sound=free(10**6))(free(10_000))


# --- elections -----------------------------------------------------------------------------------


SINCE = sum(len(one.raw()) for one in healthy_log() if one.base >= 6)
"""Bytes since the snapshot. An epoch has begun since, so that the node may have counted anew twice;
and half as much again is let pass.
"""
fault(
    "retention_keeps_up", "warning", "1", says="has taken no snapshot for 4,",
    sound=unsnapshotted(SINCE, 1),
)(unsnapshotted(SINCE, 1, 2))  # fmt: skip
"""What is on one voter of three is in no snapshot."""
fault(
    "retention_keeps_up", "warning", "1", says="has taken no snapshot for 4,",
    sound=unsnapshotted(SINCE, 1, 2, goes_on_ms=9_999),
)(unsnapshotted(SINCE, 1, 2))  # fmt: skip
"""After many records at once a snapshot may still be written, and the next one due."""
fault(
    "retention_keeps_up", "warning", "1", says="has taken no snapshot for",
    sound=unsnapshotted(-(-2 * SINCE // 9)),
)(unsnapshotted(2 * SINCE // 9 - 1))  # fmt: skip


def come_back(at: int) -> Damage:
    """Sixty no-ops, among which broker 1 starts, so that it does not count what came before."""

    def damage(nodes: list[Node]) -> None:
        records = [register_broker(1, 12 + at) if n == at else NO_OP for n in range(60)]
        for node in nodes:
            written(node, *records)
        settings(nodes[0], metadata_log_max_record_bytes_between_snapshots=SINCE)

    return damage


fault(
    "retention_keeps_up", "warning", "1", says="of its log, since its start as a broker, at offset 13.",
    sound=come_back(50),
)(come_back(1))  # fmt: skip

fault(
    "leaders_last", "warning", offset=8, says="8 leaders in a row led for less than 60 s",
    sound=lambda nodes: elections(nodes, *range(3, 10)),
)(lambda nodes: elections(nodes, *range(3, 11)))  # fmt: skip


def led_by(*holders: int) -> Damage:
    """Epoch 3, of which only some voters have heard more than the leader's name."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            node.quorum_state(leaderId=1, leaderEpoch=3)
            if node.node_id in holders:
                node.append(leader_change(12, 3, 1, LATER))
                node.epochs([(1, 0), (2, 8), (3, 12)])

    return damage


fault(
    "newest_leader_commits",
    "warning",
    says="is on voter 1. It is needed on 2 of 3 voters",
    sound=led_by(1, 3),
)(led_by(1))
fault(
    "newest_leader_commits", "info", says="It may have stopped before it wrote that record",
    sound=led_by(1, 3),
)(led_by())  # fmt: skip
"""All were killed in the moment of an election (a real quorum of Kafka 4.4.0)."""


@fault(
    "newest_leader_commits", "info", says="These copies were made before that record was written.",
    sound=led_by(1, 3),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The voters that lack it were copied a second earlier."""
    led_by(1)(nodes)
    for node in nodes[1:]:
        copied_at(node, LATER - 1_000)


def only_raft(nodes: list[Node], *more: Batch) -> None:
    for node in nodes:
        for path in (node.segment(6), node.checkpoint(6, 1)):
            path.unlink()
        batches = [leader_change(0, 1, 1), voters_batch(1, 1, 1, 2, 3), *more]
        node.segment(0).write_bytes(b"".join(one.raw() for one in batches))
        node.epochs([(1, 0)])
        node.quorum_state(leaderId=1, leaderEpoch=1)


fault(
    "newest_leader_commits", "warning", says="all 2 records are Raft's own",
    sound=lambda nodes: only_raft(nodes, Batch(2, 1, (NO_OP,))),
)(lambda nodes: only_raft(nodes))  # fmt: skip


def joiner(node: Node) -> None:
    """A voter on an empty disk that has heard of the leader."""
    for path in (node.segment(0), node.segment(6), node.checkpoint(6, 1)):
        path.unlink()
    node.segment(0).write_bytes(b"")
    node.epochs([])


@fault(
    "controllers_catch_up", "warning", "3", 0, says="The others have had 1 leader since its log ended",
    sound=lambda nodes: joiner(nodes[2]),
)  # fmt: skip
def never_arrives(nodes: list[Node]) -> None:
    """A .part that nothing was added to for an hour."""
    joiner(nodes[2])
    part = nodes[2].folder / f"{6:020d}-{1:010d}-123.checkpoint.part"
    part.write_bytes(nodes[0].checkpoint(6, 1).read_bytes()[:80])
    hour_ago = START_MS // 1000 - 3600
    os.utime(part, (hour_ago, hour_ago))


@fault(
    "controllers_catch_up", "warning", "3", 0, sound=lambda nodes: joiner(nodes[2]),
    says="Or put the log folder of replica 1 in the place of its own, with its own quorum-state in it.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The log behind the snapshot is as hard to get over the link (Kafka 4.3.1)."""
    never_arrives(nodes)


@fault(
    "controllers_catch_up", "warning", "3", 0,
    says="Before it starts again, put the log folder of replica 1 in the place of its own, with its own",
)  # fmt: skip
def ends_at_its_start(nodes: list[Node]) -> None:
    """Voters are records here, and the disk of 3 has none: Kafka 4.3.1 ended as it was started again."""
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    never_arrives(nodes)


fault(
    "snapshot_leftover", "info", "3", says="That does not help the node, which needs the whole snapshot",
)(never_arrives)  # fmt: skip
fault(
    "snapshot_leftover", "info", "3", says="nothing else on this disk says who votes: do not start",
)(ends_at_its_start)  # fmt: skip


@fault(
    "controllers_catch_up", "warning", "3", 0, says="is 5 epochs above every log",
    sound=lambda nodes: joiner(nodes[2]),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    joiner(nodes[2])
    nodes[2].quorum_state(leaderId=-1, leaderEpoch=7)


@fault(
    "log_ends_on_batch", "warning", "3", 13,
    says="inside the batch of offsets 12 to 14 on replicas 1 and 2",
    also="log_start_covered", sound=appended(NO_OP, NO_OP, NO_OP),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, NO_OP, NO_OP, NO_OP)
    joiner(nodes[2])
    nodes[2].segment(0).rename(nodes[2].segment(13))


# --- voters --------------------------------------------------------------------------------------


def removed(*more: int, ms: int = LATER) -> Damage:
    """Voter 3 is removed; then the voters are others, if any are named."""

    def damage(nodes: list[Node]) -> None:
        on_its_disks(nodes)
        for node in nodes:
            node.append(voters(FIRST + 1, 1, 2))
            if more:
                node.append(voters(FIRST + 2, *more, ms=ms))

    return damage


fault(
    "voters_removed_stay_away", "info", says="is a voter again", sound=removed(1, 2)
)(removed(1, 2, 3, ms=LATER + 60_001))  # fmt: skip


def back_by_hand(setting: str) -> Damage:
    """The voter is back at once, and its settings are known."""

    def damage(nodes: list[Node]) -> None:
        removed(1, 2, 3)(nodes)
        settings(nodes[2], controller_quorum_auto_join_enable=setting)

    return damage


fault("voters_removed_stay_away", "info", says="is a voter again", sound=removed(1, 2))(
    back_by_hand("false")
)
fault("voters_removed_stay_away", "warning", says="as a controller does by itself")(
    back_by_hand("true")
)


def removed_again(nodes: list[Node]) -> None:
    removed(1, 2, 3)(nodes)
    for node in nodes:
        node.append(voters(FIRST + 3, 1, 2))


fault(
    "voters_removed_stay_away", "warning", says="is a voter again", sound=removed_again
)(removed(1, 2, 3))  # fmt: skip
fault(
    "voters_removed_stay_away", "warning", says="as a controller does by itself", sound=removed()
)(removed(1, 2, 3, ms=LATER + 60_000))  # fmt: skip


@fault("voters_removed_stay_away", "warning", says="Voter 3 was removed", sound=removed(1))
def _(nodes: list[Node]) -> None:
    """Voter 2 was back as well, and is gone for good."""
    removed(1)(nodes)
    for node in nodes:
        node.append(*(voters(FIRST + 3 + at, *ids) for at, ids in enumerate([(1, 2, 3), (1, 3)])))


def asks(setting: str) -> Damage:
    def damage(nodes: list[Node]) -> None:
        removed()(nodes)
        settings(nodes[2], controller_quorum_auto_join_enable=setting)

    return damage


fault("voters_removed_stay_away", "warning", says="joins again when its node", sound=asks("false"))(
    asks("true")
)


def become(*numbers: int) -> Damage:
    def damage(nodes: list[Node]) -> None:
        on_its_disks(nodes)
        for node in nodes:
            node.append(voters(FIRST + 1, *numbers))

    return damage


fault(
    "voter_changes_overlap", "warning", offset=FIRST + 1,
    says="A majority of the old voters is 2 and 3. A majority of the new voters is 4 and 5.",
    sound=become(1, 2, 3, 4),
)(become(1, 4, 5))  # fmt: skip


def looked_for_at(port: int) -> Damage:
    def damage(nodes: list[Node]) -> None:
        settings(
            nodes[1],
            controller_listener_names="CONTROLLER",
            listeners="CONTROLLER://:9093,BROKER://:9092",
        )
        voters_text = f"1@a:9093,2@b:{port},3@c:9093"
        settings(nodes[2], controller_quorum_voters=voters_text)

    return damage


fault(
    "voter_endpoints_agree", "warning", "3", says="replica 3 has b:9099 in",
    sound=looked_for_at(9093),
)(looked_for_at(9099))  # fmt: skip


def configured(port: int, of: int = 1) -> Damage:
    """Voter 1 listens elsewhere than the voter set says; or another node does, whose settings these are."""

    def damage(nodes: list[Node]) -> None:
        on_its_disks(nodes)
        for node in nodes:
            node.append(Batch(FIRST + 1, 2, (level(20),), None, LATER))
        settings(
            nodes[0],
            controller_listener_names="CONTROLLER",
            listeners="CONTROLLER://0.0.0.0:9093",
            advertised_listeners=f"CONTROLLER://localhost:{port}",
            node_id=of,
        )

    return damage


for nearest in (configured(9093), configured(9555, of=2)):
    fault(
        "voter_endpoints_agree", "warning", says="localhost:9555 by its own server.properties",
        sound=nearest,
    )(configured(9555))  # fmt: skip


def looking_at(listeners: str, *endpoints: str) -> Damage:
    """Node 1 looks for voters at the first of some listeners, and they have others."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            node.append(voters(FIRST, 1, 2, 3, listeners=endpoints))
        if listeners:
            settings(nodes[0], controller_listener_names=listeners)

    return damage


fault(
    "voter_endpoints_agree", "critical", "1", says="voters 2 and 3 have no endpoint that it could",
    sound=looking_at("ctrl, CONTROLLER", "CONTROLLER", "Ctrl"),
)(looking_at("CTRL,CONTROLLER", "CONTROLLER", "Ctrl2"))  # fmt: skip
fault(
    "voter_endpoints_agree", "critical", "2", says="voters 1 and 3 have no endpoint that it could",
    sound=looking_at("", "CONTROLLER"),
)(looking_at(""))  # fmt: skip


# --- topics --------------------------------------------------------------------------------------


def data_folder(node_at: int, number: int, name: str) -> Damage:
    def damage(nodes: list[Node]) -> None:
        folder(number, name, node_at)(nodes)

    return damage


for at, number, name, says in (
    (0, 2, "a-0", "is that of b, not of a"),
    (0, 1, "a-7", "a has no partition 7"),
    (2, 1, "a-0", "a-0 is assigned to brokers 1 and 2"),
):
    fault(
        "folders_match_topics", "warning" if at == 2 else "info", str(at + 1), says=says,
        sound=data_folder(1, 1, "a-0"),
    )(data_folder(at, number, name))  # fmt: skip


OF_ONE = (*RUNNING, topic("d", 4), partition(4, [1], [1], 1))
fault(
    "folders_match_topics", "warning", "3", says="d-0 is assigned to broker 1)",
    sound=folder(4, "d-0", 0, OF_ONE),
)(folder(4, "d-0", 2, OF_ONE))  # fmt: skip


def named_again(number: int) -> Damage:
    """A topic is deleted, and created again under an id."""
    again = (topic("d", number), partition(number, [1, 2], [1, 2], 1))
    return appended(*RUNNING, remove_topic(2), *again)


fault(
    "topic_identity_unique", "critical", offset=FIRST + 4, says="it was that of topic b, which",
    sound=named_again(9),
)(named_again(2))  # fmt: skip


def _far_ahead(nodes: list[Node]) -> None:
    """One time inside the log is of the year 2100: nothing is older than is allowed by it."""
    retained(metadata_max_retention_ms=4000)(nodes)
    for node in nodes:
        replace_batch(node, 7, lambda one: replace(one, ms=4_102_444_800_000).raw())


fault(
    "retention_keeps_up", "warning", "1", says="are allowed (metadata.max.retention.ms)",
    sound=_far_ahead,
)(retained(metadata_max_retention_ms=3999))  # fmt: skip


def ticking(step_ms: int, **values: object) -> Damage:
    """A hundred seconds of no-ops behind two snapshots, in which the leader's clock makes a step."""

    def damage(nodes: list[Node]) -> None:
        two_snapshots(nodes[0])
        late = [500 * n + (step_ms if n >= 50 else 0) for n in range(200)]
        ticks = [Batch(12 + n, 2, (NO_OP,), None, LATER + ms) for n, ms in enumerate(late)]
        for node in nodes:
            node.append(*ticks)
        settings(nodes[0], **values)

    return damage


fault(
    "retention_keeps_up", "warning", "1", says="are allowed (metadata.max.retention.ms)",
    sound=ticking(8 * 86_400_000, metadata_max_retention_ms=40_000),
)(ticking(8 * 86_400_000, metadata_max_retention_ms=30_000))  # fmt: skip
"""By the no-ops alone the older snapshot is a minute old: nothing says that the node's own clock
made that step too. Of what it has seen pass since, half as much again is let pass.
"""
