"""`recover`: a new quorum from what remains of an old one. Needs no Spark; writes to a new folder
only.
"""

import argparse
import json
import re

from kraftlog.audit.runner import audit_of
from kraftlog.commands.command import add_input, command, options_of
from kraftlog.commands.faults import fault_rows, tell_faults
from kraftlog.commands.values import local_argument
from kraftlog.errors import InputError
from kraftlog.pipeline.input_audit import replayed
from kraftlog.pipeline.progress import waiting
from kraftlog.plain import printable, tell
from kraftlog.recover.kit import new_folder, new_image, recovered_voters, write_kit, write_text
from kraftlog.recover.recovery_plan import plan_text, plan_values
from kraftlog.recover.source import recovered
from kraftlog.report.printed_rows import print_rows
from kraftlog.simulate.restart_rows import able_voters

_DESCRIPTION = """\
The newest state that the remaining copies prove, as the beginning of a new quorum: for each new
voter a checkpoint with the new voters and a meta.properties, for each broker the meta.properties of
its disks, and plan.md, which says whether the old voters can go on instead, what is kept, lost and
unknown, and what to do in which order, with the commands for each node. Review it; nothing is
started, and nothing is written but the new folder.
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--out", required=True, type=local_argument, metavar="NEW", help="a new folder"
    )
    parser.add_argument(
        "--voters",
        nargs="+",
        action="extend",
        required=True,
        metavar="VOTER",
        help="the new voters: id@host:port:directory-id, as kafka-storage takes them",
    )
    parser.add_argument("--at", type=int, metavar="N", help="take only records below this offset")
    parser.add_argument(
        "--listener",
        default="CONTROLLER",
        type=_listener,
        metavar="NAME",
        help="the controllers' listener",
    )
    parser.add_argument("--cluster-id", metavar="ID", help="instead of that of the copies")


def _listener(text: str) -> str:
    """The name of one listener: Kafka loads no voters with a blank one, and commas part several.

    Raises ArgumentTypeError for anything else."""
    if not re.fullmatch(r"[\w.-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a listener")
    return text


@command(
    "recover",
    "a new quorum from what remains: checkpoints, meta.properties, a plan",
    _DESCRIPTION,
    arguments=_arguments,
    examples="""
    kraftlog recover --input replicas/ --out new/ --voters 1@c1:9093:nxOpeKMeTXCDlz7dwIMJkA
    """,
)
def _recover(chosen: argparse.Namespace) -> int:
    voters = recovered_voters(chosen.voters)
    options = options_of(chosen)
    roots = list(options.input)
    with waiting("recover"):
        quorum = replayed(roots, options)
        found = recovered(quorum, chosen.at)
        # An older state is asked for on purpose.
        able = able_voters(quorum, audit_of(quorum)) if chosen.at is None else []
    cluster_id = chosen.cluster_id or found.cluster_id
    if cluster_id is None:
        raise InputError("no copy says which cluster it is of: name it with --cluster-id")
    out = new_folder(chosen.out, roots)
    image = new_image(found.image, voters, chosen.listener)
    files = write_kit(out, image, voters, found.brokers, cluster_id)
    lines = plan_text(found, voters, cluster_id, chosen.listener, roots, able).split("\n")
    text = "\n".join(map(printable, lines))
    values = plan_values(found, voters, files, cluster_id, able)
    write_text(out / "plan.md", text)
    write_text(out / "plan.json", json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    if chosen.format == "json":
        print_rows([values], "json")
    else:
        print(text, end="")
    tell_faults(fault_rows(quorum))
    tell(f"{out / 'plan.md'}: review it first; the checkpoints hold secrets in clear text")
    return 0
