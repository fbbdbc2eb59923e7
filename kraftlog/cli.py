"""The command line: arguments → one command → an exit code.

Exit codes: 0 nothing at or above `--fail-on`; 1 findings at or above it; 2 the command could not do
its work, with one sentence on stderr and no stack trace. Rows go to stdout and nothing else does;
progress and messages go to stderr.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from kraftlog import __version__
from kraftlog.commands import manual
from kraftlog.commands.command import Formatter, add_commands, commands_in
from kraftlog.failures import DEBUG, guarded, without_choice, without_debug
from kraftlog.pipeline.arguments import OptionParser

COLOR = "--color"

_EXAMPLES = """examples:
  kraftlog run --input replicas/ --lake lake/        the whole pipeline, and a summary
  kraftlog audit --input replicas/ --report r.html   findings, and a page that shows them
  kraftlog records replicas/1 --type TOPIC_RECORD    decoded records of one copy
  kraftlog state replicas/1 --at 176                 the state before offset 176

exit codes:
  0    nothing at or above --fail-on
  1    findings at or above it
  2    the command could not do its work; one sentence on stderr says why
  130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words, debug = without_debug(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: _run(words), debug)


def _run(words: list[str]) -> int:
    from kraftlog.report.terminal import AUTO, COLORS, choose_color

    words, color = without_choice(words, COLOR, COLORS)
    choose_color(color or AUTO)
    parser = build_parser(words[0] if words else "")
    chosen, unknown = parser.parse_known_args(words)
    if unknown:
        chosen.parser.error(_unknown(unknown, chosen))
    code: int = chosen.command(chosen)
    return code


def _unknown(arguments: list[str], chosen: argparse.Namespace) -> str:
    """What is said of arguments that the command does not have."""
    said = f"unrecognized arguments: {' '.join(arguments)}"
    is_folder = not arguments[0].startswith("-")
    named = f" (a folder of replicas is named by --input {arguments[0]})"
    return said + named if is_folder and hasattr(chosen, "input") else said


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """All commands and their options, or those of one command alone; for those that look at one
    replica only their own family is imported: the others take longer than most of their answers.
    """
    parser = OptionParser(
        prog="kraftlog",
        description="Audit and analyse copies of Kafka's KRaft metadata logs.",
        epilog=_EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("--version", action="version", version=f"kraftlog {__version__}")
    what = "show the trace of a failure; may stand anywhere"
    parser.add_argument(DEBUG, action="store_true", default=argparse.SUPPRESS, help=what)
    parser.add_argument(
        COLOR,
        choices=("auto", "always", "never"),
        default=argparse.SUPPRESS,
        help="colours: on a terminal without NO_COLOR, always, or never; may stand anywhere",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    declared = [one for family in _families(command) for one in commands_in(family)]
    asked = [one for one in declared if one.name.partition(" ")[0] == command]
    add_commands(commands, asked or (*declared, *manual.about(parser)))
    return parser


def _families(command: str) -> tuple[ModuleType, ...]:
    """The modules that a command line needs."""
    for name in ("listing", "state"):
        family = import_module(f"kraftlog.commands.{name}")
        if command in [one.name for one in commands_in(family)]:
            return (family,)
    from kraftlog.commands import (
        audit,
        changes,
        explain,
        lake,
        listing,
        plan,
        plan_join,
        plan_replicas,
        pull,
        recover,
        settings,
        state,
    )

    looks = (audit, listing, state, explain, changes)
    plans = (plan, plan_join, plan_replicas)
    return *looks, recover, *plans, pull, lake, settings
