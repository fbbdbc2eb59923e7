"""Files and versions stay few, readers of a kept run see the same rows, and what is damaged in a
table is noticed.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from kraftlog.errors import LakeError, StoreError, UnwritableError
from kraftlog.pipeline.every_table import all_tables
from kraftlog.tables import upkeep
from kraftlog.tables.damage import Damage, damages, lost_to_readers
from kraftlog.tables.lake import Lake, LakeTable
from kraftlog.tables.lake_names import REGISTER
from kraftlog.tables.lease import lease_of
from kraftlog.tables.mend import mend
from kraftlog.tables.parquet import slices_of, write_file
from kraftlog.tables.register import Published, Register
from kraftlog.tables.spec import TableSpec
from kraftlog.tables.upkeep import compact, expire, forget_runs

TABLES = all_tables()
SPECS = TABLES.values()
FINDINGS, RECORDS, BATCHES = TABLES["findings"], TABLES["records"], TABLES["batches"]


def nothing() -> None:
    """A lease that is held."""


def run(lake: Lake, number: int) -> None:
    rows = [{"run_id": str(number), "check": "c", "offset": at} for at in range(3)]
    lake.write(FINDINGS, pa.Table.from_pylist(rows, schema=FINDINGS.schema), number)


@pytest.fixture(scope="module")
def twenty_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that nobody writes to: each test has its copy. A table's version is its run's number."""
    folder = tmp_path_factory.mktemp("twenty")
    Lake(str(folder)).ensure(FINDINGS)
    for number in range(1, 21):
        run(Lake(str(folder)), number)
    return folder


@pytest.fixture
def lake(twenty_runs: Path, tmp_path: Path) -> Lake:
    shutil.copytree(twenty_runs, tmp_path, dirs_exist_ok=True)
    return Lake(str(tmp_path))


def rows(lake: Lake, name: str = "findings", version: int | None = None) -> list[str]:
    table = DeltaTable(lake.path(name), version=version)
    return sorted(map(repr, table.to_pyarrow_table().to_pylist()))


def on_disk(lake: Lake, name: str, ending: str) -> list[Path]:
    return sorted(Path(lake.path(name)).rglob(f"*{ending}"))


def test_small_files_become_one_and_the_rows_stay(lake: Lake) -> None:
    before = rows(lake)
    assert compact(lake, FINDINGS, 8) == 20
    assert rows(lake) == before
    assert len(lake.files("findings")) == 1
    assert lake.run_number("findings") == 20, "the step has been done, still"
    assert compact(lake, FINDINGS, 2) == 0


def test_what_becomes_one_is_bounded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven files fill one, twice; six are left."""
    sizes = [file["size_bytes"] for file, _ in lake.files("findings")]
    monkeypatch.setattr(upkeep, "MERGED_BYTES", 7 * max(sizes))
    before = rows(lake)
    assert compact(lake, FINDINGS, 8) == 20
    assert len(lake.files("findings")) == 3
    assert rows(lake) == before


def test_large_files_are_not_touched(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [file["size_bytes"] for file, _ in lake.files("findings")]
    monkeypatch.setattr(upkeep, "SMALL_BYTES", min(sizes))
    assert compact(lake, FINDINGS, 2) == 0


def test_few_small_files_stay_as_they_are(lake: Lake) -> None:
    assert compact(lake, FINDINGS, 21) == 0
    assert len(lake.files("findings")) == 20


def test_files_of_other_partitions_do_not_mix(tmp_path: Path) -> None:
    lake, spec = Lake(str(tmp_path)), TABLES["topics"]
    for number in range(1, 7):
        values = {"lineage": "main" if number % 2 else "2", "is_current": "false"}
        part = pa.Table.from_pylist([{"name": str(number)}], schema=spec.schema)
        lake.commit(spec, [write_file(lake.path("topics"), part, values)], number)
    before = rows(lake, "topics")
    assert compact(lake, spec, 3) == 6
    assert rows(lake, "topics") == before
    assert sorted(values["lineage"] for _, values in lake.files("topics")) == ["2", "main"]


def test_slices_stay_apart(tmp_path: Path) -> None:
    """Rows that lie by slices, a row group each, do so afterwards."""
    lake = Lake(str(tmp_path))
    for number, sizes in enumerate(([2, 0, 1, 1], [1, 1, 0, 3]), 1):
        marks = [f"{number}-{at}" for at, size in enumerate(sizes) for _ in range(size)]
        part = pa.table({"batch_id": marks})
        values: dict[str, str | None] = {"type": "PARTITION_RECORD"}
        added = write_file(lake.path("records"), part, values, sizes)
        lake.commit(RECORDS, [added], number)
    assert compact(lake, RECORDS, 2) == 2
    ((file, _),) = lake.files("records")
    found = pq.ParquetFile(Path(lake.path("records")) / file["path"])
    count, held = slices_of(found.metadata)
    assert (count, held) == (4, [0, 1, 2, 3])
    slices = [found.read_row_group(at).column("batch_id").to_pylist() for at in range(4)]
    assert slices == [["1-0", "1-0", "2-0"], ["2-1"], ["1-2"], ["1-3", "2-3", "2-3", "2-3"]]


def test_what_no_kept_version_needs_is_deleted(lake: Lake) -> None:
    kept = {version: rows(lake, version=version) for version in range(15, 21)}
    compact(lake, FINDINGS, 8)
    stray = write_file(lake.path("findings"), pa.table({"run_id": ["killed"]}))
    newest = rows(lake)
    assert expire(lake, "findings", 15, nothing)
    assert stray.path not in {one.name for one in on_disk(lake, "findings", ".parquet")}
    assert rows(lake) == newest
    for version, before in kept.items():
        assert rows(lake, version=version) == before
    expire(lake, "findings", 21, nothing)
    assert rows(lake) == newest
    assert len(on_disk(lake, "findings", ".zstd.parquet")) == 1


def named(lake: Lake, number: int) -> None:
    """The row of a run in `runs`."""
    row = [{"run_id": str(number), "number": number}]
    lake.write(TABLES["runs"], pa.Table.from_pylist(row, schema=TABLES["runs"].schema), number)


def runs_in(lake: Lake, name: str) -> list[int]:
    return sorted({int(one) for one in lake.rows(name).column("run_id").to_pylist()})


@pytest.mark.parametrize("is_compact", [False, True])
def test_rows_of_runs_long_ago_go(lake: Lake, is_compact: bool) -> None:
    """From every table that has rows per run, whether they lie alone or among others."""
    for number in range(1, 21):
        named(lake, number)
    if is_compact:
        compact(lake, FINDINGS, 8)
    kept = {version: rows(lake, version=version) for version in range(15, 21)}
    assert forget_runs(lake, SPECS, 16, 5) == 0, "four are too few to write files again"
    assert runs_in(lake, "findings") == list(range(1, 21))
    assert forget_runs(lake, SPECS, 7, 5) == 13
    for name in ("findings", "runs"):
        assert runs_in(lake, name) == list(range(14, 21))
        assert lake.run_number(name) == 20, "the step has been done, still"
    assert len(rows(lake)) == 7 * 3
    assert forget_runs(lake, SPECS, 7, 1) == 0
    assert list(damages(lake, SPECS, None, deep=True)) == []
    for version, before in kept.items():
        assert rows(lake, version=version) == before


def test_a_killed_clean_up_is_done_again(lake: Lake) -> None:
    """The runs themselves go last."""
    for number in range(1, 21):
        named(lake, number)
    started: list[str] = []

    class Killed(Lake):
        def replace(self, spec: TableSpec, *args: object, **named: object) -> None:
            started.append(spec.name)
            raise SystemExit

    with pytest.raises(SystemExit):
        forget_runs(Killed(lake.root), SPECS, 7, 5)
    assert started == ["findings"]
    assert forget_runs(lake, SPECS, 7, 5) == 13
    assert runs_in(lake, "findings") == runs_in(lake, "runs") == list(range(14, 21))


def test_a_lake_without_runs_has_none_to_forget(tmp_path: Path) -> None:
    assert forget_runs(Lake(str(tmp_path)), SPECS, 1, 1) == 0


def test_a_log_begins_at_the_oldest_version_that_is_kept(lake: Lake) -> None:
    """Only there is a checkpoint, so that no commit before it is needed."""
    expire(lake, "findings", 17, nothing)
    expire(lake, "findings", 19, nothing)
    assert log(lake, 0).name == f"{17:020d}.json"
    assert [one.name for one in on_disk(lake, "findings", ".checkpoint.parquet")] == [
        f"{17:020d}.checkpoint.parquet"
    ]
    assert len(rows(lake, version=17)) == 17 * 3


def test_a_log_does_not_grow_with_the_runs(lake: Lake) -> None:
    """Commits and checkpoints of 200 runs, of which the last five stay readable. Each run opens the
    table once, as those under a lease do.
    """
    sizes = []
    for number in range(21, 221):
        held = Lake(lake.root, opened={})
        run(held, number)
        compact(held, FINDINGS, 8)
        expire(held, "findings", held.open("findings").version() - 6, nothing)
        sizes.append(sum(one.is_file() for one in Path(lake.path("findings")).rglob("*")))
    assert max(sizes[-10:]) <= max(sizes[10:30])
    assert max(sizes) < 60
    assert len(rows(lake)) == 220 * 3


def test_nothing_is_deleted_by_who_has_lost_the_lake(lake: Lake) -> None:
    before = sorted(map(str, Path(lake.root).rglob("*.parquet")))

    def lost() -> None:
        raise LakeError("taken over")

    with pytest.raises(LakeError, match="taken over"):
        expire(lake, "findings", 20, lost)
    checkpoints = {str(one) for one in on_disk(lake, "findings", ".checkpoint.parquet")}
    assert set(map(str, Path(lake.root).rglob("*.parquet"))) - checkpoints == set(before)


def test_the_registers_log_stays_short(tmp_path: Path) -> None:
    root = str(tmp_path)
    for _ in range(30):
        with lease_of(root, 60, 0, lambda _: None) as lease:
            expire(Lake(root), REGISTER, lease.state.version, lease.check)
    assert len(on_disk(Lake(root), REGISTER, ".json")) < 25
    known = Register(root).read()
    assert known is not None
    assert known.token == 30


# --- Damage ---------------------------------------------------------------------------------------


def published(lake: Lake) -> Published:
    marks = lake.marks(TABLES)
    versions = {name: one.version for name, one in marks.items()}
    return Published(20, versions, {name: one.file_count for name, one in marks.items()})


def log(lake: Lake, at: int) -> Path:
    return on_disk(lake, "findings", ".json")[at]


def others(lake: Lake) -> DeltaTable:
    """The table as another writer opens it."""
    return DeltaTable(lake.path("findings"))


def one_file(lake: Lake) -> Path:
    return on_disk(lake, "findings", ".zstd.parquet")[3]


def flip(path: Path) -> None:
    """Turn the last bit of a column's last page."""
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    raw = bytearray(path.read_bytes())
    raw[start + column.total_compressed_size - 1] ^= 1
    path.write_bytes(raw)


def clean_up(lake: Lake) -> None:
    """What is left of a log when another writer has made a checkpoint, and old entries are gone."""
    others(lake).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    others(lake).create_checkpoint()
    for path in on_disk(lake, "findings", ".json")[:-1]:
        path.unlink()


HARM: dict[str, Callable[[Lake], object]] = {
    "it is gone": lambda lake: Path(lake.path("findings")).rename(f"{lake.root}/elsewhere"),
    "1 of its 20 files: missing": lambda lake: one_file(lake).unlink(),
    "1 of its 20 files: of another size": lambda lake: os.truncate(one_file(lake), 100),
    "1 of its 20 files: with broken content": lambda lake: flip(one_file(lake)),
    "its log has lost its newest entries": lambda lake: log(lake, -1).unlink(),
    "its log has lost entries": lambda lake: log(lake, 7).write_text(""),
    "another writer has changed its rows or files after version 20": lambda lake: others(
        lake
    ).restore(7),
    "another writer has changed its columns after version 20": lambda lake: others(
        lake
    ).alter.add_columns([Field("note", PrimitiveType("string"))]),
    "its history since version 20 cannot be read": clean_up,
    "its log cannot be read (Kernel error: Gen": lambda lake: log(lake, 7).unlink(),
    "its log cannot be read (Kernel error: Jso": lambda lake: log(lake, 7).write_text("{"),
}


@pytest.mark.parametrize("what", HARM)
def test_damage_is_named(lake: Lake, what: str) -> None:
    known = published(lake)
    HARM[what](lake)
    (found,) = damages(lake, SPECS, known, deep=True)
    assert found.table == "findings"
    assert found.what.startswith(what)
    assert "\n" not in found.what


def test_bits_are_compared_only_where_it_is_asked_for(lake: Lake) -> None:
    flip(one_file(lake))
    assert not list(damages(lake, SPECS, published(lake)))
    assert not list(damages(lake, SPECS, published(lake), opens=True))
    assert list(damages(lake, SPECS, published(lake), deep=True))


def test_a_file_of_zeros_is_found_by_opening_it(lake: Lake) -> None:
    path = one_file(lake)
    path.write_bytes(bytes(path.stat().st_size))
    assert not list(damages(lake, SPECS, published(lake)))
    (found,) = damages(lake, SPECS, published(lake), opens=True)
    assert (found.table, found.what) == ("findings", "1 of its 20 files: with broken content")
    with pytest.raises(LakeError, match="run over the input with --verify, which rebuilds"):
        lake.rows("findings")


REFUSED = "Generic LocalFileSystem error: Unable to open file x: Permission denied (os error 13)"
REFUSING: dict[str, tuple[object, str, Exception]] = {
    "log": (LakeTable, "__init__", DeltaError(f"Kernel error: {REFUSED}")),
    "sizes": (Lake, "sizes", DeltaError(REFUSED)),
    "file": (pq.ParquetFile, "__init__", PermissionError("[Errno 13] Failed to open local file")),
    "disk": (pq.ParquetFile, "__init__", OSError("Error reading. Detail: [errno 5] It is broken")),
}


@pytest.mark.parametrize("place", REFUSING)
def test_what_may_not_be_read_is_not_damaged(
    lake: Lake, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's table was told as damaged, and taken out to be built anew: a run cannot do that
    for what earlier runs have found.
    """
    known, (owner, name, error) = published(lake), REFUSING[place]

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(owner, name, refuse)
    told = r"findings: it cannot be read \((Permission denied|Input/output error)\), which does not"
    with pytest.raises(StoreError, match=told):
        list(damages(lake, SPECS, known, deep=True))


def test_a_whole_lake_has_no_damage(lake: Lake) -> None:
    """With runs after the published one, and small files in one, also by other hands."""
    known = published(lake)
    others(lake).optimize.compact()
    run(lake, 21)
    compact(lake, FINDINGS, 2)
    assert list(damages(lake, SPECS, known, deep=True)) == []
    assert list(damages(lake, SPECS, None, deep=True)) == []


def test_what_others_changed_is_undone_once(lake: Lake) -> None:
    """A run may be killed right after that: what it has written by then stays."""
    known, before = published(lake), rows(lake)
    others(lake).delete("offset = 1")
    others(lake).restore(7)
    (found,) = damages(lake, SPECS, known)
    mend(lake, [found], 20)
    assert rows(lake) == before
    assert lake.run_number("findings") == 20, "the step has been done, still"
    run(lake, 21)
    assert list(damages(lake, SPECS, known, deep=True)) == []


def test_columns_that_others_added_are_taken_out(lake: Lake) -> None:
    """What they have written into these goes with them; settings of theirs are no columns."""
    known, before = published(lake), rows(lake)
    others(lake).alter.set_table_properties({"delta.appendOnly": "false"})
    assert list(damages(lake, SPECS, known)) == []
    others(lake).alter.add_columns([Field("note", PrimitiveType("string"))])
    others(lake).update({"note": "'mine'"})
    (found,) = damages(lake, SPECS, known)
    mend(lake, [found], 20)
    assert rows(lake) == before
    run(lake, 21)
    assert list(damages(lake, SPECS, known, deep=True)) == []


def numbered(lake: Lake, *of: int) -> None:
    told = [{"run_id": str(number), "number": number} for number in of]
    lake.write(TABLES["runs"], pa.Table.from_pylist(told, schema=TABLES["runs"].schema), of[-1])


def test_a_log_without_the_entry_that_gathered_its_files(lake: Lake) -> None:
    """Those which it names again were deleted, as nobody needed them."""
    numbered(lake, *range(1, 21))
    before = [Path(lake.path("findings")) / file["path"] for file, _ in lake.files("findings")]
    compact(lake, FINDINGS, 8)
    known = published(lake)
    for one in before:
        one.unlink()
    log(lake, -1).unlink()
    (found,) = damages(lake, [FINDINGS], known)
    assert found.what == "its log has lost its newest entries"
    assert len(found.lost) == 20
    taken = mend(lake, [found], 20)
    assert taken.runs == {"findings": {str(number) for number in range(1, 21)}}
    assert (rows(lake), lake.run_number("findings")) == ([], 19)


@pytest.mark.parametrize("lost", [3, 20])
def test_rows_of_the_last_run_stay_where_another_s_are_lost(lake: Lake, lost: int) -> None:
    """The input may have grown by now, so that no step writes them again."""
    numbered(lake, *range(1, 21))
    known = published(lake)
    paths = {file["min.run_id"]: file["path"] for file, _ in lake.files("findings")}
    (Path(lake.path("findings")) / paths[str(lost)]).unlink()
    (found,) = damages(lake, [FINDINGS], known)
    assert mend(lake, [found], 20).runs == {"findings": {str(lost)}}
    left = {row["run_id"] for row in lake.rows("findings").to_pylist()}
    assert left == {str(number) for number in range(1, 21)} - {str(lost)}
    assert lake.run_number("findings") == (19 if lost == 20 else 20)


def test_a_table_whose_old_entries_are_gone_keeps_its_rows(lake: Lake) -> None:
    known, before = published(lake), rows(lake)
    clean_up(lake)
    (found,) = damages(lake, SPECS, known)
    assert (found.has_log, found.lost, found.whole) == (True, frozenset(), None)
    assert rows(lake) == before


def test_files_that_only_readers_miss_are_found(lake: Lake) -> None:
    """They see the version that was published; the newest one has the same rows in other files."""
    known = published(lake)
    others(lake).optimize.compact()
    assert list(lost_to_readers(lake, known)) == []
    others(lake).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert list(damages(lake, SPECS, known)) == []
    assert list(lost_to_readers(lake, known)) == ["findings"]
    assert list(lost_to_readers(lake, published(lake))) == []


def in_format(lake: Lake, feature: str, *more: object) -> None:
    """The next commit gives a table a feature."""
    features = {"readerFeatures": [feature], "writerFeatures": [feature]}
    change = [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}, *more]
    added = Path(lake.path("findings")) / "_delta_log" / f"{others(lake).version() + 1:020d}.json"
    added.write_text("\n".join(map(json.dumps, change)))


def assert_left(lake: Lake, known: Published, what: str) -> None:
    """No run goes on from such a lake."""
    with pytest.raises(UnwritableError, match=what):
        list(damages(lake, SPECS, known))


def test_a_format_of_another_writer_is_told_and_left(lake: Lake) -> None:
    known = published(lake)
    path = others(lake).get_add_actions(flatten=True).column("path")[0].as_py()
    remove = {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}
    in_format(lake, "deletionVectors", remove)
    assert_left(lake, known, r"its format in version 21 \(deletionVectors\)")


def test_a_format_without_other_rows_is_told_and_left(lake: Lake) -> None:
    """As clients leave it that first set a property, and change rows later or never."""
    known = published(lake)
    in_format(lake, "deletionVectors")
    assert_left(lake, known, r"its format in version 21 \(deletionVectors\)")
    others(lake).alter.set_table_properties({"delta.appendOnly": "false"})
    assert_left(lake, known, r"its format in version 22 \(deletionVectors\)")


def test_a_log_of_a_format_that_nobody_here_knows_is_not_called_broken(lake: Lake) -> None:
    """It would be begun anew, without a row."""
    known = published(lake)
    in_format(lake, "ofTomorrow")
    assert_left(lake, known, r"its format \(Kernel error: Unsupported: .*ofTomor")


def test_a_lake_without_a_publication_is_judged_by_its_logs(lake: Lake) -> None:
    numbered(lake, *range(1, 21))
    lost = one_file(lake)
    lost.unlink()
    (found,) = damages(lake, SPECS, None)
    assert found == Damage(TABLES["findings"], found.what, frozenset({lost.name}))
