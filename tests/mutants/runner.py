"""Runs tests once per mutant, each in a fork of a process that has collected them all.

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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

import pytest

ARGUMENTS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0")
KILLED, TIMED_OUT, LIVED = "killed", "timeout", "lived"


@dataclass
class Forks:
    """A plugin of pytest: what it has collected is run in a fork per mutant. Time is the
    processor's: a busy machine kills none.
    """

    names: Sequence[str]
    jobs: int
    told: TextIO
    is_child: bool = False
    limit_seconds: int = 3600

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """True where the parent has nothing left to run; None goes on to pytest's own loop.

        Raises SystemExit where the tests fail without any mutant.
        """
        if self._fork(""):
            _, status, used = os.wait4(-1, 0)
            if status:
                raise SystemExit("the tests fail without any mutant")
            self.limit_seconds = 20 + round(4 * (used.ru_utime + used.ru_stime))
        running: dict[int, str] = {}
        waiting = list(reversed(self.names))
        while not self.is_child and (waiting or running):
            if waiting and len(running) < self.jobs:
                name = waiting.pop()
                running[self._fork(name)] = name
            else:
                child, status = os.waitpid(-1, 0)
                tell(self.told, running.pop(child), os.waitstatus_to_exitcode(status))
        if self.is_child:
            words = _words(_module(os.environ["MUTANT_UNDER_TEST"]))
            session.items.sort(key=lambda one: not any(word in one.nodeid for word in words))
            return None
        return True

    def _fork(self, name: str) -> int:
        child = os.fork()
        if child == 0:
            self.is_child = True
            resource.setrlimit(resource.RLIMIT_CPU, (self.limit_seconds, self.limit_seconds + 5))
            os.environ["MUTANT_UNDER_TEST"] = name
        return child


def tell(file: TextIO, name: str, code: int) -> None:
    """A line of what became of a mutant, by the exit code of its tests."""
    fate = LIVED if code == 0 else TIMED_OUT if code < 0 else KILLED
    print(json.dumps({"mutant": name, "fate": fate}), file=file, flush=True)


def afresh(name: str, arguments: Sequence[str]) -> int:
    """The exit code of the tests in a process of their own: for a function that is called when its
    module is imported.
    """
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        env=os.environ | {"MUTANT_UNDER_TEST": name},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    ).returncode


def main() -> None:
    """Run what stdin names."""
    jobs, modules, chosen, *files = sys.argv[1:]
    apart = set(modules.split(","))
    arguments = [*ARGUMENTS, "-k", chosen, *files]
    names = sys.stdin.read().split()
    with os.fdopen(os.dup(1), "w") as told:
        os.dup2(2, 1)  # pytest's own words do not mix with the results
        forks = Forks([one for one in names if _module(one) not in apart], int(jobs), told)
        code = pytest.main(arguments, plugins=[forks])
        if forks.is_child:
            os._exit(int(code))
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            sys.exit(int(code))
        for one in names:
            if _module(one) in apart:
                tell(told, one, afresh(one, arguments))


def _module(name: str) -> str:
    return name.rpartition(".")[0]


def _words(module: str) -> set[str]:
    """What the names of tests hold that have to do with a module: its own name, or its checks'."""
    checks = getattr(sys.modules.get(module), "CHECKS", ())
    return {one.name for one in checks} | {module.rpartition(".")[2]} - {""}


if __name__ == "__main__":
    main()
