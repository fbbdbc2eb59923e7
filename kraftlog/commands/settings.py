"""`settings`: every value that an audit or a run with these arguments goes by, and where each comes
from.

In: parsed arguments. Out: rows on stdout. No Spark.
"""

import argparse
from collections.abc import Iterator

from kraftlog.audit.origins import setting_rows
from kraftlog.commands.command import add_format, command
from kraftlog.commands.values import add_conf
from kraftlog.config import Options
from kraftlog.errors import UsageError
from kraftlog.pipeline.arguments import add_options, options_in
from kraftlog.relations import Row
from kraftlog.report.printed_rows import print_rows
from kraftlog.source.collected import collected


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_conf(parser)
    add_options(parser)
    add_format(parser)


@command(
    "settings",
    "which values a run goes by, and where each comes from",
    "Every option, what is known of the quorum, and each node's settings: value, where it comes from, and what goes by it. With --lake alone it tells what the newest run went by.",
    arguments=_arguments,
    examples="""
    kraftlog settings --input replicas/
    kraftlog settings --input replicas/ --lag-offsets 500 --format json
    kraftlog settings --lake lake/
    """,
)
def _settings(chosen: argparse.Namespace) -> int:
    print_rows(_rows(options_in(chosen)), chosen.format, readable=_in_words)
    return 0


def _rows(options: Options) -> Iterator[Row]:
    if options.input:
        quorum = collected(options.input, options)
        yield from setting_rows(quorum, options)
    elif options.lake:
        from kraftlog.pipeline.run import newest_run
        from kraftlog.tables.place import lake_at
        from kraftlog.tables.reports import SETTINGS

        lake = lake_at(options.lake)
        yield from lake.told_rows(SETTINGS, newest_run(lake)["run_id"])
    else:
        raise UsageError("no input is named: say --input FOLDER, or --lake FOLDER")


def _in_words(row: Row) -> Row:
    """A row for people: fewer columns."""
    unit = f" {row['unit']}" if row["unit"] and row["value"] is not None else ""
    return {
        "setting": row["setting"],
        "value": None if row["value"] is None else f"{row['value']}{unit}",
        "replica": row["replica"],
        "from": row["source"],
        "why": row["message"] or row["path"],
    }
