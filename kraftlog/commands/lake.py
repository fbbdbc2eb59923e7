"""`lake check|compact|expire`: whether a lake is whole, and keeping it small; `sql`: a question to
one, answered without Spark.

A run keeps its lake by itself; these are for lakes that other tools have touched, and for those who
want to see.
"""

import argparse
import sys

from kraftlog.commands.command import Arguments, add_format, command, family
from kraftlog.commands.values import add_conf
from kraftlog.extras import require
from kraftlog.pipeline.arguments import add_options, options_in
from kraftlog.plain import heard_or_not
from kraftlog.report.printed_rows import print_rows

_ENOUGH = 2
"""So many small files of one table become one, where it is asked for."""


def _takes(*names: str) -> Arguments:
    def arguments(parser: argparse.ArgumentParser) -> None:
        add_conf(parser)
        add_options(parser, only=frozenset(names))

    return arguments


LAKE = family(
    "lake",
    "check a lake, keep it small",
    "Check a lake, merge its small files, or delete its old versions. Runs do the same as they go. No input is read here.",
    takes="WHAT",
    examples="kraftlog lake check --lake lake/",
)


@command(
    "lake check",
    "name what is damaged or missing; --verify reads every page",
    arguments=_takes("lake", "verify"),
    examples="kraftlog lake check --lake lake/ --verify",
)
def _check(chosen: argparse.Namespace) -> int:
    """0 for a lake without damage, 1 for one that the next run has to mend."""
    from kraftlog.pipeline.keeping import lake_damage

    lines = lake_damage(options_in(chosen))
    with heard_or_not(sys.stdout):
        print(*lines.damaged, lines.summary, sep="\n")
    return 1 if lines.damaged else 0


@command(
    "lake compact",
    "merge small files that lie together into one",
    arguments=_takes("lake", "lease_seconds", "wait_seconds"),
    examples="kraftlog lake compact --lake lake/",
)
def _compact(chosen: argparse.Namespace) -> int:
    from kraftlog.pipeline.keeping import compact_lake

    print(compact_lake(options_in(chosen), _ENOUGH))
    return 0


@command(
    "lake expire",
    "delete versions and rows of runs before the last --keep-runs and --keep-rows",
    arguments=_takes("lake", "lease_seconds", "wait_seconds", "keep_runs", "keep_rows"),
    examples="kraftlog lake expire --lake lake/ --keep-runs 1",
)
def _expire(chosen: argparse.Namespace) -> int:
    from kraftlog.pipeline.keeping import expire_lake

    print(expire_lake(options_in(chosen)))
    return 0


def _of_sql(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY", help="one query, such as: SHOW TABLES")
    parser.add_argument("--lake", required=True, metavar="FOLDER", help="the lake")
    add_format(parser)


@command(
    "sql",
    "a query over a lake, without Spark",
    "Answer one SQL query over the tables of a lake, as its newest whole run has published them. "
    "DuckDB answers; nothing is written.",
    arguments=_of_sql,
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
