"""What monitoring reads of an audit, by the readers that it is for: Prometheus' own parser, and one
of JUnit's XML.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest
from junitparser import Error, Failure, JUnitXml, Skipped
from prometheus_client.parser import text_string_to_metric_families

from kraftlog.audit.every_check import CATALOGUE
from kraftlog.cli import main
from kraftlog.commands import audit
from kraftlog.config import load_options
from kraftlog.errors import UsageError
from kraftlog.pipeline.outputs import require_outputs
from kraftlog.report.exposition import METRICS, metrics_text
from kraftlog.report.judgement import Judged
from kraftlog.report.junit import junit_xml
from kraftlog.tables import whole
from kraftlog.tables.parquet import make_folder_of
from tests.bare import ROOT
from tests.golden.cases import PARTITION, Replica
from tests.unit.audit_logs import Batch, quorum, remove_acl

QUORUM = str(ROOT / "examples" / "quorum")
Samples = dict[tuple[str, ...], float]


def parsed(text: str) -> dict[str, Samples]:
    """Values by their labels' values, in the order of the labels' names, by metric."""
    return {
        family.name: {tuple(one.labels.values()): one.value for one in family.samples}
        for family in text_string_to_metric_families(text)
    }


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both files of an audit of the example, and its rows."""
    folder = tmp_path_factory.mktemp("told")
    files = ["--metrics-file", str(folder / "a.prom"), "--junit-file", str(folder / "a.xml")]
    with pytest.MonkeyPatch.context() as patch, (folder / "rows").open("w") as out:
        patch.setattr("sys.stdout", out)
        assert main(["audit", "--input", QUORUM, "--format", "json", *files]) == 0
    return folder


def rows_of(told: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (told / "rows").read_text().splitlines()]


def test_findings_that_are_not_told_one_by_one_are_counted(tmp_path: Path) -> None:
    """Of one kind twenty are told of a replica, and the last says how many more there are."""
    for node in quorum(tmp_path / "in"):
        node.append(Batch(12, 2, tuple(remove_acl(number) for number in range(33))))
    files = {name: tmp_path / name for name in ("a.prom", "a.xml")}
    options = ["--metrics-file", str(files["a.prom"]), "--junit-file", str(files["a.xml"])]
    assert main(["audit", "--input", str(tmp_path / "in"), *options]) == 1
    found = parsed(files["a.prom"].read_text())
    assert found["kraftlog_findings"][("critical",)] == 33
    assert found["kraftlog_check_findings"]["references_exist", "critical"] == 33
    assert 'message="33 findings"' in files["a.xml"].read_text()


def test_metrics_are_what_the_audit_says(told: Path) -> None:
    found = parsed((told / "a.prom").read_text())
    *rows, verdict = rows_of(told)
    assert set(found) <= {one.name for one in METRICS}
    failed = [row for row in rows if row["result"] == "failed"]
    for severity in ("critical", "warning", "info"):
        count = sum(row["severity"] == severity for row in failed)
        assert found["kraftlog_findings"][(severity,)] == count
    assert sum(found["kraftlog_check_findings"].values()) == len(failed)
    assert sum(found["kraftlog_checks"].values()) == len(CATALOGUE)
    assert found["kraftlog_verdict"] == {
        (one,): float(one == verdict["verdict"])
        for one in ("sound", "incomplete", "attention", "critical")
    }
    assert found["kraftlog_voters"][()] == 3
    assert found["kraftlog_voters_missing"][()] == found["kraftlog_checks_incomplete"][()] == 0
    assert found["kraftlog_exit_code"][()] == verdict["exit_code"]


def test_metrics_of_each_replica(told: Path) -> None:
    found = parsed((told / "a.prom").read_text())
    controller, behind = ("1", "1", "voter"), ("12", "12", "observer")
    assert found["kraftlog_log_end_offset"][controller] == 362
    assert found["kraftlog_lag_offsets"][controller] == 0
    assert found["kraftlog_lag_offsets"][behind] == 362 - 242
    assert found["kraftlog_leader_epoch"] == {
        ("1", "1", "voter"): 2, ("2", "2", "voter"): 1, ("3", "3", "voter"): 2,
        ("11", "11", "observer"): 2, ("12", "12", "observer"): 1,
    }  # fmt: skip
    # 2026-11-21 00:58:59 UTC or so, in seconds.
    newest = found["kraftlog_newest_record_timestamp_seconds"]
    assert 1_795_222_600 < newest[behind] < newest[controller] < 1_795_222_900
    # Lower is proven, upper is not: an absent sample, and no zero.
    assert found["kraftlog_committed_offset"] == {("lower",): 362}
    # What formatting wrote contains no record: its time is that of the formatting.
    assert found["kraftlog_snapshot_end_offset"][controller] == 0
    assert 1_795_222_500 < found["kraftlog_snapshot_timestamp_seconds"][controller] < newest[behind]
    assert ("11", "11", "observer") not in found["kraftlog_snapshot_timestamp_seconds"]


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """The example, where the last batch of 1 has a wild time, and no batch of 2 is sound."""
    shutil.copytree(QUORUM, tmp_path / "in")
    one, two = (tmp_path / "in" / node / PARTITION / f"{0:020d}.log" for node in "12")
    held = bytearray(one.read_bytes())
    at = 0
    while at + 12 + (size := int.from_bytes(held[at + 8 : at + 12])) < len(held):
        at += 12 + size
    held[at + 35 : at + 43] = (253_402_300_000_000).to_bytes(8)
    one.write_bytes(held)
    begin = two.read_bytes()
    two.write_bytes(
        begin[:60] + bytes([begin[60] ^ 1]) + begin[61 : 12 + int.from_bytes(begin[8:12])]
    )
    return tmp_path / "in"


def test_a_lake_tells_monitoring_what_files_do(damaged: Path, tmp_path: Path) -> None:
    """An audit is enough, without the measures of a run; damaged bytes are not believed."""
    told = []
    for name, more in (("files", []), ("lake", ["--lake", str(tmp_path / "lake")])):
        path = tmp_path / f"{name}.prom"
        main(["audit", "--input", str(damaged), "--metrics-file", str(path), *more])
        told.append(parsed(path.read_text()))
        del told[-1]["kraftlog_audit_timestamp_seconds"]
    files, lake = told
    assert "kraftlog_snapshot_timestamp_seconds" in files
    assert lake == files


def test_nobody_is_behind_a_copy_of_another_cluster(tmp_path: Path) -> None:
    copies = tmp_path / "in"
    shutil.copytree(QUORUM, copies)
    shutil.copytree(Replica("lagging", "11").folder, copies / "theirs")
    main(["audit", "--input", str(copies), "--metrics-file", str(tmp_path / "a.prom")])
    found = parsed((tmp_path / "a.prom").read_text())
    assert found["kraftlog_log_end_offset"]["11", "theirs", "unknown"] > 362
    lags = {label: lag for (_, label, _), lag in found["kraftlog_lag_offsets"].items()}
    assert lags == {"1": 0, "2": 119, "3": 0, "11": 0, "12": 120}


def test_any_name_is_a_label(tmp_path: Path) -> None:
    odd = 'a"b\\c\nd\x1b[31m'
    shutil.copytree(f"{QUORUM}/1", tmp_path / "in" / odd)
    main(["audit", "--input", str(tmp_path / "in"), "--metrics-file", str(tmp_path / "a.prom")])
    text = (tmp_path / "a.prom").read_text()
    assert "\x1b" not in text
    ((_, name, _),) = parsed(text)["kraftlog_log_end_offset"]
    assert name == 'a"b\\c\ufffdd\ufffd[31m'


def test_junit_has_a_case_for_every_check(told: Path) -> None:
    (suite,) = JUnitXml.fromfile(str(told / "a.xml"))
    assert {case.name for case in suite} == {check.name for check in CATALOGUE}
    skipped = {row["check"] for row in rows_of(told)[:-1] if row["result"] == "skipped"}
    kinds = {case.name: [type(one) for one in case.result] for case in suite}
    assert {name for name, found in kinds.items() if found == [Skipped]} == skipped
    # Nothing at or above `critical`: nothing fails, as the exit code says; what was found is there.
    assert (suite.failures, suite.errors, suite.skipped) == (0, 0, len(skipped))
    (case,) = (case for case in suite if case.name == "uncommitted_tail_diverged")
    assert case.system_out.count("carries an uncommitted tail") == 2


def verdict(not_judged: list[list[str]]) -> dict[str, Any]:
    return {
        "verdict": "attention",
        "not_judged": not_judged,
        "missing_voters": [],
        "voters": None,
        "committed_lower": 0,
        "committed_upper": None,
    }


def row(check: str, severity: str, result: str, message: str = "why") -> dict[str, Any]:
    return {
        "check": check, "severity": severity, "scope": "log", "result": result,
        "message": message, "replica": "1", "evidence": {},
    }  # fmt: skip


def test_junit_fails_where_the_command_does() -> None:
    rows = [
        row("bad", "critical", "failed"),
        row("odd", "warning", "failed", "one \x1b thing"),
        row("odd", "warning", "failed", "another"),
        row("broken", "info", "errored"),
        row("blind", "critical", "skipped"),
        row("batch_crc_valid", "critical", "passed"),
        row("voter_holds_committed_data", "info", "failed"),
        row("good", "critical", "passed"),
    ]
    gaps = ["batch_crc_valid", "voter_holds_committed_data"]
    judged = Judged(
        findings=[one for one in rows if one["result"] == "failed"],
        checks=[one | {"reason": one["message"], "judged": []} for one in rows],
        verdict=verdict([[one, "a voter was not copied"] for one in gaps]),
    )

    def results(fail_on: str, strict: bool = False) -> dict[str, list[type]]:
        options = load_options({"fail_on": fail_on, "strict": strict})
        (suite,) = JUnitXml.fromstring(junit_xml(judged, "x\x00y", options))
        assert suite.name == "x\ufffdy"
        counted = [type(one) for case in suite for one in case.result]
        assert (suite.tests, suite.failures) == (7, counted.count(Failure))
        return {case.name: [type(one) for one in case.result] for case in suite if case.result}

    usual = {"broken": [Error], "blind": [Skipped]}
    assert results("never") == results("never", strict=True) == usual
    assert results("critical") == usual | {"bad": [Failure]}
    assert results("warning") == usual | {"bad": [Failure], "odd": [Failure]}
    failed = {name: [Failure] for name in ("bad", *gaps)}
    assert results("critical", strict=True) == usual | failed


def test_files_that_changed_in_silence_are_told_by_all() -> None:
    judged = Judged(verdict=verdict([]), changed_in_place=2)
    for fail_on, code in (("critical", 1), ("never", 0)):
        options = load_options({"fail_on": fail_on})
        assert judged.exit_code(options) == code
        (suite,) = JUnitXml.fromstring(junit_xml(judged, "x", options))
        assert (suite.tests, suite.failures) == (1, code)
        (case,) = suite
        assert case.name == "changed_in_place"
    found = parsed(metrics_text(judged, 1, []).decode())
    assert found["kraftlog_files_changed_in_place"] == {(): 2}


def test_a_quorum_of_which_nothing_is_known() -> None:
    before = time.time()
    found = parsed(metrics_text(Judged(verdict=verdict([])), 0, []).decode())
    assert "kraftlog_voters" not in found
    assert found["kraftlog_findings"] == {("critical",): 0, ("warning",): 0, ("info",): 0}
    assert before <= found["kraftlog_audit_timestamp_seconds"][()] <= time.time()


def test_files_are_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "a.prom"
    whole.write_whole(str(path), b"old")
    whole.write_whole(str(path), b"new")
    assert path.read_bytes() == b"new"

    class Full:
        def write(self, content: bytes) -> None:
            raise OSError(28, "No space left on device")

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None: ...

    real = pafs.LocalFileSystem

    class Disk(real):  # type: ignore[misc,valid-type]
        def open_output_stream(self, name: str) -> Full:
            Path(name).touch()
            return Full()

    monkeypatch.setattr(whole, "lake_filesystem", lambda name: (Disk(), name))
    with pytest.raises(OSError, match="No space left"):
        whole.write_whole(str(path), b"newer")
    assert path.read_bytes() == b"new"
    assert [one.name for one in path.parent.iterdir()] == ["a.prom"]


def test_a_link_stays_and_a_device_is_written_to(tmp_path: Path) -> None:
    """Moved over by a file, /dev/null is gone for every process of the machine."""
    target, link, hanging = (tmp_path / name for name in ("a.prom", "link", "hanging"))
    link.symlink_to("a.prom")
    hanging.symlink_to("not/yet")
    for one in (link, hanging):
        whole.write_whole(str(one), b"new")
        assert one.is_symlink()
        assert one.read_bytes() == b"new"
    assert target.read_bytes() == b"new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(pipe.read_bytes)
        whole.write_whole(str(pipe), b"told")
        assert told.result(60) == b"told"
    assert pipe.is_fifo()
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "a.prom",
        "hanging",
        "link",
        "not",
        "pipe",
    ]


def test_what_is_printed_stays_before_a_file_on_stdout(tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    command = [sys.executable, "-m", "kraftlog", "audit", "--input", QUORUM]
    with printed.open("wb") as out:
        subprocess.run([*command, "--metrics-file", "/dev/stdout"], stdout=out, check=True)
    told, _, samples = printed.read_text(encoding="utf-8").partition("# HELP")
    assert "May I restart?" in told
    assert parsed("# HELP" + samples)


OUTPUTS = ("--report", "--metrics-file", "--junit-file")


@pytest.mark.parametrize("flag", OUTPUTS)
def test_nothing_is_written_into_a_lake_whose_key_nothing_rebuilds(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, link = tmp_path / "lake", tmp_path / "link"
    lake.mkdir()
    key = lake / "_redaction.key"
    key.write_bytes(b"k" * 32)
    link.symlink_to(key)
    named = ["--lake", str(lake)]
    for path, more in ((key, []), (link, []), (key, named), (lake / "findings" / "x", named)):
        assert main(["audit", "--input", QUORUM, flag, str(path), *more]) == 2
        assert "lies in the lake" in capsys.readouterr().err
    assert key.read_bytes() == b"k" * 32
    assert link.is_symlink()
    if flag != "--report":
        assert main(["run", "--input", QUORUM, *named, flag, str(key)]) == 2
        assert "lies in the lake" in capsys.readouterr().err


def test_a_page_of_its_own_lake_may_be_named(tmp_path: Path) -> None:
    page = str(tmp_path / "report.html")
    require_outputs(load_options({"lake": str(tmp_path)}), page)
    with pytest.raises(UsageError, match=r"the metrics file .* lies in the lake"):
        require_outputs(load_options({"lake": str(tmp_path), "metrics_file": page}))


@pytest.mark.parametrize("flags", list(combinations(OUTPUTS, 2)))
def test_two_files_are_not_one(
    flags: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = flags
    files = [one, str(tmp_path / "two"), other, f"{tmp_path}/./two"]
    assert main(["audit", "--input", QUORUM, *files]) == 2
    assert "name two different files" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flag", ["--metrics-file", "--junit-file"])
def test_refused_before_the_work_begins(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "in"
    shutil.copytree(f"{QUORUM}/1", copy / "1")
    assert main(["audit", "--input", str(copy), flag, str(copy / "x")]) == 2
    assert "lies below the input" in capsys.readouterr().err
    assert main(["audit", "--each", str(copy), flag, str(tmp_path / "x")]) == 2
    assert "--each" in capsys.readouterr().err
    assert main(["audit", "--input", str(copy), flag, str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err


@pytest.mark.parametrize("command", [["audit"], ["run", "--lake", "lake"]])
def test_each_file_that_cannot_be_written_is_named(
    command: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And takes neither the answer nor the other file with it."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("folder").mkdir()
    words = [*command, "--input", QUORUM]
    assert main([*words, "--metrics-file", "file/a.prom", "--junit-file", "a.xml"]) == 2
    told = capsys.readouterr()
    assert "May I restart?" in told.out
    assert "kraftlog: the metrics file file/a.prom could not be written (" in told.err
    assert JUnitXml.fromfile("a.xml")
    assert main([*words, "--metrics-file", "a.prom", "--junit-file", "folder"]) == 2
    told = capsys.readouterr()
    assert "kraftlog: the JUnit file folder could not be written (" in told.err
    assert parsed(Path("a.prom").read_text(encoding="utf-8"))


def test_a_file_directly_below_the_root_has_a_folder() -> None:
    make_folder_of(pafs.LocalFileSystem(), "/a.prom")


def test_nothing_is_read_where_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "replica_rows", lambda _: pytest.fail("nobody asks for them"))
    assert main(["audit", "--input", QUORUM]) == 0
