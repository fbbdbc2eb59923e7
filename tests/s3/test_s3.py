"""Everything on an object store: input and lake on a real S3 protocol server, runs that are killed
or at work at once, and every reader of Delta that the documents name.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from kraftlog.cli import main
from kraftlog.decode.redaction import MASK_PREFIX
from kraftlog.pipeline.every_table import all_tables
from kraftlog.tables.lake import Lake
from kraftlog.tables.lake_names import KEY_FILE
from kraftlog.tables.place import state_of
from tests.bare import ROOT
from tests.documents import DOCS, blocks
from tests.golden.cases import DATA
from tests.lakes import CUT, contents, key_in
from tests.s3_server import Store, free_port, s3_bucket, s3_server
from tests.store_gate import WRITES, Rule, gate

pytestmark = pytest.mark.s3

ISOLATED = DATA / "isolated" / "replicas"
OFTEN = ["--master", "local[2]", *CUT, "--fail-on", "never"]
OFTEN += ["--lease-seconds", "4", "--wait-seconds", "600"]


@dataclass(frozen=True)
class Place:
    """Where the quorum lies, and a lake for it."""

    replicas: str
    lake: str

    def start(self) -> "subprocess.Popen[str]":
        """One run, as people start it."""
        command = [sys.executable, "-m", "kraftlog", "run", "--input", self.replicas]
        return subprocess.Popen(
            [*command, "--lake", self.lake, *OFTEN],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self) -> str:
        """One run to its end; what it said."""
        began = self.start()
        said, _ = began.communicate(timeout=600)
        assert began.returncode == 0, said
        return said

    def versions(self) -> dict[str, int]:
        return {name: Lake(self.lake).open(name).version() for name in all_tables()}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_bucket() as one:
        one.put(ISOLATED, f"{one.bucket}/replicas")
        yield one


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What one run leaves, alone and on a local disk."""
    folder = tmp_path_factory.mktemp("clean")
    key_in(folder)
    one = Place(str(ISOLATED), str(folder))
    one.run()
    return contents(one.lake)


@pytest.fixture(scope="module")
def grown(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A lake of a run over a part of the input, of one over all that was killed while it wrote, and
    of one that has ended.
    """
    folder = tmp_path_factory.mktemp("grown")
    part = folder / "part"
    shutil.copytree(ISOLATED, part)
    log = next((part / "1" / "__cluster_metadata-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:20_000])
    for one in ("3", "11"):
        shutil.rmtree(part / one)
    place = Place(f"{store.bucket}/growing", f"{store.bucket}/lakes/grown")
    store.put(part, place.replicas)
    store.put(key_in(folder), f"{place.lake}/{KEY_FILE}")
    place.run()
    store.put(ISOLATED, place.replicas)
    kill_at_work(place)
    place.run()
    return place


def kill_at_work(place: Place) -> None:
    """Kill a run, and all that it has started, when it has written something."""
    lake = Lake(place.lake)
    before = lake.run_number("batches")
    one = place.start()
    while lake.run_number("batches") == before:
        assert one.poll() is None, one.communicate()
        time.sleep(0.02)
    os.killpg(one.pid, signal.SIGKILL)
    one.communicate()
    assert lake.run_number("runs") == before


def test_growth_and_a_killed_run_end_like_one_clean_run(
    grown: Place, clean: dict[str, list[str]]
) -> None:
    assert contents(grown.lake) == clean
    assert [one.run for one in state_of(grown.lake).published] == [1, 2]
    assert state_of(grown.lake).owner is None


def test_a_rerun_writes_nothing(grown: Place) -> None:
    before = grown.versions()
    said = grown.run()
    assert grown.versions() == before
    assert f"Page: {grown.lake}/report.html" in said


def test_two_runs_at_once_end_like_one(store: Store, clean: dict[str, list[str]]) -> None:
    place = Place(f"{store.bucket}/replicas", f"{store.bucket}/lakes/twice")
    runs = [place.start() for _ in range(2)]
    said = [one.communicate(timeout=600)[0] for one in runs]
    assert [one.returncode for one in runs] == [0, 0], said
    assert [one.run for one in state_of(place.lake).published] == [1]
    assert {name: len(rows) for name, rows in contents(place.lake).items()} == {
        name: len(rows) for name, rows in clean.items()
    }


MASKED = re.compile(rf"{re.escape(MASK_PREFIX)}\w+")
COMMANDS = [
    "audit --input {}",
    "replicas --input {}",
    "records {}/1 --type TOPIC_RECORD --format json",
    "batches {}/2 --format json",
    "state {}/1 --at 176 --format json",
    "diff {}/1@176 {}/2@243 --format json",
    "explain topic orders --input {}",
    "plan restart --input {}",
    "restorable --input {} --format json",
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: str(one).split()[0])
def test_commands_say_the_same_of_a_store(
    store: Store, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for root in (str(ISOLATED), f"{store.bucket}/replicas"):
        code = main(command.replace("{}", root).split())
        # Without a lake, secrets are masked under a key of each command's own.
        said.append((code, MASKED.sub("", capsys.readouterr().out.replace(root, "ROOT"))))
    assert said[1] == said[0]
    assert said[0][1]


def test_spark_reads_it(grown: Place) -> None:
    """In a process of its own: the JVM of other tests has no jars for S3."""
    code = (
        "import sys; from kraftlog.session import spark_session; "
        f"spark = spark_session('s3', master='local[2]', lake='{grown.lake}'); "
        "print(spark.sql('SELECT count(*) FROM records').first()[0], "
        "spark.sql('SELECT count(*) FROM partitions WHERE valid_to_offset IS NULL').first()[0])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == [str(counted(grown, "records")), str(standing(grown))]


def counted(place: Place, name: str) -> int:
    return int(Lake(place.lake).rows(name).num_rows)


def standing(place: Place) -> int:
    return int(Lake(place.lake).rows("partitions").column("valid_to_offset").null_count)


def test_deltalake_reads_it(grown: Place) -> None:
    table = DeltaTable(f"{grown.lake}/partitions").to_pyarrow_table()
    assert table.column("valid_to_offset").null_count == standing(grown) > 0


def test_polars_reads_it(grown: Place) -> None:
    rows = pl.scan_delta(f"{grown.lake}/partitions")
    assert rows.filter(pl.col("valid_to_offset").is_null()).collect().height == standing(grown)


def test_duckdb_reads_it(grown: Place) -> None:
    import duckdb

    partitions = DeltaTable(f"{grown.lake}/partitions").to_pyarrow_dataset()
    query = "SELECT count(*) FROM partitions WHERE valid_to_offset IS NULL"
    assert partitions.schema
    answer = duckdb.sql(query)
    assert answer is not None
    assert answer.fetchall() == [(standing(grown),)]


def test_the_documents_way_to_try_it(tmp_path: Path) -> None:
    """As it is written, but for the port and the place of the environment."""
    (block,) = (one for one in blocks(DOCS / "operator.md", "text") if "moto.server" in one)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    programs = str(Path(sys.executable).parent)
    lines = block.replace("5000", str(free_port())).replace(".venv/bin", programs).splitlines()
    script = "\n".join([lines[0], "trap 'kill $!' EXIT", *lines[1:]])
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Page: s3://audit/lake/report.html" in done.stdout
    assert "ghost-topic-a" in done.stdout.partition("report.html")[2]


NOBODY = "http://127.0.0.1:1"
SENTENCES = [
    ("audit --input s3://nowhere/replicas", {}, "there is no bucket nowhere"),
    ("audit --input s3://bucket/absent", {}, "there is no such folder or file"),
    ("records s3://nowhere/replicas/1", {}, "there is no bucket nowhere"),
    ("audit --input s3://bucket/replicas", {"AWS_ENDPOINT_URL": NOBODY}, "does not answer"),
    (
        "audit --input s3://bucket/replicas",
        {"AWS_ENDPOINT_URL": "http://nobody.invalid"},
        "does not answer",
    ),
    ("run --input {} --lake s3://nowhere/lake", {}, "there is no bucket nowhere"),
    ("run --input {} --lake s3://bucket/new", {"AWS_ENDPOINT_URL": NOBODY}, "does not answer"),
    ("run --input {} --lake s3://bucket/new", {"AWS_ALLOW_HTTP": "false"}, "AWS_ALLOW_HTTP=true"),
    ("run --input s3://nowhere/x --lake s3://bucket/new", {}, "there is no bucket nowhere"),
    ("lake check --lake s3://bucket/replicas", {}, "is not a lake and holds other things"),
    ("lake check --lake s3://bucket/absent", {}, "there is no lake"),
    ("changes --lake s3://nowhere/lake", {}, "there is no bucket nowhere"),
    ("explain topic a --lake s3://nowhere/lake", {}, "there is no bucket nowhere"),
    ("audit --input s4://bucket/replicas", {}, "s4:// is not a store that kraftlog knows"),
    ("audit --input hdfs://bucket/replicas", {}, "hdfs:// is not a store that kraftlog knows"),
    ("run --input {} --lake ftp://bucket/lake", {}, "ftp:// is not a store that kraftlog knows"),
    ("collect --out s3://bucket/new --ssh a:/b", {}, "is not a path of this machine"),
    ("pull --bootstrap-controller a:1 --out s3://bucket/new", {}, "is not a path of this machine"),
    ("checkpoint {}/1 --at 176 --out s3://bucket/new", {}, "is not a path of this machine"),
    (
        "recover --input {} --out s3://bucket/new --voters 1@a:1",
        {},
        "is not a path of this machine",
    ),
    ("audit --input {} --conf s3://bucket/kraftlog.toml", {}, "is not a path of this machine"),
]


@pytest.mark.parametrize(("command", "environment", "sentence"), SENTENCES)
def test_what_is_wrong_is_one_sentence_and_soon(
    store: Store,
    command: str,
    environment: dict[str, str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        said, seconds = refused(command.replace("{}", str(ISOLATED)), capsys)
    assert sentence in said
    assert seconds < 15
    assert not store.names(f"{store.bucket}/new")


@pytest.mark.parametrize(
    "command", ["audit --input s3://bucket/replicas", "run --input {} --lake s3://bucket/lake"]
)
def test_credentials_that_are_wrong_are_one_sentence(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with s3_server(INITIAL_NO_AUTH_ACTION_COUNT="0"):
        said, seconds = refused(command.replace("{}", str(ISOLATED)), capsys)
    assert "does not let us in; look at AWS_ACCESS_KEY_ID" in said
    assert seconds < 15


REFUSALS = [
    ("audit --input s3://bucket/replicas", Rule(400, "ExpiredToken"), "AWS_SESSION_TOKEN is over"),
    ("run --input {} --lake s3://bucket/new", Rule(403, "ExpiredToken"), "does not let us in"),
    (
        "audit --input s3://bucket/replicas",
        Rule(301, "PermanentRedirect", headers={"x-amz-bucket-region": "eu-central-1"}),
        "the bucket lies in the region eu-central-1; name it in AWS_REGION",
    ),
    ("audit --input s3://bucket/replicas", Rule(503, "SlowDown"), "too busy to answer"),
    (
        "run --input {} --lake s3://bucket/new",
        Rule(403, "AccessDenied", refused=WRITES),
        "the lake cannot be written (the store at",
    ),
]


@pytest.mark.parametrize(("command", "rule", "sentence"), REFUSALS)
def test_what_a_store_refuses_is_one_sentence(
    store: Store,
    command: str,
    rule: Rule,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with gate(store.url, rule) as url, monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", url)
        said, seconds = refused(command.replace("{}", str(ISOLATED)), capsys)
    assert sentence in said
    assert "<" not in said
    assert seconds < 15
    assert not store.names(f"{store.bucket}/new")


def refused(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, float]:
    """The one sentence of a command that could not do its work, and how long it took."""
    began = time.monotonic()
    try:
        code = main(command.split())
    except SystemExit as ended:
        code = int(str(ended.code))
    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    (line,) = [one for one in told.err.splitlines() if one.startswith("kraftlog: ")]
    return line, time.monotonic() - began
