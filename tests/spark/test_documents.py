"""Every command, every line of Python and every query in the documents runs as it is written.

Paths of the documents stand for a copy of the example quorum and one lake, which its first command
makes. Commands run in this process through `kraftlog.cli.main`; `spark-submit` and the notebook are
run by `test_submit`, queries.md by `test_queries`; of `make` only the targets are looked at, as it
would set up another environment. What is not kraftlog's is listed in `NOT_OURS`.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kraftlog import __version__
from kraftlog.cli import build_parser, main
from kraftlog.commands.command import every_parser
from kraftlog.log.sidefiles import read_meta_properties
from kraftlog.pipeline.every_table import derived_tables
from kraftlog.session.views import lake_views
from kraftlog.tables.query import answer
from kraftlog.tables.spec import decoded_tables, state_tables
from tests.documents import DOCS, ROOT, arguments, blocks, commands, documents, indented
from tests.fake_controller import FakeController, serving

LAKE_COMMAND = "kraftlog run --input examples/quorum --lake .lake"
NOT_OURS = ("rsync ", "kafka-metadata-quorum.sh ", "cp dist/", "python3 -m venv ", "/opt/kraftlog/")
"""Tools of others, and the installation of the wheel, which `test_submit` does."""

CONTROLLER = "c1:9093"
AUTHORIZER_LINE = (
    "[2026-11-21 12:00:00,000] DEBUG Principal = User:ann is Allowed operation = CREATE from host "
    "= 10.0.0.7 on resource = Topic:LITERAL:orders for request = CreateTopics with "
    "resourceRefCount = 1 based on rule MatchingAcl (kafka.authorizer.logger)\n"
)


def places(folder: Path, controller: str = CONTROLLER) -> dict[str, str]:
    """What the paths and placeholders of the documents stand for. Pulled folders lie apart, so that
    the example quorum stays what it is.
    """
    quorum, lake = str(folder / "examples" / "quorum"), str(folder / ".lake")
    live = dict.fromkeys(("replicas/live", "copies/live", "live"), str(folder / "live"))
    live |= {CONTROLLER: controller, "client.properties": str(folder / "client.properties")}
    own = {"examples/quorum": quorum, "replicas": quorum, ".lake": lake, "lake": lake}
    own = live | own | {"copies": quorum}
    others = {"quorum-a": quorum, "quorum-b": quorum, "PATH": f"{quorum}/1", "OFFSET": "176"}
    others["TOPIC_ID"] = "clicks.v2-5"
    checkpoint = f"{quorum}/1/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    others |= {"older.checkpoint": checkpoint, "newer.checkpoint": checkpoint}
    return own | others | {"DIR": str(folder / "out"), "FILE": str(folder / "describe.txt")}


def distinct(told: list[str]) -> list[str]:
    """One command of each meaning, as folders have several names in the documents."""
    folder = places(Path("/documents"))
    known: dict[tuple[str, ...], str] = {}
    for one in told:
        if one.startswith("kraftlog "):
            known.setdefault(tuple(word.rstrip("/") for word in arguments(one, folder)), one)
    return list(known.values())


TOLD = {one: path.name for path in documents() for one in commands(path)}
HELP = [
    re.split(r"\s{2,}", line.strip())[0]
    for parser in every_parser(build_parser())
    for line in (parser.epilog or "").splitlines()
    if line.startswith("  kraftlog ")
]
EVERY = distinct([LAKE_COMMAND, *TOLD, *HELP])
NAMED = [one for one in EVERY if len(one.replace("kraftlog plan ", "kraftlog plan-").split()) == 2]
"""Only spoken of, without arguments."""
ENDLESS = [one for one in EVERY if one.endswith(" --follow")]
"""They stay; here they are parsed."""
OURS = [one for one in EVERY if one not in (LAKE_COMMAND, *NAMED, *ENDLESS)]


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder as the documents see it: examples/, conf/, and the lake."""
    root = tmp_path_factory.mktemp("documents")
    shutil.copytree(ROOT / "examples" / "quorum", root / "examples" / "quorum")
    shutil.copytree(ROOT / "conf", root / "conf")
    (root / "describe.txt").write_text("HighWatermark: 362\n")
    (root / "traffic.csv").write_text("topic,bytes_per_day\nclicks.v2,1e9\n")
    (root / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    (root / "kafka-authorizer.log").write_text(AUTHORIZER_LINE, encoding="utf-8")
    assert main(arguments(LAKE_COMMAND, places(root))[1:]) == 0
    return root


@pytest.fixture(scope="module")
def controller(folder: Path) -> Iterator[str]:
    """The address of a controller that leads with the example's log."""
    example = folder / "examples" / "quorum" / "1"
    meta = read_meta_properties((example / "meta.properties").read_bytes())
    with serving(FakeController(example, meta["cluster.id"], node_id=3)) as address:
        yield address


def test_documents_hold_commands() -> None:
    assert len(OURS) >= 20
    assert LAKE_COMMAND in TOLD
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert LAKE_COMMAND.replace("kraftlog", "$(BIN)/kraftlog", 1) in recipes


@pytest.mark.parametrize("command", OURS)
def test_command(
    command: str,
    folder: Path,
    controller: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    words = arguments(command, places(folder, controller))
    code = main(words[1:])
    out, err = capsys.readouterr()
    # The example has warnings: 1 where a command is told to fail on them.
    assert code == (1 if "warning" in words else 0), err
    # The examples of --help name times and topics of nobody's cluster.
    assert out or command in HELP
    if "json" in words:
        assert all(json.loads(line) for line in out.splitlines())


@pytest.mark.parametrize("command", ENDLESS)
def test_a_command_that_stays_is_understood(command: str) -> None:
    words = arguments(command, places(Path("/documents")))
    assert build_parser().parse_args(words[1:]).command


@pytest.mark.parametrize("command", NAMED)
def test_a_command_that_is_spoken_of_exists(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split()[1:], "--help"])
    assert ended.value.code == 0


def test_every_other_line_is_known() -> None:
    for command, page in TOLD.items():
        if command.startswith("make "):
            assert command.split()[1] in make_targets(), page
        elif command.startswith(".ci/"):
            assert (ROOT / command.split()[0]).is_file(), page
        elif not command.startswith(("kraftlog ", "SPARK_CONF_DIR=conf spark-submit ")):
            assert command.startswith(NOT_OURS), f"{page}: {command}"


def test_make_targets_that_are_spoken_of_exist() -> None:
    for path in documents():
        named = re.findall(r"`make ([a-z0-9-]+)`", path.read_text(encoding="utf-8"))
        assert set(named) <= make_targets(), path.name


def test_the_wheel_is_called_by_its_version() -> None:
    for path in documents():
        named = re.findall(r"kraftlog-([\d.]+)-py3", path.read_text(encoding="utf-8"))
        assert set(named) <= {__version__}, path.name
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {__version__}" in changes


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z0-9-]+):", text, re.MULTILINE))


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_python_blocks(
    path: Path, folder: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    # The JVM resolves paths where it was started, so that they are made absolute in the text.
    scope: dict[str, object] = {"spark": spark}
    for block in blocks(path, "python"):
        for name in (".lake", "examples/quorum"):
            block = re.sub(rf'(?<=["`]){re.escape(name)}', str(folder / name), block)
        exec(compile(block, path.name, "exec"), scope)
    capsys.readouterr()


def test_the_readmes_query(folder: Path, spark: SparkSession) -> None:
    (query,) = (one for one in indented(ROOT / "README.md") if "SELECT" in one)
    lake_views(spark, str(folder / ".lake"))
    assert spark.sql(query).columns == ["leader", "isr", "record_offset", "record_type"]


def test_the_readmes_line_of_python(folder: Path, spark: SparkSession) -> None:
    (line,) = (one.strip() for one in indented(ROOT / "README.md") if "spark.read." in one)
    line = line.replace('"replicas"', repr(str(folder / "examples" / "quorum")))
    found = eval(line, {"spark": spark})
    assert {"replica", "topic_record"} <= set(found.columns)


@pytest.mark.parametrize("query", blocks(DOCS / "analyst.md", "sql"))
def test_sql_blocks(query: str, folder: Path) -> None:
    """As `kraftlog sql` answers them: it costs a tenth of Spark's first queries, and no session."""
    assert list(answer(str(folder / ".lake"), query))


def test_the_analyst_is_told_of_every_table() -> None:
    text = (DOCS / "analyst.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"^## What is where\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    tables = decoded_tables() | state_tables() | derived_tables()
    named = re.findall(r"`(\w+)`", told)
    assert sorted(named) == sorted(tables)
