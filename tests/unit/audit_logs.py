"""Small quorums on disk, written byte by byte: what the tests of the audit damage.

`quorum(root)` writes three voters that hold the same log of two epochs and the same snapshot;
`audit(root)` audits them. The writer is independent of kraftlog's reader but for the checksum.
"""

import json
import os
import shutil
import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kraftlog.audit.runner import AuditResult, Finding, audit_of
from kraftlog.config import Thresholds, default_thresholds
from kraftlog.decode.redaction import Redactor
from kraftlog.log.batch import crc32c
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.quorum.describe import described_beside
from kraftlog.quorum.model import Quorum
from tests.collecting import collect

FOLDER = "__cluster_metadata-0"
CLUSTER = "cluster-of-the-tests-0"
START_MS = 1_700_000_000_000
HEADER_SIZE = 61
LIMITS = Limits()


def varint(value: int) -> bytes:
    """Zigzag."""
    return uvarint((value << 1) ^ (value >> 63))


def uvarint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def text(value: str) -> bytes:
    """A compact string."""
    return uvarint(len(value.encode()) + 1) + value.encode()


def frame(
    index: int,
    key: bytes | None,
    value: bytes,
    delta: int = 0,
    headers: bytes = b"\0",
    attributes: int = 0,
) -> bytes:
    """A record's envelope."""
    named = varint(-1) if key is None else varint(len(key)) + key
    body = (
        bytes([attributes])
        + varint(delta)
        + varint(index)
        + named
        + varint(len(value))
        + value
        + headers
    )
    return varint(len(body)) + body


@dataclass(frozen=True)
class Batch:
    """A record batch to be written: `values` are metadata values, or (key, value) pairs of a
    control batch.
    """

    base: int
    epoch: int
    values: tuple[bytes, ...]
    keys: tuple[bytes, ...] | None = None
    ms: int = START_MS
    attributes: int = 0
    payload: bytes | None = None
    count: int | None = None

    @property
    def end(self) -> int:
        return self.base + len(self.values)

    def raw(self) -> bytes:
        keys: Sequence[bytes | None] = self.keys or [None] * len(self.values)
        frames = [frame(i, keys[i], value) for i, value in enumerate(self.values)]
        records = b"".join(frames) if self.payload is None else self.payload
        count = len(self.values) if self.count is None else self.count
        attributes = self.attributes | (0x20 if self.keys else 0)
        tail = struct.pack(
            ">hiqqqhii", attributes, len(self.values) - 1, self.ms, self.ms, -1, -1, -1, count
        )
        body = tail + records
        head = struct.pack(">ib", self.epoch, 2) + struct.pack(">I", crc32c(body))
        return struct.pack(">qi", self.base, len(head) + len(body)) + head + body


NO_OP = b"\x01\x14\x00\x00"


def topic(name: str, number: int) -> bytes:
    return b"\x01\x02\x00" + text(name) + bytes(15) + bytes([number]) + b"\0"


def remove_topic(number: int) -> bytes:
    return b"\x01\x09\x00" + bytes(15) + bytes([number]) + b"\0"


def producer_ids(following: int) -> bytes:
    return b"\x01\x0f\x00" + struct.pack(">iqq", 1, 1, following) + b"\0"


def ints(values: Sequence[int]) -> bytes:
    """A compact array of int32."""
    return uvarint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def uuid(number: int) -> bytes:
    return bytes(15) + bytes([number])


def uuid_text(number: int) -> str:
    """As Kafka writes it into text files."""
    return urlsafe_b64encode(uuid(number)).decode().rstrip("=")


def disk_uuid(number: int) -> bytes:
    """The directory id of the disk of a number: Kafka reserves the first hundred UUIDs."""
    return uuid(100 + number)


def disk_text(number: int) -> str:
    return uuid_text(100 + number)


def partition(
    number: int,
    replicas: list[int],
    isr: list[int],
    leader: int,
    removing: Sequence[int] = (),
    adding: Sequence[int] = (),
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    partition_id: int = 0,
) -> bytes:
    """A partition of a topic."""
    arrays = b"".join(ints(one) for one in (replicas, isr, removing, adding))
    head = b"\x01\x03\x00" + struct.pack(">i", partition_id) + uuid(number)
    return head + arrays + struct.pack(">iii", leader, leader_epoch, partition_epoch) + b"\0"


CHANGES = ["isr", "leader", "replicas", "removing", "adding", "recovery", "elr"]
"""Fields of a PartitionChange record, in the order of their tags."""


def change(number: int, **fields: Sequence[int] | int) -> bytes:
    """PartitionChange of partition 0 of a topic."""
    tagged = uvarint(len(fields))
    for name, value in sorted(fields.items(), key=lambda one: CHANGES.index(one[0])):
        size = ">b" if name == "recovery" else ">i"
        raw = struct.pack(size, value) if isinstance(value, int) else ints(value)
        tagged += bytes([CHANGES.index(name)]) + uvarint(len(raw)) + raw
    return b"\x01\x05\x02" + struct.pack(">i", 0) + uuid(number) + tagged


def change_isr(number: int, isr: list[int]) -> bytes:
    """PartitionChange of the ISR alone."""
    return change(number, isr=isr)


def register_broker(
    broker: int,
    epoch: int,
    incarnation: int = 1,
    end_point: str = "a",
    protocol: int = 0,
    directories: Sequence[int] = (),
) -> bytes:
    """A broker with one listener, which is unfenced; with log directories in version 3."""
    place = text("host") + struct.pack(">Hh", 9092, protocol)
    listener = uvarint(2) + text(end_point) + place + b"\0"
    if directories:
        head = struct.pack(">i?", broker, False) + uuid(incarnation) + struct.pack(">q", epoch)
        return b"\x01\x00\x03" + head + listener + b"\x01" + bytes(3) + _log_dirs(0, directories)
    value = struct.pack(">i", broker) + uuid(incarnation) + struct.pack(">q", epoch)
    return b"\x01\x00\x00" + value + listener + b"\x01" + b"\0" + b"\0" + b"\0"


def _log_dirs(tag: int, directories: Sequence[int]) -> bytes:
    """Log directories as the only tagged field."""
    held = uvarint(len(directories) + 1) + b"".join(map(uuid, directories))
    return bytes([1, tag]) + uvarint(len(held)) + held


def change_directories(broker: int, epoch: int, directories: Sequence[int]) -> bytes:
    """BrokerRegistrationChange of the log directories alone."""
    return b"\x01\x11\x02" + struct.pack(">iq", broker, epoch) + _log_dirs(2, directories)


def quota(name: str | None, value: float, kind: str = "user") -> bytes:
    named = b"\0" if name is None else text(name)
    entity = uvarint(2) + text(kind) + named + b"\0"
    key = text("producer_byte_rate")
    return b"\x01\x0e\x00" + entity + key + struct.pack(">d?", value, False) + b"\0"


def unregister_broker(broker: int, epoch: int) -> bytes:
    return b"\x01\x01\x00" + struct.pack(">iq", broker, epoch) + b"\0"


def register_controller(controller: int) -> bytes:
    return b"\x01\x1b\x00" + struct.pack(">i", controller) + uuid(controller) + b"\0\x01\x01\0"


def unregister_controller(controller: int) -> bytes:
    return b"\x01\x1d\x00" + struct.pack(">i", controller) + b"\0"


def scram(name: str, mechanism: int = 1) -> bytes:
    secrets = b"\x02s\x02k\x02v" + struct.pack(">i", 4096)
    return b"\x01\x0b\x00" + text(name) + bytes([mechanism]) + secrets + b"\0"


def remove_scram(name: str, mechanism: int = 1) -> bytes:
    return b"\x01\x16\x00" + text(name) + bytes([mechanism]) + b"\0"


def fence_broker(broker: int, epoch: int) -> bytes:
    return b"\x01\x07\x00" + struct.pack(">iq", broker, epoch) + b"\0"


def config(resource_type: int, resource: str, name: str, value: str | None) -> bytes:
    head = b"\x01\x04\x00" + bytes([resource_type])
    said = b"\0" if value is None else text(value)
    return head + text(resource) + text(name) + said + b"\0"


def feature(name: str, level: int) -> bytes:
    return b"\x01\x0c\x00" + text(name) + struct.pack(">h", level) + b"\0"


def acl(number: int, resource: str, principal: str = "User:ann") -> bytes:
    where = b"\x02" + text(resource) + b"\x03" + text(principal) + text("*")
    return b"\x01\x12\x00" + uuid(number) + where + b"\x03\x03\0"


def remove_acl(number: int) -> bytes:
    return b"\x01\x13\x00" + uuid(number) + b"\0"


TRANSACTION = {
    "begin": b"\x01\x17\x00\x00",
    "end": b"\x01\x18\x00\x00",
    "abort": b"\x01\x19\x00\x00",
}


def leader_change(
    base: int,
    epoch: int,
    leader: int,
    ms: int = START_MS,
    granted: Sequence[int] = (1, 2, 3),
    voters: Sequence[int] = (1, 2, 3),
) -> Batch:
    named, votes = (
        uvarint(len(ids) + 1) + b"".join(struct.pack(">i", one) + b"\0" for one in ids)
        for ids in (voters, granted)
    )
    value = struct.pack(">hi", 0, leader) + named + votes + b"\0"
    return Batch(base, epoch, (value,), (struct.pack(">hh", 0, 2),), ms)


def kraft_voters(
    *voters: int, levels: tuple[int, int] = (0, 1), listener: str = "CONTROLLER", disks: int = 0
) -> bytes:
    """A KRaftVoters record of voters, each with the directory of its number, or so many above that,
    these levels of kraft.version, and a listener of that name.
    """
    return voters_record([(one, one + disks) for one in voters], levels, listener)


def voters_record(
    members: Sequence[tuple[int, int]],
    levels: tuple[int, int] = (0, 1),
    listener: str = "CONTROLLER",
) -> bytes:
    """The same of voters' ids and the numbers of their directories."""
    places = b"\x02" + text(listener) + text("host") + struct.pack(">H", 9093) + b"\0"
    each = b"".join(
        struct.pack(">i", one) + disk_uuid(disk) + places + struct.pack(">hh", *levels) + b"\0\0"
        for one, disk in members
    )
    return struct.pack(">h", 0) + uvarint(len(members) + 1) + each + b"\0"


def voters_batch(base: int, epoch: int, *voters: int, ms: int = START_MS, disks: int = 0) -> Batch:
    record = kraft_voters(*voters, disks=disks)
    return Batch(base, epoch, (record,), (struct.pack(">hh", 0, 6),), ms)


def snapshot(
    batches: Sequence[Batch],
    epoch: int,
    ms: int,
    footer: bool = True,
    voters: Sequence[int] = (),
    disks: int = 0,
) -> bytes:
    """A checkpoint of the records of some batches."""
    head = struct.pack(">hq", 0, ms) + b"\0"
    parts = [Batch(0, epoch, (head,), (struct.pack(">hh", 0, 3),), ms)]
    if voters:
        parts.append(voters_batch(1, epoch, *voters, ms=ms, disks=disks))
    for one in batches:
        parts.append(Batch(parts[-1].end, epoch, one.values, None, ms))
    if footer:
        parts.append(
            Batch(
                parts[-1].end, epoch, (struct.pack(">h", 0) + b"\0",), (struct.pack(">hh", 0, 4),)
            )
        )
    return b"".join(one.raw() for one in parts)


def healthy_log() -> list[Batch]:
    """Offsets 0 to 11: epoch 1 from 0 on, epoch 2 from 8 on; a second between two batches."""
    plain = [
        leader_change(0, 1, 1),
        Batch(1, 1, (topic("a", 1), partition(1, [1, 2], [1, 2], 1))),
        Batch(3, 1, (NO_OP,)),
        Batch(4, 1, (producer_ids(1000), topic("b", 2))),
        Batch(6, 1, (NO_OP,)),
        Batch(7, 1, (NO_OP,)),
        leader_change(8, 2, 2),
        Batch(9, 2, (NO_OP,)),
        Batch(10, 2, (topic("c", 3),)),
        Batch(11, 2, (NO_OP,)),
    ]
    return [
        Batch(one.base, one.epoch, one.values, one.keys, START_MS + 1000 * index)
        for index, one in enumerate(plain)
    ]


def healthy_state() -> list[Batch]:
    """The records that a snapshot of the whole healthy log holds: the topics a, b and c."""
    return [healthy_log()[1], healthy_log()[3], healthy_log()[8]]


class Node:
    """One replica's folder."""

    def __init__(self, root: Path, node_id: int) -> None:
        self.node_id, self.home = node_id, root / str(node_id)
        self.folder = self.home / FOLDER
        self.folder.mkdir(parents=True)

    def segment(self, base: int) -> Path:
        return self.folder / f"{base:020d}.log"

    def checkpoint(self, end: int, epoch: int) -> Path:
        return self.folder / f"{end:020d}-{epoch:010d}.checkpoint"

    def write(self, log: Sequence[Batch], cut: int = 6) -> None:
        """The log in two segments, the snapshot (6, 1), and the side files."""
        first = [one for one in log if one.base < cut]
        rest = [one for one in log if one.base >= cut]
        if first:
            self.segment(first[0].base).write_bytes(b"".join(one.raw() for one in first))
        if rest:
            self.segment(rest[0].base).write_bytes(b"".join(one.raw() for one in rest))
        stored = [healthy_log()[1], healthy_log()[3]]
        self.checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))
        self.epochs([(1, 0), (2, 8)])
        self.quorum_state(leaderId=2, leaderEpoch=2)
        self.meta()

    def epochs(self, entries: list[tuple[int, int]]) -> None:
        lines = "".join(f"{epoch} {start}\n" for epoch, start in entries)
        (self.folder / "leader-epoch-checkpoint").write_text(f"0\n{len(entries)}\n{lines}")

    def quorum_state(self, **fields: object) -> None:
        voters = [{"voterId": one} for one in (1, 2, 3)]
        state = {"clusterId": "", "votedId": -1, "appliedOffset": 0, "currentVoters": voters}
        disk = {"votedDirectoryId": uuid_text(0)}
        told = {"votedId": -1, **disk} if fields.get("data_version") == 1 else {**state, **disk}
        text = json.dumps({**told, "data_version": 0, **fields})
        (self.folder / "quorum-state").write_text(text)

    def meta(
        self, cluster: str = CLUSTER, node_id: int | None = None, directory: int | None = None
    ) -> None:
        number = self.node_id if node_id is None else node_id
        where = disk_text(number if directory is None else directory)
        (self.home / "meta.properties").write_text(
            f"version=1\nnode.id={number}\ncluster.id={cluster}\ndirectory.id={where}\n"
        )

    def append(self, *batches: Batch) -> None:
        last = sorted(self.folder.glob("*.log"))[-1]
        last.write_bytes(last.read_bytes() + b"".join(one.raw() for one in batches))


def quorum(root: Path) -> list[Node]:
    """Voters 1, 2 and 3, which agree on everything."""
    nodes = [Node(root, number) for number in (1, 2, 3)]
    for node in nodes:
        node.write(healthy_log())
    return nodes


def change_snapshot(node: Node) -> None:
    """The topic a has another name in its snapshot at offset 6."""
    stored = [replace(healthy_log()[1], values=(topic("z", 1),)), healthy_log()[3]]
    node.checkpoint(6, 1).write_bytes(snapshot(stored, 1, START_MS + 3000))


def begun_apart(root: Path, held: Collection[int]) -> None:
    """Some of the voters, whose logs begin at their snapshots; the first one's was changed."""
    for node in quorum(root):
        node.segment(0).unlink()
        if node.node_id not in held:
            shutil.rmtree(node.home)
        elif node.node_id == 1:
            change_snapshot(node)


NO_PRODUCERS = bytes.fromhex("0001 48674bc7 00000000")
"""A producer snapshot as Kafka writes it of this log, byte for byte (its goldens)."""


def stopped(node: Node, end: int) -> None:
    """What a clean stop leaves: a producer snapshot at the end, an index without padding."""
    (node.folder / f"{end:020d}.snapshot").write_bytes(NO_PRODUCERS)
    node.segment(6).with_suffix(".index").write_bytes(b"")


COPIED_MS = START_MS + 9_500
"""After the last record of the copies, and before what the leader wrote next."""


def copied_live(
    root: Path, *, is_pulled: bool = True, keeping_up: Sequence[int] = ()
) -> list[Node]:
    """Voters that were copied while their quorum ran, each a record later than the one before; then
    the leader was pulled, which had committed one more, and said so.
    """
    more = [
        Batch(base, 2, (NO_OP,), None, START_MS + 10_000 + 500 * (base - 12))
        for base in range(12, 15)
    ]
    nodes = quorum(root)
    for number, node in enumerate(nodes):
        if number:
            node.append(*more[:number])
        copied_at(node, COPIED_MS + 500 * number)
    if is_pulled:
        live = Node(root, 9)
        live.write([*healthy_log(), *more])
        (live.folder / "quorum-state").unlink()
        live.meta(node_id=-1, directory=9)
        describe(live, 2, 2, 15, keeping_up=keeping_up)
    return nodes


def describe(
    node: Node,
    leader: int,
    epoch: int,
    high_watermark: int,
    voters: Sequence[int] = (1, 2, 3),
    keeping_up: Sequence[int] = (),
) -> None:
    """Save a describe beside a copy; with who keeps up, it has the table of `--replication`."""
    now, long_ago = START_MS + 11_500, START_MS + 2_000
    table = "".join(
        f"{one}\t{high_watermark}\t0\t{ms}\t{ms}\t{'Leader' if one == leader else 'Follower'}\n"
        for one in voters
        for ms in [now if one in keeping_up else long_ago]
    )
    head = "NodeId\tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus"
    (node.home / "quorum-describe").write_text(
        f"LeaderId: {leader}\nLeaderEpoch: {epoch}\nHighWatermark: {high_watermark}\nCurrentVoters: {list(voters)}\n"
        + (f"\n{head}\n{table}" if keeping_up else "")
    )


def copied_at(node: Node, ms: int) -> None:
    for path in node.folder.glob("*.log"):
        os.utime(path, ns=(ms * 10**6, ms * 10**6))


def audit(
    *roots: Path, limits: Limits = LIMITS, thresholds: Thresholds | None = None
) -> AuditResult:
    """Audit the replicas below some folders."""
    replicas = find_replicas([str(one) for one in roots])
    thresholds, told = thresholds or default_thresholds(), described_beside(replicas)
    key = Redactor(b"k" * 32)
    return audit_of(Quorum(collect(replicas, limits, key, told, thresholds=thresholds)))


def found(result: AuditResult, check: str) -> list[Finding]:
    """The findings of one check; no check may break on the way."""
    assert not [one for one in result.results if one.result == "errored"]
    return [one for one in result.findings if one.check == check]


def batch_starts(raw: bytes | bytearray) -> list[int]:
    """Where the batches of a file begin, up to the first one that is not whole."""
    starts, at = [], 0
    while at + HEADER_SIZE <= len(raw):
        size = 12 + int.from_bytes(raw[at + 8 : at + 12], "big")
        if size < HEADER_SIZE or at + size > len(raw):
            break
        starts.append(at)
        at += size
    return starts


def overwrite(path: Path, position: int, data: bytes) -> None:
    """Change bytes of a file in place."""
    raw = path.read_bytes()
    path.write_bytes(raw[:position] + data + raw[position + len(data) :])


def led_next(node: Node, epoch: int, leader: int, granted: Sequence[int] = (1, 2)) -> None:
    """A log that goes on at offset 12 with the leader of a newer epoch."""
    node.append(leader_change(12, epoch, leader, START_MS + 20_000, granted))
    node.quorum_state(leaderId=leader, leaderEpoch=epoch)
    node.epochs([(1, 0), (2, 8), (epoch, 12)])


def elected_without(
    nodes: Sequence[Node], absent: int, elections: Sequence[tuple[int, int, int]] = ((8, 2, 2),)
) -> None:
    """Write anew who elected the leaders of some epochs, each by its offset, epoch and leader: not a
    voter that was absent.
    """
    granted = [one for one in (1, 2, 3) if one != absent]
    for base, epoch, leader in elections:
        elected = leader_change(base, epoch, leader, START_MS + 750 * base, granted).raw()
        for node in nodes:
            replace_batch(node, base, lambda _, raw=elected: raw)


def replace_batch(node: Node, base: int, make: Callable[[Batch], bytes]) -> int:
    """Write other bytes in the place of the batch at an offset; returns its position."""
    for segment in sorted(node.folder.glob("*.log")):
        parts, at, position = [], 0, -1
        raw = segment.read_bytes()
        for one in healthy_log():
            size = len(one.raw())
            if raw[at : at + size] != one.raw():
                continue
            position = at if one.base == base else position
            parts.append(make(one) if one.base == base else one.raw())
            at += size
        if position >= 0:
            segment.write_bytes(b"".join(parts))
            return position
    raise AssertionError(f"no batch begins at offset {base}")


def deny(monkeypatch: pytest.MonkeyPatch, *nodes: Node, named: str = "*.log") -> None:
    """The segments, or other files, are there, and cannot be opened."""
    files = [one for node in nodes for one in node.folder.glob(named)]
    opened = os.open

    def refuse(path: Any, *rest: Any, **more: Any) -> int:
        if Path(os.fsdecode(path)) in files:
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
