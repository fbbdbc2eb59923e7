"""A Spark standalone cluster of a master and two workers, each a process with a folder of its own;
input and lake on an object store; the wheel and the packages that it needs shipped as the
documents say.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from kraftlog.tables.lake_names import KEY_FILE
from kraftlog.tables.place import state_of
from tests.bare import ROOT, built_wheel, environment
from tests.cluster.machines import spark_home, stop, wait_for
from tests.documents import DOCS, blocks
from tests.golden.cases import DATA
from tests.lakes import contents, key_in
from tests.s3_server import Store, free_port, s3_bucket

pytestmark = pytest.mark.cluster

ISOLATED = DATA / "isolated" / "replicas"
JARS = ",".join(str(one) for one in sorted((ROOT / ".jars").glob("*.jar")))


@dataclass(frozen=True)
class Cluster:
    """Its master's address, and the folder and process of each worker."""

    master: str
    workers: tuple[tuple[Path, int], ...]

    def executors(self) -> list[int]:
        """The processes that work for an application now."""
        workers = {process for _, process in self.workers}
        return [
            child
            for child, parent in _parents().items()
            if parent in workers and b"CoarseGrainedExecutorBackend" in _words(child)
        ]

    def has_lost_one(self) -> bool:
        """Whether a worker has told that an executor was killed from outside."""
        signalled = f"exitStatus {128 + signal.SIGKILL}"
        return any(signalled in (folder / "log").read_text() for folder, _ in self.workers)

    def started(self) -> list[Path]:
        """The folders of all executors that there have been."""
        return [one for folder, _ in self.workers for one in folder.glob("app-*/*") if one.is_dir()]


def _words(process: int) -> bytes:
    """The command of a process; none where it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _parents() -> dict[int, int]:
    """Each process's parent."""
    found = {}
    for one in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = one.read_text()
        except OSError:
            continue  # it has ended
        found[int(one.parent.name)] = int(text.rpartition(")")[2].split()[1])
    return found


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_bucket() as one:
        one.put(ISOLATED, f"{one.bucket}/replicas")
        yield one


@pytest.fixture(scope="module")
def cluster(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The workers know the store, as machines with a role do; kraftlog they do not know."""
    folder, port = tmp_path_factory.mktemp("cluster"), free_port()
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    variables = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_OPTS": "-XX:TieredStopAtLevel=1",
    }

    def start(name: str, *arguments: str) -> tuple[Path, "subprocess.Popen[bytes]"]:
        own = folder / name
        own.mkdir()
        with (own / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(spark_home() / "bin/spark-class"), *arguments, "--webui-port", "0"],
                cwd=own,
                env=inherited | variables,
                stdout=log,
                stderr=log,
            )
        return own, process

    deploy, master = "org.apache.spark.deploy", f"spark://127.0.0.1:{port}"
    host = ["--host", "127.0.0.1", "--port", str(port)]
    started = [start("master", f"{deploy}.master.Master", *host)]
    wait_for(port)
    for name in ("one", "two"):
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name)]
        started.append(start(name, f"{deploy}.worker.Worker", *size, master))
    try:
        yield Cluster(master, tuple((own, process.pid) for own, process in started[1:]))
    finally:
        for _, process in reversed(started):
            stop(process)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the documents ship: the wheel by the name of an archive, and the packages
    that executors need.
    """
    folder = tmp_path_factory.mktemp("shipped")
    wheel = built_wheel(folder)
    shutil.copyfile(wheel, folder / "kraftlog.zip")
    (install,) = [one for one in told() if one.startswith("environment/bin/python -m pip install")]
    packages = shlex.split(install.rpartition(" install ")[2])
    environment(folder / "environment", wheel, packages, copies=True)
    shutil.rmtree(next(folder.glob("environment/lib/python3*/site-packages/kraftlog")))
    (pack,) = [one for one in told() if one.startswith("tar ")]
    subprocess.run(shlex.split(pack), cwd=folder, check=True)
    return folder


def told() -> list[str]:
    """The commands of the operator's page that are for a cluster."""
    texts = "".join(blocks(DOCS / "operator.md", "text"))
    return [line.strip() for line in texts.replace("\\\n", " ").splitlines()]


def submitted(
    master: str, store: Store, folder: Path, lake: str, more: Mapping[str, str]
) -> "subprocess.Popen[str]":
    """The documented command, begun; with more settings."""
    (command,) = [one for one in told() if " spark-submit " in one and "spark://" in one]
    words = shlex.split(command)
    at = words.index("spark-submit")
    variables = dict(one.split("=", 1) for one in words[:at])
    assert variables.pop("PYSPARK_DRIVER_PYTHON")
    variables["SPARK_CONF_DIR"] = str(ROOT / variables["SPARK_CONF_DIR"])
    places = {
        "spark://master:7077": master,
        "jobs/pipeline.py": str(ROOT / "jobs/pipeline.py"),
        "s3://audit/replicas": f"{store.bucket}/replicas",
        "s3://audit/lake": lake,
    }
    # The jars are at hand here, and the machine is small.
    local = {
        "spark.jars.packages": "",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.host": "127.0.0.1",
    }
    settings = [word for one in {**local, **more}.items() for word in ("--conf", "=".join(one))]
    submit = [str(Path(sys.executable).parent / "spark-submit"), "--jars", JARS, *settings]
    options = ["--split-size-bytes", "2048", "--fail-on", "never"]
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.Popen(
        [*submit, *(places.get(one, one) for one in words[at + 1 :]), *options],
        cwd=folder,
        env=inherited | variables | {"PYSPARK_DRIVER_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_whole_pipeline_while_an_executor_is_killed(
    cluster: Cluster,
    store: Store,
    shipped: Path,
    alone: dict[str, list[str]],
    tmp_path: Path,
) -> None:
    lake = f"{store.bucket}/lake"
    store.put(key_in(tmp_path), f"{lake}/{KEY_FILE}")
    job = submitted(cluster.master, store, shipped, lake, {})
    while not any(one.endswith(".parquet") for one in store.names(f"{lake}/batches")):
        assert job.poll() is None, job.communicate()[0]
        time.sleep(0.05)
    os.kill(cluster.executors()[0], signal.SIGKILL)
    said, _ = job.communicate(timeout=600)
    assert job.returncode == 0, said
    assert cluster.has_lost_one()
    # Each has packages of its own; the one in place of the killed one may have come too late.
    packed = [one for one in cluster.started() if (one / "environment/bin/python").exists()]
    assert len(packed) >= 2
    assert [one.run for one in state_of(lake).published] == [1]

    assert contents(lake) == alone
