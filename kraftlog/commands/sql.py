"""`sql`: a question to a lake, answered without Spark."""

import argparse
from typing import Any

from kraftlog.parts import require
from kraftlog.report.rows import FORMAT_HELP, FORMATS, print_rows


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `sql`."""
    parser = commands.add_parser(
        "sql",
        help="a query over a lake, without Spark",
        description="Answer one SQL query over the tables of a lake, as its newest whole run has "
        "published them. DuckDB answers; nothing is written.",
    )
    parser.add_argument("query", metavar="QUERY", help="one query, such as: SHOW TABLES")
    parser.add_argument("--lake", required=True, metavar="FOLDER", help="the lake")
    parser.add_argument("--format", choices=FORMATS, default="table", help=FORMAT_HELP)
    parser.set_defaults(command=_sql)


def _sql(chosen: argparse.Namespace) -> int:
    require("sql")
    from kraftlog.tables.query import answer

    print_rows(answer(chosen.lake, chosen.query), chosen.format)
    return 0
