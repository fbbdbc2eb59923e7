"""The process of the `kraftlog` command; `python -m kraftlog` is the same."""

import os
import sys

from kraftlog import cli
from kraftlog.parts import leave_out


def main() -> int:
    """Run the command that this process was started with; returns the exit code."""
    # numpy's linear algebra starts a thread for each core, and has no work here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's own pool gives memory back to the system sooner, and asks for it again.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # pyarrow imports it at its first array, which takes longer than most answers, and uses it for
    # frames alone: those of Spark Connect, and of contracts, which have a process of their own.
    leave_out("pandas")
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
