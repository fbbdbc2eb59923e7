"""Great Expectations in a process of its own: it takes seconds to import, and a run has other work
meanwhile, that does not wait for Python's lock.

In: a lake, a run and suites. Out: results. The process is started once, serves all runs of this one
in their order, and ends with it. Both speak in pickled objects over its standard input and output;
what Great Expectations prints goes to the standard error of both.
"""

import atexit
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import IO, NamedTuple

from kraftlog.contracts.suites import Suite
from kraftlog.errors import PlatformError
from kraftlog.extras import leave_out, put_off
from kraftlog.failures import in_short
from kraftlog.garbage import seldom_looked_for
from kraftlog.relations import Row
from kraftlog.tables.lake import Lake

_CUT = (EOFError, pickle.UnpicklingError)
"""What is read where the other side was killed before it wrote, or while it did."""


class _Asked(NamedTuple):
    environment: dict[str, str]
    root: str
    run_id: str
    number: int
    suites: Sequence[Suite]


class Judge:
    """The process, from the first call on."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def start(self) -> None:
        """Begin what takes seconds."""
        with self._lock:
            self._started()

    def judge(self, lake: Lake, run_id: str, number: int, suites: Sequence[Suite]) -> list[Row]:
        """What `run_contracts` says.

        Raises PlatformError where the process cannot judge, or has ended."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                _send(process.stdin, _Asked(dict(os.environ), lake.root, run_id, number, suites))
                found: list[Row] | str = pickle.load(process.stdout)
            except (*_CUT, BrokenPipeError) as error:
                process.communicate()  # its pipes are closed too, with what it did not take
                raise PlatformError(
                    f"the process that judges them ended with code {process.returncode}"
                ) from error
        if isinstance(found, str):
            raise PlatformError(found)
        return found

    def stop(self) -> None:
        """End it, whatever it is at."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            # Modules are found where this process finds them, not where it was started.
            path = os.pathsep.join(str(Path(one).absolute()) for one in sys.path)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,  # Ctrl-C is answered here
            )
        return self._process


JUDGE = Judge()
atexit.register(JUDGE.stop)


def _send(stream: IO[bytes], value: object) -> None:
    pickle.dump(value, stream)
    stream.flush()


def serve() -> None:
    """Answer what is asked on standard input until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with seldom_looked_for():
        lacks = _begin()
        while True:
            try:
                asked: _Asked = pickle.load(sys.stdin.buffer)
            except _CUT:
                return
            try:
                _send(answers, lacks or _answer(asked))
            except BrokenPipeError:  # who asked was killed
                os._exit(0)


def _begin() -> str | None:
    """Import what takes seconds, without what is not asked here: of Spark, of statistics and of
    drawings, which are half of it; why that cannot be.
    """
    leave_out("pyspark")
    put_off("scipy.stats", "altair")
    try:
        import kraftlog.contracts.judge  # noqa: F401
    except Exception as error:
        return in_short(error)
    return None


def _answer(asked: _Asked) -> list[Row] | str:
    from kraftlog.contracts.judge import run_contracts

    os.environ.clear()
    os.environ.update(asked.environment)  # how stores are reached may have changed
    try:
        return run_contracts(Lake(asked.root), asked.run_id, asked.number, asked.suites)
    except Exception as error:
        return in_short(error)


if __name__ == "__main__":
    serve()
