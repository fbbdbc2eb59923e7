"""Runs tests once per mutant, each in a fork of a process that has imported everything.

In: on the command line, how many at a time, the modules whose mutants need a process of their own
(with commas between them), pytest's expression `-k`, and files of tests, the quick ones first; on
stdin, a mutant's name per line. Out: on stdout, a JSON line per mutant: its name and what became
of it. It runs inside the copy that mutmut has written, where the environment says which mutant is
alive.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

ARGUMENTS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0")
KILLED, TIMED_OUT, LIVED = "killed", "timeout", "lived"
PASSED = {0, 5}
"""What pytest says where no test failed; 5: none of a file was chosen."""


class Tests(NamedTuple):
    """Which tests are run, and how."""

    arguments: list[str]
    files: list[str]


def run(names: list[str], jobs: int, apart: list[str], tests: Tests) -> Iterator[tuple[str, str]]:
    """(mutant, what became of it) as they end. Time is the processor's: a busy machine kills none.

    Raises SystemExit where the tests fail without any mutant.
    """
    pytest.main([*tests.arguments, *tests.files, "--collect-only"])
    before = os.times()
    if os.waitstatus_to_exitcode(os.waitpid(_start("", tests, 3600), 0)[1]):
        raise SystemExit("the tests fail without any mutant")
    after = os.times()
    used = after.children_user + after.children_system
    limit = 20 + round(4 * (used - before.children_user - before.children_system))
    for name in names:
        if _module(name) in apart:
            yield name, _afresh(name, tests, limit)
    running: dict[int, str] = {}
    waiting = [name for name in reversed(names) if _module(name) not in apart]
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop()
            running[_start(name, tests, limit)] = name
        child, status = os.waitpid(-1, 0)
        yield running.pop(child), _fate(os.waitstatus_to_exitcode(status))


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _start(name: str, tests: Tests, limit_seconds: int) -> int:
    """A fork that runs file after file until one fails: to collect them all takes longer than most
    mutants live.
    """
    child = os.fork()
    if child == 0:
        _silent()
        resource.setrlimit(resource.RLIMIT_CPU, (limit_seconds, limit_seconds + 5))
        os.environ["MUTANT_UNDER_TEST"] = name
        codes = (int(pytest.main([*tests.arguments, one])) for one in tests.files)
        os._exit(next((code for code in codes if code not in PASSED), 0))
    return child


def _silent() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(nothing, handle)


def _afresh(name: str, tests: Tests, limit_seconds: int) -> str:
    """One whose function is called when its module is imported: in processes of its own."""
    for file in tests.files:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *tests.arguments, file],
            env=os.environ | {"MUTANT_UNDER_TEST": name},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_CPU, (limit_seconds, limit_seconds + 5)
            ),
        )
        if done.returncode not in PASSED:
            return _fate(done.returncode)
    return LIVED


def _fate(code: int) -> str:
    if code == pytest.ExitCode.USAGE_ERROR:
        raise SystemExit("pytest could not begin")
    return LIVED if code == 0 else TIMED_OUT if code < 0 else KILLED


if __name__ == "__main__":
    begun = time.monotonic()
    mutants, modules = sys.stdin.read().split(), sys.argv[2].split(",")
    chosen = Tests([*ARGUMENTS, "-k", sys.argv[3]], sys.argv[4:])
    for mutant, fate in run(mutants, int(sys.argv[1]), modules, chosen):
        seconds = round(time.monotonic() - begun)
        print(json.dumps({"mutant": mutant, "fate": fate, "after_seconds": seconds}), flush=True)
