"""What was deleted or damaged in a lake is noticed by the next run, and rebuilt from the input;
what a disk has changed in silence is found where all is read again.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.errors import LakeError
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.keeping import compact_lake, expire_lake, lake_damage
from kraftlog.pipeline.run import newest_run
from kraftlog.pipeline.steps import Outcome, run_pipeline, run_steps
from kraftlog.report.judgement import judged_in
from kraftlog.tables.lake import Lake, LakeTable, held_by_all
from kraftlog.tables.lake_names import PAGE
from kraftlog.tables.register import Register
from kraftlog.tables.spec import PER_RUN
from tests.golden.cases import DATA
from tests.in_process import InProcess
from tests.lakes import OF_THE_RUN

Row = dict[str, Any]
COUNTS = {"read_file_count", "batch_count", "new_batch_count", "record_count", "fault_count"}


class Lab:
    """A copy of a golden quorum, and a lake that one run has written."""

    def __init__(self, folder: Path) -> None:
        self.root, self.lake = folder / "replicas", Lake(str(folder / "lake"))
        shutil.copytree(DATA / "isolated" / "replicas", self.root)
        self.run()
        self.known = self.contents()
        self.whole = folder / "whole"
        shutil.copytree(self.lake.root, self.whole)

    def again(self) -> None:
        """The lake as the first run left it."""
        shutil.rmtree(self.lake.root)
        shutil.copytree(self.whole, self.lake.root)

    def run(self, **more: object) -> Outcome:
        given = {"input": [str(self.root)], "lake": self.lake.root, **more}
        return run_pipeline(InProcess, load_options(given))

    def contents(self) -> dict[str, list[str]]:
        """The rows of all tables; of those that hold rows per run, of the newest."""
        lake, found = replace(self.lake, opened={}), {}
        newest = max(lake.rows("runs").to_pylist(), key=lambda row: row["number"])["run_id"]
        for name, spec in all_tables().items():
            rows = lake.bare_dataset(name).to_table().to_pylist()
            if spec.mode == PER_RUN:
                rows = [row for row in rows if row["run_id"] == newest]
            without = OF_THE_RUN | {"number"} | (COUNTS if name == "runs" else set())
            found[name] = sorted(repr({k: v for k, v in row.items() if k not in without})
                                 for row in rows)  # fmt: skip
        return found

    def file_of(self, table: str, part: str = "") -> Path:
        """A Parquet file of a table."""
        chosen = [one["path"] for one, _ in self.lake.files(table) if part in one["path"]]
        return Path(self.lake.path(table)) / min(chosen)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("mending"))


def remove_table(name: str) -> Callable[[Lab], None]:
    return lambda lab: shutil.rmtree(lab.lake.path(name))


def remove_file(name: str, part: str = "") -> Callable[[Lab], None]:
    return lambda lab: lab.file_of(name, part).unlink()


def cut_file(name: str) -> Callable[[Lab], None]:
    return lambda lab: os.truncate(lab.file_of(name), 200)


def remove_log(name: str, at: int) -> Callable[[Lab], None]:
    def harm(lab: Lab) -> None:
        sorted((Path(lab.lake.path(name)) / "_delta_log").glob("*.json"))[at].unlink()

    return harm


def remove_every(*names: str) -> Callable[[Lab], None]:
    def harm(lab: Lab) -> None:
        for name in names:
            shutil.rmtree(lab.lake.path(name))

    return harm


def tear(*names: str) -> Callable[[Lab], None]:
    """The newest commits as a machine leaves them that lost its power."""

    def harm(lab: Lab) -> None:
        for name in names:
            os.truncate(max((Path(lab.lake.path(name)) / "_delta_log").glob("*.json")), 0)

    return harm


def empty(*names: str, is_for_good: bool = False) -> Callable[[Lab], None]:
    """Another writer's doing, which takes the files away too where it is for good."""

    def harm(lab: Lab) -> None:
        for name in names:
            DeltaTable(lab.lake.path(name)).delete()
            if is_for_good:
                DeltaTable(lab.lake.path(name)).vacuum(0, False, enforce_retention_duration=False)

    return harm


def gather(name: str, *, is_for_good: bool = False) -> Callable[[Lab], None]:
    """Another client has made one file of all of a table; its files before are gone, too, or not."""

    def harm(lab: Lab) -> None:
        table = DeltaTable(lab.lake.path(name))
        assert table.optimize.compact()["numFilesRemoved"] > 1
        if is_for_good:
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    return harm


def rewrite(name: str, column: str) -> Callable[[Lab], None]:
    """As many rows as before, by another writer."""

    def harm(lab: Lab) -> None:
        DeltaTable(lab.lake.path(name)).update({column: "0"})

    return harm


HARM: dict[str, Callable[[Lab], None]] = {
    "records": remove_table("records"),
    "records file": remove_file("records", "TOPIC_RECORD"),
    "contents file": cut_file("contents"),
    "control log": remove_log("control_records", 0),
    "runs": remove_table("runs"),
    "newest batches": remove_log("batches", -1),
    "derived": remove_every("topics", "partitions", "findings", "growth", "lineages"),
    "verdict": remove_file("verdicts"),
    "what an audit writes": remove_every("verdicts", "settings", "restart_plan", "judged"),
    "torn logs": tear("records", "contents", "batches", "runs", "partitions", "growth"),
    "rows of tables": empty("records", "contents", "batches", "runs", "partitions", "findings"),
    "rows with their files": empty("records", "files", "runs", "findings", is_for_good=True),
    "gathered files": gather("batches"),
    "gathered files without those before": gather("batches", is_for_good=True),
    "other rows": rewrite("contents", "record_count"),
    "derived files": remove_file("contract_results"),
}


@pytest.mark.parametrize("what", HARM)
def test_what_is_damaged_is_told_and_rebuilt(
    what: str, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.again()
    options = load_options({"lake": lab.lake.root})
    assert not lake_damage(options).damaged
    HARM[what](lab)
    damaged = lake_damage(options).damaged
    assert damaged
    assert lab.run().exit_code == 0
    said = capsys.readouterr().err
    assert all(f"{one.partition(':')[0]} is damaged" in said for one in damaged)
    assert "their records are lost" not in said
    assert lab.contents() == lab.known
    assert not lake_damage(options).damaged
    assert not lab.run().is_new, "it is whole"
    assert all("path" in held_by_all(*one) for one in lab.lake.files("batches")), "one file each"


def test_a_check_reads_the_log_of_each_table_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.again()
    opened: list[str] = []
    begin = LakeTable.__init__

    def noted(self: LakeTable, path: str, **how: Any) -> None:
        opened.append(Path(path).name)
        begin(self, path, **how)

    monkeypatch.setattr(LakeTable, "__init__", noted)
    assert not lake_damage(load_options({"lake": lab.lake.root})).damaged
    assert sorted(opened) == sorted(all_tables())


def test_what_the_input_no_longer_holds_is_named(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.again()
    before = lab.lake.rows("records").num_rows
    tails = ("2", "12")
    for node in tails:
        shutil.move(lab.root / node, tmp_path / node)
    shutil.rmtree(Path(lab.lake.path("records")) / "type=TOPIC_RECORD")
    lab.run()
    for node in tails:
        shutil.move(tmp_path / node, lab.root / node)
    assert "are no longer in the input, so that their records are lost" in capsys.readouterr().err
    assert 0 < lab.lake.rows("records").num_rows < before, "what was whole has stayed"
    lab.run()
    assert lab.contents()["records"] == lab.known["records"]


@pytest.mark.parametrize("is_grown", [False, True])
def test_rows_of_earlier_runs_that_are_lost_are_named(
    is_grown: bool, lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the last run are in another file, and stay, whatever the input does."""
    lab.again()
    first = lab.file_of("findings")
    describes = [lab.root / node / "server.properties" for node in ("1", "2")]
    try:
        describes[0].write_text("broker.rack=a\n")
        lab.run()
        kept = lab.contents()["findings"]
        run_id = newest_run(lab.lake)["run_id"]
        if is_grown:
            describes[1].write_text("broker.rack=b\n")
        first.unlink()
        capsys.readouterr()
        assert lab.run().is_new == is_grown
        findings = lab.lake.path("findings")
        said = capsys.readouterr().err
        assert f"{findings} holds no rows of run 1 any more: whatever it told of them" in said
        assert said.count("any more") == 1
        assert len(lab.lake.rows_of_run("findings", run_id)) == len(kept)
        checked = lake_damage(load_options({"lake": lab.lake.root}))
        assert "findings holds no rows of run 1, and no input" in checked.summary
        lake = ["--lake", lab.lake.root]
        assert main(["changes", *lake, "--since", "1", "--run", "2"]) == 0
        assert "the lake does not hold what run 1 found" in capsys.readouterr().out
        if is_grown:
            assert main(["changes", *lake]) == 0
            assert "nothing is different" in capsys.readouterr().out
    finally:
        for one in describes:
            one.unlink(missing_ok=True)


def test_a_run_that_is_lost_itself_is_named(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """No run tells again what it was of; and what only readers miss is told by a check, until the
    next run.
    """
    lab.again()
    mark, runs = lab.root / "1" / "server.properties", lab.lake.path("runs")
    options = load_options({"lake": lab.lake.root})
    sql = ["sql", "SELECT number FROM runs ORDER BY number", "--lake", lab.lake.root]
    try:
        lab.file_of("runs").unlink()
        mark.write_text("broker.rack=a\n")
        lab.run()
        assert f"{runs} holds no rows of run 1 any more: whatever" in capsys.readouterr().err
        mark.write_text("broker.rack=bb\n")
        lab.run()
        gather("runs", is_for_good=True)(lab)
        assert [one.partition(":")[0] for one in lake_damage(options).damaged] == [runs]
        assert main(sql) == 2
        assert not lab.run().is_new
        assert not lake_damage(options).damaged
        assert main(sql) == 0
    finally:
        mark.unlink(missing_ok=True)


def test_a_run_whose_epochs_are_lost_is_not_compared(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.again()
    mark = lab.root / "1" / "server.properties"
    try:
        mark.write_text("broker.rack=a\n")
        lab.file_of("epochs").unlink()
        shutil.rmtree(Path(lab.lake.path("lineages")))
        lab.run()
    finally:
        mark.unlink()
    capsys.readouterr()
    assert main(["changes", "--lake", lab.lake.root]) == 2
    assert "holds no epochs and lineages of run 1, so that nothing" in capsys.readouterr().err


def test_of_a_file_that_is_gone_readers_say_the_table(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.again()
    lab.file_of("lineages").unlink()
    assert main(["explain", "topic", "real-1", "--lake", lab.lake.root]) == 2
    said = capsys.readouterr().err
    assert "/lineages: a file of this table cannot be read" in said
    assert "run over the input, which rebuilds" in said


def test_a_power_cut_takes_no_history(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an earlier run has committed stays, though the input no longer holds it; the register's
    end is torn too.
    """
    lab.again()
    before = lab.contents()
    folder = lab.root / "1" / "__cluster_metadata-0"
    gone = folder / "00000000000000000000-0000000000.checkpoint"
    shutil.move(gone, tmp_path)
    lab.run()
    tear("records", "contents", "control_records", "_lake")(lab)
    lab.run(lease_seconds=1)
    said = capsys.readouterr().err
    assert "/_lake: its newest entry was broken" in said
    assert "are lost" not in said
    for name in ("records", "contents", "control_records"):
        assert lab.contents()[name] == before[name]
    shutil.move(tmp_path / gone.name, folder)


def test_a_step_without_input_does_not_build_on_damage(lab: Lab) -> None:
    lab.again()
    lab.file_of("records").unlink()
    with pytest.raises(LakeError, match="run over the input, which rebuilds it"):
        run_steps(InProcess, load_options({"lake": lab.lake.root}), "audit")


def test_a_failed_check_without_its_findings_counts(lab: Lab) -> None:
    """Of what is read where another client has just set the table back."""
    lab.again()
    options = load_options({"lake": lab.lake.root, "fail_on": "warning"})
    run_id = newest_run(lab.lake)["run_id"]
    assert judged_in(lab.lake, run_id).exit_code(options) == 1
    empty("findings")(lab)
    assert judged_in(lab.lake, run_id).exit_code(options) == 1


def test_a_bit_that_was_turned_in_silence_is_found(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.again()
    log = next((lab.root / "1" / "__cluster_metadata-0").glob("*.log"))
    status, raw = log.stat(), bytearray(log.read_bytes())
    assert not lab.run(verify=True).is_new
    assert "all as the lake knows them" in capsys.readouterr().err
    raw[20_000] ^= 1
    log.write_bytes(raw)
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not lab.run().is_new, "size and time are the same"
    outcome = lab.run(verify=True)
    said = capsys.readouterr().err
    assert (outcome.is_new, outcome.exit_code) == (True, 1)
    assert f"{log}: its content has changed under the same size and time" in said
    (row,) = (one for one in lab.lake.rows("runs").to_pylist() if one["number"] == 2)
    assert row["changed_in_place_count"] == 1
    raw[20_000] ^= 1
    log.write_bytes(raw)
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_small_files_that_were_turned_in_silence_are_found_by_any_run(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each run reads them. What it says of them is said until the input is another."""
    lab.again()
    log = lab.root / "1" / "__cluster_metadata-0"
    index, state = log / "00000000000000000000.index", log / "quorum-state"
    known = {one: (one.stat(), one.read_bytes()) for one in (index, state)}
    for path, (status, raw) in known.items():
        path.write_bytes(raw.replace(b'"leaderEpoch":2', b'"leaderEpoch":3').replace(b"\0", b"\1"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert path.read_bytes() != raw
    given = {"input": [str(lab.root)], "lake": lab.lake.root}
    run_steps(InProcess, load_options(given), "decode")
    said = capsys.readouterr().err
    assert all(f"{path}: its content has changed under the same" in said for path in known)
    report = tmp_path / "junit.xml"
    lake = ["--lake", lab.lake.root]
    assert main(["audit", *lake, "--junit-file", str(report)]) == 1
    assert 'name="changed_in_place"' in report.read_text()
    again = lab.run(verify=True)
    assert (again.is_new, again.exit_code) == (False, 1)
    said = capsys.readouterr().err
    assert "run 2 has read 2 files whose content had changed under the same size and time" in said
    assert "42 files read again, all as the lake knows them" in said
    assert "2 files had changed under the same size" in Path(lab.lake.path(PAGE)).read_text()
    for path, (status, raw) in known.items():
        path.write_bytes(raw)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_lake_is_kept_small_by_hand(lab: Lab) -> None:
    lab.again()
    options = load_options({"lake": lab.lake.root, "keep_runs": 1})
    compact_lake(options, 2)
    assert "readable are the runs 1" in expire_lake(options)
    assert lab.contents() == lab.known
    state = Register(lab.lake.root).read()
    assert state is not None
    for name, version in state.published[-1].versions.items():
        assert lab.lake.open(name).version() == version
    folders = (Path(lab.lake.path(name)) for name in all_tables())
    on_disk = sum(len(list(one.rglob("part-*.parquet"))) for one in folders)
    assert on_disk == sum(len(lab.lake.files(name)) for name in all_tables())
    assert lake_damage(load_options({"lake": lab.lake.root, "verify": True})).damaged == []
