"""`plan replicas`: how much consumers of each rack would read within it (KIP-392), and whether a
metadata replica would serve an offset.

In: parsed arguments. Out: rows on stdout, notes on stderr. No Spark.
"""

import argparse
from collections.abc import Iterator
from typing import Any

from kraftlog.commands.plan_input import add_input, fault_rows, options_of, read_quorum
from kraftlog.config import Options
from kraftlog.errors import InputError
from kraftlog.log.directory import find_replicas
from kraftlog.plain import tell
from kraftlog.quorum.model import Quorum
from kraftlog.report.rows import print_rows
from kraftlog.simulate.fetch import Dialect
from kraftlog.simulate.out_of_range import Offsets, classify, fetch_error
from kraftlog.simulate.replica_selection import Cluster, cluster_of, rack_rows, select_all
from kraftlog.simulate.rows import Plans
from kraftlog.simulate.selectors import BUILT_IN, load_selector
from kraftlog.source.settings import limits_of, redactor_of
from kraftlog.state.coverage import scan
from kraftlog.state.image import Image, image_at

Row = dict[str, Any]


def add_plan(plans: "argparse._SubParsersAction[Any]") -> None:
    """Add `plan replicas`."""
    text = "from which replicas consumers of each rack read, with and without follower fetching"
    parser = plans.add_parser("replicas", help=text, description=f"{text.capitalize()}.")
    add_input(parser)
    parser.add_argument("--at", type=int, metavar="OFFSET", help="the state before this offset")
    parser.add_argument(
        "--selector",
        default="rack-aware",
        metavar="NAME",
        help=f"{', '.join(BUILT_IN)}, or module:Class on PYTHONPATH (default: rack-aware)",
    )
    parser.add_argument(
        "--serves",
        type=int,
        metavar="OFFSET",
        help="instead: whether each metadata replica would serve this offset",
    )
    parser.set_defaults(command=_run)


def _run(chosen: argparse.Namespace) -> int:
    selector, options = load_selector(chosen.selector), options_of(chosen)
    quorum = read_quorum(options)
    if chosen.serves is not None:
        rows = list(serving_rows(quorum, chosen.serves))
    else:
        image = furthest_image(quorum, options, chosen.at)
        cluster = cluster_of(image.state)
        _notes(image, cluster)
        rows = list(rack_rows(select_all(cluster, selector)))
    print_rows((*rows, *fault_rows(quorum)), chosen.format)
    return 0


def furthest_image(quorum: Quorum, options: Options, at: int | None) -> Image:
    """The image of the replica that holds most of what is committed, at an offset, or as far as is
    known to be committed (to the end of its history, where nothing is known of that).

    Raises InputError where no replica's state can be rebuilt there.
    """
    plans = Plans(quorum)
    reaches = {log.label: plans.committed_reach(log) for log in quorum.peers}
    replicas = {one.label: one for one in find_replicas(options.input)}
    first: InputError | None = None
    for label in sorted(reaches, key=lambda one: -reaches[one]):
        offset = at
        if offset is None:
            offset = min(reaches[label], quorum.bounds.lower or reaches[label])
        try:
            coverage = scan(replicas[label], limits_of(options))
            return image_at(coverage, offset, redactor_of(options), quorum.bounds.lower)
        except InputError as error:
            first = first or error
    raise first or InputError("no replica holds a readable metadata log")


def _notes(image: Image, cluster: Cluster) -> None:
    """Whose state it is, and brokers that no consumer can be near to (R133)."""
    tell(f"the state of {image.replica} at {image.end_offset}")
    bare = cluster.without_rack
    if bare:
        whole = len(bare) == len(cluster.brokers)
        which = "no broker names" if whole else f"brokers {', '.join(map(str, bare))} do not name"
        tell(f"{which} a rack; set broker.rack")


def serving_rows(quorum: Quorum, offset: int) -> Iterator[Row]:
    """The four cases of KIP-392 for each copy of the metadata log (R142). KRaft itself lets only
    its leader answer; the high watermark is the lower committed bound where it is not given. Of a
    copy that goes its own way, what it holds from there on is not committed.
    """
    plans, lower = Plans(quorum), quorum.bounds.lower
    for log in quorum.peers:
        end, reach = log.end_offset or 0, plans.committed_reach(log)
        held = Offsets(log.start_offset or 0, end, reach if reach < min(lower, end) else lower)
        yield {
            "replica": log.label,
            "offset": offset,
            "case": str(classify(held, offset)),
            "error": fetch_error(held, offset, Dialect.ADOPTED),
            "log_start_offset": held.log_start,
            "high_watermark": held.high_watermark,
            "log_end_offset": held.log_end,
        }
