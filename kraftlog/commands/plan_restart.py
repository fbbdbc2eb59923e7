"""`plan restart`: may each node be restarted, what does it lose, in which order.

In: parsed arguments. Out: one row per replica, those that may start first. What a node loses is
told as objects: the state with the lost records against the state without them. No Spark.
"""

import argparse
import os
from collections.abc import Iterator
from typing import Any

from kraftlog.commands.place import Images, Place
from kraftlog.commands.plan_input import add_input, fault_rows, options_of, read_quorum
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import KraftlogError
from kraftlog.quorum.model import Quorum
from kraftlog.report.rows import print_rows
from kraftlog.simulate.restart import Restart, restarts
from kraftlog.state.difference import differences

Row = dict[str, Any]


def add_plan(plans: "argparse._SubParsersAction[Any]") -> None:
    """Add `restart`."""
    parser = plans.add_parser(
        "restart",
        help="may each node be restarted, and what would it lose",
        description=(
            "For each node: safe, loses (and which objects), unsafe, or unknown (and whose copies "
            "would tell); with the order of a rolling restart."
        ),
    )
    add_input(parser)
    parser.set_defaults(command=_restart)


def _restart(chosen: argparse.Namespace) -> int:
    quorum = read_quorum(options_of(chosen), decodes=True)
    rows = [_row(quorum, one) for one in restarts(quorum)]
    if chosen.format == "table":
        rows = [row | {"lost": _in_words(row["lost"])} for row in rows]
    print_rows((*rows, *fault_rows(quorum)), chosen.format)
    return 0


def _row(quorum: Quorum, one: Restart) -> Row:
    return {
        "replica": one.replica,
        "node_id": one.node_id,
        "verdict": str(one.safety),
        "reason": one.reason,
        "lost": list(_lost(quorum, one)),
        "needs": list(one.needs),
        "order": one.order,
    }


def _lost(quorum: Quorum, one: Restart) -> Iterator[Row]:
    """What the records from `lost_from` on had changed; a row with `fault` where the state cannot
    be rebuilt there.
    """
    log = quorum.by_label[one.replica]
    if one.lost_from is None or one.lost_from >= (log.end_offset or 0):
        return
    images = Images(None, Redactor(os.urandom(32)))
    try:
        before, _ = images.at(log.evidence.folder, Place(one.lost_from))
        after, _ = images.at(log.evidence.folder, Place())
    except KraftlogError as error:
        yield {"fault": str(error)}
        return
    for found in differences(before.state, after.state):
        yield found._asdict() | {"key": list(found.key)}


def _in_words(lost: list[Row]) -> str:
    """How many objects of each kind, and the first names; `--format json` has them whole."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for one in lost:
        if "fault" in one:
            return str(one["fault"])
        name = (one["after"] or one["before"] or {}).get("name") if one["field"] is None else None
        key = str(name or "/".join(str(part) for part in one["key"]))
        found.setdefault((one["table"], one["change"]), {})[key] = None
    told = []
    for (table, change), keys in found.items():
        shown = list(keys)[:_NAMED]
        more = ", …" if len(keys) > _NAMED else ""
        told.append(f"{len(keys)} {table} {change} ({', '.join(shown)}{more})")
    return "; ".join(told)


_NAMED = 3
"""So many objects of each kind are named in a table."""
