"""Environments that hold exactly some packages: what a user has who installs no more than that.

The packages are links to those of the tests' own environment, with all that they require, so that
no network is needed; kraftlog itself is unpacked from its wheel, as `pip install --no-deps` does.
"""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PathDistribution, distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
AUDIT = ("blake3", "google_crc32c", "javaproperties", "numpy", "pyarrow", "rich")
"""The modules that reading, auditing, comparing and planning need, and no others."""


def built_wheel(folder: Path) -> Path:
    """kraftlog's wheel, as `make wheel` builds it."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def environment(folder: Path, wheel: Path, wanted: Iterable[str], *, copies: bool = False) -> Path:
    """The Python of a new environment with kraftlog, these packages, and what they require; copies
    instead of links, where the environment is to go elsewhere.
    """
    venv.create(folder, symlinks=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for name in closed(wanted):
        for source in _top_level(name):
            link = site / source.name
            if link.exists():
                continue
            if not copies:
                link.symlink_to(source)
            elif source.is_dir():
                shutil.copytree(source, link, ignore=shutil.ignore_patterns("__pycache__", "tests"))
            else:
                shutil.copy(source, link)
    return folder / "bin" / "python"


def required(wheel: Path, extra: str = "") -> set[str]:
    """The packages that kraftlog's wheel asks for: its plain ones, or an extra's own."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        folder = zipfile.Path(archive, name.removesuffix("METADATA"))
        wanted = PathDistribution(folder).requires or []  # type: ignore[arg-type]
    found = set[str]()
    for requirement in map(Requirement, wanted):
        marker = str(requirement.marker or "")
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        if applies and ("extra" in marker) == bool(extra) and requirement.name != "kraftlog":
            found.add(requirement.name)
    return found


def packages(*modules: str) -> list[str]:
    """The packages that bring some modules."""
    return [_distributions()[module][0].lower() for module in modules]


@cache
def _distributions() -> dict[str, list[str]]:
    return {name.lower(): list(held) for name, held in packages_distributions().items()}


def closed(wanted: Iterable[str]) -> set[str]:
    """The packages and everything that they require, by the names that they have on disk."""
    found, waiting = set[str](), list(wanted)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(_required_by(name))
    return found


@cache
def _required_by(name: str) -> tuple[str, ...]:
    wanted = map(Requirement, distribution(name).requires or [])
    nothing = {"extra": ""}
    return tuple(one.name for one in wanted if one.marker is None or one.marker.evaluate(nothing))


def _top_level(name: str) -> list[Path]:
    """The files and folders of a package that lie directly in site-packages."""
    found = distribution(name)
    tops = {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}
    return [Path(str(found.locate_file(top))) for top in sorted(tops)]


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder, without the PYTHONPATH of the tests."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=folder, env=inherited | variables, capture_output=True, text=True, timeout=600
    )
