"""The built wheel: in plain spark-submit as the documents write it, on executors that share nothing
with the driver, and in bare environments.
"""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kraftlog import __version__
from tests import small_queries
from tests.bare import AUDIT, ROOT, built_wheel, closed, environment, packages, required
from tests.bare import run as bare_run
from tests.documents import arguments, commands, documents
from tests.lakes import CUT


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return bare_run(command, folder, **({"PYSPARK_PYTHON": sys.executable} | variables))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment into which pip has put the wheel and nothing else. What it
    depends on is found in this environment's packages, so that no network is needed.
    """
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    programs = folder / "bin"
    # This environment's pip does it there: to unpack another one takes longer than all the rest.
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install"]
    done = run([*pip, "--no-index", "--no-deps", "--quiet", str(wheel)], folder)
    assert done.returncode == 0, done.stderr
    packages = next(folder.glob("lib/python3*/site-packages"))
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return programs


def test_spark_submit_as_the_documents_write_it(wheel: Path, tmp_path: Path) -> None:
    """On executors that share nothing with the driver: relative paths, an own working folder per
    executor, Python workers that import kraftlog by themselves.
    """
    told = {one for path in documents() for one in commands(path) if " spark-submit " in one}
    for name in ("jobs", "conf", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    # Workers import a wheel under the name .zip only.
    shutil.copyfile(wheel, tmp_path / "kraftlog.zip")
    places = {"replicas": "examples/quorum", ".lake": "lake"}
    (command,) = {tuple(arguments(one, places)) for one in told}
    variable, program, *words = command
    assert variable == "SPARK_CONF_DIR=conf"
    submit = str(Path(sys.executable).parent / program)
    launched = [
        word for one in small_queries.LAUNCHED.items() for word in ("--conf", "=".join(one))
    ]
    cluster = [*CUT, "--master", "local-cluster[2,1,1024]"]
    done = run([submit, *launched, *words, *cluster], tmp_path, SPARK_CONF_DIR="conf")
    assert done.returncode == 0, done.stderr
    # What it says is ours, and ends as `kraftlog run` does.
    assert done.stderr == ""
    *_, verdict, page, tables = done.stdout.splitlines()
    assert "tail from offset 176" in verdict
    lake = tmp_path / "lake"
    assert page == f"Page: {lake}/report.html"
    assert tables == f"Delta tables: {lake}"
    assert "  WARNING  partitions_have_leaders" in done.stdout
    theirs = re.compile(r"\bWARN\b|\bINFO [A-Z]\w+:|\bivy\b|log4j|^::|incubator")
    assert not [line for line in done.stdout.splitlines() if theirs.search(line)]
    assert DeltaTable(str(lake / "records")).to_pyarrow_dataset().count_rows() == 455
    assert DeltaTable(str(lake / "findings")).to_pyarrow_dataset().count_rows() >= 2


def test_the_wheel_holds_what_it_should(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "kraftlog/py.typed",
        "kraftlog/ARCHITECTURE.md",
        "kraftlog/docs/auditor.md",
        "kraftlog/docs/runbook.md",
        "kraftlog/docs/reference/tables.md",
        "kraftlog/conf/kraftlog.toml",
        "kraftlog/schemas/TopicRecord.json",
        "kraftlog/jobs/pipeline.py",
        "pyspark_kraftlog.py",
        f"kraftlog-{__version__}.dist-info/licenses/LICENSE",
    } <= names
    assert {name.split("/")[0] for name in names} == {
        "kraftlog", "pyspark_kraftlog.py", f"kraftlog-{__version__}.dist-info",
    }  # fmt: skip


def test_the_command_in_a_bare_environment(bare: Path, tmp_path: Path) -> None:
    command = str(bare / "kraftlog")
    assert run([command, "--version"], tmp_path).stdout == f"kraftlog {__version__}\n"
    assert "examples:" in run([command, "--help"], tmp_path).stdout
    quorum = str(ROOT / "examples/quorum")
    done = run([command, "audit", "--input", quorum], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tail from offset 176 on that a restart cuts (none of it committed)" in done.stdout
    assert run([command, "audit", "--input", quorum, "--fail-on", "warning"], tmp_path).returncode


@dataclass(frozen=True)
class Written:
    """A folder with a lake, as the checkout has them after `make run`, and what its run said."""

    folder: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def written(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """By the plain dependencies and no extra."""
    folder = tmp_path_factory.mktemp("written")
    shutil.copytree(ROOT / "examples", folder / "examples")
    python = str(environment(folder / "plain", wheel, required(wheel)))
    words = ["run", "--input", "examples/quorum", "--lake", ".lake"]
    done = run([python, "-m", "kraftlog", *words], folder, PYSPARK_PYTHON=python)
    assert done.returncode == 0, done.stderr
    return Written(folder, done.stdout, done.stderr)


def test_a_run_without_the_page(written: Written) -> None:
    """Only the page is missing, in one sentence."""
    assert "tail from offset 176" in written.out
    assert "Page:" not in written.out
    (told,) = (line for line in written.err.splitlines() if line.startswith("kraftlog: "))
    assert "python -m pip install 'kraftlog[page]' brings it" in told
    assert (
        DeltaTable(str(written.folder / ".lake/records")).to_pyarrow_dataset().count_rows() == 455
    )


def test_sql_needs_its_extra_and_no_spark(wheel: Path, written: Written, tmp_path: Path) -> None:
    wanted = {*packages(*AUDIT), "deltalake", *required(wheel, "sql")}
    assert "pyspark" not in closed(wanted)
    python = str(environment(tmp_path / "sql", wheel, wanted))
    words = ["sql", "SELECT count(*) AS counted FROM records", "--lake", ".lake"]
    done = run([python, "-m", "kraftlog", *words, "--format", "json"], written.folder)
    assert (done.returncode, done.stdout) == (0, '{"counted":455}\n'), done.stderr


RUN_NOTEBOOK = """
import nbformat
from nbclient import NotebookClient

ran = nbformat.read("analyst.ipynb", as_version=4)
NotebookClient(ran, timeout=600).execute()
nbformat.write(ran, "ran.ipynb")
"""


def test_the_notebook_in_a_kernel_of_its_extra(
    wheel: Path, written: Written, tmp_path: Path
) -> None:
    wanted = {*required(wheel), *required(wheel, "notebook"), *required(wheel, "page")}
    python = str(environment(tmp_path / "notebook", wheel, wanted))
    examples = written.folder / "examples"
    variables = {
        "PYSPARK_PYTHON": python,
        "KRAFTLOG_JARS": str(ROOT / ".jars"),
        "PYSPARK_SUBMIT_ARGS": small_queries.submitted(
            small_queries.SETTINGS | small_queries.LAUNCHED
        ),
    }
    done = run([python, "-c", RUN_NOTEBOOK], examples, **variables)
    assert done.returncode == 0, done.stderr
    ran, stored = Outputs(examples / "ran.ipynb"), Outputs(examples / "analyst.ipynb")
    assert ran.told == stored.told
    assert ran.drawn == stored.drawn == 2
    assert "['ghost-topic-a', 'ghost-topic-b']" in stored.told
    # The quorum itself has removed these: controller 2 fetches that, and loses nothing.
    removed = {"shipments.raw-7": 193, "ledger.raw-9": 194, "clicks.v2-5": 196}
    assert repr(removed) in stored.told


class Outputs:
    """What the cells of a notebook have printed, or given as text; how many plots they have drawn,
    for readers who run nothing. `make notebook` stores it anew.
    """

    def __init__(self, notebook: Path) -> None:
        self.told, self.drawn = list[str](), 0
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            for one in cell.get("outputs", []):
                data = one.get("data", {})
                if one.get("name") == "stdout":
                    self.told.append("".join(one["text"]))
                elif "image/png" in data:
                    self.drawn += 1
                elif text := "".join(data.get("text/plain", "")):
                    self.told.append(text)


def test_the_data_source_is_there_without_registering(bare: Path, tmp_path: Path) -> None:
    """And no file of the folder in which a program was started is a module of Spark's workers."""
    (tmp_path / "json.py").write_text("open('mark', 'x')\nraise SystemExit(9)\n", encoding="utf-8")
    script = """
import sys
import kraftlog
assert "pyspark" not in sys.modules
from kraftlog.session import spark_session
spark = spark_session("bare", master="local[1]")
rows = spark.read.format("kraftlog").option("relation", "replicas").load(sys.argv[1])
tasks = spark.sparkContext.parallelize([1, 2], 1)
print(kraftlog.__file__, rows.count(), tasks.map(str).count())
"""
    command = [str(bare / "python"), "-P", "-c", script, str(ROOT / "examples/quorum")]
    launched = small_queries.submitted(small_queries.LAUNCHED)
    done = run(command, tmp_path, KRAFTLOG_JARS=str(ROOT / ".jars"), PYSPARK_SUBMIT_ARGS=launched)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "mark").exists()
    package = next(bare.parent.glob("lib/*/*/kraftlog/__init__.py"))
    assert done.stdout.split() == [str(package), "5", "2"]


def test_a_job_says_what_is_wrong_in_one_sentence(tmp_path: Path) -> None:
    job = str(ROOT / "jobs/decode.py")
    for given, sentence in (
        (["--input", "nowhere", "--lake", "lake"], "there is no such folder"),
        (["--input", "."], "--lake"),
        (["--input", ".", "--lake", "lake", "--fail-on", "often"], "fail_on"),
    ):
        done = run([sys.executable, job, *given], tmp_path)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
