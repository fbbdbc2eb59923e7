"""`pull`: the live quorum as one more replica, over Kafka's own protocol.

In: parsed arguments. Out: the folder below `--out`, a row per replica of the quorum on stdout, what
has come on stderr. `run` takes the same options. Needs the extra `kraftlog[pull]`, and no Spark.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from kraftlog.commands.command import add_format, command
from kraftlog.commands.values import at_least, local_path
from kraftlog.parts import require
from kraftlog.plain import offsets_are, tell
from kraftlog.pull.address import Unreachable, read_addresses
from kraftlog.pull.describe import lag_rows
from kraftlog.pull.folder import PulledFolder, pulled_folder, refuse_foreign
from kraftlog.pull.leader import LeaderClient
from kraftlog.pull.messages import Description
from kraftlog.pull.pace import Pace
from kraftlog.pull.puller import Puller
from kraftlog.report.rows import print_rows

FOLLOW_SECONDS, RETRY_SECONDS = 1.0, 5.0
_DESCRIPTION = """\
Fetch the metadata log of a running quorum from its leader, as an observer that the quorum does not
count: the newest snapshot, the log, and what the leader says of all replicas. The folder is one
more replica for every other command; a second pull goes on where the first one ended. It holds
secrets in clear. The user of --command-config needs CLUSTER_ACTION and DESCRIBE on the cluster.
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
        type=local_path,
        required=required,
        metavar="DIR",
        help="the folder to pull into: a new one, or one that pull has made",
    )
    parser.add_argument(
        "--command-config",
        type=local_path,
        metavar="FILE",
        help="client properties for TLS and SASL, as Kafka's own tools take them",
    )
    parser.add_argument(
        "--max-bytes-per-second",
        type=partial(at_least, 1),
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
        print_rows(iter(lag_rows(described)), chosen.format)
    return 0


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
