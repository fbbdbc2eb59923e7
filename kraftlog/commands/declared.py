"""What the parsers declare, for whoever writes it down in another form: pages, a manual, scripts.

In: parsers. Out: their commands and arguments. argparse's own layout is not used, as it differs
between versions of Python.
"""

import argparse
from collections.abc import Iterator


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


def called(action: argparse.Action) -> str:
    """An argument as a person writes it: --input ROOT …"""
    name = action.option_strings[-1] if action.option_strings else ""
    if action.nargs == 0:
        return name
    value = "|".join(map(str, action.choices or ())) or str(action.metavar or action.dest.upper())
    if isinstance(action, argparse._SubParsersAction):
        value = str(action.metavar or "COMMAND")
    more = " …" if action.nargs in ("+", "*") else ""
    return f"{name} {value}{more}".strip()
