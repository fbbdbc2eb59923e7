"""What a run leaves in a lake whose input has grown, was cut or has changed between two steps, or that
a killed run has begun.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from kraftlog.config import Options, load_options
from kraftlog.errors import LakeError
from kraftlog.log.names import LOG_FOLDER
from kraftlog.pipeline import run
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.keeping import compact_lake
from kraftlog.pipeline.object_lives import ObjectLives, lives_of
from kraftlog.pipeline.run import Run, newest_run
from kraftlog.pipeline.steps import run_pipeline, run_steps
from kraftlog.pipeline.writing import writing
from kraftlog.tables.lake import Lake
from kraftlog.tables.spec import state_tables
from tests.golden.cases import DATA
from tests.in_process import InProcess
from tests.lakes import contents as all_contents
from tests.lakes import key_in
from tests.unit.test_metrics_objects import lives_as_told

Row = dict[str, Any]


class Lab:
    """A copy of a golden quorum, and a lake."""

    def __init__(self, folder: Path) -> None:
        self.root, self.lake = folder / "replicas", Lake(str(folder / "lake"))
        shutil.copytree(DATA / "isolated" / "replicas", self.root)

    @property
    def options(self) -> Options:
        return load_options({"input": [str(self.root)], "lake": self.lake.root})

    def bring_up(self) -> None:
        """The two steps that others build on."""
        bring_up(self.root, self.lake)

    def measure(self) -> None:
        run_steps(InProcess, self.options, "metrics")

    def lives(self) -> ObjectLives:
        run = Run(self.options, self.lake, InProcess)
        return lives_of(self.lake, run.lineages[0])

    def lives_from_nothing(self) -> ObjectLives:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kraftlog.pipeline.object_lives.last_writer", lambda *_: None)
            return self.lives()

    def rows(self, name: str) -> list[Row]:
        rows: list[Row] = self.lake.rows(name).to_pylist()
        return rows

    def batches(self, replica: str) -> list[Row]:
        """Those in the log of a replica."""
        rows = self.rows("batches")
        return [one for one in rows if (one["replica"], one["file_kind"]) == (replica, "log")]

    def files(self, name: str) -> set[str]:
        return {file["path"] for file, _ in self.lake.files(name)}

    def log(self, node: str) -> Path:
        return next((self.root / node / "__cluster_metadata-0").glob("*.log"))


def bring_up(root: Path, lake: Lake) -> None:
    options = load_options({"input": [str(root)], "lake": lake.root})
    run_steps(InProcess, options, "decode", "materialize")


def test_a_grown_log_adds_only_what_is_new(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    log = lab.log("1")
    whole = log.read_bytes()
    lab.log("3").unlink()
    shutil.rmtree(lab.root / "11")
    log.write_bytes(whole[:20_000])
    lab.bring_up()
    before = lab.lake.rows("records").num_rows
    known = lab.files("records")
    past = ended_partitions(lab)
    log.write_bytes(whole)
    lab.bring_up()
    assert lab.lake.rows("records").num_rows > before
    assert known <= lab.files("records")
    newest = max(lab.rows("runs"), key=lambda row: row["number"])
    assert newest["read_file_count"] == 1
    assert 0 < newest["new_batch_count"] < newest["batch_count"]
    assert sum(row["size_bytes"] for row in lab.batches("1")) == len(whole)
    assert past
    assert past <= ended_partitions(lab), "what had ended is not told again"
    anew = tmp_path / "anew"
    anew.mkdir()
    shutil.copy(lab.lake.path("_redaction.key"), anew)
    bring_up(lab.root, Lake(str(anew)))
    for name in state_tables():
        assert contents(lab.lake, name) == contents(Lake(str(anew)), name), name


@pytest.mark.parametrize("goes_on", [True, False])
def test_what_ended_at_a_hole_is_told_once(
    goes_on: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run over a log with a hole wrote the versions before it once more, and their faults; also
    where the last stretch is told anew, as of topics that share a name.
    """
    if not goes_on:
        monkeypatch.setattr("kraftlog.pipeline.states.outline_from", lambda *_: None)
    lab = Lab(tmp_path)
    shutil.rmtree(lab.root)
    shutil.copytree(DATA / "steady-live" / "replicas" / "1", lab.root / "1")
    (*_, gone, _, last) = sorted((lab.root / "1" / LOG_FOLDER).glob("*.log"))
    gone.unlink()
    whole = last.read_bytes()
    for size in (len(whole) // 2, len(whole)):
        last.write_bytes(whole[:size])
        lab.bring_up()
    told = {one["stretch"] for one in lab.rows("lineages")}
    assert told == {0, 1}
    assert lab.lake.run_number("partitions") == 2
    anew = tmp_path / "anew"
    anew.mkdir()
    shutil.copy(lab.lake.path("_redaction.key"), anew)
    bring_up(lab.root, Lake(str(anew)))
    for name in (*state_tables(), "replay_faults"):
        assert of_newest(lab.lake, name) == of_newest(Lake(str(anew)), name), name


def of_newest(lake: Lake, name: str) -> list[str]:
    """The rows of the newest run, without its id."""
    newest = newest_run(lake)["run_id"]
    rows = lake.rows(name).to_pylist()
    return sorted(repr(one) for one in rows if one.pop("run_id", newest) == newest)


def test_lives_go_on_from_what_is_kept(tmp_path: Path) -> None:
    """Objects have the lives that they have without it; also where what is kept is of another
    history, or lost, or where files have been merged.
    """
    lab = Lab(tmp_path)
    log = lab.log("1")
    whole = log.read_bytes()
    shutil.rmtree(lab.root / "11")
    lab.log("3").unlink()
    for size in (20_000, 25_000, len(whole)):
        log.write_bytes(whole[:size])
        lab.bring_up()
        compact_lake(lab.options, 2)  # files of what is known and of what is not are one
        known = lab.lives().known_until
        assert (known is None) == (size == 20_000), "nothing was kept before the first run"
        assert told(lab.lives()) == told(lab.lives_from_nothing())
        lab.measure()
    kept = lab.rows("ended_versions")
    assert len({row["run_id"] for row in kept}) > 1, "a run adds its own to what is there"
    is_past = (pc.field("lineage") == "main") & ~pc.field("is_current")
    ended = lab.lake.rows("partitions").filter(is_past)
    assert [row["object_kind"] for row in kept].count("partitions") == ended.num_rows > 0
    compact_lake(lab.options, 2)
    assert told(lab.lives()) == told(lab.lives_from_nothing())
    with writing(lab.options) as lake:
        lake.empty(all_tables()["ended_versions"])
    assert lab.lives().known_until is None


def test_lives_of_a_log_that_was_cut_are_told_from_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    log = lab.log("1")
    whole = log.read_bytes()
    shutil.rmtree(lab.root / "11")
    lab.log("3").unlink()
    for size in (len(whole), 20_000):
        log.write_bytes(whole[:size])
        lab.bring_up()
        assert lab.lives().known_until is None
        lab.measure()
    assert {row["run_id"] for row in lab.rows("ended_versions")} == {newest_run(lab.lake)["run_id"]}


def told(found: ObjectLives) -> dict[str, Any]:
    """All that is known of lives, in an order that does not depend on how objects are numbered."""
    return {name: lives_as_told(one) for name, one in found.by_table.items()}


def ended_partitions(lab: Lab) -> set[str]:
    """The files of the shared lineage's partitions that no longer hold."""
    return {
        file["path"]
        for file, values in lab.lake.files("partitions")
        if values == {"lineage": "main", "is_current": False}
    }


def contents(lake: Lake, name: str) -> list[str]:
    return sorted(map(repr, lake.rows(name).to_pylist()))


def test_a_log_that_was_cut_is_corrected(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.bring_up()
    records = lab.lake.rows("records").num_rows
    log = lab.log("2")
    cut = next(row["position"] for row in lab.batches("2") if row["base_offset"] == 176)
    log.write_bytes(log.read_bytes()[:cut])
    lab.bring_up()
    ends = {
        row["replica"]: row["log_end_offset"]
        for row in lab.rows("replicas")
        if row["run_id"] == max(lab.rows("runs"), key=lambda run: run["number"])["run_id"]
    }
    assert ends["2"] == 176
    assert lab.lake.rows("records").num_rows == records, "what was once on a disk stays in the lake"


def test_a_killed_run_loses_nothing_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    write = Lake.write

    def killed(self: Lake, spec: Any, *rest: Any, **more: Any) -> int:
        if spec.name == "files":
            raise KeyboardInterrupt
        return write(self, spec, *rest, **more)

    monkeypatch.setattr(Lake, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        lab.bring_up()
    monkeypatch.undo()
    assert lab.lake.rows("records").num_rows > 0
    lab.bring_up()
    ids = [(row["batch_id"], row["record_index"]) for row in lab.rows("records")]
    assert len(ids) == len(set(ids))
    assert {row["replica"] for row in lab.rows("replicas")} == {"1", "2", "3", "11", "12"}


def test_no_step_judges_disks_by_what_older_ones_held(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    run_steps(InProcess, lab.options, "decode")
    lab.log("2").touch()
    for step in ("materialize", "audit", "metrics"):
        with pytest.raises(LakeError, match="has changed since run 1 read it; run again over the"):
            run_steps(InProcess, load_options({"lake": lab.lake.root}), step)
    lab.bring_up()
    assert run_steps(InProcess, lab.options, "audit").exit_code == 0
    lab.log("2").touch()
    assert run_steps(InProcess, lab.options, "audit").exit_code == 0, "nothing is left to judge"


def test_batches_go_by_the_labels_of_their_replicas(tmp_path: Path) -> None:
    """Which is another one as soon as two roots hold replicas of one name."""
    roots, lake = [tmp_path / name for name in "ab"], Lake(str(tmp_path / "lake"))
    for one in roots:
        shutil.copytree(DATA / "isolated" / "replicas" / "1", one / "1")
    for inputs in (roots[:1], roots):
        options = load_options({"input": list(map(str, inputs)), "lake": lake.root})
        run_steps(InProcess, options, "decode")
    for table in ("files", "batches"):
        assert {*lake.rows(table)["replica"].to_pylist()} == {"a/1", "b/1"}, table


def test_a_replica_without_files_is_told(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.bring_up()
    (lab.root / "4" / "__cluster_metadata-0").mkdir(parents=True)
    lab.bring_up()
    assert "4" in {row["replica"] for row in lab.rows("replicas")}


def test_another_version_audits_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    assert run_pipeline(InProcess, lab.options).is_new
    monkeypatch.setattr(run, "__version__", "9.9.9")
    assert run_pipeline(InProcess, lab.options).is_new
    runs = {row["kraftlog_version"]: row["read_file_count"] for row in lab.rows("runs")}
    assert (len(runs), runs["9.9.9"]) == (2, 0), "it is told again, and no file is read"
    assert not run_pipeline(InProcess, lab.options).is_new


def test_another_describe_audits_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab, described = Lab(tmp_path), tmp_path / "describe"
    options = replace(lab.options, quorum_describe=str(described))
    described.write_text("HighWatermark: 300\n")
    assert run_pipeline(InProcess, options).exit_code == 0
    described.write_text("HighWatermark: 400\n")
    assert run_steps(InProcess, options, "audit").exit_code == 0
    assert "is told by another describe than that of now" in capsys.readouterr().err
    outcome = run_pipeline(InProcess, options)
    assert (outcome.exit_code, outcome.is_new) == (0, True), "nothing tells when that was"
    assert "voter_holds_committed_data" in {row["check"] for row in lab.rows("findings")}
    assert not run_pipeline(InProcess, options).is_new


@pytest.mark.parametrize(
    ("case", "limit"),
    [("isolated", "batch_limit_bytes"), ("synthetic-compress-gzip", "decompress_limit_bytes")],
)
def test_what_a_limit_kept_out_is_read_under_a_larger_one(
    case: str, limit: str, tmp_path: Path
) -> None:
    lakes = [Lake(str(tmp_path / name)) for name in ("before", "fresh")]
    for lake in lakes:
        Path(lake.root).mkdir()
        key_in(Path(lake.root))
    wide = {"input": [str(DATA / case / "replicas")]}
    run_pipeline(InProcess, load_options({**wide, "lake": lakes[0].root, limit: 1000}))
    assert lakes[0].rows("faults").num_rows + lakes[0].rows("record_faults").num_rows
    for lake in lakes:
        assert run_pipeline(InProcess, load_options({**wide, "lake": lake.root})).is_new
    verified = load_options({**wide, "lake": lakes[0].root, "verify": True})
    assert not run_pipeline(InProcess, verified).is_new
    assert all_contents(lakes[0].root) == all_contents(lakes[1].root)
    counts = [lake.rows("record_totals").drop_columns(["run_id"]).to_pylist() for lake in lakes]
    assert sorted(map(repr, counts[0])) == sorted(map(repr, counts[1]))


@pytest.mark.parametrize("other", [{"redaction_key": "mine" * 8}, {"reveal_secrets": True}])
def test_a_lake_keeps_its_masks(other: dict[str, Any], tmp_path: Path) -> None:
    """Its records would not compare with snapshots that are masked in another way, and a later run
    would tell the secrets that this one has shown.
    """
    lab = Lab(tmp_path)
    first, second = replace(lab.options, **other), lab.options
    for one, another in ((first, second), (second, first)):
        run_steps(InProcess, one, "decode")
        for step in ("decode", "materialize", "audit"):
            with pytest.raises(LakeError, match="masked in another way"):
                run_steps(InProcess, another, step)
        assert run_pipeline(InProcess, one).exit_code == 0
        assert run_steps(InProcess, another, "audit").exit_code == 0, "nothing is left to judge"
        shutil.rmtree(lab.lake.root)
