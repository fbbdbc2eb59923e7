"""Damages to the segments and side files of one replica's log."""

import os
import shutil
import struct
import zlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from kraftlog.log.batch import HEADER
from kraftlog.log.segment import Limits
from tests.property.engines import sealed
from tests.unit.audit_logs import (
    HEADER_SIZE,
    NO_OP,
    NO_PRODUCERS,
    START_MS,
    TRANSACTION,
    Batch,
    Node,
    change_isr,
    feature,
    frame,
    healthy_log,
    kraft_voters,
    leader_change,
    overwrite,
    partition,
    replace_batch,
    snapshot,
    topic,
    voters_batch,
)
from tests.unit.faults.table import AT, END_POSITION, LATER, Damage, appended, everywhere, fault


@fault(
    "offsets_contiguous",
    "critical",
    "1",
    10,
    END_POSITION,
    "the log goes back. Files of two copies were mixed, or a header is damaged. Copy this replica again, as the node's own files may be right. If they are not: Replicas 2 and 3",
    sound=appended(NO_OP),
)
def _(nodes: list[Node]) -> None:
    """A batch of another copy; the one after it is in its place."""
    nodes[0].append(Batch(10, 2, (NO_OP,), None, LATER), Batch(12, 2, (NO_OP,), None, LATER))


@fault(
    "offsets_contiguous",
    "critical",
    "1",
    11,
    END_POSITION,
    "stands where offset 12 is due: the log goes back",
)
def _(nodes: list[Node]) -> None:
    """The last offset twice, in a batch that reaches beyond it."""
    twice = Batch(11, 2, (NO_OP, NO_OP), None, LATER)
    nodes[0].append(twice, Batch(13, 2, (NO_OP,), None, LATER))


@fault("offsets_contiguous", "critical", "1", 12, END_POSITION, "begins at offset 10, where 12")
def _(nodes: list[Node]) -> None:
    """At the log's end nothing but its place tells where a batch belongs."""
    nodes[0].append(Batch(10, 2, (NO_OP,), None, LATER))


def _without_next_to_last(node: Node) -> None:
    replace_batch(node, 10, lambda one: b"")


@fault("offsets_contiguous", "critical", "1", 10, AT[10], "follows one that ends at 9")
def _(nodes: list[Node]) -> None:
    """Other copies have the last batch: it stands in its place, and the one before it is gone."""
    _without_next_to_last(nodes[0])


@fault("offsets_contiguous", "critical", "1", 10, AT[10], "follows one that ends at 9")
def _(nodes: list[Node]) -> None:
    """Of the only copy, a producer snapshot says where it ended."""
    for node in nodes[1:]:
        shutil.rmtree(node.home)
    (nodes[0].folder / f"{12:020d}.snapshot").write_bytes(NO_PRODUCERS)
    _without_next_to_last(nodes[0])


@fault("offsets_contiguous", "critical", "1", 11, END_POSITION, "at offset 11 stands where offset")
def _(nodes: list[Node]) -> None:
    """The last batch twice: that is no base offset which is damaged."""
    nodes[0].append(healthy_log()[-1])


@fault(
    "offsets_contiguous",
    "critical",
    "1",
    0,
    0,
    "which is empty, and its first batch is at offset 6",
)
def _(nodes: list[Node]) -> None:
    """The start of a log, of which only the name is left."""
    nodes[0].segment(0).write_bytes(b"")


@fault(
    "offsets_contiguous", "critical", "1", 9, 0, "this log ends at offset 9 after the next start",
    sound=lambda nodes: nodes[0].segment(12).touch(),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A last segment without a batch is where Kafka ends a log."""
    nodes[0].segment(9).touch()


@fault(
    "offsets_contiguous", "critical", "1", 3, 0, "no record at offsets 3 to 5, and reads on behind them",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    nodes[0].segment(3).touch()


@fault(
    "log_tail_complete", "warning", "1", 9, 0, "goes on from offset 9", also="offsets_contiguous"
)
def _(nodes: list[Node]) -> None:
    nodes[0].segment(9).write_bytes(bytes(4096))


@fault(
    "segment_complete", "critical", "1", 3, 0, "cut the log at offset 3", also="offsets_contiguous"
)
def _(nodes: list[Node]) -> None:
    nodes[0].segment(3).write_bytes(bytes(4096))


@fault("offsets_contiguous", "critical", "1", 3, AT[3], "Kafka does not notice it when it starts")
def _(nodes: list[Node]) -> None:
    """A file's last offset is 2^31 - 1 above its name."""
    overwrite(nodes[0].segment(0), AT[3], struct.pack(">q", (1 << 31) - 1))


@fault("offsets_contiguous", "critical", "1", 3, AT[3], "Kafka refuses to start over it")
def _(nodes: list[Node]) -> None:
    overwrite(nodes[0].segment(0), AT[3], struct.pack(">q", 1 << 31))


@fault("record_decodes", "critical", "1", 12, END_POSITION, "1 byte left after TopicRecord")
def _(nodes: list[Node]) -> None:
    """What the next record of the same batch names is not missing: it cannot be read."""
    everywhere(nodes, topic("new", 9) + b"x", partition(9, [1], [1], 1))


@fault(
    "segment_name_matches", "critical", "1", says="If the node does not have it, it came with the copying",
    sound=lambda nodes: [(nodes[0].folder / one).mkdir() for one in ("old.log", "old.index")],
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Of a folder Kafka does not ask for a name."""
    (nodes[0].folder / "._00000000000000000000.log").write_bytes(b"")


@fault(
    "segment_name_matches", "critical", "1", says="ends in .snapshot, but its name is not an offset.",
    sound=lambda nodes: (nodes[0].folder / "old.snapshot.deleted").touch(),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    (nodes[0].folder / "old.snapshot").touch()


@fault("segment_name_matches", "critical", "1", says="begin an empty segment at offset 5.")
def _(nodes: list[Node]) -> None:
    (nodes[0].folder / "5.log").touch()


@fault("segment_name_matches", "info", "1", says="Kafka does not look at it")
def _(nodes: list[Node]) -> None:
    path = nodes[0].segment(6)
    path.with_suffix(".old.log").write_bytes(path.read_bytes())


@fault(
    "segment_name_matches", "critical", "1", 3, 0,
    "What came first in the file is gone, or it was renamed. Replicas 2 and 3 hold",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Also where it is not the last one that has the wrong name."""
    path = nodes[0].segment(0)
    path.write_bytes(path.read_bytes()[AT[3] :])


@fault(
    "segment_name_matches", "critical", "1", 7, 0, "what came first in the file is gone",
    also="offsets_contiguous",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    path = nodes[0].segment(6)
    path.write_bytes(path.read_bytes()[AT[7] :])


@fault(
    "segment_name_matches", "critical", "1", 4, 0, "The log before it holds that offset already",
    also="offsets_contiguous",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The last batch of the segment before stands first: by another name, it would stand there twice."""
    before, path = nodes[0].segment(0).read_bytes(), nodes[0].segment(6)
    path.write_bytes(before[AT[4] :] + path.read_bytes())


LARGE = Batch(12, 2, (topic("x" * 600, 9),), None, LATER)


@fault(
    "record_decodes", "warning", "1", 12, END_POSITION, "is over the limit",
    sound=lambda nodes: [node.append(replace(LARGE, values=(NO_OP,))) for node in nodes],
    limits=Limits(window_size_bytes=256, batch_size_bytes=512),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    for node in nodes:
        node.append(LARGE)


@fault(
    "record_decodes", "warning", "1", 12, END_POSITION, "is over the limit",
    limits=Limits(window_size_bytes=256, batch_size_bytes=512),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """What was not read because of its size is not missing where the log goes on."""
    for node in nodes:
        node.append(LARGE, Batch(13, 2, (NO_OP,), None, LATER))


def _compressed(codec: int, payload: bytes) -> Damage:
    """One record in a compressed batch, in all logs."""
    batch = Batch(12, 2, (NO_OP,), None, LATER, codec, payload)
    return lambda nodes: [node.append(batch) for node in nodes]


LONG, SHORT = frame(0, None, topic("x" * 600, 9)), frame(0, None, NO_OP)


def _gzip(payload: bytes) -> bytes:
    return zlib.compress(payload, wbits=31)


def _lz4(flags: int, checksum: int) -> bytes:
    """A frame of one block, which is stored as it is."""
    block = struct.pack("<I", 1 << 31 | len(SHORT)) + SHORT
    return b"\x04\x22\x4d\x18" + bytes([flags, 0x40, checksum]) + block + bytes(4)


fault(
    "batch_decompresses", "critical", "1", 12, END_POSITION, "record 0 has 629 bytes, its batch",
    sound=_compressed(1, _gzip(SHORT)),
)(_compressed(1, _gzip(LONG)))  # fmt: skip

fault(
    "batch_decompresses", "critical", "1", 12, END_POSITION, "its LZ4 blocks depend on one another",
    sound=_compressed(3, _lz4(0x60, 0x82)),
)(_compressed(3, _lz4(0x40, 0xC0)))  # fmt: skip

for _codec in (1, 3, 4):
    fault(
        "record_decodes", "critical", "1", 12, says="the header says 1 record, the batch holds 0",
        also="batch_header_valid",
    )(_compressed(_codec, b""))  # fmt: skip

fault(
    "record_rules", "warning", "1", 12, says="its attributes are 5, where Kafka writes 0",
    sound=_compressed(0, SHORT),
)(_compressed(0, frame(0, None, NO_OP, attributes=5)))  # fmt: skip

fault(
    "record_rules", "warning", "1", 12, END_POSITION, "is compressed (gzip), and KRaft never",
    sound=_compressed(0, SHORT),
)(_compressed(1, _gzip(SHORT)))  # fmt: skip


def _two_and(rest: bytes) -> Damage:
    payload = frame(0, None, NO_OP) + frame(1, None, topic("d", 4)) + rest
    batch = Batch(12, 2, (NO_OP, NO_OP), None, LATER, payload=payload)
    return lambda nodes: [node.append(batch) for node in nodes]


fault(
    "record_decodes", "critical", "1", 13, END_POSITION, "does not end with its last record",
    sound=_two_and(b""),
)(_two_and(b"xx"))  # fmt: skip


def _control(key_version: int, control_type: int, value: bytes, rest: bytes = b"") -> Damage:
    key = struct.pack(">hh", key_version, control_type) + rest
    return lambda nodes: [node.append(Batch(12, 2, (value,), (key,), LATER)) for node in nodes]


_KRAFT_VERSION = struct.pack(">hh", 0, 0) + b"\0"

fault(
    "record_rules", "critical", "1", 12, says="its kraft.version is -1, and no level is below 0",
    sound=_control(0, 5, _KRAFT_VERSION),
)(_control(0, 5, struct.pack(">hh", 0, -1) + b"\0"))  # fmt: skip

for _levels in ((1, 0), (-1, 1)):
    fault(
        "record_rules", "critical", "1", 12, says=f"its voter 1 supports levels {_levels[0]} to",
        sound=_control(0, 6, kraft_voters(1, 2, 3)),
    )(_control(0, 6, kraft_voters(1, 2, 3, levels=_levels)))  # fmt: skip

for _blank in ("", " \x1f"):
    fault(
        "record_rules", "critical", "1", 12, says="its voter 1 has a listener whose name is blank",
        sound=_control(0, 6, kraft_voters(1, 2, 3, listener="\u2003")),
    )(_control(0, 6, kraft_voters(1, 2, 3, listener=_blank)))  # fmt: skip

fault(
    "record_rules", "warning", "1", 12, says="its voter 2 has 2 entries, of which Kafka keeps the",
    sound=_control(0, 6, kraft_voters(1, 2, 3)),
)(_control(0, 6, kraft_voters(1, 2, 2, 3)))  # fmt: skip
fault(
    "record_rules", "warning", "1", 12, says="2 bytes left after KRaftVersionRecord version 0",
    sound=_control(0, 5, _KRAFT_VERSION),
)(_control(0, 5, _KRAFT_VERSION + b"xx"))  # fmt: skip
fault(
    "record_rules", "warning", "1", 12, says="1 byte left in its key after the type, where Kafka's",
    sound=_control(0, 5, _KRAFT_VERSION),
)(_control(0, 5, _KRAFT_VERSION, b"x"))  # fmt: skip


def _of_producer(nodes: list[Node]) -> None:
    """No node opens its log, wherever its snapshot ends."""
    raw = bytearray(Batch(12, 2, (_KRAFT_VERSION,), (struct.pack(">hh", 0, 5),), LATER).raw())
    raw[43:51] = struct.pack(">q", 7)
    for node in nodes:
        last = sorted(node.folder.glob("*.log"))[-1]
        last.write_bytes(last.read_bytes() + sealed(bytes(raw)))


fault(
    "record_rules", "critical", "1", 12, END_POSITION, "takes it for the end of a producer's",
    sound=_control(0, 5, _KRAFT_VERSION),
)(_of_producer)  # fmt: skip

for _type, _marker in enumerate(("ABORT", "COMMIT")):
    fault(
        "record_decodes", "critical", "1", 12, END_POSITION, f"its type is {_marker}, a producer"
    )(_control(0, _type, bytes(6)))

fault(
    "record_decodes", "critical", "1", 12, END_POSITION, "control key version -1 is negative",
    sound=_control(0, 5, _KRAFT_VERSION),
)(_control(-1, 5, _KRAFT_VERSION))  # fmt: skip


def _elected(leader: int, granted: tuple[int, ...]) -> Damage:
    return lambda nodes: [
        node.append(leader_change(12, 3, leader, LATER, granted)) for node in nodes
    ]


fault(
    "record_rules", "warning", "1", 12, END_POSITION, "leader 9 is none of its voters (1, 2 and 3)",
    sound=_elected(2, (2, 3)),
)(_elected(9, (2, 3)))  # fmt: skip
fault(
    "record_rules", "warning", "1", 12, END_POSITION, "leader 2 was elected by voter 2, no majority",
    sound=_elected(2, ()),
)(_elected(2, (2,)))  # fmt: skip


def _begun_again(leader: int, epoch: int) -> Damage:
    return lambda nodes: [node.append(leader_change(12, epoch, leader, LATER)) for node in nodes]


fault(
    "record_rules", "warning", "1", 12, says="that leader has begun epoch 2 at offset 8, and writes one",
    sound=_begun_again(2, 3),
)(_begun_again(2, 2))  # fmt: skip
fault(
    "record_rules", "warning", "1", 12, END_POSITION, "it belongs to a snapshot, and this is a log",
    sound=_control(0, 5, _KRAFT_VERSION),
)(_control(0, 3, struct.pack(">hq", 0, LATER) + b"\0"))  # fmt: skip


def _voters_and(level: int) -> Damage:
    batch = Batch(
        13, 2, (struct.pack(">hh", 0, level) + b"\0",), (struct.pack(">hh", 0, 5),), LATER
    )
    return lambda nodes: [
        node.append(voters_batch(12, 2, 1, 2, 3, ms=LATER), batch) for node in nodes
    ]


fault(
    "record_rules", "warning", "1", 13, says="it takes kraft.version back to 0 while a set of",
    sound=_voters_and(1),
)(_voters_and(0))  # fmt: skip
fault(
    "record_rules", "critical", "1", 12, says="sets kraft.version to 1, and no record names the",
    sound=_voters_and(1),
)(_control(0, 5, struct.pack(">hh", 0, 1) + b"\0"))  # fmt: skip


def _with_headers(base: int, headers: bytes) -> Damage:
    payload = frame(0, None, NO_OP, headers=headers)

    def damage(nodes: list[Node]) -> None:
        for node in nodes:
            if base < 12:
                replace_batch(node, base, lambda one: replace(one, payload=payload).raw())
            else:
                node.append(Batch(base, 2, (NO_OP,), None, LATER, payload=payload))

    return damage


_HEADER = b"\x02" + b"\x02k" + b"\x02v"

fault(
    "record_rules", "warning", "1", 12, says="A start of replicas 1, 2 and 3 reads it.",
    sound=_with_headers(12, b"\0"),
)(_with_headers(12, _HEADER))  # fmt: skip


@fault("record_rules", "warning", "1", 3, says="A start of replica 2 reads it.")
def _(nodes: list[Node]) -> None:
    """The others begin with a snapshot that covers it."""
    _with_headers(3, _HEADER)(nodes)
    nodes[1].checkpoint(6, 1).unlink()


fault(
    "record_rules", "warning", "1", 3, says="and a node that reads it stops. No controller of Kafka",
    sound=_with_headers(3, b"\0"),
)(_with_headers(3, _HEADER))  # fmt: skip
fault(
    "record_rules", "warning", "1", 12, says="it has 1 record header and ends with a 0",
    sound=_with_headers(12, b"\0"),
)(_with_headers(12, b"\x02" + b"\x02k" + b"\0"))  # fmt: skip
for _rest in (b"\x07\x07", b"\x03", b"\0"):
    fault(
        "record_rules", "warning", "1", 12,
        says=f"it has {len(_rest)} byte{'s' * (len(_rest) > 1)} of no header",
        sound=_with_headers(12, b"\0"),
    )(_with_headers(12, _rest + b"\0"))  # fmt: skip

_CHANGE = change_isr(1, [1, 2])

fault(
    "record_rules", "warning", "1", 12, says="isr has 9 bytes, not the 90 that its tag says",
    sound=appended(_CHANGE),
)(appended(_CHANGE.replace(b"\0\x09\x03", b"\0\x5a\x03")))  # fmt: skip


@fault("record_rules", "warning", offset=13, says="its offset delta is 5, its place")
def _(nodes: list[Node]) -> None:
    payload = frame(0, None, NO_OP) + frame(5, None, NO_OP)
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP, NO_OP), None, LATER, payload=payload))


def _headed(field: str, value: int, replica: int = 0) -> Damage:
    """One copy goes on with a batch whose header holds a value that Kafka does not write there."""

    def damage(nodes: list[Node]) -> None:
        raw = bytearray(Batch(12, 2, (NO_OP,), None, LATER).raw())
        header = np.frombuffer(raw[:HEADER_SIZE], HEADER).copy()
        header[field] = value
        raw[:HEADER_SIZE] = header.tobytes()
        last = sorted(nodes[replica].folder.glob("*.log"))[-1]
        last.write_bytes(last.read_bytes() + sealed(bytes(raw)))

    return damage


for _field, _value, _says in (
    ("producer_id", 7, "names producer 7, of epoch -1"),
    ("producer_epoch", 0, "names producer -1, of epoch 0"),
    ("base_sequence", 5, "with sequence 5"),
    ("attributes", 0x10, "belongs to a transaction"),
    ("attributes", 0x08, "a broker appended it"),
    ("attributes", 0x40, "(0x40)"),
    ("attributes", 0x100, "(0x100)"),
    ("base_timestamp", LATER + 1, "its largest time is"),
    ("base_timestamp", -(1 << 63), "its batch begins at time -9223372036854775808"),
    ("max_timestamp", LATER + 400, f"its largest time is {LATER + 400}"),
    ("max_timestamp", -(1 << 63), "its largest time is -9223372036854775808"),
):
    fault(
        "record_rules", "warning", "1", 12, END_POSITION, _says,
        sound=_headed("producer_id", -1),
    )(_headed(_field, _value))  # fmt: skip


def _stamped(ms: int) -> Damage:
    """One copy goes on with a batch of that time."""
    return lambda nodes: nodes[0].append(Batch(12, 2, (NO_OP,), None, ms))


for _ms in (-1, -(1 << 63)):
    fault(
        "record_rules", "warning", "1", 12, END_POSITION, f"the time of its batch is {_ms}",
        sound=_stamped(0),
    )(_stamped(_ms))  # fmt: skip


@fault("record_rules", "warning", offset=12, says="its value is empty", also="record_decodes")
def _(nodes: list[Node]) -> None:
    everywhere(nodes, b"")


@fault(
    "transactions_well_formed", "critical", offset=15, says="aborts a metadata transaction",
    sound=appended(TRANSACTION["begin"], TRANSACTION["abort"], TRANSACTION["begin"],
                   TRANSACTION["end"]),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """An End closes a transaction, and so does an Abort: after either, none is open."""
    begin, end, abort = (TRANSACTION[word] for word in ("begin", "end", "abort"))
    everywhere(nodes, begin, end, NO_OP, abort)


_LEVEL = feature("metadata.version", 12)
for _values, _offset in (
    ((_LEVEL, TRANSACTION["begin"]), 13),
    ((TRANSACTION["begin"], _LEVEL), 12),
):
    fault(
        "transactions_well_formed", "warning", offset=_offset,
        says="metadata.version 12 has no transactions",
        sound=appended(*_values, TRANSACTION["end"]),
    )(appended(*_values))  # fmt: skip


def _led_inside(*first: bytes) -> Damage:
    """A transaction in which a leader is elected, and what that one writes first."""

    def damage(nodes: list[Node]) -> None:
        everywhere(nodes, feature("metadata.version", 13), TRANSACTION["begin"])
        for node in nodes:
            node.append(leader_change(14, 3, 1, LATER + 1))
            if first:
                node.append(Batch(15, 3, first, None, LATER + 2))
            node.epochs([(1, 0), (2, 8), (3, 14)])
            node.quorum_state(leaderId=1, leaderEpoch=3)

    return damage


for _first in ((NO_OP,), (NO_OP, TRANSACTION["abort"]), (topic("d", 9), TRANSACTION["end"])):
    fault(
        "transactions_well_formed", "critical", offset=13,
        says="is open still where a later leader begins to write, at offset 15.",
        sound=_led_inside(TRANSACTION["abort"], *_first[:1]),
    )(_led_inside(*_first))  # fmt: skip


def _ended_before(nodes: list[Node]) -> None:
    everywhere(nodes, feature("metadata.version", 13), TRANSACTION["begin"], TRANSACTION["end"])
    for node in nodes:
        node.append(leader_change(15, 3, 1, LATER), Batch(16, 3, (NO_OP,), None, LATER))


fault(
    "transactions_well_formed", "critical", offset=13, says="a later leader begins to write",
    sound=_ended_before,
)(_led_inside(NO_OP))  # fmt: skip
fault("transactions_well_formed", "info", offset=13, says="A metadata transaction is still open")(
    _led_inside()
)
fault("transactions_well_formed", "info", offset=13, says="still open")(
    appended(feature("metadata.version", 13), TRANSACTION["begin"])
)


@fault("epochs_monotonic", "critical", "1", 9, also="committed_data_consistent")
def _(nodes: list[Node]) -> None:
    """The batch behind the first of an epoch: that one tells who leads, and is not the odd one."""
    replace_batch(nodes[0], 9, lambda one: replace(one, epoch=1).raw())


@fault("epochs_monotonic", "critical", "1", 1, also="committed_data_consistent", says="from 7 to 1")
def _(nodes: list[Node]) -> None:
    """The first of the log: the two behind it agree, so that no other file is wrong beside it."""
    replace_batch(nodes[0], 0, lambda one: replace(one, epoch=7).raw())


@fault("epochs_monotonic", "critical", "1", 13, says="goes back from 3 to 2")
def _(nodes: list[Node]) -> None:
    """With the very next epoch, and without a batch after it that would explain it."""
    nodes[0].append(leader_change(12, 3, 1, LATER), Batch(13, 2, (NO_OP,), None, LATER))


@fault(
    "leader_change_starts_epoch", "critical", offset=12, says="Epoch 3 begins at offset 12",
    sound=lambda nodes: [node.append(leader_change(12, 3, 1, LATER)) for node in nodes],
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, NO_OP, epoch=3)


@fault("leader_change_starts_epoch", "critical", offset=12, says="Epoch 3", also="record_decodes")
def _(nodes: list[Node]) -> None:
    """That a data record is wrong besides hides nothing."""
    everywhere(nodes, topic("d", 4) + b"\0", epoch=3)


@fault(
    "timestamps_monotonic", "info", offset=12, says="1 ms older than",
    sound=lambda nodes: everywhere(nodes, NO_OP, ms=START_MS + 9000),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    everywhere(nodes, NO_OP, ms=START_MS + 8999)


@fault("epoch_checkpoint_agrees", "warning", "1", says="cannot be read")
def _(nodes: list[Node]) -> None:
    (nodes[0].folder / "leader-epoch-checkpoint").write_text("0\nmany\n")


def _empty_checkpoint(nodes: list[Node]) -> Path:
    file: Path = nodes[0].folder / "leader-epoch-checkpoint"
    file.write_bytes(b"")
    return file


fault(
    "epoch_checkpoint_agrees", "warning", "1", 0, says="lacks an entry: epoch 1 begins at 0",
    sound=lambda nodes: os.utime(_empty_checkpoint(nodes), (0, 0)),
)(_empty_checkpoint)  # fmt: skip
"""Not where it was copied as Kafka makes it, before the first election."""


@fault(
    "epoch_checkpoint_agrees", "warning", "1", 0, says="lacks an entry: epoch 1 begins at 0",
    sound=lambda nodes: nodes[0].epochs([(1, 6), (2, 8)]),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Kafka cuts the file where a snapshot ends, and keeps the epoch that reaches over it."""
    nodes[0].epochs([(2, 8)])


@fault("epoch_checkpoint_agrees", "info", "1", says="is missing")
def _(nodes: list[Node]) -> None:
    (nodes[0].folder / "leader-epoch-checkpoint").unlink()


def _while_deleting(node: Node, *entries: tuple[int, int]) -> None:
    """The first entry is cut, and a snapshot waits to be removed."""
    node.epochs(list(entries))
    path = node.checkpoint(6, 1)
    path.with_name(f"{3:020d}-{1:010d}.checkpoint.deleted").write_bytes(path.read_bytes())


@fault(
    "epoch_checkpoint_agrees", "warning", "1", 9, says="epoch 2 is said to begin at 9",
    sound=lambda nodes: _while_deleting(nodes[0], (2, 9)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Where snapshots are being deleted, the file may be cut at one that is not there any more."""
    nodes[0].epochs([(2, 9)])


@fault(
    "epoch_checkpoint_agrees", "warning", "1", 4, says="epoch 1 is said to begin at 4",
    sound=lambda nodes: nodes[0].epochs([(1, 4), (2, 8)]),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Whoever asks for an older epoch than the oldest snapshot's is sent a snapshot, and no offset."""
    nodes[0].epochs([(1, 4), (2, 8)])
    nodes[0].checkpoint(6, 1).unlink()


def _cut_at(node: Node, *entries: tuple[int, int]) -> None:
    """The log begins at offset 6, and its first entry where no snapshot ends."""
    node.segment(0).unlink()
    node.epochs(list(entries))


@fault(
    "epoch_checkpoint_agrees", "warning", "1", 9, says="begin at 9, its batches begin at 8",
    sound=lambda nodes: _cut_at(nodes[0], (1, 7), (2, 8)),
)  # fmt: skip
def cut_inside(nodes: list[Node]) -> None:
    """Nobody is answered by a first entry of the snapshot's own epoch, but by one of a later epoch."""
    _cut_at(nodes[0], (2, 9))


def _begins_inside(node: Node, *entries: tuple[int, int], start: int = 9) -> None:
    """The log begins inside of epoch 2, with the snapshot that lets it."""
    stored, kept = [healthy_log()[1], healthy_log()[3]], healthy_log()[start - 2 :]
    node.checkpoint(start, 2).write_bytes(snapshot(stored, 2, kept[0].ms - 1000))
    for base in (0, 6):
        node.segment(base).unlink()
    node.segment(start).write_bytes(b"".join(one.raw() for one in kept))
    node.epochs(list(entries))


def _both_begin_inside(nodes: list[Node], *entries: tuple[int, int]) -> None:
    """So does that of node 2, one batch earlier."""
    _begins_inside(nodes[0], *entries, start=10)
    _begins_inside(nodes[1], (1, 0), (2, 8))


@fault(
    "epoch_checkpoint_agrees", "warning", "1", 7, says="its batches begin at 8 in the log of 3",
    sound=lambda nodes: _both_begin_inside(nodes, (1, 0), (2, 8)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The start of a log inside of an epoch is not that epoch's."""
    _both_begin_inside(nodes, (1, 0), (2, 7))


@fault(
    "epoch_checkpoint_agrees", "warning", "1", 7, says="its batches begin at 8 in the log of 2",
    sound=lambda nodes: _begins_inside(nodes[0], (1, 0), (2, 8)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Where an epoch begins that is older than the log, the others know."""
    _begins_inside(nodes[0], (1, 0), (2, 7))


@fault(
    "epoch_checkpoint_agrees", "warning", "1", 6, says="its batches begin at 8 in the log of 2",
    sound=lambda nodes: _begins_inside(nodes[0], (2, 9)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A first entry may be cut to a later offset, and not to an earlier one."""
    _begins_inside(nodes[0], (2, 6))


@fault("log_end_lost", "critical", "1", 12, says="says that epoch 2 began at offset 20")
def _(nodes: list[Node]) -> None:
    """A file that is cut behind the end is one finding, and says nothing of the epochs before."""
    nodes[0].epochs([(2, 20)])


@fault("epoch_checkpoint_agrees", "warning", "1", 7, says="epoch 2 is said to begin at 7")
def _(nodes: list[Node]) -> None:
    """The start of an epoch that begins inside the log is never cut."""
    _while_deleting(nodes[0], (1, 4), (2, 7))


@fault("epoch_checkpoint_agrees", "warning", "1", 0, says="entry 1 0 follows 2 8")
def _(nodes: list[Node]) -> None:
    nodes[0].epochs([(2, 8), (1, 0)])


@fault("epoch_checkpoint_agrees", "warning", "1", 8, says="entry 1 8 follows 1 0")
def _(nodes: list[Node]) -> None:
    """The same epoch twice; and an offset may stay, but not go back."""
    nodes[0].epochs([(1, 0), (1, 8), (2, 8)])


@fault("epoch_checkpoint_agrees", "warning", "1", 5, says="an extra entry: epoch 9 from offset 5")
def _(nodes: list[Node]) -> None:
    """The entry after it is in its place."""
    nodes[0].epochs([(1, 0), (9, 5), (2, 8)])


@fault("epoch_checkpoint_agrees", "warning", "1", 7, says="entry 3 7 follows 2 8")
def _(nodes: list[Node]) -> None:
    nodes[0].epochs([(1, 0), (2, 8), (3, 7)])


@fault(
    "epoch_checkpoint_agrees", "warning", "9", 9, says="would keep records that it has to cut",
    sound=lambda nodes: observer(nodes, (1, 0), (2, 8)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A broker is elected by nobody."""
    observer(nodes, (1, 0), (2, 8), (3, 9))


def observer(nodes: list[Node], *entries: tuple[int, int]) -> None:
    """Broker 9, with these entries of its epochs."""
    node = Node(nodes[0].home.parent, 9)
    node.write(healthy_log())
    node.epochs(list(entries))


def index(nodes: list[Node], *entries: tuple[int, int], more: bytes = b"") -> None:
    """The offset index of node 1's last segment: (offset, position) each."""
    raw = b"".join(struct.pack(">ii", offset - 6, position) for offset, position in entries)
    nodes[0].segment(6).with_suffix(".index").write_bytes(raw + more)


def time_index(nodes: list[Node], *entries: tuple[int, int], more: bytes = b"") -> None:
    """The time index of the same: (ms after the start, offset) each."""
    raw = b"".join(struct.pack(">qi", START_MS + ms, offset - 6) for ms, offset in entries)
    nodes[0].segment(6).with_suffix(".timeindex").write_bytes(raw + more)


@fault(
    "index_agrees", "warning", "1", says="ends with 3 bytes of an entry that is not whole",
    sound=lambda nodes: index(nodes, (7, AT[7]), (9, AT[9]), more=bytes(3)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    index(nodes, (7, AT[7]), more=b"\0\0\x01")


@fault(
    "index_agrees", "warning", "1", 7, says="entry 1 (offset 7, position",
    sound=lambda nodes: index(nodes, (8, AT[8]), (8, AT[8]), (11, AT[11]), (12, END_POSITION)),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    index(nodes, (9, AT[9]), (7, AT[7]))


@fault(
    "index_agrees", "warning", "1", 8, says="points at no start",
    sound=lambda nodes: index(nodes, (9, AT[9])),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """A batch's start, but of one that begins above the entry's offset."""
    index(nodes, (8, AT[9]))


@fault(
    "index_agrees", "warning", "1", 8, says="that the batch at that offset does not have",
    sound=lambda nodes: time_index(
        nodes, (5000, 7), (6000, 8), (9000, 11), (9500, 12), more=bytes(12)
    ),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The index of a node that was running may be newer than the log."""
    time_index(nodes, (5000, 7), (6001, 8))


@fault(
    "epoch_within_quorum_state", "warning", "1", 8, says="no epoch above 1",
    sound=lambda nodes: nodes[0].quorum_state(leaderId=2, leaderEpoch=3),
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    nodes[0].quorum_state(leaderId=-1, leaderEpoch=1)


@fault("batch_crc_valid", "critical", "2", 10, AT[10], "does not match its CRC-32C")
def _(nodes: list[Node]) -> None:
    """The leader epoch and the base offset stand outside of the CRC, the attributes within."""
    overwrite(nodes[1].segment(6), AT[10] + 22, b"\x10")


@fault("log_tail_complete", "warning", "3", 12, END_POSITION, "with garbage (")
def _(nodes: list[Node]) -> None:
    path = nodes[2].segment(6)
    path.write_bytes(path.read_bytes() + b"\x55" * 200)


def _of_magic(base: int, magic: int) -> Damage:
    """The byte stands outside of the CRC, so that the batch stays whole."""
    return lambda nodes: overwrite(nodes[0].segment(6), AT[base] + 16, bytes([magic]))


for base, check, severity, magic, says in (
    (9, "batch_header_valid", "critical", 3, "and a node that reads it stops. Replicas 2 and 3"),
    (9, "batch_header_valid", "critical", 1, "Kafka would cut this log there at its next start."),
    (11, "log_tail_complete", "critical", 127, "looks at no magic and keeps it, and a node that"),
    (11, "log_tail_complete", "warning", 0x82, "leaves that. The node cuts this end at its next"),
):
    fault(
        check, severity, "1", base, AT[base], says,
        also="offsets_contiguous" if base == 9 else "",
    )(_of_magic(base, magic))  # fmt: skip
"""Kafka's files ask whether the magic is below 2, as a signed byte, and its readers whether it is 2."""


@fault("leader_change_starts_epoch", "critical", "1", 9, says="Epoch 3 begins at offset 9")
def _(nodes: list[Node]) -> None:
    """An epoch in the middle, which goes on to the end."""
    _of_epoch(nodes[0], 3, range(9, 12))


@fault(
    "leader_change_starts_epoch", "critical", "1", 9, says="Epoch 2 begins at offset 9",
    also="single_leader_per_epoch committed_data_consistent",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Of its leader's own record the header alone is damaged: leader-epoch-checkpoint is right."""
    _of_epoch(nodes[0], 1, {8})


def _of_epoch(node: Node, epoch: int, bases: Collection[int]) -> None:
    """Some batches of the last segment, with an epoch in their headers."""
    kept = [one for one in healthy_log() if one.base >= 6]
    later = [replace(one, epoch=epoch) if one.base in bases else one for one in kept]
    node.segment(6).write_bytes(b"".join(one.raw() for one in later))


@fault(
    "timestamps_monotonic",
    "info",
    offset=12,
    says="go back 4 times",
    sound=lambda nodes: _clock(nodes, 9000, 9000, 9001, 9002),
)
def _(nodes: list[Node]) -> None:
    """More than three steps back are a pattern."""
    _clock(nodes, 8999, 8998, 8997, 8996)


def _clock(nodes: list[Node], *times_ms: int) -> None:
    """Batches of some times after the start; the last of the healthy log is of 9,000 ms."""
    for node in nodes:
        node.append(
            *(Batch(12 + n, 2, (NO_OP,), None, START_MS + ms) for n, ms in enumerate(times_ms))
        )


@fault("batch_crc_valid", "critical", "2", 3, AT[3], "The record batch of offset 3 does not match")
def _(nodes: list[Node]) -> None:
    """Its base offset is damaged as well: its neighbours say what it holds."""
    path = nodes[1].segment(0)
    overwrite(path, AT[3] + 5, b"\x01")
    overwrite(path, AT[3] + HEADER_SIZE + 1, b"\x7f")


@fault("batch_header_valid", "critical", "2", 4, AT[4], also="batch_crc_valid offsets_contiguous")
def _(nodes: list[Node]) -> None:
    """Behind a batch whose records are damaged, whose header still says which offset it holds."""
    path = nodes[1].segment(0)
    overwrite(path, AT[3] + HEADER_SIZE + 1, b"\x7f")
    overwrite(path, AT[4] + 16, b"\x07")


@fault(
    "batch_header_valid", "critical", "1", 7, says="Before offset 7 lies what is no batch: 200 zero",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Between batches that follow each other: every offset can be read."""
    replace_batch(nodes[0], 7, lambda one: bytes(200) + one.raw())


def _deleted(nodes: list[Node]) -> Path:
    """The first segment once more, renamed as one that waits to be removed."""
    path = nodes[0].segment(3).with_suffix(".log.deleted")
    path.write_bytes(nodes[0].segment(0).read_bytes()[AT[3] : -5])
    return path


def _nothing_but_a_snapshot(nodes: list[Node]) -> None:
    """What a node can begin with into whose folder a snapshot was put."""
    for file in nodes[2].folder.iterdir():
        if not file.name.endswith(".checkpoint"):
            file.unlink()


@fault(
    "file_readable", "warning", "3", says="no segment lies in its folder",
    sound=_nothing_but_a_snapshot,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    for segment in nodes[2].folder.glob("*.log"):
        segment.unlink()


def _another_disk(nodes: list[Node]) -> None:
    """A log directory of a node whose log lies in another one."""
    shutil.copytree(nodes[2].home, nodes[2].home.parent / "3b")
    shutil.rmtree(nodes[2].home.parent / "3b" / nodes[2].folder.name)


@fault(
    "file_readable", "warning", "3", says="no segment lies in its folder", sound=_another_disk,
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    shutil.rmtree(nodes[2].folder)


def _of_producers(raw: bytes) -> Damage:
    return lambda nodes: (nodes[0].folder / f"{6:020d}.snapshot").write_bytes(raw)


for _raw, _says in (
    (NO_PRODUCERS[:-1] + b"\1", "its CRC is wrong"),
    (b"\0\2" + NO_PRODUCERS[2:], "its version is 2"),
    (NO_PRODUCERS[:-1], "it has 9 bytes"),
    (bytes.fromhex("0001 ba0cc8c4 00000001"), "it says that it names 1 producer"),
):
    fault("file_readable", "warning", "1", says=_says, sound=_of_producers(NO_PRODUCERS))(
        _of_producers(_raw)
    )


def _of_transactions(raw: bytes) -> Damage:
    def damage(nodes: list[Node]) -> None:
        nodes[0].segment(6).with_suffix(".index").touch()
        nodes[0].segment(6).with_suffix(".txnindex").write_bytes(raw)

    return damage


fault("file_readable", "warning", "1", says="it holds 34 bytes", sound=_of_transactions(b""))(
    _of_transactions(bytes(34))
)
fault(
    "file_readable", "critical", "1", says="Kafka fails over it, and", sound=_of_transactions(b"")
)(_of_transactions(b"0" * 34))


@fault("file_readable", "critical", "1", says="it is a folder")
def _(nodes: list[Node]) -> None:
    nodes[0].segment(6).with_suffix(".timeindex").mkdir()


@fault("file_readable", "warning", "1", says="the first at byte 0", sound=_deleted)
def _(nodes: list[Node]) -> None:
    overwrite(_deleted(nodes), 70, b"\xee")


def _beside(name: str) -> Damage:
    return lambda nodes: (nodes[0].home.parent / name).write_bytes(b"1234")


fault("file_readable", "info", says="Nobody looked into 4.zip", sound=_beside("4.txt"))(
    _beside("4.zip")
)


@fault(
    "segment_name_matches", "warning", "1", 6, 0, "and it was read as that here",
    sound=lambda nodes: nodes[0].segment(6).with_suffix(".index.swap").touch(),
)  # fmt: skip
def _swapped(nodes: list[Node]) -> None:
    """Kafka gives the file its name back, and so nothing is lost."""
    nodes[0].segment(6).rename(nodes[0].segment(6).with_suffix(".log.swap"))


@fault(
    "segment_name_matches",
    "critical",
    "1",
    6,
    0,
    "006.log beside it is deleted",
    also="log_end_lost",
)
def _(nodes: list[Node]) -> None:
    """Kafka goes on with the file that ends before the other."""
    path = nodes[0].segment(6)
    path.with_suffix(".log.swap").write_bytes(path.read_bytes()[: AT[8]])


def _with_swap(rest: bytes) -> Damage:
    def damage(nodes: list[Node]) -> None:
        path = nodes[0].segment(6)
        path.with_suffix(".log.swap").write_bytes(path.read_bytes() + rest)

    return damage


fault("segment_name_matches", "critical", "1", 6, END_POSITION, "Kafka fails over what is no")(
    _with_swap(bytes(100))
)
fault(
    "segment_name_matches", "critical", "1", 6, END_POSITION, f"at byte {END_POSITION}, and does not start",
)(_with_swap(b"\xff" * 100))  # fmt: skip


@fault("segment_name_matches", "critical", "1", 6, END_POSITION, "and Kafka cuts what is no batch")
def _(nodes: list[Node]) -> None:
    _swapped(nodes)
    path = nodes[0].segment(6).with_suffix(".log.swap")
    path.write_bytes(path.read_bytes() + bytes(100))


@fault(
    "log_end_lost", "critical", "1", 6, says="Kafka deletes 00000000000000000003.log.cleaned and"
)
def _(nodes: list[Node]) -> None:
    """Kafka drops the swap behind a file that a cleaner had not finished."""
    _swapped(nodes)
    nodes[0].segment(3).with_suffix(".log.cleaned").touch()


@fault(
    "segment_name_matches", "critical", "1", 6, 0, "Another file is named 00000000000000000006.log",
    also="offsets_contiguous",
)  # fmt: skip
def _exchanged(nodes: list[Node]) -> None:
    first, last = nodes[0].segment(0), nodes[0].segment(6)
    held = first.read_bytes()
    first.write_bytes(last.read_bytes())
    last.write_bytes(held)


fault(
    "offsets_contiguous", "critical", "1", 0, 0, "4 batches, the first at offset 0, stand where offset 12",
    also="segment_name_matches",
)(_exchanged)  # fmt: skip


@fault(
    "batch_header_valid", "critical", "1", 7, says="says offset -1, 1 record and a last offset delta",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """Where the batch stands is known by those around it."""
    replace_batch(nodes[0], 7, lambda one: replace(one, base=-1).raw())


@fault(
    "batch_header_valid", "critical", "1", 7, says=f"says offset {2**63 - 1}, 2 records and a last offset delta of 1,",
)  # fmt: skip
def _(nodes: list[Node]) -> None:
    """The field as it is, though the last offset is more than an offset can be."""
    beyond = replace(healthy_log()[5], base=2**63 - 1, values=(NO_OP, NO_OP))
    replace_batch(nodes[0], 7, lambda one: replace(beyond, epoch=one.epoch).raw())


@fault("batch_crc_valid", "critical", "3", 11, says="Do not empty its log folder: too few")
def _(nodes: list[Node]) -> None:
    """Voters 2 and 3 had committed it, and voter 1 lacks it."""
    path = nodes[0].segment(6)
    path.write_bytes(path.read_bytes()[: AT[11]])
    overwrite(nodes[2].segment(6), AT[11] + 17, b"\xaa\xbb\xcc")


@fault(
    "offsets_contiguous",
    "critical",
    "3",
    11,
    says="Replica 2 holds the same offsets intact. Do not",
)
def _(nodes: list[Node]) -> None:
    path = nodes[0].segment(6)
    path.write_bytes(path.read_bytes()[: AT[11]])
    overwrite(nodes[2].segment(6), AT[11], struct.pack(">q", 111))
