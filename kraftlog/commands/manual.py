"""`manual` and `completion`: the command line as a manual page, and as what shells complete.

In: the parsers. Out: roff for `man`, scripts for bash, zsh and fish (by shtab), on stdout.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence

from kraftlog import __version__
from kraftlog.commands.command import Command, argument_text, command, every_parser, own_arguments
from kraftlog.config import words_of
from kraftlog.message.catalogue import known_types

SHELLS = ("bash", "zsh", "fish")


def about(top: argparse.ArgumentParser) -> Iterator[Command]:
    """The two commands that tell of all others."""
    yield command(
        "completion",
        "print the script with which a shell completes commands and options",
        arguments=_arguments,
        examples="""
        kraftlog completion bash > ~/.local/share/bash-completion/completions/kraftlog
        kraftlog completion zsh > ~/.zfunc/_kraftlog
        kraftlog completion fish > ~/.config/fish/completions/kraftlog.fish
        """,
    )(lambda chosen: _print(completion(top, chosen.shell)))
    yield command(
        "manual",
        "print the manual page",
        "Print the manual page, as man reads it.",
        examples="kraftlog manual | man -l -",
    )(lambda chosen: _print(manual_page(top)))


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def _print(text: str) -> int:
    sys.stdout.write(text)
    return 0


def manual_page(top: argparse.ArgumentParser) -> str:
    """All commands as one page of the manual."""
    lines = [
        f'.TH KRAFTLOG 1 "" "kraftlog {__version__}" "User Commands"',
        ".SH NAME",
        _plain(f"kraftlog - {top.description}"),
        ".SH SYNOPSIS",
        ".B kraftlog",
        r"COMMAND [\fIOPTION\fR ...]",
        ".SH OPTIONS",
        *_options(top),
        ".SH COMMANDS",
    ]
    for parser in every_parser(top):
        if parser is not top:
            lines += [f".SS {_plain(parser.prog)}", *_paragraphs(parser.description or "")]
            lines += _options(parser)
            lines += _verbatim(parser.epilog or "")
    lines += [*_sections(top.epilog or ""), ".SH SEE ALSO", "The guides that come with kraftlog."]
    return "\n".join(lines) + "\n"


def completion(top: argparse.ArgumentParser, shell: str) -> str:
    """The script with which a shell completes commands and options."""
    import shtab

    for parser in every_parser(top):
        for action in own_arguments(parser):
            action.choices = action.choices or _words(action.dest) or None
    return str(shtab.complete(top, shell))


def _words(name: str) -> Sequence[str]:
    """The words that an argument takes, of which its help shows what they are."""
    return known_types() if name == "type" else words_of(name)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in own_arguments(parser):
        if isinstance(action, argparse._SubParsersAction):
            continue
        yield ".TP"
        yield rf"\fB{_plain(argument_text(action))}\fR"
        yield _plain((action.help or "").replace("%%", "%"))


def _paragraphs(text: str) -> Iterator[str]:
    """Sentences are filled; what a description lays out by hand, indented, is kept."""
    for block in text.strip().split("\n\n"):
        yield ".PP"
        yield from (
            _verbatim(block)
            if re.search(r"^ ", block, re.MULTILINE)
            else [_plain(" ".join(block.split()))]
        )


def _verbatim(text: str) -> Iterator[str]:
    if text.strip():
        yield ".PP"
        yield ".nf"
        yield from (_plain(line) for line in text.strip("\n").splitlines())
        yield ".fi"


def _sections(text: str) -> Iterator[str]:
    """`examples:` and what is indented below it, and the like, as sections."""
    for line in text.strip("\n").splitlines():
        if line.endswith(":") and not line.startswith(" "):
            yield f".SH {_plain(line.removesuffix(':').upper())}"
        else:
            yield _plain(line.strip())
            yield ".br"


def _plain(text: str) -> str:
    """Text without meaning for roff."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    escaped = re.sub(r"[^\x00-\x7f]", lambda one: rf"\[u{ord(one[0]):04X}]", escaped)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
