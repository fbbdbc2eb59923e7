"""`run`: the whole pipeline into Delta tables, a page, and a summary on the terminal."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from kraftlog.commands.local import local_path
from kraftlog.commands.pull import PULL_OPTIONS, add_pull_options, pull_once
from kraftlog.config import load_options
from kraftlog.errors import UsageError
from kraftlog.pipeline.arguments import add_options


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `run`."""
    parser = commands.add_parser(
        "run",
        help="the whole pipeline into Delta tables, a page, and a summary",
        description="Decode, materialize, audit and measure; only what is new is read. The page is "
        "report.html in the lake's folder.",
    )
    parser.add_argument("--conf", type=local_path, metavar="FILE", help="options as TOML")
    add_options(parser)
    add_pull_options(parser.add_argument_group("a running quorum, pulled first"))
    parser.set_defaults(command=_run)


def _run(chosen: argparse.Namespace) -> int:
    not_options = ("command", "conf", *PULL_OPTIONS)
    given = {key: value for key, value in vars(chosen).items() if key not in not_options}
    options = load_options(given, chosen.conf)
    options = replace(options, input=(*options.input, *_pulled(chosen, options.input)))
    from kraftlog.pipeline.job import run_and_tell

    return run_and_tell("pipeline", "kraftlog run", options)


def _pulled(chosen: argparse.Namespace, roots: tuple[str, ...]) -> tuple[str, ...]:
    """The folder that was pulled into, where a quorum is named and no root holds it already."""
    if chosen.bootstrap_controller is None:
        named = [one for one in PULL_OPTIONS if getattr(chosen, one)]
        if named:
            flag = "--" + named[0].replace("_", "-")
            raise UsageError(f"{flag} only goes with --bootstrap-controller")
        return ()
    if chosen.out is None:
        raise UsageError("--bootstrap-controller needs --out, the folder to pull into")
    path = pull_once(chosen).resolve()
    below = any(path.is_relative_to(Path(root).resolve()) for root in roots)
    return () if below else (str(chosen.out),)
