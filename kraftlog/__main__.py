"""The process of the `kraftlog` command; `python -m kraftlog` is the same."""

import os
import signal
import sys

SETTINGS = {
    # numpy's linear algebra starts a thread for each core, and has no work here.
    "OPENBLAS_NUM_THREADS": "1",
    # Arrow's own pool gives memory back to the system sooner, and asks for it again.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""What libraries are told by the environment, where it does not say otherwise."""


def main() -> int:
    """Run the command that this process was started with; returns the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _ended)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from kraftlog import cli
    from kraftlog.extras import leave_out

    # pyarrow imports it at its first array, which takes longer than most answers, and uses it for
    # frames alone: those of Spark Connect, and of contracts, which have a process of their own.
    leave_out("pandas")
    return cli.main()


def _ended(number: int, frame: object) -> None:
    # Before there is work, and after it, nothing has to be put in order; a library that is being
    # imported might take an exception for its own.
    os._exit(130)


if __name__ == "__main__":
    # `python -m` looks for modules in the folder in which it was started, and first of all: copies
    # of a broken machine's disks may hold a json.py.
    if not sys.flags.safe_path and __file__ != f"{sys.path[0]}/kraftlog/__main__.py":
        del sys.path[0]
    sys.exit(main())
