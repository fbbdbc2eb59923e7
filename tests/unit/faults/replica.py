"""Damages that only several replicas together show: voters, identities, elections."""

import shutil
import struct
from collections.abc import Sequence
from dataclasses import replace

from tests.unit.audit_logs import (
    CLUSTER,
    HEADER_SIZE,
    NO_OP,
    START_MS,
    TRANSACTION,
    Batch,
    Node,
    describe,
    disk_text,
    elected_without,
    feature,
    frame,
    healthy_log,
    healthy_state,
    leader_change,
    led_next,
    overwrite,
    producer_ids,
    replace_batch,
    snapshot,
    stopped,
    topic,
    uuid_text,
    voters_batch,
)
from tests.unit.faults.table import AT, LATER, Damage, fault

STORED = [healthy_log()[1], healthy_log()[3]]


def _voters_in_snapshots(nodes: list[Node], *voters: tuple[int, ...]) -> None:
    """A KRaftVoters record in the logs, and snapshots that hold it, or another one."""
    for node, ids in zip(nodes, voters, strict=True):
        replace_batch(node, 3, lambda one: voters_batch(3, 1, 1, 2, 3, ms=one.ms).raw())
        raw = snapshot(STORED, 1, START_MS + 3000, voters=ids)
        node.checkpoint(6, 1).write_bytes(raw)


@fault(
    "voter_sets_agree", "warning", "3", 6, says="are 1 and 2 by the KRaftVoters record of",
    sound=lambda nodes: _voters_in_snapshots(nodes, (1, 2, 3), (1, 2, 3), (1, 2, 3)),
    also="snapshots_agree snapshot_equals_replay",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _voters_in_snapshots(nodes, (1, 2, 3), (1, 2, 3), (1, 2))


def _formatted(nodes: list[Node], *voters: tuple[int, ...]) -> None:
    """Snapshots at offset 0, with the voters with which `kafka-storage format` was called."""
    for node, ids in zip(nodes, voters, strict=True):
        node.checkpoint(0, 0).write_bytes(snapshot([], 0, START_MS, voters=ids))


@fault(
    "voter_sets_agree", "warning", "3", 0, says="0000000000.checkpoint of replica 3. But they are",
    sound=lambda nodes: _formatted(nodes, (1, 2, 3), (1, 2, 3), ()),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _formatted(nodes, (1, 2, 3), (1, 2, 3), (1, 2))


def _joined(nodes: list[Node], *ids: int) -> None:
    """Node 3 was formatted for other voters, on disks that no node has. In its log, which it has
    fetched since, is a set of voters.
    """
    for node in nodes:
        raw = snapshot([], 0, START_MS, voters=(1, 2, 3), disks=20 * (node.node_id == 3))
        node.checkpoint(0, 0).write_bytes(raw)
        node.append(voters_batch(12, 2, *ids, ms=LATER))


@fault(
    "voter_sets_agree", "warning", "3", 0, says="each can elect a leader of its own",
    sound=lambda nodes: _joined(nodes, 1, 2, 3),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Nothing in its log says that those are not the voters."""
    _joined(nodes, 1, 2)


def _voters_in_logs(nodes: list[Node], ids: tuple[int, ...]) -> None:
    """A KRaftVoters record at offset 12, and snapshots that hold it."""
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    stored = [*STORED, healthy_log()[8]]
    nodes[2].checkpoint(13, 2).write_bytes(snapshot(stored, 2, LATER, voters=ids))


@fault(
    "voter_sets_agree", "warning", "3", 13, says="are 1 and 3 by the KRaftVoters record of",
    sound=lambda nodes: _voters_in_logs(nodes, (1, 2, 3)),
    also="snapshot_equals_replay",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _voters_in_logs(nodes, (1, 3))


@fault(
    "voter_sets_agree", "warning", None, None,
    says="are 1, 2, 3, 4 and 5 by kafka-metadata-quorum describe. But they are 1, 2 and 3 by",
    sound=lambda nodes: describe(nodes[0], 1, 1, 8, (4, 5, 6)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A describe of an older epoch says nothing of the voters now."""
    describe(nodes[0], 2, 2, 12, (1, 2, 3, 4, 5))


def _of_a_later_epoch(**fields: int) -> Damage:
    return lambda nodes: nodes[2].quorum_state(leaderEpoch=3, **fields)


for _named, _known, _says in (
    ({"leaderId": 9}, {"leaderId": 2}, "names node 9 as the leader in epoch 3. But the voters are"),
    (
        {"leaderId": -1, "votedId": 9},
        {"leaderId": -1, "votedId": 1},
        "names node 9 as whom it voted",
    ),
):
    fault("voter_sets_agree", "warning", "3", says=_says, sound=_of_a_later_epoch(**_known))(
        _of_a_later_epoch(**_named)
    )


def _scaled_out(static: str) -> Damage:
    """The settings of two nodes of a static quorum, none of which any quorum-state knows."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes[1:]:
            text = f"controller.quorum.voters={static}\n"
            (node.home / "server.properties").write_text(text)

    return damage


fault(
    "voter_sets_agree", "warning", "2", sound=_scaled_out("1@a:9093,2@b:9093,3@c:9093"),
    says="of replicas 2 and 3. But they are 1, 2 and 3 by the quorum-state of replica 1.",
)(_scaled_out("1@a:9093,2@b:9093,3@c:9093,4@d:9093,5@e:9093"))  # fmt: skip
fault(
    "voter_sets_agree", "warning", "2", sound=_scaled_out("1@a:9093,2@b:9093,3@c:9093"),
    says="Kafka before 3.8 does not start so: put the voters of quorum-state back in that setting.",
)(_scaled_out("1@a:9093,2@b:9093,3@c:9093,4@d:9093"))  # fmt: skip


def _voters_by_files(nodes: list[Node], static: str) -> None:
    """A quorum that was static: node 3 was removed, and nothing was written to quorum-state since."""
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, ms=LATER))
        (node.home / "server.properties").write_text(f"controller.quorum.voters={static}\n")


@fault(
    "voter_sets_agree", "info", "1", says="They look for a leader there when they start",
    sound=lambda nodes: _voters_by_files(nodes, "1@a:9093,2@b:9093"),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Told once; and by KRaftVoters records no majority is counted by it."""
    _voters_by_files(nodes, "1@a:9093,2@b:9093,3@c:9093")


def _of_nobody(*replicas: int, more: Sequence[Batch] = ()) -> Damage:
    """A set without voters, and what follows: it counts here, as it would if it were not there."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            if node.node_id in replicas:
                node.append(voters_batch(12, 2, ms=LATER), *more)

    return damage


fault(
    "voter_sets_agree", "critical", "2", 12,
    says="nobody can lead. Replicas 1 and 3 hold the same bytes, so its leader wrote it that way. Begin",
)(_of_nobody(1, 2, 3))  # fmt: skip
fault(
    "voter_sets_agree", "critical", "2", 12, says="holds that offset. Set its log",
)(_of_nobody(2))  # fmt: skip
fault("voter_sets_agree", "warning", "2", 12, says="Voters are named again behind it")(
    _of_nobody(1, 2, 3, more=[voters_batch(13, 2, 1, 2, 3, ms=LATER)])
)


@fault(
    "node_identity_unique", "critical", "3", says="one directory, AAAAAAAAAAAAAAAAAAAAZQ, and name two",
    sound=lambda nodes: nodes[2].meta(directory=9),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """One directory id on two nodes."""
    nodes[2].meta(directory=1)


@fault(
    "quorum_state_present", "warning", "3", says="knows epoch 1, but its log is at epoch 2",
    sound=lambda nodes: nodes[2].quorum_state(leaderId=1, leaderEpoch=3),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    nodes[2].quorum_state(leaderId=1, leaderEpoch=1)


def votes_alone(nodes: list[Node]) -> None:
    """Controller 1 is the only voter, by its newest record."""
    nodes[0].append(voters_batch(12, 2, 1, ms=LATER))
    for node in nodes[1:]:
        shutil.rmtree(node.home)


@fault(
    "quorum_state_present", "info", "1", sound=votes_alone,
    says="is missing. No other node votes, so that no vote is forgotten. Kafka writes quorum-state anew",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka 3.9.1 and 4.3.1 went on with all that was committed."""
    votes_alone(nodes)
    (nodes[0].folder / "quorum-state").unlink()


@fault(
    "quorum_state_present", "warning", "1", sound=votes_alone,
    says="No other node votes, so that no vote is forgotten. Delete quorum-state while the node is stopped",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    votes_alone(nodes)
    nodes[0].quorum_state(leaderId=1, leaderEpoch=2, data_version=5)


@fault(
    "epoch_within_quorum_state", "info", "1", 8, sound=votes_alone, also="quorum_state_present",
    says="no epoch above 1. No other node votes, so that no vote is forgotten. Kafka writes",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    votes_alone(nodes)
    nodes[0].quorum_state(leaderId=1, leaderEpoch=1)


def two_vote(nodes: list[Node]) -> None:
    """Controllers 1 and 2 are the voters, by the newest record of all."""
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, ms=LATER))


@fault(
    "quorum_state_present", "warning", "2", sound=two_vote,
    says="Without a backup, stop all voters, then put the quorum-state of replica 1 in its log folder",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka 3.9.1 and 4.3.1 went on so with all of it; without the file, a former leader ended."""
    two_vote(nodes)
    (nodes[1].folder / "quorum-state").unlink()


@fault(
    "quorum_state_present", "warning", "3",
    says="Without a backup, stop all voters, then put the quorum-state of replica 1 in its log folder",
    also="voter_holds_committed_data",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The others elect nobody: one of them has lost all that it had (Kafka 4.3.1)."""
    shutil.rmtree(nodes[1].folder)
    nodes[1].folder.mkdir()
    (nodes[2].folder / "quorum-state").unlink()


@fault(
    "quorum_state_present", "warning", "2", sound=two_vote, also="voters_present",
    says="Without a backup, kraftlog recover builds a quorum from what remains",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The other voter was not copied, and may know a newer epoch."""
    two_vote(nodes)
    (nodes[1].folder / "quorum-state").unlink()
    shutil.rmtree(nodes[0].home)


@fault(
    "quorum_state_present", "warning", "2", sound=two_vote,
    says="Without a backup, put the log folder of replica 1 in the place of its own, with the quorum-state",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """With an empty log it would elect whoever asks, so it is given a log as well (Kafka 4.3.1)."""
    two_vote(nodes)
    shutil.rmtree(nodes[1].folder)
    nodes[1].folder.mkdir()
    nodes[1].segment(0).write_bytes(b"")


@fault(
    "quorum_state_present", "warning", "3",
    says="Restore quorum-state, or start the node with its log when the others have a leader. Do not let",
    sound=lambda nodes: nodes[1].write(healthy_log()[:-1]), also="voter_holds_committed_data",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """One of the others lacks what is committed, and the other one refuses it (Kafka 4.1.1)."""
    nodes[1].write(healthy_log()[:-1])
    (nodes[2].folder / "quorum-state").unlink()


def _forget_votes(nodes: list[Node]) -> None:
    for node in nodes:
        (node.folder / "quorum-state").unlink()


fault("quorum_state_present", "warning", "1", says="all of them have lost it, stop every node")(
    _forget_votes
)


@fault("quorum_state_present", "warning", "1", says="all of them have lost it, kraftlog recover")
def _(nodes: list[Node]) -> None:
    """Voter 3 lacks the newest batch."""
    nodes[2].write(healthy_log()[:-1])
    _forget_votes(nodes)


def _led_epoch_3(nodes: list[Node], quorum_state: int) -> None:
    """It was stopped before it wrote anything."""
    stopped(nodes[2], 12)
    nodes[2].epochs([(1, 0), (2, 8), (3, 12)])
    nodes[2].quorum_state(leaderId=-1, leaderEpoch=quorum_state)


@fault(
    "quorum_state_present", "warning", "3", says="knows epoch 2, but its leader-epoch-checkpoint knows epoch 3",
    sound=lambda nodes: _led_epoch_3(nodes, 3),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _led_epoch_3(nodes, 2)


def elected_1(nodes: list[Node], *granted: int, voted: int) -> None:
    """Controller 1 leads epoch 3; what voter 3 keeps of its own vote in it."""
    for node in nodes:
        led_next(node, 3, 1, granted)
    nodes[2].quorum_state(leaderId=1, leaderEpoch=3, votedId=voted)


fault(
    "quorum_state_present", "warning", "3",
    says="voted for node 2 in epoch 3, but by the log of replica 3 it had a part in the election of node 1",
    sound=lambda nodes: elected_1(nodes, 1, 3, voted=1),
)(lambda nodes: elected_1(nodes, 1, 3, voted=2))  # fmt: skip


def elected_without_3(nodes: list[Node]) -> None:
    elected_without(nodes, 3, ((0, 1, 1), (8, 2, 2)))


@fault(
    "quorum_state_present", "info", "3", says="formatted and has not started since",
    sound=elected_without_3,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What `kafka-storage format` leaves, beside two voters that have begun."""
    elected_without_3(nodes)
    shutil.rmtree(nodes[2].folder)
    nodes[2].folder.mkdir()
    nodes[2].checkpoint(0, 0).write_bytes(snapshot([], 0, START_MS, voters=(1, 2, 3)))


def voted_for_3(nodes: list[Node], *voters: Node) -> None:
    """Controller 1 leads epoch 3 by its quorum-state, of which no log has a record."""
    nodes[0].quorum_state(leaderId=1, leaderEpoch=3)
    for node in voters:
        node.quorum_state(leaderId=-1, leaderEpoch=3, votedId=3)


fault(
    "single_leader_per_epoch", "critical", "1", also="log_end_lost",
    says="no majority can have elected it: voters 2 and 3 voted for others",
    sound=lambda nodes: voted_for_3(nodes, nodes[2]),
)(lambda nodes: voted_for_3(nodes, *nodes[1:]))  # fmt: skip
fault(
    "newest_leader_commits", "warning", None, also="log_end_lost single_leader_per_epoch",
    says="By the votes of the others no majority can have elected it",
)(lambda nodes: voted_for_3(nodes, *nodes[1:]))  # fmt: skip


@fault("meta_properties_valid", "warning", "2", says="cannot be read")
def _(nodes: list[Node]) -> None:
    (nodes[1].home / "meta.properties").write_text("version=1\nnode.id=two\n")


@fault("meta_properties_valid", "warning", "2", says="its version is '7', and only 0 and 1")
def _(nodes: list[Node]) -> None:
    path = nodes[1].home / "meta.properties"
    path.write_text(path.read_text().replace("version=1", "version=7"))


@fault("meta_properties_valid", "warning", "2", says="names no node.id, which its version 1 has")
def _(nodes: list[Node]) -> None:
    path = nodes[1].home / "meta.properties"
    path.write_text(path.read_text().replace("node.id", "broker.id"))


@fault("meta_properties_valid", "warning", "2", says="names no broker.id, which its version 0 has")
def _(nodes: list[Node]) -> None:
    path = nodes[1].home / "meta.properties"
    path.write_text(path.read_text().replace("version=1", "version=0"))


@fault("meta_properties_valid", "warning", "2", says="is of node 2, and the server.properties")
def _(nodes: list[Node]) -> None:
    (nodes[0].home / "server.properties").write_text("node.id=1\n")
    (nodes[1].home / "server.properties").write_text("node.id=1\n")


def _directory(text: str) -> Damage:
    def damage(nodes: list[Node]) -> None:
        path = nodes[1].home / "meta.properties"
        path.write_text(path.read_text().replace(disk_text(2), text))

    return damage


fault(
    "meta_properties_valid", "warning", "2", says="its directory.id is not a UUID",
    sound=_directory(disk_text(2) + "=="),
)(_directory("zz"))  # fmt: skip
fault("meta_properties_valid", "warning", "2", says="its directory.id is one that Kafka reserves")(
    _directory(uuid_text(99))
)


def _bootstrap(name: str, level: int = 1) -> Damage:
    def damage(nodes: list[Node]) -> None:
        raw = snapshot([Batch(0, 0, (feature(name, level),))], 0, START_MS)
        (nodes[1].home / "bootstrap.checkpoint").write_bytes(raw)

    return damage


fault(
    "meta_properties_valid", "warning", "2",
    says="it holds no record that sets metadata.version",
    sound=_bootstrap("metadata.version"),
)(_bootstrap("group.version"))  # fmt: skip


@fault("batch_crc_valid", "warning", "2", says="Kafka reads this file at every start")
def _(nodes: list[Node]) -> None:
    """Another level of metadata.version, which Kafka takes."""
    _bootstrap("metadata.version", 20)(nodes)
    path = nodes[1].home / "bootstrap.checkpoint"
    path.write_bytes(path.read_bytes().replace(struct.pack(">h", 20), struct.pack(">h", 21)))


@fault("quorum_state_present", "warning", "3", says="data_version 5 is unknown")
def _(nodes: list[Node]) -> None:
    nodes[2].quorum_state(leaderId=2, leaderEpoch=2, data_version=5)


def _topic_of(number: int) -> Damage:
    def damage(nodes: list[Node]) -> None:
        text = f"version: 0\ntopic_id: {uuid_text(number)}"
        (nodes[0].folder / "partition.metadata").write_text(text)

    return damage


fault(
    "meta_properties_valid",
    "warning",
    "1",
    says="Kafka refuses to start with it",
    sound=_topic_of(1),
)(_topic_of(9))


@fault(
    "file_readable",
    "warning",
    "1",
    says="Kafka does not start with it: delete it",
    sound=_topic_of(1),
)
def _(nodes: list[Node]) -> None:
    """As `plan boot` says: to copy it again, or to make it readable, is no help."""
    (nodes[0].folder / "partition.metadata").write_text("version: 0\ntopic_ie: A")


@fault(
    "cluster_id_agrees", "critical", "3",
    says="Its log is that of the others, so that the file was edited: put",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    path = nodes[2].home / "meta.properties"
    path.write_text(path.read_text().replace(CLUSTER, "another"))


@fault("cluster_id_agrees", "critical", "3", says="quorum-state of 3 says cluster another")
def _(nodes: list[Node]) -> None:
    nodes[2].quorum_state(leaderId=2, leaderEpoch=2, clusterId="another")


def _elections(nodes: list[Node], *epochs: int) -> None:
    """Elections from offset 12 on, a millisecond apart, each won in one of some epochs."""
    for node in nodes:
        node.append(*(leader_change(12 + n, e, 1, LATER + n) for n, e in enumerate(epochs)))
        node.quorum_state(leaderId=1, leaderEpoch=epochs[-1])
        node.epochs([(1, 0), (2, 8), *((e, 12 + n) for n, e in enumerate(epochs))])


@fault(
    "election_storm", "warning", offset=12, says="up to 51 epochs without a leader",
    sound=lambda nodes: _elections(nodes, 53),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """From epoch 2 to 54: 51 epochs lie between, one more than the limit."""
    _elections(nodes, 54)


@fault(
    "election_storm", "warning", offset=8, says="21 leaders came within one hour",
    sound=lambda nodes: _elections(nodes, *range(3, 22)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The election of epoch 2 and twenty more."""
    _elections(nodes, *range(3, 23))


def lagging(nodes: list[Node]) -> None:
    """A voter that lacks the newest epoch alone is outvoted."""
    path = nodes[2].segment(6)
    whole = [Batch(6, 1, one.values, one.keys, one.ms) for one in healthy_log()[4:5]]
    size = sum(len(one.raw()) for one in whole) + len(healthy_log()[5].raw())
    path.write_bytes(path.read_bytes()[:size])
    nodes[2].epochs([(1, 0)])


fault("voter_holds_committed_data", "info", "3", 8, says="cannot elect it")(lagging)


@fault(
    "voter_holds_committed_data", "info", "3", 8, also="batch_crc_valid",
    says="but voter 1 would, once a start has cut the log at a damaged batch: settle that first",
)  # fmt: skip
def lagging_beside_damaged(nodes: list[Node]) -> None:
    """It holds more, and cuts it away itself at its next start: plan restart says so, too."""
    lagging(nodes)
    overwrite(nodes[0].segment(6), AT[6] + HEADER_SIZE + 1, b"\x55")


@fault(
    "voter_holds_committed_data", "info", "3", 8, also="batch_crc_valid",
    says="As they stand, the voters at hand cannot elect it, but voter 1 would, once a start",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The damaged batch is the first one of its log."""
    lagging(nodes)
    overwrite(nodes[0].segment(0), HEADER_SIZE + 1, b"\x55")


@fault(
    "voter_holds_committed_data", "info", "3", 8, also="batch_crc_valid",
    says="The voters at hand cannot elect it",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """With the snapshot of all that it cuts, it does not vote for less."""
    lagging_beside_damaged(nodes)
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, healthy_log()[-1].ms))


@fault(
    "voter_holds_committed_data", "warning", "3", 8,
    says="Voter 1 would elect it if nothing is left of its log. If the voters are down, start controller 2 first",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Tried with Kafka 3.9.1: beside a voter whose log folder is gone, the one that lags leads."""
    lagging(nodes)
    nodes[1].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, healthy_log()[-1].ms))
    for path in nodes[0].folder.glob("*.log"):
        path.unlink()


@fault(
    "uncommitted_tail_diverged", "warning", "3", 12,
    says="None of it was committed (the running quorum has committed other records there)",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Who elected the other leader is not told; the describe knows more to be committed than it had."""
    nodes[2].append(Batch(12, 2, (NO_OP,), None, LATER))
    for node in nodes[:2]:
        after = leader_change(12, 3, 1, LATER, granted=())
        node.append(after, Batch(13, 3, (NO_OP,), None, LATER))
        node.epochs([(1, 0), (2, 8), (3, 12)])
        node.quorum_state(leaderId=1, leaderEpoch=3)
    describe(nodes[0], 1, 3, 14)


@fault(
    "uncommitted_tail_diverged", "warning", "1", 12, says="where nothing is known to be committed"
)
def _(nodes: list[Node]) -> None:
    """Two copies agree again behind what they hold in two epochs: neither has a tail."""
    nodes[0].append(Batch(12, 2, (NO_OP,), None, LATER), leader_change(13, 4, 1, LATER))
    nodes[2].append(leader_change(12, 3, 3, LATER), leader_change(13, 4, 1, LATER))


@fault(
    "committed_data_consistent",
    "critical",
    "1",
    4,
    says="differ, and no majority decides",
    also="log_matching snapshot_equals_replay snapshots_agree",
)
def _(nodes: list[Node]) -> None:
    """Three copies, three contents."""
    for node in nodes:
        changed = (producer_ids(1000 + node.node_id), topic("b", 2))
        wrong = Batch(4, 1, changed, None, START_MS + 3000).raw()
        replace_batch(node, 4, lambda one, wrong=wrong: wrong)


@fault(
    "committed_data_consistent", "critical", "2", 10, also="epochs_monotonic",
    says="replica 2 differs from replica 1, which decides. Stop controller 2.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Of two copies one shows by its own epochs that its header is damaged there."""
    nodes[0].checkpoint(12, 2).write_bytes(snapshot(healthy_state(), 2, healthy_log()[-1].ms))
    replace_batch(nodes[1], 10, lambda one: replace(one, epoch=7).raw())
    shutil.rmtree(nodes[2].home)


def _altered(nodes: list[Node]) -> None:
    """Voter 3 and two brokers hold another topic at offset 5."""
    brokers = [Node(nodes[0].home.parent, number) for number in (11, 12)]
    for broker in brokers:
        broker.write(healthy_log())
    for node in (nodes[2], *brokers):
        changed = producer_ids(1000), topic("x", 2)
        replace_batch(node, 4, lambda one, own=changed: Batch(4, 1, own, None, one.ms).raw())


fault(
    "committed_data_consistent", "critical", "3", 4,
    says="replica 3 differs from replicas 1 and 2, which agree. Stop controller 3.",
    also="log_matching",
)(_altered)  # fmt: skip
"""Voters decide what is committed, however many brokers hold something else."""
fault(
    "log_matching", "critical", "3", 4, says="Replicas 3, 11 and 12 stand against the others.",
    also="committed_data_consistent",
)(_altered)  # fmt: skip


@fault("epochs_monotonic", "critical", "1", 13)
def _(nodes: list[Node]) -> None:
    """Beside the tail of another voter, whose epoch is the one that the damaged header has."""
    for node in nodes[:2]:
        led_next(node, 3, 1)
        node.append(*(Batch(base, 3, (NO_OP,), None, LATER + base) for base in (13, 14)))
    nodes[2].append(*(Batch(base, 2, (NO_OP,), None, LATER) for base in (12, 13)))
    path = nodes[0].segment(6)
    damaged = Batch(13, 3, (NO_OP,), None, LATER + 13)
    path.write_bytes(path.read_bytes().replace(damaged.raw(), replace(damaged, epoch=2).raw()))


MOST_CHANGED = "it may have been changed, and replica 1 may be right. Empty no folder, and compare"


def _most_changed(base: int, **fields: object) -> Damage:
    """Voters 2 and 3 hold a batch that no leader writes where voter 1 holds what was written."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes[1:]:
            replace_batch(node, base, lambda one: replace(one, **fields).raw())  # type: ignore[arg-type]

    return damage


fault(
    "committed_data_consistent", "critical", "1", 7, also="log_matching record_decodes",
    says=f"no leader of Kafka writes what replicas 2 and 3 hold there (record_decodes): {MOST_CHANGED}",
)(_most_changed(7, values=(NO_OP + b"more",)))  # fmt: skip
fault(
    "record_decodes", "critical", "2", 7, also="log_matching committed_data_consistent",
    says="Replica 3 holds the same bytes, and replica 1 holds another batch of that epoch: one of them",
)(_most_changed(7, values=(NO_OP + b"more",)))  # fmt: skip
fault(
    "log_matching", "critical", "1", 7, also="committed_data_consistent batch_decompresses",
    says=f"writes what replicas 2 and 3 hold there (batch_decompresses): {MOST_CHANGED}",
)(_most_changed(7, attributes=1, payload=b"no gzip"))  # fmt: skip
fault(
    "committed_data_consistent", "critical", "1", 10, also="epochs_monotonic",
    says=f"writes what replicas 2 and 3 hold there (epochs_monotonic): {MOST_CHANGED}",
)(_most_changed(10, epoch=1))  # fmt: skip
fault(
    "committed_data_consistent", "critical", "1", 6, also="epochs_monotonic",
    says=f"writes what replicas 2 and 3 hold there (epochs_monotonic): {MOST_CHANGED}",
)(_most_changed(6, epoch=2))  # fmt: skip
fault(
    "log_matching", "critical", "1", 8, also="committed_data_consistent leader_change_starts_epoch",
    says=f"writes what replicas 2 and 3 hold there (leader_change_starts_epoch): {MOST_CHANGED}",
)(_most_changed(8, values=(NO_OP,), keys=None))  # fmt: skip
fault(
    "log_matching", "critical", "1", 7, also="committed_data_consistent producer_ids_increase",
    says=f"writes what replicas 2 and 3 hold there (producer_ids_increase): {MOST_CHANGED}",
)(_most_changed(7, values=(producer_ids(5),)))  # fmt: skip
fault(
    "producer_ids_increase", "critical", "2", 7, also="committed_data_consistent log_matching",
    says="Replica 3 holds the same bytes, and replica 1 holds another batch of that epoch: one of them",
)(_most_changed(7, values=(producer_ids(5),)))  # fmt: skip
fault(
    "log_matching", "critical", "1", 7, also="committed_data_consistent transactions_well_formed",
    says=f"writes what replicas 2 and 3 hold there (transactions_well_formed): {MOST_CHANGED}",
)(_most_changed(7, values=(TRANSACTION["end"],)))  # fmt: skip
fault(
    "log_matching", "critical", "1", 7, also="committed_data_consistent",
    says=f"writes what replicas 2 and 3 hold there (record_rules): {MOST_CHANGED}",
)(_most_changed(7, payload=frame(0, b"key", NO_OP)))  # fmt: skip


def _backup_of_1(nodes: list[Node], directory: int | None) -> None:
    """A second folder of node 1, with another directory id or none."""
    home = nodes[0].home
    backup = shutil.copytree(home, home.parent / "old-1") / "meta.properties"
    own, other = (f"directory.id={disk_text(number)}\n" for number in (1, directory or 1))
    backup.write_text(backup.read_text().replace(own, "" if directory is None else other))


def _on_its_old_disk(nodes: list[Node], directory: int | None) -> None:
    """The same where the voter set names directories."""
    for node in nodes:
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER))
    _backup_of_1(nodes, directory)


@fault("node_identity_unique", "critical", "old-1", says="old-1 and 1, are disks of node 1",
    sound=lambda nodes: _on_its_old_disk(nodes, 77))  # fmt: skip
def _(nodes: list[Node]) -> None:
    _backup_of_1(nodes, 77)


@fault(
    "node_identity_unique", "critical", "3", also="meta_properties_valid",
    says="The server.properties in 3 is of node 3, whose own log that may be: put nothing away",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The meta.properties of node 1 came to node 3."""
    shutil.copy(nodes[0].home / "meta.properties", nodes[2].home)
    (nodes[2].home / "server.properties").write_text("node.id=3\n")


@fault("node_identity_unique", "critical", "old-1", says="old-1 and 1, both claim to be node 1.",
    sound=lambda nodes: _on_its_old_disk(nodes, 77))  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A backup of before Kafka 3.7 knows no directory."""
    _on_its_old_disk(nodes, None)


@fault(
    "committed_data_consistent", "critical", "3", 4, also="log_matching snapshot_equals_replay",
    says="of replicas 1 and 2 contradict their own log (snapshot_equals_replay): it may have been",
)  # fmt: skip
@fault(
    "log_matching", "critical", "3", 4, also="committed_data_consistent snapshot_equals_replay",
    says="and replica 3 may be right. Empty no folder, and compare all of them with a backup.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Most voters hold what their own snapshots contradict."""
    for node in nodes[:2]:
        replace_batch(
            node, 4, lambda one: replace(one, values=(producer_ids(2000), one.values[1])).raw()
        )
