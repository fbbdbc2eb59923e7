"""Runs tests once per mutant, each in a fork of a process that has imported everything.

In: on the command line, how many at a time, the modules whose mutants need a process of their own
(with commas between them), and pytest's arguments; on stdin, a mutant's name per line. Out: on
stdout, a JSON line per mutant: its name and what became of it. It runs inside the copy that mutmut
has written, where the environment says which mutant is alive.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

KILLED, TIMED_OUT, LIVED = "killed", "timeout", "lived"
USAGE = {4, 5}
"""What pytest says where it could not even begin."""


def run(
    names: list[str], jobs: int, apart: list[str], arguments: list[str]
) -> Iterator[tuple[str, str]]:
    """(mutant, what became of it) as they end. Time is the processor's: a busy machine kills none.

    Raises SystemExit where the tests fail without any mutant.
    """
    pytest.main([*arguments, "--collect-only", "-q"])
    before = os.times()
    if os.waitstatus_to_exitcode(os.waitpid(_start("", arguments, 3600), 0)[1]):
        raise SystemExit("the tests fail without any mutant")
    after = os.times()
    used = after.children_user + after.children_system
    limit = 20 + round(4 * (used - before.children_user - before.children_system))
    running: dict[int, str] = {}
    waiting = list(reversed(names))
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop()
            running[_start(name, arguments, limit)] = name
        child, status = os.waitpid(-1, 0)
        name, code = running.pop(child), os.waitstatus_to_exitcode(status)
        lived_by_fork = code == 0 and name.rpartition(".")[0] in apart
        yield name, _afresh(name, arguments, limit) if lived_by_fork else _fate(code)


def _start(name: str, arguments: list[str], limit_seconds: int) -> int:
    child = os.fork()
    if child == 0:
        _silent()
        resource.setrlimit(resource.RLIMIT_CPU, (limit_seconds, limit_seconds + 5))
        os.environ["MUTANT_UNDER_TEST"] = name
        os._exit(int(pytest.main(arguments)))
    return child


def _silent() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)


def _afresh(name: str, arguments: list[str], limit_seconds: int) -> str:
    """Once more for one that lived, in a process of its own: what a declaration calls when its
    module is imported shows only there.
    """
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        env=os.environ | {"MUTANT_UNDER_TEST": name},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_CPU, (limit_seconds + 10, limit_seconds + 15)
        ),
    )
    return _fate(done.returncode)


def _fate(code: int) -> str:
    if code in USAGE:
        raise SystemExit(f"pytest could not begin: exit code {code}")
    return LIVED if code == 0 else TIMED_OUT if code < 0 else KILLED


if __name__ == "__main__":
    begun = time.monotonic()
    chosen, modules = sys.stdin.read().split(), sys.argv[2].split(",")
    for mutant, fate in run(chosen, int(sys.argv[1]), modules, sys.argv[3:]):
        seconds = round(time.monotonic() - begun)
        print(json.dumps({"mutant": mutant, "fate": fate, "after_seconds": seconds}), flush=True)
