"""What a command is: a declaration above the function that runs it, from which the parsers, the
help, the manual, completion and the pages are made; and the arguments that several commands take.

In: declarations. Out: parsers, and what they declare, for whoever writes it down in another form;
argparse's own layout is not used for that, as it differs between versions of Python. A command of a
command is declared by its whole name: plan restart.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from textwrap import dedent, indent
from types import ModuleType
from typing import Any

from kraftlog.config import Options, load_options, option_names
from kraftlog.plain import sentence

Arguments = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]
DESCRIBE_HELP = "saved output of kafka-metadata-quorum describe"


@dataclass(frozen=True, slots=True)
class Command:
    """What is typed, a line about it, all about it, its examples and what is told after them, and
    what it takes and does; `run` is None for one that has commands of its own, which `takes` names.
    """

    name: str
    line: str
    description: str
    epilog: str
    arguments: Arguments
    run: Run | None
    takes: str = ""


def _none(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def command(
    name: str,
    line: str,
    description: str = "",
    *,
    examples: str,
    note: str = "",
    arguments: Arguments = _none,
) -> Callable[[Run], Command]:
    """Declare the command that the function which follows runs; it returns an exit code. Without a
    description the line stands for it.
    """
    return lambda run: Command(
        name, line, description or f"{sentence(line)}.", _epilog(examples, note), arguments, run
    )


def family(name: str, line: str, description: str, *, examples: str, takes: str) -> Command:
    """Declare a command that has commands of its own."""
    return Command(name, line, description, _epilog(examples), _none, None, takes)


def _epilog(examples: str, note: str = "") -> str:
    told = indent(dedent(examples).strip("\n"), "  ")
    return f"examples:\n{told}\n" + (f"\n{note}\n" if note else "")


class Formatter(argparse.HelpFormatter):
    """Fills a text of one line, and leaves one that was laid out in lines as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text.strip() else super()._fill_text(text, width, indent)


def commands_in(module: ModuleType) -> list[Command]:
    """The commands of a module, in the order of their declarations."""
    return [one for one in vars(module).values() if isinstance(one, Command)]


def add_commands(commands: "argparse._SubParsersAction[Any]", declared: Iterable[Command]) -> None:
    """Add the parsers of commands, a family before its own."""
    families = {"": commands}
    for one in declared:
        of, _, name = one.name.rpartition(" ")
        parser = families[of].add_parser(
            name,
            help=one.line,
            description=one.description,
            epilog=one.epilog,
            formatter_class=Formatter,
        )
        one.arguments(parser)
        if one.run is None:
            families[one.name] = parser.add_subparsers(required=True, metavar=one.takes)
        else:
            parser.set_defaults(command=one.run, parser=parser)


def add_format(parser: argparse.ArgumentParser) -> None:
    what = "table for people, json for scripts: one object a line"
    parser.add_argument("--format", choices=("table", "json"), default="table", help=what)


def add_output(parser: argparse.ArgumentParser) -> None:
    add_format(parser)
    parser.add_argument("--reveal-secrets", action="store_true", help="do not mask secrets")


def add_roots(parser: argparse._ActionsContainer, *, required: bool = False) -> None:
    """`--input`: the folders that replicas are looked for in; all of them, where it is repeated."""
    parser.add_argument(
        "--input",
        nargs="+",
        action="extend",
        required=required,
        metavar="ROOT",
        help="folders with replicas",
    )


def add_input(parser: argparse.ArgumentParser) -> None:
    """Add what most commands over copies take: `--input`, `--quorum-describe`, `--format`."""
    add_roots(parser, required=True)
    parser.add_argument("--quorum-describe", metavar="FILE", help=DESCRIBE_HELP)
    add_format(parser)


def options_of(chosen: argparse.Namespace) -> Options:
    """The options that the arguments of a command without `--conf` name."""
    given = vars(chosen)
    return load_options({name: given[name] for name in option_names() if name in given})


def every_parser(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its commands, and of theirs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from every_parser(inner)


def own_arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """A parser's arguments, without those that every program has."""
    for one in parser._actions:
        if not isinstance(one, argparse._HelpAction | argparse._VersionAction):
            yield one


def argument_text(action: argparse.Action) -> str:
    """An argument as a person writes it: --input ROOT …"""
    name = action.option_strings[-1] if action.option_strings else ""
    if action.nargs == 0:
        return name
    shown = action.metavar or action.dest.upper()
    names = shown if isinstance(shown, str) else " ".join(shown)
    value = "|".join(map(str, action.choices or ())) or names
    if isinstance(action, argparse._SubParsersAction):
        value = str(action.metavar or "COMMAND")
    more = " …" if action.nargs in ("+", "*") else ""
    return f"{name} {value}{more}".strip()
