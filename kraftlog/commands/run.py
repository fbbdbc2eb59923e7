"""`run`: the whole pipeline into Delta tables, a page, and a summary on the terminal."""

import argparse
from pathlib import Path
from typing import Any

from kraftlog.config import load_options
from kraftlog.pipeline.arguments import add_options


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `run`."""
    parser = commands.add_parser(
        "run",
        help="the whole pipeline into Delta tables, a page, and a summary",
        description="Decode, materialize, audit and measure; only what is new is read. The page is "
        "report.html in the lake's folder.",
    )
    parser.add_argument("--conf", type=Path, metavar="FILE", help="options as TOML")
    add_options(parser)
    parser.set_defaults(command=_run)


def _run(chosen: argparse.Namespace) -> int:
    given = {key: value for key, value in vars(chosen).items() if key not in ("command", "conf")}
    options = load_options(given, chosen.conf)
    from kraftlog.pipeline.job import starter
    from kraftlog.pipeline.page import page_path
    from kraftlog.pipeline.run import lake_of
    from kraftlog.pipeline.steps import run_pipeline
    from kraftlog.report.summary import print_summary

    outcome = run_pipeline(starter("kraftlog run", options), options)
    lake = lake_of(options)
    print_summary(lake, page_path(lake), is_new=outcome.is_new)
    return outcome.exit_code
