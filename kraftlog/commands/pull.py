"""`pull`: the live quorum as one more replica, over Kafka's own protocol; `collect`: the commands
that copy the folders of nodes, and whether what has come can be audited.

In: parsed arguments. Out: the folder below `--out`, a row per replica of the quorum on stdout, what
has come on stderr; `run` takes the same options. Or a script on stdout, which is never run here; with
`--check`, a row per copy. `pull` needs the extra `kraftlog[pull]`, neither needs Spark.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

from kraftlog.commands.command import add_format, command
from kraftlog.commands.values import local_argument, millis_text, number_from
from kraftlog.errors import UsageError
from kraftlog.extras import require
from kraftlog.plain import heard_or_not, offsets_are, tell
from kraftlog.pull.address import Unreachable, read_addresses
from kraftlog.pull.arrived import arrived
from kraftlog.pull.copying import copy_script, kubectl_source, ssh_source
from kraftlog.pull.description import lag_rows
from kraftlog.pull.folder import PulledFolder, pulled_folder, refuse_foreign
from kraftlog.pull.leader import LeaderClient, Pace
from kraftlog.pull.messages import Description
from kraftlog.pull.puller import Puller
from kraftlog.relations import Row
from kraftlog.report.printed_rows import print_rows

FOLLOW_SECONDS, RETRY_SECONDS = 1.0, 5.0
_DESCRIPTION = """\
Fetch the metadata log of a running quorum from its leader, as an observer that the quorum does not
count: the newest snapshot, the log, and what the leader says of all replicas. The folder is one
more replica for every other command; a second pull goes on where the first one ended. It holds
secrets in clear. The user of --command-config needs CLUSTER_ACTION and DESCRIBE on the cluster.
"""
_COLLECT = """\
Print the commands that copy the metadata log folders of nodes, in the right order; nothing is run.
FOLDER is metadata.log.dir, else the first of log.dirs: the one that holds __cluster_metadata-0. The
copies hold secrets in clear. With --check, look at what has come: exit code 1 where a copy cannot
be audited.
"""


def add_pull_options(parser: argparse._ActionsContainer, *, required: bool = False) -> None:
    """The options that `pull` and `run` share."""
    parser.add_argument(
        "--bootstrap-controller",
        required=required,
        metavar="HOST:PORT",
        help="controllers of a running quorum to pull from, separated by commas; an IPv6 host in brackets",
    )
    parser.add_argument(
        "--out",
        type=local_argument,
        required=required,
        metavar="DIR",
        help="the folder to pull into: a new one, or one that pull has made",
    )
    parser.add_argument(
        "--command-config",
        type=local_argument,
        metavar="FILE",
        help="client properties for TLS and SASL, as Kafka's own tools take them",
    )
    parser.add_argument(
        "--max-bytes-per-second",
        type=partial(number_from, 1),
        metavar="N",
        help="pull no faster than this on average",
    )
    parser.add_argument(
        "--newest-only",
        action="store_true",
        help="only the newest snapshot and the log after it, not all that the leader still holds",
    )


PULL_OPTIONS = (
    "bootstrap_controller",
    "out",
    "command_config",
    "max_bytes_per_second",
    "newest_only",
)


def pull_once(chosen: argparse.Namespace) -> Path:
    """Pull as the arguments say; the folder that now holds the quorum's log."""
    with _puller(chosen) as puller:
        _summary(puller.folder, puller.pull())
        return puller.folder.path


def _arguments(parser: argparse.ArgumentParser) -> None:
    add_pull_options(parser, required=True)
    parser.add_argument("--follow", action="store_true", help="stay, and fetch what is new")
    add_format(parser)


@command(
    "pull",
    "the live quorum as one more replica, over Kafka's own protocol",
    _DESCRIPTION,
    arguments=_arguments,
    examples="""
    kraftlog pull --bootstrap-controller c1:9093 --out replicas/live
    kraftlog pull --bootstrap-controller c1:9093 --out live --command-config client.properties
    kraftlog pull --bootstrap-controller c1:9093 --out replicas/live --follow
    kraftlog audit --input replicas/live copies/2      # one node's disk against the live quorum
    """,
)
def _pull(chosen: argparse.Namespace) -> int:
    with _puller(chosen) as puller:
        described = _follow(puller) if chosen.follow else puller.pull()
        _summary(puller.folder, described)
        print_rows(iter(lag_rows(described)), chosen.format, readable=_readable)
    return 0


def _readable(row: Row) -> Row:
    """A row for people: times in UTC."""
    return {
        name.removesuffix("_ms"): millis_text(value) if name.endswith("_ms") else value
        for name, value in row.items()
    }


def _follow(puller: Puller) -> Description:
    """Pull again and again; ends only by a signal, or by an error that does not pass."""
    end = None
    while True:
        try:
            described = puller.pull()
            if puller.folder.end_offset != end:
                _summary(puller.folder, described)
            end = puller.folder.end_offset
            time.sleep(FOLLOW_SECONDS)
        except Unreachable as error:
            tell(f"{error}; trying again")
            time.sleep(RETRY_SECONDS)


@contextmanager
def _puller(chosen: argparse.Namespace) -> Iterator[Puller]:
    addresses = read_addresses(chosen.bootstrap_controller)
    require("pull")
    from kraftlog.pull.connection import Connection
    from kraftlog.pull.security import read_security

    security = read_security(chosen.command_config)
    refuse_foreign(chosen.out)
    connect, pace = partial(Connection, security=security), Pace(chosen.max_bytes_per_second)
    with closing(LeaderClient(addresses, connect, pace)) as client:
        client.meet()
        with pulled_folder(chosen.out) as folder:
            yield Puller(client, folder, tell, chosen.newest_only)


def _summary(folder: PulledFolder, described: Description) -> None:
    leader, start = described.leader, folder.vector.start_offset
    mark = described.high_watermark
    above = folder.end_offset - mark
    held = f"{offsets_are(start, folder.end_offset)} in {folder.path}"
    last = "1 offset is" if above == 1 else f"{above:,} offsets are"
    rest = f", the last {last} not yet" if above > 0 else ""
    tell(
        f"{held}, from leader {leader.node_id} of epoch {leader.epoch}; below offset {mark} all is committed{rest}"
    )


def _of_collect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=local_argument,
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
    _COLLECT,
    arguments=_of_collect,
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
        with heard_or_not(sys.stdout):
            print_rows(map(asdict, found), chosen.format)
        return int(any(one.problem for one in found))
    if not sources:
        raise UsageError("no node is named: say --ssh HOST:FOLDER or --kubectl POD:FOLDER")
    if chosen.bootstrap_controller is not None:
        read_addresses(chosen.bootstrap_controller)
    lines = copy_script(sources, str(chosen.out), chosen.bootstrap_controller, chosen.sudo)
    print("\n".join(lines))
    return 0
