"""What Spark is started with: the packaged settings and Delta's two jars;
with those for S3 where a lake there is read by SQL.

What enters: `conf/spark-*.conf`, `conf/jars*.sha256`, `conf/log4j2.properties`, a folder of jars,
and what delta-spark wants of a session. What leaves: settings by key. Needs no Spark but for those.
"""

import hashlib
import os
from pathlib import Path

from kraftlog.errors import PlatformError
from kraftlog.message.catalogue import packaged

JARS_FOLDER = Path(__file__).parents[2] / ".jars"
DELTA, S3A = "delta", "s3a"
_DIGESTS = {DELTA: "jars.sha256", S3A: "jars-s3a.sha256"}
_MADE_BY = {DELTA: "setup", S3A: "s3a-jars"}
_PACKAGES, _EXCLUDES = "spark.jars.packages", "spark.jars.excludes"
_SQL_BY_DELTA = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")


def packaged_settings() -> dict[str, str]:
    return dict(_pairs("spark-defaults.conf"))


def s3a_settings() -> dict[str, str]:
    """What `conf/spark-s3a.conf` adds for Spark's own readers of a lake on S3."""
    settings = dict(_pairs("spark-s3a.conf"))
    if any(os.environ.get(one) for one in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")):
        # Stores that are not Amazon's have no host of its own for each bucket.
        settings["spark.hadoop.fs.s3a.path.style.access"] = "true"
    return settings


def jar_digests(kind: str = DELTA) -> dict[str, str]:
    """Delta's jars, or those for S3, by file name, with the SHA-256 that `conf/` pins."""
    return {name: digest for digest, name in _pairs(_DIGESTS[kind])}


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


def jars_below(folder: Path, kind: str) -> Path:
    """Where in a folder of jars those of a kind lie: Delta's directly, others in their own."""
    return folder if kind == DELTA else folder / kind


def verified_jars(folder: Path, kind: str = DELTA) -> list[Path]:
    """The jars of a kind in that folder, after their checksums were compared."""
    jars = []
    for name, digest in jar_digests(kind).items():
        jar = jars_below(folder, kind) / name
        if not jar.is_file():
            raise PlatformError(
                f"{jar.parent} lacks {name}; remove that folder and run `make {_MADE_BY[kind]}`"
            )
        if hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
            raise PlatformError(
                f"{jar} is not the file whose checksum conf/{_DIGESTS[kind]} holds; remove its folder and run `make {_MADE_BY[kind]}`"
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
    return str(builder._options[_PACKAGES])


def launch_settings(
    folder: Path | None, *, with_s3a: bool = False, sql: bool = True
) -> dict[str, str]:
    """The packaged settings, with what delta-spark configures: its jars from that folder, else
    their coordinates; and with what reads S3. Tasks alone, without SQL, need no jars, and none are
    fetched for them.

    Raises PlatformError where the folder's jars are those of another delta-spark."""
    coordinates = delta_coordinates()
    settings = packaged_settings() | {_PACKAGES: coordinates}
    if folder is None and not sql:
        for key in (_PACKAGES, _EXCLUDES, *_SQL_BY_DELTA):
            del settings[key]
    kinds = [DELTA]
    if with_s3a:
        kinds.append(S3A)
        more = s3a_settings()
        both = {key: f"{settings[key]},{more.pop(key)}" for key in (_PACKAGES, _EXCLUDES)}
        settings |= more | both
    if folder is not None and all(jars_below(folder, kind).is_dir() for kind in kinds):
        _, artifact, version = coordinates.split(":")
        if f"{artifact}-{version}.jar" not in jar_digests():
            raise PlatformError(
                f"delta-spark {version} is installed, and conf/jars.sha256 has the jars of another version; install the one that pyproject.toml names"
            )
        jars = [jar.resolve().as_uri() for kind in kinds for jar in verified_jars(folder, kind)]
        del settings[_PACKAGES], settings[_EXCLUDES]
        settings["spark.jars"] = ",".join(jars)
    logging = packaged("conf") / "log4j2.properties"
    if isinstance(logging, Path):
        # Default options stand before spark.driver.extraJavaOptions, which stays the user's.
        option = f" -Dlog4j2.configurationFile={logging.resolve().as_uri()}"
        settings["spark.driver.defaultJavaOptions"] += option
    return settings
