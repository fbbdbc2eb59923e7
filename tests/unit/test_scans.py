"""Counting over Parquet files: what footers answer is what reading the rows gives."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from deltalake.transaction import AddAction, RemoveAction
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftlog.contracts.measures import ROWS, Scans, parse_measure
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import TableSpec

SCHEMA = pa.schema(
    [("kind", pa.string()), ("id", pa.string()), ("n", pa.int64()), ("m", pa.int64())]
)
SPEC = TableSpec("some", "rows", SCHEMA, "content", ("kind",))
Row = dict[str, Any]


def write(lake: Lake, files: list[list[Row]], **options: Any) -> list[Path]:
    """A table with such files, each of another kind; row groups of two rows."""
    table, paths = lake.ensure(SPEC), []
    added: list[AddAction | RemoveAction] = []
    for number, rows in enumerate(files):
        path = Path(lake.path(SPEC.name)) / f"{number}.parquet"
        data = pa.Table.from_pylist(rows, schema=SCHEMA).drop_columns(["kind"])
        pq.write_table(data, path, row_group_size=2, **options)
        values = {"kind": f"kind {number}"}
        added.append(AddAction(path.name, path.stat().st_size, values, 0, True, "{}"))
        paths.append(path)
    table.create_write_transaction(added, "append", SCHEMA, ["kind"])
    return paths


def row(identity: str | None, n: int | None, m: int | None = 0) -> Row:
    return {"id": identity, "n": n, "m": m}


def destroy_columns(path: Path) -> None:
    """Overwrite the pages of a file; its footer stays."""
    whole = path.read_bytes()
    begin = 4
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(whole[:begin] + bytes(end - begin) + whole[end:])


def count(lake: Lake, **declared: Any) -> int:
    return parse_measure(declared).count(SPEC.name, Scans(lake))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def test_footers_answer_without_the_columns(lake: Lake) -> None:
    for path in write(lake, [[row("a", 0), row("b", 7)], [row("c", 1)]]):
        destroy_columns(path)
    assert count(lake, nulls_in=["kind", "id", "n"]) == 0
    assert count(lake, rows_where="n < 0") == 0


def test_what_footers_do_not_answer_is_read(lake: Lake) -> None:
    write(lake, [[row("a", 0), row(None, 7), row("c", -1)], [row("d", None)]])
    assert count(lake, nulls_in=["id", "n"]) == 2
    assert count(lake, rows_where="n < 0") == 1
    assert count(lake, rows_where="n >= m") == 2


def test_without_statistics_columns_are_read(lake: Lake) -> None:
    (path,) = write(lake, [[row("a", 0), row(None, -1)]], write_statistics=False)
    assert count(lake, nulls_in=["id"]) == 1
    assert count(lake, rows_where="n < 0") == 1
    destroy_columns(path)
    with pytest.raises(OSError, match=r"[Pp]age"):
        count(lake, nulls_in=["id"])


IDS = st.sampled_from([None, "a", "b", "c"])
NUMBERS = st.one_of(st.none(), st.integers(-2, 2))
FILES = st.lists(st.lists(st.builds(row, IDS, NUMBERS, NUMBERS), max_size=7), max_size=3)


@settings(max_examples=30)
@given(files=FILES, statistics=st.booleans(), dictionary=st.booleans())
def test_counts_are_those_of_the_rows(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[Row]],
    statistics: bool,
    dictionary: bool,
) -> None:
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    write(lake, files, write_statistics=statistics, use_dictionary=dictionary)
    rows = [one | {"kind": f"kind {number}"} for number, held in enumerate(files) for one in held]
    assert count(lake, nulls_in=["kind", "id", "m"]) == sum(
        one["id"] is None or one["m"] is None for one in rows
    )
    known = [one["n"] for one in rows if one["n"] is not None]
    assert count(lake, rows_where="n < 0") == sum(n < 0 for n in known)
    assert count(lake, rows_where="n != 1") == sum(n != 1 for n in known)
    both = [(one["n"], one["m"]) for one in rows if None not in (one["n"], one["m"])]
    assert count(lake, rows_where="n <= m") == sum(n <= m for n, m in both)
    ids = [one["id"] for one in rows]
    outside = {"column": "id", "values": ["a"]}
    assert count(lake, outside=outside) == sum(one not in (None, "a") for one in ids)
    assert counted(lake, "id") == Counter(ids)
    assert counted(lake, "kind", "n") == Counter((one["kind"], one["n"]) for one in rows)


def counted(lake: Lake, *names: str) -> Counter[Any]:
    keys = Scans(lake).keys(SPEC.name, names)
    columns = [keys.column(name).to_pylist() for name in names]
    found = columns[0] if len(names) == 1 else zip(*columns, strict=True)
    result = dict(zip(found, keys.column(ROWS).to_pylist(), strict=True))
    assert len(result) == keys.num_rows, "each key is there once"
    return Counter(result)


def test_keys_of_chosen_rows(lake: Lake) -> None:
    schema = pa.schema([("id", pa.string()), ("good", pa.bool_())])
    held = {"id": ["a", "a", "b", "c"], "good": [True, False, None, True]}
    write_deltalake(lake.path("chosen"), pa.table(held, schema))
    keys = Scans(lake).keys("chosen", ["id"], "good").sort_by("id").to_pylist()
    assert keys == [{"id": "a", ROWS: 1}, {"id": "c", ROWS: 1}]


def test_a_table_that_another_writer_has_rewritten(lake: Lake) -> None:
    """Spark and delta-rs name folders by partition values, and Delta's log encodes their names."""
    held = pa.table({"path": ["/r/1/0 ü.log", "b%c", None], "n": [1, 2, -3]})
    write_deltalake(lake.path("rewritten"), held, partition_by=["path"])
    scans = Scans(lake)
    assert scans.open("rewritten").count_rows(filter=ds.field("n") < 0) == 1
    assert scans.open("rewritten").count_rows(filter=ds.field("path").is_null()) == 1
    paths = scans.keys("rewritten", ["path"]).column("path").to_pylist()
    assert {*paths} == {"/r/1/0 ü.log", "b%c", None}
