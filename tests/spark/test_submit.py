"""Plain spark-submit with the built wheel, and a cluster whose executors share nothing with the
driver.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

ROOT = Path(__file__).parents[2]
JARS = ",".join(str(one) for one in sorted((ROOT / ".jars").glob("*.jar")))


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, **variables}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, under the name that --py-files hands on to workers."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    built = run([*command, str(folder)], ROOT)
    assert built.returncode == 0, built.stderr
    archive = folder / "kraftlog.zip"
    next(folder.glob("*.whl")).rename(archive)
    return archive


def test_spark_submit_with_the_wheel(wheel: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    submit = str(Path(sys.executable).parent / "spark-submit")
    settings = ["--master", "local[2]", "--properties-file", str(ROOT / "conf/spark-defaults.conf")]
    done = run(
        [
            submit,
            *settings,
            *("--conf", "spark.jars.packages=", "--jars", JARS, "--py-files", str(wheel)),
            str(ROOT / "jobs/pipeline.py"),
            *("--input", str(ROOT / "examples/quorum"), "--lake", str(lake)),
        ],
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert DeltaTable(str(lake / "records")).to_pyarrow_dataset().count_rows() == 455
    assert DeltaTable(str(lake / "findings")).to_pyarrow_dataset().count_rows() >= 2


def test_executors_share_nothing_with_the_driver(tmp_path: Path) -> None:
    """Relative paths, an own working folder per executor, Python workers that import kraftlog by
    themselves.
    """
    (tmp_path / "quorum").symlink_to(ROOT / "examples/quorum")
    done = run(
        [
            sys.executable,
            str(ROOT / "jobs/pipeline.py"),
            *("--input", "quorum", "--lake", "lake", "--master", "local-cluster[2,1,1024]"),
        ],
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert DeltaTable(str(tmp_path / "lake/records")).to_pyarrow_dataset().count_rows() == 455


def test_a_job_says_what_is_wrong_in_one_sentence(tmp_path: Path) -> None:
    job = str(ROOT / "jobs/decode.py")
    for arguments, sentence in (
        (["--input", "nowhere", "--lake", "lake"], "there is no such folder"),
        (["--input", "."], "--lake"),
        (["--input", ".", "--lake", "lake", "--fail-on", "often"], "fail_on"),
    ):
        done = run([sys.executable, job, *arguments], tmp_path)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
