"""The lake: commits carry a run's number, replace by path, and are undone where a run was
killed.
"""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, TableFeatures

from kraftlog.errors import LakeError
from kraftlog.pipeline.every_table import derived_tables
from kraftlog.relations import Row
from kraftlog.tables import lake as lake_module
from kraftlog.tables.lake import Lake, LakeTable
from kraftlog.tables.parquet import AddedFile, statistics, write_file
from kraftlog.tables.register import LAYOUT, Register, RegisterState
from kraftlog.tables.spec import decoded_tables, state_tables
from tests.deprived import full_disk

BATCHES = decoded_tables()["batches"]
RUNS = decoded_tables()["runs"]
STRANGE = "/replicas/nöde 1 %20 \U0001f980 {x}=y/00000000000000000000.log"


def rows(path: str, count: int) -> pa.Table:
    found = [{"path": path, "replica": "1", "position": index} for index in range(count)]
    return pa.Table.from_pylist(found, schema=BATCHES.schema)


def added(lake: Lake, path: str, count: int) -> AddedFile:
    return write_file(lake.path("batches"), rows(path, count))


@pytest.fixture
def two_paths(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    lake.commit(BATCHES, [added(lake, "/a", 3), added(lake, STRANGE, 2)], 1)
    return lake


def count_by_path(lake: Lake) -> dict[str, int]:
    return {
        row["values"]: row["counts"]
        for row in lake.rows("batches").column("path").value_counts().to_pylist()
    }


def test_rows_come_back_with_their_paths(two_paths: Lake) -> None:
    assert count_by_path(two_paths) == {"/a": 3, STRANGE: 2}


def test_a_run_is_written_once(two_paths: Lake) -> None:
    before = two_paths.open("batches").version()
    two_paths.commit(BATCHES, [added(two_paths, "/b", 9)], 1)
    assert two_paths.open("batches").version() == before
    assert count_by_path(two_paths) == {"/a": 3, STRANGE: 2}


def test_under_a_lease_a_table_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows what this lake commits; what another one does fails the next commit."""
    opened: list[str] = []

    class Counted(LakeTable):
        def __init__(self, table_uri: str, version: int | None = None, **options: Any) -> None:
            opened.append(table_uri)
            super().__init__(table_uri, version=version, **options)

    monkeypatch.setattr("kraftlog.tables.lake.LakeTable", Counted)
    lake = Lake(str(tmp_path / "lake"), 1, {})
    assert lake.commit(BATCHES, [added(lake, "/a", 3)], 1) == 0
    assert opened == [lake.path("batches")]
    del opened[:]
    assert lake.commit(BATCHES, [added(lake, "/b", 2)], 2) == 1
    assert (count_by_path(lake), lake.run_number("batches")) == ({"/a": 3, "/b": 2}, 2)
    assert not opened

    other = pickle.loads(pickle.dumps(lake))
    assert other == lake
    other.commit(BATCHES, [added(lake, "/c", 1)], 3)
    with pytest.raises(LakeError, match="another writer has committed"):
        lake.commit(BATCHES, [added(lake, "/d", 4)], 3)
    assert count_by_path(lake) == {"/a": 3, "/b": 2, "/c": 1}, "it has looked again"


def test_what_delta_refuses_is_not_laid_to_another_writer(two_paths: Lake) -> None:
    table = DeltaTable(two_paths.path("batches"))
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(LakeError) as caught:
        two_paths.commit(BATCHES, [], 2, lambda of: True)
    said = str(caught.value)
    assert said.startswith(f"{two_paths.path('batches')}: Delta refuses this commit (")
    assert "set its property delta.appendOnly to false, and run again" in said
    assert "\n" not in said
    assert "another writer" not in said


def test_a_feature_of_delta_that_cannot_be_written_is_told_with_what_to_do(two_paths: Lake) -> None:
    table = DeltaTable(two_paths.path("batches"))
    table.alter.add_feature(TableFeatures.RowTracking, allow_protocol_versions_increase=True)
    with pytest.raises(LakeError, match=r"RowTracking.*DROP FEATURE\), or run into a new lake$"):
        two_paths.mark(BATCHES, 2)


def test_a_commit_that_a_full_disk_refuses_names_the_table(two_paths: Lake) -> None:
    with full_disk(10), pytest.raises(LakeError) as caught:
        two_paths.mark(BATCHES, 2)
    assert str(caught.value).startswith(f"{two_paths.path('batches')}: it cannot be written (")


def test_of_an_open_table_its_writers_are_read_once_per_version(
    two_paths: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours are not read at all: we know what we have committed. What another one has committed is
    read where its commit is, which names all; only where that one is no kraftlog does delta-rs look
    through the log.
    """
    commits: list[int] = []
    logs: list[int] = []
    of_commit, of_log = lake_module.actions_of, DeltaTable.transaction_version

    def commit_noted(path: str, version: int) -> list[Row]:
        commits.append(version)
        return of_commit(path, version)

    def log_noted(self: DeltaTable, app_id: str) -> int | None:
        logs.append(self.version())
        return of_log(self, app_id)

    monkeypatch.setattr(lake_module, "actions_of", commit_noted)
    monkeypatch.setattr(DeltaTable, "transaction_version", log_noted)
    lake = replace(two_paths, token=5, opened={})
    for number in (2, 3):
        lake.commit(BATCHES, [added(lake, "/a", number)], number)
        assert lake.run_number("batches") == number
        assert lake.newest_token(["batches"]) == 5
    assert (commits, logs) == ([0], [])
    Lake(lake.root, token=6).fence([BATCHES])
    del commits[:]
    table = lake.open("batches")
    table.update_incremental()
    assert lake.newest_token(["batches"]) == 6
    assert lake.run_number("batches") == 3
    assert (commits, logs) == ([3], [])
    DeltaTable(table.table_uri).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 9 days"}
    )
    table.update_incremental()
    assert lake.newest_token(["batches"]) == 6
    assert lake.run_number("batches") == 3
    assert set(logs) == {4}
    Lake(lake.root, token=7).commit(BATCHES, [], 4)
    with pytest.raises(LakeError, match="taken the lake over"):
        lake.commit(BATCHES, [], 5)


def test_a_table_and_its_first_files_are_one_commit(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), 3, {})
    assert lake.commit(BATCHES, [added(lake, "/a", 3)], 1) == 0
    known = Lake(lake.root)
    assert (count_by_path(known), known.run_number("batches")) == ({"/a": 3}, 1)
    assert known.newest_token(["batches"]) == 3
    assert known.version_of_run("batches", 0, 0) is None


@pytest.mark.parametrize(("token", "said"), [(9, "taken the lake over"), (1, "another writer")])
def test_of_two_that_create_a_table_one_does(token: int, said: str, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), 1, {})
    assert not lake.exists("batches")
    Lake(lake.root, token).commit(BATCHES, [added(lake, "/a", 3)], 1)
    with pytest.raises(LakeError, match=said):
        lake.commit(BATCHES, [added(lake, "/b", 2)], 1)
    assert count_by_path(lake) == {"/a": 3}


def test_under_a_lease_a_table_that_is_not_there_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    asking = DeltaTable.is_deltatable

    def noted(path: str) -> bool:
        asked.append(path)
        return asking(path)

    monkeypatch.setattr(DeltaTable, "is_deltatable", noted)
    lake = Lake(str(tmp_path), 1, {})
    assert [lake.exists("runs"), lake.run_number("runs"), lake.exists("runs")] == [False, 0, False]
    assert asked == [lake.path("runs")]
    with pytest.raises(LakeError, match="there is no table 'runs'"):
        lake.open("runs")
    lake.mark(RUNS, 1)
    assert lake.exists("runs")
    assert lake.run_number("runs") == 1
    assert lake.rows("runs").num_rows == 0


def test_of_a_published_lake_only_those_versions_are_seen(two_paths: Lake) -> None:
    version = two_paths.open("batches").version()
    seen = replace(two_paths, opened={}, versions={"batches": version})
    two_paths.commit(BATCHES, [added(two_paths, "/b", 9)], 2)
    two_paths.ensure(RUNS)
    for lake in (seen, pickle.loads(pickle.dumps(seen))):
        assert count_by_path(lake) == {"/a": 3, STRANGE: 2}
        assert lake.run_number("batches") == 1
        assert [lake.exists(name) for name in ("batches", "runs")] == [True, False]
        assert lake.dataset("batches", version + 1).count_rows() == 14
        with pytest.raises(LakeError, match="there is no table 'runs'"):
            lake.rows("runs")


def test_a_path_is_replaced_and_the_others_stay(two_paths: Lake) -> None:
    two_paths.commit(BATCHES, [added(two_paths, STRANGE, 5)], 2, lambda of: of["path"] == STRANGE)
    assert count_by_path(two_paths) == {"/a": 3, STRANGE: 5}


def test_what_a_killed_run_left_is_taken_back(two_paths: Lake) -> None:
    two_paths.commit(BATCHES, [added(two_paths, STRANGE, 5)], 2, lambda of: True)
    assert two_paths.recover(decoded_tables().values(), finished_run=1) == ["batches"]
    assert count_by_path(two_paths) == {"/a": 3, STRANGE: 2}
    assert two_paths.run_number("batches") == 1
    two_paths.commit(BATCHES, [added(two_paths, "/b", 1)], 2)
    assert count_by_path(two_paths) == {"/a": 3, STRANGE: 2, "/b": 1}


def test_a_first_run_that_was_killed_leaves_empty_tables(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.commit(BATCHES, [added(lake, "/a", 3)], 1)
    assert lake.recover(decoded_tables().values(), finished_run=0) == ["batches"]
    assert lake.rows("batches").num_rows == 0


def test_every_table_and_column_has_a_comment(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    for spec in (decoded_tables() | derived_tables()).values():
        table: DeltaTable = lake.ensure(spec)
        assert table.metadata().description == spec.grain
        for column in json.loads(table.schema().to_json())["fields"]:
            assert column["metadata"].get("comment"), f"{spec.name}.{column['name']}"
    register = Register(str(tmp_path))
    assert register.create(RegisterState(0, LAYOUT, 1, None, 0.0))
    table = DeltaTable(register.path)
    assert table.metadata().description
    (note,) = json.loads(table.schema().to_json())["fields"]
    assert note["metadata"].get("comment")


def test_a_missing_table_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="kraftlog run, or the decode job, comes first"):
        Lake(str(tmp_path)).open("batches")
    with pytest.raises(LakeError, match="kraftlog run, or the jobs before this one, come first"):
        Lake(str(tmp_path)).open("brokers")


def test_statistics_leave_out_what_cannot_be_said_exactly() -> None:
    table = pa.table({"short": ["b", "a", None], "long": ["x" * 65, "y", None], "n": [3, 1, 2]})
    found = statistics(table)
    assert found["numRecords"] == 3
    assert found["minValues"] == {"short": "a", "n": 1}
    assert found["maxValues"] == {"short": "b", "n": 3}
    assert found["nullCount"] == {"short": 1, "long": 1, "n": 0}


def test_one_long_value_is_told_as_it_is_of_all_rows() -> None:
    found = statistics(pa.table({"path": ["/x" * 100] * 2}))
    assert found["minValues"] == found["maxValues"] == {"path": "/x" * 100}


def test_statistics_of_a_file_stay_out_of_lists_and_structs(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("number", pa.int64()),
            ("text", pa.dictionary(pa.int32(), pa.string())),
            ("list", pa.list_(pa.int32())),
            ("struct", pa.struct([("inner", pa.int32())])),
        ]
    )
    row = {"number": 1, "text": "a", "list": [1], "struct": {"inner": 1}}
    group = pq.read_metadata(
        tmp_path / write_file(str(tmp_path), pa.Table.from_pylist([row], schema)).path
    ).row_group(0)
    told = {one.path_in_schema: one.is_stats_set for one in map(group.column, range(4))}
    assert told == {"number": True, "text": True, "list.list.element": False, "struct.inner": False}


def test_lists_that_no_row_has_are_not_in_the_file_and_read_as_null(tmp_path: Path) -> None:
    lake, spec = Lake(str(tmp_path)), decoded_tables()["control_records"]
    rows = pa.Table.from_pylist([{"type": "X", "offset": 1}], spec.schema)
    tagged = pa.Table.from_pylist([{"offset": 2, "unknown_tagged_fields": []}], spec.schema)
    files = [write_file(lake.path(spec.name), one, {"type": "X"}) for one in (rows, tagged)]
    written = [tmp_path / spec.name / one.path for one in files]
    assert [one.size_bytes for one in files] == [one.stat().st_size for one in written]
    names = [pq.read_schema(one).names for one in written]
    assert ["unknown_tagged_fields" in one for one in names] == [False, True]
    lake.commit(spec, files, 1)
    columns = ["offset", "unknown_tagged_fields"]
    found = lake.rows(spec.name, columns).sort_by("offset").to_pylist()
    assert found == [
        {"offset": 1, "unknown_tagged_fields": None},
        {"offset": 2, "unknown_tagged_fields": []},
    ]
    seen = pl.scan_delta(lake.path(spec.name)).select(columns).sort("offset").collect()
    assert seen.rows() == [(1, None), (2, [])]


def test_files_lie_below_folders_that_name_their_partition(tmp_path: Path) -> None:
    lake, spec = Lake(str(tmp_path)), state_tables()["topics"]
    rows = pa.Table.from_pylist([{"name": "t"}], schema=spec.schema)
    odd = "rack 1/nöde %20 {x}=y:z"
    for lineage in ("main", odd):
        values = {"lineage": lineage, "is_current": "true"}
        lake.commit(spec, [write_file(lake.path("topics"), rows, values)], ord(lineage[0]))
    paths = [file["path"] for file, _ in lake.files("topics")]
    assert all((tmp_path / "topics" / path).is_file() for path in paths)
    assert {path.rpartition("/")[0] for path in paths} == {
        "lineage=main/is_current=true",
        "lineage=rack 1%2Fn%C3%B6de %2520 %7Bx%7D%3Dy%3Az/is_current=true",
    }
    expected = {("main", True), (odd, True)}
    columns = ["lineage", "is_current"]
    assert {tuple(one.values()) for one in lake.rows("topics", columns).to_pylist()} == expected
    seen = pl.scan_delta(lake.path("topics")).filter(pl.col("is_current")).collect()
    assert set(seen.select(columns).rows()) == expected


def test_a_partition_may_have_a_longer_name_than_a_folder(tmp_path: Path) -> None:
    """A copy's label is a path, of any length: its lineage was a folder that no disk takes."""
    lake, spec = Lake(str(tmp_path)), state_tables()["topics"]
    rows = pa.Table.from_pylist([{"name": "t"}], schema=spec.schema)
    long = [f"{'複製/' * 30}{number}" for number in range(2)]
    files = [
        write_file(lake.path("topics"), rows, {"lineage": one, "is_current": "true"})
        for one in long
    ]
    lake.commit(spec, files, 1)
    assert all((tmp_path / "topics" / one.path).is_file() for one in files)
    assert len({one.path.partition("/")[0] for one in files}) == 2
    assert {one["lineage"] for one in lake.rows("topics", ["lineage"]).to_pylist()} == {*long}


def test_a_file_where_a_table_should_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "batches").write_text("")
    with pytest.raises(LakeError, match="a file where a table should be"):
        Lake(str(tmp_path)).ensure(BATCHES)


def inside(*names: str) -> pa.Schema:
    """One column, which holds others."""
    return pa.schema([("held", pa.list_(pa.struct([(name, pa.int32()) for name in names])))])


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (pa.schema([("path", pa.string())]), BATCHES.schema),
        (pa.schema([("epoch", pa.int32())]), pa.schema([("epoch", pa.int64())])),
        (inside("epoch"), inside("epoch", "leader")),
    ],
)
def test_a_table_of_other_columns_is_one_sentence(
    before: pa.Schema, now: pa.Schema, tmp_path: Path
) -> None:
    lake, spec = Lake(str(tmp_path)), replace(BATCHES, schema=now)
    lake.ensure(replace(spec, schema=before))
    with pytest.raises(LakeError, match="those of another version of kraftlog"):
        lake.commit(spec, [], 1)
