"""The process of the `kraftlog` command; `python -m kraftlog` is the same."""

import os
import sys

from kraftlog import cli
from kraftlog.parts import leave_out_pandas


def main() -> int:
    """Run the command that this process was started with; returns the exit code."""
    # numpy's linear algebra starts a thread for each core, and has no work here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "run" not in sys.argv:
        leave_out_pandas()
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
