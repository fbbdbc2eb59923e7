"""`run`: the whole pipeline into Delta tables, and a summary on the terminal."""

import argparse
from pathlib import Path
from typing import Any

from kraftlog.config import load_options
from kraftlog.pipeline.arguments import add_options
from kraftlog.report.summary import print_summary
from kraftlog.tables.lake import Lake


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `run`."""
    parser = commands.add_parser(
        "run",
        help="the whole pipeline into Delta tables, and a summary",
        description="Decode, materialize, audit and measure; only what is new is read.",
    )
    parser.add_argument("--conf", type=Path, metavar="FILE", help="options as TOML")
    add_options(parser)
    parser.set_defaults(command=_run)


def _run(chosen: argparse.Namespace) -> int:
    given = {key: value for key, value in vars(chosen).items() if key not in ("command", "conf")}
    options = load_options(given, chosen.conf)
    from kraftlog.pipeline.run import lake_of
    from kraftlog.pipeline.steps import pipeline
    from kraftlog.session import spark_session

    lake = lake_of(options)
    code = pipeline(spark_session("kraftlog run", master=options.master), options)
    print_summary(Lake(lake.root))
    return code
