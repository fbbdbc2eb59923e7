"""Is there a Java that Spark can use? PySpark itself only says that a gateway exited.

What enters: JAVA_HOME and PATH. What leaves: a major version, or a `PlatformError` of one sentence.
Needs nothing but the standard library: `make setup` asks before anything is installed.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from kraftlog.errors import PlatformError

JAVA_VERSIONS = (17, 21)


def check_java() -> int:
    """The major version of the Java that Spark will start."""
    wanted = " or ".join(map(str, JAVA_VERSIONS))
    advice = f"install Java {wanted} and put it on PATH or point JAVA_HOME to it"
    java = _java_command()
    if java is None:
        raise PlatformError(f"Spark needs Java {wanted} and there is none here; {advice}")
    version = java_version(java)
    if version is None:
        raise PlatformError(f"Spark needs Java {wanted} and {java} does not start; {advice}")
    if version not in JAVA_VERSIONS:
        raise PlatformError(f"Spark needs Java {wanted} and {java} is Java {version}; {advice}")
    return version


def java_version(java: str) -> int | None:
    """The major version by `java -version`; None where it does not run, as macOS's empty stub."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Java 8 calls itself 1.8.
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if answer.returncode == 0 and found else None


def _java_command() -> str | None:
    """The java that Spark's launcher takes: JAVA_HOME goes before PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java")
