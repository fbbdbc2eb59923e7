"""`python tests/matrix.py 3.11 3.12 oldest` (`make matrix`): the tests of the rooms that need no
Spark, on each of these versions of Python, and with the oldest pyarrow that pyproject.toml allows.

It needs nothing but this Python; others are found on PATH, or below pyenv's and uv's folders. Each
has an environment of its own below .matrix/, which later runs use again.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".matrix"
OLDEST, OLDEST_PYTHON = "oldest", "3.11"
TESTS = ("tests/unit", "tests/property", "tests/golden")
LEFT_OUT = ("tests/property/test_fuzz.py",)
LOWEST = re.compile(r"pyarrow>=([\d.]+)")


def main(wanted: list[str]) -> int:
    """How many of them failed."""
    results = {name: tried(name) for name in wanted}
    for name, result in results.items():
        print(f"{name:8} {result}")
    return sum(result != "passed" for result in results.values())


def tried(name: str) -> str:
    """What became of one."""
    version = OLDEST_PYTHON if name == OLDEST else name
    python = found(version)
    if python is None:
        return f"no Python {version} here: not tried"
    programs = FOLDER / name / "bin"
    print(f"--- {name}: {python}", flush=True)
    if not (FOLDER / name / ".stamp").exists():
        subprocess.run([python, "-m", "venv", "--clear", str(FOLDER / name)], check=True)
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet"]
        pins = FOLDER / f"{name}.txt"
        pins.write_text("\n".join(pinned(name == OLDEST)) + "\n", encoding="utf-8")
        # A source package is built with what the lock says, and never with what is newest.
        build = ["--require-hashes", "-r", "requirements-build.lock"]
        subprocess.run([*pip, *build], cwd=ROOT, check=True)
        more = ["--no-build-isolation", "--use-pep517", "--constraint", str(pins), "--editable"]
        subprocess.run([*pip, *more, ".[dev]"], cwd=ROOT, check=True)
        (FOLDER / name / ".stamp").touch()
    left = [f"--ignore={one}" for one in LEFT_OUT]
    pytest = [str(programs / "python"), "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile"]
    return "failed" if subprocess.run([*pytest, *left, *TESTS], cwd=ROOT).returncode else "passed"


def pinned(oldest: bool) -> Iterator[str]:
    """The versions of the lock; of pyarrow the lower bound of pyproject.toml where it is asked for,
    as that is what other packages of an environment hold back.
    """
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    # With their markers: the lock names some packages once per version of Python.
    for line in re.findall(r"^([\w.-]+==.*\S) *\\$", text, re.MULTILINE):
        if not (oldest and line.startswith("pyarrow==")):
            yield line
    if oldest:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        (bound,) = (one for one in map(LOWEST.fullmatch, project["dependencies"]) if one)
        yield f"pyarrow=={bound[1]}"


def found(version: str) -> str | None:
    """The interpreter of a version, such as 3.12."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    every = [shutil.which(f"python{version}")]
    for folder in (".pyenv/versions", ".local/share/uv/python"):
        every += map(str, sorted(Path.home().glob(f"{folder}/*{version}.*/bin/python{version}")))
    # One of pyenv's shims may be there for a version that is not chosen.
    return next((one for one in every if one and works(one)), None)


def works(python: str) -> bool:
    """Whether an interpreter starts."""
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
