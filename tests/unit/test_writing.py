"""What may become a lake, what is one, and whose: refused in one sentence, before anything is
written.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from kraftlog.cli import main
from kraftlog.config import Options, load_options
from kraftlog.errors import LakeError, UsageError
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.writing import writing
from kraftlog.tables.damage import damages
from kraftlog.tables.lake import Lake
from kraftlog.tables.lake_names import REGISTER
from kraftlog.tables.place import state_of
from kraftlog.tables.register import LAYOUT, Register
from kraftlog.tables.reports import FINDINGS
from kraftlog.tables.spec import (
    decoded_tables,
)
from tests.golden.cases import DATA

SPECS = all_tables().values()
FILES, RUNS = decoded_tables()["files"], decoded_tables()["runs"]


@pytest.fixture
def quorum(tmp_path: Path) -> Path:
    """Two replicas of the golden quorum, to be changed."""
    root = tmp_path / "replicas"
    for node in ("1", "2"):
        shutil.copytree(DATA / "isolated" / "replicas" / node, root / node)
    return root


def options_of(quorum: Path, lake: Path) -> Options:
    return load_options({"input": [str(quorum)], "lake": str(lake), "wait_seconds": 0})


def begin(quorum: Path, lake: Path) -> None:
    with writing(options_of(quorum, lake), reads_input=True):
        pass


def set_cluster(quorum: Path, cluster_id: str | None) -> None:
    for path in quorum.rglob("meta.properties"):
        lines = [one for one in path.read_text().splitlines() if "cluster.id" not in one]
        path.write_text("\n".join([*lines, f"cluster.id={cluster_id}"] if cluster_id else lines))


@pytest.mark.parametrize("prepared", ["nothing", "empty", "key"])
def test_a_lake_begins_in_an_empty_folder(quorum: Path, tmp_path: Path, prepared: str) -> None:
    lake = tmp_path / "lake"
    if prepared != "nothing":
        lake.mkdir()
    if prepared == "key":
        (lake / "_redaction.key").write_bytes(b"k" * 32)
    begin(quorum, lake)
    assert state_of(str(lake)).layout == LAYOUT


def refused(quorum: Path, lake: Path) -> str:
    """The sentence, where nothing has been written."""
    before = sorted(map(str, lake.rglob("*")))
    with pytest.raises(LakeError) as caught:
        begin(quorum, lake)
    assert sorted(map(str, lake.rglob("*"))) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_of_other_things_is_refused(quorum: Path, tmp_path: Path) -> None:
    lake = tmp_path / "home"
    for name in ("letters", "music", "photos", "taxes"):
        (lake / name).mkdir(parents=True)
    said = refused(quorum, lake)
    assert "holds other things (letters, music, photos and 1 more)" in said
    assert "name a lake, or for a new one an empty folder" in said


@pytest.mark.parametrize(
    "name", ["a?b", "a#b", "a%20b", "%71uorum", "100%41", "a\\b", "a\nb", "\x7f", "\udcff"]
)
def test_a_path_that_delta_reads_as_another_one_is_refused(
    name: str, quorum: Path, tmp_path: Path
) -> None:
    """It would keep its log elsewhere: even below the input, as `%71uorum` is `quorum` to it."""
    said = refused(quorum, tmp_path / name / "lake")
    assert "Delta cannot keep a lake where a path holds" in said
    assert "name another folder" in said
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["a b", "100%", "größe", "%zz", "[x]", "a*b", "~", "'\""])
def test_other_names_of_folders_hold_a_lake(name: str, quorum: Path, tmp_path: Path) -> None:
    lake = tmp_path / name / "lake"
    for _ in range(2):
        begin(quorum, lake)
    assert state_of(str(lake)).token == 2
    assert [one.name for one in (tmp_path / name).iterdir()] == ["lake"]


def test_a_file_is_refused(quorum: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is a file; name a folder" in refused(quorum, tmp_path / "file")


def test_a_lake_whose_register_is_gone_is_refused(quorum: Path, tmp_path: Path) -> None:
    """And goes on where it lay when that is put back."""
    lake = tmp_path / "lake"
    begin(quorum, lake)
    Lake(str(lake)).ensure(decoded_tables()["runs"])
    (lake / REGISTER).rename(tmp_path / "backup")
    said = refused(quorum, lake)
    assert "its folder _lake, is gone" in said
    assert "Put it back from a backup. Without one, name an empty folder" in said
    (tmp_path / "backup").rename(lake / REGISTER)
    begin(quorum, lake)
    assert state_of(str(lake)).token == 2


@pytest.mark.parametrize(
    "command",
    ["run --input {} --lake", "lake check --lake", "changes --lake", "explain topic a --lake"],
)
def test_each_command_refuses_a_lake_without_its_register(
    command: str, quorum: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    for name in ("runs", "records"):
        Lake(str(lake)).ensure(decoded_tables()[name])
    assert main([*command.replace("{}", str(quorum)).split(), str(lake)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (said,) = [one for one in told.err.splitlines() if one.startswith("kraftlog: ")]
    assert "its folder _lake, is gone" in said


@pytest.mark.parametrize("layout", [2, LAYOUT - 1, LAYOUT + 1])
def test_another_layout_is_refused(layout: int, quorum: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    begin(quorum, lake)
    state = state_of(str(lake))
    newer = replace(state, version=state.version + 1, layout=layout)
    assert Register(str(lake)).advance(newer)
    told = refused(quorum, lake)
    assert f"has layout {layout}" in told
    assert "With _redaction.key from here in it, masks stay as they are." in told
    with pytest.raises(LakeError, match="has layout"):
        state_of(str(lake))


def test_a_lake_belongs_to_one_cluster(quorum: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    begin(quorum, lake)
    ours = state_of(str(lake)).cluster_id
    assert ours
    set_cluster(quorum, "AnotherClusterAltogether")
    with pytest.raises(LakeError) as caught:
        begin(quorum, lake)
    assert f"this lake holds the cluster {ours}" in str(caught.value)
    assert "the input is of the cluster AnotherClusterAltogether" in str(caught.value)
    assert state_of(str(lake)).owner is None
    set_cluster(quorum, ours)
    begin(quorum, lake)


def test_copies_without_an_identity_take_part(
    quorum: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy of the log alone names no cluster; the first one that does gives the lake its own, and
    where it is known, it is told that those of the log alone may be of another.
    """
    lake = tmp_path / "lake"
    set_cluster(quorum, None)
    begin(quorum, lake)
    assert state_of(str(lake)).cluster_id is None
    set_cluster(quorum, "A")
    begin(quorum, lake)
    with writing(options_of(quorum, lake)):  # which reads no input
        pass
    assert state_of(str(lake)).cluster_id == "A"
    assert "names no cluster" not in capsys.readouterr().err
    set_cluster(quorum, None)
    begin(quorum, lake)
    assert state_of(str(lake)).cluster_id == "A"
    told = "the input names no cluster, and this lake holds the cluster A: whether it is the same"
    assert told in capsys.readouterr().err
    set_cluster(quorum / "2", "A")
    begin(quorum, lake)
    assert "names no cluster" not in capsys.readouterr().err


def test_one_strange_replica_does_not_shut_its_quorum_out(quorum: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    begin(quorum, lake)
    ours = state_of(str(lake)).cluster_id
    set_cluster(quorum / "2", "Stranger")
    begin(quorum, lake)
    assert state_of(str(lake)).cluster_id == ours


def test_a_copy_of_a_lakes_cluster_that_was_left_behind_brings_no_other_one_in(
    quorum: Path, tmp_path: Path
) -> None:
    """As a pulled folder is, where all nodes were formatted anew: the quorum would be the others'."""
    lake = tmp_path / "lake"
    begin(quorum, lake)
    ours = state_of(str(lake)).cluster_id
    shutil.copytree(quorum / "2", quorum / "3")
    for node in ("2", "3"):
        set_cluster(quorum / node, "Other")
    told = f"holds the cluster {ours}, and most of the input is of the cluster Other; give each"
    with pytest.raises(LakeError, match=told):
        begin(quorum, lake)
    assert state_of(str(lake)).owner is None
    shutil.rmtree(quorum / "3")
    begin(quorum, lake)


def test_nothing_is_made_below_an_input(quorum: Path) -> None:
    with pytest.raises(UsageError, match="lies below the input"):
        begin(quorum, quorum / "lake")
    assert not (quorum / "lake").exists()


def run_over(quorum: Path, lake: Path) -> None:
    """A lake with a run that has read the quorum, and two tables."""
    with writing(options_of(quorum, lake), reads_input=True) as written:
        row = {"run_id": "1", "number": 1, "inputs": [str(quorum)]}
        for spec, rows in ((FINDINGS, []), (RUNS, [row])):
            written.write(spec, pa.Table.from_pylist(rows, schema=spec.schema), 1)


LOG = "1/__cluster_metadata-0"
LINKS = {
    "report.html": "1/meta.properties",
    "_redaction.key": "1/quorum-state",
    "_lake/_delta_log/_last_checkpoint": "1/meta.properties",
    "topics": LOG,
    "findings/_delta_log": LOG,
    "partitions/lineage=main/is_current=true": LOG,
}


@pytest.mark.parametrize("reads_input", [True, False])
@pytest.mark.parametrize("name", LINKS)
def test_nothing_is_written_through_a_link_into_an_input(
    name: str, reads_input: bool, quorum: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    run_over(quorum, lake)
    before = state_of(str(lake)).version
    if (lake / name).is_dir():
        shutil.rmtree(lake / name)
    (lake / name).parent.mkdir(parents=True, exist_ok=True)
    (lake / name).symlink_to(quorum / LINKS[name])
    options = options_of(quorum, lake) if reads_input else load_options({"lake": str(lake)})
    with (
        pytest.raises(UsageError, match=f"the lake's link .*{name} lies below the input {quorum}"),
        writing(options, reads_input=reads_input),
    ):
        pass
    assert state_of(str(lake)).version == before


def test_a_table_may_lie_on_another_disk(quorum: Path, tmp_path: Path) -> None:
    """So may what is no part of the lake, wherever it leads to."""
    lake, disk = tmp_path / "lake", tmp_path / "disk"
    run_over(quorum, lake)
    (lake / "findings").rename(disk)
    (lake / "findings").symlink_to(disk)
    (lake / "copies").symlink_to(quorum)
    begin(quorum, lake)
    (disk / "copies").symlink_to(quorum)
    with pytest.raises(UsageError, match=r"the lake's link .*/findings/copies lies below"):
        begin(quorum, lake)


@pytest.mark.parametrize("flag", ["--report", "--metrics-file", "--junit-file"])
def test_an_input_that_a_run_has_read_is_one_when_it_is_not_named(
    flag: str, quorum: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, file = tmp_path / "lake", quorum / "1" / "meta.properties"
    run_over(quorum, lake)
    before = file.read_bytes()
    assert main(["audit", "--lake", str(lake), flag, str(file)]) == 2
    assert f"{file} lies below the input {quorum}" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_step_makes_no_lake(tmp_path: Path) -> None:
    options = load_options({"lake": str(tmp_path / "lake")})
    with (
        pytest.raises(LakeError, match="kraftlog run, or the decode job, comes first"),
        writing(options),
    ):
        pass
    assert not (tmp_path / "lake").exists()


def test_a_table_that_began_again_is_published_anew(quorum: Path, tmp_path: Path) -> None:
    """Its new log may come to the very version that the old one had, with other files."""
    options = options_of(quorum, tmp_path / "lake")

    def write(lake: Lake, number: int) -> None:
        for spec, row in ((FINDINGS, {}), (RUNS, {"number": number})):
            rows = [{"run_id": str(number), **row}]
            lake.write(spec, pa.Table.from_pylist(rows, schema=spec.schema), number)

    for number in (1, 2):
        with writing(options, reads_input=True) as lake:
            write(lake, number)
    was = state_of(lake.root).published[-1].versions["findings"]
    shutil.rmtree(lake.path("findings"))
    assert [one.table for one in damages(lake, SPECS, state_of(lake.root).published[-1])] == [
        "findings"
    ]
    with writing(options, reads_input=True) as lake:
        write(lake, 2)
    (told,) = state_of(lake.root).published
    assert (told.run, told.versions["findings"], told.files["findings"]) == (2, was, 1)
    assert list(damages(lake, SPECS, told)) == []


def test_readers_are_told_of_a_run_when_it_is_whole(quorum: Path, tmp_path: Path) -> None:
    """The versions that belong together: of a first run what there is, of the next ones only when
    every table has come as far.
    """
    options = options_of(quorum, tmp_path / "lake")

    def fail_after(lake: Lake) -> None:
        lake.commit(FILES, [], 2)
        raise LakeError("it fails")

    def published() -> list[tuple[int, dict[str, int]]]:
        state = state_of(options.lake or "")
        return [(one.run, dict(one.versions)) for one in state.published]

    with writing(options, reads_input=True) as lake:
        lake.commit(FILES, [], 1)
        lake.commit(RUNS, [], 1)
        assert published() == []
    first = (1, {"files": 0, "runs": 0})
    assert published() == [first]
    with writing(options) as lake:
        lake.commit(RUNS, [], 2)
    assert published() == [first], "files are behind"
    with pytest.raises(LakeError), writing(options) as lake:
        fail_after(lake)
    assert published() == [first], "it failed"
    with writing(options):
        pass
    assert published() == [first, (2, {"files": 1, "runs": 1})]


def test_tables_that_are_ahead_of_runs_are_never_published(quorum: Path, tmp_path: Path) -> None:
    """Whoever holds the lake next takes them back, whatever it is for."""
    options = options_of(quorum, tmp_path / "lake")
    new = decoded_tables()["batches"]
    with writing(options, reads_input=True) as lake:
        lake.commit(FILES, [], 1)
        lake.commit(RUNS, [], 1)
    first = state_of(lake.root).published
    for spec in (FILES, new):
        with writing(options) as lake:
            lake.commit(spec, [], 2)
        assert state_of(lake.root).published == first
        with writing(options) as lake:
            assert lake.run_number(spec.name) < 2
        (told,) = state_of(lake.root).published
        assert told.run == 1
        first = (told,)
