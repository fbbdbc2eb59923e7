"""Nobody installs what they do not use: each extra, and the few packages that auditing needs, in an
environment that holds nothing else; what is missing is one sentence with the command for it.
"""

import json
import sys
import tomllib
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from packaging.requirements import Requirement

from kraftlog.errors import PlatformError
from kraftlog.extras import EXTRAS, missing, require
from kraftlog.log.sidefiles import read_meta_properties
from tests.bare import AUDIT, ROOT, built_wheel, environment, packages, required, run
from tests.documents import DOCS
from tests.fake_controller import FakeController, serving
from tests.lakes import CUT
from tests.unit.test_object_store import bucket, store

__all__ = ["bucket", "store"]

QUORUM = str(ROOT / "examples" / "quorum")
AUDITING = [
    "--help",
    f"audit --input {QUORUM}",
    f"audit --input {QUORUM} --verify --format json",
    f"replicas --input {QUORUM}",
    f"batches {QUORUM}/1",
    f"records {QUORUM}/1 --type TOPIC_RECORD",
    f"state {QUORUM}/1 --at committed --quorum {QUORUM}",
    f"diff {QUORUM}/1@176 {QUORUM}/2@243",
    f"checkpoint {QUORUM}/1 --at 176 --out restored",
    f"plan restart --input {QUORUM}",
    f"plan boot --input {QUORUM}",
    f"plan election --input {QUORUM}",
    f"plan truncation --input {QUORUM}",
    f"plan fetch --input {QUORUM}",
    f"plan snapshot --input {QUORUM} --format json",
    f"plan replicas --input {QUORUM}",
    f"explain topic clicks.v2-5 --input {QUORUM}",
    f"changes --input {QUORUM} --from 100 --to 150",
    f"restorable --input {QUORUM}",
    f"recover --input {QUORUM} --out new --voters 1@c1:9093:nxOpeKMeTXCDlz7dwIMJkA",
    "collect --out copies --ssh c2:/var/lib/kafka",
]
"""What people do who only audit."""
LACKING = {
    f"audit --input {QUORUM} --report page.html": "python -m pip install 'kraftlog[page]'",
    "pull --bootstrap-controller c1:9093 --out live": "python -m pip install 'kraftlog[pull]'",
    f"audit --input {QUORUM} --lake lake": "python -m pip install kraftlog",
    f"audit --each {QUORUM}": "python -m pip install kraftlog",
    f"run --input {QUORUM} --lake lake": "python -m pip install kraftlog",
    "lake check --lake lake": "python -m pip install kraftlog",
    "changes --lake lake": "python -m pip install kraftlog",
    "sql SHOW --lake lake": "python -m pip install 'kraftlog[sql]'",
}
"""What they cannot do, and what that takes."""
SCRIPT = """
import contextlib, io, json, sys
from kraftlog.cli import main

for line in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(line.split())
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([line, code, len(out.getvalue()), err.getvalue()]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def auditing(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment for those who only audit."""
    return environment(tmp_path_factory.mktemp("auditing"), wheel, packages(*AUDIT))


def answers(python: Path, folder: Path, lines: list[str]) -> dict[str, tuple[int, int, str]]:
    """Of each command line its exit code, how much it wrote on stdout, and what on stderr."""
    script = folder / "commands.py"
    script.write_text(SCRIPT, encoding="utf-8")
    given = folder / "lines.json"
    given.write_text(json.dumps(lines), encoding="utf-8")
    done = run(["sh", "-c", f"{python} commands.py < lines.json"], folder)
    assert done.returncode == 0, done.stderr
    told = (json.loads(line) for line in done.stdout.splitlines())
    return {line: (code, size, err) for line, code, size, err in told}


def test_auditing_needs_six_packages(auditing: Path, tmp_path: Path) -> None:
    for line, (code, size, err) in answers(auditing, tmp_path, AUDITING).items():
        assert code == 0, f"{line}: {err}"
        assert size or "plan snapshot" in line, line


def test_what_is_missing_is_one_sentence_with_its_command(auditing: Path, tmp_path: Path) -> None:
    told = answers(auditing, tmp_path, list(LACKING))
    for line, command in LACKING.items():
        code, _, err = told[line]
        assert code == 2, line
        assert f"{command} brings it\n" in err, line
        assert err.startswith("kraftlog: ")
        assert err.count("\n") == 1, line


WITHOUT_SPARK = """
import sys
from kraftlog.cli import main

code = main(sys.argv[1:])
sys.exit(code or "pyspark" in sys.modules)
"""


@pytest.mark.parametrize(
    "line", [f"run --input {QUORUM} --lake lake", f"audit --each {QUORUM} {QUORUM}"]
)
def test_what_fits_one_split_needs_no_spark_and_no_java(line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_SPARK, *line.split()]
    done = run([*command, *CUT], tmp_path, JAVA_HOME="/nowhere")
    assert "Java" in done.stderr
    done = run(command, tmp_path, JAVA_HOME="/nowhere")
    assert done.returncode == 0, done.stderr


def test_without_any_package_there_is_a_sentence_too(wheel: Path, tmp_path: Path) -> None:
    python = str(environment(tmp_path / "empty", wheel, []))
    done = run([python, "-m", "kraftlog", "records", QUORUM], tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "python -m pip install kraftlog" in done.stderr


def test_the_page(wheel: Path, tmp_path: Path) -> None:
    wanted = {*packages(*AUDIT), *required(wheel, "page")}
    python = environment(tmp_path / "page", wheel, wanted)
    line = f"audit --input {QUORUM} --report page.html"
    code, _, err = answers(python, tmp_path, [line])[line]
    assert code == 0, err
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<svg") >= 2


def test_pulling(wheel: Path, tmp_path: Path) -> None:
    wanted = {*packages(*AUDIT), *required(wheel, "pull")}
    python = environment(tmp_path / "pull", wheel, wanted)
    example = Path(QUORUM) / "1"
    meta = read_meta_properties((example / "meta.properties").read_bytes())
    with serving(FakeController(example, meta["cluster.id"], node_id=3)) as address:
        pull = f"pull --bootstrap-controller {address} --out live"
        told = answers(python, tmp_path, [pull, "audit --input live"])
    assert [code for code, _, _ in told.values()] == [0, 0], told


def test_a_store_of_objects_needs_no_extra(
    auditing: Path, wheel: Path, tmp_path: Path, bucket: str
) -> None:
    assert not required(wheel, "s3")
    filesystem, inner = pafs.FileSystem.from_uri(f"{bucket}/quorum")
    # Older pyarrow waits for ever where files are more than threads (apache/arrow, issue 15233).
    pafs.copy_files(QUORUM, inner, destination_filesystem=filesystem, use_threads=False)
    line = f"audit --input {bucket}/quorum"
    code, size, err = answers(auditing, tmp_path, [line])[line]
    assert (code, size > 1000) == (0, True), err


def test_extras_are_declared_as_pip_knows_them(wheel: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    own = {extra: set(packages(*modules)) for extra, modules in EXTRAS.items()}
    for extra, held in own.items():
        # An extra may hold another one whole.
        others = set().union(*(one for one in own.values() if one <= required(wheel, extra)))
        assert required(wheel, extra) == held | others, extra
    (every,) = map(Requirement, extras["all"])
    assert set(every.extras) == {*extras} - {"all", "dev"}


def test_given_packages_are_plain_dependencies(wheel: Path) -> None:
    given = {"pyspark", "pyarrow", "delta-spark", "crcmod", "great-expectations"}
    assert given | set(packages(*AUDIT)) <= required(wheel)


def test_the_command_for_auditors_is_in_their_guide() -> None:
    told = (DOCS / "auditor.md").read_text(encoding="utf-8")
    assert f"python -m pip install {' '.join(sorted(packages(*AUDIT)))}\n" in told


def test_sentences_of_missing_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'kraftlog[page]'" in missing("jinja2.sandbox")
    assert missing("pyspark").endswith("python -m pip install kraftlog brings it")
    require("page")
    monkeypatch.setitem(EXTRAS, "page", ("no_such_module",))
    with pytest.raises(PlatformError, match=r"no_such_module .*kraftlog\[page\]"):
        require("page")
