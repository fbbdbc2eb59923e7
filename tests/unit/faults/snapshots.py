"""Damages to checkpoint files."""

import os
import shutil
import struct
import zlib
from dataclasses import replace
from pathlib import Path

from tests.unit.audit_logs import (
    NO_OP,
    START_MS,
    TRANSACTION,
    Batch,
    Node,
    feature,
    frame,
    healthy_log,
    healthy_state,
    overwrite,
    partition,
    producer_ids,
    register_broker,
    remove_topic,
    replace_batch,
    snapshot,
    topic,
    unregister_broker,
    voters_batch,
)
from tests.unit.faults.table import LATER, Damage, everywhere, fault

STORED = [healthy_log()[1], healthy_log()[3]]
HEADER = Batch(0, 1, (struct.pack(">hq", 0, START_MS + 3000) + b"\0",), (struct.pack(">hh", 0, 3),))
FIRST = len(HEADER.raw())
"""Where the first batch after the header begins in the snapshots of `quorum`."""


@fault("batch_header_valid", "critical", "1", position=FIRST,
       says="3 records and has offsets for 2",
       also="record_decodes snapshot_equals_replay snapshots_agree")  # fmt: skip
def _(nodes: list[Node]) -> None:
    path = nodes[0].checkpoint(6, 1)
    stored = Batch(1, 1, STORED[0].values, None, START_MS + 3000)
    wrong = replace(stored, count=3).raw()
    path.write_bytes(path.read_bytes().replace(stored.raw(), wrong))


@fault(
    "batch_header_valid", "critical", "1",
    says="A batch in 00000000000000000006-0000000001.checkpoint holds no record, and Kafka takes none",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Its header agrees with itself. Kafka 4.3.1 and 4.4.0: "Batch must contain at least one record"."""
    empty = Batch(0, 1, (), None, START_MS)
    nodes[0].checkpoint(6, 1).write_bytes(snapshot([*STORED, empty], 1, START_MS + 3000))


@fault(
    "batch_header_valid", "critical", "1", position=FIRST, says="its CRC proves the records whole"
)
def _(nodes: list[Node]) -> None:
    overwrite(nodes[0].checkpoint(6, 1), FIRST + 8, struct.pack(">i", -1))


@fault("snapshot_header_first", "critical", "1", says="holds 2 SnapshotHeader records")
def _(nodes: list[Node]) -> None:
    path = nodes[0].checkpoint(6, 1)
    path.write_bytes(HEADER.raw() + path.read_bytes())


@fault("snapshot_name_valid", "warning", "1", says="its name is not that of a snapshot")
def _(nodes: list[Node]) -> None:
    (nodes[0].folder / "backup.checkpoint").write_bytes(b"")


@fault(
    "snapshot_name_valid", "warning", "1", says="backup.checkpoint.part ends in .checkpoint.part",
    sound=lambda nodes: (nodes[0].folder / "backup.part").touch(),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    (nodes[0].folder / "backup.checkpoint.part").touch()


@fault(
    "snapshot_name_valid", "warning", "1", says=f"takes it for the snapshot {6:020d}-0000000001:"
)
def _(nodes: list[Node]) -> None:
    path = nodes[0].checkpoint(6, 1)
    path.with_stem(f"{path.stem}-copy").write_bytes(path.read_bytes())


@fault(
    "snapshot_name_valid", "warning", "1", says=f"It lies beside {6:020d}-0000000001.checkpoint:"
)
def _(nodes: list[Node]) -> None:
    """To rename it would put it in the place of the one that Kafka loads."""
    path = nodes[0].checkpoint(6, 1)
    path.with_name(f"{6:020d}-1.checkpoint").write_bytes(path.read_bytes())


@fault(
    "snapshot_name_valid", "critical", "1", says=f"the newest snapshot, {13:020d}-0000000002, does"
)
def _(nodes: list[Node]) -> None:
    """Kafka throws the log away for it."""
    (nodes[0].folder / f"{13:020d}-0000000002 (copy).checkpoint").touch()


@fault("snapshot_name_valid", "critical", "1", says="takes it for the newest snapshot",
       also="log_start_covered")  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The log begins above offset 0, so that Kafka needs one."""
    nodes[0].segment(0).unlink()
    path = nodes[0].checkpoint(6, 1)
    path.rename(path.with_suffix(".bad.checkpoint"))


@fault("file_readable", "warning", "1", says="Kafka fails over it, and",
       sound=lambda nodes: nodes[0].checkpoint(7, 1).with_suffix(".part").mkdir())  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A folder has the name of the newest snapshot."""
    nodes[0].checkpoint(7, 1).mkdir()


@fault("file_readable", "warning", "1", says="it is a folder")
def _(nodes: list[Node]) -> None:
    nodes[0].checkpoint(3, 1).mkdir()


def _grown(node: Node, size_bytes: int) -> None:
    """The snapshot goes on with a hole."""
    os.truncate(node.checkpoint(6, 1), size_bytes)


MIB_10, GIB_2 = 10 << 20, 1 << 31


@fault(
    "snapshot_too_large_to_fetch", "info", "1", says="more than the usual",
    also="snapshot_footer_last",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _grown(nodes[0], MIB_10 + 1)
    _grown(nodes[1], MIB_10)


@fault(
    "snapshot_too_large_to_fetch", "critical", "1", says="the node does not start with it",
    also="snapshot_footer_last",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    _grown(nodes[0], GIB_2)


@fault(
    "snapshot_too_large_to_fetch", "warning", "1", says="retention stops at it",
    also="snapshot_footer_last",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka opens an older snapshot only to ask its size."""
    nodes[0].checkpoint(9, 2).write_bytes(snapshot(STORED, 2, START_MS + 6000))
    _grown(nodes[0], GIB_2)


@fault("snapshot_too_large_to_fetch", "info", "2", says="2,147,483,647 bytes",
       also="snapshot_footer_last")  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The largest file that 32 bits count can still be opened."""
    _grown(nodes[1], GIB_2 - 1)


@fault("snapshot_timestamp_agrees", "warning", "1", 5, says="2023-11-14 22:13:23.001 UTC")
def _(nodes: list[Node]) -> None:
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(STORED, 1, START_MS + 3001))


@fault("snapshot_timestamp_agrees", "info", "1", 5, says="the time of offset 7, which the leader")
def _(nodes: list[Node]) -> None:
    """A leader of Kafka may take the time of a batch that it has not committed yet (KAFKA-20913)."""
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(STORED, 1, START_MS + 5000))


@fault("snapshot_timestamp_agrees", "info", "1", 5, says=f"of a batch in snapshot {3:020d}-00000")
def _(nodes: list[Node]) -> None:
    """It wrote the end of the snapshot before by the same buffer."""
    footer = Batch(3, 1, (b"\0\0\0",), (struct.pack(">hh", 0, 4),), START_MS + 3001)
    before = snapshot([healthy_log()[1]], 1, START_MS + 1000, footer=False)
    nodes[0].checkpoint(3, 1).write_bytes(before + footer.raw())
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(STORED, 1, START_MS + 3001))


def _made_late(node: Node) -> None:
    """A snapshot's header that was written half a second after the time that it tells."""
    header = struct.pack(">hq", 0, START_MS + 3500) + b"\0"
    made = Batch(0, 1, (header,), (struct.pack(">hh", 0, 3),), START_MS + 4000)
    whole = snapshot(STORED, 1, START_MS + 4000)
    node.checkpoint(6, 1).write_bytes(made.raw() + whole[len(made.raw()) :])


@fault("snapshot_timestamp_agrees", "info", "1", 5, says="The node led then")
def _(nodes: list[Node]) -> None:
    """What else the leader had in that buffer it never wrote, or has dropped since."""
    _made_late(nodes[0])


@fault("snapshot_timestamp_agrees", "warning", "2", 5, says="the file may have been changed")
def _(nodes: list[Node]) -> None:
    """Who follows reads the time from its log."""
    _made_late(nodes[1])


@fault("snapshot_timestamp_agrees", "warning", "1", 5, says="the file may have been changed")
def _(nodes: list[Node]) -> None:
    """The next epoch has another leader."""
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(STORED, 1, START_MS + 6000))


@fault("snapshot_leftover", "info", "1", says="a deleted snapshot")
def _(nodes: list[Node]) -> None:
    path = nodes[0].checkpoint(6, 1)
    path.with_name(f"{3:020d}-{1:010d}.checkpoint.deleted").write_bytes(path.read_bytes())


@fault("snapshot_leftover", "info", "1", says="2 deleted snapshots")
def _(nodes: list[Node]) -> None:
    path = nodes[0].checkpoint(6, 1)
    for end in (2, 3):
        path.with_name(f"{end:020d}-{1:010d}.checkpoint.deleted").write_bytes(path.read_bytes())


def _of_epoch(node: Node, epoch: int) -> None:
    """The snapshot's second data batch in an epoch of its own."""
    path = node.checkpoint(6, 1)
    stored = Batch(3, 1, STORED[1].values, None, START_MS + 3000)
    assert stored.raw() in path.read_bytes()
    wrong = replace(stored, epoch=epoch).raw()
    path.write_bytes(path.read_bytes().replace(stored.raw(), wrong))


@fault("snapshot_epoch_agrees", "critical", "1", says="epoch 1, but nothing comes before offset 0")
def _(nodes: list[Node]) -> None:
    nodes[0].checkpoint(6, 1).rename(nodes[0].checkpoint(0, 1))


@fault("snapshot_epoch_agrees", "critical", "1", says="a batch in it is of epoch 9")
def _(nodes: list[Node]) -> None:
    _of_epoch(nodes[0], 9)


@fault("snapshot_epoch_agrees", "critical", "1", says="says epoch 5, but its batches are of epoch 1",
       also="snapshot_within_committed snapshot_ahead_of_log")  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A snapshot ahead of all logs in a newer epoch than its own proves nothing to be committed."""
    held = nodes[0].checkpoint(6, 1)
    nodes[0].checkpoint(50, 5).write_bytes(held.read_bytes())


@fault("snapshot_headers_in_order", "info", "1", says="begins at 3 in epoch 2, where 3 in epoch 1",
       also="snapshot_epoch_agrees")  # fmt: skip
def _(nodes: list[Node]) -> None:
    _of_epoch(nodes[0], 2)


def _with_unknown(nodes: list[Node]) -> None:
    stored = [*STORED, Batch(0, 1, (b"\x01\xc0\x21\x00\x00",))]
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))


@fault("snapshot_record_allowed", "warning", "1", says="holds 1 REMOVE_TOPIC_RECORD",
       sound=_with_unknown, also="snapshot_equals_replay snapshots_agree")  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A change is no state; what nobody knows may be one."""
    stored = [*STORED, Batch(0, 1, (remove_topic(2),))]
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))


def _also(*values: bytes, newer: bool = False) -> Damage:
    """The first snapshot of replica 1 holds more records; with a `newer` one its start begins there."""

    def damage(nodes: list[Node]) -> None:
        raw = snapshot([*STORED, Batch(0, 1, values)], 1, START_MS + 3000)
        nodes[0].checkpoint(6, 1).write_bytes(raw)
        if newer:
            raw = snapshot(healthy_state(), 2, healthy_log()[-1].ms)
            nodes[0].checkpoint(12, 2).write_bytes(raw)

    return damage


ALLOWED = "snapshot_record_allowed"
ORPHAN = "Kafka does not load snapshot 00000000000000000006-0000000001.checkpoint, and throws at its record 5 (PARTITION_RECORD): there is no topic AAAAAAAAAAAAAAAAAAAACQ."
fault(
    ALLOWED, "critical", "1", says=f"{ORPHAN} A start begins with this file.",
)(_also(partition(9, [1], [1], 1)))  # fmt: skip
fault(ALLOWED, "warning", "1", says=f"{ORPHAN} No Kafka writes such a file.")(
    _also(partition(9, [1], [1], 1), newer=True)
)
fault(
    ALLOWED, "critical", "1", says="(PARTITION_RECORD): there is no topic AAAAAAAAAAAAAAAAAAAACQ. So it is with 1 other record.",
    also="snapshot_equals_replay snapshots_agree",
)(_also(partition(9, [1], [1], 1), topic("d", 9), topic("d", 9)))  # fmt: skip
"""A topic behind its partition; what stops all nodes is told before what stops controllers."""
fault(
    ALLOWED, "critical", "1", says="(FEATURE_LEVEL_RECORD): metadata.version 0 cannot be",
)(_also(feature("metadata.version", 0)))  # fmt: skip
fault(
    ALLOWED, "critical", "1", says=f"A controller does not load snapshot {6:020d}-{1:010d}.checkpoint, and throws at its record 5 (TOPIC_RECORD): there is a topic b",
)(_also(topic("b", 2)))  # fmt: skip
fault(
    ALLOWED, "critical", "1", says="(PRODUCER_IDS_RECORD): the next producer id is 1000 once more",
    sound=_also(partition(1, [1, 2], [1, 2], 1)),
)(_also(producer_ids(1000)))  # fmt: skip
"""Of what stands there twice, Kafka 3.9.1 and 4.3.1 stop at a topic and at producer ids alone."""
fault(
    ALLOWED, "critical", "1", says="(UNREGISTER_BROKER_RECORD): it removes broker 7, which does not exist there",
)(_also(unregister_broker(7, 1)))  # fmt: skip
fault(
    ALLOWED, "critical", "1", says="(BEGIN_TRANSACTION_RECORD): no transaction can be in a snapshot",
)(_also(TRANSACTION["begin"], TRANSACTION["end"]))  # fmt: skip


@fault(ALLOWED, "critical", "1", says="throws at its record 1 (BEGIN_TRANSACTION_RECORD): no trans")
def _(nodes: list[Node]) -> None:
    """It hides nothing of what follows: the state is the same."""
    begin = Batch(0, 1, (TRANSACTION["begin"],))
    nodes[0].checkpoint(6, 1).write_bytes(snapshot([begin, *STORED], 1, START_MS + 3000))


fault(
    ALLOWED, "critical", "1", says="is that of broker 7 and that of broker 8",
    also="snapshot_equals_replay snapshots_agree",
)(_also(register_broker(7, 1, directories=[5]), register_broker(8, 2, directories=[5])))  # fmt: skip


@fault(ALLOWED, "critical", "2", says="Take the file of the same name from replica 3.")
def _(nodes: list[Node]) -> None:
    """A file that no node can load is no cure for another one."""
    raw = snapshot([*STORED, Batch(0, 1, (partition(9, [1], [1], 1),))], 1, START_MS + 3000)
    for node in nodes[:2]:
        node.checkpoint(6, 1).write_bytes(raw)


def _part(node: Node) -> Path:
    """A snapshot that was never finished: the first half of the whole one."""
    whole = node.checkpoint(6, 1).read_bytes()
    path = node.checkpoint(9, 2).with_suffix(".checkpoint.part")
    path.write_bytes(snapshot([STORED[0], STORED[1], STORED[0]], 2, START_MS)[: len(whole) + 20])
    return path


def _unfinished(nodes: list[Node]) -> None:
    _part(nodes[0])


@fault("batch_crc_valid", "warning", "1", position=FIRST, says="No node loads this file",
       sound=_unfinished)  # fmt: skip
def _(nodes: list[Node]) -> None:
    overwrite(_part(nodes[0]), FIRST + 70, b"\xee")


@fault("batch_header_valid", "warning", "1", position=0, says="No node loads this file",
       sound=_unfinished)  # fmt: skip
def _(nodes: list[Node]) -> None:
    overwrite(_part(nodes[0]), 16, b"\x01")


@fault("batch_header_valid", "warning", "1", says="without a record batch", sound=_unfinished)
def _(nodes: list[Node]) -> None:
    """An end that cannot be the beginning of a batch."""
    path = _part(nodes[0])
    path.write_bytes(path.read_bytes()[:FIRST] + b"\xee" * 300)


@fault("snapshot_headers_in_order", "info", "1", says="is due", sound=_unfinished)
def _(nodes: list[Node]) -> None:
    overwrite(_part(nodes[0]), FIRST + 12, struct.pack(">i", 1))


@fault("batch_crc_valid", "warning", "1", says="No node loads this file")
def _(nodes: list[Node]) -> None:
    """A deleted snapshot that still waits to be removed is whole."""
    path = nodes[0].checkpoint(6, 1)
    overwrite(path.rename(path.with_suffix(".checkpoint.deleted")), FIRST + 70, b"\xee")


# --- how often ---------------------------------------------------------------------------------

MINUTE, DAY = 60_000, 1440
"""A minute without a record is the longest step of a running leader."""


def _running(nodes: list[Node], minutes: int, first: int = 12) -> None:
    """A no-op a minute, on all nodes."""
    begun = START_MS + 9000
    for node in nodes:
        node.append(
            *(
                Batch(first + minute, 2, (NO_OP,), None, begun + (minute + 1) * MINUTE)
                for minute in range(minutes)
            )
        )


def _a_day(nodes: list[Node]) -> None:
    """From the snapshot's end at offset 6 on the log runs for 5 seconds, a minute, and these: a day
    is not passed.
    """
    _running(nodes, DAY - 1)


@fault(
    "snapshot_taken",
    "warning",
    "2",
    6,
    says="24.0 hours in which its log was written",
    sound=_a_day,
)
def _(nodes: list[Node]) -> None:
    _running(nodes, DAY)


@fault("snapshot_taken", "warning", "1", 0, says="since its log began")
def _(nodes: list[Node]) -> None:
    _running(nodes, DAY)
    for node in nodes:
        node.checkpoint(6, 1).unlink()


def _snapshots(node: Node, ends: dict[int, int]) -> None:
    """Snapshots at offsets with the times of the last record in each."""
    stored = [*STORED, healthy_log()[8]]
    for end, ms in ends.items():
        epoch = 1 if end <= 8 else 2
        held = STORED if end < 11 else stored
        node.checkpoint(end, epoch).write_bytes(snapshot(held, epoch, ms))


def _three(nodes: list[Node]) -> None:
    _snapshots(nodes[0], {end: START_MS + 1000 * (end - 3) for end in (7, 8)})


@fault("snapshot_not_too_often", "info", "1", 6, says="3 of 4 follow", sound=_three)
def _(nodes: list[Node]) -> None:
    _three(nodes)
    _snapshots(nodes[0], {9: START_MS + 6000})


@fault("snapshot_times_in_order", "info", "1", 12, says="is later in the log than", also="")
def _(nodes: list[Node]) -> None:
    _snapshots(nodes[0], {12: START_MS + 2999})


@fault("snapshot_footer_last", "critical", "2", says="goes on after its SnapshotFooter record")
def _(nodes: list[Node]) -> None:
    """Its footer stands there twice."""
    path = nodes[1].checkpoint(6, 1)
    footer = Batch(7, 1, (b"\0\0\0",), (struct.pack(">hh", 0, 4),))
    path.write_bytes(path.read_bytes() + footer.raw())


def _of_dynamic_quorum(nodes: list[Node]) -> None:
    """A quorum whose log and snapshots name its voters."""
    for node in nodes:
        replace_batch(node, 3, lambda one: voters_batch(3, 1, 1, 2, 3, ms=one.ms).raw())
        raw = snapshot(STORED, 1, START_MS + 3000, voters=(1, 2, 3))
        node.checkpoint(6, 1).write_bytes(raw)


@fault(
    "snapshots_agree", "critical", "2", 6, says="voter 1 AAAAAAAAAAAAAAAAAAAAZQ is missing",
    also="snapshot_equals_replay", sound=_of_dynamic_quorum,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A node that loads it has no vote."""
    _of_dynamic_quorum(nodes)
    nodes[1].checkpoint(6, 1).write_bytes(snapshot(STORED, 1, START_MS + 3000))


def _with_voters_again(node: Node) -> None:
    path = node.checkpoint(6, 1)
    held = voters_batch(1, 1, 1, 2, 3, ms=START_MS + 3000).raw()
    path.write_bytes(path.read_bytes().replace(held, held + held))


@fault(
    "snapshot_record_allowed", "critical", "2", sound=_of_dynamic_quorum,
    says="it holds a second KRAFT_VOTERS record. A start begins with this file. No Kafka writes such a file. Take the file of the same name from replica 3.",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A file at which Kafka throws is no cure for another one."""
    _of_dynamic_quorum(nodes)
    for node in nodes[:2]:
        _with_voters_again(node)


@fault(
    "snapshot_record_allowed", "warning", "1", sound=_of_dynamic_quorum,
    says="a second KRAFT_VOTERS record. No Kafka writes such a file. Take",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Its node begins with a newer one."""
    _of_dynamic_quorum(nodes)
    _with_voters_again(nodes[0])
    newer = snapshot(healthy_state(), 2, START_MS + 9000, voters=(1, 2, 3))
    nodes[0].checkpoint(12, 2).write_bytes(newer)


def _delayed(nodes: list[Node], *held_by: int) -> None:
    """A record in a snapshot has a time of its own."""
    payload = b"".join(
        frame(index, None, value, delta=9 * index) for index, value in enumerate(STORED[0].values)
    )
    for number in held_by:
        path = nodes[number - 1].checkpoint(6, 1)
        stored = Batch(1, 1, STORED[0].values, None, START_MS + 3000)
        late = replace(stored, payload=payload).raw()
        path.write_bytes(path.read_bytes().replace(stored.raw(), late))


@fault("record_rules", "critical", "1", position=FIRST,
       says="begins with this file. Take the file of the same name from replicas 2 and 3.")  # fmt: skip
def _(nodes: list[Node]) -> None:
    _delayed(nodes, 1)


@fault("record_rules", "critical", "1", position=FIRST,
       says="A start begins with this file. No controller")  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The others have no better one of this name."""
    _delayed(nodes, 1, 2, 3)


def _packed(nodes: list[Node]) -> None:
    """One batch of a snapshot is compressed, with the same records."""
    path = nodes[0].checkpoint(6, 1)
    stored = Batch(1, 1, STORED[0].values, None, START_MS + 3000)
    plain = b"".join(frame(index, None, value) for index, value in enumerate(stored.values))
    packed = replace(stored, attributes=1, payload=zlib.compress(plain, wbits=31)).raw()
    path.write_bytes(path.read_bytes().replace(stored.raw(), packed))


fault("record_rules", "warning", "1", position=FIRST, says="1 of 4 batches in")(_packed)


def _begins_at_6(node: Node) -> None:
    node.segment(0).unlink()


def _cut_off(node: Node, end: int, epoch: int) -> None:
    node.checkpoint(end, epoch).write_bytes(snapshot(STORED, epoch, START_MS + 3000, footer=False))


@fault("snapshot_footer_last", "critical", "3", also="log_start_covered",
       says="Set it aside, and take 00000000000000000006-0000000001.checkpoint from replicas 1 and 2.")  # fmt: skip
def _incomplete(nodes: list[Node]) -> None:
    """An older snapshot would do that reaches the log's start: that at 3 does not."""
    _begins_at_6(nodes[2])
    nodes[2].checkpoint(6, 1).unlink()
    nodes[0].checkpoint(3, 1).write_bytes(snapshot(STORED[:1], 1, START_MS + 2000))
    _cut_off(nodes[2], 8, 1)


fault("log_start_covered", "critical", "3", also="snapshot_footer_last",
      says="set it aside. Take 00000000000000000006-0000000001.checkpoint from replicas 1 and 2.")(_incomplete)  # fmt: skip


@fault("snapshot_footer_last", "critical", "3",
       says="Set it aside: the node then begins with its 00000000000000000006-0000000001.checkpoint")  # fmt: skip
def _(nodes: list[Node]) -> None:
    _cut_off(nodes[2], 8, 1)


def _ends_at_6(node: Node) -> None:
    node.segment(6).unlink()
    node.epochs([(1, 0)])


@fault("snapshot_footer_last", "critical", "3",
       says="Without this file the voter would vote for who lacks offset 6, too, which is committed. Set its log folder aside, and start the node when")  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A voter forgets that it held what is committed, where it begins with its older snapshot."""
    _cut_off(nodes[2], 11, 2)
    _ends_at_6(nodes[2])


@fault("snapshot_footer_last", "critical", "3",
       says="put the log folder of replica 2 in the place of its own, with its own quorum-state in it",
       sound=lambda nodes: _ends_at_6(nodes[0]))  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka 4.1.1 began with the older one, elected a voter that lagged, and cut what a third one held."""
    _cut_off(nodes[2], 11, 2)
    for node in (nodes[0], nodes[2]):
        _ends_at_6(node)


@fault("snapshot_footer_last", "critical", "3",
       says="lacks offset 6, too, which its name tells to be committed. Do not empty its log folder: too few other")  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka 3.9.1 and 4.3.1 began with the older one, elected a voter that lagged, and cut what the
    third one held, which was not copied.
    """
    _cut_off(nodes[2], 11, 2)
    for node in (nodes[0], nodes[2]):
        _ends_at_6(node)
    shutil.rmtree(nodes[1].home)


@fault("snapshot_footer_last", "critical", "3",
       says="Set it aside: the log begins at offset 0, and needs no snapshot")  # fmt: skip
def _(nodes: list[Node]) -> None:
    nodes[2].checkpoint(6, 1).unlink()
    _cut_off(nodes[2], 8, 1)


@fault("snapshot_footer_last", "critical", "3", also="log_start_covered",
       says="No replica at hand has a sound one that reaches the log's start, at offset 6. Set its log folder")  # fmt: skip
def _(nodes: list[Node]) -> None:
    _begins_at_6(nodes[2])
    for node in nodes:
        node.checkpoint(6, 1).unlink()
    _cut_off(nodes[2], 8, 1)


def _another_state(node: Node) -> None:
    """A snapshot that is whole, of a topic by another name."""
    wrong = replace(STORED[0], values=(topic("z", 1), *STORED[0].values[1:]))
    node.checkpoint(6, 1).write_bytes(snapshot([wrong, STORED[1]], 1, START_MS + 3000))


@fault("snapshots_agree", "critical", "3", 6, also="log_start_covered",
       says="Nothing tells which of the two is right, and a node that loads the other one")  # fmt: skip
@fault("log_start_covered", "critical", "2", 0, also="snapshots_agree",
       says="No replica at hand has a sound one, or could give one. Do not empty its log")  # fmt: skip
def _(nodes: list[Node]) -> None:
    """One file of an id against another, where the logs do not reach back: neither is to be taken."""
    for node in nodes:
        _begins_at_6(node)
    nodes[1].checkpoint(6, 1).unlink()
    _another_state(nodes[0])


@fault("batch_crc_valid", "critical", "1", also="snapshot_equals_replay snapshots_agree",
       says="Take the file of the same name from replica 3.")  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Not from one that holds another state, either."""
    overwrite(nodes[0].checkpoint(6, 1), 150, b"\x55")
    _another_state(nodes[1])


@fault("snapshot_footer_last", "critical", "1", also="snapshot_equals_replay snapshots_agree",
       says="Replica 3 has the complete file")  # fmt: skip
def _(nodes: list[Node]) -> None:
    nodes[0].checkpoint(6, 1).write_bytes(snapshot(STORED, 1, START_MS + 3000, footer=False))
    _another_state(nodes[1])


@fault("log_start_covered", "critical", "1", 0, also="snapshot_equals_replay snapshots_agree",
       says="Take 00000000000000000006-0000000001.checkpoint from replica 3.")  # fmt: skip
def _(nodes: list[Node]) -> None:
    _begins_at_6(nodes[0])
    nodes[0].checkpoint(6, 1).unlink()
    _another_state(nodes[1])


@fault(
    "snapshot_batch_aligned",
    "critical",
    "3",
    13,
    says="No replica at hand has a sound one that reaches the log's start, at offset 6. Set its log folder",
)
def _(nodes: list[Node]) -> None:
    """Without it the node would not start."""
    everywhere(nodes, NO_OP, NO_OP)
    _begins_at_6(nodes[2])
    for node in nodes:
        node.checkpoint(6, 1).unlink()
    nodes[2].checkpoint(13, 2).write_bytes(snapshot(healthy_state(), 2, LATER))


def in_transaction(end: int, *last: bytes) -> Damage:
    """A transaction from offset 12 on, and a snapshot of voter 3 with this end."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            for offset, value in enumerate((TRANSACTION["begin"], NO_OP, *last), 12):
                node.append(Batch(offset, 2, (value,), None, LATER))
        nodes[2].checkpoint(end, 2).write_bytes(snapshot(healthy_state(), 2, LATER))

    return damage


for _last in ("end", "abort"):
    for _end, _sound in ((13, 12), (14, 15)):
        fault(
            "snapshot_batch_aligned", "critical", "3", _end,
            says="inside the metadata transaction of offsets 12 to 14 (log of 3)",
            sound=in_transaction(_sound, TRANSACTION[_last]),
        )(in_transaction(_end, TRANSACTION[_last]))  # fmt: skip
fault(
    "snapshot_batch_aligned", "critical", "3", 13,
    says="that is open from offset 12 on", sound=in_transaction(12),
)(in_transaction(13))  # fmt: skip


def _begins_with_the_last_batch(nodes: list[Node]) -> None:
    """Nobody has a snapshot, and voter 3 has only the batch at offset 13."""
    for node in nodes:
        node.checkpoint(6, 1).unlink()
    for base in (0, 6):
        nodes[2].segment(base).unlink()
    nodes[2].segment(13).write_bytes(Batch(13, 2, (NO_OP,), None, LATER).raw())
    nodes[2].epochs([(2, 13)])


@fault(
    "log_start_covered", "critical", "3", 0,
    says="No replica at hand has a sound one, or could give one. Set its log folder aside",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A snapshot may not end inside a metadata transaction."""
    for node in nodes:
        for offset, value in enumerate((TRANSACTION["begin"], NO_OP, TRANSACTION["end"]), 12):
            node.append(Batch(offset, 2, (value,), None, LATER))
    _begins_with_the_last_batch(nodes)


def _covered_on(*voters: int) -> Damage:
    """Every log begins at 6, and the snapshot that reaches there is left on some."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            _begins_at_6(node)
            if node.node_id not in voters:
                node.checkpoint(6, 1).rename(node.checkpoint(4, 1))

    return damage


fault(
    "log_start_covered", "critical", "3", 4,
    says="or could give one. Do not empty its log folder: too few other voters", sound=_covered_on(1, 2, 3),
)(_covered_on())  # fmt: skip


@fault(
    "log_start_covered", "critical", "3", 0, also="committed_data_consistent log_matching",
    says="No replica at hand has a sound one, or could give one. Set its log folder aside",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Nor inside a batch."""
    everywhere(nodes, NO_OP, NO_OP)
    _begins_with_the_last_batch(nodes)


def begins_at(start: int, *ends: tuple[int, int], usual: tuple[int, int] | None = None) -> Damage:
    """All logs begin at an offset of epoch 2: voter 1 has snapshots of these ids, all have the usual."""

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            for path in (node.segment(0), node.segment(6), node.checkpoint(6, 1)):
                path.unlink()
            kept = [one for one in healthy_log() if one.base >= start]
            node.segment(start).write_bytes(b"".join(one.raw() for one in kept))
            node.epochs([(2, start)])
            for end, epoch in (
                *(() if usual is None else (usual,)),
                *(ends if node is nodes[0] else ()),
            ):
                ms = max(one.ms for one in healthy_log() if one.end <= end)
                node.checkpoint(end, epoch).write_bytes(snapshot(STORED, epoch, ms))

    return damage


fault(
    "snapshot_epoch_agrees", "critical", "1", 7, sound=begins_at(8, usual=(8, 1)),
    says="epoch 2 begins only at offset 8 in the log of 1, with a LeaderChange. A node that starts from it would claim the wrong history. Set it aside: the node then begins",
)(begins_at(8, (8, 2), usual=(8, 1)))  # fmt: skip
fault(
    "snapshot_epoch_agrees", "critical", "1", 8, sound=begins_at(9, usual=(9, 2)),
    says="offset 9 is of epoch 2 in the log of 1, and no epoch begins there",
)(begins_at(9, (9, 1), usual=(9, 2)))  # fmt: skip
fault(
    "snapshot_epoch_agrees", "critical", "1", 9, also="log_start_covered",
    says="No other snapshot at hand reaches the start of its log: keep all folders",
)(begins_at(10, (10, 3)))  # fmt: skip
fault(
    "snapshot_epoch_agrees", "warning", "1", 3, sound=begins_at(10, (4, 1), usual=(10, 2)),
    says="offset 10 is still of epoch 2 in the log of 1. Kafka deletes it at its next start",
)(begins_at(10, (4, 3), usual=(10, 2)))  # fmt: skip
