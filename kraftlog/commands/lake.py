"""`lake check|compact|expire`: whether a lake is whole, and keeping it small.

A run does all of it by itself; these are for lakes that other tools have touched, and for those who
want to see.
"""

import argparse
from typing import Any

from kraftlog.commands.local import local_path
from kraftlog.config import Options, load_options
from kraftlog.pipeline.arguments import add_options

_WRITES = frozenset({"lake", "lease_seconds", "wait_seconds"})
_ENOUGH = 2
"""So many small files of one table become one, where it is asked for."""


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `lake` with its three."""
    parser = commands.add_parser(
        "lake",
        help="check a lake, keep it small",
        description="Check a lake, or keep its files and versions few. Runs do the same as they "
        "go; nothing here reads an input.",
    )
    inner = parser.add_subparsers(required=True, metavar="WHAT")
    for name, function, own, told in (
        (
            "check",
            _check,
            {"lake", "verify"},
            "name what is damaged or missing; --verify reads every page",
        ),
        ("compact", _compact, _WRITES, "make one file of small ones that lie together"),
        (
            "expire",
            _expire,
            _WRITES | {"keep_runs", "keep_rows"},
            "delete versions and rows of runs before the last --keep-runs and --keep-rows",
        ),
    ):
        one = inner.add_parser(name, help=told, description=told[0].upper() + told[1:] + ".")
        one.add_argument("--conf", type=local_path, metavar="FILE", help="options as TOML")
        add_options(one, only=frozenset(own))
        one.set_defaults(command=function, own=frozenset(own))


def _options(chosen: argparse.Namespace) -> Options:
    given = {name: getattr(chosen, name) for name in chosen.own}
    return load_options(given, chosen.conf)


def _check(chosen: argparse.Namespace) -> int:
    """0 for a lake without damage, 1 for one that the next run has to mend."""
    from kraftlog.pipeline.keeping import check

    lines = check(_options(chosen))
    for line in lines.damaged:
        print(line)
    print(lines.summary)
    return 1 if lines.damaged else 0


def _compact(chosen: argparse.Namespace) -> int:
    from kraftlog.pipeline.keeping import compact_lake

    print(compact_lake(_options(chosen), _ENOUGH))
    return 0


def _expire(chosen: argparse.Namespace) -> int:
    from kraftlog.pipeline.keeping import expire_lake

    print(expire_lake(_options(chosen)))
    return 0
