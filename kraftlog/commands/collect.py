"""`collect`: the commands that copy the folders of nodes, and whether what has come can be audited.

In: where nodes are. Out: a script on stdout, which is never run here; with `--check`, a row per
copy. Needs neither Spark nor a network.
"""

import argparse
from dataclasses import asdict

from kraftlog.commands.command import add_format, command
from kraftlog.commands.values import local_path
from kraftlog.errors import UsageError
from kraftlog.pull.address import read_addresses
from kraftlog.pull.arrived import arrived
from kraftlog.pull.copying import copy_script, kubectl_source, ssh_source
from kraftlog.report.rows import print_rows

_DESCRIPTION = """\
Print the commands that copy the metadata log folders of nodes, in the right order; nothing is run.
FOLDER is metadata.log.dir, else the first of log.dirs: the one that holds __cluster_metadata-0. The
copies hold secrets in clear. With --check, look at what has come: exit code 1 where a copy cannot
be audited.
"""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=local_path,
        required=True,
        metavar="DIR",
        help="where the copies go, each into a folder of its own",
    )
    parser.add_argument(
        "--ssh",
        action="append",
        default=[],
        metavar="[NAME=][USER@]HOST:FOLDER",
        help="a machine that ssh reaches",
    )
    parser.add_argument(
        "--kubectl",
        action="append",
        default=[],
        metavar="[NAME=][NAMESPACE/]POD:FOLDER",
        help="a pod that kubectl reaches",
    )
    parser.add_argument("--sudo", action="store_true", help="read as root on machines")
    parser.add_argument(
        "--bootstrap-controller",
        metavar="HOST:PORT",
        help="then pull the live quorum, so that the audit knows what is committed",
    )
    parser.add_argument("--check", action="store_true", help="look at what has come")
    add_format(parser)


@command(
    "collect",
    "print the commands that copy folders by ssh or kubectl; check what has come",
    _DESCRIPTION,
    arguments=_arguments,
    examples="""
    kraftlog collect --out copies --ssh admin@c1:/var/lib/kafka --ssh 2=admin@c2:/var/lib/kafka
    kraftlog collect --out copies --kubectl kafka/controller-0:/var/lib/kafka/data
    kraftlog collect --out copies --ssh c2:/var/lib/kafka --sudo --bootstrap-controller c1:9093
    kraftlog collect --out copies --check
    """,
)
def _collect(chosen: argparse.Namespace) -> int:
    sources = [*map(ssh_source, chosen.ssh), *map(kubectl_source, chosen.kubectl)]
    if chosen.check:
        if sources:
            raise UsageError("--check looks at what lies below --out; it takes no node")
        found = arrived(chosen.out)
        print_rows(map(asdict, found), chosen.format)
        return int(any(one.problem for one in found))
    if not sources:
        raise UsageError("no node is named: say --ssh HOST:FOLDER or --kubectl POD:FOLDER")
    if chosen.bootstrap_controller is not None:
        read_addresses(chosen.bootstrap_controller)
    lines = copy_script(sources, str(chosen.out), chosen.bootstrap_controller, chosen.sudo)
    print("\n".join(lines))
    return 0
