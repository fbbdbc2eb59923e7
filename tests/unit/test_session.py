"""What a user reads when the machine lacks something; no Spark is started here."""

import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import importlib_metadata
import pytest

from kraftlog.errors import PlatformError
from kraftlog.session import check_java, spark_settings

JAVA_11 = 'openjdk version "11.0.21" 2023-10-17'
JAVA_17 = 'openjdk version "17.0.15" 2025-04-15'
JAVA_8 = 'java version "1.8.0_391"'


def fake_java(folder: Path, says: str, exit_code: int = 0) -> Path:
    """A `java` that answers like `java -version`: on stderr."""
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {exit_code}\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.fixture
def only_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The one folder on PATH, and no JAVA_HOME."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("says", "version"), [(JAVA_17, 17), ('openjdk version "21" 2023', 21)])
def test_a_java_that_fits(only_path: Path, says: str, version: int) -> None:
    fake_java(only_path, says)
    assert check_java() == version


def test_no_java_says_what_to_do(only_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"there is none here; install Java 17 or 21"):
        check_java()


@pytest.mark.parametrize(
    ("says", "version"), [(JAVA_8, 8), (JAVA_11, 11), ('openjdk version "26-ea"', 26)]
)
def test_a_java_that_does_not_fit(only_path: Path, says: str, version: int) -> None:
    java = fake_java(only_path, says)
    with pytest.raises(PlatformError, match=f"is Java {version};.*JAVA_HOME") as caught:
        check_java()
    assert str(java) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stub_that_fails_is_not_taken_for_java(only_path: Path) -> None:
    fake_java(only_path, "Unable to locate a Java Runtime", exit_code=1)
    with pytest.raises(PlatformError, match="does not start"):
        check_java()


def test_java_home_goes_before_path(only_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(only_path, JAVA_11)
    fake_java(only_path / "home" / "bin", JAVA_17)
    monkeypatch.setenv("JAVA_HOME", str(only_path / "home"))
    assert check_java() == 17
    monkeypatch.setenv("JAVA_HOME", str(only_path / "absent"))
    with pytest.raises(PlatformError, match="does not start"):
        check_java()


def test_setup_asks_for_java_before_any_package_is_installed(only_path: Path) -> None:
    root = Path(__file__).parents[2]
    # -S leaves the installed packages out.
    command = [sys.executable, "-S", "-m", "kraftlog.session", "check-java"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr.startswith("kraftlog: Spark needs Java 17 or 21 and there is none here")
    assert answer.stderr.count("\n") == 1


def test_settings_are_spark_properties() -> None:
    packaged = spark_settings.packaged_settings()
    assert packaged["spark.sql.session.timeZone"] == "UTC"
    assert packaged["spark.databricks.delta.snapshotPartitions"] == "2"
    assert all(
        key.startswith("spark.") and value == value.strip() for key, value in packaged.items()
    )
    assert [key for key, value in packaged.items() if " " in value] == [
        "spark.driver.defaultJavaOptions"
    ]


def test_jar_names_carry_the_version_of_the_coordinates() -> None:
    _, artifact, version = spark_settings.delta_coordinates().split(":")
    assert f"{artifact}-{version}.jar" in spark_settings.jar_digests()


def test_delta_spark_configures_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = spark_settings.launch_settings(None)["spark.jars.packages"]
    assert before == spark_settings.delta_coordinates()
    monkeypatch.setattr(importlib_metadata, "version", lambda name: "4.9.9")
    found = spark_settings.launch_settings(None)
    assert found["spark.jars.packages"] == before.rpartition(":")[0] + ":4.9.9"
    with pytest.raises(PlatformError, match=r"delta-spark 4\.9\.9 is installed.*another version"):
        spark_settings.launch_settings(tmp_path)


def test_jars_for_s3_fit_what_pyspark_brings() -> None:
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    (hadoop,) = Path(pyspark.origin).parent.glob("jars/hadoop-client-api-*.jar")
    version = hadoop.stem.rpartition("-")[2]
    assert f"hadoop-aws-{version}.jar" in spark_settings.jar_digests(spark_settings.S3A)
    for one in spark_settings.s3a_settings()["spark.jars.packages"].split(","):
        _, artifact, version = one.split(":")
        assert f"{artifact}-{version}.jar" in spark_settings.jar_digests(spark_settings.S3A)


def test_a_lake_on_s3_has_the_jars_of_both(tmp_path: Path) -> None:
    delta = spark_settings.delta_coordinates()
    both = spark_settings.launch_settings(None, with_s3a=True)
    assert both["spark.jars.packages"].startswith(f"{delta},org.apache.hadoop:hadoop-aws:")
    assert both["spark.hadoop.fs.s3.impl"].endswith("S3AFileSystem")
    # Where only Delta's jars are at hand, all are resolved.
    assert "spark.jars.packages" in spark_settings.launch_settings(tmp_path, with_s3a=True)


def test_jars_are_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFTLOG_JARS", str(tmp_path))
    assert spark_settings.jars_folder() == tmp_path


def test_jars_are_compared_with_their_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {"delta.jar": hashlib.sha256(b"good").hexdigest()}
    monkeypatch.setattr(spark_settings, "jar_digests", lambda *_: digests)
    with pytest.raises(PlatformError, match=r"lacks delta\.jar.*make setup"):
        spark_settings.verified_jars(tmp_path)
    (tmp_path / "delta.jar").write_bytes(b"bad")
    with pytest.raises(PlatformError, match="is not the file whose checksum"):
        spark_settings.verified_jars(tmp_path)
    (tmp_path / "delta.jar").write_bytes(b"good")
    assert spark_settings.verified_jars(tmp_path) == [tmp_path / "delta.jar"]


def test_with_jars_at_hand_nothing_is_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "delta-1.jar").write_bytes(b"good")
    digests = {"delta-1.jar": hashlib.sha256(b"good").hexdigest()}
    monkeypatch.setattr(spark_settings, "jar_digests", lambda *_: digests)
    monkeypatch.setattr(spark_settings, "delta_coordinates", lambda: "io.delta:delta:1")
    found = spark_settings.launch_settings(folder)
    assert found["spark.jars"].endswith("/a%20folder/delta-1.jar")
    assert not any(key.startswith("spark.jars.") for key in found)
    assert "spark.jars.packages" in spark_settings.launch_settings(None)
    tasks = spark_settings.launch_settings(None, sql=False)
    assert not any("jars" in key or "delta" in value for key, value in tasks.items())
