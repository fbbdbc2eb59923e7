"""Damages to the state: records that are whole and must not be there, in the logs of all replicas.

Offset 12 is the first that is free. Topic 1 has the partition [1, 2], led by 1; topics 2 and 3
have none.
"""

from dataclasses import replace

from tests.unit.audit_logs import (
    START_MS,
    Batch,
    Node,
    acl,
    change,
    change_directories,
    config,
    feature,
    fence_broker,
    healthy_log,
    healthy_state,
    leader_change,
    partition,
    producer_ids,
    register_broker,
    register_controller,
    remove_acl,
    remove_scram,
    remove_topic,
    replace_batch,
    scram,
    snapshot,
    topic,
    unregister_broker,
    unregister_controller,
    voters_batch,
)
from tests.unit.faults.table import LATER, Damage, appended, everywhere, fault

REFERENCES, ASSIGNMENT = "references_exist", "isr_within_replicas"
EPOCHS, IDENTITY, BROKER_EPOCH = (
    "partition_epochs_step", "topic_identity_unique", "broker_epoch_is_offset",
)  # fmt: skip

_DIRECTORY = b"\x02" + bytes(15) + b"\x07"
ONE_DIRECTORY = (
    b"\x01\x05\x02"
    + bytes(4)
    + bytes(15)
    + b"\x01"
    + b"\x01\x08"
    + bytes([len(_DIRECTORY)])
    + _DIRECTORY
)
"""A PartitionChange that gives a partition of topic 1 one directory."""


@fault(REFERENCES, "critical", offset=12, says="there is no topic", sound=appended(topic("d", 9)))
def _(nodes: list[Node]) -> None:
    everywhere(nodes, partition(9, [1], [1], 1))


@fault(REFERENCES, "critical", offset=12, says="there is no partition 0", sound=appended(change(1)))
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(2))


@fault(
    REFERENCES, "critical", offset=12, says="If every node stops at it, kraftlog recover builds",
    sound=appended(remove_topic(3)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, remove_topic(9))


@fault(REFERENCES, "critical", offset=13, says="there is no topic", sound=appended(remove_topic(3)))
def _(nodes: list[Node]) -> None:
    everywhere(nodes, remove_topic(3), remove_topic(3))


@fault(REFERENCES, "critical", offset=12, says="there is no ACL")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, remove_acl(1))


@fault(
    REFERENCES, "critical", offset=12, says="no broker 7",
    sound=appended(register_broker(7, 12), fence_broker(7, 12)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, fence_broker(7, 12))


@fault(
    REFERENCES, "critical", offset=13, says="brokerEpoch is 12, the record says 11",
    sound=appended(register_broker(7, 12), fence_broker(7, 12)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, register_broker(7, 12), fence_broker(7, 11))


@fault(
    REFERENCES, "critical", offset=12, says="removes broker 7, which does not exist there",
    sound=appended(register_broker(7, 12), unregister_broker(7, 12)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, unregister_broker(7, 12))


@fault(
    REFERENCES, "critical", offset=14, says="removes broker 7",
    sound=appended(register_broker(7, 12), fence_broker(7, 12), unregister_broker(7, 12)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, register_broker(7, 12), unregister_broker(7, 12), unregister_broker(7, 12))


@fault(
    REFERENCES, "critical", offset=13, says="removes broker 7, whose epoch is 12 there and not 11",
    sound=appended(register_broker(7, 12), unregister_broker(7, 12)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, register_broker(7, 12), unregister_broker(7, 11))


@fault(
    REFERENCES, "critical", offset=13, says="removes controller 8, which does not exist there",
    sound=appended(register_controller(8), unregister_controller(8)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, register_controller(7), unregister_controller(8))


@fault(
    REFERENCES, "critical", offset=13, says="removes SCRAM-SHA-512 credential of user ann, which",
    # Mechanisms that Kafka does not know are one to it.
    sound=appended(scram("ann", 2), remove_scram("ann", 2), scram("ann", 9), remove_scram("ann", 8)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, scram("ann", 1), remove_scram("ann", 2))


@fault(
    ASSIGNMENT, "critical", offset=12, says="its assignment is empty",
    also="leader_in_isr", sound=appended(partition(2, [1], [1], 1)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, partition(2, [], [], 1))


@fault(ASSIGNMENT, "critical", offset=12, says="assignment [2, 1, 2] names a broker twice")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, replicas=[2, 1, 2]))


@fault(
    ASSIGNMENT, "critical", offset=12, says="isr [1, 2, 3] holds [3]",
    sound=appended(change(1, isr=[2, 1])),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, isr=[1, 2, 3]))


@fault(
    ASSIGNMENT, "critical", offset=12, says="eligibleLeaderReplicas [2, 9] holds [9]",
    sound=appended(change(1, isr=[1], elr=[2])),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, isr=[1], elr=[2, 9]))


@fault(
    ASSIGNMENT, "critical", offset=13, says="eligibleLeaderReplicas [2, 9] holds [9], not in",
    sound=appended(change(1, replicas=[1], isr=[1], elr=[2]), change(1, isr=[], leader=-1)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka leaves in the ELR whom a reassignment takes out of the ISR, and nobody else."""
    moved = change(1, replicas=[1], isr=[1], elr=[2])
    everywhere(nodes, moved, change(1, elr=[2, 9]))


@fault(
    ASSIGNMENT, "critical", offset=12, says="addingReplicas [3] holds [3]",
    sound=appended(change(1, replicas=[1, 2, 3], adding=[3])),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, adding=[3]))


@fault(
    ASSIGNMENT, "critical", offset=12, says="removingReplicas [4] holds [4]",
    sound=appended(change(1, replicas=[1, 2, 3], removing=[2])),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, removing=[4]))


@fault(
    ASSIGNMENT, "critical", offset=12, says="isr [2, 2] names a broker twice. A controller stops with an",
    sound=appended(change(1, replicas=[1, 2], adding=[2], removing=[2])),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A broker that is being added and removed is no fault: Kafka writes that itself."""
    everywhere(nodes, change(1, isr=[2, 2], leader=2))


@fault(
    ASSIGNMENT, "critical", offset=12, says="its ISR [1, 2] and its ELR [2] both hold [2]",
    sound=appended(change(1, isr=[1], elr=[2])),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, elr=[2]), change(1))


_ELR_ON, _ELR_OFF = (feature("eligible.leader.replicas.version", level) for level in (1, 0))
_IN_ELR = change(1, isr=[1], elr=[2])


@fault(
    ASSIGNMENT, "critical", offset=15, says="from offset 15 on: its ISR [1, 2] and its ELR [2] both",
    sound=appended(_ELR_ON, _IN_ELR, _ELR_OFF, _ELR_ON, change(1, isr=[1, 2])),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Whose ELR was off may have forgotten it: 4.3.1 writes such records then."""
    everywhere(nodes, _ELR_ON, _IN_ELR, _ELR_ON, change(1, isr=[1, 2]), _ELR_OFF)


@fault(
    ASSIGNMENT, "critical", offset=12, says="Partition -4 of topic b",
    sound=appended(partition(2, [1], [1], 1, partition_id=4)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, partition(2, [1], [1], 1, partition_id=-4))


@fault(ASSIGNMENT, "critical", offset=13, says="isr [1, 2] holds [1]", also="leader_in_isr")
def _(nodes: list[Node]) -> None:
    """A problem that a record leaves as it is belongs to the record that made it."""
    everywhere(nodes, change(1), change(1, replicas=[2, 3]), change(1, leader=2))


@fault(ASSIGNMENT, "critical", offset=12, says="number of replicas is 2, of directories 1")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, ONE_DIRECTORY)


@fault(
    "leader_in_isr", "critical", offset=12, says="leader 2 is not in its ISR [1]",
    sound=appended(change(1, isr=[2], leader=2)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, isr=[1], leader=2), change(1))


@fault(
    "leader_in_isr", "critical", offset=14, says="leader 1",
    sound=appended(change(1, isr=[2], leader=-1), change(1, isr=[2], leader=1, recovery=1)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, isr=[2], leader=2), change(1), change(1, leader=1))


@fault(
    "leader_in_isr", "critical", offset=12, says="leader -5 is not in its ISR [1, 2]",
    sound=appended(partition(2, [1], [1], -2)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """-2 is what ZooKeeper called the leader of a partition that was being deleted."""
    everywhere(nodes, change(1, leader=-5))


@fault(
    EPOCHS, "critical", offset=12, says="its leaderEpoch begins below 0, at -7",
    sound=appended(partition(2, [1], [1], 1, leader_epoch=7)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, partition(2, [1], [1], 1, leader_epoch=-7), change(2))


@fault(
    EPOCHS, "critical", offset=13, says="its partitionEpoch goes back from 1 to 0",
    sound=appended(change(1), partition(1, [1, 2], [1, 2], 1, partition_epoch=1)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1), partition(1, [1, 2], [1, 2], 1))


@fault(
    EPOCHS, "critical", offset=13, says="its leaderEpoch goes back from 1 to 0",
    sound=appended(
        change(1, leader=2), partition(1, [1, 2], [1, 2], 2, leader_epoch=1, partition_epoch=1)
    ),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, leader=2), partition(1, [1, 2], [1, 2], 2, partition_epoch=9))


@fault(IDENTITY, "critical", offset=12, says="A topic named a", sound=appended(topic("d", 8)))
def _(nodes: list[Node]) -> None:
    everywhere(nodes, topic("a", 8))


@fault(
    IDENTITY, "critical", offset=12, says="is used again at offset 12 for topic d, while it is that of topic c",
    sound=appended(remove_topic(3), topic("c", 4)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, topic("d", 3))


@fault(
    BROKER_EPOCH, "warning", offset=13, says="with broker epoch 14",
    sound=appended(topic("d", 8), register_broker(7, 13)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, topic("d", 8), register_broker(7, 14))


@fault(
    BROKER_EPOCH,
    "warning",
    offset=13,
    says="with broker epoch 11",
    sound=appended(feature("metadata.version", 11), register_broker(7, 11)),
)
def _(nodes: list[Node]) -> None:
    """From metadata.version 12 on, which is that of Kafka 3.6; controllers before it miscounted."""
    everywhere(nodes, feature("metadata.version", 12), register_broker(7, 11))


@fault(
    BROKER_EPOCH,
    "warning",
    offset=13,
    says="with broker epoch 3",
    sound=lambda nodes: _registered_later(nodes, 4),
)
def _(nodes: list[Node]) -> None:
    """A controller that miscounts still counts up."""
    _registered_later(nodes, 3)


def _registered_later(nodes: list[Node], epoch: int) -> None:
    """Broker 7 with epoch 3, and as another process with a later one, both miscounted."""
    for node in nodes:
        node.append(
            Batch(12, 2, (register_broker(7, 3, 1),), None, LATER),
            Batch(13, 2, (register_broker(7, epoch, 2),), None, LATER),
        )


def _registered_twice(nodes: list[Node], incarnation: int) -> None:
    """Broker 7, and once more in a later batch with the same epoch, as one that is renewed."""
    for node in nodes:
        node.append(
            Batch(12, 2, (register_broker(7, 12, 1),), None, LATER),
            Batch(13, 2, (register_broker(7, 12, incarnation),), None, LATER),
        )


@fault(
    BROKER_EPOCH, "warning", offset=13, says="with broker epoch 12",
    sound=lambda nodes: _registered_twice(nodes, incarnation=1),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The old epoch is that of the old process alone."""
    _registered_twice(nodes, incarnation=2)


@fault(
    BROKER_EPOCH, "warning", offset=14, says="with broker epoch 12",
    sound=lambda nodes: _registered_behind(nodes, voters_batch(13, 2, 1, 2, 3, ms=LATER), 13),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A controller does not know of the voters' records that KRaft puts in front of its own."""
    _registered_behind(nodes, voters_batch(13, 2, 1, 2, 3, ms=LATER), 12)


@fault(
    BROKER_EPOCH, "warning", offset=14, says="with broker epoch 13",
    sound=lambda nodes: _registered_behind(nodes, leader_change(13, 3, 1, LATER), 14),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """It begins behind the record with which it came to lead."""
    _registered_behind(nodes, leader_change(13, 3, 1, LATER), 13)


def _registered_behind(nodes: list[Node], control: Batch, broker_epoch: int) -> None:
    level = feature("metadata.version", 12)
    for node in nodes:
        node.append(
            Batch(12, 2, (level,), None, LATER),
            control,
            Batch(14, control.epoch, (register_broker(7, broker_epoch),), None, LATER),
        )


@fault(
    "producer_ids_increase", "critical", offset=13, says="from 2000 to 1999",
    sound=appended(producer_ids(1001), producer_ids(2000), producer_ids(2001)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, producer_ids(2000), producer_ids(1999))


@fault(
    "producer_ids_increase", "critical", offset=13, says="is 2000 once more at offset 13",
    sound=appended(producer_ids(2000), producer_ids(2001)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, producer_ids(2000), producer_ids(2000))


@fault(
    "record_replays", "warning", offset=13, says="uses an id again that is in use there: ACL ALLOW",
    sound=appended(acl(7, "a"), remove_acl(7), acl(7, "b")),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, acl(7, "a"), acl(7, "b"))


@fault(
    "record_replays", "warning", offset=12, says="is of principal 'ann', which is not of the form",
    sound=appended(acl(7, "a", "User:ann")),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, acl(7, "a", "ann"))


_TIME = "log.retention.ms"


def _of_broker(name: str) -> bytes:
    return config(4, name, _TIME, "9")


@fault(
    "record_replays", "warning", offset=12,
    says="is of broker '7x', and that is no number of a broker. From Kafka 4.0 on, a",
    sound=appended(
        *map(_of_broker, ("", "7", "-7", "+007", "\u0667", "2147483647", "-2147483648")),
        config(2, "7x", _TIME, "9"),
    ),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """ConfigurationControlManager: NumberFormatException."""
    everywhere(nodes, _of_broker("7x"))


fault("record_replays", "warning", offset=12, says="is of broker '-2147483649', and that is")(
    appended(*map(_of_broker, ("-2147483649", "+2147483648", "9" * 50, " 7", "1_0", "+")))
)


DIRECTORIES = "broker_directories_unique"


@fault(
    DIRECTORIES, "critical", offset=13, says="gives broker 8 the directory AAAAAAAAAAAAAAAAAAAABQ, which is that of broker 7",
    sound=appended(
        register_broker(7, 12, directories=[5, 6]), register_broker(8, 13, directories=[7]),
        register_broker(7, 14, directories=[6, 5]), unregister_broker(8, 13),
        register_broker(9, 16, directories=[7]),
    ),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """ClusterControlManager: "BUG: directory ... already assigned to broker 7"."""
    first = register_broker(7, 12, directories=[5, 6])
    everywhere(nodes, first, register_broker(8, 13, directories=[5]))


@fault(
    DIRECTORIES, "critical", offset=14, says="BROKER_REGISTRATION_CHANGE_RECORD at offset 14 gives broker 8",
    sound=appended(
        register_broker(7, 12, directories=[5]), register_broker(8, 13, directories=[6]),
        change_directories(8, 13, [6, 7]), fence_broker(8, 13),
    ),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    both = [register_broker(one, one + 5, directories=[one - 2]) for one in (7, 8)]
    everywhere(nodes, *both, change_directories(8, 13, [5, 6]))


@fault(
    DIRECTORIES,
    "critical",
    offset=12,
    says="names directory AAAAAAAAAAAAAAAAAAAABQ of broker 7 twice",
)
def _(nodes: list[Node]) -> None:
    everywhere(nodes, register_broker(7, 12, directories=[5, 5]))


@fault(DIRECTORIES, "critical", offset=13, says="whose registration names directory")
def _(nodes: list[Node]) -> None:
    """ClusterControlManager: "BUG: directory ... not assigned to broker 7"."""
    everywhere(nodes, register_broker(7, 12, directories=[5, 5]), fence_broker(7, 12))


@fault(
    "record_replays", "warning", offset=12, says="an endpoint has no name",
    sound=appended(register_broker(7, 12)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, register_broker(7, 12, end_point=""))


@fault(
    "record_replays", "warning", offset=12, says="A controller that replays it stops with an exception. Brokers take it, and then can write",
    sound=appended(register_broker(7, 12, protocol=3)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, register_broker(7, 12, protocol=77))


@fault(
    "record_replays", "warning", offset=12,
    says="leaderRecoveryState is 5, which Kafka knows no meaning for",
    sound=appended(change(1, recovery=1), change(1, recovery=0), change(1, recovery=-1)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, change(1, recovery=5))


def _removed(nodes: list[Node], created: int, removed: int, apart_ms: int = 0) -> None:
    """Some topics created, and some of them removed, one every so many ms."""
    everywhere(nodes, *(topic(f"t{n}", n) for n in range(10, 10 + created)))
    for node in nodes:
        node.append(
            *(
                Batch(12 + created + n, 2, (remove_topic(10 + n),), None, LATER + 1 + apart_ms * n)
                for n in range(removed)
            )
        )


@fault(
    "mass_deletion", "warning", offset=17, says="5 of 8 topics",
    sound=lambda nodes: _removed(nodes, 7, 5),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Five of eight are more than the half; five of ten are not."""
    _removed(nodes, 5, 5)


@fault(
    "mass_deletion", "warning", offset=16, says="4 of 7 topics",
    sound=lambda nodes: _removed(nodes, 2, 2),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Four are enough; two of five never are."""
    _removed(nodes, 4, 4)


@fault(
    "mass_deletion",
    "warning",
    offset=16,
    says="4 of 7 topics",
    sound=lambda nodes: _removed(nodes, 4, 4, apart_ms=20_001),
)
def _(nodes: list[Node]) -> None:
    """The last one goes exactly a minute after the first."""
    _removed(nodes, 4, 4, apart_ms=20_000)


@fault("mass_deletion", "warning", offset=17, says="5 of 8 topics")
def _(nodes: list[Node]) -> None:
    """A script that takes its time."""
    _removed(nodes, 5, 5, apart_ms=3000)


def _acls_go(nodes: list[Node], again: int) -> None:
    """A tool removes all of 20 ACLs in one batch, and writes some of them again under new ids."""
    everywhere(nodes, *(acl(n, f"t{n}") for n in range(20)))
    gone = [remove_acl(n) for n in range(20)]
    written = [acl(100 + n, f"t{n}") for n in range(again)]
    for node in nodes:
        node.append(Batch(32, 2, (*gone, *written), None, LATER + 1))


fault(
    "mass_deletion", "warning", offset=32, says="20 of 20 ACLs",
    sound=lambda nodes: _acls_go(nodes, 20),
)(lambda nodes: _acls_go(nodes, 0))  # fmt: skip


@fault("mass_deletion", "warning", offset=16, says="4 of 7 topics")
def _(nodes: list[Node]) -> None:
    """The clock goes back by more than a minute in the midst of it."""
    _removed(nodes, 4, 2)
    for node in nodes:
        node.append(Batch(18, 2, (remove_topic(12), remove_topic(13)), None, LATER - 70_000))


@fault("mass_deletion", "warning", offset=18, says="4 of 7 topics")
def _(nodes: list[Node]) -> None:
    """What went well before all others is no part of the crowd."""
    _lone_and_four(nodes, 501)


@fault("mass_deletion", "warning", offset=17, says="5 of 8 topics")
def _(nodes: list[Node]) -> None:
    _lone_and_four(nodes, 500)


def _lone_and_four(nodes: list[Node], apart_ms: int) -> None:
    """Five topics, of which one goes alone, and then the others in one batch."""
    _removed(nodes, 5, 1)
    for node in nodes:
        gone = tuple(remove_topic(n) for n in range(11, 15))
        node.append(Batch(18, 2, gone, None, LATER + 1 + apart_ms))


@fault("snapshots_agree", "critical", "2", 6, says="nextProducerId", also="snapshot_equals_replay")
def _(nodes: list[Node]) -> None:
    stored = [healthy_log()[1], Batch(0, 1, (producer_ids(1001), topic("b", 2)))]
    nodes[1].checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))


@fault(
    "snapshot_equals_replay", "critical", "2", 6, also="snapshots_agree",
    says="The same differs in its later snapshot 00000000000000000012-0000000002.checkpoint. A",
)  # fmt: skip
@fault(
    "snapshots_agree", "critical", "2", 6, also="snapshot_equals_replay",
    says="The same differs in its later snapshot 00000000000000000012-0000000002.checkpoint. A",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A node goes on with what it has loaded: that is told once."""
    wrong = Batch(0, 1, (producer_ids(1001), topic("b", 2)))
    nodes[1].checkpoint(6, 1).write_bytes(snapshot([healthy_log()[1], wrong], 1, START_MS + 3000))
    for node, second in ((nodes[1], wrong), (nodes[2], healthy_log()[3])):
        stored = [healthy_log()[1], second, healthy_log()[8]]
        node.checkpoint(12, 2).write_bytes(snapshot(stored, 2, healthy_log()[-1].ms))


@fault(
    "snapshot_equals_replay", "critical", "3", 6, also="committed_data_consistent log_matching",
    says="Snapshots of replicas 1 and 2 differ from it in the same way, and none agrees with it",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Two of three copies of a log were changed: the snapshots that all wrote tell what it was."""
    changed = (producer_ids(1001), topic("b", 2))
    for node in nodes[:2]:
        replace_batch(node, 4, lambda one: replace(one, values=changed).raw())


@fault(
    "snapshot_equals_replay", "critical", "1", 6, also="snapshots_agree",
    says="Take the file of the same name from replica 3.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Two snapshots are wrong in the same way, and a third of their id is right: not the log."""
    stored = [healthy_log()[1], Batch(0, 1, (producer_ids(1001), topic("b", 2)))]
    for node in nodes[:2]:
        node.checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))


@fault(
    "snapshot_equals_replay", "critical", "1", 15, says="SCRAM credential 1 bob is missing",
    also="snapshots_agree scram_users_outlive_restart",
)  # fmt: skip
@fault(
    "snapshots_agree", "critical", "1", 15, says="SCRAM credential 1 bob is missing",
    also="snapshot_equals_replay scram_users_outlive_restart",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka's own loader lost a user of one node."""
    log = Batch(12, 2, (scram("ann"), scram("bob"), remove_scram("ann")), None, LATER)
    for node, users in zip(nodes[:2], ((), (scram("bob"),)), strict=True):
        stored = [*healthy_state(), *(Batch(0, 2, (one,)) for one in users)]
        node.checkpoint(15, 2).write_bytes(snapshot(stored, 2, LATER))
    for node in nodes:
        node.append(log)


def _written_later(log: list[Batch], held: dict[int, tuple[bytes, ...]]) -> Damage:
    """Batches of all nodes, and what the snapshots of replica 1 hold beside the healthy state."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            node.append(*log)
        for end, records in held.items():
            more = [Batch(0, 2, (one,)) for one in records]
            raw = snapshot([*healthy_state(), *more], 2, LATER)
            nodes[0].checkpoint(end, 2).write_bytes(raw)

    return damage


_LOST = Batch(12, 2, (scram("ann"), scram("bob"), remove_scram("ann")), None, LATER)
_AGAIN = Batch(15, 2, (scram("bob"),), None, LATER)
fault(
    "snapshot_equals_replay", "info", "1", 15, says="Records behind it say anew what these users",
    sound=_written_later([_LOST, _AGAIN], {15: (scram("bob"),)}),
)(_written_later([_LOST, _AGAIN], {15: ()}))  # fmt: skip

_OFF_FOR_A_TIME = [
    Batch(12, 2, (_ELR_ON, topic("d", 9), partition(9, [1, 2], [1], 1)), None, LATER),
    Batch(15, 2, (change(9, isr=[1], elr=[2]), _ELR_OFF), None, LATER),
    Batch(17, 2, (_ELR_ON,), None, LATER),
]
_WITHOUT_ELR = topic("d", 9), partition(9, [1, 2], [1], 1, partition_epoch=1)
fault(
    "snapshot_equals_replay", "info", "1", 18, says="differ from the replay of the log from offset 0 on in ELRs",
    sound=_written_later(_OFF_FOR_A_TIME, {17: _WITHOUT_ELR}),
)(_written_later(_OFF_FOR_A_TIME, {18: (_ELR_ON, *_WITHOUT_ELR)}))  # fmt: skip

_SHORT = config(2, "short", "retention.ms", "1")
_TAKEN = [
    Batch(12, 2, (_SHORT, topic("short", 8), remove_topic(8), topic("short", 9)), None, LATER),
    Batch(16, 2, (_SHORT, config(2, "short", "retention.ms", None)), None, LATER),
]
fault(
    "snapshot_equals_replay", "info", "1", 16, says="agrees with the log again, and a start begins",
    sound=_written_later(_TAKEN, {16: (topic("short", 9),)}),
)(_written_later(_TAKEN, {16: (topic("short", 9), _SHORT), 18: (topic("short", 9),)}))  # fmt: skip


@fault(
    "snapshot_equals_replay", "info", says="Snapshots of replicas 1, 2 and 3 hold configs of topics"
)
def _(nodes: list[Node]) -> None:
    """Configs of a topic that is gone: Kafka leaves them behind itself."""
    left = Batch(0, 1, (config(2, "gone", "retention.ms", "1"),))
    stored = [healthy_log()[1], healthy_log()[3], left]
    for node in nodes:
        node.checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))


def _of_no_topic(*held: tuple[int, bool], starts: int = 0) -> Damage:
    """The log sets a config of a topic that there never was; snapshots hold that, or not."""
    stray = config(2, "gone", "retention.ms", "1")

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            replace_batch(node, 7, lambda one: replace(one, values=(stray,)).raw())
            for end, holds in held:
                stored = healthy_state()[: 2 if end == 6 else 3]
                epoch = 1 if end == 6 else 2
                more = [Batch(0, epoch, (stray,))] if holds else []
                raw = snapshot([*stored, *more], epoch, healthy_log()[-1].ms)
                node.checkpoint(end, epoch).write_bytes(raw)
            if starts:
                node.segment(0).unlink()
                node.epochs([(1, starts), (2, 8)])

    return damage


for starts in (0, 6):
    fault(
        "snapshot_equals_replay", "critical", "1", 12, says="of topic 'gone' is missing (value 1)",
        sound=_of_no_topic((12, True), starts=starts),
    )(_of_no_topic((12, False), starts=starts))  # fmt: skip
fault("snapshot_equals_replay", "info", "1", 12, says="Snapshots of replica 1 hold configs of")(
    _of_no_topic((6, True), (12, False), starts=6)
)


@fault("mass_deletion", "warning", offset=16, says="4 of 7 topics")
def _(nodes: list[Node]) -> None:
    """A crowd is told where it is over, not only at the log's end."""
    _removed(nodes, 4, 4)
    for node in nodes:
        node.append(Batch(20, 2, (remove_topic(2),), None, LATER + 120_000))


@fault("mass_deletion", "warning", offset=23, says="4 of 6 topics")
def _(nodes: list[Node]) -> None:
    """What went in an earlier crowd is not counted again in the next."""
    _removed(nodes, 7, 4)
    for node in nodes:
        gone = tuple(remove_topic(n) for n in (14, 15, 16, 2))
        node.append(Batch(23, 2, gone, None, LATER + 120_000))
