"""What `make setup` calls: `check-java` before anything is installed, `fetch-jars` afterwards."""

import shutil
import sys
import tempfile
from pathlib import Path

from kraftlog.errors import KraftlogError, UsageError
from kraftlog.plain import tell
from kraftlog.session.java import check_java
from kraftlog.session.settings import JARS_FOLDER, jar_digests, launch_settings, verified_jars


def fetch_jars(folder: Path) -> None:
    """Fill the folder with Delta's jars by Spark's own resolution, unless it has them already."""
    if not all((folder / name).is_file() for name in jar_digests()):
        from kraftlog.session.start import launched

        with tempfile.TemporaryDirectory() as cache:
            settings = launch_settings(None) | {
                "spark.jars.ivy": cache,
                "spark.app.name": "kraftlog-setup",
                "spark.master": "local[1]",
            }
            launched(settings).stop()
            folder.mkdir(parents=True, exist_ok=True)
            for jar in Path(cache, "jars").glob("*.jar"):
                # Ivy writes the group before the name: io.delta_delta-storage-4.4.0.jar
                shutil.copyfile(jar, folder / jar.name.partition("_")[2])
    verified_jars(folder)


def main(arguments: list[str]) -> int:
    """The exit code: 2 where the machine lacks something, after one sentence on stderr."""
    try:
        if arguments == ["check-java"]:
            check_java()
        elif arguments == ["fetch-jars"]:
            fetch_jars(JARS_FOLDER)
        else:
            raise UsageError("python -m kraftlog.session takes check-java or fetch-jars")
    except KraftlogError as error:
        tell(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
