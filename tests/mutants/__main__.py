"""Change the code in one place, run the tests that should see it, and count the changes that none
of them notices: `make mutants`, or `python -m tests.mutants state metrics --most 20`.

In: rooms, a seed, how many mutants of each module at most. Out: Markdown on stdout, a line per
module and the survivors. mutmut makes the mutants in a copy of the project below `.mutants/`; here
they are drawn, run (`runner`) and counted. Left out are those that change only the words of a
sentence. What a run has found is kept in the copy: the same command goes on where it was stopped.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tests.mutants.rooms import ROOMS, Room

PLACE = Path(".mutants")
COPIED = ("kraftlog", "tests", "schemas", "conf", "jobs", "examples", "README.md", "CHANGELOG.md",
          "pyspark_kraftlog.py")  # fmt: skip
SETTINGS = """
[tool.mutmut]
source_paths = ["kraftlog"]
also_copy = {copied}
only_mutate = {chosen}
"""
MAKE = """
from mutmut.__main__ import *
Path("mutants").mkdir()
copy_src_dir()
copy_also_copy_files()
create_mutants(2)
"""


@dataclass(frozen=True)
class Mutant:
    """One change: its name, its module, and the lines that it takes away and puts in."""

    name: str
    module: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def is_wording(self) -> bool:
        """Whether only the words of a sentence change: a text with a blank, its case, an XX."""
        if len(self.before) != len(self.after):
            return False
        pairs = zip(self.before, self.after, strict=True)
        same = all(old.casefold() == new.casefold().replace("xx", "") for old, new in pairs)
        return same and any(" " in text for line in self.before for text in _texts(line))


def _texts(line: str) -> Iterator[str]:
    try:
        tree = ast.parse(line.strip().rstrip(":"))
    except SyntaxError:  # half a statement
        yield from (part for quote in "'\"" for part in line.split(quote)[1::2])
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def mutants(copy: Path) -> Iterator[Mutant]:
    """Every mutant that mutmut has made, in the order of modules and places."""
    for meta in sorted((copy / "mutants" / "kraftlog").rglob("*.py.meta")):
        names = json.loads(meta.read_text())["exit_code_by_key"]
        if names:
            lines = dict(_functions(meta.with_suffix("")))
            module = str(meta.relative_to(copy / "mutants").with_suffix("").with_suffix(""))
            yield from (_mutant(name, module, lines) for name in names)


def _functions(path: Path) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name:
            yield node.name, [line for one in node.body for line in ast.unparse(one).splitlines()]


def _mutant(name: str, module: str, lines: dict[str, list[str]]) -> Mutant:
    function = name.rsplit(".", 1)[-1]
    old, new = lines[function.rsplit("__mutmut_", 1)[0] + "__mutmut_orig"], lines[function]
    first = _equal_until(old, new)
    last = min(_equal_until(old[::-1], new[::-1]), min(len(old), len(new)) - first)
    return Mutant(
        name, module, tuple(old[first : len(old) - last]), tuple(new[first : len(new) - last])
    )


def _equal_until(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def prepare(copy: Path, room: Room) -> None:
    """A copy of the project, with every mutant of a room; nothing where it is there already."""
    if (copy / "made").exists():
        return
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in COPIED:
        if Path(name).is_dir():
            shutil.copytree(name, copy / name)
        else:
            shutil.copy2(name, copy / name)
    settings = SETTINGS.format(copied=list(COPIED), chosen=list(room.changed))
    (copy / "pyproject.toml").write_text(Path("pyproject.toml").read_text() + settings)
    made = subprocess.run(
        [sys.executable, "-c", MAKE], cwd=copy, env=environment(copy), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        raise SystemExit(made.stderr)
    (copy / "made").touch()


def environment(copy: Path) -> dict[str, str]:
    """Where mutmut and the changed code are found."""
    return os.environ | {"PYTHONPATH": f"{(copy / 'mutants').resolve()}:{tools()}"}


def tools() -> Path:
    """Where `make mutants` installs mutmut."""
    return (PLACE / "tools").resolve()


def draw(every: Iterable[Mutant], most: int, seed: int) -> list[Mutant]:
    """At most so many mutants of each module, drawn with a seed; wording is left out. One of each
    module comes first, so that a run which is stopped has looked at all of them alike.
    """
    by_module: dict[str, list[Mutant]] = {}
    for one in every:
        if not one.is_wording:
            by_module.setdefault(one.module, []).append(one)
    drawn = [
        random.Random(f"{seed} {module}").sample(ones, min(most, len(ones)))
        for module, ones in by_module.items()
    ]
    return [one for row in zip_longest(*drawn) for one in row if one is not None]


def run(copy: Path, room: Room, drawn: Sequence[Mutant], jobs: int) -> dict[str, str]:
    """What becomes of each mutant, by name."""
    known = _known(copy)
    left = [one.name for one in drawn if one.name not in known]
    if left:
        asked = [str(jobs), ",".join(room.imported), room.chosen, *room.tests]
        command = [sys.executable, "-m", "tests.mutants.runner", *asked]
        with (copy / "fates.jsonl").open("a") as fates, (copy / "run.log").open("w") as log:
            done = subprocess.run(
                command, cwd=copy / "mutants", env=environment(copy), input="\n".join(left),
                text=True, stdout=fates, stderr=log, check=False,
            )  # fmt: skip
        if done.returncode:
            raise SystemExit((copy / "run.log").read_text())
    return _known(copy)


def _known(copy: Path) -> dict[str, str]:
    path = copy / "fates.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return {one["mutant"]: one["fate"] for one in found}


def report(every: Sequence[Mutant], drawn: Sequence[Mutant], fates: dict[str, str]) -> None:
    """A line per module, then the survivors."""
    made = Counter(one.module for one in every)
    words = Counter(one.module for one in every if one.is_wording)
    ran = [one for one in drawn if one.name in fates]
    print("\n| module | mutants | wording | drawn | killed | by timeout | lived |")
    print("|---|---|---|---|---|---|---|")
    for module, count in Counter(one.module for one in ran).items():
        ends = Counter(fates[one.name] for one in ran if one.module == module)
        cells = [made[module], words[module], count, *map(ends.get, ("killed", "timeout", "lived"))]
        print(f"| {module} | " + " | ".join(str(one or 0) for one in cells) + " |")
    lived = [one for one in ran if fates[one.name] == "lived"]
    share = 100 * (1 - len(lived) / max(len(ran), 1))
    print(f"\n{len(ran) - len(lived):,} of {len(ran):,} noticed: {share:.1f} %\n")
    for one in lived:
        print(f"{one.name}\n```diff")
        print(*(f"- {line}" for line in one.before), sep="\n")
        print(*(f"+ {line}" for line in one.after), "```\n", sep="\n")


def main() -> None:
    """Draw, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], help="all of them by default")
    parser.add_argument("--most", type=int, default=20, help="mutants per module (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    for name in asked.rooms or ROOMS:
        copy, room = PLACE / name, ROOMS[name]
        prepare(copy, room)
        every = list(mutants(copy))
        drawn = draw(every, asked.most, asked.seed)
        report(every, drawn, run(copy, room, drawn, asked.jobs))


if __name__ == "__main__":
    main()
