"""The stream on a real session: `availableNow`, run after run on one checkpoint, into tables."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyarrow import parquet
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from kraftlog.decode.redaction import MASK_PREFIX
from kraftlog.source.datasource import register
from tests.golden.cases import DATA, PARTITION
from tests.unit.stream_runs import batch_rows, fields

LOG = f"{PARTITION}/00000000000000000000.log"


class Query:
    """A streaming query of one relation into one table, started anew for each run."""

    def __init__(self, spark: SparkSession, root: Path, folder: Path, **options: str) -> None:
        register(spark)
        self.spark, self.root, self.folder, self.options = spark, root, folder, options
        self.table = folder / "table"

    def run(self, sink: str) -> list[dict[str, Any]]:
        """One run; the progress of its micro-batches."""
        stream = self.spark.readStream.format("kraftlog").options(**self.options)
        query = (
            stream.load(str(self.root))
            .writeStream.format(sink)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.table))
        )
        query.awaitTermination()
        return list(query.recentProgress)


def read_rows(progress: list[dict[str, Any]]) -> int:
    return sum(one["numInputRows"] for one in progress)


def stored(query: Query) -> list[str]:
    """The batch ids of a table of Parquet, sorted."""
    table = parquet.read_table(query.table, columns=["batch_id"])
    return sorted(table.column("batch_id").to_pylist())


def now(query: Query) -> list[str]:
    """The same, as the batch reader gives them."""
    return fields(batch_rows(query.root, "batches"), "batch_id")


def test_a_stream_follows_a_quorum_through_growth_and_truncation(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "replicas"
    for node in ("1", "2"):
        shutil.copytree(DATA / "isolated/replicas" / node, root / node)
    log = root / "1" / LOG
    whole = log.read_bytes()
    log.write_bytes(whole[:-10])
    options = {"relation": "batches", "split_size_bytes": "8000", "redaction_key": "k" * 32}
    query = Query(spark, root, tmp_path, **options)
    query.run("parquet")
    assert stored(query) == now(query)
    assert read_rows(query.run("parquet")) == 0

    before = set(now(query))
    log.write_bytes(whole)
    shutil.copy(DATA / "isolated-healed/replicas/2" / LOG, root / "2" / LOG)
    query.run("parquet")
    after = set(now(query))
    assert set(stored(query)) == after | before
    assert after - before
    assert before - after  # what the restart cut


def test_records_reach_delta_with_their_secrets_masked(spark: SparkSession, tmp_path: Path) -> None:
    root = DATA / "isolated/replicas"
    options = {"relation": "records", "redaction_key": "the key" * 5, "tasks": "3"}
    query = Query(spark, root, tmp_path, **options)
    progress = query.run("delta")
    table = DeltaTable(query.table).to_pyarrow_table(
        columns=["batch_id", "record_index", "user_scram_credential_record"]
    )
    expected = batch_rows(root, "records", redaction_key="the key" * 5)
    for name in ("batch_id", "record_index"):
        assert sorted(table.column(name).to_pylist()) == fields(expected, name)
    payloads = table.column("user_scram_credential_record").to_pylist()
    found = {one["salt"] for one in payloads if one is not None}
    assert found
    assert all(salt.startswith(MASK_PREFIX) for salt in found)
    assert "the key" not in str(progress)


def test_a_relation_of_the_whole_quorum_says_that_it_is_no_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = Query(spark, DATA / "isolated/replicas", tmp_path, relation="replicas")
    with pytest.raises(StreamingQueryException, match="told of all replicas at once"):
        query.run("parquet")
