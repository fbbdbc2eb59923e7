"""The lake: commits carry a run's number, replace by path, and are undone where a run was
killed.
"""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kraftlog.errors import LakeError
from kraftlog.tables.derived import derived_tables
from kraftlog.tables.lake import Lake
from kraftlog.tables.parquet import AddedFile, statistics, write_file
from kraftlog.tables.spec import decoded_tables

BATCHES = decoded_tables()["batches"]
RUNS = decoded_tables()["runs"]
STRANGE = "/replicas/nöde 1 %20 \U0001f980 {x}=y/00000000000000000000.log"


def rows(path: str, count: int) -> pa.Table:
    found = [{"path": path, "replica": "1", "position": index} for index in range(count)]
    return pa.Table.from_pylist(found, schema=BATCHES.schema)


def added(lake: Lake, path: str, count: int) -> AddedFile:
    return write_file(lake.path("batches"), rows(path, count), {"path": path})


@pytest.fixture
def two_paths(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path / "lake"))
    lake.commit(BATCHES, [added(lake, "/a", 3), added(lake, STRANGE, 2)], 1)
    return lake


def count_by_path(lake: Lake) -> dict[str, int]:
    return {
        row["values"]: row["counts"]
        for row in lake.read("batches").column("path").value_counts().to_pylist()
    }


def test_rows_come_back_with_their_paths(two_paths: Lake) -> None:
    assert count_by_path(two_paths) == {"/a": 3, STRANGE: 2}


def test_a_run_is_written_once(two_paths: Lake) -> None:
    before = two_paths.open("batches").version()
    two_paths.commit(BATCHES, [added(two_paths, "/b", 9)], 1)
    assert two_paths.open("batches").version() == before
    assert count_by_path(two_paths) == {"/a": 3, STRANGE: 2}


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
    assert lake.read("batches").num_rows == 0


def test_every_table_and_column_has_a_comment(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    for spec in (decoded_tables() | derived_tables()).values():
        table: DeltaTable = lake.ensure(spec)
        assert table.metadata().description == spec.grain
        for column in json.loads(table.schema().to_json())["fields"]:
            assert column["metadata"].get("comment"), f"{spec.name}.{column['name']}"


def test_a_missing_table_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="run the decode job first"):
        Lake(str(tmp_path)).open("batches")


def test_statistics_leave_out_what_cannot_be_said_exactly() -> None:
    table = pa.table({"short": ["b", "a", None], "long": ["x" * 65] * 3, "n": [3, 1, 2]})
    found = statistics(table)
    assert found["numRecords"] == 3
    assert found["minValues"] == {"short": "a", "n": 1}
    assert found["maxValues"] == {"short": "b", "n": 3}
    assert found["nullCount"] == {"short": 1, "long": 0, "n": 0}
