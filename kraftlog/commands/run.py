"""`run`: the whole pipeline into Delta tables, a page, and a summary on the terminal."""

import argparse
from dataclasses import replace
from pathlib import Path

from kraftlog.commands.command import command
from kraftlog.commands.pull import PULL_OPTIONS, add_pull_options, pull_once
from kraftlog.commands.values import add_conf
from kraftlog.errors import UsageError
from kraftlog.pipeline.arguments import add_options, options_in


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_conf(parser)
    add_options(parser)
    add_pull_options(parser.add_argument_group("a running quorum, pulled first"))


@command(
    "run",
    "the whole pipeline into Delta tables, a page, and a summary",
    "Decode, materialize, audit and measure; only what is new is read. The page is report.html in the lake's folder.",
    arguments=_arguments,
    examples="""
    kraftlog run --input replicas/ --lake lake/
    kraftlog run --input replicas/ --lake lake/ --fail-on warning
    kraftlog run --bootstrap-controller c1:9093 --out replicas/live --lake live-lake/
    """,
)
def _run(chosen: argparse.Namespace) -> int:
    options = options_in(chosen)
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
