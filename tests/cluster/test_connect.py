"""A remote Spark, by Spark Connect: a server of its own process, a client that has no JVM."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bare import ROOT, built_wheel, environment, required, run
from tests.cluster.machines import spark_home, stop, wait_for
from tests.golden.cases import DATA
from tests.lakes import CUT, contents, key_in
from tests.s3_server import free_port

pytestmark = pytest.mark.cluster

ISOLATED = str(DATA / "isolated" / "replicas")
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SCRIPT = """
import sys
import pyarrow
from kraftlog.extras import leave_out
leave_out("pandas")  # as each command does
pyarrow.array([1])
from pyspark import SparkContext
from kraftlog.pipeline.tasks import run_tasks, setting_of
from kraftlog.session import spark_for_tasks

spark = spark_for_tasks("tasks", master=sys.argv[1])
print(run_tasks(spark, 5, lambda number: [number] * number))
print(run_tasks(spark, 0, lambda number: [number]), setting_of(spark, "spark.none", "7"))
print(SparkContext._active_spark_context)
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server knows kraftlog, as the machines of a remote Spark have to."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.ui.enabled": "false",
    }
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    variables = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    submit = [str(spark_home() / "bin/spark-class"), "org.apache.spark.deploy.SparkSubmit"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*submit, "--class", SERVER, "--master", "local[2]", *words, "spark-internal"],
            cwd=folder,
            env=os.environ | variables | {"SPARK_HOME": str(spark_home())},
            stdout=log,
            stderr=log,
        )
    wait_for(port)
    yield f"sc://127.0.0.1:{port}"
    stop(server)


Client = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """Runs Python with what the extra brings on top of the plain dependencies, and without any
    Java: only the server may have one.
    """
    folder = tmp_path_factory.mktemp("client")
    wheel = built_wheel(folder)
    wanted = required(wheel) | required(wheel, "connect")
    python = str(environment(folder / "environment", wheel, wanted))
    return lambda *words: run([python, *words], folder, JAVA_HOME="/nowhere")


def test_tasks_of_a_remote_spark_answer_in_their_order(client: Client, address: str) -> None:
    done = client("-c", SCRIPT, address)
    assert done.returncode == 0, done.stderr
    numbers = [one for one in range(5) for _ in range(one)]
    assert done.stdout.splitlines() == [str(numbers), "[] 7", "None"]


def test_a_run_by_a_remote_spark_writes_what_a_local_one_does(
    client: Client, address: str, alone: dict[str, list[str]], tmp_path: Path
) -> None:
    key_in(tmp_path)
    lake = str(tmp_path)
    words = ["run", "--input", ISOLATED, "--lake", lake, "--master", address, *CUT]
    done = client("-m", "kraftlog", *words)
    assert done.returncode == 0, done.stderr
    assert contents(lake) == alone


def test_a_remote_spark_that_is_not_there_is_one_sentence(client: Client, tmp_path: Path) -> None:
    began = time.monotonic()
    command = ["-m", "kraftlog", "run", "--input", ISOLATED, "--lake", str(tmp_path / "lake")]
    done = client(*command, *CUT, "--master", f"sc://127.0.0.1:{free_port()}")
    assert done.returncode == 2
    assert "no Spark answers at sc://127.0.0.1" in done.stderr
    assert time.monotonic() - began < 60
