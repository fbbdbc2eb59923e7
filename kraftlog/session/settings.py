"""What Spark is started with: the packaged settings and Delta's two jars.

What enters: `conf/spark-defaults.conf`, `conf/jars.sha256`, `conf/log4j2.properties`, a folder of
jars, and what delta-spark wants of a session. What leaves: settings by key. Needs no Spark but
for those.
"""

import hashlib
import os
from pathlib import Path

from kraftlog.errors import PlatformError
from kraftlog.message.catalogue import packaged

JARS_FOLDER = Path(__file__).parents[2] / ".jars"


def packaged_settings() -> dict[str, str]:
    """The settings of `conf/spark-defaults.conf`."""
    return dict(_pairs("spark-defaults.conf"))


def jar_digests() -> dict[str, str]:
    """Delta's jars by file name, with the SHA-256 that `conf/jars.sha256` pins."""
    return {name: digest for digest, name in _pairs("jars.sha256")}


def _pairs(name: str) -> list[tuple[str, str]]:
    """The lines of a packaged file, cut at the first white space, without its comments."""
    text = (packaged("conf") / name).read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    cut = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return [(first, second) for first, second in cut]


def jars_folder() -> Path | None:
    """KRAFTLOG_JARS, or `.jars` in a checkout; None where Spark has to resolve the jars itself."""
    named = os.environ.get("KRAFTLOG_JARS")
    if named:
        return Path(named)
    return JARS_FOLDER if JARS_FOLDER.is_dir() else None


def verified_jars(folder: Path) -> list[Path]:
    """Delta's jars in that folder, after their checksums were compared."""
    jars = []
    for name, digest in jar_digests().items():
        jar = folder / name
        if not jar.is_file():
            raise PlatformError(f"{folder} lacks {name}; remove that folder and run `make setup`")
        if hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
            raise PlatformError(
                f"{jar} is not the file whose checksum conf/jars.sha256 holds; "
                "remove its folder and run `make setup`"
            )
        jars.append(jar)
    return jars


def delta_coordinates() -> str:
    """Delta's jar as Maven calls it, by the delta-spark that is installed: it is the one to say how
    a session is configured.
    """
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = configure_spark_with_delta_pip(SparkSession.Builder())
    return str(builder._options["spark.jars.packages"])


def launch_settings(folder: Path | None) -> dict[str, str]:
    """The packaged settings, with what delta-spark configures: its jars from that folder, else
    their coordinates.

    Raises PlatformError where the folder's jars are those of another delta-spark."""
    coordinates = delta_coordinates()
    settings = packaged_settings() | {"spark.jars.packages": coordinates}
    if folder is not None:
        _, artifact, version = coordinates.split(":")
        if f"{artifact}-{version}.jar" not in jar_digests():
            raise PlatformError(
                f"delta-spark {version} is installed, and conf/jars.sha256 has the jars of another "
                "version; install the one that pyproject.toml names"
            )
        jars = [jar.resolve().as_uri() for jar in verified_jars(folder)]
        del settings["spark.jars.packages"], settings["spark.jars.excludes"]
        settings["spark.jars"] = ",".join(jars)
    logging = packaged("conf") / "log4j2.properties"
    if isinstance(logging, Path):
        # Default options stand before spark.driver.extraJavaOptions, which stays the user's.
        option = f" -Dlog4j2.configurationFile={logging.resolve().as_uri()}"
        settings["spark.driver.defaultJavaOptions"] += option
    return settings
