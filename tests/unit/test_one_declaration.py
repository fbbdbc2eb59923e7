"""Each kind of thing is declared once: a block of text at one place of a copy of the package makes
a new one appear wherever its kind is told. The copy runs in processes of its own.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from kraftlog.audit.every_check import CATALOGUE
from tests.documents import ROOT

NAMES = [one.name for one in CATALOGUE]
QUORUM = ROOT / "examples" / "quorum"

CHECK = """
@check(
    "made_up", "warning", "log", "nobody", "no log is at hand",
    action="rebuild", over=coverage.logs, after="batch_crc_valid", goes_by=("lag_offsets",),
    meaning="Made-up meaning.", advice="Made-up advice.",
)
def made_up(quorum: Quorum) -> Iterator[BadRow]:
    for log in quorum.logs:
        if log.evidence.segments:
            yield BadRow(log.label, "a made-up finding")
"""
CHART = """
@chart("Made-up chart", "A made-up note.", "Nothing is made up.")
def made_up(data: PageData, width: int) -> Spec | None:
    if len(data.replicas) == 1:
        return None
    rows = [{"x": 1, "label": "a made-up mark"}]
    return layer("point", rows, {"x": channel("x:Q")} | LABEL)
"""
COMMAND = """
def _made_up_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--answer", type=int, help="what to answer")


@command(
    "plan made-up",
    "a made-up line",
    arguments=_made_up_arguments,
    examples="kraftlog plan made-up --answer 42",
)
def _made_up(chosen: argparse.Namespace) -> int:
    print("made up")
    return int(chosen.answer)
"""
TABLE = """
@table(
    "made_up",
    "made-up replica",
    relations.REPLICA,
    column("answer", LONG, "a made-up comment"),
    promises=(at_least("answer", 43, "a made-up reason"),),
)
def made_up(run: SharedMeasures) -> Rows:
    return [{"replica": "1", "answer": 42}]
"""
STATE_TABLE = """
MADE_UPS = StateTable(
    "made_ups",
    ("made-up thing", "made-up things"),
    ("name",),
    (Put("MADE_UP_RECORD", deletes=("value", None)),),
)

"""
STATE_RULE = """
MADE_UP_STATE = state_check(
    "made_up_state", "warning", "nobody", "nothing is made up",
    action="watch", meaning="Made-up meaning.", advice="Made-up advice.",
)


@on_record(MADE_UP_STATE, "REMOVE_TOPIC_RECORD")
def _made_up_record(step: Incoming) -> Iterator[Said]:
    yield Said(f"made-up topic {step.data['topicId']}", {"kind": "record"})


@on_row(MADE_UP_STATE, "client_quotas")
def _made_up_row(row: Version) -> Iterator[Said]:
    if row.after["key"] == "request_percentage":
        yield Said(f"made-up quota {row.after['key']}", {"kind": "row"})


@on_row(MADE_UP_STATE, "voters")
def _made_up_voter(row: Version) -> Iterator[Said]:
    yield Said(f"made-up voter {row.key[0]}", {"kind": "control"})


@on_row(MADE_UP_STATE, "partitions", lambda rows: rows.number("leader") < 0)
def _made_up_partition(row: Version) -> Iterator[Said]:
    if row.after["leader"] < 0 and row.key[1] == 0:
        yield Said(f"made-up partition {row.key}", {"kind": "columns"})
"""
MESSAGE = {
    "name": "MadeUpRecord",
    "kind": "metadata",
    "type": "MADE_UP_RECORD",
    "id": 99,
    "versions": [0, 0],
    "flexible": [0, 0],
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "value", "type": "string", "nullable": True},
    ],
}
"""A record of Kafka's, as data, for the state table to be declared over."""
BLOCKS = {
    "audit/log_checks.py": CHECK,
    "audit/state_checks.py": STATE_RULE,
    "report/churn_charts.py": CHART,
    "commands/plan.py": COMMAND,
    "pipeline/quorum_measures.py": TABLE,
}
"""What is added at the end of which file."""
BEFORE = {"state/tables.py": ("TABLES = ", STATE_TABLE)}
"""What is added before which line of which file."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one more of each kind."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("kraftlog", "schemas", "conf"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, block in BLOCKS.items():
        with (folder / "kraftlog" / file).open("a") as opened:
            opened.write(f"\n\n{block.strip()}\n")
    for file, (line, block) in BEFORE.items():
        path = folder / "kraftlog" / file
        before, found, after = path.read_text().partition(f"\n{line}")
        assert found
        path.write_text(f"{before}{block}{found}{after}")
    (folder / "schemas" / "MadeUpRecord.json").write_text(json.dumps(MESSAGE))
    return folder


def told_by(copy: Path, program: str, **given: object) -> Any:
    """What a program that imports the copy prints, as JSON; `given` are names that it may use."""
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE + dedent(program), json.dumps(given)],
        cwd=copy, env={"PYTHONPATH": str(copy), "PATH": ""}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


_BEFORE = '''
import contextlib, io, json, sys
from pathlib import Path
from kraftlog.cli import main
from kraftlog.reference.pages import PAGES

globals().update(json.loads(sys.argv[1]))

def printed(*words):
    """What a command prints, and its exit code."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
    return said.getvalue(), code

'''


def test_a_check(copy: Path) -> None:
    program = """
        from kraftlog.audit.every_check import CATALOGUE
        from kraftlog.audit.origins import FEEDS
        from kraftlog.contracts.suites import audit_suite

        def audit(root, *words):
            text, code = printed("audit", "--input", root, "--format", "json", *words)
            rows = [json.loads(line) for line in text.splitlines()]
            return code, [row for row in rows if row.get("check") == "made_up"]

        empty = Path("empty/1/__cluster_metadata-0")
        empty.mkdir(parents=True)
        (empty / "leader-epoch-checkpoint").write_text("0\\n0\\n")
        print(json.dumps({
            "found": audit(quorum, "--fail-on", "warning", "--report", "page.html"),
            "of_nothing": audit("empty"),
            "order": [one.name for one in CATALOGUE],
            "page": Path("page.html").read_text(),
            "checks": PAGES["reference/checks.md"](),
            "auditor": PAGES["auditor.md"](),
            "feeds": FEEDS["lag_offsets"],
            "contracts": [one.arguments["column"] for one in audit_suite().contracts],
        }))
    """
    told = told_by(copy, program, quorum=str(QUORUM))
    told["order"].remove("made_up_state")
    assert told["order"] == [NAMES[0], "made_up", *NAMES[1:]]
    code, found = told["found"]
    assert code == 1
    assert {row["message"] for row in found} == {"a made-up finding"}
    assert len(found) == len(list(QUORUM.glob("*/__cluster_metadata-0"))) > 1
    assert {row["severity"] for row in found} == {"warning"}
    (nothing,) = told["of_nothing"][1]
    assert (nothing["result"], nothing["message"]) == ("skipped", "no log segment is at hand")
    assert "Made-up meaning." in told["page"]
    # The group of the page that its action names.
    assert 'id="do-rebuild"' in told["page"]
    assert "| [`made_up`](../auditor.md#made_up) | warning | no log is at hand |" in told["checks"]
    assert "#### made_up" in told["auditor"]
    assert "Made-up advice." in told["auditor"]
    assert told["feeds"] == ["check made_up", "table verdicts"]
    assert "made_up" in told["contracts"]


def made_up(record: dict[str, Any]) -> Iterator[str]:
    """Which of the made-up rules tell of a record of the example."""
    kind, data = record["type"], record["data"]
    if kind == "REMOVE_TOPIC_RECORD":
        yield "record"
    if kind == "CLIENT_QUOTA_RECORD" and data["key"] == "request_percentage":
        yield "row"
    if kind == "KRAFT_VOTERS":
        yield "control"
    if kind.startswith("PARTITION_") and (data["leader"], data["partitionId"]) == (-1, 0):
        yield "columns"


def test_a_rule_of_the_state(copy: Path) -> None:
    """An audit of the files, a run and an audit of its lake all ask it; Spark's tasks, which are
    one function, run here one after the other.
    """
    program = """
        from kraftlog.pipeline import tasks
        tasks.run_tasks = lambda spark, count, work: [x for at in range(count) for x in work(at)]
        tasks.setting_of = lambda spark, key, default: default

        from kraftlog.quorum import capping
        from kraftlog.config import load_options
        from kraftlog.pipeline import steps
        def told(rows):
            return sorted(
                [row["offset"], row["message"], row["evidence"]["kind"]]
                for row in rows
                if row.get("check") == "made_up_state"
            )

        def through_lake(**given):
            options = load_options({"lake": "rules", "fail_on": "never"} | given)
            with contextlib.redirect_stdout(io.StringIO()):
                names = ("decode", "materialize", "audit") if options.input else ("audit",)
                done = steps.run_steps(lambda: None, options, *names)
            assert done.exit_code == 0
            return told(done.judged.lines())

        capping.FINDING_LIMIT = 1000
        text, _ = printed("audit", "--input", quorum, "--format", "json")
        records = "records", f"{quorum}/1", "--format", "json"
        steps._contracts = lambda *_: 0
        print(json.dumps({
            "files": told(map(json.loads, text.splitlines())),
            "run": through_lake(input=[quorum]),
            "lake": through_lake(),
            "records": [json.loads(line) for line in printed(*records)[0].splitlines()],
            "checks": PAGES["reference/checks.md"](),
        }))
    """
    told = told_by(copy, program, quorum=str(QUORUM))
    wanted = {(one["offset"], kind) for one in told["records"] for kind in made_up(one)}
    assert {(offset, kind) for offset, _, kind in told["files"]} == wanted
    assert len({kind for _, kind in wanted}) == 4
    assert told["files"] == told["run"] == told["lake"]
    assert "made_up_state" in told["checks"]


def test_a_chart(copy: Path) -> None:
    program = """
        def page(root):
            assert printed("audit", "--input", root, "--report", "page.html")[1] == 0
            return Path("page.html").read_text()

        print(json.dumps({"drawn": page(quorum), "not_drawn": page(f"{quorum}/1")}))
    """
    told = told_by(copy, program, quorum=str(QUORUM))
    assert "<figcaption>Made-up chart</figcaption>" in told["drawn"]
    assert told["drawn"].count("a made-up mark") >= 2  # for wide windows, and for narrow ones
    assert "A made-up note." in told["drawn"]
    assert "<b>Made-up chart</b>: Nothing is made up." in told["not_drawn"]
    assert "A made-up note." not in told["not_drawn"]


def test_a_command(copy: Path) -> None:
    program = """
        print(json.dumps({
            "answer": printed("plan", "made-up", "--answer", "42"),
            "family": printed("plan", "--help")[0],
            "help": printed("plan", "made-up", "--help")[0],
            "completion": {one: printed("completion", one)[0] for one in ("bash", "zsh", "fish")},
            "manual": printed("manual")[0],
            "page": PAGES["reference/commands.md"](),
        }))
    """
    told = told_by(copy, program)
    assert told["answer"] == ["made up\n", 42]
    assert "a made-up line" in told["family"]
    assert "A made-up line." in told["help"]
    assert "examples:\n  kraftlog plan made-up --answer 42\n" in told["help"]
    for shell, script in told["completion"].items():
        assert "made-up" in script, shell
    assert r"kraftlog plan made\-up" in told["manual"]
    assert "## kraftlog plan made-up\n" in told["page"]
    assert "| `--answer ANSWER` |  | what to answer |" in told["page"]


def test_a_delta_table(copy: Path) -> None:
    program = """
        from kraftlog.config import load_options
        from kraftlog.contracts.judge import run_contracts
        from kraftlog.contracts.suites import table_suites
        from kraftlog.pipeline.derive import derive
        from kraftlog.pipeline.every_table import all_tables
        from kraftlog.pipeline.metrics import MEASURES
        from kraftlog.pipeline.run import Run
        from kraftlog.tables.lake import Lake

        lake = Lake("lake")
        run = Run(load_options(), lake, lambda: None)
        run.__dict__["row"] = {"number": 1, "run_id": "r"}
        derive(run, [one for one in MEASURES if one.spec.name == "made_up"], lambda: "measured")
        suites = [one for one in table_suites(all_tables().values()) if one.name == "made_up"]
        (judged,) = run_contracts(lake, "r", 1, suites)
        print(json.dumps({
            "rows": lake.rows("made_up").to_pylist(),
            "schema": lake.open("made_up").schema().to_json(),
            "judged": [judged[one] for one in ("table_name", "subject", "result", "reason")],
            "page": PAGES["reference/tables.md"](),
        }))
    """
    told = told_by(copy, program)
    assert told["rows"] == [{"run_id": "r", "replica": "1", "answer": 42}]
    assert "a made-up comment" in told["schema"]
    assert told["judged"] == ["made_up", "answer", "failed", "a made-up reason"]
    assert "### made_up\n\nOne row per made-up replica and run" in told["page"]
    assert "| `answer` | `long` | a made-up comment |" in told["page"]


def test_a_state_table(copy: Path) -> None:
    program = """
        from kraftlog.contracts.suites import table_suites
        from kraftlog.message.catalogue import spec_of
        from kraftlog.metrics.compaction import KEYS
        from kraftlog.pipeline.every_table import all_tables
        from kraftlog.state.encode import encode_batch, metadata_record
        from kraftlog.state.history import History
        from kraftlog.state.replay import Origin, Replay

        folder = Path("log/1/__cluster_metadata-0")
        folder.mkdir(parents=True)
        spec, values = spec_of("MADE_UP_RECORD"), (("a", "1"), ("b", "2"), ("a", None))
        records = [metadata_record(spec, 0, dict(name=one, value=two)) for one, two in values]
        batches = [encode_batch([one], at, 1, 1000 + at) for at, one in enumerate(records)]
        (folder / f"{0:020}.log").write_bytes(b"".join(batches))

        def rows(*words):
            text, code = printed(*words, "--format", "json")
            assert code == 0, text
            return [json.loads(line) for line in text.splitlines()]

        history, replay = History(), Replay()
        for at, (one, two) in enumerate(values):
            origin = Origin(at, 1000 + at, 1, spec.type)
            history.take(replay.apply(origin, dict(name=one, value=two)))
        history.close()
        ((name, versions),) = history.rows()
        checkpoint, code = printed("checkpoint", "log/1", "--at", "2", "--out", "written")
        (written,) = Path("written").iterdir()
        (promised,) = [one for one in table_suites(all_tables().values()) if one.name == "history"]
        print(json.dumps({
            "states": [rows("state", path) for path in ("log/1", str(written))],
            "diff": rows("diff", "log/1@2", "log/1"),
            "explained": printed("explain", "0-2", "--input", "log")[0],
            "history": [name, [one["name"] for one in versions.to_pylist()]],
            "columns": all_tables()["made_ups"].schema.names,
            "tombstone": KEYS["MADE_UP_RECORD"].deletes,
            "promised": [one.table for one in promised.contracts],
            "page": PAGES["reference/tables.md"](),
        }))
    """
    told = told_by(copy, program)
    at_end, at_two = ([row["data"] for row in rows] for rows in told["states"])
    assert at_end == [{"name": "b", "value": "2"}]
    assert at_two == [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]
    (gone,) = told["diff"]
    assert (gone["table"], gone["key"], gone["change"]) == ("made_ups", ["a"], "removed")
    assert "made-up thing a is set" in told["explained"]
    assert "made-up thing a is removed" in told["explained"]
    assert told["history"] == ["made_ups", ["a", "b"]]
    assert told["columns"][-2:] == ["name", "value"]
    assert told["tombstone"] == ["value", None]
    assert "made_ups" in told["promised"]
    assert "### made_ups\n\nOne row per version of made ups" in told["page"]
    assert "| `value` | `string` | value of MadeUpRecord |" in told["page"]
