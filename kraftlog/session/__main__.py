"""What `make setup` calls: `check-java` before anything is installed, `fetch-jars` afterwards; and
`make s3a-jars`: `fetch-jars s3a`."""

import shutil
import sys
import tempfile
from pathlib import Path

from kraftlog.errors import KraftlogError, UsageError
from kraftlog.plain import tell
from kraftlog.session.java import check_java
from kraftlog.session.spark_settings import (
    DELTA,
    JARS_FOLDER,
    S3A,
    jar_digests,
    jars_below,
    launch_settings,
    verified_jars,
)


def fetch_jars(folder: Path, kind: str = DELTA) -> None:
    """Fill the folder with the jars of a kind by Spark's own resolution, unless it has them."""
    below = jars_below(folder, kind)
    if not all((below / name).is_file() for name in jar_digests(kind)):
        from kraftlog.session.start import launched

        with tempfile.TemporaryDirectory() as cache:
            settings = launch_settings(None, with_s3a=kind == S3A) | {
                "spark.jars.ivy": cache,
                "spark.app.name": "kraftlog-setup",
                "spark.master": "local[1]",
            }
            launched(settings).stop()
            below.mkdir(parents=True, exist_ok=True)
            for jar in Path(cache, "jars").glob("*.jar"):
                # Ivy writes the group before the name: io.delta_delta-storage-4.4.0.jar
                name = jar.name.partition("_")[2]
                if name in jar_digests(kind):
                    shutil.copyfile(jar, below / name)
    verified_jars(folder, kind)


def main(arguments: list[str]) -> int:
    """The exit code: 2 where the machine lacks something, after one sentence on stderr."""
    try:
        if arguments == ["check-java"]:
            check_java()
        elif arguments in (["fetch-jars"], ["fetch-jars", S3A]):
            fetch_jars(JARS_FOLDER, *arguments[1:])
        else:
            raise UsageError(
                f"python -m kraftlog.session takes check-java, fetch-jars or fetch-jars {S3A}"
            )
    except KraftlogError as error:
        tell(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
