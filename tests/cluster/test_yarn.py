"""YARN: Hadoop's own resource manager and two node managers, in one process of Java; its containers
know nothing of the driver's environment. For the rest as in `test_cluster`.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraftlog.tables.lake_names import KEY_FILE
from kraftlog.tables.place import state_of
from tests.bare import ROOT
from tests.cluster.machines import spark_home, stop
from tests.cluster.test_cluster import shipped, store, submitted
from tests.lakes import contents, key_in
from tests.s3_server import Store

__all__ = ["shipped", "store"]

pytestmark = pytest.mark.yarn

HERE = Path(__file__).parent
CLASSES = [ROOT / ".yarn" / "*", spark_home() / "jars" / "*"]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with the settings by which clients find it."""
    folder = tmp_path_factory.mktemp("yarn")
    java = ["java", "-Xmx512m", "-cp", ":".join(map(str, CLASSES)), str(HERE / "Yarn.java")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*java, str(folder)], cwd=folder, stdout=log, stderr=log)
    try:
        while "ready" not in (folder / "log").read_text():
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.2)
        yield folder
    finally:
        stop(process)


def test_the_whole_pipeline_on_yarn(
    yarn: Path,
    store: Store,
    shipped: Path,
    alone: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = f"{store.bucket}/yarn"
    store.put(key_in(tmp_path), f"{lake}/{KEY_FILE}")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn))
    # What Spark would upload for each job lies on every machine here.
    jars = {"spark.yarn.jars": f"local:{spark_home()}/jars/*", "spark.yarn.am.memory": "512m"}
    known = {f"spark.executorEnv.{name}": value for name, value in store.environment.items()}
    said, _ = (job := submitted("yarn", store, shipped, lake, jars | known)).communicate(
        timeout=600
    )
    assert job.returncode == 0, said
    containers = {one.parent.name for one in yarn.rglob("container_*/environment")}
    assert len(containers) >= 2
    assert [one.run for one in state_of(lake).published] == [1]
    assert contents(lake) == alone
