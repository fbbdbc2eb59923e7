"""`changes`: what is different since the last run of a lake, or between two offsets. No Spark.

In: a lake and two of its runs, or a quorum's files and two offsets. Out: findings, replicas,
elections and objects that are new, gone or changed.
"""

import argparse
from collections.abc import Iterator

from rich.markup import escape

from kraftlog.commands.command import add_format, add_roots, command, options_of
from kraftlog.commands.faults import fault_rows, tell_faults
from kraftlog.errors import InputError, UsageError
from kraftlog.explain.elected import elected_in
from kraftlog.explain.moments import MomentSource
from kraftlog.explain.timeline import net, object_rows
from kraftlog.pipeline.progress import waiting
from kraftlog.plain import printable, tell
from kraftlog.quorum.model import Quorum
from kraftlog.quorum.restorable import lost_everywhere
from kraftlog.relations import Row
from kraftlog.report.printed_rows import print_rows
from kraftlog.report.terminal import console_on
from kraftlog.source.collected import collected
from kraftlog.source.task_settings import redactor_of

_DESCRIPTION = """\
What changed since the last run of a lake: findings, replicas, elections and objects that are new,
gone or changed. With --input, objects and elections between two offsets of the quorum's history.
"""
_TITLES = {
    "finding": "Findings",
    "history": "History",
    "replica": "Replicas",
    "election": "Elections",
    "object": "Objects",
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--lake", metavar="FOLDER", help="a lake with two runs or more")
    add_roots(where)
    parser.add_argument("--run", type=int, metavar="N", help="the later run; default: the newest")
    parser.add_argument(
        "--since", type=int, metavar="N", help="the earlier run; default: the one before that"
    )
    parser.add_argument(
        "--from",
        type=int,
        metavar="N",
        dest="first",
        help="with --input: the state before offset N",
    )
    parser.add_argument(
        "--to",
        type=int,
        metavar="N",
        dest="end",
        help="with --input: against the state before offset N",
    )
    add_format(parser)


@command(
    "changes",
    "what is different between two runs of a lake, or two offsets",
    _DESCRIPTION,
    arguments=_arguments,
    examples="""
    kraftlog changes --lake lake                     the newest run against the one before it
    kraftlog changes --input replicas --from 176 --to 362
    """,
)
def _changes(chosen: argparse.Namespace) -> int:
    opened = _opened(chosen) if chosen.lake is None else None
    is_whole = opened is None or not tell_faults(fault_rows(opened))
    found = _of_lake(chosen) if opened is None else _of_files(chosen, opened)
    if found is None:
        return 0
    rows = list(found)
    if chosen.format == "json":
        print_rows(rows, "json")
        return 0
    console = console_on()
    for kind, title in _TITLES.items():
        held = [row for row in rows if row["kind"] == kind]
        if held:
            console.print(f"[bold]{title}[/bold]")
        for row in held:
            name = f"{row['name']}: " if kind == "finding" else ""
            console.print(escape(printable(f"  {row['change']:8} {name}{row['text']}")))
    if not rows:
        console.print(
            "nothing is different" if is_whole else "nothing that could be read is different"
        )
    return 0


def _of_lake(chosen: argparse.Namespace) -> Iterator[Row] | None:
    """What differs between two runs; None where there is only one."""
    if chosen.first is not None or chosen.end is not None:
        raise UsageError("--from and --to are offsets of --input; runs are --run and --since")
    from kraftlog.pipeline.changed import changes_in, two_runs
    from kraftlog.tables.place import lake_at

    lake = lake_at(chosen.lake)
    before, after = two_runs(lake, chosen.run, chosen.since)
    if before is None:
        tell("the lake has one run: there is nothing to compare it with yet")
        return None
    tell(f"run {after['number']} against run {before['number']}")
    return changes_in(lake, before, after)


def _opened(chosen: argparse.Namespace) -> Quorum:
    if chosen.run is not None or chosen.since is not None:
        raise UsageError("--run and --since are runs of --lake; offsets are --from and --to")
    if chosen.first is None or chosen.end is None or chosen.first >= chosen.end:
        raise UsageError("with --input say --from N --to M, two offsets, the lower one first")
    options = options_of(chosen)
    with waiting("changes"):
        return collected(options.input, options)


def _of_files(chosen: argparse.Namespace, quorum: Quorum) -> Iterator[Row]:
    """What differs between the states before two offsets."""
    offsets = range(chosen.first, chosen.end)
    source = MomentSource(quorum, redactor_of(options_of(chosen)), frozenset(), offsets)
    found = net(source.moments(), chosen.first, chosen.end)
    if found.begins > chosen.first:
        raise InputError(f"the history at hand begins at offset {found.begins}: choose --from so")
    ends = int(quorum.chain.end.max(initial=0))
    if chosen.end > ends:
        raise InputError(f"the history at hand ends at offset {ends}: choose --to so")
    for low, high in lost_everywhere(quorum):
        if low <= chosen.end and chosen.first <= high:
            raise InputError(
                f"the states at offsets {low} to {high} can be rebuilt from no file at hand: choose --from and --to on one side of them"
            )
    for one in elected_in(quorum).values():
        if one.begins_there and one.start_offset in offsets:
            yield one.as_row("new")
    yield from object_rows(found)
