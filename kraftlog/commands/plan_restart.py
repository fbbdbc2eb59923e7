"""`plan restart`: may each node be restarted, what does it lose, in which order.

In: parsed arguments. Out: one row per replica, those that may start first. What a node loses is
told as objects: the state with the lost records against the state without them; of a copy that
differs from the others, its state against theirs. No Spark.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from kraftlog.audit.loss_words import UNKNOWN, apart_words, loss_rows, lost_words
from kraftlog.audit.losses import apart_fields, losses_of, lost_fields
from kraftlog.audit.run import audit_of
from kraftlog.commands.command import add_input, command, options_of
from kraftlog.commands.plan_input import fault_rows
from kraftlog.pipeline.judge import replayed
from kraftlog.quorum.history import FileRecords, Records
from kraftlog.quorum.model import Quorum
from kraftlog.report.rows import print_rows
from kraftlog.simulate.restart import Restart
from kraftlog.simulate.restart_rows import apart_of, cut_of, judged_restarts
from kraftlog.source.settings import redactor_of

Row = dict[str, Any]


@command(
    "plan restart",
    "may each node be restarted, and what would it lose",
    "For each node: safe, loses (and which objects), unsafe, or unknown (and whose copies would tell); with the order of a rolling restart.",
    arguments=add_input,
    examples="""
    kraftlog plan restart --input replicas/
    kraftlog plan restart --input replicas/ --format json
    """,
)
def _restart(chosen: argparse.Namespace) -> int:
    options = options_of(chosen)
    quorum = replayed(options.input, options)
    found = judged_restarts(quorum, audit_of(quorum).findings)
    records = FileRecords(redactor_of(options), quorum.evidence.limits)
    if chosen.format == "table":
        rows = [_row(one, _in_words(quorum, records, one)) for one in found]
    else:
        rows = [_row(one, list(_lost(quorum, records, one))) for one in found]
    print_rows((*rows, *fault_rows(quorum)), chosen.format)
    return 0


def _row(one: Restart, lost: Any) -> Row:
    return {
        "replica": one.replica,
        "node_id": one.node_id,
        "verdict": str(one.safety),
        "reason": one.reason,
        "lost": lost,
        "needs": list(one.needs),
        "order": one.order,
    }


def _lost(quorum: Quorum, records: Records, one: Restart) -> Iterator[Row]:
    """What the records from `lost_from` on had changed, or what the replica has otherwise than the
    others; a row with `fault` where the state cannot be rebuilt there.
    """
    cut, apart = cut_of(quorum, one), apart_of(quorum, one)
    if cut is not None:
        found = lost_fields(quorum, records, *cut)
    elif apart is not None:
        found = apart_fields(quorum, records, apart)
    else:
        return
    if found is None:
        yield {"fault": f"{one.replica}: {UNKNOWN}"}
        return
    for each in found:
        yield each._asdict() | {"key": list(each.key)}


def _in_words(quorum: Quorum, records: Records, one: Restart) -> str:
    """The first names of each kind; `--format json` has them whole."""
    cut, apart = cut_of(quorum, one), apart_of(quorum, one)
    if cut is None:
        return "" if apart is None else apart_words(quorum, *apart).strip()
    return lost_words(loss_rows(losses_of(quorum, records, [cut])[cut]))
