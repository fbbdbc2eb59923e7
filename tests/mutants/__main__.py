"""Change the code in one place, run the tests that reach it, and count the changes that none of
them notices: `make mutants`, or `python -m tests.mutants quorum --most 300`.

In: rooms or files, a seed, how many changes of each at most. Out: Markdown on stdout, a line for
each and what lived, with the reason where one is known (`reasons`). All runs in a copy of the
project below `.mutants/`, where what has been found is kept: the same command goes on where it was
stopped, and `--again` asks anew about what has lived.
"""

import argparse
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

PLACE = Path(".mutants").resolve()
sys.path.append(str(PLACE / "tools"))  # where `make mutants` installs mutmut

from tests.mutants.changes import changes  # noqa: E402
from tests.mutants.reasons import reason  # noqa: E402
from tests.mutants.rooms import COPIED, IGNORED, ROOMS, TESTS, UNCOPIED  # noqa: E402

NOT_JUDGED = {"unreached": "no test reaches it", "open": "time was up before all tests were asked"}
COPY, REACH, FATES = PLACE / "copy", PLACE / "reach", PLACE / "fates.jsonl"


def copied() -> None:
    """A fresh copy of the project."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    for name in COPIED:
        if Path(name).is_dir():
            shutil.copytree(name, COPY / name, ignore=shutil.ignore_patterns(*UNCOPIED))
        else:
            shutil.copy2(name, COPY / name)


def run(*arguments: str, told: str = "", out: int | None = None) -> None:
    """The runner, in the copy; what pytest says is kept beside it."""
    environment = os.environ | {
        "PYTHONPATH": f"{COPY}:{PLACE / 'tools'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "tests.mutants.runner", *arguments]
    with (PLACE / f"{arguments[0]}.log").open("w") as log:
        done = subprocess.run(
            command, cwd=COPY, env=environment, input=told, text=True, stdout=out or log,
            stderr=log, check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit((PLACE / f"{arguments[0]}.log").read_text()[-3000:])


def test_files() -> list[str]:
    """Every file of tests that may see a change."""
    found = (path for folder in TESTS for path in sorted((COPY / folder).glob("test_*.py")))
    return [str(one.relative_to(COPY)) for one in found if one.stem[5:] not in IGNORED]


def recorded(files: Iterable[str]) -> None:
    """Record which lines the tests reach, of the files that have changed since they were asked."""
    REACH.mkdir(exist_ok=True)
    due = [one for one in files if not _is_current(one)]
    if due:
        run("record", str(REACH), *due)
        for one in due:
            path = _reach(one)
            if not path.exists():
                continue  # none of its tests was chosen
            told = json.loads(path.read_text())
            told["digest"] = _digest([one, *told["lines"]])
            path.write_text(json.dumps(told))


def _is_current(file: str) -> bool:
    path = _reach(file)
    if not path.exists():
        return False
    told = json.loads(path.read_text())
    return bool(told.get("digest") == _digest([file, *told["lines"]]))


def _reach(file: str) -> Path:
    return REACH / (file.replace("/", ".") + ".json")


def _digest(files: Iterable[str]) -> str:
    """Of the texts of files and of what they import from the tests."""
    texts: dict[str, str] = {}
    waiting = list(files)
    while waiting:
        one = waiting.pop()
        if one in texts:
            continue
        texts[one] = (COPY / one).read_text() if (COPY / one).is_file() else ""
        if one.startswith("tests/"):
            named = re.findall(r"^(?:from|import) (tests\.[\w.]+)", texts[one], re.M)
            waiting += [f"{module.replace('.', '/')}{end}" for module in named
                        for end in (".py", "/__init__.py")]  # fmt: skip
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


def drawn(name: str, most: int, seed: int) -> tuple[int, list[str]]:
    """How many changes a room or a file has, and those that a seed draws of them. What is drawn
    stays drawn when other code changes, as each key has its own place in the order.
    """
    patterns = ROOMS.get(name, (name,))
    paths = [path for one in patterns for path in sorted(COPY.glob(one))]
    keys = [one.key for path in paths for one in changes(path.relative_to(COPY), COPY)]
    order = sorted(keys, key=lambda one: hashlib.sha256(f"{seed} {one}".encode()).digest())
    return len(keys), order[:most]


def judged(keys: Sequence[str], seconds: int, *, again: bool) -> dict[str, dict[str, object]]:
    """What became of each change."""
    known = _known()
    left = [one for one in keys if one not in known or _is_due(known[one], seconds, again=again)]
    if left:
        with FATES.open("a") as fates:
            run("judge", str(REACH), str(seconds), *test_files(), told="\n".join(left),
                out=fates.fileno())  # fmt: skip
    return _known()


def _is_due(told: dict[str, object], seconds: int, *, again: bool) -> bool:
    """Whether a change is asked about anew; what time did not suffice for, when there is more."""
    if told["fate"] == "open" and seconds > float(str(told["most"])):
        return True
    return again and told["fate"] in ("lived", "open", "unreached")


def _known() -> dict[str, dict[str, object]]:
    """The last that was told of each change; what a test without any change fails is forgotten."""
    lines = FATES.read_text().splitlines() if FATES.exists() else []
    found = [json.loads(line) for line in lines if line.startswith("{")]
    false = {one["false"] for one in found if "false" in one}
    return {one["key"]: one for one in found if "key" in one and one["by"] not in false}


def report(name: str, made: int, keys: Sequence[str], fates: dict[str, dict[str, object]]) -> None:
    """A line of the table."""
    ran = [fates[one] for one in keys if one in fates]
    ends = Counter(str(one["fate"]) for one in ran)
    seen = ends["killed"] + ends["timeout"]
    share = seen / max(len(ran), 1)
    error = 1.96 * math.sqrt(share * (1 - share) / max(len(ran), 1)) if len(ran) < made else 0
    cells = [f"{made:,}", len(ran), ends["killed"], ends["timeout"], ends["lived"], ends["open"],
             ends["unreached"], f"{100 * share:.1f} % ± {100 * error:.1f}"]  # fmt: skip
    print(f"| {name} | " + " | ".join(map(str, cells)) + " |")


def survivors(keys: Iterable[str], fates: dict[str, dict[str, object]]) -> Iterator[str]:
    """What lived, by place."""
    ran = [fates[one] for one in keys if one in fates]
    lived = [one for one in ran if one["fate"] in ("lived", "open", "unreached")]
    for one in sorted(lived, key=lambda one: (str(one["key"]).split(" ")[0], one["line"])):
        path, function = str(one["key"]).split(" ", 2)[:2]
        why = reason(str(one["key"])) or NOT_JUDGED.get(str(one["fate"]), "")
        yield f"- {path}:{one['line']} {function} `{one['old']}` → `{one['new']}` {why}".rstrip()


def main() -> None:
    """Copy, record, draw, judge, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="rooms or files; all rooms by default")
    parser.add_argument("--most", type=int, default=300, help="changes of each (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    parser.add_argument(
        "--seconds", type=int, default=20, help="of tests per change, as without it (20)"
    )
    parser.add_argument("--again", action="store_true", help="ask anew about what has lived")
    parser.add_argument("--told", action="store_true", help="tell what is known, run nothing")
    asked = parser.parse_args()
    names = asked.names or list(ROOMS)
    if not asked.told:
        copied()
        recorded(test_files())
    draws = {name: drawn(name, asked.most, asked.seed) for name in names}
    keys = [key for _, ones in draws.values() for key in ones]
    fates = _known() if asked.told else judged(keys, asked.seconds, again=asked.again)
    print("| place | changes | drawn | killed | by time | lived | open | not reached | noticed |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, (made, ones) in draws.items():
        report(name, made, ones, fates)
    print("", *survivors(keys, fates), sep="\n")


if __name__ == "__main__":
    main()
