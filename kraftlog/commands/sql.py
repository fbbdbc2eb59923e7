"""`sql`: a question to a lake, answered without Spark."""

import argparse

from kraftlog.commands.command import add_format, command
from kraftlog.parts import require
from kraftlog.report.rows import print_rows


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="one query, such as: SHOW TABLES")
    parser.add_argument("--lake", required=True, metavar="FOLDER", help="the lake")
    add_format(parser)


@command(
    "sql",
    "a query over a lake, without Spark",
    "Answer one SQL query over the tables of a lake, as its newest whole run has published them. "
    "DuckDB answers; nothing is written.",
    arguments=_arguments,
    examples="""
    kraftlog sql "SHOW TABLES" --lake lake/
    kraftlog sql "SELECT severity, replica, message FROM findings" --lake lake/ --format json
    """,
)
def _sql(chosen: argparse.Namespace) -> int:
    require("sql")
    from kraftlog.tables.query import answer

    print_rows(answer(chosen.lake, chosen.query), chosen.format)
    return 0
