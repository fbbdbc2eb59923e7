"""The command line as two pages: every command with its arguments, as the parsers declare them, and
the options, of which `conf/kraftlog.toml` is the declaration; its comments are the text.

In: `cli.build_parser()`, the packaged TOML, the `Options` value. Out: Markdown, not argparse's own
layout, which differs between versions of Python.
"""

import argparse
import re
from collections.abc import Iterator
from typing import Literal, get_args, get_origin, get_type_hints

from kraftlog.cli import build_parser
from kraftlog.commands.command import argument_text, every_parser, own_arguments
from kraftlog.config import Options, option_texts, packaged_text
from kraftlog.reference.markdown import code, markdown_table, page

_INTRODUCTION = """
`kraftlog COMMAND --help` says the same. Rows go to stdout and nothing else does; progress and
messages go to stderr. Exit codes: 0 nothing at or above `--fail-on`, 1 findings at or above it,
2 the command could not do its work, with one sentence on stderr, 130 interrupted. What the options
of `run` and `audit` mean is in [options](options.md).
"""


def commands_page() -> str:
    """`reference/commands.md`."""
    blocks = []
    for parser in every_parser(build_parser()):
        blocks.append(f"## {parser.prog}")
        blocks += [text for text in (_described(parser), _usage(parser)) if text]
        arguments = list(_arguments(parser))
        if arguments:
            blocks.append(markdown_table(("argument", "default", "what for"), arguments))
        if parser.epilog:
            blocks.append(f"```text\n{parser.epilog.strip()}\n```")
    return page("Commands", _INTRODUCTION, *blocks)


def _described(parser: argparse.ArgumentParser) -> str:
    """The description; as it was laid out by hand where its parser keeps that layout."""
    text = parser.description or ""
    first, _, rest = text.strip().partition("\n\n")
    if not rest:
        return " ".join(first.split())
    return f"{' '.join(first.split())}\n\n```text\n{rest}\n```"


def _usage(parser: argparse.ArgumentParser) -> str:
    """The command with what it cannot do without."""
    words = [
        argument_text(one) for one in parser._actions if not one.option_strings or one.required
    ]
    optional = any(one.option_strings and not one.required for one in parser._actions)
    return code(" ".join([parser.prog, *words, *(["[OPTION …]"] if optional else [])]))


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, str]]:
    for one in own_arguments(parser):
        if isinstance(one, argparse._SubParsersAction):
            for choice in one._choices_actions:
                yield code(choice.dest), "", choice.help or ""
            continue
        given = one.default not in (None, False, argparse.SUPPRESS)
        yield code(argument_text(one)), code(one.default) if given else "", one.help or ""


_SECTION = re.compile(r"# --- (.+?) -+$")
_OPTION = re.compile(r"(\w+) = (.+)$")

_OPTIONS = """
An option may stand in a TOML file that `--conf FILE` names, or on the command line of
`kraftlog run`, `kraftlog audit` and every job as `--its-name VALUE`; the command line wins. The
data source takes the same names with `.option(…)`. An empty text means that the option is not
given.
"""


def options_page() -> str:
    """`reference/options.md`."""
    blocks: list[str] = []
    rows: list[tuple[str, str, str, str]] = []
    texts = option_texts()
    for line in packaged_text().splitlines():
        section, option = _SECTION.match(line), _OPTION.match(line)
        if section:
            blocks += [*_finished(rows), f"## {section[1]}"]
            rows = []
        elif option:
            name, default = option[1], option[2]
            rows.append((code(name), _kind(name), code(default), texts[name]))
    return page("Options", _OPTIONS, *blocks, *_finished(rows))


def _finished(rows: list[tuple[str, str, str, str]]) -> list[str]:
    return [markdown_table(("option", "type", "default", "what for"), rows)] if rows else []


def _kind(name: str) -> str:
    """The type of an option in words. Raises KeyError for one that `Options` does not have."""
    kind = get_type_hints(Options)[name]
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return "list of texts"
    plain = next(iter(get_args(kind)), kind)  # of `int | None` the first
    return {bool: "true or false", int: "whole number"}.get(plain, "text")
