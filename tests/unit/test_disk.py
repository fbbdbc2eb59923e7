"""What Kafka meets on a disk when it opens the folder: where recovery stops, which snapshots load,
which files refuse.
"""

import struct
from pathlib import Path

import pytest

from kraftlog.decode.redaction import Redactor
from kraftlog.log.directory import IS_FOLDER, find_replicas
from kraftlog.quorum.epochs import EpochVector
from kraftlog.quorum.evidence import FileProblem, SideFile
from kraftlog.quorum.model import Quorum
from kraftlog.simulate.boot import BadRecord, Disk, SnapshotFile, boot
from kraftlog.simulate.disk import disk_of, replayed_records
from kraftlog.simulate.extent import SnapshotId
from tests.collecting import collect
from tests.property.engines import sealed
from tests.unit.audit_logs import (
    LIMITS,
    NO_OP,
    Batch,
    Node,
    frame,
    healthy_log,
    overwrite,
    partition,
    quorum,
    replace_batch,
    topic,
)
from tests.unit.audit_logs import snapshot as checkpoint
from tests.unit.faults.table import AT, END_POSITION, LATER

FIRST, SECOND = f"{0:020d}.log", f"{6:020d}.log"
WHOLE = EpochVector(((1, 0), (2, 8)), 12)


def disk(root: Path, *, replay: bool = False) -> Disk:
    """That of node 1."""
    found = Quorum(collect(find_replicas([str(root)]), LIMITS, Redactor(None), replay=replay))
    return disk_of(found, found.by_label["1"])


def test_a_sound_disk(tmp_path: Path) -> None:
    quorum(tmp_path)
    snapshot = SnapshotFile(SnapshotId(1, 6), None, is_complete=True)
    assert disk(tmp_path) == Disk(0, WHOLE, (snapshot,), None, (), (), ())


@pytest.mark.parametrize(
    ("base", "magic", "end", "boots"),
    [
        (9, 3, 12, False),
        (11, 127, 12, False),
        (3, 3, 12, True),  # the snapshot that a start begins with ends behind it
        (11, 1, 11, True),
        (11, 0x82, 11, True),
    ],
)
def test_recovery_keeps_a_whole_batch_of_a_magic_above_2(
    tmp_path: Path, base: int, magic: int, end: int, boots: bool
) -> None:
    """As Kafka 4.3.1's KafkaRaftLog does, which cuts what is below 2 as a signed byte."""
    node = quorum(tmp_path)[0]
    overwrite(node.segment(0 if base < 6 else 6), AT[base] + 16, bytes([magic]))
    found = disk(tmp_path)
    assert found.vector.end_offset == end
    assert (found.cut is None) == (magic in (3, 127))
    assert boot(found).boots is boots


@pytest.mark.parametrize(
    ("base", "segment", "epochs"),
    [
        (0, 0, ()),
        (3, 0, ((1, 0),)),
        (7, 6, ((1, 0),)),
        (8, 6, ((1, 0),)),
        (9, 6, ((1, 0), (2, 8))),
    ],
)
def test_recovery_stops_at_the_first_wrong_crc(
    tmp_path: Path, base: int, segment: int, epochs: tuple[tuple[int, int], ...]
) -> None:
    """And drops all that follows, in the segments behind it, too."""
    node = quorum(tmp_path)[0]
    for damaged in {base, 10}:
        overwrite(node.segment(0 if damaged < 6 else 6), AT[damaged] + 17, b"\xaa\xbb\xcc")
    found = disk(tmp_path)
    assert found.vector == EpochVector(epochs, base)
    name = f"{segment:020d}.log"
    assert found.cut == f"a batch whose CRC is wrong at byte {AT[base]:,} of {name}"


def test_what_comes_first_in_a_file_counts(tmp_path: Path) -> None:
    """Garbage before a batch with a wrong CRC, and behind one."""
    node = quorum(tmp_path)[0]
    raw = node.segment(6).read_bytes()
    between = raw[: AT[9]] + b"\x07" * 30 + raw[AT[9] :]
    node.segment(6).write_bytes(between)
    overwrite(node.segment(6), AT[10] + 30 + 17, b"\xaa\xbb\xcc")
    found = disk(tmp_path)
    assert found.vector == EpochVector(((1, 0), (2, 8)), 9)
    assert found.cut is not None
    assert found.cut.endswith(f" at byte {AT[9]:,} of {SECOND}")
    overwrite(node.segment(6), AT[7] + 17, b"\xaa\xbb\xcc")
    assert disk(tmp_path).cut == f"a batch whose CRC is wrong at byte {AT[7]:,} of {SECOND}"


def test_bytes_behind_the_last_batch_are_cut(tmp_path: Path) -> None:
    path = quorum(tmp_path)[0].segment(6)
    path.write_bytes(path.read_bytes() + bytes(100))
    found = disk(tmp_path)
    assert found.vector == WHOLE
    assert found.cut == f"100 zero bytes at byte {END_POSITION:,} of {SECOND}"


@pytest.mark.parametrize(
    ("base", "raw", "cut"),
    [
        (9, b"", "its last segment, 00000000000000000009.log, ends there"),
        (9, bytes(100), "100 zero bytes at byte 0 of 00000000000000000009.log"),
        (12, b"", None),
        (15, b"", None),
    ],
)
def test_a_log_ends_where_its_last_segment_does(
    tmp_path: Path, base: int, raw: bytes, cut: str | None
) -> None:
    """As Kafka 4.4.0 does, whatever the segments before it hold."""
    quorum(tmp_path)[0].segment(base).write_bytes(raw)
    found = disk(tmp_path)
    assert found.vector == EpochVector(WHOLE.entries, base)
    assert found.cut == cut


def test_a_last_segment_that_repeats_the_batches_before_it(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    held = node.segment(6).read_bytes()
    node.segment(7).write_bytes(held[AT[7] : AT[8]])
    found = disk(tmp_path)
    assert found.vector == EpochVector(((1, 0),), 8)
    assert found.cut == "its last segment, 00000000000000000007.log, ends there"


@pytest.mark.parametrize(
    ("offset", "is_held"), [(5, False), (6, True), ((1 << 31) + 5, True), ((1 << 31) + 6, False)]
)
def test_a_segment_holds_offsets_of_32_bits_from_its_name_on(
    tmp_path: Path, offset: int, is_held: bool
) -> None:
    """As Kafka 4.3.1 does: it cuts nothing at such a batch, and refuses to start."""
    node = quorum(tmp_path)[0]
    overwrite(node.segment(6), AT[7], struct.pack(">q", offset))
    refused = (
        f"a batch in {SECOND} says that it begins at offset {offset}, which that file cannot hold"
    )
    assert disk(tmp_path).problems == (() if is_held else (refused,))
    overwrite(node.segment(0), AT[3] + 17, b"\xaa\xbb\xcc")
    assert disk(tmp_path).problems == (), "the log is cut before"


def loadable(root: Path) -> str | None:
    ((only),) = disk(root).snapshots
    return only.unreadable


def test_why_a_snapshot_does_not_load(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    path = node.checkpoint(6, 1)
    raw = path.read_bytes()
    assert loadable(tmp_path) is None
    # A torn end is not noticed, nor is what is too short to name a size; what is no batch is.
    for unnoticed in (raw[:-5], raw + bytes(11)):
        path.write_bytes(unnoticed)
        assert loadable(tmp_path) is None
    path.write_bytes(raw + bytes(12))
    assert loadable(tmp_path) == "12 zero bytes"
    header = 12 + int.from_bytes(raw[8:12], "big")
    path.write_bytes(raw[:header] + b"\x07" * 40 + raw[header:])
    assert loadable(tmp_path) == "40 bytes without a record batch, before a valid one"
    path.write_bytes(raw)
    overwrite(path, 150, b"\x55")
    assert loadable(tmp_path) == "a batch's CRC is wrong"
    for without in (raw[header:], b"", raw[:55]):
        path.write_bytes(without)
        assert loadable(tmp_path) == "it does not begin with a snapshot header"


def test_bytes_behind_the_records_of_a_snapshots_header(tmp_path: Path) -> None:
    """Kafka 4.3.1 loads all of it."""
    path = quorum(tmp_path)[0].checkpoint(6, 1)
    raw = path.read_bytes()
    header = 12 + int.from_bytes(raw[8:12], "big")
    path.write_bytes(sealed(raw[:header] + bytes(3)) + raw[header:])
    assert disk(tmp_path).snapshots == (SnapshotFile(SnapshotId(1, 6)),)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (f"{9:020d}-0000000002 (copy).checkpoint", SnapshotId(2, 9)),
        (f"{9:020d}-0000000002x.checkpoint", SnapshotId(2, 9)),
        (f"{9:020d}_0000000002.bad.checkpoint", SnapshotId(2, 9)),
        (f"{9:020d}-{2 * 10**8:018d}.checkpoint", SnapshotId(2, 9)),
        (f"{6:020d}-0000000001.bad.checkpoint", None),
        (f"{9:020d}-0000000002.bad.checkpoint.deleted", None),
        (f"{9:020d}-0000000002.checkpoint.bad", None),
        (f"-{9:019d}-0000000002.bad.checkpoint", None),
    ],
)
def test_a_snapshot_that_kafka_knows_by_the_columns_of_a_name(
    tmp_path: Path, name: str, known: SnapshotId | None
) -> None:
    """As Kafka 4.3.1 lists them; the last but three lies beside the one that it opens."""
    node = quorum(tmp_path)[0]
    (node.folder / name).write_bytes(node.checkpoint(6, 1).read_bytes())
    own = SnapshotFile(SnapshotId(1, 6))
    told = f"{name} is not named as Kafka names its snapshots, so Kafka does not find it"
    unfound = [] if known is None else [SnapshotFile(known, told, is_found=False)]
    found = disk(tmp_path)
    assert found.snapshots == (own, *unfound)
    assert found.notes == (() if known is None else (told,))


def test_a_folder_in_the_place_of_a_snapshot(tmp_path: Path) -> None:
    """Kafka 4.3.1 takes it for one by its name, and cannot read it."""
    node = quorum(tmp_path)[0]
    node.checkpoint(7, 1).mkdir()
    folder = SnapshotFile(SnapshotId(1, 7), IS_FOLDER)
    assert disk(tmp_path).snapshots == (SnapshotFile(SnapshotId(1, 6)), folder)


ABORTED = struct.Struct(">bxqqqq")


@pytest.mark.parametrize(
    ("raw", "is_refused"),
    [
        (b"", False),
        (b"0" * 33, False),
        (b"0" * 34, True),
        (ABORTED.pack(0, 7, 6, 8, 9), False),
        (ABORTED.pack(-1, 7, 6, 8, 9), False),
        (ABORTED.pack(1, 7, 6, 8, 9), True),
        (struct.pack(">hqqqq", 5, 7, 6, 8, 9), False),
        (ABORTED.pack(0, 7, 6, 8, 9) + ABORTED.pack(1, 7, 0, 0, 0), True),
        (ABORTED.pack(0, 7, 0, 5, 9) + ABORTED.pack(1, 7, 6, 8, 9), False),
    ],
)
def test_a_transaction_index_of_a_version_that_kafka_does_not_know(
    tmp_path: Path, raw: bytes, is_refused: bool
) -> None:
    """As Kafka 4.3.1 does. Of a segment without an `.index` it empties the file before."""
    segment = quorum(tmp_path)[0].segment(6)
    segment.with_suffix(".txnindex").write_bytes(raw)
    segment.with_suffix(".index").touch()
    found = disk(tmp_path).problems
    assert [one.startswith("Kafka cannot open the log over 0000") for one in found] == [True] * (
        is_refused
    )
    segment.with_suffix(".index").unlink()
    assert disk(tmp_path).problems == ()


@pytest.mark.parametrize("ending", [".index", ".timeindex", ".txnindex"])
def test_a_folder_in_the_place_of_an_index(tmp_path: Path, ending: str) -> None:
    """Kafka 4.3.1 opens no log with it, beside a segment."""
    node = quorum(tmp_path)[0]
    node.segment(3).with_suffix(ending).mkdir()
    assert disk(tmp_path).problems == ()
    node.segment(6).with_suffix(ending).mkdir()
    told = f"Kafka cannot open the log over {6:020d}{ending}: {IS_FOLDER}"
    assert disk(tmp_path).problems == (told,)


def problems(root: Path) -> list[str]:
    return list(disk(root).problems)


def test_files_that_refuse(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    (node.folder / "quorum-state").write_text("{")
    (node.folder / "leader-epoch-checkpoint").write_text("9\n")
    (node.folder / "partition.metadata").write_text("nothing")
    (node.home / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=\n")
    told = [one.split(":")[0] for one in problems(tmp_path)]
    assert sorted(told) == [
        "Kafka does not take meta.properties",
        "leader-epoch-checkpoint cannot be read",
        "partition.metadata cannot be read",
        "quorum-state cannot be read",
    ]


def test_a_copy_without_meta_properties_may_be_a_log_folder_alone(tmp_path: Path) -> None:
    """Kafka 3.9.1 to 4.3.1 do not start without the file."""
    node = quorum(tmp_path)[0]
    assert not any("meta.properties" in one for one in disk(tmp_path).notes)
    (node.home / "meta.properties").unlink()
    assert problems(tmp_path) == []
    assert disk(tmp_path).notes[-1:] == (
        "no meta.properties was copied with it, and Kafka does not start without that file",
    )


def test_a_disk_under_another_node(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    settings = nodes[0].home / "server.properties"
    settings.write_text("node.id=1\n")
    assert problems(tmp_path) == []
    settings.write_text("broker.id=2\n")
    assert problems(tmp_path) == [
        "its disk is of node 1 by meta.properties, and its server.properties is of node 2"
    ]


@pytest.mark.parametrize("directory", [1, 7])
def test_a_node_starts_with_one_of_its_disks(directory: int, tmp_path: Path) -> None:
    """Each answer is about one folder alone: the same disk once more, or another one."""
    quorum(tmp_path)
    Node(tmp_path, 7).write(healthy_log())
    node = Node(tmp_path / "more", 1)
    node.write(healthy_log())
    node.meta(directory=directory)
    assert disk(tmp_path).notes == (
        "more/1 is of node 1 as well: start it with one of these folders only",
    )


def test_a_quorum_state_of_a_version_that_is_unknown(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    for version, known in ((0, True), (1, True), (2, False)):
        node.quorum_state(leaderId=2, leaderEpoch=2, data_version=version)
        told = (
            f"quorum-state cannot be read: data_version {version} is unknown: Kafka reads 0 and 1"
        )
        assert problems(tmp_path) == ([] if known else [told])


def test_partition_metadata_names_the_topic(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    path = node.folder / "partition.metadata"
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    assert problems(tmp_path) == []
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    told = "partition.metadata names another topic id, AAAAAAAAAAAAAAAAAAAAAg"
    assert problems(tmp_path) == [told]
    # Kafka compares the bytes.
    for alike in ("AAAAAAAAAAAAAAAAAAAAAQ==", "AAAAAAAAAAAAAAAAAAAAAR"):
        path.write_text(f"version: 0\ntopic_id: {alike}")
        assert problems(tmp_path) == []


def test_a_side_file_that_is_a_folder_refuses(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    (node.folder / "quorum-state").unlink()
    (node.folder / "quorum-state").mkdir()
    (told,) = problems(tmp_path)
    assert told.startswith("quorum-state cannot be read: ")


def test_a_side_file_that_is_gone_meanwhile_says_so(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    replicas = find_replicas([str(tmp_path)])
    path = node.folder / "quorum-state"
    modified_ms = path.stat().st_mtime_ns // 1_000_000
    path.unlink()
    found = collect(replicas, LIMITS, Redactor(None), replay=False).replicas[0].quorum_state
    problem = FileProblem(str(path), "quorum_state", "No such file or directory", True)
    assert found == SideFile(str(path), modified_ms, None, unread=problem)


def test_a_record_that_cannot_be_decoded_and_offsets_that_are_missing(tmp_path: Path) -> None:
    nodes = quorum(tmp_path)
    replace_batch(nodes[0], 3, lambda one: b"")
    replace_batch(nodes[0], 9, lambda one: b"")
    for node in nodes:
        node.append(Batch(12, 2, (NO_OP, topic("d", 4) + b"\0"), None, LATER))
    found = disk(tmp_path)
    assert [one.offset for one in found.bad_records] == [13]
    assert "1 byte left after TopicRecord" in found.bad_records[0].text
    assert found.notes == ("offset 3 is missing, and Kafka does not notice",)
    assert found.cut is None


KEYED = frame(0, b"key", NO_OP)
UNREAD = {
    "the batch there holds no record": Batch(12, 2, (NO_OP,), None, LATER, payload=b"", count=0),
    "it has a key of 3 bytes": Batch(12, 2, (NO_OP,), None, LATER, payload=KEYED),
    "its timestamp delta is 5": Batch(
        12, 2, (NO_OP,), None, LATER, payload=frame(0, None, NO_OP, 5)
    ),
    "it has 1 record header": Batch(
        12, 2, (NO_OP,), None, LATER, payload=frame(0, None, NO_OP, headers=b"\x02\x02k\x02v")
    ),
    "its type is COMMIT, a producer's marker, and Kafka's reader of this log knows none": Batch(
        12, 2, (bytes(6),), (b"\0\0\0\x01",), LATER
    ),
}
"""What is told → the batch, at which Kafka 4.3.1's reader throws, in a log as in a snapshot."""
READ = {
    "bytes after the last record": Batch(12, 2, (NO_OP,), None, LATER, payload=frame(0, None, NO_OP) + b"xx"),
    "an offset delta that is no index": Batch(12, 2, (NO_OP,), None, LATER, payload=frame(5, None, NO_OP)),
    "attributes of a record": Batch(12, 2, (NO_OP,), None, LATER, payload=frame(0, None, NO_OP, attributes=5)),
    "a batch of a producer's transaction": Batch(12, 2, (NO_OP,), None, LATER, 0x10),
    "nothing": Batch(12, 2, (NO_OP,), None, LATER),
}  # fmt: skip


@pytest.mark.parametrize("text", UNREAD)
def test_what_kafkas_reader_refuses(tmp_path: Path, text: str) -> None:
    node = quorum(tmp_path)[0]
    node.append(UNREAD[text])
    assert disk(tmp_path).bad_records == (BadRecord(12, text, 12),)
    path = node.checkpoint(6, 1)
    path.write_bytes(path.read_bytes() + UNREAD[text].raw())
    of_snapshot = f"Kafka cannot read on in it: {text}"
    if text.startswith("the batch"):
        of_snapshot = "a batch in it holds no record"
    assert loadable(tmp_path) == of_snapshot


@pytest.mark.parametrize("name", READ)
def test_what_kafkas_reader_reads(tmp_path: Path, name: str) -> None:
    node = quorum(tmp_path)[0]
    node.append(READ[name], Batch(13, 2, (NO_OP, NO_OP), None, LATER))
    assert disk(tmp_path).bad_records == ()
    path = node.checkpoint(6, 1)
    path.write_bytes(path.read_bytes() + READ[name].raw())
    assert loadable(tmp_path) is None


def test_a_control_record_of_a_newer_kafka_is_its_own(tmp_path: Path) -> None:
    """Kafka 4.3.1 throws at it, and the Kafka that wrote it does not."""
    quorum(tmp_path)[0].append(Batch(12, 2, (bytes(6),), (b"\0\0\0\x09",), LATER))
    found = disk(tmp_path)
    assert found.bad_records == ()
    assert found.newer_records == (BadRecord(12, "UNKNOWN_CONTROL_9 is unknown", 12),)


def test_a_batch_with_fewer_records_than_its_header_says_is_read(tmp_path: Path) -> None:
    """Where it ends, Kafka 4.3.1 reads on for the record that is not there."""
    quorum(tmp_path)[0].append(Batch(12, 2, (NO_OP,), None, LATER, count=2))
    text = "record 1: the header says 2 records, the batch holds 1"
    assert disk(tmp_path).bad_records == (BadRecord(12, text, 12),)


def test_a_record_of_a_newer_kafka_in_a_snapshot(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    assert disk(tmp_path).snapshots[-1].newer is None
    batch = Batch(6, 1, (bytes(6),), (b"\0\0\0\x09",), LATER)
    path = node.checkpoint(6, 1)
    path.write_bytes(path.read_bytes() + batch.raw())
    assert disk(tmp_path).snapshots[-1].newer == "UNKNOWN_CONTROL_9 is unknown"


MARKER, LEVEL = (bytes(6), b"\0\0\0\x01"), (b"\0\0\0\1\0", b"\0\0\0\5")


@pytest.mark.parametrize(
    ("base", "record", "producer", "is_refused"),
    [
        (3, LEVEL, 7, True),
        (12, LEVEL, 0, True),
        (12, LEVEL, -1, False),
        (12, LEVEL, -2, False),
        (12, MARKER, 7, False),
        (12, (NO_OP, None), 7, False),
    ],
)
def test_a_control_batch_that_names_a_producer(
    tmp_path: Path, base: int, record: tuple[bytes, bytes | None], producer: int, is_refused: bool
) -> None:
    """Kafka 4.3.1 opens no log with it, also where a snapshot holds the offset."""
    value, key = record
    batch = Batch(base, 1 if base < 8 else 2, (value,), (key,) if key else None, LATER)
    raw = bytearray(batch.raw())
    raw[43:51] = struct.pack(">q", producer)
    node = quorum(tmp_path)[0]
    if base < 12:
        replace_batch(node, base, lambda one: sealed(bytes(raw)))
    else:
        node.segment(6).write_bytes(node.segment(6).read_bytes() + sealed(bytes(raw)))
    text = f"Kafka cannot open the log over the batch at offset {base}: its batch names a producer, so that Kafka takes it for the end of a producer's transaction, and it is none"
    assert disk(tmp_path).problems == ((text,) if is_refused else ())


def test_a_control_batch_behind_the_cut_is_not_looked_at(tmp_path: Path) -> None:
    node = quorum(tmp_path)[0]
    raw = bytearray(Batch(12, 2, (LEVEL[0],), (LEVEL[1],), LATER).raw())
    raw[43:51] = struct.pack(">q", 7)
    node.segment(6).write_bytes(node.segment(6).read_bytes() + sealed(bytes(raw)))
    overwrite(node.segment(6), AT[11] + 17, b"\xaa\xbb\xcc")
    assert disk(tmp_path).problems == ()


@pytest.mark.parametrize(
    ("rest", "stop"),
    [
        (b"", None),
        (bytes(17), None),
        (bytes(18), 0),
        (b"\xff" * 17, None),
        (b"\xff" * 100, 0),
        (b"0" * 100, None),
        (struct.pack(">qi", 12, 13) + b"0" * 40, 0),
        (struct.pack(">qi", 12, 14) + b"0" * 40, None),
        (struct.pack(">qi", 12, 14) + b"0" * 14 + bytes(18), 26),
        (healthy_log()[-1].raw()[:-1], None),
        (healthy_log()[-1].raw()[:-1] + b"\xff", None),
    ],
)
def test_what_stands_behind_the_batches_of_a_swap_file(
    tmp_path: Path, rest: bytes, stop: int | None
) -> None:
    """Kafka 4.3.1 goes through it by lengths before it cuts anything, and refuses one below 14."""
    node = quorum(tmp_path)[0]
    node.segment(6).with_suffix(".log.swap").write_bytes(node.segment(6).read_bytes() + rest)
    told = "before it gives that file its name back: what stands there is no batch"
    at = [] if stop is None else [f"{END_POSITION + stop:,}"]
    fails = tuple(f"Kafka fails at byte {one} of {SECOND}.swap {told}" for one in at)
    assert disk(tmp_path).problems == fails


def test_a_level_of_kraft_version_in_a_log(tmp_path: Path) -> None:
    """Kafka 4.4.0 throws at both; another Kafka may know the higher one."""
    key = (struct.pack(">hh", 0, 5),)
    for level in (0, 1, 2, -1):
        value = struct.pack(">hh", 0, level) + b"\0"
        (tmp_path / str(level)).mkdir()
        quorum(tmp_path / str(level))[0].append(Batch(12, 2, (value,), key, LATER))
    for level in (0, 1):
        found = disk(tmp_path / str(level))
        assert (found.bad_records, found.newer_records) == ((), ())
    (newer,) = disk(tmp_path / "2").newer_records
    assert newer == BadRecord(12, "level 2 of feature kraft.version is unknown", 12)
    (bad,) = disk(tmp_path / "-1").bad_records
    assert bad == BadRecord(12, "its kraft.version is -1, and no level is below 0", 12)


def test_a_snapshot_whose_records_cannot_be_replayed(tmp_path: Path) -> None:
    """That shows where its records are replayed."""
    node = quorum(tmp_path)[0]
    stored = [healthy_log()[1], Batch(0, 1, (partition(9, [1], [1], 1),))]
    node.checkpoint(6, 1).write_bytes(checkpoint(stored, 1, LATER))
    (found,) = disk(tmp_path, replay=True).snapshots
    assert found.unreadable is not None
    assert found.unreadable.startswith("at its record 3 (PARTITION_RECORD): there is no topic")


def test_records_that_are_replayed(tmp_path: Path) -> None:
    Node(tmp_path, 1).write(healthy_log())
    found = Quorum(collect(find_replicas([str(tmp_path)]), LIMITS, Redactor(None), replay=False))
    log = found.by_label["1"]
    # A batch that begins before the end is replayed whole: offsets 1 and 2 are one, 4 and 5 are.
    assert replayed_records(log, 0, 12) == 12
    assert replayed_records(log, 5, 12) == 7
    assert replayed_records(log, 2, 5) == 4
    assert replayed_records(log, 3, 4) == 1
    assert replayed_records(log, 11, 12) == 1
    assert replayed_records(log, 12, 12) == 0


def test_a_segment_that_is_gone_meanwhile_refuses_nothing(tmp_path: Path) -> None:
    """It was not copied; whether the node could read it nobody knows."""
    node = quorum(tmp_path)[0]
    replicas = find_replicas([str(tmp_path)])
    node.segment(6).unlink()
    found = Quorum(collect(replicas, LIMITS, Redactor(None), replay=False))
    assert disk_of(found, found.by_label["1"]).problems == ()
