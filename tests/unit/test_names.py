"""File names of a metadata log's folder."""

import pytest

from kraftlog.log import names
from kraftlog.log.names import FileName, checkpoint_name, classify, segment_name

OFFSET = "00000000000000001234"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{OFFSET}.log", FileName(names.LOG, base_offset=1234)),
        (f"{OFFSET}.log.deleted", FileName(names.LOG_DELETED, base_offset=1234)),
        (f"{OFFSET}.index", FileName(names.INDEX, base_offset=1234)),
        (f"{OFFSET}.timeindex", FileName(names.TIME_INDEX, base_offset=1234)),
        (f"{OFFSET}.snapshot", FileName("producer_snapshot", base_offset=1234)),
        (f"{OFFSET}.index.deleted", FileName("index_deleted", base_offset=1234)),
        ("quorum-state", FileName(names.QUORUM_STATE)),
        ("leader-epoch-checkpoint", FileName(names.EPOCH_CHECKPOINT)),
        ("partition.metadata", FileName(names.PARTITION_METADATA)),
        ("meta.properties", FileName(names.META_PROPERTIES)),
        ("bootstrap.checkpoint", FileName(names.BOOTSTRAP)),
    ],
)
def test_kinds(name: str, expected: FileName) -> None:
    assert classify(name) == expected


@pytest.mark.parametrize(
    ("name", "kind", "form"),
    [
        (f"{OFFSET}-0000000007.checkpoint", names.CHECKPOINT, names.SHIPPED),
        (f"{OFFSET}-000000000000000007.checkpoint", names.CHECKPOINT, names.KIP_PADDED),
        (f"{OFFSET}-7.checkpoint", names.CHECKPOINT, names.KIP_PLAIN),
        (f"{OFFSET}-007.checkpoint", names.CHECKPOINT, None),
        ("1234-7.checkpoint", names.CHECKPOINT, None),
        (f"{OFFSET}-0000000007.checkpoint.part", names.CHECKPOINT_PART, names.SHIPPED),
        (f"{OFFSET}-0000000007.checkpoint.deleted", names.CHECKPOINT_DELETED, names.SHIPPED),
        (f"{OFFSET}-0000000007-98765.checkpoint.part", names.CHECKPOINT_PART, names.SHIPPED),
    ],
)
def test_snapshots(name: str, kind: str, form: str | None) -> None:
    assert classify(name) == FileName(kind, end_offset=1234, epoch=7, form=form)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "log",
        "1234.log",
        f"{OFFSET}0.log",
        f"{OFFSET}.log\n",
        f"{OFFSET}.logs",
        f"{OFFSET}-.checkpoint",
        f"{OFFSET}-7.checkpoint.bak",
        f"-{OFFSET[1:]}.log",
        f"{1 << 63:020d}.log",
        f"{1 << 63:020d}-7.checkpoint",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١٢٣٤.log",
    ],
)
def test_other_names_are_unknown(name: str) -> None:
    assert classify(name) == FileName(names.UNKNOWN)


@pytest.mark.parametrize("offset", [0, 1234, (1 << 63) - 1])
def test_names_are_written_as_they_are_read(offset: int) -> None:
    assert classify(segment_name(offset)) == FileName(names.LOG, base_offset=offset)
    written = classify(checkpoint_name(offset, (1 << 31) - 1))
    assert (written.end_offset, written.epoch, written.form) == (
        offset,
        (1 << 31) - 1,
        names.SHIPPED,
    )


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        *((f"foo{one}", True) for one in (*names.SEGMENT_ENDINGS, *names.SNAPSHOT_ENDINGS)),
        (".log", True),
        (" 5.log", True),
        ("1_0.log", True),
        ("foo.log.swap", True),
        (f"{1 << 63}.log", True),
        (f"-{1 << 63}.log", False),
        (f"{(1 << 63) - 1}.index", False),
        ("5.log", False),
        ("+5.log", False),
        ("٥.log", False),
        (f"{OFFSET}.old.log", False),
        ("foo", False),
        ("foo.part", False),
        ("foo.log.deleted", False),
        (f"{OFFSET}-0000000007.checkpoint", False),
        (f"{OFFSET}-000000000000000007.checkpoint", False),
        (f"{OFFSET}-0000000007-copy.checkpoint", False),
        (f"{OFFSET}-7.checkpoint", True),
        (f"{OFFSET}-0000000007.checkpoint.deleted", False),
        (f"{OFFSET}-{1 << 31}.checkpoint.deleted", True),
        (f"{OFFSET}-{(1 << 31) - 1}.checkpoint.deleted", False),
        ("1234-7-abc.checkpoint.part", True),
    ],
)
def test_names_that_kafka_cannot_parse(name: str, is_refused: bool) -> None:
    """As KafkaRaftLog of Kafka 4.3.1 did with each of them in a sound folder."""
    assert names.is_refused(name) == is_refused


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (f"{OFFSET}-0000000007.checkpoint", (7, int(OFFSET))),
        (f"{OFFSET}-0000000007-copy.checkpoint", (7, int(OFFSET))),
        (f"{OFFSET}_0000000007.bad.checkpoint", (7, int(OFFSET))),
        (f"{OFFSET}-000000000700000000.checkpoint", (7, int(OFFSET))),
        (f"-{OFFSET[1:]}-0000000007.checkpoint", (7, -int(OFFSET))),
        (f"{OFFSET}-7.checkpoint", None),
        ("", None),
    ],
)
def test_the_columns_of_a_snapshots_name(name: str, known: tuple[int, int] | None) -> None:
    assert names.id_by_columns(name) == known
