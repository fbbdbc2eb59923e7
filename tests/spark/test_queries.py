"""The queries of the docs: each block runs as it stands, over the lake of the example quorum, and
says what is true of it; a grown log adds its rows and no others.
"""

import json
import re
import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.pipeline.metrics import MEASURES
from kraftlog.pipeline.steps import run_steps
from kraftlog.session.views import lake_views
from kraftlog.tables.lake import Lake
from kraftlog.tables.place import lake_at
from kraftlog.tables.query import answer
from kraftlog.tables.spec import GROWING, PER_RUN
from tests.in_process import InProcess

ROOT = Path(__file__).parents[2]
DOC = ROOT / "kraftlog" / "docs" / "queries.md"
EXAMPLE = ROOT / "examples" / "quorum"
BLOCKS = dict(re.findall(r"^## (.+?)\n.*?```sql\n(.*?)```", DOC.read_text("utf-8"), re.S | re.M))
Row = dict[str, Any]


class Runs:
    """Two runs over a quorum whose logs grow in between: of node 1, one segment, cut and whole."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.root, self.lake = spark, folder / "replicas", Lake(str(folder / "lake"))
        shutil.copytree(EXAMPLE, self.root)
        log = next((self.root / "1" / "__cluster_metadata-0").glob("*.log"))
        whole = log.read_bytes()
        for node in ("3", "11"):  # they hold the same
            shutil.rmtree(self.root / node)
        log.write_bytes(whole[:20_000])
        self.measure()
        names = [one.spec.name for one in MEASURES if one.spec.mode in (PER_RUN, GROWING)]
        self.first = {name: self.lake.rows(name).to_pylist() for name in names}
        log.write_bytes(whole)
        shutil.copytree(EXAMPLE / "3", self.root / "3")
        shutil.copytree(EXAMPLE / "11", self.root / "11")
        self.measure()
        lake_views(spark, self.lake.root)
        self.answers: dict[str, list[Row]] = {}

    def measure(self) -> None:
        options = load_options({"input": [str(self.root)], "lake": self.lake.root})
        run_steps(InProcess, options, "decode", "materialize", "audit", "metrics")

    def ask(self, question: str) -> list[Row]:
        """What Spark answers; asked once, as nothing changes the lake but the last test."""
        if question not in self.answers:
            found = self.spark.sql(BLOCKS[question]).collect()
            self.answers[question] = [row.asDict(recursive=True) for row in found]
        return self.answers[question]


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(spark, tmp_path_factory.mktemp("queries"))


def test_every_heading_has_its_query() -> None:
    text = DOC.read_text("utf-8")
    assert len(BLOCKS) == text.count("\n## ") == text.count("```sql") >= 10


@pytest.mark.parametrize("question", BLOCKS)
def test_each_query_answers(runs: Runs, question: str) -> None:
    rows = runs.ask(question)
    assert rows
    assert any(value is not None for row in rows for value in row.values())


@pytest.mark.parametrize("question", BLOCKS)
def test_duckdb_answers_the_same(runs: Runs, question: str) -> None:
    """`kraftlog sql`, without Spark: the same rows, as JSON has them."""
    ours = list(answer(runs.lake.root, BLOCKS[question]))
    theirs = [as_json(row) for row in runs.ask(question)]
    assert ours
    assert list(ours[0]) == list(theirs[0])
    key = repr if "ORDER BY" not in BLOCKS[question] else len
    for mine, other in zip(sorted(ours, key=key), sorted(theirs, key=key), strict=True):
        assert mine == pytest.approx(other, rel=1e-9) if numbers(mine) else mine == other


BY_SIZE = [
    question
    for question, query in BLOCKS.items()
    if " DESC" in query.rpartition("ORDER BY")[2] and "LIMIT" not in query
]


@pytest.mark.parametrize("question", BY_SIZE)
def test_rows_of_one_size_have_an_order(runs: Runs, question: str) -> None:
    """Spark and DuckDB gave them in different ones."""
    query = BLOCKS[question]
    order = re.sub(r" (?:DESC|NULLS LAST)|\b[a-z]\.(\w+)", r'"\1"', query.rpartition("ORDER BY")[2])
    order = " ".join(order.replace('""', "").split())
    counts = f"count(*) AS rows, count(DISTINCT ({order},)) AS places"
    (found,) = answer(runs.lake.root, f"SELECT {counts} FROM ({query})")
    assert found["rows"] == found["places"]


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if isinstance(value, datetime):
        # Spark gives times without a zone, in that of the machine.
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return int(value) if isinstance(value, Decimal) and value % 1 == 0 else value


def numbers(row: Row) -> bool:
    return all(isinstance(one, int | float | None) for one in row.values())


REFUSED = {
    "SELEC 1": 'syntax error at or near "SELEC"',
    "SELECT * FROM topicss": 'Did you mean "topics"',
    "SELECT nope FROM topics": 'column "nope" not found',
    "SELECT check FROM findings": 'write it in double quotes: "check"',
    "SELECT offset, message FROM findings": 'write it in double quotes: "offset"',
    'SELECT f."offset", f.check, max(Offset) FROM findings f': 'in double quotes: "Offset"',
    "": "one query, and here are 0",
    "SELECT 1; SELECT 2": "one query, and here are 2",
    "DELETE FROM topics": "read only",
    "CREATE TABLE mine AS SELECT * FROM topics": "read only",
    "COPY topics TO '/tmp/topics.csv'": "read only",
    "ATTACH '/tmp/other.db'": "read only",
    "INSTALL httpfs": "read only",
    "SET threads = 1": "read only",
    "PRAGMA database_list": "read only",
    "CREATE TABLE mine AS PIVOT runs ON number USING count(*)": "this is CREATE: a lake is read only",
    "SELECT * FROM read_csv('/etc/passwd')": "disabled",
    "SELECT * FROM read_parquet('https://c1/x')": "disabled",
    "SELECT * FROM '/etc/passwd'": "does not exist",
    "SELECT * FROM DOC": "does not exist",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_no_question_to_a_lake(
    runs: Runs, query: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(runs.lake.root).rglob("*")}
    assert main(["sql", query, "--lake", runs.lake.root]) == 2
    told = capsys.readouterr()
    assert REFUSED[query] in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert before == {path: path.stat().st_mtime_ns for path in Path(runs.lake.root).rglob("*")}


def test_sql_prints_as_other_commands_do(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    lake = ["--lake", runs.lake.root, "--format", "json"]
    assert main(["sql", "SHOW TABLES", *lake]) == 0
    shown = {json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()}
    assert {"runs", "topics", "findings"} - shown <= {"findings"}
    query = 'SELECT max(valid_from) AS t, sum(partition_id) AS n, NULL AS x FROM "PARTITIONS"'
    assert main(["sql", query, *lake]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert re.fullmatch(r"2026-11-21T00:5\d:\d\d\.\d+Z", row["t"])
    assert isinstance(row["n"], int)
    assert row["x"] is None
    assert main(["sql", "SELECT 'nan'::DOUBLE AS a, [1.5, '-inf'::DOUBLE] AS b", *lake]) == 0
    assert capsys.readouterr().out == '{"a":"NaN","b":[1.5,"-Infinity"]}\n'
    query = "SELECT map([1], [map()]) AS a, INTERVAL 1500 MILLISECOND AS b, size_bytes_by_kind AS c"
    assert main(["sql", f"{query} FROM disk LIMIT 1", *lake]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["a"], row["b"]) == ({"1": {}}, "P0M0DT1.500000S")
    assert row["c"]["log"] > 0
    assert main(["sql", "SELECT name FROM features WHERE false", *lake]) == 0
    assert capsys.readouterr().out == ""


NAMES = {
    "SELECT count(*) AS n FROM information_schema.tables WHERE table_name <> 'runs'": -1,
    "SELECT count(*) AS n FROM duckdb_views() WHERE NOT internal OR 'runs' = 'topics'": 0,
    "SELECT count(*) AS n FROM (SHOW TABLES) WHERE name <> 'runs'": -1,
}


@pytest.mark.parametrize("query", NAMES)
def test_which_tables_there_are_does_not_hang_on_the_names_in_the_query(
    runs: Runs, query: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = ["--lake", runs.lake.root, "--format", "json"]
    assert main(["sql", query, *lake]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["n"] == len(lake_at(runs.lake.root).versions) + NAMES[query]


def test_a_pivot_finds_its_columns(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    lake = ["--lake", runs.lake.root, "--format", "json"]
    query = "PIVOT runs ON number USING count(*) GROUP BY replica_count"
    assert main(["sql", query, *lake]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {name for row in found for name in row} >= {"replica_count", "1"}


def test_sql_without_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for lake in ("nowhere", "."):
        assert main(["sql", "SHOW TABLES", "--lake", str(tmp_path / lake)]) == 2
        assert "there is no lake" in capsys.readouterr().err


def test_answers_are_true_of_the_example(runs: Runs) -> None:
    (leader,) = runs.ask("Who led this partition at 00:58, and which record made it so?")
    assert (leader["leader"], leader["isr"], leader["record_offset"]) == (11, [11], 221)
    assert leader["record_type"] == "PARTITION_CHANGE_RECORD"
    tenures = runs.ask("Who led when?")
    assert [(one["batch_leader_epoch"], one["leader_id"]) for one in tenures] == [(1, 2), (2, 3)]
    grown = runs.ask("Why did the log grow last night?")
    assert grown[0]["type"] == "NO_OP_RECORD"
    assert sum(one["size_bytes"] for one in grown) == 28_400
    (dearest, *_) = runs.ask("What did it cost to fence a broker?")
    assert (dearest["broker_id"], dearest["event"]) == (12, "fenced")
    assert dearest["partition_change_count"] == 25
    topics = runs.ask("Which topic changes most?")
    assert (topics[0]["topic"], topics[0]["changes"]) == ("shipments.dlq-2", 6)
    story = [one["type"] for one in runs.ask("What happened to this topic, record by record?")]
    assert (story[0], story[-1]) == ("TOPIC_RECORD", "REMOVE_TOPIC_RECORD")
    outages = runs.ask("How long was which partition without a leader?")
    assert {(one["until"], one["ms"]) for one in outages} == {(None, 57_141)}
    assert sorted(one["record_offset"] for one in outages) == [
        229,
        230,
        231,
        232,
        235,
        236,
        237,
        240,
    ]
    fenced = runs.ask("How long was which broker fenced?")
    assert [(one["broker_id"], one["ms"]) for one in fenced] == [
        (12, 1762),
        (11, 1760),
        (12, 57_141),
    ]
    (why,) = runs.ask("Why did partitions change their leader?")
    assert [*why.values()] == ["fenced", 12, 8, 0, 9]
    acls = runs.ask("Who was allowed or denied what at 00:58?")
    assert [(one["permission"], one["principal"]) for one in acls] == [
        ("DENY", "User:ann"),
        ("ALLOW", "User:bob"),
    ]
    (out,) = runs.ask("Which broker leaves ISRs, hour by hour?")
    assert (out["broker_id"], out["times_out"]) == (12, 25)
    values = runs.ask("What was set on this topic, and when did it change?")
    assert [(one["name"], one["value"], one["record_offset"]) for one in values] == [
        ("compression.type", "lz4", 98),
        ("min.insync.replicas", "1", 80),
        ("unclean.leader.election.enable", "true", 93),
    ]
    deleted = runs.ask("Which topics were deleted, and when?")
    assert [(one["name"], one["by_record_at"], one["partitions"]) for one in deleted] == [
        ("sessions.dlq-1", 138, 1),
        ("shipments.raw-7", 193, 5),
        ("ledger.raw-9", 194, 1),
        ("clicks.v2-5", 196, 2),
    ]
    (voters,) = runs.ask("Who were the voters at offset 100?")
    assert (voters["offset"], voters["standing"]) == (2, "committed")
    assert [one[:2] for one in voters["voters"]] == ["1-", "2-", "3-"]
    features = runs.ask("Which features were finalized when?")
    assert {"metadata.version", "kraft.version"} <= {one["name"] for one in features}


def test_since_when_each_finding_is_told(runs: Runs) -> None:
    """The audit of the first run saw no copy of node 3, and no node that was fenced since."""
    rows = runs.ask("Since when is each finding told, and is it still?")
    told = {one["check"]: (one["first_run"], one["last_run"], one["is_told_still"]) for one in rows}
    assert told["voters_present"] == (1, 1, False)
    assert told["brokers_unfenced"] == (2, 2, True)
    assert {one["is_told_still"] for one in rows} == {False, True}


def test_the_trend_over_runs_rises(runs: Runs) -> None:
    rows = runs.ask("How has it gone over the runs?")
    assert [row["number"] for row in rows] == [1, 2]
    assert rows[0]["log_bytes"] < rows[1]["log_bytes"] == 28_400
    assert rows[0]["disk_bytes"] < rows[1]["disk_bytes"]


def test_a_second_run_adds_its_rows_and_no_others(runs: Runs) -> None:
    first, second = (row["run_id"] for row in _by_number(runs.lake))
    for name, before in runs.first.items():
        rows = runs.lake.rows(name).to_pylist()
        assert {row["run_id"] for row in rows} <= {first, second}
        assert [row for row in rows if row["run_id"] == first] == before
    assert {row["run_id"] for row in runs.lake.rows("growth").to_pylist()} == {first, second}
    newest = [one.spec.name for one in MEASURES if one.spec.name not in runs.first]
    for name in newest:
        assert {row["run_id"] for row in runs.lake.rows(name).to_pylist()} == {second}
    assert newest


def test_views_show_whole_runs_only(runs: Runs) -> None:
    """What a run has written so far is not seen, also where it has written `runs` already."""
    count = "SELECT count(*) AS n FROM runs"
    (before,) = runs.spark.sql(count).collect()
    log = next((runs.root / "2" / "__cluster_metadata-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:20_000])
    options = load_options({"input": [str(runs.root)], "lake": runs.lake.root})
    run_steps(InProcess, options, "decode")
    lake_views(runs.spark, runs.lake.root)
    assert runs.spark.sql(count).collect() == [before]
    assert runs.lake.rows("runs").num_rows == before.n + 1


def test_a_local_lake_is_none_of_the_store_that_hadoop_is_set_up_for(runs: Runs) -> None:
    runs.spark.conf.set("fs.defaultFS", "hdfs://192.0.2.1:8020")
    try:
        lake_views(runs.spark, runs.lake.root)
        assert runs.spark.sql("SELECT count(*) AS n FROM runs").collect()[0].n > 0
    finally:
        runs.spark.conf.unset("fs.defaultFS")


def _by_number(lake: Lake) -> list[Row]:
    rows: list[Row] = lake.rows("runs").sort_by("number").to_pylist()
    return rows
