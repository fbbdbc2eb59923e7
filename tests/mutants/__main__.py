"""Change the code in one place, run the tests that reach it, and count the changes that none of
them notices: `make mutants`, or `python -m tests.mutants kraftlog/state --most 100`.

In: rooms or modules, a seed, how many mutants of each module at most. Out: a line per module and
per survivor on stdout. mutmut makes and runs the mutants in a copy of the project below
`.mutants/`; here they are drawn, and those are left out that change only the words of a sentence.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PLACE = Path(".mutants")
COPIED = ("kraftlog", "tests", "schemas", "conf", "jobs", "examples", "README.md",
          "pyspark_kraftlog.py")  # fmt: skip
ARGUMENTS = (
    "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0",
    # It reads the source, which mutmut has rewritten.
    "-k", "not every_rule_has",
    # These ask for files beside the copy, or for rooms that are never changed here.
    "--ignore=tests/unit/test_reference.py", "--ignore=tests/unit/test_imports.py",
    "--ignore=tests/unit/test_session.py", "--ignore=tests/unit/test_contracts.py",
    "--ignore=tests/property/test_engines.py", "--ignore=tests/property/test_slices.py",
)  # fmt: skip
KILLED, TIMED_OUT = {1, 3}, {36, -24, 24, 152, 255}
SETTINGS = """
[tool.mutmut]
source_paths = ["kraftlog"]
also_copy = {copied}
only_mutate = {chosen}
process_isolation = "forkserver"
timeout_multiplier = 4.0
timeout_constant = 5.0
use_git_change_detection = false
pytest_add_cli_args = {arguments}
pytest_add_cli_args_test_selection = {tests}
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
        pairs = list(zip(self.before, self.after, strict=False))
        told = [(old.casefold(), new.casefold().replace("xx", "")) for old, new in pairs]
        same = len(self.before) == len(self.after) and all(old == new for old, new in told)
        texts = [
            node.value
            for line in self.before
            for node in _strings(line)
            if isinstance(node.value, str)
        ]
        return same and any(" " in one for one in texts)


def _strings(line: str) -> Iterator[ast.Constant]:
    try:
        tree = ast.parse(line.strip().rstrip(":"))
    except SyntaxError:
        tree = ast.parse("'a line that is no statement of its own'")
    return (node for node in ast.walk(tree) if isinstance(node, ast.Constant))


def mutants(copy: Path) -> list[Mutant]:
    """Every mutant that mutmut has made, in the order of modules and places."""
    found = []
    for meta in sorted((copy / "mutants" / "kraftlog").rglob("*.py.meta")):
        names = json.loads(meta.read_text())["exit_code_by_key"]
        if names:
            lines = dict(_functions(meta.with_suffix("")))
            module = str(meta.relative_to(copy / "mutants").with_suffix("").with_suffix(""))
            found += [_mutant(name, module, lines) for name in names]
    return found


def _functions(path: Path) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and "__mutmut_" in node.name:
            yield node.name, [line for one in node.body for line in ast.unparse(one).splitlines()]


def _mutant(name: str, module: str, lines: dict[str, list[str]]) -> Mutant:
    function = name.rsplit(".", 1)[-1]
    new = lines[function]
    old = lines[function.rsplit("__mutmut_", 1)[0] + "__mutmut_orig"]
    first = next((i for i, pair in enumerate(zip(old, new, strict=False)) if len(set(pair)) > 1), 0)
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    return Mutant(
        name, module, tuple(old[first : len(old) - last]), tuple(new[first : len(new) - last])
    )


def prepare(copy: Path, chosen: Sequence[str], tests: Sequence[str]) -> None:
    """A copy of the project beside mutmut's settings; what an earlier run found is kept."""
    copy.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        shutil.rmtree(copy / name, ignore_errors=True)
        copier = shutil.copytree if Path(name).is_dir() else shutil.copy2
        copier(name, copy / name)
    patterns = [one if one.endswith(".py") else f"{one}/*" for one in chosen]
    settings = SETTINGS.format(
        copied=list(COPIED),
        chosen=patterns,
        tests=list(tests),
        arguments=list(ARGUMENTS),
    )
    (copy / "pyproject.toml").write_text(Path("pyproject.toml").read_text() + settings)


def mutmut(copy: Path, *arguments: str) -> int:
    """Run mutmut in the copy."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PYTHONPATH"] = str((PLACE / "tools").resolve())
    command = [sys.executable, "-m", "mutmut", "run", *arguments]
    with (PLACE / f"{copy.name}.log").open("a") as log:
        return subprocess.run(
            command, cwd=copy, env=environment, stdout=log, stderr=log, check=False
        ).returncode


def draw(every: Sequence[Mutant], most: int, seed: int) -> list[Mutant]:
    """At most so many mutants of each module, drawn with a seed; wording is left out."""
    by_module: dict[str, list[Mutant]] = {}
    for one in every:
        if not one.is_wording:
            by_module.setdefault(one.module, []).append(one)
    drawn = []
    for module, ones in by_module.items():
        chance = random.Random(f"{seed} {module}")
        drawn += chance.sample(ones, min(most, len(ones)))
    return drawn


def report(copy: Path, drawn: Sequence[Mutant], every: Sequence[Mutant]) -> None:
    """A line per module, then a block per survivor."""
    results: dict[str, int | None] = {}
    for meta in (copy / "mutants" / "kraftlog").rglob("*.py.meta"):
        results |= json.loads(meta.read_text())["exit_code_by_key"]
    made, words = Counter(one.module for one in every), Counter[str]()
    words.update(one.module for one in every if one.is_wording)
    tried = Counter(one.module for one in drawn)
    ended = {kind: Counter[str]() for kind in ("killed", "timeout", "lived", "not run")}
    for one in drawn:
        ended[_fate(results[one.name])][one.module] += 1
    print("| module | mutants | wording | drawn | killed | by timeout | lived |")
    print("|---|---|---|---|---|---|---|")
    for module, count in tried.items():
        fates = [ended[kind][module] for kind in ("killed", "timeout", "lived")]
        cells = [module, made[module], words[module], count, *fates]
        print("| " + " | ".join(map(str, cells)) + " |")
    noticed = ended["killed"].total() + ended["timeout"].total()
    ran = noticed + ended["lived"].total()
    print(f"\n{noticed:,} of {ran:,} noticed: {100 * noticed / max(ran, 1):.1f} %\n")
    for one in drawn:
        if _fate(results[one.name]) == "lived":
            print(one.name, *(f"  - {line}" for line in one.before), sep="\n")
            print(*(f"  + {line}" for line in one.after), sep="\n")


def _fate(code: int | None) -> str:
    if code is None:
        return "not run"
    return "killed" if code in KILLED else "timeout" if code in TIMED_OUT else "lived"


def main() -> int:
    """Draw, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("rooms", nargs="+", help="folders or modules, such as kraftlog/state")
    parser.add_argument("--most", type=int, default=40, help="mutants per module (default 40)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--name", default="all", help="of the copy, to run several side by side")
    parser.add_argument("--only-report", action="store_true")
    parser.add_argument(
        "--tests", nargs="+", default=["tests/unit", "tests/property", "tests/golden"]
    )
    asked = parser.parse_args()
    copy = PLACE / asked.name
    if not asked.only_report:
        prepare(copy, asked.rooms, asked.tests)
        # A name that no mutant has: mutmut makes them all, learns which test reaches which
        # function, and ends.
        mutmut(copy, "none")
    every = mutants(copy)
    drawn = draw(every, asked.most, asked.seed)
    if not asked.only_report:
        mutmut(copy, "--max-children", str(asked.jobs), *(one.name for one in drawn))
    report(copy, drawn, every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
