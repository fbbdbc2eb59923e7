"""Whatever fails: one sentence on stderr, exit code 2, no trace, nothing that drives a terminal.

In: files and folders as nobody foresaw them, given to the command line. Out: what it says.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraftlog import failures
from kraftlog.cli import main
from kraftlog.config import Options
from kraftlog.errors import UsageError
from kraftlog.log import names
from kraftlog.log.storage import folder_of_log
from kraftlog.pipeline import each, input_audit
from kraftlog.recover.kit import new_folder
from kraftlog.report.judgement import Judged
from tests.bare import ROOT, run
from tests.golden.cases import PARTITION, Replica

LOG = Replica("combined", "1").log_dir
QUORUM = ROOT / "examples" / "quorum"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A copy of a node: its folder, with the log's in it."""
    shutil.copytree(LOG.parent, tmp_path / "node")
    return tmp_path / "node"


def audited(node: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    """(exit code, checks that failed, stderr) of an audit."""
    code = main(["audit", "--input", str(node), "--format", "json"])
    captured = capsys.readouterr()
    rows = [json.loads(line) for line in captured.out.splitlines()]
    return code, [row["check"] for row in rows if row.get("result") == "failed"], captured.err


# --- What a work may raise --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (UsageError("no such thing"), "kraftlog: no such thing\n"),
        (OSError(28, "No space left on device", "/lake/x"), "/lake/x: No space left on device\n"),
        (OSError(30, "x"), "kraftlog: the system refused: Read-only file system\n"),
        (OSError("store\n \x1b[31m-> no host\x1b[0m"), "the system refused: store: no host\n"),
        (MemoryError(), "the memory of this machine is used up"),
        (RuntimeError("can't start new thread"), "the system gives no further thread"),
        (RuntimeError("hunter2"), "this is a defect of kraftlog"),
        (ValueError("hunter2 \x1b[31m"), "this is a defect of kraftlog"),
        (RecursionError(), "this is a defect of kraftlog"),
        (UnicodeEncodeError("utf-8", "hunter2", 0, 1, "hunter2"), "this is a defect of kraftlog"),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_a_failure_is_a_sentence(
    error: Exception, sentence: str, debug: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> int:
        raise error

    assert failures.guarded(work, debug) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert ("Traceback" in told) == debug
    assert (told.count("\n") == 1) != debug
    assert "\x1b" not in told
    assert debug or "hunter2" not in told


SPARK_SAYS = """An error occurred while calling o40.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 1 times:
  File "/x/kraftlog/tables/parquet.py", line 90, in write_file
{}

	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:572)
"""


class Py4JJavaError(Exception):
    """Named as the one that Spark raises."""


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("OSError: [Errno 28] No space left on device: '/lake/a'", "No space left on device: '/la"),
        ("java.io.IOException: File too large", "refused by the system: File too large; it"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "Spark's workers has no pyarrow: ship"),
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
            "version: 3.12 than that in driver: 3.11, PySpark cannot run with these.",
            "Spark's workers have Python 3.12 and this is 3.11",
        ),
        ("java.lang.IllegalStateException: SparkContext has been shutdown", "Spark has ended"),
        ("Job 3 cancelled because SparkContext was shut down", "Spark has ended before its work"),
        ("ValueError: hunter2", "this is a defect of kraftlog"),
        ("java.lang.IllegalStateException: hunter2", "this is a defect of kraftlog"),
    ],
)
def test_what_spark_says_is_told_where_the_system_said_it(
    said: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> int:
        raise Py4JJavaError(SPARK_SAYS.format(said))

    assert failures.guarded(work) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
    assert "hunter2" not in told


def test_debug_may_stand_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--debug", "batches", "/nope"], ["batches", "/nope", "--debug"]):
        assert main(words) == 2
        assert "Traceback" in capsys.readouterr().err


# --- Side files -------------------------------------------------------------------------------

SECRET = "hunter2"
STATE = '{{"leaderId":{0},"leaderEpoch":{0},"votedId":-1,"data_version":0}}'
HOSTILE = {
    "quorum-state": [
        STATE.format("1e999"),
        STATE.format("1" * 5000),
        STATE.format('"' + SECRET + '"'),
        STATE.format('{"a": {"b": 1}}'),
        STATE.format("NaN"),
        "[" * 200_000,
        '{"leaderEpoch":1,"clusterId":{"a":"' + SECRET + '"}}',
        '{"leaderEpoch":1,"currentVoters":["' + SECRET + '"]}',
        '{"leaderEpoch":1,"currentVoters":{"voterId":1}}',
        SECRET,
    ],
    "leader-epoch-checkpoint": [
        f"0\n1\n{SECRET} 0\n",
        f"{SECRET}\n1\n",
        "0\n1\n" + "9" * 5000 + " 0\n",
        "0\n1\n²  0\n",
        "0\n1\n1 9223372036854775808\n",
        f"0\n1\n1 2 {SECRET}\n",
    ],
    "partition.metadata": [f"version: 0\n{SECRET}\n", "\x00"],
}
CASES = [(name, text) for name, texts in HOSTILE.items() for text in texts]


@pytest.mark.parametrize(("name", "text"), CASES, ids=lambda one: one[:20] if one else "")
def test_hostile_side_files_are_findings_without_their_text(
    name: str, text: str, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (node / names.LOG_FOLDER / name).write_text(text)
    code = main(["audit", "--input", str(node), "--format", "json"])
    captured = capsys.readouterr()
    assert code in (0, 1)
    assert SECRET not in captured.out + captured.err
    failed = [json.loads(line) for line in captured.out.splitlines()]
    assert any(name in str(row.get("path")) for row in failed if row.get("result") == "failed")


def test_a_lone_surrogate_in_a_side_file(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = node / names.LOG_FOLDER / "quorum-state"
    path.write_text('{"leaderId":1,"leaderEpoch":1,"clusterId":"\\ud800","data_version":0}')
    code, _, err = audited(node, capsys)
    assert code in (0, 1)
    assert "defect" not in err


@pytest.mark.parametrize(
    "text",
    [
        "node.id: 1\ncluster.id= x\n",
        "node.\\\n    id=1\n",
        "! a comment\nnode.id 1\n",
        "node\\u002eid=\\u0031\n",
        "node.id=1\r\npassword = a\\\n\\\n  b\r\n",
    ],
)
def test_properties_as_people_write_them(
    text: str, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (node / "meta.properties").write_text(text)
    assert main(["replicas", "--input", str(node), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["node_id"] == 1


@pytest.mark.parametrize(
    "text", [f"node.id={SECRET}\n", f"a=\\u{SECRET}\n", SECRET, "a=\\\n" * 5000]
)
def test_broken_properties_say_nothing_of_their_text(
    text: str, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (node / "meta.properties").write_text(text)
    main(["audit", "--input", str(node), "--format", "json"])
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
    assert "meta.properties" in captured.out


# --- Names and places -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["\x1b[31mred", "new\nline", os.fsdecode(b"\xff"), "\u202eevil"])
def test_no_name_of_a_folder_drives_a_terminal(
    name: str, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.move(node, node.parent / name)
    new = ["--out", str(node.parent / "new"), "--voters", "1@h:1:yD7wSNglQZe1f8nw8v9c1Q"]
    for words in (
        ["audit", "--input"],
        ["batches"],
        ["state"],
        ["plan", "boot", "--input"],
        ["recover", *new, "--input"],
    ):
        main([*words, str(node.parent / name)])
        captured = capsys.readouterr()
        assert not {"\x1b", "\u202e"} & set(captured.err + captured.out)
        assert "Traceback" not in captured.err
        (captured.err + captured.out).encode()
    plan = node.parent / "new" / "plan.md"
    assert not plan.exists() or not {"\x1b", "\u202e"} & set(plan.read_text())


def test_nothing_is_written_below_an_input_by_any_name(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into it, through a link that points there, and through a folder that would be made."""
    log = node / names.LOG_FOLDER
    link, home = node.parent / "link", node.parent / "home"
    link.symlink_to(node)
    home.mkdir()
    (home / "lake").symlink_to(log)
    before = sorted(str(one) for one in node.rglob("*"))
    for out in (log, log / "new", link, link / "a" / "b", home / "lake", node):
        for words in (
            ["checkpoint", str(node), "--at", "38", "--out", str(out)],
            ["run", "--input", str(node), "--lake", str(out)],
            ["audit", "--input", str(node), "--report", str(out / "page.html")],
        ):
            assert main(words) == 2, words
            assert "below the input" in capsys.readouterr().err
    assert main(["checkpoint", str(log), "--at", "38", "--out", str(home / "lake")]) == 2
    assert sorted(str(one) for one in node.rglob("*")) == before


def test_nothing_is_written_into_a_node_whose_log_is_an_input(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether that log is named, or a segment of it; and into no log, be it an input or not."""
    log, other = node / names.LOG_FOLDER, node.parent / "other" / names.LOG_FOLDER
    segment = max(one for one in log.iterdir() if one.suffix == ".log")
    other.mkdir(parents=True)
    before = sorted(str(one) for one in node.parent.rglob("*"))
    lies_in = {
        "in the folder of the node whose log is the input": (log, log / "new", node / "new"),
        "in a metadata log": (other, other / "a" / "b"),
    }
    for told, places in lies_in.items():
        for out in places:
            for words in (
                ["run", "--input", str(segment), "--lake", str(out)],
                ["audit", "--input", str(segment), "--lake", str(out)],
                ["audit", "--input", str(segment), "--report", str(out / "page.html")],
                ["audit", "--input", str(segment), "--junit-file", str(out / "junit.xml")],
            ):
                assert main(words) == 2, words
                assert told in capsys.readouterr().err
    assert main(["audit", "--input", str(log), "--lake", str(node / "lake")]) == 2
    assert "in the folder of the node" in capsys.readouterr().err
    assert main(["checkpoint", str(node), "--at", "38", "--out", str(other)]) == 2
    assert "in a metadata log" in capsys.readouterr().err
    with pytest.raises(UsageError, match="in a metadata log"):
        new_folder(other / "new", [str(node)])
    assert sorted(str(one) for one in node.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/data/1/__cluster_metadata-0/0.log", "/data/1"),
        ("/data/1/__cluster_metadata-0", "/data/1"),
        ("s3://bucket/1/__cluster_metadata-0", "s3://bucket/1"),
        ("/__cluster_metadata-0/0.log", "/__cluster_metadata-0"),
        ("/data/__cluster_metadata-0-old/0.log", None),
        ("/data/1", None),
    ],
)
def test_the_folder_that_holds_a_log(path: str, folder: str | None) -> None:
    assert folder_of_log(path) == folder


# --- Who stops it -------------------------------------------------------------------------------

_STOPPING = "kraftlog: interrupted, stopping; Ctrl-C again ends it at once\n"


@contextmanager
def interrupted(program: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that was at work when Ctrl-C was pressed."""
    command = [sys.executable, "-c", program, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGINT)
        yield process


_SLOW_TO_START = """
import sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == "kraftlog.cli":
            try:
                print("at work", flush=True)
                time.sleep(60)
            except BaseException:
                raise ImportError(name)
sys.meta_path.insert(0, Slow())
from kraftlog.__main__ import main
sys.exit(main())
"""


def test_ctrl_c_before_the_work_begins_leaves_no_trace() -> None:
    """Whatever a library that is being imported does about it."""
    with interrupted(_SLOW_TO_START) as process:
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, "")


_SLOW_TO_STOP = """
import signal, sys, time
from kraftlog.failures import guarded
signal.signal(signal.SIGINT, signal.default_int_handler)
def work():
    try:
        print("at work", flush=True)
        time.sleep(60)
    finally:
        time.sleep(float(sys.argv[1]))
    return 0
sys.exit(guarded(work))
"""


@pytest.mark.parametrize(("tidying", "presses"), [("0", 1), ("60", 2)])
def test_ctrl_c_is_answered_at_once_and_a_second_one_waits_for_nothing(
    tidying: str, presses: int
) -> None:
    with interrupted(_SLOW_TO_STOP, tidying) as process:
        assert process.stderr
        assert process.stderr.readline() == _STOPPING
        if presses == 2:
            process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


_IN_A_TEXT = """
import signal, sys
from kraftlog.failures import guarded
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(guarded(lambda: exec("signal.raise_signal(signal.SIGINT)")))
"""


def test_ctrl_c_while_a_text_runs_ends_a_module_with_its_exit_code(tmp_path: Path) -> None:
    """Python itself ends by the signal then: so most imports of ours did, by their dataclasses."""
    (tmp_path / "pressed.py").write_text(_IN_A_TEXT)
    command, where = [sys.executable, "-m", "pressed"], {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | where)
    assert (done.returncode, done.stderr) == (130, _STOPPING)


_AS_AN_OBJECT_GOES = """
import signal, sys, time
from kraftlog.failures import guarded
signal.signal(signal.SIGINT, signal.default_int_handler)
class Short:
    def __del__(self):
        print("at work", flush=True)
        time.sleep(60)
def work():
    Short()
    time.sleep(60)
    return 0
sys.exit(guarded(work))
"""


def test_ctrl_c_while_an_object_goes_away_is_not_lost() -> None:
    """Python drops what is raised there: the work went on, though it was said to stop."""
    with interrupted(_AS_AN_OBJECT_GOES) as process:
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, _STOPPING)


_LOGS_WHAT_IT_MEETS = """
import logging, signal, sys, time
from kraftlog.failures import guarded
signal.signal(signal.SIGINT, signal.default_int_handler)
def work():
    try:
        print("at work", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        logging.exception("interrupted while sending")
        raise
code = guarded(work)
logging.error("heard again")
sys.exit(code)
"""


def test_what_libraries_log_of_an_interrupt_is_not_shown() -> None:
    with interrupted(_LOGS_WHAT_IT_MEETS) as process:
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said == _STOPPING + "ERROR:root:heard again\n"


_SPEAKS = """
import sys
from kraftlog.failures import guarded
from kraftlog.plain import tell
sys.exit(guarded(lambda: print("ü: 1 \u2192 2") or tell("\u2026")))
"""


@pytest.mark.parametrize(
    ("encoding", "closed", "said"),
    [
        ("utf-8", "", ("ü: 1 → 2\n", "kraftlog: …\n")),
        ("latin-1", "", ("ü: 1 \\u2192 2\n", "kraftlog: \\u2026\n")),
        ("utf-8", ">&-", ("", "kraftlog: …\n")),
        ("utf-8", "2>&-", ("ü: 1 → 2\n", "")),
    ],
)
def test_what_a_stream_cannot_take_is_no_failure(
    encoding: str, closed: str, said: tuple[str, str]
) -> None:
    """A locale without arrows, and a stream that the caller has closed."""
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", _SPEAKS]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(words, capture_output=True, env=env, encoding=encoding, check=True)
    assert (done.stdout, done.stderr) == said


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("command", ["records", "batches"])
def test_a_reader_who_has_seen_enough_is_no_failure(command: str, form: str) -> None:
    words = [sys.executable, "-m", "kraftlog", command, str(LOG), "--format", form]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def unread(*words: str, closed: str = "1", folder: Path | None = None) -> int:
    """The exit code of a command whose answer nobody reads, on stdout, or also what is told beside
    it. What is printed stays in its buffers until the end, as it does unless somebody sets that.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "kraftlog", *words]
        err = writer if closed == "2>&1" else subprocess.PIPE
        done = subprocess.run(command, stdout=writer, stderr=err, env=env, cwd=folder, check=False)
    finally:
        os.close(writer)
    assert b"Broken" not in (done.stderr or b"")
    return done.returncode


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """A quorum with a flipped byte, for which an audit ends by 1."""
    shutil.copytree(QUORUM, tmp_path / "in")
    log = tmp_path / "in" / "1" / PARTITION / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 255
    log.write_bytes(content)
    return str(tmp_path / "in")


@pytest.mark.parametrize("closed", ["1", "2>&1"])
@pytest.mark.parametrize("form", ["table", "json"])
def test_an_audit_whose_answer_nobody_reads_writes_its_files_and_ends_by_what_it_found(
    form: str, closed: str, damaged: str, tmp_path: Path
) -> None:
    """A job's `| head -1` takes neither the alert nor its files."""
    words = "--report r.html --metrics-file r.prom --junit-file r.xml --format".split()
    assert unread("audit", "--input", damaged, *words, form, closed=closed, folder=tmp_path) == 1
    assert all((tmp_path / name).stat().st_size for name in ("r.html", "r.prom", "r.xml"))


def test_a_quorum_among_many_that_nobody_reads_of(damaged: str) -> None:
    assert unread("audit", "--each", str(QUORUM), damaged) == 1


@pytest.mark.parametrize("closed", ["1", "2>&1"])
def test_a_run_whose_answer_nobody_reads_runs_to_its_end(
    closed: str, damaged: str, tmp_path: Path
) -> None:
    words = "--lake lake --metrics-file r.prom --junit-file r.xml".split()
    assert unread("run", "--input", damaged, *words, closed=closed, folder=tmp_path) == 1
    names = ("lake/report.html", "r.prom", "r.xml")
    assert all((tmp_path / name).stat().st_size for name in names)


def test_a_failure_that_nobody_reads_is_one() -> None:
    assert unread("audit", "--input", "not there", closed="2>&1") == 2


@pytest.mark.parametrize("words", ["--help", "collect --out c --ssh h:/a"])
def test_a_short_answer_that_nobody_reads_is_no_failure(words: str) -> None:
    """It is written at the very end."""
    assert unread(*words.split()) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("asked", [["replicas", "--input", str(QUORUM)], ["plan", "--help"]])
def test_a_disk_without_room_for_the_answer_is_one_sentence(asked: list[str]) -> None:
    """Python's own words at its end would follow."""
    words = [sys.executable, "-m", "kraftlog", *asked]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, env=env, check=False)
    assert done.returncode == 2
    assert done.stderr == b"kraftlog: the system refused: No space left on device\n"


def test_a_table_that_lost_a_file_is_named_by_a_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    main(["run", "--input", str(QUORUM), "--lake", str(lake)])
    for one in (lake / "findings").glob("*.parquet"):
        one.unlink()
    capsys.readouterr()
    assert main(["sql", "SELECT * FROM findings", "--lake", str(lake)]) == 2
    said = f"kraftlog: {lake}/findings cannot be read: kraftlog lake check --lake {lake} says what is missing, and the next run rebuilds it\n"
    assert capsys.readouterr().err == said


def test_a_file_is_no_folder_for_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["checkpoint", str(LOG), "--out", str(tmp_path / "file")]) == 2
    assert (
        f"kraftlog: {tmp_path}/file is a file; name a folder as --out\n" in capsys.readouterr().err
    )


def test_a_defect_in_one_input_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good, audited_alone = str(tmp_path), str(LOG.parent), input_audit.audit_input

    def audit_input(roots: list[str], options: Options) -> Judged:
        return audited_alone(roots, options) if roots == [good] else [][0]

    monkeypatch.setattr(each, "audit_input", audit_input)
    assert main(["audit", "--each", bad, good, "--format", "json"]) == 2
    said = capsys.readouterr()
    verdicts = [row for row in map(json.loads, said.out.splitlines()) if "exit_code" in row]
    assert [(one["input"], one["exit_code"] == 2) for one in verdicts] == [
        (bad, True),
        (good, False),
    ]
    assert "this is a defect of kraftlog" in said.err
    assert f"audit {bad} by itself with --debug" in said.err


@pytest.mark.parametrize("module", ["json", "re", "numpy"])
def test_no_file_beside_the_copies_is_run(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("raise SystemExit(9)", encoding="utf-8")
    program = [sys.executable, "-m", "kraftlog", "records", str(QUORUM / "1")]
    done = run(program, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
