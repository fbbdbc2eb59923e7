"""`python -m kraftlog` is the `kraftlog` command."""

import sys

from kraftlog.cli import main

if __name__ == "__main__":
    sys.exit(main())
