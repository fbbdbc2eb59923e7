"""The page that a run leaves in its lake, against Kafka's own answers."""

import errno
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from kraftlog.cli import main
from kraftlog.config import load_options
from kraftlog.pipeline.every_table import all_tables
from kraftlog.pipeline.steps import run_pipeline, run_steps
from kraftlog.report import html_page as page_module
from kraftlog.report.from_lake import page_of_lake
from kraftlog.tables.lake import Lake
from tests.golden.cases import DATA, Replica
from tests.in_process import InProcess
from tests.unit.report_pages import audited, read

REPLICAS = str(DATA / "isolated" / "replicas")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    root = str(tmp_path_factory.mktemp("page") / "lake")
    options = load_options({"input": [REPLICAS], "lake": root})
    assert run_pipeline(InProcess, options).exit_code == 0
    return Lake(root)


def test_a_run_leaves_a_page_that_needs_nothing_else(lake: Lake) -> None:
    reader = read((Path(lake.root) / "report.html").read_text(encoding="utf-8"))
    assert reader.named("h1")[0].text.startswith("Each node may be restarted, one at a time.")
    links = [one.attributes["href"] for one in reader.named("a")]
    assert links[0] == "#main"
    assert all(one.startswith("#") for one in links), "nothing leads away"
    assert not list(Path(lake.root).glob("**/*.js")), "nothing loads from the network"
    contracts = lake.rows("contract_results").num_rows
    assert [one for one in reader.named("p") if one.text.startswith(f"{contracts} contracts of")]
    assert not [one for one in reader.named("p") if "Not shown." in one.text]


def test_partitions_per_broker_are_those_of_kafkas_image(lake: Lake) -> None:
    rows = [one["data"] for one in Replica("isolated", "1").image()
            if one["type"] == "PARTITION_RECORD"]  # fmt: skip
    holds = Counter(broker for one in rows for broker in one["replicas"])
    leads = Counter(one["leader"] for one in rows)
    alone = Counter(broker for one in rows if one["leader"] < 0 for broker in one["replicas"])
    loads = page_of_lake(lake).loads
    found = {one.broker_id: (one.leads, one.follows, one.leaderless) for one in loads}
    assert alone
    assert found == {
        one: (leads[one], holds[one] - leads[one] - alone[one], alone[one]) for one in holds
    }


def test_types_over_time_are_the_records_of_all_logs(lake: Lake) -> None:
    """Of replica 1, and of the tails that it lacks."""
    expected: Counter[str] = Counter()
    for node in ("1", "2"):
        for one in Replica("isolated", node).records():
            log = one.get("file", "").endswith(".log")
            if "offset" in one and log and (node == "1" or one["offset"] >= 176):
                expected[one["type"]] += 1
    found: Counter[str] = Counter()
    for count in page_of_lake(lake).type_counts:
        found[count.type] += count.count
    assert found == expected


def test_lake_and_audit_show_the_same(lake: Lake) -> None:
    one, other = page_of_lake(lake), audited(REPLICAS)
    place = ("check", "severity", "replica", "offset", "end_offset", "message")
    assert [[row[name] for name in place] for row in one.findings] == [
        [row[name] for name in place] for row in other.findings
    ]
    assert one.names == other.names
    assert one.committed == other.committed
    assert len(one.epochs) == len(other.epochs)
    assert len(one.snapshots) == len(other.snapshots)


def test_a_page_that_is_younger_than_the_tables_stays(lake: Lake) -> None:
    page = Path(lake.path("report.html"))
    options = load_options({"input": [REPLICAS], "lake": lake.root})
    written = page.stat()
    assert run_steps(InProcess, options, "audit").exit_code == 0
    assert page.stat().st_mtime_ns == written.st_mtime_ns
    # One that is older than a table is told anew.
    os.utime(page, (0, 0))
    assert run_steps(InProcess, options, "audit").exit_code == 0
    assert page.stat().st_mtime_ns >= written.st_mtime_ns


@pytest.mark.parametrize("before", [("metrics",), ("audit", "metrics")])
def test_steps_in_their_order_make_a_whole_run(
    before: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Page and contracts are of all that a run writes, also where an audit came too early."""
    options = load_options({"input": [REPLICAS], "lake": str(tmp_path)})
    for step in ("decode", "materialize", *before, "audit"):
        run = run_steps(InProcess, options, step).run
    assert ("contracts are not judged" in capsys.readouterr().err) == ("audit" in before)
    assert not run.lacks(*all_tables())
    contracts = run.lake.rows_of_run("contract_results", run.run_id)
    assert contracts
    assert not [row for row in contracts if "published" in (row["detail"] or "")]
    assert "No snapshot was measured" not in Path(run.lake.path("report.html")).read_text()


def test_a_broken_page_takes_no_result_with_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> str:
        raise ValueError("no such chart")

    Path(lake.path("report.html")).unlink()
    monkeypatch.setattr(page_module, "render_page", broken)
    options = load_options({"input": [REPLICAS], "lake": lake.root})
    assert run_steps(InProcess, options, "audit").exit_code == 0
    told = capsys.readouterr().err
    assert "could not be written (ValueError in " in told
    assert "Traceback" not in told


@pytest.mark.parametrize("command", ["run", "audit"])
def test_a_page_of_an_earlier_run_is_not_named_as_the_new_ones(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It may say that each node may be restarted, where that has changed."""
    root, lake = tmp_path / "replicas", tmp_path / "lake"
    shutil.copytree(REPLICAS, root)
    arguments = [command, "--input", str(root), "--lake", str(lake)]
    assert main(arguments) == 0
    (named, *_) = [one for one in "".join(capsys.readouterr()).splitlines() if "report.html" in one]
    assert named.lower() == f"page: {lake}/report.html"
    before = (lake / "report.html").read_text(encoding="utf-8")

    def broken(_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(page_module, "render_page", broken)
    shutil.rmtree(root / "12")
    assert main(arguments) == 0
    told = capsys.readouterr()
    assert "report.html" not in told.out
    (sentence,) = [one for one in told.err.splitlines() if "report.html" in one]
    assert "could not be written (" in sentence
    assert sentence.endswith("told without it; the one that lies there is of an earlier run")
    assert (lake / "report.html").read_text(encoding="utf-8") == before
