"""Damages to what the newest state says of the running cluster: each is a cluster in trouble, over
a log that is sound.
"""

import shutil
from typing import Any

from kraftlog.message.catalogue import spec_of
from kraftlog.state.encode import control_record, metadata_record
from tests.unit.audit_logs import (
    CLUSTER,
    NO_OP,
    START_MS,
    Batch,
    Node,
    acl,
    disk_text,
    healthy_log,
    leader_change,
    remove_scram,
    scram,
    snapshot,
    topic,
    voters_batch,
)
from tests.unit.faults.table import LATER, Damage, appended, everywhere, fault

NOBODY = dict.fromkeys(("isr", "replicas", "removingReplicas", "addingReplicas"))
KEEP = {"leader": -2, "leaderRecoveryState": -1, **NOBODY}
FIRST = 12
"""The offset of the first record of a damage."""


def value(record_type: str, version: int = 0, **data: Any) -> bytes:
    spec = spec_of(record_type)
    assert spec is not None
    raw = metadata_record(spec, version, data).value
    assert raw is not None
    return raw


def uuid(number: int) -> str:
    """As the builders number topics: the last byte."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return "A" * 20 + letters[number >> 2] + letters[(number & 3) << 4]


def level(number: int, name: str = "metadata.version") -> bytes:
    return value("FEATURE_LEVEL_RECORD", name=name, featureLevel=number)


def supports(highest: int, lowest: int = 1) -> list[dict[str, Any]]:
    levels = {"minSupportedVersion": lowest, "maxSupportedVersion": highest}
    return [{"name": "metadata.version", **levels}]


def broker(
    number: int, offset: int, *, fenced: bool = False, stopping: bool = False, rack: str | None = None,
    highest: int = 20, lowest: int = 1, migrating: bool = False,
) -> bytes:  # fmt: skip
    return value(
        "REGISTER_BROKER_RECORD",
        2,
        brokerId=number,
        incarnationId=uuid(number),
        brokerEpoch=offset,
        endPoints=[],
        features=supports(highest, lowest),
        rack=rack,
        fenced=fenced,
        inControlledShutdown=stopping,
        isMigratingZkBroker=migrating,
    )


def controller(number: int, highest: int = 20, port: int = 9093) -> bytes:
    listener = {"name": "CONTROLLER", "host": "localhost", "port": port, "securityProtocol": 0}
    return value(
        "REGISTER_CONTROLLER_RECORD",
        controllerId=number,
        incarnationId=uuid(number),
        zkMigrationReady=False,
        endPoints=[listener],
        features=supports(highest),
    )


def partition(number: int, replicas: list[int], leader: int, isr: list[int] | None = None) -> bytes:
    """A partition of topic b, whose id is 2."""
    return value(
        "PARTITION_RECORD",
        partitionId=number,
        topicId=uuid(2),
        replicas=replicas,
        isr=replicas if isr is None else isr,
        removingReplicas=[],
        addingReplicas=[],
        leader=leader,
        leaderEpoch=0,
        partitionEpoch=0,
        leaderRecoveryState=0,
    )


def change(**fields: Any) -> bytes:
    """A change of the partition of topic a."""
    data = {"partitionId": 0, "topicId": uuid(1), **KEEP, **fields}
    return value("PARTITION_CHANGE_RECORD", **data)


RUNNING = (level(20), broker(1, FIRST + 1), broker(2, FIRST + 2))
"""Both brokers of topic a, as they should be."""
HALF = (level(20), broker(1, FIRST + 1), broker(2, FIRST + 2, fenced=True))
"""Broker 2 has failed."""
sound = appended(*RUNNING)


def cluster(*values: bytes) -> Damage:
    return appended(*values)


MIN_ISR = value(
    "CONFIG_RECORD",
    resourceType=2,
    resourceName="a",
    name="min.insync.replicas",
    value="2",
)

fault("partitions_have_leaders", "warning", says="Start broker 2 of the ISR", sound=sound)(
    cluster(*HALF, change(isr=[2], leader=-1))
)
fault("partitions_have_leaders", "info", says="Broker 2 was stopped", sound=sound)(
    cluster(*RUNNING[:2], broker(2, FIRST + 2, stopping=True), change(isr=[2], leader=-1))
)
"""Broker 2 is about to stop on purpose: its leaders have been moved, and it is fenced next."""
fault(
    "partitions_have_leaders", "warning", sound=cluster(*HALF, change(isr=[1], leader=1)),
    says="Led by broker 2, which is fenced (a controller moves leaders first); start that broker, or",
)(cluster(*HALF, change(leader=2)))  # fmt: skip
fault(
    "partitions_have_leaders", "warning", says="Led by broker 2, which is not registered",
    sound=cluster(level(20), broker(1, FIRST + 1), change(leader=1)),
)(cluster(level(20), broker(1, FIRST + 1), change(leader=2)))  # fmt: skip
fault(
    "brokers_unfenced", "warning", says="it is still named as leader of 1 partition and serves no",
    sound=sound,
)(cluster(*HALF, change(leader=2)))  # fmt: skip
fault(
    "partitions_reach_min_isr", "warning", says="1 in sync (broker 1), 2 wanted: a-0", sound=sound
)(cluster(*HALF, MIN_ISR, change(isr=[1])))


def least_of_broker(name: str, least: int) -> bytes:
    """min.insync.replicas of a broker, of all where it has no name."""
    return value(
        "CONFIG_RECORD", resourceType=4, resourceName=name, name="min.insync.replicas",
        value=str(least),
    )  # fmt: skip


OF_ALL = (*HALF, change(isr=[1]), least_of_broker("", 2))
fault(
    "partitions_reach_min_isr", "warning", says="1 in sync (broker 1), 2 wanted: a-0",
    sound=cluster(*OF_ALL, least_of_broker("1", 1)),
)(cluster(*OF_ALL, least_of_broker("2", 1)))  # fmt: skip
"""What counts is the broker that leads."""
fault(
    "partitions_reach_min_isr", "warning", sound=sound,
    says="with acks=all fail there. Broker 2 runs, but is not in sync: see server.log for why. 1 in",
)(cluster(*RUNNING, MIN_ISR, change(isr=[1])))  # fmt: skip
fault("elections_clean", "info", says="Broker 2 was elected at ", sound=sound)(
    cluster(*RUNNING, change(isr=[2], leader=2, leaderRecoveryState=1))
)
fault(
    "elections_clean",
    "info",
    says="(2 times in the records at hand, recovered since): a-0",
    sound=sound,
)(
    cluster(
        *RUNNING,
        change(isr=[2], leader=2, leaderRecoveryState=1),
        change(leaderRecoveryState=0),
        change(isr=[1], leader=1, leaderRecoveryState=1),
        change(leaderRecoveryState=0),
    )
)
fault("partitions_have_leaders", "warning", says="broker 2, which led last by the", sound=sound)(
    cluster(*HALF, change(isr=[2], leader=2), change(isr=[], leader=-1))
)
"""Neither ISR nor ELR names anybody: only the history does."""
fault("replicas_registered", "info", says="Broker 2 is not registered", sound=sound)(
    cluster(level(20), broker(1, FIRST + 1))
)


def with_disks(number: int, *disks: str, fenced: bool = False, stopping: bool = False) -> bytes:
    """A broker that registers its log directories."""
    return value(
        "REGISTER_BROKER_RECORD", 3, brokerId=number, incarnationId=uuid(number),
        brokerEpoch=FIRST + number, endPoints=[], features=supports(20), rack=None, fenced=fenced,
        inControlledShutdown=stopping, isMigratingZkBroker=False, logDirs=list(disks),
    )  # fmt: skip


ON_DISKS = (level(20), with_disks(1, uuid(101)), with_disks(2, uuid(102), uuid(103)))
"""Broker 2 has two."""
HALF_OFFLINE = (*ON_DISKS[:2], with_disks(2, uuid(102)))
"""The second has failed."""


def placed(*disks: str, **fields: Any) -> bytes:
    """A change of the partition of topic a: the directories of its replicas."""
    data = {"partitionId": 0, "topicId": uuid(1), **KEEP, "directories": list(disks), **fields}
    return value("PARTITION_CHANGE_RECORD", 1, **data)


OFFLINE = "replica_directories_registered"
fault(
    OFFLINE, "warning", sound=cluster(*ON_DISKS, placed(uuid(101), uuid(103), isr=[1], leader=1)),
    says="register the log directory of 1 partition of which it is a replica (AAAAAAAAAAAAAAAAAAAAZw)",
)(cluster(*HALF_OFFLINE, placed(uuid(101), uuid(103), isr=[1], leader=1)))  # fmt: skip
fault(
    OFFLINE, "warning", sound=cluster(*HALF_OFFLINE, placed(uuid(101), uuid(1))),
    says="1 of these has one replica in sync left: while its broker is down, nobody reads or writes",
)(cluster(*HALF_OFFLINE, placed(uuid(101), uuid(2), isr=[1], leader=1)))  # fmt: skip
"""A directory that is not assigned yet is no fault; one that was lost is."""
fault(
    OFFLINE, "warning",
    sound=cluster(*ON_DISKS, placed(uuid(101), uuid(103), isr=[1], leader=1)),
    says="Broker 2 is in a controlled shutdown, and does not register the log directory",
)(
    cluster(
        *ON_DISKS[:2], with_disks(2, uuid(102), stopping=True),
        placed(uuid(101), uuid(103), isr=[1], leader=1),
    )
)  # fmt: skip
fault(
    OFFLINE, "warning",
    sound=cluster(*ON_DISKS[:2], with_disks(2, uuid(102), fenced=True), placed(uuid(101), uuid(103))),
    says="No other replica is in sync of a-0: what is there is on that disk alone, and is lost where",
)(cluster(*HALF_OFFLINE, placed(uuid(101), uuid(103), isr=[2], leader=-1)))  # fmt: skip
fault(
    OFFLINE, "warning", sound=cluster(*ON_DISKS, placed(uuid(101), uuid(103), isr=[], leader=-1)),
    says="No other replica is in sync of a-0: what is there is on that disk alone, and is lost where",
)(cluster(*HALF_OFFLINE, placed(uuid(103), replicas=[2], isr=[], leader=-1)))  # fmt: skip
"""A broker that comes back after a crash leaves the ELR: then nobody is in sync at all."""
fault("brokers_unfenced", "warning", says="Broker 2 is fenced", sound=sound)(cluster(*HALF))
fault(
    "brokers_unfenced", "warning", says="metadata.version 6 records no controlled shutdown: it",
    sound=cluster(level(6), *RUNNING[1:]),
)(cluster(level(6), *HALF[1:]))  # fmt: skip
fault(
    "partitions_numbered", "warning", says="number: b (1 up to number 1).",
    sound=cluster(*RUNNING, partition(1, [1, 2], 1), partition(0, [1, 2], 1)),
)(cluster(*RUNNING, partition(1, [1, 2], 1)))  # fmt: skip
fault(
    "acls_distinct", "warning", says="ACL ALLOW User:ann READ on TOPIC LITERAL b from * (",
    sound=cluster(acl(50, "b"), acl(51, "b", "User:ben")),
)(cluster(acl(50, "b"), acl(51, "b"), acl(52, "b", "User:ben")))  # fmt: skip
fault("replication_single", "info", says="b-0", sound=sound)(
    cluster(*RUNNING, partition(0, [1], 1))
)
fault("replication_spread", "info", says="a-0", sound=sound)(
    cluster(
        level(20),
        broker(1, FIRST + 1, rack="r0"),
        broker(2, FIRST + 2, rack="r0"),
        broker(3, FIRST + 3, rack="r1"),
    )
)
fault("leaders_balanced", "info", says="24 of the 25 partitions", sound=sound)(
    cluster(*RUNNING, *(partition(number, [1, 2], 2) for number in range(24)))
)
fault(
    "leaders_balanced", "info", says="24 of the 25 partitions",
    sound=cluster(*RUNNING, *(partition(number, [1, 2], 2, [2]) for number in range(24))),
)(cluster(*RUNNING, *(partition(number, [1, 2], 2) for number in range(24))))  # fmt: skip
"""Who is not in sync cannot be made leader."""
fault("controllers_are_voters", "warning", says="Controller 9 is registered", sound=sound)(
    cluster(*RUNNING, controller(1), controller(9, 15))
)
fault("controllers_are_voters", "warning", says="Controller 9 is", sound=sound)(
    cluster(level(15), *RUNNING[1:], controller(8, 17), controller(9, 17), controller(10, 15))
)
"""Each of several ghosts blocks, whichever supports least."""
fault(
    "controllers_are_voters", "info", says="Unregister it with Admin.unregisterController, if it",
    sound=sound,
)(cluster(level(33), *RUNNING[1:], controller(9, 33)))  # fmt: skip


def of_topic(topic: str, name: str, text: str) -> bytes:
    """A config of a topic."""
    return value("CONFIG_RECORD", resourceType=2, resourceName=topic, name=name, value=text)


fault(
    "topic_configs_taken", "warning", says="a: retention.ms=-2. No broker starts with that,",
    sound=cluster(*RUNNING, of_topic("a", "retention.ms", "-1"), of_topic("gone", "flush.ms", "x")),
)(cluster(*RUNNING, of_topic("a", "retention.ms", "-2")))  # fmt: skip
fault(
    "topic_configs_taken", "warning", sound=cluster(level(20)),
    says="a: flush.ms=x. No broker starts with that, whoever holds the partitions. Set it anew with "
    "kafka-configs before any broker restarts.",
)(cluster(level(20), of_topic("a", "flush.ms", "x")))  # fmt: skip
"""No broker is registered."""
fault(
    "topic_configs_taken", "info", sound=cluster(*RUNNING, of_topic("a", "segment.bytes", "1048576")),
    says="No broker of Kafka 4.1 or newer starts with that, whoever holds the partitions. Set it anew "
    "with kafka-configs before any broker is upgraded.",
)(cluster(*RUNNING, of_topic("a", "segment.bytes", "1048575")))  # fmt: skip
fault(
    "topic_configs_taken", "warning", says="before any broker restarts.",
    sound=cluster(level(20), broker(1, FIRST + 1, highest=27)),
)(cluster(level(20), broker(1, FIRST + 1, highest=27), of_topic("a", "segment.bytes", "14")))  # fmt: skip
for _name, _value, _taken in (
    ("cleanup.policy", "compact,", " compact , delete"),
    ("compression.type", "none", "uncompressed"),
    ("min.cleanable.dirty.ratio", "1.1", "1e-1"),
    ("preallocate", "no", "TRUE"),
    ("leader.replication.throttled.replicas", "0", "0:1,1:2"),
):
    fault(
        "topic_configs_taken", "warning", says=f"a: {_name}={_value}. No broker starts with that,",
        sound=cluster(*RUNNING, of_topic("a", _name, _taken)),
    )(cluster(*RUNNING, of_topic("a", _name, _value)))  # fmt: skip
fault("features_recorded", "warning", says="upgrade --feature metadata.version=19.", sound=sound)(
    cluster(broker(1, FIRST), broker(2, FIRST + 1, highest=19))
)
fault("features_recorded", "warning", says="no node of Kafka 4 goes on with that", sound=sound)(
    cluster(broker(1, FIRST, highest=21), broker(2, FIRST + 1, highest=22))
)
fault("features_upgradable", "info", says="kafka-features upgrade", sound=sound)(
    cluster(level(15), *RUNNING[1:])
)
fault("features_upgradable", "info", says="broker 2 (18)", sound=sound)(
    cluster(level(18), broker(1, FIRST + 1), broker(2, FIRST + 2, highest=18))
)
fault("features_upgradable", "warning", says="refuses to start", sound=sound)(
    cluster(level(25), *RUNNING[1:])
)
fault("features_upgradable", "warning", says="is 3, but these nodes do not", sound=sound)(
    cluster(level(3), broker(1, FIRST + 1, lowest=7), *RUNNING[2:])
)
fault("features_upgradable", "warning", says="share.version is 1, but", sound=sound)(
    cluster(*RUNNING, level(1, "share.version"))
)
fault("record_replays", "warning", says="kraft.version to level -1", sound=sound)(
    cluster(*RUNNING, level(-1, "kraft.version"))
)
fault(
    "record_replays", "warning", sound=cluster(*ON_DISKS, level(17)),
    says="from 20 to 16, at which Kafka cannot write what the state holds: logDirs needs",
)(cluster(*ON_DISKS, level(16)))  # fmt: skip


def voters(
    base: int, *numbers: int, ms: int = LATER, listeners: tuple[str, ...] = ("CONTROLLER",)
) -> Batch:
    spec = spec_of("KRAFT_VOTERS")
    assert spec is not None
    members = [
        {
            "voterId": number,
            "voterDirectoryId": disk_text(number),
            "endpoints": [{"name": one, "host": "localhost", "port": 9093} for one in listeners],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }
        for number in numbers
    ]
    record = control_record(spec, {"version": 0, "voters": members})
    assert record.key is not None
    assert record.value is not None
    return Batch(base, 2, (record.value,), (record.key,), ms)


def on_its_disks(nodes: list[Node]) -> None:
    """A voter set that names the disks which are there."""
    for node in nodes:
        node.append(voters(FIRST, 1, 2, 3))


@fault("voter_directories_agree", "warning", "2", says="2 of 3 voters are left", sound=on_its_disks)
def _(nodes: list[Node]) -> None:
    on_another_disk(nodes)


@fault(
    "voter_directories_agree", "warning", "2", says="it holds another history than the voters",
    sound=on_its_disks,
    also="committed_data_consistent log_matching single_leader_per_epoch voter_holds_committed_data",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The node was formatted anew as a quorum of its own, and leads it: it is not to start as it is."""
    on_another_disk(nodes)
    begun = leader_change(0, 1, 2, START_MS), voters_batch(1, 1, 2, ms=START_MS, disks=97)
    shutil.rmtree(nodes[1].folder)
    nodes[1].folder.mkdir()
    log = [*begun, Batch(2, 1, (topic("z", 9),), None, START_MS + 1)]
    nodes[1].segment(0).write_bytes(b"".join(one.raw() for one in log))
    nodes[1].epochs([(1, 0)])
    nodes[1].quorum_state(leaderId=2, leaderEpoch=1, data_version=1)


def formatted_anew(nodes: list[Node], voters_now: tuple[int, ...] = (1, 2, 3)) -> None:
    """All controllers were formatted for a voter set of their new disks, or for none; a broker alone
    holds the log.
    """
    broker = Node(nodes[0].home.parent, 8)
    broker.write(healthy_log())
    on_its_disks([broker])
    broker.meta()
    begun = snapshot([], 0, LATER, voters=voters_now, disks=10)
    for node in nodes:
        shutil.rmtree(node.folder)
        node.folder.mkdir()
        node.segment(0).write_bytes(b"")
        node.checkpoint(0, 0).write_bytes(begun)
        node.quorum_state(leaderId=-1, leaderEpoch=0, data_version=1)
        node.meta(directory=10 + node.node_id)


@fault(
    "voter_holds_committed_data", "critical", "1", 0, also="voter_holds_committed_data",
    says="would elect it all the same, by the voter set of its own disk",
    sound=lambda nodes: formatted_anew(nodes, ()),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    formatted_anew(nodes)


@fault("node_identity_unique", "critical", "3", says="that of voter 3", sound=on_its_disks)
def _(nodes: list[Node]) -> None:
    on_its_disks(nodes)
    nodes[2].meta(node_id=1, directory=3)


@fault(
    "node_identity_unique", "critical", "2", sound=on_its_disks,
    says="If only directory.id was edited, put directory.id=AAAAAAAAAAAAAAAAAAAAZg back",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Two voters have each other's directory id: with another node.id Kafka 4.3.1 does not start."""
    on_its_disks(nodes)
    nodes[1].meta(directory=3)
    nodes[2].meta(directory=2)


@fault(
    "node_identity_unique", "critical", "1", sound=on_its_disks,
    says="only directory.id was edited, put directory.id=AAAAAAAAAAAAAAAAAAAAZQ back: by that one node 1 votes",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """One voter has another one's directory id."""
    on_its_disks(nodes)
    nodes[0].meta(directory=3)


@fault(
    "node_identity_unique", "critical", "3", also="voters_present", sound=on_its_disks,
    says="It holds no log: as voter 3 it would elect a leader that lacks committed records",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A new node was given a copy of the meta.properties of voter 3."""
    on_its_disks(nodes)
    shutil.rmtree(nodes[2].folder)
    nodes[2].folder.mkdir()
    nodes[2].meta(node_id=4, directory=3)


@fault(
    "node_identity_unique", "critical", "8", sound=on_its_disks,
    says="Folders 8 and 2 have one directory, AAAAAAAAAAAAAAAAAAAAZg, and name two nodes, 8 and 2",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A voter's disk was cloned, and the clone is ahead of the copy of the voter."""
    on_its_disks(nodes)
    clone = Node(nodes[0].home.parent, 8)
    clone.write(healthy_log())
    clone.append(voters(FIRST, 1, 2, 3), Batch(FIRST + 1, 2, (NO_OP,), None, LATER))
    clone.meta(directory=2)


def with_an_old_disk(nodes: list[Node]) -> Node:
    """Node 2 has another disk, without a vote, which ends before that of the voter."""
    on_its_disks(nodes)
    other = Node(nodes[0].home.parent, 8)
    other.write(healthy_log())
    other.meta(node_id=2, directory=8)
    return other


@fault(
    "node_identity_unique", "warning", "2", says="are two disks of node 2", sound=with_an_old_disk
)
def _(nodes: list[Node]) -> None:
    other = with_an_old_disk(nodes)
    other.append(voters(FIRST, 1, 2, 3))
    for node in (nodes[0], nodes[2], other):
        node.append(Batch(FIRST + 1, 2, (NO_OP,), None, LATER))


@fault(
    "node_identity_unique", "warning", "2", also="voter_holds_committed_data committed_data_consistent",
    says="put the log folder of replica 1 in the place of its own", sound=with_an_old_disk,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Two of three were moved to new disks, and their old ones elect one that lacks the rest."""
    on_its_disks(nodes)
    nodes[0].append(Batch(FIRST + 1, 2, (NO_OP,), None, LATER))
    for number, old in ((8, nodes[1]), (9, nodes[2])):
        other = Node(nodes[0].home.parent, number)
        other.write(healthy_log())
        other.append(voters(FIRST, 1, 2, 3), Batch(FIRST + 1, 2, (NO_OP,), None, LATER))
        other.meta(node_id=old.node_id, directory=number)


def with_both_disks(nodes: list[Node], directories: str) -> None:
    """Node 2 has another disk, and these are its log.dirs."""
    other = with_an_old_disk(nodes)
    for node in (nodes[1], other):
        (node.home / "server.properties").write_text(f"node.id=2\nlog.dirs={directories}\n")


@fault(
    "node_identity_unique", "warning", "8", says="each with a metadata log, and its server.properties names 2 directories",
    sound=lambda nodes: with_both_disks(nodes, "/data/0"),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka takes a metadata log in one of them only."""
    with_both_disks(nodes, "/data/0,/data/1")


@fault(
    "voter_directories_agree", "warning", "2", says="once it starts with this disk",
    sound=on_its_disks,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    on_its_disks(nodes)
    without_directory(nodes[1])


@fault(
    "voter_directories_agree", "warning", "2",
    says="It holds no log, so do not write the old one into the file",
    sound=on_its_disks,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    on_its_disks(nodes)
    without_directory(nodes[1])
    shutil.rmtree(nodes[1].folder)
    nodes[1].folder.mkdir()


@fault(
    "voter_directories_agree", "warning", "2", says="put directory.id=AAAAAAAAAAAAAAAAAAAAZg back",
    sound=on_its_disks,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """kafka-storage format wrote a lost meta.properties anew: the log is that of the voter."""
    on_another_disk(nodes)


@fault(
    "meta_properties_valid", "warning", "2", also="voters_present",
    says="with the old directory.id, or the node has no vote: AAAAAAAAAAAAAAAAAAAAZg of node 2",
    sound=on_its_disks,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    on_its_disks(nodes)
    (nodes[1].home / "meta.properties").unlink()


@fault(
    "meta_properties_valid", "warning", "2", also="voters_present",
    says="This copy holds no log. A voter's new disk must not get the old directory.id",
    sound=on_its_disks,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A voter with its old directory.id and without its log votes for anybody (Kafka 4.3.1)."""
    on_its_disks(nodes)
    shutil.rmtree(nodes[1].home)
    nodes[1].folder.mkdir(parents=True)


def without_directory(node: Node) -> None:
    path = node.home / "meta.properties"
    path.write_text(path.read_text().partition("directory.id")[0])


@fault(
    "quorum_state_present", "info", "2", says="names another disk of this node",
    sound=lambda nodes: on_another_disk(nodes), also="voter_directories_agree",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    on_another_disk(nodes)
    (nodes[1].folder / "quorum-state").unlink()


def on_another_disk(nodes: list[Node]) -> None:
    """The voter set names another disk of node 2 than it has."""
    on_its_disks(nodes)
    path = nodes[1].home / "meta.properties"
    path.write_text(path.read_text().replace(disk_text(2), disk_text(99)))


def registered_at(port: int) -> Damage:
    def damage(nodes: list[Node]) -> None:
        on_its_disks(nodes)
        for node in nodes:
            node.append(Batch(FIRST + 1, 2, (level(20), controller(1, port=port)), None, LATER))

    return damage


fault(
    "voter_endpoints_agree",
    "warning",
    says="localhost:9999 by its own registration",
    sound=registered_at(9093),
)(registered_at(9999))


def folder(number: int, name: str, node: int = 0, brokers: tuple[bytes, ...] = RUNNING) -> Damage:
    def damage(nodes: list[Node]) -> None:
        everywhere(nodes, *brokers)
        path = nodes[node].home / "data" / name
        path.mkdir(parents=True)
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid(number)}\n")

    return damage


STRAY = "folders_match_topics"
fault(STRAY, "info", "1", says="may just be deleting it", sound=folder(1, "a-0"))(folder(9, "a-0"))
fault(
    STRAY, "warning", "2", says="no record that leads there deletes it", sound=folder(1, "a-0", 1),
    also="brokers_unfenced",
)(folder(9, "a-0", 1, HALF))  # fmt: skip


HALF_OF_3_6 = (level(14), broker(1, FIRST + 1), broker(2, FIRST + 2, fenced=True, highest=14))
fault(
    STRAY, "warning", "2", says="Kafka before 3.7 deletes it, and a newer one renames it to -stray",
    sound=folder(1, "a-0", 1), also="brokers_unfenced",
)(folder(9, "a-0", 1, HALF_OF_3_6))  # fmt: skip


def on_zookeeper(version: str) -> Damage:
    """A broker that has not migrated, and has a topic there; the log holds none any more."""

    def damage(nodes: list[Node]) -> None:
        everywhere(nodes, *(value("REMOVE_TOPIC_RECORD", topicId=uuid(one)) for one in (1, 2, 3)))
        home = nodes[0].home.parent / "9"
        (home / "data" / "old-0").mkdir(parents=True)
        (home / "data" / "old-0" / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {uuid(9)}\n"
        )
        (home / "meta.properties").write_text(version + "cluster.id=" + CLUSTER + "\n")

    return damage


fault(
    STRAY, "info", "9", says="Do not start it with process.roles before",
    also="file_readable",
)(on_zookeeper("version=0\nbroker.id=9\n"))  # fmt: skip
fault(
    STRAY, "warning", "9", says="no record that leads there deletes it", also="file_readable",
)(on_zookeeper("version=1\nnode.id=9\n"))  # fmt: skip
fault(
    "file_readable", "info", "9", says="It was set up as a broker on ZooKeeper",
    also="folders_match_topics",
)(on_zookeeper("version=0\nbroker.id=9\n"))  # fmt: skip


def instead(old: str, new: str) -> Damage:
    """A SCRAM user comes in the place of the only one."""
    return appended(*RUNNING, scram(old), scram(new), remove_scram(old))


fault(
    "scram_users_outlive_restart", "warning", says="loses SCRAM user bob (SCRAM-SHA-256)",
    sound=instead("bob", "ann"),
)(instead("ann", "bob"))  # fmt: skip
