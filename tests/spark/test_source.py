"""The data source on a real session: the same rows as without Spark, and only what a query asks for
is read.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, Filter, LessThan

from kraftlog.decode.listing import RecordFilter, batch_rows, record_rows
from kraftlog.decode.redaction import MASK_PREFIX, Redactor
from kraftlog.log.directory import find_replicas
from kraftlog.log.segment import Limits
from kraftlog.relations import Row, all_relations
from kraftlog.source.datasource import PushingReader, register
from kraftlog.source.parts import Part
from tests.golden.cases import DATA

ROOT = DATA / "steady-live" / "replicas"


@pytest.fixture
def read(spark: SparkSession) -> "Read":
    register(spark)
    return Read(spark)


class Read:
    """Reads a relation of the golden quorum."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def __call__(
        self, relation: str, roots: Sequence[Path] = (ROOT,), /, **options: str
    ) -> DataFrame:
        reader = self.spark.read.format("kraftlog").option("relation", relation)
        return reader.options(**options).load([*map(str, roots)])


def test_batches_are_those_of_the_command_line(read: Read) -> None:
    columns = ["path", "position", "batch_id", "base_offset", "last_offset", "crc", "record_count"]
    expected = {
        tuple(row[name] for name in columns)
        for row in batch_rows(find_replicas([str(ROOT)]), Limits())
    }
    assert {tuple(row) for row in read("batches").select(*columns).collect()} == expected


def test_records_are_those_of_the_command_line(read: Read) -> None:
    found = record_rows(find_replicas([str(ROOT)]), Limits(), Redactor(None), RecordFilter())
    expected = sorted(
        (row["path"], row["offset"], row["data"]["topicId"], row["data"]["partitionId"])
        for row in found
        if row["type"] == "PARTITION_CHANGE_RECORD"
    )
    frame = read("records", split_size_bytes="9000").where("type = 'PARTITION_CHANGE_RECORD'")
    payload = "partition_change_record"
    rows = frame.select("path", "offset", f"{payload}.topic_id", f"{payload}.partition_id")
    assert sorted(map(tuple, rows.collect())) == expected


@pytest.mark.parametrize("relation", sorted(all_relations()))
def test_every_relation_has_its_schema(read: Read, relation: str) -> None:
    frame = read(relation)
    assert frame.columns == all_relations()[relation].schema.names
    assert frame.count() >= (0 if relation == "faults" else 1)


def test_replicas_and_epochs_are_told_of_the_whole_quorum(read: Read) -> None:
    ends = dict(read("replicas").select("replica", "log_end_offset").collect())
    assert ends == {"1": 1807, "2": 1808, "3": 1808, "11": 1808, "12": 1808, "13": 1808, "14": 1224}
    one = read("replicas").where("replica = '14'").select("role", "committed_lower").collect()
    assert [tuple(row) for row in one] == [("observer", 1808)]
    starts = read("epochs").where("replica = '2' and batch_leader_epoch = 4")
    assert [tuple(row) for row in starts.select("start_offset", "leader_id").collect()] == [
        (1340, 2)
    ]


def test_fewer_columns_can_be_asked_for(read: Read) -> None:
    frame = read("records", columns="type, offset, type")
    assert frame.columns == ["type", "offset"]
    assert frame.where("type = 'TOPIC_RECORD'").count() > 0


def test_secrets_are_masked_unless_revealed(read: Read) -> None:
    query = "type = 'USER_SCRAM_CREDENTIAL_RECORD'"
    masked = read("records").where(query).select("user_scram_credential_record.salt").collect()
    assert masked
    assert all(row.salt.startswith(MASK_PREFIX) for row in masked)
    shown = read("records", reveal_secrets="true").where(query)
    salts = shown.select("user_scram_credential_record.salt").collect()
    assert not any(row.salt.startswith(MASK_PREFIX) for row in salts)


def test_a_frame_may_be_asked_again(read: Read) -> None:
    """Spark gave the second query what it had planned for the first one's filters, and no more."""
    frame = read("records")
    all_of, of_2, of_3 = (
        read("records").where(one).count() for one in ("true", "replica = '2'", "replica = '3'")
    )
    assert 0 < of_2 < all_of
    two, three = frame.where("replica = '2'"), frame.where("replica = '3'")
    assert (two.count(), frame.count(), three.count()) == (of_2, all_of, of_3)
    assert two.union(three).count() == of_2 + of_3
    assert two.select("offset").join(three.select("offset"), "offset").count() > 0


@pytest.mark.parametrize("query", ["type = 'TOPIC_RECORD' and offset >= 900", "replica = '14'"])
def test_one_query_may_push_its_filters(read: Read, query: str) -> None:
    every, pushed = read("records"), read("records", pushdown="true")
    columns = ["path", "position", "offset", "record_index"]
    found = sorted(map(tuple, pushed.where(query).select(*columns).collect()))
    assert found
    assert found == sorted(map(tuple, every.where(query).select(*columns).collect()))


def read_with(root: Path, *filters: Filter) -> tuple[set[str], list[Row]]:
    """The files that are opened for the records, and the rows that Spark gets to filter."""
    options = {"path": str(root), "relation": "records"}
    reader = PushingReader(options, ["replica", "offset", "path"])
    list(reader.pushFilters(list(filters)))
    parts = [part for part in reader.partitions() if isinstance(part, Part)]
    files = {split.file.path for part in parts for split in part.splits}
    return files, [
        row for part in parts for found in reader.read(part) for row in found.to_pylist()
    ]


def test_filters_leave_replicas_unread_and_batches_undecoded() -> None:
    files, rows = read_with(ROOT, EqualTo(("replica",), "2"), LessThan(("offset",), 900))
    assert files
    assert all("/replicas/2/" in name for name in files)
    of_log = [row["offset"] for row in rows if row["path"].endswith(".log")]
    assert 899 in of_log
    assert max(of_log) < 910  # the batch that holds 899 may reach further


def test_a_file_is_read_for_what_it_holds_and_not_for_its_name(tmp_path: Path) -> None:
    root = tmp_path / "replicas"
    shutil.copytree(ROOT / "1", root / "1")
    first, *_ = sorted(root.glob("1/__cluster_metadata-0/*.log"))
    _, before = read_with(root, LessThan(("offset",), 500))
    first.rename(first.with_name(f"{99999:020d}.log"))
    _, after = read_with(root, LessThan(("offset",), 500))
    assert sorted(row["offset"] for row in after) == sorted(row["offset"] for row in before)


def test_several_folders_are_read_together(read: Read) -> None:
    frame = read("records", [ROOT / "2", ROOT / "3"])
    assert {row.replica for row in frame.select("replica").distinct().collect()} == {"2", "3"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"pushdown": "maybe"}, "option 'pushdown' must be true or false, not 'maybe'"),
        ({"relaton": "files"}, "there is no option 'relaton'; the nearest one is 'relation'"),
        ({"redactionkey": "k" * 32}, "there is no option .*; the nearest one is 'redaction_key'"),
        ({"tasks": "abc"}, "option 'tasks' must be a whole number above 0, not 'abc'"),
        ({"tasks": "0"}, "option 'tasks' must be a whole number above 0, not 0"),
        ({"lake": "lake"}, "option 'lake' would do nothing here: it says what a command writes"),
        ({"split_size_bytes": "x"}, "'split_size_bytes' .*must be a whole number above 0"),
    ],
)
def test_a_wrong_option_is_told_when_it_is_loaded(
    options: dict[str, str], told: str, read: Read
) -> None:
    with pytest.raises(AnalysisException, match=told):
        read("records", **options)


def test_a_wrong_relation_is_named(read: Read) -> None:
    with pytest.raises(AnalysisException, match="there is no relation 'nothing'"):
        read("nothing")
