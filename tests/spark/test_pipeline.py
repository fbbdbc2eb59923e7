"""The whole pipeline into Delta by Spark's tasks: right tables, idempotent; read back by plain Spark."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kraftlog.config import Options, load_options
from kraftlog.decode.redaction import MASK_PREFIX
from kraftlog.errors import InputError, LakeError
from kraftlog.pipeline import run, states
from kraftlog.pipeline.every_table import derived_tables
from kraftlog.pipeline.steps import run_pipeline, run_steps
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import decoded_tables, state_tables
from tests.golden.cases import DATA, Replica
from tests.lakes import FOR_SPARK

ISOLATED = DATA / "isolated" / "replicas"


class Lab:
    """A copy of a golden quorum, a lake, and Spark."""

    def __init__(self, spark: SparkSession, source: Path, folder: Path) -> None:
        self.spark = spark
        self.root = folder / "replicas"
        shutil.copytree(source, self.root)
        self.lake = Lake(str(folder / "lake"))

    @property
    def options(self) -> Options:
        return load_options({"input": [str(self.root)], "lake": self.lake.root, **FOR_SPARK})

    def run(self) -> int:
        return run_pipeline(lambda: self.spark.sparkContext, self.options).exit_code

    def bring_up(self) -> None:
        """The two steps that others build on."""
        run_steps(lambda: self.spark.sparkContext, self.options, "decode", "materialize")

    def table(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.lake.path(name))

    def rows(self, name: str, query: str = "true") -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in self.table(name).where(query).collect()]

    def versions(self) -> dict[str, int]:
        names = [*decoded_tables(), *derived_tables(), *state_tables()]
        return {name: self.lake.open(name).version() for name in names if self.lake.exists(name)}


@pytest.fixture(scope="module")
def isolated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    lab = Lab(spark, ISOLATED, tmp_path_factory.mktemp("isolated"))
    assert lab.run() == 0
    return lab


def test_each_content_is_stored_once_and_every_holder_is_known(isolated: Lab) -> None:
    ids = isolated.table("records").select("batch_id", "record_index")
    assert ids.count() == ids.distinct().count()
    held = isolated.table("batches").select("batch_id").distinct()
    stored = isolated.table("contents").select("batch_id")
    assert held.exceptAll(stored).isEmpty()
    assert stored.exceptAll(held).isEmpty()


def test_an_input_that_only_the_driver_sees(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(spark, ISOLATED, tmp_path)
    monkeypatch.chdir(tmp_path)  # Spark's processes stay where they are
    lab.root = Path("/proc/self/cwd/replicas")

    with pytest.raises(InputError, match="missing for the executors"):
        run_steps(lambda: spark.sparkContext, lab.options, "decode")
    assert lab.versions() == {}


def test_every_record_of_every_batch_is_there(isolated: Lab) -> None:
    both = (
        isolated.table("records")
        .select("batch_id")
        .unionAll(isolated.table("control_records").select("batch_id"))
    )
    (told,) = isolated.table("contents").selectExpr("sum(record_count)").collect()
    assert both.count() == told[0]


def test_the_uncommitted_tail_is_told(isolated: Lab) -> None:
    found = isolated.rows("findings", "check = 'uncommitted_tail_diverged'")
    assert {(row["replica"], row["offset"]) for row in found} == {("2", 176), ("12", 176)}
    assert all("which a restart cuts" in row["message"] for row in found)
    assert all(json.loads(row["evidence"]) for row in found)
    assert not isolated.rows("findings", "severity = 'critical'")


def test_replicas_and_epochs(isolated: Lab) -> None:
    ends = {row["replica"]: row["log_end_offset"] for row in isolated.rows("replicas")}
    assert ends == {"1": 362, "2": 243, "3": 362, "11": 362, "12": 242}
    roles = {row["replica"]: row["role"] for row in isolated.rows("replicas")}
    assert roles == {"1": "voter", "2": "voter", "3": "voter", "11": "observer", "12": "observer"}
    second = isolated.rows("epochs", "replica = '1' and batch_leader_epoch = 2")
    assert [(row["start_offset"], row["end_offset"], row["leader_id"]) for row in second] == [
        (176, 362, 3)
    ]


def state_at_end(lab: Lab, table: str, replica: str) -> DataFrame:
    """The state of a replica at its log's end: one filter over its lineage."""
    row = lab.rows("replicas", f"replica = '{replica}'")[0]
    end, lineage = row["log_end_offset"], row["lineage"]
    holds = f"valid_from_offset <= {end} and (valid_to_offset is null or {end} < valid_to_offset)"
    return lab.table(table).where(f"lineage = '{lineage}' and {holds}")


@pytest.mark.parametrize("replica", ["1", "2", "3", "11", "12"])
def test_states_at_each_replicas_end_are_kafkas_own(isolated: Lab, replica: str) -> None:
    image = Replica("isolated", replica).image()
    kinds = {
        "topics": ("TOPIC_RECORD", [("topic_id", "topicId"), ("name", "name")]),
        "partitions": (
            "PARTITION_RECORD",
            [
                ("topic_id", "topicId"),
                ("partition_id", "partitionId"),
                ("partition_replicas", "replicas"),
                ("isr", "isr"),
                ("leader", "leader"),
                ("leader_epoch", "leaderEpoch"),
                ("partition_epoch", "partitionEpoch"),
                ("directories", "directories"),
            ],
        ),
        "brokers": (
            "REGISTER_BROKER_RECORD",
            [("broker_id", "brokerId"), ("broker_epoch", "brokerEpoch"), ("fenced", "fenced")],
        ),
        "configs": (
            "CONFIG_RECORD",
            [
                ("resource_type", "resourceType"),
                ("resource_name", "resourceName"),
                ("name", "name"),
            ],
        ),
    }
    for table, (kind, fields) in kinds.items():
        expected = [
            tuple(row["data"][name] for _, name in fields) for row in image if row["type"] == kind
        ]
        found = state_at_end(isolated, table, replica).select(*(name for name, _ in fields))
        assert sorted(map(repr, map(tuple, found.collect()))) == sorted(map(repr, expected)), table


def test_shares_of_partitions_give_the_same_history(
    isolated: Lab, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "ROWS_PER_SHARE", 100)
    lab = Lab(spark, ISOLATED, tmp_path)
    lab.bring_up()
    whole, shared = isolated.table("partitions"), lab.table("partitions")
    assert whole.exceptAll(shared).isEmpty()
    assert shared.exceptAll(whole).isEmpty()


def test_no_secret_reaches_a_table(isolated: Lab) -> None:
    query = "user_scram_credential_record is not null"
    found = (
        isolated.table("records").where(query).select("user_scram_credential_record.*").collect()
    )
    assert found
    for row in found:
        for value in (row.salt, row.stored_key, row.server_key):
            assert value.startswith(MASK_PREFIX)


def test_a_second_run_writes_nothing(isolated: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it look at the quorum once more: that takes half a second for each gigabyte."""
    asked: list[Lake] = []
    monkeypatch.setattr(run, "recorded_quorum", lambda lake, *_: asked.append(lake))
    before = isolated.versions()
    assert isolated.run() == 0
    assert isolated.versions() == before
    assert not asked


def test_every_table_has_comments_for_spark(isolated: Lab) -> None:
    # One table per way of writing; what every table declares is test_lake's matter.
    for name in ("records", "batches", "partitions", "findings"):
        described = isolated.spark.sql(f"describe detail delta.`{isolated.lake.path(name)}`")
        assert described.collect()[0]["description"], name
        columns = isolated.spark.sql(f"describe table delta.`{isolated.lake.path(name)}`")
        missing = columns.where("comment is null and col_name not like '#%' and col_name != ''")
        assert missing.isEmpty(), (name, missing.collect())


def test_steps_need_a_decoded_lake(spark: SparkSession, tmp_path: Path) -> None:
    options = load_options({"input": [str(ISOLATED)], "lake": str(tmp_path)})
    for name in ("materialize", "audit", "metrics"):
        with pytest.raises(LakeError, match="kraftlog run, or the decode job, comes first"):
            run_steps(lambda: spark.sparkContext, options, name)
    assert run_steps(lambda: spark.sparkContext, options, "decode").exit_code == 0
